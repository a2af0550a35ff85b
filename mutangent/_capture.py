"""Capture: how reads and writes of attrs fields reach a recording. This is the only file that knows attrs.

Theory of operation. `capture_class` puts a data descriptor, `CapturedField`, over the storage of every attrs field. A
data descriptor sees every access that Python's data model makes: `obj.x`, `getattr`, `object.__setattr__`, generated
`__init__`s, `attrs.evolve`, `copy`, `del`. With no recording open it passes on to the storage. With one open it goes to
the recording's overlay, a map from the identity of an object to the values its fields have *inside* the recording. The
storage is not touched until the recording commits. So a raise leaves every object as it was, other threads see the
values from before, and the value on entry and what is written later can never be confused.

Overlays nest: what is below an overlay is the overlay that was current when it was opened, or the storage.
"""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from threading import get_ident
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from ._arrays import describe, is_array, is_differentiable, spec_of
from ._errors import NotCapturedError, TracedValueError
from ._structure import Containers, Description, Lifter, Lowerer, frozen, refuse_uncaptured
from ._tangent import children, field_names
from ._traced import TracedArray, primal

C = TypeVar("C", bound=type)

TRAINABLE: Final = "mutangent.trainable"
_overlay: Final[ContextVar[Any]] = ContextVar("mutangent overlay", default=None)
_get: Final = _overlay.get


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
        _overlay.set(overlay)


MISSING: Final = object()  # no value here yet; look below
UNSET: Final = object()  # on entry the field had no value at all


class CapturedField:
    """The descriptor of one field. `raw_get`, `raw_set` and `raw_delete` reach the storage itself."""

    __slots__ = ("name", "raw_delete", "raw_get", "raw_set")

    def __init__(
        self,
        name: str,
        raw_get: Callable[[Any], Any],
        raw_set: Callable[[Any, Any], None],
        raw_delete: Callable[[Any], None],
    ) -> None:
        self.name = name
        self.raw_get = raw_get
        self.raw_set = raw_set
        self.raw_delete = raw_delete

    def __repr__(self) -> str:
        return f"<captured field {self.name}>"

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        if obj is None:
            return self
        overlay = _get()
        if overlay is None or overlay.thread != get_ident():
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
            self.raw_set(obj, primal(value) if type(value) is TracedArray else value)
        else:
            overlay.write(obj, self, value)

    def __delete__(self, obj: Any) -> None:
        overlay = _get()
        if overlay is None or overlay.thread != get_ident():
            self.raw_delete(obj)
        else:
            overlay.delete(obj, self)


def _slot_field(name: str, member: Any) -> CapturedField:
    return CapturedField(name, member.__get__, member.__set__, member.__delete__)


def _dict_field(name: str) -> CapturedField:
    def missing(obj: Any) -> AttributeError:
        return AttributeError(f"{type(obj).__name__!r} object has no attribute {name!r}", name=name, obj=obj)

    def raw_get(obj: Any) -> Any:
        try:
            return obj.__dict__[name]
        except KeyError:
            raise missing(obj) from None

    def raw_set(obj: Any, value: Any) -> None:
        obj.__dict__[name] = value

    def raw_delete(obj: Any) -> None:
        try:
            del obj.__dict__[name]
        except KeyError:
            raise missing(obj) from None

    return CapturedField(name, raw_get, raw_set, raw_delete)


# -- classes -----------------------------------------------------------------------------------------------------------


class Schema:
    """What is known about a class: its captured fields, and the attrs fields that a subclass added without capture."""

    __slots__ = ("cls", "fields", "has_dict", "slots", "uncaptured")

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
        self.has_dict = cls.__dictoffset__ != 0
        # Slots of bases that are no attrs classes; nothing follows them.
        self.slots = tuple(
            name
            for base in cls.__mro__
            for name, value in vars(base).items()
            if type(value).__name__ == "member_descriptor" and name not in found
        )
        self.uncaptured = tuple(name for name in field_names(cls) if name not in self.fields)


_schemas: Final[dict[type, Schema | None]] = {}


def schema_of(cls: type) -> Schema | None:
    """The schema of a captured class or of a subclass of one; None for any other class."""
    try:
        return _schemas[cls]
    except KeyError:
        captured = any(base.__dict__.get("__mutangent_captured__", False) for base in cls.__mro__)
        made = _schemas[cls] = Schema(cls) if captured else None
        return made


def is_captured(obj: Any) -> bool:
    """Whether capture follows the fields of `obj`."""
    return schema_of(type(obj)) is not None


