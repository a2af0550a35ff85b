"""How long things take, side by side in one process, so that a slow minute is slow for everybody."""

import gc
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import perf_counter, perf_counter_ns
from typing import Any

import attrs

SHORT = 20_000_000  # ns; what is shorter suffers when the caches are full of another contender's data


@attrs.frozen
class Timing:
    """Samples of one item, in microseconds."""

    minimum: float
    median: float
    samples: int


def one_thread() -> AbstractContextManager[Any]:
    """Keep BLAS on one thread while the context is open."""
    try:
        from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
    except ImportError:
        raise SystemExit(
            "the benchmarks pin BLAS to one thread through threadpoolctl, which is not installed: "
            "python -m pip install 'mutangent[bench]'"
        ) from None
    return threadpool_limits(1)


def time_interleaved(
    runs: Mapping[str, Callable[[], Any]], seconds: float, least_rounds: int
) -> dict[str, Timing]:
    """Time every item once in each round, and reverse the order from round to round.

    A short item is called once before each sample without being timed. A long one is timed once before the
    rounds, too. Garbage collection stays on, as it is in users' programs.

    Parameters
    ----------
    runs : mapping
        Functions of no arguments by name.
    seconds : float
        No round starts later than this, once there are `least_rounds`.
    least_rounds : int
    """
    gc.collect()
    # The first call of a short item warms up. All have run before, when they were checked.
    first = {name: _nanoseconds(run) for name, run in runs.items()}
    samples = {name: [] if taken < SHORT else [taken] for name, taken in first.items()}
    order = list(runs)
    rounds, end = 0, perf_counter() + seconds
    while rounds < least_rounds or perf_counter() < end:
        for name in order:
            if first[name] < SHORT:
                runs[name]()
            samples[name].append(_nanoseconds(runs[name]))
        order.reverse()
        rounds += 1
    return {
        name: Timing(min(taken) / 1e3, statistics.median(taken) / 1e3, len(taken))
        for name, taken in samples.items()
    }


def _nanoseconds(run: Callable[[], Any]) -> int:
    start = perf_counter_ns()
    run()  # its result is freed before the clock is read: that is part of the cost
    return perf_counter_ns() - start
