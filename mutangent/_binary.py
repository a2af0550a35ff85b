"""How an operation of two operands is recorded: the hot path of all operators and binary ufuncs."""

from __future__ import annotations

from collections.abc import Callable
from threading import get_ident
from typing import Any, Final

import numpy as np

from ._arrays import ARRAYS, COMPLEX128, FLOAT64, PLAIN, spec_of
from ._operands import NO_SETTINGS, as_operand, constant, refuse_nested, serial_of, strong
from ._rulebook import Rule, no_rule, rule
from ._shadow import check_shadow
from ._tape import PRODUCT
from ._traced import CLOSED, TracedArray, append, collect, level_of, lower, note_maker

_new: Final = object.__new__
_FLOATS: Final = frozenset({float, np.float64, np.float32, np.float16})


def apply_binary(  # noqa: C901, PLR0912, PLR0915 - the hot path: one function, without calls
    op: Callable[[Any, Any], Any], row: Rule, a: Any, b: Any
) -> Any:
    """Record a function of two operands: the hot path of all operators and binary ufuncs.

    `op` computes the value: the operator itself for an operator, since Python numbers must stay Python numbers.
    """
    # One open tape, and nothing else that is traced: the case that has to be fast.
    if type(a) is TracedArray:
        tape = a._tape
        entries: Any = tape.entries
        x = a._value
        if type(b) is TracedArray:
            if b._tape is not tape:
                return apply_mixed(op, row, a, b)
            z = b._value
            parents = (a._node, b._node)
            mask = 3
        else:
            if type(b) not in PLAIN:
                return apply_mixed(op, row, a, b)
            z = b
            parents = (a._node, -1)
            mask = 1
    else:
        if type(a) not in PLAIN:
            return apply_mixed(op, row, a, b)
        tape = b._tape
        entries = tape.entries
        x = a
        z = b._value
        parents = (-1, b._node)
        mask = 2
    if entries is None or not row.kind:
        return apply_mixed(op, row, a, b)
    if tape.thread != get_ident():
        tape.refuse_elsewhere()
    y = op(x, z)
    keep_y, keep_x, keep_z = row.keep[mask]
    if mask == 1:
        if type(z) in ARRAYS:
            if tape.shadowed:
                check_shadow(tape, z)
            if keep_z:
                z = tape.constant(z)
        elif row.root is not None and type(z) in _FLOATS and 0.5 <= z < 1:
            row = row.root
    elif mask == 2 and type(x) in ARRAYS:
        if tape.shadowed:
            check_shadow(tape, x)
        if keep_x:
            x = tape.constant(x)
    saved: Any
    if row.kind == "elementwise":
        saved = (y if keep_y else None, x if keep_x else None, z if keep_z else None)
    else:
        kept = (
            spec_of(x) if not keep_x else strong(x) if mask & 1 else x,
            spec_of(z) if not keep_z else strong(z) if mask & 2 else z,
        )
        saved = (y if keep_y else None, kept, PRODUCT if is_product(row, x, z) else NO_SETTINGS)
    try:
        shape, dtype = y.shape, y.dtype
    except AttributeError:
        shape, dtype = (), COMPLEX128 if type(y) is complex else FLOAT64
    traced: TracedArray = _new(TracedArray)
    traced._base = None
    traced._value = y
    traced._tape = tape
    if type(entries) is list:
        traced._node = len(entries)
        entries.append((row, parents, saved, shape, dtype))
    else:
        traced._node = entries.push(row, parents, saved, shape, dtype, y, (x, z))
        if tape.inner is not None:
            note_maker(traced, tape)
    return traced


MATMUL: Final = rule(np.matmul)
DOT: Final = rule(np.dot)


def is_product(row: Rule, a: Any, b: Any) -> bool:
    """Whether a call is the product of two real matrices, or of one with a vector, of one dtype, in NumPy arrays."""
    return (
        (row is MATMUL or row is DOT)
        and type(a) is np.ndarray
        and type(b) is np.ndarray
        and 0 < a.ndim < 3
        and 0 < b.ndim < 3
        and a.ndim + b.ndim > 2
        and a.dtype is b.dtype
        and a.dtype.kind == "f"
    )


def apply_mixed(op: Callable[[Any, Any], Any], row: Rule, a: Any, b: Any) -> Any:
    """The general case: operands of different recordings, of closed ones, lists and array subclasses."""
    found: list[TracedArray] = []
    collect(a, found)
    collect(b, found)
    if not found:
        return op(lower(a, CLOSED), lower(b, CLOSED))
    if not row.kind:
        raise no_rule(row.function)
    tape = max((layer._tape for layer in found), key=serial_of)
    refuse_nested(row, a, b)
    operands = []
    for x in (a, b):
        layer = level_of(x, tape) if type(x) is TracedArray else None
        # Seen from this level, an operand is either traced by it or has no layer of it.
        operands.append(as_operand(lower(x, tape)) if layer is None else layer)
    low_a, low_b = (x._value if type(x) is TracedArray and x._tape is tape else x for x in operands)
    mask = sum((type(x) is TracedArray and x._tape is tape) << k for k, x in enumerate(operands))
    y = op(low_a, low_b)
    if tape.shadowed:
        for k, operand in enumerate((low_a, low_b)):
            if not mask >> k & 1:
                check_shadow(tape, operand)
    keep_y, keep_a, keep_b = row.keep[mask]
    if not mask & 1:
        low_a = constant(tape, low_a)
    if not mask & 2:
        low_b = constant(tape, low_b)
    saved: Any = (y if keep_y else None, low_a if keep_a else None, low_b if keep_b else None)
    if row.kind == "function":
        kept = (low_a if keep_a else spec_of(low_a), low_b if keep_b else spec_of(low_b))
        saved = (y if keep_y else None, kept, NO_SETTINGS)
    parents = tuple(x._node if mask >> k & 1 else -1 for k, x in enumerate(operands))
    entries: Any = tape.entries
    return append(entries, tape, row, parents, saved, y, (low_a, low_b))
