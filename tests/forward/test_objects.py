"""Forward mode through objects that the function changes: layers, swaps, sharing, containers, arrays in place, nesting."""

import copy
from typing import Any

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads


@mt.differentiable
class Filter:
    gain: float
    state: np.ndarray

    def __call__(self, x):
        self.state = self.state + self.gain * (x - self.state)
        return self.state


@mt.differentiable
class Pair:
    left: Any
    right: Any


@mt.differentiable
class Buffer:
    rows: np.ndarray
    scale: np.ndarray


@mt.differentiable
class Log:
    items: list
    named: dict
    last: Any = None


def layers():
    rng = np.random.default_rng(0)
    return {
        "RNN": mt.nn.RNN(2, 3, rng=rng, dtype=np.float64),
        "LSTM": mt.nn.LSTM(2, 3, rng=rng, dtype=np.float64),
        "GRU": mt.nn.GRU(2, 3, rng=rng, dtype=np.float64),
    }


def loss(m, xs):
    return np.sum(np.stack([m(x) for x in xs]) ** 2)


# ---------------------------------------------------------------- what moves


def test_a_pushforward_is_one_sum_over_fields():
    f = Filter(0.5, np.array([1.0, 2.0]))
    tangent = mt.Tangent(Filter, gain=1.0, state=np.array([0.0, 4.0]))
    x = np.array([3.0, 6.0])
    out, out_dot = mt.jvp(lambda f, x: f(x), (f, x), (tangent, mt.ZeroTangent()))
    np.testing.assert_array_equal(out, [2.0, 4.0])
    # (x - state) for the gain, and 1 - gain for the state.
    np.testing.assert_array_equal(out_dot, [2.0, 4.0 + 0.5 * 4.0])
    assert f.state is out


def test_the_tangent_of_an_object_that_is_returned_is_that_of_its_new_state():
    f = Filter(0.5, np.array([1.0, 2.0]))
    (_, left), (y_dot, f_dot) = mt.jvp(
        lambda f, x: (f(x), f), (f, np.array([3.0, 6.0])), (mt.Tangent(Filter, gain=2.0), np.ones(2))
    )
    assert left is f
    assert isinstance(f_dot, mt.Tangent)
    assert f_dot.gain == 2.0
    np.testing.assert_array_equal(f_dot.state, y_dot)
    np.testing.assert_array_equal(f_dot.state, [2.0 * 2.0 + 0.5, 2.0 * 4.0 + 0.5])


def test_the_tangent_of_a_graph_of_objects_shares_as_the_graph_does():
    shared = Filter(0.5, np.ones(2))
    pair = Pair(shared, shared)
    pair_dot = mt.jvp(lambda p: p, (pair,), (mt.ZeroTangent(),))[1]
    assert pair_dot.left is pair_dot.right
    cycle = Pair(1.0, None)
    cycle.right = cycle
    cycle_dot = mt.jvp(lambda p: p, (cycle,), (mt.Tangent(Pair, left=3.0),))[1]
    assert cycle_dot.right is cycle_dot
    assert cycle_dot.left == 3.0


def test_an_object_made_inside_has_a_tangent_too():
    def f(x):
        return Pair(x * x, {"three": 3.0 * x, "word": "no number"})

    made, dot = mt.jvp(f, (2.0,), (1.0,))
    assert (made.left, dot.left) == (4.0, 4.0)
    assert dot.right == {"three": 3.0, "word": mt.NoTangent()}


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_both_modes_agree_on_recurrent_layers(name, rng):
    check_grads(loss, (layers()[name], rng.normal(size=(3, 2, 4))))


@pytest.mark.parametrize("name", ["RNN", "LSTM", "GRU"])
def test_a_recurrent_layer_is_left_as_by_the_plain_run(name, rng):
    xs = rng.normal(size=(3, 2, 4))
    plain, pushed = (copy.deepcopy(layers()[name]) for _ in range(2))
    expected = loss(plain, xs)
    out, _ = mt.jvp(loss, (pushed, xs), (mt.ZeroTangent(), np.ones_like(xs)))
    np.testing.assert_allclose(out, expected, rtol=1e-14)
    for one, other in zip(np.atleast_1d(plain.state), np.atleast_1d(pushed.state), strict=True):
        np.testing.assert_allclose(other, one, rtol=1e-14)


