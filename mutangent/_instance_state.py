"""The state of an object that keeps its fields in its `__dict__`, as `copy` and `pickle` ask for it.

Python's own `object.__getstate__` reads the true dict, without asking anybody. So a captured class has a `__getstate__`
that asks the recording. A user's own that calls `super().__getstate__()` is run on a *stand-in*: another instance, whose
true dict holds what the recording sees, and whose fields are those of the object. By hand, `object.__getstate__(obj)` is
refused.
"""

from __future__ import annotations

import copyreg
import functools
import sys
from collections.abc import Callable
from sys import getrefcount
from types import FrameType
from typing import Any, Final

from ._arrays import type_name
from ._errors import NotCapturedError
from ._fields import CapturedField, Schema, current, enter, leave, schema_of, with_fields_in_dict
from ._overlay import Overlay, PassingOn
from ._references import ALONE, COUNTS_REFERENCES


def follow_state(cls: Any) -> None:
    """Let copies and pickles of a class with fields in `__dict__` see what the recording sees."""
    _note_states(cls)
    if cls.__getstate__ is object.__getstate__:
        cls.__getstate__ = _getstate
    elif _asks_for_the_true_state(cls.__getstate__) and not hasattr(
        cls.__getstate__, "__mutangent_wrapped__"
    ):
        cls.__getstate__ = _with_stand_in(cls.__getstate__)
    if not hasattr(cls, "__setstate__"):
        cls.__setstate__ = _setstate


def _getstate(self: Any) -> dict[str, Any]:
    schema = schema_of(type(self))
    assert schema is not None
    assert schema.dict_of is not None
    state = {name: value for name, value in schema.dict_of(self).items() if name not in schema.fields}
    return {**state, **_values(self, schema)}


def _values(obj: Any, schema: Schema) -> dict[str, Any]:
    """The fields of an object that have a value, as the recording sees them."""
    found = {}
    for name, field in schema.fields.items():
        try:
            found[name] = CapturedField.__get__(
                field, obj
            )  # that of a cached property would compute the value
        except AttributeError:
            continue
    return found


def _setstate(self: Any, state: Any) -> None:
    # A pair of dicts has what lies in slots in the second one.
    for part in state if isinstance(state, tuple) else (state,):
        for name, value in (part or {}).items():
            object.__setattr__(self, name, value)


# -- a `__getstate__` of the user's own --------------------------------------------------------------------------------


def _asks_for_the_true_state(getstate: Any) -> bool:
    """Whether a `__getstate__` calls another one. One that does not may keep `self` where it likes, and is run on it."""
    return "__getstate__" in getattr(getattr(getstate, "__code__", None), "co_names", ())


def _with_stand_in(getstate: Callable[[Any], Any]) -> Callable[[Any], Any]:
    @functools.wraps(getstate)
    def followed_getstate(self: Any) -> Any:
        overlay = current()
        schema = schema_of(type(self))
        if overlay is None or overlay.stand_in is self or schema is None or schema.dict_of is None:
            return getstate(self)
        shown = _values(self, schema)
        try:
            stand_in = _stand_in(self, schema, shown)
        except TypeError:  # an instance of a class in C, which has memory of its own
            return getstate(self)
        standing = _StandIn(overlay, self, stand_in)
        del stand_in
        before = enter(standing)
        try:
            state = getstate(standing.stand_in)
        finally:
            leave(before)
            _take_over(self, standing.stand_in, schema, shown)
        if COUNTS_REFERENCES and getrefcount(standing.stand_in) > ALONE:
            raise NotCapturedError(
                f"{type_name(self)}.__getstate__ asks super() for the state and keeps the object itself, or a method of "
                "it, in a recording, which shows it another object there. Write `vars(self).copy()` in place of "
                "`super().__getstate__()`."
            )
        return state

    followed_getstate.__mutangent_wrapped__ = True  # type: ignore[attr-defined]
    return followed_getstate


def _stand_in(obj: Any, schema: Schema, shown: dict[str, Any]) -> Any:
    made = object.__new__(type(obj))
    assert schema.dict_of is not None
    schema.dict_of(made).update(
        (name, value) for name, value in schema.dict_of(obj).items() if name not in schema.fields
    )
    for name in schema.slots:
        if hasattr(obj, name):
            object.__setattr__(made, name, getattr(obj, name))
    for name, value in shown.items():
        schema.fields[name].raw_set(made, value)
    return made


def _take_over(obj: Any, stand_in: Any, schema: Schema, shown: dict[str, Any]) -> None:
    """Change an object as its stand-in was changed past the fields: by writing into its true dict, or attributes."""
    assert schema.dict_of is not None
    now, stored = schema.dict_of(stand_in), schema.dict_of(obj)
    before = {name: value for name, value in stored.items() if name not in schema.fields}
    before.update((name, value) for name, value in shown.items() if schema.fields[name].in_dict)
    for name in before.keys() - now.keys():
        delattr(obj, name)
    for name, value in now.items():
        if name not in before or before[name] is not value:
            object.__setattr__(obj, name, value)
    for name in schema.slots:
        if hasattr(stand_in, name) and getattr(stand_in, name) is not getattr(obj, name, None):
            object.__setattr__(obj, name, getattr(stand_in, name))


class _StandIn(PassingOn):
    """Means the object where its stand-in is asked for."""

    def __init__(self, outer: Overlay, obj: Any, stand_in: Any) -> None:
        super().__init__(outer)
        self.stand_in = stand_in
        self._obj = obj

    def _meant(self, obj: Any) -> Any:
        return self._obj if obj is self.stand_in else obj


# -- by hand -----------------------------------------------------------------------------------------------------------


class _StateOfObject:
    """What `object.__getstate__` comes by, which reads the true dict itself and then asks for each name in `__slotnames__`.

    A name that is not set is passed over, so outside of recordings nothing changes.
    """

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        overlay = current()
        if obj is None or overlay is None or overlay.stand_in is obj or _goes_by_dir(sys._getframe(1)):
            raise AttributeError(_STATE)
        raise NotCapturedError(
            f"object.__getstate__ was asked for the state of {type_name(obj)} in a recording. It reads the __dict__ "
            "that lies below the recording, so what the recording has written is not in it and the rest would be "
            "constants. Write `obj.__getstate__()`, `vars(obj)` or `copy.copy(obj)`."
        )


_STATE: Final = "__mutangent_state__"


def _goes_by_dir(frame: FrameType) -> bool:
    """Whether the code that comes by only looks through all names, as `inspect.getmembers` does."""
    if frame.f_globals.get("__name__") == "inspect" or "dir" in frame.f_code.co_names:
        return True
    # Before Python 3.12 a comprehension has a frame of its own.
    return frame.f_back is not None and "dir" in frame.f_back.f_code.co_names


def _note_states(cls: Any) -> None:
    """Let `object.__getstate__` of the instances of `cls` come by."""
    names = vars(cls).get("__slotnames__")
    names = copyreg._slotnames(cls) if names is None else names  # type: ignore[attr-defined]  # what Python itself calls
    if _STATE not in names:
        cls.__slotnames__ = [*names, _STATE]
    setattr(cls, _STATE, _StateOfObject())


with_fields_in_dict.append(_note_states)
