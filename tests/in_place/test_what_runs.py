"""Which functions run, and which objects come up: reads past a recording that are found, and what is not taken for one.

Each program has an array in a field, and again in `q` of an undecorated object, or in a global name `pos`.
"""

import functools
import operator
import weakref
from collections import UserDict, deque
from types import MappingProxyType, SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest

import mutangent as mt
from mutangent import _read_past


@mt.differentiable
class World:
    pos: np.ndarray
    other: object = None

    def push(self, x):
        self.pos[0] = x * 2

    def step(self, x):
        self.push(x)

    def energy(self):
        return np.sum(self.pos**2)


class Gauge:
    def __init__(self, q):
        self.q = q

    def total(self):
        return float(self.q.sum())


class WithProperty:
    def __init__(self, q):
        self.q = q

    def _total(self):
        return float(self.q.sum())

    total = property(_total)
    same = _total
    partly = functools.partialmethod(_total)
    first = property(lambda self: float(self.q[0]))
    kept = functools.cached_property(lambda self: float(self.q.sum()))


class Given:
    """A descriptor."""

    def __get__(self, obj, cls=None):
        return float(obj.q.sum())


class Described:
    total = Given()

    def __init__(self, q):
        self.q = q


class Delegate:
    def __init__(self, inner):
        self._inner = inner

    def __getattr__(self, name):
        return getattr(self._inner, name)


class Base:
    q = np.zeros(3)


class Derived(Base):
    q = None

    def total(self):
        return float(super().q.sum())


class Pair(NamedTuple):
    size: np.ndarray
    mean: np.ndarray


class Probe:
    """Looks when it is made."""

    def __init__(self, obj):
        self.seen = obj.total()


class Assigned:
    @property
    def q(self):
        return self._q

    @q.setter
    def q(self, value):
        self._q = value.copy()


@mt.differentiable
class Copied:
    v: np.ndarray = mt.field(converter=np.array)


@functools.singledispatch
def dispatched(_obj):
    return 0.0


@dispatched.register
def _(obj: Gauge):
    return obj.total()


@functools.cache
def cached(gauge):
    return gauge.total()


class Linked:
    def __init__(self, q, rest):
        self.q = q
        self.rest = rest


def total_of_all(linked):
    total = 0.0
    while linked is not None:
        total += float(linked.q.sum())
        linked = linked.rest
    return total


def caught(function):
    try:
        return {}["missing"]
    except KeyError:
        return function()


def reading(pos):
    """Functions that read the array, each in its own way, and things that they have kept."""
    gauge, other, described = Gauge(pos), WithProperty(pos), Described(pos)
    app = SimpleNamespace(engine=Gauge(pos), hooks={"step": [gauge.total]}, pairs=[("a", Gauge(pos))])
    pair = Pair(pos, pos)
    linked = Linked(np.zeros(3), Linked(np.zeros(3), Linked(pos, None)))
    functions, table = {"step": [lambda: float(pos.sum())]}, [[pos]]
    held = np.empty(1, object)
    held[0] = pos
    sub = pos.view(np.recarray)

    many, assigned = [*[Gauge(np.zeros(3)) for _ in range(99)], gauge], Assigned()

    def tagged():
        return 0.0

    tagged.q = pos
    generator = (each for each in [gauge])

    def pulled():
        return next(generator, gauge).total()

    def matched():
        match gauge:
            case Gauge(q=q):
                return float(q.sum())

    def loops():
        return sum(each.total() for _, each in app.pairs)

    def chosen():
        return (None or gauge).q.sum()

    return {
        "an object in an attribute": lambda: app.engine.total(),
        "an object in a list of pairs": loops,
        "a function in a list in a dict": lambda: functions["step"][0](),
        "a method in a list in a dict": lambda: app.hooks["step"][0](),
        "a property of a method": lambda: other.total,
        "another name of a method": lambda: other.same(),
        "a partial method": lambda: other.partly(),
        "a property of a lambda": lambda: other.first,
        "a cached property": lambda: other.kept,
        "a descriptor": lambda: described.total,
        "a delegate": lambda: float(Delegate(gauge).q.sum()),
        "an object that is made": lambda: Probe(gauge).seen,
        "a dispatched function": lambda: dispatched(gauge),
        "a vectorised function": lambda: float(np.vectorize(lambda _: gauge.total())(0)),
        "a function with a cache": lambda: cached.__wrapped__(gauge),
        "a linked list": lambda: total_of_all(linked),
        "a field of a named tuple that is called size": lambda: float(pair.size.sum()),
        "a pattern": matched,
        "an expression with or": chosen,
        "a generator of objects": pulled,
        "an error that is caught": lambda: caught(lambda: float(pos.sum())),
        "the attributes as a dict": lambda: float(vars(gauge)["q"].sum()),
        "getattr with a default": lambda: float(getattr(gauge, "q", None).sum()),
        "a weak reference": lambda: float(weakref.ref(gauge)().q.sum()),
        "a set": lambda: sum(each.total() for each in {gauge}),
        "a deque of objects": lambda: sum(each.total() for each in deque([gauge])),
        "a dict of Python's library": lambda: float(UserDict(q=pos)["q"].sum()),
        "a view of a dict": lambda: float(MappingProxyType({"q": pos})["q"].sum()),
        "an array of objects": lambda: float(held[0].sum()),
        "a record array": lambda: float(sub.sum()),
        "an attribute of a function": lambda: float(tagged.q.sum()),
        "a hundred objects": lambda: many[99].total(),
        "a list in a list": lambda: float(np.sum([each for row in table for each in row])),
        "a partial of a method": functools.partial(Gauge.total, gauge),
        "an object that is given": lambda obj=gauge: obj.total(),
        "a converter that copies": lambda: Copied(pos).v.sum(),
        "an assignment to a property": lambda: assigned_total(assigned, pos),
    }


