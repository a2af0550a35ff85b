"""Reverse and forward mode at a point: the derivative along a direction, and contractions that can be checked in turn.

With a random cotangent for each output a call is a scalar function of its entries. Its derivative along a direction is,
by the pullback, the inner product of the tangents with the direction, and by the pushforward, that of the cotangents
with the tangents of the outputs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from mutangent._arrays import describe, is_array, on_host, spec_of
from mutangent._jvp import jvp
from mutangent._tangent import ZeroTangent
from mutangent._transforms import vjp

from ._call import Call, fresh, layout_of, outputs_of, refusing_others, require_same_places
from ._compare import close, difference
from ._layout import Layout
from ._numbers import cast, copy_of, products, random_like, traced_inner
from ._point import Point


class Mode(Protocol):
    """A way to the derivative at a point."""

    name: str
    means: str

    def terms(self, entries: list[Any], bars: list[Any]) -> list[Any]:
        """The terms of the derivative along a change of the entries, one per slot, with these cotangents."""

    def contraction(self) -> Callable[..., Any]:
        """A scalar function of the same arguments that is linear in the derivative: its own derivative is a second one."""


class Reverse:
    """Reverse mode. Making one checks all that needs no differences."""

    name = "rev"
    means = "the pullback"

    def __init__(self, point: Point) -> None:
        self.point = point
        self.call = Call(point.f, point.args, point.trial)
        _require_same_run(point, self.call.out, self.call.args)
        self.tangents = self._pull_repeatedly()

    def _pull_repeatedly(self) -> list[Any]:
        """The tangent of each leaf of the entry, once it is sure that the pullback always gives the same."""
        entry, fail, bars = self.point.entry, self.point.trial.fail, self.point.bars
        tangents = entry.match(self.call.pull(bars), fail)
        for leaf, tangent in zip(entry.leaves, tangents, strict=True):
            if not _fits(leaf.value, tangent):
                fail(f"{leaf.path} is {describe(leaf.value)}, but its tangent is {describe(tangent)}")
        again = entry.match(self.call.pull(bars), fail)
        self._expect_same(tangents, again, "called a second time, the pullback gives another tangent of {}")
        self.call.overwrite_objects()
        later = entry.match(self.call.pull(bars), fail)
        self._expect_same(
            tangents,
            later,
            "the pullback gives another tangent of {} once the fields of the objects have been overwritten: it reads a "
            "field when it is called. Read the value in the rule and keep it",
        )
        return tangents

    def _expect_same(self, tangents: list[Any], others: list[Any], text: str) -> None:
        for leaf, a, b in zip(self.point.entry.leaves, tangents, others, strict=True):
            if type(a) is not type(b) or not (isinstance(a, ZeroTangent) or close(a, b)):
                self.point.trial.fail(text.format(leaf.path))

    def terms(self, entries: list[Any], bars: list[Any]) -> list[Any]:
        tangents = self.tangents
        if bars is not self.point.bars:
            tangents = self.point.entry.match(self.call.pull(bars), self.point.trial.fail)
        terms = []
        for leaf, tangent in zip(self.point.entry.leaves, tangents, strict=True):
            if not isinstance(tangent, ZeroTangent):
                way = entries[leaf.slot]
                # What does not move is not checked, also where its derivative is inf or nan.
                terms.append(products(np.where(way == 0, 0, on_host(tangent)), way))
        return terms

    def contraction(self) -> Callable[..., Any]:
        """The inner product of the tangents with a fixed direction, the cotangents staying the same."""
        point = self.point
        f, entry, trial, bars, left = point.f, point.entry, point.trial, point.bars, point.left
        direction = [random_like(trial.rng, leaf.value) for leaf in entry.slots]

        def call(*args: Any) -> Any:
            before = layout_of(args)
            out, pullback = vjp(f, *args)
            here = outputs_of(out, before)
            require_same_places(here, left, trial)
            tangents = entry.match(pullback(*here.cotangents(bars)), trial.fail)
            inner: Any = 0.0
            for leaf, tangent in zip(entry.leaves, tangents, strict=True):
                if not isinstance(tangent, ZeroTangent):
                    inner = inner + traced_inner(tangent, direction[leaf.slot])
            return inner

        return call


class Forward:
    """Forward mode. The objects of the arguments are returned too, which gives the tangents of what is left in them."""

    name = "fwd"
    means = "the pushforward"

    def __init__(self, point: Point) -> None:
        self.point = point
        self._last: tuple[list[Any], list[Any]] | None = None

    def push(self, entries: list[Any]) -> list[Any]:
        """The tangent of each leaf of what the call left, from one tangent per slot of the entry."""
        if self._last is not None and self._last[0] is entries:
            return self._last[1]
        point = self.point
        args = fresh(point.args)
        entry = layout_of(args)
        tangents = [cast(entries[leaf.slot], copy_of(leaf.value)) for leaf in entry.leaves]
        out, found = _push(refusing_others(point.f, entry), args, entry, tangents)
        _require_same_run(point, out, args)
        dots = point.left.match(found, point.trial.fail)
        for leaf, dot in zip(point.left.leaves, dots, strict=True):
            if not _fits(leaf.value, dot):
                point.trial.fail(f"{leaf.path} is {describe(leaf.value)}, but its tangent is {describe(dot)}")
        self._last = (entries, dots)
        return dots

    def terms(self, entries: list[Any], bars: list[Any]) -> list[Any]:
        return [
            products(bar, dot)
            for bar, dot in zip(bars, self.push(entries), strict=True)
            if bar is not None and not isinstance(dot, ZeroTangent)
        ]

    def contraction(self) -> Callable[..., Any]:
        """The inner product of the cotangents with the tangents of the outputs along a fixed direction."""
        point = self.point
        f, entry, trial, bars, left = point.f, point.entry, point.trial, point.bars, point.left
        direction = [random_like(trial.rng, leaf.value) for leaf in entry.slots]
        tangents = [cast(direction[leaf.slot], copy_of(leaf.value)) for leaf in entry.leaves]

        def call(*args: Any) -> Any:
            before = layout_of(args)
            out, found = _push(f, args, before, tangents)
            require_same_places(outputs_of(out, before), left, trial)
            inner: Any = 0.0
            for bar, dot in zip(bars, left.match(found, trial.fail), strict=True):
                if bar is not None and not isinstance(dot, ZeroTangent):
                    inner = inner + traced_inner(dot, bar)
            return inner

        return call


MODES: dict[str, Callable[[Point], Mode]] = {"rev": Reverse, "fwd": Forward}


def _push(
    f: Callable[..., Any], args: tuple[Any, ...], entry: Layout, tangents: list[Any]
) -> tuple[Any, tuple[Any, ...]]:
    """The result of a call, and the tangents of it and of the objects that it was given."""
    objects = [node.primal for node in entry.objects]
    (out, *_), found = jvp(lambda *args: (f(*args), *objects), args, entry.tangents(tangents))
    return out, found


def _require_same_run(point: Point, out: Any, args: Any) -> None:
    """Fail unless a recorded run returned and left what the plain run did."""
    # A derivative of float32 numbers is a float64 number here, which is no more exact than they are.
    eps = point.trial.eps if point.trial.order > 1 else 0.0
    plain = point.plain
    complaint = difference(plain.out, out, "the result", eps) or difference(plain.args, args, "args", eps)
    if complaint is not None:
        point.trial.fail(complaint)


def _fits(value: Any, tangent: Any) -> bool:
    """Whether a tangent has the type, shape and dtype of its value."""
    if isinstance(tangent, ZeroTangent):
        return True
    same_type = type(tangent) is type(value) or (is_array(value) and type(tangent) is np.ndarray)
    return same_type and spec_of(tangent) == spec_of(value)
