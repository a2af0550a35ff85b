"""The operators, methods and protocols of a traced value. Importing this file puts them onto `TracedArray`.

NumPy's functions reach a traced value by NEP 13 (`__array_ufunc__`) and NEP 18 (`__array_function__`), Python's
operators directly. Each ends in `_apply`, or in an error that says what to write instead.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator
from threading import get_ident
from typing import Any, Final, NoReturn

import numpy as np

from ._apply import ASTYPE, ITEM, apply, make_array
from ._arrays import (
    COMPLEX128,
    FLOAT64,
    PLAIN,
    Spec,
    add_at,
    describe,
    is_array,
    namespace_of,
    spec_of,
    zeros,
)
from ._binary import DOT, MATMUL, apply_binary, is_product
from ._errors import InPlaceError, NoRuleError, TracedValueError
from ._in_place import assign, plain_index, replace, take_over, write_view
from ._items import get_item, scatter
from ._logistic import append_logistic, operand_of_logistic
from ._null_space import keeps
from ._operands import NO_SETTINGS
from ._rulebook import known, no_rule, rule
from ._shadow import check_shadow, first_name
from ._suspended import refuse_outside
from ._tape import PRODUCT, Tape
from ._traced import CLOSED, TracedArray, append, has_open, lower, primal
from ._views import base_of, layout_of, refresh

_new: Final = object.__new__
_TRANSPOSE: Final = rule(np.transpose)
_POWER: Final = rule(np.power)
_RESHAPE: Final = rule(np.reshape)
# Reductions of ufuncs that are functions of their own in the rulebook.
_REDUCTIONS: Final[dict[Any, Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
}
_API_VERSIONS: Final = (None, "2021.12", "2022.12", "2023.12", "2024.12")


class Operations:
    """What a traced value can do. The members are put onto `TracedArray` at the end of the file."""

    # -- NumPy's protocols --------------------------------------------------------------------------------------------

    def __array_ufunc__(self: Any, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        row = known(ufunc) or rule(ufunc)
        if not kwargs and method == "__call__":
            if row.kind == "elementwise":
                if len(inputs) == 1:
                    tape = self._tape
                    entries = tape.entries
                    if entries is not None:
                        a = self._value
                        y = ufunc(a)
                        keep_y, keep_a = row.keep[1]
                        saved = (y if keep_y else None, a if keep_a else None)
                        return append(entries, tape, row, (self._node,), saved, y, (a,))
                elif len(inputs) == 2:
                    return apply_binary(ufunc, row, *inputs)
            elif row is MATMUL:
                return apply_binary(_matmul, row, *inputs)
            return apply(row, inputs, kwargs)
        if method == "at":
            return _ufunc_at(ufunc, *inputs)
        return self._ufunc_with_out(ufunc, method, inputs, kwargs)

    def _ufunc_with_out(
        self: Any, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        row = rule(ufunc)
        out = kwargs.pop("out", None)
        target = _target(ufunc.__name__, out, inputs)
        if target is None and not has_open(inputs):  # of closed recordings: constants, which `out` may take
            return getattr(ufunc, method)(*lower(inputs, CLOSED), **({"out": out} if out else {}), **kwargs)
        where = kwargs.pop("where", True) if method == "__call__" else True
        if method == "__call__" and not kwargs and target is not None and has_open(inputs):
            made = ufunc(*inputs)  # by the short ways above
        else:
            made = self._ufunc(ufunc, method, inputs, kwargs)
        if target is None:
            if where is not True:
                raise no_rule(ufunc, " with where= and no out=")
            return made
        if where is True and row.kind == "elementwise" and take_over(target, made):
            return target
        return replace(target, made if where is True else np.where(where, made, target))

    def _ufunc(
        self: Any, ufunc: np.ufunc, method: str, inputs: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        row = rule(ufunc)
        if method == "__call__":
            if not has_open(inputs):
                return ufunc(*lower(inputs, CLOSED), **kwargs)
            return apply(row, inputs, kwargs)
        if method == "reduce" and ufunc in _REDUCTIONS:
            kwargs.setdefault("axis", 0)
            return apply(rule(_REDUCTIONS[ufunc]), inputs, kwargs)
        of_method = rule(getattr(ufunc, method))  # bound methods are equal if their ufuncs are
        if of_method.kind:
            return apply(of_method, inputs, kwargs)
        raise no_rule(ufunc, f".{method}")

    def __array_function__(self: Any, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        row = known(function) or rule(function)
        if self._tape.shadowed:
            _check_plain(self._tape, (*args, *kwargs.values()))
        if row.kind == "array":
            return make_array(row, self, args, kwargs)
        if not kwargs:
            if row is DOT and len(args) == 2 and is_product(row, primal(args[0]), primal(args[1])):
                return apply_binary(np.dot, row, *args)  # as a product, whose sums can wait in the sweep
            return apply(row, args, kwargs)
        out = kwargs.get("out")
        target = None if out is None else _target(function.__name__, out, args)
        if target is None:
            return apply(row, args, kwargs)
        rest = {name: value for name, value in kwargs.items() if name != "out"}
        return replace(target, function(*args, **rest))

    # CuPy asks these two before it launches a kernel. They are not documented; a test pins them.

    def __cupy_override_elementwise_kernel__(self: Any, kernel: Any, *args: Any, **kwargs: Any) -> Any:
        name = kernel.name.removeprefix("cupy_")
        if name == "fill":
            raise TracedValueError(
                f"plain[...] = x would write a traced value into {describe(args[-1])} that is not traced, and its gradient "
                "would be lost. Hold the array in a field, or make it with np.zeros_like(x)."
            )
        ufunc = getattr(np, name, None)
        if not isinstance(ufunc, np.ufunc):
            raise _no_kernel(kernel)
        # Not by NumPy's dispatch: CuPy's array, if it comes first, would ask here again.
        given = {name: value for name, value in kwargs.items() if value is not None}
        if len(args) > ufunc.nin:
            given["out"] = args[ufunc.nin :]
        return self.__array_ufunc__(ufunc, "__call__", *args[: ufunc.nin], **given)

    def __cupy_override_reduction_kernel__(self: Any, kernel: Any, *_args: Any) -> NoReturn:
        raise _no_kernel(kernel)

    def _refresh(self: Any) -> None:
        refresh(self)

    # -- the array API standard ---------------------------------------------------------------------------------------

    def __array_namespace__(self: Any, *, api_version: str | None = None) -> Any:
        if api_version not in _API_VERSIONS:
            raise ValueError(f"the array namespace is that of 2024.12, not {api_version!r}")
        from . import array_api  # noqa: PLC0415 - only code for the standard needs the names

        return array_api

    @property
    def device(self: Any) -> Any:
        return getattr(primal(self), "device", "cpu")

    def to_device(self: Any, device: Any, /, *, stream: Any = None) -> Any:
        if device != self.device or stream is not None:
            raise ValueError(f"an array on {self.device!r} cannot be moved to {device!r} inside a recording")
        return self

    # -- views of other shapes ----------------------------------------------------------------------------------------

    @property
    def T(self: Any) -> Any:  # noqa: N802 - NumPy's name
        return apply(_TRANSPOSE, (self,), NO_SETTINGS)

    @property
    def mT(self: Any) -> Any:  # noqa: N802 - NumPy's name
        return np.matrix_transpose(self)

    @property
    def real(self: Any) -> Any:
        return self if type(primal(self)) is float else np.real(self)

    @real.setter
    def real(self: Any, value: Any) -> None:
        assign(np.real(self), Ellipsis, value)

    @property
    def imag(self: Any) -> Any:
        return np.imag(self)

    @imag.setter
    def imag(self: Any, value: Any) -> None:
        assign(np.imag(self), Ellipsis, value)

    @property
    def flat(self: Any) -> Any:
        return Flat(self)

    @flat.setter
    def flat(self: Any, value: Any) -> None:
        Flat(self)[:] = value

    def reshape(self: Any, *shape: Any, order: str = "C") -> Any:
        whole = shape[0] if len(shape) == 1 else shape
        if order == "C":
            return apply(_RESHAPE, (self, whole), NO_SETTINGS)  # past NumPy's dispatch
        return np.reshape(self, whole, order)  # type: ignore[call-overload]

    def transpose(self: Any, *axes: Any) -> Any:
        return np.transpose(
            self, None if not axes or axes == (None,) else axes[0] if np.ndim(axes[0]) else axes
        )

    # -- copies and conversions ---------------------------------------------------------------------------------------

    # Unlike the method `copy`, these two keep the order of the elements in memory.

    def __copy__(self: Any) -> Any:
        return self.copy("K")

    def __deepcopy__(self: Any, memo: dict[Any, Any]) -> Any:
        made = self.copy("K")
        if made is self:
            return made
        # One array in two fields is two traced values, each with its own share, and one array in the copy.
        named = first_name(self)
        array = layout_of(named) if base_of(named) is None else self
        first = memo.setdefault(("mutangent", id(array)), made)
        if first is not made and type(made) is TracedArray and type(first) is TracedArray:
            made._value = first._value
            for each in (first, made):
                each._tape.locked[id(each)] = each
        return made

    def copy(self: Any, order: str = "C") -> Any:
        if not is_array(primal(self)):
            return self  # Python and NumPy scalars are immutable, and stay scalars
        return np.copy(self, order)  # type: ignore[call-overload]

    def conjugate(self: Any) -> Any:
        # Of a real array NumPy's method, unlike the function, gives the array itself; and a Python number stays one.
        return self if self.dtype.kind == "f" else _conjugated(self)

    conj = conjugate

    def view(self: Any, dtype: Any = None, type: Any = None) -> Any:  # noqa: A002 - NumPy's name
        kinds = [kind for kind in (dtype, type) if kind not in (None, np.ndarray, self._kind)]
        if not is_array(primal(self)) or any(kind is not self.dtype and kind != self.dtype for kind in kinds):
            raise NoRuleError(
                f"x.view({', '.join(map(repr, kinds))}) shows {describe(primal(self))} as something else, which has no "
                "derivative. Use x.astype(dtype), np.real or np.imag, or view mutangent.primal(x)."
            )
        return self[...]

    def flatten(self: Any, order: str = "C") -> Any:
        return np.copy(np.ravel(self, order))  # type: ignore[call-overload]

    def astype(self: Any, dtype: Any, *args: Any, copy: bool = True, **kwargs: Any) -> Any:  # noqa: ARG002 - order, casting
        if not copy and np.dtype(dtype) == self.dtype:
            return self
        return apply(ASTYPE, (self, np.dtype(dtype)), NO_SETTINGS)

    def compress(self: Any, condition: Any, axis: Any = None) -> Any:
        return np.compress(condition, self, axis)

    def item(self: Any, *index: Any) -> Any:
        if index:
            place: Any = index if len(index) > 1 else index[0]
            if type(place) is not tuple:  # one number counts the elements in C order
                place = np.unravel_index(range(self.size)[place], self.shape)
            return self[place].item()
        return apply(ITEM, (self,), NO_SETTINGS)

    # -- items --------------------------------------------------------------------------------------------------------

    __getitem__ = get_item

    def __setitem__(self: Any, index: Any, value: Any) -> None:
        if not _is_written(self, index, value):
            assign(self, index, value)

    def fill(self: Any, value: Any) -> None:
        assign(self, Ellipsis, value)

    def sort(self: Any, axis: int = -1, **kwargs: Any) -> None:
        replace(self, np.sort(self, axis, **kwargs))

    def partition(self: Any, kth: Any, axis: int = -1, **kwargs: Any) -> None:
        replace(self, np.partition(self, kth, axis, **kwargs))

    def put(self: Any, indices: Any, values: Any, mode: Any = "raise") -> None:
        np.put(self, indices, values, mode)

    def __delitem__(self: Any, index: Any) -> NoReturn:
        raise TypeError("cannot delete array elements")

    def __iter__(self: Any) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (get_item(self, k) for k in range(len(self._value)))

    def __contains__(self: Any, item: Any) -> bool:
        return bool(np.any(primal(self) == primal(item)))

    def _scatter(self: Any, index: Any, spec: Any) -> Any:
        return scatter(self, index, spec)

    def _keeps(self: Any, direction: Any) -> bool:
        return keeps(self, direction)

    # -- operators; the arithmetic ones follow below -----------------------------------------------------------------

    def __pos__(self: Any) -> Any:
        return np.positive(self) if is_array(primal(self)) else self

    def __floordiv__(self: Any, other: Any) -> Any:
        return operator.floordiv(primal(self), primal(other))  # a staircase: constant

    def __rfloordiv__(self: Any, other: Any) -> Any:
        return operator.floordiv(primal(other), primal(self))

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self


def _is_written(x: TracedArray, index: Any, value: Any) -> bool:
    """Whether this is the last step of `x[index] += ...`, which has written through the view already."""
    return (
        type(value) is TracedArray
        and value._base is x
        and value._how is index
        and x._tape.entries is not None
    )


class Flat:
    """`x.flat`: the elements of an array in C order, one after the other, to be read and written."""

    def __init__(self, array: Any) -> None:
        self.array = array

    def __len__(self) -> int:
        return int(self.array.size)

    def __iter__(self) -> Iterator[Any]:
        return iter(np.ravel(self.array))

    def copy(self) -> Any:
        return self.array.flatten()

    def __getitem__(self, index: Any) -> Any:
        return self.array[self._places(index)]

    def __setitem__(self, index: Any, value: Any) -> None:
        places = self._places(index)
        # A value that is too short is taken again from its start.
        self.array[places] = np.resize(value, places[0].shape) if np.ndim(value) else value

    def _places(self, index: Any) -> tuple[Any, ...]:
        return np.unravel_index(
            namespace_of(primal(self.array)).arange(self.array.size)[index], self.array.shape
        )


def _target(name: str, out: Any, operands: Any) -> TracedArray | None:
    """The traced array that `out=` names, or None; a plain one cannot take traced values."""
    outs = out if isinstance(out, tuple) else (out,)
    if len(outs) == 1 and type(outs[0]) is TracedArray:
        return outs[0]
    if any(type(each) is TracedArray for each in outs):
        raise InPlaceError(
            f"{name} with several out= arrays is not supported on traced values. Write y, z = {name}(...)."
        )
    if any(each is not None for each in outs) and has_open(operands):
        target = next(each for each in outs if each is not None)
        raise TracedValueError(
            f"{name} would write a traced value into {describe(target)} that is not traced (out= or an augmented "
            f"assignment such as `plain += x`), and its gradient would be lost. Write `y = ...` with a new name, or "
            f"`plain = plain + x`; or hold the array in a field, or make it with np.zeros_like(x)."
        )
    return None


def _check_plain(tape: Tape, values: Iterable[Any]) -> None:
    """Look at the plain arguments of a function before its rule takes them apart."""
    for value in values:
        if type(value) is list or type(value) is tuple:
            _check_plain(tape, value)
        elif type(value) is not TracedArray:
            check_shadow(tape, value)


def _no_kernel(kernel: Any) -> NoRuleError:
    return NoRuleError(
        f"CuPy's kernel {kernel.name!r} was called on a traced value, and it has no derivative rule. Write the function of "
        "NumPy's name, `np.…` for `cupy.…`: it reaches CuPy by way of its rule."
    )


def _ufunc_at(ufunc: np.ufunc, target: Any, index: Any, *values: Any) -> None:
    """`ufunc.at(target, index, value)`: repeated indices add up."""
    if type(target) is not TracedArray:
        raise TracedValueError(
            f"{ufunc.__name__}.at would write a traced value into {describe(target)} that is not traced. Hold the array in "
            "a field, or make it with np.zeros_like(x)."
        )
    if ufunc not in (np.add, np.subtract):
        raise no_rule(ufunc, ".at")
    index = plain_index(index, target)  # a copy, which the caller may overwrite
    shape = np.shape(primal(target)[index])
    spread_out = np.broadcast_to(values[0], shape) if np.shape(primal(values[0])) != shape else values[0]
    if type(spread_out) is TracedArray:
        if type(primal(spread_out)) in (float, complex):  # what is scattered has a dtype
            spread_out = spread_out.astype(np.result_type(target.dtype, primal(spread_out)))
        added: Any = scatter(spread_out, index, Spec(target.shape, target.dtype))
    else:
        check_shadow(target._tape, spread_out)
        added = zeros(Spec(target.shape, target.dtype), primal(target))
        add_at(added, index, spread_out)
    made = target + added if ufunc is np.add else target - added
    if type(primal(target)) is np.ndarray:
        # NumPy adds one after the other, and not their sum. The contents are the plain run's to the last bit.
        contents = primal(target).copy()
        ufunc.at(contents, index, primal(values[0]))
        made = _with_contents(made if made.dtype == contents.dtype else made.astype(contents.dtype), contents)
    replace(target, made)


def _with_contents(made: Any, contents: Any) -> Any:
    """A sum with the same derivative and these contents; no entry reads the value of a sum."""
    if type(made) is not TracedArray:
        return contents
    layer = made
    while type(layer._value) is TracedArray:
        layer = layer._value
    layer._value = contents
    return made


def _binary(  # noqa: C901 - the hot path
    op: Callable[[Any, Any], Any], ufunc: np.ufunc
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator method and its reflection for a ufunc with a rule."""
    row = rule(ufunc)
    keep = row.keep  # filled when the rules are read

    def method(self: TracedArray, other: Any) -> Any:
        kind = type(other)
        if kind is TracedArray:
            tape = self._tape
            entries = tape.entries
            if type(entries) is list and other._tape is tape:
                # The most frequent case is written out here: a call would cost a third of what this does.
                if tape.thread != get_ident():
                    tape.refuse_elsewhere()
                x = self._value
                z = other._value
                y = op(x, z)
                keep_y, keep_x, keep_z = keep[3]
                traced: TracedArray = _new(TracedArray)
                traced._base = None
                traced._value = y
                traced._tape = tape
                traced._node = len(entries)
                saved = (y if keep_y else None, x if keep_x else None, z if keep_z else None)
                try:
                    entries.append((row, (self._node, other._node), saved, y.shape, y.dtype))
                except AttributeError:  # a Python number
                    dtype = COMPLEX128 if type(y) is complex else FLOAT64
                    entries.append((row, (self._node, other._node), saved, (), dtype))
                return traced
        elif kind is float or kind is int:
            tape = self._tape
            entries = tape.entries
            if entries is not None and row.kind == "elementwise":
                x = self._value
                y = op(x, other)
                keep_y, keep_x, _ = keep[1]
                saved = (y if keep_y else None, x if keep_x else None, other)
                return append(entries, tape, row, (self._node, -1), saved, y, (x, other))
        elif kind not in PLAIN and not _is_operand(other):
            return NotImplemented
        return apply_binary(op, row, self, other)

    def reflected(self: TracedArray, other: Any) -> Any:
        kind = type(other)
        if kind is float or kind is int:
            tape = self._tape
            entries = tape.entries
            if entries is not None and row.kind == "elementwise":
                x = self._value
                y = op(other, x)
                keep_y, _, keep_x = keep[2]
                saved = (y if keep_y else None, other, x if keep_x else None)
                return append(entries, tape, row, (-1, self._node), saved, y, (other, x))
        elif kind not in PLAIN and not _is_operand(other):
            return NotImplemented
        return apply_binary(op, row, other, self)

    return method, reflected


