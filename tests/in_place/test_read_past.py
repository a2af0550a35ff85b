"""What a recording wrote through a field or an argument, and its code reads by a plain name: an error, in every mode.

Plain Python tells nobody who reads, so it is the code that is looked at; what that code only might read is refused too,
and what it surely does not read is not.
"""

import asyncio
import collections
import contextlib
import functools
import gc
import operator
import threading
import types
import weakref
from typing import NamedTuple

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class World:
    v: object
    items: object = None
    p: object = 1.0

    def push(self, x):
        self.v[0] = x

    def energy(self):
        return np.sum(self.v**2)


@mt.differentiable
class Seen:
    """Reads, in its methods, a name of this module."""

    p: float = 1.0

    def total(self):
        return np.sum(of_module) * self.p

    def unused(self):
        return np.sum(of_module) * self.p


of_module = np.zeros(3)
in_module = types.ModuleType("in_module")


def in_block(f, x):
    with mt.Context() as ctx:
        t = ctx.watch(x)
        f(t)


def within_another(f, x):
    mt.grad(lambda y: mt.grad(f)(y) * y)(x)


def in_a_checkpoint(f, x):
    mt.grad(mt.checkpoint(f))(x)


def in_a_checkpoint_of_a_part(f, x):
    step = mt.checkpoint(lambda x: f(x) * 2.0)
    mt.grad(lambda x: step(x) + x)(x)


WAYS = {
    "grad": lambda f, x: mt.grad(f)(x),
    "value_and_grad": lambda f, x: mt.value_and_grad(f)(x),
    "vjp": mt.vjp,
    "jvp": lambda f, x: mt.jvp(f, (x,), (1.0,)),
    "jacobian": lambda f, x: mt.jacobian(f)(x),
    "hessian": lambda f, x: mt.hessian(f)(x),
    "hvp": lambda f, x: mt.hvp(f, (x,), (1.0,)),
    "elementwise_grad": lambda f, x: mt.elementwise_grad(f)(x),
    "method": lambda f, x: mt.differentiable(f).grad(x),
    "a partial": lambda f, x: mt.grad(functools.partial(lambda one, x: f(x), 1))(x),
    "Context": in_block,
    "within another": within_another,
    "checkpoint": in_a_checkpoint,
    "checkpoint of a part": in_a_checkpoint_of_a_part,
}
every_way = pytest.mark.parametrize("way", WAYS.values(), ids=WAYS)
in_two_ways = pytest.mark.parametrize("way", [WAYS["grad"], WAYS["Context"]], ids=["grad", "Context"])


def raises(way, f, world, match, error=mt.InPlaceError):
    """A way to record a function raises, each time, and leaves the world as it was."""
    v, items, p = world.v, world.items, world.p
    before = np.array(world.v.tolist()), list(items) if items is not None else None
    for _ in range(2):
        with pytest.raises(error, match=match):
            way(f, 2.0)
        assert (world.v is v, world.items is items, world.p is p) == (True, True, True)
        np.testing.assert_array_equal(np.array(v.tolist()), before[0])
        assert before[1] is None or list(items) == before[1]


@every_way
def test_an_array_of_a_field(way, xp):
    pos = xp.asarray([0.0, 0.0, 0.0]).copy()
    world = World(pos)

    def loss(x):
        world.push(x * 2.0)
        return np.sum((pos - 1.0) ** 2) + x

    match = (
        r"shape \(3,\) and dtype float64 was written in place in the recording, through World\.v, and .*loss, line \d+ "
        r"reads it by the plain name `pos`\. Until the recording ends a plain name shows what was there before, so that "
        r"the gradient would be wrong\. Read it there through the object, as World\.v, or let the plain name stand for a "
        r"copy\.$"
    )
    raises(way, loss, world, match)


def test_an_array_of_an_argument():
    a = np.zeros(3)

    def loss(x):
        x[0] = x[1] * 2.0
        return np.sum(a) * x[1]

    match = "through an argument or a container, and .* Read it there through the argument, or the object that holds it"
    for way in (mt.grad(loss), lambda a: mt.vjp(loss, a), lambda a: mt.jvp(loss, (a,), (a,))):
        with pytest.raises(mt.InPlaceError, match=match):
            way(a)
        np.testing.assert_array_equal(a, 0.0)


