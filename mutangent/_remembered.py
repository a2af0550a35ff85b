"""What a checkpointed function may change that has no tangent space, as the first run met it.

A recording works on copies of sets and of small integer arrays, so the second run is shown copies of what the first one was
shown. Everything else the function changes itself, in both runs: random generators, other arrays, attributes that are no
fields, objects of undecorated classes and what these hold. Each of them has, for the time of the second run, the state in
which the first one met it (`_states`). What has a state that cannot be put back is refused.
"""

from __future__ import annotations

import copy
import io
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np

from ._arrays import copy_with_strides, describe, is_array, is_on_device, is_plain_array, type_name
from ._contents import COMPARED_BYTES, Contents, has_contents, in_little_memory
from ._errors import CheckpointError
from ._global_generators import put
from ._kept import Kept, bind
from ._positions import UNKNOWN, Position, is_iterator
from ._states import (
    CONSTANTS,
    children_of,
    draws_for_good,
    has_state,
    is_writeable,
    kind_of,
    was_left,
)
from ._structure import Child, Containers, Description, Group, by_key, is_followed_as_whole

# Up to so many bytes an array is copied, wherever it was met.
SHORT: Final = 1 << 10


class Remembered(Kept):
    """What one call met."""

    def __init__(self, containers: Containers) -> None:
        super().__init__()
        # By the identity of a value of which a recording works on a copy, it and a copy of it as it was.
        self.copies: dict[int, tuple[Any, Any]] = {}
        self._left: set[int] = set()  # those that the first run left as they were, as far as that is known
        self._containers = containers
        self._held: set[int] = set()  # arrays that a field, an argument or a container in one holds

    def note(self, description: Description, value: Any, where: str) -> None:
        """Note what a field or an argument holds: `value`, as `description` describes it."""
        pending = [(description, value)]
        while pending:
            description, value = pending.pop()
            if type(description) is Group:
                if id(description) not in self._seen:
                    self._seen[id(description)] = description
                    pending += zip(description.items, by_key(description.model).values(), strict=True)
            elif type(description) is Child:
                self.note_object(description.primal)
            elif description is None and type(value) not in CONSTANTS:
                self._note_constant(value, where)

    def note_object(self, obj: Any) -> None:
        """Note the attributes of a captured object that are no fields, and those of its class."""
        if id(obj) not in self._seen and (id(type(obj)) not in self._seen or has_state(obj)):
            self.look_into(obj)

    def original_of(self, value: Any) -> Any:
        """The value of which `value` is the working copy; itself if it is none."""
        made = self._containers.by_working.get(id(value))
        return value if made is None else made.original

    def shown(self, value: Any) -> Any:
        """What the second run is shown in the place of a value."""
        return self.copies.get(id(value), (value, value))[1]

    def settle(self) -> None:
        """Once the first run has ended, refuse what cannot be repeated, and keep no copies of long arrays in vain."""
        for generator, children in self._children:
            if children != children_of(generator):
                raise CheckpointError(
                    f"a checkpointed function called spawn() of {type_name(generator)}, which counts its children, "
                    "so that the second run would get others than the first. Spawn them before the call, and pass them as "
                    "arguments, or hold them in a field."
                )
        for key, (value, state) in list(self.states.items()):
            if type(state) is Position:
                if not state.is_of(value):
                    raise CheckpointError(
                        f"a checkpointed function took items from an iterator, {_name_of(value)}, {_REACHED}, so that "
                        f"its second run would get others than the first. {_TAKE}"
                    )
                del self.states[key]
            elif was_left(value, state):
                del self.states[key]
            elif is_plain_array(value) and self._is_long(value) and np.array_equal(value, state):
                self.states[key] = (value, _Unchanged(in_little_memory(value, state)))
            elif kind_of(value).is_in(value, state):
                self._left.add(key)
        self.note_new_attributes()
        self.generators.forget_unused()
        self._seen = {}
        self._children = []

    @contextmanager
    def as_met(self) -> Iterator[None]:
        """In this context every value has the state in which the first run met it."""
        others = self._others()
        now = [(value, kind_of(value).state_of(value)) for value, _ in others]
        bound = [(name, name.value()) for name, _ in self.names]
        drawn = self.generators.now()
        try:
            self._put_back(others)
            yield
        finally:
            for value, state in reversed(now):
                kind_of(value).put_back(value, state)
            bind(bound)
            put(drawn)

    def _others(self) -> list[tuple[Any, Any]]:
        """The values that may have another state by now than the first run met, or get one, with that state."""
        found = []
        for key, (value, state) in self.states.items():
            if type(state) is _Unchanged:
                state.require(value)
            elif key not in self._left or not kind_of(value).is_in(value, state):
                found.append((value, state))
        return found

    def put_back(self) -> None:
        """Give every value the state in which the first run met it."""
        self._put_back(self._others())

    def _put_back(self, others: list[tuple[Any, Any]]) -> None:
        # Last what was met first: two generators may draw from the same bits, two arrays share memory.
        for value, state in reversed(others):
            kind_of(value).put_back(value, state)
        bind(
            self.names[::-1]
        )  # one that was noted again, with another value, was met first with the right one
        self.generators.put_back()

    def _note_constant(self, value: Any, where: str) -> None:
        if isinstance(value, set | bytearray) or is_followed_as_whole(value):
            value = self.original_of(value)
            if id(value) not in self.copies:
                made = copy_with_strides(value) if is_array(value) else copy.copy(value)
                self.copies[id(value)] = (value, made)
                self.look_into(*kind_of(value).parts_of(value))
            return
        if is_iterator(value):
            raise CheckpointError(
                f"{where} of a checkpointed function holds an iterator, {_name_of(value)}, which would give its second run "
                "other items than the first. Give it the items, in a list for example, or take them from the iterator "
                "before the call."
            )
        if draws_for_good(value):
            raise CheckpointError(
                f"{where} of a checkpointed function holds a random generator, {_name_of(value)}, {_DRAWS}"
            )
        if kind_of(value).is_buffer and is_writeable(value):  # of any size
            self._held.add(id(value))
            if not has_state(value):
                self._keep_state(value, kind_of(value).state_of(value))
        self.look_into(value)

    def _is_long(self, array: Any) -> bool:
        """Whether no copy of an array is kept if the first run did not change it, since a checksum takes less memory."""
        longest = COMPARED_BYTES if id(array) in self._held else SHORT
        return array.nbytes > longest and not array.dtype.hasobject and not is_on_device(array)

    def _keep_state(self, value: Any, state: Any) -> None:
        """Keep the state in which a value was met first."""
        if state is UNKNOWN:
            raise _not_told(value)
        super()._keep_state(value, state)


