import collections
import copy

import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, ZERO, Fields, three_ways

nn = mt.nn
LAYERS = [nn.RNN, nn.LSTM, nn.GRU]
every_layer = pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.__name__)


def arrays(state):
    return state if isinstance(state, tuple) else (state,)


def assert_same_state(got, want):
    for a, b in zip(arrays(got), arrays(want), strict=True):
        np.testing.assert_array_equal(a, b)


def ones_rnn(dtype=np.float64):
    return nn.Recur(
        nn.RNNCell(
            Wi=np.ones((3, 2), dtype),
            Wh=np.ones((3, 3), dtype),
            b=np.zeros(3, dtype),
            state0=np.zeros((3, 1), dtype),
        )
    )


# ---------------------------------------------------------------- the call


@every_layer
def test_a_sequence_gives_what_its_steps_give(rng, layer):
    m = layer(2, 3, rng=rng)
    x = rng.normal(size=(2, 4, 5)).astype(np.float32)
    by_steps = copy.deepcopy(m)
    steps = [by_steps(x[:, :, time]) for time in range(5)]
    y = m(x)
    assert y.shape == (3, 4, 5)
    np.testing.assert_array_equal(y, np.stack(steps, axis=-1))
    assert_same_state(m.state, by_steps.state)


@every_layer
def test_the_state_stays_from_call_to_call(rng, layer):
    m = layer(2, 3, rng=rng)
    x = rng.normal(size=(2, 4, 6)).astype(np.float32)
    at_once = copy.deepcopy(m)(x)
    np.testing.assert_array_equal(np.concatenate([m(x[:, :, :2]), m(x[:, :, 2:])], axis=-1), at_once)


@every_layer
def test_a_new_layer_is_float32_and_starts_from_zeros(rng, layer):
    m = layer(2, 3, rng=rng)
    for state in (*arrays(m.state), *arrays(m.cell.state0)):
        np.testing.assert_array_equal(state, np.zeros((3, 1)))
        assert state.dtype == np.float32
    for name in ("Wi", "Wh", "b"):
        assert getattr(m.cell, name).dtype == np.float32
    assert m.cell.b.ndim == 1
    assert m(np.ones((2, 4), np.float32)).dtype == np.float32


@every_layer
def test_another_dtype_holds_for_all_arrays_of_a_layer(rng, layer):
    m = layer(2, 3, rng=rng, dtype=np.float64)
    assert m(np.ones((2, 4))).dtype == np.float64
    assert {getattr(m.cell, name).dtype for name in ("Wi", "Wh", "b")} == {np.dtype(np.float64)}


@every_layer
def test_the_same_seed_gives_the_same_weights(layer):
    one, other = (layer(2, 3, rng=np.random.default_rng(7)) for _ in range(2))
    np.testing.assert_array_equal(one.cell.Wi, other.cell.Wi)
    np.testing.assert_array_equal(one.cell.Wh, other.cell.Wh)


@every_layer
def test_a_layer_asks_for_a_generator(layer):
    with pytest.raises(TypeError, match="rng"):
        layer(2, 3)
    with pytest.raises(TypeError, match=r"pass rng=np.random.default_rng\(seed\)"):
        layer(2, 3, rng=0)


def test_the_forget_gate_of_a_new_lstm_is_open(rng):
    np.testing.assert_array_equal(nn.LSTM(2, 2, rng=rng).cell.b, [0, 0, 1, 1, 0, 0, 0, 0])


def test_the_two_states_of_a_new_lstm_are_two_parameters(rng):
    h, c = nn.LSTM(2, 2, rng=rng).cell.state0
    assert h is not c


def test_the_activation_of_a_plain_layer_can_be_chosen(rng):
    m = nn.RNN(2, 3, rng=rng, activation=nn.relu)
    assert (m(rng.normal(size=(2, 50))) >= 0).all()


def test_any_function_of_state_and_input_is_a_cell():
    def loss(m, x):
        m(x)
        return m(x) ** 2

    three_ways(
        lambda: (nn.Recur(lambda s, x: (s * x, s * x), state=3.0), 2.0), loss, (Fields(state=96.0), 288.0)
    )


