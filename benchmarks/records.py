"""What was measured, as data: what is stored, compared and shown in the docs."""

import json
import os
import platform
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import attrs

from benchmarks.contenders import BARE, JAX, LIBRARIES, OURS, PEERS, UNIT
from benchmarks.timing import Timing

STORED = Path(__file__).with_name("stored.json")
STORED_GPU = Path(__file__).with_name("stored_gpu.json")
GROWTH = 1.5

Timings = dict[str, Timing]  # by contender
ByCompany = dict[str, Timings]


@attrs.frozen
class Ratio:
    """Our time over another's."""

    minimum: float
    median: float
    processor: float

    @property
    def least(self) -> float:
        """The smallest of the three: each may be spoilt by something else, and code that became slower raises all."""
        return min(self.minimum, self.median, self.processor)


def ours_over(timings: Timings, peer: str) -> Ratio:
    """Divide our time by that of a contender in the same process.

    Examples
    --------
    >>> ours, its = Timing(10.0, 12.0, 10.0, 5), Timing(40.0, 40.0, 40.0, 5)
    >>> ours_over({"mutangent": ours, "autograd": its}, "autograd")
    Ratio(minimum=0.25, median=0.3, processor=0.25)
    """
    ours, its = timings[OURS], timings[peer]
    return Ratio(ours.minimum / its.minimum, ours.median / its.median, ours.processor / its.processor)


def describe_machine() -> dict[str, Any]:
    """Say on what and when the run is."""
    versions = {}
    for library in ("numpy", "attrs", *dict.fromkeys(LIBRARIES.values())):
        try:
            versions[library] = version(library)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "versions": versions,
    }


def _processor() -> str:
    information = Path("/proc/cpuinfo")
    if information.exists():
        lines = information.read_text(encoding="utf-8").splitlines()
        fields = dict(line.split(":", 1) for line in reversed(lines) if ":" in line)
        fields = {name.strip(): value.strip() for name, value in fields.items()}
        if "model name" in fields:
            vectors = max(set(fields.get("flags", "").split()) & {"avx", "avx2", "avx512f"}, default="")
            numbers = ", ".join(
                f"{name} {fields[name]}" for name in ("cpu family", "model") if name in fields
            )
            return f"{fields['model name']} ({numbers}{', ' + vectors if vectors else ''})"
    return platform.processor() or platform.machine()


@attrs.define
class Report:
    """A run: its machine; timings by workload, company and contender; and the other figures by their kind."""

    machine: dict[str, Any] = attrs.Factory(describe_machine)
    workloads: dict[str, ByCompany] = attrs.Factory(dict)
    figures: dict[str, Any] = attrs.Factory(dict)

    def save(self, path: Path) -> None:
        path.write_text(json.dumps(attrs.asdict(self), indent=1) + "\n", encoding="utf-8")

    def save_over(self, path: Path) -> None:
        """Save, and keep what was stored there of the workloads and figures that this run left out."""
        before = load(path)
        machine = before.machine | self.machine
        versions = [run.machine.get("versions", {}) for run in (before, self)]
        if any(versions):  # a run of some figures may have been without the peers
            machine["versions"] = versions[0] | versions[1]
        # A workload's companies belong to one occasion.
        merged = Report(machine, before.workloads | self.workloads, before.figures | self.figures)
        merged.workloads = dict(sorted(merged.workloads.items()))
        merged.save(path)


def load(path: Path) -> Report:
    """Load a run; one of nothing where nothing is stored."""
    if not path.exists():
        return Report({})
    read = json.loads(path.read_text(encoding="utf-8"))
    workloads = {
        workload: {
            company: {name: Timing(**timing) for name, timing in timings.items()}
            for company, timings in by_company.items()
        }
        for workload, by_company in read["workloads"].items()
    }
    return Report(read["machine"], workloads, read["figures"])


def everyone(by_company: ByCompany) -> dict[str, tuple[Timing, Ratio]]:
    """Give each contender's time and our ratio to it, from the process in which it ran: who ran in several, from the first.

    The order is that of the tables: NumPy, peers, JAX, and ourselves at the end.
    """
    found: dict[str, tuple[Timing, Ratio]] = {}
    for company in (PEERS, JAX, BARE):
        timings = by_company.get(company, {})
        for name, timing in timings.items():
            if OURS in timings:  # it may have been wrong
                found.setdefault(name, (timing, ours_over(timings, name)))
    order = [name for name in found if name != OURS]
    if OURS in found:
        order.append(OURS)
    return {name: found[name] for name in order}


def regression(workload: str, timings: Timings, stored: Report) -> str | None:
    """Say by what our ratio to the naive NumPy, in a bare process, has grown: None if it is less than half.

    Examples
    --------
    >>> def run(ours):
    ...     return {"numpy naive": Timing(1.0, 1.0, 1.0, 3), "mutangent": Timing(ours, ours, ours, 3)}
    >>> stored = Report({}, {"W1": {"bare": run(2.0)}})
    >>> regression("W1", run(3.2), stored)
    'W1: 3.20 times the hand-written NumPy, was 2.00'
    >>> regression("W1", run(2.9), stored)
    """
    before = stored.workloads.get(workload, {}).get(BARE, {})
    if OURS not in before or OURS not in timings:
        return None
    ratio, was = ours_over(timings, UNIT).least, ours_over(before, UNIT).least
    if ratio <= GROWTH * was:
        return None
    return f"{workload}: {ratio:.2f} times the hand-written NumPy, was {was:.2f}"
