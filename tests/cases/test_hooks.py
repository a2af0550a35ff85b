"""Case 21: converters, validators and `on_setattr` hooks see what they see in a plain run, and cut no gradient."""

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import ZERO, Fields, three_ways


@mt.differentiable
class Scalar:
    v: float = mt.field(converter=float)


@mt.differentiable
class Array:
    v: np.ndarray = mt.field(converter=np.asarray)


@mt.differentiable
class Checked:
    v: np.ndarray = mt.field(validator=attrs.validators.instance_of(np.ndarray))


@mt.differentiable
class CheckedFloat:
    v: float = mt.field(validator=attrs.validators.instance_of(float))


def add_one(instance, attribute, value):
    return value + 1


@mt.differentiable
class Hooked:
    v: object = mt.field(on_setattr=add_one)


def square(o):
    o.v = o.v * o.v
    return np.sum(o.v * o.v)


def test_a_float_converter_runs_on_set_and_cuts_nothing():
    three_ways(lambda: (Scalar(2.0),), square, (Fields(v=32.0),))


def test_a_float_converter_of_an_object_made_in_the_loss():
    def loss(x):
        return Scalar(x * x).v * 3

    three_ways(lambda: (2.0,), loss, (12.0,))


def test_an_asarray_converter_runs_on_set_and_cuts_nothing(xp):
    three_ways(lambda: (Array(xp.asarray([2.0, 1.0])),), square, (Fields(v=[32.0, 4.0]),))


def test_an_asarray_converter_of_an_object_made_in_the_loss(xp):
    def loss(x):
        o = Array(x * x)
        o.v = o.v * x
        return np.sum(o.v)

    three_ways(lambda: (xp.asarray([2.0, 1.0]),), loss, ([12.0, 3.0],))


def test_an_instance_validator_accepts_what_stands_for_an_array(xp):
    three_ways(lambda: (Checked(xp.asarray([2.0, 1.0])),), square, (Fields(v=[32.0, 4.0]),))
    three_ways(lambda: (CheckedFloat(2.0),), square, (Fields(v=32.0),))


def test_an_instance_validator_still_refuses(xp):
    box = Checked(xp.asarray([2.0, 1.0]))
    before = box.v

    def loss(o):
        o.v = o.v * 2
        o.v = "text"
        return 1.0

    for _ in range(3):
        with pytest.raises(TypeError, match="must be"):
            mt.grad(loss)(box)
        assert box.v is before


def test_an_on_setattr_hook_runs_once_per_write(xp):
    # v -> v² + 1, and the loss is (v² + 1)².
    three_ways(lambda: (Hooked(2.0),), square, (Fields(v=40.0),))
    three_ways(lambda: (Hooked(xp.asarray([2.0, 1.0])),), square, (Fields(v=[40.0, 8.0]),))


def test_a_hook_for_the_whole_class(xp):
    seen = []

    def note(instance, attribute, value):
        seen.append((attribute.name, np.shape(value), isinstance(value, np.ndarray)))
        return value * 2

    @mt.differentiable(on_setattr=note)
    class Noted:
        v: object
        w: object = 1.0

    def loss(o):
        o.v = o.v * o.w
        return np.sum(o.v)

    three_ways(lambda: (Noted(xp.asarray([2.0, 1.0])),), loss, (Fields(v=[2.0, 2.0], w=6.0),))
    assert set(seen) == {("v", (2,), True)}


def test_a_frozen_field_refuses_in_a_recording_too():
    @mt.differentiable
    class Half:
        v: float = mt.field(on_setattr=attrs.setters.frozen)
        w: float = 0.0

    def loss(o):
        o.w = o.v * 2
        o.v = 1.0
        return o.w

    box = Half(3.0)
    for _ in range(3):
        with pytest.raises(attrs.exceptions.FrozenAttributeError):
            mt.grad(loss)(box)
        assert (box.v, box.w) == (3.0, 0.0)
    three_ways(lambda: (box,), lambda o: o.v**2, (Fields(v=6.0),))


def test_a_frozen_class_refuses_in_a_recording_too():
    @mt.differentiable(frozen=True)
    class Frozen:
        v: float

    def loss(o):
        o.v = 1.0
        return o.v

    box = Frozen(3.0)
    for _ in range(3):
        with pytest.raises(attrs.exceptions.FrozenInstanceError):
            mt.grad(loss)(box)
        assert box.v == 3.0


