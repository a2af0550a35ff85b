"""What `check_rrule` accepts, what it refuses, and what it leaves alone."""

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_rrule


def test_rules_of_the_package_pass(rng):
    a, b = rng.normal(size=(3, 2)), rng.normal(size=(2, 4))
    check_rrule(np.matmul, a, b)
    check_rrule(np.tanh, a.astype(np.float32))
    check_rrule(np.sum, a, 1)
    check_rrule(np.multiply, a, 2.0)
    check_rrule(np.floor, a)


@mt.primitive
def scaled(x, factor, name):
    return {"y": x["a"] * factor, "all": [x["a"], np.sum(x["b"])]}


@scaled.rrule
def scaled_rule(x, factor, name):
    a, b = x["a"], x["b"]

    def scaled_pullback(g):
        first, second = g["all"]
        return (
            {"a": g["y"] * factor + first, "b": second * np.ones_like(b)},
            np.sum(g["y"] * a),
            mt.NoTangent(),
        )

    return {"y": a * factor, "all": [a, np.sum(b)]}, scaled_pullback


def test_containers_and_arguments_without_tangent_space_pass():
    check_rrule(scaled, {"a": np.array([1.0, 2.0]), "b": np.array([3.0])}, 0.5, "name")


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_0_d_array_may_get_a_scalar_for_its_tangent(dtype):
    double = mt.primitive(lambda x: x * dtype(2))
    double.rrule(lambda x: (x * dtype(2), lambda g: (g * dtype(2),)))
    check_rrule(double, np.array(1.5, dtype))
    check_rrule(double, dtype(1.5))


def test_the_tangent_of_a_python_number_may_have_the_dtype_of_the_arrays_it_met():
    scale = mt.primitive(lambda x, s: x * s)
    scale.rrule(lambda x, s: (x * s, lambda g: (g * s, np.sum(g * x))))
    check_rrule(scale, np.array([1.0, 2.0], np.float32), 0.5)


def test_the_checked_primitive_keeps_its_own_rule():
    seen = []
    double = mt.primitive(lambda x: 2 * x)

    @double.rrule
    def double_rule(x):
        seen.append(x)
        return 2 * x, lambda g: (2 * g,)

    check_rrule(double, 1.5)
    seen.clear()
    assert mt.grad(double)(2.0) == 2.0
    assert seen == [2.0]


def test_a_primitive_without_a_rule_is_refused():
    with pytest.raises(mt.NoRuleError, match="without a rule"):
        check_rrule(mt.primitive(lambda x: x), 1.0)


def test_a_numpy_function_without_a_rule_is_refused():
    with pytest.raises(mt.NoRuleError, match="no derivative rule"):
        check_rrule(np.frompyfunc(lambda x: x, 1, 1), 1.0)


def test_a_function_that_is_no_primitive_is_refused():
    with pytest.raises(TypeError, match="use check_grads"):
        check_rrule(lambda x: x, 1.0)


def test_a_rule_that_declines_leaves_nothing_to_check():
    f = mt.primitive(lambda x: x * 2)
    f.rrule(lambda x: NotImplemented)
    with pytest.raises(ValueError, match="declines these arguments"):
        check_rrule(f, 1.0)


def test_a_rule_that_returns_no_pair_is_the_library_s_own_error():
    f = mt.primitive(lambda x: x * 2)
    f.rrule(lambda x: x * 2)
    with pytest.raises(mt.RuleError, match=r"pair \(value, pullback\)"):
        check_rrule(f, 1.0)


def half_with(pullback):
    """A ufunc with a rule by `mutangent.rrule`."""
    half = np.frompyfunc(lambda x: x / 2, 1, 1)
    mt.rrule(half)(lambda x: (np.asarray(half(x), float), pullback))
    return half


def test_a_user_s_rule_for_a_ufunc_is_checked():
    # A ufunc of Python objects gives object arrays, which are no differentiable numbers.
    double = np.frompyfunc(lambda x: x / 2, 1, 1)
    assert double(np.ones(2)).dtype == object
    for pullback, words in (
        (lambda g: g / 2, "for 1 arguments"),
        (lambda g: (g / 2, g), "returned 2 tangents for 1 arguments"),
        (lambda g: (np.sum(g),), r"args\[0\] is .*\(2,\).* returned"),
    ):
        with pytest.raises(AssertionError, match=words):
            check_rrule(half_with(pullback), np.array([1.0, 3.0]))
