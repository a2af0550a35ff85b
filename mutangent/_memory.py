"""Arrays by the memory that they lie in, so that those which may overlap one array are found without looking at all.

An array's memory belongs to the array that its chain of bases ends at. Two arrays of different owners do not overlap.
Where the chain ends at something else (a buffer, a file, a pointer), nothing is known, and the array may overlap any.
"""

from __future__ import annotations

import weakref
from bisect import bisect_left
from typing import Any

import numpy as np

from ._arrays import ARRAYS


class Memory:
    """Things, each with an array.

    It does not hold the arrays: whoever adds a thing keeps its array alive as long as the thing is here.
    """

    __slots__ = ("_elsewhere", "_owners")

    def __init__(self) -> None:
        self._owners: dict[int, _Owner] = {}
        self._elsewhere: dict[int, Any] = {}  # of which nothing is known

    def add(self, array: Any, thing: Any) -> None:
        """Add a thing whose array is `array`; what is no plain array may overlap any."""
        owner = owner_of(array)
        if owner is None:
            self._elsewhere[id(thing)] = thing
            return
        known = self._owners.get(id(owner))
        if known is None:
            known = self._owners[id(owner)] = _Owner()
        if array is owner or type(array) is not np.ndarray:
            known.whole[id(thing)] = thing
        else:
            known.add_part(array, thing)

    def add_weakly(self, array: Any, thing: Any) -> None:
        """Add a weak reference to a thing, which vanishes with it."""
        owner = owner_of(array)
        if owner is None:
            place = self._elsewhere
        else:
            known = self._owners.get(id(owner))
            if known is None:
                known = self._owners[id(owner)] = _Owner()
            place = known.whole
        key, number, owners = id(thing), id(owner), self._owners

        def forget(_: Any) -> None:
            place.pop(key, None)
            known = owners.get(number)
            if known is not None and known.is_empty():
                del owners[number]

        place[key] = weakref.ref(thing, forget)

    def near(self, array: Any) -> list[Any]:
        """The things whose arrays may overlap `array`, and some others."""
        owner = owner_of(array)
        if owner is None:
            found = list(self._elsewhere.values())
            for known in list(self._owners.values()):
                found += known.all()
            return found
        known_owner = self._owners.get(id(owner))
        if known_owner is None:
            found = []
        elif array is owner or type(array) is not np.ndarray:
            found = known_owner.all()
        else:
            found = known_owner.near_part(array)
        if self._elsewhere:
            found += self._elsewhere.values()
        return found


class _Owner:
    """What lies in the memory of one array."""

    __slots__ = ("lows", "parts", "span", "whole")

    def __init__(self) -> None:
        self.whole: dict[int, Any] = {}
        self.lows: list[int] = []  # where the parts begin, in order
        self.parts: list[tuple[int, Any]] = []  # where each ends, and the thing
        self.span = 0  # of the longest

    def is_empty(self) -> bool:
        return not self.whole and not self.parts

    def all(self) -> list[Any]:
        found = list(self.whole.values())
        if self.parts:
            found += [thing for _, thing in self.parts]
        return found

    def add_part(self, array: Any, thing: Any) -> None:
        low, high = bounds(array)
        place = bisect_left(self.lows, low)
        self.lows.insert(place, low)
        self.parts.insert(place, (high, thing))
        self.span = max(self.span, high - low)

    def near_part(self, array: Any) -> list[Any]:
        low, high = bounds(array)
        first, last = bisect_left(self.lows, low - self.span), bisect_left(self.lows, high)
        return [*self.whole.values(), *[thing for end, thing in self.parts[first:last] if end > low]]


def owner_of(array: Any) -> Any:
    """The array to which the memory of a plain array belongs; None if that is not known."""
    if type(array) not in ARRAYS:
        return None
    while (base := array.base) is not None:
        if type(base) not in ARRAYS:
            return None
        array = base
    return array if array.flags.owndata else None


def bounds(array: Any) -> tuple[int, int]:
    """The addresses of the first byte of a NumPy array and of the one after its last."""
    low: int = array.__array_interface__["data"][0]
    high = low + array.itemsize
    for length, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (length - 1) * stride
        else:
            high += (length - 1) * stride
    return low, high
