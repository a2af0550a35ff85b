"""What the LSTM and the GRU do after their matrix products, as one entry of the tape each.

The cells are written with NumPy functions, a dozen entries per step. In an ordinary recording of NumPy arrays one entry
with a derivative by hand takes their place: a third less time for small layers, and less memory for all. Everywhere else
(forward mode, derivatives of derivatives, CuPy arrays, a history of fields, a state that is yet to broadcast to the batch)
the cells run as they are written.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mutangent._apply import append_joint, common_tape
from mutangent._rulebook import Rule, joint


def lstm_step(z: Any, c: Any) -> tuple[Any, Any] | None:
    """The new h and c of an LSTM from the inputs of its gates and the old c; None where the cell is to do it itself.

    Parameters
    ----------
    z : array of shape (4 * units, batch)
        Input gate, forget gate, candidate, output gate, before their activations.
    c : array of shape (units, batch)
    """
    tape = common_tape((z, c))
    if tape is None:
        return None
    z_value, c_value = z._value, c._value
    units = c_value.shape[0]
    if z_value.shape != (4 * units, *c_value.shape[1:]) or z_value.dtype is not c_value.dtype:
        return None
    gates = _sigmoid(z_value)
    candidate = np.tanh(z_value[2 * units : 3 * units])
    c_new = gates[units : 2 * units] * c_value
    c_new += gates[:units] * candidate
    squashed = np.tanh(c_new)
    h_new = gates[3 * units :] * squashed
    h, c = append_joint(tape, _LSTM, (z, c), (gates, candidate, c_value, squashed), (h_new, c_new))
    return h, c


def _lstm_pullback(g: Any, _y: Any, gates: Any, candidate: Any, c: Any, squashed: Any) -> tuple[Any, Any]:
    h_bar, c_new_bar = g
    units = c.shape[0]
    if type(h_bar) is not np.ndarray or type(c_new_bar) is not np.ndarray:  # traced by an outer recording
        i, f, o = gates[:units], gates[units : 2 * units], gates[3 * units :]
        c_bar = h_bar * (o * (1 - squashed * squashed)) + c_new_bar
        parts = [c_bar * (candidate * i * (1 - i)), c_bar * (c * f * (1 - f))]
        parts += [c_bar * (i * (1 - candidate * candidate)), h_bar * (squashed * o * (1 - o))]
        return np.concatenate(parts), c_bar * f
    c_bar = squashed * squashed
    np.subtract(1, c_bar, out=c_bar)
    c_bar *= gates[3 * units :]
    c_bar *= h_bar
    c_bar += c_new_bar
    z_bar = np.subtract(1, gates)
    z_bar *= gates
    z_bar[:units] *= c_bar * candidate
    z_bar[units : 2 * units] *= c_bar * c
    z_bar[3 * units :] *= h_bar * squashed
    of_candidate = z_bar[2 * units : 3 * units]
    np.multiply(candidate, candidate, out=of_candidate)
    np.subtract(1, of_candidate, out=of_candidate)
    of_candidate *= gates[:units]
    of_candidate *= c_bar
    c_bar *= gates[units : 2 * units]
    return z_bar, c_bar


def gru_step(from_x: Any, from_h: Any, h: Any) -> Any:
    """The new h of a GRU from what comes from its input and its state; None where the cell is to do it itself.

    Parameters
    ----------
    from_x, from_h : array of shape (3 * units, batch)
        Reset gate, update gate and candidate: ``Wi @ x + b`` and ``Wh @ h``.
    h : array of shape (units, batch)
    """
    tape = common_tape((from_x, from_h, h))
    if tape is None:
        return None
    x_value, h_value, old = from_x._value, from_h._value, h._value
    units = old.shape[0]
    shape = (3 * units, *old.shape[1:])
    if x_value.shape != shape or h_value.shape != shape or not (x_value.dtype is h_value.dtype is old.dtype):
        return None
    gates = _sigmoid(x_value[: 2 * units] + h_value[: 2 * units])
    hidden = h_value[2 * units :]
    candidate = gates[:units] * hidden
    candidate += x_value[2 * units :]
    np.tanh(candidate, out=candidate)
    change = old - candidate
    new = gates[units:] * change
    new += candidate
    return append_joint(tape, _GRU, (from_x, from_h, h), (gates, hidden, candidate, change), (new,))[0]


def _gru_pullback(g: Any, _y: Any, gates: Any, hidden: Any, candidate: Any, change: Any) -> tuple[Any, ...]:
    units = hidden.shape[0]
    reset, update = gates[:units], gates[units:]
    h_bar = g * update
    if type(g) is not np.ndarray:  # traced by an outer recording
        of_candidate = (g - h_bar) * (1 - candidate * candidate)
        of_gates = np.concatenate([of_candidate * hidden, g * change]) * (gates * (1 - gates))
        return (
            np.concatenate([of_gates, of_candidate]),
            np.concatenate([of_gates, of_candidate * reset]),
            h_bar,
        )
    from_x_bar = np.empty((3 * units, *g.shape[1:]), g.dtype)
    of_gates, of_candidate = from_x_bar[: 2 * units], from_x_bar[2 * units :]
    np.multiply(candidate, candidate, out=of_candidate)
    np.subtract(1, of_candidate, out=of_candidate)
    of_candidate *= g - h_bar
    np.subtract(1, gates, out=of_gates)
    of_gates *= gates
    of_gates[:units] *= of_candidate * hidden
    of_gates[units:] *= g * change
    from_h_bar = from_x_bar.copy()
    from_h_bar[2 * units :] *= reset
    return from_x_bar, from_h_bar, h_bar


def _sigmoid(z: Any) -> Any:
    """As `nn.sigmoid`, in one buffer."""
    made = z * 0.5
    np.tanh(made, out=made)
    made *= 0.5
    made += 0.5
    return made


_LSTM: Final[Rule] = joint("LSTMCell", _lstm_pullback, multiple=True)
_GRU: Final[Rule] = joint("GRUCell", _gru_pullback)
