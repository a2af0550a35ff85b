"""Derivatives of SciPy's special functions, those that are ufuncs.

This file is read when a traced value first meets a function without a row and `scipy.special` is loaded already; it
never is what loads SciPy. The functions of `scipy.special` that are no ufuncs do not dispatch. Those at the end are
operations of ours, which `mutangent.scipy.special` calls.

The derivative of a special function is nearly always another one. Each is written in the form that is accurate in the
tails and regular where the function is, and whose own derivative has a row in turn. An operand with None has no known
derivative (the order of a Bessel function, the shape of an incomplete gamma function): a traced one is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.special as sc

from .._rulebook import all_read, composed, constant, elementwise, function
from .contractions import conjugated
from .dispatch import dispatched
from .elementwise import LOG_2, LOG_10, chosen, quotient
from .reductions import Axis, kept, shared_among

ROOT_PI = float(np.sqrt(np.pi))
ROOT_2_PI = float(np.sqrt(2 * np.pi))
ROOT_2 = float(np.sqrt(2.0))


class _Probe:
    """An operand that answers with the ufunc that was called on it."""

    def __array_ufunc__(self, ufunc: np.ufunc, *_args: Any, **_kwargs: Any) -> np.ufunc:
        return ufunc


# `scipy.special.zeta` is a Python function around a ufunc that has no public name.
hurwitz_zeta: np.ufunc = sc.zeta(2.0, _Probe())


def parameter(value: float, x: Any) -> Any:
    """A real parameter in the precision of `x`: next to a Python number SciPy's ufuncs of many operands widen float32."""
    return np.finfo(x.dtype).dtype.type(value) if hasattr(x, "dtype") else value


# -- steps ---------------------------------------------------------------------------------------------------------

constant(sc.gammasgn, sc.round)

# -- SciPy's own versions of elementary functions ------------------------------------------------------------------

elementwise(sc.cbrt, lambda t, y, _a: t / (3 * y * y))
elementwise(sc.exp2, lambda t, y, _a: t * (y * LOG_2))
elementwise(sc.exp10, lambda t, y, _a: t * (y * LOG_10))
elementwise(sc.expm1, lambda t, y, _a: t * (y + 1))
elementwise(sc.log1p, lambda t, _y, a: t / (a + 1))
elementwise(sc.cosm1, lambda t, _y, a: -t * np.sin(a))


def exprel_slope(x: Any) -> Any:
    """The derivative of (exp(x) - 1)/x."""
    return sc.hyp1f1(parameter(2, x), parameter(3, x), x) / 2


elementwise(sc.exprel, lambda t, _y, a: t * exprel_slope(a))

DEGREE = np.pi / 180
elementwise(sc.sindg, lambda t, _y, a: t * (sc.cosdg(a) * DEGREE))
elementwise(sc.cosdg, lambda t, _y, a: -t * (sc.sindg(a) * DEGREE))
elementwise(sc.tandg, lambda t, y, _a: t * ((1 + y * y) * DEGREE))
elementwise(sc.cotdg, lambda t, y, _a: -t * ((1 + y * y) * DEGREE))
elementwise(
    sc.radian,
    lambda t, _y, _d, _m, _s: t * DEGREE,
    lambda t, _y, _d, _m, _s: t * (DEGREE / 60),
    lambda t, _y, _d, _m, _s: t * (DEGREE / 3600),
)

# x**p - 1; at p = 0 its derivative with respect to x is 0, also for x = 0.
elementwise(
    sc.powm1,
    lambda t, _y, x, p: t * (p * np.power(x, np.where((x == 0) & (p == 0), 1, p) - 1)),
    lambda t, y, x, _p: sc.xlogy(t * (y + 1), x),
)

# -- logistic functions --------------------------------------------------------------------------------------------

