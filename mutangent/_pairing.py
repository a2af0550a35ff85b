"""Pair the places of a layout with another tree: an object with its tangent, a model with a second one.

An object has one partner, however many ways lead to it. A way on which the other tree has nothing, `ZeroTangent()` or
`NoTangent()`, says nothing about the object; two ways with different partners contradict each other.

Where the first tree is a tangent that left something out, it is completed from the other tree, with `ZeroTangent()` for
the numbers, so that nothing the other tree has is lost.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Final, Protocol

import numpy as np

from ._arrays import is_array, is_differentiable, overlap
from ._layout import Group, Layout, Leaf, Object, Place
from ._tangent import NONE, ZERO, Tangent, rebuild
from ._traced import TracedArray, primal


class Misfit(Protocol):
    """How to say that a partner does not fit: the error for what is at `where`, its value, and the partner."""

    def __call__(self, where: str, value: Any, partner: Any) -> Exception: ...


class Pairing:
    """Pairs one layout with another tree.

    Parameters
    ----------
    layout : Layout
        Of one root. It is completed where the other tree has more than a tangent that left something out.
    fits : callable
        Whether a number may have this partner.
    misfit, contradiction : callable
        Make the errors for a partner that does not fit, and for a place that has two.
    follow : callable, optional
        Whether to look into a field, given the class and the name. All fields, unless said otherwise.
    """

    def __init__(
        self,
        layout: Layout,
        fits: Callable[[Any, Any], bool],
        misfit: Misfit,
        contradiction: Callable[[str], Exception],
        follow: Callable[[type, str], bool] = lambda cls, name: True,
    ) -> None:
        self.layout = layout
        self.fits = fits
        self.misfit = misfit
        self.contradiction = contradiction
        self.follow = follow
        self.found: dict[int, Any] = {}  # by the number of the leaf
        self._partners: dict[int, list[Any]] = {}  # by the identity of the node
        self._node_of: dict[int, Object | Group] = {}  # by the identity of the partner
        self._pending: list[tuple[Place, Object | Group | None, Any, Any]] = []
        self._missing: list[tuple[Object | Group | None, Any, Any]] = []

    def pair(self, other: Any) -> dict[int, Any]:
        """The partner of each leaf, by its number. A leaf whose partner is nothing is left out.

        Raises
        ------
        Exception
            What `misfit` and `contradiction` make.
        """
        root = self.layout.nodes[0]
        name = type(self.layout.roots[0]).__name__ if root is None else root.key
        self._pending = [(root, None, name, other)]
        while self._pending or self._missing:
            if self._pending:
                self._visit(*self._pending.pop())
            else:  # only when all that is there has been paired: it may be reached by another way
                self._complete(*self._missing.pop())
        return self.found

    def _visit(self, node: Place, parent: Object | Group | None, key: Any, partner: Any) -> None:
        if partner is ZERO or partner is NONE:
            return
        if type(node) is Leaf:
            self._meet(node, partner)
        elif node is None:
            self._visit_nothing(parent, key, partner)
        else:
            known = self._partners.setdefault(id(node), [])
            if any(partner is other for other in known):
                return
            known.append(partner)
            if type(node) is Object:
                self._visit_object(node, partner)
            else:
                self._visit_group(node, partner)

    def _meet(self, leaf: Leaf, partner: Any) -> None:
        if not self.fits(leaf.value, partner):
            raise self.misfit(place_name(leaf.parent, leaf.key), leaf.value, partner)
        before = self.found.setdefault(leaf.number, partner)
        if before is not partner and not np.array_equal(before, partner, equal_nan=True):
            raise self.contradiction(place_name(leaf.parent, leaf.key))

    def _visit_nothing(self, parent: Object | Group | None, key: Any, partner: Any) -> None:
        value = value_at(self.layout, parent, key)
        if value is ZERO:
            self._missing.append((parent, key, partner))
        elif value is not NONE and (moves(partner) or self._has_parts(partner)):
            raise self.misfit(place_name(parent, key), value, partner)

    def _visit_object(self, node: Object, partner: Any) -> None:
        is_tangent = type(partner) is Tangent
        cls = partner._cls if is_tangent else type(partner)
        if not self.layout.is_object(partner) or cls is not node.cls:
            raise self.misfit(place_name(node.parent, node.key), node.primal, partner)
        self._node_of[id(partner)] = node
        below = self.layout.below(node)
        for name, item in self.layout.parts(partner):
            if self.follow(cls, name):
                self._pending.append((below.get(name), node, name, item))

    def _visit_group(self, node: Group, partner: Any) -> None:
        if isinstance(node.primal, dict):
            fits = isinstance(partner, dict) and partner.keys() == node.primal.keys()
        else:
            fits = isinstance(partner, list | tuple | deque) and len(partner) == len(node.primal)
        if not fits:
            raise self.misfit(place_name(node.parent, node.key), node.primal, partner)
        if not isinstance(partner, tuple):
            self._node_of[id(partner)] = node
        for key, item in self.layout.below(node).items():
            self._pending.append((item, node, key, partner[key]))

    # -- what the first tree left out ----------------------------------------------------------------------------------

    def _complete(self, parent: Object | Group | None, key: Any, partner: Any) -> None:
        """Put a node for `partner` into a place where the first tree has a `ZeroTangent`."""
        node: Place = self._node_of.get(id(partner))
        parts: list[tuple[Any, Any]] = []
        if node is not None or partner is ZERO or partner is NONE:
            pass
        elif moves(partner):
            node = Leaf(parent, key, ZERO, len(self.layout.leaves), len(self.layout.slots))
            self.layout.leaves.append(node)
            self.layout.slots.append(node)
            self._meet(node, partner)
        elif self.layout.is_object(partner):
            cls = partner._cls if type(partner) is Tangent else type(partner)
            node = self._node_of[id(partner)] = self.layout.add_object(
                parent, key, Tangent._shell(cls, {}), cls
            )
            parts = list(self.layout.parts(partner))
        elif self._has_parts(partner):
            node = self.layout.add_group(parent, key, rebuild(partner, [ZERO] * len(partner)))
            if not isinstance(partner, tuple):
                self._node_of[id(partner)] = node
            parts = list(partner.items()) if isinstance(partner, dict) else list(enumerate(partner))
            self.layout.below(node).update({key: None for key, _ in parts})
        for name, item in parts:
            assert node is not None
            self._missing.append((node, name, item))  # type: ignore[arg-type]  # a leaf has no parts
        if parent is not None:
            self.layout.below(parent)[key] = node
        else:
            self.layout.nodes[0] = node

    def _has_parts(self, value: Any) -> bool:
        return self.layout.is_object(value) or isinstance(value, list | tuple | dict | deque)


def moves(value: Any) -> bool:
    """Whether `value` is a float or complex number or array, traced or not."""
    return type(value) is TracedArray or is_differentiable(value)


def value_at(layout: Layout, parent: Object | Group | None, key: Any) -> Any:
    """What is in a place; None in a field that is not set."""
    if parent is None:
        return layout.roots[0]
    if type(parent) is Group:
        return parent.primal[key]
    return parent.primal[key] if type(parent.primal) is Tangent else getattr(parent.primal, key, None)


def refuse_overlaps(leaves: Iterable[Leaf]) -> None:
    """Raise if two arrays overlap without being one array: a new graph, or an update, would tear them apart in silence."""
    views: dict[int, list[tuple[Any, Leaf]]] = {}  # by the identity of what owns the memory
    for leaf in leaves:
        array = primal(leaf.value)
        if is_array(array):
            base = array
            while getattr(base, "base", None) is not None:
                base = base.base
            views.setdefault(id(base), []).append((array, leaf))
    for group in views.values():
        for number, (array, leaf) in enumerate(group):
            for other, other_leaf in group[:number]:
                if array is not other and overlap(array, other):
                    places = [place_name(place.parent, place.key) for place in (other_leaf, leaf)]
                    raise ValueError(
                        f"{' and '.join(places)} hold arrays that overlap in memory, but are not one array, so they would "
                        "not stay together. Hold one of them, and make the other where it is used: `self.w.T`, "
                        "`self.w[:2]`. Or hold a copy."
                    )


LONGEST_WAY: Final = 200


def place_name(parent: Object | Group | None, key: Any) -> str:
    """A place in the words of an error message: class and field, and the way there from the root."""
    place = Leaf(parent, key, None, 0, 0)
    owner, way = place.owner, place.path
    field = way if owner is None else owner.cls.__name__ + place.within
    if len(way) > LONGEST_WAY:
        way = f"…{way[-LONGEST_WAY:]}"
    return field if field == way else f"{field} (at {way})"
