"""Derivatives of norms, determinants, inverses and solutions of linear systems."""
# ruff: noqa: A006 - `ord` is NumPy's name for the parameter

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, function, no_rule
from .contractions import conjugated, transposed
from .dispatch import dispatched
from .elementwise import always, direction, quotient
from .products import products_of_others
from .reductions import axes_of, kept, shared_among, spread

# -- norms ---------------------------------------------------------------------------------------------------------


def _signed_power(x: Any, exponent: float) -> Any:
    size = np.absolute(x)
    return np.where(size == 0, 0, np.power(np.where(size == 0, 1, size), exponent)) * direction(x)


def signed_power_pullback(g: Any, _y: Any, x: Any, exponent: float) -> Any:
    """Along the direction of `x` the power grows with its derivative; across it, by its quotient."""
    size = np.absolute(x)
    grown = np.power(size, exponent - 1)
    if not np.iscomplexobj(x):
        return g * exponent * grown
    u = direction(x)
    along = u * np.real(np.conj(u) * g)
    return (exponent * along + (g - along)) * grown


signed_power = dispatched(_signed_power)
"""``|x|**exponent`` in the direction of `x`, and 0 for 0; its derivative may be infinite there."""

function(signed_power, signed_power_pullback, part_of=lambda live, x, exponent: live)


def vector_norm_pullback(g: Any, y: Any, x: Any, axes: tuple[int, ...], order: Any) -> Any:
    """The pullback of a norm of the elements along `axes`, which `g` and `y` have kept. It is 0 at 0."""
    if order is None or order == 2:
        return g * quotient(x, y)
    if order == 0:
        return np.zeros_like(x)
    if order == 1:
        return g * direction(x)
    if order in (np.inf, -np.inf):
        return shared_among(np.absolute(x) == y, g, axes) * direction(x)
    return g * signed_power(quotient(x, y), order - 1)


def matrix_norm_pullback(g: Any, y: Any, x: Any, axes: tuple[int, int], order: Any) -> Any:
    """The pullback of a norm of matrices whose rows and columns are `axes`, which `g` and `y` have kept."""
    row, column = axes
    if order is None or order in ("fro", "f"):
        return g * quotient(x, y)
    if order in (1, -1, np.inf, -np.inf):
        summed, compared = (row, column) if order in (1, -1) else (column, row)
        sums = np.sum(np.absolute(x), axis=summed, keepdims=True)
        extreme = (np.max if order > 0 else np.min)(sums, axis=compared, keepdims=True)
        return shared_among(sums == extreme, g, compared) * direction(x)
    if order not in (2, -2, "nuc"):
        raise no_rule(np.linalg.norm, f" with ord={order!r}")
    u, s, vh = np.linalg.svd(np.moveaxis(x, axes, (-2, -1)), full_matrices=False)
    # At a singular value 0 the subgradient of least norm has no part.
    u = u * (s > s[..., :1] * (np.finfo(s.dtype).eps * max(x.shape[row], x.shape[column])))[..., None, :]
    if order == "nuc":
        gradient = np.matmul(u, vh)
    else:
        at = slice(0, 1) if order == 2 else slice(s.shape[-1] - 1, s.shape[-1])
        gradient = u[..., :, at] * vh[..., at, :]
    return g * np.moveaxis(gradient, (-2, -1), axes)


