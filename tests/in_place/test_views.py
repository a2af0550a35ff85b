"""Views of traced arrays: a write through a view is seen in its base, and the other way round, exactly as in NumPy."""

import copy
import gc
import time
import weakref

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads
from tests.cases.harness import NUMERICAL, three_ways


@mt.differentiable
class Two:
    a: object
    b: object


LAYOUTS = {
    "C": lambda a: a.copy(),
    "F": np.asfortranarray,
    "strided": lambda a: np.repeat(np.repeat(a, 2, 0), 2, 1)[::2, ::2],
    "reversed": lambda a: a[::-1, ::-1].copy()[::-1, ::-1],
}

VIEWS = {
    "slice": lambda y: y[1:],
    "row": lambda y: y[1],
    "column": lambda y: y[:, 1],
    "step": lambda y: y[:, ::-2],
    "newaxis": lambda y: y[:, None, 1:],
    "reshape": lambda y: y.reshape(3, 2),
    "ravel": np.ravel,
    "method ravel": lambda y: y.ravel(),
    "T": lambda y: y.T,
    "einsum": lambda y: np.einsum("ij->ji", y),
    "diagonal of einsum": lambda y: np.einsum("ii->i", y[:, :2]),
    "transpose": lambda y: np.transpose(y, (1, 0)),
    "mT": np.matrix_transpose,
    "swapaxes": lambda y: np.swapaxes(y, 0, 1),
    "moveaxis": lambda y: np.moveaxis(y, 0, -1),
    "squeeze": lambda y: y[:1].squeeze(),
    "expand_dims": lambda y: np.expand_dims(y, 1),
    "flip": np.flip,
    "rot90": np.rot90,
    "split": lambda y: np.split(y, [1], axis=1)[1],
    "array_split": lambda y: np.array_split(y, 2, axis=1)[0],
    "real": np.real,
    "atleast_1d": np.atleast_1d,
    "iteration": lambda y: list(y)[1],
    "view of a view": lambda y: y.T[1:].reshape(-1)[::2],
    "view of a column": lambda y: y[:, 1].ravel(),
    "transposed and flattened": lambda y: y[:, :2].T.ravel(),
    "nothing": lambda y: y[...],
    "conj": lambda y: y.conj(),
    "astype without a copy": lambda y: y.astype(float, copy=False),
    "astype": lambda y: y.astype(float),
}


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("written_before", [False, True], ids=["fresh", "written"])
def test_views_of_every_kind_share_what_they_share_in_numpy(view, layout, written_before):
    def loss(y):
        if written_before:
            y[0, 0] = y[1, 1] * 0.5
        v = view(y)
        v *= 1.5
        v[0] = np.sum(y) * 0.1
        y[-1] += 1.0
        v[-1:] = v[-1:] ** 2
        return np.sum(np.sin(y)) + np.sum(np.cos(v))

    values = np.array([[0.5, 1.0, 0.3], [0.7, 1.2, 0.9]])
    plain, recorded = layout(values), layout(values)
    expected = loss(plain)
    value, gradient = mt.value_and_grad(loss)(recorded)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(recorded, plain, rtol=1e-12)
    out, pullback = mt.vjp(loss, layout(values))
    np.testing.assert_allclose(out, expected)
    # The strides decide what is a view, so finite differences need arrays of the same layout.
    for place in np.ndindex(2, 3):
        step = np.zeros((2, 3))
        step[place] = 1e-6
        slope = (loss(layout(values + step)) - loss(layout(values - step))) / 2e-6
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-7)
    for _ in range(2):
        np.testing.assert_array_equal(pullback(1.0)[0], gradient)


def test_a_diagonal_is_read_only_and_up_to_date():
    def loss(y):
        d = np.diagonal(y)
        with pytest.raises(ValueError, match="read-only"):
            d[0] = 1.0
        y[0, 0] = y[0, 1] * 3
        return np.sum(d**2)

    three_ways(lambda: (np.array([[1.0, 2.0], [3.0, 4.0]]),), loss, NUMERICAL)


def test_a_slice_is_multiplied_through_its_view():
    def loss(x):
        y = x.copy()
        v = y[:2]
        v *= 10
        return np.sum(y**2)

    three_ways(lambda: (np.array([1.0, 2.0, 3.0]),), loss, ([200.0, 400.0, 6.0],))


