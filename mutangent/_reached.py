"""Which plain names the code of a function reaches: names of modules, of closures, and of defaults.

Nothing tells that a plain name is read. But what code may read can be seen from the code: the names in it, what they stand
for, and so on through the functions and classes of the user's among these. It is more than what one call reads, since no
branch is decided, and less than what it could read: a function that is made at run time, or that an object of no known
class holds, is not seen.
"""

from __future__ import annotations

import builtins
import functools
import os
import sys
import weakref
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from ._loads import CELL, GIVEN, GLOBAL, LOCAL, READ, Load, loads_of

UNSET: Final = object()  # the value of a name that has none

_MOST: Final = 1000  # functions that are looked at
_LIBRARIES: Final = frozenset({"numpy", "scipy", "cupy", "cupyx", "attr", "attrs", "mutangent"})
_STANDARD: Final = tuple(str(Path(str(each)).parent) + os.sep for each in (os.__file__, __file__))
_GENERATED: Final = ("<frozen", "<attrs generated", "<__array_function__")
# Values of these kinds are parts of the program and not its data.
_PROGRAM: Final = (
    type,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    functools.partial,
    np.ufunc,
    ModuleType,
    type(np.sum),
)
_MADE_BY_A_STATEMENT: Final = 1 << 9  # of classes; Py_TPFLAGS_HEAPTYPE
# They read of an array no more than its shape.
_OF_SHAPE: Final = frozenset({"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"})
_ASK_SHAPE: Final = (len, np.shape, np.ndim, np.size, np.zeros_like, np.ones_like, np.empty_like)
_ASK_KIND: Final = (isinstance, type, id, callable)


class Read:
    """A place in the code that reads the value of a name."""

    __slots__ = ("function", "line", "of_shape")

    def __init__(self, function: str, line: int | None, of_shape: bool) -> None:
        self.function = function
        self.line = line
        self.of_shape = of_shape  # nothing else of an array

    def __str__(self) -> str:
        return self.function if self.line is None else f"{self.function}, line {self.line}"


class Name:
    """A plain name that code loads or stores. It keeps neither its value nor its namespace alive."""

    __slots__ = ("_owner", "_stamp", "is_program", "is_stored", "name", "reads")

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = weakref.ref(owner)
        self.name = name
        self.reads: list[Read] = []  # those that may look into the value
        self.is_stored = False  # whether the code assigns to it, or deletes it
        self.is_program = False  # whether it stands for a part of the program: a function, a class, a module
        self._stamp: Any = None

    def value(self) -> Any:
        """Its value now, or UNSET."""
        raise NotImplementedError

    def bind(self, value: Any) -> None:
        """Give it another value, or none: UNSET."""
        raise NotImplementedError

    def _note(self, value: Any) -> None:
        """Remember what the value leads to: itself if it is part of the program, else its class."""
        self.is_program = issubclass(type(value), _PROGRAM)  # `isinstance` asks a proxy
        self._stamp = None
        if value is not UNSET:
            try:
                self._stamp = weakref.ref(value if self.is_program else type(value))
            except TypeError:  # a function of NumPy's
                self._stamp = lambda: value

    def is_as_noted(self, value: Any) -> bool:
        """Whether a value leads to what the one led to with which the code was looked at."""
        if value is UNSET or self._stamp is None:
            return value is UNSET and self._stamp is None
        return self._stamp() is (value if self.is_program else type(value))


class GlobalName(Name):
    """A name of a module, or of the namespace that a function has its globals in."""

    __slots__ = ()

    def _namespace(self) -> dict[str, Any]:
        owner = self._owner()
        if type(owner) is FunctionType:
            return owner.__globals__
        return {} if owner is None else vars(owner)

    def value(self) -> Any:
        return self._namespace().get(self.name, UNSET)

    def bind(self, value: Any) -> None:
        if value is UNSET:
            self._namespace().pop(self.name, None)
        else:
            self._namespace()[self.name] = value


