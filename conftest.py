"""Fixtures for the tests and for the doctests of the package.

This file knows the array flavours the suite runs on, and what every test must leave behind: nothing open.
"""

import importlib.util
from collections.abc import Iterator

import attrs
import hypothesis
import numpy as np
import pytest
from numpy.typing import ArrayLike, DTypeLike, NDArray

import mutangent as mt
from mutangent._fields import current as open_recording

# Two busy cores make any deadline for a single example a coin toss; pytest's own timeout catches a hang.
hypothesis.settings.register_profile("mutangent", deadline=None)
hypothesis.settings.load_profile("mutangent")


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


@pytest.fixture(params=FLAVOURS, ids=lambda flavour: flavour.name)
def xp(request: pytest.FixtureRequest) -> ArrayFlavour:
    """Every array flavour in turn; make a test's arrays with `xp.asarray(values, dtype=None)`."""
    return request.param


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator that starts alike in every test, whatever the order of the tests."""
    return np.random.default_rng(20221130)


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


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what needs a CUDA device where there is none."""
    on_gpu = [item for item in items if "gpu" in item.keywords]
    if on_gpu and not _has_cuda_device():
        for item in on_gpu:
            item.add_marker(pytest.mark.skip(reason="needs a CUDA device"))


def _has_cuda_device() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy  # noqa: PLC0415 - an optional library, asked for only when a test needs it

    return bool(cupy.is_available())
