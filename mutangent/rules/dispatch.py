"""Operations of the rules' own, and the plain value of an operand.

A composed function sometimes rests on a step that is no NumPy function: one mode of a NumPy function, for which there is
a derivative, or a look at the numbers themselves, which decide on a selection. Such a step finds the recording as NumPy's
functions do, by the `__array_function__` of a traced operand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import beside, namespace_of
from .._rulebook import constant


def is_traced(x: Any) -> bool:
    """Whether `x` is a traced value. Rules do not know the class, so this asks for what no other array has."""
    return hasattr(x, "_scatter")


def dispatched(function: Callable[..., Any]) -> Callable[..., Any]:
    """`function` as an operation that a rule can be declared for, by the name that this returns."""

    def operation(*args: Any, **kwargs: Any) -> Any:
        for x in args:
            if is_traced(x):
                return x.__array_function__(operation, (type(x),), args, kwargs)
        return function(*args, **kwargs)

    operation.__name__ = function.__name__.lstrip("_")
    operation.__module__ = function.__module__
    return operation


def keeps(matrix: Any, direction: Any) -> bool:
    """Whether a traced matrix never moves in a direction, to first order, whatever moves that it was computed from."""
    return bool(matrix._keeps(direction))


def _plain(x: Any) -> Any:
    return x


def array_of(x: Any) -> Any:
    """A list as an array; one of traced values is refused, as NumPy would make constants of them."""
    return np.asarray(x) if isinstance(x, list | tuple) else x


def array_beside(x: Any, like: Any) -> Any:
    """An array, list or number as an array of the library of `like`; one of the host beside NumPy's stays as it is."""
    library = namespace_of(like)
    if library is np or namespace_of(x) is library:
        return x
    # A number that is traced gets to the device as a factor.
    return x * library.ones(()) if is_traced(x) else beside(x, like)


def strong(x: Any) -> Any:
    """A Python number as NumPy's, of double precision; its operations give NumPy's numbers then."""
    return np.positive(x) if type(plain(x)) in (float, complex) else x


plain = dispatched(_plain)
"""The plain value of an array, traced or not. What is computed from it is a constant."""

constant(plain)
