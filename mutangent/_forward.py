"""Forward mode on the same operations: a traced value carries its tangent in place of a node number.

Where a tape would append an entry, a `Pusher` computes the tangent of the result at once and keeps nothing, so memory does
not grow with the number of steps. It reads the same rows:

- an elementwise expression pushes a tangent as it stands,
- a function that is linear in each operand is applied to the tangent,
- any other function has a pullback, which is linear in the cotangent. Recording the pullback and pulling the tangent
  back through it transposes it once more, which is the pushforward.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import numpy as np

from ._accumulate import Cotangents, broadcast
from ._arrays import Array, Spec, spec_of, zeros
from ._rulebook import Rule
from ._tape import CALL, INDEX, SCATTER, SET_ITEM, Entry, Tape, sweep, winners
from ._traced import TracedArray, new_leaf, primal

ZERO: Final = None  # the tangent of a traced value to which no tangent was given


class Pusher:
    """Stands in the place of a tape's list of entries."""

    __slots__ = ("_several",)

    def __init__(self) -> None:
        self._several: list[Array | None] | None = None

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(())

    def append(self, entry: Entry) -> None:
        """Take a call with several results; their tangents are asked for next, one by one."""
        rule, parents, saved, _, _ = entry
        self._several = None if rule is CALL else push_several(rule, parents, saved)

    def push(self, rule: Any, parents: Any, saved: Any, shape: tuple[int, ...], dtype: Any) -> Array | None:
        """The tangent of the result of one operation."""
        if type(rule) is Rule:
            tangent = (
                push_elementwise(rule, parents, saved)
                if rule.kind == "elementwise"
                else push_function(rule, parents, saved, Spec(shape, dtype))
            )
            return None if tangent is None else as_tangent(tangent, shape)
        if rule is INDEX:
            return None if parents is None else as_tangent(parents[saved], ())
        if rule is SET_ITEM:
            return _push_set_item(parents, saved, Spec(shape, dtype))
        if rule is SCATTER:
            return None if parents is None else _scatter(parents, saved, Spec(shape, dtype))
        return None if self._several is None else self._several[saved]  # one of several results

    def push_call(
        self, pull: Callable[[dict[int, Any]], Iterable[tuple[Any, Any]]], outputs: list[TracedArray]
    ) -> None:
        """Give the results of a user's rule their tangents."""
        for number, output in enumerate(outputs):
            node: Any = transpose(_pull_one(pull, number), spec_of(primal(output)), output._value)
            output._node = node


def _pull_one(
    pull: Callable[[dict[int, Any]], Iterable[tuple[Any, Any]]], number: int
) -> Callable[[Any], Any]:
    return lambda g: pull({number: g})


def has_tangent(parent: Any) -> bool:
    """Whether an operand carries a tangent; a constant's parent is -1."""
    return parent is not None and type(parent) is not int


def as_tangent(tangent: Array, shape: tuple[int, ...]) -> Array:
    """A tangent with a dtype, and of the shape of its value."""
    if type(tangent) is float or type(tangent) is complex:
        tangent = np.float64(tangent) if type(tangent) is float else np.complex128(tangent)
    return broadcast(tangent, shape) if shape and tangent.shape != shape else tangent


def push_elementwise(rule: Rule, parents: Any, saved: Any) -> Array | None:
    """Sum of the expressions of all operands that carry a tangent."""
    total = None
    for parent, expression in zip(parents, rule.expressions, strict=True):
        if has_tangent(parent):
            part = expression(parent, *saved)  # type: ignore[misc]
            total = part if total is None else total + part
    return total


def push_function(rule: Rule, parents: Any, saved: Any, spec: Spec) -> Array | None:
    """Push tangents through a function: itself if it is linear, the transposed pullback if not."""
    y, args, kwargs = saved
    if rule.linear:
        return _linear(rule, parents, args, kwargs)
    if not any(
        has_tangent(p) for parent in parents for p in (parent if type(parent) is tuple else (parent,))
    ):
        return None
    return transpose(lambda g: _pulled(rule, parents, g, y, args, kwargs), spec, _some(parents))


