"""`mt.tree`: every number of an object graph or a tangent, each shared object once."""

import collections
import functools
import types
from typing import Generic, NamedTuple, TypeVar

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Pair:
    a: object = None
    b: object = None


@mt.differentiable
class Layer:
    w: object
    state: object = mt.field(trainable=False, default=None)


T = TypeVar("T")


class Gates(NamedTuple):
    r: object
    z: object


def tangent(**fields):
    return mt.Tangent(Pair, **fields)


def chain(length):
    m = None
    for number in range(length):
        m = Pair(float(number), m)
    return m


def unlink(m):
    """Take a chain apart, so that it is not freed by recursion."""
    while isinstance(m, Pair):
        m.b, m = None, m.b


# ---------------------------------------------------------------- leaves and paths


def test_leaves_come_in_the_order_of_the_fields_the_first_with_all_that_is_in_it():
    m = Pair(Pair([1.0, (2.0, {"x": 3.0})], 4.0), Pair(5.0))
    assert mt.tree.leaves(m) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert mt.tree.paths(m) == [".a.a[0]", ".a.a[1][0]", ".a.a[1][1]['x']", ".a.b", ".b.a"]


def test_a_path_is_what_one_writes_after_the_tree():
    m = Pair({"first": [np.ones(2), Layer(2.0)]}, Gates(3.0, collections.deque([4.0])))
    for path, leaf in zip(mt.tree.paths(m), mt.tree.leaves(m), strict=True):
        assert eval(f"m{path}") is leaf


def test_only_floats_and_complex_numbers_and_arrays_of_them_are_leaves():
    values = [1, True, None, "x", np.tanh, np.arange(3), np.bool_(True), np.int64(3), {3}, b"x", range(3)]
    numbers = [1.0, 1j, np.float32(1), np.ones(2), np.ones((), np.complex64), np.zeros(0)]
    assert all(a is b for a, b in zip(mt.tree.leaves([values, numbers]), numbers, strict=True))


def test_a_shared_object_and_a_shared_list_are_visited_once_and_cycles_end():
    layer, items = Layer(1.0), [2.0]
    m = Pair([layer, layer, items], Pair(layer, items))
    m.b.b.append(m)
    assert mt.tree.leaves(m) == [1.0, 2.0]
    items.append(items)
    assert mt.tree.paths(m) == [".a[0].w", ".a[2][0]"]


def test_an_array_in_two_fields_is_two_leaves_and_counts_once():
    w = np.array([3.0, 4.0])
    m = Pair(w, w)
    assert len(mt.tree.leaves(m)) == 2
    assert mt.tree.size(m) == 2
    assert mt.tree.norm(m) == 5.0


def test_the_shares_of_a_tangent_count_each():
    share = np.array([3.0, 4.0])
    dm = tangent(a=share, b=[share, mt.ZeroTangent(), mt.NoTangent()])
    assert mt.tree.size(dm) == 4
    assert mt.tree.norm(dm) == pytest.approx(np.sqrt(50))
    assert mt.tree.paths(dm) == [".a", ".b[0]"]


def test_the_fields_of_a_tangent_come_in_the_order_of_the_class():
    assert mt.tree.leaves(mt.Tangent(Pair, b=2.0, a=1.0)) == [1.0, 2.0]


def test_a_number_alone_is_a_tree_and_its_path_is_empty():
    assert mt.tree.leaves(2.0) == [2.0]
    assert mt.tree.paths(np.ones(3)) == [""]
    assert mt.tree.map(lambda x: x + 1, 2.0) == 3.0
    assert mt.tree.size(np.ones((2, 3))) == 6


@pytest.mark.parametrize(
    "tree", [None, 3, "text", [], {}, Pair(), mt.ZeroTangent(), mt.Tangent(Pair)], ids=repr
)
def test_a_tree_without_numbers_has_no_leaves_and_norm_zero(tree):
    assert mt.tree.leaves(tree) == mt.tree.paths(tree) == []
    assert mt.tree.norm(tree) == mt.tree.size(tree) == 0


