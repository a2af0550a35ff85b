"""What the first run of a checkpointed function sees, and what it leaves behind.

It sees objects and arrays without the caller's tracing, and runs in a recording of its own, whose tape is thrown away. What
it read and wrote, which arrays it was given and which of them it changed, stays in the frame.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ._adopted import new_array
from ._arrays import ARRAYS, copy_with_strides, is_array, overlap
from ._call import Frame
from ._contents import same_contents
from ._fields import CapturedField, is_captured
from ._overlay import Overlay, Record
from ._read_past import refuse_read_past
from ._recording import Recording
from ._remembered import Remembered
from ._shadow import detached, first_name
from ._structure import Leaf, Lifter, contents, same_parts
from ._tape import Tape
from ._traced import TracedArray, level_of, new_traced, primal, stripped
from ._views import base_of, derive, layout_of, root_of, source_of, views_of


class Inside(Frame):
    """What the first run sees: objects without the caller's tracing. It notes the values that it gives out."""

    def __init__(self, outer: Overlay | None, tape: Tape) -> None:
        super().__init__(outer, tape)
        self.constants: dict[tuple[int, str], Any] = {}  # values of fields without tangent space
        self.remembered = Remembered(self.containers)
        # Arrays that were given out: the array, the handle of the caller's recording, and what the caller has in its place.
        self.arrays: dict[int, tuple[Any, TracedArray | None, Any]] = {}
        # An array that was given out in places that the caller has a handle each for: all of its handles.
        self.ambiguous: dict[int, list[TracedArray]] = {}
        self.rewritten: list[tuple[Any, Any]] = []
        self.copies: dict[int, tuple[Any, Any]] = {}  # plain arrays that the function asked for; see `Tape`
        # Working copies that the function changed: other values in them may be the same Python objects as before.
        self.changed: set[int] = set()
        # What views show, the arrays that they are views of, and how they are made from them.
        self.views: list[tuple[Any, Any, Any]] = []
        arrays, ambiguous = self.arrays, self.ambiguous  # without `self`, which would be a reference cycle
        given = _Given(tape)

        def strip(value: Any) -> tuple[Any, Leaf]:
            layer = level_of(value, tape) if type(value) is TracedArray else None
            lowered = stripped(value, tape)
            if layer is not None and is_array(lowered):
                lowered = given.array_of(layer, lowered)
            described = Leaf(-1 if layer is None else layer._node, lowered)
            if is_array(lowered):
                known = arrays.get(id(lowered))
                if known is not None and first_name(known[1]) is not first_name(layer):
                    handles = ambiguous.setdefault(id(lowered), [])
                    handles += [handle for handle in (known[1], layer) if handle is not None]
                arrays[id(lowered)] = (lowered, layer, value)
                tape.kept.append(
                    described
                )  # if the array is written later, `described` gets a copy of it as it was
            return lowered, described

        self.lifter = Lifter(strip, is_captured, self.containers)

    def handles_of(self, array: Any) -> Sequence[TracedArray]:
        """The handles of an array that has several; a write has made one of them."""
        written = any(each is array for each, _ in self.rewritten)
        return () if written else self.ambiguous.get(id(array), ())

    def constant_of(self, value: Any) -> Any:
        """The array that the function asked for as a plain one, and was given a copy of; the plain run has the array."""
        copied, array = self.copies.get(id(value), (None, None))
        return array if copied is not None and same_contents(copied, array) else None

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        value = super().first_read(obj, field)
        if self.closed:
            return value
        entry = self.records[id(obj)].entries[field.name]
        if type(entry) is not Leaf:
            original = self.remembered.original_of(value)
            if entry is None:
                self.constants[id(obj), field.name] = original
            self.remembered.note(entry, original, f"{type(obj).__name__}.{field.name}")
        return value

    def _touch(self, obj: Any) -> Record:
        if id(obj) not in self.records:
            self.remembered.note_object(obj)
        return super()._touch(obj)


