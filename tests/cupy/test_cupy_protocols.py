"""What of CuPy the library and its tests stand on. If a release of CuPy drops it, this says so."""

import numpy as np
import pytest

import mutangent as mt

GONE = (
    "CuPy {version} no longer asks {hook} of its arguments before it launches {kernel}. `cupy.<ufunc>(traced)` in "
    "mutangent/_operators.py and the host-memory arrays of tests/arrays/cupy_on_host.py stand on that private protocol "
    "(cupyx.distributed used it too): find what has taken its place."
)


class Asked:
    """Answers CuPy's two private hooks and remembers the kernels."""

    def __init__(self):
        self.kernels = []

    def __cupy_override_elementwise_kernel__(self, kernel, *args, **kwargs):
        self.kernels.append(kernel.name)
        return "answered"

    def __cupy_override_reduction_kernel__(self, kernel, axis, dtype, out, keepdims):
        self.kernels.append(kernel.name)
        return "answered"


def test_cupy_asks_its_elementwise_hook_before_it_launches():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x")
    asked = Asked()
    message = GONE.format(
        version=cupy.__version__, hook="__cupy_override_elementwise_kernel__", kernel="a ufunc"
    )
    try:
        answer = cupy.tanh(asked)
    except Exception as error:
        raise AssertionError(message) from error
    assert answer == "answered", message
    assert asked.kernels == ["cupy_tanh"], (
        "CuPy has renamed its kernels: `cupy_tanh` was the name of cupy.tanh"
    )


def test_cupy_asks_its_reduction_hook_before_it_launches():
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x")
    asked = Asked()
    message = GONE.format(
        version=cupy.__version__, hook="__cupy_override_reduction_kernel__", kernel="a reduction"
    )
    try:
        answer = cupy._core._routines_math.sum_auto_dtype(asked)
    except Exception as error:
        raise AssertionError(message) from error
    assert answer == "answered", message
    assert asked.kernels == ["cupy_sum"], "CuPy has renamed its kernels: `cupy_sum` was the name of its sum"


# ---------------------------------------------------------------- cupy.<name> of traced values


@pytest.mark.parametrize("name", ["tanh", "exp", "sqrt", "negative", "square", "absolute"])
def test_a_ufunc_of_cupys_name_is_differentiated(cp, name):
    x = cp.array([0.3, 0.7])
    found = mt.grad(lambda x: np.sum(getattr(cp, name)(x)))(x)
    expected = mt.grad(lambda x: np.sum(getattr(np, name)(x)))(np.array([0.3, 0.7]))
    assert type(found) is cp.ndarray
    np.testing.assert_allclose(found.get(), expected)


@pytest.mark.parametrize(
    "operation",
    [
        lambda c, t: c + t,
        lambda c, t: t + c,
        lambda c, t: c - t,
        lambda c, t: t * c,
        lambda c, t: c / t,
        lambda c, t: t**c,
        lambda c, t: c**t,
        lambda c, t: c @ t,
        lambda c, t: t @ c,
        lambda c, t: np.float64(2.0) * t,
        lambda c, t: 2.0 * t,
        lambda c, t: np.where(c > 0, t, c),
        lambda c, t: np.concatenate([c, t]),
        lambda c, t: np.stack([t, c]),
        lambda c, t: np.einsum("i,i->i", c, t),
        np.dot,
        lambda c, t: t[c > 0.5],
    ],
)
def test_arrays_of_cupy_and_traced_ones_mix_in_every_order(cp, operation):
    c, t = np.array([0.4, 0.9]), np.array([0.3, 0.7])
    found = mt.grad(lambda t: np.sum(operation(cp.array(c), t)))(cp.array(t))
    np.testing.assert_allclose(found.get(), mt.grad(lambda t: np.sum(operation(c, t)))(t))


@pytest.mark.parametrize("name", ["matmul", "concatenate", "stack", "einsum"])
def test_functions_of_cupys_name_that_have_no_hook_are_cupys_type_error(cp, name):
    calls = {
        "matmul": lambda t: cp.matmul(t, t),
        "concatenate": lambda t: cp.concatenate([t, t]),
        "stack": lambda t: cp.stack([t, t]),
        "einsum": lambda t: cp.einsum("ij,jk", t, t),
    }
    with pytest.raises(TypeError):
        mt.grad(lambda t: np.sum(calls[name](t)))(cp.ones((2, 2)))
    by_numpys_name = {
        "matmul": lambda t: t @ t,
        "concatenate": lambda t: np.concatenate([t, t]),
        "stack": lambda t: np.stack([t, t]),
        "einsum": lambda t: np.einsum("ij,jk", t, t),
    }
    assert mt.grad(lambda t: np.sum(by_numpys_name[name](t)))(cp.ones((2, 2))).shape == (2, 2)


# ---------------------------------------------------------------- what would lose a gradient


def add_at(c, t):
    import cupy

    cupy.add.at(c, 0, t)


def add_in_place(c, t):
    c += t


def assign_item(c, t):
    c[0] = t


def assign_all(c, t):
    c[...] = t


def fill(c, t):
    c.fill(t)


@pytest.mark.parametrize(
    "write",
    [
        add_in_place,
        lambda c, t: np.add(c, t, out=c),
        lambda c, t: np.tanh(t, out=c),
        add_at,
        assign_item,
        assign_all,
        fill,
    ],
)
def test_a_traced_value_cannot_be_written_into_a_plain_array_of_cupys(cp, write):
    c = cp.ones(2)

    def loss(t):
        write(c, t)
        return np.sum(t)

    with pytest.raises(mt.TracedValueError, match=r"would (write|silently lose) .* a cupy\.ndarray of shape"):
        mt.grad(loss)(cp.array(3.0))
    assert c.tolist() == [1.0, 1.0]


def test_a_traced_array_of_cupys_cannot_be_written_into_numpys(cp):
    plain = np.ones(2)

    def loss(t):
        nonlocal plain
        plain += t
        return np.sum(t)

    with pytest.raises(mt.TracedValueError, match=r"would write a traced value into a numpy\.ndarray"):
        mt.grad(loss)(cp.array([1.0, 2.0]))


def test_a_kernel_without_a_rule_names_numpys_function(cp):
    with pytest.raises(mt.NoRuleError, match="Write the function of NumPy's name"):
        mt.grad(cp.linalg._norms._norm_ord2)(cp.array([1.0, 2.0]))


def test_host_and_device_arrays_do_not_mix_in_a_recording_either(cp):
    with pytest.raises(TypeError, match=r"numpy\.ndarray"):
        mt.grad(lambda t: np.sum(t * np.ones(2)))(cp.array([1.0, 2.0]))


def test_a_cotangent_of_the_other_library_is_refused(cp):
    _, pullback = mt.vjp(np.tanh, cp.array([1.0, 2.0]))
    with pytest.raises(
        mt.CotangentError, match=r"Give a cotangent of the value's array library: cupy\.asarray"
    ):
        pullback(np.ones(2))
    assert pullback(cp.ones(2))[0].shape == (2,)


def test_numpy_does_not_copy_a_traced_array_to_the_host(cp):
    kept = []
    mt.grad(lambda t: np.sum(kept.append(t) or t))(cp.array([1.0, 2.0]))
    with pytest.raises(TypeError, match=r"cupy\.asnumpy\(mutangent\.primal\(x\)\)"):
        np.asarray(kept[0])
