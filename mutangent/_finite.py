"""Finding the first number that is not finite: among the values of a recording, and among the cotangents of a sweep."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import zip_longest
from typing import Any

import numpy as np

from ._accumulate import Cotangents
from ._arrays import describe, is_array
from ._call import Call
from ._errors import NonFiniteError
from ._history import is_number
from ._overlay import Unread
from ._rulebook import Rule
from ._structure import Group, Leaf
from ._tangent import children
from ._tape import (
    CALL,
    INDEX,
    LEAF,
    SCATTER,
    SET_ITEM,
    UNPACK,
    Entry,
    _pull_complex_elementwise,
    _pull_function,
    _pull_index,
    _pull_set_item,
    deliver,
    pull_pending,
)
from ._traced import TracedArray, primal


class FiniteCheck:
    """What a recording that checks its numbers knows, to tell where a bad one comes from.

    A number counts as *born* bad if it is nan and no operand has a nan, or infinite and all operands are finite. So a
    constant infinity, in a mask for example, may pass through.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []  # one per entry
        self.raised: NonFiniteError | None = None
        # By node, the fields that held its value when it was read or written: the object, and its place in words.
        self._places: dict[int, list[tuple[Any, str]]] = {}
        self._met: dict[
            type, dict[int, Any]
        ] = {}  # the objects of each class, in the order of their first use

    # -- fields --------------------------------------------------------------------------------------------------------

    def see(self, obj: Any, name: str, value: Any, node_of: Any) -> None:
        """Note that a field holds this value."""
        self._met.setdefault(type(obj), {})[id(obj)] = obj
        for part, where in _parts(value, f"{type(obj).__name__}.{name}"):
            node = node_of(part)
            if node is not None:
                places = self._places.setdefault(node, [])
                if not any(holder is obj and known == where for holder, known in places):
                    places.append((obj, where))

    def moved(self, before: int, node: int) -> None:
        """Note that the fields that held one node hold another now: their array was written in place."""
        if before in self._places:
            self._places.setdefault(node, []).extend(self._places[before])

    def entered(self, value: Any, where: str, line: str) -> None:
        """Raise if a value that enters the recording has nans."""
        for part, place in _parts(value, where):
            if _has_nan(part):
                self.stop(
                    f"{place}, {describe(primal(part))}, holds {_what(part)} on entry; it was first read at {line}. "
                    "Nothing that this recording computed made it: look for where the value comes from."
                )

    def written(self, value: Any, where: str, line: str) -> None:
        """Raise if a value that is written into a field has nans. One that was computed here has been reported before."""
        for part, place in _parts(value, where):
            if _has_nan(part):
                self.stop(
                    f"{place} was given {_what(part)}, in {describe(primal(part))}, at {line}. No operation on finite "
                    "numbers made it here: it came in with a constant. Look for where that comes from."
                )

    # -- values --------------------------------------------------------------------------------------------------------

    def operation(self, entries: list[Entry], node: int, value: Any, operands: Any) -> None:
        """Raise if the value of a new node is not finite, and its operands do not explain it."""
        if _is_finite(value):
            return
        rule, parents, saved, _, _ = entries[node]
        if rule is INDEX or rule is SCATTER:
            return  # they only move numbers
        if rule is SET_ITEM:
            if parents[0] in self._places:
                self.written(operands[0], self._named(parents[0]), self.lines[node])
            return
        if rule is UNPACK:
            rule, parents, pull, _, _ = entries[parents]
            pairs = _of_call(pull) if rule is CALL else _paired(parents, operands)
            name = operation_name(rule, pull)
        else:
            pairs = _paired(parents, operands)
            name = operation_name(rule, saved)
        known = [part for part, _ in pairs]
        if any(map(_has_nan, known)) or (not _has_nan(value) and not all(map(_is_finite, known))):
            return
        shown = [
            self._operand(part, parent)
            for part, parent in pairs
            if parent is not None and (is_number(primal(part)) or type(primal(part)) is int or is_array(part))
        ]
        came_from = f", from {' and '.join(dict.fromkeys(shown))}" if shown else ""
        self.stop(
            f"{name} gave {_what(value)}, in {describe(primal(value))}, at {self.lines[node]}{came_from}. Keep its "
            "operands away from there, for example with np.maximum, or leave check_finite out if the value is meant."
        )

    def _operand(self, part: Any, node: int) -> str:
        plain = primal(part)
        if np.ndim(plain) == 0:
            values = f"value {plain!s}"
        elif plain.size and plain.dtype.kind != "c":
            values = f"values from {np.min(plain):.6g} to {np.max(plain):.6g}"
        else:
            values = ""
        named = "" if node < 0 else self._named(node)
        details = ", ".join(filter(None, [describe(plain), values]))
        return f"{named} ({details})" if named else details

    def _named(self, node: int) -> str:
        """The fields that held the value of a node, in words; empty if there is none."""
        return " or ".join(self._place(obj, where) for obj, where in self._places.get(node, ()))

    def _place(self, obj: Any, where: str) -> str:
        met = self._met.get(type(obj), {})
        if len(met) <= 1:
            return where
        number = list(met).index(id(obj)) + 1
        return (
            f"{where} (of number {number} of the {len(met)} {type(obj).__name__} objects met, in their order)"
        )

    # -- cotangents ----------------------------------------------------------------------------------------------------

    def seeds(self, seeds: list[tuple[int, Any]]) -> None:
        """Raise if a sweep is to start from a number that is not finite."""
        for _, seed in seeds:
            if not _is_finite(seed):
                raise NonFiniteError(
                    f"the cotangent that the sweep was given, {describe(primal(seed))}, has {_what(seed)}."
                )

    def arrived(self, entries: list[Entry], number: int, parent: int, contribution: Any) -> None:
        """Raise if what entry `number` contributes to node `parent` is not finite."""
        if _is_finite(contribution):
            return
        rule, _, saved, _, _ = entries[number]
        named = self._named(parent)
        if named:
            where = f"where it arrives at {named}"
        elif entries[parent][0] is LEAF:
            where = "where it arrives at a watched array"
        else:
            where = "on its way to " + (" and ".join(self._fields_before(entries, parent)) or "an operand")
        _, _, _, shape, dtype = entries[parent]
        raise NonFiniteError(
            f"the cotangent that {operation_name(rule, saved)} passes back has {_what(contribution)}, {where}, of shape "
            f"{shape} and dtype {dtype}. The operation was recorded at {self.lines[number]}. The cotangent of its result "
            "was finite; its derivative is not, at these operands. Keep them away from there, with np.maximum for example."
        )

    def _fields_before(self, entries: list[Entry], node: int) -> list[str]:
        """The nearest fields that a node was computed from."""
        found: dict[str, None] = {}
        seen = {node}
        pending = deque([node])
        while pending:
            node = pending.popleft()
            if node in self._places:
                found[self._named(node)] = None
                continue
            rule, parents, pull, _, _ = entries[node]
            if rule is CALL:
                before = [parent for _, parent in _of_call(pull)]
            else:
                before = list(_flat(parents if isinstance(parents, tuple | list) else (parents,)))
            for parent in before:
                if parent is not None and parent >= 0 and parent not in seen:
                    seen.add(parent)
                    pending.append(parent)
        return list(found)

    def stop(self, message: str) -> None:
        """Raise, and remember it: the recording cannot go on, even if the error is caught inside its block."""
        self.raised = NonFiniteError(message)
        raise self.raised


