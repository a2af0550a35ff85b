"""Arrays written in place, with NumPy's semantics on traced values.

A traced array is a *handle*: what the program holds is the handle, and its value and node are what it stands for now.
Writing in place gives the handle a new node (`SET_ITEM`), so every holder of the handle sees the new value, and what was
computed from the old value keeps the old node. The array of a field or an argument is not touched until the recording
commits; then the same array object receives the final contents.

A *view* is a handle that remembers its base and how it was made. A write through a view rewrites the outermost base,
its *root*, and after any write to a root the live views of it are made again. So a write through a view is seen in the
base and the other way round.

Values stay immutable for the tape: what an entry saved is never overwritten. A root that was written before owns its
buffer, and is written without a copy as long as nobody else refers to it, so a loop that fills T rows costs O(T).
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Final

import numpy as np

from ._arrays import describe, is_array, is_plain_array
from ._errors import InPlaceError, TracedValueError
from ._tape import SET_ITEM, Tape
from ._traced import CLOSED, TracedArray, append, has_open, level_of, lower, new_traced, primal

# Without the interpreter lock a reference count is no proof that nobody else looks.
_COUNTS_REFERENCES: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)()
_ALONE: Final = 2  # the handle's own reference, and the argument of getrefcount


class Again:
    """How a function made a view: called with another value of the base, it makes the view of that."""

    __slots__ = ("function", "kwargs", "number", "rest")

    def __init__(
        self, function: Any, rest: tuple[Any, ...], kwargs: dict[str, Any], number: int = -1
    ) -> None:
        self.function = function
        self.rest = rest
        self.kwargs = kwargs
        self.number = number  # which of several results, or -1

    def __call__(self, base: Any) -> Any:
        made = self.function(base, *self.rest, **self.kwargs)
        return made if self.number < 0 else made[self.number]


def register_view(view: TracedArray, base: TracedArray, how: Any) -> None:
    """Remember that `view` was made from `base`; `how` is an index, or a function of the base's value."""
    view._base = base
    view._how = how
    root = root_of(base)
    view._tape.views.setdefault(id(root), []).append(weakref.ref(view))


def is_view_of(y: Any, x: Any) -> bool:
    """Whether NumPy made `y` as a view of the memory of `x`."""
    y, x = primal(y), primal(x)
    if type(y) is not np.ndarray or type(x) is not np.ndarray or y.base is None:
        return False
    return y.base is x or y.base is x.base


def base_of(x: TracedArray) -> TracedArray | None:
    """The handle that `x` is a view of, or None."""
    try:
        base: TracedArray = _get_base(x)
    except AttributeError:
        return None
    return base


_get_base: Final = TracedArray.__dict__["_base"].__get__


def root_of(x: TracedArray) -> TracedArray:
    """The outermost base of a view; `x` itself if it is none."""
    while (base := base_of(x)) is not None:
        x = base
    return x


def derive(base_value: Any, how: Any) -> Any:
    """The value of a view, made from the value of its base."""
    return how(base_value) if callable(how) else base_value[how]


def assign(x: TracedArray, index: Any, value: Any) -> None:
    """`x[index] = value`."""
    require_writeable(x)
    tape = x._tape
    if tape.entries is None and tape.all is not None:
        # In `pause()` a constant is written, and the rest of the array keeps its gradient.
        value = value if isinstance(value, list | tuple) else primal(value)
        tape.entries = tape.all
        try:
            assign(x, index, value)
        finally:
            tape.entries = None
        return
    if tape.all is None:
        if id(root_of(x)) not in tape.leaf_ids:
            raise InPlaceError(
                f"{describe(primal(x))} was computed in a recording that is closed, whose pullback may still read it. "
                "Write into a copy: `y = mutangent.primal(y)` gives one."
            )
        x._value[lower(index, CLOSED)] = lower(
            value, CLOSED
        )  # the array of a field or argument, a plain one by now
        return
    if type(value) is TracedArray and base_of(value) is x and value._how is index:
        return  # the last step of `x[index] += ...`, which has written through the view already
    if isinstance(value, list | tuple) and has_open(value):
        raise TracedValueError(
            f"x[...] = {type(value).__name__} of traced values would lose their gradient when NumPy makes an array of "
            "them. Write np.stack([...])."
        )
    base = base_of(x)
    if base is None:
        _write_root(x, index, value)
        return
    # Compute what the view becomes, then put all of it where the view lies in its root.
    fresh = x.copy()
    _write_root(fresh, index, value)
    _write_through(x, fresh)


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


