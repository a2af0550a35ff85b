"""Derivatives compared: each mode with finite differences of plain runs, in random directions, and with the other mode."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from mutangent._arrays import on_host, spec_of

from ._call import output_name
from ._modes import MODES, Mode
from ._numbers import Coordinate, coordinates_of, norm, products, restricted, total
from ._point import Change, Point

# So many elements are compared one by one to find the worst one; of more, the worse half is kept.
ONE_BY_ONE: Final = 32


def check_at(point: Point, modes: Sequence[str]) -> list[Mode]:
    """Compare along a random direction of all entries, and fail with the element that disagrees the most.

    Returns the modes at this point, for derivatives of the next order.
    """
    trial = point.trial
    outer = trial.mode
    direction = point.random_direction()
    change: Change | None = None
    refined: Change | None = None
    made: list[Mode] = []
    for name in modes:
        trial.mode = f"{name} over {outer}" if outer else name
        mode = MODES[name](point)
        made.append(mode)
        change = change or point.change(direction, trial.step)
        derivative = _Comparison(point, mode, change)
        if not derivative.agrees:
            # Was it the curvature of the function? That is worth two more runs.
            refined = refined or point.refined_change(direction)
            derivative = _Comparison(point, mode, refined)
        if not np.isfinite(derivative.by_differences):
            trial.fail(
                f"the finite difference is {derivative.by_differences}: a step of {trial.step:.1e} leaves the domain of "
                "the function. Check at another point or with a smaller eps."
            )
        if not derivative.agrees:
            trial.fail(
                f"along a random direction the derivative is {derivative.ours:.10g} by {mode.means} and "
                f"{derivative.by_differences:.10g} by finite differences with eps={trial.step:.2e}; they may differ by "
                f"{derivative.allowed:.1e}.\n{_worst(point, mode, direction)}"
            )
    if len(made) > 1 and change is not None:
        _compare_modes(point, made, change)
    trial.mode = outer
    return made


class _Comparison:
    """The derivative along one change, by a mode and by differences."""

    def __init__(self, point: Point, mode: Mode, change: Change) -> None:
        bars = _comparable(point, mode, change)
        terms = mode.terms(change.entries, bars)
        self.ours = total(terms)
        self.by_differences = _by_differences(change, bars)
        # Where the contributions of the elements cancel, differences cannot tell more than elsewhere.
        derivative = max(abs(self.ours), abs(self.by_differences), norm(terms))
        outputs = [products(bar, out) for bar, out in zip(bars, change.size, strict=True) if bar is not None]
        self.allowed = point.trial.tolerance(derivative, norm(outputs))
        self.agrees = abs(self.ours - self.by_differences) <= self.allowed


def _comparable(point: Point, mode: Mode, change: Change) -> list[Any]:
    """The cotangents, without those of outputs that forward mode cannot tell: 0 times an infinite derivative is nan."""
    moving = all(np.isfinite(np.asarray(on_host(leaf.value))).all() for leaf in point.entry.slots)
    push: Callable[[list[Any]], list[Any]] | None = getattr(mode, "push", None)
    if moving or push is None:
        return point.bars
    bars = [
        None if bar is None else np.where(np.isfinite(np.asarray(on_host(dot))), on_host(bar), 0)
        for bar, dot in zip(point.bars, push(change.entries), strict=True)
    ]
    return point.like_outputs(bars)


def _compare_modes(point: Point, modes: list[Mode], change: Change) -> None:
    """Fail unless the modes give the same number: ``<y_bar, J x_dot> == <J^T y_bar, x_dot>``."""
    bars = point.bars
    for mode in modes:
        kept = _comparable(point, mode, change)
        bars = bars if kept is point.bars else kept
    one, other = (mode.terms(change.entries, bars) for mode in modes)
    allowed = point.trial.rounding(norm(one) + norm(other))
    if not abs(total(one) - total(other)) <= allowed:
        point.trial.fail(
            f"along a random direction the derivative is {total(one):.15g} by {modes[0].means} and {total(other):.15g} by "
            f"{modes[1].means}; they may differ by {allowed:.1e}."
        )


def _by_differences(change: Change, bars: list[Any]) -> float:
    return total(
        products(bar, changed) for bar, changed in zip(bars, change.outputs, strict=True) if bar is not None
    )


# -- blame -------------------------------------------------------------------------------------------------------------


def _worst(point: Point, mode: Mode, direction: list[Any]) -> str:
    """In words, the elements of entries and outputs whose derivative disagrees the most."""

    def off_by_entries(coordinates: list[Coordinate]) -> float:
        change = point.refined_change(restricted(direction, coordinates))
        return _distance(total(mode.terms(change.entries, point.bars)), _by_differences(change, point.bars))

    entry = _worst_of(coordinates_of(direction), off_by_entries)
    change = point.refined_change(restricted(direction, [entry]))

    def off_by_outputs(coordinates: list[Coordinate]) -> float:
        bars = point.like_outputs(restricted(point.bars, coordinates))
        return _distance(total(mode.terms(change.entries, bars)), _by_differences(change, bars))

    output = _worst_of(coordinates_of(point.bars), off_by_outputs)
    bars = restricted(point.bars, [output])
    bars[output[0]].flat[output[1]] = output[2]
    bars = point.like_outputs(bars)
    length = total(np.real(moved) + np.imag(moved) for moved in change.entries)  # one coordinate moved
    # Adding 0 turns -0 into 0.
    ours = total(mode.terms(change.entries, bars)) / length + 0.0
    theirs = _by_differences(change, bars) / length + 0.0
    names = [leaf.path for leaf in point.entry.leaves if leaf.slot == entry[0]]
    left = point.left.leaves[output[0]]
    above = _element(output_name(left), left.value, output)
    below = _element(" = ".join(names), point.entry.slots[entry[0]].value, entry)
    return (
        f"They disagree the most in the derivative of {above} with respect to {below}: {ours:.10g} by {mode.means}, "
        f"{theirs:.10g} by finite differences."
    )


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
