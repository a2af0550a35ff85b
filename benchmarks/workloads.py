"""What is computed: nine workloads, each a loss with respect to every array that goes into it.

Knows sizes and makes arrays; knows no contender and no clock. The models, for ``x_t`` of batch × features:

* rnn: ``h = tanh(x_t @ Wi + h @ Wh + b)``
* lstm: ``z = x_t @ Wi + h @ Wh + b``, gates i, f, g, o in this order along its last axis,
  ``c = σ(f) * c + σ(i) * tanh(g)``, ``h = σ(o) * tanh(c)``
* gru: ``a = x_t @ Wi + b``, ``s = h @ Wh``, gates r, u, n in this order,
  ``n = tanh(a_n + σ(r) * s_n)``, ``h = (1 - σ(u)) * n + σ(u) * h``
* mlp: ``y = max(x @ W1 + b1, 0) @ W2 + b2``

The loss is the sum of squares of all outputs: of every ``h``, or of ``y``.
"""

import attrs
import numpy as np


@attrs.frozen
class Workload:
    """One line of the table.

    Attributes
    ----------
    name : str
        ``"W1"`` to ``"W9"``.
    kind : str
        The name of the function that every contender has for it.
    sizes : tuple of int
        Features of the input, then of each layer.
    batch, steps : int
        The input is steps × batch × features, for the mlp batch × features.
    why : str
        What it stands for.
    """

    name: str
    kind: str
    sizes: tuple[int, ...]
    batch: int
    steps: int
    why: str

    def __str__(self) -> str:
        sizes = "-".join(map(str, self.sizes))
        return f"{self.kind.upper()} {sizes} B={self.batch}" + (
            f" T={self.steps}" if self.kind != "mlp" else ""
        )


WORKLOADS = (
    Workload("W1", "rnn", (2, 3), 100, 1, "one small step"),
    Workload("W2", "lstm", (20, 30), 100, 1, "one step"),
    Workload("W3", "rnn", (2, 3), 3, 4, "a short sequence"),
    Workload("W4", "lstm", (32, 64), 1, 100, "overhead"),
    Workload("W5", "lstm", (128, 256), 32, 64, "ordinary training"),
    Workload("W6", "lstm", (512, 512), 16, 128, "arithmetic"),
    Workload("W7", "gru", (256, 256), 1, 512, "rank-1 weight gradients, memory bound"),
    Workload("W8", "rnn", (64, 64), 8, 2000, "long"),
    Workload("W9", "mlp", (784, 256, 10), 64, 1, "no state"),
)

GATES = {"rnn": 1, "lstm": 4, "gru": 3}


def make_arrays(workload: Workload, dtype: type = np.float32) -> dict[str, np.ndarray]:
    """Give every array of a workload by name: parameters, initial state and input, the same at each call.

    Examples
    --------
    >>> {name: array.shape for name, array in make_arrays(WORKLOADS[0]).items()}
    {'Wi': (2, 3), 'Wh': (3, 3), 'b': (3,), 'h0': (100, 3), 'x': (1, 100, 2)}
    """
    rng = np.random.default_rng(0)

    def uniform(fan_in: int, *shape: int) -> np.ndarray:
        bound = fan_in**-0.5
        return rng.uniform(-bound, bound, shape).astype(dtype)

    def normal(*shape: int) -> np.ndarray:
        return rng.standard_normal(shape).astype(dtype)

    if workload.kind == "mlp":
        inputs, hidden, outputs = workload.sizes
        return {
            "W1": uniform(inputs, inputs, hidden),
            "b1": uniform(inputs, hidden),
            "W2": uniform(hidden, hidden, outputs),
            "b2": uniform(hidden, outputs),
            "x": normal(workload.batch, inputs),
        }
    inputs, hidden = workload.sizes
    columns = GATES[workload.kind] * hidden
    arrays = {
        "Wi": uniform(hidden, inputs, columns),
        "Wh": uniform(hidden, hidden, columns),
        "b": uniform(hidden, columns),
        "h0": 0.5 * normal(workload.batch, hidden),
    }
    if workload.kind == "lstm":
        arrays["c0"] = 0.5 * normal(workload.batch, hidden)
    arrays["x"] = normal(workload.steps, workload.batch, inputs)
    return arrays
