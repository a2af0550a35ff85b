"""Plain names: of a module's globals, of closures, of defaults; and how a piece of code reads the value of one.

A name is looked up each time that its value is asked for. Of a load it is said whether it looks into the value, and
whether it tells more than the shape of an array.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections import UserDict, UserList, deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from types import (
    BuiltinFunctionType,
    CodeType,
    FunctionType,
    MappingProxyType,
    MethodType,
    MethodWrapperType,
    ModuleType,
)
from typing import Any, Final, TypeGuard
from weakref import ReferenceType, WeakKeyDictionary

import attrs
import numpy as np

from ._arrays import is_array
from ._loads import (
    BY_KEY,
    CALLED,
    CLASS,
    COMPARED,
    COMPUTED,
    GIVEN,
    ITEM,
    ITERATED,
    ITERATOR,
    SEARCHED,
    STORED,
    TESTED,
    WRITTEN,
    Load,
    Step,
)

UNSET: Final = object()  # the value of a name that has none
MOST_ITEMS: Final = 1000  # of a container that are looked at
_NUMBERS: Final = frozenset({float, int, bool, str, type(None)})
_FEW: Final = frozenset({list, tuple, dict, deque})  # containers as they are, of no subclass
_SIMPLE: Final = frozenset(
    {*_NUMBERS, complex, bytes, FunctionType, type, np.float64}
)  # what holds no others
HOLDERS: Final = (list, tuple, dict, deque)  # containers that are looked through
# Values of these kinds are parts of the program and not its data.
PROGRAM: Final = (
    type,
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    functools.partial,
    np.ufunc,
    ModuleType,
    type(np.sum),
)
# By a class, whether its values are looked through.
_with_parts: Final[WeakKeyDictionary[type, bool]] = WeakKeyDictionary()
# Methods of classes in C, as ``pos.sum`` and ``pos.__getitem__``.
_METHODS: Final = frozenset({BuiltinFunctionType, MethodWrapperType})
# What shows others, and how these are asked for.
_PARTS: Final[tuple[tuple[Any, Callable[[Any], Iterable[Any]]], ...]] = (
    (np.flatiter, lambda value: [value.base]),
    (memoryview, lambda value: [value.obj]),
    (ReferenceType, lambda value: [value()]),
    ((set, frozenset), lambda value: value),
    ((type({}.keys()), type({}.values()), type({}.items()), MappingProxyType), gc.get_referents),
    ((UserDict, UserList), lambda value: [value.data]),
    (np.ndarray, lambda value: value.ravel().tolist() if value.dtype.hasobject else [value.view(np.ndarray)]),
)
_SHOWING: Final[tuple[type, ...]] = (
    *(np.flatiter, memoryview, ReferenceType, set, frozenset, MappingProxyType, UserDict, UserList),
    *(type({}.keys()), type({}.values()), type({}.items())),
)
# Attributes that tell no more of an array than its shape, methods that write into it, and those that make something new.
_OF_SHAPE: Final = frozenset({"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"})
_FILL: Final = frozenset({"fill"})
_PUT: Final = frozenset({"append", "appendleft", "extend", "extendleft", "insert", "add", "discard", "clear"})
_PUT_INTO_A_DICT: Final = frozenset({"update", "clear", "keys"})
_MAKE_NEW: Final = frozenset(
    {"copy", "tolist", "item", "sum", "mean", "prod", "min", "max", "any", "all", "dot", "std", "var"}
)
# Names of functions, Python's own and those of array libraries, that ask for no more than the shape, or for the kind of a
# value, or that keep nothing of it.
_ASK_SHAPE: Final = frozenset({"len", "shape", "ndim", "size", "zeros_like", "ones_like", "empty_like"})
_ASK_KIND: Final = frozenset({"isinstance", "type", "id", "callable"})
_PUT_INTO_A_FIELD: Final = (setattr, attrs.evolve)
# Converters that give back an array as it is, and methods of the user's that run when an object is made.
_IDENTITIES: Final = (None, np.asarray, np.asanyarray)
_WHEN_MADE: Final = ("__attrs_pre_init__", "__attrs_post_init__", "__attrs_init__")
_SUM_UP: Final = _ASK_SHAPE | {
    *("float", "int", "bool", "str", "repr", "print", "sum", "min", "max", "any", "all"),
    *(
        "mean",
        "prod",
        "amin",
        "amax",
        "dot",
        "copy",
        "array",
        "std",
        "var",
        "array_equal",
        "allclose",
        "norm",
    ),
}
_THEIR_MODULES: Final = frozenset({"builtins", "numpy", "cupy"})


class Read:
    """A place in the code that may look into the value of a name.

    Parameters
    ----------
    function : str
        The name of the function.
    code : CodeType
        Its code, or that within it.
    load : Load
    steps : tuple of Step
        The attributes and items that are taken of the value.
    given_to : str
        The name of the known function that it is given to, if it is.
    """

    __slots__ = ("_given_to", "_steps", "code", "function", "line", "load", "offset")

    def __init__(
        self, function: str, code: CodeType, load: Load, steps: tuple[Step, ...] = (), given_to: str = ""
    ) -> None:
        self.function = function
        self.code = code
        self.line = load.line
        self.offset = load.offset
        self._steps = steps
        self.load = load
        self._given_to = given_to

    @property
    def is_put(self) -> bool:
        """Whether the value is assigned to an attribute."""
        return self.load.use == STORED and not self._steps

    def looks_into(self, value: Any, path: Sequence[Any]) -> bool:
        """Whether it may look into what was written, which lies in a value, the last one of a path of items.

        Parameters
        ----------
        value : object
            That of the name.
        path : sequence
            An item of the value, an item of that, and so on; empty, if the value itself was written.
        """
        held = path[-1] if path else value
        holder, steps = value, self._steps
        for item in path:
            if not steps:
                return self._takes_items_of(holder)
            if not _may_give(holder, steps[0], item):
                return False
            if steps[0].name not in (ITEM, ITERATOR, *BY_KEY):
                return True
            holder, steps = item, steps[1:]
        name = steps[0].name if steps else ""
        if is_array(held):
            return (
                name not in _OF_SHAPE
                and not (not steps and self._given_to in _ASK_SHAPE)
                and name not in _FILL
            )
        return name not in _PUT

    def is_over_at_once(self, value: Any, path: Sequence[Any]) -> bool:
        """Whether nothing keeps what was written, or a part of it, for a later read."""
        held = path[-1] if path else value
        if not is_array(held) or len(self._steps) < len(path):
            return False  # what keeps a container keeps what is in it
        steps = self._steps[len(path) :]
        if not steps:
            return self._is_computed()
        *before, (name, key) = steps
        if name in _MAKE_NEW:
            return self.load.use == CALLED
        is_element = name == ITEM and type(key) is int and held.ndim == 1
        is_looped = name == ITERATOR and self.load.use == ITERATED and held.ndim == 1
        return not before and (is_looped or is_element or (name == ITEM and self._is_computed()))

    def _is_computed(self) -> bool:
        given_to = self._given_to
        return self.load.use in (COMPUTED, TESTED, ITERATED) or given_to == "ufunc" or given_to in _SUM_UP

    def _takes_items_of(self, holder: Any) -> bool:
        if self.load.use == TESTED or self._given_to in _ASK_SHAPE:
            return not isinstance(holder, HOLDERS)
        return not (self.load.use == SEARCHED and isinstance(holder, dict))

    def __str__(self) -> str:
        return self.function if self.line is None else f"{self.function}, line {self.line}"


def _may_give(holder: Any, step: Step, item: Any) -> bool:
    """Whether a step from a container may give an item of it; not if the code names another one."""
    name, key = step
    if isinstance(holder, dict):
        if name in BY_KEY or name == ITEM:
            return key is None or dict.get(holder, key, item) is item
        return name not in _PUT_INTO_A_DICT
    if not isinstance(holder, HOLDERS):
        return True
    if isinstance(holder, tuple) and name != ITEM:
        fields = getattr(type(holder), "_fields", ())  # of a named tuple
        key = fields.index(name) if type(fields) is tuple and name in fields else None
    elif name != ITEM:
        return name not in _PUT
    base = next(each for each in HOLDERS if issubclass(type(holder), each))
    length = base.__len__(holder)
    return type(key) is not int or not -length <= key < length or base.__getitem__(holder, key) is item


class Name:
    """A plain name that code loads or stores. It keeps neither its value nor its namespace alive."""

    __slots__ = ("_owner", "is_program", "is_stored", "name", "reads", "stamp")

    def __init__(self, owner: Any, name: str) -> None:
        self._owner = weakref.ref(owner)
        self.name = name
        self.reads: list[Read] = []  # the places that may look into the value
        self.is_stored = False  # whether the code assigns to it, or deletes it
        self.is_program = False  # whether it stands for a part of the program: a function, a class, a module
        self.stamp: Any = None  # a weak reference to what the value led to when the code was looked at

    def value(self) -> Any:
        """Its value now, or UNSET."""
        raise NotImplementedError

    def bind(self, value: Any) -> None:
        """Give it another value, or none: UNSET."""
        raise NotImplementedError

    def note(self, value: Any) -> None:
        """Remember what a value leads to: to itself if it is part of the program, else to its class."""
        self.is_program = issubclass(type(value), PROGRAM)  # `isinstance` asks a proxy
        self.stamp = None
        if value is not UNSET:
            try:
                self.stamp = weakref.ref(value if self.is_program else type(value))
            except TypeError:  # a function of NumPy's
                self.stamp = lambda: value


class GlobalName(Name):
    """A name of a module, or of the namespace that a function has its globals in."""

    __slots__ = ()

    def _namespace(self) -> dict[str, Any]:
        owner = self._owner()
        if type(owner) is FunctionType:
            return owner.__globals__
        return {} if owner is None else vars(owner)

    def value(self) -> Any:
        owner = self._owner()
        if type(owner) is FunctionType:  # the usual case
            return owner.__globals__.get(self.name, UNSET)
        return self._namespace().get(self.name, UNSET)

    def bind(self, value: Any) -> None:
        if value is UNSET:
            self._namespace().pop(self.name, None)
        else:
            self._namespace()[self.name] = value


class ClosureName(Name):
    """A variable of a function's closure."""

    __slots__ = ("_cell",)

    def __init__(self, owner: FunctionType, name: str) -> None:
        super().__init__(owner, name)
        self._cell = owner.__code__.co_freevars.index(name)

    def _cell_of(self) -> Any:
        owner = self._owner()
        return None if owner is None else owner.__closure__[self._cell]

    def value(self) -> Any:
        try:
            return self._cell_of().cell_contents
        except (ValueError, AttributeError):
            return UNSET

    def bind(self, value: Any) -> None:
        cell = self._cell_of()
        if value is not UNSET:
            cell.cell_contents = value
        else:
            with suppress(ValueError):
                del cell.cell_contents