def test_a_field_that_is_not_set_has_no_leaf_and_stays_unset_in_a_map():
    @mt.differentiable
    class Late:
        w: float
        v: float = mt.field(init=False)

    assert mt.tree.leaves(Late(1.0)) == [1.0]
    assert not hasattr(mt.tree.map(lambda x: x, Late(1.0)), "v")


# ---------------------------------------------------------------- norm


def test_the_norm_is_that_of_all_numbers_together(rng):
    arrays = [rng.normal(size=shape) for shape in [(2, 3), (), (4,), (0,), (1, 2, 3)]]
    m = Pair(arrays, Pair(2.0, 3 - 4j))
    everything = np.concatenate([*map(np.ravel, arrays), np.array([2.0, 3 - 4j])])
    assert mt.tree.norm(m) == pytest.approx(np.linalg.norm(everything))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_norm_has_the_precision_of_the_leaves(dtype):
    m = Pair(np.ones(2, dtype), [np.ones((), dtype), 2.0])
    assert mt.tree.norm(m).dtype == dtype
    assert (tangent(a=np.ones(2, dtype)) * mt.tree.norm(m)).a.dtype == dtype


def test_the_norm_is_differentiable_at_zero_too():
    m = Pair(np.array([3.0, 0.0]), [4.0, np.zeros(2)])
    dm = mt.grad(mt.tree.norm)(m)
    np.testing.assert_allclose(dm.a, [0.6, 0.0])
    assert dm.b[0] == pytest.approx(0.8)
    np.testing.assert_array_equal(dm.b[1], [0, 0])
    dm = mt.grad(mt.tree.norm)(Pair(np.zeros(2), 0.0))
    np.testing.assert_array_equal(dm.a, [0, 0])
    assert dm.b == 0


def test_the_norm_of_a_gradient_can_be_differentiated():
    # |∇ Σw³| = |3w²|, and its derivative at w = (1, 2): 3·2w·w²/|w²| = 6w³/√17.
    def steepness(m):
        return mt.tree.norm(mt.grad(lambda m: np.sum(m.a**3))(m))

    m = Pair(np.array([1.0, 2.0]))
    np.testing.assert_allclose(mt.grad(steepness)(m).a, 6 * m.a**3 / np.sqrt(17))
    mt.testing.check_grads(steepness, (m,), order=1)


def test_large_numbers_do_not_overflow_between_leaves():
    assert mt.tree.norm([3e200, 4e200]) == pytest.approx(5e200)


# ---------------------------------------------------------------- map over one tree


def test_a_map_over_an_object_makes_a_new_one_of_the_same_class():
    w = np.ones(2)
    m = Pair(w, Layer(2.0, "name"))
    new = mt.tree.map(lambda x: 10 * x, m)
    assert type(new) is Pair
    assert type(new.b) is Layer
    np.testing.assert_array_equal(new.a, [10, 10])
    assert (new.b.w, new.b.state) == (20.0, "name")
    assert m.a is w
    assert m.b.w == 2.0


def test_sharing_and_cycles_carry_over():
    layer, items, w = Layer(1.0), [np.ones(2)], np.ones(3)
    m = Pair((layer, items, w), {"layer": layer, "items": items, "w": w})
    layer.state = m
    calls = []
    new = mt.tree.map(lambda x: calls.append(x) or x * 2, m)
    assert new.a[0] is new.b["layer"] is not layer
    assert new.a[1] is new.b["items"] is not items
    assert new.a[2] is new.b["w"] is not w
    assert new.a[0].state is new
    assert len(calls) == 3


def test_an_array_that_is_weight_and_state_stays_one_array():
    start = np.zeros(2)
    new = mt.tree.map(np.copy, Layer(start, start))
    assert new.w is new.state is not start


