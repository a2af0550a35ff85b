"""Whether a matrix keeps its null space when what it was computed from moves, as a product of factors does, ``X.T @ X``.

The vectors of two eigenvalues, or singular values, that are both 0 have no derivative by the matrix: a small change of it
may turn them by any angle, and rounding decides which they are. But the matrix needs not move in all directions. However
X changes, uᵀ (dXᵀ X + Xᵀ dX) v is 0 where X u and X v are. What is undefined meets that 0, and may be left out.

So the question is whether a cotangent of the matrix that lies in its null space gives nothing to anything that the matrix
was computed from. It is answered by trying, with a random one: in a sweep over the tape as it is, or, in forward mode, with
the tangent that the matrix has. It is asked only where there are two such values.
"""

from __future__ import annotations

import heapq
from typing import Any, Final

import numpy as np

from ._accumulate import Cotangents
from ._arrays import namespace_of
from ._flat import plain
from ._tape import CALL, LEAF, sweep
from ._traced import TracedArray

# After so many nodes it is asked whether anything is left.
ASKED_EVERY: Final = 16


def keeps(matrix: TracedArray, direction: Any) -> bool:
    """Whether, to first order, a traced matrix never moves in a direction, for all the recordings that trace it.

    Parameters
    ----------
    matrix : TracedArray
        The matrix.
    direction : array
        An array of its shape: a cotangent in the null space.
    """
    layers: list[Any] = []
    layer: Any = matrix
    while type(layer) is TracedArray:
        if layer._tape.all is not None:
            layers.append(layer)
        layer = layer._value
    tapes = [layer._tape for layer in layers]
    entries = [tape.entries for tape in tapes]
    for tape in tapes:
        tape.entries = None  # what is computed here is on no tape
    try:
        with np.errstate(all="ignore"):
            return all(_keeps(layer, direction) for layer in layers)
    finally:
        for tape, before in zip(tapes, entries, strict=True):
            tape.entries = before


def _keeps(layer: TracedArray, direction: Any) -> bool:
    # In comparison with a direction that is no special one. What was squared is 0 up to eps where its root is up to the
    # root of that.
    places = namespace_of(direction).arange(1.0, direction.size + 1).reshape(direction.shape)
    other = np.sin(places).astype(direction.dtype)
    allowed = np.sqrt(np.finfo(direction.dtype).eps) * _size(direction) / _size(other)
    if layer._tape.pushes:
        tangent: Any = layer._node
        if tangent is None:
            return True
        tangent = plain(tangent)
        return bool(np.absolute(np.vdot(direction, tangent)) <= allowed * _size(tangent) * _size(other))
    return _vanishes(layer._tape.all, layer._node, (direction, other), allowed)


def _vanishes(entries: Any, node: int, cotangents: tuple[Any, Any], allowed: float) -> bool:
    """Whether the first of two cotangents gives nothing to entry values, and to calls, through which is not looked.

    Two sweeps go back side by side, for as long as something is left of the first.
    """
    both = Cotangents(node + 1), Cotangents(node + 1)
    for sums, g in zip(both, cotangents, strict=True):
        sums.add(node, g)
    pending, seen = [-node], {node}
    count = 0
    while pending:
        node = -heapq.heappop(pending)
        rule, parents = entries[node][:2]
        if rule is not CALL:
            for sums in both:
                sweep(entries, sums, part=(node,))
        if (rule is CALL or rule is LEAF) and not _is_nothing(both, node, allowed):
            return False
        for each in _flat(parents):
            if each >= 0 and each not in seen:
                seen.add(each)
                heapq.heappush(pending, -each)
        count += 1
        if count % ASKED_EVERY == 1 and all(_is_nothing(both, -each, allowed) for each in pending):
            return True
    return True


def _flat(parents: Any) -> list[int]:
    if type(parents) is int:
        return [parents]
    return [each for parent in parents for each in _flat(parent)]


def _is_nothing(both: tuple[Cotangents, Cotangents], node: int, allowed: float) -> bool:
    """Whether the first cotangent of a node is a rounding error, in comparison with the second."""
    if any(node in sums.products for sums in both):
        return False  # it is not added up yet
    found, other = both[0].slots[node], both[1].slots[node]
    if found is None:
        return True
    if type(found) is dict:
        return all(_size(found[key]) <= allowed * _size(other[key]) for key in found)
    return _size(found) <= allowed * _size(other)


def _size(x: Any) -> float:
    return float(np.sqrt(np.sum(np.absolute(plain(x)) ** 2)))
