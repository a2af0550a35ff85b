"""How the function is run again in the sweep, and how the cotangents go back through that run.

The second run is over the values that the first one had read: an overlay shows the objects as they were, takes up what is
written, and is dropped. What it gives is compared with what the first run gave. Cotangents of what the first run left
behind are seeds of the second one, and its tangents are contributions to what the first one had read.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

from ._arrays import describe
from ._compared import DEPENDS, Sums, same_numbers
from ._errors import CheckpointError
from ._fields import CapturedField, current, enter, leave
from ._first_run import Inside
from ._identity import IdentityMap
from ._overlay import Overlay, Unread
from ._recording import Recording, match
from ._structure import Child, Description, Group, Leaf, by_key, refill
from ._tangent import NONE, ZERO, Tangent, children, rebuild
from ._traced import primal
from ._work_done import WorkDone


class _SecondRun(Recording):
    """The second run, which leaves nothing behind."""

    looks_at_arrays = False

    def commit(self) -> None:
        self.restore_attributes()


class Replay(Overlay):
    """Shows objects as they were when the first run read them."""

    def __init__(self, inside: Inside) -> None:
        super().__init__(current())
        self._inside = inside
        self.models: dict[int, Any] = {}
        made = inside.containers.by_original.values()
        self._originals = {id(each.description): each.original for each in made}

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        record = self._inside.log.get(id(obj))
        if record is None or field.name not in record.entries:
            return self._below(obj, field)
        entry = record.entries[field.name]
        if entry is None:
            return self._inside.remembered.shown(self._inside.constants[id(obj), field.name])
        if type(entry) is Unread:
            return entry.value
        return self.value_of(entry, None)

    def value_of(self, description: Description, otherwise: Any) -> Any:
        """The entry value of a description; `otherwise` for one that has no tangent space."""
        if type(description) is Leaf:
            return description.entry
        if type(description) is Child:
            return description.primal
        if type(description) is not Group:
            return self._inside.remembered.shown(otherwise)
        known = self.models.get(id(description))
        if known is None:
            before = by_key(description.model).values()
            items = [
                self.value_of(item, value) for item, value in zip(description.items, before, strict=True)
            ]
            rebuilt = rebuild(description.model, items)
            known = self.models[id(description)] = self._like_original(description, rebuilt)
        return known

    def _like_original(self, description: Description, rebuilt: Any) -> Any:
        """A deque, or an instance of a subclass, like the one that the first run was shown."""
        original = self._originals.get(id(description))
        if original is None or type(original) is type(rebuilt):
            return rebuilt
        made = copy.copy(original)
        refill(made, rebuilt)
        return made


class Recomputation:
    """The second run of one checkpointed call: what it needs of the first one, and what it is compared with."""

    def __init__(self, function: Callable[..., Any], inside: Inside) -> None:
        self.function = function
        self.inside = inside
        self.given: Any = None
        self.arguments: Description = None
        self.value: Description = None
        self.written: list[tuple[Any, str, Description]] = []
        self.containers: list[tuple[Description, dict[Any, Description]]] = []
        self.work: WorkDone | None = None  # of the first run
        self.rewritten: list[tuple[Leaf, int]] = []
        self.sums: dict[int, Sums] = {}  # of the contents that arrays were given, by the number of the result

    def pull(self, cotangents: dict[int, Any]) -> Iterator[tuple[int, Any]]:
        """Run the function again and pull the cotangents back through that run."""
        replay = Replay(self.inside)
        with self.inside.remembered.as_met():
            before = enter(replay)
            try:
                with _SecondRun(swept_later=True) as second:
                    given = replay.value_of(self.arguments, self.given)
                    lifted, arguments = second.lift(given, "the arguments")
                    result = self.function(*lifted[0], **lifted[1])
                    work = WorkDone(second.tape)
            finally:
                leave(before)
        self._compare(replay, second, result)
        if self.work is None or not self.work.is_like(work):
            raise CheckpointError(
                "a checkpointed function computed something else when it was run again in the backward pass than the first "
                f"time, though with the same result. {DEPENDS}"
            )
        gradients = second.gradients(self._seeds(replay, second, result, cotangents), free=True)
        slots = gradients.cotangents.slots
        counted: set[int] = set()
        for outer, within in self._pairs(second, arguments):
            if (
                outer.node >= 0
                and within.node >= 0
                and slots[within.node] is not None
                and within.node not in counted
            ):
                counted.add(within.node)
                yield outer.node, slots[within.node]

    def _compare(self, replay: Replay, second: Recording, result: Any) -> None:
        """Raise if the second run gave something else than the first."""
        pairs = [(self.value, result)]
        for obj, name, description in self.written:
            if not self.inside.log[id(obj)].born:
                record = second.log.get(id(obj))
                pairs.append((description, None if record is None else record.values.get(name)))
        for description, items in self.containers:
            copied = self._copy_in(replay, second, description)
            known = {} if copied is None else by_key(copied.working)
            pairs += [(item, known.get(key)) for key, item in items.items()]
        while pairs:
            description, value = pairs.pop()
            if type(description) is Group:
                items_now = children(value)
                if items_now is None or len(items_now) != len(description.items):
                    raise _other_result(value)
                pairs += zip(description.items, items_now, strict=True)
            elif type(description) is not Leaf or description.node < 0:
                pass  # an array that was given, and may be written
            elif value is None or not same_numbers(primal(description.entry), primal(value)):
                raise _other_result(value)
        written = {id(array): root._value for root, array in second.tape.shadowed.values()}
        for number, first in self.sums.items():
            # Several descriptions of one array may have been noted.
            names = [kept.entry for kept, node in self.rewritten if node == number]
            now = next((written[id(each)] for each in names if id(each) in written), None)
            if names and (now is None or not first.is_near(Sums(now))):
                raise _other_result(names[0] if now is None else now)

    def _copy_in(self, replay: Replay, second: Recording, description: Description) -> Any:
        """The working copy that the second run has of a container, if it met it."""
        model = replay.models.get(id(description))
        return None if model is None else second.containers.by_original.get(id(model))

    def _seeds(
        self, replay: Replay, second: Recording, result: Any, cotangents: dict[int, Any]
    ) -> list[tuple[int, Any]]:
        """Nodes of the second run with the cotangents of what the first one returned and wrote."""
        seen: set[tuple[int, int]] = set()
        cotangents = dict(cotangents)  # each counts once, in whatever place its array is found first
        known: IdentityMap[Tangent] = IdentityMap()
        left = self._left_behind()
        for obj, _, _ in left:
            known.setdefault(obj, Tangent._shell(type(obj), {}))
        for obj, name, description in left:
            known[obj]._fields[name] = _cotangent(description, cotangents, known)
        seeds = match(second, result, _cotangent(self.value, cotangents, known), "the result", seen)
        for obj, tangent in known.items():
            if not self.inside.log[id(obj)].born:
                seeds += match(second, obj, tangent, "an object", seen)
        for description, items in self.containers:
            copied = self._copy_in(replay, second, description)
            if copied is None:
                continue
            for key, item in items.items():
                seeds += match(
                    second, copied.working[key], _cotangent(item, cotangents, known), "an item", seen
                )
        # Several descriptions of one array were noted; the second run wrote it once.
        written = {(id(kept.entry), number) for kept, number in self.rewritten if number in cotangents}
        for root, array in second.tape.shadowed.values():
            seeds += [(root._node, cotangents[number]) for known, number in written if known == id(array)]
        if cotangents.keys() - {number for _, number in self.rewritten}:
            raise CheckpointError(
                "a checkpointed function left a value in a place that its second run does not have, so the cotangent of "
                "that value would be lost. Return it, or put it into a field of an object that the function was given."
            )
        return seeds

    def _left_behind(self) -> list[tuple[Any, str, Description]]:
        """The fields that the first run wrote, without those of objects that it made and dropped."""
        log = self.inside.log
        pending: list[Description] = [self.value]
        pending += [description for obj, _, description in self.written if not log[id(obj)].born]
        pending += [item for _, items in self.containers for item in items.values()]
        dropped: dict[int, list[Description]] = {}
        for obj, _, description in self.written:
            if log[id(obj)].born:
                dropped.setdefault(id(obj), []).append(description)
        while pending:
            description = pending.pop()
            if type(description) is Group:
                pending += description.items
            elif type(description) is Child:
                pending += dropped.pop(id(description.primal), ())
        return [each for each in self.written if id(each[0]) not in dropped]

    def _pairs(self, second: Recording, arguments: Description) -> Iterator[tuple[Leaf, Leaf]]:
        """What the first run read, as the caller's tape knows it, with the leaf of the second run."""
        pairs = [(self.arguments, arguments)]
        for record in self.inside.log.values():
            inner = second.log.get(id(record.obj))
            if inner is not None:
                pairs += [(entry, inner.entries.get(name)) for name, entry in record.entries.items()]
        while pairs:
            outer, within = pairs.pop()
            if type(outer) is Leaf and type(within) is Leaf:
                yield outer, within
            elif type(outer) is Group and type(within) is Group:
                pairs += zip(outer.items, within.items, strict=True)


def _other_result(value: Any) -> CheckpointError:
    return CheckpointError(
        f"a checkpointed function gave {describe(primal(value))} when it was run again in the backward pass, and not "
        f"what it gave the first time. {DEPENDS}"
    )


def _cotangent(description: Description, cotangents: dict[int, Any], known: IdentityMap[Tangent]) -> Any:
    """The cotangent of a described result, taken out of `cotangents`; ZeroTangent where nothing flowed."""
    if type(description) is Leaf:
        return cotangents.pop(description.node, ZERO)
    if type(description) is Child:
        return known.get(description.primal, ZERO)
    if type(description) is Group:
        return rebuild(description.model, [_cotangent(item, cotangents, known) for item in description.items])
    return NONE
