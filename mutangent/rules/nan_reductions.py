"""Derivatives of the reductions that pass over nan: a nan is an element outside of `where`, and gets the derivative 0."""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, function
from .reductions import Axis, extremum_pullback, kept, std_pullback, var_pullback


def numbers_in(a: Any, where: Any = True) -> Any:
    """Where `a` is a number."""
    chosen = np.logical_not(np.isnan(a))
    return chosen if where is True else np.logical_and(chosen, where)


def nansum_pullback(
    g: Any,
    _y: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    return np.where(numbers_in(a, where), kept(g, np.shape(a), axis, keepdims), 0)


def nanmean_pullback(
    g: Any,
    _y: Any,
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    chosen = numbers_in(a, where)
    count = np.sum(chosen, axis=axis, keepdims=True, dtype=g.dtype)
    return np.where(chosen, kept(g, np.shape(a), axis, keepdims) / count, 0)


function(np.nansum, nansum_pullback)
function(np.nanmean, nanmean_pullback)
function(np.nanmax, extremum_pullback)
function(np.nanmin, extremum_pullback)

# -- variance ------------------------------------------------------------------------------------------------------


def nanvar_pullback(
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
    chosen = numbers_in(a, where)
    return var_pullback(
        g, _y, a, axis, dtype, out, ddof, keepdims, where=chosen, mean=mean, correction=correction
    )


def nanstd_pullback(
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
    chosen = numbers_in(a, where)
    return std_pullback(
        g, y, a, axis, dtype, out, ddof, keepdims, where=chosen, mean=mean, correction=correction
    )


function(np.nanvar, nanvar_pullback)
function(np.nanstd, nanstd_pullback)

# -- products and cumulative functions -----------------------------------------------------------------------------


def nan_product(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = 1,
    where: Any = True,
) -> Any:
    factors = np.where(numbers_in(a), a, 1)
    return np.prod(factors, axis=axis, dtype=dtype, keepdims=keepdims, initial=initial, where=where)


composed(np.nanprod, nan_product)
composed(
    np.nancumsum,
    lambda a, axis=None, dtype=None, out=None: np.cumsum(np.where(numbers_in(a), a, 0), axis, dtype),
)
composed(
    np.nancumprod,
    lambda a, axis=None, dtype=None, out=None: np.cumprod(np.where(numbers_in(a), a, 1), axis, dtype),
)
