"""Capture: how a class gets its fields followed. This is the only file that knows attrs.

`capture_class` puts a data descriptor, `CapturedField`, over the storage of every attrs field, and closes the ways around
descriptors that attrs' generated code and classes with a `__dict__` have. Nothing else of a class is changed.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from ._arrays import describe, is_array, is_differentiable, spec_of
from ._errors import NotCapturedError, TracedValueError
from ._fields import CapturedField, current, dict_field, overlay_var, schema_of, slot_field
from ._overlay import PlainView
from ._traced import TracedArray, primal

C = TypeVar("C", bound=type)

TRAINABLE: Final = "mutangent.trainable"


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
        setattr(cls, name, dict_field(name) if below is None else slot_field(name, below))
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
        store = dict_field(name)
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
        token = overlay_var.set(PlainView(overlay))
        try:
            return original(self)
        finally:
            overlay_var.reset(token)

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
