"""Whether two runs gave the same, up to rounding, without keeping what the first one gave."""

from __future__ import annotations

import functools
import itertools
import re
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ._arrays import is_array, is_differentiable, is_on_device, namespace_of, spec_of
from ._fields import is_captured, schema_of
from ._traced import TracedArray, primal

# What the error about another result says.
DEPENDS: Final = (
    "It depends on something that is neither an argument nor a captured field and not put back either: a clock, a queue, a "
    "file that is written, much data, the state of a library. Pass that as an argument, or hold it in a field, or call the "
    "function without checkpoint."
)
# Multiples of these numbers modulo 1 have no pattern: the golden ratio and the root of 2.
_STEPS: Final = (0.6180339887498949, 0.4142135623730951)
_LONGEST: Final = 1 << 18  # of longer arrays no weights are kept
_NUMBER: Final = re.compile(r"0x[0-9a-fA-F]+|[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_TRACED: Final = re.compile(r"TracedArray\(|[()]")


class Sums:
    """Two sums that stand for the contents of an array, which need not be kept to be compared.

    The elements have weights of either sign that look random. So what rounding does to all of them adds up to little, in
    comparison with their norm, and one other element, or two that were exchanged, are noticed in arrays of any usual size.
    """

    __slots__ = ("allowed", "sums")

    def __init__(self, value: Any) -> None:
        plain = primal(value).reshape(-1)
        # In double precision: in its own, half precision overflows where there are many elements.
        wide = plain.astype(np.result_type(plain.dtype, np.float64), copy=False)
        library = namespace_of(plain)
        weights = kept_weights if library is np and plain.size <= _LONGEST else _weights
        with np.errstate(all="ignore"):
            self.sums = [np.sum(each * wide) for each in weights(library, plain.size)]
            largest = np.max(np.abs(wide)) if plain.size else 0.0
            norm = np.sqrt(np.sum(np.abs(wide / largest) ** 2)) * largest if largest else 0.0
        self.allowed = tolerance(plain.dtype) * norm

    def is_near(self, other: Sums) -> bool:
        """Whether the contents may be equal up to rounding."""
        allowed = self.allowed if np.isfinite(self.allowed) else 0.0
        pairs = zip(self.sums, other.sums, strict=True)
        return all(
            bool(np.isclose(first, again, rtol=0.0, atol=allowed, equal_nan=True)) for first, again in pairs
        )


def _weights(library: Any, size: int) -> list[Any]:
    """The weights of the sums."""
    places = library.arange(1, size + 1)
    return [2.0 * (places * step % 1.0) - 1.0 for step in _STEPS]


# They cost more than the sums, and programs write arrays of few sizes.
kept_weights: Final = functools.lru_cache(maxsize=4)(_weights)


def tolerance(kind: np.dtype[Any]) -> float:
    """By how much two runs may differ that differ by rounding only."""
    rounding = float(np.finfo(kind).eps)
    return 1e-9 if rounding < 1e-12 else 1e-4 if rounding < 1e-5 else 2e-2


def same_numbers(first: Any, again: Any) -> bool:
    """Whether two results are equal up to rounding."""
    if np.shape(first) != np.shape(again):
        return False
    if np.all(first == again):  # mostly so, and quick
        return True
    return bool(np.allclose(first, again, rtol=tolerance(spec_of(first).dtype), atol=1e-30, equal_nan=True))


# -- values of any kind ------------------------------------------------------------------------------------------------


class Marks:
    """What a value is made of, piece by piece, without the arrays and the new objects in it."""

    __slots__ = ("_pieces",)

    def __init__(self, value: Any, peek: Callable[[Any, Any], Any], is_new: Callable[[Any], bool]) -> None:
        # `is_new` says whether an object is known by what it holds, and not by its identity.
        self._pieces = list(_pieces(value, peek, is_new))

    def fit(self, value: Any, peek: Callable[[Any, Any], Any]) -> bool:
        """Whether a value is made of the same; an object that was none of the old ones is a new one."""
        old = {id(piece.obj) for piece in self._pieces if type(piece) is _Old}
        others = _pieces(value, peek, lambda obj: id(obj) not in old)
        return all(_fit(piece, other) for piece, other in itertools.zip_longest(self._pieces, others))


class _Old:
    """A captured object that was there before."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj


def _pieces(value: Any, peek: Callable[[Any, Any], Any], is_new: Callable[[Any], bool]) -> Iterator[Any]:
    pending = [value]
    seen: dict[int, Any] = {}
    while pending:
        value = pending.pop()
        if type(value) is TracedArray:
            value = primal(value)
        if isinstance(value, list | tuple | dict | deque) or (is_captured(value) and is_new(value)):
            if id(value) in seen:
                yield type(value), "again"
                continue
            seen[id(value)] = value
            parts = _parts(value, peek)
            yield type(value), [key for key, _ in parts if type(key) in (int, str)], len(parts)
            pending += [part for _, part in parts]
        elif is_captured(value):
            yield _Old(value)
        else:
            yield _piece(value)


def _parts(value: Any, peek: Callable[[Any, Any], Any]) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        return list(dict.items(value))
    if not is_captured(value):
        return list(enumerate(value))
    schema = schema_of(type(value))
    assert schema is not None
    found = []
    for name, field in schema.fields.items():
        try:
            found.append((name, peek(value, field)))
        except AttributeError:
            continue
    return found


def _piece(value: Any) -> Any:
    if is_array(value):
        if value.dtype.kind in "fc":
            return value.shape, value.dtype, Sums(value)
        if value.dtype.kind in "biuSU" and not is_on_device(value):
            return value.shape, value.dtype, zlib.crc32(value.tobytes())
        return value.shape, value.dtype
    if is_differentiable(value) or isinstance(value, int | str | bytes | None):
        return value
    return type(value)


def _fit(first: Any, again: Any) -> bool:
    if type(first) is _Old:
        return type(again) is _Old and again.obj is first.obj
    if is_differentiable(first) and is_differentiable(again):
        return same_numbers(first, again)
    if type(first) is not type(again):
        return False
    if type(first) is tuple and type(first[-1]) is Sums:
        return bool(first[:-1] == again[:-1]) and type(again[-1]) is Sums and first[-1].is_near(again[-1])
    if type(first) is str:
        return _same_text(first, again)
    return bool(first == again)


def _same_text(first: str, again: str) -> bool:
    """Whether two texts say the same: numbers up to rounding, of objects any address, and traced values as plain ones."""
    first, again = _TRACED.sub("", first), _TRACED.sub("", again)
    numbers = zip(_NUMBER.findall(first), _NUMBER.findall(again), strict=False)
    return _NUMBER.split(first) == _NUMBER.split(again) and all(
        one.startswith("0x") or bool(np.isclose(float(one), float(other), rtol=1e-4, atol=0.0))
        for one, other in numbers
        if one != other
    )
