"""Cases 22, 23, 27–29: state that is carried by an object from step to step.

The linear cell R has h' = Wi x + Wh h + b with Wi = 5, Wh = 4, b = 0, h0 = 7; after x = 2, 3 the loss is h = 167.
"""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import LinearCell, Recur, TanhCell
from tests.cases.harness import NUMERICAL, ZERO, Fields, three_ways

RIGHT = Fields(cell=Fields(Wi=11.0, Wh=66.0, b=5.0), state=16.0)
# One step alone; and the tangents of the two steps' different states added up.
WRONG = (
    Fields(cell=Fields(Wi=3.0, Wh=38.0, b=1.0), state=...),
    Fields(cell=Fields(Wi=14.0, Wh=104.0, b=6.0), state=...),
    Fields(cell=..., state=20.0),
)


def scalar_model():
    return Recur(LinearCell(5.0, 4.0, 0.0), 7.0)


def loop(m):
    for x in (2.0, 3.0):
        y = m(x)
    return y * 1.0


def comprehension(m):
    return [m(x) for x in (2.0, 3.0)][-1]


def collected(m):
    outputs = []
    for x in (2.0, 3.0):
        outputs.append(m(x))  # noqa: PERF401 - the case
    return np.sum(np.stack(outputs)[-1:])


def mapped(m):
    return list(map(m, (2.0, 3.0)))[-1]


def generated(m):
    def steps():
        for x in (2.0, 3.0):
            yield m(x)

    *_, last = steps()
    return last


def the_state_itself(m):
    m(2.0)
    m(3.0)
    return m.state


PROGRAMS = [loop, comprehension, collected, mapped, generated, the_state_itself]
every_program = pytest.mark.parametrize("program", PROGRAMS)


# ---------------------------------------------------------------- case 22


@every_program
def test_the_linear_cell_has_one_tangent_per_object(program):
    three_ways(lambda: (scalar_model(),), program, (RIGHT,), never=tuple((wrong,) for wrong in WRONG))


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@every_program
def test_the_linear_cell_over_arrays_has_the_same_tangents(program, shape, dtype, xp):
    def arrays():
        values = (xp.asarray(np.full(shape, value), dtype) for value in (5, 4, 0, 0, 7))
        *weights, state = values
        return (Recur(LinearCell(*weights), state),)

    def full(value):
        return np.full(shape, value)

    three_ways(
        arrays,
        lambda m: np.sum(program(m)),
        (Fields(cell=Fields(Wi=full(11.0), Wh=full(66.0), b=full(5.0)), state=full(16.0)),),
        never=((Fields(cell=Fields(Wi=full(14.0), Wh=full(104.0), b=full(6.0)), state=full(20.0)),),),
    )


def test_the_inputs_have_their_gradients_too(xp):
    def loss(m, xs):
        for x in xs:
            y = m(x)
        return np.sum(y)

    three_ways(lambda: (scalar_model(), xp.asarray([2.0, 3.0])), loss, (RIGHT, [20.0, 5.0]))
    three_ways(lambda: (scalar_model(), [2.0, 3.0]), loss, (RIGHT, [20.0, 5.0]))


@pytest.mark.parametrize("steps", [1, 2, 5, 30])
def test_any_number_of_steps_agrees_with_finite_differences(steps, xp):
    def loss(m):
        total = 0.0
        for k in range(steps):
            total = total + m(0.1 * k) ** 2
        return total

    three_ways(lambda: (Recur(LinearCell(0.5, 0.9, 0.1), 0.7),), loss, NUMERICAL)


def test_two_models_with_one_cell_have_one_tangent_of_the_cell():
    def shared():
        cell = LinearCell(5.0, 4.0, 0.0)
        return Recur(cell, 7.0), Recur(cell, 7.0)

    twice = Fields(cell=Fields(Wi=22.0, Wh=132.0, b=10.0), state=16.0)
    three_ways(shared, lambda m, n: loop(m) + loop(n), (twice, twice))


def test_one_model_in_two_places_steps_twice():
    three_ways(
        lambda: ([(m := scalar_model()), m],),
        lambda pair: pair[0](2.0) * 0.0 + pair[1](3.0),
        ([RIGHT, RIGHT],),
        never=(([WRONG[0], ...],),),
    )


def test_a_model_reached_from_a_closure_has_the_same_tangents():
    m = scalar_model()
    three_ways(lambda: (), lambda: loop(m), (), reaches=(m,), expected_reached=(RIGHT,))


