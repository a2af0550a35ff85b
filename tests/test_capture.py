"""Capture: every attrs field of every kind of class, however it comes to be set, read, copied or deleted."""

import copy
import functools
import pickle
import weakref

import attrs
import numpy as np
import pytest

import mutangent as mt

# ---------------------------------------------------------------- kinds of classes

STYLES = {
    "slots": {},
    "dict": {"slots": False},
    "frozen": {"frozen": True},
    "frozen dict": {"frozen": True, "slots": False},
    "weakref slot": {"weakref_slot": True},
    "no weakref": {"weakref_slot": False},
    "kw_only": {"kw_only": True},
    "eq by identity": {"eq": False},
    "hashable": {"unsafe_hash": True},
    "ordered": {"order": True},
    "no repr": {"repr": False},
    "cached hash": {"unsafe_hash": True, "cache_hash": True, "frozen": True},
}
every_style = pytest.mark.parametrize("style", STYLES.values(), ids=STYLES)
MUTABLE = {name: style for name, style in STYLES.items() if not style.get("frozen")}
every_mutable_style = pytest.mark.parametrize("style", MUTABLE.values(), ids=MUTABLE)


def make_class(style):
    @mt.differentiable(**style)
    class Box:
        v: object
        w: object = 2.0

    return Box


def product(o):
    return o.v * o.w


def assert_plain(o):
    for a in attrs.fields(type(o)):
        assert type(getattr(o, a.name, None)) is not mt.TracedArray, a.name


def assert_gradient(o, f=product, **fields):
    """By three calls in a row, `f` has these tangents and leaves plain values."""
    for _ in range(3):
        tangent = mt.grad(f)(o)
        for name, expected in fields.items():
            np.testing.assert_allclose(getattr(tangent, name), expected, err_msg=name)
        assert_plain(o)


@every_style
def test_a_field_is_traced_inside_and_plain_outside(style):
    Box = make_class(style)
    o = Box(v=3.0)
    types = set()

    def loss(o):
        types.add(type(o.v))
        assert isinstance(o.v, float)
        assert type(o.w) is mt.TracedArray
        return o.v * o.w

    assert_gradient(o, loss, v=2.0, w=3.0)
    assert types == {mt.TracedArray}
    assert type(o.v) is float


@every_style
def test_an_object_made_inside_of_any_kind_of_class(style):
    Box = make_class(style)

    def loss(x):
        o = Box(v=x * 2)
        return o.v * o.w * x

    for _ in range(3):
        assert mt.grad(loss)(3.0) == 24.0


@every_style
def test_an_object_made_inside_and_kept_is_plain_after_the_recording(style):
    Box = make_class(style)
    kept = []

    def loss(x):
        kept.append(Box(v=x * 2, w=[x, {"a": (x,)}]))
        return kept[-1].v * 1.0

    for k in range(3):
        assert mt.grad(loss)(3.0) == 2.0
        assert_plain(kept[k])
        assert kept[k].v == 6.0
        assert kept[k].w == [3.0, {"a": (3.0,)}]
        assert type(kept[k].w[0]) is float
        assert type(kept[k].w[1]["a"][0]) is float


@every_mutable_style
def test_set_get_and_delete_by_every_name(style):
    Box = make_class(style)

    def loss(o):
        o.v = o.v * 2
        setattr(o, "v", getattr(o, "v") * 2)  # noqa: B009, B010 - the test
        object.__setattr__(o, "v", object.__getattribute__(o, "v") * 2)
        o.__setattr__("v", o.__getattribute__("v") * 2)
        type(o).v.__set__(o, type(o).v.__get__(o) * 2)
        return o.v * o.w

    o = Box(v=3.0)
    for _ in range(3):
        o.v = 3.0
        tangent = mt.grad(loss)(o)
        assert (tangent.v, tangent.w) == (64.0, 96.0)
        assert o.v == 96.0
        assert type(o.v) is float


@every_mutable_style
def test_a_deleted_field_is_gone_inside_and_after(style):
    Box = make_class(style)

    def loss(o):
        y = o.v * 3
        del o.v
        assert not hasattr(o, "v")
        with pytest.raises(AttributeError, match="v"):
            o.v  # noqa: B018 - the read is the test
        with pytest.raises(AttributeError):
            del o.v
        return y * o.w

    for _ in range(3):
        o = Box(v=3.0)
        tangent = mt.grad(loss)(o)
        assert (tangent.v, tangent.w) == (6.0, 9.0)
        assert not hasattr(o, "v")
        o.v = 1.0
        assert o.v == 1.0


