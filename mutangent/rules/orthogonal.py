"""Derivatives of the QR and the singular value decomposition.

What `decompositions` says of its functions holds for these. The columns that complete the factors of a matrix that is not
square to a basis of the whole space are one basis of many; functions of the space that they span have right cotangents.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, elementwise, function, no_rule
from .decompositions import (
    among,
    are_zero,
    cleared,
    null_direction,
    on_diagonal,
    over,
    over_gaps,
    result_type,
    rounding_of,
    rows,
    used,
    zero_columns,
)
from .dispatch import dispatched, is_traced, keeps, plain
from .linalg import adjoint


def completed(columns: Any, basis: Any) -> Any:
    """`columns`, and after them those that `basis` has more, moved so that they stay orthogonal to `columns`."""
    more = basis[..., :, columns.shape[-1] :]
    if more.shape[-1] == 0:
        return columns
    moved = more - np.matmul(columns, np.matmul(adjoint(columns), more))
    # A step towards orthonormal columns, which has their first and second derivatives.
    moved = 1.5 * moved - 0.5 * np.matmul(moved, np.matmul(adjoint(moved), moved))
    return np.concatenate([columns, moved], axis=-1)


# -- QR ------------------------------------------------------------------------------------------------------------


def _qr(a: Any) -> Any:
    return np.concatenate(np.linalg.qr(a), axis=-2)


def qr_pullback(g: Any, y: Any, _a: Any) -> Any:
    m = _a.shape[-2]
    q, r, q_bar, r_bar = y[..., :m, :], y[..., m:, :], g[..., :m, :], g[..., m:, :]
    q, r = invertible(q, r)
    product = np.matmul(r, adjoint(r_bar)) - np.matmul(adjoint(q_bar), q)
    # Hermitian, with the lower triangle of the product.
    below = np.tril(product, -1)
    mirrored = below + adjoint(below) + on_diagonal(np.real(np.diagonal(product, 0, -2, -1)))
    return adjoint(np.linalg.solve(r, adjoint(q_bar + np.matmul(q, mirrored))))


qr = dispatched(_qr)
function(qr, qr_pullback)


def _determined(factor: Any, _is_free: Any) -> Any:
    return factor


determined = dispatched(_determined)
"""A factor of which rounding has decided on some elements, which have no derivative."""

elementwise(determined, lambda t, _y, _factor, is_free: np.where(is_free & (t != 0), np.nan, t), None)


def _unless(factor: Any, _is_lost: Any) -> Any:
    return factor


unless = dispatched(_unless)
"""A factor that has no derivative at all where `is_lost`."""

elementwise(unless, lambda t, _y, _factor, is_lost: np.where(is_lost, np.nan, t), None)


def invertible(q: Any, r: Any) -> tuple[Any, Any]:
    """Factors to divide by: what is 0 on the diagonal of R, up to rounding, is a small number, and 0 beside it.

    What is divided by rounding errors has no derivative in turn.
    """
    size = np.absolute(plain(r))
    diagonal = np.diagonal(size, 0, -2, -1)
    if size.size == 0:
        return q, r
    rounding = rounding_of(np.max(size, axis=-2))
    if np.all(diagonal > rounding):
        return q, r
    is_low = diagonal <= rounding
    largest = np.max(size, axis=(-2, -1), keepdims=True)
    kind = np.finfo(size.dtype)
    least = np.maximum(kind.eps * largest, np.sqrt(kind.tiny))
    nothing = 0 * unless(r, largest == 0)  # no element of such a matrix is used
    r = np.where(np.all(size <= rounding[..., None], axis=-1)[..., None], 0, r)
    r = np.where(on_diagonal(is_low) != 0, least, r) + nothing
    is_low = np.any(is_low, axis=-1)[..., None, None]
    return determined(q, is_low), determined(r, is_low)


def determined_factors(q: Any, r: Any) -> tuple[Any, Any]:
    """The factors of a matrix with a column that depends on those before it: from there on Q is one basis of many.

    The rows of R are so too, if they are not all 0.
    """
    size = np.absolute(plain(r))
    if size.size == 0:
        return q, r
    is_rounding = size <= rounding_of(np.max(size, axis=-2))[..., None]
    zero = np.diagonal(is_rounding, 0, -2, -1)
    if not np.any(zero):
        return q, r
    free = np.cumsum(zero, axis=-1) > 0
    if not np.all(is_rounding | ~free[..., :, None]):
        r = determined(r, free[..., :, None])
    return determined(q, free[..., None, :]), r


def qr_result(a: Any, mode: str = "reduced") -> Any:
    if mode not in ("reduced", "r", "complete"):
        # The vectors and factors of LAPACK's reflections: how they are scaled is its own affair.
        raise no_rule(np.linalg.qr, f" with mode={mode!r}")
    m, n = a.shape[-2:]
    # The first columns decide on Q; the others are only turned by it.
    packed = qr(a[..., :, : min(m, n)])
    q, r = packed[..., :m, :], packed[..., m:, :]
    if m < n:
        r = np.concatenate([r, np.matmul(adjoint(q), a[..., :, m:])], axis=-1)
    if is_traced(a):
        q, r = determined_factors(q, r)
    if mode == "r":
        return r
    if mode == "complete" and m > n:
        q = completed(q, np.linalg.qr(plain(a), mode="complete")[0])
        r = np.concatenate([r, np.zeros_like(r, shape=(*r.shape[:-2], m - n, n))], axis=-2)
    return result_type(np.linalg.qr)(q, r)


composed(np.linalg.qr, qr_result)

# -- singular values -----------------------------------------------------------------------------------------------


def _svd(a: Any, _kept: bool = False) -> Any:
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.concatenate([u, adjoint(vh), s[..., None, :]], axis=-2)


def row_of(columns: Any) -> Any:
    return columns if columns is True else columns[..., None, :]


def over_values(matrices: Any, s: Any, columns: Any, kept: bool) -> Any:
    """Columns divided by their singular values, and 0 for those that take no part."""
    rounding = rounding_of(s)
    if kept:
        zero = are_zero(s)
        matrices = cleared(matrices, s, np.broadcast_to(zero, matrices.shape))
        s = s + np.where(zero, 1, 0)
    found = over(matrices, s, rounding)
    return found if columns is True else np.where(columns, found, 0)


def svd_pullback(g: Any, y: Any, _a: Any, kept: bool = False, *, live: Any = None) -> Any:
    m = _a.shape[-2]
    u, v, s = y[..., :m, :], y[..., m:-1, :], np.real(y)[..., -1, :]
    u_bar, v_bar, s_bar = g[..., :m, :], g[..., m:-1, :], np.real(g)[..., -1, :]
    by_u, by_v = np.matmul(adjoint(u), u_bar), np.matmul(adjoint(v), v_bar)
    by_u, by_v = by_u - adjoint(by_u), by_v - adjoint(by_v)
    row, column = s[..., None, :], s[..., :, None]
    of_u, of_v = used(live, 0, m), used(live, m, m + v.shape[-2])
    vectors = True if of_u is True else np.logical_or(of_u, of_v)
    # 1/(s²ⱼ - s²ᵢ), without the squares
    sums = row + column + on_diagonal(np.ones_like(s))
    inner = among(vectors, over_gaps(by_u * row + column * by_v, s, kept) / sums)
    inner = inner + on_diagonal(s_bar)
    if _a.dtype.kind == "c":  # the phase that U and V share
        inner = inner + on_diagonal(over_values(np.diagonal(by_u, 0, -2, -1) / 2, s, vectors, kept))
    result = np.matmul(np.matmul(u, inner), adjoint(v))
    if m > v.shape[-2]:
        outside = over_values(u_bar - np.matmul(u, np.matmul(adjoint(u), u_bar)), row, row_of(of_u), kept)
        result = result + np.matmul(outside, adjoint(v))
    elif m < v.shape[-2]:
        outside = over_values(v_bar - np.matmul(v, np.matmul(adjoint(v), v_bar)), row, row_of(of_v), kept)
        result = result + np.matmul(u, adjoint(outside))
    return result


svd = dispatched(_svd)
function(svd, svd_pullback, takes_live=True)


def keeps_zeros(a: Any, found: Any) -> bool:
    """Whether a traced matrix has vectors that it makes 0 of, and keeps them; those that complete its factors are such."""
    m, n = a.shape[-2:]
    is_square_and_real = m == n and found.dtype.kind == "f"
    zero = zero_columns(a, np.real(found)[..., -1, :], 2 if is_square_and_real else 1)
    if zero is None:
        return False
    left, right = found[..., :m, :] * zero, found[..., m:-1, :] * zero
    if m != n:
        basis_u, _, basis_vh = np.linalg.svd(plain(a))
        left = np.concatenate([left, basis_u[..., :, min(m, n) :]], axis=-1)
        right = np.concatenate([right, adjoint(basis_vh)[..., :, min(m, n) :]], axis=-1)
    return keeps(a, null_direction(left, right))


def hermitian_svd(a: Any) -> tuple[Any, Any, Any]:
    """Singular values are the absolute eigenvalues, the largest first."""
    values, vectors = np.linalg.eigh(a)
    order = np.flip(np.argsort(np.absolute(values), axis=-1), -1)
    values = np.take_along_axis(values, order, axis=-1)
    vectors = np.take_along_axis(vectors, order[..., None, :], axis=-1)
    return vectors, np.absolute(values), adjoint(vectors * np.sign(values)[..., None, :])


def svd_result(a: Any, full_matrices: bool = True, compute_uv: bool = True, hermitian: bool = False) -> Any:
    if not compute_uv:
        return np.flip(np.sort(np.absolute(np.linalg.eigvalsh(a)), axis=-1), -1) if hermitian else svdvals(a)
    if hermitian:
        return result_type(np.linalg.svd)(*hermitian_svd(a))
    m, n = a.shape[-2:]
    packed = svd(a)
    end = packed.shape[-2]
    if keeps_zeros(a, plain(packed)):
        packed = svd(a, True)
    s, u, v = np.real(rows(packed, end - 1, end))[..., 0, :], rows(packed, 0, m), rows(packed, m, end - 1)
    if full_matrices and m != n:
        basis_u, _, basis_vh = np.linalg.svd(plain(a))
        u, v = completed(u, basis_u), completed(v, adjoint(basis_vh))
    return result_type(np.linalg.svd)(u, s, adjoint(v))


def _svdvals(a: Any) -> Any:
    return np.linalg.svd(a, compute_uv=False)


def svdvals_pullback(g: Any, _y: Any, a: Any) -> Any:
    # Without the vectors among the results there is nothing to divide by a difference of singular values.
    u, _, vh = np.linalg.svd(a, full_matrices=False)
    return np.matmul(u * g[..., None, :], vh)


svdvals = dispatched(_svdvals)
function(svdvals, svdvals_pullback)
composed(np.linalg.svd, svd_result)
composed(np.linalg.svdvals, lambda x, /: svdvals(x))
