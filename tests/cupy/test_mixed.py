"""Arrays of the host beside arrays of the device: what CuPy refuses, and the numbers that it takes."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Cell:
    W: object
    h: object

    def __call__(self, x):
        self.h = np.tanh(self.W @ x + self.h)
        return np.sum(self.h)


def step(m, x):
    return m(x)


def note_of(call):
    with pytest.raises(TypeError, match=r"numpy\.ndarray") as caught:
        call()
    (note,) = caught.value.__notes__
    return note


def by_context(m, x):
    with mt.Context():
        m(x)


@pytest.mark.parametrize(
    "way",
    [
        mt.grad(step),
        lambda m, x: mt.vjp(step, m, x),
        by_context,
        lambda m, x: mt.jvp(lambda m: step(m, x), (m,), (mt.Tangent(Cell, W=m.W),)),
        mt.grad(mt.checkpoint(step)),
        lambda m, x: mt.grad(lambda m: mt.grad(step, argnums=1)(m, x)[0])(m),
    ],
)
def test_the_field_that_stayed_on_the_host_is_named(cp, way):
    m = Cell(cp.ones((2, 2)), np.zeros(2))
    note = note_of(lambda: way(m, cp.ones(2)))
    assert note.startswith("CuPy mixes no arrays of host and device. Read on the host: ")
    assert "Cell.h, a numpy.ndarray of shape (2,) and dtype float64" in note
    assert "Read on the device: " in note
    assert note.endswith("Move an object with mutangent.to_device(m), an array with cupy.asarray(x).")
    assert type(m.h) is np.ndarray
    assert type(mt.to_device(m).h) is cp.ndarray
    way(m, cp.ones(2))


def test_an_argument_that_stayed_on_the_host_is_named(cp):
    m = Cell(cp.ones((2, 2)), cp.zeros(2))
    note = note_of(lambda: mt.grad(step)(m, np.ones(2)))
    assert "A constant, or an argument that is not differentiated, is on the host." in note
    note = note_of(lambda: mt.grad(step, argnums=1)(m, np.ones(2)))
    assert "Read on the host: an argument, a numpy.ndarray of shape (2,) and dtype float64." in note


def test_many_fields_are_not_all_named(cp):
    rest = [np.ones(2) for _ in range(9)]
    note = note_of(lambda: mt.grad(lambda xs, c: sum(xs) * c)(rest, cp.ones(2)))
    assert note.count("an argument") == 4
    assert ", …. A" not in note
    assert "…" in note


def test_a_type_error_about_something_else_is_left_alone(cp):
    def refused(x):
        raise TypeError("a numpy.ndarray is not wanted here")

    for f in (refused, lambda x: np.sum(x) + "text"):
        with pytest.raises(TypeError) as caught:
            mt.grad(f)(cp.ones(2))
        assert not hasattr(caught.value, "__notes__")


# ---------------------------------------------------------------- numbers of the host, which CuPy takes

NUMBERS = {
    "an item": lambda w, c: np.sum(c * w[0]),
    "a power": lambda w, c: np.sum(c ** w[1]),
    "a function of an item": lambda w, c: np.sum(c * np.sin(w[0]) * w[1]),
    "a Python number": lambda w, c: np.sum(c * w[0].item()),
    "a choice": lambda w, c: np.sum(np.where(c > 1.5, c, w[0])),
}


@pytest.mark.parametrize("name", NUMBERS)
def test_a_number_from_an_array_of_the_host_has_its_gradient_there(cp, name):
    loss, w, c = NUMBERS[name], np.array([0.3, 0.7]), np.array([1.0, 2.0, 3.0])
    expected = mt.grad(loss, argnums=(0, 1))(w, c)
    dw, dc = mt.grad(loss, argnums=(0, 1))(w, cp.asarray(c))
    assert (type(dw), type(dc)) == (np.ndarray, cp.ndarray)
    np.testing.assert_allclose(dw, expected[0])
    np.testing.assert_allclose(dc.get(), expected[1])
    direction = np.array([1.0, -2.0])
    _, slope = mt.jvp(lambda w: loss(w, cp.asarray(c)), (w,), (direction,))
    assert float(slope) == pytest.approx(expected[0] @ direction)


def test_a_sum_over_an_array_of_the_host_within_a_computation_on_the_device_is_refused(cp):
    w, c = np.array([0.3, 0.7]), cp.ones(3)
    loss = lambda w: np.sum(c * np.sum(w**2))
    assert "Read on the host: an argument" in note_of(lambda: mt.grad(loss)(w))
    second = lambda w: np.sum(mt.grad(loss)(w) ** 2)
    assert "CuPy mixes no arrays" in note_of(lambda: mt.grad(second)(w))
