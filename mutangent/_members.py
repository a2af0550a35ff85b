"""What attributes, items and calls of a value lead to, as they are stored: nothing of the user's is run to tell it."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final

import numpy as np

from ._arrays import ARRAYS
from ._fields import CapturedField
from ._loads import CLASS, ITEM, ITERATOR, Load, Step
from ._plain_names import UNSET, items_of, parts_of
from ._reached import HEAP_TYPE, behind, called_for_fields, home_of
from ._traced import TracedArray

MOST_VALUES: Final = 64  # values that are looked at in one place
FUNCTIONS: Final = (FunctionType, MethodType, functools.partial, GeneratorType)
DATA: Final = frozenset({*ARRAYS, float, int, bool, str, bytes, complex, type(None)})
# Methods that seldom run in a recording on an object that was there before, other than by their name.
SELDOM: Final = frozenset(
    {
        *("__init__", "__new__", "__pre_init__", "__post_init__", "__attrs_post_init__", "__init_subclass__"),
        *("__attrs_pre_init__", "__del__", "__repr__", "__str__", "__format__", "__dir__", "__sizeof__"),
        *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    }
)
RUN_WHEN_MADE: Final = ("__new__", "__init__", "__post_init__", "__attrs_pre_init__", "__attrs_post_init__")
CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, deque})
_GIVE_ITEMS: Final = frozenset(
    {
        *("pop", "popleft", "popitem", "get", "setdefault", "values", "items", "copy", "union"),
        "__getitem__",
        "__iter__",
    }
)
_PLAIN_FUNCTIONS: Final = (
    *(zip, enumerate, reversed, sorted, list, tuple, set, frozenset, dict, deque, range),
    *(len, min, max, sum, abs, float, int, bool, str, complex, round, divmod, pow),
    *(print, repr, isinstance, issubclass, id, hash, any, all),
)
# Results of their functions are no objects of the user's, other than such as they are given.
_OF_NUMBERS: Final = frozenset({"numpy", "scipy", "cupy", "math", "cmath"})


class SomeOf:
    """Any object of a class, or one that is made only now."""

    __slots__ = ("cls", "is_new")

    def __init__(self, cls: type, is_new: bool = False) -> None:
        self.cls = cls
        self.is_new = is_new


def class_of(value: Any) -> type:
    """The class of an object."""
    cls: type = value.cls if type(value) is SomeOf else type(value)
    return cls


def holder_of(value: Any) -> type:
    """The class in which attributes of a value are looked for: that of an object, or the class that it is itself."""
    return value if is_class(value) else class_of(value)


def own_members(cls: type) -> Iterator[tuple[str, Any]]:
    """What stands in classes that are made by a statement: a class, and those that it inherits from."""
    for base in cls.__mro__ if cls.__flags__ & HEAP_TYPE else ():
        yield from vars(base).items() if base.__flags__ & HEAP_TYPE else ()


def key_of(value: Any) -> Any:
    """By what a value is told from others."""
    return (value.is_new, id(value.cls)) if type(value) is SomeOf else id(value)


def gives_only_what_it_has(callee: Any) -> bool:
    """Whether what a function in C gives is one of its arguments, lies in them, or is no object of the user's."""
    if callee is UNSET:
        return False
    if type(callee) is MethodDescriptorType:
        return callee.__objclass__ in CONTAINERS
    module = str(getattr(callee, "__module__", "") or "").partition(".")[0]
    return module in _OF_NUMBERS or any(callee is each for each in _PLAIN_FUNCTIONS)


def gives_no_item(callee: Any, load: Load) -> bool:
    """Whether a method of a container of Python's own gives none of its items."""
    is_method = type(callee) is MethodDescriptorType and callee.__objclass__ in CONTAINERS
    return is_method and bool(load.steps) and load.steps[-1].name not in _GIVE_ITEMS


