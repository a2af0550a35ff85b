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
from types import CodeType, FunctionType, GeneratorType, MemberDescriptorType, MethodType
from typing import Any, Final, NamedTuple, Protocol

from ._arrays import ARRAYS
from ._attributes import Attributes
from ._bindings import data_of_class
from ._fields import CapturedField
from ._loads import (
    CLASS,
    GIVEN,
    GLOBAL,
    ITEM,
    ITERATOR,
    LOCAL,
    UNKNOWN,
    Load,
    codes_around,
    loads_of,
    with_inner,
)
from ._plain_names import UNSET, DefaultName, Read, items_of, read_by
from ._reached import HEAP_TYPE, entries_of, names_in
from ._states import kind_of

_DEEPEST: Final = 12  # variables and calls through which a value is followed
_MOST: Final = 64  # objects that are looked at, and items of a container that may be some
FUNCTIONS: Final = (FunctionType, MethodType, functools.partial, GeneratorType)
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
    name: str  # that of the function
    code: CodeType

    def places(self) -> Iterable[tuple[CodeType, Load]]:
        """The places at which names are loaded."""

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""

    def own_name(self, cls: type) -> str | None:
        """What the object is called there whose method it is, if it is one of a class."""

    def is_parameter(self, code: CodeType, name: str) -> bool:
        """Whether a local name is one of what it is given."""

    def codes_around(self, code: CodeType) -> Iterable[CodeType]:
        """A part of it, and those around that, from which it has names."""

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
        self.name = function.__name__
        self.code = function.__code__
        self._variables = variables

    def places(self) -> Iterator[tuple[CodeType, Load]]:
        """The places at which names are loaded."""
        if self.function.__name__ not in _SELDOM:
            for code in with_inner(self.function.__code__):
                loads = loads_of(code)
                for load in (*loads.loads, *loads.unknown):
                    yield code, load

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""
        if load.kind == GLOBAL:
            return self.function.__globals__.get(load.name, UNSET)
        own = self.function.__code__
        if load.name in own.co_freevars:
            with suppress(ValueError):
                return (self.function.__closure__ or ())[own.co_freevars.index(load.name)].cell_contents
        is_inner = load.kind == LOCAL and code is not own
        return UNSET if is_inner else self._variables.get(load.name, UNSET)

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

    def is_parameter(self, code: CodeType, name: str) -> bool:
        """Whether a local name is one of what it is given."""
        own = self.function.__code__
        count = own.co_argcount + own.co_kwonlyargcount
        return name in own.co_varnames[:count] and (code is own or name in code.co_freevars)

    def codes_around(self, code: CodeType) -> list[CodeType]:
        """A part of it, and those around that, from which it has names."""
        return codes_around(self.function.__code__, code)

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

    @functools.cached_property
    def _given(self) -> dict[str, list[tuple[Piece, CodeType, Load]]]:
        """By the name of a function, the loads of what it is given."""
        found: dict[str, list[tuple[Piece, CodeType, Load]]] = {}
        for piece in self.pieces:
            for code, load in piece.places():
                if load.use == GIVEN and load.callee is not None:
                    value, rest = piece.given_to(load.callee)
                    found.setdefault(_name_of(load.callee, value, rest), []).append((piece, code, load))
        return found

    def chains_of(
        self, piece: Piece, code: CodeType, load: Load, passed: frozenset[Any] = frozenset()
    ) -> Iterator[Chain]:
        """By which ways one comes to what is loaded at a place: through variables, loops, arguments, and results."""
        key = id(load) if load.kind == UNKNOWN else (id(code), load.name)
        if key in passed or len(passed) > _DEEPEST:
            return
        steps = _steps_of(load)
        for start, before in self._sources_of(piece, code, load, passed | {key}):
            yield Chain(start, before + steps)

    def _sources_of(
        self, piece: Piece, code: CodeType, load: Load, passed: frozenset[Any]
    ) -> Iterator[Chain]:
        value = piece.value_of(code, load)
        if value is not UNSET:
            yield Chain(value, ())
        found = [
            source for each in piece.codes_around(code) for source in loads_of(each).bound.get(load.name, ())
        ]
        is_known = value is not UNSET or (bool(found) and None not in found)
        sources = [(piece, code, source) for source in found if source is not None]
        if piece.is_parameter(code, load.name):
            is_known = False  # somebody else may call it too
            sources += self._given.get(piece.name, ())
        parts = load.made_of
        if load.result_of is not None:
            value, rest = piece.given_to(load.result_of)
            returned = self._returned.get(_name_of(load.result_of, value, rest))
            sources += returned or ()
            if returned is not None or (
                issubclass(type(value), type) and value.__flags__ & HEAP_TYPE and not rest
            ):
                parts = []  # it is known what the function returns, or it is a new object
        for source in sources:
            yield from self.chains_of(*source, passed)
        for part in parts:
            for start, steps in self.chains_of(piece, code, part, passed):
                if start is UNSET:
                    yield Chain(UNSET, steps)
                else:
                    yield from (Chain(each, ()) for each in _within(_values_of(start, steps)))
        if not is_known:
            yield Chain(UNSET, ())

    def results_of(self, name: str) -> Iterator[Chain]:
        """By which ways one comes to what functions of a name return."""
        for source in self._returned.get(name, ()):
            yield from self.chains_of(*source)

    @functools.cached_property
    def _returned(self) -> dict[str, list[tuple[Piece, CodeType, Load]]]:
        """By the name of a function, the loads of what it returns."""
        found: dict[str, list[tuple[Piece, CodeType, Load]]] = {}
        for piece in self.pieces:
            code = piece.code
            found.setdefault(piece.name, []).extend((piece, code, load) for load in loads_of(code).returned)
        return found


