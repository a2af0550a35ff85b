"""Derivatives of polynomials given by their coefficients, the highest power first, and of convolutions."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import composed, function
from .assembling import in_dtype
from .contractions import conjugated
from .dispatch import array_of, plain

# -- convolution ---------------------------------------------------------------------------------------------------

MODES = {0: "valid", 1: "same", 2: "full", "v": "valid", "s": "same", "f": "full"}


def in_full(g: Any, mode: Any, n: int, m: int) -> Any:
    """The cotangent of a convolution of `n` and `m` numbers as that of the full one, of ``n + m - 1``."""
    if MODES.get(mode, mode) == "full":
        return g
    shorter = min(n, m)
    before = (shorter - 1) // 2 if MODES.get(mode, mode) == "same" else shorter - 1
    return np.pad(g, (before, n + m - 1 - before - g.shape[0]))


def convolve_left_pullback(g: Any, _y: Any, _a: Any, v: Any, mode: Any = "full") -> Any:
    v = np.ravel(v)
    found = np.correlate(in_full(g, mode, _a.size, v.size), v, "valid")
    return found.reshape(_a.shape)


def convolve_right_pullback(g: Any, _y: Any, a: Any, _v: Any, mode: Any = "full") -> Any:
    a = np.ravel(a)
    found = np.correlate(in_full(g, mode, a.size, _v.size), a, "valid")
    return found.reshape(_v.shape)


def correlated(a: Any, v: Any, mode: Any = "valid") -> Any:
    a, v = array_of(a), array_of(v)
    if np.ndim(a) != 1 or np.ndim(v) != 1:
        raise ValueError(
            f"np.correlate takes two arrays with one axis each, not {np.ndim(a)} and {np.ndim(v)}"
        )
    if v.shape[0] > a.shape[0]:  # NumPy slides the shorter one
        return np.flip(conjugated(correlated(v, a, mode)))
    return np.convolve(a, np.flip(conjugated(v)), mode)


function(np.convolve, convolve_left_pullback, convolve_right_pullback, linear=True)
composed(np.correlate, correlated)

# -- arithmetic of polynomials -------------------------------------------------------------------------------------


def coefficients(p: Any) -> Any:
    """Coefficients as an array with one axis."""
    return np.atleast_1d(array_of(p))


def lengthened(p: Any, length: int) -> Any:
    return np.pad(p, (length - p.shape[0], 0))


def polynomial_sum(a1: Any, a2: Any) -> Any:
    a1, a2 = coefficients(a1), coefficients(a2)
    length = max(a1.shape[0], a2.shape[0])
    return lengthened(a1, length) + lengthened(a2, length)


def trimmed(p: Any) -> Any:
    """The coefficients from the first nonzero one on, or a zero if there are none."""
    p = np.trim_zeros(coefficients(p), "f")
    return p if p.shape[0] else np.zeros_like(plain(p), shape=(1,))


def quotient(u: Any, v: Any) -> tuple[Any, Any]:
    """Long division."""
    u, v = coefficients(u) + 0.0, coefficients(v) + 0.0
    scale, dtype = 1.0 / v[0], np.result_type(u, v)
    u, v = in_dtype(u, dtype), in_dtype(v, dtype)
    m, n = u.shape[0] - 1, v.shape[0] - 1
    rest, digits = u, []
    for k in range(m - n + 1):
        digit = scale * rest[k]
        digits.append(digit)
        rest = rest - np.pad(digit * v, (k, m - n - k))
    q = np.stack(digits) if digits else np.zeros_like(plain(u), shape=(1,))
    # As NumPy does: leading coefficients that are rounded to nothing are no part of the rest.
    near = np.isclose(plain(rest), 0, rtol=1e-14)
    first = int(np.argmin(near)) if not near.all() else m
    return q, rest[min(first, m) :]


def listed(p: Any) -> Any:
    """Coefficients where NumPy takes no single number for a polynomial."""
    if np.ndim(p) == 0:
        raise TypeError("the coefficients of a polynomial are an array with one axis, not one number")
    return coefficients(p)


def derivative(p: Any, m: int = 1) -> Any:
    p = listed(p)
    for _ in range(m):
        n = p.shape[0] - 1
        p = p[:-1] * np.arange(n, 0, -1)
    return p


def antiderivative(p: Any, m: int = 1, k: Any = None) -> Any:
    constants = (
        [0.0] * m if k is None else [k] * m if np.ndim(k) == 0 else list(k) * (m if len(k) == 1 else 1)
    )
    p = listed(p)
    for constant in constants[:m]:
        p = p / np.arange(p.shape[0], 0, -1)
        p = np.concatenate([p, np.reshape(constant, (1,))])
    return p


def value(p: Any, x: Any) -> Any:
    """Horner's scheme."""
    p = listed(p)
    y = np.zeros_like(x)
    for coefficient in p:
        y = y * x + coefficient
    return y