def assigned_total(obj, array):
    obj.q = array
    return float(obj.q.sum())


def in_a_function(world, read):
    def loss(x):
        world.push(x)
        return world.energy() + read() * x

    return mt.grad(loss)(2.0)


def in_a_block(world, read):
    with mt.Context() as ctx:
        x = ctx.watch(2.0)
        world.push(x)
        out = world.energy() + read() * x
    return ctx.grad(out, x)


in_both = pytest.mark.parametrize("record", [in_a_function, in_a_block])


@in_both
@pytest.mark.parametrize("way", reading(np.zeros(3)))
def test_code_that_reads_old_contents_is_found(record, way):
    world = World(np.zeros(3))
    pos = world.pos
    with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
        record(world, reading(pos)[way])
    assert world.pos is pos
    np.testing.assert_array_equal(pos, 0)
    # And the same code for another array does no harm.
    assert record(world, reading(np.zeros(3))[way]) == 16.0


def test_the_attribute_of_a_base_class_by_super():
    world = World(Base.q)
    for record in (in_a_function, in_a_block):
        with pytest.raises(mt.InPlaceError, match=r"`Base\.q`"):
            record(world, Derived().total)
    assert (Base.q == 0.0).all()


@in_both
def test_an_object_that_is_recorded_itself(record):
    gauge = Gauge(np.zeros(3))

    class Loss:
        def __init__(self):
            self.world = World(gauge.q)
            self.q = gauge.q

        def __call__(self, x):
            self.world.push(x)
            return np.sum(self.q) * x

        def scaled(self, factor, x):
            return self(x) * factor

    loss = Loss()
    for f in (loss, functools.partial(loss.scaled, 2.0)):
        with pytest.raises(mt.InPlaceError, match=r"`Loss\.q`"):
            mt.grad(f)(2.0)


# -- a handler of errors in a block, which lies behind the block in the code -------------------------------------------


def test_an_except_clause_belongs_to_its_block():
    world = World(np.zeros(3))
    pos = world.pos

    def within():
        with mt.Context():
            world.push(2.0)
            try:
                return {}["missing"]
            except KeyError as error:
                return float(pos.sum()) + len(error.args)
            finally:
                world.energy()

    def behind():
        with mt.Context() as ctx:
            world.push(ctx.watch(2.0))
            out = world.energy()
        try:
            return {}["missing"]
        except KeyError:
            return out, float(pos.sum())

    def around():
        try:
            with mt.Context() as ctx:
                world.push(ctx.watch(2.0))
                return {}["missing"]
        except KeyError:
            return float(pos.sum())

    with pytest.raises(mt.InPlaceError, match=r"the block, line \d+ reads it by the plain name `pos`"):
        within()
    assert around() == 0.0
    assert behind()[1] == 4.0


# -- what is no read ---------------------------------------------------------------------------------------------------


class Wrapper:
    """Around a captured object, with methods and attributes that are called like others."""

    def __init__(self):
        self.q = np.zeros(3)
        self.world = World(self.q)
        self.log = []
        self.state = {"q": self.q, "step": 0, "nested": {"q": self.q, "rate": 3.0}}
        self.target = Gauge(np.ones(3))

    def push(self, x):
        self.world.push(x)
        self.log.append(self.q.copy())

    def step(self, x):
        return self.push(x)

    def copy(self):
        return self.q.copy()

    def append(self, _x):
        return self.q.sum()

    def __len__(self):
        return int(self.q.sum())

    def __iter__(self):
        return iter(self.q)

    def __call__(self):
        return self.q.sum()


