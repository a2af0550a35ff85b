"""Right gradients pass: of every kind of number, container and object, to second order and beyond."""

import copy
import enum
from typing import NamedTuple

import attrs
import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads

# ---------------------------------------------------------------- numbers and arrays


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64, np.complex128])
@pytest.mark.parametrize("shape", [(), (1,), (3,), (2, 3), (0,), (2, 0)])
def test_arrays_of_every_dtype_and_shape_pass(xp, rng, dtype, shape):
    x = xp.asarray(
        rng.normal(size=shape) + (1j * rng.normal(size=shape) if dtype(0).dtype.kind == "c" else 0), dtype
    )
    check_grads(lambda x: np.sin(x) * x, (x,))


def test_an_array_argument_stays_as_it_is(xp):
    x = xp.asarray([1.0, 2.0])
    check_grads(lambda x: x * x, (x,))
    assert x.tolist() == [1.0, 2.0]


@pytest.mark.parametrize("x", [2.5, 1.5 - 2.0j, np.float32(0.5), np.complex64(1 + 1j)], ids=repr)
def test_numbers_that_are_no_arrays_pass(x):
    check_grads(lambda x: x * x * x, (x,), order=3)


def test_half_precision_passes_with_its_own_tolerance():
    check_grads(lambda x: x * x, (np.array([0.5, -1.5], np.float16),), order=1)


def test_a_python_number_beside_float32_arrays_is_compared_as_roughly_as_they_are(rng):
    x = rng.normal(size=5).astype(np.float32)
    check_grads(lambda scale, x: np.tanh(scale * x), (0.3, x))


@pytest.mark.parametrize("order", [1, 2, 3, 4])
def test_every_order_passes(order):
    check_grads(lambda x: np.exp(-(x**2)), (np.array([0.3, -0.7]),), order=order)


def test_large_float32_numbers_pass():
    check_grads(np.sqrt, (np.array([1e6, 3e5], np.float32),))


def test_numbers_far_from_one_pass():
    check_grads(lambda x: x**2, (np.array([1e9, 1e-9, 0.0]),))


def test_entries_that_are_not_finite_do_not_move():
    check_grads(lambda x: np.where(np.isfinite(x), x * x, 0.0), (np.array([np.inf, 2.0, np.nan]),), order=1)


def test_an_output_much_larger_than_its_derivative_passes():
    check_grads(lambda x: 1e6 + 1e-3 * np.sin(x), (0.5,), order=1)
    check_grads(lambda x: 1e3 + 1e-1 * np.sin(x), (np.array([0.5], np.float32),), order=1)


@pytest.mark.parametrize(
    "f",
    [
        lambda z: np.abs(z) ** 2,
        lambda z: np.conj(z) * z * z,
        lambda z: z.real * np.sin(z.imag),
        lambda z: np.exp(1j * z.real),
        lambda z: np.sum(z * z[::-1]),
    ],
    ids=["abs squared", "conjugate", "parts", "real to complex", "product"],
)
def test_complex_functions_that_are_not_holomorphic_pass(f):
    check_grads(f, (np.array([1.0 + 0.5j, -0.3 + 2.0j]),))


def test_the_gradient_of_the_squared_modulus_is_two_z():
    # The convention that the check relies on, and the other one must not pass.
    z = 1.0 + 2.0j
    assert mt.grad(lambda z: z.real**2 + z.imag**2)(z) == 2 * z


def test_an_argument_that_is_not_used_passes():
    check_grads(lambda x, y: x * 2, (1.0, np.array([1.0, 2.0])))


def test_a_result_that_does_not_depend_on_the_arguments_passes():
    check_grads(lambda x: np.ones(3), (np.array([1.0, 2.0]),))


def test_arguments_without_tangent_space_pass():
    check_grads(lambda x, n, name, f: f(x) ** n, (1.5, 3, "cube", np.sin))


def test_one_array_in_two_arguments_passes():
    x = np.array([1.0, 2.0])
    check_grads(lambda a, b: a * a * b, (x, x))


def test_random_numbers_of_a_generator_among_the_arguments_are_the_same_in_every_run():
    check_grads(lambda x, rng: x * rng.normal(size=2), (np.array([1.0, 2.0]), np.random.default_rng(0)))


# ---------------------------------------------------------------- containers


class Point(NamedTuple):
    x: float
    y: np.ndarray


