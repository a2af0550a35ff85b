"""What every optimiser does alike: which values are parameters, which are one, and how they get new values."""

import enum
from typing import NamedTuple

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Pair:
    a: object
    b: object = None


@mt.differentiable
class Layer:
    w: np.ndarray
    state: np.ndarray = mt.field(trainable=False, factory=lambda: np.zeros(2))


OPTIMISERS = {
    "SGD": lambda: mt.optim.SGD(0.1),
    "momentum": lambda: mt.optim.SGD(0.1, momentum=0.9),
    "Adam": lambda: mt.optim.Adam(0.1),
}


@pytest.fixture(params=OPTIMISERS.values(), ids=OPTIMISERS.keys())
def make_opt(request):
    return request.param


@pytest.fixture
def opt(make_opt):
    return make_opt()


def tangent(**fields):
    return mt.Tangent(Pair, **fields)


def test_an_array_in_two_fields_moves_once_by_the_sum_of_its_shares():
    # Case 40.
    w = np.array([5.0, 5.0])
    m = Pair(w, w)
    gradient = mt.grad(lambda m: np.sum(m.a + m.b))(m)
    np.testing.assert_array_equal(gradient.a, [1, 1])
    np.testing.assert_array_equal(gradient.b, [1, 1])
    mt.optim.SGD(0.1).update(m, gradient)
    np.testing.assert_allclose(m.a, [4.8, 4.8])
    assert m.a is m.b
    np.testing.assert_array_equal(w, [5.0, 5.0])


def test_an_array_in_two_objects_stays_shared_even_if_one_of_them_has_no_tangent(opt):
    w = np.ones(2)
    m = Pair(Layer(w), Layer(w))
    for gradient in (tangent(a=mt.Tangent(Layer, w=np.ones(2))), tangent(b=mt.Tangent(Layer, w=np.ones(2)))):
        opt.update(m, gradient)
        assert m.a.w is m.b.w
        assert (m.a.w < 1).all()


def test_moments_of_a_shared_array_survive_whichever_of_its_fields_has_the_gradient():
    w = np.zeros(1)
    shared, single = Pair(w, w), Pair(np.zeros(1))
    one, other = mt.optim.Adam(0.1), mt.optim.Adam(0.1)
    for step, gradient in enumerate([1.0, -2.0, 0.5]):
        field = "ab"[step % 2]
        one.update(shared, tangent(**{field: np.array([gradient])}))
        other.update(single, tangent(a=np.array([gradient])))
    np.testing.assert_array_equal(shared.a, single.a)


def test_equal_python_floats_in_two_fields_are_two_parameters():
    m = Pair(1.0, 1.0)
    mt.optim.SGD(0.1).update(m, tangent(a=1.0, b=2.0))
    assert (m.a, m.b) == (0.9, 0.8)


def test_a_shared_object_is_updated_once(make_opt):
    layer, single = Layer(np.ones(2)), Layer(np.ones(2))
    dlayer = mt.Tangent(Layer, w=np.ones(2))
    make_opt().update(Pair(layer, Pair(layer)), tangent(a=dlayer, b=tangent(a=dlayer)))
    make_opt().update(single, dlayer)
    np.testing.assert_array_equal(layer.w, single.w)


@pytest.mark.parametrize("first", ["a", "b"])
def test_an_object_reached_also_by_a_way_without_a_tangent_gets_its_gradient(first):
    layer = Layer(np.ones(2))
    dlayer = mt.Tangent(Layer, w=np.ones(2))
    mt.optim.SGD(0.1).update(Pair(layer, layer), tangent(**{first: dlayer}))
    np.testing.assert_allclose(layer.w, [0.9, 0.9])


def test_an_object_with_two_different_tangents_is_refused_and_with_two_equal_ones_stepped_once(opt):
    layer = Layer(np.ones(2))
    m = Pair(layer, layer)
    with pytest.raises(mt.CotangentError, match=r"Layer\.w \(at Pair\.a\.w\) .*different tangents"):
        opt.update(m, tangent(a=mt.Tangent(Layer, w=np.ones(2)), b=mt.Tangent(Layer, w=np.zeros(2))))
    np.testing.assert_array_equal(layer.w, [1, 1])
    mt.optim.SGD(0.1).update(m, tangent(a=mt.Tangent(Layer, w=np.ones(2)), b=mt.Tangent(Layer, w=np.ones(2))))
    np.testing.assert_allclose(layer.w, [0.9, 0.9])


