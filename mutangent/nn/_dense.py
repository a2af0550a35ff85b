"""Layers without a state: one affine map, and several layers one after the other."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import DTypeLike, NDArray

from mutangent._decorator import differentiable

from ._activations import identity
from ._initialisers import glorot_uniform, zeros
from ._shapes import as_columns

Activation = Callable[[Any], Any]


@differentiable
class Dense:
    """A fully connected layer, ``activation(W @ x + b)``.

    ``Dense(in, out, activation, rng=rng)`` draws the weights, ``Dense(W, b, activation)`` takes them as they are.
    The input is a vector of features, features × batch, or features × batch × time.

    Parameters
    ----------
    W : array of shape (out, in), or int
        The weights; an int is the number of input features.
    b : array of shape (out,) or (out, 1), or int
        The bias; an int is the number of outputs.
    activation : callable, default `identity`
        Applied to each element.
    rng : numpy.random.Generator
        Where weights that are drawn come from.
    dtype : dtype, default float32
        Of weights that are drawn.

    Raises
    ------
    TypeError
        If weights are to be drawn and `rng` is missing.

    Examples
    --------
    >>> layer = Dense(2, 3, np.tanh, rng=np.random.default_rng(0))
    >>> layer.W.shape, layer.b.shape
    ((3, 2), (3,))
    >>> Dense(np.array([[1.0, 2.0]]), np.array([0.5]))(np.array([10.0, 100.0]))
    array([210.5])
    """

    W: NDArray[Any]
    b: NDArray[Any]
    activation: Activation

    @overload
    def __init__(self, W: NDArray[Any], b: NDArray[Any], activation: Activation = identity) -> None: ...

    @overload
    def __init__(
        self,
        W: int,
        b: int,
        activation: Activation = identity,
        *,
        rng: np.random.Generator,
        dtype: DTypeLike = np.float32,
    ) -> None: ...

    def __init__(
        self,
        W: NDArray[Any] | int,
        b: NDArray[Any] | int,
        activation: Activation = identity,
        *,
        rng: np.random.Generator | None = None,
        dtype: DTypeLike = np.float32,
    ) -> None:
        if isinstance(W, int | np.integer) and isinstance(b, int | np.integer):
            if rng is None:
                raise TypeError(
                    f"Dense({W}, {b}) draws its weights from an explicit generator: "
                    f"write Dense({W}, {b}, rng=np.random.default_rng(seed))"
                )
            inputs, outputs = int(W), int(b)
            W = glorot_uniform(rng, outputs, inputs, dtype)
            b = zeros(outputs, dtype=dtype, like=W)
        self.W = W  # type: ignore[assignment]  # the overloads leave only two arrays
        self.b = b  # type: ignore[assignment]
        self.activation = activation

    def __call__(self, x: Any) -> Any:
        if x.ndim == 1:
            return self.activation(self.W @ x + self.b.reshape(-1))
        b = as_columns(self.b)
        if x.ndim == 2:
            return self.activation(self.W @ x + b)
        # One product over batch and time together.
        y = self.activation(self.W @ x.reshape(x.shape[0], math.prod(x.shape[1:])) + b)
        return y.reshape(y.shape[0], *x.shape[1:])


@differentiable
class Chain:
    """Layers one after the other: ``Chain(f, g)(x)`` is ``g(f(x))``.

    Parameters
    ----------
    *layers : callable
        Layers, or any functions of one argument.
    layers : sequence of callable
        More of them, by the name of the field (as `attrs.evolve` passes them).

    Examples
    --------
    >>> Chain(np.tanh, np.negative)(np.zeros(2))
    array([-0., -0.])
    """

    layers: tuple[Callable[[Any], Any], ...]

    def __init__(self, *args: Callable[[Any], Any], layers: Sequence[Callable[[Any], Any]] = ()) -> None:
        self.layers = (*args, *layers)

    def __call__(self, x: Any) -> Any:
        for layer in self.layers:
            x = layer(x)
        return x
