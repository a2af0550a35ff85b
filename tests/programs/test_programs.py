"""Random programs over random graphs of objects: a recorded run against the plain run and against dual numbers.

`programs.py` writes the programs, `worlds.py` has their classes, `duals.py` is the reference. A failure prints
classes, graph and program as one Python text. For a long search::

    pytest tests/programs --hypothesis-profile=nightly -n auto
"""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import mutangent as mt
from tests.arrays.namespace import to_host
from tests.programs.pictures import Form, Picture, Reading, tangents_along, traced_in_reach, xp
from tests.programs.programs import Program, chunked_programs, programs
from tests.programs.rows import CONTAINERS, IN_PLACE, OBJECTS
from tests.programs.runs import ARGNUMS, Run, reference
from tests.programs.worlds import Boom

NIGHTLY = settings.get_current_profile_name() == "nightly"


# When a program fails, Hypothesis takes up to five minutes to make it small.
pytestmark = pytest.mark.timeout(3600 if NIGHTLY else 900)


def examples(count: int) -> settings:
    """So many examples, the same in every run; with the profile "nightly" forty times as many, and always others."""
    profile = settings.get_profile("nightly" if NIGHTLY else "ci")
    return settings(profile, max_examples=count * (40 if NIGHTLY else 1))


def assert_close(actual: np.ndarray, expected: np.ndarray, program: Program) -> None:
    """Equal up to rounding, where `actual` has numbers at all (NaN: the tangents given do not reach there)."""
    tolerance = 2e-4 if program.graph.float32 else 1e-9
    reached = ~np.isnan(actual)
    scale = 1.0 + np.max(np.abs(expected), initial=0.0)
    np.testing.assert_allclose(actual[reached], expected[reached], rtol=tolerance, atol=tolerance * scale)


# -- the ways to differentiate -----------------------------------------------------------------------------------------


def read_arguments(run: Run, gradients: Any) -> Reading:
    reading = Reading(run.form)
    assert type(gradients) is tuple
    assert len(gradients) == len(ARGNUMS)
    for k, name in enumerate(("a", "b", "s", "w", "bag")):
        reading.read(run.form.root.parts[k], gradients[k], name)
    return reading


def by_value_and_grad(run: Run) -> tuple[Any, Reading]:
    value, gradients = mt.value_and_grad(run.f, argnums=ARGNUMS)(*run.args)
    return value, read_arguments(run, gradients)


def by_vjp(run: Run) -> tuple[Any, Reading]:
    value, pullback = mt.vjp(run.f, *run.args)
    reading = read_arguments(run, pullback(1.0))
    again = read_arguments(run, pullback(1.0))
    assert np.array_equal(reading.vector, again.vector, equal_nan=True), "a second sweep gives something else"
    twice = read_arguments(run, pullback(2.0))
    np.testing.assert_allclose(twice.vector, 2.0 * reading.vector, rtol=1e-6, atol=1e-12)
    return value, reading


@mt.differentiable
class Carrier:
    bag: list[float]


def by_context(run: Run, **options: bool) -> tuple[Any, Reading]:
    a, b, s, w, bag = run.args
    carrier = Carrier(bag)  # a context knows a list by the field that it lies in
    with mt.Context(**options) as ctx:
        watched = [ctx.watch(s), ctx.watch(w)]
        out = run.f(a, b, *watched, carrier.bag)
    assert carrier.bag is bag

    def sweep() -> Reading:
        reading = Reading(run.form)
        of_a, of_b, of_s, of_w, of_carrier, of_hub = ctx.grad(out, a, b, *watched, carrier, run.hub)
        for k, tangent in enumerate((of_a, of_b, of_s, of_w, of_carrier.bag, of_hub)):
            reading.read(run.form.root.parts[k], tangent, f"root {k}")
        return reading

    reading, again = sweep(), sweep()
    assert np.array_equal(reading.vector, again.vector, equal_nan=True), "a second sweep gives something else"
    one_by_one = Reading(run.form)
    tangents = ctx.tangents(out)
    for obj in run.form.objects():
        if obj in tangents:
            one_by_one.read(run.form.shapes[id(obj)], tangents[obj], f"a {type(obj).__name__}")
    both = ~np.isnan(one_by_one.vector) & ~np.isnan(reading.vector)
    assert np.array_equal(one_by_one.vector[both], reading.vector[both]), (
        "Context.tangents gives something else"
    )
    return mt.primal(out), reading


