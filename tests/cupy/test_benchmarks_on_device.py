"""``python -m benchmarks --gpu`` on arrays of CuPy's: what it does with them, and not how long it takes."""

from contextlib import contextmanager
from types import SimpleNamespace

import pytest

import mutangent  # noqa: F401 - a contender
from benchmarks import gpu
from benchmarks.contenders import PEERS
from benchmarks.workloads import Workload

SMALL = [
    Workload("small", "rnn", (2, 3), 2, 4, ""),
    Workload("small", "lstm", (2, 3), 2, 4, ""),
    Workload("small", "gru", (2, 3), 2, 4, ""),
    Workload("small", "mlp", (4, 5, 3), 2, 1, ""),
]


@contextmanager
def in_this_process(_start, *_arguments):
    yield lambda function, *arguments: function(*arguments)


@pytest.fixture
def waits(cp, monkeypatch):
    """How often somebody waited for the device, which is CuPy's own or a pretended one."""
    counted = []
    device = SimpleNamespace(synchronize=lambda: counted.append(1))
    monkeypatch.setattr(cp.cuda, "Device", lambda: device)
    monkeypatch.setattr(cp.cuda.runtime, "getDeviceProperties", lambda number: {"name": b"Pretended"})
    monkeypatch.setattr(gpu, "ON_DEVICE", {PEERS: ()})
    monkeypatch.setattr(gpu, "SAMPLES", (0.0, 2))
    monkeypatch.setattr(gpu, "session", in_this_process)
    return counted


@pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.kind)
def test_every_kind_of_workload_is_right_over_cupys_arrays(cp, waits, workload):
    complaints, timings, _ = gpu.measure(workload, gpu.OVER_CUPY)
    assert complaints == []
    assert set(timings) == {"numpy naive", "mutangent"}
    assert len(waits) >= sum(timing.samples for timing in timings.values())


def test_the_arrays_and_the_gradients_are_cupys(cp):
    for contender in gpu.OVER_CUPY:
        _, run = gpu._prepare_on_device(contender, SMALL[1])
        _, gradients = run()
        assert {type(gradient) for gradient in gradients.values()} == {cp.ndarray}


def test_the_whole_run_reports_and_complains_of_nothing(cp, waits, capsys):
    report, complaints = gpu.main(SMALL[1:3])
    assert complaints == []
    assert report.machine["device"] == f"Pretended, CuPy {cp.__version__}"
    assert "Pretended" in capsys.readouterr().out


def test_only_the_hand_written_contender_waits_within_its_run(cp, request):
    """It adds Python floats up, as on the CPU; ours waits once, where the value is read."""
    if request.config.getoption("--arrays") == "cupy":
        pytest.skip("what crosses is seen in the host's memory only: --arrays=cupy-host")
    from tests.arrays.cupy_on_host import watched

    crossings = {}
    for contender in gpu.OVER_CUPY:
        _, run = gpu._prepare_on_device(contender, SMALL[1])
        with watched() as crossed:
            run()
        crossings[contender] = len(crossed)
    assert crossings == {"numpy_naive": SMALL[1].steps, "mutangent_eager": 0}
