import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Weights:
    w: np.ndarray
    scale: float = 1.0


def test_a_step_goes_against_the_gradient_by_the_learning_rate():
    m = Weights(np.array([1.0, 2.0]), scale=3.0)
    mt.optim.SGD(0.1).update(m, mt.Tangent(Weights, w=np.array([10.0, -10.0]), scale=5.0))
    np.testing.assert_allclose(m.w, [0.0, 3.0])
    assert m.scale == 2.5
    assert type(m.scale) is float


def test_momentum_keeps_a_velocity_per_parameter():
    m = Weights(np.array([0.0]))
    opt = mt.optim.SGD(lr=1.0, momentum=0.5)
    expected = 0.0
    velocity = 0.0
    for gradient in [1.0, 2.0, -3.0]:
        opt.update(m, mt.Tangent(Weights, w=np.array([gradient]), scale=2 * gradient))
        velocity = 0.5 * velocity + gradient
        expected -= velocity
        np.testing.assert_allclose(m.w, [expected])
        np.testing.assert_allclose(m.scale, 1 + 2 * expected)


def test_momentum_stays_with_the_field_when_the_user_rebinds_the_array():
    m = Weights(np.array([0.0]))
    opt = mt.optim.SGD(lr=1.0, momentum=0.5)
    opt.update(m, mt.Tangent(Weights, w=np.array([1.0])))
    m.w = np.array([10.0])
    opt.update(m, mt.Tangent(Weights, w=np.array([0.0])))
    np.testing.assert_allclose(m.w, [9.5])


def test_momentum_does_not_share_memory_with_the_users_gradient():
    m = Weights(np.array([0.0]))
    opt = mt.optim.SGD(lr=1.0, momentum=0.5)
    gradient = np.array([1.0])
    opt.update(m, mt.Tangent(Weights, w=gradient))
    gradient[:] = 100.0
    opt.update(m, mt.Tangent(Weights, w=np.array([0.0])))
    np.testing.assert_allclose(m.w, [-1.5])


def test_the_learning_rate_may_change_between_updates():
    m = Weights(np.array([0.0]))
    opt = mt.optim.SGD(lr=1.0)
    opt.update(m, mt.Tangent(Weights, w=np.array([1.0])))
    opt.lr = 0.1
    opt.update(m, mt.Tangent(Weights, w=np.array([1.0])))
    np.testing.assert_allclose(m.w, [-1.1])


def test_repr_shows_the_settings_and_not_the_velocities():
    assert repr(mt.optim.SGD(0.1, momentum=0.9)) == "SGD(lr=0.1, momentum=0.9)"


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_tied_weights_are_stepped_once_and_stay_tied(momentum):
    # Case 14, three times in a row: v goes from 2 to 1.6.
    @mt.differentiable
    class Leaf:
        v: float

    @mt.differentiable
    class Branch:
        w: Leaf

    @mt.differentiable
    class Tree:
        A: Branch
        B: Branch

    for _ in range(3):
        leaf = Leaf(2.0)
        tree = Tree(Branch(leaf), Branch(leaf))
        gradient = mt.grad(lambda m: m.A.w.v * m.B.w.v)(tree)
        assert gradient.A.w is gradient.B.w
        assert gradient.A.w.v == 4.0
        mt.optim.SGD(0.1, momentum).update(tree, gradient)
        assert tree.A.w is tree.B.w is leaf
        assert leaf.v == pytest.approx(1.6)


def test_an_update_inside_a_recording_is_differentiated():
    # w = 3 - 0.1·2·3 = 2.4 after the inner step on w², and d(w²)/dw0 = 2·2.4·0.8.
    def after_a_step(m):
        inner = mt.grad(lambda m: np.sum(m.w**2))(m)
        mt.optim.SGD(0.1).update(m, inner)
        return np.sum(m.w**2)

    m = Weights(np.array([3.0]))
    gradient = mt.grad(after_a_step)(m)
    np.testing.assert_allclose(gradient.w, [3.84])
    np.testing.assert_allclose(m.w, [2.4])
    assert type(m.w) is np.ndarray
