"""A traced value never loses its gradient silently: every way out of an open recording is an error with the cure."""

import math
import operator

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = None


CURE = r"mutangent\.primal"


def fails_in_every_way(f, box, match, error=mt.TracedValueError):
    """`f(box)` raises in each kind of recording, three times, and leaves the object as before."""
    v, w = box.v, box.w

    def by_context(f, box):
        with mt.Context():
            f(box)

    for way in (lambda f, b: mt.grad(f)(b), mt.vjp, by_context):
        for _ in range(3):
            with pytest.raises(error, match=match) as caught:
                way(f, box)
            assert isinstance(caught.value, mt.MutangentError) or error is ValueError
            assert box.v is v
            assert box.w is w
    return caught.value


def changing(f):
    """The same after a write, so that there is something to roll back."""

    def changed(box):
        box.w = box.v * 2
        return f(box.v)

    return changed


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (float, r"float\("),
        (int, r"int\("),
        (complex, r"complex\("),
        (round, r"round\("),
        (math.sin, r"float\("),
        (math.floor, r"float|floor|int"),
        (lambda x: [1.0].__mul__(int(x)), r"int\("),
    ],
)
def test_a_python_conversion_of_a_traced_number_is_refused(convert, name):
    error = fails_in_every_way(changing(convert), Box(2.0), name)
    assert isinstance(error, TypeError)
    assert "mutangent.primal" in str(error)


@pytest.mark.parametrize(
    ("convert", "name"),
    [
        (float, r"float\("),
        (int, r"int\("),
        (lambda x: x.tolist(), r"tolist"),
        (lambda x: x.tobytes(), r"tobytes"),
    ],
)
def test_a_python_conversion_of_a_traced_array_of_one_element_is_refused(convert, name, xp):
    error = fails_in_every_way(changing(convert), Box(xp.asarray([2.0])), name)
    assert isinstance(error, TypeError)
    assert "mutangent.primal" in str(error)


@pytest.mark.parametrize(
    "convert",
    [
        np.asarray,
        np.array,
        lambda x: np.array([x, x]),
        lambda x: np.asarray([x[0], x[1]]),
        lambda x: np.asarray(x, dtype=np.float32),
        np.ascontiguousarray,
        lambda x: np.sum([x[0], x[1]]),
    ],
)
def test_a_conversion_to_a_plain_array_is_refused_with_the_cure(convert, xp):
    error = fails_in_every_way(
        changing(convert), Box(xp.asarray([2.0, 1.0])), rf"(np\.(as)?array|float\()(.|\n)*{CURE}"
    )
    assert isinstance(error, TypeError)


def test_the_error_names_shape_and_dtype(xp):
    fails_in_every_way(
        changing(np.asarray), Box(xp.asarray(np.ones((2, 3)), np.float32)), r"shape \(2, 3\)(.|\n)*float32"
    )


def test_the_error_of_an_array_of_traced_numbers_says_stack(xp):
    fails_in_every_way(changing(lambda x: np.array([x[0], x[1]])), Box(xp.asarray([2.0, 1.0])), r"np\.stack")
    fails_in_every_way(changing(lambda x: np.array([x, x])), Box(2.0), r"np\.stack")


# ---------------------------------------------------------------- writing into plain arrays


def set_item(x):
    plain = np.zeros(2)
    plain[0] = x[0]
    return plain.sum()


def set_slice(x):
    plain = np.zeros((2, 2))
    plain[1] = x
    return plain.sum()


def set_mask(x):
    plain = np.zeros(2)
    plain[plain == 0] = x
    return plain.sum()


@pytest.mark.parametrize("write", [set_slice, set_mask])
def test_an_item_of_a_plain_array_is_not_assigned_a_traced_value(write, xp):
    error = fails_in_every_way(
        changing(write), Box(xp.asarray([2.0, 1.0])), rf"(plain\[i\]|np\.where|np\.stack)(.|\n)*{CURE}"
    )
    assert isinstance(error, TypeError)


@pytest.mark.parametrize(
    "write",
    [
        set_item,
        lambda x: np.zeros(2).fill(x[0]),
        lambda x: np.fromiter((e for e in x), float),
    ],
)
def test_a_single_number_is_refused_too_behind_an_error_of_numpy(write, xp):
    """NumPy turns every error of `__float__` there into a ValueError of its own; ours is its cause, and is shown."""
    box = Box(xp.asarray([2.0, 1.0]))
    error = fails_in_every_way(changing(write), box, "sequence", error=ValueError)
    cause = error.__cause__
    assert isinstance(cause, mt.TracedValueError)
    assert "mutangent.primal" in str(cause)


