"""Derivatives of medians and quantiles, of partly sorted arrays and of sets of numbers.

Each result is made of few elements of the operand. Which ones, NumPy says itself when it is asked about the positions
0, 1, 2, … in place of the sorted numbers, for all of its methods.
"""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.array_utils import normalize_axis_tuple

from .._arrays import arange, beside, namespace_of
from .._rulebook import composed, no_rule
from .dispatch import is_traced, plain
from .indexing import size_of
from .reductions import Axis, axes_of

# -- quantiles -----------------------------------------------------------------------------------------------------


# The methods that interpolate nothing.
DISCRETE = ("lower", "higher", "nearest", "inverted_cdf", "closest_observation")


def in_front(a: Any, axis: Axis) -> Any:
    """`a` with the axes that are reduced as the first one."""
    axes = axes_of(axis, np.ndim(a))
    if axis is not None:
        normalize_axis_tuple(axis, np.ndim(a))  # raises for an axis that there is not
    moved = np.moveaxis(a, axes, range(len(axes)))
    return moved.reshape((size_of(moved.shape[: len(axes)]), *moved.shape[len(axes) :]))


def with_axes_kept(y: Any, a: Any, axis: Axis, leading: int = 0) -> Any:
    """`y`, a reduction of `a` after `leading` axes of its own, with the reduced axes kept as length 1."""
    axes = axes_of(axis, np.ndim(a))
    return np.expand_dims(y, tuple([leading + k for k in axes]))


def selected(condition: Any, x: Any, y: Any) -> Any:
    """`numpy.where`, but a number where all are numbers."""
    if np.ndim(condition) == 0:
        return x if condition else y
    return np.where(condition, x, y)


def interpolated(low: Any, high: Any, fraction: Any) -> Any:
    """NumPy's own formula, which is exact at both ends."""
    step = high - low
    return selected(fraction >= 0.5, high - step * (1 - fraction), low + step * fraction)


def positions(s: Any, q: Any, method: Any, skip_nan: bool) -> Any:
    """Where the quantiles of numbers sorted on the first axis lie among them, as fractions of a step."""
    n = s.shape[0]
    if is_traced(q):
        if method != "linear" or skip_nan:
            raise no_rule(np.quantile, f" with respect to q and method={method!r}")
        return q * (n - 1)
    if skip_nan and namespace_of(s) is not np:
        if method != "linear":
            raise no_rule(np.nanquantile, f" of CuPy's arrays with method={method!r}")
        count = np.sum(np.logical_not(np.isnan(plain(s))), axis=0)
        at = np.reshape(q, np.shape(q) + (1,) * (s.ndim - 1)) if np.ndim(q) else q
        return np.where(count > 0, at * (count - 1.0), np.nan)  # CuPy has no nanquantile
    if skip_nan:
        ranks = arange(n, s, np.float64).reshape((n,) + (1,) * (s.ndim - 1))
        return np.nanquantile(np.where(np.isnan(plain(s)), np.nan, ranks), q, axis=0, method=method)
    return np.quantile(arange(n, s, np.float64), q, method=method)


def quantiles(a: Any, q: Any, axis: Axis, method: str, keepdims: bool, skip_nan: bool) -> Any:
    s = np.sort(in_front(a, axis), axis=0)
    at = positions(s, q, method, skip_nan)
    unknown = np.isnan(plain(at)) if skip_nan else np.isnan(plain(s[-1]))
    whole = np.where(np.isnan(plain(at)), 0, np.floor(plain(at)))
    below = whole.astype(np.intp)[()]
    above = np.minimum(below + 1, s.shape[0] - 1)
    fraction = at - whole.astype(at.dtype)[()]
    # An element itself, and a quantile given as a Python number, do not widen float32.
    if method in DISCRETE or type(q) in (int, float) or (method == "linear" and q.dtype.kind in "iub"):
        fraction = fraction.astype(s.dtype)
    elif not is_traced(q) and q.dtype.kind == "f":
        fraction = fraction.astype(q.dtype)
    if skip_nan:
        flat = (-1, *s.shape[1:])
        low = np.take_along_axis(s, below.reshape(flat), axis=0).reshape(below.shape)[()]
        high = np.take_along_axis(s, above.reshape(flat), axis=0).reshape(below.shape)[()]
        high = selected(fraction > 0, high, low)  # the next one may be a nan
    else:
        fraction = fraction.reshape(np.shape(q) + (1,) * (s.ndim - 1))
        low, high = np.take(s, below, axis=0), np.take(s, above, axis=0)
    y = interpolated(low, high, fraction)
    if np.any(unknown):
        y = selected(unknown, s.dtype.type(np.nan), y)
    return with_axes_kept(y, a, axis, np.ndim(q)) if keepdims else y


