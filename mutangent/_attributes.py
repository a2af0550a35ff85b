"""Attributes that no captured field stands for: what they hold, whether a traced value is left there, how to put them back.

A recording does not follow such attributes: `obj.extra` of a class with a `__dict__`, the slots of a base that is no attrs
class, all attributes of an object of another class. What it can do is to look at an object when it meets it, which is
mostly before the program gets hold of it, and to look again in the end.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from types import MemberDescriptorType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ._fields import MISSING, schema_of
from ._tangent import children
from ._traced import TracedArray

_slots_of: Final[WeakKeyDictionary[type, list[str]]] = WeakKeyDictionary()


def holds_traced(value: Any) -> bool:
    """Whether a value is a traced one, or a tuple, list, dict or deque with one in it."""
    seen: dict[int, Any] = {}
    pending = [value]
    while pending:
        held = pending.pop()
        if type(held) is TracedArray:
            return True
        items = list(held) if isinstance(held, deque) else children(held)
        if items and id(held) not in seen:
            seen[id(held)] = held
            pending += items
    return False


class Attributes:
    """The attributes of one object that are no captured fields, as they were when a recording met it."""

    __slots__ = ("before", "obj")

    def __init__(self, obj: Any) -> None:
        self.obj = obj
        self.before = _now(obj)

    def with_traced(self) -> list[str]:
        """The names of those in which a traced value lies now."""
        return [name for name, value in _now(self.obj).items() if holds_traced(value)]

    def is_changed(self) -> bool:
        """Whether one of them holds something else by now."""
        now = _now(self.obj)
        if now.keys() != self.before.keys():
            return True
        for name, value in self.before.items():  # noqa: SIM110 - `any` would make a generator each time
            if now[name] is not value:
                return True
        return False

    def restore(self) -> None:
        """Put all of them back as they were."""
        self._restore(dict.fromkeys([*_now(self.obj), *self.before]))

    def restore_traced(self) -> None:
        """Put those in which a traced value lies now back as they were."""
        self._restore(self.with_traced())

    def _restore(self, names: Iterable[str]) -> None:
        now = _now(self.obj)
        for name in names:
            if now.get(name, MISSING) is not self.before.get(name, MISSING):
                _put(self.obj, name, self.before.get(name, MISSING))
        self.lower()  # what lay there already when the object was met

    def lower(self) -> None:
        """Take values of closed recordings out of their tracing."""
        for name, value in _now(self.obj).items():
            if type(value) is TracedArray:
                plain: Any = value
                while type(plain) is TracedArray and plain._tape.all is None:
                    plain = plain._value
                _put(self.obj, name, plain)


def _now(obj: Any) -> dict[str, Any]:
    schema = schema_of(type(obj))
    if schema is None:
        found = dict(_stored(obj))
        slots = tuple(_slots(obj))
    else:
        stored = {} if schema.dict_of is None else schema.dict_of(obj)
        fields = schema.fields
        if stored.keys() <= fields.keys():  # the usual case, quickly
            found = {}
        else:
            found = {name: value for name, value in stored.items() if name not in fields}
        slots = schema.slots
    for name in slots:
        with suppress(AttributeError):  # of an unset one
            found[name] = _slot(obj, name).__get__(obj)
    return found


def _stored(obj: Any) -> dict[str, Any]:
    """The true `__dict__` of an object; an empty one without."""
    schema = schema_of(type(obj))
    if schema is not None:
        return {} if schema.dict_of is None else schema.dict_of(obj)
    try:
        stored = object.__getattribute__(obj, "__dict__")  # which asks no code of the class
    except AttributeError:
        return {}
    return stored if isinstance(stored, dict) else {}


def _slots(obj: Any) -> list[str]:
    known = _slots_of.get(type(obj))
    if known is None:
        known = _slots_of[type(obj)] = [
            name
            for cls in type(obj).__mro__
            if "__slots__" in vars(cls)  # in C, members are no attributes that a program gives an object
            for name, member in vars(cls).items()
            if type(member) is MemberDescriptorType
        ]
    return known


def _slot(obj: Any, name: str) -> Any:
    return next(
        vars(cls)[name] for cls in type(obj).__mro__ if type(vars(cls).get(name)) is MemberDescriptorType
    )


def _put(obj: Any, name: str, value: Any) -> None:
    if name in _slots(obj):
        slot = _slot(obj, name)
        if value is MISSING:
            slot.__delete__(obj)
        else:
            slot.__set__(obj, value)
    elif value is MISSING:
        del _stored(obj)[name]
    else:
        _stored(obj)[name] = value
