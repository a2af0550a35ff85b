"""Which numbers a value is made of, in which order, and where they sit.

A `Layout` is a picture of arguments, or of results and objects, at one moment: a tree of nodes in which every object,
list and dict stands once, and a flat list of its leaves, the float and complex numbers and arrays. Deep copies have the
same layout, so the number of a leaf names the same place in all of them.

Arrays are not objects: an array in two fields is two leaves with a tangent each. But it is one thing that can be moved,
one *slot*.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from mutangent._arrays import describe, is_array, is_differentiable
from mutangent._fields import CapturedField, current, is_captured, schema_of
from mutangent._identity import IdentityMap
from mutangent._tangent import NONE, ZERO, NoTangent, Tangent, ZeroTangent, children, field_names, rebuild
from mutangent._traced import TracedArray

Fail = Callable[[str], NoReturn]


class Leaf:
    """A number or array: its place, and the value that it has there.

    `owner` is the object in whose field it sits, None in an argument or a result. `within` is the way from there.
    """

    __slots__ = ("number", "owner", "slot", "value", "within")

    def __init__(self, owner: Object | None, within: str, value: Any, number: int, slot: int) -> None:
        self.owner = owner
        self.within = within
        self.value = value
        self.number = number
        self.slot = slot

    @property
    def path(self) -> str:
        """The place in the words of a message: ``args[0].cell.Wi``."""
        return f"{self.owner.path}{self.within}" if self.owner else self.within


class Object:
    """A captured object."""

    __slots__ = ("fields", "path", "primal")

    def __init__(self, path: str, primal: Any) -> None:
        self.path = path
        self.primal = primal
        self.fields: dict[str, Node] = {}


class Group:
    """A tuple, list or dict."""

    __slots__ = ("items", "keys", "path", "primal")

    def __init__(self, path: str, primal: Any) -> None:
        self.path = path
        self.primal = primal
        self.keys: list[Any] = list(primal) if isinstance(primal, dict) else list(range(len(primal)))
        self.items: list[Node] = []


Node = Leaf | Object | Group | None  # None: a value without tangent space


class Layout:
    """The layout of some values.

    Parameters
    ----------
    roots : iterable of (value, str)
        The values with their names for messages.
    """

    def __init__(self, roots: Iterable[tuple[Any, str]]) -> None:
        self.leaves: list[Leaf] = []
        self.slots: list[Leaf] = []  # the first leaf of each slot
        self.objects: list[Object] = []
        self._slot_of: dict[int, int] = {}
        self._known: dict[int, Object | Group] = {}
        self._pending: deque[Object] = deque()
        self._roots = list(roots)
        self.nodes = [self._visit(value, None, name) for value, name in self._roots]
        while self._pending:
            self._visit_fields(self._pending.popleft())

    def _visit(self, value: Any, owner: Object | None, within: str) -> Node:
        if type(value) is TracedArray or is_differentiable(value):
            return self._leaf(value, owner, within)
        path = f"{owner.path}{within}" if owner else within
        if is_captured(value):
            if id(value) not in self._known:
                node = self._known[id(value)] = Object(path, value)
                self.objects.append(node)
                self._pending.append(node)
            return self._known[id(value)]
        items = children(value)
        if items is None:
            return None
        if id(value) in self._known:
            return self._known[id(value)]
        group = Group(path, value)
        if not isinstance(
            value, tuple
        ):  # a tuple has no identity worth keeping: its arrays are leaves in each place
            self._known[id(value)] = group
        for key, item in zip(group.keys, items, strict=True):
            group.items.append(self._visit(item, owner, f"{within}[{key!r}]"))
        return group

    def _visit_fields(self, node: Object) -> None:
        overlay = current()
        for name, field in _fields(node).items():
            try:
                value = field.raw_get(node.primal) if overlay is None else overlay.peek(node.primal, field)
            except AttributeError:
                continue  # not set
            node.fields[name] = self._visit(value, node, f".{name}")

    def _leaf(self, value: Any, owner: Object | None, within: str) -> Leaf:
        slot = len(self.slots)
        if is_array(value):
            slot = self._slot_of.setdefault(id(value), slot)
        leaf = Leaf(owner, within, value, len(self.leaves), slot)
        self.leaves.append(leaf)
        if slot == len(self.slots):
            self.slots.append(leaf)
        return leaf

    @property
    def paths(self) -> list[str]:
        """The paths of the leaves."""
        return [leaf.path for leaf in self.leaves]

    def refill(self, values: Sequence[Any]) -> list[Any]:
        """Put other values, one per leaf, in the places of the leaves and return the roots.

        Objects, lists and dicts are changed in place, tuples made anew.
        """
        done: set[int] = set()

        def put(node: Node, original: Any) -> Any:
            if isinstance(node, Leaf):
                return values[node.number]
            if not isinstance(node, Group) or id(node) in done:
                return original
            done.add(id(node))
            items = [put(item, old) for item, old in zip(node.items, children(original) or [], strict=True)]
            if isinstance(original, tuple):
                return rebuild(original, items)
            for key, item in zip(node.keys, items, strict=True):
                original[key] = item
            return original

        for node in self.objects:
            for name, field in _fields(node).items():
                if name in node.fields:
                    old = field.raw_get(node.primal)
                    new = put(node.fields[name], old)
                    if new is not old:
                        field.raw_set(node.primal, new)
        return [put(node, root) for node, (root, _) in zip(self.nodes, self._roots, strict=True)]

    def match(self, tangents: Sequence[Any], fail: Fail) -> list[Any]:
        """The tangent of each leaf out of one tangent per root; `ZeroTangent()` where there is none.

        It calls `fail` when a tangent has another structure than its value, and when an object has two.
        """
        found: list[Any] = [ZERO] * len(self.leaves)
        given: dict[int, Any] = {}
        pending: list[tuple[Node, Any, str]] = [
            (node, tangent, getattr(node, "path", "an argument"))
            for node, tangent in zip(self.nodes, tangents, strict=True)
        ]
        while pending:
            node, tangent, path = pending.pop()
            if isinstance(node, Leaf):
                found[node.number] = tangent
            elif isinstance(tangent, ZeroTangent):
                continue
            elif node is None:
                if tangent is not None and type(tangent) is not NoTangent:
                    fail(
                        f"{path} has no tangent space, but its tangent is {describe(tangent)}, not NoTangent()"
                    )
            elif id(node) in given:
                if isinstance(node, Object) and given[id(node)] is not tangent:
                    fail(f"{path} is one object with two tangents: one in each place that refers to it")
            else:
                given[id(node)] = tangent
                pending += _parts(node, tangent, fail)
        return found

    def cotangents(self, bars: Sequence[Any]) -> tuple[Any, IdentityMap[Tangent]]:
        """The cotangent of the first root, and those of the fields of all objects, from one per leaf.

        A leaf whose cotangent is None is left out.
        """
        given: set[int] = set()

        def build(node: Node) -> Any:
            if isinstance(node, Leaf):
                return ZERO if bars[node.number] is None else bars[node.number]
            if isinstance(node, Group) and id(node) not in given:
                given.add(id(node))
                return rebuild(node.primal, [build(item) for item in node.items])
            return NONE if node is None else ZERO

        out_bar = build(self.nodes[0])
        chosen = {id(leaf.owner) for leaf in self.leaves if leaf.owner and bars[leaf.number] is not None}
        return out_bar, IdentityMap(
            (
                node.primal,
                Tangent(
                    type(node.primal),
                    **{name: build(field) for name, field in node.fields.items() if field is not None},
                ),
            )
            for node in self.objects
            if id(node) in chosen
        )

    def tangents(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """A tangent per root, from one number or array per leaf: one for each object, list and dict, wherever it stands."""
        made: dict[int, Any] = {}

        def build(node: Node) -> Any:
            if isinstance(node, Leaf):
                return values[node.number]
            if node is None:
                return NONE
            if id(node) not in made:
                made[id(node)] = (
                    Tangent(type(node.primal))
                    if isinstance(node, Object)
                    else rebuild(node.primal, [build(item) for item in node.items])
                )
            return made[id(node)]

        roots = tuple([build(node) for node in self.nodes])
        for node in self.objects:
            build(node)._fields.update({name: build(field) for name, field in node.fields.items()})
        return roots


def _fields(node: Object) -> dict[str, CapturedField]:
    """The attrs fields; values that cached properties keep are captured too, but they are no part of a tangent."""
    cls = type(node.primal)
    schema = schema_of(cls)
    known = {} if schema is None else schema.fields
    return {name: known[name] for name in field_names(cls) if name in known}


def _parts(node: Object | Group, tangent: Any, fail: Fail) -> list[tuple[Node, Any, str]]:
    """The parts of an object or container with their tangents."""
    if isinstance(node, Object):
        cls = type(node.primal)
        if not isinstance(tangent, Tangent) or tangent._cls is not cls:
            got = (
                f"a Tangent of {tangent._cls.__name__}" if isinstance(tangent, Tangent) else describe(tangent)
            )
            fail(
                f"{node.path} is a {cls.__name__}, but its tangent is {got}, not a Tangent of {cls.__name__}"
            )
        present = set(tangent)
        return [
            (part, tangent[name], f"{node.path}.{name}")
            for name, part in node.fields.items()
            if name in present
        ]
    parts = children(tangent)
    alike = isinstance(tangent, dict) == isinstance(node.primal, dict)
    if parts is None or not alike or len(parts) != len(node.items):
        fail(
            f"{node.path} is a {type(node.primal).__name__} of {len(node.items)} values, but its tangent is "
            f"{describe(tangent) if parts is None else f'a {type(tangent).__name__} of {len(parts)}'}"
        )
    if isinstance(tangent, dict) and list(tangent) != node.keys:
        fail(f"{node.path} has the keys {node.keys}, but its tangent has {list(tangent)}")
    return [
        (item, part, f"{node.path}[{key!r}]")
        for item, part, key in zip(node.items, parts, node.keys, strict=True)
    ]
