"""Lists, dicts and their kin as fields and arguments: same object, new items, tangents in the structure on entry."""

import copy
from collections import OrderedDict, defaultdict, deque
from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_grads
from tests.cases.harness import NUMERICAL, Fields, three_ways


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


class Pair(NamedTuple):
    left: object
    right: object


# ---------------------------------------------------------------- the cases


def test_a_dict_field_is_changed_and_read():
    def loss(f):
        f.v["a"] = f.v["a"] * 2
        f.w += f.v["a"] ** 2
        return f.w * 1.0

    box = Box({"a": 3.0}, 1.0)
    store = box.v
    three_ways(lambda: (box,), loss, (Fields(v={"a": 24.0}, w=1.0),))
    mt.grad(loss)(box)
    assert box.v is store
    assert store == {"a": 6.0}
    assert type(store["a"]) is float


def test_a_local_dict_of_powers():
    def loss(x):
        d = {}
        for i in range(1, 5):
            d[i] = i**x
        return sum(d.values())

    three_ways(lambda: (3.0,), loss, (123.93054835,), rtol=1e-8)


def test_a_history_list_ends_with_plain_floats():
    def loss(box, p):
        for _ in range(3):
            last = box.v[-1] if box.v else box.w
            box.v.append(p * last + 1)
        return sum(h**2 for h in box.v)

    box = Box([], 2.0)
    history = box.v
    three_ways(lambda: (box, 0.5), loss, (Fields(w=3.5), 34.0))
    mt.grad(loss)(box, 0.5)
    assert box.v is history
    assert [type(h) for h in history] == [float] * 3


def test_the_same_object_twice_in_a_list():
    def loss(box):
        box.v[0].v = box.v[0].v * 2
        return box.v[1].v * box.v[0].v

    a = Box(3.0)
    box = Box([a, a])
    three_ways(lambda: (box,), loss, (Fields(v=[Fields(v=24.0), Fields(v=24.0)]),))
    tangent = mt.grad(loss)(Box([a, a]))
    assert tangent.v[0] is tangent.v[1]


def test_chunks_chained_by_cotangents_of_objects_equal_the_whole():
    def chunk(box, p, xs):
        for x in xs:
            box.v[0] = np.tanh(p * box.v[0] + x)
            box.w = box.w + box.v[0] ** 2
        return box.w * 1.0

    xs = np.sin(np.arange(100.0))
    whole = Box([0.3], 0.0)
    d_whole, dp_whole = mt.grad(chunk, argnums=(0, 1))(whole, 0.7, xs)

    box, pullbacks = Box([0.3], 0.0), []
    for k in range(4):
        _, pullback = mt.vjp(chunk, box, 0.7, xs[25 * k : 25 * k + 25])
        pullbacks.append(pullback)
    assert box.v == whole.v
    d_box, dp, seed = None, 0.0, 1.0
    for pullback in reversed(pullbacks):
        objects = None if d_box is None else mt.IdentityMap([(box, d_box)])
        d_box, dp_chunk, _ = pullback(seed, objects=objects)
        dp, seed = dp + dp_chunk, 0.0
    assert dp == pytest.approx(dp_whole, rel=1e-12)
    assert d_box.v[0] == pytest.approx(d_whole.v[0], rel=1e-12)


def test_the_shares_of_one_array_in_two_fields():
    array = np.array([1.0, 2.0])
    box = Box(array, array)
    tangent = mt.grad(lambda b: np.sum(b.v) + np.sum(b.w))(box)
    np.testing.assert_array_equal(tangent.v, [1.0, 1.0])
    np.testing.assert_array_equal(tangent.w, [1.0, 1.0])


# ---------------------------------------------------------------- every way to change a container


