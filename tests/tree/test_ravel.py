"""`mt.ravel`, `mt.ravel_tangent` and `mt.total`: parameters as a vector and back, and sums per array."""

import collections
import pickle
from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Pair:
    a: object = None
    b: object = None


@mt.differentiable
class Layer:
    w: object
    state: object = mt.field(trainable=False, default=None)


class Gates(NamedTuple):
    r: object
    z: object


def tangent(**fields):
    return mt.Tangent(Pair, **fields)


# ---------------------------------------------------------------- the vector


def test_the_vector_has_the_parameters_in_the_order_of_the_fields_in_c_order():
    w = np.arange(6.0).reshape(2, 3)
    vector, unravel = mt.ravel(Pair([np.asfortranarray(w), {"x": 7.0}], Gates(w.T, (8.0,))))
    np.testing.assert_array_equal(vector, [*range(6), 7, *w.T.ravel(), 8])
    assert repr(unravel) == "<unravel 14 numbers into a Pair>"


def test_the_vector_is_a_copy():
    w = np.ones(2)
    vector, _ = mt.ravel(w)
    vector[0] = 9.0
    assert w[0] == 1.0


def test_fields_that_are_not_trainable_and_what_only_they_reach_are_left_out():
    shared = Pair(4.0)
    m = Pair(Layer(np.ones(2), [Pair(9.0), shared]), shared)
    assert mt.ravel(m)[0].tolist() == [1, 1, 4]


@pytest.mark.parametrize(
    ("numbers", "dtype"),
    [
        ([np.float32(1), np.ones(2, np.float32)], np.float32),
        ([np.ones(2, np.float32), np.ones(2)], np.float64),
        ([np.ones(2, np.float16), np.float32(1)], np.float32),
        ([np.ones(2, np.float32), 0.1], np.float64),
        ([np.ones(2, np.complex64), np.ones(2)], np.complex128),
        ([np.ones(2, np.complex64), np.ones(2, np.float32)], np.complex64),
        ([1j, 2.0], np.complex128),
        ([], np.float64),
    ],
)
def test_the_dtype_holds_all_and_each_number_comes_back_in_its_own(numbers, dtype):
    vector, unravel = mt.ravel(numbers)
    assert vector.dtype == dtype
    for old, new in zip(numbers, unravel(vector), strict=True):
        assert type(new) is type(old)
        np.testing.assert_array_equal(new, old, strict=True)


@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (1,)])
def test_arrays_of_few_numbers_or_none_come_back(shape):
    m = Pair(np.ones(shape), np.zeros(0))
    vector, unravel = mt.ravel(m)
    assert vector.shape == (m.a.size,)
    new = unravel(2 * vector)
    assert type(new.a) is np.ndarray
    assert new.a.shape == shape
    assert mt.grad(lambda v: np.sum(unravel(v).a ** 2))(vector).tolist() == [2.0] * m.a.size


def test_an_object_without_parameters_is_an_empty_vector():
    vector, unravel = mt.ravel(Layer(3, 1.0))
    assert vector.tolist() == []
    assert unravel(vector) == Layer(3, 1.0)


# ---------------------------------------------------------------- unravel


def test_unravel_gives_new_objects_and_leaves_the_old_one_alone():
    w = np.ones(2)
    m = Pair(w, Layer([3.0], 4.0))
    vector, unravel = mt.ravel(m)
    new = unravel(np.array([5.0, 6.0, 7.0]))
    assert new.a.tolist() == [5, 6]
    assert new.b == Layer([7.0], 4.0)
    assert m.a is w
    assert m.b.w == [3.0]
    assert vector.tolist() == [1, 1, 3]


def test_sharing_and_cycles_carry_over():
    w, layer, items = np.ones(2), Layer(1.0), collections.deque([2.0])
    m = Pair([w, layer, items], (w, layer, items))
    layer.state = m
    new = mt.ravel(m)[1](np.array([3.0, 4.0, 5.0, 6.0]))
    assert all(one is other for one, other in zip(new.a, new.b, strict=True))
    assert new.a[1].state is new
    assert new.a[2] == collections.deque([6.0])


def test_each_call_starts_from_the_state_at_the_time_of_ravel():
    state, log = np.zeros(2), ["start"]
    m = Layer(1.0, [state, log, 7.0])
    vector, unravel = mt.ravel(m)
    first, second = unravel(vector), unravel(vector)
    first.state[0][:] = 9.0
    first.state[1].append("moved")
    first.state.append("more")
    state[:] = 5.0
    log.append("later")
    m.state = None
    for new in (second, unravel(vector)):
        assert new.state[0].tolist() == [0, 0]
        assert new.state[1:] == [["start"], 7.0]


def test_an_array_that_is_weight_and_state_moves_as_a_weight_only():
    start = np.zeros(2)
    new = mt.ravel(Layer(start, [start, start]))[1](np.ones(2))
    assert new.w.tolist() == [1, 1]
    assert new.state[0].tolist() == [0, 0]
    assert new.state[0] is new.state[1]


