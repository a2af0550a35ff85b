"""Derivatives of elementwise functions.

A row gives, for each operand, the tangent `t` of that operand pushed through the derivative; `y` is the result. For
complex numbers the expression is the holomorphic one, and the sweep conjugates around it. Functions that are not
holomorphic have pullbacks instead, with x̄ = Jᴴ ȳ.

Where a derivative jumps: maxima and minima share equally among ties, |x| has derivative 0 at 0. Where it is infinite
although the function is finite (`sqrt` at 0), the product with a cotangent 0 is nan, if the tape does not show that it is
0; see `_flat`, and `quotient` below for the points at which a derivative is bounded.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from typing import Any

import numpy as np

from .._arrays import is_on_device, is_without_zero
from .._rulebook import composed, elementwise, function, no_rule, rule
from .dispatch import dispatched, plain, strong

LOG_2 = float(np.log(2.0))
LOG_10 = float(np.log(10.0))
DEGREE = np.pi / 180


# -- division by what may be 0 -------------------------------------------------------------------------------------

# Two operations whose value is 0 at points at which their own derivative is that of the plain division, infinite or nan:
# so a first derivative is what is meant there, and the second, which nobody knows, is not silently that of a constant.


def _quotient(a: Any, denominator: Any) -> Any:
    if is_without_zero(denominator):
        return a / denominator
    return a / np.where((a == 0) & (denominator == 0), np.inf, denominator)


def _flat_quotient(t: Any, denominator: Any) -> Any:
    if is_without_zero(denominator):
        return t / denominator
    return t / np.where(np.isfinite(t) & (denominator == 0), np.inf, denominator)


quotient = dispatched(_quotient)
"""``a / denominator``, but 0 for 0/0."""

flat_quotient = dispatched(_flat_quotient)
"""``t / denominator``, but 0 where the denominator is 0 and `t` finite."""

# The numerator's derivative is the strict one. That of the denominator needs not be: 0/0 of a constant 0 is 0.
for division in (quotient, flat_quotient):
    elementwise(
        division,
        lambda t, _y, _a, b: t / b,
        lambda t, _y, a, b: -t * quotient(quotient(a, b), b),
    )


def always(_saved: Any) -> bool:
    """Of a function that has a kink wherever it is 0."""
    return True


# -- arithmetic ----------------------------------------------------------------------------------------------------

elementwise(np.add, lambda t, _y, _a, _b: t, lambda t, _y, _a, _b: t)
elementwise(np.subtract, lambda t, _y, _a, _b: t, lambda t, _y, _a, _b: -t)
elementwise(np.multiply, lambda t, _y, _a, b: t * b, lambda t, _y, a, _b: t * a)
elementwise(np.divide, lambda t, _y, _a, b: t / b, lambda t, y, _a, b: -t * y / b)
elementwise(np.negative, lambda t, _y, _a: -t)
elementwise(np.positive, lambda t, _y, _a: t)
elementwise(np.square, lambda t, _y, a: t * (a + a))
elementwise(np.reciprocal, lambda t, y, _a: -t * y * y)
# a = b floor(a / b) + y; the floor is constant between its jumps.
elementwise(np.remainder, lambda t, _y, _a, _b: t, lambda t, _y, a, b: -t * np.floor_divide(a, b))
elementwise(np.fmod, lambda t, _y, _a, _b: t, lambda t, _y, a, b: -t * np.trunc(a / b))
composed(np.divmod, lambda a, b: (np.floor_divide(a, b), np.remainder(a, b)))
function(np.modf, lambda g, _y, _a: g[0], multiple=True)
# The mantissa is a / 2**exponent; the exponent is constant between its jumps.
function(np.frexp, lambda g, _y, a: np.ldexp(g[0], -np.frexp(a)[1]), multiple=True)


def base_of_power(a: Any, b: Any) -> Any:
    """`a` as a complex number where Python's power of it is complex: of a negative number and a fraction."""
    if isinstance(a, np.ndarray | np.generic):
        return a
    base, exponent = plain(a), plain(b)
    if type(base) is float and base < 0 and type(exponent) is float and exponent % 1:
        return a + 0j
    return a


