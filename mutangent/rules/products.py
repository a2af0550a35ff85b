"""Derivatives of products and of cumulative sums and products.

Products never divide, so zeros among the factors are no special case.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, function
from .reductions import Axis, axes_of, kept, reduced_length

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
    g: Any,
    _y: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = 1,
    where: Any = True,
) -> Any:
    others = products_of_others(a if where is True else np.where(where, a, 1), axis)
    if initial != 1:
        others = others * initial
    found = kept(g, a.shape, axis, keepdims) * (np.conj(others) if a.dtype.kind == "c" else others)
    return found if where is True else np.where(where, found, 0)


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
    if a.ndim == 0:
        axis = None
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
        at = 0 if axis is None else range(y.ndim)[axis]
        shape = (*y.shape[:at], 1, *y.shape[at + 1 :])
        return np.concatenate([first(y, shape=shape), y], axis=at)

    return implementation


if hasattr(np, "cumulative_sum"):  # NumPy 2.1
    composed(np.cumulative_sum, cumulative(np.cumsum, np.zeros_like))
    composed(np.cumulative_prod, cumulative(np.cumprod, np.ones_like))
