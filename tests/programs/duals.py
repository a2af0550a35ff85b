"""Forward-mode derivatives by dual numbers, one scalar at a time: slow, short and independent of the library.

A `Dual` is a number with its derivatives in all directions that a *level* follows. The number may be complex; directions
are real, so a complex input has two. An array is an object array of duals. Levels nest: the number and the derivatives of
an inner level may be duals of an outer one, which is what a gradient inside a differentiated program needs.

`Reference` stands in for the module `mutangent` in a program's namespace, `numpy_of_duals` for `numpy`. Classes are
plain attrs classes there, and recordings do not exist: a program just runs.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Self

import attrs
import numpy as np

# -- numbers -----------------------------------------------------------------------------------------------------------


class Levels:
    """Which levels are followed now. A dual of any other level counts as its plain number."""

    def __init__(self) -> None:
        self.open: set[int] = set()
        self.last = 0
        self.paused_up_to = 0

    def new(self) -> int:
        self.last += 1
        self.open.add(self.last)
        return self.last


LEVELS = Levels()


class Dual:
    """A number of one level and its derivatives, a vector with one entry per direction."""

    __slots__ = ("eps", "level", "re")

    def __init__(self, level: int, re: Any, eps: np.ndarray) -> None:
        self.level = level
        self.re = re
        self.eps = eps

    def __repr__(self) -> str:
        return f"Dual({plain(self)!r})"

    def __deepcopy__(self, memo: dict[int, Any]) -> Dual:
        return self

    def __add__(self, other: Any) -> Any:
        return binary(self, other, lambda a, b: a + b, lambda a, b: (1.0, 1.0))

    def __mul__(self, other: Any) -> Any:
        return binary(self, other, lambda a, b: a * b, lambda a, b: (b, a))

    def __sub__(self, other: Any) -> Any:
        return self + -1.0 * other

    def __truediv__(self, other: Any) -> Any:
        return self * reciprocal(other)

    def __rtruediv__(self, other: Any) -> Any:
        return other * reciprocal(self)

    def __rsub__(self, other: Any) -> Any:
        return -1.0 * self + other

    def __neg__(self) -> Any:
        return -1.0 * self

    def __pos__(self) -> Any:
        return 1.0 * self

    __radd__ = __add__
    __rmul__ = __mul__

    def __gt__(self, other: Any) -> bool:
        return bool(plain(self) > plain(other))

    def __lt__(self, other: Any) -> bool:
        return bool(plain(self) < plain(other))

    def conjugate(self) -> Any:
        return conj(self)


def settle(x: Any) -> Any:
    """The number without the levels that are no longer followed, from the outside inwards."""
    while isinstance(x, Dual) and x.level not in LEVELS.open:
        x = x.re
    return x


def plain(x: Any) -> Any:
    """The number without any derivative."""
    while isinstance(x, Dual):
        x = x.re
    return x


def binary(a: Any, b: Any, value: Callable[..., Any], slopes: Callable[..., tuple[Any, Any]]) -> Any:
    if isinstance(b, np.ndarray):
        return NotImplemented  # NumPy goes through the array, element by element
    a, b = settle(a), settle(b)
    level = max((x.level for x in (a, b) if isinstance(x, Dual)), default=0)
    if not level:
        return value(a, b)
    re = [x.re if isinstance(x, Dual) and x.level == level else x for x in (a, b)]
    result = value(*re)
    if level <= LEVELS.paused_up_to:
        return result
    eps = 0.0
    for x, slope in zip((a, b), slopes(*re), strict=True):
        if isinstance(x, Dual) and x.level == level:
            eps = eps + x.eps * slope
    return Dual(level, result, eps)


def each(x: np.ndarray, f: Callable[[Any], Any]) -> np.ndarray:
    """An array of the same layout, which decides whether `reshape` gives a view."""
    y = np.empty_like(x, object)
    for index in np.ndindex(x.shape):
        y[index] = f(x[index])
    return y


def unary(x: Any, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Any:
    """A function of one number, or of each element of an array."""
    if isinstance(x, np.ndarray):
        return each(x, lambda item: unary(item, value, slope))
    x = settle(x)
    if not isinstance(x, Dual):
        return value(x)
    result = value(x.re)
    return result if x.level <= LEVELS.paused_up_to else Dual(x.level, result, x.eps * slope(x.re))


def linear(x: Any, f: Callable[[Any], Any]) -> Any:
    """A function of numbers that is linear over the reals, of a number or of each element of an array."""
    if isinstance(x, np.ndarray):
        return each(x, lambda item: linear(item, f))
    x = settle(x)
    if not isinstance(x, Dual):
        return f(x)
    result = linear(x.re, f)
    if x.level <= LEVELS.paused_up_to:
        return result
    return Dual(x.level, result, np.array([linear(item, f) for item in x.eps]))


def reciprocal(x: Any) -> Any:
    return unary(
        x, lambda a: 1.0 / a if not isinstance(a, Dual) else reciprocal(a), lambda a: -reciprocal(a * a)
    )


def into(function: Callable[[Any], Any]) -> Callable[..., Any]:
    """The function with NumPy's `out` and `where`."""

    def with_out(x: Any, out: Any = None, where: Any = True) -> Any:
        y = function(x)
        if out is None:
            return y
        np.copyto(out, y, where=where)
        return out

    return with_out


