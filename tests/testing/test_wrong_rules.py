"""Wrong rules are found out, each kind of mistake by a sentence that names it."""

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads, check_rrule

# ---------------------------------------------------------------- rules of functions


def rule_of(function, rule):
    """A fresh primitive of `function` with this rule."""
    return mt.primitive(function).rrule(rule)


def product_with(pullback_of):
    """The product of two numbers with a pullback of its own; `pullback_of(x, y)` makes it."""
    return rule_of(lambda x, y: x * y, lambda x, y: (x * y, pullback_of(x, y)))


PAIR = (np.array([1.0, 2.0, 3.0]), np.array([0.5, -1.5, 2.5]))

WRONG_PRODUCTS = {
    "missing factor": (
        lambda x, y: lambda g: (g, x * g),
        "They disagree the most in the derivative of the result",
    ),
    "wrong sign": (lambda x, y: lambda g: (y * g, -x * g), r"with respect to args\[1\] at \[\d\]"),
    "swapped tangents": (lambda x, y: lambda g: (x * g, y * g), "They disagree the most"),
    "forgotten argument": (lambda x, y: lambda g: (y * g, mt.ZeroTangent()), r"with respect to args\[1\]"),
    "no tangent space": (lambda x, y: lambda g: (mt.NoTangent(), x * g), r"with respect to args\[0\]"),
    "lost cotangent": (lambda x, y: lambda g: (y + 0 * g, x + 0 * g), "They disagree the most"),
    "wrong shape": (
        lambda x, y: lambda g: (np.sum(y * g), x * g),
        r"args\[0\] is .*\(3,\).* returned .*\(\)",
    ),
    "a row too many": (
        lambda x, y: lambda g: ((y * g)[None], x * g),
        r"args\[0\] is .*\(3,\).* returned .*\(1, 3\)",
    ),
    "wrong dtype": (
        lambda x, y: lambda g: ((y * g).astype(np.float32), x * g),
        r"args\[0\] .*float64.*float32",
    ),
    "complex tangent": (lambda x, y: lambda g: (y * g * (1 + 0j), x * g), r"args\[0\] .*float64.*complex128"),
    "integer tangent": (lambda x, y: lambda g: (np.zeros(3, int), x * g), r"args\[0\] .*float64.*int64"),
    "one tangent for two": (lambda x, y: lambda g: (y * g,), "returned 1 tangents for 2 arguments"),
    "a list of tangents": (lambda x, y: lambda g: [y * g, x * g], "returned a list for 2 arguments"),
    "no tuple": (lambda x, y: lambda g: y * g, "ndarray.* for 2 arguments"),
    "a string": (lambda x, y: lambda g: ("dx", x * g), r"returned a str"),
    "an object's tangent": (lambda x, y: lambda g: (mt.Tangent(Cell, w=1.0), x * g), "returned a Tangent"),
}


@mt.differentiable
class Cell:
    w: float


@pytest.mark.parametrize("mistake", WRONG_PRODUCTS)
def test_a_wrong_rule_of_a_function_is_found(mistake):
    pullback_of, words = WRONG_PRODUCTS[mistake]
    with pytest.raises(AssertionError, match=words):
        check_rrule(product_with(pullback_of), *PAIR)


def test_a_pullback_that_writes_into_an_argument_is_stopped_by_numpy():
    with pytest.raises(ValueError, match="read-only"):
        check_rrule(product_with(lambda x, y: lambda g: (np.multiply(g, y, out=y), x * g)), *PAIR)


def test_a_pullback_that_writes_into_its_cotangent_is_stopped_by_numpy():
    with pytest.raises(ValueError, match="read-only"):
        check_rrule(product_with(lambda x, y: lambda g: (np.multiply(g, y, out=g), x * g)), *PAIR)


@pytest.mark.parametrize(
    "mistake", ["missing factor", "wrong sign", "swapped tangents", "forgotten argument", "lost cotangent"]
)
def test_a_wrong_rule_within_a_function_is_found(mistake):
    product = product_with(WRONG_PRODUCTS[mistake][0])
    with pytest.raises(AssertionError, match="They disagree the most"):
        check_grads(lambda x, y: np.sum(np.tanh(product(x, y))), PAIR, order=1)