def power_base_push(t: Any, _y: Any, a: Any, b: Any) -> Any:
    """Derivative of ``a ** b`` in the direction of `a`: b·a**(b-1), which is 0 for b = 0 also at a = 0."""
    if type(b) is int or type(b) is float:
        if b == 2:
            return t * (a + a)
        if b == 1:
            return t
        if b == 0:
            return np.zeros_like(t)
        a = base_of_power(a, b)
        # The operator is faster, but a Python number 0.0 refuses negative powers.
        return t * (b * (a ** (b - 1) if b > 1 else np.power(a, b - 1)))
    a = base_of_power(a, b)
    return t * (b * slope_power(a, np.where((a == 0) & (b == 0), 1, b) - 1))


def power_exponent_push(t: Any, y: Any, a: Any, b: Any) -> Any:
    """Derivative of ``a ** b`` in the direction of `b`: log(a)·a**b, which is 0 for a = 0 and b ≥ 0."""
    if type(a) is int or type(a) is float:
        if a > 0:
            return t * (y * np.log(a).item())
        a = np.float64(a) if type(base_of_power(a, b)) is float else np.complex128(a)
    else:
        a = base_of_power(a, b)
    return t * np.where((a == 0) & np.equal(b, 0), 0, power_log(a, b, plain(y)))


def _power_log(a: Any, b: Any, y: Any) -> Any:
    return y * np.log(np.where((a == 0) & np.greater(b, 0), 1, a))


power_log = dispatched(_power_log)
"""``log(a) * y`` with y = a**b: 0 for a = 0 and b > 0, where it is continuous."""

slope_power = dispatched(np.power)
"""The power as a factor of a derivative. Where 0**0 lies in it, that is no constant: it jumps with the exponent."""

elementwise(slope_power, power_base_push, lambda t, y, a, b: t * power_log(a, b, plain(y)))
elementwise(
    power_log,
    lambda t, _y, a, b, _power: (
        t * (slope_power(a, b - 1) + b * power_log(a, b - 1, np.power(plain(a), plain(b) - 1)))
    ),
    lambda t, y, a, b, _power: t * (y * np.log(np.where((a == 0) & np.greater(b, 0), 1, a))),
    None,
)


def is_below_square(saved: Any) -> bool:
    """Whether an exponent may be below 2, so that the power has no second derivative at 0. A device is not asked."""
    exponent = plain(saved[2])
    return exponent is None or is_on_device(exponent) or bool(np.any(np.real(exponent) < 2))


elementwise(np.power, power_base_push, power_exponent_push, kink=is_below_square)
elementwise(np.float_power, power_base_push, power_exponent_push, kink=is_below_square)


def _power(a: Any, b: float) -> Any:
    return a**b


def fraction_push(division: Any, t: Any, a: Any, b: Any) -> Any:
    return division(t * b, np.power(base_of_power(a, b), 1 - b))


# The row for a number b as the exponent, with 1/2 <= b < 1.
fraction_power = dispatched(_power)
elementwise(
    fraction_power,
    lambda t, _y, a, b: fraction_push(np.divide, t, a, b),
    None,
    forward=(lambda t, _y, a, b: fraction_push(quotient, t, a, b), None),
    flat=(lambda t, _y, a, b: fraction_push(flat_quotient, t, a, b), None),
    kink=always,
)
rule(np.power).root = rule(np.float_power).root = rule(fraction_power)

# -- roots, exponentials, logarithms -------------------------------------------------------------------------------

