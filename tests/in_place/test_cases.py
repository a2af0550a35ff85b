"""Arrays written in place: the acceptance cases and their siblings, by every way to differentiate."""

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads
from tests.cases.harness import NUMERICAL, Fields, three_ways

X = [1.0, 2.0, 3.0]


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


def array(values):
    return np.array(values, dtype=float)


def of_arrays(*values):
    return lambda: tuple(array(value) for value in values)


# ---------------------------------------------------------------- writing by index


def test_a_block_of_a_field_is_written():
    def loss(box, a):
        box.v[:2, :2] = a
        return np.sum(box.v**2)

    a = [[1.0, 2.0], [3.0, 4.0]]
    three_ways(lambda: (Box(np.zeros((4, 4))), array(a)), loss, (..., 2 * array(a)))


@pytest.mark.parametrize(
    "zeros",
    [
        lambda a: np.zeros_like(a, shape=(4, 4)),
        lambda a: np.zeros((4, 4), like=a),
        lambda a: np.ones_like(a, shape=(4, 4)) * 0.0,
    ],
)
def test_a_block_of_an_array_made_like_a_traced_one_is_written(zeros):
    def loss(a):
        b = zeros(a)
        if type(b) is np.ndarray:
            b = Box(b).v
        b[:2, :2] = a
        return np.sum(b**2)

    a = [[1.0, 2.0], [3.0, 4.0]]
    three_ways(of_arrays(a), loss, (2 * array(a),))


def test_an_array_assigned_to_a_field_inside_takes_traced_values():
    def loss(box, x):
        box.v = np.zeros(3)
        before = np.sum(box.v * x)
        for i in range(3):
            box.v[i] = x[i] ** 2
        return before + np.sum(box.v)

    three_ways(lambda: (Box(np.ones(3)), array(X)), loss, (..., [2.0, 4.0, 6.0]))


def test_a_copy_of_a_constant_array_takes_traced_values():
    def loss(x):
        box = Box(np.zeros((3, 2)).T)
        flat, copy = box.v.reshape(-1), box.v.copy()
        flat[1] = x[0] * 2
        copy[:, 0] += x[:2]
        box.v[box.v == 0] += x[2]
        return np.sum(flat**2) + np.sum(copy**2) + np.sum(box.v)

    three_ways(of_arrays(X), loss, ([10.0, 4.0, 6.0],))


def test_an_array_of_an_object_made_inside_takes_traced_values():
    def loss(x):
        box = Box(np.zeros((2, 3)))
        box.v[1] = x
        box.v[0, :2] += x[1:]
        return np.sum(box.v**2)

    three_ways(of_arrays(X), loss, ([2.0, 8.0, 12.0],))


def test_an_element_is_written_from_itself_again_and_again():
    def loss(x, y):
        for y_i in y:
            x[0, 0] = y_i + x[0, 0] ** 2
        return x[0, 0] * 1.0

    three_ways(of_arrays([[0.0]], [0.5, 0.3, 0.2]), loss, (..., [1.1, 1.1, 1.0]), rtol=1e-6)


def test_the_last_write_to_a_repeated_index_wins():
    def loss(x, v):
        y = x.copy()
        y[[0, 0]] = v
        return np.sum(y**2)

    three_ways(of_arrays(X, [5.0, 6.0]), loss, ([0.0, 4.0, 6.0], [0.0, 12.0]))


def test_an_augmented_write_to_a_repeated_index_counts_once():
    def loss(x):
        y = x.copy()
        y[[0, 0]] += 1
        return np.sum(y**2)

    three_ways(of_arrays(X), loss, ([4.0, 4.0, 6.0],))


def test_add_at_of_one_place_takes_a_number():
    def loss(x, v):
        y = x.copy()
        np.add.at(y, 1, v)
        np.subtract.at(y, 0, 2.0 * v)
        return np.sum(y**2)

    # (1 - 2 v)² + (2 + v)² + 3² at v = 0.5
    three_ways(lambda: (array(X), 0.5), loss, ([0.0, 5.0, 6.0], 5.0))