def test_a_list_in_two_fields_has_one_gradient():
    items = [np.ones(2)]
    m = Pair(items, items)
    gradient = mt.grad(lambda m: np.sum(m.a[0] * m.b[0]))(m)
    mt.optim.SGD(0.1).update(m, gradient)
    assert m.a is m.b is items
    np.testing.assert_allclose(items[0], [0.8, 0.8])


def test_cycles_end(opt):
    m = Pair(np.array([1.0]))
    m.b = m
    dm = tangent(a=np.array([1.0]))
    mt.optim.SGD(0.1).update(m, mt.grad(lambda m: np.sum(m.b.b.a**2))(m))
    np.testing.assert_allclose(m.a, [0.8])
    opt.update(m, dm)
    assert m.b is m


def test_a_long_chain_of_objects_needs_no_recursion(opt):
    m, dm = None, mt.NoTangent()
    for _ in range(5000):
        m, dm = Pair(1.0, m), tangent(a=1.0, b=dm)
    opt.update(m, dm)
    while m is not None:
        assert m.a < 1
        m = m.b


def test_fields_that_are_not_trainable_stay_and_so_does_what_only_they_reach(opt):
    @mt.differentiable
    class Head:
        body: Pair = mt.field(trainable=False)
        w: np.ndarray

    state = np.zeros(2)
    layer = Layer(np.ones(2), state)
    opt.update(layer, mt.Tangent(Layer, w=np.ones(2), state=np.ones(2)))
    assert layer.state is state

    body = Pair(np.ones(1))
    head = Head(body, np.ones(1))
    opt.update(head, mt.Tangent(Head, body=tangent(a=np.ones(1)), w=np.ones(1)))
    np.testing.assert_array_equal(body.a, [1.0])
    assert head.w < 1

    # Reached by a trainable way too, it is a weight.
    opt.update(
        Pair(head, body), tangent(a=mt.Tangent(Head, body=tangent(a=np.ones(1))), b=tangent(a=np.ones(1)))
    )
    assert body.a < 1


def test_a_trainable_array_that_is_also_the_state_moves_and_the_state_stays(opt):
    start = np.zeros(2)
    layer = Layer(start, start)
    opt.update(layer, mt.Tangent(Layer, w=np.ones(2), state=np.ones(2)))
    assert layer.state is start
    assert (layer.w < 0).all()
    np.testing.assert_array_equal(start, [0, 0])


def test_no_array_is_written_into(opt, xp):
    w = xp.asarray([1.0, 2.0])
    m = Pair(w)
    gradient = xp.asarray([1.0, 1.0])
    for _ in range(2):
        opt.update(m, tangent(a=gradient))
    np.testing.assert_array_equal(w, [1.0, 2.0])
    np.testing.assert_array_equal(gradient, [1.0, 1.0])
    assert m.a is not w


@pytest.mark.parametrize(
    "value",
    [
        np.ones(2, np.float32),
        np.ones((), np.float32),
        np.ones((2, 3), np.float64),
        np.ones(2, np.complex64),
        np.float32(1),
        np.float64(1),
        np.complex64(1),
        1.0,
        1 + 0j,
    ],
    ids=repr,
)
def test_type_shape_and_dtype_stay(opt, value):
    m = Pair(value)
    for _ in range(2):
        opt.update(m, tangent(a=np.float64(0.5) * value))
    assert type(m.a) is type(value)
    assert np.shape(m.a) == np.shape(value)
    assert getattr(m.a, "dtype", None) == getattr(value, "dtype", None)
    assert np.all(np.real(m.a) < 1)


def test_a_float32_weight_takes_a_float64_gradient(opt):
    m = Pair(np.ones(2, np.float32))
    opt.update(m, tangent(a=np.ones(2)))
    assert m.a.dtype == np.float32