def weights_in_front(weights: Any, a: Any, axis: Axis) -> Any:
    """Weights of the shape of `a`, or of its reduced axes, as `in_front` orders `a`. They decide on the positions only."""
    weights = np.asarray(plain(weights))
    if weights.shape != np.shape(a):
        if axis is None:
            raise TypeError("Axis must be specified when shapes of a and weights differ.")
        axes = axes_of(axis, np.ndim(a))
        if weights.shape != tuple([np.shape(a)[k] for k in axes]):
            raise ValueError("Shape of weights must be consistent with shape of a along specified axis.")
        weights = np.transpose(weights, np.argsort(axes))
        weights = weights.reshape([n if k in axes else 1 for k, n in enumerate(np.shape(a))])
        weights = np.broadcast_to(weights, np.shape(a))
    return in_front(weights, axis)


def weighted_quantiles(
    a: Any, q: Any, axis: Axis, method: Any, keepdims: bool, skip_nan: bool, weights: Any
) -> Any:
    """Each result is one element. The weights decide which one, and have no derivative."""
    if is_traced(q):
        raise no_rule(np.quantile, " with respect to q and weights=")
    unsorted = in_front(a, axis)
    order = np.argsort(plain(unsorted), axis=0)
    s = np.take_along_axis(unsorted, order, axis=0)
    weights = np.take_along_axis(weights_in_front(weights, a, axis), order, axis=0)
    ranks = arange(s.shape[0], s, np.float64).reshape((-1,) + (1,) * (s.ndim - 1))
    ranks = np.where(np.isnan(plain(s)), np.nan, ranks)
    at = (np.nanquantile if skip_nan else np.quantile)(ranks, q, axis=0, method=method, weights=weights)
    unknown = np.isnan(at)
    places = np.where(unknown, 0, at).astype(np.intp).reshape((-1, *s.shape[1:]))
    y = np.take_along_axis(s, places, axis=0).reshape(np.shape(at))
    if not isinstance(at, np.ndarray):
        y = y[()]
    if np.any(unknown):
        y = np.where(unknown, s.dtype.type(np.nan), y)
    return with_axes_kept(y, a, axis, np.ndim(q)) if keepdims else y


def quantile_function(scale: float, skip_nan: bool) -> Callable[..., Any]:
    """`quantile`, or with a scale of 100 `percentile`."""

    def implementation(
        a: Any,
        q: Any,
        axis: Axis = None,
        out: None = None,
        overwrite_input: bool = False,
        method: str = "linear",
        keepdims: bool = False,
        *,
        weights: Any = None,
    ) -> Any:
        q = beside(np.array(q), a) if isinstance(q, list | tuple) else q
        q = q if scale == 1 else q / scale
        if weights is not None:
            return weighted_quantiles(a, q, axis, method, keepdims, skip_nan, weights)
        return quantiles(a, q, axis, method, keepdims, skip_nan)

    return implementation


def middle(
    a: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    s = np.sort(in_front(a, axis), axis=0)
    n = s.shape[0]
    if n == 0:
        return np.mean(a, axis=axis, keepdims=keepdims)  # nan, with NumPy's warning
    y = np.mean(s[list(range((n - 1) // 2, n // 2 + 1))], axis=0)
    if np.any(np.isnan(plain(s[-1]))):
        y = selected(np.isnan(plain(s[-1])), s.dtype.type(np.nan), y)
    return with_axes_kept(y, a, axis) if keepdims else y


def nan_middle(
    a: Any, axis: Axis = None, out: None = None, overwrite_input: bool = False, keepdims: bool = False
) -> Any:
    return quantiles(a, 0.5, axis, "linear", keepdims, skip_nan=True)


composed(np.median, middle)
composed(np.nanmedian, nan_middle)
composed(np.quantile, quantile_function(1, skip_nan=False))
composed(np.percentile, quantile_function(100, skip_nan=False))
composed(np.nanquantile, quantile_function(1, skip_nan=True))
composed(np.nanpercentile, quantile_function(100, skip_nan=True))
