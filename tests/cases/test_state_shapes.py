"""Cases 32–34: a state that changes its shape, that does not fit, and that is reset by a mask."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import Recur, TanhCell
from tests.cases.harness import NUMERICAL, Fields, three_ways

# ---------------------------------------------------------------- case 32


@mt.differentiable
class Growing:
    w: np.ndarray
    h: np.ndarray

    def __call__(self, x):
        h = self.h if self.h.ndim == 2 else self.h[:, np.newaxis]
        self.h = np.tanh(self.w @ h + x)
        return self.h


def run(m, xs):
    total = 0.0
    for x in xs:
        total = total + np.sum(m(x) ** 2)
    return total


def growing(xp, size=8):
    rng = np.random.default_rng(32)
    return Growing(xp.asarray(0.3 * rng.normal(size=(size, size))), xp.asarray(rng.normal(size=size)))


def inputs(xp, size=8, batch=10):
    rng = np.random.default_rng(33)
    return [xp.asarray(rng.normal(size=(size, batch))) for _ in range(2)]


def test_a_state_of_shape_8_that_becomes_8_by_10_has_a_tangent_of_shape_8(xp):
    xs = inputs(xp)
    three_ways(lambda: (growing(xp),), lambda m: run(m, xs), NUMERICAL)
    m = growing(xp)
    tangent = mt.grad(run)(m, xs)
    assert tangent.h.shape == (8,)
    assert m.h.shape == (8, 10)


def test_the_second_gradient_of_a_growing_state_works(xp):
    xs = inputs(xp, 3, 4)

    def slope(w, h):
        tangent = mt.grad(run)(Growing(w, h), xs)
        assert tangent.h.shape == (3,)
        return np.sum(tangent.h * np.arange(1.0, 4.0)) + np.sum(tangent.w**2)

    m = growing(xp, 3)
    three_ways(lambda: (m.w, m.h), slope, NUMERICAL)


@pytest.mark.parametrize("shape", [(1,), (3, 1), (1, 4), ()])
def test_a_state_that_broadcasts_has_a_tangent_of_its_own_shape(shape, xp):
    @mt.differentiable
    class Sum:
        s: np.ndarray

    def loss(m, x):
        for _ in range(3):
            m.s = m.s * 0.5 + x
        return np.sum(m.s**2)

    x = xp.asarray(np.arange(12.0).reshape(3, 4))
    three_ways(lambda: (Sum(xp.asarray(np.full(shape, 0.7))), x), loss, NUMERICAL)


def test_a_number_that_becomes_an_array_has_a_number_for_its_tangent(xp):
    @mt.differentiable
    class Sum:
        s: float

    def loss(m, x):
        for _ in range(3):
            m.s = m.s * 0.5 + x
        return np.sum(m.s)

    three_ways(lambda: (Sum(0.7), xp.asarray(np.arange(4.0))), loss, (Fields(s=0.5), [1.75] * 4))


def test_a_float32_state_that_becomes_float64_has_a_float32_tangent(xp):
    @mt.differentiable
    class Sum:
        s: np.ndarray

    def loss(m, x):
        for _ in range(3):
            m.s = m.s * x
        return np.sum(m.s)

    three_ways(
        lambda: (Sum(xp.asarray([1.0, 2.0], np.float32)), xp.asarray([3.0, 2.0])),
        loss,
        (Fields(s=[27.0, 8.0]), [27.0, 24.0]),
    )


def test_a_real_state_that_becomes_complex_has_a_real_tangent(xp):
    @mt.differentiable
    class Sum:
        s: np.ndarray

    def loss(m, x):
        m.s = m.s * x
        m.s = m.s * m.s
        return np.sum(np.abs(m.s))

    three_ways(lambda: (Sum(xp.asarray([1.0, 2.0])), xp.asarray([1 + 2j, 2 - 1j])), loss, NUMERICAL)


# ---------------------------------------------------------------- case 33


def test_another_batch_without_a_reset_names_the_field_and_the_cure(xp):
    m = mt.nn.RNN(2, 3, rng=np.random.default_rng(0), dtype=np.float64)

    def loss(m, x):
        return np.sum(m(x) ** 2)

    mt.grad(loss)(m, xp.asarray(np.ones((2, 32))))
    state, weights = m.state, m.cell.Wi
    for _ in range(3):
        for recorded in (True, False):
            with pytest.raises(ValueError, match=r"Recur\.state(.|\n)*\(3, 32\)(.|\n)*\(2, 9\)(.|\n)*reset"):
                (mt.grad(loss) if recorded else loss)(m, xp.asarray(np.ones((2, 9))))
            assert m.state is state
            assert m.cell.Wi is weights
    mt.nn.reset(m)
    assert mt.grad(loss)(m, xp.asarray(np.ones((2, 9)))).state.shape == (3, 1)


@pytest.mark.parametrize("make", ["RNN", "LSTM", "GRU"])
def test_another_batch_in_the_middle_of_a_loss_leaves_the_object_as_before(make):
    m = getattr(mt.nn, make)(2, 3, rng=np.random.default_rng(0), dtype=np.float64)
    before = m.state

    def loss(m):
        m(np.ones((2, 32)))
        return np.sum(m(np.ones((2, 9))))

    for _ in range(3):
        with pytest.raises(ValueError, match="reset"):
            mt.grad(loss)(m)
        assert m.state is before


def test_the_error_of_a_users_own_class_comes_through_unchanged(xp):
    def model():
        rng = np.random.default_rng(5)
        shapes = ((3, 2), (3, 3), (3, 1), (3, 1), (3, 32))
        Wi, Wh, b, state0, state = (xp.asarray(rng.normal(size=shape)) for shape in shapes)
        return Recur(TanhCell(Wi, Wh, b, state0), state)

    m = model()
    state = m.state
    with pytest.raises(ValueError, match="broadcast") as plain:
        m(np.ones((2, 9)))
    for _ in range(3):
        with pytest.raises(ValueError, match="broadcast") as recorded:
            mt.grad(lambda m: np.sum(m(np.ones((2, 9)))))(m)
        assert type(recorded.value) is type(plain.value)
        assert str(recorded.value) == str(plain.value)
        assert m.state is state


# ---------------------------------------------------------------- case 34


@mt.differentiable
class State:
    h: np.ndarray


def test_a_masked_reset_in_the_loss_cuts_where_the_mask_says(xp):
    def loss(o, p):
        o.h = np.tanh(p)
        o.h = np.where([True, False], 0, o.h)
        return np.sum(o.h**2)

    three_ways(
        lambda: (State(xp.asarray([5.0, 5.0])), xp.asarray([0.3, 0.4])), loss, (Fields(), [0.0, 0.650198])
    )


def test_a_masked_reset_by_a_product_and_to_a_learned_state(xp):
    def loss(o, p, start):
        mask = xp.asarray([1.0, 0.0])
        for _ in range(3):
            o.h = np.tanh(p * o.h)
            o.h = mask * start + (1 - mask) * o.h
        return np.sum(o.h**2)

    three_ways(
        lambda: (State(xp.asarray([0.5, 0.6])), xp.asarray([0.3, 0.4]), xp.asarray([0.2, 0.1])),
        loss,
        NUMERICAL,
    )


def test_a_reset_that_depends_on_the_state(xp):
    def loss(o, p):
        for _ in range(4):
            o.h = o.h + p
            o.h = np.where(o.h > 1.0, o.h - 1.0, o.h * 1.1)
        return np.sum(o.h**2)

    three_ways(lambda: (State(xp.asarray([0.5, 0.1])), xp.asarray([0.3, 0.4])), loss, NUMERICAL)
