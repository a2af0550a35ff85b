"""The step that optimisers share: give each parameter that has a gradient its new value, all or none.

What a parameter is, and what its gradient is, `mutangent.tree.parameters` says. This file does not know what a step is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from mutangent import tree
from mutangent._identity import IdentityMap
from mutangent._tangent import ZeroTangent

# What an optimiser keeps from update to update: for each object that owns parameters, by the way within the object.
# By place and not by array, since an array is replaced at every update, and perhaps by the user in between. With the
# shape, since what is kept of another one might be broadcast, and the parameter with it.
Memory = IdentityMap[dict[Any, Any]]

# (value, gradient, what the last step kept or None) -> (new value, what to keep)
Step = Callable[[Any, Any, Any], tuple[Any, Any]]


def rebind(root: Any, tangent: Any, memory: Memory, step: Step) -> None:
    """Step every parameter in reach of `root` that has a gradient: all of them or, if anything fails, none."""
    writes: list[tuple[tree.Parameter, Any]] = []
    kept: list[tuple[Any, tuple[Any, ...], Any]] = []
    for parameter in tree.parameters(root, tangent):
        place = parameter.place
        if place is None:
            raise TypeError(
                "an optimiser puts new values into fields, lists and dicts, and this array or number is in none: hold "
                "it in an object, or pass a list or dict that is yours"
            )
        if isinstance(parameter.gradient, ZeroTangent):
            continue
        owner, way = place
        shape = getattr(parameter.value, "shape", ())
        known, kept_before = memory.get(owner, {}).get(way, (shape, None))
        if known != shape:
            raise ValueError(
                f"{type(root).__name__}{parameter.paths[0]} is of shape {shape}, and was of shape {known} when this "
                "optimiser last moved it, so that what it remembers does not fit. Make a new optimiser. Nothing changed."
            )
        new, keep = step(parameter.value, parameter.gradient, kept_before)
        writes.append((parameter, _like(parameter.value, new)))
        if keep is not None:
            kept.append((owner, way, (shape, keep)))

    done = 0
    try:
        for parameter, new in writes:
            parameter.put(new)
            done += 1
    except BaseException:  # a validator of the user's, or Ctrl-C
        for parameter, _ in writes[:done]:
            parameter.put(parameter.value)
        raise
    for owner, way, keep in kept:
        memory.setdefault(owner, {})[way] = keep


def _like(old: Any, new: Any) -> Any:
    """`new` as the kind of value that `old` is: no step turns float32 into float64, or a 0-d array into a scalar."""
    if isinstance(old, np.generic):
        return old.dtype.type(new)
    if isinstance(old, float | complex):
        return new.item() if isinstance(new, np.generic) else new
    if isinstance(new, np.generic):
        return np.asarray(new, old.dtype)
    return new if new.dtype == old.dtype else new.astype(old.dtype)
