"""The state of a value that a recording does not follow: how it is taken, and how it is put back.

A random generator, a container, an array, the attributes of an object. A recording sees nothing of their changes, so that
whoever runs a function twice has to put them back in between. What can be done with a value is a question of its class.
"""

from __future__ import annotations

import copy
import enum
import functools
import io
import operator
import random
from array import array as python_array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from contextvars import ContextVar
from threading import local
from types import BuiltinMethodType, CellType, FunctionType, MethodType, MethodWrapperType
from typing import Any, Final, NamedTuple
from weakref import ReferenceType, WeakKeyDictionary

import numpy as np

from ._arrays import is_plain_array
from ._attributes import Attributes
from ._bindings import (
    attributes_of_function,
    content_of,
    data_of_class,
    is_of_libraries,
    put_content,
    put_in_context,
    put_on_class,
    put_on_function,
    value_in_context,
)
from ._fields import MISSING, schema_of
from ._positions import (
    UNKNOWN,
    contents_of_buffer,
    held_by,
    is_code,
    is_iterator,
    place_in_file,
    position_of,
    put_buffer,
    put_place,
)
from ._reached import HEAP_TYPE
from ._structure import CODE, COPIED_BYTES, refill
from ._tangent import NoTangent, Tangent, ZeroTangent
from ._traced import TracedArray

# What holds more values is data, as an array of more than `COPIED_BYTES` is.
MOST: Final = 1000
# Values of which nothing is asked.
CONSTANTS: Final = {float, int, complex, str, bytes, bool, type(None), TracedArray}


class Kind(NamedTuple):
    """What can be done with the values of a class."""

    is_small: Callable[[Any], bool]
    state_of: Callable[[Any], Any]
    put_back: Callable[[Any, Any], None]
    parts_of: Callable[[Any], list[Any]]  # what a value holds that may have a state of its own
    is_buffer: bool = False
    # Whether a value has a state still; False where that is not quickly said.
    is_in: Callable[[Any, Any], bool] = lambda _value, _state: False


def _always(_value: Any) -> bool:
    return True


def _never(_value: Any) -> bool:
    return False


def _nothing(_value: Any) -> list[Any]:
    return []


def _unchangeable(parts_of: Callable[[Any], list[Any]] = _nothing) -> Kind:
    return Kind(_never, lambda _: None, lambda _value, _state: None, parts_of)


def _has_few(container: Any) -> bool:
    return len(container) <= MOST


def _items(container: Any) -> list[Any]:
    few = len(container) <= MOST
    return [] if not few or CONSTANTS.issuperset(map(type, container)) else list(container)


def _pairs(container: Any) -> dict[Any, Any]:
    return dict(_own(container).items(container))


def _own(container: Any) -> Any:
    """Whose methods tell what a dict holds, in its order: that of an `OrderedDict` is another, see `move_to_end`."""
    return OrderedDict if isinstance(container, OrderedDict) else dict


def _values(container: Any) -> list[Any]:
    few = len(container) <= MOST
    return (
        []
        if not few or CONSTANTS.issuperset(map(type, dict.values(container)))
        else list(dict.values(container))
    )


def _is_small_memory(buffer: Any) -> bool:
    return memoryview(buffer).nbytes <= COPIED_BYTES


def _is_small_array(array: Any) -> bool:
    return bool(array.nbytes <= COPIED_BYTES)


def _has_items(container: Any, state: Any) -> bool:
    if isinstance(container, set):
        return bool(container == state)
    same = len(container) == len(state) and all(map(operator.is_, container, state))
    return same and (
        not isinstance(container, dict)
        or all(map(operator.is_, _own(container).values(container), state.values()))
    )


def _put_items(container: Any, state: Any) -> None:
    if not _has_items(container, state):
        refill(container, state)


def _put_memory(buffer: Any, state: Any) -> None:
    buffer[:] = state


def _put_elements(array: Any, state: Any) -> None:
    array[...] = state


def _put_bits(bits: Any, state: Any) -> None:
    bits.state = state


def _objects_in(array: Any) -> list[Any]:
    return list(array.flat) if array.dtype.kind == "O" and array.size <= MOST else []


