"""``python -m mutangent``."""

import os
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
    assert lines[2].startswith(("- CuPy: not usable: running on a device needs ", "+ CuPy "))
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


# By what is wrong with it: a module `cupy`, what is said of it, and the status.
BROKEN = {
    "its import fails": (
        "raise ImportError('libcudart.so.13: cannot open')",
        "importing it failed: libcudart.so.13: cannot open. Install it for your CUDA version, for example with pip install",
        0,
    ),
    "its import fails in another way": (
        "raise AttributeError('half')",
        "- CuPy: not usable: running on a device needs CuPy, and importing it failed: half. Install it",
        0,
    ),
    "its driver is too old": (
        "is_available = lambda: False\ndef count(): raise RuntimeError('the driver is too old')",
        "running on a device needs a CUDA device, and CuPy 14 finds none: the driver is too old. Use NumPy arrays.\n",
        0,
    ),
    "there are no devices": (
        "is_available = lambda: False\ncount = lambda: 0",
        "CuPy 14 finds none: there are 0 devices. Use NumPy arrays.",
        0,
    ),
    "its devices cannot be counted": (
        "is_available = lambda: True\ndef count(): raise RuntimeError('cudaErrorUnknown')",
        "- CuPy 14: not usable: there is a device, and computing on it failed with RuntimeError: cudaErrorUnknown",
        1,
    ),
    "it does not compute": (
        "is_available = lambda: True\ncount = lambda: 1\ndef asarray(x): raise OSError('no compiler')",
        "- CuPy 14: not usable: there is a device, and computing on it failed with OSError: no compiler",
        1,
    ),
}
REST = """
from types import SimpleNamespace
__version__ = "14"
class ndarray: pass
runtime = SimpleNamespace(getDeviceCount=count, getDeviceProperties=lambda number: {"name": b"a device"})
cuda = SimpleNamespace(runtime=runtime)
"""


@pytest.mark.parametrize("wrong", BROKEN)
def test_a_broken_cupy_is_named_and_numpy_goes_on(wrong, tmp_path):
    code, text, status = BROKEN[wrong]
    (tmp_path / "cupy.py").write_text(code + REST)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    run = subprocess.run(
        [sys.executable, "-m", "mutangent"],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert text in run.stdout, run.stdout + run.stderr
    assert "+ NumPy" in run.stdout
    assert run.stderr == ""
    assert run.returncode == status


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
