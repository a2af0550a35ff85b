"""Which numbers a value is made of, in which order, and where they sit.

A `Layout` is a picture of objects, containers and tangents at one moment: a tree of nodes in which every object, list and
dict stands once, and a flat list of its leaves, the float and complex numbers and arrays, in the order in which the fields
and items are reached, the first field with all that is in it before the second. Deep copies have the same layout, so the
number of a leaf names the same place in all of them.

Arrays are not objects: an array in two fields is two leaves with a tangent each. But it is one thing that can be moved,
one *slot*. Inside a tangent each place has its own share, and so its own slot.

Nothing here recurses, so a chain of a hundred thousand objects is like any other graph.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

from ._arrays import is_array, is_differentiable
from ._fields import CapturedField, is_captured, schema_of
from ._structure import refuse_own_fields, refuse_unfollowed
from ._tangent import Tangent, field_names
from ._traced import TracedArray, primal


class Node:
    """Something in its place: below `parent`, under `key`. A root has no parent, and its name for a key."""

    __slots__ = ("key", "parent")

    key: Any
    parent: Object | Group | None

    @property
    def owner(self) -> Object | None:
        """The object in whose field it sits; None if there are only containers above."""
        above = self.parent
        while above is not None and type(above) is not Object:
            above = above.parent
        return above

    @property
    def within(self) -> str:
        """The way from the owner."""
        return self._way(self.owner)

    @property
    def path(self) -> str:
        """The way from the root, in the words of a message: ``args[0].cell.Wi``."""
        return self._way(None)

    def _way(self, start: Object | None) -> str:
        steps: list[str] = []
        node: Node | None = self
        while node is not start and node is not None:
            if node.parent is None:
                steps.append(node.key)
            else:
                steps.append(f".{node.key}" if type(node.parent) is Object else f"[{node.key!r}]")
            node = node.parent
        return "".join(reversed(steps))


class Leaf(Node):
    """A number or array."""

    __slots__ = ("number", "slot", "value")

    def __init__(self, parent: Object | Group | None, key: Any, value: Any, number: int, slot: int) -> None:
        self.parent = parent
        self.key = key
        self.value = value
        self.number = number
        self.slot = slot


class Object(Node):
    """A captured object, or a tangent of one. `fields` has those that are set; None is for what has no tangent space."""

    __slots__ = ("cls", "fields", "primal")

    def __init__(self, parent: Object | Group | None, key: Any, primal: Any, cls: type) -> None:
        self.parent = parent
        self.key = key
        self.primal = primal
        self.cls = cls
        self.fields: dict[str, Place] = {}


class Group(Node):
    """A tuple, list, deque or dict."""

    __slots__ = ("items", "keys", "primal")

    def __init__(self, parent: Object | Group | None, key: Any, primal: Any) -> None:
        self.parent = parent
        self.key = key
        self.primal = primal
        self.keys: list[Any] = list(primal) if isinstance(primal, dict) else list(range(len(primal)))
        self.items: list[Place] = []


Place = Leaf | Object | Group | None  # None: a value without tangent space


class Layout:
    """The layout of some values.

    Inside a recording the fields are read as the program reads them, so the values of the leaves are traced.

    Parameters
    ----------
    roots : iterable of (value, str)
        The values with their names for messages.

    Raises
    ------
    NotCapturedError
        If arrays sit in an object that capture does not follow.
    """

    def __init__(self, roots: Iterable[tuple[Any, str]]) -> None:
        self.leaves: list[Leaf] = []
        self.slots: list[Leaf] = []  # the first leaf of each slot
        self.objects: list[Object] = []
        self.groups: list[Group] = []
        self._slot_of: dict[int, tuple[int, Any]] = {}  # it holds the array, so that its id stays its own
        self._known: dict[int, Object | Group] = {}
        self._roots = list(roots)
        self.nodes = [self.grow(value, None, name) for value, name in self._roots]

    def grow(self, value: Any, parent: Object | Group | None, key: Any) -> Place:
        """The node of `value` with all that is below it."""
        root, parts = self._plant(value, parent, key)
        # For each node that is being looked into, what is still to come. The top of the stack is the innermost.
        pending: list[tuple[Any, Iterator[tuple[Any, Any]]]] = [] if parts is None else [(root, parts)]
        while pending:
            above, coming = pending[-1]
            for name, item in coming:
                node, parts = self._plant(item, above, name)
                if type(above) is Object:
                    above.fields[name] = node
                else:
                    above.items.append(node)
                if parts is not None:
                    pending.append((node, parts))
                    break
            else:
                pending.pop()
        return root

    def _plant(
        self, value: Any, parent: Object | Group | None, key: Any
    ) -> tuple[Place, Iterator[tuple[Any, Any]] | None]:
        """A node for one value, and what is in it unless that is known."""
        kind = type(value)
        if kind is TracedArray or is_differentiable(value):
            return self._leaf(value, parent, key), None
        known = self._known.get(id(value))
        if known is not None:
            return known, None
        if self._is_object(value):
            cls = value._cls if kind is Tangent else kind
            made = self._known[id(value)] = Object(parent, key, value, cls)
            self.objects.append(made)
            return made, self._parts(value)
        if isinstance(value, dict | list | tuple | deque):
            group = Group(parent, key, value)
            self.groups.append(group)
            if not isinstance(value, tuple):
                # A tuple has no identity worth keeping: its arrays are leaves in each place.
                self._known[id(value)] = group
            return group, iter(list(value.items() if isinstance(value, dict) else enumerate(value)))
        if not isinstance(value, str | int | type(None)):
            self._refuse(value, parent, key)
        return None, None

    def _leaf(self, value: Any, parent: Object | Group | None, key: Any) -> Leaf:
        leaf = Leaf(parent, key, value, len(self.leaves), len(self.slots))
        if is_array(value):
            owner = leaf.owner
            if owner is None or type(owner.primal) is not Tangent:
                # A recording has one traced value per field; the plain array below it is the one that is shared.
                array = primal(value)
                leaf.slot, _ = self._slot_of.setdefault(id(array), (leaf.slot, array))
        self.leaves.append(leaf)
        if leaf.slot == len(self.slots):
            self.slots.append(leaf)
        return leaf

    # -- what a layout of another kind may look at differently ---------------------------------------------------------

    def _is_object(self, value: Any) -> bool:
        """Whether `value` has fields to look into."""
        return type(value) is Tangent or is_captured(value)

    def _parts(self, value: Any) -> Iterator[tuple[str, Any]]:
        """The names and values of the fields that are set."""
        if type(value) is Tangent:
            present = set(value)
            for name in field_names(value._cls):
                if name in present:
                    yield name, value[name]
            return
        refuse_own_fields(value)
        for name, field in fields_of(type(value)).items():
            try:
                held = field.__get__(value)
            except AttributeError:
                continue  # not set
            yield name, held

    def _refuse(self, value: Any, parent: Object | Group | None, key: Any) -> None:
        """Raise if there are arrays in `value`, which is of a kind that is not followed."""
        where = Leaf(parent, key, value, 0, 0).path
        refuse_unfollowed(value, where, is_captured)


def fields_of(cls: type) -> dict[str, CapturedField]:
    """The attrs fields; values that cached properties keep are captured too, but they are no part of a tangent."""
    schema = schema_of(cls)
    known = {} if schema is None else schema.fields
    return {name: known[name] for name in field_names(cls) if name in known}
