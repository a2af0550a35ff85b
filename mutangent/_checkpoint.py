"""Recomputation in the backward pass, for functions that mutate objects too.

Theory of operation. The function runs once, in a recording of its own that is thrown away. What stays on the caller's
tape is one entry, with the values that the function's arguments and the fields it read had on entry. In the sweep the
function runs again over those values: an overlay shows the objects as they were, takes up what is written, and is
dropped, so no object changes a second time. Random generators are set to the state they had and put back afterwards.
The tangents of the second run are contributions to what the first one had read.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ._adopted import written_by_other_name
from ._arrays import (
    ARRAYS,
    copy_with_strides,
    describe,
    is_array,
    is_plain_array,
    namespace_of,
    overlap,
    spec_of,
)
from ._call import Frame, open_tape
from ._contents import same_contents
from ._errors import CheckpointError
from ._fields import CapturedField, current, enter, is_captured, leave
from ._identity import IdentityMap
from ._in_place import assign, note_twins
from ._overlay import Overlay, Unread
from ._recording import Recording, match
from ._shadow import add_name, first_name, is_entry
from ._structure import (
    Child,
    Containers,
    Description,
    Group,
    Leaf,
    Lifter,
    Lowerer,
    contents,
    is_followed_as_whole,
    refill,
    same_parts,
)
from ._tangent import NONE, ZERO, Tangent, children, rebuild
from ._tape import CALL, SET_ITEM, UNPACK, Tape
from ._traced import TracedArray, append, append_call, level_of, lower, primal
from ._views import base_of, derive, layout_of, register_view, root_of, source_of, views_of


def checkpoint(function: Callable[..., Any]) -> Callable[..., Any]:
    """Trade time for memory: keep what goes into a call, and recompute the rest in the backward pass.

    Parameters
    ----------
    function : callable
        Any function, also one that reads and writes captured objects, among its arguments or not.

    Returns
    -------
    callable
        The same function. In a recording the intermediate values of its calls are not kept.

    Notes
    -----
    The function is called a second time for a gradient. Captured objects do not notice; printing and other effects
    outside of captured objects happen twice. `numpy.random` generators in fields and arguments draw the same numbers again.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Counter:
    ...     n: int = 0
    >>> @mt.checkpoint
    ... def step(c, x):
    ...     c.n += 1
    ...     return np.sin(x * c.n)
    >>> c = Counter()
    >>> round(float(mt.grad(step, argnums=1)(c, 0.3)), 6), c.n
    (0.955336, 1)
    """

    @functools.wraps(function)
    def checkpointed(*args: Any, **kwargs: Any) -> Any:
        tape = open_tape()
        if tape is None or type(tape.entries) is not list:  # forward mode keeps nothing anyway
            return function(*args, **kwargs)
        return _Segment(tape, function).record(args, kwargs)

    return checkpointed


def checkpoint_sequence(
    step: Callable[[Any], Any], xs: Sequence[Any], segments: int | None = None
) -> list[Any]:
    """Call a step for each item of a sequence, with memory for the square root of its length.

    Parameters
    ----------
    step : callable
        Takes one item; its state is in captured objects, which it may write.
    xs : sequence
        The items.
    segments : int, optional
        How many parts of the sequence are recomputed one at a time; the rounded square root of its length by default.

    Returns
    -------
    list
        The results of all steps.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Sum:
    ...     total: float = 0.0
    ...
    ...     def add(self, x):
    ...         self.total = self.total * 0.5 + x
    ...         return self.total
    >>> s = Sum()
    >>> mt.grad(lambda s: mt.checkpoint_sequence(s.add, [1.0, 2.0, 3.0])[-1])(s)
    Tangent[Sum](total=0.125)
    """
    count = len(xs)
    if segments is None:
        segments = max(1, round(math.sqrt(count)))
    if segments < 1:
        raise ValueError(f"segments must be at least 1, and it is {segments}")
    length = max(1, math.ceil(count / segments))

    @checkpoint
    def segment(items: Sequence[Any]) -> list[Any]:
        return [step(x) for x in items]

    results: list[Any] = []
    for start in range(0, count, length):
        results += segment(xs[start : start + length])
    return results


class _Inside(Frame):
    """What the first run sees: objects without the caller's tracing. It notes the values that it gives out."""

    def __init__(self, outer: Overlay | None, tape: Tape) -> None:
        super().__init__(outer, tape)
        self.constants: dict[tuple[int, str], Any] = {}
        # Those among the arguments: by the identity of a group, it and, by position, what the function may change.
        self.given_constants: dict[int, tuple[Group, dict[int, Any]]] = {}
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
        parts: dict[int, tuple[TracedArray, Any]] = {}

        def strip(value: Any) -> tuple[Any, Leaf]:
            layer = level_of(value, tape) if type(value) is TracedArray else None
            lowered = lower(value, tape)
            if layer is not None and base_of(layer) is not None:
                lowered = parts.setdefault(id(layer), (layer, _part_of_root(layer, lowered)))[1]
            elif layer is not None and tape.shadowed and is_plain_array(lowered):
                # What was written in place is a compact copy of an array that may have gaps.
                model = layout_of(layer)
                if model.strides != lowered.strides:
                    made = copy_with_strides(lowered, model)
                    lowered = parts.setdefault(id(layer), (layer, made))[1]
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
        if self.records[id(obj)].entries[field.name] is None:
            self.constants[id(obj), field.name] = _remembered(value)
        return value

    def remember_constants(self, arguments: Description) -> None:
        """Note what the arguments hold without tangent space that the function may change: sets, small integer arrays."""
        pending = [arguments]
        while pending:
            group = pending.pop()
            if type(group) is not Group or id(group) in self.given_constants:
                continue
            held = {
                place: _remembered(value)
                for place, (item, value) in enumerate(zip(group.items, _values_of(group), strict=True))
                if item is None and (isinstance(value, set | bytearray) or is_followed_as_whole(value))
            }
            self.given_constants[id(group)] = (group, held)
            pending += group.items


