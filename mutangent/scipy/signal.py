"""Convolutions of `scipy.signal`."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..rules import scipy_signal


def convolve(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Convolution of two arrays of as many axes; see `scipy.signal.convolve`.

    Examples
    --------
    >>> from mutangent.scipy.signal import convolve
    >>> mt.grad(lambda x: np.sum(convolve(x, [1.0, 2.0])))(np.zeros(3))
    array([3., 3., 3.])
    """
    return scipy_signal.convolve(in1, in2, mode, method)


def correlate(in1: Any, in2: Any, mode: str = "full", method: str = "auto") -> Any:
    """Correlation of two arrays of as many axes; see `scipy.signal.correlate`.

    Examples
    --------
    >>> from mutangent.scipy.signal import correlate
    >>> mt.grad(lambda x: np.sum(correlate(x, [1.0, 2.0])))(np.zeros(3))
    array([3., 3., 3.])
    """
    return convolve(in1, np.conj(np.flip(in2)), mode, method)


def fftconvolve(in1: Any, in2: Any, mode: str = "full") -> Any:
    """Convolution by the fast Fourier transform, over all axes; see `scipy.signal.fftconvolve`.

    Examples
    --------
    >>> from mutangent.scipy.signal import fftconvolve
    >>> mt.grad(lambda x: np.sum(fftconvolve(x, [1.0, 2.0])))(np.zeros(3)).round(12)
    array([3., 3., 3.])
    """
    return convolve(in1, in2, mode, "fft")