def norm_pullback(g: Any, y: Any, x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Any:
    if x.size == 0:
        return np.zeros_like(x)
    axes = axes_of(axis, x.ndim)
    g, y = kept(g, x.shape, axis, keepdims), kept(y, x.shape, axis, keepdims)
    if len(axes) == 2 and ord is not None:
        return matrix_norm_pullback(g, y, x, (axes[0], axes[1]), ord)
    return vector_norm_pullback(g, y, x, axes, ord)


def vector_norms_pullback(
    g: Any, y: Any, x: Any, *, axis: Any = None, keepdims: bool = False, ord: Any = 2
) -> Any:
    if x.size == 0:
        return np.zeros_like(x)
    g, y = kept(g, x.shape, axis, keepdims), kept(y, x.shape, axis, keepdims)
    return vector_norm_pullback(g, y, x, axes_of(axis, x.ndim), ord)


def norm_part(
    live: Any, x: Any, _ord: Any = None, axis: Any = None, keepdims: bool = False, **_order: Any
) -> Any:
    """Which elements take part in those norms that do."""
    return spread(live, x.shape, axis, keepdims)


function(np.linalg.norm, norm_pullback, part_of=norm_part, kink=always)
function(
    np.linalg.vector_norm,
    vector_norms_pullback,
    part_of=lambda live, x, *, axis=None, keepdims=False, **_order: spread(live, x.shape, axis, keepdims),
    kink=always,
)
composed(
    np.linalg.matrix_norm,
    lambda x, *, keepdims=False, ord="fro": np.linalg.norm(x, ord=ord, axis=(-2, -1), keepdims=keepdims),
)

# -- inverses and determinants -------------------------------------------------------------------------------------


def adjoint(x: Any) -> Any:
    return transposed(conjugated(x))


def inv_pullback(g: Any, y: Any, _a: Any) -> Any:
    back = adjoint(y)
    return -np.matmul(np.matmul(back, g), back)


def solve_matrix_pullback(g: Any, y: Any, a: Any, _b: Any) -> Any:
    right = solve_right_pullback(g, None, a, _b)
    if _b.ndim == 1:
        return -right[..., :, None] * conjugated(y)[..., None, :]
    return -np.matmul(right, adjoint(y))


def solve_right_pullback(g: Any, _y: Any, a: Any, _b: Any) -> Any:
    # A right-hand side is a vector only if it has one axis, but g may have the batch axes of a.
    if _b.ndim == 1:
        return np.linalg.solve(adjoint(a), g[..., None])[..., 0]
    return np.linalg.solve(adjoint(a), g)


def cofactors(a: Any, det: Any) -> Any:
    """The derivative of the determinant, conjugated. Singular matrices have it too: their cofactors."""
    if np.all(det):
        return conjugated(det)[..., None, None] * adjoint(np.linalg.inv(a))
    u, s, vh = np.linalg.svd(a)
    phase = np.linalg.det(u) * np.linalg.det(vh)
    return phase[..., None, None] * np.matmul(u * products_of_others(s, -1)[..., None, :], vh)


def slogdet_pullback(g: Any, _y: Any, a: Any) -> Any:
    sign_bar, log_bar = g
    if a.dtype.kind == "c":
        sign, _ = np.linalg.slogdet(a)
        log_bar = log_bar - 1j * np.imag(np.conj(sign_bar) * sign)
    return log_bar[..., None, None] * adjoint(np.linalg.inv(a))


function(np.linalg.inv, inv_pullback)
function(np.linalg.solve, solve_matrix_pullback, solve_right_pullback)
function(np.linalg.det, lambda g, y, a: g[..., None, None] * cofactors(a, y))
function(np.linalg.slogdet, slogdet_pullback, multiple=True)

# -- the names of the array API standard ---------------------------------------------------------------------------


def outer_of_vectors(x1: Any, x2: Any, /) -> Any:
    if np.ndim(x1) != 1 or np.ndim(x2) != 1:
        raise ValueError(
            f"Input arrays must be one-dimensional, but they are {np.ndim(x1)=} and {np.ndim(x2)=}."
        )
    return np.outer(x1, x2)


composed(np.linalg.matmul, np.matmul)
composed(np.linalg.tensordot, np.tensordot)
composed(np.linalg.vecdot, np.vecdot)
composed(np.linalg.outer, outer_of_vectors)
composed(np.linalg.matrix_transpose, np.matrix_transpose)
composed(np.linalg.diagonal, lambda x, *, offset=0: np.diagonal(x, offset, -2, -1))
composed(np.linalg.trace, lambda x, *, offset=0, dtype=None: np.trace(x, offset, -2, -1, dtype=dtype))
