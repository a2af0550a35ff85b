"""Overlays: the values that fields have inside a recording.

Theory of operation. An overlay maps the identity of an object to the values its fields have *inside* the recording. The
storage is not touched until the recording commits. So a raise leaves every object as it was, other threads see the
values from before, and the value on entry and what is written later can never be confused. Overlays nest: what is below
an overlay is the overlay that was current when it was opened, or the storage.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from threading import get_ident
from typing import Any, Final

import numpy as np

from ._arrays import ARRAYS, is_array, with_arrays, with_article
from ._attributes import Attributes
from ._elsewhere import Elsewhere, note_outside, open_recordings
from ._errors import NotCapturedError
from ._fields import MISSING, CapturedField, Schema, is_captured, schema_of
from ._structure import (
    Child,
    Containers,
    Description,
    Group,
    Lifter,
    Lowerer,
    WorkingCopy,
    frozen,
    refuse_own_fields,
    refuse_uncaptured,
)
from ._tangent import children
from ._traced import TracedArray, primal

# Values that other names may share, and change in place.
_SHARED: Final = with_arrays(list, dict, deque)
UNSET: Final = object()  # on entry the field had no value at all


_SCALARS: Final = with_arrays(float, int, str, bool, type(None))


class Record:
    """What an overlay knows of one object. It holds the object, so that its id cannot be reused."""

    __slots__ = ("attributes", "born", "deleted", "entries", "obj", "schema", "values", "written")

    def __init__(self, obj: Any, schema: Schema) -> None:
        self.obj = obj
        self.schema = schema
        self.values: dict[str, Any] = {}  # what a read gives now
        self.entries: dict[str, Description] = {}  # on entry: a description, Unread, or UNSET
        self.written: dict[str, None] = {}  # in order of the first write
        self.deleted: set[str] = set()
        self.born = False  # made inside the recording
        self.attributes: Attributes | None = None  # those that are no fields, as they were

    def state(self) -> Any:
        """What it says now, for `put_back`."""
        return dict(self.values), dict(self.entries), dict(self.written), set(self.deleted), self.born

    def put_back(self, state: Any) -> None:
        """Let it say what it said before."""
        self.values, self.entries, self.written, self.deleted, self.born = state


class Unread:
    """The entry value of a field that was not read, and the containers in it as they were."""

    __slots__ = ("copies", "shown", "value")

    def __init__(self, value: Any, shown: Any = None) -> None:
        self.value = value
        # Containers in the value and their copies, by which one that lies in several places is known.
        self.copies: dict[int, tuple[Any, Any]] = {}
        if shown is None:
            shown = value if type(value) in ARRAYS else frozen(value, self.copies)
        self.shown = shown

    def recognise(self, known: dict[int, Any]) -> None:
        """Let each container in the value and its copy have one entry in `known`, if either has one."""
        for original, made in self.copies.values():
            found = known.get(id(made)) or known.get(id(original))
            if found is not None:
                known[id(made)] = known[id(original)] = found


class Overlay:
    """The values that fields have inside a recording.

    Subclasses say what a first read yields, by `lifter`.
    """

    lifter: Lifter
    # Of the outermost overlay, once a field was read or written elsewhere while it waited.
    elsewhere: Elsewhere | None = None
    # The object, if any, whose memory holds what the recording sees; see `_instance_state`.
    stand_in: Any = None

    def __init__(self, outer: Overlay | None) -> None:
        self.outer = outer
        self.thread = get_ident()
        self.records: dict[int, Record] = {}
        self.log: dict[int, Record] = self.records  # the same records, kept after closing
        self.containers = Containers()
        self.dicts: dict[int, tuple[Any, Any]] = {}  # the `__dict__`s of objects that keep fields there
        self.closed = False

    # -- access ---------------------------------------------------------------------------------------------------

    def peek(self, obj: Any, field: CapturedField) -> Any:
        """The value of a field as it is here, without marking it as read."""
        record = self.log.get(id(obj))
        if record is not None:
            value = record.values.get(field.name, MISSING)
            if value is not MISSING:
                return value
            if field.name in record.deleted:
                raise AttributeError(field.name)
        return field.raw_get(obj) if self.outer is None else self.outer.peek(obj, field)

    def read(self, obj: Any, field: CapturedField) -> Any:
        """The value of a field inside the recording."""
        record = self.records.get(id(obj))
        if record is not None:
            value = record.values.get(field.name, MISSING)
            if value is not MISSING:
                return value
        return self.first_read(obj, field)

    def _below(self, obj: Any, field: CapturedField) -> Any:
        if self.outer is not None:
            return self.outer.read(obj, field)
        if len(open_recordings) > 1:
            note_outside(obj, field.name, within=self)
        return field.raw_get(obj)

    def _touch(self, obj: Any) -> Record:
        record = self.records.get(id(obj))
        if record is None:
            schema = schema_of(type(obj))
            assert schema is not None
            if schema.uncaptured:
                refuse_own_fields(obj)
            if schema.in_dict and schema.dict_of is not None:
                stored = schema.dict_of(obj)
                if self.dicts.setdefault(id(stored), (stored, obj))[1] is not obj:
                    cls = type(obj).__name__
                    raise NotCapturedError(
                        f"two objects, of which one is {with_article(cls)}, share one __dict__, and a recording does not "
                        "follow fields that belong to both. Let them share an object that holds the fields."
                    )
            record = self.records[id(obj)] = Record(obj, schema)
            if schema.may_stray:
                met = self.containers.met
                record.attributes = (met and met.get(id(obj))) or Attributes(obj)
        return record

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        """Read a field that has no value here yet: lift the value from below."""
        if self.closed:  # a task that was started inside outlives the recording
            return self._below(obj, field)
        name = field.name
        record = self.records.get(id(obj))
        if record is not None and name in record.deleted:
            raise AttributeError(
                f"{type(obj).__name__!r} object has no attribute {name!r}", name=name, obj=obj
            )
        value = self._below(obj, field)
        if record is None:
            record = self._touch(obj)
        if type(value) is np.ndarray and value.dtype.kind in "fc":  # the usual case
            lifted, record.entries[name] = self.lifter.leaf(value)
        else:
            lifted, record.entries[name] = self.lifter.lift(value, f"{type(obj).__name__}.{name}")
        record.values[name] = lifted
        return lifted

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        """Write a field inside the recording."""
        if self.closed:
            if self.outer is None:
                field.raw_set(obj, value)
            else:
                self.outer.write(obj, field, value)
            return
        record = self.records.get(id(obj))
        if record is None:
            record = self._touch(obj)
        name = field.name
        if name not in record.written:
            self._first_write(record, field)
        record.values[name] = self._followed(value) if type(value) in _SHARED else value
        if record.deleted:
            record.deleted.discard(name)

    def _followed(self, value: Any) -> Any:
        """What a field gives that an array, a list or a dict was assigned to."""
        if type(value) in ARRAYS:
            return value
        known = self.containers.by_original.get(id(value))
        return value if known is None else known.working

    def _first_write(self, record: Record, field: CapturedField) -> None:
        name = field.name
        record.written[name] = None
        if name in record.entries:
            return
        if record.born:
            record.entries[name] = UNSET
            return
        try:
            record.entries[name] = Unread(self.peek(record.obj, field))
        except AttributeError:
            record.entries[name] = UNSET
            record.born = not record.values and all(
                other is field or not self._is_set(record.obj, other)
                for other in record.schema.fields.values()
            )

    def _is_set(self, obj: Any, field: CapturedField) -> bool:
        try:
            self.peek(obj, field)
        except AttributeError:
            return False
        return True

    def delete(self, obj: Any, field: CapturedField) -> None:
        """Delete a field inside the recording."""
        self.read(obj, field)  # raises if there is nothing to delete
        record = self._touch(obj)
        if field.name not in record.written:
            self._first_write(record, field)
        record.values.pop(field.name, None)
        record.deleted.add(field.name)

    def state_of(self, obj: Any) -> Any:
        """What the overlay knows of the fields of an object, for `put_back`; None for nothing."""
        record = self.records.get(id(obj))
        return None if record is None else record.state()

    def put_back(self, obj: Any, state: Any) -> None:
        """Undo what was read and written of the fields of an object since `state_of`."""
        if state is None:
            self.records.pop(id(obj), None)
        elif id(obj) in self.records:
            self.records[id(obj)].put_back(state)

    def note_elsewhere(self, obj: Any, name: str, written: bool = False) -> None:
        """Note that a thread that was started with this context, and so works for it, has read or written a field."""
        if not self.closed and self.outer is not None:
            self.outer.note_elsewhere(obj, name, written)

    def noted_elsewhere(self) -> Elsewhere | None:
        """What was done elsewhere while this recording, or that around it, waited; None if it was nothing."""
        outermost = self
        while outermost.outer is not None:
            outermost = outermost.outer
        return outermost.elsewhere

    def meet(self, obj: Any) -> None:
        """Look at an object now, and again when the recording ends."""
        if not self.closed:
            self._touch(obj)
        if self.outer is not None:
            self.outer.meet(obj)

    # -- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop answering; the records stay in `log`."""
        self.closed = True
        self.records = {}
        self.dicts = {}

    def commit(self) -> None:
        """Give the objects, one level below, the values they have here. Call after `close`.

        Everything that can fail comes first: if this raises, nothing was changed.
        """
        containers = self.containers
        if not (containers.by_original or containers.bystanders or containers.met or self.log):
            return
        lowerer = self._lowerer()
        copies = list(containers.by_original.values())
        lowerer.check(copies)
        for attributes in self._attributes():
            _refuse_strays(attributes)
        for record in self.log.values():
            for name in record.written:
                value = record.values.get(name)
                if type(value) is not TracedArray and not is_array(value):
                    for item in children(value) or [value]:
                        refuse_uncaptured(
                            item, f"{type(record.obj).__name__}.{name}", is_captured, only_traced=True
                        )
        self._store(list(self.log.values()), lowerer, copies)

    def remember_graph(self, roots: list[Description]) -> None:
        """Note what unread fields hold in reach of the arguments (`roots`) and of what was touched, as the call leaves it.

        A sweep comes later, when the objects may have changed.
        """
        pending: list[Any] = [*roots, *[Child(record.obj) for record in self.log.values()]]
        seen: dict[int, Any] = {}
        while pending:
            value = pending.pop()
            if type(value) is Group:
                pending += value.items
                continue
            if type(value) is Unread:
                value = value.value
            elif type(value) is Child:
                value = value.primal
            items = children(value)
            if items is not None:
                pending += [item for item in items if type(item) not in _SCALARS]
            elif id(value) not in seen and is_captured(value):
                seen[id(value)] = value
                schema = schema_of(type(value))
                assert schema is not None
                record = self.log.get(id(value))
                if record is None:
                    record = self.log[id(value)] = Record(value, schema)
                self.remember_unread_fields(record)
                pending += record.entries.values()

    def remember_unread_fields(self, record: Record) -> None:
        """Note what the unread fields of one object hold."""
        for name, field in record.schema.fields.items():
            if name not in record.entries:
                try:
                    value = self.peek(record.obj, field)
                    # A list that the call changed, by another way to it, shows what the call left in it.
                    known = self.containers.by_original.get(id(value))
                    record.entries[name] = Unread(value, None if known is None else known.working)
                except AttributeError:
                    record.entries[name] = UNSET

    def rollback(self) -> None:
        """Leave the objects as they were. Objects made inside have no before: they get their values."""
        self.restore_attributes()
        self._store([record for record in self.log.values() if record.born], self._lowerer())

    def _attributes(self) -> list[Attributes]:
        """The attributes of captured objects that are no fields."""
        known = dict(self.containers.met or {})
        for record in self.log.values():
            if record.attributes is not None:
                known.setdefault(id(record.obj), record.attributes)
        return list(known.values())

    def restore_attributes(self) -> None:
        """Put attributes that are no fields back as they were, and of other objects those with a traced value in them."""
        for attributes in self._attributes():
            record = self.log.get(id(attributes.obj))
            if record is not None and record.born:
                attributes.lower()  # there is no before
            else:
                attributes.restore()
        for attributes in self.containers.bystanders.values():
            attributes.restore_traced()

    def _lowerer(self) -> Lowerer:
        return Lowerer(self.containers)

    def _store(self, records: list[Record], lowerer: Lowerer, copies: Sequence[WorkingCopy] = ()) -> None:
        outer = self.outer
        final = [
            (record, name, record.values.get(name, MISSING)) for record in records for name in record.written
        ]
        changed = self._changed(copies)
        if not final and not changed:
            return
        # A gradient that is taken at once needs no cotangents of what is left in lists.
        self._freeze_containers(records, final, changed if lowerer.copy_computed else [])
        lowerer.commit(changed)
        if lowerer.copy_computed:  # first what was computed, since constants may be the same arrays
            for _, _, value in final:
                if type(value) is TracedArray and not value._tape.asleep:
                    lowerer.lower(value)
        for record, name, value in final:
            obj, field = record.obj, record.schema.fields[name]
            if value is not MISSING:
                lowered = lowerer.lower(value)
                if outer is None:
                    if open_recordings:
                        note_outside(obj, name, written=True, within=self)
                    field.raw_set(obj, lowered)
                else:
                    outer.write(obj, field, lowered)
            elif record.entries[name] is not UNSET:
                if outer is None:
                    field.raw_delete(obj)
                else:
                    outer.delete(obj, field)

    def _freeze_containers(
        self, records: list[Record], final: list[tuple[Record, str, Any]], changed: list[WorkingCopy]
    ) -> None:
        """Put copies in the place of lists and dicts, with what the recording left in them."""
        # Lowering happens in place; cotangents of what the call left behind need the traced items.
        known: dict[int, tuple[Any, Any]] = {}
        for record, name, value in final:
            if type(value) is not TracedArray and isinstance(value, list | dict | deque | tuple):
                record.values[name] = frozen(value, known)
        self.containers.freeze([made.working for made in changed], known)
        if known:
            for record in records:
                for name, value in record.values.items():
                    if id(value) in known:
                        record.values[name] = known[id(value)][1]

    def _changed(self, copies: Sequence[WorkingCopy]) -> list[WorkingCopy]:
        """Those of some containers that were changed."""
        return [made for made in copies if made.is_changed()]

    def written(self) -> Iterator[tuple[Record, str]]:
        """The fields that were written and still have a value."""
        for record in self.log.values():
            for name in record.written:
                if name in record.values:
                    yield record, name