@pytest.mark.parametrize(
    "mistake", ["missing factor", "wrong sign", "swapped tangents", "forgotten argument", "lost cotangent"]
)
def test_a_wrong_rule_is_found_in_forward_mode(mistake):
    product = product_with(WRONG_PRODUCTS[mistake][0])
    with pytest.raises(AssertionError, match=r"order 1, mode 'fwd', seed 0: .*by the pushforward"):
        check_grads(lambda x, y: np.sum(np.tanh(product(x, y))), PAIR, modes=("fwd",))


def test_a_wrong_rule_for_forward_mode_is_found_beside_a_right_one_for_reverse_mode():
    square = rule_of(lambda x: x * x, lambda x: (x * x, lambda g: (2 * x * g,)))
    square.frule(lambda primals, tangents: (primals[0] ** 2, 3 * primals[0] * tangents[0]))
    for check in (lambda: check_rrule(square, 2.0), lambda: check_grads(square, (2.0,))):
        with pytest.raises(AssertionError, match=r"mode 'fwd', .*by the pushforward"):
            check()
    square.frule(lambda primals, tangents: (primals[0] ** 2, 2 * primals[0] * tangents[0]))
    check_rrule(square, 2.0)
    check_grads(square, (2.0,), order=3)


def test_a_derivative_that_is_another_one_in_forward_mode_is_found():
    # Too little for finite differences, and much more than rounding.
    def rule(x):
        def pullback(g):
            return (2 * x * g * (1 + 3e-6 * (type(g) is mt.TracedArray)),)

        return x**2, pullback

    with pytest.raises(
        AssertionError, match=r"by the pullback and .* by the pushforward; they may differ by"
    ):
        check_rrule(rule_of(lambda x: x**2, rule), np.array([1.0, 2.0]))


def test_a_wrong_flag_of_a_row_is_found_in_forward_mode():
    from mutangent import _rulebook
    from mutangent._apply import apply

    def squared(x):
        return x * x

    def call(x):
        return apply(_rulebook.rule(squared), (x,), {}) if type(x) is mt.TracedArray else squared(x)

    _rulebook.function(squared, lambda g, y, x: 2 * x * g, linear=True)
    try:
        check_grads(call, (np.array([1.0, 2.0]),), order=1, modes=("rev",))
        with pytest.raises(AssertionError, match="mode 'fwd'"):
            check_grads(call, (np.array([1.0, 2.0]),), order=1)
    finally:
        del _rulebook._rules[squared]


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, np.complex128])
@pytest.mark.parametrize("factor", [1.05, -1.0, 0.0])
def test_a_wrong_factor_is_found_in_every_dtype(dtype, factor):
    x, y = (a.astype(dtype) for a in PAIR)
    good = product_with(lambda x, y: lambda g: (np.conj(y) * g, np.conj(x) * g))
    check_rrule(good, x, y)
    wrong = product_with(lambda x, y: lambda g: (np.conj(y) * g, np.conj(x) * g * dtype(factor)))
    with pytest.raises(AssertionError, match=r"args\[1\]"):
        check_rrule(wrong, x, y)


def test_a_forgotten_conjugate_is_found():
    z = np.array([1.0 + 2.0j, 0.5 - 1.0j])
    with pytest.raises(AssertionError, match=r"the (real|imaginary) part of args"):
        check_rrule(product_with(lambda x, y: lambda g: (y * g, x * g)), z, z[::-1].copy())


def test_a_wrong_derivative_of_one_element_among_thousands_is_found_and_named():
    x = np.linspace(1.0, 2.0, 3000).reshape(50, 60)
    slip = np.ones((50, 60))
    slip[17, 42] = 1.01
    wrong = rule_of(lambda x: x**2, lambda x: (x**2, lambda g: (2 * x * g * slip,)))
    with pytest.raises(
        AssertionError, match=r"the result at \[17, 42\] with respect to args\[0\] at \[17, 42\]"
    ):
        check_rrule(wrong, x)


