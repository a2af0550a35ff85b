"""The random generators that programs use without holding them: those behind `numpy.random.normal` and `random.random`.

Whoever runs a function twice asks in between whether it drew from them, and gives them their earlier state if it did. To
take that state takes longer than a small step of a program. So the memory of a generator is compared, which holds all of
its state, and the state itself is taken only where that memory is another than the last time.
"""

from __future__ import annotations

import _random
import random
import sys
from array import array
from collections.abc import Callable
from ctypes import string_at
from typing import Any, Final, NamedTuple

import numpy as np

_HEADER: Final = object.__basicsize__  # the count of references, which is no state
# Of the Mersenne twister: 624 words, and the position in them.
_WORDS: Final = 624
_TWISTER: Final = 4 * _WORDS + 4

_numpys: Final[Any] = np.random.mtrand._rand
_pythons: Final[Any] = random._inst
BOTH: Final[tuple[Any, Any]] = (_numpys, _pythons)
_NUMPYS_SIZE: Final = type(_numpys).__basicsize__ - _HEADER
_PYTHONS_SIZE: Final = _random.Random.__basicsize__ - _HEADER


class _Generator(NamedTuple):
    """One of the two, and what can be done with it."""

    mark: Callable[[], Any]  # what is another after each draw; None if it is not known
    state: Callable[[], Any]
    put_back: Callable[[Any], None]


def _mark_of_numpys() -> Any:
    bits = _numpys._bit_generator  # users may replace it
    if type(bits) is not np.random.MT19937:
        return None
    # The second half of a pair of normal numbers lies in the generator itself.
    return string_at(id(_numpys) + _HEADER, _NUMPYS_SIZE), string_at(bits.ctypes.state_address, _TWISTER)


def _mark_of_pythons() -> Any:
    return string_at(id(_pythons) + _HEADER, _PYTHONS_SIZE), _pythons.gauss_next


def _state_of_pythons() -> Any:
    version, words, gauss_next = _pythons.getstate()
    return version, array("I", words), gauss_next  # in a tenth of the memory


def _put_pythons(state: Any) -> None:
    version, words, gauss_next = state
    _pythons.setstate((version, tuple(words), gauss_next))


def _no_mark() -> None:
    return None


def _memory_is_as_expected() -> bool:
    """Whether the states lie in memory where they are looked for, as they do in CPython."""
    if sys.implementation.name != "cpython":
        return False
    state = (
        _numpys.get_state(legacy=False)["state"]
        if type(_numpys._bit_generator) is np.random.MT19937
        else None
    )
    words = array("I", _pythons.getstate()[1][:_WORDS]).tobytes()
    return (
        state is not None
        and _mark_of_numpys()[1] == state["key"].tobytes() + np.int32(state["pos"]).tobytes()
        and words in _mark_of_pythons()[0]
    )


_GENERATORS: Final = [
    _Generator(_mark_of_numpys, lambda: _numpys.get_state(legacy=False), _numpys.set_state),
    _Generator(_mark_of_pythons, _state_of_pythons, _put_pythons),
]
if not _memory_is_as_expected():
    _GENERATORS[:] = [each._replace(mark=_no_mark) for each in _GENERATORS]
# The last mark of each with the state that belongs to it, whoever asked.
_known: Final[list[tuple[Any, Any]]] = [(None, None)] * len(_GENERATORS)


def _met(number: int) -> tuple[Any, Any]:
    """The mark and the state of a generator."""
    generator, known = _GENERATORS[number], _known[number]
    mark = generator.mark()
    if mark is None or known[0] != mark:
        known = (mark, generator.state())
        if generator.mark() == mark:  # no other thread has drawn
            _known[number] = known
    return known


class GlobalGenerators:
    """The global random generators as they were when this was made."""

    __slots__ = ("_states",)

    def __init__(self) -> None:
        self._states = {number: _met(number) for number in range(len(_GENERATORS))}

    def forget_unused(self) -> None:
        """Forget those that nobody has drawn from since then."""
        self._states = {
            number: (None, state)
            for number, (mark, state) in self._states.items()
            if mark is None or _GENERATORS[number].mark() != mark
        }

    def now(self) -> list[tuple[int, Any]]:
        """The states by now of those that are not forgotten."""
        return [(number, _met(number)[1]) for number in self._states]

    def put_back(self) -> None:
        """Give those that are not forgotten, and from which somebody has drawn, the state that they had."""
        put(
            [
                (number, state)
                for number, (mark, state) in self._states.items()
                if mark is None or _GENERATORS[number].mark() != mark
            ]
        )


def put(states: list[tuple[int, Any]]) -> None:
    """Give generators the states that `now` has said."""
    for number, state in states:
        _GENERATORS[number].put_back(state)
