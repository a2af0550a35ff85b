"""Which plain names the code of a function reaches: names of modules, of closures, and of defaults.

Nothing tells that a plain name is read. But what code may read can be seen from the code: the names in it, what they stand
for, and so on through the functions and classes of the user's among these. It is more than what one call reads, since no
branch is decided, and less than what it could read: a function that is made at run time, or that an object of no known
class holds, is not seen.
"""

from __future__ import annotations

import builtins
import functools
import gc
import os
import random
import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from types import CodeType, FunctionType, GeneratorType, MappingProxyType, MethodType, ModuleType
from typing import Any, Final

import numpy as np

from ._bytecode import loads_of
from ._live_names import loads_as_given
from ._loads import CELL, CONSTANT, GLOBAL, LOCAL, UNKNOWN, Load, Part
from ._plain_names import (
    PROGRAM,
    UNSET,
    ClosureName,
    DefaultName,
    GlobalName,
    Name,
    is_way_to_data,
    items_within,
    read_by,
)

MOST: Final = 1000  # functions that are looked at
_LIBRARIES: Final = frozenset({"numpy", "scipy", "cupy", "cupyx", "attr", "attrs", "mutangent"})
_STANDARD: Final = tuple(str(Path(str(each)).parent) + os.sep for each in (os.__file__, __file__))
_GENERATED: Final = ("<frozen", "<attrs generated", "<__array_function__")
HEAP_TYPE: Final = 1 << 9  # a flag of classes that are made by a statement


class Reached:
    """The names that some functions reach."""

    __slots__ = (
        "_own",
        "_rest",
        "_roots",
        "asked",
        "attributes",
        "classes",
        "functions",
        "is_recursive",
        "looked_into",
        "names",
        "program",
        "rebound",
    )

    def __init__(self, search: _Search, classes: frozenset[Any], rest: Reached | None, key: Any) -> None:
        self._own = list(search.names.values())
        self._rest = rest
        # Weak references: the classes that were asked for, and others that were met; functions that were looked at.
        self.classes = classes.union(map(weakref.ref, search.classes))
        self.functions = frozenset(map(weakref.ref, search.functions))
        # Those of data: their values are looked up by `value`, since they change.
        self.names = tuple([name for name in self._own if not name.is_program])
        # And those of partials, which hold what they were given.
        self.looked_into = tuple([name for name in self._own if name.reads or not name.is_program])
        # Those of parts of the program, and of these the ones that the code binds to others.
        self.program = tuple([name for name in self._own if name.is_program and name.value() is not UNSET])
        self.rebound = tuple([name for name in self._own if name.is_program and name.is_stored])
        self.attributes = frozenset(search.attributes)  # names that stand in the code, among others
        self.asked = frozenset(search.asked)  # those of attributes that it takes of something
        self.is_recursive = search.is_recursive  # whether the functions may call themselves
        if rest is not None:
            self.is_recursive = self.is_recursive or not self.functions.isdisjoint(rest.functions)
            self.classes |= rest.classes
            self.functions |= rest.functions
            self.names += rest.names
            self.looked_into += rest.looked_into
            self.program += rest.program
            self.rebound += rest.rebound
            self.attributes |= rest.attributes
            self.asked |= rest.asked
        roots = search.roots or [cls for each in classes if (cls := each()) is not None]
        self._roots = [weakref.ref(root, lambda _: _known.pop(key, None)) for root in roots]

    def alive(self) -> list[FunctionType]:
        """The functions that were looked at."""
        return [each for reference in self.functions if (each := reference()) is not None]

    def may_draw(self) -> bool:
        """Whether the code may draw from the global random generators."""
        if "random" in self.attributes:
            return True
        values = [name.value() for name in (*self.names, *self.program)]
        return any(
            (type(value) is ModuleType and value.__name__.rpartition(".")[2] == "random")
            or isinstance(getattr(value, "__self__", None), random.Random | np.random.RandomState)
            for value in values
        )

    def is_current(self) -> bool:
        """Whether a search would find the same names."""
        for name in self._own:
            value, stamp = name.value(), name.stamp
            if stamp is None or value is UNSET:
                if stamp is not None or value is not UNSET:
                    return False
            elif stamp() is not (value if name.is_program else type(value)):
                return False
        return self._rest is None or self._rest.is_current()