def _quotient(self: TracedArray, other: Any) -> Any:
    """`other / self`, and with it the logistic function ``1 / (1 + np.exp(-x))``."""
    kind = type(other)
    if (kind is int or kind is float) and other == 1:
        tape = self._tape
        entries = tape.entries
        if type(entries) is list:
            node = operand_of_logistic(entries, self._node)
            if node >= 0:
                return append_logistic(tape, entries, node, self, other / self._value)
    return _divided(self, other)


def _product(self: TracedArray, other: Any) -> Any:
    """`self @ other`. The product of matrices, and of one with a vector, is written out, for speed."""
    kind = type(other)
    if kind is TracedArray:
        tape = self._tape
        entries = tape.entries
        if type(entries) is list and other._tape is tape:
            a = self._value
            b = other._value
            if is_product(MATMUL, a, b) and tape.thread == get_ident():
                # Of two matrices the same as `@`, with 500 ns less of dispatch.
                y = a.dot(b) if a.ndim == b.ndim else operator.matmul(a, b)
                traced: TracedArray = _new(TracedArray)
                traced._base = None
                traced._value = y
                traced._tape = tape
                traced._node = len(entries)
                saved = (None, (a, b), PRODUCT)
                entries.append((MATMUL, (self._node, other._node), saved, y.shape, y.dtype))
                return traced
        return apply_binary(_matmul, MATMUL, self, other)
    if kind in PLAIN or _is_operand(other):
        return apply_binary(_matmul, MATMUL, self, other)
    return NotImplemented


