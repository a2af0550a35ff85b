import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways

nn = mt.nn


@pytest.mark.parametrize("bias_shape", [(3,), (3, 1)], ids=str)
@pytest.mark.parametrize("x_shape", [(2,), (2, 5), (2, 5, 4)], ids=str)
def test_dense_maps_the_first_axis_of_vectors_batches_and_sequences(rng, x_shape, bias_shape):
    W, b, x = rng.normal(size=(3, 2)), rng.normal(size=3), rng.normal(size=x_shape)
    y = nn.Dense(W, b.reshape(bias_shape), np.tanh)(x)
    expected = np.tanh(np.einsum("oi,i...->...o", W, x) + b)
    np.testing.assert_allclose(y, np.moveaxis(expected, -1, 0))


@pytest.mark.parametrize("bias_shape", [(3,), (3, 1)], ids=str)
@pytest.mark.parametrize("x_shape", [(2,), (2, 5), (2, 5, 4)], ids=str)
def test_gradients_of_dense_agree_with_finite_differences(rng, x_shape, bias_shape):
    m = nn.Dense(rng.normal(size=(3, 2)), rng.normal(size=bias_shape), np.tanh)
    three_ways(lambda: (m, rng.normal(size=x_shape)), lambda m, x: np.sum(m(x) ** 3), NUMERICAL)


def test_dense_draws_weights_of_out_by_in_and_starts_without_bias(rng):
    m = nn.Dense(2, 3, rng=rng)
    assert (m.W.shape, m.W.dtype) == ((3, 2), np.float32)
    np.testing.assert_array_equal(m.b, np.zeros(3, np.float32))
    assert m.activation is nn.identity
    assert m(np.ones((2, 4), np.float32)).dtype == np.float32
    assert nn.Dense(2, 3, rng=rng, dtype=np.float64).W.dtype == np.float64
    assert nn.Dense(np.int64(2), np.int64(3), np.tanh, rng=rng).W.shape == (3, 2)


def test_dense_asks_for_a_generator():
    with pytest.raises(TypeError, match=r"write Dense\(2, 3, rng=np.random.default_rng\(seed\)\)"):
        nn.Dense(2, 3)
    with pytest.raises(TypeError, match=r"pass rng=np.random.default_rng\(seed\)"):
        nn.Dense(2, 3, rng=1)


def test_layers_can_be_evolved(rng):
    m = nn.Dense(2, 3, rng=rng)
    other = attrs.evolve(m, activation=np.tanh)
    assert other.W is m.W
    assert other.activation is np.tanh
    chain = nn.Chain(m)
    assert attrs.evolve(chain).layers == (m,)
    assert attrs.evolve(chain, layers=[m, np.tanh]).layers == (m, np.tanh)


def test_a_chain_applies_its_layers_in_order(rng):
    first, second = nn.Dense(2, 3, np.tanh, rng=rng), nn.Dense(3, 1, rng=rng)
    x = rng.normal(size=(2, 5))
    np.testing.assert_array_equal(nn.Chain(first, np.negative, second)(x), second(-first(x)))


def test_an_empty_chain_is_the_identity():
    x = np.ones(2)
    assert nn.Chain()(x) is x


def test_a_layer_that_stands_twice_in_a_chain_has_one_tangent(rng):
    layer = nn.Dense(rng.normal(size=(2, 2)), rng.normal(size=2), np.tanh)
    m = nn.Chain(layer, layer)
    gradient = mt.grad(lambda m, x: np.sum(m(x) ** 2))(m, rng.normal(size=(2, 3)))
    assert gradient.layers[0] is gradient.layers[1]
    three_ways(lambda: (m, rng.normal(size=(2, 3))), lambda m, x: np.sum(m(x) ** 2), NUMERICAL)
    mt.optim.SGD(0.1).update(m, gradient)
    assert m.layers[0] is m.layers[1] is layer


def test_a_small_net_learns_exclusive_or():
    rng = np.random.default_rng(0)
    m = nn.Chain(nn.Dense(2, 8, np.tanh, rng=rng), nn.Dense(8, 1, nn.sigmoid, rng=rng))
    x = np.array([[0, 0, 1, 1], [0, 1, 0, 1]], np.float32)
    target = np.array([[0, 1, 1, 0]], np.float32)
    opt = mt.optim.Adam(0.05)
    for _ in range(200):
        opt.update(m, mt.grad(lambda m: np.mean((m(x) - target) ** 2))(m))
    np.testing.assert_array_equal(np.round(m(x)), target)
    assert m.layers[0].W.dtype == np.float32