@every_mutable_style
def test_a_deleted_field_may_be_set_again(style):
    Box = make_class(style)

    def loss(o):
        old = o.v
        del o.v
        o.v = old * old
        return o.v * o.w

    for _ in range(3):
        o = Box(v=3.0)
        assert mt.grad(loss)(o).v == 12.0
        assert o.v == 9.0


@every_mutable_style
def test_a_deletion_is_undone_by_an_exception(style):
    Box = make_class(style)

    def fails(o):
        del o.v
        raise KeyError

    o = Box(v=3.0)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(o)
        assert o.v == 3.0


@every_mutable_style
def test_a_field_that_was_not_set_on_entry(style):
    Box = make_class(style)

    def loss(o, x):
        assert not hasattr(o, "v")
        o.v = x * x
        return o.v * o.w

    for _ in range(3):
        o = Box(v=1.0)
        del o.v
        tangent, dx = mt.grad(loss, argnums=(0, 1))(o, 3.0)
        assert dx == 12.0
        assert tangent.w == 9.0
        assert tangent.v == mt.ZeroTangent()
        assert o.v == 9.0
        assert type(o.v) is float


@every_mutable_style
def test_a_field_that_was_not_set_on_entry_is_not_set_after_an_exception(style):
    Box = make_class(style)

    def fails(o):
        o.v = o.w * 2
        raise KeyError

    o = Box(v=1.0)
    del o.v
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(o)
        assert not hasattr(o, "v")


# ---------------------------------------------------------------- how objects come to be


def test_a_users_own_init():
    @mt.differentiable
    class Own:
        v: float
        w: float

        def __init__(self, v):
            self.w = v * 10
            self.v = v

    assert_gradient(Own(3.0), v=30.0, w=3.0)
    for _ in range(3):
        assert mt.grad(lambda x: product(Own(x)))(3.0) == 60.0


def test_a_users_own_init_that_calls_the_generated_one():
    for style in STYLES.values():
        if "cache_hash" in style:
            continue  # attrs wants its own __init__ for that

        @mt.differentiable(init=False, **style)
        class Own:
            v: float
            w: float = 2.0

            def __init__(self, v):
                self.__attrs_init__(v=v * 5)

        assert_gradient(Own(3.0), v=2.0, w=15.0)
        for _ in range(3):
            assert mt.grad(lambda x, Own=Own: product(Own(x)))(3.0) == 10.0


def test_a_post_init_that_computes_fields():
    for style in MUTABLE.values():

        @mt.differentiable(**style)
        class Derived:
            v: float
            w: float = mt.field(init=False)

            def __attrs_post_init__(self):
                self.w = self.v * self.v

        o = Derived(v=3.0)
        assert_gradient(o, v=9.0, w=3.0)
        for _ in range(3):
            assert mt.grad(lambda x, Derived=Derived: product(Derived(v=x)))(3.0) == 27.0
            assert mt.grad(lambda o: product(attrs.evolve(o, v=o.v * 2)))(o).v == 3 * 8 * 9


def test_a_post_init_of_a_frozen_class():
    for slots in (True, False):

        @mt.differentiable(frozen=True, slots=slots)
        class Derived:
            v: float
            w: float = mt.field(init=False)

            def __attrs_post_init__(self):
                object.__setattr__(self, "w", self.v * self.v)

        assert_gradient(Derived(3.0), v=9.0, w=3.0)
        for _ in range(3):
            assert mt.grad(lambda x, Derived=Derived: product(Derived(x)))(3.0) == 27.0


def test_a_pre_init_runs_before():
    calls = []

    @mt.differentiable
    class Pre:
        v: float
        w: float = 2.0

        def __attrs_pre_init__(self):
            calls.append(1)

    for _ in range(3):
        assert mt.grad(lambda x: product(Pre(x)))(3.0) == 2.0
    assert len(calls) == 3


