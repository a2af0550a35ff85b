"""How an operation on traced values is recorded.

Each operation computes the plain result exactly as the plain program would, one layer down, appends one entry to the
innermost open tape among its operands, and wraps the result. Since the layer below may be traced as well, an outer
recording sees the same operation on its own values: that alone gives higher derivatives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ._accumulate import Cotangents, is_basic_index
from ._arrays import COMPLEX128, FLOAT64, Spec, is_array, is_differentiable, spec_of
from ._errors import MutangentError, RuleError, TracedValueError
from ._in_place import check_shadow, constant_array, detached, new_array, plain_index
from ._rulebook import Rule, function, no_rule, rule
from ._tape import INDEX, SCATTER, UNPACK, Tape
from ._traced import CLOSED, TracedArray, append, collect, has_open, level_of, lower, new_outputs, primal
from ._views import Again, is_item_view, is_view_of, makes_view, quiet_view, register_view, root_of

_new: Final = object.__new__
EMPTY: Final[dict[str, Any]] = {}
# Operand types for which the operator of the traced value may go straight to the rule. Any other type (subclasses of
# ndarray, other libraries, tangents) takes the careful path.
PLAIN: Final = frozenset(
    {np.ndarray, float, int, bool, complex, np.float16, np.float32, np.float64, np.complex64, np.complex128}
    | {np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64, np.bool_}
)


def apply(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function of `row` and record it on the innermost open tape among its arguments."""
    if args and type(args[0]) is TracedArray and _is_simple(row, args, kwargs):
        return _apply_simple(row, args, kwargs)
    found: list[TracedArray] = []
    collect(args, found)
    if kwargs:
        collect(tuple(kwargs.values()), found)
    if not found:
        return _apply_to_constants(row, args, kwargs)
    tape = max((traced._tape for traced in found), key=_serial)
    kind = row.kind
    if kind == "composed":
        return _apply_composed(row, args, kwargs)
    if kind == "constant":
        return row.function(
            *lower(args, tape), **{name: lower(value, tape) for name, value in kwargs.items()}
        )
    if kind == "user":
        return _apply_user(row, tape, args, kwargs)
    if not kind:
        raise no_rule(row.function)
    if kwargs:
        args, kwargs = _as_positional(row, args, kwargs)
    _check_settings(row, args, kwargs)
    if row.sequence:
        return _apply_sequence(row, tape, args, kwargs)
    return _apply_general(row, tape, args, kwargs)


