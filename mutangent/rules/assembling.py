"""Derivatives of functions that assemble an array from parts: blocks, choices, insertions, results of a user's function."""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arrays import as_array, beside
from .._rulebook import composed
from .dispatch import array_of, plain
from .indexing import size_of

# -- blocks --------------------------------------------------------------------------------------------------------


def depth_of(arrays: Any) -> int:
    return 1 + depth_of(arrays[0]) if type(arrays) is list else 0


def axes_in(arrays: Any) -> int:
    return max(map(axes_in, arrays)) if type(arrays) is list else np.ndim(arrays)


def with_axes(x: Any, ndim: int) -> Any:
    return np.reshape(x, (1,) * (ndim - np.ndim(x)) + np.shape(x))


def blocks(arrays: Any) -> Any:
    depth = depth_of(arrays)
    ndim = max(depth, axes_in(arrays))

    def joined(part: Any, axis: int) -> Any:
        if type(part) is list:
            return np.concatenate([joined(each, axis + 1) for each in part], axis=axis)
        return with_axes(part, ndim)

    return joined(arrays, -depth) if depth else np.copy(arrays)


composed(np.block, blocks)

# -- choices -------------------------------------------------------------------------------------------------------


def chosen(a: Any, choices: Any, out: None = None, mode: str = "raise") -> Any:
    number = as_array(a)  # whole numbers, never traced
    count = len(choices)
    if mode == "wrap":
        number = np.remainder(number, count)
    elif mode == "clip":
        number = np.clip(number, 0, count - 1)
    elif np.any((number < 0) | (number >= count)):
        raise ValueError("invalid entry in choice array")
    shape = np.broadcast_shapes(np.shape(number), *[np.shape(each) for each in choices])
    found = np.broadcast_to(choices[0], shape)
    for k in range(1, count):
        found = np.where(number == k, choices[k], found)
    return found if count > 1 else np.copy(found)


composed(np.choose, chosen)


def in_dtype(x: Any, dtype: Any) -> Any:
    """A number or array in another dtype, as an assignment casts it."""
    if not hasattr(x, "dtype"):
        return np.asarray(x, dtype)[()]
    if x.dtype == dtype:
        return x
    return np.astype(np.real(x) if dtype.kind == "f" else x, dtype)


def piecewise(x: Any, condlist: Any, funclist: Any, *args: Any, **kw: Any) -> Any:
    """Each function sees only the elements that it is responsible for."""
    several = isinstance(condlist, list | tuple)
    if (not several and np.ndim(condlist) == 0) or (
        not isinstance(condlist[0], list) and np.ndim(condlist[0]) == 0 and np.ndim(x)
    ):
        condlist = [condlist]
    conditions = [np.broadcast_to(as_array(plain(each), bool), np.shape(x)) for each in condlist]
    if len(funclist) == len(conditions) + 1:
        conditions.append(~np.any(np.stack(conditions), axis=0))
    elif len(funclist) != len(conditions):
        raise ValueError(
            f"with {len(conditions)} condition(s), either that many functions or one more are expected"
        )
    flat = np.reshape(x, (-1,))
    y = np.zeros_like(flat)
    for condition, function in zip(conditions, funclist, strict=True):
        places = np.flatnonzero(condition)
        if len(places) == 0:
            continue
        part = function(flat[places], *args, **kw) if callable(function) else function
        values = np.broadcast_to(beside(in_dtype(part, x.dtype), flat), places.shape)
        numbers = np.cumsum(condition.reshape(-1)) - 1
        y = np.where(condition.reshape(-1), values[np.maximum(numbers, 0)], y)
    return np.reshape(y, np.shape(x))


composed(np.piecewise, piecewise)

# -- insertions ----------------------------------------------------------------------------------------------------


def inserted(arr: Any, obj: Any, values: Any, axis: int | None = None) -> Any:
    """NumPy inserts the numbers of the values among those of the elements; then the elements follow their numbers."""
    arr = array_of(arr)
    if axis is None:
        arr, axis = np.ravel(arr), 0
    size = size_of(arr.shape)
    values = array_of(values)
    own = np.arange(size).reshape(arr.shape)
    others = size + np.arange(np.size(values)).reshape(np.shape(values))
    order = np.insert(own, obj, others, axis)
    return np.concatenate([np.ravel(arr), np.reshape(in_dtype(values, arr.dtype), (-1,))])[order]


composed(np.insert, inserted)

# -- a user's function along axes ----------------------------------------------------------------------------------


def applied_along(func1d: Callable[..., Any], axis: int, arr: Any, *args: Any, **kwargs: Any) -> Any:
    lines = np.moveaxis(arr, axis, -1)
    outer = lines.shape[:-1]
    rows = np.reshape(lines, (size_of(outer), lines.shape[-1]))
    found = [func1d(rows[k], *args, **kwargs) for k in range(rows.shape[0])]
    stacked = np.stack(found)
    inner = stacked.shape[1:]
    at = axis % arr.ndim
    result = np.reshape(stacked, (*outer, *inner))
    return np.moveaxis(result, range(len(outer), result.ndim), range(at, at + len(inner)))


def applied_over(func: Callable[..., Any], a: Any, axes: int | Sequence[int]) -> Any:
    for axis in [axes] if isinstance(axes, int) else axes:
        found = func(a, axis)
        a = found if np.ndim(found) == np.ndim(a) else np.expand_dims(found, axis)
    return a


composed(np.apply_along_axis, applied_along)
composed(np.apply_over_axes, applied_over)

# -- other orders --------------------------------------------------------------------------------------------------


def rolled(a: Any, axis: int, start: int = 0) -> Any:
    axis %= a.ndim
    start = start + a.ndim if start < 0 else start
    return np.moveaxis(a, axis, start - 1 if axis < start else start)


composed(np.rollaxis, rolled)
composed(np.diagflat, lambda v, k=0: np.diag(np.ravel(v), k))


def real_if_close(a: Any, tol: float = 100) -> Any:
    a = np.copy(a) if np.ndim(a) == 0 else a  # a number becomes an array without axes
    if not np.iscomplexobj(a):
        return a
    limit = tol * float(np.finfo(a.dtype).eps) if tol > 1 else tol
    return np.real(a) if np.all(np.absolute(plain(np.imag(a))) < limit) else a


composed(np.real_if_close, real_if_close)


def open_mesh(*args: Any) -> tuple[Any, ...]:
    shapes = [[-1 if axis == k else 1 for axis in range(len(args))] for k in range(len(args))]
    plain_mesh = np.ix_(*map(plain, args))  # it checks the arguments, and makes indices of masks
    return tuple(
        [
            np.reshape(arg, shape) if made.dtype.kind in "fc" else made
            for arg, shape, made in zip(args, shapes, plain_mesh, strict=True)
        ]
    )


composed(np.ix_, open_mesh)
