"""Reads past a recording by attributes of objects that it does not follow, and of classes: ``sim.pos``, ``Sim.pos``.

Such an attribute is as plain a name as a global one, see `_read_past`. It is read where it is taken of that object, as
far as `_value_flow` tells which objects come up, or of one that is not known.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Iterable, Iterator
from types import CodeType, FunctionType, MethodType
from typing import Any, Final, NamedTuple

from ._arrays import ARRAYS
from ._attributes import Attributes
from ._bindings import data_of_class
from ._loads import SUPER, Load
from ._members import FUNCTIONS, SomeOf, answers_by_code, holder_of, static_attribute
from ._plain_names import UNSET, Read, few_parts_of, items_within, read_by
from ._states import kind_of
from ._value_flow import Flow, Piece

_MOST: Final = 1000  # objects and containers that are looked at
_PLAIN: Final = frozenset({*ARRAYS, float, int, bool, str, type(None), type})


class Attribute(NamedTuple):
    """An attribute of an object that is not captured, or of a class."""

    obj: Any
    name: str
    value: Any


class AttributeName:
    """An attribute of an object, and the places at which some code reads it.

    Parameters
    ----------
    attribute : Attribute
    flow : Flow
        The code.
    """

    __slots__ = ("_attribute", "_flow", "name")

    def __init__(self, attribute: Attribute, flow: Flow) -> None:
        self._attribute = attribute
        self._flow = flow
        obj = attribute.obj
        self.name = f"{(obj if issubclass(type(obj), type) else type(obj)).__name__}.{attribute.name}"

    @property
    def reads(self) -> list[Read]:
        """The places that may look into the value."""
        found = [
            read
            for piece in self._flow.pieces
            for code, load in piece.places()
            if any(step.name == self._attribute.name for step in load.steps)
            for read in self._reads_at(piece, code, load)
        ]
        return sorted(found, key=str)

    def _reads_at(self, piece: Piece, code: CodeType, load: Load) -> Iterator[Read]:
        values = self._flow.start_of(piece, code, load)
        for number, step in enumerate(load.steps):
            is_this = step.name == self._attribute.name
            if is_this and any(self._may_be_of(value, step.key) for value in values):
                read = read_by(load, load.steps[number + 1 :], piece.where, code, piece.given_to)
                if read is not None:
                    yield read
            values = self._flow.after(values, step)

    def _may_be_of(self, value: Any, key: Any) -> bool:
        """Whether it may be an attribute of a value, or of `super()`."""
        obj, name = self._attribute.obj, self._attribute.name
        if value is UNSET or value is obj:
            return True
        cls = holder_of(value)
        is_some = type(value) is SomeOf
        if is_some and not issubclass(type(obj), type) and not value.is_new and issubclass(type(obj), cls):
            return True
        found = static_attribute(cls if is_some else value, name)
        if found is UNSET:
            return answers_by_code(cls)
        return (
            issubclass(type(obj), type)
            and obj in cls.__mro__
            and (key is SUPER or found is self._attribute.value)
        )


class Near:
    """Attributes of objects that are not captured, to which some values lead by attributes that code names.

    Parameters
    ----------
    roots : iterable
    names : frozenset of str
        The names of attributes that stand in the code, among others.
    """

    def __init__(self, roots: Iterable[Any], names: frozenset[str]) -> None:
        self.attributes: list[Attribute] = []
        self.classes: set[type] = set()
        # Values, by the names of attributes in which they lie, or lists with them.
        self.in_attributes: dict[str, list[Any]] = {}
        pending: deque[tuple[Any, str | None]] = deque((root, None) for root in roots)
        seen: dict[int, Any] = {}
        while pending and len(seen) < _MOST:
            obj, name = pending.popleft()
            if type(obj) in _PLAIN:
                continue
            if name is not None:
                self.in_attributes.setdefault(name, []).append(obj)
            if id(obj) in seen:
                continue
            seen[id(obj)] = obj
            pending += [(each, name) for each in few_parts_of(obj) if type(each) not in _PLAIN]
            if type(obj) is MethodType:
                pending.append((obj.__self__, None))
            elif issubclass(type(obj), functools.partial):
                pending.append((obj.func, None))
            elif type(obj) is FunctionType:
                self._add(obj, obj.__dict__, names, pending)
            elif is_followed_past(obj):
                self.classes.add(type(obj))
                self._add(obj, Attributes(obj).before, names, pending)

    def _add(self, obj: Any, its: dict[str, Any], names: frozenset[str], pending: deque[Any]) -> None:
        for name, value in its.items():
            if name in names:
                self.attributes.append(Attribute(obj, name, value))
                pending.append((value, name))


def attributes_of_classes(classes: Iterable[type], names: frozenset[str]) -> Iterator[Attribute]:
    """Attributes of classes, and of those that they inherit from, which the code names."""
    for base in {base: None for cls in classes for base in cls.__mro__}:
        for name, value in data_of_class(base).items():
            if name in names:
                yield Attribute(base, name, value)


def functions_in(value: Any) -> list[Any]:
    """A value, if it is a function, or the functions in a container."""
    if type(value) in _PLAIN:
        return []
    return [each for each in (value, *items_within(value)) if issubclass(type(each), FUNCTIONS)]


def is_followed_past(value: Any) -> bool:
    """Whether a value is an object with attributes that a recording does not follow."""
    return kind_of(value).state_of is Attributes
