"""Decompositions of matrices with several vectors that they make 0 of, where what the matrix was computed from moves."""

import numpy as np
import pytest

import mutangent as mt

N = 5
rng = np.random.default_rng(0)
W = rng.normal(size=(N, N))
X = rng.normal(size=(2, N))
K = rng.normal(size=(N, 2))
PLACES = np.linspace(0.0, 1.0, 20)


def of_eigh(a, f=lambda w: 1 / (w + 0.5), weights=W):
    values, vectors = np.linalg.eigh(a)
    n = len(values)
    return np.sum(weights[:n, :n] * np.real((vectors * f(values)) @ np.conj(vectors).T))


def of_svd(a):
    u, s, vh = np.linalg.svd(a, full_matrices=False)
    return np.sum(W[: u.shape[0], : vh.shape[1]] * np.real((u * (s / (s * s + 0.5))) @ vh))


def of_eig(a):
    values, vectors = np.linalg.eig(a)
    return np.sum(W * np.real((vectors / (values + 0.5)) @ np.linalg.inv(vectors)))


def of_last_two(a):
    last = np.linalg.eigh(a)[1][:, [-2, -1]]
    return np.sum(W * (last @ last.T))


def bent(x):
    return x * (1 + 0.3j) + 0.2j * x * x


def whitened(x):
    values, vectors = np.linalg.eigh(x.T @ x)
    return np.sum(np.tanh((vectors / np.sqrt(np.maximum(values, 0.0) + 1e-3)) @ vectors.T @ x.T))


def smoothed(width):
    values, vectors = np.linalg.eigh(np.exp(-((PLACES[:, None] - PLACES) ** 2) / (2 * width * width)))
    return np.sum((vectors.T @ np.sin(6 * PLACES)) ** 2 / (values + 1e-2))


def summed_up(x):
    """Squares that are added to an array in place."""
    a = np.zeros_like(x, shape=(N, N))
    for row in x:
        a += np.outer(row, row)
    return of_eigh(a)


@mt.differentiable
class Covariance:
    matrix: np.ndarray

    def update(self, x):
        self.matrix = 0.9 * self.matrix + np.outer(x, x)


def updated(x):
    state = Covariance(np.zeros((N, N)))
    for row in x:
        state.update(row)
    return of_eigh(state.matrix)


KEPT = {
    "a product with its own transpose": (lambda x: of_eigh(x.T @ x), X),
    "one over a number": (lambda x: of_eigh(x.T @ x / len(x)), X),
    "one over a traced number": (lambda x: of_eigh(x.T @ x / np.sum(x * x)), X),
    "a covariance of few points": (lambda x: of_eigh(np.cov(x.T)), rng.normal(size=(3, N))),
    "a sum of outer products": (lambda x: of_eigh(sum(np.outer(row, row) for row in x)), X),
    "one that is written in place": (summed_up, X),
    "one in a field": (updated, X),
    "einsum": (lambda x: of_eigh(np.einsum("ki,kj->ij", x, x)), X),
    "a checkpointed function": (mt.checkpoint(lambda x: of_eigh(x.T @ x)), X),
    "a complex product": (lambda x: of_eigh(np.conj(bent(x)).T @ bent(x)), X),
    "points that are whitened": (whitened, rng.normal(size=(N, 2 * N))),
    "a kernel": (smoothed, 0.5),
    "the last of the vectors": (lambda x: of_last_two(x.T @ x), X),
    "singular values of a product": (lambda x: of_svd(K @ x), X),
    "those of a wide one": (lambda x: of_svd(K[:4] @ x), X),
    "those of a tall one": (lambda x: of_svd(K @ x[:, :4]), X),
    "those of a complex one": (lambda x: of_svd((K + 1j * K * K) @ bent(x)), X),
    "those of a complex wide one": (lambda x: of_svd((K + 1j * K * K)[:4] @ bent(x)), X),
    "those of centred points": (lambda x: of_svd(x - np.mean(x, axis=0)), rng.normal(size=(4, N))),
    "a product that is not symmetric": (lambda x: of_eig(K @ x), X),
}


