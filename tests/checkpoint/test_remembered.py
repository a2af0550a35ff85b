"""What a checkpointed function changes that is no number: the second run meets it as the first one did, or it is an error.

The factor `p.x` is 0 here: the two runs give the same result, whatever the second one meets, and nothing but the derivative
shows the difference.
"""

import collections
import functools
import gc
import itertools
import random
import types
import weakref
from array import array
from collections import deque
from queue import SimpleQueue

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class P:
    x: object = 0.0
    s: object = None
    t: object = None


@mt.differentiable(slots=False)
class WithDict:
    x: object = 0.0

    def count(self, k):
        self.calls += 1
        return k * self.x * self.calls


class Plain:
    """An object of a class that is not decorated."""

    def __init__(self):
        self.n = 0
        self.log = []
        self.table = np.array([1, 2])
        self.rng = np.random.default_rng(1)
        self.inner = types.SimpleNamespace(n=0)

    def count(self, x):
        self.n += 1
        return x * self.n

    def __call__(self, x):
        return self.count(x)


class Slotted:
    __slots__ = ("n",)

    def __init__(self):
        self.n = 0


def count(o):
    o.n += 1
    return o.n


def add_one(o):
    o[0] += 1
    return int(o[0])


def append(o):
    o.append(1)
    return len(o)


def add(o):
    o.add(len(o))
    return len(o)


def add_text(o):
    o[0] = str(int(o[0]) + 1)
    return int(o[0])


def add_to_key(o):
    o["k"] += 1
    return o["k"]


# What it is, and what is done with it.
KINDS = {
    "Generator": (lambda: np.random.default_rng(1), lambda o: o.normal()),
    "RandomState": (lambda: np.random.RandomState(1), lambda o: o.normal()),
    "BitGenerator": (lambda: np.random.PCG64(1), lambda o: int(o.random_raw()) % 1000),
    "random.Random": (lambda: random.Random(1), lambda o: o.random()),
    "set": (lambda: {1}, add),
    "bytearray": (lambda: bytearray(b"1"), append),
    "small integers": (lambda: np.array([1]), add_one),
    "texts": (lambda: np.array(["1"]), add_text),
    "objects": (lambda: np.array([1, None, 2, None], object)[::2], add_one),
    "array.array": (lambda: array("i", [0]), add_one),
    "list": (lambda: [0], add_one),
    "deque": (lambda: deque([0]), add_one),
    "dict": (lambda: {"k": 1}, add_to_key),
    "Counter": (lambda: collections.Counter(k=1), add_to_key),
    "an object": (Plain, count),
    "a list of an object": (Plain, lambda o: append(o.log)),
    "an array of an object": (Plain, lambda o: add_one(o.table)),
    "a generator of an object": (Plain, lambda o: o.rng.normal()),
    "an object of an object": (Plain, lambda o: count(o.inner)),
    "an object with slots": (Slotted, count),
    "SimpleNamespace": (lambda: types.SimpleNamespace(n=0), count),
    "UserList": (lambda: collections.UserList([0]), add_one),
    "set in a dict in a list": (lambda: [{"k": {1}}], lambda o: add(o[0]["k"])),
}


def with_attribute(value):
    p = WithDict()
    p.extra = value
    return p


# Where it is, and how the function gets it.
PLACES = {
    "field": (lambda v: (P(0.0, v), None), lambda p, _: p.s),
    "list": (lambda v: (P(0.0, [v]), None), lambda p, _: p.s[0]),
    "dict": (lambda v: (P(0.0, {"a": v}), None), lambda p, _: p.s["a"]),
    "tuple": (lambda v: (P(0.0, (1, v)), None), lambda p, _: p.s[1]),
    "deque": (lambda v: (P(0.0, deque([v])), None), lambda p, _: p.s[0]),
    "containers": (lambda v: (P(0.0, [{"a": (v,)}]), None), lambda p, _: p.s[0]["a"][0]),
    "argument": (lambda v: (P(), v), lambda _, a: a),
    "list argument": (lambda v: (P(), [v]), lambda _, a: a[0]),
    "deque argument": (lambda v: (P(), deque([v])), lambda _, a: a[0]),
    "attribute": (lambda v: (with_attribute(v), None), lambda p, _: p.extra),
    "list in an attribute": (lambda v: (with_attribute([v]), None), lambda p, _: p.extra[0]),
    "two fields": (lambda v: (P(0.0, v, v), None), lambda p, _: (p.t, p.s)[1]),
}


