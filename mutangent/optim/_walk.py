"""The walk that optimisers share: pair an object graph with its tangent, and give each parameter its new value.

A parameter is an array, or a Python number in its one place. An array that several fields hold is one parameter: the
shares of its gradient are added, it is stepped once, and all its places get the same new array. Fields with
``trainable=False``, and what only they reach, are no parameters.

This file knows how to find, check and write parameters. It does not know what a step is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np

from mutangent._errors import CotangentError
from mutangent._identity import IdentityMap
from mutangent._tangent import NoTangent, Tangent, ZeroTangent

# What an optimiser keeps from update to update: for each object that owns parameters, by the path within the object.
# By place and not by array, since an array is replaced at every update, and perhaps by the user in between.
Memory = IdentityMap[dict[Any, Any]]

# (value, gradient, what the last step kept or None) -> (new value, what to keep)
Step = Callable[[Any, Any, Any], tuple[Any, Any]]

# Each is one instance.
ZERO = ZeroTangent()
NONE = NoTangent()


def rebind(root: Any, tangent: Any, memory: Memory, step: Step) -> None:
    """Step every parameter in reach of `root` that has a gradient: all of them or, if anything fails, none."""
    writes: list[tuple[_Place, Any, Any]] = []
    kept: list[tuple[_Place, Any]] = []
    for parameter in _parameters(root, tangent):
        if parameter.gradient is ZERO:
            continue
        first = parameter.places[0]
        owner, path = first.address()
        new, keep = step(parameter.value, parameter.gradient, memory.get(owner, {}).get(path))
        new = _like(parameter.value, new)
        writes += [(place, parameter.value, new) for place in parameter.places]
        kept.append((first, keep))

    done = 0
    try:
        for place, _, new in writes:
            place.write(new)
            done += 1
    except BaseException:  # a validator of the user's, or Ctrl-C
        for place, old, _ in writes[:done]:
            place.write(old)
        raise
    for place, keep in kept:
        owner, path = place.address()
        memory.setdefault(owner, {})[path] = keep


class _Place:
    """Where a value is: a field of an object, or an item of a list, dict or tuple, which itself is at `parent`."""

    __slots__ = ("holder", "key", "parent")

    def __init__(self, holder: Any, key: Any, parent: _Place | None) -> None:
        self.holder = holder
        self.key = key
        self.parent = parent

    def location(self) -> tuple[Any, ...]:
        """The same for all ways to the same place. A tuple has no identity of its own: its items are its parent's."""
        if isinstance(self.holder, tuple) and self.parent is not None:
            return (*self.parent.location(), self.key)
        return id(self.holder), self.key

    def address(self) -> tuple[Any, tuple[Any, ...]]:
        """The object that owns the place, and the path from there; without an object, the outermost list or dict."""
        place: _Place | None = self
        path: list[Any] = []
        owner, length = self.holder, 1
        while place is not None:
            path.append(place.key)
            if not isinstance(place.holder, tuple):
                owner, length = place.holder, len(path)
            if attrs.has(type(place.holder)):
                break
            place = place.parent
        return owner, tuple(reversed(path[:length]))

    def is_bare(self) -> bool:
        """Whether there are only tuples above, so that nothing can be put there."""
        place: _Place | None = self
        while place is not None and isinstance(place.holder, tuple):
            place = place.parent
        return place is None

    def write(self, value: Any) -> None:
        """Put a value there, past `frozen` too: an optimiser's step is no business of the object's own code."""
        holder = self.holder
        if isinstance(holder, list | dict):
            holder[self.key] = value
        elif isinstance(holder, tuple) and self.parent is not None:
            items = list(self.parent.read())
            items[self.key] = value
            self.parent.write(holder._make(items) if hasattr(holder, "_make") else tuple(items))
        else:
            try:
                setattr(holder, self.key, value)
            except attrs.exceptions.FrozenError:
                object.__setattr__(holder, self.key, value)

    def read(self) -> Any:
        """What is there now."""
        if isinstance(self.holder, list | dict):
            return self.holder[self.key]
        if isinstance(self.holder, tuple) and self.parent is not None:
            return self.parent.read()[self.key]
        return getattr(self.holder, self.key)

    def __str__(self) -> str:
        """The place in the words of an error message: class and field, and the way there from the root."""
        place: _Place | None = self
        way, field = "", ""
        while place is not None:
            holder = place.holder
            is_object = attrs.has(type(holder))
            way = (f".{place.key}" if is_object else f"[{place.key!r}]") + way
            if is_object and not field:
                field = type(holder).__name__ + way
            if len(way) > 200:
                return f"{field} (at …{way})"
            place = place.parent
        way = type(holder).__name__ + way
        return f"{field} (at {way})" if field and field != way else way


class _Parameter:
    """One value to be stepped, all of its places, and its gradient so far."""

    __slots__ = ("gradient", "places", "value")

    def __init__(self, value: Any) -> None:
        self.value = value
        self.places: list[_Place] = []
        self.gradient: Any = ZERO


