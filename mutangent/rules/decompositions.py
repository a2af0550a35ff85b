"""Derivatives of the matrix decompositions and of eigenvalues.

A symmetric matrix is one operand, although NumPy reads only one of its triangles: the cotangents of `cholesky`, `eigh`
and `eigvalsh` are symmetric (Hermitian), so that a step against the gradient leaves the matrix symmetric.

Vectors are defined up to a sign or phase, and for equal eigenvalues or singular values up to a rotation. The cotangents
are right for what does not depend on that choice. Where two values are equal, or differ by a rounding error, the cotangent
of their vectors alone does not tell what that is, and the derivative is infinite or nan; vectors that nobody has used take
no part in it, and neither do those of a null space that the matrix keeps, as a product of factors does (`_null_space`).

A pullback needs the factors. So each decomposition is an operation with one array as its result, the factors below
each other, and NumPy's function is composed of that and of the parts cut out of it, which say what takes part.

Formulas: Murray (2016) for Cholesky; Giles (2008), Walter and Lehmann (2010) and Wan and Zhang (2019) for the rest.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._arrays import namespace_of
from .._rulebook import composed, elementwise, function
from .dispatch import dispatched, is_traced, keeps, plain
from .linalg import adjoint


def symmetric(x: Any) -> Any:
    return (x + adjoint(x)) / 2


def on_diagonal(x: Any) -> Any:
    """Matrices with the last axis of `x` on their diagonals."""
    return x[..., None] * np.diag(np.ones_like(np.real(x), shape=(x.shape[-1],)))


def _over(parts: Any, gaps: Any, rounding: Any) -> Any:
    lost = (np.absolute(gaps) <= rounding) & (parts != 0)
    return parts / np.where(lost, 0, gaps)


over = dispatched(_over)
"""`parts` over `gaps`. A gap that is no larger than the rounding error counts as 0: its reciprocal may be anything.

