"""The command line: check, time, report."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import baseline, reporting
from benchmarks.checking import mistakes
from benchmarks.contenders import CONTENDERS, prepare
from benchmarks.operations import operation_costs
from benchmarks.timing import Timing, one_thread, time_interleaved
from benchmarks.workloads import WORKLOADS, Workload

OPERATIONS = "operations"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the status is 1 where a gradient is wrong or a ratio has grown."""
    options = _parse(arguments)
    workloads = [workload for workload in WORKLOADS if workload.name in options.only]
    complaints: list[str] = []
    timings: dict[str, dict[str, Timing]] = {}
    costs = {}
    with one_thread():
        if workloads:
            print(reporting.HEADING)
        for workload in workloads:
            wrong, timings[workload.name] = _measure(workload, quick=options.quick)
            complaints += wrong
            print(reporting.workload_lines(workload, timings[workload.name]), flush=True)
        if OPERATIONS in options.only:
            costs = operation_costs()
            print(reporting.operation_lines(costs))

    ratios = {name: reporting.steady_ratios(by_name) for name, by_name in timings.items()}
    if options.quick:
        complaints += baseline.regressions(ratios, baseline.load())
    if options.json:
        reporting.write_json(options.json, timings, costs)
    if options.picture:
        reporting.draw(options.picture, timings)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if options.store and not complaints:
        baseline.store(ratios)
    return 1 if complaints else 0


def _measure(workload: Workload, *, quick: bool) -> tuple[list[str], dict[str, Timing]]:
    """Check every contender, then time those that are right."""
    runs = dict(prepare(contender, workload) for contender in CONTENDERS)
    wrong = {name: found for name, run in runs.items() if (found := mistakes(workload, name, run))}
    for name in wrong:
        del runs[name]
    seconds, least_rounds = (0.5, 3) if quick else (6.0, 7)
    timings = time_interleaved(runs, seconds, least_rounds)
    if quick and baseline.regressions({workload.name: reporting.steady_ratios(timings)}, baseline.load()):
        # Once more, lest a busy neighbour be taken for slow code.
        timings = time_interleaved(runs, 4 * seconds, least_rounds)
    return [line for lines in wrong.values() for line in lines], timings


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = [workload.name for workload in WORKLOADS]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Check and time mutangent against hand-written NumPy, and its operations one by one.",
    )
    parser.add_argument(
        "--only", metavar="NAMES", help=f"some of {','.join(names)},{OPERATIONS}, with commas between"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="check, take a few samples of the workloads, and fail where a ratio to the naive NumPy "
        "has grown by more than half over benchmarks/baseline.json",
    )
    parser.add_argument("--store", action="store_true", help="make the measured ratios the new baseline")
    parser.add_argument("--json", metavar="PATH", type=Path, help="write everything measured to this file")
    parser.add_argument("--picture", metavar="PATH", type=Path, help="draw the ratios into this file")
    options = parser.parse_args(arguments)
    everything = [*names, OPERATIONS]
    chosen = options.only.split(",") if options.only else names if options.quick else everything
    if unknown := [name for name in chosen if name not in everything]:
        parser.error(f"--only knows {', '.join(everything)}, not {', '.join(unknown)}")
    if options.picture and not set(chosen) & set(names):
        parser.error("--picture shows workloads; none is chosen")
    options.only = chosen
    return options


if __name__ == "__main__":
    sys.exit(main())
