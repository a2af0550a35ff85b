"""One call of a user's rule: what it sees of the objects, what it read and wrote, and its entry on the tape.

Theory of operation. A rule runs in a *frame*: an overlay that shows objects as they are inside the recording at that
moment, with the recording's own tracing taken off. So the rule computes with plain values, as ordinary code does, and
what it does is not recorded. The frame notes which node stood behind every field that was read, and keeps what was
written. When the rule has returned, one entry goes on the tape. Its results are the value *and* everything that was
written; its operands are the arguments *and* everything that was read. In the sweep the pullback gets the cotangents of
all results and answers with tangents of all operands: a `Tangent` per object. The recording adds them up like
any other contribution, which is all that it takes to have one tangent per object.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ._arrays import (
    ARRAYS,
    describe,
    is_array,
    is_differentiable,
    overlap,
    protected,
    spec_of,
    type_name,
    zeros,
)
from ._errors import RuleError
from ._fields import CapturedField, current, enter, is_captured, leave, schema_of
from ._identity import IdentityMap
from ._in_place import note_twins
from ._overlay import UNSET, Overlay, Unread
from ._recording import Recording
from ._shadow import first_name, is_entry
from ._structure import (
    Child,
    Containers,
    Description,
    Group,
    Leaf,
    Lifter,
    contents,
    same_parts,
)
from ._tangent import NONE, NoTangent, Tangent, ZeroTangent, children, rebuild
from ._tape import CALL, UNPACK, Tape
from ._traced import TracedArray, append, append_call, level_of, lower, primal, stripped
from ._views import root_of, source_of

_UNREAD: Final = Leaf(-1, 0.0)  # describes a number that the rule did not read


class Frame(Overlay):
    """The overlay in which a rule runs."""

    def __init__(self, outer: Overlay | None, tape: Tape) -> None:
        super().__init__(outer)
        self.tape_below = tape

        self.lent: dict[int, tuple[Any, Any, TracedArray | None]] = {}
        lent = self.lent

        def strip(value: Any) -> tuple[Any, Leaf]:
            layer = level_of(value, tape) if type(value) is TracedArray else None
            lowered = stripped(value, tape)
            described = Leaf(-1 if layer is None else layer._node, lowered)
            if type(lowered) in ARRAYS:
                # The rule reads the array itself, and must not write into it: nothing would record that.
                shown = lowered.view()
                if type(shown) is np.ndarray:  # CuPy has no read-only arrays
                    shown.flags.writeable = False
                lent[id(shown)] = (shown, lowered, layer)
                tape.lent[id(lowered)] = lowered
                lowered = shown
            return lowered, described

        self.lifter = Lifter(strip, is_captured, self.containers)


def open_tape() -> Tape | None:
    """The tape of the innermost recording that goes on here; a rule's frame hides the one it belongs to."""
    stripped: set[int] = set()
    overlay = current()
    while overlay is not None:
        if isinstance(overlay, Frame):
            stripped.add(overlay.tape_below.serial)
        elif isinstance(overlay, Recording) and overlay.tape.serial not in stripped and overlay.tape.is_open:
            return overlay.tape
        overlay = overlay.outer
    return None


class CallView(Overlay):
    """What a pullback sees of the objects: their fields as the call left them, whatever has been written since."""

    def __init__(self, frame: Frame, tape: Tape, name: str) -> None:
        super().__init__(current())
        self._frame = frame
        self._tape = tape
        self._name = name
        self._born: dict[int, Any] = {}  # objects that the pullback makes

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        if id(obj) in self._born:
            return field.raw_get(obj)
        record = self._frame.log.get(id(obj))
        if record is not None:
            entry = record.entries.get(field.name)
            if field.name in record.values:
                return self._plain(record.values[field.name])
            if type(entry) is Unread:
                return self._plain(entry.value)
        cls = type(obj).__name__
        raise RuleError(
            f"the pullback of {self._name} read {cls}.{field.name}, of an object that the rule did not read, so its value "
            "at the time of the call is not known. Read it in the rule and let the pullback use that value."
        )

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        if id(obj) in self._born or self._is_new(obj):
            self._born[id(obj)] = obj
            field.raw_set(obj, value)
            return
        raise RuleError(
            f"the pullback of {self._name} wrote {type(obj).__name__}.{field.name}. A pullback only computes tangents."
        )

    def _is_new(self, obj: Any) -> bool:
        """Whether no field of an object has a value yet: its `__init__` is running."""
        schema = schema_of(type(obj))
        assert schema is not None
        return id(obj) not in self._frame.log and not any(
            self._is_set(obj, field) for field in schema.fields.values()
        )

    def _plain(self, value: Any) -> Any:
        return Lifter(lambda leaf: (lower(leaf, self._tape), None), is_captured, Containers()).lift(
            value, "a field"
        )[0]


