"""What is in reach of some values: written down for comparison, and as a form into which tangents are read."""

from __future__ import annotations

import gc
import types
from collections import defaultdict, deque
from typing import Any

import attrs
import numpy as np

import mutangent as mt
from mutangent._arrays import overlap
from tests.arrays.namespace import tests_numpy, to_host

xp = tests_numpy()  # the library of the programs' arrays


def fields_of(obj: Any) -> dict[str, Any]:
    return {a.name: getattr(obj, a.name) for a in attrs.fields(type(obj))}


def parts_of(value: Any) -> list[Any]:
    """The values one step away."""
    if attrs.has(type(value)):
        return list(fields_of(value).values())
    if isinstance(value, dict):
        return list(value.values())
    return list(value) if isinstance(value, list | tuple | deque) else []


# -- pictures -----------------------------------------------------------------------------------------------------------


class Picture:
    """Everything in reach of `roots`, in words: one line per object, container and array, with labels for identities.

    With `before`, a picture of an earlier moment, what was there then keeps its label. So two equal pictures mean the
    same identities in the same places, and the same numbers to the bit.
    """

    def __init__(self, roots: Any, before: Picture | None = None) -> None:
        self.labels: dict[int, str] = {} if before is None else dict(before.labels)
        self.held: list[Any] = [] if before is None else list(before.held)  # so that ids stay valid
        self.prefix = "old" if before is None else "new"
        self.lines: list[str] = []
        self.draws: list[str] = []  # the states of random generators, which no recording puts back
        self.pending: deque[Any] = deque()
        self.seen: set[int] = set()
        self.lines.append(f"roots: {self.text(roots)}")
        while self.pending:
            self.lines.append(self.line(self.pending.popleft()))
        self.lines += self.shared_memory()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Picture) and (self.lines, self.draws) == (other.lines, other.draws)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join(self.lines)

    def label(self, value: Any) -> str:
        if id(value) not in self.labels:
            self.labels[id(value)] = f"{self.prefix}{len(self.labels)}"
            self.held.append(value)
        if id(value) not in self.seen:
            self.seen.add(id(value))
            self.pending.append(value)
        return self.labels[id(value)]

    def text(self, value: Any) -> str:
        kind = type(value)
        if kind is mt.TracedArray:
            raise AssertionError(f"a traced value is in reach: {value!r}")
        kinds = {list, dict, deque, defaultdict, xp.ndarray, type(xp.random.default_rng())}
        if attrs.has(kind) or kind in kinds or isinstance(value, tuple):
            return self.label(value)
        if isinstance(value, float | complex | np.generic | int | str) or value is None:
            return f"{kind.__name__} {value!r}"
        raise AssertionError(f"a program left a {kind.__name__}: {value!r}")

    def line(self, value: Any) -> str:
        head = f"{self.labels[id(value)]}: {type(value).__name__}"
        if attrs.has(type(value)):
            others = set(getattr(value, "__dict__", {})) - {a.name for a in attrs.fields(type(value))}
            assert not others, f"attributes appeared: {others}"
            return (
                f"{head}({', '.join(f'{name}={self.text(part)}' for name, part in fields_of(value).items())})"
            )
        if isinstance(value, dict):
            return f"{head} {{{', '.join(f'{key!r}: {self.text(part)}' for key, part in value.items())}}}"
        if isinstance(value, list | tuple | deque):
            length = f" of {value.maxlen}" if isinstance(value, deque) else ""
            return f"{head}{length} [{', '.join(map(self.text, value))}]"
        if isinstance(value, np.random.Generator):
            self.draws.append(f"{head} {value.bit_generator.state}")
            return head
        writeable = getattr(value.flags, "writeable", True)  # CuPy's arrays always are
        return f"{head} {value.dtype} {value.shape} {writeable} {value.tolist()}"

    def shared_memory(self) -> list[str]:
        """Which arrays lie in the memory of which."""
        arrays = [value for value in self.held if type(value) is xp.ndarray and id(value) in self.seen]
        return [
            f"{self.labels[id(one)]} and {self.labels[id(two)]} share memory"
            for position, one in enumerate(arrays)
            for two in arrays[:position]
            if overlap(one, two)
        ]


