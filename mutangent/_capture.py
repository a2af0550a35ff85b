"""Capture: how a class gets its fields followed. This is the only file that knows attrs.

`capture_class` puts a data descriptor, `CapturedField`, over the storage of every attrs field, and closes the ways around
descriptors that attrs' generated code and classes with a `__dict__` have. Nothing else of a class is changed.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final, TypeVar

import attrs
import numpy as np

from ._conversions import follow_conversion, follow_known, is_known
from ._errors import TracedValueError
from ._fields import CapturedField, current, dict_field, enter, leave, slot_field, true_dict
from ._instance_dict import put_in_front
from ._instance_state import follow_state
from ._overlay import PlainView
from ._traced import TracedArray, given_out, has_open, primal
from ._trials import Refusal, Tries
from ._views import quiet_view, same_array

C = TypeVar("C", bound=type)

TRAINABLE: Final = "mutangent.trainable"


def capture_class(cls: C, **define_kwargs: Any) -> C:
    """Make `cls` an attrs class, unless it is one, and capture its fields."""
    if "__attrs_attrs__" not in vars(cls):
        cls = attrs.define(cls, **define_kwargs)
    elif define_kwargs:
        raise TypeError(
            f"{cls.__name__} is an attrs class already, so {', '.join(define_kwargs)} cannot be set here. Give these "
            "arguments to the decorator that made it one, or leave that decorator out."
        )
    _follow_converters(cls)
    _follow_hooks(cls)
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
        setattr(cls, name, dict_field(name, _dict_of(cls)) if below is None else slot_field(name, below))
    _capture_cached_properties(cls)
    if in_dict:
        put_in_front(cls)
        follow_state(cls)
    if vars(cls).get("__hash__") is not None:
        setattr(cls, "__hash__", _hash_of_plain_values(vars(cls)["__hash__"]))  # noqa: B010 - a method of any class
    cls.__mutangent_captured__ = True  # type: ignore[attr-defined]
    return cls


def _dict_of(cls: type) -> Callable[[Any], dict[str, Any]]:
    dict_of = true_dict(cls)
    assert dict_of is not None
    return dict_of


def _capture_cached_properties(cls: type) -> None:
    """Let cached properties that are stored in `__dict__` be fields as well. attrs has made slots of all others."""
    for name, value in list(vars(cls).items()):
        if isinstance(value, functools.cached_property):
            setattr(cls, name, _CachedProperty(name, value.func, _dict_of(cls)))


class _CachedProperty(CapturedField):
    """A cached property whose stored value is captured like a field's."""

    __slots__ = ("func",)

    def __init__(
        self, name: str, func: Callable[[Any], Any], dict_of: Callable[[Any], dict[str, Any]]
    ) -> None:
        store = dict_field(name, dict_of)
        super().__init__(name, store.raw_get, store.raw_set, store.raw_delete, in_dict=True)
        self.func = func

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        try:
            return super().__get__(obj, cls)
        except AttributeError:
            value = self.func(obj)
            self.__set__(obj, value)
            return value


def _hash_of_plain_values(original: Callable[[Any], int]) -> Callable[[Any], int]:
    """Let a hash of fields see plain values inside a recording; traced ones are unhashable."""

    @functools.wraps(original)
    def hash_of_plain_values(self: Any) -> int:
        overlay = current()
        if overlay is None:
            return original(self)
        before = enter(PlainView(overlay))
        try:
            return original(self)
        finally:
            leave(before)

    return hash_of_plain_values


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


# attrs knows its own hooks by their identity. A pipe of hooks keeps them in a closure.
_HOOKS_OF_ATTRS: Final = (
    attrs.setters.convert,
    attrs.setters.validate,
    attrs.setters.frozen,
    attrs.setters.NO_OP,
)
_PIPE: Final = attrs.setters.pipe().__code__


def _follow_hooks(cls: type) -> None:
    """Wrap the user's `on_setattr` hooks: on the `Attribute`, for subclasses, and those of the generated `__setattr__`."""
    for attribute in cls.__attrs_attrs__:  # type: ignore[attr-defined]
        if attribute.on_setattr is not None:
            object.__setattr__(attribute, "on_setattr", _wrap_hook(attribute.on_setattr, cls))
    if vars(cls).get("__attrs_own_setattr__"):
        hooks = inspect.getclosurevars(vars(cls)["__setattr__"]).nonlocals["sa_attrs"]
        for name, (attribute, hook) in hooks.items():
            hooks[name] = (attribute, _wrap_hook(hook, cls))


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
    what = f"the converter {_name_of(converter)} of {where}"
    known = is_known(converter)
    tries = Tries(converter, what)

    @functools.wraps(converter, updated=())
    def convert(value: Any, *extra: Any) -> Any:
        if type(value) is not TracedArray:
            return converter(value, *extra)
        if known and not extra and has_open((value,)):
            return follow_known(value, converter, what)

        def call(given: Any) -> Any:
            return converter(given, *extra)

        made = tries.of(value, call, others=extra[:1])
        if type(made) is Refusal:
            if not extra and is_known(converter, like=value):
                return follow_known(value, converter, what)
            if made.error is None or isinstance(made.error, TracedValueError):
                return follow_conversion(value, call, what, made.kept)
            # NumPy makes an array of a constant, and CuPy refuses: `cupy.asarray(x)` would pass through the host.
            plain = primal(value)
            return call(plain.copy() if value._tape.all is None else given_out(value, plain))
        return _named_in_pause(value, made)

    convert.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return convert


def _named_in_pause(value: TracedArray, made: Any) -> Any:
    """What a converter made in `pause()`: of an array that gives itself another name, since its memory may change."""
    if type(made) is not np.ndarray or made is not primal(value) or value._tape.all is None:
        return made
    return quiet_view(made, value, same_array)


def _name_of(function: Any) -> str:
    name = getattr(function, "__name__", None)
    return name if isinstance(name, str) else repr(function)


def _wrap_hook(hook: Any, cls: type) -> Any:
    """An `on_setattr` hook of the user's, which may convert as well."""
    if hook in _HOOKS_OF_ATTRS or getattr(hook, "__mutangent_wrapped__", False):
        return hook
    if getattr(hook, "__code__", None) is _PIPE:
        hooks = inspect.getclosurevars(hook).nonlocals["setters"]
        wrapped = [_wrap_hook(each, cls) for each in hooks]
        return (
            hook if all(a is b for a, b in zip(hooks, wrapped, strict=True)) else attrs.setters.pipe(*wrapped)
        )

    tries = Tries(hook, f"the on_setattr hook {_name_of(hook)} of {cls.__name__}")

    @functools.wraps(hook, updated=())
    def set_hook(instance: Any, attribute: Any, value: Any) -> Any:
        if type(value) is not TracedArray:
            return hook(instance, attribute, value)

        def call(given: Any) -> Any:
            return hook(instance, attribute, given)

        made = tries.of(value, call, attribute.name, (instance,))
        if type(made) is Refusal:
            what = f"the on_setattr hook {_name_of(hook)} of {cls.__name__}.{attribute.name}"
            return follow_conversion(value, call, what, made.kept)
        return _named_in_pause(value, made)

    set_hook.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return set_hook


def _wrap_validator(validator: Any) -> Any:
    if getattr(validator, "__mutangent_wrapped__", False):
        return validator

    @functools.wraps(validator, updated=())
    def validate(instance: Any, attribute: Any, value: Any) -> None:
        validator(instance, attribute, primal(value))

    validate.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return validate