def misfit(world, target):
    return np.sum(world.pos * target.q)


def helped(wrapper, x):
    wrapper.world.push(x)
    return misfit(wrapper.world, wrapper.target)


def harmless():
    """Programs that do not read the array by another name, with their gradients."""

    def called_like_a_method(w, x):
        w.world.push(x)
        w.world.step(x)
        return w.world.energy()

    def called_like_one_of_pythons(w, x):
        w.world.push(x)
        w.log.append(1)
        return w.world.energy() + np.ones(3).copy()[0] + [1.0].copy()[0] + len("a".join(map(str, [1, 2])))

    def attribute_of_another(w, x):
        w.world.push(x)
        return w.world.energy() + np.sum(w.target.q) + w.target.total()

    def argument(w, x):
        return helped(w, x) * 8.0

    def an_item(w, x):
        w.world.push(x)
        w.state["step"] += 1
        return w.world.energy() + w.state["step"] + w.state.get("step") + w.state["nested"]["rate"]

    def copied_before(w, x):
        start, first, spread = np.array(w.q), float(w.q[0]), w.q.std()
        w.world.push(x)
        return w.world.energy() + np.sum(start) + first + spread

    def in_a_text(w, x):
        text = f"{w.q[0]:.3f} {w.state['step']}"
        w.world.push(x)
        return w.world.energy() + len(text)

    def loop_over_others(w, x):
        total = 0.0
        for _, target in zip(range(2), [w.target, Gauge(np.ones(3))], strict=True):
            w.world.push(x)
            total = total + np.sum(target.q)
        return w.world.energy() + total

    def a_new_one(w, x):
        w.world.push(x)
        fresh = Wrapper()
        return w.world.energy() + np.sum(fresh.q) + fresh()

    def its_length(w, x):
        w.world.push(x)
        return w.world.energy() + len(w.q) + w.q.shape[0] + len(w.state)

    return {name: each for name, each in locals().items() if callable(each)}


@pytest.mark.parametrize("name", harmless())
def test_what_is_no_read_does_no_harm(name):
    f = harmless()[name]
    wrapper = Wrapper()
    assert mt.grad(f, argnums=1)(wrapper, 2.0) == 16.0
    if name in ("copied_before", "in_a_text"):
        return  # which read comes before the write is known of the recorded code itself only
    assert mt.grad(functools.partial(f, wrapper))(2.0) == 16.0
    with mt.Context() as ctx:
        x = ctx.watch(2.0)
        out = f(wrapper, x)
    assert ctx.grad(out, x) == 16.0


class Trainer:
    """Records in its own methods."""

    def __init__(self):
        self.q = np.zeros(3)
        self.world = World(self.q)

    def push(self, x):
        self.world.push(x)
        return self.q.copy()

    def energy(self):
        return self.q.sum()

    def fit(self):
        with mt.Context() as ctx:
            x = ctx.watch(2.0)
            self.world.push(x)
            out = self.world.energy()
        return ctx.grad(out, x), self.energy(), self.push(2.0)[0]


def test_methods_that_are_called_like_those_of_the_captured_object_are_not_taken_for_them():
    assert Trainer().fit() == (16.0, 4.0, 4.0)


# -- classes that raise when they are looked at ------------------------------------------------------------------------


class Raising:
    """An object that raises at everything."""

    def __getattribute__(self, name):
        raise RuntimeError(name)


class Lazy(list):
    def __len__(self):
        raise RuntimeError("not loaded")


class Counted:
    """A property that must not run unless the program asks."""

    runs = 0

    @property
    def q(self):
        Counted.runs += 1
        return np.zeros(3)


def test_classes_that_raise_do_no_harm(monkeypatch):
    monkeypatch.setattr(_read_past, "raises_all", False)
    world = World(np.zeros(3))
    held, gone = world.pos, Gauge(np.zeros(3))
    odd = [Raising(), Lazy(), weakref.proxy(gone), Counted()]
    del gone
    space = SimpleNamespace(odd=odd, **{f"odd_{k}": each for k, each in enumerate(odd)})

    def look():
        return 0.0 if space.odd is None or odd is None or space.odd_0 is None else 1.0

    for record in (in_a_function, in_a_block):
        assert record(world, look) == 17.0
    assert Counted.runs == 0
    assert held is world.pos