def traced_in_reach(roots: Any) -> list[Any]:
    """Traced values that any chain of references leads to, whether or not a field shows them."""
    found: list[Any] = []
    seen: dict[int, Any] = {}
    pending = [roots]
    skipped = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType, types.FrameType)
    while pending:
        value = pending.pop()
        if id(value) in seen or issubclass(type(value), skipped):
            continue
        seen[id(value)] = value
        if type(value) is mt.TracedArray:
            found.append(value)
        pending += gc.get_referents(value)
    return found


def is_complex(value: Any) -> bool:
    """Whether an array is complex, also one of objects as the reference has them."""
    if getattr(value, "dtype", np.dtype(float)).kind == "O":
        return any(type(item) is complex for item in np.ravel(value))
    return np.iscomplexobj(value)


# -- forms --------------------------------------------------------------------------------------------------------------


@attrs.frozen
class Leaf:
    """A float or an array: elements `first` to `first + size` of the gradient as one vector.

    A complex number has two, its real and its imaginary part.
    """

    first: int
    size: int
    like: Any


@attrs.frozen(eq=False)
class Shape:
    """An object, list, tuple or dict on entry, with the names and forms of its parts."""

    value: Any
    parts: dict[Any, Any] = attrs.field(factory=dict)


class Form:
    """The numbers in reach of some values, in a fixed order, as they are now.

    An object, list or dict counts once however it is reached. Arrays, floats and tuples are no identities: each place has
    its own share.
    """

    def __init__(self, roots: tuple[Any, ...]) -> None:
        self.size = 0
        self.shapes: dict[int, Shape] = {}
        self.pending: deque[Shape] = deque()
        self.root = Shape(roots)
        self.pending.append(self.root)
        while self.pending:
            shape = self.pending.popleft()
            for name, part in named_parts(shape.value):
                shape.parts[name] = self.visit(part)

    def visit(self, value: Any) -> Any:
        if isinstance(value, float | np.floating) or type(value) in {xp.ndarray, np.ndarray}:
            leaf = Leaf(self.size, np.size(value) * (2 if is_complex(value) else 1), value)
            self.size += leaf.size
            return leaf
        if attrs.has(type(value)) or isinstance(value, list | dict | tuple | deque):
            shape = self.shapes.get(id(value))
            if shape is None or isinstance(value, tuple):
                shape = self.shapes[id(value)] = Shape(value)
                self.pending.append(shape)
            return shape
        return None

    def objects(self) -> list[Any]:
        """All objects in reach, in order."""
        return [shape.value for shape in self.shapes.values() if attrs.has(type(shape.value))]


def tangents_along(form: Form, vector: np.ndarray) -> tuple[Any, ...]:
    """The tangents of the roots that have the numbers of `vector`; an object or list in two places has one."""
    made: dict[int, Any] = {}
    pending: list[tuple[Shape, Any]] = []

    def tangent_of(part: Any) -> Any:
        if part is None:
            return mt.NoTangent()
        if isinstance(part, Leaf):
            numbers = vector[part.first : part.first + part.size]
            if isinstance(part.like, xp.ndarray):
                numbers = numbers.view(complex) if is_complex(part.like) else numbers
                return xp.array(numbers.reshape(part.like.shape), part.like.dtype)
            return type(part.like)(numbers[0])
        value = part.value
        if isinstance(value, tuple):
            return like_tuple(value, [tangent_of(each) for each in part.parts.values()])
        if id(part) not in made:
            made[id(part)] = mt.Tangent(type(value)) if attrs.has(type(value)) else kind_of_tangent(value)()
            pending.append((part, made[id(part)]))
        return made[id(part)]

    roots: tuple[Any, ...] = tangent_of(form.root)
    while pending:
        shape, tangent = pending.pop()
        for name, part in shape.parts.items():
            if isinstance(tangent, mt.Tangent):
                tangent._fields[name] = tangent_of(part)
            elif isinstance(tangent, dict):
                tangent[name] = tangent_of(part)
            else:
                tangent.append(tangent_of(part))
    return roots


