"""`pause()` in a generator or coroutine: what is computed outside while it is suspended is an error, never a constant."""

import asyncio
import contextlib
import gc
import threading

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = None


def doubled(box):
    with mt.pause():
        yield box.v * 2.0
        yield box.v * 3.0


SUSPENDED = (
    r'paused by the generator (\w+\.<locals>\.)?{name} \(".*test_suspended_pauses.py", line \d+\), which is suspended '
    r"inside a `with mutangent\.pause\(\):` block, so what is computed here would be a constant\. Leave the block before "
    r"`yield`.*contextmanager"
)


def refused(loss, name, *args):
    """The loss is refused in every mode, and refuses again: nothing stays paused."""
    for _ in range(2):
        for verb in (
            mt.grad(loss),
            lambda *args: mt.vjp(loss, *args),
            lambda *args: in_a_context(loss, *args),
        ):
            box = Box(np.array([1.0, 2.0]), 3.0)
            v = box.v
            with pytest.raises(mt.ContextError, match=SUSPENDED.format(name=name)):
                verb(box, *args)
            assert (box.v is v, box.w) == (True, 3.0)
        box = Box(np.array([1.0, 2.0]), 3.0)
        with pytest.raises(mt.ContextError, match=SUSPENDED.format(name=name)):
            mt.jvp(loss, (box, *args), (mt.ZeroTangent(),) * (1 + len(args)))


def in_a_context(loss, *args):
    with mt.Context():
        loss(*args)


OPERATIONS = {
    "a product": lambda box, c: np.sum(c * box.v),
    "a product from the right": lambda box, c: np.sum(box.v * c),
    "two traced values": lambda box, c: np.sum(box.v * box.v),
    "a negative": lambda box, c: np.sum(-box.v),
    "a function": lambda box, c: np.sum(np.tanh(box.v)),
    "a function of several": lambda box, c: np.sum(np.where([True, False], box.v, c)),
    "a stack": lambda box, c: np.sum(np.stack([box.v, c])),
    "a matrix product": lambda box, c: box.v @ c,
    "a method": lambda box, c: box.v.sum(),
    "an item": lambda box, c: box.v[0],
    "items": lambda box, c: np.sum(box.v[[0, 0]]),
    "a conversion": lambda box, c: float(box.w),
    "a write": lambda box, c: np.zeros_like(box.v).__setitem__(0, box.w),
    "a write into a field's array": lambda box, c: box.v.__setitem__(0, box.w),
    "a sum in place": lambda box, c: box.v.__iadd__(box.w),
    "a gradient": lambda box, c: mt.grad(lambda z: np.sum(z * box.v))(1.0),
    "a primitive": lambda box, c: squared(box.w),
    "a checkpointed function": lambda box, c: mt.checkpoint(lambda box: np.sum(box.v * box.v))(box),
}


@mt.primitive
def squared(x):
    return x * x


@squared.rrule
def squared(x):
    return x * x, lambda y_bar: (2.0 * x * y_bar,)


@pytest.mark.parametrize("operation", OPERATIONS)
def test_what_is_computed_while_a_generator_is_suspended_in_a_pause_is_refused(operation):
    def loss(box):
        total = box.w * 1.0
        for c in doubled(box):
            OPERATIONS[operation](box, c)
        return total

    refused(loss, "doubled")


def test_what_loses_no_gradient_goes_on_while_a_generator_is_suspended():
    def loss(box):
        total, kept = 0.0, []
        for c in doubled(box):
            total = total + np.sum(c)  # constants
            kept.append(c)
            box.w = box.w if box.v.shape == (2,) and box.w > 2.0 else repr(mt.primal(box.v))
        return total * box.w + np.sum(kept[0] * box.v)

    tangent = mt.grad(loss)(Box(np.array([1.0, 2.0]), 3.0))
    np.testing.assert_allclose(tangent.v, [2.0, 4.0])
    np.testing.assert_allclose(tangent.w, 15.0)


def test_a_generator_that_is_dropped_in_its_pause_ends_it():
    def loss(box):
        first = [c for c, _ in zip(doubled(box), range(1), strict=False)]
        return np.sum(first[0] * box.v)

    gc.disable()
    try:
        np.testing.assert_allclose(mt.grad(loss)(Box(np.array([1.0, 2.0]))).v, [2.0, 4.0])
    finally:
        gc.enable()


def test_a_generator_that_yields_after_its_pause_is_fine():
    def generator(box):
        with mt.pause():
            c = box.v * 2.0
        yield c

    def loss(box):
        return sum(np.sum(c * box.v) for c in generator(box))

    np.testing.assert_allclose(mt.grad(loss)(Box(np.array([1.0, 2.0]))).v, [2.0, 4.0])


# -- context managers that are generators ------------------------------------------------------------------------------


@contextlib.contextmanager
def constants():
    with mt.pause():
        yield


@contextlib.contextmanager
def constants_on_a_stack():
    with contextlib.ExitStack() as stack:
        stack.enter_context(constants())
        yield


class Constants:
    def __enter__(self):
        self.inner = mt.pause()
        self.inner.__enter__()

    def __exit__(self, *error):
        return self.inner.__exit__(*error)