class _Given:
    """The arrays that the function is given for handles of the caller: one for all names of an array."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._made: dict[int, tuple[TracedArray, Any]] = {}  # by the identity of a handle, it and the array

    def array_of(self, layer: TracedArray, shown: Any) -> Any:
        """The array for a handle, which shows `shown`."""
        layer = first_name(layer)
        if id(layer) not in self._made:
            root = root_of(layer)
            if root is not layer:
                shown = _part_of(self.array_of(root, stripped(root, self._tape)), layer, shown)
            if self._tape.shadowed or type(shown) is TracedArray:
                # What was written in place is a compact copy of an array that may have gaps.
                model = layout_of(layer)
                if model.strides != primal(shown).strides:
                    outer = first_name(source_of(layer)) if type(shown) is TracedArray else None
                    shown = _with_strides(shown, model) if outer is None else self._of_outer(outer, shown)
            self._made[id(layer)] = (layer, shown)
        return self._made[id(layer)][1]

    def _of_outer(self, outer: TracedArray, shown: TracedArray) -> Any:
        """The array for a handle of an outer recording, which the caller's stand for."""
        if id(outer) not in self._made:
            whole = root_of(outer)
            if whole is outer:
                made = _with_strides(shown, layout_of(outer))
            else:
                made = derive(self._of_outer(whole, detached(whole)), _way_from_root(outer))
            self._made[id(outer)] = (outer, made)
        return self._made[id(outer)][1]


def _part_of(root: Any, view: TracedArray, shown: Any) -> Any:
    """What a view shows, in the memory of its root: the view of an array that was written may have got a copy."""
    if type(shown) not in ARRAYS or type(root) not in ARRAYS or overlap(shown, root):
        return shown
    return derive(root, _way_from_root(view))


def _with_strides(array: Any, model: Any) -> Any:
    """The same array, traced or not, with the strides of another one."""
    if type(array) is TracedArray:  # by an outer recording
        return new_traced(array._tape, array._node, _with_strides(array._value, model))
    return copy_with_strides(array, model)


def _way_from_root(view: TracedArray) -> Any:
    """How a view is made from its root, as one step."""
    steps: list[Any] = []
    while (base := base_of(view)) is not None:
        steps.append(view._how)
        view = base
    if len(steps) == 1:
        return steps[0]

    def follow(value: Any) -> Any:
        for how in reversed(steps):
            value = derive(value, how)
        return value

    return follow


class FirstRun(Recording):
    """The first run. Its tape is thrown away; arrays that it wrote are handed to the frame."""

    looks_at_arrays = False

    def __init__(self) -> None:
        super().__init__()
        self.tape.copies = {}
        frame: Any = self.outer
        self.tape.given = frame.arrays
        outer: Any = frame
        while outer is not None:
            if isinstance(outer, Recording):
                self.tape.outside[outer.tape.serial] = len(outer.tape.all or ())
            outer = outer.outer

    def has_written(self) -> bool:
        """Whether the function has changed what was there before, of what a recording takes back if it raises."""
        return (
            bool(self.tape.shadowed)
            or any(record.written and not record.born for record in self.log.values())
            or any(made.is_changed() for made in self.containers.by_original.values())
            or any(attributes.is_changed() for attributes in self._attributes())
        )

    def commit(self) -> None:
        frame: Any = self.outer
        if self.tape.shadowed:
            refuse_read_past(self)
        for root, array in list(self.tape.shadowed.values()):
            if type(array) in ARRAYS and id(array) not in frame.arrays and type(root._value) is TracedArray:
                # It was made inside, and an outer recording traces what is in it from now on.
                self.tape.shadowed[id(root)] = (root, new_array(array, root._value))
        for root, array in self.tape.shadowed.values():
            frame.views += [(view._value, array, _way_from_root(view)) for view in views_of(root)]
        # What a view of a written array shows is read before that array gets its contents.
        self.tape.mutable = {}
        for made in self.containers.by_original.values():
            if not same_parts(contents(made.working), made.lifted_before or []):
                frame.changed.add(id(made.original))
        Overlay.commit(self)
        for root, array in self.tape.shadowed.values():
            if id(array) in frame.arrays:
                frame.rewritten.append((array, root._value))
            else:
                array[...] = root._value  # made inside

    def release(self) -> None:
        frame: Any = self.outer
        for view, shown in self.containers.lowered.values():
            if type(view) is TracedArray:
                root = root_of(view)
                if id(root) not in self.tape.shadowed:
                    frame.views.append((shown, source_of(root), _way_from_root(view)))
        super().release()