def test_containers_of_numbers_pass():
    def f(pair, named, rows):
        return {"a": pair[0] * named.x, "b": [named.y * rows[0]["w"], (rows[1],)]}

    args = ((1.5, "no number"), Point(0.5, np.array([1.0, 2.0])), [{"w": np.array([0.1, 0.2])}, -2.0])
    check_grads(f, args)


def test_a_list_that_the_function_changes_passes():
    def f(items):
        items.append(items[0] * items[1])
        items[0] = items[2] * 3.0
        return items[0] * items[1]

    items = [1.0, 2.0]
    check_grads(f, (items,))
    assert items == [1.0, 2.0]


def test_one_list_in_two_arguments_passes():
    items = [1.0, np.array([2.0, 3.0])]
    check_grads(lambda a, b: a[0] * b[1] * b[0], (items, items))


# ---------------------------------------------------------------- objects


@mt.differentiable
class Filter:
    gain: float
    state: np.ndarray
    name: str = "low-pass"
    steps: int = 0

    def __call__(self, x):
        self.state = self.state + self.gain * (x - self.state)
        self.steps += 1
        return self.state


@mt.differentiable
class Pair:
    left: object
    right: object


@mt.differentiable
class Node:
    value: float
    other: object = None


@mt.differentiable(frozen=True)
class Frozen:
    weight: np.ndarray


@mt.differentiable(slots=False)
class InDict:
    weight: float
    other: object = None


@attrs.define
class Plain:
    weight: float


def test_an_object_that_is_mutated_passes_and_stays_as_it_is(rng):
    m = Filter(0.3, np.zeros(2))
    state = m.state
    check_grads(
        lambda m, xs: np.sum(np.stack([m(x) for x in xs]) ** 2), (m, rng.normal(size=(4, 2))), order=3
    )
    assert m.state is state
    assert state.tolist() == [0.0, 0.0]
    assert (m.gain, m.steps) == (0.3, 0)


def test_a_function_that_only_leaves_state_behind_passes():
    def f(m, x):
        m(x)

    check_grads(f, (Filter(0.3, np.zeros(2)), np.array([1.0, -2.0])))


def test_float32_objects_pass(rng):
    m = Filter(np.float32(0.25), np.zeros(2, np.float32))
    check_grads(lambda m, x: m(m(x)), (m, rng.normal(size=2).astype(np.float32)))


def test_a_state_that_becomes_larger_passes():
    m = Filter(0.3, np.zeros((3, 1)))
    check_grads(lambda m, x: np.tanh(m(m(x))), (m, np.arange(12.0).reshape(3, 4) / 12))


def test_a_shared_object_passes():
    shared = Filter(0.3, np.array([1.0, 2.0]))

    def f(pair, xs):
        return pair.left(pair.right(xs)) * shared_gain(pair)

    def shared_gain(pair):
        return pair.left.gain * pair.right.gain

    check_grads(f, (Pair(shared, shared), np.array([0.5, 0.25])))
    check_grads(
        lambda pair, m, xs: m(xs) * pair.left(xs), (Pair(shared, None), shared, np.array([0.5, 0.25]))
    )


def test_a_cycle_passes():
    a, b = Node(1.5), Node(0.5)
    a.other, b.other = b, a

    def f(a):
        a.other.value = a.value * a.other.other.value
        return a.other.value * a.value

    check_grads(f, (a,))


def test_a_swap_passes():
    def f(pair):
        pair.left, pair.right = pair.right, pair.left
        return pair.left**2 * pair.right

    check_grads(f, (Pair(2.0, 3.0),))


def test_frozen_objects_and_objects_with_a_dict_pass():
    check_grads(lambda a, b: a.weight * b.weight, (Frozen(np.array([1.0, 2.0])), InDict(0.5)))


def test_objects_in_containers_pass():
    def f(models, x):
        for model in models["all"]:
            x = model(x)
        return x

    m = Filter(0.3, np.array([1.0, 2.0]))
    check_grads(f, ({"all": [m, Filter(0.7, np.zeros(2)), m]}, np.array([1.0, -1.0])))


def test_containers_in_fields_pass():
    def f(pair):
        pair.left.append(pair.left[-1] * pair.right["w"])
        pair.right["n"] = pair.left[0] * 2.0
        return pair.left[-1] * pair.right["n"]

    check_grads(f, (Pair([1.0, 2.0], {"w": 0.5}),))


def test_an_object_that_is_made_in_the_function_passes():
    def f(pair, x):
        pair.left = Node(x * pair.right)
        return pair.left.value * x

    check_grads(f, (Pair(None, 3.0), 2.0))