def by_diagnosis(run: Run) -> tuple[Any, Reading]:
    return by_context(run, history=True, check_finite=True)


WAYS = {
    "value_and_grad": by_value_and_grad,
    "vjp": by_vjp,
    "Context": by_context,
    "diagnosis": by_diagnosis,
}
EVERY_WAY = [*WAYS, "jvp"]

# What is refused, though the result would have been right; each is on the page of known limitations.
REFUSED = (
    "a user's rule that was called before may read it",
    "a user's rule or a checkpointed function returned it",
    "that shares memory with it. Hold the array once",
    # Of gradients inside, which do not follow arrays that are plain there.
    "that is not traced",
    "setting an array element with a sequence",
)
REFUSALS = (mt.InPlaceError, mt.TracedValueError, ValueError)


# -- the properties ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", WAYS)
@examples(25)
@given(program=programs())
def test_a_recorded_run_leaves_what_the_plain_run_leaves(way: str, program: Program) -> None:
    plain, recorded = Run(program), Run(program)
    value = plain.f(*plain.args)
    recorded_value, _ = WAYS[way](recorded)
    assert type(recorded_value) is type(value)
    assert repr(recorded_value) == repr(value)
    assert recorded.now() == plain.now()
    assert traced_in_reach([recorded.roots, recorded_value]) == []


@pytest.mark.parametrize("way", WAYS)
@examples(25)
@given(program=programs())
def test_gradients_equal_those_of_dual_numbers(way: str, program: Program) -> None:
    run = Run(program)
    value, reading = WAYS[way](run)
    expected_value, expected = reference(program)
    assert value == pytest.approx(expected_value, rel=1e-3 if program.graph.float32 else 1e-9, abs=1e-3)
    assert_close(reading.vector, expected, program)


def assert_right_or_refused(way: str, program: Program, seed: int = 0) -> None:
    """A recorded run leaves what the plain run leaves and has the gradient of the reference, or leaves everything alone."""
    plain, recorded = Run(program), Run(program)
    try:
        value = plain.f(*plain.args)  # with gradients inside, which may be refused too
        if way == "jvp":
            recorded_value, slope, direction = by_jvp(recorded, seed)
        else:
            recorded_value, reading = WAYS[way](recorded)
    except REFUSALS as error:
        if not any(reason in str(error) for reason in REFUSED):
            raise
        unchanged = recorded.now().lines == recorded.before.lines
        assert unchanged
        return
    assert repr(recorded_value) == repr(value)
    assert recorded.now() == plain.now()
    assert traced_in_reach([recorded.roots, recorded_value]) == []
    if way == "jvp":
        assert_slope(slope, direction, reference(program)[1], program)
    else:
        assert_close(reading.vector, reference(program)[1], program)


@pytest.mark.parametrize("way", EVERY_WAY)
@examples(25)
@given(program=programs(in_place=True))
def test_arrays_written_in_place_are_right_or_refused(way: str, program: Program) -> None:
    assert_right_or_refused(way, program)


@examples(25)
@given(program=programs())
def test_all_ways_to_differentiate_agree(program: Program) -> None:
    readings = [way(Run(program))[1].vector for way in WAYS.values()]
    rtol = 1e-5 if program.graph.float32 else 1e-12
    for other in readings[1:]:
        both = ~np.isnan(readings[0]) & ~np.isnan(other)
        np.testing.assert_allclose(other[both], readings[0][both], rtol=rtol, atol=1e-12)


# -- forward mode --------------------------------------------------------------------------------------------------------


def by_jvp(run: Run, seed: int) -> tuple[Any, float, np.ndarray]:
    """The value, the slope along a random direction in the space of all numbers in reach, and the direction."""
    direction = np.random.default_rng(seed).uniform(-1.0, 1.0, run.form.size)
    tangents = tangents_along(run.form, direction)
    value, slope = mt.jvp(lambda *args: run.f(*args[:5]), run.roots, tangents)
    return value, float(slope), direction