class DefaultName(Name):
    """A parameter with a default, which is its value."""

    __slots__ = ()

    def is_of(self, function: FunctionType | None) -> bool:
        """Whether it is a parameter of this function."""
        return self._owner() is function

    def _position(self, owner: FunctionType) -> int:
        code = owner.__code__
        names = code.co_varnames[: code.co_argcount]
        return names.index(self.name) - len(names) if self.name in names else 0

    def value(self) -> Any:
        owner = self._owner()
        if owner is None:
            return UNSET
        if self.name in (owner.__kwdefaults__ or ()):
            return owner.__kwdefaults__[self.name]
        defaults = owner.__defaults__ or ()
        position = self._position(owner)
        return defaults[position] if -len(defaults) <= position < 0 else UNSET

    def bind(self, value: Any) -> None:
        owner = self._owner()
        if owner is None or value is UNSET:
            return
        if self.name in (owner.__kwdefaults__ or ()):
            owner.__kwdefaults__[self.name] = value
            return
        defaults = list(owner.__defaults__ or ())
        defaults[self._position(owner)] = value
        owner.__defaults__ = tuple(defaults)


def items_of(value: Any) -> list[Any]:
    """What a list, tuple, deque or dict holds, of whatever subclass, or a partial; nothing for other values."""
    kind = type(value)
    if issubclass(kind, functools.partial):
        return [*value.args, *value.keywords.values()]
    if issubclass(kind, dict):
        return list(dict.values(value))
    base = next((each for each in HOLDERS if issubclass(kind, each)), None)
    return [] if base is None else list(base.__iter__(value))


