"""Arrays written in place, with NumPy's semantics on traced values.

A traced array is a *handle*: what the program holds is the handle, and its value and node are what it stands for now.
Writing in place gives the handle a new node (`SET_ITEM`), so every holder of the handle sees the new value, and what was
computed from the old value keeps the old node. A write through a view (`_views`) rewrites its root.

The array of a field or an argument is not touched until the recording commits; then the same array object receives the
final contents. Until then it is *shadowed*: who reads or writes it by another name gets an error, since he would see, or
change, the old contents.

Values stay immutable for the tape: what an entry saved is never overwritten. A root that was written before owns its
buffer, and is written without a copy as long as nobody else refers to it, so a loop that fills T rows costs O(T).

An array that the recorded function made, and that a field holds or `zeros_like` gave, is a constant. Its handle *sleeps*:
it stands on a tape that records nothing, and costs the sweep nothing. The first traced value that is written into it
wakes it up.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ._arrays import (
    ARRAYS,
    copy_with_strides,
    describe,
    index_for,
    is_array,
    is_differentiable,
    is_on_device,
    is_plain_array,
    namespace_of,
    overlap,
)
from ._contents import same_contents
from ._errors import CheckpointError, InPlaceError, TracedValueError
from ._memory import Memory
from ._suspended import refuse_outside
from ._tape import SET_ITEM, Tape
from ._traced import (
    CLOSED,
    TracedArray,
    append,
    collect,
    has_open,
    level_of,
    lower,
    new_constant,
    new_traced,
    primal,
)
from ._views import (
    Again,
    base_of,
    derive,
    is_fresh,
    join,
    layout_of,
    move_views,
    outdate,
    root_of,
    same_array,
    source_of,
    unpaused,
    views_of,
)

# Without the interpreter lock a reference count is no proof that nobody else looks.
COUNTS_REFERENCES: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
ALONE: Final = 2  # the one reference that is known of, and the argument of getrefcount


def plain_index(index: Any, array: Any) -> Any:
    """The index with traced parts made plain, and with copies of arrays that the caller could change later."""
    if type(index) is tuple:
        return tuple([plain_index(part, array) for part in index])
    if type(index) is TracedArray:
        return primal(index)
    if type(index) in ARRAYS:
        index = index.copy()
    elif type(index) is list:
        index = np.array(index) if index else np.array(index, np.intp)
    else:
        return index
    return index_for(primal(array), index)


# -- writing -----------------------------------------------------------------------------------------------------------


def assign(x: TracedArray, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    require_writeable(x)
    tape = x._tape
    if tape.all is None:
        _assign_closed(x, index, value)
        return
    tape.require_thread()
    if type(value) is TracedArray and base_of(value) is x:
        if value._how is index:
            return  # the last step of `x[index] += ...`, which has written through the view already
        if type(index) is int:
            _refuse_swap(x, index, value)
    if type(value) is not TracedArray and isinstance(value, list | tuple) and has_open(value):
        raise TracedValueError(
            f"x[...] = {type(value).__name__} of traced values would lose their gradient when NumPy makes an array of "
            "them. Write np.stack([...])."
        )
    if tape.asleep:
        root = root_of(x)
        if not has_open(value) and _leaf_of(root._value, tape) is None:
            if tape.owner is not None and tape.owner.kept:
                _copy_for_recomputation(tape.owner, root._value)
            x._value[plain_index(index, x)] = lower(value, CLOSED)
            return
        _wake(root, value)
        assign(x, index, value)
    elif tape.entries is None:
        if tape.pauses and type(value) is TracedArray:
            refuse_outside(tape.pauses)
        with unpaused(x):  # what is written in `pause()` is a constant
            _assign_open(x, index, lower(value, CLOSED))
    else:
        inner = _innermost(value, tape)
        if inner is not tape:
            _borrow(root_of(x), inner)
        _assign_open(x, index, value)


def _refuse_swap(x: TracedArray, index: int, view: TracedArray) -> None:
    """Refuse `x[i], x[j] = x[j], x[i]` of rows.

    The rows are views, so that in NumPy too one of them is lost; and `rng.shuffle(x)`, which treats a plain array
    with more care, does just this to any other.
    """
    tape = x._tape
    last, tape.last_row = tape.last_row, None
    if last is not None and last[0]() is x and last[1:3] == (view._how, index):
        # A view that was taken before the other row was written is out of date, or was there for all to see.
        stale = any(each() is view for each in last[3]) if tape.asleep else not is_fresh(view)
    else:
        stale = False
        held = [each for each in views_of(root_of(x)) if each._how is index] if tape.asleep else []
        tape.last_row = (weakref.ref(x), index, view._how, [weakref.ref(each) for each in held])
    if stale:
        i, j = view._how, index
        raise InPlaceError(
            f"the rows {i} and {j} of {describe(primal(x))} were exchanged as views, and both are row {j} now: "
            "`x[i], x[j] = x[j], x[i]` loses a row, and so does rng.shuffle(x) on a traced array. Write "
            "`x[[i, j]] = x[[j, i]]`, or `x[:] = x[rng.permutation(len(x))]` to shuffle."
        )


def _assign_open(x: TracedArray, index: Any, value: Any) -> None:
    if base_of(x) is None:
        _write_root(x, index, value)
        return
    if index is Ellipsis and _is_fresh_like(value, x):
        _write_through(x, value)
        return
    # Compute what the view becomes, then put all of it where the view lies in its root.
    fresh = x.copy()
    _write_root(fresh, index, value)
    _write_through(x, fresh)


def _is_fresh_like(value: Any, x: TracedArray) -> bool:
    """Whether `value` is a traced array of the same recording, shape, dtype and library as `x`, and no view."""
    return (
        type(value) is TracedArray
        and value._tape is x._tape
        and value._base is None
        and type(value._value) is np.ndarray
        and type(x._value) is np.ndarray
        and value._value.dtype is x._value.dtype
        and value._value.shape == x._value.shape
    )


def take_over(x: TracedArray, made: Any) -> bool:
    """Let `x` stand for the result of an elementwise operation that nobody else holds, as `x += y` asks for.

    False where the result does not fit as it is, or something else has to happen; `replace` does it then.
    """
    tape = x._tape
    if (
        x._base is not None
        or type(tape.entries) is not list
        or not _is_fresh_like(made, x)
        or made._value.strides != x._value.strides
        or not x._value.flags.writeable
        or id(x) in tape.locked
        or id(x) in tape.twins
    ):
        return False
    if id(x) not in tape.mutable:
        if id(x) in tape.leaves:
            return False
        tape.mutable[id(x)] = weakref.ref(x, _forgetting(tape.mutable, id(x)))
    x._value, x._node = made._value, made._node
    outdate(x)
    return True


def write_view(x: TracedArray, made: Any) -> bool:
    """Write the result of an elementwise operation where the view `x` lies, as `x[i] += y` asks for.

    False where the result does not fit as it is, or `x` is no view; `replace` does it then.
    """
    tape = x._tape
    if x._base is None or tape.entries is None or not _is_fresh_like(made, x) or not x._value.flags.writeable:
        return False
    _write_through(x, made)
    return True


def _assign_closed(x: TracedArray, index: Any, value: Any) -> None:
    """Write a value of a closed recording: that of a field or argument is a plain array, and others are read only."""
    if id(root_of(x)) not in x._tape.leaf_ids:
        raise InPlaceError(
            f"{describe(primal(x))} was computed in a recording that is closed, whose pullback may still read it. "
            "Write into a copy: `y = mutangent.primal(y)` gives one."
        )
    x._value[lower(index, CLOSED)] = lower(value, CLOSED)


def replace(x: TracedArray, new: Any) -> TracedArray:
    """Give `x` the value `new` as a whole, cast as NumPy's in-place operations cast; return `x`."""
    require_writeable(x)
    if tuple(np.shape(primal(new))) != x.shape:
        raise ValueError(
            f"non-broadcastable output operand with shape {x.shape} doesn't match the broadcast shape "
            f"{np.shape(primal(new))}"
        )
    source = np.asarray(primal(new)).dtype if not is_array(primal(new)) else primal(new).dtype
    if not np.can_cast(source, x.dtype, casting="same_kind"):
        raise TypeError(f"cannot cast the result of an in-place operation from {source} to {x.dtype}")
    assign(x, Ellipsis, new)
    return x