def test_the_second_of_two_results_is_found():
    def sincos_rule(x):
        return (np.sin(x), np.cos(x)), lambda g: (g[0] * np.cos(x) + g[1] * np.sin(x),)

    with pytest.raises(
        AssertionError, match=r"the result\[1\] with respect to args\[0\]: .* by the pullback"
    ):
        check_rrule(rule_of(lambda x: (np.sin(x), np.cos(x)), sincos_rule), 0.5)


def test_a_wrong_value_is_found():
    with pytest.raises(
        AssertionError, match=r"the result is .* after the plain run and .* after the recorded one"
    ):
        check_rrule(rule_of(lambda x: x**2, lambda x: (x**3, lambda g: (2 * x * g,))), 2.0)


def test_a_value_of_another_dtype_or_type_is_found():
    x = np.array([1.0, 2.0], np.float32)
    with pytest.raises(
        AssertionError, match=r"float32 after the plain run and .*float64 after the recorded one"
    ):
        check_rrule(
            rule_of(
                lambda x: x * 2,
                lambda x: (x * 2.0 * np.ones(2), lambda g: (np.float32(2) * g.astype(np.float32),)),
            ),
            x,
        )
    with pytest.raises(AssertionError, match="a tuple after the plain run and a list after the recorded one"):
        check_rrule(rule_of(lambda x: (x, x), lambda x: ([x, x], lambda g: (g[0] + g[1],))), 2.0)


def test_a_pullback_that_counts_its_calls_is_found():
    def rule(x):
        calls = []

        def pullback(g):
            calls.append(g)
            return (sum(calls) * 2,)

        return x * 2, pullback

    with pytest.raises(
        AssertionError, match=r"called a second time, the pullback gives another tangent of args\[0\]"
    ):
        check_rrule(rule_of(lambda x: x * 2, rule), np.array([1.0, 2.0]))


def test_a_pullback_that_returns_the_same_buffer_every_time_is_found():
    def rule(x):
        buffer = np.zeros(2)

        def pullback(g):
            buffer[:] += 2 * g
            return (buffer,)

        return x * 2, pullback

    with pytest.raises(AssertionError, match="called a second time"):
        check_rrule(rule_of(lambda x: x * 2, rule), np.array([1.0, 2.0]))


def test_a_wrong_second_derivative_with_a_right_first_one_is_found():
    # The saved value is a constant to the outer recording, so the first derivative does not depend on x.
    def rule(x):
        saved = mt.stop_gradient(x)
        return x**3, lambda g: (3 * saved**2 * g,)

    cube = rule_of(lambda x: x**3, rule)
    x = np.array([1.0, 2.0])
    check_rrule(cube, x)
    check_grads(cube, (x,), order=1)
    with pytest.raises(AssertionError, match=r"check_grads of .*, order 2, .*by the pullback"):
        check_grads(cube, (x,), order=2)


def test_a_wrong_third_derivative_is_found():
    def inner_rule(x):
        return x**2, lambda g: (2 * mt.stop_gradient(x) * g,)

    square = rule_of(lambda x: x**2, inner_rule)
    cube = rule_of(lambda x: x**3, lambda x: (x**3, lambda g: (3 * square(x) * g,)))
    check_grads(cube, (1.5,), order=2)
    with pytest.raises(AssertionError, match="order 3"):
        check_grads(cube, (1.5,), order=3)


# ---------------------------------------------------------------- rules of methods that mutate


def recur_with(rule):
    """A recurrent layer with one-unit cells, whose call has this rule."""

    @mt.differentiable
    class Recur:
        weight: np.ndarray
        state: np.ndarray

        @mt.primitive
        def __call__(self, x):
            self.state = np.tanh(self.weight * self.state + x)
            return self.state

        __call__.rrule(rule)

    return Recur(np.array([0.5, -0.7]), np.array([0.3, 0.2]))


def step(w, h, x):
    return np.tanh(w * h + x)


def right(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)

    def pullback(y_bar, written):
        z_bar = (y_bar + written[self].state) * (1 - y * y)
        return mt.Tangent(type(self), weight=z_bar * h, state=z_bar * w), z_bar

    return y, pullback


