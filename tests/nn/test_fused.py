"""The cells in one entry agree with the cells as they are written, wherever they take their place."""

import numpy as np
import pytest

import mutangent as mt
from mutangent.nn import _cells

nn = mt.nn
UNITS, FEATURES, BATCH, STEPS = 3, 2, 4, 5


@pytest.fixture
def calls(monkeypatch):
    """Counts the steps that were recorded as one entry."""
    counted = {"fused": 0}

    def counting(step):
        def counted_step(*operands):
            made = step(*operands)
            counted["fused"] += made is not None
            return made

        return counted_step

    monkeypatch.setattr(_cells, "lstm_step", counting(_cells.lstm_step))
    monkeypatch.setattr(_cells, "gru_step", counting(_cells.gru_step))
    return counted


def as_written(monkeypatch):
    monkeypatch.setattr(_cells, "lstm_step", lambda *_: None)
    monkeypatch.setattr(_cells, "gru_step", lambda *_: None)


def make(kind, dtype=np.float64, batch=BATCH):
    rng = np.random.default_rng(3)

    def normal(*shape):
        return rng.normal(size=shape).astype(dtype)

    gates = {"LSTM": 4, "GRU": 3}[kind] * UNITS
    parameters = normal(gates, FEATURES), normal(gates, UNITS), normal(gates)
    if kind == "LSTM":
        cell = nn.LSTMCell(*parameters, (normal(UNITS, 1), normal(UNITS, 1)))
        state = normal(UNITS, batch), normal(UNITS, batch)
    else:
        cell = nn.GRUCell(*parameters, normal(UNITS, 1))
        state = normal(UNITS, batch)
    return nn.Recur(cell, state), normal(STEPS, FEATURES, batch)


def loss(m, xs):
    return np.sum(np.sin(np.stack([m(x) for x in xs])))


def numbers(tangent):
    return [tangent.cell.Wi, tangent.cell.Wh, tangent.cell.b, *np.atleast_3d(np.asarray(tangent.state))]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_one_entry_gives_what_the_written_cell_gives(kind, dtype, calls, monkeypatch):
    results = []
    for fused in (True, False):
        if not fused:
            as_written(monkeypatch)
        m, xs = make(kind, dtype)
        value, (dm, dxs) = mt.value_and_grad(loss, argnums=(0, 1))(m, xs)
        results.append([value, dxs, *numbers(dm), *np.atleast_3d(np.asarray(m.state))])
    assert calls["fused"] == STEPS
    assert results[0][0] == results[1][0], "the values are the same to the last bit"
    tolerance = {np.float32: 2e-6, np.float64: 1e-14}[dtype]
    for a, b in zip(*results, strict=True):
        assert a.dtype == b.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * max(1, np.max(np.abs(b))))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_two_sweeps_with_cotangents_of_output_and_state_agree(kind, calls, monkeypatch):
    def run():
        m, xs = make(kind)
        out, pullback = mt.vjp(lambda m, xs: (m(xs[0]), m(xs[1])), m, xs)
        state_bar = tuple(np.cos(s) for s in m.state) if kind == "LSTM" else np.cos(m.state)
        seeds = mt.IdentityMap([(m, mt.Tangent(nn.Recur, state=state_bar))])
        cotangent = tuple(np.sin(y) for y in out)
        return [pullback(cotangent, seeds) for _ in range(2)]

    first, second = run()
    assert calls["fused"] == 2
    as_written(monkeypatch)
    third, _ = run()
    for other, atol in ((second, 0), (third, 1e-14)):
        for a, b in zip([first[1], *numbers(first[0])], [other[1], *numbers(other[0])], strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=atol)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_the_pullback_may_be_differentiated_with_respect_to_its_cotangent(kind, calls, monkeypatch):
    y_bar = np.random.default_rng(1).normal(size=(UNITS, BATCH))

    def run():
        m, xs = make(kind)
        _, pullback = mt.vjp(lambda m: m(xs[1]) + m(xs[0]), m)

        def through_pullback(y_bar):
            (dm,) = pullback(y_bar)
            return np.sum(np.sin(dm.cell.Wi)) + np.sum(dm.cell.Wh**2)

        return mt.grad(through_pullback)(y_bar)

    found = run()
    assert calls["fused"] == 2
    as_written(monkeypatch)
    np.testing.assert_allclose(found, run(), rtol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_forward_mode_and_second_derivatives_run_the_written_cell(kind, calls):
    m, xs = make(kind)
    mt.jvp(lambda xs: loss(m, xs), (xs,), (xs,))
    mt.hvp(lambda xs: loss(m, xs), (xs,), (xs,))
    assert calls["fused"] == 0
    mt.testing.check_grads(loss, (m, xs[:2]), order=2, modes=("rev", "fwd"))


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_a_state_that_is_yet_to_broadcast_takes_the_written_cell_once(kind, calls):
    m, xs = make(kind)
    nn.reset(m)
    mt.testing.check_grads(loss, (m, xs), order=1, modes=("rev",))
    calls["fused"] = 0
    nn.reset(m)
    mt.grad(loss)(m, xs)
    assert calls["fused"] == STEPS - 1


def test_a_plain_call_is_not_recorded(calls):
    m, xs = make("LSTM")
    loss(m, xs)
    assert calls["fused"] == 0


def test_a_state_written_in_place_after_its_step_leaves_the_step_as_it_was(calls, monkeypatch):
    def run():
        m, xs = make("GRU")

        def overwriting(m, xs):
            y = np.sum(m(xs[0]) ** 2)
            m.state[:] = m.state * 2.0
            m.state[0] = 1.0
            return y + np.sum(m(xs[1]))

        return numbers(mt.grad(overwriting)(m, xs))

    found = run()
    assert calls["fused"] == 2
    as_written(monkeypatch)
    for a, b in zip(found, run(), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-14)
