"""PyTorch's own layers: ``torch.nn.RNN``, ``LSTM`` and ``GRU``, whose sequence is one call, and ``Linear``."""

import torch
from torch import nn

NAME = "torch.nn"


def rnn(h0, x, **parameters):
    return _recurrent(nn.RNN, parameters, {"h0": h0}, x)


def gru(h0, x, **parameters):
    return _recurrent(nn.GRU, parameters, {"h0": h0}, x)


def lstm(h0, c0, x, **parameters):
    return _recurrent(nn.LSTM, parameters, {"h0": h0, "c0": c0}, x)


def _recurrent(layer_class, parameters, state, x):
    layer = layer_class(x.shape[2], state["h0"].shape[1])
    # Its weights are transposed, and it has two biases where ours have one. Its order of the gates is ours.
    with torch.no_grad():
        layer.weight_ih_l0.copy_(torch.tensor(parameters["Wi"]).T)
        layer.weight_hh_l0.copy_(torch.tensor(parameters["Wh"]).T)
        layer.bias_ih_l0.copy_(torch.tensor(parameters["b"]))
        layer.bias_hh_l0.zero_()
    layer.bias_hh_l0.requires_grad_(requires_grad=False)
    x_leaf = torch.tensor(x, requires_grad=True)
    states = {name: torch.tensor(array[None], requires_grad=True) for name, array in state.items()}
    start = tuple(states.values())
    leaves = (layer.weight_ih_l0, layer.weight_hh_l0, layer.bias_ih_l0, x_leaf, *start)

    def run():
        ys, _ = layer(x_leaf, start if len(start) > 1 else start[0])
        value = (ys**2).sum()
        Wi_bar, Wh_bar, b_bar, x_bar, *starts_bar = torch.autograd.grad(value, leaves)
        gradients = {"Wi": Wi_bar.T, "Wh": Wh_bar.T, "b": b_bar, "x": x_bar}
        for name, start_bar in zip(states, starts_bar, strict=True):
            gradients[name] = start_bar[0]
        return value.item(), gradients

    return run


def mlp(W1, b1, W2, b2, x):
    first, last = nn.Linear(*W1.shape), nn.Linear(*W2.shape)
    with torch.no_grad():
        for layer, weight, bias in ((first, W1, b1), (last, W2, b2)):
            layer.weight.copy_(torch.tensor(weight).T)
            layer.bias.copy_(torch.tensor(bias))
    model = nn.Sequential(first, nn.ReLU(), last)
    x_leaf = torch.tensor(x, requires_grad=True)
    leaves = (first.weight, first.bias, last.weight, last.bias, x_leaf)

    def run():
        value = (model(x_leaf) ** 2).sum()
        W1_bar, b1_bar, W2_bar, b2_bar, x_bar = torch.autograd.grad(value, leaves)
        return value.item(), {"W1": W1_bar.T, "b1": b1_bar, "W2": W2_bar.T, "b2": b2_bar, "x": x_bar}

    return run
