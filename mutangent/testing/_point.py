"""A function at one point, in plain runs: what it returns and leaves there, and how that moves with the arguments.

A call turns *entries*, the numbers in its arguments, into *outputs*, the numbers in its result and those that it left
in the fields of objects. The state that a call leaves behind is an output like any other, so a rule that forgets it is
found out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ._call import PlainRun, fresh, layout_of, outputs_of, require_same_places
from ._numbers import cast, copy_of, double, random_like
from ._trial import Trial


class Change(NamedTuple):
    """What a small step does, per unit of the step."""

    entries: list[Any]  # one per slot
    outputs: list[Any]  # one per leaf of what the call left
    size: list[Any]  # the outputs themselves


class Point:
    """A function, its arguments, and random cotangents of its outputs."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], trial: Trial) -> None:
        self.f = f
        self.args = args
        self.trial = trial
        self.entry = layout_of(args)
        if not self.entry.leaves:
            raise ValueError("args hold no float or complex numbers, so there is no derivative to check")
        self.plain = PlainRun(f, args)
        self.left = self.plain.left
        outputs = [leaf for leaf in self.left.leaves if self.plain.is_output(leaf)]
        if not outputs:
            raise ValueError(f"{trial.name} gives no float or complex numbers and leaves none in objects")
        trial.note_precision([*self.entry.leaves, *outputs])
        self.bars: list[Any] = [None] * len(self.left.leaves)
        for leaf in outputs:
            self.bars[leaf.number] = cast(random_like(trial.rng, leaf.value), copy_of(leaf.value))

    def random_direction(self) -> list[Any]:
        """One array per slot, larger for large entries and zero for those that are not finite."""
        direction = []
        for leaf in self.entry.slots:
            size = np.abs(double(leaf.value))
            size = np.where(np.isfinite(size), np.maximum(1.0, size), 0.0)
            direction.append(random_like(self.trial.rng, leaf.value) * size)
        return direction

    def change(self, direction: list[Any], step: float) -> Change:
        """The change along a direction by central differences.

        The change of the entries is the difference between those that were really used, after rounding, so large
        float32 numbers do not spoil it.
        """
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

    def refined_change(self, direction: list[Any]) -> Change:
        """The change by Richardson's extrapolation: its error falls with the fourth power of the step."""
        whole, half = (self.change(direction, step) for step in (self.trial.step, self.trial.step / 2))
        with np.errstate(invalid="ignore"):
            entries = [(4 * b - a) / 3 for a, b in zip(whole.entries, half.entries, strict=True)]
            outputs = [(4 * b - a) / 3 for a, b in zip(whole.outputs, half.outputs, strict=True)]
        return Change(entries, outputs, whole.size)

    def like_outputs(self, bars: list[Any]) -> list[Any]:
        """Cotangents in double precision as cotangents of the outputs' dtypes."""
        return [None if bar is None else cast(bar, like) for bar, like in zip(bars, self.bars, strict=True)]
