"""Derivatives of the Fourier transforms.

A transform is a matrix, symmetric up to its scale: the cotangent goes back through the transform of the other direction
with the other scale. Where `n` cut the operand off or padded it, the cotangent is padded or cut off.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._rulebook import composed, function
from .contractions import conjugated

Axes = Sequence[int] | None
# The scale of the adjoint: that of the other direction.
ADJOINT = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def fitted(x: Any, length: int, axis: int) -> Any:
    """`x` cut off or padded with zeros to `length` on an axis."""
    present = x.shape[axis]
    if length <= present:
        return x[(slice(None),) * (axis % x.ndim) + (slice(length),)]
    return np.pad(x, [(0, length - present if k == axis % x.ndim else 0) for k in range(x.ndim)])


def interior(x: Any, n: int, axis: int, factor: float) -> Any:
    """`x`, half a spectrum of `n` numbers, with what stands for two of them multiplied by `factor`."""
    weights = [1.0 if k == 0 or 2 * k == n else factor for k in range(x.shape[axis])]
    return x * np.array(weights, np.real(x).dtype).reshape((-1,) + (1,) * (-axis % x.ndim or x.ndim) + ()[:0])
