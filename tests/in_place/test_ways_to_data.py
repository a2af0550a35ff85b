"""Roundabout ways to an array that a recording writes through a field: methods taken before, views, iterators, nested
containers, attributes of classes, other names of the object that holds it."""

from collections import deque
from types import SimpleNamespace

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class World:
    pos: np.ndarray

    def push(self, x):
        self.pos[0] = x * 2

    def energy(self):
        return np.sum(self.pos**2)


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


def stream(array):
    while True:
        yield float(array.sum())


def readers(pos):
    """Functions that read an array, each in its own way."""
    total, item, view, flat, steps = pos.sum, pos.__getitem__, memoryview(pos), pos.flat, iter(pos)
    pairs, numbered, mapped, running = (
        zip(pos, pos, strict=True),
        enumerate([pos]),
        map(np.sum, [pos]),
        stream(pos),
    )
    nested, deep, queue = [[1.0, [pos]]], {"a": ({"b": pos},)}, deque([(pos,)])

    def forever():
        while True:
            yield pos[0]

    by_closure = forever()
    return {
        "a method": lambda: total(),
        "a method of an item": lambda: item(0),
        "a memory view": lambda: view[0],
        "an iterator of all elements": lambda: next(flat),
        "an iterator": lambda: next(steps),
        "a zip": lambda: sum(next(pairs)),
        "an enumeration": lambda: next(numbered)[1].sum(),
        "a map": lambda: next(mapped),
        "a generator": lambda: next(running),
        "a generator with a closure": lambda: next(by_closure),
        "a list in a list": lambda: nested[0][1][0].sum(),
        "a dict in a dict": lambda: deep["a"][0]["b"].sum(),
        "a tuple in a deque": lambda: queue[0][0].sum(),
    }


@in_both
@pytest.mark.parametrize("way", readers(np.zeros(3)))
def test_a_roundabout_way_to_old_contents_is_refused(record, way):
    world = World(np.zeros(3))
    pos = world.pos
    with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
        record(world, readers(pos)[way])
    assert world.pos is pos
    np.testing.assert_array_equal(pos, 0)
    if way != "a memory view":
        assert record(world, readers(np.zeros(3))[way]) == 16.0


@in_both
def test_another_item_of_a_nested_container_does_no_harm(record):
    world = World(np.zeros(3))
    table = {"pos": [[world.pos]], "rate": [[3.0]]}
    assert record(world, lambda: table["rate"][0][0]) == 19.0
    with pytest.raises(mt.InPlaceError, match="plain name `table`"):
        record(World(table["pos"][0][0]), lambda: table["pos"][0][0].sum())


# -- attributes of classes ---------------------------------------------------------------------------------------------


class Buffers:
    pos = np.zeros(3)
    other = np.zeros(3)

    def total(self):
        return self.pos.sum()

    @classmethod
    def total_of_class(cls):
        return cls.pos.sum()

    def rest(self):
        return self.other.sum() + len(self.pos)


class More(Buffers):
    def inherited(self):
        return self.pos.sum()

    def by_super(self):
        return super().total()


@mt.differentiable
class Own:
    v: np.ndarray
    pos = np.zeros(3)

    def push(self, x):
        self.v[0] = x * 2

    def energy(self):
        return np.sum(self.v**2)

    def total(self):
        return self.pos.sum()


@in_both
def test_an_attribute_of_a_class_that_shows_old_contents_is_refused(record):
    more = More()
    for read in (
        lambda: Buffers.pos.sum(),
        lambda: More.pos.sum(),
        lambda: more.pos.sum(),
        more.total,
        more.inherited,
        more.by_super,
        more.total_of_class,
        Buffers.total_of_class,
        lambda: Buffers().total(),
        lambda calls=[more.total]: calls[0](),
        lambda: type(more).pos.sum(),
        lambda: getattr(more, "pos").sum(),
    ):
        with pytest.raises(mt.InPlaceError, match=r"plain name `Buffers\.pos`"):
            record(World(Buffers.pos), read)
    own = Own(Own.pos)
    with pytest.raises(mt.InPlaceError, match=r"plain name `Own\.pos`"):
        record(own, own.total)
    assert (Buffers.pos == 0.0).all()
    assert (Own.pos == 0.0).all()


@in_both
def test_attributes_of_a_class_that_are_not_read_do_no_harm(record):
    world = World(np.zeros(3))
    more = More()
    before, Buffers.pos = Buffers.pos, world.pos
    try:
        assert record(world, more.rest) == 19.0
        assert record(world, lambda: Buffers.other.sum()) == 16.0
    finally:
        Buffers.pos = before
    own = Own(np.zeros(3))
    assert record(own, own.total) == 16.0


