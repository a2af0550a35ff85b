"""Case 39: a second derivative through a mutating object equals that of the functional rewrite, to 1e-8."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import LinearCell, Recur, TanhCell
from tests.cases.harness import NUMERICAL, three_ways


@mt.differentiable
class Unit:
    w: object
    h: object = 0.0

    def __call__(self, x):
        self.h = np.tanh(self.w * self.h + x)
        return self.h


XS = (0.5, -0.2, 0.3)


def mutating(w, h):
    m = Unit(w, h)
    for x in XS:
        y = m(x)
    return np.sum(y * y)


def functional(w, h):
    for x in XS:
        h = np.tanh(w * h + x)
    return np.sum(h * h)


def close(a, b):
    np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("order", [1, 2, 3])
@pytest.mark.parametrize("argument", [0, 1])
def test_derivatives_of_any_order_equal_those_of_the_functional_rewrite(order, argument):
    derivatives = []
    for f in (mutating, functional):
        derivative = f
        for _ in range(order):
            derivative = mt.grad(derivative, argnums=argument)
        derivatives.append([derivative(0.7, 0.4) for _ in range(3)])
    close(*derivatives)
    assert derivatives[0][0] == derivatives[0][1] == derivatives[0][2]


def test_second_derivatives_over_arrays_equal_those_of_the_functional_rewrite(xp):
    w, h = xp.asarray([0.7, -0.3]), xp.asarray([0.4, 0.9])
    for f in (mutating, functional):

        def slope(w, h, f=f):
            dw, dh = mt.grad(f, argnums=(0, 1))(w, h)
            return np.sum(dw * dh)

        three_ways(lambda: (w, h), slope, NUMERICAL)
    first, second = (
        mt.grad(lambda w, h, f=f: np.sum(mt.grad(f)(w, h) ** 2), argnums=(0, 1))(w, h)
        for f in (mutating, functional)
    )
    close(first, second)


def test_the_prepared_object_itself_is_differentiated_twice(xp):
    """The inner gradient moves the state of the object that the outer one differentiates."""

    def loss(m):
        for x in XS:
            y = m(x)
        return np.sum(y * y)

    def slope(m):
        tangent = mt.grad(loss)(m)
        return np.sum(tangent.w * tangent.h) + np.sum(m.h)

    three_ways(lambda: (Unit(xp.asarray([0.7, -0.3]), xp.asarray([0.4, 0.9])),), slope, NUMERICAL)
    three_ways(lambda: (Unit(0.7, 0.4),), slope, NUMERICAL)


def test_a_hessian_vector_product_through_a_recurrent_net(xp):
    rng = np.random.default_rng(39)
    values = [xp.asarray(0.4 * rng.normal(size=shape)) for shape in ((3, 2), (3, 3), (3, 1), (3, 1))]
    direction = [rng.normal(size=value.shape) for value in values]
    xs = [rng.normal(size=(2, 2)) for _ in range(3)]

    def mutating_loss(Wi, Wh, b, h):
        m = Recur(TanhCell(Wi, Wh, b, h), h)
        return sum(np.sum(m(x) ** 2) for x in xs)

    def functional_loss(Wi, Wh, b, h):
        total = 0.0
        for x in xs:
            h = np.tanh(Wi @ x + Wh @ h + b)
            total = total + np.sum(h**2)
        return total

    def product(f):
        def along(*values):
            gradients = mt.grad(f, argnums=(0, 1, 2, 3))(*values)
            return sum(np.sum(g * v) for g, v in zip(gradients, direction, strict=True))

        return mt.grad(along, argnums=(0, 1, 2, 3))(*values)

    for _ in range(3):
        for a, b in zip(product(mutating_loss), product(functional_loss), strict=True):
            close(a, b)


def test_the_second_derivative_of_the_linear_cell():
    def loss(w):
        m = Recur(LinearCell(5.0, w, 0.0), 7.0)
        for x in (2.0, 3.0):
            y = m(x)
        return y * 1.0

    # h2 = 5·3 + w (5·2 + 7 w), so h2'' = 14.
    for _ in range(3):
        assert mt.grad(mt.grad(loss))(4.0) == pytest.approx(14.0, rel=1e-12)
        assert mt.grad(mt.grad(mt.grad(loss)))(4.0) == pytest.approx(0.0, abs=1e-12)


def test_an_object_of_the_outer_function_is_moved_by_an_inner_gradient():
    keep = Unit(0.7, 0.4)

    def inner(y):
        keep.h = keep.h * y
        return keep.h * y

    def outer(x):
        slope = mt.grad(inner)(x)  # d/dy (h y²) = 2 h y, and then h is h x
        return slope * keep.h  # 2 h x · h x = 2 h² x²

    for _ in range(3):
        keep.h = 0.4
        assert mt.grad(outer)(3.0) == pytest.approx(4 * 0.16 * 3.0)
        assert keep.h == pytest.approx(1.2)
        assert type(keep.h) is float
        assert mt.grad(lambda m: outer(3.0) + 0.0 * m.w)(keep).h == pytest.approx(4 * 1.2 * 9)
