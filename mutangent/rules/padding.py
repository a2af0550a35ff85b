"""Derivatives of `numpy.pad` in all of its modes.

Most modes repeat elements of the operand, and the numbers of the elements, padded in the same way, say which. The others
are written as NumPy does it: one axis after the other, with the axes before it padded already.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from .._arrays import arange
from .._rulebook import composed, function, no_rule
from .dispatch import array_of, dispatched
from .indexing import added_at, numbers

SELECTING: Final = ("edge", "reflect", "symmetric", "wrap")
STATISTICS: Final[dict[str, Callable[..., Any]]] = {
    "maximum": np.max,
    "minimum": np.min,
    "mean": np.mean,
    "median": np.median,
}


def selecting_pullback(
    g: Any, _y: Any, _array: Any, pad_width: Any = None, mode: Any = "constant", *, constant_values: Any = 0
) -> Any:
    if mode == "constant":
        return g[np.pad(np.ones_like(g, dtype=bool, shape=_array.shape), pad_width)].reshape(_array.shape)
    return added_at(np.pad(numbers(_array.shape, g), pad_width, mode), g, _array.shape)


selecting = dispatched(np.pad)
function(selecting, selecting_pullback)


def pairs(value: Any, ndim: int) -> list[tuple[Any, Any]]:
    """A setting before and after each axis, from one number, one pair, a pair per axis, or a dict of some axes."""
    if isinstance(value, dict):
        given = {range(ndim)[axis]: np.broadcast_to(width, (2,)).tolist() for axis, width in value.items()}
        return [tuple(given.get(k, (0, 0))) for k in range(ndim)]
    return [tuple(pair) for pair in np.broadcast_to(np.asarray(value), (ndim, 2)).tolist()]


def part(x: Any, axis: int, start: int | None, stop: int | None) -> Any:
    return x[(slice(None),) * axis + (slice(start, stop),)]


def repeated(x: Any, axis: int, width: int) -> Any:
    """`x`, of length 1 along `axis`, `width` times."""
    return np.broadcast_to(x, (*x.shape[:axis], width, *x.shape[axis + 1 :]))


def ramp(x: Any, axis: int, width: int, end: Any) -> Any:
    """`width` numbers from `end` on that would arrive at the edge `x` next."""
    share = arange(width, x, np.zeros((), x.dtype).real.dtype) / max(width, 1)
    return end + (x - end) * share.reshape((-1,) + (1,) * (x.ndim - axis - 1))


def extended(x: Any, widths: Any, ends: Callable[[Any, int, int, int], tuple[Any, Any]]) -> Any:
    """Pad one axis after the other with what `ends` gives for an array, an axis and the two widths."""
    for axis, (before, after) in enumerate(pairs(widths, x.ndim)):
        if before or after:
            if x.shape[axis] == 0:
                raise ValueError(
                    f"can't extend empty axis {axis} using modes other than 'constant' or 'empty'"
                )
            first, last = ends(x, axis, before, after)
            x = np.concatenate([first, x, last], axis=axis)
    return x if x.ndim else np.copy(x)


def with_statistics(x: Any, widths: Any, statistic: Callable[..., Any], lengths: Any) -> Any:
    if lengths is not None:
        lengths = pairs(lengths, x.ndim)

    def ends(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        n = x.shape[axis]
        first, last = (n, n) if lengths is None else lengths[axis]
        if 0 in (first, last) and statistic in (np.max, np.min):
            raise ValueError("stat_length of 0 yields no value for padding")
        of_first = statistic(part(x, axis, None, min(first, n)), axis=axis, keepdims=True)
        of_last = statistic(part(x, axis, max(n - last, 0), None), axis=axis, keepdims=True)
        return repeated(of_first, axis, before), repeated(of_last, axis, after)

    return extended(x, widths, ends)


def with_ramps(x: Any, widths: Any, end_values: Any) -> Any:
    end_values = pairs(end_values, x.ndim)

    def ends(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        first, last = end_values[axis]
        up = ramp(part(x, axis, None, 1), axis, before, first)
        return up, np.flip(ramp(part(x, axis, -1, None), axis, after, last), axis)

    return extended(x, widths, ends)


def with_odd_reflections(x: Any, widths: Any, mode: str) -> Any:
    """Reflections in the edges, in place and in height: twice the edge less what an even one has there."""
    skipped = mode == "reflect"

    def ends(x: Any, axis: int, before: int, after: int) -> tuple[Any, Any]:
        n = x.shape[axis]
        if max(before, after) > n - skipped:
            raise no_rule(np.pad, f" with reflect_type='odd' and pads longer than axis {axis}")
        first = np.flip(part(x, axis, int(skipped), before + skipped), axis)
        last = np.flip(part(x, axis, n - after - skipped, n - skipped), axis)
        return 2 * part(x, axis, None, 1) - first, 2 * part(x, axis, -1, None) - last

    return extended(x, widths, ends)


def padded(array: Any, pad_width: Any, mode: Any = "constant", **kwargs: Any) -> Any:
    x = array_of(array)
    known = {
        "constant": {"constant_values"},
        "linear_ramp": {"end_values"},
        "reflect": {"reflect_type"},
        "symmetric": {"reflect_type"},
        **{name: {"stat_length"} for name in STATISTICS},
    }
    if callable(mode):
        raise no_rule(np.pad, " with a function for mode=")
    if not kwargs.keys() <= known.get(mode, set()):
        raise ValueError(f"unsupported keyword arguments for mode '{mode}': {set(kwargs)}")
    widths = pairs(pad_width, x.ndim) if isinstance(pad_width, dict) else pad_width
    if mode in STATISTICS:
        return with_statistics(x, widths, STATISTICS[mode], kwargs.get("stat_length"))
    if mode == "linear_ramp":
        return with_ramps(x, widths, kwargs.get("end_values", 0))
    if kwargs.get("reflect_type", "even") == "odd":
        return with_odd_reflections(x, widths, mode)
    if mode == "empty":  # what nobody may read is 0
        return selecting(x, widths)
    if mode == "constant" or mode in SELECTING:
        settings = {name: value for name, value in kwargs.items() if name == "constant_values"}
        return selecting(x, widths, mode, **settings)
    raise ValueError(f"mode '{mode}' is not supported")


composed(np.pad, padded)
