"""What `import mutangent` costs a program that already has NumPy and attrs, and what it leaves alone."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ALLOWED_MS = 60
# On a machine where NumPy and attrs take 150 ms; on a slower or busier one everything takes longer alike.
REFERENCE_MS = 150
TRIES = 20

TIMED_IMPORT = """
import time
begin = time.perf_counter()
import numpy, attrs
start = time.perf_counter()
import mutangent
end = time.perf_counter()
print(1e3 * (start - begin), 1e3 * (end - start))
"""

OPTIONAL = ("cupy", "jax", "matplotlib", "scipy", "torch", "tqdm")


def run_python(code: str) -> str:
    # Installed packages come with their bytecode, so ours may be kept too, even where the environment forbids it.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_costs_at_most_sixty_milliseconds_more_than_numpy_and_attrs():
    # The first run may have to compile the sources, and a neighbour may hold the core: the best one counts.
    costs = []
    while len(costs) < TRIES and min(costs, default=float("inf")) > ALLOWED_MS:
        others, ours = map(float, run_python(TIMED_IMPORT).split())
        costs.append(ours / max(1.0, others / REFERENCE_MS))
    assert min(costs) <= ALLOWED_MS


def test_importing_loads_no_optional_library():
    code = f"import sys, mutangent; print(*[name for name in {OPTIONAL!r} if name in sys.modules])"
    assert run_python(code) == ""


def test_importing_changes_nothing_in_numpy():
    code = """
import numpy
before = {name: getattr(numpy, name) for name in dir(numpy)}
import mutangent
print(*[name for name, value in before.items() if getattr(numpy, name) is not value])
"""
    assert run_python(code) == ""
