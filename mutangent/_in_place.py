"""Arrays written in place, with NumPy's semantics on traced values: how a write is recorded.

A traced array is a *handle*: what the program holds is the handle, and its value and node are what it stands for now.
Writing in place gives the handle a new node (`SET_ITEM`), so every holder of the handle sees the new value, and what was
computed from the old value keeps the old node. A write through a view (`_views`) rewrites its root.

Values stay immutable for the tape: what an entry saved is never overwritten. A root that was written before owns its
buffer, and is written without a copy as long as nobody else refers to it, so a loop that fills T rows costs O(T).

What the first write to an array asks of its other names is in `_shadow`, which recording it belongs to in `_adopted`, and
how its contents get back to where it came from in `_written_back`.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

from ._adopted import (
    adopt_names,
    borrow,
    concerns_inner,
    follower,
    is_read_within,
    leaf_of,
    refuse_first_run,
    wake,
)
from ._arrays import ARRAYS, describe, index_for, is_array, namespace_of
from ._errors import InPlaceError, TracedValueError
from ._flat import few
from ._references import ALONE, COUNTS_REFERENCES
from ._shadow import check_shadow, copy_for_recomputation, entry_of_lent, first_name, shadow
from ._suspended import refuse_outside
from ._tape import SET_ITEM
from ._traced import CLOSED, TracedArray, append, has_open, level_of, lower, new_constant, primal
from ._views import Again, base_of, derive, is_fresh, join, outdate, root_of, same_array, unpaused, views_of


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


def assign(x: TracedArray, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    require_writeable(x)
    tape = x._tape
    if tape.inner is not None or (tape.asleep and tape.owner is not None and tape.owner.inner is not None):
        refuse_first_run(x)
    _assign(x, index, value)


def _assign(x: TracedArray, index: Any, value: Any) -> None:
    tape = x._tape
    if tape.all is None:
        _assign_closed(x, index, value)
        return
    tape.require_thread()
    if type(value) is TracedArray and base_of(value) is x:
        if value._how is index:
            return  # the last step of `x[index] += ...`, which has written through the view already
        if _is_row(index):
            _refuse_swap(x, index, value)
    if type(value) is not TracedArray and isinstance(value, list | tuple) and has_open(value):
        raise TracedValueError(
            f"x[...] = {type(value).__name__} of traced values would lose their gradient when NumPy makes an array of "
            "them. Write np.stack([...])."
        )
    if tape.asleep:
        root = root_of(x)
        if not has_open(value) and leaf_of(root._value, tape) is None and not is_read_within(root):
            if tape.owner is not None and tape.owner.kept:
                copy_for_recomputation(tape.owner, root._value)
            x._value[plain_index(index, x)] = lower(value, CLOSED)
            return
        wake(root)
        _assign(x, index, value)
    elif tape.entries is None:
        if tape.pauses and type(value) is TracedArray:
            refuse_outside(tape.pauses)
        with unpaused(x):  # what is written in `pause()` is a constant
            _assign_open(x, index, lower(value, CLOSED))
    else:
        inner = follower(x, value)
        if inner is not tape:
            borrow(root_of(x), inner)
        _assign_open(x, index, value)


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
    if isinstance(plain, np.ndarray):  # CuPy has no read-only arrays
        if not plain.flags.writeable:
            raise ValueError("assignment destination is read-only")
    elif not is_array(plain):
        raise TypeError(f"{type(plain).__name__!r} object does not support item assignment")


def _refuse_swap(x: TracedArray, index: Any, view: TracedArray) -> None:
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
        held = (
            [each for each in views_of(root_of(x)) if _is_row(each._how) and each._how == index]
            if tape.asleep
            else []
        )
        tape.last_row = (weakref.ref(x), index, view._how, [weakref.ref(each) for each in held])
    if stale:
        i, j = view._how, index
        raise InPlaceError(
            f"the rows {i} and {j} of {describe(primal(x))} were exchanged as views, and both are row {j} now: "
            "`x[i], x[j] = x[j], x[i]` loses a row, and so does rng.shuffle(x) on a traced array. Write "
            "`x[[i, j]] = x[[j, i]]`, or `x[:] = x[rng.permutation(len(x))]` to shuffle."
        )


def _is_row(index: Any) -> bool:
    return type(index) is int or isinstance(index, np.integer)


def _assign_closed(x: TracedArray, index: Any, value: Any) -> None:
    """Write a value of a closed recording: that of a field or argument is a plain array, and others are read only."""
    if id(root_of(x)) not in x._tape.leaf_ids:
        raise InPlaceError(
            f"{describe(primal(x))} was computed in a recording that is closed, whose pullback may still read it. "
            "Write into a copy: `y = mutangent.primal(y)` gives one."
        )
    x._value[lower(index, CLOSED)] = lower(value, CLOSED)


def _assign_open(x: TracedArray, index: Any, value: Any) -> None:
    x = first_name(x)
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


# -- results of elementwise operations, taken without a copy -----------------------------------------------------------


def take_over(x: TracedArray, made: Any) -> bool:
    """Let `x` stand for the result of an elementwise operation that nobody else holds, as `x += y` asks for.

    False where the result does not fit as it is, or something else has to happen; `replace` does it then.
    """
    tape = x._tape
    if (
        x._base is not None
        or (tape.inner is not None and concerns_inner(x))
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
    if (
        x._base is None
        or (tape.inner is not None and concerns_inner(x))
        or tape.entries is None
        or not _is_fresh_like(made, x)
        or not x._value.flags.writeable
    ):
        return False
    _write_through(x, made)
    return True


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


# -- the array that a handle writes ------------------------------------------------------------------------------------


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
    if tape.borrowed and type(lowered) is TracedArray and lowered._tape is tape:
        lowered = entry_of_lent(lowered)  # another name of the array, which has been borrowed for this write
    if type(lowered) is TracedArray and type(buffer) is not TracedArray:
        buffer = new_constant(lowered._tape, buffer)  # what is written is traced by an outer recording
    saved = (lowered_index, shape, few(lowered) if layer is None else None)
    if type(buffer) is TracedArray:
        _assign(buffer, lowered_index, lowered)
    else:
        buffer[lowered_index] = lowered
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
    may_write = type(tangent) is np.ndarray and tangent.base is None and tangent.flags.writeable
    del tangent  # what a local name counts for is not the same in all versions of Python
    entries.reuses = may_write and COUNTS_REFERENCES and sys.getrefcount(root._node) <= ALONE


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
            shadow(root)
            if tape.origins:
                adopt_names(root)
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


# -- through views -----------------------------------------------------------------------------------------------------


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
    if len(chain) == 1 and not callable(chain[0]):
        _write_root(root, chain[0], new)
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
