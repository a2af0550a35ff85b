"""A call of a user's converter that is tried: what it does besides returning something can be undone.

A converter is tried with a traced value, and may ask for a plain number in the middle of what it does. Then it is called
with that, and perhaps again with other numbers. What it counts, logs and draws at random meanwhile is put back, so that
afterwards everything is as after one call. A converter that has taken a kind of traced values as they are, as those made of
NumPy functions do, is trusted to do so again, and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from ._arrays import describe, is_array, is_on_device, type_name
from ._contents import same_contents
from ._errors import NotCapturedError, TracedValueError
from ._fields import CapturedField, current, enter, is_captured, leave
from ._in_place import assign
from ._kept import Kept
from ._overlay import Overlay, PassingOn, PlainView
from ._reached import Reached
from ._shadow import detached
from ._states import CONSTANTS
from ._structure import Lifter
from ._tangent import children
from ._tape import is_same_node
from ._traced import TracedArray, has_open, primal
from ._views import base_of, root_of

Convert = Callable[[Any], Any]


class Tries:
    """How one converter or hook takes traced values."""

    __slots__ = ("_accepted", "_function", "_reached", "what")

    def __init__(self, function: Any, what: str) -> None:
        self._function = function
        self.what = what  # names it in errors
        self._accepted: set[Any] = set()  # kinds of values that it took as they are
        self._reached: list[Reached] | None = None  # what it reaches, if by that it changes nothing

    def of(self, value: TracedArray, convert: Convert, key: str = "", others: tuple[Any, ...] = ()) -> Any:
        """What the function makes of a traced value, or, if it asks for a plain number, a `Refusal`.

        Parameters
        ----------
        value : TracedArray
        convert : callable
            Calls the function with a value.
        key : str
            Names the field, if the function is one for several.
        others : tuple
            What else the function is given.
        """
        before = primal(value)
        kind = (key, type(before), getattr(before, "ndim", 0))
        kept = None if kind in self._accepted else self._kept(others)
        overlay = None if kept is None or type(kept) is Nothing else current()
        trial = None if overlay is None or kept is None else _Trial(overlay, kept)
        refusals = value._tape.refusals
        error: TypeError | None = None
        try:
            made = convert(value) if trial is None else trial.call(convert, value)
        except TypeError as raised:
            if not isinstance(raised, TracedValueError) and (has_open((value,)) or not is_on_device(before)):
                raise
            error = raised
        else:
            if value._tape.refusals == refusals:
                if (
                    value._tape.entries is not None and not value._tape.asleep
                ):  # else plain numbers may be asked for
                    self._accepted.add(kind)
                return made
            # It caught our error, which no plain value raises.
        if kept is None:
            self._accepted.discard(kind)
            kept = self._kept(others)
            if type(kept) is not Nothing:
                raise NotCapturedError(
                    f"{self.what} has taken values like {describe(before)} as they are, and asks for a plain number now, "
                    "so it is to be called again, after it may have changed something else. Write it with NumPy functions "
                    "and operators, without float() or np.asarray(), or let it ask for plain numbers always."
                ) from error
        else:
            if trial is not None:
                trial.undo()
            kept.put_back()
            refuse_taken(kept, self.what)
        return Refusal(error, kept)

    def _kept(self, others: tuple[Any, ...]) -> Any:
        """What the function may change, as it is now."""
        if not others and self._reached is not None and all(each.is_current() for each in self._reached):
            return NOTHING
        kept = Kept()
        kept.note_function(self._function)
        kept.look_into(*others)
        self._reached = kept.reached if not others and kept.changes_nothing() else None
        return kept if self._reached is None else NOTHING


class Refusal:
    """That a function asks for a plain number; what it has done until then is undone."""

    __slots__ = ("error", "kept")

    def __init__(self, error: TypeError | None, kept: Any) -> None:
        self.error = error  # None if the function caught it
        self.kept = kept  # what it may change, as it was


class Nothing:
    """What a function may change that changes nothing."""

    __slots__ = ()

    def now(self) -> Nothing:
        return self

    def put_back(self) -> None:
        """Do nothing."""

    def taken(self) -> None:
        """Nothing is taken."""

    def look_into(self, *values: Any) -> None:
        """Do nothing: no value is reached."""


NOTHING: Final = Nothing()


def refuse_taken(kept: Any, what: str) -> None:
    """Raise if something was changed that cannot be put back."""
    taken = kept.taken()
    if taken is not None:
        raise NotCapturedError(
            f"{what} asks for a plain number, so it is called more than once, and it can take from {type_name(taken)}, "
            "which cannot be put back. Write it with NumPy functions and operators, without float() or np.asarray(), or "
            "let it take from something that is in a list."
        )


class Questions:
    """Calls of a function with other values than the program has, of which nothing stays."""

    def __init__(
        self, convert: Convert, kept: Kept | Nothing, fields: list[tuple[Any, CapturedField, Any]], what: str
    ) -> None:
        self._convert = convert
        self._before = kept
        self._after = kept.now()
        self._fields = fields  # those that the call in question has written, with what they were
        self._what = what

    def ask(self, sample: Any) -> Any:
        """What the function makes of a value, called as if it had not been called yet."""
        overlay = current()
        self._before.put_back()
        before = None
        if overlay is not None:
            view = _Copies(overlay, self._after)
            for obj, field, value in reversed(self._fields):
                view.write(obj, field, view.lifter.lift(value, field.name)[0])
            before = enter(view)
        try:
            return self._convert(sample)
        finally:
            if overlay is not None:
                leave(before)
            self._after.put_back()

    def end(self) -> None:
        """Raise if something has changed that cannot be put back."""
        refuse_taken(self._after, self._what)


class _Trial(PassingOn):
    """Hands on what is done to fields, and undoes it if asked to."""

    def __init__(self, outer: Overlay, kept: Kept) -> None:
        super().__init__(outer)
        self._kept = kept  # what fields lead to is looked into before the function gets hold of it
        # By identity, objects with what was known of them, and arrays as they were.
        self._objects: dict[int, tuple[Any, Any]] = {}
        self._arrays: dict[int, tuple[TracedArray, TracedArray]] = {}  # the whole ones

    def call(self, convert: Convert, value: Any) -> Any:
        """Call a function so that it can be undone."""
        before = enter(self)
        try:
            return convert(value)
        finally:
            leave(before)

    def read(self, obj: Any, field: CapturedField) -> Any:
        value = self.outer.read(obj, field)
        if type(value) not in CONSTANTS:
            self._kept.look_into(value)
        self._keep_arrays(value)
        return value

    first_read = read

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        self._keep(obj)
        self.outer.write(obj, field, value)

    def delete(self, obj: Any, field: CapturedField) -> None:
        self._keep(obj)
        self.outer.delete(obj, field)

    def undo(self) -> None:
        """Give fields, and arrays in them, what they had."""
        for root, before in self._arrays.values():
            if not _is_as_before(root, before):
                assign(root, Ellipsis, before)
        for obj, state in self._objects.values():
            self.outer.put_back(obj, state)

    def _keep(self, obj: Any) -> None:
        if id(obj) not in self._objects:
            self._objects[id(obj)] = (obj, self.outer.state_of(obj))

    def _keep_arrays(self, value: Any) -> None:
        if type(value) is TracedArray:
            root = root_of(value)
            if id(root) not in self._arrays and is_array(primal(root)):
                self._arrays[id(root)] = (root, detached(root))
        else:
            for item in children(value) or ():
                self._keep_arrays(item)


def _is_as_before(root: TracedArray, before: TracedArray) -> bool:
    if base_of(root) is not None or root._tape is not before._tape:
        return False  # it became another name of an array, or a constant was followed
    if root._tape.asleep:
        return same_contents(primal(root), primal(before))
    return root._value is before._value and is_same_node(root._node, before._node)


class _Copies(PlainView):
    """What a recording sees, without its tracing, in arrays of their own, and without what fields lead to."""

    def __init__(self, outer: Overlay, kept: Kept | Nothing) -> None:
        super().__init__(outer)
        self._kept = kept
        self.lifter = Lifter(lambda value: (_copied(primal(value)), None), is_captured, self.containers)

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        value = super().first_read(obj, field)
        if type(value) not in CONSTANTS and not is_array(value):
            self._kept.look_into(value)
        return value


def _copied(value: Any) -> Any:
    return value.copy(order="K") if is_array(value) else value
