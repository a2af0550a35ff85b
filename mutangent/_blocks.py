"""The plain names of variables: those that the code of a `with` block reads, and the parameters of a function.

Unlike a function, a block lies in code that has names for everything. So only what is loaded within the block counts.
"""

from __future__ import annotations

import builtins
import functools
import inspect
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from types import CodeType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from ._arrays import with_arrays
from ._bytecode import codes_around, loads_of, with_inner
from ._live_names import loads_as_given
from ._loads import CELL, GLOBAL, LOCAL, UNKNOWN, Load, Part, Step
from ._plain_names import (
    HOLDERS,
    PROGRAM,
    UNSET,
    DefaultName,
    Name,
    Read,
    is_way_to_data,
    items_within,
    read_by,
)
from ._reached import MOST, behind, home_of, is_users_module, names_in
from ._references import ALONE, COUNTS_REFERENCES

_LOCALS_ARE_A_COPY: Final = sys.version_info < (3, 13)


_PLAIN: Final = frozenset({float, int, bool, complex, str, bytes, type(None)})
_CONTAINERS: Final = (set, bytearray)  # beside those that are looked through
_MAY_HOLD: Final = with_arrays(*HOLDERS)


class Variable:
    """A plain name of a variable, and the places at which it is loaded."""

    __slots__ = ("_loads", "_look", "_value", "name")

    def __init__(self, name: str, value: Any, look: _Look) -> None:
        self.name = name
        self._value = value
        self._loads: list[tuple[Load, CodeType, tuple[Step, ...]]] = []
        self._look = look

    def value(self) -> Any:
        """Its value."""
        return self._value

    def add(self, load: Load, code: CodeType, steps: tuple[Step, ...]) -> None:
        """Add a place, and the attributes and items that are taken of the value there."""
        self._loads.append((load, code, steps))

    @property
    def reads(self) -> list[Read]:
        """The places that may look into the value."""
        look = self._look
        found = [read_by(load, steps, look.where, code, look.given_to) for load, code, steps in self._loads]
        return [read for read in found if read is not None]


class Block:
    """The block that a frame enters, and its context manager. It holds no frame, which would hold all of its variables."""

    __slots__ = ("_context", "_frame", "code", "start")

    def __init__(self, frame: FrameType, context: Any) -> None:
        self._frame = id(frame)
        self.code = frame.f_code
        self.start = frame.f_lasti
        self._context = weakref.ref(context)

    def is_in(self, frame: FrameType) -> bool:
        """Whether a frame is that of the block."""
        return id(frame) == self._frame and frame.f_code is self.code

    def look(self) -> BlockCode | None:
        """Look at the code, while the block is left; None if it is not known which code that is."""
        frame: FrameType | None = sys._getframe(1)
        while frame is not None and not self.is_in(frame):
            frame = frame.f_back
        if frame is None:
            return None
        look = _Look(self.code, frame.f_globals, _Variables(frame), "the block", self._context())
        return BlockCode(self.code, self.start, loads_of(self.code).block(self.start), look)


class BlockCode:
    """The code of a block: the names in it, and what they stand for."""

    def __init__(self, code: CodeType, start: int, part: Part, look: _Look) -> None:
        self.where = look.where
        self.code = code
        self.start = start
        self.homes = look.homes
        self._look = look
        self._parts = [(code, part), *((each, loads_of(each).whole) for each in _all_within(part.within))]
        # Names of globals and attributes that stand in it, but for those of attributes of modules.
        self.named = {name for each, its in self._parts for name in names_in(each, its, look.global_named)}
        at: dict[tuple[str, str], list[Load]] = {}
        for load in part.loads:
            at.setdefault((load.kind, load.name), []).append(load)
        for (kind, name), loads in at.items():
            look.at(kind, name, loads, code)
        for inner, its in self._parts[1:]:
            for load in its.loads:
                if load.kind == CELL or (load.kind == GLOBAL and not loads_of(inner).is_own(load)):
                    look.at(load.kind, load.name, [load], inner)
        self.variables = look.take()

    @property
    def called(self) -> list[Any]:
        """Functions and other parts of the program that it names."""
        return self._look.called

    @property
    def objects(self) -> list[Any]:
        """Objects that it names, and that lie in containers which it names."""
        return list(self._look.objects.values())

    def places(self) -> Iterator[tuple[CodeType, Load]]:
        """The places at which names are loaded."""
        for code, part in self._parts:
            for load in (*part.loads, *part.unknown):
                yield code, load

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""
        is_own = load.kind == LOCAL and code is not self._look.code
        return UNSET if is_own or load.kind == UNKNOWN else self._look.value_of(load.kind, load.name)

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""
        return self._look.given_to(callee)

    def codes_around(self, code: CodeType) -> list[CodeType]:
        """A part of it, and those around that, from which it has names."""
        return codes_around(self._look.code, code)

    def has(self, code: CodeType, offset: int) -> bool:
        """Whether an instruction of a part of it, or of the code around it, belongs to it."""
        return code is not self.code or any(offset in each for each in self._parts[0][1].offsets)


