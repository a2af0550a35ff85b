"""``python -m mutangent``: what is installed, what of it is usable, and whether known gradients come out right.

The gradients are those of the proposal that this library goes back to: a recurrent net of two inputs and three units, all
weights one, and the sum of the squares of its outputs. The published digits have the error of a fast tanh in them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import platform
import sys
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np

from ._device import array_module, cupy_with_device, to_host
from ._transforms import grad
from .nn import Recur, RNNCell

# By the input: the rows of Wi, of b, and of the initial state.
PUBLISHED = (
    ("two columns", np.array([[1.0, 2.0], [3.0, 4.0]]), (0.0027779, 0.0082360), 0.0027290, 0.0081871),
    (
        "four steps of three columns",
        np.arange(1.0, 25.0).reshape(2, 3, 4, order="F"),
        (0.0196540, 0.0392951),
        0.0196411,
        0.0589233,
    ),
)
TOLERANCE = 1e-3


@attrs.frozen
class Finding:
    """What was found out about one library."""

    name: str
    usable: bool
    text: str
    failed: bool = False  # it is there, and does not do what it should


def gradients(x: Any) -> Any:
    """The tangent of the net for one input."""
    ones, zeros = array_module(x).ones, array_module(x).zeros
    cell = RNNCell(ones((3, 2)), ones((3, 3)), zeros(3), zeros((3, 1)))
    net = Recur(cell, cell.state0)

    def loss(net: Any) -> Any:
        steps = [x] if x.ndim == 2 else [x[..., k] for k in range(x.shape[2])]
        return sum(np.sum(net(step) ** 2) for step in steps)

    return grad(loss)(net)


def wrong_numbers(move: Any) -> Iterator[str]:
    """What differs from the published numbers, in words."""
    for name, x, Wi, b, state in PUBLISHED:
        found = gradients(move(x))
        for field, numbers, expected in (
            ("Wi", found.cell.Wi, np.broadcast_to(Wi, (3, 2))),
            ("b", found.cell.b, np.full(3, b)),
            ("state", found.state, np.full((3, 1), state)),
        ):
            on_host = to_host(numbers)
            if on_host.shape != expected.shape or not np.allclose(on_host, expected, rtol=TOLERANCE):
                yield f"{name}: the gradient of {field} is {on_host.tolist()}, and not {expected.tolist()}"


def checked(name: str, move: Any, note: str = "") -> Finding:
    """Whether the published numbers come out with one array library."""
    wrong = list(wrong_numbers(move))
    text = "; ".join(wrong) if wrong else "the origin's gradients are right"
    return Finding(name, not wrong, text + note, failed=bool(wrong))


def numpy_finding() -> Finding:
    """NumPy."""
    return checked(f"NumPy {np.__version__}", np.asarray)


def cupy_finding() -> Finding:
    """CuPy, on the current device."""
    try:
        cupy = cupy_with_device("running on a device")
    except (ImportError, RuntimeError) as error:
        reason = str(error).removesuffix(", or see what `python -m mutangent` says.")
        return Finding("CuPy", False, f"not usable: {reason.removesuffix('.')}.")
    name = f"CuPy {cupy.__version__}"
    try:
        devices = [
            cupy.cuda.runtime.getDeviceProperties(number)["name"].decode()
            for number in range(cupy.cuda.runtime.getDeviceCount())
        ]
        return checked(name, cupy.asarray, f"; devices: {', '.join(devices)}")
    except Exception as error:  # noqa: BLE001 - of CUDA, of a compiler that is not there: whatever it is
        text = (
            f"not usable: there is a device, and computing on it failed with {type(error).__name__}: {error}"
        )
        return Finding(name, False, text, failed=True)


def scipy_finding() -> Finding:
    """SciPy, whose functions have rules too."""
    try:
        scipy = importlib.import_module("scipy")
    except ImportError as error:
        return Finding("SciPy", False, f"not usable: {error}. pip install scipy gives mutangent.scipy")
    return Finding(f"SciPy {scipy.__version__}", True, "mutangent.scipy and the rules of scipy.special")


def main() -> int:
    """Print the findings; 1 if a library gives wrong numbers, or a device that is there does not compute."""
    versions = {
        "mutangent": importlib.metadata.version("mutangent"),
        "Python": platform.python_version(),
        "attrs": attrs.__version__,
    }
    lines = [", ".join(f"{name} {version}" for name, version in versions.items())]
    findings = [numpy_finding(), cupy_finding(), scipy_finding()]
    lines += [f"{'+' if finding.usable else '-'} {finding.name}: {finding.text}" for finding in findings]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(any(finding.failed for finding in findings))


if __name__ == "__main__":
    sys.exit(main())