def distinct(values: Iterable[Any]) -> list[Any]:
    """Values, each once, and not too many."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(key_of(value), value)
        if len(found) > MOST_VALUES:
            found[id(UNSET)] = UNSET
            break
    return list(found.values())


def value_after(value: Any, step: Step) -> list[Any]:
    """What an attribute of a value may be, or an item; UNSET if code would have to run to tell it."""
    name, key = step
    if name in (ITEM, ITERATOR):
        if issubclass(type(value), dict):
            values = list(dict.values(value))
            return [dict.get(value, key, UNSET)] if key is not None and name == ITEM else values[:MOST_VALUES]
        items = parts_of(value) if type(value) in ARRAYS else items_of(value)
        if not items and type(value) not in (list, tuple, deque):
            return _inside(value)
        if type(key) is int and name == ITEM and type(value) is list:
            return items[key : key + 1 or None]
        return items[:MOST_VALUES]
    if name == CLASS:
        return [class_of(value)]
    if type(value) is SomeOf:
        found = static_attribute(value.cls, name)
        return [UNSET if found is UNSET or hasattr(type(found), "__get__") else found]
    found = static_attribute(value, name)
    if found is UNSET and not type(value).__flags__ & HEAP_TYPE:
        return []  # it has no such attribute
    if (type(found) is MemberDescriptorType or type(found) is CapturedField) and not is_class(value):
        with suppress(AttributeError):
            return [found.__get__(value, type(value))]
        return [UNSET]
    if type(value) is ModuleType:
        return [found]
    if type(found) is MethodDescriptorType:
        return [found]
    if hasattr(type(found), "__get__"):
        return [] if type(found) is not property and not behind(found) and found is not UNSET else [UNSET]
    return [found]


def _inside(value: Any) -> list[Any]:
    """What an item of a value may be that is no container of Python's own."""
    kind = class_of(value)
    if kind in DATA or kind is range:
        return []
    if not kind.__flags__ & HEAP_TYPE:
        return [UNSET, *parts_of(value)]
    has_code = any(functions_of(in_class(kind, name)) for name in ("__iter__", "__getitem__", "__next__"))
    return [UNSET] if has_code else [value]


def is_number(value: Any) -> bool:
    """Whether a value is a number, a text or an array, traced or not."""
    return (
        type(value) in DATA or type(value) is TracedArray or issubclass(type(value), np.generic | np.ndarray)
    )


def is_class(value: Any) -> bool:
    """Whether a value is a class; it is not asked."""
    return issubclass(type(value), type)


def static_attribute(value: Any, name: str) -> Any:
    """An attribute as it is stored, or UNSET; nothing is run for it."""
    cls = type(value)
    found = in_class(cls, name)
    if is_class(value):
        own = in_class(value, name)
        return found if own is UNSET else own
    if found is not UNSET and in_class(type(found), "__set__") is not UNSET:
        return found
    try:
        stored = object.__getattribute__(value, "__dict__") if cls.__dictoffset__ or cls is ModuleType else {}
    except Exception:  # noqa: BLE001 - what a class of the user's raises
        stored = {}
    return stored.get(name, found) if type(stored) is dict else found


def in_class(cls: type, name: str) -> Any:
    """What stands under a name in a class, or in one that it inherits from; or UNSET."""
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return UNSET


def is_method_of(function: FunctionType, cls: type) -> bool:
    """Whether a function is a method of a class, under its own name or another."""
    member = in_class(cls, function.__name__)
    if function in functions_of(member):
        return True
    return any(function is each for base in cls.__mro__ for each in base.__dict__.values())


def answers_by_code(cls: type) -> bool:
    """Whether attributes that an object of a class does not have are given by code of the user's."""
    functions = [
        function
        for name in ("__getattr__", "__getattribute__")
        for function in functions_of(static_attribute(cls, name))
    ]
    return any(home_of(function.__code__.co_filename) is not None for function in functions)


def functions_of(member: Any) -> list[FunctionType]:
    """The functions that a member of a class, or of a module, runs when it is taken or called."""
    found: list[FunctionType] = []
    pending = [member]
    seen: set[int] = set()
    while pending and len(seen) < MOST_VALUES:
        each = pending.pop()
        if id(each) in seen or issubclass(type(each), type):
            continue
        seen.add(id(each))
        if type(each) is FunctionType:
            found.append(each)
        pending += behind(each)
    return found


def called_by(value: Any) -> Iterator[tuple[FunctionType, Any]]:
    """The functions that a call of a value runs, and the objects whose methods they are."""
    kind = type(value)
    if value is UNSET or kind in DATA:
        return
    if is_class(value):
        of_fields = [each for base in value.__mro__ for each in called_for_fields(base)]
        yield from ((function, UNSET) for each in of_fields for function in functions_of(each))
        members = [static_attribute(value, name) for name in RUN_WHEN_MADE]
        yield from (
            (function, SomeOf(value, is_new=True)) for member in members for function in functions_of(member)
        )
    elif kind is MethodType:
        yield from ((function, value.__self__) for function in functions_of(value.__func__))
    elif issubclass(kind, functools.partial):
        yield from called_by(value.func)
        given = [
            each for each in (*value.args, *value.keywords.values()) if issubclass(type(each), FUNCTIONS)
        ]
        yield from (found for each in given for found in called_by(each))
    elif issubclass(kind, FUNCTIONS) or behind(value):
        yield from ((function, UNSET) for function in functions_of(value))
    elif kind.__flags__ & HEAP_TYPE:
        yield from ((function, value) for function in functions_of(static_attribute(kind, "__call__")))
