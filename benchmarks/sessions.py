"""One process for each company of contenders, which checks and times them there."""

import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

from benchmarks.checking import mistakes
from benchmarks.contenders import JAX, LIBRARIES, Run, prepare
from benchmarks.timing import Timing, one_thread, time_interleaved
from benchmarks.workloads import Workload


@contextmanager
def session(start: Callable[..., None], *arguments: Any) -> Iterator[Callable[..., Any]]:
    """Start a process with ``start(*arguments)``.

    Gives ``call(function, *arguments)``, which runs the function there and waits for what it returns.
    """
    with ProcessPoolExecutor(1, get_context("spawn"), initializer=start, initargs=arguments) as process:
        yield lambda function, *arguments: process.submit(function, *arguments).result()


def start_on_cpu(company: str, contenders: tuple[str, ...]) -> None:
    """Import the libraries of these contenders, each with one thread."""
    if company == JAX:
        # This flag leaves some of XLA's threads; it makes as many as there are cores. So we take the other cores away,
        # where the system lets us, from JAX and from those that are compared with it.
        os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false"
        os.environ["JAX_PLATFORMS"] = "cpu"
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    for contender in contenders:
        import_module(LIBRARIES[contender])
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


def check(workload: Workload, contenders: tuple[str, ...]) -> list[str]:
    """Say in a line each what is wrong with the value and the gradients of these contenders."""
    with one_thread():
        return _right_ones(workload, contenders)[0]


def measure(
    workload: Workload, contenders: tuple[str, ...], seconds: float, least_rounds: int
) -> tuple[list[str], dict[str, Timing]]:
    """Check every contender, then time those that are right; the complaints, and the timings by name."""
    with one_thread():
        complaints, runs = _right_ones(workload, contenders)
        return complaints, time_interleaved(runs, seconds, least_rounds)


def _right_ones(workload: Workload, contenders: tuple[str, ...]) -> tuple[list[str], dict[str, Run]]:
    runs = dict(prepare(contender, workload) for contender in contenders)
    wrong = {name: found for name, run in runs.items() if (found := mistakes(workload, name, run))}
    return [line for lines in wrong.values() for line in lines], {
        name: run for name, run in runs.items() if name not in wrong
    }
