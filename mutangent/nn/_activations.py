"""Activation functions that NumPy does not have. They keep the dtype: float32 in, float32 out."""

from typing import Any

import numpy as np


def identity(x: Any) -> Any:
    """Return the argument itself.

    Examples
    --------
    >>> identity(2.5)
    2.5
    """
    return x


def relu(x: Any) -> Any:
    """The positive part, ``max(x, 0)``.

    The two sides of the kink at 0 share the gradient there, as they do for `numpy.maximum`.

    Examples
    --------
    >>> relu(np.array([-1.0, 2.0]))
    array([0., 2.])
    """
    return np.maximum(x, 0)


def sigmoid(x: Any) -> Any:
    """The logistic function ``1 / (1 + exp(-x))``.

    Computed as ``(1 + tanh(x / 2)) / 2``, which is the same function and overflows for no argument.

    Examples
    --------
    >>> sigmoid(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    """
    return 0.5 * np.tanh(0.5 * x) + 0.5
