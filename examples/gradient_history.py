"""See gradients vanish and explode: the norm of the cotangent of an RNN's state, step by step.

    python examples/gradient_history.py
    python examples/gradient_history.py --picture out/gradient_history.png

The RNN keeps its state in itself and overwrites it at each step. `Context(history=True)` remembers every version of it.
"""

import argparse
from pathlib import Path

import numpy as np

import mutangent as mt

UNITS = 24
STEPS = 30
SCALES = (0.6, 1.0, 2.5)  # of the recurrent weights, which are orthogonal but for this factor


@mt.differentiable
class RNN:
    Wx: np.ndarray
    Wh: np.ndarray
    state: np.ndarray = mt.field(trainable=False)

    def step(self, x):
        self.state = np.tanh(self.Wx @ x + self.Wh @ self.state)


def state_norms(scale, seed):
    """Return the norm of the cotangent of each version of the state, the one on entry first."""
    rng = np.random.default_rng(seed)
    orthogonal, _ = np.linalg.qr(rng.normal(size=(UNITS, UNITS)))
    rnn = RNN(0.05 * rng.normal(size=(UNITS, 2)), scale * orthogonal, np.zeros(UNITS))
    with mt.Context(history=True) as ctx:
        for x in rng.normal(size=(STEPS, 2)):
            rnn.step(x)
        loss = np.mean((rnn.state - 1.0) ** 2)
    ctx.grad(loss, rnn)
    return [float(np.linalg.norm(version.cotangent)) for version in ctx.history(rnn, "state")]


def draw(columns, path):
    """Save a picture of the norms over the steps."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - only this part needs it
    except ModuleNotFoundError as error:
        raise SystemExit(
            f"{error.name} is missing; it comes with the extra `examples`: pip install 'mutangent[examples]'"
        ) from error
    mpl.use("Agg")  # a picture in a file; no window
    import matplotlib.pyplot as plt  # noqa: PLC0415

    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for scale, norms in zip(SCALES, columns, strict=True):
        axes.semilogy(norms, label=f"{scale} × orthogonal")
    axes.set(xlabel="step", ylabel="|∂ loss / ∂ state|")
    axes.legend(title="recurrent weights")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Read the command line, print the table, and draw it if asked."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the weights and inputs (default: 0)")
    parser.add_argument("--picture", type=Path, help="where to save a picture of the table")
    options = parser.parse_args()

    columns = [state_norms(scale, options.seed) for scale in SCALES]
    print("|∂ loss / ∂ state| after each step, for recurrent weights of three sizes\n")
    print("step" + "".join(f"{f'{scale} × orthogonal':>18}" for scale in SCALES))
    for step in range(0, STEPS + 1, 5):
        print(f"{step:4}" + "".join(f"{norms[step]:18.1e}" for norms in columns))
    if options.picture is not None:
        draw(columns, options.picture)


if __name__ == "__main__":
    main()
