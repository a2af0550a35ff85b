"""Tangents: what a derivative of a number, an array, an object or a container *is*.

An array's tangent is an array like it, a Python float's a float, an object's a `Tangent`, a container's the same kind
of container. Two values stand for "nothing": `ZeroTangent()`, where something could have flowed and did not, and
`NoTangent()`, where there is no direction to move in (strings, counters, callables). Type names say "tangent" for
tangents and cotangents alike.

Nothing here knows how tangents come about.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final, Self

import numpy as np

from ._arrays import type_name
from ._errors import CotangentError, GradientTypeError


class _Nothing:
    """Common behaviour of the two tangents without a value: one instance each, and simple arithmetic."""

    __slots__ = ()
    _instance: Any = None
    # ndarray's operators give way to ours: `b - lr * ZeroTangent()` is `b`.
    __array_ufunc__: Final = None

    def __new__(cls) -> Self:
        if cls._instance is None:
            cls._instance = super().__new__(cls)
        instance: Self = cls._instance
        return instance

    def __reduce__(self) -> tuple[type, tuple[()]]:
        return type(self), ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(type(self))

    def __add__(self, other: Any) -> Any:
        return NONE if isinstance(other, _Nothing) and NONE in (self, other) else other

    __radd__ = __add__

    def __sub__(self, other: Any) -> Any:
        return self + other if isinstance(other, _Nothing) else -other

    def __rsub__(self, other: Any) -> Any:
        return other

    def __mul__(self, other: Any) -> Any:
        return self

    __rmul__ = __mul__
    __truediv__ = __mul__

    def __neg__(self) -> Any:
        return self


class ZeroTangent(_Nothing):
    """The tangent of something differentiable to which nothing flowed.

    It adds as zero, without a shape: `b - lr * ZeroTangent()` is `b` itself. Where an array is needed,
    `numpy.asarray` gives a 0-d zero and `Tangent.dense` gives zeros of the right shape.

    Examples
    --------
    >>> np.array([1.0, 2.0]) - 0.1 * ZeroTangent()
    array([1., 2.])
    """

    __slots__ = ()

    def __float__(self) -> float:
        return 0.0

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        return np.zeros((), dtype)


class NoTangent(_Nothing):
    """The tangent of something that cannot be differentiated: None, strings, integers, booleans, callables.

    Examples
    --------
    >>> NoTangent() * 2
    NoTangent()
    """

    __slots__ = ()


ZERO: Final = ZeroTangent()
NONE: Final = NoTangent()


def field_names(cls: type) -> tuple[str, ...]:
    """The names of the attrs fields of `cls`, in order."""
    return tuple(attribute.name for attribute in getattr(cls, "__attrs_attrs__", ()))


class _Method:
    """A method that gives way to a field of the same name; `Tangent.dense(tangent)` reaches it all the same."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.__doc__ = function.__doc__
        self.function = function

    def __get__(self, tangent: Any, cls: type | None = None) -> Any:
        if tangent is None:
            return self.function
        name = self.function.__name__
        return (
            tangent[name] if name in field_names(tangent._cls) else functools.partial(self.function, tangent)
        )


