"""Every rule keeps NumPy's dtypes: the result of a recorded call is NumPy's own, and a gradient has its operand's dtype.

The samples of the rulebook run again in half and single precision, with operands of different precisions, without any
elements and with single numbers. Where the plain call is refused, the recorded one must be too.
"""

import contextlib
import itertools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.rules.samples import ELEMENTWISE, HOLOMORPHIC
from tests.rules.test_derivatives import all_samples, by_columns, interleaved

every_sample = pytest.mark.parametrize("sample", all_samples())

# NumPy has no complex numbers of half precision.
REAL = {"half": np.float16, "single": np.float32, "double": np.float64}
COMPLEX = {"half": np.complex64, "single": np.complex64, "double": np.complex128}


def in_precision(x: Any, precision: str) -> Any:
    return np.asarray(x, (COMPLEX if np.iscomplexobj(x) else REAL)[precision])[()]


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Do not warn of what half precision and empty arrays bring about."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def results_of(out: Any) -> list[Any]:
    return list(out) if isinstance(out, tuple | list) else [out]


def kind_of(x: Any) -> tuple[type, np.dtype[Any], tuple[int, ...]]:
    return type(x), np.asarray(x).dtype, np.shape(x)


def ones_like(x: Any) -> Any:
    """Return a tangent of the same type; none for whole numbers and truth values."""
    if np.asarray(x).dtype.kind not in "fc":
        return mt.NoTangent()
    return np.ones_like(x)[()] if isinstance(x, np.generic) else np.ones_like(x) if np.ndim(x) else type(x)(1)


def tangent_like(x: Any) -> Any:
    return np.array(1, x.dtype) if isinstance(x, np.ndarray) and x.ndim == 0 else ones_like(x)


@attrs.frozen
class Run:
    """A recorded call: its result, the pullback of ones, and the result and its tangent in forward mode."""

    out: list[Any]
    bars: list[Any]
    gradients: tuple[Any, ...]
    forward: list[Any]
    dots: list[Any]


def recorded(call: Callable[..., Any], operands: tuple[Any, ...]) -> Run:
    with quietly():
        out, pullback = mt.vjp(call, *operands)
        bars = [tangent_like(y) for y in results_of(out)]
        if not isinstance(out, tuple | list):
            bar = bars[0]
        else:
            bar = type(out)._make(bars) if hasattr(out, "_make") else type(out)(bars)
        gradients = pullback(bar)
        forward, dots = mt.jvp(call, operands, tuple([tangent_like(x) for x in operands]))
    return Run(results_of(out), bars, gradients, results_of(forward), results_of(dots))


def tolerance(*values: Any) -> float:
    """Return what rounding allows: hundred units in the last place of the coarsest dtype."""
    return 100 * max([float(np.finfo(x.dtype).eps) for x in map(np.asarray, values) if x.dtype.kind in "fc"])


def assert_as_numpy(call: Callable[..., Any], operands: tuple[Any, ...]) -> Run | None:
    """Compare a recorded call with the plain one, and its two modes with each other; None if both are refused."""
    try:
        with quietly():
            plain = results_of(call(*operands))
    except AttributeError:
        return None  # of a method that numbers do not have, and traced ones do
    except Exception:  # noqa: BLE001 - whatever it is
        tangents = tuple([tangent_like(x) for x in operands])
        for verb in (lambda: mt.vjp(call, *operands), lambda: mt.jvp(call, operands, tangents)):
            with quietly(), pytest.raises(Exception):  # noqa: B017, PT011
                verb()
        return None
    run = recorded(call, operands)
    for expected, y, forward, dot in zip(plain, run.out, run.forward, run.dots, strict=True):
        assert kind_of(y) == kind_of(expected)
        assert kind_of(forward) == kind_of(expected)
        if isinstance(dot, mt.NoTangent):
            assert np.asarray(y).dtype.kind not in "fc"
        else:
            assert kind_of(dot) == kind_of(expected)
            allowed = tolerance(*operands, expected)
            np.testing.assert_allclose(y, expected, rtol=allowed, atol=allowed / 10)
    for x, gradient in zip(operands, run.gradients, strict=True):
        assert kind_of(gradient) == kind_of(x)
    return run


