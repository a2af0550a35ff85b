"""The benchmarks compare right gradients, and say so where they are not."""

import sys
from contextlib import contextmanager
from types import SimpleNamespace

import attrs
import numpy as np
import pytest

from benchmarks import footprint, gpu, growth, page, records, reporting, sessions
from benchmarks.__main__ import main
from benchmarks.checking import mistakes
from benchmarks.contenders import BARE, JAX, LIBRARIES, PEERS, UNIT, companies, is_installed, prepare
from benchmarks.records import Report
from benchmarks.targets import TARGETS
from benchmarks.timing import Timing
from benchmarks.workloads import WORKLOADS, Workload, make_arrays

SMALL = [
    Workload("small", "rnn", (2, 3), 2, 4, ""),
    Workload("small", "lstm", (2, 3), 2, 4, ""),
    Workload("small", "gru", (2, 3), 2, 4, ""),
    Workload("small", "mlp", (4, 5, 3), 2, 1, ""),
]
by_kind = pytest.mark.parametrize("workload", SMALL, ids=lambda workload: workload.kind)


@pytest.mark.parametrize("contender", ["numpy_naive", "numpy_smart"])
@by_kind
def test_hand_written_gradients_agree_with_finite_differences(contender, workload, monkeypatch):
    arrays = make_arrays(workload, np.float64)
    monkeypatch.setattr("benchmarks.contenders.make_arrays", lambda *_: arrays)
    _, run = prepare(contender, workload, np.float64)
    _, gradients = run()
    assert gradients.keys() == arrays.keys()
    for name, array in arrays.items():
        assert gradients[name].shape == array.shape
        for index in np.ndindex(array.shape):
            numerical = central_difference(lambda: run()[0], array, index)
            assert gradients[name][index] == pytest.approx(numerical, rel=1e-6, abs=1e-8), (name, index)


def central_difference(value, array, index, step=1e-5):
    entry = array[index]
    array[index] = entry + step
    above = value()
    array[index] = entry - step
    below = value()
    array[index] = entry
    return (above - below) / (2 * step)


@pytest.mark.parametrize("contender", [*filter(is_installed, LIBRARIES)])
@by_kind
def test_every_installed_contender_passes_the_check(contender, workload):
    name, run = prepare(contender, workload)
    for _ in range(3):
        assert mistakes(workload, name, run) == []


@by_kind
def test_a_wrong_gradient_is_named(workload):
    _, run = prepare("numpy_naive", workload)

    def wrong():
        value, gradients = run()
        return value, gradients | {"x": gradients["x"] * (1 + 1e-4)}

    (line,) = mistakes(workload, "someone", wrong)
    assert line == "small someone: relative error of x is 1.0e-04, allowed is 1e-05"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda gradients: gradients | {"x": gradients["x"].astype(np.float64)},
        lambda gradients: gradients | {"x": gradients["x"][:1]},
        lambda gradients: {name: gradients[name] for name in gradients if name != "x"},
        lambda gradients: gradients | {"x": gradients["x"] * np.nan},
    ],
    ids=["precision", "shape", "missing", "nan"],
)
def test_a_gradient_unlike_its_array_is_a_mistake(spoil):
    _, run = prepare("numpy_naive", SMALL[0])
    value, gradients = run()
    assert len(mistakes(SMALL[0], "someone", lambda: (value, spoil(gradients)))) == 1


def test_the_workloads_are_the_nine_of_the_table():
    assert [workload.name for workload in WORKLOADS] == [f"W{n}" for n in range(1, 10)]


@contextmanager
def in_this_process(_start, *_arguments):
    yield lambda function, *arguments: function(*arguments)


@pytest.fixture
def small_workloads(monkeypatch, tmp_path):
    pytest.importorskip("threadpoolctl")
    workloads = tuple(attrs.evolve(w, name=f"W{n}") for n, w in enumerate(SMALL, 1))
    monkeypatch.setattr("benchmarks.__main__.WORKLOADS", workloads)
    monkeypatch.setattr("benchmarks.__main__.SAMPLES", (0.01, 3))
    monkeypatch.setattr("benchmarks.__main__.session", in_this_process)
    monkeypatch.setattr("benchmarks.__main__.companies", lambda: {BARE: companies()[BARE]})
    monkeypatch.setattr(records, "STORED", tmp_path / "stored.json")