class Tangent:
    """The tangent of one object: one tangent per field.

    Parameters
    ----------
    cls : type
        The class of the primal object.
    **fields
        Tangents of fields, by the field's name. A field that is left out reads as `ZeroTangent()`.

    Notes
    -----
    Fields are attributes (`tangent.weight`) and items (`tangent["weight"]`); the second form also reaches a field
    whose name is a method's. Two objects have two tangents even if they are equal, and an object reached by two paths
    has one, which stands in both places. Arithmetic and `==` respect that, and cycles.

    Examples
    --------
    >>> import attrs
    >>> @attrs.define
    ... class Line:
    ...     slope: float
    ...     offset: float
    >>> t = Tangent(Line, slope=2.0)
    >>> t + t
    Tangent[Line](slope=4.0)
    >>> t.offset
    ZeroTangent()
    """

    __slots__ = ("__weakref__", "_cls", "_fields", "_like")
    __array_ufunc__: Final = None
    __hash__ = None  # type: ignore[assignment]

    _cls: type
    _fields: dict[str, Any]
    _like: dict[str, Any]

    def __init__(self, cls: type, /, **fields: Any) -> None:
        known = field_names(cls)
        for name in fields:
            if name not in known:
                raise TypeError(
                    f"{cls.__name__} has no field {name!r}; its fields are {', '.join(known) or 'none'}"
                )
        self._cls = cls
        self._fields = fields
        self._like = {}

    @classmethod
    def _shell(cls, primal_cls: type, like: dict[str, Any]) -> Tangent:
        """An empty tangent to be filled by a walk; `like` says what zero means for the fields left out."""
        shell = cls.__new__(cls)
        shell._cls = primal_cls
        shell._fields = {}
        shell._like = like
        return shell

    def __getitem__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            if name in field_names(self._cls):
                return ZERO
            raise KeyError(f"{self._cls.__name__} has no field {name!r}") from None

    def __getattr__(self, name: str) -> Any:
        if name in Tangent.__slots__:  # an instance that is still being unpickled
            raise AttributeError(name)
        try:
            return self[name]
        except KeyError:
            raise AttributeError(
                f"{self._cls.__name__} has no field {name!r}; its fields are {', '.join(field_names(self._cls))}"
            ) from None

    def __iter__(self) -> Iterator[str]:
        """The names of the fields that are present."""
        return iter(self._fields)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *field_names(self._cls)]

    def __reduce__(self) -> tuple[Any, ...]:
        # `_like` is left behind: it may hold primal objects, and a copy of a tangent should not copy the model.
        return Tangent, (self._cls,), self._fields

    def __setstate__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def __repr__(self) -> str:
        return render(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Tangent):
            return NotImplemented
        return equal(self, other)

    def __add__(self, other: Any) -> Any:
        return combine(_add, self, other) if _is_tangent_of(self, other) else NotImplemented

    def __radd__(self, other: Any) -> Any:
        return combine(_add, other, self) if _is_tangent_of(self, other) else NotImplemented

    def __sub__(self, other: Any) -> Any:
        return combine(_subtract, self, other) if _is_tangent_of(self, other) else NotImplemented

    def __mul__(self, factor: Any) -> Any:
        return combine(lambda leaf: leaf * factor, self) if _is_number(factor) else NotImplemented

    def __rmul__(self, factor: Any) -> Any:
        return combine(lambda leaf: factor * leaf, self) if _is_number(factor) else NotImplemented

    def __truediv__(self, factor: Any) -> Any:
        return combine(lambda leaf: leaf / factor, self) if _is_number(factor) else NotImplemented

    def __neg__(self) -> Tangent:
        negative: Tangent = combine(lambda leaf: -leaf, self)
        return negative

    @_Method
    def dense(self) -> Tangent:
        """The same tangent with arrays (or numbers) of zeros in place of every `ZeroTangent`.

        Only a gradient that mutangent computed knows the shapes of what it left out; in a tangent made by hand a
        `ZeroTangent` stays.

        Returns
        -------
        Tangent
            A new tangent; shared parts stay shared.
        """
        shells: dict[int, Tangent] = {}
        pending: list[tuple[Tangent, Any, Any]] = []

        def visit(value: Any, like: Any) -> Any:
            if isinstance(value, Tangent) or (value is ZERO and isinstance(like, ObjectLike)):
                source = value if isinstance(value, Tangent) else like.primal
                shell = shells.get(id(source))
                if shell is None:
                    primal_cls = value._cls if isinstance(value, Tangent) else type(like.primal)
                    shell = shells[id(source)] = Tangent._shell(primal_cls, {})
                    pending.append((shell, value, like))
                return shell
            if value is ZERO:
                return like() if callable(like) else value
            return map_container(lambda item: visit(item, None), value)

        result: Tangent = visit(self, None)
        while pending:
            shell, value, like = pending.pop()
            likes = value._like if value is not ZERO else like.fields()
            for name in field_names(shell._cls):
                present = ZERO if value is ZERO else value[name]
                shell._fields[name] = visit(present, likes.get(name))
        visit = None  # type: ignore[assignment]  # it refers to itself
        return result


class ObjectLike:
    """Stands in `Tangent._like` for a child object that the recording never touched."""

    __slots__ = ("_likes", "primal")

    def __init__(self, primal: Any, likes: Callable[[Any], dict[str, Any]]) -> None:
        self.primal = primal
        self._likes = likes

    def fields(self) -> dict[str, Any]:
        """What zero means for each field of the object."""
        return self._likes(self.primal)


