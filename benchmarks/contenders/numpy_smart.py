"""NumPy with hand-written gradients, rearranged: one product for all inputs, one for each weight's gradient.

Whatever does not wait for the previous step is done for all steps at once, and the loops write into arrays
made before them. This is about as fast as NumPy goes.
"""

from functools import partial

import numpy as np

NAME = "numpy smart"


def rnn(**arrays):
    return partial(_rnn, **arrays)


def lstm(**arrays):
    return partial(_lstm, **arrays)


def gru(**arrays):
    return partial(_gru, **arrays)


def mlp(**arrays):
    return partial(_mlp, **arrays)


def _sigmoid_in_place(a):
    np.negative(a, out=a)
    np.exp(a, out=a)
    a += 1
    np.reciprocal(a, out=a)


def _rows(a):
    """Steps and batch as one axis."""
    return a.reshape(-1, a.shape[-1])


def _column_sums(a):
    return np.ones(len(a), a.dtype) @ a


def _input_products(x, Wi, b):
    z = _rows(x) @ Wi
    z += b
    return z.reshape(*x.shape[:2], -1)


def _weight_gradients(x, Wi, hs, a_bar, s_bar):
    """The products left to do after the loop; `a_bar` and `s_bar` are of ``x @ Wi + b`` and of ``h @ Wh``."""
    a_bar, s_bar = _rows(a_bar), _rows(s_bar)
    return {
        "Wi": _rows(x).T @ a_bar,
        "Wh": _rows(hs[:-1]).T @ s_bar,
        "b": _column_sums(a_bar),
        "x": (a_bar @ Wi.T).reshape(x.shape),
    }


def _rnn(Wi, Wh, b, h0, x):
    z = _input_products(x, Wi, b)
    hs = np.empty((len(x) + 1, *h0.shape), h0.dtype)
    hs[0] = h0
    for t in range(len(x)):
        h = np.dot(hs[t], Wh, out=hs[t + 1])
        h += z[t]
        np.tanh(h, out=h)
    ys = hs[1:]

    slope = 1 - ys * ys
    ys_bar = 2 * ys
    z_bar = np.empty_like(z)
    h_bar = np.zeros_like(h0)
    for t in reversed(range(len(x))):
        h_bar += ys_bar[t]
        np.multiply(h_bar, slope[t], out=z_bar[t])
        np.dot(z_bar[t], Wh.T, out=h_bar)
    return float(np.vdot(ys, ys)), {**_weight_gradients(x, Wi, hs, z_bar, z_bar), "h0": h_bar}


def _lstm(Wi, Wh, b, h0, c0, x):
    steps, (batch, n) = len(x), h0.shape
    z = _input_products(x, Wi, b)  # becomes the gates, in place
    hs = np.empty((steps + 1, batch, n), h0.dtype)
    cs = np.empty_like(hs)
    tanh_cs = np.empty((steps, batch, n), h0.dtype)
    hs[0], cs[0] = h0, c0
    product = np.empty((batch, 4 * n), h0.dtype)
    for t in range(steps):
        gates = z[t]
        gates += np.dot(hs[t], Wh, out=product)
        g = gates[:, 2 * n : 3 * n]
        _sigmoid_in_place(gates[:, : 2 * n])
        np.tanh(g, out=g)
        _sigmoid_in_place(gates[:, 3 * n :])
        c = np.multiply(gates[:, n : 2 * n], cs[t], out=cs[t + 1])
        c += gates[:, :n] * g
        np.tanh(c, out=tanh_cs[t])
        np.multiply(gates[:, 3 * n :], tanh_cs[t], out=hs[t + 1])
    ys = hs[1:]

    i, f, g, o = np.moveaxis(z.reshape(steps, batch, 4, n), 2, 0)
    ys_bar = 2 * ys
    c_slope = o * (1 - tanh_cs * tanh_cs)
    slopes = np.empty((steps, batch, 4, n), h0.dtype)  # of i, f and g by c, of o by h
    np.multiply(g * i, 1 - i, out=slopes[:, :, 0])
    np.multiply(cs[:-1] * f, 1 - f, out=slopes[:, :, 1])
    np.multiply(i, 1 - g * g, out=slopes[:, :, 2])
    np.multiply(tanh_cs * o, 1 - o, out=slopes[:, :, 3])
    z_bar = np.empty_like(slopes)
    h_bar, c_bar = np.zeros_like(h0), np.zeros_like(c0)
    for t in reversed(range(steps)):
        h_bar += ys_bar[t]
        c_bar += h_bar * c_slope[t]
        np.multiply(c_bar[:, None], slopes[t, :, :3], out=z_bar[t, :, :3])
        np.multiply(h_bar, slopes[t, :, 3], out=z_bar[t, :, 3])
        c_bar *= f[t]
        np.dot(z_bar[t].reshape(batch, -1), Wh.T, out=h_bar)
    z_bar = z_bar.reshape(z.shape)
    return float(np.vdot(ys, ys)), {**_weight_gradients(x, Wi, hs, z_bar, z_bar), "h0": h_bar, "c0": c_bar}


