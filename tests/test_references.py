"""Memory is reused where the count of references says that nobody else holds it, and where that count is understood."""

import subprocess
import sys

from mutangent import _references

PROGRAM = """
import sys
counted = sys.getrefcount
sys.getrefcount = lambda x: counted(x) + {more}
import numpy as np
import mutangent as mt
from mutangent._references import COUNTS_REFERENCES

@mt.differentiable
class Rows:
    x: float
    buf: np.ndarray

def fill(o):
    for i in range(3):
        o.buf[i] = o.x * i
    return np.sum(o.buf**2)

o = Rows(2.0, np.zeros(3))
_, pushed = mt.jvp(fill, (o,), (mt.Tangent(Rows, x=1.0),))
print(COUNTS_REFERENCES, mt.grad(fill)(o).x, float(pushed))
"""


def test_the_references_of_this_python_are_counted_as_expected():
    free_threaded = not getattr(sys, "_is_gil_enabled", lambda: True)()
    assert _references.COUNTS_REFERENCES is (_references.counts_as_expected() and not free_threaded)
    if sys.implementation.name == "cpython" and sys.version_info < (3, 14) and not free_threaded:
        assert _references.COUNTS_REFERENCES


def test_on_a_python_with_other_counts_nothing_is_reused_and_the_results_are_the_same():
    for more in (-2, 0):  # and the lambda's own
        run = subprocess.run(
            [sys.executable, "-c", PROGRAM.format(more=more)], capture_output=True, text=True, check=True
        )
        assert run.stdout.split() == ["False", "20.0", "20.0"]