class ClosureName(Name):
    """A variable of a function's closure."""

    __slots__ = ("_cell",)

    def __init__(self, owner: FunctionType, name: str) -> None:
        super().__init__(owner, name)
        self._cell = owner.__code__.co_freevars.index(name)

    def _cell_of(self) -> Any:
        owner = self._owner()
        return None if owner is None else owner.__closure__[self._cell]

    def value(self) -> Any:
        try:
            return self._cell_of().cell_contents
        except (ValueError, AttributeError):
            return UNSET

    def bind(self, value: Any) -> None:
        cell = self._cell_of()
        if value is not UNSET:
            cell.cell_contents = value
        else:
            with suppress(ValueError):
                del cell.cell_contents


class DefaultName(Name):
    """A parameter with a default, which is its value."""

    __slots__ = ()

    def _position(self, owner: FunctionType) -> int:
        code = owner.__code__
        names = code.co_varnames[: code.co_argcount]
        return names.index(self.name) - len(names) if self.name in names else 0

    def value(self) -> Any:
        owner = self._owner()
        if owner is None:
            return UNSET
        if self.name in (owner.__kwdefaults__ or ()):
            return owner.__kwdefaults__[self.name]
        defaults = owner.__defaults__ or ()
        position = self._position(owner)
        return defaults[position] if -len(defaults) <= position < 0 else UNSET

    def bind(self, value: Any) -> None:
        owner = self._owner()
        if owner is None or value is UNSET:
            return
        if self.name in (owner.__kwdefaults__ or ()):
            owner.__kwdefaults__[self.name] = value
            return
        defaults = list(owner.__defaults__ or ())
        defaults[self._position(owner)] = value
        owner.__defaults__ = tuple(defaults)


class Reached:
    """The names that some functions reach."""

    __slots__ = ("_all", "_functions", "classes", "functions", "names", "program", "rebound")

    def __init__(self, functions: list[FunctionType], classes: frozenset[Any], key: Any) -> None:
        search = _Search(functions, [cls for reference in classes if (cls := reference()) is not None])
        self._all = list(search.names.values())
        # Weak references: those that were asked for, and others that were met.
        self.classes = classes | {weakref.ref(cls) for cls in search.classes}
        self.functions = frozenset(map(weakref.ref, search.functions))  # those that were looked at
        # Those of data: their values are looked up by `value`, since they change.
        self.names = tuple([name for name in self._all if not name.is_program])
        # Those of parts of the program, and of these the ones that the code binds to others.
        self.program = tuple([name for name in self._all if name.is_program and name.value() is not UNSET])
        self.rebound = tuple([name for name in self._all if name.is_program and name.is_stored])
        self._functions = [weakref.ref(function, lambda _: _known.pop(key, None)) for function in functions]

    def is_current(self, functions: list[FunctionType]) -> bool:
        """Whether these are the functions, and a search would find the same names."""
        for known, function in zip(self._functions, functions, strict=True):
            if known() is not function:
                return False
        for name in self._all:  # noqa: SIM110 - `all` would make a generator
            if not name.is_as_noted(name.value()):
                return False
        return True


# By the identities of functions. Nothing in it keeps a function or a namespace alive.
_known: Final[dict[tuple[int, ...], Reached]] = {}


def reached_by(function: Callable[..., Any], classes: Iterable[type] = ()) -> Reached:
    """The names that a function reaches by its code.

    Parameters
    ----------
    function : callable
        A function, a method, a partial, a function with a wrapper, an object that is called.
    classes : iterable of classes
        Of objects that it meets, whose methods it may call.

    Returns
    -------
    Reached
        Its `names` are those of data. It is kept until a function dies, or a name stands for another function or class.
    """
    functions, own = _entries_of(function)
    wanted = frozenset(map(weakref.ref, (*own, *classes)))
    key = tuple(map(id, functions))
    known = _known.get(key)
    if known is not None and wanted <= known.classes and known.is_current(functions):
        return known
    made = Reached(functions, wanted if known is None else wanted | known.classes, key)
    if functions:
        _known[key] = made
    return made


def _entries_of(value: Any) -> tuple[list[FunctionType], list[type]]:
    """The user's functions that a call of a value runs, and the class of the object that it belongs to."""
    functions: list[FunctionType] = []
    classes: list[type] = []
    pending = [value]
    seen: dict[int, Any] = {}
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        kind = type(each)
        if kind is FunctionType:
            if _home_of(each.__code__.co_filename) is not None:
                functions.append(each)
        elif isinstance(each, type):
            classes.append(each)
        elif kind is not MethodType and kind is not functools.partial:
            classes.append(kind)
            called = kind.__call__ if callable(each) else None
            if type(called) is FunctionType and _home_of(called.__code__.co_filename) is not None:
                functions.append(called)
        pending += _behind(each)
    return functions, classes