def held_in_closure(function: FunctionType) -> list[Any]:
    """The values of a function's closure, but for variables that have none yet."""
    found = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):
            found.append(cell.cell_contents)
    return found


def _held_by_function(function: FunctionType) -> list[Any]:
    defaults = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    return [*defaults, *(function.__closure__ or ()), *function.__dict__.values()]


def _held_by_class(cls: type) -> list[Any]:
    bases = [base for base in (*cls.__bases__, type(cls)) if base is not object and base is not type]
    return [*data_of_class(cls).values(), *bases]


def _unless_missing(value: Any) -> list[Any]:
    return [] if value is MISSING else [value]


_NOT_TOLD: Final = Kind(_always, lambda _: UNKNOWN, lambda _value, _state: None, _nothing)
# The first that fits. A generator's children are counted, and that number cannot be put back: see `children_of`.
_KINDS: Final[list[tuple[type | tuple[type, ...], Kind]]] = [
    ((str, bytes, int, float, complex, enum.Enum, Tangent, ZeroTangent, NoTangent), _unchangeable()),
    ((tuple, frozenset), _unchangeable(_items)),
    ((list, deque), Kind(_has_few, list, _put_items, _items, is_in=_has_items)),
    (dict, Kind(_has_few, _pairs, _put_items, _values, is_in=_has_items)),
    (set, Kind(_has_few, set, _put_items, _items, is_in=_has_items)),
    ((bytearray, python_array), Kind(_is_small_memory, lambda value: value[:], _put_memory, _nothing, True)),
    (np.random.SeedSequence, Kind(_always, lambda _: None, lambda _value, _state: None, _nothing)),
    (
        np.random.RandomState,
        Kind(
            _always,
            lambda value: value.get_state(legacy=False),
            lambda value, state: value.set_state(state),
            _nothing,
        ),
    ),
    (
        np.random.Generator,
        Kind(
            _always,
            lambda value: copy.deepcopy(value.bit_generator.state),
            lambda value, state: _put_bits(value.bit_generator, state),
            _nothing,
        ),
    ),
    (np.random.BitGenerator, Kind(_always, lambda value: copy.deepcopy(value.state), _put_bits, _nothing)),
    (random.SystemRandom, _NOT_TOLD),
    (
        random.Random,
        Kind(_always, lambda value: value.getstate(), lambda value, state: value.setstate(state), _nothing),
    ),
    (MethodType, _unchangeable(lambda value: [value.__self__, value.__func__])),
    ((BuiltinMethodType, MethodWrapperType), _unchangeable(lambda value: [value.__self__])),
    (ReferenceType, _unchangeable(lambda value: [value()])),
    (memoryview, _unchangeable(lambda value: [value.obj])),
    (local, _unchangeable(lambda value: [value.__dict__])),  # that of this thread
    (CellType, Kind(_always, content_of, put_content, lambda cell: _unless_missing(content_of(cell)))),
    (
        ContextVar,
        Kind(
            _always,
            value_in_context,
            put_in_context,
            lambda variable: _unless_missing(value_in_context(variable)),
        ),
    ),
    (FunctionType, Kind(_always, attributes_of_function, put_on_function, _held_by_function)),
    (type, Kind(_always, data_of_class, put_on_class, _held_by_class)),
    (functools.partial, _unchangeable(lambda value: [value.func, *value.args, *value.keywords.values()])),
    (CODE, _unchangeable()),
    ((io.StringIO, io.BytesIO), Kind(_always, contents_of_buffer, put_buffer, _nothing)),
]
_ARRAY: Final = Kind(_is_small_array, lambda value: value.copy(), _put_elements, _objects_in, True)
_OBJECT: Final = Kind(
    _always,
    Attributes,
    lambda _value, state: state.restore(),
    _nothing,
    is_in=lambda _value, state: not state.is_changed(),
)
_CAPTURED: Final = _unchangeable(lambda value: [type(value)])
_ITERATOR: Final = Kind(_always, position_of, lambda _value, _state: None, held_by)
_FILE: Final = Kind(_always, place_in_file, put_place, _nothing)
_NO_STATE: Final = _unchangeable()
_known: Final[WeakKeyDictionary[type, Kind]] = WeakKeyDictionary()
_known_in_c: Final[dict[type, Kind]] = {}  # of classes that live for ever, more quickly