def test_containers_keep_their_kinds():
    class Items(list):
        pass

    m = {
        "deque": collections.deque([1.0, 2.0], maxlen=2),
        "default": collections.defaultdict(list, x=1.0),
        "ordered": collections.OrderedDict(x=1.0),
        "gates": Gates(1.0, (2.0,)),
        "items": Items([1.0]),
    }
    new = mt.tree.map(lambda x: -x, m)
    assert new["deque"] == collections.deque([-1.0, -2.0], maxlen=2)
    assert new["deque"].maxlen == 2
    assert new["default"].default_factory is list
    assert new["default"] == {"x": -1.0}
    assert type(new["ordered"]) is collections.OrderedDict
    assert new["gates"] == Gates(-1.0, (-2.0,))
    assert type(new["gates"]) is Gates
    assert type(new["items"]) is Items


def test_what_is_no_number_goes_over_and_what_can_be_changed_is_a_copy():
    counts, big, names, rng = np.zeros(3, int), np.zeros(100_000, int), {"a"}, np.random.default_rng(0)
    m = Pair([counts, big, names, np.tanh, None, 3], Pair(counts, rng))
    new = mt.tree.map(lambda x: x, m)
    assert new.a[0] is new.b.a is not counts
    assert new.a[1] is big
    assert new.a[2] == names
    assert new.a[2] is not names
    assert new.a[3:] == [np.tanh, None, 3]
    assert new.b.b is rng


def test_attributes_that_are_no_fields_go_over():
    class Base:
        __slots__ = ("note",)

    @mt.differentiable(slots=False)
    class Loose(Base):
        w: float

    m = Loose(1.0)
    m.note, m.extra = "slot", "dict"
    new = mt.tree.map(lambda x: x + 1, m)
    assert (new.w, new.note, new.extra) == (2.0, "slot", "dict")


def test_frozen_classes_converters_and_validators_do_not_stand_in_the_way():
    def positive(instance, attribute, value):
        if value <= 0:
            raise ValueError("negative")

    @mt.differentiable(frozen=True)
    class Frozen:
        w: float = mt.field(converter=float, validator=positive)

    assert mt.tree.map(np.shape, Frozen(2.0)).w == ()
    assert mt.tree.map(lambda x: -x, Frozen(2.0)).w == -2.0


def test_a_map_over_a_tangent_makes_a_tangent_and_keeps_sharing():
    dlayer = mt.Tangent(Layer, w=np.ones(2))
    dm = tangent(a=dlayer, b=[dlayer, mt.ZeroTangent(), mt.NoTangent()])
    new = mt.tree.map(lambda g: 3 * g, dm)
    assert new.a is new.b[0]
    np.testing.assert_array_equal(new.a.w, [3, 3])
    assert new.b[1:] == [mt.ZeroTangent(), mt.NoTangent()]
    assert new == 3 * dm


def test_a_map_over_a_gradient_still_knows_the_shapes_of_what_was_left_out():
    dm = mt.grad(lambda m: np.sum(m.a))(Pair(np.ones(2), np.ones(3)))
    dense = mt.tree.map(lambda g: g, dm).dense()
    np.testing.assert_array_equal(dense.b, np.zeros(3))


def test_a_map_is_differentiable_in_both_modes():
    def loss(m):
        doubled = mt.tree.map(lambda x: x * x, m)
        return np.sum(doubled.a * doubled.b.w)

    w = np.array([1.0, 2.0])
    for m in (Pair(w, Layer(np.array([3.0, 4.0]), 1.0)), Pair(w, Layer(w))):
        mt.testing.check_grads(loss, (m,))


# ---------------------------------------------------------------- map over several trees


def test_gradients_are_averaged_also_where_only_one_of_them_has_something():
    one, other = tangent(a=np.array([2.0])), tangent(a=np.array([4.0]), b=mt.Tangent(Layer, w=8.0))
    for first, second in ((one, other), (other, one)):
        mean = mt.tree.map(lambda g, h: (g + h) / 2, first, second)
        np.testing.assert_array_equal(mean.a, [3.0])
        assert mean.b == mt.Tangent(Layer, w=4.0)
        assert mean == (one + other) / 2


