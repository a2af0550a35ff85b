"""The Hypothesis profiles of the random programs: "ci", which is also the default, and "nightly".

pytest tests/programs --hypothesis-profile=nightly -n auto

What the library does for large arrays only, it does here for the small ones of the programs too.
"""

import pytest
from hypothesis import HealthCheck, Phase, settings

from mutangent import _accumulate, _logistic

COMMON = {
    "database": None,  # a failing program is printed; nothing is left in the tree
    "deadline": None,
    "print_blob": False,
    "phases": [Phase.explicit, Phase.generate, Phase.shrink],
    "suppress_health_check": [
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
}
settings.register_profile("ci", derandomize=True, **COMMON)
settings.register_profile("nightly", derandomize=False, **COMMON)


@pytest.fixture(autouse=True)
def _small_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_accumulate, "FLUSHED_ROWS", 6)
    monkeypatch.setattr(_logistic, "WORTH", 1)