def test_tuples_lists_and_dicts_in_fields_are_updated(opt):
    class Gates(NamedTuple):
        r: np.ndarray
        z: np.ndarray

    items, table = [np.ones(1), 2], {"w": np.ones(1), "n": (1.0, "x")}
    m = Pair((np.ones(1), items), Pair(table, Gates(np.ones(1), np.ones(1))))
    one = np.ones(1)
    opt.update(
        m,
        tangent(
            a=(one, [one, mt.NoTangent()]),
            b=tangent(a={"w": one, "n": (1.0, mt.NoTangent())}, b=Gates(one, mt.ZeroTangent())),
        ),
    )
    assert m.a[0] < 1
    assert m.a[1] is items
    assert items[0] < 1
    assert items[1] == 2
    assert m.b.a is table
    assert table["w"] < 1
    assert table["n"][0] < 1
    assert table["n"][1] == "x"
    assert type(m.b.b) is Gates
    assert m.b.b.r < 1
    assert m.b.b.z == 1


def test_a_list_or_dict_of_arrays_may_be_the_model_itself(opt):
    weights = {"w": np.ones(2), "b": [np.ones(1)]}
    opt.update(weights, {"w": np.ones(2), "b": [np.ones(1)]})
    assert (weights["w"] < 1).all()
    assert weights["b"][0] < 1


def test_several_models_are_updated_together_and_a_part_that_they_share_once():
    layer = Layer(np.ones(2))
    one, other = Pair(layer), Pair(layer)
    gradients = mt.grad(lambda p, q: np.sum(p.a.w * q.a.w), argnums=(0, 1))(one, other)
    mt.optim.SGD(0.1).update((one, other), gradients)
    np.testing.assert_allclose(layer.w, [0.8, 0.8])


def test_frozen_classes_get_new_arrays_too(opt):
    @mt.differentiable(frozen=True)
    class Frozen:
        w: np.ndarray

    m = Frozen(np.ones(2))
    opt.update(m, mt.Tangent(Frozen, w=np.ones(2)))
    assert (m.w < 1).all()
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        m.w = np.ones(2)


def test_validators_see_the_step_and_can_refuse_it_as_a_whole(opt):
    def positive(instance, attribute, value):
        if (value < 0).any():
            raise ValueError("negative")

    @mt.differentiable
    class Positive:
        w: np.ndarray
        p: np.ndarray = mt.field(validator=positive)

    w, p = np.ones(1), np.full(1, 0.05)
    m = Positive(w, p)
    with pytest.raises(ValueError, match="negative"):
        opt.update(m, mt.Tangent(Positive, w=np.ones(1), p=np.ones(1)))
    assert m.w is w
    assert m.p is p


class Colour(enum.Enum):
    RED = 1


@pytest.mark.parametrize("value", [None, "text", 3, True, np.arange(3), np.tanh, Colour.RED], ids=repr)
def test_what_has_no_tangent_is_left_alone(opt, value):
    m = Pair(np.ones(1), value)
    for nothing in (mt.NoTangent(), mt.ZeroTangent()):
        opt.update(m, tangent(a=np.ones(1), b=nothing))
    assert m.b is value


def test_nothing_flowed_is_nothing_done(opt):
    w = np.ones(1)
    m = Pair(w)
    opt.update(m, mt.ZeroTangent())
    opt.update(m, tangent())
    assert m.a is w


