"""The logistic function ``1 / (1 + np.exp(-x))``, which NumPy has not and its users write out.

It is recorded as one entry with one derivative, in place of the quotient's. The entries before it stay on the tape, in case
that somebody has kept the exponential or the sum; once it is sure that nobody has, the memory of the exponential is given
back (`Exponential`).
"""

from __future__ import annotations

from sys import getrefcount
from typing import Any, Final

import numpy as np

from ._arrays import ARRAYS
from ._references import ALONE, COUNTS_REFERENCES
from ._rulebook import elementwise, rule
from ._tape import CALL, Entry, Special, Tape
from ._traced import TracedArray, append

# Smaller exponentials are not worth the look.
WORTH: Final = 1 << 12
# In so many entries it is looked for somebody who uses the exponential or the sum.
LOOKED_AT: Final = 256


def _logistic(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


# It does not overflow, as the product of the four derivatives can.
elementwise(_logistic, lambda t, y, _x: t * (y - y * y))
LOGISTIC: Final = rule(_logistic)
_ADD: Final = rule(np.add)
_EXP: Final = rule(np.exp)
_NEGATIVE: Final = rule(np.negative)
_FORGOTTEN: Final = Special("forgotten exponential")


def operand_of_logistic(entries: list[Entry], node: int) -> int:
    """The node x if `node` is 1 + exp(-x); else -1."""
    row, parents, saved, _, _ = entries[node]
    if row is _ADD and 1 in (saved[1], saved[2]):
        row, parents, _, _, _ = entries[max(parents)]
        if row is _EXP:
            row, parents, _, _, _ = entries[parents[0]]
            if row is _NEGATIVE:
                return int(parents[0])
    return -1


def append_logistic(tape: Tape, entries: list[Entry], node: int, total: TracedArray, y: Any) -> TracedArray:
    """Record `y`, the logistic function of `node`; `total` is the traced value of 1 + exp(-x)."""
    if type(y) in ARRAYS and y.nbytes >= WORTH:
        if tape.exponential is not None:
            tape.exponential.forget(entries)
        tape.exponential = Exponential(entries, total)
    return append(entries, tape, LOGISTIC, (node,), (y, None), y)


class Exponential:
    """The exponential in a logistic function, and the sum: kept until nobody can ask for their derivative any more.

    Whoever has a traced value, or a view of one, has its array, and who has neither can use it in no further operation.
    So when the next logistic function is met, and nobody else has the two arrays, and no entry that was made since has
    the two nodes as operands, the exponential's derivative will never be asked for. If it is, the sweep raises.
    """

    __slots__ = ("number", "total", "total_number")

    def __init__(self, entries: list[Entry], total: TracedArray) -> None:
        self.total = total._value
        self.total_number = total._node
        self.number: int = max(entries[total._node][1])

    def forget(self, entries: list[Entry]) -> None:
        """Give the exponential's memory back, if nobody can ask for it."""
        row, _, saved, shape, dtype = entries[self.number]
        # The two references are ours, or that of the entry, and that of the call.
        if (
            not COUNTS_REFERENCES
            or row is not _EXP
            or getrefcount(self.total) != ALONE
            or getrefcount(saved[0]) != ALONE
        ):
            return
        if len(entries) - self.number > LOOKED_AT:
            return
        for number in range(self.number + 1, len(entries)):
            rule, operands, _, _, _ = entries[number]
            # What a call reads is not said in its entry.
            if number != self.total_number and (rule is CALL or self._is_among(operands)):
                return
        entries[self.number] = (_FORGOTTEN, -1, _refuse, shape, dtype)

    def _is_among(self, operands: Any) -> bool:
        if type(operands) is int:
            return operands in (self.number, self.total_number)
        for each in operands:  # noqa: SIM110 - a loop costs a third of `any`
            if self._is_among(each):
                return True
        return False


def _refuse(_g: Any) -> Any:
    raise RuntimeError(
        "the derivative of an exponential was asked for, of which the recording held that nobody could. This is a fault in "
        "mutangent; please report it with the program."
    )