@every_way
def test_a_list_of_a_field(way):
    items = [1.0]
    world = World(np.zeros(1), items)

    def loss(x):
        world.items.append(x * 2.0)
        return sum(items) * x

    match = (
        r"^a list was changed in the recording, through World\.items, and .*loss, line \d+ reads it by the plain name "
        r"`items`\. Until"
    )
    raises(way, loss, world, match, mt.NotCapturedError)


@pytest.mark.parametrize(
    ("held", "change"),
    [
        ({"a": 1.0}, lambda d, x: operator.setitem(d, "a", x)),
        (collections.deque([1.0]), lambda d, x: d.append(x)),
        ({1}, lambda d, x: d.add(2)),
        (bytearray(b"a"), lambda d, x: d.extend(b"b")),
    ],
    ids=lambda value: type(value).__name__,
)
@in_two_ways
def test_other_containers(way, held, change):
    world = World(np.zeros(1), held)

    def loss(x):
        change(world.items, x)
        return len(held) * x

    raises(way, loss, world, f"a {type(held).__name__} was changed", mt.NotCapturedError)


@in_two_ways
def test_an_array_of_integers(way):
    counts = np.array([1, 2])
    world = World(np.zeros(1), counts)

    def loss(x):
        world.items[0] = 5
        return np.sum(counts) * x

    raises(way, loss, world, r"dtype int64 was written in place in the recording, through World\.items")


def let(value, function):
    return function(value)


class Pair(NamedTuple):
    first: object
    second: object


READERS = {
    "a lambda": lambda pos: lambda x: let(x, lambda y: np.sum(pos) * y),
    "a comprehension": lambda pos: lambda x: sum(v * x for v in pos.tolist()),
    "a list comprehension": lambda pos: lambda x: sum([pos[k] for k in range(2)]) * x,
    "a default": lambda pos: lambda x, pos=pos: np.sum(pos) * x,
    "a default by name": lambda pos: lambda x, *, pos=pos: np.sum(pos) * x,
    "a loop": lambda pos: lambda x: sum(map(float, pos)) * x,
    "a view": lambda pos: let(pos[1:], lambda part: lambda x: np.sum(part) * x),
    "a list": lambda pos: let([pos], lambda held: lambda x: np.sum(held[0]) * x),
    "a dict": lambda pos: let({"a": pos}, lambda held: lambda x: np.sum(held["a"]) * x),
    "a tuple": lambda pos: let((1, pos), lambda held: lambda x: np.sum(held[1]) * x),
    "another function": lambda pos: let(lambda: np.sum(pos), lambda g: lambda x: g() * x),
    "a cached function": lambda pos: let(functools.cache(lambda: np.sum(pos)), lambda g: lambda x: g() * x),
    "a partial": lambda pos: let(functools.partial(lambda: np.sum(pos)), lambda g: lambda x: g() * x),
    "a bound method": lambda pos: let(Reads(pos).read, lambda g: lambda x: g() * x),
    "an object that is called": lambda pos: let(Reads(pos).as_object(), lambda g: lambda x: g() * x),
    "a generator": lambda pos: lambda x: next(np.sum(pos) * x for _ in range(1)),
    "an ordered dict": lambda pos: let(
        collections.OrderedDict(a=pos), lambda h: lambda x: np.sum(h["a"]) * x
    ),
    "a named tuple": lambda pos: let(Pair(1, pos), lambda held: lambda x: np.sum(held.second) * x),
    "an item by a name": lambda pos: let({"a": pos}, lambda h: lambda x: next(np.sum(h[k]) * x for k in h)),
    "the last item": lambda pos: let([1, pos], lambda held: lambda x: np.sum(held[-1]) * x),
    "a slice": lambda pos: let([1, pos], lambda held: lambda x: np.sum(held[1:][0]) * x),
    "a table of functions": lambda pos: let({"a": lambda: np.sum(pos)}, lambda h: lambda x: h["a"]() * x),
    "what a partial holds": lambda pos: let(functools.partial(np.sum, pos), lambda g: lambda x: g() * x),
}


