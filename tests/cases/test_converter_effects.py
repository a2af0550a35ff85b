"""Converters and hooks that ask for a plain number are called more than once, and what else they do is done once.

They count, log and draw at random, before they ask or after it. State and gradient are those of the plain run.
"""

import collections
import functools
import io
import itertools
import random

import attrs
import numpy as np
import pytest

import mutangent as mt


class Tally:
    """An object of a class that is not captured."""

    def __init__(self):
        self.count = 0
        self.items = []


total = 0
TALLY = Tally()


def a_list():
    log = []
    return lambda _: log.append(1), lambda _: len(log)


def a_deque():
    log = collections.deque()
    return lambda _: log.append(1), lambda _: len(log)


def a_dict():
    seen = {}
    return lambda _: seen.update({len(seen): 1}), lambda _: len(seen)


def a_set():
    seen = set()
    return lambda _: seen.add(len(seen)), lambda _: len(seen)


def an_array():
    counts = np.zeros(2)

    def effect(_):
        counts[0] += 1

    return effect, lambda _: counts.tolist()


def a_variable_of_a_closure():
    count = 0

    def effect(_):
        nonlocal count
        count += 1

    return effect, lambda _: count


def a_global():
    global total
    total = 0

    def effect(_):
        global total
        total += 1

    return effect, lambda _: total


def an_attribute_of_a_global():
    TALLY.__init__()

    def effect(_):
        TALLY.count += 1
        TALLY.items.append(1)

    return effect, lambda _: (TALLY.count, len(TALLY.items))


def an_attribute_of_a_function():
    def effect(_):
        effect.calls = getattr(effect, "calls", 0) + 1

    return effect, lambda _: effect.calls


def a_generator():
    rng = np.random.default_rng(0)
    return lambda _: rng.normal(), lambda _: rng.bit_generator.state


def a_generator_of_python():
    rng = random.Random(0)
    return lambda _: rng.random(), lambda _: rng.getstate()


def the_global_generators():
    np.random.seed(0)  # noqa: NPY002 - the global generator is what is tested
    random.seed(0)

    def effect(_):
        np.random.normal()  # noqa: NPY002
        random.gauss(0.0, 1.0)

    return effect, lambda _: (np.random.get_state()[1:], random.getstate())  # noqa: NPY002


def a_buffer():
    file = io.StringIO()
    return lambda _: file.write("x"), lambda _: file.getvalue()


def nothing():
    return lambda _: None, lambda _: None


def a_captured_number(o=None):
    def effect(o):
        o.count = o.count + 1

    return effect, lambda o: o.count


def a_captured_float():
    def effect(o):
        o.level = o.level * 0.5

    return effect, lambda o: float(o.level)


def a_captured_list():
    return lambda o: o.log.append(1), lambda o: len(o.log)


def a_captured_set():
    return lambda o: o.seen.add(len(o.seen)), lambda o: len(o.seen)


def a_captured_array():
    def effect(o):
        o.buffer[0] += 1.0

    return effect, lambda o: o.buffer.tolist()


def a_captured_view():
    def effect(o):
        o.buffer[1:][0] += 1.0

    return effect, lambda o: o.buffer.tolist()


def a_captured_array_in_a_list():
    def effect(o):
        o.buffers[0][0] += 1.0

    return effect, lambda o: o.buffers[0].tolist()


def a_captured_array_of_integers():
    def effect(o):
        o.counts[0] += 1

    return effect, lambda o: o.counts.tolist()


def a_generator_in_a_field():
    return lambda o: o.rng.normal(), lambda o: o.rng.bit_generator.state


def an_attribute_that_is_no_field():
    def effect(o):
        o.extra = getattr(o, "extra", 0) + 1

    return effect, lambda o: o.extra


def an_attribute_of_the_class():
    def effect(o):
        type(o).calls += 1

    return effect, lambda o: type(o).calls