def _values_of(group: Group) -> list[Any]:
    return list(group.model.values()) if isinstance(group.model, dict) else list(group.model)


def _part_of_root(view: TracedArray, shown: Any) -> Any:
    """What a view shows, in the memory of its root: the view of an array that was written may have got a copy."""
    root = root_of(view)._value
    if type(shown) not in ARRAYS or type(root) not in ARRAYS or overlap(shown, root):
        return shown
    return derive(root, _way_from_root(view))


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


class _FirstRun(Recording):
    """The first run. Its tape is thrown away; arrays that it wrote are handed to the frame."""

    looks_at_arrays = False

    def __init__(self) -> None:
        super().__init__()
        self.tape.copies = {}

    def commit(self) -> None:
        frame: Any = self.outer
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


class _SecondRun(Recording):
    """The second run, which leaves nothing behind."""

    looks_at_arrays = False

    def commit(self) -> None:
        self.restore_attributes()


class _Replay(Overlay):
    """Shows objects as they were when the first run read them."""

    def __init__(self, inside: _Inside) -> None:
        super().__init__(current())
        self._inside = inside
        self.models: dict[int, Any] = {}
        made = inside.containers.by_original.values()
        self._originals = {id(each.description): each.original for each in made}

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        record = self._inside.log.get(id(obj))
        if record is None or field.name not in record.entries:
            return self._below(obj, field)
        entry = record.entries[field.name]
        if entry is None:
            return _again(self._inside.constants[id(obj), field.name])
        if type(entry) is Unread:
            return entry.value
        return self.value_of(entry, None)

    def value_of(self, description: Description, otherwise: Any) -> Any:
        """The entry value of a description; `otherwise` for one that has no tangent space."""
        if type(description) is Leaf:
            return description.entry
        if type(description) is Child:
            return description.primal
        if type(description) is not Group:
            return otherwise
        known = self.models.get(id(description))
        if known is None:
            before = _values_of(description)
            for place, value in self._inside.given_constants.get(id(description), (None, {}))[1].items():
                before[place] = _again(value)
            items = [
                self.value_of(item, value) for item, value in zip(description.items, before, strict=True)
            ]
            rebuilt = rebuild(description.model, items)
            known = self.models[id(description)] = self._like_original(description, rebuilt)
        return known

    def _like_original(self, description: Description, rebuilt: Any) -> Any:
        """A deque, or an instance of a subclass, like the one that the first run was shown."""
        original = self._originals.get(id(description))
        if original is None or type(original) is type(rebuilt):
            return rebuilt
        made = copy.copy(original)
        refill(made, rebuilt)
        return made