Where the part is exactly 0, as that of two vectors which nobody has used, a gap that is not 0 does no harm.
"""

elementwise(
    over,
    lambda t, _y, _parts, gaps, rounding: over(t, gaps, rounding),
    lambda t, y, _parts, gaps, rounding: -over(t * y, gaps, rounding),
    None,
)


def _cleared(parts: Any, _of: Any, undefined: Any) -> Any:
    return np.where(undefined, 0, parts)


cleared = dispatched(_cleared)
"""`parts`, and 0 where they are undefined but meet a 0. What moves `of`, the values under them, moves that 0 too."""

elementwise(
    cleared,
    lambda t, _y, _parts, _of, undefined: np.where(undefined, 0, t),
    lambda t, _y, _parts, _of, undefined: t * np.where(undefined, np.nan, 0),
    None,
)


def rounding_of(values: Any) -> Any:
    """Up to which size eigenvalues and singular values, and their differences, are rounding errors; one axis is 1 long."""
    size = np.absolute(plain(values))
    if size.size == 0:
        return size
    return (4 * size.shape[-1] * np.finfo(size.dtype).eps) * np.max(size, axis=-1, keepdims=True)


def are_zero(values: Any) -> Any:
    """Which of the values are 0 up to rounding."""
    return np.absolute(plain(values)) <= rounding_of(values)


def over_gaps(parts: Any, values: Any, kept: bool) -> Any:
    """The elements ij of `parts` over the conjugate of vⱼ - vᵢ, which may be 0; and 0 on the diagonal.

    `kept` says that the matrix keeps its null space.
    """
    if values.shape[-1] == 0:
        return parts
    own = on_diagonal(np.ones_like(np.real(plain(values))))
    gaps = values[..., None, :] - values[..., :, None] + own
    rounding = rounding_of(values)[..., None]
    parts = (1 - own) * parts
    zero = are_zero(values)
    both = zero[..., None, :] & zero[..., :, None] & (own == 0)
    if kept:
        # A part that is more than rounding is that of a function of single vectors there, of which rounding has decided.
        size = np.absolute(plain(parts))
        allowed = np.sqrt(np.finfo(size.dtype).eps) * np.max(size, axis=(-2, -1), keepdims=True)
        known = np.where(both & (size > allowed), np.nan, cleared(parts, gaps, both))
        return over(known, np.conj(gaps) + np.where(both, 1, 0), rounding)
    return over(parts, np.conj(gaps), np.where(both, np.inf, rounding))


def null_direction(left: Any, right: Any, hermitian: bool = False) -> Any:
    """A cotangent of a matrix in the space of the columns that are not 0: those of `left` times those of `right`."""
    m, n = left.shape[-1], right.shape[-1]
    mixed = np.cos(namespace_of(left).arange(1.0, m * n + 1).reshape(m, n))
    mixed = mixed + mixed.T if hermitian else mixed
    return np.matmul(left * 1.0, np.matmul(mixed.astype(left.dtype), adjoint(right)))


def _rows(packed: Any, start: int, stop: int) -> Any:
    return packed[..., start:stop, :]


def rows_part(live: Any, packed: Any, start: int, stop: int) -> Any:
    part = np.zeros_like(live, shape=packed.shape)
    part[..., start:stop, :] = live
    return part


def rows_pullback(g: Any, _y: Any, _packed: Any, start: int, stop: int) -> Any:
    if not is_traced(g):
        return rows_part(g, _packed, start, stop)
    before = np.zeros_like(g, shape=(*g.shape[:-2], start, g.shape[-1]))
    after = np.zeros_like(g, shape=(*g.shape[:-2], _packed.shape[-2] - stop, g.shape[-1]))
    return np.concatenate([before, g, after], axis=-2)


rows = dispatched(_rows)
"""One of the factors that lie below each other. The others take no part."""

function(rows, rows_pullback, linear=True, selects=True, part_of=rows_part)


def used(live: Any, start: int, stop: int) -> Any:
    """Which columns of a factor take part; True if all do."""
    return True if live is None else np.any(live[..., start:stop, :], axis=-2)


def among(columns: Any, matrices: Any) -> Any:
    """`matrices`, with 0 for two columns of which neither takes part."""
    if columns is True:
        return matrices
    return np.where(np.logical_or(columns[..., None, :], columns[..., :, None]), matrices, 0)


@functools.cache
def result_type(decomposition: Callable[..., Any]) -> Any:
    """The class of named tuples that a decomposition returns."""
    return type(decomposition(np.ones((1, 1))))


# -- Cholesky ------------------------------------------------------------------------------------------------------


def cholesky_pullback(g: Any, y: Any, _a: Any, *, upper: bool = False) -> Any:
    factor, bar = (adjoint(y), adjoint(g)) if upper else (y, g)
    back = adjoint(factor)
    product = np.matmul(back, bar)
    lower_half = np.tril(product) - on_diagonal(np.diagonal(product, 0, -2, -1)) / 2
    right = adjoint(np.linalg.solve(back, lower_half))
    return symmetric(np.linalg.solve(back, right))


function(np.linalg.cholesky, cholesky_pullback)

# -- eigenvalues ---------------------------------------------------------------------------------------------------


def _eigh(a: Any, UPLO: Any, kept: bool = False) -> Any:
    values, vectors = np.linalg.eigh(a, UPLO)
    return np.concatenate([vectors, values[..., None, :]], axis=-2)


def eigh_pullback(g: Any, y: Any, _a: Any, UPLO: Any, kept: bool = False, *, live: Any = None) -> Any:
    vectors, values = y[..., :-1, :], np.real(y)[..., -1, :]
    product = np.matmul(adjoint(vectors), g[..., :-1, :])
    # The symmetric part would cancel, but only after the division by the gaps.
    turned = over_gaps((product - adjoint(product)) / 2, values, kept)
    turned = among(used(live, 0, values.shape[-1]), turned)
    inner = turned + on_diagonal(np.real(g)[..., -1, :])
    return symmetric(np.matmul(np.matmul(vectors, inner), adjoint(vectors)))


def zero_columns(a: Any, values: Any, least: int = 2) -> Any:
    """Which vectors of a traced matrix it makes 0 of; None if there are fewer than `least`."""
    if not is_traced(a) or a.size == 0:
        return None
    zero = are_zero(values)
    return zero[..., None, :] if np.any(np.count_nonzero(zero, axis=-1) >= least) else None


def eigvalsh_pullback(g: Any, _y: Any, a: Any, UPLO: Any = "L") -> Any:
    _, vectors = np.linalg.eigh(a, UPLO)
    return np.matmul(vectors * g[..., None, :], adjoint(vectors))


eigh = dispatched(_eigh)
function(eigh, eigh_pullback, takes_live=True)


def eigh_result(a: Any, UPLO: Any = "L") -> Any:
    packed = eigh(a, UPLO)
    n = packed.shape[-1]
    found = plain(packed)
    zero = zero_columns(a, np.real(found)[..., -1, :])
    if zero is not None:
        columns = found[..., :-1, :] * zero
        if keeps(a, null_direction(columns, columns, hermitian=True)):
            packed = eigh(a, UPLO, True)
    return result_type(np.linalg.eigh)(np.real(rows(packed, n, n + 1))[..., 0, :], rows(packed, 0, n))


composed(np.linalg.eigh, eigh_result)
function(np.linalg.eigvalsh, eigvalsh_pullback)


def _eig(a: Any, kept: bool = False) -> Any:
    values, vectors = np.linalg.eig(a)
    return np.concatenate([vectors, values[..., None, :]], axis=-2)


def eig_pullback(g: Any, y: Any, _a: Any, kept: bool = False, *, live: Any = None) -> Any:
    """NumPy's eigenvectors have length 1, so a part of the cotangent along them is no change of theirs."""
    vectors, values, back = y[..., :-1, :], y[..., -1, :], adjoint(y[..., :-1, :])
    inner = np.matmul(back, g[..., :-1, :])
    along = np.real(np.diagonal(inner, 0, -2, -1))[..., None, :]
    inner = over_gaps(inner - np.matmul(back, vectors) * along, values, kept)
    inner = among(used(live, 0, values.shape[-1]), inner)
    return np.linalg.solve(back, np.matmul(inner + on_diagonal(g[..., -1, :]), back))


def eigvals_pullback(g: Any, y: Any, a: Any) -> Any:
    if y.size == 0:
        return np.zeros_like(a)
    values, vectors = np.linalg.eig(a)
    # The two algorithms may find the values in different orders.
    found = np.argmin(np.absolute(plain(y)[..., :, None] - plain(values)[..., None, :]), axis=-1)
    back = adjoint(np.take_along_axis(vectors, found[..., None, :], axis=-1))
    return np.linalg.solve(back, g[..., :, None] * back)


eig = dispatched(_eig)
function(eig, eig_pullback, takes_live=True)


def eig_result(a: Any) -> Any:
    packed = eig(a)
    n = packed.shape[-1]
    found = plain(packed)
    zero = zero_columns(a, found[..., -1, :])
    if zero is not None:
        right = found[..., :-1, :]
        if keeps(a, null_direction(adjoint(np.linalg.pinv(right)) * zero, right * zero)):
            packed = eig(a, True)
    return result_type(np.linalg.eig)(rows(packed, n, n + 1)[..., 0, :], rows(packed, 0, n))


composed(np.linalg.eig, eig_result)
function(np.linalg.eigvals, eigvals_pullback)