def _name_of(callee: Load, value: Any, rest: tuple[str, ...]) -> str:
    """The name of a function that is called, by what is known of it."""
    return (
        value.__name__ if type(value) is FunctionType and not rest else (callee.name, *callee.attributes)[-1]
    )


class Chain(NamedTuple):
    """A value, or UNSET, and the attributes and items that are taken of it, one of the other, with the keys of items."""

    start: Any
    steps: tuple[tuple[str, Any], ...]


class Attribute(NamedTuple):
    """An attribute of an object that is not captured, or of a class."""

    obj: Any
    name: str
    ways: set[str | None]  # the attributes by which code gets at the object; None is any other way
    classes: list[type]  # in whose methods the object is `self`


class AttributeName:
    """An attribute of an object, and the places at which some code reads it."""

    __slots__ = ("_attribute", "_code", "_value", "name")

    def __init__(self, attribute: Attribute, value: Any, code: Code) -> None:
        self._attribute = attribute
        self._value = value
        self._code = code
        obj = attribute.obj
        self.name = f"{(obj if isinstance(obj, type) else type(obj)).__name__}.{attribute.name}"

    def value(self) -> Any:
        """Its value."""
        return self._value

    @property
    def reads(self) -> list[Read]:
        """The places that may look into the value."""
        found = [read for piece in self._code.pieces for read in self._reads_in(piece)]
        return sorted(found, key=str)

    def _reads_in(self, piece: Piece) -> Iterator[Read]:
        attribute = self._attribute
        own = {piece.own_name(cls) for cls in attribute.classes}
        for code, load in piece.places():
            if attribute.name not in load.attributes:
                continue
            is_own = load.kind != GLOBAL and load.name in own
            if is_own and not self._may_be_used:
                continue
            chains = (
                [Chain(attribute.obj, _steps_of(load))] if is_own else self._code.chains_of(piece, code, load)
            )
            for rest in filter(None, (self._rest(start, steps) for start, steps in chains)):
                read = read_by(load, rest[1:], piece.where, code, piece.given_to)
                if read is not None:
                    yield read

    @property
    def _may_be_used(self) -> bool:
        """Whether the code may get at the object, to call it or a method of it."""
        ways = self._attribute.ways
        return None in ways or not ways.isdisjoint(self._code.mentions)

    def _rest(self, value: Any, steps: tuple[tuple[str, Any], ...]) -> tuple[str, ...]:
        """The attributes from this one on, if it is among those that are taken of another value; else none."""
        if value is UNSET:
            return self._rest_of_any(tuple(name for name, _ in steps))
        if not steps:
            return ()
        (name, key), *others = steps
        if name == self._attribute.name and self._is_of(value):
            return tuple(name for name, _ in steps)
        ways = [Chain(each, tuple(others)) for each in _values_at(value, name, key)]
        if any(start is UNSET for start, _ in ways):  # a property, for example
            ways += [Chain(start, before + tuple(others)) for start, before in self._code.results_of(name)]
        return next(filter(None, (self._rest(*way) for way in ways)), ())

    def _is_of(self, value: Any) -> bool:
        """Whether it is an attribute of a value."""
        obj = self._attribute.obj
        if value is obj or not isinstance(obj, type):
            return value is obj
        is_near = obj in (value if isinstance(value, type) else type(value)).__mro__
        return is_near and inspect.getattr_static(value, self._attribute.name, UNSET) is self._value

    def _rest_of_any(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """The attributes from this one on, where those before it may lead to any object."""
        for k, name in enumerate(names):
            if name == self._attribute.name:
                before = (
                    next((each for each in names[k - 1 :: -1] if each not in (ITEM, ITERATOR)), None)
                    if k
                    else None
                )
                if name not in self._code.fields or (before is not None and before in self._attribute.ways):
                    return names[k:]  # else it may be a field
        return ()


def _steps_of(load: Load) -> tuple[tuple[str, Any], ...]:
    """The attributes and items that are taken of what is loaded; the key of the first item is known."""
    first = load.attributes.index(ITEM) if ITEM in load.attributes else None
    return tuple((name, load.key if k == first else None) for k, name in enumerate(load.attributes))


def _values_of(value: Any, steps: tuple[tuple[str, Any], ...]) -> list[Any]:
    """What attributes and items of a value may be."""
    values = [value]
    for name, key in steps:
        values = [
            each for value in values[:_MOST] if value is not UNSET for each in _values_at(value, name, key)
        ]
    return values


def _within(values: list[Any]) -> list[Any]:
    """Values, and what lies in those that are containers."""
    found = {id(value): value for value in values}
    pending = deque(values)
    while pending and len(found) < _MOST:
        for item in items_of(pending.popleft())[:_MOST]:
            if type(item) not in _DATA and id(item) not in found:
                found[id(item)] = item
                pending.append(item)
    return list(found.values())


def _values_at(value: Any, name: str, key: Any) -> list[Any]:
    """What an attribute of a value may be, or an item; UNSET if code would have to run to tell it."""
    if name in (ITEM, ITERATOR):
        kind = type(value)
        if kind is dict and name == ITEM:
            return list(value.values())[:_MOST] if key is None else [value.get(key, UNSET)]
        if kind not in (list, tuple, deque):
            return [UNSET, value]  # such as what a generator gives in a loop over it
        items = list(value)
        return items[key : key + 1 or None] if type(key) is int else items[:_MOST]
    if name == CLASS:
        return [type(value)]
    found = inspect.getattr_static(value, name, UNSET)
    if type(found) is MemberDescriptorType or type(found) is CapturedField:
        with suppress(AttributeError):
            return [found.__get__(value, type(value))]
        return [UNSET]
    return [UNSET if hasattr(type(found), "__get__") else found]


def run_by(
    functions: list[FunctionType], first: list[FunctionType], named: set[str], names: Iterable[Any]
) -> list[FunctionType]:
    """Those of some functions that a piece of code may run, and not only when an object is made.

    Parameters
    ----------
    functions : list of function
    first : list of function
        Those that it certainly runs.
    named : set of str
        The names of globals and attributes in it.
    names : iterable of Name
        Names that may stand for functions that are called otherwise, or for lists of some.
    """
    by_name: dict[str, list[FunctionType]] = {}
    for function in functions:
        by_name.setdefault(function.__name__, []).append(function)
    pending = [*first]
    for name in names:
        called = functions_in(name.value())
        if called:  # a parameter is no name that stands in the code
            its = pending if type(name) is DefaultName else by_name.setdefault(name.name, [])
            its.extend(entries_of(tuple(called))[0])
    pending += [function for function in functions if _runs_unnamed(function.__name__)]
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
            yield Attribute(obj, name, ways, [type(obj)]), value


def attributes_of_classes(classes: Iterable[type]) -> Iterator[tuple[Attribute, Any]]:
    """Attributes of classes, and of those that they inherit from, with their values."""
    below: dict[type, list[type]] = {}
    for cls in classes:
        for base in cls.__mro__:
            below.setdefault(base, []).append(cls)
    for base, its in below.items():
        for name, value in data_of_class(base).items():
            yield Attribute(base, name, {None}, its), value


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
