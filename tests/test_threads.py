"""Recordings belong to the thread, task or context that opened them."""

import asyncio
import contextvars
import copy
import gc
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import mutangent as mt
from mutangent._elsewhere import open_recordings
from mutangent._fields import current


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
        with pytest.warns(RuntimeWarning, match=r"Box\.v was read in the thread"):
            assert mt.grad(loss)(box).v == 5.0
        assert box.v == 10.0


@mt.differentiable(slots=False)
class DictBox:
    v: object


WARNING = (
    r"Box\.v was read in the thread .+ while a recording waited, and was there the plain value from before that "
    r"recording: what was computed from it is a constant, which is missing in the gradient\. Compute it in the thread and "
    r"task of the recording, or let each thread call mutangent\.grad itself and add the gradients up\. If it is meant to "
    r"be a constant, wait for it inside `with mutangent\.pause\(\):`\."
)


def by_grad(loss, box):
    mt.grad(loss)(box)


def by_vjp(loss, box):
    mt.vjp(loss, box)[1](1.0)


def by_jvp(loss, box):
    mt.jvp(loss, (box,), (mt.Tangent(type(box), v=1.0),))


def by_context(loss, box):
    with mt.Context() as ctx:
        out = loss(box) * ctx.watch(1.0)
    ctx.grad(out, box)


def by_gradient_within_the_context(loss, box):
    with mt.Context() as ctx:
        ctx.grad(loss(box) * ctx.watch(1.0), box)


def by_an_inner_recording(loss, box):
    mt.grad(lambda x: mt.grad(loss)(box).dense().v * x)(1.0)


@pytest.mark.parametrize(
    "differentiate",
    [by_grad, by_vjp, by_jvp, by_context, by_gradient_within_the_context, by_an_inner_recording],
)
@pytest.mark.parametrize(
    "read",
    [lambda o: o.v, lambda o: copy.copy(o).v, lambda o: getattr(o, "v"), lambda o: vars(o)["v"]],  # noqa: B009
    ids=["attribute", "copy", "getattr", "vars"],
)
def test_a_share_of_the_work_that_a_thread_does_is_warned_of_with_the_line_of_the_caller(differentiate, read):
    box = DictBox(3.0)

    def loss(o):
        return in_thread(lambda: read(o) * 2.0)

    with pytest.warns(RuntimeWarning, match=WARNING) as caught:
        differentiate(loss, box)
    assert [each.filename for each in caught] == [__file__]
    assert box == DictBox(3.0)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_pool_that_gets_the_work_of_a_recording_is_warned_of(workers):
    box, xs = Box(0.5, np.array([1.0, 2.0])), np.linspace(0.0, 1.0, 7)

    def loss(o):
        with ThreadPoolExecutor(workers) as pool:
            futures = [pool.submit(lambda x=x: np.sum(o.w) * x) for x in xs]
            return o.v * sum(future.result() for future in futures)

    with pytest.warns(RuntimeWarning, match=r"Box\.w was read in the thread ThreadPoolExecutor") as caught:
        assert mt.grad(loss)(box).w == mt.ZeroTangent()
    assert len(caught) == 1


@pytest.mark.parametrize("run", [in_thread, lambda f: asyncio.run(asyncio.to_thread(f))])
def test_what_a_thread_writes_into_an_object_that_the_recording_knows_is_warned_of(run):
    box, unknown = Box(2.0), Box(5.0)

    def loss(o):
        o.v = o.v * 3.0
        run(lambda: (setattr(o, "v", 7.0), setattr(unknown, "v", 8.0), Box(1.0)))
        return o.v * unknown.v  # plain Python would have 7 * 8

    with pytest.warns(
        RuntimeWarning,
        match=r"Box\.v was written in the thread .+ while a recording waited, which goes on with the value that it had "
        r"read or written itself, and stores its own at its end if it wrote one\. Compute it in the thread",
    ) as caught:
        assert mt.grad(loss)(box).v == 24.0
    assert len(caught) == 1
    assert (box.v, unknown.v) == (6.0, 8.0)


def gradient_in_a_thread(box):
    return in_thread(lambda: mt.grad(lambda o: o.v**3)(box).v)


