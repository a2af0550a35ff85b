"""HIPS autograd over pure functions in its own NumPy: the state is handed from step to step."""

import autograd.numpy as np
from autograd import value_and_grad

NAME = "autograd"


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def rnn_loss(arrays):
    Wi, Wh, b, h, x = arrays
    hs = []
    for t in range(len(x)):
        h = np.tanh(x[t] @ Wi + h @ Wh + b)
        hs.append(h)
    return np.sum(np.stack(hs) ** 2)


def lstm_loss(arrays):
    Wi, Wh, b, h, c, x = arrays
    hs = []
    for t in range(len(x)):
        i, f, g, o = np.split(x[t] @ Wi + h @ Wh + b, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        hs.append(h)
    return np.sum(np.stack(hs) ** 2)


def gru_loss(arrays):
    Wi, Wh, b, h, x = arrays
    hs = []
    for t in range(len(x)):
        a_r, a_u, a_n = np.split(x[t] @ Wi + b, 3, axis=1)
        s_r, s_u, s_n = np.split(h @ Wh, 3, axis=1)
        u = sigmoid(a_u + s_u)
        n = np.tanh(a_n + sigmoid(a_r + s_r) * s_n)
        h = (1 - u) * n + u * h
        hs.append(h)
    return np.sum(np.stack(hs) ** 2)


def mlp_loss(arrays):
    W1, b1, W2, b2, x = arrays
    return np.sum((np.maximum(x @ W1 + b1, 0) @ W2 + b2) ** 2)


def rnn(**arrays):
    return _prepared(rnn_loss, arrays)


def lstm(**arrays):
    return _prepared(lstm_loss, arrays)


def gru(**arrays):
    return _prepared(gru_loss, arrays)


def mlp(**arrays):
    return _prepared(mlp_loss, arrays)


def _prepared(loss, arrays):
    value_and_gradients = value_and_grad(loss)  # of the tuple, entry by entry
    names, operands = tuple(arrays), tuple(arrays.values())

    def run():
        value, gradients = value_and_gradients(operands)
        return value, dict(zip(names, gradients, strict=True))

    return run