def test_weight_decay_reaches_weights_to_which_nothing_flowed():
    layer = Layer(np.array([10.0]))
    m = Pair(layer, [layer, {"x": 20.0}, (3, 30.0)])
    decayed = mt.tree.map(lambda g, w: g + 0.1 * w, tangent(a=mt.Tangent(Layer, w=np.array([1.0]))), m)
    assert decayed.a is decayed.b[0]
    np.testing.assert_array_equal(decayed.a.w, [2.0])
    assert decayed.b[1:] == [{"x": 2.0}, (mt.ZeroTangent(), 3.0)]
    empty = mt.tree.map(lambda g, w: g + 0.1 * w, mt.ZeroTangent(), m)
    np.testing.assert_array_equal(empty.a.w, [1.0])
    assert empty.a is empty.b[0]


def test_a_completed_tangent_has_the_cycles_of_the_object():
    m = Pair(1.0)
    m.b = m
    dm = mt.tree.map(lambda g, w: g + w, mt.Tangent(Pair), m)
    assert dm.b is dm
    assert dm.a == 1.0


def test_an_object_moves_along_its_gradient():
    m = Pair(np.array([1.0]), [2.0, Layer(3.0)])
    dm = mt.grad(lambda m: np.sum(m.a) * m.b[0])(m)
    new = mt.tree.map(lambda w, g: w - 0.5 * g, m, dm)
    np.testing.assert_array_equal(new.a, [0.0])
    assert new.b[0] == 1.5
    assert new.b[1] == Layer(3.0)


def test_a_running_mean_of_weights_is_a_model():
    m, target = Pair(np.array([1.0]), Layer(1)), Pair(np.array([3.0]), Layer(2.0))
    mean = mt.tree.map(lambda t, w: 0.75 * t + 0.25 * w, target, m)
    np.testing.assert_array_equal(mean.a, [2.5])
    assert mean.b.w == 1.75  # an int in one of them will do


def test_an_object_has_one_partner_whichever_way_has_it():
    layer = Layer(1.0)
    dlayer = mt.Tangent(Layer, w=10.0)
    for dm in (tangent(a=dlayer), tangent(b=dlayer), tangent(a=dlayer, b=dlayer)):
        new = mt.tree.map(lambda w, g: w + g, Pair(layer, layer), dm)
        assert new.a is new.b
        assert new.a.w == 11.0
    with pytest.raises(
        ValueError, match=r"Layer\.w \(at Pair\.\w\.w\) is reached by two ways, and another tree"
    ):
        mt.tree.map(lambda w, g: w + g, Pair(layer, layer), tangent(a=dlayer, b=mt.Tangent(Layer, w=20.0)))


def test_a_shared_array_with_two_shares_is_refused_since_two_arrays_would_come_out():
    w = np.ones(2)
    m = Pair(w, w)
    with pytest.raises(
        ValueError, match=r"Pair\.b and Pair\.a are one array, and another tree has two values"
    ):
        mt.tree.map(lambda w, g: w - g, m, tangent(a=np.ones(2), b=np.ones(2)))
    same = mt.tree.map(lambda w, v: w - v, m, m)
    assert same.a is same.b
    # The same in a recording, where each field has a traced value of its own.
    assert mt.grad(lambda m: np.sum(mt.tree.map(lambda w, v: w * v, m, m).a))(m).a.tolist() == [2, 2]


