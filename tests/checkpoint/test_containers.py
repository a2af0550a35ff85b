"""Lists, dicts and deques that a checkpointed function makes, changes, shares and returns: as without the checkpoint."""

from collections import Counter, OrderedDict, defaultdict, deque

import numpy as np
import pytest

import mutangent as mt
from tests.cases.graph import assert_nothing_traced, assert_same_picture, picture


@mt.differentiable
class Store:
    x: object
    a: object = None
    b: object = None


class Stack(list):
    """A list with a name."""

    name = "stack"


def new_list(o, z):
    o.a = [o.x * z, np.tanh(o.x)]


def new_dict_in_a_list(o, z):
    o.a.append({"k": o.x**2 * z, "rest": [z]})


def one_new_list_in_two_fields(o, z):
    o.a = o.b = [o.x * z]
    o.b.append(z * 2.0)


def another_name(o, z):
    o.b = o.a
    o.a.append(o.x * z)


def in_a_tuple(o, z):
    o.b = (o.a, [z, o.x])
    o.b[0].append(z)


def nested(o, z):
    o.a = {"rows": [[o.x * z], [z]], "last": deque([z], maxlen=2)}
    o.a["last"].append(z * 3.0)
    o.a["last"].append(o.x[0] * z)


def returned(o, z):
    o.a.append(o.x * z)
    return o.a, [z, o.a]


def replaced(o, z):
    kept = o.a
    o.a = [z]
    kept.append(o.x)
    o.b = kept


def empty(o, z):
    o.a = []
    o.b = {}


PROGRAMS = [
    new_list,
    new_dict_in_a_list,
    one_new_list_in_two_fields,
    another_name,
    in_a_tuple,
    nested,
    returned,
    replaced,
    empty,
]


def numbers_in(value):
    """The sum of squares of all that is in a value, with a factor that depends on the place."""
    items = value.values() if isinstance(value, dict) else value
    if isinstance(value, dict | list | tuple | deque):
        return sum((k + 1.5) * numbers_in(item) for k, item in enumerate(items))
    nothing = value is None or isinstance(value, mt.ZeroTangent | mt.NoTangent)
    return 0.0 if nothing else np.sum(value**2)


def loss_of(program, checkpointed):
    step = mt.checkpoint(program) if checkpointed else program

    def loss(o, z):
        first = step(o, z)
        out = numbers_in(first) + numbers_in(o.a) + numbers_in(o.b)
        if isinstance(o.a, list):
            o.a.append(z * 0.5)
        second = step(o, np.tanh(z)) if type(o.a) is list else None
        return out + numbers_in(second) + numbers_in(o.a) + numbers_in(o.b) + z * np.sum(o.x)

    return loss


def make():
    return Store(np.array([0.3, -0.8]), [0.5])


def by_grad(f, o, z):
    return mt.grad(f, argnums=(0, 1))(o, z)


def by_vjp(f, o, z):
    _, pullback = mt.vjp(f, o, z)
    pullback(1.0)
    return pullback(1.0)


def by_context(f, o, z):
    with mt.Context() as ctx:
        z = ctx.watch(z)
        out = f(o, z)
    return ctx.grad(out, o, z)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("way", [by_grad, by_vjp, by_context])
def test_containers_go_through_a_checkpoint(way, program):
    plain, checked = make(), make()
    expected = way(loss_of(program, False), plain, 0.7)
    found = way(loss_of(program, True), checked, 0.7)
    np.testing.assert_allclose(found[0].x, expected[0].x)
    assert numbers_in(found[0].a) == pytest.approx(numbers_in(expected[0].a))
    assert found[1] == pytest.approx(expected[1])
    assert_same_picture(picture([checked]), picture([plain]))
    assert_nothing_traced([checked])


@pytest.mark.parametrize(
    "kind",
    [
        lambda: deque([1.0, 2.0], maxlen=2),
        lambda: deque([1.0, 2.0]),
        lambda: Stack([1.0, 2.0]),
        lambda: defaultdict(float, {0: 1.0, 1: 2.0}),
        lambda: OrderedDict({0: 1.0, 1: 2.0}),
        lambda: Counter({0: 1.0, 1: 2.0}),
    ],
)
def test_kinds_of_containers_are_shown_to_the_second_run_as_they_were(kind):
    seen = []

    def program(o, z):
        seen.append(type(o.a))
        if isinstance(o.a, dict):
            o.a[2] = o.a[2] + o.a[0] * z if isinstance(o.a, defaultdict) else o.a[0] * z
            o.a[0] = o.a[1] * z
        else:
            o.a.append(o.a[0] * z)
            o.a[0] = o.a[1] * z
        return numbers_in(list(o.a.values()) if isinstance(o.a, dict) else list(o.a))

    def loss(checkpointed):
        step = mt.checkpoint(program) if checkpointed else program
        return lambda o, z: step(o, z) * step(o, z * 2.0)

    plain, checked = Store(1.0, kind()), Store(1.0, kind())
    expected = mt.grad(loss(False), argnums=(0, 1))(plain, 0.7)
    found = mt.grad(loss(True), argnums=(0, 1))(checked, 0.7)
    assert found[1] == pytest.approx(expected[1])
    assert numbers_in(found[0].a) == pytest.approx(numbers_in(expected[0].a))
    assert checked.a == plain.a
    assert type(checked.a) is type(plain.a)
    assert set(seen) == {type(plain.a)}


def test_a_cache_that_forgets_what_was_not_used_for_longest_keeps_its_order():
    cache = OrderedDict()

    def table(n):
        cache[n] = cache.get(n, np.arange(n) * 1.0)
        cache.move_to_end(n)
        if len(cache) > 2:
            cache.popitem(last=False)
        return cache[n]

    def program(x):
        return sum(np.sum(np.sin(x * table(n))) for n in (2, 3, 2, 4, 2))

    expected = mt.grad(program)(0.7)
    order = list(cache)
    cache.clear()
    step = mt.checkpoint(program)
    assert mt.grad(lambda x: step(x) * 1.0)(0.7) == pytest.approx(expected)
    assert list(cache) == order == [4, 2]


def test_a_list_of_a_field_that_is_returned_is_the_one_in_the_field():
    def loss(o):
        items = mt.checkpoint(lambda o: o.a)(o)
        assert items is o.a
        items.append(o.x[0])
        return o.a[-1] * 2.0

    o = make()
    assert mt.grad(loss)(o).x.tolist() == [2.0, 0.0]
    assert o.a == [0.5, 0.3]


def test_a_plain_value_that_a_checkpointed_function_keeps_or_returns_is_constant():
    """The very array of an argument would be taken for the argument."""

    def gradients(around):
        x = np.array([1.0, 2.0])
        box = Store(np.array([3.0, 4.0]), np.array([5.0, 6.0]))

        @around
        def step(box, x):
            box.a = mt.primal(x)
            with mt.pause():
                held = np.asarray(box.x)
            return held, x * box.x

        def loss(box, x):
            held, y = step(box, x)
            return np.sum(box.a * y) + np.sum(held * held * y)

        dbox, dx = mt.grad(loss, argnums=(0, 1))(box, x)
        return dbox.x.tolist(), dx.tolist(), dbox.a

    plain = gradients(lambda f: f)
    assert plain == ([10.0, 36.0], [30.0, 72.0], mt.ZeroTangent())
    assert gradients(mt.checkpoint) == plain