def test_an_unset_slot_is_no_parameter(opt):
    @mt.differentiable
    class Late:
        w: np.ndarray
        v: np.ndarray = mt.field(init=False)

    m = Late(np.ones(1))
    opt.update(m, mt.Tangent(Late, w=np.ones(1)))
    assert m.w < 1


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (np.ones(3), r"Pair\.b holds an array of shape \(2,\) .* its tangent is an array of shape \(3,\)"),
        (1.0, r"Pair\.b holds an array of shape \(2,\) .* its tangent is a float"),
        (np.ones(2) * 1j, r"dtype float64, and its tangent is an array of shape \(2,\) and dtype complex128"),
        (np.ones(2, int), r"its tangent is an array of shape \(2,\) and dtype int"),
        (mt.Tangent(Pair), r"Pair\.b holds an array .* its tangent is a Tangent of Pair"),
        ([np.ones(2)], r"its tangent is a list of length 1"),
    ],
)
def test_a_gradient_that_does_not_fit_an_array_is_refused_as_a_whole(make_opt, wrong, message):
    opt = make_opt()
    w, v = np.ones(1), np.ones(2)
    m = Pair(w, v)
    with pytest.raises(mt.CotangentError, match=message) as caught:
        opt.update(m, tangent(a=np.ones(1), b=wrong))
    assert "trainable=False" in str(caught.value)
    assert m.a is w
    assert m.b is v
    # Nor has the refused gradient left anything in the optimiser.
    other = Pair(np.ones(1), np.ones(2))
    for optimiser, model in ((opt, m), (make_opt(), other)):
        optimiser.update(model, tangent(a=np.full(1, -2.0)))
        optimiser.update(model, tangent(a=np.full(1, 1.0)))
    np.testing.assert_array_equal(m.a, other.a)


@pytest.mark.parametrize(
    ("value", "wrong", "message"),
    [
        (Layer(np.ones(2)), mt.Tangent(Pair), r"Pair\.a holds a Layer, and its tangent is a Tangent of Pair"),
        (
            Layer(np.ones(2)),
            np.ones(2),
            r"Pair\.a holds a Layer, and its tangent is an array of shape \(2,\)",
        ),
        ([1.0, 2.0], [1.0], r"Pair\.a holds a list of length 2, and its tangent is a list of length 1"),
        ((1.0,), {"w": 1.0}, r"a tuple of length 1, and its tangent is a dict"),
        ({"w": 1.0}, {"v": 1.0}, r"a dict with keys \['w'\], and its tangent is a dict with keys \['v'\]"),
        (3, 1.0, r"Pair\.a holds an int, and its tangent is a float"),
        (1.0, np.ones(2), r"Pair\.a holds a float, and its tangent is an array of shape \(2,\)"),
    ],
)
def test_a_gradient_of_another_structure_is_refused(opt, value, wrong, message):
    with pytest.raises(mt.CotangentError, match=message):
        opt.update(Pair(value), tangent(a=wrong))


FOREIGN = (
    r"Nothing was changed\. That is no gradient of this object\. Give the one with respect to it, .*ctx\.grad"
)


@attrs.define
class Settings:
    rate: float = 2.0


@pytest.mark.parametrize(
    ("model", "wrong", "message"),
    [
        (
            Pair(1.0),
            mt.Tangent(Layer),
            rf"^a Pair was given, and its tangent is a Tangent of Layer\. {FOREIGN}",
        ),
        (Pair(1.0), 1.0, rf"^a Pair was given, and its tangent is a float\. {FOREIGN}"),
        (
            Pair(1.0),
            [tangent(a=1.0)],
            rf"^a Pair was given, and its tangent is a list of length 1\. {FOREIGN}",
        ),
        (
            Pair(Layer(1.0)),
            tangent(a=tangent()),
            rf"^Pair\.a holds a Layer, and its tangent is a Tangent of Pair\. {FOREIGN}",
        ),
        (
            [Layer(1.0)],
            [tangent()],
            rf"^list\[0\] holds a Layer, and its tangent is a Tangent of Pair\. {FOREIGN}",
        ),
        (
            Pair(Settings()),
            tangent(a=mt.Tangent(Settings, rate=1.0)),
            r"^Pair\.a holds a Settings, .*Settings is no captured class.*@mutangent\.differentiable on class Set",
        ),
    ],
)
def test_the_gradient_of_another_object_is_refused(opt, model, wrong, message):
    with pytest.raises(mt.CotangentError, match=message):
        opt.update(model, wrong)


def test_the_error_shows_the_way_to_the_field():
    m = Pair((1.0, {"deep": Layer(np.ones(2))}))
    gradient = tangent(a=(1.0, {"deep": mt.Tangent(Layer, w=np.ones(3))}))
    with pytest.raises(mt.CotangentError, match=r"^Layer\.w \(at Pair\.a\[1\]\['deep'\]\.w\) holds"):
        mt.optim.SGD(0.1).update(m, gradient)


