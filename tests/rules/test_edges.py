"""Calls at the edge of what a function takes: nothing, one element, no axes, lists, nan. The results are NumPy's own."""

from typing import Any

import numpy as np
import pytest

import mutangent as mt

NAN, INF = np.nan, np.inf
_none, _no_rows, _one = np.zeros(0), np.zeros((0, 3)), np.ones(1)
_no_matrices, _empty_matrices = np.zeros((0, 2, 2)), np.zeros((2, 0, 0))
_r = np.array([[0.3, -1.2, 2.5], [1.7, 0.4, -0.6], [-2.1, 0.9, 1.1]])
_scalar, _zero_d = np.float64(1.3), np.array(1.3)
_narrow = _r.astype(np.float32)

CALLS: list[tuple[Any, Any]] = [
    (np.fft.fft, _one),
    (np.fft.rfft, _one),
    (lambda x: np.fft.irfft(x, 1), _one),
    (lambda x: np.fft.rfft(x, 2), _r),
    (lambda x: np.linspace(x, 2, 0), _scalar),
    (lambda x: np.linspace(x, 2, 1), _scalar),
    (lambda x: np.linspace(x, 2, 5), 1.3),
    (lambda x: np.linspace(x, 9, 4, dtype=int), _scalar),
    (lambda x: np.linspace([0.0, 1.0], x, 3), _one),
    (lambda x: np.geomspace(x, 2, 1), _scalar),
    (lambda x: np.logspace(x, 2, 0), _scalar),
    (np.linalg.cholesky, _no_matrices),
    (lambda x: np.linalg.eigh(x)[0], _empty_matrices),
    (np.linalg.eigvals, _empty_matrices),
    (lambda x: np.linalg.svd(x, full_matrices=False)[1], _no_matrices),
    (np.linalg.svdvals, _no_rows),
    (lambda x: np.linalg.qr(x)[1], _no_rows),
    (np.linalg.pinv, _no_rows),
    (lambda x: np.linalg.lstsq([[1.0, 2.0], [3.0, 5.0]], x, rcond=None), np.ones(2)),
    (lambda x: np.linalg.lstsq(x, np.ones(3), rcond=None), np.ones((3, 2))),
    (lambda x: np.linalg.multi_dot([[1.0, 2.0, 3.0], x, x, x]), _r),
    (lambda x: np.linalg.matrix_power(x, 0), _r),
    (np.median, _zero_d),
    (lambda x: np.median(x, axis=0), np.zeros((2, 0))),
    (lambda x: np.quantile(x, 0.3), _zero_d),
    (lambda x: np.quantile(x, np.float64(0.3)), _narrow),
    (lambda x: np.quantile(x, np.int64(1)), _narrow),
    (lambda x: np.percentile(x, 50), _narrow),
    (lambda x: np.percentile(x, np.array([50], np.float32)), _narrow),
    (lambda x: np.nanquantile(x, 0.3, axis=1), np.array([[NAN, 2.0, 3.0], [1.0, 2.0, 4.0]])),
    (np.unique, _none),
    (np.unique, np.array([NAN, 1.0, NAN, 1.0])),
    (np.unique_values, np.array([NAN, 1.0, NAN, 1.0])),
    (lambda x: np.unique(x, axis=1), _r),
    (np.trim_zeros, np.zeros(3)),
    (np.gradient, np.array([1.0, 2.0])),
    (lambda x: np.gradient([1.0, 4.0, 9.0], x), np.array([0.0, 0.5, 2.0])),
    (np.ediff1d, _one),
    (lambda x: np.block([[x, x], [x, x]]), _scalar),
    (lambda x: np.insert(x, 3, 9.0), np.ones(3)),
    (lambda x: np.insert(x, -1, 9.0), np.ones(3)),
    (lambda x: np.insert(x, np.array([True, False, True]), 9.0), np.ones(3)),
    (lambda x: np.insert([1.0, 2.0], 1, x), _one),
    (lambda x: np.piecewise(x, [x > 0], [lambda v, c: v * c, lambda v, c: v], 3), np.array([1.0, -1.0])),
    (lambda x: np.piecewise(x, [x > 0], [1.0]), _zero_d),
    (lambda x: np.cov(x, rowvar=False), _r),
    (lambda x: np.cov([1.0, 2.0, 4.0], x), _r[0]),
    (np.corrcoef, _r[0]),
    (lambda x: np.average(x, axis=0, weights=[1, 2, 3]), _r),
    (lambda x: np.histogram(x, bins=[0, 0.5, 1.0]), _r),
    (lambda x: np.histogram(x, bins="auto"), _r),
    (lambda x: np.histogram(x, bins=4, range=(0, 1), density=True), _r),
    (lambda x: np.histogram(x, 3), np.ones(3)),
    (np.vander, _none),
    (np.poly, _none),
    (np.roots, np.array([0.0, 2.0, 0.0])),
    (np.polyder, _one),
    (lambda x: np.polyval([1, 2, 3], x), 1.5),
    (lambda x: np.polymul(x, [0.0, 1.0]), np.ones(2)),
    (lambda x: np.polyfit([0.0, 1.0, 2.0], x, 1, w=[1.0, 2.0, 1.0]), np.ones(3)),
    (lambda x: np.convolve(x, 2.0), np.ones(4)),
    (np.i0, 1.3),
    (np.frexp, 1.3),
    (np.nanstd, np.array([NAN, 1.0, 1.0])),
    (np.nanprod, _none),
    (lambda x: np.std(x, where=[True, False, True]), np.array([1.0, 5.0, 1.0])),
    (lambda x: np.max(x, initial=0.0), _none),
    (lambda x: np.apply_along_axis(np.sum, 0, x), _no_rows),
    (lambda x: np.trapezoid([1.0, 2.0, 4.0], x), np.array([0.0, 1.0, 3.0])),
    (lambda x: np.diff(x, n=0, prepend=9.0), _one),
    (lambda x: np.clip(x, None, np.float32(9)), 1.3),
]


