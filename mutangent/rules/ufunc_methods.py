"""Derivatives of the methods of ufuncs: `reduce`, `accumulate`, `reduceat` and `outer`.

The row of a method is declared for the method itself, `numpy.logaddexp.reduce`. All of them are composed: of the function
that does the same where there is one, otherwise of one call of the ufunc per element.
"""
# ruff: noqa: ARG001 - composed functions have the parameters of NumPy's, read or not

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._rulebook import composed, constant, rules, unsupported
from .dispatch import plain
from .reductions import Axis, axes_of

Ufunc = Any

# -- reduce --------------------------------------------------------------------------------------------------------


def given(**settings: Any) -> dict[str, Any]:
    """The settings that were given."""
    return {name: value for name, value in settings.items() if value is not np._NoValue and value is not None}


def reduced_by(function: Callable[..., Any]) -> Callable[..., Any]:
    """The reduction that a NumPy function does."""

    def implementation(
        array: Any,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = np._NoValue,
        where: Any = True,
    ) -> Any:
        settings = given(dtype=dtype, initial=initial)
        if where is not True:
            settings["where"] = where
        return function(array, axis=axis, keepdims=keepdims, **settings)

    return implementation


def reduced(ufunc: Ufunc) -> Callable[..., Any]:
    """The elements combined one after the other; those outside of `where` are passed over."""

    def implementation(
        array: Any,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = np._NoValue,
        where: Any = True,
    ) -> Any:
        axes = axes_of(axis, np.ndim(array))
        front = range(len(axes))
        moved = np.moveaxis(array, axes, front)
        flat = np.reshape(moved, (-1, *moved.shape[len(axes) :]))
        y = ufunc.identity if initial is np._NoValue or initial is None else initial
        if y is None or (where is True and initial is np._NoValue):
            if where is not True or len(flat) == 0:
                raise ValueError(
                    f"reduction operation {ufunc.__name__} needs initial= here: it has no identity"
                )
            y, flat = flat[0], flat[1:]
        mask = None
        if where is not True:
            mask = np.moveaxis(np.broadcast_to(where, np.shape(array)), axes, front).reshape(flat.shape)
        for k in range(len(flat)):
            y = ufunc(y, flat[k]) if mask is None else np.where(mask[k], ufunc(y, flat[k]), y)
        y = y if dtype is None else np.astype(y, dtype)
        return np.expand_dims(y, axes) if keepdims else y[()]

    return implementation


def log_sum(exp: Callable[..., Any], log: Callable[..., Any]) -> Callable[..., Any]:
    """`logaddexp.reduce`: the largest exponent is taken out of the sum, and with it every overflow."""

    def implementation(
        array: Any,
        axis: Axis = 0,
        dtype: Any = None,
        out: None = None,
        keepdims: bool = False,
        initial: Any = np._NoValue,
        where: Any = True,
    ) -> Any:
        start = -np.inf if initial is np._NoValue or initial is None else initial
        # The maximum drops out of the derivative, so it may as well be a constant.
        top = np.max(plain(array), axis=axis, keepdims=True, initial=start, where=where)
        top = np.where(np.isfinite(top), top, 0)
        total = np.sum(exp(array - top), axis=axis, keepdims=True, where=where) + exp(start - top)
        empty = plain(total) == 0
        y = np.where(empty, -np.inf, log(np.where(empty, 1, total)) + top)
        y = y if dtype is None else np.astype(y, dtype)
        return y if keepdims else np.squeeze(y, axis=axes_of(axis, np.ndim(array)))[()]

    return implementation


# -- accumulate ----------------------------------------------------------------------------------------------------


