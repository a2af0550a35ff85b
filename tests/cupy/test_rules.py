"""Rules that compute otherwise over CuPy's arrays, which lack what the formula for NumPy's rests on."""

import warnings

import numpy as np
import pytest

import mutangent as mt

HOLED = np.array([[0.3, np.nan, -1.2, 0.4], [2.0, 0.1, 0.6, 0.7], [1.0, 1.0, np.nan, 1.0]])
ROW = np.array([-0.7, 0.3, 1.4, 0.2])

CALLS = {
    **{
        f"{function.__name__} {axis} {keepdims} {ddof}": (
            lambda x, f=function, s={"axis": axis, "keepdims": keepdims, "ddof": ddof}: f(x, **s),
            HOLED,
        )
        for function in (np.nanvar, np.nanstd)
        for axis in (None, 0, 1, (0, 1))
        for keepdims in (False, True)
        for ddof in (0, 1)
    },
    "nanvar complex": (lambda x: np.nanvar(x * (1 + 2j) + 1j * x**2, axis=1), HOLED),
    "nanstd dtype": (lambda x: np.nanstd(x, dtype=np.float32), HOLED),
    "nanmedian": (np.nanmedian, HOLED),
    "nanmedian rows": (lambda x: np.nanmedian(x, axis=1, keepdims=True), HOLED),
    "histogram": (lambda x: np.histogram(x, bins=3)[1], ROW),
    "histogram weights": (lambda x: np.histogram(x, bins=3, weights=x**2)[0], ROW),
    "histogram range": (lambda x: np.histogram(x, 3, (-1.0, 1.0), weights=x**2)[0], ROW),
    "piecewise": (lambda x: np.piecewise(x, [x < 0, x > 0.25], [np.exp, 2.0, lambda v: v**3]), ROW),
    "append": (lambda x: np.append(x, 1.0) ** 2, ROW),
    "append item": (lambda x: np.append(x, x[0].item()) ** 2, ROW),
    "diff": (lambda x: np.diff(x, prepend=x[1], append=0.5) ** 2, ROW),
    "ramp": (lambda x: np.pad(x, 2, "linear_ramp", end_values=0.5) ** 2, ROW),
    "heaviside": (lambda x: np.heaviside(0.0, x) * x, ROW),
    "split": (lambda x: np.concatenate(np.split(x, [3, 1])) ** 2, ROW),
}


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("name", CALLS)
def test_values_and_derivatives_of_both_orders_are_those_of_numpys_arrays(cp, name):
    call, numbers = CALLS[name]

    def loss(x):
        y = np.real(call(x))
        return np.sum(np.where(np.isnan(y), 0, y) ** 2)

    def found(x):
        with warnings.catch_warnings(action="ignore"):
            slope = lambda x: np.sum(np.where(np.isnan(x), 0, mt.grad(loss)(x)) ** 2)
            return [loss(x), mt.grad(loss)(x), mt.grad(slope)(x)]

    for on_host, on_device in zip(found(numbers), found(cp.asarray(numbers)), strict=True):
        assert type(on_device) is cp.ndarray
        np.testing.assert_allclose(on_device.get(), on_host, rtol=1e-5, atol=1e-12)
