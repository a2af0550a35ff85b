"""Derivatives of the matrix decompositions and of eigenvalues.

A symmetric matrix is one operand, although NumPy reads only one of its triangles: the cotangents of `cholesky`, `eigh`
and `eigvalsh` are symmetric (Hermitian), so that a step against the gradient leaves the matrix symmetric.

Vectors are defined up to a sign or phase, and for equal eigenvalues or singular values up to a rotation. The cotangents
are right for what does not depend on that choice; where two values are equal the undefined part is taken as 0.

A pullback needs the factors. So each decomposition is an operation with one array as its result, the factors below
each other, and NumPy's function is composed of that and of the parts cut out of it.

Formulas: Murray (2016) for Cholesky; Giles (2008), Walter and Lehmann (2010) and Wan and Zhang (2019) for the rest.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from .._rulebook import composed, function
from .dispatch import dispatched, plain
from .linalg import adjoint


def symmetric(x: Any) -> Any:
    return (x + adjoint(x)) / 2


def on_diagonal(x: Any) -> Any:
    """Matrices with the last axis of `x` on their diagonals."""
    return x[..., None] * np.diag(np.ones_like(np.real(x), shape=(x.shape[-1],)))


def reciprocal_gaps(values: Any) -> Any:
    """1/(vⱼ - vᵢ), and 0 where they are equal."""
    gaps = values[..., None, :] - values[..., :, None]
    equal = gaps == 0
    return np.where(equal, 0, 1 / np.where(equal, 1, gaps))


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


def _eigh(a: Any, UPLO: Any) -> Any:
    values, vectors = np.linalg.eigh(a, UPLO)
    return np.concatenate([vectors, values[..., None, :]], axis=-2)


def eigh_pullback(g: Any, y: Any, _a: Any, UPLO: Any) -> Any:
    vectors, values = y[..., :-1, :], np.real(y)[..., -1, :]
    turned = np.matmul(adjoint(vectors), g[..., :-1, :]) * reciprocal_gaps(values)
    inner = turned + on_diagonal(np.real(g)[..., -1, :])
    return symmetric(np.matmul(np.matmul(vectors, inner), adjoint(vectors)))


def eigvalsh_pullback(g: Any, _y: Any, a: Any, UPLO: Any = "L") -> Any:
    _, vectors = np.linalg.eigh(a, UPLO)
    return np.matmul(vectors * g[..., None, :], adjoint(vectors))


eigh = dispatched(_eigh)
function(eigh, eigh_pullback)


def eigh_result(a: Any, UPLO: Any = "L") -> Any:
    packed = eigh(a, UPLO)
    return result_type(np.linalg.eigh)(np.real(packed)[..., -1, :], packed[..., :-1, :])


composed(np.linalg.eigh, eigh_result)
function(np.linalg.eigvalsh, eigvalsh_pullback)


def _eig(a: Any) -> Any:
    values, vectors = np.linalg.eig(a)
    return np.concatenate([vectors, values[..., None, :]], axis=-2)


def eig_pullback(g: Any, y: Any, _a: Any) -> Any:
    """NumPy's eigenvectors have length 1, so a part of the cotangent along them is no change of theirs."""
    vectors, values, back = y[..., :-1, :], y[..., -1, :], adjoint(y[..., :-1, :])
    inner = np.matmul(back, g[..., :-1, :])
    along = np.real(np.diagonal(inner, 0, -2, -1))[..., None, :]
    inner = (inner - np.matmul(back, vectors) * along) * np.conj(reciprocal_gaps(values))
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
function(eig, eig_pullback)


def eig_result(a: Any) -> Any:
    packed = eig(a)
    return result_type(np.linalg.eig)(packed[..., -1, :], packed[..., :-1, :])


composed(np.linalg.eig, eig_result)
function(np.linalg.eigvals, eigvals_pullback)
