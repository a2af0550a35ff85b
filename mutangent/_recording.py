"""A recording: one overlay over the objects, one tape, and the tangents that a sweep over it gives."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Sequence
from types import FrameType, TracebackType
from typing import Any, Final, Self

import numpy as np

from ._accumulate import Cotangents, project
from ._adopted import constant_array, refuse_whole
from ._arrays import (
    ARRAYS,
    Spec,
    describe,
    is_array,
    is_differentiable,
    is_on_device,
    number,
    on_host,
    spec_of,
    type_name,
    zeros,
)
from ._blocks import Block
from ._collector import collect_as_before, collect_less_while
from ._elsewhere import elsewhere_of, open_recordings
from ._errors import ContextError, CotangentError, InPlaceError
from ._fields import current, enter, is_captured, leave, leave_closed, overlay_var, schema_of
from ._mixed import explain_mixing
from ._overlay import UNSET, Overlay, Record, Unread
from ._read_past import place_in, refuse_held_past, refuse_put_past, refuse_read_past
from ._readers import Given, is_ours, names_of
from ._shadow import detached, entry_of_lent, first_name, join_shadow
from ._structure import Child, Containers, Description, Group, Leaf, Lifter, Lowerer, WorkingCopy
from ._tangent import NONE, ZERO, NoTangent, Tangent, ZeroTangent, children, rebuild
from ._tape import LEAF, Entry, Tape, sweep
from ._traced import TracedArray, new_leaf, new_traced, primal
from ._views import refresh_all, root_of
from ._written_back import check_contents, commit_contents, give_back


class Recording(Overlay):
    """Follows reads, writes and operations between `open` and `close`.

    Use it as a context manager: a body that returns commits, a body that raises rolls back.
    """

    # What is recorded: a function, or the block of a context; None if it is not known.
    function: Any = None
    called_with: Any = ((), {})  # the arguments as the function sees them
    # The code of that, and the offset in it at which an array was written first; see `_read_past`.
    first_write: Any = None
    # Whether arrays that are read must stay as they are until the end. Recordings within one that looks need not look.
    looks_at_arrays = True

    def __init__(self, swept_later: bool = False) -> None:
        super().__init__(current())
        self.containers.met = {}
        # Whether user code may run between the recording and a sweep, and overwrite arrays that the tape reads.
        self.swept_later = swept_later
        self.roots: list[Description] = []  # descriptions of the arguments
        # Within another recording, what the function was given.
        self.arguments: Given | None = None
        # And by what the program still reaches arrays that it gave before, by their identity.
        self.readers: dict[int, str | None] = {}
        # Fields that were not read, whose containers are known by their identity, and so must stay alive.
        self.recognised: list[Unread] = []
        self.copies: dict[
            int, tuple[Any, Any]
        ] = {}  # of arrays that were computed, by the identity of the traced one
        self.entries: list[Entry] = []
        self.tape = Tape(self.entries)
        self.lifter = Lifter(
            leaf_maker(self.entries, self.tape, self.looks_at_arrays), is_captured, self.containers
        )
        self._before: Any = None
        self._beside: Tape | None = None  # what was open in the outer recording before, see `Tape.inner`

    def _followed(self, value: Any) -> Any:
        if self.outer is not None:
            refuse_put_past(self, value)
        return constant_array(self.tape, value) if type(value) in ARRAYS else super()._followed(value)

    def __enter__(self) -> Self:
        self.tape.recording = weakref.ref(self)
        self._before = enter(self)
        if self.outer is None:
            open_recordings[id(self)] = self.tape.recording
        outer = self._outer_tape()
        if outer is not None:
            self._beside, outer.inner = outer.inner, self.tape
        return self

    def _outer_tape(self) -> Tape | None:
        """The tape of the recording in which this one was opened."""
        outer = self.outer
        while outer is not None and not isinstance(outer, Recording):
            outer = outer.outer
        return None if outer is None else outer.tape

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        open_recordings.pop(id(self), None)
        outer = self._outer_tape()
        if outer is not None:
            outer.inner, self._beside = self._beside, None
        if current() is not self:
            self.tape.close()
            self.close()
            self.restore_attributes()
            raise ContextError(
                "a recording was left while another one, opened inside it, is still open. Leave the inner one first; "
                "do not open a recording in a generator that is advanced from outside."
            )
        leave(self._before)
        self._before = None
        leave_closed()
        if self.outer is None and (self.swept_later or kind is not None):
            collect_as_before()
        paused = self.tape.entries is None
        give_back(self.tape, changed=kind is None)
        if kind is None:
            refresh_all(self.tape)
        self.tape.close()
        self.close()
        if kind is not None:
            explain_mixing(error, self.log.values(), self.roots)
            self.rollback()
            self.release()
            return
        if paused:
            self.rollback()
            raise ContextError(
                "the recording ended inside a mutangent.pause() block, perhaps of a generator that was not finished, so "
                "that what came after it was not recorded. Leave the block, or finish the generator, first."
            )
        try:
            self.commit()
        except BaseException:
            give_back(self.tape, changed=False)
            self.rollback()
            raise

    def commit(self) -> None:
        """Commit fields, containers, and the contents of arrays that were written in place."""
        if self.swept_later:
            self.remember_graph(self.roots)
        array = self.tape.overwritten()
        if array is not None:
            raise self._overwritten(array)
        if self.arguments is not None:
            self._require_unread()
        check_contents(self.tape)
        if self.tape.shadowed:
            refuse_read_past(self)
        noted = self.noted_elsewhere()
        if noted is not None:
            for obj in self._objects():
                noted.warn(obj)  # which a filter may make an error, so nothing is stored yet
        super().commit()
        commit_contents(self.tape, self.entries)
        if self.swept_later:
            self.tape.guard()

    def reader_of(self, array: Any) -> str | None:
        """By what the program can still reach an array that it gave to the recorded function; see `_readers`."""
        if id(array) in self.readers:
            return self.readers[id(array)]
        outermost: Overlay = self
        while outermost.outer is not None:
            outermost = outermost.outer
        assert self.arguments is not None
        return self.arguments.reader_of(array, self, outermost)

    def _require_unread(self) -> None:
        """Raise if an outer recording is to follow an array that the program knows by a plain name, and can read by it."""
        sleepers = None if self.tape.sleeping is None else self.tape.sleeping.sleepers
        for root, array in self.tape.shadowed.values():
            if type(array) is TracedArray or type(root._value) is not TracedArray:
                continue
            if sleepers is not None and sleepers.get(id(array)) is root:
                continue  # it was not given, but made here
            reader = self.reader_of(array)
            if reader is not None:
                raise InPlaceError(
                    f"{describe(array)}, which a function in a recording gave to another one, was written in place there "
                    f"with values that the first one traces, and {reader} goes on to show the old contents, which have no "
                    "gradient. Make the array with np.zeros_like(x) or np.zeros(shape, like=x) of a traced x, or hold "
                    "it in a field; or give a copy, `a.copy()`, if nobody needs what is written."
                )

    def is_run_by(self, frame: FrameType) -> bool:
        """Whether a function that is under way has opened the recording: no function before it goes on until it ends."""
        if type(self.function) is Block:
            return self.function.is_in(frame)
        return is_ours(frame) and names_of(frame).get("recording") is self

    def note_first_write(self) -> None:
        """Note where the recorded code stands, when an array is about to be written in place for the first time."""
        self.first_write = place_in(self.function)

    def _changed(self, copies: Sequence[WorkingCopy]) -> list[WorkingCopy]:
        """Those of some containers that were changed; raises if one may have been read by a plain name."""
        changed = super()._changed(copies)
        if changed:
            refuse_read_past(self, changed)
            refuse_held_past(self, changed)
        return changed

    def _objects(self) -> list[Any]:
        """The objects that the recording has met."""
        return [record.obj for record in self.log.values()]

    def place_of(self, handle: TracedArray) -> str | None:
        """The field that shows a handle, in the words of an error message."""
        for record in self.log.values():
            for name, value in record.values.items():
                if value is handle:
                    return f"{type(record.obj).__name__}.{name}"
        return None

    def _overwritten(self, array: Any) -> InPlaceError:
        """The error about an array that was read and then written past the recording."""
        fields = [
            f"{type(record.obj).__name__}.{name}"
            for record in self.log.values()
            for name, entry in record.entries.items()
            if type(entry) is Leaf and entry.entry is array
        ]
        where = fields[0] if fields else "an argument or a container"
        return InPlaceError(
            f"{describe(primal(array))}, which the recording had read from {where}, "
            "was written past it, by another name of the array, so the gradient would be computed from the wrong numbers. "
            "Write it through the field or the argument, or use a copy under the other name."
        )

    def note_elsewhere(self, obj: Any, name: str, written: bool = False) -> None:
        if self.outer is None and not self.closed and self.tape.entries is not None:
            if not written or id(obj) in self.records:
                elsewhere_of(self).note(obj, name, surely=True, written=written)
        else:
            super().note_elsewhere(obj, name, written)

    def _lowerer(self) -> Lowerer:
        return Lowerer(self.containers, self.copies if self.swept_later else None)

    # -- what the function was given and what it returned ------------------------------------------------------------

    def lift(self, value: Any, where: str) -> tuple[Any, Description]:
        """An argument as the recorded function sees it, and the description of its entry value."""
        return self.lifter.lift(value, where)

    def lift_container(self, value: Any, where: str) -> Any:
        """An argument that is not differentiated: a number stays plain, but what is put into a list is followed.

        An array of integers or booleans may be that of a field, and is treated as one.
        """
        if is_array(value):
            return self.lifter.lift(value, where)[0] if value.dtype.kind in "biu" else value
        if type(value) is TracedArray or is_differentiable(value):
            return value
        return self.lifter.lift(value, where)[0]

    def lower(self, value: Any) -> Any:
        """A result without this recording's tracing. Call after the recording was left."""
        lowered = self._lowerer().lower(value)
        self.release()
        return lowered

    def release(self) -> None:
        """Forget the traced values, once everything they left behind has its plain value."""
        self.function = self.called_with = self.first_write = None
        self.copies = {}
        self.containers.forget_tuples()
        self.tape.release()

    # -- sweeps --------------------------------------------------------------------------------------------------------

    def node_of(self, value: Any) -> int | None:
        """The node of a value that this recording traced; None for any other value."""
        known = self.tape.returned.get(id(value))
        if known is not None:
            node: int | None = known[1]
            if node is None:
                refuse_whole(value)
            return node
        while type(value) is TracedArray:
            if value._tape is self.tape:
                return value._node
            if _is_open(value):
                return None
            value = value._value
        return None

    def entry_of_final(self, obj: Any, name: str) -> Any:
        """The value that a field of `obj` had at the end, with its tracing; untouched fields become leaves."""
        schema = schema_of(type(obj))
        if schema is None or name not in schema.fields:
            raise CotangentError(f"{type(obj).__name__} has no captured field {name!r}")
        record = self.log.get(id(obj))
        if record is None:
            record = self.log[id(obj)] = Record(obj, schema)
        if name not in record.values and name not in record.deleted:
            entry = record.entries.get(name)
            field = schema.fields[name]
            known = self.containers.by_original
            if type(entry) is Unread:
                value = entry.shown
                entry.recognise(known)
                self.recognised.append(entry)
            else:
                value = field.raw_get(obj) if self.outer is None else self.outer.peek(obj, field)
            record.values[name], record.entries[name] = self.lifter.lift(
                value, f"{type(obj).__name__}.{name}"
            )
            if type(entry) is Unread:
                entry.recognise(known)
        return record.values.get(name)

    # A derivative that is truly infinite, of sqrt at 0, is no accident to be warned of.
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def _sweep(self, cotangents: Cotangents, keep: frozenset[int], free: bool) -> None:
        sweep(self.entries, cotangents, keep, free)

    def gradients(
        self, seeds: Iterable[tuple[int, Any]], keep: frozenset[int] = frozenset(), free: bool = False
    ) -> Gradients:
        """Sweep once. `seeds` are pairs (node, cotangent); `keep` are nodes within whose cotangent is wanted too."""
        seeds = list(seeds)
        self.tape.check_constants()
        cotangents = Cotangents(len(self.entries))
        for node, cotangent in seeds:
            cotangents.add(node, cotangent)
        # A pullback may read objects; it must not be recorded by the context that is being swept.
        inside = current() is self
        if inside:
            known = open_recordings.pop(id(self), None)
            enter(self.outer)
        try:
            self._sweep(cotangents, keep, free)
            return Gradients(self, cotangents, [cotangent for _, cotangent in seeds])
        except TypeError as error:
            explain_mixing(error, self.log.values(), self.roots)
            raise
        finally:
            if inside:
                leave(self)
                if known is not None:
                    open_recordings[id(self)] = known
            if self.outer is None:
                collect_as_before()


