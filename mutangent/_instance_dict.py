"""What `obj.__dict__` is for a captured object whose fields are stored in it.

While nothing is recorded it is the true dict. In a recording it is a mapping that reads and writes the fields as
attribute access does, through the recording, so that `vars(obj)["x"]`, `obj.__dict__.update(...)` and
`functools.cached_property` neither lose a gradient nor write past the roll-back.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator, MutableMapping
from typing import Any

from ._arrays import type_name
from ._elsewhere import note_outside, open_recordings
from ._errors import NotCapturedError
from ._fields import CapturedField, current, schema_of, with_fields_in_dict


class InstanceDict:
    """The descriptor of `__dict__`. `getset` is Python's own, which it stands in front of."""

    __slots__ = ("getset",)

    def __init__(self, getset: Any) -> None:
        self.getset = getset

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        if obj is None:
            return self
        stored = self.getset.__get__(obj)
        if current() is not None:
            return RecordedDict(obj, stored)
        if open_recordings:
            schema = schema_of(type(obj))
            for name in () if schema is None else schema.fields:
                note_outside(obj, name)
        return stored

    def __set__(self, obj: Any, value: Any) -> None:
        self._refuse(obj, "replaced")
        self.getset.__set__(obj, value)

    def __delete__(self, obj: Any) -> None:
        self._refuse(obj, "deleted")
        self.getset.__delete__(obj)

    def _refuse(self, obj: Any, what: str) -> None:
        if current() is not None:
            raise NotCapturedError(
                f"the __dict__ of {type_name(obj)} was {what} in a recording, which reads and writes the fields in "
                "it. Change its items: `obj.__dict__.update(state)`, or assign the fields."
            )


def put_in_front(cls: type) -> None:
    """Let `obj.__dict__` of the instances of `cls` go by the open recording."""
    found = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))
    if isinstance(found, InstanceDict):
        return
    # `setattr(cls, "__dict__", ...)` would set an attribute of the metaclass; the class's own namespace is what its
    # `vars` shows a read-only proxy of.
    (namespace,) = gc.get_referents(vars(cls))
    namespace["__dict__"] = InstanceDict(found)
    cls.__mutangent_captured__ = True  # type: ignore[attr-defined]  # an assignment, so that Python's caches are renewed


# A class that inherits both a captured class and a plain one may find the plain one's `__dict__` first.
with_fields_in_dict.append(put_in_front)


class RecordedDict(MutableMapping[str, Any]):
    """The items of an object's `__dict__`, with the values that its fields have inside the recording."""

    __slots__ = ("_fields", "_obj", "_stored")

    def __init__(self, obj: Any, stored: dict[str, Any]) -> None:
        schema = schema_of(type(obj))
        assert schema is not None
        self._obj = obj
        self._stored = stored
        self._fields = {name: field for name, field in schema.fields.items() if field.in_dict}

    def __getitem__(self, name: str) -> Any:
        field = self._fields.get(name)
        if field is None:
            return self._stored[name]
        try:
            return CapturedField.__get__(
                field, self._obj
            )  # that of a cached property would compute the value
        except AttributeError:
            raise KeyError(name) from None

    def __setitem__(self, name: str, value: Any) -> None:
        field = self._fields.get(name)
        if field is not None:
            field.__set__(self._obj, value)
            return
        self._meet()
        self._stored[name] = value

    def _meet(self) -> None:
        """Let the recording look: in the end it refuses a traced value that is no field, and a raise undoes changes."""
        overlay = current()
        if overlay is not None:
            overlay.meet(self._obj)

    def __delitem__(self, name: str) -> None:
        field = self._fields.get(name)
        if field is None:
            self._meet()
            del self._stored[name]
            return
        try:
            field.__delete__(self._obj)
        except AttributeError:
            raise KeyError(name) from None

    def __iter__(self) -> Iterator[str]:
        names = dict.fromkeys([*self._stored, *self._fields])
        return iter([name for name in names if name not in self._fields or name in self])

    def __contains__(self, name: object) -> bool:
        field = self._fields.get(name)  # type: ignore[call-overload]
        if field is None:
            return name in self._stored
        overlay = current()
        if overlay is None:  # it was kept after the recording
            return name in self._stored
        try:
            overlay.peek(self._obj, field)
        except AttributeError:
            return False
        return True

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self))

    def __or__(self, other: Any) -> Any:
        return dict(self) | other

    def __ror__(self, other: Any) -> Any:
        return other | dict(self)

    def __ior__(self, other: Any) -> Any:
        self.update(other)
        return self

    def copy(self) -> dict[str, Any]:
        """A dict of the items as they are now."""
        return dict(self)

    def __repr__(self) -> str:
        return repr(dict(self))
