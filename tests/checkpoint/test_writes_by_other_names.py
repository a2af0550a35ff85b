"""A checkpointed function writes arguments, captured fields and arrays of its own; by any other name a write is refused."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways


@mt.differentiable
class Box:
    v: object
    w: object = None


def write_items(t):
    t[1:] = 5.0


def multiply(t):
    t *= 2.0


def add(t):
    t += t


def divide(t):
    t /= 4.0


def raise_to_a_power(t):
    t **= 2.0


def multiply_an_item(t):
    t[0] *= 3.0


def multiply_a_view(t):
    half = t[:2]
    half *= 3.0


def write_through_flat(t):
    t.flat[0] = 3.0


WAYS = [
    write_items,
    multiply,
    add,
    divide,
    raise_to_a_power,
    multiply_an_item,
    multiply_a_view,
    write_through_flat,
    lambda t: np.sin(t, out=t),
    lambda t: np.multiply(t, 2.0, out=t, where=np.array([True, False, True])),
    lambda t: np.cumsum(t, out=t),
    lambda t: np.clip(t, 0.6, 2.2, out=t),
    lambda t: np.add.at(t, np.array([0, 0]), np.ones(2)),
    lambda t: np.put(t, [0], 3.0),
    lambda t: t.sort(),
    lambda t: t.fill(3.0),
    lambda t: np.copyto(t, 2.0 * t),
    lambda t: np.putmask(t, t > 1.7, t + 1.0),
    lambda t: np.place(t, np.array([True, False, True]), [9.0]),
]
IDS = [
    *(way.__name__ for way in WAYS[:8]),
    *["sin", "where", "cumsum", "clip", "at", "put", "sort", "fill", "copyto", "putmask", "place"],
]

# By the kind of an array: how a recorded function of a box comes by it.
KINDS = {
    "field": lambda b: b.v,
    "written field": lambda b: multiply_an_item(b.v) or b.v,
    "computed": lambda b: b.v * 1.5,
    "zeros_like": lambda b: np.zeros_like(b.v),
    "written zeros_like": lambda b: written(np.zeros_like(b.v), b.v[1]),
    "view": lambda b: b.v[::-1],
    "view of what was computed": lambda b: (b.v * 2.0)[:3],
    "new field": lambda b: setattr(b, "w", b.v * 3.0) or b.w,
}


def written(array, value):
    array[0] = value
    return array


def box():
    return Box(np.array([2.0, 1.0, 3.0]))


def by_grad(f, b):
    return mt.grad(f)(b)


def by_vjp(f, b):
    return mt.vjp(f, b)[1](1.0)


def by_jvp_of_grad(f, b):
    return mt.jvp(
        lambda x: np.sum(mt.grad(lambda x: f(Box(x)))(x)), (np.array([2.0, 1.0, 3.0]),), (np.ones(3),)
    )


def in_an_inner_recording(f, b):
    """The array is one of the outer recording, and the checkpointed function runs in an inner one."""

    def outer(b):
        inner = lambda p: f(b, p)
        return np.sum(mt.grad(inner)(b.v * 2.0))

    return mt.grad(outer)(b)


def in_an_inner_recording_of_jvp(f, b):
    def outer(x):
        b = Box(x * 1.0)
        return np.sum(mt.grad(lambda p: f(b, p))(b.v * 2.0))

    return mt.jvp(outer, (np.array([2.0, 1.0, 3.0]),), (np.ones(3),))


RUNS = [by_grad, by_vjp, by_jvp_of_grad, in_an_inner_recording, in_an_inner_recording_of_jvp]


@pytest.mark.parametrize("run", RUNS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
@pytest.mark.parametrize("write", WAYS, ids=IDS)
def test_an_array_of_a_closure_is_not_written_in_any_way(write, kind, run):
    def loss(b, given=None):
        t = kind(b)

        def checkpointed(p):
            write(t)
            return np.sum(p**2)

        return mt.checkpoint(checkpointed)(b.v * 2.0 if given is None else given) + np.sum(t)

    b = box()
    with pytest.raises(
        mt.CheckpointError, match=r"wrote in place into .*shape \(\d?,?\).*Pass the array as an argument"
    ):
        run(loss, b)
    assert b.v.tolist() == [2.0, 1.0, 3.0]
    assert b.w is None


@pytest.mark.parametrize("write", WAYS, ids=IDS)
def test_an_argument_is_not_written_by_its_name_in_a_closure(write):
    def loss(b):
        t = b.v
        return mt.checkpoint(lambda p: (write(t), np.sum(p))[1])(t)

    with pytest.raises(mt.CheckpointError, match="wrote in place into"):
        mt.grad(loss)(box())


@pytest.mark.parametrize("write", WAYS, ids=IDS)
def test_the_argument_of_an_inner_recording_that_is_of_a_closure_is_not_written(write):
    def loss(b):
        t = b.v * 1.0

        def checkpointed(p):
            return np.sum(mt.grad(lambda q: (write(q), np.sum(q * q))[1])(t)) * np.sum(p)

        return mt.checkpoint(checkpointed)(b.v)

    with pytest.raises(mt.CheckpointError):
        mt.grad(loss)(box())


def test_what_a_refusal_leaves_is_what_was_there():
    def loss(b):
        t = b.v * 1.0

        def checkpointed(b):
            b.v *= 7.0
            multiply(t)

        with pytest.raises(mt.CheckpointError):
            mt.checkpoint(checkpointed)(b)
        multiply(t)  # the caller may
        return np.sum(t * b.v)

    b = box()
    np.testing.assert_allclose(mt.grad(loss)(b).v, 4.0 * np.array([2.0, 1.0, 3.0]))
    assert b.v.tolist() == [2.0, 1.0, 3.0]


def test_an_array_of_the_outer_checkpointed_function_is_not_written_in_the_inner_one():
    def outer(p):
        t = p * 2.0
        inner = mt.checkpoint(lambda q: multiply(t) or np.sum(q))
        return inner(p) + np.sum(t)

    with pytest.raises(mt.CheckpointError, match="wrote in place into"):
        mt.grad(lambda b: mt.checkpoint(outer)(b.v))(box())


def test_a_view_of_a_closure_that_is_written_into_an_argument_is_used_not_written():
    def loss(b):
        t = b.v * 1.0
        reverse = t[::-1]

        def checkpointed(p):
            p[...] += reverse
            return np.sum(p)

        return mt.checkpoint(checkpointed)(t)

    with pytest.raises(
        mt.CheckpointError, match=r"used a .*ndarray of shape .* a traced value that is neither"
    ):
        mt.grad(loss)(box())


# -- what is right is not refused --------------------------------------------------------------------------------------


@pytest.mark.parametrize("write", WAYS, ids=IDS)
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_an_array_that_is_the_argument_is_written_in_every_way(write, kind):
    def loss(b):
        t = kind(b)
        value = mt.checkpoint(lambda p: (write(p), np.sum(p**2))[1])(t)
        return value + np.sum(t * np.array([1.0, 2.0, 4.0])) + np.sum(b.v**3)

    three_ways(lambda: (box(),), loss, NUMERICAL)


@pytest.mark.parametrize("write", WAYS, ids=IDS)
@pytest.mark.parametrize("kind", [*list(KINDS.values()), lambda b: np.ones(3)], ids=[*KINDS, "plain"])
def test_an_array_of_its_own_is_written_in_every_way(write, kind):
    def checkpointed(b):
        t = kind(b)
        write(t)
        return np.sum(t * b.v) + np.sum(t[::-1] ** 2)

    three_ways(lambda: (box(),), lambda b: mt.checkpoint(checkpointed)(b) * np.sum(b.v), NUMERICAL)


@pytest.mark.parametrize("write", WAYS, ids=IDS)
def test_an_array_computed_of_an_outer_recordings_closure_is_its_own(write):
    def loss(x):
        def checkpointed(p):
            of_a_closure = np.sin(x[0]) * np.ones(3) + 2.0 * x
            constant = np.ones_like(x)
            write(of_a_closure)
            write(constant)
            return np.sum(p**2 * of_a_closure * constant)

        return np.sum(mt.grad(mt.checkpoint(checkpointed))(x * 3.0))

    expected = lambda x: loss_without_checkpoint(write, x)
    x = np.array([2.0, 1.0, 3.0])
    np.testing.assert_allclose(mt.grad(loss)(x), mt.grad(expected)(x))
    np.testing.assert_allclose(mt.jvp(loss, (x,), (x,)), mt.jvp(expected, (x,), (x,)))


def loss_without_checkpoint(write, x):
    def plain(p):
        of_a_closure = np.sin(x[0]) * np.ones(3) + 2.0 * x
        constant = np.ones_like(x)
        write(of_a_closure)
        write(constant)
        return np.sum(p**2 * of_a_closure * constant)

    return np.sum(mt.grad(plain)(x * 3.0))


def test_a_mask_made_like_a_closures_array_is_its_own():
    def loss(b):
        t = b.v * 2.0

        def checkpointed(p):
            mask = np.zeros_like(t)
            mask[0] = 1.0
            mask *= 2.0
            return np.sum(p * mask)

        return mt.checkpoint(checkpointed)(t)

    np.testing.assert_allclose(mt.grad(loss)(box()).v, [4.0, 0.0, 0.0])


def test_what_it_writes_may_be_traced_by_an_outer_recording():
    def inner(q, scale):
        q[0] = q[1] * scale
        made = np.zeros_like(q)
        made[1:] += q[:2] * scale
        made *= q
        return np.sum(made) + np.sum(q)

    def loss(x, step):
        scale = np.sum(x)
        return np.sum(mt.grad(lambda q: step(q * 1.0, scale))(x * 2.0))

    x = np.array([2.0, 1.0, 3.0])
    checked, plain = (lambda x, step=step: loss(x, step) for step in (mt.checkpoint(inner), inner))
    np.testing.assert_allclose(mt.grad(checked)(x), mt.grad(plain)(x))
    np.testing.assert_allclose(mt.jvp(checked, (x,), (x,)), mt.jvp(plain, (x,), (x,)))