def Reads(pos):  # noqa: N802 - the class closes over the array
    class ReadsPos:
        def read(self):
            return np.sum(pos)

        __call__ = read

        def as_object(self):
            return self

    return ReadsPos()


@in_two_ways
@pytest.mark.parametrize("reader", READERS.values(), ids=READERS)
def test_ways_to_read(reader, way):
    pos = np.zeros(3)
    world = World(pos)
    read = reader(pos)

    def loss(x):
        world.push(x)
        return read(x)

    raises(way, loss, world, "reads it by the plain name")


@in_two_ways
def test_names_of_modules(way):
    world = World(of_module)
    seen = Seen()

    def by_method(x):
        world.push(x)
        return seen.total() * x

    raises(way, by_method, world, r"Seen\.total, line \d+ reads it by the plain name `of_module`")
    in_module.pos = np.zeros(3)
    world = World(in_module.pos)

    def by_attribute(x):
        world.push(x)
        return np.sum(in_module.pos) * x

    raises(way, by_attribute, world, "reads it by the plain name `pos`")


@in_two_ways
def test_a_method_of_an_object_that_a_field_holds(way):
    world = World(of_module, items=Seen())

    def loss(x):
        world.push(x)
        return world.items.total() * x

    raises_without_list = pytest.raises(mt.InPlaceError, match=r"Seen\.total")
    with raises_without_list:
        way(loss, 2.0)
    np.testing.assert_array_equal(of_module, 0.0)


@in_two_ways
def test_a_container_in_a_container(way):
    inner = [1.0]
    outer = [inner]
    world = World(np.zeros(1), inner)

    def loss(x):
        world.items[0] = x
        return outer[0][0] * x

    raises(way, loss, world, "by the plain name `outer`, a list that holds it", mt.NotCapturedError)


@pytest.mark.parametrize(
    "record",
    [
        lambda f, w, a: mt.grad(f)(w, a, 2.0),
        lambda f, w, a: mt.grad(f, argnums=2)(w, a, 2.0),
        lambda f, w, a: mt.grad(f)(w, p=a, x=2.0),
        lambda f, w, a: mt.jacobian(f, argnums=2)(w, a, 2.0),
        lambda f, w, a: mt.hessian(lambda *args: f(*args) + 0.0, argnums=2)(w, a, 2.0),
        lambda f, w, a: mt.grad(functools.partial(f, w, a))(2.0),
        lambda f, w, a: mt.vjp(functools.partial(f, w, a), 2.0),
        lambda f, w, a: mt.jvp(functools.partial(f, w, a), (2.0,), (1.0,)),
        lambda f, w, a: mt.grad(lambda *args: f(*args) + 0.0, argnums=2)(w, a, 2.0),
        lambda f, w, a: mt.grad(lambda q, **named: f(**named, x=q))(2.0, world=w, p=a),
    ],
)
def test_an_array_that_is_given_and_not_differentiated(record):
    """A parameter of the function is a plain name too, where the argument is not traced."""
    a = np.zeros(3)

    def loss(world, p, x):
        world.push(x)
        return np.sum(p) * x

    with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
        record(loss, World(a), a)
    np.testing.assert_array_equal(a, 0.0)


WITHIN = {
    "grad": lambda f: mt.grad(lambda y: f(y) * y),
    "jvp": lambda f: lambda x: mt.jvp(lambda y: f(y) * y, (x,), (1.0,))[1],
    "checkpoint": mt.checkpoint,
}


@pytest.mark.parametrize("is_new", [False, True])
@pytest.mark.parametrize("way", WITHIN.values(), ids=WITHIN)
@pytest.mark.parametrize("of", ["array", "list"])
def test_what_an_outer_recording_wrote_is_put_into_a_field_by_its_plain_name(of, way, is_new):
    """In the recording itself it becomes the one with the new contents; within another one it is an error."""
    pos, items = np.zeros(3), [1.0]
    world = World(pos, items)

    def step(_x):
        if is_new:
            used = World(pos, items)
        else:
            used = world
            used.v = pos
            used.items = items
        return np.sum(used.v) * used.items[0]

    def write(x):
        if of == "array":
            world.push(x * x)
        else:
            world.items[0] = x * x

    within = way(step)

    def loss(x):
        write(x)
        return within(x) * x

    def without(x):
        write(x)
        return step(x) * x

    error = mt.InPlaceError if of == "array" else mt.NotCapturedError
    with pytest.raises(error, match=r"reading it by another name|put into a field by a plain name"):
        mt.grad(loss)(2.0)
    assert (pos.tolist(), items, world.v is pos, world.items is items) == ([0.0, 0.0, 0.0], [1.0], True, True)
    pos[1] = 1.0
    # (x² + 1) x, or x² x
    assert mt.grad(without)(2.0) == pytest.approx(13.0 if of == "array" else 12.0)