def tangent_in_a_thread(box):
    return in_thread(lambda: mt.jvp(lambda o: o.v**3, (box,), (mt.Tangent(Box, v=1.0),))[1])


def context_in_a_thread(box):
    def work():
        with mt.Context() as ctx:
            out = box.v**3
        return ctx.grad(out, box).v

    return in_thread(work)


@pytest.mark.parametrize("work", [gradient_in_a_thread, tangent_in_a_thread, context_in_a_thread])
def test_a_recording_in_a_thread_that_another_one_waits_for_is_warned_of(work):
    box = Box(2.0)
    with pytest.warns(RuntimeWarning, match=r"Box\.v was read in the thread .+ while a recording waited"):
        assert mt.grad(lambda o: o.v**2 + work(o))(box).v == 4.0


def test_what_a_recording_in_a_thread_stores_while_another_one_waits_is_warned_of():
    box = Box(2.0)

    def loss(o):
        before = o.v * 1.0
        in_thread(lambda: mt.grad(lambda o: setattr(o, "v", 5.0) or o.v * 1.0)(o))
        return o.v * before

    with pytest.warns(RuntimeWarning, match=r"Box\.v was written in the thread .+ while a recording waited"):
        mt.grad(loss)(box)


def test_of_many_objects_that_a_thread_reads_few_are_held():
    boxes, box = [Box(float(k)) for k in range(3000)], Box(2.0)

    def loss(o):
        total = in_thread(lambda: sum(each.v for each in boxes))
        held = current().noted_elsewhere()._noted
        assert len(held) == 1000
        return o.w * total

    assert mt.grad(loss)(box).w == sum(range(3000))


def test_a_warning_that_is_an_error_leaves_the_objects_as_before():
    box = Box(2.0)

    def loss(o):
        o.w = o.v * 3.0
        return in_thread(lambda: o.v) * o.w

    with warnings.catch_warnings(action="error"), pytest.raises(RuntimeWarning, match=r"Box\.v was read"):
        mt.grad(loss)(box)
    assert box == Box(2.0)
    assert current() is None


def test_a_task_from_before_the_recording_that_reads_while_the_recording_waits_is_warned_of():
    box = Box(2.0)

    async def main():
        asked, answer = asyncio.Event(), asyncio.get_running_loop().create_future()

        async def serve():
            await asked.wait()
            answer.set_result(box.v * 5.0)

        server = asyncio.create_task(serve())
        await asyncio.sleep(0)
        with mt.Context() as ctx:
            asked.set()
            out = await answer + box.w
        await server
        return ctx.grad(out, box)

    with pytest.warns(RuntimeWarning, match=r"Box\.v was read in another task while a recording waited"):
        asyncio.run(main())


def test_who_does_not_wait_or_pauses_or_reads_something_else_is_not_warned():
    box, other, started, done = Box(2.0), Box(7.0), threading.Event(), threading.Event()

    def paused(o):
        with mt.pause():
            factor = in_thread(lambda: o.v)
        in_thread(lambda: other.v)  # an object that nobody differentiates
        return factor * o.v

    assert mt.grad(paused)(box).v == 2.0

    def look():
        started.set()
        while not done.is_set():
            _ = box.v, box.w

    def busy(o):
        total = o.v
        for _ in range(2000):
            total = total + o.v * 1e-3
        return total

    looking = threading.Thread(target=look)
    looking.start()
    started.wait()
    try:
        for _ in range(5):
            assert mt.grad(busy)(box).v == pytest.approx(3.0)
    finally:
        done.set()
        looking.join()


def test_threads_that_record_for_themselves_may_read_plain_values_too():
    box = Box(0.5, 2.0)

    def share(x):
        gradient = mt.grad(lambda o: np.tanh(o.v * x))(box)
        return box.w * gradient.v

    with ThreadPoolExecutor(3) as pool:
        shares = list(pool.map(share, np.linspace(0.0, 1.0, 50)))
    assert len(shares) == 50


def test_nothing_is_kept_of_recordings_that_have_ended():
    box = Box(2.0)
    mt.grad(lambda o: o.v * 2.0)(box)
    with pytest.raises(ZeroDivisionError):
        mt.grad(lambda o: 1 / 0)(box)
    entered = mt.Context()
    entered.__enter__()
    assert len(open_recordings) == 1
    entered.__exit__(None, None, None)
    assert not open_recordings


