"""Recordings belong to the thread, task or context that opened them."""

import asyncio
import contextvars
import threading

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


def in_thread(f, *args):
    """Run `f` in a thread of its own and return or raise what it does."""
    outcome = {}

    def run():
        try:
            outcome["value"] = f(*args)
        except BaseException as error:  # noqa: BLE001 - raised again below
            outcome["error"] = error

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(30)
    assert not thread.is_alive()
    if "error" in outcome:
        raise outcome["error"]
    return outcome["value"]


def test_another_thread_reads_the_values_from_before():
    box = Box(2.0)

    def loss(o):
        o.v = o.v * 5
        assert in_thread(lambda: (o.v, type(o.v))) == (2.0, float)
        return o.v * 1.0

    for _ in range(3):
        box.v = 2.0
        assert mt.grad(loss)(box).v == 5.0
        assert box.v == 10.0


def test_another_thread_has_recordings_of_its_own():
    box = Box(2.0, 3.0)

    def loss(o):
        inside = in_thread(mt.grad(lambda o: o.v**3), o)
        assert inside == mt.Tangent(Box, v=12.0)
        assert type(inside.v) is float
        return o.v * inside.v

    for _ in range(3):
        # What another thread computed is a constant here.
        assert mt.grad(loss)(box).v == 12.0


def test_another_threads_commit_is_seen_by_reads_that_come_later():
    box = Box(2.0, 3.0)

    def write():
        def inner(o):
            o.w = o.w * 10
            return o.w * 1.0

        return mt.grad(inner)(box)

    def loss(o):
        first = o.v
        in_thread(write)
        return first * o.w

    assert mt.grad(loss)(box).v == 30.0
    assert box.w == 30.0


def test_a_traced_value_in_another_thread_is_recorded_where_it_belongs(xp):
    def loss(x):
        return in_thread(lambda: np.sum(x * x))

    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(xp.asarray([1.0, 2.0])), [2.0, 4.0])


def test_two_threads_that_write_one_object_do_not_mix():
    box = Box(1.0)
    barrier = threading.Barrier(2)
    results = []

    def loss(factor):
        barrier.wait(10)
        for _ in range(100):
            box.v = box.v * factor
        barrier.wait(10)
        assert abs(mt.primal(box.v) - mt.primal(factor) ** 100) < 1e-9 * mt.primal(factor) ** 100
        return box.v * 1.0

    def work(factor):
        results.append((factor, mt.grad(loss)(factor)))

    threads = [threading.Thread(target=work, args=(factor,)) for factor in (1.01, 1.02)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for factor, slope in results:
        assert slope == pytest.approx(100 * factor**99)
    assert box.v in (pytest.approx(1.01**100), pytest.approx(1.02**100))
    assert type(box.v) is float


def test_tasks_that_interleave_have_recordings_of_their_own():
    async def work(number):
        box = Box(float(number))
        with mt.Context() as ctx:
            for _ in range(10):
                box.v = box.v + box.w
                await asyncio.sleep(0)
            out = box.v * box.v
        return ctx.grad(out, box)

    async def all_of_them():
        return await asyncio.gather(*(work(number) for number in range(8)))

    for number, tangent in enumerate(asyncio.run(all_of_them())):
        assert tangent.v == 2 * (number + 10.0)
        assert tangent.w == 10 * 2 * (number + 10.0)


def test_a_task_that_outlives_the_recording_reads_plain_values():
    box = Box(2.0)
    seen = []

    async def later(go):
        await go.wait()
        seen.append((box.v, type(box.v)))
        box.w = box.v * 2

    async def main():
        go = asyncio.Event()
        with mt.Context():
            box.v = box.v * 5
            task = asyncio.ensure_future(later(go))
            await asyncio.sleep(0)
        go.set()
        await task

    asyncio.run(main())
    assert seen == [(10.0, float)]
    assert box.w == 20.0
    assert type(box.w) is float


def test_a_copied_context_that_runs_after_the_recording_reads_plain_values():
    box = Box(2.0)
    copies = []

    def loss(o):
        o.v = o.v * 5
        copies.append(contextvars.copy_context())
        return o.v * 1.0

    mt.grad(loss)(box)
    assert copies[0].run(lambda: (box.v, type(box.v))) == (10.0, float)
    assert copies[0].run(mt.grad(lambda o: o.v**2), box).v == 20.0


def test_a_generator_that_is_resumed_outside_reads_plain_values():
    box = Box(2.0)

    def steps():
        while True:
            box.v = box.v * 2
            yield box.v

    stepper = steps()
    for _ in range(3):
        start = box.v
        assert mt.grad(lambda o: next(stepper) * next(stepper))(box).v == 2 * 8 * start
        assert next(stepper) == start * 8
        assert type(box.v) is float
