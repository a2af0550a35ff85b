"""First values of weights. Whoever draws at random says from which generator: nothing here keeps one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mutangent._device import array_module


def glorot_uniform(
    rng: np.random.Generator, out: int, in_: int, dtype: DTypeLike = np.float32
) -> NDArray[Any]:
    """Draw an out × in matrix from the uniform distribution of Glorot and Bengio (2010).

    The bound ``sqrt(6 / (in + out))`` keeps the variance of activations, and that of gradients, about equal from
    layer to layer.

    Parameters
    ----------
    rng : numpy.random.Generator or cupy.random.Generator
        Where the numbers come from; CuPy's gives arrays of CuPy's.
    out, in_ : int
        Number of rows and of columns.
    dtype : dtype, default float32
        The numbers are drawn in double precision and rounded, so both precisions start alike.

    Raises
    ------
    TypeError
        If `rng` is no generator, for example None or a bare seed.

    Examples
    --------
    >>> W = glorot_uniform(np.random.default_rng(0), 2, 3)
    >>> W.shape, W.dtype
    ((2, 3), dtype('float32'))
    """
    kind: type = type(rng)
    if not (issubclass(kind, np.random.Generator) or kind.__module__.startswith("cupy.random.")):
        raise TypeError(
            f"weights are drawn from an explicit generator, and rng is {rng!r}: "
            "pass rng=np.random.default_rng(seed)"
        )
    bound = np.sqrt(6 / (in_ + out))
    return rng.uniform(-float(bound), float(bound), (out, in_)).astype(dtype)


def zeros(*shape: int, dtype: DTypeLike = np.float32, like: Any = None) -> NDArray[Any]:
    """An array of zeros, float32 unless said otherwise, in the array library of `like`: what biases and states start from.

    Examples
    --------
    >>> zeros(2, 1)
    array([[0.],
           [0.]], dtype=float32)
    """
    made: NDArray[Any] = array_module(like).zeros(shape, dtype)
    return made
