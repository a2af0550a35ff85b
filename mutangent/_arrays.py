"""What counts as a differentiable number, and which array library it belongs to.

This is the only file that asks "NumPy or CuPy?". It never imports CuPy: an array can only be CuPy's when CuPy is
already loaded, so `sys.modules` answers. What CuPy does otherwise than NumPy is levelled here:

- an index must be on the device, or CuPy would copy it there at every use (`index_for`);
- a NumPy scalar broadcasts to a NumPy array, which CuPy refuses beside its own (`broadcast`, `full`);
- whether two arrays overlap is answered by CuPy with a kernel and a wait (`overlap`).
"""

from __future__ import annotations

import sys
from typing import Any, Final, NamedTuple

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


_type_sets: Final[list[set[type]]] = []


def with_arrays(*others: type) -> set[type]:
    """A set of types with those of arrays in it; CuPy's joins when the first array of CuPy's is met."""
    made = {np.ndarray, *others}
    _type_sets.append(made)
    return made


# CuPy's array, once the first one is met.
ON_DEVICE: Final[set[type]] = set()
# The arrays whose class says all about them.
ARRAYS: Final = with_arrays()
# Operand types for which the operator of a traced value may go straight to the rule. Any other type (subclasses of
# ndarray, other libraries, tangents) takes the careful path.
PLAIN: Final = with_arrays(
    *(float, int, bool, complex, np.float16, np.float32, np.float64, np.complex64, np.complex128),
    *(np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_),
)


def _cupy_array() -> Any:
    """`cupy.ndarray` if CuPy is loaded, else None."""
    cupy = sys.modules.get("cupy")
    if cupy is None:
        return None
    kind = getattr(cupy, "ndarray", None)  # None while another thread imports it
    if kind is not None and kind not in ARRAYS:
        for types in (*_type_sets, ON_DEVICE):
            types.add(kind)
    return kind


def is_array(value: object) -> bool:
    """Whether `value` is an array of a supported library."""
    if isinstance(value, np.ndarray):
        return True
    kind = _cupy_array()
    return kind is not None and (isinstance(value, kind) or getattr(value, "_kind", None) is kind)


def is_plain_array(value: object) -> bool:
    """Whether `value` really is an array; unlike `isinstance`, `type` is not deceived by a traced value."""
    kind = type(value)
    if kind is np.ndarray or issubclass(kind, np.ndarray):
        return True
    cupy_array = _cupy_array()
    return cupy_array is not None and issubclass(kind, cupy_array)


def is_on_device(value: object) -> bool:
    """Whether `value` really is an array of CuPy's."""
    kind = type(value)
    if kind is np.ndarray:
        return False
    cupy_array = _cupy_array()
    return cupy_array is not None and issubclass(kind, cupy_array)


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


def protected(value: Any) -> Any:
    """What user's code may see of a plain array that others hold: a view that cannot be written. CuPy has none: a copy."""
    if type(value) is np.ndarray:
        value = value.view()
        value.flags.writeable = False
    elif is_on_device(value):
        value = value.copy()
    return value


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
        return with_article(name)
    return f"{with_article(name)} of shape {shape} and dtype {dtype}"


def type_name(value: Any) -> str:
    """The name of a value's class in the words of an error message."""
    return with_article(type(value).__name__)


def with_article(name: str) -> str:
    """The name of a class with its article: an int, a list."""
    return f"{'an' if name[0] in 'aeioAEIO' else 'a'} {name}"


def zeros(spec: Spec, like: Any) -> Array:
    """A zero cotangent for a value with `spec`, in the array library of `like`."""
    return namespace_of(like).zeros(spec.shape, spec.dtype)


def namespace_of(value: Any) -> Any:
    """The module `numpy` or `cupy`: that of an array, traced or not, and NumPy for anything else."""
    kind = _cupy_array()
    return sys.modules["cupy"] if kind is not None and getattr(value, "_kind", type(value)) is kind else np


def arange(stop: int, like: Any, dtype: Any = None) -> Array:
    """`numpy.arange` in the array library of `like`."""
    return namespace_of(like).arange(stop, dtype=dtype)