def require_writeable(x: TracedArray) -> None:
    """Raise as NumPy does for a read-only array, a broadcast view for example; scalars have no items."""
    plain = primal(x)
    if type(plain) is np.ndarray and plain.flags.writeable:
        return
    if not is_array(plain):
        raise TypeError(f"{type(plain).__name__!r} object does not support item assignment")
    if isinstance(plain, np.ndarray) and not plain.flags.writeable:
        raise ValueError("assignment destination is read-only")


def _write_root(root: TracedArray, index: Any, value: Any) -> None:
    tape = root._tape
    layer = level_of(value, tape) if type(value) is TracedArray else None
    lowered = lower(value, tape)
    if tape.shadowed and layer is None:
        check_shadow(tape, lowered)
    lowered_index = plain_index(index, root)
    shape = None if layer is None else np.shape(primal(lowered))
    if shape and shape[0] == 1:
        # NumPy takes a value with more axes than there are places, if those in excess have the length 1.
        place = primal(root)[lowered_index]
        excess = len(shape) - np.ndim(place)
        if excess > 0 and is_array(place) and shape[:excess] == (1,) * excess:
            _write_root(root, index, np.reshape(value, shape[excess:]))
            return
    buffer = _own_buffer(root)
    if type(lowered) is TracedArray and type(buffer) is not TracedArray:
        buffer = new_constant(lowered._tape, buffer)  # what is written is traced by an outer recording
    buffer[lowered_index] = lowered
    saved = (lowered_index, shape)
    if tape.pushes:
        _let_reuse_tangent(root)
    nodes = (root._node, -1 if layer is None else layer._node)
    written = append(tape.all, tape, SET_ITEM, nodes, saved, buffer, (lowered,))
    root._value, root._node = buffer, written._node
    del buffer
    outdate(root)