@pytest.mark.filterwarnings("ignore:.+ while a recording waited")
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


@pytest.mark.filterwarnings("ignore:.+ while a recording waited")
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


ELSEWHERE = r"in the thread .* its recording was opened in another one.*let each thread call mutangent.grad"


@pytest.mark.parametrize(
    "use",
    [
        lambda x: x + x,
        lambda x: x * 2.0,
        lambda x: 1.0 - x,
        lambda x: -x,
        lambda x: x @ x,
        lambda x: np.outer(x, x) @ np.outer(x, x),
        np.sin,
        np.sum,
        lambda x: np.split(x, 2),
        lambda x: np.stack([x, x]),
        lambda x: np.linalg.slogdet(np.outer(x, x) + np.eye(2)),
        lambda x: x[0],
        lambda x: x[::-1],
        lambda x: x.copy(),
        lambda x: x.__iadd__(1.0),
        lambda x: np.add.at(x, [0, 0], 1.0),
        mt.checkpoint(np.sin),
    ],
)
def test_a_traced_value_in_another_thread_is_refused_whatever_is_done_with_it(xp, use):
    box = Box(xp.asarray([1.0, 2.0]))

    def loss(o):
        before = o.v * 2.0
        with pytest.raises(mt.ContextError, match=ELSEWHERE):
            in_thread(use, o.v)
        return np.sum(before * o.v)

    np.testing.assert_array_equal(mt.grad(loss)(box).v, [4.0, 8.0])
    np.testing.assert_array_equal(box.v, [1.0, 2.0])


def test_an_item_is_not_written_in_another_thread():
    def loss(x):
        y = x * 2.0
        with pytest.raises(mt.ContextError, match=ELSEWHERE):
            in_thread(lambda: y.__setitem__(0, 1.0))
        return np.sum(y)

    np.testing.assert_array_equal(mt.grad(loss)(np.ones(2)), [2.0, 2.0])


def test_a_traced_value_in_another_thread_is_refused_in_forward_mode():
    with pytest.raises(mt.ContextError, match=ELSEWHERE):
        mt.jvp(lambda x: in_thread(lambda: np.sin(x)), (1.0,), (1.0,))


def test_a_traced_value_may_be_looked_at_in_another_thread():
    def loss(x):
        assert in_thread(lambda: (mt.primal(x), repr(x), x > 1.0)) == (2.0, "TracedArray(2.0)", True)
        return x * x

    assert mt.grad(loss)(2.0) == 4.0


def test_constants_may_be_computed_in_another_thread_while_the_recording_is_paused():
    def loss(x):
        with mt.pause():
            square = in_thread(lambda: x * x)
        return x * square

    assert mt.grad(loss)(3.0) == 9.0


def test_threads_that_compute_with_values_of_one_recording_at_once_are_refused():
    def loss(xs):
        with ThreadPoolExecutor(4) as pool:
            return sum(pool.map(lambda x: np.sum(x**3), xs))

    with pytest.raises(mt.ContextError, match=ELSEWHERE):
        mt.grad(loss)([np.ones(3) for _ in range(8)])


@pytest.mark.parametrize(
    "run", [in_thread, lambda f: contextvars.Context().run(f)], ids=["thread", "context"]
)
def test_a_field_takes_no_traced_value_where_the_recording_is_not_open(run):
    box, other = Box(2.0), Box(1.0)

    def loss(o):
        t = o.v * 3.0

        def write():
            other.v = t

        with pytest.raises(
            mt.TracedValueError, match=r"Box\.v = x in a thread or context.*is not open would silently"
        ):
            run(write)
        return t

    assert mt.grad(loss)(box).v == 3.0
    assert other.v == 1.0


@pytest.mark.filterwarnings("ignore:.+ while a recording waited")
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


# -- pools and event loops -----------------------------------------------------------------------------------------------


def run_in_a_pool(f):
    with ThreadPoolExecutor(2) as pool:
        return pool.submit(f).result(30)


def run_by_to_thread(f):
    return in_thread(lambda: asyncio.run(asyncio.to_thread(f)))


