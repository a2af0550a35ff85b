"""The benchmarks compare right gradients, and say so where they are not."""

import sys

import attrs
import numpy as np
import pytest

from benchmarks import baseline
from benchmarks.__main__ import main
from benchmarks.checking import mistakes
from benchmarks.contenders import CONTENDERS, UNIT, prepare
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


@pytest.mark.parametrize("contender", CONTENDERS)
@by_kind
def test_every_contender_passes_the_check(contender, workload):
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


@pytest.fixture
def small_workloads(monkeypatch, tmp_path):
    pytest.importorskip("threadpoolctl")
    workloads = tuple(attrs.evolve(w, name=f"W{n}") for n, w in enumerate(SMALL, 1))
    monkeypatch.setattr("benchmarks.__main__.WORKLOADS", workloads)
    monkeypatch.setattr(baseline, "PATH", tmp_path / "baseline.json")


@pytest.mark.usefixtures("small_workloads")
def test_a_quick_run_checks_and_prints_every_contender(capsys):
    assert main(["--quick"]) == 0
    printed = capsys.readouterr().out
    for name in ("W1", "W2", "W3", "W4"):
        assert f"{name}  " in printed
    assert printed.count(UNIT) == 1 + len(SMALL)


@pytest.mark.usefixtures("small_workloads")
def test_a_quick_run_fails_when_a_ratio_has_grown_by_more_than_half(monkeypatch, capsys):
    times = {"numpy naive": 10.0, "numpy smart": 10.0, "mutangent": 20.0}

    def pretend(runs, *_):
        return {name: Timing(times[name], times[name], 3) for name in runs}

    monkeypatch.setattr("benchmarks.__main__.time_interleaved", pretend)
    assert main(["--quick", "--only", "W1", "--store"]) == 0
    times["mutangent"] = 29.0
    assert main(["--quick", "--only", "W1"]) == 0
    times["mutangent"] = 31.0
    assert main(["--quick", "--only", "W1"]) == 1
    assert "W1 mutangent: 3.10 times the hand-written NumPy, was 2.00" in capsys.readouterr().err
    times["numpy smart"] = 99.0  # not ours to keep fast
    times["mutangent"] = 20.0
    assert main(["--quick", "--only", "W1"]) == 0


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
    baseline.store({"W1": {"mutangent": 2.0, "numpy smart": 0.5}, "W2": {"mutangent": 3.0}})
    baseline.store({"W2": {"mutangent": 1.0}})
    assert baseline.load() == {"W1": {"mutangent": 2.0}, "W2": {"mutangent": 1.0}}


def test_an_unknown_workload_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["--only", "W1,W17"])
    assert "not W17" in capsys.readouterr().err


@pytest.mark.usefixtures("small_workloads")
def test_json_and_picture_hold_what_was_measured(tmp_path):
    pytest.importorskip("matplotlib")
    report, picture = tmp_path / "report.json", tmp_path / "ratios.png"
    assert main(["--quick", "--only", "W4", "--json", str(report), "--picture", str(picture)]) == 0
    assert '"ratio_of_minima": 1.0' in report.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")
