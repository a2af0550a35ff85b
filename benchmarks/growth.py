"""Is time linear? In the number of steps, of objects, and of entries of a parameter."""

from collections.abc import Callable
from time import perf_counter, process_time
from typing import Any

import numpy as np

import mutangent as mt
from benchmarks.contenders import mutangent_eager
from benchmarks.workloads import Workload, make_arrays

ENOUGH = 0.5  # seconds for one number
STEPS = (100, 1000, 10_000, 100_000)
OBJECTS = (10, 100, 1000, 10_000)
ENTRIES = (1000, 10_000, 100_000, 1_000_000)

Series = dict[str, float]  # by size, which JSON wants as text


@mt.differentiable
class Unit:
    w: Any


@mt.differentiable
class Population:
    units: list[Unit]


def growth() -> dict[str, Series]:
    """Give the microseconds of a gradient for one step and for one object, and ns for one entry, as their number grows."""
    return {
        "µs per step": {str(n): 1e6 * _seconds(_steps(n)) / n for n in STEPS},
        "µs per object": {str(n): 1e6 * _seconds(_objects(n)) / n for n in OBJECTS},
        "ns per entry": {str(n): 1e9 * _seconds(_entries(n)) / n for n in ENTRIES},
    }


def _steps(number: int) -> Callable[[], Any]:
    return mutangent_eager.rnn(**make_arrays(Workload("", "rnn", (8, 8), 1, number, "")))


def _objects(number: int) -> Callable[[], Any]:
    population = Population([Unit(np.full(8, 0.5, np.float32)) for _ in range(number)])
    gradient = mt.value_and_grad(lambda population: sum(np.sum(unit.w**2) for unit in population.units))
    return lambda: gradient(population)


def _entries(number: int) -> Callable[[], Any]:
    unit = Unit(np.full(number, 0.5, np.float32))
    gradient = mt.value_and_grad(lambda unit: np.sum(np.tanh(unit.w) * unit.w))
    return lambda: gradient(unit)


def _seconds(run: Callable[[], Any]) -> float:
    """Give the least of the processor's time among the runs that fit into half a second, one at least."""
    taken, end = [], perf_counter() + ENOUGH
    while not taken or perf_counter() < end:
        start = process_time()
        run()
        taken.append(process_time() - start)
    return min(taken)
