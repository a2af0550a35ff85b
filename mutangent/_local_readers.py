"""Whether a function that is under way reads, by a local name of its own, an array that is about to be written beside it.

A plain array that recorded code puts into a field is a constant until a traced value is written into it through the field.
From then on a recording keeps the contents elsewhere, and the name by which the array was made shows what was there before:

    buffer = np.zeros(3)
    self.buffer = buffer
    self.buffer[0] = x
    return np.sum(buffer)  # write self.buffer

Mostly nothing but the field holds the array by then, which its count of references tells. If something does, the functions
between the write and the recorded one are looked at.
"""

from __future__ import annotations

import builtins
import sys
from inspect import CO_OPTIMIZED
from sys import getrefcount
from types import CodeType, FrameType
from typing import Any, Final

from ._arrays import ARRAYS, describe
from ._bytecode import loads_of, with_inner
from ._errors import InPlaceError
from ._live_names import is_read_later
from ._loads import GLOBAL, Load
from ._plain_names import UNSET, paths_within, read_by
from ._readers import is_ours, names_of
from ._references import ALONE, COUNTS_REFERENCES

_DEEPEST: Final = 50  # functions that are looked at


def refuse_local_reader(handle: Any, views: int, recording: Any) -> None:
    """Raise if the plain array of a handle, into which a traced value is to be written, is read by a local name later.

    Parameters
    ----------
    handle : TracedArray
    views : int
        How many views of it there are, each of which holds the array.
    recording : Recording
        The one that is to follow the array. Who has called it goes on when it is over, and then the array is written.
    """
    if COUNTS_REFERENCES and getrefcount(handle._value) <= ALONE + views:
        return
    array = handle._value
    frame: FrameType | None = sys._getframe(2)
    for _ in range(_DEEPEST):
        if frame is None or recording.is_run_by(frame):
            return
        if not is_ours(frame) and frame.f_code.co_flags & CO_OPTIMIZED:
            names = names_of(frame)
            for name, value in names.items():
                # A variable of a function around this one is a name that the recorded code reaches; see `_read_past`.
                if name not in frame.f_code.co_freevars:
                    paths = _paths_to(array, value)
                    if paths:
                        _refuse_reader(array, name, paths, names, frame)
        frame = frame.f_back


def _paths_to(array: Any, value: Any) -> list[list[Any]]:
    """The ways from a value to an array, or a view of it: none, or an item, an item of that, and so on."""
    if type(value) in ARRAYS:
        return [[]] if value is array or value.base is array else []
    return paths_within(value, lambda item: type(item) in ARRAYS and (item is array or item.base is array))


def _refuse_reader(
    array: Any, name: str, paths: list[list[Any]], names: dict[str, Any], frame: FrameType
) -> None:
    code = frame.f_code

    def value_of(load: Load) -> tuple[Any, tuple[str, ...]]:
        known = frame.f_globals if load.kind == GLOBAL else names
        return known.get(load.name, getattr(builtins, load.name, UNSET)), load.attributes

    def looks_into(load: Load, inner: CodeType) -> bool:
        read = read_by(load, load.steps, code.co_qualname, inner, value_of)
        return (
            read is not None and not read.is_put and any(read.looks_into(names[name], path) for path in paths)
        )

    if name in code.co_cellvars:
        # Functions within this one read it too, whenever they are called.
        reads = [
            load for inner in with_inner(code) for load in _of_name(inner, name) if looks_into(load, inner)
        ]
        is_read = bool(reads)
    else:
        loads = _of_name(code, name)
        reads = [load for load in loads if looks_into(load, code)]
        passed = frozenset([load.offset for load in loads]) - {load.offset for load in reads}
        is_read = is_read_later(code, frame.f_lasti, name, passed)
        reads = [load for load in reads if load.offset > frame.f_lasti] or reads
    if not is_read:
        return
    line = min((load.line for load in reads if load.line), default=None)
    place = code.co_qualname if line is None else f"{code.co_qualname}, line {line}"
    raise InPlaceError(
        f"{describe(array)}, a plain array that was put into a field, was written with a traced value through that, and "
        f"{place}, reads it later by its plain name `{name}`, which shows what was there before, so that the gradient "
        "would be wrong. Read the field there, or make the array with np.zeros_like(x) or np.zeros(shape, like=x) of a "
        "traced x."
    )


def _of_name(code: CodeType, name: str) -> list[Load]:
    return [load for load in loads_of(code).loads if load.kind != GLOBAL and load.name == name]
