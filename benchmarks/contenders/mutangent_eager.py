"""mutangent over the user's plain NumPy code: small cells that keep their state in themselves."""

import numpy as np

import mutangent as mt

NAME = "mutangent"


def sigmoid(a):
    return 1 / (1 + np.exp(-a))


@mt.differentiable
class RNN:
    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray
    h: np.ndarray = mt.field(trainable=False)

    def __call__(self, x):
        self.h = np.tanh(x @ self.Wi + self.h @ self.Wh + self.b)
        return self.h


@mt.differentiable
class LSTM:
    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray
    h: np.ndarray = mt.field(trainable=False)
    c: np.ndarray = mt.field(trainable=False)

    def __call__(self, x):
        i, f, g, o = np.split(x @ self.Wi + self.h @ self.Wh + self.b, 4, axis=1)
        self.c = sigmoid(f) * self.c + sigmoid(i) * np.tanh(g)
        self.h = sigmoid(o) * np.tanh(self.c)
        return self.h


@mt.differentiable
class GRU:
    Wi: np.ndarray
    Wh: np.ndarray
    b: np.ndarray
    h: np.ndarray = mt.field(trainable=False)

    def __call__(self, x):
        a_r, a_u, a_n = np.split(x @ self.Wi + self.b, 3, axis=1)
        s_r, s_u, s_n = np.split(self.h @ self.Wh, 3, axis=1)
        u = sigmoid(a_u + s_u)
        n = np.tanh(a_n + sigmoid(a_r + s_r) * s_n)
        self.h = (1 - u) * n + u * self.h
        return self.h


@mt.differentiable
class MLP:
    W1: np.ndarray
    b1: np.ndarray
    W2: np.ndarray
    b2: np.ndarray

    def __call__(self, x):
        return np.maximum(x @ self.W1 + self.b1, 0) @ self.W2 + self.b2


def loss_of_sequence(model, xs):
    return np.sum(np.stack([model(x) for x in xs]) ** 2)


def loss_of_batch(model, x):
    return np.sum(model(x) ** 2)


sequence_gradients = mt.value_and_grad(loss_of_sequence, argnums=(0, 1))
batch_gradients = mt.value_and_grad(loss_of_batch, argnums=(0, 1))


def rnn(Wi, Wh, b, h0, x):
    return _recurrent(RNN(Wi, Wh, b, h0), h0, x)


def gru(Wi, Wh, b, h0, x):
    return _recurrent(GRU(Wi, Wh, b, h0), h0, x)


def _recurrent(model, h0, x):
    def run():
        model.h = h0
        value, (dm, dx) = sequence_gradients(model, x)
        return value, {"Wi": dm.Wi, "Wh": dm.Wh, "b": dm.b, "h0": dm.h, "x": dx}

    return run


def lstm(Wi, Wh, b, h0, c0, x):
    model = LSTM(Wi, Wh, b, h0, c0)

    def run():
        model.h, model.c = h0, c0
        value, (dm, dx) = sequence_gradients(model, x)
        return value, {"Wi": dm.Wi, "Wh": dm.Wh, "b": dm.b, "h0": dm.h, "c0": dm.c, "x": dx}

    return run


def mlp(W1, b1, W2, b2, x):
    model = MLP(W1, b1, W2, b2)

    def run():
        value, (dm, dx) = batch_gradients(model, x)
        return value, {"W1": dm.W1, "b1": dm.b1, "W2": dm.W2, "b2": dm.b2, "x": dx}

    return run
