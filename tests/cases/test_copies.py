"""Case 20: `attrs.evolve`, `copy.copy` and `copy.deepcopy` of captured objects, inside and outside of recordings."""

import copy

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, Fields, three_ways


@mt.differentiable
class Point:
    x: object
    y: object = 0.0


@mt.differentiable(slots=False)
class DictPoint:
    x: object
    y: object = 0.0


@mt.differentiable(frozen=True)
class FrozenPoint:
    x: object
    y: object = 0.0


@mt.differentiable(frozen=True, slots=False)
class FrozenDictPoint:
    x: object
    y: object = 0.0


POINTS = [Point, DictPoint, FrozenPoint, FrozenDictPoint]
COPIES = [copy.copy, copy.deepcopy, attrs.evolve]
every_point = pytest.mark.parametrize("kind", POINTS)
every_copy = pytest.mark.parametrize("copied", COPIES)


@every_point
@every_copy
def test_a_copy_and_its_original_both_count(kind, copied):
    def loss(o):
        c = copied(o)
        return o.x + c.x

    three_ways(lambda: (kind(3.0),), loss, (Fields(x=2.0),))


@every_point
@every_copy
def test_a_copy_of_an_array_field_counts(kind, copied, xp):
    def loss(o):
        c = copied(o)
        return np.sum(o.x * c.x * c.y)

    three_ways(
        lambda: (kind(xp.asarray([3.0, 1.0]), xp.asarray([1.0, 2.0])),),
        loss,
        (Fields(x=[6.0, 4.0], y=[9.0, 1.0]),),
    )


@every_point
def test_evolve_replaces_one_field_and_keeps_the_others(kind):
    def loss(o):
        e = attrs.evolve(o, x=o.x * o.y)
        return e.x * e.y

    three_ways(lambda: (kind(3.0, 2.0),), loss, (Fields(x=4.0, y=12.0),))


@every_point
def test_a_functional_loop_by_evolve(kind):
    def loss(o):
        for _ in range(3):
            o = attrs.evolve(o, x=np.sin(o.x) + o.y, y=o.x * o.y)
        return o.x * o.y

    three_ways(lambda: (kind(0.4, 0.7),), loss, NUMERICAL)


@pytest.mark.parametrize("kind", [Point, DictPoint])
@every_copy
def test_a_write_to_the_copy_leaves_the_original(kind, copied):
    def loss(o):
        c = copied(o)
        c.x = c.x * 5
        return o.x * c.x

    three_ways(lambda: (kind(3.0),), loss, (Fields(x=30.0),))


@pytest.mark.parametrize("kind", [Point, DictPoint])
@every_copy
def test_a_write_to_the_original_leaves_the_copy(kind, copied):
    def loss(o):
        o.x = o.x * 2
        c = copied(o)
        o.x = o.x * 5
        return c.x + o.x * 0.0

    three_ways(lambda: (kind(3.0),), loss, (Fields(x=2.0),))


def test_a_shallow_copy_shares_the_child_and_a_deep_copy_does_not():
    def shallow(o):
        c = copy.copy(o)
        c.x.x = c.x.x * 3
        return o.x.x

    def deep(o):
        c = copy.deepcopy(o)
        c.x.x = c.x.x * 3
        return o.x.x + c.x.x

    three_ways(lambda: (Point(DictPoint(2.0)),), shallow, (Fields(x=Fields(x=3.0)),))
    three_ways(lambda: (Point(DictPoint(2.0)),), deep, (Fields(x=Fields(x=4.0)),))


def test_a_deep_copy_keeps_who_is_who():
    def tied():
        child = Point(2.0)
        return (Point(child, child),)

    def loss(o):
        c = copy.deepcopy(o)
        c.x.x = c.x.x * 3
        return c.y.x * o.x.x

    share = Fields(x=12.0)
    three_ways(tied, loss, (Fields(x=share, y=share),))


def test_a_deep_copy_of_a_cycle():
    def selfish():
        o = Point(2.0)
        o.y = o
        return (o,)

    def loss(o):
        c = copy.deepcopy(o)
        c.x = c.x * c.y.x
        return c.y.y.x

    three_ways(selfish, loss, (Fields(x=4.0, y=...),))


def test_a_deep_copy_of_a_traced_value_alone_is_that_value(xp):
    def loss(x):
        return np.sum(copy.deepcopy(x) * copy.copy(x))

    three_ways(lambda: (xp.asarray([3.0, 1.0]),), loss, ([6.0, 2.0],))


def test_copies_made_outside_of_recordings_are_independent():
    for kind in POINTS:
        o = kind(3.0, 2.0)
        mt.grad(lambda o: o.x * o.y)(o)
        for copied in COPIES:
            c = copied(o)
            assert (c.x, c.y) == (3.0, 2.0)
            assert mt.grad(lambda o, c: o.x * c.x**2, argnums=(0, 1))(o, c) == (
                mt.Tangent(kind, x=9.0),
                mt.Tangent(kind, x=18.0),
            )


@every_point
def test_a_copy_that_outlives_the_recording_holds_plain_values(kind):
    kept = []

    def loss(o):
        o = attrs.evolve(o, x=o.x * 2)
        kept.append(copy.copy(o))
        return o.x**2

    for _ in range(3):
        kept.clear()
        assert mt.grad(loss)(kind(3.0)).x == 24.0
        assert kept[0].x == 6.0
        assert type(kept[0].x) is float
        assert mt.grad(lambda c: c.x**2)(kept[0]).x == 12.0
