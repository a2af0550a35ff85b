"""Calibrate a stateful simulator with SciPy's L-BFGS: two rooms, their measured temperatures, unknown physics.

    python examples/calibrate_rooms.py

The rooms move their own temperatures on at every step, and both have the same kind of wall: one object, so that its
numbers are unknowns of both rooms, and once. `mt.ravel` gives SciPy the unknowns as one vector. `unravel` makes a new
house out of any vector, which starts from the same temperatures each time.
"""

import argparse

import numpy as np

import mutangent as mt

STEP = 0.25  # hours
STEPS = 128
AIR = 0.1  # kWh/K, the heat capacity of the air and the furniture of a room
NOISE = 0.05  # K, of the thermometers


@mt.differentiable
class Wall:
    conductance: float  # kW/K, from the air into the masonry
    capacity: float  # kWh/K


@mt.differentiable
class Room:
    wall: Wall
    window: float  # kW/K, lost to the outside
    air: float = mt.field(trainable=False, default=18.0)  # °C
    masonry: float = mt.field(trainable=False, default=15.0)

    def step(self, heating, outside):
        into_wall = self.wall.conductance * (self.air - self.masonry)
        lost = self.window * (self.air - outside)
        self.masonry = self.masonry + STEP * into_wall / self.wall.capacity
        self.air = self.air + STEP * (heating - into_wall - lost) / AIR


@mt.differentiable
class House:
    rooms: list
    door: float  # kW/K, between the rooms

    def step(self, heating, outside):
        kitchen, bedroom = self.rooms
        across = self.door * (kitchen.air - bedroom.air)
        kitchen.step(heating - across, outside)
        bedroom.step(across, outside)
        return kitchen.air, bedroom.air


def house(conductance, capacity, windows, door):
    wall = Wall(conductance, capacity)
    return House([Room(wall, window) for window in windows], door)


def weather(seed):
    """Return the heating power and the outside temperature at each step."""
    hours = STEP * np.arange(STEPS)
    rng = np.random.default_rng(seed)
    heating = np.repeat(rng.uniform(0.0, 2.0, STEPS // 16), 16)
    return heating, 5.0 + 4.0 * np.sin(2 * np.pi * (hours - 9) / 24)


def simulate(m, inputs):
    """Return the temperatures of both rooms at each step; the house has moved on."""
    return [m.step(heating, outside) for heating, outside in zip(*inputs, strict=True)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seed", type=int, default=0, help="of weather and noise")
    options = parser.parse_args()
    try:
        from scipy.optimize import minimize  # noqa: PLC0415 - says what is missing
    except ModuleNotFoundError as error:
        raise SystemExit("SciPy is missing: pip install 'mutangent[scipy]'") from error

    inputs = weather(options.seed)
    truth = house(0.12, 2.0, (0.03, 0.015), 0.06)
    true_vector, _ = mt.ravel(truth)
    noise = np.random.default_rng(options.seed + 1).normal(scale=NOISE, size=(STEPS, 2))
    measured = np.array(simulate(truth, inputs)) + noise

    def mean_square_error(m):
        errors = [
            (kitchen - seen[0]) ** 2 + (bedroom - seen[1]) ** 2
            for (kitchen, bedroom), seen in zip(simulate(m, inputs), measured, strict=True)
        ]
        return sum(errors) / len(errors)

    guess = house(0.05, 1.0, (0.02, 0.02), 0.02)
    vector, unravel = mt.ravel(guess)
    done = minimize(
        mt.value_and_grad(lambda v: mean_square_error(unravel(v))),
        vector,
        jac=True,
        method="L-BFGS-B",
        bounds=[(1e-3, None)] * len(vector),
        options={"ftol": 1e-12, "gtol": 1e-8},
    )
    fitted = unravel(done.x)

    names = [" = ".join(parameter.paths) for parameter in mt.tree.parameters(guess)]
    print(f"{'unknown':28}{'guess':>8}{'fitted':>8}{'true':>8}")
    for row in zip(names, vector, done.x, true_vector, strict=True):
        print("{:28}{:8.4f}{:8.4f}{:8.4f}".format(*row))
    print(
        f"{done.nfev} evaluations of value and gradient; error {done.fun:.5f} K², noise {2 * NOISE**2:.5f} K²"
    )
    print(f"the walls are still one object: {fitted.rooms[0].wall is fitted.rooms[1].wall}")
    print(f"the guess is where it was: air {guess.rooms[0].air} °C")
    if not np.allclose(done.x, true_vector, rtol=0.05):
        raise SystemExit("the fit is off by more than 5 %")


if __name__ == "__main__":
    main()