def _is_operand(value: Any) -> bool:
    """Whether an operator of a traced value knows what to do with the other operand."""
    kind = type(value)
    return (
        kind is TracedArray
        or kind in PLAIN
        or is_array(value)
        or isinstance(value, np.generic | list | tuple)
    ) and getattr(value, "__array_ufunc__", True) is not None


def _matmul(a: Any, b: Any) -> Any:
    # For two matrices `dot` is the same product with 500 ns less of dispatch.
    if type(a) is np.ndarray and type(b) is np.ndarray and a.ndim == 2 and b.ndim == 2:
        return a.dot(b)
    return operator.matmul(a, b)


def _unary(op: Callable[[Any], Any], ufunc: np.ufunc) -> Callable[..., Any]:
    row = rule(ufunc)

    def method(self: TracedArray) -> Any:
        tape = self._tape
        entries = tape.entries
        if entries is None:
            if tape.pauses:
                refuse_outside(tape.pauses)
            return op(self._value)
        a = self._value
        y = op(a)
        keep_y, keep_a = row.keep[1]
        saved: Any = (y if keep_y else None, a if keep_a else None)
        if row.kind == "function":
            saved = (y if keep_y else None, (a if keep_a else spec_of(a),), NO_SETTINGS)
        return append(entries, tape, row, (self._node,), saved, y, (a,))

    return method


