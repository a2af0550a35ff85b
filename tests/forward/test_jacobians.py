"""Jacobians, Hessians and elementwise derivatives: shapes, dtypes, complex numbers, and one call of the function."""

import numpy as np
import pytest

import mutangent as mt


def numerical(f, x, eps=1e-6):
    """Differentiate by central differences, column by column."""
    x = np.asarray(x, float)
    out = np.asarray(f(x))
    found = np.zeros(out.shape + x.shape, out.dtype)
    for place in np.ndindex(x.shape):
        step = np.zeros(x.shape)
        step[place] = eps
        found[(..., *place)] = (f(x + step) - f(x - step)) / (2 * eps)
    return found


WEIGHTS = np.linspace(-1.0, 1.0, 24).reshape(4, 6)
TALL = {
    "scalar": lambda x: np.sum(x**3),
    "wide": lambda x: np.tanh(WEIGHTS[:2] @ np.ravel(x)),
    "square": lambda x: np.tanh(x) * x,
    "tall": lambda x: np.sin(np.outer(WEIGHTS[:, 0], np.ravel(x))),
    "one more axis": lambda x: np.stack([x, x**2, np.exp(x)])[:, None],
}


@pytest.mark.parametrize("f", TALL.values(), ids=TALL)
def test_rows_and_columns_give_the_same_matrix(xp, f):
    x = xp.asarray(np.linspace(0.1, 0.9, 6).reshape(2, 3))
    found = mt.jacobian(f)(x)
    assert found.shape == (*np.shape(f(x)), 2, 3)
    np.testing.assert_allclose(found, numerical(f, x), atol=1e-8)


@pytest.mark.parametrize("f", TALL.values(), ids=TALL)
def test_the_function_is_called_once(f):
    calls = []

    def counted(x):
        calls.append(1)
        return f(x)

    mt.jacobian(counted)(np.ones((2, 3)))
    assert len(calls) == 1


@pytest.mark.parametrize(
    ("x", "shape"), [(2.0, ()), (np.float64(2.0), ()), (np.array(2.0), ()), (np.ones(1), (1,))]
)
def test_numbers_have_no_axes(x, shape):
    found = mt.jacobian(lambda x: x**3)(x)
    assert np.shape(found) == shape * 2
    np.testing.assert_array_equal(found, 3.0 * np.asarray(x).reshape(shape * 2) ** 2)
    column = mt.jacobian(lambda x: np.sum(x) * np.array([1.0, 2.0]))(x)
    np.testing.assert_array_equal(column, np.array([1.0, 2.0]).reshape(2, *shape))
    assert np.shape(mt.hessian(lambda x: np.sum(x**3))(x)) == shape * 2


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_empty_arrays_give_empty_matrices(shape):
    x = np.zeros(shape)
    assert mt.jacobian(lambda x: x * 2.0)(x).shape == shape * 2
    assert mt.jacobian(np.sum)(x).shape == shape
    assert mt.jacobian(lambda x: np.ones(3) * np.sum(x))(x).shape == (3, *shape)
    assert mt.jacobian(lambda x: x[:0])(np.ones(3)).shape == (0, 3)
    assert mt.hessian(lambda x: np.sum(x**2))(x).shape == shape * 2
    assert mt.elementwise_grad(np.sin)(x).shape == shape


@pytest.mark.parametrize("f", TALL.values(), ids=TALL)
def test_float32_stays_float32(f):
    x = np.linspace(0.1, 0.9, 6, dtype=np.float32).reshape(2, 3)
    assert mt.jacobian(f)(x).dtype == f(x).dtype  # WEIGHTS make some wider
    assert mt.jacobian(lambda x: np.tanh(x)[:1])(x).dtype == np.float32
    assert mt.jacobian(lambda x: np.stack([x, x]))(x).dtype == np.float32
    assert mt.hessian(lambda x: np.sum(x**3))(x).dtype == np.float32
    assert mt.elementwise_grad(np.tanh)(x).dtype == np.float32


