"""The history of fields: every value that a field had inside a recording, with its cotangent and its line."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, Final

import attrs
import numpy as np

from ._accumulate import Cotangents, project
from ._arrays import is_array
from ._tangent import NONE, ZERO, children, map_container
from ._traced import TracedArray, primal

NOTHING_FLOWS: Final = -1  # stands for the node of an entry value that was never read
NodeOf = Callable[[Any], int | None]


@attrs.frozen(eq=False)
class Version:
    """One value that a field had.

    Attributes
    ----------
    value : number, array, or container of them
        The plain value, a copy.
    cotangent : array, None, ZeroTangent or NoTangent
        The derivative of the target with respect to this value, from the latest sweep of the context, in the structure of
        `value`. None before the first sweep. ZeroTangent if nothing flowed to it; NoTangent for what the recording does
        not follow: constants, integers, objects.
    line : str or None
        Where it was written, as ``"model.py:12"``; None for the value on entry.
    """

    value: Any
    cotangent: Any
    line: str | None


class _Number:
    """A number or array in a version: its node, and a copy of its value."""

    __slots__ = ("node", "value")

    def __init__(self, node: int | None, value: Any) -> None:
        self.node = node
        self.value = value


@attrs.frozen(eq=False)
class _Written:
    """A version as it is kept: `content` has a `_Number` in place of each number."""

    content: Any
    line: str | None
    in_place: bool


def is_number(value: Any) -> bool:
    """Whether `value` is a float or complex number or array. Unlike `is_differentiable` it never raises."""
    if is_array(value):
        return value.dtype.kind in "fc"
    return isinstance(value, float | complex | np.inexact)


class History:
    """The versions of all fields of one recording."""

    def __init__(self) -> None:
        self._versions: dict[tuple[int, str], list[_Written]] = {}
        self._objects: dict[int, Any] = {}  # held, so that ids stay valid
        # By node, the fields that held its value when it was read or written.
        self._fields: dict[int, list[tuple[int, str]]] = {}
        self._cotangents: dict[int, Any] | None = None

    def knows(self, obj: Any, name: str) -> bool:
        """Whether there is a version of the field."""
        return (id(obj), name) in self._versions

    def add(self, obj: Any, name: str, value: Any, line: str | None, node_of: NodeOf) -> None:
        """Note that a field has this value now."""
        self._objects[id(obj)] = obj
        key = (id(obj), name)
        versions = self._versions.setdefault(key, [])
        content = _content(value, node_of)
        if versions and versions[-1].in_place and _node(content) == _node(versions[-1].content):
            return  # the assignment that ends `self.state += x`: the array was written, which has been noted
        versions.append(_Written(content, line, in_place=False))
        node = _node(content)
        if node is not None:
            self._fields.setdefault(node, []).append(key)

    def add_in_place(self, before: int, node: int, value: Any, line: str) -> None:
        """Note that an array was written in place: a new version of every field that holds it."""
        for key in self._fields.get(before, ()):
            versions = self._versions[key]
            if _node(versions[-1].content) == before:
                versions.append(_Written(_Number(node, primal(value).copy()), line, in_place=True))
                self._fields.setdefault(node, []).append(key)

    def length_of(self, obj: Any) -> dict[str, int]:
        """How many versions of each field of an object there are."""
        return {name: len(versions) for (key, name), versions in self._versions.items() if key == id(obj)}

    def shorten(self, obj: Any, length: dict[str, int]) -> None:
        """Forget the versions of an object's fields that came after there were so many."""
        for key in [key for key in self._versions if key[0] == id(obj)]:
            del self._versions[key][length.get(key[1], 0) :]
            if not self._versions[key]:
                del self._versions[key]

    def nodes(self) -> frozenset[int]:
        """The nodes whose cotangents a sweep has to keep."""
        return frozenset(
            number.node for number in self._numbers() if number.node not in {None, NOTHING_FLOWS}
        )

    def keep(self, cotangents: Cotangents) -> None:
        """Copy the cotangents of all versions after a sweep, before anybody can write into them."""
        found: dict[int, Any] = {}
        for number in self._numbers():
            node = number.node
            slot = None if node is None or node == NOTHING_FLOWS else cotangents.slots[node]
            if node is not None and slot is not None:
                found[node] = project(primal(slot), number.value, owned=False)
        self._cotangents = found

    def of(self, obj: Any, name: str) -> list[Version]:
        """All versions of a field, in order."""
        return [
            Version(_visit(_value, written.content), self._cotangent(written.content), written.line)
            for written in self._versions.get((id(obj), name), [])
        ]

    def unread(self, value: Any) -> Version:
        """The only version of a field that the recording did not touch."""
        content = _content(value, lambda _: NOTHING_FLOWS)
        return Version(_visit(_value, content), self._cotangent(content), None)

    def _cotangent(self, content: Any) -> Any:
        known = self._cotangents
        if known is None:
            return None

        def cotangent(part: Any) -> Any:
            if type(part) is not _Number or part.node is None:
                return NONE
            return known.get(part.node, ZERO)

        return _visit(cotangent, content)

    def _numbers(self) -> list[_Number]:
        found: list[_Number] = []
        pending = [written.content for versions in self._versions.values() for written in versions]
        while pending:
            part = pending.pop()
            if type(part) is _Number:
                found.append(part)
            else:
                pending += children(part) or []
        return found


def _content(value: Any, node_of: NodeOf) -> Any:
    if type(value) is TracedArray or is_number(value):
        plain = primal(value)
        return _Number(node_of(value), plain.copy() if is_array(plain) else plain)
    if is_array(value):
        return value.copy()
    if isinstance(value, deque):
        value = list(value)
    return map_container(lambda item: _content(item, node_of), value)


def _node(content: Any) -> int | None:
    return content.node if type(content) is _Number else None


def _value(part: Any) -> Any:
    if type(part) is not _Number:
        return part
    return part.value.copy() if is_array(part.value) else part.value


def _visit(leaf: Callable[[Any], Any], content: Any) -> Any:
    if children(content) is None:
        return leaf(content)
    return map_container(lambda part: _visit(leaf, part), content)