def test_the_state_moves_on_from_call_to_call(rng):
    # Chunks chain exactly: the tangent that one call leaves is given to the next.
    xs, xs_dot = rng.normal(size=(2, 6, 2))
    start = Filter(0.3, np.array([0.1, -0.2]))
    seed = mt.Tangent(Filter, gain=1.0, state=np.array([1.0, -1.0]))
    _, whole = mt.jvp(lambda m, xs: [m(x) for x in xs], (copy.deepcopy(start), xs), (seed, xs_dot))
    dots = []
    tangent = seed
    for k in (0, 3):
        (_, _), (part, tangent) = mt.jvp(
            lambda m, xs: ([m(x) for x in xs], m), (start, xs[k : k + 3]), (tangent, xs_dot[k : k + 3])
        )
        dots += part
    np.testing.assert_allclose(dots, whole)


# ---------------------------------------------------------------- identity


def test_an_object_in_two_places_moves_once():
    shared = Filter(0.5, np.ones(1))
    tangent = mt.Tangent(Filter, gain=1.0)
    _, out_dot = mt.jvp(
        lambda p, m: p.left.gain * p.right.gain * m.gain,
        (Pair(shared, shared), shared),
        (mt.Tangent(Pair, left=tangent, right=tangent), tangent),
    )
    assert out_dot == 3 * 0.25


def test_an_object_moves_by_whatever_way_its_field_is_read_first():
    child = Filter(2.0, np.ones(1))
    parent = Pair([child], None)

    def f(parent):
        first = child.gain  # a closure, ahead of the field that the tangent comes by
        return first * parent.left[0].gain

    assert mt.jvp(f, (parent,), (mt.Tangent(Pair, left=[mt.Tangent(Filter, gain=1.0)]),))[1] == 4.0


def test_an_object_moves_after_the_field_that_leads_to_it_was_overwritten():
    child = Filter(2.0, np.ones(1))

    def f(parent):
        parent.left = None
        return child.gain**2

    tangent = mt.Tangent(Pair, left=mt.Tangent(Filter, gain=1.0))
    assert mt.jvp(f, (Pair(child, None),), (tangent,))[1] == 4.0


def test_a_cycle_of_tangents_is_normal():
    a, b = Pair(2.0, None), Pair(3.0, None)
    a.right, b.right = b, a
    ta, tb = mt.Tangent(Pair, left=1.0), mt.Tangent(Pair, left=10.0)
    ta._fields["right"], tb._fields["right"] = tb, ta
    assert mt.jvp(lambda a: a.left * a.right.right.right.left, (a,), (ta,))[1] == 1.0 * 3.0 + 2.0 * 10.0


def test_a_field_overwritten_before_it_is_read_does_not_matter():
    def f(m, x):
        m.state = 2.0 * x
        return m.state

    tangent = mt.Tangent(Filter, state=np.array([100.0]))
    _, out_dot = mt.jvp(f, (Filter(0.5, np.ones(1)), np.ones(1)), (tangent, np.ones(1)))
    np.testing.assert_array_equal(out_dot, [2.0])


def test_a_swap_swaps_tangents():
    def swap(p):
        p.left, p.right = p.right, p.left
        return p.left**2 * p.right, p

    pair = Pair(2.0, 3.0)
    (out, _), (out_dot, p_dot) = mt.jvp(swap, (pair,), (mt.Tangent(Pair, left=1.0, right=10.0),))
    assert (out, pair.left, pair.right) == (18.0, 3.0, 2.0)
    assert out_dot == 2 * 3.0 * 10.0 * 2.0 + 9.0 * 1.0
    assert (p_dot.left, p_dot.right) == (10.0, 1.0)
    check_grads(lambda p: swap(p)[0], (Pair(2.0, 3.0),))


