"""`TracedArray`: a number or array inside a recording.

It holds a plain value and the number of its node on a tape. The value may itself be traced by an outer recording:
recordings nest, and a traced value is a stack of *layers*, the innermost recording's on top.

A traced value never loses its gradient silently: what would take the number out of the recording (`float(t)`,
`np.asarray(t)`, `plain[i] = t`) raises while the recording is open. Once the recording is closed the value is a
constant like any other.

This file says what a traced value is and how it leaves the recording. What happens to it inside is in `_apply` (how
an operation is recorded) and `_operators` (which operations there are).
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from threading import get_ident
from typing import Any, Final, NoReturn

import numpy as np

from ._arrays import (
    COMPLEX128,
    FLOAT64,
    ON_DEVICE,
    describe,
    is_array,
    is_differentiable,
    is_on_device,
    spec_of,
)
from ._errors import CheckpointError, GradientTypeError, NoRuleError, TracedValueError
from ._suspended import refuse_outside
from ._tape import CALL, LEAF, UNPACK, Tape

_new: Final = object.__new__


# What a class needs for `match x: case [a, b]`; arrays match since NumPy 2.5.
_SEQUENCE_FLAG: Final = 1 << 5


class _MatchedAsArray(abc.ABC):  # noqa: B024 - it hands down a flag of the type
    """Lets `match` take a traced value for a sequence if it takes an array for one; `isinstance` says no to both."""

    __slots__ = ()
    __abc_tpflags__ = np.ndarray.__flags__ & _SEQUENCE_FLAG


class TracedArray(_MatchedAsArray):
    """A value that a recording follows. Users meet it only inside recorded functions.

    It behaves as the array (or number) it stands for, also to `isinstance`; `mutangent.primal(t)` gives the plain value.
    """

    __slots__ = ("__weakref__", "_base", "_how", "_maker", "_node", "_tape", "_value")
    __array_priority__ = 1000.0

    _value: Any
    _tape: Tape
    _node: int
    # Of a view; see `_views`.
    _base: TracedArray | None
    _how: Any
    # Where the node does not tell: the serial number of the innermost recording that was open when it was made.
    _maker: int

    def __init__(self) -> None:
        raise TypeError("traced values are made by a recording; use mutangent.Context or mutangent.grad")

    # -- what it looks like -------------------------------------------------------------------------------------------

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        # So that `isinstance(x, np.ndarray)` in users' code and validators answers as in the plain run. CuPy believes it
        # too, and then refuses `c @ t`: so for its arrays the answer is the truth.
        kind = type(primal(self))
        return TracedArray if kind in ON_DEVICE else kind

    @property
    def _kind(self) -> type:
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

    def __len__(self) -> int:
        return len(self._value)

    def __repr__(self) -> str:
        return f"TracedArray({primal(self)!r})"

    def __str__(self) -> str:
        return str(primal(self))

    def __format__(self, spec: str) -> str:
        return format(primal(self), spec)

    def __bool__(self) -> bool:
        return bool(primal(self))

    # -- leaving the recording ----------------------------------------------------------------------------------------

    def __float__(self) -> float:
        return float(
            release(
                self,
                "float(x)",
                "Use x itself, or np.sin instead of math.sin; np.where(t > xp[-1], x, np.interp(t, xp, fp)) for right=x of "
                "np.interp; for plain[i] = x make the array with np.zeros(shape, like=x)",
            )
        )

    def __int__(self) -> int:
        return int(release(self, "int(x)", "For a decision or an index write int(mutangent.primal(x))"))

    def __complex__(self) -> complex:
        return complex(release(self, "complex(x)", "Use x itself, or x + 0j"))

    def __index__(self) -> NoReturn:
        raise TypeError(
            f"a float cannot be an index: {describe(primal(self))}, traced by a recording. For a decision or an index "
            "write int(mutangent.primal(x))."
        )

    def __hash__(self) -> int:
        # A cache keyed by a traced value would give it to the next recording as a constant.
        return hash(
            release(self, "a key of a dict, a member of a set or a cached argument", "Use another key")
        )

    def __trunc__(self) -> int:
        return int(release(self, "math.trunc(x)", "Write np.trunc(x), which is constant"))

    def __bytes__(self) -> bytes:
        return bytes(release(self, "bytes(x)", "Write bytes(mutangent.primal(x))"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(release(self, "round(x)", "Write np.round(x), which is constant"), digits)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        value = release(
            self,
            "conversion to a plain array (np.asarray, np.array([x, y]), plain[i] = x, plain.dot(x))",
            "Use x as it is; write np.stack([x, y]) for np.array([x, y]), np.block([[x, y], [y, x]]) for a matrix of "
            "numbers, plain @ x for plain.dot(x), x * np.ones(shape) for np.full(shape, x); for plain[i] = x make the "
            "array with np.zeros(shape, like=x), or hold it in a field",
        )
        if is_on_device(value):
            raise TypeError(
                f"{describe(value)} is on a device, and NumPy would copy it to the host. Write "
                "cupy.asnumpy(mutangent.primal(x)) if that is meant."
            )
        if copy is not None:  # True in np.array(x)
            return np.array(value, dtype, copy=copy)
        # A pullback may still read the array, so a closed recording gives out a copy. In `pause()` it is the array.
        if not isinstance(value, np.ndarray):
            return np.array(value, dtype)
        shown = value.copy() if self._tape.all is None else given_out(self, value)
        return np.asarray(shown, dtype)

    def tolist(self) -> Any:
        return release(self, "x.tolist()", "Write list(x)").tolist()

    def tobytes(self) -> Any:
        return release(self, "x.tobytes()", "Write mutangent.primal(x).tobytes()").tobytes()

    def __reduce_ex__(self, protocol: Any) -> Any:
        value = release(self, "pickling", "Pickle after the recording, or pickle mutangent.primal(x)")
        return _itself, (value,)

    def __getattr__(self, name: str) -> Any:
        if name in {"_value", "_node"}:  # of a view whose base was written since it was made
            self._refresh()
            return object.__getattribute__(self, name)
        if name.startswith("__"):
            raise AttributeError(
                f"a traced value has no {name}; mutangent.primal(x) is the plain value", name=name, obj=self
            )
        plain = primal(self)
        if hasattr(plain, name):
            raise NoRuleError(
                f"`.{name}` of {describe(plain)} is not available on a traced value: it has no derivative rule. Use a "
                "NumPy function that has one, or `mutangent.primal(x)` for the plain value."
            )
        raise AttributeError(f"{type(plain).__name__!r} object has no attribute {name!r}")


def primal(x: Any) -> Any:
    """The plain value of a traced one, as it is on the tape; anything else is returned as it is."""
    while type(x) is TracedArray:
        x = x._value
    return x


def given_out(x: TracedArray, value: Any) -> Any:
    """The plain array `value` of `x`, or a copy if somebody may still read it, or knows it by its identity."""
    layer: Any = x
    while type(layer) is TracedArray:
        if layer._tape.copies is not None:
            made = value.copy()
            layer._tape.copies[id(made)] = (made, value)
            return made
        if layer._tape.all is not None:
            return value
        layer = layer._value
    return value.copy()


def _itself(value: Any) -> Any:
    return value


def release(x: TracedArray, what: str, instead: str) -> Any:
    """The plain value, unless it would leave a recording that is still open."""
    value: Any = x
    while type(value) is TracedArray:
        if value._tape.entries is not None:
            x._tape.refusals += 1
            raise TracedValueError(
                f"{what} would silently lose the gradient of a traced value, {describe(primal(x))}. {instead}; "
                "for the plain value without a gradient write mutangent.primal(x)."
            )
        if value._tape.pauses:
            refuse_outside(value._tape.pauses)
        value = value._value
    return value


def has_open(operands: Any) -> bool:
    found: list[TracedArray] = []
    collect(operands, found)
    return bool(found)


def left_checkpoint(value: Any) -> CheckpointError:
    """The error about a value of a checkpointed function's first run, met outside of it."""
    return CheckpointError(
        f"{describe(primal(value))} was computed in a checkpointed function and left it by a name that is "
        "neither its result nor a captured field, so it has no gradient. Return it, or put it into a field."
    )