def leaf_maker(
    entries: list[Entry], tape: Tape, looks_at_arrays: bool = True, looks_at_devices: bool = False
) -> Callable[[Any], tuple[TracedArray, Leaf]]:
    """How a recording makes leaves; no method of it, so that a recording is no reference cycle."""

    def leaf(value: Any) -> tuple[TracedArray, Leaf]:
        if type(value) is np.ndarray:  # the usual case
            node = len(entries)
            entries.append((LEAF, -1, None, value.shape, value.dtype))
            made = new_traced(tape, node, value)
            tape.leaves[id(made)] = made
            if looks_at_arrays:
                tape.note_read(value)
            if tape.places is not None:
                join_shadow(made)
            return made, Leaf(node, value)
        if type(value) is TracedArray:
            if value._tape is tape or _is_open(value):
                return _leaf_of_traced(entries, tape, value, looks_at_arrays)
            value = primal(value)
        described = Leaf(len(entries), value)
        made = new_leaf(entries, tape, value)
        if looks_at_devices and is_on_device(value):
            tape.note_read(value)
        if tape.places is not None and is_array(value):
            join_shadow(made)
        return made, described

    return leaf


def _leaf_of_traced(
    entries: list[Entry], tape: Tape, value: TracedArray, looks_at_arrays: bool
) -> tuple[TracedArray, Leaf]:
    """The leaf of a value that an outer recording traces."""
    # A handle that is lent to an inner recording; one that is lent to an outer one is a value of that.
    entry = entry_of_lent(value) if value._tape.borrowed and value._tape.serial >= tape.serial else None
    if entry is None:
        if value._tape is tape:
            return value, Leaf(value._node, value._value)
        if not is_array(value):
            described = Leaf(len(entries), value)
            return new_leaf(entries, tape, value), described
        entry = value
    elif id(root_of(value)) in tape.unclaimed and first_name(value) is root_of(value):
        # The array was written by another name before this one was read.
        _, node = (
            tape.unclaimed[id(root_of(value))] if tape.pushes else tape.unclaimed.pop(id(root_of(value)))
        )
        return value, Leaf(node, entry)
    described = Leaf(len(entries), entry)
    # The outer handle may be written later; the entries of this tape must go on reading what it is now.
    made = new_leaf(entries, tape, detached(entry))
    tape.origins[id(made)] = (made, value)
    if looks_at_arrays:
        tape.note_read_traced(value, entry._node)
    if tape.places is not None:
        join_shadow(made)
    return made, described


