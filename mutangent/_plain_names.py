"""Plain names: of a module's globals, of closures, of defaults; and how a piece of code reads the value of one.

A name is looked up each time that its value is asked for. Of a load it is said whether it looks into the value, and
whether it tells more than the shape of an array.
"""

from __future__ import annotations

import functools
import gc
import weakref
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, MethodWrapperType, ModuleType
from typing import Any, Final

import attrs
import numpy as np

from ._loads import CLASS, COMPARED, COMPUTED, GIVEN, ITEM, ITERATED, STORED, WRITTEN, Load

UNSET: Final = object()  # the value of a name that has none
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
# Methods of classes in C, as ``pos.sum`` and ``pos.__getitem__``.
_METHODS: Final = frozenset({BuiltinFunctionType, MethodWrapperType})
# Attributes that tell no more of an array than its shape, methods that write into it, and those that make something new.
_OF_SHAPE: Final = frozenset({"shape", "dtype", "ndim", "size", "nbytes", "itemsize", "strides", "flags"})
_PUT: Final = frozenset(
    {"append", "appendleft", "extend", "extendleft", "insert", "add", "discard", "clear", "fill"}
)
_MAKE_NEW: Final = frozenset(
    {"copy", "tolist", "item", "sum", "mean", "prod", "min", "max", "any", "all", "dot"}
)
# Names of functions, Python's own and those of array libraries, that ask for no more than the shape, or for the kind of a
# value, or that keep nothing of it.
_ASK_SHAPE: Final = frozenset({"len", "shape", "ndim", "size", "zeros_like", "ones_like", "empty_like"})
_ASK_KIND: Final = frozenset({"isinstance", "type", "id", "callable"})
_PUT_INTO_A_FIELD: Final = (setattr, attrs.evolve)
_SUM_UP: Final = _ASK_SHAPE | {
    *("float", "int", "bool", "str", "repr", "print", "sum", "min", "max", "any", "all"),
    *("mean", "prod", "amin", "amax", "dot", "copy", "array_equal", "allclose", "norm"),
}
_THEIR_MODULES: Final = frozenset({"builtins", "numpy", "cupy"})


class Read:
    """A place in the code that may look into the value of a name."""

    __slots__ = ("_part", "code", "function", "is_short", "line", "of_shape", "offset")

    def __init__(
        self,
        function: str,
        code: CodeType,
        load: Load,
        of_shape: bool = False,
        is_short: bool = False,
        attribute: str | None = None,
        key: Any = None,
    ) -> None:
        self.function = function
        self.code = code
        self.line = load.line
        self.offset = load.offset
        self.of_shape = of_shape  # nothing else of an array
        self.is_short = is_short  # whether nothing keeps the value, or a part of it, for a later read
        # Of a container: the attribute or the item that is taken of it.
        self._part = (attribute, key if attribute == ITEM else None)

    def may_take(self, item: Any, holder: Any) -> bool:
        """Whether it may look into an item of a container; not if the code names another one."""
        attribute, key = self._part
        if not isinstance(holder, HOLDERS):
            return True
        if key is None:
            fields = getattr(type(holder), "_fields", ())  # of a named tuple
            if not isinstance(holder, tuple) or type(fields) is not tuple or attribute not in fields:
                return True
            key = fields.index(attribute)
        if isinstance(holder, dict):
            return dict.get(holder, key, item) is item
        return type(key) is str or not -len(holder) <= key < len(holder) or holder[key] is item

    def __str__(self) -> str:
        return self.function if self.line is None else f"{self.function}, line {self.line}"


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
    """Whether a value is a method of some data, as ``pos.sum``, a memory view or an iterator."""
    kind = type(value)
    if kind in _METHODS:
        return not isinstance(value.__self__, type | ModuleType | None)
    return kind is memoryview or is_iterator_in_c(kind)


def is_iterator_in_c(kind: type) -> bool:
    """Whether a class is that of iterators, or of generators, and has no attributes in Python."""
    return hasattr(kind, "__next__") and type(kind.__next__) is not FunctionType


def parts_of(value: Any) -> list[Any]:
    """What can be read by way of a value: items of a container, or that of which it is a method, a view or an iterator."""
    if not is_way_to_data(value):
        return items_of(value)
    kind = type(value)
    if kind in _METHODS:
        return [value.__self__]
    if kind is np.flatiter:
        return [value.base]
    if kind is not memoryview:
        return [each for each in gc.get_referents(value) if not isinstance(each, (*PROGRAM, CodeType))]
    with suppress(ValueError):  # of one that was released
        return [value.obj]
    return []


def read_by(
    load: Load,
    rest: tuple[str, ...],
    function: str,
    code: CodeType,
    value_of: Callable[[Load], tuple[Any, tuple[str, ...]]],
) -> Read | None:
    """How a load reads the value; None if it does not look into it.

    Parameters
    ----------
    load : Load
    rest : tuple of str
        The attributes that are taken of the value.
    function : str
        The name of the function.
    code : CodeType
        Its code, or that within it, that has the load.
    value_of : callable
        Gives the value of another load, and the attributes that are taken of that.
    """
    if rest or load.use != GIVEN:
        if rest and (rest[0] in _PUT or rest[0] == CLASS):
            return None  # what is written by a plain name is noticed otherwise
        if not rest and load.use in (STORED, WRITTEN, COMPARED):
            return None
        return Read(
            function,
            code,
            load,
            of_shape=bool(rest) and rest[0] in _OF_SHAPE,
            is_short=load.use in (COMPUTED, ITERATED) or (bool(rest) and rest[-1] in _MAKE_NEW),
            attribute=rest[0] if rest else None,
            key=load.key if ITEM not in load.attributes[: len(load.attributes) - len(rest)] else None,
        )
    given_to, rest = (UNSET, ()) if load.callee is None else value_of(load.callee)
    while rest and type(given_to) is ModuleType:
        given_to, rest = vars(given_to).get(rest[0], UNSET), rest[1:]
    name = "" if rest else _known_name(given_to)
    if name in _ASK_KIND or (
        not rest and (any(given_to is each for each in _PUT_INTO_A_FIELD) or _is_captured_class(given_to))
    ):
        return None
    return Read(
        function, code, load, of_shape=name in _ASK_SHAPE, is_short=name == "ufunc" or name in _SUM_UP
    )


def _known_name(function: Any) -> str:
    """The name of a function of Python's own or of an array library; "ufunc" for one of those, and else none."""
    if type(function).__name__ == "ufunc":
        return "ufunc"
    if not issubclass(type(function), PROGRAM):
        return ""
    module = str(getattr(function, "__module__", "")).partition(".")[0]
    return str(getattr(function, "__name__", "")) if module in _THEIR_MODULES else ""


def _is_captured_class(value: Any) -> bool:
    return issubclass(type(value), type) and bool(getattr(value, "__mutangent_captured__", False))
