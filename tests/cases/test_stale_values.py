"""Cases 17 and 18: what an earlier recording left behind is a constant; counters steer and stay integers."""

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, Fields, three_ways


@mt.differentiable
class Store:
    s: object = 0.0


@mt.differentiable
class Counter:
    n: int = 0
    acc: object = 0.0


# ---------------------------------------------------------------- case 17


def test_a_value_that_an_earlier_recording_left_is_a_constant():
    o = Store()

    def leave(x):
        o.s = 2 * x
        return x**2

    for _ in range(3):
        assert mt.grad(leave)(3.0) == 6.0
        assert type(o.s) is float
        assert mt.grad(lambda x: o.s * x)(5.0) == 6.0
        assert mt.grad(lambda x: np.sin(o.s) * x)(5.0) == pytest.approx(-0.279415, abs=1e-6)
        _, pullback = mt.vjp(lambda x: o.s * x, 5.0)
        assert pullback(1.0) == pullback(1.0) == (6.0,)


def test_a_traced_value_kept_outside_objects_is_a_constant_after_its_recording(xp):
    kept = []

    def leave(x):
        kept.append(2 * x)
        return np.sum(x**2)

    for _ in range(3):
        kept.clear()
        mt.grad(leave)(xp.asarray([3.0, 1.0]))
        (old,) = kept
        np.testing.assert_array_equal(
            mt.grad(lambda x, old=old: np.sum(old * x))(xp.asarray([5.0, 5.0])), [6.0, 2.0]
        )
        np.testing.assert_allclose(np.sin(old), np.sin([6.0, 2.0]))
        assert np.asarray(old).tolist() == [6.0, 2.0]
        assert float(old[0]) == 6.0


def test_a_stale_value_is_not_a_source_of_the_next_recording():
    kept = []

    def loss(x):
        if kept:
            x = x + 0 * kept[-1]
        kept.append(x * x)
        return x * x * x

    for _ in range(3):
        assert mt.grad(loss)(2.0) == 12.0


def test_a_sum_over_iterations_keeps_only_numbers():
    total = 0.0
    o = Store(1.0)
    for _ in range(3):
        with mt.Context() as ctx:
            loss = (o.s * 3.0) ** 2
        assert ctx.grad(loss, o).s == 18.0
        total += loss
    assert float(total) == 27.0


def test_a_stale_value_put_back_into_a_field_is_a_constant():
    o, kept = Store(1.0), []

    def loss(x):
        kept.append(x * 2)
        return x

    mt.grad(loss)(3.0)
    o.s = kept[0]
    three_ways(lambda: (5.0,), lambda x: o.s * x, (6.0,))


def test_the_value_of_one_context_is_a_constant_of_the_next(xp):
    o = Store(xp.asarray([1.0, 2.0]))
    with mt.Context() as first:
        y = o.s * 2
    with mt.Context() as second:
        z = np.sum(o.s * y)
    np.testing.assert_array_equal(second.grad(z, o).s, [2.0, 4.0])
    np.testing.assert_array_equal(first.tangents(y, np.ones(2))[o].s, [2, 2])


# ---------------------------------------------------------------- case 18


def count_up(c, xs):
    for x in xs:
        c.n += 1
        c.acc += x * c.n
    return c.acc**2


def test_an_integer_counter_steers_the_weights():
    c = Counter()
    three_ways(lambda: (c, [1.0, 2.0, 3.0]), count_up, (Fields(acc=28.0), [28.0, 56.0, 84.0]))
    for run in (1, 2, 3):
        c.acc = 0.0
        mt.grad(count_up)(c, [1.0, 2.0, 3.0])
        assert c.n == 3 * run
        assert type(c.n) is int
        assert type(c.acc) is float


def test_a_counter_decides_a_branch_and_an_index(xp):
    def loss(c, table):
        for _ in range(4):
            c.n = (c.n + 3) % 4
            c.acc = c.acc + table[c.n] * (2.0 if c.n > 1 else 1.0)
        return c.acc * table[c.n]

    three_ways(lambda: (Counter(2, 1.0), xp.asarray([0.5, -1.0, 2.0, 1.5])), loss, NUMERICAL)


def test_a_flag_a_name_and_none_are_written_as_in_the_plain_run():
    @mt.differentiable
    class Machine:
        x: float
        on: bool = False
        name: str = ""
        last: object = None

    def loss(m):
        for _ in range(3):
            m.on = not m.on
            m.name += "ab"
            m.x = m.x * 2 if m.on else m.x + 1
            m.last = m.x if m.on else None
        return m.last**2 * len(m.name)

    three_ways(lambda: (Machine(1.0),), loss, NUMERICAL)


def test_an_integer_array_that_a_traced_value_chose_is_kept_plain(xp):
    @mt.differentiable
    class Chooser:
        x: np.ndarray
        best: object = None

    def loss(o):
        o.best = np.argmax(o.x)
        return o.x[o.best] ** 2

    three_ways(lambda: (Chooser(xp.asarray([1.0, 3.0, 2.0])),), loss, (Fields(x=[0.0, 6.0, 0.0]),))