@every_style
def test_factory_defaults_that_take_self_are_differentiated(style):
    @mt.differentiable(**style)
    class Factory:
        v: float
        w: float = mt.field(default=attrs.Factory(lambda self: self.v * 10, takes_self=True))
        fresh: list = mt.field(factory=list, eq=False)

    for _ in range(3):
        assert mt.grad(lambda x: product(Factory(v=x)))(3.0) == 60.0
    a, b = Factory(v=1.0), Factory(v=2.0)
    assert a.fresh is not b.fresh
    assert_gradient(a, v=10.0, w=1.0)


def test_decorated_defaults_are_differentiated():
    @mt.differentiable
    class Default:
        v: float
        w: float = mt.field()

        @w.default
        def _ten_times(self):
            return self.v * 10

    for _ in range(3):
        assert mt.grad(lambda x: product(Default(x)))(3.0) == 60.0


def test_a_default_array_is_one_constant_for_all_objects(xp):
    shared = xp.asarray([2.0, 3.0])

    @mt.differentiable
    class Default:
        v: np.ndarray
        w: np.ndarray = shared

    o = Default(xp.asarray([1.0, 1.0]))
    assert_gradient(o, lambda o: np.sum(o.v * o.w), v=[2.0, 3.0], w=[1.0, 1.0])
    assert o.w is shared


def test_aliases_private_names_and_names_of_methods():
    @mt.differentiable
    class Named:
        _v: float
        w: float = mt.field(alias="weight")
        dense: float = 1.0
        _cls: float = 1.0

    o = Named(v=3.0, weight=2.0)

    def loss(o):
        o._v = o._v * 2
        return o._v * o.w * o.dense * o._cls

    for _ in range(3):
        o._v = 3.0
        tangent = mt.grad(loss)(o)
        assert tangent["_v"] == 4.0
        assert tangent._v == 4.0
        assert tangent.w == 6.0
        assert tangent["dense"] == 12.0
        assert tangent["_cls"] == 12.0


def test_classes_made_by_make_class():
    Made = mt.differentiable(attrs.make_class("Made", {"v": attrs.field(), "w": attrs.field(default=2.0)}))
    assert_gradient(Made(3.0), v=2.0, w=3.0)
    for _ in range(3):
        assert mt.grad(lambda x: product(Made(x)))(3.0) == 2.0


@pytest.mark.parametrize("define", [attrs.define, attrs.frozen, attrs.mutable, attrs.define(slots=False)])
def test_classes_that_are_attrs_classes_already(define):
    @mt.differentiable
    @define
    class Already:
        v: float
        w: float = attrs.field(default=2.0, metadata={"mine": 1})

        def product(self):
            return self.v * self.w

    assert_gradient(Already(3.0), lambda o: o.product(), v=2.0, w=3.0)
    assert attrs.fields(Already).w.metadata["mine"] == 1
    for _ in range(3):
        assert mt.grad(lambda x: Already(x).product())(3.0) == 2.0


def test_classes_of_the_old_attr_s():
    import attr

    @mt.differentiable
    @attr.s
    class Old:
        v = attr.ib()
        w = attr.ib(default=2.0, converter=float)

    assert_gradient(Old(3.0), v=2.0, w=3.0)
    for _ in range(3):
        assert mt.grad(lambda x: product(Old(x, x)))(3.0) == 6.0


def test_a_class_decorated_twice_is_as_decorated_once():
    Box = make_class({})
    again = mt.differentiable(Box)
    assert again is Box
    assert_gradient(Box(3.0), v=2.0, w=3.0)


def test_the_class_keeps_its_name_module_and_documentation():
    @mt.differentiable
    class Documented:
        """What it is."""

        v: float

        def method(self):
            """What it does."""

    assert Documented.__name__ == "Documented"
    assert Documented.__module__ == __name__
    assert Documented.__doc__ == "What it is."
    assert Documented.method.__doc__ == "What it does."
    assert attrs.has(Documented)


def test_field_takes_all_of_attrs_field_and_trainable():
    @mt.differentiable
    class Fields:
        v: float = mt.field(default=1.0, kw_only=True, metadata={"mine": 1})
        w: float = mt.field(default=2.0, trainable=False, repr=False, alias="weight")

    v, w = attrs.fields(Fields)
    assert v.metadata == {"mine": 1, "mutangent.trainable": True}
    assert w.metadata == {"mutangent.trainable": False}
    assert repr(Fields(weight=3.0)).endswith("Fields(v=1.0)")
    assert_gradient(Fields(v=3.0), v=2.0, w=3.0)


