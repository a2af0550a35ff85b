"""Methods of ufuncs: the same numbers as NumPy's own, and right derivatives."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mutangent as mt
from mutangent._apply import apply
from mutangent._rulebook import rule
from mutangent.testing import check_grads

_m = np.array([[0.93, 1.71, 0.44, 2.27], [1.31, 0.62, 2.93, 1.19], [0.77, 2.41, 1.64, 0.86]])
_some = np.array([[True, False, True, True], [False, True, True, True], [True, True, True, False]])


def is_traced(x: Any) -> bool:
    return type(x) is mt.TracedArray


def dispatches() -> bool:
    """Whether the methods of traced values look their rows up."""
    try:
        mt.grad(np.logaddexp.reduce)(np.ones(2))
    except mt.NoRuleError:
        return False
    return True


def method(ufunc: Any, name: str, **settings: Any) -> Callable[..., Any]:
    """Return the method with settings, by its row where an operand is traced."""
    bound = getattr(ufunc, name)

    def call(*operands: Any) -> Any:
        if any(map(is_traced, operands)) and not dispatches():
            return apply(rule(bound), operands, settings)
        return bound(*operands, **settings)

    return call


BINARY = (
    *(np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum, np.fmax, np.fmin, np.hypot),
    *(np.logaddexp, np.logaddexp2, np.remainder, np.fmod, np.copysign),
)
OUT_OF_ORDER = (np.power, np.float_power, np.arctan2)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
@pytest.mark.parametrize("settings", [{}, {"axis": -1}, {"axis": 1, "keepdims": True}])
def test_reduce(ufunc, settings):
    check_grads(method(ufunc, "reduce", **settings), (_m,), order=1)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.logaddexp, np.hypot], ids=str)
def test_reduce_with_initial_and_where(ufunc):
    check_grads(method(ufunc, "reduce", axis=1, initial=0.5), (_m,), order=1)
    check_grads(method(ufunc, "reduce", axis=(0, 1), initial=0.5, where=_some), (_m,), order=1)


@pytest.mark.parametrize("ufunc", BINARY, ids=lambda ufunc: ufunc.__name__)
def test_reduceat(ufunc):
    check_grads(lambda x: method(ufunc, "reduceat")(x, [0, 2, 1]), (_m,), order=1)
    check_grads(lambda x: method(ufunc, "reduceat", axis=1)(x, np.array([1, 3, 3])), (_m,), order=1)


@pytest.mark.parametrize("ufunc", [*BINARY, *OUT_OF_ORDER], ids=lambda ufunc: ufunc.__name__)
def test_accumulate(ufunc):
    check_grads(method(ufunc, "accumulate"), (_m,), order=1)
    check_grads(method(ufunc, "accumulate", axis=1), (_m,), order=1)


@pytest.mark.parametrize("ufunc", [*BINARY, *OUT_OF_ORDER], ids=lambda ufunc: ufunc.__name__)
def test_outer(ufunc):
    check_grads(method(ufunc, "outer"), (_m, _m[0] + 0.1234), order=1)
    check_grads(lambda y: method(ufunc, "outer")(1.5, y), (_m + 0.1234,), order=1)


def test_the_largest_exponent_does_not_overflow():
    call = method(np.logaddexp, "reduce")
    np.testing.assert_array_equal(mt.grad(call)(np.array([1000.0, 1000.0])), [0.5, 0.5])
    np.testing.assert_array_equal(mt.grad(call)(np.array([-np.inf, -np.inf])), [0, 0])
    np.testing.assert_array_equal(mt.grad(call)(np.array([-np.inf, 3.0])), [0, 1])


def test_a_comparison_of_all_pairs_is_constant():
    def loss(x: Any) -> Any:
        found = method(np.less, "outer")(x, x)
        assert type(found) is np.ndarray
        return np.sum(np.where(found, x, 0.0))

    np.testing.assert_array_equal(mt.grad(loss)(np.array([1.0, 3.0, 2.0])), [0, 2, 1])
