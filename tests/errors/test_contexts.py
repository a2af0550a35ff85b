"""Case 59 and its kind: contexts that are entered twice, left, or asked for what they did not compute."""

import threading

import numpy as np
import pytest

import mutangent as mt
from mutangent._fields import current


@mt.differentiable
class Box:
    v: object = 0.0
    w: object = 0.0


def test_entering_a_context_inside_itself_says_so():
    box = Box(2.0)

    def enter_twice():
        ctx = mt.Context()
        with ctx:
            box.v = box.v * 3
            with ctx:
                pass

    for _ in range(3):
        with pytest.raises(mt.ContextError, match=r"entered(.|\n)*Context\(\)") as caught:
            enter_twice()
        assert isinstance(caught.value, RuntimeError)
        assert box.v == 2.0


def test_entering_a_context_a_second_time_says_to_make_a_new_one():
    box = Box(2.0)
    with mt.Context() as ctx:
        out = box.v**2
    for _ in range(3):
        with pytest.raises(mt.ContextError, match=r"(?i)entered(.|\n)*Context\(\)"), ctx:
            pass
    # The first recording is unharmed.
    assert ctx.grad(out, box).v == 4.0


def test_a_target_computed_before_the_context_is_refused(xp):
    box = Box(xp.asarray([2.0, 1.0]))
    outside = np.sum(box.v**2)
    with mt.Context() as ctx:
        np.sum(box.v * 3)
    for target in (outside, 1.0, np.float64(3.0)):
        with pytest.raises(
            mt.ContextError, match=r"(?i)with mutangent\.Context|inside|outside|in this context"
        ):
            ctx.grad(target, box)


def test_a_target_computed_by_another_context_is_refused(xp):
    box = Box(xp.asarray([2.0, 1.0]))
    with mt.Context() as first:
        early = np.sum(box.v**2)
    with mt.Context() as second:
        late = np.sum(box.v**3)
    for ctx, target, other in ((first, early, late), (second, late, early)):
        with pytest.raises(mt.ContextError, match=r"(?i)context"):
            ctx.grad(other, box)
        with pytest.raises(mt.ContextError, match=r"(?i)context"):
            ctx.tangents(other)
        ctx.grad(target, box)


def test_a_target_computed_after_the_context_is_refused(xp):
    box = Box(xp.asarray([2.0, 1.0]))
    with mt.Context() as ctx:
        y = box.v**2
    with pytest.raises(mt.ContextError, match=r"(?i)context"):
        ctx.grad(np.sum(y), box)
    np.testing.assert_array_equal(ctx.tangents(y, np.ones(2))[box].v, [4.0, 2.0])


def test_a_target_with_a_cotangent_that_the_context_did_not_compute_is_refused(xp):
    box = Box(xp.asarray([2.0, 1.0]))
    with mt.Context() as ctx:
        y = box.v * 3
    ones = xp.asarray([1.0, 1.0])
    with mt.Context() as other:
        late = other.watch(ones) * 2
    for target, cotangent in (
        (3.0, 1.0),
        ([3.0], [1.0]),
        ({"a": ones * 1}, {"a": ones}),
        ((late, [1.0]), (ones, [1.0])),
    ):
        with pytest.raises(
            mt.ContextError, match=r"the target, .*\. Compute it inside `with mutangent\.Context\(\)"
        ):
            ctx.tangents(target, cotangent=cotangent)
    # A constant beside what was computed has no derivative, as in `vjp`; nothing at all is no mistake.
    np.testing.assert_array_equal(ctx.tangents([3.0, y], cotangent=[1.0, ones])[box].v, ones * 3)
    assert ctx.tangents([], cotangent=[])[box].v is mt.ZeroTangent()
    assert ctx.tangents("text", cotangent=mt.NoTangent())[box].v is mt.ZeroTangent()


def test_a_target_that_is_a_list_of_a_field_is_refused_since_it_is_plain_now():
    older = [1.0]
    box, store = Box(3.0), Box(older)
    with mt.Context() as ctx:
        box.w = [box.v * 2]
        mine = box.w
        store.v[0] = box.v * 5
        y = box.v * 7
    for target, cotangent in (
        (mine, [1.0]),
        ((mine, y), ([1.0], 1.0)),
        (older, [1.0]),
        ([[older], y], [[[1.0]], 1.0]),
    ):
        with pytest.raises(
            mt.ContextError,
            match=r"is a list that a field holds(.|\n)*plain numbers(.|\n)*Give the object that has the field",
        ):
            ctx.tangents(target, cotangent=cotangent)
    assert ctx.tangents(box, cotangent=mt.Tangent(Box, w=[1.0]))[box].v == 2.0
    assert ctx.tangents(store, cotangent=mt.Tangent(Box, v=[1.0]))[box].v == 5.0
    assert ctx.tangents([y], cotangent=[1.0])[box].v == 7.0


def test_a_context_that_was_never_entered_has_no_gradient():
    with pytest.raises(mt.ContextError, match=r"(?i)with"):
        mt.Context().grad(1.0, Box(2.0))
    with pytest.raises(mt.ContextError, match=r"(?i)with"):
        mt.Context().watch(np.ones(2))


def test_watching_after_the_context_is_refused():
    with mt.Context() as ctx:
        pass
    with pytest.raises(mt.ContextError, match=r"(?i)with|open|inside|left"):
        ctx.watch(np.ones(2))


def test_a_failed_context_has_no_gradient():
    box = Box(2.0)
    ctx = mt.Context()
    outs = []

    def fail():
        with ctx:
            outs.append(box.v**2)
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    with pytest.raises(mt.ContextError, match=r"raised"):
        ctx.grad(outs[0], box)


def test_a_source_that_was_never_watched_is_refused(xp):
    box, x = Box(xp.asarray([2.0, 1.0])), xp.asarray([1.0, 1.0])
    with mt.Context() as ctx:
        out = np.sum(box.v * x)
    with pytest.raises(mt.MutangentError, match=r"watch"):
        ctx.grad(out, x)


def test_contexts_left_out_of_order_say_so():
    box = Box(2.0)
    first, second = mt.Context(), mt.Context()
    first.__enter__()
    second.__enter__()
    box.v = box.v * 3
    try:
        with pytest.raises(mt.ContextError, match=r"(?i)order|inner|other"):
            first.__exit__(None, None, None)
    finally:
        second.__exit__(None, None, None)
    assert current() is None
    assert box.v == 6.0
    assert type(box.v) is float


def test_a_context_is_not_shared_between_threads():
    box, errors = Box(2.0), []

    def enter(ctx):
        try:
            with ctx:
                errors.append(None)
        except mt.ContextError as error:
            errors.append(error)

    with mt.Context() as ctx:
        thread = threading.Thread(target=enter, args=(ctx,))
        thread.start()
        thread.join()
        out = box.v**2
    assert isinstance(errors[0], mt.ContextError)
    assert ctx.grad(out, box).v == 4.0


def test_an_array_that_was_watched_but_not_used_is_explained():
    x = np.array([1.0, 2.0])
    with mt.Context() as ctx:
        ctx.watch(x)
        out = np.sum(x**2)
    with pytest.raises(mt.ContextError, match=r"Use the array that watch returned, `x = ctx\.watch\(x\)`"):
        ctx.grad(out, x)
    with mt.Context() as ctx:
        watched = ctx.watch(x)
        out = np.sum(watched**2)
    with pytest.raises(
        mt.ContextError, match=r"is the plain one that watch was given\. Use the array that watch"
    ):
        ctx.grad(out, x)
    np.testing.assert_array_equal(ctx.grad(out, watched), [2.0, 4.0])
