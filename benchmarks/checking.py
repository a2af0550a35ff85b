"""Is what a contender computes right? Nothing is timed that is not."""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from benchmarks.contenders import REFERENCE, Run, prepare
from benchmarks.workloads import Workload

TOLERANCE = 1e-5


def relative_errors(workload: Workload, run: Run) -> dict[str, float]:
    """Compare one run with the reference in double precision.

    Returns
    -------
    dict
        For ``"value"`` and the name of each array, the largest difference over the largest magnitude of what
        is right. It is infinite where the shape or the precision is not that of the array, or the gradient is
        missing.
    """
    right_value, right = _reference(workload)
    value, gradients = run()
    errors = {"value": abs(float(value) - right_value) / abs(right_value)}
    for name in right.keys() | gradients.keys():
        errors[name] = _relative_error(gradients.get(name), right[name])
    return errors


@lru_cache(maxsize=1)  # all contenders of one workload are checked in a row
def _reference(workload: Workload) -> tuple[Any, Mapping[str, np.ndarray]]:
    _, reference = prepare(REFERENCE, workload, np.float64)
    return reference()


def _relative_error(gradient: Any, right: np.ndarray) -> float:
    array = np.asarray(gradient)
    if array.shape != right.shape or array.dtype != np.float32:
        return np.inf
    return float(np.max(np.abs(array - right)) / np.max(np.abs(right)))


def mistakes(workload: Workload, name: str, run: Run) -> list[str]:
    """Say in a line each what is wrong with the contender called `name`: an empty list where nothing is."""
    return [
        f"{workload.name} {name}: relative error of {what} is {error:.1e}, allowed is {TOLERANCE:.0e}"
        for what, error in sorted(relative_errors(workload, run).items())
        if not error < TOLERANCE  # a NaN is a mistake too
    ]
