"""Attributes of objects that are not captured, read in a `with` block that has written the array through a field."""

import gc
import inspect
import weakref
from types import SimpleNamespace

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class World:
    pos: np.ndarray
    p: float = 2.0

    def push(self):
        self.pos[0] = self.p * 2

    def energy(self):
        return np.sum(self.pos**2)


class Gauge:
    def __init__(self, pos):
        self.pos = pos

    def __call__(self):
        return self.pos.sum()


class Simulation:
    """Undecorated, and records in its methods."""

    def __init__(self):
        self.pos = np.zeros(3)
        self.world = World(self.pos)
        self.buffers = [self.pos, np.ones(3)]
        self.gauges = [Gauge(self.pos)]
        self.log = []

    def total(self):
        return np.sum(self.pos)

    @property
    def first(self):
        return self.pos[0]

    # -- blocks that read the attribute

    def by_itself(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + np.sum(self.pos)
        return ctx.grad(out, self.world).p

    def by_a_method(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.total()
        return ctx.grad(out, self.world).p

    def by_a_property(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.first
        return ctx.grad(out, self.world).p

    def by_a_lambda(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + called(lambda: self.pos.sum() + 0.0)
        return ctx.grad(out, self.world).p

    def by_a_comprehension(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + sum(self.pos[k] for k in range(3))
        return ctx.grad(out, self.world).p

    def by_an_item(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.buffers[0].sum()
        return ctx.grad(out, self.world).p

    def by_an_object_in_a_list(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.gauges[0].pos.sum()
        return ctx.grad(out, self.world).p

    def by_a_call_of_an_object(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + sum(gauge() for gauge in self.gauges)
        return ctx.grad(out, self.world).p

    def by_a_name_for_it(self):
        alias = self
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + alias.pos.sum()
        return ctx.grad(out, self.world).p

    def by_a_method_taken_before(self):
        total = self.total
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + total()
        return ctx.grad(out, self.world).p

    def by_a_loop_over_a_list(self):
        sims = [self]
        with mt.Context() as ctx:
            for sim in sims:
                sim.world.push()
                out = sim.world.energy() + sim.pos.sum()
        return ctx.grad(out, self.world).p

    def by_another_function(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + sum_of_buffer(self)
        return ctx.grad(out, self.world).p

    # -- blocks that do not

    def before_it(self):
        start = self.pos.sum() + self.total()
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + start
        return ctx.grad(out, self.world).p

    def after_it(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy()
        self.log.append(self.pos.sum() + self.total() + self.first + self.gauges[0]())
        return ctx.grad(out, self.world).p

    def copied_before_the_write(self):
        for _ in range(2):
            with mt.Context() as ctx:
                start = self.pos.copy()
                self.world.push()
                out = self.world.energy() + start.sum()
        return ctx.grad(out, self.world).p

    def by_the_field(self):
        with mt.Context() as ctx:
            self.world.push()
            out = np.sum(self.world.pos**2)
        return ctx.grad(out, self.world).p

    def another_item(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.buffers[1].sum()
        return ctx.grad(out, self.world).p

    def its_shape(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy() + self.pos.shape[0] + len(self.pos)
        return ctx.grad(out, self.world).p

    def another_attribute(self):
        with mt.Context() as ctx:
            self.world.push()
            self.log.append(len(self.log))
            out = self.world.energy()
        return ctx.grad(out, self.world).p

    def put_into_the_field(self):
        with mt.Context() as ctx:
            self.world.pos = self.pos
            self.world.push()
            out = self.world.energy()
        return ctx.grad(out, self.world).p


def called(function):
    return function() * 1.0


def sum_of_buffer(sim):
    return sim.buffers[0].sum()


READING = [name for name in vars(Simulation) if name.startswith("by_") and name != "by_the_field"]
OTHERS = [
    name for name in vars(Simulation) if not name.startswith(("by_", "__")) and name not in ("total", "first")
]


@pytest.mark.parametrize("name", READING)
def test_an_attribute_that_shows_old_contents_is_refused(name):
    sim = Simulation()
    with pytest.raises(
        mt.InPlaceError,
        match=r"reads it by the plain name `(Simulation|Gauge)\.(pos|buffers)`|by another name",
    ):
        getattr(sim, name)()
    assert sim.world.pos is sim.pos
    np.testing.assert_array_equal(sim.pos, 0)


@pytest.mark.parametrize("name", [*OTHERS, "by_the_field"])
def test_what_does_not_read_the_attribute_in_the_block_does_no_harm(name):
    assert getattr(Simulation(), name)() == 16.0


def test_the_error_names_the_block_and_the_line():
    lines, first = inspect.getsourcelines(Simulation.by_itself)
    with pytest.raises(mt.InPlaceError) as caught:
        Simulation().by_itself()
    assert (
        f"World.pos, and the block, line {first + len(lines) - 2} reads it by the plain name `Simulation.pos`. "
        "Until the recording ends a plain name shows what was there before"
    ) in str(caught.value)


def test_objects_by_the_names_of_variables_and_of_a_script():
    sim = SimpleNamespace(pos=np.zeros(3))
    world = World(sim.pos)
    text = "with mt.Context() as ctx:\n    world.push()\n    out = np.sum(sim.pos)"
    match = r"the block, line \d+ reads it by the plain name `SimpleNamespace\.pos`"
    with pytest.raises(mt.InPlaceError, match=match):
        exec(compile(text, "<a script>", "exec"), {"mt": mt, "np": np, "sim": sim, "world": world})

    def read():
        with mt.Context():
            world.push()
            return np.sum(sim.pos)

    with pytest.raises(mt.InPlaceError, match=match):
        read()
    assert (sim.pos == 0.0).all()


@mt.differentiable
class Store:
    items: list
    p: float = 2.0


class Keeper:
    def __init__(self):
        self.items = [1.0]
        self.store = Store(self.items)

    def read(self):
        with mt.Context():
            self.store.items.append(self.store.p)
            return sum(self.items)

    def ask(self):
        with mt.Context() as ctx:
            self.store.items.append(self.store.p)
            out = sum(self.store.items)
        return ctx.grad(out, self.store).p


def test_an_attribute_that_is_a_list_of_a_field_is_refused():
    keeper = Keeper()
    match = r"the block, line \d+ reads it by the plain name `Keeper\.items`"
    with pytest.raises(mt.NotCapturedError, match=match):
        keeper.read()
    assert keeper.items == [1.0]
    assert keeper.ask() == 1.0
    assert keeper.items == [1.0, 2.0]


class Notified:
    def __init__(self, world, *callbacks):
        self.world = world
        self.callbacks = callbacks
        self.sums = []

    def notify(self):
        with mt.Context() as ctx:
            self.world.push()
            for callback in self.callbacks:
                self.sums.append(callback(0.0))
            out = self.world.energy()
        return ctx.grad(out, self.world).p

    def silent(self):
        with mt.Context() as ctx:
            self.world.push()
            out = self.world.energy()
        return ctx.grad(out, self.world).p


def test_functions_that_an_attribute_holds_are_looked_into_if_the_block_names_it():
    pos = np.zeros(3)
    notified = Notified(World(pos), lambda x: pos.sum() + x)
    with pytest.raises(mt.InPlaceError, match="by the plain name `pos`"):
        notified.notify()
    assert notified.silent() == 16.0
    assert Notified(World(np.zeros(3)), lambda x: pos.sum() + x).notify() == 16.0


def test_the_variables_of_a_block_are_not_kept_alive():
    def record():
        sim = Simulation()
        with mt.Context() as ctx:
            sim.world.push()
            out = sim.world.energy()
        return weakref.ref(sim), ctx.grad(out, sim.world).p

    gc.disable()
    try:
        alive, gradient = record()
        assert alive() is None
    finally:
        gc.enable()
    assert gradient == 16.0
