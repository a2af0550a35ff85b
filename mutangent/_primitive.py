"""Users' rules for their own functions and methods, those that mutate objects included.

Theory of operation. A rule runs in a *frame*: an overlay that shows objects as they are inside the recording at that
moment, with the recording's own tracing taken off. So the rule computes with plain values, as ordinary code does, and
what it does is not recorded. The frame notes which node stood behind every field that was read, and keeps what was
written. When the rule has returned, one entry goes on the tape. Its results are the value *and* everything that was
written; its operands are the arguments *and* everything that was read. In the sweep the pullback gets the cotangents of
all results and answers with tangents of all operands: a `Tangent` per object. The recording adds them up like
any other contribution, which is all that it takes to have one tangent per object.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from ._arrays import describe, is_differentiable, spec_of, zeros
from ._capture import UNSET, Overlay, Unread, _overlay, current, is_captured
from ._context import pause
from ._errors import NoRuleError, RuleError
from ._identity import IdentityMap
from ._recording import Recording
from ._structure import Child, Containers, Description, Group, Leaf, Lifter, contents, same_parts
from ._tangent import NONE, NoTangent, Tangent, ZeroTangent, children, map_container, rebuild
from ._tape import CALL, UNPACK, Tape
from ._traced import TracedArray, append, collect, level_of, lower, primal

_UNREAD: Final = Leaf(-1, 0.0)  # describes a number that the rule did not read


class Frame(Overlay):
    """The overlay in which a rule runs."""

    def __init__(self, outer: Overlay | None, tape: Tape) -> None:
        super().__init__(outer)
        self.tape_below = tape

        self.lent: dict[int, tuple[Any, Any, TracedArray | None]] = {}
        lent = self.lent

        def strip(value: Any) -> tuple[Any, Leaf]:
            layer = level_of(value, tape) if type(value) is TracedArray else None
            lowered = lower(value, tape)
            described = Leaf(-1 if layer is None else layer._node, lowered)
            if type(lowered) is np.ndarray:
                # The rule reads the array itself, and must not write into it: nothing would record that.
                shown = lowered.view()
                shown.flags.writeable = False
                lent[id(shown)] = (shown, lowered, layer)
                tape.lent[id(lowered)] = lowered
                lowered = shown
            return lowered, described

        self.lifter = Lifter(strip, is_captured, self.containers)


class Primitive:
    """A function with a rule of its own. Made by `primitive`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._rule: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<primitive {self._name}>"

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self if obj is None else functools.partial(self, obj)

    @property
    def __closure__(self) -> tuple[Any, ...]:
        # Where attrs looks for the cells of `super()` when it makes the slotted copy of a class.
        functions = (self._function, self._rule)
        return tuple(cell for each in functions for cell in getattr(each, "__closure__", None) or ())

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))

    def rrule(self, rule: Callable[..., Any]) -> Primitive:
        """Set the rule for reverse mode; a decorator.

        Parameters
        ----------
        rule : callable
            Takes the arguments and returns ``(value, pullback)``, or `NotImplemented` to decline them, in which case
            the call runs as ordinary code. ``pullback(y_bar)`` takes the cotangent of the value and returns a tuple with
            one tangent per argument, a `Tangent` for an object. If the call writes captured fields the pullback is
            ``pullback(y_bar, written)``, where ``written[obj].field`` is the cotangent of the value that the call left
            in that field.

        Returns
        -------
        Primitive
            The primitive itself, so that in a class body the name keeps its meaning.
        """
        self._rule = rule
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tape = _tape_for((*args, *kwargs.values()))
        if tape is None:
            return self._function(*args, **kwargs)
        if self._rule is None:
            raise NoRuleError(
                f"{self._name} is a primitive without a rule, and it was called with values that are differentiated. "
                f"Give it one with `@{getattr(self._function, '__name__', 'f')}.rrule`."
            )
        positional = _positional(self._function, args, kwargs) if kwargs else args
        frame = Frame(current(), tape)
        lifted, descriptions = [], []
        for number, arg in enumerate(positional):
            value, description = frame.lifter.lift(arg, f"argument {number} of {self._name}")
            lifted.append(value)
            descriptions.append(description)
        token = _overlay.set(frame)
        try:
            result = self._rule(*lifted)
        finally:
            _overlay.reset(token)
        frame.close()
        if result is NotImplemented:
            return self._function(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
            raise RuleError(
                f"the rule of {self._name} returned {describe(result)}. Return a pair (value, pullback), or "
                "NotImplemented to decline the arguments."
            )
        return _Call(self._name, frame, tape, descriptions, result[1]).record(result[0])


class _Call:
    """One recorded call of a primitive."""

    def __init__(
        self,
        name: str,
        frame: Frame,
        tape: Tape,
        descriptions: list[Description],
        pullback: Callable[..., Any],
    ) -> None:
        self.name = name
        self.frame = frame
        self.tape = tape
        self.arguments = descriptions
        self.pullback = pullback
        self.value: Description = None
        self.written: list[tuple[Any, str, Description]] = []
        self.takes_written = _takes_written(pullback)

    def record(self, value: Any) -> Any:
        """Put the call on the tape, commit what it wrote, and return its traced value."""
        entries: Any = self.tape.entries
        self.frame.remember_unread()
        self._check_reads()
        self._check_writes()
        call = len(entries)
        entries.append((CALL, -1, self.pull, (), None))
        made: list[TracedArray] = []

        def make_output(leaf: Any) -> tuple[Any, Leaf]:
            if type(leaf) is TracedArray and level_of(leaf, self.tape) is not None:
                raise RuleError(
                    f"the rule of {self.name} used a traced value that is neither an argument nor a field, so its "
                    "derivative would be lost. Pass it as an argument."
                )
            leaf = self._give_back(leaf)
            made.append(append(entries, self.tape, UNPACK, call, len(made), leaf))
            if type(leaf) is np.ndarray:
                self._lock_if_shared(leaf, made[-1])
            return made[-1], Leaf(len(made) - 1, leaf)

        lifter = Lifter(make_output, is_captured, Containers())
        traced, self.value = lifter.lift(value, f"the value of {self.name}")
        for record, name in list(self.frame.written()):
            final, description = lifter.lift(record.values[name], f"{type(record.obj).__name__}.{name}")
            record.values[name] = final
            self.written.append((record.obj, name, description))
        if type(entries) is not list:
            entries.push_call(self.pull, made)
        self.frame.commit()
        # The tape keeps this call; it must not keep the recording, or nothing would be freed without the collector.
        self.frame.outer = None
        return traced

    def _give_back(self, value: Any) -> Any:
        """The array itself in place of the read-only view of it that the rule was shown."""
        known = self.frame.lent.get(id(value))
        return value if known is None else known[1]

    def _lock_if_shared(self, value: Any, output: TracedArray) -> None:
        """A result that shares memory with an operand cannot be written in place: neither would see the other's write."""
        for _, array, layer in self.frame.lent.values():
            if np.may_share_memory(array, value):
                self.tape.locked[id(output)] = output
                if layer is not None:
                    self.tape.locked[id(layer)] = layer

    def _check_reads(self) -> None:
        """Refuse if the rule read numbers that no argument leads to: its pullback has no place for their tangents."""
        log = self.frame.log
        reached: dict[int, Any] = {}
        pending = list(self.arguments)
        while pending:
            description = pending.pop()
            if type(description) is Group:
                pending += description.items
            elif type(description) is Child and id(description.primal) not in reached:
                reached[id(description.primal)] = description.primal
                record = log.get(id(description.primal))
                if record is not None:
                    entries = [self._described(entry) for entry in record.entries.values()]
                    pending += entries
        for record in log.values():
            if id(record.obj) in reached or record.born:
                continue
            for name, entry in record.entries.items():
                if type(entry) is Leaf and (type(entry.node) is not int or entry.node >= 0):
                    cls = type(record.obj).__name__
                    raise RuleError(
                        f"the rule of {self.name} read {cls}.{name}, and no argument leads to that {cls}, so its "
                        "derivative would be lost: a pullback returns one tangent per argument. Pass the object as an "
                        "argument."
                    )

    def _described(self, entry: Any) -> Description:
        """The description of a field on entry of the call; numbers that were not read are marked."""
        if type(entry) is not Unread:
            return None if entry is UNSET else entry
        return Lifter(lambda leaf: (leaf, _UNREAD), is_captured, Containers()).lift(entry.value, "a field")[1]

    def _check_writes(self) -> None:
        if not self.takes_written:
            for record, name in self.frame.written():
                if _has_numbers(record.values[name]):
                    cls = type(record.obj).__name__
                    raise RuleError(
                        f"the rule of {self.name} wrote {cls}.{name}, but its pullback takes no `written`, so the "
                        f"cotangent of the new value would be lost. Write `def pullback(y_bar, written)` and use "
                        f"`written[obj].{name}`, the cotangent of the value that the call left in {cls}.{name}."
                    )
        for made in self.frame.containers.by_original.values():
            if not same_parts(contents(made.working), made.lifted_before or []):
                raise RuleError(
                    f"the rule of {self.name} changed a {type(made.original).__name__} in place. Assign a new one to "
                    "the field."
                )

    def pull(self, cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        """Call the user's pullback and yield its tangents as contributions to nodes."""
        written: IdentityMap[Tangent] = IdentityMap(
            (record.obj, Tangent._shell(type(record.obj), {})) for record in self.frame.log.values()
        )
        for obj, name, description in self.written:
            written[obj]._fields[name] = self._cotangent(description, cotangents, written)
        y_bar = self._cotangent(self.value, cotangents, written)
        tangents = self.pullback(y_bar, written) if self.takes_written else self.pullback(y_bar)
        if not isinstance(tangents, tuple) or len(tangents) != len(self.arguments):
            got = f"{len(tangents)} tangents" if isinstance(tangents, tuple) else describe(tangents)
            raise RuleError(
                f"the pullback of {self.name} returned {got} for {len(self.arguments)} arguments. Return a tuple with "
                "one tangent per argument, `(x_bar,)` for a single one; mutangent.NoTangent() for an argument without."
            )
        seen: set[tuple[int, int]] = set()
        pending = [
            (description, tangent, f"argument {number}")
            for number, (description, tangent) in enumerate(zip(self.arguments, tangents, strict=True))
        ]
        while pending:
            description, tangent, where = pending.pop()
            if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
                continue
            if description is _UNREAD:
                raise RuleError(
                    f"the pullback of {self.name} returned a tangent for {where}, which the rule did not read before it "
                    "returned. Read the field in the rule, so that the tangent belongs to the value it had there."
                )
            if type(description) is Leaf:
                contribution = self._check(description, tangent, where)
                if (
                    type(description.node) is not int or description.node >= 0
                ):  # forward mode has tangents for nodes
                    yield description.node, contribution
            elif type(description) is Child and isinstance(tangent, Tangent):
                obj = description.primal
                if not isinstance(obj, tangent._cls):
                    raise RuleError(
                        f"the pullback of {self.name} returned a Tangent of {tangent._cls.__name__} for {where}, which is "
                        f"a {type(obj).__name__}. Write mutangent.Tangent({type(obj).__name__}, ...)."
                    )
                if (id(obj), id(tangent)) not in seen:
                    seen.add((id(obj), id(tangent)))
                    pending += self._fields_of(obj, tangent)
            elif type(description) is Group and len(children(tangent) or ()) == len(description.items):
                pending += [
                    (item, part, where)
                    for item, part in zip(description.items, children(tangent) or [], strict=True)
                ]
            else:
                raise RuleError(
                    f"the pullback of {self.name} returned {describe(tangent)} for {where}, which does not fit its "
                    "structure. Return a mutangent.Tangent for an object, a tuple or list for a container, "
                    "mutangent.NoTangent() for what has no tangent space."
                )

    def _fields_of(self, obj: Any, tangent: Tangent) -> Iterator[tuple[Description, Any, str]]:
        record = self.frame.log.get(id(obj))
        for name in tangent:
            entry = UNSET if record is None else record.entries.get(name, UNSET)
            where = f"{type(obj).__name__}.{name}"
            yield self._described(entry), tangent[name], where

    def _check(self, leaf: Leaf, tangent: Any, where: str) -> Any:
        plain = primal(tangent)
        if not is_differentiable(plain):
            if isinstance(plain, int | np.integer):
                tangent = plain = np.float64(plain)
            else:
                raise RuleError(
                    f"the pullback of {self.name} returned {describe(plain)} for {where}; return an array."
                )
        if np.shape(plain) != leaf.spec.shape:
            raise RuleError(
                f"the pullback of {self.name} returned a tangent of shape {np.shape(plain)} for {where}, which has shape "
                f"{leaf.spec.shape}. Return a tangent of the argument's own shape (sum over broadcast axes)."
            )
        if spec_of(plain).dtype.kind == "c" and leaf.spec.dtype.kind == "f":
            raise RuleError(
                f"the pullback of {self.name} returned a complex tangent for {where}, which is real. Return its real part."
            )
        return (
            np.float64(tangent)
            if type(tangent) is float
            else np.complex128(tangent)
            if type(tangent) is complex
            else tangent
        )

    def _cotangent(
        self, description: Description, cotangents: dict[int, Any], written: IdentityMap[Tangent]
    ) -> Any:
        """The cotangent of one result, with zeros where nothing flowed: rules see arrays like the value."""
        if type(description) is Leaf:
            found = cotangents.get(description.node)
            if found is not None:
                return found
            zero = zeros(description.spec, primal(description.entry))
            return zero if description.spec.shape else zero[()]
        if type(description) is Child:
            obj = description.primal
            return written[obj] if obj in written else Tangent._shell(type(obj), {})
        if type(description) is Group:
            return rebuild(
                description.model, [self._cotangent(item, cotangents, written) for item in description.items]
            )
        return NONE


def _has_numbers(value: Any) -> bool:
    items = children(value)
    if items is not None:
        return any(_has_numbers(item) for item in items)
    return type(value) is TracedArray or is_differentiable(value)


def _takes_written(pullback: Callable[..., Any]) -> bool:
    """Whether a pullback has a second positional parameter."""
    try:
        parameters = inspect.signature(pullback).parameters.values()
    except (TypeError, ValueError):
        return False
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    return len(positional) >= 2 or any(p.kind is p.VAR_POSITIONAL for p in parameters)


def _positional(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    if bound.kwargs:
        name = getattr(function, "__qualname__", repr(function))
        raise RuleError(
            f"{name} was called with the keyword-only arguments {', '.join(bound.kwargs)}, and a rule gives one tangent "
            "per positional argument. Make them positional."
        )
    return bound.args


def _tape_for(args: tuple[Any, ...]) -> Tape | None:
    """The tape that a call belongs to: the innermost recording if it reaches objects, else that of its arguments."""
    found: list[TracedArray] = []
    if _reach(args, found):
        stripped: set[int] = set()
        overlay = current()
        while overlay is not None:
            if isinstance(overlay, Frame):
                stripped.add(overlay.tape_below.serial)
            elif (
                isinstance(overlay, Recording)
                and overlay.tape.serial not in stripped
                and overlay.tape.is_open
            ):
                return overlay.tape
            overlay = overlay.outer
    return max((traced._tape for traced in found), key=lambda tape: tape.serial, default=None)


def _reach(args: Any, found: list[TracedArray]) -> bool:
    """Collect traced values; return whether there are captured objects."""
    objects = False
    for arg in args:
        items = children(arg)
        if items is not None:
            objects |= _reach(items, found)
        elif is_captured(arg):
            objects = True
        else:
            collect(arg, found)
    return objects


def primitive(function: Callable[..., Any]) -> Primitive:
    """Make a function or method one step of a recording, with a rule of its own.

    Parameters
    ----------
    function : callable
        A function of positional arguments. It is called as it is when nothing is differentiated.

    Returns
    -------
    Primitive
        A callable with `.rrule`, which sets the rule.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.primitive
    ... def clipped(x):
    ...     return min(max(x, 0.0), 1.0)
    >>> @clipped.rrule
    ... def clipped_rule(x):
    ...     return min(max(x, 0.0), 1.0), lambda y_bar: (y_bar,)  # let the gradient pass
    >>> mt.grad(lambda x: clipped(x) * 3.0)(7.0)
    3.0
    """
    return Primitive(function)


def non_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a function's results are constants; it is called with plain values and nothing in it is recorded.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable

    Examples
    --------
    >>> import mutangent as mt
    >>> import math
    >>> floor = mt.non_differentiable(math.floor)
    >>> mt.grad(lambda x: x * floor(x))(2.5)
    2.0
    """

    @functools.wraps(function)
    def constant(*args: Any, **kwargs: Any) -> Any:
        with pause():
            result = function(
                *[_plain(a) for a in args], **{name: _plain(value) for name, value in kwargs.items()}
            )
        return _plain(result)

    return constant


def _plain(value: Any) -> Any:
    if type(value) is TracedArray:
        return primal(value)
    items = children(value)
    if items is None or all(plain is item for plain, item in zip(map(_plain, items), items, strict=True)):
        return value
    return map_container(_plain, value)