def list_changes():
    def append(items, x):
        items.append(x * items[0])

    def insert(items, x):
        items.insert(1, x * items[-1])

    def pop(items, x):
        items[0] = items.pop() * x

    def delete(items, x):
        del items[1]
        items[0] *= x

    def slices(items, x):
        items[1:] = [x * item for item in items[:2]] + [x]

    def extend(items, x):
        items += [x, items[0]]

    def reverse(items, x):
        items.reverse()
        items[0] = items[0] * x

    def sort(items, x):
        items.sort(key=lambda item: -mt.primal(item))
        items[0] = items[0] * x

    def clear(items, x):
        last = items[-1]
        items.clear()
        items.append(last * x)

    def rotate(items, x):
        items[0], items[1], items[2] = items[1], items[2] * x, items[0]

    return [append, insert, pop, delete, slices, extend, reverse, sort, clear, rotate]


@pytest.mark.parametrize("change", list_changes(), ids=lambda f: f.__name__)
def test_a_list_changes_as_in_the_plain_run(change):
    def of_argument(items, x):
        for _ in range(2):
            change(items, x)
        return sum(np.sin(item) * k for k, item in enumerate(items, 1))

    def of_field(box, x):
        return of_argument(box.v, x)

    three_ways(lambda: (Box([0.5, 1.5, 0.25, 2.0, 0.75]), 1.2), of_field, NUMERICAL)
    check_grads(of_argument, ([0.5, 1.5, 0.25, 2.0, 0.75], 1.2), order=2)
    plain, items = [0.5, 1.5, 0.25, 2.0, 0.75], [0.5, 1.5, 0.25, 2.0, 0.75]
    of_argument(plain, 1.2)
    mt.grad(of_argument)(items, 1.2)
    assert items == plain
    assert [type(item) for item in items] == [float] * len(plain)


def dict_changes():
    def update(d, x):
        d.update(a=x * d["b"], c=x)

    def delete(d, x):
        d["b"] = d["a"] * x
        d["c"] = d.pop("a") * 2
        d["a"] = 1.5

    def setdefault(d, x):
        d["b"] *= d.setdefault("z", x)

    def popitem(d, x):
        _, value = d.popitem()
        d["n"] = value * x

    def reorder(d, x):
        first = d.pop("a")
        d["a"] = first * x

    return [update, delete, setdefault, popitem, reorder]


@pytest.mark.parametrize("change", dict_changes(), ids=lambda f: f.__name__)
@pytest.mark.parametrize("kind", [dict, OrderedDict, lambda d: defaultdict(float, d)])
def test_a_dict_changes_as_in_the_plain_run(change, kind):
    def loss(box, x):
        change(box.v, x)
        return sum(np.sin(item) * k for k, item in enumerate(box.v.values(), 1))

    if kind is dict:
        three_ways(lambda: (Box({"a": 0.5, "b": 1.5}), 1.2), loss, NUMERICAL)
    box = Box(kind({"a": 0.5, "b": 1.5}))
    plain = Box(kind({"a": 0.5, "b": 1.5}))
    held = box.v
    loss(plain, 1.2)
    tangent = mt.grad(loss)(box, 1.2)
    assert tangent.v == mt.grad(loss)(Box({"a": 0.5, "b": 1.5}), 1.2).v
    assert box.v is held
    assert type(held) is type(plain.v)
    assert list(held) == list(plain.v)


def test_an_ordered_dict_keeps_its_own_order():
    def loss(box):
        box.v.move_to_end("a")
        box.v["c"] = box.v["a"] * box.v["b"]
        return box.v["c"] * 1.0

    box = Box(OrderedDict(a=2.0, b=3.0))
    assert mt.grad(loss)(box).v == {"a": 3.0, "b": 2.0}
    assert list(box.v.items()) == [("b", 3.0), ("a", 2.0), ("c", 6.0)]
    box.v.move_to_end("b")
    assert list(box.v) == ["a", "c", "b"]


def test_a_default_dict_makes_its_defaults():
    def loss(box, x):
        for key in "aba":
            box.v[key] += x * 2
        return box.v["a"] * box.v["b"]

    box = Box(defaultdict(float))
    # (4 x)(2 x)
    assert mt.grad(loss, argnums=1)(box, 3.0) == 48.0
    assert box.v == {"a": 12.0, "b": 6.0}
    assert box.v["new"] == 0.0