def a_field_that_is_deleted():
    def effect(o):
        if hasattr(o, "level"):
            del o.level

    return effect, lambda o: hasattr(o, "level")


ELSEWHERE = [
    a_list,
    a_deque,
    a_dict,
    a_set,
    an_array,
    a_variable_of_a_closure,
    a_global,
    an_attribute_of_a_global,
    an_attribute_of_a_function,
    a_generator,
    a_generator_of_python,
    the_global_generators,
    a_buffer,
    nothing,
]
CAPTURED = [
    a_captured_number,
    a_captured_float,
    a_captured_list,
    a_captured_set,
    a_captured_array,
    a_captured_view,
    a_captured_array_in_a_list,
    a_captured_array_of_integers,
    a_generator_in_a_field,
    an_attribute_that_is_no_field,
    an_attribute_of_the_class,
    a_field_that_is_deleted,
]
CONVERSIONS = {
    "float": (lambda v: float(v) * 1, 1.5),
    "the same float": (float, 1.5),
    "a copy": (lambda v: np.asarray(v) + 0.0, np.array([1.5, 2.0])),
    "the same array": (np.asarray, np.array([1.5, 2.0])),
    "nothing plain": (lambda v: v * 1.0, np.array([1.5, 2.0])),
}


def with_effect(effect, convert, first, o, v):
    if first:
        effect(o)
    made = convert(v)
    if not first:
        effect(o)
    return made


def a_plain_converter(run):
    return mt.field(converter=lambda v: run(None, v), default=1.0)


def an_optional_one_in_a_pipe(run):
    pipe = attrs.converters.pipe(lambda v: run(None, v), lambda v: v)
    return mt.field(converter=attrs.converters.optional(pipe), default=1.0)


def a_converter_that_takes_the_object(run):
    return mt.field(converter=attrs.Converter(lambda v, o: run(o, v), takes_self=True), default=1.0)


def a_hook(run):
    return mt.field(on_setattr=lambda o, _, v: run(o, v), default=1.0)


def made_class(field):
    @mt.differentiable(slots=False)
    class Model:
        level: float = 8.0
        count: int = 0
        log: list = attrs.Factory(list)
        seen: set = attrs.Factory(set)
        buffer: np.ndarray = attrs.Factory(lambda: np.zeros(3))
        buffers: list = attrs.Factory(lambda: [np.zeros(3)])
        counts: np.ndarray = attrs.Factory(lambda: np.zeros(3, int))
        rng: object = attrs.Factory(lambda: np.random.default_rng(0))
        v: object = field

    Model.calls = 0
    return Model


def ways(x):
    x_dot = x * 0.0 + 1.0
    return {
        "grad": lambda f, m: mt.grad(f, argnums=1)(m, x),
        "vjp": lambda f, m: mt.vjp(f, m, x)[1](1.0)[1],
        "jvp": lambda f, m: mt.jvp(f, (m, x), (mt.ZeroTangent(), x_dot))[1] * x_dot / np.size(x),
        "history": lambda f, m: by_context(f, m, x),
        "checkpoint": lambda f, m: mt.grad(mt.checkpoint(f), argnums=1)(m, x),
        "nested": lambda f, m: mt.jvp(mt.grad(f, argnums=1), (m, x), (mt.ZeroTangent(), x_dot))[0],
    }


def by_context(f, m, x):
    with mt.Context(history=True) as ctx:
        x = ctx.watch(x)
        out = f(m, x)
    return ctx.grad(out, x)


def check(effect, field, conversion, first, way):
    convert, x = CONVERSIONS[conversion]

    def run_once(call):
        act, look = effect()
        model = made_class(field(functools.partial(with_effect, act, convert, first)))()

        def loss(m, x):
            m.v = x * 2.0
            return np.sum(m.v) * 3.0

        gradient = call(loss, model)
        return repr(look(model)), gradient

    plain, _ = run_once(lambda loss, m: loss(m, x))
    recorded, gradient = run_once(ways(x)[way])
    assert recorded == plain
    np.testing.assert_allclose(gradient, 6.0 * np.ones_like(x))


