"""Many arrays written once each: a write looks at the arrays that may share its memory, and not at all of them."""

import functools
import gc
import sys

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object


@mt.primitive
def summed(v):
    return np.sum(v)


@summed.rrule
def summed(v):
    return np.sum(v), lambda y_bar: (y_bar * np.ones_like(v),)


def arrays_of_their_own(n):
    return [Box(np.arange(4.0) + k) for k in range(n)]


def rows_of_one_array(n):
    rows = np.arange(4.0 * n).reshape(n, 4)
    return [Box(row) for row in rows]


def one_array(n):
    array = np.arange(4.0)
    return [Box(array) for _ in range(n)]


def read_and_write_each(boxes, x):
    total = 0.0
    for box in boxes:
        box.v[0] = x
        total = total + box.v[0] * box.v[1]
    return total


def read_all_then_write_all(boxes, x):
    total = sum(np.sum(box.v * x) for box in boxes)
    for box in boxes:
        box.v[1:] *= x
    return total + sum(np.sum(box.v) for box in boxes)


def write_views(boxes, x):
    total = 0.0
    for box in boxes:
        part = box.v[1:]
        part[0] = x
        total = total + np.sum(box.v)
    return total


def write_among_constants(boxes, x):
    total = 0.0
    for box in boxes:
        box.v[0] = x
        total = total + np.sum(box.v * np.ones(4))
    return total


def write_new_constants(boxes, x):
    total = 0.0
    for box in boxes:
        box.v = np.zeros(4)
        box.v[0] = x
        new = np.zeros_like(box.v)
        new[1] = x * box.v[0]
        total = total + np.sum(new) + np.sum(box.v)
    return total


def write_after_a_rule(boxes, x):
    total = 0.0
    for box in boxes:
        total = total + summed(box.v * x)
        box.v = box.v + 0.0
        box.v[0] = x
    return total


def write_in_checkpoints(boxes, x):
    def step(box, x):
        box.v[0] = x * box.v[1]
        return np.sum(box.v)

    return sum(mt.checkpoint(step)(box, x) for box in boxes)


def write_in_a_list(boxes, x):
    total = 0.0
    held = Box([box.v for box in boxes])
    for array in held.v:
        array[0] = x
        total = total + np.sum(array)
    return total


PROGRAMS = [
    read_and_write_each,
    read_all_then_write_all,
    write_views,
    write_among_constants,
    write_new_constants,
    write_after_a_rule,
    write_in_checkpoints,
    write_in_a_list,
]


def calls_in(function):
    """How many functions, in Python or C, a call of `function` calls."""
    count = 0

    def note(frame, event, argument):
        nonlocal count
        count += event in {"call", "c_call"}

    gc.disable()
    sys.setprofile(note)
    try:
        function()
    finally:
        sys.setprofile(None)
        gc.enable()
    return count


@pytest.mark.parametrize("verb", ["grad", "vjp", "jvp"])
@pytest.mark.parametrize("make", [arrays_of_their_own, rows_of_one_array, one_array])
@pytest.mark.parametrize("program", PROGRAMS)
def test_writing_n_arrays_once_each_costs_time_in_proportion(program, make, verb):
    def run(boxes):
        if verb == "grad":
            mt.grad(program, argnums=1)(boxes, 2.0)
        elif verb == "vjp":
            mt.vjp(program, boxes, 2.0)[1](1.0)
        else:
            mt.jvp(program, (boxes, 2.0), (mt.ZeroTangent(), 1.0))

    run(make(8))  # what is done once
    few, many = (calls_in(functools.partial(run, make(n))) for n in (25, 100))
    assert many < 4.6 * few


@pytest.mark.parametrize("verb", ["grad", "vjp", "jvp"])
@pytest.mark.parametrize("make", [arrays_of_their_own, rows_of_one_array, one_array])
@pytest.mark.parametrize("program", [read_and_write_each, write_views, write_in_a_list])
def test_writing_them_in_a_recording_within_one_costs_time_in_proportion(program, make, verb):
    def nested(boxes, x):
        if verb == "jvp":
            return mt.jvp(lambda x: program(boxes, x), (x,), (1.0,))[1]
        if verb == "vjp":
            return mt.vjp(program, boxes, x)[0]
        return mt.grad(program, argnums=1)(boxes, x)

    def run(boxes):
        mt.grad(nested, argnums=1)(boxes, 2.0)

    run(make(8))
    few, many = (calls_in(functools.partial(run, make(n))) for n in (25, 100))
    assert many < 4.6 * few


def test_writing_handles_of_an_outer_recording_costs_time_in_proportion():
    def outer(x, n):
        arrays = [x * np.ones(4) for _ in range(n)]

        def inner(p):
            for array in arrays:
                array[0] = p
            return np.sum(arrays[0]) * p

        return mt.grad(inner)(3.0) + arrays[-1][0]

    def run(n):
        mt.grad(lambda x: outer(x, n))(2.0)

    run(8)
    few, many = (calls_in(functools.partial(run, n)) for n in (25, 100))
    assert many < 4.6 * few