def both(f):
    return f, mt.checkpoint(f)


def within(f):
    inner = mt.checkpoint(f)
    return lambda p, a: f(p, a) + f(p, a), mt.checkpoint(lambda p, a: inner(p, a) + inner(p, a))


def sequence(f):
    weights = [1.0, 2.0, 3.0, 4.0]
    return (
        lambda p, a: sum(w * f(p, a) for w in weights),
        lambda p, a: sum(mt.checkpoint_sequence(lambda w: w * f(p, a), weights)),
    )


def in_an_inner_recording(f):
    def gradient_of(f):
        def loss(p, a):
            with mt.Context() as ctx:
                y = f(p, a) * (p.x + 1.0)
                slope = ctx.grad(y, p).x
            return slope * p.x + y

        return loss

    return gradient_of(f), gradient_of(mt.checkpoint(f))


def around_an_inner_recording(f):
    plain, _ = in_an_inner_recording(f)
    return plain, mt.checkpoint(plain)


WAYS = [both, within, sequence, in_an_inner_recording, around_an_inner_recording]


def slopes(f, build, get, make, use):
    p, a = build(make())
    _, pullback = mt.vjp(lambda p: f(p, a), p)
    return float(pullback(1.0)[0].x), float(pullback(1.0)[0].x), float(use(get(p, a)))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_second_run_meets_what_the_first_one_met_and_it_is_changed_once(kind, way):
    make, use = KINDS[kind]
    for place, (build, get) in PLACES.items():

        def f(p, a, get=get):
            first = use(get(p, a))
            return p.x * (first + 1.5 * use(get(p, a)))

        plain, checkpointed = way(f)
        expected = slopes(plain, build, get, make, use)
        assert expected[0] != 0.0
        found = slopes(checkpointed, build, get, make, use)
        np.testing.assert_allclose(found, expected, err_msg=place)


def test_a_generator_in_a_list_of_a_field_draws_the_same_number_again():
    p = P(0.0, [np.random.default_rng(1)])
    first, second = np.random.default_rng(1).normal(size=2)
    assert mt.grad(mt.checkpoint(lambda p: p.x * p.s[0].normal()))(p).x == first
    assert p.s[0].normal() == second


def test_generators_that_draw_from_the_same_bits_do_so_again():
    def built():
        bits = np.random.PCG64(3)
        return P(0.0, np.random.Generator(bits), np.random.Generator(bits))

    def f(p):
        return p.x * (p.s.normal() + 2 * p.t.normal() + 4 * p.s.normal())

    assert mt.grad(mt.checkpoint(f))(built()).x == mt.grad(f)(built()).x


def test_a_generator_in_two_places_that_is_met_again_after_a_draw_draws_the_same_again():
    def f(p, rng):
        return p.x * (rng.normal() + 2 * p.s[0].normal())

    def built():
        rng = np.random.default_rng(3)
        return P(0.0, [rng]), rng

    assert mt.grad(mt.checkpoint(f))(*built()).x == mt.grad(f)(*built()).x