class CheckedCotangents(Cotangents):
    """Cotangents of which each contribution is looked at."""

    __slots__ = ("_check", "_entries", "number")

    def __init__(self, entries: list[Entry], check: FiniteCheck) -> None:
        super().__init__(len(entries))
        self.number = -1  # the entry that contributes now
        self._entries = entries
        self._check = check

    def add(self, node: int, contribution: Any) -> None:
        """Add a contribution, if it is finite."""
        self._look(node, contribution)
        super().add(node, contribution)

    def scatter(
        self, node: int, index: Any, contribution: Any, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Add a contribution to some elements, if it is finite."""
        self._look(node, contribution)
        super().scatter(node, index, contribution, shape, dtype)

    def add_partial(self, node: int, contribution: Any, live: Any) -> None:
        """Add a contribution that is absent at some elements, if it is finite."""
        self._look(node, contribution)
        super().add_partial(node, contribution, live)

    def settle(self, node: int) -> Any:
        """Add what is pending, which was looked at when it came."""
        number, self.number = self.number, -1
        live = super().settle(node)
        self.number = number
        return live

    def _look(self, node: int, contribution: Any) -> None:
        if self.number >= 0:
            self._check.arrived(self._entries, self.number, node, contribution)


def checked_sweep(entries: list[Entry], cotangents: CheckedCotangents, keep: frozenset[int]) -> None:
    """The same as `_tape.sweep`, entry by entry, telling the cotangents which entry contributes."""
    slots = cotangents.slots
    for number in range(len(entries) - 1, -1, -1):
        cotangents.number = number
        if number in cotangents.products and pull_pending(entries, cotangents, number, keep, free=False):
            continue
        g = slots[number]
        rule, parents, saved, _, _ = entries[number]
        if g is None or rule is LEAF:
            continue
        if number not in keep:
            slots[number] = None
        if type(rule) is Rule:
            _pull_row(entries, cotangents, number, g)
        elif rule is INDEX:
            _pull_index(entries, cotangents, parents, saved, g)
        elif rule is SET_ITEM:
            _pull_set_item(entries, cotangents, number, parents, saved, g)
        elif rule is SCATTER:
            deliver(entries, cotangents, parents, g[saved])
        elif rule is UNPACK:
            if slots[parents] is None:
                slots[parents] = {}
            slots[parents][saved] = g
        else:
            for parent, contribution in saved(g):
                cotangents.foreign.add(parent)
                deliver(entries, cotangents, parent, contribution)
    cotangents.number = -1


def _pull_row(entries: list[Entry], cotangents: Cotangents, number: int, g: Any) -> None:
    row, parents, saved, _, dtype = entries[number]
    if not row.whole:
        _pull_function(entries, cotangents, row, parents, saved, g)
    elif dtype.kind == "c":
        _pull_complex_elementwise(entries, cotangents, row, parents, saved, g)
    else:
        for parent, push in zip(parents, row.expressions, strict=True):
            if parent >= 0:
                deliver(entries, cotangents, parent, push(g, *saved))


def operation_name(rule: Any, saved: Any) -> str:
    """What an entry did, by the name that the user knows it by."""
    if type(rule) is Rule:
        return rule.name.lstrip("_")
    if rule is CALL:
        owner = getattr(saved, "__self__", None)
        return f"the rule of {owner.name if type(owner) is Call else getattr(saved, '__name__', 'a call')}"
    return {INDEX: "indexing", SET_ITEM: "an assignment to items", SCATTER: "indexing"}.get(rule, repr(rule))


def _flat(items: Any) -> Iterator[Any]:
    for item in items:
        if type(item) is tuple or type(item) is list:
            yield from _flat(item)
        else:
            yield item


def _paired(parents: Any, operands: Any) -> list[tuple[Any, int | None]]:
    """Operands with their nodes: -1 for a constant, None for a setting such as an axis."""
    nodes = list(_flat(parents))
    values = list(_flat(operands))
    return [(value, node) for value, node in zip_longest(values, nodes) if node is None or value is not None]


def _of_call(pull: Any) -> list[tuple[Any, int | None]]:
    """What a user's rule was given and has read, with nodes."""
    call = getattr(pull, "__self__", None)
    if type(call) is not Call:
        return []
    pending: list[Any] = list(call.arguments)
    pending += [entry for record in call.frame.log.values() for entry in record.entries.values()]
    found: list[tuple[Any, int | None]] = []
    while pending:
        description = pending.pop(0)
        if type(description) is Leaf:
            found.append((description.entry, description.node))
        elif type(description) is Group:
            pending += description.items
        elif type(description) is Unread:
            continue  # overwritten before it was read
    return found


def _parts(value: Any, where: str) -> Iterator[tuple[Any, str]]:
    """The numbers in a value, with their places."""
    if type(value) is TracedArray or is_number(value):
        yield value, where
        return
    items = list(value) if isinstance(value, deque) else children(value)
    if items is not None:
        keys = list(value) if isinstance(value, dict) else range(len(items))
        for key, item in zip(keys, items, strict=True):
            yield from _parts(item, f"{where}[{key!r}]")


def _is_finite(value: Any) -> bool:
    plain = primal(value)
    return not is_number(plain) or bool(np.isfinite(plain).all())


def _has_nan(value: Any) -> bool:
    plain = primal(value)
    return is_number(plain) and bool(np.isnan(plain).any())


def _what(value: Any) -> str:
    """The bad numbers in a value, in words: which, and how many."""
    plain = primal(value)
    if _has_nan(plain):
        kind, bad = "nan", np.isnan(plain)
    else:
        bad = np.isinf(plain)
        negative = np.real(plain) == -np.inf
        kind = "-inf" if bool((negative == bad).all()) else "inf"
    if np.ndim(plain) == 0:
        return kind
    return f"{kind} in {int(bad.sum())} of {plain.size} elements"
