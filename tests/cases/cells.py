"""The recurrent nets of the cases, written as a user writes them: plain classes, plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mutangent as mt


@mt.differentiable
class LinearCell:
    """The cell "R" of the cases."""

    Wi: Any
    Wh: Any
    b: Any
    state0: Any = 0.0

    def __call__(self, h: Any, x: Any) -> tuple[Any, Any]:
        """One step: the new state and the output, which are the same."""
        h = self.Wi * x + self.Wh * h + self.b
        return h, h


@mt.differentiable
class TanhCell:
    """An RNN cell over arrays of features × batch."""

    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray
    state0: np.ndarray
    activation: Callable[[Any], Any] = np.tanh

    def __call__(self, h: Any, x: Any) -> tuple[Any, Any]:
        """One step: the new state and the output, which are the same."""
        h = self.activation(self.Wi @ x + self.Wh @ h + self.b)
        return h, h


@mt.differentiable
class Recur:
    """A cell with its state."""

    cell: Any
    state: Any = mt.field(trainable=False)

    def __call__(self, x: Any) -> Any:
        """Take one step and return the output."""
        self.state, y = self.cell(self.state, x)
        return y


def over_time(m: Any, x: Any) -> Any:
    """The sum of squares of the outputs; an input of features × batch × time is taken step by step."""
    if x.ndim < 3:
        return np.sum(m(x) ** 2)
    return sum(np.sum(m(x[:, :, time]) ** 2) for time in range(x.shape[2]))
