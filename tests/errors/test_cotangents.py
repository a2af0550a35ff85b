"""A cotangent must have the shape, dtype and structure of the value it belongs to."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


@mt.differentiable
class Pair:
    left: object = 0.0


def scaled(box):
    box.w = box.v * 2
    return box.w


def refused(pullback, cotangent, match):
    for _ in range(3):
        with pytest.raises(mt.CotangentError, match=match) as caught:
            pullback(cotangent)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, mt.MutangentError)


@pytest.mark.parametrize("shape", [(2,), (3, 1), (1, 3), (3, 3), ()])
def test_a_cotangent_of_another_shape_is_refused_with_both_shapes(shape, xp):
    box = Box(xp.asarray([1.0, 2.0, 3.0]))
    _, pullback = mt.vjp(scaled, box)
    left = box.w
    got = str(shape).replace("(", r"\(").replace(")", r"\)")
    refused(pullback, np.ones(shape), rf"(\(3,\)(.|\n)*{got})|({got}(.|\n)*\(3,\))")
    assert box.w is left
    (tangent,) = pullback(np.ones(3))
    np.testing.assert_array_equal(tangent.v, [2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("cotangent", "kind"),
    [(np.ones(3, int), "int"), (np.ones(3, complex), "complex"), (np.ones(3, bool), "bool")],
)
def test_a_cotangent_of_another_kind_of_dtype_is_refused_with_both(cotangent, kind, xp):
    _, pullback = mt.vjp(scaled, Box(xp.asarray([1.0, 2.0, 3.0])))
    refused(pullback, cotangent, rf"(float64(.|\n)*{kind})|({kind}(.|\n)*float64)")


def test_a_complex_cotangent_of_a_real_scalar_is_refused():
    _, pullback = mt.vjp(scaled, Box(2.0))
    refused(pullback, 1 + 1j, r"complex")


def test_a_real_or_complex_cotangent_of_a_complex_value_is_welcome(xp):
    _, pullback = mt.vjp(scaled, Box(xp.asarray([1 + 1j])))
    np.testing.assert_array_equal(pullback(np.array([1 + 2j]))[0].v, [2 + 4j])


@pytest.mark.parametrize("cotangent", ["text", None, object(), [1.0, 1.0, 1.0], (1.0, 1.0, 1.0), {"a": 1.0}])
def test_a_cotangent_that_is_no_array_is_refused_for_an_array(cotangent, xp):
    _, pullback = mt.vjp(scaled, Box(xp.asarray([1.0, 2.0, 3.0])))
    refused(pullback, cotangent, r"(?i)result")


def pair(box):
    return box.v * 2, {"square": box.v**2, "list": [box.v]}


@pytest.mark.parametrize(
    "cotangent",
    [
        1.0,
        (1.0,),
        (1.0, 2.0),
        (1.0, {"square": 1.0, "list": [1.0]}, 1.0),
        (1.0, {"square": 1.0}),
        (1.0, {"square": 1.0, "lists": [1.0]}),
        (1.0, {"square": 1.0, "list": [1.0, 2.0]}),
        (1.0, {"square": 1.0, "list": 1.0}),
        (1.0, {"square": np.ones(2), "list": [1.0]}),
    ],
)
def test_a_cotangent_of_another_structure_is_refused(cotangent):
    _, pullback = mt.vjp(pair, Box(3.0))
    refused(pullback, cotangent, r"(?i)result")
    assert pullback((1.0, {"square": 10.0, "list": [100.0]}))[0].v == 162.0


def test_zeros_stand_for_any_structure():
    _, pullback = mt.vjp(pair, Box(3.0))
    zero = mt.ZeroTangent()
    for _ in range(3):
        assert pullback((1.0, zero))[0].v == 2.0
        assert pullback((zero, {"square": zero, "list": [1.0]}))[0].v == 1.0
        assert pullback(zero)[0].v == zero


def test_a_python_number_serves_a_scalar_of_any_real_dtype(xp):
    for dtype in (np.float16, np.float32, np.float64):
        _, pullback = mt.vjp(lambda b: np.sum(b.v), Box(xp.asarray([1.0, 2.0], dtype)))
        for one in (1.0, 1, np.float32(1)):
            tangent = pullback(one)[0].v
            assert tangent.dtype == dtype
            np.testing.assert_array_equal(tangent, [1.0, 1.0])


def test_a_context_refuses_a_cotangent_of_another_shape(xp):
    box = Box(xp.asarray([1.0, 2.0, 3.0]))
    with mt.Context() as ctx:
        out = scaled(box)
    with pytest.raises(mt.CotangentError, match=r"\(3,\)"):
        ctx.tangents(out, np.ones(2))
    np.testing.assert_array_equal(ctx.tangents(out, np.ones(3))[box].v, [2.0, 2.0, 2.0])


def test_a_cotangent_of_an_object_must_be_a_tangent_of_its_class(xp):
    box = Box(xp.asarray([1.0, 2.0, 3.0]))
    _, pullback = mt.vjp(scaled, box)

    @mt.differentiable
    class Other:
        w: object

    for wrong in (mt.Tangent(Other, w=np.ones(3)), 1.0, np.ones(3), {"w": np.ones(3)}):
        with pytest.raises(mt.CotangentError, match=r"Box"):
            pullback(np.zeros(3), objects=mt.IdentityMap([(box, wrong)]))
    with pytest.raises(mt.CotangentError, match=r"Box\.?(.|\n)*w(.|\n)*\(3,\)"):
        pullback(np.zeros(3), objects=mt.IdentityMap([(box, mt.Tangent(Box, w=np.ones(2)))]))
    (tangent,) = pullback(np.zeros(3), objects=mt.IdentityMap([(box, mt.Tangent(Box, w=np.ones(3)))]))
    np.testing.assert_array_equal(tangent.v, [2.0, 2.0, 2.0])


WRITE = (
    r"Write `objects=mutangent\.IdentityMap\(\[\(obj, mutangent\.Tangent\(type\(obj\), field=\.\.\.\)\)\]\)`"
)


@pytest.mark.parametrize(
    ("objects", "message"),
    [
        (
            lambda box: {1: 2},
            r"a key of the objects of a pullback is an int, and what a call left is known by",
        ),
        (lambda box: {"box": mt.Tangent(Box, v=1.0)}, r"a key of .* is a str, and what a call left"),
        (lambda box: mt.IdentityMap([(box.v, box.v)]), r"a key of .* is a \w+\.ndarray of shape \(3,\)"),
        (lambda box: mt.IdentityMap([(Box, mt.Tangent(Box, v=1.0))]), r"a key of .* is a type, and what"),
        (
            lambda box: [(box, mt.Tangent(Box, v=1.0))],
            r"the objects of a pullback are a list, and they must be a map from",
        ),
        (lambda box: (box, mt.Tangent(Box, v=1.0)), r"are a tuple, and they must be a map from objects"),
        (lambda box: mt.Tangent(Box, v=1.0), r"are a Tangent, and they must be a map from objects"),
        (lambda box: 1.0, r"are a float, and they must be a map from objects"),
        (
            lambda box: mt.IdentityMap([(box, 2.0)]),
            r"map a Box to a float, and its cotangent is a Tangent of Box",
        ),
        (
            lambda box: mt.IdentityMap([(box, None)]),
            r"map a Box to a NoneType, and its cotangent is a Tangent of Box",
        ),
        (
            lambda box: mt.IdentityMap([(box, mt.Tangent(Pair))]),
            r"map a Box to a Tangent of Pair, and its cotangent is",
        ),
    ],
)
def test_objects_of_a_pullback_are_a_map_from_objects_to_their_cotangents(objects, message):
    box = Box(np.ones(3))
    _, pullback = mt.vjp(lambda box: np.sum(box.v), box)
    with pytest.raises(mt.CotangentError, match=rf"{message}.*{WRITE}"):
        pullback(1.0, objects=objects(box))


def test_objects_of_a_pullback_may_be_nothing_and_a_list_is_named_by_the_object_that_has_it():
    box = Box([1.0, 2.0])

    def scale(box):
        box.v[0] = box.v[0] * 3.0
        return box.v[1] * 1.0

    _, pullback = mt.vjp(scale, box)
    for objects in ({}, mt.IdentityMap(), None, mt.IdentityMap([(box, mt.ZeroTangent())])):
        assert pullback(1.0, objects=objects)[0].v == [mt.ZeroTangent(), 1.0]
    with pytest.raises(
        mt.CotangentError, match=rf"is a list, and what a call left.*Name the object that.*{WRITE}"
    ):
        pullback(1.0, objects=mt.IdentityMap([(box.v, [1.0, 0.0])]))
    objects = mt.IdentityMap([(box, mt.Tangent(Box, v=[1.0, 0.0]))])
    assert pullback(1.0, objects=objects)[0].v == [3.0, 1.0]
