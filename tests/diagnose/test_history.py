"""Every value that a field had, with its cotangent and the line that wrote it."""

import inspect

import numpy as np
import pytest

import mutangent as mt
from mutangent._recording import Recording


@mt.differentiable
class Cell:
    w: object
    h: object = None


def line_here(offset=0):
    return f"test_history.py:{inspect.currentframe().f_back.f_lineno + offset}"


def test_each_version_has_its_value_cotangent_and_line(xp):
    cell = Cell(xp.asarray([0.5, 2.0]), xp.asarray([1.0, 1.0]))
    with mt.Context(history=True) as ctx:
        for _ in range(2):
            cell.h = cell.w * cell.h
        written = line_here(-1)
        out = np.sum(cell.h)
    d_cell = ctx.grad(out, cell)
    versions = ctx.history(cell, "h")
    assert [version.line for version in versions] == [None, written, written]
    np.testing.assert_array_equal([version.value for version in versions], [[1, 1], [0.5, 2], [0.25, 4]])
    np.testing.assert_array_equal([version.cotangent for version in versions], [[0.25, 4], [0.5, 2], [1, 1]])
    np.testing.assert_array_equal(versions[0].cotangent, d_cell.h)
    (entry,) = ctx.history(cell, "w")
    np.testing.assert_array_equal(entry.cotangent, d_cell.w)
    assert entry.line is None


def test_cotangents_are_those_of_the_latest_sweep():
    cell = Cell(2.0, 3.0)
    with mt.Context(history=True) as ctx:
        cell.h = cell.w * cell.h
        one, other = cell.h * 5.0, cell.w * 7.0
    assert [version.cotangent for version in ctx.history(cell, "h")] == [None, None]
    ctx.grad(one, cell)
    assert [version.cotangent for version in ctx.history(cell, "h")] == [10.0, 5.0]
    ctx.tangents(other)
    assert [version.cotangent for version in ctx.history(cell, "h")] == [mt.ZeroTangent()] * 2
    assert [version.cotangent for version in ctx.history(cell, "w")] == [7.0]


def test_the_gradients_are_those_of_a_context_without_history(xp, rng):
    w, h = rng.normal(size=(2, 3)), rng.normal(size=3)

    def sweep(**settings):
        cell = Cell(xp.asarray(w), xp.asarray(h))
        with mt.Context(**settings) as ctx:
            cell.h = np.tanh(cell.w @ cell.h)
            cell.h = np.exp(cell.h) * cell.w[:, 0] + np.concatenate([cell.h[:1], cell.h[1:]])
            out = np.sum(np.stack(np.split(cell.h, 2)) ** 2)
        return ctx.grad(out, cell)

    plain = sweep()
    for settings in ({"history": True}, {"check_finite": True}, {"history": True, "check_finite": True}):
        found = sweep(**settings)
        np.testing.assert_array_equal(found.w, plain.w)
        np.testing.assert_array_equal(found.h, plain.h)


def test_an_array_written_in_place_has_a_new_version():
    cell = Cell(np.array([2.0, 3.0]), np.zeros(2))
    before = cell.h
    with mt.Context(history=True) as ctx:
        cell.h[0] = cell.w[0]
        item = line_here(-1)
        cell.h += cell.w
        augmented = line_here(-1)
        cell.h = cell.h * 1.0
        out = np.sum(cell.h)
    ctx.grad(out, cell)
    versions = ctx.history(cell, "h")
    assert [version.line for version in versions][:3] == [None, item, augmented]
    np.testing.assert_array_equal([version.value for version in versions], [[0, 0], [2, 0], [4, 3], [4, 3]])
    np.testing.assert_array_equal([version.cotangent for version in versions[:2]], [[0, 1], [1, 1]])
    assert cell.h is not before
    np.testing.assert_array_equal(before, [4, 3])


def test_an_array_that_the_field_no_longer_holds_makes_no_version():
    cell = Cell(1.0, np.zeros(2))
    with mt.Context(history=True) as ctx:
        old = cell.h
        cell.h = cell.h + cell.w
        old[0] = 5.0
    assert len(ctx.history(cell, "h")) == 2


def test_a_field_overwritten_before_it_is_read_has_its_entry_value_too():
    cell = Cell(2.0, 3.0)
    with mt.Context(history=True) as ctx:
        cell.h = cell.w * 1.0
        out = cell.h * 1.0
    ctx.grad(out, cell)
    assert [(v.value, v.cotangent) for v in ctx.history(cell, "h")] == [(3.0, mt.ZeroTangent()), (2.0, 1.0)]


def test_constants_integers_and_objects_have_no_cotangent():
    cell = Cell(2.0)
    with mt.Context(history=True) as ctx:
        for value in (1.5, 3, "text", cell):
            cell.h = value
        out = cell.w * 1.0
    ctx.grad(out, cell)
    versions = ctx.history(cell, "h")
    assert [version.value for version in versions[:-1]] == [None, 1.5, 3, "text"]
    assert versions[-1].value is cell
    assert all(version.cotangent == mt.NoTangent() for version in versions)


