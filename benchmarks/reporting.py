"""What was measured, as text for a terminal, as tables for the docs, and as a picture."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.contenders import BARE, JAX, OURS, PEERS, UNIT
from benchmarks.records import Ratio, Report, everyone, ours_over
from benchmarks.targets import PEAK_MEMORY, TARGETS, verdict
from benchmarks.workloads import Workload

Targets = Mapping[str, Mapping[str, float]]  # by peer, then by workload

HEADING = (
    f"    {'one thread':14}{'minimum':>10}{'median':>10}"
    "    mutangent's time over it: minimum, median, of the processor; stored, target"
)


def workload_lines(workload: Workload, report: Report, stored: Report, targets: Targets = TARGETS) -> str:
    """Format one workload: a line for each contender."""
    by_company = report.workloads[workload.name]
    before = everyone(stored.workloads.get(workload.name, {}))
    lines = [f"{workload.name}  {workload}: {workload.why}"]
    for name, (timing, ratio) in everyone(by_company).items():
        line = f"    {name:14}{_time(timing.minimum):>10}{_time(timing.median):>10}"
        if name != OURS:
            was = f"{before[name][1].minimum:.2f}" if name in before else ""
            target = targets.get(name, {}).get(workload.name)
            wanted = f"{target:.2f} {verdict(ratio.minimum, ratio.median, target)}" if target else ""
            line += f"{ratio.minimum:>10.2f}{ratio.median:>8.2f}{ratio.processor:>8.2f}{was:>10}   {wanted}"
        lines.append(line.rstrip())
    if BARE in by_company and PEERS in by_company and OURS in by_company[BARE]:
        alone = by_company[BARE][OURS]
        ratio = ours_over(by_company[BARE], UNIT)
        lines.append(
            f"    {'and without peers in the process':34}{_time(alone.minimum):>10}{_time(alone.median):>10}, over "
            f"{UNIT} {ratio.minimum:.2f} {ratio.median:.2f} {ratio.processor:.2f}"
        )
    return "\n".join(lines)


def figure_lines(figures: Mapping[str, Any]) -> str:
    """Format what was measured besides the workloads."""
    return "\n\n".join("\n".join([title, *_aligned(rows)]) for title, rows in _figure_tables(figures))


def docs_tables(report: Report, on_gpu: Report) -> str:
    """Format a run, and one on a GPU if there is one, for the docs, in Markdown."""
    parts = [
        f"*Measured on {_machine(report.machine)}.*",
        "**Time** of the value and all gradients, one thread, the minimum:",
        _markdown(_time_rows(report)),
        f"**{OURS}'s time over theirs**: of the minima, and of the medians. Where there is a target, it stands behind:",
        _markdown(_ratio_rows(report, TARGETS)),
    ]
    bare = _bare_rows(report)
    if len(bare) > 1:
        parts += [
            f"**Without torch and JAX in the process**: {OURS}'s minimum, and over that of the naive NumPy there.",
            _markdown(bare),
        ]
    for title, rows in _figure_tables(report.figures):
        parts += [f"**{title}**", _markdown(rows)]
    if on_gpu.workloads:
        parts += [
            (
                f"**On a GPU**, {on_gpu.machine['device']}, {_machine(on_gpu.machine)}: the minimum, then the ratios, then "
                f"kernels launched for each step. NumPy's and {OURS}'s arrays are CuPy's. G1 is an LSTM 1024→1024, batch "
                "64, 128 steps."
            ),
            _markdown(_time_rows(on_gpu)),
            _markdown(_ratio_rows(on_gpu, {})),
            _markdown(_launch_rows(on_gpu)),
        ]
    return "\n\n".join(parts)


def _time_rows(report: Report) -> list[list[str]]:
    names = _names(report)
    rows = [["", *names]]
    for workload, by_company in report.workloads.items():
        found = everyone(by_company)
        rows.append([workload, *(_time(found[name][0].minimum) if name in found else "" for name in names)])
    return rows


def _ratio_rows(report: Report, targets: Targets) -> list[list[str]]:
    names = [name for name in _names(report) if name != OURS]
    rows = [["", *names]]
    for workload, by_company in report.workloads.items():
        found = everyone(by_company)
        cells = [
            _ratio_cell(found[name][1], workload, name, targets) if name in found else "" for name in names
        ]
        rows.append([workload, *cells])
    return rows


def _ratio_cell(ratio: Ratio, workload: str, peer: str, targets: Targets) -> str:
    text = f"{ratio.minimum:.2f} {ratio.median:.2f}"
    target = targets.get(peer, {}).get(workload)
    return f"{text} (≤ {target:.2f}, {verdict(ratio.minimum, ratio.median, target)})" if target else text


def _launch_rows(report: Report) -> list[list[str]]:
    names = [name for name in _names(report) if any(name in by for by in report.figures["launches"].values())]
    return [["", *names]] + [
        [workload, *(f"{counted[name]:.1f}" if name in counted else "" for name in names)]
        for workload, counted in report.figures["launches"].items()
    ]


def draw(path: Path, report: Report) -> None:
    """Draw our time over everyone's, by minimum, workload by workload."""
    try:
        from matplotlib.figure import Figure  # noqa: PLC0415 - optional, and slow to import
    except ImportError:
        raise SystemExit(
            "a picture needs matplotlib, which is not installed: python -m pip install 'mutangent[bench]'"
        ) from None
    by_workload = {name: everyone(by_company) for name, by_company in report.workloads.items()}
    names = [name for name in _names(report) if name != OURS]
    places = np.arange(len(by_workload))
    figure = Figure(figsize=(10, 4.5), layout="constrained")
    axes = figure.subplots()
    width = 0.85 / len(names)
    for number, name in enumerate(names):
        heights = [found[name][1].minimum if name in found else np.nan for found in by_workload.values()]
        left = places + (number - (len(names) - 1) / 2) * width
        axes.bar(left, heights, width, label=name)
        wanted = [TARGETS.get(name, {}).get(workload, np.nan) for workload in by_workload]
        axes.hlines(wanted, left - width / 2, left + width / 2, color="black", linewidth=2)
    axes.axhline(1, color="black", linewidth=1)
    axes.set(
        yscale="log",
        ylabel=f"time of {OURS} / time of the other",
        title="Value and gradients, one thread, minimum. Below 1 mutangent is faster; short bars across are targets",
    )
    axes.set_xticks(places, list(by_workload))
    axes.legend(ncols=4, fontsize="small")
    figure.savefig(path, dpi=110)