def test_a_model_of_models_carries_all_their_states():
    @mt.differentiable
    class Stack:
        layers: list

        def __call__(self, x):
            for layer in self.layers:
                x = layer(x)
            return x

    def deep():
        return (Stack([Recur(LinearCell(0.5, 0.9, 0.1), 0.7), Recur(LinearCell(-0.3, 0.4, 0.2), -0.1)]),)

    three_ways(deep, lambda m: m(1.0) * m(-2.0) * m(0.5), NUMERICAL)


# ---------------------------------------------------------------- case 23


def test_a_reset_outside_the_loss_gives_the_gradient_to_the_state():
    m = Recur(LinearCell(5.0, 4.0, 0.0, state0=7.0), 99.0)
    for _ in range(3):
        m.state = m.cell.state0
        assert mt.grad(loop)(m) == mt.Tangent(
            Recur, cell=mt.Tangent(LinearCell, Wi=11.0, Wh=66.0, b=5.0), state=16.0
        )
        assert m.state == 167.0


def test_a_reset_inside_the_loss_gives_the_gradient_to_the_initial_state():
    def loss(m):
        m.state = m.cell.state0
        return loop(m)

    three_ways(
        lambda: (Recur(LinearCell(5.0, 4.0, 0.0, state0=7.0), 99.0),),
        loss,
        (Fields(cell=Fields(Wi=11.0, Wh=66.0, b=5.0, state0=16.0), state=ZERO),),
    )


def test_a_reset_between_two_sequences_gives_each_its_share(xp):
    def loss(m):
        first = loop(m)
        m.state = m.cell.state0
        return np.sum(first + loop(m))

    three_ways(
        lambda: (Recur(LinearCell(5.0, 4.0, 0.0, state0=xp.asarray([7.0])), xp.asarray([7.0])),),
        loss,
        (Fields(cell=Fields(Wi=22.0, Wh=132.0, b=10.0, state0=[16.0]), state=[16.0]),),
    )


# ---------------------------------------------------------------- case 27


@mt.differentiable
class Integrator:
    w: float
    c: float
    z: float = 0.0

    def __call__(self, x):
        self.z += self.w * x + self.c
        return np.tanh(self.z)


def test_an_integrator_per_column():
    def loss(m):
        return np.mean(np.stack([(m(x) - x) ** 2 for x in (0.5, -1.0, 2.0)]))

    three_ways(lambda: (Integrator(0.3, 0.1),), loss, (Fields(w=-1.2432901, c=-0.3919046, z=...),))
    three_ways(lambda: (Integrator(0.3, 0.1),), loss, NUMERICAL)


# ---------------------------------------------------------------- case 28


def test_a_linear_recurrence_over_columns_under_an_absolute_value(xp):
    def loss(m, x):
        for column in range(x.shape[1]):
            y = m(x[:, column])
        return np.sum(np.abs(y - 21.0))

    @mt.differentiable
    class Cell:
        Wi: np.ndarray
        Wh: float
        b: float

        def __call__(self, h, x):
            h = self.Wi @ x + self.Wh * h + self.b
            return h, h

    three_ways(
        lambda: (Recur(Cell(xp.asarray([0.5, 0.25]), 0.9, 0.1), 0.0), xp.asarray([[1.0, 2, 3], [4.0, 5, 6]])),
        loss,
        (Fields(cell=Fields(Wi=[-5.61, -13.74], Wh=-5.23, b=-2.71), state=-0.729), ...),
    )


# ---------------------------------------------------------------- case 29


@mt.differentiable
class Dense:
    W: np.ndarray
    c: np.ndarray

    def __call__(self, x):
        return self.W @ x + self.c


@mt.differentiable
class Net:
    recur: Recur
    dense: Dense

    def __call__(self, x):
        return self.dense(self.recur(x))


def test_a_recurrent_and_a_dense_layer_with_a_reset_inside_the_loss(xp):
    def net():
        one = [[2.0], [0.5], [0.0], [0.0], [3.0], [0.1], [9.0]]
        Wi, Wh, b, state0, W, c, state = (xp.asarray([value]) for value in one)
        cell = TanhCell(Wi, Wh, b, state0, activation=lambda z: z)
        return Net(Recur(cell, state), Dense(W, c)), xp.asarray(np.ones((1, 4)))

    def loss(m, x):
        m.recur.state = m.recur.cell.state0
        return np.sum(m(x))

    three_ways(
        net,
        loss,
        (
            Fields(
                recur=Fields(cell=Fields(Wi=[[12.0]], Wh=[[0.0]], b=[[12.0]], state0=[[6.0]])),
                dense=Fields(W=[[8.0]], c=[[4.0]]),
            ),
            [[6.0, 6.0, 6.0, 6.0]],
        ),
    )
    three_ways(lambda: (net()[0],), lambda m: loss(m, np.linspace(-1, 1, 8).reshape(1, 8)), NUMERICAL)
