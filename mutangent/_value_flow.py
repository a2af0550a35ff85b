"""Which functions a piece of code runs, and which values come up in it, as far as that can be seen without running it.

A name of a module stands for its value. What a variable, an argument or a result may be is followed back to such names:
through assignments, loops, containers and calls. Where that ends, a value is not known: UNSET. Nothing is run.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    CodeType,
    FunctionType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, Protocol
from weakref import ReferenceType

from ._bytecode import codes_around, loads_of, with_inner
from ._loads import (
    BOUND,
    CALLED,
    COMPARED,
    CONSTANT,
    GIVEN,
    GLOBAL,
    ITEM,
    ITERATOR,
    LOCAL,
    SUPER,
    UNKNOWN,
    Load,
    Step,
)
from ._members import (
    CONTAINERS,
    DATA,
    FUNCTIONS,
    MOST_VALUES,
    SELDOM,
    SomeOf,
    called_by,
    class_of,
    distinct,
    functions_of,
    gives_no_item,
    gives_only_what_it_has,
    holder_of,
    in_class,
    is_class,
    is_number,
    key_of,
    own_members,
    static_attribute,
    value_after,
)
from ._plain_names import UNSET, DefaultName, items_of, items_within
from ._reached import HEAP_TYPE, home_of

_ROUNDS: Final = 8  # after which what was not found is left
_DEEPEST: Final = 50  # variables and calls through which a value is followed at once
_FEW: Final = 4  # after which values that become more and more are not followed


class Piece(Protocol):
    """A piece of code: that of a function, or of a block."""

    where: str  # what it is, in the words of an error message
    code: CodeType

    def places(self) -> Iterable[tuple[CodeType, Load]]:
        """The places at which values come up."""

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""

    def codes_around(self, code: CodeType) -> Iterable[CodeType]:
        """A part of it, and those around that, from which it has names."""

    def has(self, code: CodeType, offset: int) -> bool:
        """Whether an instruction of a part of it, or of one around it, belongs to it."""


class FunctionCode:
    """The code of a function.

    Parameters
    ----------
    function : function
    variables : dict
        What is known of its parameters.
    """

    def __init__(self, function: FunctionType, variables: dict[str, Any]) -> None:
        self.function = function
        self.where = function.__qualname__
        self.code = function.__code__
        self._variables = variables
        # What it was a method of when it was called; and whether somebody may call it of whom nothing is known.
        self.receivers: dict[Any, Any] = {}
        self.is_given_away = False
        # By the place, the calls of it; and whether the object comes first.
        self.calls: dict[int, tuple[Piece, CodeType, Load, bool]] = {}

    def places(self) -> Iterator[tuple[CodeType, Load]]:
        """The places at which values come up."""
        for code in with_inner(self.code):
            loads = loads_of(code)
            for load in (*loads.loads, *loads.unknown):
                yield code, load

    def value_of(self, code: CodeType, load: Load) -> Any:
        """What a name stands for there; UNSET if that is not known."""
        if load.kind == GLOBAL:
            return self.function.__globals__.get(load.name, getattr(builtins, load.name, UNSET))
        if load.name in self.code.co_freevars:
            with suppress(ValueError):
                return (self.function.__closure__ or ())[self.code.co_freevars.index(load.name)].cell_contents
        is_inner = load.kind == LOCAL and code is not self.code
        return UNSET if is_inner else self._variables.get(load.name, UNSET)

    def given_to(self, callee: Load) -> tuple[Any, tuple[str, ...]]:
        """The value of a name that is called, and which attributes are taken of it."""
        return (UNSET if callee.kind == LOCAL else self.value_of(self.code, callee)), callee.attributes

    def codes_around(self, code: CodeType) -> list[CodeType]:
        """A part of it, and those around that, from which it has names."""
        return codes_around(self.code, code)

    def has(self, _code: CodeType, _offset: int) -> bool:
        """Whether an instruction belongs to it."""
        return True

    def position_of(self, code: CodeType, name: str) -> int | None:
        """The position of a parameter among all of them; None for another name."""
        count = self.code.co_argcount + self.code.co_kwonlyargcount
        if name not in self.code.co_varnames[:count]:
            return None
        return self.code.co_varnames.index(name) if code is self.code or name in code.co_freevars else None

    def default_of(self, position: int) -> Any:
        """The default of a parameter, or UNSET."""
        return DefaultName(self.function, self.code.co_varnames[position]).value()


class Flow:
    """The pieces of code that may run, and the values in them.

    Parameters
    ----------
    classes : iterable of classes
        Those whose methods may be meant where only the name of a method is known.
    in_attributes : dict
        Objects, by the names of attributes of others in which they lie.
    homes : frozenset
        Whose code is looked at; see `home_of`.
    """

    def __init__(
        self, classes: Iterable[type], in_attributes: dict[str, list[Any]], homes: frozenset[str | None]
    ) -> None:
        self.pieces: list[Piece] = []
        self._classes = list(classes)
        self._in_attributes = in_attributes
        self._homes = homes
        self._functions: dict[int, FunctionCode] = {}
        self._values: dict[Any, list[Any]] = {}
        self._earlier = self._values  # those of the round before
        self._rounds = 0
        self._depth = 0
        self._used: dict[Any, Any] = {}  # objects of which special methods may run
        self._changes = 0

    @functools.cached_property
    def _by_name(self) -> dict[str, list[tuple[FunctionType, SomeOf]]]:
        """Methods by their names."""
        found: dict[str, list[tuple[FunctionType, SomeOf]]] = {}
        for cls in self._classes:
            some = SomeOf(cls)
            for name, member in own_members(cls):
                found.setdefault(name, []).extend((function, some) for function in functions_of(member))
        return found

    # -- which code runs -----------------------------------------------------------------------------------------------

    def start(self, piece: Piece) -> None:
        """Add a piece of code that runs."""
        self.pieces.append(piece)
        if isinstance(piece, FunctionCode):
            self._functions[id(piece.function)] = piece

    def run(self) -> None:
        """Find out which other ones do."""
        for _ in range(_ROUNDS):
            before = self._changes
            self._earlier, self._values = self._values, {}
            self._rounds += 1
            for piece in self.pieces:  # which become more
                for code, load in piece.places():
                    self._follow(piece, code, load)
            if self._changes == before:
                return

    def call_otherwise(self, value: Any) -> None:
        """Note that a function, a method or an object may be called by somebody of whom nothing is known."""
        for function, receiver in called_by(value):
            self._enter(function, receiver, None)

    def _enter(
        self, function: FunctionType, receiver: Any, call: tuple[Piece, CodeType, Load, bool] | None
    ) -> None:
        if home_of(function.__code__.co_filename) not in self._homes:
            return
        known = self._functions.get(id(function))
        if known is None:
            known = self._functions[id(function)] = FunctionCode(function, {})
            self.pieces.append(known)
            self._changes += 1
        if key_of(receiver) not in known.receivers:
            known.receivers[key_of(receiver)] = receiver
            self._changes += 1
        if call is None:
            self._changes += not known.is_given_away
            known.is_given_away = True
        elif id(call[2]) not in known.calls:
            known.calls[id(call[2])] = call
            self._changes += 1

    def _follow(self, piece: Piece, code: CodeType, load: Load) -> None:
        """Note what runs by what is done with a value."""
        values = self.start_of(piece, code, load)
        is_called = load.use == CALLED and load.arguments is not None
        for number, step in enumerate(load.steps):
            is_last = number + 1 == len(load.steps)
            call = (piece, code, load, True) if is_last and is_called else None
            if step.name in (ITEM, ITERATOR):
                self._use(values)
            else:
                for function, receiver in self._members_of(values, step):
                    self._enter(function, receiver, call)
            values = self.after(values, step)
        if is_called:
            for value in values:
                is_known = type(value) in (FunctionType, MethodType) or is_class(value)
                for function, receiver in called_by(value):
                    call = (piece, code, load, receiver is not UNSET) if is_known else None
                    self._enter(function, receiver, call)
        elif not self._is_followed(piece, code, load):
            self._use([*values, *(item for value in values for item in items_within(value))])

    def _is_followed(self, piece: Piece, code: CodeType, load: Load) -> bool:
        """Whether a value is only put into a variable, compared with `is`, or given to code that is known."""
        if load.use in (BOUND, COMPARED):
            return True
        if load.use != GIVEN or load.callee is None or load.callee.arguments is None:
            return False
        callees = self._callees(piece, code, load.callee)
        return bool(callees) and all(type(each) is FunctionCode for each in callees)

    def _use(self, values: list[Any]) -> None:
        """Note that values are used as a whole: they may be called, indexed, iterated over."""
        for value in values:
            if key_of(value) in self._used or type(value) in DATA or value is UNSET:
                continue
            self._used[key_of(value)] = value
            if issubclass(type(value), FUNCTIONS):
                self.call_otherwise(value)
            for name, member in own_members(class_of(value)):
                if name.startswith("__") and name.endswith("__") and name not in SELDOM:
                    for function in functions_of(member):
                        self._enter(function, value, None)

    def _members_of(self, values: list[Any], step: Step) -> Iterator[tuple[FunctionType, Any]]:
        """The functions that may run when an attribute is taken, or called, and the objects whose methods they are."""
        name = step.name
        if step.key is SUPER:
            for value in values:
                cls = holder_of(value)
                members = [] if value is UNSET else [base.__dict__.get(name) for base in cls.__mro__]
                yield from ((function, value) for member in members for function in functions_of(member))
            values = [value for value in values if value is UNSET]
        for value in values:
            if value is UNSET:
                yield from self._by_name.get(name, ())
                continue
            cls = holder_of(value)
            found = static_attribute(cls, name) if type(value) is SomeOf else static_attribute(value, name)
            if found is UNSET:
                other = static_attribute(type(value), "__getattr__")
                yield from ((function, value) for function in functions_of(other))
                if cls.__flags__ & HEAP_TYPE and functions_of(other):
                    yield from self._by_name.get(name, ())
                continue
            of_class = in_class(cls, name)
            if of_class is not found and type(found) is not FunctionType and not is_class(value):
                # A cached property, which has been computed by now.
                yield from ((function, value) for function in functions_of(of_class))
            if isinstance(found, classmethod):
                yield from ((function, cls) for function in functions_of(found))
            elif not functions_of(found):
                getters = functions_of(in_class(type(found), "__get__"))  # of a descriptor of the user's
                yield from ((function, found) for function in getters)
            else:
                is_method = static_attribute(cls, name) is found and not (
                    is_class(value) or type(value) is ModuleType
                )
                receiver = value if is_method and not isinstance(found, staticmethod) else UNSET
                for function in functions_of(found):
                    yield function, receiver

    # -- which values come up ------------------------------------------------------------------------------------------

    def start_of(self, piece: Piece, code: CodeType, load: Load) -> list[Any]:
        """What may come up at a place, before any attribute is taken of it; UNSET among it if there may be other values."""
        key = id(load) if load.kind == UNKNOWN else (id(piece), id(code), load.kind, load.name)
        if load.kind == CONSTANT:
            return [load.value]
        known = self._values.get(key)
        if known is None and self._depth > _DEEPEST:
            self._changes += 1  # it is looked up in the next round
            return self._earlier.get(key, [UNSET])
        if known is None:
            self._depth += 1
            earlier = self._values[key] = self._earlier.get(key, [])  # what comes from itself, as in a loop
            known = distinct(self._sources_of(piece, code, load))
            if self._rounds > _FEW and len(known) > len(earlier) > 0:
                known = distinct([*known, UNSET])  # a long list whose objects refer to the next one
            self._changes += len(known) != len(earlier)
            self._values[key] = known
            self._depth -= 1
        return known

    def values_of(self, piece: Piece, code: CodeType, load: Load) -> list[Any]:
        """What may come up at a place."""
        values = self.start_of(piece, code, load)
        for step in load.steps:
            values = self.after(values, step)
        return values

    def after(self, values: list[Any], step: Step) -> list[Any]:
        """What an attribute or an item of values may be."""
        found: list[Any] = []
        for value in values:
            its = [UNSET] if value is UNSET else value_after(value, step)
            found += its
            if any(each is UNSET for each in its) and (value is UNSET or type(value) is SomeOf):
                found += self._in_attributes.get(step.name, ())
        return distinct(found)

    def _sources_of(self, piece: Piece, code: CodeType, load: Load) -> Iterator[Any]:
        if load.kind == UNKNOWN:
            yield from self._results_at(piece, code, load)
            return
        value = piece.value_of(code, load)
        if value is not UNSET:
            yield value
        sources = [
            source
            for around in piece.codes_around(code)
            for offset, source in loads_of(around).bound.get(load.name, ())
            if value is UNSET or piece.has(around, offset)
        ]
        for source in sources:
            yield from [UNSET] if source is None else self.values_of(piece, code, source)
        if isinstance(piece, FunctionCode) and (position := piece.position_of(code, load.name)) is not None:
            if value is UNSET or piece.calls:
                yield from self._arguments_of(piece, position)
        elif value is UNSET and not sources:
            yield UNSET

    def _arguments_of(self, piece: FunctionCode, position: int) -> Iterator[Any]:
        name = piece.code.co_varnames[position]
        if position == 0 and any(each is not UNSET for each in piece.receivers.values()):
            yield from piece.receivers.values()
            return
        if piece.is_given_away:
            yield UNSET
        elif not piece.calls:  # the recorded function
            yield piece.default_of(position)
        for caller, code, callee, is_bound in piece.calls.values():
            given = callee.arguments or {}
            place = name if name in given else position - is_bound
            if place not in given:
                yield piece.default_of(position)
                continue
            argument = given[place]
            yield from [UNSET] if argument is None else self.values_of(caller, code, argument)

    def _results_at(self, piece: Piece, code: CodeType, load: Load) -> Iterator[Any]:
        parts = [each for part in load.made_of for each in self.values_of(piece, code, part)]
        if load.is_computed:
            # Of numbers and arrays come numbers and arrays.
            yield from [UNSET] if load.has_unknown_parts or not all(map(is_number, parts)) else []
            return
        if load.is_display:
            unknown = [UNSET] if load.has_unknown_parts else []
            yield (*parts, *(item for part in parts for item in items_of(part)[:MOST_VALUES]), *unknown)
            return
        is_known = load.result_of is not None or not load.has_unknown_parts
        callees = [] if load.result_of is None else self._callees(piece, code, load.result_of)
        for callee in callees:
            if isinstance(callee, FunctionCode):
                yield from self._returned_by(callee)
            elif type(callee) is ReferenceType:
                yield callee()
            elif is_class(callee) and callee.__flags__ & HEAP_TYPE:
                yield SomeOf(callee, is_new=True)
            elif not parts and any(callee is each for each in CONTAINERS):
                yield (UNSET,)  # it is filled later
            elif load.result_of is not None and gives_no_item(callee, load.result_of):
                continue
            else:
                is_known = is_known and gives_only_what_it_has(callee)
                yield from parts
                yield from (item for part in parts for item in items_within(part))
        if not callees:
            yield from parts
            yield from (item for part in parts for item in items_within(part))
        if not is_known or (load.result_of is not None and not callees):
            yield UNSET

    def _callees(self, piece: Piece, code: CodeType, load: Load) -> list[Any]:
        """What may be called at a place: code that is known, classes, other functions, or UNSET."""
        values = self.start_of(piece, code, load)
        found: list[Any] = []
        for number, step in enumerate(load.steps):
            if number + 1 == len(load.steps) and step.name not in (ITEM, ITERATOR):
                members = self._members_of(values, step)
                found += [self._functions.get(id(function), function) for function, _ in members]
            values = self.after(values, step)
        for value in values:
            called = [] if is_class(value) else list(called_by(value))
            found += [self._functions.get(id(function), function) for function, _ in called]
            if not called and not (value is UNSET and found):
                found.append(value)
        return distinct(found)

    def _returned_by(self, piece: FunctionCode) -> list[Any]:
        values: list[Any] = []
        for load in loads_of(piece.code).returned:
            values += [UNSET] if load is None else self.values_of(piece, piece.code, load)
        is_generator = piece.code.co_flags & (
            inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        )
        return [tuple(values)] if is_generator else values
