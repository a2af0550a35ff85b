"""A plain array that recorded code has put into a field, and reads by a local name after a write through the field."""

import inspect

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Buffer:
    v: np.ndarray
    u: np.ndarray = None

    def push(self, x):
        self.v[0] = x * 2


def read_after_the_write(w, x):
    b = np.zeros(3)
    w.v = b
    w.v[0] = x
    return np.sum(w.v) + np.sum(b)


def read_after_the_write_in_a_method(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    return np.sum(w.v) + np.sum(b)


def given_back(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    return b


def by_a_view(w, x):
    b = np.zeros(3)
    part = b[1:]
    w.v = b
    w.v[2] = x
    return np.sum(w.v) + np.sum(part)


def through_a_view(w, x):
    b = np.zeros(3)
    w.v = b
    w.v[1:][0] = x
    return np.sum(w.v) + np.sum(b)


def in_the_next_round(w, x):
    b = np.zeros(3)
    total = 0.0
    for _ in range(2):
        total = total + np.sum(b)
        w.v = b
        w.push(x)
    return total + w.v[0]


def by_a_function_within(w, x):
    b = np.zeros(3)
    w.v = b

    def of_b():
        return np.sum(b)

    w.push(x)
    return of_b() + np.sum(w.v)


def of_a_new_object(w, x):
    b = np.zeros(3)
    made = Buffer(b)
    made.push(x)
    return np.sum(made.v) + b[0]


def in_a_list(w, x):
    b = [np.zeros(3)]
    made = Buffer(b[0])
    made.push(x)
    return np.sum(made.v) + b[0][0]


def in_a_caller(w, x):
    b = np.zeros(3)
    put_and_push(w, b, x)
    return np.sum(w.v) + b[0]


def put_and_push(w, b, x):
    w.v = b
    w.push(x)


def never(w, x):
    w.v = np.zeros(3)
    w.push(x)
    w.v[1:][0] = x
    return np.sum(w.v)


def not_any_more(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    return np.sum(w.v)


def put_into_another_field(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    w.u = b
    w.push(x)
    return np.sum(w.u)


def of_its_shape(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    return np.sum(w.v) * b.shape[0] + b.size


def compared(w, x):
    b = np.zeros(3)
    w.v = b
    w.push(x)
    return np.sum(w.v) if b is not None else 0.0


def bound_anew(w, x):
    for _ in range(2):
        b = np.zeros(3)
        w.v = b
        w.push(x)
        b = w.v
    return np.sum(b)


def before_anything_traced_is_written(w, x):
    b = np.zeros(3)
    w.v = b
    w.v[0] = 1.0
    return np.sum(b) * x + np.sum(w.v)


def by_its_handle(w, x):
    b = np.zeros_like(x, shape=3)
    w.v = b
    w.push(x)
    return np.sum(b)


READ = [
    *(
        read_after_the_write,
        read_after_the_write_in_a_method,
        given_back,
        by_a_view,
        through_a_view,
        in_the_next_round,
    ),
    *(by_a_function_within, of_a_new_object, in_a_list, in_a_caller),
]
UNREAD = [
    *(never, not_any_more, put_into_another_field, of_its_shape, compared, bound_anew),
    *(before_anything_traced_is_written, by_its_handle),
]


def in_context(f, w, x):
    with mt.Context() as ctx:
        return f(w, ctx.watch(x))


VERBS = {
    "vjp": lambda f, w, x: mt.vjp(f, w, x)[0],
    "jvp": lambda f, w, x: mt.jvp(f, (w, x), (mt.ZeroTangent(), 1.0))[0],
    "checkpoint": lambda f, w, x: mt.vjp(mt.checkpoint(f), w, x)[0],
    "within": lambda f, w, x: mt.vjp(lambda w, x: mt.vjp(f, w, x)[0], w, x)[0],
    "context": in_context,
}


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("f", READ)
def test_a_local_name_that_shows_old_contents_is_refused(f, verb):
    w, b = Buffer(np.ones(3)), np.ones(3)
    w.v = b
    with pytest.raises(
        mt.InPlaceError, match="a plain array that was put into a field, was written with a traced"
    ):
        VERBS[verb](f, w, np.float64(2.0))
    assert w.v is b
    np.testing.assert_array_equal(b, 1)
    assert w.u is None


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("f", UNREAD)
def test_a_local_name_that_nobody_reads_does_no_harm(f, verb):
    x = np.float64(2.0)
    np.testing.assert_allclose(mt.primal(VERBS[verb](f, Buffer(np.ones(3)), x)), f(Buffer(np.ones(3)), x))


def test_the_error_says_where_the_name_is_read_and_what_to_write():
    lines, first = inspect.getsourcelines(read_after_the_write)
    with pytest.raises(mt.InPlaceError) as caught:
        mt.grad(read_after_the_write, argnums=1)(Buffer(np.ones(3)), 2.0)
    assert str(caught.value).partition(", a plain")[2] == (
        " array that was put into a field, was written with a traced value through that, and read_after_the_write, line "
        f"{first + len(lines) - 1}, reads it later by its plain name `b`, which shows what was there before, so that the "
        "gradient would be wrong. Read the field there, or make the array with np.zeros_like(x) or "
        "np.zeros(shape, like=x) of a traced x."
    )


def test_who_has_called_the_recording_may_read_it_afterwards():
    b = np.zeros(3)
    w = Buffer(np.ones(3))

    def f(w, b, x):
        w.v = b
        w.push(x)
        return np.sum(w.v)

    assert mt.grad(f, argnums=2)(w, b, 3.0) == 2.0
    assert b[0] == 6
    with mt.Context():
        w.v = b
        w.push(2.0)
    assert b[0] == 4
