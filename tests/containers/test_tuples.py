"""A recorded run leaves the tuples that the plain run leaves: one that was passed on is itself, a new one is one."""

from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = None
    u: object = None


class Pair(NamedTuple):
    left: object
    right: object


class Triple(tuple):  # noqa: SLOT001 - it has a dict on purpose
    """Has attributes of its own, and another constructor than a tuple."""

    def __new__(cls, a, b, c, name="triple"):
        made = super().__new__(cls, (a, b, c))
        made.name = name
        return made

    def first(self):
        return self[0]


def recorded(f, box):
    return mt.vjp(f, box)[0]


def recorded_at_once(f, box):
    found = []
    mt.value_and_grad(lambda box: (0.0 * np.sum(first_number(box)), found.append(f(box))), has_aux=True)(box)


def recorded_forwards(f, box):
    return mt.jvp(f, (box,), (mt.ZeroTangent(),))[0]


def recorded_twice(f, box):
    def outer(box):
        mt.grad(lambda box: (f(box), 0.0 * np.sum(first_number(box)))[1])(box)

    mt.vjp(outer, box)


def checkpointed(f, box):
    return mt.vjp(mt.checkpoint(f), box)[0]


def in_a_context(f, box):
    with mt.Context():
        f(box)


def first_number(box):
    value = box.v
    while isinstance(value, tuple | list):
        value = value[0]
    return value


WAYS = [recorded, recorded_at_once, recorded_forwards, recorded_twice, checkpointed, in_a_context]


def passed_on(box):
    box.w = box.v
    return box.v


def passed_on_after_a_look(box):
    held = box.v
    held[0] * 2.0
    box.w, box.u = held, [held]
    return held


def exchanged(box):
    box.w = box.v
    box.v, box.u = box.w, (box.v, box.v)
    return box.w


def made_new(box):
    new = (box.v[0] * 2.0, box.v[1])
    box.w, box.u = new, [new, new]
    return new


def made_new_around_a_list(box):
    new = (box.v[0], [box.v[1]])
    box.w, box.u = new, (new[1], new)
    return new


def made_new_around_the_old(box):
    new = (box.v, (box.v[0] * 2.0,))
    box.w, box.u = new, new[1]
    return new[0]


def written_through(box):
    held = box.v
    held[0][1] = held[1] * 3.0
    box.w = held
    return held


VALUES = {
    "a tuple": lambda: (np.array([1.0, 2.0]), 3.0),
    "a named tuple": lambda: Pair(np.array([1.0, 2.0]), 3.0),
    "a subclass": lambda: Triple(np.array([1.0, 2.0]), 3.0, Box(1.0), name="mine"),
    "a tuple of tuples and objects": lambda: (np.array([1.0, 2.0]), 3.0, Pair(Box(1.0), (2.0,)), [4.0]),
}


def identities(start, box, result):
    """Where the same tuple, list, array or object stands, by the number of its first place."""
    numbers, seen = {}, []

    def visit(value):
        if isinstance(value, tuple | list | np.ndarray | Box):
            known = id(value) in numbers
            number = numbers.setdefault(id(value), len(numbers))
            parts = () if known else (value.v, value.w, value.u) if isinstance(value, Box) else value
            inner = [] if isinstance(value, np.ndarray) else [visit(part) for part in parts]
            seen.append(value)  # so that ids stay valid
            return (type(value).__name__, number, inner)
        assert type(value) in {float, type(None), np.float64}
        return type(value).__name__

    return visit((start, box)), None if result is None else visit([start, box, result])


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    "program",
    [
        passed_on,
        passed_on_after_a_look,
        exchanged,
        made_new,
        made_new_around_a_list,
        made_new_around_the_old,
        written_through,
    ],
)
@pytest.mark.parametrize("value", VALUES)
def test_a_recorded_run_leaves_the_tuples_of_the_plain_run(value, program, way):
    plain = Box(VALUES[value]())
    start = plain.v
    expected = identities(start, plain, program(plain))
    box = Box(VALUES[value]())
    start = box.v
    result = way(program, box)
    found = identities(start, box, result)
    assert found[0] == expected[0]
    if result is not None:
        assert found[1] == expected[1]


def test_a_tuple_of_other_numbers_is_a_new_one_of_the_same_class():
    def program(box):
        box.w = type(box.v)(box.v[0] * 2.0, *box.v[1:])

    box = Box(Triple(1.0, 2.0, 3.0))
    mt.vjp(program, box)
    assert box.w == (2.0, 2.0, 3.0)
    assert type(box.w) is Triple
    assert box.w.name == "triple"


