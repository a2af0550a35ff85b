"""Derivatives of functions that select elements, some of them several times or never.

Whatever the selection, the same call on the numbers of the elements says where each element of the result came from.
The cotangents are then added up at those places.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, function
from .dispatch import array_beside, array_of, dispatched

Shape = tuple[int, ...]


def size_of(shape: Shape) -> int:
    """How many elements an array of `shape` has."""
    size = 1
    for length in shape:
        size *= length
    return size


def numbers(shape: Shape, like: Any) -> Any:
    """0, 1, 2, … in an array of `shape`, in the array library of `like`."""
    return (np.cumsum(np.ones_like(like, dtype=np.intp, shape=(size_of(shape),))) - 1).reshape(shape)


def added_at(places: Any, g: Any, shape: Shape) -> Any:
    """Zeros of `shape` with every element of `g` added at its place, counted in C order."""
    flat, weights, size = places.reshape((places.size,)), g.reshape((g.size,)), size_of(shape)
    if g.dtype.kind == "c":
        total = np.bincount(flat, np.real(weights), size) + 1j * np.bincount(flat, np.imag(weights), size)
    else:
        total = np.bincount(flat, weights, size)
    return total.astype(g.dtype).reshape(shape)


# NumPy adds in float64, whatever the weights.
function(
    np.bincount,
    None,
    lambda g, _y, x, _weights=None, minlength=0: g[x].astype(_weights.dtype),
    linear=True,
)

# -- selection by index --------------------------------------------------------------------------------------------


def taken(a: Any, indices: Any, axis: int | None = None, out: None = None, mode: str = "raise") -> Any:
    if axis is None:
        a, axis = np.ravel(a), 0
    length = a.shape[axis]
    if mode == "wrap":
        indices = np.remainder(indices, length)
    elif mode == "clip":
        indices = np.clip(indices, 0, length - 1)
    found = a[(slice(None),) * (axis % a.ndim) + (indices,)]
    # A number as an index makes a view, and this function a copy.
    return np.copy(found) if np.ndim(indices) == 0 and np.ndim(found) else found


def chosen_by_first(condlist: Any, choicelist: Any, default: Any = 0) -> Any:
    found = default
    for condition, choice in zip(reversed(condlist), reversed(choicelist), strict=True):
        found = np.where(condition, choice, found)
    return found


def remaining(arr: Any, obj: Any, axis: int | None = None) -> Any:
    if axis is None:
        arr, axis = np.ravel(arr), 0
    return np.take(arr, np.delete(np.arange(arr.shape[axis]), obj), axis=axis)


composed(np.take, taken)
composed(
    np.compress,
    lambda condition, a, axis=None, out=None: np.take(a, np.flatnonzero(condition), axis=axis),
)
composed(np.extract, lambda condition, arr: np.take(arr, np.flatnonzero(condition)))
composed(np.select, chosen_by_first)
composed(np.delete, remaining)


def take_along_axis_pullback(g: Any, _y: Any, _arr: Any, indices: Any = None, axis: int | None = -1) -> Any:
    return added_at(np.take_along_axis(numbers(_arr.shape, g), indices, axis=axis), g, _arr.shape)


def repeat_pullback(g: Any, _y: Any, _a: Any, repeats: Any = None, axis: int | None = None) -> Any:
    if type(repeats) is not int:
        return added_at(np.repeat(numbers(_a.shape, g), repeats, axis=axis), g, _a.shape)
    if axis is None:
        return np.sum(g.reshape((_a.size, repeats)), axis=1).reshape(_a.shape)
    after = axis % _a.ndim + 1
    return np.sum(g.reshape((*_a.shape[:after], repeats, *_a.shape[after:])), axis=after)


function(np.take_along_axis, take_along_axis_pullback, linear=True, selects=True)
function(np.repeat, repeat_pullback, linear=True)


def resize_pullback(g: Any, _y: Any, _a: Any, new_shape: Any = None) -> Any:
    if _a.size == 0:  # the new elements are zeros, which come from nowhere
        return np.zeros_like(g, shape=_a.shape)
    return added_at(np.resize(numbers(_a.shape, g), new_shape), g, _a.shape)


function(np.resize, resize_pullback, linear=True)

# -- diagonals -----------------------------------------------------------------------------------------------------


def diag_pullback(g: Any, _y: Any, _v: Any, k: int = 0) -> Any:
    if _v.ndim == 1:
        return np.diag(g, k)
    return added_at(np.diag(numbers(_v.shape, g), k), g, _v.shape)


def diagonal_pullback(g: Any, _y: Any, _a: Any, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
    return added_at(np.diagonal(numbers(_a.shape, g), offset, axis1, axis2), g, _a.shape)


function(np.diag, diag_pullback, linear=True)
function(np.diagonal, diagonal_pullback, linear=True)
composed(
    np.trace,
    lambda a, offset=0, axis1=0, axis2=1, dtype=None, out=None: np.sum(
        np.diagonal(a, offset, axis1, axis2), axis=-1, dtype=dtype
    ),
)

# -- sorting, differences, sums over an axis -----------------------------------------------------------------------


def sorted_along(
    a: Any, axis: int | None = -1, kind: Any = None, order: None = None, *, stable: bool | None = None
) -> Any:
    if axis is None:
        a, axis = np.ravel(a), -1
    settings: dict[str, Any] = {} if stable is None else {"stable": stable}  # CuPy has no such keyword
    return np.take_along_axis(a, np.argsort(a, axis=axis, kind=kind, **settings), axis=axis)


composed(np.sort, sorted_along)


def differences(a: Any, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> Any:
    """The same slices as NumPy's own, so that the same rounding."""
    a = array_of(a)
    if n == 0:
        return a
    ends = [array_beside(x, a) for x in (prepend, a, append) if x is not None]
    if len(ends) > 1:
        shape = list(np.shape(a))
        shape[axis] = 1
        ends = [np.broadcast_to(x, shape) if np.ndim(x) == 0 else x for x in ends]
        a = np.concatenate(ends, axis=axis)
    before = (slice(None),) * (axis % a.ndim)
    for _ in range(n):
        a = a[(*before, slice(1, None))] - a[(*before, slice(None, -1))]
    return a