def test_a_first_state_that_is_also_a_weight_is_no_shared_weight():
    start = np.ones(2)
    dm = mt.Tangent(Layer, w=np.full(2, 10.0), state=np.full(2, 20.0))
    new = mt.tree.map(lambda w, g: w + g, Layer(start, start), dm)
    assert (new.w.tolist(), new.state.tolist()) == ([11, 11], [21, 21])


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (Pair(1.0), Layer(1.0), r"Pair is a Pair in the first tree and a Layer in another"),
        (Pair(1.0), 2.0, r"Pair is a Pair in the first tree and a float in another"),
        (Pair([1.0]), Pair([1.0, 2.0]), r"Pair\.a is a list of length 1 .* and a list of length 2"),
        (Pair({"x": 1.0}), Pair({"y": 1.0}), r"Pair\.a is a dict with keys \['x'\] .* keys \['y'\]"),
        (Pair(1.0), Pair("x"), r"Pair\.a is a float .* and a str"),
        (Pair(1.0), Pair(None), r"Pair\.a is a float .* and a NoneType"),
        (Pair(None), Pair(1.0), r"Pair\.a is a NoneType .* and a float"),
        (Pair(None), Pair(Layer(1.0)), r"Pair\.a is a NoneType .* and a Layer"),
        (Pair(Layer(1.0)), Pair(Pair(1.0)), r"Pair\.a is a Layer .* and a Pair"),
        (tangent(a=1.0), mt.Tangent(Layer, w=1.0), r"a Tangent of Pair .* and a Tangent of Layer"),
    ],
)
def test_trees_of_other_structure_are_refused(first, second, message):
    with pytest.raises(ValueError, match=message):
        mt.tree.map(lambda a, b: a, first, second)


# ---------------------------------------------------------------- what is not followed


def test_arrays_in_classes_that_are_not_captured_are_not_left_out_in_silence():
    @attrs.define
    class Foreign:
        w: np.ndarray

    class Inherits(Layer):
        pass

    @attrs.define
    class Extended(Layer):
        v: object = 2.0

    for walk in (mt.tree.leaves, mt.tree.norm, lambda m: mt.tree.map(np.copy, m), mt.ravel):
        with pytest.raises(
            mt.NotCapturedError, match=r"Pair\.a is a Foreign.*Put @mutangent\.differentiable"
        ):
            walk(Pair(Foreign(np.ones(2))))
        with pytest.raises(mt.NotCapturedError, match=r"Extended\.v holds .* only inherits capture"):
            walk(Pair(Extended(1.0)))
        with pytest.raises(mt.NotCapturedError, match=r"UserDict"):
            walk([collections.UserDict(w=np.ones(2))])
    assert mt.tree.leaves(Inherits(1.0)) == [1.0]
    assert type(mt.tree.map(np.copy, Inherits(1.0))) is Inherits


# ---------------------------------------------------------------- long chains


def test_a_chain_of_a_hundred_thousand_objects_needs_no_recursion():
    m = chain(100_000)
    assert mt.tree.size(m) == 100_000
    unlink(m)


def test_nothing_recurses_along_a_chain():
    length = 5_000
    m = chain(length)
    assert len(mt.tree.leaves(m)) == length
    assert mt.tree.norm(m) == pytest.approx(np.linalg.norm(np.arange(length)))
    difference = mt.tree.map(lambda x, y: x - y, m, m)
    assert mt.tree.norm(difference) == 0
    vector, unravel = mt.ravel(m)
    np.testing.assert_array_equal(vector, np.arange(length)[::-1])
    again = unravel(vector)
    assert mt.ravel_tangent(m, tangent(a=1.0)).sum() == 1.0
    for graph in (m, difference, again):
        unlink(graph)


def test_lists_in_lists_need_no_recursion():
    nested = [1.0]
    for _ in range(20_000):
        nested = [nested]
    new = mt.tree.map(lambda x: x + 1, nested)
    assert mt.tree.leaves(new) == [2.0]
    for inner in (nested, new):  # not freed by recursion either
        while isinstance(inner[0], list):
            inner[:] = inner.pop()


# ---------------------------------------------------------------- parameters


