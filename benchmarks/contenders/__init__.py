"""Who takes part. A contender is one module of this folder, listed in `CONTENDERS`.

It has ``NAME``, what the tables call it, and one function for each kind of workload: ``rnn``, ``lstm``,
``gru`` and ``mlp``. The function takes the arrays of `make_arrays` by name and prepares what its library wants
(models, compiled functions; this is not timed). It returns a function of no arguments, the one that is timed,
which gives the value and the gradient of every array by the same names, both finished: a library that computes
asynchronously waits for them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from benchmarks.workloads import Workload, make_arrays

CONTENDERS = ("numpy_naive", "numpy_smart", "mutangent_eager")
UNIT = "numpy naive"  # ratios are taken to this one
REFERENCE = "numpy_smart"  # in float64, this one says what is right

Run = Callable[[], tuple[Any, Mapping[str, Any]]]


def prepare(contender: str, workload: Workload, dtype: type = np.float32) -> tuple[str, Run]:
    """Give the name of the contender in module `contender` and its function to time."""
    module = import_module(f"{__name__}.{contender}")
    return module.NAME, getattr(module, workload.kind)(**make_arrays(workload, dtype))
