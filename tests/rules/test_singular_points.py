"""Points where a formula divides by zero, jumps or has ties, with the values that are right there."""

import numpy as np
import pytest

import mutangent as mt

INF = np.inf
NAN = np.nan


def gradient(f, x):
    """Return the gradient of the sum of `f`."""
    return mt.grad(lambda x: np.sum(f(x)))(np.asarray(x))


def partials(f, *operands):
    return mt.grad(lambda *xs: np.sum(f(*xs)), argnums=tuple(range(len(operands))))(*operands)


def assert_equal(found, expected):
    np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        # kinks of convex functions: the subgradient of least norm
        (np.abs, [0.0, -2.0, 3.0], [0, -1, 1]),
        (np.fabs, [0.0, -2.0], [0, -1]),
        (np.abs, [0j, 3 + 4j], [0, 0.6 + 0.8j]),
        (lambda z: np.real(np.sign(z)), [0j, 0j], [0, 0]),
        (np.angle, [0j], [0]),
        (np.linalg.norm, [0.0, 0.0], [0, 0]),
        (np.linalg.norm, [0j, 0j], [0, 0]),
        (lambda x: np.linalg.norm(x) ** 2, [0.0, 0.0], [0, 0]),
        (lambda x: np.linalg.norm(x, 1), [0.0, 2.0], [0, 1]),
        (lambda x: np.linalg.norm(x, np.inf), [0.0, 0.0], [0, 0]),
        (lambda x: np.linalg.norm(x, np.inf), [-2.0, 2.0], [-0.5, 0.5]),
        (lambda x: np.linalg.norm(x, 3), [0.0, 0.0], [0, 0]),
        (lambda x: np.linalg.norm(x, 3), [0.0, 2.0], [0, 1]),
        (lambda x: np.linalg.norm(x, 0), [0.0, 2.0], [0, 0]),
        (lambda x: np.linalg.norm(x, axis=1), [[0.0, 0.0], [3.0, 4.0]], [[0, 0], [0.6, 0.8]]),
        (lambda x: np.linalg.norm(x, "nuc"), [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
        (lambda x: np.linalg.norm(x, "nuc"), [[2.0, 0.0], [0.0, 0.0]], [[1, 0], [0, 0]]),
        (lambda x: np.linalg.norm(x, 2), [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
        (np.linalg.vector_norm, [0.0, 0.0], [0, 0]),
        # ties share equally
        (np.max, [3.0, 1.0, 3.0], [0.5, 0, 0.5]),
        (np.min, [[1.0, 1.0], [1.0, 1.0]], [[0.25, 0.25], [0.25, 0.25]]),
        (lambda x: np.max(x, axis=0), [[1.0, 2.0], [1.0, 3.0]], [[0.5, 0], [0.5, 1]]),
        (np.ptp, [1.0, 1.0, 2.0, 2.0], [-0.5, -0.5, 0.5, 0.5]),
        (lambda x: np.maximum(x, 0.0), [-1.0, 0.0, 1.0], [0, 0.5, 1]),
        (lambda x: np.minimum(0.0, x), [-1.0, 0.0, 1.0], [1, 0.5, 0]),
        (lambda x: np.maximum(x, x), [1.0, 2.0], [1, 1]),
        (lambda x: np.clip(x, 0.0, 1.0), [-1.0, 0.0, 0.5, 1.0, 2.0], [0, 0.5, 1, 0.5, 0]),
        (lambda x: np.clip(x, None, 1.0), [0.5, 1.0, 2.0], [1, 0.5, 0]),
        # no division by what may be zero
        (np.prod, [0.0, 2.0, 3.0], [6, 0, 0]),
        (np.prod, [0.0, 2.0, 0.0], [0, 0, 0]),
        (lambda x: np.prod(x, axis=(0, 2)), [[[0.0, 2.0]], [[3.0, 4.0]]], [[[24, 0]], [[0, 0]]]),
        (np.cumprod, [2.0, 0.0, 3.0], [1, 8, 0]),
        (np.std, [2.0, 2.0, 2.0], [0, 0, 0]),
        (np.std, [0.1, 0.1, 0.1], [0, 0, 0]),
        (
            lambda x: np.std(x, axis=1),
            [[0.7, 0.7, 0.7], [1.0, 2.0, 3.0]],
            [[0, 0, 0], [-((1 / 6) ** 0.5), 0, (1 / 6) ** 0.5]],
        ),
        (
            lambda x: np.std(x, ddof=1),
            [3.0, 4.0, 6.0],
            [-0.4364357804719848, -0.1091089451179962, 0.5455447255899809],
        ),
        (np.var, [2.0, 2.0], [0, 0]),
        (np.linalg.det, [[1.0, 2.0], [2.0, 4.0]], [[4, -2], [-2, 1]]),
        (np.linalg.det, [[0.0, 0.0], [0.0, 0.0]], [[0, 0], [0, 0]]),
        # powers
        (lambda x: x**1, [INF, 2.0, 0.0, NAN], [1, 1, 1, 1]),
        (lambda x: x**0, [0.0, 2.0], [0, 0]),
        (lambda x: x**2, [0.0, -3.0], [0, -6]),
        (lambda x: x**3, [0.0, -2.0], [0, 12]),
        (lambda x: x**1.5, [0.0, 4.0], [0, 3]),
        (lambda x: x**-1, [2.0, -2.0], [-0.25, -0.25]),
        (lambda x: x ** np.array([0.0, 1.0, 2.0, 0.0]), [0.0, 0.0, 0.0, INF], [0, 1, 0, 0]),
        (lambda x: 0.0**x, [0.0, 2.0], [0, 0]),
        (lambda x: 0**x, [1.0, 2.0], [0, 0]),
        (lambda x: np.array([0.0, 2.0]) ** x, [2.0, 3.0], [0, 8 * np.log(2)]),
        (lambda x: np.power(2, x), [3.0], [8 * np.log(2)]),
        # jumps
        (lambda x: np.sign(x) * x, [0.0, -2.0], [0, -1]),
        (lambda x: np.heaviside(x, 0.5), [0.0, -2.0], [0, 0]),
        (lambda x: np.copysign(x, -1.0), [0.0, -2.0, 2.0], [0, 1, -1]),
        (np.sinc, [0.0], [0]),
        # a zero cotangent stays zero where the derivative is infinite
        (lambda x: np.where(x > 0, np.sqrt(x), 0), [0.0, 4.0], [0, 0.25]),
        (lambda x: np.where(x > 0, x**0.5, 0), [0.0, 4.0], [0, 0.25]),
        (lambda x: np.where(x > 0, np.cbrt(x), 0), [0.0, 8.0], [0, 1 / 12]),
        (lambda x: np.where(x < 1, np.arcsin(x), 0), [1.0, 0.0], [0, 1]),
        (lambda x: np.where(x < 1, np.arccos(x), 0), [1.0, 0.0], [0, -1]),
        (lambda x: np.where(x > 1, np.arccosh(x), 0), [1.0, 2**0.5], [0, 1]),
        (lambda x: np.sqrt(np.maximum(x, 0)), [-1.0, 4.0], [0, 0.25]),
        # infinite where it is
        (np.sqrt, [0.0, 4.0], [INF, 0.25]),
        (np.cbrt, [0.0], [INF]),
        (np.arccosh, [1.0], [INF]),
        # overflow
        (lambda x: np.logaddexp(x, 0.0), [-1000.0, 0.0, 1000.0], [0, 0.5, 1]),
        (lambda x: np.log(np.sum(np.exp(x - np.max(x)))) + np.max(x), [1000.0, 1000.0], [0.5, 0.5]),
        (np.arcsinh, [0.0, 1e200], [1, 1e-200]),
        (np.tanh, [1000.0], [0]),
        # nan passed over
        (np.nansum, [NAN, 1.0], [0, 1]),
        (np.nanmean, [NAN, 1.0, 2.0], [0, 0.5, 0.5]),
        (np.nanmax, [NAN, 1.0, 2.0], [0, 0, 1]),
        (np.nanstd, [NAN, 2.0, 2.0], [0, 0, 0]),
        (np.nanprod, [NAN, 0.0, 2.0], [0, 2, 0]),
        (np.nanmedian, [NAN, 1.0, 4.0], [0, 0.5, 0.5]),
        (lambda x: np.nanquantile(x, 1.0), [NAN, 1.0, 4.0], [0, 0, 1]),
        (lambda x: np.nanmean(x**2), [NAN, 1.0, 2.0, 3.0, 4.0], [0, 0.5, 1, 1.5, 2]),
        # an element more: `initial`
        (lambda x: np.max(x, initial=0.0), [0.0, 0.0, -1.0], [1 / 3, 1 / 3, 0]),
        (lambda x: np.max(x, initial=5.0), [0.0, 1.0], [0, 0]),
        (lambda x: np.prod(x, initial=3.0), [0.0, 2.0], [6, 0]),
        # equal singular values and eigenvalues
        (np.linalg.svdvals, [[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]]),
        (lambda x: np.linalg.eigh(x)[0], [[1.0, 0.0], [0.0, 1.0]], [[1, 0], [0, 1]]),
        (lambda x: np.linalg.cholesky(x)[0, 0], [[4.0, 2.0], [2.0, 3.0]], [[0.25, 0], [0, 0]]),
        (lambda x: np.linalg.cholesky(x)[1, 0], [[4.0, 2.0], [2.0, 3.0]], [[-0.125, 0.25], [0.25, 0]]),
        # perfectly correlated
        (lambda x: np.corrcoef(x, 2 * x), [1.0, 2.0, 4.0], [0, 0, 0]),
        (np.i0, [0.0], [0]),
        (np.nan_to_num, [NAN, INF, -INF, 1.0], [0, 0, 0, 1]),
        (lambda x: np.fmax(x, 2.0), [NAN, 1.0, 3.0], [0, 0, 1]),
        (lambda x: np.fmin(2.0, x), [NAN, 1.0, 3.0], [0, 1, 0]),
        (lambda x: np.fmax(x, NAN), [1.0], [1]),
        # named by the cases
        (lambda x: np.einsum("i,i", x, [2.0]), [2.0, 2.0], [2, 2]),
        (lambda x: np.sum(x, where=[True, False, True]), [1.0, 2.0, 3.0], [1, 0, 1]),
        (lambda x: np.mean(x, where=[True, False, True]), [1.0, 2.0, 3.0], [0.5, 0, 0.5]),
        (lambda f: np.interp(0.3, [0, 1, 2], f), [0.0, 2.0, 3.0], [0.7, 0.3, 0]),
        (lambda x: np.interp(x, [0, 1, 2], [0, 2, 3]), [-1.0, 0.3, 5.0], [0, 2, 0]),
        (lambda y: np.trapezoid(y, dx=0.5), [1.0, 2.0, 4.0], [0.25, 0.5, 0.25]),
    ],
)
def test_the_derivative_at_a_singular_point(f, x, expected):
    assert_equal(gradient(f, x), expected)


@pytest.mark.parametrize(
    ("f", "operands", "expected"),
    [
        (np.fmod, (-7.5, 2.0), (1, 3)),
        (np.mod, (-7.5, 2.0), (1, 4)),
        (np.arctan2, (1.0, 2.0), (0.4, -0.2)),
        (np.arctan2, (0.0, 0.0), (0, 0)),
        (np.arctan2, (1e-200, 1e-200), (0.5e200, -0.5e200)),
        (np.hypot, (0.0, 0.0), (0, 0)),
        (np.maximum, (2.0, 2.0), (0.5, 0.5)),
        (np.minimum, (2.0, 2.0), (0.5, 0.5)),
        (np.fmax, (2.0, 2.0), (0.5, 0.5)),
        (np.logaddexp, (-INF, -INF), (0, 0)),
        (np.logaddexp, (-INF, 1.0), (0, 1)),
        (np.logaddexp2, (-INF, -INF), (0, 0)),
        (np.power, (0.0, 0.0), (0, 0)),
        (np.power, (0.0, 2.0), (0, 0)),
        (np.power, (0.0, 1.0), (1, 0)),
        (np.clip, (1.0, 1.0, 2.0), (0.5, 0.5, 0)),
        (np.clip, (3.0, 1.0, 2.0), (0, 0, 1)),
        (np.clip, (1.0, 1.0, 1.0), (0.25, 0.25, 0.5)),
        (np.where, (0.5, 2.0, 3.0), (0, 1, 0)),
    ],
)
def test_the_partial_derivatives_at_a_singular_point(f, operands, expected):
    assert_equal(partials(f, *operands), expected)


def test_long_arrays_share_ties_as_short_ones_do():
    x = np.tile([-1.0, 0.0, 1.0], 3000)
    assert_equal(gradient(lambda x: np.maximum(x, 0.0), x), np.tile([0, 0.5, 1], 3000))
    assert_equal(gradient(lambda x: np.where(x > 0, x, 0.0), x), np.tile([0, 0, 1], 3000))
    # The cotangent of the maximum is infinite where it is 0.
    assert_equal(gradient(lambda x: np.sqrt(np.maximum(x - 0.5, 0.0)), x), np.tile([0, 0, 0.5**0.5], 3000))


def test_fourth_derivative_of_the_bell_curve():
    f = lambda x: np.exp(-(x**2))
    for _ in range(4):
        f = mt.grad(f)
    assert_equal(f(0.0), 12)


def test_second_derivatives_at_singular_points():
    second = lambda f: mt.grad(mt.grad(f))
    assert_equal(second(np.sinc)(0.0), -(np.pi**2) / 3)
    assert_equal(second(lambda x: x**2)(0.0), 2)
    assert_equal(second(lambda x: x**3)(0.0), 0)
    assert_equal(second(np.square)(0.0), 2)
    assert_equal(mt.grad(lambda x: mt.grad(np.power, argnums=1)(x, 0.0))(2.0), 0.5)
    assert_equal(mt.grad(lambda y: mt.grad(np.power)(2.0, y))(0.0), 0.5)
    assert_equal(mt.grad(lambda x: np.sum(mt.grad(np.prod)(x)))(np.array([0.0, 2.0, 0.0])), [2, 0, 2])


def test_the_gradient_of_the_squared_modulus_points_up():
    z = 0.3 - 2j
    assert_equal(mt.grad(lambda z: np.abs(z) ** 2)(z), 2 * z)
    assert_equal(mt.grad(lambda z: z.real**2 + z.imag**2)(z), 2 * z)
    assert_equal(mt.grad(lambda z: np.real(z * np.conj(z)))(z), 2 * z)
    assert_equal(mt.grad(lambda z: np.real(np.vdot(z, z)))(np.array([z])), [2 * z])
    assert_equal(mt.grad(lambda z: np.linalg.norm(z) ** 2)(np.array([z, 1j])), [2 * z, 2j])
    assert_equal(mt.grad(lambda z: np.var(z) * 2)(np.array([z, -z])), [2 * z, -2 * z])
