import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import ZERO, Fields, three_ways

nn = mt.nn


def logistic(a):
    return 1 / (1 + np.exp(-a))


# ---------------------------------------------------------------- the equations, restated with one gate at a time


def rnn_restated(cell, h, x):
    return np.tanh(cell.Wi @ x + cell.Wh @ h + cell.b.reshape(-1, 1))


def lstm_restated(cell, state, x):
    h, c = state
    Wi, Wh, b = (np.split(p, 4) for p in (cell.Wi, cell.Wh, cell.b.reshape(-1, 1)))
    i = logistic(Wi[0] @ x + Wh[0] @ h + b[0])
    f = logistic(Wi[1] @ x + Wh[1] @ h + b[1])
    g = np.tanh(Wi[2] @ x + Wh[2] @ h + b[2])
    o = logistic(Wi[3] @ x + Wh[3] @ h + b[3])
    c = f * c + i * g
    return o * np.tanh(c), c


def gru_restated(cell, h, x):
    Wi, Wh, b = (np.split(p, 3) for p in (cell.Wi, cell.Wh, cell.b.reshape(-1, 1)))
    r = logistic(Wi[0] @ x + Wh[0] @ h + b[0])
    z = logistic(Wi[1] @ x + Wh[1] @ h + b[1])
    candidate = np.tanh(Wi[2] @ x + r * (Wh[2] @ h) + b[2])
    return (1 - z) * candidate + z * h


def make_cell(kind, rng, dtype=np.float64, features=2, units=3):
    gates = {nn.RNNCell: 1, nn.LSTMCell: 4, nn.GRUCell: 3}[kind]
    draw = lambda *shape: rng.normal(size=shape).astype(dtype)
    state0 = draw(units, 1)
    return kind(
        Wi=draw(gates * units, features),
        Wh=draw(gates * units, units),
        b=draw(gates * units),
        state0=(state0, draw(units, 1)) if kind is nn.LSTMCell else state0,
    )


KINDS = [nn.RNNCell, nn.LSTMCell, nn.GRUCell]
every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)


def arrays(state):
    return state if isinstance(state, tuple) else (state,)


@pytest.mark.parametrize(
    ("kind", "restated"),
    [(nn.RNNCell, rnn_restated), (nn.LSTMCell, lstm_restated), (nn.GRUCell, gru_restated)],
    ids=lambda value: value.__name__,
)
@pytest.mark.parametrize("bias_shape", [(-1,), (-1, 1)], ids=["vector", "column"])
def test_a_cell_computes_its_equations(rng, kind, restated, bias_shape):
    cell = make_cell(kind, rng)
    cell.b = cell.b.reshape(bias_shape)
    x = rng.normal(size=(2, 5))
    state, expected = cell.state0, cell.state0
    for _ in range(3):
        state, y = cell(state, x)
        expected = restated(cell, expected, x)
    for got, want in zip(arrays(state), arrays(expected), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    np.testing.assert_array_equal(y, arrays(state)[0])


@every_kind
def test_a_cell_keeps_float32(rng, kind):
    cell = make_cell(kind, rng, np.float32)
    state, y = cell(cell.state0, np.ones((2, 5), np.float32))
    assert {a.dtype for a in (*arrays(state), y)} == {np.dtype(np.float32)}


@every_kind
def test_a_vector_is_a_batch_of_one_and_gives_a_vector(rng, kind):
    cell = make_cell(kind, rng)
    x = rng.normal(size=2)
    state, y = cell(cell.state0, x)
    column_state, column_y = cell(cell.state0, x.reshape(2, 1))
    assert y.shape == (3,)
    np.testing.assert_array_equal(y, column_y[:, 0])
    for got, want in zip(arrays(state), arrays(column_state), strict=True):
        assert got.shape == (3, 1)
        np.testing.assert_array_equal(got, want)


@every_kind
def test_a_state_that_is_a_vector_counts_as_a_column(rng, kind):
    cell = make_cell(kind, rng)
    state0 = cell.state0
    flat = tuple(h[:, 0] for h in state0) if isinstance(state0, tuple) else state0[:, 0]
    x = rng.normal(size=(2, 3))  # as many columns as units: NumPy would broadcast the wrong way
    np.testing.assert_array_equal(cell(flat, x)[1], cell(state0, x)[1])


@every_kind
@pytest.mark.parametrize("batch", [1, 4], ids=["one column", "another batch"])
def test_a_state_of_another_batch_is_refused(rng, kind, batch):
    cell = make_cell(kind, rng)
    state, _ = cell(cell.state0, np.ones((2, 5)))
    with pytest.raises(ValueError, match=r"state of shape \(3, 5\) is for a batch of 5"):
        cell(state, np.ones((2, batch)))
    with pytest.raises(ValueError, match=r"state of shape \(3, 5\) is for a batch of 5"):
        cell(state, np.ones(2))


@every_kind
@pytest.mark.parametrize("x_shape", [(2,), (2, 4)], ids=str)
def test_first_and_second_derivatives_of_a_cell_agree_with_finite_differences(rng, kind, x_shape):
    cell = make_cell(kind, rng)

    def loss(cell, x):
        state, y = cell(cell.state0, x)
        state, z = cell(state, x * 2)
        return np.sum(y * z) + sum(np.sum(part**2) for part in arrays(state))

    mt.testing.check_grads(loss, (cell, rng.normal(size=x_shape)), order=2)


@every_kind
def test_gradients_of_float32_cells_are_float32_and_have_the_shapes_of_the_fields(rng, kind):
    cell = make_cell(kind, rng, np.float32)
    tangent = mt.grad(lambda cell: np.sum(cell(cell.state0, np.ones((2, 5), np.float32))[1]))(cell)
    for name in ("Wi", "Wh", "b", "state0"):
        for got, field in zip(arrays(tangent[name]), arrays(getattr(cell, name)), strict=True):
            assert (got.shape, got.dtype) == (field.shape, np.float32)


def test_the_gates_of_the_lstm_have_the_order_and_the_gradients_of_case_30():
    def loss(m):
        return sum(np.sum(m(np.array([[x]])) ** 2) for x in (1.0, -2.0, 0.5))

    cell = nn.LSTMCell(
        Wi=np.array([[0.1], [0.2], [0.3], [0.4]]),
        Wh=np.array([[-0.1], [0.05], [0.2], [0.3]]),
        b=np.array([0.0, 1.0, 0.0, 0.0]),
        state0=(np.array([[0.5]]), np.array([[-0.25]])),
    )
    assert float(loss(nn.Recur(cell))) == pytest.approx(0.009002446717508, rel=1e-10)
    expected = Fields(
        cell=Fields(
            Wi=[[-0.0316983], [0.00424801], [0.01605148], [-0.01367024]],
            Wh=[[-0.00277027], [0.0011449], [-0.01121742], [-0.00023607]],
            b=[0.00429975, 0.00561857, -0.08973733, 0.01097719],
            state0=ZERO,
        ),
        state=([[-0.00471138]], [[-0.04790291]]),
    )
    three_ways(lambda: (nn.Recur(cell),), loss, (expected,), atol=6e-9)
