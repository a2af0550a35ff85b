"""How the second run is compared with the first: rounding is no difference, another element is one."""

from queue import SimpleQueue

import numpy as np
import pytest

import mutangent as mt
from mutangent._compared import Sums


def queue_of(*items):
    """Something that is not put back for the second run."""
    queue = SimpleQueue()
    for item in items:
        queue.put(item)
    return queue


KINDS = [np.float16, np.float32, np.float64, np.complex64, np.complex128]


@mt.differentiable
class Buffer:
    x: object
    buf: np.ndarray


def numbers(n, kind, rng):
    values = rng.normal(size=n) + 1.0
    if np.issubdtype(kind, np.complexfloating):
        values = values + 1j * rng.normal(size=n)
    return values.astype(kind)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [1, 7, 1000, 100_000])
def test_contents_that_differ_by_rounding_are_the_same(n, kind):
    rng = np.random.default_rng(n)
    x = numbers(n, kind, rng)
    apart = np.finfo(kind).eps * np.sign(rng.normal(size=n))
    for other in (x, x * kind(1 + 2 * np.finfo(kind).eps), (x * (1 + apart)).astype(kind)):
        assert Sums(np.asarray(x)).is_near(Sums(np.asarray(other)))


@pytest.mark.parametrize("kind", KINDS[1:])
@pytest.mark.parametrize("n", [2, 7, 1000, 10_000])
def test_another_element_and_exchanged_ones_are_noticed(n, kind):
    rng = np.random.default_rng(n)
    x = numbers(n, kind, rng)
    for _ in range(20):
        i = int(rng.integers(n - 1))
        exchanged, negated, changed = x.copy(), x.copy(), x.copy()
        exchanged[[i, i + 1]] = x[[i + 1, i]]
        negated[i] *= -1
        changed[i] += 1
        for other in (exchanged, negated, changed, -x, x[::-1]):
            assert not Sums(np.asarray(x)).is_near(Sums(np.asarray(other)))


def test_infinities_and_nans_are_compared_as_such():
    def near(a, b):
        return Sums(np.array(a)).is_near(Sums(np.array(b)))

    assert near([1.0, np.inf, 3.0], [1.0, np.inf, 3.0])
    assert near([np.nan, 1.0], [np.nan, 1.0])
    assert near([1e308] * 10, [1e308] * 10)
    assert near([0.0, 0.0], [0.0, 0.0])
    assert near(np.zeros(0), np.zeros(0))
    assert not near([1.0, np.inf], [1.0, 2.0])
    assert not near([1.0, 2.0], [1.0, np.inf])
    assert not near([1.0, 2.0], [1.0, np.nan])
    assert not near([0.0, 0.0], [0.0, 1e-300])


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_many_elements_of_any_precision_are_written(kind):
    @mt.checkpoint
    def f(b):
        b.buf[:] = b.x * 2
        return b.buf[0] * 1

    b = Buffer(kind(2.0), np.zeros(70_000, kind))
    assert mt.grad(lambda b: f(b) + b.buf[1])(b).x == 4.0


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_a_second_run_that_rounds_otherwise_is_the_same(kind):
    factors = queue_of(1.0, 1.0 + np.finfo(kind).eps)

    @mt.checkpoint
    def f(b):
        factor = kind(factors.get())
        b.buf[:] = b.buf * b.x * factor
        return b.buf[:3] * factor

    b = Buffer(kind(2.0), np.asarray(np.linspace(0.1, 1.0, 200).astype(kind)))
    assert mt.grad(lambda b: np.sum(f(b)) + np.sum(b.buf))(b).x > 0.0


def test_an_element_written_in_another_place_is_found():
    places = queue_of(3, 4)

    @mt.checkpoint
    def f(b):
        b.buf[places.get()] = b.x
        return b.x * 1

    with pytest.raises(mt.CheckpointError, match="depends on something that is neither an argument"):
        mt.grad(lambda b: f(b) + b.buf[3])(Buffer(2.0, np.zeros(1000, np.float32)))


def test_new_memory_that_nobody_reads_is_the_same_in_both_runs():
    chosen = np.array([True, False, True, True])
    x = np.array([0.3, 0.5, 0.7, 0.9])

    @mt.checkpoint
    def inverse(x):
        left = numbers.get()
        memory = [np.full(4, left) for _ in range(20)]  # which new arrays get again
        del memory
        made = np.divide(1.0, x, out=np.empty_like(x), where=chosen)
        made = np.divide(made, x, out=np.empty(4, like=x), where=chosen)
        return np.sum(np.where(chosen, made, 0.0))

    numbers = queue_of(1e30, -3e20)
    np.testing.assert_allclose(mt.grad(lambda x: inverse(x) * 1.0)(x), np.where(chosen, -2 / x**3, 0.0))