def test_a_result_that_does_not_depend_on_the_argument_gives_zeros():
    np.testing.assert_array_equal(mt.jacobian(lambda x: np.ones(2))(np.ones(3)), np.zeros((2, 3)))
    np.testing.assert_array_equal(mt.jacobian(lambda x: np.ones(4))(np.ones(3)), np.zeros((4, 3)))
    np.testing.assert_array_equal(mt.hessian(np.sum)(np.ones(3)), np.zeros((3, 3)))


# ---------------------------------------------------------------- complex numbers

MATRIX = np.array([[1.0 + 1.0j, 2.0], [3.0j, 4.0 - 1.0j], [0.5, -1.0j]])


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_holomorphic_function_has_its_complex_matrix(rows):
    z = np.array([1.0 + 2.0j, -0.5j])
    np.testing.assert_allclose(mt.jacobian(lambda z: MATRIX[:rows] @ z)(z), MATRIX[:rows])
    found = mt.jacobian(lambda z: np.exp(MATRIX[:rows] @ z))(z)
    np.testing.assert_allclose(found, np.exp(MATRIX[:rows] @ z)[:, None] * MATRIX[:rows])


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_a_complex_function_of_a_real_argument_has_a_complex_matrix(rows):
    found = mt.jacobian(lambda x: MATRIX[:rows] @ x)(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(found, MATRIX[:rows])
    np.testing.assert_array_equal(mt.elementwise_grad(lambda x: 1j * x**2)(np.array([3.0])), [6.0j])


def test_the_elementwise_derivative_of_a_holomorphic_function_is_the_complex_one():
    z = np.array([1.0 + 2.0j, -0.5j])
    np.testing.assert_allclose(mt.elementwise_grad(np.sin)(z), np.cos(z))


@pytest.mark.parametrize("take", [mt.jacobian, mt.elementwise_grad])
def test_a_real_function_of_a_complex_argument_has_no_complex_derivative(take):
    with pytest.raises(mt.GradientTypeError, match=r"complex128.*real.*not holomorphic.*mutangent\.grad"):
        take(lambda z: np.abs(z) ** 2)(np.array([1.0 + 2.0j]))


POINT = np.array([1.0 + 2.0j, -0.5j, 0.75 - 0.25j])

ONE_ELEMENT = np.array([0.0, 1.0, 0.0])


def rather_small(z):
    return 1e-6 if z.dtype == np.complex128 else 1e-2


NOT_HOLOMORPHIC = {
    "a conjugate": np.conj,
    "a real part": lambda z: np.real(z) + 0j,
    "an imaginary part": lambda z: 1j * np.imag(z),
    "an absolute value": lambda z: np.abs(z) * z,
    "an angle": lambda z: 1j * np.angle(z),
    "a small conjugate of one element": lambda z: z * z + np.conj(z) * rather_small(z) * ONE_ELEMENT,
    "a conjugate beside a large derivative": lambda z: z + rather_small(z) * (z + np.conj(z)) * ONE_ELEMENT,
}


def written_in_place(z):
    made = np.zeros_like(z)
    made[:] = z
    made[1] *= made[0]
    made[[0, 2]] = made[1] * made[[2, 0]]
    return made


HOLOMORPHIC = {
    "a product": lambda z: MATRIX @ z[:2],
    "an exponential": lambda z: np.exp(z * z),
    "a discrete Fourier transform": np.fft.fft,
    "writes in place": written_in_place,
    "a determinant": lambda z: np.linalg.det(np.outer(z, z) + np.eye(3)),
    "an ill-conditioned system": lambda z: np.linalg.solve(np.vander(np.linspace(1.0, 1.001, 3)) * z[0], z),
    "large numbers that cancel": lambda z: (z + 1e9) ** 2 - 1e18,
    "an infinite derivative": lambda z: np.sqrt(z * np.array([0.0, 1.0, 2.0])),
    "nan": lambda z: z * np.array([np.nan, 1.0, np.inf]),
    "nothing of the argument": lambda z: np.ones(2, complex),
    "an empty result": lambda z: z[:0],
}
PRECISIONS = ["complex128", "complex64"]


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", NOT_HOLOMORPHIC)
def test_a_complex_function_that_is_not_holomorphic_is_refused(name, dtype):
    f, z = NOT_HOLOMORPHIC[name], POINT.astype(dtype)
    matrix = (
        r"the function makes .* of shape \(3,\) and dtype complex\d+ of a complex argument and is not holomorphic there: "
        r"its derivative is not complex linear, so no complex matrix .*np\.conj, np\.real.*mutangent\.vjp.*imaginary parts"
    )
    elementwise = (
        r"not holomorphic there, or not elementwise: no complex number per element .*np\.conj.*mutangent\.vjp"
    )
    with np.errstate(all="ignore"):
        with pytest.raises(mt.GradientTypeError, match=matrix):
            mt.jacobian(f)(z)
        with pytest.raises(mt.GradientTypeError, match=matrix):
            mt.jacobian(lambda z: f(MATRIX.astype(dtype) @ z[:2]))(z)  # more rows than columns
        with pytest.raises(mt.GradientTypeError, match=elementwise):
            mt.elementwise_grad(f)(z)
        with pytest.raises(mt.GradientTypeError, match=elementwise):
            mt.elementwise_grad(f)(np.stack([z, z]))


@pytest.mark.parametrize("dtype", PRECISIONS)
@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_a_holomorphic_function_is_not_refused(name, dtype):
    with np.errstate(all="ignore"):
        found = mt.jacobian(HOLOMORPHIC[name])(POINT.astype(dtype))
    assert found.shape[-1] == 3


@pytest.mark.parametrize("z", [1.0 + 2.0j, np.complex64(1.0 + 2.0j), np.array(1.0 + 2.0j)])
def test_a_complex_number_has_a_complex_derivative_or_none(z):
    tolerance = 1e-6
    np.testing.assert_allclose(mt.jacobian(lambda z: z**3)(z), 3 * z**2, rtol=tolerance)
    found = mt.elementwise_grad(lambda z: z * z)(z)
    assert type(found) is (complex if type(z) is complex else type(z * z))
    assert found == 2 * z
    assert mt.elementwise_grad(mt.elementwise_grad(lambda z: z * z))(z) == 2.0
    for take in (mt.jacobian, mt.elementwise_grad):
        with pytest.raises(mt.GradientTypeError, match="not holomorphic there"):
            take(lambda z: z * np.conj(z))(z)


def test_the_gradient_of_a_complex_scalar_function_is_not_holomorphic():
    with pytest.raises(mt.GradientTypeError, match="not holomorphic there"):
        mt.jacobian(mt.grad(lambda z: np.sum(np.abs(z) ** 4)))(POINT)
    assert mt.jacobian(mt.grad(lambda z: np.sum(np.abs(z) ** 2)))(POINT).shape == (3, 3)


def test_the_check_is_no_part_of_an_outer_derivative():
    f = lambda z: np.exp(MATRIX @ z[:2])
    slope = mt.grad(lambda z: np.sum(np.abs(mt.jacobian(f)(z)) ** 2))(POINT)
    y = f(POINT)
    weights = np.sum(np.abs(MATRIX) ** 2, axis=1) * np.abs(y) ** 2
    np.testing.assert_allclose(slope[:2], 2 * np.conj(MATRIX).T @ weights)
    assert mt.jacobian(mt.jacobian(f))(POINT).shape == (3, 3, 3)
    with pytest.raises(mt.GradientTypeError, match="not holomorphic there"):
        mt.grad(lambda z: np.sum(np.abs(mt.jacobian(np.conj)(z)) ** 2))(POINT)


def test_a_function_that_is_checked_is_called_once():
    calls = []

    def f(z):
        calls.append(z)
        return z * z

    mt.jacobian(f)(POINT)
    mt.elementwise_grad(f)(POINT)
    assert len(calls) == 2


def test_an_elementwise_derivative_of_a_complex_function_that_mixes_elements_is_refused():
    with pytest.raises(mt.GradientTypeError, match="or not elementwise"):
        mt.elementwise_grad(np.cumsum)(POINT)


def test_a_hessian_needs_a_real_argument():
    with pytest.raises(mt.GradientTypeError, match=r"real argument.*complex128.*real and imaginary parts"):
        mt.hessian(lambda z: np.sum(np.abs(z) ** 2))(np.array([1.0 + 2.0j]))


# ---------------------------------------------------------------- which argument


@pytest.mark.parametrize("take", [mt.jacobian, mt.hessian, mt.elementwise_grad])
def test_argnums_chooses_the_argument(take):
    def f(x, y, *, power):
        return x**2 * y**power

    expected = {mt.jacobian: 4.0 * 27.0, mt.hessian: 4.0 * 3 * 2 * 3.0, mt.elementwise_grad: 4.0 * 27.0}
    for number in (1, -1):
        assert take(f, argnums=number)(2.0, 3.0, power=3) == expected[take]
    with pytest.raises(TypeError, match="argnums=2 names none"):
        take(f, argnums=2)(2.0, 3.0, power=3)


@pytest.mark.parametrize("take", [mt.jacobian, mt.hessian, mt.elementwise_grad])
def test_the_function_keeps_its_name(take):
    def energy(x):
        """Give the energy."""
        return x * x

    assert take(energy).__name__ == "energy"
    assert take(energy).__doc__ == "Give the energy."


@pytest.mark.parametrize("take", [mt.jacobian, mt.hessian, mt.elementwise_grad])
def test_an_integer_argument_is_refused(take):
    with pytest.raises(mt.GradientTypeError, match="integers and booleans have no gradient"):
        take(lambda x: x * x)(3)


@pytest.mark.parametrize("take", [mt.jacobian, mt.hessian, mt.elementwise_grad])
def test_a_container_is_refused(take):
    with pytest.raises(
        mt.GradientTypeError, match=r"argument 0 is a list.*a float or complex array or number"
    ):
        take(lambda x: x[0] * x[1])([1.0, 2.0])


def test_a_result_that_is_no_array_is_refused():
    for take in (mt.jacobian, mt.elementwise_grad):
        with pytest.raises(mt.GradientTypeError, match="the result is a tuple"):
            take(lambda x: (x, x))(1.0)
    for call in (mt.hessian(lambda x: x * x), lambda x: mt.hvp(lambda x: x * x, (x,), (x,))):
        with pytest.raises(mt.GradientTypeError, match=r"shape \(2,\).*needs a scalar"):
            call(np.ones(2))


def test_a_function_that_is_not_elementwise_is_refused():
    with pytest.raises(mt.GradientTypeError, match=r"shape \(\).*shape \(3,\).*not elementwise"):
        mt.elementwise_grad(np.sum)(np.ones(3))


# ---------------------------------------------------------------- objects and nesting


@mt.differentiable
class Counter:
    weight: np.ndarray
    state: np.ndarray
    calls: int = 0

    def __call__(self, x):
        self.state = np.tanh(self.weight * self.state + x)
        self.weight[0] *= 0.5
        self.calls += 1
        return self.state


@pytest.mark.parametrize("part", [slice(0, 1), slice(0, 2)], ids=["rows", "square"])
def test_objects_are_left_as_by_one_call(part):
    m, plain = (Counter(np.array([0.5, -0.7]), np.array([0.3, 0.2])) for _ in range(2))
    x = np.array([0.1, -0.4])
    plain(x)
    found = mt.jacobian(lambda x: m(x)[part])(x)
    np.testing.assert_allclose(found, np.diag(1 - plain.state**2)[part])
    assert m.calls == 1
    np.testing.assert_array_equal(m.weight, plain.weight)
    np.testing.assert_array_equal(m.state, plain.state)


@pytest.mark.parametrize("take", [mt.hessian, lambda f: mt.jacobian(lambda x: f(x) * np.ones(5))])
def test_objects_are_left_as_by_one_call_for_more_columns_and_second_derivatives(take):
    m, plain = (Counter(np.array([0.5, -0.7]), np.array([0.3, 0.2])) for _ in range(2))
    x = np.array([0.1, -0.4])
    plain(x)
    take(lambda x: np.sum(m(x)))(x)
    assert m.calls == 1
    np.testing.assert_array_equal(m.weight, plain.weight)
    np.testing.assert_array_equal(m.state, plain.state)


@pytest.mark.parametrize("take", [mt.jacobian, mt.hessian, mt.elementwise_grad])
def test_a_list_among_the_arguments_gets_plain_values_once(take):
    def f(x, history):
        history.append(x * 2.0)
        return x * x

    history = []
    take(f)(3.0, history)
    assert history == [6.0]
    assert type(history[0]) is float


def test_a_jacobian_can_be_differentiated():
    x = np.array([1.0, 2.0])
    cubes = lambda x: x**3
    np.testing.assert_allclose(mt.grad(lambda x: np.sum(mt.jacobian(cubes)(x)))(x), 6 * x)
    _, dot = mt.jvp(mt.jacobian(cubes), (x,), (np.ones(2),))
    np.testing.assert_allclose(dot, np.diag(6 * x))
    third = mt.jacobian(mt.hessian(lambda x: np.sum(x**4)))(x)
    assert third.shape == (2, 2, 2)
    np.testing.assert_allclose([third[0, 0, 0], third[1, 1, 1], third[0, 1, 1]], [24.0, 48.0, 0.0])
    assert mt.elementwise_grad(mt.elementwise_grad(np.sin))(0.5) == pytest.approx(-np.sin(0.5))


def test_the_product_with_a_hessian_needs_no_hessian(rng):
    x, v = rng.normal(size=(2, 5))
    f = lambda x: np.sum(np.sin(x) * x[::-1] ** 2)
    (found,) = mt.hvp(f, (x,), (v,))
    np.testing.assert_allclose(found, mt.hessian(f)(x) @ v, rtol=1e-12)


@pytest.mark.parametrize("make", [lambda y: y, lambda y: y * (1 + 2j)], ids=["real", "complex"])
@pytest.mark.parametrize(
    "f",
    [lambda x: x * np.sum(x), lambda x: x[::-1] ** 2, np.cumsum, lambda x: x - np.mean(x)],
    ids=["a sum", "reversed", "sums so far", "centred"],
)
def test_the_elementwise_derivative_of_a_function_that_is_not_elementwise_is_refused(f, make):
    with pytest.raises(
        mt.GradientTypeError, match=r"the function is not elementwise: .* Use mutangent\.jacobian"
    ):
        mt.elementwise_grad(lambda x: make(f(x)))(np.array([1.0, 2.0, 4.0]))


def test_the_elementwise_derivative_may_be_infinite_or_nan_somewhere():
    x = np.array([0.0, 1.0, 4.0])
    np.testing.assert_array_equal(mt.elementwise_grad(np.sqrt)(x), [np.inf, 0.5, 0.25])
    with np.errstate(invalid="ignore"):
        found = mt.elementwise_grad(lambda x: x * np.sqrt(x - 1.0))(x)
    assert np.isnan(found[0])
    np.testing.assert_allclose(found[2], 3**0.5 + 2 / 3**0.5)


def test_the_elementwise_derivative_of_numbers_has_their_kind():
    assert mt.elementwise_grad(np.sin)(0.0) == 1.0
    assert type(mt.elementwise_grad(lambda x: x**2)(3.0)) is float
    assert mt.elementwise_grad(np.exp)(np.float32(0.0)).dtype == np.float32
    assert mt.elementwise_grad(lambda x: np.exp(1j * x))(0.0) == 1j
