"""Every public callable of NumPy has an answer: a rule, a constant result, or a refusal with its reason."""

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mutangent as mt

ROOT = Path(__file__).resolve().parents[2]


def read_script() -> Any:
    spec = importlib.util.spec_from_file_location("coverage_page", ROOT / "docs" / "coverage.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


coverage = read_script()
FUNCTIONS = list(coverage.functions())
METHODS = list(coverage.array_methods())


@pytest.mark.parametrize("walk", ["functions", "ufunc_methods", "array_methods"])
def test_nothing_of_numpy_is_unanswered(walk):
    answers = list(getattr(coverage, walk)())
    assert len(answers) > 50
    assert [each.name for each in answers if not each.state] == []


def test_a_refusal_has_a_reason():
    for each in [*FUNCTIONS, *METHODS, *coverage.ufunc_methods()]:
        assert (each.state == coverage.UNSUPPORTED) == bool(each.reason), each.name


def test_at_least_230_functions_have_rules_and_fewer_than_25_are_refused():
    states = [each.state for each in FUNCTIONS]
    assert states.count(coverage.RULE) >= 230
    assert states.count(coverage.UNSUPPORTED) < 25


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="the page shows the functions of NumPy 2.4"
)
def test_the_page_is_what_the_script_writes():
    # If this fails, run `python docs/coverage.py`.
    written = coverage.PAGE.read_text(encoding="utf-8")
    strip_version = lambda text: text.replace(f"NumPy {np.__version__}", "NumPy")
    assert written.splitlines()[:1] == ["# Coverage of NumPy"]
    assert (
        strip_version(written).partition("Functions:")[2]
        == strip_version(coverage.page()).partition("Functions:")[2]
    )


REFUSED: dict[str, Any] = {
    **{
        f"numpy.{name}": getattr(np, name)
        for name in (
            "array",
            "asarray",
            "asanyarray",
            "asarray_chkfinite",
            "ascontiguousarray",
            "asfortranarray",
        )
    },
    "numpy.full": lambda x: np.full(3, x[0]),
    "numpy.require": np.require,
    "numpy.histogram2d": lambda x: np.histogram2d(x, x),
    "numpy.histogramdd": lambda x: np.histogramdd(x[:, None]),
    **{f"ndarray.{name}": lambda x, name=name: getattr(x, name)() for name in ("tolist", "tobytes", "dumps")},
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_refused_loudly(name):
    assert {each.name: each.state for each in [*FUNCTIONS, *METHODS]}[name] == coverage.UNSUPPORTED

    def loss(x: Any) -> Any:
        with pytest.raises(mt.MutangentError):
            REFUSED[name](x)
        return np.sum(x)

    mt.grad(loss)(np.array([0.5, 1.5]))
