"""A checkpointed function that raises, and whose caller catches it, leaves what the plain run does, in every mode."""

import copy
import gc
import weakref
from queue import SimpleQueue

import numpy as np
import pytest

import mutangent as mt


class Extra:
    """Not captured."""

    def __init__(self):
        self.count = 0


@mt.differentiable
class State:
    v: object
    w: object = None
    items: list = mt.field(factory=list)
    rng: object = mt.field(factory=lambda: np.random.default_rng(3))
    extra: object = mt.field(factory=Extra)


def writes_a_field(s, x):
    s.w = x * 5.0
    raise ValueError


def writes_an_array(s, x):
    s.v[0] *= x[1]
    s.v *= x
    raise ValueError


def writes_an_argument(s, x):
    x *= 3.0
    raise ValueError


def writes_a_list(s, x):
    s.items.append(x * 2.0)
    s.items.append(np.sum(s.v))
    raise ValueError


def draws_and_counts(s, x):
    s.extra.count += 1
    s.w = x * s.rng.normal()
    raise ValueError


def calls_a_checkpointed_function(s, x):
    s.v = s.v * x
    mt.checkpoint(writes_a_field)(s, x * 2.0)


def catches_within(s, x):
    try:
        mt.checkpoint(writes_an_array)(s, x)
    except ValueError:
        s.w = s.v * x
    raise ValueError


def writes_nothing(s, x):
    np.sin(x)
    raise ValueError


def writes_in_an_inner_recording(s, x):
    def inner(y):
        s.w = y * x
        return np.sum(y * s.v * s.v)

    s.v = mt.grad(inner)(x * 1.0)
    raise ValueError


FUNCTIONS = [
    writes_a_field,
    writes_an_array,
    writes_an_argument,
    writes_a_list,
    draws_and_counts,
    calls_a_checkpointed_function,
    catches_within,
    writes_nothing,
    writes_in_an_inner_recording,
]

X = np.array([1.5, 2.0])


def loss_of(step):
    def loss(s, x):
        y = x * 1.0
        try:
            step(s, y)
        except ValueError:
            y = y * 2.0
        total = np.sum(y * s.v * x) + np.sum(y**3)
        if s.w is not None:
            total = total + np.sum(s.w * x)
        return total + sum(np.sum(item * x) for item in s.items)

    return loss


def state():
    return State(np.array([0.5, 0.7]))


def picture(s):
    return [s.v, s.w, s.items, s.rng.bit_generator.state, s.extra.count]


def assert_same(a, b):
    np.testing.assert_equal(picture(a), picture(b))


@pytest.mark.parametrize("function", FUNCTIONS)
def test_what_was_written_before_the_raise_stays_in_reverse_mode(function):
    plain, ordinary, checked = state(), state(), state()
    value = loss_of(function)(plain, X)
    expected = mt.value_and_grad(loss_of(function), argnums=(0, 1))(ordinary, X)
    found = mt.value_and_grad(loss_of(mt.checkpoint(function)), argnums=(0, 1))(checked, X)
    np.testing.assert_allclose([found[0], expected[0]], [value, value])
    np.testing.assert_allclose(found[1][0].v, expected[1][0].v)
    np.testing.assert_allclose(found[1][1], expected[1][1])
    assert_same(checked, plain)
    assert_same(ordinary, plain)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("made", [lambda f: f, mt.checkpoint], ids=["outermost", "in a checkpoint"])
def test_all_modes_agree(function, made):
    step = mt.checkpoint(function)
    direction = np.array([0.3, -0.8])

    def f(x):
        s = state()
        return made(loss_of(step))(s, x)

    slope = np.sum(mt.grad(f)(X) * direction)
    np.testing.assert_allclose(mt.jvp(f, (X,), (direction,))[1], slope)
    along = lambda x: np.sum(mt.grad(f)(x) * direction)
    forward_over_reverse = mt.jvp(along, (X,), (direction,))[1]
    reverse_over_forward = mt.grad(lambda x: mt.jvp(f, (x,), (direction,))[1])(X)
    reverse_over_reverse = mt.grad(along)(X)
    np.testing.assert_allclose(reverse_over_forward, reverse_over_reverse)
    np.testing.assert_allclose(forward_over_reverse, np.sum(reverse_over_reverse * direction))


def test_an_error_that_nobody_catches_undoes_everything():
    s = state()
    before = copy.deepcopy(s)
    with pytest.raises(ValueError, match=r"^$"):
        mt.grad(lambda x: mt.checkpoint(catches_within)(s, x))(X)
    assert_same(s, before)


