"""Case 26: a rule on a method that mutates its object gives the numbers of the unruled code.

This is the rule that upstream had to withdraw: without the cotangent of the state that a call leaves behind, and
without one running tangent per object, it is wrong from the second step on.
"""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.cells import LinearCell, Recur, TanhCell, over_time
from tests.cases.harness import NUMERICAL, Fields, three_ways

CALLS = []


@mt.differentiable
class RuledRecur:
    cell: object
    state: object = mt.field(trainable=False)

    @mt.primitive
    def __call__(self, x):
        self.state, y = self.cell(self.state, x)
        return y

    @__call__.rrule
    def __call__(self, x):
        if np.ndim(x) == 3:
            return NotImplemented
        CALLS.append(self)
        (self.state, y), back = mt.vjp(lambda cell, h, x: cell(h, x), self.cell, self.state, x)

        def recur_pullback(y_bar, written):
            dcell, dh, dx = back((written[self].state, y_bar))
            return mt.Tangent(RuledRecur, cell=dcell, state=dh), dx

        return y, recur_pullback


@pytest.fixture(autouse=True)
def _the_rule_was_used():
    CALLS.clear()
    yield
    assert CALLS, "the test says nothing about the rule: it was never called"


def loop(m):
    for x in (2.0, 3.0):
        y = m(x)
    return y * 1.0


RIGHT = Fields(cell=Fields(Wi=11.0, Wh=66.0, b=5.0), state=16.0)


def test_the_rule_gives_the_numbers_of_the_linear_cell():
    wrong = (
        Fields(cell=Fields(Wi=3.0, Wh=38.0, b=1.0), state=...),
        Fields(cell=Fields(Wi=14.0, Wh=104.0, b=6.0), state=...),
        Fields(cell=..., state=20.0),
    )
    three_ways(
        lambda: (RuledRecur(LinearCell(5.0, 4.0, 0.0), 7.0),),
        loop,
        (RIGHT,),
        never=tuple((w,) for w in wrong),
    )


def test_the_rule_gives_the_numbers_of_the_linear_cell_over_arrays(xp):
    def model():
        values = (xp.asarray([[value]]) for value in (5.0, 4.0, 0.0, 0.0, 7.0))
        *weights, state = values
        return (RuledRecur(LinearCell(*weights), state),)

    full = Fields(cell=Fields(Wi=[[11.0]], Wh=[[66.0]], b=[[5.0]]), state=[[16.0]])
    three_ways(model, lambda m: np.sum(loop(m)), (full,))


@pytest.mark.parametrize("steps", [1, 2, 3, 10, 50])
def test_the_rule_gives_the_numbers_of_the_unruled_code_for_any_number_of_steps(steps, xp):
    rng = np.random.default_rng(steps)
    Wi, Wh, b, state0, state = (
        xp.asarray(0.5 * rng.normal(size=shape)) for shape in ((3, 2), (3, 3), (3, 1), (3, 1), (3, 1))
    )
    xs = [xp.asarray(rng.normal(size=(2, 4))) for _ in range(steps)]

    def loss(m, xs):
        total = 0.0
        for x in xs:
            total = total + np.sum(m(x) ** 2)
        return total + np.sum(m.state)

    ruled, dxs = mt.grad(loss, argnums=(0, 1))(RuledRecur(TanhCell(Wi, Wh, b, state0), state), xs)
    unruled, expected_dxs = mt.grad(loss, argnums=(0, 1))(Recur(TanhCell(Wi, Wh, b, state0), state), xs)
    for name in ("Wi", "Wh", "b"):
        np.testing.assert_allclose(
            getattr(ruled.cell, name), getattr(unruled.cell, name), rtol=1e-10, atol=1e-12
        )
    np.testing.assert_allclose(ruled.state, unruled.state, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(dxs, expected_dxs, rtol=1e-10, atol=1e-12)
    if steps <= 3:
        three_ways(lambda: (RuledRecur(TanhCell(Wi, Wh, b, state0), state), xs), loss, NUMERICAL)


def test_the_rule_with_a_reset_inside_the_loss():
    def loss(m):
        m.state = m.cell.state0
        return loop(m)

    three_ways(
        lambda: (RuledRecur(LinearCell(5.0, 4.0, 0.0, state0=7.0), 99.0),),
        loss,
        (Fields(cell=Fields(Wi=11.0, Wh=66.0, b=5.0, state0=16.0)),),
    )


def tanh_model(Wi, Wh, xp, dtype=np.float64):
    arrays = (np.full((3, 2), Wi), np.full((3, 3), Wh), np.zeros((3, 1)), np.zeros((3, 1)), np.zeros((3, 1)))
    *weights, state = (xp.asarray(array, dtype) for array in arrays)
    return RuledRecur(TanhCell(*weights), state)


def column(value):
    return np.full((3, 1), value)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_rule_over_two_columns(dtype, xp):
    rows = np.tile([0.0027782, 0.0082363], (3, 1))
    three_ways(
        lambda: (tanh_model(1.0, 1.0, xp, dtype), xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype)),
        over_time,
        (
            Fields(cell=Fields(Wi=rows, Wh=np.zeros((3, 3)), b=column(0.0027290)), state=column(0.0081871)),
            ...,
        ),
        rtol=2e-4,
        atol=1e-7,
    )


