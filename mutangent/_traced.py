"""`TracedArray`: a number or array inside a recording.

It holds a plain value and the number of its node on a tape. NumPy's functions reach it by the protocols NEP 13
(`__array_ufunc__`) and NEP 18 (`__array_function__`), Python's operators directly. Each operation computes the plain
result exactly as the plain program would, appends one entry to the tape, and wraps the result. The value may itself be
traced by an outer recording: recordings nest, and the innermost open tape among the operands gets the entry. That
alone gives higher derivatives.

A traced value never loses its gradient silently: what would take the number out of the recording (`float(t)`,
`np.asarray(t)`, `plain[i] = t`) raises while the recording is open. Once the recording is closed the value is a
constant like any other.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn

import numpy as np

from ._arrays import COMPLEX128, FLOAT64, Array, Spec, describe, is_array, is_differentiable, spec_of
from ._errors import GradientTypeError, InPlaceError, NoRuleError, RuleError, TracedValueError
from ._rulebook import Rule, function, no_rule, rule
from ._tape import CALL, INDEX, LEAF, SCATTER, UNPACK, Tape

_new: Final = object.__new__
_EMPTY: Final[dict[str, Any]] = {}
# Operand types for which the operator of the traced value may go straight to the rule. Any other type (subclasses of
# ndarray, other libraries, tangents) takes the careful path.
_PLAIN: Final = frozenset(
    {np.ndarray, float, int, bool, complex, np.float16, np.float32, np.float64, np.complex64, np.complex128}
    | {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_}
)


class TracedArray:
    """A value that a recording follows. Users meet it only inside recorded functions.

    It behaves as the array (or number) it stands for, also to `isinstance`; `mutangent.primal(t)` gives the plain value.
    """

    __slots__ = ("__weakref__", "_node", "_tape", "_value")
    __array_priority__ = 1000.0

    _value: Any
    _tape: Tape
    _node: int

    def __init__(self) -> None:
        raise TypeError("traced values are made by a recording; use mutangent.Context or mutangent.grad")

    # -- what it looks like -------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # So that `isinstance(x, np.ndarray)` in users' code and validators answers as in the plain run.
        return type(primal(self))

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(primal(self))

    @property
    def ndim(self) -> int:
        return np.ndim(primal(self))

    @property
    def size(self) -> int:
        return np.size(primal(self))

    @property
    def dtype(self) -> np.dtype[Any]:
        return spec_of(primal(self)).dtype

    @property
    def itemsize(self) -> int:
        return self.dtype.itemsize

    @property
    def nbytes(self) -> int:
        return self.size * self.dtype.itemsize

    @property
    def T(self) -> Any:
        return _apply(_TRANSPOSE, (self,), _EMPTY)

    @property
    def mT(self) -> Any:
        return np.matrix_transpose(self)

    @property
    def real(self) -> Any:
        return np.real(self)

    @property
    def imag(self) -> Any:
        return np.imag(self)

    @property
    def flat(self) -> Any:
        return iter(np.ravel(self))

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return f"TracedArray({primal(self)!r})"

    def __str__(self) -> str:
        return str(primal(self))

    def __format__(self, spec: str) -> str:
        return format(primal(self), spec)

    def __hash__(self) -> int:
        return hash(primal(self))

    def __bool__(self) -> bool:
        return bool(primal(self))

    # -- leaving the recording ----------------------------------------------------------------------------------------

    def __float__(self) -> float:
        return float(_release(self, "float(x)", "Use x itself, or np.sin instead of math.sin"))

    def __int__(self) -> int:
        return int(_release(self, "int(x)", "For a decision or an index write int(mutangent.primal(x))"))

    def __complex__(self) -> complex:
        return complex(_release(self, "complex(x)", "Use x itself, or x + 0j"))

    def __index__(self) -> NoReturn:
        raise TypeError(f"a float cannot be an index: {describe(primal(self))}")

    def __round__(self, digits: int | None = None) -> Any:
        return round(_release(self, "round(x)", "Write np.round(x), which is constant"), digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = _release(
            self,
            "conversion to a plain array (np.asarray, np.array([x, y]), plain[i] = x)",
            "Use x as it is; write np.stack([x, y]) for np.array([x, y]), np.stack or np.where for plain[i] = x",
        )
        return np.array(value, dtype) if copy is not False else np.asarray(value, dtype)

    def tolist(self) -> Any:
        return _release(self, "x.tolist()", "Write list(x)").tolist()

    def tobytes(self) -> Any:
        return _release(self, "x.tobytes()", "Write mutangent.primal(x).tobytes()").tobytes()

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = _release(self, "pickling", "Pickle after the recording, or pickle mutangent.primal(x)")
        return _itself, (value,)

    # -- copies and conversions that keep the gradient ----------------------------------------------------------------

    def __copy__(self) -> Any:
        return self.copy()

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        return self.copy()

    def copy(self, order: str = "C") -> Any:
        if not is_array(primal(self)):
            return self  # Python and NumPy scalars are immutable, and stay scalars
        return np.copy(self, order)  # type: ignore[call-overload]

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Any:
        return _apply(_ASTYPE, (self, np.dtype(dtype)), _EMPTY)

    def item(self, *index: Any) -> Any:
        if index:
            return self[index if len(index) > 1 else index[0]].item()
        return _apply(_ITEM, (self,), _EMPTY)

    # -- indexing -----------------------------------------------------------------------------------------------------

    def __getitem__(self, index: Any) -> Any:
        tape = self._tape
        entries = tape.entries
        if entries is None:
            return self._value[index]
        index = _plain_index(index)
        value = self._value[index]
        if type(value) is not TracedArray and not is_differentiable(value):
            return value
        return _append(entries, tape, INDEX, self._node, index, value)

    def __setitem__(self, index: Any, value: Any) -> NoReturn:
        raise InPlaceError(
            f"x[...] = v writes in place into a traced value, {describe(primal(self))}, which is not differentiated "
            "yet. Build a new array: np.where(mask, v, x), np.concatenate or np.stack."
        )

    def __delitem__(self, index: Any) -> NoReturn:
        raise TypeError("cannot delete array elements")

    def __iter__(self) -> Iterator[Any]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[k] for k in range(len(self)))

    def __contains__(self, item: Any) -> bool:
        return bool(np.any(primal(self) == primal(item)))

    def _scatter(self, index: Any, spec: Spec) -> Any:
        """Zeros of `spec` with this value added at `index`: what an inner sweep needs for indexing."""
        value = self._value
        if type(value) is TracedArray:
            value = value._scatter(index, spec)
        else:
            from ._accumulate import Cotangents

            buffer = Cotangents(1)
            buffer.scatter(0, index, value, spec)
            value = buffer.slots[0]
        tape = self._tape
        if tape.entries is None:
            return value
        return _append(tape.entries, tape, SCATTER, self._node, index, value)

    # -- NumPy's protocols --------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if not kwargs and method == "__call__":
            row = rule(ufunc)
            if row.kind == "elementwise":
                if len(inputs) == 1:
                    tape = self._tape
                    if tape.entries is not None:
                        a = self._value
                        y = ufunc(a)
                        keep_y, keep_a = row.keep[1]
                        saved = (y if keep_y else None, a if keep_a else None)
                        return _append(tape.entries, tape, row, (self._node,), saved, y)
                elif len(inputs) == 2:
                    return _apply_binary(ufunc, row, *inputs)
            elif row is _MATMUL:
                return _apply_binary(_matmul, row, *inputs)
            return _apply(row, inputs, kwargs)
        out = kwargs.pop("out", None)
        if out is not None:
            _refuse_out(ufunc.__name__, out, inputs)
        if method == "__call__":
            if kwargs.get("where", True) is not True:
                raise no_rule(ufunc, " with where=")
            kwargs.pop("where", None)
            return _apply(rule(ufunc), inputs, kwargs)
        if method == "reduce" and ufunc in _REDUCTIONS:
            kwargs.setdefault("axis", 0)
            return _apply(rule(_REDUCTIONS[ufunc]), inputs, kwargs)
        raise no_rule(ufunc, f".{method}")

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if kwargs.get("out") is not None:
            _refuse_out(function.__name__, kwargs["out"], args)
        return _apply(rule(function), args, kwargs)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        plain = primal(self)
        if hasattr(plain, name):
            raise NoRuleError(
                f"`.{name}` of {describe(plain)} is not available on a traced value: it has no derivative rule. Use a "
                "NumPy function that has one, or `mutangent.primal(x)` for the plain value."
            )
        raise AttributeError(f"{type(plain).__name__!r} object has no attribute {name!r}")

    # -- operators: filled in below -----------------------------------------------------------------------------------

    def __pos__(self) -> Any:
        return np.positive(self)

    def __abs__(self) -> Any:
        return np.absolute(self)

    def __divmod__(self, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self, other: Any) -> Any:
        return other // self, other % self


def primal(x: Any) -> Any:
    """The plain value of a traced one; anything else is returned as it is.

    Parameters
    ----------
    x : object
        A traced value, or anything.

    Returns
    -------
    object
        The value without tracing. It is not a copy. Derivatives do not flow through it.

    Examples
    --------
    >>> import mutangent as mt
    >>> def loss(x):
    ...     print("x is", mt.primal(x))
    ...     return x**2
    >>> mt.grad(loss)(3.0)
    x is 3.0
    6.0
    """
    while type(x) is TracedArray:
        x = x._value
    return x


def _itself(value: Any) -> Any:
    return value


def _release(x: TracedArray, what: str, instead: str) -> Any:
    """The plain value, unless it would leave a recording that is still open."""
    value: Any = x
    while type(value) is TracedArray:
        if value._tape.entries is not None:
            raise TracedValueError(
                f"{what} would silently lose the gradient of a traced value, {describe(primal(x))}. {instead}; "
                "for the plain value without a gradient write mutangent.primal(x)."
            )
        value = value._value
    return value


def _refuse_out(name: str, out: Any, operands: Any) -> None:
    outs = out if isinstance(out, tuple) else (out,)
    if any(type(each) is TracedArray for each in outs):
        raise InPlaceError(
            f"{name}(..., out=x) writes in place into a traced value, which is not differentiated yet. "
            f"Write y = {name}(...)."
        )
    if any(each is not None for each in outs) and _open_operands(operands):
        target = next(each for each in outs if each is not None)
        raise TracedValueError(
            f"{name} would write a traced value into {describe(target)} that is not traced (out= or an augmented "
            f"assignment such as `plain += x`), and its gradient would be lost. Write `y = ...` with a new name, or "
            f"`plain = plain + x`."
        )


def _open_operands(operands: Any) -> bool:
    found: list[TracedArray] = []
    _collect(operands, found)
    return bool(found)


def _collect(value: Any, found: list[TracedArray]) -> None:
    """Append the outermost layer that is still open of every traced value in `value`."""
    if type(value) is TracedArray:
        layer: Any = value
        while type(layer) is TracedArray and layer._tape.entries is None:
            layer = layer._value
        if type(layer) is TracedArray:
            found.append(layer)
    elif type(value) is tuple or type(value) is list:
        for item in value:
            _collect(item, found)


def _lower(value: Any, tape: Tape) -> Any:
    """`value` as seen one level below `tape`: its own traced values, and those of closed tapes, become plain."""
    if type(value) is TracedArray:
        while type(value) is TracedArray and (value._tape is tape or value._tape.entries is None):
            value = value._value
        return value
    if type(value) is tuple:
        return tuple(_lower(item, tape) for item in value)
    if type(value) is list:
        return [_lower(item, tape) for item in value]
    return value


def _plain_index(index: Any) -> Any:
    """The index with traced parts made plain, and with copies of arrays that the caller could change later."""
    if type(index) is tuple:
        return tuple(_plain_index(part) for part in index)
    if type(index) is TracedArray:
        return primal(index)
    if type(index) is np.ndarray or type(index) is list:
        return np.array(index) if len(index) else np.array(index, np.intp)
    return index


def new_traced(tape: Tape, node: int, value: Any) -> TracedArray:
    """A traced value for a node that exists already."""
    traced: TracedArray = _new(TracedArray)
    traced._value = value
    traced._tape = tape
    traced._node = node
    return traced


def new_leaf(entries: list[Any], tape: Tape, value: Any) -> TracedArray:
    """A traced value with nothing behind it: the value that a field or an argument held on entry."""
    spec = spec_of(value)
    entries.append((LEAF, -1, None, spec.shape, spec.dtype))
    return new_traced(tape, len(entries) - 1, value)


def _append(entries: list[Any], tape: Tape, rule: Any, parents: Any, saved: Any, value: Any) -> TracedArray:
    try:
        shape, dtype = value.shape, value.dtype
    except AttributeError:
        shape, dtype = (), COMPLEX128 if type(value) is complex else FLOAT64
    traced: TracedArray = _new(TracedArray)
    traced._value = value
    traced._tape = tape
    traced._node = len(entries)
    entries.append((rule, parents, saved, shape, dtype))
    return traced


def new_outputs(
    entries: list[Any], tape: Tape, pull: Callable[[dict[int, Any]], Any], values: list[Any]
) -> list[TracedArray]:
    """Traced values for the results of a call whose derivative is the closure `pull`.

    `pull` takes a dict from the number of a result to its cotangent and yields pairs (node, contribution).
    """
    call = len(entries)
    entries.append((CALL, -1, pull, (), None))
    return [_append(entries, tape, UNPACK, call, number, value) for number, value in enumerate(values)]


# -- applying a rule ---------------------------------------------------------------------------------------------------


def _apply(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function of `row` and record it on the innermost open tape among its arguments."""
    first = args[0] if args else None
    if (
        type(first) is TracedArray
        and row.kind == "function"
        and first._tape.entries is not None
        and row.refuse is None
        and not row.multiple
        and (len(args) == 1 or _all_static(args, 1))
        and (not kwargs or (_all_static(tuple(kwargs.values()), 0) and row.keywords.keys().isdisjoint(kwargs)))
        and row.accepts is not None
        and len(args) <= row.accepts[0]
        and kwargs.keys() <= row.accepts[1]
    ):
        # One traced operand, in front, and settings: the case that has to be fast.
        x = first._value
        y = row.function(x, *args[1:], **kwargs)
        if type(y) is TracedArray or type(y) is np.ndarray or is_differentiable(y):
            keep = row.keep[1]
            kept = x if keep[1] else spec_of(x)
            nodes = (first._node,) if len(row.expressions) == 1 else (first._node,) + (-1,) * (len(row.expressions) - 1)
            saved = (y if keep[0] else spec_of(y), (kept, *args[1:]), kwargs)
            if type(y) is not np.ndarray or y.dtype.kind in "fc":
                return _append(first._tape.entries, first._tape, row, nodes, saved, y)
        elif isinstance(y, list | tuple):
            raise no_rule(row.function, f" with {len(y)} results")
        return y
    found: list[TracedArray] = []
    _collect(args, found)
    if kwargs:
        _collect(tuple(kwargs.values()), found)
    tape: Tape | None = None
    for traced in found:
        if tape is None or traced._tape.serial > tape.serial:
            tape = traced._tape
    function = row.function
    if tape is None:  # every recording is closed: constants
        return function(*[_lower(a, _CLOSED) for a in args], **{k: _lower(v, _CLOSED) for k, v in kwargs.items()})
    kind = row.kind
    if kind == "composed":
        return row.user(*args, **kwargs)  # type: ignore[misc]
    if kind == "constant":
        return function(*(_lower(a, tape) for a in args), **{k: _lower(v, tape) for k, v in kwargs.items()})
    if not kind:
        raise no_rule(function)
    if kind == "user":
        return _apply_user(row, tape, args, kwargs)
    operands = len(row.expressions)
    if kwargs:
        kwargs = {name: value for name, value in kwargs.items() if value is not np._NoValue and name != "out"}
        if kind == "function" and not row.keywords.keys().isdisjoint(kwargs):
            args, kwargs = _as_positional(row, args, kwargs)
    if row.accepts is not None and (len(args) > row.accepts[0] or not kwargs.keys() <= row.accepts[1]):
        unknown = [f"{name}=" for name in kwargs if name not in row.accepts[1]]
        raise no_rule(function, f" with {', '.join(unknown) or f'{len(args)} arguments'}")
    _refuse_nested(row, args[1:] if row.sequence else args)
    values = tuple([_lower(a, tape) for a in args])
    if not row.sequence:
        values = tuple([_operand(value) if k < operands else value for k, value in enumerate(values)])
    if row.refuse is not None:
        reason = row.refuse(*values, **kwargs)
        if reason:
            raise no_rule(function, f" with {reason}")
    y = function(*values, **kwargs)
    entries: Any = tape.entries
    if row.sequence:
        return _append_sequence(row, tape, args, values, kwargs, y)
    mask = 0
    parents: list[int] = []
    for k, arg in enumerate(args):
        layer = _level(arg, tape) if type(arg) is TracedArray else None
        if layer is not None:
            if k >= operands or row.expressions[k] is None:
                raise no_rule(function, f" with respect to argument {k}")
            mask |= 1 << k
        if k < operands:
            parents.append(-1 if layer is None else layer._node)
    parents += [-1] * (operands - len(parents))
    keep = row.keep[mask]
    if kind == "elementwise":
        if kwargs.keys() - {"dtype", "casting"}:
            raise no_rule(function, f" with {', '.join(kwargs)}=")
        kept = tuple([
            (v if mask >> k & 1 else tape.constant(v)) if keep[k + 1] else None for k, v in enumerate(values[:operands])
        ])
        if not is_differentiable(y) and type(y) is not TracedArray:
            return y
        return _append(entries, tape, row, parents, (y if keep[0] else None, *kept), y)
    kept_args = tuple([
        (v if mask >> k & 1 else tape.constant(v)) if k >= operands or keep[k + 1] else spec_of(v)
        for k, v in enumerate(values)
    ])
    if row.multiple:
        specs = tuple([spec_of(each) for each in y])
        call = len(entries)
        entries.append((row, parents, (specs, kept_args, kwargs), (), None))
        outputs = [_append(entries, tape, UNPACK, call, number, value) for number, value in enumerate(y)]
        return type(y)._make(outputs) if hasattr(type(y), "_make") else type(y)(outputs)
    if type(y) is not TracedArray and not is_differentiable(y):
        if isinstance(y, list | tuple) and any(type(each) is TracedArray or is_differentiable(each) for each in y):
            raise no_rule(function, f" with {len(y)} results")
        return y
    return _append(entries, tape, row, parents, (y if keep[0] else spec_of(y), kept_args, kwargs), y)


