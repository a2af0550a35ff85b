"""The Hypothesis profiles of the random programs: "ci", which is also the default, and "nightly".

pytest tests/programs --hypothesis-profile=nightly -n auto
"""

from hypothesis import HealthCheck, Phase, settings

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
