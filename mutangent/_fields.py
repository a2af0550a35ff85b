"""The descriptor of a captured field, and what is known about captured classes. attrs is not mentioned here.

A data descriptor sees every access that Python's data model makes: `obj.x`, `getattr`, `object.__setattr__`, generated
`__init__`s, `attrs.evolve`, `copy`, `del`. With no recording open it passes on to the storage. With one open it goes to the
recording's overlay; see `_overlay`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Final

from ._elsewhere import note_outside, open_recordings
from ._tangent import field_names
from ._traced import TracedArray, release

overlay_var: Final[ContextVar[Any]] = ContextVar("mutangent overlay", default=None)
_get: Final = overlay_var.get


def current() -> Any:
    """The overlay that is open in this thread, or None."""
    overlay = _get()
    # A thread that was given a copy of the context, by `asyncio.to_thread` for example, sees plain values.
    return overlay if overlay is None or overlay.thread == get_ident() else None


def leave_closed() -> None:
    """Step out of recordings that were closed out of order and are still current."""
    overlay = current()
    if overlay is not None and overlay.closed:
        while overlay is not None and overlay.closed:
            overlay = overlay.outer
        overlay_var.set(overlay)


def enter(overlay: Any) -> Any:
    """Open an overlay in this context; `leave` takes what this returns."""
    before = _get()
    overlay_var.set(overlay)
    return before


def leave(before: Any) -> None:
    """Go back to what was open before.

    Not by `overlay_var.reset(token)`: when the garbage collector runs in the middle of that, and a `__del__` reads a field,
    Python keeps the overlay that is just going away as the variable's present value, without a reference to it.
    """
    overlay_var.set(before)


MISSING: Final = object()  # no value here yet; look below


class CapturedField:
    """The descriptor of one field. `raw_get`, `raw_set` and `raw_delete` reach the storage itself."""

    __slots__ = ("in_dict", "name", "raw_delete", "raw_get", "raw_set")

    def __init__(
        self,
        name: str,
        raw_get: Callable[[Any], Any],
        raw_set: Callable[[Any, Any], None],
        raw_delete: Callable[[Any], None],
        in_dict: bool = False,
    ) -> None:
        self.name = name
        self.in_dict = in_dict  # stored in the object's `__dict__`, not in a slot
        self.raw_get = raw_get
        self.raw_set = raw_set
        self.raw_delete = raw_delete

    def __repr__(self) -> str:
        return f"<captured field {self.name}>"

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        overlay = _get()
        if overlay is None:
            if obj is None:
                return self
            if open_recordings:
                note_outside(obj, self.name)
            return self.raw_get(obj)
        if obj is None:
            return self
        if overlay.thread != get_ident():
            overlay.note_elsewhere(obj, self.name)
            return self.raw_get(obj)
        record = overlay.records.get(id(obj))
        if record is not None:
            value = record.values.get(self.name, MISSING)
            if value is not MISSING:
                return value
        return overlay.first_read(obj, self)

    def __set__(self, obj: Any, value: Any) -> None:
        overlay = _get()
        if overlay is None or overlay.thread != get_ident():
            # A traced value of a closed recording is its plain value.
            if type(value) is TracedArray:
                what = f"{type(obj).__name__}.{self.name} = x in a thread or context in which the recording is not open"
                value = release(value, what, "Write the field where the recording was opened")
            if overlay is not None:
                overlay.note_elsewhere(obj, self.name, written=True)
            elif open_recordings:
                note_outside(obj, self.name, written=True)
            self.raw_set(obj, value)
        else:
            overlay.write(obj, self, value)

    def __delete__(self, obj: Any) -> None:
        overlay = _get()
        if overlay is None or overlay.thread != get_ident():
            self.raw_delete(obj)
        else:
            overlay.delete(obj, self)


def slot_field(name: str, member: Any) -> CapturedField:
    return CapturedField(name, member.__get__, member.__set__, member.__delete__)


def dict_field(name: str, dict_of: Callable[[Any], dict[str, Any]]) -> CapturedField:
    """A field stored in the dict that `dict_of` gives, the true `__dict__` of an object."""

    def missing(obj: Any) -> AttributeError:
        return AttributeError(f"{type(obj).__name__!r} object has no attribute {name!r}", name=name, obj=obj)

    def raw_get(obj: Any) -> Any:
        try:
            return dict_of(obj)[name]
        except KeyError:
            raise missing(obj) from None

    def raw_set(obj: Any, value: Any) -> None:
        dict_of(obj)[name] = value

    def raw_delete(obj: Any) -> None:
        try:
            del dict_of(obj)[name]
        except KeyError:
            raise missing(obj) from None

    return CapturedField(name, raw_get, raw_set, raw_delete, in_dict=True)


def true_dict(cls: type) -> Callable[[Any], dict[str, Any]] | None:
    """How to get the true `__dict__` of the instances of a class, whatever stands in front of it; None without one."""
    if cls.__dictoffset__ == 0:
        return None
    found = next(vars(base)["__dict__"] for base in cls.__mro__ if "__dict__" in vars(base))
    getset = getattr(found, "getset", found)
    get: Callable[[Any], dict[str, Any]] = getset.__get__
    return get


class Schema:
    """What is known about a class: its captured fields, and the attrs fields that a subclass added without capture."""

    __slots__ = ("cls", "dict_of", "fields", "in_dict", "may_stray", "slots", "uncaptured")

    def __init__(self, cls: type) -> None:
        self.cls = cls
        found = {
            name: value
            for base in reversed(cls.__mro__)
            for name, value in vars(base).items()
            if isinstance(value, CapturedField)
        }
        declared = [name for name in field_names(cls) if name in found]
        self.fields: dict[str, CapturedField] = {
            name: found[name] for name in dict.fromkeys([*declared, *found])
        }
        self.dict_of = true_dict(cls)
        self.in_dict = any(field.in_dict for field in self.fields.values())
        # Slots of bases that are no attrs classes; nothing follows them.
        self.slots = tuple(
            name
            for base in cls.__mro__
            for name, value in vars(base).items()
            if type(value).__name__ == "member_descriptor" and name not in found
        )
        self.uncaptured = tuple(name for name in field_names(cls) if name not in self.fields)
        # Whether there are attributes that capture does not follow.
        self.may_stray = self.dict_of is not None or bool(self.uncaptured or self.slots)


_schemas: Final[dict[type, Schema | None]] = {}
# What is done, once, to a class of which instances keep fields in their `__dict__`; `_instance_dict` says it.
with_fields_in_dict: Final[list[Callable[[type], None]]] = []


def schema_of(cls: type) -> Schema | None:
    """The schema of a captured class or of a subclass of one; None for any other class."""
    try:
        return _schemas[cls]
    except KeyError:
        captured = any(base.__dict__.get("__mutangent_captured__", False) for base in cls.__mro__)
        made = _schemas[cls] = Schema(cls) if captured else None
        if made is not None and made.in_dict:
            for prepare in with_fields_in_dict:
                prepare(cls)
        return made


def is_captured(obj: Any) -> bool:
    """Whether capture follows the fields of `obj`."""
    return schema_of(type(obj)) is not None