def test_a_container_is_shown_as_it_was_when_it_was_assigned():
    cell = Cell(2.0, (1.0, [np.ones(2)]))
    with mt.Context(history=True) as ctx:
        a, (b,) = cell.h
        cell.h = {"a": cell.w * a, "b": [b * 2.0, 7]}
        cell.h["b"].append(5.0)
        out = cell.h["a"] + np.sum(cell.h["b"][0])
    ctx.grad(out, cell)
    entry, written = ctx.history(cell, "h")
    assert entry.value[0] == 1.0
    assert entry.cotangent[0] == 2.0
    np.testing.assert_array_equal(entry.cotangent[1][0], [2.0, 2.0])
    assert written.value["a"] == 2.0
    assert written.value["b"][1:] == [7]
    assert written.cotangent["a"] == 1.0
    assert written.cotangent["b"][1] == mt.NoTangent()


def test_an_object_made_inside_begins_with_what_its_constructor_wrote():
    @mt.differentiable(frozen=True, slots=False)
    class Frozen:
        v: object

    with mt.Context(history=True) as ctx:
        x = ctx.watch(2.0)
        cell, frozen = Cell(x * 3.0), Frozen(x * 4.0)
        made = line_here(-1)
        out = cell.w + frozen.v
    ctx.grad(out, x)
    for obj, name, value in ((cell, "w", 6.0), (frozen, "v", 8.0)):
        (only,) = ctx.history(obj, name)
        assert (only.value, only.cotangent, only.line) == (value, 1.0, made)


def test_what_a_nested_gradient_leaves_behind_is_a_version():
    cell = Cell(2.0, 1.0)

    def step(cell):
        cell.h = cell.h * cell.w
        return cell.h**2

    with mt.Context(history=True) as ctx:
        d_cell = mt.grad(step)(cell)
        called = line_here(-1)
        out = cell.h + d_cell.w
    ctx.grad(out, cell)
    assert [(v.value, v.line) for v in ctx.history(cell, "h")] == [(1.0, None), (2.0, called)]


def test_the_inside_of_a_checkpointed_function_is_seen():
    cell = Cell(2.0, 1.0)

    @mt.checkpoint
    def steps():
        for _ in range(3):
            cell.h = cell.h * cell.w

    with mt.Context(history=True) as ctx:
        steps()
        out = cell.h * 1.0
    ctx.grad(out, cell)
    assert [v.cotangent for v in ctx.history(cell, "h")] == [8.0, 4.0, 2.0, 1.0]


def test_the_history_shares_no_memory_with_objects_and_gradients():
    cell = Cell(np.ones(2), np.ones(2))
    with mt.Context(history=True) as ctx:
        cell.h = cell.h * cell.w
        out = np.sum(cell.h)
    d_cell = ctx.grad(out, cell)
    ctx.history(cell, "h")[1].value[:] = 9.0
    d_cell.h[:] = 9.0
    np.testing.assert_array_equal(cell.h, [1, 1])
    for version in ctx.history(cell, "h"):
        np.testing.assert_array_equal(version.value, [1, 1])
        np.testing.assert_array_equal(version.cotangent, [1, 1])


def test_the_history_may_be_asked_inside_the_block_and_after_one_that_raised():
    cell, unused = Cell(2.0, 1.0), Cell(5.0)
    ctx = mt.Context(history=True)

    def fail():
        with ctx:
            cell.h = cell.w * 2.0
            assert [version.value for version in ctx.history(cell, "h")] == [1.0, 4.0]
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert cell.h == 1.0
    assert [version.value for version in ctx.history(cell, "h")] == [1.0, 4.0]
    assert [version.value for version in ctx.history(unused, "w")] == [5.0]


def test_asking_for_a_history_that_was_not_kept_says_how_to_keep_it():
    with mt.Context() as ctx:
        pass
    with pytest.raises(mt.ContextError, match=r"Context\(history=True\)"):
        ctx.history(Cell(1.0), "w")
    with pytest.raises(mt.ContextError, match=r"enter the context first"):
        mt.Context(history=True).history(Cell(1.0), "w")


@pytest.mark.parametrize("obj", [Cell(1.0), 3.0])
def test_a_field_that_there_is_not_is_an_attribute_error(obj):
    with mt.Context(history=True) as ctx:
        pass
    with pytest.raises(AttributeError, match="no captured field 'nowhere'"):
        ctx.history(obj, "nowhere")


def test_an_ordinary_context_has_nothing_of_it():
    cell = Cell(2.0, 1.0)
    with mt.Context() as ctx:
        cell.h = cell.w * cell.h
        recording = ctx._recording
    assert type(recording) is Recording
    assert type(recording.entries) is list
    # Two leaves and a product: nothing else was recorded, and no value is kept beside the entries.
    assert len(recording.entries) == 3
    assert not hasattr(recording, "history")