def _behind(value: Any) -> list[Any]:
    """What a call of a value calls in turn: a wrapped function, a method's function, the functions given to a partial."""
    kind = type(value)  # `isinstance` asks a proxy
    if kind is MethodType:
        return [value.__func__, value.__self__ if isinstance(value.__self__, type) else type(value.__self__)]
    if issubclass(kind, functools.partial):
        given = [*value.args, *value.keywords.values()]
        return [value.func, *(each for each in given if callable(each))]
    if issubclass(kind, staticmethod | classmethod):
        return [value.__func__]
    if issubclass(kind, property):
        return [each for each in (value.fget, value.fset, value.fdel) if each is not None]
    if issubclass(kind, functools.cached_property):
        return [value.func]
    if issubclass(kind, type) or getattr(kind, "__mutangent_captured__", False):
        return []
    if not kind.__dictoffset__:  # as most members of a class; an exception takes longer
        return []
    try:
        held = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return []
    if type(held) is not dict or "__wrapped__" not in held:
        return []
    if kind is FunctionType:
        return [held["__wrapped__"]]
    return [each for each in held.values() if type(each) is FunctionType]  # and rules for it, for example


@functools.cache
def _home_of(file: str) -> str | None:
    """To whom code belongs: "" for a user's own, a name for an installed package, None for the libraries beneath.

    An installed package is looked at by who is in it.
    """
    parts = Path(file).parts
    for folder in ("site-packages", "dist-packages"):
        if folder in parts[:-1]:
            package = parts[len(parts) - parts[::-1].index(folder)]
            return None if package in _LIBRARIES else package
    return None if file.startswith((*_STANDARD, *_GENERATED)) else ""