def test_the_rule_over_a_saturated_sequence(xp):
    x = np.arange(1.0, 25.0).reshape(2, 3, 4, order="F")
    rows = np.tile([0.0196545, 0.0392956], (3, 1))
    three_ways(
        lambda: (tanh_model(1.0, 1.0, xp), xp.asarray(x)),
        over_time,
        (
            Fields(cell=Fields(Wi=rows, Wh=np.zeros((3, 3)), b=column(0.0196411)), state=column(0.0589234)),
            ...,
        ),
        rtol=1e-5,
        atol=1e-7,
    )


def test_the_rule_over_an_unsaturated_sequence(xp):
    x = np.arange(1.0, 25.0).reshape(2, 3, 4, order="F") / 24
    three_ways(
        lambda: (tanh_model(0.1, 0.2, xp), xp.asarray(x)),
        over_time,
        (
            Fields(
                cell=Fields(
                    Wi=np.tile([3.44662196, 3.71652890], (3, 1)),
                    Wh=np.full((3, 3), 0.53772779),
                    b=column(6.47776645),
                ),
                state=column(0.73046552),
            ),
            ...,
        ),
        rtol=1e-7,
        atol=1e-8,
    )


def test_a_loss_that_reads_only_the_state_a_call_left(xp):
    def loss(m):
        m(2.0)
        m(3.0)
        return m.state

    three_ways(lambda: (RuledRecur(LinearCell(5.0, 4.0, 0.0), 7.0),), loss, (RIGHT,))


def test_a_loss_that_reads_only_the_output_of_the_first_of_two_calls():
    def loss(m):
        y = m(2.0)
        m(3.0)
        return y * 1.0

    three_ways(
        lambda: (RuledRecur(LinearCell(5.0, 4.0, 0.0), 7.0),),
        loss,
        (Fields(cell=Fields(Wi=2.0, Wh=7.0, b=1.0), state=4.0),),
    )


def test_two_ruled_objects_that_share_a_cell():
    def shared():
        cell = LinearCell(5.0, 4.0, 0.0)
        return RuledRecur(cell, 7.0), RuledRecur(cell, 7.0)

    twice = Fields(cell=Fields(Wi=22.0, Wh=132.0, b=10.0), state=16.0)
    three_ways(shared, lambda m, n: loop(m) + loop(n), (twice, twice))


def test_a_ruled_object_among_unruled_ones():
    def mixed():
        cell = LinearCell(0.5, 0.9, 0.1)
        return Recur(cell, 0.7), RuledRecur(cell, -0.2)

    def loss(m, n):
        for x in (1.0, -0.5, 2.0):
            y = n(m(x))
            m.state = m.state + 0.1 * n.state
        return y * m.state

    three_ways(mixed, loss, NUMERICAL)


def test_a_closure_finds_the_same_numbers_through_the_rule():
    m = RuledRecur(LinearCell(5.0, 4.0, 0.0), 7.0)
    three_ways(lambda: (), lambda: loop(m), (), reaches=(m,), expected_reached=(RIGHT,))


def test_a_rule_that_declines_leaves_the_call_to_unruled_code(xp):
    @mt.differentiable
    class Net:
        w: np.ndarray
        state: np.ndarray

        @mt.primitive
        def __call__(self, x):
            self.state = self.w * x + self.state
            return self.state * 2

        @__call__.rrule
        def __call__(self, x):
            CALLS.append(self)
            if np.ndim(x) == 3:
                return NotImplemented
            raise AssertionError("this test has only declined arguments")

    x = np.arange(8.0).reshape(2, 2, 2)
    three_ways(
        lambda: (Net(xp.asarray([2.0]), xp.asarray([1.0])), xp.asarray(x)),
        lambda m, x: np.sum(m(x)) + np.sum(m(x)),
        NUMERICAL,
    )


def test_a_rule_that_forgets_written_is_an_error_at_the_call_that_names_the_field():
    @mt.differentiable
    class Forgetful:
        cell: object
        state: object

        @mt.primitive
        def __call__(self, x):
            self.state, y = self.cell(self.state, x)
            return y

        @__call__.rrule
        def __call__(self, x):
            CALLS.append(self)
            (self.state, y), back = mt.vjp(lambda cell, h, x: cell(h, x), self.cell, self.state, x)

            def forgetful_pullback(y_bar):
                dcell, dh, dx = back((0.0, y_bar))
                return mt.Tangent(Forgetful, cell=dcell, state=dh), dx

            return y, forgetful_pullback

    m = Forgetful(LinearCell(5.0, 4.0, 0.0), 7.0)
    reached = []

    def loss(m):
        m(2.0)
        reached.append("after the call")
        return m(3.0)

    for _ in range(3):
        with pytest.raises(mt.RuleError, match=r"Forgetful(.|\n)*state(.|\n)*written"):
            mt.grad(loss)(m)
        assert m.state == 7.0
    assert reached == []


def test_the_second_derivative_goes_through_the_rule():
    def slope(kind):
        def loss(w):
            m = kind(LinearCell(5.0, w, 0.0), 7.0)
            return loop(m) ** 2

        return mt.grad(mt.grad(loss))(4.0)

    # h2 = 10w + 7w² + 15, so (h2²)'' = 2 (10 + 14w)² + 2 h2 14.
    assert slope(Recur) == pytest.approx(2 * 66.0**2 + 28 * 167.0)
    assert slope(RuledRecur) == pytest.approx(2 * 66.0**2 + 28 * 167.0)