# 1 - y would be rounded to 0 for large a.
elementwise(sc.expit, lambda t, y, a: t * (y * sc.expit(-a)))
elementwise(sc.log_expit, lambda t, _y, a: t * sc.expit(-a))
elementwise(sc.logit, lambda t, _y, a: t / (a * (1 - a)))

# -- entropies, and products with a logarithm ----------------------------------------------------------------------

# `xlogy(t, a)` is t log(a), and 0 for t = 0 also where the logarithm is infinite.
# In the direction of b the function is constant at a = 0: the quotient is 0 for 0/0, and strict in its own derivative.
elementwise(sc.xlogy, lambda t, _y, _a, b: sc.xlogy(t, b), lambda t, _y, a, b: t * quotient(a, b))
elementwise(sc.xlog1py, lambda t, _y, _a, b: sc.xlog1py(t, b), lambda t, _y, a, b: t * quotient(a, 1 + b))
elementwise(sc.entr, lambda t, _y, a: chosen(a >= 0, -sc.xlogy(t, np.where(a < 0, 1, a)) - t))


def log_ratio(t: Any, a: Any, b: Any) -> Any:
    """``t * log(a / b)`` where both are in the domain of a relative entropy."""
    return sc.xlogy(t, np.where(b > 0, a, 1) / np.where(b > 0, b, 1))


elementwise(
    sc.rel_entr,
    lambda t, _y, a, b: log_ratio(t, a, b) + t,
    lambda t, _y, a, b: -t * quotient(a, b),
)
elementwise(
    sc.kl_div,
    lambda t, _y, a, b: log_ratio(t, a, b),
    lambda t, _y, a, b: t - t * quotient(a, b),
)

# -- losses --------------------------------------------------------------------------------------------------------

elementwise(
    sc.huber,
    lambda t, _y, d, r: chosen(np.absolute(r) > d, t * (np.absolute(r) - d)),
    lambda t, _y, d, r: t * np.clip(r, -d, d),
)


def pseudo_huber_delta_push(t: Any, _y: Any, d: Any, r: Any) -> Any:
    """Derivative of d²(s - 1) with s = sqrt(1 + (r/d)²) in the direction of d, without cancellation for small r."""
    u = np.square(r / d)
    s = np.sqrt(1 + u)
    return t * (d * u * u / (s * np.square(s + 1)))


elementwise(
    sc.pseudo_huber,
    pseudo_huber_delta_push,
    lambda t, _y, d, r: t * (r / np.sqrt(1 + np.square(r / d))),
)

# -- power transformations -----------------------------------------------------------------------------------------


def log_quotient_slope(x: Any) -> Any:
    """The derivative of log(1 + x)/x."""
    return -sc.hyp2f1(parameter(2, x), parameter(2, x), parameter(3, x), -x) / 2


def boxcox_power_push(t: Any, log: Any, power: Any) -> Any:
    """Of ``log * exprel(power * log)``, which is regular at power 0, in the direction of the power."""
    return t * (log * log * exprel_slope(power * log))


elementwise(
    sc.boxcox,
    lambda t, _y, a, p: t * np.power(a, p - 1),
    lambda t, _y, a, p: boxcox_power_push(t, np.log(a), p),
)
elementwise(
    sc.boxcox1p,
    lambda t, _y, a, p: t * np.power(1 + a, p - 1),
    lambda t, _y, a, p: boxcox_power_push(t, np.log1p(a), p),
)
elementwise(
    sc.inv_boxcox,
    lambda t, y, _a, p: t * np.power(y, 1 - p),
    lambda t, y, a, p: t * (y * a * a * log_quotient_slope(p * a)),
)
elementwise(
    sc.inv_boxcox1p,
    lambda t, y, _a, p: t * np.power(1 + y, 1 - p),
    lambda t, y, a, p: t * ((1 + y) * a * a * log_quotient_slope(p * a)),
)

# -- error functions and the normal distribution -------------------------------------------------------------------