def _names(report: Report) -> list[str]:
    return list(
        dict.fromkeys(name for by_company in report.workloads.values() for name in everyone(by_company))
    )


def _bare_rows(report: Report) -> list[list[str]]:
    rows = [["", OURS, f"over {UNIT}", "over itself beside them"]]
    for workload, by_company in report.workloads.items():
        bare, beside = by_company.get(BARE, {}), by_company.get(PEERS, by_company.get(JAX, {}))
        if OURS in bare and OURS in beside:
            ratio = ours_over(bare, UNIT)
            itself = bare[OURS].minimum / beside[OURS].minimum
            rows.append(
                [
                    workload,
                    _time(bare[OURS].minimum),
                    f"{ratio.minimum:.2f} {ratio.median:.2f}",
                    f"{itself:.2f}",
                ]
            )
    return rows


def _figure_tables(figures: Mapping[str, Any]) -> Iterable[tuple[str, list[list[str]]]]:
    if operations := figures.get("operations"):
        settings = ("plain", "closed", "open", "backward")
        rows = [["", *settings]]
        rows += [
            [kind, *(_number(by_setting[s]) if s in by_setting else "" for s in settings)]
            for kind, by_setting in operations.items()
        ]
        yield "Nanoseconds for an operation on 3×3 arrays, of the processor", rows
    if imports := figures.get("import"):
        rows = [list(imports), [_number(taken) for taken in imports.values()]]
        yield "Milliseconds to import NumPy and attrs, and mutangent after them, of the processor", rows
    if memory := figures.get("memory"):
        peaks = memory["peak"]
        names = list(next(iter(peaks.values())))
        rows = [["", *(f"{name}, KiB" for name in names), f"over {UNIT}", "target"]]
        for workload, by_name in peaks.items():
            ratio = by_name[OURS] / by_name[UNIT]
            target = (
                f"{PEAK_MEMORY} {'met' if ratio <= PEAK_MEMORY else 'missed'}" if workload == "W6" else ""
            )
            rows.append(
                [
                    workload,
                    *(_number(by_name[name] / 1024) for name in names),
                    f"{ratio:.2f}",
                    target,
                ]
            )
        yield "Memory that one call holds at most", rows
        held = memory["held"]
        rows = [list(held), [_number(value) for value in held.values()]]
        yield "What a recording of W8 holds for each step", rows
    if growth := figures.get("growth"):
        for kind, series in growth.items():
            yield f"Growth, {kind}", [list(series), [_number(value) for value in series.values()]]


def _number(value: float) -> str:
    return f"{value:,.0f}".replace(",", " ") if value >= 100 else f"{value:.3g}"


def _time(microseconds: float) -> str:
    if microseconds < 10_000:
        return f"{microseconds:.0f} µs"
    return f"{microseconds / 1000:.{1 if microseconds < 100_000 else 0}f} ms"


def _machine(machine: Mapping[str, Any]) -> str:
    versions = ", ".join(f"{library} {version}" for library, version in machine["versions"].items())
    return (
        f"{machine['date']} on {machine['cores']} cores of {machine['processor']}, {machine['system']}, "
        f"Python {machine['python']}, {versions}"
    )


def _aligned(rows: list[list[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "    " + "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows
    ]


def _markdown(rows: list[list[str]]) -> str:
    head, *body = rows
    lines = ["| " + " | ".join(row) + " |" for row in (head, *body)]
    lines.insert(1, "|---" * len(head) + "|")
    return "\n".join(lines)
