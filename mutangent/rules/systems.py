"""Derivatives of pseudo-inverses, least squares, condition numbers, matrix powers and chains of products."""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .._rulebook import composed, function
from .assembling import in_dtype
from .decompositions import symmetric
from .dispatch import array_of, plain
from .indexing import size_of
from .linalg import adjoint

# -- pseudo-inverses and least squares -----------------------------------------------------------------------------


def pinv_pullback(
    g: Any, y: Any, a: Any, rcond: Any = None, hermitian: bool = False, *, rtol: Any = None
) -> Any:
    """Golub and Pereyra (1973): as long as the rank stays what it is."""
    back, bar = adjoint(y), adjoint(g)
    in_rows, in_columns = np.matmul(bar, np.matmul(y, back)), np.matmul(np.matmul(back, y), bar)
    outside_left = in_rows - np.matmul(a, np.matmul(y, in_rows))
    outside_right = in_columns - np.matmul(np.matmul(in_columns, y), a)
    found = outside_left + outside_right - np.matmul(np.matmul(back, g), back)
    return symmetric(found) if hermitian else found


function(np.linalg.pinv, pinv_pullback)


def in_one_precision(a: Any, b: Any) -> tuple[Any, Any]:
    """Both matrices in the dtype that LAPACK computes in."""
    dtype = np.result_type(a, b)
    if np.float16 in (a.dtype, b.dtype):
        raise TypeError("array type float16 is unsupported in linalg")
    return in_dtype(a, dtype), in_dtype(b, dtype)


def least_squares(a: Any, b: Any, rcond: float | None = None) -> tuple[Any, Any, Any, Any]:
    a, b = in_one_precision(array_of(a), array_of(b))
    m, n = a.shape
    epsilon = float(np.finfo(a.dtype).eps)
    cutoff = epsilon * max(m, n) if rcond is None else epsilon if rcond < 0 else rcond
    x = np.matmul(np.linalg.pinv(a, cutoff), b)
    s = np.linalg.svd(a, compute_uv=False)
    rank = np.sum(plain(s) > cutoff * plain(s)[:1])
    if rank == n and m > n:
        left = np.absolute(b - np.matmul(a, x))
        residuals = np.sum(left * left, axis=0, keepdims=b.ndim == 1)
    else:
        residuals = np.zeros_like(np.real(plain(b)), shape=(0,))
    return x, residuals, rank.astype(np.int32), s


composed(np.linalg.lstsq, least_squares)


def condition(x: Any, p: Any = None) -> Any:
    if p is None or p in (2, -2):
        s = np.linalg.svd(x, compute_uv=False)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    return np.linalg.norm(x, p, axis=(-2, -1)) * np.linalg.norm(np.linalg.inv(x), p, axis=(-2, -1))


composed(np.linalg.cond, condition)

# -- products ------------------------------------------------------------------------------------------------------


def matrix_power(a: Any, n: int) -> Any:
    """Squares of squares, multiplied where `n` has a binary digit."""
    if np.ndim(a) < 2 or a.shape[-1] != a.shape[-2]:
        raise np.linalg.LinAlgError("Last 2 dimensions of the array must be square")
    if n == 0:
        return np.zeros_like(a) + np.diag(np.ones_like(a, shape=a.shape[-1:]))
    if n < 0:
        a, n = np.linalg.inv(a), -n
    if n == 3:
        return np.matmul(np.matmul(a, a), a)
    square, result = a, None
    while n:
        if n % 2:
            result = square if result is None else np.matmul(result, square)
        n //= 2
        if n:
            square = np.matmul(square, square)
    return result


def multiplied(arrays: Sequence[Any], *, out: None = None) -> Any:
    """The chain multiplied in the cheapest order, by the textbook's dynamic programme."""
    arrays = [array_of(x) for x in arrays]
    if len(arrays) == 2:
        return np.dot(*arrays)
    first, last = arrays[0], arrays[-1]
    chain = [
        first[None, :] if first.ndim == 1 else first,
        *arrays[1:-1],
        last[:, None] if last.ndim == 1 else last,
    ]
    lengths = [chain[0].shape[0], *[x.shape[1] for x in chain]]
    # By the first and last factor of a part of the chain: what it costs, and the product.
    cost = {(k, k): 0 for k in range(len(chain))}
    cut: dict[tuple[int, int], int] = {}
    for span in range(1, len(chain)):
        for start in range(len(chain) - span):
            stop = start + span
            cost[start, stop], cut[start, stop] = min(
                (cost[start, k] + cost[k + 1, stop] + lengths[start] * lengths[k + 1] * lengths[stop + 1], k)
                for k in range(start, stop)
            )

    def product(start: int, stop: int) -> Any:
        if start == stop:
            return chain[start]
        k = cut[start, stop]
        return np.dot(product(start, k), product(k + 1, stop))

    found = product(0, len(chain) - 1)
    if first.ndim == 1 and last.ndim == 1:
        return found[0, 0]
    return found[0] if first.ndim == 1 else found[:, 0] if last.ndim == 1 else found


composed(np.linalg.matrix_power, matrix_power)
composed(np.linalg.multi_dot, multiplied)


def crossed(
    a: Any, b: Any, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: int | None = None
) -> Any:
    if axis is not None:
        axisa = axisb = axisc = axis
    (a0, a1, a2), (b0, b1, b2) = np.moveaxis(a, axisa, 0), np.moveaxis(b, axisb, 0)
    return np.stack([a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0], axis=axisc)


composed(np.cross, crossed)
composed(np.linalg.cross, lambda x1, x2, /, *, axis=-1: crossed(x1, x2, axis=axis))

# -- tensors as matrices -------------------------------------------------------------------------------------------


def tensor_inverse(a: Any, ind: int = 2) -> Any:
    matrix = np.reshape(a, (size_of(a.shape[:ind]), size_of(a.shape[ind:])))
    return np.linalg.inv(matrix).reshape(a.shape[ind:] + a.shape[:ind])


def tensor_solution(a: Any, b: Any, axes: Any = None) -> Any:
    a, b = array_of(a), array_of(b)
    if axes is not None:
        a = np.moveaxis(a, axes, range(a.ndim - len(axes), a.ndim))
    shape = a.shape[b.ndim :]
    return np.linalg.solve(np.reshape(a, (b.size, size_of(shape))), np.ravel(b)).reshape(shape)


composed(np.linalg.tensorinv, tensor_inverse)
composed(np.linalg.tensorsolve, tensor_solution)
