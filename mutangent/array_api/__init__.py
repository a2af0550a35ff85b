"""The array namespace of traced values, as the array API standard (2024.12) has it.

``x.__array_namespace__()`` returns this module. Most of its functions are NumPy's own, which dispatch on their arguments.
Written here are those that make an array of what may be one already, and those that NumPy has with other arguments, or
only since 2.1. Arrays that are made from nothing are plain: constants.
"""
# ruff: noqa: A002, A004 - the standard's names: abs, bool, round, type, min, max

from __future__ import annotations

from typing import Any

import numpy as np
from numpy import (
    abs,
    acos,
    acosh,
    add,
    all,
    any,
    arange,
    argmax,
    argmin,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    bool,
    broadcast_arrays,
    broadcast_to,
    ceil,
    complex64,
    complex128,
    concat,
    conj,
    copysign,
    cos,
    cosh,
    count_nonzero,
    diff,
    divide,
    e,
    empty,
    empty_like,
    equal,
    exp,
    expand_dims,
    expm1,
    eye,
    flip,
    float32,
    float64,
    floor,
    floor_divide,
    full,
    full_like,
    greater,
    greater_equal,
    hypot,
    imag,
    inf,
    int8,
    int16,
    int32,
    int64,
    isdtype,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    linspace,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    matmul,
    matrix_transpose,
    max,
    maximum,
    mean,
    meshgrid,
    min,
    minimum,
    moveaxis,
    multiply,
    nan,
    negative,
    newaxis,
    nextafter,
    nonzero,
    not_equal,
    ones,
    ones_like,
    permute_dims,
    pi,
    positive,
    pow,
    prod,
    real,
    reciprocal,
    remainder,
    repeat,
    result_type,
    roll,
    round,
    searchsorted,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    squeeze,
    stack,
    std,
    subtract,
    sum,
    take,
    tan,
    tanh,
    tensordot,
    tile,
    tril,
    triu,
    trunc,
    uint8,
    uint16,
    uint32,
    uint64,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    var,
    vecdot,
    where,
    zeros,
    zeros_like,
)

from .._arrays import is_array
from .._traced import TracedArray, primal
from . import fft, linalg

__array_api_version__ = "2024.12"


def __array_namespace_info__() -> Any:  # noqa: N807 - the name that the standard gives it
    """Devices and dtypes of the namespace, which NumPy (2.1 or newer) tells of its own."""
    return np.__array_namespace_info__()


# -- arrays from arrays --------------------------------------------------------------------------------------------


def asarray(obj: Any, /, *, dtype: Any = None, device: Any = None, copy: Any = None) -> Any:
    """`obj` as an array; a traced one stays traced.

    Examples
    --------
    >>> import mutangent as mt
    >>> def loss(x):
    ...     xp = x.__array_namespace__()
    ...     return xp.sum(xp.asarray(x, dtype=xp.float64) ** 2)
    >>> mt.grad(loss)(np.array([1.0, 2.0]))
    array([2., 4.])
    """
    if type(obj) is not TracedArray:
        return np.asarray(obj, dtype, copy=copy, device=device)
    _check_device(device)
    if not is_array(primal(obj)):
        obj = np.reshape(obj, ())
    if dtype is not None and obj.dtype != dtype:
        if copy is False:
            raise ValueError(
                f"an array of dtype {obj.dtype} cannot have dtype {np.dtype(dtype)} without a copy"
            )
        return obj.astype(dtype)
    return obj.copy() if copy else obj


def from_dlpack(x: Any, /, *, device: Any = None, copy: Any = None) -> Any:
    """An array of this namespace from one of any library; a traced one is one already."""
    return asarray(x, device=device, copy=copy) if type(x) is TracedArray else np.from_dlpack(x)


def astype(x: Any, dtype: Any, /, *, copy: Any = True, device: Any = None) -> Any:
    """`x` with another dtype; with none of its own if it has that and need not be copied."""
    _check_device(device)
    return x if not copy and x.dtype == dtype else x.astype(dtype)


def reshape(x: Any, /, shape: Any, *, copy: Any = None) -> Any:
    """`x` with another shape."""
    made = np.reshape(x, shape)
    if copy is False and np.size(made) and not np.shares_memory(primal(made), primal(x)):
        raise ValueError(f"an array of shape {np.shape(x)} cannot be reshaped to {shape} without a copy")
    return made.copy() if copy else made


def unstack(x: Any, /, *, axis: int = 0) -> tuple[Any, ...]:
    """The parts of `x` along an axis."""
    return tuple(np.moveaxis(x, axis, 0))


