"""Arrays that a recording has read and that the function writes by a plain name of theirs: an error, in every mode."""

import tracemalloc

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


SIZES = (3, 20_000, 200_000)  # kept as bytes, as an array, and as a checksum
by_size = pytest.mark.parametrize("size", SIZES)


def fails_in_every_mode(f, args, match, written):
    """`f(*args)`, which writes the plain array `written`, raises in every mode, and leaves the fields as they were."""
    box = args[0]
    before = written.copy()
    fields = (box.v, box.w) if isinstance(box, Box) else None

    def recorded():
        with mt.Context() as ctx:
            f(ctx.watch(box) if fields is None else box, *args[1:])

    ways = [
        lambda: mt.grad(f)(*args),
        lambda: mt.value_and_grad(f)(*args),
        lambda: mt.vjp(f, *args),
        lambda: mt.jvp(f, args, (mt.ZeroTangent(),) * len(args)),
        recorded,
    ]
    for way in ways:
        with pytest.raises(mt.InPlaceError, match=match):
            way()
        if fields is not None:
            assert box.v is fields[0]
            assert box.w is fields[1]
        written[...] = before


@by_size
@pytest.mark.parametrize(
    "write",
    [
        lambda a: a.__setitem__(slice(None), 5.0),
        lambda a: a.__setitem__(-1, a[-1] + 1e-9),
        lambda a: a.sort(),
        lambda a: np.negative(a, out=a),
        lambda a: a[::2].fill(0.0),
        lambda a: memoryview(a).cast("B").__setitem__(0, 7),
        lambda a: a.__setitem__([0, 1], a[[1, 0]]),
    ],
)
def test_the_array_of_a_field(write, size):
    a = np.arange(size, 0.0, -1.0)

    def loss(box):
        y = np.sum(box.v**2)
        write(a)
        return y

    match = rf"shape \({size},\).*Box\.v, was written past it.*through the field or the argument"
    fails_in_every_mode(loss, (Box(a),), match, a)


@by_size
def test_the_array_of_an_argument(size):
    a = np.ones(size)

    def loss(x):
        y = np.sum(x**2)
        a[0] += 1.0
        return y

    fails_in_every_mode(loss, (a,), "an argument or a container, was written past it", a)


@by_size
def test_an_array_in_a_list(size):
    a = np.ones(size)

    def loss(box):
        y = np.sum(box.v[1] ** 2)
        a[0] += 1.0
        return y

    fails_in_every_mode(loss, (Box([1.0, a]),), "was written past it", a)


@by_size
def test_an_array_that_the_recording_writes_as_well(size):
    a = np.ones(size)

    def loss(box):
        y = np.sum(box.v**2)
        a[0] += 1.0
        box.v[1] = 3.0
        return y

    fails_in_every_mode(loss, (Box(a),), r"Box\.v, was written past it", a)


@by_size
def test_a_view_of_the_array(size):
    a = np.ones(size)

    def loss(box):
        y = np.sum(box.v**2)
        a[:2] = 7.0
        return y

    fails_in_every_mode(loss, (Box(a[1:]),), "was written past it", a)


def test_the_value_that_primal_gives():
    def loss(box):
        y = np.sum(box.v**2)
        mt.primal(box.v)[0] = 9.0
        return y

    a = np.ones(3)
    fails_in_every_mode(loss, (Box(a),), "was written past it", a)


@by_size
def test_an_array_that_is_written_before_it_is_read_is_read_as_it_is_then(size):
    a = np.ones(size)

    def loss(box):
        a[0] = 4.0
        return np.sum(box.v**2)

    for _ in range(3):
        assert mt.grad(loss)(Box(a)).v[0] == 8.0


@by_size
def test_nan_and_infinity_are_no_change(size):
    a = np.ones(size)
    a[:3] = [np.nan, np.inf, -0.0]
    mt.grad(lambda box: np.sum(box.v * 2))(Box(a))


@by_size
def test_a_write_after_the_recording_is_found_by_the_pullback(size):
    a = np.ones(size)
    _, pullback = mt.vjp(lambda box: np.sum(box.v**2), Box(a))
    pullback(1.0)
    a[-1] = 2.0
    with pytest.raises(mt.InPlaceError, match="before its pullback ran"):
        pullback(1.0)


def test_what_is_remembered_is_let_go_with_the_recording():
    """The copy of a large array is not kept by the pullback."""

    a = np.ones(1 << 20)
    tracemalloc.start()
    try:
        _, pullback = mt.vjp(lambda box: box.v[0] * 2.0, Box(a))
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < a.nbytes / 2
    (tangent,) = pullback(np.float64(1.0))
    assert tangent.v[0] == 2.0


@pytest.mark.parametrize("size", [10, 20_000, 200_000], ids=["small", "copied", "with a checksum"])
def test_an_array_of_any_size_that_is_shuffled_past_the_recording_is_noticed(size):
    x = np.arange(float(size))
    alias = x

    def loss(x):
        y = np.sum(x * x)
        alias[[0, -1]] = alias[[-1, 0]]  # the same numbers in another order
        return y

    with pytest.raises(mt.InPlaceError, match="was written past it"):
        mt.grad(loss)(x)
