"""Python's garbage collector runs less often while a long recording is open, and as before afterwards."""

import contextvars
import gc

import numpy as np
import pytest

import mutangent as mt
from mutangent._collector import OBJECTS
from mutangent._fields import current

RAISED = (OBJECTS, 10, 10)


@pytest.fixture(autouse=True)
def usual_thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def long_loss(x):
    for _ in range(8000):  # tuples that Python kept for reuse do not count
        x = x * 0.999
    assert gc.get_threshold() == RAISED
    return np.sum(x)


def test_a_long_recording_raises_the_threshold_and_puts_it_back():
    x = np.ones(2)
    mt.grad(long_loss)(x)
    assert gc.get_threshold() == (700, 10, 10)
    _, pullback = mt.vjp(long_loss, x)
    assert gc.get_threshold() == (700, 10, 10)
    pullback(1.0)
    with mt.Context() as ctx:
        x = ctx.watch(x)
        out = long_loss(x)
    assert gc.get_threshold() == (700, 10, 10)
    ctx.grad(out, x)
    assert gc.get_threshold() == (700, 10, 10)


def test_an_inner_recording_leaves_it_to_the_outer_one():
    def nested(x):
        y = long_loss(x)
        mt.grad(lambda z: z**2)(3.0)
        assert gc.get_threshold() == RAISED
        return y

    mt.grad(nested)(np.ones(2))
    assert gc.get_threshold() == (700, 10, 10)


def test_a_function_that_raises_puts_the_threshold_back():
    def fails(x):
        long_loss(x)
        raise ZeroDivisionError

    for derivative in (mt.grad(fails), lambda x: mt.vjp(fails, x)):
        with pytest.raises(ZeroDivisionError):
            derivative(np.ones(2))
        assert gc.get_threshold() == (700, 10, 10)


def test_forward_mode_puts_it_back_too():
    def collecting(x):
        gc.collect()
        assert gc.get_threshold() == RAISED
        return x * 2.0

    mt.jvp(collecting, (1.0,), (1.0,))
    assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (200_000, 5, 5)], ids=["switched off", "higher"])
def test_a_user_who_lets_the_collector_run_less_often_is_left_alone(chosen):
    gc.set_threshold(*chosen)

    def collecting(x):
        gc.collect()
        assert gc.get_threshold() == chosen
        return x * 2.0

    mt.grad(collecting)(1.0)
    assert gc.get_threshold() == chosen


def test_thresholds_that_are_set_inside_stay():
    def setting(x):
        gc.collect()
        gc.set_threshold(1234, 5, 6)
        return x * 2.0

    mt.grad(setting)(1.0)
    assert gc.get_threshold() == (1234, 5, 6)


def test_a_collection_outside_of_recordings_changes_nothing():
    gc.collect()
    assert gc.get_threshold() == (700, 10, 10)


def test_a_run_of_the_collector_in_the_middle_of_leaving_a_recording_does_not_bring_it_back():
    # Many variables, so that taking one out of the context allocates, and the collector may run right then.
    others = [contextvars.ContextVar(f"other {number}") for number in range(64)]

    def leave_with_a_run_after(allocations):
        gc.collect()
        gc.set_threshold(allocations, 10, 10)
        with pytest.raises(ZeroDivisionError), mt.Context():
            raise ZeroDivisionError
        left_open = current() is not None
        gc.set_threshold(700, 10, 10)
        return left_open

    def look():
        for other in others:
            other.set(1)
        return [number for number in range(1, 400) if leave_with_a_run_after(number)]

    gc.freeze()  # what is there already would be looked at some hundred times
    try:
        assert contextvars.copy_context().run(look) == []
    finally:
        gc.unfreeze()
