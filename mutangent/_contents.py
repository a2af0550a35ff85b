"""Whether an array still holds what it held: how a recording notices that somebody else has written it."""

from __future__ import annotations

import zlib
from typing import Any, Final

import numpy as np

from ._arrays import Array, is_on_device

# Up to here the bytes are kept, and up to there a copy, since comparing takes less time than a checksum, which takes no
# memory. Sums of the words are faster than either, and blind: they can stay the same when an array is negated.
COPIED_BYTES: Final = 1 << 16
COMPARED_BYTES: Final = 1 << 20

Contents = Any  # bytes, an array, or the number of a checksum


def contents_of(array: Array) -> Contents:
    """What `has_contents` needs to tell later whether an array has changed; of one on a device it is a copy there."""
    if type(array) is not np.ndarray and is_on_device(array):
        return array.copy()
    size = array.nbytes
    if size <= COPIED_BYTES:
        return array.tobytes()
    return array.copy() if size <= COMPARED_BYTES else _checksum(array)


def has_contents(array: Array, contents: Contents) -> bool:
    """Whether an array still has the contents that it had."""
    if type(contents) is bytes:
        return bool(array.tobytes() == contents)
    return _checksum(array) == contents if type(contents) is int else same_contents(array, contents)


def in_little_memory(array: Array, contents: Contents) -> Contents:
    """The same contents of an array that has them still, to be kept for long."""
    return _checksum(array) if isinstance(contents, np.ndarray) else contents


def _checksum(array: Array) -> int:
    data = array if array.flags.c_contiguous else array.copy()
    return zlib.crc32(data.reshape(-1).view(np.uint8).data)


def same_contents(a: Array, b: Array) -> bool:
    """Whether two arrays of one shape hold the same numbers, nan among them."""
    # A nan differs from itself, so the comparison by value comes first and is the usual end.
    same = a == b
    return bool(same.all()) or bool((same | (np.isnan(a) & np.isnan(b))).all())