def take_along_axis(x: Any, indices: Any, /, *, axis: int = -1) -> Any:
    """Elements of `x` at indices along an axis."""
    return np.take_along_axis(x, indices, axis)


def clip(x: Any, /, min: Any = None, max: Any = None) -> Any:
    """`x` within bounds."""
    return np.clip(x, min, max) if min is not None or max is not None else np.positive(x)


# -- sums, and orders ----------------------------------------------------------------------------------------------


def cumulative_sum(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Sums of the elements up to each, along an axis."""
    return _cumulative(np.cumsum, np.zeros_like, x, axis, dtype, include_initial)


def cumulative_prod(x: Any, /, *, axis: Any = None, dtype: Any = None, include_initial: Any = False) -> Any:
    """Products of the elements up to each, along an axis."""
    return _cumulative(np.cumprod, np.ones_like, x, axis, dtype, include_initial)


def _cumulative(f: Any, first: Any, x: Any, axis: Any, dtype: Any, include_initial: Any) -> Any:
    if axis is None:
        if x.ndim != 1:
            raise ValueError(f"an array with {x.ndim} axes needs axis=")
        axis = 0
    made = f(x, axis=axis, dtype=dtype)
    if not include_initial:
        return made
    shape = [1 if k == axis % x.ndim else length for k, length in enumerate(x.shape)]
    return np.concatenate([first(primal(made), shape=shape), made], axis=axis)


def sort(x: Any, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Any:
    """`x` sorted along an axis."""
    made = np.sort(x, axis=axis, stable=stable)
    return np.flip(made, axis=axis) if descending else made


def argsort(x: Any, /, *, axis: int = -1, descending: Any = False, stable: Any = True) -> Any:
    """The indices that sort `x` along an axis."""
    if not descending:
        return np.argsort(x, axis=axis, stable=stable)
    # Backwards twice, so that equal elements keep their order.
    found = np.flip(np.argsort(np.flip(x, axis=axis), axis=axis, stable=stable), axis=axis)
    return x.shape[axis] - 1 - found


# -- dtypes --------------------------------------------------------------------------------------------------------


def _dtype_of(type: Any) -> Any:
    return type.dtype if isinstance(type, np.ndarray | np.generic) else type


def finfo(type: Any, /) -> Any:
    """What there is to know about a floating-point dtype, or that of an array."""
    return np.finfo(_dtype_of(type))


def iinfo(type: Any, /) -> Any:
    """What there is to know about an integer dtype, or that of an array."""
    return np.iinfo(_dtype_of(type))


def can_cast(from_: Any, to: Any, /) -> Any:
    """Whether a dtype, or that of an array, can be another without loss."""
    return np.can_cast(_dtype_of(from_), to)


def _check_device(device: Any) -> None:
    if device not in (None, "cpu"):
        raise ValueError(f"there is no device {device!r}, only 'cpu'")


__all__ = [
    "__array_api_version__",
    "__array_namespace_info__",
    "abs",
    "acos",
    "acosh",
    "add",
    "all",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "asarray",
    "asin",
    "asinh",
    "astype",
    "atan",
    "atan2",
    "atanh",
    "bitwise_and",
    "bitwise_invert",
    "bitwise_left_shift",
    "bitwise_or",
    "bitwise_right_shift",
    "bitwise_xor",
    "bool",
    "broadcast_arrays",
    "broadcast_to",
    "can_cast",
    "ceil",
    "clip",
    "complex64",
    "complex128",
    "concat",
    "conj",
    "copysign",
    "cos",
    "cosh",
    "count_nonzero",
    "cumulative_prod",
    "cumulative_sum",
    "diff",
    "divide",
    "e",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "expm1",
    "eye",
    "fft",
    "finfo",
    "flip",
    "float32",
    "float64",
    "floor",
    "floor_divide",
    "from_dlpack",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "hypot",
    "iinfo",
    "imag",
    "inf",
    "int8",
    "int16",
    "int32",
    "int64",
    "isdtype",
    "isfinite",
    "isinf",
    "isnan",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "log1p",
    "log2",
    "log10",
    "logaddexp",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "meshgrid",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "negative",
    "newaxis",
    "nextafter",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "permute_dims",
    "pi",
    "positive",
    "pow",
    "prod",
    "real",
    "reciprocal",
    "remainder",
    "repeat",
    "reshape",
    "result_type",
    "roll",
    "round",
    "searchsorted",
    "sign",
    "signbit",
    "sin",
    "sinh",
    "sort",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "take_along_axis",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "tril",
    "triu",
    "trunc",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "unique_all",
    "unique_counts",
    "unique_inverse",
    "unique_values",
    "unstack",
    "var",
    "vecdot",
    "where",
    "zeros",
    "zeros_like",
]
