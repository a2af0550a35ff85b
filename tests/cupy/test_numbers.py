"""Numbers of the host that are made of arrays on a device, and vectors of numbers of both."""

import numpy as np
import pytest

import mutangent as mt


def module_of(x):
    return mt.array_module(x)


@mt.differentiable
class Settings:
    scale: float = mt.field(default=1.0, converter=float)
    v: object = mt.field(default=0.0, converter=lambda x: module_of(x).asarray(x))


def written(x):
    m = Settings()
    m.scale = x[0]
    m.scale = m.scale * x[1]
    m.v = x * m.scale
    return np.sum(m.v)


def under_pause(x):
    m = Settings()
    m.v = x
    with mt.pause():
        m.v = x * 2.0
    return np.sum(m.v * x)


LOSSES = {
    "item": lambda x: np.sum(x**2).item() ** 2,
    "item alone": lambda x: np.sum(x**2).item(),
    "items": lambda x: x[0].item() * x[1].item(),
    "item times array": lambda x: np.sum(x * x[0:1].item()),
    "float as a converter": lambda x: Settings(np.sum(x**2)).scale ** 2,
    "asarray as a converter": lambda x: np.sum(Settings(1.0, x * 2).v ** 2),
    "converters of fields": written,
    "a converter under pause": under_pause,
}


@pytest.mark.parametrize("name", LOSSES)
def test_the_gradient_is_on_the_device(cp, name):
    loss, x = LOSSES[name], np.array([0.3, 0.7])
    expected = mt.grad(loss)(x)
    twice = lambda x: np.sum(mt.grad(loss)(x) ** 2)
    for f in (loss, twice):
        found = mt.grad(f)(cp.asarray(x))
        assert type(found) is cp.ndarray
        np.testing.assert_allclose(found.get(), mt.grad(f)(x))
    _, slope = mt.jvp(loss, (cp.asarray(x),), (cp.asarray([1.0, -2.0]),))
    assert float(slope) == pytest.approx(expected @ [1.0, -2.0])


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_gradient_of_an_item_keeps_the_dtype(cp, dtype):
    x = cp.asarray([0.3, 0.7], dtype=dtype)
    assert mt.grad(lambda x: x[0].item() * x[1].item())(x).dtype == dtype


def test_a_converter_that_moves_an_array_to_the_host_is_refused(cp):
    @mt.differentiable
    class OnHost:
        v: object = mt.field(converter=lambda x: x.get() if type(x) is cp.ndarray else float(x))

    with pytest.raises(mt.NotCapturedError, match=r"turned a cupy\.ndarray .* into a numpy\.ndarray"):
        mt.grad(lambda x: np.sum(OnHost(x).v))(cp.ones(2))


CONVERTERS = {
    "array": lambda cp: cp.array,
    "asarray": lambda cp: cp.asarray,
    "asarray by a lambda": lambda cp: lambda x: cp.asarray(cp.asarray(x)),
    "array by a lambda": lambda cp: lambda x: cp.array(cp.asarray(x)),
    "single precision": lambda cp: lambda x: cp.asarray(x, dtype=np.float32),
    "a hook": lambda cp: None,
}


@pytest.mark.parametrize("name", CONVERTERS)
def test_an_array_on_the_device_is_shared_or_copied_as_in_the_plain_run(cp, name):
    converter = CONVERTERS[name](cp)
    options = {"converter": converter} if converter else {"on_setattr": lambda i, a, v: cp.array(v)}

    @mt.differentiable
    class Layer:
        v: object = mt.field(default=0.0, **options)

    def loss(m, y, x):
        m.v = y
        m.v += x
        return np.sum(m.v * y)

    y, x = cp.asarray([1.0, 2.0]), cp.asarray([0.5, -0.5])
    shares = name.startswith("asarray")
    value, (dy, dx) = mt.value_and_grad(loss, argnums=(1, 2))(Layer(cp.zeros(2)), y, x)
    after = np.array([1.5, 1.5])
    np.testing.assert_array_equal(y.get(), after if shares else [1.0, 2.0])
    np.testing.assert_allclose(dy.get(), 2 * after if shares else [2.5, 3.5])
    np.testing.assert_allclose(dx.get(), 2 * after if shares else [1.0, 2.0])
    assert float(value) == 4.5