def products(pairs: Any) -> list[Any]:
    return [
        np.real(np.conj(np.asarray(a, complex)) * np.asarray(b, complex))
        for a, b in pairs
        if not isinstance(b, mt.NoTangent)
    ]


def assert_modes_agree(run: Run, operands: tuple[Any, ...]) -> None:
    """``<y_bar, J x_dot> == <J^T y_bar, x_dot>``, as far as rounding allows."""
    with np.errstate(all="ignore"):
        forward = products(zip(run.bars, run.dots, strict=True))
        reverse = products((g, tangent_like(x)) for x, g in zip(operands, run.gradients, strict=True))
    size = sum([np.sum(np.abs(each)) for each in forward + reverse])
    if np.isfinite(size):
        difference = sum([np.sum(each) for each in forward]) - sum([np.sum(each) for each in reverse])
        assert abs(difference) <= tolerance(*operands, *run.out) * (1 + size)


@every_sample
def test_a_rule_keeps_the_precision_of_its_operands(sample):
    double = recorded(sample.call, sample.operands)
    for precision in ("half", "single"):
        operands = tuple([in_precision(x, precision) for x in sample.operands])
        run = assert_as_numpy(sample.call, operands)
        if run is None:
            continue
        allowed = tolerance(*operands)
        same = [
            np.shape(y) == np.shape(exact) and np.allclose(y, exact, rtol=allowed, atol=allowed)
            for y, exact in zip(run.out, double.out, strict=True)
        ]
        if all(same):  # not so where a rank or an order is decided otherwise
            for gradient, exact in zip(run.gradients, double.gradients, strict=True):
                size = float(np.max(np.abs(exact), initial=1.0))
                np.testing.assert_allclose(gradient, exact, rtol=allowed, atol=allowed * size)


@pytest.mark.parametrize("sample", [each for each in all_samples() if len(each.values[0].operands) > 1])
def test_operands_of_different_precisions_give_numpys_dtype_and_gradients_of_their_own(sample):
    for narrow, precision in itertools.product(range(len(sample.operands)), ("half", "single")):
        operands = tuple(
            [in_precision(x, precision if k == narrow else "double") for k, x in enumerate(sample.operands)]
        )
        run = assert_as_numpy(sample.call, operands)
        if run is not None:
            assert_modes_agree(run, operands)


# What NumPy itself gets wrong for arrays without elements.
NOT_WITHOUT_ELEMENTS = {
    "einsum": "einsum('ii->i') of shape (0, 3) is a view of memory that is not the array's",
    **dict.fromkeys(("hfft", "irfft", "irfft2", "irfftn"), "the padding of an empty axis is not initialised"),
}


@pytest.mark.parametrize(
    "sample", [each for each in all_samples() if each.id.rpartition("-")[0] not in NOT_WITHOUT_ELEMENTS]
)
def test_operands_without_elements_are_taken_or_refused_as_numpy_does(sample):
    for empty in (lambda x: x[:0], lambda x: x[..., :0]):
        operands = tuple([in_precision(empty(x) if np.ndim(x) else x, "single") for x in sample.operands])
        run = assert_as_numpy(sample.call, operands)
        if run is not None:
            assert_modes_agree(run, operands)


# Where NumPy does nothing sensible with a single number.
NOT_OF_ONE_NUMBER = {
    "put": "NumPy writes into an array that nobody sees",
    "put_along_axis": "NumPy writes into an array that nobody sees",
    "tensorinv": "NumPy refuses a matrix of one number only because it reshapes by no axes",
}


