"""How an operation on traced values is recorded.

Each operation computes the plain result exactly as the plain program would, one layer down, appends one entry to the
innermost open tape among its operands, and wraps the result. Since the layer below may be traced as well, an outer
recording sees the same operation on its own values: that alone gives higher derivatives.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np

from ._adopted import constant_array, new_array
from ._arrays import (
    ARRAYS,
    PLAIN,
    describe,
    is_array,
    is_differentiable,
    namespace_of,
    protected,
    spec_of,
    type_name,
)
from ._errors import InPlaceError, MutangentError, RuleError
from ._flat import few
from ._operands import (
    NO_SETTINGS,
    STATIC,
    all_static,
    as_operand,
    constant,
    is_number,
    refuse_nested,
    serial_of,
    settled,
    strong,
)
from ._rulebook import Rule, argument_name, function, no_rule, rule
from ._shadow import check_shadow
from ._tape import UNPACK, Tape
from ._traced import (
    CLOSED,
    TracedArray,
    append,
    append_call,
    collect,
    has_open,
    level_of,
    lower,
    new_outputs,
    primal,
)
from ._views import (
    Again,
    is_as_computed,
    is_view_of,
    makes_view,
    quiet_view,
    register_parts,
    register_view,
    shown,
)


def apply(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call the function of `row` and record it on the innermost open tape among its arguments."""
    first = args[0] if args else None
    if type(first) is TracedArray and first._tape.entries is not None:
        if row.simple:
            if (len(args) == 1 and not kwargs) or _are_settings(row, args, kwargs):
                return _apply_simple(row, args, kwargs)
        elif row.sequence:  # an array for a sequence of arrays: its rows
            return _apply_any(row, (list(first), *args[1:]), kwargs)
        elif row.kind == "composed":
            return _apply_composed(row, args, kwargs)
        elif row.kind == "function" and _is_simple(row, args, kwargs):
            return _apply_several(row, args, kwargs) if row.multiple else _apply_simple(row, args, kwargs)
    elif row.sequence and (type(first) is list or type(first) is tuple):
        tape = _tape_of_all(first)
        if tape is not None and ((len(args) == 1 and not kwargs) or _are_settings(row, args, kwargs)):
            return _apply_to_all(row, tape, args, kwargs)
    if (
        len(row.expressions) > 1
        and not (row.multiple or row.sequence)
        and (not kwargs or (row.accepts is not None and _are_static(row, kwargs)))
    ):
        made = _apply_to_operands(row, args, kwargs)
        if made is not NotImplemented:
            return made
    return _apply_any(row, args, kwargs)