def _let_reuse_tangent(root: TracedArray) -> None:
    """In forward mode the tangent is written in place too, if nobody else refers to it: T writes of a row cost O(T)."""
    outdate(root)  # views of the array hold views of the tangent
    entries: Any = root._tape.all
    tangent: Any = root._node
    entries.reuses = (
        type(tangent) is np.ndarray
        and tangent.base is None
        and tangent.flags.writeable
        and COUNTS_REFERENCES
        and sys.getrefcount(tangent) <= ALONE + 1  # and by the local name
    )


def _own_buffer(root: TracedArray) -> Any:
    """An array with the root's contents that nothing else refers to."""
    tape = root._tape
    if id(root) in tape.locked:
        raise InPlaceError(
            f"{describe(primal(root))} is written in place, and another name shares its memory: a user's rule "
            "or a checkpointed function returned it, or part of it, or a deep copy holds it twice. Use a copy first: "
            "`x = x.copy()`."
        )
    if id(root) not in tape.mutable:
        if id(root) in tape.leaves:
            _shadow(root)
        elif id(root) in tape.twins:
            _join_twins(root)
        # Weak, so that the tape does not keep what the program dropped.
        tape.mutable[id(root)] = weakref.ref(root, _forgetting(tape.mutable, id(root)))
    elif type(root._value) in ARRAYS and COUNTS_REFERENCES and sys.getrefcount(root._value) <= ALONE:
        return root._value
    return root._value.copy(order="K")


def _forgetting(notes: dict[int, Any], key: int) -> Callable[[Any], None]:
    def forget(_: Any) -> None:
        notes.pop(key, None)

    return forget


def note_twins(x: TracedArray, y: TracedArray) -> None:
    """Remember that two traced arrays, results of one call, are one array to the program."""
    twins = x._tape.twins
    together = twins[id(y)][1] if id(y) in twins else []
    for each in (x, y):
        if id(each) not in twins:
            # Weak, so that the tape does not keep what the program dropped.
            twins[id(each)] = (weakref.ref(each, _forgetting(twins, id(each))), together)
            together.append(weakref.ref(each))


