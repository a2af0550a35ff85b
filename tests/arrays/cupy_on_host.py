"""CuPy without a device: real `cupy.ndarray` objects whose memory is the host's.

CuPy's Python code runs as it is: shapes, views, promotion of operators, dispatch, and its refusals (a NumPy array beside
a CuPy array, a keyword that CuPy does not have). Only what would start a kernel or a copy is answered by NumPy on the
shared memory:

- elementwise kernels and reductions by the two hooks that CuPy asks before it touches a device,
- memory by an allocator,
- methods and functions that launch directly by being replaced while `on_host` is open.

It proves what CuPy's Python side does with our calls. It proves nothing about numbers on a device.
"""

import contextlib
import functools
import inspect
import sys
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import numpy as np
from cupy.cuda import MemoryPointer, UnownedMemory

# ---------------------------------------------------------------- memory


def allocate(size: int) -> MemoryPointer:
    """Take the place of CuPy's allocator."""
    buffer = np.empty(size + 1, np.uint8)
    return MemoryPointer(UnownedMemory(buffer.ctypes.data, size, buffer, 0), 0)


def is_device(value: Any) -> bool:
    """Whether a value really is a CuPy array; a traced one only says so."""
    return issubclass(type(value), cupy.ndarray)


class _Memory:
    """What `numpy.asarray` needs to see an array's memory, and the owner of that memory."""

    def __init__(self, array: Any) -> None:
        self.owner = array
        self.__array_interface__ = {
            "shape": array.shape,
            "strides": array.strides,
            "typestr": array.dtype.str,
            "data": (array.data.ptr, False),
            "version": 3,
        }


def host(value: Any) -> Any:
    """A CuPy array as a NumPy array on the same memory; tuples and lists of them; anything else as it is."""
    if is_device(value):
        return np.asarray(_Memory(value))
    if type(value) in (tuple, list):
        return type(value)([host(item) for item in value])
    if isinstance(value, slice):
        return slice(
            *[item.get()[()] if is_device(item) else item for item in (value.start, value.stop, value.step)]
        )
    return value


def device(value: Any, order: str = "K", copy: bool = True) -> Any:
    """A new CuPy array with the contents of a NumPy array; NumPy scalars become 0-d arrays, as CuPy's results are.

    Without `copy` the array's memory may be used as it is.
    """
    if isinstance(value, tuple | list):
        made = [device(item, order, copy) for item in value]
        return type(value)._make(made) if hasattr(type(value), "_make") else type(value)(made)
    if not isinstance(value, np.ndarray | np.generic):
        return value
    if type(value) is not np.ndarray or not value.flags.owndata or order != "K":
        value = np.array(value, order=order)
    elif copy:
        value = value.copy(order="K")
    memory = MemoryPointer(UnownedMemory(value.ctypes.data, value.nbytes, value, 0), 0)
    return cupy.ndarray(value.shape, value.dtype, memory, value.strides)


# ---------------------------------------------------------------- the two hooks


def refuse_host_arrays(values: Any) -> None:
    """Raise as CuPy does when it meets an array that is not on the device."""
    for value in values:
        if issubclass(type(value), np.ndarray):
            raise TypeError(f"Unsupported type {type(value)}")
        if type(value) in (tuple, list):
            refuse_host_arrays(value)


