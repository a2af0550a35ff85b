"""Which values have a kink where they are 0, in forward mode: |x|, a distance, ``x**1.5``, and what is made of them.

A root of 0 has an infinite derivative. Forward mode takes one of an operand whose tangent is 0 for 0, as a smooth curve can
only touch the end of the root's domain there: ``np.sqrt(x * x)``. But the tangent of |x| at 0 is 0 too, by convention, and
that of ``x**1.5`` in truth, and their roots do have infinite derivatives. So the tangents of such values are marked, and
those of what is computed from them, until they are squared.
"""

from __future__ import annotations

import weakref
from typing import Any, Final

import numpy as np

from ._arrays import is_on_device, is_without_zero
from ._flat import plain
from ._rulebook import Rule

_PRODUCTS: Final = frozenset({np.multiply, np.dot, np.matmul, np.inner, np.vdot, np.vecdot})
_SQUARES: Final = frozenset({np.square, np.var})


class Kinks:
    """The marked tangents that are still in use."""

    __slots__ = ("marked",)

    def __init__(self) -> None:
        self.marked: dict[int, weakref.ref[Any]] = {}  # by their identity

    def mark(self, tangent: Any) -> Any:
        """Mark a tangent, and return it; a scalar as an array, which can be told from others."""
        if issubclass(type(tangent), np.generic):
            tangent = np.array(tangent)
        key, marked = id(tangent), self.marked
        marked[key] = weakref.ref(tangent, lambda _: marked.pop(key, None))
        return tangent

    def has(self, parents: Any) -> bool:
        """Whether any of the operands' tangents is marked."""
        if type(parents) is not tuple:
            return id(parents) in self.marked
        return any(self.has(each) for each in parents)

    def follow(self, rule: Any, parents: Any, saved: Any, value: Any, tangent: Any) -> Any:
        """Mark the tangent of a result, if need be."""
        is_row = type(rule) is Rule
        has_kink = is_row and rule.kink is not None and rule.kink(saved)
        if self.marked and self.has(parents):
            is_smooth = is_row and (_is_square(rule, parents) or (rule.kink is not None and not has_kink))
            return tangent if is_smooth else self.mark(tangent)
        return self.mark(tangent) if has_kink and _rests(rule, value, tangent, parents) else tangent


def _is_square(rule: Rule, parents: Any) -> bool:
    return rule.function in _SQUARES or (rule.function in _PRODUCTS and parents[0] is parents[1])


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
