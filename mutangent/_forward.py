"""Forward mode on the same operations: a traced value carries its tangent in place of a node number.

Where a tape would append an entry, a `Pusher` computes the tangent of the result at once and keeps nothing, so memory does
not grow with the number of steps. It reads the same rows:

- an elementwise expression pushes a tangent as it stands,
- a function that is linear in each operand is applied to the tangent,
- any other function has a pullback, which is linear in the cotangent. Recording the pullback and pulling the tangent
  back through it transposes it once more, which is the pushforward.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from ._accumulate import Cotangents, broadcast, to_real
from ._arrays import ON_DEVICE, Array, Spec, is_on_device, namespace_of, number, spec_of, zeros
from ._kinks import Kinks
from ._rulebook import Rule
from ._tape import CALL, INDEX, LEAF, SCATTER, SET_ITEM, UNPACK, Entry, Tape, sweep, winners
from ._traced import TracedArray, new_leaf, primal


class Pusher:
    """Stands in the place of a tape's list of entries.

    Parameters
    ----------
    outside : callable
        Gives, for a tape, a context in which a user's pullback reads objects without the tracing of that tape.
    """

    __slots__ = ("_have_kinks", "_kinks", "_outside", "_several", "reuses")

    def __init__(self, outside: Callable[[Tape], AbstractContextManager[Any]]) -> None:
        self._outside = outside
        self._several: list[Array | None] | None = None
        self._have_kinks = False  # those
        self._kinks = Kinks()
        self.reuses = False  # whether the next write in place may go into the tangent as it is

    def __len__(self) -> int:
        return 0

    def __iter__(self) -> Iterator[Entry]:
        return iter(())

    def append(self, entry: Entry) -> None:
        """Take a call with several results; their tangents are asked for next, one by one."""
        rule, parents, saved, _, _ = entry
        if rule is not LEAF:
            self._several = None if rule is CALL else push_several(rule, parents, saved)
            # What goes into a call is not known.
            self._have_kinks = bool(self._kinks.marked) and (rule is CALL or self._kinks.has(parents))

    def push(
        self,
        rule: Any,
        parents: Any,
        saved: Any,
        shape: tuple[int, ...],
        dtype: Any,
        value: Any,
        operands: Any,
    ) -> Array | None:
        """The tangent of the result of one operation; None if none of its operands has one."""
        tangent = self._push(rule, parents, saved, Spec(shape, dtype), value)
        if tangent is None:
            return None
        if type(primal(value)) in ON_DEVICE and type(primal(tangent)) not in ON_DEVICE:
            tangent = on_device(tangent, shape, dtype, value)
        tangent = as_tangent(tangent, shape, dtype)
        if rule is UNPACK:
            return self._kinks.mark(tangent) if self._have_kinks else tangent
        if self._kinks.marked or (type(rule) is Rule and rule.kink is not None):
            return self._kinks.follow(rule, parents, saved, value, tangent, operands)
        return tangent

    # A derivative that is truly infinite, of sqrt at 0, is no accident to be warned of.
    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def _push(self, rule: Any, parents: Any, saved: Any, spec: Spec, y: Any) -> Array | None:
        if type(rule) is Rule:
            if rule.kind == "elementwise":
                is_strict = (
                    self._kinks.marked
                    and rule.forward is not rule.expressions
                    and self._kinks.has(parents, squares=False)
                )
                return push_elementwise(parents, saved, rule.expressions if is_strict else rule.forward)
            return push_function(rule, parents, saved, spec)
        if rule is INDEX:
            return None if parents is None else parents[saved]
        if rule is SET_ITEM:
            reuses, self.reuses = self.reuses, False
            return _push_set_item(parents, saved, spec, primal(y), reuses)
        if rule is SCATTER:
            return None if parents is None else _scatter(parents, saved, spec)
        return None if self._several is None else self._several[saved]  # one of several results

    def push_call(
        self, pull: Callable[[dict[int, Any]], Iterable[tuple[Any, Any]]], outputs: list[TracedArray]
    ) -> None:
        """Give the results of a user's rule their tangents."""
        if not outputs:
            return
        with self._outside(outputs[0]._tape), np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            for number, output in enumerate(outputs):
                spec = spec_of(primal(output))
                tangent = transpose(_pull_one(pull, number), spec, output._value)
                node: Any = None if tangent is None else as_tangent(tangent, *spec)
                output._node = self._kinks.mark(node) if self._have_kinks and node is not None else node