def _parameters(root: Any, tangent: Any) -> list[_Parameter]:
    """All parameters in reach of `root`, in the order of the fields, with their gradients."""
    found: list[_Parameter] = []
    of_array: IdentityMap[_Parameter] = IdentityMap()
    # By place, the parameter and the tangent found there.
    at_place: dict[tuple[Any, ...], tuple[_Parameter, Any]] = {}
    walked: IdentityMap[list[Any]] = IdentityMap()
    pending: list[tuple[Any, Any, _Place | None]] = [(root, tangent, None)]

    while pending:
        value, tangent, place = pending.pop()
        if tangent is NONE:
            continue
        if not _is_parameter(value):
            if _descends(value, tangent, place, walked):
                items = [
                    (item, part, _Place(value, key, place)) for key, item, part in _items(value, tangent)
                ]
                pending += reversed(items)
            continue
        if place is None or place.is_bare():
            raise TypeError(
                "an optimiser puts new values into fields, lists and dicts, and this array or number is in none: hold "
                "it in an object, or pass a list or dict that is yours"
            )
        _check_number(value, tangent, place)
        location = place.location()
        parameter, share = at_place.get(location, (None, ZERO))
        if parameter is None:
            # Numbers are told apart by place: equal Python floats are often one object.
            is_array = not isinstance(value, float | complex | np.generic)
            parameter = of_array.get(value) if is_array else None
            if parameter is None:
                parameter = _Parameter(value)
                found.append(parameter)
                if is_array:
                    of_array[value] = parameter
            parameter.places.append(place)
        if share is ZERO:
            parameter.gradient = parameter.gradient + tangent
            share = tangent
        elif (
            tangent is not share
            and tangent is not ZERO
            and not np.array_equal(share, tangent, equal_nan=True)
        ):
            raise CotangentError(
                f"{place} is reached by two ways, with different tangents: an object, a list or a dict has one tangent"
            )
        at_place[location] = parameter, share
    return found


def _descends(value: Any, tangent: Any, place: _Place | None, walked: IdentityMap[list[Any]]) -> bool:
    """Whether to walk into `value` with this tangent.

    Even with a zero tangent, since arrays in there may be shared with places that have one; and again if it was first
    reached by a way on which its tangent is zero. A list has one gradient but a new list for it at each of its places.
    """
    if not _has_structure(value, tangent, place or type(value).__name__):
        return False
    if isinstance(value, tuple):
        return True
    before = walked.setdefault(value, [])
    if before and (tangent is ZERO or any(tangent is other for other in before)):
        return False
    before.append(tangent)
    return True


def _is_parameter(value: Any) -> bool:
    """Whether `value` is a float or complex number or array."""
    return isinstance(value, float | complex | np.inexact) or getattr(
        getattr(value, "dtype", None), "kind", ""
    ) in ("f", "c")


def _items(value: Any, tangent: Any) -> Iterator[tuple[Any, Any, Any]]:
    """Key, value and tangent of each trainable field of an object, or of each item of a container."""
    zero = tangent is ZERO
    if isinstance(value, dict):
        for key, item in value.items():
            yield key, item, ZERO if zero else tangent[key]
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            yield index, item, ZERO if zero else tangent[index]
    else:
        for attribute in attrs.fields(type(value)):
            if attribute.metadata.get("mutangent.trainable", True) and hasattr(value, attribute.name):
                name = attribute.name
                yield name, getattr(value, name), ZERO if zero else tangent[name]


def _has_structure(value: Any, tangent: Any, where: object) -> bool:
    """Whether `value`, which is no parameter, has parts to walk into.

    Raises
    ------
    CotangentError
        If the tangent is not one of such a value.
    """
    is_object = attrs.has(type(value))
    has_parts = is_object or isinstance(value, list | tuple | dict)
    if tangent is ZERO:
        return has_parts
    if is_object:
        fits = isinstance(tangent, Tangent) and tangent._cls is type(value)
    elif isinstance(value, dict):
        fits = isinstance(tangent, dict) and tangent.keys() == value.keys()
    else:
        fits = has_parts and isinstance(tangent, list | tuple) and len(tangent) == len(value)
    if not fits:
        raise _misfit(where, value, tangent)
    return True


def _check_number(value: Any, tangent: Any, where: object) -> None:
    """Refuse a tangent of another shape, or a complex one for a real value."""
    if tangent is ZERO:
        return
    fits = (
        _is_parameter(tangent)
        and getattr(tangent, "shape", ()) == getattr(value, "shape", ())
        and (_is_complex(value) or not _is_complex(tangent))
    )
    if not fits:
        raise _misfit(where, value, tangent)


def _misfit(where: object, value: Any, tangent: Any) -> CotangentError:
    return CotangentError(
        f"{where} holds {_describe(value)}, and its tangent is {_describe(tangent)}. Nothing was updated. A gradient "
        "is taken at the value on entry: if the call itself changes this field, it is state and no weight, so "
        "declare it with mutangent.field(trainable=False)."
    )


def _describe(value: Any) -> str:
    if isinstance(value, Tangent):
        return f"a Tangent of {value._cls.__name__}"
    if isinstance(value, dict):
        return f"a dict with keys {list(value)}"
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of length {len(value)}"
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    return f"a {type(value).__name__}"


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c"


def _like(old: Any, new: Any) -> Any:
    """`new` as the kind of value that `old` is: no step turns float32 into float64, or a 0-d array into a scalar."""
    if isinstance(old, np.generic):
        return old.dtype.type(new)
    if isinstance(old, float | complex):
        return new.item() if isinstance(new, np.generic) else new
    if isinstance(new, np.generic):
        return np.asarray(new, old.dtype)
    return new if new.dtype == old.dtype else new.astype(old.dtype)
