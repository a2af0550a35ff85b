"""One Python object in two places: an item overwritten by an equal one, an array that two fields hold."""

from collections import deque

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Part:
    x: object = 0.0
    y: object = 0.0
    d: object = None


def picture(tangent):
    """A tangent as nested lists, ZeroTangent as 0."""
    if isinstance(tangent, mt.ZeroTangent | mt.NoTangent):
        return 0.0
    if isinstance(tangent, mt.Tangent):
        return [picture(tangent[name]) for name in ("x", "y", "d")]
    if isinstance(tangent, dict):
        return {key: picture(item) for key, item in tangent.items()}
    if isinstance(tangent, list | tuple | deque):
        return [picture(item) for item in tangent]
    # Sums: an array of zeros and a ZeroTangent are alike.
    return np.asarray(tangent).tolist() if np.any(tangent) else 0.0


def three_gradients(loss, *arguments):
    """By grad and by vjp with a pullback that is called twice, three times over the same objects."""
    numbers = tuple(range(len(arguments)))
    found = []
    for _ in range(3):
        found.append(picture(mt.grad(loss, numbers)(*arguments)))
        value, pullback = mt.vjp(loss, *arguments)
        found += [float(value), picture(pullback(1.0)), picture(pullback(1.0))]
    return found


def same_with_checkpoint(step, loss, make):
    """Whether the gradients of `loss(step, ...)` are those of the run without a checkpoint; those of the latter."""
    expected = three_gradients(lambda *args: loss(step, *args), *make())
    found = three_gradients(lambda *args: loss(mt.checkpoint(step), *args), *make())
    assert found == expected
    return expected


def items_of(value):
    if isinstance(value, list | tuple | deque):
        return [item for part in value for item in items_of(part)]
    return items_of(list(value.values())) if isinstance(value, dict) else [value]


def weighted(step, o):
    step(o)
    return sum((3 + 2 * k) * np.sum(item) ** 2 + item * (k + 1) for k, item in enumerate(items_of(o.d)))


def delay_line(o):
    o.d.append(o.x)
    o.d.pop(0)


def rotated(o):
    o.d.append(o.d.pop(0))


def exchanged(o):
    o.d[0], o.d[1] = o.d[1], o.d[0]


def overwritten(o):
    o.d[0] = o.x
    o.d[1] = o.y


@pytest.mark.parametrize("step", [delay_line, rotated, exchanged, overwritten])
@pytest.mark.parametrize("value", [0.0, 0.5])
def test_items_of_a_list_overwritten_by_the_same_number_have_their_own_gradients(step, value):
    same_with_checkpoint(step, weighted, lambda: (Part(value, value, [value, value]),))


def test_items_of_a_deque_overwritten_by_the_same_number_have_their_own_gradients():
    def step(o):
        o.d.append(o.x)
        o.d.rotate(1)

    same_with_checkpoint(step, weighted, lambda: (Part(0.5, 0.5, deque([0.5, 0.5, 0.5], maxlen=3)),))


def test_the_delay_line_has_the_gradient_of_what_was_put_in():
    step = mt.checkpoint(delay_line)

    def loss(o):
        step(o)
        return o.d[0] * 3 + o.d[1] * 5

    assert picture(mt.grad(loss)(Part(0.0, 0.0, [0.0, 0.0]))) == [5.0, 0.0, [0.0, 3.0]]


def test_an_item_of_a_dict_overwritten_again_and_again_with_the_same_number_has_its_gradient():
    def step(o):
        o.d["last"] = o.y

    expected = same_with_checkpoint(step, weighted, lambda: (Part(0.0, 0.5, {"last": 0.0}),))
    assert expected[0] == [[0.0, 4.0, {"last": 0.0}]]


def test_an_item_of_a_nested_dict_overwritten_by_the_same_number_has_its_gradient():
    def step(o):
        o.d["inner"]["k"][0] = o.x

    same_with_checkpoint(step, weighted, lambda: (Part(0.5, 0.0, {"inner": {"k": [0.5, 0.5]}}),))


def test_an_argument_list_that_gets_the_same_number_has_its_gradient():
    def step(items, x):
        items.append(x)
        items.pop(0)

    def loss(step, items, x):
        step(items, x)
        return items[0] * 3.0 + items[1] * items[1]

    value = 0.5
    same_with_checkpoint(step, loss, lambda: ([value, value], value))


def test_an_array_in_a_field_and_in_a_dict_has_the_gradient_of_the_place_it_came_from():
    def step(o):
        o.d["k"] = o.y

    def loss(step, o):
        step(o)
        return np.sum(o.d["k"] ** 2) + np.sum(o.x * 3.0)

    def make():
        a = np.array([0.5, 2.0])
        return (Part(np.ones(2), a, {"k": a}),)

    expected = same_with_checkpoint(step, loss, make)
    assert expected[0] == [[[3.0, 3.0], [1.0, 4.0], {"k": 0.0}]]