@pytest.mark.parametrize("held", [[1.0], {0: 1.0}, {1.0}], ids=lambda value: type(value).__name__)
def test_a_container_that_is_put_into_a_field_by_its_plain_name_before_it_is_changed(held):
    world, other = World(np.zeros(1), held), World(np.zeros(1))

    def change():
        if isinstance(world.items, set):
            world.items.add(2.0)
        else:
            world.items[0] = 5.0

    def first_put(x):
        other.items = held
        change()
        return sum(other.items) * x

    def first_changed(x):
        change()
        other.items = held
        return x * 1.0

    kind = type(held).__name__
    with pytest.raises(
        mt.NotCapturedError, match=rf"a {kind} was changed .*World\.items, and was put into World\.items"
    ):
        mt.grad(first_put)(2.0)
    assert other.items is None
    if not isinstance(held, set):
        mt.grad(first_changed)(2.0)
        assert other.items is held


def test_an_array_that_is_given_and_differentiated_is_one_with_that_of_the_field():
    a = np.zeros(3)

    def loss(world, p, x):
        world.push(x)
        return np.sum(p) * x

    assert mt.grad(loss, argnums=(1, 2))(World(a), a, 2.0)[1] == 4.0
    out, slope = mt.jvp(
        loss, (World(np.zeros(3)), np.zeros(3), 2.0), (mt.ZeroTangent(), mt.ZeroTangent(), 1.0)
    )
    assert (out, slope) == (0.0, 0.0)

    def only_assigned(world, p, x):
        world.v = p
        world.push(x)
        return np.sum(world.v) * len(p)

    a = np.zeros(3)
    assert mt.grad(only_assigned, argnums=2)(World(np.zeros(3)), a, 2.0) == 3.0
    np.testing.assert_array_equal(a, [2.0, 0.0, 0.0])


def by_a_local_name(m, w):
    with mt.Context():
        m.v[0] = m.p
        np.sum(w)


def in_a_comprehension(m, w):
    with mt.Context():
        m.push(m.p)
        [k * w for k in range(3)]


def before_and_after_in_a_loop(m, w):
    with mt.Context():
        for _ in range(2):
            np.sum(w)
            m.push(m.p)


def with_a_history(m, w):
    with mt.Context(history=True):
        m.push(m.p)
        np.sum(w)


def left_by_a_return(m, w):
    with mt.Context():
        for k in range(2):
            m.push(m.p)
            if k:
                return k
            np.sum(w)
    return None


def in_a_closure(m, w):
    def total():
        return np.sum(w)

    with mt.Context():
        m.push(m.p)
        total()


def of_the_closure(m, w):
    def record():
        with mt.Context():
            m.push(m.p)
            np.sum(w)

    record()


@pytest.mark.parametrize(
    "block",
    [
        by_a_local_name,
        in_a_comprehension,
        before_and_after_in_a_loop,
        with_a_history,
        left_by_a_return,
        in_a_closure,
        of_the_closure,
    ],
)
def test_names_in_the_block_of_a_context(block):
    w = np.zeros(3)
    reader = "total" if block is in_a_closure else "and the block"
    with pytest.raises(mt.InPlaceError, match=rf"{reader}, line \d+ reads it by the plain name `w`"):
        block(World(w), w)
    np.testing.assert_array_equal(w, 0.0)


def in_a_generator(m, w):
    def generator():
        with mt.Context():
            m.push(m.p)
            np.sum(w)
        yield

    next(generator())


def in_a_coroutine(m, w):
    async def coroutine():
        with mt.Context():
            m.push(m.p)
            await asyncio.sleep(0)
            np.sum(w)

    asyncio.run(coroutine())