def capture_class(cls: C, **define_kwargs: Any) -> C:
    """Make `cls` an attrs class, unless it is one, and capture its fields."""
    if "__attrs_attrs__" not in vars(cls):
        _capture_cached_properties(cls, define_kwargs)
        cls = attrs.define(cls, **define_kwargs)
    elif define_kwargs:
        raise TypeError(
            f"{cls.__name__} is an attrs class already, so {', '.join(define_kwargs)} cannot be set here. Give these "
            "arguments to the decorator that made it one, or leave that decorator out."
        )
    _follow_converters(cls)
    names = [attribute.name for attribute in cls.__attrs_attrs__]  # type: ignore[attr-defined]
    slots = {
        name: value
        for base in reversed(cls.__mro__)
        for name, value in vars(base).items()
        if type(value).__name__ == "member_descriptor" or isinstance(value, CapturedField)
    }
    # Slots of attrs' cached properties hold computed values, so they are fields as well.
    cached = [name for name, value in vars(cls).items() if type(value).__name__ == "member_descriptor"]
    in_dict = False
    for name in dict.fromkeys([*names, *cached]):
        below = slots.get(name)
        if isinstance(below, CapturedField):
            continue
        if below is None:
            in_dict = True
        setattr(cls, name, _dict_field(name) if below is None else _slot_field(name, below))
    if in_dict:
        _capture_dict_class(cls)
    if vars(cls).get("__hash__") is not None:
        setattr(cls, "__hash__", _hash_of_plain_values(vars(cls)["__hash__"]))  # noqa: B010 - a method of any class
    cls.__mutangent_captured__ = True  # type: ignore[attr-defined]
    return cls


def _capture_cached_properties(cls: type, define_kwargs: dict[str, Any]) -> None:
    """In a class with `__dict__`, let cached properties store their value through capture, not past it."""
    if define_kwargs.get("slots", True):
        return  # attrs turns them into slots, which are captured with the fields
    for name, value in list(vars(cls).items()):
        if isinstance(value, functools.cached_property):
            setattr(cls, name, _CachedProperty(name, value.func))


class _CachedProperty(CapturedField):
    """A cached property whose stored value is captured like a field's."""

    __slots__ = ("func",)

    def __init__(self, name: str, func: Callable[[Any], Any]) -> None:
        store = _dict_field(name)
        super().__init__(name, store.raw_get, store.raw_set, store.raw_delete)
        self.func = func

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        try:
            return super().__get__(obj, cls)
        except AttributeError:
            value = self.func(obj)
            self.__set__(obj, value)
            return value


def _capture_dict_class(cls: Any) -> None:
    """Close the ways around descriptors that classes with a `__dict__` have.

    attrs' generated `__init__` of a frozen class writes into `__dict__`, and copying and pickling read it.
    """
    for name in ("__init__", "__attrs_init__"):
        if name in vars(cls):
            setattr(cls, name, _adopting(vars(cls)[name]))
    if cls.__reduce_ex__ is object.__reduce_ex__ and not hasattr(cls, "__setstate__"):
        if cls.__getstate__ is getattr(object, "__getstate__", None):
            cls.__getstate__ = _getstate
        cls.__setstate__ = _setstate


