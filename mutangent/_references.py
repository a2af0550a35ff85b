"""Whether an object's count of references tells that nobody else holds it.

Memory is reused where it does. How many references an expression adds is up to the interpreter, which may borrow them. So
it is tried, in expressions like those that are used, and where the numbers are others nothing is reused.
"""

from __future__ import annotations

import sys
from sys import getrefcount
from typing import Any, Final

# The one reference that is known of, and the argument of `getrefcount`: for `getrefcount(x.attribute)` and
# `getrefcount(x[0])`, where `x` is a local name and the attribute a slot. A local name of the object itself is one more
# in some versions of Python, and none in others.
ALONE: Final = 2


class _Holder:
    __slots__ = ("held",)

    def __init__(self, held: Any) -> None:
        self.held = held


def _in_slot(holder: _Holder) -> int:
    return getrefcount(holder.held)


def _in_tuple(items: tuple[Any, ...]) -> int:
    return getrefcount(items[0])


def counts_as_expected() -> bool:
    """Whether one holder of an object, and one more, are counted as such."""
    for more in range(3):
        holder, items = _Holder(object()), (object(),)
        others = [holder.held, items[0]] * more
        if (_in_slot(holder), _in_tuple(items)) != (ALONE + more, ALONE + more):
            return False
        others.clear()
    return True


def counts_operands() -> bool:
    """Whether a local name that an expression has read, and not used yet, is one more reference."""
    held = object()
    return (held, getrefcount(held))[1] == getrefcount(held) + 1


# Without the interpreter lock a reference count is no proof that nobody else looks.
COUNTS_REFERENCES: Final[bool] = getattr(sys, "_is_gil_enabled", lambda: True)() and counts_as_expected()
COUNTS_OPERANDS: Final[bool] = counts_operands()