@pytest.mark.parametrize("part", [np.real, np.imag])
def test_a_part_of_a_complex_array_is_a_view(part):
    def loss(z):
        z = z * 1.0
        p = part(z)
        p[0] = p[1] * 2
        z[1] *= 2j
        p[1:] += 1.0
        part(z[1:])[0] *= 3.0
        return np.sum(np.abs(z) ** 2) + np.sum(np.sin(p))

    check_grads(loss, (np.array([1 + 2j, 0.5 - 1j]),), order=2)


def test_the_parts_of_a_complex_array_are_assigned():
    def loss(z, x):
        z = z * 1.0
        z.real = np.sin(x)
        z.imag[0] = z.real[1] * 2
        z.imag *= x
        return np.sum(np.abs(z) ** 2)

    check_grads(loss, (np.array([1 + 2j, 0.5 - 1j]), np.array([0.3, 0.8])), order=2)


def test_elements_are_read_and_written_by_flat():
    def loss(y, x):
        y.flat[1] = y.flat[4] * x[0]
        y.T.flat[::2] = x
        y.flat[[0, 0]] *= 2
        first = y.flat[:2]
        y.flat[0] = 7.0
        return np.sum(y**2) + np.sum(first) + sum(k * e for k, e in enumerate(y.flat)) + len(y.flat)

    three_ways(lambda: (np.arange(1.0, 7.0).reshape(2, 3), np.array([0.5, 1.5])), loss, NUMERICAL)
    check_grads(loss, (np.arange(1.0, 7.0).reshape(2, 3), np.array([0.5, 1.5])), order=2)


def test_flat_is_assigned_as_a_whole():
    def loss(y, x):
        y.flat = x
        return np.sum(y * np.arange(6.0).reshape(2, 3))

    three_ways(lambda: (np.ones((2, 3)), np.array([0.5, 1.5])), loss, NUMERICAL)


def test_numbers_taken_from_an_array_do_not_follow_it():
    def f(x):
        first = x[0]
        x[0] = 5.0
        return first**2 + x[1] * first

    three_ways(lambda: (np.array([1.0, 2.0]),), f, ([4.0, 1.0],))
    check_grads(f, (np.array([1.0, 2.0]),), order=2)


def test_an_array_written_from_its_own_overlapping_view():
    def loss(x):
        y = x * 1.0
        y[1:] = y[:-1]
        y[:-1] += y[1:]
        np.add(y[:2], y[1:3], out=y[2:])
        return np.sum(y**2)

    three_ways(lambda: (np.array([1.0, 2.0, 3.0, 4.0]),), loss, NUMERICAL)


def fill(x, buffer, outputs):
    for t in range(1, len(buffer)):
        buffer[t] = np.tanh(buffer[t - 1]) + x
        if outputs is not None:
            outputs.append(buffer[t])
    total = np.sum(buffer)
    return total if outputs is None else total + np.sum(np.stack(outputs))


@pytest.mark.parametrize("kept", [False, True], ids=["rows dropped", "rows kept"])
def test_filling_rows_costs_time_in_proportion_to_their_number(kept):
    def seconds(steps):
        x, buffer = np.full(4, 0.1), np.zeros((steps, 64, 4))
        start = time.process_time()
        mt.grad(lambda x, buffer: fill(x, buffer, [] if kept else None), argnums=(0, 1))(x, buffer)
        mt.grad(lambda x: fill(x, np.zeros_like(x, shape=buffer.shape), [] if kept else None))(x)
        return time.process_time() - start

    seconds(20)
    short, long = min(seconds(100) for _ in range(3)), min(seconds(1600) for _ in range(2))
    # Sixteen times the rows; a copy of the buffer, or of all rows, per write would make it 256 times.
    assert long < 70 * short


