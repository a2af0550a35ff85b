"""Whether a program can still reach what it has given to a call that is under way.

A temporary, as in `f(a.copy())`, it cannot: nothing holds it but the call. The count of references tells, taken when the
call begins. Each of them must be explained by

- a function of this package, which holds it by a name or among its arguments;
- a list, tuple or dict that was given too, and that the program cannot reach either;
- a name in another function that is under way, which does not read it any more (`_live_names`).

What is left over is held by a list, an attribute, a global, a closure, or an expression of which a part was evaluated. So
a holder of which nobody thought counts as one.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from inspect import CO_OPTIMIZED
from sys import getrefcount
from types import FrameType
from typing import Any, Final

from ._arrays import ARRAYS
from ._live_names import is_read_later
from ._references import ALONE, COUNTS_OPERANDS, COUNTS_REFERENCES

_CONTAINERS: Final = (list, tuple, dict)
_PACKAGE: Final = __name__.partition(".")[0]
# Names by which functions of this package hold tuples, lists and dicts that they have made themselves.
_MADE_HERE: Final = ("args", "kwargs", "lifted", "passed")
# Names by which the call itself held what it was given when it began.
_GIVEN: Final = ("args", "kwargs", "primals", "array")
# Before Python 3.13 a frame that was asked for its names keeps a dict of them, which holds the values.
_KEEPS_NAMES: Final = sys.version_info < (3, 13)


class Given:
    """What a call was given, and how often each array, list, tuple and dict in it was held when the call began."""

    __slots__ = ("_containers", "_counts", "_found", "_views")

    def __init__(self, args: tuple[Any, ...], kwargs: dict[str, Any] | None = None) -> None:
        self._counts: dict[int, int] = {}
        self._containers: dict[int, Any] = {}
        self._views: set[int] = set()  # arrays in memory that somebody else holds too
        self._found: _Holders | None = None
        pending: list[Any] = [args, kwargs] if kwargs else [args]
        while pending:
            holder = pending.pop()
            for key in list(holder) if type(holder) is dict else range(len(holder)):
                kind = type(holder[key])
                if (kind not in ARRAYS and kind not in _CONTAINERS) or id(holder[key]) in self._counts:
                    continue
                # A local name would be one more reference in some versions of Python, and none in others.
                self._counts[id(holder[key])] = getrefcount(holder[key]) - (ALONE - 1)
                if kind in _CONTAINERS:
                    self._containers[id(holder[key])] = holder[key]
                    pending.append(holder[key])
                elif holder[key].base is not None and not _is_only_view(holder[key]):
                    self._views.add(id(holder[key]))

    def reader_of(self, value: Any, recording: Any, outermost: Any) -> str | None:
        """How the program can still reach something that was given, in the words of an error message.

        Parameters
        ----------
        value : array, list, tuple or dict
        recording, outermost : object
            What the call, and the outermost one around it, has under the name `recording`. Who has called the outermost one
            goes on only when that is over, and may reach the value.

        Returns
        -------
        str or None
            None if the program cannot reach it.
        """
        if self._found is None:
            self._found = _Holders(self._containers, recording, outermost)
        found = self._found
        pending, seen = [value], set()
        while pending:
            held = pending.pop()
            if id(held) in found.readers:
                return found.readers[id(held)]
            if id(held) in self._views:
                return "another array that shares its memory"
            if COUNTS_REFERENCES and found.counts.get(id(held), 0) != self._counts.get(id(held), -1):
                return (
                    _global_name_of(held)
                    or "something else that holds it, such as a list, an attribute or a closure,"
                )
            for container in found.containers_of.get(id(held), ()):
                if id(container) in self._containers and id(container) not in seen:
                    seen.add(id(container))
                    pending.append(container)
        return None


class _Holders:
    """What holds each value, by its identity, as far as it can be told."""

    def __init__(self, given: dict[int, Any], recording: Any, outermost: Any) -> None:
        self.counts: dict[int, int] = {}
        self.readers: dict[int, str] = {}
        self.containers_of: dict[int, list[Any]] = {}
        containers = dict(given)
        matters = True
        begins = True
        for frame in _frames_from(recording):
            names = names_of(frame)
            if begins:  # what it holds by other names, it has made since
                names = {name: names[name] for name in _GIVEN if name in names}
                begins = False
            elif is_ours(frame):
                matters = matters and names.get("recording") is not outermost
            code = frame.f_code
            for name, value in names.items():
                shared = name in code.co_cellvars or name in code.co_freevars  # it is held in a cell
                if not shared:
                    self._count(value)
                if is_ours(frame):
                    if name in _MADE_HERE and type(value) in _CONTAINERS:
                        containers[id(value)] = value
                elif matters and (shared or not COUNTS_OPERANDS or is_read_later(code, frame.f_lasti, name)):
                    self.readers.setdefault(id(value), f"the name {name!r} in {code.co_name}")
        for container in containers.values():
            for item in container.values() if type(container) is dict else container:
                self._count(item)
                self.containers_of.setdefault(id(item), []).append(container)

    def _count(self, value: Any) -> None:
        self.counts[id(value)] = self.counts.get(id(value), 0) + 1


def _frames_from(recording: Any) -> Iterator[FrameType]:
    """The frames of the call that has a recording, of its caller, and so on."""
    frame: FrameType | None = sys._getframe(1)
    begun = False
    while frame is not None:
        begun = begun or (
            is_ours(frame)
            and frame.f_globals["__name__"] != __name__
            and names_of(frame).get("recording") is recording
        )
        if begun:
            yield frame
        frame = frame.f_back


def is_ours(frame: FrameType) -> bool:
    package, _, module = str(frame.f_globals.get("__name__")).partition(".")
    return package == _PACKAGE and "." not in module


def names_of(frame: FrameType) -> dict[str, Any]:
    """The names of a function that is under way, with their values."""
    if not frame.f_code.co_flags & CO_OPTIMIZED:
        return {}  # of a module or a class: all can read them
    kept = frame.f_locals
    names = dict(kept)
    if _KEEPS_NAMES and getrefcount(kept) <= ALONE + 1:  # if nobody but the frame has it
        kept.clear()
    return names


def _is_only_view(array: Any) -> bool:
    """Whether nothing but a view holds the array whose memory it shares."""
    holder = (array.base,)
    return type(holder[0]) in ARRAYS and holder[0].base is None and getrefcount(holder[0]) <= ALONE + 1


def _global_name_of(value: Any) -> str | None:
    """A global name by which a function that is under way can read a value."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        for name, held in list(frame.f_globals.items()):
            if held is value and not is_ours(frame):
                return f"the global name {name!r}"
        frame = frame.f_back
    return None
