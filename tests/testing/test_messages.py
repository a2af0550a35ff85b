"""What a failure says: where, the numbers, the order, the mode and the seed; and the seed reproduces it."""

import re

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads, check_rrule


@mt.differentiable
class Layer:
    weight: np.ndarray
    scale: float = 1.0


@mt.differentiable
class Net:
    layers: list


def square_with_factor(factor):
    square = mt.primitive(lambda x: x * x)
    return square.rrule(lambda x: (x * x, lambda g: (factor * x * g,)))


def failure(check, *args, **kwargs):
    with pytest.raises(AssertionError) as caught:
        check(*args, **kwargs)
    return str(caught.value)


def test_a_failure_says_where_and_how_much_and_how_to_get_it_again():
    def energy(net, x):
        return square_with_factor(3.0)(net.layers[1].weight) * x

    net = Net([Layer(np.ones(2)), Layer(np.array([2.0, 4.0]))])
    text = failure(check_grads, energy, (net, 1.0), seed=7)
    assert text.startswith("check_grads of test_a_failure_says")
    assert "energy, order 1, mode 'rev', seed 7: " in text
    assert re.search(
        r"the derivative of the result at \[1\] with respect to args\[0\]\.layers\[1\]\.weight at \[1\]: 12 by the "
        r"pullback, (8|7\.99999\d+|8\.00000\d+) by finite differences\.$",
        text,
    )


def test_the_same_seed_gives_the_same_failure_and_another_seed_another():
    wrong = square_with_factor(3.0)
    x = np.array([1.0, 2.0])
    texts = [failure(check_rrule, wrong, x, seed=seed) for seed in (1, 1, 2)]
    assert texts[0] == texts[1]
    assert texts[0].replace("seed 1", "seed 2") != texts[2]


def test_complex_elements_are_named_by_their_parts():
    half = mt.primitive(lambda z: z * 1j)
    half.rrule(lambda z: (z * 1j, lambda g: (g * 1j,)))
    text = failure(check_rrule, half, np.array([1.0 + 1.0j]))
    assert re.search(
        r"the (real|imaginary) part of the result at \[0\] with respect to the (real|imaginary) part of", text
    )


def test_an_array_in_two_places_is_named_by_both():
    w = np.array([1.0, 2.0])
    text = failure(check_grads, lambda a, b: square_with_factor(3.0)(a) * b, (w, w), order=1)
    assert "with respect to args[0] = args[1] at [" in text


def test_a_step_out_of_the_domain_says_so():
    with np.errstate(invalid="ignore"):
        text = failure(check_grads, np.sqrt, (0.0,), order=1)
    assert "leaves the domain of the function" in text


def test_a_branch_between_the_points_says_so():
    text = failure(check_grads, lambda x: (x, x) if x > 1.0 else (x,), (1.0,), order=1)
    assert "different places or shapes (the result[1] of shape ())" in text


def test_a_gradient_that_is_nan_fails():
    wrong = mt.primitive(lambda x: x * 2)
    wrong.rrule(lambda x: (x * 2, lambda g: (g * np.nan,)))
    assert "nan by the pullback, 2 by finite differences" in failure(check_rrule, wrong, 1.5)


def test_tolerances_are_the_caller_s():
    wrong = square_with_factor(2.001)
    failure(check_rrule, wrong, 1.5)
    check_rrule(wrong, 1.5, rtol=1e-2)
    check_rrule(wrong, 1.5, atol=1e-1)
    check_grads(wrong, (1.5,), rtol=1e-2)
    failure(check_grads, np.exp, (1.5,), rtol=0.0, atol=0.0)


def test_the_step_is_the_caller_s():
    assert "eps=1.00e-02" in failure(check_rrule, square_with_factor(3.0), 1.5, eps=1e-2)


def test_a_recorded_run_that_returns_something_else_says_so():
    def f(x):
        return x * (2.0 if type(x).__name__ == "TracedArray" else 1.0)

    assert "the result is 1.5 after the plain run and 3." in failure(check_grads, f, (1.5,))


def test_a_recorded_run_that_leaves_something_else_says_so():
    def f(layer):
        traced = type(layer.weight).__name__ == "TracedArray"
        layer.scale = 3.0 if traced else 2.0
        return layer.weight

    text = failure(check_grads, f, (Layer(np.ones(2)),))
    assert "args[0].scale is 2. after the plain run and 3. after the recorded one" in text


def test_a_recorded_run_that_leaves_another_structure_says_so():
    def f(net):
        traced = type(net.layers[0].weight).__name__ == "TracedArray"
        if traced:
            net.layers.append(net.layers[0])
        return net.layers[0].weight * 1.0

    assert "args[0].layers has ['[0]'] after the plain run" in failure(
        check_grads, f, (Net([Layer(np.ones(2))]),)
    )


def test_a_recorded_run_that_shares_what_the_plain_run_does_not_says_so():
    def f(net):
        first = net.layers[0]
        traced = type(first.weight).__name__ == "TracedArray"
        net.layers = [first, first if traced else Layer(np.ones(2))]
        return first.weight * 1.0

    text = failure(check_grads, f, (Net([Layer(np.ones(2))]),))
    assert "is also found elsewhere after one of the two runs" in text