def _is_open(value: TracedArray) -> bool:
    """Whether a recording that traced the value goes on; it may be paused."""
    layer: Any = value
    while type(layer) is TracedArray:
        if layer._tape.all is not None:
            return True
        layer = layer._value
    return False


class Gradients:
    """The tangents of one sweep: one `Tangent` per object, in one identity map."""

    def __init__(self, recording: Recording, cotangents: Cotangents, seeds: list[Any]) -> None:
        self.recording = recording
        self.cotangents = cotangents
        self._tangents: dict[int, Tangent] = {}
        self._pending: list[tuple[Tangent, Any]] = []
        # Arrays that somebody else holds; a second holder gets a copy.
        self._given: set[int] = {id(seed) for seed in seeds}
        self._seeds = seeds
        # One tangent per list or dict, as per object.
        self._groups: dict[tuple[int, bool], tuple[Any, Any]] = {}
        self._containers: Containers | None = None  # those of the recording, and what is met on the way
        self._lifter: Lifter | None = None  # for what was not read

    def of_node(self, node: int, entry: Any) -> Any:
        """The tangent of a leaf, or ZeroTangent if nothing flowed to it."""
        if node < 0:
            return ZERO
        cotangent = self.cotangents.slots[node]
        if cotangent is None:
            return ZERO
        given = id(cotangent) in self._given
        # What a node within the tape owns it may have handed on as it is.
        owned = bool(self.cotangents.owned[node]) and not given
        if not owned and not given:
            # Not shared with a seed or another leaf; a view could share memory with anything.
            owned = (
                type(cotangent) in ARRAYS
                and cotangent.base is None
                and (type(cotangent) is not np.ndarray or cotangent.flags.writeable)
                and node not in self.cotangents.foreign
            )
        self._given.add(id(cotangent))
        return project(cotangent, entry, owned)

    def of(self, description: Description, dense: bool = False) -> Any:
        """The tangent of a described entry value; with `dense`, numbers and arrays get zeros in place of ZeroTangent."""
        result = self._visit(description, dense)
        self._fill()
        return result

    def of_object(self, obj: Any) -> Tangent:
        """The tangent of an object."""
        result = self._shell(obj)
        self._fill()
        return result

    def _visit(self, description: Description, dense: bool) -> Any:
        if type(description) is Leaf:
            tangent = self.of_node(description.node, description.entry)
            return zero_like(description) if dense and tangent is ZERO else tangent
        if type(description) is Child:
            return self._shell(description.primal)
        if type(description) is Group:
            known = self._groups.get((id(description), dense))
            if known is not None:
                return known[1]
            made = rebuild(description.model, [self._visit(item, dense) for item in description.items])
            if not isinstance(description.model, tuple):
                # It holds the description, so that its id stays its own.
                self._groups[id(description), dense] = (description, made)
            return made
        return NONE

    def _shell(self, obj: Any) -> Tangent:
        shell = self._tangents.get(id(obj))
        if shell is None:
            shell = self._tangents[id(obj)] = Tangent._shell(type(obj), {})
            self._pending.append((shell, obj))
            noted = self.recording.noted_elsewhere()
            if noted is not None:
                noted.warn(obj)
        return shell

    def _fill(self) -> None:
        while self._pending:
            shell, obj = self._pending.pop()
            record = self.recording.log.get(id(obj))
            entries = {} if record is None else record.entries
            schema = schema_of(type(obj))
            assert schema is not None
            for name, field in schema.fields.items():
                entry = entries.get(name, MISSING_ENTRY)
                if entry is UNSET:
                    continue
                if type(entry) is Unread:
                    entry = self._describe_unread(entry)
                elif entry is MISSING_ENTRY:
                    try:
                        outer = self.recording.outer
                        value = field.raw_get(obj) if outer is None else outer.peek(obj, field)
                    except AttributeError:
                        continue
                    entry = self._describe(value)
                tangent = self._visit(entry, False)
                if tangent is ZERO:
                    shell._like[name] = _ZeroLike(entry)
                else:
                    shell._fields[name] = tangent

    def _describe(self, value: Any) -> Description:
        """The description of a value that was not read: it has the same objects in it, and leaves without a node."""
        if type(value) is np.ndarray and value.dtype.kind in "fc":  # the usual case
            return Leaf(-1, value)
        if self._lifter is None:
            self._lifter = Lifter(_dead_leaf, is_captured, self._known_containers())
        return self._lifter.lift(value, "a field")[1]

    def _describe_unread(self, entry: Unread) -> Description:
        """The description of a field that was not read. A list that lies elsewhere too has the description of that."""
        if not entry.copies:
            return self._describe(entry.shown)
        known = self._known_containers().by_original
        entry.recognise(known)
        description = self._describe(entry.value if id(entry.value) in known else entry.shown)
        entry.recognise(known)
        return description

    def _known_containers(self) -> Containers:
        if self._containers is None:
            known = self.recording.containers
            self._containers = Containers()
            self._containers.by_original = dict(known.by_original)
            self._containers.by_working = dict(known.by_working)
        return self._containers


