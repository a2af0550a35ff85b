"""The classes that programs use, as source text: it is run once with the library and once with the reference."""

from __future__ import annotations

import copy
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

import mutangent as mt
from tests.programs import duals

CLASSES = """
def relaxed(x, v, s):
    x = np.tanh(x * s + 0.25)
    v = np.sin(v * s)
    return x, v, x + np.sum(v)

@mt.differentiable(frozen=True, slots={const_slots})
class Const:
    p: float
    q: np.ndarray
    node: object

@mt.differentiable(slots={slots})
class Node:
    x: float = mt.field({float_options})
    v: np.ndarray = mt.field({array_options})
    child: object
    const: Const
    y: float = mt.field(default=0.5, trainable=False{hook})
    n: int = 0
    items: list = mt.field(factory=lambda: [0.5, -0.25])
    nodes: list = attrs.field(default=attrs.Factory(lambda self: [self.child], takes_self=True))
    pair: tuple = attrs.field(default=attrs.Factory(lambda self: (self.x, self.v, self.child), takes_self=True))
    table: dict = attrs.field(default=attrs.Factory(lambda self: {{"a": self.x, "b": 0.75}}, takes_self=True))

    @property
    def energy(self):
        return np.tanh(self.x * self.x + np.sum(self.v * self.v))

    @property
    def level(self):
        return 0.5 * self.x

    @level.setter
    def level(self, value):
        self.x = np.sin(value)

    def step(self, s):
        self.y = np.sin(self.x * s)
        self.x = np.tanh(self.x * s + self.y)
        self.n += 1
        return self.x

    @mt.primitive
    def relax(self, s):
        self.x, self.v, out = relaxed(self.x, self.v, s)
        return out

    @relax.rrule
    def relax(self, s):
        (self.x, self.v, out), back = mt.vjp(relaxed, self.x, self.v, s)

        def relax_pullback(out_bar, written):
            x_bar, v_bar, s_bar = back((written[self].x, written[self].v, out_bar))
            return mt.Tangent(type(self), x=x_bar, v=v_bar), s_bar

        return out, relax_pullback

    def pushed(self, s):
        self.child.x = np.tanh(self.child.x * s + self.x)
        self.x = np.sin(self.x)
        self.n += 1
        return self.child.x * self.y

    @mt.primitive
    def push(self, s):
        return self.pushed(s)

    @push.rrule
    def push(self, s):
        if self.n % 3 == 2:
            return NotImplemented
        out, back = mt.vjp(type(self).pushed, self, s)

        def push_pullback(out_bar, written):
            return back(out_bar, written)

        return out, push_pullback

@mt.differentiable(slots={sub_slots})
class SubNode(Node):
    extra: float = 0.375

    def step(self, s):
        out = super().step(s)
        self.extra = np.sin(self.extra + out)
        return out * self.extra

class PlainNode(SubNode):
    def step(self, s):
        self.child.y = np.tanh(self.child.y * s)
        return super().step(s) * 0.5
"""


@attrs.frozen
class Variant:
    """How the classes of a world differ from those of another."""

    slots: bool
    sub_slots: bool
    const_slots: bool
    converters: bool
    hook: bool

    @property
    def source(self) -> str:
        return CLASSES.format(
            slots=self.slots,
            # attrs forgets what a class with a __dict__ adds to one with slots when it copies.
            sub_slots=self.sub_slots or self.slots,
            const_slots=self.const_slots,
            float_options="converter=as_float, validator=is_float" if self.converters else "",
            array_options="converter=as_array, validator=is_array" if self.converters else "",
            hook=", on_setattr=weaken" if self.hook else "",
        )


class Boom(Exception):
    """What a program raises in the middle."""


class Births:
    """Weak references to what a program makes: an object, or the array behind a traced value."""

    def __init__(self) -> None:
        self.references: list[weakref.ref[Any]] = []

    def born(self, made: Any) -> Any:
        value = mt.primal(made)
        if not isinstance(value, np.generic | float):
            self.references.append(weakref.ref(value))
        return made

    @property
    def alive(self) -> list[bool]:
        return [reference() is not None for reference in self.references]


def context_grad(f: Callable[..., Any], source: Any, *args: Any) -> Any:
    """What `mt.grad(f)(source, *args)` gives, by a context."""
    with mt.Context() as ctx:
        out = f(source, *args)
    return ctx.grad(out, source)


def taken(obj: Any, name: str) -> Any:
    """A field as it lies in the `__dict__`, or in its slot."""
    stored = getattr(obj, "__dict__", {})
    return stored[name] if name in stored else getattr(obj, name)


def put(obj: Any, name: str, value: Any) -> None:
    """Write a field where it lies, past hooks and converters."""
    stored = getattr(obj, "__dict__", {})
    if name in stored:
        stored[name] = value
    else:
        object.__setattr__(obj, name, value)


def program_numpy() -> Any:
    """The module that a program knows as `np`: its stacks of numbers are arrays of the suite's library."""
    if np.ndarray.__module__ == "numpy":
        return np
    one, names = np.ones(1), "tanh sin sum concatenate zeros array ndarray float32"
    return types.SimpleNamespace(
        **{name: getattr(np, name) for name in names.split()},
        stack=lambda items: np.concatenate([item * one for item in items]),
    )


def _names(**more: Any) -> dict[str, Any]:
    # attrs wants a module that exists; the text stands in this one.
    return {
        "__name__": __name__,
        "attrs": attrs,
        "copy": copy,
        "Boom": Boom,
        "taken": taken,
        "put": put,
        "weaken": lambda instance, attribute, value: 0.875 * value,
        **more,
    }


@functools.cache
def library_names(variant: Variant) -> types.MappingProxyType[str, Any]:
    """The names that a program sees in the library's world."""
    names = _names(
        mt=mt,
        np=program_numpy(),
        as_float=float,
        as_array=np.asarray,
        is_float=attrs.validators.instance_of(float),
        is_array=attrs.validators.instance_of(np.ndarray),
        context_grad=context_grad,
    )
    exec(variant.source, names)
    return types.MappingProxyType(names)


@functools.cache
def reference_names(variant: Variant) -> types.MappingProxyType[str, Any]:
    """The names that the same program sees in the reference's world."""
    names = _names(
        mt=duals.Reference,
        np=duals.numpy_of_duals,
        as_float=lambda x: +x,  # an operation, and so constant under `pause`, as a conversion is
        as_array=lambda x: 1.0 * x if duals.LEVELS.paused_up_to else x,
        is_float=None,
        is_array=attrs.validators.instance_of(duals.numpy_of_duals.ndarray),
        context_grad=lambda f, source, *args: duals.grad(f)(source, *args),
        born=lambda made: made,
    )
    exec(variant.source, names)
    return types.MappingProxyType(names)