def test_a_deque_with_a_bound_forgets_its_oldest():
    def loss(box, x):
        for k in range(3):
            box.v.append(box.v[-1] * x + k)
        box.v.rotate(1)
        box.v.appendleft(box.v.popleft() * 2)
        return sum(k * item for k, item in enumerate(box.v, 1))

    def run(x, first):
        box = Box(deque([0.1, first], maxlen=3))
        return loss(box, x), box

    box = run(0.0, 0.0)[1]
    box.v = deque([0.1, 0.5], maxlen=3)
    held = box.v
    tangent, dx = mt.grad(loss, argnums=(0, 1))(box, 1.2)
    assert box.v is held
    assert held == run(1.2, 0.5)[1].v
    assert held.maxlen == 3
    assert dx == pytest.approx((run(1.2 + 1e-6, 0.5)[0] - run(1.2 - 1e-6, 0.5)[0]) / 2e-6, rel=1e-6)
    by_first = (run(1.2, 0.5 + 1e-6)[0] - run(1.2, 0.5 - 1e-6)[0]) / 2e-6
    assert list(tangent.v)[1] == pytest.approx(by_first, rel=1e-6)


def test_a_named_tuple_stays_one():
    def loss(box):
        box.v = box.v._replace(left=box.v.left * box.v.right)
        return box.v.left * box.v.right

    box = Box(Pair(2.0, 3.0))
    tangent = mt.grad(loss)(box)
    assert isinstance(tangent.v, Pair)
    assert tangent.v == Pair(9.0, 12.0)
    assert box.v == Pair(6.0, 3.0)
    assert type(box.v.left) is float


# ---------------------------------------------------------------- sharing and nesting


def test_a_list_that_two_fields_share_is_one():
    def loss(box):
        box.v.append(box.w[0] * 2)
        box.w[0] = box.v[-1] * box.v[1]
        return box.v[0] * 1.0

    shared = [2.0, 3.0]
    box = Box(shared, shared)
    tangent = mt.grad(loss)(box)
    # (2 a) b
    assert tangent.v == [6.0, 4.0]
    assert tangent.v is tangent.w
    assert box.v is shared
    assert box.w is shared
    assert shared == [12.0, 3.0, 4.0]


def test_a_list_assigned_by_its_global_name_is_the_one_that_is_followed():
    items = [2.0, 3.0]

    def loss(box):
        box.v[0] = box.v[0] * 2
        box.w = items
        box.w.append(1.0)
        return box.w[0] * box.w[1] * len(box.v)

    box = Box(items)
    assert mt.grad(loss)(box).v == [18.0, 12.0]
    assert box.w is items
    assert box.v is items
    assert items == [4.0, 3.0, 1.0]


@pytest.mark.parametrize("verb", [mt.value_and_grad, mt.jacobian, mt.hessian])
def test_a_list_given_by_keyword_ends_with_plain_numbers(verb):
    def loss(x, log):
        log.append(np.sum(x**2))
        return log[-1] * x[0]

    log = []
    verb(loss)(np.array([1.0, 2.0]), log=log)
    assert [type(value) is mt.TracedArray for value in log] == [False]
    assert log == [5.0]


def test_a_list_given_by_keyword_is_the_one_in_a_field():
    def loss(box, log):
        box.v.append(box.w * 3)
        return log[-1] * log[0]

    log = [2.0]
    box = Box(log, 5.0)
    tangent = mt.grad(loss)(box, log=log)
    assert tangent.v == [15.0]
    assert tangent.w == 6.0
    assert log == [2.0, 15.0]


def test_nested_containers_keep_their_identities():
    def loss(box):
        inner = box.v["rows"][1]
        inner[0] = inner[0] * box.v["scale"]
        box.v["rows"].append({"deep": [inner[0]]})
        box.v["rows"][0][1] += 1.0
        return box.v["rows"][2]["deep"][0] * box.v["rows"][0][1]

    box = Box({"rows": [[1.0, 2.0], [3.0]], "scale": 4.0})
    outer, rows, first, second = box.v, box.v["rows"], box.v["rows"][0], box.v["rows"][1]
    tangent = mt.grad(loss)(box)
    # (s r10)(r01 + 1)
    assert tangent.v["rows"][1] == [12.0]
    assert tangent.v["rows"][0][1] == 12.0
    assert tangent.v["scale"] == 9.0
    assert len(tangent.v["rows"]) == 2
    assert box.v is outer
    assert outer["rows"] is rows
    assert rows[0] is first
    assert rows[1] is second
    assert (first, second, rows[2]) == ([1.0, 3.0], [12.0], {"deep": [12.0]})