class _ResultLifter(Lifter):
    """Lifts what the first run left behind. A tuple that it was given is no new one, and one in two places stays one."""

    __slots__ = ("given", "known")

    def __init__(
        self,
        leaf: Callable[[Any], tuple[Any, Leaf]],
        containers: Containers,
        given: dict[int, tuple[Any, Any]],
    ) -> None:
        super().__init__(leaf, is_captured, containers)
        self.given = given  # by the identity of a tuple, it and what the caller has in its place
        self.known: dict[int, tuple[Any, tuple[Any, Description]]] = {}

    def lift(self, value: Any, where: str) -> tuple[Any, Description]:
        """The lifted value and its description; None describes what has its cotangent elsewhere."""
        if not isinstance(value, tuple):
            return super().lift(value, where)
        if id(value) in self.given:
            return self.given[id(value)][1], None
        known = self.known.get(id(value))
        if known is None:
            known = self.known[id(value)] = (value, super().lift(value, where))
        return known[1]


class _Segment:
    """One checkpointed call."""

    def __init__(self, tape: Tape, function: Callable[..., Any]) -> None:
        self.tape = tape
        self.function = function
        self.inside = _Inside(current(), tape)
        self.given: Any = None
        self.arguments: Description = None
        self.generators: list[tuple[Any, Any]] = []
        self.value: Description = None
        self.written: list[tuple[Any, str, Description]] = []
        self.containers: list[tuple[Description, dict[Any, Description]]] = []
        self.rewritten: list[tuple[Leaf, int]] = []
        self.sums: dict[int, Any] = {}  # of the contents that arrays were given, by the number of the result
        self.first = len(tape.kept)  # of the descriptions that this call keeps

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function, put the call on the tape, commit what it wrote, and return its traced value."""
        inside = self.inside
        self.given, self.arguments = inside.lifter.lift(
            (args, kwargs), "the arguments of a checkpointed function"
        )
        inside.remember_constants(self.arguments)
        self.generators = [(g, _state(g)) for g in _generators((args, kwargs))]
        first_new = len(self.tape.all or ())
        before = enter(inside)
        try:
            with _FirstRun() as first:
                lifted = first.lift(self.given, "the arguments")[0]
                result = self.function(*lifted[0], **lifted[1])
            result = first.lower(result)
            inside.copies = first.tape.copies or {}
            first.tape.discarded = True
        finally:
            leave(before)
        inside.close()
        self._refuse_writes_by_other_names(first_new)
        return self._append(result)

    def _append(self, result: Any) -> Any:
        entries: Any = self.tape.entries
        self._refuse_writes_into_plain_arrays()
        call = append_call(entries, self.tape, CALL, -1, self.pull)
        count = 0
        outputs: dict[int, tuple[Any, TracedArray, Leaf]] = {}

        def output(value: Any) -> tuple[Any, Leaf]:
            nonlocal count
            if id(value) in outputs:  # one array in two places stays one
                return outputs[id(value)][1:]
            self._refuse_traced(value)
            constant = self.inside.constant_of(value)
            if constant is not None:
                return constant, Leaf(-1, constant)
            known = self.inside.arrays.get(id(value))
            handles = self.inside.handles_of(value)
            if known is not None and not handles:
                # An array that the function was given is no new one, written or not.
                return known[2] if known[1] is None else known[1], Leaf(-1, value)
            traced = append(entries, self.tape, UNPACK, call, count, value)
            count += 1
            described = Leaf(count - 1, value)
            if handles:
                self._tie(traced, described, handles)
            elif is_array(value):
                outputs[id(value)] = (value, traced, described)
            return traced, described

        lifter = _ResultLifter(output, _keeping(self.inside.containers), self.inside.containers.tuples)
        traced, self.value = lifter.lift(result, "the result of a checkpointed function")
        for record, name in list(self.inside.written()):
            record.values[name], description = lifter.lift(
                record.values[name], f"{type(record.obj).__name__}.{name}"
            )
            self.written.append((record.obj, name, description))
        self._append_items(lifter)
        views = self._views_among(outputs)
        self._lock_views(outputs, {key: id(array) for key, (array, _) in views.items()})
        self.inside.commit()
        self._hand_over_arrays(output)
        for key, (array, how) in views.items():
            _, view, leaf = outputs[key]
            base = outputs[id(array)][1] if id(array) in outputs else self._handle_of(array)
            register_view(view, base, how)
            # The array may be written before the second run is compared with this one.
            self.tape.kept.append(leaf)
        self.inside.outer = None
        # A list of a field that was returned is, to the caller, the one in the field.
        lowered = Lowerer(self.inside.containers).lower(traced)
        self.inside.containers.forget_tuples()
        return lowered

    def _append_items(self, lifter: Lifter) -> None:
        """Make every number in the containers that the function changed a result, whether it is a new one or not."""
        for made in self.inside.containers.by_original.values():
            if id(made.working) in self.inside.changed and isinstance(made.working, list | dict | deque):
                described = {}
                put: Any = dict.__setitem__ if isinstance(made.working, dict) else operator.setitem
                items = made.working.items() if isinstance(made.working, dict) else enumerate(made.working)
                for key, item in list(items):
                    lifted, described[key] = lifter.lift(item, "an item")
                    put(made.working, key, lifted)
                self.containers.append((made.description, described))

    def _tie(self, traced: TracedArray, described: Leaf, handles: Sequence[TracedArray]) -> None:
        """Let `traced` stand for an array of several handles, which is one array as soon as it is written.

        Which of the handles it is, only the second run knows; what is left behind is the very array all the same.
        """
        root = root_of(handles[0])
        if first_name(handles[0]) is not root:  # parts of an array are not tied
            self.tape.locked.update({id(handle): handle for handle in (traced, *handles)})
        elif is_entry(root):
            self.tape.kept.append(described)  # its array may be written before the second run
            add_name(traced, source_of(root))
        else:
            note_twins(traced, root)

    def _hand_over_arrays(self, output: Callable[[Any], tuple[Any, Leaf]]) -> None:
        """Write what the function left in the arrays that it was given, as results of the call."""
        for array, final in self.inside.rewritten:
            new, leaf = output(final)
            self.rewritten += [
                (kept, leaf.node) for kept in self.tape.kept[self.first :] if kept.entry is array
            ]
            self.sums[leaf.node] = _sums(final)
            assign(self._handle_of(array), Ellipsis, new)

    def _handle_of(self, array: Any) -> Any:
        """What the caller has in the place of an array that the function was given."""
        _, layer, held = self.inside.arrays[id(array)]
        return held if layer is None else layer

    def _refuse_writes_into_plain_arrays(self) -> None:
        for array, _ in self.inside.rewritten:
            original, layer, held = self.inside.arrays[id(array)]
            if layer is None and type(held) is not TracedArray:
                raise CheckpointError(
                    f"a checkpointed function wrote into {describe(original)}, which the recording does not follow, so "
                    "that the gradient of what was written would be lost. Hold the array in a field, or make it with "
                    "np.zeros_like(x)."
                )

    def _refuse_traced(self, value: Any) -> None:
        """A result that the caller traces: the function has used a value that it was not given."""
        if type(value) is TracedArray and level_of(value, self.tape) is not None:
            raise CheckpointError(
                f"a checkpointed function used {describe(primal(value))}, a traced value that is neither an argument "
                "nor in a captured field but in a closure, a global or a default, or a result that was computed with "
                "one, so the gradient of that value would be lost. Pass it as an argument, or hold it in a field."
            )

    def _refuse_writes_by_other_names(self, first_new: int) -> None:
        """A traced array of a closure that the function wrote: the second run could not write it again."""
        for rule, _, _, shape, dtype in (self.tape.all or [])[first_new:]:
            if rule is SET_ITEM:
                raise written_by_other_name(f"an array of shape {shape} and dtype {dtype}")

    def _views_among(self, outputs: dict[int, tuple[Any, TracedArray, Leaf]]) -> dict[int, tuple[Any, Any]]:
        """The results that stay views of a given array or of another result: that array, and how they are made."""
        found = {}
        parts: dict[int, TracedArray] = {}  # of arrays that were dropped
        for value, array, how in self.inside.views:
            if id(value) in outputs and value is not array:
                if id(array) in self.inside.arrays:
                    known = type(self._handle_of(array)) is TracedArray
                else:
                    known = id(array) in outputs
                if known:
                    found[id(value)] = (array, how)
                    continue
                part = outputs[id(value)][1]
                other = parts.setdefault(id(array), part)
                if other is not part:  # the two may be copies, and are to be one memory
                    self.tape.locked.update({id(part): part, id(other): other})
        return found

    def _lock_views(self, outputs: dict[int, tuple[Any, TracedArray, Leaf]], known: dict[int, int]) -> None:
        """A result that shares memory with another, or with what was given, cannot be written in place.

        Except where it is known of both what array they are parts of.
        """
        views = [
            (value, traced)
            for value, traced, _ in outputs.values()
            if type(value) in ARRAYS and value.base is not None
        ]
        given = [
            (array, handle)
            for array, layer, _ in self.inside.arrays.values()
            for handle in self.inside.ambiguous.get(id(array), (layer,))
        ]
        for view, traced in views:
            for other, its in [*[(value, each) for value, each, _ in outputs.values()], *given]:
                of_one = known.get(id(view), 0) == known.get(id(other), id(other))
                if other is not view and not of_one and type(other) in ARRAYS and overlap(view, other):
                    self.tape.locked[id(traced)] = traced
                    if its is not None:
                        self.tape.locked[id(its)] = its

    def _compare(self, replay: _Replay, second: Recording, result: Any) -> None:
        """Raise if the second run gave something else than the first."""
        pairs = [(self.value, result)]
        for obj, name, description in self.written:
            if not self.inside.log[id(obj)].born:
                record = second.log.get(id(obj))
                pairs.append((description, None if record is None else record.values.get(name)))
        for description, items in self.containers:
            copied = self._copy_in(replay, second, description)
            known = {} if copied is None else _by_key(copied.working)
            pairs += [(item, known.get(key)) for key, item in items.items()]
        while pairs:
            description, value = pairs.pop()
            if type(description) is Group:
                items_now = children(value)
                if items_now is None or len(items_now) != len(description.items):
                    raise _other_result(value)
                pairs += zip(description.items, items_now, strict=True)
            elif type(description) is not Leaf or description.node < 0:
                pass  # an array that was given, and may be written
            elif not _same(primal(description.entry), primal(value)):
                raise _other_result(value)
        written = {id(array): root._value for root, array in second.tape.shadowed.values()}
        for number, first in self.sums.items():
            # Several descriptions of one array may have been noted.
            names = [kept.entry for kept, node in self.rewritten if node == number]
            now = next((written[id(each)] for each in names if id(each) in written), None)
            if names and (now is None or not _same(first, _sums(now))):
                raise _other_result(names[0] if now is None else now)

    def _copy_in(self, replay: _Replay, second: Recording, description: Description) -> Any:
        """The working copy that the second run has of a container, if it met it."""
        model = replay.models.get(id(description))
        return None if model is None else second.containers.by_original.get(id(model))

    def pull(self, cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        """Run the function again and pull the cotangents back through that run."""
        replay = _Replay(self.inside)
        now = [(generator, _state(generator)) for generator, _ in self._all_generators()]
        before = enter(replay)
        try:
            for generator, state in self._all_generators():
                _set_state(generator, state)
            with _SecondRun(swept_later=True) as second:
                given = replay.value_of(self.arguments, self.given)
                lifted, arguments = second.lift(given, "the arguments")
                result = self.function(*lifted[0], **lifted[1])
        finally:
            leave(before)
            for generator, state in now:
                _set_state(generator, state)
        self._compare(replay, second, result)
        gradients = second.gradients(self._seeds(replay, second, result, cotangents), free=True)
        slots = gradients.cotangents.slots
        counted: set[int] = set()
        for outer, within in self._pairs(second, arguments):
            if (
                outer.node >= 0
                and within.node >= 0
                and slots[within.node] is not None
                and within.node not in counted
            ):
                counted.add(within.node)
                yield outer.node, slots[within.node]

    def _seeds(
        self, replay: _Replay, second: Recording, result: Any, cotangents: dict[int, Any]
    ) -> list[tuple[int, Any]]:
        """Nodes of the second run with the cotangents of what the first one returned and wrote."""
        seen: set[tuple[int, int]] = set()
        cotangents = dict(cotangents)  # each counts once, in whatever place its array is found first
        known: IdentityMap[Tangent] = IdentityMap()
        left = self._left_behind()
        for obj, _, _ in left:
            known.setdefault(obj, Tangent._shell(type(obj), {}))
        for obj, name, description in left:
            known[obj]._fields[name] = _cotangent(description, cotangents, known)
        seeds = match(second, result, _cotangent(self.value, cotangents, known), "the result", seen)
        for obj, tangent in known.items():
            if not self.inside.log[id(obj)].born:
                seeds += match(second, obj, tangent, "an object", seen)
        for description, items in self.containers:
            copied = self._copy_in(replay, second, description)
            if copied is None:
                continue
            for key, item in items.items():
                seeds += match(
                    second, copied.working[key], _cotangent(item, cotangents, known), "an item", seen
                )
        # Several descriptions of one array were noted; the second run wrote it once.
        written = {(id(kept.entry), number) for kept, number in self.rewritten if number in cotangents}
        for root, array in second.tape.shadowed.values():
            seeds += [(root._node, cotangents[number]) for known, number in written if known == id(array)]
        if cotangents.keys() - {number for _, number in self.rewritten}:
            raise CheckpointError(
                "a checkpointed function left a value in a place that its second run does not have, so the cotangent of "
                "that value would be lost. Return it, or put it into a field of an object that the function was given."
            )
        return seeds

    def _left_behind(self) -> list[tuple[Any, str, Description]]:
        """The fields that the first run wrote, without those of objects that it made and dropped."""
        log = self.inside.log
        pending: list[Description] = [self.value]
        pending += [description for obj, _, description in self.written if not log[id(obj)].born]
        pending += [item for _, items in self.containers for item in items.values()]
        dropped: dict[int, list[Description]] = {}
        for obj, _, description in self.written:
            if log[id(obj)].born:
                dropped.setdefault(id(obj), []).append(description)
        while pending:
            description = pending.pop()
            if type(description) is Group:
                pending += description.items
            elif type(description) is Child:
                pending += dropped.pop(id(description.primal), ())
        return [each for each in self.written if id(each[0]) not in dropped]

    def _pairs(self, second: Recording, arguments: Description) -> Iterator[tuple[Leaf, Leaf]]:
        """What the first run read, as the caller's tape knows it, with the leaf of the second run."""
        pairs = [(self.arguments, arguments)]
        for record in self.inside.log.values():
            inner = second.log.get(id(record.obj))
            if inner is not None:
                pairs += [(entry, inner.entries.get(name)) for name, entry in record.entries.items()]
        while pairs:
            outer, within = pairs.pop()
            if type(outer) is Leaf and type(within) is Leaf:
                yield outer, within
            elif type(outer) is Group and type(within) is Group:
                pairs += zip(outer.items, within.items, strict=True)

    def _all_generators(self) -> list[tuple[Any, Any]]:
        """The generators that the first run met, each with its state when it was met first."""
        fields = [
            (value.generator, value.state)
            for value in self.inside.constants.values()
            if type(value) is _Drawn
        ]
        first: dict[int, tuple[Any, Any]] = {}
        for generator, state in [*self.generators, *fields]:
            first.setdefault(id(generator), (generator, state))
        return list(first.values())


