"""What keeps the state of a recurrent net: `Recur` around a cell, the layers made of it, and `reset`."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np
from numpy.typing import DTypeLike

from mutangent._capture import field
from mutangent._decorator import differentiable
from mutangent._identity import IdentityMap

from ._cells import GRUCell, LSTMCell, RNNCell
from ._initialisers import glorot_uniform, zeros


def _state0(recur: Any) -> Any:
    return recur.cell.state0


@differentiable
class Recur:
    """A recurrent cell with its state. Calling it moves the state on, and the state stays from call to call.

    Gradients are cut at the call: a state that an earlier call left behind is a constant. So truncated
    back-propagation through time needs nothing but a loss over one chunk after the other.

    Parameters
    ----------
    cell : callable
        One time step, ``(state, x) -> (state, y)``: an `RNNCell`, `LSTMCell`, `GRUCell`, or any callable.
    state : optional
        The state, of the form that the cell takes and returns. Starts as ``cell.state0``, the same array: nothing here
        writes into an array, and optimisers give ``state0`` a new one and leave ``state`` alone.

    Examples
    --------
    Any function of state and input will do for a cell:

    >>> total = Recur(lambda s, x: (s + x, s + x), state=0.0)
    >>> total(2.0), total(3.0)
    (2.0, 5.0)
    >>> total.state
    5.0

    An input of three dimensions is a sequence, and so is its output:

    >>> net = RNN(2, 3, rng=np.random.default_rng(0))
    >>> net(np.ones((2, 4, 10))).shape
    (3, 4, 10)
    >>> net.state.shape
    (3, 4)
    """

    cell: Callable[[Any, Any], tuple[Any, Any]]
    state: Any = field(trainable=False, default=attrs.Factory(_state0, takes_self=True))

    def __call__(self, x: Any) -> Any:
        """Take one step, or one step for each entry of the last axis of a three-dimensional input.

        Parameters
        ----------
        x : array
            Features × batch, or features alone: one step. Features × batch × time: all steps, in order.

        Returns
        -------
        array
            The output of the step, or those of all steps, stacked along a new last axis.

        Raises
        ------
        ValueError
            If the state is of another batch than `x`: call `reset` between unrelated sequences. If there are no steps.
        """
        if getattr(x, "ndim", 0) != 3:
            self.state, y = self._step(self.state, x, x)
            return y
        if not x.shape[2]:
            raise ValueError(
                f"an input of features × batch × time needs at least one step, and this one is of shape {x.shape}"
            )
        state, outputs = self.state, []
        for time in range(x.shape[2]):
            state, y = self._step(state, x[:, :, time], x)
            outputs.append(y)
        self.state = state
        return np.stack(outputs, axis=-1)

    def _step(self, state: Any, x: Any, whole: Any) -> tuple[Any, Any]:
        try:
            return self.cell(state, x)
        except ValueError as error:
            if _same_batch(state, x):
                raise
            raise ValueError(
                f"Recur.state is {_describe(state)}, left behind by an earlier call, and does not fit this input "
                f"of shape {getattr(whole, 'shape', ())}. Between sequences that do not continue each other, and when "
                "the batch changes, call mutangent.nn.reset(model)."
            ) from error


def _same_batch(state: Any, x: Any) -> bool:
    """Whether every array of the state could be for the batch of `x`. Only asked when a step has failed."""
    if isinstance(state, tuple | list):
        return all(_same_batch(part, x) for part in state)
    columns = getattr(x, "shape", ())[1:] or (1,)
    return getattr(state, "shape", ())[1:] in ((), (1,), columns)


def _describe(state: Any) -> str:
    if isinstance(state, tuple | list):
        return "(" + ", ".join(_describe(part) for part in state) + ")"
    return f"of shape {getattr(state, 'shape', ())}"


def RNN(  # noqa: N802 - the name of the layer, as if it were a class
    in_: int,
    out: int,
    *,
    rng: np.random.Generator,
    activation: Callable[[Any], Any] = np.tanh,
    dtype: DTypeLike = np.float32,
) -> Recur:
    """A plain recurrent layer, ``Recur(RNNCell(...))``.

    Parameters
    ----------
    in_, out : int
        Number of input features, and of units, which is the number of outputs.
    rng : numpy.random.Generator
        Where the weights come from (`glorot_uniform`); bias and initial state are zero.
    activation : callable, default numpy.tanh
        Applied to each element of the new state.
    dtype : dtype, default float32
        Of all arrays.

    Examples
    --------
    >>> net = RNN(2, 3, rng=np.random.default_rng(0))
    >>> net(np.ones((2, 5))).shape
    (3, 5)
    """
    Wi = glorot_uniform(rng, out, in_, dtype)
    return Recur(
        RNNCell(
            Wi=Wi,
            Wh=glorot_uniform(rng, out, out, dtype),
            b=zeros(out, dtype=dtype, like=Wi),
            state0=zeros(out, 1, dtype=dtype, like=Wi),
            activation=activation,
        )
    )


def LSTM(  # noqa: N802
    in_: int, out: int, *, rng: np.random.Generator, dtype: DTypeLike = np.float32
) -> Recur:
    """A long short-term memory layer, ``Recur(LSTMCell(...))``; its state is the pair (h, c).

    The bias of the forget gate starts at 1, so that a new net remembers (Jozefowicz et al., 2015).

    Parameters
    ----------
    in_, out : int
        Number of input features, and of units, which is the number of outputs.
    rng : numpy.random.Generator
        Where the weights come from (`glorot_uniform`); the other biases and the initial state are zero.
    dtype : dtype, default float32
        Of all arrays.

    Examples
    --------
    >>> net = LSTM(2, 3, rng=np.random.default_rng(0))
    >>> net(np.ones((2, 5))).shape
    (3, 5)
    >>> h, c = net.state
    """
    Wi = glorot_uniform(rng, 4 * out, in_, dtype)
    b = zeros(4 * out, dtype=dtype, like=Wi)
    b[out : 2 * out] = 1
    return Recur(
        LSTMCell(
            Wi=Wi,
            Wh=glorot_uniform(rng, 4 * out, out, dtype),
            b=b,
            # Two arrays: one array under both would be one parameter, updated by the sum of their gradients.
            state0=(zeros(out, 1, dtype=dtype, like=Wi), zeros(out, 1, dtype=dtype, like=Wi)),
        )
    )


def GRU(  # noqa: N802
    in_: int, out: int, *, rng: np.random.Generator, dtype: DTypeLike = np.float32
) -> Recur:
    """A layer of gated recurrent units, ``Recur(GRUCell(...))``.

    Parameters
    ----------
    in_, out : int
        Number of input features, and of units, which is the number of outputs.
    rng : numpy.random.Generator
        Where the weights come from (`glorot_uniform`); biases and initial state are zero.
    dtype : dtype, default float32
        Of all arrays.

    Examples
    --------
    >>> net = GRU(2, 3, rng=np.random.default_rng(0))
    >>> net(np.ones((2, 5, 7))).shape
    (3, 5, 7)
    """
    Wi = glorot_uniform(rng, 3 * out, in_, dtype)
    return Recur(
        GRUCell(
            Wi=Wi,
            Wh=glorot_uniform(rng, 3 * out, out, dtype),
            b=zeros(3 * out, dtype=dtype, like=Wi),
            state0=zeros(out, 1, dtype=dtype, like=Wi),
        )
    )


def reset(m: Any) -> None:
    """Set every recurrent state in reach of `m` back to its ``cell.state0``.

    Inside a loss, the gradient of what follows flows to ``cell.state0`` instead of ``state``.

    Parameters
    ----------
    m : object
        A layer, or any graph of attrs objects, tuples, lists, deques and dicts that holds some. A layer is recognised by
        its fields: one called `state`, and one called `cell` whose object has a `state0`.

    Examples
    --------
    >>> from mutangent.nn import Chain
    >>> net = Chain(RNN(2, 3, rng=np.random.default_rng(0)), np.negative)
    >>> _ = net(np.ones((2, 5)))
    >>> net.layers[0].state.shape
    (3, 5)
    >>> reset(net)
    >>> net.layers[0].state.shape
    (3, 1)
    """
    # The map holds what the walk has seen, so a shared layer is reset once and cycles end.
    seen: IdentityMap[None] = IdentityMap()
    pending = [m]
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen[value] = None
        if isinstance(value, tuple | list | deque):
            pending += value
        elif isinstance(value, dict):
            pending += value.values()
        elif attrs.has(type(value)):
            fields = {a.name: getattr(value, a.name, None) for a in attrs.fields(type(value))}
            cell: Any = fields.get("cell")
            if "state" in fields and hasattr(cell, "state0"):
                value.state = cell.state0
            pending += fields.values()
