"""Nothing crosses between host and device, and nothing waits for the device, unless the user asks for a value."""

import numpy as np
import pytest

import mutangent as mt


@pytest.fixture
def cp(cp, request):
    if request.config.getoption("--arrays") == "cupy":
        pytest.skip("what crosses is seen in the host's memory only: --arrays=cupy-host")
    return cp


def net_of(kind, cp):
    rng = np.random.default_rng(3)
    net = mt.nn.Chain(
        getattr(mt.nn, kind)(2, 3, rng=rng, dtype=np.float64), mt.nn.Dense(3, 1, rng=rng, dtype=np.float64)
    )
    xs = rng.normal(size=(5, 2, 4))
    moved = mt.to_device(net)
    assert moved is net
    return net, cp.asarray(xs)


def loss(net, xs):
    total = 0.0
    for x in xs:
        total = total + np.sum(net(x) ** 2)
    return total


def crossings_of(call):
    from tests.arrays.cupy_on_host import watched

    with watched() as crossings:
        call()
    return crossings


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_recurrent_net_crosses_nowhere(cp, kind):
    net, xs = net_of(kind, cp)
    assert crossings_of(lambda: mt.value_and_grad(loss)(net, xs)) == []
    assert crossings_of(lambda: mt.vjp(loss, net, xs)[1](1.0)) == []


def test_a_context_crosses_nowhere(cp):
    net, xs = net_of("LSTM", cp)

    def run():
        with mt.Context() as ctx:
            out = loss(net, xs)
        return ctx.grad(out, net)

    assert crossings_of(run) == []


def test_forward_mode_crosses_nowhere(cp):
    x = cp.ones((2, 3))
    assert crossings_of(lambda: mt.jvp(lambda x: np.sum(np.tanh(x @ x.T)), (x,), (cp.ones((2, 3)),))) == []


@pytest.mark.parametrize("optimiser", [mt.optim.SGD(0.1), mt.optim.Adam(0.1)], ids=["SGD", "Adam"])
def test_an_optimiser_crosses_nowhere(cp, optimiser):
    net, xs = net_of("LSTM", cp)
    tangent = mt.grad(loss)(net, xs)
    assert crossings_of(lambda: [optimiser.update(net, tangent) for _ in range(2)]) == []


def test_writes_in_place_cross_nowhere(cp):
    @mt.differentiable
    class Buffer:
        rows: np.ndarray
        scale: np.ndarray

    def fill(m, x):
        for k in range(4):
            m.rows[k] = np.tanh(m.scale * x[k])
            m.rows[k] *= 2.0
        m.rows[1:] += m.rows[:-1]
        return np.sum(m.rows**2)

    m, x = Buffer(cp.zeros((4, 3)), cp.ones(3)), cp.ones((4, 3))
    assert crossings_of(lambda: mt.value_and_grad(fill)(m, x)) == []


def test_an_index_crosses_once_and_not_again_in_the_backward_pass(cp):
    x = cp.arange(6.0)
    crossings = crossings_of(lambda: mt.grad(lambda x: np.sum(x[[0, 2, 2]] ** 2))(x))
    assert len(crossings) == 1, crossings
    at = cp.array([0, 2, 2])
    assert crossings_of(lambda: mt.grad(lambda x: np.sum(x[at] ** 2))(x)) == []


def test_the_watch_sees_what_crosses(cp):
    x = cp.ones(3)
    for crossing in (
        x.get,
        lambda: float(x.sum()),
        lambda: bool(x.sum()),
        lambda: cp.asarray([1.0]),
        lambda: x[x > 0],
    ):
        assert crossings_of(crossing), "a crossing that nobody notes is no test"
