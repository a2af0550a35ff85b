"""Attributes of objects that are not captured, and that hold an array which a recording writes through a field."""

import inspect
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


class Simulation:
    """Undecorated, and around a captured object."""

    def __init__(self):
        self.pos = np.zeros(3)
        self.world = World(self.pos)
        self.other = np.ones(3)
        self.buffers = [self.pos]

    def __repr__(self):
        return f"Simulation({self.pos})"

    def read(self, x):
        self.world.push(x)
        return np.sum(self.pos**2)

    def read_in_a_property(self, x):
        self.world.push(x)
        return self.sum_of_squares

    @property
    def sum_of_squares(self):
        return np.sum(self.pos**2)

    def read_in_a_comprehension(self, x):
        self.world.push(x)
        return sum(self.pos[i] ** 2 for i in range(3)) * x

    def read_in_another_method(self, x):
        self.world.push(x)
        return self.total()

    def total(self):
        return np.sum(self.pos)

    def read_in_a_list(self, x):
        self.world.push(x)
        return np.sum(self.buffers[0])

    def ask_the_object(self, x):
        self.world.push(x)
        return self.world.energy()

    def read_something_else(self, x):
        self.world.push(x)
        return self.world.energy() + np.sum(self.other)

    def ask_for_its_shape(self, x):
        self.world.push(x)
        return self.world.energy() * self.pos.shape[0] * (len(self.pos) / self.pos.size)

    def never_called(self):
        return np.sum(self.pos)


simulation = Simulation()
holder = SimpleNamespace(inner=Simulation())


def read_by_a_global(x):
    simulation.world.push(x)
    return np.sum(simulation.pos)


def read_by_a_function(x):
    simulation.world.push(x)
    return total_of(SimpleNamespace(buffer=simulation.pos)) + sum_of_buffer(simulation)


def total_of(space):
    return np.sum(space.buffer)


def sum_of_buffer(sim):
    return np.sum(sim.buffers[0])


def ask_by_a_global(x):
    simulation.world.push(x)
    return np.sum(simulation.world.pos)


READING = (
    "read",
    "read_in_a_property",
    "read_in_a_comprehension",
    "read_in_another_method",
    "read_in_a_list",
)


@pytest.mark.parametrize("name", READING)
def test_an_attribute_that_shows_old_contents_is_refused(name):
    sim = Simulation()
    method = getattr(sim, name)
    for call in (
        lambda: mt.grad(method)(2.0),
        lambda: mt.jvp(method, (2.0,), (1.0,)),
        lambda: mt.vjp(getattr(Simulation, name), sim, 2.0),
        lambda: mt.grad(mt.checkpoint(method))(2.0),
    ):
        with pytest.raises(
            (mt.InPlaceError, mt.NotCapturedError), match=r"reads it by the plain name `Simulation\."
        ):
            call()
        assert sim.world.pos is sim.pos
        np.testing.assert_array_equal(sim.pos, 0)


@pytest.mark.parametrize("f", [read_by_a_global, read_by_a_function])
def test_an_attribute_of_a_global_that_shows_old_contents_is_refused(f):
    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Simulation\.(pos|buffers)`"):
        mt.grad(f)(2.0)


@pytest.mark.parametrize("name", ["ask_the_object", "read_something_else", "ask_for_its_shape"])
def test_what_does_not_read_the_attribute_does_no_harm(name):
    sim = Simulation()
    expected = {"ask_for_its_shape": 48.0}.get(name, 16.0)
    assert mt.grad(getattr(sim, name))(2.0) == expected
    assert mt.grad(ask_by_a_global)(2.0) == 2.0


def test_an_object_that_is_an_argument():
    sim = Simulation()

    def read(sim, x):
        sim.world.push(x)
        return np.sum(sim.pos)

    def ask(sim, x):
        sim.world.push(x)
        return sim.world.energy()

    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Simulation\.pos`"):
        mt.grad(read, argnums=1)(sim, 2.0)
    assert mt.grad(ask, argnums=1)(sim, 2.0) == 16.0


