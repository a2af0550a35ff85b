"""Which functions a piece of code runs, and which values come up in it, as far as that can be seen without running it.

A name of a module stands for its value. What a variable, an argument or a result may be is followed back to such names:
through assignments, loops, containers and calls. Where that ends, a value is not known: UNSET. Nothing is run.
"""

from __future__ import annotations

import builtins
import functools
import inspect
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import (
    CodeType,
    FunctionType,
    GeneratorType,
    MemberDescriptorType,
    MethodDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any, Final, Protocol
from weakref import ReferenceType

from ._arrays import ARRAYS
from ._bytecode import codes_around, loads_of, with_inner
from ._fields import CapturedField
from ._loads import (
    BOUND,
    CALLED,
    CLASS,
    COMPARED,
    CONSTANT,
    GIVEN,
    GLOBAL,
    ITEM,
    ITERATOR,
    LOCAL,
    UNKNOWN,
    Load,
    Step,
)
from ._plain_names import UNSET, items_of, items_within, parts_of
from ._reached import HEAP_TYPE, behind, home_of

_MOST: Final = 64  # values that are looked at in one place
_ROUNDS: Final = 8  # after which what was not found is left
_DEEPEST: Final = 50  # variables and calls through which a value is followed at once
_FEW: Final = 4  # after which values that become more and more are not followed
FUNCTIONS: Final = (FunctionType, MethodType, functools.partial, GeneratorType)
_DATA: Final = frozenset({*ARRAYS, float, int, bool, str, bytes, complex, type(None)})
# Methods that seldom run in a recording on an object that was there before, other than by their name.
SELDOM: Final = frozenset(
    {
        *("__init__", "__new__", "__pre_init__", "__post_init__", "__attrs_post_init__", "__init_subclass__"),
        *("__attrs_pre_init__", "__del__", "__repr__", "__str__", "__format__", "__dir__", "__sizeof__"),
        *("__eq__", "__ne__", "__hash__", "__copy__", "__deepcopy__"),
        *("__reduce__", "__reduce_ex__", "__getstate__", "__setstate__"),
    }
)
RUN_WHEN_MADE: Final = ("__new__", "__init__", "__post_init__", "__attrs_pre_init__", "__attrs_post_init__")
_CONTAINERS: Final = frozenset({list, tuple, dict, set, frozenset, deque})
_GIVE_ITEMS: Final = frozenset(
    {
        "pop",
        "popleft",
        "popitem",
        "get",
        "setdefault",
        "values",
        "items",
        "copy",
        "union",
        "__getitem__",
        "__iter__",
    }
)
_PLAIN_FUNCTIONS: Final = (
    *(
        zip,
        enumerate,
        reversed,
        sorted,
        list,
        tuple,
        set,
        frozenset,
        dict,
        deque,
        range,
        len,
        min,
        max,
        sum,
        abs,
    ),
    *(
        float,
        int,
        bool,
        str,
        complex,
        round,
        print,
        repr,
        isinstance,
        issubclass,
        id,
        hash,
        any,
        all,
        divmod,
        pow,
    ),
)
# Results of their functions are no objects of the user's, other than such as they are given.
_OF_NUMBERS: Final = frozenset({"numpy", "scipy", "cupy", "math", "cmath"})


class SomeOf:
    """Any object of a class, or one that is made only now."""

    __slots__ = ("cls", "is_new")

    def __init__(self, cls: type, is_new: bool = False) -> None:
        self.cls = cls
        self.is_new = is_new


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
        self.calls: dict[
            int, tuple[Piece, CodeType, Load, bool]
        ] = {}  # by the place; and whether the object comes first

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
        name, positional = self.code.co_varnames[position], self.code.co_argcount
        if position >= positional:
            return (self.function.__kwdefaults__ or {}).get(name, UNSET)
        defaults = self.function.__defaults__ or ()
        return defaults[position - positional] if position >= positional - len(defaults) else UNSET


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
            for base in cls.__mro__ if cls.__flags__ & HEAP_TYPE else ():
                for name, member in vars(base).items() if base.__flags__ & HEAP_TYPE else ():
                    found.setdefault(name, []).extend((function, some) for function in _functions_of(member))
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
            for piece in list(self.pieces):
                for code, load in piece.places():
                    self._follow(piece, code, load)
            if self._changes == before:
                return

    def call_otherwise(self, value: Any) -> None:
        """Note that a function, a method or an object may be called by somebody of whom nothing is known."""
        for function, receiver in _called_by(value):
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
        if _key(receiver) not in known.receivers:
            known.receivers[_key(receiver)] = receiver
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
                for function, receiver in self._members_of(values, step.name):
                    self._enter(function, receiver, call)
            values = self.after(values, step)
        if is_called:
            for value in values:
                is_known = type(value) in (FunctionType, MethodType) or _is_class(value)
                for function, receiver in _called_by(value):
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
            if _key(value) in self._used or type(value) in _DATA or value is UNSET:
                continue
            self._used[_key(value)] = value
            if issubclass(type(value), FUNCTIONS):
                self.call_otherwise(value)
            cls = value.cls if type(value) is SomeOf else type(value)
            for base in cls.__mro__ if cls.__flags__ & HEAP_TYPE else ():
                for name, member in vars(base).items() if base.__flags__ & HEAP_TYPE else ():
                    if name.startswith("__") and name.endswith("__") and name not in SELDOM:
                        for function in _functions_of(member):
                            self._enter(function, value, None)

    def _members_of(self, values: list[Any], name: str) -> Iterator[tuple[FunctionType, Any]]:
        """The functions that may run when an attribute is taken, or called, and the objects whose methods they are."""
        for value in values:
            if value is UNSET:
                yield from self._by_name.get(name, ())
                continue
            cls = value.cls if type(value) is SomeOf else value if _is_class(value) else type(value)
            found = static_attribute(cls, name) if type(value) is SomeOf else static_attribute(value, name)
            if found is UNSET:
                other = static_attribute(type(value), "__getattr__")
                yield from ((function, value) for function in _functions_of(other))
                if cls.__flags__ & HEAP_TYPE and _functions_of(other):
                    yield from self._by_name.get(name, ())
                continue
            of_class = _in_class(cls, name)
            if of_class is not found and type(found) is not FunctionType and not _is_class(value):
                # A cached property, which has been computed by now.
                yield from ((function, value) for function in _functions_of(of_class))
            if isinstance(found, classmethod):
                yield from ((function, cls) for function in _functions_of(found))
            elif not _functions_of(found):
                getters = _functions_of(_in_class(type(found), "__get__"))  # of a descriptor of the user's
                yield from ((function, found) for function in getters)
            else:
                is_method = static_attribute(cls, name) is found and not (
                    _is_class(value) or type(value) is ModuleType
                )
                receiver = value if is_method and not isinstance(found, staticmethod) else UNSET
                for function in _functions_of(found):
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
            known = _distinct(self._sources_of(piece, code, load))
            if self._rounds > _FEW and len(known) > len(earlier) > 0:
                known = _distinct([*known, UNSET])  # a long list whose objects refer to the next one
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
            its = [UNSET] if value is UNSET else _after(value, step)
            found += its
            if any(each is UNSET for each in its) and (value is UNSET or type(value) is SomeOf):
                found += self._in_attributes.get(step.name, ())
        return _distinct(found)

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
        position = piece.position_of(code, load.name) if isinstance(piece, FunctionCode) else None
        if position is not None and isinstance(piece, FunctionCode):
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
        if load.is_display:
            unknown = [UNSET] if load.has_unknown_parts else []
            yield (*parts, *(item for part in parts for item in items_of(part)[:_MOST]), *unknown)
            return
        is_known = load.result_of is not None or not load.has_unknown_parts
        callees = [] if load.result_of is None else self._callees(piece, code, load.result_of)
        for callee in callees:
            if isinstance(callee, FunctionCode):
                yield from self._returned_by(callee)
            elif type(callee) is ReferenceType:
                yield callee()
            elif _is_class(callee) and callee.__flags__ & HEAP_TYPE:
                yield SomeOf(callee, is_new=True)
            elif load.result_of is not None and _gives_no_item(callee, load.result_of):
                continue
            else:
                is_known = is_known and _gives_only_what_it_has(callee)
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
                members = self._members_of(values, step.name)
                found += [self._functions.get(id(function), function) for function, _ in members]
            values = self.after(values, step)
        for value in values:
            called = [] if _is_class(value) else list(_called_by(value))
            found += [self._functions.get(id(function), function) for function, _ in called]
            if not called and not (value is UNSET and found):
                found.append(value)
        return _distinct(found)

    def _returned_by(self, piece: FunctionCode) -> list[Any]:
        values: list[Any] = []
        for load in loads_of(piece.code).returned:
            values += [UNSET] if load is None else self.values_of(piece, piece.code, load)
        is_generator = piece.code.co_flags & (
            inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR
        )
        return [tuple(values)] if is_generator else values


def _key(value: Any) -> Any:
    return (value.is_new, id(value.cls)) if type(value) is SomeOf else id(value)


def _gives_only_what_it_has(callee: Any) -> bool:
    """Whether what a function in C gives is one of its arguments, lies in them, or is no object of the user's."""
    if callee is UNSET:
        return False
    if type(callee) is MethodDescriptorType:
        return callee.__objclass__ in _CONTAINERS
    module = str(getattr(callee, "__module__", "") or "").partition(".")[0]
    return module in _OF_NUMBERS or any(callee is each for each in _PLAIN_FUNCTIONS)


def _gives_no_item(callee: Any, load: Load) -> bool:
    """Whether a method of a container of Python's own gives none of its items."""
    is_method = type(callee) is MethodDescriptorType and callee.__objclass__ in _CONTAINERS
    return is_method and bool(load.steps) and load.steps[-1].name not in _GIVE_ITEMS


def _distinct(values: Iterable[Any]) -> list[Any]:
    """Values, each once, and not too many."""
    found: dict[Any, Any] = {}
    for value in values:
        found.setdefault(_key(value), value)
        if len(found) > _MOST:
            found[id(UNSET)] = UNSET
            break
    return list(found.values())


def _after(value: Any, step: Step) -> list[Any]:
    """What an attribute of a value may be, or an item; UNSET if code would have to run to tell it."""
    name, key = step
    if name in (ITEM, ITERATOR):
        if issubclass(type(value), dict):
            values = list(dict.values(value))
            return [dict.get(value, key, UNSET)] if key is not None and name == ITEM else values[:_MOST]
        items = items_of(value)
        if not items and type(value) not in (list, tuple, deque):
            return _inside(value)
        if type(key) is int and name == ITEM and type(value) is list:
            return items[key : key + 1 or None]
        return items[:_MOST]
    if name == CLASS:
        return [value.cls if type(value) is SomeOf else type(value)]
    if type(value) is SomeOf:
        found = static_attribute(value.cls, name)
        return [UNSET if found is UNSET or hasattr(type(found), "__get__") else found]
    found = static_attribute(value, name)
    if found is UNSET and not type(value).__flags__ & HEAP_TYPE:
        return []  # it has no such attribute
    if (type(found) is MemberDescriptorType or type(found) is CapturedField) and not _is_class(value):
        with suppress(AttributeError):
            return [found.__get__(value, type(value))]
        return [UNSET]
    if type(value) is ModuleType:
        return [found]
    if type(found) is MethodDescriptorType:
        return [found]
    if hasattr(type(found), "__get__"):
        return [] if type(found) is not property and not behind(found) and found is not UNSET else [UNSET]
    return [found]


def _inside(value: Any) -> list[Any]:
    """What an item of a value may be that is no container of Python's own."""
    kind = value.cls if type(value) is SomeOf else type(value)
    if kind in _DATA or kind is range:
        return []
    if not kind.__flags__ & HEAP_TYPE:
        return [UNSET, *parts_of(value)]
    has_code = any(_functions_of(_in_class(kind, name)) for name in ("__iter__", "__getitem__", "__next__"))
    return [UNSET] if has_code else [value]


def _is_class(value: Any) -> bool:
    return issubclass(type(value), type)


def static_attribute(value: Any, name: str) -> Any:
    """An attribute as it is stored, or UNSET; nothing is run for it."""
    cls = type(value)
    found = _in_class(cls, name)
    if _is_class(value):
        own = _in_class(value, name)
        return found if own is UNSET else own
    if found is not UNSET and _in_class(type(found), "__set__") is not UNSET:
        return found
    try:
        stored = object.__getattribute__(value, "__dict__") if cls.__dictoffset__ or cls is ModuleType else {}
    except Exception:  # noqa: BLE001 - what a class of the user's raises
        stored = {}
    return stored.get(name, found) if type(stored) is dict else found


def _in_class(cls: type, name: str) -> Any:
    for base in cls.__mro__:
        if name in base.__dict__:
            return base.__dict__[name]
    return UNSET


def is_method_of(function: FunctionType, cls: type) -> bool:
    """Whether a function is a method of a class, under its own name or another."""
    member = _in_class(cls, function.__name__)
    if function in _functions_of(member):
        return True
    return any(function is each for base in cls.__mro__ for each in base.__dict__.values())


def answers_by_code(cls: type) -> bool:
    """Whether attributes that an object of a class does not have are given by code of the user's."""
    functions = [
        function
        for name in ("__getattr__", "__getattribute__")
        for function in _functions_of(static_attribute(cls, name))
    ]
    return any(home_of(function.__code__.co_filename) is not None for function in functions)


def _functions_of(member: Any) -> list[FunctionType]:
    """The functions that a member of a class, or of a module, runs when it is taken or called."""
    found: list[FunctionType] = []
    pending = [member]
    seen: set[int] = set()
    while pending and len(seen) < _MOST:
        each = pending.pop()
        if id(each) in seen or issubclass(type(each), type):
            continue
        seen.add(id(each))
        if type(each) is FunctionType:
            found.append(each)
        pending += behind(each)
    return found


def _called_by(value: Any) -> Iterator[tuple[FunctionType, Any]]:
    """The functions that a call of a value runs, and the objects whose methods they are."""
    kind = type(value)
    if value is UNSET or kind in _DATA:
        return
    if _is_class(value):
        members = [static_attribute(value, name) for name in RUN_WHEN_MADE]
        yield from (
            (function, SomeOf(value, is_new=True)) for member in members for function in _functions_of(member)
        )
    elif kind is MethodType:
        yield from ((function, value.__self__) for function in _functions_of(value.__func__))
    elif issubclass(kind, functools.partial):
        yield from _called_by(value.func)
        given = [
            each for each in (*value.args, *value.keywords.values()) if issubclass(type(each), FUNCTIONS)
        ]
        yield from (found for each in given for found in _called_by(each))
    elif issubclass(kind, FUNCTIONS) or behind(value):
        yield from ((function, UNSET) for function in _functions_of(value))
    elif kind.__flags__ & HEAP_TYPE:
        yield from ((function, value) for function in _functions_of(static_attribute(kind, "__call__")))
