"""How `x[index]` is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._accumulate import Cotangents, is_basic_index
from ._adopted import constant_array
from ._arrays import ARRAYS, Spec, is_array, is_differentiable
from ._in_place import plain_index
from ._suspended import refuse_outside
from ._tape import INDEX, SCATTER
from ._traced import CLOSED, TracedArray, append, lower
from ._views import is_item_view, quiet_view, register_view, shown


def get_item(x: TracedArray, index: Any) -> Any:
    """Record `x[index]`."""
    tape = x._tape
    entries = tape.entries
    simple = type(index) is int or type(index) is slice
    if simple and entries is not None and type(x._value) is np.ndarray:
        value = x._value[index]
        if type(value) is np.ndarray:  # the usual case
            if tape.mutable and id(x) in tape.mutable:
                # So that the buffer stays without other references, and the next write is cheap.
                value = value.copy(order="K")
            made = append(entries, tape, INDEX, x._node, index, value)
            register_view(made, x, index)
            return made
        return append(entries, tape, INDEX, x._node, index, value) if is_differentiable(value) else value
    kept = index if simple else plain_index(index, x)
    if entries is None:
        return _get_constant_item(x, index, kept)
    value = x._value[kept]
    if type(value) in ARRAYS or type(value) is TracedArray:
        is_view = is_array(value) if simple else is_basic_index(kept) and is_item_view(value, kept)
        if is_view and id(x) in tape.mutable and type(value) in ARRAYS:
            # So that the buffer stays without other references, and the next write is cheap.
            value = value.copy(order="K")
        made = append(entries, tape, INDEX, x._node, kept, value)
        if is_view:
            register_view(made, x, index)
        return made
    return append(entries, tape, INDEX, x._node, kept, value) if is_differentiable(value) else value


def _get_constant_item(x: TracedArray, index: Any, kept: Any) -> Any:
    if x._tape.all is None:
        return shown(lower(x, CLOSED)[kept], x)
    if x._tape.pauses:
        refuse_outside(x._tape.pauses)
    value = x._value[kept]
    if not is_array(value):
        return value
    if is_basic_index(kept) and is_item_view(value, kept):
        return quiet_view(value, x, index)
    # The copy in `buffer[mask] += x` must be able to take a traced value.
    return value if x._tape.owner is None else constant_array(x._tape.owner, value)


def scatter(x: TracedArray, index: Any, spec: Spec) -> Any:
    """Record zeros of `spec` with `x` added at `index`: what an inner sweep needs for indexing."""
    value = x._value
    if type(value) is TracedArray:
        value = scatter(value, index, spec)
    else:
        buffer = Cotangents(1)
        buffer.scatter(0, index, value, spec.shape, spec.dtype)
        value = buffer.slots[0]
    tape = x._tape
    return value if tape.entries is None else append(tape.entries, tape, SCATTER, x._node, index, value)