@pytest.mark.usefixtures("small_workloads")
@pytest.mark.parametrize(("arguments", "contenders"), [(["--quick"], 2), (["--only", "W1,W2,W3,W4"], 3)])
def test_a_run_checks_and_prints_every_contender(arguments, contenders, capsys):
    assert main(arguments) == 0
    printed = capsys.readouterr().out
    for name in ("W1", "W2", "W3", "W4"):
        assert f"{name}  " in printed
    assert printed.count(" numpy ") == (contenders - 1) * len(SMALL)
    assert printed.count("mutangent ") == len(SMALL)


@pytest.mark.usefixtures("small_workloads")
def test_a_quick_run_fails_when_a_ratio_has_grown_by_more_than_half(monkeypatch, capsys):
    times = {"numpy naive": 10.0, "numpy smart": 10.0, "mutangent": 20.0}
    attempts = []

    def pretend(runs, *_):
        attempts.append(list(runs))
        return {name: Timing(*3 * [times[name]], 3) for name in runs}

    monkeypatch.setattr(sessions, "time_interleaved", pretend)
    assert main(["--only", "W1", "--store"]) == 0
    times["mutangent"] = 29.0
    assert main(["--quick", "--only", "W1"]) == 0
    assert len(attempts) == 2
    times["mutangent"] = 31.0
    assert main(["--quick", "--only", "W1"]) == 1
    assert "W1: 3.10 times the hand-written NumPy, was 2.00" in capsys.readouterr().err
    assert len(attempts) == 2 + 3  # it tries again before it says so


@pytest.mark.usefixtures("small_workloads")
@pytest.mark.parametrize("arguments", [["--quick"], []])
def test_a_run_fails_when_a_gradient_is_wrong(arguments, monkeypatch, capsys):
    def wrong(workload, name, _run):
        return [f"{workload.name} {name} is wrong"] if name == "numpy smart" else []

    monkeypatch.setattr(sessions, "mistakes", wrong)
    assert main([*arguments, "--only", "W1", "--store"][: 3 if arguments else None]) == 1
    assert "W1 numpy smart is wrong" in capsys.readouterr().err
    assert not records.STORED.exists()


@pytest.mark.parametrize(
    ("module", "arguments"),
    [("threadpoolctl", ["--quick"]), ("matplotlib.figure", ["--quick", "--picture", "x.png"])],
)
@pytest.mark.usefixtures("small_workloads")
def test_a_missing_package_is_told_with_its_extra(module, arguments, monkeypatch):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=r"python -m pip install 'mutangent\[bench\]'"):
        main([*arguments, "--only", "W1"])


@pytest.mark.usefixtures("small_workloads")
def test_storing_some_workloads_keeps_the_others():
    first, second = Timing(1.0, 1.5, 1.0, 3), Timing(2.0, 2.5, 2.0, 3)
    Report(
        {}, {"W2": {BARE: {UNIT: first}}, "W1": {BARE: {UNIT: first}}}, {"import": {"numpy": 1.0}}
    ).save_over(records.STORED)
    Report({"cores": 2}, {"W2": {JAX: {UNIT: second}}}).save_over(records.STORED)
    assert records.load(records.STORED) == Report(
        {"cores": 2}, {"W1": {BARE: {UNIT: first}}, "W2": {JAX: {UNIT: second}}}, {"import": {"numpy": 1.0}}
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--only", "W1,W17"], "not W17"),
        (["--quick", "--store"], "--store keeps a full run"),
        (["--only", "import", "--picture", "x.png"], "none is chosen"),
    ],
)
def test_arguments_without_sense_are_refused(arguments, message, capsys):
    with pytest.raises(SystemExit):
        main(arguments)
    assert message in capsys.readouterr().err