def test_the_error_names_the_method_and_the_line():
    lines, first = inspect.getsourcelines(Simulation.read)
    with pytest.raises(mt.InPlaceError) as caught:
        mt.grad(Simulation().read)(2.0)
    assert (
        f"World.pos, and Simulation.read, line {first + len(lines) - 1} reads it by the plain name `Simulation.pos`. "
        "Until the recording ends a plain name shows what was there before"
    ) in str(caught.value)


class Recorder:
    """Reads its arrays when it is made, and when it is asked for a picture."""

    def __init__(self, world):
        self.frames = [world.pos]
        self.world = world
        self.total = self.count()

    def count(self):
        return np.sum(self.frames[0])

    def loss(self, x):
        self.world.push(x)
        return self.world.energy()


def test_what_runs_only_when_an_object_is_made_reads_nothing():
    recorder = Recorder(World(np.zeros(3)))
    assert mt.grad(recorder.loss)(2.0) == 16.0
    assert mt.grad(lambda x: recorder.loss(x) * 2)(2.0) == 32.0


class Gauge:
    """Undecorated, and read by calls, indices and operators, which have no name in the code."""

    def __init__(self, pos):
        self.pos = pos

    def __call__(self):
        return np.sum(self.pos)

    def __getitem__(self, i):
        return self.pos[i]

    def __matmul__(self, other):
        return np.sum(self.pos * other)

    @property
    def first(self):
        return self.pos[:1].sum()

    def norm(self):
        return np.sum(self.pos**2)


@mt.differentiable
class Watched(World):
    gauge: object


@pytest.mark.parametrize(
    "read", [lambda gauge: gauge(), lambda gauge: gauge[:2].sum(), lambda gauge: gauge @ np.ones(3)]
)
def test_methods_that_run_without_their_name_are_looked_at(read):
    world = World(np.zeros(3))
    gauge = Gauge(world.pos)

    def loss(x):
        world.push(x)
        return read(gauge) + x

    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Gauge\.pos`"):
        mt.grad(loss)(2.0)
    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Gauge\.pos`"):
        mt.jvp(loss, (2.0,), (1.0,))