def assert_slope(slope: float, direction: np.ndarray, expected: np.ndarray, program: Program) -> None:
    tolerance = 2e-4 if program.graph.float32 else 1e-9
    scale = 1.0 + np.sum(np.abs(expected))
    assert slope == pytest.approx(np.dot(expected, direction), rel=tolerance, abs=tolerance * scale)


@examples(25)
@given(program=programs(), seed=st.integers(0, 99))
def test_forward_mode_leaves_the_same_and_equals_dual_numbers(program: Program, seed: int) -> None:
    plain, recorded = Run(program), Run(program)
    value = plain.f(*plain.args)
    pushed, slope, direction = by_jvp(recorded, seed)
    assert repr(pushed) == repr(value)
    assert recorded.now() == plain.now()
    assert traced_in_reach([recorded.roots, pushed]) == []
    assert_slope(slope, direction, reference(program)[1], program)


@pytest.mark.parametrize("table", [OBJECTS, CONTAINERS, IN_PLACE], ids=["objects", "containers", "in place"])
def test_every_kind_of_statement_is_right_or_refused(table: tuple[str, ...]) -> None:
    for row in dict.fromkeys(table):

        @examples(2)
        @given(
            way=st.sampled_from(EVERY_WAY),
            program=programs(max_size=2, middle=row, in_place=table is IN_PLACE),
        )
        def check(way: str, program: Program) -> None:
            assert_right_or_refused(way, program)

        check()


# -- checkpoints ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("way", EVERY_WAY)
@examples(25)
@given(program=programs(checkpointed=True))
def test_programs_with_checkpoints_are_right(way: str, program: Program) -> None:
    assert_right_or_refused(way, program)


@examples(45)
@given(way=st.sampled_from(EVERY_WAY), program=programs(checkpointed=True, in_place=True))
def test_programs_with_checkpoints_that_write_arrays_are_right_or_refused(way: str, program: Program) -> None:
    assert_right_or_refused(way, program)


RAISING = {
    "raise Boom": Boom,
    "with mt.pause():\n    a.child.x = 0.25\n    raise Boom": Boom,
    "for k in [a, b]:\n    k.step(0.5)\nraise Boom": Boom,
    "def bad(m):\n    m.items.append(m.x)\n    b.child.v = np.sin(w)\n    raise Boom\nmt.grad(bad)(a.child)": Boom,
    "a.items.append(a.missing)": AttributeError,
    "del a.child.x, a.child.x": AttributeError,
    "a.nodes.append(hub.nodes[99])": IndexError,
    "b.v = np.tanh(b.v) + np.zeros(2)": ValueError,
    "hub.child.x, a.n = s, 1 // (a.n - a.n)": ZeroDivisionError,
    "a.const.p = s": AttributeError,  # frozen
}


@st.composite
def raising_programs(draw: Any) -> tuple[type[Exception], Program]:
    """A program that raises in the middle, and what it raises."""
    middle = draw(st.sampled_from(sorted(RAISING)))
    return RAISING[middle], draw(
        programs(max_size=8, middle=middle, in_place=draw(st.booleans()), random=False)
    )


@pytest.mark.parametrize("way", WAYS)
@examples(22)
@given(raising=raising_programs())
def test_a_raise_leaves_everything_as_before_and_the_next_gradient_is_right(
    way: str, raising: tuple[type[Exception], Program]
) -> None:
    error, program = raising
    run = Run(program)
    for attempt in (WAYS[way], lambda run: by_jvp(run, 0)):
        with pytest.raises((error, mt.TracedValueError, mt.InPlaceError)):
            attempt(run)
        assert run.now().lines == run.before.lines
    assert traced_in_reach(run.roots) == []

    def squares(a: Any, b: Any, s: float, w: np.ndarray, bag: list[float]) -> Any:
        return sum(
            np.sum(part.v * part.v) + 3.0 * part.x * part.x
            for part in run.form.objects()
            if hasattr(part, "v")
        )

    run.f = squares
    _, reading = WAYS[way](run)
    for obj in run.form.objects():
        parts = run.form.shapes[id(obj)].parts
        if hasattr(obj, "v") and id(obj) in reading.tangents:
            v, x = parts["v"], parts["x"]
            np.testing.assert_allclose(reading.vector[x.first], 6.0 * float(obj.x))
            np.testing.assert_allclose(
                reading.vector[v.first : v.first + 3], 2.0 * to_host(xp, obj.v), rtol=1e-6
            )


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