def _is_number(value: Any) -> bool:
    return np.ndim(value) == 0 and not isinstance(value, Tangent | _Nothing | str)


def _is_tangent_of(tangent: Tangent, other: Any) -> bool:
    if isinstance(other, Tangent) and other._cls is not tangent._cls:
        raise GradientTypeError(
            f"a tangent of {tangent._cls.__name__} and one of {other._cls.__name__} cannot be added: they belong to "
            "objects of different classes. Add the tangents of their fields, `a.w + b.w`, if those belong together."
        )
    return isinstance(other, Tangent | _Nothing)


def _add(a: Any, b: Any) -> Any:
    return a + b


def _subtract(a: Any, b: Any) -> Any:
    return a - b


def rebuild(container: Any, items: list[Any]) -> Any:
    """A tuple, list, deque or dict like `container` with other values: a subclass and a named tuple stay what they are."""
    if isinstance(container, dict):
        return dict(zip(container, items, strict=True))
    if isinstance(container, tuple):
        return _tuple_like(container, items)
    return deque(items, container.maxlen) if isinstance(container, deque) else list(items)


def _tuple_like(model: Any, items: list[Any]) -> Any:
    cls = type(model)
    if cls is tuple:
        return tuple(items)
    if hasattr(cls, "_make"):
        return cls._make(items)
    made = tuple.__new__(cls, items)  # its own `__new__` may ask for other arguments
    if hasattr(model, "__dict__"):
        vars(made).update(vars(model))
    return made


def children(container: Any) -> list[Any] | None:
    """The values of a tuple, list, deque or dict; None for anything else."""
    if isinstance(container, dict):
        return list(container.values())
    if isinstance(container, list | tuple | deque):
        return list(container)
    return None


def map_container(visit: Callable[[Any], Any], value: Any) -> Any:
    """Apply `visit` to the items of a container, or return `value` itself if it is none."""
    items = children(value)
    return value if items is None else rebuild(value, [visit(item) for item in items])


def combine(leaf: Callable[..., Any], *roots: Any) -> Any:
    """Apply `leaf` to corresponding leaves of tangents; sharing and cycles carry over to the result.

    The walk over objects is iterative, so a long chain of objects does not exhaust Python's stack.

    Raises
    ------
    CotangentError
        If several tangents have not the same structure, apart from `ZeroTangent` and `NoTangent`.
    """
    shells: dict[tuple[int, ...], Tangent] = {}
    pending: list[tuple[Tangent, tuple[Any, ...]]] = []

    def visit(where: str, *values: Any) -> Any:
        first: Any = next((value for value in values if not isinstance(value, _Nothing)), None)
        if len(values) > 1 and first is not None:
            for value in values:
                _require_alike(where, first, value)
        if isinstance(first, Tangent):
            key = tuple(map(id, values))
            shell = shells.get(key)
            if shell is None:
                shell = shells[key] = Tangent._shell(first._cls, first._like)
                pending.append((shell, values))
            return shell
        if children(first) is not None:
            keys = list(first) if isinstance(first, dict) else list(range(len(first)))
            rows = [
                [value if isinstance(value, _Nothing) else value[key] for value in values] for key in keys
            ]
            return rebuild(
                first, [visit(f"{where}[{key!r}]", *row) for key, row in zip(keys, rows, strict=True)]
            )
        return leaf(*values)

    result = visit("the value", *roots)
    while pending:
        shell, values = pending.pop()
        names = dict.fromkeys(name for value in values if isinstance(value, Tangent) for name in value)
        for name in names:
            shell._fields[name] = visit(
                f"{shell._cls.__name__}.{name}",
                *(value[name] if isinstance(value, Tangent) else value for value in values),
            )
    visit = None  # type: ignore[assignment]  # it refers to itself, and to all that it made
    return result


