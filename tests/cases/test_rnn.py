"""Cases 24 and 25: the origin's RNN(2→3), over one step and over features × batch × time.

The state's gradient has the state's shape, 3×1, also when broadcasting has made the state 3×3 on its way; upstream
gave a 3×3 there, by adding the tangents of the states of different time steps.
"""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import Recur, TanhCell, over_time
from tests.cases.harness import NUMERICAL, Fields, three_ways

TWO_COLUMNS = np.array([[1.0, 2.0], [3.0, 4.0]])
SEQUENCE = np.arange(1.0, 25.0).reshape(2, 3, 4, order="F")


def plain(Wi, Wh, xp, dtype=np.float64):
    cell = TanhCell(
        xp.asarray(np.full((3, 2), Wi), dtype),
        xp.asarray(np.full((3, 3), Wh), dtype),
        xp.asarray(np.zeros((3, 1)), dtype),
        xp.asarray(np.zeros((3, 1)), dtype),
    )
    return Recur(cell, xp.asarray(np.zeros((3, 1)), dtype))


def from_nn(Wi, Wh, xp, dtype=np.float64):
    m = plain(Wi, Wh, xp, dtype)
    cell = mt.nn.RNNCell(m.cell.Wi, m.cell.Wh, m.cell.b, m.cell.state0)
    return mt.nn.Recur(cell, m.state)


def step_by_step(m, x):
    return over_time(m, x)


def whole_sequence(m, x):
    return np.sum(m(x) ** 2)


# (how the model is made, how it is called); the layers of the library take a sequence in one call.
MODELS = [(plain, step_by_step), (from_nn, step_by_step), (from_nn, whole_sequence)]
every_model = pytest.mark.parametrize(("model", "loss"), MODELS, ids=["plain", "nn by steps", "nn at once"])


def rows(first, second):
    return np.tile([first, second], (3, 1))


def column(value):
    return np.full((3, 1), value)


def expected(wi, wh, b, state):
    return Fields(
        cell=Fields(Wi=rows(*wi), Wh=np.full((3, 3), wh), b=column(b), state0=...), state=column(state)
    )


# The case's numbers are those of 32-bit arithmetic (1 - tanh² loses digits there), so they hold to four digits.
FOUR_DIGITS = {"rtol": 2e-4, "atol": 1e-7}

STEP = expected((0.0027782, 0.0082363), 0.0, 0.0027290, 0.0081871)
LONG = expected((0.0196545, 0.0392956), 0.0, 0.0196411, 0.0589234)
UNSATURATED = expected((3.44662196, 3.71652890), 0.53772779, 6.47776645, 0.73046552)


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_one_step_over_two_columns(model, loss, dtype, xp):
    three_ways(
        lambda: (model(1.0, 1.0, xp, dtype), xp.asarray(TWO_COLUMNS, dtype)), loss, (STEP, ...), **FOUR_DIGITS
    )


@every_model
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_saturated_sequence_gives_the_state_a_column(model, loss, dtype, xp):
    three_ways(
        lambda: (model(1.0, 1.0, xp, dtype), xp.asarray(SEQUENCE, dtype)), loss, (LONG, ...), **FOUR_DIGITS
    )


@every_model
def test_an_unsaturated_sequence_gives_the_state_a_column(model, loss, xp):
    three_ways(
        lambda: (model(0.1, 0.2, xp), xp.asarray(SEQUENCE / 24)),
        loss,
        (UNSATURATED, ...),
        rtol=1e-7,
        atol=1e-8,
    )


@every_model
def test_an_unsaturated_sequence_in_float32_gives_float32_tangents(model, loss, xp):
    three_ways(
        lambda: (model(0.1, 0.2, xp, np.float32), xp.asarray(SEQUENCE / 24, np.float32)),
        loss,
        (UNSATURATED, ...),
        rtol=1e-5,
        atol=1e-6,
    )


@every_model
def test_an_unsaturated_sequence_agrees_with_finite_differences(model, loss, xp):
    three_ways(lambda: (model(0.1, 0.2, xp), xp.asarray(SEQUENCE / 24)), loss, NUMERICAL)


@every_model
def test_the_state_left_behind_is_that_of_the_plain_run(model, loss, xp):
    recorded, unrecorded = model(0.1, 0.2, xp), model(0.1, 0.2, xp)
    for _ in range(3):
        mt.grad(loss)(recorded, xp.asarray(SEQUENCE / 24))
        loss(unrecorded, xp.asarray(SEQUENCE / 24))
        assert type(recorded.state) is np.ndarray
        assert recorded.state.shape == (3, 3)
        np.testing.assert_array_equal(recorded.state, unrecorded.state)


@every_model
def test_the_gradient_of_a_second_call_belongs_to_the_state_it_found(model, loss, xp):
    m = model(0.1, 0.2, xp)
    x = xp.asarray(SEQUENCE / 24)
    mt.grad(loss)(m, x)
    for _ in range(3):
        tangent = mt.grad(loss)(m, x)
        # The state found is 3×3 now, and so is its tangent.
        assert tangent.state.shape == (3, 3)


def test_the_gradient_of_a_decorated_loss_is_a_tangent_of_the_model(xp):
    @mt.differentiable
    def loss(m, x):
        return np.sum(m(x) ** 2)

    for _ in range(3):
        m, x = plain(1.0, 1.0, xp), xp.asarray(TWO_COLUMNS)
        value, dm = loss.value_and_grad(m, x)
        assert value == pytest.approx(float(np.sum(m.state**2)))
        assert isinstance(dm, mt.Tangent)
        np.testing.assert_allclose(dm.cell.Wi, rows(0.0027782, 0.0082363), **FOUR_DIGITS)
        np.testing.assert_allclose(dm.state, column(0.0081871), **FOUR_DIGITS)