def _keeping(containers: Containers) -> Containers:
    """Containers in which the working copies are known as they are; their items are followed as items, not as results."""
    kept = Containers()
    for made in containers.by_working.values():
        known = kept.by_working[id(made.working)] = copy.copy(made)
        known.description = None  # type: ignore[assignment]
        known.lifted_before = []
    return kept


def _by_key(container: Any) -> dict[Any, Any]:
    """The items of a container by key or position."""
    return container if isinstance(container, dict) else dict(enumerate(container))


def _sums(value: Any) -> Any:
    """Two numbers that stand for the contents of an array, which need not be kept to be compared.

    They tell places and signs apart, and no cancellation makes them less exact than the contents.
    """
    plain = primal(value).reshape(-1)
    places = namespace_of(plain).arange(1, plain.size + 1)
    return np.stack([np.sum(np.abs(plain)), np.sum(places * np.abs(plain + 1))])


def _same(first: Any, again: Any) -> bool:
    """Whether two results are equal up to rounding."""
    if again is None or np.shape(first) != np.shape(again):
        return False
    kind = spec_of(first).dtype
    tolerance = 1e-4 if kind.itemsize <= 4 or kind == np.complex64 else 1e-9
    return bool(np.allclose(first, again, rtol=tolerance, atol=1e-30, equal_nan=True))


