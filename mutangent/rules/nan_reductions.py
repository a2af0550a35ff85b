"""Derivatives of the reductions that pass over nan: they select the numbers first, and reduce these.

What is not selected takes no part, so that the function which made the nan need not have a derivative there.
"""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import namespace_of
from .._rulebook import composed, no_rule
from .assembling import in_dtype
from .dispatch import array_of
from .order_statistics import selected
from .reductions import Axis


def given(where: Any, initial: Any = None, default: Any = None) -> dict[str, Any]:
    """The settings of a reduction that are not what they are by default: CuPy has no such keywords."""
    settings: dict[str, Any] = {} if where is True else {"where": where}
    if type(initial) is not type(default) or initial != default:
        settings["initial"] = initial
    return settings


def is_number(a: Any) -> Any:
    """Where `a` is a number."""
    return np.logical_not(np.isnan(a))


def numbers_in(a: Any, instead: Any) -> Any:
    """`a` with something instead of every nan."""
    a = array_of(a)
    return np.where(np.isnan(a), instead, a)


# -- sums and extrema ----------------------------------------------------------------------------------------------


def nan_sum(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    initial: Any = 0,
    where: Any = True,
) -> Any:
    return np.sum(numbers_in(a, 0), axis=axis, dtype=dtype, keepdims=keepdims, **given(where, initial, 0))


def nan_mean(
    a: Any,
    axis: Axis = None,
    dtype: Any = None,
    out: None = None,
    keepdims: bool = False,
    *,
    where: Any = True,
) -> Any:
    total = np.sum(numbers_in(a, 0), axis=axis, dtype=dtype, keepdims=keepdims, **given(where))
    count = np.sum(is_number(a), axis=axis, keepdims=keepdims, **given(where))
    if np.any(count == 0):
        warnings.warn("Mean of empty slice", RuntimeWarning, stacklevel=2)
    divisor = count.astype(np.result_type(total.dtype, np.float32))
    with np.errstate(divide="ignore", invalid="ignore"):
        return in_dtype(total / divisor, total.dtype)


def nan_extremum(extremum: Callable[..., Any], instead: float) -> Callable[..., Any]:
    def implementation(
        a: Any,
        axis: Axis = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = None,
        where: Any = True,
    ) -> Any:
        settings = {} if initial is None else {"initial": initial}
        y = extremum(numbers_in(a, instead), axis=axis, keepdims=keepdims, **given(where), **settings)
        nothing = np.logical_not(np.any(is_number(a), axis=axis, keepdims=keepdims, **given(where)))
        if initial is None and np.any(nothing):
            warnings.warn("All-NaN slice encountered", RuntimeWarning, stacklevel=2)
            y = selected(nothing, y.dtype.type(np.nan), y)
        return y

    return implementation


composed(np.nansum, nan_sum)
composed(np.nanmean, nan_mean)
composed(np.nanmax, nan_extremum(np.max, -np.inf))
composed(np.nanmin, nan_extremum(np.min, np.inf))

# -- variance ------------------------------------------------------------------------------------------------------


def nan_spread(spread: Callable[..., Any]) -> Callable[..., Any]:
    """The variance, or its root, of the numbers."""

    def implementation(
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
        given = {"mean": mean, "correction": correction}
        settings = {name: value for name, value in given.items() if value is not None}
        chosen = np.logical_and(is_number(a), where)
        if namespace_of(a) is not np:
            return filled(a, axis, dtype, ddof, keepdims, chosen, settings)
        less = ddof if correction is None else correction
        bad = np.sum(chosen, axis=axis, keepdims=keepdims) <= less
        if np.any(bad):
            warnings.warn("Degrees of freedom <= 0 for slice.", RuntimeWarning, stacklevel=2)
        with np.errstate(divide="ignore", invalid="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # it has been said
            y = spread(numbers_in(a, 0), axis, dtype, None, ddof, keepdims, where=chosen, **settings)
        return selected(bad, y.dtype.type(np.nan), y) if np.any(bad) else y

    def filled(
        a: Any, axis: Axis, dtype: Any, ddof: float, keepdims: bool, chosen: Any, settings: dict[str, Any]
    ) -> Any:
        """Without `where=`, which CuPy has not: the mean in place of what is not chosen adds nothing to the squares."""
        if settings:
            raise no_rule(spread, f" of CuPy's arrays with nan and {', '.join(settings)}=")
        a = array_of(a) if dtype is None else np.astype(a, np.dtype(dtype))
        count = np.sum(chosen, axis=axis, keepdims=True).astype(a.real.dtype)
        numbers = np.where(chosen, a, 0)
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = np.sum(numbers, axis=axis, keepdims=True) / count
            y = spread(np.where(chosen, a, mean), axis=axis, keepdims=True)
            ratio = np.where(count > ddof, count.dtype.type(a.size / max(1, y.size)) / (count - ddof), np.nan)
        y = y * (ratio if spread is np.var else np.sqrt(ratio))
        return y if keepdims else np.reshape(y, np.sum(chosen, axis=axis).shape)

    return implementation


composed(np.nanvar, nan_spread(np.var))
composed(np.nanstd, nan_spread(np.std))

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
    return np.prod(numbers_in(a, 1), axis=axis, dtype=dtype, keepdims=keepdims, **given(where, initial, 1))


composed(np.nanprod, nan_product)
composed(np.nancumsum, lambda a, axis=None, dtype=None, out=None: np.cumsum(numbers_in(a, 0), axis, dtype))
composed(np.nancumprod, lambda a, axis=None, dtype=None, out=None: np.cumprod(numbers_in(a, 1), axis, dtype))
