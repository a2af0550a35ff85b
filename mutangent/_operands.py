"""What the operands of an operation become before it is recorded."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import numpy as np

from ._arrays import PLAIN, is_array, is_differentiable, type_name
from ._errors import TracedValueError
from ._rulebook import Rule, no_rule
from ._shadow import detached
from ._tape import Tape
from ._traced import TracedArray, has_open

# In place of the keywords of a call that had none.
NO_SETTINGS: Final[dict[str, Any]] = {}

STATIC: Final = frozenset({int, float, bool, str, type(None), slice, np.dtype, type})


def all_static(values: Iterable[Any]) -> bool:
    """Whether the values are settings: numbers, names, and tuples of integers."""
    for value in values:
        kind = type(value)
        if kind not in STATIC and not (kind is tuple and all(type(item) is int for item in value)):
            return False
    return True


def strong(x: Any) -> Any:
    """A traced number as pullbacks expect it, with a shape and a dtype."""
    return np.float64(x) if type(x) is float else np.complex128(x) if type(x) is complex else x


def is_number(row: Rule, y: Any) -> bool:
    """Whether a result has a tangent space; refuse several results where the rule knows of one."""
    if type(y) is np.ndarray:
        return y.dtype.kind in "fc"
    if type(y) is TracedArray or is_differentiable(y):
        return True
    if isinstance(y, list | tuple) and any(
        type(each) is TracedArray or is_differentiable(each) for each in y
    ):
        raise no_rule(row.function, f" with {len(y)} results")
    return False


def as_operand(value: Any) -> Any:
    """An operand as rules expect it: lists become arrays, and `is_differentiable` refuses special subclasses."""
    if type(value) in PLAIN:
        return value
    if type(value) is list or type(value) is tuple:
        return np.asarray(value)
    if is_array(value):
        is_differentiable(value)
    return value


def refuse_nested(row: Rule, *args: Any) -> None:
    """Refuse a list of traced values where the function expects one array: its items would become constants."""
    for arg in args:
        if (type(arg) is list or type(arg) is tuple) and has_open(arg):
            raise TracedValueError(
                f"{row.name} was given {type_name(arg)} of traced values for an array; making an array of them "
                "would silently lose their gradient. Write np.stack([...]) instead of the list."
            )


def constant(tape: Tape, value: Any) -> Any:
    """A constant operand as it is to be saved: later writes must not change it."""
    if type(value) is list:
        return [constant(tape, item) for item in value]
    return detached(value) if type(value) is TracedArray else tape.constant(value)


def settled(value: Any) -> Any:
    if type(value) is list or type(value) is tuple:
        return type(value)([settled(item) for item in value])
    return value.copy() if type(value) is np.ndarray else value


def serial_of(tape: Tape) -> int:
    return tape.serial