# The derivative of a root is infinite at 0. A smooth curve of operands that stops there, with a tangent 0, only touches the
# edge of the domain, and has a kink or a derivative 0 when the root has been taken. For the cube root that is not so.
elementwise(
    np.sqrt,
    lambda t, y, _a: t / (2 * y),
    forward=(lambda t, y, _a: quotient(t, 2 * y),),
    flat=(lambda t, y, _a: flat_quotient(t, 2 * y),),
    kink=always,
)
elementwise(np.cbrt, lambda t, y, _a: t / (3 * y * y))
elementwise(np.exp, lambda t, y, _a: t * y)
elementwise(np.exp2, lambda t, y, _a: t * (y * LOG_2))
elementwise(np.expm1, lambda t, y, _a: t * (y + 1))
elementwise(np.log, lambda t, _y, a: t / a)
elementwise(np.log2, lambda t, _y, a: t / (a * LOG_2))
elementwise(np.log10, lambda t, _y, a: t / (a * LOG_10))
elementwise(np.log1p, lambda t, _y, a: t / (a + 1))


def finite_below(y: Any) -> Any:
    """`y` with 0 for -∞: a sum of exponentials that are all 0 has nothing to distribute."""
    return np.where(y == -np.inf, 0, y)


elementwise(
    np.logaddexp,
    lambda t, y, a, _b: t * np.exp(a - finite_below(y)),
    lambda t, y, _a, b: t * np.exp(b - finite_below(y)),
)
elementwise(
    np.logaddexp2,
    lambda t, y, a, _b: t * np.exp2(a - finite_below(y)),
    lambda t, y, _a, b: t * np.exp2(b - finite_below(y)),
)

# -- trigonometric and hyperbolic functions ------------------------------------------------------------------------

elementwise(np.sin, lambda t, _y, a: t * np.cos(a))
elementwise(np.cos, lambda t, _y, a: -t * np.sin(a))
elementwise(np.tan, lambda t, y, _a: t * (1 + y * y))
elementwise(
    np.arcsin,
    lambda t, _y, a: t / np.sqrt((1 - a) * (1 + a)),
    forward=(lambda t, _y, a: quotient(t, np.sqrt((1 - a) * (1 + a))),),
)
elementwise(
    np.arccos,
    lambda t, _y, a: -t / np.sqrt((1 - a) * (1 + a)),
    forward=(lambda t, _y, a: -quotient(t, np.sqrt((1 - a) * (1 + a))),),
)
elementwise(np.arctan, lambda t, _y, a: t / (1 + a * a))
elementwise(np.sinh, lambda t, _y, a: t * np.cosh(a))
elementwise(np.cosh, lambda t, _y, a: t * np.sinh(a))
elementwise(np.tanh, lambda t, y, _a: t * (1 - y * y))
# In terms of y neither overflows for large a, and both are on the right branch for complex a.
elementwise(np.arcsinh, lambda t, y, _a: t / np.cosh(y))
elementwise(
    np.arccosh,
    lambda t, y, _a: t / np.sinh(y),
    forward=(lambda t, y, _a: quotient(t, np.sinh(y)),),
)
elementwise(np.arctanh, lambda t, _y, a: t / ((1 - a) * (1 + a)))


def over_squared_radius(x: Any, a: Any, b: Any) -> Any:
    """``x / (a² + b²)``, where the squares may overflow; 0 at 0."""
    radius = np.hypot(a, b)
    return quotient(quotient(x, radius), radius)


# The tangent is multiplied with the quotient, and not divided: at 0 the derivative is 0, in either mode.
elementwise(
    np.arctan2,
    lambda t, _y, a, b: t * over_squared_radius(b, a, b),
    lambda t, _y, a, b: -t * over_squared_radius(a, a, b),
)
elementwise(
    np.hypot, lambda t, y, a, _b: t * quotient(a, y), lambda t, y, _a, b: t * quotient(b, y), kink=always
)
elementwise(np.degrees, lambda t, _y, _a: t / DEGREE)
elementwise(np.rad2deg, lambda t, _y, _a: t / DEGREE)
elementwise(np.radians, lambda t, _y, _a: t * DEGREE)
elementwise(np.deg2rad, lambda t, _y, _a: t * DEGREE)