@every_layer
def test_a_layer_made_in_the_loss_is_differentiated(layer):
    def loss(x):
        m = layer(2, 3, rng=np.random.default_rng(1), dtype=np.float64)
        return np.sum(m(x) ** 2)

    three_ways(lambda: (np.linspace(-1, 1, 16).reshape(2, 2, 4),), loss, NUMERICAL)


# ---------------------------------------------------------------- gradients


def test_one_step_with_ones_gives_the_numbers_of_case_24(xp):
    x = xp.asarray([[1.0, 2.0], [3.0, 4.0]], np.float32)
    row = [0.0027782, 0.0082363]
    expected = Fields(
        cell=Fields(Wi=[row] * 3, Wh=np.zeros((3, 3)), b=[0.0027290] * 3, state0=ZERO),
        state=[[0.0081871]] * 3,
    )
    three_ways(lambda: (ones_rnn(np.float32), x), lambda m, x: np.sum(m(x) ** 2), (expected, ...), atol=6e-8)


def test_a_sequence_gives_a_state_gradient_of_three_by_one(xp):
    x = np.arange(1.0, 25.0).reshape(2, 3, 4, order="F")
    row = [0.0196545, 0.0392956]
    expected = Fields(
        cell=Fields(Wi=[row] * 3, Wh=np.zeros((3, 3)), b=[0.0196411] * 3, state0=ZERO),
        state=[[0.0589234]] * 3,
    )
    three_ways(
        lambda: (ones_rnn(), xp.asarray(x)), lambda m, x: np.sum(m(x) ** 2), (expected, ...), atol=1e-7
    )


def test_unsaturated_steps_give_case_25():
    cell = nn.RNNCell(np.full((3, 2), 0.1), np.full((3, 3), 0.2), np.zeros(3), np.zeros((3, 1)))
    x = np.arange(1.0, 25.0).reshape(2, 3, 4, order="F") / 24
    expected = Fields(cell=Fields(Wi=..., Wh=..., b=..., state0=ZERO), state=[[0.73046552]] * 3)
    three_ways(lambda: (nn.Recur(cell), x), lambda m, x: np.sum(m(x) ** 2), (expected, ...), atol=1e-8)


def test_an_rnn_without_activation_gives_case_28():
    cell = nn.RNNCell(
        np.array([[0.5, 0.25]]), np.array([[0.9]]), np.array([0.1]), np.zeros((1, 1)), activation=nn.identity
    )

    def loss(m):
        for column in ([1.0, 4.0], [2.0, 5.0], [3.0, 6.0]):
            y = m(np.array(column))
        return np.sum(np.abs(y - 21))

    expected = Fields(
        cell=Fields(Wi=[[-5.61, -13.74]], Wh=[[-5.23]], b=[-2.71], state0=ZERO), state=[[-0.729]]
    )
    three_ways(lambda: (nn.Recur(cell),), loss, (expected,))


@every_layer
def test_gradients_through_a_sequence_agree_with_finite_differences(rng, layer):
    m = layer(2, 3, rng=rng, dtype=np.float64)
    x = rng.normal(size=(2, 4, 3))
    mt.testing.check_grads(lambda m, x: m(x), (m, x), order=2)


@every_layer
def test_gradients_agree_whether_steps_are_a_loop_a_list_or_one_call(rng, layer):
    m = layer(2, 3, rng=rng, dtype=np.float64)
    x = rng.normal(size=(2, 4, 3))

    def by_loop(m, x):
        total = 0.0
        for time in range(3):
            total = total + np.sum(m(x[:, :, time]) ** 2)
        return total

    def by_list(m, x):
        return np.sum(np.stack([m(x[:, :, time]) for time in range(3)]) ** 2)

    gradients = [
        mt.grad(f, argnums=(0, 1))(copy.deepcopy(m), x)
        for f in (lambda m, x: np.sum(m(x) ** 2), by_loop, by_list)
    ]
    for dm, dx in gradients[1:]:
        np.testing.assert_allclose(dx, gradients[0][1], rtol=1e-12)
        for name in ("Wi", "Wh", "b"):
            np.testing.assert_allclose(dm.cell[name], gradients[0][0].cell[name], rtol=1e-12)
        for got, want in zip(arrays(dm.state), arrays(gradients[0][0].state), strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-12)


# ---------------------------------------------------------------- reset


