"""What a checkpointed function left that raised an error, compared with what it leaves when it is run again.

The second time it runs as an ordinary function, so what the caller goes on with is what that run has left. If the first one
left something else, or another error, the function depends on what is not put back.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ._compared import DEPENDS, Marks
from ._errors import CheckpointError
from ._fields import MISSING, CapturedField, schema_of
from ._first_run import FirstRun, Inside
from ._structure import contents, same_parts
from ._traced import TracedArray
from ._views import root_of


class Left:
    """What the first run left, without the arrays in it. Make one inside that run, and look at it for as long as needed."""

    def __init__(self, inside: Inside, first: FirstRun, error: Exception) -> None:
        self._inside = inside
        self._born = {id(record.obj) for record in first.log.values() if record.born}
        self._error = type(error)
        self._args = self._marks(error.args, first)
        # By the identities, so that what the repeated run writes besides is found.
        self._fields: dict[tuple[int, str], tuple[Any, Marks]] = {
            (id(record.obj), name): (record.obj, self._marks(record.values.get(name, MISSING), first))
            for record in first.log.values()
            for name in record.written
            if not record.born
        }
        self._containers: dict[int, tuple[Any, Marks]] = {}
        for made in first.containers.by_original.values():
            shown = inside.containers.by_working.get(id(made.original))
            if shown is not None and made.is_changed():
                self._containers[id(shown.original)] = (shown.original, self._marks(made.working, first))
        self._arrays = {
            id(array): self._marks(root, first)
            for root, array in first.tape.shadowed.values()
            if id(array) in inside.arrays
        }
        self._before = self._now()
        self._nodes = self._nodes_now()

    def _marks(self, value: Any, overlay: Any) -> Marks:
        return Marks(value, overlay.peek, lambda obj: id(obj) in self._born)

    def require_same(self, error: Exception) -> None:
        """Raise if the run that has just ended with this error has left anything else."""
        if type(error) is not self._error or not self._args.fit(error.args, self._peek):
            raise self._other(f"it raised {error!r}, which is another error") from error
        for place in self._others():
            raise self._other(f"it left something else in {place}") from error

    def _other(self, what: str) -> CheckpointError:
        return CheckpointError(
            f"a checkpointed function raised {self._error.__name__} after it had written something, and when it was run "
            f"again to write that into the caller's recording, {what}. {DEPENDS}"
        )

    def _others(self) -> Iterator[str]:
        """The places that were left otherwise, in words."""
        for (_, name), (obj, marks) in self._fields.items():
            schema = schema_of(type(obj))
            assert schema is not None
            if not marks.fit(self._peek_or_missing(obj, schema.fields[name]), self._peek):
                yield f"{type(obj).__name__}.{name}"
        for key, (obj, value) in self._now().items():
            if key not in self._fields and self._before.get(key, (obj, MISSING))[1] is not value:
                yield f"{type(obj).__name__}.{key[1]}"
        for made in self._inside.containers.by_original.values():
            known = self._containers.get(id(made.original))
            if known is None:
                same = same_parts(contents(made.original), made.before)
            else:
                same = known[1].fit(made.original, self._peek)
            if not same:
                yield f"a {type(made.original).__name__}"
        for number, node in self._nodes_now().items():
            array, layer, held = self._inside.arrays[number]
            written = self._arrays.get(number)
            if written is None:
                same = self._nodes[number] == node
            else:
                same = written.fit(held if layer is None else layer, self._peek)
            if not same:
                yield f"an array of shape {array.shape}"

    def _peek(self, obj: Any, field: CapturedField) -> Any:
        outer = self._inside.outer
        return field.raw_get(obj) if outer is None else outer.peek(obj, field)

    def _peek_or_missing(self, obj: Any, field: CapturedField) -> Any:
        try:
            return self._peek(obj, field)
        except AttributeError:
            return MISSING

    def _now(self) -> dict[tuple[int, str], tuple[Any, Any]]:
        """The fields that the caller's recording has written, but for those of objects that it has made."""
        outer = self._inside.outer
        return {
            (id(record.obj), name): (record.obj, record.values.get(name, MISSING))
            for record in ([] if outer is None else outer.log.values())
            for name in record.written
            if not record.born
        }

    def _nodes_now(self) -> dict[int, int | None]:
        """By the identity of an array that was given, the node of it, which is another one once it was written."""
        return {
            key: root_of(layer)._node if type(layer) is TracedArray else None
            for key, (_, layer, _) in self._inside.arrays.items()
        }
