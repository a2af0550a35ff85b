"""The harness must be able to fail: each kind of fault, planted, is found."""

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.expectations import Comparison, finite_differences
from tests.cases.graph import Entry, assert_nothing_traced, assert_same_picture, picture
from tests.cases.harness import NUMERICAL, ZERO, Fields, assert_same_numbers, three_ways


@mt.differentiable
class Box:
    v: object
    w: object = None


def compare(primal, tangent, expected):
    Comparison(1e-6, 1e-9).compare(primal, tangent, expected, "here")


def cube(box):
    return box.v**3


def test_the_right_answer_passes():
    three_ways(lambda: (Box(2.0),), cube, (Fields(v=12.0),))
    three_ways(lambda: (Box(2.0),), cube, NUMERICAL)


def test_a_wrong_number_is_found():
    with pytest.raises(AssertionError, match=r"grad, argument 0\.v"):
        three_ways(lambda: (Box(2.0),), cube, (Fields(v=12.1),))


def test_a_named_wrong_answer_that_comes_is_found():
    with pytest.raises(AssertionError, match="wrong as seen elsewhere"):
        three_ways(lambda: (Box(2.0),), cube, (Fields(v=12.0),), never=((Fields(v=12.0),),))


def test_a_gradient_that_leaks_into_a_field_not_named_is_found():
    with pytest.raises(AssertionError, match=r"\.w"):
        three_ways(lambda: (Box(2.0, 5.0),), lambda box: box.v * box.w, (Fields(v=5.0),))


def test_a_missing_gradient_is_found():
    with pytest.raises(AssertionError, match="nothing arrived"):
        three_ways(lambda: (Box(2.0, 5.0),), lambda box: box.v * 1.0, (Fields(v=1.0, w=2.0),))


def test_a_recorded_run_that_leaves_other_objects_than_the_plain_run_is_found():
    def only_when_recorded(box):
        if type(box.v) is not float:
            box.w = 7.0
        return box.v**2

    with pytest.raises(AssertionError, match="after the plain run"):
        three_ways(lambda: (Box(2.0),), only_when_recorded, (Fields(v=4.0),))


def test_a_wrong_gradient_of_an_object_that_is_only_reached_is_found():
    box = Box(3.0)
    with pytest.raises(AssertionError, match="in reach"):
        three_ways(
            lambda: (2.0,),
            lambda x: x * box.v,
            (3.0,),
            reaches=(box,),
            expected_reached=(Fields(v=5.0),),
        )


@pytest.mark.parametrize(
    ("tangent", "fault"),
    [
        (np.ones(3, np.float32), "dtype"),
        (np.ones((3, 1)), "shape"),
        (np.ones((3, 3)), "shape"),
        (1.0, "float"),
        (mt.NoTangent(), "NoTangent"),
        (np.array([1.0, 1.0, 1.1]), "Not equal to tolerance"),
    ],
)
def test_a_tangent_unlike_its_array_is_found(tangent, fault):
    with pytest.raises(AssertionError, match=fault):
        compare(np.zeros(3), tangent, [1.0, 1.0, 1.0])


def test_an_array_in_place_of_a_float_is_found():
    with pytest.raises(AssertionError, match="float"):
        compare(1.0, np.array(2.0), 2.0)
    with pytest.raises(AssertionError, match="float"):
        compare(1.0, np.float64(2.0), 2.0)


def test_two_tangents_for_one_object_are_found():
    shared = Box(1.0)
    two = [mt.Tangent(Box, v=1.0), mt.Tangent(Box, v=1.0)]
    with pytest.raises(AssertionError, match="second tangent"):
        compare([shared, shared], two, [Fields(v=1.0), Fields(v=1.0)])


def test_one_tangent_for_two_equal_objects_is_found():
    one = mt.Tangent(Box, v=1.0)
    with pytest.raises(AssertionError, match="another object's tangent"):
        compare([Box(1.0), Box(1.0)], [one, one], [Fields(v=1.0), Fields(v=1.0)])


def test_a_traced_value_left_in_a_field_or_in_memory_is_found():
    class TracedArray:
        pass

    @attrs.define(slots=False)
    class Loose:
        v: object

    kept = Loose(1.0)
    assert_nothing_traced([kept])
    for holder in (Loose(TracedArray()), Loose([TracedArray()]), Box(1.0, {"a": TracedArray()})):
        with pytest.raises(AssertionError, match="traced"):
            assert_nothing_traced([holder])
    vars(kept)["beside the fields"] = TracedArray()
    with pytest.raises(AssertionError, match="memory"):
        assert_nothing_traced([kept])


def test_a_picture_shows_type_number_dtype_shape_and_sharing():
    array = np.ones(2)
    plain = picture([Box(array, array)])
    assert_same_picture(picture([Box(array, array)]), plain)
    for other in (
        [Box(array, array.copy())],
        [Box(array.astype(np.float32), array)],
        [Box(np.ones((2, 1)), array)],
        [Box(np.zeros(2), array)],
        [Box(array, 1.0)],
        [Box(array, array), Box(1.0)],
    ):
        with pytest.raises(AssertionError):
            assert_same_picture(picture(other), plain)


def test_a_picture_shows_that_a_float_became_an_array():
    with pytest.raises(AssertionError, match="float"):
        assert_same_picture(picture([Box(np.float64(1.0))]), picture([Box(1.0)]))


def test_entry_values_are_put_back_into_the_same_objects():
    box = Box(np.array([1.0]), [2.0])
    array, items = box.v, box.w
    entry = Entry([box])
    array[0] = 5.0
    items.append(3.0)
    box.v, box.w = 0.0, None
    entry.put_back()
    assert box.v is array
    assert box.w is items
    assert array == [1.0]
    assert items == [2.0]


def test_two_sweeps_that_differ_are_found():
    with pytest.raises(AssertionError, match="second sweep"):
        assert_same_numbers(mt.Tangent(Box, v=1.0), mt.Tangent(Box, v=2.0), "the second sweep")


def test_finite_differences_know_the_derivative_of_a_mutating_program():
    def loss(box, x):
        box.v = box.v * x
        box.v = box.v * x
        return box.v

    expected = finite_differences(loss, (Box(2.0), 3.0))
    np.testing.assert_allclose(expected[0]["v"], 9.0, rtol=1e-8)
    np.testing.assert_allclose(expected[1], 12.0, rtol=1e-8)
    assert expected[0]["w"] is ZERO


def test_finite_differences_of_a_complex_value_follow_the_real_inner_product():
    (expected,) = finite_differences(lambda z: abs(z) ** 2, (1.0 + 2.0j,))
    np.testing.assert_allclose(expected, 2.0 + 4.0j, rtol=1e-8)
