"""Cases 40 and 41: shares of one array under two fields, their sum, and vectors that keep sharing and state.

Case 42, and what else optimisers do with shares, is in tests/optim.
"""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import Fields, three_ways


@mt.differentiable
class Holder:
    x: object
    y: object = None
    z: object = None
    state: object = mt.field(trainable=False, default=None)


def by_grad(f, m):
    return mt.grad(f)(m)


def by_vjp(f, m):
    _, pullback = mt.vjp(f, m)
    first, second = pullback(1.0), pullback(1.0)
    assert np.array_equal(mt.ravel_tangent(m, first[0]), mt.ravel_tangent(m, second[0]))
    return second[0]


def by_context(f, m):
    with mt.Context() as ctx:
        out = f(m)
    return ctx.grad(out, m)


WAYS = [by_grad, by_vjp, by_context]

# ---------------------------------------------------------------- case 40


def both_shares(m):
    return np.sum(m.x) + np.sum(m.z)


def shared_array():
    s = np.array([5.0, 6.0])
    return Holder(s, z=s)


def test_an_array_under_two_fields_has_a_share_in_each():
    three_ways(lambda: (shared_array(),), both_shares, (Fields(x=[1.0, 1.0], z=[1.0, 1.0]),))


@pytest.mark.parametrize("way", WAYS)
def test_total_adds_the_shares_and_an_sgd_step_moves_the_array_once_by_their_sum(way):
    m = shared_array()
    opt = mt.optim.SGD(0.1)
    for step in (1, 2, 3):
        before = m.x
        gradient = way(both_shares, m)
        np.testing.assert_array_equal(mt.total(m, gradient)[m.x], [2, 2])
        assert len(mt.total(m, gradient)) == 1
        opt.update(m, gradient)
        assert m.x is m.z is not before
        np.testing.assert_allclose(m.x, np.array([5.0, 6.0]) - 0.2 * step)


@pytest.mark.parametrize("way", WAYS)
def test_the_shares_of_an_array_in_two_objects_and_a_list_are_added_too(way):
    s = np.array([1.0, 2.0])
    m = Holder(Holder(s), y=[s, {"s": s}], state=s)

    def loss(m):
        return np.sum(m.x.x) + 10 * np.sum(m.y[0]) + 100 * np.sum(m.y[1]["s"]) + 1000 * np.sum(m.state)

    for _ in range(3):
        gradient = way(loss, m)
        np.testing.assert_array_equal(mt.total(m, gradient)[s], [111, 111])
        np.testing.assert_array_equal(mt.ravel_tangent(m, gradient), [111, 111])
    mt.optim.SGD(0.1).update(m, gradient)
    np.testing.assert_allclose(m.x.x, [-10.1, -9.1])
    assert m.x.x is m.y[0] is m.y[1]["s"]
    assert m.state is s


# ---------------------------------------------------------------- case 41


def as_object(s):
    return Holder(s, np.array([3.0, 4.0]), s, state=np.array([9.0]))


def as_dict(s):
    return {"x": s, "y": np.array([3.0, 4.0]), "z": s}


def part(m, name):
    return m[name] if isinstance(m, dict) else getattr(m, name)


@pytest.mark.parametrize("make", [as_object, as_dict])
def test_a_shared_array_is_once_in_the_vector_and_its_gradient_is_the_sum(make):
    m = make(np.array([1.0, 2.0]))
    vector, unravel = mt.ravel(m)
    np.testing.assert_array_equal(vector, [1, 2, 3, 4])

    def loss(v):
        new = unravel(v)
        assert part(new, "x") is part(new, "z")
        return 3 * np.sum(part(new, "x")) + 13 * np.sum(part(new, "z"))

    three_ways(lambda: (vector,), loss, ([16.0, 16.0, 0.0, 0.0],))
    _, dot = mt.jvp(loss, (vector,), (np.array([1.0, 10.0, 100.0, 1000.0]),))
    assert dot == 16 * 11
    np.testing.assert_array_equal(mt.hessian(loss)(vector), np.zeros((4, 4)))


# A context gives gradients of objects and of watched arrays, and so none of a dict of plain ones.
@pytest.mark.parametrize(
    ("make", "way"), [*[(as_object, way) for way in WAYS], (as_dict, by_grad), (as_dict, by_vjp)]
)
def test_the_objects_own_gradient_has_the_same_vector(make, way):
    m = make(np.array([1.0, 2.0]))
    for _ in range(3):
        gradient = way(lambda m: 3 * np.sum(part(m, "x")) + 13 * np.sum(part(m, "z")), m)
        np.testing.assert_array_equal(mt.ravel_tangent(m, gradient), [16, 16, 0, 0])


def test_unravel_keeps_sharing_and_keeps_state():
    m = as_object(np.array([1.0, 2.0]))
    m.y = [m.y, m]
    vector, unravel = mt.ravel(m)
    for _ in range(3):
        new = unravel(2 * vector)
        assert new.x is new.z
        np.testing.assert_array_equal(new.x, [2, 4])
        np.testing.assert_array_equal(new.y[0], [6, 8])
        assert new.y[1] is new
        np.testing.assert_array_equal(new.state, [9])
        new.state[:] = 0.0
    np.testing.assert_array_equal(m.state, [9])
    np.testing.assert_array_equal(mt.ravel(unravel(vector))[0], vector)


def test_the_object_is_as_before_when_its_copy_is_run_and_differentiated():
    m = as_object(np.array([1.0, 2.0]))

    def loss(v):
        new = unravel(v)
        for _ in range(2):
            new.state = new.state * np.sum(new.x)
        return np.sum(new.state)

    vector, unravel = mt.ravel(m)
    # 9·(x0 + x1)², and its derivative 18·(x0 + x1).
    three_ways(lambda: (vector,), loss, ([54.0, 54.0, 0.0, 0.0],))
    np.testing.assert_array_equal(m.state, [9])
