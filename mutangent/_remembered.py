"""How a value without tangent space is shown to a second run as the first one found it.

A random generator gets the state back that it had; of a set, or of an array of small integers that counts as one value, it
is a copy that is shown.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import numpy as np

from ._arrays import copy_with_strides, is_plain_array


class Drawn:
    """A random generator, and its state when the first run read it."""

    __slots__ = ("generator", "state")

    def __init__(self, generator: Any) -> None:
        self.generator = generator
        self.state = state_of(generator)


def remembered(value: Any) -> Any:
    """A constant as the first run found it."""
    if isinstance(value, np.random.Generator | np.random.RandomState):
        return Drawn(value)
    if is_plain_array(value):
        return copy_with_strides(value)
    return copy.copy(value) if isinstance(value, set | bytearray) else value


def recalled(value: Any) -> Any:
    return value.generator if type(value) is Drawn else remembered(value)


def generators_in(value: Any) -> Iterator[Any]:
    if isinstance(value, np.random.Generator | np.random.RandomState):
        yield value
    elif isinstance(value, list | tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from generators_in(item)


def state_of(generator: Any) -> Any:
    if isinstance(generator, np.random.RandomState):
        return generator.get_state()
    return copy.deepcopy(generator.bit_generator.state)


def set_state(generator: Any, state: Any) -> None:
    if isinstance(generator, np.random.RandomState):
        generator.set_state(state)
    else:
        generator.bit_generator.state = state
