"""Recomputation in the backward pass, for functions that mutate objects too.

Theory of operation. The function runs once, in a recording of its own that is thrown away (`_first_run`). What stays on the
caller's tape is one entry, with the values that the function's arguments and the fields it read had on entry. In the sweep
the function runs again over those values (`_second_run`): an overlay shows the objects as they were, takes up what is
written, and is dropped, so no object changes a second time. What is no field and may change all the same, such as a random
generator, has its earlier state meanwhile (`_remembered`). The tangents of the second run are contributions to what the
first one had read.

Here are the calls of the user, and how what the first run left behind becomes results on the caller's tape.
"""

from __future__ import annotations

import copy
import functools
import math
import operator
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ._arrays import ARRAYS, describe, is_array, overlap
from ._call import open_tape
from ._compared import DEPENDS, Sums
from ._errors import CheckpointError, MutangentError
from ._fields import current, enter, is_captured, leave
from ._first_run import FirstRun, Inside
from ._in_place import assign, note_twins
from ._raised import Left
from ._second_run import Recomputation
from ._shadow import add_name, first_name, is_entry
from ._structure import Containers, Description, Leaf, Lifter, Lowerer, by_key
from ._tape import CALL, UNPACK, Tape
from ._traced import TracedArray, append, append_call, level_of, primal
from ._views import register_view, root_of, source_of
from ._work_done import WorkDone


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
    The function is called a second time for a gradient, over what the first call met, or at once if it raises after it has
    written something, so that what was written stays. Objects do not notice, and generators of `numpy.random` and `random`
    draw the same numbers again, the global ones too. Closures, globals that the code names, and attributes of classes and
    functions are as the first call met them, and afterwards as one call has left them. Printing happens twice. An iterator
    from which the function takes items is a `CheckpointError`, and so is a second call that differs from the first, in its
    operations, its result or what it writes, because of a clock for example.

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
        # Forward mode keeps nothing anyway.
        if tape is None or type(tape.entries) is not list or tape.repeats:
            return function(*args, **kwargs)
        segment = _Segment(tape, function)
        try:
            return segment.record(args, kwargs)
        except Exception as error:
            if segment.raised is not error:
                raise
            segment.raised = None  # which keeps the values of the first run
        return segment.repeat(args, kwargs)

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

    segment = checkpoint(functools.partial(_run_all, step))
    results: list[Any] = []
    for start in range(0, count, length):
        results += segment(xs[start : start + length])
    return results


def _run_all(step: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
    return [step(x) for x in items]


class _Segment:
    """One checkpointed call."""

    def __init__(self, tape: Tape, function: Callable[..., Any]) -> None:
        self.tape = tape
        self.inside = Inside(current(), tape)
        self.recomputation = Recomputation(function, self.inside)
        self.first = len(tape.kept)  # of the descriptions that this call keeps
        self.raised: Exception | None = None  # after the function had written something
        self.left: Left | None = None  # what that was

    def record(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Run the function, put the call on the tape, commit what it wrote, and return its traced value."""
        inside = self.inside
        self.recomputation.given, self.recomputation.arguments = inside.lifter.lift(
            (args, kwargs), "the arguments of a checkpointed function"
        )
        inside.remembered.note_function(self.recomputation.function)
        inside.remembered.note(self.recomputation.arguments, None, "an argument")
        before = enter(inside)
        try:
            first = FirstRun()
            first.function = self.recomputation.function
            try:
                with first:
                    lifted = first.lift(self.recomputation.given, "the arguments")[0]
                    result = self._call(first, lifted)
                    self.recomputation.work = WorkDone(first.tape)
                result = first.lower(result)
                inside.copies = first.tape.copies or {}
            finally:
                first.tape.discarded = True  # what left by an error or a closure has no gradient, and says so
        finally:
            leave(before)
        inside.close()
        inside.remembered.settle()
        for _, final in inside.rewritten:
            self._refuse_traced(final)
        return self._append(result)

    def _call(self, first: FirstRun, lifted: tuple[Any, dict[str, Any]]) -> Any:
        try:
            return self.recomputation.function(*lifted[0], **lifted[1])
        except MutangentError:
            raise
        except Exception as error:
            if first.has_written():
                self.raised = error
                self.left = Left(self.inside, first, error)
            raise

    def repeat(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> NoReturn:
        """Run a function that raised again, as an ordinary one: what it writes before it raises stays.

        The caller may catch the error, and go on with what was written.
        """
        self.inside.remembered.settle()
        self.inside.remembered.put_back()
        self.tape.repeats = True
        try:
            self.recomputation.function(*args, **kwargs)
        except MutangentError:
            raise
        except Exception as error:
            assert self.left is not None
            self.left.require_same(error)
            raise
        finally:
            self.tape.repeats = False
        raise CheckpointError(
            "a checkpointed function raised an error after it had written something, and did not when it was run again "
            f"to write that into the caller's recording. {DEPENDS}"
        )

    def _append(self, result: Any) -> Any:
        entries: Any = self.tape.entries
        self._refuse_writes_into_plain_arrays()
        call = append_call(entries, self.tape, CALL, -1, self.recomputation.pull)
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
        traced, self.recomputation.value = lifter.lift(result, "the result of a checkpointed function")
        for record, name in list(self.inside.written()):
            record.values[name], description = lifter.lift(
                record.values[name], f"{type(record.obj).__name__}.{name}"
            )
            self.recomputation.written.append((record.obj, name, description))
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
                for key, item in list(by_key(made.working).items()):
                    lifted, described[key] = lifter.lift(item, "an item")
                    put(made.working, key, lifted)
                self.recomputation.containers.append((made.description, described))

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
            self.recomputation.rewritten += [
                (kept, leaf.node) for kept in self.tape.kept[self.first :] if kept.entry is array
            ]
            self.recomputation.sums[leaf.node] = Sums(final)
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


def _keeping(containers: Containers) -> Containers:
    """Containers in which the working copies are known as they are; their items are followed as items, not as results."""
    kept = Containers()
    for made in containers.by_working.values():
        known = kept.by_working[id(made.working)] = copy.copy(made)
        known.description = None  # type: ignore[assignment]
        known.lifted_before = []
    return kept