@pytest.mark.parametrize("length", [20_000, 200_000])
def test_a_long_array_of_integers_is_as_the_first_run_met_it(length):
    def f(p, a):
        for each in (p.s, p.t[0], a):
            each[1] += 1
        return p.x * int(p.s[1] + 2 * p.t[0][1] + 4 * a[1])

    def built():
        return P(0.0, np.zeros(length, int), [np.zeros(length, int)]), np.zeros(length, int)

    for h in (f, mt.checkpoint(f)):
        p, a = built()
        _, pullback = mt.vjp(lambda p, h=h, a=a: h(p, a) + 10 * h(p, a), p)
        assert [pullback(1.0)[0].x for _ in range(2)] == [147.0, 147.0]
        assert (p.s[1], p.t[0][1], a[1]) == (2, 2, 2)


def test_a_long_array_that_the_call_only_reads_and_that_is_overwritten_later_is_an_error():
    p = P(0.0, np.zeros(200_000, int))
    _, pullback = mt.vjp(mt.checkpoint(lambda p: p.x * int(1 + p.s[3])), p)
    assert pullback(1.0)[0].x == 1.0
    p.s[3] = 1
    with pytest.raises(
        mt.CheckpointError, match=r"shape \(200000,\) and dtype int64, which .* was overwritten before"
    ):
        pullback(1.0)
    p.s[3] = 0
    assert pullback(1.0)[0].x == 1.0


def test_what_is_changed_between_the_runs_is_shown_as_it_was():
    p = P(0.0, Plain(), {"k": {1}})
    _, pullback = mt.vjp(mt.checkpoint(lambda p: p.x * (1 + p.s.n + len(p.s.log) + len(p.t["k"]))), p)
    p.s.n, p.t["k"] = 5, {1, 2, 3}
    p.s.log.append(1)
    assert pullback(1.0)[0].x == 2.0
    assert (p.s.n, p.s.log, p.t["k"]) == (5, [1], {1, 2, 3})


def test_a_raise_in_the_second_run_leaves_objects_as_they_were():
    p, runs = P(1.0, Plain()), SimpleQueue()

    @mt.checkpoint
    def f(p):
        p.s.log.append(p.s.count(1))
        assert runs.empty()
        runs.put(1)
        return p.x * p.s.rng.normal()

    _, pullback = mt.vjp(f, p)
    expected = (p.s.n, p.s.rng.bit_generator.state)
    with pytest.raises(AssertionError):
        pullback(1.0)
    assert (p.s.n, p.s.rng.bit_generator.state) == expected
    assert p.s.log == [1]


def run_of(way):
    def loss(p):
        plain = Plain()
        state = {"n": 0}

        def in_closure(x):
            state["n"] += 1
            return x * plain.count(state["n"])

        def with_default(x, seen=plain.log):
            seen.append(1)
            return x * len(seen)

        step = {
            "a method": plain.count,
            "a callable": plain,
            "partial": functools.partial(Plain.count, plain),
            "a closure": in_closure,
            "a default": with_default,
        }[way]
        return loss.run(step, p.x)

    return loss


@pytest.mark.parametrize("way", ["a method", "a callable", "partial", "a closure", "a default"])
def test_what_belongs_to_the_function_itself_is_as_in_the_first_run(way):
    loss = run_of(way)
    loss.run = lambda step, x: step(x) + 3 * step(x)
    expected = mt.grad(loss)(P(0.0)).x
    loss.run = lambda step, x: mt.checkpoint(step)(x) + 3 * mt.checkpoint(step)(x)
    assert mt.grad(loss)(P(0.0)).x == expected
    loss.run = lambda step, x: sum(
        y * w for y, w in zip(mt.checkpoint_sequence(step, [x, x]), (1, 3), strict=True)
    )
    assert mt.grad(loss)(P(0.0)).x == expected


def test_an_attribute_that_is_no_field_is_counted_once_by_a_method():
    p = WithDict()
    p.calls = 0
    tangent = mt.grad(lambda p: sum(mt.checkpoint_sequence(p.count, [1.0, 10.0, 100.0])))(p)
    assert (tangent.x, p.calls) == (321.0, 3)