@pytest.mark.parametrize("kwargs", [{}, {"slots": False}, {"frozen": True}, {"slots": False, "frozen": True}])
def test_converters_and_validators_of_every_kind_of_class(kwargs):
    positive = attrs.validators.gt(0.0)

    @mt.differentiable(**kwargs)
    class Positive:
        v: float = mt.field(converter=float, validator=[attrs.validators.instance_of(float), positive])

    three_ways(lambda: (Positive(2.0),), lambda o: Positive(o.v * o.v).v * o.v, (Fields(v=12.0),))
    with pytest.raises(ValueError, match="must be > 0"):
        mt.grad(lambda o: Positive(-o.v).v)(Positive(2.0))


def test_a_converter_that_computes_is_differentiated(xp):
    @mt.differentiable
    class Positive:
        v: object = mt.field(converter=np.exp)

    def loss(o):
        o.v = np.log(o.v) * 2
        return np.sum(o.v)

    # The converter runs on the write: v -> exp(2 log v) = v².
    three_ways(lambda: (Positive(xp.asarray([0.0, 0.5])),), loss, (Fields(v=2 * np.exp([0.0, 0.5])),))


def test_a_converter_that_takes_self_or_field_sees_them():
    @mt.differentiable
    class Scaled:
        scale: float
        v: float = mt.field(converter=attrs.Converter(lambda value, o: value * o.scale, takes_self=True))

    def loss(o):
        o.v = o.v * 1.0
        return o.v

    # Made with 2 * 3; the write multiplies by the scale once more: v = 6 * 2.
    three_ways(lambda: (Scaled(2.0, 3.0),), loss, (Fields(scale=6.0, v=2.0),))


def test_optional_and_default_converters():
    @mt.differentiable
    class Maybe:
        v: object = mt.field(converter=attrs.converters.optional(float))
        w: object = mt.field(default=None, converter=attrs.converters.default_if_none(2.0))

    def loss(o):
        o.v = o.v * o.w
        return o.v

    three_ways(lambda: (Maybe(3.0),), loss, (Fields(v=2.0, w=3.0),))
    assert Maybe(None).v is None
    assert mt.grad(lambda x: Maybe(x).v * 2)(1.0) == 2.0


def test_a_converter_pipe_with_a_dtype(xp):
    @mt.differentiable
    class Single:
        v: np.ndarray = mt.field(converter=lambda value: np.asarray(value, np.float32))

    def loss(o, x):
        o.v = o.v * x
        return np.sum(o.v)

    for _ in range(3):
        box = Single([1.0, 2.0])
        tangent, dx = mt.grad(loss, argnums=(0, 1))(box, xp.asarray([3.0, 4.0]))
        assert tangent.v.dtype == np.float32
        assert dx.dtype == np.float64
        np.testing.assert_allclose(tangent.v, [3.0, 4.0])
        np.testing.assert_allclose(dx, [1.0, 2.0])
        assert box.v.dtype == np.float32


def test_a_validator_sees_a_plain_value_or_something_that_compares_like_one():
    seen = []

    def small(instance, attribute, value):
        seen.append(bool(value < 100))
        if value >= 100:
            raise ValueError("too large")

    @mt.differentiable
    class Small:
        v: float = mt.field(validator=small)

    box = Small(3.0)
    three_ways(lambda: (box,), square, (Fields(v=108.0),))
    box.v = 20.0
    for _ in range(3):
        with pytest.raises(ValueError, match="too large"):
            mt.grad(square)(box)
        assert box.v == 20.0
    assert set(seen) == {True, False}


def test_a_validator_that_reads_the_object_sees_the_write():
    @mt.differentiable
    class Ordered:
        low: float
        high: float = mt.field()

        @high.validator
        def _above(self, attribute, value):
            if value < self.low:
                raise ValueError(f"{value} is below {self.low}")

    def loss(o):
        o.low = o.low * 2
        o.high = o.high + 1
        return o.high * o.low

    three_ways(lambda: (Ordered(1.0, 3.0),), loss, (Fields(low=8.0, high=2.0),))
    box = Ordered(3.0, 4.0)
    with pytest.raises(ValueError, match="below"):
        mt.grad(loss)(box)
    assert (box.low, box.high) == (3.0, 4.0)


def test_an_int_converter_makes_a_counter_without_a_tangent():
    @mt.differentiable
    class Counted:
        v: float
        n: int = mt.field(default=0, converter=int)

    def loss(o):
        o.n = o.n + 1
        o.v = o.v * o.n
        return o.v * 2

    three_ways(lambda: (Counted(3.0),), loss, (Fields(v=2.0, n=ZERO),))