def first_back(a, b):
    return a, b.x * 2.0


def second_back(a, b):
    return b, a.x * 2.0


def into_a_field(a, b):
    a.y = a.x
    b.x = b.x * 2.0
    return a, b.x


@pytest.mark.parametrize("step", [first_back, second_back, into_a_field])
def test_one_array_of_two_objects_that_comes_back_is_that_of_its_own_object(step):
    def loss(step, a, b):
        which, y = step(a, b)
        return np.sum(which.x**2) + np.sum(y) + 3.0 * np.sum(a.y)

    def make():
        s = np.array([2.0, 3.0])
        return Part(s), Part(s)

    same_with_checkpoint(step, loss, make)


def test_one_array_given_twice_and_returned_has_the_gradient_of_its_argument():
    def step(a, b):
        return b * 1.0, a

    def loss(step, a, b):
        y, z = step(a, b)
        return np.sum(y) + np.sum(z**2)

    s = np.array([2.0, 3.0])
    expected = same_with_checkpoint(step, loss, lambda: (s, s))
    assert expected[0] == [[4.0, 6.0], [1.0, 1.0]]


def test_an_array_given_twice_and_returned_may_be_written_afterwards():
    def step(a, b):
        return b * 1.0, a

    def loss(step, a, b):
        _, z = step(a, b)
        z[0] = b[1] * 5.0
        return np.sum(a**2) + np.sum(b * z)

    def make():
        s = np.array([2.0, 3.0])
        return s, s

    same_with_checkpoint(step, loss, make)


def write_and_read(a, b):
    a.x[2] = a.x[0] * 1.0
    return np.sum(b.x**2)


def write_an_equal_number(a, b):
    a.x[0] = a.x[1] * 1.0
    return np.sum(b.x**2)


def read_write_read(a, b):
    before = np.sum(b.x**3)
    b.x[1] = np.sin(a.x[0])
    return before + np.sum(a.x**2)


def write_through_both(a, b):
    a.x[0] = b.x[1] * 2.0
    b.x[1] = a.x[0] * a.x[2]
    return np.sum(a.x * b.x)


def write_and_return(a, b):
    b.x[0] = b.x[1] * 3.0
    return np.sum(a.x * b.x) + np.sum(a.x)


WRITERS = [write_and_read, write_an_equal_number, read_write_read, write_through_both, write_and_return]


@pytest.mark.parametrize("step", WRITERS)
@pytest.mark.parametrize("values", [[2.0, 2.0, 3.0], [0.1, 0.2, 0.3]])
def test_an_array_of_two_objects_is_written_through_one_and_read_through_the_other(step, values):
    def loss(step, a, b):
        first = step(a, b)
        return first + step(a, b) * np.sum(b.x) + np.sum(a.x**2) * 3.0

    def make():
        s = np.array(values)
        return Part(s), Part(s)

    expected = three_gradients(lambda a, b: loss(step, a, b), *make())
    found = three_gradients(lambda a, b: loss(mt.checkpoint(step), a, b), *make())
    assert len(found) == len(expected)
    for mine, its in zip(found, expected, strict=True):
        if isinstance(its, float):
            assert mine == pytest.approx(its)
        else:
            for a, b in zip(mine, its, strict=True):
                np.testing.assert_allclose(np.asarray(a[0]), np.asarray(b[0]), rtol=1e-12)


def test_an_equal_number_written_into_an_array_of_two_objects_has_its_gradient():
    s = np.array([2.0, 2.0, 3.0])
    da, db = mt.grad(mt.checkpoint(write_an_equal_number), (0, 1))(Part(s), Part(s))
    assert da.x.tolist() == [0.0, 8.0, 6.0]
    assert isinstance(db.x, mt.ZeroTangent)


@pytest.mark.parametrize("step", WRITERS)
def test_an_array_of_two_objects_that_is_written_has_its_second_derivative(step):
    def inner(step):
        def loss(x):
            s = x * 1.0
            return np.sum(np.sin(step(Part(s), Part(s)) * s))

        return lambda x: np.sum(mt.grad(loss)(x) ** 2)

    x = np.array([0.4, 0.4, 0.3])
    np.testing.assert_allclose(mt.grad(inner(mt.checkpoint(step)))(x), mt.grad(inner(step))(x), rtol=1e-10)


def test_an_array_of_two_objects_that_is_kept_in_a_field_stays_the_same_array():
    @mt.checkpoint
    def step(a, b):
        a.y = b.x
        return np.sum(a.x)

    s = np.array([2.0, 3.0])
    a, b = Part(s), Part(s)
    mt.vjp(lambda a, b: step(a, b) + np.sum(a.y**2), a, b)
    assert a.y is s
    assert a.x is s


