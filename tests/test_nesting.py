"""Recordings inside recordings: higher derivatives, and objects that several levels write."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_derivatives_of_a_polynomial_of_any_order(order):
    def f(x):
        return x**5 - 2 * x**3 + x

    polynomial = np.poly1d([1, 0, -2, 0, 1, 0])
    derivative = f
    for _ in range(order):
        derivative = mt.grad(derivative)
    for _ in range(3):
        close(derivative(1.3), polynomial.deriv(order)(1.3))


def test_mixed_partial_derivatives_commute(xp):
    def f(x, y):
        return np.sum(np.sin(x * y) * x)

    x, y = xp.asarray([0.3, 0.7]), xp.asarray([1.1, -0.4])
    xy = mt.grad(lambda x: np.sum(mt.grad(f, argnums=1)(x, y)))(x)
    yx = mt.grad(lambda y: np.sum(mt.grad(f, argnums=0)(x, y)))(y)
    close(xy, yx)


def test_the_levels_are_not_confused():
    # d/dx [x · d/dy (x + y)] = 1, and 2 if the levels were.
    for _ in range(3):
        assert mt.grad(lambda x: x * mt.grad(lambda y: x + y)(1.0))(1.0) == 1.0
        assert mt.grad(lambda x: x * mt.grad(lambda y: x * y)(2.0))(3.0) == 6.0
        assert (
            mt.grad(lambda x: mt.grad(lambda y: x * x * y)(2.0) * mt.grad(lambda z: x * z)(1.0))(3.0) == 27.0
        )


def test_the_levels_are_not_confused_through_an_object():
    box = Box(0.0)

    def inner(y):
        box.v = y
        return box.w * box.v

    def outer(x):
        box.w = x
        return x * mt.grad(inner)(1.0)

    for _ in range(3):
        assert mt.grad(outer)(3.0) == 6.0
        assert (box.v, box.w) == (1.0, 3.0)
        assert type(box.v) is float
        assert type(box.w) is float


def test_an_inner_write_is_seen_by_the_outer_recording_after_the_inner_one():
    def inner(o, y):
        o.v = o.v * y
        return o.v * y

    def outer(o, x):
        before = o.v
        slope = mt.grad(inner, argnums=1)(o, x)  # 2 v x
        return before * slope * o.v  # v · 2 v x · v x = 2 v³ x²

    for _ in range(3):
        o = Box(1.5)
        tangent, dx = mt.grad(outer, argnums=(0, 1))(o, 2.0)
        close(tangent.v, 6 * 1.5**2 * 4)
        close(dx, 4 * 1.5**3 * 2)
        assert o.v == 3.0
        assert type(o.v) is float


def test_an_object_made_inside_the_inner_recording_and_returned_to_the_outer_one():
    def inner(y):
        box = Box(y * y)
        return box.v * y, box

    def outer(x):
        slope, box = mt.grad(inner, has_aux=True)(x)  # 3 x², and a box with x²
        return slope * box.v  # 3 x⁴

    for _ in range(3):
        close(mt.grad(outer)(2.0), 12 * 8.0)


def test_a_list_written_by_the_inner_recording():
    def inner(o, y):
        o.v.append(y * y)
        return o.v[-1] * y

    def outer(o, x):
        slope = mt.grad(inner, argnums=1)(o, x)  # 3 x²
        return slope * o.v[-1]  # 3 x⁴

    for _ in range(3):
        items = []
        o = Box(items)
        assert mt.grad(outer, argnums=1)(o, 2.0) == pytest.approx(96.0)
        assert o.v is items
        assert items == [4.0]
        assert type(items[0]) is float


def test_gradients_of_gradients_with_respect_to_objects():
    def loss(o):
        return o.v**3 * o.w**2

    def slope(o):
        tangent = mt.grad(loss)(o)
        return tangent.v * tangent.w  # 3 v² w² · 2 v³ w = 6 v⁵ w³

    for _ in range(3):
        tangent = mt.grad(slope)(Box(1.1, 0.7))
        close(tangent.v, 30 * 1.1**4 * 0.7**3)
        close(tangent.w, 18 * 1.1**5 * 0.7**2)


def test_tangents_are_arithmetic_inside_an_outer_recording():
    def loss(o):
        return o.v**3

    def after_one_step(o):
        step = -0.1 * mt.grad(loss)(o)
        return loss(Box(o.v + step.v))

    def functional(v):
        return (v - 0.3 * v**2) ** 3

    for _ in range(3):
        close(mt.grad(after_one_step)(Box(1.5)).v, mt.grad(functional)(1.5))


def test_learning_to_learn_through_an_optimiser():
    def loss(o):
        return np.sum((o.v - 3.0) ** 2)

    def trained(rate):
        o = Box(np.array([1.0, 5.0]), None)
        for _ in range(2):
            tangent = mt.grad(loss)(o)
            o.v = o.v - rate * tangent.v
        return loss(o)

    # Each step multiplies the distance, 2, by 1 - 2 rate: the loss is 8 (1 - 2 rate)⁴.
    for _ in range(3):
        close(mt.grad(trained)(0.1), -64 * 0.8**3)


def test_a_pullback_is_differentiated_by_an_outer_recording(xp):
    def outer(x, v):
        out, pullback = mt.vjp(lambda x: np.sin(x) * x, x)
        (first,) = pullback(v)
        (second,) = pullback(2 * v)
        return np.sum(first * second) + np.sum(out)

    x, v = xp.asarray([0.3, 0.8]), xp.asarray([1.0, -0.5])
    dx, dv = mt.grad(outer, argnums=(0, 1))(x, v)
    slope, curvature = np.sin(x) + x * np.cos(x), 2 * np.cos(x) - x * np.sin(x)
    close(dx, 4 * v**2 * slope * curvature + slope)
    close(dv, 4 * v * slope**2)


def test_a_pullback_made_outside_is_called_inside(xp):
    _, pullback = mt.vjp(lambda x: x**2, xp.asarray([3.0, 1.0]))
    for _ in range(3):
        close(mt.grad(lambda v: np.sum(pullback(v)[0] ** 2))(xp.asarray([1.0, 2.0])), [72.0, 16.0])


def test_a_context_inside_a_gradient_and_a_gradient_inside_a_context():
    def loss(o):
        with mt.Context() as ctx:
            y = o.v**3
        return ctx.grad(y, o).v * o.w  # 3 v² w

    for _ in range(3):
        tangent = mt.grad(loss)(Box(2.0, 5.0))
        close((tangent.v, tangent.w), (60.0, 12.0))
        o = Box(2.0, 5.0)
        with mt.Context() as ctx:
            y = mt.grad(lambda o: o.v**3)(o).v * o.w
        tangent = ctx.grad(y, o)
        close((tangent.v, tangent.w), (60.0, 12.0))


def test_the_value_of_an_inner_context_is_a_value_of_the_outer_one():
    def loss(o):
        with mt.Context():
            o.v = o.v * o.w
            y = o.v * 2
        return y * o.v  # 2 v² w²

    for _ in range(3):
        o = Box(2.0, 5.0)
        tangent = mt.grad(loss)(o)
        close((tangent.v, tangent.w), (4 * 2 * 25, 4 * 4 * 5))
        assert o.v == 10.0


def test_three_levels_write_one_object():
    def lowest(o, z):
        o.v = o.v * z
        return o.v * z

    def middle(o, y):
        o.v = o.v * y
        return mt.grad(lowest, argnums=1)(o, y) * o.v

    def top(o, x):
        o.v = o.v * x
        return mt.grad(middle, argnums=1)(o, x) * o.v

    def functional(v, x):
        # middle(v, y) = 2 (v y) y · (v y²) = 2 v² y⁴, and leaves v y²; top works on v x and leaves v x · x².
        return 8 * (v * x) ** 2 * x**3 * (v * x * x**2)

    for _ in range(3):
        o = Box(1.3)
        tangent, dx = mt.grad(top, argnums=(0, 1))(o, 1.2)
        close((tangent.v, dx), mt.grad(functional, argnums=(0, 1))(1.3, 1.2))
        close(o.v, 1.3 * 1.2**3)
        assert type(o.v) is float


def test_an_exception_in_the_outer_recording_undoes_what_inner_ones_committed():
    def outer(o, x):
        mt.grad(lambda o: o.v * 2)(o)
        o.v = o.v + 1

        def inner(o):
            o.v = o.v * x
            return o.v * 1.0

        mt.grad(inner)(o)
        raise KeyError

    o = Box(3.0)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(outer, argnums=1)(o, 2.0)
        assert o.v == 3.0


@pytest.mark.parametrize("x", [0.3, -1.2])
def test_second_derivatives_of_the_common_functions(x):
    cases = {
        np.sin: -np.sin(x),
        np.exp: np.exp(x),
        np.tanh: -2 * np.tanh(x) / np.cosh(x) ** 2,
        np.square: 2.0,
        np.reciprocal: 2 / x**3,
        (lambda x: np.log(x * x)): -2 / x**2,
        (lambda x: 1 / (1 + np.exp(-x))): -np.sinh(x / 2) / (4 * np.cosh(x / 2) ** 3),
        (lambda x: np.sqrt(x * x + 1)): (x * x + 1) ** -1.5,
        (lambda x: np.where(x > 0, x**3, x**2)): 6 * x if x > 0 else 2.0,
        (lambda x: np.maximum(x, 0.0) ** 2): 2.0 if x > 0 else 0.0,
        (lambda x: x @ np.eye(1) if np.ndim(x) else x * x): 2.0,
    }
    for f, expected in cases.items():
        np.testing.assert_allclose(mt.grad(mt.grad(f))(x), expected, rtol=1e-9, atol=1e-12)


def test_second_derivatives_of_matrix_and_shape_functions(xp):
    rng = np.random.default_rng(1)
    A, x, direction = rng.normal(size=(3, 3)), rng.normal(size=(3, 2)), rng.normal(size=(3, 2))

    def f(x):
        y = np.tanh(A @ x)
        z = np.concatenate([y[:2], np.stack([y[2], x[0]])], axis=0)
        return (
            np.sum(z.T @ z)
            + np.mean(np.max(z, axis=0) ** 2)
            + np.sum(z[[0, 0, 3]] ** 3)
            + np.sum(z.reshape(-1)[::2] ** 2)
        )

    def slope(x):
        return np.sum(mt.grad(f)(x) * direction)

    x = xp.asarray(x)
    hessian_vector = mt.grad(slope)(x)
    eps = 1e-6
    for index in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[index] = eps
        np.testing.assert_allclose(
            hessian_vector[index], (slope(x + step) - slope(x - step)) / (2 * eps), rtol=1e-5, atol=1e-6
        )


def test_check_grads_agrees_to_second_order_through_a_mutated_object(xp):
    def loss(o, x):
        for _ in range(2):
            o.v = np.tanh(o.v * o.w + x)
        return np.sum(o.v**2)

    mt.testing.check_grads(
        loss, (Box(xp.asarray([0.2, 0.4]), xp.asarray([0.5, -0.3])), xp.asarray([0.1, 0.2])), order=2
    )


def test_a_number_of_numpys_whose_tangent_is_one_of_pythons_is_pushed_within_a_gradient():
    def slope(x):
        return mt.jvp(lambda y: np.sin(y * x).item() + np.float64(1.0), (x + 1.0,), (1.0,))[1]

    def expected(x):
        return np.cos((x + 1.0) * x) * x

    np.testing.assert_allclose(slope(0.7), expected(0.7))
    np.testing.assert_allclose(mt.grad(slope)(0.7), mt.grad(expected)(0.7), rtol=1e-12)
