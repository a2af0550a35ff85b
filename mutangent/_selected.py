"""Cotangents that are absent at some elements, and not only zero there.

``np.where(x > 0, np.log(x), 0)`` passes over the logarithm where x is 0. Its cotangent there is 0, the derivative of the
logarithm is infinite, and 0 · ∞ is nan. But an element that was not selected has no influence at all: its derivative is 0,
whatever the function does there. So what selects (a *selecting* row, a mask, positions, `where=`) says which elements
of its operand take part, and on the way back through elementwise operations the others are passed over.

This is no rule that 0 · ∞ is 0. Where a cotangent merely happens to be 0, as that of y in ``y**4`` at y = 0, nan stays nan:
if y is the fourth root of x, the derivative would be 1.

The sweep comes here only with operations that select, and with the operands of these; others cost nothing more.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._accumulate import Cotangents, is_basic_index, is_mask, to_real, unbroadcast
from ._arrays import Array, Spec, zeros
from ._rulebook import Rule


def pull_selected(
    entries: list[Any], cotangents: Cotangents, entry: Any, g: Array, live: Array | None
) -> None:
    """Pull through an elementwise row that selects, or whose result takes part only where `live`."""
    row, parents, saved, shape, dtype = entry
    holomorphic = dtype.kind == "c"
    if holomorphic:
        g = np.conj(g)
    # What reads nothing, a sum for example, makes zeros of zeros.
    safe = all(value is None for value in saved)
    for k, (parent, push) in enumerate(zip(parents, row.expressions, strict=True)):
        if parent < 0:
            continue
        contribution = push(g, *saved)
        if holomorphic:
            contribution = np.conj(contribution)
        chosen = live
        if row.selects and row.selects[k] is not None:
            own = np.broadcast_to(row.selects[k](*saved), shape)
            chosen = own if live is None else np.logical_and(live, own)
        elif live is not None and not safe:
            contribution = np.where(live, contribution, 0)
        add_selected(entries, cotangents, parent, contribution, chosen)


def add_selected(
    entries: list[Any], cotangents: Cotangents, parent: int, contribution: Array, live: Any
) -> None:
    """Add a contribution of which only the `live` elements, of its own shape, take part; all if that is None."""
    _, _, _, shape, dtype = entries[parent]
    if contribution.shape != shape:
        if live is not None:
            live = unbroadcast(np.broadcast_to(live, contribution.shape).astype(np.intp), shape) != 0
        contribution = unbroadcast(contribution, shape)
    if dtype.kind == "f" and contribution.dtype.kind == "c":
        contribution = to_real(contribution)
    if live is None:
        cotangents.add(parent, contribution)
    else:
        cotangents.add_partial(parent, contribution, live)


def pull_partial(entries: list[Any], cotangents: Cotangents, entry: Any, g: Array, live: Array) -> bool:
    """Pull through an operation whose result takes part only where `live`; False if that does not matter to it."""
    row, parents, saved, _, _ = entry
    if type(row) is not Rule:
        return False
    if row.kind == "elementwise":
        pull_selected(entries, cotangents, entry, g, live)
        return True
    if not row.structural:
        return False
    pull_structural(entries, cotangents, row, parents, saved, g, live)
    return True


def pull_structural(
    entries: list[Any],
    cotangents: Cotangents,
    row: Rule,
    parents: Any,
    saved: Any,
    g: Array,
    live: Array | None,
) -> None:
    """Pull through a function whose pullback itself tells which elements of its operand, or operands, take part."""
    y, args, kwargs = saved
    (pullback,) = row.expressions
    assert pullback is not None
    contribution = pullback(g, y, *args, **kwargs)
    if live is None:
        live = np.logical_not(mask_like(g, g.shape))
    found = pullback(_marks(live), y, *args, **kwargs)
    if not row.sequence:
        add_selected(entries, cotangents, parents[0], contribution, found != 0)
        return
    for parent, part, marks in zip(parents[0], contribution, found, strict=True):
        if parent >= 0:
            add_selected(entries, cotangents, parent, part, marks != 0)


def _marks(live: Array) -> Array:
    """Positive numbers, all different, where `live`, and 0 elsewhere: no sum or difference of them is 0 by chance."""
    count = np.cumsum(np.ones_like(live, dtype=np.float64)).reshape(live.shape)
    return np.where(live, 1 + np.remainder(count * 0.6180339887498949, 1), 0)


def mask_like(g: Array, shape: tuple[int, ...]) -> Array:
    """A mask of `shape` that selects nothing, in the array library of `g`."""
    while hasattr(g, "_value"):  # traced by an outer recording
        g = g._value
    return zeros(Spec(shape, np.dtype(np.bool_)), g)


def selects_elements(index: Any) -> bool:
    """Whether to ask which elements an index selects: by masks or positions, not by slices.

    Slices of one array may be many, and asking would cost more than reading them.
    """
    kind = type(index)
    if kind is int or kind is slice:
        return False
    if kind is tuple:
        for part in index:
            if type(part) is not int and type(part) is not slice:
                return not is_basic_index(index)
        return False
    return not is_basic_index(index)


def scatter_selected(
    cotangents: Cotangents, parent: int, index: Any, g: Array, spec: Spec, live: Array | None = None
) -> None:
    """Add the cotangent of `x[index]`, which takes part where `live`, to that of x, in which no other elements do."""
    scatter = getattr(g, "_scatter", None)
    if scatter is not None:  # traced by an outer recording
        whole = scatter(index, spec)
    else:
        buffer = Cotangents(1)
        buffer.scatter(0, index, g, spec.shape, spec.dtype)
        whole = buffer.slots[0]
    found = mask_like(g, spec.shape)
    if live is None:
        found[index] = True
    elif is_basic_index(index) or is_mask(index):
        found[index] = live
    else:
        np.logical_or.at(found, index, live)
    cotangents.add_partial(parent, whole, found)


def pull_where(
    entries: list[Any], cotangents: Cotangents, parent: int, contribution: Array, where: Any
) -> None:
    """Add the contribution to an operand of a reduction, of which only the elements in `where` take part."""
    shape = entries[parent][3]
    add_selected(entries, cotangents, parent, contribution, np.broadcast_to(where, shape))


def rest_of(before: Any, index: Any, live: Array | None, g: Array) -> Array | None:
    """Which elements of an array take part after some were overwritten; None if it is not asked.

    It is asked of arrays that were computed and written then, and at masks; not at every write of a row.
    """
    if type(before) is not Rule and not is_mask(index):
        return None
    rest = np.logical_not(mask_like(g, g.shape)) if live is None else live.copy()
    rest[index] = False
    return rest
