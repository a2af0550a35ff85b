"""What is in reach of some values: the objects and containers, how they looked, and how they look now.

It reads objects as anybody outside a recording does, and knows nothing of the library but that a traced
value's type is called `TracedArray`.
"""

from __future__ import annotations

import gc
from typing import Any

import attrs
import numpy as np

UNSET = "a field that is not set"


def is_object(value: Any) -> bool:
    """Whether `value` is an instance of an attrs class."""
    return attrs.has(type(value))


def is_differentiable(value: Any) -> bool:
    """Whether `value` is a float or complex number or array."""
    dtype = getattr(value, "dtype", None)
    return isinstance(value, float | complex) if dtype is None else dtype.kind in "fc"


def children_of(value: Any) -> dict[Any, Any]:
    """The values one step away: fields of an object, items of a container."""
    if is_object(value):
        return {a.name: getattr(value, a.name, UNSET) for a in attrs.fields(type(value))}
    if isinstance(value, dict):
        return dict(value)
    if isinstance(value, list | tuple):
        return dict(enumerate(value))
    return {}


def in_reach(root: Any) -> list[Any]:
    """`root` and every object and container it reaches, each once, in the order of the walk."""
    found: list[Any] = []
    ids: set[int] = set()
    pending = [root]
    while pending:
        value = pending.pop(0)
        if (is_object(value) or isinstance(value, dict | list | tuple)) and id(value) not in ids:
            ids.add(id(value))
            found.append(value)
            pending += children_of(value).values()
    return found


class Entry:
    """The values that everything in reach of `root` holds now, to be put back before another run."""

    def __init__(self, root: Any) -> None:
        self.parts = [(part, children_of(part)) for part in in_reach(root)]
        values = [value for _, held in self.parts for value in held.values()]
        self.arrays = [(value, value.copy()) for value in values if isinstance(value, np.ndarray)]

    def put_back(self) -> None:
        """Give the same objects their entry values again."""
        for part, held in self.parts:
            if isinstance(part, dict):
                part.clear()
                part.update(held)
            elif isinstance(part, list):
                part[:] = held.values()
            elif is_object(part):
                for name, value in held.items():
                    put_field(part, name, value)
        for array, contents in self.arrays:
            if getattr(array.flags, "writeable", True):
                array[...] = contents


def put_field(obj: Any, name: str, value: Any) -> None:
    """Set a field past the user's hooks and `frozen`, as a test's own preparation may."""
    if value is UNSET:
        if getattr(obj, name, UNSET) is not UNSET:
            object.__delattr__(obj, name)
    elif value is not getattr(obj, name, UNSET):
        object.__setattr__(obj, name, value)


def picture(root: Any) -> list[tuple[str, dict[Any, Any]]]:
    """Classes, values and who shares what with whom, in reach of `root`; equal graphs have equal pictures."""
    parts = in_reach(root)
    numbers = {id(part): f"part {number}" for number, part in enumerate(parts)}
    arrays: dict[int, str] = {}

    def describe(value: Any) -> Any:
        if isinstance(value, np.ndarray):
            return arrays.setdefault(id(value), f"array {len(arrays)}"), value.copy()
        return numbers.get(id(value), value)

    return [
        (type(part).__name__, {name: describe(value) for name, value in children_of(part).items()})
        for part in parts
    ]


def assert_same_picture(recorded: Any, plain: Any) -> None:
    """Compare what a recorded run left with what the plain run left."""
    kinds, plain_kinds = [kind for kind, _ in recorded], [kind for kind, _ in plain]
    assert kinds == plain_kinds, f"in reach are {kinds} and after the plain run {plain_kinds}"
    for (kind, here), (_, there) in zip(recorded, plain, strict=True):
        assert list(here) == list(there), f"{kind} has {list(here)} and after the plain run {list(there)}"
        for name, value in here.items():
            assert_same_value(value, there[name], f"{kind}.{name}")


def assert_same_value(value: Any, plain: Any, where: str) -> None:
    """Compare two values of one place: type, dtype, shape, number, and with whom an array is shared."""
    assert type(value) is type(plain), f"{where} is a {type(value)} and after the plain run a {type(plain)}"
    if isinstance(value, tuple):
        (array, value), (plain_array, plain) = value, plain
        assert array == plain_array, f"{where} shares its array with others than after the plain run"
        here, there = (value.dtype, value.shape), (plain.dtype, plain.shape)
        assert here == there, f"{where} has dtype and shape {here} and after the plain run {there}"
    if isinstance(value, np.ndarray | np.generic | float | complex):
        rtol = 1e-6 if np.asarray(plain).dtype.itemsize <= 4 else 1e-12
        np.testing.assert_allclose(value, plain, rtol=rtol, err_msg=f"{where} is not as after the plain run")
    else:
        assert value == plain, f"{where} is {value!r} and after the plain run {plain!r}"


def assert_nothing_traced(root: Any) -> None:
    """No field in reach of `root` holds a traced value, as it reads and as it lies in memory."""
    for part in in_reach(root):
        kind = type(part).__name__
        for name, value in children_of(part).items():
            assert type(value).__name__ != "TracedArray", f"{kind}.{name} holds a traced value"
        for holder in [part, *(held for held in gc.get_referents(part) if type(held) is dict)]:
            for held in gc.get_referents(holder):
                assert type(held).__name__ != "TracedArray", f"a traced value lies in the memory of a {kind}"