def in_a_class_body(m, w):
    class Body:
        array = w
        with mt.Context():
            m.push(m.p)
            np.sum(array)

    return Body


@pytest.mark.parametrize("block", [in_a_generator, in_a_coroutine, in_a_class_body])
def test_blocks_in_other_code(block):
    w = np.zeros(3)
    with pytest.raises(mt.InPlaceError, match=r"and the block, line \d+ reads it by the plain name"):
        block(World(w), w)
    np.testing.assert_array_equal(w, 0.0)


def test_threads_that_run_the_same_code():
    found = []

    def work(number):
        for _ in range(20):
            pos = np.zeros(3)
            world = World(pos)

            def loss(x, pos=pos if number % 2 else None, world=world):
                world.push(x)
                return np.sum(world.v if pos is None else pos) * x

            try:
                found.append((number % 2, mt.grad(loss)(2.0)))
            except mt.InPlaceError:
                found.append((number % 2, None))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(found, key=str) == sorted([(0, 4.0), (1, None)] * 40, key=str)


def run(block, **names):
    """Run the text of a program at the level of a module."""
    namespace = {"np": np, "mt": mt, "World": World, "w": np.zeros(3), **names}
    namespace.setdefault("m", World(namespace["w"]))
    exec(compile(block, "<a script>", "exec"), namespace)
    return namespace


BLOCK = "with mt.Context() as ctx:\n"


@pytest.mark.parametrize(
    "lines",
    [
        "    m.v[0] = m.p\n    out = w[0] * m.p",
        "    m.v[0] = m.p\n    out = f()",
        "    m.v[0] = m.p\n    out = (lambda: w[0] * m.p)()",
        "    m.v[0] = m.p\n    out = [w[k] * m.p for k in range(3)]",
        "    for k in range(3):\n        m.v[0] = m.p\n        if k:\n            break\n        out = w[0] * m.p",
        "    m.p = w[0] * m.p\n    m.v[0] = m.p\n    m.p = w[0] * m.p",
        "    m.v[0] = m.p\n    x = ctx.watch(np.sum(w))",
    ],
)
def test_names_in_a_script(lines):
    with pytest.raises(mt.InPlaceError, match=r"by the plain name `w`|by another name"):
        run("def f(): return w[0] * m.p\n" + BLOCK + lines)


@pytest.mark.parametrize(
    "lines",
    [
        "    m.v[0] = m.p\nnp.sum(w)",
        "    m.v[0] = m.p\nout = f()",
        "    m.v = w\n    m.v[0] = m.p",
        "    m.v[0] = m.p\n    m.v = w",
        "    m = World(w)\n    m.v[0] = m.p",
        "    m = World(v=w)\n    m.v[0] = m.p\n    m = World(w, p=2.0)",
        "    x = ctx.watch(w)\n    x[0] = m.p",
        "    xs = [ctx.watch(each) for each in ws]\n    xs[0][0] = m.p",
        "    xs = tuple(ctx.watch(each) for each in ws)\n    xs[0][0] = m.p",
        "    start = w.copy()\n    m.v[0] = m.p\n    out = np.sum(start * m.v)",
        "    m.v[0] = m.p * w[1]",
        "    m.v[0] = m.p\n    out = m.p * len(w) * w.shape[0] * w.ndim",
        "    m.v[0] = m.p\n    out = np.zeros_like(w) * m.p",
        "    m.v[0] = m.p\n    out = None if w is None else m.p\n    assert w is not m",
        "    m.v[0] = m.p\n    out = isinstance(w, np.ndarray)",
        "    w = np.ones(2)\n    w[0] = 2.0\n    w.fill(3.0)\n    m.v = w\n    m.v[0] = m.p",
        "    m.v[0] = m.p\n    other = w2[0] * m.p",
        "    m.v[0] = m.p\n    for k in range(3):\n        if k:\n            break\nnp.sum(w)",
        "    m.v[0] = m.p\nwith mt.Context() as ctx:\n    out = np.sum(w)",
    ],
)
def test_names_in_a_script_that_do_not_read_what_was_written(lines):
    source = "ws = [w]\ndef f(): return w[0] * m.p\n" + BLOCK + lines
    plain = source.replace("mt.Context()", "mt.pause()").replace("ctx.watch", "")
    assert run(source, w2=np.ones(3))["w"].tolist() == run(plain, w2=np.ones(3))["w"].tolist()