class _Unchanged:
    """The contents of a long array that the first run did not change."""

    __slots__ = ("contents",)

    def __init__(self, contents: Contents) -> None:
        self.contents = contents

    def require(self, array: Any) -> None:
        """Raise if the array has other contents by now."""
        if not has_contents(array, self.contents):
            raise CheckpointError(
                f"{describe(array)}, which a checkpointed function could read in an argument, a field, an object, its "
                "closure or a global, was overwritten before its second run, which needs what the first one saw. Overwrite "
                "a copy."
            )


_REACHED: Final = "to which its closure, a global name or an attribute leads"
_TAKE: Final = "Give it the items, in a list for example, or take them from the iterator before the call."
_DRAWS: Final = (
    "whose state cannot be put back, so that its second run would draw other numbers than the first. Draw them before the "
    "call, or use a numpy.random.Generator."
)


def _name_of(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")


def _not_told(value: Any) -> CheckpointError:
    """The error about a value of which nobody can tell whether the first run has taken from it."""
    if draws_for_good(value):
        return CheckpointError(
            f"a checkpointed function has a random generator, {_name_of(value)}, {_REACHED}, {_DRAWS}"
        )
    what = "a file in a loop over its lines" if isinstance(value, io.IOBase) else "an iterator"
    return CheckpointError(
        f"a checkpointed function has {what}, {_name_of(value)}, {_REACHED}. What it takes from there cannot be told, "
        f"and its second run might get something else. {_TAKE}"
    )
