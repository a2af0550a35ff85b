"""The command line: check, time, report."""

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from benchmarks import gpu, page, records, reporting
from benchmarks.contenders import BARE, companies
from benchmarks.footprint import held_by_a_recording, import_times, peak_memory
from benchmarks.growth import growth
from benchmarks.operations import operation_costs
from benchmarks.records import Report
from benchmarks.sessions import check, measure, session, start_on_cpu
from benchmarks.timing import one_thread
from benchmarks.workloads import WORKLOADS, Workload

Calls = Mapping[str, Callable[..., Any]]  # by company

FIGURES: dict[str, Callable[[], Any]] = {
    "operations": operation_costs,
    "import": import_times,
    "memory": lambda: {"peak": peak_memory(), "held": held_by_a_recording()},
    "growth": growth,
}
SAMPLES = (4.0, 2)  # seconds for each workload and company, and rounds at least
# A quick run tries again, longer each time, before it calls anything slower: the neighbours may have been busy.
QUICK_SAMPLES = ((0.5, 1), (2.0, 4), (8.0, 8))
QUICK_CONTENDERS = ("numpy_naive", "mutangent_eager")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what the arguments ask for; the status is 1 where a gradient is wrong or a ratio has grown."""
    options = _parse(arguments)
    if options.docs:
        page.write(records.load(records.STORED), records.load(records.STORED_GPU))
        return 0
    if options.gpu:
        report, complaints = gpu.main()
        return _finish(options, report, complaints, records.STORED_GPU)
    report, stored = Report(), records.load(records.STORED)
    complaints: list[str] = []
    with one_thread(), ExitStack() as stack:
        if options.workloads:
            print(reporting.HEADING)
            present = companies()
            calls = {
                name: stack.enter_context(session(start_on_cpu, name, present[name])) for name in present
            }
            run = _quick_look if options.quick else _full_look
            for workload in options.workloads:
                complaints += run(workload, calls, report, stored)
                print(reporting.workload_lines(workload, report, stored), flush=True)
        for kind in options.figures:
            report.figures[kind] = FIGURES[kind]()
            print("\n" + reporting.figure_lines({kind: report.figures[kind]}), flush=True)

    return _finish(options, report, complaints, records.STORED)


def _finish(options: argparse.Namespace, report: Report, complaints: list[str], path: Path) -> int:
    if options.json:
        report.save(options.json)
    if options.picture:
        reporting.draw(options.picture, report)
    for complaint in complaints:
        print(complaint, file=sys.stderr)
    if options.store and not complaints:
        report.save_over(path)
    return 1 if complaints else 0


def _full_look(workload: Workload, calls: Calls, report: Report, _stored: Report) -> list[str]:
    """Check and time everybody, company by company."""
    complaints: list[str] = []
    by_company = report.workloads[workload.name] = {}
    for company, contenders in companies().items():
        wrong, by_company[company] = calls[company](measure, workload, contenders, *SAMPLES)
        complaints += wrong
    return complaints


def _quick_look(workload: Workload, calls: Calls, report: Report, stored: Report) -> list[str]:
    """Check everybody, and compare our speed with that of the stored run."""
    complaints: list[str] = []
    checked: set[str] = set(QUICK_CONTENDERS)
    for company, contenders in companies().items():
        unchecked = tuple(contender for contender in contenders if contender not in checked)
        complaints += calls[company](check, workload, unchecked)
        checked.update(unchecked)
    slower = None
    for samples in QUICK_SAMPLES:
        wrong, timings = calls[BARE](measure, workload, QUICK_CONTENDERS, *samples)
        report.workloads[workload.name] = {BARE: timings}
        slower = records.regression(workload.name, timings, stored)
        if wrong or not slower:
            break
    return complaints + wrong + ([slower] if slower else [])


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    names = {workload.name: workload for workload in WORKLOADS}
    everything = [*names, *FIGURES]
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Check and time mutangent against hand-written NumPy and those of its peers that are installed.",
    )
    parser.add_argument(
        "--only", metavar="NAMES", help=f"some of {','.join(everything)}, with commas between"
    )
    parser.add_argument(
        "--quick",
        action="store_true",
        help="check everybody, take a few samples, and fail where a ratio to the naive NumPy has grown by more than "
        "half over the stored run",
    )
    parser.add_argument(
        "--gpu", action="store_true", help="measure over CuPy's arrays on a CUDA device instead"
    )
    parser.add_argument(
        "--store", action="store_true", help="store this run; later ones are compared with it"
    )
    parser.add_argument(
        "--docs", action="store_true", help="write the stored run into the docs; measure nothing"
    )
    parser.add_argument("--json", metavar="PATH", type=Path, help="write everything measured to this file")
    parser.add_argument("--picture", metavar="PATH", type=Path, help="draw the ratios into this file")
    options = parser.parse_args(arguments)
    chosen = options.only.split(",") if options.only else list(names) if options.quick else everything
    if unknown := [name for name in chosen if name not in everything]:
        parser.error(f"--only knows {', '.join(everything)}, not {', '.join(unknown)}")
    options.workloads = [names[name] for name in chosen if name in names]
    options.figures = [name for name in chosen if name in FIGURES]
    if options.picture and not options.workloads:
        parser.error("--picture shows workloads; none is chosen")
    if options.gpu and (options.quick or options.only):
        parser.error("--gpu has workloads and samples of its own; leave out --quick and --only")
    if options.store and options.quick:
        parser.error("--store keeps a full run; leave out --quick")
    return options


if __name__ == "__main__":
    sys.exit(main())