def test_arrays_in_containers_are_written_in_place():
    def loss(box, x):
        box.v[0][1:] *= x
        box.v[1]["a"] += box.v[0][1]
        return np.sum(box.v[0] ** 2) + np.sum(box.v[1]["a"])

    def make():
        return Box([np.array([1.0, 2.0, 3.0]), {"a": np.array([0.5])}]), 1.5

    three_ways(make, loss, NUMERICAL)
    box, x = make()
    row, a = box.v[0], box.v[1]["a"]
    mt.grad(loss)(box, x)
    assert box.v[0] is row
    assert box.v[1]["a"] is a
    np.testing.assert_array_equal(row, [1.0, 3.0, 4.5])
    np.testing.assert_array_equal(a, [3.5])


def test_a_list_made_inside_and_kept_in_a_field_holds_plain_values():
    def loss(box, x):
        box.w = [x, {"y": x * box.v}, (x * 2, [x])]
        return box.w[1]["y"] * box.w[2][0]

    box = Box(3.0)
    mt.grad(loss)(box, 2.0)
    assert box.w == [2.0, {"y": 6.0}, (4.0, [2.0])]
    assert type(box.w[0]) is type(box.w[1]["y"]) is type(box.w[2][1][0]) is float


def test_a_raise_leaves_every_container_as_it_was():
    def fails(box):
        box.v["rows"][0].append(1.0)
        box.v["rows"].clear()
        box.v["new"] = box.w * 2
        del box.v["scale"]
        raise KeyError

    box = Box({"rows": [[1.0]], "scale": 4.0}, 2.0)
    outer, rows = box.v, box.v["rows"]
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(box)
        assert box.v is outer
        assert outer == {"rows": [[1.0]], "scale": 4.0}
        assert outer["rows"] is rows


def test_a_list_that_contains_itself_is_an_error():
    items = [1.0]
    items.append(items)
    with pytest.raises(mt.NotCapturedError, match="contains itself"):
        mt.grad(lambda b: b.v[0] ** 2)(Box(items))


def test_integers_and_texts_in_a_list_are_passed_through():
    def loss(box):
        box.v[0] += 1
        box.v.append("done")
        return box.v[1] * box.v[0]

    box = Box([1, 2.5, None, "text"])
    tangent = mt.grad(loss)(box)
    assert tangent.v[1] == 2.0
    assert box.v == [2, 2.5, None, "text", "done"]


# -- chunks --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("length", [2, None])
def test_a_deque_is_carried_from_chunk_to_chunk(length):
    """A window of the last values; chunks chained backwards equal one call over all."""
    xs = [0.3, -0.7, 1.1, 0.2, 0.9, -0.4]

    def steps(box, p, xs):
        for x in xs:
            box.v.append(np.tanh(p * x + 0.5 * box.v[-1] + 0.25 * box.v[0]))
            if len(box.v) > 3:
                box.v.popleft()
        return box.v[-1] * box.v[0]

    make = lambda: Box(deque([0.1, 0.5], maxlen=length))
    whole, dp_whole = mt.grad(lambda box, p: steps(box, p, xs), argnums=(0, 1))(make(), 0.7)
    box, chunks = make(), [xs[:2], xs[2:5], xs[5:]]
    pullbacks = [mt.vjp(lambda box, p, xs=xs: steps(box, p, xs), box, 0.7)[1] for xs in chunks]
    dp, objects, seed = 0.0, None, 1.0
    for pullback in reversed(pullbacks):
        d_box, dp_chunk = pullback(seed, objects=objects)
        dp, objects, seed = dp + dp_chunk, mt.IdentityMap([(box, d_box)]), 0.0
    assert d_box.v == pytest.approx(whole.v)
    assert dp == pytest.approx(dp_whole)


