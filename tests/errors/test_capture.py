"""An object whose class is not captured, but which holds floats, is never silently constant."""

import dataclasses
from typing import NamedTuple

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 0.0


@attrs.define
class Forgotten:
    weight: object
    name: str = "a"


@attrs.define(slots=False)
class ForgottenDict:
    weight: object


@attrs.frozen
class ForgottenFrozen:
    weight: object


FORGOTTEN = [Forgotten, ForgottenDict, ForgottenFrozen]
every_forgotten = pytest.mark.parametrize("kind", FORGOTTEN)


def refused(f, *args, name):
    """`f` raises by each verb, names class and field, and says which class to decorate."""

    def by_context(*args):
        with mt.Context():
            f(*args)

    for way in (mt.grad(f), lambda *args: mt.vjp(f, *args), by_context):
        for _ in range(3):
            with pytest.raises(mt.MutangentError, match=rf"{name}(.|\n)*differentiable") as caught:
                way(*args)
            assert isinstance(caught.value, TypeError)
    return str(caught.value)


@every_forgotten
def test_an_undecorated_object_as_an_argument_is_refused_by_name(kind, xp):
    model = kind(xp.asarray(np.ones((2, 3))))
    for verb in (mt.grad, mt.value_and_grad):
        for _ in range(3):
            with pytest.raises(
                mt.MutangentError, match=rf"differentiable(.|\n)*class {kind.__name__}"
            ) as caught:
                verb(lambda m: np.sum(m.weight))(model)
            assert isinstance(caught.value, TypeError)
    for _ in range(3):
        with pytest.raises(mt.NotCapturedError, match=rf"differentiable(.|\n)*class {kind.__name__}"):
            mt.vjp(lambda m: np.sum(m.weight), model)
    assert type(model.weight) is np.ndarray


@every_forgotten
def test_the_message_names_field_shape_and_dtype(kind, xp):
    model = kind(xp.asarray(np.ones((2, 3)), np.float32))
    with pytest.raises(mt.NotCapturedError, match=rf"{kind.__name__}\.weight(.|\n)*\(2, 3\)(.|\n)*float32"):
        mt.vjp(lambda m: np.sum(m.weight), model)


@every_forgotten
def test_an_undecorated_object_in_a_captured_field_is_refused_by_name(kind, xp):
    box = Box(kind(xp.asarray([1.0, 2.0])), 3.0)
    text = refused(lambda b: np.sum(b.v.weight) * b.w, box, name=kind.__name__)
    assert "Box.v" in text
    assert box.w == 3.0


@every_forgotten
def test_an_undecorated_object_in_a_container_is_refused_by_name(kind, xp):
    model = kind(xp.asarray([1.0, 2.0]))
    for nested in ([model], (1.0, model), {"m": [model]}):
        box = Box(nested)
        refused(lambda b: np.sum(b.w) + len(b.v), box, name=kind.__name__)
        with pytest.raises(mt.NotCapturedError, match=rf"{kind.__name__}(.|\n)*differentiable"):
            mt.vjp(lambda a: 1.0, nested)


@every_forgotten
def test_an_undecorated_object_inside_an_undecorated_one_is_found(kind, xp):
    model = Forgotten(kind(xp.asarray([1.0, 2.0])))
    with pytest.raises(mt.NotCapturedError, match=r"differentiable"):
        mt.vjp(lambda m: np.sum(m.weight.weight), model)


def test_an_undecorated_object_without_floats_is_a_constant():
    @attrs.define
    class Settings:
        name: str
        sizes: tuple = (1, 2)
        table: object = None

    def loss(box, settings):
        return box.v * settings.sizes[1] * box.w.sizes[1]

    for _ in range(3):
        box = Box(3.0, Settings("a"))
        tangent = mt.grad(loss)(box, Settings("b", table=np.array([1, 2])))
        assert tangent.v == 4.0


def test_undecorated_settings_show_that_they_have_no_tangent_and_are_refused_when_they_are_asked_for():
    @attrs.define
    class Settings:
        rate: float = 2.0

    @dataclasses.dataclass
    class Data:
        rate: float = 2.0

    for cls in (Settings, Data):
        put = rf"{cls.__name__}(.|\n)*@mutangent\.differentiable on class {cls.__name__}"
        box = Box(3.0, cls())
        tangent = mt.grad(lambda box: box.v * box.w.rate)(box)
        assert (tangent.v, tangent.w) == (2.0, mt.NoTangent())
        assert mt.vjp(lambda s, v: v * s.rate, cls(), 3.0)[1](1.0) == (mt.NoTangent(), 2.0)
        with pytest.raises(mt.GradientTypeError, match=put):
            mt.grad(lambda s, v: v * s.rate)(cls(), 3.0)
        with mt.Context() as ctx:
            out = box.v * box.w.rate
        with pytest.raises(mt.GradientTypeError, match=put):
            ctx.grad(out, box.w)
        with pytest.raises(KeyError, match=cls.__name__):
            ctx.tangents(out)[box.w]


def test_a_traced_value_put_into_an_undecorated_object_in_a_field_is_refused(xp):
    box = Box(xp.asarray([1.0, 2.0]))
    v, w = box.v, box.w

    def loss(b):
        b.w = Forgotten(b.v * 2)
        return np.sum(b.w.weight)

    for _ in range(3):
        with pytest.raises(mt.NotCapturedError, match=r"Forgotten(.|\n)*differentiable"):
            mt.grad(loss)(box)
        assert box.v is v
        assert box.w is w


class Slotted:
    __slots__ = ("__hidden", "unset", "weight")

    def __init__(self, weight):
        self.weight = weight
        self.hide(0)

    def hide(self, value):
        self.__hidden = value