def run_in_a_thread_with_this_context(f):
    """As threads of free-threaded builds start, and `asyncio.to_thread`."""
    return in_thread(contextvars.copy_context().run, f)


@pytest.mark.parametrize("run", [run_in_a_pool, run_by_to_thread, run_in_a_thread_with_this_context])
def test_a_thread_of_whatever_kind_sees_and_writes_the_objects_themselves(run):
    box = Box(2.0, 3.0)
    box_of_thread = Box(1.0)

    def look():
        box_of_thread.v = box.v * 10
        return box.v, mt.grad(lambda o: o.v**3)(box).v

    def loss(o):
        o.v = o.v * 5
        seen = run(look)
        assert seen == (2.0, 12.0)
        assert all(type(each) is float for each in seen)
        return o.v * o.w

    for _ in range(3):
        box.v = 2.0
        with pytest.warns(RuntimeWarning, match=r"Box\.v was read in the thread"):
            assert mt.grad(loss)(box) == mt.Tangent(Box, v=15.0, w=10.0)
        assert (box.v, box_of_thread.v) == (10.0, 20.0)


def test_an_executor_of_the_event_loop_sees_the_objects_themselves():
    box = Box(2.0)

    async def main():
        with mt.Context() as ctx:
            box.v = box.v * 5
            seen = await asyncio.get_running_loop().run_in_executor(None, lambda: box.v)
            also = await asyncio.to_thread(lambda: box.v)
            out = box.v * 1.0
        return seen, also, ctx.grad(out, box).v

    with pytest.warns(RuntimeWarning, match=r"Box\.v was read in the thread asyncio"):
        assert asyncio.run(main()) == (2.0, 2.0, 5.0)


def test_gradients_of_several_threads_are_added_up():
    cell = Box(np.array([0.5, -0.3]))
    inputs = [np.array([0.1 * k, 1.0]) for k in range(6)]

    def loss(cell, x):
        return np.sum(np.tanh(cell.v * x))

    with ThreadPoolExecutor(3) as pool:
        together = sum(pool.map(lambda x: mt.grad(loss)(cell, x).v, inputs))
    alone = mt.grad(lambda cell: sum(loss(cell, x) for x in inputs))(cell).v
    np.testing.assert_allclose(together, alone, rtol=1e-14)


def test_recordings_in_a_pool_share_nothing():
    """Many at once, over one object, at the shortest switch interval."""
    cell = Box(np.array([0.5, -0.3]))

    def loss(cell, x):
        h = x
        for _ in range(20):
            h = np.tanh(cell.v * h + x)
            cell.w = np.sum(h)
        return np.sum(h**2)

    inputs = [np.array([0.1 * k, 1.0]) for k in range(16)]
    alone = [mt.grad(loss)(cell, x).v for x in inputs]
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            together = list(pool.map(lambda x: mt.grad(loss)(cell, x).v, inputs * 4))
    finally:
        sys.setswitchinterval(interval)
    for found, expected in zip(together, alone * 4, strict=True):
        np.testing.assert_array_equal(found, expected)
    assert type(cell.w) is type(np.sum(cell.v))


# -- two recordings over one object --------------------------------------------------------------------------------------


def taking_turns(*functions):
    """Run functions of `turn` as tasks; each call of `await turn()` lets the others go on."""

    async def main():
        turn = lambda: asyncio.sleep(0)
        return await asyncio.gather(*(each(turn) for each in functions), return_exceptions=True)

    return asyncio.run(main())


def test_the_last_recording_to_end_wins_field_by_field():
    box = Box(2.0, 10.0)

    def add(amount, turns, writes_w):
        async def run(turn):
            with mt.Context() as ctx:
                before = box.v
                for _ in range(turns):
                    await turn()
                assert mt.primal(box.v) == 2.0  # whatever the other has done
                box.v = before + amount
                if writes_w:
                    box.w = box.w * box.v
                out = box.v**2
            return ctx.grad(out, box).v

        return run

    assert taking_turns(add(1.0, 3, False), add(5.0, 1, True)) == [6.0, 14.0]
    assert box.v == 3.0  # of the one that ended last
    assert box.w == 70.0  # which had not written this
    assert type(box.v) is float


