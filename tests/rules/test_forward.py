"""Every rule in forward mode: the row, or the transpose of its pullback, against differences and against reverse mode.

`check_grads` compares both modes, and at order 2 each over each. What it cannot see is here too: that all operands but
one may be constants, that a flag says the truth, and that numbers keep their dtype on the way.
"""

from typing import Any

import numpy as np
import pytest

import mutangent as mt
from mutangent._apply import apply
from mutangent._rulebook import Rule, rule, rules
from mutangent.testing import check_grads
from tests.rules.test_derivatives import all_samples, numpy_rules

every_sample = pytest.mark.parametrize("sample", all_samples())


def tangents_of(rng: np.random.Generator, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    """Return random tangents, of the dtypes of the operands."""
    made = []
    for x in operands:
        t = rng.normal(size=np.shape(x)) + (1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else 0)
        made.append(np.asarray(t, np.asarray(x).dtype)[()])
    return tuple(made)


def results_of(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


@every_sample
def test_forward_mode_agrees_with_differences_and_with_reverse_mode(sample):
    check_grads(sample.call, sample.operands, sample.order, modes=("rev", "fwd"))


# NumPy asks only the first operand of `full_like` for its rule, so the other cannot be traced alone.
@pytest.mark.parametrize("sample", [each for each in all_samples() if not each.id.startswith("full_like")])
def test_the_tangents_of_the_operands_add_up(sample, rng):
    # One operand at a time, so that each row is used alone and the others are constants.
    tangents = tangents_of(rng, sample.operands)
    out, together = mt.jvp(sample.call, sample.operands, tangents)
    parts = []
    for k in range(len(tangents)):

        def of_one(x: Any, k: int = k) -> Any:
            return sample.call(*sample.operands[:k], x, *sample.operands[k + 1 :])

        parts.append(results_of(mt.jvp(of_one, (sample.operands[k],), (tangents[k],))[1]))
    for number, (y, dot) in enumerate(zip(results_of(out), results_of(together), strict=True)):
        if isinstance(dot, mt.NoTangent):
            assert np.asarray(y).dtype.kind not in "fc"
        else:
            expected = sum([part[number] for part in parts], 0.0)
            np.testing.assert_allclose(dot, expected, rtol=1e-9, atol=1e-9)


@every_sample
def test_tangents_have_the_type_shape_and_dtype_of_the_results(sample, rng):
    for narrow in (False, True):
        operands = sample.operands
        if narrow:
            operands = tuple(
                [np.asarray(x, np.complex64 if np.iscomplexobj(x) else np.float32)[()] for x in operands]
            )
        plain = results_of(sample.call(*operands))
        out, dots = mt.jvp(sample.call, operands, tangents_of(rng, operands))
        for expected, y, dot in zip(plain, results_of(out), results_of(dots), strict=True):
            if not isinstance(dot, mt.NoTangent):
                assert type(y) is type(expected)
                assert type(dot) is type(expected)
                assert (dot.shape, dot.dtype) == (expected.shape, expected.dtype)


def linear_rows() -> list[Any]:
    return [pytest.param(row, id=row.name) for row in numpy_rules() if row.linear]


@pytest.mark.parametrize("row", linear_rows())
def test_only_functions_call_themselves_linear(row):
    assert row.kind == "function"


def wrong(row: Rule) -> list[str]:
    """Return the samples of a row that do not pass."""
    failed = []
    for parameter in all_samples():
        if parameter.id.rpartition("-")[0] == row.name:
            sample = parameter.values[0]
            try:
                check_grads(sample.call, sample.operands, order=1)
            except Exception:  # noqa: BLE001 - what a wrong row does is not known
                failed.append(parameter.id)
    return failed


@pytest.mark.parametrize(
    "function", [np.prod, np.cumprod, np.linalg.det, np.linalg.inv, np.max, np.sort, np.std]
)
def test_a_row_that_is_not_linear_and_says_so_fails(function, monkeypatch):
    row = rule(function)
    if row.kind != "function":
        pytest.skip("is written with other functions")
    assert wrong(row) == []
    row.linear = True
    try:
        failed = wrong(row)
    finally:
        row.linear = False
    # np.max and np.sort of tangents select other elements than those of the values.
    assert failed != []


@pytest.mark.parametrize("function", [np.sum, np.matmul, np.reshape, np.transpose, np.concatenate])
def test_a_linear_row_is_right_without_the_flag_too(function):
    # Then the pullback is transposed, which must be the function itself.
    row = rule(function)
    assert row.linear
    row.linear = False
    try:
        assert wrong(row) == []
    finally:
        row.linear = True


def test_a_row_for_two_modes_is_one_row():
    # The same expression: nothing in a row speaks of a mode.
    def cubed(x: Any) -> Any:
        return x**3

    from mutangent import _rulebook

    def call(x: Any) -> Any:
        return apply(rule(cubed), (x,), {}) if type(x) is mt.TracedArray else cubed(x)

    _rulebook.elementwise(cubed, lambda t, _y, x: 3 * x * x * t)
    try:
        check_grads(call, (np.array([0.5, -1.5]),), order=3)
    finally:
        del _rulebook._rules[cubed]
    assert cubed not in {row.function for row in rules()}