def test_a_block_whose_code_is_not_known_is_let_through():
    w = np.zeros(3)
    m = World(w)
    with contextlib.ExitStack() as stack:
        ctx = stack.enter_context(mt.Context())
        m.v[0] = m.p
        out = np.sum(m.v)
    assert ctx.grad(out, m).p == 1.0

    @contextlib.contextmanager
    def recorded():
        with mt.Context() as ctx:
            yield ctx

    with recorded() as ctx:
        m.v[0] = m.p
        out = np.sum(m.v)
    assert ctx.grad(out, m).p == 1.0
    ctx = mt.Context()
    ctx.__enter__()
    m.v[0] = m.p * 2.0
    ctx.__exit__(None, None, None)
    assert w[0] == 2.0


def test_a_name_of_another_array_is_read():
    pos, start = np.zeros(3), np.ones(3)
    world = World(pos)

    def loss(x):
        world.v[:] = start * x
        return np.sum(world.v * start)

    assert mt.grad(loss)(2.0) == 3.0
    np.testing.assert_array_equal(pos, 2.0)


def test_an_array_that_is_read_and_not_written():
    pos = np.ones(3)
    world = World(np.zeros(3), pos)

    def loss(x):
        world.push(x)
        return np.sum(pos * world.v)

    assert mt.grad(loss)(2.0) == 1.0


def test_a_name_that_is_only_assigned_to_a_field():
    scratch = np.zeros(3)
    world = World(np.zeros(3))

    def loss(x):
        world.v = scratch
        world.v[0] = x
        world.items = [1.0]
        return np.sum(world.v**2)

    assert mt.grad(loss)(2.0) == 4.0
    assert world.v is scratch
    np.testing.assert_array_equal(scratch, [2.0, 0.0, 0.0])


def test_a_name_that_is_given_to_the_constructor_of_a_captured_class():
    scratch = np.zeros(3)

    def loss(x):
        world = World(scratch)
        world.push(x)
        return world.energy()

    assert mt.grad(loss)(2.0) == 4.0
    np.testing.assert_array_equal(scratch, [2.0, 0.0, 0.0])


def test_a_name_that_is_put_into_a_field_by_a_function():
    scratch, other = np.zeros(3), np.ones(3)
    world = World(np.ones(3))

    def loss(x):
        for name in "v":
            setattr(world, name, scratch)
        world.push(x)
        made = attrs.evolve(world, v=other)
        made.push(x * 2.0)
        return world.energy() + made.energy()

    assert mt.grad(loss)(2.0) == 20.0
    np.testing.assert_array_equal([scratch, other], [[2.0, 0.0, 0.0], [4.0, 1.0, 1.0]])


def test_an_array_that_was_born_inside():
    world = World(np.zeros(3))

    def loss(x):
        buffer = np.zeros(3)
        buffer[1] = 5.0
        world.v = buffer
        world.push(x)

        def inner():
            return np.sum(world.v)

        return inner() * x

    assert mt.grad(loss)(2.0) == 9.0


def test_an_object_that_holds_the_array_is_named():
    pos = np.zeros(3)
    world = World(pos)
    worlds = [world]

    def loss(x):
        worlds[0].push(x)
        return world.energy() * len(worlds)

    assert mt.grad(loss)(2.0) == 4.0


def test_reads_that_run_before_the_first_write():
    pos = np.ones(3)
    world = World(pos)

    def loss(x):
        start = pos.copy()
        world.v[:] = pos + x
        return np.sum(world.v * start)

    assert mt.grad(loss)(2.0) == 3.0
    np.testing.assert_array_equal(pos, 3.0)

    def in_a_loop(x):
        for _ in range(2):
            world.v[:] = np.sum(pos) + x
        return np.sum(world.v)

    with pytest.raises(mt.InPlaceError, match="in_a_loop"):
        mt.grad(in_a_loop)(2.0)

    def again(x, n=1):
        before = pos.copy()
        world.v[:] = world.v + x
        return np.sum(world.v * before) + (again(x, n - 1) if n else 0.0)

    with pytest.raises(mt.InPlaceError, match="again"):
        mt.grad(again)(2.0)
    twice = functools.partial(lambda step, x: step(x) + step(x), loss)
    with pytest.raises(mt.InPlaceError):
        mt.grad(twice)(2.0)


