"""Which settings of an optimiser make sense. A wrong one would fill the weights with nan some steps later."""

from __future__ import annotations

from typing import Any


def at_least_zero(optimiser: Any, attribute: Any, value: Any) -> None:
    """Refuse what is no number ≥ 0. A traced number is one: a learning rate can be learned."""
    if not _holds(value, lambda number: number >= 0):
        raise _wrong(optimiser, attribute, value, "a number ≥ 0")


def below_one(optimiser: Any, attribute: Any, value: Any) -> None:
    """Refuse what is no number from 0 up to, not including, 1."""
    if not _holds(value, lambda number: 0 <= number < 1):
        raise _wrong(optimiser, attribute, value, "a number from 0 up to, not including, 1")


def pair_below_one(optimiser: Any, attribute: Any, value: Any) -> None:
    """Refuse what is no pair of such numbers."""
    if (
        not isinstance(value, tuple | list)
        or len(value) != 2
        or not all(_holds(part, lambda number: 0 <= number < 1) for part in value)
    ):
        raise _wrong(optimiser, attribute, value, "two numbers from 0 up to, not including, 1")


def _holds(value: Any, condition: Any) -> bool:
    try:
        return bool(condition(value))
    except (TypeError, ValueError):  # text, None, an array
        return False


def _wrong(optimiser: Any, attribute: Any, value: Any, needed: str) -> ValueError:
    return ValueError(
        f"{type(optimiser).__name__}: {attribute.name} must be {needed}, and is {value!r}."
        + (" To climb, negate the gradient." if attribute.name == "lr" else "")
    )
