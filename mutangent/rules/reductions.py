"""Derivatives of sums, means, variances and extrema.

The cotangent of a sum is the same for every summand: a broadcast view, which nobody copies.

The settings of NumPy's reductions: `initial` takes part like one more element, and an element outside of `where` does not.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._accumulate import broadcast
from .._rulebook import composed, function
from .elementwise import always, quotient

Axis = int | tuple[int, ...] | None


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """`axis` as a tuple of non-negative numbers. A number without axes may be reduced over axis 0."""
    if axis is None or ndim == 0:
        return tuple(range(ndim))
    return tuple(k % ndim for k in (axis if isinstance(axis, tuple) else (axis,)))


def kept(g: Any, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Any:
    """`g`, of a reduction of an array of `shape`, with the reduced axes kept as length 1."""
    if keepdims or axis is None or not shape:
        return g
    if type(axis) is int:  # the usual case, quickly
        axis %= len(shape)
        return g.reshape((*shape[:axis], 1, *shape[axis + 1 :]))
    axes = axes_of(axis, len(shape))
    return g.reshape(tuple([1 if k in axes else length for k, length in enumerate(shape)]))


def spread(g: Any, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Any:
    """`g`, of a reduction of an array of `shape`, as a view of that shape."""
    return broadcast(kept(g, shape, axis, keepdims), shape)


def reduced_length(shape: tuple[int, ...], axis: Axis) -> int:
    """How many elements go into one element of the result."""
    length = 1
    for k in axes_of(axis, len(shape)):
        length *= shape[k]
    return length


# -- sums ----------------------------------------------------------------------------------------------------------


def sum_pullback(
    g: Any,
    _y: Any,
    _a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    g = spread(g, _a.shape, axis, keepdims)
    return g if where is True else np.where(where, g, 0)


def mean_pullback(
    g: Any,
    _y: Any,
    _a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    if where is True:
        return spread(g / max(reduced_length(_a.shape, axis), 1), _a.shape, axis, keepdims)
    chosen = np.broadcast_to(where, _a.shape)
    count = np.sum(chosen, axis=axis, keepdims=True, dtype=g.dtype)
    return np.where(chosen, kept(g, _a.shape, axis, keepdims) / count, 0)


def direct_sum(a: Any, axis: Axis = None, *settings: Any, **kwargs: Any) -> Any:
    return np.add.reduce(a, axis, *settings, **kwargs)


function(np.sum, sum_pullback, linear=True, direct=direct_sum)
function(np.mean, mean_pullback, linear=True)

# -- variance ------------------------------------------------------------------------------------------------------


def deviation(x: Any, axis: Axis, where: Any = True, mean: Any = None) -> Any:
    """`x` minus its mean, and 0 outside of `where`.

    Equal elements deviate by exactly 0: their mean is rounded, that of their differences is not.
    """
    if mean is not None:
        return x - mean if where is True else np.where(where, x - mean, 0)
    if where is True:
        axes = axes_of(axis, np.ndim(x))
        first = x[tuple([slice(1) if k in axes else slice(None) for k in range(x.ndim)])] if axes else x
        shifted = x - first
        return shifted - np.mean(shifted, axis=axis, keepdims=True)
    first = np.max(x, axis=axis, keepdims=True, initial=-np.inf, where=where) if x.dtype.kind == "f" else 0
    shifted = np.where(where, x - first, 0)
    count = np.sum(np.broadcast_to(where, x.shape), axis=axis, keepdims=True, dtype=np.real(x).dtype)
    return np.where(where, shifted - np.sum(shifted, axis=axis, keepdims=True) / count, 0)


def freedom(x: Any, axis: Axis, ddof: float, correction: float | None, where: Any) -> Any:
    """The number of elements that a variance divides by, with the reduced axes kept."""
    less = ddof if correction is None else correction
    if where is True:
        return reduced_length(x.shape, axis) - less
    count = np.sum(np.broadcast_to(where, x.shape), axis=axis, keepdims=True, dtype=np.real(x).dtype)
    return count - less


def var_pullback(
    g: Any,
    _y: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    among = freedom(a, axis, ddof, correction, where)
    return kept(g, a.shape, axis, keepdims) * 2 / among * deviation(a, axis, where, mean)


def std_pullback(
    g: Any,
    y: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    mean: Any = None,
    correction: float | None = None,
) -> Any:
    among = freedom(a, axis, ddof, correction, where)
    slope = quotient(deviation(a, axis, where, mean), kept(y, a.shape, axis, keepdims) * among)
    return kept(g, a.shape, axis, keepdims) * slope


def spread_part(
    live: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    ddof: float = 0,
    keepdims: bool = False,
    *,
    where: Any = True,
    **_settings: Any,
) -> Any:
    """Which elements take part in those variances that do."""
    part = spread(live, a.shape, axis, keepdims)
    return part if where is True else np.logical_and(part, where)


function(np.var, var_pullback, part_of=spread_part)
function(np.std, std_pullback, part_of=spread_part, kink=always)

# -- extrema -------------------------------------------------------------------------------------------------------


def shared_among(chosen: Any, g: Any, axis: Axis, others: Any = 0) -> Any:
    """`g`, whose reduced axes are kept, in equal shares among the `chosen` elements and as many `others`."""
    return np.where(chosen, g / (np.sum(chosen, axis=axis, keepdims=True, dtype=g.dtype) + others), 0)


def extremum_pullback(
    g: Any,
    y: Any,
    a: Any,
    axis: Axis = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = None,
    where: Any = True,
) -> Any:
    shape = np.shape(a)
    g, y = kept(g, shape, axis, keepdims), kept(y, shape, axis, keepdims)
    chosen = a == y if where is True else np.logical_and(a == y, where)
    if initial is None:
        return shared_among(chosen, g, axis)
    tied = (y == initial).astype(g.dtype)
    # Where `initial` alone is the result there is nobody to share with.
    return shared_among(chosen, g, axis, tied)


for extremum in (np.max, np.min, np.amax, np.amin):
    function(extremum, extremum_pullback, selects=True)
composed(
    np.ptp,
    lambda a, axis=None, out=None, keepdims=False: (
        np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)
    ),
)
