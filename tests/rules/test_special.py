"""Rows of `scipy.special`: twice differentiated against finite differences, and where they are singular."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.special as sc

import mutangent as mt
from mutangent._rulebook import rules
from mutangent.rules import special
from mutangent.testing import check_grads
from tests.rules.samples import Sample
from tests.rules.special_samples import COMPLEX, CONSTANT, OFF_THE_AXIS, SPECIAL, Fixed
from tests.rules.test_derivatives import narrowed

ROOT = Path(__file__).resolve().parents[2]


def sample_of(function: Any, operands: tuple[Any, ...]) -> Sample:
    """Leave out the operands that have no derivative."""

    def call(*given: Any) -> Any:
        rest = iter(given)
        return function(*[x.value if isinstance(x, Fixed) else next(rest) for x in operands])

    return Sample(call, tuple(x for x in operands if not isinstance(x, Fixed)))


def name_of(function: Any) -> str:
    return function.__name__


def test_every_row_has_a_sample():
    ufuncs = {id(value) for value in vars(sc).values() if isinstance(value, np.ufunc)} | {
        id(special.hurwitz_zeta)
    }
    of_scipy = [row for row in rules() if id(row.function) in ufuncs]
    assert [row.name for row in of_scipy if row.function not in {*SPECIAL, *CONSTANT}] == []
    assert len(of_scipy) >= 100


@pytest.mark.parametrize("function", SPECIAL, ids=name_of)
def test_derivatives_agree_with_finite_differences(function):
    sample = sample_of(function, SPECIAL[function])
    check_grads(sample.call, sample.operands, order=2)


@pytest.mark.parametrize("function", SPECIAL, ids=name_of)
def test_a_pushed_tangent_is_the_transpose_of_a_pulled_cotangent(function, rng):
    sample = sample_of(function, SPECIAL[function])
    tangents = tuple(rng.normal(size=x.shape) for x in sample.operands)
    pushed = mt.jvp(sample.call, sample.operands, tangents)[1]
    out, pullback = mt.vjp(sample.call, *sample.operands)
    single = not isinstance(out, tuple)
    cotangents = tuple(rng.normal(size=y.shape) for y in ((out,) if single else out))
    pulled = pullback(cotangents[0] if single else cotangents)
    left = sum(
        np.sum(np.real(np.conj(g) * dy))
        for g, dy in zip(cotangents, (pushed,) if single else pushed, strict=True)
    )
    right = sum(np.sum(x_bar * dx) for x_bar, dx in zip(pulled, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-10)


@pytest.mark.parametrize("function", COMPLEX, ids=name_of)
def test_complex_derivatives_agree_with_finite_differences(function):
    *others, x = SPECIAL[function]
    sample = sample_of(function, (*others, x + OFF_THE_AXIS))
    check_grads(sample.call, sample.operands, order=2)


@pytest.mark.parametrize(
    "function", [f for f, operands in SPECIAL.items() if len(operands) == 2], ids=name_of
)
def test_operands_broadcast(function):
    def moved(x: Any) -> Any:
        return Fixed(x.value[:, None]) if isinstance(x, Fixed) else x[:, None]

    first, second = SPECIAL[function]
    for operands in ((moved(first), second), (first, moved(second))):
        sample = sample_of(function, operands)
        check_grads(sample.call, sample.operands, order=1)


@pytest.mark.parametrize("function", SPECIAL, ids=name_of)
def test_float32_stays_float32_on_the_way_back(function):
    operands = [
        Fixed(x.value.astype(np.float32) if x.value.dtype.kind == "f" else int(x.value[1]))
        if isinstance(x, Fixed)
        else x
        for x in SPECIAL[function]
    ]
    run = narrowed(sample_of(function, tuple(operands)))
    if any(y.dtype not in (np.float32, np.complex64) for y in run.results):
        return  # SciPy has no loop for float32
    assert {c.dtype for c in run.cotangents} <= {np.dtype(np.float32), np.dtype(np.complex64)}


@pytest.mark.parametrize(
    "function", [f for f, operands in SPECIAL.items() if len(operands) == 1], ids=name_of
)
def test_a_python_float_is_enough(function):
    check_grads(function, (float(SPECIAL[function][0][3]),))


@pytest.mark.parametrize("function", CONSTANT, ids=name_of)
def test_a_step_is_a_constant(function):
    np.testing.assert_array_equal(
        mt.grad(lambda x: np.sum(x * function(x)))(np.array([2.7])), function(np.array([2.7]))
    )


INF = np.inf


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (sc.expit, [-800.0, 40.0, 800.0], [0, np.exp(-40.0), 0]),
        (sc.log_expit, [-800.0, 800.0], [1, 0]),
        (sc.log_ndtr, [-1e4, 40.0, 1e4], [1e4 + 1e-4, np.exp(-800.0) / np.sqrt(2 * np.pi), 0]),
        (sc.logit, [0.0], [INF]),
        (sc.erfinv, [1.0], [INF]),
        (sc.ndtri, [0.0], [INF]),
        (sc.entr, [0.0, 1.0, -1.0], [INF, -1, 0]),
        (lambda x: sc.xlogy(0.0, x), [0.0, 2.0], [0, 0]),
        (lambda x: sc.xlogy(x, 0.0), [1.0], [-INF]),
        (lambda x: sc.xlog1py(x, -0.5), [0.0], [np.log(0.5)]),
        (lambda x: sc.rel_entr(0.0, x), [0.0, 2.0], [0, 0]),
        (lambda x: sc.kl_div(0.0, x), [0.0, 2.0], [1, 1]),
        (lambda x: sc.huber(1.0, x), [-1.0, 0.0, 1.0, 3.0], [-1, 0, 1, 1]),
        (lambda x: sc.pseudo_huber(x, 1e-9), [1.0], [2.5e-37]),
        (lambda x: sc.pseudo_huber(x, 0.0), [1.0], [0]),
        (sc.rgamma, [-3.0, -2.0, -1.0, 0.0], [-6, 2, -1, 1]),
        (lambda x: sc.sici(x)[0], [0.0], [1]),
        (lambda x: sc.shichi(x)[0], [0.0], [1]),
        (sc.i0e, [0.0], [0]),
        (sc.i1e, [0.0], [0.5]),
        (lambda x: sc.powm1(x, 0.0), [0.0], [0]),
        (lambda x: sc.boxcox(2.0, x), [0.0], [np.log(2.0) ** 2 / 2]),
        # where the derivative is infinite and nothing flows there, nothing comes back
        (lambda x: np.where(x > 0, sc.logit(x), 0.0), [0.0, 0.5], [0, 4]),
        (lambda x: np.where(x > 0, sc.entr(x), 0.0), [0.0, 1.0], [0, -1]),
        (lambda x: np.where(x > 0, sc.xlogy(x, x), 0.0), [0.0, 1.0], [0, 1]),
        (lambda x: np.where(x > 0, sc.ndtri(x), 0.0), [0.0, 0.5], [0, np.sqrt(2 * np.pi)]),
    ],
)
def test_a_derivative_at_a_singular_point(f, x, expected):
    np.testing.assert_allclose(mt.grad(lambda x: np.sum(f(x)))(np.array(x)), expected, rtol=1e-10)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: sc.jv(x, 2.0), r"scipy.special.jv with respect to argument 0"),
        (lambda x: sc.jv(x, x), r"scipy.special.jv with respect to argument 0"),
        (lambda x: sc.gammainc(x, 2.0), r"scipy.special.gammainc with respect to argument 0"),
        (lambda x: sc.betainc(1.0, x, 0.3), r"scipy.special.betainc with respect to argument 1"),
        (lambda x: sc.ellipkinc(1.0, x), r"scipy.special.ellipkinc with respect to argument 1"),
        (sc.zetac, r"scipy.special.zetac has no derivative rule"),
    ],
)
def test_what_has_no_derivative_is_refused_at_the_call(call, text):
    def loss(x):
        with pytest.raises(mt.NoRuleError, match=text):
            call(x)
        return np.sum(x)

    mt.grad(loss)(np.array([0.3, 0.7]))


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_the_rows_are_read_once_scipy_is_loaded_and_a_function_is_unknown():
    code = """