def test_what_a_method_writes_into_a_field_does_not_reach_the_vector():
    vector, unravel = mt.ravel(Pair(np.ones(3)))
    new = unravel(vector)
    new.a[:] = 9.0
    assert vector.tolist() == [1, 1, 1]


def test_a_vector_of_another_precision_is_rounded():
    m = Pair(np.ones(2, np.float32), 1.0)
    new = mt.ravel(m)[1](np.array([0.1, 0.2, 0.3], np.float32))
    assert new.a.dtype == np.float32
    assert type(new.b) is float


def test_unravel_can_be_pickled():
    vector, unravel = mt.ravel(mt.nn.RNN(2, 3, rng=np.random.default_rng(0)))
    again = pickle.loads(pickle.dumps(unravel))(vector)
    np.testing.assert_array_equal(mt.ravel(again)[0], vector)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (np.ones(4), ValueError, r"unravel takes a vector of 3 numbers, .* \w+\.ndarray of shape \(4,\)"),
        (np.ones((1, 3)), ValueError, r"of shape \(1, 3\)"),
        ([1.0, 2.0, 3.0], ValueError, r"got a list"),
        (np.ones(3, complex), TypeError, r"dtype complex128, and .* dtype float64 .*np\.real\(vector\)"),
        (np.ones(3, bool), TypeError, r"dtype bool"),
    ],
)
def test_a_vector_that_does_not_fit_is_refused(wrong, error, message):
    _, unravel = mt.ravel(Pair(np.ones(2), 1.0))
    with pytest.raises(error, match=message):
        unravel(wrong)


@pytest.mark.parametrize("nothing", [None, 3, "text", np.arange(3), np.tanh], ids=repr)
def test_what_has_no_tangent_space_is_refused(nothing):
    with pytest.raises(mt.GradientTypeError, match=r"ravel was given .*, which has no tangent space"):
        mt.ravel(nothing)


# ---------------------------------------------------------------- derivatives


def test_unravel_is_differentiable_in_both_modes_and_twice():
    m = Pair([np.array([1.0, 2.0]), 3.0], Layer(np.float64(0.5), 2.0))
    vector, unravel = mt.ravel(m)

    def loss(v):
        new = unravel(v)
        new.b.state = new.b.state * new.b.w + np.sum(new.a[0] ** 3)
        return new.b.state * new.a[1]

    mt.testing.check_grads(loss, (vector,))
    np.testing.assert_allclose(mt.hessian(loss)(vector), mt.jacobian(mt.grad(loss))(vector))


def test_ravel_is_differentiable_with_respect_to_the_object():
    def loss(m):
        vector, unravel = mt.ravel(m)
        return np.sum(vector**3) * unravel(2 * vector).b.state

    shared = np.array([1.0, 2.0])
    mt.testing.check_grads(loss, (Pair(shared, Layer([shared, 3.0], 4.0)),))


def test_a_complex_parameter_has_the_gradient_of_steepest_ascent():
    m = Pair(np.array([1 + 2j]), 3.0)
    vector, unravel = mt.ravel(m)

    def loss(v):
        new = unravel(v)
        return np.sum(np.abs(new.a) ** 2) + new.b**2

    np.testing.assert_allclose(mt.grad(loss)(vector), [2 + 4j, 6])
    mt.testing.check_grads(loss, (vector,))


def test_a_vector_of_float64_has_a_float64_gradient_for_float32_parameters():
    _, unravel = mt.ravel(Pair(np.ones(2, np.float32)))
    gradient = mt.grad(lambda v: np.sum(unravel(v).a ** 2))(np.ones(2))
    assert gradient.dtype == np.float64
    assert gradient.tolist() == [2, 2]


def test_state_that_is_taken_along_in_a_recording_has_its_gradient():
    def loss(m):
        vector, unravel = mt.ravel(m)
        m.state = m.state * 100.0  # later than ravel
        return unravel(vector).state * 5.0

    m = Layer(1.0, 2.0)
    assert mt.grad(loss)(m).state == 5.0
    assert m.state == 200.0


def test_an_unravel_that_was_made_in_a_recording_works_after_it():
    kept = []

    def loss(m):
        vector, unravel = mt.ravel(m)
        kept.append(unravel)
        return np.sum(vector) * np.sum(m.state[0])

    mt.grad(loss)(Layer(1.0, [np.ones(2), 3.0]))
    new = kept[0](np.array([7.0]))
    assert new.w == 7.0
    assert type(new.state[0]) is np.ndarray
    assert new.state[0].tolist() == [1, 1]
    assert type(new.state[1]) is float


def test_a_context_gives_the_gradient_of_a_vector_that_is_watched():
    _, unravel = mt.ravel(Pair(np.ones(2)))
    with mt.Context() as ctx:
        v = ctx.watch(np.array([1.0, 3.0]))
        out = np.sum(unravel(v).a ** 2)
    assert ctx.grad(out, v).tolist() == [2, 6]


