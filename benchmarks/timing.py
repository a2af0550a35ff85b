"""How long things take, side by side in one process, so that a slow minute is slow for everybody."""

import gc
import statistics
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from time import perf_counter, perf_counter_ns, process_time_ns
from typing import Any

import attrs

SHORT = 20_000_000  # ns; what is shorter suffers when the caches are full of another contender's data


@attrs.frozen
class Timing:
    """Samples of one item, in microseconds.

    Attributes
    ----------
    minimum, median : float
        Of what a clock on the wall shows.
    processor : float
        The minimum of the processor's time. Busy neighbours, who make an item wait, hardly change it.
    samples : int
    """

    minimum: float
    median: float
    processor: float
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
    is_short = {name: wall < SHORT for name, (wall, _) in first.items()}
    samples = {name: [] if is_short[name] else [taken] for name, taken in first.items()}
    order = list(runs)
    rounds, end = 0, perf_counter() + seconds
    while rounds < least_rounds or perf_counter() < end:
        for name in order:
            if is_short[name]:
                runs[name]()
            samples[name].append(_nanoseconds(runs[name]))
        order.reverse()
        rounds += 1
    return {name: _summary(taken) for name, taken in samples.items()}


def _nanoseconds(run: Callable[[], Any]) -> tuple[int, int]:
    processor, wall = process_time_ns(), perf_counter_ns()
    run()  # its result is freed before the clock is read: that is part of the cost
    return perf_counter_ns() - wall, process_time_ns() - processor


def _summary(samples: list[tuple[int, int]]) -> Timing:
    walls, processors = zip(*samples, strict=True)
    return Timing(min(walls) / 1e3, statistics.median(walls) / 1e3, min(processors) / 1e3, len(samples))
