"""What a function of the user's may change besides what a recording follows, as it was before a call.

Random generators, arrays, containers and objects that a recording does not follow, and what names stand for. Whoever calls
the function again gives all of them that state before.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Sequence
from types import BuiltinMethodType, CellType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final

from ._bindings import is_users_class
from ._global_generators import BOTH, GlobalGenerators
from ._plain_names import Name
from ._positions import UNKNOWN, Position
from ._reached import Reached, reached_by
from ._states import children_of, kind_of, states_of
from ._traced import TracedArray

_BOUND: Final = {MethodType, BuiltinMethodType, MethodWrapperType}


class Kept:
    """The states of what was looked into, as it was then."""

    def __init__(self) -> None:
        # By the identity of a value that the function itself changes, it and its state. What was met first comes first.
        self.states: dict[int, tuple[Any, Any]] = {}
        # Plain names that the function reaches by its code, and what they stood for.
        self.names: list[tuple[Name, Any]] = []
        self.reached: list[Reached] = []  # by whose codes
        self.generators = GlobalGenerators()
        self._function: Any = None
        self._reached: Reached | None = None
        self._called: list[FunctionType] = []  # which the function may call
        # What was looked at. `generators` knows the global ones.
        self._seen: dict[int, Any] = {id(each): each for each in BOTH}
        self._children: list[tuple[Any, int | None]] = []  # how many random generators had
        self._bare: dict[int, Any] = {}  # functions and classes without attributes, by their identity

    def note_function(self, function: Any) -> None:
        """Note what belongs to the function that is called, and what its code names."""
        self._function = function
        self._reached = reached_by(function)
        self.look_into(function, *self._note_names(self._reached))

    def look_into(self, *values: Any) -> None:
        """Note values that a recording does not follow, and what they lead to: what is near comes first."""
        found: Sequence[Any] = values
        while found:
            functions, classes = [], []
            for value, state in states_of(found, self._seen):
                self._keep_state(value, state)
                if type(value) is FunctionType:
                    functions.append(value)
                elif isinstance(value, type):
                    classes.append(value)
            found = self._note_code(functions, classes)

    def _note_code(self, functions: list[FunctionType], classes: list[type]) -> Sequence[Any]:
        """Note the names that other functions and the methods of other classes reach, which the function may call."""
        known = self._reached
        if known is None:
            return ()
        others = [each for each in functions if weakref.ref(each) not in known.functions]
        new = [cls for cls in classes if weakref.ref(cls) not in known.classes and is_users_class(cls)]
        if not others and not new:
            return ()
        self._called += others
        # As if they were given to it, since their code may call the methods of any of the classes.
        self._reached = reached_by(functools.partial(self._function, *self._called), new)
        return self._note_names(self._reached)

    def _note_names(self, reached: Reached) -> Sequence[Any]:
        """Note what names stand for; the values, which are to be looked into."""
        if id(reached) in self._seen:
            return ()
        self._seen[id(reached)] = reached
        self.reached.append(reached)
        found = [(name, name.value()) for name in (*reached.names, *reached.rebound)]
        self.names += [(name, value) for name, value in found if type(value) is not TracedArray]
        parts = [part for name in reached.program for part in self._held_by_program(name.value())]
        return [*(value for _, value in found), *parts]

    def _held_by_program(self, part: Any) -> Sequence[Any]:
        """What is to be looked into of a part of the program: functions and classes with attributes, bound methods."""
        if type(part) is FunctionType:
            places: Sequence[Any] = (part,)
        elif isinstance(part, type):
            places = (*part.__mro__[:-1], type(part))
        else:
            is_bound = type(part) in _BOUND and type(part.__self__) is not ModuleType
            return (part,) if is_bound or type(part) is functools.partial else ()
        found: list[Any] = []
        for place in places:
            if id(place) in self._seen or id(place) in self._bare:
                continue
            if kind_of(place).state_of(place):
                found.append(place)
            else:
                self._bare[id(place)] = place
        return found

    def note_new_attributes(self) -> None:
        """Note, after the call, that functions and classes had no attributes before that have some now."""
        for place in self._bare.values():
            if kind_of(place).state_of(place):
                self.states[id(place)] = (place, {})
        self._bare = {}

    def _keep_state(self, value: Any, state: Any) -> None:
        """Keep the state in which a value was met first."""
        if id(value) not in self.states:
            self.states[id(value)] = (value, state)
            if children_of(value) is not None:
                self._children.append((value, children_of(value)))

    def now(self) -> Kept:
        """The same values and names, as they are now."""
        made = Kept()
        values = [*(value for value, _ in self.states.values()), *self._bare.values()]
        made.states = {id(value): (value, kind_of(value).state_of(value)) for value in values}
        made.names = [(name, name.value()) for name, _ in self.names]
        made._function, made._reached, made._seen = self._function, self._reached, dict(self._seen)
        made._children = [(value, children_of(value)) for value, _ in self._children]
        return made

    def put_back(self) -> None:
        """Give every value the state that is kept."""
        # Last what was met first: two generators may draw from the same bits, two arrays share memory.
        for value, state in reversed(list(self.states.values())):
            kind_of(value).put_back(value, state)
        for place in self._bare.values():
            kind_of(place).put_back(place, {})
        bind(self.names[::-1])
        self.generators.put_back()

    def taken(self) -> Any:
        """A value that was changed, as far as can be told, and cannot be put back, an iterator for example; else None."""
        for value, state in self.states.values():
            if state is UNKNOWN or (type(state) is Position and not state.is_of(value)):
                return value
        return next((value for value, children in self._children if children != children_of(value)), None)

    def changes_nothing(self) -> bool:
        """Whether the function surely changes nothing, for as long as the names that it reaches are the same."""
        for value, state in self.states.values():
            if not isinstance(value, CellType) and (not isinstance(value, FunctionType | type) or state):
                return False
        # What is in a tuple may be another kind of thing tomorrow.
        return (
            not self._bare
            and not any(name.is_stored or isinstance(value, tuple | frozenset) for name, value in self.names)
            and not any(reached.may_draw() for reached in self.reached)
        )


def bind(names: list[tuple[Name, Any]]) -> None:
    """Let names stand for values again."""
    for name, value in names:
        if name.value() is not value:
            name.bind(value)