@pytest.mark.parametrize(
    "augmented", [operator.iadd, operator.isub, operator.imul, operator.itruediv, operator.ipow]
)
def test_a_plain_array_is_not_augmented_by_a_traced_value(augmented, xp):
    kept = np.ones(2)
    error = fails_in_every_way(
        changing(lambda x: np.sum(augmented(kept, x))),
        Box(xp.asarray([2.0, 1.0])),
        r"shape \(2,\) and dtype float64(.|\n)*plain = plain \+ x",
    )
    assert isinstance(error, TypeError)
    np.testing.assert_array_equal(kept, 1.0)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, out: np.add(x, 1.0, out=out),
        lambda x, out: np.multiply(1.0, x, out),
        lambda x, out: np.exp(x, out=out),
        lambda x, out: np.matmul(np.ones((2, 2)), x, out=out),
        lambda x, out: np.sum(np.stack([x, x]), axis=0, out=out),
        lambda x, out: np.concatenate([x[:1], x[1:]], out=out),
        lambda x, out: np.stack([x[0], x[1]], out=out),
        lambda x, out: np.clip(x, 0.0, 1.0, out=out),
    ],
)
def test_out_does_not_take_a_traced_value_into_a_plain_array(write, xp):
    kept = np.ones(2)
    error = fails_in_every_way(
        changing(lambda x: np.sum(write(x, kept))), Box(xp.asarray([2.0, 1.0])), r"out=(.|\n)*y = "
    )
    assert isinstance(error, TypeError)
    np.testing.assert_array_equal(kept, 1.0)


@pytest.mark.parametrize(
    "write",
    [
        lambda x, plain: np.copyto(plain, x),
        lambda x, plain: np.put(plain, [0], x[:1]),
        lambda x, plain: np.place(plain, [True, False], x[:1]),
        lambda x, plain: np.putmask(plain, [True, False], x),
        lambda x, plain: np.add.at(plain, [0], x[0]),
        lambda x, plain: plain.__setitem__(..., x),
        lambda x, plain: np.put_along_axis(plain, np.array([0]), x[0], 0),
    ],
)
def test_functions_that_write_do_not_take_a_traced_value_into_a_plain_array(write, xp):
    kept = np.ones(2)
    fails_in_every_way(
        changing(lambda x: write(x, kept)), Box(xp.asarray([2.0, 1.0])), ".", error=mt.MutangentError
    )
    np.testing.assert_array_equal(kept, 1.0)


# ---------------------------------------------------------------- what stays allowed


def test_text_comparisons_and_truth_of_one_element_work(xp):
    texts = []

    def loss(x, y):
        texts.extend([repr(x), str(y), f"{y:.2f}", f"{x}"])
        assert y > 1
        assert y >= 2.0
        assert y < 3
        assert not y == 5  # noqa: SIM201 - the operator is the test
        assert y != 1
        assert bool(y)
        assert (x > 1.5).tolist() == [True, False]
        assert [1.0, y].index(2.0) == 1
        assert sorted([y, 1.0])[1] is y
        assert max(y, 1.0) is y
        return np.sum(x) * y if y else 0.0

    for _ in range(3):
        dx, dy = mt.grad(loss, argnums=(0, 1))(xp.asarray([2.0, 1.0]), 2.0)
        np.testing.assert_array_equal(dx, [2.0, 2.0])
        assert dy == 3.0
    assert "2." in texts[0]
    assert texts[1:3] == ["2.0", "2.00"]


def test_a_closed_recording_lets_its_values_go(xp):
    kept = []

    def loss(x):
        kept.append(x * 2)
        return np.sum(x)

    mt.grad(loss)(xp.asarray([2.0]))
    (old,) = kept
    assert float(old[0]) == 4.0
    assert int(old[0]) == 4
    plain = np.zeros(1)
    plain[0] = old[0]
    plain += old
    assert plain.tolist() == [8.0]
    assert np.array([old, old]).tolist() == [[4.0], [4.0]]
    assert math.sin(old[0]) == math.sin(4.0)


def test_what_a_raised_error_interrupted_can_go_on_with_the_cure(xp):
    def loss(x):
        with pytest.raises(mt.TracedValueError):
            np.asarray(x)
        with pytest.raises(mt.TracedValueError):
            float(x[0])
        return np.sum(x**2) * float(mt.primal(x[0]))

    for _ in range(3):
        np.testing.assert_array_equal(mt.grad(loss)(xp.asarray([2.0, 1.0])), [8.0, 4.0])


def test_numpy_full_and_full_like_say_what_to_write():
    plain = np.zeros(3)
    with pytest.raises(mt.TracedValueError, match=r"x \* np\.ones\(shape\) for np\.full\(shape, x\)"):
        mt.grad(lambda x: np.sum(np.full(3, x)))(2.0)
    with pytest.raises(
        mt.TracedValueError, match=r"x \* np\.ones_like\(plain\) for np\.full_like\(plain, x\)"
    ):
        mt.grad(lambda x: np.sum(np.full_like(plain, x)))(2.0)
    assert mt.grad(lambda x: np.sum(x * np.ones(3)))(2.0) == 3.0


def test_the_ends_of_interp_are_named_and_say_what_to_write():
    with pytest.raises(
        mt.TracedValueError, match=r"np\.where\(t > xp\[-1\], x, np\.interp\(t, xp, fp\)\) for right=x"
    ):
        mt.grad(lambda x: np.interp(0.3, [0.0, 1.0], [0.0, 1.0], right=x))(2.0)
    with pytest.raises(mt.NoRuleError, match=r"numpy\.interp with respect to right="):
        mt.grad(lambda x: np.interp(x, [0.0, 1.0], [0.0, 1.0], right=x))(2.0)