def test_the_right_rule_of_a_method_passes():
    m = recur_with(right)
    x = np.array([0.1, -0.4])
    check_rrule(m.__call__, x)
    check_rrule(type(m).__call__, m, x)
    check_grads(lambda m, xs: np.stack([m(x) for x in xs]), (m, np.array([[0.1, -0.4], [0.3, 0.2]])))
    assert m.state.tolist() == [0.3, 0.2]


def forgets_written(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)
    return y, lambda y_bar: (mt.Tangent(type(self), weight=y_bar * (1 - y * y) * h), y_bar * (1 - y * y))


def drops_the_new_state(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)

    def pullback(y_bar, written):
        z_bar = y_bar * (1 - y * y)
        return mt.Tangent(type(self), weight=z_bar * h, state=z_bar * w), z_bar

    return y, pullback


def forgets_the_old_state(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)

    def pullback(y_bar, written):
        z_bar = (y_bar + written[self].state) * (1 - y * y)
        return mt.Tangent(type(self), weight=z_bar * h), z_bar

    return y, pullback


def forgets_to_write(self, x):
    w, h = self.weight, self.state
    y = step(w, h, x)

    def pullback(y_bar):
        z_bar = y_bar * (1 - y * y)
        return mt.Tangent(type(self), weight=z_bar * h, state=z_bar * w), z_bar

    return y, pullback


def writes_something_else(self, x):
    y, pullback = right(self, x)
    self.state = 2 * self.state
    return y, pullback


def reads_the_state_late(self, x):
    w = self.weight
    self.state = step(w, self.state, x)
    y = self.state

    def pullback(y_bar, written):
        # self.state is here what the call left, or what any later call did.
        z_bar = (y_bar + written[self].state) * (1 - self.state**2)
        return mt.Tangent(type(self), weight=z_bar * mt.primal(self.state), state=z_bar * w), z_bar

    return y, pullback


def reads_the_new_state_late(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)

    def pullback(y_bar, written):
        z_bar = (y_bar + written[self].state) * (1 - self.state**2)
        return mt.Tangent(type(self), weight=z_bar * h, state=z_bar * w), z_bar

    return y, pullback


def swaps_fields(self, x):
    w, h = self.weight, self.state
    y = self.state = step(w, h, x)

    def pullback(y_bar, written):
        z_bar = (y_bar + written[self].state) * (1 - y * y)
        return mt.Tangent(type(self), weight=z_bar * w, state=z_bar * h), z_bar

    return y, pullback


def takes_the_state_for_the_tangent(self, x):
    _, pullback = right(self, x)
    return self.state, lambda y_bar, written: (written[self], pullback(y_bar, written)[1])


def gives_no_tangent_of_the_object(self, x):
    y, pullback = right(self, x)
    return y, lambda y_bar, written: (mt.NoTangent(), pullback(y_bar, written)[1])


def gives_an_array_for_the_object(self, x):
    y, pullback = right(self, x)
    return y, lambda y_bar, written: (y_bar, pullback(y_bar, written)[1])


def gives_the_tangent_of_another_class(self, x):
    y, pullback = right(self, x)
    return y, lambda y_bar, written: (mt.Tangent(Cell, w=1.0), pullback(y_bar, written)[1])


def widens_the_state(self, x):
    y, pullback = right(self, x)

    def widened(y_bar, written):
        m_bar, x_bar = pullback(y_bar, written)
        return mt.Tangent(type(self), weight=m_bar.weight, state=m_bar.state * np.ones((2, 1))), x_bar

    return y, widened