def collect(value: Any, found: list[TracedArray]) -> None:
    """Append the outermost layer that is still open of every traced value in `value`."""
    if type(value) is TracedArray:
        layer: Any = value
        while type(layer) is TracedArray and layer._tape.entries is None:
            if layer._tape.discarded:
                raise left_checkpoint(value)
            if layer._tape.pauses:
                refuse_outside(layer._tape.pauses)
            layer = layer._value
        if type(layer) is TracedArray:
            found.append(layer)
    elif type(value) is tuple or type(value) is list:
        for item in value:
            collect(item, found)


# Stands for "no recording": lowering to it takes off the layers of closed recordings only.
CLOSED: Final = Tape([])
CLOSED.entries = None


def lower(value: Any, tape: Tape) -> Any:
    """`value` as seen one level below `tape`: its own traced values, and those of closed tapes, become plain."""
    if type(value) is TracedArray:
        while type(value) is TracedArray and (value._tape is tape or value._tape.entries is None):
            value = value._value
        return value
    if type(value) is tuple:
        return tuple(lower(item, tape) for item in value)
    if type(value) is list:
        return [lower(item, tape) for item in value]
    return value


def stripped(value: Any, tape: Tape) -> Any:
    """A value as a function sees it that runs one level below `tape`, with the tracing of recordings that are paused."""
    while type(value) is TracedArray and (
        value._tape is tape or value._tape.all is None or value._tape.asleep
    ):
        value = value._value
    return value


