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
from ._arrays import Array, Spec, is_without_zero, or_at, zeros
from ._flat import is_flat, plain
from ._rulebook import Rule


def pull_selected(
    entries: list[Any], cotangents: Cotangents, entry: Any, g: Array, live: Array | None
) -> None:
    """Pull through an elementwise row that selects, or whose result takes part only where `live`."""
    row, parents, saved, shape, dtype = entry
    holomorphic = dtype.kind == "c"
    if holomorphic:
        g = np.conj(g)
    selects = row.selects
    # What reads nothing, a sum for example, makes zeros of zeros.
    safe = selects or (live is not None and reads_nothing(saved))
    expressions = expressions_of(entries, row, parents, saved, dtype) if row.flat else row.expressions
    for k, (parent, push) in enumerate(zip(parents, expressions, strict=True)):
        if parent < 0:
            continue
        contribution = push(g, *saved)
        if holomorphic:
            contribution = np.conj(contribution)
        if live is not None and not safe:
            contribution = np.where(live, contribution, 0)
        chosen = live
        if not matters(entries, parent):
            chosen = None
        elif selects and selects[k] is not None:
            chosen = selects[k](*saved)
            if chosen.shape != shape:
                chosen = np.broadcast_to(chosen, shape)
            if live is not None:
                chosen = np.logical_and(live, chosen)
        add_selected(entries, cotangents, parent, contribution, chosen)


def expressions_of(entries: list[Any], row: Rule, parents: Any, saved: Any, dtype: np.dtype[Any]) -> Any:
    """The expressions of a root: others where it is 0, if what stands under it is known to be flat there."""
    value = saved[0] if saved[0] is not None else saved[1]  # the root, or what is under it
    if type(value) is not np.ndarray:
        value = plain(value)  # traced by an outer recording
    # A device is not asked: that would be to wait for it.
    if dtype.kind == "c" or is_without_zero(value):
        return row.expressions
    return row.flat if is_flat(entries, parents[0]) else row.expressions


def reads_nothing(saved: Any) -> bool:
    """Whether the expressions of an entry read no numbers: their derivative is 1 or -1."""
    for value in saved:  # noqa: SIM110 - a loop costs a third of `all`
        if value is not None:
            return False
    return True


# So many operations back it is looked whether an absent cotangent can make a difference.
LOOK_BACK = 4


def matters(entries: list[Any], node: int, steps: int = LOOK_BACK) -> bool:
    """Whether it makes a difference to what is behind a node that some of its elements take no part.

    It makes none to a leaf, to a product of matrices, or to a sum of these; so the mask need not be found.
    """
    row, parents, saved, _, dtype = entries[node]
    if type(row) is not Rule:
        # An index or an assignment to items, which hand a mask on; leaves and calls do not.
        before = parents if type(parents) is tuple else (parents,)
        return dtype is not None and row.name in {"index", "set item"} and hands_on(entries, before, steps)
    if row.kind == "elementwise":
        passes = row.selects or reads_nothing(saved)
        return not passes or hands_on(entries, parents, steps)
    if row.part_of is not None or row.takes_live:
        return True
    if not row.structural:
        return False
    return hands_on(entries, parents[0] if row.sequence else parents, steps)


def hands_on(entries: list[Any], parents: Any, steps: int) -> bool:
    """Whether it matters to any of the operands; yes if that would be far to look."""
    for parent in parents:  # noqa: SIM110 - a loop costs a third of `any`
        if parent >= 0 and (steps == 0 or matters(entries, parent, steps - 1)):
            return True
    return False


def add_selected(
    entries: list[Any], cotangents: Cotangents, parent: int, contribution: Array, live: Array | None
) -> None:
    """Add a contribution of which only the `live` elements, of its own shape, take part; all if that is None."""
    _, _, _, shape, dtype = entries[parent]
    if contribution.shape != shape:
        if live is not None:
            live = any_of(np.broadcast_to(live, contribution.shape), shape)
        contribution = unbroadcast(contribution, shape)
    if dtype.kind == "f" and contribution.dtype.kind == "c":
        contribution = to_real(contribution)
    if live is None:
        cotangents.add(parent, contribution)
    else:
        cotangents.add_partial(parent, contribution, live)


