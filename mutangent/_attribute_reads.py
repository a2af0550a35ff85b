"""Reads past a recording by attributes of objects that it does not follow: ``self.pos``, of an undecorated class.

Such an attribute is as plain a name as a global one, see `_read_past`. Its reads are those of ``self.pos`` in the methods
of the object's class, of ``sim.pos`` where `sim` stands for the object, and, if no field has that name, of ``any.pos``.
"""

from __future__ import annotations

import functools
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, Final, NamedTuple

from ._arrays import ARRAYS
from ._attributes import Attributes
from ._loads import GLOBAL, Load, loads_of, with_inner
from ._plain_names import UNSET, Read, items_of, read_by
from ._reached import home_of
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


class Code(NamedTuple):
    """The code that may read."""

    functions: list[FunctionType]
    called: Any  # the recorded function
    variables: dict[str, Any]  # its parameters
    fields: frozenset[str]  # the names of fields of captured objects

    def names(self) -> set[str]:
        """The names of globals and attributes that stand in it."""
        return {
            name
            for function in self.functions
            for inner in with_inner(function.__code__)
            for name in inner.co_names
        }

    def value_of(self, function: FunctionType, load: Load) -> Any:
        """What a name stands for in a function; UNSET if that is not known."""
        if load.kind == GLOBAL:
            return function.__globals__.get(load.name, UNSET)
        code = function.__code__
        if load.name in code.co_freevars:
            with suppress(ValueError):
                return (function.__closure__ or ())[code.co_freevars.index(load.name)].cell_contents
        return self.variables.get(load.name, UNSET) if function is self.called else UNSET


class Attribute(NamedTuple):
    """An attribute of an object that is not captured."""

    obj: Any
    name: str
    ways: set[str | None]  # the attributes by which code gets at the object; None is any other way


class AttributeName:
    """An attribute of an object, and the places at which some functions read it."""

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
        found = [read for function in self._code.functions for read in self._reads_in(function)]
        return sorted(found, key=str)

    def _reads_in(self, function: FunctionType) -> Iterator[Read]:
        code = function.__code__
        if function.__name__ in _SELDOM:
            return
        own = code.co_varnames[0] if code.co_argcount and _is_method(function, type(self._obj)) else None
        may_run = own is None or self._may_be_used
        for inner in with_inner(code):
            for load in loads_of(inner).loads:
                if self.attribute not in load.attributes:
                    continue
                is_own = load.kind != GLOBAL and load.name == own
                if is_own and not may_run:
                    continue
                start = self._obj if is_own else self._code.value_of(function, load)
                if start is not UNSET:
                    rest = self._rest(start, load.attributes)
                elif self.attribute in self._code.fields:
                    continue  # it may be a field
                else:
                    rest = load.attributes[load.attributes.index(self.attribute) + 1 :]
                read = None if rest is None else read_by(load, rest, function.__qualname__, inner, _unknown)
                if read is not None:
                    yield read

    @property
    def _may_be_used(self) -> bool:
        """Whether the code may get at the object, to call it or a method of it."""
        return None in self._ways or not self._ways.isdisjoint(self._code.names())

    def _rest(self, value: Any, attributes: tuple[str, ...]) -> tuple[str, ...] | None:
        """Which attributes are taken of the value of this one, if it is among those that are taken of another value."""
        for k, name in enumerate(attributes):
            if value is self._obj and name == self.attribute:
                return attributes[k + 1 :]
            try:
                value = object.__getattribute__(value, name)
            except AttributeError:
                return None
        return None


def run_by(code: CodeType | None, functions: list[FunctionType], names: Iterable[Any]) -> list[FunctionType]:
    """Those of some functions that one of them may run, by the names in its code, and not only when an object is made.

    Parameters
    ----------
    code : CodeType
        Where it begins; all functions are returned if none of them has it.
    functions : list of function
    names : iterable of Name
        Names of parts of the program, which may stand for functions that are called otherwise.
    """
    named: dict[str, list[FunctionType]] = {}
    for function in functions:
        named.setdefault(function.__name__, []).append(function)
    for name in names:
        value = name.value()
        if type(value) is FunctionType and value.__name__ != name.name:
            named.setdefault(name.name, []).append(value)
    pending = [function for function in functions if function.__code__ is code]
    if not pending:
        return functions
    pending += [function for function in functions if _runs_unnamed(function.__name__)]
    found: dict[int, FunctionType] = {}
    while pending:
        function = pending.pop()
        if id(function) not in found:
            found[id(function)] = function
            for inner in with_inner(function.__code__):
                for name in {*inner.co_names, *inner.co_freevars} - _of_modules(inner, function):
                    pending += named.pop(name, ())
    return list(found.values())


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


def _of_modules(code: CodeType, function: FunctionType) -> set[str]:
    """Names that stand in the code for attributes of modules alone, as `log` in ``np.log(x)``: no method has them."""
    loads = loads_of(code)
    count: Counter[str] = Counter()
    for load, before, name in loads.taken:
        value = function.__globals__.get(load.name) if load.kind == GLOBAL else None
        for attribute in before:
            value = vars(value).get(attribute) if type(value) is ModuleType else None
        if type(value) is ModuleType and home_of(str(getattr(value, "__file__", None) or "")) != "":
            count[name] += 1
    return {name for name, times in count.items() if times == loads.mentions[name]}


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


def _unknown(_load: Load) -> tuple[Any, tuple[str, ...]]:
    return UNSET, ()
