"""Case 35: a hundred thousand steps, without recursion in the forward pass, the backward pass, or when freeing."""

import sys

import numpy as np
import pytest

import mutangent as mt

STEPS = 100_000


@mt.differentiable
class Leak:
    b: object
    h: object = 0.0


def run(m, steps=STEPS):
    for _ in range(steps):
        m.h = 0.5 * m.h + m.b
    return np.sum(m.h)


@pytest.fixture
def little_stack():
    """So little stack that a recursion over the steps, even a shallow one over a hundredth of them, would fail."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 150)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("little_stack")
def test_a_hundred_thousand_steps_by_grad():
    m = Leak(1.0)
    tangent = mt.grad(run)(m)
    assert tangent.b == pytest.approx(2.0)
    assert tangent.h == 0.0
    assert m.h == pytest.approx(2.0)


@pytest.mark.usefixtures("little_stack")
def test_a_hundred_thousand_steps_by_vjp(xp):
    m = Leak(xp.asarray([1.0]), xp.asarray([0.0]))
    out, pullback = mt.vjp(run, m)
    for _ in range(2):
        (tangent,) = pullback(1.0)
        np.testing.assert_allclose(tangent.b, [2.0])
    assert out == pytest.approx(2.0)
    del pullback, tangent


@pytest.mark.usefixtures("little_stack")
def test_a_hundred_thousand_steps_by_context():
    m = Leak(1.0)
    with mt.Context() as ctx:
        out = run(m)
    for _ in range(2):
        assert ctx.grad(out, m).b == pytest.approx(2.0)
    del ctx, out


@pytest.mark.usefixtures("little_stack")
def test_a_long_run_that_fails_at_its_end_is_freed_too():
    def fails(m):
        run(m, 20_000)
        raise KeyError("at the end")

    m = Leak(1.0)
    for _ in range(3):
        with pytest.raises(KeyError, match="at the end"):
            mt.grad(fails)(m)
        assert m.h == 0.0


@pytest.mark.usefixtures("little_stack")
def test_many_objects_made_on_the_way_are_no_chain():
    def loss(x):
        m = Leak(x)
        for _ in range(20_000):
            m = Leak(m.b, 0.5 * m.h + m.b)
        return m.h

    for _ in range(3):
        assert mt.grad(loss)(1.0) == pytest.approx(2.0)


@pytest.mark.usefixtures("little_stack")
def test_a_linked_list_built_by_the_loss():
    def loss(x):
        m = None
        for _ in range(5_000):
            m = Leak(x, m)
        total = 0.0
        while m is not None:
            total, following = total + m.b, m.h
            m.h = None
            m = following
        return total

    for _ in range(3):
        assert mt.grad(loss)(1.0) == pytest.approx(5_000.0)