def _require_alike(where: str, a: Any, b: Any) -> None:
    """Raise unless two parts of tangents have one structure, so that they are tangents of one value."""
    if a is b or isinstance(b, _Nothing):
        return
    if isinstance(a, Tangent) or isinstance(b, Tangent):
        alike = isinstance(a, Tangent) and isinstance(b, Tangent) and a._cls is b._cls
    elif children(a) is not None or children(b) is not None:
        if isinstance(a, dict) and isinstance(b, dict):
            alike = a.keys() == b.keys()
        else:
            alike = (
                isinstance(a, list | tuple | deque)
                and isinstance(b, list | tuple | deque)
                and len(a) == len(b)
            )
    else:
        alike = getattr(a, "shape", ()) == getattr(b, "shape", ())
    if not alike:
        raise CotangentError(
            f"the tangents cannot be added: that of {where} is {_in_words(a)} in one, and {_in_words(b)} in the other. A "
            "tangent has the structure that its value had on entry, and this one was another, or had grown or shrunk, in "
            "between. Add the tangents of the fields that stay as they are, `a.w + b.w`; or return what grows in place of "
            "keeping it in the object, or clear it before each call."
        )


def _in_words(value: Any) -> str:
    if isinstance(value, Tangent):
        return f"a Tangent of {value._cls.__name__}"
    if isinstance(value, dict):
        return f"a dict with the keys {list(value)}"
    items = children(value)
    if items is not None:
        return f"{type_name(value)} of {len(items)}"
    shape = getattr(value, "shape", ())
    return f"an array of shape {shape}" if shape else type_name(value)


def equal(a: Tangent, b: Tangent) -> bool:
    """Whether two tangents have equal leaves; what is left out equals `ZeroTangent()`, `NoTangent()`, a tangent of them."""
    seen: set[tuple[int, int]] = set()
    pending: list[tuple[Any, Any]] = [(a, b)]
    while pending:
        x, y = pending.pop()
        if isinstance(x, Tangent) or isinstance(y, Tangent):
            if isinstance(x, Tangent) and isinstance(y, Tangent) and x._cls is not y._cls:
                return False
            if not isinstance(x, Tangent | _Nothing) or not isinstance(y, Tangent | _Nothing):
                return False
            if (id(x), id(y)) not in seen:
                seen.add((id(x), id(y)))
                names = dict.fromkeys(
                    [*(x if isinstance(x, Tangent) else ()), *(y if isinstance(y, Tangent) else ())]
                )
                pending += [(_part(x, name), _part(y, name)) for name in names]
            continue
        xs, ys = children(x), children(y)
        if xs is not None and ys is not None:
            if type(x) is not type(y) or len(xs) != len(ys) or (isinstance(x, dict) and list(x) != list(y)):
                return False
            pending += zip(xs, ys, strict=True)
        elif isinstance(x, _Nothing) or isinstance(y, _Nothing):
            if not (isinstance(x, _Nothing) and isinstance(y, _Nothing)):
                return False
        elif (
            xs is not None
            or ys is not None
            or np.shape(x) != np.shape(y)
            or not bool((x == y).all() if np.shape(x) else x == y)
        ):
            return False
    return True


def _part(value: Any, name: str) -> Any:
    return value[name] if isinstance(value, Tangent) else ZERO


MAX_REPR_DEPTH: Final = 12
MAX_REPR_SIZE: Final = 24


def render(root: Tangent) -> str:
    """The text of a tangent. A part that stands in several places is written once, and cycles end."""
    seen: set[int] = set()

    def text(value: Any, depth: int) -> str:
        if isinstance(value, Tangent):
            name = f"Tangent[{value._cls.__name__}]"
            if id(value) in seen or depth > MAX_REPR_DEPTH:
                return f"{name}(...)"
            seen.add(id(value))
            return f"{name}({', '.join(f'{key}={text(item, depth + 1)}' for key, item in value._fields.items())})"
        if isinstance(value, dict):
            return "{" + ", ".join(f"{key!r}: {text(item, depth)}" for key, item in value.items()) + "}"
        if isinstance(value, list):
            return "[" + ", ".join(text(item, depth) for item in value) + "]"
        if isinstance(value, tuple):
            return (
                "(" + ", ".join(text(item, depth) for item in value) + ("," if len(value) == 1 else "") + ")"
            )
        if isinstance(value, np.ndarray) and value.size > MAX_REPR_SIZE:
            return f"array(shape={value.shape}, dtype={value.dtype})"
        return " ".join(repr(value).split())

    return text(root, 0)
