"""Which recording follows an array that is written.

An array that the recorded function made, and that a field holds or `zeros_like` gave, is a constant. Its handle *sleeps*:
it stands on a tape that records nothing, and costs the sweep nothing. The first traced value that is written into it
wakes it up.

The array of an outer recording that is written in an inner one is *borrowed*: its handle stands for a value of the inner
recording until that ends, when `_written_back` returns it.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from ._arrays import ARRAYS, describe, is_differentiable
from ._errors import CheckpointError, InPlaceError
from ._local_readers import refuse_local_reader
from ._shadow import Lent, add_name, check_shadow, detached, first_name, is_entry, is_same_array, places_of
from ._tape import Tape
from ._traced import TracedArray, collect, new_constant, new_traced, note_maker, primal
from ._views import (
    base_of,
    is_fresh,
    join,
    layout_of,
    move_views,
    root_of,
    same_array,
    source_of,
    views_of,
)

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
        note_maker(handle, tape)
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


def leaf_of(array: Any, sleeping: Tape) -> TracedArray | None:
    """The field or argument that holds the same array as a sleeping handle, if there is one."""
    assert sleeping.owner is not None
    owner = sleeping.owner
    if not owner.leaves and not owner.origins:
        return None
    for leaf in places_of(owner).leaves_near(array):
        if id(leaf) in owner.shadowed:
            if owner.shadowed[id(leaf)][1] is array:
                return leaf
        elif leaf._base is None and leaf._value is array and source_of(leaf) is array:
            return leaf
    return next((leaf for leaf, source in owner.origins.values() if source is array), None)


def is_read_within(root: TracedArray) -> bool:
    """Whether an inner recording that goes on has read a sleeping handle, and must hear of a write."""
    tape = root._tape
    tape.detached = [(made, of) for made, of in tape.detached if made() is not None]
    return any(of() is root for _, of in tape.detached)


def wake(root: TracedArray) -> None:
    """Follow a constant array from now on."""
    sleeping = root._tape
    owner = sleeping.owner
    assert owner is not None
    leaf = leaf_of(root._value, sleeping)
    if leaf is not None:
        join(root, root_of(leaf))
        return
    recording = owner.recording and owner.recording()
    if recording is not None:
        refuse_local_reader(root, len(views_of(root)), recording)
    root._tape = owner
    root._node = new_constant(owner, root._value)._node
    owner.leaves[id(root)] = root  # its array gets the contents when the recording commits
    if owner.places is not None:
        owner.places.add_leaf(root)
    move_views(root, sleeping)


# -- arrays of an outer recording, written in an inner one --------------------------------------------------------------


def innermost(value: Any, tape: Tape) -> Tape:
    """The innermost open tape of those that trace `value`, and `tape`."""
    if type(value) is TracedArray:
        if value._tape is tape:
            return tape
    elif not isinstance(value, tuple | list):
        return tape
    found: list[TracedArray] = []
    collect(value, found)
    return max([tape, *(traced._tape for traced in found)], key=lambda tape: tape.serial)


def follower(x: TracedArray, value: Any) -> Tape:
    """The recording that follows the write of `value` into `x`.

    It is the innermost open one of that of `x`, those that trace `value`, and those that know the array by a handle of
    their own, which has to show what was written.
    """
    tape = x._tape
    found = innermost(value, tape)
    inner = tape.inner
    if inner is not None:
        root = root_of(x)
        while inner is not None:
            if inner.serial > found.serial and _inner_leaf(root, inner) is not None:
                found = inner
            inner = inner.inner
    return found


def concerns_inner(x: TracedArray) -> bool:
    """Whether a recording that was opened in that of `x`, and goes on, has to follow what is written, or refuses it."""
    inner = x._tape.inner
    while inner is not None:
        if inner.copies is not None or _inner_leaf(root_of(x), inner) is not None:
            return True
        inner = inner.inner
    return False


def refuse_first_run(x: TracedArray) -> None:
    """Raise if the first run of a checkpointed function, or a recording in it, writes an array from outside of it.

    The second run would write it again.
    """
    inner = (x._tape.owner or x._tape).inner
    while inner is not None:
        if inner.copies is not None and not _is_made_in(root_of(x), inner):
            raise written_by_other_name(describe(primal(x)))
        inner = inner.inner


def _is_made_in(root: TracedArray, inner: Tape) -> bool:
    """Whether a value of an outer recording was computed while an inner one, a first run, was open."""
    tape = root._tape
    if tape.asleep or tape.pushes:
        made: int = getattr(root, "_maker", -1)
        return made >= inner.serial
    return root._node >= inner.outside.get(tape.serial, root._node + 1)


def borrow(root: TracedArray, inner: Tape) -> None:
    """Let a handle of an outer recording stand for a value of the inner one until that ends."""
    leaf = _inner_leaf(root, inner)
    if leaf is None:
        leaf = new_constant(inner, detached(root))
        inner.unclaimed[id(leaf)] = (leaf, leaf._node)
        add_name(leaf, root)
    adopt_names(root_of(leaf))


def _inner_leaf(root: TracedArray, inner: Tape) -> TracedArray | None:
    """The handle by which an inner recording knows the array of a handle, if it has read it from a field or an argument."""
    if not inner.origins:
        return None
    for leaf in places_of(inner).leaves_near(root):
        if id(leaf) in inner.origins and is_same_array(inner.origins[id(leaf)][1], root):
            return leaf
    return None


def adopt_names(root: TracedArray) -> None:
    """Let all handles by which outer recordings know an array be names of the inner handle `root`, which is written.

    The inner function may hold such a handle in a closure, or as an argument that is not differentiated; until the inner
    recording ends it stands for the new contents. Where a field holds a part of an array, the whole of it is refused
    until then.
    """
    inner = root._tape
    source = _origin(root)
    if inner.given is not None:
        # The second run of a checkpointed function could not repeat what the first read by other names.
        _, layer, held = inner.given.get(id(source), (None, None, None))
        source = held if layer is None else _origin(root_of(layer))
    while type(source) is TracedArray and source._tape.all is not None and source._tape is not inner:
        whole, part = root_of(source), first_name(source)
        names = _names_of(whole)
        views = _fresh_views(names)
        origins = [origin for name in names if (origin := _origin(name)) is not None]
        how: Any = refuse_in_checkpoint
        if inner.given is None:
            how = same_array if part is whole else refuse_whole
            _lend_between(root, whole, part, how)
            if part is not whole:
                _lend(part, root, same_array, views)
        for name in names:
            _lend(name, root, how, views)
        source = origins[0] if origins else None


def _lend_between(root: TracedArray, whole: TracedArray, part: TracedArray, how: Any) -> None:
    """Lend the names too that recordings between an outer one and the inner one have for an array of the outer one."""
    inner = root._tape
    between = (whole._tape.owner or whole._tape).inner
    while between is not None and between is not inner:
        for source, its in ((whole, how), (part, same_array)):
            leaf = _inner_leaf(source, between)
            if leaf is None or root_of(leaf)._tape is inner:
                continue
            for name in _names_of(root_of(leaf)):
                _lend(name, root, its, _fresh_views([name]))
        between = between.inner


def _fresh_views(names: list[TracedArray]) -> dict[int, tuple[TracedArray, Any, Any]]:
    """The views of some handles that are up to date, with their values and nodes, by their identity."""
    fresh = [view for name in names for view in views_of(name) if is_fresh(view)]
    return {id(view): (view, view._value, view._node) for view in fresh}


def _origin(root: TracedArray) -> Any:
    """What the array of a field or argument is one level below; None for a value that was computed."""
    tape = root._tape
    notes = tape.shadowed.get(id(root)) or tape.origins.get(id(root))
    return None if notes is None else notes[1]


def _names_of(root: TracedArray) -> list[TracedArray]:
    """All handles of one recording that stand for the same array."""
    tape = root._tape
    found = [root]
    if id(root) in tape.twins:
        found += [twin for reference in tape.twins[id(root)][1] if (twin := reference()) is not None]
    if is_entry(root):
        found += [
            other
            for other in places_of(tape.owner or tape).handles_near(root)
            if base_of(other) is None and is_same_array(source_of(other), source_of(root))
        ]
    return list({id(handle): handle for handle in found if base_of(handle) is None}.values())


def _lend(handle: TracedArray, root: TracedArray, how: Any, views: dict[int, Any]) -> None:
    """Let a handle of an outer recording be another name of the inner handle `root` until the inner recording ends."""
    base = base_of(handle)
    saved = new_traced(handle._tape, handle._node, handle._value)
    lent = Lent(handle, saved, layout_of(handle), base, None if base is None else handle._how, views)
    root._tape.borrowed[id(handle)] = lent
    join(handle, root, how)


def refuse_whole(x: Any) -> NoReturn:
    """How the whole of an array of which a part was written would be made."""
    raise InPlaceError(
        f"{describe(primal(x))} of a field or argument was written in place in a recording, and it is part of an array "
        "that is used by the name which an outer recording has for it, and would show the old contents. Let the field "
        "hold the whole array, and take the part where it is needed."
    )


def refuse_in_checkpoint(x: Any) -> NoReturn:
    """How another name of an array that a checkpointed function has written would be read in it."""
    raise CheckpointError(
        f"a checkpointed function has written in place into {describe(primal(x))} of a field or argument, and reads it by "
        "another name, which an outer recording has for it, so that running it again would read other numbers. Read it "
        "through the field or the argument."
    )


def written_by_other_name(what: str) -> CheckpointError:
    """The error about a checkpointed function that writes a traced array which it was not given."""
    return CheckpointError(
        f"a checkpointed function wrote in place into {what}, which is neither an argument nor in a captured field but in "
        "a closure, a global or a default, so the gradient of what was written would be lost. Pass the array as an "
        "argument, or hold it in a field."
    )