# ---------------------------------------------------------------- inheritance


@mt.differentiable
class Base:
    v: object

    def twice(self):
        self.v = self.v * 2
        return self.v


@every_mutable_style
def test_a_decorated_subclass_has_its_own_and_its_bases_fields(style):
    @mt.differentiable(**style)
    class Derived(Base):
        w: object = 2.0

        def twice(self):
            return super().twice() * self.w

    for _ in range(3):
        o = Derived(v=3.0)
        tangent = mt.grad(lambda o: o.twice())(o)
        assert (tangent.v, tangent.w) == (4.0, 6.0)
        assert o.v == 6.0
        assert repr(tangent).startswith("Tangent[Derived]")


def test_an_undecorated_plain_subclass_keeps_its_bases_capture():
    class Plain(Base):
        def square(self):
            return self.twice() * self.twice()

    for _ in range(3):
        o = Plain(3.0)
        tangent = mt.grad(lambda o: o.square())(o)
        assert tangent.v == 2 * 8 * 3.0
        assert o.v == 12.0
        assert "Plain" in repr(tangent)


def test_an_undecorated_attrs_subclass_without_new_fields_keeps_its_bases_capture():
    @attrs.define
    class Same(Base):
        def square(self):
            return self.twice() ** 2

    for _ in range(3):
        assert mt.grad(lambda o: o.square())(Same(3.0)).v == 24.0


def test_a_decorated_subclass_of_an_undecorated_base_captures_both():
    @attrs.define
    class Undecorated:
        v: float

    @mt.differentiable
    class Derived(Undecorated):
        w: float = 2.0

    assert_gradient(Derived(3.0), v=2.0, w=3.0)


def test_a_base_without_attrs_and_a_base_with_slots():
    class Mixin:
        __slots__ = ()

        def product(self):
            return self.v * self.w

    @mt.differentiable
    class Mixed(Mixin, Base):
        w: float = 2.0

    assert_gradient(Mixed(3.0), lambda o: o.product(), v=2.0, w=3.0)


def test_two_bases_and_a_diamond():
    @mt.differentiable(slots=False)
    class Left(Base):
        left: float = 2.0

    @mt.differentiable(slots=False)
    class Right(Base):
        right: float = 5.0

    @mt.differentiable(slots=False)
    class Both(Left, Right):
        own: float = 1.0

    def loss(o):
        o.own = o.left * o.right
        return o.own * o.v

    for _ in range(3):
        tangent = mt.grad(loss)(Both(v=3.0))
        assert (tangent.v, tangent.left, tangent.right) == (10.0, 15.0, 6.0)
        assert tangent.own == mt.ZeroTangent()


def test_a_subclass_that_redefines_a_field():
    @mt.differentiable
    class Redefined(Base):
        v: object = 7.0
        w: object = 2.0

    assert_gradient(Redefined(), v=2.0, w=7.0)


def test_a_generic_and_an_abstract_class():
    import abc
    from typing import Generic, TypeVar

    T = TypeVar("T")

    @mt.differentiable
    class Abstract(abc.ABC, Generic[T]):
        v: T

        @abc.abstractmethod
        def product(self): ...

    @mt.differentiable
    class Concrete(Abstract[float]):
        w: float = 2.0

        def product(self):
            return self.v * self.w

    assert_gradient(Concrete(3.0), lambda o: o.product(), v=2.0, w=3.0)


def test_super_and_class_cells_work_in_slotted_classes():
    @mt.differentiable
    class Derived(Base):
        w: float = 2.0

        def twice(self):
            assert __class__ is Derived
            return super().twice() * self.w

    assert_gradient(Derived(3.0), lambda o: attrs.evolve(o).twice(), v=4.0, w=6.0)


# ---------------------------------------------------------------- properties


@every_mutable_style
def test_properties_read_and_write_fields(style):
    @mt.differentiable(**style)
    class Circle:
        radius: float

        @property
        def area(self):
            return np.pi * self.radius**2

        @area.setter
        def area(self, value):
            self.radius = np.sqrt(value / np.pi)

    def loss(c):
        c.area = c.area * 4
        return c.radius * 1.0

    for _ in range(3):
        c = Circle(radius=3.0)
        assert mt.grad(loss)(c).radius == pytest.approx(2.0)
        assert c.radius == pytest.approx(6.0)
        assert isinstance(c.radius, float)


