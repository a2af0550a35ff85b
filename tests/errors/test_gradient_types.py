"""`grad` of something that is no real scalar, or with respect to something that has no gradient."""

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


def doubled(box):
    box.w = box.v * 2
    return box.w


@pytest.mark.parametrize("shape", [(3,), (1,), (2, 2), (0,)])
@pytest.mark.parametrize("verb", [mt.grad, mt.value_and_grad])
def test_a_result_that_is_no_scalar_is_refused_with_its_shape(verb, shape, xp):
    box = Box(xp.asarray(np.ones(shape)))
    v, w = box.v, box.w
    for _ in range(3):
        with pytest.raises(mt.GradientTypeError, match=r"doubled(.|\n)*scalar") as caught:
            verb(doubled)(box)
        assert isinstance(caught.value, TypeError)
        assert str(shape) in str(caught.value)
        assert "vjp" in str(caught.value) or "np.sum" in str(caught.value)
        assert box.v is v
        assert box.w is w


def test_a_context_refuses_a_result_that_is_no_scalar_and_says_tangents(xp):
    box = Box(xp.asarray([1.0, 2.0]))
    with mt.Context() as ctx:
        out = doubled(box)
    for _ in range(3):
        with pytest.raises(mt.GradientTypeError, match=r"\(2,\)(.|\n)*(sum|tangents|vjp)"):
            ctx.grad(out, box)


def test_a_complex_result_is_refused(xp):
    for value in (1 + 2j, xp.asarray(1 + 2j)):
        with pytest.raises(mt.GradientTypeError, match=r"(?i)complex(.|\n)*(real|abs)"):
            mt.grad(lambda b: b.v**2)(Box(value))


@pytest.mark.parametrize("result", [None, "text", (1.0, 2.0), [1.0], {"loss": 1.0}])
def test_a_result_that_is_no_number_is_refused(result):
    with pytest.raises(mt.GradientTypeError, match=r"(tuple|str|None|list|dict)(.|\n)*scalar"):
        mt.grad(lambda b: result)(Box(1.0))


def test_a_pair_without_has_aux_says_has_aux():
    with pytest.raises(mt.GradientTypeError, match=r"has_aux=True"):
        mt.grad(lambda b: (b.v * 2, "aux"))(Box(1.0))


def test_has_aux_without_a_pair_says_pair():
    with pytest.raises(mt.GradientTypeError, match=r"has_aux(.|\n)*pair"):
        mt.grad(lambda b: b.v * 2, has_aux=True)(Box(1.0))


@pytest.mark.parametrize("verb", [mt.grad, mt.value_and_grad])
@pytest.mark.parametrize(
    "integer", [3, True, np.int64(3), np.array([1, 2]), np.array([True, False]), np.array([1, 2], np.uint8)]
)
def test_an_integer_argument_is_refused_with_its_name_and_the_cure(verb, integer):
    def power(base, exponent):
        return np.sum(base**exponent)

    for _ in range(3):
        with pytest.raises(mt.GradientTypeError, match=r"argument 1(.|\n)*exponent(.|\n)*power") as caught:
            verb(power, argnums=1)(2.0, integer)
        assert isinstance(caught.value, TypeError)
        assert "astype(float)" in str(caught.value)
    if isinstance(integer, np.ndarray):
        with pytest.raises(mt.GradientTypeError, match=rf"shape \(2,\) and dtype {integer.dtype}"):
            verb(power, argnums=(0, 1))(2.0, integer)


def test_an_integer_argument_that_is_not_differentiated_is_welcome():
    for _ in range(3):
        assert mt.grad(lambda x, n: x**n)(2.0, 3) == 12.0


@pytest.mark.parametrize("thing", ["text", None, np.tanh, object()])
def test_an_argument_without_a_tangent_space_is_refused(thing):
    with pytest.raises(mt.GradientTypeError, match=r"argument 0"):
        mt.grad(lambda x: 1.0)(thing)


def test_an_argnum_that_names_no_argument_is_refused():
    for argnum in (2, -3):
        with pytest.raises(TypeError, match=r"argnums"):
            mt.grad(lambda x, y: x * y, argnums=argnum)(1.0, 2.0)
    assert mt.grad(lambda x, y: x * y, argnums=-1)(3.0, 2.0) == 3.0


def test_watching_an_integer_is_refused():
    for thing in (3, np.array([1, 2]), "text", None):
        with mt.Context() as ctx, pytest.raises(mt.GradientTypeError, match=r"watch"):
            ctx.watch(thing)


def test_a_source_without_a_gradient_is_refused():
    @attrs.define
    class Plain:
        v: float

    box = Box(2.0)
    with mt.Context() as ctx:
        out = box.v**2
    with pytest.raises(mt.MutangentError, match=r"differentiable(.|\n)*Plain"):
        ctx.grad(out, Plain(1.0))
    for thing in (3, "text", None):
        with pytest.raises(mt.MutangentError, match=r"(?i)source"):
            ctx.grad(out, thing)


def test_a_constant_result_has_a_zero_gradient(xp):
    for _ in range(3):
        assert mt.grad(lambda x: 3.0)(2.0) == 0.0
        np.testing.assert_array_equal(mt.grad(lambda x: 3.0)(xp.asarray([1.0, 2.0])), [0.0, 0.0])
        assert mt.grad(lambda b: 3.0)(Box(1.0)).v == mt.ZeroTangent()


@pytest.mark.parametrize(
    "result",
    [
        lambda x: x[0] > 0,
        lambda x: bool(x[0] > 0),
        np.argmax,
        lambda x: np.count_nonzero(x > 0),
        lambda x: np.sum(x.astype(int)),
        lambda x: np.array(3),
        lambda x: np.array(True),
        lambda x: np.all(x > 0),
        lambda x: x > 0,
    ],
)
@pytest.mark.parametrize("verb", [mt.grad, mt.value_and_grad, mt.hessian, mt.jacobian])
def test_a_boolean_or_an_integer_has_no_gradient(verb, result):
    with pytest.raises(mt.GradientTypeError, match=r"the result(.|\n)*(bool|int)(.|\n)*float"):
        verb(result)(np.array([1.0, -2.0, 3.0]))


def test_a_context_says_that_a_boolean_has_no_gradient():
    with mt.Context() as ctx:
        box = Box(1.0)
        out = box.v > 0.0
    with pytest.raises(mt.ContextError, match="was not computed from anything that this context traced"):
        ctx.grad(out, box)


def test_a_constant_result_has_the_gradient_zero():
    x = np.array([1.0, 2.0])
    for constant in (0.0, 0, 3, np.float64(2.0), np.float32(1.0), sum([])):
        np.testing.assert_array_equal(mt.grad(lambda x, constant=constant: constant)(x), [0.0, 0.0])


def test_an_error_has_the_right_article():
    with pytest.raises(mt.GradientTypeError, match="the result is an int, and a Jacobian"):
        mt.jacobian(lambda x: 3)(np.ones(2))
    with pytest.raises(mt.GradientTypeError, match=r"argument 0 .* is an int, and integers"):
        mt.grad(lambda x: x * 2.0)(3)