@pytest.mark.parametrize("read", [lambda world: world.gauge.first, lambda world: world.gauge.norm()])
def test_methods_of_an_undecorated_object_in_a_field_are_looked_at(read):
    pos = np.zeros(3)
    world = Watched(pos, Gauge(pos))

    def loss(world, x):
        world.push(x)
        return read(world) + x

    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Gauge\.pos`"):
        mt.grad(loss, argnums=1)(world, 2.0)
    assert (pos == 0.0).all()


def test_an_undecorated_object_in_a_field_whose_methods_are_not_called_does_no_harm():
    pos = np.zeros(3)
    world = Watched(pos, Gauge(pos))

    def loss(world, x):
        world.push(x)
        return world.energy()

    assert mt.grad(loss, argnums=1)(world, 2.0) == 16.0


class Monitor:
    """Holds a gauge that its loss does not ask."""

    def __init__(self, world):
        self.world = world
        self.gauges = [Gauge(world.pos)]

    def loss(self, x):
        self.world.push(x)
        return self.world.energy()

    def shown(self, x):
        self.world.push(x)
        return sum(gauge() for gauge in self.gauges) * x


def test_objects_that_the_code_does_not_name_are_not_called_by_it():
    monitor = Monitor(World(np.zeros(3)))
    assert mt.grad(monitor.loss)(2.0) == 16.0
    assert monitor.gauges[0]() == 4.0
    with pytest.raises(
        mt.InPlaceError, match=r"Gauge\.__call__, line \d+ reads it by the plain name `Gauge\.pos`"
    ):
        mt.grad(monitor.shown)(2.0)


class Plotter:
    """Has a method that is called as one of the captured object's."""

    def __init__(self, world):
        self.shown = world.pos
        self.sums = []

    def push(self, x):
        self.sums.append(self.shown.sum() * x)


class Plotted:
    def __init__(self, world):
        self.world = world
        self.plotter = Plotter(world)
        self.all = [self.plotter]
        self.all.append(self.all)

    def loss(self, x):
        self.world.push(x)
        return self.world.energy()

    def by_one_name(self, x):
        self.world.push(x)
        self.plotter.push(x)
        return self.world.energy()

    def by_another_name(self, x):
        self.world.push(x)
        self.all[0].push(x)
        return self.world.energy()


def test_a_method_that_is_called_like_another_ones_does_no_harm_if_its_object_is_not_named():
    plotted = Plotted(World(np.zeros(3)))
    assert mt.grad(plotted.loss)(2.0) == 16.0
    for loss in (plotted.by_one_name, plotted.by_another_name):
        with pytest.raises(
            mt.InPlaceError, match=r"Plotter\.push, line \d+ reads it by the plain name `Plotter\.shown`"
        ):
            mt.grad(loss)(2.0)


class Notified:
    """Undecorated, with callbacks that its loss calls, or does not."""

    def __init__(self, world, *callbacks):
        self.world = world
        self.callbacks = [*callbacks]
        self.sums = []

    def loss(self, x):
        self.world.push(x)
        for callback in self.callbacks:
            self.sums.append(callback())
        return self.world.energy()

    def silent(self, x):
        self.world.push(x)
        return self.world.energy()


class Tally:
    def __init__(self, world):
        self.shown = world.pos
        self.world = world

    def count(self):
        return float(self.shown.sum())

    def rightly(self):
        return float(mt.primal(self.world.pos).sum())


def test_callbacks_that_an_undecorated_object_holds_are_looked_at():
    world = World(np.zeros(3))
    pos, tally = world.pos, Tally(world)
    for callback, name in ((tally.count, r"Tally\.shown"), (lambda: float(pos.sum()), "pos")):
        notified = Notified(world, callback)
        with pytest.raises(mt.InPlaceError, match=rf"reads it by the plain name `{name}`"):
            mt.grad(notified.loss)(2.0)
        assert mt.grad(notified.silent)(2.0) == 16.0
    notified = Notified(world, tally.rightly)
    assert mt.grad(notified.loss)(2.0) == 16.0
    assert notified.sums == [4.0]


@mt.differentiable
class Observed(World):
    observers: list
    last: object = None

    def notify(self):
        return [observer() for observer in self.observers]


def test_functions_that_a_field_holds_are_looked_at():
    pos = np.zeros(3)

    def loss(world, x):
        world.push(x)
        return world.energy() + x * sum(world.notify())

    gradient = mt.grad(loss, argnums=1)
    for observer in (lambda: np.sum(pos), Tally(World(pos)).count):
        with pytest.raises(mt.InPlaceError, match="reads it by the plain name"):
            gradient(Observed(pos, [observer]), 2.0)
    world = Observed(pos, [lambda: np.sum(world.pos)])
    assert gradient(world, 2.0) == 16.0 + 8.0


def test_a_function_that_is_called_by_the_name_of_a_closure_is_looked_at():
    gauge = Gauge(np.zeros(3))
    world = World(gauge.pos)

    def read():
        return gauge.norm()

    def loss(x):
        world.push(x)
        return read() * x

    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Gauge\.pos`"):
        mt.grad(loss)(2.0)


class Logged:
    """Has methods that are called like functions of NumPy's."""

    def __init__(self, world):
        self.world = world
        self.pos = world.pos

    def log(self):
        return self.pos.sum()

    def norm(self):
        return self.pos.sum()

    def loss(self, x):
        self.world.push(x)
        return np.log(np.linalg.norm(self.world.pos)) * x

    def logged(self, x):
        self.world.push(x)
        return np.log(self.log()) * x


def test_functions_of_a_module_are_no_methods():
    logged = Logged(World(np.zeros(3)))
    assert np.isclose(mt.grad(logged.loss)(2.0), np.log(4.0) + 1.0)
    with pytest.raises(mt.InPlaceError, match=r"reads it by the plain name `Logged\.pos`"):
        mt.grad(logged.logged)(2.0)