@pytest.mark.parametrize("slots", [True, False])
def test_a_cached_property_does_not_outlive_its_recording_as_a_traced_value(slots):
    @mt.differentiable(slots=slots)
    class Square:
        v: float

        @functools.cached_property
        def squared(self):
            return self.v**2

    def loss(o):
        return o.squared * o.squared

    o = Square(3.0)
    assert mt.grad(loss)(o).v == 108.0
    # As after the plain run the value is there, and it is a number.
    assert o.squared == 9.0
    assert isinstance(o.squared, float)
    assert type(o.squared) is not mt.TracedArray
    for _ in range(3):
        fresh = Square(3.0)
        assert mt.grad(loss)(fresh).v == 108.0
        assert mt.grad(lambda x: loss(Square(x)))(3.0) == 108.0


@pytest.mark.parametrize("slots", [True, False])
def test_a_cached_property_computed_before_is_a_value_of_its_own(slots):
    @mt.differentiable(slots=slots)
    class Square:
        v: float

        @functools.cached_property
        def squared(self):
            return self.v**2

    o = Square(3.0)
    assert o.squared == 9.0
    # The cached number no longer depends on v, in the plain run as in the recorded one.
    for _ in range(3):
        assert mt.grad(lambda o: o.squared * o.v)(o).v == 9.0


@pytest.mark.parametrize("slots", [True, False])
def test_a_cached_property_computed_in_a_failed_recording_is_not_kept(slots):
    calls = []

    @mt.differentiable(slots=slots)
    class Square:
        v: float

        @functools.cached_property
        def squared(self):
            calls.append(1)
            return self.v**2

    def fails(o):
        o.squared  # noqa: B018 - the read computes it
        raise KeyError

    o = Square(3.0)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(o)
    assert len(calls) == 3
    assert o.squared == 9.0


def test_static_class_and_class_level_attributes_are_left_alone():
    from typing import ClassVar

    @mt.differentiable
    class Counted:
        count: ClassVar[int] = 0
        v: float

        @classmethod
        def make(cls, v):
            cls.count += 1
            return cls(v)

        @staticmethod
        def double(v):
            return v * 2

    for k in range(3):
        assert mt.grad(lambda x: Counted.double(Counted.make(x).v))(3.0) == 2.0
        assert Counted.count == k + 1


def test_call_len_contains_and_other_dunders_of_the_user():
    @mt.differentiable
    class Vector:
        x: np.ndarray

        def __len__(self):
            return len(self.x)

        def __getitem__(self, index):
            return self.x[index]

        def __matmul__(self, other):
            return np.sum(self.x * other.x)

        def __add__(self, other):
            return Vector(self.x + other.x)

        def __iter__(self):
            return iter(self.x)

    def loss(a, b):
        c = a + b + a
        assert len(c) == 2
        return c @ b + sum(a) * a[1]

    a, b = Vector(np.array([1.0, 2.0])), Vector(np.array([3.0, 4.0]))
    for _ in range(3):
        da, db = mt.grad(loss, argnums=(0, 1))(a, b)
        np.testing.assert_allclose(da.x, [2 * 3 + 2, 2 * 4 + 2 + 3])
        np.testing.assert_allclose(db.x, [2 * 1 + 2 * 3, 2 * 2 + 2 * 4])


# ---------------------------------------------------------------- copies, pickles, references


@every_style
@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, attrs.evolve])
def test_copies_inside_and_outside(style, copied):
    Box = make_class(style)
    o = Box(v=3.0)
    assert_gradient(o, lambda o: product(copied(o)) * o.v, v=12.0, w=9.0)
    assert_gradient(copied(o), v=2.0, w=3.0)
    c = copied(o)
    assert c is not o
    assert (c.v, c.w) == (3.0, 2.0)


@every_style
def test_asdict_and_astuple_read_through_capture(style):
    Box = make_class(style)

    def loss(o):
        d = attrs.asdict(o, recurse=False)
        v, w = attrs.astuple(o, recurse=False)
        return d["v"] * w + v * d["w"]

    assert_gradient(Box(v=3.0), loss, v=4.0, w=6.0)


