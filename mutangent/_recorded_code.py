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
from ._blocks import Block, BlockCode, Variable, called, may_hold, names_given, without_given
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
        self._pieces: list[Piece] | None = None

    def names(self) -> Sequence[Name | Variable]:
        """The plain names that it reaches."""
        raise NotImplementedError

    def objects(self) -> list[Any]:
        """Values by which it, or a method of a captured object, gets at objects."""
        recording = self._recording
        known = (*recording._attributes(), *recording.containers.bystanders.values())
        return [*self._own_objects(), *(attributes.obj for attributes in known), *self._in_fields()]

    def classes(self) -> set[type]:
        """The classes of objects that it meets, and those that it names."""
        reached = {cls for reference in self._reached.classes if (cls := reference()) is not None}
        return self._classes | reached

    def _names_of_functions(self) -> list[Name]:
        """The names that may stand for functions, or for lists of some."""
        return [*self._reached.program, *self._reached.names]

    def _own_objects(self) -> list[Any]:
        raise NotImplementedError

    def _own_pieces(self) -> list[Piece]:
        """The code that it may run by the names in it."""
        raise NotImplementedError

    def held_by(self, attributes: list[tuple[Attribute, Any]]) -> Reached | None:
        """What functions reach that are called by no name: those that lie in fields, and in attributes which it names."""
        held = self._in_fields()
        functions = [
            (attribute.name, each) for attribute, value in attributes for each in functions_in(value)
        ]
        if functions:
            mentions = self.that_reads(None).mentions
            held += [each for name, each in functions if name in mentions]
        return reached_by_all(held, self._classes, frozenset(), frozenset({""})) if held else None

    def that_reads(self, held: Reached | None) -> Code:
        """The code that may read; `held` is reached by functions that are called by no name."""
        if self._pieces is None:
            self._pieces = self._own_pieces()
        more = [] if held is None else [FunctionCode(each, {}) for each in held.alive()]
        fields = frozenset(
            name for record in self._recording.log.values() for name in (*record.entries, *record.values)
        )
        return Code([*self._pieces, *more], fields)

    def _in_fields(self) -> list[Any]:
        """The functions that lie in fields which were read or written."""
        values = [value for record in self._recording.log.values() for value in record.values.values()]
        return [each for value in values for each in functions_in(value)]


class RecordedFunction(RecordedCode):
    """A function that a recording runs, with its arguments."""

    def __init__(self, recording: Any, classes: set[type]) -> None:
        self._function = recording.function
        self._args, self._kwargs = recording.called_with
        self._given = [*self._args, *self._kwargs.values()]
        classes = {*classes, *(type(value) for value in self._given if is_followed_past(value))}
        super().__init__(recording, reached_by(self._function, classes), classes)
        self.is_recursive = self._reached.is_recursive

    def names(self) -> Sequence[Name | Variable]:
        """The plain names that it reaches."""
        function, names = self._function, self._reached.looked_into
        found: list[Name | Variable] = list(names)
        if not self.is_recursive and any(type(name) is DefaultName for name in names):
            found = [*without_given(names, function, self._args, self._kwargs)]
        for each in self._callables():
            found += reached_by(each, self._classes).looked_into
        is_wrapped = type(function) is not FunctionType or "__wrapped__" in vars(function)
        if is_wrapped or any(map(may_hold, self._given)):
            found += names_given(function, self._args, self._kwargs)
        return found

    def _callables(self) -> list[Any]:
        """The functions among the arguments, and in containers among these: it may call them."""
        items = [
            item for value in self._given if type(value) not in ARRAYS for item in items_of(value)[:_MOST]
        ]
        return [value for value in (*self._given, *items) if issubclass(type(value), FUNCTIONS)]

    def _own_objects(self) -> list[Any]:
        return [*bound_self(self._function), *self._given]

    def _own_pieces(self) -> list[Piece]:
        own, variables = called(self._function, self._args, self._kwargs)
        functions = self._reached.alive()
        code = called_code(self._function)
        first = [each for each in functions if each.__code__ is code]
        if first:
            functions = run_by(functions, first, set(), self._names_of_functions())
        return [FunctionCode(each, variables if each is own else {}) for each in functions]


class RecordedBlock(RecordedCode):
    """A `with` block that a recording runs."""

    def __init__(self, recording: Any, code: BlockCode, classes: set[type]) -> None:
        self._code = code
        self.start = code.start
        classes = {*classes, *map(type, code.objects)}
        reached = reached_by_all(code.called, classes, frozenset(code.named), code.homes)
        super().__init__(recording, reached, classes)

    def names(self) -> Sequence[Name | Variable]:
        """The plain names that it reaches."""
        return [*self._code.variables, *self._reached.looked_into]

    def _own_objects(self) -> list[Any]:
        return [*self._code.objects, *self._code.called]

    def _own_pieces(self) -> list[Piece]:
        first, _ = entries_of(tuple(self._code.called))
        functions = run_by(self._reached.alive(), first, self._code.named, self._names_of_functions())
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
