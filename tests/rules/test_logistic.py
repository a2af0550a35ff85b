"""``1 / (1 + np.exp(-x))`` is one entry with one derivative, and the memory of its exponential is given back."""

import tracemalloc

import numpy as np
import pytest

import mutangent as mt
from mutangent._accumulate import Cotangents
from mutangent._recording import Recording
from mutangent._tape import sweep

SIZE = 800  # enough for the exponential to be worth giving back


@mt.differentiable
class Holder:
    value: object = None


@mt.primitive
def doubled(x):
    return 2 * x


@doubled.rrule
def doubled(x):
    return 2 * x, lambda y_bar: (2 * y_bar,)


def reciprocal(x):
    """What is not recognised."""
    return np.reciprocal(x)


def quotient(x):
    return 1 / x


def uses_nothing_else(x, inverse):
    for _ in range(3):
        x = inverse(1 + np.exp(-x))
    return x


def uses_the_exponential_later(x, inverse):
    e = np.exp(-x)
    s = inverse(1 + e)
    s = inverse(1 + np.exp(-s))
    return s * e


def uses_the_sum_later(x, inverse):
    total = 1 + np.exp(-x)
    s = inverse(total)
    s = inverse(1 + np.exp(-s))
    return s * np.log(total)


def uses_the_exponential_in_between(x, inverse):
    e = np.exp(-x)
    w = np.sin(e)
    s = inverse(1 + e)
    del e
    s = inverse(1 + np.exp(-s))
    return s * w


def uses_the_sum_in_between(x, inverse):
    total = 1 + np.exp(-x)
    s = inverse(total)
    w = total * s
    del total
    s = inverse(1 + np.exp(-s))
    return s * w


def keeps_a_view_of_the_exponential(x, inverse):
    e = np.exp(-x)
    part = e[::2]
    s = inverse(1 + e)
    del e
    s = inverse(1 + np.exp(-s))
    return s[::2] * part


def keeps_a_view_of_the_sum(x, inverse):
    total = 1 + np.exp(-x)
    part = total.reshape(2, -1)
    s = inverse(total)
    del total
    s = inverse(1 + np.exp(-s))
    return s * part.ravel()


def keeps_the_exponential_in_a_field(x, inverse):
    holder = Holder()
    holder.value = np.exp(-x)
    s = inverse(1 + holder.value)
    s = inverse(1 + np.exp(-s))
    return s * holder.value


def keeps_the_exponential_in_a_stack(x, inverse):
    e = np.exp(-x)
    both = np.stack([e, 2 * e])
    s = inverse(1 + e)
    del e
    s = inverse(1 + np.exp(-s))
    return s * both[1]


def gives_the_exponential_to_a_primitive(x, inverse):
    e = np.exp(-x)
    w = doubled(e)
    s = inverse(1 + e)
    del e
    s = inverse(1 + np.exp(-s))
    return s * w


def gives_the_sum_to_a_primitive(x, inverse):
    total = 1 + np.exp(-x)
    s = inverse(total)
    w = doubled(total)
    del total
    s = inverse(1 + np.exp(-s))
    return s * w


def writes_into_the_exponential(x, inverse):
    e = np.exp(-x)
    s = inverse(1 + e)
    e *= x
    s = inverse(1 + np.exp(-s))
    return s * e


def adds_one_in_place(x, inverse):
    total = np.exp(-x)
    total += 1
    s = inverse(total)
    w = total * total
    del total
    s = inverse(1 + np.exp(-s))
    return s * w


PROGRAMS = [
    uses_nothing_else,
    uses_the_exponential_later,
    uses_the_sum_later,
    uses_the_exponential_in_between,
    uses_the_sum_in_between,
    keeps_a_view_of_the_exponential,
    keeps_a_view_of_the_sum,
    keeps_the_exponential_in_a_field,
    keeps_the_exponential_in_a_stack,
    gives_the_exponential_to_a_primitive,
    gives_the_sum_to_a_primitive,
    writes_into_the_exponential,
    adds_one_in_place,
]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_the_gradient_is_that_of_the_program_without_recognition(program):
    x = np.linspace(-2.0, 2.0, SIZE)

    def loss(x, inverse):
        return np.sum(np.cos(program(x, inverse)))

    np.testing.assert_allclose(
        mt.grad(lambda x: loss(x, quotient))(x), mt.grad(lambda x: loss(x, reciprocal))(x), rtol=1e-12
    )


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_second_derivatives_are_those_of_the_program_without_recognition(program):
    x = np.linspace(-2.0, 2.0, SIZE)
    v = np.cos(np.arange(SIZE))

    def along_v(inverse):
        return lambda x: np.sum(v * mt.grad(lambda x: np.sum(np.cos(program(x, inverse))))(x))

    np.testing.assert_allclose(mt.grad(along_v(quotient))(x), mt.grad(along_v(reciprocal))(x), rtol=1e-9)


def test_a_large_negative_argument_has_the_derivative_zero():
    x = np.array([-200.0, 0.0, 200.0], np.float32)
    with np.errstate(over="ignore"):
        gradient = mt.grad(lambda x: np.sum(1 / (1 + np.exp(-x))))(x)
    np.testing.assert_array_equal(gradient, np.array([0.0, 0.25, 0.0], np.float32))


def steps(x, count):
    with Recording() as recording:
        traced = recording.lift(x, "x")[0]
        for _ in range(count):
            traced = 1 / (1 + np.exp(-traced))
    return recording


def test_the_exponential_of_all_but_the_last_logistic_function_is_given_back():
    forgotten = [repr(entry[0]) for entry in steps(np.zeros(SIZE), 5).entries].count("forgotten exponential")
    assert forgotten == 4


def test_small_exponentials_stay():
    assert "forgotten exponential" not in [repr(entry[0]) for entry in steps(np.zeros(3), 5).entries]


def test_a_recording_keeps_one_array_for_each_logistic_function():
    x = np.zeros(20_000)
    steps(x, 2)
    tracemalloc.start()
    try:
        recording = steps(x, 20)
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert len(recording.entries) > 20
    assert held < 25 * x.nbytes


def test_a_cotangent_of_a_forgotten_exponential_is_an_error():
    entries = steps(np.zeros(SIZE), 2).entries
    number = [repr(entry[0]) for entry in entries].index("forgotten exponential")
    cotangents = Cotangents(len(entries))
    cotangents.add(number, np.ones(SIZE))
    with pytest.raises(RuntimeError, match="derivative of an exponential was asked for"):
        sweep(entries, cotangents)