@pytest.mark.usefixtures("small_workloads")
def test_json_and_picture_hold_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib")
    file, picture = tmp_path / "report.json", tmp_path / "ratios.png"
    assert main(["--only", "W4", "--json", str(file), "--picture", str(picture)]) == 0
    measured = records.load(file)
    assert measured.machine["versions"]["numpy"] == np.__version__
    assert set(measured.workloads["W4"][BARE]) == {"numpy naive", "numpy smart", "mutangent"}
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_a_session_is_another_process_with_one_thread_for_blas():
    pytest.importorskip("threadpoolctl")
    with sessions.session(sessions.start_on_cpu, BARE, companies()[BARE]) as call:
        complaints, timings = call(sessions.measure, SMALL[0], companies()[BARE], 0.01, 3)
    assert complaints == []
    assert all(timing.samples >= 3 for timing in timings.values())


def test_jax_never_shares_a_process_with_torch():
    for contenders in companies().values():
        libraries = {LIBRARIES[contender] for contender in contenders}
        assert not {"jax", "torch"} <= libraries
        assert {"numpy", "mutangent"} <= libraries


def some_timings(**microseconds):
    names = {"naive": "numpy naive", "ours": "mutangent", "torch": "torch eager", "jax": "JAX scan"}
    return {names[name]: Timing(time, 1.2 * time, time, 3) for name, time in microseconds.items()}


SOME_RUN = Report(
    {
        "date": "2026-01-31",
        "cores": 2,
        "processor": "P",
        "system": "S",
        "python": "3",
        "versions": {"numpy": "2"},
    },
    {
        "W2": {
            PEERS: some_timings(naive=100.0, torch=300.0, ours=200.0),
            JAX: some_timings(naive=100.0, jax=50.0, ours=250.0),
            BARE: some_timings(naive=100.0, ours=220.0),
        }
    },
)


def test_a_ratio_is_taken_within_one_process():
    found = records.everyone(SOME_RUN.workloads["W2"])
    assert {name: ratio.minimum for name, (_, ratio) in found.items()} == {
        "numpy naive": 2.0,
        "torch eager": pytest.approx(2 / 3),
        "JAX scan": 5.0,
        "mutangent": 1.0,
    }


def test_the_table_says_whether_a_target_is_met():
    text = reporting.workload_lines(WORKLOADS[1], SOME_RUN, Report({}))
    assert "0.67    0.67    0.67             0.75 met" in text
    slow = attrs.evolve(SOME_RUN, workloads={"W2": {PEERS: some_timings(torch=10.0, ours=200.0)}})
    assert "0.75 missed" in reporting.workload_lines(WORKLOADS[1], slow, SOME_RUN)


def test_the_docs_table_has_every_contender_and_every_target():
    text = reporting.docs_tables(SOME_RUN, Report({}))
    assert "| W2 | 100 µs | 300 µs | 50 µs | 200 µs |" in text
    assert "| W2 | 2.00 2.00 | 0.67 0.67 (≤ 0.75, met) | 5.00 5.00 |" in text
    assert "| W2 | 220 µs | 2.20 2.20 | 1.10 |" in text


def test_the_docs_show_a_run_on_a_gpu_with_its_launches():
    on_gpu = Report(
        SOME_RUN.machine | {"device": "H200"},
        {"G1": {PEERS: some_timings(torch=300.0, ours=200.0)}},
        {"launches": {"G1": {"torch eager": 12.0, "mutangent": 20.5}}},
    )
    text = reporting.docs_tables(SOME_RUN, on_gpu)
    assert "**On a GPU**, H200" in text
    assert "| G1 | 0.67 0.67 |" in text
    assert "| G1 | 12.0 | 20.5 |" in text


def test_there_is_a_target_for_every_workload_and_eager_peer():
    for by_workload in TARGETS.values():
        assert list(by_workload) == [workload.name for workload in WORKLOADS]


def test_the_docs_show_the_stored_run():
    stored = records.load(records.STORED)
    assert set(stored.workloads) == {workload.name for workload in WORKLOADS}
    text = page.PAGE.read_text(encoding="utf-8")
    assert text == page.with_tables(text, stored, records.load(records.STORED_GPU)), (
        "run python -m benchmarks --docs"
    )