# -- an array in several places that is moved, and then written by another way to it ---------------------------------------


def kept_elsewhere(a, b):
    a.y = a.x


def kept_as_a_view(a, b):
    a.y = a.x[::-1]


def kept_in_both(a, b):
    a.y, b.y = b.x, a.x


def exchanged(a, b):
    a.x, b.x = b.x, a.x
    a.y = b.x


def computed_and_kept_as_a_view(a, b):
    b.x = a.x * 0.5
    b.x[0] = a.x[1]
    a.x, a.y = b.x, b.x[1:]


def computed_and_kept_as_a_view_that_was_not_written(a, b):
    b.x = a.x * 0.5
    a.y = b.x[1:]


MOVES = [
    kept_elsewhere,
    kept_as_a_view,
    kept_in_both,
    exchanged,
    computed_and_kept_as_a_view,
    computed_and_kept_as_a_view_that_was_not_written,
]


def write_through_the_first(a, b):
    a.x[1] = a.x[0] * 4.0


def write_through_the_second(a, b):
    b.x *= 3.0


def write_through_what_was_kept(a, b):
    a.y[0] = b.x[1] * 2.0


WRITES = [write_through_the_first, write_through_the_second, write_through_what_was_kept]


def one_array_in_two_objects():
    s = np.array([2.0, 3.0])
    return Part(s, s), Part(s)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("move", MOVES)
def test_an_array_that_was_moved_is_one_with_its_other_places_when_it_is_written(move, write):
    def loss(step, a, b):
        step(a, b)
        before = np.sum(a.x * a.y[0]) + 3.0 * np.sum(b.x)
        write(a, b)
        return before + np.sum(a.x**2) + np.sum(a.y**2) * 5.0 + np.sum(b.x * 7.0)

    same_with_checkpoint(move, loss, one_array_in_two_objects)
    left = []
    for wrapped in (move, mt.checkpoint(move)):
        a, b = one_array_in_two_objects()
        mt.vjp(lambda a, b: loss(wrapped, a, b), a, b)  # noqa: B023 - called at once
        left.append(
            [
                [array.tolist() for array in (a.x, a.y, b.x)],
                [np.shares_memory(one, two) for one, two in [(a.x, a.y), (a.x, b.x), (a.y, b.x)]],
            ]
        )
    assert left[0] == left[1]


@pytest.mark.parametrize("first", MOVES[:4])
@pytest.mark.parametrize("second", MOVES[:4])
@pytest.mark.parametrize("write", WRITES)
def test_an_array_that_is_moved_again_and_again_has_its_shares_in_the_places_it_came_from(
    first, second, write
):
    def loss(wrap, a, b):
        total = 0.0
        for step in (first, second, first):
            wrap(step)(a, b)
            total = total + np.sum(a.y) * 2.0 + np.sum(a.x) * 3.0
        write(a, b)
        return total + np.sum(a.x * b.x) + np.sum(a.y**2)

    expected = three_gradients(lambda a, b: loss(lambda f: f, a, b), *one_array_in_two_objects())
    assert three_gradients(lambda a, b: loss(mt.checkpoint, a, b), *one_array_in_two_objects()) == expected


def test_a_view_of_an_array_that_is_written_is_seen_as_one_by_a_checkpointed_function():
    @mt.checkpoint
    def step(view, a):
        a.x[0] = 7.0
        return np.sum(view)

    def loss(a):
        view = a.x[::-1]
        a.x[1] = a.x[0] * 2.0
        return step(view, a)

    with pytest.raises(mt.InPlaceError, match="shares memory"):
        mt.grad(loss)(Part(np.array([2.0, 3.0])))


def test_an_array_in_an_object_that_was_made_and_dropped_has_the_gradient_of_the_result():
    def step(a):
        view = a.x[::-1]
        view[0] = 4.0
        made = Part(view, a.x)
        made.d = {"k": view}
        return view

    def loss(step, a):
        return np.sum(step(a) ** 2)

    assert same_with_checkpoint(step, loss, lambda: (Part(np.array([2.0, 3.0])),))[0] == [
        [[4.0, 0.0], 0.0, 0.0]
    ]


def test_an_array_that_checkpoints_within_each_other_return_a_view_of_is_one_with_it():
    @mt.checkpoint
    def inner(a):
        a.y = a.x * 0.5
        view = a.y[::-1]
        view[0] = 2.0
        return view

    def outer(a):
        view = inner(a)
        a.y *= 3.0
        return view

    def loss(step, a):
        view = step(a)
        a.y[0] = 1.0
        return np.sum(view**2)

    assert same_with_checkpoint(outer, loss, lambda: (Part(np.array([2.0, 3.0])),))[1] == 37.0