class _Search:
    """One search for the names that functions reach."""

    def __init__(self, functions: list[FunctionType], classes: Iterable[type]) -> None:
        self.names: dict[tuple[int, str, str], Name] = {}
        self._seen: dict[int, Any] = {}
        self._pending: list[FunctionType] = []
        # Methods are entered once their names occur as that of an attribute.
        self._attributes: set[str] = set()
        self._methods: dict[str, list[Any]] = {}
        self.classes: list[type] = []  # whose methods were looked at
        self.functions = list(functions)  # those that were looked at
        self._homes = {"", *(_home_of(function.__code__.co_filename) for function in functions)}
        for function in functions:
            self._seen[id(function)] = function
            self._pending.append(function)
        for cls in classes:
            self._enter(cls)
        looked_at = 0
        while self._pending and looked_at < _MOST:
            looked_at += 1
            self._look_at(self._pending.pop())

    def _may_enter_module(self, module: ModuleType) -> bool:
        file = getattr(module, "__file__", None)
        if file is None:
            return module.__name__.partition(".")[0] not in sys.stdlib_module_names
        return _home_of(file) in self._homes

    def _enter(self, value: Any) -> None:
        """Look at a value, part of the program or not, and at what it leads to."""
        pending = [value]
        while pending:
            value = pending.pop()
            kind = type(value)
            if id(value) in self._seen or kind in (int, float, str, np.ndarray):
                continue
            self._seen[id(value)] = value
            if kind is FunctionType:
                if _home_of(value.__code__.co_filename) in self._homes:
                    self._pending.append(value)
                    self.functions.append(value)
            elif issubclass(kind, type):
                pending += self._methods_of(value)
            else:
                pending.append(kind)
            pending += _behind(value)

    def _methods_of(self, cls: type) -> list[Any]:
        """The methods of a class that may be called; the others wait until their name occurs."""
        found = []
        for base in cls.__mro__:
            if not base.__flags__ & _MADE_BY_A_STATEMENT:
                continue
            self.classes.append(base)
            for name, member in vars(base).items():
                if type(member) is not FunctionType and not _behind(member):
                    continue
                if name in self._attributes or (name.startswith("__") and name.endswith("__")):
                    found.append(member)
                else:
                    self._methods.setdefault(name, []).append(member)
        return found

    def _look_at(self, function: FunctionType) -> None:
        """Look at a function and at the code within it."""
        code = function.__code__
        defaults = _defaults(function)
        pending = [
            (code, frozenset((*code.co_freevars, *(name for name in defaults if name in code.co_cellvars))))
        ]
        while pending:
            inner, free = pending.pop()
            found = loads_of(inner)
            self._called(found.attributes)
            for load in found.loads:
                if (
                    (load.kind == GLOBAL and load.name not in found.own)
                    or (load.kind == CELL and load.name in free)
                    or (load.kind == LOCAL and inner is code and load.name in defaults)
                ):
                    self._resolve(function, load)
            for kind, name in found.stored:
                if kind == GLOBAL or name in free:
                    stored = self._name(function, kind, name)
                    if stored is not None:
                        stored.is_stored = True
            pending += [(each, free & frozenset(each.co_freevars)) for _, each in found.within]

    def _called(self, attributes: frozenset[str]) -> None:
        for name in attributes - self._attributes:
            self._attributes.add(name)
            for method in self._methods.pop(name, ()):
                self._enter(method)

    def _name(self, function: FunctionType, kind: str, name: str) -> Name | None:
        """The name as the function sees it; None for one that is its own."""
        made: type[Name]
        if kind == GLOBAL:
            namespace = function.__globals__
            if name not in namespace and hasattr(builtins, name):
                return None
            key, made = (id(namespace), kind, name), GlobalName
        elif name in function.__code__.co_freevars:
            cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
            key, made = (id(cell), kind, name), ClosureName
        else:
            key, made = (id(function), LOCAL, name), DefaultName
        return self._known(key, made, function)

    def _known(self, key: tuple[int, str, str], made: type[Name], owner: Any) -> Name:
        found = self.names.get(key)
        if found is None:
            found = self.names[key] = made(owner, key[2])
            value = found.value()
            found._note(value)
            if value is not UNSET:
                self._enter(value)
                if type(value) in (list, tuple, dict):
                    for item in list(value.values() if type(value) is dict else value)[:_MOST]:
                        self._enter(type(item))
        return found

    def _find(self, function: FunctionType, load: Load) -> tuple[Name | None, tuple[str, ...]]:
        """The name that is loaded, in the end one of a module, and which attributes are then taken of its value."""
        found, rest = self._name(function, load.kind, load.name), load.attributes
        while found is not None and rest:
            value = found.value()
            if not isinstance(value, ModuleType) or not self._may_enter_module(value):
                break
            found, rest = self._known((id(value), GLOBAL, rest[0]), GlobalName, value), rest[1:]
        return found, rest

    def _resolve(self, function: FunctionType, load: Load) -> None:
        found, rest = self._find(function, load)
        if found is None or found.is_program:
            return
        of_shape = bool(rest) and rest[0] in _OF_SHAPE
        if not rest and load.use != READ:
            if load.use != GIVEN:
                return
            callee = self._called_by(function, load.callee)
            if any(callee is each for each in _ASK_KIND) or _is_captured_class(callee):
                return
            of_shape = any(callee is each for each in _ASK_SHAPE)
        found.reads.append(Read(function.__qualname__, load.line, of_shape))

    def _called_by(self, function: FunctionType, callee: Load | None) -> Any:
        """What a value is given to; None if that is not known."""
        if callee is None or callee.kind == LOCAL:
            return None
        found, rest = self._find(function, callee)
        value = getattr(builtins, callee.name, None) if found is None else found.value()
        if isinstance(value, ModuleType) and len(rest) == 1:
            return vars(value).get(rest[0])
        return None if rest else value


def _is_captured_class(value: Any) -> bool:
    return issubclass(type(value), type) and bool(getattr(value, "__mutangent_captured__", False))


def _defaults(function: FunctionType) -> tuple[str, ...]:
    """The parameters that have a default."""
    code = function.__code__
    count = len(function.__defaults__ or ())
    return (
        *code.co_varnames[code.co_argcount - count : code.co_argcount],
        *(function.__kwdefaults__ or ()),
    )