class PlainView(Overlay):
    """What a recording sees, without its tracing. For looking only: nothing is committed."""

    def __init__(self, outer: Overlay) -> None:
        super().__init__(outer)
        self.lifter = Lifter(lambda value: (primal(value), None), is_captured, self.containers)


class PassingOn(Overlay):
    """Hands everything on to the overlay below. Subclasses change one thing about it."""

    outer: Overlay

    def _meant(self, obj: Any) -> Any:
        """The object that is meant where `obj` is asked for."""
        return obj

    def peek(self, obj: Any, field: CapturedField) -> Any:
        return self.outer.peek(self._meant(obj), field)

    def read(self, obj: Any, field: CapturedField) -> Any:
        return self.outer.read(self._meant(obj), field)

    first_read = read

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        self.outer.write(self._meant(obj), field, value)

    def delete(self, obj: Any, field: CapturedField) -> None:
        self.outer.delete(self._meant(obj), field)

    def state_of(self, obj: Any) -> Any:
        return self.outer.state_of(self._meant(obj))

    def put_back(self, obj: Any, state: Any) -> None:
        self.outer.put_back(self._meant(obj), state)

    def meet(self, obj: Any) -> None:
        self.outer.meet(self._meant(obj))


def _refuse_strays(attributes: Attributes) -> None:
    """Raise if traced values sit in attributes that capture does not follow."""
    strays = attributes.with_traced()
    if strays:
        cls = type(attributes.obj).__name__
        raise NotCapturedError(
            f"{cls}.{strays[0]} was given a value that depends on the recording's inputs, but {strays[0]!r} is no "
            f"captured field of {cls}, so later reads of it would have no gradient. Declare it in the class, "
            f"`{strays[0]}: np.ndarray = mutangent.field(...)`, and put @mutangent.differentiable on class {cls}."
        )
