import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Weights:
    w: np.ndarray
    v: np.ndarray = mt.field(factory=lambda: np.zeros(2))


def adam_restated(w, gradients, lr, beta1, beta2, eps):
    """The algorithm of the paper, line by line, on one vector."""
    m, v, t = np.zeros_like(w), np.zeros_like(w), 0
    for g in gradients:
        t = t + 1
        m = beta1 * m + (1 - beta1) * g
        v = beta2 * v + (1 - beta2) * g**2
        m_hat = m / (1 - beta1**t)
        v_hat = v / (1 - beta2**t)
        w = w - lr * m_hat / (np.sqrt(v_hat) + eps)
    return w


@pytest.mark.parametrize(("betas", "eps"), [((0.9, 0.999), 1e-8), ((0.5, 0.7), 1e-2)])
def test_the_steps_are_those_of_the_paper(rng, betas, eps):
    start, gradients = rng.normal(size=3), rng.normal(size=(6, 3))
    m = Weights(start)
    opt = mt.optim.Adam(0.05, betas=betas, eps=eps)
    for gradient in gradients:
        opt.update(m, mt.Tangent(Weights, w=gradient))
    np.testing.assert_allclose(m.w, adam_restated(start, gradients, 0.05, *betas, eps), rtol=1e-12)


def test_the_first_step_has_the_size_of_the_learning_rate_whatever_the_gradient():
    m = Weights(np.array([1.0, 1.0]))
    mt.optim.Adam(0.01).update(m, mt.Tangent(Weights, w=np.array([1e-3, -1e3])))
    np.testing.assert_allclose(m.w, [0.99, 1.01], rtol=1e-6)


def test_a_zero_tangent_leaves_parameter_moments_and_step_count_alone():
    # Case 42.
    kept, skipping = Weights(np.ones(2)), Weights(np.ones(2))
    one, other = mt.optim.Adam(0.1), mt.optim.Adam(0.1)
    gradient = mt.Tangent(Weights, w=np.array([1.0, 2.0]))
    one.update(kept, gradient)
    one.update(kept, gradient)
    other.update(skipping, gradient)
    before = skipping.w
    other.update(skipping, mt.Tangent(Weights, v=np.ones(2)))
    assert skipping.w is before
    other.update(skipping, gradient)
    np.testing.assert_array_equal(kept.w, skipping.w)


def test_an_array_of_zeros_is_a_gradient_and_the_moments_move_on():
    # Case 42.
    m = Weights(np.ones(2))
    opt = mt.optim.Adam(0.1)
    gradients = [np.array([1.0, 2.0]), np.zeros(2), np.array([1.0, 2.0])]
    for gradient in gradients:
        before = m.w.copy()
        opt.update(m, mt.Tangent(Weights, w=gradient))
        assert (m.w != before).all()
    np.testing.assert_allclose(m.w, adam_restated(np.ones(2), gradients, 0.1, 0.9, 0.999, 1e-8))


def test_zeros_from_the_start_make_no_step():
    m = Weights(np.ones(2))
    mt.optim.Adam(0.1).update(m, mt.Tangent(Weights, w=np.zeros(2)))
    np.testing.assert_array_equal(m.w, np.ones(2))


def test_a_complex_parameter_moves_along_its_gradient():
    m = Weights(np.array([1 + 1j]))
    mt.optim.Adam(0.1).update(m, mt.Tangent(Weights, w=np.array([3 + 4j])))
    np.testing.assert_allclose(m.w, [1 + 1j - 0.1 * (0.6 + 0.8j)])


def test_repr_shows_the_settings_and_not_the_moments():
    assert repr(mt.optim.Adam()) == "Adam(lr=0.001, betas=(0.9, 0.999), eps=1e-08)"


def test_it_finds_the_minimum_of_a_quadratic():
    target = np.array([3.0, -2.0])
    m = Weights(np.zeros(2))
    opt = mt.optim.Adam(0.1)
    for _ in range(300):
        opt.update(m, mt.grad(lambda m: np.sum((m.w - target) ** 2))(m))
    np.testing.assert_allclose(m.w, target, atol=1e-2)


@pytest.mark.parametrize("gradient", [1e-3, 300.0])
def test_half_precision_neither_divides_by_zero_nor_overflows(gradient):
    m = Weights(np.ones(2, np.float16))
    opt = mt.optim.Adam(0.1)
    for step in (1, 2):
        opt.update(m, mt.Tangent(Weights, w=np.full(2, gradient, np.float16)))
        assert m.w.dtype == np.float16
        np.testing.assert_allclose(m.w, 1 - 0.1 * step, rtol=2e-3)
