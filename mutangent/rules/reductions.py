"""Derivatives of sums, means, products, extrema and cumulative functions.

The cotangent of a sum is the same for every summand: a broadcast view, which nobody copies. Products never divide, so
zeros among the factors are no special case.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._accumulate import broadcast
from .._rulebook import composed, function
from .elementwise import quotient

Axis = int | tuple[int, ...] | None


def axes_of(axis: Axis, ndim: int) -> tuple[int, ...]:
    """`axis` as a tuple of non-negative numbers."""
    if axis is None:
        return tuple(range(ndim))
    return tuple(k % ndim for k in (axis if isinstance(axis, tuple) else (axis,)))


def kept(g: Any, shape: tuple[int, ...], axis: Axis, keepdims: bool) -> Any:
    """`g`, of a reduction of an array of `shape`, with the reduced axes kept as length 1."""
    if keepdims or axis is None:
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
    *,
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


def nansum_pullback(
    g: Any, _y: Any, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    return np.where(np.isnan(a), 0, kept(g, np.shape(a), axis, keepdims))


def nanmean_pullback(
    g: Any, _y: Any, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    chosen = np.logical_not(np.isnan(a))
    count = np.sum(chosen, axis=axis, keepdims=True, dtype=g.dtype)
    return np.where(chosen, kept(g, np.shape(a), axis, keepdims) / count, 0)


function(np.sum, sum_pullback, linear=True)
function(np.mean, mean_pullback, linear=True)
function(np.nansum, nansum_pullback)
function(np.nanmean, nanmean_pullback)

# -- variance ------------------------------------------------------------------------------------------------------


def deviation(x: Any, axis: Axis) -> Any:
    """`x` minus its mean. Equal elements deviate by exactly 0: their mean is rounded, that of their differences not."""
    axes = axes_of(axis, np.ndim(x))
    first = x[tuple([slice(1) if k in axes else slice(None) for k in range(x.ndim)])] if axes else x
    shifted = x - first
    return shifted - np.mean(shifted, axis=axis, keepdims=True)


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
    correction: float | None = None,
) -> Any:
    freedom = reduced_length(a.shape, axis) - (ddof if correction is None else correction)
    return kept(g, a.shape, axis, keepdims) * 2 / freedom * deviation(a, axis)


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
    correction: float | None = None,
) -> Any:
    freedom = reduced_length(a.shape, axis) - (ddof if correction is None else correction)
    scaled = kept(g, a.shape, axis, keepdims) * deviation(a, axis)
    return quotient(scaled, kept(y, a.shape, axis, keepdims) * freedom)


function(np.var, var_pullback)
function(np.std, std_pullback)

# -- extrema -------------------------------------------------------------------------------------------------------


def shared_among(chosen: Any, g: Any, axis: Axis) -> Any:
    """`g`, whose reduced axes are kept, in equal shares among the `chosen` elements."""
    return np.where(chosen, g / np.sum(chosen, axis=axis, keepdims=True, dtype=g.dtype), 0)


def extremum_pullback(
    g: Any, y: Any, a: Any, axis: Axis = None, out: None = None, keepdims: bool = False
) -> Any:
    shape = np.shape(a)
    return shared_among(a == kept(y, shape, axis, keepdims), kept(g, shape, axis, keepdims), axis)


for extremum in (np.max, np.min, np.amax, np.amin, np.nanmax, np.nanmin):
    function(extremum, extremum_pullback)
composed(
    np.ptp,
    lambda a, axis=None, out=None, keepdims=False: (
        np.max(a, axis=axis, keepdims=keepdims) - np.min(a, axis=axis, keepdims=keepdims)
    ),
)

# -- products ------------------------------------------------------------------------------------------------------


def products_before(x: Any) -> Any:
    """For each element the product of those before it on the last axis."""
    return np.cumprod(np.concatenate([np.ones_like(x[..., :1]), x[..., :-1]], axis=-1), axis=-1)


def products_of_others(x: Any, axis: Axis) -> Any:
    """For each element the product of all others on the axes, without a division."""
    axes = axes_of(axis, x.ndim)
    last = tuple(range(-len(axes), 0))
    moved = np.moveaxis(x, axes, last)
    flat = moved.reshape((*moved.shape[: x.ndim - len(axes)], reduced_length(x.shape, axis)))
    others = products_before(flat) * np.flip(products_before(np.flip(flat, -1)), -1)
    return np.moveaxis(others.reshape(moved.shape), last, axes)


def prod_pullback(
    g: Any, _y: Any, a: Any, axis: Axis = None, dtype: Any = None, out: None = None, keepdims: bool = False
) -> Any:
    others = products_of_others(a, axis)
    return kept(g, a.shape, axis, keepdims) * (np.conj(others) if a.dtype.kind == "c" else others)


function(np.prod, prod_pullback)

# -- cumulative ----------------------------------------------------------------------------------------------------


def cumsum_pullback(
    g: Any, _y: Any, _a: Any, axis: int | None = None, dtype: Any = None, out: None = None
) -> Any:
    at = 0 if axis is None else axis
    return np.flip(np.cumsum(np.flip(g, at), axis=at), at).reshape(_a.shape)


def cumprod_pullback(
    g: Any, _y: Any, a: Any, axis: int | None = None, dtype: Any = None, out: None = None
) -> Any:
    """Element j gets ∏_{i<j} x_i · s_j, where s_j = g_j + x_{j+1} s_{j+1} collects the products that contain it."""
    if a.dtype.kind == "c":
        a = np.conj(a)
    rows = a.reshape((a.size,)) if axis is None else np.moveaxis(a, axis, 0)
    bars = g if axis is None else np.moveaxis(g, axis, 0)
    if len(rows) == 0:
        return np.zeros_like(a)
    collected = [bars[-1]]
    for j in range(len(rows) - 2, -1, -1):
        collected.append(bars[j] + rows[j + 1] * collected[-1])
    before = np.cumprod(np.concatenate([np.ones_like(rows[:1]), rows[:-1]]), axis=0)
    result = before * np.stack(collected[::-1])
    return result.reshape(a.shape) if axis is None else np.moveaxis(result, 0, axis)


function(np.cumsum, cumsum_pullback, linear=True)
function(np.cumprod, cumprod_pullback)


def cumulative(accumulate: Any, first: Any) -> Any:
    """The array API's name for `cumsum` or `cumprod`, `accumulate`, which can put a `first` element in front."""

    def implementation(
        x: Any, *, axis: int | None = None, dtype: Any = None, out: None = None, include_initial: bool = False
    ) -> Any:
        y = accumulate(x, axis, dtype)
        if not include_initial:
            return y
        at = 0 if axis is None else axis
        return np.concatenate([first(np.take(y, [0], axis=at)), y], axis=at)

    return implementation


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    composed(np.cumulative_sum, cumulative(np.cumsum, np.zeros_like))
    composed(np.cumulative_prod, cumulative(np.cumprod, np.ones_like))
