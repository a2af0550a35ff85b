"""Has mutangent become slower? We keep ratios to hand-written NumPy, as times differ between machines."""

import json
from collections.abc import Mapping
from pathlib import Path

PATH = Path(__file__).with_name("baseline.json")
GROWTH = 1.5
WATCHED = ("mutangent",)  # the speed of the others is not ours to keep

Ratios = Mapping[str, Mapping[str, float]]  # by workload, then by contender


def load() -> dict[str, dict[str, float]]:
    """Give the stored ratios; there are none where nothing is stored."""
    return json.loads(PATH.read_text(encoding="utf-8")) if PATH.exists() else {}


def store(ratios: Ratios) -> None:
    """Store the watched ratios of these workloads; those of other workloads stay."""
    watched = {
        workload: {name: round(by_name[name], 3) for name in WATCHED if name in by_name}
        for workload, by_name in ratios.items()
    }
    text = json.dumps(load() | watched, indent=2, sort_keys=True)
    PATH.write_text(text + "\n", encoding="utf-8")


def regressions(ratios: Ratios, stored: Ratios) -> list[str]:
    """Say in a line each which ratios have grown by more than half.

    Examples
    --------
    >>> regressions({"W1": {"mutangent": 3.2}}, {"W1": {"mutangent": 2.0}})
    ['W1 mutangent: 3.20 times the hand-written NumPy, was 2.00']
    >>> regressions({"W1": {"mutangent": 2.9}}, {"W1": {"mutangent": 2.0}})
    []
    """
    return [
        f"{workload} {name}: {ratio:.2f} times the hand-written NumPy, was {stored[workload][name]:.2f}"
        for workload, by_name in ratios.items()
        for name, ratio in by_name.items()
        if name in stored.get(workload, {}) and ratio > GROWTH * stored[workload][name]
    ]
