"""Fixtures for the tests and for the doctests of the package.

This file knows the array flavours the suite runs on, and what every test must leave behind: nothing open.

``pytest tests --arrays=cupy-host`` runs the suite on CuPy arrays in the host's memory, which needs CuPy and no device;
``pytest tests -m gpu`` runs it on CuPy arrays on a device. See `tests/arrays`.
"""

import functools
import importlib.util
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import hypothesis
import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike, NDArray

import mutangent as mt
from mutangent import _read_past
from mutangent._fields import current as open_recording

# What a class raises while it is looked at is let through; here it would be a mistake of ours.
_read_past.raises_all = True

# Two busy cores make any deadline for a single example a coin toss; pytest's own timeout catches a hang.
hypothesis.settings.register_profile("mutangent", deadline=None)
hypothesis.settings.load_profile("mutangent")

# It stands on CuPy, and collecting doctests would import it.
collect_ignore = [] if importlib.util.find_spec("cupy") else ["tests/arrays/cupy_on_host.py"]


@attrs.frozen
class ArrayFlavour:
    """One kind of array that the suite runs on."""

    name: str
    writeable: bool

    def asarray(self, values: ArrayLike, dtype: DTypeLike = None) -> NDArray:
        """Return a new array of this flavour; never a view of `values`, whose flags stay as they are."""
        array = np.array(values, dtype=dtype)
        array.flags.writeable = self.writeable
        return array


# "numpy-readonly" shows that nothing is written into an array that a user passed in or keeps in a field.
FLAVOURS = (ArrayFlavour("numpy", writeable=True), ArrayFlavour("numpy-readonly", writeable=False))


@attrs.frozen
class CuPyFlavour:
    """CuPy's arrays, which are writeable all of them."""

    name: str

    def asarray(self, values: ArrayLike, dtype: DTypeLike = None) -> Any:
        """Return a new array."""
        import cupy  # noqa: PLC0415 - an optional library, asked for only when a test needs it

        return cupy.array(values, dtype=dtype)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choice of arrays."""
    parser.addoption(
        "--arrays",
        choices=["numpy", "cupy-host", "cupy"],
        help="the arrays that the tests use: numpy (the default), cupy-host (CuPy's in the host's memory, without a "
        "device), or cupy (on a device; the default with -m gpu)",
    )


def arrays_of(config: pytest.Config) -> str:
    """The arrays of this run."""
    given: str | None = config.getoption("--arrays")
    return given or ("cupy" if config.getoption("-m") == "gpu" else "numpy")


def pytest_configure(config: pytest.Config) -> None:
    """Give the files of tests the arrays of this run, before any of them is imported."""
    config.option.arrays = arrays_of(config)
    _why_no_device()  # ask before anything of CuPy is replaced
    if arrays_of(config) == "numpy" or WHY_NOT[arrays_of(config)]():
        return
    import cupy  # noqa: PLC0415 - an optional library, asked for only when a run needs it

    from tests.arrays.namespace import give_to_tests  # noqa: PLC0415 - it wraps CuPy

    config.addinivalue_line("filterwarnings", "ignore::cupy._util.PerformanceWarning")
    give_to_tests(cupy)
    if arrays_of(config) == "cupy-host":
        from tests.arrays.cupy_on_host import on_host  # noqa: PLC0415 - it wraps CuPy

        config.stash[_ON_HOST] = on_host()
        config.stash[_ON_HOST].__enter__()


_ON_HOST: pytest.StashKey[Any] = pytest.StashKey()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no file of which nothing runs with these arrays: it may need what a machine with a device does not have."""
    if arrays_of(config) == "numpy" or collection_path.suffix != ".py":
        return None
    from tests.arrays.differences import NOT_RUN, reason_in  # noqa: PLC0415 - for these runs only

    return bool(reason_in(NOT_RUN, collection_path.relative_to(config.rootpath).as_posix())) or None


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test that asks for `xp` on every array flavour of this run."""
    if "xp" in metafunc.fixturenames:
        arrays = arrays_of(metafunc.config)
        flavours = FLAVOURS if arrays == "numpy" else (CuPyFlavour(arrays),)
        metafunc.parametrize("xp", flavours, ids=lambda flavour: flavour.name, indirect=True)


@pytest.fixture
def xp(request: pytest.FixtureRequest) -> ArrayFlavour:
    """Every array flavour in turn; make a test's arrays with `xp.asarray(values, dtype=None)`."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator that starts alike in every test, whatever the order of the tests."""
    from tests.arrays.namespace import tests_numpy  # noqa: PLC0415 - it belongs to the tests

    return tests_numpy().random.default_rng(20221130)


@pytest.fixture(autouse=True)
def _no_recording_left_open() -> Iterator[None]:
    """Fail the test that leaves a recording open, not the innocent ones after it."""
    before = open_recording()
    yield
    if open_recording() is not before:
        pytest.fail("this test left a recording open")


@pytest.fixture(autouse=True)
def _doctest_names(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(np=np, mt=mt)


def pytest_report_header(config: pytest.Config) -> str:
    """Say what is tested and, of the rest, why not."""
    arrays = arrays_of(config)
    others = {name: why() for name, why in WHY_NOT.items() if name != arrays}
    return f"arrays: {arrays}; not in this run: " + ", ".join(
        f"{name} ({why or f'--arrays={name}'})" for name, why in others.items()
    )


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out or skip what cannot run here, or means something else with these arrays."""
    arrays = arrays_of(config)
    if arrays == "cupy":
        for item in items:
            item.add_marker("gpu")
    if arrays != "numpy":
        from tests.arrays.differences import DIFFERENT, NOT_RUN, reason_in  # noqa: PLC0415 - for these runs only

        left_out = [item for item in items if reason_in(NOT_RUN, item.nodeid)]
        if left_out:
            config.hook.pytest_deselected(items=left_out)
            items[:] = [item for item in items if not reason_in(NOT_RUN, item.nodeid)]
        for item in items:
            if why := WHY_NOT[arrays]():
                item.add_marker(pytest.mark.skip(reason=why))
            elif why := reason_in(DIFFERENT, item.nodeid):
                # On a device some of it may pass: what the host's memory does not answer, for example.
                item.add_marker(pytest.mark.xfail(reason=why, strict=arrays == "cupy-host"))
    on_device = [item for item in items if item.get_closest_marker("gpu")]
    why = WHY_NOT["cupy"]() if on_device else ""
    if why:
        for item in on_device:
            item.add_marker(pytest.mark.skip(reason=why))


def _why_no_cupy() -> str:
    return "" if importlib.util.find_spec("cupy") else "CuPy is not installed: pip install cupy-cuda13x"


@functools.cache
def _why_no_device() -> str:
    if _why_no_cupy():
        return _why_no_cupy()
    import cupy  # noqa: PLC0415 - an optional library, asked for only when a test needs it

    return "" if cupy.is_available() else "needs a CUDA device"


# By the name of arrays: what gives the reason why this machine has none, or "".
WHY_NOT: dict[str, Callable[[], str]] = {
    "numpy": lambda: "",
    "cupy-host": _why_no_cupy,
    "cupy": _why_no_device,
}