def test_an_object_as_the_result_passes():
    def f(m, x):
        m(x)
        return m, Node(x * m.gain)

    check_grads(f, (Filter(0.3, np.zeros(2)), np.array([1.0, 2.0])))


def test_copies_made_in_the_function_pass():
    def f(m, x):
        other = copy.deepcopy(m)
        return other(x) * m(x) * attrs.evolve(m, gain=m.gain * 2.0)(x)

    check_grads(f, (Filter(0.3, np.array([1.0, 2.0])), np.array([0.5, 0.25])))


def test_a_field_that_is_not_set_passes():
    node = InDict(1.0, None)
    del node.other
    check_grads(lambda node: node.weight**2, (node,))


def test_a_field_that_is_overwritten_before_it_is_read_passes():
    def f(m, x):
        m.state = x * 2.0
        return m.state**2

    check_grads(f, (Filter(0.3, np.array([1.0, 2.0])), np.array([0.5, 0.25])))


def test_one_array_in_two_fields_passes():
    w = np.array([1.0, 2.0])
    check_grads(lambda p: p.left * p.left * p.right, (Pair(w, w),))


def test_the_layers_of_the_package_pass(rng):
    lstm = mt.nn.LSTM(2, 3, rng=np.random.default_rng(0))
    x = rng.normal(size=(2, 4)).astype(np.float32)
    check_grads(lambda m, x: m(m(x)[:2]), (lstm, x), order=2)


# ---------------------------------------------------------------- what cannot be checked


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("args", [(), (3,), ("text", None, Colour.RED), (np.array([1, 2]),)], ids=repr)
def test_arguments_without_any_number_are_refused(args):
    with pytest.raises(ValueError, match="no float or complex numbers"):
        check_grads(lambda *args: 1.0, args)


def test_a_function_without_any_output_is_refused():
    with pytest.raises(ValueError, match="gives no float or complex numbers"):
        check_grads(lambda x: None, (1.0,))


def test_a_single_argument_that_is_no_tuple_is_refused():
    with pytest.raises(TypeError, match=r"\(x,\)"):
        check_grads(lambda x: x, np.array([1.0]))


@pytest.mark.parametrize("modes", [("reverse",), ("rev", "backward"), "rev", ()], ids=repr)
def test_modes_that_there_are_not_are_refused(modes):
    with pytest.raises(ValueError, match=r"'rev' .*'fwd'"):
        check_grads(lambda x: x, (1.0,), modes=modes)


@pytest.mark.parametrize("modes", [("rev",), ("fwd",), ["fwd", "rev"], ("rev", "rev")], ids=repr)
def test_modes_are_the_caller_s(modes):
    check_grads(lambda x: np.sin(x) * x, (np.array([1.0, 2.0]),), order=3, modes=modes)


def test_only_the_modes_that_were_asked_for_are_run(monkeypatch):
    from mutangent.testing import _modes

    def refuse(*args):
        raise AssertionError("this mode was not asked for")

    monkeypatch.setattr(_modes, "jvp", refuse)
    check_grads(np.sin, (1.0,), modes=("rev",))
    monkeypatch.undo()
    monkeypatch.setattr(_modes, "vjp", refuse)
    check_grads(np.sin, (1.0,), modes=("fwd",))


def test_order_zero_is_refused():
    with pytest.raises(ValueError, match="1 or more"):
        check_grads(lambda x: x, (1.0,), order=0)


def test_a_write_to_an_object_outside_of_the_arguments_is_refused_and_undone():
    m = Filter(0.3, np.zeros(2))
    with pytest.raises(ValueError, match=r"wrote Filter.state of an object that is not in args"):
        check_grads(lambda x: m(x) * x, (np.ones(2),))
    assert m.state.tolist() == [0.0, 0.0]
    with pytest.raises(ValueError, match=r"Pass that Filter in args"):
        check_grads(m, (np.ones(2),))


def test_an_object_outside_of_the_arguments_may_be_read():
    m = Filter(0.3, np.ones(2))
    check_grads(lambda x: m.gain * x * m.state, (np.ones(2),))


def test_an_uncaptured_object_with_arrays_is_refused():
    @attrs.define
    class Uncaptured:
        weight: np.ndarray

    with pytest.raises(mt.NotCapturedError):
        check_grads(lambda m, x: m.weight * x, (Uncaptured(np.ones(2)), np.ones(2)))


def test_importing_it_needs_no_test_framework():
    import subprocess
    import sys

    code = (
        "import sys, mutangent; mutangent.testing.check_grads; "
        "assert not {'pytest', 'hypothesis'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
