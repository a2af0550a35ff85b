"""What a check does with a layout: put other numbers into the places, and pair the places with tangents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

from mutangent._arrays import describe, type_name, with_article
from mutangent._fields import current, is_captured
from mutangent._identity import IdentityMap
from mutangent._layout import Group, Leaf, Object, Place, fields_of
from mutangent._layout import Layout as PlainLayout
from mutangent._tangent import NONE, ZERO, NoTangent, Tangent, ZeroTangent, children, rebuild

Fail = Callable[[str], NoReturn]


class Layout(PlainLayout):
    """The layout of arguments, results and objects. Looking at a field is no reading of it: nothing is recorded."""

    def is_object(self, value: Any) -> bool:
        return is_captured(value)

    def parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        overlay = current()
        for name, field in fields_of(type(value)).items():
            try:
                yield name, field.raw_get(value) if overlay is None else overlay.peek(value, field)
            except AttributeError:
                continue  # not set

    def _refuse(self, value: Any, parent: Object | Group | None, key: Any) -> None:
        """Whoever records the call looks at that."""

    @property
    def paths(self) -> list[str]:
        """The paths of the leaves."""
        return [leaf.path for leaf in self.leaves]

    def refill(self, values: Sequence[Any]) -> list[Any]:
        """Put other values, one per leaf, in the places of the leaves and return the roots.

        Objects, lists and dicts are changed in place, tuples made anew.
        """
        done: set[int] = set()

        def put(node: Place, original: Any) -> Any:
            if isinstance(node, Leaf):
                return values[node.number]
            if not isinstance(node, Group) or id(node) in done:
                return original
            done.add(id(node))
            olds = original.values() if isinstance(original, dict) else original
            items = [put(item, old) for item, old in zip(self.below(node).values(), olds, strict=True)]
            if isinstance(original, tuple):
                return rebuild(original, items)
            for key, item in zip(self.below(node), items, strict=True):
                original[key] = item
            return original

        for node in self.objects:
            for name, field in fields_of(node.cls).items():
                if name in self.below(node):
                    old = field.raw_get(node.primal)
                    new = put(self.below(node)[name], old)
                    if new is not old:
                        field.raw_set(node.primal, new)
        return [put(node, root) for node, root in zip(self.nodes, self.roots, strict=True)]

    def match(self, tangents: Sequence[Any], fail: Fail) -> list[Any]:
        """The tangent of each leaf out of one tangent per root; `ZeroTangent()` where there is none.

        It calls `fail` when a tangent has another structure than its value, and when an object has two.
        """
        found: list[Any] = [ZERO] * len(self.leaves)
        given: dict[int, Any] = {}
        pending: list[tuple[Place, Any, str]] = [
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
                pending += _parts(node, self.below(node), tangent, fail)
        return found

    def cotangents(self, bars: Sequence[Any]) -> tuple[Any, IdentityMap[Tangent]]:
        """The cotangent of the first root, and those of the fields of all objects, from one per leaf.

        A leaf whose cotangent is None is left out.
        """
        given: set[int] = set()

        def build(node: Place) -> Any:
            if isinstance(node, Leaf):
                return ZERO if bars[node.number] is None else bars[node.number]
            if isinstance(node, Group) and id(node) not in given:
                given.add(id(node))
                return rebuild(node.primal, [build(item) for item in self.below(node).values()])
            return NONE if node is None else ZERO

        out_bar = build(self.nodes[0])
        chosen = {id(leaf.owner) for leaf in self.leaves if leaf.owner and bars[leaf.number] is not None}
        return out_bar, IdentityMap(
            (
                node.primal,
                Tangent(
                    type(node.primal),
                    **{name: build(field) for name, field in self.below(node).items() if field is not None},
                ),
            )
            for node in self.objects
            if id(node) in chosen
        )

    def tangents(self, values: Sequence[Any]) -> tuple[Any, ...]:
        """A tangent per root, from one number or array per leaf: one for each object, list and dict, wherever it stands."""
        made: dict[int, Any] = {}

        def build(node: Place) -> Any:
            if isinstance(node, Leaf):
                return values[node.number]
            if node is None:
                return NONE
            if id(node) not in made:
                made[id(node)] = (
                    Tangent(type(node.primal))
                    if isinstance(node, Object)
                    else rebuild(node.primal, [build(item) for item in self.below(node).values()])
                )
            return made[id(node)]

        roots = tuple([build(node) for node in self.nodes])
        for node in self.objects:
            build(node)._fields.update({name: build(field) for name, field in self.below(node).items()})
        return roots


def _parts(
    node: Object | Group, below: dict[Any, Place], tangent: Any, fail: Fail
) -> list[tuple[Place, Any, str]]:
    """The parts of an object or container with their tangents."""
    if isinstance(node, Object):
        cls = type(node.primal)
        if not isinstance(tangent, Tangent) or tangent._cls is not cls:
            got = (
                f"a Tangent of {tangent._cls.__name__}" if isinstance(tangent, Tangent) else describe(tangent)
            )
            fail(
                f"{node.path} is {with_article(cls.__name__)}, but its tangent is {got}, not a Tangent of {cls.__name__}"
            )
        present = set(tangent)
        return [
            (part, tangent[name], f"{node.path}.{name}") for name, part in below.items() if name in present
        ]
    parts = children(tangent)
    alike = isinstance(tangent, dict) == isinstance(node.primal, dict)
    if parts is None or not alike or len(parts) != len(below):
        fail(
            f"{node.path} is {type_name(node.primal)} of {len(below)} values, but its tangent is "
            f"{describe(tangent) if parts is None else f'{type_name(tangent)} of {len(parts)}'}"
        )
    if isinstance(tangent, dict) and list(tangent) != list(below):
        fail(f"{node.path} has the keys {list(below)}, but its tangent has {list(tangent)}")
    return [
        (item, part, f"{node.path}[{key!r}]") for (key, item), part in zip(below.items(), parts, strict=True)
    ]