def push_several(rule: Rule, parents: Any, saved: Any) -> list[Array | None] | None:
    """The tangents of all results of a function with several."""
    specs, args, kwargs = saved
    if not any(has_tangent(parent) for parent in parents):
        return None
    if rule.linear:
        made = _linear(rule, parents, args, kwargs)
        return None if made is None else list(made)
    like = _some(parents)

    def pulled(number: int) -> Callable[[Any], Iterator[tuple[Any, Any]]]:
        def pull(g: Any) -> Iterator[tuple[Any, Any]]:
            cotangents = [g if k == number else zeros(spec, primal(like)) for k, spec in enumerate(specs)]
            return _pulled(rule, parents, cotangents, specs, args, kwargs)

        return pull

    return [
        transpose(pulled(number), spec, like) if spec.dtype.kind in "fc" else None
        for number, spec in enumerate(specs)
    ]


def _linear(rule: Rule, parents: Any, args: Any, kwargs: Any) -> Any:
    total: Any = None
    for k, parent in enumerate(parents):
        if type(parent) is tuple:
            if not any(map(has_tangent, parent)):
                continue
            like = primal(_some(parent))
            items = [
                p if has_tangent(p) else zeros(spec, like) for p, spec in zip(parent, args[k], strict=True)
            ]
            part = rule.function(items, *args[k + 1 :], **kwargs)
        elif has_tangent(parent):
            part = rule.function(*args[:k], parent, *args[k + 1 :], **kwargs)
        else:
            continue
        total = part if total is None else total + part
    return total


def _pulled(rule: Rule, parents: Any, g: Any, y: Any, args: Any, kwargs: Any) -> Iterator[tuple[Any, Any]]:
    for parent, pullback in zip(parents, rule.expressions, strict=True):
        if type(parent) is tuple:
            yield from zip(parent, pullback(g, y, *args, **kwargs), strict=True)  # type: ignore[misc]
        elif has_tangent(parent):
            yield parent, pullback(g, y, *args, **kwargs)  # type: ignore[misc]


def _some(parents: Any) -> Any:
    for parent in parents:
        for each in parent if type(parent) is tuple else (parent,):
            if has_tangent(each):
                return each
    raise AssertionError("no operand carries a tangent")


def transpose(pull: Callable[[Any], Iterable[tuple[Any, Any]]], spec: Spec, like: Any) -> Array | None:
    """Push tangents by pulling back through a pullback.

    Parameters
    ----------
    pull : callable
        Takes a cotangent of the result and yields pairs (tangent of an operand, its contribution).
    spec : Spec
        Shape and dtype of the result.
    like : array
        An array of the library to use.

    Returns
    -------
    array or None
        The tangent of the result.
    """
    entries: list[Entry] = []
    tape = Tape(entries)
    zero = zeros(spec, primal(like))
    g = new_leaf(entries, tape, zero if spec.shape else zero[()])
    total: Any = None
    for tangent, contribution in pull(g):
        if has_tangent(tangent) and hasattr(contribution, "shape"):
            part = np.sum(np.real(np.conj(tangent) * contribution))
            total = part if total is None else total + part
    tape.close()
    if type(total) is not TracedArray or total._tape is not tape:
        return None
    cotangents = Cotangents(len(entries))
    cotangents.add(total._node, np.float64(1.0).astype(total.dtype))
    sweep(entries, cotangents)
    found = cotangents.slots[g._node]
    return None if found is None else found


def _push_set_item(parents: Any, saved: Any, spec: Spec) -> Array | None:
    index, _ = saved
    base, value = parents
    if not has_tangent(base) and not has_tangent(value):
        return None
    made = base.copy() if has_tangent(base) else zeros(spec, primal(value))
    if not has_tangent(value):
        made[index] = 0
        return made
    if type(made) is TracedArray or type(value) is not TracedArray:
        made[index] = value
        return made
    # The tangent written is followed by an outer recording, and the array is not.
    made[index] = 0
    shape = made[index].shape
    part = value if value.shape == shape else np.broadcast_to(value, shape)
    won = winners(index, spec.shape)
    return made + _scatter(part if won is None else part * won, index, spec)


def _scatter(tangent: Any, index: Any, spec: Spec) -> Array:
    if type(tangent) is TracedArray:
        return tangent._scatter(index, spec)
    buffer = Cotangents(1)
    buffer.scatter(0, index, tangent, spec)
    return buffer.slots[0]