WRONG_METHODS = {
    forgets_written: (mt.RuleError, "Recur.state, but its pullback takes no `written`"),
    drops_the_new_state: (
        AssertionError,
        r"derivative of args\[0\]\.state as the call left it at \[\d\] with respect to",
    ),
    forgets_the_old_state: (AssertionError, r"with respect to args\[0\]\.state at"),
    forgets_to_write: (
        AssertionError,
        r"args\[0\]\.state is .* after the plain run and .* after the recorded one",
    ),
    writes_something_else: (AssertionError, r"args\[0\]\.state is .* after the plain run"),
    reads_the_state_late: (AssertionError, "They disagree the most"),
    swaps_fields: (AssertionError, r"with respect to args\[0\]\.(weight|state) at"),
    takes_the_state_for_the_tangent: (AssertionError, "They disagree the most"),
    gives_no_tangent_of_the_object: (AssertionError, r"args\[0\] is a Recur, but its tangent is a NoTangent"),
    gives_an_array_for_the_object: (
        AssertionError,
        r"args\[0\] is a Recur, but its tangent is a \w+\.ndarray",
    ),
    gives_the_tangent_of_another_class: (AssertionError, "is a Tangent of Cell, not a Tangent of Recur"),
    widens_the_state: (AssertionError, r"args\[0\]\.state is .*\(2,\).* returned .*\(2, 2\)"),
}


@pytest.mark.parametrize("rule", WRONG_METHODS, ids=lambda rule: rule.__name__)
def test_a_wrong_rule_of_a_method_is_found(rule):
    error, words = WRONG_METHODS[rule]
    with pytest.raises(error, match=words):
        check_rrule(recur_with(rule).__call__, np.array([0.1, -0.4]))


@pytest.mark.parametrize(
    "rule",
    [
        forgets_written,
        drops_the_new_state,
        forgets_the_old_state,
        forgets_to_write,
        reads_the_state_late,
        swaps_fields,
    ],
    ids=lambda rule: rule.__name__,
)
def test_a_wrong_rule_of_a_method_is_found_in_a_loop(rule):
    def loss(m, xs):
        return np.sum(np.stack([m(x) for x in xs]) ** 2)

    with pytest.raises((AssertionError, mt.RuleError)):
        check_grads(loss, (recur_with(rule), np.array([[0.1, -0.4], [0.3, 0.2], [-0.5, 0.6]])), order=1)


def test_a_pullback_may_read_a_field_as_its_own_call_left_it():
    def loss(m, xs):
        return np.sum(np.stack([m(x) for x in xs]) ** 2)

    check_rrule(recur_with(reads_the_new_state_late).__call__, np.array([0.1, -0.4]))
    xs = np.array([[0.1, -0.4], [0.3, 0.2], [-0.5, 0.6]])
    check_grads(loss, (recur_with(reads_the_new_state_late), xs), order=1)


@pytest.mark.parametrize(
    "rule",
    [forgets_written, drops_the_new_state, forgets_the_old_state, forgets_to_write, swaps_fields],
    ids=lambda rule: rule.__name__,
)
def test_a_wrong_rule_of_a_method_is_found_in_forward_mode(rule):
    def loss(m, xs):
        return np.sum(np.stack([m(x) for x in xs]) ** 2)

    with pytest.raises((AssertionError, mt.RuleError)):
        check_grads(loss, (recur_with(rule), np.array([[0.1, -0.4], [0.3, 0.2], [-0.5, 0.6]])), 1, ("fwd",))


def test_a_state_that_does_not_move_as_it_should_is_found_in_forward_mode():
    with pytest.raises(AssertionError, match=r"args\[0\]\.state as the call left it .* by the pushforward"):
        check_grads(lambda m, x: m(x) * 0.0, (recur_with(swaps_fields), np.array([0.1, -0.4])), 1, ("fwd",))


def test_a_pullback_may_read_fields_that_can_never_change():
    @mt.differentiable(frozen=True)
    class Scale:
        factor: np.ndarray

        @mt.primitive
        def __call__(self, x):
            return self.factor * x

        @__call__.rrule
        def __call__(self, x):
            def pullback(y_bar):
                return mt.Tangent(Scale, factor=y_bar * x), y_bar * self.factor

            return self.factor * x, pullback

    check_rrule(Scale(np.array([2.0, 3.0])).__call__, np.array([0.1, -0.4]))


# ---------------------------------------------------------------- the mistakes of the upstream rule


