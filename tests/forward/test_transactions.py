"""Forward mode leaves what the plain run leaves, undoes all on a raise, keeps nothing, and stays in its thread."""

import gc
import threading
import tracemalloc
import weakref

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Model:
    weight: np.ndarray
    state: np.ndarray
    history: list
    steps: int = 0

    def __call__(self, x):
        self.weight[0] += x[0]
        self.state = np.tanh(self.weight * self.state + x)
        self.history.append(self.state)
        self.steps += 1
        return self.state


def model():
    return Model(np.array([0.5, -0.7]), np.array([0.3, 0.2]), [])


def traced_values():
    gc.collect()
    return [found for found in gc.get_objects() if type(found) is mt.TracedArray]


X, X_DOT = np.array([0.1, -0.4]), np.array([1.0, 2.0])
WEIGHT_DOT = np.array([1.0, -1.0])


def test_objects_are_left_as_by_the_plain_run():
    plain, pushed = model(), model()
    expected = plain(X)
    weight, history = pushed.weight, pushed.history
    out, _ = mt.jvp(lambda m, x: m(x), (pushed, X), (mt.Tangent(Model, weight=WEIGHT_DOT), X_DOT))
    np.testing.assert_array_equal(out, expected)
    assert pushed.weight is weight
    assert pushed.history is history
    np.testing.assert_array_equal(weight, plain.weight)
    assert type(history[0]) is np.ndarray
    assert (pushed.state is out, history[0] is out, pushed.steps) == (True, True, 1)


def test_a_raise_undoes_everything():
    m = model()
    weight, state, history = m.weight, m.state, m.history

    def f(m, x):
        m(x)
        raise KeyError("in the middle")

    with pytest.raises(KeyError, match="in the middle"):
        mt.jvp(f, (m, X), (mt.Tangent(Model, weight=WEIGHT_DOT), X_DOT))
    assert (m.weight is weight, m.state is state, m.history is history) == (True, True, True)
    assert (weight.tolist(), state.tolist(), history, m.steps) == ([0.5, -0.7], [0.3, 0.2], [], 0)


def test_a_raise_in_an_outer_recording_undoes_what_an_inner_one_committed():
    m = model()

    def f(x):
        mt.jvp(m, (x,), (X_DOT,))
        assert m.steps == 1
        raise KeyError

    for outer in (mt.grad(f), lambda x: mt.jvp(f, (x,), (x,)), mt.jacobian(f), mt.hessian(f)):
        with pytest.raises(KeyError):
            outer(X)
        assert (m.steps, m.history, m.weight.tolist()) == (0, [], [0.5, -0.7])


def test_no_traced_value_is_left():
    before = len(traced_values())
    m = model()
    kept = mt.jvp(lambda m, x: ([m(x), m(x)], m), (m, X), (mt.Tangent(Model, weight=WEIGHT_DOT), X_DOT))
    kept += mt.hvp(lambda x: np.sum(m(x)), (X,), (X_DOT,))
    kept += (mt.jacobian(m)(X), mt.hessian(lambda x: np.sum(m(x)))(X))
    assert len(traced_values()) == before
    assert kept


def test_nothing_waits_for_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = np.ones(3)
        reference = weakref.ref(x)
        mt.jvp(lambda x: np.sum(np.sin(x) * x), (x,), (np.ones(3),))
        del x
        assert reference() is None
    finally:
        gc.enable()


def test_a_traced_value_that_escapes_is_a_constant_elsewhere():
    kept = []

    def f(x):
        kept.append(x * 2.0)
        return x

    mt.jvp(f, (3.0,), (1.0,))
    assert kept[0] + 1.0 == 7.0
    assert mt.jvp(lambda x: x * kept[0], (1.0,), (1.0,)) == (6.0, 6.0)
    assert mt.grad(lambda x: x * kept[0])(1.0) == 6.0


# ---------------------------------------------------------------- memory


def peak_of(run):
    gc.collect()
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def rnn(steps):
    net = mt.nn.RNN(4, 32, rng=np.random.default_rng(0))
    x = np.ones((4, 16), np.float32)

    def f(net):
        for _ in range(steps):
            y = net(x)
        return y

    w = net.cell.Wh
    seed = mt.Tangent(type(net), cell=mt.Tangent(type(net.cell), Wh=np.ones_like(w)))
    return lambda: mt.jvp(f, (net,), (seed,))


