"""A new object graph of the same layout with other numbers in it.

Objects, lists, dicts and deques are new, each once, so sharing and cycles carry over. What has no tangent space goes over
as it is, with one exception: what a method may change in place, a set or a small integer array, is copied. `__init__`,
converters and validators do not run: they have run for the original.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Final

from ._arrays import is_array
from ._fields import schema_of
from ._layout import Group, Layout, Leaf, Object, Place, fields_of
from ._structure import COPIED_BYTES, refill
from ._tangent import Tangent, rebuild

_HASH: Final = "_attrs_cached_hash"  # where attrs keeps the hash of a class with `cache_hash`


def copied(layout: Layout, values: Mapping[int, Any]) -> Any:
    """The first root of a layout made anew, with these values, by number, in place of its leaves."""
    copies = _Copies(layout, values)
    return copies.of(layout.nodes[0], layout.roots[0])


class _Copies:
    def __init__(self, layout: Layout, values: Mapping[int, Any]) -> None:
        self.values = values
        self.layout = layout
        self._made: dict[int, Any] = {}  # by the identity of the node
        self._carried: dict[
            int, Any
        ] = {}  # by the identity of what has no tangent space; the layout holds it
        mutable = []
        for group in layout.groups:
            if not isinstance(group.primal, tuple):
                self._made[id(group)] = copy.copy(group.primal)
                mutable.append(group)
        for node in layout.objects:
            self._made[id(node)] = (
                Tangent._shell(node.cls, node.primal._like)
                if type(node.primal) is Tangent
                else _new(node.cls)
            )
        # A tuple can only be made when its items are. Those within it were met later.
        for group in reversed(layout.groups):
            if isinstance(group.primal, tuple):
                self._made[id(group)] = rebuild(group.primal, self._items(group))
        for group in mutable:
            items = self._items(group)
            is_dict = isinstance(group.primal, dict)
            refill(self._made[id(group)], dict(zip(group.primal, items, strict=True)) if is_dict else items)
        for node in layout.objects:
            if type(node.primal) is Tangent:
                self._fill_tangent(node)
            else:
                self._fill_object(node)

    def of(self, node: Place, original: Any) -> Any:
        """The copy of what is in a place."""
        if type(node) is Leaf:
            return self.values[node.number]
        return self._carry(original) if node is None else self._made[id(node)]

    def _items(self, group: Group) -> list[Any]:
        primal = group.primal
        originals = primal.values() if isinstance(primal, dict) else primal
        below = self.layout.below(group).values()
        return [self.of(item, original) for item, original in zip(below, originals, strict=True)]

    def _fill_tangent(self, node: Object) -> None:
        fields = self._made[id(node)]._fields
        below = self.layout.below(node)
        for name in dict.fromkeys([*node.primal, *below]):
            fields[name] = self.of(below.get(name), node.primal[name])

    def _fill_object(self, node: Object) -> None:
        made, primal = self._made[id(node)], node.primal
        schema = schema_of(node.cls)
        assert schema is not None
        fields = fields_of(node.cls)
        for name, part in self.layout.below(node).items():
            field = fields[name]
            field.__set__(made, self.of(part, None if part is not None else field.__get__(primal)))
        # What capture does not follow: extra attributes, and slots of bases that are no attrs classes.
        stored = {} if schema.dict_of is None else schema.dict_of(primal)
        extra = {name: held for name, held in stored.items() if name not in schema.fields}
        for name in (*schema.slots, *schema.uncaptured):
            if hasattr(primal, name):
                extra[name] = getattr(primal, name)
        for name, held in extra.items():
            object.__setattr__(made, name, self._carry(held))
        if _HASH in schema.fields or _HASH in extra:
            object.__setattr__(made, _HASH, None)  # it is of the old numbers

    def _carry(self, value: Any) -> Any:
        if not isinstance(value, set | bytearray) and not (is_array(value) and value.nbytes <= COPIED_BYTES):
            return value
        if id(value) not in self._carried:
            self._carried[id(value)] = copy.copy(value)
        return self._carried[id(value)]


def _new(cls: Any) -> Any:
    """An instance without values."""
    try:
        return object.__new__(cls)
    except TypeError:  # a class that is an exception, too
        return cls.__new__(cls)
