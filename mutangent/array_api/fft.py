"""The Fourier extension of the array API standard: NumPy's functions, which dispatch, and frequencies with a dtype."""

from typing import Any

import numpy as np
from numpy.fft import fft, fftn, fftshift, hfft, ifft, ifftn, ifftshift, ihfft, irfft, irfftn, rfft, rfftn


def fftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of a transform of length `n` of samples with spacing `d`."""
    return np.fft.fftfreq(n, d, device=device).astype(dtype or np.float64, copy=False)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """Those of a transform of real samples that are not negative."""
    return np.fft.rfftfreq(n, d, device=device).astype(dtype or np.float64, copy=False)


__all__ = [
    "fft",
    "fftfreq",
    "fftn",
    "fftshift",
    "hfft",
    "ifft",
    "ifftn",
    "ifftshift",
    "ihfft",
    "irfft",
    "irfftn",
    "rfft",
    "rfftfreq",
    "rfftn",
]