def test_a_field_that_the_loss_resized_is_not_updated_by_broadcasting(opt):
    # A state that was not declared as one: entered 3×1, left 3×3; its tangent is 3×1.
    m = Pair(np.ones((3, 1)))

    def loss(m):
        m.a = m.a * np.ones((3, 3))
        return np.sum(m.a)

    gradient = mt.grad(loss)(m)
    assert gradient.a.shape == (3, 1)
    with pytest.raises(mt.CotangentError, match=r"Pair\.a .*trainable=False"):
        opt.update(m, gradient)


@pytest.mark.parametrize("model", [np.ones(2), 1.0, (np.ones(2),), ((1.0,), Layer(np.ones(2)))], ids=repr)
def test_a_bare_array_cannot_be_given_a_new_value(opt, model):
    with pytest.raises(TypeError, match="put"):
        opt.update(model, mt.ZeroTangent())


@pytest.mark.parametrize("make", [OPTIMISERS["momentum"], OPTIMISERS["Adam"]])
@pytest.mark.parametrize("shape", [(1, 2), (3, 2), (2,), ()])
def test_a_parameter_that_changed_its_shape_is_refused_and_not_broadcast_to_what_is_remembered(make, shape):
    opt, m = make(), Pair(1.0, Layer(np.ones((2, 2))))
    opt.update(m, tangent(b=mt.Tangent(Layer, w=np.ones((2, 2)))))
    m.b.w = np.ones(shape)
    with pytest.raises(ValueError, match=r"^Pair\.b\.w is of shape") as caught:
        opt.update(m, tangent(a=1.0, b=mt.Tangent(Layer, w=np.ones(shape))))
    assert f"is of shape {shape}, and was of shape (2, 2)" in str(caught.value)
    assert m.a == 1.0
    assert m.b.w.shape == shape


def test_without_memory_a_parameter_may_change_its_shape():
    m = Pair(np.ones(2))
    opt = mt.optim.SGD(0.5)
    opt.update(m, tangent(a=np.ones(2)))
    m.a = np.ones(3)
    opt.update(m, tangent(a=np.ones(3)))
    assert m.a.tolist() == [0.5, 0.5, 0.5]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: mt.optim.SGD(-0.1), r"SGD: lr must be a number ≥ 0, and is -0\.1\. To climb, negate"),
        (lambda: mt.optim.SGD(float("nan")), r"SGD: lr must be .* nan"),
        (lambda: mt.optim.SGD(None), r"SGD: lr must be .* None"),
        (lambda: mt.optim.SGD("0.1"), r"SGD: lr must be .* '0\.1'"),
        (lambda: mt.optim.SGD(np.ones(2)), r"SGD: lr must be "),
        (
            lambda: mt.optim.SGD(0.1, momentum=1.0),
            r"SGD: momentum must be a number from 0 up to, not including, 1",
        ),
        (lambda: mt.optim.Adam(-1), r"Adam: lr must be "),
        (lambda: mt.optim.Adam(betas=0.9), r"Adam: betas must be two numbers .* and is 0\.9\."),
        (lambda: mt.optim.Adam(betas=(0.9, 1.0)), r"Adam: betas must be two numbers .* \(0\.9, 1\.0\)"),
        (lambda: mt.optim.Adam(eps=-1e-8), r"Adam: eps must be "),
    ],
)
def test_settings_with_which_no_step_is_possible_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_a_setting_is_checked_when_it_is_changed_too(opt):
    with pytest.raises(ValueError, match="lr must be a number"):
        opt.lr = -1.0


def test_a_learning_rate_can_be_learned():
    # w = 3 - lr·1, and d(w²)/dlr = -2w.
    def after_a_step(lr):
        m = Pair(np.array([3.0]))
        mt.optim.SGD(lr).update(m, tangent(a=np.ones(1)))
        return np.sum(m.a**2)

    assert mt.grad(after_a_step)(0.5) == -5.0