elementwise(sc.erf, lambda t, _y, a: t * (2 / ROOT_PI * np.exp(-a * a)))
elementwise(sc.erfc, lambda t, _y, a: -t * (2 / ROOT_PI * np.exp(-a * a)))
elementwise(sc.erfi, lambda t, _y, a: t * (2 / ROOT_PI * np.exp(a * a)))
elementwise(sc.erfcx, lambda t, y, a: t * (2 * a * y - 2 / ROOT_PI))
elementwise(sc.dawsn, lambda t, y, a: t * (1 - 2 * a * y))
elementwise(sc.wofz, lambda t, y, a: t * (2j / ROOT_PI - 2 * a * y))
elementwise(sc.erfinv, lambda t, y, _a: t / (2 / ROOT_PI * np.exp(-y * y)))
elementwise(sc.erfcinv, lambda t, y, _a: -t / (2 / ROOT_PI * np.exp(-y * y)))


def normal_density(x: Any) -> Any:
    return np.exp(-np.square(x) / 2) / ROOT_2_PI


elementwise(sc.ndtr, lambda t, _y, a: t * normal_density(a))
# The density over the distribution function, in a form in which neither underflows.
elementwise(sc.log_ndtr, lambda t, _y, a: t * (2 / ROOT_2_PI / sc.erfcx(-a / ROOT_2)))
elementwise(sc.ndtri, lambda t, y, _a: t / normal_density(y))
elementwise(sc.ndtri_exp, lambda t, y, a: t * (ROOT_2_PI * np.exp(a + np.square(y) / 2)))
elementwise(
    sc.owens_t,
    lambda t, _y, h, a: -t * (normal_density(h) / 2 * sc.erf(a * h / ROOT_2)),
    lambda t, _y, h, a: t * (np.exp(-np.square(h) * (1 + a * a) / 2) / (2 * np.pi * (1 + a * a))),
)

# -- gamma and beta functions --------------------------------------------------------------------------------------


def rgamma_push(t: Any, y: Any, a: Any) -> Any:
    """Derivative of 1/Γ(a), an entire function: by reflection on the left, where Γ has poles and the derivative none."""
    left = np.real(a) < 0.5
    mirrored = np.where(left, 1 - a, 1)
    turned = np.pi * np.where(left, a, 0)
    by_reflection = sc.gamma(mirrored) * (np.cos(turned) - sc.digamma(mirrored) * np.sin(turned) / np.pi)
    return t * np.where(left, by_reflection, -y * sc.digamma(np.where(left, 1, a)))


def trigamma(a: Any) -> Any:
    """The derivative of the digamma function; SciPy has none for complex numbers."""
    if not np.iscomplexobj(a):
        return sc.zeta(2.0, a)
    left = np.real(a) < 0.5
    right = np.where(left, 1 - a, a)
    total = sum([1 / np.square(right + k) for k in range(12)])
    inverse = 1 / (right + 12)
    squared = np.square(inverse)
    series = squared * 0 + 7 / 6
    for bernoulli in (-691 / 2730, 5 / 66, -1 / 30, 1 / 42, -1 / 30, 1 / 6):
        series = series * squared + bernoulli
    total = total + inverse + squared / 2 + series * squared * inverse
    return np.where(left, np.square(np.pi / np.sin(np.pi * np.where(left, a, 0.5))) - total, total)


elementwise(sc.gamma, lambda t, y, a: t * (y * sc.digamma(a)))
elementwise(sc.rgamma, rgamma_push)
elementwise(sc.gammaln, lambda t, _y, a: t * sc.digamma(a))
elementwise(sc.loggamma, lambda t, _y, a: t * sc.digamma(a))
elementwise(sc.digamma, lambda t, _y, a: t * trigamma(a))
elementwise(hurwitz_zeta, None, lambda t, _y, s, a: -t * (s * sc.zeta(s + 1, a)))
elementwise(
    sc.poch,
    lambda t, y, a, m: t * (y * (sc.digamma(a + m) - sc.digamma(a))),
    lambda t, y, a, m: t * (y * sc.digamma(a + m)),
)
elementwise(
    sc.beta,
    lambda t, y, a, b: t * (y * (sc.digamma(a) - sc.digamma(a + b))),
    lambda t, y, a, b: t * (y * (sc.digamma(b) - sc.digamma(a + b))),
)
elementwise(
    sc.betaln,
    lambda t, _y, a, b: t * (sc.digamma(a) - sc.digamma(a + b)),
    lambda t, _y, a, b: t * (sc.digamma(b) - sc.digamma(a + b)),
)