def test_an_attribute_that_the_first_run_made_is_not_there_in_the_second():
    @mt.checkpoint
    def f(p):
        if not hasattr(p.s, "cache"):
            p.s.cache = 7
            return p.x * 1.0
        return p.x * p.s.cache

    p = P(0.0, Plain())
    assert mt.grad(f)(p).x == 1.0
    assert p.s.cache == 7


def test_forward_mode_and_the_reverse_agree_about_a_function_that_draws():
    @mt.checkpoint
    def f(p):
        return np.sin(p.x) * p.s[0].normal()

    def built():
        return P(0.0, [np.random.default_rng(1)])

    _, pushed = mt.jvp(f, (built(),), (mt.Tangent(P, x=1.0),))
    assert pushed == mt.grad(f)(built()).x
    _, twice = mt.jvp(lambda p: mt.grad(f)(p).x, (built(),), (mt.Tangent(P, x=1.0),))
    assert twice == 0.0


@attrs.define
class Items:
    items: object

    def __next__(self):
        return next(self.items)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: iter([1, 2]), "list_iterator"),
        (itertools.count, r"itertools\.count"),
        (lambda: (i for i in (1, 2)), "generator"),
        (lambda: zip([1, 2], [3, 4], strict=True), "zip"),
        (lambda: Items(iter([1, 2])), r"tests\.checkpoint\.test_remembered\.Items"),
    ],
)
def test_an_iterator_is_refused(make, name):
    @mt.checkpoint
    def f(p, a):
        return p.x * (a is None) * (p.s is None)

    assert mt.grad(f)(P(), None).x == 1.0
    for p, a, where in (
        (P(0.0, make()), None, r"P\.s"),
        (P(0.0, [make()]), None, r"P\.s"),
        (P(), (make(),), "an argument"),
    ):
        with pytest.raises(
            mt.CheckpointError, match=rf"{where} of a checkpointed function holds an iterator, {name}"
        ):
            mt.grad(f)(p, a)


def test_children_of_a_generator_are_refused():
    @mt.checkpoint
    def f(p):
        return p.x * len(p.s.spawn(1))

    with pytest.raises(mt.CheckpointError, match=r"called spawn\(\) of a Generator"):
        mt.grad(f)(P(0.0, np.random.default_rng(1)))
    with pytest.raises(mt.CheckpointError, match=r"called spawn\(\) of a SeedSequence"):
        mt.grad(mt.checkpoint(lambda p: p.x * len(p.s.spawn(2))))(P(0.0, np.random.SeedSequence(1)))


def test_a_generator_without_a_state_is_refused():
    with pytest.raises(
        mt.CheckpointError, match=r"holds a random generator, random\.SystemRandom, whose state"
    ):
        mt.grad(mt.checkpoint(lambda p: p.x * p.s.random()))(P(0.0, random.SystemRandom()))


def test_a_generator_of_cupys_is_refused():
    generator = type("RandomState", (), {"__module__": "cupy.random._generator"})()
    with pytest.raises(
        mt.CheckpointError, match=r"holds a random generator, cupy\.random\._generator\.RandomState, whose"
    ):
        mt.grad(mt.checkpoint(lambda p: p.x * (p.s is None)))(P(0.0, generator))


def test_a_file_that_is_written_is_no_iterator(tmp_path):
    with (tmp_path / "log").open("w") as file:
        assert mt.grad(mt.checkpoint(lambda p: p.x * file.write("1") * p.s.write("1")))(P(0.0, file)).x == 1.0


def test_what_was_remembered_is_freed_with_the_gradient():
    plain = Plain()
    reference = weakref.ref(plain)
    gc.collect()
    gc.disable()  # nothing waits for the collector of cycles
    try:
        mt.grad(mt.checkpoint(lambda p: p.x * p.s.count(1)))(P(0.0, plain))
        del plain
        assert reference() is None
    finally:
        gc.enable()