def accumulated_by(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda array, axis=0, dtype=None, out=None: function(array, axis=axis, dtype=dtype)


def accumulated(ufunc: Ufunc) -> Callable[..., Any]:
    def implementation(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        lines = np.moveaxis(array, axis, 0)
        if len(lines) == 0:
            return np.copy(array)
        found = [lines[0]]
        for k in range(1, len(lines)):
            found.append(ufunc(found[-1], lines[k]))
        y = np.stack(found, axis=axis)
        return y if dtype is None else np.astype(y, dtype)

    return implementation


def record_so_far(ufunc: Ufunc) -> Callable[..., Any]:
    """`maximum.accumulate` and `minimum.accumulate`: each result is the element that set the record."""

    def implementation(array: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        x = np.moveaxis(plain(array), axis, -1)
        best = ufunc.accumulate(x, axis=-1)
        # An unbroken record stays with the element that set it; a nan stays for good.
        first = np.ones(x.shape, bool)
        same = (best[..., 1:] == best[..., :-1]) | (np.isnan(best[..., 1:]) & np.isnan(best[..., :-1]))
        first[..., 1:] = ~same
        place = np.maximum.accumulate(np.where(first, np.arange(x.shape[-1]), 0), axis=-1)
        y = np.take_along_axis(array, np.moveaxis(place, -1, axis), axis=axis)
        return y if dtype is None else np.astype(y, dtype)

    return implementation


# -- reduceat, outer -----------------------------------------------------------------------------------------------


def reduced_at(reduce: Callable[..., Any]) -> Callable[..., Any]:
    def implementation(array: Any, indices: Any, axis: int = 0, dtype: Any = None, out: None = None) -> Any:
        lines = np.moveaxis(array, axis, 0)
        starts = [int(k) for k in indices]
        stops = [*starts[1:], len(lines)]
        found = [
            reduce(lines[start : max(stop, start + 1)], axis=0)
            for start, stop in zip(starts, stops, strict=True)
        ]
        y = np.stack(found, axis=axis)
        return y if dtype is None else np.astype(y, dtype)

    return implementation


def outer_of(ufunc: Ufunc) -> Callable[..., Any]:
    def implementation(A: Any, B: Any, /, **settings: Any) -> Any:
        return ufunc(np.reshape(A, np.shape(A) + (1,) * np.ndim(B)), B, **settings)

    return implementation


# -- the rows ------------------------------------------------------------------------------------------------------

REDUCTIONS: dict[Ufunc, Callable[..., Any]] = {
    np.add: reduced_by(np.sum),
    np.multiply: reduced_by(np.prod),
    np.maximum: reduced_by(np.max),
    np.minimum: reduced_by(np.min),
    np.logaddexp: log_sum(np.exp, np.log),
    np.logaddexp2: log_sum(np.exp2, np.log2),
}
ACCUMULATIONS: dict[Ufunc, Callable[..., Any]] = {
    np.add: accumulated_by(np.cumsum),
    np.multiply: accumulated_by(np.cumprod),
    np.maximum: record_so_far(np.maximum),
    np.minimum: record_so_far(np.minimum),
}
# Their vectorised loops do not combine the elements of a contiguous axis in order.
LAYOUT_DEPENDENT = (np.power, np.float_power, np.arctan2)

for row in rules():
    binary: Any = row.function
    if (
        not isinstance(binary, np.ufunc)
        or binary.nin != 2
        or binary.nout != 1
        or binary.signature is not None
    ):
        continue
    if row.kind == "constant":
        constant(binary.reduce, binary.accumulate, binary.reduceat, binary.outer)
    elif row.kind == "elementwise" and row.expressions[1] is not None:
        composed(binary.accumulate, ACCUMULATIONS.get(binary) or accumulated(binary))
        composed(binary.outer, outer_of(binary))
        if binary in LAYOUT_DEPENDENT:
            unsupported("NumPy's result depends on the layout in memory", binary.reduce, binary.reduceat)
            continue
        reduce = REDUCTIONS.get(binary) or reduced(binary)
        composed(binary.reduce, reduce)
        composed(binary.reduceat, reduced_at(reduce))
    elif row.kind == "elementwise":
        composed(binary.outer, outer_of(binary))
        unsupported("its operands are of different kinds", binary.reduce, binary.accumulate, binary.reduceat)