def test_numbers_that_are_the_same_by_chance_on_the_device_are_refused(cp):
    def normalised(x):
        x = cp.asarray(x)
        return x / cp.sqrt(cp.sum(x * x))

    def in_place(x):
        x = cp.asarray(x)
        x *= 2
        return x

    for converter, value in ((normalised, [1.0, 0.0]), (in_place, [3.0, 4.0]), (in_place, [0.0, 0.0])):

        @mt.differentiable
        class Chance:
            v: object = mt.field(converter=converter)

        x = cp.asarray(value)
        with pytest.raises(mt.NotCapturedError, match=r"the converter .* of Chance\.v"):
            mt.grad(lambda x, made=Chance: np.sum(made(x).v))(x)
        np.testing.assert_array_equal(x.get(), value)


@mt.differentiable
class Mixed:
    w: object
    gain: float
    small: object
    unused: float = 3.0
    offset: object = 0.0


def test_a_vector_of_arrays_and_numbers_is_on_the_device(cp):
    m = Mixed(cp.array([1.0, 2.0], np.float32), 0.5, np.float32(0.25), 3.0, 1 + 0j)
    vector, unravel = mt.ravel(m)
    assert type(vector) is cp.ndarray
    np.testing.assert_array_equal(vector.get(), [1.0, 2.0, 0.5, 0.25, 3.0, 1.0])
    again = unravel(vector * 2)
    assert [type(each) for each in (again.w, again.gain, again.small, again.offset)] == [
        *(cp.ndarray, float, np.float32, complex),
    ]
    assert again.small == 0.5
    loss = lambda m: np.sum(m.w) * m.gain * m.small
    gradient = mt.ravel_tangent(m, mt.grad(loss)(m))
    assert type(gradient) is cp.ndarray
    np.testing.assert_allclose(gradient.get(), [0.125, 0.125, 0.75, 1.5, 0.0, 0.0])
    through = mt.grad(lambda v: loss(unravel(v)))(vector)
    np.testing.assert_allclose(through.get(), gradient.get())


def test_arrays_of_both_libraries_make_no_vector(cp):
    m = Mixed(cp.ones(2), 0.5, np.ones(2))
    with pytest.raises(TypeError, match=r"arrays of NumPy and of CuPy.*mutangent\.to_device\(m\)"):
        mt.ravel(m)
    assert mt.ravel(mt.to_device(m))[0].shape == (7,)


def blocks(s, c):
    b = np.zeros_like(c * s)
    b[0] = s
    b[1:] = s * 2
    return np.sum(b * c)


def augmented(s, c):
    b = c * s
    b[0] = s * s
    b += s
    return np.sum(b * c)


WITH_A_NUMBER = {
    "sum": lambda s, c: np.sum((c + s) * c),
    "difference": lambda s, c: np.sum((s - c) * c),
    "choice": lambda s, c: np.sum(np.where(c > 1, s, c) * c),
    "choice among numbers": lambda s, c: np.sum(np.where(s > 1, s * s, s)[()] * c),
    "larger": lambda s, c: np.sum(np.maximum(s, c) * c),
    "power": lambda s, c: np.sum(s**c * c),
    "matrix product": lambda s, c: (c * s) @ (c + s),
    "written": blocks,
    "written twice": augmented,
}


@pytest.mark.parametrize("name", WITH_A_NUMBER)
@pytest.mark.parametrize("s", [1.5, np.float64(1.5)], ids=["Python's", "NumPy's"])
def test_a_number_of_the_host_takes_part_in_every_mode(cp, name, s):
    def found(c):
        f, one = (lambda s: WITH_A_NUMBER[name](s, c)), type(s)(1.0)
        return [
            float(f(s)),
            mt.grad(f)(s),
            float(mt.jvp(f, (s,), (one,))[1]),
            float(mt.jvp(mt.grad(f), (s,), (one,))[1]),
            mt.grad(mt.grad(f))(s),
            mt.grad(lambda s: mt.jvp(f, (s,), (one,))[1])(s),
        ]

    numbers = np.array([1.0, 2.0, 3.0])
    on_device = found(cp.asarray(numbers))
    np.testing.assert_allclose(on_device, found(numbers))
    assert type(on_device[1]) is type(s)