def level_of(x: TracedArray, tape: Tape) -> TracedArray | None:
    """The layer of `x` that belongs to `tape`, under layers whose recordings are closed; None if there is none."""
    value: Any = x
    while type(value) is TracedArray:
        if value._tape is tape:
            return value
        if value._tape.entries is not None:
            return None
        value = value._value
    return None


def new_traced(tape: Tape, node: int, value: Any) -> TracedArray:
    """A traced value for a node that exists already."""
    traced: TracedArray = _new(TracedArray)
    traced._base = None
    traced._value = value
    traced._tape = tape
    traced._node = node
    return traced


def new_constant(tape: Tape, value: Any) -> TracedArray:
    """A traced value on an open tape that depends on nothing."""
    if isinstance(tape.all, list):
        return append(tape.all, tape, LEAF, -1, None, value)
    node: Any = None  # in forward mode the node is the tangent
    made = new_traced(tape, node, value)
    note_maker(made, tape)
    return made


def note_maker(traced: TracedArray, tape: Tape) -> None:
    """Note the innermost recording that is open where a handle is made whose node does not tell, by its serial number."""
    inner = tape.inner
    while inner is not None:
        traced._maker, inner = inner.serial, inner.inner


def new_leaf(entries: list[Any], tape: Tape, value: Any) -> TracedArray:
    """A traced value with nothing behind it: the value that a field or an argument held on entry."""
    spec = spec_of(value)
    entries.append((LEAF, -1, None, spec.shape, spec.dtype))
    leaf = new_traced(tape, len(entries) - 1, value)
    if is_array(value):
        tape.leaves[id(leaf)] = leaf
    return leaf


def append(
    entries: Any, tape: Tape, rule: Any, parents: Any, saved: Any, value: Any, operands: Any = ()
) -> TracedArray:
    """Record `value`. Only a check for nan reads `operands`: the values that the operation was given."""
    if tape.thread != get_ident():
        tape.refuse_elsewhere()
    traced: TracedArray = _new(TracedArray)
    traced._base = None
    traced._value = value
    traced._tape = tape
    try:
        shape, dtype = value.shape, value.dtype
    except AttributeError:
        shape, dtype = (), COMPLEX128 if type(value) is complex else FLOAT64
    if type(entries) is list:
        traced._node = len(entries)
        entries.append((rule, parents, saved, shape, dtype))
    else:  # forward mode, where the node is the tangent, or a recording that looks at its values
        traced._node = entries.push(rule, parents, saved, shape, dtype, value, operands)
        if tape.inner is not None:
            note_maker(traced, tape)
    return traced


def append_call(entries: Any, tape: Tape, row: Any, parents: Any, saved: Any) -> int:
    """Record a call of several results, of which `UNPACK` entries follow; its number."""
    tape.require_thread()
    number = len(entries)
    entries.append((row, parents, saved, (), None))
    return number


def new_outputs(
    entries: Any,
    tape: Tape,
    pull: Callable[[dict[int, Any]], Any],
    values: list[Any],
    operands: Any = (),
) -> list[TracedArray]:
    """Traced values for the results of a call whose derivative is the closure `pull`.

    `pull` takes a dict from the number of a result to its cotangent and yields pairs (node, contribution).
    """
    call = append_call(entries, tape, CALL, -1, pull)
    outputs = [
        append(entries, tape, UNPACK, call, number, value, operands) for number, value in enumerate(values)
    ]
    if type(entries) is not list:
        entries.push_call(pull, outputs)
    return outputs


def require_scalar(value: Any, name: str) -> None:
    """Raise unless `value` is a real scalar, as a gradient needs."""
    plain = primal(value)
    if type(plain) is np.float64 or type(plain) is np.float32 or type(plain) is float:
        return
    if isinstance(plain, bool) or (
        (spec := getattr(plain, "dtype", None)) is not None and spec.kind in "biu"
    ):
        raise GradientTypeError(
            f"the result of {name} is {describe(plain)}: booleans and integers, as comparisons, np.argmax and "
            "astype(int) give them, have no gradient. Return the float number that should become smaller, a loss."
        )
    if not is_differentiable(plain) and type(plain) is not int:  # a sum of nothing is 0
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
