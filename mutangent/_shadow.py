"""Who shares the memory of an array that a recording writes.

The array of a field or an argument is not touched until the recording commits; then the same array object receives the
final contents. Until then it is *shadowed*: its handle holds the new contents, and who reads or writes it by another name
gets an error, since he would see, or change, the old contents. Two handles of one array are joined at the first write;
two arrays that overlap are refused.
"""

from __future__ import annotations

import weakref
from typing import Any, NamedTuple

import numpy as np

from ._arrays import copy_with_strides, describe, is_array, is_plain_array, overlap
from ._errors import InPlaceError
from ._memory import Memory
from ._tape import Tape
from ._traced import TracedArray, new_traced, primal
from ._views import base_of, derive, join, layout_of, root_of, same_array, source_of


class Places:
    """Where the arrays of one recording lie. It is made at the first write, and kept up from then on.

    An array that an outer recording traces lies where it lies in the plain program; see `layout_of`.
    """

    __slots__ = ("_kept", "_known", "_leaves", "_lent", "_sleepers")

    def __init__(self, tape: Tape) -> None:
        self._leaves = Memory()
        self._sleepers: Memory | None = None
        self._lent: Memory | None = None
        self._kept: Memory | None = None
        self._known = 0  # how many of those that a recomputation reads are in `_kept`
        for leaf in tape.leaves.values():
            self.add_leaf(leaf)
        sleeping = tape.sleeping
        if sleeping is not None:
            for sleeper in list((sleeping.sleepers or {}).values()):
                self.add_sleeper(layout_of(sleeper), sleeper)

    def add_leaf(self, leaf: TracedArray) -> None:
        """Add the handle of an array of a field or argument."""
        self._leaves.add(layout_of(leaf), leaf)

    def leaves_near(self, x: Any) -> list[TracedArray]:
        """Handles of arrays of fields and arguments, which may overlap one, traced or not."""
        found: list[TracedArray] = self._leaves.near(layout_of(x))
        return found

    def add_sleeper(self, array: Any, sleeper: TracedArray) -> None:
        """Add the handle of a constant array."""
        self._sleepers = self._sleepers or Memory()
        self._sleepers.add_weakly(array, sleeper)

    def handles_near(self, x: Any) -> list[TracedArray]:
        """Handles of arrays that the recording did not compute, which may overlap one."""
        found = self.leaves_near(x)
        if self._sleepers is not None:
            sleepers = [reference() for reference in self._sleepers.near(layout_of(x))]
            found += [sleeper for sleeper in sleepers if sleeper is not None]
        return found

    def lent_near(self, tape: Tape, array: Any) -> list[Any]:
        """Arrays that users' rules were given, which may overlap one."""
        if tape.lent:
            self._lent = self._lent or Memory()
            for lent in tape.lent.values():
                self._lent.add(lent, lent)
            tape.lent.clear()
        return [] if self._lent is None else self._lent.near(array)

    def kept_near(self, tape: Tape, array: Any) -> list[Any]:
        """Descriptions whose entry value a recomputation reads, of arrays which may overlap one."""
        self._kept = self._kept or Memory()
        for kept in tape.kept[self._known :]:
            if type(kept.entry) is not TracedArray:  # a node of an outer recording stays what it is
                self._kept.add(kept.entry, kept)
        self._known = len(tape.kept)
        return self._kept.near(array)

    def written_near(self, tape: Tape, x: Any) -> list[tuple[TracedArray, Any]]:
        """Handles that were written, with whose their contents will be, of arrays which may overlap one."""
        shadowed = tape.shadowed
        return [shadowed[id(leaf)] for leaf in self.leaves_near(x) if id(leaf) in shadowed]


def places_of(tape: Tape) -> Places:
    """Where the arrays of a recording lie."""
    if tape.places is None:
        tape.places = Places(tape)
    places: Places = tape.places
    return places


# -- the first write to an array ---------------------------------------------------------------------------------------


def shadow(root: TracedArray) -> None:
    """The first write to an array that the caller owns: other names of its memory must see it, or be refused."""
    tape = root._tape
    array = root._value
    source = source_of(root)
    places = places_of(tape)
    for other in places.handles_near(root):
        if other is root or base_of(other) is not None or id(other) in tape.shadowed:
            continue  # those that were written before have been compared with this one
        if not is_array(primal(other._value)):
            continue
        if is_same_array(source_of(other), source):
            join(other, root)
        elif share_memory(other, root):
            raise shared(root, other)
    for lent in places.lent_near(tape, array):
        if share_memory(lent, array):
            raise InPlaceError(
                f"{describe(array)} of a field or argument is written in place, and a user's rule that was called before "
                "may read it in its pullback. Assign a new array to the field: `m.w = m.w + step`."
            )
    if is_plain_array(array):
        before = array.copy(order="K")
        tape.forget_constants(array)
    else:
        # The outer recording's handle may stand for this very array at the moment.
        before = node_below(source, tape)
    copy_for_recomputation(tape, array)
    if not tape.shadowed and tape.recording is not None and (recording := tape.recording()) is not None:
        recording.note_first_write()
    tape.shadowed[id(root)] = (root, source)
    tape.before[id(root)] = before


def shared(root: TracedArray, other: TracedArray) -> InPlaceError:
    place, of_other = (_place_of(handle) for handle in (root, other))
    return InPlaceError(
        f"{describe(primal(root))}{f', of {place},' if place else ''} is written in place, and "
        f"{of_other or 'another field or argument'} holds {describe(primal(other))} that shares memory with it. Hold the "
        "array once, and make the view where it is needed."
    )


