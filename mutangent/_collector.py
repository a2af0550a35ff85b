"""Fewer runs of Python's garbage collector while a recording is open.

A tape is many small tuples that all live until the sweep. The collector, which runs after every 700 new ones, would look
through them again and again and find nothing; on a long recording that is a tenth of the time. So the first recording that
opens raises the number, and the last that closes puts it back. Memory that is not in a reference cycle is freed at once
as ever.
"""

from __future__ import annotations

import gc
from threading import Lock
from typing import Final

# Enough for the tape of some ten thousand operations; garbage in cycles that the function makes waits no longer than that.
OBJECTS: Final = 50_000

_lock: Final = Lock()
_open = 0
_before: tuple[int, int, int] | None = None


def recording_opened() -> None:
    """Raise the threshold, if it is switched on and lower, for the first of the recordings that are open."""
    global _open, _before  # noqa: PLW0603 - the collector is one for the process
    with _lock:
        _open += 1
        if _open == 1:
            before = gc.get_threshold()
            if 0 < before[0] < OBJECTS:
                _before = before
                gc.set_threshold(OBJECTS, *before[1:])


def recording_closed() -> None:
    """Put the threshold back after the last recording, unless someone else has set it since."""
    global _open, _before  # noqa: PLW0603
    with _lock:
        _open -= 1
        if _open == 0 and _before is not None:
            if gc.get_threshold()[0] == OBJECTS:
                gc.set_threshold(*_before)
            _before = None