def trapezoids(y: Any, x: Any = None, dx: Any = 1.0, axis: int = -1) -> Any:
    """The same formula as NumPy's own."""
    y = array_of(y)
    before = (slice(None),) * (axis % y.ndim)
    if x is None:
        width = dx
    elif np.ndim(x) == 1:
        width = np.diff(x)
        width = np.reshape(width, tuple([-1 if k == len(before) else 1 for k in range(y.ndim)]))
    else:
        width = np.diff(x, axis=axis)
    heights = y[(*before, slice(1, None))] + y[(*before, slice(None, -1))]
    return np.sum(width * heights / 2.0, axis=axis)


composed(np.diff, differences)
composed(np.trapezoid, trapezoids)

# -- interpolation -------------------------------------------------------------------------------------------------


def interval(x: Any, xp: Any, fp: Any) -> tuple[Any, Any, Any]:
    """For each `x` the number of the point below it, how far it is to the next one, and the slope, 0 outside."""
    n = xp.shape[0]
    below = np.clip(np.searchsorted(xp, x, side="right") - 1, 0, n - 2)
    width = xp[below + 1] - xp[below]
    inside = np.logical_and(x >= xp[0], x <= xp[n - 1])
    return (
        below,
        np.where(inside, (x - xp[below]) / width, x > xp[0]),
        np.where(inside, (fp[below + 1] - fp[below]) / width, 0),
    )


def interp_pullback(g: Any, _y: Any, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None) -> Any:
    return g * np.conj(interval(x, xp, fp)[2])


def interp_points_pullback(
    g: Any, _y: Any, x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None
) -> Any:
    below, fraction, slope = interval(x, xp, fp)
    g = -g * np.conj(slope)
    return added_at(below, g * (1 - fraction), np.shape(xp)) + added_at(below + 1, g * fraction, np.shape(xp))


def interp_values_pullback(
    g: Any, _y: Any, x: Any, xp: Any, _fp: Any, left: Any = None, right: Any = None
) -> Any:
    below, fraction, _ = interval(x, xp, xp)
    # Outside of the points their first and last values are the result, unless others are given.
    if left is not None:
        g = np.where(x < xp[0], 0, g)
    if right is not None:
        g = np.where(x > xp[xp.shape[0] - 1], 0, g)
    return added_at(below, g * (1 - fraction), _fp.shape) + added_at(below + 1, g * fraction, _fp.shape)


def interpolated(x: Any, xp: Any, fp: Any, left: Any = None, right: Any = None, period: Any = None) -> Any:
    if period is None:
        return interp(x, xp, fp, left, right)
    period, xp, fp = np.absolute(period), array_of(xp), array_of(fp)
    x, xp = np.remainder(array_of(x), period), np.remainder(xp, period)
    order = np.argsort(xp)
    xp, fp = xp[order], fp[order]
    # One point more at either end, so that every number lies between two.
    return interp(
        x, np.concatenate([xp[-1:] - period, xp, xp[:1] + period]), np.concatenate([fp[-1:], fp, fp[:1]])
    )


interp = dispatched(np.interp)
function(
    interp,
    interp_pullback,
    interp_points_pullback,
    interp_values_pullback,
    keywords={"left": 3, "right": 4},
)
composed(np.interp, interpolated)
