"""What a second run could not repeat is refused, or right: never a wrong gradient."""

from collections import deque
from queue import SimpleQueue
from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class M:
    x: object = None
    d: object = None
    items: object = mt.field(factory=list)


def model():
    return M(np.array([1.0, 2.0]))


def test_a_new_object_with_a_list_put_into_a_field_has_its_gradient():
    @mt.checkpoint
    def f(m):
        m.d = M(m.x * 3, items=[m.x * 2])

    def loss(m):
        f(m)
        return np.sum(m.d.items[0] * m.d.x)

    np.testing.assert_allclose(mt.grad(loss)(model()).x, [12.0, 24.0])


def test_one_array_in_two_places_stays_one():
    @mt.checkpoint
    def f(m):
        m.d = m.x * 2
        return m.d, m.d

    def loss(m):
        y, z = f(m)
        y += m.x
        return np.sum(m.d**2) + np.sum(z)

    m = model()
    # d = y = z = 3 x
    np.testing.assert_allclose(mt.grad(loss)(m).x, 18 * np.array([1.0, 2.0]) + 3.0)
    np.testing.assert_allclose(m.d, [3.0, 6.0])


def test_a_state_that_is_also_returned_counts_once():
    @mt.checkpoint
    def f(m):
        m.d = np.tanh(m.x)
        return m.d

    mt.testing.check_grads(lambda m: np.sum(f(m) * m.d), (model(),), order=2)


def test_a_deque_is_shown_as_one():
    m = M(np.ones(2), deque([1.0, 2.0]))

    @mt.checkpoint
    def f(m):
        m.d.append(m.d.popleft() * 3.0)
        return m.d[-1] * m.d[0]

    assert mt.grad(f)(m).d == [6.0, 3.0]
    assert list(m.d) == [2.0, 3.0]


def test_a_closure_variable_is_bound_as_it_was_for_the_second_run():
    @mt.checkpoint
    def f(x):
        return x**2 * i

    def loss(x):
        nonlocal i
        total = 0.0
        for i in range(1, 4):  # noqa: B007 - `f` reads it
            total = total + f(x)
        return total

    i = 0
    assert mt.grad(loss)(3.0) == 36.0


@pytest.mark.parametrize(
    "write", [lambda m, z: m.x.__setitem__(0, z), lambda m, z: m.items.append(z * 1.5)], ids=["array", "list"]
)
def test_a_write_that_the_second_run_does_not_repeat_is_found(write):
    def f(m, z):
        if written.empty():
            written.put(True)
            write(m, z)
        return z * 2.0

    def loss(m):
        z = mt.checkpoint(f)(m, m.x[1] * 3.0)
        return z + np.sum(m.x**2) + sum(m.items)

    written = SimpleQueue()  # it is not put back for the second run
    with pytest.raises(mt.CheckpointError, match="not what it gave the first time"):
        mt.grad(loss)(model())


def test_other_operations_with_the_same_result_are_found():
    runs = SimpleQueue()  # it is not put back for the second run

    @mt.checkpoint
    def f(x):
        runs.put(1)
        return x * 2.0 if runs.qsize() == 1 else np.sin(x)

    with pytest.raises(mt.CheckpointError, match=r"computed something else .* though with the same result"):
        mt.grad(f)(0.0)


def put_at(x, c):
    y = np.zeros_like(x)
    y[c] = x[0]
    return np.sum(y)


class Changing:
    """What gives another item each time, and is not put back for the second run."""

    def __init__(self, *items):
        self.queue = SimpleQueue()
        for item in items:
            self.queue.put(item)

    def __call__(self):
        return self.queue.get()


rng = np.random.default_rng(3)
ZERO = np.zeros(500)

OTHER_NUMBERS = {
    "a factor": (lambda x, c: x * c, 0.0, (2.0, 3.0)),
    "a small one beside large ones": (lambda x, c: x * 1e6 * c, 0.0, (2.0, 2.001)),
    "a complex one": (lambda x, c: np.real(x * c), 0.0, (2.0 + 1j, 2.0 + 2j)),
    "an array": (lambda x, c: np.sum(x * c), ZERO, (rng.normal(size=500), rng.normal(size=500))),
    "a single precision": (
        lambda x, c: np.sum(x * c),
        ZERO.astype(np.float32),
        (np.ones(500, np.float32), 1.1 * np.ones(500, np.float32)),
    ),
    "a mask": (lambda x, c: np.sum(x * c), ZERO, (rng.random(500) < 0.5, rng.random(500) < 0.5)),
    "a condition": (lambda x, c: np.sum(np.where(c, x, 0)), ZERO, (np.full(500, True), np.full(500, False))),
    "an index": (lambda x, c: x[c], np.ones(3), (0, 1)),
    "indices": (lambda x, c: np.sum(x[c]), np.ones(3), (np.array([0, 1]), np.array([1, 2]))),
    "a slice": (lambda x, c: np.sum(x[c]), np.ones(3), (slice(0, 2), slice(1, 3))),
    "an array in a slice": (lambda x, c: np.sum(x[c:][-1]), np.ones(3), (np.array(0), np.array(1))),
    "an axis": (lambda x, c: np.sum(np.sum(x, axis=c)[0]), np.ones((2, 2)), (0, 1)),
    "an exponent": (lambda x, c: x**c, 1.0, (2.0, 3.0)),
    "a sum under a square": (lambda x, c: np.sum((x + c) ** 2 * x), ZERO, (1.0, 2.0)),
    "where it is written": (put_at, np.ones(3), (0, 1)),
    "an infinite one": (lambda x, c: np.where(False, x * c, x), 1.0, (np.inf, 2.0)),
    "one that is no number": (lambda x, c: np.where(False, x * c, x), 1.0, (np.nan, 2.0)),
}