def elementwise_kernel(_: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
    """Answer a ufunc or an elementwise kernel; its last operands may be outputs."""
    for value in args:
        if not is_device(value) and hasattr(type(value), "__cupy_override_elementwise_kernel__"):
            return value.__cupy_override_elementwise_kernel__(kernel, *args, **kwargs)
    refuse_host_arrays(args)
    if not isinstance(kernel, cupy.ufunc):
        return KERNELS[kernel.name](*args)
    out = kwargs.pop("out", None)
    where = kwargs.pop("_where", None)
    settings = {name: kwargs.pop(name) for name in ("dtype", "casting") if kwargs.get(name) is not None}
    if any(value is not None for value in kwargs.values()):
        raise TypeError(f"Wrong arguments {kwargs}")
    outputs = [*args[kernel.nin :], *(out if isinstance(out, tuple) else (out,))]
    outputs = [each for each in outputs if each is not None]
    for each in outputs:
        if not is_device(each):
            raise TypeError(f"Output arguments type must be cupy.ndarray, not {type(each)}")
    operands = [host(value) for value in args[: kernel.nin]]
    if where is not None:
        settings["where"] = host(where)
    with np.errstate(all="ignore"):
        if not outputs:
            return device(ufunc(kernel)(*operands, **settings), copy=False)
        targets = tuple(host(each) for each in outputs)
        ufunc(kernel)(*operands, out=targets if len(targets) > 1 else targets[0], **settings)
    return outputs[0] if len(outputs) == 1 else tuple(outputs)


def ufunc(kernel: Any) -> Callable[..., Any]:
    """NumPy's function for a ufunc of CuPy's."""
    found = UFUNCS.get(kernel.name)
    return getattr(np, kernel.name.removeprefix("cupy_")) if found is None else found


def copy_into(x: Any, out: Any = None, where: Any = True, **_: Any) -> None:
    np.copyto(out, x, casting="unsafe", where=where)


def written(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function that knows no `out=`, as a ufunc that does."""

    def call(*operands: Any, out: Any = None, dtype: Any = None, casting: Any = None) -> Any:
        result = function(*operands)
        if dtype is not None:
            result = np.asarray(result, dtype)
        if out is None:
            return result
        np.copyto(out, result, casting="same_kind")
        return out

    return call


def is_close(x: Any, y: Any, rtol: Any, atol: Any, equal_nan: Any) -> Any:
    return np.isclose(x, y, rtol, atol, bool(equal_nan))


def progression(start: Any, step: Any, out: Any, dtype: Any = None) -> Any:
    out[...] = start + np.arange(out.size) * step


# Ufuncs of CuPy's that NumPy has not, or not as ufuncs.
UFUNCS: dict[str, Callable[..., Any]] = {
    "cupy_copy": copy_into,
    "cupy_arange": progression,
    "cupy_linspace": progression,
    "cupy_where": written(np.where),
    "cupy_clip": written(np.clip),
    "cupy_real": written(np.real),
    "cupy_imag": written(np.imag),
    "cupy_angle": written(np.angle),
    "cupy_angle_deg": written(lambda z: np.angle(z, deg=True)),
    "cupy_fix": written(np.trunc),
    "cupy_i0": written(np.i0),
    "cupy_sinc": written(np.sinc),
    "cupy_round": written(np.round),
    "cupy_is_close": written(is_close),
    "cupy_is_close_complex": written(is_close),
    "cupy_nan_to_num_": written(lambda x, nan, posinf, neginf: np.nan_to_num(x, True, nan, posinf, neginf)),
}


def fill(value: Any, target: Any) -> Any:
    host(target)[...] = host(value)
    return target


def take(a: Any, indices: Any, before: int, _count: int, after: int, length: int, out: Any) -> Any:
    """CuPy's `take` along the middle one of three axes; an index out of range wraps around."""
    rows = np.mod(np.ravel(host(indices)), length)
    host(out)[...] = np.reshape(np.reshape(host(a), (before, length, after))[:, rows], out.shape)
    return out


def scatter(ufunc: Any) -> Callable[..., Any]:
    def call(v: Any, indices: Any, _count: int, after: int, length: int, target: Any) -> Any:
        places = np.arange(v.size).reshape(v.shape)
        places = (
            places // (after * _count) * length + np.mod(host(indices), length)
        ) * after + places % after
        index = np.unravel_index(places, target.shape)
        if ufunc is None:
            host(target)[index] = host(v)
        else:
            ufunc.at(host(target), index, host(v))
        return target

    return call


def tri(_columns: int, k: int, out: Any) -> Any:
    host(out)[...] = np.tri(*out.shape, k)
    return out


# Kernels that are no ufuncs.
KERNELS: dict[str, Callable[..., Any]] = {
    "cupy_fill": fill,
    "cupy_take": take,
    "cupy_take_scalar": take,
    "cupy_scatter_update": scatter(None),
    "cupy_scatter_add": scatter(np.add),
    "cupy_scatter_max": scatter(np.maximum),
    "cupy_scatter_min": scatter(np.minimum),
    "cupy_tri": tri,
}


def reduction_kernel(array: Any, kernel: Any, axis: Any, dtype: Any, out: Any, keepdims: bool) -> Any:
    """Answer a reduction."""
    settings = {} if dtype is None else {"dtype": dtype}
    with np.errstate(all="ignore"):
        result = REDUCTIONS[kernel.name](host(array), axis=axis, keepdims=keepdims, **settings)
    if out is None:
        return device(result, copy=False)
    host(out)[...] = result
    return out


def index_of(extreme: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, axis: Any, keepdims: bool, dtype: Any = None) -> Any:
        return extreme(x, axis=axis[0] if type(axis) is tuple and len(axis) == 1 else axis, keepdims=keepdims)

    return call


REDUCTIONS: dict[str, Callable[..., Any]] = {
    "cupy_sum": np.sum,
    "cupy_sum_with_dtype": lambda x, **settings: np.sum(x, **{"dtype": x.dtype, **settings}),
    "cupy_prod": np.prod,
    "cupy_prod_with_dtype": lambda x, **settings: np.prod(x, **{"dtype": x.dtype, **settings}),
    "cupy_nansum": np.nansum,
    "cupy_nansum_complex_dtype": np.nansum,
    "cupy_nansum_with_dtype": lambda x, **settings: np.nansum(x, **{"dtype": x.dtype, **settings}),
    "cupy_nanprod": np.nanprod,
    "cupy_nanprod_complex_dtype": np.nanprod,
    "cupy_nanprod_with_dtype": lambda x, **settings: np.nanprod(x, **{"dtype": x.dtype, **settings}),
    "cupy_mean": np.mean,
    "cupy_mean_empty": np.mean,
    "cupy_nanmean": np.nanmean,
    "cupy_max": np.max,
    "cupy_min": np.min,
    "cupy_nanmax": np.fmax.reduce,
    "cupy_nanmin": np.fmin.reduce,
    "cupy_argmax": index_of(np.argmax),
    "cupy_argmin": index_of(np.argmin),
    "cupy_nanargmax": index_of(
        lambda x, **settings: np.argmax(np.where(np.isnan(x), -np.inf, x), **settings)
    ),
    "cupy_nanargmin": index_of(lambda x, **settings: np.argmin(np.where(np.isnan(x), np.inf, x), **settings)),
    "cupy_all": np.all,
    "cupy_any": np.any,
    "cupy_count_nonzero": lambda x, **settings: np.sum(x != 0, **{**settings, "dtype": np.int64}),
    "cupy_count_non_nan": lambda x, **settings: np.sum(~np.isnan(x), **{**settings, "dtype": np.int64}),
    "_norm_ord2": lambda x, **settings: np.sqrt(np.sum(x * x, **settings)),
    "_norm_ord2_complex": lambda x, **settings: np.sqrt(np.sum(np.abs(x) ** 2, **settings)),
}

# ---------------------------------------------------------------- what launches directly


def bridged(replaced: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """NumPy's `function` with the parameters of CuPy's, and CuPy's refusal of host arrays."""
    signature = inspect.signature(replaced)

    @functools.wraps(replaced)
    def call(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        refuse_host_arrays(bound.arguments.values())
        with np.errstate(all="ignore"), warnings.catch_warnings(action="ignore"):
            return device(
                function(*[host(arg) for arg in args], **{name: host(arg) for name, arg in kwargs.items()})
            )

    return call


# Lists that `watched` has open.
_watching: list[list[str]] = []


def crossed(what: str) -> None:
    """Note that something crosses between host and device, which waits for the device."""
    for crossings in _watching:
        crossings.append(what)


@contextlib.contextmanager
def watched() -> Iterator[list[str]]:
    """A list of what crosses between host and device inside the block, in words."""
    crossings: list[str] = []
    _watching.append(crossings)
    try:
        yield crossings
    finally:
        _watching.remove(crossings)


class Methods:
    """Methods of `cupy.ndarray` that launch or copy without asking a hook."""

    def get(self: Any, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> Any:
        crossed(f"device to host: {self.dtype}{self.shape}")
        if out is None:
            return np.array(host(self), order="K" if order == "A" else order)
        out[...] = host(self)
        return out

    def set(self: Any, values: Any, stream: Any = None) -> None:
        crossed(f"host to device: {self.dtype}{self.shape}")
        if not isinstance(values, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        host(self)[...] = values

    def fill(self: Any, value: Any) -> None:
        number = isinstance(value, int | float | complex | np.generic) or (
            is_device(value) and value.shape == ()
        )
        if number:
            host(self)[...] = host(value)
        else:
            original["fill"](self, value)  # asks the hooks, or refuses

    def copy(self: Any, order: str = "C") -> Any:
        return device(host(self), order)

    def __deepcopy__(self: Any, memo: Any) -> Any:
        return self.copy(order="K")

    def sort(self: Any, axis: int = -1, *, kind: Any = None) -> None:
        host(self).sort(axis)

    def argsort(self: Any, axis: int | None = -1, *, kind: Any = None) -> Any:
        return device(np.argsort(host(self), axis, kind="stable"))

    def partition(self: Any, kth: Any, axis: int = -1) -> None:
        host(self).sort(axis)  # as CuPy does

    def argpartition(self: Any, kth: Any, axis: int | None = -1) -> Any:
        return device(np.argsort(host(self), axis, kind="stable"))

    def cumsum(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _into(out, np.cumsum(host(self), axis, dtype))

    def cumprod(self: Any, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        return _into(out, np.cumprod(host(self), axis, dtype))

    def nonzero(self: Any) -> Any:
        crossed("device to host: the size of nonzero")
        return device(np.nonzero(host(self)))

    def compress(self: Any, condition: Any, axis: Any = None, out: Any = None) -> Any:
        return _into(out, np.compress(host(condition), host(self), axis))

    def choose(self: Any, choices: Any, out: Any = None, mode: str = "raise") -> Any:
        return _into(out, np.choose(host(self), host(choices), mode=mode))

    def put(self: Any, indices: Any, values: Any, mode: str = "wrap") -> None:
        np.put(host(self), host(indices), host(values), mode)

    def repeat(self: Any, repeats: Any, axis: Any = None) -> Any:
        if is_device(repeats):
            raise ValueError("cupy.ndaray cannot be specified as `repeats` argument.")
        return device(np.repeat(host(self), repeats, axis))

    def var(
        self: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Any:
        return _into(out, np.var(host(self), axis, dtype, None, ddof, keepdims))

    def std(
        self: Any, axis: Any = None, dtype: Any = None, out: Any = None, ddof: int = 0, keepdims: bool = False
    ) -> Any:
        return _into(out, np.std(host(self), axis, dtype, None, ddof, keepdims))

    def searchsorted(self: Any, v: Any, side: str = "left", sorter: Any = None) -> Any:
        return device(np.searchsorted(host(self), host(v), side, host(sorter)))

    def take(self: Any, indices: Any, axis: Any = None, out: Any = None) -> Any:
        if not is_device(indices) and not np.isscalar(indices):
            indices = array(indices, dtype=int)
        return original["take"](self, indices, axis, out)

    def dot(self: Any, b: Any, out: Any = None) -> Any:
        if not _are_on_device(b):
            return original["dot"](self, b, out)  # refuses
        return _into(out, np.dot(host(self), host(b)))

    def __matmul__(self: Any, other: Any) -> Any:
        if not is_device(other):
            return original["__matmul__"](self, other)  # defers, or refuses
        return matmul(self, other)

    def __getitem__(self: Any, index: Any) -> Any:
        index = _on_device(index)
        if _has_mask(index):
            _note_masks(index)
            return device(host(self)[host(index)])
        return original["__getitem__"](self, index)

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        index = _on_device(index)
        if _is_advanced(index) and not is_device(value):
            value = array(value, dtype=self.dtype)
        if _has_mask(index):
            _note_masks(index)
        elif not is_device(value) or _is_advanced(index):
            original["__setitem__"](self, index, value)
            return
        with warnings.catch_warnings(action="ignore"):
            host(self)[host(index)] = host(value)

    def _scatter_op(self: Any, index: Any, value: Any, op: str) -> None:
        index = _on_device(index)
        if _has_mask(index):
            ufuncs = {"add": np.add, "max": np.maximum, "min": np.minimum}
            ufuncs[op].at(host(self), host(index), host(value))
        else:
            original["_scatter_op"](self, index, value, op)

    def scatter_add(self: Any, index: Any, value: Any) -> None:
        original["scatter_add"](
            self, _on_device(index), value if is_device(value) else array(value, self.dtype)
        )


def _into(out: Any, result: Any) -> Any:
    if out is None:
        return device(result, copy=False)
    host(out)[...] = result
    return out


def _parts(index: Any) -> tuple[Any, ...]:
    return index if type(index) is tuple else (index,)


def _on_device(index: Any) -> Any:
    """An index with its lists and host arrays made arrays on the device, as CuPy does without saying."""
    parts = tuple(
        array(part if np.size(part) else np.array(part, np.int32))
        if isinstance(part, list | tuple | np.ndarray | bool | np.bool_)
        else part
        for part in _parts(index)
    )
    return parts if type(index) is tuple else parts[0]


def _is_advanced(index: Any) -> bool:
    return any(is_device(part) for part in _parts(index))


def _has_mask(index: Any) -> bool:
    """Whether there are masks, or several arrays, for which CuPy's kernels are not rebuilt here."""
    arrays = [part for part in _parts(index) if is_device(part)]
    return len(arrays) > 1 or any(part.dtype.kind == "b" for part in arrays)


def _note_masks(index: Any) -> None:
    if any(part.dtype.kind == "b" for part in _parts(index) if is_device(part)):
        crossed("device to host: the size of a boolean index")


def array(
    obj: Any,
    dtype: Any = None,
    copy: Any = True,
    order: Any = "K",
    subok: bool = False,
    ndmin: int = 0,
    blocking: bool = False,
) -> Any:
    if is_device(obj):
        same = dtype is None or np.dtype(dtype) == obj.dtype
        made = obj if not copy and same else obj.copy(order) if same else obj.astype(dtype)
    elif isinstance(obj, list | tuple) and _holds_device_arrays(obj):
        made = device(np.array(_host_items(obj), dtype))
        if made.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {made.dtype}")
    else:
        crossed("host to device: cupy.array of host data")
        made = device(np.array(obj, dtype), "C" if order in (None, "K", "A") else order)
        if made.dtype.kind not in "biufc":
            raise ValueError(f"Unsupported dtype {made.dtype}")
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def _holds_device_arrays(items: Any) -> bool:
    if isinstance(items, list | tuple):
        return any(map(_holds_device_arrays, items))
    return is_device(items)


def _host_items(items: Any) -> Any:
    if isinstance(items, list | tuple):
        return [_host_items(item) for item in items]
    return host(items)


def concatenate_method(
    tup: Any, axis: Any, out: Any = None, dtype: Any = None, casting: str = "same_kind"
) -> Any:
    for each in tup:
        if not is_device(each):
            raise TypeError(f"Only cupy arrays can be concatenated, not {type(each)}")
    return _into(out, np.concatenate([host(each) for each in tup], axis, dtype=dtype, casting=casting))


def _are_on_device(*values: Any) -> bool:
    return all(is_device(value) for value in values)


def matmul(a: Any, b: Any, out: Any = None) -> Any:
    if not _are_on_device(a, b):
        return original["matmul"](a, b, out)  # refuses
    return _into(out, np.matmul(host(a), host(b)))


def tensordot_core(a: Any, b: Any, out: Any, n: int, m: int, k: int, ret_shape: Any) -> Any:
    if not _are_on_device(a, b):
        return original["tensordot_core"](a, b, out, n, m, k, ret_shape)  # refuses
    return _into(out, np.dot(host(a).reshape(k, n).T, host(b).reshape(k, m)).reshape(ret_shape))


def ascontiguousarray(a: Any, dtype: Any = None) -> Any:
    return device(np.ascontiguousarray(host(array(a, dtype, copy=False))), "C")


def asfortranarray(a: Any, dtype: Any = None) -> Any:
    return device(np.asfortranarray(host(array(a, dtype, copy=False))), "F")


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    made = cupy.ndarray(shape, dtype, order=order)
    host(made)[...] = 0
    return made


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> Any:
    made = cupy.empty_like(a, dtype, order, subok, shape)
    host(made)[...] = 0
    return made


# Functions that are more than a few kernels: NumPy's, with CuPy's parameters.
BRIDGED = {
    cupy: """
        argwhere bincount convolve copyto correlate cumprod cumsum digitize fill_diagonal histogram
        histogramdd interp intersect1d isin lexsort median nancumprod nancumsum nanmedian nanstd nanvar
        percentile piecewise
        putmask quantile resize searchsorted setdiff1d setxor1d shares_memory trim_zeros unique
    """,
    cupy.linalg: """
        cholesky det eig eigh eigvals eigvalsh inv lstsq norm pinv qr slogdet solve svd
    """,
    cupy.fft: """
        fft fft2 fftn hfft ifft ifft2 ifftn ihfft irfft irfft2 irfftn rfft rfft2 rfftn
    """,
}


def _replacements() -> list[tuple[Any, str, Any]]:
    """Triples (where, name, what), for every place in CuPy's modules that holds a replaced function."""
    replaced = [
        (getattr(home, name), bridged(getattr(home, name), getattr(NUMPY[home], name)))
        for home, names in BRIDGED.items()
        for name in names.split()
    ]
    for made in (array, concatenate_method, matmul, tensordot_core, ascontiguousarray, asfortranarray):
        original[made.__name__] = getattr(cupy._core, made.__name__)
        replaced.append((original[made.__name__], made))
    replaced += [(cupy.zeros, zeros), (cupy.zeros_like, zeros_like)]
    new = {id(old): made for old, made in replaced}
    modules = [module for name, module in list(sys.modules.items()) if name.split(".")[0] == "cupy"]
    found = [
        (module, name, new[id(value)])
        for module in modules
        for name, value in list(vars(module).items())
        if id(value) in new
    ]
    hooks = {
        "__cupy_override_elementwise_kernel__": elementwise_kernel,
        "__cupy_override_reduction_kernel__": reduction_kernel,
    }
    methods = {name: made for name, made in vars(Methods).items() if callable(made)}
    for name in methods:
        original[name] = getattr(cupy.ndarray, name)
    devices = [(cupy, "is_available", lambda: True), (cupy.cuda.runtime, "getDeviceCount", lambda: 0)]
    return [*devices, *found, *((cupy.ndarray, name, made) for name, made in {**hooks, **methods}.items())]


NUMPY = {cupy: np, cupy.linalg: np.linalg, cupy.fft: np.fft}
_MISSING = object()


@contextlib.contextmanager
def on_host() -> Iterator[None]:
    """Keep the contents of CuPy's arrays in the host's memory; arrays made inside die with it."""
    before = [(owner, name, vars(owner).get(name, _MISSING)) for owner, name, _ in REPLACEMENTS]
    allocator = cupy.cuda.get_allocator()
    accelerators = cupy._core.get_reduction_accelerators(), cupy._core.get_routine_accelerators()
    cupy._core.set_reduction_accelerators([])
    cupy._core.set_routine_accelerators([])
    cupy.cuda.set_allocator(allocate)
    for owner, name, made in REPLACEMENTS:
        setattr(owner, name, made)
    try:
        yield
    finally:
        for owner, name, value in before:
            if value is _MISSING:
                delattr(owner, name)
            else:
                setattr(owner, name, value)
        cupy.cuda.set_allocator(allocator)
        cupy._core.set_reduction_accelerators(accelerators[0])
        cupy._core.set_routine_accelerators(accelerators[1])


original: dict[str, Any] = {}
REPLACEMENTS = _replacements()
