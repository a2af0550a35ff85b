"""Case 31: the state stays in the object and the gradient is cut at the call, so truncation needs no `detach`."""

import numpy as np
import pytest

import mutangent as mt

XS = (0.5, -0.2, 0.3)
W = (0.381704, 0.617626, 0.645140)
H = (0.367907, 0.438161, 0.448539)
H0 = (0.229719, 0.154109, 0.141453)
NOT_CUT = 0.676450


@mt.differentiable
class Unit:
    w: float
    h: object

    def __call__(self, x):
        self.h = np.tanh(self.w * self.h + x)
        return self.h


def last(m):
    for x in XS:
        y = m(x)
    return y * 1.0


def by_grad(m):
    return mt.grad(last)(m)


def by_vjp(m):
    _, pullback = mt.vjp(last, m)
    (first,), (second,) = pullback(1.0), pullback(1.0)
    assert first == second
    return first


def by_context(m):
    with mt.Context() as ctx:
        out = last(m)
    return ctx.grad(out, m)


@pytest.mark.parametrize("way", [by_grad, by_vjp, by_context])
def test_three_calls_that_keep_the_state_have_each_its_own_gradient(way):
    for _ in range(3):
        m = Unit(0.7, 0.0)
        for w, h, h0 in zip(W, H, H0, strict=True):
            tangent = way(m)
            assert tangent.w == pytest.approx(w, abs=1e-6)
            assert tangent.w != pytest.approx(NOT_CUT, abs=1e-3)
            assert tangent.h == pytest.approx(h0, abs=1e-6)
            assert m.h == pytest.approx(h, abs=1e-6)
            assert isinstance(m.h, float)


@pytest.mark.parametrize("way", [by_grad, by_vjp, by_context])
def test_the_cut_is_at_the_call_over_arrays_too(way, xp):
    m = Unit(xp.asarray([0.7]), xp.asarray([0.0]))
    for w, h, h0 in zip(W, H, H0, strict=True):
        with mt.Context() as ctx:
            out = np.sum(last(m))
        tangent = ctx.grad(out, m)
        np.testing.assert_allclose(tangent.w, [w], atol=1e-6)
        np.testing.assert_allclose(tangent.h, [h0], atol=1e-6)
        np.testing.assert_allclose(m.h, [h], atol=1e-6)
        assert type(m.h) is np.ndarray


def test_the_ways_may_take_turns_on_one_object():
    m = Unit(0.7, 0.0)
    for way, w, h0 in zip((by_context, by_grad, by_vjp), W, H0, strict=True):
        tangent = way(m)
        assert tangent.w == pytest.approx(w, abs=1e-6)
        assert tangent.h == pytest.approx(h0, abs=1e-6)


def test_one_recording_over_two_chunks_is_not_cut():
    m = Unit(0.7, 0.0)

    def both(m):
        last(m)
        return last(m)

    # What the second call would give if the first were not cut off: it comes only if both are in one recording.
    assert mt.grad(both)(m).w != pytest.approx(W[1], abs=1e-3)


def test_training_over_chunks_equals_training_by_hand():
    m, w, h = Unit(0.7, 0.0), 0.7, 0.0
    for _ in range(5):
        tangent = mt.grad(last)(m)
        mt.optim.SGD(0.1).update(m, mt.Tangent(Unit, w=tangent.w))
        dh = 0.0
        for x in XS:
            new = np.tanh(w * h + x)
            dh, h = (1 - new**2) * (h + w * dh), new
        w -= 0.1 * dh
        assert m.w == pytest.approx(w, rel=1e-12)
        assert m.h == pytest.approx(h, rel=1e-12)