def test_a_method_that_is_not_named_is_not_taken_for_called():
    world = World(of_module)
    seen = Seen()

    def loss(x):
        world.push(x)
        return np.sum(world.v) * seen.p

    assert mt.grad(loss)(2.0) == 1.0
    of_module[:] = 0.0


def test_a_list_that_is_only_asked_whether_it_is_there():
    items = [1.0]
    world = World(np.zeros(1), items)

    def loss(x):
        if items is None:
            return x
        world.items.append(x)
        return sum(world.items)

    assert mt.grad(loss)(2.0) == 1.0
    assert items == [1.0, 2.0]


def test_a_large_container_is_not_looked_through():
    rows = [np.zeros(2) for _ in range(2000)]
    world = World(np.zeros(3))

    def loss(x):
        world.push(x)
        return np.sum(world.v) * rows[0][0]

    assert mt.grad(loss)(2.0) == 0.0


def test_an_error_in_an_inner_recording_names_the_inner_function():
    items, pos = [1.0], np.zeros(3)
    world = World(pos, items)

    def inner(x):
        world.items.append(x)
        return items[0] * x

    with pytest.raises(mt.NotCapturedError, match="inner, line"):
        mt.grad(lambda x: mt.grad(inner)(x) * x)(2.0)

    def inner_array(x):
        world.push(x)
        return pos[0] * x

    with pytest.raises(mt.InPlaceError, match=r"inner_array, line|by another name"):
        mt.grad(lambda x: mt.grad(inner_array)(x) * x)(2.0)
    assert items == [1.0]
    np.testing.assert_array_equal(pos, 0.0)


def test_a_recording_keeps_neither_its_function_nor_the_variables_of_a_block_alive():
    class Marker:
        pass

    def record():
        marker = Marker()
        world = World(np.zeros(3))

        def loss(x):
            world.push(x)
            return np.sum(world.v) + 0.0 * (marker is None)

        _, pullback = mt.vjp(loss, 2.0)
        return weakref.ref(marker), weakref.ref(loss), pullback

    def in_a_block():
        world = World(np.zeros(3))
        marker = Marker()
        alive = weakref.ref(marker)
        with mt.Context() as ctx:
            world.push(world.p)
            assert marker is not None
            out = np.sum(world.v)
        ctx.grad(out, world)
        recording = weakref.ref(ctx._recording)
        del marker, ctx
        return alive() is None, recording() is None

    gc.disable()
    try:
        marker, loss, pullback = record()
        assert (marker(), loss()) == (None, None)
        assert pullback(1.0) == (1.0,)
        assert in_a_block() == (True, True)
    finally:
        gc.enable()


def test_the_dict_of_variables_that_a_function_has_asked_for_stays():
    def train(rate):
        asked = locals()
        world = World(np.zeros(3))
        with mt.Context() as ctx:
            world.push(world.p)
            out = np.sum(world.v) * rate
        ctx.grad(out, world)
        return asked["rate"]

    assert train(0.5) == 0.5


def test_a_parameter_that_stands_for_the_field_by_now_is_read():
    held = np.ones(3)
    w = World(held)

    def loss(x, v, u=held):
        w.v = v
        w.v[0] = x
        v = w.v
        u = w.v
        return np.sum(v * u)

    assert mt.grad(loss, argnums=0)(2.0, held) == 4.0


def kept(x, v):
    v += 0.0
    kept.world.v[0] = x
    return np.sum(v)


def of_both_ways(x, v):
    v = kept.world.v if v is None else v
    kept.world.v[0] = x
    return np.sum(v)


def renamed(x, v):
    v = v.reshape(-1)
    kept.world.v[0] = x
    return np.sum(v)


def in_a_comprehension(x, v):
    [v + 1 for v in range(3)]
    kept.world.v[0] = x
    return np.sum(v)


