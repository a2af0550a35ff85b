"""The generators of `numpy.random` and `random`: the second run draws what the first one drew, and nobody else notices.

The factor `p.x` is 0, where nothing but the derivative shows another number.
"""

# ruff: noqa: NPY002 - it is about the generator behind these functions

import random
from queue import SimpleQueue

import numpy as np
import pytest

import mutangent as mt
from mutangent import _global_generators
from tests.checkpoint.test_remembered import WAYS


@mt.differentiable
class P:
    x: object = 0.0


@pytest.fixture(autouse=True)
def bit_generator():
    before = np.random.get_bit_generator()
    yield
    np.random.set_bit_generator(before)


def seed_both(seed=7):
    np.random.seed(seed)
    random.seed(seed)


def reseeding():
    np.random.seed(1)
    return np.random.normal()


DRAWS = {
    "np.random.normal": np.random.normal,
    "np.random.rand": np.random.rand,
    "np.random.permutation": lambda: float(np.random.permutation(10)[0]) + 1.5,
    "np.random.seed": reseeding,
    "random.random": random.random,
    "random.gauss": lambda: random.gauss(0.0, 1.0),
    "random.choice": lambda: random.choice([1.0, 2.0, 3.0]),
    "both": lambda: np.random.normal() + random.gauss(0.0, 1.0),
    "neither": lambda: 2.0,
}


def next_numbers():
    return np.random.normal(), np.random.normal(), np.random.rand(), random.gauss(0.0, 1.0), random.random()


def slopes(f):
    seed_both(3)
    _, pullback = mt.vjp(lambda p: f(p, None), P())
    return float(pullback(1.0)[0].x), float(pullback(1.0)[0].x), *next_numbers()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("draw", DRAWS)
def test_the_second_run_draws_the_same_numbers_and_the_next_ones_are_those_of_the_plain_run(draw, way):
    def f(p, _):
        return p.x * (DRAWS[draw]() + 1.5 * DRAWS[draw]())

    plain, checkpointed = way(f)
    np.testing.assert_allclose(slopes(checkpointed), slopes(plain))


@pytest.mark.parametrize("draw", DRAWS)
def test_second_and_forward_derivatives_are_those_without_a_checkpoint(draw):
    def f(x):
        return np.sin(x) * DRAWS[draw]()

    def found(f):
        seed_both(3)
        along = lambda x: f(x) + f(x) ** 2
        return (
            mt.grad(mt.grad(along))(0.5),
            mt.jvp(along, (0.5,), (1.0,))[1],
            mt.jvp(mt.grad(along), (0.5,), (1.0,))[1],
            mt.grad(lambda x: mt.jvp(along, (x,), (1.0,))[1])(0.5),
            *next_numbers(),
        )

    np.testing.assert_allclose(found(mt.checkpoint(f)), found(f))


def test_what_is_drawn_between_the_runs_and_after_them_is_not_drawn_again():
    seed_both()
    _, pullback = mt.vjp(mt.checkpoint(lambda p: p.x * np.random.normal()), P())
    between = np.random.normal()
    slope = pullback(1.0)[0].x
    after = np.random.normal()
    seed_both()
    assert [slope, between, after] == [np.random.normal() for _ in range(3)]


def test_a_state_of_numpys_that_is_set_is_seen_though_only_the_half_of_a_pair_is_another():
    f = mt.checkpoint(lambda p: p.x * np.random.normal())
    np.random.normal()
    with_half = np.random.get_state()
    half = np.random.normal()
    mt.grad(mt.checkpoint(lambda p: p.x * 1.0))(P())  # meets the generator without the half
    np.random.set_state(with_half)
    assert mt.grad(f)(P()).x == half
    np.random.set_state(with_half)
    assert np.random.normal() == half


@pytest.mark.parametrize("kind", [np.random.PCG64, np.random.Philox, np.random.MT19937])
def test_another_bit_generator_in_its_place_is_put_back_as_well(kind):
    np.random.set_bit_generator(kind(5))
    f = lambda p: p.x * (np.random.normal() + 2 * np.random.rand())
    expected = mt.grad(f)(P()).x, np.random.rand()
    np.random.set_bit_generator(kind(5))
    assert (mt.grad(mt.checkpoint(f))(P()).x, np.random.rand()) == expected


def test_a_generator_whose_memory_says_nothing_is_put_back_as_well(monkeypatch):
    blind = [each._replace(mark=lambda: None) for each in _global_generators._GENERATORS]
    monkeypatch.setattr(_global_generators, "_GENERATORS", blind)
    f = lambda p: p.x * (np.random.normal() + random.random())
    seed_both()
    expected = mt.grad(f)(P()).x, *next_numbers()
    seed_both()
    assert (mt.grad(mt.checkpoint(f))(P()).x, *next_numbers()) == expected


def test_the_memory_of_the_generators_is_known():
    assert _global_generators._memory_is_as_expected()


def test_numbers_that_were_drawn_before_a_raise_are_drawn_once():
    def fails(p, s):
        s.x = p.x * np.random.normal()
        raise ValueError

    def loss_of(f):
        def loss(p):
            s = P()
            try:
                f(p, s)
            except ValueError:
                return s.x * np.random.normal()

        return loss

    seed_both()
    expected = mt.grad(loss_of(fails))(P(3.0)).x, np.random.rand()
    seed_both()
    assert (mt.grad(loss_of(mt.checkpoint(fails)))(P(3.0)).x, np.random.rand()) == expected


def test_a_raise_in_the_second_run_leaves_the_generators_as_they_were():
    runs = SimpleQueue()  # it is not put back for the second run

    def f(p):
        y = p.x * np.random.normal()
        if not runs.empty():
            raise ValueError
        runs.put(1)
        return y

    _, pullback = mt.vjp(mt.checkpoint(f), P())
    expected = np.random.get_state()[1].copy()
    with pytest.raises(ValueError, match=r"^$"):
        pullback(1.0)
    np.testing.assert_array_equal(np.random.get_state()[1], expected)


@mt.differentiable
class Layer:
    w: np.ndarray

    def __call__(self, x):
        keep = np.random.random(x.shape) < 0.5  # dropout, with the global generator
        return np.tanh(self.w @ (x * keep * 2.0))


def test_dropout_with_the_global_generator_may_be_recomputed():
    layers = [Layer(np.random.normal(size=(6, 6)) / 3.0) for _ in range(4)]
    x = np.random.normal(size=6)

    def loss(layers, step):
        h = x
        for layer in layers:
            h = step(layer)(h)
        return np.sum(h**2)

    state = np.random.get_state()
    expected = mt.grad(loss)(layers, lambda layer: layer)
    after = np.random.random()
    np.random.set_state(state)
    found = mt.grad(loss)(layers, mt.checkpoint)
    assert np.random.random() == after
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one.w, other.w)
