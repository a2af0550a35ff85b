"""Who takes part. A contender is one module of this folder, listed in `LIBRARIES` and in a company.

It has ``NAME``, what the tables call it, and one function for each kind of workload: ``rnn``, ``lstm``,
``gru`` and ``mlp``. The function takes the arrays of `make_arrays` by name and prepares what its library wants
(models, compiled functions; this is not timed). It returns a function of no arguments, the one that is timed,
which gives the value and the gradient of every array by the same names, both finished: a library that computes
asynchronously waits for them.
"""

from collections.abc import Callable, Mapping
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from benchmarks.workloads import Workload, make_arrays

# The library that a contender needs; those that are not installed do not take part.
LIBRARIES = {
    "numpy_naive": "numpy",
    "numpy_smart": "numpy",
    "hips_autograd": "autograd",
    "mygrad_tensor": "mygrad",
    "torch_eager": "torch",
    "torch_nn": "torch",
    "jax_scan": "jax",
    "mutangent_eager": "mutangent",
}
# Who shares a process. Importing torch changes how the process allocates memory, and halves the speed of JAX's small
# programs; so JAX has a process of its own, and in one there is nobody but us and NumPy.
BARE, PEERS, JAX = "bare", "peers", "jax"
_NUMPY_AND_US = ("numpy_naive", "numpy_smart", "mutangent_eager")
_COMPANIES = {
    PEERS: ("hips_autograd", "mygrad_tensor", "torch_eager", "torch_nn"),
    JAX: ("jax_scan",),
    BARE: (),
}

OURS = "mutangent"
UNIT = "numpy naive"
REFERENCE = "numpy_smart"  # in float64, this one says what is right

Run = Callable[[], tuple[Any, Mapping[str, Any]]]


def is_installed(contender: str) -> bool:
    return find_spec(LIBRARIES[contender]) is not None


def companies() -> dict[str, tuple[str, ...]]:
    """Give the companies that have somebody besides us and NumPy, and the bare one; each with its contenders."""
    installed = {name: tuple(filter(is_installed, members)) for name, members in _COMPANIES.items()}
    return {
        name: (*_NUMPY_AND_US[:2], *members, *_NUMPY_AND_US[2:])
        for name, members in installed.items()
        if members or name == BARE
    }


def prepare(
    contender: str,
    workload: Workload,
    dtype: type = np.float32,
    convert: Callable[[np.ndarray], Any] = np.asarray,
) -> tuple[str, Run]:
    """Give the name of the contender in module `contender` and its function to time, over converted arrays."""
    module = import_module(f"{__name__}.{contender}")
    arrays = {name: convert(array) for name, array in make_arrays(workload, dtype).items()}
    return module.NAME, getattr(module, workload.kind)(**arrays)
