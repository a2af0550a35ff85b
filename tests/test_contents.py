"""Every change of an array is noticed."""

import numpy as np
import pytest

from mutangent._contents import COMPARED_BYTES, COPIED_BYTES, contents_of, has_contents, in_little_memory

SHAPES = [(7,), (COPIED_BYTES,), (COPIED_BYTES + 3,), (257, 300), (3, 129, 257), (512, 512), (600_001, 1)]


@pytest.fixture(params=[np.float16, np.float32, np.float64, np.complex128], ids=lambda dtype: dtype.__name__)
def dtype(request):
    return request.param


@pytest.fixture(params=SHAPES, ids=str)
def array(request, dtype):
    return np.random.default_rng(0).normal(size=request.param).astype(dtype)


@pytest.mark.parametrize("place", [0, 1, -1, "middle"])
def test_a_change_of_any_one_element_is_seen(array, place):
    before = contents_of(array)
    flat = array.reshape(-1)
    flat[array.size // 2 if place == "middle" else place] += 1
    assert not has_contents(array, before)


@pytest.mark.parametrize(
    "rearranged",
    [
        lambda a: a[::-1],
        lambda a: np.roll(a, 1, axis=-1),
        lambda a: np.roll(a, 256),
        lambda a: np.roll(a, 512),
        lambda a: np.sort(a, axis=0),
        lambda a: -a,
    ],
    ids=["reversed", "rolled by one", "rolled by 256", "rolled by 512", "sorted", "negated"],
)
def test_rearranging_or_negating_is_seen(array, rearranged):
    before = contents_of(array)
    made = rearranged(array).copy()
    same = np.array_equal(made, array)  # one column that is rolled, for example
    array[...] = made
    assert has_contents(array, before) == same


def test_two_rows_or_columns_that_change_places_are_seen():
    for axis in (0, 1):
        array = np.random.default_rng(0).normal(size=(300, 256))
        before = contents_of(array)
        array[...] = np.take(array, [1, 0, *range(2, array.shape[axis])], axis)
        assert not has_contents(array, before)


def test_a_copy_has_the_same_contents(array):
    assert has_contents(array.copy(), contents_of(array))


def test_nan_is_like_any_other_content():
    array = np.full(COPIED_BYTES, np.nan)
    before = contents_of(array)
    assert has_contents(array, before)
    array[5] = 1.0
    assert not has_contents(array, before)


@pytest.mark.parametrize("view", [lambda a: a.T, lambda a: a[::2], lambda a: a[:, ::-3], lambda a: a[:, 1:]])
def test_arrays_with_other_strides_are_seen_to_change(view):
    array = np.random.default_rng(0).normal(size=(600, 700)).astype(np.float32)
    part = view(array)
    before = contents_of(part)
    assert has_contents(part, before)
    part[3, 5] += 1
    assert not has_contents(part, before)


@pytest.mark.parametrize("length", [COPIED_BYTES // 8 + 1, COMPARED_BYTES // 8 + 1])
def test_what_is_kept_for_long_is_small_and_sees_the_same(length):
    array = np.random.default_rng(0).normal(size=length)
    before = in_little_memory(array, contents_of(array))
    assert type(before) is int
    assert has_contents(array, before)
    array *= -1
    assert not has_contents(array, before)