def test_what_was_written_and_dropped_is_freed_during_the_recording():
    alive = []

    def loss(x):
        for _ in range(5):
            y = x * 1.0
            y[0] = 2.0
            alive.append(weakref.ref(y))
        del y
        gc.collect()
        return np.sum(x) + sum(reference() is not None for reference in alive)

    value, _ = mt.value_and_grad(loss)(np.ones(3))
    assert value == 3.0


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex128])
def test_augmented_operators_leave_what_was_computed_before_and_every_view_right(dtype):
    """The array takes over the operation's result, without a copy of it."""

    def program(x, w):
        y = np.copy(x)
        row, alias = y[1], y
        before = y * w
        y += w
        y *= 2.0
        held = row * 3.0
        np.multiply(y, w, out=y)
        y[0] -= w[0]
        assert alias is y
        return before, held, row * 1.0, y * y

    rng = np.random.default_rng(0)
    x, w = (rng.normal(size=(3, 2)).astype(dtype) for _ in range(2))
    plain = program(x, w)
    bars = [rng.normal(size=part.shape).astype(dtype) for part in plain]

    def loss(x, w):
        parts = program(x, w)
        return sum(np.sum(np.real(part * bar)) for part, bar in zip(parts, bars, strict=True))

    for traced, expected in zip(mt.vjp(program, x, w)[0], plain, strict=True):
        np.testing.assert_array_equal(traced, expected)
        assert traced.dtype == expected.dtype
    tolerance = 2e-2 if dtype is np.float32 else 1e-6
    mt.testing.check_grads(loss, (x, w), order=1, rtol=tolerance, atol=tolerance)


CHANGING_SETTINGS = {
    "split": (lambda y, setting: np.split(y, setting)[1], [1, 3], (6,)),
    "reshape": (lambda y, setting: np.reshape(y, setting)[0], [2, 3], (6,)),
    "transpose": (lambda y, setting: np.transpose(y, setting)[0], [0, 1], (2, 3)),
}


@pytest.mark.parametrize("name", CHANGING_SETTINGS)
@pytest.mark.parametrize("kind", [list, np.array])
def test_a_view_stays_what_it_was_when_the_setting_that_made_it_changes(name, kind):
    view_of, start, shape = CHANGING_SETTINGS[name]

    def f(x):
        setting = kind(start)
        y = x * 1.0
        view = view_of(y, setting)
        setting[:] = setting[::-1]
        y[0] = y[1] * 3.0
        return np.sum(view * np.arange(1.0, view.size + 1).reshape(view.shape))

    check_grads(f, (np.arange(1.0, 7.0).reshape(shape),), order=2)


@pytest.mark.parametrize("name", CHANGING_SETTINGS)
def test_a_view_of_a_constant_stays_what_it_was_when_the_setting_that_made_it_changes(name):
    view_of, start, shape = CHANGING_SETTINGS[name]

    def f(x):
        setting = np.array(start)
        y = np.ones_like(x)
        view = view_of(y, setting)
        setting[:] = setting[::-1]
        y[0] = x[1] * 3.0
        return np.sum(view * np.arange(1.0, view.size + 1).reshape(view.shape))

    check_grads(f, (np.arange(1.0, 7.0).reshape(shape),), order=2)


def test_one_element_is_written_through_an_index_with_an_ellipsis():
    def f(x):
        y = x * 1.0
        place = (0, ..., 1)  # of this NumPy makes an array without axes
        y[place] = np.sum(x) * 0.1
        y[place] += x[0, 0]
        single = y[place]
        single *= 2.0
        single[single > 0] += 1.0
        return np.sum(y**2)

    check_grads(f, (np.arange(12.0).reshape(4, 3) + 1.0,), order=2)


@pytest.mark.parametrize(
    "copied", [lambda y: np.take(y, 1, 0), lambda y: y.take(-1, axis=1), lambda y: np.clip(y, None, None)]
)
def test_what_numpy_copies_is_no_view(copied):
    def f(x):
        y = x * 1.0
        made = copied(y)
        y[0] = 5.0 * y[1]
        made *= x.ravel()[: made.shape[-1]]
        y[1] *= 2.0
        return np.sum(y**2) + np.sum(made**3)

    check_grads(f, (np.arange(6.0).reshape(2, 3) + 1.0,), order=2)


@pytest.mark.parametrize("written", [False, True])
def test_a_view_in_two_places_is_one_array(written):
    def loss(o, x):
        if written:
            x[0] = 2 * x[1]
        tail = x[1:]
        o.a = tail
        o.b = [tail, tail]
        return np.sum(o.a * o.b[1])

    three_ways(lambda: (Two(None, None), np.array([1.0, 2.0, 3.0])), loss, NUMERICAL)
    o, x = Two(None, None), np.array([1.0, 2.0, 3.0])
    mt.vjp(loss, o, x)
    assert o.a is o.b[0]
    assert o.a is o.b[1]
    assert np.shares_memory(o.a, x)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_copies_of_the_copy_module_keep_the_order_in_memory(layout):
    def loss(o, x):
        o.a = copy.copy(x)
        o.b = copy.deepcopy(x)
        o.a.ravel()[1] *= 3  # a copy, if the order is Fortran's
        o.b.ravel(order="F")[1] *= 3
        return np.sum(o.a**2) + np.sum(o.b**3)

    values = np.arange(4.0).reshape(2, 2) + 1
    plain, recorded = Two(None, None), Two(None, None)
    loss(plain, LAYOUTS[layout](values))
    gradient = mt.grad(loss, argnums=1)(recorded, LAYOUTS[layout](values))
    for place in np.ndindex(2, 2):
        step = np.zeros((2, 2))
        step[place] = 1e-6
        ahead, behind = (loss(Two(None, None), LAYOUTS[layout](values + d)) for d in (step, -step))
        np.testing.assert_allclose(gradient[place], (ahead - behind) / 2e-6, rtol=1e-6)
    for name in ("a", "b"):
        np.testing.assert_array_equal(getattr(plain, name), getattr(recorded, name))
        assert getattr(plain, name).strides == getattr(recorded, name).strides


