"""Functions that write into their first argument, as assignments to its items.

The array that is written knows what an assignment means for derivatives, so these functions need none of their own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import arange, as_array, describe, is_plain_array
from .._errors import TracedValueError
from .._rulebook import composed
from .indexing import size_of

Places = tuple[Any, ...]


def require_traced(array: Any, name: str) -> None:
    """Raise if `array`, which is about to take a traced value, is a plain array: the gradient would be lost."""
    if is_plain_array(array):
        raise TracedValueError(
            f"{name} would write a traced value into {describe(array)} that is not traced, and its gradient would be lost. "
            "Hold the array in a field of a captured object, or make it with np.zeros_like(x), where x is traced. "
            "Write x * np.ones_like(plain) for np.full_like(plain, x)."
        )


def places_of(numbers: Any, shape: tuple[int, ...]) -> Places:
    """The index of the elements with these numbers, counted in C order."""
    return tuple(np.unravel_index(numbers, shape))


def repeated(values: Any, size: int) -> Any:
    """The elements of `values` in C order, from the start again as often as needed: `size` of them."""
    return np.resize(values, (size,))


def copied_to(dst: Any, src: Any, casting: Any = "same_kind", where: Any = True) -> None:
    require_traced(dst, "np.copyto")
    source = getattr(src, "dtype", None)
    if source is not None and not np.can_cast(source, dst.dtype, casting):
        raise TypeError(
            f"Cannot cast array data from {source!r} to {dst.dtype!r} according to the rule {casting!r}"
        )
    dst[...] = src if where is True else np.where(where, src, dst)


def put(a: Any, ind: Any, v: Any, mode: str = "raise") -> None:
    require_traced(a, "np.put")
    numbers = np.ravel(as_array(ind, np.intp))
    size = size_of(a.shape)
    if numbers.size and not size:
        raise IndexError("cannot replace elements of an empty array")
    if mode == "raise":
        outside = numbers[(numbers < -size) | (numbers >= size)]
        if outside.size:
            raise IndexError(f"index {outside[0]} is out of bounds for axis 0 with size {size}")
        numbers = np.where(numbers < 0, numbers + size, numbers)
    else:
        numbers = np.remainder(numbers, size) if mode == "wrap" else np.clip(numbers, 0, size - 1)
    if numbers.size and np.size(v):
        values = repeated(v, numbers.size)
        a[places_of(numbers, a.shape) if a.shape else ...] = values if a.shape else values[-1]


def place(arr: Any, mask: Any, vals: Any) -> None:
    require_traced(arr, "np.place")
    chosen = np.reshape(as_array(mask, bool), arr.shape)
    count = int(np.count_nonzero(chosen))
    if count and not np.size(vals):
        raise ValueError("Cannot insert from an empty array!")
    if count:
        arr[chosen] = repeated(vals, count)


def put_mask(a: Any, mask: Any, values: Any) -> None:
    require_traced(a, "np.putmask")
    chosen = np.reshape(as_array(mask, bool), a.shape)
    if np.size(values):
        a[chosen] = np.reshape(repeated(values, chosen.size), chosen.shape)[chosen]


def fill_diagonal(a: Any, val: Any, wrap: bool = False) -> None:
    require_traced(a, "np.fill_diagonal")
    if a.ndim < 2:
        raise ValueError("array must be at least 2-d")
    numbers = arange(size_of(a.shape), a)
    if a.ndim == 2:
        columns = a.shape[1]
        numbers = numbers[: None if wrap else columns * columns : columns + 1]
    else:
        if len(set(a.shape)) > 1:
            raise ValueError("All dimensions of input must be of equal length")
        numbers = numbers[:: 1 + sum(size_of(a.shape[:k]) for k in range(1, a.ndim))]
    if numbers.size:
        a[places_of(numbers, a.shape)] = repeated(val, numbers.size)


def put_along_axis(arr: Any, indices: Any, values: Any, axis: int | None = -1) -> None:
    require_traced(arr, "np.put_along_axis")
    if axis is None:
        arr[places_of(np.remainder(indices, size_of(arr.shape)), arr.shape)] = values
        return
    axis = range(arr.ndim)[axis]
    index = [
        indices if k == axis else np.reshape(np.arange(length), (-1,) + (1,) * (arr.ndim - k - 1))
        for k, length in enumerate(arr.shape)
    ]
    arr[tuple(index)] = values


composed(np.copyto, copied_to)
composed(np.put, put)
composed(np.place, place)
composed(np.putmask, put_mask)
composed(np.fill_diagonal, fill_diagonal)
composed(np.put_along_axis, put_along_axis)
