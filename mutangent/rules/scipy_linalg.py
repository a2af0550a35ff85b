"""Derivatives of the matrix functions and linear systems of `scipy.linalg`.

SciPy's functions do not dispatch. Each is an operation of ours here, with the arguments that matter to a derivative;
`mutangent.scipy.linalg` calls them.

Where SciPy reads one triangle of a symmetric (Hermitian) matrix, the matrix is still one operand, and its cotangent is
symmetric. A factor or a matrix that is triangular has a cotangent of 0 in the triangle that is not read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.linalg

from .._rulebook import composed, function
from .dispatch import dispatched
from .linalg import adjoint, cofactors, inv_pullback


def hermitian(x: Any) -> Any:
    return (x + adjoint(x)) / 2


def as_columns(b: Any, vector: bool) -> Any:
    return b[..., None] if vector else b


def product_with_adjoint(b: Any, x: Any, vector: bool) -> Any:
    """``b @ x^H`` of columns, or of single vectors."""
    return np.matmul(as_columns(b, vector), adjoint(as_columns(x, vector)))


# -- triangular systems --------------------------------------------------------------------------------------------


def _solve_triangular(a: Any, b: Any, lower: bool, unit_diagonal: bool) -> Any:
    return scipy.linalg.solve_triangular(a, b, lower=lower, unit_diagonal=unit_diagonal)


def triangular_right_pullback(g: Any, _y: Any, a: Any, _b: Any, lower: bool, unit_diagonal: bool) -> Any:
    vector = _b.ndim == 1
    found = solve_triangular(adjoint(a), as_columns(g, vector), not lower, unit_diagonal)
    return found[..., 0] if vector else found


def triangular_matrix_pullback(g: Any, y: Any, a: Any, _b: Any, lower: bool, unit_diagonal: bool) -> Any:
    right = triangular_right_pullback(g, None, a, _b, lower, unit_diagonal)
    full = -product_with_adjoint(right, y, _b.ndim == 1)
    off = 1 if unit_diagonal else 0
    return np.tril(full, -off) if lower else np.triu(full, off)


solve_triangular = dispatched(_solve_triangular)
function(solve_triangular, triangular_matrix_pullback, triangular_right_pullback)


# -- Cholesky ------------------------------------------------------------------------------------------------------


def _cholesky(a: Any, lower: bool) -> Any:
    return scipy.linalg.cholesky(a, lower=lower)


def cholesky_pullback(g: Any, y: Any, _a: Any, lower: bool) -> Any:
    """Murray (2016)."""
    factor, bar = (y, g) if lower else (adjoint(y), adjoint(g))
    back = adjoint(factor)
    product = np.matmul(back, bar)
    half = (np.tril(product) + np.tril(product, -1)) / 2
    left = solve_triangular(back, half, False, False)
    return hermitian(solve_triangular(back, adjoint(left), False, False))


cholesky = dispatched(_cholesky)
function(cholesky, cholesky_pullback)


def _cho_solve(c: Any, b: Any, lower: bool) -> Any:
    return scipy.linalg.cho_solve((c, lower), b)


def cho_right_pullback(g: Any, _y: Any, c: Any, _b: Any, lower: bool) -> Any:
    vector = _b.ndim == 1
    found = cho_solve(c, as_columns(g, vector), lower)
    return found[..., 0] if vector else found


def cho_factor_pullback(g: Any, y: Any, c: Any, _b: Any, lower: bool) -> Any:
    right = cho_right_pullback(g, None, c, _b, lower)
    bar = -2 * hermitian(product_with_adjoint(right, y, _b.ndim == 1))
    return np.tril(np.matmul(bar, np.tril(c))) if lower else np.triu(np.matmul(np.triu(c), bar))


cho_solve = dispatched(_cho_solve)
function(cho_solve, cho_factor_pullback, cho_right_pullback)


# -- general systems -----------------------------------------------------------------------------------------------


def _solve(a: Any, b: Any, assume_a: str | None, lower: bool) -> Any:
    if assume_a is None:  # not among the values that SciPy before 1.15 takes
        return scipy.linalg.solve(a, b, lower=lower)
    return scipy.linalg.solve(a, b, lower=lower, assume_a=assume_a)


GENERAL = {None, "gen", "general"}
SYMMETRIC = {"sym", "symmetric"}
HERMITIAN = {"her", "hermitian", "pos", "positive definite"}


def refuse_structure(_a: Any, _b: Any, assume_a: str | None, _lower: bool) -> str | None:
    return None if assume_a in GENERAL | SYMMETRIC | HERMITIAN else f"assume_a={assume_a!r}"


def solve_right_pullback(g: Any, _y: Any, a: Any, _b: Any, assume_a: str | None, lower: bool) -> Any:
    vector = _b.ndim == 1
    found = solve(adjoint(a), as_columns(g, vector), assume_a, not lower)
    return found[..., 0] if vector else found


def solve_matrix_pullback(g: Any, y: Any, a: Any, _b: Any, assume_a: str | None, lower: bool) -> Any:
    right = solve_right_pullback(g, None, a, _b, assume_a, lower)
    full = -product_with_adjoint(right, y, _b.ndim == 1)
    if assume_a in SYMMETRIC:
        return (full + np.swapaxes(full, -1, -2)) / 2
    return hermitian(full) if assume_a in HERMITIAN else full


solve = dispatched(_solve)
function(solve, solve_matrix_pullback, solve_right_pullback, refuse=refuse_structure)


def _inv(a: Any) -> Any:
    return scipy.linalg.inv(a)


inv = dispatched(_inv)
function(inv, inv_pullback)


def _det(a: Any) -> Any:
    return scipy.linalg.det(a)


det = dispatched(_det)
function(det, lambda g, y, a: g[..., None, None] * cofactors(a, y))


# -- functions of matrices -----------------------------------------------------------------------------------------


def frechet(f: Any, a: Any, direction: Any) -> Any:
    """Derivative of a matrix function at `a` in a direction: a block of the function of a block matrix (Mathias 1996)."""
    n = a.shape[-1]
    upper = np.concatenate([a, direction], axis=-1)
    lower = np.concatenate([np.zeros_like(direction), a], axis=-1)
    return f(np.concatenate([upper, lower], axis=-2))[..., :n, n:]


def _expm(a: Any) -> Any:
    return scipy.linalg.expm(a)


expm = dispatched(_expm)
function(expm, lambda g, _y, a: frechet(expm, adjoint(a), g))


def _logm(a: Any) -> Any:
    return scipy.linalg.logm(a)


logm = dispatched(_logm)
function(logm, lambda g, _y, a: frechet(logm, adjoint(a), g))


# -- Sylvester's and Lyapunov's equations --------------------------------------------------------------------------


def all_complex(*operands: Any) -> tuple[Any, ...]:
    """Operands that are all complex if one of them is: of mixed ones SciPy (1.17) gives wrong solutions.

    It takes the real Schur form of a real matrix, with blocks on the diagonal, for triangular.
    """
    return tuple(np.asarray(x) + 0j for x in operands) if any(map(np.iscomplexobj, operands)) else operands


def _solve_sylvester(a: Any, b: Any, q: Any) -> Any:
    return scipy.linalg.solve_sylvester(*all_complex(a, b, q))


def sylvester_right_pullback(g: Any, _y: Any, a: Any, b: Any, _q: Any) -> Any:
    return solve_sylvester(adjoint(a), adjoint(b), g)


solve_sylvester = dispatched(_solve_sylvester)
function(
    solve_sylvester,
    lambda g, y, a, b, _q: -np.matmul(sylvester_right_pullback(g, None, a, b, None), adjoint(y)),
    lambda g, y, a, b, _q: -np.matmul(adjoint(y), sylvester_right_pullback(g, None, a, b, None)),
    sylvester_right_pullback,
)


def _solve_continuous_lyapunov(a: Any, q: Any) -> Any:
    return scipy.linalg.solve_continuous_lyapunov(*all_complex(a, q))


solve_continuous_lyapunov = dispatched(_solve_continuous_lyapunov)
composed(solve_continuous_lyapunov, lambda a, q: solve_sylvester(a, adjoint(a), q))


def _solve_discrete_lyapunov(a: Any, q: Any, method: str | None) -> Any:
    return scipy.linalg.solve_discrete_lyapunov(a, q, method)


def discrete_right_pullback(g: Any, _y: Any, a: Any, _q: Any, method: str | None) -> Any:
    return solve_discrete_lyapunov(adjoint(a), g, method)


def discrete_matrix_pullback(g: Any, y: Any, a: Any, _q: Any, method: str | None) -> Any:
    right = discrete_right_pullback(g, None, a, _q, method)
    turned = np.matmul(np.matmul(right, a), adjoint(y))
    return turned + np.matmul(np.matmul(adjoint(right), a), y)


solve_discrete_lyapunov = dispatched(_solve_discrete_lyapunov)
function(solve_discrete_lyapunov, discrete_matrix_pullback, discrete_right_pullback)


# -- square roots --------------------------------------------------------------------------------------------------


def _sqrtm(a: Any) -> Any:
    return scipy.linalg.sqrtm(a)


sqrtm = dispatched(_sqrtm)
function(sqrtm, lambda g, y, _a: solve_sylvester(adjoint(y), adjoint(y), g))