def _apply_composed(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call what a function is written as. Arguments that the function itself refuses get its own error."""
    try:
        return row.user(*args, **kwargs)  # type: ignore[misc]
    except MutangentError:
        raise
    except Exception:
        if not any(map(callable, (*args, *kwargs.values()))):  # a caller's function is called once
            # Copies, since some functions write into their operands.
            row.function(*_copied(args), **dict(zip(kwargs, _copied(tuple(kwargs.values())), strict=True)))
        raise


def _copied(value: Any) -> Any:
    if type(value) is tuple or type(value) is list:
        return type(value)([_copied(item) for item in value])
    plain = primal(value)
    return plain.copy() if is_array(plain) else plain


def _apply_to_constants(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call with plain values, since nothing is recorded; a view of an array that may be written stays tied to it."""
    first = args[0] if args and type(args[0]) is TracedArray else None
    if first is not None and row.kind == "composed":
        return row.user(*args, **kwargs)  # type: ignore[misc]
    kwargs = {name: lower(value, CLOSED) for name, value in kwargs.items()}
    rest = lower(args[1:], CLOSED)
    if first is None or row.kind == "constant":
        return row.function(*lower(args[:1], CLOSED), *rest, **kwargs)
    if first._tape.all is None:
        return _shown(row.function(lower(first, CLOSED), *rest, **kwargs), first)
    y = row.function(first._value, *rest, **kwargs)
    if row.multiple:
        made = [_tied(row, each, first, Again(row.function, rest, kwargs, k)) for k, each in enumerate(y)]
        return type(y)._make(made) if hasattr(type(y), "_make") else type(y)(made)
    return _tied(row, y, first, Again(row.function, rest, kwargs))


# Functions whose result is for writing, a copy or not; the strides decide.
_COPYING: Final = frozenset({np.copy, np.reshape, np.ravel})


def _tied(row: Rule, y: Any, x: TracedArray, how: Again) -> Any:
    """The result of a constant operation: a view of `x` as such, a copy of a sleeping array as another one."""
    if y is x._value:
        return x
    if is_array(y) and is_differentiable(primal(y)):
        if row.linear and makes_view(y, x, how):
            return quiet_view(y, x, how)
        if x._tape.owner is not None and row.function in _COPYING:
            return constant_array(x._tape.owner, y)
    return y


def _shown(y: Any, x: TracedArray) -> Any:
    """A value made from one of a closed recording, read-only if it shares memory that a pullback may still read."""
    if is_view_of(y, primal(x)) and id(root_of(x)) not in x._tape.leaf_ids:
        y = y.view()
        y.flags.writeable = False
    return y


def make_array(row: Rule, like: TracedArray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that makes a new array, `numpy.zeros_like` for example, for which `like` is only a model."""
    values = (*args[1:], *kwargs.values())
    if has_open(values) or (args and args[0] is not like and has_open(args[:1])):
        raise no_rule(row.function, " with traced contents")
    plain = {name: primal(value) for name, value in kwargs.items()}
    return new_array(row.function(*[primal(arg) for arg in args], **plain), like)


def _serial(tape: Tape) -> int:
    return tape.serial


def _is_simple(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there is one traced operand, in front, and settings that the rule is known to understand."""
    return (
        row.kind == "function"
        and not row.multiple
        and (row.refuse is None or row.refuse(*args, **kwargs) is None)
        and args[0]._tape.entries is not None
        and row.expressions[0] is not None
        and (len(args) == 1 or _all_static(args, 1))
        and not any(type(arg) is list or type(arg) is tuple for arg in args[1 : len(row.expressions)])
        and len(args) <= row.accepts[0]  # type: ignore[index]
        and (
            not kwargs
            or (
                kwargs.keys() <= row.accepts[1]  # type: ignore[index]
                and row.keywords.keys().isdisjoint(kwargs)
                and _all_static(tuple(kwargs.values()), 0)
            )
        )
    )


def _apply_simple(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    traced = args[0]
    x = traced._value
    y = row.function(x, *args[1:], **kwargs)
    if not _is_number(row, y):
        return y
    keep = row.keep[1]
    nodes = (
        (traced._node,) if len(row.expressions) == 1 else (traced._node, *(-1,) * (len(row.expressions) - 1))
    )
    saved = (y if keep[0] else spec_of(y), (_strong(x) if keep[1] else spec_of(x), *args[1:]), kwargs)
    operands = (x, *args[1:])
    if not row.linear:
        return append(traced._tape.entries, traced._tape, row, nodes, saved, y, operands)
    if y is x:
        return traced
    made = append(traced._tape.entries, traced._tape, row, nodes, saved, y, operands)
    if is_view_of(primal(y), primal(x)):
        _register(made, traced, Again(row.function, args[1:], kwargs))
    return made


def _register(view: TracedArray, base: TracedArray, how: Again) -> None:
    if makes_view(view._value, base, how):
        register_view(view, base, how)


def _strong(x: Any) -> Any:
    """A traced number as pullbacks expect it, with a shape and a dtype."""
    return np.float64(x) if type(x) is float else np.complex128(x) if type(x) is complex else x


def _is_number(row: Rule, y: Any) -> bool:
    """Whether a result has a tangent space; refuse several results where the rule knows of one."""
    if type(y) is TracedArray or is_differentiable(y):
        return True
    if isinstance(y, list | tuple) and any(
        type(each) is TracedArray or is_differentiable(each) for each in y
    ):
        raise no_rule(row.function, f" with {len(y)} results")
    return False


def _check_settings(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse, at the call, arguments that the pullbacks do not know."""
    if row.accepts is not None:
        most, names = row.accepts
        if len(args) > most or not kwargs.keys() <= names:
            unknown = [f"{name}=" for name in kwargs if name not in names]
            raise no_rule(row.function, f" with {', '.join(unknown) or f'{len(args)} arguments'}")
    elif kwargs.keys() - {"dtype", "casting"}:
        raise no_rule(row.function, f" with {', '.join(kwargs)}=")


def _apply_general(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operands = len(row.expressions)
    _refuse_nested(row, args)
    values = tuple(
        [_operand(lower(arg, tape)) if k < operands else lower(arg, tape) for k, arg in enumerate(args)]
    )
    if row.refuse is not None:
        reason = row.refuse(*values, **kwargs)
        if reason:
            raise no_rule(row.function, f" with {reason}")
    layers = [level_of(arg, tape) if type(arg) is TracedArray else None for arg in args]
    for k, layer in enumerate(layers):
        if layer is not None and (k >= operands or row.expressions[k] is None):
            raise no_rule(row.function, f" with respect to argument {k}")
    y = row.function(*values, **kwargs)
    if not row.multiple and not _is_number(row, y):
        return y
    for value, layer in zip(values, layers, strict=True):
        if layer is None:
            check_shadow(tape, value)
    return _record(row, tape, values, layers, kwargs, y)


def _record(
    row: Rule,
    tape: Tape,
    values: tuple[Any, ...],
    layers: list[TracedArray | None],
    kwargs: dict[str, Any],
    y: Any,
) -> Any:
    """Append the entry of a call whose arguments have been checked."""
    operands = len(row.expressions)
    mask = sum((layer is not None) << k for k, layer in enumerate(layers))
    nodes = [-1 if layer is None else layer._node for layer in layers[:operands]]
    nodes += [-1] * (operands - len(nodes))
    keep = row.keep[mask]
    kept = [
        _constant(tape, value) if layer is None else value if row.kind == "elementwise" else _strong(value)
        for value, layer in zip(values, layers, strict=True)
    ]
    entries: Any = tape.entries
    if kwargs:
        kwargs = {name: _constant(tape, value) for name, value in kwargs.items()}
    if row.kind == "elementwise":
        read = [value if keep[k + 1] else None for k, value in enumerate(kept)]
        return append(entries, tape, row, nodes, (y if keep[0] else None, *read), y, values)
    read = [value if k >= operands or keep[k + 1] else spec_of(values[k]) for k, value in enumerate(kept)]
    source = layers[0] if row.linear and mask == 1 else None
    if not row.multiple:
        if source is not None and y is values[0]:
            return source
        saved = (y if keep[0] else spec_of(y), tuple(read), kwargs)
        made = append(entries, tape, row, nodes, saved, y, (*values, *kwargs.values()))
        if source is not None:
            _register(made, source, Again(row.function, values[1:], kwargs))
        return made
    call = len(entries)
    entries.append((row, nodes, (tuple([spec_of(each) for each in y]), tuple(read), kwargs), (), None))
    outputs = []
    for number, value in enumerate(y):
        output: Any = value
        if _is_number(row, value):
            output = append(entries, tape, UNPACK, call, number, value, values)
        if source is not None and type(output) is TracedArray:
            _register(output, source, Again(row.function, values[1:], kwargs, number))
        outputs.append(output)
    return type(y)._make(outputs) if hasattr(type(y), "_make") else type(y)(outputs)


def _constant(tape: Tape, value: Any) -> Any:
    """A constant operand as it is to be saved: later writes must not change it."""
    return detached(value) if type(value) is TracedArray else tape.constant(value)


_STATIC: Final = frozenset({int, float, bool, str, type(None), slice, np.dtype, type})


def _all_static(values: tuple[Any, ...], start: int) -> bool:
    """Whether the values from `start` on are settings: numbers, names, and tuples of integers."""
    for value in values[start:]:
        if type(value) not in _STATIC and not (
            (type(value) is tuple or type(value) is list) and all(type(item) is int for item in value)
        ):
            return False
    return True


def _operand(value: Any) -> Any:
    """An operand as rules expect it: lists become arrays, and `is_differentiable` refuses special subclasses."""
    if type(value) in PLAIN:
        return value
    if type(value) is list or type(value) is tuple:
        return np.asarray(value)
    if is_array(value):
        is_differentiable(value)
    return value


def _refuse_nested(row: Rule, args: tuple[Any, ...]) -> None:
    """Refuse a list of traced values where the function expects one array: its items would become constants."""
    for arg in args:
        if (type(arg) is list or type(arg) is tuple) and has_open(arg):
            raise TracedValueError(
                f"{row.name} was given a {type(arg).__name__} of traced values for an array; making an array of them "
                "would silently lose their gradient. Write np.stack([...]) instead of the list."
            )


def _apply_sequence(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function whose first operand is a sequence of arrays, such as `numpy.concatenate`."""
    items = list(args[0])
    _refuse_nested(row, (*items, *args[1:]))
    values = [lower(item, tape) for item in items]
    y = row.function(values, *lower(args[1:], tape), **kwargs)
    layers = [level_of(item, tape) if type(item) is TracedArray else None for item in items]
    nodes = tuple([-1 if layer is None else layer._node for layer in layers])
    specs = tuple(
        [spec_of(value) if hasattr(value, "shape") else spec_of(np.asarray(value)) for value in values]
    )
    saved = (spec_of(y), (specs, *lower(args[1:], tape)), kwargs)
    entries: Any = tape.entries
    return append(entries, tape, row, (nodes,), saved, y, values)


def _as_positional(
    row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Move operands that were given by keyword to their position; one that is skipped there is None."""
    kwargs = {name: value for name, value in kwargs.items() if value is not np._NoValue and name != "out"}
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
    values = [lower(a, tape) for a in args]
    for value in values:
        if type(value) is np.ndarray:
            tape.lent[id(value)] = value
    y, pullback = row.user(*values, **{k: lower(v, tape) for k, v in kwargs.items()})
    layers = [level_of(a, tape) if type(a) is TracedArray else None for a in args]

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
    pull.__name__ = row.name
    return new_outputs(entries, tape, pull, [y], values)[0]


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
    y = op(x, z)
    keep_y, keep_x, keep_z = row.keep[mask]
    if mask != 3:
        if tape.shadowed:
            check_shadow(tape, z if mask == 1 else x)
        if mask == 1:
            if keep_z and type(z) is np.ndarray:
                z = tape.constant(z)
        elif keep_x and type(x) is np.ndarray:
            x = tape.constant(x)
    saved: Any
    if row.kind == "elementwise":
        saved = (y if keep_y else None, x if keep_x else None, z if keep_z else None)
    else:
        kept = (
            spec_of(x) if not keep_x else _strong(x) if mask & 1 else x,
            spec_of(z) if not keep_z else _strong(z) if mask & 2 else z,
        )
        saved = (y if keep_y else spec_of(y), kept, EMPTY)
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
    return traced


def apply_mixed(op: Callable[[Any, Any], Any], row: Rule, a: Any, b: Any) -> Any:
    """The general case: operands of different recordings, of closed ones, lists and array subclasses."""
    found: list[TracedArray] = []
    collect(a, found)
    collect(b, found)
    if not found:
        return op(lower(a, CLOSED), lower(b, CLOSED))
    if not row.kind:
        raise no_rule(row.function)
    tape = max((layer._tape for layer in found), key=_serial)
    _refuse_nested(row, (a, b))
    operands = []
    for x in (a, b):
        layer = level_of(x, tape) if type(x) is TracedArray else None
        # Seen from this level, an operand is either traced by it or has no layer of it.
        operands.append(_operand(lower(x, tape)) if layer is None else layer)
    low_a, low_b = (x._value if type(x) is TracedArray and x._tape is tape else x for x in operands)
    mask = sum((type(x) is TracedArray and x._tape is tape) << k for k, x in enumerate(operands))
    y = op(low_a, low_b)
    keep_y, keep_a, keep_b = row.keep[mask]
    if not mask & 1:
        low_a = _constant(tape, low_a)
    if not mask & 2:
        low_b = _constant(tape, low_b)
    saved: Any = (y if keep_y else None, low_a if keep_a else None, low_b if keep_b else None)
    if row.kind == "function":
        kept = (low_a if keep_a else spec_of(low_a), low_b if keep_b else spec_of(low_b))
        saved = (y if keep_y else None, kept, EMPTY)
    parents = tuple(x._node if mask >> k & 1 else -1 for k, x in enumerate(operands))
    entries: Any = tape.entries
    return append(entries, tape, row, parents, saved, y, (low_a, low_b))


def _item(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def _astype(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


# Methods that are no NumPy functions but have a derivative all the same.
function(_item, lambda g, _y, _x: np.reshape(g, _x.shape), linear=True)
# A complex cotangent of a real operand stays complex; the sweep takes its real part.
function(
    _astype,
    lambda g, _y, _x, _dtype: g.astype(_x.dtype) if g.dtype.kind == _x.dtype.kind else g,
    linear=True,
)
ITEM: Final = rule(_item)
ASTYPE: Final = rule(_astype)


def get_item(x: TracedArray, index: Any) -> Any:
    """Record `x[index]`."""
    tape = x._tape
    entries = tape.entries
    simple = type(index) is int or type(index) is slice
    kept = index if simple else plain_index(index)
    if entries is None:
        return _get_constant_item(x, index, kept)
    value = x._value[kept]
    if type(value) is np.ndarray or type(value) is TracedArray:
        is_view = is_array(value) if simple else is_basic_index(kept) and is_item_view(value, kept)
        if is_view and id(x) in tape.mutable and type(value) is np.ndarray:
            # So that the buffer stays without other references, and the next write is cheap.
            value = value.copy(order="K")
        made = append(entries, tape, INDEX, x._node, kept, value)
        if is_view:
            register_view(made, x, index)
        return made
    return append(entries, tape, INDEX, x._node, kept, value) if is_differentiable(value) else value


def _get_constant_item(x: TracedArray, index: Any, kept: Any) -> Any:
    if x._tape.all is None:
        return _shown(lower(x, CLOSED)[kept], x)
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
        buffer.scatter(0, index, value, spec)
        value = buffer.slots[0]
    tape = x._tape
    return value if tape.entries is None else append(tape.entries, tape, SCATTER, x._node, index, value)
