"""A checkpointed call is the call: the same results, the same objects afterwards, the same gradients."""

import copy
import gc
import tracemalloc
import weakref
from queue import SimpleQueue

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Counter:
    n: int = 0


@mt.differentiable
class Memory:
    buf: np.ndarray
    w: float
    rng: object
    hist: list = mt.field(factory=list)
    by_name: dict = mt.field(factory=dict)
    counts: np.ndarray = mt.field(factory=lambda: np.zeros(3, int))


def memory():
    return Memory(np.array([1.0, 2.0, 3.0]), 0.5, np.random.default_rng(5), by_name={"last": 1.0})


def step(m, i):
    m.buf[i] = m.buf[i - 1] * m.w + m.rng.normal()
    m.hist.append(m.buf[i])
    m.by_name["last"] = m.by_name["last"] * m.w
    m.counts[i] += 1
    return m.buf[i] ** 2


def total(step):
    def loss(m):
        value = sum(step(m, i) for i in range(3))
        return value + m.hist[0] * m.hist[-1] + m.by_name["last"]

    return loss


@pytest.mark.parametrize("repeat", range(3))
def test_a_counter_that_a_step_advances_is_advanced_once(repeat):
    @mt.checkpoint
    def step(c, x):
        c.n += 1
        return np.sin(x * c.n)

    c = Counter()
    assert mt.grad(step, argnums=1)(c, 0.3) == pytest.approx(0.955336, abs=1e-6)
    assert c.n == 1
    c = Counter()
    out, pullback = mt.vjp(step, c, 0.3)
    for _ in range(2):
        assert pullback(1.0)[1] == pytest.approx(0.955336, abs=1e-6)
        assert c.n == 1
    assert out == pytest.approx(np.sin(0.3))


@pytest.mark.parametrize("way", ["value_and_grad", "vjp", "context"])
def test_arrays_in_place_lists_dicts_counters_and_random_numbers_are_as_without(way):
    plain, kept, recomputed = memory(), memory(), memory()
    total(step)(plain)
    expected = mt.grad(total(step))(kept)
    loss = total(mt.checkpoint(step))
    if way == "value_and_grad":
        tangents = [mt.value_and_grad(loss)(recomputed)[1]]
    elif way == "vjp":
        _, pullback = mt.vjp(loss, recomputed)
        tangents = [pullback(1.0)[0], pullback(1.0)[0]]
    else:
        with mt.Context() as ctx:
            out = loss(recomputed)
        tangents = [ctx.grad(out, recomputed), ctx.grad(out, recomputed)]
    for tangent in tangents:
        np.testing.assert_allclose(tangent.buf, expected.buf, rtol=1e-12)
        assert tangent.w == pytest.approx(expected.w, rel=1e-12)
        assert tangent.by_name == pytest.approx(expected.by_name)
    np.testing.assert_array_equal(recomputed.buf, plain.buf)
    np.testing.assert_array_equal(recomputed.counts, plain.counts)
    assert recomputed.hist == plain.hist
    assert recomputed.by_name == plain.by_name
    assert recomputed.rng.normal() == plain.rng.normal()


def test_a_raise_inside_leaves_everything_as_before():
    m = memory()
    before, buf, hist = copy.deepcopy(m), m.buf, m.hist

    @mt.checkpoint
    def fails(m):
        step(m, 0)
        raise KeyError("no")

    with pytest.raises(KeyError):
        mt.grad(lambda m: fails(m) * 1.0)(m)
    assert m.buf is buf
    assert m.hist is hist
    np.testing.assert_array_equal(m.buf, before.buf)
    assert m.hist == []
    assert m.by_name == before.by_name


def test_objects_of_closures_and_objects_made_inside_are_followed():
    g = Memory(np.zeros(1), 0.5, None)

    def loss(x):
        @mt.checkpoint
        def inner(x):
            g.w = g.w * x
            return Memory(np.ones(1) * x, g.w, None)

        made = inner(x)
        return np.sum(made.buf) * made.w + g.w

    # L = x (w x) + w x
    assert mt.grad(loss)(3.0) == pytest.approx(0.5 * (2 * 3.0 + 1))
    assert g.w == 1.5


def test_second_derivatives_pass_through():
    def loss(m, x):
        return step_of(m, x) * step_of(m, x * 2)

    @mt.checkpoint
    def step_of(m, x):
        m.w = np.tanh(m.w * x)
        return m.w * x

    m = Memory(np.zeros(1), 0.5, None)
    mt.testing.check_grads(loss, (m, 0.7), order=2)


def test_the_function_is_called_as_it_is_without_a_recording():
    calls = []
    assert mt.checkpoint(lambda x: calls.append(x) or x * 2)(3.0) == 6.0
    assert calls == [3.0]


@mt.differentiable
class Net:
    w: np.ndarray
    h: np.ndarray

    def step(self, x):
        h = self.h
        for _ in range(4):
            h = np.tanh(self.w * h + x)
        self.h = h
        return np.sum(h)


