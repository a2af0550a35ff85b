"""The functions of `mutangent.scipy`: SciPy's values, and derivatives that agree with finite differences."""

import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.signal
import scipy.special
import scipy.stats

import mutangent as mt
from mutangent._traced import TracedArray
from mutangent.scipy import linalg, signal, special
from mutangent.scipy.stats import norm
from mutangent.testing import check_grads
from tests.rules.test_derivatives import narrowed
from tests.scipy.samples import SAMPLES

ROOT = Path(__file__).resolve().parents[2]
MODULES = {linalg: scipy.linalg, signal: scipy.signal, special: scipy.special}
METHODS = ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf", "ppf")

every_sample = pytest.mark.parametrize(
    "sample",
    [
        pytest.param(each, id=f"{function.__name__}-{k}")
        for function, samples in SAMPLES.items()
        for k, each in enumerate(samples)
    ],
)


def public_functions() -> list[Any]:
    """Return (ours, SciPy's) of each function."""
    found = []
    for ours, theirs in MODULES.items():
        for name, function in vars(ours).items():
            if (
                inspect.isfunction(function)
                and function.__module__ == ours.__name__
                and not name.startswith("_")
            ):
                found.append(pytest.param(function, getattr(theirs, name), id=name))
    return found


def test_every_function_has_a_sample():
    functions = [parameter.values[0] for parameter in public_functions()]
    assert [f.__name__ for f in functions if f not in SAMPLES] == []
    assert [name for name in METHODS if getattr(norm, name) not in SAMPLES] == []


@pytest.mark.parametrize(("ours", "theirs"), public_functions())
def test_a_function_takes_scipys_arguments(ours, theirs):
    expected = list(inspect.signature(theirs).parameters.values())
    for k, parameter in enumerate(inspect.signature(ours).parameters.values()):
        assert parameter.name == expected[k].name
        if not (
            ours in (linalg.solve, linalg.inv) and parameter.name == "assume_a"
        ):  # was "gen" before SciPy 1.15
            assert parameter.default == expected[k].default