def gamma_density(shape: Any, x: Any) -> Any:
    return np.exp(sc.xlogy(shape - 1, x) - x - sc.gammaln(shape))


def beta_density(a: Any, b: Any, x: Any) -> Any:
    return np.exp(sc.xlogy(a - 1, x) + sc.xlog1py(b - 1, -x) - sc.betaln(a, b))


elementwise(sc.gammainc, None, lambda t, _y, a, x: t * gamma_density(a, x))
elementwise(sc.gammaincc, None, lambda t, _y, a, x: -t * gamma_density(a, x))
elementwise(sc.gammaincinv, None, lambda t, y, a, _p: t / gamma_density(a, y))
elementwise(sc.gammainccinv, None, lambda t, y, a, _p: -t / gamma_density(a, y))
elementwise(sc.betainc, None, None, lambda t, _y, a, b, x: t * beta_density(a, b, x))
elementwise(sc.betaincc, None, None, lambda t, _y, a, b, x: -t * beta_density(a, b, x))
elementwise(sc.betaincinv, None, None, lambda t, y, a, b, _p: t / beta_density(a, b, y))
elementwise(sc.betainccinv, None, None, lambda t, y, a, b, _p: -t / beta_density(a, b, y))

# -- integrals -----------------------------------------------------------------------------------------------------


def expn_push(t: Any, y: Any, n: Any, a: Any) -> Any:
    """Derivative of E_n: -E_{n-1}, and E_0 is exp(-a)/a."""
    return -t * np.where(np.equal(n, 0), y + y / a, sc.expn(np.maximum(n - 1, 0), a))


elementwise(sc.exp1, lambda t, _y, a: -t * (np.exp(-a) / a))
elementwise(sc.expi, lambda t, _y, a: t * (np.exp(a) / a))
elementwise(sc.expn, None, expn_push)
# log(a)/(1 - a), regular at 1.
elementwise(
    sc.spence,
    lambda t, _y, a: -t * sc.hyp2f1(parameter(1, a), parameter(1, a), parameter(2, a), 1 - a),
)
elementwise(sc.wrightomega, lambda t, y, _a: t * (y / (1 + y)))

# Two or more results. For complex operands these functions are holomorphic: their pullback is conjugated.


def hyperbolic_sinc(x: Any) -> Any:
    """sinh(x)/x, regular at 0."""
    found = np.sinc(x * (1j / np.pi))
    return found if np.iscomplexobj(x) else np.real(found)


# The integrals of the cosines are infinite at 0 and those of the sines are not, so they are operations of their own: in one
# row a result that nobody has asked for would have a cotangent 0, and that times infinity.
def _sine_integral(x: Any) -> Any:
    return sc.sici(x)[0]


def _cosine_integral(x: Any) -> Any:
    return sc.sici(x)[1]


def _hyperbolic_sine_integral(x: Any) -> Any:
    return sc.shichi(x)[0]


def _hyperbolic_cosine_integral(x: Any) -> Any:
    return sc.shichi(x)[1]


