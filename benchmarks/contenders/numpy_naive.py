"""NumPy with hand-written gradients, step by step: what a careful person writes at first."""

from functools import partial

import numpy as np

NAME = "numpy naive"


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


def rnn(**arrays):
    return partial(_rnn, **arrays)


def lstm(**arrays):
    return partial(_lstm, **arrays)


def gru(**arrays):
    return partial(_gru, **arrays)


def mlp(**arrays):
    return partial(_mlp, **arrays)


def _rnn(Wi, Wh, b, h0, x):
    value = 0.0
    hs = [h0]
    for x_t in x:
        h = np.tanh(x_t @ Wi + hs[-1] @ Wh + b)
        value += float(np.sum(h * h))
        hs.append(h)

    Wi_bar, Wh_bar, b_bar, x_bar = (np.zeros_like(a) for a in (Wi, Wh, b, x))
    h_bar = np.zeros_like(h0)
    for t in reversed(range(len(x))):
        h_bar = h_bar + 2 * hs[t + 1]
        z_bar = h_bar * (1 - hs[t + 1] ** 2)
        Wi_bar += x[t].T @ z_bar
        Wh_bar += hs[t].T @ z_bar
        b_bar += np.sum(z_bar, axis=0)
        x_bar[t] = z_bar @ Wi.T
        h_bar = z_bar @ Wh.T
    return value, {"Wi": Wi_bar, "Wh": Wh_bar, "b": b_bar, "h0": h_bar, "x": x_bar}


def _lstm(Wi, Wh, b, h0, c0, x):
    value = 0.0
    h, c = h0, c0
    steps = []
    for x_t in x:
        z_i, z_f, z_g, z_o = np.split(x_t @ Wi + h @ Wh + b, 4, axis=1)
        i, f, g, o = sigmoid(z_i), sigmoid(z_f), np.tanh(z_g), sigmoid(z_o)
        h_before, c_before = h, c
        c = f * c + i * g
        tanh_c = np.tanh(c)
        h = o * tanh_c
        value += float(np.sum(h * h))
        steps.append((x_t, h_before, c_before, i, f, g, o, tanh_c, h))

    Wi_bar, Wh_bar, b_bar, x_bar = (np.zeros_like(a) for a in (Wi, Wh, b, x))
    h_bar, c_bar = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(len(x))):
        x_t, h_before, c_before, i, f, g, o, tanh_c, h = steps[t]
        h_bar = h_bar + 2 * h
        c_bar = c_bar + h_bar * o * (1 - tanh_c**2)
        z_bar = np.concatenate(
            [
                c_bar * g * i * (1 - i),
                c_bar * c_before * f * (1 - f),
                c_bar * i * (1 - g**2),
                h_bar * tanh_c * o * (1 - o),
            ],
            axis=1,
        )
        Wi_bar += x_t.T @ z_bar
        Wh_bar += h_before.T @ z_bar
        b_bar += np.sum(z_bar, axis=0)
        x_bar[t] = z_bar @ Wi.T
        h_bar = z_bar @ Wh.T
        c_bar = c_bar * f
    return value, {"Wi": Wi_bar, "Wh": Wh_bar, "b": b_bar, "h0": h_bar, "c0": c_bar, "x": x_bar}


def _gru(Wi, Wh, b, h0, x):
    value = 0.0
    h = h0
    steps = []
    for x_t in x:
        a_r, a_u, a_n = np.split(x_t @ Wi + b, 3, axis=1)
        s_r, s_u, s_n = np.split(h @ Wh, 3, axis=1)
        r, u = sigmoid(a_r + s_r), sigmoid(a_u + s_u)
        n = np.tanh(a_n + r * s_n)
        h_before = h
        h = (1 - u) * n + u * h
        value += float(np.sum(h * h))
        steps.append((x_t, h_before, s_n, r, u, n, h))

    Wi_bar, Wh_bar, b_bar, x_bar = (np.zeros_like(a) for a in (Wi, Wh, b, x))
    h_bar = np.zeros_like(h0)
    for t in reversed(range(len(x))):
        x_t, h_before, s_n, r, u, n, h = steps[t]
        h_bar = h_bar + 2 * h
        n_bar = h_bar * (1 - u) * (1 - n**2)
        r_bar = n_bar * s_n * r * (1 - r)
        u_bar = h_bar * (h_before - n) * u * (1 - u)
        a_bar = np.concatenate([r_bar, u_bar, n_bar], axis=1)
        s_bar = np.concatenate([r_bar, u_bar, n_bar * r], axis=1)
        Wi_bar += x_t.T @ a_bar
        Wh_bar += h_before.T @ s_bar
        b_bar += np.sum(a_bar, axis=0)
        x_bar[t] = a_bar @ Wi.T
        h_bar = h_bar * u + s_bar @ Wh.T
    return value, {"Wi": Wi_bar, "Wh": Wh_bar, "b": b_bar, "h0": h_bar, "x": x_bar}


def _mlp(W1, b1, W2, b2, x):
    hidden = np.maximum(x @ W1 + b1, 0)
    y = hidden @ W2 + b2
    value = float(np.sum(y * y))

    y_bar = 2 * y
    hidden_bar = (y_bar @ W2.T) * (hidden > 0)
    return value, {
        "W1": x.T @ hidden_bar,
        "b1": np.sum(hidden_bar, axis=0),
        "W2": hidden.T @ y_bar,
        "b2": np.sum(y_bar, axis=0),
        "x": hidden_bar @ W1.T,
    }