MISSING_ENTRY: Final = object()


class _ZeroLike:
    """What `Tangent.dense` puts in place of a ZeroTangent. It keeps no array alive."""

    __slots__ = ("description",)

    def __init__(self, leaf: Leaf) -> None:
        # The entry itself is needed only for its type.
        self.description = leaf

    def __call__(self) -> Any:
        return zero_like(self.description)


def _dead_leaf(value: Any) -> tuple[Any, Leaf]:
    return value, Leaf(-1, value)


def zero_like(leaf: Leaf) -> Any:
    """Zeros of the type, shape and dtype of an entry value."""
    entry = primal(leaf.entry)
    if type(entry) is float or type(entry) is complex:
        return type(entry)(0)
    if isinstance(entry, np.generic):
        return leaf.spec.dtype.type(0)
    return zeros(leaf.spec, entry)


# -- cotangents of results ---------------------------------------------------------------------------------------------


def match(
    recording: Recording, value: Any, cotangent: Any, where: str, seen: set[tuple[int, int]] | None = None
) -> list[tuple[int, Any]]:
    """Pair the traced numbers in `value` with their cotangents.

    Parameters
    ----------
    recording : Recording
        The recording that traced `value`.
    value : object
        A result, or what a call left in a field: numbers, arrays, objects and containers of them.
    cotangent : object
        Its cotangent, of the same structure. `ZeroTangent()`, `NoTangent()` and None are accepted everywhere.
    where : str
        The name of the value for error messages.
    seen : set, optional
        Pairs (object, tangent) that were counted already, by identity; one tangent counts once, wherever it stands.

    Returns
    -------
    list of (int, array)
        Nodes with cotangents of the node's shape and dtype.
    """
    seeds: list[tuple[int, Any]] = []
    seen = set() if seen is None else seen
    pending: list[tuple[Any, Any, str]] = [(value, cotangent, where)]
    while pending:
        value, cotangent, where = pending.pop()
        if isinstance(cotangent, ZeroTangent | NoTangent) or (cotangent is None and value is None):
            continue
        if isinstance(value, ZeroTangent | NoTangent):
            continue  # of an inner gradient: a constant
        if type(value) is TracedArray or is_differentiable(value):
            seed = check_array(value, cotangent, where)
            node = recording.node_of(value)
            if node is not None:
                seeds.append((node, seed))
            continue
        if not isinstance(value, tuple):
            # One object, list or inner gradient has one cotangent, in all of its places.
            key = (recording.containers.identity_of(value), id(cotangent))
            if key in seen:
                continue
            seen.add(key)
            value = recording.containers.with_traced(value)
        if isinstance(value, Tangent) and isinstance(cotangent, Tangent) and value._cls is cotangent._cls:
            where = f"{where}, Tangent[{value._cls.__name__}]"
            pending += [(value[name], cotangent[name], f"{where}.{name}") for name in cotangent]
        elif isinstance(cotangent, Tangent):
            if not is_captured(value) or not issubclass(type(value), cotangent._cls):
                raise CotangentError(
                    f"the cotangent of {where} is a Tangent of {cotangent._cls.__name__}, but the value is "
                    f"{describe(value)}. Give a cotangent of the value's own structure."
                )
            pending += _paired_fields(recording, value, cotangent)
        else:
            pending += _paired_items(value, cotangent, where)
    return seeds