def test_the_peak_of_a_call_counts_its_arrays():
    peaks = footprint.peak_memory(("W2",))["W2"]
    step = 100 * 30 * 4
    assert all(peak > 4 * step for peak in peaks.values()), "the four gates at least"
    assert all(peak < 100 * step for peak in peaks.values())


def test_what_a_recording_holds_contains_every_state():
    held = footprint.held_by_a_recording("W3")
    assert held["bytes"] > held["bytes of h"] == 3 * 3 * 4
    assert held["allocations"] > 1


def test_growth_is_measured_for_every_size(monkeypatch):
    monkeypatch.setattr(growth, "ENOUGH", 0.0)
    for name in ("STEPS", "OBJECTS", "ENTRIES"):
        monkeypatch.setattr(growth, name, (2, 4))
    series = growth.growth()
    assert len(series) == 3
    for by_size in series.values():
        assert list(by_size) == ["2", "4"]
        assert min(by_size.values()) > 0
    lines = reporting.figure_lines({"growth": series})
    assert "µs per step" in lines


def test_the_gpu_run_says_that_there_is_no_cupy(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(SystemExit, match=r'needs CuPy.*pip install "cupy-cuda13x\[ctk\]"'):
        main(["--gpu"])


def test_the_gpu_run_says_that_there_is_no_device(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(is_available=lambda: False))
    with pytest.raises(SystemExit, match="needs a CUDA device"):
        main(["--gpu"])


@pytest.fixture
def pretended_cupy(monkeypatch):
    """NumPy under CuPy's name, and a device that counts how often somebody waits for it."""
    waits = []
    properties = {"name": b"Pretended"}
    cupy = SimpleNamespace(
        ndarray=type("ndarray", (), {}),
        asarray=np.asarray,
        is_available=lambda: True,
        __version__="0",
        cuda=SimpleNamespace(
            Device=lambda: SimpleNamespace(synchronize=lambda: waits.append(1)),
            runtime=SimpleNamespace(getDeviceProperties=lambda _number: properties),
        ),
    )
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(gpu, "ON_DEVICE", {PEERS: ()})
    monkeypatch.setattr(gpu, "SAMPLES", (0.01, 2))
    monkeypatch.setattr(gpu, "session", in_this_process)
    return waits


def test_the_gpu_run_checks_and_waits_for_the_device(pretended_cupy, capsys):
    report, complaints = gpu.main(SMALL[1:2])
    assert complaints == []
    timings = report.workloads["small"][PEERS]
    assert set(timings) == {"numpy naive", "mutangent"}
    assert len(pretended_cupy) >= sum(timing.samples for timing in timings.values())
    printed = capsys.readouterr().out
    assert "Pretended, CuPy 0" in printed
    assert "LSTM 2-3 B=2 T=4" in printed


@pytest.mark.usefixtures("pretended_cupy")
def test_the_gpu_run_names_a_wrong_gradient(monkeypatch):
    monkeypatch.setattr(gpu, "relative_errors", lambda *_: {"value": 0.0, "x": np.nan})
    _, complaints = gpu.main(SMALL[:1])
    assert complaints == [
        f"small {name}: relative error of x is nan, allowed is 1e-04" for name in ("numpy naive", "mutangent")
    ]


def test_results_of_every_library_are_copied_to_the_host():
    on_cupy = SimpleNamespace(get=lambda: np.ones(2))
    on_torch = SimpleNamespace(cpu=lambda: np.ones(3))
    value, gradients = gpu.on_host(lambda: (np.float32(1.5), {"a": on_cupy, "b": on_torch, "c": np.ones(4)}))
    assert value == 1.5
    assert [len(gradients[name]) for name in "abc"] == [2, 3, 4]


def test_copies_and_fills_are_no_launches():
    events = [
        SimpleNamespace(name=name, device_type=SimpleNamespace(name=device))
        for name, device in [
            ("gemm", "CUDA"),
            ("Memcpy HtoD", "CUDA"),
            ("Memset (Device)", "CUDA"),
            ("cudaLaunchKernel", "CPU"),
            ("cupy_tanh", "CUDA"),
        ]
    ]
    assert gpu.kernels_in(events) == 2
