"""The matrix functions and linear systems of `scipy.linalg`.

Where SciPy reads one triangle of a symmetric (Hermitian) matrix, the matrix is still one operand: its cotangent is
symmetric, so that a step against the gradient leaves it so. The factor of `cho_solve` and the matrix of
`solve_triangular` are triangular: their cotangents are 0 in the triangle that is not read.

For eigenvalues, singular values, norms and the like use `numpy.linalg`, whose functions dispatch.
"""
# ruff: noqa: ARG001 - SciPy's arguments that only permit it to overwrite its operands, or to skip a check

from __future__ import annotations

from typing import Any

import numpy as np

from ..rules import scipy_linalg


def solve_triangular(
    a: Any,
    b: Any,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
) -> Any:
    """Solution of ``a @ x = b`` for a triangular matrix; see `scipy.linalg.solve_triangular`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import solve_triangular
    >>> mt.grad(lambda a: np.sum(solve_triangular(a, np.ones(2))))(np.array([[1.0, 0.0], [0.0, 2.0]]))
    array([[-1.  , -0.5 ],
           [ 0.  , -0.25]])
    """
    if trans in (1, "T"):
        a, lower = np.swapaxes(a, -1, -2), not lower
    elif trans in (2, "C"):
        a, lower = np.conj(np.swapaxes(a, -1, -2)), not lower
    elif trans not in (0, "N"):
        raise ValueError(f"trans must be 0, 1, 2, 'N', 'T' or 'C', not {trans!r}")
    return scipy_linalg.solve_triangular(a, b, bool(lower), bool(unit_diagonal))


def cholesky(a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The triangular factor of a positive definite matrix; see `scipy.linalg.cholesky`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import cholesky
    >>> mt.grad(lambda a: cholesky(a)[0, 0])(np.array([[4.0, 0.0], [0.0, 1.0]]))
    array([[0.25, 0.  ],
           [0.  , 0.  ]])
    """
    return scipy_linalg.cholesky(a, bool(lower))


def cho_factor(
    a: Any, lower: bool = False, overwrite_a: bool = False, check_finite: bool = True
) -> tuple[Any, bool]:
    """The factor of a positive definite matrix for `cho_solve`; see `scipy.linalg.cho_factor`.

    The triangle of the factor that SciPy leaves as it finds it is 0 here.

    Examples
    --------
    >>> from mutangent.scipy.linalg import cho_factor, cho_solve
    >>> mt.grad(lambda a: cho_solve(cho_factor(a), np.ones(1))[0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    return cholesky(a, lower), lower


def cho_solve(
    c_and_lower: tuple[Any, bool], b: Any, overwrite_b: bool = False, check_finite: bool = True
) -> Any:
    """Solution of ``a @ x = b``, given the factor of `a`; see `scipy.linalg.cho_solve`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import cho_solve
    >>> mt.grad(lambda b: cho_solve((np.array([[2.0]]), True), b)[0])(np.ones(1))
    array([0.25])
    """
    c, lower = c_and_lower
    return scipy_linalg.cho_solve(c, b, bool(lower))


def solve(
    a: Any,
    b: Any,
    lower: bool = False,
    overwrite_a: bool = False,
    overwrite_b: bool = False,
    check_finite: bool = True,
    assume_a: str | None = None,
    transposed: bool = False,
) -> Any:
    """Solution of ``a @ x = b``; see `scipy.linalg.solve`.

    On traced values `assume_a` may be None, ``"gen"``, ``"sym"``, ``"her"`` or ``"pos"``.

    Examples
    --------
    >>> from mutangent.scipy.linalg import solve
    >>> mt.grad(lambda a: solve(a, np.ones(1))[0])(np.array([[2.0]]))
    array([[-0.25]])
    """
    if transposed:
        a, lower = np.swapaxes(a, -1, -2), not lower
    return scipy_linalg.solve(a, b, assume_a, bool(lower))


def inv(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The inverse of a matrix; see `scipy.linalg.inv`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import inv
    >>> mt.grad(lambda a: np.sum(inv(a)))(np.array([[2.0]]))
    array([[-0.25]])
    """
    return scipy_linalg.inv(a)


def det(a: Any, overwrite_a: bool = False, check_finite: bool = True) -> Any:
    """The determinant of a matrix; see `scipy.linalg.det`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import det
    >>> mt.grad(det)(np.array([[1.0, 2.0], [3.0, 4.0]]))
    array([[ 4., -3.],
           [-2.,  1.]])
    """
    return scipy_linalg.det(a)


def expm(A: Any) -> Any:
    """The matrix exponential; see `scipy.linalg.expm`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import expm
    >>> mt.grad(lambda a: np.sum(expm(a)))(np.zeros((1, 1)))
    array([[1.]])
    """
    return scipy_linalg.expm(A)


def logm(A: Any) -> Any:
    """The principal logarithm of a matrix; see `scipy.linalg.logm`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import logm
    >>> mt.grad(lambda a: np.sum(logm(a)))(2 * np.eye(1))
    array([[0.5]])
    """
    return scipy_linalg.logm(A)


def sqrtm(A: Any) -> Any:
    """The principal square root of a matrix; see `scipy.linalg.sqrtm`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import sqrtm
    >>> mt.grad(lambda a: np.sum(sqrtm(a)))(4 * np.eye(1))
    array([[0.25]])
    """
    return scipy_linalg.sqrtm(A)


def solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    """Solution of ``a @ x + x @ b = q``; see `scipy.linalg.solve_sylvester`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import solve_sylvester
    >>> one = np.ones((1, 1))
    >>> mt.grad(lambda a: np.sum(solve_sylvester(a, one, one)))(one)
    array([[-0.25]])
    """
    return scipy_linalg.solve_sylvester(a, b, q)


def solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    """Solution of ``a @ x + x @ a^H = q``; see `scipy.linalg.solve_continuous_lyapunov`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import solve_continuous_lyapunov
    >>> one = np.ones((1, 1))
    >>> mt.grad(lambda a: np.sum(solve_continuous_lyapunov(a, one)))(one)
    array([[-0.5]])
    """
    return scipy_linalg.solve_continuous_lyapunov(a, q)


def solve_discrete_lyapunov(a: Any, q: Any, method: str | None = None) -> Any:
    """Solution of ``a @ x @ a^H - x + q = 0``; see `scipy.linalg.solve_discrete_lyapunov`.

    Examples
    --------
    >>> from mutangent.scipy.linalg import solve_discrete_lyapunov
    >>> mt.grad(lambda q: np.sum(solve_discrete_lyapunov(np.zeros((1, 1)), q)))(np.ones((1, 1)))
    array([[1.]])
    """
    return scipy_linalg.solve_discrete_lyapunov(a, q, method)
