"""Derivatives of convolutions: correlations of the cotangent with the other operand.

SciPy's functions do not dispatch. `mutangent.scipy.signal` calls the operation that is declared here.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.signal

from .._rulebook import function
from .contractions import conjugated
from .dispatch import dispatched


def _convolve(a: Any, b: Any, mode: str, method: str) -> Any:
    return scipy.signal.convolve(a, b, mode, method)


def completed(g: Any, a: tuple[int, ...], b: tuple[int, ...], mode: str) -> Any:
    """`g`, of a part of the full convolution of arrays of shapes `a` and `b`, with zeros around."""
    if mode == "full":
        return g
    margins = []
    for m, n, length in zip(a, b, g.shape, strict=True):
        before = (n - 1) // 2 if mode == "same" else min(m, n) - 1
        margins.append((before, m + n - 1 - length - before))
    return np.pad(g, margins)


def with_reversed(g: Any, other: Any, method: str) -> Any:
    """The full cotangent convolved with the other operand, reversed and conjugated: a correlation."""
    return convolve(g, conjugated(np.flip(other)), "valid", method)


def first_pullback(g: Any, _y: Any, _a: Any, b: Any, mode: str, method: str) -> Any:
    return with_reversed(completed(g, _a.shape, b.shape, mode), b, method)


def second_pullback(g: Any, _y: Any, a: Any, _b: Any, mode: str, method: str) -> Any:
    return with_reversed(completed(g, a.shape, _b.shape, mode), a, method)


convolve = dispatched(_convolve)
function(convolve, first_pullback, second_pullback, linear=True)