def sequence_with(pull):
    """A recurrent layer whose rule covers a whole sequence; `pull` turns the saved steps into tangents."""

    @mt.differentiable
    class Sequence:
        weight: np.ndarray
        state: np.ndarray

        @mt.primitive
        def __call__(self, xs):
            ys = []
            for x in xs:
                self.state = step(self.weight, self.state, x)
                ys.append(self.state)
            return np.stack(ys)

        @__call__.rrule
        def __call__(self, xs):
            w, states = self.weight, [self.state]
            for x in xs:
                states.append(step(w, states[-1], x))
            self.state = states[-1]

            def pullback(ys_bar, written):
                return pull(type(self), w, states, ys_bar, written[self].state)

            return np.stack(states[1:]), pullback

    return Sequence(np.array([[0.5], [-0.7]]), np.array([[0.3], [0.2]])), np.linspace(-0.6, 0.6, 18).reshape(
        3, 2, 3
    )


def sweep(w, states, ys_bar, last_bar):
    """Per step, from the last to the first, the cotangents of pre-activation and old state."""
    h_bar = last_bar
    for y, h, y_bar in zip(states[:0:-1], states[-2::-1], ys_bar[::-1], strict=True):
        z_bar = (y_bar + h_bar) * (1 - y * y)
        h_bar = z_bar * w
        yield z_bar, h, h_bar


def narrow(x, to=(2, 1)):
    return x if x.shape == to else np.sum(x, axis=1, keepdims=True)


def one_tangent_of_the_entry_state(cls, w, states, ys_bar, last_bar):
    steps = list(sweep(w, states, ys_bar, last_bar))
    w_bar = sum(narrow(z_bar * h) for z_bar, h, _ in steps)
    xs_bar = np.stack([z_bar for z_bar, _, _ in steps[::-1]])
    return mt.Tangent(cls, weight=w_bar, state=narrow(steps[-1][2], states[0].shape)), xs_bar


def the_tangents_of_all_states_in_one_slot(cls, w, states, ys_bar, last_bar):
    m_bar, xs_bar = one_tangent_of_the_entry_state(cls, w, states, ys_bar, last_bar)
    sum_of_all = sum(narrow(h_bar) for _, _, h_bar in sweep(w, states, ys_bar, last_bar))
    return mt.Tangent(cls, weight=m_bar.weight, state=sum_of_all), xs_bar


def a_tangent_as_wide_as_the_batch(cls, w, states, ys_bar, last_bar):
    m_bar, xs_bar = one_tangent_of_the_entry_state(cls, w, states, ys_bar, last_bar)
    *_, (_, _, wide) = sweep(w, states, ys_bar, last_bar)
    return mt.Tangent(cls, weight=m_bar.weight, state=wide), xs_bar


def steps_that_are_never_connected(cls, w, states, ys_bar, last_bar):
    z_bars = [y_bar * (1 - y * y) for y, y_bar in zip(states[1:], ys_bar, strict=True)]
    w_bar = sum(narrow(z_bar * h) for z_bar, h in zip(z_bars, states, strict=False))
    return mt.Tangent(cls, weight=w_bar, state=narrow(z_bars[0] * w)), np.stack(z_bars)


def the_final_state_forgotten(cls, w, states, ys_bar, last_bar):
    return one_tangent_of_the_entry_state(cls, w, states, ys_bar, 0 * last_bar)


def test_the_right_rule_of_a_sequence_passes():
    m, xs = sequence_with(one_tangent_of_the_entry_state)
    check_rrule(m.__call__, xs)
    check_grads(lambda m, xs: m(xs) * m(2 * xs), (m, xs))


@pytest.mark.parametrize(
    ("mistake", "words"),
    [
        (the_tangents_of_all_states_in_one_slot, r"with respect to args\[0\]\.state at"),
        (a_tangent_as_wide_as_the_batch, r"args\[0\]\.state is .*\(2, 1\).* returned .*\(2, 3\)"),
        (steps_that_are_never_connected, "They disagree the most"),
        (the_final_state_forgotten, r"derivative of args\[0\]\.state as the call left it"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_mistakes_of_the_upstream_rule_are_found(mistake, words):
    m, xs = sequence_with(mistake)
    with pytest.raises(AssertionError, match=words):
        check_rrule(m.__call__, xs)