def sinc_push(t: Any, y: Any, a: Any) -> Any:
    """Derivative of sin(πa)/(πa). The closed form cancels near 0, where the Taylor series is exact in six terms."""
    near = np.absolute(a) < 0.15
    squared = np.square(np.where(near, np.pi * a, 0))
    series = squared / 6227020800 * 12 - 1 / 3991680
    for coefficient in (1 / 45360, -1 / 840, 1 / 30, -1 / 3):
        series = series * squared + coefficient
    far = np.where(near, 1, a)
    return t * np.where(near, np.pi**2 * a * series, (np.cos(np.pi * far) - y) / far)


elementwise(np.sinc, sinc_push)

# -- choices -------------------------------------------------------------------------------------------------------


def is_long_and_finite(t: Any) -> bool:
    """Whether a multiplication by 0 and 1 does what `numpy.where` does, and 10 times as fast if there is no pattern."""
    return type(t) is np.ndarray and t.size > 4000 and bool(np.isfinite(t).all())


def chosen(mask: Any, t: Any) -> Any:
    """`t` where `mask`, 0 elsewhere."""
    if is_long_and_finite(t) and getattr(mask, "dtype", None) == np.bool_:
        return t * mask
    if isinstance(
        mask, bool | np.bool_
    ):  # of numbers; CuPy, whose cotangent this may be, takes no such condition
        return t if mask else np.zeros_like(t)
    return np.where(mask, t, 0)


def share_of_larger(t: Any, a: Any, b: Any) -> Any:
    """`t` where a > b, half of it where they are equal, 0 where a < b."""
    equal, larger = a == b, np.greater(a, b)  # Python's complex numbers have no order, NumPy's have
    if is_long_and_finite(t):
        share = t * larger
        return share + t * equal * 0.5 if np.any(equal) else share
    return np.where(larger, t, np.where(equal, 0.5 * t, 0))


def where_zero(t: Any, _y: Any, a: Any, _b: Any) -> Any:
    """`t` where a is 0."""
    return chosen(a == 0, t)


def as_mask(c: Any) -> Any:
    """A condition as truth values."""
    return c if getattr(c, "dtype", None) == np.bool_ else np.not_equal(c, 0)


def not_less(a: Any, b: Any) -> Any:
    """Where a ≥ b, and where one of them is nan."""
    return np.logical_not(np.less(a, b))


elementwise(
    np.maximum,
    lambda t, _y, a, b: share_of_larger(t, a, b),
    lambda t, _y, a, b: share_of_larger(t, b, a),
    selects=(lambda _y, a, b: not_less(a, b), lambda _y, a, b: not_less(b, a)),
)
elementwise(
    np.minimum,
    lambda t, _y, a, b: share_of_larger(t, b, a),
    lambda t, _y, a, b: share_of_larger(t, a, b),
    selects=(lambda _y, a, b: not_less(b, a), lambda _y, a, b: not_less(a, b)),
)
# These two pass over nan: the other operand is the result.
elementwise(
    np.fmax,
    lambda t, _y, a, b: np.where(np.isnan(b), t, share_of_larger(t, a, b)),
    lambda t, _y, a, b: np.where(np.isnan(a), t, share_of_larger(t, b, a)),
    selects=(
        lambda _y, a, b: np.logical_or(np.isnan(b), np.greater_equal(a, b)),
        lambda _y, a, b: np.logical_or(np.isnan(a), np.greater_equal(b, a)),
    ),
)
elementwise(
    np.fmin,
    lambda t, _y, a, b: np.where(np.isnan(b), t, share_of_larger(t, b, a)),
    lambda t, _y, a, b: np.where(np.isnan(a), t, share_of_larger(t, a, b)),
    selects=(
        lambda _y, a, b: np.logical_or(np.isnan(b), np.less_equal(a, b)),
        lambda _y, a, b: np.logical_or(np.isnan(a), np.less_equal(b, a)),
    ),
)
elementwise(
    np.where,
    lambda t, _y, _c, _a, _b: np.zeros_like(t),
    lambda t, _y, c, _a, _b: chosen(c, t),
    lambda t, _y, c, _a, _b: chosen(np.logical_not(c), t),
    selects=(None, lambda _y, c, _a, _b: as_mask(c), lambda _y, c, _a, _b: np.logical_not(c)),
)
elementwise(np.heaviside, lambda t, _y, _a, _b: np.zeros_like(t), where_zero)
elementwise(
    np.copysign,
    lambda t, y, a, _b: t * (np.sign(a) * np.sign(y)),
    lambda t, _y, _a, _b: np.zeros_like(t),
)
elementwise(np.nextafter, lambda t, _y, _a, _b: t, lambda t, _y, _a, _b: np.zeros_like(t))
elementwise(np.ldexp, lambda t, _y, _a, b: np.ldexp(t, b), None)


