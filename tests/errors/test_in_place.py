"""A traced array that is written in place is an error with the functional form, not a wrong gradient."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: np.ndarray
    w: np.ndarray


def set_item(b):
    b.v[0] = 1.0


def set_slice_to_traced(b):
    b.v[:1] = b.w[:1]


def set_mask(b):
    b.v[b.v > 0] = 0.0


def set_in_view(b):
    row = b.v[:1]
    row[0] = 5.0


def add(b):
    b.v += b.w


def multiply_slice(b):
    b.v[:1] *= 2


def add_to_local(b):
    x = b.v
    x += 1.0


def out(b):
    np.add(b.w, 1.0, out=b.v)


def fill(b):
    b.v.fill(0.0)


def sort(b):
    b.v.sort()


def copy_to(b):
    np.copyto(b.v, b.w)


def add_at(b):
    np.add.at(b.v, [0], 1.0)


WRITES = [set_item, set_slice_to_traced, set_mask, set_in_view, add, multiply_slice, add_to_local, out]
OTHER_WRITES = [fill, sort, copy_to, add_at]


def refused(write, box, error):
    v, w, contents = box.v, box.w, box.v.copy()

    def loss(b):
        b.w = b.w * 3
        write(b)
        return np.sum(b.v * b.w)

    def by_context(f, b):
        with mt.Context():
            f(b)

    for way in (lambda f, b: mt.grad(f)(b), mt.vjp, by_context):
        for _ in range(3):
            with pytest.raises(error) as caught:
                way(loss, box)
            assert box.v is v
            assert box.w is w
            np.testing.assert_array_equal(v, contents)
    return caught.value


@pytest.mark.parametrize("write", WRITES)
def test_a_write_into_a_traced_array_is_refused_with_the_cure(write, xp):
    error = refused(write, Box(xp.asarray([2.0, 1.0]), xp.asarray([3.0, 4.0])), mt.InPlaceError)
    assert isinstance(error, NotImplementedError)
    assert "in place" in str(error)
    assert any(cure in str(error) for cure in ("np.where", "np.stack", "np.concatenate", "x = x ", "y = "))


@pytest.mark.parametrize("write", OTHER_WRITES)
def test_other_ways_to_write_into_a_traced_array_are_refused(write, xp):
    refused(write, Box(xp.asarray([2.0, 1.0]), xp.asarray([3.0, 4.0])), mt.MutangentError)


def test_an_augmented_assignment_of_numbers_works():
    @mt.differentiable
    class Scalar:
        v: float

    def loss(s, x):
        s.v += x
        s.v *= x
        s.v -= 1.0
        s.v /= 2.0
        s.v **= 2
        return s.v * 1.0

    for _ in range(3):
        s = Scalar(2.0)
        tangent, dx = mt.grad(loss, argnums=(0, 1))(s, 3.0)
        # v = ((2 + 3) 3 - 1)/2 = 7, squared; dv/ds = 3/2, dv/dx = (5 + 3)/2
        assert tangent.v == pytest.approx(2 * 7 * 1.5)
        assert dx == pytest.approx(2 * 7 * 4.0)
        assert s.v == 49.0
        assert type(s.v) is float


def test_a_constant_array_of_the_function_may_be_written_in_place(xp):
    def loss(x):
        mask = np.zeros(2)
        mask[0] = 1.0
        mask += 1.0
        return np.sum(x * mask)

    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(xp.asarray([2.0, 1.0])), [2.0, 1.0])


def test_a_constant_overwritten_after_its_use_is_right_or_an_error(xp):
    def loss(x):
        a = np.ones(2)
        y = x * a
        a[:] = 5.0
        return np.sum(y)

    for _ in range(3):
        try:
            gradient = mt.grad(loss)(xp.asarray([2.0, 1.0]))
        except mt.MutangentError:
            continue
        np.testing.assert_array_equal(gradient, [1.0, 1.0])
