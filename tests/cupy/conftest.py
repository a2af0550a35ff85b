"""These tests bring their CuPy arrays along: in the host's memory, unless the run is on a device."""

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture
def cp(request: pytest.FixtureRequest) -> Iterator[Any]:
    """CuPy, working on the host's memory if this run has no device."""
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x")
    if request.config.getoption("--arrays") != "numpy":
        yield cupy
        return
    from tests.arrays.cupy_on_host import on_host

    with on_host():
        yield cupy
