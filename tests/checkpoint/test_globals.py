"""What a checkpointed function names globally: the second run finds it as the first one did, and it is changed once.

The factor `p.x` is 0, where nothing but the derivative shows what the second run met.
"""

import contextvars
import copy
import functools
import itertools
import threading
import types
import weakref

import numpy as np
import pytest

import mutangent as mt
from tests.checkpoint.test_remembered import WAYS

n = 0
state = {"n": 0}
log = []
table = np.array([1, 2])
weights = np.array([1.0, 2.0])
rng = np.random.default_rng(1)
numbers = itertools.count(1)
settings = types.ModuleType("settings")


class Counter:
    def __init__(self):
        self.n = 0

    def count(self):
        self.n += 1
        return self.n


counter = Counter()
scale = push = draw = view = special = part = reference = None


@mt.differentiable
class P:
    x: object = 0.0
    s: object = None

    def count(self):
        global n
        n += 1
        return self.x * n


class Counting:
    """An object of a class that is not decorated."""

    def count(self):
        global n
        n += 1
        return n


def count():
    global n
    n += 1
    return n


def names_a_counter(p, _):
    global n
    n += 1
    return p.x * n


def names_one_by_a_function(p, _):
    return p.x * count()


def names_one_within(p, _):
    def inner():
        return [count() for _ in range(2)][1]

    return p.x * inner()


def names_one_by_a_method_of_an_argument(p, _):
    return p.count()


def names_one_by_a_method_of_a_field(p, _):
    return p.x + p.s[0].count() * p.x


def names_one_by_a_function_in_a_field(p, _):
    return p.x * p.s[1]()


def names_one_by_a_function_in_an_attribute(p, _):
    return p.x * p.s[2].act()


def names_a_name_without_a_value(p, _):
    global last
    last = globals().get("last", 10) + 1
    return p.x * last


def names_a_module(p, _):
    settings.n += 1
    return p.x * settings.n


def names_a_dict(p, _):
    state["n"] += 1
    return p.x * state["n"]


def names_a_list(p, _):
    log.append(1)
    return p.x * len(log)


def names_an_array_of_integers(p, _):
    table[0] += 1
    return p.x * int(table[0])


def names_an_array(p, _):
    weights[0] += 1.0
    return p.x * float(weights[0])


def names_a_generator(p, _):
    return p.x * rng.normal()


def doubles(x):
    return 2 * x


def triples(x):
    return 3 * x


def names_a_function(p, _):
    global scale
    now = scale
    scale = doubles if scale is triples else triples
    return p.x * now(1)


def names_a_weak_reference(p, _):
    return p.x * weakref.ref(counter)().count() + p.x * reference().count()


def names_an_object(p, _):
    return p.x * counter.count()


def counting():
    counting.calls = getattr(counting, "calls", 0) + 1
    return counting.calls


def counting_from_the_start():
    counting_from_the_start.calls += 1
    return counting_from_the_start.calls


def names_a_function_that_gets_an_attribute(p, _):
    return p.x * counting()


def names_a_function_with_an_attribute(p, _):
    return p.x * counting_from_the_start()


class Meta(type):
    n = 0


class Register(metaclass=Meta):
    n = 0

    @classmethod
    def count(cls):
        cls.counted = getattr(cls, "counted", 0) + 1
        return cls.counted


def names_a_class(p, _):
    Register.n += 1
    return p.x * Register.n


def names_a_class_that_gets_an_attribute(p, _):
    return p.x * Register.count()


def names_a_metaclass(p, _):
    type(Register).n += 1
    return p.x * type(Register).n


def names_a_method_of_a_list(p, _):
    push(1)
    return p.x * len(log)


def names_a_method_of_a_generator(p, _):
    return p.x * draw()


def names_a_memoryview(p, _):
    view[0] += 1
    return p.x * view[0]


class Log(list):
    n = 0


def names_a_list_with_an_attribute(p, _):
    special.n += 1
    return p.x * special.n


def names_a_partial_with_an_attribute(p, _):
    part.n += 1
    return p.x * part.n


variable = contextvars.ContextVar("variable", default=3)


def names_a_context_variable(p, _):
    variable.set(variable.get() + 1)
    return p.x * variable.get()


local = threading.local()


def names_what_is_of_the_thread(p, _):
    local.n += 1
    return p.x * local.n


FUNCTIONS = [value for name, value in list(globals().items()) if name.startswith("names_")]