def _paired_fields(recording: Recording, obj: Any, cotangent: Tangent) -> list[tuple[Any, Any, str]]:
    """What the call left in the fields of an object, with the cotangents."""
    untouched = id(obj) not in recording.log
    return [
        (recording.entry_of_final(obj, name), cotangent[name], f"{type(obj).__name__}.{name}")
        for name in cotangent
        # Nothing that the call did reaches the numbers of an object that it never met, and they may be others by now.
        if not untouched or _leads_to_objects(cotangent[name])
    ]


def _leads_to_objects(cotangent: Any) -> bool:
    items = children(cotangent)
    return isinstance(cotangent, Tangent) if items is None else any(map(_leads_to_objects, items))


def _paired_items(value: Any, cotangent: Any, where: str) -> list[tuple[Any, Any, str]]:
    """The items of a container with their cotangents, or an error about the structure."""
    values, cotangents = children(value), children(cotangent)
    if values is None:
        raise CotangentError(
            f"{where} is {describe(value)} and has no tangent space, but its cotangent is {describe(cotangent)}. Give "
            "mutangent.NoTangent() for it."
        )
    is_dict = isinstance(value, dict)
    if cotangents is None or len(values) != len(cotangents) or is_dict != isinstance(cotangent, dict):
        got = describe(cotangent) if cotangents is None else f"{type_name(cotangent)} of {len(cotangents)}"
        raise CotangentError(
            f"{where} is {type_name(value)} of {len(values)} values, but its cotangent is {got}. Give one "
            "cotangent per value, in the same structure."
        )
    if is_dict and set(value) != set(cotangent):
        raise CotangentError(f"{where} has the keys {list(value)}, but its cotangent has {list(cotangent)}.")
    keys = list(value) if is_dict else list(range(len(values)))
    return [(value[key], cotangent[key], f"{where}[{key!r}]") for key in keys]