def test_parameters_are_what_training_moves_each_array_once():
    w, start = np.ones(2), np.zeros(2)
    m = Pair([w, Layer(start, start)], Pair(w, (2.0, 3)))
    found = mt.tree.parameters(m)
    assert [parameter.paths for parameter in found] == [[".a[0]", ".b.a"], [".a[1].w"], [".b.b[0]"]]
    assert found[0].value is w
    assert repr(found[0]) == "Parameter(.a[0] = .b.a, shape=(2,))"
    assert all(parameter.gradient == mt.ZeroTangent() for parameter in found)
    found[0].put(np.zeros(2))
    found[2].put(5.0)
    assert m.a[0] is m.b.a is not w
    assert m.b.b == (5.0, 3)


def test_a_parameters_gradient_is_the_sum_of_the_shares():
    w = np.ones(2)
    (parameter,) = mt.tree.parameters(Pair(w, [w]), tangent(a=np.ones(2), b=[np.full(2, 2.0)]))
    assert parameter.gradient.tolist() == [3, 3]


def test_a_put_that_a_validator_refuses_changes_nothing():
    def short(instance, attribute, value):
        if len(value) > 2:
            raise ValueError("too long")

    @mt.differentiable
    class Strict:
        w: np.ndarray = mt.field(validator=short)

    w = np.ones(2)
    m = Pair(w, Strict(w))
    (parameter,) = mt.tree.parameters(m)
    with pytest.raises(ValueError, match="too long"):
        parameter.put(np.ones(3))
    assert m.a is m.b.w is w


def test_parameters_of_a_tangent_are_refused():
    dm = tangent(a=1.0)
    for call in (
        lambda: mt.tree.parameters(dm),
        lambda: mt.ravel([dm]),
        lambda: mt.ravel_tangent(dm, dm),
        lambda: mt.total(dm, dm),
        lambda: mt.optim.SGD(0.1).update(dm, dm),
    ):
        with pytest.raises(
            mt.GradientTypeError, match=r"a Tangent of Pair was given where its object is needed"
        ):
            call()


# ---------------------------------------------------------------- memory


def test_a_walk_keeps_no_array_alive():
    import gc
    import weakref

    w = np.ones(3)
    seen = weakref.ref(w)
    m = Pair(w, [w])
    gc.disable()
    try:
        mt.tree.norm(m)
        mt.tree.map(np.copy, m)
        mt.total(m, tangent(a=np.ones(3)))
        mt.optim.SGD(0.1).update(m, tangent(a=np.ones(3)))
        _, unravel = mt.ravel(m)
        del w
        m.a = m.b = None
        assert seen() is None
        del unravel
    finally:
        gc.enable()


# ---------------------------------------------------------------- views


@pytest.mark.parametrize("view", [lambda w: w.T, lambda w: w[:1], lambda w: w.reshape(-1), lambda w: w[:]])
def test_overlapping_views_in_two_fields_would_be_torn_apart_and_are_refused(view):
    w = np.ones((2, 2))
    m = Pair(w, [view(w)])
    for call in (
        lambda: mt.tree.map(np.copy, m),
        lambda: mt.ravel(m),
        lambda: mt.optim.SGD(0.1).update(m, tangent(a=w)),
        lambda: mt.ravel(Pair(1.0, Layer(2.0, [w, view(w)]))),
        lambda: mt.grad(lambda m: np.sum(mt.ravel(m)[0]))(m),
    ):
        with pytest.raises(ValueError, match=r"Pair\.[ab].* and .* hold arrays that overlap .*`self\.w\.T`"):
            call()
    assert m.a is w


def test_views_of_one_buffer_that_do_not_overlap_are_parameters_of_their_own():
    buffer = np.arange(6.0)
    m = Pair(buffer[::2], [buffer[1::2]])
    assert mt.ravel(m)[0].tolist() == [0, 2, 4, 1, 3, 5]
    mt.optim.SGD(0.1).update(m, tangent(a=np.ones(3)))
    assert m.a.tolist() == [-0.1, 1.9, 3.9]


