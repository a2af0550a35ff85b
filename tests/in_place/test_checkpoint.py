"""Arrays written in place by a checkpointed function."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


def accumulate(box, x):
    box.w += x * np.sin(box.w)
    return np.sum(box.w)


def written_by_index(box, x):
    box.w[0] = box.w[1] * x[0]
    box.w[1:] *= x[1:]
    return np.sum(box.w**2)


def returned(box, x):
    box.w *= x
    return np.sum(box.w * np.array([1.0, 3.0]))


def seen_through_a_view(box, x):
    box.w *= x
    return box.w[1:]


def moved(box, x):
    box.v = box.w
    box.v += x**2
    return np.sum(box.w)


@pytest.mark.parametrize("step", [accumulate, written_by_index, returned, seen_through_a_view, moved])
@pytest.mark.parametrize("way", ["grad", "vjp"])
def test_repeated_calls_leave_and_give_what_unchecked_ones_do(step, way):
    def gradients(step):
        box = Box(0.5, np.array([0.5, 0.8]))
        w = box.w

        def loss(box, x):
            total = 0.0
            for k in range(3):
                total = total + np.sum(step(box, x * (k + 1)) ** 2)
            return total + np.sum(box.w**2)

        if way == "grad":
            tangent, dx = mt.grad(loss, argnums=(0, 1))(box, np.array([0.7, 1.1]))
        else:
            _, pullback = mt.vjp(loss, box, np.array([0.7, 1.1]))
            pullback(1.0)
            tangent, dx = pullback(1.0)
        assert box.w is w
        return tangent.w, dx, w

    for checked, plain in zip(gradients(mt.checkpoint(step)), gradients(step), strict=True):
        np.testing.assert_allclose(checked, plain, rtol=1e-12)
