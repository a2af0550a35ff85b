import numpy as np
import pytest

import mutangent as mt

nn = mt.nn


def test_glorot_uniform_fills_its_interval(rng):
    W = nn.glorot_uniform(rng, 200, 100)
    bound = np.sqrt(6 / 300)
    assert (W.shape, W.dtype) == ((200, 100), np.float32)
    assert 0.99 * bound < W.max() <= np.float32(bound)
    assert -np.float32(bound) <= W.min() < -0.99 * bound
    assert W.mean() == pytest.approx(0, abs=0.01 * bound)
    assert W.std() == pytest.approx(bound / np.sqrt(3), rel=0.02)


def test_both_precisions_draw_the_same_numbers():
    single = nn.glorot_uniform(np.random.default_rng(3), 4, 5)
    double = nn.glorot_uniform(np.random.default_rng(3), 4, 5, np.float64)
    assert double.dtype == np.float64
    np.testing.assert_array_equal(single, double.astype(np.float32))


@pytest.mark.parametrize(
    "rng", [None, 0, np.random, np.random.RandomState(0)], ids=["none", "seed", "module", "old"]
)
def test_glorot_uniform_takes_nothing_but_a_generator(rng):
    with pytest.raises(TypeError, match=r"explicit generator.*pass rng=np.random.default_rng\(seed\)"):
        nn.glorot_uniform(rng, 2, 3)


def test_zeros_are_float32_unless_said_otherwise():
    assert nn.zeros(2, 1).dtype == np.float32
    assert nn.zeros(2, 1).shape == (2, 1)
    assert nn.zeros(2, dtype=np.float64).dtype == np.float64
