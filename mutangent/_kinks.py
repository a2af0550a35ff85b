"""Which values have a kink where they are 0, in forward mode: |x|, a distance, ``x**1.5``, and what is made of them.

A root of 0 has an infinite derivative. Forward mode takes one of an operand whose tangent is 0 for 0, as a smooth curve can
only touch the end of the root's domain there: ``np.sqrt(x * x)``. But the tangent of |x| at 0 is 0 too, by convention, and
that of ``x**1.5`` in truth, and their roots do have infinite derivatives. So the tangents of such values are marked, and
those of what is computed from them.

Where a square is 0, what was squared is 0, and a root may be taken. Elsewhere it has the kink that this has, and that is at
0 again in ``(1 + |x|)**2 - 1``. So squares are marked as such, with what is made of them that is 0 where they are.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from ._arrays import is_on_device, is_without_zero
from ._flat import JOINING, MOVING, plain
from ._rulebook import Rule
from ._tape import INDEX

# Products of something with itself that are squares, of vectors alone and of arrays too.
_OF_VECTORS: Final = frozenset({np.dot, np.matmul, np.inner})
_PRODUCTS: Final = frozenset({np.multiply, np.vdot, np.vecdot})
_SQUARES: Final = frozenset({np.square, np.var})
_SUMS: Final = frozenset({np.add, np.sum, np.mean})
# What these make is 0 where their operands are.
_KEEPING: Final = MOVING | JOINING | {np.multiply, np.divide, np.where}


class Kinks:
    """The marked tangents that are still in use."""

    __slots__ = ("marked",)

    def __init__(self) -> None:
        # By their identity, with whether the value is a square.
        self.marked: dict[int, tuple[weakref.ref[Any], bool]] = {}

    def mark(self, tangent: Any, is_square: bool = False) -> Any:
        """Mark a tangent, and return it; a scalar as an array, which can be told from others."""
        if issubclass(type(tangent), np.generic):
            tangent = np.array(tangent)
        key, marked = id(tangent), self.marked
        marked[key] = (weakref.ref(tangent, lambda _: marked.pop(key, None)), is_square)
        return tangent

    def has(self, parents: Any, squares: bool = True) -> bool:
        """Whether any of the operands' tangents is marked, be it as one of a square or not."""
        if type(parents) is tuple:
            return any(self.has(each, squares) for each in parents)
        known = self.marked.get(id(parents))
        return known is not None and (squares or not known[1])

    def follow(self, rule: Any, parents: Any, saved: Any, value: Any, tangent: Any, operands: Any) -> Any:
        """Mark the tangent of a result, if need be."""
        has_kink = type(rule) is Rule and rule.kink is not None and rule.kink(saved)
        if self.marked and self.has(parents):
            on_device = is_on_device(plain(value))
            return self.mark(tangent, not has_kink and self._is_square(rule, parents, operands, on_device))
        return self.mark(tangent) if has_kink and _rests(rule, value, tangent, parents) else tangent

    def _is_square(self, rule: Any, parents: Any, operands: Any, on_device: bool) -> bool:
        """Whether a result without a kink of its own is a square, or made of squares and 0 where these are."""
        are_squares = not self.has(parents, squares=False)
        if type(rule) is not Rule:
            # A part, or what was written into an array.
            return are_squares and (rule is INDEX or not on_device)
        function = rule.function
        if function in _SQUARES or rule.kink is not None:  # a power of 2 or more
            return True
        if function in _PRODUCTS | _OF_VECTORS and parents[0] is parents[1]:
            return function in _PRODUCTS or np.ndim(plain(parents[0])) < 2
        if on_device:
            # It is not asked whether numbers are negative, so squares may meet nothing else.
            return are_squares and (
                function in MOVING or (function in _SUMS and all(self.has(each) for each in parents))
            )
        if function in _SUMS:
            return are_squares and all(np.all(plain(each) >= 0) for each in operands[: len(parents)])
        return are_squares and function in _KEEPING


def _rests(rule: Rule, value: Any, tangent: Any, parents: Any) -> bool:
    """Whether a value is somewhere 0 with a tangent 0, although an operand moves; of a root it is not known if one does."""
    value = plain(value)
    if is_on_device(value):
        return True  # a device is not asked: that would be to wait for it
    if is_without_zero(value):
        return False
    rests = (value == 0) & (plain(tangent) == 0)
    is_root = rule.kind == "elementwise" and rule.forward is not rule.expressions
    for parent in parents:
        if parent is not None and type(parent) is not int:
            moves = is_root | (plain(parent) != 0)
            if np.any(moves & rests if np.shape(moves) == np.shape(rests) else rests) and np.any(moves):
                return True
    return False