def shielded(y: Any) -> Any:
    """A plain view of a traced array's memory, as read-only: a write into it would pass the recording by."""
    if type(y) is np.ndarray and y.base is not None and y.flags.writeable:
        y = y.view()
        y.flags.writeable = False
    return y


def require_writeable(x: TracedArray) -> None:
    """Raise as NumPy does for a read-only array, a broadcast view for example; scalars have no items."""
    plain = primal(x)
    if not is_array(plain):
        raise TypeError(f"{type(plain).__name__!r} object does not support item assignment")
    if isinstance(plain, np.ndarray) and not plain.flags.writeable:
        raise ValueError("assignment destination is read-only")


def _write_root(root: TracedArray, index: Any, value: Any) -> None:
    tape = root._tape
    entries = entries_of(tape)
    layer = level_of(value, tape) if type(value) is TracedArray and tape.entries is not None else None
    lowered = lower(value, tape) if tape.entries is not None else primal(value)
    if tape.shadowed and layer is None:
        check_shadow(tape, lowered)
    lowered_index = _plain(index)
    buffer = _own_buffer(root)
    buffer[lowered_index] = lowered
    saved = (lowered_index, None if layer is None else np.shape(primal(lowered)))
    nodes = (root._node, -1 if layer is None else layer._node)
    written = append(entries, tape, SET_ITEM, nodes, saved, buffer, (lowered,))
    root._value, root._node = buffer, written._node
    del buffer
    _remake_views(root)


def _own_buffer(root: TracedArray) -> Any:
    """An array with the root's contents that nothing else refers to."""
    tape = root._tape
    if id(root) in tape.locked:
        raise InPlaceError(
            f"{describe(primal(root))} is written in place, and a user's rule returned it, or part of it, as its "
            "result, so that two names share memory. Let the rule return a copy."
        )
    if id(root) not in tape.mutable:
        value = root._value
        if id(root) in tape.leaves:
            _shadow(root, value)
        tape.mutable[id(root)] = root
        return value.copy(order="K") if is_plain_array(value) else value.copy()
    if type(root._value) is np.ndarray and _COUNTS_REFERENCES and sys.getrefcount(root._value) <= _ALONE:
        return root._value
    return root._value.copy()


def entries_of(tape: Tape) -> list[Any]:
    """The entries of a tape that is not closed."""
    assert tape.all is not None
    return tape.all


def _shadow(root: TracedArray, array: Any) -> None:
    """The first write to an array that the caller owns: other names of its memory must see it, or be refused."""
    tape = root._tape
    for other in tape.leaves.values():
        if other is root or not is_array(primal(other)):
            continue
        if _source(other) is _source(root):
            # The same array in two fields: from now on one handle's value, seen through both.
            register_view(other, root, Ellipsis)
        elif _overlap(primal(other), primal(array)):
            raise InPlaceError(
                f"{describe(primal(array))} is written in place, and another field or argument holds "
                f"{describe(primal(other))} that shares memory with it. Hold the array once, and make the view where it "
                "is needed."
            )
    for lent in tape.lent.values():
        if _overlap(lent, array):
            raise InPlaceError(
                f"{describe(array)} of a field or argument is written in place, and a user's rule that was called before "
                "may read it in its pullback. Assign a new array to the field: `m.w = m.w + step`."
            )
    tape.shadowed[id(root)] = (root, _source(root))
    for kept in tape.kept:
        if kept.entry is array or _overlap(kept.entry, array):
            kept.entry = kept.entry.copy()
    if type(array) is np.ndarray:
        _replace_saved(entries_of(tape), array, array.copy(order="K"))


def _source(leaf: TracedArray) -> Any:
    """The array, or the outer recording's handle, that a leaf was made of."""
    origin = leaf._tape.origins.get(id(leaf))
    return leaf._value if origin is None else origin[1]


def _replace_saved(entries: list[Any], array: Any, snapshot: Any) -> None:
    """Let the entries so far read a snapshot: the array itself will be overwritten when the recording commits."""

    def swap(saved: Any) -> Any:
        if type(saved) is tuple:
            return tuple([swap(item) for item in saved])
        if saved is array:
            return snapshot
        shares = type(saved) is np.ndarray and saved.base is not None and np.may_share_memory(saved, array)
        return saved.copy() if shares else saved

    for number, (rule, parents, saved, shape, dtype) in enumerate(entries):
        if type(saved) is tuple:
            entries[number] = (rule, parents, swap(saved), shape, dtype)