sine_integral, cosine_integral = dispatched(_sine_integral), dispatched(_cosine_integral)
hyperbolic_sine_integral = dispatched(_hyperbolic_sine_integral)
hyperbolic_cosine_integral = dispatched(_hyperbolic_cosine_integral)
elementwise(sine_integral, lambda t, _y, x: t * np.sinc(x / np.pi))
elementwise(cosine_integral, lambda t, _y, x: t * (np.cos(x) / x))
elementwise(hyperbolic_sine_integral, lambda t, _y, x: t * hyperbolic_sinc(x))
elementwise(hyperbolic_cosine_integral, lambda t, _y, x: t * (np.cosh(x) / x))
composed(sc.sici, lambda x: (sine_integral(x), cosine_integral(x)))
composed(sc.shichi, lambda x: (hyperbolic_sine_integral(x), hyperbolic_cosine_integral(x)))


def fresnel_pullback(g: Any, _y: Any, x: Any) -> Any:
    angle = np.pi / 2 * np.square(conjugated(x))
    return g[0] * np.sin(angle) + g[1] * np.cos(angle)


function(sc.fresnel, fresnel_pullback, multiple=True)


def airy_pullback(g: Any, _y: Any, z: Any) -> Any:
    ai, aip, bi, bip = (conjugated(each) for each in sc.airy(z))
    z = conjugated(z)
    return g[0] * aip + g[1] * (z * ai) + g[2] * bip + g[3] * (z * bi)


function(sc.airy, airy_pullback, multiple=True)

# -- elliptic integrals --------------------------------------------------------------------------------------------

# As hypergeometric functions they have no removable singularity at m = 0.
elementwise(
    sc.ellipk,
    lambda t, _y, m: t * (np.pi / 8 * sc.hyp2f1(parameter(1.5, m), parameter(1.5, m), parameter(2, m), m)),
)
elementwise(
    sc.ellipe,
    lambda t, _y, m: -t * (np.pi / 8 * sc.hyp2f1(parameter(0.5, m), parameter(1.5, m), parameter(2, m), m)),
)
elementwise(sc.ellipkinc, lambda t, _y, phi, m: t / np.sqrt(1 - m * np.square(np.sin(phi))), None)
elementwise(sc.ellipeinc, lambda t, _y, phi, m: t * np.sqrt(1 - m * np.square(np.sin(phi))), None)

# -- hypergeometric functions, with respect to their argument ------------------------------------------------------

elementwise(sc.hyp0f1, None, lambda t, _y, b, z: t * (sc.hyp0f1(b + 1, z) / b))
elementwise(sc.hyp1f1, None, None, lambda t, _y, a, b, z: t * (a / b * sc.hyp1f1(a + 1, b + 1, z)))
elementwise(sc.hyperu, None, None, lambda t, _y, a, b, z: -t * (a * sc.hyperu(a + 1, b + 1, z)))
elementwise(
    sc.hyp2f1,
    None,
    None,
    None,
    lambda t, _y, a, b, c, z: t * (a * b / c * sc.hyp2f1(a + 1, b + 1, c + 1, z)),
)

# -- Bessel functions ----------------------------------------------------------------------------------------------