DROPPED: dict[str, Callable[[Run], Any]] = {
    "value_and_grad": lambda run: mt.value_and_grad(run.f, argnums=ARGNUMS)(*run.args),
    "vjp without a sweep": lambda run: mt.vjp(run.f, *run.args),
    "vjp": lambda run: mt.vjp(run.f, *run.args)[1](1.0),
    "Context": by_context,
}


@pytest.mark.parametrize("way", DROPPED)
@examples(22)
@given(program=programs(checkpointed=True, in_place=True))
def test_what_the_plain_run_frees_is_freed_with_the_gradient(way: str, program: Program) -> None:
    plain, recorded = Run(program), Run(program)
    plain.names["collect"] = recorded.names["collect"] = lambda: None
    with no_garbage_collection(), contextlib.suppress(*REFUSALS):
        plain.f(*plain.args)
        DROPPED[way](recorded)  # and drop what it gives
        # What a checkpointed function makes is made twice.
        assert sum(recorded.births.alive) == sum(plain.births.alive)


# -- chunks ------------------------------------------------------------------------------------------------------------


def roots_only(run: Run, middle: Form, reading: Reading) -> mt.IdentityMap[mt.Tangent]:
    """The tangents of the arguments, which hold those of everything else."""
    return mt.IdentityMap((obj, reading.tangents[id(obj)]) for obj in (run.args[0], run.args[1], run.hub))


def all_objects(run: Run, middle: Form, reading: Reading) -> mt.IdentityMap[mt.Tangent]:
    """Each object's tangent, in which those of its children stand once more."""
    return mt.IdentityMap((obj, reading.tangents[id(obj)]) for obj in middle.objects())


def chain(run: Run, form_of_cotangents: Callable[..., Any]) -> Reading:
    """The gradient of `second` after `first`, by the cotangents of what `first` returned and of what it left in objects."""
    first, second = run.names["first"], run.names["second"]
    (t, u), first_back = mt.vjp(lambda *args: first(*args[:5]), *run.roots)
    middle = Form(run.roots)
    _, second_back = mt.vjp(lambda *args: second(*args[:5], *args[6:]), *run.roots, t, u)
    second_bars = second_back(1.0)
    reading = Reading(middle)
    for k in range(6):
        reading.read(middle.root.parts[k], second_bars[k], f"argument {k} of the second part")
    first_bars = first_back(second_bars[6:], form_of_cotangents(run, middle, reading))

    chained = Reading(run.form)
    for k, tangent in enumerate(first_bars):
        total = tangent + second_bars[k] if k in {2, 3} else tangent  # numbers go to both parts directly
        chained.read(run.form.root.parts[k], total, f"argument {k}")
    bag = run.form.root.parts[4]
    for k, part in bag.parts.items():  # nor does an unused list
        assert chained.vector[part.first] == 0.0, k
    return chained


@pytest.mark.parametrize("form_of_cotangents", [roots_only, all_objects])
@examples(30)
@given(program=st.one_of(chunked_programs(), chunked_programs(in_place=True)))
def test_two_chunks_chained_by_cotangents_of_objects_equal_the_whole(
    form_of_cotangents: Callable[..., Any], program: Program
) -> None:
    run = Run(program)
    try:
        chained = chain(run, form_of_cotangents)
    except REFUSALS as error:
        # Or the second part wrote what the first one had read.
        if not any(reason in str(error) for reason in (*REFUSED, "before its pullback ran")):
            raise
        return
    assert_close(chained.vector, reference(program)[1], program)
    assert run.now() == finished(program)


def finished(program: Program) -> Picture:
    plain = Run(program)
    plain.f(*plain.args)
    return plain.now()
