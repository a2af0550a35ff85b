"""The code that a recording runs: a function with its arguments, or a `with` block.

Of both it is asked which plain names they reach, from which objects they start, and which code may run.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Sequence
from types import CodeType, FunctionType, MethodType
from typing import Any, Final

from ._attribute_reads import (
    Attribute,
    AttributeName,
    Near,
    attributes_of_classes,
    functions_in,
    is_followed_past,
)
from ._blocks import Block, BlockCode, Variable, given_to, may_hold, names_given, without_given
from ._bytecode import loads_of, with_inner
from ._fields import CapturedField
from ._loads import Load
from ._members import FUNCTIONS, RUN_WHEN_MADE, SELDOM, class_of, is_method_of, static_attribute
from ._plain_names import DefaultName, Name, Read, items_within, keeps_as_it_is
from ._reached import Reached, called_code, entries_of, home_of, reached_by, reached_by_all
from ._value_flow import Flow, FunctionCode

_ROUNDS: Final = 8  # after which code that was not found is left


class RecordedCode:
    """What is asked of the code of a recording.

    Parameters
    ----------
    recording : Recording
    reached : Reached
        What it reaches.
    homes : frozenset
        Whose code is looked at.
    classes : set of classes
        Of objects that it meets.
    code : CodeType, optional
        Itself, if that is known.
    """

    start = 0  # the offset at which it begins
    is_recursive = False  # whether it may call itself

    def __init__(
        self,
        recording: Any,
        reached: Reached,
        homes: frozenset[str | None],
        classes: set[type],
        code: CodeType | None,
    ) -> None:
        self._recording = recording
        self._homes = homes
        self._classes = classes
        # Functions that are called by no name: they lie in fields which were read or written, or are given.
        values = [value for record in recording.log.values() for value in record.values.values()]
        self._held: list[Any] = [each for value in values for each in functions_in(value)]
        self._held += self._given_functions()
        self._reached = [reached, *self._reached_by(self._held)]
        self._code_object = code
        # What is near: attributes that it may read, those of classes among them; values by attributes; classes.
        self.attributes: list[Attribute] = []
        self._of_classes: list[Attribute] = []
        self._in_attributes: dict[str, list[Any]] = {}
        self._all_classes = list(classes)

    def _reached_by(self, functions: list[Any]) -> list[Reached]:
        return [reached_by_all(functions, self._classes, frozenset(), self._homes)] if functions else []

    def names(self) -> Sequence[Name | Variable]:
        """The plain names that it reaches."""
        return [*self._own_names(), *(name for each in self._reached[1:] for name in each.looked_into)]

    def names_near(self, values: Iterable[Any]) -> Sequence[Name]:
        """Those that are reached by objects, and functions, to which values lead by attributes; see `may_run`."""
        recording = self._recording
        met = (*recording._attributes(), *recording.containers.bystanders.values())
        roots = [*self._own_objects(), *(attributes.obj for attributes in met), *self._held, *values]
        known = {id(name) for each in self._reached for name in each.looked_into}
        roots += [name.value() for each in self._reached for name in each.program]
        for _ in range(_ROUNDS):
            if not self._look_around(roots):
                break
        found = [name for each in self._reached for name in each.looked_into if id(name) not in known]
        return self._without_given(found)

    def _look_around(self, roots: list[Any]) -> bool:
        """Look at the attributes that the code names, of objects to which values lead; True if there is more code to it."""
        asked = self._own_asked().union(*(each.asked for each in self._reached))
        near = Near([*roots, *(attribute.value for attribute in self._of_classes)], asked)
        named = [cls for each in self._reached for ref in each.classes if (cls := ref()) is not None]
        self._all_classes = list(dict.fromkeys([*self._classes, *named, *near.classes]))
        known, self._of_classes = self._of_classes, [*attributes_of_classes(self._all_classes, asked)]
        self._in_attributes = near.in_attributes
        self.attributes = [*near.attributes, *self._of_classes]
        held = [each for attribute in self.attributes for each in functions_in(attribute.value)]
        if self._code_object is not None and any(
            each.__code__ is self._code_object for each in entries_of(tuple(held))[0]
        ):
            self.is_recursive = True  # it may call itself by an attribute
        if held or not near.classes <= self._classes:
            self._classes = {*self._classes, *near.classes}
            self._reached = [*self._reached[:1], self._reach(), *self._reached_by([*self._held, *held])]
        return len(known) < len(self._of_classes) or not all(each.asked <= asked for each in self._reached)

    def _without_given(self, names: list[Name]) -> list[Name]:
        """The names without the defaults for which it was given something else."""
        return names

    def may_name(self, attribute: Attribute) -> bool:
        """Whether some code takes such an attribute of anything but an object that is none with it, `self` in its class."""
        name, obj = attribute.name, attribute.obj
        if any(step.name == name for load in self._own_loads() for step in load.steps):
            return True
        functions = {id(each): each for reached in self._reached for each in reached.alive()}
        return any(self._may_take(function, name, obj) for function in functions.values())

    def _may_take(self, function: FunctionType, name: str, obj: Any) -> bool:
        code = function.__code__
        starts = frozenset().union(*(loads_of(each).starts_of(name) for each in with_inner(code)))
        if not starts or starts - set(code.co_varnames[: min(code.co_argcount, 1)]):
            return bool(starts)
        if function.__name__ in SELDOM:  # of an object that is made, mostly
            return function.__name__ not in RUN_WHEN_MADE
        cls = obj if issubclass(type(obj), type) else type(obj)
        of_it = any(is_method_of(function, each) for each in (cls, *cls.__subclasses__()))
        return of_it or not any(is_method_of(function, each) for each in self._all_classes)

    def name_of(self, attribute: Attribute) -> AttributeName:
        """An attribute as a name."""
        return AttributeName(attribute, self._flow)

    def may_run(self, code: CodeType) -> bool:
        """Whether some code may run, as far as is seen."""
        return any(code is each for piece in self._flow.pieces for each in with_inner(piece.code))

    def may_keep(self, read: Read) -> bool:
        """Whether an assignment to an attribute reads the value, or puts it where it may be read by another name."""
        target = read.load.stored_in
        for piece in self._flow.pieces if target is not None else ():
            for code, load in piece.places():
                if load is read.load and target is not None:
                    values = self._flow.values_of(piece, code, target[0])
                    return any(not _is_plain_field(value, target[1]) for value in values)
        return False

    @functools.cached_property
    def _flow(self) -> Flow:
        flow = Flow(self._all_classes, self._in_attributes, self._homes)
        self._start(flow)
        for each in self._held:
            flow.call_otherwise(each)
        flow.run()
        return flow

    def _given_functions(self) -> list[Any]:
        """The functions that it is given: it may call them."""
        return []

    def _reach(self) -> Reached:
        """What it reaches, and objects of the classes that it meets."""
        raise NotImplementedError

    def _own_names(self) -> Sequence[Name | Variable]:
        raise NotImplementedError

    def _own_objects(self) -> list[Any]:
        raise NotImplementedError

    def _own_loads(self) -> Iterable[Load]:
        """The places in a block at which values come up; a function is among those that are reached."""
        return ()

    def _own_asked(self) -> frozenset[str]:
        return frozenset(step.name for load in self._own_loads() for step in load.steps)

    def _start(self, flow: Flow) -> None:
        """Put the code itself into the flow."""
        raise NotImplementedError


class RecordedFunction(RecordedCode):
    """A function that a recording runs, with its arguments."""

    def __init__(self, recording: Any, classes: set[type]) -> None:
        self._function = recording.function
        self._args, self._kwargs = recording.called_with
        self._given = [*self._args, *self._kwargs.values()]
        self._classes = {*classes, *(type(value) for value in self._given if is_followed_past(value))}
        reached = self._reach()
        code = called_code(self._function)
        homes = frozenset({"", home_of(code.co_filename) if code is not None else ""})
        super().__init__(recording, reached, homes, self._classes, code)
        self.is_recursive = reached.is_recursive

    def _reach(self) -> Reached:
        return reached_by(self._function, self._classes)

    def _own_names(self) -> Sequence[Name | Variable]:
        function = self._function
        found: list[Name | Variable] = [*self._without_given([*self._reached[0].looked_into])]
        is_wrapped = type(function) is not FunctionType or "__wrapped__" in vars(function)
        if is_wrapped or any(map(may_hold, self._given)):
            found += names_given(function, self._args, self._kwargs)
        return found

    def _without_given(self, names: list[Name]) -> list[Name]:
        if self.is_recursive or not any(type(name) is DefaultName for name in names):
            return names
        return without_given(names, self._function, self._args, self._kwargs)

    def _given_functions(self) -> list[Any]:
        items = [item for value in self._given for item in items_within(value)]
        return [value for value in (*self._given, *items) if issubclass(type(value), FUNCTIONS)]

    def _own_objects(self) -> list[Any]:
        function = self._function
        its = [function.__self__] if type(function) is MethodType else [function]
        return [*its, *self._given]

    def _start(self, flow: Flow) -> None:
        function, variables = given_to(self._function, self._args, self._kwargs)
        if function is not None:
            flow.start(FunctionCode(function, variables))
        flow.call_otherwise(self._function)


class RecordedBlock(RecordedCode):
    """A `with` block that a recording runs."""

    def __init__(self, recording: Any, code: BlockCode, classes: set[type]) -> None:
        self._code = code
        self.start = code.start
        self._classes = {*classes, *map(type, code.objects)}
        self._homes = code.homes
        reached = self._reach()
        super().__init__(recording, reached, code.homes, self._classes, code.code)
        self.is_recursive = any(function.__code__ is code.code for function in reached.alive())

    def _reach(self) -> Reached:
        return reached_by_all(self._code.called, self._classes, frozenset(self._code.named), self._homes)

    def _own_names(self) -> Sequence[Name | Variable]:
        return [*self._code.variables, *self._reached[0].looked_into]

    def _own_objects(self) -> list[Any]:
        return [*self._code.objects, *self._code.called]

    def _own_loads(self) -> Iterable[Load]:
        return [load for _, load in self._code.places()]

    def _start(self, flow: Flow) -> None:
        flow.start(self._code)


def _is_plain_field(value: Any, name: str) -> bool:
    """Whether an attribute of a value is a captured field that keeps what is assigned to it."""
    cls = class_of(value)
    return type(static_attribute(cls, name)) is CapturedField and keeps_as_it_is(cls, name)


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
