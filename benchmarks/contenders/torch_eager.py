"""PyTorch with a cell in Python, operation by operation."""

import torch

NAME = "torch eager"


def rnn_loss(Wi, Wh, b, h0, x):
    h, hs = h0, []
    for x_t in x.unbind(0):
        h = torch.tanh(x_t @ Wi + h @ Wh + b)
        hs.append(h)
    return (torch.stack(hs) ** 2).sum()


def lstm_loss(Wi, Wh, b, h0, c0, x):
    h, c, hs = h0, c0, []
    for x_t in x.unbind(0):
        i, f, g, o = (x_t @ Wi + h @ Wh + b).chunk(4, 1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        hs.append(h)
    return (torch.stack(hs) ** 2).sum()


def gru_loss(Wi, Wh, b, h0, x):
    h, hs = h0, []
    for x_t in x.unbind(0):
        a_r, a_u, a_n = (x_t @ Wi + b).chunk(3, 1)
        s_r, s_u, s_n = (h @ Wh).chunk(3, 1)
        u = torch.sigmoid(a_u + s_u)
        n = torch.tanh(a_n + torch.sigmoid(a_r + s_r) * s_n)
        h = (1 - u) * n + u * h
        hs.append(h)
    return (torch.stack(hs) ** 2).sum()


def mlp_loss(W1, b1, W2, b2, x):
    return ((torch.relu(x @ W1 + b1) @ W2 + b2) ** 2).sum()


def rnn(**arrays):
    return _prepared(rnn_loss, arrays)


def lstm(**arrays):
    return _prepared(lstm_loss, arrays)


def gru(**arrays):
    return _prepared(gru_loss, arrays)


def mlp(**arrays):
    return _prepared(mlp_loss, arrays)


def _prepared(loss, arrays):
    leaves = {name: torch.tensor(array, requires_grad=True) for name, array in arrays.items()}

    def run():
        value = loss(**leaves)
        gradients = torch.autograd.grad(value, tuple(leaves.values()))
        return value.item(), dict(zip(leaves, gradients, strict=True))

    return run
