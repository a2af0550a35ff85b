"""The derivative of the modified Bessel function `numpy.i0`, which is I₁.

NumPy has no I₁. The integral I₁(x) = 2/π ∫ sinh(x cos θ) cos θ dθ over a quarter of the circle is the mean of a periodic
function, which the midpoint rule finds to the last digit with 64 points for every x at which I₀ is finite.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from .._rulebook import elementwise
from .indexing import numbers

POINTS: Final = 64


def i1(x: Any) -> Any:
    """The modified Bessel function of the first kind and first order, of real numbers."""
    angles = (numbers((POINTS,), x) + 0.5) * (np.pi / (2 * POINTS))
    nodes = np.cos(angles).astype(x.dtype if hasattr(x, "dtype") else np.float64)
    return np.mean(np.sinh(x[..., None] * nodes) * nodes, axis=-1)


def i0_push(t: Any, _y: Any, x: Any) -> Any:
    return t * i1(np.positive(x) if hasattr(x, "dtype") else np.float64(x))


elementwise(np.i0, i0_push)
