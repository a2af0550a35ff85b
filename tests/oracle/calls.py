"""The entries of PyTorch's OpInfo database that NumPy can answer, each as a NumPy call with PyTorch's parameters.

A row translates what is only a matter of names: `dim` to `axis`, a 0-d array with an axis to NumPy's axis None, the order
of paddings. What NumPy cannot say raises `NotInNumPy`; such samples are listed in `differences`.

This module must be importable without PyTorch.
"""

import importlib
import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np

Call = Callable[..., Any]


class NotInNumPy(Exception):
    """A sample whose meaning NumPy (for the last table: SciPy) has no call for."""


def axis_of(x: Any, dim: Any) -> Any:
    """PyTorch's `dim` as NumPy's `axis`: an empty tuple means all, and a 0-d array may be asked for its axis 0."""
    if dim is None or np.ndim(x) == 0:
        return None
    if isinstance(dim, list | tuple):
        return tuple(dim) or None
    return dim


def shape_from(args: tuple[Any, ...]) -> tuple[int, ...]:
    return tuple(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple) else tuple(args)


# -- elementwise ---------------------------------------------------------------------------------------------------


def scaled(alpha: Any, x: Any) -> Any:
    return x if alpha == 1 else alpha * x


def clamp(x: Any, min: Any = None, max: Any = None) -> Any:  # noqa: A002 - PyTorch's names
    return np.clip(x, min, max)


def division(x: Any, y: Any, rounding_mode: Any = None) -> Any:
    if rounding_mode == "floor":
        return np.floor_divide(x, y)
    return np.trunc(x / y) if rounding_mode == "trunc" else np.true_divide(x, y)


def lerp(x: Any, end: Any, weight: Any) -> Any:
    return x + weight * (end - x)


