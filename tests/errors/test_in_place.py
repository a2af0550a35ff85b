"""A write in place is right or a named error, never a wrong gradient; NumPy's own refusals come through."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways


@mt.differentiable
class Box:
    v: np.ndarray
    w: np.ndarray


def set_item(b):
    b.v[0] = 1.0


def set_slice_to_traced(b):
    b.v[:1] = b.w[:1]


def set_mask(b):
    b.v[b.v > 0] = 0.0


def set_in_view(b):
    row = b.v[:1]
    row[0] = 5.0


def add(b):
    b.v += b.w


def multiply_slice(b):
    b.v[:1] *= 2


def add_to_local(b):
    x = b.v
    x += 1.0


def out(b):
    np.add(b.w, 1.0, out=b.v)


def fill(b):
    b.v.fill(0.0)


def sort(b):
    b.v.sort()


def copy_to(b):
    np.copyto(b.v, b.w)


def add_at(b):
    np.add.at(b.v, [0], 1.0)


WRITES = [
    set_item,
    set_slice_to_traced,
    set_mask,
    set_in_view,
    add,
    multiply_slice,
    add_to_local,
    out,
    fill,
    sort,
    copy_to,
    add_at,
]
every_write = pytest.mark.parametrize("write", WRITES)
# NumPy's own `ufunc.at` does not look at the flag.
every_write_that_looks = pytest.mark.parametrize("write", [write for write in WRITES if write is not add_at])


def loss_after(write):
    def loss(b):
        b.w = b.w * 3
        write(b)
        return np.sum(b.v**2 * b.w)

    return loss


@every_write
def test_a_write_into_a_traced_array_is_differentiated_as_the_plain_run_behaves(write):
    three_ways(lambda: (Box(np.array([2.0, 1.0]), np.array([3.0, 4.0])),), loss_after(write), NUMERICAL)


def test_a_write_without_a_rule_is_a_named_error():
    box = Box(np.array([2.0, 1.0]), np.array([3.0, 4.0]))
    v, w = box.v, box.w
    for _ in range(3):
        with pytest.raises(mt.NoRuleError, match=r"multiply\.at"):
            mt.grad(loss_after(lambda b: np.multiply.at(b.v, [0], 2.0)))(box)
        assert box.v is v
        assert box.w is w
        np.testing.assert_array_equal(v, [2.0, 1.0])


@every_write_that_looks
def test_a_write_into_a_read_only_array_is_refused_as_in_the_plain_run(write):
    v = np.array([2.0, 1.0])
    v.flags.writeable = False
    box = Box(v, np.array([3.0, 4.0]))
    w, loss = box.w, loss_after(write)

    def by_context(f, b):
        with mt.Context():
            f(b)

    with pytest.raises(ValueError, match="read-only"):
        loss(Box(v, w))
    for way in (lambda f, b: mt.grad(f)(b), mt.vjp, by_context):
        for _ in range(3):
            with pytest.raises(ValueError, match="read-only"):
                way(loss, box)
            assert box.v is v
            assert box.w is w
    np.testing.assert_array_equal(v, [2.0, 1.0])


def test_an_augmented_assignment_of_numbers_works():
    @mt.differentiable
    class Scalar:
        v: float

    def loss(s, x):
        s.v += x
        s.v *= x
        s.v -= 1.0
        s.v /= 2.0
        s.v **= 2
        return s.v * 1.0

    for _ in range(3):
        s = Scalar(2.0)
        tangent, dx = mt.grad(loss, argnums=(0, 1))(s, 3.0)
        # v = ((2 + 3) 3 - 1)/2 = 7, squared; dv/ds = 3/2, dv/dx = (5 + 3)/2
        assert tangent.v == pytest.approx(2 * 7 * 1.5)
        assert dx == pytest.approx(2 * 7 * 4.0)
        assert s.v == 49.0
        assert type(s.v) is float


def test_a_constant_array_of_the_function_may_be_written_in_place(xp):
    def loss(x):
        mask = np.zeros(2)
        mask[0] = 1.0
        mask += 1.0
        return np.sum(x * mask)

    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(xp.asarray([2.0, 1.0])), [2.0, 1.0])


def test_a_constant_overwritten_after_its_use_is_right_or_an_error(xp):
    def loss(x):
        a = np.ones(2)
        y = x * a
        a[:] = 5.0
        return np.sum(y)

    for _ in range(3):
        try:
            gradient = mt.grad(loss)(xp.asarray([2.0, 1.0]))
        except mt.MutangentError:
            continue
        np.testing.assert_array_equal(gradient, [1.0, 1.0])


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: x.sum(0, None, out),
        lambda x, out: np.sum(x, 0, None, out),
        lambda x, out: np.mean(x, 0, None, out),
        lambda x, out: np.ptp(x, 0, out),
        lambda x, out: np.clip(x, 0.0, 5.0, out),
        lambda x, out: np.cumsum(x, 0, None, out),
        lambda x, out: np.dot(x, x.T, out),
    ],
)
@pytest.mark.parametrize("traced", [False, True])
def test_an_array_to_write_into_that_is_given_by_its_position_is_refused(write, traced):
    def f(x):
        out = np.zeros_like(x[0]) if traced else np.zeros(3)
        return np.sum(write(x, out) ** 2)

    with pytest.raises((mt.InPlaceError, mt.NoRuleError), match=r"by its position|with 3 arguments"):
        mt.grad(f)(np.arange(6.0).reshape(2, 3))
