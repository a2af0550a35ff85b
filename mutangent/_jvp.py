"""`jvp`: forward mode through recorded functions, mutated objects included."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from ._accumulate import project
from ._arrays import ARRAYS, describe, is_differentiable, type_name, with_article
from ._call import Frame
from ._collector import collect_as_before
from ._errors import CotangentError, InPlaceError
from ._fields import CapturedField, current, enter, is_captured, leave, schema_of
from ._forward import ForwardTape, Pusher
from ._identity import IdentityMap
from ._overlay import Record
from ._readers import Given
from ._recording import Recording, check_array, leaf_maker, zero_like
from ._references import ALONE, COUNTS_REFERENCES
from ._structure import Description, Group, Leaf, Lifter, MakeLeaf
from ._tangent import (
    NONE,
    ZERO,
    NoTangent,
    Tangent,
    ZeroTangent,
    children,
    combine,
    field_names,
    map_container,
)
from ._tape import Tape
from ._traced import TracedArray, primal
from ._views import base_of, root_of


class Forward(Recording):
    """A recording that keeps no entries: each traced value carries its tangent."""

    def __init__(self) -> None:
        super().__init__()
        self.tape = ForwardTape(Pusher(_outside))
        self.given: IdentityMap[Tangent] = IdentityMap()
        self._births = 0
        self._most_births = 64
        self._groups: dict[int, tuple[Group, Any]] = {}
        # Arrays that somebody else holds: a result gets a copy.
        self._held: dict[int, Any] = {}
        self.lifter = Lifter(_handle_maker(self.tape), is_captured, self.containers)

    # -- tangents of entry values --------------------------------------------------------------------------------------

    def give(self, value: Any, tangent: Any, where: str) -> None:
        """Keep the tangents of all objects that `value` leads to until their fields are read, by whatever way."""
        pending = [(value, tangent, where)]
        while pending:
            value, tangent, where = pending.pop()
            if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
                continue
            if type(value) is TracedArray or is_differentiable(value):
                check_array(value, tangent, where, "tangent")
            elif is_captured(value):
                if not isinstance(tangent, Tangent) or not isinstance(value, tangent._cls):
                    got = (
                        f"a Tangent of {tangent._cls.__name__}"
                        if isinstance(tangent, Tangent)
                        else describe(tangent)
                    )
                    cls = type(value).__name__
                    raise CotangentError(
                        f"the tangent of {where} is {got}, and the value is {with_article(cls)}. Give a "
                        f"mutangent.Tangent({cls}, ...)."
                    )
                if value not in self.given:
                    self.given[value] = tangent
                    fields = schema_of(type(value)).fields  # type: ignore[union-attr]
                    for name in tangent:
                        try:
                            held = self.peek(value, fields[name])
                        except (AttributeError, KeyError):
                            continue  # not set
                        pending.append((held, tangent[name], f"{type(value).__name__}.{name}"))
                elif self.given[value] is not tangent:
                    raise CotangentError(
                        f"{where} is {type_name(value)} that is reached by two ways, with two different tangents. An "
                        "object has one tangent: put the same Tangent in both places."
                    )
            else:
                pending += _paired(value, tangent, where)

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        """Read a field, and give its value the tangent that was passed for the object."""
        lifted = super().first_read(obj, field)
        tangent = self.given.get(obj)
        if tangent is not None and not self.closed:
            self.attach(
                self.records[id(obj)].entries[field.name],
                tangent[field.name],
                f"{type(obj).__name__}.{field.name}",
            )
        return lifted

    def _objects(self) -> list[Any]:
        return [*super()._objects(), *self.given]

    def _first_write(self, record: Record, field: CapturedField) -> None:
        known = record.born
        super()._first_write(record, field)
        if record.born and not known:
            self._births += 1
            if self._births > self._most_births:
                self._forget_dropped()

    def _forget_dropped(self) -> None:
        """Forget the objects made inside that nobody else refers to. Done each time that their number has doubled."""
        if not COUNTS_REFERENCES:
            return
        for key, record in reversed(
            list(self.records.items())
        ):  # what holds others is mostly younger than they are
            if not record.born:
                continue
            stored = id(record.schema.dict_of(record.obj)) if record.schema.dict_of is not None else 0
            in_dicts = stored in self.dicts
            # The record's own references, the argument of getrefcount, and the note that the `__dict__` is its own.
            known = in_dicts + (record.attributes is not None)
            if sys.getrefcount(record.obj) <= ALONE + known:
                del self.records[key]
                self.dicts.pop(stored, None)
                self._births -= 1
        self._most_births = 2 * self._births + 64

    def attach(self, description: Description, tangent: Any, where: str) -> None:
        """Give the leaves of an entry value their tangents; what `give` has checked fits."""
        if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
            return
        if type(description) is Leaf:
            handle: Any = description.node
            # What is a view by now follows its base: the same array was reached by another way, and written.
            if base_of(handle) is None:
                handle._node = check_array(description.entry, tangent, where, "tangent")
                self._held[id(handle._node)] = handle._node
            elif id(root_of(handle)) in self.tape.unclaimed:
                raise InPlaceError(
                    f"{where} is {describe(primal(handle))} that was written in place by another name, which an outer "
                    "recording has for it, before it was read here, so the tangent that is given for it would be lost. "
                    "Read it first, or write it through the object's field or the function's argument."
                )
        elif type(description) is Group:
            known = self._groups.setdefault(id(description), (description, tangent))
            if known[1] is not tangent:
                raise CotangentError(
                    f"{where} is {type_name(description.model)} that is reached by two ways, with two different "
                    "tangents. Put the same tangent in both places."
                )
            parts = children(tangent) or []
            if isinstance(tangent, dict):
                parts = [tangent[key] for key in description.model]
            for number, (item, part) in enumerate(zip(description.items, parts, strict=True)):
                self.attach(item, part, f"{where}[{number}]")

    # -- tangents of results -------------------------------------------------------------------------------------------

    def tangent_of(self, value: Any) -> Any:
        """The tangent of a result: zeros where nothing depends on the inputs."""
        shells: dict[int, Tangent] = {}
        pending: list[tuple[Tangent, Any]] = []

        def visit(value: Any) -> Any:
            if type(value) is TracedArray or is_differentiable(value):
                return self._tangent_of_number(value)
            if isinstance(value, Tangent):
                return combine(visit, value)
            if value is ZERO:
                return ZERO
            if is_captured(value):
                shell = shells.get(id(value))
                if shell is None:
                    shell = shells[id(value)] = Tangent._shell(type(value), {})
                    pending.append((shell, value))
                return shell
            if isinstance(value, deque):
                value = list(value)
            return map_container(visit, value) if children(value) is not None else NONE

        result = visit(value)
        while pending:
            shell, obj = pending.pop()
            fields = schema_of(type(obj)).fields  # type: ignore[union-attr]
            for name in field_names(type(obj)):
                if name in fields:
                    try:
                        shell._fields[name] = visit(self.read(obj, fields[name]))
                    except AttributeError:
                        continue  # not set
        visit = None  # type: ignore[assignment]  # it refers to itself, and to this recording
        return result

    def _tangent_of_number(self, value: Any) -> Any:
        layer = value
        while type(layer) is TracedArray and layer._tape is not self.tape and layer._tape.all is None:
            layer = layer._value
        if type(layer) is not TracedArray or layer._tape is not self.tape or layer._node is None:
            return zero_like(Leaf(-1, primal(value)))
        tangent: Any = layer._node
        owned = (
            type(tangent) in ARRAYS
            and tangent.base is None
            and (type(tangent) is not np.ndarray or tangent.flags.writeable)
            and id(tangent) not in self._held
        )
        self._held[id(tangent)] = tangent
        return project(tangent, primal(value), owned)


def _handle_maker(tape: ForwardTape) -> MakeLeaf:
    """How a recording without entries makes leaves: without a tangent. The handle stands in the description."""
    entries: Any = tape.all
    make = leaf_maker(entries, tape)

    def handle(value: Any) -> tuple[TracedArray, Leaf]:
        made: Any
        made, described = make(value)
        if base_of(made) is None and type(made._node) is int:  # else it is another name of what was written
            made._node = None
        described.node = made
        return made, described

    return handle


@contextmanager
def _outside(tape: Tape) -> Iterator[None]:
    """A user's pullback reads objects as its rule did: without the tracing of the recording that calls it."""
    before = enter(Frame(current(), tape))
    try:
        yield
    finally:
        leave(before)


