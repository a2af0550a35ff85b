"""A judge of the rules besides finite differences: PyTorch, on the sample inputs of its own test suite.

Needs the extra `oracle`. Each entry of `calls` is one test.
"""

import importlib.util

import pytest

from .calls import CALLS
from .comparison import compare
from .differences import DIFFERENCES, NO_RULE

if any(importlib.util.find_spec(name) is None for name in ("torch", "expecttest")):
    pytest.skip("PyTorch's database needs the extra `oracle`", allow_module_level=True)


@pytest.mark.parametrize("name", CALLS)
def test_pytorch_gives_the_same_values_and_gradients(name):
    outcomes = compare(name)
    assert outcomes
    problems = [
        f"{outcome.sample}: {outcome.problem}"
        for outcome in outcomes
        if outcome.problem and not (outcome.refused and name in NO_RULE)
    ]
    listed = DIFFERENCES[name].samples if name in DIFFERENCES else 0
    assert len(problems) == listed, "\n".join(
        [f"{len(problems)} of {len(outcomes)} samples of {name} differ, {listed} are explained:", *problems]
    )


def test_each_explained_difference_is_of_an_entry_that_is_compared():
    assert set(DIFFERENCES) | NO_RULE <= set(CALLS)


def test_ten_thousand_samples_agree():
    assert sum(outcome.problem is None for name in CALLS for outcome in compare(name)) >= 10_000