def _join_twins(root: TracedArray) -> None:
    """The first write to an array that has several handles: from now on they are one."""
    _, together = root._tape.twins.pop(id(root))
    for reference in together:
        other = reference()
        if other is not None and other is not root:
            root._tape.twins.pop(id(other), None)
            join(other, root)


def _write_through(view: TracedArray, new: TracedArray) -> None:
    """Put the new value of a view where it lies in its root."""
    base = view._base
    if base is not None and base._base is None and not callable(view._how):  # the usual case
        _write_root(base, view._how, new)
        return
    chain = []
    root = view
    while (base := base_of(root)) is not None:
        if root._how is not same_array:
            chain.append(root._how)
        root = base
    if not chain:
        _write_root(root, Ellipsis, new)
        return
    if any(_part_of(how) for how in chain):
        _write_part(view, new)
        return
    if root.shape == ():
        if new.size:  # the one element, in any shape
            _write_root(root, Ellipsis, np.reshape(new, ()))
        return
    # Any other chain rearranges elements. Sending their numbers through it tells where each lies.
    places = namespace_of(primal(root)).arange(root.size).reshape(root.shape)
    for how in reversed(chain):
        places = derive(places, how)
    _write_root(root, np.unravel_index(places, root.shape), new)


def _part_of(how: Any) -> Any:
    """`numpy.real` or `numpy.imag` if the view is such a part of a complex base."""
    return how.function if isinstance(how, Again) and how.function in (np.real, np.imag) else None


def _write_part(view: TracedArray, new: TracedArray) -> None:
    """Write the real or imaginary part of a complex base, and that base in turn."""
    base = base_of(view)
    assert base is not None
    if _part_of(view._how) is np.real:
        whole = new + 1j * np.imag(base)
    elif _part_of(view._how) is np.imag:
        whole = np.real(base) + new * 1j  # type: ignore[operator]
    else:
        whole = base.copy()
        _write_root(whole, view._how, new)
    if base_of(base) is None:
        _write_root(base, Ellipsis, whole)
    else:
        _write_through(base, whole)


# -- arrays of the caller ----------------------------------------------------------------------------------------------


class Places:
    """Where the arrays of one recording lie. It is made at the first write, and kept up from then on."""

    __slots__ = ("_kept", "_known", "_lent", "_sleepers", "leaves")

    def __init__(self, tape: Tape) -> None:
        self.leaves = Memory()
        self._sleepers: Memory | None = None
        self._lent: Memory | None = None
        self._kept: Memory | None = None
        self._known = 0  # how many of those that a recomputation reads are in `_kept`
        for leaf in tape.leaves.values():
            self.leaves.add(_array_of(leaf, tape), leaf)
        sleeping = tape.sleeping
        if sleeping is not None:
            for sleeper in list((sleeping.sleepers or {}).values()):
                self.add_sleeper(_array_of(sleeper, sleeping), sleeper)

    def add_sleeper(self, array: Any, sleeper: TracedArray) -> None:
        """Add the handle of a constant array."""
        self._sleepers = self._sleepers or Memory()
        self._sleepers.add_weakly(array, sleeper)

    def handles_near(self, array: Any) -> list[TracedArray]:
        """Handles of arrays that the recording did not compute, which may overlap one."""
        found: list[TracedArray] = self.leaves.near(array)
        if self._sleepers is not None:
            sleepers = [reference() for reference in self._sleepers.near(array)]
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
            self._kept.add(kept.entry, kept)
        self._known = len(tape.kept)
        return self._kept.near(array)

    def written_near(self, tape: Tape, array: Any) -> list[tuple[TracedArray, Any]]:
        """Handles that were written, with whose their contents will be, of arrays which may overlap one."""
        shadowed = tape.shadowed
        return [shadowed[id(leaf)] for leaf in self.leaves.near(array) if id(leaf) in shadowed]