# By the identities of functions, the names of methods, and whose code is looked at. Nothing in it keeps a function or a
# namespace alive.
_known: Final[dict[Any, Reached]] = {}


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
    functions, own = entries_of((function,))
    key = tuple(map(id, functions))
    wanted = frozenset(map(weakref.ref, {*own, *classes}))
    known = _known.get(key)
    if known is not None:
        if wanted <= known.classes and known.is_current():
            return known
        wanted |= known.classes
    # What the functions lead to is looked up by itself: they may be made anew each time, as a lambda in a loop is.
    homes = frozenset({"", *(home_of(each.__code__.co_filename) for each in functions)})
    search = _Search(functions, frozenset(), homes, goes_on=False)
    search.run(_alive(wanted))
    rest = _reached_from(search.found, search.found_classes, frozenset(search.attributes), homes)
    made = Reached(search, wanted, rest, key)
    if key:
        _known[key] = made
    return made


def reached_by_all(
    called: Iterable[Any], classes: Iterable[type], attributes: frozenset[str], homes: frozenset[str | None]
) -> Reached:
    """The names that several functions reach by their code.

    Parameters
    ----------
    called : iterable
        Functions, and other parts of the program.
    classes : iterable of classes
        Of objects that they meet, and that whoever calls them meets.
    attributes : frozenset of str
        What methods are called that somebody else calls.
    homes : frozenset
        Whose code is looked at; see `home_of`.
    """
    functions, own = entries_of(tuple(called))
    chosen = [each for each in functions if home_of(each.__code__.co_filename) in homes]
    return _reached_from(chosen, [*own, *classes], attributes, homes)


def _reached_from(
    functions: list[FunctionType],
    classes: list[type],
    attributes: frozenset[str],
    homes: frozenset[str | None],
) -> Reached:
    classes = [cls for cls in classes if cls.__flags__ & HEAP_TYPE]
    wanted = frozenset(map(weakref.ref, classes))
    # Whoever dies takes what is known along, so that no other can come under his number.
    key = (tuple(map(id, functions)) or tuple(sorted(map(id, classes))), attributes, homes)
    known = _known.get(key)
    if known is not None:
        if wanted <= known.classes and known.is_current():
            return known
        wanted |= known.classes
    search = _Search(functions, attributes, homes, goes_on=True)
    search.run(_alive(wanted))
    made = Reached(search, wanted, None, key)
    if key[0]:
        _known[key] = made
    return made


def _alive(classes: frozenset[Any]) -> list[type]:
    return [cls for reference in classes if (cls := reference()) is not None]


def entries_of(called: tuple[Any, ...]) -> tuple[list[FunctionType], list[type]]:
    """The user's functions that are called, and the classes of objects that they belong to."""
    if len(called) == 1 and type(called[0]) is FunctionType and not behind(called[0]):  # the usual case
        return ([] if home_of(called[0].__code__.co_filename) is None else [called[0]]), []
    functions: list[FunctionType] = []
    classes: list[type] = []
    pending = list(called[::-1])
    seen: dict[int, Any] = {}
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        kind = type(each)
        if kind is FunctionType:
            if home_of(each.__code__.co_filename) is not None:
                functions.append(each)
        elif issubclass(kind, type):
            classes.append(each)
        elif kind is not MethodType and kind is not functools.partial:
            classes.append(kind)
            method = kind.__call__ if callable(each) else None
            if type(method) is FunctionType and home_of(method.__code__.co_filename) is not None:
                functions.append(method)
        pending += behind(each)
    return functions, classes


def called_code(function: Any) -> CodeType | None:
    """The code of the user's function that one call of `function` runs once; None if that is not known."""
    if type(function) is FunctionType and not behind(function):  # the usual case
        return None if home_of(function.__code__.co_filename) is None else function.__code__
    for _ in range(MOST):
        kind = type(function)
        if kind is MethodType:
            function = function.__func__
        elif issubclass(kind, functools.partial):
            function = function.func
        elif kind is FunctionType and home_of(function.__code__.co_filename) is not None:
            code: CodeType = function.__code__
            return code
        elif (its := behind(function)) and not issubclass(kind, property):
            function = its[0]
        elif kind is not FunctionType and type(getattr(kind, "__call__", None)) is FunctionType:  # noqa: B004
            function = kind.__call__
            if home_of(function.__code__.co_filename) is None:
                return None
        else:
            return None
    return None


def _leads_to_data(value: Any) -> bool:
    return issubclass(type(value), functools.partial) or is_way_to_data(value)


def _its_class(method: MethodType) -> type:
    bound: Any = method.__self__
    return bound if issubclass(type(bound), type) else type(bound)