def kind_of_tangent(value: Any) -> type:
    """The type of the tangent of a container."""
    if isinstance(value, tuple):
        return type(value)
    return dict if isinstance(value, dict) else list


def like_tuple(value: Any, items: list[Any]) -> Any:
    """A tuple, or a named tuple like `value`, of other items."""
    return tuple(items) if type(value) is tuple else type(value)(*items)


def named_parts(value: Any) -> list[tuple[Any, Any]]:
    if attrs.has(type(value)):
        return list(fields_of(value).items())
    return list(value.items()) if isinstance(value, dict) else list(enumerate(value))


class Reading:
    """Tangents laid along a form: a vector of numbers, and checks of what tangents promise.

    `vector` is NaN where the tangents given do not reach.
    """

    def __init__(self, form: Form) -> None:
        self.form = form
        self.vector = np.full(form.size, np.nan)
        self.tangents: dict[int, Any] = {}  # of objects, by the id of the object
        self.owners: dict[int, Any] = {}  # and the other way round

    def read(self, part: Any, tangent: Any, where: str) -> None:
        """Lay one tangent along one part of the form."""
        pending = deque([(part, tangent, where)])
        done: set[tuple[int, int]] = set()
        while pending:
            part, tangent, where = pending.popleft()
            if part is None:
                assert isinstance(tangent, mt.NoTangent | mt.ZeroTangent), (
                    f"{where}: {tangent!r} for no number"
                )
            elif isinstance(part, Leaf):
                self.read_leaf(part, tangent, where)
            elif (id(part), id(tangent)) not in done:
                done.add((id(part), id(tangent)))
                pending += self.parts(part, tangent, where)

    def read_leaf(self, leaf: Leaf, tangent: Any, where: str) -> None:
        if isinstance(tangent, mt.ZeroTangent):
            numbers = np.zeros(leaf.size)
        else:
            assert type(tangent) is type(leaf.like), f"{where}: {tangent!r} for {leaf.like!r}"
            if isinstance(tangent, xp.ndarray):
                assert (tangent.shape, tangent.dtype) == (leaf.like.shape, leaf.like.dtype), where
                assert not overlap(tangent, leaf.like), f"{where}: the tangent is the value itself"
            numbers = np.ravel(to_host(xp, tangent))
            numbers = numbers.view(numbers.real.dtype) if np.iscomplexobj(numbers) else numbers
        place = self.vector[leaf.first : leaf.first + leaf.size]
        assert np.isnan(place).all() or np.array_equal(place, numbers), f"{where}: {place} and {numbers}"
        place[:] = numbers

    def parts(self, shape: Shape, tangent: Any, where: str) -> list[tuple[Any, Any, str]]:
        value = shape.value
        if attrs.has(type(value)):
            assert isinstance(tangent, mt.Tangent), f"{where}: {tangent!r} for a {type(value).__name__}"
            known = self.tangents.setdefault(id(value), tangent)
            assert known is tangent, f"{where}: a second tangent for one {type(value).__name__}"
            owner = self.owners.setdefault(id(tangent), value)
            assert owner is value, f"{where}: one tangent for two objects"
            return [(part, tangent[name], f"{where}.{name}") for name, part in shape.parts.items()]
        kind = kind_of_tangent(value)
        assert type(tangent) is kind, f"{where}: {tangent!r} for a {type(value).__name__}"
        assert len(tangent) == len(shape.parts), (
            f"{where}: {len(tangent)} tangents for {len(shape.parts)} items"
        )
        return [(part, tangent[name], f"{where}[{name!r}]") for name, part in shape.parts.items()]