def _comparison(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: TracedArray, other: Any) -> Any:
        return op(primal(self), primal(other))

    return method


def _augmented(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: TracedArray, other: Any) -> Any:
        made = op(self, other)
        if write_view(self, made) if self._base is not None else take_over(self, made):
            return self
        # Python and NumPy scalars are immutable: the name is rebound.
        return replace(self, made) if is_array(primal(self)) else made

    return method


_, _divided = _binary(operator.truediv, np.divide)
_powered, _ = _binary(operator.pow, np.power)


def _power(self: TracedArray, other: Any) -> Any:
    """`self ** other`. A number between 1/2 and 1 as the exponent is a root, with a row of its own."""
    kind = type(other)
    if kind is float or kind is int:
        tape = self._tape
        entries = tape.entries
        if entries is not None:
            x = self._value
            y = x**other
            row: Any = _POWER.root if 0.5 <= other < 1 else _POWER
            keep_y, keep_x, _ = row.keep[1]
            saved = (y if keep_y else None, x if keep_x else None, other)
            return append(entries, tape, row, (self._node, -1), saved, y, (x, other))
    return _powered(self, other)


_conjugated = _unary(operator.methodcaller("conjugate"), np.conjugate)


def _install_operators() -> None:
    arithmetic = [
        ("add", operator.add, np.add),
        ("sub", operator.sub, np.subtract),
        ("mul", operator.mul, np.multiply),
        ("truediv", operator.truediv, np.divide),
        ("mod", operator.mod, np.remainder),
        ("pow", operator.pow, np.power),
    ]
    for name, op, ufunc in arithmetic:
        method, reflected = _binary(op, ufunc)
        setattr(TracedArray, f"__{name}__", method)
        setattr(TracedArray, f"__r{name}__", reflected)
        setattr(TracedArray, f"__i{name}__", _augmented(op))
    _, reflected = _binary(_matmul, np.matmul)  # `ndarray @ traced`
    others: dict[str, Any] = {
        "__matmul__": _product,
        "__rmatmul__": reflected,
        "__imatmul__": _augmented(operator.matmul),
        "__ifloordiv__": _augmented(operator.floordiv),
        "__rtruediv__": _quotient,
        "__pow__": _power,
        "__neg__": _unary(operator.neg, np.negative),
        "__abs__": _unary(abs, np.absolute),
    }
    for name, member in others.items():
        setattr(TracedArray, name, member)
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        setattr(TracedArray, f"__{op.__name__}__", _comparison(op))