def kind_of(value: Any) -> Kind:
    """What can be done with a value."""
    cls = type(value)
    kind = _known_in_c.get(cls) or _known.get(cls)
    if kind is None:
        known: Any = _known if cls.__flags__ & HEAP_TYPE else _known_in_c
        kind = known[cls] = _find_kind(value)
    return kind


def _find_kind(value: Any) -> Kind:
    cls = type(value)
    if is_plain_array(value):
        return _ARRAY
    for classes, kind in _KINDS:
        if issubclass(cls, classes):  # `isinstance` believes a proxy
            stored = getattr(value, "__dict__", None)
            has_own = type(stored) is dict and cls is not FunctionType and not is_of_libraries(cls)
            return _with_attributes(kind) if has_own or cls is functools.partial else kind
    schema = schema_of(cls)
    if schema is not None:
        return _OBJECT if schema.may_stray else _CAPTURED
    is_other = is_of_libraries(cls)
    if is_iterator(value) and (is_other or is_code(value)):
        return _ITERATOR
    if issubclass(cls, io.IOBase) and is_other:
        return _FILE
    if draws_for_good(value):
        return _NOT_TOLD
    has_attributes = bool(cls.__dictoffset__) or hasattr(cls, "__slots__")
    return _OBJECT if has_attributes and not is_other else _NO_STATE


def _with_attributes(kind: Kind) -> Kind:
    """The kind of a list, for example, whose class is the user's, so that it has attributes as well."""
    return kind._replace(parts_of=lambda value: [*kind.parts_of(value), value.__dict__])


def has_state(value: Any) -> bool:
    """Whether a value has a state that can be put back. What is large has none: it is data."""
    kind = kind_of(value)
    return kind.is_small(value) and not (kind.is_buffer and not is_writeable(value))


def states_of(values: Iterable[Any], seen: dict[int, Any]) -> Iterator[tuple[Any, Any]]:
    """Each value that has a state, with it, and those that they lead to: what is near comes first.

    `seen` holds what was looked at already, by its identity.
    """
    pending = deque(values)
    looked_at = 0
    while pending and looked_at < MOST:
        value = pending.popleft()
        if type(value) in CONSTANTS or id(value) in seen:
            continue
        looked_at += 1
        seen[id(value)] = value
        kind = kind_of(value)
        state = None
        if has_state(value):
            state = kind.state_of(value)
            yield value, state
        if type(state) is Attributes:
            pending += state.before.values()
            pending.append(type(value))
        else:
            pending += kind.parts_of(value)


def was_left(value: Any, state: Any) -> bool:
    """Whether a value that seldom changes has still the state that it had, which need not be kept then."""
    if isinstance(value, CellType):
        return False
    if isinstance(value, FunctionType | type):
        return not state and not kind_of(value).state_of(value)
    return state is None or (isinstance(value, io.IOBase) and bool(state == kind_of(value).state_of(value)))


def is_writeable(buffer: Any) -> bool:
    """Whether a buffer may be written; arrays of CuPy's always may."""
    return not isinstance(buffer, np.ndarray) or bool(buffer.flags.writeable)


def children_of(value: Any) -> int | None:
    """How many others were spawned from a random generator of NumPy's; None if it spawns none."""
    seeds = value
    if isinstance(value, np.random.Generator | np.random.BitGenerator):
        bits = value.bit_generator if isinstance(value, np.random.Generator) else value
        seeds = getattr(bits, "seed_seq", None)
    return seeds.n_children_spawned if isinstance(seeds, np.random.SeedSequence) else None


def draws_for_good(value: Any) -> bool:
    """Whether a value is a random generator whose state cannot be put back."""
    return issubclass(type(value), random.SystemRandom) or str(type(value).__module__).startswith(
        "cupy.random"
    )