composed(np.polyadd, polynomial_sum)
composed(np.polysub, lambda a1, a2: polynomial_sum(a1, np.negative(coefficients(a2))))
composed(np.polymul, lambda a1, a2: np.convolve(trimmed(a1), trimmed(a2)))
composed(np.polydiv, quotient)
composed(np.polyder, derivative)
composed(np.polyint, antiderivative)
composed(np.polyval, value)

# -- roots and fits ------------------------------------------------------------------------------------------------


def from_roots(seq_of_zeros: Any) -> Any:
    zeros = coefficients(seq_of_zeros)
    if zeros.ndim == 2:
        zeros = np.linalg.eigvals(zeros)
    if zeros.dtype == np.float16:  # NumPy has no polynomials of half precision
        zeros = np.astype(zeros, np.float64)
    p = np.ones_like(plain(zeros), shape=(1,))
    for zero in zeros:
        p = np.convolve(p, np.stack([np.ones_like(plain(zero)), -zero]))
    # Roots in conjugate pairs belong to a real polynomial.
    paired = np.iscomplexobj(zeros) and np.all(np.sort(plain(zeros)) == np.sort(np.conj(plain(zeros))))
    return np.real(p) if paired else p


def roots(p: Any) -> Any:
    """The eigenvalues of the companion matrix, and a root 0 for each coefficient 0 at the end."""
    p = coefficients(p)
    present = np.flatnonzero(plain(p)).tolist()  # shapes and slices follow from it
    if len(present) == 0:
        return np.zeros_like(plain(p), shape=(0,))
    at_zero = p.shape[0] - present[-1] - 1
    p = p[present[0] : present[-1] + 1]
    n = p.shape[0]
    if n == 1:
        return np.zeros_like(plain(p), shape=(at_zero,))
    first = np.reshape(-p[1:] / p[0], (1, n - 1))
    below = np.diag(np.ones_like(plain(p), shape=(n - 1,)))[:-1]
    found = np.linalg.eigvals(np.concatenate([first, below]))
    return np.concatenate([found, np.zeros_like(plain(found), shape=(at_zero,))]) if at_zero else found


def vandermonde(x: Any, N: int | None = None, increasing: bool = False) -> Any:
    columns = x.shape[0] if N is None else N
    x = in_dtype(x, np.promote_types(x.dtype, int))
    ones = np.ones_like(plain(x))[:, None]
    factors = np.concatenate([ones, np.broadcast_to(x[:, None], (x.shape[0], max(columns - 1, 0)))], axis=1)
    powers = np.cumprod(factors[:, :columns], axis=1)
    return powers if increasing else np.flip(powers, 1)


def fit(
    x: Any, y: Any, deg: Any, rcond: Any = None, full: bool = False, w: Any = None, cov: Any = False
) -> Any:
    if np.ndim(x) != 1 or np.ndim(y) not in (1, 2):
        raise TypeError(
            f"np.polyfit takes x with one axis and y with one or two, not {np.ndim(x)} and {np.ndim(y)}"
        )
    if np.size(x) == 0:
        raise TypeError("np.polyfit takes at least one point")
    x, y = coefficients(x) + 0.0, coefficients(y) + 0.0
    order = int(deg) + 1
    cutoff = x.shape[0] * float(np.finfo(x.dtype).eps) if rcond is None else rcond
    left = vandermonde(x, order)
    if w is not None:
        w = coefficients(w) + 0.0
        left = left * w[:, None]
        y = in_dtype(y * (w[:, None] if y.ndim == 2 else w), y.dtype)
    scale = np.sqrt(np.sum(left * left, axis=0))
    left = left / scale
    c, residuals, rank, s = np.linalg.lstsq(left, y, cutoff)
    c = np.transpose(np.transpose(c) / scale)
    if full:
        return c, residuals, rank, s, cutoff
    if not cov:
        return c
    base = np.linalg.inv(np.dot(np.transpose(left), left)) / np.outer(scale, scale)
    factor = 1 if cov == "unscaled" else residuals / (x.shape[0] - order)
    if y.ndim == 1:
        return c, base * factor
    return c, base[:, :, None] * factor


composed(np.poly, from_roots)
composed(np.roots, roots)
composed(np.vander, vandermonde)
composed(np.polyfit, fit)