class Call:
    """One recorded call of a primitive."""

    def __init__(
        self,
        name: str,
        frame: Frame,
        tape: Tape,
        descriptions: list[Description],
        pullback: Callable[..., Any],
    ) -> None:
        self.name = name
        self.frame = frame
        self.tape = tape
        self.arguments = descriptions
        self.pullback = pullback
        self.value: Description = None
        self.written: list[tuple[Any, str, Description]] = []
        self.takes_written = _takes_written(pullback)

    def record(self, value: Any) -> Any:
        """Put the call on the tape, commit what it wrote, and return its traced value."""
        entries: Any = self.tape.entries
        self.frame.remember_graph(self.arguments)
        self._check_reads()
        call = append_call(entries, self.tape, CALL, -1, self.pull)
        made: list[TracedArray] = []
        arrays: list[tuple[Any, TracedArray]] = []

        def make_output(leaf: Any) -> tuple[Any, Leaf]:
            if type(leaf) is TracedArray and level_of(leaf, self.tape) is not None:
                raise RuleError(
                    f"the rule of {self.name} used a traced value that is neither an argument nor a field, so its "
                    "derivative would be lost. Pass it as an argument."
                )
            leaf = self._give_back(leaf)
            made.append(append(entries, self.tape, UNPACK, call, len(made), leaf))
            if type(leaf) in ARRAYS:
                self._lock_if_shared(leaf, made[-1])
            if is_array(leaf):
                arrays.append((leaf, made[-1]))
            return made[-1], Leaf(len(made) - 1, leaf)

        lifter = Lifter(make_output, is_captured, Containers())
        traced, self.value = lifter.lift(value, f"the value of {self.name}")
        self._check_writes()
        for record, name in list(self.frame.written()):
            final, description = lifter.lift(record.values[name], f"{type(record.obj).__name__}.{name}")
            record.values[name] = final
            self.written.append((record.obj, name, description))
        self._tie(arrays)
        self._keep_tuples(lifter.containers)
        if type(entries) is not list:
            entries.push_call(self.pull, made)
        self.frame.commit()
        # The tape keeps this call; it must not keep the recording, or nothing would be freed without the collector.
        self.frame.outer = None
        return traced

    def _tie(self, arrays: list[tuple[Any, TracedArray]]) -> None:
        """Let an array that the rule left in two places be one once it is written; parts of one are not written."""
        for number, (array, output) in enumerate(arrays):
            for other, its in arrays[:number]:
                if other is array:
                    note_twins(output, its)
                elif type(array) in ARRAYS and type(other) in ARRAYS and overlap(array, other):
                    self.tape.locked.update({id(output): output, id(its): its})

    def _keep_tuples(self, lifted: Containers) -> None:
        """Let a tuple that the rule was given, or left in two places, be one tuple in the end."""
        outer = self.frame.outer
        if outer is None or type(self.tape.entries) is not list:
            return
        first = {key: tuples[1] for key, tuples in self.frame.containers.tuples.items()}
        for made, value in lifted.tuples.values():
            twin = first.setdefault(id(value), made)
            if twin is not made:
                outer.containers.twins[id(made)] = (made, twin)

    def _give_back(self, value: Any) -> Any:
        """The array itself in place of the read-only view of it that the rule was shown."""
        known = self.frame.lent.get(id(value))
        return value if known is None else known[1]

    def _lock_if_shared(self, value: Any, output: TracedArray) -> None:
        """A result that shares memory with an operand cannot be written in place: neither would see the other's write."""
        for _, array, layer in self.frame.lent.values():
            if overlap(array, value):
                self.tape.locked[id(output)] = output
                if layer is not None:
                    self.tape.locked[id(layer)] = layer
                    root = root_of(layer)
                    is_whole = array is value and first_name(layer) is root
                    if is_whole and is_entry(root) and not self.tape.pushes:
                        # What is left behind is that very array.
                        self.tape.origins[id(output)] = (output, source_of(root))

    def _check_reads(self) -> None:
        """Refuse if the rule read numbers that no argument leads to: its pullback has no place for their tangents."""
        log = self.frame.log
        reached: dict[int, Any] = {}
        pending = list(self.arguments)
        while pending:
            description = pending.pop()
            if type(description) is Group:
                pending += description.items
            elif type(description) is Child and id(description.primal) not in reached:
                reached[id(description.primal)] = description.primal
                record = log.get(id(description.primal))
                if record is not None:
                    entries = [self._described(entry) for entry in record.entries.values()]
                    pending += entries
        for record in log.values():
            if id(record.obj) in reached or record.born:
                continue
            for name, entry in record.entries.items():
                if type(entry) is Leaf and (type(entry.node) is not int or entry.node >= 0):
                    cls = type(record.obj).__name__
                    raise RuleError(
                        f"the rule of {self.name} read {cls}.{name}, and no argument leads to that {cls}, so its "
                        "derivative would be lost: a pullback returns one tangent per argument. Pass the object as an "
                        "argument."
                    )

    def _described(self, entry: Any) -> Description:
        """The description of a field on entry of the call; numbers that were not read are marked."""
        if type(entry) is not Unread:
            return None if entry is UNSET else entry
        return Lifter(lambda leaf: (leaf, _UNREAD), is_captured, Containers()).lift(entry.shown, "a field")[1]

    def _check_writes(self) -> None:
        if not self.takes_written:
            returned = _children_of(self.value)
            for record, name in self.frame.written():
                # The cotangent of a new object that is returned is part of `y_bar`.
                is_returned = record.born and id(record.obj) in returned
                if _has_numbers(record.values[name]) and not is_returned:
                    cls = type(record.obj).__name__
                    raise RuleError(
                        f"the rule of {self.name} wrote {cls}.{name}, but its pullback takes no `written`, so the "
                        f"cotangent of the new value would be lost. Write `def pullback(y_bar, written)` and use "
                        f"`written[obj].{name}`, the cotangent of the value that the call left in {cls}.{name}."
                    )
        for made in self.frame.containers.by_original.values():
            if not same_parts(contents(made.working), made.lifted_before or []):
                raise RuleError(
                    f"the rule of {self.name} changed {type_name(made.original)} in place. Assign a new one to "
                    "the field."
                )

    def pull(self, cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        """Call the user's pullback and yield its tangents as contributions to nodes."""
        written: IdentityMap[Tangent] = IdentityMap(
            (record.obj, Tangent._shell(type(record.obj), {})) for record in self.frame.log.values()
        )
        for obj, name, description in self.written:
            written[obj]._fields[name] = self._cotangent(description, cotangents, written)
        y_bar = self._cotangent(self.value, cotangents, written)
        before = enter(CallView(self.frame, self.tape, self.name))
        try:
            tangents = self.pullback(y_bar, written) if self.takes_written else self.pullback(y_bar)
        finally:
            leave(before)
        if not isinstance(tangents, tuple) or len(tangents) != len(self.arguments):
            got = f"{len(tangents)} tangents" if isinstance(tangents, tuple) else describe(tangents)
            raise RuleError(
                f"the pullback of {self.name} returned {got} for {len(self.arguments)} arguments. Return a tuple with "
                "one tangent per argument, `(x_bar,)` for a single one; mutangent.NoTangent() for an argument without."
            )
        return self._contributions(tangents)

    def _contributions(self, tangents: tuple[Any, ...]) -> Iterator[tuple[int, Any]]:
        """Pairs (node, contribution) for everything that the call had read."""
        seen: set[tuple[int, int]] = set()
        pending = [
            (description, tangent, f"argument {number}")
            for number, (description, tangent) in enumerate(zip(self.arguments, tangents, strict=True))
        ]
        while pending:
            description, tangent, where = pending.pop()
            if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
                continue
            if description is _UNREAD:
                raise RuleError(
                    f"the pullback of {self.name} returned a tangent for {where}, which the rule did not read before it "
                    "returned. Read the field in the rule, so that the tangent belongs to the value it had there."
                )
            if type(description) is Leaf:
                contribution = self._check(description, tangent, where)
                # In forward mode the node is a tangent.
                if type(description.node) is not int or description.node >= 0:
                    yield description.node, contribution
            elif type(description) is Child and isinstance(tangent, Tangent):
                obj = description.primal
                if not isinstance(obj, tangent._cls):
                    raise RuleError(
                        f"the pullback of {self.name} returned a Tangent of {tangent._cls.__name__} for {where}, which is "
                        f"{type_name(obj)}. Write mutangent.Tangent({type(obj).__name__}, ...)."
                    )
                if (id(obj), id(tangent)) not in seen:
                    seen.add((id(obj), id(tangent)))
                    pending += self._fields_of(obj, tangent)
            elif type(description) is Group and len(children(tangent) or ()) == len(description.items):
                pending += [
                    (item, part, where)
                    for item, part in zip(description.items, children(tangent) or [], strict=True)
                ]
            elif _carries_numbers(tangent):
                raise RuleError(
                    f"the pullback of {self.name} returned {describe(tangent)} for {where}, which does not fit its "
                    "structure. Return a mutangent.Tangent for an object, a tuple or list for a container, "
                    "mutangent.NoTangent() for what has no tangent space."
                )

    def _fields_of(self, obj: Any, tangent: Tangent) -> Iterator[tuple[Description, Any, str]]:
        record = self.frame.log.get(id(obj))
        for name in tangent:
            entry = self._untouched(obj, name) if record is None else record.entries.get(name, UNSET)
            where = f"{type(obj).__name__}.{name}"
            yield self._described(entry), tangent[name], where

    def _untouched(self, obj: Any, name: str) -> Any:
        """What a field holds of an object that the rule did not touch; objects in it may have been read by another way."""
        schema = schema_of(type(obj))
        assert schema is not None
        try:
            return Unread(self.frame.peek(obj, schema.fields[name]))
        except AttributeError:
            return UNSET

    def _check(self, leaf: Leaf, tangent: Any, where: str) -> Any:
        plain = primal(tangent)
        if not is_differentiable(plain):
            if isinstance(plain, int | np.integer):
                tangent = plain = np.float64(plain)
            else:
                raise RuleError(
                    f"the pullback of {self.name} returned {describe(plain)} for {where}; return an array."
                )
        elif type(tangent) is TracedArray and (type(plain) is float or type(plain) is complex):
            tangent = tangent.astype(
                np.complex128 if type(plain) is complex else np.float64
            )  # a strong number
        if np.shape(plain) != leaf.spec.shape:
            raise RuleError(
                f"the pullback of {self.name} returned a tangent of shape {np.shape(plain)} for {where}, which has shape "
                f"{leaf.spec.shape}. Return a tangent of the argument's own shape (sum over broadcast axes)."
            )
        if spec_of(plain).dtype.kind == "c" and leaf.spec.dtype.kind == "f":
            raise RuleError(
                f"the pullback of {self.name} returned a complex tangent for {where}, which is real. Return its real part."
            )
        return (
            np.float64(tangent)
            if type(tangent) is float
            else np.complex128(tangent)
            if type(tangent) is complex
            else tangent
        )

    def _cotangent(
        self, description: Description, cotangents: dict[int, Any], written: IdentityMap[Tangent]
    ) -> Any:
        """The cotangent of one result, with zeros where nothing flowed: rules see arrays like the value."""
        if type(description) is Leaf:
            found = cotangents.get(description.node)
            if found is not None:
                return protected(found)
            zero = zeros(description.spec, primal(description.entry))
            return zero if description.spec.shape else zero[()]
        if type(description) is Child:
            obj = description.primal
            return written[obj] if obj in written else Tangent._shell(type(obj), {})
        if type(description) is Group:
            return rebuild(
                description.model, [self._cotangent(item, cotangents, written) for item in description.items]
            )
        return NONE


def _children_of(description: Description) -> set[int]:
    """The identities of the objects in a described value."""
    if type(description) is Group:
        return set().union(*map(_children_of, description.items))
    return {id(description.primal)} if type(description) is Child else set()


def _carries_numbers(tangent: Any) -> bool:
    """Whether there is any number in a tangent; it may be cyclic."""
    seen: dict[int, Any] = {}
    pending = [tangent]
    while pending:
        value = pending.pop()
        if isinstance(value, Tangent):
            if id(value) not in seen:
                seen[id(value)] = value
                pending += [value[name] for name in value]
        elif children(value) is not None:
            pending += children(value) or ()
        elif value is not None and not isinstance(value, ZeroTangent | NoTangent):
            return True
    return False


def _has_numbers(value: Any) -> bool:
    items = children(value)
    if items is not None:
        return any(_has_numbers(item) for item in items)
    return type(value) is TracedArray or is_differentiable(value)


def _takes_written(pullback: Callable[..., Any]) -> bool:
    """Whether a pullback has a second parameter, not counting defaults that bind values: `lambda g, x=x: ...`."""
    try:
        parameters = inspect.signature(pullback).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [
        p
        for p in parameters
        if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty
    ]
    return len(required) >= 2 or any(p.kind is p.VAR_POSITIONAL or p.name == "written" for p in parameters)