def _other_result(value: Any) -> CheckpointError:
    return CheckpointError(
        f"a checkpointed function gave {describe(primal(value))} when it was run again in the backward pass, and not "
        "what it gave the first time. It depends on something that is neither an argument nor a captured field: a global "
        "or closure variable that changed, a global random generator, an iterator. Pass that as an argument, or hold it in "
        "a field."
    )


def _cotangent(description: Description, cotangents: dict[int, Any], known: IdentityMap[Tangent]) -> Any:
    """The cotangent of a described result, taken out of `cotangents`; ZeroTangent where nothing flowed."""
    if type(description) is Leaf:
        return cotangents.pop(description.node, ZERO)
    if type(description) is Child:
        return known.get(description.primal, ZERO)
    if type(description) is Group:
        return rebuild(description.model, [_cotangent(item, cotangents, known) for item in description.items])
    return NONE


class _Drawn:
    """A random generator, and its state when the first run read it."""

    __slots__ = ("generator", "state")

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.state = _state(generator)


def _remembered(value: Any) -> Any:
    """A constant as the first run found it."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return _Drawn(value)
    if is_plain_array(value):
        return copy_with_strides(value)
    return copy.copy(value) if isinstance(value, set | bytearray) else value


def _again(value: Any) -> Any:
    return value.generator if type(value) is _Drawn else _remembered(value)


def _generators(value: Any) -> Iterator[Any]:
    if isinstance(value, np.random.Generator | np.random.RandomState):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _generators(item)


def _state(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return generator.get_state()
    return copy.deepcopy(generator.bit_generator.state)


def _set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
