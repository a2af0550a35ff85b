"""Cases 61 to 67: functions of NumPy at the places where others are wrong, in float64 and in float32."""

from typing import Any

import numpy as np
import pytest

import mutangent as mt

NAN, INF = np.nan, np.inf

CASES: dict[str, tuple[Any, Any, Any]] = {
    # 61
    "norm at 0": (np.linalg.norm, [0.0, 0.0], [0, 0]),
    "norm squared at 0": (lambda x: np.linalg.norm(x) ** 2, [0.0, 0.0, 0.0], [0, 0, 0]),
    "prod with a zero": (np.prod, [0.0, 2.0, 3.0], [6, 0, 0]),
    "prod with two zeros": (np.prod, [0.0, 2.0, 0.0], [0, 0, 0]),
    "cumprod with a zero": (lambda x: np.sum(np.cumprod(x)), [2.0, 0.0, 3.0], [1, 8, 0]),
    # 62
    "std of a constant": (np.std, [0.1, 0.1, 0.1], [0, 0, 0]),
    "std with ddof": (lambda x: np.std(x, ddof=1), [3.0, 4.0, 6.0], [-0.436436, -0.109109, 0.545545]),
    # 63
    "einsum of a list": (lambda x: np.einsum("i,i", x, [2.0, 2.0]), [2.0, 2.0], [2, 2]),
    "einsum that broadcasts": (lambda x: np.einsum("i,i", x, [2.0]), [2.0, 2.0], [2, 2]),
    "einsum trace": (lambda x: np.einsum("ii", x), [[1.0, 2.0], [3.0, 4.0]], [[1, 0], [0, 1]]),
    "einsum diagonal": (lambda x: np.sum(np.einsum("ii->i", x)), [[1.0, 2.0], [3.0, 4.0]], [[1, 0], [0, 1]]),
    "einsum summed out": (lambda x: np.einsum("ij->", x), [[1.0, 2.0]], [[1, 1]]),
    "einsum ellipsis": (
        lambda x: np.einsum("...i,...i", x, x)[1],
        [[1.0, 2.0], [3.0, 4.0]],
        [[0, 0], [6, 8]],
    ),
    # 64
    "sum where": (lambda x: np.sum(x, where=[True, False, True]), [1.0, 2.0, 3.0], [1, 0, 1]),
    "mean where": (lambda x: np.mean(x, where=[True, False, True]), [1.0, 2.0, 3.0], [0.5, 0, 0.5]),
    "sum of a stack": (lambda x: np.sum(np.stack([x[0], x[1]])), [1.0, 2.0], [1, 1]),
    # 65
    "median": (np.median, [1.0, 2.0, 3.0, 4.0], [0, 0.5, 0.5, 0]),
    "interp of values": (lambda f: np.interp(0.3, [0, 1, 2], f), [0.0, 2.0, 3.0], [0.7, 0.3, 0]),
    "interp of points": (lambda x: np.sum(np.interp(x, [0, 1, 2], [0, 2, 3])), [0.3], [2.0]),
    "trapezoid": (lambda y: np.trapezoid(y, dx=0.5), [1.0, 2.0, 4.0], [0.25, 0.5, 0.25]),
    # 66
    "nanmean of squares": (lambda x: np.nanmean(x**2), [NAN, 1.0, 2.0, 3.0, 4.0], [0, 0.5, 1, 1.5, 2]),
    "nanmean of np.square": (lambda x: np.nanmean(np.square(x)), [NAN, 1.0, 2.0], [0, 1, 2]),
    "fmod": (lambda x: np.fmod(x[0], x[1]), [-7.5, 2.0], [1, 3]),
    "mod": (lambda x: np.mod(x[0], x[1]), [-7.5, 2.0], [1, 4]),
    "arctan2": (lambda x: np.arctan2(x[0], x[1]), [1.0, 2.0], [0.4, -0.2]),
    # 67
    "the first power at infinity": (lambda x: np.sum(x**1), [INF], [1]),
}


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", CASES)
def test_the_gradient_is_right_again_and_again(name, dtype):
    f, x, expected = CASES[name]
    x = np.array(x, dtype)
    out, pullback = mt.vjp(f, x)
    np.testing.assert_array_equal(out, f(x))
    for _ in range(2):
        (found,) = pullback(out.dtype.type(1))
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
    for _ in range(3):
        found = mt.grad(f)(x)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        assert found.dtype == dtype
    with mt.Context() as ctx:
        watched = ctx.watch(x)
        out = f(watched)
    np.testing.assert_allclose(ctx.grad(out, watched), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("call", [lambda x: np.array([x[0], x[1]]), lambda x: np.sum([x[0], x[1]])])
def test_a_list_of_traced_scalars_is_refused_and_the_cure_named(call):
    with pytest.raises(TypeError, match=r"np\.stack"):
        mt.grad(lambda x: np.sum(call(x)))(np.array([1.0, 2.0]))


def test_the_fourth_derivative_of_the_bell_curve_is_twelve():
    f = lambda x: np.exp(-(x**2))
    for _ in range(4):
        f = mt.grad(f)
    assert f(0.0) == pytest.approx(12)


def test_a_whole_number_has_no_gradient_and_is_named():
    with pytest.raises(TypeError, match="x"):
        mt.grad(lambda x: x**2)(3)