def peak_of(loss, length):
    net, xs = Net(np.full(2000, 0.5), np.zeros(2000)), list(np.linspace(-1, 1, length))
    tracemalloc.start()
    try:
        tangent = mt.grad(loss)(net, xs)
        return tracemalloc.get_traced_memory()[1], tangent
    finally:
        tracemalloc.stop()


def test_memory_of_a_sequence_grows_with_the_square_root_of_its_length():
    def plain(net, xs):
        return sum(net.step(x) for x in xs)

    def checkpointed(net, xs):
        return sum(mt.checkpoint_sequence(net.step, xs))

    all_of_it, expected = peak_of(plain, 400)
    short, _ = peak_of(checkpointed, 100)
    long, tangent = peak_of(checkpointed, 400)
    np.testing.assert_allclose(tangent.w, expected.w, rtol=1e-12)
    np.testing.assert_allclose(tangent.h, expected.h, rtol=1e-12)
    assert long < all_of_it / 5
    assert long < 3 * short  # four times as long, twice the memory


def test_an_empty_sequence_gives_no_results():
    assert mt.checkpoint_sequence(lambda x: x, []) == []


def test_a_number_of_segments_below_one_is_refused():
    with pytest.raises(ValueError, match="segments"):
        mt.checkpoint_sequence(lambda x: x, [1.0], segments=0)


def test_a_list_that_a_new_object_takes_over_is_the_same_list():
    @mt.differentiable
    class Node:
        x: float
        others: list
        made: object = None

    def step(node, z):
        node.made = attrs.evolve(node, x=node.x * z)
        return node.made.x * node.made.others[0]

    for run in (mt.grad(mt.checkpoint(step)), lambda *args: mt.vjp(mt.checkpoint(step), *args)[1](1.0)[0]):
        node = Node(2.0, [3.0])
        others = node.others
        tangent = run(node, 5.0)
        assert node.others is others
        assert node.made.others is others
        assert (tangent.x, tangent.others) == (15.0, [10.0])


def test_what_a_call_kept_for_its_second_run_is_freed_with_the_gradient():
    counters = SimpleQueue()  # a list in the closure would be put back for the second run

    @mt.checkpoint
    def f(m, z):
        counter = Counter(1)
        counters.put(weakref.ref(counter))
        return m.w * z * counter.n

    gc.collect()
    gc.disable()  # nothing waits for the collector of cycles
    try:
        mt.grad(lambda m: f(m, m.w * 2.0))(memory())
        assert [counters.get()() for _ in range(counters.qsize())] == [None, None]
    finally:
        gc.enable()


def test_a_converter_keeps_the_array_under_pause():
    @mt.differentiable
    class Holder:
        v: np.ndarray = mt.field(converter=np.asarray)
        w: np.ndarray

    @mt.checkpoint
    def f(h, z):
        with mt.pause():
            h.v = h.w
        return np.sum(h.v * z)

    h = Holder(np.ones(2), np.ones(2))
    assert mt.grad(f, argnums=1)(h, 3.0) == 2.0
    assert h.v is h.w


def test_a_generator_that_two_objects_hold_draws_the_same_numbers_again():
    a, b = memory(), memory()
    b.rng = a.rng

    @mt.checkpoint
    def f(a, b):
        return a.w * a.rng.normal() + b.w * b.rng.normal()

    first, second = np.random.default_rng(5).normal(size=2)
    of_a, of_b = mt.grad(f, argnums=(0, 1))(a, b)
    assert (of_a.w, of_b.w) == (first, second)


@mt.differentiable
class Weight:
    w: object


def counted(o, k):
    k += 1
    return o.w * np.sum(k)


def counted_in_a_list(o, ks):
    ks[0] += 1
    ks[1]["k"] *= 2
    return o.w * np.sum(ks[0] * ks[1]["k"])


def noted_in_a_set(o, seen):
    seen.add(len(seen))
    return o.w * len(seen)


def noted_in_bytes(o, log):
    log.append(7)
    return o.w * sum(log)


@pytest.mark.parametrize(
    ("f", "make"),
    [
        (counted, lambda: np.array([1, 2, 3])),
        (counted_in_a_list, lambda: [np.array([1, 2]), {"k": np.array([3, 4])}]),
        (noted_in_a_set, lambda: {5}),
        (noted_in_bytes, lambda: bytearray(b"\x01\x02")),
    ],
)
def test_counters_among_the_arguments_are_as_in_the_first_run(f, make):
    plain, recorded = make(), make()
    slope = mt.grad(lambda o: f(o, make()))(Weight(2.0)).w
    f(Weight(2.0), plain)
    assert mt.grad(lambda o: mt.checkpoint(f)(o, recorded))(Weight(2.0)).w == slope
    assert str(recorded) == str(plain)