@every_layer
def test_reset_puts_the_initial_state_back(rng, layer):
    m = layer(2, 3, rng=rng)
    x = rng.normal(size=(2, 4, 5)).astype(np.float32)
    first = m(x)
    nn.reset(m)
    assert_same_state(m.state, m.cell.state0)
    np.testing.assert_array_equal(m(x), first)


def test_reset_in_the_loss_moves_the_gradient_to_the_initial_state():
    # Case 23, with the weights of case 24.
    def loss(m, x):
        nn.reset(m)
        return np.sum(m(x) ** 2)

    x = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    expected = Fields(cell=Fields(Wi=..., Wh=..., b=..., state0=[[0.0081871]] * 3), state=ZERO)
    three_ways(lambda: (ones_rnn(np.float32), x), loss, (expected, ...), atol=6e-8)


def test_reset_in_the_loss_of_a_chain_gives_case_29():
    cell = nn.RNNCell(
        np.array([[2.0]]), np.array([[0.5]]), np.zeros(1), np.zeros((1, 1)), activation=nn.identity
    )
    m = nn.Chain(nn.Recur(cell), nn.Dense(np.array([[3.0]]), np.array([0.1])))

    def loss(m):
        nn.reset(m)
        return np.sum(m(np.ones((1, 4))))

    expected = Fields(
        layers=(
            Fields(cell=Fields(Wi=[[12.0]], Wh=[[0.0]], b=[12.0], state0=[[6.0]]), state=ZERO),
            Fields(W=[[8.0]], b=[4.0]),
        )
    )
    three_ways(lambda: (m,), loss, (expected,))


def test_reset_of_an_lstm_in_the_loss_reaches_both_initial_states(rng):
    m = nn.LSTM(2, 3, rng=rng, dtype=np.float64)
    m(rng.normal(size=(2, 4)))

    def loss(m, x):
        nn.reset(m)
        return np.sum(m(x) ** 2)

    mt.testing.check_grads(loss, (m, rng.normal(size=(2, 4, 2))), order=1)
    gradient = mt.grad(loss)(m, rng.normal(size=(2, 4, 2)))
    assert all((part != 0).all() for part in gradient.cell.state0)
    assert gradient.state == (mt.ZeroTangent(), mt.ZeroTangent())


@mt.differentiable
class Holder:
    parts: object
    other: object = None


def test_reset_finds_layers_in_objects_lists_tuples_and_dicts(rng):
    layers = [nn.RNN(2, 2, rng=rng) for _ in range(5)]
    m = Holder([layers[0], (layers[1],)], {"k": Holder(nn.Chain(layers[2], nn.Chain(layers[3]))), "n": 1})
    for layer in layers:
        layer(np.ones((2, 4)))
    nn.reset((m, layers[4]))
    assert [layer.state.shape for layer in layers] == [(2, 1)] * 5


def test_reset_ends_on_cycles_and_leaves_cells_alone(rng):
    m = Holder(nn.RNN(2, 2, rng=rng))
    m.other = m
    m.parts(np.ones((2, 4)))
    cell = m.parts.cell
    nn.reset(m)
    assert m.parts.cell is cell
    assert m.parts.state.shape == (2, 1)


def test_reset_knows_a_recurrent_layer_of_ones_own_by_its_fields():
    @mt.differentiable
    class Own:
        cell: nn.RNNCell
        state: np.ndarray = mt.field(trainable=False)

    m = Own(ones_rnn().cell, np.full((3, 4), 7.0))
    nn.reset(Holder(m))
    np.testing.assert_array_equal(m.state, np.zeros((3, 1)))


def test_reset_leaves_other_objects_with_a_state_alone():
    m = Holder(nn.Recur(lambda s, x: (s + x, s), state=3.0))
    nn.reset(m)
    assert m.parts.state == 3.0


def test_reset_needs_no_recursion(rng):
    m = layer = nn.RNN(2, 2, rng=rng)
    for _ in range(5000):
        m = Holder(m)
    layer(np.ones((2, 4)))
    nn.reset(m)
    assert layer.state.shape == (2, 1)


# ---------------------------------------------------------------- a batch that changes