def _array_of(handle: TracedArray, tape: Tape) -> Any:
    """The array that a handle stands for; None for one that is lent to an inner recording."""
    return handle._value if base_of(handle) is None and handle._tape is tape else None


def _places_of(tape: Tape) -> Places:
    if tape.places is None:
        tape.places = Places(tape)
    places: Places = tape.places
    return places


def _shadow(root: TracedArray) -> None:
    """The first write to an array that the caller owns: other names of its memory must see it, or be refused."""
    tape = root._tape
    array = root._value
    source = source_of(root)
    places = _places_of(tape)
    for other in places.handles_near(array):
        if other is root or base_of(other) is not None or id(other) in tape.shadowed:
            continue  # those that were written before have been compared with this one
        if not is_array(primal(other._value)):
            continue
        if _is_same_array(source_of(other), source):
            join(other, root)
        elif share_memory(other, root):
            raise _shared(array, other)
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
        # The outer recording's handle may stand for this very array at the moment; see `_borrow`.
        lent = [saved for handle, saved in tape.borrowed if handle is source]
        before = lent[0]._node if lent else source._node
    _copy_for_recomputation(tape, array)
    tape.shadowed[id(root)] = (root, source)
    tape.before[id(root)] = before


def _copy_for_recomputation(tape: Tape, array: Any) -> None:
    """Let later recomputations read an array that is about to be written as it was."""
    if not tape.kept:
        return
    copies: dict[int, tuple[Any, Any]] = {}  # one array in two places stays one
    for kept in _places_of(tape).kept_near(tape, array):
        entry = kept.entry
        if id(entry) in copies:
            kept.entry = copies[id(entry)][1]
        elif entry is array or share_memory(entry, array):
            kept.entry = copy_with_strides(entry)
            copies[id(entry)] = (entry, kept.entry)


def _is_same_array(a: Any, b: Any) -> bool:
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
    for root, written in tape.places.written_near(tape, leaf._value):
        if _is_same_array(written, source):
            join(leaf, root)
            return
        if share_memory(leaf, written):
            raise _shared(primal(written), leaf)
    tape.places.leaves.add(leaf._value, leaf)


def add_name(traced: TracedArray, source: Any) -> None:
    """Let a traced array be one more name of an array that the recording did not compute, as a field that holds it is."""
    tape = traced._tape
    tape.origins[id(traced)] = (traced, source)
    tape.leaves[id(traced)] = traced
    if tape.places is not None:
        join_shadow(traced)


def _shared(array: Any, other: TracedArray) -> InPlaceError:
    return InPlaceError(
        f"{describe(array)} is written in place, and another field or argument holds {describe(primal(other))} that shares "
        "memory with it. Hold the array once, and make the view where it is needed."
    )


def settle(x: TracedArray) -> Any:
    """What a traced value of a closed recording is one layer down, for those who keep it.

    The array of a field or argument that was written in place is itself again; a view of an array that was written is
    made as a view of it.
    """
    tape = x._tape
    if id(x) in tape.shadowed or id(x) in tape.origins:
        return source_of(x)
    base = base_of(x)
    if base is not None:
        root = id(root_of(x))
        # The leaf of an outer recording's array stands for it, but has a handle of its own.
        stands_in = root in tape.origins and root not in tape.shadowed
        if x._how is same_array or root in tape.mutable or stands_in:
            return derive(settle(base), x._how)
    return x._value


def is_entry(root: TracedArray) -> bool:
    """Whether a handle is an array that the recording did not compute: of a field or argument, or a constant."""
    tape = root._tape
    return tape.asleep or id(root) in tape.shadowed or id(root) in tape.origins or id(root) in tape.leaves


def detached(value: Any) -> Any:
    """The same value in an array, or a handle, of its own."""
    if type(value) is not TracedArray:
        return value.copy(order="K")
    made = new_traced(value._tape, value._node, value._value)
    value._tape.detached.append(weakref.ref(made))
    return made


