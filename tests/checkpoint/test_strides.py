"""The second run of a checkpointed function sees arrays with the strides of the first, which decide what is a view."""

import numpy as np
import pytest

import mutangent as mt
from mutangent._arrays import copy_with_strides


@mt.differentiable
class Grid:
    x: np.ndarray


def reshaped_and_written(o, s):
    flat = o.x.reshape(-1)
    flat[:] = s * np.arange(1.0, 5.0)
    o.x[0] = 3.0 * s
    return np.sum(o.x**2) + np.sum(flat)


def written_and_reshaped(o, s):
    o.x[0, 0] = 3.0 * s
    flat = o.x.reshape(-1)
    flat[:] = s * np.arange(1.0, 5.0)
    return np.sum(o.x**2) + np.sum(flat)


def ravelled(o, s):
    o.x[1] *= s
    flat = np.ravel(o.x)
    flat[::2] = s**2
    return np.sum(np.sin(o.x)) + np.sum(flat**3)


PARTS = {
    "a corner": lambda base: base[:2, :2],
    "every other": lambda base: base[::2, ::2],
    "turned round": lambda base: base[::-1, ::-1][:2, :2],
    "transposed": lambda base: base.T[1:3, :2],
    "a compact one": lambda base: base[:2].reshape(4, 2)[:2],
    "rows": lambda base: base[:2, :2].copy(order="F"),
}


def written_first(function):
    """`function` of an array that was written before it is called, and between two calls."""

    def loss(o, s):
        o.x[1, 0] = s * o.x[0, 1]
        total = function(o, s) + np.sum(o.x)
        o.x[0, 0] = s * o.x[1, 1]
        return total + function(o, s) * np.sum(o.x)

    return loss


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
@pytest.mark.parametrize("f", [reshaped_and_written, written_and_reshaped, ravelled])
@pytest.mark.parametrize("used", [lambda function: function, written_first], ids=["fresh", "written first"])
def test_a_checkpoint_changes_nothing(used, f, part):
    def gradients(function):
        base = np.arange(16.0).reshape(4, 4)
        o = Grid(part(base))
        do, ds = mt.grad(used(function), argnums=(0, 1))(o, 2.0)
        return do.x, ds, o.x, base

    for found, expected in zip(gradients(mt.checkpoint(f)), gradients(f), strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("part", PARTS.values(), ids=PARTS)
def test_a_copy_with_strides_has_the_contents_and_strides_and_memory_of_its_own(part):
    array = part(np.arange(16.0).reshape(4, 4))
    made = copy_with_strides(array)
    np.testing.assert_array_equal(made, array)
    assert made.strides == array.strides
    made[...] = -1.0
    assert (array >= 0.0).all()


def test_a_copy_of_an_empty_array_is_empty():
    array = np.zeros((4, 4))[::2, 4:]
    assert copy_with_strides(array).shape == (2, 0)


@mt.differentiable
class Held:
    v: object
    p: float


@pytest.mark.parametrize("within", [False, True], ids=["in the recording", "in a recording within it"])
@pytest.mark.parametrize("first", ["argument", "field"])
def test_an_array_with_gaps_that_was_written_is_one_array_by_both_of_its_names(first, within):
    def step(held, x):
        x[0] += held.p
        return np.sum(held.v * np.arange(6.0).reshape(3, 2))

    def loss(held, x, call):
        if first == "argument":
            x *= 2.0
        else:
            held.v *= 2.0
        if within:
            return mt.vjp(call, held, x)[0]
        return call(held, x)

    def make():
        x = np.arange(18.0).reshape(3, 6)[:, 1:3]
        return Held(x, 0.5), x

    value, (plain, dx) = mt.value_and_grad(lambda h, x: loss(h, x, step), argnums=(0, 1))(*make())
    held, x = make()
    again, (tangent, dx_again) = mt.value_and_grad(
        lambda h, x: loss(h, x, mt.checkpoint(step)), argnums=(0, 1)
    )(held, x)
    assert again == value == 324.5
    assert tangent.p == plain.p == 1.0
    np.testing.assert_allclose((tangent.v + np.zeros((3, 2))) + dx_again, (plain.v + np.zeros((3, 2))) + dx)
    assert held.v is x
    np.testing.assert_array_equal(x[0], [2.5, 4.5])


def test_an_array_with_gaps_that_was_written_and_a_part_of_it_are_refused_in_a_checkpoint():
    def step(held, part):
        part[0] += held.p
        return np.sum(held.v)

    def loss(held, x):
        held.v *= 2.0
        return mt.checkpoint(step)(held, x[1:])

    x = np.arange(18.0).reshape(3, 6)[:, 1:3]
    with pytest.raises(mt.InPlaceError, match="shares memory"):
        mt.grad(loss, argnums=(0, 1))(Held(x, 0.5), x)
