"""A session as a state machine: one graph of objects, many recordings over it, pullbacks that are kept and called later.

Two worlds take the same steps: in one they are recorded, in the other they run plainly. After each step both graphs are
alike. The gradient of a step is compared with forward mode on a copy of the graph, ⟨ȳ, Jx⟩ = ⟨Jᵀȳ, x⟩, and a pullback
that was kept gives what it gave at first, whatever has happened since, or says that an array was overwritten.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, initialize, invariant, rule

import mutangent as mt
from tests.programs.expressions import Draw, Scope, pick
from tests.programs.pictures import Form, Picture, Reading, tangents_along, traced_in_reach
from tests.programs.programs import ARGUMENTS, Graph, function_text, graphs, results
from tests.programs.statements import bodies
from tests.programs.test_programs import NIGHTLY, REFUSALS, REFUSED, by_value_and_grad, read_arguments
from tests.programs.worlds import library_names

RAISING = ("raise Boom", "a.items.append(a.missing)", "hub.child.x, a.n = s, 1 // (a.n - a.n)")


@st.composite
def steps(draw: Draw, raises: bool = False) -> str:
    """The text of a function over the graph. Random generators do not draw: a step that raises does not put them back."""
    scope = Scope(in_place=draw(st.booleans()), checkpointed=draw(st.booleans()))
    body = draw(bodies(scope, 4))
    if raises:
        body = f"{body}\n{pick(draw, *RAISING)}".strip()
    return function_text("program", ARGUMENTS, body, draw(results(scope)))


class World:
    """A graph, and the names that steps see."""

    def __init__(self, graph: Graph) -> None:
        self.names = {**library_names(graph.variant), "born": lambda made: made}
        exec(graph.text, self.names)
        self.roots = self.names["build"]()
        self.picture: Picture | None = None
        self.look()

    def look(self) -> Picture:
        """How the graph looks now; what was there before keeps its label."""
        self.picture = Picture(self.roots, self.picture)
        return self.picture

    def at(self, text: str, roots: tuple[Any, ...] | None = None) -> Any:
        """A step, ready to run on the graph as it is now."""
        roots = self.roots if roots is None else roots
        names = {**self.names, "hub": roots[5]}
        exec(text, names)
        return SimpleNamespace(
            f=names["program"], args=roots[:5], hub=roots[5], roots=roots, form=Form(roots)
        )


class Kept:
    """A pullback, and what it gave when it was called first."""

    def __init__(self, run: Any, pullback: Callable[..., Any], vector: np.ndarray) -> None:
        self.run = run
        self.pullback = pullback
        self.vector = vector


class Session(RuleBasedStateMachine):
    """What somebody does with a graph of objects in an afternoon."""

    pullbacks = Bundle("pullbacks")

    @initialize(graph=graphs(bag_in_a_field=False, shared_arrays=False, copied=True))
    def start(self, graph: Graph) -> None:
        self.recorded, self.plain = World(graph), World(graph)
        self.float32 = graph.float32

    @invariant()
    def both_graphs_are_alike(self) -> None:
        if hasattr(self, "plain"):
            assert self.recorded.look().lines == self.plain.look().lines
            assert traced_in_reach(self.recorded.roots) == []

    def refused(self, text: str) -> bool:
        """Whether the plain run itself, tried on a copy, has a gradient inside that is refused."""
        run = self.plain.at(text, copy.deepcopy(self.plain.roots))
        try:
            run.f(*run.args)
        except REFUSALS as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            return True
        return False

    @rule(target=pullbacks, text=steps(), seed=st.integers(0, 99))
    def differentiate(self, text: str, seed: int) -> Kept | None:
        if self.refused(text):
            return None
        before = self.recorded.look().lines
        pushed = self.recorded.at(text, copy.deepcopy(self.recorded.roots))
        run = self.recorded.at(text)
        try:
            value, pullback = mt.vjp(run.f, *run.args)
            reading = read_arguments(run, pullback(1.0))
        except REFUSALS as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            assert self.recorded.look().lines == before
            return None
        plain = self.plain.at(text)
        assert repr(plain.f(*plain.args)) == repr(value)
        self.compare_with_forward_mode(pushed, reading, seed)
        return Kept(run, pullback, reading.vector)

    def compare_with_forward_mode(self, pushed: Any, reading: Reading, seed: int) -> None:
        direction = np.random.default_rng(seed).uniform(-1.0, 1.0, reading.vector.size)
        direction[np.isnan(reading.vector)] = 0.0  # no argument leads there
        try:
            _, slope = mt.jvp(
                lambda *args: pushed.f(*args[:5]), pushed.roots, tangents_along(pushed.form, direction)
            )
        except REFUSALS as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            return
        gradient = np.nan_to_num(reading.vector)
        tolerance = (1e-3 if self.float32 else 1e-8) * (1.0 + np.sum(np.abs(gradient)))
        assert abs(float(slope) - np.dot(gradient, direction)) <= tolerance

    @rule(text=steps())
    def take_a_gradient_and_forget_the_tape(self, text: str) -> None:
        if self.refused(text):
            return
        before = self.recorded.look().lines
        try:
            value, _ = by_value_and_grad(self.recorded.at(text))
        except REFUSALS as error:
            if not any(reason in str(error) for reason in REFUSED):
                raise
            assert self.recorded.look().lines == before
            return
        plain = self.plain.at(text)
        assert repr(plain.f(*plain.args)) == repr(value)

    @rule(text=steps(raises=True))
    def raise_in_the_middle(self, text: str) -> None:
        before = self.recorded.look().lines
        run = self.recorded.at(text)
        try:
            mt.vjp(run.f, *run.args)
        except Exception:  # noqa: BLE001 - which one is not the question here
            assert self.recorded.look().lines == before
        else:
            raise AssertionError("nothing was raised")

    @rule(text=steps())
    def run_without_a_recording(self, text: str) -> None:
        if self.refused(text):
            return
        values = []
        for world in (self.recorded, self.plain):
            run = world.at(text)
            values.append(repr(run.f(*run.args)))
        assert values[0] == values[1]

    @rule(in_place=st.booleans(), which=st.sampled_from("vWxz"))
    def train(self, in_place: bool, which: str) -> None:
        for world in (self.recorded, self.plain):
            for obj in Form(world.roots).objects():
                if hasattr(obj, "W"):
                    if in_place and which != "x":
                        array = getattr(obj, which)
                        array *= 0.75
                    else:
                        setattr(obj, which, getattr(obj, which) * 0.75)

    @rule()
    def go_on_with_a_copy(self) -> None:
        for world in (self.recorded, self.plain):
            world.roots = copy.deepcopy(world.roots)

    @rule(kept=pullbacks)
    def call_a_pullback_again(self, kept: Kept | None) -> None:
        if kept is None:
            return
        try:
            again = read_arguments(kept.run, kept.pullback(1.0))
        except mt.InPlaceError as error:
            if "before its pullback ran" not in str(error):
                raise
            return
        assert np.array_equal(again.vector, kept.vector, equal_nan=True)

    @rule(kept=consumes(pullbacks))
    def drop_a_pullback(self, kept: Kept | None) -> None:
        del kept


TestSession = Session.TestCase
TestSession.settings = settings(
    settings.get_profile("nightly" if NIGHTLY else "ci"),
    max_examples=600 if NIGHTLY else 15,
    stateful_step_count=12,
)