@pytest.mark.parametrize(
    ("ours", "theirs", "arguments"),
    [
        (special.logsumexp, scipy.special.logsumexp, ([1.0, 2.0], None, [1.0, -0.1], True)),
        (special.logsumexp, scipy.special.logsumexp, ([1.0, 2.0], None, [1.0, -1.0], False, True)),
        (special.softmax, scipy.special.softmax, ([1.0, 2.0],)),
        (special.polygamma, scipy.special.polygamma, ([0, 1, 2], 1.3)),
        (special.multigammaln, scipy.special.multigammaln, (2.3, 3)),
        (special.lambertw, scipy.special.lambertw, (-0.2, -1)),
        (linalg.solve_triangular, scipy.linalg.solve_triangular, ([[1.0, 2j], [0.0, 1.0]], [1.0, 2.0], 2)),
        (linalg.solve_triangular, scipy.linalg.solve_triangular, ([[1.0, 2.0], [0.0, 1.0]], [1.0, 2.0], "T")),
        (linalg.solve, scipy.linalg.solve, ([[3.0, 2.0], [1.0, 1.0]], [1.0, 2.0])),
        (linalg.cho_solve, scipy.linalg.cho_solve, (([[3.0, 2.0], [1.0, 1.0]], True), [1.0, 2.0])),
        (signal.correlate, scipy.signal.correlate, ([1.0, 2.0, 3.0], [1j, 2.0], "same")),
        (signal.fftconvolve, scipy.signal.fftconvolve, ([1.0, 2.0, 3.0], [1.0, 2.0], "valid")),
        *(
            (getattr(norm, name), getattr(scipy.stats.norm, name), (0.3, 0.1, [2.0, -1.0]))
            for name in METHODS
        ),
    ],
)
def test_plain_arguments_give_scipys_values(ours, theirs, arguments):
    found, expected = ours(*arguments), theirs(*arguments)
    for one, other in zip(*((y if isinstance(y, tuple) else (y,)) for y in (found, expected)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@every_sample
def test_derivatives_agree_with_finite_differences(sample):
    check_grads(sample.call, sample.operands, sample.order)


@every_sample
def test_a_pushed_tangent_is_the_transpose_of_a_pulled_cotangent(sample, rng):
    def random(x: Any) -> Any:
        numbers = rng.normal(size=np.shape(x))
        return numbers + 1j * rng.normal(size=np.shape(x)) if np.iscomplexobj(x) else numbers

    tangents = tuple(random(x) for x in sample.operands)
    out, pushed = mt.jvp(sample.call, sample.operands, tangents)
    cotangent = random(out)
    pulled = mt.vjp(sample.call, *sample.operands)[1](cotangent)
    left = np.sum(np.real(np.conj(cotangent) * pushed))
    right = sum(np.sum(np.real(np.conj(x_bar) * dx)) for x_bar, dx in zip(pulled, tangents, strict=True))
    assert left == pytest.approx(right, rel=1e-8)


@every_sample
@pytest.mark.filterwarnings("ignore:logm result may be inaccurate")  # it has float32's precision
def test_float32_stays_float32_on_the_way_back(sample):
    run = narrowed(sample)
    if any(y.dtype not in (np.float32, np.complex64) for y in run.results):
        return  # SciPy itself widens
    assert {c.dtype for c in run.cotangents} <= {np.dtype(np.float32), np.dtype(np.complex64)}


@pytest.mark.parametrize(
    "call", [norm.logpdf, norm.pdf, norm.cdf, norm.logcdf, norm.sf, norm.logsf, norm.ppf], ids=METHODS
)
def test_the_normal_distribution_keeps_float32(call):
    x = np.array([0.3, 0.7], np.float32)
    found = []
    mt.vjp(lambda x: found.append(call(x)), x)
    assert type(found[0]) is TracedArray
    assert found[0].dtype == np.float32


INF = np.inf


@pytest.mark.parametrize(
    ("f", "x", "expected"),
    [
        (special.logsumexp, [-INF, -INF], [0, 0]),
        (special.logsumexp, [-INF, 1.0], [0, 1]),
        (special.logsumexp, [INF, 1.0], [1, 0]),
        (special.logsumexp, [INF, INF], [0.5, 0.5]),
        (special.logsumexp, [1e4, 1e4], [0.5, 0.5]),
        (lambda x: special.logsumexp(x, axis=1), [[-INF, -INF], [0.0, 0.0]], [[0, 0], [0.5, 0.5]]),
        (lambda x: special.logsumexp(x, b=[0.0, 1.0]), [800.0, 1.0], [0, 1]),
        (lambda x: special.softmax(x)[0], [-INF, 1.0], [0, 0]),
        (lambda x: special.log_softmax(x)[1], [-INF, 1.0], [0, 0]),
        (lambda x: special.lambertw(x).real, [0.0], [1]),
        (linalg.det, [[1.0, 2.0], [2.0, 4.0]], [[4, -2], [-2, 1]]),
        (linalg.expm, [[0.0, 0.0], [0.0, 0.0]], [[1, 1], [1, 1]]),
        (norm.logcdf, [-1e4], [1e4 + 1e-4]),
        (lambda x: np.where(x > 0, norm.ppf(x), 0.0), [0.0, 0.5], [0, np.sqrt(2 * np.pi)]),
    ],
)
def test_a_derivative_at_a_singular_point(f, x, expected):
    np.testing.assert_allclose(mt.grad(lambda x: np.sum(f(x)))(np.array(x)), expected, rtol=1e-9)


def test_a_matrix_of_which_one_triangle_is_read_has_a_symmetric_cotangent():
    a = np.array([[4.0, 1.0], [1.0, 3.0]])
    np.testing.assert_allclose(
        mt.grad(lambda a: np.sum(linalg.cholesky(a)))(a), mt.grad(lambda a: np.sum(linalg.cholesky(a)))(a).T
    )
    found = mt.grad(lambda a: np.sum(linalg.solve(a, np.ones(2), assume_a="pos")))(a)
    np.testing.assert_allclose(found, mt.grad(lambda a: np.sum(linalg.inv(a)))(a))


def test_what_is_not_read_of_a_triangular_matrix_has_no_cotangent():
    a = np.array([[4.0, np.nan], [1.0, 3.0]])
    found = mt.grad(lambda a: np.sum(linalg.solve_triangular(a, np.ones(2), lower=True, check_finite=False)))
    assert found(np.nan_to_num(a))[0, 1] == 0


def test_real_and_complex_matrices_may_meet_in_a_sylvester_equation():
    turning, q = np.array([[1.0, 3.0], [-3.0, 1.0]]), np.array([[1.0, 2j], [0.5, 1.0]])
    x = linalg.solve_sylvester(turning, turning, q)
    np.testing.assert_allclose(turning @ x + x @ turning, q)
    x = linalg.solve_continuous_lyapunov(turning, q)
    np.testing.assert_allclose(turning @ x + x @ turning.T, q)


def test_a_structure_without_a_rule_is_refused_at_the_call():
    def loss(a):
        with pytest.raises(mt.NoRuleError, match="with assume_a='banded'"):
            linalg.solve(a, np.ones(2), assume_a="banded")
        return np.sum(a)

    mt.grad(loss)(np.eye(2))


def test_scipys_own_function_refuses_a_traced_value():
    def loss(a):
        with pytest.raises(mt.TracedValueError):
            scipy.linalg.expm(a)
        return np.sum(a)

    mt.grad(loss)(np.eye(2))


def run_python(code: str) -> str:
    command = [sys.executable, "-c", code]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def test_without_scipy_the_import_names_the_extra():
    code = """
import sys
sys.modules["scipy"] = None
try:
    import mutangent.scipy
except ImportError as error:
    print(error)
"""
    assert run_python(code) == "mutangent.scipy needs SciPy. Install it with `pip install mutangent[scipy]`."


def test_the_distributions_do_not_import_scipy_stats():
    assert run_python("import sys, mutangent.scipy.stats; print('scipy.stats' in sys.modules)") == "False"


def test_a_thread_may_import_the_functions_while_another_meets_a_ufunc():
    code = """
import threading
import scipy.special, mutangent as mt
start = threading.Barrier(4)
found = []
def meet():
    start.wait()
    found.append(mt.grad(scipy.special.erf)(0.0))
def use():
    start.wait()
    from mutangent.scipy.special import lambertw
    found.append(mt.grad(lambda z: lambertw(z).real)(0.0))
threads = [threading.Thread(target=work) for work in (meet, use, meet, use)]
for each in threads: each.start()
for each in threads: each.join(20)
print(len(found))
"""
    assert run_python(code) == "4"
