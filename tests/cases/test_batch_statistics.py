"""Running statistics that the loss both updates and uses."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, Fields, three_ways


@mt.differentiable
class Norm:
    rm: object = 0.0
    rv: object = 1.0
    n: int = 0


@pytest.mark.parametrize("start", [0.0, np.float64(0.0)])
def test_a_running_mean_updated_twice(start, xp):
    def loss(m, x):
        for _ in range(2):
            m.rm = 0.9 * m.rm + 0.1 * np.mean(x)
        return np.sum(m.rm * x)

    three_ways(
        lambda: (Norm(start), xp.asarray([1.0, 2.0, 3.0])), loss, (Fields(rm=4.86), [0.76, 0.76, 0.76])
    )


def test_running_mean_and_variance_of_columns(xp):
    def loss(m, x):
        for _ in range(2):
            m.n += 1
            mean = np.mean(x, axis=1, keepdims=True)
            m.rm = 0.9 * m.rm + 0.1 * mean
            m.rv = 0.9 * m.rv + 0.1 * np.mean((x - mean) ** 2, axis=1, keepdims=True)
            x = (x - m.rm) / np.sqrt(m.rv + 1e-5)
        return np.sum(x**3)

    def arguments():
        rng = np.random.default_rng(37)
        m = Norm(xp.asarray(np.zeros((2, 1))), xp.asarray(np.ones((2, 1))))
        return m, xp.asarray(rng.normal(size=(2, 5)))

    three_ways(arguments, loss, NUMERICAL)
