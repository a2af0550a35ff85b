"""What counts as a differentiable number, and which array library it belongs to.

This is the only file that asks "NumPy or CuPy?". It never imports CuPy: an array can only be CuPy's when CuPy is
already loaded, so `sys.modules` answers.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

import numpy as np

Array = Any  # numpy.ndarray, cupy.ndarray, a NumPy scalar, a Python float or complex, or a TracedArray of an outer level

FLOAT64: np.dtype[Any] = np.dtype(np.float64)
COMPLEX128: np.dtype[Any] = np.dtype(np.complex128)


class Spec(NamedTuple):
    """Shape and dtype of a value that is not kept; rules get it in place of an operand whose value they do not read."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def size(self) -> int:
        size = 1
        for length in self.shape:
            size *= length
        return size


def is_array(value: object) -> bool:
    """Whether `value` is an array of a supported library."""
    if isinstance(value, np.ndarray):
        return True
    cupy = sys.modules.get("cupy")
    return cupy is not None and isinstance(value, cupy.ndarray)


def is_plain_array(value: object) -> bool:
    """Whether `value` really is an array; unlike `isinstance`, `type` is not deceived by a traced value."""
    kind = type(value)
    if issubclass(kind, np.ndarray):
        return True
    cupy = sys.modules.get("cupy")
    return cupy is not None and issubclass(kind, cupy.ndarray)


def is_differentiable(value: Any) -> bool:
    """Whether `value` is a float or complex number or array.

    Raises
    ------
    TypeError
        For the NumPy subclasses whose operators mean something else than the array's (`numpy.matrix`, masked arrays).
    """
    kind = type(value)
    if kind is np.ndarray:
        return value.dtype.kind in "fc"
    if kind is float or kind is complex or issubclass(kind, np.inexact):
        return True
    if is_array(value):
        if isinstance(value, np.matrix | np.ma.MaskedArray):
            raise TypeError(
                f"{kind.__module__}.{kind.__name__} is not supported: its operators differ from the array's. "
                "Pass a plain array, for example `np.asarray(a)` or `a.filled(0.)`."
            )
        return bool(value.dtype.kind in "fc")
    return False


def spec_of(value: Any) -> Spec:
    """Shape and dtype of an array or number; Python numbers count as 0-d."""
    try:
        return tuple.__new__(Spec, (value.shape, value.dtype))  # a third of the cost of Spec(...)
    except AttributeError:
        return Spec((), COMPLEX128 if isinstance(value, complex) else FLOAT64)


def describe(value: Any) -> str:
    """A value in the words of an error message: type, shape, dtype."""
    shape = getattr(value, "shape", None)
    dtype = getattr(value, "dtype", None)
    kind = type(value)
    # An array of shape (2, 3) says more than its hundred numbers.
    library = kind.__module__.split(".")[0]
    name = kind.__name__ if library in {"builtins", "mutangent"} else f"{library}.{kind.__name__}"
    if dtype is None or shape is None:
        return f"a {name}"
    return f"a {name} of shape {shape} and dtype {dtype}"


def zeros(spec: Spec, like: Any) -> Array:
    """A zero cotangent for a value with `spec`, in the array library of `like`."""
    if is_array(like) and not isinstance(like, np.ndarray):
        cupy = sys.modules["cupy"]
        return cupy.zeros(spec.shape, spec.dtype)
    return np.zeros(spec.shape, spec.dtype)
