"""Arrays written in place by a checkpointed function."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


def accumulate(box, x):
    box.w += x * np.sin(box.w)
    return np.sum(box.w)


def written_by_index(box, x):
    box.w[0] = box.w[1] * x[0]
    box.w[1:] *= x[1:]
    return np.sum(box.w**2)


def returned(box, x):
    box.w *= x
    return np.sum(box.w * np.array([1.0, 3.0]))


def seen_through_a_view(box, x):
    box.w *= x
    return box.w[1:]


def moved(box, x):
    box.v = box.w
    box.v += x**2
    return np.sum(box.w)


@pytest.mark.parametrize("step", [accumulate, written_by_index, returned, seen_through_a_view, moved])
@pytest.mark.parametrize("way", ["grad", "vjp"])
def test_repeated_calls_leave_and_give_what_unchecked_ones_do(step, way):
    def gradients(step):
        box = Box(0.5, np.array([0.5, 0.8]))
        w = box.w

        def loss(box, x):
            total = 0.0
            for k in range(3):
                total = total + np.sum(step(box, x * (k + 1)) ** 2)
            return total + np.sum(box.w**2)

        if way == "grad":
            tangent, dx = mt.grad(loss, argnums=(0, 1))(box, np.array([0.7, 1.1]))
        else:
            _, pullback = mt.vjp(loss, box, np.array([0.7, 1.1]))
            pullback(1.0)
            tangent, dx = pullback(1.0)
        assert box.w is w
        return tangent.w, dx, w

    for checked, plain in zip(gradients(mt.checkpoint(step)), gradients(step), strict=True):
        np.testing.assert_allclose(checked, plain, rtol=1e-12)


@mt.differentiable
class Scratch:
    x: float
    buffer: object = None
    other: object = None


def fill(o):
    o.buffer[0] = o.x * 2
    o.buffer[1] = 5.0


def fill_a_buffer_of_constants(o):
    o.buffer = np.zeros(3)
    o.other = o.buffer
    mt.checkpoint(fill)(o)
    return np.sum(o.buffer * o.other)


def use_a_buffer_that_is_filled_again(o):
    o.buffer = np.ones(3)
    use = mt.checkpoint(lambda o: np.sum(o.buffer * o.x**2))
    first = use(o)
    o.buffer[:] = 2.0
    second = use(o)
    o.buffer[:] = 7.0
    return first + second


def put_a_given_array_back(o):
    o.buffer = np.zeros(3)
    o.other = o.buffer

    @mt.checkpoint
    def again(o):
        kept = o.buffer
        del o.buffer
        o.buffer = kept
        return o.x**2

    return again(o) + np.sum(o.other)


@pytest.mark.parametrize(
    ("program", "slope"),
    [
        (fill_a_buffer_of_constants, 24.0),
        (use_a_buffer_that_is_filled_again, 54.0),
        (put_a_given_array_back, 6.0),
    ],
)
def test_arrays_of_constants_in_fields_go_through_checkpoints(program, slope):
    for run in (mt.grad(program), lambda o: mt.vjp(program, o)[1](1.0)[0]):
        o = Scratch(3.0)
        assert run(o).x == slope
        assert type(o.buffer) is np.ndarray
        assert o.other is None or o.other is o.buffer
        plain = Scratch(3.0)
        program(plain)
        np.testing.assert_array_equal(o.buffer, plain.buffer)


def test_a_plain_array_is_not_written_in_a_checkpointed_function():
    plain = np.zeros(2)

    @mt.checkpoint
    def write(buffer, x):
        buffer[0] = x * 2

    def loss(x):
        write(plain, x)
        return x * plain[0]

    with pytest.raises(mt.CheckpointError, match=r"shape \(2,\).*Hold the array in a field.*np\.zeros_like"):
        mt.grad(loss)(3.0)
    assert plain.tolist() == [0.0, 0.0]


def write_the_view(o, row):
    row *= o.v[1]


def write_the_array(o, row):
    o.v[0] = o.v[1] * o.v[0]


def write_both(o, row):
    o.v *= 3.0
    row[1] = row[0] * o.v[1, 0]
    o.v[0, 0] = 0.5


def first_row(o):
    o.v[0] = o.v[1] * 2
    o.w = o.v.T[:1, ::-1]
    return o.v[0]


def look_at_the_first_row(o):
    o.w = o.v.T[:1, ::-1]
    return o.v[0]


@pytest.mark.parametrize("first", [first_row, look_at_the_first_row])
@pytest.mark.parametrize("write", [write_the_view, write_the_array, write_both])
@pytest.mark.parametrize("made", [lambda o: o.v * 1.0, lambda o: np.zeros_like(o.v), lambda o: o.v])
@pytest.mark.parametrize("run", [mt.grad, lambda f: lambda o: mt.vjp(f, o)[1](1.0)[0]], ids=["grad", "vjp"])
def test_a_view_of_a_given_array_that_leaves_a_checkpoint_stays_one(run, made, write, first):
    def program(step):
        def loss(o):
            o.v = made(o)
            row = step(o)
            out = np.sum(row**2)
            write(o, row)
            again = step(o)
            return out + np.sum(row * o.v) + np.sum(o.w**2) + np.sum(again)

        return loss

    make = lambda: Box(np.array([[1.0, 2.0], [3.0, 4.0]]))
    plain, checked = make(), make()
    expected = run(program(first))(plain)
    tangent = run(program(mt.checkpoint(first)))(checked)
    np.testing.assert_allclose(tangent.v, expected.v)
    np.testing.assert_array_equal(checked.v, plain.v)
    np.testing.assert_array_equal(checked.w, plain.w)
    assert np.shares_memory(plain.w, plain.v)
    assert np.shares_memory(checked.w, checked.v)


@pytest.mark.parametrize("made", [lambda o: o.v * 1.0, lambda o: o.v])
def test_a_view_and_its_array_are_not_written_in_one_checkpointed_call(made):
    def write(o, row):
        o.v[1] = row[0] * 3
        return np.sum(row)

    def loss(o, step):
        o.v = made(o)
        o.v[0] *= 2.0
        return step(o, o.v[1]) * np.sum(o.v)

    for _ in range(2):
        with pytest.raises(mt.InPlaceError, match="shares memory with it"):
            mt.grad(loss)(Box(np.array([[1.0, 2.0], [3.0, 4.0]])), mt.checkpoint(write))


def test_a_view_that_left_a_checkpoint_may_be_written_before_the_second_run():
    @mt.checkpoint
    def tail(o):
        o.w = np.sum(o.v**2)
        return o.v[1:]

    def loss(o):
        part = tail(o)
        o.v[1] = 7.0
        return np.sum(part**3) * o.w

    three_ways(lambda: (Box(np.array([1.0, 2.0, 3.0]), 0.0),), loss, NUMERICAL)


def test_the_second_run_sees_the_order_in_memory_of_an_array_that_was_written():
    def write(o):
        o.v[0] = o.v[1] * 2
        o.v.ravel()[1] *= 3.0  # a copy, since the order is Fortran's
        return np.sum(o.v**2)

    def make():
        return Box(np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]))

    np.testing.assert_array_equal(mt.grad(mt.checkpoint(write))(make()).v, mt.grad(write)(make()).v)


def test_a_result_and_a_view_of_it_stay_one_array_when_the_recording_has_ended():
    @mt.checkpoint
    def rolled(x):
        y = np.roll(x, 1)
        return y[1:], y

    def loss(x):
        (tail, y), _ = mt.vjp(rolled, x)
        tail[0] = y[0] * 5.0
        return np.sum(y**2) * np.sum(tail)

    three_ways(lambda: (np.array([1.0, 2.0, 3.0]),), loss, NUMERICAL)
    (tail, y), _ = mt.vjp(rolled, np.array([1.0, 2.0, 3.0]))
    assert np.shares_memory(tail, y)