def test_a_raise_in_one_task_leaves_what_the_other_did():
    box = Box(2.0)

    async def fails(turn):
        with mt.Context():
            box.v = box.v * 100
            await turn()
            await turn()
            raise ZeroDivisionError

    async def works(turn):
        with mt.Context():
            await turn()
            box.v = box.v * 3

    failed, _ = taking_turns(fails, works)
    assert type(failed) is ZeroDivisionError
    assert box.v == 6.0


def in_place(box):
    box.v[0] = box.v[1] * 2


def only_reading(box):
    return np.sum(box.v)


@pytest.mark.parametrize("late", [in_place, only_reading])
def test_the_second_recording_over_an_array_in_place_is_undone(late):
    box = Box(np.array([1.0, 2.0]))

    async def first(turn):
        with mt.Context():
            in_place(box)

    async def second(turn):
        with mt.Context():
            late(box)
            box.w = 5.0
            await turn()
            await turn()

    error, _ = taking_turns(second, first)
    assert isinstance(error, mt.InPlaceError)
    assert "past it" in str(error)
    assert box.v.tolist() == [4.0, 2.0]
    assert box.w == 1.0


def test_the_second_recording_that_appends_to_a_list_is_undone():
    box = Box([1.0])

    def append(turns, amount):
        async def run(turn):
            with mt.Context():
                box.v.append(box.v[0] * amount)
                for _ in range(turns):
                    await turn()

        return run

    error, _ = taking_turns(append(2, 10.0), append(1, 20.0))
    assert isinstance(error, mt.NotCapturedError)
    assert box.v == [1.0, 20.0]


def test_a_task_started_inside_takes_part_in_the_recording():
    box = Box(2.0)

    async def helper():
        box.v = box.v * 3
        await asyncio.sleep(0)
        return box.v

    async def main():
        with mt.Context() as ctx:
            first, second = await asyncio.gather(helper(), helper())
            out = first * second
        return ctx.grad(out, box).v

    assert asyncio.run(main()) == 2 * 2.0 * 81
    assert box.v == 18.0


def test_a_recording_that_is_left_in_another_context_is_an_error():
    box = Box(2.0)
    ctx = mt.Context()

    def enter():
        ctx.__enter__()
        box.v = box.v * 2

    contextvars.copy_context().run(enter)
    with pytest.raises(mt.ContextError, match="recording"):
        ctx.__exit__(None, None, None)
    assert box.v == 2.0


def test_an_async_generator_takes_part_where_it_is_advanced():
    box = Box(2.0)

    async def steps():
        while True:
            box.v = box.v * 2
            yield box.v

    async def main():
        stepper = steps()
        slopes = []
        for _ in range(2):
            with mt.Context() as ctx:
                out = await anext(stepper) * await anext(stepper)
            slopes.append(ctx.grad(out, box).v)
        await stepper.aclose()
        return slopes

    assert asyncio.run(main()) == [2 * 8 * 2.0, 2 * 8 * 8.0]
    assert (box.v, type(box.v)) == (32.0, float)


def test_a_field_that_is_read_by_a_finaliser_while_a_recording_ends_does_no_harm():
    """The collector, and with it a `__del__`, may run at any allocation, those of leaving a recording too."""
    box = Box(np.ones(3))
    # Many variables, so that the context is large and a change of it allocates.
    others = [contextvars.ContextVar(f"other {number}") for number in range(64)]

    def read(phase, info):
        assert box.v.shape == (3,)

    def left_open_after(allocations):
        gc.collect()
        gc.set_threshold(allocations, 10, 10)
        mt.vjp(lambda box: box.v * 2.0, box)
        left_open = current() is not None
        gc.set_threshold(0)
        return left_open

    def look():
        for other in others:
            other.set(1)
        return [number for number in range(1, 150) if left_open_after(number)]

    thresholds = gc.get_threshold()
    gc.callbacks.append(read)
    gc.freeze()  # the rest of the process does not matter, and a run takes no time
    try:
        assert contextvars.copy_context().run(look) == []
    finally:
        gc.unfreeze()
        gc.callbacks.remove(read)
        gc.set_threshold(*thresholds)