def test_add_at_adds_one_after_the_other_as_numpy_does(rng):
    for _ in range(20):  # the sum of what is added would differ in the last bit
        x, added = rng.normal(size=3), rng.normal(size=6)
        expected = x.copy()
        np.add.at(expected, [0, 1, 0, 1, 0, 1], added)

        def loss(x, added):
            np.add.at(x, [0, 1, 0, 1, 0, 1], added)
            return np.sum(x)

        mt.grad(loss)(x, added)
        np.testing.assert_array_equal(x, expected)


def test_add_at_adds_for_every_repetition():
    def loss(x):
        y = x.copy()
        np.add.at(y, [0, 0], x[1])
        return np.sum(y**2)

    three_ways(of_arrays(X), loss, ([10.0, 24.0, 6.0],))


def test_the_index_of_add_at_may_be_overwritten_afterwards():
    def loss(x):
        y = np.zeros_like(x)
        index = np.array([0, 0, 1])
        np.add.at(y, index, x**2)
        index[:] = 2
        np.add.at(y, index, x)
        return np.sum(y**2)

    three_ways(of_arrays(X), loss, NUMERICAL)


def test_subtract_at_subtracts_for_every_repetition():
    def loss(x):
        y = x.copy()
        np.subtract.at(y, [0, 0], x[1])
        return np.sum(y**2)

    three_ways(of_arrays(X), loss, NUMERICAL)