def _place_of(handle: TracedArray) -> str | None:
    """The field from which a recording has read a handle."""
    recording = handle._tape.recording and handle._tape.recording()
    return recording.place_of(handle) if recording is not None else None


def copy_for_recomputation(tape: Tape, array: Any) -> None:
    """Let later recomputations read an array that is about to be written as it was."""
    if not tape.kept:
        return
    copies: dict[int, tuple[Any, Any]] = {}  # one array in two places stays one
    for kept in places_of(tape).kept_near(tape, array):
        entry = kept.entry
        if id(entry) in copies:
            kept.entry = copies[id(entry)][1]
        elif entry is array or share_memory(entry, array):
            kept.entry = copy_with_strides(entry)
            copies[id(entry)] = (entry, kept.entry)


def check_shadow(tape: Tape, constant: Any) -> None:
    """Raise if an array is read that the recording has written, by its plain name or by that of an outer recording.

    It still has the old contents.
    """
    if not is_plain_array(constant) and type(constant) is not TracedArray:
        return
    if not tape.shadowed or is_detached(constant):
        return
    for _, source in tape.places.written_near(tape, constant):
        if share_memory(source, constant):
            raise InPlaceError(
                f"{describe(primal(constant))} shares memory with a field or argument that the recording has written in "
                "place, and reading it by another name gives the old contents. Read it through the object's field or the "
                "function's argument."
            )


def share_memory(a: Any, b: Any) -> bool:
    """Whether two arrays overlap, traced or not."""
    if type(a) is np.ndarray and type(b) is np.ndarray and a.base is None and b.base is None:
        return a is b
    a, b = layout_of(a), layout_of(b)
    if not (is_plain_array(a) and is_plain_array(b)) or (a.base is None and b.base is None):
        return a is b
    return overlap(a, b)


# -- names of an array -------------------------------------------------------------------------------------------------


def is_same_array(a: Any, b: Any) -> bool:
    """Whether two sources are one array; an outer recording may have a handle of it for each field that holds it."""
    a, b = first_name(a), first_name(b)
    if a is b:
        return True
    if type(a) is not TracedArray or type(b) is not TracedArray:
        return False
    return base_of(a) is None and base_of(b) is None and layout_of(a) is layout_of(b)


def first_name(x: Any) -> Any:
    """The handle of which `x` is only another name."""
    while type(x) is TracedArray and base_of(x) is not None and x._how is same_array:
        x = base_of(x)
    return x


def join_shadow(leaf: TracedArray) -> None:
    """A leaf that is made after a write: if it is an array that was written, it is another name of the same handle."""
    source = source_of(leaf)
    tape = leaf._tape
    for root, written in tape.places.written_near(tape, leaf):
        if is_same_array(written, source):
            join(leaf, root)
            return
        if share_memory(leaf, written):
            raise shared(root, leaf)
    tape.places.add_leaf(leaf)


def add_name(traced: TracedArray, source: Any) -> None:
    """Let a traced array be one more name of an array that the recording did not compute, as a field that holds it is."""
    tape = traced._tape
    tape.origins[id(traced)] = (traced, source)
    tape.leaves[id(traced)] = traced
    if tape.places is not None:
        join_shadow(traced)


def is_entry(root: TracedArray) -> bool:
    """Whether a handle is an array that the recording did not compute: of a field or argument, or a constant."""
    tape = root._tape
    return tape.asleep or id(root) in tape.shadowed or id(root) in tape.origins or id(root) in tape.leaves


def detached(value: Any) -> Any:
    """The same value in an array, or a handle, of its own, which stays what it is."""
    if type(value) is not TracedArray:
        return value.copy(order="K")
    tape = value._tape
    if tape.asleep:  # its array may be written
        made = new_traced(tape, -1, value._value.copy(order="K"))
        tape.detached.append((weakref.ref(made), weakref.ref(root_of(value))))
    else:
        made = new_traced(tape, value._node, value._value)
        tape.detached.append(weakref.ref(made))
    made._how = detached
    return made


def is_detached(x: Any) -> bool:
    """Whether a handle stands for what an array was at one time."""
    return type(x) is TracedArray and base_of(x) is None and getattr(x, "_how", None) is detached


# -- handles that are lent to an inner recording; see `_adopted` ---------------------------------------------------------


class Lent(NamedTuple):
    """A handle of an outer recording that an inner one has borrowed, and what it is there."""

    handle: TracedArray
    saved: TracedArray  # with its value and node
    layout: Any  # see `layout_of`
    base: TracedArray | None
    how: Any
    views: dict[int, tuple[TracedArray, Any, Any]]  # of the handle: their values and nodes, by their identity


def node_below(source: TracedArray, tape: Tape) -> Any:
    """The node that an outer recording's handle has there, also while it is lent to `tape`."""
    entry = entry_of_lent(source) if source._tape is tape else None
    return source._node if entry is None else entry._node


def entry_of_lent(x: TracedArray) -> TracedArray | None:
    """What a handle that is lent, or a view of one, stood for before; None if `x` is the inner recording's own."""
    borrowed = x._tape.borrowed
    if id(x) in borrowed:
        saved: TracedArray = borrowed[id(x)].saved
        return saved
    steps = []
    base: TracedArray | None = x
    while base is not None and id(base) not in borrowed:
        steps.append(base._how if base_of(base) is not None else None)
        base = base_of(base)
    if base is None:
        return None
    lent = borrowed[id(base)]
    if id(x) not in lent.views:
        entry = lent.saved
        for how in reversed(steps):
            entry = derive(entry, how)
        lent.views[id(x)] = (x, entry._value, entry._node)
    _, value, node = lent.views[id(x)]
    return new_traced(lent.saved._tape, node, value)
