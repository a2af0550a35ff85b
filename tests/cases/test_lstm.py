"""Case 30: an LSTM of one unit, gates i, f, g, o; its state is two fields, or one pair."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import Recur
from tests.cases.harness import NUMERICAL, Fields, three_ways

X = (1.0, -2.0, 0.5)
LOSS = 0.009002446717508
DWI = [-0.0316983, 0.00424801, 0.01605148, -0.01367024]
DWH = [-0.00277027, 0.0011449, -0.01121742, -0.00023607]
DB = [0.00429975, 0.00561857, -0.08973733, 0.01097719]
DH0, DC0 = -0.00471138, -0.04790291
DIGITS = {"rtol": 1e-5, "atol": 2e-8}


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


@mt.differentiable
class Unit:
    """All of an LSTM in one object."""

    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray
    h: float
    c: float

    def __call__(self, x):
        i, f, g, o = self.Wi * x + self.Wh * self.h + self.b
        self.c = sigmoid(f) * self.c + sigmoid(i) * np.tanh(g)
        self.h = sigmoid(o) * np.tanh(self.c)
        return self.h


@mt.differentiable
class Cell:
    """The same as a cell whose state is a pair."""

    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray

    def __call__(self, state, x):
        h, c = state
        i, f, g, o = self.Wi * x + self.Wh * h + self.b
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        return (h, c), h


def loss(m, xs=X):
    total = 0.0
    for x in xs:
        total = total + m(x) ** 2
    return total


def weights(xp):
    return xp.asarray([0.1, 0.2, 0.3, 0.4]), xp.asarray([-0.1, 0.05, 0.2, 0.3]), xp.asarray([0.0, 1, 0, 0])


def test_an_lstm_with_two_state_fields(xp):
    three_ways(
        lambda: (Unit(*weights(xp), 0.5, -0.25),),
        loss,
        (Fields(Wi=DWI, Wh=DWH, b=DB, h=DH0, c=DC0),),
        **DIGITS,
    )


def test_an_lstm_with_a_pair_for_its_state(xp):
    three_ways(
        lambda: (Recur(Cell(*weights(xp)), (0.5, -0.25)),),
        loss,
        (Fields(cell=Fields(Wi=DWI, Wh=DWH, b=DB), state=(DH0, DC0)),),
        **DIGITS,
    )


def test_the_loss_is_that_of_the_plain_run(xp):
    for _ in range(3):
        value, _ = mt.value_and_grad(loss)(Unit(*weights(xp), 0.5, -0.25))
        assert float(value) == pytest.approx(LOSS, rel=1e-12)


def test_the_inputs_of_an_lstm_agree_with_finite_differences(xp):
    three_ways(lambda: (Unit(*weights(xp), 0.5, -0.25), xp.asarray([0.3, -0.7, 1.1, 0.2])), loss, NUMERICAL)


def columns(xp):
    return [xp.asarray(np.reshape(array, (4, 1))) for array in weights(xp)]


def test_the_lstm_of_the_library_has_the_same_numbers(xp):
    def model():
        h0, c0 = xp.asarray([[0.5]]), xp.asarray([[-0.25]])
        return (mt.nn.Recur(mt.nn.LSTMCell(*columns(xp), state0=(h0, c0))),)

    def total(m):
        return sum(np.sum(m(np.array([[x]])) ** 2) for x in X)

    def column(values):
        return np.reshape(values, (-1, 1))

    three_ways(
        model,
        total,
        (
            Fields(
                cell=Fields(Wi=column(DWI), Wh=column(DWH), b=column(DB)), state=(column(DH0), column(DC0))
            ),
        ),
        **DIGITS,
    )


@pytest.mark.parametrize("make", ["LSTM", "GRU", "RNN"])
@pytest.mark.parametrize("at_once", [False, True])
def test_the_layers_of_the_library_agree_with_finite_differences(make, at_once):
    def model():
        rng = np.random.default_rng(4)
        m = getattr(mt.nn, make)(2, 3, rng=rng, dtype=np.float64)
        return m, rng.normal(size=(2, 4, 3))

    def total(m, x):
        if at_once:
            return np.sum(m(x) ** 2)
        return sum(np.sum(m(x[:, :, time]) ** 2) for time in range(x.shape[2]))

    three_ways(model, total, NUMERICAL)


@pytest.mark.parametrize("make", ["LSTM", "GRU", "RNN"])
def test_a_reset_of_the_library_inside_the_loss_gives_the_gradient_to_state0(make):
    def model():
        rng = np.random.default_rng(4)
        m = getattr(mt.nn, make)(2, 3, rng=rng, dtype=np.float64)
        m(rng.normal(size=(2, 4)))
        return m, rng.normal(size=(2, 4))

    def total(m, x):
        mt.nn.reset(m)
        return np.sum(m(x) ** 2) + np.sum(m(x) ** 3)

    three_ways(model, total, NUMERICAL)