@pytest.mark.parametrize(("f", "x"), KEPT.values(), ids=KEPT)
def test_the_derivative_by_the_factors_of_a_matrix_is_there(f, x):
    mt.testing.check_grads(f, (x,), order=1, rtol=1e-5)


@pytest.mark.parametrize(("f", "x"), KEPT.values(), ids=KEPT)
def test_the_second_derivative_by_the_factors_is_right_or_nan(f, x):
    # To second order factors move the null space, uᵀ dXᵀ dX v.
    x = np.asarray(x)
    step = np.cos(np.arange(x.size)).reshape(x.shape)
    found = mt.hvp(f, (x,), (step,))[0]
    if not np.any(np.isnan(found)):
        h = 1e-5
        expected = (mt.grad(f)(x + h * step) - mt.grad(f)(x - h * step)) / (2 * h)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_single_precision_has_null_spaces_too():
    found = mt.grad(lambda x: of_eigh(x.T @ x, lambda w: 1 / (w + np.float32(0.5)), W.astype(x.dtype)))
    single = found(X.astype(np.float32))
    assert single.dtype == np.float32
    np.testing.assert_allclose(single, found(X), rtol=1e-4, atol=1e-5)


def test_matrices_of_a_stack_have_each_their_own_null_space():
    x = np.stack([np.vstack([X, np.zeros((3, N))]), rng.normal(size=(N, N))])

    def f(x):
        values, vectors = np.linalg.eigh(np.swapaxes(x, -1, -2) @ x)
        return np.sum(W * ((vectors / (values + 0.5)[:, None]) @ np.swapaxes(vectors, -1, -2)))

    mt.testing.check_grads(f, (x,), order=1, rtol=1e-5)


LOW = X.T @ X
BLOCKS = 1.3 * np.kron(np.eye(2), np.ones((2, 2)))

OPEN = {
    "the matrix itself": (of_eigh, LOW),
    "its symmetric part": (lambda a: of_eigh((a + a.T) / 2), LOW),
    "a field that is updated": (
        lambda a: (state := Covariance(a), state.update(X[0]), of_eigh(state.matrix))[-1],
        LOW,
    ),
    "the Laplacian of a graph": (lambda w: of_eigh(np.diag(np.sum(w + w.T, axis=0)) - (w + w.T)), BLOCKS),
    "levels that cross": (
        lambda k: of_eigh(np.sin(k) * np.diag([1.0, -1.0, 0.0, 0.0]) + np.diag([0.0, 0.0, 1.0, 2.0])),
        np.float64(0),
    ),
    "a product with a number on its diagonal": (lambda x: of_eigh(x.T @ x + 0.1 * np.eye(N)), X),
    "singular values": (of_svd, K @ X),
    "those of a wide matrix": (of_svd, K[:4] @ X),
    "a matrix that is not symmetric": (of_eig, K @ X),
    "what a checkpointed function was given": (lambda x: mt.checkpoint(of_eigh)(x.T @ x), X),
    "what a checkpointed function returned": (lambda x: of_eigh(mt.checkpoint(lambda x: x.T @ x)(x)), X),
}


@pytest.mark.parametrize("columns", [slice(1, None), [2], slice(0, 1)])
def test_single_vectors_of_a_null_space_have_no_derivative(columns):
    def f(x):
        some = np.linalg.eigh(x.T @ x)[1][:, columns]
        return np.sum(W * (some @ some.T))

    assert np.any(np.isnan(mt.grad(f)(X)))  # of three null vectors


@pytest.mark.parametrize("columns", [slice(3, None), slice(0, 3), [0, 1, 2]])
def test_a_null_space_as_a_whole_has_a_derivative(columns):
    def f(x):
        some = np.linalg.eigh(x.T @ x)[1][:, columns]
        return np.sum(W * (some @ some.T))

    mt.testing.check_grads(f, (X,), order=1, rtol=1e-5)