@every_layer
@pytest.mark.parametrize("shape", [(2, 9), (2, 1), (2,), (2, 9, 5)], ids=str)
def test_another_batch_without_reset_is_refused_and_nothing_has_changed(rng, layer, shape):
    # Case 33; a batch of one would broadcast in NumPy, and is as wrong.
    m = layer(2, 3, rng=rng)
    m(np.ones((2, 32)))
    before, weights = m.state, m.cell.Wi
    message = r"Recur\.state is .*\(3, 32\).*mutangent\.nn\.reset"
    with pytest.raises(ValueError, match=message) as caught:
        m(np.ones(shape))
    assert str(shape) in str(caught.value)
    assert m.state is before
    with pytest.raises(ValueError, match=message):
        mt.grad(lambda m: np.sum(m(np.ones(shape))))(m)
    assert m.state is before
    assert m.cell.Wi is weights
    nn.reset(m)
    assert m(np.ones(shape)).shape == (3, *shape[1:])


@every_layer
def test_a_recording_that_meets_another_batch_after_a_few_steps_is_undone(rng, layer):
    m = layer(2, 3, rng=rng)
    before = m.state

    def loss(m):
        m(np.ones((2, 32)))
        return np.sum(m(np.ones((2, 9))))

    for _ in range(3):
        with pytest.raises(ValueError, match=r"Recur\.state"):
            mt.grad(loss)(m)
        assert m.state is before


def test_errors_of_the_cell_that_are_not_about_the_batch_come_through_unchanged():
    def cell(h, x):
        raise ValueError("mine")

    with pytest.raises(ValueError, match=r"^mine$"):
        nn.Recur(cell, state=np.zeros((3, 4)))(np.ones((2, 4)))
    with pytest.raises(ValueError, match=r"^matmul: "):
        ones_rnn()(np.ones((5, 4)))


# ---------------------------------------------------------------- arrays under two fields


def test_a_step_of_an_optimiser_moves_the_initial_state_and_not_the_state():
    m = ones_rnn()
    start = m.cell.state0
    assert m.state is start

    def loss(m, x):
        nn.reset(m)
        return np.sum(m(x) ** 2)

    gradient = mt.grad(loss)(m, np.array([[1.0, 2.0], [3.0, 4.0]]))
    nn.reset(m)
    mt.optim.SGD(1.0).update(m, gradient)
    np.testing.assert_allclose(m.cell.state0, -gradient.cell.state0)
    np.testing.assert_array_equal(m.state, np.zeros((3, 1)))
    np.testing.assert_array_equal(start, np.zeros((3, 1)))


def test_a_copy_has_a_state_of_its_own(rng):
    m = nn.LSTM(2, 3, rng=rng)
    other = copy.deepcopy(m)
    other(np.ones((2, 4)))
    assert m.state[0].shape == (3, 1)
    nn.reset(other)
    assert other.state[0] is other.cell.state0[0]
    assert other.state[0] is not m.state[0]


# ---------------------------------------------------------------- truncated back-propagation


@every_layer
def test_calls_that_keep_the_state_cut_the_gradient_at_the_call(rng, layer):
    m = layer(2, 3, rng=rng, dtype=np.float64)
    x = rng.normal(size=(2, 4, 6))
    warm = copy.deepcopy(m)
    warm(x[:, :, :3])
    cut = copy.deepcopy(warm)  # the same values without a history

    loss = lambda m, x: np.sum(m(x) ** 2)
    mt.grad(loss)(m, x[:, :, :3])
    kept, fresh = mt.grad(loss)(m, x[:, :, 3:]), mt.grad(loss)(cut, x[:, :, 3:])
    assert kept == fresh
    assert all(type(state) is np.ndarray for state in arrays(m.state))


def test_an_input_without_steps_is_refused_and_the_state_stays():
    net = nn.RNN(2, 3, rng=np.random.default_rng(0))
    before = net.state
    with pytest.raises(ValueError, match=r"at least one step, and this one is of shape \(2, 4, 0\)"):
        net(np.ones((2, 4, 0)))
    assert net.state is before


def test_a_batch_of_nobody_has_outputs_for_nobody():
    rng = np.random.default_rng(0)
    net = nn.Chain(nn.LSTM(2, 3, rng=rng), nn.Dense(3, 1, rng=rng))
    assert net(np.ones((2, 0, 5))).shape == (1, 0, 5)


def test_reset_finds_layers_in_deques():
    net = nn.RNN(2, 3, rng=np.random.default_rng(0))
    net(np.ones((2, 4)))
    nn.reset(collections.deque([(net,)]))
    assert net.state is net.cell.state0