def settle(x: TracedArray) -> Any:
    """What a traced value of a closed recording is one layer down, for those who keep it.

    The array of a field or argument that was written in place is itself again; a view of an array that was written is
    made as a view of it.
    """
    tape = x._tape
    found = tape.shadowed.get(id(x)) or tape.origins.get(id(x))
    if found is not None:
        return found[1]
    if tape.mutable and id(root_of(x)) in tape.mutable:
        base = base_of(x)
        if base is not None:
            return derive(settle(base), x._how)
    return x._value


def is_entry(root: TracedArray) -> bool:
    """Whether a handle is the array of a field or argument, written in place or not."""
    tape = root._tape
    return id(root) in tape.shadowed or id(root) in tape.origins or id(root) in tape.leaves


def detached(value: Any) -> Any:
    """The same value in an array, or a handle, of its own."""
    if type(value) is TracedArray:
        return new_traced(value._tape, value._node, value._value)
    return value.copy()


def commit_contents(tape: Tape) -> None:
    """Give every array that was written in place its final contents."""
    for root, array in tape.shadowed.values():
        if type(array) is TracedArray:
            assign(array, Ellipsis, root._value)
        else:
            array[...] = root._value


def join_shadow(leaf: TracedArray) -> None:
    """A leaf that is made after a write: if it is an array that was written, it is the same handle's value from now on."""
    tape = leaf._tape
    for root, array in tape.shadowed.values():
        if _source(leaf) is array:
            register_view(leaf, root, Ellipsis)
            now = root[...]
            leaf._value, leaf._node = now._value, now._node
        elif _overlap(primal(_source(leaf)), primal(array)):
            raise InPlaceError(
                f"{describe(primal(array))} was written in place, and another field or argument holds "
                f"{describe(primal(leaf))} that shares memory with it. Hold the array once, and make the view where it is "
                "needed."
            )


def _overlap(a: Any, b: Any) -> bool:
    return (
        isinstance(a, np.ndarray)
        and isinstance(b, np.ndarray)
        and bool(np.may_share_memory(a, b))
        and bool(np.shares_memory(a, b))
    )


def check_shadow(tape: Tape, constant: Any) -> None:
    """Raise if a plain array is read that the recording has written: the plain one still has the old contents."""
    if not isinstance(constant, np.ndarray):
        return
    for _, array in tape.shadowed.values():
        if _overlap(primal(array), constant):
            raise InPlaceError(
                f"{describe(constant)} shares memory with a field or argument that the recording has written in place, "
                "and reading it by another name gives the old contents. Read it through the object's field or the "
                "function's argument."
            )


def _write_through(view: TracedArray, new: TracedArray) -> None:
    """Put the new value of a view where it lies in its root."""
    chain = []
    root = view
    while (base := base_of(root)) is not None:
        chain.append(root._how)
        root = base
    if len(chain) == 1 and not callable(chain[0]):
        _write_root(root, chain[0], new)
        return
    if any(_part_of(how) for how in chain):
        _write_part(view, new)
        return
    # Any other chain rearranges elements. Sending their numbers through it tells where each lies.
    size = 1
    for length in root.shape:
        size *= length
    places = np.arange(size).reshape(root.shape)
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


def _remake_views(root: TracedArray) -> None:
    """Make the live views of a root again, bases first: a view was registered after its base."""
    tape = root._tape
    references = tape.views.get(id(root))
    if not references:
        return
    alive = []
    for reference in tuple(references):  # making a view again registers it
        view = reference()
        if view is None or root_of(view) is not root:
            continue
        alive.append(reference)
        base: Any = base_of(view)
        how = view._how
        made = how(base) if callable(how) else base[how]
        view._value, view._node = made._value, made._node
    # Making them again has registered the stand-ins too; they are gone by now.
    tape.views[id(root)] = alive


def _plain(index: Any) -> Any:
    if type(index) is tuple:
        return tuple(_plain(part) for part in index)
    if type(index) is TracedArray:
        return primal(index)
    if type(index) is np.ndarray:
        return index.copy()
    return list(index) if type(index) is list else index