def any_of(live: Array, shape: tuple[int, ...]) -> Array:
    """The mask of a value of `shape` that was broadcast: where any of its copies takes part."""
    lead = live.ndim - len(shape)
    ones = [lead + k for k, length in enumerate(shape) if length == 1]
    return np.any(live, axis=(*range(lead), *ones)).reshape(shape)


def pull_partial(entries: list[Any], cotangents: Cotangents, entry: Any, g: Array, live: Array) -> bool:
    """Pull through an operation whose result takes part only where `live`; False if that does not matter to it."""
    row, parents, saved, _, _ = entry
    if type(row) is not Rule:
        return False
    if row.kind == "elementwise":
        pull_selected(entries, cotangents, entry, g, live)
        return True
    if row.takes_live:
        y, args, kwargs = saved
        contribution = row.expressions[0](g, y, *args, **kwargs, live=live)  # type: ignore[misc]
        add_selected(entries, cotangents, parents[0], contribution, None)
        return True
    if row.part_of is not None:
        y, args, kwargs = saved
        taking_part = row.part_of(live, *args, **kwargs)
        contribution = np.where(taking_part, row.expressions[0](g, y, *args, **kwargs), 0)  # type: ignore[misc]
        matter = hands_on(entries, parents, LOOK_BACK)
        add_selected(entries, cotangents, parents[0], contribution, taking_part if matter else None)
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
    operands = parents[0] if row.sequence else parents
    contributions = pullback(g, y, *args, **kwargs)
    found: Any = [None] * len(operands)
    if hands_on(entries, operands, LOOK_BACK):
        if live is None:
            live = np.logical_not(mask_like(g, g.shape))
        if row.part_of is not None:
            found = [row.part_of(live, *args, **kwargs)]
        else:
            marks = pullback(_marks(live), y, *args, **kwargs)
            found = [each != 0 for each in (marks if row.sequence else [marks])]
    for parent, contribution, part in zip(
        operands, contributions if row.sequence else [contributions], found, strict=True
    ):
        if parent >= 0:
            add_selected(entries, cotangents, parent, contribution, part)


def _marks(live: Array) -> Array:
    """Positive numbers, all different, where `live`, and 0 elsewhere: no sum or difference of them is 0 by chance."""
    count = np.cumsum(np.ones_like(live, dtype=np.float64)).reshape(live.shape)
    return np.where(live, 1 + np.remainder(count * 0.6180339887498949, 1), 0)


def mask_like(g: Array, shape: tuple[int, ...]) -> Array:
    """A mask of `shape` that selects nothing, in the array library of `g`."""
    return zeros(Spec(shape, np.dtype(np.bool_)), plain(g))


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
        or_at(found, index, live)
    cotangents.add_partial(parent, whole, found)


def pull_where(
    entries: list[Any], cotangents: Cotangents, parent: int, contribution: Array, where: Any
) -> None:
    """Add the contribution to an operand of a reduction, of which only the elements in `where` take part."""
    live = np.broadcast_to(where, entries[parent][3]) if matters(entries, parent) else None
    add_selected(entries, cotangents, parent, contribution, live)


def rest_of(entries: list[Any], base: int, index: Any, live: Array | None, g: Array) -> Array | None:
    """Which elements of an array take part after some were overwritten; None if it is not asked.

    It is asked of arrays that were computed and written then, and at masks; not at every write of a row.
    """
    if (type(entries[base][0]) is not Rule and not is_mask(index)) or not matters(entries, base):
        return None
    rest = mask_like(g, g.shape)
    rest[...] = True if live is None else live
    rest[index] = False
    return rest