def in_a_loop(x, v):
    total = 0.0
    for _ in range(2):
        kept.world.v[0] = x
        total = total + np.sum(v)
        v = kept.world.v
    return total


@pytest.mark.parametrize("loss", [kept, of_both_ways, renamed, in_a_comprehension, in_a_loop])
def test_a_parameter_that_may_still_stand_for_what_was_given_is_refused(loss):
    held = np.ones(3)
    kept.world = World(held)
    with pytest.raises(mt.InPlaceError, match="by the plain name `v`"):
        mt.grad(loss, argnums=0)(2.0, held)


def test_a_default_that_the_call_does_not_use_is_not_read():
    held = np.ones(3)
    w = World(held)

    def loss(x, v=held):
        w.v[0] = x
        return np.sum(w.v**2) + np.sum(v)

    assert mt.grad(loss, argnums=0)(2.0, np.ones(2)) == 4.0
    with pytest.raises(mt.InPlaceError, match="by the plain name `v`"):
        mt.grad(loss, argnums=0)(2.0)


@pytest.mark.parametrize(
    "give",
    [
        lambda read: read,
        lambda read: [read],
        lambda read: {"a": read},
        functools.partial,
        lambda read: functools.partial(np.sum, read.__defaults__[0]),
    ],
)
def test_a_function_that_is_given_is_looked_at(give):
    held = np.zeros(3)
    w = World(held)

    def loss(x, given):
        w.v[0] = x
        for each in given if type(given) is list else [given]:
            x = x * (each["a"] if type(each) is dict else each)()
        return x

    with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
        mt.grad(loss, argnums=0)(2.0, give(lambda pos=held: np.sum(pos)))


def test_another_item_of_a_container_is_read():
    held, other = np.zeros(3), np.ones(3)
    w = World(held)
    table = {"a": held, "b": other, "rate": 0.5}
    row = [other, held]
    pair = Pair(held, other)
    alone = functools.partial(np.sum, other)

    def loss(x):
        w.v[0] = x
        return table["rate"] * x * np.sum(table["b"]) * np.sum(row[0]) * np.sum(pair.second) * alone()

    assert mt.grad(loss)(2.0) == 40.5
    with mt.Context() as ctx:
        w.v[0] = w.v[1] * 2.0
        y = w.v[0] * table["rate"] * np.sum(row[0]) * np.sum(pair.second) * alone()
    assert ctx.grad(y, w).v[1] == 27.0


def test_zeros_like_with_keywords_is_only_about_the_shape():
    held = np.zeros(3)
    w = World(held)

    def loss(x):
        w.v[0] = x
        return np.sum(w.v**2) + np.sum(np.zeros_like(held, dtype=float))

    assert mt.grad(loss)(2.0) == 4.0


def test_numpy_gives_back_what_it_was_given_for_the_result():
    held = np.zeros(3)
    w = World(held)

    def loss(x):
        same = np.add(1.0, 0.0, out=held)
        w.v[0] = x
        return np.sum(same) * x

    with pytest.raises(mt.InPlaceError, match="reads it by the plain name `held`"):
        mt.grad(loss)(2.0)


def test_assertions_that_pytest_explains():
    """It puts code into those of a test that shows all names if one fails."""
    held = np.zeros(3)
    w = World(held)

    def loss(x):
        w.v[0] = x
        assert held.shape == (3,)
        assert held is not x, f"{held}"
        return np.sum(w.v**2)

    assert mt.grad(loss)(2.0) == 4.0
    with mt.Context() as ctx:
        w.v[0] = w.v[0] * 2.0
        assert held.ndim == 1
        y = np.sum(w.v**2)
    assert ctx.grad(y, w).v[0] == 16.0

    def reads(x):
        w.v[0] = x
        assert held[1] == 0.0
        return np.sum(w.v**2)

    with pytest.raises(mt.InPlaceError, match="reads it by the plain name `held`"):
        mt.grad(reads)(2.0)


def test_the_text_of_an_assertion():
    held = np.zeros(3)
    names = {"np": np, "held": held, "w": World(held)}
    exec(
        "def loss(x):\n    w.v[0] = x\n    assert x is not None, f'{held}'\n    return np.sum(w.v**2)\n",
        names,
    )
    assert mt.grad(names["loss"])(2.0) == 4.0
