"""``python -m mutangent``."""

import subprocess
import sys

import numpy as np
import pytest

from mutangent import __main__ as report


def test_it_says_what_is_usable_and_that_the_known_gradients_are_right():
    run = subprocess.run([sys.executable, "-m", "mutangent"], capture_output=True, text=True, check=True)
    lines = run.stdout.splitlines()
    assert lines[0].startswith("mutangent 0.1.0, Python 3.")
    assert lines[1] == f"+ NumPy {np.__version__}: the origin's gradients are right"
    assert lines[2].startswith(("- CuPy: not usable: CuPy needs ", "+ CuPy "))
    assert lines[3].startswith(("+ SciPy ", "- SciPy: not usable"))


def test_wrong_gradients_are_named_and_fail(monkeypatch, capsys):
    name, x, Wi, b, state = report.PUBLISHED[0]
    monkeypatch.setattr(report, "PUBLISHED", ((name, x, Wi, 2 * b, state),))
    assert report.main() == 1
    assert "two columns: the gradient of b is [0.00272" in capsys.readouterr().out


def test_without_cupy_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    finding = report.cupy_finding()
    assert not finding.usable
    assert "pip install" in finding.text


def test_cupys_arrays_give_the_known_gradients(cp):
    assert list(report.wrong_numbers(cp.asarray)) == []


def test_an_ordinary_run_is_not_changed_by_a_cupy_without_a_device():
    pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x")
    code = (
        "import cupy, numpy as np, mutangent as mt\n"
        "print(mt.grad(lambda x: np.sum(np.tanh(x) @ x))(np.array([1.0, 2.0])).round(6).tolist())"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    without = run.stdout
    code = code.replace("import cupy, ", "import ")
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == without
    )
