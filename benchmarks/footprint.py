"""What is held and what is loaded: memory of a call, of a recording, and the time to import."""

import gc
import os
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from tempfile import TemporaryDirectory
from typing import Any

import mutangent as mt
from benchmarks.contenders import mutangent_eager, prepare
from benchmarks.timing import one_thread
from benchmarks.workloads import WORKLOADS, make_arrays

MEASURED = ("numpy_naive", "numpy_smart", "mutangent_eager")
REPEATS = 7

_BY_NAME = {workload.name: workload for workload in WORKLOADS}
_IMPORTS = """
from time import process_time
start = process_time()
import numpy, attrs
middle = process_time()
import mutangent
print(1e3 * (middle - start), 1e3 * (process_time() - middle))
"""


def import_times() -> dict[str, float]:
    """Give the processor's milliseconds for importing NumPy and attrs in a new process, and mutangent after them.

    All has been compiled to bytecode by a process before, as it is after an installation.
    """
    runs = []
    with TemporaryDirectory() as compiled:
        environment = os.environ | {"PYTHONPYCACHEPREFIX": compiled}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        for _ in range(REPEATS):
            printed = subprocess.run(  # noqa: S603 - our own text
                [sys.executable, "-c", _IMPORTS], env=environment, capture_output=True, text=True, check=True
            )
            runs.append([float(number) for number in printed.stdout.split()])
    return dict(zip(("numpy and attrs", "mutangent"), map(min, zip(*runs, strict=True)), strict=True))


def peak_memory(workloads: tuple[str, ...] = ("W1", "W2", "W6", "W8")) -> dict[str, dict[str, int]]:
    """Give the bytes that one call holds at most, besides its arguments; by workload and contender.

    NumPy reports its buffers to `tracemalloc`.
    """
    peaks: dict[str, dict[str, int]] = {}
    with one_thread():
        for workload in workloads:
            peaks[workload] = {}
            for contender in MEASURED:
                name, run = prepare(contender, _BY_NAME[workload])
                run()
                peaks[workload][name] = _traced(run)[1]
    return peaks


def held_by_a_recording(workload: str = "W8") -> dict[str, float]:
    """Record the forward run of a workload, and give what is held for each of its steps before any sweep."""
    chosen = _BY_NAME[workload]
    arrays = make_arrays(chosen)
    x = arrays.pop("x")
    model = mutangent_eager.RNN(*arrays.values())
    held: dict[str, float] = {}

    def record() -> None:
        with mt.Context():
            loss = mutangent_eager.loss_of_sequence(model, x)
            gc.collect()
            held["bytes"] = tracemalloc.get_traced_memory()[0] / chosen.steps
            held["allocations"] = len(tracemalloc.take_snapshot().traces) / chosen.steps
            del loss

    _traced(record)
    # A careful person keeps one array for each step: h.
    return held | {"steps": chosen.steps, "bytes of h": arrays["h0"].nbytes}


def _traced(run: Callable[[], Any]) -> tuple[int, int]:
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