def test_overlapping_views_among_the_state_are_no_business_of_an_optimiser():
    buffer = np.zeros(4)
    m = Layer(1.0, [buffer, buffer[:2]])
    mt.optim.SGD(0.1).update(m, mt.Tangent(Layer, w=1.0))
    assert m.w == 0.9


# ---------------------------------------------------------------- kinds of classes


@pytest.mark.parametrize("slots", [True, False])
def test_a_hash_that_is_kept_and_a_property_that_is_cached_are_those_of_the_new_numbers(slots):
    @mt.differentiable(slots=slots, unsafe_hash=True, cache_hash=True)
    class Kept:
        _w: float = mt.field(alias="weight")

        @functools.cached_property
        def square(self):
            return self._w**2

    old = Kept(2.0)
    assert (hash(old), old.square) == (hash(Kept(2.0)), 4.0)
    new = mt.tree.map(lambda x: x + 1, old)
    assert (hash(new), new.square) == (hash(Kept(3.0)), 9.0)
    assert mt.tree.paths(new) == ["._w"]


def test_an_exception_and_a_generic_class_can_be_trees():
    @mt.differentiable
    class Failure(Exception):
        loss: float

    class Box(Pair, Generic[T]):
        pass

    assert mt.tree.map(lambda x: x + 1, Failure(1.0)).loss == 2.0
    assert mt.tree.map(lambda x: x + 1, Box[int](1.0)).a == 2.0


@pytest.mark.parametrize(
    "make",
    [
        lambda obj: np.array([obj, None], object),
        lambda obj: types.MappingProxyType({"x": obj}),
        lambda obj: types.SimpleNamespace(x=obj),
        lambda obj: collections.UserDict(x=obj),
        lambda obj: {obj},
        lambda obj: frozenset([obj]),
    ],
)
def test_objects_and_arrays_in_containers_that_are_not_walked_are_not_left_out_in_silence(make):
    @mt.differentiable(eq=False)
    class Hashable:
        w: float

    with pytest.raises(
        mt.NotCapturedError, match=r"Pair\.a\[0\] is a .* that holds a Hashable, .* Use a list"
    ):
        mt.ravel(Pair([make(Hashable(1.0))]))
    if not isinstance(make(1), set | frozenset):
        m = Pair(make(np.ones(2)), 1.0)
        with pytest.raises(mt.NotCapturedError, match=r"Pair\.a is a .* that holds a \w+\.ndarray of shape"):
            mt.tree.leaves(m)
        with pytest.raises(mt.NotCapturedError, match=r"Pair\.a is a .* that holds a \w+\.ndarray of shape"):
            mt.grad(lambda m: m.b * (m.a is not None))(m)


# ---------------------------------------------------------------- in recordings


def test_a_shared_array_that_the_recording_writes_is_still_one_parameter():
    def loss(m):
        m.a[0] = 5.0 * m.a[1]
        vector, unravel = mt.ravel(m)
        assert vector.shape == (2,)
        return np.sum(unravel(vector).b * np.array([1.0, 10.0]))

    w = np.array([1.0, 2.0])
    m = Pair(w, w)
    gradient = mt.grad(loss)(m)
    assert mt.total(m, gradient)[w].tolist() == [0, 15]
    assert m.a is m.b is w
    assert w.tolist() == [10, 2]


def test_walks_can_be_recomputed_by_a_checkpoint():
    @mt.checkpoint
    def loss(m):
        vector, unravel = mt.ravel(m)
        new = mt.tree.map(lambda x: x * x, unravel(vector))
        new.a = new.a * new.b
        return mt.tree.norm(new.a)

    m = Pair(np.array([1.0, 2.0]), 3.0)
    plain = mt.grad(lambda m: np.linalg.norm(m.a**2 * m.b**2))(Pair(m.a, m.b))
    gradient = mt.grad(loss)(m)
    np.testing.assert_allclose(gradient.a, plain.a)
    assert gradient.b == pytest.approx(plain.b)