@into
def tanh(x: Any) -> Any:
    return unary(
        x, lambda a: tanh(a) if isinstance(a, Dual) else np.tanh(a), lambda a: 1.0 - tanh(a) * tanh(a)
    )


@into
def sin(x: Any) -> Any:
    return unary(x, lambda a: sin(a) if isinstance(a, Dual) else np.sin(a), cos)


def cos(x: Any) -> Any:
    return unary(x, lambda a: cos(a) if isinstance(a, Dual) else np.cos(a), lambda a: -sin(a))


def exp(x: Any) -> Any:
    return unary(x, lambda a: exp(a) if isinstance(a, Dual) else np.exp(a), exp)


def sqrt(x: Any) -> Any:
    return unary(
        x, lambda a: sqrt(a) if isinstance(a, Dual) else np.sqrt(a), lambda a: 0.5 * reciprocal(sqrt(a))
    )


def real(x: Any) -> Any:
    return linear(x, np.real)


def imag(x: Any) -> Any:
    return linear(x, np.imag)


def conj(x: Any) -> Any:
    return linear(x, np.conj)


def absolute(x: Any) -> Any:
    """|x|, with the derivative 0 at 0."""
    if isinstance(x, np.ndarray):
        return each(x, absolute)
    if not np.iscomplexobj(plain(x)):
        return x * float(np.sign(plain(x)))
    return sqrt(real(x) * real(x) + imag(x) * imag(x)) if plain(x) else 0.0 * real(x)


def maximum(x: Any, y: Any) -> Any:
    """The larger one; equal ones have equal shares."""
    x, y = np.broadcast_arrays(np.asarray(x, object), np.asarray(y, object))
    pairs = zip(x.flat, y.flat, strict=True)
    larger = [0.5 * (a + b) if plain(a) == plain(b) else max(b, a) for a, b in pairs]
    return np.array([*larger, None], object)[:-1].reshape(x.shape)


class Part:
    """The real or imaginary part of an array, which can be written; `getattr(x, name)` of NumPy."""

    def __init__(self, whole: np.ndarray, name: str) -> None:
        self.whole = whole
        self.name = name

    def __getitem__(self, index: Any) -> Any:
        return (real if self.name == "real" else imag)(self.whole)[index]

    def __setitem__(self, index: Any, value: Any) -> None:
        if self.name == "real":
            self.whole[index] = value + 1j * imag(self.whole[index])
        else:
            self.whole[index] = real(self.whole[index]) + 1j * value

    def __imul__(self, factor: Any) -> Self:
        self[:] = self[:] * factor
        return self


