"""Reads past a recording by attributes of objects that it does not follow: ``self.pos``, of an undecorated class.

Such an attribute is as plain a name as a global one, see `_read_past`. Its reads are those of ``self.pos`` in the methods
of the object's class, of ``sim.pos`` where `sim` stands for the object, and, if no field has that name, of ``any.pos``.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from types import CodeType, FunctionType, MemberDescriptorType, MethodType
from typing import Any, Final, NamedTuple, Protocol

from ._arrays import ARRAYS
from ._attributes import Attributes
from ._fields import CapturedField
from ._loads import GLOBAL, ITEM, LOCAL, Load, loads_of, with_inner
from ._plain_names import UNSET, Read, items_of, read_by
from ._reached import names_in
from ._states import kind_of

_MOST: Final = 64  # objects that are looked at, and items of a container that may be some
FUNCTIONS: Final = (FunctionType, MethodType, functools.partial)
_DATA: Final = frozenset({*ARRAYS, float, int, bool, str, type(None)})
_PLAIN: Final = frozenset({*_DATA, FunctionType, type})
# Methods that are part of every class, and that seldom run in a recording on an object that was there before.
_SELDOM: Final = frozenset(
    {
        *("__init__", "__new__", "__pre_init__", "__post_init__", "__attrs_post_init__", "__init_subclass__"),
        *("__attrs_pre_init__", "__del__", "__repr__", "__str__", "__format__", "__dir__", "__sizeof__"),
        *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    }
)


class Piece(Protocol):
    """A piece of code that may read: that of a function, or of a block."""

    where: str  # what it is, in the words of an error message

    def places(self) -> Iterable[tuple[CodeType, Load]]:
        """The places at which names are loaded."""

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""

    def own_name(self, cls: type) -> str | None:
        """What the object is called there whose method it is, if it is one of a class."""

    def mentions(self) -> set[str]:
        """The names of globals, of a closure and of attributes that stand in it."""


class FunctionCode:
    """The code of a function.

    Parameters
    ----------
    function : function
    variables : dict
        What is known of its parameters.
    """

    def __init__(self, function: FunctionType, variables: dict[str, Any]) -> None:
        self.function = function
        self.where = function.__qualname__
        self._variables = variables

    def places(self) -> Iterator[tuple[CodeType, Load]]:
        """The places at which names are loaded."""
        if self.function.__name__ not in _SELDOM:
            for code in with_inner(self.function.__code__):
                for load in loads_of(code).loads:
                    yield code, load

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""
        if load.kind == GLOBAL:
            return self.function.__globals__.get(load.name, UNSET)
        own = self.function.__code__
        if load.name in own.co_freevars:
            with suppress(ValueError):
                return (self.function.__closure__ or ())[own.co_freevars.index(load.name)].cell_contents
        return UNSET if load.kind == LOCAL and code is not own else self._variables.get(load.name, UNSET)

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""
        own = self.function.__code__
        value = UNSET if callee.kind == LOCAL else self.value_of(own, callee)
        if value is UNSET and callee.kind == GLOBAL:
            value = getattr(builtins, callee.name, UNSET)
        return value, callee.attributes

    def own_name(self, cls: type) -> str | None:
        """What the object is called there whose method it is, if it is one of a class."""
        code = self.function.__code__
        return code.co_varnames[0] if code.co_argcount and _is_method(self.function, cls) else None

    def mentions(self) -> set[str]:
        """The names of globals, of its closure and of attributes that stand in it."""
        return mentioned(self.function)


class Code:
    """The code that may read, and the names of fields of captured objects."""

    def __init__(self, pieces: Sequence[Piece], fields: frozenset[str]) -> None:
        self.pieces = pieces
        self.fields = fields

    @functools.cached_property
    def mentions(self) -> set[str]:
        """The names of globals, of closures and of attributes that stand in it."""
        return {name for piece in self.pieces for name in piece.mentions()}


class Attribute(NamedTuple):
    """An attribute of an object that is not captured."""

    obj: Any
    name: str
    ways: set[str | None]  # the attributes by which code gets at the object; None is any other way


class AttributeName:
    """An attribute of an object, and the places at which some code reads it."""

    __slots__ = ("_code", "_obj", "_value", "_ways", "attribute", "name")

    def __init__(self, found: Attribute, value: Any, code: Code) -> None:
        self._obj = found.obj
        self._ways = found.ways
        self._value = value
        self._code = code
        self.attribute = found.name
        self.name = f"{type(found.obj).__name__}.{found.name}"

    def value(self) -> Any:
        """Its value."""
        return self._value

    @property
    def reads(self) -> list[Read]:
        """The places that may look into the value."""
        found = [read for piece in self._code.pieces for read in self._reads_in(piece)]
        return sorted(found, key=str)

    def _reads_in(self, piece: Piece) -> Iterator[Read]:
        own = piece.own_name(type(self._obj))
        may_run = own is None or self._may_be_used
        for code, load in piece.places():
            if self.attribute not in load.attributes:
                continue
            is_own = load.kind != GLOBAL and load.name == own
            if is_own and not may_run:
                continue
            start = self._obj if is_own else piece.value_of(code, load)
            rest = self._rest(start, load) if start is not UNSET else self._rest_of_any(load.attributes)
            read = None if rest is None else read_by(load, rest, piece.where, code, piece.given_to)
            if read is not None:
                yield read

    @property
    def _may_be_used(self) -> bool:
        """Whether the code may get at the object, to call it or a method of it."""
        return None in self._ways or not self._ways.isdisjoint(self._code.mentions)

    def _rest(self, value: Any, load: Load) -> tuple[str, ...] | None:
        """Which attributes are taken of the value of this one, where it is among those of another value; else None."""
        key = load.key
        for k, name in enumerate(load.attributes):
            if value is self._obj and name == self.attribute:
                return load.attributes[k + 1 :]
            value = _step(value, name, key)
            key = None if name == ITEM else key  # it is that of the first item
            if value is UNSET:
                return self._rest_of_any(load.attributes[k + 1 :])
        return None

    def _rest_of_any(self, attributes: tuple[str, ...]) -> tuple[str, ...] | None:
        """Those that are taken of the attribute, of whatever object it may be."""
        if self.attribute not in attributes or self.attribute in self._code.fields:
            return None  # it may be a field
        return attributes[attributes.index(self.attribute) + 1 :]


def _step(value: Any, name: str, key: Any) -> Any:
    """The value of an attribute, or of an item; UNSET if code would have to run to tell it."""
    if name == ITEM:
        is_known = type(key) is int and type(value) in (list, tuple) and -len(value) <= key < len(value)
        return value[key] if is_known or (type(value) is dict and key in value) else UNSET
    found = inspect.getattr_static(value, name, UNSET)
    if type(found) is MemberDescriptorType or type(found) is CapturedField:
        with suppress(AttributeError):
            return found.__get__(value, type(value))
        return UNSET
    return UNSET if hasattr(type(found), "__get__") else found


def run_by(
    functions: list[FunctionType], first: list[FunctionType], named: set[str], program: Iterable[Any]
) -> list[FunctionType]:
    """Those of some functions that a piece of code may run, and not only when an object is made.

    Parameters
    ----------
    functions : list of function
    first : list of function
        Those that it certainly runs.
    named : set of str
        The names of globals and attributes in it.
    program : iterable of Name
        Names of parts of the program, which may stand for functions that are called otherwise.
    """
    by_name: dict[str, list[FunctionType]] = {}
    for function in functions:
        by_name.setdefault(function.__name__, []).append(function)
    for name in program:
        value = name.value()
        if type(value) is FunctionType and value.__name__ != name.name:
            by_name.setdefault(name.name, []).append(value)
    pending = [*first, *(function for function in functions if _runs_unnamed(function.__name__))]
    pending += [function for name in named for function in by_name.pop(name, ())]
    found: dict[int, FunctionType] = {}
    while pending:
        function = pending.pop()
        if id(function) not in found:
            found[id(function)] = function
            for name in mentioned(function):
                pending += by_name.pop(name, ())
    return list(found.values())


def mentioned(function: FunctionType) -> set[str]:
    """The names of globals, of its closure and of attributes that stand in a function's code."""
    value_of = function.__globals__.get
    return {
        name
        for code in with_inner(function.__code__)
        for name in names_in(code, loads_of(code).whole, value_of)
    }