_STATIC: Final = frozenset({int, float, bool, str, type(None), slice, np.dtype, type})


def _all_static(values: tuple[Any, ...], start: int) -> bool:
    """Whether the values from `start` on are settings: numbers, names, and tuples of integers."""
    for value in values[start:]:
        if type(value) not in _STATIC and not (
            (type(value) is tuple or type(value) is list) and all(type(item) is int for item in value)
        ):
            return False
    return True


_CLOSED: Final = Tape([])
_CLOSED.entries = None


def _level(x: TracedArray, tape: Tape) -> TracedArray | None:
    """The layer of `x` that belongs to `tape`, under layers whose recordings are closed; None if there is none."""
    value: Any = x
    while type(value) is TracedArray:
        if value._tape is tape:
            return value
        if value._tape.entries is not None:
            return None
        value = value._value
    return None


def _operand(value: Any) -> Any:
    """An operand as rules expect it: lists become arrays, and `is_differentiable` refuses special subclasses."""
    if type(value) in _PLAIN:
        return value
    if type(value) is list or type(value) is tuple:
        return np.asarray(value)
    if is_array(value):
        is_differentiable(value)
    return value


def _refuse_nested(row: Rule, args: tuple[Any, ...]) -> None:
    """Refuse a list of traced values where the function expects one array: its items would become constants."""
    for arg in args:
        if (type(arg) is list or type(arg) is tuple) and _open_operands(arg):
            raise TracedValueError(
                f"{row.name} was given a {type(arg).__name__} of traced values for an array; making an array of them "
                "would silently lose their gradient. Write np.stack([...]) instead of the list."
            )