@pytest.mark.parametrize(("f", "x"), OPEN.values(), ids=OPEN)
def test_where_vectors_may_turn_by_any_angle_the_derivative_is_nan(f, x):
    assert np.any(np.isnan(mt.grad(f)(x)))
    assert np.any(np.isnan(mt.hvp(f, (x,), (np.ones_like(x),))[0]))


@pytest.mark.parametrize("name", ["the matrix itself", "levels that cross", "singular values"])
def test_forward_mode_looks_at_the_tangent(name):
    f, x = OPEN[name]
    assert np.isnan(mt.jvp(f, (x,), (np.cos(np.arange(x.size)).reshape(x.shape),))[1])
    if x.ndim and f is of_eigh:
        along = X.T @ np.ones_like(X)
        out_dot = mt.jvp(f, (x,), (along + along.T,))[1]
        np.testing.assert_allclose(
            out_dot, mt.jvp(lambda x: of_eigh(x.T @ x), (X,), (np.ones_like(X),))[1], rtol=1e-9
        )


def test_in_nested_recordings_each_is_asked():
    def inner_sum(scale, x):
        return np.sum(mt.grad(lambda x: of_eigh((scale * x).T @ (scale * x)))(x))

    assert np.isfinite(inner_sum(1.3, X))
    assert np.isnan(mt.grad(inner_sum)(1.3, X))  # a mixed second derivative
    inner = lambda x: mt.grad(lambda s: np.sum(of_eigh(LOW) * s))(1.0) + of_eigh(x.T @ x)
    mt.testing.check_grads(inner, (X,), order=1, rtol=1e-5)


def test_values_alone_need_no_vectors():
    mt.testing.check_grads(lambda x: np.sum(np.linalg.eigh(x.T @ x)[0] ** 2), (X,), order=1)
    found = mt.grad(lambda a: np.sum(np.linalg.eigh(a)[0] ** 2))(LOW)
    np.testing.assert_allclose(found, 2 * LOW)


# -- dependent columns of a QR decomposition ---------------------------------------------------------------------------

LOW_TALL = K @ X[:, :4]


def with_dependent_column():
    a = np.array(W[:, :4])
    a[:, 1] = 2 * a[:, 0]
    return a


def gram(x):
    return x.T @ x


DETERMINED = {
    "the product of R with itself": lambda a: np.sum(W[:4, :4] * gram(np.linalg.qr(a, "r"))),
    "the first columns of Q": lambda a: np.sum(W * gram(np.linalg.qr(a)[0][:, :2].T)),
    "the first rows of R": lambda a: np.sum(np.linalg.qr(a)[1][:2] ** 3),
}
FREE = {
    "Q": (lambda a: np.sum(W[:, :4] * np.linalg.qr(a)[0]), LOW_TALL),
    "all of Q": (lambda a: np.sum(W * np.linalg.qr(a, "complete")[0]), LOW_TALL),
    "Q after a dependent column": (
        lambda a: np.sum(W[:, :2] * np.linalg.qr(a)[0][:, 2:]),
        with_dependent_column(),
    ),
    "R after a dependent column": (lambda a: np.sum(np.linalg.qr(a, "r")[2] ** 3), with_dependent_column()),
    "R of a wide matrix": (
        lambda a: np.sum(np.linalg.qr(a, "r") ** 3),
        np.concatenate([with_dependent_column()[:3, :3], W[:3, :2]], axis=1),
    ),
}


@pytest.mark.parametrize("name", DETERMINED)
def test_what_the_first_columns_decide_on_has_a_derivative(name):
    f = DETERMINED[name]
    step = np.cos(np.arange(LOW_TALL.size)).reshape(LOW_TALL.shape)
    h = 1e-6
    expected = (f(LOW_TALL + h * step) - f(LOW_TALL - h * step)) / (2 * h)
    np.testing.assert_allclose(np.sum(mt.grad(f)(LOW_TALL) * step), expected, rtol=1e-5)
    np.testing.assert_allclose(mt.jvp(f, (LOW_TALL,), (step,))[1], expected, rtol=1e-5)