@mt.differentiable
class Slotted:
    v: object
    w: object = 2.0


@mt.differentiable(slots=False)
class Dictionary:
    v: object
    w: object = 2.0


@mt.differentiable(frozen=True)
class Frozen:
    v: object
    w: object = 2.0


@mt.differentiable(frozen=True, slots=False)
class FrozenDictionary:
    v: object
    w: object = 2.0


@mt.differentiable(slots=False)
class OwnState:
    v: object
    w: object = 2.0

    def __getstate__(self):
        return {"numbers": (self.v, self.w)}

    def __setstate__(self, state):
        self.v, self.w = state["numbers"]


@pytest.mark.parametrize("kind", [Slotted, Dictionary, Frozen, FrozenDictionary, OwnState])
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_pickles_of_module_level_classes(kind, protocol):
    o = kind(3.0)
    assert_gradient(o, v=2.0, w=3.0)
    same = pickle.loads(pickle.dumps(o, protocol))
    assert type(same) is kind
    assert (same.v, same.w) == (3.0, 2.0)
    assert_gradient(same, v=2.0, w=3.0)
    for copied in (copy.copy, copy.deepcopy):
        assert_gradient(o, lambda o, copied=copied: product(copied(o)), v=2.0, w=3.0)


def test_weak_references_and_hashes_work_where_attrs_gives_them():
    for style in (STYLES["slots"], STYLES["dict"], STYLES["weakref slot"], STYLES["hashable"]):
        o = make_class(style)(v=3.0)
        assert weakref.ref(o)() is o
    with pytest.raises(TypeError):
        weakref.ref(make_class(STYLES["no weakref"])(v=3.0))
    o = make_class(STYLES["hashable"])(v=3.0)
    assert len({o, o}) == 1
    with pytest.raises(TypeError):
        hash(make_class(STYLES["slots"])(v=3.0))


def test_equality_order_and_hash_work_inside_a_recording():
    Ordered = make_class(STYLES["ordered"])
    Hashable = make_class(STYLES["hashable"])

    def loss(a, b):
        assert a != b
        assert a == attrs.evolve(a)
        assert b > a
        assert a <= b
        return a.v * b.v

    for _ in range(3):
        da, db = mt.grad(loss, argnums=(0, 1))(Ordered(3.0), Ordered(4.0))
        assert (da.v, db.v) == (4.0, 3.0)
    o = Hashable(3.0)
    table = {o: "found"}

    def look_up(x):
        return x * 2 if table[o] == "found" else x

    for _ in range(3):
        assert mt.grad(look_up)(1.0) == 2.0


def test_match_statements_and_repr_work_inside_a_recording():
    Box = make_class({})
    texts = []

    def loss(o):
        texts.append(repr(o))
        match o:
            case Box(v, w=weight):
                return v * weight
        return 0.0

    assert_gradient(Box(3.0), loss, v=2.0, w=3.0)
    assert "3.0" in texts[0]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("value", "weight", "expected"),
    [
        (3.0, 2.0, 2.0),
        (3 + 1j, 2 - 1j, 2 + 1j),
        (np.float64(3.0), 2.0, np.float64(2.0)),
        (np.float32(3.0), np.float32(2.0), np.float32(2.0)),
        (np.complex64(3 + 1j), np.complex64(2 - 1j), np.complex64(2 + 1j)),
        (np.array(3.0), np.array(2.0), np.array(2.0)),
        (np.array(3.0, np.float16), np.array(2.0, np.float16), np.array(2.0, np.float16)),
        (np.zeros((0, 3)), np.zeros((0, 3)), np.zeros((0, 3))),
    ],
)
def test_the_tangent_of_a_value_is_like_the_value(value, weight, expected):
    for _ in range(3):
        tangent = mt.grad(lambda o: np.real(np.sum(o.v * o.w)))(Slotted(value, weight)).v
        assert type(tangent) is type(value)
        assert np.shape(tangent) == np.shape(value)
        assert getattr(tangent, "dtype", None) == getattr(value, "dtype", None)
        np.testing.assert_array_equal(tangent, expected)