def parts(y: Any) -> list[Any]:
    return list(y) if isinstance(y, tuple | list) else [y]


@pytest.mark.parametrize(("call", "x"), CALLS)
def test_the_result_is_numpys_own_and_the_gradient_is_finite(call, x):
    results: list[Any] = []

    def loss(x: Any) -> Any:
        results.append(call(x))
        numbers = [y for y in parts(results[0]) if np.asarray(mt.primal(y)).dtype.kind in "fc"]
        return sum([np.nansum(np.real(y)) for y in numbers], 0.0 * np.nansum(x))

    gradient = mt.grad(loss)(x)
    assert np.all(np.isfinite(gradient))
    expected = call(x)
    for y, plain in zip(parts(results[0]), parts(expected), strict=True):
        found = mt.primal(y)
        assert type(found) is type(plain)
        np.testing.assert_allclose(found, plain, rtol=1e-6, atol=1e-12)
        assert np.asarray(found).dtype == np.asarray(plain).dtype


def test_numbers_have_the_order_that_numpy_gives_them():
    gradient = mt.grad(lambda z: np.real(np.maximum(z, 1 + 1j) + np.minimum(z, np.complex128(5j))))
    assert gradient(2 + 1j) == 1
    assert gradient(-2 + 1j) == 1


REFUSED: list[tuple[Any, Any]] = [
    (lambda x: np.median(x, axis=2), _r),
    (lambda x: np.median(x, axis=0), _scalar),
    (lambda x: np.quantile(x, 0.5, axis=-3), _r),
    (lambda x: np.delete(x, 7), _one),
    (lambda x: np.average(x, weights=[1.0, -1.0]), np.ones(2)),
    (lambda x: np.average(x, axis=0, weights=np.ones(4)), _r),
    (np.linalg.cond, np.zeros((0, 0))),
    (lambda x: np.linalg.matrix_power(x, 2), np.ones((2, 3))),
    (lambda x: np.linalg.multi_dot([x, x]), np.ones((2, 3))),
    (lambda x: np.put(x + 0.0, [3], x), np.ones(2)),
    (lambda x: np.put(x + 0.0, [0], x), _none),
    (np.gradient, _one),
    (lambda x: np.cov(x, aweights=np.ones(2)), _r),
    (lambda x: np.stack([x, np.ones(2)]), _r),
    (lambda x: np.polyfit(x, x, 1), _none),
]


