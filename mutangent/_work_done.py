"""What a run has computed, in a few numbers: which operations, and the numbers that their derivatives will read.

Two runs may give the same result and have another derivative all the same: ``x * noise`` at x = 0. The derivative reads
what the entries of the tape have saved. So of each entry the rule is compared, and what it saved: settings and indices as
they are, and of arrays a few elements, up to rounding.
"""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np

from ._apply import ASTYPE
from ._apply import ITEM as NUMBER
from ._compared import kept_weights, tolerance
from ._rulebook import Rule
from ._rulebook import rule as rule_of
from ._tape import CALL, INDEX, LEAF, SCATTER, SET_ITEM, Tape
from ._traced import TracedArray, primal

# So many elements of an array that is constant are compared, and of one that is traced.
OF_CONSTANT: Final = 8
OF_TRACED: Final = 2
# What the gradients of an inner recording are converted by: of all objects that it has met, in the order in which it has.
_CONVERSIONS: Final = (NUMBER, ASTYPE, rule_of(np.copy))
_INDEXING: Final = frozenset({INDEX, SET_ITEM, SCATTER})


class WorkDone:
    """What the entries of a tape say of a run."""

    __slots__ = ("_allowed", "_key", "_sums")

    def __init__(self, tape: Tape) -> None:
        notes = _Notes()
        entries: Any = tape.all
        for rule, parents, saved, _, _ in entries:
            if rule is LEAF or any(rule is each for each in _CONVERSIONS):
                continue
            notes.exact.append(rule)
            if type(rule) is Rule:
                notes.note_operands(rule, parents, saved)
            elif rule in _INDEXING:
                notes.note(saved)
            elif rule is not CALL:
                notes.exact.append(saved)
        numbers = np.array(notes.numbers, dtype=np.float64)
        usual = np.isfinite(numbers)
        if not usual.all():
            notes.exact += np.flatnonzero(~usual).tolist()
            numbers = np.where(usual, numbers, 0.0)
        # Rounding errors are in proportion to the numbers, so large ones are compared by their logarithms.
        numbers = np.arcsinh(numbers)
        self._key = hash(tuple(notes.exact))
        # What the first run got copies of, in `pause()`, may be no constant in the second.
        weights = () if tape.copies else _weights_of(numbers.size)
        self._sums = [float(numbers.dot(each)) for each in weights]
        self._allowed = tolerance(notes.precision) * math.sqrt(numbers.dot(numbers))

    def is_like(self, other: WorkDone) -> bool:
        """Whether another run has done the same, up to rounding."""
        if self._key != other._key:
            return False
        pairs = zip(self._sums, other._sums, strict=False)
        return all(abs(first - again) <= self._allowed for first, again in pairs)


def _weights_of(size: int) -> list[Any]:
    """Weights for so many numbers, of which more are kept than are asked for."""
    return [weights[:size] for weights in kept_weights(np, max(256, 1 << size.bit_length()))]


class _Notes:
    """What is compared exactly, and the numbers that are compared up to rounding."""

    __slots__ = ("exact", "numbers", "precision")

    def __init__(self) -> None:
        self.exact: list[Any] = []
        self.numbers: list[float] = []
        self.precision: np.dtype[Any] = np.dtype(np.float64)  # the least one

    def note_operands(self, rule: Rule, parents: Any, saved: Any) -> None:
        """Note what an operation has saved: the result, the operands, and settings."""
        if saved[0] is not None:
            self.note(saved[0], OF_TRACED)
        if rule.kind == "elementwise":
            for parent, value in zip(parents, saved[1:], strict=True):
                if value is not None:
                    self.note(value, OF_CONSTANT if parent == -1 else OF_TRACED)
            return
        for k, value in enumerate(saved[1]):
            is_traced = k < len(parents) and parents[k] != -1
            self.note(value, OF_TRACED if is_traced else OF_CONSTANT)
        if saved[2]:
            self.note(tuple(saved[2].values()), OF_CONSTANT)

    def note(self, value: Any, most: int = OF_CONSTANT) -> None:
        """Note a value, and of an array so many elements at most."""
        kind = type(value)
        if kind is float:
            self.numbers.append(value)
        elif kind is np.ndarray:
            self._note_array(value, most)
        elif kind is tuple or kind is list:
            for each in value:
                self.note(each, most)
        elif kind is int or kind is bool or kind is str or value is None:
            self.exact.append(value)
        elif kind is slice:
            self.note((value.start, value.stop, value.step), most)
        elif kind is TracedArray:
            self.note(primal(value), most)
        elif issubclass(kind, np.generic):
            self._note_array(np.asarray(value), most)
        elif kind is complex:
            self.numbers += (value.real, value.imag)
        else:  # on a device, for example, which would have to be waited for
            self.exact.append(kind)

    def _note_array(self, array: Any, most: int) -> None:
        size, kind = array.size, array.dtype.kind
        places = range(size) if size <= most else [size * k // most for k in range(most)]
        if kind == "f":
            self.numbers += [array.item(k) for k in places]
            if array.dtype.itemsize < self.precision.itemsize:
                self.precision = array.dtype
        elif kind == "c":
            for k in places:
                item = array.item(k)
                self.numbers += (item.real, item.imag)
            if array.dtype.itemsize < 2 * self.precision.itemsize:
                self.precision = array.real.dtype
        elif kind in "biu":
            self.exact += [array.item(k) for k in places]