def _gru(Wi, Wh, b, h0, x):
    steps, (batch, n) = len(x), h0.shape
    a = _input_products(x, Wi, b)  # becomes the gates, in place
    s = np.empty_like(a)
    hs = np.empty((steps + 1, batch, n), h0.dtype)
    hs[0] = h0
    for t in range(steps):
        gates = a[t]
        np.dot(hs[t], Wh, out=s[t])
        ru, candidate = gates[:, : 2 * n], gates[:, 2 * n :]
        ru += s[t, :, : 2 * n]
        _sigmoid_in_place(ru)
        candidate += ru[:, :n] * s[t, :, 2 * n :]
        np.tanh(candidate, out=candidate)
        h = np.subtract(hs[t], candidate, out=hs[t + 1])
        h *= ru[:, n:]
        h += candidate
    ys = hs[1:]

    r, u, candidate = np.moveaxis(a.reshape(steps, batch, 3, n), 2, 0)
    ys_bar = 2 * ys
    a_slopes = np.empty((steps, batch, 3, n), h0.dtype)
    np.multiply(1 - u, 1 - candidate * candidate, out=a_slopes[:, :, 2])
    np.multiply(a_slopes[:, :, 2] * s[:, :, 2 * n :] * r, 1 - r, out=a_slopes[:, :, 0])
    np.multiply((hs[:-1] - candidate) * u, 1 - u, out=a_slopes[:, :, 1])
    s_slopes = a_slopes.copy()
    s_slopes[:, :, 2] *= r
    a_bar, s_bar = np.empty_like(a_slopes), np.empty_like(s_slopes)
    h_bar = np.zeros_like(h0)
    for t in reversed(range(steps)):
        h_bar += ys_bar[t]
        np.multiply(h_bar[:, None], a_slopes[t], out=a_bar[t])
        np.multiply(h_bar[:, None], s_slopes[t], out=s_bar[t])
        h_bar *= u[t]
        h_bar += s_bar[t].reshape(batch, -1) @ Wh.T
    a_bar, s_bar = a_bar.reshape(a.shape), s_bar.reshape(a.shape)
    return float(np.vdot(ys, ys)), {**_weight_gradients(x, Wi, hs, a_bar, s_bar), "h0": h_bar}


def _mlp(W1, b1, W2, b2, x):
    hidden = x @ W1
    hidden += b1
    np.maximum(hidden, 0, out=hidden)
    y = hidden @ W2
    y += b2

    y_bar = 2 * y
    hidden_bar = y_bar @ W2.T
    hidden_bar *= hidden > 0
    return float(np.vdot(y, y)), {
        "W1": x.T @ hidden_bar,
        "b1": _column_sums(hidden_bar),
        "W2": hidden.T @ y_bar,
        "b2": _column_sums(y_bar),
        "x": hidden_bar @ W1.T,
    }
