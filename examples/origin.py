"""Print the numbers of the proposal that this library comes from, beside the published ones.

In 2022 a rule for the stateful layer `Recur` was proposed to Flux.jl. It gave the right gradient for one time step. For
several it added the tangents of *different* states into one, and the gradient of a 3×1 initial state came out as a
3×3 matrix. Here both of its examples are run: the gradient of ``sum(abs2, m(x))`` for an RNN 2→3 with all weights 1.

The published numbers were computed with Flux's fast tanh and differ in the fourth digit from what is expected in single
precision with an exact one.
"""

import sys

import numpy as np

import mutangent as mt

# (field, published, expected). Every row of Wi is the same, and so is every entry of the others.
MATRIX = (
    ("cell.Wi", (0.0027779222, 0.008236016), (0.0027782, 0.0082363)),
    ("cell.Wh", (0.0,), (0.0,)),
    ("cell.b", (0.0027290469,), (0.0027290,)),
    ("state", (0.00818714,), (0.0081871,)),
)
SEQUENCE = (
    ("cell.Wi", (0.019653967, 0.03929506), (0.0196545, 0.0392956)),
    ("cell.Wh", (0.0,), (0.0,)),
    ("cell.b", (0.019641092,), (0.0196411,)),
    ("state", (0.058923274,), (0.0589234,)),
)


def make_model():
    """Return the RNN 2→3 of the proposal: all weights 1, bias and initial state zero."""
    cell = mt.nn.RNNCell(
        Wi=np.ones((3, 2), np.float32),
        Wh=np.ones((3, 3), np.float32),
        b=np.zeros(3, np.float32),
        state0=np.zeros((3, 1), np.float32),
    )
    return mt.nn.Recur(cell)


@mt.differentiable
def loss(m, x):
    """Return what the proposal writes as ``sum(abs2, m(x))``."""
    return np.sum(m(x) ** 2)


def report(title, x, rows):
    """Print one example; return whether all of its numbers and shapes are right."""
    m = make_model()
    entry_shapes = {"cell.Wi": (3, 2), "cell.Wh": (3, 3), "cell.b": (3,), "state": (3, 1)}
    dm = loss.grad(m, x)
    print(f"{title}\n{dm}\n")
    print(f"{'field':9}{'shape':9}{'mutangent':28}{'published':28}expected")
    good = True
    for name, published, expected in rows:
        parent = dm.cell if name.startswith("cell.") else dm
        gradient = np.asarray(parent[name.removeprefix("cell.")])
        shown = gradient[0] if name == "cell.Wi" else gradient.ravel()[:1]
        # The expected numbers are given to about five digits; every row of a matrix has the same.
        good &= gradient.shape == entry_shapes[name]
        good &= np.allclose(gradient, expected, rtol=1e-4, atol=1e-7)
        good &= np.allclose(gradient, published, rtol=5e-4, atol=1e-7)
        shape = "×".join(map(str, gradient.shape))
        columns = [", ".join(f"{number:.8f}" for number in numbers) for numbers in (shown, published)]
        print(f"{name:9}{shape:9}{columns[0]:28}{columns[1]:28}{', '.join(map(str, expected))}")
    print()
    return good


def main():
    """Run both examples; exit with an error if a number is off."""
    matrix = np.array([[1, 2], [3, 4]], np.float32)
    # 1…24 with the first index fastest, as Julia counts.
    sequence = np.arange(1, 25, dtype=np.float32).reshape(2, 3, 4, order="F")
    good = report("x = [1 2; 3 4], features × batch", matrix, MATRIX)
    good &= report("x of 2×3×4, features × batch × time; the state was published as 3×3", sequence, SEQUENCE)
    if not good:
        sys.exit("the numbers are off")
    print("All numbers and shapes are right. In the published sequence case the state's was 3×3.")


if __name__ == "__main__":
    main()
