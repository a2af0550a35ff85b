"""`stop_gradient`, `primal` and `pause`: three ways to leave something out of the derivative."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


# ---------------------------------------------------------------- stop_gradient


def test_stop_gradient_is_a_constant(xp):
    for _ in range(3):
        assert mt.grad(lambda x: x * mt.stop_gradient(x * x))(3.0) == 9.0
        np.testing.assert_array_equal(
            mt.grad(lambda x: np.sum(x * mt.stop_gradient(x)))(xp.asarray([3.0, 1.0])), [3.0, 1.0]
        )


def test_stop_gradient_stops_derivatives_of_every_order():
    def f(x):
        return x**3 * mt.stop_gradient(x)

    for _ in range(3):
        assert mt.grad(mt.grad(f))(2.0) == 24.0
        assert mt.grad(mt.grad(lambda x: mt.stop_gradient(x) ** 3 + 0 * x))(2.0) == 0.0


def test_stop_gradient_in_a_field_cuts_the_state():
    def loss(o):
        for _ in range(3):
            o.v = mt.stop_gradient(o.v) * o.w
        return o.v * 1.0

    for _ in range(3):
        o = Box(2.0, 3.0)
        tangent = mt.grad(loss)(o)
        assert tangent.v == mt.ZeroTangent() or tangent.v == 0.0
        assert tangent.w == 18.0
        assert o.v == 54.0
        assert type(o.v) is float


def test_stop_gradient_goes_into_containers(xp):
    def loss(x):
        constant = mt.stop_gradient({"a": [x, (x * 2, "text", 3)]})
        a = constant["a"]
        assert a[1][1:] == ("text", 3)
        return np.sum(x * a[0] * a[1][0])

    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(xp.asarray([1.0, 2.0])), [2.0, 8.0])


def test_stop_gradient_gives_a_copy(xp):
    x = xp.asarray([1.0, 2.0])
    y = mt.stop_gradient(x)
    assert y is not x
    np.testing.assert_array_equal(y, x)
    assert type(mt.stop_gradient(2.0)) is float
    assert mt.stop_gradient("text") == "text"
    assert mt.stop_gradient(None) is None


def test_stop_gradient_of_an_object_says_what_to_do():
    with pytest.raises(mt.GradientTypeError, match=r"Box(.|\n)*(fields|pause)"):
        mt.grad(lambda o: mt.stop_gradient(o).v)(Box(1.0))


# ---------------------------------------------------------------- primal


def test_primal_is_the_plain_value_itself(xp):
    seen = []

    def loss(o):
        plain = mt.primal(o.v)
        assert plain is array
        seen.append(type(plain))
        return np.sum(o.v * plain)

    array = xp.asarray([1.0, 2.0])
    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(Box(array)).v, [1.0, 2.0])
    assert set(seen) == {np.ndarray}
    assert mt.primal(array) is array
    assert mt.primal("text") == "text"


def test_primal_goes_through_all_levels():
    seen = []

    def f(x):
        seen.append((mt.primal(x), type(mt.primal(x))))
        return x**3

    assert mt.grad(mt.grad(mt.grad(f)))(2.0) == 6.0
    assert seen == [(2.0, float)]


def test_primal_of_a_number_may_be_converted_and_decide():
    def loss(x):
        steps = int(mt.primal(x))
        return x**steps

    for _ in range(3):
        assert mt.grad(loss)(3.5) == pytest.approx(3 * 3.5**2)


# ---------------------------------------------------------------- pause


def test_nothing_is_recorded_in_a_pause():
    def loss(x):
        with mt.pause():
            scale = float(x) * 10 + np.sin(x)
        return x * scale

    for _ in range(3):
        assert mt.grad(loss)(2.0) == pytest.approx(20.0 + np.sin(2.0))


def test_a_write_in_a_pause_is_a_constant_and_is_kept():
    def loss(o):
        with mt.pause():
            o.v = o.v * 10
        return o.v * o.w

    for _ in range(3):
        o = Box(2.0, 3.0)
        tangent = mt.grad(loss)(o)
        assert tangent.w == 20.0
        assert tangent.v == mt.ZeroTangent() or tangent.v == 0.0
        assert o.v == 20.0
        assert type(o.v) is float


def test_a_read_in_a_pause_is_a_constant_and_later_reads_are_not():
    def loss(o):
        with mt.pause():
            constant = o.v * 1.0
        return constant * o.v

    for _ in range(3):
        assert mt.grad(loss)(Box(3.0)).v == 3.0


def test_a_value_read_in_a_pause_and_used_after_it_has_its_gradient_or_is_a_constant():
    """The value that a pause let pass is either traced for good or constant for good, never something between."""

    def loss(o):
        with mt.pause():
            v = o.v
        return v * o.v

    assert mt.grad(loss)(Box(3.0)).v in (3.0, 6.0)


def test_a_write_in_a_pause_is_undone_by_an_exception():
    def fails(o):
        with mt.pause():
            o.v = 50.0
        raise KeyError

    o = Box(2.0)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(o)
        assert o.v == 2.0


def test_an_exception_in_a_pause_ends_the_pause():
    def loss(x):
        with pytest.raises(KeyError), mt.pause():
            raise KeyError
        return x**2

    for _ in range(3):
        assert mt.grad(loss)(3.0) == 6.0


def test_pauses_nest_and_end_in_order():
    def loss(x):
        with mt.pause():
            with mt.pause():
                a = x * 2
            b = x * 3
        return x * a * b

    for _ in range(3):
        assert mt.grad(loss)(2.0) == 24.0


def test_a_pause_without_a_recording_does_nothing():
    o = Box(2.0)
    with mt.pause():
        o.v = o.v * 2
        assert o.v == 4.0
    assert mt.grad(lambda o: o.v**2)(o).v == 8.0


def test_a_pause_pauses_every_level():
    def f(x):
        with mt.pause():
            constant = x * x
        return x**2 * constant

    for _ in range(3):
        assert mt.grad(f)(2.0) == 16.0
        assert mt.grad(mt.grad(f))(2.0) == 8.0


def test_a_gradient_computed_in_a_pause_is_a_constant():
    def loss(o):
        with mt.pause():
            step = mt.grad(lambda o: o.v**3)(o).v
        return o.v * step

    for _ in range(3):
        assert mt.grad(loss)(Box(2.0)).v == 12.0


def test_a_pause_in_a_context():
    o = Box(2.0, 3.0)
    with mt.Context() as ctx:
        y = o.v * o.w
        with mt.pause():
            z = o.v * o.v
        out = y * z
    tangent = ctx.grad(out, o)
    assert (tangent.v, tangent.w) == (12.0, 8.0)
