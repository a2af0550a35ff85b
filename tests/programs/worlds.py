"""The classes that programs use, as source text: it is run once with the library and once with the reference."""

from __future__ import annotations

import copy
import functools
import gc
import types
import weakref
from collections import defaultdict, deque
from collections.abc import Callable
from typing import Any, NamedTuple

import attrs
import numpy as np

import mutangent as mt
from tests.programs import duals

CLASSES = """
class Point(NamedTuple):
    p: float
    q: np.ndarray
    r: object

def mixed(grid, W, s):
    grid = np.tanh(grid @ W + s)
    return grid, np.sum(grid @ W.T)

def relaxed(x, v, s):
    x = np.tanh(x * s + 0.25)
    v = np.sin(v * s)
    return x, v, x + np.sum(v)

{const_decorators}
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
    W: np.ndarray = attrs.field(default=attrs.Factory(
        lambda self: np.stack([self.v, 0.5 * self.v, np.sin(self.v)]), takes_self=True))
    grid: np.ndarray = attrs.field(default=attrs.Factory(
        lambda self: np.stack([self.v, -1.0 * self.v]), takes_self=True))
    z: np.ndarray = attrs.field(default=attrs.Factory(lambda self: (0.5 - 0.25j) * self.v, takes_self=True))
    window: deque = attrs.field(default=attrs.Factory(lambda self: deque([self.x, 0.5], maxlen=3), takes_self=True))
    tally: dict = attrs.field(factory=lambda: defaultdict(float, a=0.5, b=-0.25))
    point: Point = attrs.field(default=attrs.Factory(lambda self: Point(0.5, self.v, self.child), takes_self=True))
    nest: dict = attrs.field(default=attrs.Factory(
        lambda self: {{"rows": [self.v, 2.0 * self.v], "deep": ({{"k": self.x}}, self.y)}}, takes_self=True))
    rng: object = attrs.field(factory=lambda: np.random.default_rng(7))

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

    @mt.primitive
    def mix(self, s):
        self.grid, out = mixed(self.grid, self.W, s)
        return out

    @mix.rrule
    def mix(self, s):
        (self.grid, out), back = mt.vjp(mixed, self.grid, self.W, s)

        def mix_pullback(out_bar, written):
            grid_bar, W_bar, s_bar = back((written[self].grid, out_bar))
            return mt.Tangent(type(self), grid=grid_bar, W=W_bar), s_bar

        return out, mix_pullback

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
    over_attrs: bool  # whether capture is put over a class that attrs has made already
    copies: bool  # whether converters of arrays copy

    @property
    def source(self) -> str:
        return CLASSES.format(
            slots=self.slots,
            # attrs forgets what a class with a __dict__ adds to one with slots when it copies.
            sub_slots=self.sub_slots or self.slots,
            const_decorators=(
                f"@mt.differentiable\n@attrs.frozen(slots={self.const_slots})"
                if self.over_attrs
                else f"@mt.differentiable(frozen=True, slots={self.const_slots})"
            ),
            float_options="converter=as_float, validator=is_float" if self.converters else "",
            array_options=(
                f"converter={'as_copy' if self.copies else 'as_array'}, validator=is_array"
                if self.converters
                else ""
            ),
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


class FieldsOf:
    """The fields of an object with slots, as `vars` gives them for one with a `__dict__`."""

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __setitem__(self, name: str, value: Any) -> None:
        object.__setattr__(self.obj, name, value)

    def update(self, **values: Any) -> None:
        for name, value in values.items():
            self[name] = value


def vars_of(obj: Any) -> Any:
    """Where the fields of an object lie; to write there is to go past hooks and converters."""
    return vars(obj) if "x" in getattr(obj, "__dict__", {}) else FieldsOf(obj)


def _names(**more: Any) -> dict[str, Any]:
    # attrs wants a module that exists; the text stands in this one.
    return {
        "__name__": __name__,
        "attrs": attrs,
        "copy": copy,
        "Boom": Boom,
        "taken": taken,
        "put": put,
        "vars_of": vars_of,
        "apart": lambda f: lambda arguments: f(*arguments),
        "deque": deque,
        "defaultdict": defaultdict,
        "NamedTuple": NamedTuple,
        "weaken": lambda instance, attribute, value: 0.875 * value,
        **more,
    }


@functools.cache
def library_names(variant: Variant) -> types.MappingProxyType[str, Any]:
    """The names that a program sees in the library's world."""
    names = _names(
        mt=mt,
        np=np,
        as_float=float,
        as_array=np.asarray,
        as_copy=np.array,
        is_float=attrs.validators.instance_of(float),
        is_array=attrs.validators.instance_of(np.ndarray),
        context_grad=context_grad,
        part=getattr,
        collect=lambda: gc.collect(0),
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
        as_copy=lambda x: 1.0 * x,
        as_array=lambda x: 1.0 * x if duals.LEVELS.paused_up_to else x,
        is_float=None,
        is_array=attrs.validators.instance_of(duals.numpy_of_duals.ndarray),
        context_grad=lambda f, source, *args: duals.grad(f)(source, *args),
        born=lambda made: made,
        part=duals.Part,
        collect=lambda: None,
    )
    exec(variant.source, names)
    return types.MappingProxyType(names)