def test_what_cannot_be_looked_at_is_a_warning(monkeypatch):
    def fail(*_):
        raise LookupError("odd")

    monkeypatch.setattr(_read_past, "raises_all", False)
    monkeypatch.setattr(_read_past, "_look", fail)
    world = World(np.zeros(3))
    pos = world.pos
    for record in (in_a_function, in_a_block):
        with pytest.warns(
            RuntimeWarning, match="could not be looked at, since something in it raised LookupError: odd"
        ):
            assert record(world, lambda: 0.0) == 16.0
    assert pos[0] == 4.0


def test_long_programs_are_looked_at_quickly():
    """Many call sites, many variables that stand for each other."""
    lines = ["def f0(a, b, c): return f1(a, b, c) + f1(a, c, b) + f1(a, b, b) + f1(a, c, c)"]
    lines += [
        line.replace("f1", f"f{k + 1}").replace("f0", f"f{k}") for k in range(1, 8) for line in lines[:1]
    ]
    lines += ["def f8(a, b, c): return b + c"]
    lines += [
        "def g(a):\n    v0 = a\n"
        + "".join(f"    v{k + 1} = v{k}\n" for k in range(400))
        + "    return v400.world"
    ]
    namespace = {}
    exec("\n".join(lines), namespace)
    wrapper = Wrapper()

    def read():
        # It is not run, which would take long, too.
        return 0.0 if namespace is not None else namespace["f0"](wrapper, 1.0, 2.0) + namespace["g"](wrapper)

    f0, g = namespace["f0"], namespace["g"]

    def loss(x):
        wrapper.world.push(x)
        if x < 0.0:
            return f0(wrapper, 1.0, x)
        return g(wrapper).energy() + read() * operator.index(1)

    assert mt.grad(loss)(2.0) == 16.0


# -- what was found by trying to break it ------------------------------------------------------------------------------


class Above:
    def __init__(self, q):
        self.q = q

    def total(self):
        return float(self.q.sum())


class Below(Above):
    def total(self):
        return super().total()

    def by_two_arguments(self):
        return super(Below, self).total()  # noqa: UP008


def f0(obj):
    return f1(obj)


def f1(obj):
    return f2(obj)


def f2(obj):
    return f3(obj)


def f3(obj):
    return f4(obj)


def f4(obj):
    return f5(obj)


def f5(obj):
    return f6(obj)


def f6(obj):
    return f7(obj)


def f7(obj):
    return f8(obj)


def f8(obj):
    return f9(obj)


def f9(obj):
    return float(obj.q.sum())


def more_reading(pos):
    gauge, other, below = Gauge(pos), Gauge(np.zeros(3)), Below(pos)
    flag = [True]
    mapping = {"a": pos}
    values = mapping.values()

    def filled():
        found, total = [], 0.0
        for each in [gauge, other]:
            found.insert(0, each)
        for each in found:
            total += float(each.q.sum())
        return total

    def filled_dict():
        found = {}
        found["a"] = gauge
        return float(found["a"].q.sum())

    return {
        "super": below.total,
        "super with arguments": below.by_two_arguments,
        "a conditional expression": lambda: float((gauge if flag[0] else other).q.sum()),
        "a conditional function": lambda: (gauge.total if flag[0] else other.total)(),
        "a list that is filled": filled,
        "a dict that is filled": filled_dict,
        "many calls": lambda: f0(gauge),
        "a view of the values of a dict": lambda: float(next(iter(values)).sum()),
    }


@in_both
@pytest.mark.parametrize("way", more_reading(np.zeros(3)))
def test_more_code_that_reads_old_contents_is_found(record, way):
    world = World(np.zeros(3))
    with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
        record(world, more_reading(world.pos)[way])
    assert record(world, more_reading(np.zeros(3))[way]) == 16.0


def test_the_smaller_of_two_arrays_is_kept():
    world = World(np.zeros(3))
    pos, other = world.pos, np.ones(3)

    def loss(x):
        least = min(pos, other, key=np.sum)
        world.push(x)
        return np.sum(least) * x

    with pytest.raises(mt.InPlaceError, match="by the plain name `pos`"):
        mt.grad(loss)(2.0)


def test_code_that_calls_itself_by_an_attribute_reads_after_the_write_too():
    world = World(np.zeros(3))
    pos = world.pos
    again = SimpleNamespace()

    def loss(x, n=1):
        total = float(pos.sum())
        world.push(x)
        return again.run(x, 0) if n else total * x

    again.run = loss
    with pytest.raises(mt.InPlaceError, match="by the plain name `pos`"):
        mt.grad(loss)(2.0)

    def go(x, n):
        total = float(pos.sum())
        if n == 0:
            return total
        with mt.Context():
            world.push(x)
            return go(x, 0)

    with pytest.raises(mt.InPlaceError, match="by the plain name `pos`"):
        go(2.0, 1)
