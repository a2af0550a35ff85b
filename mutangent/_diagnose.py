"""A recording that looks at what it records: for the history of fields, and for the first number that is not finite.

Nothing of this costs an ordinary recording anything. Its entries are not a plain list, so that `_traced.append` hands
over the value and the operands of each operation, as it does in forward mode; and it is a subclass of `Recording`, so that
reads and writes of fields pass through here.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np

from ._accumulate import Cotangents
from ._fields import CapturedField, is_captured, schema_of
from ._finite import CheckedCotangents, FiniteCheck, checked_sweep
from ._history import NOTHING_FLOWS, History, Version
from ._overlay import UNSET, Unread
from ._recording import Gradients, Recording, leaf_maker
from ._structure import Description, Lifter
from ._tape import SET_ITEM, Entry, Tape
from ._traced import TracedArray

_NOT_THE_USERS: Final = (
    str(Path(__file__).parent) + os.sep,
    str(Path(np.__file__).parent) + os.sep,
    "<attrs generated",
    "<__array_function__",
)


def user_line() -> str:
    """The statement of the user's that runs now, as ``"model.py:12"``: of the first frame outside this package."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename.startswith(_NOT_THE_USERS) and frame.f_back is not None:
        frame = frame.f_back
    name = frame.f_code.co_filename
    return f"{name if name.startswith('<') else Path(name).name}:{frame.f_lineno}"


class LookingEntries(list[Entry]):
    """Entries that let a history and a check see what is appended."""

    def __init__(self, history: History | None, check: FiniteCheck | None) -> None:
        super().__init__()
        self._history = history
        self._check = check

    def append(self, entry: Entry) -> None:
        """Take an entry whose value is not looked at: a leaf, or a call with several results."""
        super().append(entry)
        if self._check is not None:
            self._check.lines.append(user_line())

    def push(
        self,
        rule: Any,
        parents: Any,
        saved: Any,
        shape: tuple[int, ...],
        dtype: Any,
        value: Any,
        operands: Any,
    ) -> int:
        """Take the entry of an operation, and return its node."""
        node = len(self)
        self.append((rule, parents, saved, shape, dtype))
        if self._check is not None:
            self._check.operation(self, node, value, operands)
        if rule is SET_ITEM:
            if self._check is not None:
                self._check.moved(parents[0], node)
            if self._history is not None:
                self._history.add_in_place(parents[0], node, value, user_line())
        return node

    def push_call(self, pull: Any, outputs: list[TracedArray]) -> None:
        """Forward mode has something to do here."""


class DiagnosedRecording(Recording):
    """A recording with a history, a check for numbers that are not finite, or both."""

    def __init__(self, history: bool, check_finite: bool) -> None:
        super().__init__(swept_later=True)
        self.history = History() if history else None
        self.check = FiniteCheck() if check_finite else None
        entries = LookingEntries(self.history, self.check)
        self.entries = entries
        self.tape = Tape(entries)
        # A check for nan waits for a device at every operation; then arrays may be looked at as well.
        leaf = leaf_maker(entries, self.tape, looks_at_devices=check_finite)
        self.lifter = Lifter(leaf, is_captured, self.containers)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        raised = None if self.check is None else self.check.raised
        if kind is not None or raised is None:
            super().__exit__(kind, error, trace)
            return
        # The error was caught inside the block. What it interrupted was left half done, so the block is undone.
        super().__exit__(type(raised), raised, None)
        raise raised

    # -- fields --------------------------------------------------------------------------------------------------------

    def lift(self, value: Any, where: str) -> tuple[Any, Description]:
        """Lift a watched array."""
        if self.check is not None:
            self.check.entered(value, where, user_line())
        return super().lift(value, where)

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        """Read a field that has no value here yet, and note the value."""
        value = super().first_read(obj, field)
        if not self.closed:
            made_here = self.records[id(obj)].entries[field.name] is UNSET
            self._note(obj, field.name, value, user_line() if made_here else None)
            if self.check is not None:
                self.check.entered(value, f"{type(obj).__name__}.{field.name}", user_line())
        return value

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        """Write a field, and note the value."""
        if self.closed:
            super().write(obj, field, value)
            return
        line = user_line()
        if self.check is not None:
            self.check.written(value, f"{type(obj).__name__}.{field.name}", line)
        super().write(obj, field, value)
        self._note_unread(obj, field.name)
        self._note(obj, field.name, value, line)

    def state_of(self, obj: Any) -> Any:
        """What is known of an object, its history included."""
        return super().state_of(obj), None if self.history is None else self.history.length_of(obj)

    def put_back(self, obj: Any, state: Any) -> None:
        """Undo what was done to an object, in its history too."""
        fields, length = state
        super().put_back(obj, fields)
        if self.history is not None:
            self.history.shorten(obj, length)

    def _note(self, obj: Any, name: str, value: Any, line: str | None) -> None:
        if self.history is not None:
            self.history.add(obj, name, value, line, self.node_of)
        if self.check is not None:
            self.check.see(obj, name, value, self.node_of)

    def _note_unread(self, obj: Any, name: str) -> None:
        """Note the entry value of a field that was overwritten before it was read."""
        if self.history is not None and not self.history.knows(obj, name):
            entry = self.records[id(obj)].entries.get(name)
            if type(entry) is Unread:
                self.history.add(obj, name, entry.shown, None, lambda _: NOTHING_FLOWS)

    def versions(self, obj: Any, name: str) -> list[Version]:
        """The history of a field."""
        assert self.history is not None
        schema = schema_of(type(obj))
        if schema is None or name not in schema.fields:
            raise AttributeError(
                f"{type(obj).__name__!r} object has no captured field {name!r}", name=name, obj=obj
            )
        if self.history.knows(obj, name):
            return self.history.of(obj, name)
        record = self.log.get(id(obj))
        entry = None if record is None else record.entries.get(name)
        if type(entry) is Unread:
            return [self.history.unread(entry.shown)]
        try:
            return [] if entry is UNSET else [self.history.unread(self.peek(obj, schema.fields[name]))]
        except AttributeError:  # it has no value
            return []

    # -- sweeps --------------------------------------------------------------------------------------------------------

    def gradients(self, seeds: Any, keep: frozenset[int] = frozenset(), free: bool = False) -> Gradients:
        """Sweep once, and keep the cotangents of the history."""
        seeds = list(seeds)
        if self.check is not None:
            self.check.seeds(seeds)
        if self.history is None:
            return super().gradients(seeds, keep, free)
        gradients = super().gradients(seeds, keep | self.history.nodes(), free)
        self.history.keep(gradients.cotangents)
        return gradients

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def _sweep(self, cotangents: Cotangents, keep: frozenset[int], free: bool) -> None:
        if self.check is None:
            super()._sweep(cotangents, keep, free)
            return
        checked = CheckedCotangents(self.entries, self.check)
        checked.slots, checked.owned, checked.foreign = cotangents.slots, cotangents.owned, cotangents.foreign
        checked_sweep(self.entries, checked, keep)