def _function_method(function: Callable[..., Any]) -> Callable[..., Any]:
    row = rule(function)

    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        if row.simple and "out" not in kwargs:
            return apply(row, (self, *args), kwargs)  # past NumPy's dispatch
        return function(self, *args, **kwargs)

    return method


def _install_methods() -> None:
    """Methods of ndarray that are NumPy functions with the array as the first argument."""
    names = (
        "sum prod mean std var max min ptp cumsum cumprod all any argmax argmin argsort nonzero round clip "
        "dot repeat ravel squeeze swapaxes take trace diagonal searchsorted argpartition choose"
    )
    for name in names.split():
        setattr(TracedArray, name, _function_method(getattr(np, name)))
    for name in ("resize", "setflags"):
        setattr(TracedArray, name, _refuse_method(name))
    for name in ("shape", "dtype", "strides", "data"):
        present = vars(TracedArray).get(name)
        getter = _unavailable(name) if present is None else present.fget
        setattr(TracedArray, name, property(getter, _refuse_setting(name)))


def _refuse_method(name: str) -> Callable[..., Any]:
    def method(self: TracedArray, *_args: Any, **_kwargs: Any) -> NoReturn:
        raise InPlaceError(
            f"x.{name}() changes a traced value, {describe(primal(self))}, in place, which is not differentiated "
            "by this method. Use the NumPy function that returns a new array."
        )

    return method


def _unavailable(name: str) -> Callable[..., Any]:
    return lambda self: self.__getattr__(name)


def _refuse_setting(name: str) -> Callable[..., None]:
    def setter(self: TracedArray, value: Any) -> NoReturn:
        raise InPlaceError(
            f"x.{name} = {value!r} changes what a traced array is, {describe(primal(self))}, under all of its names. Write "
            f"x = x.reshape(...), x = x.astype(...) or another function that gives a new array."
        )

    return setter


for _name, _member in vars(Operations).items():
    if _name not in {"__module__", "__doc__", "__dict__", "__weakref__", "__qualname__"}:
        setattr(TracedArray, _name, _member)
_install_operators()
_install_methods()