# -- other names of an object whose attribute is called like a field ---------------------------------------------------


class Simulation:
    """Undecorated; its attribute `pos` is called like the field."""

    def __init__(self, world):
        self.world = world
        self.pos = world.pos

    def helped(self):
        return self.help(SimpleNamespace(inner=self))

    def help(self, space):
        return total_of(space.inner)


def total_of(obj):
    return obj.pos.sum()


def passed_on(obj):
    return total_of(obj)


def readers_of(holder):
    """Functions that read the attribute `pos` of an object which a list holds."""

    def by_another_name():
        sim = holder.sims[0]
        return sim.pos.sum()

    def by_a_name_for_the_holder():
        h = holder
        sims = h.sims
        return sims[0].pos.sum()

    def in_a_loop():
        total = 0.0
        for sim in holder.sims:
            total += sim.pos.sum()
        return total

    def in_a_function_within():
        sim = holder.sims[0]

        def inner():
            return sim.pos.sum()

        return inner()

    def in_a_loop_with_numbers():
        total = 0.0
        for k, sim in enumerate(holder.sims):
            total += sim.pos.sum() + 0 * k
        return total

    def in_a_loop_over_a_dict():
        total = 0.0
        for _, sim in dict(enumerate(holder.sims)).items():
            total += sim.pos.sum()
        return total

    def unpacked():
        first, *_ = holder.sims
        return first.pos.sum()

    def unpacked_in_part():
        first, _ = holder.sims[0], 1.0
        return first.pos.sum()

    def in_an_expression():
        return (sim := holder.sims[0]).pos.sum() + 0.0 * len(str(type(sim)))

    def in_a_new_list():
        sims = [*holder.sims, holder.sims[0]]
        return [*sims][0].pos.sum()

    def the_first():
        return holder.sims[0]

    def every_one():
        yield from holder.sims

    def every_second():
        for k, sim in enumerate(holder.sims):
            if k % 2 == 0:
                yield sim

    def in_a_loop_over_a_generator():
        total = 0.0
        for sim in every_one():
            total += sim.pos.sum()
        return total

    def in_a_loop_over_another_generator():
        total = 0.0
        for sim in every_second():
            total += sim.pos.sum()
        return total

    return {
        "a loop with numbers": in_a_loop_with_numbers,
        "a loop over a dict": in_a_loop_over_a_dict,
        "unpacked": unpacked,
        "unpacked in part": unpacked_in_part,
        "an expression": in_an_expression,
        "a new list": in_a_new_list,
        "a result": lambda: the_first().pos.sum(),
        "a loop over a generator": in_a_loop_over_a_generator,
        "a loop over another generator": in_a_loop_over_another_generator,
        "a method of a list": lambda: holder.sims.copy()[0].pos.sum(),
        "a function of Python's": lambda: next(iter(holder.sims)).pos.sum(),
        "another name": by_another_name,
        "a name for the holder": by_a_name_for_the_holder,
        "a loop": in_a_loop,
        "a function within": in_a_function_within,
        "an argument": lambda: total_of(holder.sims[0]),
        "an argument that is passed on": lambda: passed_on(holder.sims[0]),
        "an argument by name": lambda: total_of(obj=holder.sims[0]),
        "getattr": lambda: getattr(holder.sims[0], "pos").sum(),
    }


@in_both
@pytest.mark.parametrize("way", readers_of(None))
def test_another_name_of_the_object_is_followed(record, way):
    world = World(np.zeros(3))
    sim = Simulation(world)
    holder = SimpleNamespace(sims=[sim])
    with pytest.raises(mt.InPlaceError, match=r"plain name `Simulation\.pos`"):
        record(world, readers_of(holder)[way])
    # The same names for the captured object do no harm, though the other one is at hand.
    holder = SimpleNamespace(sims=[world], other=sim)
    assert record(world, readers_of(holder)[way]) == 16.0 + 8.0


@in_both
def test_an_attribute_of_an_object_in_an_attribute_of_an_unknown_one(record):
    world = World(np.zeros(3))
    outer = SimpleNamespace(sim=Simulation(world))

    def read(holders=({"a": 1.0}, outer)):
        kept = [*holders][1]
        return kept.sim.pos.sum()

    with pytest.raises(mt.InPlaceError, match=r"plain name `Simulation\.pos`"):
        record(world, read)
