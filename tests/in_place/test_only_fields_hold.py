"""Where nothing but fields and the recording refer to an array, no code is looked at; else it is."""

import weakref

import numpy as np
import pytest

import mutangent as mt
from mutangent import _read_past
from mutangent._references import COUNTS_REFERENCES

pytestmark = pytest.mark.skipif(
    not COUNTS_REFERENCES, reason="references are not counted here, and the code is looked at each time"
)


@mt.differentiable
class World:
    pos: np.ndarray
    other: np.ndarray | None = None

    def push(self, x):
        self.pos[0] = x * 2

    def energy(self):
        return np.sum(self.pos**2)


@mt.differentiable(slots=False)
class Loose(World):
    pass


@pytest.fixture
def looks(monkeypatch):
    found = []
    monkeypatch.setattr(_read_past, "_look", lambda *_: found.append(1))
    return found


def by_grad(world):
    return mt.grad(lambda x: (world.push(x), world.energy())[1])(2.0)


def by_jvp(world):
    return mt.jvp(lambda x: (world.push(x), world.energy())[1], (2.0,), (1.0,))[1]


def by_argument(world):
    return mt.grad(lambda world, x: (world.push(x), world.energy())[1], argnums=1)(world, 2.0)


def by_context(world):
    with mt.Context() as ctx:
        x = ctx.watch(2.0)
        world.push(x)
        out = world.energy()
    return ctx.grad(out, x)


ways = pytest.mark.parametrize("record", [by_grad, by_jvp, by_argument, by_context])
both = pytest.mark.parametrize("cls", [World, Loose])


@ways
@both
def test_an_array_that_lies_in_a_field_only_is_not_looked_for(record, cls, looks):
    world = cls(np.zeros(3))  # in an `assert` pytest would hold the array
    assert record(world) == 16.0
    assert not looks


class Holder:
    def __init__(self, held):
        self.held = held


HOLDERS = {
    "a name": lambda array: array,
    "a list": lambda array: [array],
    "an object": Holder,
    "a view": lambda array: array[:1],
    "a memory view": memoryview,
    "a method": lambda array: array.sum,
    "a generator": lambda array: (each for each in array),
    "a function": lambda array: lambda: array,
    "an iterator": iter,
    "an object of the class that is not met": World,
    "another shape": lambda array: array.reshape(3, 1),
    "its memory": np.frombuffer,
    "a weak reference": weakref.ref,
}


@ways
@both
@pytest.mark.parametrize("hold", HOLDERS.values(), ids=HOLDERS)
def test_whoever_else_holds_it_is_noticed(record, cls, hold, looks):
    world = cls(np.zeros(3))
    held = hold(world.pos)
    record(world)
    assert looks
    del held
    looks.clear()
    record(world)
    assert not looks


@ways
def test_an_array_in_two_fields(record, looks):
    array = np.zeros(3)
    world = World(array, array)
    record(world)
    assert looks  # the name `array`, and a field that is not read
    looks.clear()
    del array
    mt.grad(lambda x: (world.push(x), world.energy() + np.sum(world.other))[1])(2.0)
    assert not looks


def test_an_array_of_an_argument_and_of_an_outer_recording_is_looked_for(looks):
    array = np.zeros(3)

    def write(array, x):
        array[0] = x
        return np.sum(array)

    mt.grad(write, argnums=(0, 1))(array, 2.0)
    assert looks
    looks.clear()
    world = World(np.zeros(3))
    mt.grad(lambda y: mt.grad(lambda x: (world.push(x * y), world.energy())[1])(y))(2.0)
    alive = weakref.ref(world.pos)
    assert alive() is world.pos


def test_a_field_that_is_written_and_given_another_array(looks):
    world = World(np.zeros(3))
    kept = []

    def loss(x):
        world.push(x)
        kept.append(world.pos)
        world.pos = np.ones(3) * x
        return np.sum(world.pos) + np.sum(kept.pop())

    assert mt.grad(loss)(2.0) == 5.0