every_way = pytest.mark.parametrize("way", ["grad", "vjp", "jvp", "history", "checkpoint", "nested"])
every_conversion = pytest.mark.parametrize("conversion", CONVERSIONS)
before_or_after = pytest.mark.parametrize("first", [True, False], ids=["before", "after"])


@every_way
@before_or_after
@every_conversion
@pytest.mark.parametrize("effect", ELSEWHERE)
def test_what_a_converter_does_elsewhere_is_done_once(effect, conversion, first, way):
    check(effect, a_plain_converter, conversion, first, way)


@pytest.mark.parametrize(
    "field", [an_optional_one_in_a_pipe, a_converter_that_takes_the_object, a_hook], ids=lambda f: f.__name__
)
@before_or_after
@pytest.mark.parametrize("conversion", ["float", "a copy", "nothing plain"])
@pytest.mark.parametrize("effect", [a_list, a_variable_of_a_closure, a_generator, the_global_generators])
def test_so_it_is_for_converters_and_hooks_of_every_kind(effect, field, conversion, first):
    check(effect, field, conversion, first, "grad")


@every_way
@pytest.mark.parametrize(
    "field", [a_converter_that_takes_the_object, a_hook], ids=["converter", "on_setattr"]
)
@before_or_after
@pytest.mark.parametrize("conversion", ["float", "a copy", "nothing plain"])
@pytest.mark.parametrize("effect", CAPTURED)
def test_what_is_done_to_the_object_is_done_once(effect, field, conversion, first, way):
    check(effect, field, conversion, first, way)


def test_the_derivative_with_respect_to_a_field_that_a_hook_scales_is_that_of_once():
    def halve(o, attribute, v):
        if attribute.name == "v":
            o.scale = o.scale * 0.5
            return float(v)
        return v

    @mt.differentiable(on_setattr=halve)
    class Scaled:
        v: float
        scale: float

    def loss(m, x):
        m.v = x
        return m.v * m.scale

    assert mt.grad(loss, argnums=(0, 1))(Scaled(1.0, 8.0), 3.0) == (mt.Tangent(Scaled, scale=1.5), 4.0)


def test_a_converter_that_is_asked_again_meets_what_it_met():
    first = []

    def stay(v):  # what it was given first
        first.append(float(v))
        return first[0] * 1

    @mt.differentiable
    class Stays:
        v: object = mt.field(converter=stay)

    assert mt.grad(lambda x: Stays(x).v * 2.0)(3.0) == 2.0
    assert first == [3.0]
    with pytest.raises(mt.NotCapturedError, match="by a conversion that loses the gradient"):
        mt.grad(lambda x: Stays(x).v * 2.0)(4.0)


def test_a_hook_that_is_asked_again_meets_the_fields_that_it_met():
    def only_once(o, attribute, v):
        if attribute.name != "v":
            return v
        o.count = o.count + 1
        v = float(v)
        return v * v if o.count == 1 else v * 1  # 1 at 1

    @mt.differentiable(on_setattr=only_once)
    class Model:
        v: float = 0.0
        count: int = 0

    def loss(m, x):
        m.v = x
        return m.v

    with pytest.raises(mt.NotCapturedError, match="but not numbers near by, so it computes"):
        mt.grad(loss, argnums=1)(Model(), 1.0)


def test_to_be_asked_again_does_not_write_into_arrays_of_fields():
    def count(o, attribute, v):
        o.buffer[0] += 1.0
        return float(v) * 1

    @mt.differentiable
    class Model:
        buffer: np.ndarray
        v: float = mt.field(default=0.0, on_setattr=count)

    def loss(m, x):
        m.v = x
        return m.v * np.sum(m.buffer)

    m = Model(np.zeros(2))
    out, pullback = mt.vjp(loss, m, 3.0)
    assert (out, pullback(1.0)[1], m.buffer.tolist()) == (3.0, 1.0, [1.0, 0.0])


