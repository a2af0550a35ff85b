"""Derivatives of averages, covariances and histograms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from .._arrays import namespace_of
from .._rulebook import composed
from .assembling import in_dtype
from .contractions import conjugated
from .dispatch import array_of, plain
from .indexing import added_at
from .reductions import Axis, axes_of

# -- averages ------------------------------------------------------------------------------------------------------


def average(
    a: Any, axis: Axis = None, weights: Any = None, returned: bool = False, *, keepdims: bool = False
) -> Any:
    if weights is None:
        mean = np.mean(a, axis=axis, keepdims=keepdims)
        total = np.broadcast_to(mean.dtype.type(np.size(a) / mean.size), mean.shape)
    else:
        if np.shape(weights) != np.shape(a):
            axes = axes_of(axis, np.ndim(a))
            weights = np.transpose(weights, np.argsort(axes))
            weights = np.reshape(weights, [n if k in axes else 1 for k, n in enumerate(np.shape(a))])
        dtype = np.result_type(*[x if hasattr(x, "dtype") else np.asarray(x) for x in (a, weights)])
        total = np.sum(weights, axis=axis, dtype=dtype, keepdims=keepdims)
        if np.any(plain(total) == 0):
            raise ZeroDivisionError("Weights sum to zero, can't be normalized")
        mean = np.sum(a * weights, axis=axis, keepdims=keepdims) / total
        total = np.broadcast_to(total, mean.shape)
    return (mean, total) if returned else mean


composed(np.average, average)

# -- covariances ---------------------------------------------------------------------------------------------------


def variables(m: Any, y: Any, rowvar: bool, dtype: Any) -> Any:
    """Observations of all variables, one variable a row."""
    both = [array_of(x) for x in ([m] if y is None else [m, y])]
    dtype = dtype or np.result_type(*both, np.float64)
    rows = []
    for k, x in enumerate(both):
        row = np.atleast_2d(np.astype(x, dtype) if x.dtype != dtype else x)
        as_columns = np.ndim(x) != 1 if k == 0 else row.shape[0] != 1
        rows.append(np.transpose(row) if as_columns and not rowvar else row)
    return rows[0] if y is None else np.concatenate(rows)


def covariance(
    m: Any,
    y: Any = None,
    rowvar: bool = True,
    bias: bool = False,
    ddof: int | None = None,
    fweights: Any = None,
    aweights: Any = None,
    *,
    dtype: Any = None,
) -> Any:
    x = variables(m, y, rowvar, dtype)
    if x.shape[0] == 0:
        return np.zeros_like(x, dtype=np.float64, shape=(0, 0))
    aweights = aweights if aweights is None else in_dtype(aweights, np.dtype(np.float64))
    less = (0 if bias else 1) if ddof is None else ddof
    w = fweights if aweights is None else aweights if fweights is None else aweights * fweights
    mean, total = average(x, axis=1, weights=w, returned=True)
    total = total[0]
    if w is None:
        freedom = x.shape[1] - less
    elif less == 0:
        freedom = total
    elif aweights is None:
        freedom = total - less
    else:
        freedom = total - less * np.sum(w * aweights) / total
    if plain(freedom) <= 0:
        warnings.warn("Degrees of freedom <= 0 for slice", RuntimeWarning, stacklevel=2)
        freedom = 0.0
    x = x - mean[:, None]
    c = np.dot(x, conjugated(np.transpose(x if w is None else x * w)))
    return np.squeeze(c * np.true_divide(1, freedom))


def correlation(x: Any, y: Any = None, rowvar: bool = True, *, dtype: Any = None) -> Any:
    c = covariance(x, y, rowvar, dtype=dtype)
    if np.ndim(c) == 0:
        return c / c
    spread = np.sqrt(np.real(np.diagonal(c)))
    c = c / spread[:, None] / spread[None, :]
    real = np.clip(np.real(c), -1, 1)
    return real + 1j * np.clip(np.imag(c), -1, 1) if np.iscomplexobj(c) else real


composed(np.cov, covariance)
composed(np.corrcoef, correlation)

# -- histograms ----------------------------------------------------------------------------------------------------


def bin_edges(a: Any, bins: Any = 10, range: Any = None, weights: Any = None) -> Any:
    """Equal bins lie between the least and the largest number; other edges do not depend on the numbers."""
    if namespace_of(a) is np:
        edges = np.histogram_bin_edges(plain(a), plain(bins), range, plain(weights))
    else:  # CuPy has the edges as the second result only
        edges = np.histogram(plain(a), plain(bins), range)[1]
    if np.ndim(bins) or range is not None or np.size(a) == 0 or edges[0] != np.min(plain(a)):
        return array_of(bins) if np.ndim(bins) else edges
    return np.linspace(np.min(a), np.max(a), len(edges))


def histogram(
    a: Any,
    bins: Any = 10,
    range: Any = None,
    density: bool | None = None,
    weights: Any = None,
) -> Any:
    edges = bin_edges(a, bins, range, weights)
    if weights is None:
        n = np.histogram(plain(a), plain(edges))[0]
    else:
        numbers, limits = np.ravel(plain(a)), plain(edges)
        place = np.searchsorted(limits, numbers, side="right") - 1
        place = np.where(numbers == limits[-1], len(limits) - 2, place)
        inside = np.flatnonzero((place >= 0) & (place < len(limits) - 1))
        chosen = np.ravel(weights)[inside]
        n = added_at(place[inside], chosen, (len(limits) - 1,))
    return (n / np.diff(edges) / np.sum(n) if density else n), edges


composed(np.histogram_bin_edges, bin_edges)
composed(np.histogram, histogram)
