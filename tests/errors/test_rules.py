"""Users' rules that break their contract: named, at the call or in the sweep, with what the contract is."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Cell:
    w: object
    state: object = 0.0
    trace: object = 0.0

    @mt.primitive
    def step(self, x):
        self.state = self.w * self.state + x
        return self.state

    @step.rrule
    def step(self, x):
        self.state = self.w * self.state + x
        w = self.w

        def forgetful(y_bar):
            return mt.Tangent(Cell, w=0.0, state=w * y_bar), y_bar

        return self.state, forgetful


def test_a_rule_that_forgets_written_is_an_error_at_the_call(xp):
    cell = Cell(xp.asarray([2.0]), xp.asarray([3.0]))
    w, state = cell.w, cell.state
    lines = []

    def loss(c):
        c.trace = 1.0
        lines.append("before")
        y = c.step(1.0)
        lines.append("after")
        return np.sum(y)

    def by_context(f, c):
        with mt.Context():
            f(c)

    for way in (lambda f, c: mt.grad(f)(c), mt.vjp, by_context):
        for _ in range(3):
            with pytest.raises(mt.RuleError, match=r"Cell\.state") as caught:
                way(loss, cell)
            assert isinstance(caught.value, TypeError)
            text = str(caught.value)
            assert "step" in text
            assert "written" in text
            assert "written[self].state" in text or "written[" in text
            assert cell.w is w
            assert cell.state is state
            assert cell.trace == 0.0
    assert "after" not in lines


def test_a_rule_that_writes_two_fields_and_forgets_written_names_a_field():
    @mt.differentiable
    class Two:
        a: float
        b: float

        @mt.primitive
        def step(self):
            self.a, self.b = self.b, self.a
            return self.a

        @step.rrule
        def step(self):
            self.a, self.b = self.b, self.a
            return self.a, lambda y_bar: (mt.Tangent(Two),)

    with pytest.raises(mt.RuleError, match=r"Two\.(a|b)"):
        mt.grad(lambda t: t.step() * 1.0)(Two(1.0, 2.0))


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_pullback_with_the_wrong_number_of_tangents_is_an_error(count, xp):
    @mt.primitive
    def product(a, b):
        return a * b

    @product.rrule
    def product(a, b):
        return a * b, lambda y_bar: (y_bar,) * count

    for _ in range(3):
        with pytest.raises(
            mt.RuleError, match=rf"product(.|\n)*{count}(.|\n)*2 arguments|product(.|\n)*2"
        ) as caught:
            mt.grad(lambda a: np.sum(product(a, 2.0)))(xp.asarray([1.0, 3.0]))
        assert "one tangent per argument" in str(caught.value)


def test_a_pullback_that_returns_no_tuple_is_an_error(xp):
    @mt.primitive
    def double(a):
        return 2 * a

    @double.rrule
    def double(a):
        return 2 * a, lambda y_bar: 2 * y_bar

    with pytest.raises(mt.RuleError, match=r"double(.|\n)*tuple"):
        mt.grad(lambda a: np.sum(double(a)))(xp.asarray([1.0, 3.0]))


def test_a_pullback_with_a_tangent_of_the_wrong_shape_is_an_error_that_names_it(xp):
    @mt.primitive
    def total(a):
        return np.sum(a)

    @total.rrule
    def total(a):
        return np.sum(a), lambda y_bar: (np.ones((2, 3)) * y_bar,)

    with pytest.raises(
        mt.MutangentError, match=r"total(.|\n)*\(2, 3\)(.|\n)*\(2,\)|total(.|\n)*\(2,\)(.|\n)*\(2, 3\)"
    ):
        mt.grad(total)(xp.asarray([1.0, 3.0]))


def test_a_rule_that_returns_no_pair_is_an_error(xp):
    @mt.primitive
    def double(a):
        return 2 * a

    @double.rrule
    def double(a):
        return 2 * a

    with pytest.raises(mt.RuleError, match=r"double(.|\n)*pullback"):
        mt.grad(lambda a: np.sum(double(a)))(xp.asarray([1.0, 3.0]))


def test_a_tangent_of_another_class_is_an_error():
    @mt.differentiable
    class Other:
        w: float

    @mt.differentiable
    class Own:
        w: float

        @mt.primitive
        def double(self):
            return 2 * self.w

        @double.rrule
        def double(self):
            return 2 * self.w, lambda y_bar: (mt.Tangent(Other, w=2 * y_bar),)

    with pytest.raises(mt.MutangentError, match=r"(Own(.|\n)*Other)|(Other(.|\n)*Own)"):
        mt.grad(lambda o: o.double() * 1.0)(Own(3.0))


def test_a_rule_that_raises_comes_through_and_rolls_back():
    @mt.differentiable
    class Box:
        v: float

        @mt.primitive
        def step(self):
            return self.v

        @step.rrule
        def step(self):
            self.v = 5.0
            raise KeyError("in the rule")

    box = Box(1.0)
    for _ in range(3):
        with pytest.raises(KeyError, match="in the rule"):
            mt.grad(lambda b: b.step() * 1.0)(box)
        assert box.v == 1.0