# What calls others, and how these are asked for.
_BEHIND: Final[tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...]] = (
    (MethodType, lambda value: [value.__func__, _its_class(value)]),
    (
        functools.partial,
        lambda value: [value.func, *filter(callable, [*value.args, *value.keywords.values()])],
    ),
    ((staticmethod, classmethod), lambda value: [value.__func__]),
    # A generator runs the function that has made it.
    (
        GeneratorType,
        lambda value: [each for each in gc.get_referents(value) if type(each) is FunctionType][:1],
    ),
    (property, lambda value: [value.fget, value.fset, value.fdel]),
    ((functools.cached_property, functools.partialmethod), lambda value: [value.func]),
    (np.vectorize, lambda value: [value.pyfunc]),
)


def behind(value: Any) -> list[Any]:
    """What a call of a value calls in turn: a wrapped function, a method's function, the functions given to a partial."""
    kind = type(value)  # `isinstance` asks a proxy
    if kind is FunctionType:
        its = value.__dict__
        if not its:  # as most
            return []
        found = [its["__wrapped__"]] if "__wrapped__" in its else []
        dispatched = its.get("registry")  # of `functools.singledispatch`
        return [*found, *(dispatched.values() if type(dispatched) is MappingProxyType else ())]
    for classes, give in _BEHIND:
        if issubclass(kind, classes):
            return [each for each in give(value) if each is not None]
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
    return [each for each in held.values() if type(each) is FunctionType]  # and rules for it, for example