def _adopting(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def adopting_init(self: Any, *args: Any, **kwargs: Any) -> None:
        try:
            init(self, *args, **kwargs)
        finally:
            overlay = current()
            if overlay is not None:
                overlay.adopt(self)

    return adopting_init


def _hash_of_plain_values(original: Callable[[Any], int]) -> Callable[[Any], int]:
    """Let a hash of fields see plain values inside a recording; traced ones are unhashable."""

    @functools.wraps(original)
    def hash_of_plain_values(self: Any) -> int:
        overlay = current()
        if overlay is None:
            return original(self)
        token = _overlay.set(PlainView(overlay))
        try:
            return original(self)
        finally:
            _overlay.reset(token)

    return hash_of_plain_values


def _getstate(self: Any) -> dict[str, Any]:
    fields = schema_of(type(self)).fields  # type: ignore[union-attr]
    state = {name: value for name, value in vars(self).items() if name not in fields}
    for name in fields:
        try:
            state[name] = fields[name].__get__(self)
        except AttributeError:
            continue
    return state


def _setstate(self: Any, state: dict[str, Any]) -> None:
    for name, value in state.items():
        object.__setattr__(self, name, value)


def field(*, trainable: bool = True, metadata: dict[Any, Any] | None = None, **field_kwargs: Any) -> Any:
    """`attrs.field` with a word on training.

    Parameters
    ----------
    trainable : bool
        Whether optimisers update the field. A field that is not trainable, such as the state of a recurrent layer,
        has a tangent all the same.
    metadata : dict, optional
        As in `attrs.field`.
    **field_kwargs
        All other arguments of `attrs.field`.

    Returns
    -------
    attrs field

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Filter:
    ...     gain: float
    ...     state: float = mt.field(default=0.0, trainable=False)
    >>> Filter(gain=0.5)
    Filter(gain=0.5, state=0.0)
    """
    return attrs.field(metadata={**(metadata or {}), TRAINABLE: trainable}, **field_kwargs)


def is_trainable(cls: type, name: str) -> bool:
    """Whether optimisers update the field `name` of `cls`."""
    for attribute in getattr(cls, "__attrs_attrs__", ()):
        if attribute.name == name:
            return bool(attribute.metadata.get(TRAINABLE, True))
    return False


# -- converters and validators -----------------------------------------------------------------------------------------


def _follow_converters(cls: type) -> None:
    """Wrap the user's converters and validators so that they accept traced values.

    attrs keeps them in two places: on the `Attribute`, for `on_setattr`, and among the globals of the generated
    `__init__`. Both are patched, so that a class that was made by attrs itself behaves the same.
    """
    for attribute in cls.__attrs_attrs__:  # type: ignore[attr-defined]
        where = f"{cls.__name__}.{attribute.name}"
        patches: dict[str, Callable[[Any], Any]] = {}
        if attribute.converter is not None:
            patches["converter"] = functools.partial(_wrap_converter, where=where)
        if attribute.validator is not None:
            patches["validator"] = _wrap_validator
        for role, wrap in patches.items():
            object.__setattr__(attribute, role, wrap(getattr(attribute, role)))
            for name in ("__init__", "__attrs_init__"):
                init = vars(cls).get(name)
                names = getattr(init, "__globals__", {})
                key = f"__attr_{role}_{attribute.name}"
                if key in names:
                    names[key] = wrap(names[key])


def _wrap_converter(converter: Any, where: str) -> Any:
    if isinstance(converter, attrs.Converter):
        stored: Any = converter  # attrs types the constructor's arguments, not the attributes that keep them
        inner = _wrap_converter(stored.converter, where)
        return attrs.Converter(inner, takes_self=stored.takes_self, takes_field=stored.takes_field)
    if getattr(converter, "__mutangent_wrapped__", False):
        return converter

    @functools.wraps(converter, updated=())
    def convert(value: Any, *extra: Any) -> Any:
        if type(value) is not TracedArray:
            return converter(value, *extra)
        try:
            return converter(value, *extra)
        except TracedValueError:
            return _follow_conversion(value, converter(primal(value), *extra), converter, where)

    convert.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return convert


def _wrap_validator(validator: Any) -> Any:
    if getattr(validator, "__mutangent_wrapped__", False):
        return validator

    @functools.wraps(validator, updated=())
    def validate(instance: Any, attribute: Any, value: Any) -> None:
        validator(instance, attribute, primal(value))

    validate.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return validate


def _follow_conversion(traced: TracedArray, plain: Any, converter: Any, where: str) -> Any:
    """A traced value for what a converter made of the plain one, if it only changed type, dtype or shape."""
    before = primal(traced)
    if (
        is_differentiable(plain)
        and np.size(plain) == np.size(before)
        and np.array_equal(
            np.ravel(np.asarray(before).astype(spec_of(plain).dtype))
            if not is_array(before)
            else np.ravel(before.astype(spec_of(plain).dtype)),
            np.ravel(plain),
            equal_nan=True,
        )
    ):
        follow: Any = traced
        if type(plain) is float or type(plain) is complex:
            return follow.item()
        if follow.shape != plain.shape or (is_array(plain) and not is_array(before)):
            follow = np.reshape(follow, plain.shape)
        return follow if follow.dtype == plain.dtype else follow.astype(plain.dtype)
    name = getattr(converter, "__name__", repr(converter))
    raise NotCapturedError(
        f"the converter {name} of {where} turned {describe(before)} into {describe(plain)} by a conversion that loses "
        "the gradient. Write the converter with NumPy functions and operators, without float() or np.asarray()."
    )


# -- overlays ----------------------------------------------------------------------------------------------------------


class Record:
    """What an overlay knows of one object. It holds the object, so that its id cannot be reused."""

    __slots__ = ("born", "deleted", "entries", "obj", "schema", "values", "written")

    def __init__(self, obj: Any, schema: Schema) -> None:
        self.obj = obj
        self.schema = schema
        self.values: dict[str, Any] = {}  # what a read gives now
        self.entries: dict[str, Description] = {}  # on entry: a description, Unread, or UNSET
        self.written: dict[str, None] = {}  # in order of the first write
        self.deleted: set[str] = set()
        self.born = False  # made inside the recording


class Unread:
    """The entry value of a field that was not read, and the containers in it as they were."""

    __slots__ = ("shown", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.shown = frozen(value)


class Overlay:
    """The values that fields have inside a recording.

    Subclasses say what a first read yields, by `lifter`.
    """

    lifter: Lifter

    def __init__(self, outer: Overlay | None) -> None:
        self.outer = outer
        self.thread = get_ident()
        self.records: dict[int, Record] = {}
        self.log: dict[int, Record] = self.records  # the same records, kept after closing
        self.containers = Containers()
        self.closed = False

    # -- access ---------------------------------------------------------------------------------------------------

    def peek(self, obj: Any, field: CapturedField) -> Any:
        """The value of a field as it is here, without marking it as read."""
        record = self.log.get(id(obj))
        if record is not None:
            value = record.values.get(field.name, MISSING)
            if value is not MISSING:
                return value
            if field.name in record.deleted:
                raise AttributeError(field.name)
        return field.raw_get(obj) if self.outer is None else self.outer.peek(obj, field)

    def read(self, obj: Any, field: CapturedField) -> Any:
        """The value of a field inside the recording."""
        record = self.records.get(id(obj))
        if record is not None:
            value = record.values.get(field.name, MISSING)
            if value is not MISSING:
                return value
        return self.first_read(obj, field)

    def _below(self, obj: Any, field: CapturedField) -> Any:
        return field.raw_get(obj) if self.outer is None else self.outer.read(obj, field)

    def _touch(self, obj: Any) -> Record:
        record = self.records.get(id(obj))
        if record is None:
            schema = schema_of(type(obj))
            assert schema is not None
            for name in schema.uncaptured:
                held = getattr(obj, name, None)
                if is_differentiable(primal(held)):
                    raise NotCapturedError(
                        f"{type(obj).__name__}.{name} holds {describe(held)}, but class {type(obj).__name__} only "
                        "inherits capture, so its own fields would be constant. "
                        f"Put @mutangent.differentiable on class {type(obj).__name__}."
                    )
            record = self.records[id(obj)] = Record(obj, schema)
        return record

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        """Read a field that has no value here yet: lift the value from below."""
        if self.closed:  # a task that was started inside outlives the recording
            return self._below(obj, field)
        name = field.name
        record = self.records.get(id(obj))
        if record is not None and name in record.deleted:
            raise AttributeError(
                f"{type(obj).__name__!r} object has no attribute {name!r}", name=name, obj=obj
            )
        value = self._below(obj, field)
        if record is None:
            record = self._touch(obj)
        if type(value) is TracedArray and self._is_mine(value):
            # A generated `__init__` wrote it past capture; see `adopt`.
            record.entries[name] = UNSET
            record.values[name] = value
            return value
        lifted, record.entries[name] = self.lifter.lift(value, f"{type(obj).__name__}.{name}")
        record.values[name] = lifted
        return lifted

    def _is_mine(self, traced: TracedArray) -> bool:  # noqa: ARG002 - a recording looks at it
        return False

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        """Write a field inside the recording."""
        if self.closed:
            if self.outer is None:
                field.raw_set(obj, value)
            else:
                self.outer.write(obj, field, value)
            return
        record = self.records.get(id(obj))
        if record is None:
            record = self._touch(obj)
        name = field.name
        if name not in record.written:
            self._first_write(record, field)
        record.values[name] = value
        if record.deleted:
            record.deleted.discard(name)

    def _first_write(self, record: Record, field: CapturedField) -> None:
        name = field.name
        record.written[name] = None
        if name in record.entries:
            return
        if record.born:
            record.entries[name] = UNSET
            return
        try:
            record.entries[name] = Unread(self.peek(record.obj, field))
        except AttributeError:
            record.entries[name] = UNSET
            record.born = not record.values and all(
                other is field or not self._is_set(record.obj, other)
                for other in record.schema.fields.values()
            )

    def _is_set(self, obj: Any, field: CapturedField) -> bool:
        try:
            self.peek(obj, field)
        except AttributeError:
            return False
        return True

    def delete(self, obj: Any, field: CapturedField) -> None:
        """Delete a field inside the recording."""
        self.read(obj, field)  # raises if there is nothing to delete
        record = self._touch(obj)
        if field.name not in record.written:
            self._first_write(record, field)
        record.values.pop(field.name, None)
        record.deleted.add(field.name)

    def adopt(self, obj: Any) -> None:
        """Take over what an `__init__` wrote into the `__dict__` of a new object past capture."""
        if self.closed:
            return
        schema = schema_of(type(obj))
        assert schema is not None
        stored = vars(obj)
        for name in schema.fields:
            if name in stored:
                value = stored.pop(name)
                record = self._touch(obj)
                record.born = True
                record.entries[name] = UNSET
                record.written[name] = None
                record.values[name] = value

    # -- the end ----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Stop answering; the records stay in `log`."""
        self.closed = True
        self.records = {}

    def commit(self) -> None:
        """Give the objects, one level below, the values they have here. Call after `close`.

        Everything that can fail comes first: if this raises, nothing was changed.
        """
        lowerer = self._lowerer()
        copies = list(self.containers.by_original.values())
        lowerer.check(copies)
        for record in self.log.values():
            _refuse_strays(record)
            for name in record.written:
                value = record.values.get(name)
                if type(value) is not TracedArray and not is_array(value):
                    for item in children(value) or [value]:
                        refuse_uncaptured(
                            item, f"{type(record.obj).__name__}.{name}", is_captured, only_traced=True
                        )
        lowerer.commit(copies)
        self._store(list(self.log.values()), lowerer)

    def remember_unread(self) -> None:
        """Note what the unread fields of touched objects hold, before anybody can change it ahead of a sweep."""
        for record in self.log.values():
            self.remember_unread_fields(record)

    def remember_unread_fields(self, record: Record) -> None:
        """Note what the unread fields of one object hold."""
        for name, field in record.schema.fields.items():
            if name not in record.entries:
                try:
                    record.entries[name] = Unread(self.peek(record.obj, field))
                except AttributeError:
                    record.entries[name] = UNSET

    def rollback(self) -> None:
        """Leave the objects as they were. Objects made inside have no before: they get their values."""
        for record in self.log.values():
            with suppress(NotCapturedError):
                _refuse_strays(record)
        self._store([record for record in self.log.values() if record.born], self._lowerer())

    def _lowerer(self) -> Lowerer:
        return Lowerer(self.containers)

    def _store(self, records: list[Record], lowerer: Lowerer) -> None:
        outer = self.outer
        final = [
            (record, name, record.values.get(name, MISSING)) for record in records for name in record.written
        ]
        for record, name, value in final:
            if isinstance(value, list | dict | deque | tuple):
                # Lowering happens in place; cotangents of what the call left behind need the traced items.
                record.values[name] = frozen(value)
        for record, name, value in final:
            obj, field = record.obj, record.schema.fields[name]
            if value is not MISSING:
                lowered = lowerer.lower(value)
                if outer is None:
                    field.raw_set(obj, lowered)
                else:
                    outer.write(obj, field, lowered)
            elif record.entries[name] is not UNSET:
                if outer is None:
                    field.raw_delete(obj)
                else:
                    outer.delete(obj, field)

    def written(self) -> Iterator[tuple[Record, str]]:
        """The fields that were written and still have a value."""
        for record in self.log.values():
            for name in record.written:
                if name in record.values:
                    yield record, name


class PlainView(Overlay):
    """What a recording sees, without its tracing. For looking only: nothing is committed."""

    def __init__(self, outer: Overlay) -> None:
        super().__init__(outer)
        self.lifter = Lifter(lambda value: (primal(value), None), is_captured, self.containers)


def _refuse_strays(record: Record) -> None:
    """Raise if traced values sit in attributes that capture does not follow."""
    schema = record.schema
    if not schema.has_dict and not schema.uncaptured and not schema.slots:
        return
    obj = record.obj
    stored = dict(vars(obj)) if schema.has_dict else {}
    for name in (*schema.slots, *schema.uncaptured):
        stored[name] = getattr(obj, name, None)
    strays = [
        name for name, value in stored.items() if type(value) is TracedArray and name not in schema.fields
    ]
    for name in strays:
        object.__setattr__(obj, name, primal(stored[name]))
    if strays:
        cls = type(obj).__name__
        raise NotCapturedError(
            f"{cls}.{strays[0]} was given a value that depends on the recording's inputs, but {strays[0]!r} is no "
            f"captured field of {cls}, so later reads of it would have no gradient. Declare it in the class, "
            f"`{strays[0]}: np.ndarray = mutangent.field(...)`, and put @mutangent.differentiable on class {cls}."
        )
