"""Forward-mode derivatives by dual numbers, one scalar at a time: slow, short and independent of the library.

A `Dual` is a number with its derivatives in all directions that a *level* follows. An array is an object array of
duals. Levels nest: the number and the derivatives of an inner level may be duals of an outer one, which is what a
gradient inside a differentiated program needs.

`Reference` stands in for the module `mutangent` in a program's namespace, `numpy_of_duals` for `numpy`. Classes are
plain attrs classes there, and recordings do not exist: a program just runs.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

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


def unary(x: Any, value: Callable[[Any], Any], slope: Callable[[Any], Any]) -> Any:
    """A function of one number, or of each element of an array."""
    if isinstance(x, np.ndarray):
        return np.array([unary(item, value, slope) for item in x.flat], object).reshape(x.shape)
    x = settle(x)
    if not isinstance(x, Dual):
        return value(x)
    result = value(x.re)
    return result if x.level <= LEVELS.paused_up_to else Dual(x.level, result, x.eps * slope(x.re))


def reciprocal(x: Any) -> Any:
    return unary(
        x, lambda a: 1.0 / a if not isinstance(a, Dual) else reciprocal(a), lambda a: -reciprocal(a * a)
    )


def tanh(x: Any) -> Any:
    return unary(
        x, lambda a: tanh(a) if isinstance(a, Dual) else np.tanh(a), lambda a: 1.0 - tanh(a) * tanh(a)
    )


def sin(x: Any) -> Any:
    return unary(x, lambda a: sin(a) if isinstance(a, Dual) else np.sin(a), cos)


def cos(x: Any) -> Any:
    return unary(x, lambda a: cos(a) if isinstance(a, Dual) else np.cos(a), lambda a: -sin(a))


# Arrays are object arrays throughout, so that a dual can be written into any of them.
numpy_of_duals = types.SimpleNamespace(
    tanh=tanh,
    sin=sin,
    sum=np.sum,
    stack=lambda items: np.stack(items).astype(object),
    concatenate=np.concatenate,
    zeros=lambda length: np.array([0.0] * length, object),
    array=lambda items, dtype=None: np.array(items, object),
    ndarray=np.ndarray,
    float32=None,
)


def seeded(value: Any, level: int, first: int, directions: int) -> Any:
    """A number or array as an input of a level: direction `first` is its first element."""
    unit = np.eye(directions)
    if isinstance(value, np.ndarray):
        duals = [Dual(level, item, unit[first + k]) for k, item in enumerate(value.flat)]
        return np.array([*duals, None], object)[:-1].reshape(value.shape)
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
    return np.array([plain(item) for item in x], object) if isinstance(x, np.ndarray) else plain(x)


@contextlib.contextmanager
def pause() -> Iterator[None]:
    before = LEVELS.paused_up_to
    LEVELS.paused_up_to = LEVELS.last
    try:
        yield
    finally:
        LEVELS.paused_up_to = before


def value_and_grad(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """The value of `f` and its derivatives with respect to a number, an array, or the field x of an object."""

    def call(*args: Any) -> Any:
        args_list = list(args)
        source = args[argnums]
        before = Before([args, f.__defaults__, REACHES])
        level = LEVELS.new()
        try:
            directions = np.size(source)
            if attrs.has(type(source)):
                object.__setattr__(source, "x", seeded(source.x, level, 0, 1))
            else:
                args_list[argnums] = seeded(source, level, 0, directions)
            out = f(*args_list)
        except BaseException:
            before.put_back()
            raise
        finally:
            LEVELS.open.discard(level)
        slopes = derivatives(out, level, directions)
        if attrs.has(type(source)):
            return out, types.SimpleNamespace(x=slopes[0])
        return out, slopes if isinstance(source, np.ndarray) else slopes[0]

    return call


def grad(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    return lambda *args: value_and_grad(f, argnums)(*args)[1]


Reference = types.SimpleNamespace(
    differentiable=attrs.define,
    field=field,
    primitive=Primitive,
    stop_gradient=stop_gradient,
    primal=stop_gradient,
    pause=pause,
    checkpoint=lambda f: f,
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
            elif isinstance(value, list | tuple):
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
            elif not isinstance(value, tuple):
                for name, part in held.items():
                    object.__setattr__(value, name, part)