import sys
import mutangent as mt
mt.grad(lambda x: x * x)(1.0)
print("scipy" in sys.modules)
import scipy.special
print("mutangent.rules.special" in sys.modules)
print(mt.grad(scipy.special.erf)(0.0) ** 2 * 3.141592653589793)
"""
    before, after, value = run_python(code).splitlines()
    assert (before, after) == ("False", "False")
    assert float(value) == pytest.approx(4)


def test_scipy_may_be_loaded_before_mutangent():
    code = "import scipy.special, mutangent as mt; print(mt.grad(scipy.special.gammaln)(1.0))"
    assert float(run_python(code)) == pytest.approx(-np.euler_gamma)


def test_several_threads_may_meet_the_first_function_at_once():
    code = """
import threading
import scipy.special, mutangent as mt
start = threading.Barrier(8)
found = []
def work():
    start.wait()
    found.append(mt.grad(scipy.special.erf)(0.5))
threads = [threading.Thread(target=work) for _ in range(8)]
for each in threads: each.start()
for each in threads: each.join()
print(len(found), len(set(found)))
"""
    assert run_python(code) == "8 1"


@pytest.mark.parametrize(
    ("f", "x"),
    [
        (lambda p: sc.expit(sc.logit(p)), 0.0),
        (lambda p: sc.expit(sc.logit(p)), 1.0),
        (lambda x: sc.cbrt(x) ** 3, 0.0),
        (lambda p: sc.erf(sc.erfinv(p)), 1.0),
        (lambda p: sc.ndtr(sc.ndtri(p)), 0.0),
        (lambda p: sc.gammainc(2.0, sc.gammaincinv(2.0, p)), 0.0),
        (lambda p: sc.betainc(2.0, 2.0, sc.betaincinv(2.0, 2.0, p)), 0.0),
        (lambda x: np.exp(sc.sici(x)[1]), 0.0),
    ],
)
def test_an_infinite_derivative_of_an_inverse_is_not_taken_for_0(f, x):
    with np.errstate(all="ignore"):
        assert not np.isfinite(mt.grad(f)(x))
        assert not np.isfinite(mt.jvp(f, (x,), (1.0,))[1])


def test_the_integrals_of_sines_are_regular_at_0_and_beside_those_of_cosines():
    for k, total, third in ((0, sc.sici, -1 / 3), (0, sc.shichi, 1 / 3)):
        f = lambda x, k=k, total=total: total(x)[k]
        assert mt.grad(f)(0.0) == 1
        assert mt.grad(mt.grad(f))(0.0) == 0
        assert mt.grad(mt.grad(mt.grad(f)))(0.0) == pytest.approx(third, rel=1e-9)


def test_the_product_with_a_logarithm_is_constant_where_its_factor_is_0():
    f = lambda b: np.sum(sc.xlogy(np.array([0.0, 2.0]), b))
    b = np.array([0.0, 0.5])
    np.testing.assert_array_equal(mt.grad(f)(b), [0, 4])
    np.testing.assert_array_equal(mt.hessian(f)(b), [[0, 0], [0, -8]])
    # The mixed derivative is 1/b.
    with np.errstate(all="ignore"):
        assert mt.grad(lambda a: mt.grad(sc.xlogy, 1)(a, 0.0))(0.0) == np.inf
        assert not np.isfinite(mt.grad(lambda b: mt.grad(sc.xlogy, 0)(0.0, b))(0.0))