def as_array(value: Any, dtype: Any = None) -> Array:
    """`numpy.asarray` in the array library of `value`: what is on a device stays there."""
    return namespace_of(value).asarray(value, dtype)


def add_at(target: Any, index: Any, value: Any) -> None:
    """`numpy.add.at` of plain arrays. CuPy takes no tuples by NumPy's name, and has no complex atomic addition."""
    if not is_on_device(target):
        np.add.at(target, index, value)
    elif target.dtype.kind == "c":
        add_at(target.real, index, np.real(value))
        add_at(target.imag, index, np.imag(value))
    else:
        sys.modules["cupy"].add.at(target, index, value)


def number(value: Any, dtype: np.dtype[Any], like: Any) -> Array:
    """A number as a 0-d value of the array library of `like`: a NumPy scalar, or an array of CuPy's, which has none."""
    return sys.modules["cupy"].full((), value, dtype) if is_on_device(like) else dtype.type(value)


def copy_with_strides(array: Any, model: Any = None) -> Any:
    """A copy of which `reshape` and `ravel` make views, or copies, as of `model`: an array of its shape, or itself."""
    model = array if model is None else model
    if array.dtype.hasobject:  # no memory of bytes may hold references
        return array.copy(order="K")
    if model.strides == array.strides and (array.flags.c_contiguous or array.flags.f_contiguous):
        return array.copy(order="K")
    reach = [(length - 1) * stride for length, stride in zip(model.shape, model.strides, strict=True)]
    before = -sum(each for each in reach if each < 0)
    size = before + sum(each for each in reach if each > 0) + array.itemsize
    library = namespace_of(array)
    memory = library.empty(size, np.uint8)
    made: Array
    if library is np:
        made = np.ndarray(array.shape, array.dtype, memory, before, model.strides)
    else:
        made = library.ndarray(array.shape, array.dtype, memory.data + before, model.strides)
    made[...] = array
    return made


def or_at(target: Any, index: Any, value: Any) -> None:
    """`numpy.logical_or.at` of plain boolean arrays, which CuPy has not: it counts."""
    if not is_on_device(target):
        np.logical_or.at(target, index, value)
        return
    counts = zeros(Spec(target.shape, np.dtype(np.int32)), target)
    add_at(counts, index, value.astype(np.int32))
    target |= counts > 0


def index_for(array: Any, index: Any) -> Any:
    """A plain index as `array` takes it: on the device the arrays and lists of it, so that it is copied there once."""
    if not is_on_device(array):
        return index
    if type(index) is tuple:
        return tuple([index_for(array, part) for part in index])
    return sys.modules["cupy"].asarray(index) if isinstance(index, np.ndarray) else index


def on_host(value: Any) -> Any:
    """A plain array in the host's memory, which for one on a device is a copy; anything else as it is."""
    return value.get() if is_on_device(value) else value


def beside(value: Any, like: Any) -> Any:
    """A plain array or number in the array library of `like`; a traced value as it is."""
    library = namespace_of(like)
    return value if library is np or hasattr(value, "_kind") else library.asarray(value)


class _Layout:
    """The addresses of a CuPy array, which NumPy may compute with as long as it reads nothing."""

    def __init__(self, array: Any) -> None:
        self.__array_interface__ = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.data.ptr, True),
            "version": 3,
        }


def overlap(a: Any, b: Any) -> bool:
    """Whether two plain arrays have an element in common."""
    a_on_device, b_on_device = is_on_device(a), is_on_device(b)
    if a_on_device != b_on_device:
        return False
    if a_on_device:
        # CuPy would launch a kernel and wait for it.
        a, b = np.asarray(_Layout(a)), np.asarray(_Layout(b))
    return bool(np.may_share_memory(a, b)) and bool(np.shares_memory(a, b))


def is_without_zero(x: Any) -> bool:
    """Whether an array is known to have no element 0: false for what is traced, and for what one would have to wait for."""
    if type(x) is np.ndarray:
        # Of the two ways the first one costs a tenth for a small array, and the second one half for a large one.
        return bool(np.count_nonzero(x) == x.size if x.size < 1000 else x.all())
    return type(x) in _SCALARS and x != 0


_SCALARS: Final = frozenset({np.float64, np.float32, float})