def test_a_function_that_has_written_nothing_is_not_run_again():
    calls = []

    def fails_once(x):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("the first time")
        return x**2

    def loss(x):
        step = mt.checkpoint(fails_once)
        try:
            return step(x)
        except ValueError:
            return step(x) * 3.0

    assert mt.grad(loss)(2.0) == 12.0


def test_a_function_that_raises_only_once_is_refused_if_it_has_written_something():
    failed = SimpleQueue()  # it is not put back for the second run

    def fails_once(s, x):
        s.w = x
        if failed.empty():
            failed.put(True)
            raise ValueError

    def loss(s, x):
        mt.checkpoint(fails_once)(s, x)
        return np.sum(x)

    with pytest.raises(
        mt.CheckpointError, match="raised an error after it had written something, and did not when"
    ):
        mt.grad(loss)(state(), X)


def test_a_raise_through_many_nested_calls_runs_each_as_often_as_it_is_deep():
    runs = 0

    def fail(s, depth):
        nonlocal runs
        s.w = s.v * 2.0
        if depth == 0:
            runs += 1
            raise ValueError
        mt.checkpoint(fail)(s, depth - 1)

    def loss(s):
        try:
            mt.checkpoint(fail)(s, 10)
        except ValueError:
            return np.sum(s.w**2)

    np.testing.assert_allclose(mt.grad(loss)(state()).v, [4.0, 5.6])
    assert runs <= 12


def test_a_refusal_of_the_librarys_leaves_nothing_behind():
    def loss(s, x):
        def refused(s):
            s.w = s.v * 2.0
            return float(s.w[0])

        with pytest.raises(mt.TracedValueError):
            mt.checkpoint(refused)(s)
        assert s.w is None
        return np.sum(s.v * x)

    np.testing.assert_allclose(mt.grad(loss, argnums=1)(state(), X), [0.5, 0.7])


@pytest.mark.parametrize("mode", ["grad", "jvp", "jvp of grad", "grad of jvp"])
def test_a_primitive_whose_rule_raises_leaves_nothing_behind_in_any_mode(mode):
    @mt.primitive
    def write(s, x):
        s.w = x * 5.0
        raise ValueError

    @write.rrule
    def write_rule(s, x):
        s.w = x * 5.0
        raise ValueError

    s = state()

    def f(x):
        s.w = x * 2.0
        try:
            write(s, x)
        except ValueError:
            return np.sum(s.w * x)

    ones = np.ones(2)
    run = {
        "grad": lambda: np.sum(mt.grad(f)(X)),
        "jvp": lambda: mt.jvp(f, (X,), (ones,))[1],
        "jvp of grad": lambda: mt.jvp(lambda x: np.sum(mt.grad(f)(x)), (X,), (ones,))[0],
        "grad of jvp": lambda: mt.value_and_grad(lambda x: mt.jvp(f, (x,), (ones,))[1])(X)[0],
    }[mode]
    assert run() == pytest.approx(np.sum(4.0 * X))
    np.testing.assert_array_equal(s.w, 2.0 * X)


def test_a_value_that_leaves_by_the_error_is_refused_and_not_a_constant():
    def loss(x):
        @mt.checkpoint
        def step(x):
            raise StopIteration(x * x)

        try:
            step(x)
        except StopIteration as error:
            return error.value * 1.0

    with pytest.raises(mt.CheckpointError, match="left it by a name"):
        mt.grad(loss)(3.0)


# -- compared with what is left when it is run again -------------------------------------------------------------------


def run_of():
    """Counts the runs, and is not put back."""
    runs = SimpleQueue()

    def number():
        runs.put(1)
        return runs.qsize()

    return number