def check_contents(tape: Tape) -> None:
    """Raise if an array was written past the recording that is about to overwrite it. Nothing is changed."""
    if not tape.shadowed:
        return
    for root, source in list(tape.shadowed.values()):
        before = tape.before[id(root)]
        if type(source) is TracedArray:
            same = source._node is before or bool(type(before) is int and source._node == before)
        else:
            # On a device to compare would be to wait.
            same = is_on_device(source) or same_contents(source, before)
        if not same:
            raise InPlaceError(
                f"{describe(primal(source))} was written both in the recording, through a field or an argument, and past "
                "it, by another name of the array. Write it through the field or the argument."
            )
        if type(source) is not TracedArray and type(root._value) is TracedArray:
            # An outer recording traces what is in the plain array from now on.
            tape.shadowed[id(root)] = (root, new_array(source, root._value))


def commit_contents(tape: Tape, entries: Any) -> None:
    """Give every array that was written in place its final contents."""
    if not tape.shadowed:
        return
    written = [(source, tape.before[id(root)]) for root, source in tape.shadowed.values()]
    _keep_old(tape, entries, [(array, before) for array, before in written if is_plain_array(array)])
    for root, source in tape.shadowed.values():
        if type(source) is TracedArray:
            assign(source, Ellipsis, root._value)
        else:
            source[...] = root._value


def _keep_old(tape: Tape, entries: Any, written: list[tuple[Any, Any]]) -> None:
    """Let all that was saved for sweeps read copies of arrays that are about to be overwritten."""
    if not written:
        return
    before = {id(array): contents for array, contents in written}
    memory = Memory()
    for array, _ in written:
        memory.add(array, array)
    for number, (rule, parents, saved, shape, dtype) in enumerate(entries):
        if type(saved) is tuple:
            entries[number] = (rule, parents, _old(saved, before, memory), shape, dtype)
    for reference in tape.detached:
        handle = reference()
        if handle is not None:
            handle._value = _old(handle._value, before, memory)


def _old(saved: Any, before: dict[int, Any], memory: Memory) -> Any:
    if type(saved) is tuple:
        return tuple([_old(item, before, memory) for item in saved])
    if type(saved) is dict:
        return {name: _old(item, before, memory) for name, item in saved.items()}
    if type(saved) in ARRAYS:
        if id(saved) in before:
            return before[id(saved)]
        if saved.base is not None and any(overlap(saved, array) for array in memory.near(saved)):
            return saved.copy(order="K")
    return saved


def share_memory(a: Any, b: Any) -> bool:
    """Whether two arrays overlap, traced or not."""
    if type(a) is np.ndarray and type(b) is np.ndarray and a.base is None and b.base is None:
        return a is b
    a, b = layout_of(a), layout_of(b)
    if not (is_plain_array(a) and is_plain_array(b)) or (a.base is None and b.base is None):
        return a is b
    return overlap(a, b)


def check_shadow(tape: Tape, constant: Any) -> None:
    """Raise if an array is read that the recording has written, by its plain name or by that of an outer recording.

    It still has the old contents.
    """
    if not is_plain_array(constant) and type(constant) is not TracedArray:
        return
    if not tape.shadowed:
        return
    for _, source in tape.places.written_near(tape, constant):
        if share_memory(source, constant):
            raise InPlaceError(
                f"{describe(primal(constant))} shares memory with a field or argument that the recording has written in "
                "place, and reading it by another name gives the old contents. Read it through the object's field or the "
                "function's argument."
            )


# -- arrays of an outer recording, written in an inner one --------------------------------------------------------------


def _innermost(value: Any, tape: Tape) -> Tape:
    """The innermost open tape of those that trace `value`, and `tape`."""
    if type(value) is TracedArray:
        if value._tape is tape:
            return tape
    elif not isinstance(value, tuple | list):
        return tape
    found: list[TracedArray] = []
    collect(value, found)
    return max([tape, *(traced._tape for traced in found)], key=lambda tape: tape.serial)


