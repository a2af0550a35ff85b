"""Names that a program binds again: variables of closures and contexts, attributes of functions and of classes.

`nonlocal n; n += 1`, `f.calls += 1`, `type(self).count += 1`: what such a name is bound to is a state, whatever it is.
"""

from __future__ import annotations

import enum
import sys
from contextvars import ContextVar
from types import CellType, FunctionType
from typing import Any, Final
from weakref import WeakKeyDictionary

from ._fields import MISSING
from ._reached import HEAP_TYPE

# Objects of these libraries stand for what the computer does, such as threads, queues and files, or for derivatives.
OTHERS: Final = (sys.stdlib_module_names - {"collections", "types"}) | {"mutangent"}
# Their classes are no places where a program keeps a state.
_CLOSED: Final = sys.stdlib_module_names | {"attr", "attrs", "cupy", "mutangent", "numpy"}
# By a class, how many attributes it had and the names of those that are data; no names for a class that is not the user's.
_known: Final[WeakKeyDictionary[type, tuple[int, tuple[str, ...]]]] = WeakKeyDictionary()


def is_of_libraries(cls: type, libraries: frozenset[str] = OTHERS) -> bool:
    """Whether a class comes from one of some libraries."""
    return str(cls.__module__).partition(".")[0] in libraries


# -- variables of closures ---------------------------------------------------------------------------------------------


def content_of(cell: CellType) -> Any:
    """What a variable of a closure is bound to."""
    try:
        return cell.cell_contents
    except ValueError:  # nothing yet
        return MISSING


def put_content(cell: CellType, content: Any) -> None:
    """Bind a variable of a closure."""
    if content_of(cell) is content:
        return
    if content is MISSING:
        del cell.cell_contents
    else:
        cell.cell_contents = content


def value_in_context(variable: ContextVar[Any]) -> Any:
    """What a context variable holds, or its default."""
    try:
        return variable.get()
    except LookupError:
        return MISSING


def put_in_context(variable: ContextVar[Any], value: Any) -> None:
    """Give a context variable a value; that it had none, and no default, cannot be put back."""
    if value is not MISSING and value_in_context(variable) is not value:
        variable.set(value)


# -- attributes of functions and classes -------------------------------------------------------------------------------


def attributes_of_function(function: FunctionType) -> dict[str, Any]:
    """What a program has put on a function."""
    return dict(function.__dict__)


def put_on_function(function: FunctionType, attributes: dict[str, Any]) -> None:
    """Give a function the attributes that it had."""
    _put(function.__dict__, attributes, function.__dict__.__setitem__, function.__dict__.__delitem__)


def data_of_class(cls: type) -> dict[str, Any]:
    """The attributes of a user's class that are no methods, descriptors or Python's own."""
    stored = cls.__dict__
    known = _known.get(cls)
    if known is None or known[0] != len(stored):
        names = [
            name for name in stored if not _is_pythons(name) and not hasattr(type(stored[name]), "__get__")
        ]
        known = _known[cls] = (len(stored), tuple(names) if is_users_class(cls) else ())
    return {name: stored[name] for name in known[1] if name in stored}


def put_on_class(cls: type, data: dict[str, Any]) -> None:
    """Give a class the attributes that it had."""
    _put(
        data_of_class(cls),
        data,
        lambda name, value: type.__setattr__(cls, name, value),
        lambda name: type.__delattr__(cls, name),
    )


def _put(now: dict[str, Any], before: dict[str, Any], setter: Any, deleter: Any) -> None:
    for name in {**now, **before}:
        if now.get(name, MISSING) is not before.get(name, MISSING):
            if name in before:
                setter(name, before[name])
            else:
                deleter(name)


def _is_pythons(name: str) -> bool:
    return (name.startswith("__") and name.endswith("__")) or name == "_abc_impl"


def is_users_class(cls: type) -> bool:
    """Whether a program may keep a state on a class."""
    return (
        bool(cls.__flags__ & HEAP_TYPE)
        and not issubclass(cls, enum.Enum)
        and not is_of_libraries(cls, _CLOSED)
    )