# Arrays are object arrays throughout, so that a dual can be written into any of them.
numpy_of_duals = types.SimpleNamespace(
    tanh=tanh,
    sin=sin,
    exp=exp,
    real=real,
    imag=imag,
    conj=conj,
    abs=absolute,
    maximum=maximum,
    stack=lambda items: np.stack(items).astype(object),
    zeros=lambda length: np.array([0.0] * length, object),
    ones=lambda length: np.array([1.0] * length, object),
    zeros_like=lambda x: np.array([0.0] * x.size, object).reshape(x.shape),
    array=lambda items, dtype=None: np.array(items, object),
    float32=None,
    complex64=None,
    # These do with an array of objects what they do with an array of numbers.
    **{
        name: getattr(np, name)
        for name in (
            *(
                "sum",
                "concatenate",
                "split",
                "where",
                "diagonal",
                "ravel",
                "swapaxes",
                "squeeze",
                "expand_dims",
            ),
            *("moveaxis", "flip", "atleast_2d", "transpose", "ndarray", "random"),
            *("add", "subtract", "multiply", "matmul", "copyto", "put", "place", "putmask", "fill_diagonal"),
        )
    },
)


def seeded(value: Any, level: int, first: int, directions: int) -> Any:
    """A number or array as an input of a level: direction `first` is its first element, or the real part of that."""
    unit = np.eye(directions)
    if isinstance(value, np.ndarray):
        if any(np.iscomplexobj(plain(item)) for item in value.flat):
            unit = (unit + 1j * np.roll(unit, -1, axis=0))[first::2]
        else:
            unit = unit[first:]
        units = iter(unit)
        return each(value, lambda item: Dual(level, item, next(units)))
    return Dual(level, value, unit[first])


def derivatives(out: Any, level: int, directions: int) -> np.ndarray:
    """The derivatives of a result in all directions of a level."""
    while isinstance(out, Dual) and out.level > level:
        out = out.re
    return out.eps if isinstance(out, Dual) and out.level == level else np.zeros(directions)


# -- the module that a program knows as `mt` -----------------------------------------------------------------------------


class Primitive:
    """A method whose rule is not used."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self if obj is None else functools.partial(self.function, obj)

    def rrule(self, rule: Callable[..., Any]) -> Primitive:
        return self


def field(**kwargs: Any) -> Any:
    kwargs.pop("trainable", None)
    return attrs.field(**kwargs)


def stop_gradient(x: Any) -> Any:
    return each(x, plain) if isinstance(x, np.ndarray) else plain(x)


@contextlib.contextmanager
def pause() -> Iterator[None]:
    before = LEVELS.paused_up_to
    LEVELS.paused_up_to = LEVELS.last
    try:
        yield
    finally:
        LEVELS.paused_up_to = before


def derivatives_of_call(f: Callable[..., Any], args: Any, seeds: Any, directions: int) -> Any:
    """The value of `f` and its derivatives.

    `seeds` gives, for each argument that is followed, its form as an input of a level. An object among the arguments is
    followed by its field x.
    """
    before = Before([args, f.__defaults__, REACHES])
    level = LEVELS.new()
    given = list(args)
    try:
        for k, seed in seeds.items():
            if attrs.has(type(args[k])):
                object.__setattr__(args[k], "x", seed(args[k].x, level))
            else:
                given[k] = seed(args[k], level)
        out = f(*given)
    except BaseException:
        before.put_back()
        raise
    finally:
        LEVELS.open.discard(level)
    return out, derivatives(out, level, directions)


def tangent_of(source: Any, slopes: np.ndarray) -> Any:
    """Derivatives in the form of what they were taken with respect to."""
    if attrs.has(type(source)):
        return types.SimpleNamespace(x=slopes[0])
    return slopes if isinstance(source, np.ndarray) else slopes[0]


def vjp(f: Callable[..., Any], *args: Any) -> Any:
    ends = np.cumsum([np.size(source) for source in args])
    places = [slice(end - np.size(source), end) for source, end in zip(args, ends, strict=True)]

    def seed(k: int) -> Callable[[Any, int], Any]:
        return lambda value, level: seeded(value, level, places[k].start, ends[-1])

    out, slopes = derivatives_of_call(f, args, {k: seed(k) for k in range(len(args))}, ends[-1])

    def pullback(bar: Any) -> Any:
        return tuple(
            tangent_of(source, bar * slopes[place]) for source, place in zip(args, places, strict=True)
        )

    return out, pullback


def jvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    """Of numbers; an object's tangent is `ZeroTangent()`."""

    def along(tangent: Any) -> Callable[[Any, int], Dual]:
        return lambda value, level: Dual(level, value, np.array([tangent]))

    seeds = {k: along(tangent) for k, tangent in enumerate(tangents) if tangent is not None}
    out, slopes = derivatives_of_call(f, primals, seeds, 1)
    return out, slopes[0]


