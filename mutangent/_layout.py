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
from typing import Any, Final, final

from ._arrays import is_array, is_differentiable, type_name, with_article
from ._errors import NotCapturedError
from ._fields import CapturedField, is_captured, schema_of
from ._structure import refuse_own_fields, refuse_unfollowed, unfollowed_items
from ._tangent import Tangent, children, field_names
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

    @property
    def way(self) -> str:
        """The way from the root without the root's name, as one writes it after a value: ``.cell.Wi``."""
        root: Node = self
        while root.parent is not None:
            root = root.parent
        return self.path[len(root.key) :]

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


@final
class Leaf(Node):
    """A number or array."""

    __slots__ = ("number", "slot", "value")

    def __init__(self, parent: Object | Group | None, key: Any, value: Any, number: int, slot: int) -> None:
        self.parent = parent
        self.key = key
        self.value = value
        self.number = number
        self.slot = slot


@final
class Object(Node):
    """A captured object, or a tangent of one."""

    __slots__ = ("cls", "number", "primal")

    def __init__(self, parent: Object | Group | None, key: Any, primal: Any, number: int, cls: type) -> None:
        self.parent = parent
        self.key = key
        self.primal = primal
        self.number = number
        self.cls = cls


@final
class Group(Node):
    """A tuple, list, deque or dict."""

    __slots__ = ("number", "primal")

    def __init__(self, parent: Object | Group | None, key: Any, primal: Any, number: int) -> None:
        self.parent = parent
        self.key = key
        self.primal = primal
        self.number = number


Place = Leaf | Object | Group | None  # None: a value without tangent space
_PLAIN: Final = frozenset({str, int, bool, type(None)})


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
        # Nodes know what is above them, and the layout what is below, so that there are no circles: a layout that is
        # dropped is gone at once, with the arrays in it.
        self._below: list[dict[Any, Place]] = []
        self._slot_of: dict[int, tuple[int, Any]] = {}  # it holds the array, so that its id stays its own
        self._known: dict[int, Object | Group] = {}
        named = list(roots)
        self.roots: list[Any] = [value for value, _ in named]
        self.nodes = [self._grow(value, name) for value, name in named]

    def below(self, node: Object | Group) -> dict[Any, Place]:
        """What is in an object or container, by field, position or key; None for what has no tangent space.

        Fields that are not set are left out.
        """
        return self._below[node.number]

    def add_object(self, parent: Object | Group | None, key: Any, primal: Any, cls: type) -> Object:
        """A node for an object, with nothing below it yet."""
        made = Object(parent, key, primal, len(self._below), cls)
        self._below.append({})
        self.objects.append(made)
        return made

    def add_group(self, parent: Object | Group | None, key: Any, primal: Any) -> Group:
        """A node for a container, with nothing below it yet."""
        made = Group(parent, key, primal, len(self._below))
        self._below.append({})
        self.groups.append(made)
        return made

    def _grow(self, value: Any, name: str) -> Place:
        """The node of a root, and all that is below it."""
        root, parts = self._plant(value, None, name)
        # For each node that is being looked into, what is still to come. The top of the stack is the innermost.
        pending: list[tuple[Any, Iterator[tuple[Any, Any]]]] = [] if parts is None else [(root, iter(parts))]
        while pending:
            above, coming = pending[-1]
            below = self._below[above.number]
            for key, item in coming:
                below[key], parts = self._plant(item, above, key)
                if parts is not None:
                    pending.append((below[key], iter(parts)))
                    break
            else:
                pending.pop()
        return root

    def _plant(
        self, value: Any, parent: Object | Group | None, key: Any
    ) -> tuple[Place, Iterable[tuple[Any, Any]] | None]:
        """A node for one value, and what is in it unless that is known."""
        kind = type(value)
        if kind in _PLAIN:
            return None, None
        if kind is TracedArray or is_differentiable(value):
            return self._leaf(value, parent, key), None
        known = self._known.get(id(value))
        if known is not None:
            return known, None
        if self.is_object(value):
            cls = value._cls if kind is Tangent else kind
            made = self._known[id(value)] = self.add_object(parent, key, value, cls)
            return made, self.parts(value)
        if isinstance(value, dict | list | tuple | deque):
            group = self.add_group(parent, key, value)
            if not isinstance(value, tuple):
                # A tuple has no identity worth keeping: its arrays are leaves in each place.
                self._known[id(value)] = group
            return group, list(value.items()) if isinstance(value, dict) else list(enumerate(value))
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

    def is_object(self, value: Any) -> bool:
        """Whether `value` has fields to look into."""
        return type(value) is Tangent or is_captured(value)

    def parts(self, value: Any) -> Iterable[tuple[str, Any]]:
        """The names and values of the fields that are set."""
        if type(value) is Tangent:
            present = set(value)
            return [(name, value[name]) for name in field_names(value._cls) if name in present]
        refuse_own_fields(value)
        found = []
        for name, field in fields_of(type(value)).items():
            try:
                found.append((name, field.__get__(value)))
            except AttributeError:
                continue  # not set
        return found

    def _refuse(self, value: Any, parent: Object | Group | None, key: Any) -> None:
        """Raise if there are arrays in `value`, which is of a kind that is not followed."""
        where = Leaf(parent, key, value, 0, 0).path
        refuse_unfollowed(value, where, is_captured)
        # A recording follows an object wherever it is met; a walk must find the way.
        items = list(value) if isinstance(value, set | frozenset) else unfollowed_items(value) or []
        inner = [part for item in items for part in children(item) or ()]
        for item in [*items, *inner]:
            if is_captured(item):
                kind = type(value).__name__
                raise NotCapturedError(
                    f"{where} is {with_article(kind)} that holds {type_name(item)}, and walks do not enter "
                    f"{with_article(kind)}, so that its numbers would be left out. Use a list, tuple, dict or deque."
                )


def fields_of(cls: type) -> dict[str, CapturedField]:
    """The attrs fields; values that cached properties keep are captured too, but they are no part of a tangent."""
    known = _fields_of.get(cls)
    if known is None:
        schema = schema_of(cls)
        captured = {} if schema is None else schema.fields
        known = _fields_of[cls] = {name: captured[name] for name in field_names(cls) if name in captured}
    return known


_fields_of: Final[dict[type, dict[str, CapturedField]]] = {}
