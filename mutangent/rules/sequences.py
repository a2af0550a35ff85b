"""Derivatives of sequences between two numbers and of functions on the grid points of one."""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import arange, beside
from .._rulebook import composed, function
from .assembling import in_dtype
from .dispatch import array_of, strong

# -- from one number to another ------------------------------------------------------------------------------------


def as_row(x: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    """`x`, broadcast to `shape`, as one row of an array of `dtype`."""
    return np.reshape(np.broadcast_to(in_dtype(x, dtype), shape), (1, *shape))


def steps(start: Any, stop: Any, num: int, endpoint: bool) -> tuple[Any, Any]:
    """`num` numbers from `start` to `stop` on a new first axis, and the step between them."""
    start, stop = array_of(start), array_of(stop)
    delta = strong(stop - start)
    dtype = np.result_type(start, stop, float(num))
    count = arange(num, delta, np.real(np.zeros((), dtype)).dtype)
    count = count.reshape((num,) + (1,) * np.ndim(delta))
    divisions = num - 1 if endpoint else num
    if divisions <= 0:
        return count * delta + start, np.nan
    step = delta / divisions
    y = count * step + start
    if endpoint and num > 1:
        y = np.concatenate([y[:-1], as_row(beside(stop, y), np.shape(delta), dtype)])
    return np.astype(y, dtype) if y.dtype != dtype else y, step


def cast(y: Any, dtype: Any) -> Any:
    """`y` in the dtype that was asked for; whole numbers are constants."""
    if dtype is None:
        return y
    return np.astype(np.floor(y) if np.dtype(dtype).kind in "iu" else y, dtype)


def linear_steps(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    retstep: bool = False,
    dtype: Any = None,
    axis: int = 0,
    *,
    device: Any = None,
) -> Any:
    y, step = steps(start, stop, num, endpoint)
    y = cast(np.moveaxis(y, 0, axis) if axis else y, dtype)
    return (y, step) if retstep else y


def powers(
    start: Any,
    stop: Any,
    num: int = 50,
    endpoint: bool = True,
    base: Any = 10.0,
    dtype: Any = None,
    axis: int = 0,
) -> Any:
    if np.ndim(base):
        shape = np.broadcast_shapes(np.shape(start), np.shape(stop), np.shape(base))
        start, stop, base = (np.broadcast_to(x, shape) for x in (start, stop, base))
    y = np.power(base, steps(start, stop, num, endpoint)[0])
    return cast(np.moveaxis(y, 0, axis) if axis else y, dtype)


def geometric_steps(
    start: Any, stop: Any, num: int = 50, endpoint: bool = True, dtype: Any = None, axis: int = 0
) -> Any:
    start, stop = array_of(start), array_of(stop)
    # NumPy does not keep float32 here.
    result_dtype = np.result_type(start, stop, np.float64)
    start, stop = in_dtype(start, result_dtype), in_dtype(stop, result_dtype)
    # Negative numbers are turned into positive ones, and back.
    sign = np.sign(start)
    first, last = start / sign, stop / sign
    y = powers(np.log10(first), np.log10(last), num, endpoint)
    shape = y.shape[1:]
    # The ends are not left to the rounding of exp(log(x)).
    if num > 1 and endpoint:
        y = np.concatenate([as_row(first, shape, y.dtype), y[1:-1], as_row(last, shape, y.dtype)])
    elif num > 0:
        y = np.concatenate([as_row(first, shape, y.dtype), y[1:]])
    y = y * sign
    return cast(np.moveaxis(y, 0, axis) if axis else y, dtype)


composed(np.linspace, linear_steps)
composed(np.logspace, powers)
composed(np.geomspace, geometric_steps)

# -- differences ---------------------------------------------------------------------------------------------------


def flat_differences(ary: Any, to_end: Any = None, to_begin: Any = None) -> Any:
    flat = np.ravel(ary)
    parts = [to_begin, flat[1:] - flat[:-1], to_end]
    parts = [np.ravel(in_dtype(part, flat.dtype)) for part in parts if part is not None]
    return np.concatenate(parts) if len(parts) > 1 else parts[0]


composed(np.ediff1d, flat_differences)


def derivative_along(f: Any, spacing: Any, axis: int, edge_order: int) -> Any:
    """Central differences inside, one-sided ones at the two ends, with NumPy's formulas."""

    def at(start: int | None, stop: int | None) -> Any:
        return f[(slice(None),) * axis + (slice(start, stop),)]

    def combined(first: Any, second: Any, third: Any, start: int) -> Any:
        a, b, c = (at(k, k + 1 or None) for k in range(start, start + 3))
        return first * a + second * b + third * c

    if np.ndim(spacing) == 0:
        inside = (at(2, None) - at(None, -2)) / (2.0 * spacing)
        before = after = spacing
        left, right = (-1.5 / before, 2.0 / before, -0.5 / before), (0.5 / after, -2.0 / after, 1.5 / after)
    else:
        shape = (-1,) + (1,) * (f.ndim - axis - 1)
        d1, d2 = np.reshape(spacing[:-1], shape), np.reshape(spacing[1:], shape)
        inside = -d2 / (d1 * (d1 + d2)) * at(None, -2) + (d2 - d1) / (d1 * d2) * at(1, -1)
        inside = inside + d1 / (d2 * (d1 + d2)) * at(2, None)
        before, after = spacing[0], spacing[-1]
        if edge_order == 2:
            d, e = spacing[0], spacing[1]
            left = (-(2.0 * d + e) / (d * (d + e)), (d + e) / (d * e), -d / (e * (d + e)))
            d, e = spacing[-2], spacing[-1]
            right = (e / (d * (d + e)), -(e + d) / (d * e), (2.0 * e + d) / (e * (d + e)))
    if edge_order == 1:
        first, last = (at(1, 2) - at(0, 1)) / before, (at(-1, None) - at(-2, -1)) / after
    else:
        first, last = combined(*left, 0), combined(*right, -3)
    return np.concatenate([first, inside, last], axis=axis)


def slopes(f: Any, *varargs: Any, axis: Any = None, edge_order: int = 1) -> Any:
    f = array_of(f)
    axes = (
        range(f.ndim)
        if axis is None
        else [k % f.ndim for k in (axis if isinstance(axis, tuple) else (axis,))]
    )
    spacings = (
        varargs * len(axes)
        if len(varargs) == 1 and np.ndim(varargs[0]) == 0
        else varargs or (1.0,) * len(axes)
    )
    if len(spacings) != len(axes):
        raise TypeError("invalid number of arguments")
    found = []
    for spacing, k in zip(spacings, axes, strict=True):
        gaps = spacing
        if np.ndim(spacing):
            gaps = np.diff(spacing)
            if np.all(gaps == gaps[0]):
                gaps = gaps[0]
        if f.shape[k] < edge_order + 1:
            raise ValueError(
                "Shape of array too small to calculate a numerical gradient, at least (edge_order + 1) elements are "
                "required."
            )
        slope = derivative_along(f, gaps, k, edge_order)
        found.append(np.astype(slope, f.dtype) if f.dtype.kind in "fc" and slope.dtype != f.dtype else slope)
    return found[0] if len(found) == 1 else tuple(found)


composed(np.gradient, slopes)
# The corrections are whole periods.
function(np.unwrap, lambda g, _y, _p, discont=None, axis=-1, *, period=6.283185307179586: g)