def check_array(value: Any, cotangent: Any, where: str, noun: str = "cotangent") -> Any:
    """A cotangent (or tangent) as an array of the value's shape and dtype, or an error that says what is wrong with it."""
    spec = spec_of(value)
    given = primal(cotangent)
    if (
        not (is_array(given) or isinstance(given, int | float | complex | np.generic))
        or spec_of(given).dtype.kind not in "biufc"
    ):
        raise CotangentError(
            f"the {noun} of {where} must be {describe_spec(spec)}, and it is {describe(given)}."
        )
    if is_array(given) and spec_of(given).dtype.kind in "biu":
        raise CotangentError(
            f"the {noun} of {where} has dtype {spec_of(given).dtype}, and the value has dtype {spec.dtype}. Give a "
            f"{noun} of the value's kind, for example `y_bar.astype(y.dtype)`."
        )
    shape = np.shape(given)
    if shape != spec.shape:
        raise CotangentError(
            f"the {noun} of {where} has shape {shape}, and the value has shape {spec.shape}. Give a {noun} of the "
            "value's shape."
        )
    if spec_of(given).dtype.kind == "c" and spec.dtype.kind == "f":
        raise CotangentError(
            f"the {noun} of {where} is complex ({spec_of(given).dtype}), and the value is real ({spec.dtype}). "
            "Give its real part."
        )
    if type(cotangent) is TracedArray:
        return (
            cotangent
            if hasattr(given, "dtype") and given.dtype == spec.dtype
            else cotangent.astype(spec.dtype)
        )
    on_device = is_on_device(primal(value))
    if is_on_device(cotangent) and not is_array(primal(value)):
        cotangent = on_host(cotangent)[()]  # a number is on the host, and its cotangent waits for the device
    elif is_array(given) and is_on_device(given) != on_device:
        raise CotangentError(
            f"the {noun} of {where} is {describe(given)}, and the value is {describe(primal(value))}. Give a {noun} of the "
            f"value's array library: {'cupy.asarray(y_bar)' if on_device else 'cupy.asnumpy(y_bar)'}."
        )
    if not hasattr(cotangent, "dtype") or (on_device and isinstance(cotangent, np.generic)):
        return number(cotangent, spec.dtype, primal(value))
    return cotangent if cotangent.dtype == spec.dtype else cotangent.astype(spec.dtype)


def describe_spec(spec: Spec) -> str:
    """A specification in the words of an error message."""
    return (
        f"an array of shape {spec.shape} and dtype {spec.dtype}"
        if spec.shape
        else f"a number of dtype {spec.dtype}"
    )


collect_less_while(overlay_var)