def _all_within(codes: Iterable[CodeType]) -> list[CodeType]:
    return [each for code in codes for each in with_inner(code)]


def may_hold(value: Any) -> bool:
    """Whether a value is an array, or is looked through for some."""
    kind = type(value)
    return kind in _MAY_HOLD or issubclass(kind, (*HOLDERS, functools.partial)) or is_way_to_data(value)


def names_given(function: Any, args: Iterable[Any], kwargs: dict[str, Any]) -> list[Variable]:
    """The parameters of the user's function that a call runs, with what the call gives them."""
    function, variables = given_to(function, args, kwargs)
    if function is None or not any(map(may_hold, variables.values())):
        return []
    code = function.__code__
    closure = dict(zip(code.co_freevars, function.__closure__ or (), strict=True))

    def value_of(name: str) -> Any:
        if name in closure:
            with suppress(ValueError):
                return closure[name].cell_contents
        return variables.get(name, UNSET)

    look = _Look(code, function.__globals__, value_of, function.__qualname__)
    pending = [code]
    while pending:
        inner = pending.pop()
        found = loads_of(inner)
        for load in found.loads:
            if load.kind == GLOBAL or load.name not in variables:
                continue
            if load.kind == CELL or (inner is code and load.offset in loads_as_given(code, load.name)):
                look.at(load.kind, load.name, [load], inner)
        pending += [each for _, each in found.within]
    return look.take()


def without_given(
    names: Iterable[Name], function: Any, args: Iterable[Any], kwargs: dict[str, Any]
) -> list[Name]:
    """The names without the defaults that a call of the user's function has no use for, since it gives others."""
    function, variables = given_to(function, args, kwargs)
    return [
        name
        for name in names
        if type(name) is not DefaultName or name.name not in variables or not name.is_of(function)
    ]


def given_to(
    function: Any, args: Iterable[Any], kwargs: dict[str, Any]
) -> tuple[FunctionType | None, dict[str, Any]]:
    """The user's function that a call runs, if it is known, and its parameters."""
    given, named = list(args), dict(kwargs)
    for _ in range(MOST):
        kind = type(function)
        if kind is MethodType:
            given.insert(0, function.__self__)
            function = function.__func__
        elif kind is functools.partial:
            given, named = [*function.args, *given], {**function.keywords, **named}
            function = function.func
        elif kind is not FunctionType or home_of(function.__code__.co_filename) is not None:
            break
        else:
            given, named = vars(function).get("__mutangent_given__", (given, named))
            function = getattr(function, "__wrapped__", None)
    if type(function) is not FunctionType:
        return None, {}
    code = function.__code__
    count = code.co_argcount
    variables = {**dict(zip(code.co_varnames, given[:count], strict=False)), **named}
    rest = code.co_varnames[count + code.co_kwonlyargcount :]
    if code.co_flags & inspect.CO_VARARGS:
        variables[rest[0]] = tuple(given[count:])
        rest = rest[1:]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        variables[rest[0]] = named
    return function, variables