INDICES = [
    (0,),
    (-1, 2),
    np.s_[1:],
    np.s_[::-1, ::2],
    np.s_[..., 1],
    np.s_[None, 0],
    ([0, 1],),
    ([1, 1, 0],),
    (np.array([1, 0]), np.array([2, 2])),
    np.s_[:, [2, 2, 0]],
    np.s_[[1, 1], 1:],
    (np.array([[True, False, True], [False, True, False]]),),
    (np.array([True, False]),),
    np.s_[:, [True, False, True]],
    (np.array([[0, 1], [1, 0]]),),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
@pytest.mark.parametrize("whole", [False, True], ids=["broadcast", "full"])
def test_every_kind_of_index_is_written_as_numpy_writes_it(index, whole):
    shape = np.zeros((2, 3))[index].shape
    value = np.linspace(0.5, 2.0, max(1, int(np.prod(shape)))).reshape(shape) if whole else array(0.7)

    def loss(x, v):
        y = x * x
        y[index] = np.sin(v)
        y[index] *= 1.5
        return np.sum(y**2) + np.sum(y[index])

    three_ways(lambda: (np.arange(1.0, 7.0).reshape(2, 3), np.array(value)), loss, NUMERICAL)
    check_grads(loss, (np.arange(1.0, 7.0).reshape(2, 3), np.array(value)), order=2)


@pytest.mark.parametrize("excess", [1, 2])
def test_a_value_with_more_axes_than_there_are_places_is_written_as_numpy_writes_it(excess):
    def loss(x, row):
        y = x * 1.0
        row = row[(None,) * excess]
        y[0] = row
        y[[1, 1]] = row * 3
        y[:, :1] = y[0, 1:2] * row[..., :1]
        return np.sum(y**3)

    check_grads(loss, (np.arange(6.0).reshape(2, 3), array(X)), order=2)


def test_an_index_that_changes_after_the_write_changes_nothing():
    def loss(x):
        y = x * 1.0
        places = np.array([0])
        y[places] = x[2] * 2
        places[0] = 1
        rows = [0]
        y[rows] *= 3
        rows[0] = 2
        return np.sum(y**2)

    three_ways(of_arrays(X), loss, NUMERICAL)


def test_an_index_that_is_a_number_in_an_array_selects_a_copy():
    def loss(x):
        k = np.array(1)
        row = x[k]
        x[k] = 0.0
        return np.sum(row**2) + np.sum(x)

    three_ways(of_arrays([[1.0, 2.0], [3.0, 4.0]]), loss, NUMERICAL)


def test_a_write_casts_to_the_dtype_of_the_array():
    def loss(box, x):
        box.v[1:] = x * 1.0
        return np.sum(box.v**2)

    box, x = Box(np.ones(3, np.float32)), array([0.1, 0.2])
    tangent, dx = mt.grad(loss, argnums=(0, 1))(box, x)
    assert box.v.dtype == tangent.v.dtype == np.float32
    assert dx.dtype == np.float64
    np.testing.assert_allclose(dx, 2 * x, rtol=1e-6)
    np.testing.assert_array_equal(tangent.v, [2.0, 0.0, 0.0])


def test_a_complex_value_in_a_real_array_is_an_error_as_in_numpy():
    def loss(x, z):
        x += z
        return np.sum(x)

    x = array(X)
    with pytest.raises(TypeError, match="cast"):
        mt.grad(loss)(x, np.array([1j, 0j, 0j]))
    np.testing.assert_array_equal(x, X)


# ---------------------------------------------------------------- entries and aliases


def test_what_was_computed_before_the_write_keeps_the_old_value():
    def loss(a, c):
        b = a * a
        a[:] = c
        return np.sum(b)

    three_ways(of_arrays(X, [-1.0, -2.0, -3.0]), loss, ([2.0, 4.0, 6.0], [0.0, 0.0, 0.0]))

    def both(a, c):
        b = a * a
        a[:] = c
        return np.sum(b) + np.sum(a**3)

    three_ways(of_arrays(X, [-1.0, -2.0, -3.0]), both, ([2.0, 4.0, 6.0], [3.0, 12.0, 27.0]))


def test_an_augmented_assignment_changes_every_name_and_a_sum_does_not():
    def augmented(x):
        y = x
        z = y
        z += 1
        return np.sum(y * z)

    def rebound(x):
        y = x
        z = y
        z = z + 1
        return np.sum(y * z)

    three_ways(of_arrays([1.0, 2.0]), augmented, ([4.0, 6.0],))
    three_ways(of_arrays([1.0, 2.0]), rebound, ([3.0, 5.0],))


def test_a_constant_overwritten_after_its_use_was_what_it_was():
    def loss(x):
        a = np.ones(3)
        y = x * a
        a[:] = 5.0
        return np.sum(y)

    three_ways(of_arrays(X), loss, ([1.0, 1.0, 1.0],))


def test_out_with_where():
    def loss(x, y):
        np.multiply(x, x, where=[True, False, True], out=y)
        return np.sum(y**2)

    three_ways(of_arrays(X, [5.0, 6.0, 7.0]), loss, ([4.0, 0.0, 108.0], [0.0, 12.0, 0.0]))


def test_a_broadcast_view_is_read_only_as_in_numpy():
    def loss(x):
        np.broadcast_to(x, (2, 3))[0] = 1.0
        return np.sum(x)

    x = array(X)
    for _ in range(3):
        with pytest.raises(ValueError, match="read-only"):
            mt.grad(loss)(x)
        np.testing.assert_array_equal(x, X)


def in_place_functions():
    def copyto(x, v):
        np.copyto(x, v, where=np.array([[True, False, True], [False, True, True]]))

    def put(x, v):
        np.put(x, [0, -1, 0], v)

    def place(x, v):
        np.place(x, np.array([[True, False, True], [False, True, True]]), v)

    def putmask(x, v):
        np.putmask(x, mt.primal(x) > 2, v)

    def fill_diagonal(x, v):
        np.fill_diagonal(x, v)

    def put_along_axis(x, v):
        np.put_along_axis(x, np.array([[0, 2, 1]]), v[None], axis=1)

    def sort(x, v):
        x *= v
        x.sort(axis=0)

    def fill(x, v):
        x[0].fill(v[1])

    return [copyto, put, place, putmask, fill_diagonal, put_along_axis, sort, fill]


@pytest.mark.parametrize("write", in_place_functions(), ids=lambda f: f.__name__)
def test_numpys_functions_that_write_in_place(write):
    def loss(x, v):
        write(x, v)
        return np.sum(np.sin(x) * np.arange(1.0, 7.0).reshape(2, 3))

    values = [[1.0, 2.5, 0.3], [4.0, 1.7, 3.1]]
    three_ways(of_arrays(values, [0.7, -1.2, 2.0]), loss, NUMERICAL)
    check_grads(loss, (array(values), array([0.7, -1.2, 2.0])), order=2)


def test_a_function_that_would_write_into_a_plain_array_says_what_to_do():
    def loss(x):
        plain = np.zeros(3)
        np.copyto(plain, x)
        return np.sum(plain)

    with pytest.raises(mt.TracedValueError, match="zeros_like"):
        mt.grad(loss)(array(X))


# ---------------------------------------------------------------- objects


def total_of(tangent):
    """What flows to an array that two fields hold; how they share it is not said."""
    return sum(np.asarray(part) for part in (tangent.v, tangent.w))


def test_the_same_array_in_two_fields_is_written_through_either():
    shared = array(X)
    outside = shared[1:]

    def loss(box):
        tail = box.w[1:]
        box.v[1] = box.v[0] * 4
        box.w += 1
        return np.sum(tail**2) + box.v[0] * box.w[2]

    box = Box(shared, shared)
    for _ in range(3):
        shared[:] = X
        tangent = mt.grad(loss)(box)
        np.testing.assert_array_equal(total_of(tangent), [44.0, 0.0, 10.0])
        assert box.v is shared
        assert box.w is shared
        np.testing.assert_array_equal(shared, [2.0, 5.0, 4.0])
        np.testing.assert_array_equal(outside, [5.0, 4.0])


def test_a_field_read_first_after_the_write_by_another_name_is_up_to_date():
    def loss(box):
        box.v[0] = 5.0
        return np.sum(box.w**2)

    shared = array(X)
    np.testing.assert_array_equal(total_of(mt.grad(loss)(Box(shared, shared))), [0.0, 4.0, 6.0])


@pytest.mark.parametrize("order", ["read first", "written first"])
def test_overlapping_arrays_in_two_fields_are_refused_by_name(order):
    base = array([1.0, 2.0, 3.0, 4.0])
    box = Box(base[:3], base[1:])

    def loss(b):
        if order == "read first":
            b.w * 1.0
        b.v[1] = 5.0
        return np.sum(b.w)

    for _ in range(3):
        with pytest.raises(mt.InPlaceError, match="shares memory"):
            mt.grad(loss)(box)
        np.testing.assert_array_equal(base, [1.0, 2.0, 3.0, 4.0])


def test_a_raise_leaves_contents_untouched():
    def fails(box):
        box.v[0] = 5.0
        box.v *= box.w
        np.add.at(box.v, [0], 1.0)
        raise KeyError

    box = Box(array(X), 2.0)
    v = box.v
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(box)
        with pytest.raises(KeyError):
            mt.vjp(fails, box)
        assert box.v is v
        np.testing.assert_array_equal(v, X)


def test_counters_and_masks_written_in_place_are_committed_and_undone():
    def loss(box):
        box.w[1] += 3
        if box.v[0] > 5:
            raise KeyError
        return np.sum(box.v * box.w)

    box = Box(array(X), np.array([1, 1, 1]))
    counts = box.w
    np.testing.assert_array_equal(mt.grad(loss)(box).v, [1.0, 4.0, 1.0])
    assert box.w is counts
    np.testing.assert_array_equal(counts, [1, 4, 1])
    box.v = array([6.0, 0.0, 0.0])
    with pytest.raises(KeyError):
        mt.grad(loss)(box)
    np.testing.assert_array_equal(counts, [1, 4, 1])


def test_overlapping_counters_in_two_fields_are_refused_if_one_is_written():
    counts = np.array([1, 1, 1, 1])

    def loss(box, write):
        if write:
            box.v[2] += 1
        return np.sum(box.w) * 2.0

    box = Box(counts, counts[1:])
    assert mt.value_and_grad(loss)(box, False)[0] == 6.0
    for _ in range(2):
        with pytest.raises(
            mt.InPlaceError, match="Hold the array once, and make the view where it is needed"
        ):
            mt.grad(loss)(box, True)
        np.testing.assert_array_equal(counts, [1, 1, 1, 1])


@pytest.mark.parametrize("keyword", [True, False])
def test_a_counter_that_is_an_argument_and_in_a_field_is_one(keyword):
    counts = np.array([1, 1, 1])

    def loss(box, n):
        box.w[0] += 1
        n[1] += 2
        return np.sum(box.v**2 * n)

    box = Box(array(X), counts)
    for k in range(1, 3):
        tangent = mt.grad(loss)(box, n=counts) if keyword else mt.grad(loss)(box, counts)
        np.testing.assert_array_equal(counts, [1 + k, 1 + 2 * k, 1])
        np.testing.assert_array_equal(tangent.v, 2 * array(X) * counts)
        assert box.w is counts


def test_an_array_of_objects_is_committed_and_undone_and_keeps_no_traced_value():
    def loss(box, what):
        box.w[0] = box.v[0] * 2 if what == "traced" else box.w[1]
        if what == "raise":
            raise KeyError
        return box.v[0] ** 2

    things = np.array([None, "text"], object)
    box = Box(array(X), things)
    with pytest.raises(KeyError):
        mt.grad(loss)(box, "raise")
    with pytest.raises(mt.NotCapturedError, match=r"numpy\.ndarray of objects that holds .* is not followed"):
        mt.grad(loss)(box, "traced")
    assert things.tolist() == [None, "text"]
    np.testing.assert_array_equal(mt.grad(loss)(box, "plain").v, [2.0, 0.0, 0.0])
    assert box.w is things
    assert things.tolist() == ["text", "text"]


def test_a_structured_array_with_float_fields_is_refused_in_a_field_and_welcome_as_data():
    table = np.zeros(3, [("place", [("x", float, 2)]), ("mark", int)])

    def loss(box, data):
        return np.sum(box.v) * np.sum(data["place"]["x"] + 1.0) * len(box.w)

    for held in (table, table["place"]):
        with pytest.raises(
            mt.NotCapturedError, match=r"Box\.w is a structured numpy\.ndarray that holds a numpy\.ndarray"
        ):
            mt.grad(loss)(Box(array(X), held), table)
    marks = np.zeros(3, [("mark", int), ("name", "U3")])
    np.testing.assert_array_equal(mt.grad(loss)(Box(array(X), marks), table).v, [18.0, 18.0, 18.0])


def test_a_read_only_counter_is_read_only_in_a_recording():
    counts = np.array([1, 1, 1])
    counts.flags.writeable = False

    def loss(box):
        box.w[0] += 1
        return np.sum(box.v)

    with pytest.raises(ValueError, match="read-only"):
        mt.grad(loss)(Box(array(X), counts))


# ---------------------------------------------------------------- between the recording and the sweep


def test_the_entry_array_overwritten_before_the_pullback_is_an_error():
    x = array(X)
    _, pullback = mt.vjp(lambda x: np.sum(x * x), x)
    x[:] = 0.0
    with pytest.raises(mt.InPlaceError):
        pullback(1.0)


def test_results_and_committed_state_may_be_overwritten_before_the_pullback():
    def step(box, x):
        box.v *= x
        box.w = np.exp(box.v)
        return np.tanh(box.w)

    box, x = Box(array(X), None), array([0.5, 0.2, 0.1])
    out, pullback = mt.vjp(step, box, x)
    expected = pullback(np.ones(3))[1]
    out[:] = 0.0
    box.v[:] = 0.0
    box.w[:] = 0.0
    np.testing.assert_array_equal(pullback(np.ones(3))[1], expected)


def test_a_value_of_an_ended_context_cannot_be_overwritten():
    with mt.Context() as ctx:
        x = ctx.watch(array(X))
        y = np.exp(x)
        out = np.sum(y)
    with pytest.raises(mt.InPlaceError):
        y *= 0
    with pytest.raises(ValueError, match="read-only"):
        y[:2][0] = 1.0
    np.testing.assert_array_equal(ctx.grad(out, x), np.exp(X))


def test_an_array_written_past_the_recording_is_an_error():
    a = array(X)

    def loss(box):
        box.v[0] = 9.0
        a[2] = 100.0
        return np.sum(box.v)

    with pytest.raises(mt.InPlaceError, match="past"):
        mt.grad(loss)(Box(a))


def test_a_plain_name_of_a_written_array_is_not_read_silently():
    a = array(X)

    def loss(box):
        box.v[0] = 9.0
        return np.sum(box.v * a)

    with pytest.raises(mt.InPlaceError):
        mt.grad(loss)(Box(a))
    np.testing.assert_array_equal(a, X)


# ---------------------------------------------------------------- pause and nesting


@mt.primitive
def product(a, b):
    return a * b


@product.rrule
def product(a, b):
    return a * b, lambda g: (g * b, g * a)


PLAIN_NAMES = {
    "stack": lambda a, v: np.stack([a, v]),
    "concatenate": lambda a, v: np.concatenate((v, a)),
    "add.at": lambda a, v: np.add.at(a, [0, 1, 2], v),
    "polyval": lambda a, v: np.polyval(v, a),
    "put": lambda a, v: np.put(a, [0, 1], v[:2]),
    "trapezoid": np.trapezoid,
    "pad": lambda a, v: np.pad(a, 1, constant_values=v[:1]),
    "a primitive": product,
}


@pytest.mark.parametrize("name", PLAIN_NAMES)
def test_a_plain_name_of_a_written_array_is_refused_by_functions_that_take_it_apart(name):
    v = array(X)
    box = Box(v)

    def loss(box):
        box.v[0] = box.v[1] * 3
        made = PLAIN_NAMES[name](box.v, v)
        return np.sum(box.v if made is None else made)

    with pytest.raises(mt.InPlaceError, match="by another name gives the old contents"):
        mt.grad(loss)(box)
    np.testing.assert_array_equal(v, X)


def test_a_write_in_a_pause_is_a_constant_that_is_kept():
    def loss(x):
        y = np.sum(x * x)
        with mt.pause():
            row = x[0]
            row += 1
            x.T[1] *= 2
        return y + np.sum(x * 3)

    x = array([[1.0, 2.0], [3.0, 4.0]])
    plain = x.copy()
    plain[0] += 1
    plain.T[1] *= 2
    np.testing.assert_array_equal(mt.grad(loss)(x), [[2.0, 4.0], [9.0, 8.0]])
    np.testing.assert_array_equal(x, plain)


def test_an_outer_array_written_by_an_inner_gradient():
    def outer(x):
        held = x * 2.0
        tail = held[1:]

        def inner(a):
            y = np.sum(a * held)
            held[1] = a[0] * 3
            return y + np.sum(held**2)

        g = mt.grad(inner)(array([0.5, 1.0, 2.0]))
        return np.sum(g * g) + np.sum(tail**2)

    # (2 x0 + 9)² + (2 x1)² + (2 x2)², and the tail: 1.5² + (2 x2)²
    for _ in range(3):
        np.testing.assert_allclose(mt.grad(outer)(array(X)), [44.0, 16.0, 48.0])


def test_a_constant_of_an_inner_gradient_may_be_overwritten_later():
    def outer(x):
        held = x * 1.0

        def inner(a):
            y = np.sum(a * held)
            held[:] = 5.0
            return y

        return np.sum(mt.grad(inner)(np.ones(3)))

    three_ways(of_arrays(X), outer, ([1.0, 1.0, 1.0],))


def test_objects_written_in_place_have_second_derivatives():
    def loss(x):
        box = Box(np.zeros((2, 3)), x * 1.0)
        box.v[0] = np.sin(box.w)
        row = box.v[0]
        box.w *= row
        box.v[1] += box.w**2
        box.w[0] = box.v[1, 2]
        return np.sum(box.v**2) + np.sum(box.w * row)

    check_grads(loss, (array([0.5, 0.7, -0.3]),), order=2, modes=("rev", "fwd"))


def test_a_field_seen_by_a_context_has_the_gradient_at_its_entry_value():
    box = Box(array(X))

    def loss(b):
        b.v[1:] *= b.v[:1]
        return np.sum(b.v**2)

    three_ways(lambda: (box,), loss, (Fields(v=[2.0 + 2 * 13.0, 4.0, 6.0]),))
