"""The code that a recording runs: a function with its arguments, or a `with` block.

Of both it is asked which plain names they reach, from which objects they start, and which code may run.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any, Final

from ._arrays import ARRAYS
from ._attribute_reads import (
    FUNCTIONS,
    Attribute,
    Code,
    FunctionCode,
    Piece,
    bound_self,
    functions_in,
    is_followed_past,
    run_by,
)
from ._blocks import Block, BlockCode, Variable, given_to, may_hold, names_given, without_given
from ._plain_names import DefaultName, Name, items_of
from ._reached import Reached, called_code, entries_of, reached_by, reached_by_all

_MOST: Final = 1000  # items of a container that are looked at


class RecordedCode:
    """What is asked of the code of a recording.

    Parameters
    ----------
    recording : Recording
    reached : Reached
        What it reaches.
    classes : set of classes
        Of objects that it meets.
    """

    start = 0  # the offset at which it begins
    is_recursive = False  # whether it may call itself

    def __init__(self, recording: Any, reached: Reached, classes: set[type]) -> None:
        self._recording = recording
        self._reached = reached
        self._classes = classes
        # Functions that are called by no name, and what they reach.
        self._held: list[Any] = self._given_functions() + self._in_fields()
        self._reached_by_held = self._reach()

    def _given_functions(self) -> list[Any]:
        """The functions that it is given: it may call them."""
        return []

    def _in_fields(self) -> list[Any]:
        """The functions that lie in fields which were read or written."""
        values = [value for record in self._recording.log.values() for value in record.values.values()]
        return [each for value in values for each in functions_in(value)]

    def _reach(self) -> Reached | None:
        if not self._held:
            return None
        return reached_by_all(self._held, self._classes, frozenset(), frozenset({""}))

    def names(self) -> Sequence[Name | Variable]:
        """The plain names that it reaches."""
        held = self._reached_by_held
        return [*self._own_names(), *(() if held is None else held.looked_into)]

    def names_by(self, attributes: list[tuple[Attribute, Any]]) -> Sequence[Name]:
        """Those that functions reach which lie in attributes that it names."""
        mentions = self._reached.attributes  # and more, but quickly
        functions = [
            (attribute.name, each)
            for attribute, value in attributes
            if attribute.name in mentions
            for each in functions_in(value)
        ]
        if functions:
            mentions = frozenset(self.that_reads().mentions)
            functions = [(name, each) for name, each in functions if name in mentions]
        self._held += [each for _, each in functions]
        if functions:
            self._reached_by_held = self._reach()
        return self._reached_by_held.looked_into if functions and self._reached_by_held else ()

    def objects(self) -> list[Any]:
        """Values by which it, or a method of a captured object, gets at objects."""
        recording = self._recording
        known = (*recording._attributes(), *recording.containers.bystanders.values())
        return [*self._own_objects(), *(attributes.obj for attributes in known), *self._held]

    def classes(self) -> set[type]:
        """The classes of objects that it meets, and those that it names."""
        reached = {cls for reference in self._reached.classes if (cls := reference()) is not None}
        return self._classes | reached

    def that_reads(self) -> Code:
        """The code that may read."""
        functions = self._reached.alive()
        names = [*self._reached.program, *self._reached.names]
        called, _ = entries_of(tuple(self._held))
        if self._reached_by_held is not None:
            functions += self._reached_by_held.alive()
            names += [*self._reached_by_held.program, *self._reached_by_held.names]
        fields = frozenset(
            name for record in self._recording.log.values() for name in (*record.entries, *record.values)
        )
        return Code(self._pieces_of(functions, called, names), fields)

    def _own_names(self) -> Sequence[Name | Variable]:
        raise NotImplementedError

    def _own_objects(self) -> list[Any]:
        raise NotImplementedError

    def _pieces_of(
        self, functions: list[FunctionType], called: list[FunctionType], names: list[Name]
    ) -> list[Piece]:
        """The code that it may run, of some functions, of which it calls some by no name."""
        raise NotImplementedError


class RecordedFunction(RecordedCode):
    """A function that a recording runs, with its arguments."""

    def __init__(self, recording: Any, classes: set[type]) -> None:
        self._function = recording.function
        self._args, self._kwargs = recording.called_with
        self._given = [*self._args, *self._kwargs.values()]
        classes = {*classes, *(type(value) for value in self._given if is_followed_past(value))}
        super().__init__(recording, reached_by(self._function, classes), classes)
        self.is_recursive = self._reached.is_recursive

    def _own_names(self) -> Sequence[Name | Variable]:
        function, names = self._function, self._reached.looked_into
        found: list[Name | Variable] = list(names)
        if not self.is_recursive and any(type(name) is DefaultName for name in names):
            found = [*without_given(names, function, self._args, self._kwargs)]
        is_wrapped = type(function) is not FunctionType or "__wrapped__" in vars(function)
        if is_wrapped or any(map(may_hold, self._given)):
            found += names_given(function, self._args, self._kwargs)
        return found

    def _given_functions(self) -> list[Any]:
        items = [
            item for value in self._given if type(value) not in ARRAYS for item in items_of(value)[:_MOST]
        ]
        return [value for value in (*self._given, *items) if issubclass(type(value), FUNCTIONS)]

    def _own_objects(self) -> list[Any]:
        return [*bound_self(self._function), *self._given]

    def _pieces_of(
        self, functions: list[FunctionType], called: list[FunctionType], names: list[Name]
    ) -> list[Piece]:
        own, variables = given_to(self._function, self._args, self._kwargs)
        code = called_code(self._function)
        first = [each for each in functions if each.__code__ is code]
        if first:
            functions = run_by(functions, [*first, *called], set(), names)
        return [FunctionCode(each, variables if each is own else {}) for each in functions]


class RecordedBlock(RecordedCode):
    """A `with` block that a recording runs."""

    def __init__(self, recording: Any, code: BlockCode, classes: set[type]) -> None:
        self._code = code
        self.start = code.start
        classes = {*classes, *map(type, code.objects)}
        reached = reached_by_all(code.called, classes, frozenset(code.named), code.homes)
        super().__init__(recording, reached, classes)

    def _own_names(self) -> Sequence[Name | Variable]:
        return [*self._code.variables, *self._reached.looked_into]

    def _own_objects(self) -> list[Any]:
        return [*self._code.objects, *self._code.called]

    def _pieces_of(
        self, functions: list[FunctionType], called: list[FunctionType], names: list[Name]
    ) -> list[Piece]:
        first, _ = entries_of(tuple(self._code.called))
        functions = run_by(functions, [*first, *called], self._code.named, names)
        return [self._code, *(FunctionCode(each, {}) for each in functions)]


def code_of(recording: Any) -> RecordedCode | None:
    """The code of a recording; None if it is not known."""
    function = recording.function
    if function is None:
        return None
    met = [attributes.obj for attributes in recording.containers.bystanders.values()]
    classes = {type(each) for each in met if is_followed_past(each)}
    classes.update(type(record.obj) for record in recording.log.values())
    if type(function) is not Block:
        return RecordedFunction(recording, classes)
    code = function.look()
    return None if code is None else RecordedBlock(recording, code, classes)
