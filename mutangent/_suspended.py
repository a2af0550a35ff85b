"""Blocks of `pause()` that a generator or coroutine is suspended in.

`pause()` pauses the recording, not a piece of code. A function cannot be left while its block goes on, but a generator can:
it yields inside the block, and the code outside would compute constants. So a block that belongs to a generator or
coroutine is looked for when an operation finds its recording paused.

A generator that is a context manager, made by `contextlib.contextmanager` for example, is suspended on purpose while the
block of its user runs: then the block belongs to that user. What tells it is the function that advances the generator to
its `yield`: an `__enter__`.
"""

from __future__ import annotations

import inspect
import sys
from contextvars import ContextVar
from threading import get_ident
from types import FrameType
from typing import Final, NoReturn

from ._errors import ContextError

_SUSPENDABLE: Final = (
    inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE
)
_AWAITED: Final = inspect.CO_COROUTINE | inspect.CO_ITERABLE_COROUTINE
# Functions that enter a block for their caller.
_ENTERING: Final = ("__enter__", "__aenter__", "enter_context", "enter_async_context")

# The blocks of coroutines that were open when this task was started, or that it has opened.
_around: Final[ContextVar[tuple[PausedBlock, ...]]] = ContextVar("mutangent pauses", default=())


class PausedBlock:
    """A block of `pause()` in a generator or coroutine."""

    __slots__ = ("frame", "is_awaited", "place", "thread")

    def __init__(self, frame: FrameType) -> None:
        code = frame.f_code
        self.thread = get_ident()
        self.is_awaited = bool(code.co_flags & _AWAITED)
        # Not the frame itself: it would keep a dropped generator from being closed. The number stays its own, since the
        # generator has its frame as long as the block is open.
        self.frame = id(frame)
        name = getattr(code, "co_qualname", code.co_name)
        kind = "coroutine" if self.is_awaited else "generator"
        self.place = f'the {kind} {name} ("{code.co_filename}", line {frame.f_lineno})'

    def enter(self) -> None:
        """Let tasks that are started from now on know that they are inside."""
        if self.is_awaited:
            _around.set((*_around.get(), self))

    def leave(self) -> None:
        """End what `enter` began."""
        if self.is_awaited:
            _around.set(tuple(block for block in _around.get() if block is not self))

    def is_here(self) -> bool:
        """Whether the code that runs now is inside the block, as far as can be known."""
        if get_ident() != self.thread:
            return True  # a helper of the block, perhaps
        if self.is_awaited:
            return self in _around.get()
        frame: FrameType | None = sys._getframe()
        while frame is not None:
            if id(frame) == self.frame:
                return True
            frame = frame.f_back
        return False


def suspendable_block() -> PausedBlock | None:
    """The block that the caller of this function enters, if it belongs to a generator or coroutine."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        code, below = frame.f_code, frame.f_back
        if code.co_name in _ENTERING:
            frame = below
        elif not code.co_flags & _SUSPENDABLE:
            return None
        elif below is not None and below.f_code.co_name in _ENTERING:
            frame = below
        else:
            return PausedBlock(frame)
    return None


def refuse_outside(blocks: tuple[PausedBlock, ...]) -> None:
    """Raise if one of the blocks is open while other code runs."""
    for block in blocks:
        if not block.is_here():
            _refuse(block)


def _refuse(block: PausedBlock) -> NoReturn:
    what = "is waiting" if block.is_awaited else "is suspended"
    instead = (
        "Await outside of the block, or start the tasks that are to be paused inside of it."
        if block.is_awaited
        else "Leave the block before `yield`. To pause the code outside as well, make the generator a context manager with "
        "@contextlib.contextmanager, or write `with mutangent.pause():` there."
    )
    raise ContextError(
        f"the recording is paused by {block.place}, which {what} inside a `with mutangent.pause():` block, so what is "
        f"computed here would be a constant. {instead}"
    )
