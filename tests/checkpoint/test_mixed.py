"""Random mixtures of what a checkpointed function may change, in calls within calls, some of which raise."""

import random
import types

import numpy as np
import pytest

import mutangent as mt
from tests.checkpoint import test_globals as changing


def program_of(seed):
    """A function of (p, decorate), which calls itself in parts, some of them decorated."""
    choose = random.Random(seed)

    def step_of(depth):
        if depth == 0 or choose.random() < 0.5:
            change = choose.choice(changing.FUNCTIONS)
            return lambda p, _: change(p, None)
        part, is_decorated, writes = part_of(depth - 1), choose.random() < 0.7, choose.random() < 0.3

        def step(p, decorate):
            call = decorate(lambda p: part(p, decorate)) if is_decorated else lambda p: part(p, decorate)
            try:
                result = call(p)
            except ValueError:
                result = p.t
            if writes:
                p.t = p.t + result
            return result

        return step

    def part_of(depth):
        steps = [(choose.choice([1.0, 2.0, 5.0]), step_of(depth)) for _ in range(choose.randint(1, 4))]
        fails = choose.random() < 0.2 and depth < 3

        def part(p, decorate):
            total = p.x * 0.5
            for weight, step in steps:
                total = total + weight * step(p, decorate)
            if fails:
                p.t = p.t + 3.0 * total
                raise ValueError("as planned")
            return total + p.t

        return part

    return part_of(3)


@mt.differentiable
class P:
    x: object = 0.0
    s: object = None
    t: object = 0.0

    count = changing.P.count


def found(program, decorate, sweeps, x):
    changing.start()
    p = P(x, [changing.Counting(), changing.count, types.SimpleNamespace(act=changing.count)])
    _, pullback = mt.vjp(lambda p: program(p, decorate), p)
    slopes = [(t.x, t.t) for t in (pullback(1.0)[0] for _ in range(sweeps))]
    return np.array(slopes, float), changing.left(), float(p.t)


@pytest.mark.parametrize("x", [0.0, 0.7])
@pytest.mark.parametrize("seed", range(60))
def test_mixtures_have_the_gradient_and_leave_the_state_of_the_plain_run(seed, x):
    program = program_of(seed)
    expected, left, t = found(program, lambda f: f, 1, x)
    again, left_by_checkpointed, t_by_checkpointed = found(program, mt.checkpoint, 2, x)
    np.testing.assert_allclose(again, np.broadcast_to(expected, again.shape), rtol=1e-9)
    assert left_by_checkpointed == left
    np.testing.assert_allclose(t_by_checkpointed, t)