def is_way_to_data(value: Any) -> bool:
    """Whether a value is no container, but shows one or an array: a method, as ``pos.sum``, a memory view, an iterator."""
    kind = type(value)
    if kind in _FEW or kind in _SIMPLE:  # the usual case
        return False
    if kind in _METHODS:
        return not isinstance(value.__self__, type | ModuleType | None)
    if issubclass(kind, np.ndarray):
        return kind is not np.ndarray or value.dtype.hasobject
    return issubclass(kind, _SHOWING) or is_iterator_in_c(kind)


def is_iterator_in_c(kind: type) -> bool:
    """Whether a class is that of iterators, or of generators, and has no attributes in Python."""
    return hasattr(kind, "__next__") and type(kind.__next__) is not FunctionType


def parts_of(value: Any) -> list[Any]:
    """What can be read by way of a value: items of a container, or that of which it is a method, a view or an iterator."""
    kind = type(value)
    if kind in _FEW:  # the usual case
        return list(value.values() if kind is dict else value)
    if kind in _SIMPLE or not is_way_to_data(value):
        return items_of(value)
    if kind in _METHODS:
        return [] if value.__name__ in _PUT else [value.__self__]
    for classes, give in _PARTS:
        if issubclass(kind, classes):
            with suppress(ValueError, ReferenceError):  # of a memory view that was released
                return list(give(value))
            return []
    return [each for each in gc.get_referents(value) if not isinstance(each, (*PROGRAM, CodeType))]


