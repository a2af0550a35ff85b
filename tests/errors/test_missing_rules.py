"""No rule: loud and local, at the call, with the name of the function and the ways to help oneself."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = None


squash = np.frompyfunc(lambda a: a / (1 + abs(a)), 1, 1)


def no_rule(f, box, match):
    v, w = box.v, box.w

    def loss(b):
        b.w = b.v * 2
        return f(b.v)

    def by_context(f, b):
        with mt.Context():
            f(b)

    for way in (lambda f, b: mt.grad(f)(b), mt.vjp, by_context):
        for _ in range(3):
            with pytest.raises(mt.NoRuleError, match=match) as caught:
                way(loss, box)
            assert isinstance(caught.value, NotImplementedError)
            assert isinstance(caught.value, mt.MutangentError)
            assert box.v is v
            assert box.w is w
    return str(caught.value)


def test_a_ufunc_without_a_rule_is_named_with_the_cure(xp):
    text = no_rule(squash, Box(xp.asarray([1.0, 2.0])), r"no (derivative )?rule")
    assert "mutangent.rrule" in text or "mutangent.primitive" in text
    assert "mutangent.stop_gradient" in text or "mutangent.non_differentiable" in text or "primal" in text


def test_a_function_without_a_rule_is_named_with_the_cure(xp):
    text = no_rule(lambda x: np.histogram2d(x, x)[0][0, 0], Box(xp.asarray([1.0, 2.0])), r"histogram2d")
    assert "mutangent.stop_gradient" in text


def test_a_method_without_a_rule_is_named(xp):
    text = no_rule(lambda x: x.byteswap(), Box(xp.asarray([1.0, 2.0])), r"byteswap")
    assert "(2,)" in text
    assert "float64" in text


def test_a_method_of_a_ufunc_without_a_rule_is_named(xp):
    text = no_rule(np.power.reduce, Box(xp.asarray([1.0, 2.0])), r"power.*reduce")
    assert "mutangent" in text


def test_a_missing_rule_is_no_error_where_nothing_is_traced(xp):
    def loss(b):
        constant = squash(xp.asarray([1.0, 2.0])).astype(float)
        return np.sum(b.v * constant) + float(np.roots([1.0, -2.0])[0])

    for _ in range(3):
        np.testing.assert_allclose(mt.grad(loss)(Box(xp.asarray([1.0, 2.0]))).v, [0.5, 2 / 3])


def test_a_missing_rule_is_no_error_for_the_plain_value(xp):
    def loss(b):
        return np.sum(b.v * squash(mt.primal(b.v)).astype(float))

    for _ in range(3):
        np.testing.assert_allclose(mt.grad(loss)(Box(xp.asarray([1.0, 2.0]))).v, [0.5, 2 / 3])


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_an_array_subclass_with_other_operators_is_refused_by_name():
    for odd in (np.ma.masked_array([1.0, 2.0], [True, False]), np.matrix([[1.0, 2.0]])):
        with pytest.raises(TypeError, match=r"MaskedArray|matrix"):
            mt.grad(lambda x, odd=odd: np.sum(x * odd))(np.array([1.0, 2.0]))
        with pytest.raises(TypeError, match=r"MaskedArray|matrix"):
            mt.grad(lambda b: np.sum(b.v * 2.0))(Box(odd))
