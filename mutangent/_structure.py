"""The shape of a value on entry: which leaves, objects and containers it is made of.

A recording *lifts* a value that it reads or is given: numbers and arrays become traced leaves, tuples, lists and dicts
are rebuilt with lifted items, captured objects stay what they are. The result is the lifted value, which the user's
function sees, and a description of the entry value, from which its tangent is built after a sweep.

A mutable container is lifted to a working copy: a real list or dict that the function may change by any method. At
commit its items go back into the original, so everyone who holds the original sees what the plain run would show.
"""

from __future__ import annotations

import copy
import functools
from collections import deque
from collections.abc import Callable, MutableMapping, MutableSequence
from types import (
    BuiltinFunctionType,
    FunctionType,
    MappingProxyType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import Any, Final

import numpy as np

from ._arrays import Spec, describe, is_array, is_differentiable, overlap, spec_of, type_name, with_article
from ._attributes import Attributes, holds_traced
from ._errors import InPlaceError, NotCapturedError
from ._fields import schema_of
from ._shadow import detached, is_entry
from ._tangent import NoTangent, Tangent, ZeroTangent, children, combine, rebuild
from ._traced import TracedArray, left_checkpoint, primal
from ._views import base_of, derive, root_of
from ._written_back import settle


class Leaf:
    """A number or array on entry. `node` is -1 if it was never read."""

    __slots__ = ("entry", "node")

    def __init__(self, node: int, entry: Any) -> None:
        self.node = node
        self.entry = entry

    @property
    def spec(self) -> Spec:
        """Shape and dtype."""
        return spec_of(self.entry)


class Child:
    """A captured object on entry."""

    __slots__ = ("primal",)

    def __init__(self, primal: Any) -> None:
        self.primal = primal


class Group:
    """A container on entry, with the descriptions of its items."""

    __slots__ = ("items", "model")

    def __init__(self, model: Any, items: list[Any]) -> None:
        self.model = model
        self.items = items


# A description is a Leaf, a Child, a Group, or None for a value without tangent space.
Description = Any
MakeLeaf = Callable[[Any], tuple[Any, Description]]
# An integer array up to this size is copied, so that a raise undoes what was written into it; a larger one is data.
COPIED_BYTES: Final = 1 << 16
# What can be called and holds no state of a program. An object of a class with `__call__` may.
CODE: Final = (type, FunctionType, BuiltinFunctionType, MethodType, functools.partial, np.ufunc, ModuleType)
_IMMUTABLE: Final = (str, bytes, bool, int, type(None), type)


class WorkingCopy:
    """A mutable container and what the recorded function sees of it."""

    __slots__ = ("before", "description", "lifted_before", "original", "working")

    def __init__(self, original: Any, working: Any) -> None:
        self.original = original
        self.working = working
        self.before = contents(original)
        self.description = Group(None, [])
        self.lifted_before: list[Any] | None = None  # until all items are lifted

    def is_changed(self) -> bool:
        """Whether the function changed the working copy."""
        return not same_parts(contents(self.working), self.lifted_before or [])


def contents(container: Any) -> list[Any]:
    """The parts of a mutable container whose identities tell whether it was changed."""
    if isinstance(container, dict):
        return [part for item in container.items() for part in item]
    if isinstance(container, set | bytearray):
        return sorted(container, key=id) if isinstance(container, set) else [bytes(container)]
    return [container.tobytes()] if is_array(container) else list(container)


def by_key(container: Any) -> dict[Any, Any]:
    """The items of a list, tuple, deque or dict by position or key."""
    return container if isinstance(container, dict) else dict(enumerate(container))


def frozen(value: Any, known: dict[int, tuple[Any, Any]] | None = None) -> Any:
    """A copy of the containers in `value`, with the same items, that later changes do not reach.

    `known` maps the identity of a container to it and its copy; one list has one copy.
    """
    # First what is usual, since isinstance is slow for a traced value.
    if type(value) is TracedArray or not isinstance(value, dict | list | deque | tuple):
        return value
    known = {} if known is None else known
    if id(value) in known:
        return known[id(value)][1]
    made: Any
    if isinstance(value, tuple):
        items = [frozen(item, known) for item in value]
        return value if same_parts(items, list(value)) else rebuild(value, items)
    if isinstance(value, dict):
        made = {}
        known[id(value)] = (value, made)
        made.update({key: frozen(item, known) for key, item in value.items()})
    else:
        made = []
        known[id(value)] = (value, made)
        made += [frozen(item, known) for item in value]
    return made


def same_parts(a: list[Any], b: list[Any]) -> bool:
    """Whether two lists hold the same objects."""
    if len(a) != len(b):
        return False
    for x, y in zip(a, b, strict=True):  # noqa: SIM110 - `all` would make a generator each time
        if x is not y and not (type(x) is bytes and x == y):
            return False
    return True


def refuse_overlap(changed: WorkingCopy, arrays: list[WorkingCopy]) -> None:
    """Raise if another array of integers, of which the recording had a copy as well, shares memory with a changed one."""
    for other in arrays:
        if other is not changed and overlap(other.original, changed.original):
            raise InPlaceError(
                f"{describe(changed.original)} was written in place, and another field or argument holds "
                f"{describe(other.original)} that shares memory with it. Hold the array once, and make the view where it "
                "is needed."
            )


def refill(container: Any, source: Any) -> None:
    """Give a list, deque, dict, set, bytearray or array the items of another."""
    if is_array(container):
        container[...] = source
    elif isinstance(container, bytearray):
        container[:] = source
    elif isinstance(container, set):
        container.clear()
        container.update(source)
    elif isinstance(container, dict):
        items = list(dict.items(source))
        container.clear()
        for key, value in items:
            container[key] = value
    else:
        items = list(source)
        container.clear()
        container.extend(items)


class Containers:
    """The working copies of one recording, by the identity of the original and of the copy."""

    __slots__ = (
        "by_original",
        "by_working",
        "bystanders",
        "frozen",
        "left",
        "lowered",
        "met",
        "tuples",
        "twins",
    )

    def __init__(self) -> None:
        # By the identity of a tuple with lifted items, it and the one that was lifted: a tuple that the function passes
        # on stays the same one.
        self.tuples: dict[int, tuple[Any, Any]] = {}
        # By the identity of a tuple, tangent or view that was lowered, it and what became of it: one in two places stays
        # one.
        self.lowered: dict[int, tuple[Any, Any]] = {}
        # By the identity of a tuple that a rule left, it and another one that stands for the same tuple.
        self.twins: dict[int, tuple[Any, Any]] = {}
        self.frozen: dict[int, Any] = {}  # by the identity of a frozen copy, what it is a copy of
        self.left: dict[int, Any] = {}  # by the identity of what was frozen, its frozen copy
        # By their identity, objects of uncaptured classes, in which no traced value may be left.
        self.bystanders: dict[int, Attributes] = {}
        # By their identity, captured objects that have attributes besides the fields; None if nobody will ask.
        self.met: dict[int, Attributes] | None = None
        self.by_original: dict[int, WorkingCopy] = {}
        self.by_working: dict[int, WorkingCopy] = {}

    def identity_of(self, container: Any) -> int:
        """The id of the container that `container` is a copy of, working or frozen; its own if it is none."""
        container = self.frozen.get(id(container), container)
        made = self.by_working.get(id(container))
        return id(container if made is None else made.original)

    def freeze(self, containers: list[Any], known: dict[int, tuple[Any, Any]]) -> None:
        """Note the frozen copies in `known`, and make one of each working copy that holds containers of its own."""
        for container in containers:
            if any(
                type(item) is not TracedArray and isinstance(item, dict | list | deque | tuple)
                for item in children(container) or ()
            ):
                frozen(container, known)
        for source, made in known.values():
            self.frozen[id(made)] = source
            self.left[id(source)] = made

    def with_traced(self, container: Any) -> Any:
        """A working copy as the call left it, with the traced items of the lists that were put into it."""
        return self.left.get(id(container), container) if id(container) in self.by_working else container

    def made_plain(self, container: Any) -> bool:
        """Whether a list, deque or dict is one from which the recording took traced values when it ended."""
        left = self.left.get(id(container))
        if left is None and id(container) in self.by_original:
            left = self.by_original[id(container)].working
        return left is not None and holds_traced(left) and id(container) not in self.by_working

    def meet(self, obj: Any) -> None:
        """Look at the attributes of a captured object before the program gets hold of it."""
        if self.met is None:
            return
        schema = schema_of(type(obj))
        if schema is not None and schema.may_stray and id(obj) not in self.met:
            self.met[id(obj)] = Attributes(obj)

    def meet_bystander(self, obj: Any) -> None:
        """Look at the attributes of an object of another class, if it has any."""
        has_attributes = hasattr(obj, "__dict__") or hasattr(type(obj), "__slots__")
        is_data = not isinstance(obj, CODE) and not isinstance(obj, Tangent | ZeroTangent | NoTangent)
        if has_attributes and is_data and id(obj) not in self.bystanders:
            self.bystanders[id(obj)] = Attributes(obj)

    def forget_tuples(self) -> None:
        """Keep no tuple alive, once all that was left behind is lowered."""
        self.tuples = {}
        self.lowered = {}
        self.twins = {}

    def copy_of(self, original: Any) -> Any:
        """A working copy of something mutable without tangent space: a set, an integer array."""
        known = self.by_original.get(id(original)) or self.by_working.get(id(original))
        if known is None:
            known = self.open(original)
            known.lifted_before = known.before  # nothing in it is lifted
        return known.working

    def open(self, original: Any) -> WorkingCopy:
        """A new working copy, still with the original's items."""
        if type(original) is np.ndarray:
            made = WorkingCopy(original, original.copy(order="K"))
            if not original.flags.writeable:
                made.working.flags.writeable = False
        else:
            made = WorkingCopy(original, copy.copy(original))
        self.by_original[id(original)] = made
        self.by_working[id(made.working)] = made
        return made


def is_followed_as_whole(value: Any) -> bool:
    """Whether a value is a small array of integers, booleans or objects, of which a recording works on a copy."""
    return is_array(value) and value.dtype.kind in "biuO" and value.nbytes <= COPIED_BYTES


class Lifter:
    """Lifts values for one recording.

    Parameters
    ----------
    leaf : callable
        Makes the traced value and the description of a number or array.
    is_captured : callable
        Whether an object is one that capture follows.
    containers : Containers
        The recording's working copies.
    """

    __slots__ = ("containers", "is_captured", "leaf")

    def __init__(self, leaf: MakeLeaf, is_captured: Callable[[Any], bool], containers: Containers) -> None:
        self.leaf = leaf
        self.is_captured = is_captured
        self.containers = containers

    def lift(self, value: Any, where: str) -> tuple[Any, Description]:
        """The lifted value and its description; `where` names the place for error messages."""
        kind = type(value)
        if kind is np.ndarray:
            if value.dtype.kind in "fc":
                return self.leaf(value)
        elif kind is TracedArray or is_differentiable(value):
            return self.leaf(value)
        elif kind in _IMMUTABLE:
            return value, None
        elif self.is_captured(value):
            self.containers.meet(value)
            return value, Child(value)
        if isinstance(value, tuple):
            pairs = [self.lift(item, where) for item in value]
            if all(lifted is item for (lifted, _), item in zip(pairs, value, strict=True)):
                return value, Group(value, [description for _, description in pairs])
            made = rebuild(value, [lifted for lifted, _ in pairs])
            self.containers.tuples[id(made)] = (made, value)
            return made, Group(value, [description for _, description in pairs])
        if isinstance(value, list | dict | deque):
            return self._lift_mutable(value, where)
        if isinstance(value, set | bytearray) or is_followed_as_whole(value):
            if is_array(value) and value.dtype.kind == "O":
                refuse_unfollowed(value, where, self.is_captured)
            return self.containers.copy_of(value), None
        self.containers.meet_bystander(value)
        refuse_unfollowed(value, where, self.is_captured)
        return value, None

    def _lift_mutable(self, value: Any, where: str) -> tuple[Any, Description]:
        known = self.containers.by_original.get(id(value)) or self.containers.by_working.get(id(value))
        if known is not None:
            if known.lifted_before is None:
                raise NotCapturedError(
                    f"{where} is {type_name(value)} that contains itself, which has no tangent of finite size. Put "
                    "an object between: a field may refer to the list it is in."
                )
            return known.working, known.description
        made = self.containers.open(value)
        group = made.description
        if isinstance(value, dict):
            group.model = dict(value)
            for key, item in value.items():
                lifted, description = self.lift(item, where)
                dict.__setitem__(made.working, key, lifted)
                group.items.append(description)
        else:
            group.model = list(value)
            for position, item in enumerate(value):
                made.working[position], description = self.lift(item, where)
                group.items.append(description)
        made.lifted_before = contents(made.working)
        return made.working, group


def foreign_fields(value: Any) -> list[str] | None:
    """The names of the fields of an attrs or dataclass instance; None for anything else."""
    kind = type(value)
    fields = getattr(kind, "__attrs_attrs__", None)
    if fields is not None:
        return [field.name for field in fields]
    return list(kind.__dataclass_fields__) if hasattr(kind, "__dataclass_fields__") else None


def refuse_uncaptured(
    value: Any, where: str, is_captured: Callable[[Any], bool], only_traced: bool = False
) -> list[Any]:
    """Raise if `value` holds float arrays in fields that capture does not follow: they would be constant silently.

    With `only_traced`, plain arrays are fine: nothing flows to them.

    Returns
    -------
    list
        The objects that were looked into and hold none yet.
    """
    seen: dict[int, Any] = {}
    pending: list[tuple[Any, str]] = [(value, where)]
    while pending:
        obj, place = pending.pop()
        names = foreign_fields(obj)
        if names is None or id(obj) in seen or isinstance(obj, type) or is_captured(obj):
            continue
        seen[id(obj)] = obj
        kind = type(obj).__name__
        for name in names:
            held = getattr(obj, name, None)
            if type(held) is TracedArray or (not only_traced and is_array(held) and is_differentiable(held)):
                raise NotCapturedError(
                    f"{place} is {with_article(kind)}, and {kind}.{name} holds {describe(primal(held))}, but {kind} is no "
                    f"captured class, so the derivative with respect to it would be lost. Put @mutangent.differentiable on "
                    f"class {kind}."
                )
            pending += [(item, f"{kind}.{name}") for item in (children(held) or [held])]
    return list(seen.values())


def refuse_unfollowed(value: Any, where: str, is_captured: Callable[[Any], bool]) -> None:
    """Raise if `value`, which is no number, captured object or container, holds float arrays."""
    held = unfollowed_items(value)
    if held is not None:
        _refuse_unknown_container(value, held, where)
    refuse_uncaptured(value, where, is_captured)


def unfollowed_items(value: Any) -> list[Any] | None:
    """What is in a container of a kind that is not followed; None for any other value."""
    if isinstance(value, MappingProxyType):
        return list(value.values())
    if is_array(value):
        if value.dtype.names is not None:
            return [value[name] for name in value.dtype.names]
        return list(value.flat) if value.dtype.kind == "O" else None
    if hasattr(value, "__dict__") and isinstance(value, SimpleNamespace | MutableMapping | MutableSequence):
        return list(vars(value).values())
    return None


def refuse_own_fields(obj: Any) -> None:
    """Raise if a subclass of a captured class, itself not decorated, has added fields that hold numbers."""
    schema = schema_of(type(obj))
    for name in schema.uncaptured if schema is not None else ():
        held = getattr(obj, name, None)
        if is_differentiable(primal(held)):
            raise NotCapturedError(
                f"{type(obj).__name__}.{name} holds {describe(held)}, but class {type(obj).__name__} only "
                "inherits capture, so its own fields would be constant. "
                f"Put @mutangent.differentiable on class {type(obj).__name__}."
            )


def _kind_of(value: Any) -> str:
    if not is_array(value):
        return type(value).__name__
    return "numpy.ndarray of objects" if value.dtype.names is None else "structured numpy.ndarray"


def _refuse_unknown_container(value: Any, pending: list[Any], where: str) -> None:
    """Raise if a container of a kind that is not followed holds float arrays."""
    while pending:
        held = pending.pop()
        if type(held) is TracedArray or (is_array(held) and is_differentiable(held)):
            kind = _kind_of(value)
            raise NotCapturedError(
                f"{where} is {with_article(kind)} that holds {describe(primal(held))}, and "
                f"{with_article(kind)} is not followed, so its derivative would be lost. Use a list, "
                "tuple, dict or deque, or a class with @mutangent.differentiable."
            )
        pending += children(held) or (unfollowed_items(held) if is_array(held) else None) or ()


class Lowerer:
    """Takes the traced values of a closed recording out of what the function left behind."""

    __slots__ = ("containers", "copies", "copy_computed", "seen")

    def __init__(self, containers: Containers, copies: dict[int, tuple[Any, Any]] | None = None) -> None:
        self.containers = containers
        # For sweeps that come later: a result that the caller may overwrite must not be an array that the tape reads. The
        # copies are those of all that the recording leaves, so that an array in a field and in the result is one.
        self.copy_computed = copies is not None
        self.copies = {} if copies is None else copies
        self.seen: dict[int, Any] = {}  # holds what it has walked, so that ids stay valid

    def lower(self, value: Any) -> Any:
        """`value` without this recording: a plain number or array, the original container, the same object."""
        kind = type(value)
        if kind is TracedArray:
            return self._lower_traced(value) if value._base is None else self._lower_view(value)
        if kind in _IMMUTABLE:
            return value
        if isinstance(value, tuple | Tangent):
            return self._lower_immutable(value)
        known = self.containers.by_working.get(id(value))
        if known is not None:
            return known.original
        if isinstance(value, list | dict | deque) and id(value) not in self.seen:
            self.seen[id(value)] = value
            self.lower_items(value)
        return value

    def _lower_traced(self, value: Any) -> Any:
        while type(value) is TracedArray and value._tape.all is None:
            if value._tape.discarded:
                raise left_checkpoint(value)
            value = self._settle(value) if self.copy_computed else settle(value)
        return value

    def _lower_view(self, view: TracedArray) -> Any:
        """A view, which may be made again from its base: one for all places."""
        known = self.containers.lowered.get(id(view))
        if known is None:
            known = self.containers.lowered[id(view)] = (view, self._lower_traced(view))
        return known[1]

    def _lower_immutable(self, value: Any) -> Any:
        """A tuple or tangent without this recording: the same one if nothing in it is another, and one for all places."""
        known = self.containers.lowered.get(id(value))
        if known is not None:
            return known[1]
        if isinstance(value, tuple):
            items = [self.lower(item) for item in value]
            if id(value) in self.containers.twins:
                before = self.lower(self.containers.twins[id(value)][1])
            else:
                before = self.containers.tuples.get(id(value), (value, value))[1]
            lowered = before if same_parts(items, list(before)) else rebuild(value, items)
        else:
            changed = False

            def leaf(item: Any) -> Any:
                nonlocal changed
                made = self.lower(item)
                changed = changed or made is not item
                return made

            lowered = combine(leaf, value)
            lowered = lowered if changed else value
        self.containers.lowered[id(value)] = (value, lowered)
        return lowered

    def _settle(self, traced: TracedArray) -> Any:
        """`settle`, with a copy of what was computed inside. Copies of one array are one array."""
        root = root_of(traced)
        if not is_array(primal(traced)) or is_entry(root):
            plain = settle(traced)
            known = self.copies.get(id(plain))  # a constant that `pause` took from what was computed
            return plain if known is None else known[1]
        base = base_of(traced)
        # Two traced values may stand for one array: in a deep copy, in what a rule returned.
        whole = settle(traced) if base is None else traced
        known = self.copies.get(id(whole))
        if known is None:
            value = detached(whole) if base is None else derive(self._settle(base), traced._how)
            known = self.copies[id(whole)] = (whole, value)
        return known[1]

    def lower_items(self, container: Any) -> None:
        """Lower the items of a list, deque or dict in place."""
        if isinstance(container, dict):
            for key, item in list(container.items()):
                lowered = self.lower(item)
                if lowered is not item:
                    dict.__setitem__(container, key, lowered)
        else:
            for position, item in enumerate(list(container)):
                lowered = self.lower(item)
                if lowered is not item:
                    container[position] = lowered

    def check(self, copies: list[WorkingCopy]) -> None:
        """Raise if an original was changed while the function worked on its copy, or a bystander got a traced value."""
        for attributes in self.containers.bystanders.values():
            obj = attributes.obj
            refuse_uncaptured(obj, "an object that the recording met", lambda _: False, only_traced=True)
            names = attributes.with_traced()
            if names:
                kind = type(obj).__name__
                raise NotCapturedError(
                    f"{kind}.{names[0]} was given a value that depends on the recording's inputs, but {kind} is no "
                    "captured class, so later reads of it would have no gradient. Make it an attrs class with "
                    f"@mutangent.differentiable on class {kind}."
                )
        for made in copies:
            if not same_parts(contents(made.original), made.before):
                raise NotCapturedError(
                    f"{type_name(made.original)} that the recording had read was changed past it, through a name "
                    "that was not reached from an argument or a field. Reach it the same way everywhere: through the "
                    "object's field or the function's argument."
                )
        arrays = [made for made in copies if is_array(made.original)]
        for made in arrays:
            if (len(arrays) > 1 or made.working.dtype.kind == "O") and made.is_changed():
                refuse_overlap(made, arrays)
                if made.working.dtype.kind == "O":
                    _refuse_unknown_container(
                        made.working, list(made.working.flat), "what a field or an argument holds"
                    )

    def commit(self, copies: list[WorkingCopy]) -> None:
        """Give the originals what the function left in the working copies, which it changed."""
        for made in copies:
            fresh = copy.copy(made.working)
            if isinstance(fresh, list | dict | deque):
                self.lower_items(fresh)
            refill(made.original, fresh)
