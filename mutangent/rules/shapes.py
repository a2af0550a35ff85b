"""Derivatives of functions that arrange elements anew: each element of the operand goes to known places of the result.

All of them are linear. The cotangents go back the same way.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._arrays import arange, is_array
from .._rulebook import composed, function
from .dispatch import array_beside, plain

# -- the same elements in another shape ----------------------------------------------------------------------------


def unordered(order: Any) -> str | None:
    """What there is to say against an `order` that depends on the memory of an array, which is not kept."""
    return None if order in ("C", "F") else f"order={order!r}"


def reshape_pullback(
    g: Any,
    _y: Any,
    _a: Any,
    shape: Any = None,
    order: str = "C",
    *,
    copy: bool | None = None,
) -> Any:
    return g.reshape(_a.shape, order=order)


def transpose_pullback(g: Any, _y: Any, _a: Any, axes: Sequence[int] | None = None) -> Any:
    if axes is None:
        return np.transpose(g)
    back = [0] * len(axes)
    for new, old in enumerate(axes):
        back[old] = new
    return np.transpose(g, back)


function(
    np.reshape,
    reshape_pullback,
    linear=True,
    refuse=lambda a, shape=None, order="C", **_keywords: unordered(order),
)
function(
    np.ravel,
    lambda g, _y, _a, order="C": g.reshape(_a.shape, order=order),
    linear=True,
    refuse=lambda a, order="C": unordered(order),
)
function(np.squeeze, lambda g, _y, _a, axis=None: g.reshape(_a.shape), linear=True)
function(np.expand_dims, lambda g, _y, _a, axis=None: g.reshape(_a.shape), linear=True)
function(np.copy, lambda g, _y, _a, order="K", subok=False: g, linear=True)
function(np.transpose, transpose_pullback, linear=True)
function(np.matrix_transpose, lambda g, _y, _x: np.matrix_transpose(g), linear=True)
function(np.swapaxes, lambda g, _y, _a, axis1=None, axis2=None: np.swapaxes(g, axis1, axis2), linear=True)
function(
    np.moveaxis,
    lambda g, _y, _a, source=None, destination=None: np.moveaxis(g, destination, source),
    linear=True,
)
function(np.flip, lambda g, _y, _m, axis=None: np.flip(g, axis), linear=True)
function(np.fliplr, lambda g, _y, _m: np.fliplr(g), linear=True)
function(np.flipud, lambda g, _y, _m: np.flipud(g), linear=True)
function(np.rot90, lambda g, _y, _m, k=1, axes=(0, 1): np.rot90(g, -k, axes), linear=True)


def roll_pullback(g: Any, _y: Any, _a: Any, shift: Any = None, axis: Any = None) -> Any:
    back = tuple([-by for by in shift]) if isinstance(shift, tuple | list) else -shift
    return np.roll(g, back, axis)


function(np.roll, roll_pullback, linear=True)


def at_least(ndim: int, reshaped: Callable[..., Any]) -> Callable[..., Any]:
    """`atleast_1d` and its kin, which take any number of arrays."""

    def implementation(*arrays: Any) -> Any:
        found = tuple([x if np.ndim(x) >= ndim else reshaped(x, np.shape(x)) for x in arrays])
        return found[0] if len(found) == 1 else found

    return implementation


composed(np.atleast_1d, at_least(1, lambda x, shape: np.reshape(x, (1,))))
composed(np.atleast_2d, at_least(2, lambda x, shape: np.reshape(x, (1, *(shape or (1,))))))
composed(
    np.atleast_3d,
    at_least(3, lambda x, shape: np.reshape(x, (*shape, 1) if len(shape) == 2 else (1, *(shape or (1,)), 1))),
)

# -- repeated elements ---------------------------------------------------------------------------------------------


def tile_pullback(g: Any, _y: Any, _A: Any, reps: Any = None) -> Any:
    times = tuple(reps) if np.ndim(reps) else (reps,)
    ndim = max(len(times), _A.ndim)
    times = (1,) * (ndim - len(times)) + times
    lengths = (1,) * (ndim - _A.ndim) + _A.shape
    blocks = tuple([number for pair in zip(times, lengths, strict=True) for number in pair])
    return np.sum(g.reshape(blocks), axis=tuple(range(0, 2 * ndim, 2))).reshape(_A.shape)


# The sweep undoes broadcasting.
function(np.broadcast_to, lambda g, _y, _array, shape=None, subok=False: g, linear=True)


def broadcast_together(*arrays: Any, subok: bool = False) -> tuple[Any, ...]:
    shape = np.broadcast_shapes(*[np.shape(x) for x in arrays])
    # One that has the shape already is not made a view of, which could not be written.
    return tuple(
        [x if np.shape(x) == shape and is_array(plain(x)) else np.broadcast_to(x, shape) for x in arrays]
    )


def meshed(*xi: Any, copy: bool = True, sparse: bool = False, indexing: str = "xy") -> Any:
    ndim = len(xi)
    places = [1, 0, *range(2, ndim)] if indexing == "xy" and ndim > 1 else list(range(ndim))
    found: Any = [
        np.reshape(x, tuple([-1 if k == place else 1 for k in range(ndim)]))
        for x, place in zip(xi, places, strict=True)
    ]
    if not sparse:
        found = np.broadcast_arrays(*found)
    return tuple([np.copy(line) for line in found]) if copy else found


composed(np.broadcast_arrays, broadcast_together)
composed(np.meshgrid, meshed)
function(np.tile, tile_pullback, linear=True)
function(
    np.full_like,
    lambda g, _y, _a, _fill_value, dtype=None, order="K", subok=True, shape=None: np.zeros_like(
        g, shape=_a.shape
    ),
    lambda g, _y, _a, _fill_value, dtype=None, order="K", subok=True, shape=None: g,
)

# -- several arrays in one -----------------------------------------------------------------------------------------


def part(g: Any, start: int, stop: int, axis: int) -> Any:
    """``g[start:stop]`` along an axis."""
    return g[(slice(None),) * (axis % g.ndim) + (slice(start, stop),)]


def parts(g: Any, items: Sequence[Any], axis: int, lengths: Sequence[int]) -> list[Any]:
    """`g` cut along an axis into one part per item, each in the shape of the item."""
    found = []
    start = 0
    for item, length in zip(items, lengths, strict=True):
        piece = part(g, start, start + length, axis)
        found.append(piece if piece.shape == item.shape else piece.reshape(item.shape))
        start += length
    return found


def concatenate_pullback(
    g: Any,
    _y: Any,
    _arrays: Any,
    axis: int | None = 0,
    out: None = None,
    *,
    dtype: Any = None,
    casting: Any = None,
) -> list[Any]:
    if axis is None:
        return parts(g, _arrays, 0, [item.size for item in _arrays])
    return parts(g, _arrays, axis, [item.shape[axis] for item in _arrays])


def stack_pullback(
    g: Any, _y: Any, _arrays: Any, axis: int = 0, out: None = None, *, dtype: Any = None, casting: Any = None
) -> list[Any]:
    if axis == 0:
        return [g[k] for k in range(len(_arrays))]
    return parts(g, _arrays, axis, [1] * len(_arrays))


def vstack_pullback(g: Any, _y: Any, _tup: Any, *, dtype: Any = None, casting: Any = None) -> list[Any]:
    return parts(g, _tup, 0, [item.shape[0] if item.ndim > 1 else 1 for item in _tup])


def hstack_pullback(g: Any, _y: Any, _tup: Any, *, dtype: Any = None, casting: Any = None) -> list[Any]:
    axis = 0 if g.ndim == 1 else 1
    return parts(g, _tup, axis, [item.shape[axis] if item.ndim else 1 for item in _tup])


def column_stack_pullback(g: Any, _y: Any, _tup: Any) -> list[Any]:
    return parts(g, _tup, 1, [item.shape[1] if item.ndim > 1 else 1 for item in _tup])


def dstack_pullback(g: Any, _y: Any, _tup: Any) -> list[Any]:
    return parts(g, _tup, 2, [item.shape[2] if item.ndim > 2 else 1 for item in _tup])


function(np.concatenate, concatenate_pullback, linear=True, sequence=True)


def direct_stack(arrays: Any, axis: int = 0, **kwargs: Any) -> Any:
    """`numpy.stack` of a few NumPy arrays along a new first axis, without most of its checks."""
    if axis == 0 and not kwargs and len(arrays) < FEW:
        shape = arrays[0].shape if type(arrays[0]) is np.ndarray else None
        if all(type(each) is np.ndarray and each.shape == shape for each in arrays):
            return np.concatenate([each[None] for each in arrays])
    return np.stack(arrays, axis, **kwargs)


FEW = 16
function(np.stack, stack_pullback, linear=True, sequence=True, direct=direct_stack)
function(np.vstack, vstack_pullback, linear=True, sequence=True)
function(np.hstack, hstack_pullback, linear=True, sequence=True)
function(np.column_stack, column_stack_pullback, linear=True, sequence=True)
function(np.dstack, dstack_pullback, linear=True, sequence=True)


def appended(arr: Any, values: Any, axis: int | None = None) -> Any:
    values = array_beside(values, arr)
    if axis is None:
        return np.concatenate([np.ravel(arr), np.ravel(values)])
    return np.concatenate([arr, values], axis=axis)


composed(np.append, appended)

# -- one array in several ------------------------------------------------------------------------------------------


def split_pullback(g: Any, _y: Any, _ary: Any, indices_or_sections: Any = None, axis: int = 0) -> Any:
    joined = np.concatenate(g, axis)
    length = _ary.shape[axis]
    if joined.shape[axis] == length:
        return joined
    # The indices were not in order, so that some parts overlap.
    own = arange(length, joined)
    places = np.concatenate(np.split(own, indices_or_sections))
    came_from = (places == own[:, None]).astype(joined.dtype)
    return np.moveaxis(np.tensordot(came_from, joined, (1, axis)), 0, axis)


def direct_split(ary: Any, indices_or_sections: Any, axis: int = 0) -> Any:
    """`numpy.split` into equal parts, by slices."""
    if type(indices_or_sections) is int and type(axis) is int and -ary.ndim <= axis < ary.ndim:
        axis %= ary.ndim
        length, rest = divmod(ary.shape[axis], indices_or_sections) if indices_or_sections > 0 else (0, 1)
        if rest == 0:
            before = (slice(None),) * axis
            starts = range(0, indices_or_sections * length, length) if length else [0] * indices_or_sections
            return [ary[(*before, slice(start, start + length))] for start in starts]
    return np.split(ary, indices_or_sections, axis)


function(np.split, split_pullback, linear=True, multiple=True, direct=direct_split)
function(np.array_split, split_pullback, linear=True, multiple=True)
function(
    np.hsplit,
    lambda g, _y, _ary, indices_or_sections=None: split_pullback(
        g, None, _ary, indices_or_sections, 1 if _ary.ndim > 1 else 0
    ),
    linear=True,
    multiple=True,
)
function(
    np.vsplit,
    lambda g, _y, _ary, indices_or_sections=None: split_pullback(g, None, _ary, indices_or_sections, 0),
    linear=True,
    multiple=True,
)
function(
    np.dsplit,
    lambda g, _y, _ary, indices_or_sections=None: split_pullback(g, None, _ary, indices_or_sections, 2),
    linear=True,
    multiple=True,
)
if hasattr(np, "unstack"):  # NumPy 2.1
    function(np.unstack, lambda g, _y, _x, axis=0: np.stack(g, axis), linear=True, multiple=True)

# -- parts of a matrix ---------------------------------------------------------------------------------------------

function(np.triu, lambda g, _y, _m, k=0: np.triu(g, k), linear=True)
function(np.tril, lambda g, _y, _m, k=0: np.tril(g, k), linear=True)