def test_an_object_that_a_chunk_never_met_may_have_changed_altogether():
    far, near = Box([1.0, np.ones(2)]), Box(2.0)

    def second(far, near):
        out = far.v[0] * near.v + np.sum(far.v[1])
        far.v = {"other": 1.0}
        far.w = np.ones((3, 3))
        return out

    _, first_back = mt.vjp(lambda near: setattr(near, "v", near.v**2), near)
    _, second_back = mt.vjp(second, far, near)
    d_far, d_near = second_back(1.0)
    (tangent,) = first_back(None, objects=mt.IdentityMap([(far, d_far), (near, d_near)]))
    assert tangent.v == 4.0


PUT_IN = {
    "a list into a dict": ({}, lambda box: box.v.update(b=[box.w * 2]), {"b": [1.0]}),
    "a dict into a dict": ({}, lambda box: box.v.update(b={"q": box.w * 2}), {"b": {"q": 1.0}}),
    "a deque into a dict": ({}, lambda box: box.v.update(b=deque([box.w * 2])), {"b": [1.0]}),
    "a list into a list": ([0.0], lambda box: box.v.__setitem__(0, [box.w * 2]), [[1.0]]),
    "a list in a tuple into a list": ([0.0], lambda box: box.v.__setitem__(0, ([box.w * 2],)), [([1.0],)]),
    "a list appended to a list": ([], lambda box: box.v.append([box.w * 2]), [[1.0]]),
    "a list appended to a deque": (deque(), lambda box: box.v.append([box.w * 2]), [[1.0]]),
    "a list into a list in a list": ([[]], lambda box: box.v[0].append([box.w * 2]), [[[1.0]]]),
    "a list in a dict into a dict": ({}, lambda box: box.v.update(b={"q": [box.w * 2]}), {"b": {"q": [1.0]}}),
}


@pytest.mark.parametrize("name", PUT_IN)
def test_a_cotangent_reaches_what_was_put_into_an_older_container(name):
    before, put, cotangent = PUT_IN[name]
    box = Box(copy.deepcopy(before), 3.0)
    _, pullback = mt.vjp(lambda box: (put(box), box.w * 10.0)[1], box)
    seeds = mt.IdentityMap([(box, mt.Tangent(Box, v=cotangent))])
    for _ in range(2):
        assert pullback(1.0, objects=seeds)[0].w == 12.0

    held = Box(copy.deepcopy(before), 3.0)
    with mt.Context() as ctx:
        put(held)
        seen = held.v
    assert held.v == box.v
    plain = Box(copy.deepcopy(before), 3.0)
    put(plain)
    assert held.v == plain.v
    assert ctx.tangents(held, cotangent=mt.Tangent(Box, v=cotangent))[held].w == 2.0
    assert ctx.tangents(seen, cotangent=cotangent)[held].w == 2.0


def test_a_list_put_into_a_list_that_two_fields_share_has_one_cotangent():
    shared = []
    box = Box(shared, 3.0)
    other = Box(shared)
    _, pullback = mt.vjp(lambda box, other: (other.v, box.v.append([box.w * 2]), box.w * 0.0)[2], box, other)
    one = [[1.0]]
    for given, right in ((one, 2.0), ([[1.0]], 4.0)):
        seeds = mt.IdentityMap([(box, mt.Tangent(Box, v=one)), (other, mt.Tangent(Box, v=given))])
        assert pullback(0.0, objects=seeds)[0].w == right
    assert box.v is other.v is shared
    assert shared == [[6.0]]


def test_a_deque_may_be_differentiated_as_an_argument_and_stopped():
    items = deque([1.0, 2.0, 3.0], maxlen=3)
    tangent = mt.grad(lambda items: items[0] * items[2] + items[1])(items)
    assert list(tangent) == [3.0, 1.0, 1.0]
    _, pullback = mt.vjp(lambda x: deque([x, x * 2]), 3.0)
    assert pullback([1.0, 10.0]) == (21.0,)
    assert mt.grad(lambda x: x * mt.stop_gradient(deque([x * 2], maxlen=4))[0])(3.0) == 6.0
    assert type(mt.stop_gradient(items)) is deque
    assert mt.stop_gradient(items).maxlen == 3