# ---------------------------------------------------------------- containers


def append_and_change(log, x):
    log.items.append(log.items[0] * x)
    log.items[0] = x
    log.named["new"] = log.named.pop("old") * log.items[-1]
    log.last = (x, log.named["new"])
    return log.items[-1] + log.last[0]


def test_containers_in_fields_move():
    log = Log([2.0], {"old": 3.0})
    tangent = mt.Tangent(Log, items=[1.0], named={"old": 10.0})
    items = log.items
    (out, _), (out_dot, log_dot) = mt.jvp(
        lambda log, x: (append_and_change(log, x), log), (log, 5.0), (tangent, 0.0)
    )
    assert (out, log.items, log.named, log.last) == (15.0, [5.0, 10.0], {"new": 30.0}, (5.0, 30.0))
    assert log.items is items
    assert out_dot == 5.0
    assert log_dot.items == [0.0, 5.0]
    assert log_dot.named == {"new": 115.0}
    assert log_dot.last == (0.0, 115.0)
    check_grads(append_and_change, (Log([2.0], {"old": 3.0}), 5.0))


def test_the_items_of_a_dict_are_paired_by_their_keys():
    values, tangents = {"a": 2.0, "b": 3.0}, {"b": 10.0, "a": 1.0}
    assert mt.jvp(lambda d: d["a"], (values,), (tangents,))[1] == 1.0
    log = Log([], values)
    assert mt.jvp(lambda log: log.named["b"], (log,), (mt.Tangent(Log, named=tangents),))[1] == 10.0


# ---------------------------------------------------------------- arrays in place


def fill(buffer, x):
    for k in range(3):
        buffer.rows[k] = np.sin(buffer.rows[k - 1] + buffer.scale * x)
    buffer.rows[:, 0] *= 2.0
    view = buffer.rows[1:].T
    view += x
    buffer.rows[[0, 0, 2]] = np.stack([x, 2.0 * x, 3.0 * x])
    np.add.at(buffer.rows, ([0, 0], [1, 1]), x)
    buffer.rows[buffer.rows > 1.0] *= 0.5
    return np.sum(buffer.rows**2)


def test_arrays_written_in_place_move():
    rows = np.linspace(0.1, 0.9, 6).reshape(3, 2)
    buffer = Buffer(rows, np.array([0.5, 0.7]))
    x = np.array([0.3, -0.4])
    check_grads(fill, (buffer, x))
    held = buffer.rows
    out, _ = mt.jvp(fill, (buffer, x), (mt.Tangent(Buffer, rows=np.ones((3, 2))), np.ones(2)))
    assert buffer.rows is held
    plain = Buffer(np.linspace(0.1, 0.9, 6).reshape(3, 2), np.array([0.5, 0.7]))
    np.testing.assert_allclose(out, fill(plain, x), rtol=1e-14)
    np.testing.assert_allclose(buffer.rows, plain.rows, rtol=1e-14)


def test_an_argument_written_in_place_moves_and_the_tangent_given_does_not_change():
    def f(x):
        x[0] = x[1] * 3.0
        x *= 2.0
        return x

    x, x_dot = np.array([1.0, 2.0]), np.array([10.0, 1.0])
    out, out_dot = mt.jvp(f, (x,), (x_dot,))
    assert out is x
    np.testing.assert_array_equal(x, [12.0, 4.0])
    np.testing.assert_array_equal(out_dot, [6.0, 2.0])
    np.testing.assert_array_equal(x_dot, [10.0, 1.0])


def test_a_0_d_array_written_in_place_moves():
    def f(x):
        x[()] = np.sin(x)
        x *= 2.0
        return x

    x = np.array(0.5)
    out, out_dot = mt.jvp(f, (x,), (np.array(1.0),))
    assert out is x
    assert type(out_dot) is np.ndarray
    np.testing.assert_allclose(out_dot, 2.0 * np.cos(0.5))


