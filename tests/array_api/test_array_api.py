"""Code written for the array API standard, on traced values: the values it gives elsewhere, and gradients."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import array_api_compat
import array_api_strict
import numpy as np
import pytest

import mutangent as mt
from mutangent import array_api
from mutangent._traced import TracedArray
from mutangent.testing import check_grads

ROOT = Path(__file__).resolve().parents[2]
NEWER = {"broadcast_shapes", "isin"}  # of the standard of 2025.12, which array_api_strict may have already


def standardised(x):
    xp = array_api_compat.array_namespace(x)
    x = xp.asarray(x)
    return (x - xp.mean(x, axis=0, keepdims=True)) / xp.std(x, axis=0, correction=1.0, keepdims=True)


def log_softmax(x):
    xp = array_api_compat.array_namespace(x)
    x = x - xp.max(x, axis=-1, keepdims=True)
    return x - xp.log(xp.sum(xp.exp(x), axis=-1, keepdims=True))


def attention(x):
    xp = array_api_compat.array_namespace(x)
    scores = xp.matmul(x, xp.matrix_transpose(x)) / xp.sqrt(xp.asarray(x.shape[-1], dtype=x.dtype))
    above = xp.triu(xp.ones(scores.shape, dtype=xp.bool), k=1)
    scores = xp.where(above, xp.asarray(-xp.inf, dtype=x.dtype), scores)
    weights = xp.exp(scores - xp.max(scores, axis=-1, keepdims=True))
    return xp.matmul(weights / xp.sum(weights, axis=-1, keepdims=True), x)


def log_determinant(x):
    xp = array_api_compat.array_namespace(x)
    gram = x.mT @ x + xp.eye(x.shape[-1], dtype=x.dtype, device=x.device)
    sign, logabsdet = xp.linalg.slogdet(gram)
    return sign * logabsdet + xp.linalg.trace(xp.linalg.inv(gram)) + xp.linalg.vector_norm(x)


def smoothed(x):
    xp = array_api_compat.array_namespace(x)
    spectrum = xp.fft.rfft(x, axis=0)
    frequencies = xp.fft.rfftfreq(x.shape[0], dtype=x.dtype, device=x.device)
    factors = xp.expand_dims(xp.exp(-(frequencies**2)), axis=-1)
    return xp.fft.irfft(spectrum * xp.astype(factors, spectrum.dtype), n=x.shape[0], axis=0)


def rearranged(x):
    xp = array_api_compat.array_namespace(x)
    first, *_, last = xp.unstack(x, axis=0)
    turned = xp.permute_dims(x, (1, 0))
    joined = xp.concat([turned, xp.flip(turned, axis=1), xp.roll(turned, 1, axis=1)], axis=1)
    picked = xp.take(joined, xp.asarray([0, 2, 2]), axis=1) * xp.expand_dims(first[:3] * last[:3], axis=0)
    pairs = xp.stack(
        xp.broadcast_arrays(picked, xp.reshape(xp.squeeze(xp.sum(x, keepdims=True), axis=(0, 1)), (1, 1)))
    )
    return xp.reshape(xp.moveaxis(xp.tile(pairs, (1, 2, 1)), 0, -1), (-1,))


def ordered(x):
    xp = array_api_compat.array_namespace(x)
    down = xp.sort(x, axis=0, descending=True)
    best = xp.take_along_axis(x, xp.argsort(x, axis=-1, descending=True), axis=-1)
    sums = xp.cumulative_sum(down, axis=0, include_initial=True)
    products = xp.cumulative_prod(best, axis=1)
    return xp.sum(sums) + xp.sum(products * xp.clip(x, -1.0, 1.0)) + xp.vecdot(x[0, :], x[1, :])


def elementary(x):
    xp = array_api_compat.array_namespace(x)
    y = xp.pow(xp.abs(x), 1.5) + xp.atan2(x, xp.square(x) + 1) + xp.acos(xp.tanh(x)) - xp.log1p(xp.square(x))
    y = (
        xp.hypot(y, x)
        + xp.logaddexp(x, y)
        + xp.copysign(y, x)
        + xp.maximum(x, y)
        - xp.remainder(x, xp.full_like(x, 0.7))
    )
    z = xp.astype(y, xp.complex128) * 1j
    return (
        xp.real(z) + xp.imag(xp.conj(z)) + xp.diff(y, axis=1, append=xp.zeros((y.shape[0], 1), dtype=y.dtype))
    )


FUNCTIONS = (standardised, log_softmax, attention, log_determinant, smoothed, rearranged, ordered, elementary)
every_function = pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)


@pytest.fixture
def x(rng):
    return rng.normal(size=(5, 4))


@every_function
def test_it_is_code_for_the_standard(f, x):
    strict = f(array_api_strict.asarray(x))
    np.testing.assert_allclose(np.asarray(strict), f(x), rtol=1e-12)


@every_function
def test_values_are_those_of_plain_arrays(f, x):
    found = []
    mt.vjp(lambda x: found.append(f(x)), x)
    assert type(found[0]) is TracedArray
    np.testing.assert_allclose(mt.primal(found[0]), f(x), rtol=1e-12)


@every_function
def test_gradients_agree_with_finite_differences(f, x):
    def by_our_names(x: Any) -> Any:
        return f(x)

    check_grads(by_our_names, (x,), order=2 if f is log_softmax else 1)


@every_function
def test_float32_is_kept(f, x):
    if f is elementary:
        return  # it asks for complex128
    found = []
    mt.vjp(lambda x: found.append(f(x)), x.astype(np.float32))
    assert found[0].dtype == np.float32


def names_of(module: Any) -> set[str]:
    tools = {"Device", "ModuleType", "ArrayAPIStrictFlags"}
    return {
        name
        for name in dir(module)
        if not name.startswith("_")
        and not name.endswith("_array_api_strict_flags")
        and name not in tools | NEWER
    }


def test_the_namespace_has_every_name_of_the_standard():
    assert names_of(array_api_strict) - set(array_api.__all__) == set()
    assert set(array_api_strict.linalg.__all__) - set(array_api.linalg.__all__) == set()
    assert set(array_api_strict.fft.__all__) - set(array_api.fft.__all__) == set()
    for module in (array_api, array_api.linalg, array_api.fft):
        assert [name for name in module.__all__ if not hasattr(module, name)] == []


def inside(call: Any, x: Any = 2.0) -> Any:
    """Return what a call gives for a traced value, while that is traced."""
    found = []
    mt.vjp(lambda x: found.append(call(x)), x)
    return found[0]


def test_a_traced_value_knows_its_namespace():
    assert inside(lambda x: x.__array_namespace__()) is array_api
    assert inside(lambda x: x.__array_namespace__(api_version="2023.12")) is array_api
    assert inside(array_api_compat.array_namespace, np.ones(2)) is array_api
    assert array_api.__array_api_version__ == "2024.12"
    if hasattr(np, "__array_namespace_info__"):
        assert "cpu" in array_api.__array_namespace_info__().devices()
    with pytest.raises(ValueError, match=r"2024\.12, not '2099\.12'"):
        inside(lambda x: x.__array_namespace__(api_version="2099.12"))


def test_a_traced_value_is_on_its_device():
    assert inside(lambda x: x.device, np.ones(2)) == "cpu"
    assert inside(lambda x: x.device) == "cpu"
    assert inside(array_api_compat.device, np.ones(2)) == "cpu"
    assert inside(lambda x: x.to_device("cpu") is x, np.ones(2))
    assert inside(lambda x: array_api_compat.to_device(x, "cpu") is x, np.ones(2))
    with pytest.raises(ValueError, match="cannot be moved to 'gpu'"):
        inside(lambda x: x.to_device("gpu"), np.ones(2))
    with pytest.raises(ValueError, match="no device 'gpu'"):
        inside(lambda x: array_api.asarray(x, device="gpu"), np.ones(2))


def test_asarray_keeps_a_traced_value_traced():
    x = np.ones(2, np.float32)
    assert inside(lambda x: array_api.asarray(x) is x, x)
    assert inside(lambda x: array_api.asarray(x, copy=True) is x, x) is False
    assert inside(lambda x: array_api.asarray(x, dtype=np.float64).dtype, x) == np.float64
    assert inside(lambda x: array_api.from_dlpack(x) is x, x)
    assert inside(lambda x: type(array_api.asarray([1, 2])), x) is np.ndarray
    np.testing.assert_array_equal(
        mt.grad(lambda x: array_api.sum(array_api.asarray(x, dtype=np.float64)))(x), [1, 1]
    )
    with pytest.raises(ValueError, match="without a copy"):
        inside(lambda x: array_api.asarray(x, dtype=np.float64, copy=False), x)


def test_a_traced_number_becomes_an_array_without_axes():
    made = inside(array_api.asarray)
    assert isinstance(made, np.ndarray)
    assert made.shape == ()
    assert mt.grad(lambda x: array_api.asarray(x) * 3)(2.0) == 3.0


def test_dtypes_may_be_asked_of_traced_arrays():
    x = np.ones(2, np.float32)
    assert inside(lambda x: array_api.finfo(x).eps, x) == np.finfo(np.float32).eps
    assert inside(lambda x: array_api.can_cast(x, np.float64), x)
    assert inside(lambda x: array_api.result_type(x, np.float64), x) == np.float64
    assert inside(lambda x: array_api.isdtype(x.dtype, "real floating"), x)
    assert array_api.iinfo(np.ones(2, np.int8)).max == 127


def test_a_reshape_that_needs_a_copy_may_be_forbidden():
    x = np.ones((2, 3))
    assert inside(lambda x: array_api.reshape(x, (6,), copy=False).shape, x) == (6,)
    assert inside(lambda x: array_api.reshape(x, (6,), copy=True).shape, x) == (6,)
    with pytest.raises(ValueError, match="without a copy"):
        inside(lambda x: array_api.reshape(x.T, (6,), copy=False), x)


def test_equal_elements_keep_their_order_also_downwards():
    x = np.array([1.0, 3.0, 1.0, 3.0])
    np.testing.assert_array_equal(inside(lambda x: array_api.argsort(x, descending=True), x), [1, 3, 0, 2])


def test_a_cumulative_sum_of_several_axes_needs_one_of_them():
    with pytest.raises(ValueError, match="needs axis="):
        inside(array_api.cumulative_sum, np.ones((2, 2)))


def test_several_traced_arrays_have_one_namespace(x):
    def product(a, b):
        xp = array_api_compat.array_namespace(a, b)
        return xp.sum(xp.matmul(a, xp.matrix_transpose(b)))

    check_grads(product, (x, x + 1), order=1)


def test_importing_mutangent_does_not_load_the_namespace():
    code = "import sys, mutangent; print('mutangent.array_api' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
