"""Derivatives of products of matrices and tensors.

The cotangent of a factor is the cotangent of the product contracted with the other factors, conjugated if they are
complex. Batches are folded into one matrix product where that is possible; the sweep sums over axes that broadcast.

Two matrices are multiplied by `numpy.dot`: it has less overhead than `@`, and stays in BLAS for a column times a row.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._accumulate import broadcast, unbroadcast
from .._rulebook import composed, function
from .assembling import in_dtype
from .dispatch import array_of, dispatched
from .indexing import added_at, numbers, size_of


def conjugated(x: Any) -> Any:
    """The complex conjugate, without a copy of what is real."""
    return np.conj(x) if np.iscomplexobj(x) else x


def rows(x: Any) -> Any:
    """`x` with all axes but the last in one."""
    return x.reshape((size_of(x.shape[:-1]), x.shape[-1]))


def transposed(x: Any) -> Any:
    """`x` with its last two axes swapped."""
    return np.swapaxes(x, -1, -2)


# -- matmul --------------------------------------------------------------------------------------------------------


def matmul_left_pullback(g: Any, _y: Any, _a: Any, b: Any) -> Any:
    if b.dtype.kind == "c":
        b = np.conj(b)
    if b.ndim == 1:
        return g[..., None] * b
    if b.ndim == 2:
        if _a.ndim == 2:
            return np.dot(g, b.T)
        return np.dot(b, g) if _a.ndim == 1 else np.dot(rows(g), b.T).reshape(_a.shape)
    if _a.ndim == 1:
        return np.matmul(b, g[..., None])[..., 0]
    if _a.ndim == 2:
        summed = (*range(b.ndim - 2), b.ndim - 1)
        return np.tensordot(g, b, (summed, summed))
    return np.matmul(g, transposed(b))


def matmul_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    if a.dtype.kind == "c":
        a = np.conj(a)
    if a.ndim == 2 and _b.ndim == 2:
        return np.dot(a.T, g)
    if a.ndim == 1:
        return g * a if _b.ndim == 1 else a[:, None] * g[..., None, :]
    if _b.ndim == 1:
        return np.dot(g.reshape((g.size,)), rows(a))
    if _b.ndim == 2:
        return np.dot(rows(a).T, rows(g))
    return np.matmul(transposed(a), g)


def matvec_left_pullback(g: Any, _y: Any, _a: Any, x: Any) -> Any:
    return g[..., None] * conjugated(x)[..., None, :]


def matvec_right_pullback(g: Any, _y: Any, a: Any, _x: Any) -> Any:
    return np.matmul(transposed(conjugated(a)), g[..., None])[..., 0]


def vecmat_left_pullback(g: Any, _y: Any, _x: Any, a: Any) -> Any:
    return np.matmul(a, conjugated(g)[..., None])[..., 0]


def vecmat_right_pullback(g: Any, _y: Any, x: Any, _a: Any) -> Any:
    return x[..., None] * g[..., None, :]


function(np.matmul, matmul_left_pullback, matmul_right_pullback, linear=True)
if hasattr(np, "matvec"):  # NumPy 2.2
    function(np.matvec, matvec_left_pullback, matvec_right_pullback, linear=True)
    function(np.vecmat, vecmat_left_pullback, vecmat_right_pullback, linear=True)

# -- dot, inner, outer ---------------------------------------------------------------------------------------------


def dot_left_pullback(g: Any, _y: Any, _a: Any, b: Any) -> Any:
    if _a.ndim == 0 or np.ndim(b) == 0:
        return g * conjugated(b)
    if b.ndim == 1 or (b.ndim == 2 and _a.ndim <= 2):
        return matmul_left_pullback(g, None, _a, b)
    own = tuple(range(_a.ndim - 1, g.ndim))
    return np.tensordot(g, conjugated(b), (own, (*range(b.ndim - 2), b.ndim - 1)))


def dot_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    if np.ndim(a) == 0 or _b.ndim == 0:
        return g * conjugated(a)
    if _b.ndim == 1 or (_b.ndim == 2 and a.ndim <= 2):
        return matmul_right_pullback(g, None, a, _b)
    summed = tuple(range(a.ndim - 1))
    return np.moveaxis(np.tensordot(conjugated(a), g, (summed, summed)), 0, -2)


def vdot_left_pullback(g: Any, _y: Any, _a: Any, b: Any) -> Any:
    return (conjugated(g) * b).reshape(_a.shape)


def vdot_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    return (g * a).reshape(_b.shape)


def along_core(contribution: Any, axis: int, ndim: int) -> Any:
    """The last axis of a contribution moved to where `axis` is in an operand with `ndim` axes."""
    return np.moveaxis(contribution, -1, axis - ndim if axis >= 0 else axis)


def vecdot_left_pullback(g: Any, _y: Any, _a: Any, b: Any, *, axis: int = -1) -> Any:
    return along_core(conjugated(g)[..., None] * np.moveaxis(b, axis, -1), axis, _a.ndim)


def vecdot_right_pullback(g: Any, _y: Any, a: Any, _b: Any, *, axis: int = -1) -> Any:
    return along_core(g[..., None] * np.moveaxis(a, axis, -1), axis, _b.ndim)


def outer_left_pullback(g: Any, _y: Any, _a: Any, b: Any, out: None = None) -> Any:
    return np.dot(g, np.ravel(conjugated(b))).reshape(_a.shape)


def outer_right_pullback(g: Any, _y: Any, a: Any, _b: Any, out: None = None) -> Any:
    return np.dot(np.ravel(conjugated(a)), g).reshape(_b.shape)


function(np.dot, dot_left_pullback, dot_right_pullback, linear=True)
function(np.vdot, vdot_left_pullback, vdot_right_pullback, linear=True)
function(np.vecdot, vecdot_left_pullback, vecdot_right_pullback, linear=True)
function(np.outer, outer_left_pullback, outer_right_pullback, linear=True)

# -- tensordot -----------------------------------------------------------------------------------------------------

Axes = int | Sequence[Any]


def summed_axes(axes: Axes, a_ndim: int, b_ndim: int) -> tuple[list[int], list[int]]:
    """The axes over which `tensordot` sums, in either operand."""
    if isinstance(axes, int | np.integer):
        return list(range(a_ndim - int(axes), a_ndim)), list(range(int(axes)))
    of_a, of_b = [list(each) if isinstance(each, Sequence) else [each] for each in axes]
    return [k % a_ndim for k in of_a], [k % b_ndim for k in of_b]


def others(ndim: int, taken: Sequence[int]) -> list[int]:
    return [k for k in range(ndim) if k not in taken]


def tensordot_left_pullback(g: Any, _y: Any, _a: Any, b: Any, axes: Axes = 2) -> Any:
    b = conjugated(b)
    of_a, of_b = summed_axes(axes, _a.ndim, b.ndim)
    free_a, free_b = others(_a.ndim, of_a), others(b.ndim, of_b)
    found = np.tensordot(g, b, (tuple(range(len(free_a), g.ndim)), tuple(free_b)))
    # Now the free axes of a come first, then the summed ones in the order they have in b.
    order = free_a + [of_a[of_b.index(k)] for k in sorted(of_b)]
    return np.transpose(found, [order.index(k) for k in range(_a.ndim)])


def tensordot_right_pullback(g: Any, _y: Any, a: Any, _b: Any, axes: Axes = 2) -> Any:
    a = conjugated(a)
    of_a, of_b = summed_axes(axes, a.ndim, _b.ndim)
    free_a, free_b = others(a.ndim, of_a), others(_b.ndim, of_b)
    found = np.tensordot(a, g, (tuple(free_a), tuple(range(len(free_a)))))
    order = [of_b[of_a.index(k)] for k in sorted(of_a)] + free_b
    return np.transpose(found, [order.index(k) for k in range(_b.ndim)])


def inner_left_pullback(g: Any, _y: Any, _a: Any, b: Any) -> Any:
    if _a.ndim == 0 or np.ndim(b) == 0:
        return g * conjugated(b)
    return tensordot_left_pullback(g, None, _a, b, (-1, -1))


def inner_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    if np.ndim(a) == 0 or _b.ndim == 0:
        return g * conjugated(a)
    return tensordot_right_pullback(g, None, a, _b, (-1, -1))


function(np.tensordot, tensordot_left_pullback, tensordot_right_pullback, linear=True)
function(np.inner, inner_left_pullback, inner_right_pullback, linear=True)

# -- kron ----------------------------------------------------------------------------------------------------------


def in_blocks(g: Any, a_shape: tuple[int, ...], b_shape: tuple[int, ...]) -> Any:
    """The result of `kron` with an axis of its own for each axis of the first operand, then of the second."""
    ndim = max(len(a_shape), len(b_shape))
    outer = (1,) * (ndim - len(a_shape)) + a_shape
    inner = (1,) * (ndim - len(b_shape)) + b_shape
    blocks = tuple([length for pair in zip(outer, inner, strict=True) for length in pair])
    return np.transpose(g.reshape(blocks), (*range(0, 2 * ndim, 2), *range(1, 2 * ndim, 2))).reshape(
        a_shape + b_shape
    )


def kron_left_pullback(g: Any, _y: Any, _a: Any, b: Any) -> Any:
    return np.tensordot(in_blocks(g, _a.shape, np.shape(b)), conjugated(b), np.ndim(b))


def kron_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    return np.tensordot(conjugated(a), in_blocks(g, np.shape(a), _b.shape), np.ndim(a))


function(np.kron, kron_left_pullback, kron_right_pullback, linear=True)

# -- einsum --------------------------------------------------------------------------------------------------------


def einsum_terms(subscripts: str, ndims: Sequence[int]) -> tuple[list[str], str]:
    """The subscripts of each operand and of the result, with letters for the ellipsis and for the implied result."""
    left, arrow, result = subscripts.replace(" ", "").partition("->")
    terms = left.split(",")
    unused = [
        letter
        for letter in "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
        if letter not in subscripts
    ]
    hidden = [
        ndim - len(term.replace("...", "")) if "..." in term else 0
        for term, ndim in zip(terms, ndims, strict=True)
    ]
    ellipsis = "".join(unused[: max(hidden)])
    terms = [
        term.replace("...", ellipsis[len(ellipsis) - number :])
        for term, number in zip(terms, hidden, strict=True)
    ]
    if arrow:
        return terms, result.replace("...", ellipsis)
    letters = "".join(terms)
    return terms, ellipsis + "".join(
        sorted({x for x in letters if letters.count(x) == 1 and x not in ellipsis})
    )


def einsum_pullback(g: Any, position: int, subscripts: str, operands: Sequence[Any], optimize: Any) -> Any:
    """The cotangent of one operand of `einsum`: another `einsum`, of the cotangent with the other operands."""
    operands = [x for x in operands if x is not None]
    own = operands[position]
    terms, result = einsum_terms(subscripts, [np.ndim(x) for x in operands])
    rest = [k for k in range(len(operands)) if k != position]
    sources = [terms[k] for k in rest] + [result]
    letters = "".join(dict.fromkeys(terms[position]))
    known = "".join([x for x in letters if any(x in source for source in sources)])
    found = np.einsum(
        f"{','.join(sources)}->{known}", *[conjugated(operands[k]) for k in rest], g, optimize=optimize
    )
    # A letter that no other term has was summed over: all of its elements have the same share. Letters of length 1
    # broadcast in either direction.
    own_lengths = dict(zip(terms[position], own.shape, strict=True))
    lengths = dict(zip(known, found.shape, strict=True))
    shape = tuple([max(own_lengths[x], lengths.get(x, 1)) if own_lengths[x] else 0 for x in letters])
    found = broadcast(found.reshape(tuple([lengths.get(x, 1) for x in letters])), shape)
    if letters == terms[position]:
        return found
    # A repeated letter took a diagonal.
    found = unbroadcast(found, tuple([own_lengths[x] for x in letters]))
    return added_at(np.einsum(f"{terms[position]}->{letters}", numbers(own.shape, g)), found, own.shape)


einsum = dispatched(np.einsum)
function(
    einsum,
    None,
    lambda g, _y, subscripts, _a, b=None, c=None, d=None, optimize=False: einsum_pullback(
        g, 0, subscripts, (_a, b, c, d), optimize
    ),
    lambda g, _y, subscripts, a, _b=None, c=None, d=None, optimize=False: einsum_pullback(
        g, 1, subscripts, (a, _b, c, d), optimize
    ),
    lambda g, _y, subscripts, a, b=None, _c=None, d=None, optimize=False: einsum_pullback(
        g, 2, subscripts, (a, b, _c, d), optimize
    ),
    lambda g, _y, subscripts, a, b=None, c=None, _d=None, optimize=False: einsum_pullback(
        g, 3, subscripts, (a, b, c, _d), optimize
    ),
    linear=True,
)


def rearranged(a: Any, subscripts: str) -> Any:
    return np.einsum(subscripts, a)


# Of one operand of which nothing is summed NumPy makes a view, whatever the dtype: a transpose or a diagonal, which can be
# written.
rearranged = dispatched(rearranged)
function(
    rearranged,
    lambda g, _y, _a, subscripts: einsum_pullback(g, 0, subscripts, (_a,), False),
    linear=True,
)


LETTERS = "abcdefghijklmnopqrstuvwxyz"
MOST_OPERANDS = 4


def in_letters(operands: Sequence[Any]) -> tuple[str, list[Any]]:
    """Subscripts and operands, also of the form ``a, [0, 1], b, [1, 2], [0, 2]``."""
    if isinstance(operands[0], str):
        return operands[0], [array_of(x) for x in operands[1:]]
    lists = [*operands[1::2], *operands[len(operands) - len(operands) % 2 :]]
    labels = sorted({label for each in lists for label in each if label is not Ellipsis})
    letter = {
        label: LETTERS[k] for k, label in enumerate(labels)
    }  # in this order, which decides on an implied result
    terms = ["".join(["..." if label is Ellipsis else letter[label] for label in each]) for each in lists]
    count = len(operands) // 2
    return ",".join(terms[:count]) + "".join([f"->{term}" for term in terms[count:]]), [
        array_of(x) for x in operands[: 2 * count : 2]
    ]


def in_pairs(subscripts: str, operands: list[Any]) -> Any:
    """The product of many tensors, two at a time, in the order that NumPy finds cheapest."""
    terms, result = einsum_terms(subscripts, [np.ndim(x) for x in operands])
    like_them = [np.broadcast_to(0.0, np.shape(x)) for x in operands]  # the path depends on the shapes alone
    path = np.einsum_path(f"{','.join(terms)}->{result}", *like_them, optimize="greedy")[0][1:]
    for places in path:
        taken = [(terms.pop(k), operands.pop(k)) for k in sorted(places, reverse=True)]
        needed = "".join(terms) + result
        letters = "".join(dict.fromkeys("".join([term for term, _ in taken])))
        term = "".join([x for x in letters if x in needed]) if terms else result
        operands.append(einsum(f"{','.join([each for each, _ in taken])}->{term}", *[x for _, x in taken]))
        terms.append(term)
    return operands[0]


def contracted(
    *operands: Any, out: None = None, dtype: Any = None, casting: Any = "safe", optimize: Any = False
) -> Any:
    subscripts, arrays = in_letters(operands)
    if len(arrays) == 1:
        (term,), result = einsum_terms(subscripts, [np.ndim(arrays[0])])
        if set(term) == set(result):
            return rearranged(arrays[0], f"{term}->{result}")
    if dtype is not None:
        for x in arrays:
            if not np.can_cast(np.result_type(x), dtype, casting):
                raise TypeError(
                    f"Cannot cast operand from {np.result_type(x)} to {np.dtype(dtype)} by {casting!r}"
                )
        arrays = [in_dtype(x, np.dtype(dtype)) for x in arrays]
    if len(arrays) > MOST_OPERANDS:
        return in_pairs(subscripts, arrays)
    return einsum(subscripts, *arrays, optimize=optimize)


composed(np.einsum, contracted)