# ---------------------------------------------------------------- gradients as vectors and sums


def test_a_tangent_is_laid_out_as_its_object_with_zeros_where_nothing_flowed():
    w = np.array([1.0, 2.0])
    m = Pair([w, Layer(np.ones((2, 1)), 5.0), 3.0], w)
    dm = mt.grad(lambda m: np.sum(m.a[0] * m.b * m.b) + m.a[1].state)(m)
    np.testing.assert_allclose(mt.ravel_tangent(m, dm), [*(3 * w**2), 0, 0, 0])
    assert mt.ravel_tangent(m, mt.ZeroTangent()).tolist() == [0] * 5


def test_a_tangent_as_a_vector_is_what_the_pullback_of_unravel_gives(rng):
    net = mt.nn.Chain(mt.nn.LSTM(2, 3, rng=rng), mt.nn.Dense(3, 1, rng=rng))
    x = rng.normal(size=(2, 1, 4)).astype(np.float32)
    vector, unravel = mt.ravel(net)
    dm = mt.grad(lambda net: np.sum(net(x) ** 2))(unravel(vector))
    flat = mt.ravel_tangent(net, dm)
    np.testing.assert_allclose(flat, mt.vjp(unravel, vector)[1](dm)[0])
    np.testing.assert_allclose(flat, mt.grad(lambda v: np.sum(unravel(v)(x) ** 2))(vector), rtol=1e-5)
    assert flat.dtype == vector.dtype == np.float32


def test_a_tangent_vector_has_the_dtype_of_the_vector():
    m = Pair(np.ones(2, np.float32), 1.0)
    assert mt.ravel_tangent(m, tangent(a=np.ones(2, np.float32))).dtype == np.float64
    assert mt.ravel_tangent(m.a, np.ones(2)).dtype == np.float32


def test_total_leaves_out_state_and_numbers_and_arrays_to_which_nothing_flowed():
    w, v, start = np.ones(2), np.ones(3), np.zeros(1)
    m = Pair([w, w, 2.0], [Layer(start, start), v])
    dm = tangent(
        a=[np.ones(2), np.full(2, 10.0), 5.0],
        b=[mt.Tangent(Layer, w=np.ones(1), state=np.full(1, 7.0)), mt.ZeroTangent()],
    )
    sums = mt.total(m, dm)
    assert len(sums) == 2
    assert sums[w].tolist() == [11, 11]
    assert sums[start].tolist() == [1]
    assert v not in sums


def test_arrays_can_be_moved_in_place_by_their_totals():
    w, v = np.ones(2), np.ones(3)
    m = Pair(w, [w, v])
    dm = mt.grad(lambda m: np.sum(m.a * 2 + m.b[0] * 3))(m)
    for array, g in mt.total(m, dm).items():
        np.subtract(array, 0.1 * g, out=array)
    np.testing.assert_allclose(w, [0.5, 0.5])
    np.testing.assert_array_equal(v, np.ones(3))


def test_a_tangent_that_does_not_fit_is_refused_with_the_field():
    m = Pair(np.ones(2))
    for call in (mt.total, mt.ravel_tangent):
        with pytest.raises(
            mt.CotangentError, match=r"Pair\.a holds an array of shape \(2,\) .* shape \(3,\)"
        ):
            call(m, tangent(a=np.ones(3)))
        with pytest.raises(
            mt.CotangentError, match=r"a Pair was given, and its tangent is a Tangent of Layer"
        ):
            call(m, mt.Tangent(Layer, w=1.0))


# ---------------------------------------------------------------- with SciPy's optimisers


def test_an_optimiser_of_scipys_finds_the_parameters_of_a_stateful_model(rng):
    optimize = pytest.importorskip("scipy.optimize")

    @mt.differentiable
    class Filter:
        decay: float
        gain: np.ndarray
        state: np.ndarray = mt.field(trainable=False, factory=lambda: np.zeros(2))

        def __call__(self, u):
            self.state = self.decay * self.state + self.gain * u
            return self.state

    inputs = rng.normal(size=30)
    truth = Filter(0.8, np.array([1.0, -2.0]))
    target = [truth(u) for u in inputs]

    def loss(m):
        return sum(np.sum((m(u) - y) ** 2) for u, y in zip(inputs, target, strict=True))

    start = Filter(0.1, np.zeros(2))
    vector, unravel = mt.ravel(start)
    done = optimize.minimize(
        mt.value_and_grad(lambda v: loss(unravel(v))), vector, jac=True, method="L-BFGS-B"
    )
    np.testing.assert_allclose(done.x, [0.8, 1.0, -2.0], atol=1e-4)
    assert (start.decay, start.gain.tolist(), start.state.tolist()) == (0.1, [0, 0], [0, 0])