def _paired(value: Any, tangent: Any, where: str) -> list[tuple[Any, Any, str]]:
    """The items of a container with their tangents, or an error about the structure."""
    values = list(value) if isinstance(value, deque) else children(value)
    if values is None:
        raise CotangentError(
            f"{where} is {describe(value)} and has no tangent space, but its tangent is {describe(tangent)}. Give "
            "mutangent.NoTangent() for it, or make a float of an integer."
        )
    parts = children(tangent)
    keys = list(value) if isinstance(value, dict) else list(range(len(values)))
    same = isinstance(value, dict) == isinstance(tangent, dict)
    if isinstance(tangent, dict) and same:
        same = tangent.keys() == value.keys()
    if parts is None or not same or len(parts) != len(values):
        got = describe(tangent) if parts is None else f"{type_name(tangent)} of {len(parts)}"
        if isinstance(tangent, dict) and isinstance(value, dict):
            got = f"a dict with the keys {list(tangent)}"
        raise CotangentError(
            f"the tangent of {where} is {got}, and the value is {type_name(value)} of {len(values)}"
            f"{f' with the keys {keys}' if isinstance(value, dict) else ''}. Give a tangent of the value's structure, and "
            "mutangent.NoTangent() for what has no tangent space."
        )
    return [(value[key], tangent[key], f"{where}[{key!r}]") for key in keys]


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Call a function and push tangents through it (forward mode).

    The cost is a few times that of the call, and memory does not grow with the number of operations.

    Parameters
    ----------
    f : callable
        Any function of the primals. It may read and write captured objects.
    primals : sequence
        The arguments.
    tangents : sequence
        One tangent per argument, of the same structure: an array for an array, a `Tangent` for an object, a container
        for a container. `ZeroTangent()` and `NoTangent()` stand for nothing anywhere.

    Returns
    -------
    out
        The result of ``f(*primals)``; objects are left as the plain call leaves them.
    out_dot
        Its tangent, of the same structure. For an object it is a `Tangent` of what the call left in the fields, so return
        an object to see how its new state moves.

    Raises
    ------
    CotangentError
        If a tangent has not the shape, dtype or structure of its primal.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.5))
    (12.0, 5.5)
    """
    if (
        not isinstance(primals, tuple | list)
        or not isinstance(tangents, tuple | list)
        or len(primals) != len(tangents)
    ):
        raise TypeError(
            "jvp takes the arguments and their tangents as two sequences of the same length: jvp(f, (x,), (x_dot,))"
        )
    recording = Forward()
    if recording.outer is not None:
        args = (primals,)
        recording.arguments = Given(args)
    recording.function = f
    with recording:
        lifted: Any = []
        for number, (primal_value, tangent) in enumerate(zip(primals, tangents, strict=True)):
            recording.give(primal_value, tangent, f"argument {number}")
        for number, (primal_value, tangent) in enumerate(zip(primals, tangents, strict=True)):
            value, description = recording.lift(primal_value, f"argument {number}")
            recording.attach(description, tangent, f"argument {number}")
            lifted.append(value)
        lifted = tuple(lifted)
        recording.called_with = (lifted, {})
        result = f(*lifted)
        out_dot = recording.tangent_of(result)
    if recording.outer is None:
        collect_as_before()
    return recording.lower(result), out_dot