# What a call leaves in run n, and what the error names.
LEFT = {
    "a number": (lambda s, x, n: setattr(s, "w", x[0] * n), r"State\.w"),
    "an array": (lambda s, x, n: setattr(s, "w", x * n), r"State\.w"),
    "a shape": (lambda s, x, n: setattr(s, "w", x[:n]), r"State\.w"),
    "an array in place": (lambda s, x, n: s.v.__setitem__(0, x[0] * n), r"an array of shape \(2,\)"),
    "a part of an array": (lambda s, x, n: s.v.__setitem__(n - 1, x[0]), r"an array of shape \(2,\)"),
    "an argument": (lambda s, x, n: x.__imul__(n), r"an array of shape \(2,\)"),
    "an item": (lambda s, x, n: s.items.append(x * n), "a list"),
    "how many items": (lambda s, x, n: s.items.extend([x] * n), "a list"),
    "a new object": (lambda s, x, n: setattr(s, "w", State(x * n)), r"State\.w"),
    "an item of a new object": (lambda s, x, n: setattr(s, "w", State(x, items=[x, x * n])), r"State\.w"),
    "another object": (lambda s, x, n: setattr(s, "w", s if n == 1 else State(x)), r"State\.w"),
    "a text": (lambda s, x, n: setattr(s, "w", "one" if n == 1 else "two"), r"State\.w"),
    "a field more": (lambda s, x, n: n == 1 or setattr(s, "w", x), r"State\.w"),
    "an array more": (lambda s, x, n: n == 1 or s.v.__setitem__(0, x[0]), r"an array of shape \(2,\)"),
    "an item more": (lambda s, x, n: n == 1 or s.items.append(x), "a list"),
    "a field less": (lambda s, x, n: n == 2 or setattr(s, "w", x), r"State\.w"),
}


@pytest.mark.parametrize("left", LEFT)
def test_something_else_that_the_repeated_call_leaves_is_an_error(left):
    write, where = LEFT[left]
    number = run_of()

    @mt.checkpoint
    def step(s, x):
        s.rng = None
        len(s.items), s.v * 1.0
        write(s, x, number())
        raise ValueError

    with pytest.raises(
        mt.CheckpointError, match=rf"raised ValueError after .*, it left something else in {where}\. "
    ):
        mt.grad(loss_of(step), argnums=1)(state(), X)


@pytest.mark.parametrize("left", LEFT)
def test_what_the_repeated_call_leaves_as_before_is_none(left):
    write, _ = LEFT[left]

    def step_of(decorate):
        def step(s, x):
            s.rng = None
            write(s, x, 2)
            raise ValueError

        return decorate(step)

    def loss_of(step):
        def loss(s, x):
            with pytest.raises(ValueError, match=r"^$"):
                step(s, x * 1.0)
            return np.sum(s.v * x)

        return loss

    expected = mt.grad(loss_of(step_of(lambda f: f)), argnums=(0, 1))(state(), X)
    found = mt.grad(loss_of(step_of(mt.checkpoint)), argnums=(0, 1))(state(), X)
    np.testing.assert_allclose(found[0].v, expected[0].v)
    np.testing.assert_allclose(found[1], expected[1])


@pytest.mark.parametrize(
    "error",
    [
        lambda x, n: ValueError() if n == 1 else KeyError(),
        lambda x, n: ValueError(f"in step {n}"),
        lambda x, n: ValueError("in step", n),
        lambda x, n: ValueError(float(n)),
    ],
)
def test_another_error_of_the_repeated_call_is_an_error(error):
    number = run_of()

    @mt.checkpoint
    def step(s, x):
        s.w = x
        raise error(x, number())

    with pytest.raises(
        mt.CheckpointError, match=r"raised ValueError after .*, it raised .*, which is another error"
    ):
        mt.grad(loss_of(step), argnums=1)(state(), X)


@pytest.mark.parametrize(
    "error",
    [
        lambda x: ValueError(f"bad {x!r} and {x[0] * 3!r}"),
        lambda x: ValueError(f"no number: {object()}"),
        lambda x: ValueError(x.shape, None, {"a": [1]}),
        lambda x: ValueError(object(), State(np.ones(2))),
    ],
)
def test_an_error_that_names_values_is_the_same_in_both_runs(error):
    @mt.checkpoint
    def step(s, x):
        s.w = x * 2.0
        raise error(x)

    def loss(s, x):
        with pytest.raises(ValueError):  # noqa: PT011 - texts of any kind
            step(s, x)
        return np.sum(s.w * x)

    np.testing.assert_allclose(mt.grad(loss, argnums=1)(state(), X), 4 * X)


def test_what_is_kept_to_be_compared_is_freed_with_the_gradient():
    made = SimpleQueue()

    @mt.checkpoint
    def step(s, x):
        s.w = State(x * 2.0)
        made.put(weakref.ref(s.w))
        raise ValueError

    def loss(s, x):
        with pytest.raises(ValueError, match=r"^$"):
            step(s, x)
        return np.sum(s.w.v * x)

    s = state()
    gc.collect()
    gc.disable()  # nothing waits for the collector of cycles
    try:
        mt.grad(loss, argnums=1)(s, X)
        assert made.get()() is None
        assert made.get()() is s.w
        del s.w
    finally:
        gc.enable()
