"""The functions of `scipy.special` that are no ufuncs. The ufuncs need no other name: call SciPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special

from ..rules import special

Axis = int | tuple[int, ...] | None


def logsumexp(
    a: Any, axis: Axis = None, b: Any = None, keepdims: bool = False, return_sign: bool = False
) -> Any:
    """Logarithm of a sum of exponentials; see `scipy.special.logsumexp`.

    Parameters
    ----------
    a : array
        Exponents.
    axis : int or tuple of int, optional
        Axes to sum over; all by default.
    b : array, optional
        Factors of the exponentials, of a shape that broadcasts to that of `a`.
    keepdims : bool
        Whether to keep the axes summed over, with length 1.
    return_sign : bool
        Not supported on traced values.

    Returns
    -------
    array

    Examples
    --------
    >>> from mutangent.scipy.special import logsumexp
    >>> mt.grad(logsumexp)(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    """
    if return_sign:
        return scipy.special.logsumexp(a, axis, b, keepdims, return_sign)
    if b is not None and np.shape(a) != np.shape(b):
        a, b = np.broadcast_arrays(a, b)
    return special.logsumexp(a, b, axis, keepdims)


def softmax(x: Any, axis: Axis = None) -> Any:
    """Exponentials divided by their sum; see `scipy.special.softmax`.

    Examples
    --------
    >>> from mutangent.scipy.special import softmax
    >>> mt.grad(lambda x: softmax(x)[0])(np.array([0.0, 0.0]))
    array([ 0.25, -0.25])
    """
    return special.softmax(x, axis)


def log_softmax(x: Any, axis: Axis = None) -> Any:
    """Logarithm of the softmax; see `scipy.special.log_softmax`.

    Examples
    --------
    >>> from mutangent.scipy.special import log_softmax
    >>> mt.grad(lambda x: log_softmax(x)[0])(np.array([0.0, 0.0]))
    array([ 0.5, -0.5])
    """
    return special.log_softmax(x, axis)


def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of the digamma function; see `scipy.special.polygamma`.

    Examples
    --------
    >>> from mutangent.scipy.special import polygamma
    >>> bool(np.isclose(mt.grad(polygamma, argnums=1)(0, 1.0), np.pi**2 / 6))
    True
    """
    n = np.asarray(n)
    higher = np.maximum(n, 1)
    sign = np.where(higher % 2 == 0, -1.0, 1.0)
    values = sign * scipy.special.gamma(higher + 1.0) * scipy.special.zeta(higher + 1.0, x)
    return values if np.all(n > 0) else np.where(n == 0, scipy.special.digamma(x), values)


def multigammaln(a: Any, d: int) -> Any:
    """Logarithm of the multivariate gamma function of dimension `d`; see `scipy.special.multigammaln`.

    Examples
    --------
    >>> from mutangent.scipy.special import multigammaln
    >>> bool(np.isclose(mt.grad(multigammaln)(3.0, 1), 1.5 - np.euler_gamma))
    True
    """
    if not np.all(np.greater(a, (d - 1) / 2)):
        raise ValueError(f"multigammaln needs a > (d - 1)/2 = {(d - 1) / 2}")
    total = d * (d - 1) / 4 * float(np.log(np.pi))
    for k in range(d):
        total = total + scipy.special.gammaln(a - k / 2)
    return total


def lambertw(z: Any, k: Any = 0, tol: float = 1e-8) -> Any:
    """The solution of ``w * exp(w) = z``, always complex; see `scipy.special.lambertw`.

    Examples
    --------
    >>> from mutangent.scipy.special import lambertw
    >>> mt.grad(lambda z: lambertw(z).real)(0.0)
    1.0
    """
    return special.lambertw(z, k, tol)