def _apply_any(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`apply`, whatever the arguments are."""
    found: list[TracedArray] = []
    collect(args, found)
    if kwargs:
        collect(tuple(kwargs.values()), found)
    if not found:
        return _apply_to_constants(row, args, kwargs)
    tape = max((traced._tape for traced in found), key=serial_of)
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
    _refuse_positional_out(row, args)
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
        return shown(row.function(lower(first, CLOSED), *rest, **kwargs), first)
    values = (first._value, *rest)
    y = row.function(*values, **kwargs)
    if row.multiple:
        made = [_tied(row, each, first, _again(row, values, kwargs, k)) for k, each in enumerate(y)]
        return _like_sequence(y, made)
    return _tied(row, y, first, _again(row, values, kwargs))


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


# What happens to lie in new memory would be another in each run of a checkpointed function.
_WITH_ZEROS: Final[dict[Any, Any]] = {np.empty: np.zeros, np.empty_like: np.zeros_like}


def make_array(row: Rule, like: TracedArray, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a function that makes a new array, `numpy.zeros_like` for example, for which `like` is only a model."""
    values = (*args[1:], *kwargs.values())
    if has_open(values) or (args and args[0] is not like and has_open(args[:1])):
        raise no_rule(row.function, " with traced contents")
    plain = {name: primal(value) for name, value in kwargs.items()}
    function = _WITH_ZEROS.get(row.function, row.function) if args else row.function
    return new_array(function(*[primal(arg) for arg in args], **plain), like)


def _are_settings(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether all but the first of the arguments are settings that the pullbacks are known to understand."""
    return (
        len(args) <= row.accepts[0]  # type: ignore[index]
        and all_static(args[1:])
        and (not kwargs or _are_static(row, kwargs))
    )


def _are_static(row: Rule, kwargs: dict[str, Any]) -> bool:
    """Whether the keywords of a call are settings that the pullbacks are known to understand."""
    return (
        kwargs.keys() <= row.accepts[1]  # type: ignore[index]
        and row.keywords.keys().isdisjoint(kwargs)
        and all_static(kwargs.values())
    )


def _is_simple(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether there is one traced operand, in front, and settings that the rule is known to understand."""
    return (
        row.expressions[0] is not None
        and (row.refuse is None or row.refuse(*args, **kwargs) is None)
        and (not row.multiple or (row.linear and len(row.expressions) == 1))
        and not any(type(arg) is list or type(arg) is tuple for arg in args[1 : len(row.expressions)])
        and _are_settings(row, args, kwargs)
    )


def _apply_simple(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function of one traced operand with one result."""
    traced = args[0]
    x = traced._value
    settings = args[1:]
    is_plain = type(x) is np.ndarray
    function = row.direct if is_plain and row.direct is not None else row.function
    y = function(x, *settings, **kwargs) if settings or kwargs else function(x)
    if type(y) is np.ndarray:
        if y.dtype.kind not in "fc":
            return y
    elif not is_number(row, y):
        return y
    keep = row.keep[1]
    kept = strong(x) if keep[1] else spec_of(x)
    saved = (y if keep[0] else None, (kept, *settings), kwargs)
    others = len(row.expressions) - 1
    nodes = (traced._node, *(-1,) * others) if others else (traced._node,)
    tape = traced._tape
    if not row.linear:
        return append(tape.entries, tape, row, nodes, saved, y, (x, *settings))
    if y is x:
        return traced
    made = append(tape.entries, tape, row, nodes, saved, y, (x, *settings))
    if not is_plain or is_view_of(y, x):
        _register(made, traced, Again(row.function, settings, kwargs))
    return made


def _apply_to_operands(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function of several operands, when one tape traces those that are; NotImplemented if it is otherwise."""
    expressions = row.expressions
    operands = len(expressions)
    tape: Any = None
    mask = 0
    values, nodes = [], []
    for k, arg in enumerate(args):
        kind = type(arg)
        if kind is TracedArray and k < operands:
            if tape is None:
                tape = arg._tape
            elif arg._tape is not tape:
                return NotImplemented
            mask |= 1 << k
            values.append(arg._value)
            nodes.append(arg._node)
        elif kind in PLAIN or (kind in STATIC and (k >= operands or expressions[k] is None)):
            values.append(arg)
            nodes.append(-1)
        else:
            return NotImplemented
    if (
        tape is None
        or type(tape.entries) is not list
        or tape.shadowed
        or (mask == 1 and row.linear)  # a view, perhaps
        or (row.accepts is not None and len(args) > row.accepts[0])
        or (row.out_at is not None and len(args) > row.out_at)
        or (row.refuse is not None and row.refuse(*values, **kwargs))
    ):
        return NotImplemented
    y = row.function(*values, **kwargs)
    if not is_number(row, y):
        return y
    keep = row.keep[mask]
    elementwise = row.kind == "elementwise"
    kept: list[Any] = []
    for k, value in enumerate(values):
        if k < operands and not keep[k + 1]:
            passes = elementwise and row.selects and not mask >> k & 1
            kept.append(few(value) if passes else None if elementwise else spec_of(value))
        elif mask >> k & 1:
            kept.append(value if elementwise else strong(value))
        else:
            kept.append(constant(tape, value))
    y_kept = y if keep[0] else None
    saved = (y_kept, *kept) if elementwise else (y_kept, tuple(kept), kwargs)
    return append(tape.entries, tape, row, (nodes + [-1] * operands)[:operands], saved, y, values)


def _apply_several(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a linear function of one operand that has several results, such as `numpy.split`."""
    traced = args[0]
    x = traced._value
    settings = args[1:]
    is_plain = type(x) is np.ndarray
    function = row.direct if is_plain and row.direct is not None else row.function
    ys = function(x, *settings, **kwargs)
    kept = strong(x) if row.keep[1][1] else spec_of(x)
    tape = traced._tape
    entries: Any = tape.entries
    specs = tuple([spec_of(y) for y in ys])
    call = append_call(entries, tape, row, (traced._node,), (specs, (kept, *settings), kwargs))
    operands = (x, *settings)
    outputs = [append(entries, tape, UNPACK, call, number, y, operands) for number, y in enumerate(ys)]
    if is_plain and is_as_computed(traced) and all(is_view_of(y, x) for y in ys):
        register_parts(outputs, traced, row.function, settings, kwargs)
    else:
        for number, output in enumerate(outputs):
            _register(output, traced, Again(row.function, settings, kwargs, number))
    return outputs if type(ys) is list else _like_sequence(ys, outputs)


def _like_sequence(model: Any, items: list[Any]) -> Any:
    return type(model)._make(items) if hasattr(type(model), "_make") else type(model)(items)


def _register(view: TracedArray, base: TracedArray, how: Again) -> None:
    """Remember a view that shares memory with its base, if it is one in the plain program too."""
    if is_view_of(primal(view._value), primal(base._value)) and (
        is_as_computed(base) or makes_view(view._value, base, how)
    ):
        register_view(view, base, how)


def _check_settings(row: Rule, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Refuse, at the call, arguments that the pullbacks do not know."""
    _refuse_positional_out(row, args)
    if row.accepts is not None:
        most, names = row.accepts
        if len(args) > most or not kwargs.keys() <= names:
            unknown = [f"{name}=" for name in kwargs if name not in names]
            raise no_rule(row.function, f" with {', '.join(unknown) or f'{len(args)} arguments'}")
    elif kwargs.keys() - {"dtype", "casting"}:
        raise no_rule(row.function, f" with {', '.join(kwargs)}=")


def _refuse_positional_out(row: Rule, args: tuple[Any, ...]) -> None:
    """Refuse an array to write into that is given by its position, where it is no operand."""
    if row.out_at is not None and len(args) > row.out_at and args[row.out_at] is not None:
        raise InPlaceError(
            f"{row.name} was given {describe(primal(args[row.out_at]))} to write into by its position, which is not "
            f"followed. Write `y = {row.name}(...)` with a new name, or give the array by its name, `out=`."
        )


def _apply_general(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    operands = len(row.expressions)
    values: list[Any] = []
    layers: list[TracedArray | None] = []
    for k, arg in enumerate(args):
        layer: TracedArray | None = None
        if type(arg) is TracedArray:
            if arg._tape is tape:
                layer, value = arg, arg._value
            else:
                layer, value = level_of(arg, tape), lower(arg, tape)
            if layer is not None and (k >= operands or row.expressions[k] is None):
                raise no_rule(row.function, f" with respect to {argument_name(row, k)}")
        else:
            value = arg if type(arg) in PLAIN else _constant_argument(row, tape, k, arg)
        values.append(value)
        layers.append(layer)
    if row.refuse is not None:
        reason = row.refuse(*values, **kwargs)
        if reason:
            raise no_rule(row.function, f" with {reason}")
    y = row.function(*values, **kwargs)
    if not row.multiple and not is_number(row, y):
        return y
    if tape.shadowed:
        for value, layer in zip(values, layers, strict=True):
            if layer is None:
                check_shadow(tape, value)
    return _record(row, tape, tuple(values), layers, kwargs, y)


def _constant_argument(row: Rule, tape: Tape, k: int, arg: Any) -> Any:
    """An argument of a call that is not traced, in the form in which rules expect it."""
    refuse_nested(row, arg)
    value = lower(arg, tape)
    return as_operand(value) if k < len(row.expressions) else value


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
        constant(tape, value) if layer is None else value if row.kind == "elementwise" else strong(value)
        for value, layer in zip(values, layers, strict=True)
    ]
    entries: Any = tape.entries
    if kwargs:
        kwargs = {name: constant(tape, value) for name, value in kwargs.items()}
    if row.kind == "elementwise":
        read = [
            value if keep[k + 1] else few(value) if row.selects and layers[k] is None else None
            for k, value in enumerate(kept)
        ]
        return append(entries, tape, row, nodes, (y if keep[0] else None, *read), y, values)
    read = [value if k >= operands or keep[k + 1] else spec_of(values[k]) for k, value in enumerate(kept)]
    source = layers[0] if row.linear and mask == 1 else None
    if not row.multiple:
        if source is not None and y is values[0]:
            return source
        saved = (y if keep[0] else None, tuple(read), kwargs)
        made = append(entries, tape, row, nodes, saved, y, (*values, *kwargs.values()))
        if source is not None and is_view_of(primal(y), primal(values[0])):
            _register(made, source, _again(row, values, kwargs))
        return made
    several = (tuple([spec_of(each) for each in y]), tuple(read), kwargs)
    call = append_call(entries, tape, row, nodes, several)
    outputs = []
    for number, value in enumerate(y):
        output: Any = value
        if is_number(row, value):
            output = append(entries, tape, UNPACK, call, number, value, values)
        if source is not None and is_view_of(primal(value), primal(values[0])):
            _register(output, source, _again(row, values, kwargs, number))
        outputs.append(output)
    return _like_sequence(y, outputs)


def _again(row: Rule, values: tuple[Any, ...], kwargs: dict[str, Any], number: int = -1) -> Again:
    """How a view was made, with copies of settings that the caller could change before it is made again."""
    rest = tuple([settled(value) for value in values[1:]])
    return Again(row.function, rest, {name: settled(value) for name, value in kwargs.items()}, number)


def _tape_of_all(items: Any) -> Tape | None:
    """The open tape on which all items are traced; None if there is no such."""
    tape: Tape | None = None
    for item in items:
        if type(item) is not TracedArray or (tape is not None and item._tape is not tape):
            return None
        tape = item._tape
    return None if tape is None or tape.entries is None else tape


def _apply_to_all(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function whose first operand is a sequence of arrays, when one tape traces them all."""
    items = args[0]
    settings = args[1:]
    values = [item._value for item in items]
    y = (row.direct or row.function)(values, *settings, **kwargs)
    if kwargs and not is_number(row, y):  # dtype=int
        return y
    specs = tuple([spec_of(value) for value in values])
    nodes = tuple([item._node for item in items])
    return append(tape.entries, tape, row, (nodes,), (None, (specs, *settings), kwargs), y, values)


def common_tape(operands: tuple[Any, ...]) -> Tape | None:
    """The tape of an ordinary recording that traces all operands, which are NumPy arrays of floats, or None."""
    tape = _tape_of_all(operands)
    if tape is None or type(tape.entries) is not list:
        return None
    for x in operands:
        if type(x._value) is not np.ndarray or x._value.dtype.kind != "f":
            return None
    return tape


def append_joint(
    tape: Tape, row: Rule, operands: tuple[Any, ...], saved: tuple[Any, ...], values: tuple[Any, ...]
) -> list[TracedArray]:
    """Record a step that was computed already: `values` from `operands`, with what the pullback of `row` will read."""
    entries: Any = tape.entries
    nodes = tuple([x._node for x in operands])
    if not row.multiple:
        return [append(entries, tape, row, (nodes,), (None, saved, NO_SETTINGS), values[0])]
    specs = tuple([spec_of(value) for value in values])
    call = append_call(entries, tape, row, (nodes,), (specs, saved, NO_SETTINGS))
    return [append(entries, tape, UNPACK, call, number, value) for number, value in enumerate(values)]


def _apply_sequence(row: Rule, tape: Tape, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Record a function whose first operand is a sequence of arrays, such as `numpy.concatenate`."""
    items = list(args[0])
    refuse_nested(row, *items, *args[1:])
    values = [lower(item, tape) for item in items]
    y = row.function(values, *lower(args[1:], tape), **kwargs)
    if kwargs and not is_number(row, y):  # dtype=int
        return y
    layers = [level_of(item, tape) if type(item) is TracedArray else None for item in items]
    if tape.shadowed:
        for value, layer in zip(values, layers, strict=True):
            if layer is None:
                check_shadow(tape, value)
    nodes = tuple([-1 if layer is None else layer._node for layer in layers])
    specs = tuple([_spec_or_few(value, layer is None) for value, layer in zip(values, layers, strict=True)])
    saved = (None, (specs, *lower(args[1:], tape)), kwargs)
    return append(tape.entries, tape, row, (nodes,), saved, y, values)


def _spec_or_few(value: Any, is_constant: bool) -> Any:
    """What is kept of an item of a sequence: shape and dtype, and of a constant the numbers as well, if they are few."""
    if not hasattr(value, "shape"):
        value = np.asarray(value)
    kept = few(value) if is_constant and type(value) is np.ndarray else None
    return spec_of(value) if kept is None else kept


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
        if type(value) in ARRAYS:
            tape.lent[id(value)] = value
    y, pullback = row.user(*values, **{k: lower(v, tape) for k, v in kwargs.items()})
    layers = [level_of(a, tape) if type(a) is TracedArray else None for a in args]

    def pull(cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        tangents = pullback(protected(cotangents[0]))
        if not isinstance(tangents, tuple) or len(tangents) != len(args):
            count = len(tangents) if isinstance(tangents, tuple) else type_name(tangents)
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


def _item(x: Any) -> Any:
    return x.item() if hasattr(x, "item") else x


def _astype(x: Any, dtype: np.dtype[Any]) -> Any:
    return x.astype(dtype) if hasattr(x, "astype") else dtype.type(x)


def _item_bar(g: Any, x: Any) -> Any:
    library = namespace_of(x)
    if library is np:
        return np.reshape(g, x.shape)
    # The number was on the host, and so is its cotangent; as a factor it gets to the device without a wait.
    return (g[()] if hasattr(g, "shape") else g) * library.ones(x.shape, x.dtype)


# Methods that are no NumPy functions but have a derivative all the same.
function(_item, lambda g, _y, x: _item_bar(g, x), linear=True)
# A complex cotangent of a real operand stays complex; the sweep takes its real part.
function(
    _astype,
    lambda g, _y, _x, _dtype: g.astype(_x.dtype) if g.dtype.kind == _x.dtype.kind else g,
    linear=True,
)
ITEM: Final = rule(_item)
ASTYPE: Final = rule(_astype)
