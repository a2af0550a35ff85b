"""One derivative compared with finite differences: pullback against plain runs, in random directions.

Theory of operation. A call turns *entries*, the numbers in its arguments, into *outputs*, the numbers in its result and
those that it left in the fields of objects. With a random cotangent for each output the call is a scalar function of
its entries. Its derivative along a random direction is, by the pullback, the inner product of the tangents with the
direction, and by differences that of the cotangents with the change of the outputs. The state that a call leaves behind
is an output like any other, so a rule that forgets it is found out.

The direction is the difference between the entries that were really used, after rounding, so large float32 numbers do
not spoil it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from mutangent._arrays import describe, is_array, spec_of
from mutangent._tangent import ZeroTangent
from mutangent._transforms import vjp

from ._call import Call, fresh, layout_of, output_name, outputs_of, require_same_places
from ._compare import close, difference
from ._numbers import (
    Coordinate,
    cast,
    coordinates_of,
    double,
    norm,
    products,
    random_like,
    restricted,
    total,
    traced_inner,
)
from ._trial import Trial

# So many elements are compared one by one to find the worst one; of more, the worse half is kept.
ONE_BY_ONE: Final = 32


class Change(NamedTuple):
    """What a small step does, per unit of the step."""

    entries: list[Any]  # one per slot
    outputs: list[Any]  # one per leaf of what the call left
    size: list[Any]  # the outputs themselves


class Derivative:
    """The derivative of a function at one point, with random cotangents of its outputs.

    Making one checks all that needs no differences.
    """

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], trial: Trial) -> None:
        self.f = f
        self.args = args
        self.trial = trial
        self.entry = layout_of(args)
        if not self.entry.leaves:
            raise ValueError("args hold no float or complex numbers, so there is no derivative to check")
        call = Call(f, args, trial)
        plain_args = fresh(args)
        plain = f(*plain_args)
        complaint = difference(plain, call.out, "the result") or difference(plain_args, call.args, "args")
        if complaint is not None:
            trial.fail(complaint)
        self.left = call.left
        outputs = [leaf for leaf in call.left.leaves if call.is_output(leaf)]
        if not outputs:
            raise ValueError(f"{trial.name} gives no float or complex numbers and leaves none in objects")
        trial.note_precision([*self.entry.leaves, *outputs])
        self.bars: list[Any] = [None] * len(call.left.leaves)
        for leaf in outputs:
            self.bars[leaf.number] = cast(random_like(trial.rng, leaf.value), copy_of(leaf.value))
        self.tangents = self._pull_repeatedly(call)

    def _pull_repeatedly(self, call: Call) -> list[Any]:
        """The tangent of each leaf of the entry, once it is sure that the pullback always gives the same."""
        fail = self.trial.fail
        tangents = self.entry.match(call.pull(self.bars), fail)
        for leaf, tangent in zip(self.entry.leaves, tangents, strict=True):
            if not _fits(leaf.value, tangent):
                fail(f"{leaf.path} is {describe(leaf.value)}, but its tangent is {describe(tangent)}")
        again = self.entry.match(call.pull(self.bars), fail)
        self._expect_same(tangents, again, "called a second time, the pullback gives another tangent of {}")
        call.overwrite_objects()
        later = self.entry.match(call.pull(self.bars), fail)
        self._expect_same(
            tangents,
            later,
            "the pullback gives another tangent of {} once the fields of the objects have been overwritten: it reads a "
            "field when it is called. Read the value in the rule and keep it",
        )
        return tangents

    def _expect_same(self, tangents: list[Any], others: list[Any], text: str) -> None:
        for leaf, a, b in zip(self.entry.leaves, tangents, others, strict=True):
            if type(a) is not type(b) or not (isinstance(a, ZeroTangent) or close(a, b)):
                self.trial.fail(text.format(leaf.path))

    def check(self) -> None:
        """Compare along a random direction of all entries, and fail with the element that disagrees the most."""
        direction = self._random_direction()
        by_pullback, by_differences, allowed = self._compare(self._change(direction, self.trial.step))
        if not abs(by_pullback - by_differences) <= allowed:
            # Was it the curvature of the function? That is worth two more runs.
            by_pullback, by_differences, allowed = self._compare(self._refined_change(direction))
        if not np.isfinite(by_differences):
            self.trial.fail(
                f"the finite difference is {by_differences}: a step of {self.trial.step:.1e} leaves the domain of the "
                "function. Check at another point or with a smaller eps."
            )
        if not abs(by_pullback - by_differences) <= allowed:
            self.trial.fail(
                f"along a random direction the derivative is {by_pullback:.10g} by the pullback and "
                f"{by_differences:.10g} by finite differences with eps={self.trial.step:.2e}; they may differ by "
                f"{allowed:.1e}.\n{self._worst(direction)}"
            )

    def _compare(self, change: Change) -> tuple[float, float, float]:
        """The derivative by the pullback, the one by differences, and how much they may differ."""
        terms = self._terms(change, self.tangents)
        by_pullback, by_differences = total(terms), self._by_differences(change, self.bars)
        # Where the contributions of the elements cancel, differences cannot tell more than elsewhere.
        derivative = max(abs(by_pullback), abs(by_differences), norm(terms))
        outputs = [
            products(bar, out) for bar, out in zip(self.bars, change.size, strict=True) if bar is not None
        ]
        return by_pullback, by_differences, self.trial.tolerance(derivative, norm(outputs))

    def _random_direction(self) -> list[Any]:
        """One array per slot, larger for large entries and zero for those that are not finite."""
        direction = []
        for leaf in self.entry.slots:
            size = np.abs(double(leaf.value))
            size = np.where(np.isfinite(size), np.maximum(1.0, size), 0.0)
            direction.append(random_like(self.trial.rng, leaf.value) * size)
        return direction

    def _change(self, direction: list[Any], step: float) -> Change:
        entries, outputs = [], []
        for sign in (1.0, -1.0):
            values = [
                cast(double(leaf.value) + sign * step * way, leaf.value)
                for leaf, way in zip(self.entry.slots, direction, strict=True)
            ]
            entries.append([double(value) for value in values])
            args = fresh(self.args, values)
            before = layout_of(args)
            left = outputs_of(self.f(*args), before)
            require_same_places(left, self.left, self.trial)
            outputs.append([double(leaf.value) for leaf in left.leaves])
        with np.errstate(invalid="ignore", over="ignore"):  # inf - inf, in numbers that do not move
            moved = [(b - a) / (2 * step) for b, a in zip(*entries, strict=True)]
            changed = [(b - a) / (2 * step) for b, a in zip(*outputs, strict=True)]
        moved = [np.where(way == 0, 0, change) for change, way in zip(moved, direction, strict=True)]
        return Change(moved, changed, outputs[0])

    def _refined_change(self, direction: list[Any]) -> Change:
        """The change by Richardson's extrapolation: its error falls with the fourth power of the step."""
        whole, half = (self._change(direction, step) for step in (self.trial.step, self.trial.step / 2))
        with np.errstate(invalid="ignore"):
            entries = [(4 * b - a) / 3 for a, b in zip(whole.entries, half.entries, strict=True)]
            outputs = [(4 * b - a) / 3 for a, b in zip(whole.outputs, half.outputs, strict=True)]
        return Change(entries, outputs, whole.size)

    def _terms(self, change: Change, tangents: list[Any]) -> list[Any]:
        """The terms of the derivative by the pullback, one array per leaf that has a tangent."""
        terms = []
        for leaf, tangent in zip(self.entry.leaves, tangents, strict=True):
            if not isinstance(tangent, ZeroTangent):
                way = change.entries[leaf.slot]
                # What does not move is not checked, also where its derivative is inf or nan.
                terms.append(products(np.where(way == 0, 0, tangent), way))
        return terms

    def _by_differences(self, change: Change, bars: list[Any]) -> float:
        return total(
            products(bar, changed)
            for bar, changed in zip(bars, change.outputs, strict=True)
            if bar is not None
        )

    # -- blame ---------------------------------------------------------------------------------------------------------

    def _worst(self, direction: list[Any]) -> str:
        """In words, the elements of entries and outputs whose derivative disagrees the most."""

        def off_by_entries(coordinates: list[Coordinate]) -> float:
            change = self._refined_change(restricted(direction, coordinates))
            return _distance(
                total(self._terms(change, self.tangents)), self._by_differences(change, self.bars)
            )

        entry = _worst_of(coordinates_of(direction), off_by_entries)
        change = self._refined_change(restricted(direction, [entry]))
        call = Call(self.f, self.args, self.trial)

        def by_pullback(bars: list[Any]) -> float:
            return total(self._terms(change, self.entry.match(call.pull(bars), self.trial.fail)))

        def off_by_outputs(coordinates: list[Coordinate]) -> float:
            bars = self._like_outputs(restricted(self.bars, coordinates))
            return _distance(by_pullback(bars), self._by_differences(change, bars))

        output = _worst_of(coordinates_of(self.bars), off_by_outputs)
        bars = restricted(self.bars, [output])
        bars[output[0]].flat[output[1]] = output[2]
        bars = self._like_outputs(bars)
        length = total(np.real(moved) + np.imag(moved) for moved in change.entries)  # one coordinate moved
        # Adding 0 turns -0 into 0.
        ours, theirs = by_pullback(bars) / length + 0.0, self._by_differences(change, bars) / length + 0.0
        names = [leaf.path for leaf in self.entry.leaves if leaf.slot == entry[0]]
        above = _element(output_name(self.left.leaves[output[0]]), self.left.leaves[output[0]].value, output)
        below = _element(" = ".join(names), self.entry.slots[entry[0]].value, entry)
        return (
            f"They disagree the most in the derivative of {above} with respect to {below}: {ours:.10g} by the "
            f"pullback, {theirs:.10g} by finite differences."
        )

    def _like_outputs(self, bars: list[Any]) -> list[Any]:
        return [None if bar is None else cast(bar, like) for bar, like in zip(bars, self.bars, strict=True)]