def test_a_subclass_of_tuple_keeps_its_methods_and_attributes_in_a_recording():
    box = Box(Triple(2.0, 3.0, 4.0, name="mine"))
    tangent = mt.grad(lambda box: box.v.first() * box.v[1] if box.v.name == "mine" else 0.0)(box)
    assert tuple(tangent.v) == (3.0, 2.0, mt.ZeroTangent())


def test_a_tuple_of_two_fields_is_one_again_and_has_a_share_of_the_gradient_in_each():
    shared = (np.array([1.0, 2.0]), 3.0)
    box = Box(shared, shared)

    def program(box):
        box.v, box.w = box.w, box.v
        return np.sum(box.v[0]) * box.w[1]

    tangent = mt.grad(program)(box)
    assert box.v is shared
    assert box.w is shared
    np.testing.assert_array_equal(tangent.w[0], [3.0, 3.0])
    assert tangent.v[1] == 3.0
    assert tangent.v[0] == mt.ZeroTangent()


def test_a_tangent_that_was_passed_on_is_the_same_one():
    tangent = mt.Tangent(Box, v=1.0)
    box = Box(2.0, tangent)

    def program(box):
        box.u = box.w
        return box.v * 2.0

    mt.grad(program)(box)
    assert box.u is tangent


def test_a_tangent_that_was_computed_and_put_into_two_places_is_one():
    def program(box):
        box.w = box.u = mt.grad(lambda inner: inner.v**3)(Box(box.v))
        return box.w.v * 1.0

    box = Box(2.0)
    assert mt.grad(program)(box).v == 12.0
    assert box.w is box.u
    assert box.w.v == 12.0


@pytest.mark.parametrize("wrapped", [lambda f: f, mt.checkpoint])
@pytest.mark.parametrize("second_use", [False, True])
def test_tuples_passed_on_by_a_checkpointed_function_have_the_gradient_of_the_plain_one(wrapped, second_use):
    def step(box, factor):
        new = (box.v[0] * factor, box.v[1] * factor)
        box.u = box.v
        box.w = new
        return new, box.u

    def loss(box, factor):
        new, old = wrapped(step)(box, factor)
        total = np.sum(new[0]) * new[1] + np.sum(box.w[0]) * old[1] + 5.0 * box.u[1]
        if second_use:
            newer, _ = wrapped(step)(box, factor)
            total = total + newer[1] * np.sum(box.w[0] ** 2)
        return total

    box = Box((np.array([1.0, 2.0]), 3.0))
    held = box.v
    d_box, d_factor = mt.grad(loss, argnums=(0, 1))(box, 2.0)
    # Σ(f a) f b + Σ(f a) b + 5 b, and then f b Σ(f a)²
    more = second_use
    np.testing.assert_allclose(d_box.v[0], 12.0 + 6.0 + more * 48.0 * np.array([1.0, 2.0]))
    np.testing.assert_allclose(d_box.v[1], 12.0 + 6.0 + 5.0 + more * 40.0)
    np.testing.assert_allclose(d_factor, 36.0 + 9.0 + more * 3.0 * 3.0 * 4.0 * 5.0)
    assert box.u is held
    assert box.w is not held


@mt.differentiable
class Passing:
    v: object
    w: object = None
    u: object = None

    @mt.primitive
    def pass_on(self):
        self.w = self.v
        self.u = new = (self.v[0] * 2.0,)
        return new

    @pass_on.rrule
    def pass_on(self):
        self.w = self.v
        self.u = new = (self.v[0] * 2.0,)

        def pass_on_pullback(y_bar, written):
            w_bar, u_bar = written[self].w, written[self].u
            v_bar = (w_bar[0] + 2.0 * (u_bar[0] + y_bar[0]), w_bar[1])
            return (mt.Tangent(Passing, v=v_bar),)

        return new, pass_on_pullback


def test_tuples_that_a_rule_passes_on_and_makes_stay_what_they_are():
    def loss(obj):
        out = obj.pass_on()
        return np.sum(out[0] ** 2) * obj.w[1] + np.sum(obj.u[0]) + np.sum(obj.w[0])

    for _ in range(2):
        obj = Passing((np.array([1.0, 2.0]), 3.0))
        held = obj.v
        tangent = mt.grad(loss)(obj)
        np.testing.assert_allclose(tangent.v[0], 24.0 * np.array([1.0, 2.0]) + 2.0 + 1.0)
        np.testing.assert_allclose(tangent.v[1], 20.0)
        assert obj.v is held
        assert obj.w is held
        out, _ = mt.vjp(Passing.pass_on, obj)
        assert obj.u is out
        assert obj.w is held