@pytest.mark.parametrize(
    "sample", [each for each in all_samples() if each.id.rpartition("-")[0] not in NOT_OF_ONE_NUMBER]
)
def test_operands_without_axes_are_taken_or_refused_as_numpy_does(sample):
    numbers = [np.ravel(x)[0] for x in sample.operands]
    for make in (np.array, lambda x: in_precision(x, "single"), lambda x: in_precision(x, "double")):
        operands = tuple([make(x) for x in numbers])
        run = assert_as_numpy(sample.call, operands)
        if run is not None:
            assert_modes_agree(run, operands)


# With axis=None NumPy writes into a copy of an array in Fortran order, and says that it is read-only.
@pytest.mark.parametrize("sample", [each for each in all_samples() if "put_along_axis" not in each.id])
def test_the_layout_of_narrow_operands_in_memory_does_not_matter(sample):
    for layout in (interleaved, by_columns):
        operands = [in_precision(x, "single") for x in sample.operands]
        assert_as_numpy(sample.call, tuple([layout(x) if np.ndim(x) else x for x in operands]))


KINDS: dict[str, Callable[[Any], Any]] = {
    "half array": lambda x: x.astype(np.float16),
    "single array": lambda x: x.astype(np.float32),
    "double array": lambda x: x,
    "half 0-d": lambda x: np.array(x[1], np.float16),
    "half number": lambda x: np.float16(x[1]),
    "single number": lambda x: np.float32(x[1]),
    "double number": lambda x: np.float64(x[1]),
    "float": lambda x: float(x[1]),
    "complex array": lambda x: x.astype(np.complex64),
    "complex": lambda x: complex(x[1]),
    "int array": lambda _x: np.array([1, 2, 3, 1]),
    "int8": lambda _x: np.int8(2),
    "int": lambda _x: 2,
    "bool array": lambda _x: np.array([True, True, False, True]),
    "bool": lambda _x: True,
}


def of_some(
    call: Callable[..., Any], operands: tuple[Any, ...], chosen: tuple[int, ...]
) -> Callable[..., Any]:
    """Return the call as a function of the chosen operands."""

    def call_with(*some: Any) -> Any:
        given = dict(zip(chosen, some, strict=True))
        return call(*[given.get(k, x) for k, x in enumerate(operands)])

    return call_with


def of_floats(function: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return an elementwise function, and numbers for those of its operands that may be floats."""
    numbers = ELEMENTWISE[function]
    if function is np.where:
        return lambda x, y: np.where(numbers[0] > 0, x, y), numbers[1:]
    if function is np.ldexp:
        return lambda x: np.ldexp(x, numbers[1]), numbers[:1]
    return function, numbers


@pytest.mark.parametrize("function", list(ELEMENTWISE), ids=lambda function: function.__name__)
def test_every_pair_of_kinds_of_operands_gives_numpys_dtype(function):
    call, numbers = of_floats(function)
    for names in itertools.product(KINDS, repeat=len(numbers)):
        if any("complex" in name for name in names) and function not in HOLOMORPHIC:
            continue
        operands = tuple([KINDS[name](x) for name, x in zip(names, numbers, strict=True)])
        moving = tuple([k for k, x in enumerate(operands) if np.asarray(x).dtype.kind in "fc"])
        for chosen in {moving, *[(k,) for k in moving]} - {()}:
            some = tuple([operands[k] for k in chosen])
            run = assert_as_numpy(of_some(call, operands, chosen), some)
            if run is not None:
                assert_modes_agree(run, some)


@pytest.mark.parametrize(
    "low", [-0.5, np.float16(-0.5), np.float32(-0.5), np.full(3, -0.5, np.float32), None]
)
@pytest.mark.parametrize("high", [0.5, 1, np.float64(0.5), np.full(3, 0.5, np.float16)])
@pytest.mark.parametrize("x", [1.25, np.float16(1.25), np.float32(1.25), np.array(1.25, np.float16)])
def test_a_clipped_number_has_numpys_dtype_whatever_its_bounds(x, low, high):
    run = assert_as_numpy(lambda x: np.clip(x, low, high), (x,))
    assert run is not None
    assert_modes_agree(run, (x,))