class ByGenerator:
    """Drives a generator by hand, as other libraries' context managers do."""

    def __enter__(self):
        self.generator = self.run()
        next(self.generator)

    def __exit__(self, *error):
        assert next(self.generator, None) is None

    def run(self):
        with mt.pause():
            yield


MANAGERS = [constants, constants_on_a_stack, Constants, ByGenerator]


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_context_manager_made_of_a_generator_pauses_the_block_of_its_user(manager):
    def loss(box):
        with manager():
            c = box.v * 2.0
            with manager():
                c = c * float(box.w)
        return np.sum(c * box.v)

    for _ in range(2):
        tangent = mt.grad(loss)(Box(np.array([1.0, 2.0]), 3.0))
        np.testing.assert_allclose(tangent.v, [6.0, 12.0])
        assert tangent.w == mt.ZeroTangent()


@pytest.mark.parametrize("manager", MANAGERS)
def test_a_generator_that_yields_in_the_block_of_such_a_manager_is_refused(manager):
    def generator(box):
        with manager():
            yield box.v * 2.0

    def loss(box):
        return sum(np.sum(c * box.v) for c in generator(box))

    refused(loss, "generator")


def test_a_pause_as_a_decorator_pauses_each_call():
    @constants()
    def scale(box):
        return box.v * 2.0

    tangent = mt.grad(lambda box: np.sum(scale(box) * box.v))(Box(np.array([1.0, 2.0])))
    np.testing.assert_allclose(tangent.v, [2.0, 4.0])


# -- async ----------------------------------------------------------------------------------------------------------------


async def turns(count):
    for _ in range(count):
        await asyncio.sleep(0)


def test_a_task_beside_a_coroutine_that_waits_in_a_pause_is_refused():
    async def pausing():
        with mt.pause():
            await turns(5)

    async def computing(box):
        await turns(2)
        return np.sum(box.v * box.v)

    async def both(box):
        out, _ = await asyncio.gather(computing(box), pausing())
        return out

    text = (
        r'paused by the coroutine \w+\.<locals>\.pausing \(".*", line \d+\), which is waiting inside a '
        r"`with mutangent\.pause\(\):` block.*Await outside of the block, or start the tasks that are to be paused inside"
    )
    for _ in range(2):
        with pytest.raises(mt.ContextError, match=text):
            mt.grad(lambda box: asyncio.run(both(box)))(Box(np.array([1.0, 2.0])))


def test_what_a_coroutine_awaits_in_its_pause_is_paused_tasks_and_threads_included():
    async def squares(box):
        await turns(2)
        return np.sum(box.v * box.v)

    async def inside(box):
        v = box.v
        with mt.pause():
            first, second, third = await asyncio.gather(
                squares(box),
                asyncio.create_task(squares(box)),
                asyncio.to_thread(lambda: np.sum(v * v)),
            )
            fourth = await squares(box)
        return np.sum(box.v) * (first + second + third + fourth)

    for _ in range(2):
        tangent = mt.grad(lambda box: asyncio.run(inside(box)))(Box(np.array([1.0, 2.0])))
        np.testing.assert_allclose(tangent.v, [20.0, 20.0])


def test_an_async_context_manager_pauses_the_block_of_its_user():
    @contextlib.asynccontextmanager
    async def async_constants():
        await turns(1)
        with mt.pause():
            yield

    async def inside(box):
        async with async_constants():
            c = box.v * 2.0
            await turns(1)
        return np.sum(c * box.v)

    tangent = mt.grad(lambda box: asyncio.run(inside(box)))(Box(np.array([1.0, 2.0])))
    np.testing.assert_allclose(tangent.v, [2.0, 4.0])


def test_an_async_generator_that_yields_in_a_pause_is_refused():
    async def generator(box):
        with mt.pause():
            yield box.v * 2.0

    async def consume(box):
        total = 0.0
        async for c in generator(box):
            total = total + np.sum(c * box.v)
        return total

    refused(lambda box: asyncio.run(consume(box)), "generator")


def test_a_thread_that_helps_a_suspended_generator_is_not_refused():
    def loss(box):
        v, found = box.v, []
        for c in doubled(box):
            thread = threading.Thread(target=lambda c=c: found.append(np.sum(c * v)))
            thread.start()
            thread.join()
        return box.w * (found[0] + found[1])

    tangent = mt.grad(loss)(Box(np.array([1.0, 2.0]), 3.0))
    assert tangent.w == 25.0
    assert tangent.v == mt.ZeroTangent()


def test_a_recording_that_ends_in_a_suspended_pause_is_refused_and_its_values_are_plain_afterwards():
    held = []

    def loss(box):
        held.append(doubled(box))
        next(held[0])
        held.append(box.v)
        return 0.0 * mt.primal(box.w)

    with pytest.raises(mt.ContextError, match=r"ended inside a mutangent\.pause"):
        mt.grad(loss)(Box(np.array([1.0, 2.0]), 3.0))
    np.testing.assert_allclose(held[1] * 2.0, [2.0, 4.0])
    held[0].close()