def hvp(f: Callable[..., Any], primals: Any, tangents: Any) -> Any:
    return (jvp(grad(f), primals, tangents)[1],)


def value_and_grad(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The value of `f` and its derivatives with respect to a number, an array, or the field x of an object."""

    def call(*args: Any) -> Any:
        size = np.size(args[argnums])
        seeds = {argnums: lambda value, level: seeded(value, level, 0, size)}
        out, slopes = derivatives_of_call(f, args, seeds, size)
        return out, tangent_of(args[argnums], slopes)

    return call


def grad(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    return lambda *args: value_and_grad(f, argnums)(*args)[1]


def checkpoint_sequence(step: Callable[[Any], Any], xs: Any, segments: int) -> list[Any]:
    return [step(x) for x in xs]


def differentiable(cls: type | None = None, **options: Any) -> Any:
    """`attrs.define`; a class that attrs has made already stays as it is."""
    return cls if cls is not None and attrs.has(cls) else attrs.define(cls, **options)


Reference = types.SimpleNamespace(
    differentiable=differentiable,
    field=field,
    primitive=Primitive,
    stop_gradient=stop_gradient,
    primal=stop_gradient,
    pause=pause,
    checkpoint=lambda f: f,
    checkpoint_sequence=checkpoint_sequence,
    vjp=vjp,
    jvp=jvp,
    hvp=hvp,
    ZeroTangent=lambda: None,
    grad=grad,
    value_and_grad=value_and_grad,
)

# What a program reaches without its being an argument; whoever runs one fills it in.
REACHES: list[Any] = []


class Before:
    """Everything in reach of some values, to be put back when a recording inside a program raises."""

    def __init__(self, root: Any) -> None:
        self.held: dict[int, tuple[Any, Any]] = {}
        pending = [root]
        while pending:
            value = pending.pop()
            if id(value) in self.held:
                continue
            if attrs.has(type(value)):
                held = {a.name: getattr(value, a.name) for a in attrs.fields(type(value))}
                pending += held.values()
            elif isinstance(value, np.ndarray):
                held = value.copy()
            elif isinstance(value, dict):
                held = dict(value)
                pending += held.values()
            elif isinstance(value, list | tuple | deque):
                held = list(value)
                pending += held
            else:
                continue
            self.held[id(value)] = (value, held)

    def put_back(self) -> None:
        for value, held in self.held.values():
            if isinstance(value, dict):
                value.clear()
                value.update(held)
            elif isinstance(value, list | np.ndarray):
                value[:] = held
            elif isinstance(value, deque):
                value.clear()
                value.extend(held)
            elif not isinstance(value, tuple):
                for name, part in held.items():
                    object.__setattr__(value, name, part)