def clipped(
    a: Any, a_min: Any = None, a_max: Any = None, out: None = None, *, min: Any = None, max: Any = None
) -> Any:
    a = strong(a)  # a number is no weaker than its bounds
    low = a_min if min is None else min
    high = a_max if max is None else max
    if low is not None:
        a = np.maximum(a, low)
    if high is None:
        return np.positive(a) if low is None else a
    return np.minimum(a, high)


composed(np.clip, clipped)

# -- not holomorphic -----------------------------------------------------------------------------------------------


def direction(x: Any) -> Any:
    """x/|x|, and 0 for 0."""
    return quotient(x, np.absolute(x)) if np.iscomplexobj(x) else np.sign(x)


def sign_pullback(g: Any, _y: Any, x: Any) -> Any:
    """Only complex signs x/|x| vary: the part of `g` across the direction turns it."""
    if not np.iscomplexobj(x):
        return np.zeros_like(g)
    size = np.absolute(x)
    u = direction(x)
    inverse = quotient(quotient(size, size), size)  # 0 for 0
    return (g - u * np.real(np.conj(u) * g)) * inverse


def angle_pullback(g: Any, _y: Any, z: Any, deg: bool = False) -> Any:
    if not np.iscomplexobj(z):
        return np.zeros_like(g)
    return (g / DEGREE if deg else g) * 1j * quotient(direction(z), np.absolute(z))


def finite_numbers(
    x: Any,
    copy: bool = True,
    nan: float = 0.0,
    posinf: float | None = None,
    neginf: float | None = None,
) -> Any:
    if not copy:
        raise no_rule(np.nan_to_num, " with copy=False")
    if np.iscomplexobj(x):
        parts = [finite_numbers(part, copy, nan, posinf, neginf) for part in (np.real(x), np.imag(x))]
        return parts[0] + 1j * parts[1]
    x = strong(x)
    largest = float(np.finfo(x.dtype).max)
    x = np.where(np.isnan(x), nan, x)
    x = np.where(np.isposinf(x), largest if posinf is None else posinf, x)
    x = np.where(np.isneginf(x), -largest if neginf is None else neginf, x)
    return x if x.ndim else x[()]


def astype_pullback(
    g: Any, _y: Any, _x: Any, dtype: Any = None, *, copy: bool = True, device: Any = None
) -> Any:
    # Of a complex cotangent the real operand takes the real part, which the sweep does without NumPy's warning.
    return g.astype(_x.dtype) if g.dtype.kind == _x.dtype.kind else g


function(np.absolute, lambda g, _y, x: g * direction(x), part_of=lambda live, x: live, kink=always)
elementwise(np.fabs, lambda t, _y, a: t * np.sign(a), kink=always)
function(np.sign, sign_pullback, part_of=lambda live, x: live)
function(np.conjugate, lambda g, _y, _x: np.conj(g), linear=True)
function(np.real, lambda g, _y, _val: g, linear=True)
function(
    np.imag,
    lambda g, _y, _val: g * 1j if _val.dtype.kind == "c" else np.zeros_like(g),
    linear=True,
)
function(np.angle, angle_pullback, part_of=lambda live, z, deg=False: live)
composed(np.nan_to_num, finite_numbers)
function(np.astype, astype_pullback, linear=True)
