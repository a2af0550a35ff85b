"""Fields that other threads and tasks read or write while a recording waits for them.

They see the values from before the recording, as plain numbers. That is what an independent thread wants. But a recorded
function may hand a part of its work to a pool, and wait: that part is a constant to the recording, and so is not in the
gradient; and what it writes into an object that the recording knows, the recording does not see. Python tells nobody who
works for whom. It does tell where a thread is just now, so what happens while the recording's thread sits in one of the
standard library's waits, or joblib's, is noted, and whoever asks for the gradient is warned.
"""

from __future__ import annotations

import sys
import warnings
from threading import current_thread, get_ident
from time import monotonic
from typing import Any, Final
from weakref import ref

# The outermost recordings that are open, in any thread, by their identities.
open_recordings: Final[dict[int, ref[Any]]] = {}
# A thread that waits for another one runs code of these packages.
_WAITING: Final = frozenset(
    {"threading", "concurrent", "multiprocessing", "queue", "asyncio", "selectors", "joblib"}
)
# So often it is looked in vain whether a recording's thread waits, and not more often than once in so many seconds: a look
# costs some microseconds, and threads that have nothing to do with each other are not to feel it.
_LOOKS: Final = 100
_PAUSE: Final = 1e-3
# So many fields are noted of one recording; each holds its object.
_MOST: Final = 1000


class Elsewhere:
    """What was done to fields elsewhere, while one recording waited."""

    __slots__ = ("_looked", "_looks", "_noted", "thread")

    def __init__(self, thread: int) -> None:
        self.thread = thread
        self._looks = 0
        self._looked = 0.0  # when it was looked last
        # By object and field. It holds the object, so that its id stays its own.
        self._noted: dict[tuple[int, str], tuple[Any, str, bool]] = {}

    def note(self, obj: Any, name: str, surely: bool = False, written: bool = False) -> None:
        """Note what was done to a field, if it was by someone who works for the recording, which is known or looks so."""
        if (id(obj), name) in self._noted or len(self._noted) == _MOST:
            return
        if not surely:
            now = monotonic()
            if self._looks == _LOOKS or now < self._looked + _PAUSE:
                return
            if not _waits(self.thread):
                self._looks += 1
                self._looked = now
                return
        where = "another task" if get_ident() == self.thread else f"the thread {current_thread().name}"
        self._noted[id(obj), name] = (obj, where, written)

    def warn(self, obj: Any) -> None:
        """Warn, once, of the fields of an object that were read or written elsewhere."""
        for key, (other, where, written) in list(self._noted.items()):
            if other is obj:
                del self._noted[key]
                what, means = ("written", _MEANS_A_WRITE) if written else ("read", _MEANS_A_READ)
                warnings.warn(
                    f"{type(obj).__name__}.{key[1]} was {what} in {where} while a recording waited, {means}. Compute it in "
                    "the thread and task of the recording, or let each thread call mutangent.grad itself and add the "
                    "gradients up. If it is meant to be a constant, wait for it inside `with mutangent.pause():`.",
                    RuntimeWarning,
                    stacklevel=above_the_package(),
                )


_MEANS_A_READ: Final = (
    "and was there the plain value from before that recording: what was computed from it is a constant, which is "
    "missing in the gradient"
)
_MEANS_A_WRITE: Final = (
    "which goes on with the value that it had read or written itself, and stores its own at its end if it "
    "wrote one"
)


def above_the_package() -> int:
    """The level of the caller's caller, and further up, that is no code of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).startswith("mutangent."):
        level, frame = level + 1, frame.f_back
    return level


def _waits(thread: int) -> bool:
    """Whether a thread is in one of the known waits, or this one in another task."""
    if thread == get_ident():
        return True
    frame = sys._current_frames().get(thread)
    module = None if frame is None else frame.f_globals.get("__name__")
    return type(module) is str and module.partition(".")[0] in _WAITING


def note_outside(obj: Any, name: str, written: bool = False, within: Any = None) -> None:
    """Note that a field was read or written outside of recordings that are open elsewhere, `within` another one or none."""
    for key, known in list(open_recordings.items()):
        recording = known()
        if recording is None or recording.closed:
            open_recordings.pop(key, None)
        elif within is not None and recording.thread == within.thread:
            continue  # itself, or that of another task, which takes turns with it
        # A write matters to those that know the object, and nothing to one that is paused.
        elif recording.tape.entries is not None and (not written or id(obj) in recording.records):
            elsewhere_of(recording).note(obj, name, written=written)


def elsewhere_of(recording: Any) -> Elsewhere:
    """What was done elsewhere while an outermost recording waited."""
    found: Elsewhere | None = recording.elsewhere
    if found is None:
        found = recording.elsewhere = Elsewhere(recording.thread)
    return found