@pytest.fixture(autouse=True)
def fresh():
    start()
    yield
    start()


def start():
    global \
        n, \
        state, \
        log, \
        table, \
        weights, \
        rng, \
        numbers, \
        counter, \
        scale, \
        push, \
        draw, \
        view, \
        special, \
        part, \
        reference
    n, state, log, table, weights = 0, {"n": 0}, [], np.array([1, 2]), np.array([1.0, 2.0])
    rng, numbers, counter = np.random.default_rng(1), itertools.count(1), Counter()
    settings.n, scale = 0, doubles
    push, draw, view, special, part = (
        log.append,
        rng.normal,
        memoryview(bytearray(1)),
        Log(),
        functools.partial(max),
    )
    reference = weakref.ref(counter)
    counting_from_the_start.calls = Register.n = Meta.n = special.n = part.n = local.n = 0
    for place, name in ((counting, "calls"), (Register, "counted")):
        if hasattr(place, name):
            delattr(place, name)
    variable.set(3)
    globals().pop("last", None)


def left():
    return (
        scale.__name__,
        copy.deepcopy(
            (n, state, log, table.tolist(), weights.tolist(), counter.n, settings.n, globals().get("last"))
        ),
        (
            counting_from_the_start.calls,
            getattr(counting, "calls", None),
            (Register.n, Meta.n, getattr(Register, "counted", None)),
            (bytes(view), special.n, part.n, local.n, variable.get()),
        ),
        rng.normal(),
    )


def slopes(f):
    start()
    p = P(0.0, [Counting(), count, types.SimpleNamespace(act=count)])
    _, pullback = mt.vjp(lambda p: f(p, None), p)
    return [float(pullback(1.0)[0].x), float(pullback(1.0)[0].x)], left()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("function", FUNCTIONS)
def test_globals_are_as_in_the_first_run_and_afterwards_as_after_one(function, way):
    plain, checkpointed = way(function)
    expected, left_by_plain = slopes(plain)
    found, left_by_checkpointed = slopes(checkpointed)
    np.testing.assert_allclose(found, expected)
    assert left_by_checkpointed == left_by_plain


@pytest.mark.parametrize("function", FUNCTIONS)
def test_derivatives_of_derivatives_and_forward_mode_are_those_without_a_checkpoint(function):
    def found(f):
        start()
        p = lambda x: P(np.sin(x), [Counting(), count, types.SimpleNamespace(act=count)])
        along = lambda x: f(p(x), None) + f(p(x), None) ** 2
        return (
            mt.grad(mt.grad(along))(0.5),
            mt.jvp(along, (0.5,), (1.0,))[1],
            mt.jvp(mt.grad(along), (0.5,), (1.0,))[1],
        ), left()

    expected, left_by_plain = found(function)
    again, left_by_checkpointed = found(mt.checkpoint(function))
    np.testing.assert_allclose(again, expected)
    assert left_by_checkpointed == left_by_plain


def reads_a_counter(x):
    return x * n


def test_a_global_that_the_caller_binds_again_is_as_the_first_run_met_it():
    def loss(x):
        global n
        total = 0.0
        for n in range(1, 5):
            total = total + mt.checkpoint(reads_a_counter)(x) * n
        return total

    assert mt.grad(loss)(0.0) == 1 + 4 + 9 + 16
    assert n == 4


def takes_a_number(x):
    return x * next(numbers)


def takes_a_number_by_a_method(x):
    return x * take()


take = None


@pytest.mark.parametrize("function", [takes_a_number, takes_a_number_by_a_method])
def test_a_global_iterator_is_an_error(function):
    global take
    take = numbers.__next__
    with pytest.raises(mt.CheckpointError, match=r"took items from an iterator, itertools\.count, to which"):
        mt.grad(mt.checkpoint(function))(0.0)


def writes_and_raises(p):
    global n
    n += 1
    p.x = p.x * n
    raise ValueError


def test_a_global_is_counted_once_by_a_call_that_raises():
    def loss(x):
        p = P(x)
        for _ in range(3):
            with pytest.raises(ValueError, match=r"^$"):
                mt.checkpoint(writes_and_raises)(p)
        return p.x

    assert mt.grad(loss)(0.0) == 6.0
    assert n == 3


def test_long_sequences_are_counted_in_order():
    def step(x):
        return x * count()

    assert mt.grad(lambda x: sum(mt.checkpoint_sequence(step, [x] * 20)))(0.0) == sum(range(1, 21))
    assert n == 20
