"""Fit a simulator with state, and say how sure the fit is: a damped pendulum, seen through noise, with gaps.

    python examples/fit_pendulum.py
    python examples/fit_pendulum.py --picture out/fit_pendulum.png

The simulator is an object that overwrites its angle and rate at every step. Its derivatives are taken as it stands:

- `jacobian` of all angles with respect to three parameters, for Gauss-Newton steps,
- `hessian` of the loss, whose inverse is the covariance of the parameters (Laplace's approximation),
- `hvp`, the Hessian times one direction, without the Hessian,
- `jvp`, how a forecast moves with the parameters, in memory that does not grow with its length,
- `elementwise_grad`, the slope of a curve at many points.
"""

import argparse
from pathlib import Path

import numpy as np

import mutangent as mt

STEP = 0.02  # seconds
EVERY = 10  # steps between two observations
OBSERVATIONS = 40
NOISE = 0.03  # radians
NAMES = ("frequency", "damping", "angle at 0")
TRUE = np.array([2.0, 0.25, 1.2])
GUESS = np.array([2.2, 0.1, 1.0])


@mt.differentiable
class Pendulum:
    frequency: float
    damping: float
    angle: float
    rate: float = 0.0

    def step(self):
        """Move on by one step of the semi-implicit Euler method, in place."""
        self.rate = self.rate + STEP * (self.torque(self.angle) - self.damping * self.rate)
        self.angle = self.angle + STEP * self.rate

    def torque(self, angle):
        return -(self.frequency**2) * np.sin(angle)


def angles(parameters, observations=OBSERVATIONS):
    """Return the angle at the time of each observation."""
    pendulum = Pendulum(parameters[0], parameters[1], parameters[2])
    seen = []
    for _ in range(observations):
        for _ in range(EVERY):
            pendulum.step()
        seen.append(pendulum.angle)
    return np.stack(seen)


def loss_of(observed):
    """Return the negative logarithm of the likelihood; an observation that is missing, a nan, takes no part."""
    return lambda parameters: 0.5 * np.nansum(((angles(parameters) - observed) / NOISE) ** 2)


def gauss_newton(observed, parameters, steps=6):
    """Return the parameters that fit best, and the loss before each step."""
    seen = np.isfinite(observed)
    losses = []
    for _ in range(steps):
        residuals = (angles(parameters) - observed)[seen] / NOISE
        jacobian = mt.jacobian(angles)(parameters)[seen] / NOISE
        losses.append(0.5 * np.sum(residuals**2))
        parameters = parameters - np.linalg.lstsq(jacobian, residuals)[0]
    return parameters, losses


def forecast(parameters, covariance, observations):
    """Return the angles to come and their standard errors, one push for each independent direction of the covariance."""
    variance = 0.0
    for direction in np.linalg.cholesky(covariance).T:
        predicted, moved = mt.jvp(lambda p: angles(p, observations), (parameters,), (direction,))
        variance = variance + moved**2
    return predicted, np.sqrt(variance)


def draw(observed, predicted, error, path):
    """Save a picture of the observations, the fit and the forecast."""
    try:
        import matplotlib as mpl  # noqa: PLC0415 - only this part needs it
    except ModuleNotFoundError as missing:
        raise SystemExit(
            f"{missing.name} is missing; it comes with the extra `examples`: pip install 'mutangent[examples]'"
        ) from missing
    mpl.use("Agg")  # a picture in a file; no window
    import matplotlib.pyplot as plt  # noqa: PLC0415

    time = STEP * EVERY * (1 + np.arange(len(predicted)))
    figure, axes = plt.subplots(figsize=(8, 4), layout="constrained")
    axes.fill_between(
        time, predicted - 2 * error, predicted + 2 * error, alpha=0.3, label="two standard errors"
    )
    axes.plot(time, predicted, label="fit and forecast")
    axes.plot(time[: len(observed)], observed, ".", label="observed")
    axes.set(xlabel="time in s", ylabel="angle in rad")
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    plt.close(figure)


def main():
    """Make observations, fit, and print what the derivatives say."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of the noise (default: 0)")
    parser.add_argument("--picture", type=Path, help="where to save a picture of the fit")
    options = parser.parse_args()

    rng = np.random.default_rng(options.seed)
    observed = angles(TRUE) + NOISE * rng.normal(size=OBSERVATIONS)
    observed[rng.random(OBSERVATIONS) < 0.25] = np.nan
    print(f"{np.sum(np.isfinite(observed))} of {OBSERVATIONS} observations")

    fitted, losses = gauss_newton(observed, GUESS)
    print("loss before each step: " + " ".join(f"{loss:.4g}" for loss in losses))

    loss = loss_of(observed)
    print(f"largest slope left: {np.max(np.abs(mt.grad(loss)(fitted))):.1e}")
    hessian = mt.hessian(loss)(fitted)
    covariance = np.linalg.inv(hessian)
    errors = np.sqrt(np.diag(covariance))
    print("\nparameter       true   fitted   standard error")
    for name, true, value, error in zip(NAMES, TRUE, fitted, errors, strict=True):
        print(f"{name:12} {true:7.3f} {value:8.4f} {error:12.4f}")

    direction = rng.normal(size=3)
    (product,) = mt.hvp(loss, (fitted,), (direction,))
    print(f"\nHessian times a direction, and by hvp: {hessian @ direction} {product}")

    predicted, error = forecast(fitted, covariance, 2 * OBSERVATIONS)
    print(
        f"standard error of the angle: {error[0]:.4f} at the start, {error[-1]:.4f} at the end of the forecast"
    )

    pendulum = Pendulum(fitted[0], fitted[1], 0.0)
    at = np.array([0.0, 1.0, 2.0, 3.0])
    stiffness = -mt.elementwise_grad(pendulum.torque)(at)
    print("stiffness at " + ", ".join(f"{x:.0f}: {k:.3f}" for x, k in zip(at, stiffness, strict=True)))

    if options.picture is not None:
        draw(observed, predicted, error, options.picture)


if __name__ == "__main__":
    main()
