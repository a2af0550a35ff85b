"""Whether a matrix keeps its null space when what it was computed from moves, as a product of factors does, ``X.T @ X``.

The vectors of two eigenvalues, or singular values, that are both 0 have no derivative by the matrix: a small change of it
may turn them by any angle, and rounding decides which they are. But the matrix needs not move in all directions. However
X changes, uᵀ (dXᵀ X + Xᵀ dX) v is 0 where X u and X v are. What is undefined meets that 0, and may be left out.

So the question is whether a cotangent of the matrix that lies in its null space gives nothing to anything that the matrix
was computed from. It is answered by trying, with a random one: in a sweep over the tape as it is, or, in forward mode, with
the tangent that the matrix has. It is asked only where there are two such values.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ._accumulate import Cotangents
from ._arrays import namespace_of
from ._flat import plain
from ._tape import CALL, LEAF, sweep
from ._traced import TracedArray


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
    entries = list(layer._tape.all or ())[: layer._node + 1]
    found, others = _swept(entries, direction), _swept(entries, other)
    return all(_size(found[key]) <= allowed * _size(others[key]) for key in found)


def _size(x: Any) -> float:
    return float(np.sqrt(np.sum(np.absolute(x) ** 2)))


def _swept(entries: list[Any], cotangent: Any) -> dict[Any, Any]:
    """The cotangents of entry values, and of the results of calls, through which is not looked."""
    entries = [(LEAF, *entry[1:]) if entry[0] is CALL else entry for entry in entries]
    cotangents = Cotangents(len(entries))
    cotangents.add(len(entries) - 1, cotangent)
    sweep(entries, cotangents)
    found: dict[Any, Any] = {}
    for node, slot in enumerate(cotangents.slots):
        if type(slot) is dict:
            found.update({(node, key): plain(each) for key, each in slot.items()})
        elif slot is not None:
            found[node] = plain(slot)
    return found
