"""Whether the recorded code reads by a plain name what the recording wrote through a field or an argument.

What a recording writes into an array, a list or a dict it keeps beside it until it ends, so that a plain name of it shows
what was there before. Nothing tells that plain Python reads. But the code is known, and so are the names in it, see
`_reached`: if one of them stands for what was written, that is refused.
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter
from collections.abc import Sequence
from types import CodeType, FrameType
from typing import Any, Final
from weakref import getweakrefcount

import numpy as np

from ._arrays import ARRAYS, describe, is_array, overlap, type_name
from ._attribute_reads import AttributeName
from ._blocks import Block, Variable
from ._bytecode import loads_of
from ._elsewhere import above_the_package
from ._errors import InPlaceError, NotCapturedError
from ._memory import owner_of
from ._plain_names import Name, Read, is_way_to_data, paths_within
from ._reached import called_code
from ._recorded_code import RecordedCode, code_of
from ._references import COUNTS_REFERENCES
from ._shadow import check_shadow, share_memory
from ._structure import Leaf, WorkingCopy
from ._traced import TracedArray
from ._views import root_of

raises_all = False  # whether errors within the look are raised; they are in the tests
_DEEPEST: Final = 50  # calls between the recorded function and a write that are looked at


def place_in(function: Any) -> tuple[CodeType, int] | None:
    """Where the recorded code stands: it, and the offset of the instruction that runs."""
    is_block = type(function) is Block
    code = function.code if is_block else None if function is None else called_code(function)
    frame: FrameType | None = sys._getframe(3)  # whoever writes the array
    for _ in range(_DEEPEST):
        if frame is None or code is None:
            break
        if frame.f_code is code and (not is_block or function.is_in(frame)):
            return code, frame.f_lasti
        frame = frame.f_back
    return None


def refuse_read_past(recording: Any, changed: Sequence[WorkingCopy] = ()) -> None:
    """Raise if recorded code may read by a plain name an array that was written, or one of the containers `changed`."""
    if not changed and _nobody_else_holds_what_was_written(recording):
        return
    try:
        _look(recording, changed)
    except (InPlaceError, NotCapturedError):
        raise
    except Exception as error:  # a class of the user's may raise at whatever it is asked
        if raises_all:
            raise
        warnings.warn(
            "the code of a recording that has written an array in place could not be looked at, since something in it "
            f"raised {type(error).__name__}: {error}. If it reads the array by a plain name, it has seen what was there "
            "before, and the gradient is wrong. Read arrays through the fields of objects.",
            RuntimeWarning,
            stacklevel=above_the_package(),
        )


def _nobody_else_holds_what_was_written(recording: Any) -> bool:
    """Whether all references to the arrays that were written are known: then no name of the program's stands for one.

    A view of an array, a list, an object refers to it as a name does. What is not known of is taken for somebody else.
    """
    if not COUNTS_REFERENCES:
        return False
    shadowed = recording.tape.shadowed
    if not all(map(_has_references_only, shadowed.values())):
        return False
    known = _references_of(recording)
    counts = _counts_of(shadowed)
    return all(count == known[array] + _ALONE for array, count in counts.items())


def _has_references_only(shadowed: tuple[Any, Any]) -> bool:
    """Whether who has an array refers to it: no view has it through another one, and no weak reference."""
    source = shadowed[1]
    return type(source) is np.ndarray and source.base is None and not getweakrefcount(source)


def _counts_of(shadowed: dict[int, tuple[Any, Any]]) -> dict[int, int]:
    """How many references to arrays there are; by their identities."""
    return {id(source): sys.getrefcount(source) for _, source in shadowed.values()}


# That of one that nobody else has.
_ALONE: Final = next(iter(_counts_of({0: (None, np.empty(0))}).values()))


def _references_of(recording: Any) -> Counter[int]:
    """How many references to arrays there are because they were read, and lie in fields; by their identities."""
    found = Counter(recording.tape.ids_of_read())
    entries: set[int] = set()
    for record in recording.log.values():
        for name, entry in record.entries.items():
            if type(entry) is Leaf:
                if id(entry) not in entries:
                    entries.add(id(entry))
                    found[id(entry.entry)] += 1
                field = record.schema.fields.get(name)
                if field is not None and _in_storage(field, record.obj) is entry.entry:
                    found[id(entry.entry)] += 1
    return found


def _in_storage(field: Any, obj: Any) -> Any:
    try:
        return field.raw_get(obj)
    except AttributeError:  # it was deleted, or never set
        return None


def _look(recording: Any, changed: Sequence[WorkingCopy]) -> None:
    code = code_of(recording)
    if code is None:
        return
    written = _Written(recording, changed)
    names = [(name, name.value()) for name in code.names()]
    names_near = code.names_near([value for _, value in names])
    for name, value in names:
        _refuse_reads(recording, code, written, name, value)
    for further in names_near:
        _refuse_reads(recording, code, written, further, further.value(), is_sure=False)
    for attribute in code.attributes:
        if written.within(attribute.value) and code.may_name(attribute):
            _refuse_reads(recording, code, written, code.name_of(attribute), attribute.value)


def _refuse_reads(
    recording: Any,
    code: RecordedCode,
    written: _Written,
    name: Name | Variable | AttributeName,
    value: Any,
    is_sure: bool = True,
) -> None:
    for path, made in written.within(value):
        for read in name.reads:
            is_read = read.looks_into(value, path) and not _is_before(
                code, recording, read, made, value, path
            )
            if is_read and (code.may_keep(read) if read.is_put else is_sure or code.may_run(read.code)):
                raise _error(recording, made, name, read, value, path)


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
        # Whose memory was written; None if that is not known of all.
        written = [array for array, _ in self._arrays]
        for root, source in recording.tape.shadowed.values():
            written += [root._value, source]
        owners = [owner_of(array) for array in written]
        is_known = all(owner is not None for owner in owners)
        self._owners = {id(owner) for owner in owners} if is_known else None

    def within(self, value: Any) -> list[tuple[list[Any], Any]]:
        """What was written of a value, and of what it holds.

        Returns
        -------
        list of tuple
            The way from the value to what was written: nothing, or an item, an item of that, and so on; and the handle or
            the copy that has the new contents.
        """
        made = self._contents_of(value)
        if made is not None:
            return [([], made)]
        if type(value) in ARRAYS and not is_way_to_data(value):
            return []
        paths = paths_within(value, lambda item: self._contents_of(item) is not None)
        return [(path, self._contents_of(path[-1])) for path in paths]

    def _contents_of(self, value: Any) -> Any:
        kind = type(value)
        if kind not in ARRAYS:
            known = self._changed.get(id(value)) if self._changed else None
            return None if known is None else known[1]
        if (
            kind is np.ndarray
            and value.base is None
            and self._owners is not None
            and id(value) not in self._owners
        ):
            return None  # the usual case
        if self._tape.shadowed:
            for root, source in self._tape.places.written_near(self._tape, value):
                if share_memory(source, value) and id(source) not in (self._tape.handed_on or ()):
                    return root
        return next((made for array, made in self._arrays if array is value or overlap(array, value)), None)


def _original_of(recording: Any, made: WorkingCopy) -> Any:
    """The container that the program has, where an outer recording works on a copy as well."""
    original = made.original
    outer = recording.outer
    while outer is not None:
        known = outer.containers.by_working.get(id(original))
        original = original if known is None else known.original
        outer = outer.outer
    return original


def _is_before(
    recorded: RecordedCode, recording: Any, read: Read, made: Any, value: Any, path: list[Any]
) -> bool:
    """Whether a read is over before anything was written into an array."""
    first_write = None if recorded.is_recursive else recording.first_write
    if first_write is None or type(made) is WorkingCopy or not read.is_over_at_once(value, path):
        return False
    code, offset = first_write
    is_before = read.code is code and read.offset < offset
    return is_before and not loads_of(code).is_repeated(read.offset, recorded.start)


def _error(
    recording: Any,
    made: Any,
    name: Name | Variable | AttributeName,
    read: Read,
    value: Any,
    path: list[Any],
) -> InPlaceError | NotCapturedError:
    held = path[-1] if path else value
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