def in_place(steps):
    def f(x):
        h = x
        for k in range(steps):
            h = h.copy()
            h[k % 8] *= 0.5
            row = h[1:3]
            row += h[:2]
        return h

    return lambda: mt.jvp(f, (np.ones(256),), (np.ones(256),))


def fresh_constants(steps):
    def f(x):
        for _ in range(steps):
            x = x * np.full(10_000, 0.5)  # too large to be copied by a tape
        return x

    return lambda: mt.jvp(f, (np.ones(10_000),), (np.ones(10_000),))


def views(steps):
    def f(xs):
        total = 0.0
        for k in range(steps):
            total = total + np.sum(xs[k % 8] * 2.0)
        return total

    return lambda: mt.jvp(f, (np.ones((8, 64)),), (np.ones((8, 64)),))


def ruled(steps):
    double = mt.primitive(lambda x: 2.0 * x)
    double.rrule(lambda x: (2.0 * x, lambda y_bar: (2.0 * y_bar,)))

    def f(x):
        for _ in range(steps):
            x = double(x) * 0.5
        return x

    return lambda: mt.jvp(f, (np.ones(256),), (np.ones(256),))


@mt.differentiable
class State:
    h: np.ndarray
    count: object = None


@mt.differentiable(slots=False)
class StateInDict:
    h: np.ndarray
    count: object = None


def objects(steps, cls=State):
    """A new state object for each step, and a list of a few that are kept."""

    def f(x):
        state, kept = cls(x), []
        for _ in range(steps):
            state = attrs.evolve(state, h=np.tanh(state.h * 0.5), count=cls(state.h))
            kept = [*kept[-3:], state]
        return sum(np.sum(each.h * each.count.h) for each in kept)

    return lambda: mt.jvp(f, (np.ones(256),), (np.ones(256),))


def objects_in_dicts(steps):
    return objects(steps, StateInDict)


