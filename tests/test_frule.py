"""Rules for forward mode alone, and what happens without one."""

import numpy as np
import pytest

import mutangent as mt


def test_a_forward_rule_gives_value_and_tangent_and_is_used_in_forward_mode_only():
    calls = []

    @mt.primitive
    def square(x):
        return x * x

    @square.frule
    def square_frule(primals, tangents):
        calls.append("fwd")
        (x,), (x_dot,) = primals, tangents
        return x * x, 2 * x * x_dot

    @square.rrule
    def square_rrule(x):
        calls.append("rev")
        return x * x, lambda y_bar: (2 * x * y_bar,)

    x = np.array([1.0, 3.0])
    out, out_dot = mt.jvp(lambda x: np.sum(square(x) * x), (x,), (np.ones(2),))
    assert out == 28.0
    assert out_dot == 30.0
    assert calls == ["fwd"]
    np.testing.assert_array_equal(mt.grad(lambda x: np.sum(square(x) * x))(x), [3.0, 27.0])
    assert calls == ["fwd", "rev"]


def test_several_results_and_arguments_without_a_tangent():
    @mt.primitive
    def both(x, y, n):
        return x * y, n

    @both.frule
    def both_frule(primals, tangents):
        (x, y, n), (x_dot, y_dot, n_dot) = primals, tangents
        assert isinstance(y_dot, mt.ZeroTangent)
        assert isinstance(n_dot, mt.NoTangent)
        return (x * y, n), (x_dot * y, mt.NoTangent())

    out, out_dot = mt.jvp(lambda x: both(x, 4.0, 2)[0] * both(x, 4.0, 2)[1], (3.0,), (1.0,))
    assert (out, out_dot) == (24.0, 8.0)


def test_a_tangent_of_another_shape_is_refused_by_name():
    @mt.primitive
    def f(x):
        return x * 2

    @f.frule
    def f_frule(primals, tangents):
        return primals[0] * 2, np.ones(3)

    with pytest.raises(mt.CotangentError, match=r"value of .*f.*shape \(3,\)"):
        mt.jvp(f, (np.ones(2),), (np.ones(2),))


def test_a_result_that_is_no_pair_is_refused():
    @mt.primitive
    def f(x):
        return x * 2

    f.frule(lambda primals, tangents: primals[0] * 2)
    with pytest.raises(mt.RuleError, match=r"pair \(value, tangent\)"):
        mt.jvp(f, (np.ones(2),), (np.ones(2),))


def test_without_a_forward_rule_the_reverse_one_is_transposed():
    @mt.primitive
    def cube(x):
        return x**3

    @cube.rrule
    def cube_rrule(x):
        return x**3, lambda y_bar: (3 * x**2 * y_bar,)

    out, out_dot = mt.jvp(lambda x: np.sum(cube(x)), (np.array([1.0, 2.0]),), (np.array([1.0, 0.5]),))
    assert (out, out_dot) == (9.0, 9.0)
    with pytest.raises(mt.NoRuleError, match="rrule"):
        mt.jvp(mt.primitive(lambda x: x), (1.0,), (1.0,))


def test_second_derivatives_go_through_a_forward_rule_too():
    @mt.primitive
    def sine(x):
        return np.sin(x)

    sine.frule(lambda primals, tangents: (np.sin(primals[0]), np.cos(primals[0]) * tangents[0]))
    slope = mt.grad(lambda x: mt.jvp(sine, (x,), (1.0,))[1])(0.3)
    assert slope == pytest.approx(-np.sin(0.3))