def test_what_has_the_shape_already_is_not_broadcast_but_passed_on():
    def loss(x, row):
        same, wide = np.broadcast_arrays(x, row)
        same[0] = wide[1] * 3
        return np.sum(x**2 * wide)

    check_grads(loss, (np.arange(6.0).reshape(2, 3) + 1.0, np.array([1.0, 2.0, 3.0])), order=2)


def tail_of_the_array(o):
    o.b = o.a[1:]
    return o.a.reshape(3, 1)


WITHIN = {
    "vjp": lambda o: mt.vjp(tail_of_the_array, o)[0],
    "jvp": lambda o: mt.jvp(tail_of_the_array, (o,), (mt.Tangent(Two),))[0],
    "grad": lambda o: mt.grad(lambda o: (np.sum(o.a), tail_of_the_array(o)), has_aux=True)(o)[1],
    "checkpoint": lambda o: mt.vjp(mt.checkpoint(tail_of_the_array), o)[0],
}


@pytest.mark.parametrize("within", WITHIN)
@pytest.mark.parametrize("write", ["array", "view", "result"])
def test_a_view_that_leaves_a_recording_within_one_stays_one(within, write):
    def loss(o, s):
        column = WITHIN[within](o)
        if write == "array":
            o.a[1] = 5 * s
        elif write == "view":
            o.b[0] = 5 * s
        else:
            column[1, 0] = 5 * s
        return np.sum(o.a**2) * np.sum(o.b**3) + np.sum(column)

    # a = (a0, 5 s, a2): (a0² + 25 s² + a2²) (125 s³ + a2³) + a0 + 5 s + a2
    o = Two(np.array([1.0, 2.0, 3.0]), None)
    tangent, slope = mt.grad(loss, argnums=(0, 1))(o, 2.0)
    np.testing.assert_allclose(tangent.a, [2055.0, 0.0, 6 * 1027 + 110 * 27 + 1.0])
    np.testing.assert_allclose(slope, 100 * 1027 + 110 * 1500 + 5)
    np.testing.assert_array_equal(o.a, [1.0, 10.0, 3.0])
    np.testing.assert_array_equal(o.b, [10.0, 3.0])
    assert np.shares_memory(o.a, o.b)


@pytest.mark.parametrize("by", ["its own value", "a constant"])
@pytest.mark.parametrize("verb", ["value_and_grad", "vjp", "jvp"])
def test_an_array_of_an_outer_recording_is_written_by_a_view_that_the_inner_one_was_not_given(verb, by):
    def inner(o, row):
        before = o.a.reshape(-1)
        row[0] -= o.b if by == "its own value" else 2.0
        return np.sum(o.a.reshape(-1) ** 2) * np.sum(before) * o.b

    def plain(o):
        return inner(o, o.a[1:])

    def loss(o):
        row = o.a[1:]
        if verb == "value_and_grad":
            return mt.value_and_grad(inner)(o, row)[0]
        if verb == "vjp":
            return mt.vjp(lambda o: inner(o, row), o)[0]
        return mt.jvp(lambda o: inner(o, row), (o,), (mt.Tangent(Two),))[0]

    values = np.arange(4.0).reshape(2, 2) + 1
    one, other = Two(values.copy(), 2.0), Two(values.copy(), 2.0)
    expected = mt.grad(plain)(other)
    tangent = mt.grad(loss)(one)
    np.testing.assert_allclose(tangent.a, expected.a)
    assert tangent.b == pytest.approx(expected.b)
    np.testing.assert_array_equal(one.a, other.a)