@functools.cache
def home_of(file: str) -> str | None:
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

    def __init__(
        self,
        functions: list[FunctionType],
        attributes: Iterable[str],
        homes: frozenset[str | None],
        goes_on: bool,
    ) -> None:
        self.roots = functions
        self._goes_on = goes_on
        # If it does not go on: the functions and classes to which those that are looked at lead.
        self.found: list[FunctionType] = []
        self.found_classes: list[type] = []
        self.names: dict[tuple[int, str, str], Name] = {}
        self._seen: dict[int, Any] = {id(function): function for function in functions}
        self._pending: list[FunctionType] = list(functions)
        self.is_recursive = False
        # Methods are entered once their names occur as that of an attribute.
        self.attributes: set[str] = set(attributes)
        self.asked: set[str] = set()
        self._methods: dict[str, list[Any]] = {}
        self.classes: list[type] = []  # whose methods were looked at
        self.functions = list(functions)  # those that were looked at
        self._homes = homes

    def run(self, classes: Iterable[type]) -> None:
        """Look at the functions, and at methods of the classes."""
        for cls in classes:
            self._enter(cls)
        looked_at = 0
        while self._pending and looked_at < MOST:
            looked_at += 1
            self._look_at(self._pending.pop())

    def _enter(self, value: Any) -> None:
        """Look at a value, part of the program or not, and at what it leads to."""
        pending = [value]
        while pending:
            value = pending.pop()
            kind = type(value)
            if id(value) in self._seen or kind in (int, float, str, np.ndarray):
                self.is_recursive = self.is_recursive or any(value is root for root in self.roots)
                continue
            self._seen[id(value)] = value
            if kind is FunctionType:
                if home_of(value.__code__.co_filename) not in self._homes:
                    pass
                elif self._goes_on:
                    self._pending.append(value)
                    self.functions.append(value)
                else:
                    self.found.append(value)
            elif not issubclass(kind, type):
                pending.append(kind)
            elif self._goes_on:
                pending += self._methods_of(value)
            else:
                self.found_classes.append(value)
            pending += behind(value)

    def _methods_of(self, cls: type) -> list[Any]:
        """The methods of a class that may be called; the others wait until their name occurs."""
        found: list[Any] = []
        for base in cls.__mro__:
            if not base.__flags__ & HEAP_TYPE:
                continue
            found += called_for_fields(base)
            self.classes.append(base)
            for name, member in vars(base).items():
                if type(member) is not FunctionType and not behind(member):
                    if type(member).__flags__ & HEAP_TYPE and hasattr(type(member), "__get__"):
                        found.append(type(member))  # a descriptor
                    continue
                if name in self.attributes or (name.startswith("__") and name.endswith("__")):
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
            self.asked |= found.asked
            for load in found.loads:
                if (
                    (load.kind == GLOBAL and not found.is_own(load))
                    or (load.kind == CELL and load.name in free)
                    or (
                        load.kind == LOCAL
                        and inner is code
                        and load.name in defaults
                        and load.offset in loads_as_given(code, load.name)
                    )
                ):
                    self._resolve(function, inner, load)
            for kind, name in found.stored:
                if kind == GLOBAL or name in free:
                    stored = self._name(function, kind, name)
                    if stored is not None:
                        stored.is_stored = True
            pending += [(each, free & frozenset(each.co_freevars)) for _, each in found.within]

    def _called(self, attributes: frozenset[str]) -> None:
        for name in attributes - self.attributes:
            self.attributes.add(name)
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
            found.note(value)
            if value is not UNSET:
                self._enter(value)
                for item in items_within(value):
                    self._enter(item if issubclass(type(item), PROGRAM) or behind(item) else type(item))
        return found

    def _find(self, function: FunctionType, load: Load) -> tuple[Name | None, tuple[str, ...]]:
        """The name that is loaded, in the end one of a module, and which attributes are then taken of its value."""
        found, rest = self._name(function, load.kind, load.name), load.attributes
        while found is not None and rest:
            value = found.value()
            if type(value) is not ModuleType or not is_users_module(value, self._homes):
                break
            found, rest = self._known((id(value), GLOBAL, rest[0]), GlobalName, value), rest[1:]
        return found, rest

    def _resolve(self, function: FunctionType, code: CodeType, load: Load) -> None:
        found, rest = self._find(function, load)
        if found is None or (found.is_program and not _leads_to_data(found.value())):
            return
        steps = load.steps[len(load.steps) - len(rest) :]
        read = read_by(
            load, steps, function.__qualname__, code, lambda callee: self._value_of(function, callee)
        )
        if read is not None:
            found.reads.append(read)

    def _value_of(self, function: FunctionType, load: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is loaded, and which attributes are then taken of it."""
        if load.kind in (LOCAL, UNKNOWN, CONSTANT):
            return UNSET, ()
        found, rest = self._find(function, load)
        return (getattr(builtins, load.name, UNSET) if found is None else found.value()), rest


def names_in(code: CodeType, part: Part, value_of_global: Callable[[str], Any]) -> set[str]:
    """The names of globals, of a closure and of attributes that stand in a part of some code.

    Without those that stand there for attributes of modules alone, as `log` in ``np.log(x)``: no method has them.
    """
    count: Counter[str] = Counter()
    for load, before, name in part.taken:
        value = value_of_global(load.name) if load.kind == GLOBAL else None
        for attribute in before:
            value = vars(value).get(attribute) if type(value) is ModuleType else None
        if type(value) is ModuleType and home_of(str(vars(value).get("__file__") or "")) != "":
            count[name] += 1
    local = {*code.co_varnames, *code.co_cellvars}.difference(code.co_names)
    return {name for name, times in part.mentions.items() if times > count[name] and name not in local}


def is_users_module(module: ModuleType, homes: frozenset[str | None]) -> bool:
    """Whether the names of a module are looked at."""
    its = vars(module)  # and nothing that its `__getattr__` says
    file, name = its.get("__file__"), its.get("__name__")
    if type(file) is str:
        return home_of(file) in homes
    return type(name) is not str or name.partition(".")[0] not in sys.stdlib_module_names


def called_for_fields(cls: type) -> list[Any]:
    """What attrs calls for the fields of a class: converters, validators, hooks, factories."""
    pending: list[Any] = [
        each
        for field in vars(cls).get("__attrs_attrs__", ())
        for each in (field.converter, field.validator, field.on_setattr, field.default)
    ]
    if "__attrs_own_setattr__" in vars(cls):
        pending.append(vars(cls).get("__setattr__"))
    found: list[Any] = []
    seen: dict[int, Any] = {}
    while pending:
        each = pending.pop()
        if id(each) in seen:
            continue
        seen[id(each)] = each
        if isinstance(each, tuple | list | dict):
            pending += each.values() if isinstance(each, dict) else each
        elif type(each) is FunctionType and home_of(each.__code__.co_filename) is None:
            # One that was made of others: a pipe, an optional converter, the setter of a class.
            pending += [cell.cell_contents for cell in each.__closure__ or ()]
        elif type(each).__module__.startswith("attr"):
            pending += [
                getattr(each, name, None) for name in ("converter", "factory", "_validators", "validator")
            ]
        elif each is not None and callable(each):
            found.append(each)
    return found


def _defaults(function: FunctionType) -> tuple[str, ...]:
    """The parameters that have a default."""
    code = function.__code__
    count = len(function.__defaults__ or ())
    return (
        *code.co_varnames[code.co_argcount - count : code.co_argcount],
        *(function.__kwdefaults__ or ()),
    )