def _append_sequence(
    row: Rule, tape: Tape, args: tuple[Any, ...], values: tuple[Any, ...], kwargs: dict[str, Any], y: Any
) -> Any:
    """Record a function whose first operand is a sequence of arrays, such as `numpy.concatenate`."""
    items = args[0]
    if not isinstance(items, list | tuple):
        items = list(items)
        values = (list(values[0]), *values[1:])
    nodes = []
    _refuse_nested(row, tuple(items))
    for item in items:
        layer = _level(item, tape) if type(item) is TracedArray else None
        nodes.append(-1 if layer is None else layer._node)
    specs = tuple([spec_of(v) if hasattr(v, "shape") else spec_of(np.asarray(v)) for v in values[0]])
    saved = (spec_of(y), (specs, *values[1:]), kwargs)
    entries: Any = tape.entries
    return _append(entries, tape, row, (tuple(nodes),), saved, y)


def _as_positional(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move operands that were given by keyword to their position; one that is skipped there is None."""
    given = {row.keywords[name]: value for name, value in kwargs.items() if name in row.keywords}
    rest = {name: value for name, value in kwargs.items() if name not in row.keywords}
    for name, value in rest.items():
        if type(value) is TracedArray:
            raise no_rule(row.function, f" with respect to {name}=")
    last = max(given, default=-1)
    return (*args, *[given.get(k) for k in range(len(args), last + 1)]), rest


def _apply_user(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function with a user's rule for it."""
    assert row.user is not None
    values = [_lower(a, tape) for a in args]
    y, pullback = row.user(*values, **{k: _lower(v, tape) for k, v in kwargs.items()})
    layers = [_level(a, tape) if type(a) is TracedArray else None for a in args]

    def pull(cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        tangents = pullback(cotangents[0])
        if not isinstance(tangents, tuple) or len(tangents) != len(args):
            count = len(tangents) if isinstance(tangents, tuple) else f"a {type(tangents).__name__}"
            raise RuleError(
                f"the pullback of {row.name} returned {count} for {len(args)} arguments. Return a tuple with one "
                "tangent per argument, `(x_bar,)` for a single one."
            )
        for layer, tangent in zip(layers, tangents, strict=True):
            if layer is not None and hasattr(tangent, "shape"):
                yield layer._node, tangent

    entries: Any = tape.entries
    return new_outputs(entries, tape, pull, [y])[0]


# Reductions of ufuncs that are functions of their own in the rulebook.
_REDUCTIONS: Final[dict[Any, Any]] = {
    np.add: np.sum,
    np.multiply: np.prod,
    np.maximum: np.max,
    np.minimum: np.min,
}


def _item(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def _astype(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


# Methods that are no NumPy functions but have a derivative all the same.
function(_item, lambda g, _y, _x: np.reshape(g, _x.shape), linear=True)
function(_astype, lambda g, _y, _x, _dtype: g.astype(_x.dtype), linear=True)
_MATMUL: Final = rule(np.matmul)
_TRANSPOSE: Final = rule(np.transpose)
_ITEM: Final = rule(_item)
_ASTYPE: Final = rule(_astype)


# -- operators: straight to the rule ------------------------------------------------------------------------------------


def _binary(op: Callable[[Any, Any], Any], ufunc: np.ufunc) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """An operator method and its reflection for a ufunc with a rule."""
    row = rule(ufunc)

    def method(self: TracedArray, other: Any) -> Any:
        kind = type(other)
        if kind is TracedArray or kind in _PLAIN or _is_operand(other):
            return _apply_binary(op, row, self, other)
        return NotImplemented

    def reflected(self: TracedArray, other: Any) -> Any:
        if type(other) in _PLAIN or _is_operand(other):
            return _apply_binary(op, row, other, self)
        return NotImplemented

    return method, reflected


def _apply_binary(op: Callable[[Any, Any], Any], row: Rule, a: Any, b: Any) -> Any:
    """Record a function of two operands: the hot path of all operators and binary ufuncs.

    `op` computes the value: the operator itself for an operator, since Python numbers must stay Python numbers.
    """
    # One open tape, and nothing else that is traced: the case that has to be fast.
    if type(a) is TracedArray:
        tape = a._tape
        entries = tape.entries
        x = a._value
        if type(b) is TracedArray:
            if b._tape is not tape:
                return _apply_mixed(op, row, a, b)
            z = b._value
            parents = (a._node, b._node)
            mask = 3
        else:
            if type(b) not in _PLAIN:
                return _apply_mixed(op, row, a, b)
            z = b
            parents = (a._node, -1)
            mask = 1
    else:
        if type(a) not in _PLAIN:
            return _apply_mixed(op, row, a, b)
        tape = b._tape
        entries = tape.entries
        x = a
        z = b._value
        parents = (-1, b._node)
        mask = 2
    if entries is None or not row.kind:
        return _apply_mixed(op, row, a, b)
    y = op(x, z)
    keep_y, keep_x, keep_z = row.keep[mask]
    if mask != 3:
        if mask == 1:
            if keep_z and type(z) is np.ndarray:
                z = tape.constant(z)
        elif keep_x and type(x) is np.ndarray:
            x = tape.constant(x)
    saved: Any
    if row.kind == "elementwise":
        saved = (y if keep_y else None, x if keep_x else None, z if keep_z else None)
    else:
        saved = (y if keep_y else None, (x if keep_x else spec_of(x), z if keep_z else spec_of(z)), _EMPTY)
    try:
        shape, dtype = y.shape, y.dtype
    except AttributeError:
        shape, dtype = (), COMPLEX128 if type(y) is complex else FLOAT64
    traced: TracedArray = _new(TracedArray)
    traced._value = y
    traced._tape = tape
    traced._node = len(entries)
    entries.append((row, parents, saved, shape, dtype))
    return traced


def _is_operand(value: Any) -> bool:
    """Whether an operator of a traced value knows what to do with the other operand."""
    kind = type(value)
    return (
        kind is TracedArray or kind in _PLAIN or is_array(value) or isinstance(value, np.generic | list | tuple)
    ) and getattr(value, "__array_ufunc__", True) is not None


def _apply_mixed(op: Callable[[Any, Any], Any], row: Rule, a: Any, b: Any) -> Any:
    """The general case: operands of different recordings, of closed ones, lists and array subclasses."""
    found: list[TracedArray] = []
    _collect(a, found)
    _collect(b, found)
    if not found:
        return op(_lower(a, _CLOSED), _lower(b, _CLOSED))
    if not row.kind:
        raise no_rule(row.function)
    tape = max((layer._tape for layer in found), key=lambda t: t.serial)
    _refuse_nested(row, (a, b))
    operands = []
    for x in (a, b):
        layer = _level(x, tape) if type(x) is TracedArray else None
        # Seen from this level, an operand is either traced by it or has no layer of it.
        operands.append(_operand(_lower(x, tape)) if layer is None else layer)
    low_a, low_b = (x._value if type(x) is TracedArray and x._tape is tape else x for x in operands)
    mask = sum((type(x) is TracedArray and x._tape is tape) << k for k, x in enumerate(operands))
    y = op(low_a, low_b)
    keep_y, keep_a, keep_b = row.keep[mask]
    if not mask & 1:
        low_a = tape.constant(low_a)
    if not mask & 2:
        low_b = tape.constant(low_b)
    saved: Any = (y if keep_y else None, low_a if keep_a else None, low_b if keep_b else None)
    if row.kind == "function":
        kept = (low_a if keep_a else spec_of(low_a), low_b if keep_b else spec_of(low_b))
        saved = (y if keep_y else None, kept, _EMPTY)
    parents = tuple(x._node if mask >> k & 1 else -1 for k, x in enumerate(operands))
    entries: Any = tape.entries
    return _append(entries, tape, row, parents, saved, y)


def _matmul(a: Any, b: Any) -> Any:
    # For two matrices `dot` is the same product with 500 ns less of dispatch.
    if type(a) is np.ndarray and type(b) is np.ndarray and a.ndim == 2 and b.ndim == 2:
        return a.dot(b)
    return operator.matmul(a, b)


def _floordiv(self: TracedArray, other: Any) -> Any:
    return operator.floordiv(primal(self), primal(other))  # a staircase: constant


def _rfloordiv(self: TracedArray, other: Any) -> Any:
    return operator.floordiv(primal(other), primal(self))


def _unary_negative(self: TracedArray) -> Any:
    tape = self._tape
    entries = tape.entries
    if entries is None:
        return -self._value
    return _append(entries, tape, _NEGATIVE, (self._node,), (None, None), -self._value)  # the row reads nothing


_NEGATIVE: Final = rule(np.negative)


def _comparison(op: Callable[[Any, Any], Any]) -> Callable[..., Any]:
    def method(self: TracedArray, other: Any) -> Any:
        return op(primal(self), primal(other))

    return method


def _in_place(op: Callable[[Any, Any], Any], sign: str) -> Callable[..., Any]:
    def method(self: TracedArray, other: Any) -> Any:
        if is_array(primal(self)):
            raise InPlaceError(
                f"x {sign}= y writes in place into a traced value, {describe(primal(self))}, which is not "
                f"differentiated yet. Write x = x {sign} y."
            )
        return op(self, other)  # Python and NumPy scalars are immutable: the name is rebound

    return method


def _install_operators() -> None:
    arithmetic = [
        ("add", "+", operator.add, np.add),
        ("sub", "-", operator.sub, np.subtract),
        ("mul", "*", operator.mul, np.multiply),
        ("truediv", "/", operator.truediv, np.divide),
        ("mod", "%", operator.mod, np.remainder),
        ("pow", "**", operator.pow, np.power),
    ]
    for name, sign, op, ufunc in arithmetic:
        method, reflected = _binary(op, ufunc)
        setattr(TracedArray, f"__{name}__", method)
        setattr(TracedArray, f"__r{name}__", reflected)
        setattr(TracedArray, f"__i{name}__", _in_place(op, sign))
    method, reflected = _binary(_matmul, np.matmul)
    others: dict[str, Any] = {
        "__floordiv__": _floordiv,
        "__rfloordiv__": _rfloordiv,
        "__ifloordiv__": _in_place(operator.floordiv, "//"),
        "__matmul__": method,
        "__rmatmul__": reflected,
        "__imatmul__": _in_place(operator.matmul, "@"),
        "__neg__": _unary_negative,
    }
    for name, method in others.items():
        setattr(TracedArray, name, method)
    for op in (operator.lt, operator.le, operator.gt, operator.ge, operator.eq, operator.ne):
        setattr(TracedArray, f"__{op.__name__}__", _comparison(op))


def _function_method(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(self: TracedArray, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    return method


def _install_methods() -> None:
    """Methods of ndarray that are NumPy functions with the array as the first argument."""
    names = (
        "sum prod mean std var max min ptp cumsum cumprod all any argmax argmin argsort nonzero round clip conj "
        "conjugate dot repeat ravel squeeze swapaxes take trace diagonal searchsorted compress choose"
    )
    for name in names.split():
        setattr(TracedArray, name, _function_method(getattr(np, name)))
    setattr(TracedArray, "flatten", lambda self, order="C": np.copy(np.ravel(self, order)))  # noqa: B010 - after the class
    TracedArray.reshape = _reshape  # type: ignore[attr-defined]
    TracedArray.transpose = _transpose  # type: ignore[attr-defined]
    for name in ("sort", "partition", "fill", "put", "resize", "itemset", "setflags"):
        setattr(TracedArray, name, _refuse_method(name))


def _reshape(self: TracedArray, *shape: Any, order: str = "C") -> Any:
    return np.reshape(self, shape[0] if len(shape) == 1 else shape, order)  # type: ignore[call-overload]


def _transpose(self: TracedArray, *axes: Any) -> Any:
    return np.transpose(self, None if not axes or axes == (None,) else axes[0] if np.ndim(axes[0]) else axes)


def _refuse_method(name: str) -> Callable[..., Any]:
    def method(self: TracedArray, *args: Any, **kwargs: Any) -> NoReturn:
        raise InPlaceError(
            f"x.{name}() writes in place into a traced value, {describe(primal(self))}, which is not differentiated "
            "yet. Use the NumPy function that returns a new array."
        )

    return method


_install_operators()
_install_methods()


def require_scalar(value: Any, name: str) -> None:
    """Raise unless `value` is a real scalar, as a gradient needs."""
    plain = primal(value)
    if not (is_differentiable(plain) or isinstance(plain, int | np.integer | np.bool_)):
        raise GradientTypeError(
            f"the result of {name} is {describe(plain)}, and a gradient needs a real scalar. Return one number, or use "
            "mutangent.vjp, or has_aux=True for a second result."
        )
    if np.shape(plain) != ():
        raise GradientTypeError(
            f"the result of {name} is {describe(plain)}, and a gradient needs a scalar. Reduce it, for example with "
            "np.sum, or use mutangent.vjp with a cotangent of that shape."
        )
    if spec_of(plain).dtype.kind == "c":
        raise GradientTypeError(
            f"the result of {name} is complex, and a gradient needs a real scalar. Take np.abs(z)**2 or z.real, or use "
            "mutangent.vjp with a complex cotangent."
        )