class _Look:
    """What a piece of code names.

    Parameters
    ----------
    code : CodeType
    namespace : dict
        That of its globals.
    variable : callable
        Gives the value of one of its variables, or of a function's around it, or UNSET.
    where : str
        What it is, in the words of an error message.
    context : object
        The context manager of the block that it is.
    """

    def __init__(
        self,
        code: CodeType,
        namespace: dict[str, Any],
        variable: Callable[[str], Any],
        where: str,
        context: Any = None,
    ) -> None:
        self.names: dict[tuple[str, str], Variable] = {}
        self.called: list[Any] = []
        self.objects: dict[int, Any] = {}
        self.code = code
        self._namespace = namespace
        self._variable = variable
        self.where = where
        self._context = context
        self.homes = frozenset({"", home_of(code.co_filename)})

    def at(self, kind: str, name: str, loads: list[Load], code: CodeType) -> None:
        """Look at places in the code at which a name is loaded."""
        value = self.value_of(kind, name)
        if type(value) is ModuleType:
            for load in loads:
                inner, rest = self._in_modules(value, load.attributes)
                if rest != load.attributes and type(inner) is not ModuleType:
                    full = ".".join([name, *load.attributes[: len(load.attributes) - len(rest)]])
                    self._add((kind, full), inner, [(load, load.steps[len(load.steps) - len(rest) :])], code)
        else:
            self._add((kind, name), value, [(load, load.steps) for load in loads], code)

    def _add(
        self, key: tuple[str, str], value: Any, loads: list[tuple[Load, tuple[Step, ...]]], code: CodeType
    ) -> None:
        kind = type(value)
        if kind in _PLAIN or value is UNSET:
            return
        if issubclass(kind, PROGRAM):
            if not any(value is each for each in self.called):
                self.called.append(value)
            if not issubclass(kind, functools.partial) and not is_way_to_data(value):
                return  # those hold data
        elif not may_hold(value) and not issubclass(kind, _CONTAINERS):
            self._note_object(value)
            return
        if behind(value):  # a generator
            self.called.append(value)
        for item in items_within(value):
            if issubclass(type(item), PROGRAM):
                self.called.append(item)
            else:
                self._note_object(item)
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = Variable(key[1], value, self)
        for load, steps in loads:
            found.add(load, code, steps)

    def _note_object(self, value: Any) -> None:
        if value is not self._context:
            self.objects[id(value)] = value
            if behind(value):  # a function with a cache, for example
                self.called.append(value)

    def global_named(self, name: str) -> Any:
        """The value of a global."""
        return self._namespace.get(name, UNSET)

    def take(self) -> list[Variable]:
        """The names, which hold what is known here; it does not hold them any more."""
        found = list(self.names.values())
        self.names = {}
        return found

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""
        value, rest = self._in_modules(self.value_of(callee.kind, callee.name), callee.attributes)
        if self._context is not None and value is self._context and rest == ("watch",):
            return type, ()  # which does not look into it either
        return value, rest

    def value_of(self, kind: str, name: str) -> Any:
        value: Any = UNSET
        if kind != GLOBAL or not self.code.co_flags & inspect.CO_OPTIMIZED:
            value = self._variable(name)
        if kind == GLOBAL and value is UNSET:
            value = self._namespace.get(name, UNSET)
            if value is UNSET:
                value = getattr(builtins, name, UNSET)
        return value

    def _in_modules(self, value: Any, rest: tuple[str, ...]) -> tuple[Any, tuple[str, ...]]:
        """What attributes of modules lead to, and the attributes that are left."""
        while rest and type(value) is ModuleType and is_users_module(value, self.homes):
            value, rest = vars(value).get(rest[0], UNSET), rest[1:]
        return value, rest


class _Variables:
    """The variables of a frame, once they are asked for."""

    def __init__(self, frame: FrameType) -> None:
        self._frame = frame
        self._found: dict[str, Any] | None = None

    def __call__(self, name: str) -> Any:
        if self._found is None:
            variables = self._frame.f_locals
            self._found = dict(variables)
            if _LOCALS_ARE_A_COPY and self._frame.f_code.co_flags & inspect.CO_OPTIMIZED:
                _forget(variables)
        return self._found.get(name, UNSET)


def _forget(variables: dict[str, Any]) -> None:
    """Let a frame keep no copy of its variables, which would keep their values alive; one that the user holds stays."""
    # What is known of are the references of the frame, of the caller and of this function.
    if COUNTS_REFERENCES and sys.getrefcount(variables) <= ALONE + 2:
        variables.clear()
