"""Whether the recorded code reads by a plain name what the recording wrote through a field or an argument.

What a recording writes into an array, a list or a dict it keeps beside it until it ends, so that a plain name of it shows
what was there before. Nothing tells that plain Python reads. But the code is known, and so are the names in it, see
`_reached`: if one of them stands for what was written, that is refused.
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Final

from ._arrays import ARRAYS, describe, is_array, overlap, type_name
from ._attribute_reads import AttributeName, attributes_near, attributes_of_classes
from ._blocks import Block, Variable
from ._errors import InPlaceError, NotCapturedError
from ._loads import loads_of
from ._plain_names import HOLDERS, Name, Read, parts_of
from ._reached import called_code
from ._recorded_code import code_of
from ._shadow import check_shadow, share_memory
from ._structure import WorkingCopy
from ._traced import TracedArray
from ._views import root_of

_MOST: Final = 1000  # items of a container that are looked at
_NUMBERS: Final = frozenset({float, int, bool, str, type(None)})
_DEEPEST: Final = 50  # calls between the recorded function and a write that are looked at


def place_in(function: Any) -> tuple[CodeType, int, int] | None:
    """Where the recorded code stands: it, where it begins, and the offset of the instruction that runs."""
    is_block = type(function) is Block
    code = function.code if is_block else None if function is None else called_code(function)
    frame: FrameType | None = sys._getframe(3)  # whoever writes the array
    for _ in range(_DEEPEST):
        if frame is None or code is None:
            break
        if frame.f_code is code and (not is_block or function.is_in(frame)):
            return code, function.start if is_block else 0, frame.f_lasti
        frame = frame.f_back
    return None


def refuse_read_past(recording: Any, changed: Sequence[WorkingCopy] = ()) -> None:
    """Raise if recorded code may read by a plain name an array that was written, or one of the containers `changed`."""
    code = code_of(recording)
    if code is None:
        return
    first_write = None if code.is_recursive else recording.first_write
    written = _Written(recording, changed)
    names = code.names()
    values = [name.value() for name in names]
    for name, value in zip(names, values, strict=True):
        _refuse_reads(recording, written, first_write, name, value)
    attributes = [*attributes_near([*code.objects(), *values]), *attributes_of_classes(code.classes())]
    for name in code.names_by(attributes):
        _refuse_reads(recording, written, None, name, name.value())
    for attribute, value in attributes:
        if written.within(value):
            as_name = AttributeName(attribute, value, code.that_reads())
            _refuse_reads(recording, written, first_write, as_name, value)


def _refuse_reads(
    recording: Any, written: _Written, first_write: Any, name: Name | Variable | AttributeName, value: Any
) -> None:
    for item, held, made in written.within(value):
        for read in name.reads:
            if value is not item and not read.may_take(item, value):
                continue
            if not (read.of_shape and is_array(held)) and not _is_before(read, first_write, made):
                raise _error(recording, held, made, name, read, value)


def refuse_put_past(recording: Any, value: Any) -> None:
    """Raise if an inner recording puts into a field, by its plain name, what an outer one has written."""
    outer = recording.outer
    while outer is not None:
        tape = getattr(outer, "tape", None)
        if tape is not None and type(value) in ARRAYS:
            check_shadow(tape, value)
        made = outer.containers.by_original.get(id(value))
        if made is not None and made.is_changed():
            raise NotCapturedError(
                f"{type_name(value)} that an outer recording has changed was put into a field by a plain name, which shows "
                "what was there before. Take it from the object's field or the function's argument."
            )
        outer = outer.outer


def refuse_held_past(recording: Any, changed: Sequence[WorkingCopy]) -> None:
    """Raise if a field was given a container by a plain name, before that was changed through another field."""
    originals = {
        id(original): made for made in changed if (original := _original_of(recording, made)) is not None
    }
    for record in recording.log.values():
        for name, value in record.values.items():
            made = originals.get(id(value))
            if made is not None:
                place = _place_of(recording, made) or "an argument or a container"
                raise NotCapturedError(
                    f"{type_name(value)} was changed in the recording, through {place}, and was put into "
                    f"{type(record.obj).__name__}.{name} before by a plain name, so that this field shows what was there "
                    f"before. Take it from the object's field or the function's argument when you assign it."
                )


class _Written:
    """What a recording wrote, that was there before it."""

    def __init__(self, recording: Any, changed: Sequence[WorkingCopy]) -> None:
        self._tape = recording.tape
        self._changed: dict[int, tuple[Any, WorkingCopy]] = {}
        self._arrays: list[tuple[Any, WorkingCopy]] = []
        for made in changed:
            original = _original_of(recording, made)
            self._changed[id(original)] = (original, made)
            if is_array(original):
                self._arrays.append((original, made))

    def within(self, value: Any) -> list[tuple[Any, Any, Any]]:
        """What was written of a value, and of what it holds.

        Returns
        -------
        list of tuple
            An item of the value, or itself; what was written, which is that item or lies in it; the handle or the copy that
            has the new contents.
        """
        if type(value) in ARRAYS or id(value) in self._changed:
            made = self._contents_of(value)
            return [] if made is None else [(value, value, made)]
        found = []
        pending = deque((item, item) for item in _parts_of(value))
        seen = {id(value)}
        while pending and len(seen) <= _MOST:
            item, held = pending.popleft()
            if type(held) in _NUMBERS or id(held) in seen:
                continue
            seen.add(id(held))
            made = self._contents_of(held)
            if made is not None:
                found.append((item, held, made))
            elif type(held) not in ARRAYS:
                pending += [(item, each) for each in _parts_of(held)]
        return found

    def _contents_of(self, value: Any) -> Any:
        if type(value) not in ARRAYS:
            known = self._changed.get(id(value))
            return None if known is None else known[1]
        if self._tape.shadowed:
            for root, source in self._tape.places.written_near(self._tape, value):
                if share_memory(source, value) and id(source) not in (self._tape.handed_on or ()):
                    return root
        return next((made for array, made in self._arrays if array is value or overlap(array, value)), None)


def _parts_of(value: Any) -> Sequence[Any]:
    return () if issubclass(type(value), HOLDERS) and len(value) > _MOST else parts_of(value)


def _original_of(recording: Any, made: WorkingCopy) -> Any:
    """The container that the program has, where an outer recording works on a copy as well."""
    original = made.original
    outer = recording.outer
    while outer is not None:
        known = outer.containers.by_working.get(id(original))
        original = original if known is None else known.original
        outer = outer.outer
    return original


def _is_before(read: Read, first_write: Any, made: Any) -> bool:
    """Whether a read is over before anything was written into an array."""
    if first_write is None or type(made) is WorkingCopy or not read.is_short:
        return False
    code, since, offset = first_write
    return read.code is code and read.offset < offset and not loads_of(code).is_repeated(read.offset, since)


def _error(
    recording: Any, held: Any, made: Any, name: Name | Variable | AttributeName, read: Read, value: Any
) -> InPlaceError | NotCapturedError:
    place = _place_of(recording, made)
    through = place or "an argument or a container"
    instead = f"the object, as {place}" if place else "the argument, or the object that holds it"
    holder = "" if value is held else f", {type_name(value)} that holds it"
    as_property = (
        ", or make the attribute a property that returns the field" if type(name) is AttributeName else ""
    )
    rest = (
        f"in the recording, through {through}, and {read} reads it by the plain name `{name.name}`{holder}. Until the "
        "recording ends a plain name shows what was there before, so that the gradient would be wrong. Read it there "
        f"through {instead}, or let the plain name stand for a copy{as_property}."
    )
    if is_array(held):
        return InPlaceError(f"{describe(held)} was written in place {rest}")
    return NotCapturedError(f"{type_name(held)} was changed {rest}")


def _place_of(recording: Any, made: Any) -> str | None:
    """A field in which the new contents are, in the words of an error message."""
    new = made.working if type(made) is WorkingCopy else made
    for record in recording.log.values():
        for name, value in record.values.items():
            if value is new or (type(value) is TracedArray and root_of(value) is new):
                return f"{type(record.obj).__name__}.{name}"
    return None
