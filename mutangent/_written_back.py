"""How what a recording wrote into arrays gets back to where they came from, when it ends.

The array of a field or an argument gets its final contents (what was saved for sweeps, and refers to it, gets a copy of it
as it was), and the handle that was borrowed from an outer recording stands for a value of that one again.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

from ._adopted import new_array
from ._arrays import ARRAYS, describe, is_on_device, is_plain_array, overlap
from ._contents import same_contents
from ._errors import InPlaceError
from ._in_place import assign
from ._memory import Memory
from ._tape import Tape, is_same_node
from ._traced import TracedArray, primal
from ._views import base_of, derive, forget_value, is_fresh, root_of, same_array, source_of, views_of


def check_contents(tape: Tape) -> None:
    """Raise if an array was written past the recording that is about to overwrite it. Nothing is changed."""
    if not tape.shadowed:
        return
    for root, source in list(tape.shadowed.values()):
        before = tape.before[id(root)]
        if type(source) is TracedArray:
            same = is_same_node(source._node, before)
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
            handle = new_array(source, root._value)
            tape.shadowed[id(root)] = (root, handle)
            if type(handle) is TracedArray:
                follower = handle._tape.owner or handle._tape
                follower.handed_on = {**(follower.handed_on or {}), id(source): source}


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


def give_back(tape: Tape, changed: bool) -> None:
    """Return the borrowed handles as they were, with their views; what was written is committed like other contents.

    If it is (`changed`), their last nodes are remembered, since cotangents may be given for them later.
    """
    if not tape.borrowed:
        return
    through = _views_by_handle(tape)
    borrowed = [(lent, through[key]) for key, lent in tape.borrowed.items()]
    if changed:
        for lent, views in borrowed:
            for handle in (lent.handle, *views):
                refused = lent.handle._how is not same_array
                tape.returned[id(handle)] = (handle, None if refused else handle._node)
    _take_away(tape, [handle for lent, views in borrowed for handle in (lent.handle, *views)])
    for lent, _ in reversed(borrowed):
        handle, saved = lent.handle, lent.saved
        handle._base, handle._how = lent.base, lent.how
        handle._tape, handle._node, handle._value = saved._tape, saved._node, saved._value
    for lent, views in borrowed:
        outer = lent.saved._tape
        for view in views:
            root = root_of(view)
            view._tape = outer
            _, value, node = lent.views.get(id(view), (view, None, None))
            if value is None:
                forget_value(view, root)
            else:
                view._value, view._node = value, node
        fresh = [
            weakref.ref(view)
            for view in (*views, lent.handle)
            if base_of(view) is not None and is_fresh(view)
        ]
        outer.views.setdefault(id(root_of(lent.handle)), []).extend(fresh)


def _views_by_handle(tape: Tape) -> dict[int, list[TracedArray]]:
    """The views that are made from each handle that is lent, by the identity of the handle."""
    borrowed = tape.borrowed
    found: dict[int, list[TracedArray]] = {key: [] for key in borrowed}
    roots = {id(root): root for root in [root_of(lent.handle) for lent in borrowed.values()]}
    for root in roots.values():
        for view in views_of(root):
            base = base_of(view)
            while base is not None and id(base) not in borrowed:
                base = base_of(base)
            if base is not None:
                found[id(base)].append(view)
    return found


def _take_away(tape: Tape, handles: Sequence[TracedArray]) -> None:
    """Take handles from among the views of the tape."""
    taken = set(map(id, handles))
    for root in {id(root): root for root in map(root_of, handles)}.values():
        tape.views[id(root)] = [ref for ref in tape.views.get(id(root), []) if id(ref()) not in taken]
    if tape.stale is not None:
        for handle in handles:
            tape.stale.remove(handle, root_of(handle))


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
