"""What we want: our time over a peer's, workload by workload, for the minimum and for the median."""

from typing import Literal

_WORKLOADS = ("W1", "W2", "W3", "W4", "W5", "W6", "W7", "W8", "W9")
_ROWS = {
    "autograd": (0.15, 0.30, 0.20, 0.18, 0.70, 0.80, 0.15, 0.06, 0.65),
    "MyGrad": (0.20, 0.30, 0.25, 0.18, 0.35, 0.35, 0.13, 0.25, 0.85),
    "torch eager": (0.35, 0.75, 0.45, 0.70, 1.2, 0.90, 0.55, 0.60, 0.95),
}
TARGETS = {peer: dict(zip(_WORKLOADS, row, strict=True)) for peer, row in _ROWS.items()}
PEAK_MEMORY = 1.3  # of hand-written NumPy's, on W6


def verdict(by_minimum: float, by_median: float, target: float) -> Literal["met", "missed"]:
    """Say whether both ratios are within the target.

    Examples
    --------
    >>> verdict(0.12, 0.15, target=0.15)
    'met'
    >>> verdict(0.12, 0.16, target=0.15)
    'missed'
    """
    return "met" if max(by_minimum, by_median) <= target else "missed"
