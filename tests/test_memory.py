"""`Memory`: all arrays that overlap one are found, and few others."""

import numpy as np
import pytest

from mutangent._memory import Memory


def arrays_that_overlap(rng):
    """Arrays of a few owners, and of memory whose owner is not known."""
    made = []
    buffer = bytearray(400)
    for owner in (
        np.zeros(60),
        np.zeros((6, 8), np.float32),
        np.zeros((3, 4, 5))[:, ::-1],
        np.zeros((0, 3)),
        np.array(1.0),
    ):
        made.append(owner)
        for _ in range(8):
            view = owner
            for _ in range(int(rng.integers(1, 3))):
                index = tuple(
                    slice(*sorted(rng.integers(0, length + 1, 2)), int(rng.choice([1, 2])))
                    if rng.random() < 0.7
                    else slice(None, None, -1)
                    for length in view.shape
                )
                view = view[index]
            made.append(view.T if rng.random() < 0.3 else view)
    made += [np.frombuffer(buffer, np.float64, 10, 8 * k) for k in range(4)]
    made += [np.frombuffer(made[0].data, np.float64, 20), np.asarray(memoryview(made[0]))[3:9]]
    return made


@pytest.mark.parametrize("seed", range(5))
def test_all_arrays_that_overlap_one_are_found_near_it(seed):
    rng = np.random.default_rng(seed)
    arrays = arrays_that_overlap(rng)
    memory = Memory()
    for number in rng.permutation(len(arrays)):
        memory.add(arrays[number], arrays[number])
    for array in arrays:
        near = {id(each) for each in memory.near(array)}
        assert near >= {id(each) for each in arrays if np.shares_memory(each, array)}


def test_few_others_are_found_near_an_array():
    memory = Memory()
    rows = np.zeros((100, 4))
    views, others = list(rows), [np.zeros(4) for _ in range(100)]
    for array in (*views, *others):
        memory.add(array, array)
    assert memory.near(others[3]) == [others[3]]
    assert [id(each) for each in memory.near(views[50])] == [id(views[50])]
    assert len(memory.near(rows)) == 100
    assert memory.near(np.zeros(4)) == []


class Thing:
    pass


def test_things_that_are_held_weakly_vanish_with_what_was_known_of_them():
    memory = Memory()
    arrays = [np.zeros(3), np.frombuffer(bytearray(24))]
    things = [Thing(), Thing()]
    for array, thing in zip(arrays, things, strict=True):
        memory.add_weakly(array, thing)
    assert [reference() for reference in memory.near(arrays[0])] == things
    things.clear()
    del thing
    assert memory.near(arrays[0]) == []
    assert memory._owners == {}
    assert memory._elsewhere == {}
