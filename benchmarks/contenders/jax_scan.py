"""JAX, compiled: ``jit`` of value and gradient, the steps in a ``lax.scan``. Compiling is not timed."""

import jax
import jax.numpy as jnp
from jax import lax

NAME = "JAX scan"


def rnn_loss(p):
    def step(h, x_t):
        h = jnp.tanh(x_t @ p["Wi"] + h @ p["Wh"] + p["b"])
        return h, h

    return _scanned_loss(step, p["h0"], p["x"])


def lstm_loss(p):
    def step(state, x_t):
        h, c = state
        i, f, g, o = jnp.split(x_t @ p["Wi"] + h @ p["Wh"] + p["b"], 4, axis=1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    return _scanned_loss(step, (p["h0"], p["c0"]), p["x"])


def gru_loss(p):
    def step(h, x_t):
        a_r, a_u, a_n = jnp.split(x_t @ p["Wi"] + p["b"], 3, axis=1)
        s_r, s_u, s_n = jnp.split(h @ p["Wh"], 3, axis=1)
        u = jax.nn.sigmoid(a_u + s_u)
        n = jnp.tanh(a_n + jax.nn.sigmoid(a_r + s_r) * s_n)
        h = (1 - u) * n + u * h
        return h, h

    return _scanned_loss(step, p["h0"], p["x"])


def _scanned_loss(step, start, x):
    _, hs = lax.scan(step, start, x)
    return jnp.sum(hs**2)


def mlp_loss(p):
    return jnp.sum((jnp.maximum(p["x"] @ p["W1"] + p["b1"], 0) @ p["W2"] + p["b2"]) ** 2)


def rnn(**arrays):
    return _compiled(rnn_loss, arrays)


def lstm(**arrays):
    return _compiled(lstm_loss, arrays)


def gru(**arrays):
    return _compiled(gru_loss, arrays)


def mlp(**arrays):
    return _compiled(mlp_loss, arrays)


def _compiled(loss, arrays):
    value_and_gradients = jax.jit(jax.value_and_grad(loss))
    on_device = {name: jnp.asarray(array) for name, array in arrays.items()}

    def run():
        return jax.block_until_ready(value_and_gradients(on_device))

    return run
