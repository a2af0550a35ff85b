"""Which rules wait for a device that their function does not wait for; the docs' page on GPUs names them."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import mutangent as mt
from tests.rules.test_derivatives import SAMPLES, elementwise_samples

# What is done depends on the numbers, and so the numbers are asked for.
WAITING = {
    *("fill_diagonal", "place", "put_along_axis", "putmask", "trim_zeros", "setdiff1d", "setxor1d"),
    *("median", "quantile", "percentile", "nanmean", "nanmedian", "histogram", "piecewise", "det", "lstsq"),
    *("eig", "eigh", "qr", "svd"),
    *("pad", "polyadd", "polysub", "polymul"),
}


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def waits(call: Any) -> list[str]:
    """What crosses to the host in a call: a copy to the device is waited for by nobody."""
    from tests.arrays.cupy_on_host import watched

    with watched() as crossings:
        call()
    return [each for each in crossings if each.startswith("device to host")]


def test_the_rules_that_wait_for_a_device_are_those_that_the_docs_name(request):
    if request.config.getoption("--arrays") != "cupy-host":
        pytest.skip("what crosses to the host is seen with --arrays=cupy-host only")

    def check(function, sample):
        def total(*operands):
            found = [
                np.sum(np.real(y)) for y in leaves(sample.call(*operands)) if np.result_type(y).kind in "fc"
            ]
            return sum(found, start=0.0)

        pullbacks: list[Any] = []
        try:
            without = waits(lambda: total(*sample.operands))
            forward = waits(lambda: pullbacks.append(mt.vjp(total, *sample.operands)[1]))
            return len(forward) > len(without) or bool(waits(lambda: pullbacks[0](1.0)))
        except Exception:  # noqa: BLE001 - what CuPy refuses, and what differs: `test_derivatives` knows of both
            return False

    pairs = [*elementwise_samples(), *((f, each) for f, samples in SAMPLES.items() for each in samples)]
    # The cotangent of a number that the host holds is a number that the host holds.
    pairs = [pair for pair in pairs if all(isinstance(x, np.ndarray) for x in pair[1].operands)]
    assert {f.__name__ for f, each in pairs if check(f, each)} == WAITING
