import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways

nn = mt.nn


@pytest.mark.parametrize("f", [nn.identity, nn.relu, nn.sigmoid, np.tanh])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_an_activation_keeps_shape_and_dtype(f, dtype):
    y = f(np.linspace(-2, 2, 6, dtype=dtype).reshape(2, 3))
    assert (y.shape, y.dtype) == ((2, 3), dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sigmoid_is_the_logistic_function_and_never_overflows(dtype):
    x = np.linspace(-10, 10, 41, dtype=dtype)
    np.testing.assert_allclose(nn.sigmoid(x), 1 / (1 + np.exp(-x)), atol=2 * np.finfo(dtype).eps)
    extreme = np.array([-np.inf, -1e30, 1e30, np.inf], dtype)
    np.testing.assert_array_equal(nn.sigmoid(extreme), [0, 0, 1, 1])
    gradient = mt.grad(lambda x: np.sum(nn.sigmoid(x)))(np.array([-1e30, 1e30], dtype))
    np.testing.assert_array_equal(gradient, [0, 0])


@pytest.mark.parametrize("f", [nn.identity, nn.relu, nn.sigmoid])
def test_gradients_of_activations_agree_with_finite_differences(f):
    three_ways(lambda: (np.array([-2.0, -0.5, 0.25, 3.0]),), lambda x: np.sum(f(x) ** 2), NUMERICAL)


def test_the_sides_of_relu_share_the_gradient_at_the_kink():
    np.testing.assert_array_equal(mt.grad(lambda x: np.sum(nn.relu(x)))(np.zeros(2)), [0.5, 0.5])
