"""Python's garbage collector runs less often while a recording is open, and as before afterwards."""

import gc

import numpy as np
import pytest

import mutangent as mt
from mutangent._collector import OBJECTS


@pytest.fixture(autouse=True)
def usual_thresholds():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_threshold_is_raised_inside_and_put_back_after():
    with mt.Context():
        assert gc.get_threshold() == (OBJECTS, 10, 10)
        assert mt.grad(np.sum)(np.ones(2)).tolist() == [1.0, 1.0]
        assert gc.get_threshold() == (OBJECTS, 10, 10), "an inner recording does not end it"
    assert gc.get_threshold() == (700, 10, 10)


def test_a_function_that_raises_puts_the_threshold_back():
    def fails(x):
        assert gc.get_threshold()[0] == OBJECTS
        raise ZeroDivisionError

    for derivative in (mt.grad(fails), lambda x: mt.vjp(fails, x), lambda x: mt.jvp(fails, (x,), (x,))):
        with pytest.raises(ZeroDivisionError):
            derivative(1.0)
        assert gc.get_threshold() == (700, 10, 10)


@pytest.mark.parametrize("chosen", [(0, 10, 10), (200_000, 5, 5)], ids=["switched off", "higher"])
def test_a_user_who_lets_the_collector_run_less_often_is_left_alone(chosen):
    gc.set_threshold(*chosen)
    with mt.Context():
        assert gc.get_threshold() == chosen
    assert gc.get_threshold() == chosen


def test_thresholds_that_are_set_inside_stay():
    with mt.Context():
        gc.set_threshold(1234, 5, 6)
    assert gc.get_threshold() == (1234, 5, 6)