@pytest.mark.parametrize(("call", "x"), REFUSED)
def test_arguments_that_numpy_refuses_are_refused_with_the_same_kind_of_error(call, x):
    with pytest.raises(Exception) as expected:  # noqa: PT011 - whichever it is
        call(x)
    for verb in (lambda: mt.vjp(call, x), lambda: mt.jvp(call, (x,), (np.ones_like(x),))):
        with pytest.raises(expected.type) as found:
            verb()
        assert type(found.value) is expected.type


def test_a_function_of_the_caller_is_not_called_again_when_it_raises():
    calls = []

    def failing(row: Any) -> Any:
        calls.append(row)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mt.grad(lambda x: np.sum(np.apply_along_axis(failing, 0, x)))(_r)
    assert len(calls) == 1


def test_a_sum_takes_all_of_its_settings_by_position():
    def f(x):
        return np.sum(np.sum(x, 0, None, None, True) ** 2) + np.sum(x.sum(1, None, None, True, 2.0) ** 2)

    mt.testing.check_grads(f, (_r,), order=2)


@pytest.mark.parametrize("plain", [(), (np.ones(2),)])
def test_joined_arrays_of_whole_numbers_are_constant(plain):
    def joined(x):
        return np.concatenate([x, x, *plain], dtype=int, casting="unsafe")

    value, gradient = mt.value_and_grad(lambda x: np.sum(joined(x) * 2.0))(np.array([1.5, 2.5]))
    assert value == 12.0 + 4.0 * len(plain)
    np.testing.assert_array_equal(gradient, 0.0)


@pytest.mark.parametrize("split", [np.split, np.array_split, np.hsplit])
@pytest.mark.parametrize("indices", [[2, 1], (3, -2, 1), [-1, 0], [1, 9]])
def test_parts_that_overlap_since_their_indices_go_down_add_up(split, indices):
    x = np.arange(1.0, 6.0)

    def f(x):
        return sum(np.sum((k + 1) * part**3) for k, part in enumerate(split(x, indices)))

    mt.testing.check_grads(f, (x,), order=2)


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda x: (x**0.3).imag, -2.0),
        (lambda x: (x**2.5).imag, -2.0),
        (lambda x: (x**-1.5).imag, -2.0),
        (lambda x: abs((-2.0) ** x), 1.3),
        (lambda x: (x**x).imag, -0.6),
        (lambda x: x**-2.0 + x**3, -2.0),
    ],
)
def test_a_fractional_power_of_a_negative_python_number_is_complex_and_so_is_its_derivative(f, x):
    mt.testing.check_grads(f, (x,), order=2)


@pytest.mark.parametrize("place", [(4,), (-2,), (1, 2), ((1, 2),)])
def test_item_counts_elements_or_takes_a_place(place):
    value, gradient = mt.value_and_grad(lambda x: x.item(*place) ** 2)(_r)
    assert type(value) is float
    assert value == _r.item(*place) ** 2
    expected = np.zeros_like(_r)
    expected.reshape(-1)[np.arange(9).reshape(3, 3).item(*place)] = 2 * _r.item(*place)
    np.testing.assert_array_equal(gradient, expected)
    with pytest.raises(IndexError):
        mt.grad(lambda x: x.item(9))(_r)