@pytest.mark.parametrize("name", FREE)
def test_factors_that_rounding_decides_on_have_no_derivative(name):
    f, a = FREE[name]
    assert np.any(np.isnan(mt.grad(f)(a)))
    assert np.isnan(mt.jvp(f, (a,), (np.cos(np.arange(a.size)).reshape(a.shape),))[1])


LOW_SQUARE = {
    "rounding errors": np.array([[0.3, 0.7, 1.1], [0.6, 1.4, 2.2], [0.9, 2.1, 3.3]]),
    "a row of zeros": np.array([[0.0, 0.0, 0.0], [0.5, 1.0, 2.0], [0.1, 0.9, 0.7]]),
    "a corner of zeros": np.diag([1.0, 2.0, 0.0]),
    "nothing but zeros": np.zeros((3, 3)),
    "rank one, whose rounding errors are of several sizes": np.array(
        [[0.75, -0.25, -0.5], [-0.25, 1 / 12, 1 / 6], [-0.5, 1 / 6, 1 / 3]]
    ),
    "one column, three times": np.array([[2.0, 2.0, 2.0], [1.0, 1.0, 1.0], [-3.0, -3.0, -3.0]]),
    "a batch": np.stack([W[:3, :3], np.diag([1.0, 2.0, 0.0])]),
}


def weighted_gram(a):
    r = np.linalg.qr(a)[1]
    return np.sum(W[:3, :3] * (np.swapaxes(r, -1, -2) @ r))


@pytest.mark.parametrize("name", LOW_SQUARE)
def test_the_product_of_r_with_itself_has_a_derivative_where_r_is_singular(name):
    a = LOW_SQUARE[name]
    exact = a @ (W[:3, :3] + W[:3, :3].T)
    step = np.cos(np.arange(a.size)).reshape(a.shape)
    np.testing.assert_allclose(mt.grad(weighted_gram)(a), exact, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(mt.jvp(weighted_gram, (a,), (step,))[1], np.sum(exact * step), rtol=1e-9)


@pytest.mark.parametrize("name", LOW_SQUARE)
def test_where_r_is_singular_there_is_no_second_derivative(name):
    a = LOW_SQUARE[name]
    step = np.cos(np.arange(a.size)).reshape(a.shape)
    assert np.isnan(mt.jvp(mt.grad(weighted_gram), (a,), (step,))[1]).any()
    assert np.isnan(mt.grad(lambda x: np.sum(mt.grad(weighted_gram)(x) * step))(a)).any()
    assert np.isnan(mt.grad(lambda x: mt.jvp(weighted_gram, (x,), (step,))[1])(a)).any()


def test_a_square_root_filter_may_start_with_a_covariance_of_zero():
    f, h = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])

    def likelihood(noise):
        mean, root, loss = np.zeros(2), np.zeros((2, 2)), 0.0
        for seen in (0.3, 0.8, 1.5):
            mean = f @ mean
            r = np.linalg.qr(np.concatenate([(f @ root).T, noise * np.array([[0.5, 1.0]])]))[1]
            covariance = r.T @ r
            spread = covariance[0, 0] + 0.1
            gain = covariance[:, 0] / spread
            loss = loss + (seen - mean[0]) ** 2 / spread + np.log(spread)
            mean = mean + gain * (seen - mean[0])
            kept = np.concatenate([((np.eye(2) - np.outer(gain, h)) @ r.T).T, np.sqrt(0.1) * gain[None]])
            root = np.linalg.qr(kept)[1].T
        return loss

    expected = (likelihood(0.4 + 1e-6) - likelihood(0.4 - 1e-6)) / 2e-6
    np.testing.assert_allclose(mt.grad(likelihood)(0.4), expected, rtol=1e-6)
    np.testing.assert_allclose(mt.jvp(likelihood, (0.4,), (1.0,))[1], expected, rtol=1e-6)