def addcmul(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * a * b


def addcdiv(x: Any, a: Any, b: Any, value: Any = 1) -> Any:
    return x + value * a / b


def logaddexp(x: Any, y: Any) -> Any:
    if np.iscomplexobj(x):
        raise NotInNumPy("logaddexp of complex numbers")
    return np.logaddexp(x, y)


def softplus(x: Any, beta: float = 1, threshold: float = 20) -> Any:
    return np.where(x * beta > threshold, x, np.logaddexp(0, x * beta) / beta)


ELEMENTWISE: dict[str, Call] = {
    "abs": np.absolute,
    "acos": np.arccos,
    "acosh": np.arccosh,
    "asin": np.arcsin,
    "asinh": np.arcsinh,
    "atan": np.arctan,
    "atanh": np.arctanh,
    "ceil": np.ceil,
    "conj": np.conj,
    "conj_physical": lambda x: x.conj(),
    "cos": np.cos,
    "cosh": np.cosh,
    "deg2rad": np.deg2rad,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "floor": np.floor,
    "frac": lambda x: np.modf(x)[0],
    "frexp": lambda x: np.frexp(x)[0],
    "i0": np.i0,
    "imag": np.imag,
    "angle": np.angle,
    "log": np.log,
    "log10": np.log10,
    "log1p": np.log1p,
    "log2": np.log2,
    "nan_to_num": lambda x, nan=0.0, posinf=None, neginf=None: np.nan_to_num(
        x, nan=nan, posinf=posinf, neginf=neginf
    ),
    "neg": np.negative,
    "positive": np.positive,
    "rad2deg": np.rad2deg,
    "real": np.real,
    "reciprocal": np.reciprocal,
    "round": np.round,
    "round.decimals_0": np.round,
    "round.decimals_3": np.round,
    "round.decimals_neg_3": np.round,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sgn": np.sign,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "sign": np.sign,
    "sin": np.sin,
    "sinc": np.sinc,
    "sinh": np.sinh,
    "sqrt": np.sqrt,
    "square": np.square,
    "tan": np.tan,
    "tanh": np.tanh,
    "trunc": np.trunc,
    "fill": lambda x, value: np.full_like(x, fill_value=value),
    "cdouble": lambda x, memory_format=None: x.astype(np.complex128),
    "cfloat": lambda x, memory_format=None: x.astype(np.complex64),
    "double": lambda x, memory_format=None: x.astype(np.float64),
    "float": lambda x, memory_format=None: x.astype(np.float32),
    "half": lambda x, memory_format=None: x.astype(np.float16),
    # two operands
    "add": lambda x, y, alpha=1: np.add(x, scaled(alpha, y)),
    "sub": lambda x, y, alpha=1: np.subtract(x, scaled(alpha, y)),
    "rsub": lambda x, y, alpha=1: np.subtract(y, scaled(alpha, x)),
    "mul": np.multiply,
    "div.no_rounding_mode": division,
    "div.floor_rounding": division,
    "div.trunc_rounding": division,
    "true_divide": np.divide,
    "__radd__": lambda x, y: y + x,
    "__rdiv__": lambda x, y: y / x,
    "__rmod__": lambda x, y: y % x,
    "__rmul__": lambda x, y: y * x,
    "__rpow__": lambda x, y: y**x,
    "__rsub__": lambda x, y: y - x,
    "atan2": np.arctan2,
    "complex": lambda x, y: x + 1j * y,
    "copysign": np.copysign,
    "float_power": np.float_power,
    "fmax": np.fmax,
    "fmin": np.fmin,
    "fmod": np.fmod,
    "hypot": np.hypot,
    "ldexp": lambda x, y: x * np.exp2(y),
    "logaddexp": logaddexp,
    "logaddexp2": np.logaddexp2,
    "max.binary": np.maximum,
    "maximum": np.maximum,
    "min.binary": np.minimum,
    "minimum": np.minimum,
    "nextafter": np.nextafter,
    "polar": lambda r, phi: r * np.cos(phi) + 1j * (r * np.sin(phi)),
    "pow": np.power,
    "remainder": np.remainder,
    "xlogy": lambda x, y: np.where(x == 0, 0, x * np.log(y)),
    # more
    "addcdiv": addcdiv,
    "addcmul": addcmul,
    "clamp": clamp,
    "clamp_max": np.minimum,
    "clamp_min": np.maximum,
    "lerp": lerp,
    "masked_fill": lambda x, mask, value: np.where(mask, value, x),
    "where": lambda x, condition, y: np.where(condition, x, y),
    "view_as_complex": lambda x: x[..., 0] + 1j * x[..., 1],
    "view_as_real": lambda z: np.stack([z.real, z.imag], axis=-1),
    # activations, written with the functions above
    "nn.functional.hardtanh": lambda x, min_val=-1.0, max_val=1.0: np.clip(x, min_val, max_val),
    "nn.functional.leaky_relu": lambda x, negative_slope=0.01: np.where(x > 0, x, negative_slope * x),
    "nn.functional.logsigmoid": lambda x: -np.logaddexp(0, -x),
    "nn.functional.mish": lambda x: x * np.tanh(np.logaddexp(0, x)),
    "nn.functional.relu": lambda x: np.maximum(x, 0),
    "nn.functional.relu6": lambda x: np.clip(x, 0, 6),
    "nn.functional.silu": lambda x: x / (1 + np.exp(-x)),
    "nn.functional.softplus": softplus,
    "nn.functional.softsign": lambda x: x / (1 + np.abs(x)),
    "nn.functional.tanhshrink": lambda x: x - np.tanh(x),
}

# -- reductions ----------------------------------------------------------------------------------------------------


def reduction(function: Call) -> Call:
    def call(x: Any, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:
        settings = {} if dtype is None else {"dtype": dtype}
        if np.ndim(x):  # PyTorch lets a 0-d array keep an axis it does not have
            settings["keepdims"] = keepdim
        return function(x, axis=axis_of(x, dim), **settings)

    return call


def spread_of(function: Call) -> Call:
    """`var` and `std`: PyTorch's default divides by n - 1, and the first argument may be `unbiased`."""

    def call(
        x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, correction: Any = None
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        return function(x, axis=axis_of(x, dim), ddof=correction, keepdims=keepdim)

    return call


def with_mean(function: Call) -> Call:
    def call(x: Any, dim: Any = None, unbiased: Any = None, keepdim: bool = False, **settings: Any) -> Any:
        axis = None if isinstance(dim, bool) else dim
        spread = spread_of(function)(x, dim, unbiased, keepdim, **settings)
        return spread, np.mean(x, axis=axis_of(x, axis), keepdims=keepdim)

    return call


def middle(median: Call, quantile: Call) -> Call:
    """PyTorch's median is the lower of the two middle elements."""

    def call(x: Any, dim: Any = None, keepdim: bool = False) -> Any:
        axis = axis_of(x, dim)
        settings = {"keepdims": keepdim} if np.ndim(x) else {}
        length = np.size(x) if axis is None else np.shape(x)[axis]
        if length % 2 and not np.any(np.isnan(x)):
            return median(x, axis=axis, **settings)
        return quantile(x, 0.5, axis=axis, method="lower", **settings)

    return call


def quantiles(function: Call) -> Call:
    def call(x: Any, q: Any, dim: Any = None, keepdim: bool = False, interpolation: str = "linear") -> Any:
        settings = {"keepdims": keepdim} if np.ndim(x) else {}
        return function(x, q, axis=axis_of(x, dim), method=interpolation, **settings)

    return call


def accumulation(function: Call) -> Call:
    def call(x: Any, dim: int, dtype: Any = None) -> Any:
        if np.ndim(x) == 0:
            return function(x, axis=None, dtype=dtype)[0]
        return function(x, axis=dim, dtype=dtype)

    return call


def accumulated(ufunc: np.ufunc) -> Call:
    return lambda x, dim: x if np.ndim(x) == 0 else ufunc.accumulate(x, axis=dim)


def logcumsumexp(x: Any, dim: int) -> Any:
    if np.iscomplexobj(x) and np.ndim(x):
        raise NotInNumPy("logaddexp of complex numbers")
    return accumulated(np.logaddexp)(x, dim)


def logsumexp(x: Any, dim: Any, keepdim: bool = False) -> Any:
    axis = axis_of(x, dim)
    top = np.max(x.real, axis=axis, keepdims=True)
    y = np.log(np.sum(np.exp(x - top), axis=axis, keepdims=True)) + top
    return y if keepdim else np.squeeze(y, axis=axis if np.ndim(x) else None)


def softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    axis = axis_of(x, dim)
    if dtype is not None:
        x = x.astype(dtype)
    if np.size(x) == 0:
        return np.exp(x)
    raised = np.exp(x - np.max(x.real, axis=axis, keepdims=True))
    return raised / np.sum(raised, axis=axis, keepdims=True)


def log_softmax(x: Any, dim: int, dtype: Any = None) -> Any:
    if dtype is not None:
        x = x.astype(dtype)
    return np.copy(x) if np.size(x) == 0 else x - logsumexp(x, (dim,), keepdim=True)


def reduced(loss: Any, reduction: str) -> Any:
    return loss if reduction == "none" else (np.sum if reduction == "sum" else np.mean)(loss)


def ordered(x: Any, dim: int = -1, descending: bool = False, stable: bool = False) -> Any:
    y = np.sort(x, axis=axis_of(x, dim), stable=stable) if np.ndim(x) else np.copy(x)
    return np.flip(y, dim) if descending and np.ndim(x) else y


def topk(x: Any, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Any:  # noqa: A002
    if np.ndim(x) == 0:
        return np.copy(x)
    y = np.moveaxis(np.sort(x, axis=dim), dim, 0)
    return np.moveaxis(np.flip(y, 0)[:k] if largest else y[:k], 0, dim)


def kthvalue(x: Any, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if np.ndim(x) == 0:
        return np.copy(x)
    y = np.take(np.partition(x, k - 1, axis=dim), k - 1, axis=dim)
    return np.expand_dims(y, dim) if keepdim else y


def trapezoid(y: Any, x: Any = None, dx: float = 1.0, dim: int = -1) -> Any:
    return np.trapezoid(y, x, dx, axis=dim)


def cumulative_trapezoid(y: Any, x: Any = None, dx: float = 1.0, dim: int = -1) -> Any:
    y = np.moveaxis(y, dim, -1)
    width = (
        dx
        if x is None
        else np.diff(np.broadcast_to(x, np.shape(x)) if x.ndim == 1 else np.moveaxis(x, dim, -1))
    )
    return np.moveaxis(np.cumsum((y[..., 1:] + y[..., :-1]) * width / 2, axis=-1), -1, dim)


def gradient(x: Any, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> Any:
    axes = tuple(range(np.ndim(x))) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    steps = spacing if isinstance(spacing, list | tuple) else () if spacing is None else (spacing,)
    found = np.gradient(x, *steps, axis=axes, edge_order=edge_order)
    return tuple(found) if len(axes) > 1 else (found[0] if isinstance(found, list | tuple) else found,)


def diff(x: Any, n: int = 1, dim: int = -1, prepend: Any = None, append: Any = None) -> Any:
    ends = {name: end for name, end in (("prepend", prepend), ("append", append)) if end is not None}
    return np.diff(x, n=n, axis=dim, **ends)


def sum_to_size(x: Any, *sizes: Any) -> Any:
    shape = shape_from(sizes)
    lead = np.ndim(x) - len(shape)
    x = np.sum(x, axis=tuple(range(lead)))
    return np.sum(
        x,
        axis=tuple([k for k, length in enumerate(shape) if length == 1 and x.shape[k] != 1]),
        keepdims=True,
    )


def layer_norm(x: Any, shape: Any, weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    axes = tuple(range(-len(shape), 0))
    y = (x - np.mean(x, axis=axes, keepdims=True)) / np.sqrt(np.var(x, axis=axes, keepdims=True) + eps)
    if weight is not None:
        y = y * weight
    return y if bias is None else y + bias


def rms_norm(x: Any, shape: Any, weight: Any = None, eps: Any = None) -> Any:
    eps = np.finfo(x.dtype).eps if eps is None else eps
    mean = np.mean(np.square(x), axis=tuple(range(-len(shape), 0)), keepdims=True)
    y = x / np.sqrt(mean + eps)
    return y if weight is None else y * weight


def masked(function: Call, **identity: Any) -> Call:
    """A reduction of the elements that a mask chooses."""

    def call(
        x: Any, dim: Any = None, keepdim: bool = False, mask: Any = None, dtype: Any = None, **more: Any
    ) -> Any:
        settings = {**more} if dtype is None else {**more, "dtype": dtype}
        if np.ndim(x):
            settings["keepdims"] = keepdim
        if mask is not None:
            settings.update(where=mask, **identity)
        return function(x, axis=axis_of(x, dim), **settings)

    return call


def zero_for_nothing(call: Call) -> Call:
    """The samples have 0 where the mask chooses nothing."""

    def zeroed(x: Any, dim: Any = None, keepdim: bool = False, mask: Any = None, **settings: Any) -> Any:
        chosen = np.broadcast_to(True if mask is None else mask, x.shape)
        y = call(x, dim, keepdim, mask, **settings)
        return np.where(masked(np.any)(chosen, dim, keepdim), y, 0)

    return zeroed


def masked_spread(function: Call) -> Call:
    def call(
        x: Any, dim: Any = None, unbiased: Any = None, *, correction: Any = None, **settings: Any
    ) -> Any:
        if isinstance(dim, bool):
            dim, unbiased = None, dim
        if correction is None:
            correction = 1 if unbiased is None else int(unbiased)
        return masked(function)(x, dim=dim, ddof=correction, **settings)

    return call


def masked_accumulation(function: Call, neutral: float) -> Call:
    def call(x: Any, dim: int, mask: Any = None, dtype: Any = None) -> Any:
        if mask is None:
            return accumulation(function)(x, dim, dtype)
        return np.where(mask, accumulation(function)(np.where(mask, x, neutral), dim, dtype), 0)

    return call


REDUCTIONS: dict[str, Call] = {
    "masked.amax": zero_for_nothing(masked(np.max, initial=-np.inf)),
    "masked.amin": zero_for_nothing(masked(np.min, initial=np.inf)),
    "masked.cumprod": masked_accumulation(np.cumprod, 1),
    "masked.cumsum": masked_accumulation(np.cumsum, 0),
    "masked.mean": zero_for_nothing(masked(np.mean)),
    "masked.prod": masked(np.prod),
    "masked.std": masked_spread(np.std),
    "masked.sum": masked(np.sum),
    "masked.var": masked_spread(np.var),
    "amax": reduction(np.amax),
    "amin": reduction(np.amin),
    "aminmax": lambda x, dim=None, keepdim=False: (
        reduction(np.min)(x, dim, keepdim),
        reduction(np.max)(x, dim, keepdim),
    ),
    "max.reduction_no_dim": reduction(np.max),
    "max.reduction_with_dim": reduction(np.max),
    "min.reduction_no_dim": reduction(np.min),
    "min.reduction_with_dim": reduction(np.min),
    "mean": reduction(np.mean),
    "nanmean": reduction(np.nanmean),
    "nansum": reduction(np.nansum),
    "prod": reduction(np.prod),
    "sum": reduction(np.sum),
    "sum_to_size": sum_to_size,
    "std": spread_of(np.std),
    "std.unbiased": spread_of(np.std),
    "std_mean": with_mean(np.std),
    "std_mean.unbiased": with_mean(np.std),
    "var": spread_of(np.var),
    "var.unbiased": spread_of(np.var),
    "var_mean": with_mean(np.var),
    "var_mean.unbiased": with_mean(np.var),
    "median": middle(np.median, np.quantile),
    "nanmedian": middle(np.nanmedian, np.nanquantile),
    "quantile": quantiles(np.quantile),
    "nanquantile": quantiles(np.nanquantile),
    "cov": lambda x, correction=1, fweights=None, aweights=None: np.cov(
        x, ddof=correction, fweights=fweights, aweights=aweights
    ),
    "corrcoef": np.corrcoef,
    "cumprod": accumulation(np.cumprod),
    "cumsum": accumulation(np.cumsum),
    "cummax": accumulated(np.maximum),
    "cummin": accumulated(np.minimum),
    "logcumsumexp": logcumsumexp,
    "logsumexp": logsumexp,
    "softmax": softmax,
    "softmax.with_dtype": softmax,
    "log_softmax": log_softmax,
    "log_softmax.with_dtype": log_softmax,
    "nn.functional.softmin": lambda x, dim, dtype=None: softmax(-x, dim, dtype),
    "nn.functional.rms_norm": rms_norm,
    "nn.functional.l1_loss": lambda x, y, reduction="mean": reduced(np.abs(x - y), reduction),
    "nn.functional.mse_loss": lambda x, y, reduction="mean": reduced((x - y) ** 2, reduction),
    "nn.functional.layer_norm": layer_norm,
    "diff": diff,
    "gradient": gradient,
    "kthvalue": kthvalue,
    "msort": lambda x: np.sort(x, axis=0),
    "sort": ordered,
    "topk": topk,
    "trapezoid": trapezoid,
    "trapz": trapezoid,
    "cumulative_trapezoid": cumulative_trapezoid,
}


# -- shapes and joins ----------------------------------------------------------------------------------------------


def expand(x: Any, *sizes: Any) -> Any:
    sizes = shape_from(sizes)
    lead = len(sizes) - np.ndim(x)
    return np.broadcast_to(
        x, tuple([x.shape[k - lead] if size == -1 else size for k, size in enumerate(sizes)])
    )


def flatten(x: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    if np.ndim(x) == 0:
        return np.ravel(x)
    first, last = start_dim % x.ndim, end_dim % x.ndim
    return x.reshape((*x.shape[:first], int(np.prod(x.shape[first : last + 1])), *x.shape[last + 1 :]))


def unflatten(x: Any, dim: int, sizes: Any) -> Any:
    dim %= x.ndim
    return x.reshape((*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


def squeeze(x: Any, dim: Any = "all") -> Any:
    if isinstance(dim, str) or np.ndim(x) == 0:
        return np.squeeze(x)
    axes = dim if isinstance(dim, list | tuple) else (dim,)
    return np.squeeze(x, axis=tuple([k for k in axes if x.shape[k] == 1]))


def swapped(x: Any, a: int, b: int) -> Any:
    return np.copy(x) if np.ndim(x) == 0 else np.swapaxes(x, a, b)


def split(x: Any, size: Any, dim: int = 0) -> Any:
    length = x.shape[dim]
    ends = np.cumsum(size)[:-1] if not isinstance(size, int) else np.arange(size, length, size)
    return tuple(np.split(x, [int(end) for end in ends], axis=dim))


def chunk(x: Any, chunks: int, dim: int = 0) -> Any:
    return split(x, -(-x.shape[dim] // chunks), dim)


def sections(function: Call) -> Call:
    def call(x: Any, parts: Any, *axis: int) -> Any:
        parts = [int(k) for k in parts] if np.ndim(parts) else int(parts)
        return tuple(function(x, parts, *axis))

    return call


def cat(arrays: Any, dim: int = 0) -> Any:
    """PyTorch leaves empty vectors out whatever the shape of the others."""
    if any(x.ndim > 1 for x in arrays):
        arrays = [x for x in arrays if x.shape != (0,)]
    return np.concatenate(arrays, axis=dim)


def several(function: Call) -> Call:
    return lambda x, *more: (
        tuple(function(*x))
        if isinstance(x, list | tuple)
        else tuple(function(x, *more))
        if more
        else function(x)
    )


def block_diag(*arrays: Any) -> Any:
    matrices = [np.atleast_2d(x) for x in arrays]
    return np.block(
        [
            [x if i == j else np.zeros((x.shape[0], y.shape[1])) for j, y in enumerate(matrices)]
            for i, x in enumerate(matrices)
        ]
    )


def padded(mode: str) -> Call:
    def call(x: Any, pads: Any, _mode: str = mode, value: Any = None) -> Any:
        pairs = [(pads[k], pads[k + 1]) for k in range(0, len(pads), 2)][::-1]
        widths = [(0, 0)] * (np.ndim(x) - len(pairs)) + pairs
        inner = tuple(
            [
                slice(-min(before, 0), length + min(after, 0))
                for (before, after), length in zip(widths, x.shape, strict=True)
            ]
        )
        settings = {"constant_values": value or 0} if mode == "constant" else {}
        return np.pad(x[inner], [(max(a, 0), max(b, 0)) for a, b in widths], mode=mode, **settings)

    return call


def constant_pad(x: Any, pads: Any, value: Any = 0) -> Any:
    return padded("constant")(x, pads, value=value)


def diag_embed(x: Any, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Any:
    before, after = max(-offset, 0), max(offset, 0)
    n = x.shape[-1] + before + after
    rows = np.pad(x, [(0, 0)] * (x.ndim - 1) + [(before, after)])[..., None]
    return np.moveaxis(rows * np.eye(n, n, k=offset), (-2, -1), (dim1, dim2))


def unfold(x: Any, dim: int, size: int, step: int) -> Any:
    if np.ndim(x) == 0:
        return x.reshape((1,))[:size]
    at = np.arange(0, x.shape[dim] - size + 1, step)[:, None] + np.arange(size)
    return np.moveaxis(np.take(x, at, axis=dim), dim % x.ndim + 1, -1)


SHAPES: dict[str, Call] = {
    "H": lambda x: np.conj(x.T),
    "T": lambda x: x.T,
    "mH": lambda x: np.conj(x.mT),
    "mT": lambda x: x.mT,
    "t": lambda x: x.T,
    "transpose": swapped,
    "permute": np.transpose,
    "movedim": np.moveaxis,
    "atleast_1d": several(np.atleast_1d),
    "atleast_2d": several(np.atleast_2d),
    "atleast_3d": several(np.atleast_3d),
    "broadcast_tensors": lambda *arrays: tuple(np.broadcast_arrays(*arrays)),
    "broadcast_to": np.broadcast_to,
    "expand": expand,
    "expand_as": lambda x, y: np.broadcast_to(x, y.shape),
    "flatten": flatten,
    "ravel": np.ravel,
    "reshape": lambda x, *shape: np.reshape(x, shape_from(shape)),
    "reshape_as": lambda x, y: x.reshape(y.shape),
    "squeeze": squeeze,
    "squeeze.multiple": squeeze,
    "unflatten": unflatten,
    "unsqueeze": np.expand_dims,
    "view": lambda x, *shape: x.reshape(shape_from(shape)),
    "clone": lambda x, memory_format=None: np.copy(x),
    "contiguous": lambda x, memory_format=None: np.copy(x),
    "chunk": chunk,
    "split": split,
    "split.list_args": split,
    "tensor_split": sections(np.array_split),
    "hsplit": sections(np.hsplit),
    "vsplit": sections(np.vsplit),
    "dsplit": sections(np.dsplit),
    "unbind": lambda x, dim=0: tuple(np.unstack(x, axis=dim)),
    "cat": cat,
    "column_stack": np.column_stack,
    "dstack": np.dstack,
    "hstack": np.hstack,
    "stack": lambda arrays, dim=0: np.stack(arrays, axis=dim),
    "vstack": np.vstack,
    "block_diag": block_diag,
    "cartesian_prod": lambda *arrays: (
        np.stack(np.meshgrid(*arrays, indexing="ij"), axis=-1).reshape((-1, len(arrays)))
        if len(arrays) > 1
        else arrays[0]
    ),
    "meshgrid.list_of_tensors": lambda arrays, indexing: tuple(np.meshgrid(*arrays, indexing=indexing)),
    "meshgrid.variadic_tensors": lambda *arrays, indexing: tuple(np.meshgrid(*arrays, indexing=indexing)),
    "constant_pad_nd": constant_pad,
    "nn.functional.pad.circular": padded("wrap"),
    "nn.functional.pad.constant": padded("constant"),
    "nn.functional.pad.reflect": padded("reflect"),
    "nn.functional.pad.replicate": padded("edge"),
    "nn.functional.pad.replicate_negative": padded("edge"),
    "diag": lambda x, diagonal=0: np.diag(x, diagonal),
    "diag_embed": diag_embed,
    "diagflat": lambda x, offset=0: np.diagflat(x, offset),
    "diagonal": lambda x, offset=0, dim1=0, dim2=1: np.diagonal(x, offset, dim1, dim2),
    "linalg.diagonal": lambda x, offset=0, dim1=-2, dim2=-1: np.diagonal(x, offset, dim1, dim2),
    "trace": np.trace,
    "tril": lambda x, diagonal=0: np.tril(x, diagonal),
    "triu": lambda x, diagonal=0: np.triu(x, diagonal),
    "flip": lambda x, dims: np.flip(x, axis=dims),
    "fliplr": np.fliplr,
    "flipud": np.flipud,
    "roll": lambda x, shifts, dims=None: np.roll(x, shifts, axis=dims),
    "rot90": lambda x, k=1, dims=(0, 1): np.rot90(x, k, dims),
    "repeat": lambda x, *sizes: np.tile(x, shape_from(sizes)),
    "tile": lambda x, *sizes: np.tile(x, shape_from(sizes)),
    "repeat_interleave": lambda x, repeats, dim=None, output_size=None: np.repeat(x, repeats, axis=dim),
    "unfold": unfold,
}

# -- indexing, and arrays written in place ---------------------------------------------------------------------------


def along(x: Any, dim: int, index: Any) -> tuple[Any, ...]:
    """The index that replaces positions along `dim` by `index`, as `take_along_axis` means it but for parts of `x`."""
    dim %= x.ndim
    return tuple([index if k == dim else at for k, at in enumerate(np.indices(index.shape))])


def gather(x: Any, dim: int, index: Any) -> Any:
    if np.ndim(x) == 0:
        return x.reshape((1,))[index.astype(int)]
    if np.ndim(index) != x.ndim:  # only empty ones
        return np.take(x, index.astype(int), axis=dim)[tuple([slice(0)] * x.ndim)].reshape(index.shape)
    part = x[tuple([slice(None) if k == dim % x.ndim else slice(n) for k, n in enumerate(index.shape)])]
    return np.take_along_axis(part, index.astype(int), axis=dim)


def scatter(x: Any, dim: int, index: Any, source: Any, reduce: Any = None) -> Any:
    if reduce is not None:
        raise NotInNumPy(f"reduce={reduce!r}")
    y = np.atleast_1d(np.copy(x))
    index = np.atleast_1d(index)
    source = np.atleast_1d(source)
    if np.size(source) > 1:
        source = source[tuple([slice(n) for n in index.shape])]
    y[along(y, dim, index)] = source
    return y.reshape(x.shape)


def scatter_add(x: Any, dim: int, index: Any, source: Any) -> Any:
    y = np.atleast_1d(np.copy(x))
    index, source = np.atleast_1d(index), np.atleast_1d(source)
    np.add.at(y, along(y, dim, index), source[tuple([slice(n) for n in index.shape])])
    return y.reshape(x.shape)


def index_add(x: Any, dim: int, index: Any, source: Any, alpha: Any = 1) -> Any:
    y = np.atleast_1d(np.copy(x))
    at = (*[slice(None)] * (dim % y.ndim), index)
    np.add.at(y, at, alpha * np.atleast_1d(source))
    return y.reshape(x.shape)


def index_copy(x: Any, dim: int, index: Any, source: Any) -> Any:
    y = np.atleast_1d(np.copy(x))
    y[(*[slice(None)] * (dim % y.ndim), index)] = source
    return y.reshape(x.shape)


def index_put(x: Any, indices: Any, values: Any, accumulate: bool = False) -> Any:
    y = np.copy(x)
    if accumulate:
        np.add.at(y, tuple(indices), values)
    else:
        y[tuple(indices)] = values
    return y


def put(x: Any, index: Any, source: Any, accumulate: bool = False) -> Any:
    y = np.copy(np.ravel(x))
    if accumulate:
        np.add.at(y, np.ravel(index), np.ravel(source))
    else:
        y[np.ravel(index)] = np.ravel(source)
    return y.reshape(x.shape)


def written(where: Callable[..., Any]) -> Call:
    """`x` with `source` written to the place that `where` names."""

    def call(x: Any, source: Any, *args: Any, **settings: Any) -> Any:
        y = np.copy(x)
        y[where(x, *args, **settings)] = source
        return y

    return call


def on_axis(x: Any, dim: int, at: Any) -> tuple[Any, ...]:
    return (*[slice(None)] * (dim % np.ndim(x)), at)


def diagonal_scatter(x: Any, source: Any, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Any:
    y = np.copy(x)
    matrices = np.moveaxis(y, (dim1, dim2), (-2, -1))  # a view: writing into it writes into y
    i, j = np.indices(matrices.shape[-2:])
    matrices[..., i[j - i == offset], j[j - i == offset]] = source
    return y


def masked_scatter(x: Any, mask: Any, source: Any) -> Any:
    y = np.copy(np.broadcast_to(x, np.broadcast_shapes(x.shape, mask.shape)))
    mask = np.broadcast_to(mask, y.shape)
    y[mask] = np.ravel(source)[: int(np.sum(mask))]
    return y


def masked_select(x: Any, mask: Any) -> Any:
    shape = np.broadcast_shapes(x.shape, mask.shape)
    return np.broadcast_to(x, shape)[np.broadcast_to(mask, shape)]


def narrow(x: Any, dim: int, start: Any, length: int) -> Any:
    start = int(start) % x.shape[dim] if int(start) < 0 else int(start)
    return x[on_axis(x, dim, slice(start, start + length))]


INDEXING: dict[str, Call] = {
    "__getitem__": lambda x, index: x[index],
    "gather": gather,
    "index_select": lambda x, dim, index: (
        np.take(x, index, axis=dim) if np.ndim(x) else x.reshape((1,))[index].reshape(())
    ),
    "masked_select": masked_select,
    "narrow": narrow,
    "select": lambda x, dim, index: np.take(x, index, axis=dim),
    "slice": lambda x, dim=0, start=None, end=None, step=1: x[on_axis(x, dim, slice(start, end, step))],
    "take": np.take,
    "take_along_dim": lambda x, index, dim=None: (
        np.take_along_axis(np.ravel(x), np.ravel(index), None)
        if dim is None
        else np.take_along_axis(x, index, dim)
    ),
    "nn.functional.embedding": lambda weight, index: weight[index],
    # written in place
    "diagonal_scatter": diagonal_scatter,
    "index_add": index_add,
    "index_copy": index_copy,
    "index_fill": index_copy,
    "index_put": index_put,
    "masked_scatter": masked_scatter,
    "put": put,
    "scatter": scatter,
    "scatter_add": scatter_add,
    "select_scatter": written(on_axis),
    "slice_scatter": written(
        lambda x, dim=0, start=None, end=None, step=1: on_axis(x, dim, slice(start, end, step))
    ),
}


# -- products and linear algebra -------------------------------------------------------------------------------------


def added_product(product: Call) -> Call:
    return lambda x, a, b, beta=1, alpha=1: beta * x + alpha * product(a, b)


def cross(x: Any, y: Any, dim: Any = None) -> Any:
    if dim is None:
        dim = np.shape(x).index(3)
    return np.cross(x, y, axis=dim)


def adjoint(x: Any) -> Any:
    return np.conj(np.swapaxes(x, -1, -2))


def solve(a: Any, b: Any, left: bool = True) -> Any:
    if not left:
        return np.swapaxes(solve(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2)), -1, -2)
    if b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1]):
        return np.linalg.solve(a, b[..., None])[..., 0] if b.ndim > 1 else np.linalg.solve(a, b)
    return np.linalg.solve(a, b)


def lstsq(a: Any, b: Any, driver: Any = None) -> Any:
    if a.ndim > 2:
        raise NotInNumPy("batches in lstsq")
    if driver == "gelsy" and a.shape[0] > a.shape[1]:
        raise NotInNumPy("no residuals")
    return np.linalg.lstsq(a, b)[:2]


def norm(x: Any, p: Any = "fro", dim: Any = None, keepdim: bool = False) -> Any:
    """PyTorch's old `norm`, in which a number means the norm of a vector."""
    if p == "nuc":
        axes = (0, 1) if dim is None else tuple(dim)
        return np.linalg.norm(x, "nuc", axis=axes, keepdims=keepdim)
    return vector_norm(x, 2 if p == "fro" else p, dim, keepdim)


def vector_norm(x: Any, ord: Any = 2, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:  # noqa: A002
    if dtype is not None:
        x = x.astype(dtype)
    if np.ndim(x) == 0:
        return np.linalg.vector_norm(x.reshape((1,)), ord=ord)
    return np.linalg.vector_norm(x, ord=ord, axis=axis_of(x, dim), keepdims=keepdim)


def either_norm(x: Any, ord: Any = None, dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Any:  # noqa: A002
    if dtype is not None:
        x = x.astype(dtype)
    axis = axis_of(x, dim)
    if isinstance(axis, tuple) and len(axis) == 1:
        axis = axis[0]
    return np.linalg.norm(x, ord, axis, keepdim)


def matrix_norm(
    x: Any,
    ord: Any = "fro",  # noqa: A002
    dim: Any = (-2, -1),
    keepdim: bool = False,
    dtype: Any = None,
) -> Any:
    if dtype is not None:
        x = x.astype(dtype)
    return np.linalg.norm(x, ord, axis=tuple(dim), keepdims=keepdim)


def pinv(x: Any, rtol: Any = None, hermitian: bool = False) -> Any:
    if hermitian:
        x = x + adjoint(x)
    return np.linalg.pinv(x, rtol=rtol, hermitian=hermitian)


def vander(x: Any, N: Any = None) -> Any:
    if np.ndim(x) > 1:
        return np.stack([np.vander(row, N, increasing=True) for row in x])
    return np.vander(np.atleast_1d(x), N, increasing=True)


def bilinear(x: Any, y: Any, weight: Any, bias: Any = None) -> Any:
    z = np.einsum("...i,oij,...j->...o", x, weight, y)
    return z if bias is None else z + bias


LINEAR_ALGEBRA: dict[str, Call] = {
    "__rmatmul__": lambda x, y: y @ x,
    "addbmm": added_product(lambda a, b: np.sum(np.matmul(a, b), axis=0)),
    "addmm": added_product(np.matmul),
    "addmm.decomposed": added_product(np.dot),
    "addmv": added_product(np.dot),
    "addr": added_product(np.outer),
    "baddbmm": added_product(np.matmul),
    "bmm": np.matmul,
    "cross": cross,
    "dist": lambda x, y, p=2: np.linalg.norm(np.ravel(x - y), p),
    "dot": np.dot,
    "einsum": lambda operands, subscripts: np.einsum(subscripts, *operands),
    "inner": np.inner,
    "kron": np.kron,
    "linalg.cross": lambda x, y, dim=-1: np.linalg.cross(*np.broadcast_arrays(x, y), axis=dim),
    "linalg.multi_dot": np.linalg.multi_dot,
    "linalg.vecdot": lambda x, y, dim=-1: np.vecdot(x, y, axis=dim),
    "matmul": np.matmul,
    "mm": np.dot,
    "mv": np.dot,
    "nn.functional.bilinear": bilinear,
    "nn.functional.linear": lambda x, weight, bias=None: (
        x @ weight.T if bias is None else x @ weight.T + bias
    ),
    "outer": np.outer,
    "tensordot": lambda x, y, dims=2: np.tensordot(x, y, dims),
    "vdot": np.vdot,
    # norms
    "linalg.cond": lambda x, p=None: np.linalg.cond(x, p),
    "linalg.matrix_norm": matrix_norm,
    "linalg.norm": either_norm,
    "linalg.norm.subgradients_at_zero": either_norm,
    "linalg.vector_norm": vector_norm,
    "norm": norm,
    "norm.fro": norm,
    "norm.inf": norm,
    "norm.nuc": norm,
    # determinants, inverses, solutions, powers
    "linalg.det": np.linalg.det,
    "linalg.inv": np.linalg.inv,
    "linalg.lstsq.grad_oriented": lstsq,
    "linalg.matrix_power": np.linalg.matrix_power,
    "linalg.pinv": pinv,
    "linalg.pinv.hermitian": pinv,
    "linalg.pinv.singular": lambda a, b: pinv(a @ np.swapaxes(b, -1, -2)),
    "linalg.slogdet": lambda x: tuple(np.linalg.slogdet(x)),
    "linalg.solve": solve,
    "linalg.tensorinv": lambda x, ind=2: np.linalg.tensorinv(x, ind),
    "linalg.tensorsolve": lambda x, y, dims=None: np.linalg.tensorsolve(x, y, axes=dims),
    "linalg.vander": vander,
    "logdet": lambda x: np.log(np.linalg.det(x)),
    # factors; PyTorch's samples of Hermitian functions are made Hermitian inside the differentiated function
    "linalg.cholesky": lambda x, upper=False: np.linalg.cholesky(x + adjoint(x), upper=upper),
    "linalg.eig": lambda x: tuple(np.linalg.eig(x)),
    "linalg.eigh": lambda x, UPLO="L": tuple(np.linalg.eigh(x + adjoint(x), UPLO)),
    "linalg.eigvals": np.linalg.eigvals,
    "linalg.eigvalsh": lambda x, UPLO="L": np.linalg.eigvalsh(x + adjoint(x), UPLO),
    "linalg.qr": lambda x, mode="reduced": tuple(np.linalg.qr(x, mode)),
    "linalg.svd": lambda x, full_matrices=True: tuple(np.linalg.svd(x, full_matrices)),
    "linalg.svdvals": lambda x: np.linalg.svd(x, compute_uv=False),
}


def of_singular_vectors(out: Any) -> Any:
    u, s, vh = out
    k = s.shape[-1]
    return abs(u[..., :k]), s, abs(vh[..., :k, :])


# Parts of the result that do not hang on the signs or phases of eigenvectors, which are arbitrary. Applied to both results.
INVARIANT: dict[str, Call] = {
    "linalg.eig": lambda out: (out[0], abs(out[1])),
    "linalg.eigh": lambda out: (out[0], abs(out[1])),
    "linalg.svd": of_singular_vectors,
}

# -- Fourier transforms ------------------------------------------------------------------------------------------------


def transform(function: Call) -> Call:
    return lambda x, n=None, dim=-1, norm=None: function(x, n=n, axis=dim, norm=norm)


def transforms(function: Call, two: bool = False) -> Call:
    def call(x: Any, s: Any = None, dim: Any = None, norm: Any = None) -> Any:
        if dim is None and two:
            dim = (-2, -1)
        if dim is None and s is not None:  # NumPy wants to be told, PyTorch means the last ones
            dim = tuple(range(-len(s), 0))
        return function(x, s=s, axes=(dim,) if isinstance(dim, int) else dim, norm=norm)

    return call


FOURIER: dict[str, Call] = {
    **{
        f"fft.{name}": transform(getattr(np.fft, name))
        for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft")
    },
    **{
        f"fft.{name}": transforms(getattr(np.fft, name), two=True)
        for name in ("fft2", "ifft2", "rfft2", "irfft2")
    },
    **{f"fft.{name}": transforms(getattr(np.fft, name)) for name in ("fftn", "ifftn", "rfftn", "irfftn")},
    "fft.fftshift": lambda x, dim=None: np.fft.fftshift(x, axes=dim),
    "fft.ifftshift": lambda x, dim=None: np.fft.ifftshift(x, axes=dim),
}

# -- functions of SciPy -------------------------------------------------------------------------------------------------


def logit(function: Call) -> Call:
    return lambda x, eps=None: function(x if eps is None else np.clip(x, eps, 1 - eps))


def triangular(function: Call) -> Call:
    def call(a: Any, b: Any, upper: bool, left: bool = True, unitriangular: bool = False) -> Any:
        if not left:
            return np.swapaxes(
                call(np.swapaxes(a, -1, -2), np.swapaxes(b, -1, -2), not upper, unitriangular=unitriangular),
                -1,
                -2,
            )
        if 0 in a.shape[:-2]:
            raise NotInNumPy("empty batches")
        return function(a, b, lower=not upper, unit_diagonal=unitriangular)

    return call


def cholesky_solve(function: Call) -> Call:
    def call(b: Any, factor: Any, upper: bool = False) -> Any:
        if 0 in b.shape[:-2]:
            raise NotInNumPy("empty batches")
        return function((factor, not upper), b)

    return call


def of_scipy() -> dict[str, Call]:
    """The entries that SciPy answers, where it is installed."""
    if importlib.util.find_spec("scipy") is None:
        return {}
    special = importlib.import_module("scipy.special")
    # What SciPy does not dispatch is called by the names that mutangent has for it.
    ours = importlib.import_module("mutangent.scipy.special")
    linalg = importlib.import_module("mutangent.scipy.linalg")
    polygamma = {f"polygamma.polygamma_n_{k}": lambda x, n: ours.polygamma(n, x) for k in range(5)}
    return {
        **polygamma,
        **{f"mvlgamma.mvlgamma_p_{p}": ours.multigammaln for p in (1, 3, 5)},
        "cholesky_solve": cholesky_solve(linalg.cho_solve),
        "linalg.solve_triangular": triangular(linalg.solve_triangular),
        "matrix_exp": linalg.expm,
        "digamma": special.digamma,
        "erf": special.erf,
        "erfc": special.erfc,
        "erfinv": special.erfinv,
        "lgamma": special.gammaln,
        "logit": logit(special.logit),
        "special.entr": special.entr,
        "special.erfcx": special.erfcx,
        "special.i0e": special.i0e,
        "special.i1": special.i1,
        "special.i1e": special.i1e,
        "special.log_ndtr": special.log_ndtr,
        "special.ndtr": special.ndtr,
        "special.ndtri": special.ndtri,
        "special.xlog1py": special.xlog1py,
    }


CALLS: dict[str, Call] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    **SHAPES,
    **INDEXING,
    **LINEAR_ALGEBRA,
    **FOURIER,
    **of_scipy(),
}