@pytest.mark.parametrize(
    ("take", "name"),
    [
        (itertools.count().__next__, "a count,"),
        (iter([1, 2, 3, 4]).__next__, "list_iterator"),
        (functools.partial(np.random.default_rng(0).spawn, 1), "Generator"),
    ],
    ids=["count", "iterator", "spawn"],
)
def test_what_cannot_be_put_back_is_refused(take, name):
    def number(v):
        take()
        return float(v) * 1

    @mt.differentiable
    class Model:
        v: object = mt.field(converter=number)

    with pytest.raises(mt.NotCapturedError) as error:
        mt.grad(lambda x: Model(x).v)(3.0)
    assert str(error.value).startswith(
        "the converter number of Model.v asks for a plain number, so it is called more"
    )
    assert name in str(error.value)
    assert "which cannot be put back" in str(error.value)


def test_a_converter_that_has_taken_traced_values_and_then_asks_for_a_plain_number_is_refused_if_it_may_change_something():
    log = []

    def logged(v):
        log.append(1)
        return float(v) * 1 if v < 0.0 else v

    @mt.differentiable
    class Model:
        v: object = mt.field(converter=logged)

    def loss(x):
        return Model(x).v * 2.0

    assert mt.grad(loss)(3.0) == 2.0
    assert log == [1]
    with pytest.raises(
        mt.NotCapturedError, match="has taken values like a float as they are, and asks for a plain number"
    ):
        mt.grad(loss)(-3.0)
    log.clear()
    assert mt.grad(loss)(-3.0) == 2.0  # from now on it is known for that
    assert log == [1]


def test_that_a_constant_could_be_converted_says_nothing_of_other_values():
    log = []

    def logged(v):
        log.append(1)
        return float(v) * 1

    @mt.differentiable
    class Model:
        v: object = mt.field(converter=logged)

    def loss(x):
        with mt.pause():
            Model(x)
        return Model(x).v * 2.0

    kept = []
    mt.grad(lambda x: kept.append(x) or x)(3.0)
    Model(kept[0])
    assert mt.grad(loss)(3.0) == 2.0
    assert log == [1, 1, 1]


def test_one_that_surely_changes_nothing_may_do_either():
    @mt.differentiable
    class Model:
        v: object = mt.field(converter=lambda v: float(v) * 1 if v < 0.0 else v)

    assert [mt.grad(lambda x: Model(x).v * 2.0)(x) for x in (3.0, -3.0, 3.0, -3.0)] == [2.0] * 4


def test_a_name_that_comes_to_stand_for_something_else_is_looked_at_again():
    kept = [0]

    def number(v):
        noted(v)
        return float(v) * 1

    def note(v):
        """Do nothing."""

    def counting(v):
        kept[0] += 1

    noted = note

    @mt.differentiable
    class Model:
        v: object = mt.field(converter=number)

    assert mt.grad(lambda x: Model(x).v)(3.0) == 1.0
    noted = counting
    assert mt.grad(lambda x: Model(x).v)(3.0) == 1.0
    assert kept == [1]


def test_a_history_has_each_version_once():
    @mt.differentiable
    class Model:
        count: int = 0
        v: float = mt.field(default=0.0)

        def set(self, x):
            self.v = x

    def count(o, attribute, v):
        o.count = o.count + 1
        return float(v) * 1

    @mt.differentiable
    class Hooked(Model):
        v: float = mt.field(default=0.0, on_setattr=count)

    m = Hooked()
    with mt.Context(history=True) as ctx:
        x = ctx.watch(3.0)
        m.v = x
        out = m.v * 2.0
    assert ctx.grad(out, x) == 2.0
    assert [version.value for version in ctx.history(m, "count")] == [0, 1]
    assert [version.value for version in ctx.history(m, "v")] == [0.0, 3.0]