# Differences of neighbouring orders, which are regular at 0, where those with a division by z are not.
elementwise(sc.j0, lambda t, _y, a: -t * sc.j1(a))
elementwise(sc.j1, lambda t, _y, a: t * ((sc.j0(a) - sc.jv(2, a)) / 2))
elementwise(sc.y0, lambda t, _y, a: -t * sc.y1(a))
elementwise(sc.y1, lambda t, _y, a: t * ((sc.y0(a) - sc.yv(2, a)) / 2))
elementwise(sc.i0, lambda t, _y, a: t * sc.i1(a))
elementwise(sc.i1, lambda t, _y, a: t * ((sc.i0(a) + sc.iv(2, a)) / 2))
elementwise(sc.k0, lambda t, _y, a: -t * sc.k1(a))
elementwise(sc.k1, lambda t, _y, a: -t * ((sc.k0(a) + sc.kv(2, a)) / 2))
elementwise(sc.jv, None, lambda t, _y, v, z: t * ((sc.jv(v - 1, z) - sc.jv(v + 1, z)) / 2))
elementwise(sc.yv, None, lambda t, _y, v, z: t * ((sc.yv(v - 1, z) - sc.yv(v + 1, z)) / 2))
elementwise(sc.yn, None, lambda t, _y, n, z: t * ((sc.yv(n - 1, z) - sc.yv(n + 1, z)) / 2))
elementwise(sc.iv, None, lambda t, _y, v, z: t * ((sc.iv(v - 1, z) + sc.iv(v + 1, z)) / 2))
elementwise(sc.kv, None, lambda t, _y, v, z: -t * ((sc.kv(v - 1, z) + sc.kv(v + 1, z)) / 2))
elementwise(sc.kn, None, lambda t, _y, n, z: -t * ((sc.kv(n - 1, z) + sc.kv(n + 1, z)) / 2))
elementwise(sc.hankel1, None, lambda t, _y, v, z: t * ((sc.hankel1(v - 1, z) - sc.hankel1(v + 1, z)) / 2))
elementwise(sc.hankel2, None, lambda t, _y, v, z: t * ((sc.hankel2(v - 1, z) - sc.hankel2(v + 1, z)) / 2))

# Scaled by an exponential: K and H by a holomorphic one, I by exp(-|Re z|), whose part of the derivative is real.
elementwise(sc.k0e, lambda t, y, a: t * (y - sc.k1e(a)))
elementwise(sc.k1e, lambda t, y, a: t * (y - (sc.k0e(a) + sc.kve(2, a)) / 2))
elementwise(sc.kve, None, lambda t, y, v, z: t * (y - (sc.kve(v - 1, z) + sc.kve(v + 1, z)) / 2))
elementwise(
    sc.hankel1e,
    None,
    lambda t, y, v, z: t * ((sc.hankel1e(v - 1, z) - sc.hankel1e(v + 1, z)) / 2 - 1j * y),
)
elementwise(
    sc.hankel2e,
    None,
    lambda t, y, v, z: t * ((sc.hankel2e(v - 1, z) - sc.hankel2e(v + 1, z)) / 2 + 1j * y),
)
elementwise(sc.i0e, lambda t, y, a: t * (sc.i1e(a) - np.sign(a) * y))
elementwise(sc.i1e, lambda t, y, a: t * ((sc.i0e(a) + sc.ive(2, a)) / 2 - np.sign(a) * y))


def ive_pullback(g: Any, y: Any, v: Any, z: Any) -> Any:
    moved = g * conjugated((sc.ive(v - 1, z) + sc.ive(v + 1, z)) / 2)
    return moved - np.sign(np.real(z)) * np.real(conjugated(y) * g)


function(sc.ive, None, ive_pullback)

# -- Struve functions ----------------------------------------------------------------------------------------------


def struve_rest(v: Any, x: Any) -> Any:
    return np.power(x / 2, v) * sc.rgamma(v + 1.5) / ROOT_PI


elementwise(
    sc.struve,
    None,
    lambda t, _y, v, x: t * ((sc.struve(v - 1, x) - sc.struve(v + 1, x) + struve_rest(v, x)) / 2),
)
elementwise(
    sc.modstruve,
    None,
    lambda t, _y, v, x: t * ((sc.modstruve(v - 1, x) + sc.modstruve(v + 1, x) + struve_rest(v, x)) / 2),
)

# -- orthogonal polynomials, with respect to their argument --------------------------------------------------------