def _borrow(root: TracedArray, inner: Tape) -> None:
    """Let a handle of an outer recording stand for a value of the inner one until that ends."""
    if inner.copies is not None:
        raise written_by_other_name(describe(primal(root)))
    saved = detached(root)
    outer = root._tape
    leaf = next((leaf for leaf in inner.leaves.values() if source_of(leaf) is root), None)
    inner.borrowed.append((root, saved))
    if leaf is not None:
        join(root, root_of(leaf))
        return
    root._tape = inner
    root._value = saved
    root._node = new_constant(inner, saved)._node
    move_views(root, outer)


def written_by_other_name(what: str) -> CheckpointError:
    """The error about a checkpointed function that writes a traced array which it was not given."""
    return CheckpointError(
        f"a checkpointed function wrote in place into {what}, which is neither an argument nor in a captured field but in "
        "a closure, a global or a default, so the gradient of what was written would be lost. Pass the array as an "
        "argument, or hold it in a field."
    )


def give_back(tape: Tape, changed: bool) -> None:
    """Return the borrowed handles, with what was written into them if `changed`."""
    for root, saved in tape.borrowed:
        new = root._value if changed and base_of(root) is None else None
        if changed:
            # Cotangents may be given for them later.
            for handle in (root, *views_of(root)):
                tape.returned[id(handle)] = (handle, handle._node)
        joined = None
        if base_of(root) is not None:
            joined = root_of(root)
            root._base = None
        root._tape, root._node, root._value = saved._tape, saved._node, saved._value
        move_views(root, tape, joined)
        outdate(root)
        if new is not None:
            assign(root, Ellipsis, new)


# -- constant arrays that the program may write ------------------------------------------------------------------------


def constant_array(tape: Tape, array: Any) -> Any:
    """The handle of an array that is a constant until a traced value is written into it."""
    if (
        type(array) not in ARRAYS
        or array.dtype.kind not in "fc"
        or (type(array) is np.ndarray and not array.flags.writeable)
    ):
        return array
    if tape.shadowed:
        for root, source in tape.places.written_near(tape, array):
            if source is array:
                return root
        check_shadow(tape, array)
    sleeping = tape.for_constants()
    assert sleeping.sleepers is not None
    handle = sleeping.sleepers.get(id(array))
    if handle is None:
        handle = sleeping.sleepers[id(array)] = new_traced(sleeping, -1, array)
        if tape.places is not None:
            tape.places.add_sleeper(array, handle)
    return handle


def new_array(y: Any, like: TracedArray) -> Any:
    """The handle of an array that was made like a traced one."""
    layer: Any = like
    while type(layer) is TracedArray and layer._tape.all is None:
        layer = layer._value
    if type(layer) is not TracedArray or not is_differentiable(y):
        return y
    return constant_array(layer._tape.owner or layer._tape, y)


def _leaf_of(array: Any, sleeping: Tape) -> TracedArray | None:
    """The field or argument that holds the same array as a sleeping handle, if there is one."""
    assert sleeping.owner is not None
    owner = sleeping.owner
    if not owner.leaves and not owner.origins:
        return None
    for leaf in _places_of(owner).leaves.near(array):
        if id(leaf) in owner.shadowed:
            if owner.shadowed[id(leaf)][1] is array:
                return leaf  # type: ignore[no-any-return]
        elif leaf._base is None and leaf._value is array and source_of(leaf) is array:
            return leaf  # type: ignore[no-any-return]
    return next((leaf for leaf, source in owner.origins.values() if source is array), None)


def _wake(root: TracedArray, value: Any) -> None:
    """Follow a constant array from now on, because `value` is written into it."""
    sleeping = root._tape
    owner = sleeping.owner
    assert owner is not None
    leaf = _leaf_of(root._value, sleeping)
    if leaf is not None:
        join(root, root_of(leaf))
        return
    # An array that an inner recording fills with its own values is that one's, as long as it goes on.
    tape = _innermost(value, owner)
    root._tape = tape
    root._node = new_constant(tape, root._value)._node
    if tape is owner:
        tape.leaves[id(root)] = root  # its array gets the contents when the recording commits
        if tape.places is not None:
            tape.places.leaves.add(root._value, root)
    move_views(root, sleeping)