class ForwardTape(Tape):
    """A tape without entries. What is computed is pushed at once, so nothing needs to be kept for later.

    Its notes on arrays written in place are let go with the arrays.
    """

    __slots__ = ()
    pushes = True

    def __init__(self, pusher: Pusher) -> None:
        entries: Any = pusher
        super().__init__(entries)
        locked: Any = weakref.WeakValueDictionary()
        self.locked = locked
        self.lent = _Nothing()
        self.views = _LiveViews()

    def constant(self, value: Any) -> Any:
        """A constant operand is read before anybody can change it."""
        return value


class _Nothing(dict[int, Any]):
    """Keeps nothing."""

    def __setitem__(self, key: int, value: Any) -> None:
        pass


class _LiveViews(dict[int, list[Any]]):
    """The views of each root, without those that are gone."""

    def __init__(self) -> None:
        super().__init__()
        self._added = 0
        self._alive = 0

    def setdefault(self, key: int, default: list[Any], /) -> list[Any]:
        """The list of a root's views, for one more. Now and then, the others are looked through."""
        self._added += 1
        if self._added > 2 * self._alive + 64:
            for root, views in list(self.items()):
                views[:] = [view for view in views if view() is not None]
                if not views:
                    del self[root]
            self._alive = self._added = sum(map(len, self.values()))
        return super().setdefault(key, default)


def _pull_one(
    pull: Callable[[dict[int, Any]], Iterable[tuple[Any, Any]]], number: int
) -> Callable[[Any], Any]:
    return lambda g: pull({number: g})


def has_tangent(parent: Any) -> bool:
    """Whether an operand carries a tangent; a constant's parent is -1."""
    return parent is not None and type(parent) is not int


def as_tangent(tangent: Array, shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """A tangent of the shape and dtype of its value."""
    if type(tangent) is float or type(tangent) is complex:
        tangent = dtype.type(tangent)
    elif tangent.dtype != dtype:
        if dtype.kind == "f" and tangent.dtype.kind == "c":
            tangent = to_real(tangent)
        tangent = tangent.astype(dtype)
    return broadcast(tangent, shape) if shape and tangent.shape != shape else tangent


def on_device(tangent: Array, shape: tuple[int, ...], dtype: np.dtype[Any], like: Any) -> Array:
    """The tangent of a result on a device that only a number of the host had an influence on."""
    number = tangent[()] if hasattr(tangent, "shape") else tangent
    return number * namespace_of(like).ones(shape, dtype)


def push_elementwise(parents: Any, saved: Any, expressions: Any) -> Array | None:
    """Sum of the expressions of all operands that carry a tangent."""
    total = None
    for parent, expression in zip(parents, expressions, strict=True):
        if has_tangent(parent):
            part = expression(parent, *saved)
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
    where = kwargs.get("where", True)
    if where is not True:  # elements outside may have no finite tangent
        parents = [np.where(where, parent, 0) if has_tangent(parent) else parent for parent in parents]
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
    if "initial" in kwargs:  # of a sum: the constant part of an affine function
        kwargs = {name: value for name, value in kwargs.items() if name != "initial"}
    at = rule.initial_at
    if at is not None and len(args) > at:
        args = (*args[:at], np._NoValue, *args[at + 1 :])
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
    tape.release()  # it holds the leaf, which holds it
    if type(total) is not TracedArray or total._tape is not tape:
        return None
    cotangents = Cotangents(len(entries))
    cotangents.add(total._node, number(1, total.dtype, primal(total)))
    sweep(entries, cotangents)
    found: Array | None = cotangents.slots[g._node]
    return found


def _push_set_item(parents: Any, saved: Any, spec: Spec, like: Any, reuses: bool) -> Array | None:
    index, _, _ = saved
    base, value = parents
    if not has_tangent(base) and not has_tangent(value):
        return None
    if not has_tangent(base):
        made = zeros(spec, like)
    elif reuses and type(value) is not TracedArray:
        made = base
    else:  # the tangent of a 0-d array may be a scalar
        made = np.array(base) if issubclass(type(base), np.generic) else base.copy()
    if not has_tangent(value):
        made[index] = 0
        return made
    if type(made) is TracedArray or type(value) is not TracedArray:
        made[index] = value
        return made
    # The tangent written is followed by an outer recording, and the array is not.
    made[index] = 0
    shape = made[index].shape
    if is_on_device(made) and not is_on_device(primal(value)):
        part = value * namespace_of(made).ones(shape, made.dtype)  # a number of the host
    else:
        part = value if value.shape == shape else np.broadcast_to(value, shape)
    won = winners(index, spec.shape)
    return made + _scatter(part if won is None else part * won, index, spec)


def _scatter(tangent: Any, index: Any, spec: Spec) -> Array:
    if type(tangent) is TracedArray:
        return tangent._scatter(index, spec)
    buffer = Cotangents(1)
    buffer.scatter(0, index, tangent, spec.shape, spec.dtype)
    return buffer.slots[0]
