"""With CuPy's arrays, a call that CuPy itself refuses says nothing about its rule."""

import pytest


@pytest.fixture(autouse=True)
def _what_cupy_refuses(request: pytest.FixtureRequest) -> None:
    """Skip a sample whose plain call fails on CuPy's arrays, with CuPy's words as the reason."""
    callspec = getattr(request.node, "callspec", None)
    sample = None if callspec is None else callspec.params.get("sample")
    if sample is not None and request.config.getoption("--arrays") != "numpy":
        try:
            sample.call(*sample.operands)
        except Exception as error:  # noqa: BLE001 - whatever CuPy raises
            pytest.skip(f"CuPy itself refuses this call: {type(error).__name__}: {str(error)[:200]}")
