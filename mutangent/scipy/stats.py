"""Distributions of `scipy.stats`, written with `scipy.special`'s ufuncs: `scipy.stats` itself is not imported."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.special import log_ndtr, ndtr, ndtri

_LOG_ROOT_2_PI = float(np.log(2 * np.pi) / 2)


class Normal:
    """The normal distribution; see `scipy.stats.norm`. `norm` is the instance to use.

    All methods take a location and a scale and are differentiable with respect to every argument. float32 stays float32.

    Examples
    --------
    >>> from mutangent.scipy.stats import norm
    >>> mt.grad(norm.logpdf, argnums=(0, 1, 2))(1.0, 0.0, 1.0)
    (-1.0, 1.0, 0.0)
    """

    def logpdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of the density."""
        z, scale = _standard(x, loc, scale)
        # The logarithm of a Python number stays one: it is weak, and leaves float32 as it is.
        log_scale = math.log(scale) if type(scale) in (int, float) else np.log(scale)
        return -np.square(z) / 2 - _LOG_ROOT_2_PI - log_scale

    def pdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The density."""
        return np.exp(self.logpdf(x, loc, scale))

    def cdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Probability of at most `x`."""
        return ndtr(_standard(x, loc, scale)[0])

    def logcdf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of the probability of at most `x`, accurate in the lower tail."""
        return log_ndtr(_standard(x, loc, scale)[0])

    def sf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Probability of more than `x`."""
        return ndtr(-_standard(x, loc, scale)[0])

    def logsf(self, x: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """Logarithm of the probability of more than `x`, accurate in the upper tail."""
        return log_ndtr(-_standard(x, loc, scale)[0])

    def ppf(self, q: Any, loc: Any = 0.0, scale: Any = 1.0) -> Any:
        """The value that is not exceeded with probability `q`."""
        positive = _positive(scale)
        return ndtri(q) * positive + loc


def _positive(scale: Any) -> Any:
    """The scale, or nan: SciPy gives nan where a scale is not positive."""
    return scale if np.all(np.greater(scale, 0)) else np.where(np.greater(scale, 0), scale, np.nan)


def _standard(x: Any, loc: Any, scale: Any) -> tuple[Any, Any]:
    scale = _positive(scale)
    return np.subtract(x, loc) / scale, scale


norm = Normal()