def attributes_near(roots: Iterable[Any]) -> Iterator[tuple[Attribute, Any]]:
    """Attributes of objects that are not captured, to which some values lead, with their values; the near first."""
    pending: deque[tuple[Any, str | None]] = deque((root, None) for root in roots)
    found: dict[int, tuple[Any, set[str | None], dict[str, Any]]] = {}
    containers: dict[tuple[int, str | None], Any] = {}
    while pending and len(found) < _MOST:
        obj, by = pending.popleft()
        kind = type(obj)
        if kind in _PLAIN:
            continue
        if id(obj) in found:
            found[id(obj)][1].add(by)
        elif kind in (list, tuple, dict):
            if (id(obj), by) in containers:
                continue
            containers[id(obj), by] = obj
            pending += [(item, by) for item in list(obj.values() if kind is dict else obj)[:_MOST]]
        elif kind is MethodType:
            pending.append((obj.__self__, by))
        elif is_followed_past(obj):
            now = Attributes(obj).before
            found[id(obj)] = obj, {by}, now
            pending += [(value, name) for name, value in now.items() if type(value) not in _PLAIN]
    for obj, ways, now in found.values():
        for name, value in now.items():
            yield Attribute(obj, name, ways), value


def functions_in(value: Any) -> list[Any]:
    """A value, if it is a function, or the functions in a container."""
    if type(value) in _DATA:
        return []
    return [each for each in (value, *items_of(value)[:_MOST]) if issubclass(type(each), FUNCTIONS)]


def is_followed_past(value: Any) -> bool:
    """Whether a value is an object with attributes that a recording does not follow."""
    return kind_of(value).state_of is Attributes


def bound_self(function: Any) -> list[Any]:
    """The object that a method is bound to."""
    return [function.__self__] if type(function) is MethodType else []


def _runs_unnamed(name: str) -> bool:
    """Whether a method runs without its name in the code: ``obj()``, ``obj[i]``, ``a @ b``."""
    return name.startswith("__") and name.endswith("__") and name not in _SELDOM


def _is_method(function: FunctionType, cls: type) -> bool:
    for base in cls.__mro__:
        member = vars(base).get(function.__name__)
        if member is function or getattr(member, "fget", None) is function:
            return True
        if getattr(member, "func", None) is function or getattr(member, "__wrapped__", None) is function:
            return True
    return False
