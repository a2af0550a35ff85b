"""What forward mode refuses, before anything is run, with the argument or field, the reason and the cure."""

import re
from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Layer:
    weight: np.ndarray
    scale: float = 1.0


@mt.differentiable
class Net:
    layers: object
    name: str = "net"


class Point(NamedTuple):
    x: float
    y: float


def refusal(value, tangent, error=mt.CotangentError):
    """Return the text of the error; the function must not have been called."""
    calls = []
    with pytest.raises(error) as caught:
        mt.jvp(calls.append, (value,), (tangent,))
    assert calls == []
    return str(caught.value)


X = np.ones((2, 3))

WRONG_NUMBERS = {
    "shape": (X, np.ones(3), r"argument 0 has shape \(3,\), and the value has shape \(2, 3\)"),
    "no array": (X, 1.0, r"argument 0 has shape \(\), and the value has shape \(2, 3\)"),
    "integers": (X, np.ones((2, 3), int), "has dtype int64, and the value has dtype float64"),
    "complex": (X, X * 1j, "argument 0 is complex .* and the value is real .* Give its real part"),
    "text": (X, "ones", r"argument 0 must be an array of shape \(2, 3\) .* and it is a str"),
    "list": (X, [1.0, 2.0], r"must be an array of shape \(2, 3\) .* and it is a list"),
    "number": (1.0, np.ones(1), r"argument 0 has shape \(1,\), and the value has shape \(\)"),
    "object": (1.0, mt.Tangent(Layer), "must be a number of dtype float64, and it is a"),
}


@pytest.mark.parametrize(("value", "tangent", "words"), WRONG_NUMBERS.values(), ids=WRONG_NUMBERS)
def test_a_tangent_that_does_not_fit_its_number_is_refused(value, tangent, words):
    text = refusal(value, tangent)
    assert re.search(words, text), text
    assert "cotangent" not in text


def test_a_narrower_tangent_is_widened_and_a_wider_one_rounded():
    assert mt.jvp(lambda x: x, (np.ones(1, np.float32),), (np.ones(1),))[1].dtype == np.float32
    assert mt.jvp(lambda x: x, (np.ones(1),), (np.ones(1, np.float32),))[1].dtype == np.float64
    assert mt.jvp(lambda x: x, (1.0,), (1,))[1] == 1.0
    assert mt.jvp(lambda z: z, (1j,), (1.0,)) == (1j, 1.0 + 0j)


def test_a_field_is_named_even_if_nobody_reads_it():
    net = Net([Layer(np.ones(2))])
    bad = mt.Tangent(Net, layers=[mt.Tangent(Layer, weight=np.ones(3))])
    text = refusal(net, bad)
    assert "Layer.weight has shape (3,), and the value has shape (2,)" in text


def test_the_tangent_of_another_class_is_refused():
    text = refusal(Layer(np.ones(2)), mt.Tangent(Net))
    assert "argument 0 is a Tangent of Net, and the value is a Layer" in text
    assert "mutangent.Tangent(Layer, ...)" in text
    assert "is a numpy.ndarray of shape (2,)" in refusal(Layer(np.ones(2)), np.ones(2))


def test_a_container_of_another_structure_is_refused():
    for value, tangent, words in (
        ([1.0, 2.0], [1.0], "is a list of 1, and the value is a list of 2"),
        ((1.0, 2.0), 1.0, "is a float, and the value is a tuple of 2"),
        (Point(1.0, 2.0), (1.0,), "is a tuple of 1, and the value is a Point of 2"),
        ({"a": 1.0}, [1.0], "is a list of 1, and the value is a dict of 1 with the keys ['a']"),
        (
            {"a": 1.0},
            {"b": 1.0},
            "is a dict with the keys ['b'], and the value is a dict of 1 with the keys ['a']",
        ),
        ([1.0], {0: 1.0}, "is a dict of 1, and the value is a list of 1"),
    ):
        text = refusal(value, tangent)
        assert f"the tangent of argument 0 {words}" in text
        assert "NoTangent()" in text


@pytest.mark.parametrize("value", [3, True, "text", np.arange(3), abs], ids=repr)
def test_what_cannot_move_has_no_tangent(value):
    text = refusal(value, 1.0)
    assert text.startswith("argument 0 is a")
    assert "no tangent space" in text
    assert "make a float of an integer" in text
    for nothing in (mt.NoTangent(), mt.ZeroTangent(), None):
        assert mt.jvp(lambda x, y: y, (value, 2.0), (nothing, 1.0)) == (2.0, 1.0)


def test_an_object_with_two_tangents_is_refused():
    layer = Layer(np.ones(2))
    one, other = (mt.Tangent(Layer, weight=np.ones(2)) for _ in range(2))
    text = refusal(Net([layer, layer]), mt.Tangent(Net, layers=[one, other]))
    assert "a Layer that is reached by two ways, with two different tangents" in text
    assert "put the same Tangent in both places" in text


def test_a_list_with_two_tangents_is_refused():
    items = [1.0]
    with pytest.raises(
        mt.CotangentError, match="a list that is reached by two ways, with two different tangents"
    ):
        mt.jvp(lambda a, b: a[0], (items, items), ([1.0], [2.0]))
    tangent = [1.0]
    assert mt.jvp(lambda a, b: a[0] * b[0], (items, items), (tangent, tangent))[1] == 2.0


@pytest.mark.parametrize(
    ("primals", "tangents"),
    [((1.0,), ()), ((1.0, 2.0), (1.0,)), (1.0, 1.0), (np.ones(2), np.ones(2))],
    ids=repr,
)
def test_sequences_of_different_length_are_refused(primals, tangents):
    with pytest.raises(TypeError, match=r"two sequences of the same length: jvp\(f, \(x,\), \(x_dot,\)\)"):
        mt.jvp(np.multiply, primals, tangents)
    with pytest.raises(TypeError, match="two sequences of the same length"):
        mt.hvp(np.multiply, primals, tangents)


def test_a_function_without_a_rule_is_a_named_error():
    with pytest.raises(mt.NoRuleError, match="no derivative rule"):
        mt.jvp(np.frompyfunc(lambda x: x, 1, 1), (np.ones(2),), (np.ones(2),))


@pytest.mark.parametrize("escape", [float, int, np.asarray, lambda x: np.array([x, x])])
def test_a_tangent_is_not_lost_silently(escape):
    with pytest.raises(mt.TracedValueError):
        mt.jvp(escape, (1.5,), (1.0,))
