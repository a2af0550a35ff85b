"""Fewer runs of Python's garbage collector while a recording is open.

A tape is many small tuples that all live until the sweep. The collector, which runs after every 700 new ones, would look
through them again and again and find nothing; on a long recording that is a tenth of the time. So the first run within a
recording raises that number, and the end of the recording, or of the sweep that follows at once, puts it back. A short
recording never meets the collector, and pays nothing. Memory that is not in a reference cycle is freed at once as ever.
"""

from __future__ import annotations

import gc
from contextvars import ContextVar, copy_context
from typing import Any, Final

# Enough for the tape of some ten thousand operations; garbage in cycles that the function makes waits no longer than that.
OBJECTS: Final = 50_000

_before: tuple[int, int, int] | None = None


def collect_less_while(recording: ContextVar[Any]) -> None:
    """Raise the threshold when the collector runs while `recording` is not None, unless it is high, or off, already."""

    def look(phase: str, _info: dict[str, int]) -> None:
        global _before  # noqa: PLW0603 - the collector is one for the process
        # Not `recording.get()`: the collector may run in the middle of `recording.reset(token)`, and Python would then
        # keep the value that is just going away as the present one, without a reference to it, and crash at the next `get`.
        if phase == "start" and _before is None and copy_context().get(recording) is not None:
            before = gc.get_threshold()
            if 0 < before[0] < OBJECTS:
                _before = before
                gc.set_threshold(OBJECTS, *before[1:])

    gc.callbacks.append(look)


def collect_as_before() -> None:
    """Put the threshold back, unless someone else has set it since."""
    global _before
    before, _before = _before, None
    if before is not None and gc.get_threshold()[0] == OBJECTS:
        gc.set_threshold(*before)
