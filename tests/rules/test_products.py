"""A weight that is read in many steps gets many small products, which wait and are multiplied together."""

import numpy as np
import pytest

import mutangent as mt
from mutangent import _accumulate
from mutangent.testing import check_grads

WAYS = {
    "x @ w": lambda x, w: x @ w,
    "np.matmul": np.matmul,
    "np.dot": np.dot,
    "x.dot(w)": lambda x, w: x.dot(w),
}


@pytest.fixture
def sums(monkeypatch):
    """The sums of products that waited, one for each time that they were multiplied."""
    made = []

    class Watched(_accumulate._Products):
        def __init__(self):
            super().__init__()
            made.append(self)

    monkeypatch.setattr(_accumulate, "_Products", Watched)
    return made


@pytest.mark.parametrize("product", WAYS.values(), ids=WAYS)
@pytest.mark.parametrize("batch", [1, 2, 200])
def test_the_gradient_is_the_sum_of_the_products_however_they_are_written(sums, product, batch):
    rng = np.random.default_rng(0)
    xs = rng.normal(size=(7, batch, 3)).astype(np.float32)
    ys = rng.normal(size=(7, batch, 4)).astype(np.float32)
    w = rng.normal(size=(3, 4)).astype(np.float32)

    def loss(w, xs):
        return sum(np.sum(y * product(x, w)) for x, y in zip(xs, ys, strict=True))

    expected = sum(x.astype(float).T @ y for x, y in zip(xs, ys, strict=True))
    found = mt.grad(loss, argnums=(0, 1))(w, xs)[0]
    np.testing.assert_allclose(found, expected, rtol=2e-4, atol=1e-5)
    # Products of many rows gain nothing from waiting.
    assert bool(sums) == (batch < 128)


@pytest.mark.parametrize("product", WAYS.values(), ids=WAYS)
def test_so_many_products_wait_that_little_memory_is_held(sums, product):
    def loss(w, x):
        return sum(np.sum(product(x, w)) for _ in range(1000))

    gradient = mt.grad(loss, argnums=(0, 1))(np.ones((3, 4)), np.ones((1, 3)))[0]
    np.testing.assert_array_equal(gradient, np.full((3, 4), 1000.0))
    assert max(each.rows for each in sums) == _accumulate.FLUSHED_ROWS


def test_a_plain_array_does_not_know_a_traced_one_in_its_method_dot():
    with pytest.raises(mt.TracedValueError, match=r"write .* plain @ x for plain\.dot\(x\)"):
        mt.grad(lambda w: np.sum(np.ones((2, 3)).dot(w)))(np.ones((3, 4)))


VECTOR_WAYS = {
    "w @ x": lambda w, x: w @ x,
    "x @ w.T": lambda w, x: x @ w.T,
    "np.dot(w, x)": np.dot,
    "w.dot(x)": lambda w, x: w.dot(x),
    "np.matmul(w, x)": np.matmul,
}


@pytest.mark.parametrize("product", VECTOR_WAYS.values(), ids=VECTOR_WAYS)
def test_products_with_vectors_wait_too(sums, product):
    rng = np.random.default_rng(0)
    xs, ys = rng.normal(size=(300, 3)), rng.normal(size=(300, 4))
    w = rng.normal(size=(4, 3))

    def loss(w, xs):
        return sum(np.sum(y * np.sin(product(w, x))) for x, y in zip(xs, ys, strict=True))

    w_bar, xs_bar = mt.grad(loss, argnums=(0, 1))(w, xs)
    inner = ys * np.cos(xs @ w.T)
    np.testing.assert_allclose(w_bar, inner.T @ xs, rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(xs_bar, inner @ w, rtol=1e-12)
    assert sums or product is VECTOR_WAYS["x @ w.T"]  # a new w.T each time


@pytest.mark.parametrize("product", VECTOR_WAYS.values(), ids=VECTOR_WAYS)
def test_products_with_vectors_are_those_of_the_plain_program_to_the_last_bit(product):
    rng = np.random.default_rng(0)
    w, x = rng.normal(size=(40, 30))[::-1], rng.normal(size=30)
    out, _ = mt.vjp(product, w, x)
    np.testing.assert_array_equal(out, product(w, x))


@pytest.mark.parametrize("product", VECTOR_WAYS.values(), ids=VECTOR_WAYS)
def test_products_with_vectors_have_second_derivatives(product):
    rng = np.random.default_rng(0)
    check_grads(
        lambda w, x: np.sum(np.sin(product(w, x))) + np.sum(product(w, 2 * x) ** 2),
        (rng.normal(size=(2, 3)), rng.normal(size=3)),
        order=2,
    )
