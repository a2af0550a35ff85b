"""Runs of the function under check, each on a deep copy of the arguments."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mutangent._fields import current
from mutangent._layout import Leaf, Object, fields_of
from mutangent._transforms import vjp

from ._layout import Layout
from ._numbers import cast
from ._trial import Trial


def layout_of(args: Sequence[Any]) -> Layout:
    """The layout of arguments."""
    return Layout((arg, f"args[{number}]") for number, arg in enumerate(args))


def outputs_of(out: Any, entry: Layout) -> Layout:
    """The layout of what a call returned and left in the objects of its arguments."""
    return Layout([(out, "the result"), *((node.primal, node.path) for node in entry.objects)])


def output_name(leaf: Leaf) -> str:
    """An output in the words of a message."""
    return f"{leaf.path} as the call left it" if leaf.owner else leaf.path


def fresh(args: Sequence[Any], values: Sequence[Any] | None = None) -> tuple[Any, ...]:
    """A deep copy of the arguments, with other numbers in it if there are some, one per slot."""
    copied = copy.deepcopy(tuple(args))
    layout = layout_of(copied)
    if values is None:
        # A deep copy of a read-only array is not read-only.
        values = [cast(leaf.value, leaf.value) for leaf in layout_of(args).slots]
    return tuple(layout.refill([values[leaf.slot] for leaf in layout.leaves]))


def require_same_places(left: Layout, model: Layout, trial: Trial) -> None:
    """Fail unless a run left numbers in the same places as another one."""
    there, expected = (
        [(leaf.path, np.shape(leaf.value)) for leaf in layout.leaves] for layout in (left, model)
    )
    if there != expected:
        odd = [place for place in expected + there if (place in there) != (place in expected)]
        where = f"{odd[0][0]} of shape {odd[0][1]}" if odd else "their order"
        trial.fail(
            f"runs at neighbouring points leave numbers in different places or shapes ({where}), so they cannot be "
            "compared. Check at a point around which the function takes one branch, or with a smaller eps."
        )


class PlainRun:
    """One plain run."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any]) -> None:
        self._originals = layout_of(args)
        self.args = fresh(args)
        self.entry = layout_of(self.args)
        self._on_entry = {
            (id(leaf.owner.primal), leaf.within): leaf.number for leaf in self.entry.leaves if leaf.owner
        }
        self.out = f(*self.args)
        self.left = outputs_of(self.out, self.entry)

    def is_output(self, leaf: Leaf) -> bool:
        """Whether the call made this number: a result, or what it wrote into a field."""
        if leaf.owner is None:
            return True
        number = self._on_entry.get((id(leaf.owner.primal), leaf.within))
        if number is None:
            return True
        before, original = self.entry.leaves[number], self._originals.leaves[number]
        # An array that was written in place is the same array with other contents.
        return before.value is not leaf.value or not _equal(leaf.value, original.value)


class Call:
    """One recorded call and its pullback."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], trial: Trial) -> None:
        self._trial = trial
        self.args = fresh(args)
        self.entry = layout_of(self.args)
        self.out, self._pullback = vjp(refusing_others(f, self.entry), *self.args)
        self.left = outputs_of(self.out, self.entry)

    def pull(self, bars: list[Any]) -> tuple[Any, ...]:
        """The tangents of the arguments, from one cotangent per leaf of `left`; None for a leaf without.

        It fails if the pullback changes an array that is not its own.
        """
        held = [
            *((leaf.value, leaf.path) for leaf in self.entry.leaves),
            *((leaf.value, output_name(leaf)) for leaf in self.left.leaves),
            *((bar, "the cotangent that it was given") for bar in bars if bar is not None),
        ]
        before = [copy.copy(value) for value, _ in held]
        out_bar, objects = self.left.cotangents(bars)
        tangents = self._pullback(out_bar, objects)
        for (value, name), old in zip(held, before, strict=True):
            if not _equal(value, old):
                self._trial.fail(f"the pullback changed {name} in place")
        return tangents

    def overwrite_objects(self) -> None:
        """Put nan into all fields that can be set, as a later call may put there whatever it likes."""
        fixed = {id(node) for node in self.left.objects if _is_frozen(node)}
        self.left.refill(
            [leaf.value if id(leaf.owner) in fixed else cast(np.nan, leaf.value) for leaf in self.left.leaves]
        )


def _is_frozen(node: Object) -> bool:
    """Whether the fields of an object cannot be set. Deleting one tells, without running the user's hooks."""
    for name in fields_of(node.cls):
        if not hasattr(node.primal, name):
            continue
        value = getattr(node.primal, name)
        try:
            delattr(node.primal, name)
        except AttributeError:
            return True
        object.__setattr__(node.primal, name, value)
        return False
    return False


def _equal(a: Any, b: Any) -> bool:
    return np.array_equal(a, b, equal_nan=True)


def refuse_others(f: Callable[..., Any], args: Sequence[Any]) -> None:
    """Raise if `f` writes into an object outside of its arguments, and undo it. Call this ahead of plain runs."""
    copied = fresh(args)
    vjp(refusing_others(f, layout_of(copied)), *copied)


def refusing_others(f: Callable[..., Any], entry: Layout) -> Callable[..., Any]:
    """`f`, which raises if it writes into an object outside of its arguments, since all runs would share that."""
    known = {id(node.primal) for node in entry.objects}

    def call(*args: Any) -> Any:
        out = f(*args)
        for record, name in current().written():
            if not record.born and id(record.obj) not in known:
                cls = type(record.obj).__name__
                raise ValueError(
                    f"the function wrote {cls}.{name} of an object that is not in args, so its runs would not start "
                    f"alike. Pass that {cls} in args, itself or within tuples, lists, dicts or captured objects."
                )
        return out

    return call