def test_one_array_in_two_fields_is_written_once():
    def f(p):
        p.left[0] = p.left[1] * 2.0
        return p.right[0] * p.right[1]

    w = np.array([1.0, 3.0])
    tangent = mt.Tangent(Pair, left=np.array([0.0, 1.0]), right=np.array([0.0, 1.0]))
    assert mt.jvp(f, (Pair(w, w),), (tangent,))[1] == 2 * 2.0 * 3.0
    w = np.array([1.0, 3.0])
    check_grads(f, (Pair(w, w),), order=1)


def test_real_numbers_written_into_a_complex_array_stay_complex():
    def f(x, z):
        y = x + np.zeros(2, complex)  # the tangent of x is real
        y[0] = x
        y[1] = z
        return y

    _, dot = mt.jvp(f, (1.0, 1j), (1.0, 2.0 + 1j))
    np.testing.assert_array_equal(dot, [1.0, 2.0 + 1j])
    check_grads(f, (1.0, 1j))


# ---------------------------------------------------------------- memory of results


def test_a_result_has_a_tangent_of_its_own():
    x, x_dot = np.ones(2), np.array([1.0, 2.0])
    _, (a, b, c) = mt.jvp(lambda x: (x, x, x[:1]), (x,), (x_dot,))
    for dot in (a, b, c):
        dot[...] = 7.0
    np.testing.assert_array_equal(x_dot, [1.0, 2.0])
    assert not np.shares_memory(a, b)


def test_a_tangent_that_was_broadcast_can_be_written():
    _, dot = mt.jvp(lambda x: x + np.zeros((2, 3)), (1.0,), (1.0,))
    dot[0, 0] = 5.0
    assert dot[1, 1] == 1.0


# ---------------------------------------------------------------- nesting


def second(m, x):
    return np.sum(m(m(x)) ** 2)


def test_the_four_second_derivatives_are_one():
    x, v, w = np.array([0.4, -0.3]), np.array([1.0, 2.0]), np.array([-0.5, 0.25])

    def f(x):
        return second(Filter(0.3, x), np.tanh(x))

    def directional(g, v):
        return lambda x: mt.jvp(g, (x,), (v,))[1]

    def along(g, v):
        return lambda x: np.sum(mt.grad(g)(x) * v)

    found = [outer(inner(f, v), w)(x) for outer in (directional, along) for inner in (directional, along)]
    np.testing.assert_allclose(found, found[0], rtol=1e-12)
    np.testing.assert_allclose(w @ mt.hessian(f)(x) @ v, found[0], rtol=1e-12)


def test_derivatives_do_not_mix_when_forward_mode_is_nested():
    # d/dx (x * d/dy (x + y)) = 1, not 2.
    assert mt.jvp(lambda x: x * mt.jvp(lambda y: x + y, (1.0,), (1.0,))[1], (1.0,), (1.0,))[1] == 1.0
    assert mt.grad(lambda x: x * mt.jvp(lambda y: x + y, (1.0,), (1.0,))[1])(1.0) == 1.0
    assert mt.jvp(lambda x: x * mt.grad(lambda y: x + y)(1.0), (1.0,), (1.0,))[1] == 1.0


def test_an_inner_pushforward_may_change_the_object_of_the_outer_one(rng):
    def f(m, x):
        _, dot = mt.jvp(lambda m, x: m(x), (m, x), (mt.Tangent(Filter, state=m.state), x))
        return np.sum(dot * m.state)

    check_grads(f, (Filter(0.3, rng.normal(size=2)), rng.normal(size=2)))


def test_a_context_inside_sees_what_it_should():
    m = Filter(0.5, np.array([2.0]))

    def f(x):
        with mt.Context() as ctx:
            out = np.sum(m(x) ** 2)
        return ctx.grad(out, m).gain

    # d/dgain (state + gain (x - state))^2 = 2 y (x - state)
    value, dot = mt.jvp(f, (np.array([4.0]),), (np.array([1.0]),))
    assert (value, dot) == (12.0, 2 * 0.5 * 2.0 + 2 * 3.0)
    assert m.state.tolist() == [3.0]


