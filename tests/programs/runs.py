"""Run a program: plainly, with the reference, and in each way the library offers."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

from tests.programs import duals
from tests.programs.pictures import Form, Leaf, Picture, Shape, like_tuple
from tests.programs.programs import Program
from tests.programs.worlds import Births, library_names, reference_names

ARGNUMS = (0, 1, 2, 3, 4)


class Run:
    """A program with a fresh graph of objects, ready to run in the library's world."""

    def __init__(self, program: Program) -> None:
        self.births = Births()
        self.names = {**library_names(program.graph.variant), "born": self.births.born}
        exec(program.code, self.names)
        self.roots = self.names["build"]()
        self.args, self.hub = self.roots[:5], self.roots[5]
        self.names["hub"] = self.hub
        self.f: Callable[..., Any] = self.names["program"]
        self.before = Picture(self.roots)
        self.form = Form(self.roots)

    def now(self) -> Picture:
        """How the graph looks now; what was there before has the labels it had."""
        return Picture(self.roots, self.before)


def reference(program: Program) -> tuple[Any, np.ndarray]:
    """The value of a program and its gradient with respect to all numbers on entry, by dual numbers."""
    names = dict(reference_names(program.graph.variant))
    exec(program.code, names)
    roots = names["build"]()
    form = Form(roots)
    level = duals.LEVELS.new()

    def seed(part: Any, value: Any) -> Any:
        if isinstance(part, Leaf):
            return duals.seeded(value, level, part.first, form.size)
        if part is None:
            return value
        if isinstance(value, tuple):
            return like_tuple(value, [seed(part.parts[k], item) for k, item in enumerate(value)])
        return value

    def seed_shape(shape: Shape) -> None:
        value = shape.value
        if isinstance(value, dict):
            value.update({key: seed(shape.parts[key], item) for key, item in value.items()})
        elif isinstance(value, list | deque):
            for k, item in enumerate(list(value)):
                value[k] = seed(shape.parts[k], item)
        elif attrs.has(type(value)):
            for name, part in shape.parts.items():
                object.__setattr__(value, name, seed(part, getattr(value, name)))

    for shape in form.shapes.values():
        seed_shape(shape)
    args = tuple(seed(form.root.parts[k], value) for k, value in enumerate(roots))
    names["hub"] = args[5]
    duals.REACHES[:] = args
    try:
        out = names["program"](*args[:5])
        return duals.plain(out), np.asarray(duals.derivatives(out, level, form.size), float)
    finally:
        duals.REACHES.clear()
        duals.LEVELS.open.clear()
