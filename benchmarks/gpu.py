"""The same on a GPU: ``python -m benchmarks --gpu``, made to take less than four minutes on one H200.

NumPy's and our contenders are the ones of the CPU, over CuPy's arrays. Every run waits for the device at its end, and the
hand-written one at every step, where it makes a Python float of its loss.
PyTorch's profiler, where PyTorch is there, sees every kernel of its process, CuPy's too, and so counts launches.
"""

import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from importlib import import_module
from typing import Any

import attrs
import numpy as np

from benchmarks.checking import relative_errors
from benchmarks.contenders import JAX, LIBRARIES, PEERS, Run, is_installed, prepare
from benchmarks.records import Report
from benchmarks.reporting import workload_lines
from benchmarks.sessions import session
from benchmarks.timing import Timing, time_interleaved
from benchmarks.workloads import WORKLOADS as ALL
from benchmarks.workloads import Workload

LARGE = Workload("G1", "lstm", (1024, 1024), 64, 128, "enough arithmetic for a GPU")
WORKLOADS = (*(workload for workload in ALL if workload.name in {"W2", "W4", "W5", "W6", "W7", "W8"}), LARGE)
SAMPLES = (2.0, 2)  # seconds, and rounds at least
COUNTED_STEPS = 100  # launches are counted in a run of no more; a profiler keeps every one of them
TOLERANCE = 1e-4  # kernels add in orders of their own

OVER_CUPY = ("numpy_naive", "mutangent_eager")
ON_DEVICE = {PEERS: ("torch_eager", "torch_nn"), JAX: ("jax_scan",)}

Measured = tuple[list[str], dict[str, Timing], dict[str, float]]


def main(workloads: Sequence[Workload] = WORKLOADS) -> tuple[Report, list[str]]:
    """Measure on the device, and print; the report, and complaints about gradients.

    Raises
    ------
    SystemExit
        There is no CuPy or no device; the text says which.
    """
    device = require_device()
    report, complaints = Report(), []
    report.machine["device"] = device
    print(f"{device}. NumPy's and mutangent's arrays are CuPy's. Launches are kernels for each step.")
    launches = report.figures["launches"] = {}
    for company, members in ON_DEVICE.items():
        present = tuple(filter(is_installed, members))
        if not present and company != PEERS:
            continue
        with session(_start, company, present) as call:
            usable = call(usable_on_device, present)
            for name in set(present) - set(usable):
                print(f"{name} is left out: its library is here, but does not reach the device")
            if not usable and company != PEERS:
                continue
            for workload in workloads:
                contenders = (OVER_CUPY[0], *usable, OVER_CUPY[1])
                wrong, timings, counted = call(measure, workload, contenders)
                complaints += wrong
                report.workloads.setdefault(workload.name, {})[company] = timings
                launches.setdefault(workload.name, {}).update(counted)
                one = Report({}, {workload.name: {company: timings}})
                print(workload_lines(workload, one, Report({}), targets={}))
                print(
                    "    launches: " + ", ".join(f"{name} {n:.1f}" for name, n in counted.items()), flush=True
                )
    return report, complaints


def require_device() -> str:
    """Give the name of the device."""
    try:
        import cupy  # noqa: PLC0415 - optional
    except Exception as error:  # noqa: BLE001 - an import that breaks off has no class of its own
        raise SystemExit(
            f"--gpu needs CuPy, which cannot be imported ({error}): "
            'python -m pip install "cupy-cuda13x[ctk]", or cupy-cuda12x for an older driver'
        ) from None
    if not cupy.is_available():
        raise SystemExit("--gpu needs a CUDA device and its driver; CuPy is here and finds none")
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"]
    return f"{name.decode()}, CuPy {cupy.__version__}"


def _start(company: str, contenders: tuple[str, ...]) -> None:
    if company == JAX:
        os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # CuPy needs memory as well
        os.environ["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"  # single precision, as everybody else
    for contender in contenders:
        import_module(LIBRARIES[contender])
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.set_default_device("cuda")
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False


def usable_on_device(contenders: tuple[str, ...]) -> tuple[str, ...]:
    """Leave out those whose library here has been built without CUDA."""
    usable = {
        "torch": "torch" in sys.modules and sys.modules["torch"].cuda.is_available(),
        "jax": "jax" in sys.modules and sys.modules["jax"].default_backend() == "gpu",
    }
    return tuple(contender for contender in contenders if usable[LIBRARIES[contender]])


def measure(workload: Workload, contenders: tuple[str, ...]) -> Measured:
    """Check and time everybody, and count launches; complaints, timings and launches by name."""
    cupy = import_module("cupy")
    complaints: list[str] = []
    runs: dict[str, Run] = {}
    for contender in contenders:
        name, run = _prepare_on_device(contender, workload)
        errors = relative_errors(workload, partial(on_host, run))
        complaints += [
            f"{workload.name} {name}: relative error of {what} is {error:.1e}, allowed is {TOLERANCE:.0e}"
            for what, error in errors.items()
            if not error < TOLERANCE
        ]
        runs[name] = run
    synchronize = cupy.cuda.Device().synchronize  # the whole device, whoever gave it work
    finished = {name: partial(_finished, run, synchronize) for name, run in runs.items()}
    timings = time_interleaved(finished, *SAMPLES)
    return complaints, timings, _launches(workload, contenders)


def _prepare_on_device(contender: str, workload: Workload) -> tuple[str, Run]:
    convert = import_module("cupy").asarray if contender in OVER_CUPY else np.asarray
    return prepare(contender, workload, convert=convert)


def on_host(run: Run) -> tuple[float, dict[str, np.ndarray]]:
    """Run, and copy what it gives into NumPy's arrays."""
    value, gradients = run()
    return float(value), {name: _to_numpy(gradient) for name, gradient in gradients.items()}


def _to_numpy(array: Any) -> np.ndarray:
    for method in ("get", "cpu"):  # CuPy's arrays, torch's tensors; JAX's convert themselves
        if hasattr(array, method):
            return np.asarray(getattr(array, method)())
    return np.asarray(array)


def _finished(run: Run, synchronize: Callable[[], None]) -> None:
    result = run()
    synchronize()
    del result


def _launches(workload: Workload, contenders: tuple[str, ...]) -> dict[str, float]:
    if "torch" not in sys.modules or not sys.modules["torch"].cuda.is_available():
        return {}
    profiler = import_module("torch.profiler")
    synchronize = import_module("cupy").cuda.Device().synchronize
    shorter = attrs.evolve(workload, steps=min(workload.steps, COUNTED_STEPS))
    counted = {}
    for contender in contenders:
        name, run = _prepare_on_device(contender, shorter)
        _finished(run, synchronize)  # what is launched once only is not of a step
        with profiler.profile(
            activities=[profiler.ProfilerActivity.CPU, profiler.ProfilerActivity.CUDA]
        ) as profile:
            _finished(run, synchronize)
        counted[name] = kernels_in(profile.events()) / shorter.steps
    return counted


def kernels_in(events: Iterable[Any]) -> int:
    """Count the kernels among a profiler's events: what ran on the device and is neither copy nor fill."""
    return sum(
        event.device_type.name == "CUDA" and not event.name.startswith(("Memcpy", "Memset"))
        for event in events
    )