@pytest.mark.parametrize("name", ["RNN", "GRU"])
def test_the_product_with_the_hessian_is_the_gradient_of_the_gradient(name, rng):
    xs = rng.normal(size=(3, 2, 4))
    v = rng.normal(size=xs.shape)
    one, other = (copy.deepcopy(layers()[name]) for _ in range(2))
    (m_dot, xs_dot) = mt.hvp(loss, (one, xs), (mt.ZeroTangent(), v))

    def along(m, xs):
        return np.sum(mt.grad(loss, argnums=1)(m, xs) * v)

    m_bar, xs_bar = mt.grad(along, argnums=(0, 1))(other, xs)
    np.testing.assert_allclose(xs_dot, xs_bar, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(m_dot.cell.Wh, m_bar.cell.Wh, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(one.state, other.state)


def test_a_hessian_through_an_object_is_the_gradient_of_the_gradient():
    xs = np.linspace(-1.0, 1.0, 4).reshape(2, 2)

    def f(xs, m):
        return loss(m, xs)

    found = mt.hessian(f)(xs, Filter(0.3, np.ones(2)))
    assert found.shape == (2, 2, 2, 2)
    for place in np.ndindex(2, 2):
        row = mt.grad(lambda xs, place=place: mt.grad(f)(xs, Filter(0.3, np.ones(2)))[place])(xs)
        np.testing.assert_allclose(found[place], row, atol=1e-14)


# ---------------------------------------------------------------- users' rules


def test_a_rule_on_a_method_serves_forward_mode():
    @mt.differentiable
    class Recur:
        w: np.ndarray
        state: np.ndarray

        @mt.primitive
        def __call__(self, x):
            self.state = np.tanh(self.w * self.state + x)
            return self.state

        @__call__.rrule
        def __call__(self, x):
            w, h = self.w, self.state
            y = self.state = np.tanh(w * h + x)

            def recur_pullback(y_bar, written):
                z_bar = (y_bar + written[self].state) * (1 - y * y)
                return mt.Tangent(Recur, w=z_bar * h, state=z_bar * w), z_bar

            return y, recur_pullback

    m = Recur(np.array([0.5, -0.7]), np.array([0.3, 0.2]))
    check_grads(loss, (m, np.array([[0.1, -0.4], [0.3, 0.2]])))


def test_a_pullback_that_reads_a_field_is_not_followed():
    @mt.differentiable(frozen=True)
    class Scale:
        factor: float

        @mt.primitive
        def __call__(self, x):
            return self.factor * x

        @__call__.rrule
        def __call__(self, x):
            return self.factor * x, lambda y_bar: (
                mt.Tangent(Scale, factor=np.sum(y_bar * x)),
                y_bar * self.factor,
            )

    _, dot = mt.jvp(
        lambda m, x: m(m(x)), (Scale(2.0), np.ones(2)), (mt.Tangent(Scale, factor=1.0), np.ones(2))
    )
    assert type(dot) is np.ndarray
    np.testing.assert_array_equal(dot, [8.0, 8.0])
    check_grads(lambda m, x: m(m(x)), (Scale(2.0), np.ones(2)))


def test_constants_stand_still():
    def f(x):
        with mt.pause():
            scale = x * 10.0
        return x * scale + mt.stop_gradient(x) + mt.primal(x)

    assert mt.jvp(f, (2.0,), (1.0,))[1] == 20.0


def test_an_infinite_derivative_is_no_warning():
    assert mt.jvp(np.sqrt, (0.0,), (1.0,))[1] == np.inf
    assert mt.jvp(np.linalg.norm, (np.zeros(2),), (np.ones(2),))[1] == 0.0


def test_a_decorated_function_has_it_as_an_attribute():
    @mt.differentiable
    def f(x, y):
        return x * y

    assert f.jvp((3.0, 4.0), (1.0, 0.5)) == (12.0, 5.5)