def paths_within(value: Any, is_wanted: Callable[[Any], bool]) -> list[list[Any]]:
    """The ways from a value to wanted things in it: an item, an item of that, and so on. Large containers are left out."""
    found: list[list[Any]] = []
    pending: deque[tuple[Any, list[Any]]] = deque([(value, [])])
    seen: set[int] = set()
    while pending and len(seen) <= MOST_ITEMS:
        holder, path = pending.popleft()
        for item in few_parts_of(holder):
            kind = type(item)
            if kind in _NUMBERS:
                continue
            if is_wanted(item):
                found.append([*path, item])
            elif id(item) not in seen and _has_parts(item):
                seen.add(id(item))
                pending.append((item, [*path, item]))
    return found


def items_within(value: Any) -> list[Any]:
    """What lies in a value, and in that, and so on, but for numbers and arrays; large containers are left out."""
    if not _has_parts(value):
        return []
    found: list[Any] = []
    seen = {id(value)}
    pending = [value]
    while pending and len(found) < MOST_ITEMS:
        for item in few_parts_of(pending.pop()):
            kind = type(item)
            if kind in _NUMBERS or (kind is np.ndarray and not item.dtype.hasobject):
                continue
            if id(item) not in seen:
                seen.add(id(item))
                found.append(item)
                if _has_parts(item):
                    pending.append(item)
    return found


def _has_parts(value: Any) -> bool:
    """Whether a value may be a container, or shows one."""
    kind = type(value)
    if kind in _FEW:
        return True
    if kind in _SIMPLE:
        return False
    known = _with_parts.get(kind)
    if known is None:
        if issubclass(kind, np.ndarray) or kind in _METHODS:
            return is_way_to_data(value)
        known = _with_parts[kind] = issubclass(kind, (*HOLDERS, functools.partial)) or is_way_to_data(value)
    return known


def few_parts_of(value: Any) -> list[Any]:
    """What can be read by way of a value; nothing of a large container."""
    if not _has_parts(value):
        return []
    kind = type(value)
    base = kind if kind in _FEW else next((each for each in HOLDERS if issubclass(kind, each)), None)
    if base is None:
        return parts_of(value)
    if base.__len__(value) > MOST_ITEMS:
        return []
    items = base.values(value) if base is dict else value if base is kind else base.__iter__(value)
    return list(items)


def read_by(
    load: Load,
    steps: tuple[Step, ...],
    function: str,
    code: CodeType,
    value_of: Callable[[Load], tuple[Any, tuple[str, ...]]],
) -> Read | None:
    """How a load reads the value; None if it does not look into it.

    Parameters
    ----------
    load : Load
    steps : tuple of Step
        The attributes and items that are taken of the value.
    function : str
        The name of the function.
    code : CodeType
        Its code, or that within it, that has the load.
    value_of : callable
        Gives the value of another load, and the attributes that are taken of that.
    """
    if steps and steps[0].name == CLASS:
        return None
    if not steps and load.use in (WRITTEN, COMPARED):
        return None
    if load.use != GIVEN:
        return Read(function, code, load, steps)
    given_to, rest = (UNSET, ()) if load.callee is None else value_of(load.callee)
    while rest and type(given_to) is ModuleType:
        given_to, rest = vars(given_to).get(rest[0], UNSET), rest[1:]
    name = "" if rest else _known_name(given_to)
    if name in ("min", "max") and load.callee is not None and len(load.callee.arguments or ()) > 1:
        name = ""  # which may give it back
    is_put = not rest and (
        any(given_to is each for each in _PUT_INTO_A_FIELD)
        or (_is_captured_class(given_to) and keeps_as_it_is(given_to))
    )
    if not steps and (name in _ASK_KIND or is_put):
        return None
    return Read(function, code, load, steps, name)


def _known_name(function: Any) -> str:
    """The name of a function of Python's own or of an array library; "ufunc" for one of those, and else none."""
    if type(function).__name__ == "ufunc":
        return "ufunc"
    if not issubclass(type(function), PROGRAM):
        return ""
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    return str(getattr(function, "__name__", "")) if module in _THEIR_MODULES else ""


def keeps_as_it_is(cls: type, name: str | None = None) -> bool:
    """Whether the fields of a captured class, or one of them, keep what they are given, and no code looks at it."""
    fields = [each for each in attrs.fields(cls) if name in (None, each.name)]
    for each in fields:
        converter = each.converter
        if getattr(converter, "__mutangent_wrapped__", False):
            converter = converter.__wrapped__
        if each.validator or each.on_setattr or not any(converter is known for known in _IDENTITIES):
            return False
    return name is not None or not any(getattr(cls, each, None) for each in _WHEN_MADE)


def _is_captured_class(value: Any) -> TypeGuard[type]:
    return issubclass(type(value), type) and bool(getattr(value, "__mutangent_captured__", False))
