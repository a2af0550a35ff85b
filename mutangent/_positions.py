"""Where an iterator or a file stands, so that it can be seen later whether somebody has taken from it.

An iterator cannot be put back. That one was advanced is seen in how many items are left, or in what it holds: Python's
garbage collector asks every object for that. A list's iterator has fewer items left, a `zip` has iterators that were
advanced, a generator stands elsewhere in its code, or its variables, or what it loops over, are others. If nothing of all
that has changed, the next item will be made as before.
"""

from __future__ import annotations

import gc
import io
import itertools
import operator
from collections import deque
from contextlib import suppress
from types import CodeType, FrameType, FunctionType, GeneratorType, ModuleType
from typing import Any, Final
from weakref import CallableProxyType, ProxyType

import numpy as np

from ._structure import COPIED_BYTES

# What stands for the state of something that cannot be told.
UNKNOWN: Final = object()
# What an iterator holds and no program changes.
_CODE: Final = (type, CodeType, FrameType, ModuleType)


def _iterators() -> set[type]:
    """The classes of iterators of which is known how they tell that they were advanced."""
    views: list[Any] = [{}, {}.keys(), {}.values(), {}.items()]
    sequences: list[Any] = [[], (), range(0), deque[int](), *views]
    made: list[Any] = [
        iter(each) for each in [*sequences, set[int](), range(1 << 70), "", "\xe9", b"", bytearray()]
    ]
    made += [reversed(each) for each in [*sequences, range(1 << 70), ""]]
    combined = {each for each in vars(itertools).values() if isinstance(each, type)}
    combined -= {type(itertools.tee(())[0]), itertools.tee, getattr(itertools, "_tee_dataobject", None)}
    others: set[type] = {
        enumerate,
        zip,
        map,
        filter,
        reversed,
        type(iter(int, 1)),
        np.flatiter,
        np.broadcast,
    }
    known: set[type] = {type(each) for each in made}
    return known | combined | others | {GeneratorType}


# That of an object with `__getitem__` alone.
_BY_INDEX: Final = type(iter(type("_", (), {"__getitem__": lambda _, i: i})()))
_ITERATORS: Final = _iterators() | {_BY_INDEX}
_NUMBERS: Final = {np.flatiter: "index", np.broadcast: "index"}


def is_iterator(value: Any) -> bool:
    """Whether a value gives each of its items once. A file may be one that is only written."""
    return (
        hasattr(type(value), "__next__")
        and not issubclass(type(value), io.IOBase | ProxyType | CallableProxyType)
        and type(value).__module__ != "unittest.mock"  # which has everything
    )


def is_code(iterator: Any) -> bool:
    """Whether an iterator is no object of a class in Python, whose attributes can be put back."""
    return type(type(iterator).__next__) is not FunctionType


def held_by(iterator: Any) -> list[Any]:
    """What an iterator holds that a program may change."""
    return [each for each in gc.get_referents(iterator) if not isinstance(each, _CODE)]


class Position:
    """Where an iterator stood."""

    __slots__ = ("_mark", "_parts")

    def __init__(self, iterator: Any) -> None:
        self._mark = _mark_of(iterator)
        # Held, so that nothing new can have the identity of one of them.
        self._parts = gc.get_referents(iterator)

    def is_of(self, iterator: Any) -> bool:
        """Whether an iterator stands there still."""
        now = gc.get_referents(iterator)
        return (
            _mark_of(iterator) == self._mark
            and len(now) == len(self._parts)
            and all(map(operator.is_, now, self._parts))
        )


def position_of(iterator: Any) -> Any:
    """Where an iterator stands, or UNKNOWN."""
    kind = type(iterator)
    if (
        kind not in _ITERATORS
        # It has its items from a list of its own by now.
        or (kind is itertools.cycle and not any(is_iterator(each) for each in gc.get_referents(iterator)))
        or (kind is _BY_INDEX and operator.length_hint(iterator, -1) < 0)
    ):
        return UNKNOWN
    return Position(iterator)


def _mark_of(iterator: Any) -> Any:
    kind = type(iterator)
    if kind is GeneratorType:
        frame = iterator.gi_frame
        return frame and frame.f_lasti
    if kind is itertools.count:
        return repr(iterator)
    if kind in _NUMBERS:
        return getattr(iterator, _NUMBERS[kind])
    if hasattr(kind, "__length_hint__"):
        with suppress(TypeError):  # of `itertools.repeat` without end
            return operator.length_hint(iterator, -1)
    return None


# -- files -------------------------------------------------------------------------------------------------------------


def place_in_file(file: Any) -> Any:
    """The position in a file that is only read; None for another one, which is left as it is."""
    try:
        if file.closed or not file.readable() or file.writable() or not file.seekable():
            return None
        return file.tell()
    except (OSError, ValueError):
        return UNKNOWN  # in the middle of a loop over its lines


def put_place(file: Any, place: Any) -> None:
    """Put a file that is read back to a position."""
    if type(place) is int and not file.closed:
        file.seek(place)


def contents_of_buffer(buffer: Any) -> Any:
    """The contents of a small `io.StringIO` or `io.BytesIO`, and the position in it; None for another one."""
    if buffer.closed:
        return None
    place = buffer.tell()
    size = buffer.seek(0, io.SEEK_END)
    buffer.seek(place)
    return buffer.__getstate__() if size <= COPIED_BYTES else None


def put_buffer(buffer: Any, state: Any) -> None:
    """Give a buffer earlier contents, and put it back to a position."""
    if state is not None and not buffer.closed and buffer.__getstate__() != state:
        buffer.__setstate__(state)