class SlottedBelow(Slotted):
    __slots__ = ()


@dataclasses.dataclass(slots=True)
class SlottedData:
    weight: object


@pytest.mark.parametrize("kind", [Forgotten, ForgottenDict, Slotted, SlottedBelow, SlottedData])
@pytest.mark.parametrize("wrap", [lambda t: t, lambda t: [t]], ids=["alone", "in a list"])
def test_a_traced_value_put_into_an_undecorated_object_that_a_field_holds_is_refused(kind, wrap):
    def loss(b):
        b.v.weight = wrap(b.w * 2)
        b.w = b.w * 3
        return b.w * 1.0

    for verb in (mt.grad(loss), lambda box: mt.vjp(loss, box)):
        held = kind("nothing yet")
        box = Box(held, 2.0)
        with pytest.raises(
            mt.NotCapturedError, match=rf"{kind.__name__}\.weight(.|\n)*class {kind.__name__}"
        ):
            verb(box)
        assert box.v is held
        assert box.w == 2.0
        assert held.weight == "nothing yet"


def test_a_traced_value_put_into_a_private_slot_is_refused():
    box = Box([Slotted(1)], 2.0)

    def loss(b):
        b.v[0].hide(b.w * 2)
        return b.w * 1.0

    with pytest.raises(
        mt.NotCapturedError, match=r"Slotted\._Slotted__hidden was given a value(.|\n)*class Slotted"
    ):
        mt.grad(loss)(box)


def test_a_slotted_object_that_gets_no_traced_value_is_a_constant():
    box = Box(Slotted(4), 2.0)

    def loss(b):
        b.v.weight = b.v.weight + 1
        return b.w * b.v.weight

    assert mt.grad(loss)(box).w == 5.0


@pytest.mark.parametrize("holder", [set, frozenset])
def test_a_traced_value_put_into_a_set_in_a_field_is_refused_or_plain(holder):
    box = Box(1.0)

    def loss(b):
        b.w = holder([b.v * 2])
        return b.v * 1.0

    for _ in range(3):
        try:
            mt.grad(loss)(box)
        except TypeError:
            assert box.w == 0.0
        assert all(type(item) is float for item in box.w or ())


def test_a_subclass_that_was_not_decorated_but_adds_fields_is_refused_by_name(xp):
    @attrs.define
    class Wider(Box):
        extra: object = None

    wide = Wider(xp.asarray([1.0]), extra=xp.asarray([2.0]))
    for _ in range(3):
        with pytest.raises(mt.NotCapturedError, match=r"Wider\.extra(.|\n)*differentiable(.|\n)*class Wider"):
            mt.grad(lambda b: np.sum(b.v * b.extra))(wide)


def test_a_subclass_that_was_not_decorated_and_adds_a_number_is_refused_by_name():
    @attrs.define
    class Wider(Box):
        extra: float = 2.0

    for _ in range(3):
        with pytest.raises(mt.NotCapturedError, match=r"Wider\.extra(.|\n)*differentiable(.|\n)*class Wider"):
            mt.grad(lambda b: b.v * b.extra)(Wider(3.0))


def test_a_traced_value_in_an_attribute_that_is_no_field_is_refused_by_name():
    @mt.differentiable(slots=False)
    class Open:
        v: float

    box = Open(3.0)

    def loss(b):
        b.aside = b.v * 2
        return b.aside * b.v

    for _ in range(3):
        with pytest.raises(mt.NotCapturedError, match=r"Open\.aside(.|\n)*field"):
            mt.grad(loss)(box)
        assert box.v == 3.0
        assert not hasattr(box, "aside")


def test_a_dataclass_as_an_argument_is_refused_by_name():
    @dataclasses.dataclass
    class Data:
        v: float

    for _ in range(3):
        with pytest.raises(mt.GradientTypeError, match=r"Data"):
            mt.grad(lambda d: d.v**2)(Data(3.0))


def test_a_named_tuple_is_a_container():
    class Pair(NamedTuple):
        a: float
        b: float

    for _ in range(3):
        tangent = mt.grad(lambda p: p.a**2 * p.b)(Pair(2.0, 3.0))
        assert tangent == Pair(12.0, 4.0)
        assert type(tangent) is Pair


def test_arguments_of_define_for_a_class_that_is_one_already_are_refused():
    with pytest.raises(TypeError, match=r"Forgotten(.|\n)*frozen"):
        mt.differentiable(frozen=True)(Forgotten)


def test_a_decorator_on_what_is_neither_class_nor_function_is_refused():
    for thing in (3, "text", [1.0]):
        with pytest.raises(TypeError, match=r"class(.|\n)*function"):
            mt.differentiable(thing)


@pytest.mark.parametrize("place", ["a field", "an argument", "a list"])
def test_a_traced_value_left_in_an_object_that_can_be_called_is_refused_and_undone(place):
    class Layer:
        def __init__(self):
            self.state = np.zeros(2)

        def __call__(self, x):
            self.state = self.state + x
            return np.sum(self.state)

    @mt.differentiable
    class Holder:
        inner: object

    layer = Layer()
    before = layer.state
    given = {"a field": Holder(layer), "an argument": layer, "a list": [layer]}[place]

    def loss(given, x):
        inner = {"a field": lambda: given.inner, "an argument": lambda: given, "a list": lambda: given[0]}[
            place
        ]()
        return inner(x)

    with pytest.raises(
        mt.NotCapturedError, match=r"Layer\.state was given a value that depends on the recording"
    ):
        mt.grad(loss, argnums=1)(given, np.ones(2))
    assert layer.state is before
