"""Sums of tangents that belong to values of different structure."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


@mt.differentiable
class Other:
    v: object


DIFFERENT = {
    "lists": (
        [1.0, 2.0],
        [1.0, 2.0, 3.0],
        r"that of Box\.v is a list of 2 in one, and a list of 3 in the other",
    ),
    "lists in lists": ([[1.0]], [[1.0, 2.0]], r"Box\.v\[0\] is a list of 1 in one, and a list of 2"),
    "keys": (
        {"a": 1.0},
        {"b": 1.0},
        r"Box\.v is a dict with the keys \['a'\] in one, and a dict with the keys \['b'\]",
    ),
    "shapes": (
        np.ones(2),
        np.ones((3, 2)),
        r"Box\.v is an array of shape \(2,\) in one, and an array of shape \(3, 2\)",
    ),
    "an array and a number": (np.ones(2), 1.0, r"an array of shape \(2,\) in one, and a float in"),
    "a list and a number": ([1.0], 1.0, r"a list of 1 in one, and a float in"),
    "a list and an array": ([1.0], np.ones(1), r"a list of 1 in one, and an array of shape \(1,\) in"),
    "a list and a dict": ([1.0], {0: 1.0}, r"a list of 1 in one, and a dict with the keys \[0\] in"),
    "an object and a number": (mt.Tangent(Other, v=1.0), 1.0, r"a Tangent of Other in one, and a float in"),
    "a number and an object": (1.0, mt.Tangent(Other, v=1.0), r"a float in one, and a Tangent of Other in"),
    "objects": (
        mt.Tangent(Other, v=1.0),
        mt.Tangent(Box),
        r"a Tangent of Other in one, and a Tangent of Box in",
    ),
    "below an object": (
        mt.Tangent(Other, v={"a": [1.0]}),
        mt.Tangent(Other, v={"a": []}),
        r"Other\.v\['a'\] is a list of 1 in one, and a list of 0",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_tangents_of_another_structure_are_not_added(name):
    one, two, where = DIFFERENT[name]
    text = rf"the tangents cannot be added: .*{where}.*on entry.*grown or shrunk.*`a\.w \+ b\.w`.*clear it before each call"
    for add in (lambda a, b: a + b, lambda a, b: a - b):
        with pytest.raises(mt.CotangentError, match=text):
            add(mt.Tangent(Box, v=one, w=1.0), mt.Tangent(Box, v=two, w=1.0))


def test_the_tangents_of_two_calls_between_which_a_history_grew_are_not_added():
    def loss(box):
        box.v.append(box.v[-1] * box.w)
        return box.v[-1] * 1.0

    box = Box([1.0], 2.0)
    first, second = mt.grad(loss)(box), mt.grad(loss)(box)
    with pytest.raises(
        mt.CotangentError, match=r"Box\.v is a list of 1 in one, and a list of 2 in the other"
    ):
        first + second
    assert first.w + second.w == 1.0 + 2.0


def test_tangents_of_two_classes_are_not_added():
    text = r"a tangent of Box and one of Other cannot be added: .*different classes.*`a\.w \+ b\.w`"
    with pytest.raises(mt.GradientTypeError, match=text):
        mt.Tangent(Box, v=1.0) + mt.Tangent(Other, v=1.0)


def test_nothing_may_be_added_to_anything():
    full = mt.Tangent(Box, v=[np.ones(2), {"a": mt.Tangent(Other, v=2.0)}], w=(1.0,))
    for nothing in (mt.ZeroTangent(), mt.Tangent(Box), mt.Tangent(Box, v=mt.ZeroTangent(), w=mt.NoTangent())):
        assert full + nothing == full
        assert nothing + full == full
        assert full - nothing == full
    assert mt.Tangent(Box, v=[1.0, mt.ZeroTangent()]) + mt.Tangent(
        Box, v=(mt.NoTangent(), 2.0)
    ) == mt.Tangent(Box, v=[1.0, 2.0])


def test_traced_and_plain_tangents_are_added():
    def loss(x):
        inner = mt.grad(lambda box: box.v**3 * box.w)(Box(x, 2.0))
        return (inner + mt.Tangent(Box, v=1.0, w=np.float64(2.0))).v

    assert mt.grad(loss)(3.0) == 36.0