@pytest.mark.parametrize(("f", "x", "numbers"), OTHER_NUMBERS.values(), ids=OTHER_NUMBERS)
def test_other_numbers_with_the_same_result_are_found(f, x, numbers):
    changing = Changing(*numbers)
    with pytest.raises(mt.CheckpointError, match=r"computed something else .* though with the same result"):
        mt.grad(mt.checkpoint(lambda x: f(x, changing())))(x)
    # And the same ones are no error, also where they are computed anew.
    c = numbers[0]
    again = mt.checkpoint(lambda x: f(x, c + 0 if isinstance(c, float) else c))
    np.testing.assert_array_equal(mt.grad(again)(x), mt.grad(lambda x: f(x, c))(x))


def test_a_slice_may_have_an_array_of_one_integer_for_a_bound():
    f = lambda x: np.sum(x[np.array(1) :] ** 2)
    np.testing.assert_array_equal(mt.grad(mt.checkpoint(f))(np.ones(3)), [0, 2, 2])


class Point(NamedTuple):
    p: float
    of: object


@mt.differentiable
class Const:
    p: float
    node: object


@mt.differentiable
class Node:
    x: float
    const: object = None
    point: object = None


def test_objects_that_an_inner_gradient_meets_in_another_order_are_no_other_work():
    """The second run starts from what the objects have by then, and is shown what they had."""
    first, second = Node(0.3), Node(0.4)
    first.const, second.const = Const(0.5, second), Const(0.6, first)
    first.point, second.point = Point(0.1, second), Point(0.2, first)

    def segment(z, a):
        mt.grad(lambda m: m.x * (a.const.p / (2.5 + np.sin(a.const.node.x))))(a)
        return a.x * z

    def loss(a, z):
        t = mt.checkpoint(segment)(z, a)
        a.point = Point(a.x, a)
        return t + a.x

    assert mt.grad(loss, argnums=1)(first, 2.0) == 0.3


def test_rounding_is_no_other_number():
    changing = Changing(0.1 + 0.2, 0.3)
    assert mt.grad(mt.checkpoint(lambda x: x * changing()))(0.0) == pytest.approx(0.3)


def test_a_value_that_escapes_by_a_closure_list_is_found():
    kept = []

    @mt.checkpoint
    def f(x):
        kept.append(x * 2)
        return x

    with pytest.raises(mt.CheckpointError, match="neither its result nor a captured field"):
        mt.grad(lambda x: f(x) * kept[0])(3.0)


def test_arrays_made_inside_may_be_written_in_place():
    @mt.checkpoint
    def f(m):
        m.d = np.zeros(2)
        m.d[0] = m.x[1] ** 2
        z = np.zeros_like(m.x)
        z[1] = m.x[0]
        return np.sum(z * m.x) + m.d[0]

    # x0 x1 + x1²
    np.testing.assert_allclose(mt.grad(f)(model()).x, [2.0, 1.0 + 4.0])


def keep_default(s):
    def f(z, factor=s):
        return z * factor

    return f


# What a checkpointed function of `s` does with a traced value that it was not given.
@pytest.mark.parametrize(
    "loss",
    [
        lambda s: mt.checkpoint(lambda z: z * s)(2.0),
        lambda s: mt.checkpoint(lambda z: s)(2.0),
        lambda s: mt.checkpoint(keep_default(s))(2.0),
        lambda s: mt.checkpoint(lambda m: setattr(m, "d", s))(model()),
        lambda s: mt.checkpoint_sequence(lambda z: z * s, [1.0, 2.0])[1],
        lambda s: mt.grad(mt.checkpoint(lambda y: y * y * s))(2.0) * mt.checkpoint(lambda z: z * s)(2.0),
    ],
)
def test_a_traced_value_of_a_closure_is_refused(loss):
    with pytest.raises(
        mt.CheckpointError, match="used a float, a traced value that is neither an argument nor"
    ):
        mt.grad(loss)(3.0)


def test_a_value_of_a_recording_outside_of_the_one_that_the_checkpoint_belongs_to_keeps_its_derivative():
    inner = lambda s: mt.grad(mt.checkpoint(lambda y: y * y * s))(2.0)
    assert mt.grad(inner)(3.0) == 4.0


@pytest.mark.parametrize("value", [lambda z: z, lambda z: 5.0])
def test_a_traced_array_of_a_closure_is_not_written(value):
    def loss(s):
        array = s * np.ones(2)

        @mt.checkpoint
        def f(z):
            array[0] = value(z)
            return z

        return f(s) + np.sum(array)

    with pytest.raises(mt.CheckpointError, match=r"wrote in place into an? .*shape \(2,\)"):
        mt.grad(loss)(3.0)


def test_a_value_that_escapes_by_a_closure_list_is_not_returned():
    def loss(s):
        kept = []
        mt.checkpoint(lambda z: kept.append(z * z))(s)
        return kept[0]

    with pytest.raises(mt.CheckpointError, match="neither its result nor a captured field"):
        mt.grad(loss)(3.0)


def test_parts_of_an_array_that_was_dropped_are_not_written():
    @mt.checkpoint
    def f(m):
        whole = m.x * 2.0
        whole[0] = 1.0
        m.d, m.x = whole[1:], whole[:]

    def loss(m):
        f(m)
        m.d[0] = 5.0
        return np.sum(m.x)

    with pytest.raises(mt.InPlaceError, match="checkpointed function returned it"):
        mt.grad(loss)(model())
