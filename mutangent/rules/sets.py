"""Derivatives of functions that select elements by their values: partly sorted arrays, and sets.

NumPy finds out which elements with the plain numbers; they are then taken from the operand.
"""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._rulebook import composed
from .dispatch import plain

# -- sorting -------------------------------------------------------------------------------------------------------


def partitioned(
    a: Any, kth: Any, axis: int | None = -1, kind: Any = "introselect", order: None = None
) -> Any:
    if axis is None:
        a, axis = np.ravel(a), -1
    settings = {} if kind == "introselect" else {"kind": kind}  # CuPy has no such keyword
    values = plain(a)
    # What `partition` leaves in no order is in another order than that of `argpartition`, on some processors.
    found = np.partition(values, kth, axis, **settings)
    rank = np.argsort(np.argsort(found, axis=axis, kind="stable"), axis=axis, kind="stable")
    places = np.take_along_axis(np.argsort(values, axis=axis, kind="stable"), rank, axis=axis)
    return np.take_along_axis(a, places, axis=axis)


def as_complex(a: Any) -> Any:
    return a if np.iscomplexobj(a) else np.astype(a, np.complex128)


composed(np.partition, partitioned)
composed(np.sort_complex, lambda a: np.sort(as_complex(a)))


def trimmed(filt: Any, trim: str = "fb", axis: Any = None) -> Any:
    """The part of an array from its first nonzero element to its last, on each axis."""
    found = np.argwhere(plain(filt))
    axes = range(np.ndim(filt)) if axis is None else (axis,) if isinstance(axis, int) else axis
    if not len(axes):
        return filt
    cuts = [slice(None)] * np.ndim(filt)
    for k in axes:
        if len(found) == 0:
            cuts[k] = slice(0, 0)
            continue
        first, last = found[:, k].min(), found[:, k].max() + 1
        cuts[k] = slice(first if "f" in trim.lower() else None, last if "b" in trim.lower() else None)
    return filt[tuple(cuts)]


composed(np.trim_zeros, trimmed)

# -- sets ----------------------------------------------------------------------------------------------------------


def places(x: Any, values: Any) -> Any:
    """Where each of the distinct `values` is first found in `x`."""
    found, first = np.unique(plain(x), return_index=True, equal_nan=False)
    return first[np.searchsorted(found, values)]


def unique(
    ar: Any,
    return_index: bool = False,
    return_inverse: bool = False,
    return_counts: bool = False,
    axis: int | None = None,
    *,
    equal_nan: bool = True,
    sorted: bool = True,
) -> Any:
    if not sorted and axis is None and not (return_index or return_inverse or return_counts):
        return np.ravel(ar)[places(ar, np.unique(plain(ar), equal_nan=equal_nan, sorted=False))]
    returned: dict[str, Any] = {"return_inverse": return_inverse, "return_counts": return_counts}
    found: Any = np.unique(plain(ar), True, axis=axis, equal_nan=equal_nan, **returned)
    values = np.ravel(ar)[found[1]] if axis is None else np.take(ar, found[1], axis=axis)
    results = (values, *found[1 if return_index else 2 :])
    return results if len(results) > 1 else values


def unique_tuple(function: Callable[..., Any]) -> Callable[..., Any]:
    """One of the array API's functions with a named tuple as the result."""

    def implementation(x: Any) -> Any:
        found = function(plain(x))
        return found._replace(values=np.ravel(x)[places(x, found.values)])

    return implementation


composed(np.unique, unique)
composed(np.unique_values, lambda x: np.ravel(x)[places(x, np.unique_values(plain(x)))])
for named in (np.unique_all, np.unique_counts, np.unique_inverse):
    composed(named, unique_tuple(named))


def intersection(ar1: Any, ar2: Any, assume_unique: bool = False, return_indices: bool = False) -> Any:
    _, first, second = np.intersect1d(plain(ar1), plain(ar2), assume_unique, True)
    values = np.ravel(ar1)[first]
    return (values, first, second) if return_indices else values


def difference(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    values = np.ravel(ar1) if assume_unique else np.unique(ar1)
    return values[np.logical_not(np.isin(plain(values), plain(ar2)))]


def symmetric_difference(ar1: Any, ar2: Any, assume_unique: bool = False) -> Any:
    if not assume_unique:
        ar1, ar2 = np.unique(ar1), np.unique(ar2)
    values = np.sort(np.concatenate([np.ravel(ar1), np.ravel(ar2)]))
    _, place, counts = np.unique(plain(values), return_inverse=True, return_counts=True)
    return values[counts[place] == 1]


composed(np.intersect1d, intersection)
composed(np.setdiff1d, difference)
composed(np.setxor1d, symmetric_difference)
composed(np.union1d, lambda ar1, ar2: np.unique(np.concatenate([np.ravel(ar1), np.ravel(ar2)])))
