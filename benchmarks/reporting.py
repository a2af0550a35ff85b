"""What was measured, as text, JSON or a picture."""

import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import attrs
import numpy as np

from benchmarks.contenders import UNIT
from benchmarks.timing import Timing
from benchmarks.workloads import Workload

HEADING = f"    {'one thread':16}{'minimum':>10}{'median':>10}    ratios to {UNIT}"

Timings = Mapping[str, Timing]  # by contender
Costs = Mapping[str, Mapping[str, float]]


def ratios(timings: Timings, statistic: str = "minimum") -> dict[str, float]:
    """Divide each contender's time by that of the naive NumPy."""
    unit = getattr(timings[UNIT], statistic)
    return {name: getattr(timing, statistic) / unit for name, timing in timings.items()}


def steady_ratios(timings: Timings) -> dict[str, float]:
    """Take the smaller of the two ratios of each contender.

    A processor that changes its clock can spoil either, when one contender's samples miss the fast phase; code that
    became slower raises both.
    """
    medians = ratios(timings, "median")
    return {name: min(ratio, medians[name]) for name, ratio in ratios(timings).items()}


def workload_lines(workload: Workload, timings: Timings) -> str:
    """Format one workload: a line for each contender."""
    by_minimum, by_median = ratios(timings), ratios(timings, "median")
    lines = [f"{workload.name}  {workload}: {workload.why}"]
    lines += [
        f"    {name:16}{_time(timing.minimum):>10}{_time(timing.median):>10}"
        f"{by_minimum[name]:>10.2f}{by_median[name]:>8.2f}"
        for name, timing in timings.items()
    ]
    return "\n".join(lines)


def _time(microseconds: float) -> str:
    return f"{microseconds:.0f} µs" if microseconds < 10_000 else f"{microseconds / 1000:.1f} ms"


def operation_lines(costs: Costs) -> str:
    """Format the nanoseconds per operation: a line for each kind, a column for each setting."""
    settings = ("plain", "closed", "open", "backward")
    lines = [f"{'ns per operation':24}" + "".join(f"{setting:>10}" for setting in settings)]
    for kind, by_setting in costs.items():
        cells = (f"{by_setting[s]:.0f}" if s in by_setting else "" for s in settings)
        lines.append(f"{kind:24}" + "".join(f"{cell:>10}" for cell in cells))
    return "\n".join(lines)


def write_json(path: Path, timings: Mapping[str, Timings], costs: Costs) -> None:
    """Write all that was measured, times in µs and costs of operations in ns, and on what."""
    by_workload = {
        workload: {
            name: attrs.asdict(timing)
            | {"ratio_of_minima": ratios(by_name)[name], "ratio_of_medians": ratios(by_name, "median")[name]}
            for name, timing in by_name.items()
        }
        for workload, by_name in timings.items()
    }
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "numpy": np.__version__,
    }
    measured = {"machine": machine, "workloads": by_workload, "operations": costs}
    path.write_text(json.dumps(measured, indent=2) + "\n", encoding="utf-8")


def draw(path: Path, timings: Mapping[str, Timings]) -> None:
    """Draw the ratios of minima to the naive NumPy, workload by workload."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise SystemExit(
            "a picture needs matplotlib, which is not installed: python -m pip install 'mutangent[bench]'"
        ) from None
    by_workload = {workload: ratios(by_name) for workload, by_name in timings.items()}
    names = list(dict.fromkeys(name for by_name in by_workload.values() for name in by_name if name != UNIT))
    places = np.arange(len(by_workload))
    figure = Figure(figsize=(9, 4), layout="constrained")
    axes = figure.subplots()
    width = 0.8 / len(names)
    for number, name in enumerate(names):
        heights = [by_name.get(name, np.nan) for by_name in by_workload.values()]
        axes.bar(places + (number - (len(names) - 1) / 2) * width, heights, width, label=name)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(yscale="log", ylabel=f"time / time of {UNIT}", title="Value and gradient, one thread, minimum")
    axes.set_xticks(places, list(by_workload))
    axes.legend()
    figure.savefig(path, dpi=150)
