"""Recurrent cells: one time step as a function ``(state, x) -> (state, y)``. They keep no state; `Recur` does.

All of them take x as features × batch, or as a vector, which is a batch of one and gives a vector back; a state is
always units × batch. Biases may be vectors or columns.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mutangent._decorator import differentiable

from ._activations import sigmoid
from ._fused import gru_step, lstm_step
from ._shapes import as_columns, check_batch


@differentiable
class RNNCell:
    """The plain recurrent cell, ``h' = activation(Wi @ x + Wh @ h + b)``; the output is the new state.

    Parameters
    ----------
    Wi : array of shape (units, features)
        Weights of the input.
    Wh : array of shape (units, units)
        Weights of the state.
    b : array of shape (units,) or (units, 1)
        The bias.
    state0 : array of shape (units, 1)
        What a sequence starts from; trained like a weight if the loss resets (`reset`).
    activation : callable, default numpy.tanh
        Applied to each element.

    Examples
    --------
    >>> cell = RNNCell(np.eye(2), np.eye(2), np.zeros(2), np.ones((2, 1)), activation=lambda z: 2 * z)
    >>> h, y = cell(cell.state0, np.array([10.0, 20.0]))
    >>> h
    array([[22.],
           [42.]])
    >>> y
    array([22., 42.])
    """

    Wi: NDArray[Any]
    Wh: NDArray[Any]
    b: NDArray[Any]
    state0: NDArray[Any]
    activation: Callable[[Any], Any] = np.tanh

    def __call__(self, h: Any, x: Any) -> tuple[Any, Any]:
        h, columns = as_columns(h), as_columns(x)
        check_batch(h, columns)
        h = self.activation(self.Wi @ columns + self.Wh @ h + as_columns(self.b))
        return h, _like_input(h, x)


@differentiable
class LSTMCell:
    """Long short-term memory. The state is the pair (h, c), the output h.

    ::

        i, f, g, o = rows of Wi @ x + Wh @ h + b, a quarter each
        c' = σ(f) * c + σ(i) * tanh(g)
        h' = σ(o) * tanh(c')

    Parameters
    ----------
    Wi : array of shape (4 * units, features)
        Weights of the input: input gate, forget gate, candidate and output gate, from the top down.
    Wh : array of shape (4 * units, units)
        Weights of the state, in the same order.
    b : array of shape (4 * units,) or (4 * units, 1)
        The biases, in the same order.
    state0 : tuple of two arrays of shape (units, 1)
        What a sequence starts from, h and c. One array for both would be one parameter.

    Examples
    --------
    >>> state0 = (np.zeros((3, 1)), np.zeros((3, 1)))
    >>> cell = LSTMCell(np.ones((12, 2)), np.ones((12, 3)), np.zeros(12), state0)
    >>> (h, c), y = cell(cell.state0, np.ones((2, 5)))
    >>> h.shape, c.shape, y is h
    ((3, 5), (3, 5), True)
    """

    Wi: NDArray[Any]
    Wh: NDArray[Any]
    b: NDArray[Any]
    state0: tuple[NDArray[Any], NDArray[Any]]

    def __call__(self, state: tuple[Any, Any], x: Any) -> tuple[tuple[Any, Any], Any]:
        h, c, columns = as_columns(state[0]), as_columns(state[1]), as_columns(x)
        check_batch(h, columns)
        check_batch(c, columns)
        units = h.shape[0]
        z = self.Wi @ columns + self.Wh @ h + as_columns(self.b)
        fused = lstm_step(z, c)
        if fused is not None:
            h, c = fused
            return (h, c), _like_input(h, x)
        # One sigmoid over all four quarters, of which the candidate's goes unused, is fewer operations than three.
        gates = sigmoid(z)
        c = gates[units : 2 * units] * c + gates[:units] * np.tanh(z[2 * units : 3 * units])
        h = gates[3 * units :] * np.tanh(c)
        return (h, c), _like_input(h, x)


@differentiable
class GRUCell:
    """The gated recurrent unit, in the form of Cho et al. (2014) v1, as in Flux. The output is the new state h.

    ::

        r  = σ(Wi_r @ x + Wh_r @ h + b_r)
        z  = σ(Wi_z @ x + Wh_z @ h + b_z)
        h~ = tanh(Wi_h @ x + r * (Wh_h @ h) + b_h)
        h' = (1 - z) * h~ + z * h

    Parameters
    ----------
    Wi : array of shape (3 * units, features)
        Weights of the input: reset gate r, update gate z and candidate h~, from the top down.
    Wh : array of shape (3 * units, units)
        Weights of the state, in the same order.
    b : array of shape (3 * units,) or (3 * units, 1)
        The biases, in the same order.
    state0 : array of shape (units, 1)
        What a sequence starts from.

    Examples
    --------
    >>> cell = GRUCell(np.zeros((9, 2)), np.zeros((9, 3)), np.zeros(9), np.ones((3, 1)))
    >>> h, y = cell(cell.state0, np.ones(2))
    >>> y  # with all weights zero: halfway between the candidate 0 and the state 1
    array([0.5, 0.5, 0.5])
    """

    Wi: NDArray[Any]
    Wh: NDArray[Any]
    b: NDArray[Any]
    state0: NDArray[Any]

    def __call__(self, h: Any, x: Any) -> tuple[Any, Any]:
        h, columns = as_columns(h), as_columns(x)
        check_batch(h, columns)
        units = h.shape[0]
        from_x = self.Wi @ columns + as_columns(self.b)
        from_h = self.Wh @ h
        fused = gru_step(from_x, from_h, h)
        if fused is not None:
            return fused, _like_input(fused, x)
        gates = sigmoid(from_x[: 2 * units] + from_h[: 2 * units])
        candidate = np.tanh(from_x[2 * units :] + gates[:units] * from_h[2 * units :])
        h = candidate + gates[units:] * (h - candidate)
        return h, _like_input(h, x)


def _like_input(h: Any, x: Any) -> Any:
    """The output for a vector is a vector."""
    return h if x.ndim == 2 else h.reshape(-1)