@pytest.mark.parametrize(
    ("program", "steps"),
    [
        (objects, 400),
        (objects_in_dicts, 400),
        (rnn, 200),
        (in_place, 100),
        (fresh_constants, 100),
        (views, 200),
        (ruled, 50),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_memory_does_not_depend_on_the_number_of_steps(program, steps):
    program(20)()  # imports and caches
    few, many = peak_of(program(steps)), peak_of(program(10 * steps))
    assert many < 1.2 * few + 4096, (few, many)


# ---------------------------------------------------------------- threads


@pytest.mark.filterwarnings("ignore:.+ while a recording waited")
def test_two_threads_push_through_one_object_by_themselves():
    m = Model(np.array([2.0, 3.0]), np.array([0.3, 0.2]), [])
    inside = threading.Barrier(2, timeout=30)
    found = {}

    def push(number):
        def f(m, x):
            m.state = m.weight * x
            inside.wait()
            y = m.state * m.weight
            inside.wait()
            return y

        x = np.full(2, float(number))
        found[number] = mt.jvp(f, (m, x), (mt.Tangent(Model, weight=np.full(2, float(number))), np.zeros(2)))

    threads = [threading.Thread(target=push, args=(number,)) for number in (1, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=30)
    for number in (1, 2):
        out, out_dot = found[number]
        np.testing.assert_array_equal(out, m.weight**2 * number)
        np.testing.assert_array_equal(out_dot, 2 * m.weight * number**2)
    assert type(m.state) is np.ndarray


@pytest.mark.filterwarnings("ignore:.+ while a recording waited")
def test_another_thread_sees_no_traced_value():
    m = model()
    seen = []

    def f(m, x):
        m.state = m.state * x
        thread = threading.Thread(target=lambda: seen.append(m.state))
        thread.start()
        thread.join(timeout=30)
        return m.state

    mt.jvp(f, (m, X), (mt.ZeroTangent(), X_DOT))
    assert type(seen[0]) is np.ndarray
    assert seen[0].tolist() == [0.3, 0.2]


# ---------------------------------------------------------------- arrays written in place


def rows(x):
    buffer = np.zeros((4, 3), like=x)
    for k in range(4):
        buffer[k] = x * (k + 1)
        if k:
            buffer[k] += buffer[k - 1] * x
    return np.sum(buffer)


def rows_kept_as_views(x):
    buffer = np.zeros((4, 3), like=x)
    kept = []
    for k in range(4):
        buffer[k] = x * (k + 1)
        kept.append(buffer[k])
        buffer[0] *= 2.0
    return sum(np.sum(row * x) for row in kept)


def copies_under_other_names(x):
    buffer = np.zeros((2, 3), like=x)
    buffer[0] = x
    plus = buffer + 1.0  # in forward mode its tangent is the very array of the buffer's
    same = +buffer
    buffer[0] = x * 5.0
    buffer[1] = plus[0] * same[0]
    return np.sum(buffer * plus) + np.sum(same)


def overlapping(x):
    buffer = np.zeros(6, like=x)
    buffer[:3] = x
    buffer[1:] = buffer[:-1]
    buffer[2:5] += buffer[1:4]
    return np.sum(buffer * np.arange(6.0))


def through_transposes(x):
    buffer = np.zeros((3, 2), like=x)
    turned = buffer.T
    turned[0] = x
    buffer[1] = x[0] * turned[0, 2]
    buffer.reshape(-1)[3:] *= 2.0
    return np.sum(turned**2)


def replaced_by_constants(x):
    buffer = np.zeros(3, like=x)
    buffer[:] = x
    kept = buffer * 1.0
    buffer[1] = 7.0
    buffer[buffer > 6] = x[2]
    return np.sum(buffer**2) + np.sum(kept)


@pytest.mark.parametrize(
    "program",
    [
        rows,
        rows_kept_as_views,
        copies_under_other_names,
        overlapping,
        through_transposes,
        replaced_by_constants,
    ],
)
def test_tangents_that_are_written_in_place_reach_nobody_else(program):
    x, x_dot = np.array([0.5, -1.0, 2.0]), np.array([1.0, 0.3, -0.2])
    _, slope = mt.jvp(program, (x,), (x_dot,))
    assert slope == pytest.approx(np.sum(mt.grad(program)(x) * x_dot))
    np.testing.assert_array_equal(x_dot, [1.0, 0.3, -0.2])
    step = 1e-6
    numerical = (program(x + step * x_dot) - program(x - step * x_dot)) / (2 * step)
    assert slope == pytest.approx(numerical, rel=1e-5)


def test_writing_rows_copies_the_tangent_once():
    tangents = []

    def f(x):
        buffer = np.zeros((5, 3), like=x)
        for k in range(5):
            buffer[k] = x * k
            tangents.append(id(buffer._node))
        return np.sum(buffer)

    mt.jvp(f, (np.ones(3),), (np.ones(3),))
    assert len(set(tangents)) == 1


# ---------------------------------------------------------------- objects made inside


@pytest.mark.parametrize("cls", [State, StateInDict])
def test_objects_that_are_dropped_are_forgotten_and_others_are_not(cls):
    """Among many that come and go, those that a list, another object or a field holds keep their values."""
    root = cls(np.array([1.0, 2.0]))

    def f(root, x):
        kept, inner = [], cls(x)
        for k in range(500):
            made = cls(x * k, cls(x + k))
            if k % 100 == 0:
                kept.append(made)
        root.count = cls(inner.h * 2.0, cls(x * x))
        return sum(np.sum(each.h * each.count.h) for each in kept) + np.sum(root.count.count.h * inner.h)

    x, x_dot = np.array([0.5, -1.0]), np.array([1.0, 0.3])
    _, slope = mt.jvp(f, (root, x), (mt.ZeroTangent(), x_dot))
    assert slope == pytest.approx(np.sum(mt.grad(f, argnums=1)(cls(root.h), x) * x_dot))
    np.testing.assert_array_equal(root.count.h, x * 2.0)
    np.testing.assert_array_equal(root.count.count.h, x * x)
    assert type(root.count.h) is np.ndarray