# The derivative is of a lower degree; of degree 0 it is 0, by its factor.
elementwise(
    sc.eval_jacobi,
    None,
    None,
    None,
    lambda t, _y, n, a, b, x: t * ((n + a + b + 1) / 2 * sc.eval_jacobi(n - 1, a + 1, b + 1, x)),
)
elementwise(
    sc.eval_legendre, None, lambda t, _y, n, x: t * ((n + 1) / 2 * sc.eval_jacobi(n - 1, 1.0, 1.0, x))
)
elementwise(
    sc.eval_gegenbauer,
    None,
    None,
    lambda t, _y, n, a, x: t * (2 * a * sc.eval_gegenbauer(n - 1, a + 1, x)),
)
elementwise(sc.eval_chebyt, None, lambda t, _y, n, x: t * (n * sc.eval_chebyu(n - 1, x)))
elementwise(sc.eval_chebyu, None, lambda t, _y, n, x: t * (2 * sc.eval_gegenbauer(n - 1, 2.0, x)))
elementwise(sc.eval_laguerre, None, lambda t, _y, n, x: -t * sc.eval_genlaguerre(n - 1, 1.0, x))
elementwise(sc.eval_genlaguerre, None, None, lambda t, _y, n, a, x: -t * sc.eval_genlaguerre(n - 1, a + 1, x))
elementwise(sc.eval_hermite, None, lambda t, _y, n, x: t * (2 * n * sc.eval_hermite(np.maximum(n - 1, 0), x)))
elementwise(
    sc.eval_hermitenorm, None, lambda t, _y, n, x: t * (n * sc.eval_hermitenorm(np.maximum(n - 1, 0), x))
)

# -- sums of exponentials ------------------------------------------------------------------------------------------


def _logsumexp(a: Any, b: Any, axis: Axis, keepdims: bool) -> Any:
    return sc.logsumexp(a, axis, b, keepdims)


def weights(a: Any, y: Any, axis: Axis, keepdims: bool) -> Any:
    """exp(a - y). Where the sum is infinite its infinite terms have equal shares; where it is 0, none has any."""
    y = kept(y, a.shape, axis, keepdims)
    found = np.exp(a - np.where(np.isinf(y), 0, y)) if np.any(np.isinf(y)) else np.exp(a - y)
    if np.any(y == np.inf):
        largest = a == np.inf
        found = np.where(y == np.inf, shared_among(largest, np.ones_like(found), axis), found)
    return found


def terms_pullback(g: Any, y: Any, a: Any, b: Any, axis: Axis, keepdims: bool) -> Any:
    found = weights(a, y, axis, keepdims)
    if b is not None:
        found = np.where(np.equal(b, 0), 0, b * found)
    return kept(g, a.shape, axis, keepdims) * conjugated(found)


def factors_pullback(g: Any, y: Any, a: Any, _b: Any, axis: Axis, keepdims: bool) -> Any:
    return kept(g, a.shape, axis, keepdims) * conjugated(weights(a, y, axis, keepdims))


logsumexp = dispatched(_logsumexp)
function(logsumexp, terms_pullback, factors_pullback)


def _softmax(x: Any, axis: Axis) -> Any:
    return sc.softmax(x, axis)


def softmax_pullback(g: Any, y: Any, _x: Any, axis: Axis) -> Any:
    y = conjugated(y)
    return y * (g - np.sum(g * y, axis=axis, keepdims=True))


softmax = dispatched(_softmax)
function(softmax, softmax_pullback)


def _log_softmax(x: Any, axis: Axis) -> Any:
    return sc.log_softmax(x, axis)


def log_softmax_pullback(g: Any, y: Any, _x: Any, axis: Axis) -> Any:
    return g - np.exp(conjugated(y)) * np.sum(g, axis=axis, keepdims=True)


log_softmax = dispatched(_log_softmax)
function(log_softmax, log_softmax_pullback)


# -- Lambert's function --------------------------------------------------------------------------------------------


def _lambertw(z: Any, k: Any, tol: float) -> Any:
    return sc.lambertw(z, k, tol)


def lambertw_pullback(g: Any, y: Any, _z: Any, _k: Any, _tol: float) -> Any:
    return g * conjugated(1 / (np.exp(y) * (1 + y)))


lambertw = dispatched(_lambertw)
function(lambertw, lambertw_pullback)

all_read("scipy.special")
