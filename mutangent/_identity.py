"""A mapping from objects to values by identity.

`attrs.define` instances are unhashable, and `id()`s are reused once an object is gone. So the map is keyed by `id` and
holds its keys: as long as an entry is there, its id cannot mean another object.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, MutableMapping
from typing import Any, TypeVar

V = TypeVar("V")


class IdentityMap(MutableMapping[Any, V]):
    """A dict whose keys are compared by identity and kept alive.

    Parameters
    ----------
    pairs : iterable of (object, value), optional
        The entries, in order. A later entry for the same object replaces an earlier one.

    Examples
    --------
    >>> a, b = [1], [1]
    >>> seen = IdentityMap([(a, "a")])
    >>> a in seen, b in seen
    (True, False)
    >>> seen[a]
    'a'
    """

    __slots__ = ("_entries",)

    def __init__(self, pairs: Iterable[tuple[Any, V]] = ()) -> None:
        self._entries: dict[int, tuple[Any, V]] = {id(key): (key, value) for key, value in pairs}

    def __getitem__(self, key: Any) -> V:
        try:
            return self._entries[id(key)][1]
        except KeyError:
            raise KeyError(
                f"no entry for this {type(key).__name__} object (keys are compared by identity)"
            ) from None

    def __setitem__(self, key: Any, value: V) -> None:
        self._entries[id(key)] = (key, value)

    def __delitem__(self, key: Any) -> None:
        self[key]
        del self._entries[id(key)]

    def __contains__(self, key: object) -> bool:
        return id(key) in self._entries

    def __iter__(self) -> Iterator[Any]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy has other objects as keys, with other ids.
        return IdentityMap, (list(self.items()),)

    def __repr__(self) -> str:
        rows = ", ".join(
            f"<{type(key).__name__} at {id(key):#x}>: {value!r}" for key, value in self._entries.values()
        )
        return f"IdentityMap({{{rows}}})"
