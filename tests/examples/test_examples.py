"""Each example runs as a user runs it, in a process of its own, and in an empty folder."""

import math
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"


def start(*command, cwd):
    # This checkout, whether or not (another version of) the package is installed.
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *map(str, command)],
        cwd=cwd,
        env=environment,
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )


def run(name, *arguments, cwd, script=None):
    return start("-W", "error", script or EXAMPLES / name, *arguments, cwd=cwd)


def test_every_example_is_run_by_a_test_in_this_file():
    tested = set(re.findall(r"run\(\s*\"(\w+\.py)\"", Path(__file__).read_text(encoding="utf-8")))
    assert tested == {path.name for path in EXAMPLES.glob("*.py")}


def test_the_origins_numbers_come_out(tmp_path):
    done = run("origin.py", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("Tangent[Recur](cell=Tangent[RNNCell](") == 2
    assert re.search(r"state +3×1 +0\.058923", done.stdout)
    assert re.search(r"cell\.Wi +3×2 +0\.002778\d+, 0\.00823\d+ +0\.00277792, 0\.00823602", done.stdout)
    assert "All numbers and shapes are right" in done.stdout


def test_a_number_that_is_off_makes_the_origin_fail(tmp_path):
    wrong = tmp_path / "origin.py"
    source = (EXAMPLES / "origin.py").read_text(encoding="utf-8")
    assert "0.0589234," in source
    wrong.write_text(source.replace("0.0589234,", "0.0589534,"), encoding="utf-8")
    done = run("origin.py", cwd=tmp_path, script=wrong)
    assert done.returncode == 1
    assert "the numbers are off" in done.stderr


def test_scipys_l_bfgs_calibrates_the_rooms(tmp_path):
    done = run("calibrate_rooms.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = re.findall(r"^(\.[\w.\[\]]+) +([\d.]+) +([\d.]+) +([\d.]+)$", done.stdout, re.MULTILINE)
    assert [name for name, *_ in rows] == [
        ".rooms[0].wall.conductance",
        ".rooms[0].wall.capacity",
        ".rooms[0].window",
        ".rooms[1].window",
        ".door",
    ]
    for _, _, fitted, true in rows:
        assert abs(float(fitted) / float(true) - 1) < 0.05
    assert "the walls are still one object: True" in done.stdout
    assert "air 18.0 °C" in done.stdout


def test_gradients_vanish_and_explode_step_by_step(tmp_path):
    done = run("gradient_history.py", "--picture", "pictures/norms.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [line.split() for line in done.stdout.splitlines() if re.match(r" *\d+ ", line)]
    assert [int(step) for step, *_ in rows] == [0, 5, 10, 15, 20, 25, 30]
    vanishing, kept, exploding = (
        float(first) / float(last) for first, last in zip(rows[0][1:], rows[-1][1:], strict=True)
    )
    assert vanishing < 1e-5
    assert 0.1 < kept < 10
    assert exploding > 100
    assert (tmp_path / "pictures/norms.png").stat().st_size > 1000


def test_a_pendulum_is_fitted_within_its_standard_errors(tmp_path):
    done = run("fit_pendulum.py", "--picture", "pictures/fit.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    losses = [float(each) for each in re.search(r"before each step: (.*)", done.stdout).group(1).split()]
    assert losses == sorted(losses, reverse=True)
    assert losses[-1] < losses[0] / 100
    assert float(re.search(r"slope left: (\S+)", done.stdout).group(1)) < 1e-3 * losses[-1]
    rows = re.findall(r"^(?:frequency|damping|angle at 0) +(\S+) +(\S+) +(\S+)$", done.stdout, re.MULTILINE)
    assert len(rows) == 3
    for true, fitted, error in [[float(each) for each in row] for row in rows]:
        assert 0 < error < 0.05
        assert abs(fitted - true) < 4 * error
    by_hessian, by_hvp = re.search(r"by hvp: \[(.*)\] \[(.*)\]", done.stdout).groups()
    products = [[float(each) for each in text.split()] for text in (by_hessian, by_hvp)]
    assert products[0] == pytest.approx(products[1], rel=1e-6)
    stiffness = [float(each) for each in re.findall(r"\d: (-?[\d.]+)", done.stdout.splitlines()[-1])]
    assert stiffness == pytest.approx([4 * math.cos(angle) for angle in range(4)], rel=0.05)
    assert (tmp_path / "pictures/fit.png").stat().st_size > 1000


def test_a_short_training_of_the_character_lstm_beats_the_unigram_entropy(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog. " * 200, encoding="utf-8")
    done = run("char_lstm.py", text, "--steps", 12, "--picture", "pictures/loss.png", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    last, first, unigram = map(
        float,
        re.search(
            r"after 12 updates: ([\d.]+) bits/char \(first: ([\d.]+), unigram: ([\d.]+)\)", done.stdout
        ).groups(),
    )
    assert last < first
    assert 4 < unigram < 5
    assert (tmp_path / "pictures/loss.png").stat().st_size > 1000


def test_the_character_lstm_reads_pythons_documentation_and_keeps_to_its_time(tmp_path):
    done = run("char_lstm.py", "--seconds", 1, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    characters, unigram = re.search(r"(\d+) characters.*unigram entropy ([\d.]+)", done.stdout).groups()
    assert int(characters) > 100_000
    assert 4 < float(unigram) < 6
    assert (tmp_path / "out/char_lstm.png").exists()


def test_the_same_seed_writes_the_same_text(tmp_path):
    one, other, another = (
        run("char_lstm.py", "--steps", 2, "--seed", seed, cwd=tmp_path).stdout for seed in (1, 1, 2)
    )
    assert one == other
    assert one != another


@pytest.mark.parametrize("missing", ["tqdm", "matplotlib"])
def test_a_missing_extra_is_named(tmp_path, missing):
    # An empty entry in sys.modules makes the import fail as if nothing were installed.
    code = f"import runpy, sys; sys.modules[{missing!r}] = None; runpy.run_path(sys.argv[1], run_name='__main__')"
    done = start("-c", code, EXAMPLES / "char_lstm.py", cwd=tmp_path)
    assert done.returncode == 1
    assert f"{missing} is missing" in done.stderr
    assert "pip install 'mutangent[examples]'" in done.stderr
