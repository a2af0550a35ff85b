"""Arithmetic of a check: random numbers like given ones, and real inner products in double precision.

A complex number counts as two real ones, so the inner product of a and b is Re(conj(a) * b).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from mutangent._arrays import beside, is_array, is_on_device, on_host, spec_of
from mutangent._traced import primal


def random_like(rng: np.random.Generator, value: Any) -> Any:
    """Random numbers of either sign, none of them near zero, of the shape of `value`, in double precision."""

    def draw() -> Any:
        shape = np.shape(value)
        return rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)

    return draw() + 1j * draw() if spec_of(value).dtype.kind == "c" else draw()


def cast(number: Any, like: Any) -> Any:
    """A new number or array of the type, dtype and memory layout of `like`; an array is as read-only as it is."""
    if not is_array(like):
        return type(like)(number)
    made = np.empty_like(like)
    made[...] = beside(number, like)
    if not is_on_device(like):
        made.flags.writeable = like.flags.writeable
    return made


def copy_of(value: Any) -> Any:
    """A value like a given one that may be written to."""
    return value.copy() if is_on_device(value) else np.array(value) if is_array(value) else value


def double(value: Any) -> Any:
    """A plain number or array as an array in double precision, in the host's memory."""
    array = np.asarray(on_host(value))
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def products(a: Any, b: Any) -> Any:
    """The terms of the real inner product of plain numbers or arrays."""
    return np.real(np.conj(double(a)) * double(b))


def total(terms: Iterable[Any]) -> float:
    """The sum of all elements."""
    return float(sum(np.sum(term) for term in terms))


def norm(terms: Iterable[Any]) -> float:
    """The root of the sum of the squares of all elements."""
    return float(np.sqrt(sum(np.sum(np.abs(term) ** 2) for term in terms)))


def traced_inner(tangent: Any, direction: Any) -> Any:
    """The real inner product in double precision of a tangent, which a recording may trace, with constants."""
    spec = spec_of(tangent)
    wide = np.dtype(np.complex128 if spec.dtype.kind == "c" else np.float64)
    if spec.dtype != wide:
        tangent = tangent.astype(wide)
    direction = beside(direction, primal(tangent))
    terms = np.real(tangent * np.conj(direction)) if wide.kind == "c" else tangent * direction
    return np.sum(terms) if spec.shape else terms


# -- coordinates -------------------------------------------------------------------------------------------------------

Coordinate = tuple[
    int, int, complex
]  # the number of an array in a list, of an element in it, and its unit, 1 or 1j


def coordinates_of(numbers: list[Any]) -> list[Coordinate]:
    """All real coordinates of a list of numbers and arrays that are not zero; None has none."""
    return [
        (position, index, unit)
        for position, number in enumerate(numbers)
        if number is not None
        for index in np.flatnonzero(on_host(number)).tolist()
        for unit in ((1, 1j) if spec_of(number).dtype.kind == "c" else (1,))
    ]


def restricted(numbers: list[Any], coordinates: list[Coordinate]) -> list[Any]:
    """The same numbers with all but the given coordinates set to zero."""
    chosen: list[Any] = [
        None if number is None else np.zeros(np.shape(number), double(number).dtype) for number in numbers
    ]
    for position, index, unit in coordinates:
        element = double(numbers[position]).flat[index]
        chosen[position].flat[index] += element.real if unit == 1 else 1j * element.imag
    return chosen