def test_the_conjugate_of_a_python_number_is_one_and_does_not_promote(xp):
    o = Slotted(xp.asarray([1.0j, 2.0], np.complex64), 3.0 + 1.0j)

    def loss(o):
        o.w = o.w.conjugate()
        o.v = o.v * o.w
        return np.sum(np.real(o.v))

    tangent = mt.grad(loss)(o)
    assert type(o.w) is complex
    assert o.v.dtype == np.complex64
    assert tangent.w == 2.0 + 1.0j  # the real part of v conj(w) is v·w


def test_weak_scalars_do_not_promote(xp):
    o = Slotted(xp.asarray([1.0, 2.0], np.float32), 3.0)

    def loss(o):
        y = o.v * o.w
        assert y.dtype == np.float32
        o.v = y + o.w
        assert o.v.dtype == np.float32
        return np.sum(o.v)

    for _ in range(3):
        o.v = xp.asarray([1.0, 2.0], np.float32)
        tangent = mt.grad(loss)(o)
        assert tangent.v.dtype == np.float32
        assert type(tangent.w) is float
        assert tangent.w == 5.0
        assert o.v.dtype == np.float32


def test_strings_counters_and_callables_pass_through_as_they_are():
    marker = object()
    values = [
        "text",
        3,
        True,
        None,
        np.tanh,
        marker,
        b"bytes",
        range(3),
        np.array(["a"]),
        Slotted,
    ]

    def loss(o, x):
        for value, again in zip(values, o.v, strict=True):
            assert value is again
        return x * 2

    for _ in range(3):
        tangent, dx = mt.grad(loss, argnums=(0, 1))(Slotted(tuple(values)), 1.0)
        assert dx == 2.0
        assert tangent.v == mt.ZeroTangent() or all(isinstance(t, mt.NoTangent) for t in tangent.v)


def test_an_integer_array_and_a_set_change_with_the_recording_and_not_with_a_raise():
    counts, names = np.zeros(2, int), {"a"}

    def loss(o, fail):
        o.v[0] += 1
        o.w.add("b")
        if fail:
            raise KeyError
        return o.v[0] * 2.0

    o = Slotted(counts, names)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(loss)(o, True)
        assert o.v is counts
        assert o.w is names
        assert counts.tolist() == [0, 0]
        assert names == {"a"}
    mt.grad(loss)(o, False)
    assert counts.tolist() == [1, 0]
    assert names == {"a", "b"}


def test_containers_in_fields_are_followed_and_stay_the_same_objects(xp):
    inner = {"a": xp.asarray([2.0]), "n": 3}
    items = [3.0, inner, (4.0, "text")]
    o = Slotted(items)

    def loss(o):
        return np.sum(o.v[0] * o.v[1]["a"]) * o.v[2][0] * o.v[1]["n"]

    for _ in range(3):
        tangent = mt.grad(loss)(o).v
        assert tangent[0] == 24.0
        np.testing.assert_array_equal(tangent[1]["a"], [36.0])
        assert isinstance(tangent[1]["n"], mt.NoTangent)
        assert tangent[2][0] == 18.0
        assert o.v is items
        assert items[1] is inner
        assert type(items[0]) is float


def test_one_array_in_two_fields_gives_each_its_share(xp):
    shared = xp.asarray([2.0, 3.0])
    o = Slotted(shared, shared)
    assert_gradient(o, lambda o: np.sum(o.v**2 * o.w), v=2 * np.array([4.0, 9.0]), w=[4.0, 9.0])
    assert o.v is o.w is shared


def test_an_object_that_is_only_passed_through_has_no_tangent_values(xp):
    a, b = Slotted(xp.asarray([1.0])), Slotted(xp.asarray([2.0]))
    for _ in range(3):
        da, db = mt.grad(lambda a, b: np.sum(a.v), argnums=(0, 1))(a, b)
        np.testing.assert_array_equal(da.v, [1.0])
        assert db == mt.Tangent(Slotted)
        assert db.v == mt.ZeroTangent()
        np.testing.assert_array_equal(db.dense().v, [0.0])


def test_arrays_that_were_only_read_are_the_same_arrays_afterwards(xp):
    v = xp.asarray([1.0, 2.0])
    o = Slotted(v, None)

    def loss(o):
        o.w = o.v
        return np.sum(o.v)

    for _ in range(3):
        mt.grad(loss)(o)
        assert o.v is v
        assert o.w is v