def _worst_of(coordinates: list[Coordinate], off: Callable[[list[Coordinate]], float]) -> Coordinate:
    while len(coordinates) > ONE_BY_ONE:
        half = len(coordinates) // 2
        coordinates = max(coordinates[:half], coordinates[half:], key=off)
    return max(coordinates, key=lambda coordinate: off([coordinate]))


def _distance(a: float, b: float) -> float:
    return float(np.nan_to_num(abs(a - b), nan=np.inf))


def _element(name: str, value: Any, coordinate: Coordinate) -> str:
    """An element of an array in words."""
    shape = np.shape(value)
    if shape:
        name += f" at [{', '.join(map(str, np.unravel_index(coordinate[1], shape)))}]"
    if spec_of(value).dtype.kind == "c":
        name = f"the {'real' if coordinate[2] == 1 else 'imaginary'} part of {name}"
    return name


def copy_of(value: Any) -> Any:
    """A value like a given one that may be written to."""
    return np.array(value) if is_array(value) else value


def _fits(value: Any, tangent: Any) -> bool:
    """Whether a tangent has the type, shape and dtype of its value."""
    if isinstance(tangent, ZeroTangent):
        return True
    same_type = type(tangent) is type(value) or (is_array(value) and type(tangent) is np.ndarray)
    return same_type and spec_of(tangent) == spec_of(value)


def contraction(derivative: Derivative) -> Callable[..., Any]:
    """The inner product of a function's tangents with a fixed direction, as a function of the same arguments.

    The cotangents stay the same, so the derivative of this function is a second derivative of the other.
    """
    f, entry, trial = derivative.f, derivative.entry, derivative.trial
    direction = [random_like(trial.rng, leaf.value) for leaf in entry.slots]

    def call(*args: Any) -> Any:
        before = layout_of(args)
        out, pullback = vjp(f, *args)
        left = outputs_of(out, before)
        require_same_places(left, derivative.left, trial)
        tangents = entry.match(pullback(*left.cotangents(derivative.bars)), trial.fail)
        inner: Any = 0.0
        for leaf, tangent in zip(entry.leaves, tangents, strict=True):
            if not isinstance(tangent, ZeroTangent):
                inner = inner + traced_inner(tangent, direction[leaf.slot])
        return inner

    return call
