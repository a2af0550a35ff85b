"""One array that two fields hold, written in place inside nested recordings."""

import copy

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import three_ways


@mt.differentiable
class Pair:
    a: np.ndarray
    b: np.ndarray


def shared():
    x = np.array([1.0, 2.0, 3.0])
    return Pair(x, x)


def write_first(o, s):
    o.a[0] = s * o.b[1]
    return np.sum(o.a * o.b)


def write_second(o, s):
    kept = np.sum(o.a**2)
    o.b[:2] *= s
    return kept + np.sum(o.a * o.b)


def write_both(o, s):
    o.a[0] = s
    o.b[1] = s * o.a[0]
    o.a += o.b
    return np.sum(o.a**3)


def write_by_a_view(o, s):
    tail = o.b[1:]
    tail *= s
    return np.sum(o.a**2)


WRITES = [write_first, write_second, write_both, write_by_a_view]
every_write = pytest.mark.parametrize("write", WRITES)


def by_grad(write, o, s):
    return mt.grad(write, argnums=1)(o, s)


def by_vjp(write, o, s):
    _, pullback = mt.vjp(write, o, s)
    return pullback(1.0)[1]


def by_context(write, o, s):
    with mt.Context() as ctx:
        s = ctx.watch(s)
        out = write(o, s)
    return ctx.grad(out, s)


def by_jvp(write, o, s):
    return mt.jvp(lambda s: write(o, s), (s,), (1.0,))[1]


every_way = pytest.mark.parametrize("way", [by_grad, by_vjp, by_context, by_jvp])


@every_write
@every_way
def test_a_recording_within_one_follows_both_names(write, way):
    def loss(o, s):
        slope = way(write, o, s)
        return slope**2 + np.sum(o.a * np.arange(3.0)) * np.sum(o.b)

    def functional(x, s):
        """The same with one field, so with one name."""
        single = Pair(x, None)
        single.b = single.a
        return loss(single, s)

    o = shared()
    x = o.a
    tangent, ds = mt.grad(loss, argnums=(0, 1))(o, 0.7)
    assert o.a is x
    assert o.b is x
    dx, ds_of_one = mt.grad(functional, argnums=(0, 1))(np.array([1.0, 2.0, 3.0]), 0.7)
    assert ds == pytest.approx(ds_of_one)
    np.testing.assert_allclose(sum(each for each in (tangent.a, tangent.b)), dx)
    step = 1e-6
    numbers = [loss(shared(), 0.7 + d) for d in (step, -step)]
    assert ds == pytest.approx((numbers[0] - numbers[1]) / (2 * step), rel=1e-4)


@every_write
def test_after_the_outer_recording_has_written_as_well(write):
    def loss(o, s):
        o.b[2] = s * 2
        slope = mt.grad(write, argnums=1)(o, s)
        o.a[0] = o.b[2] * slope
        return np.sum(o.b**2)

    def make():
        return shared(), 0.7

    three_ways(make, loss, (None, _slope(loss)))


def _slope(loss):
    step = 1e-6
    ahead, behind = (loss(shared(), 0.7 + d) for d in (step, -step))
    return (ahead - behind) / (2 * step)


def test_a_view_in_the_other_field_is_still_an_error():
    x = np.array([1.0, 2.0, 3.0])
    o = Pair(x, x[:2])

    def loss(o):
        return mt.grad(lambda o: (o.b, o.a.fill(1.0), np.sum(o.a))[-1])(o).a[0]

    with pytest.raises(mt.InPlaceError, match="shares memory with it"):
        mt.grad(loss)(o)


def test_the_error_about_overlapping_arrays_names_the_fields():
    x = np.array([1.0, 2.0, 3.0])

    def loss(o):
        part = o.b
        o.a[0] = part[1]
        return np.sum(o.a)

    with pytest.raises(mt.InPlaceError, match=r"of Pair\.a, is written in place, and Pair\.b holds"):
        mt.grad(loss)(Pair(x, x[:2]))
    with pytest.raises(
        mt.InPlaceError, match=r"of Pair\.a, is written in place, and another field or argument holds"
    ):
        mt.grad(lambda o: (o.a.fill(2.0), np.sum(o.b))[1])(Pair(x, x[:2]))


def test_a_deep_copy_in_a_recording_within_one_holds_the_array_once():
    def inner(o, s):
        made = copy.deepcopy(o)
        kept.append(made)
        return np.sum(made.a * made.b) * s

    def loss(o, s):
        return mt.value_and_grad(inner, argnums=1)(o, s)[0]

    kept = []
    o = shared()
    tangent = mt.grad(loss)(o, 2.0)
    np.testing.assert_array_equal(tangent.a + tangent.b, 4 * o.a)
    assert kept[0].a is kept[0].b


@pytest.mark.parametrize("other", [lambda x: x, lambda x: x[::-1]], ids=["the array", "a view"])
@pytest.mark.parametrize("use", [np.multiply, lambda a, b: np.sum(np.stack([a, b]), 0)], ids=["*", "stack"])
def test_an_array_that_an_inner_recording_wrote_is_read_by_its_name_in_the_outer_one(use, other):
    def inner(o, x):
        o.a[0] = o.a[1] * 3
        return np.sum(use(o.a, x))

    def loss(o):
        return mt.value_and_grad(inner)(o, other(o.b))[0]

    o = shared()
    value, tangent = mt.value_and_grad(loss)(o)
    assert o.a is o.b
    assert value == inner(shared(), other(o.b))
    dx = mt.grad(lambda x: inner(Pair(x, x), other(x)))(np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(tangent.a + (tangent.b + 0.0), dx)
