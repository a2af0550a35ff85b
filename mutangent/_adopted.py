"""Which recording follows an array that is written.

An array that the recorded function made, and that a field holds or `zeros_like` gave, is a constant. Its handle *sleeps*:
it stands on a tape that records nothing, and costs the sweep nothing. The first traced value that is written into it
wakes it up.

The array of an outer recording that is written in an inner one is *borrowed*: its handle stands for a value of the inner
recording until that ends, when `_written_back` returns it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._arrays import ARRAYS, describe, is_differentiable
from ._errors import CheckpointError
from ._shadow import check_shadow, detached, places_of
from ._tape import Tape
from ._traced import TracedArray, collect, new_constant, new_traced, primal
from ._views import join, move_views, root_of, source_of

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


def leaf_of(array: Any, sleeping: Tape) -> TracedArray | None:
    """The field or argument that holds the same array as a sleeping handle, if there is one."""
    assert sleeping.owner is not None
    owner = sleeping.owner
    if not owner.leaves and not owner.origins:
        return None
    for leaf in places_of(owner).leaves.near(array):
        if id(leaf) in owner.shadowed:
            if owner.shadowed[id(leaf)][1] is array:
                return leaf  # type: ignore[no-any-return]
        elif leaf._base is None and leaf._value is array and source_of(leaf) is array:
            return leaf  # type: ignore[no-any-return]
    return next((leaf for leaf, source in owner.origins.values() if source is array), None)


def wake(root: TracedArray, value: Any) -> None:
    """Follow a constant array from now on, because `value` is written into it."""
    sleeping = root._tape
    owner = sleeping.owner
    assert owner is not None
    leaf = leaf_of(root._value, sleeping)
    if leaf is not None:
        join(root, root_of(leaf))
        return
    # An array that an inner recording fills with its own values is that one's, as long as it goes on.
    tape = innermost(value, owner)
    root._tape = tape
    root._node = new_constant(tape, root._value)._node
    if tape is owner:
        tape.leaves[id(root)] = root  # its array gets the contents when the recording commits
        if tape.places is not None:
            tape.places.leaves.add(root._value, root)
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


def borrow(root: TracedArray, inner: Tape) -> None:
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
