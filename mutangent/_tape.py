"""The tape: what a recording computed, in order, and the walk backwards over it.

Entry number i describes node i, a number or array with a tangent space. It is a plain tuple

    (rule, parents, saved, shape, dtype)

where `parents` are node numbers (-1 for a constant operand) and `saved` is what the rule's expressions will read. The
order of the list is an order of evaluation, so the sweep needs neither sorting nor recursion, and entries are data,
which a later stage can compile. Entries without outputs of their own exist too: a call of several results is one
entry whose cotangent is a dict, followed by one `UNPACK` entry per result.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import count
from threading import current_thread, get_ident
from typing import Any, Final, NoReturn
from weakref import WeakValueDictionary

import numpy as np

from ._accumulate import Cotangents, is_basic_index, is_mask, to_real, unbroadcast
from ._arrays import Spec, describe, is_on_device, is_plain_array, namespace_of, overlap, zeros
from ._contents import COPIED_BYTES, Contents, contents_of, has_contents, in_little_memory
from ._errors import ContextError, InPlaceError
from ._memory import Memory
from ._rulebook import Rule
from ._selected import (
    expressions_of,
    matters,
    pull_partial,
    pull_selected,
    pull_structural,
    pull_where,
    rest_of,
    scatter_selected,
    selects_elements,
)
from ._suspended import PausedBlock

Entry = tuple[Any, Any, Any, tuple[int, ...], Any]

_serials = count()


class Special:
    """Entries that are not rows of the rulebook."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name


LEAF: Final = Special("leaf")  # an entry value: nothing behind it
INDEX: Final = Special("index")  # saved: the index
# Saved: the index, the shape of what was written if that was traced, and a constant of few numbers.
SET_ITEM: Final = Special("set item")
SCATTER: Final = Special("scatter")  # saved: the index; zeros with the operand added at the index
CALL: Final = Special(
    "call"
)  # saved: a function of {output number: cotangent} that yields (node, contribution)
UNPACK: Final = Special("unpack")  # saved: the output number
# In the place of a call's keywords: the operands are two real matrices, or one and a vector, of one dtype, in NumPy arrays.
PRODUCT: Final[dict[str, Any]] = {}


class Tape:
    """Where traced values append their entries.

    `entries` is None while nothing may be recorded: in `pause()`, and for good after the recording was closed. The
    list itself belongs to the recording, so that a traced value that outlives it keeps nothing alive but its own
    value. Serial numbers are never reused; among several open tapes the innermost has the highest.
    """

    __slots__ = (
        "_constants",
        "_constants_in_memory",
        "_constants_to_add",
        "_guarded",
        "_read",
        "_read_traced",
        "all",
        "asleep",
        "before",
        "borrowed",
        "copies",
        "detached",
        "discarded",
        "entries",
        "exponential",
        "given",
        "handed_on",
        "inner",
        "kept",
        "last_row",
        "leaf_ids",
        "leaves",
        "lent",
        "locked",
        "mutable",
        "origins",
        "outside",
        "owner",
        "pauses",
        "places",
        "recording",
        "refusals",
        "repeats",
        "returned",
        "serial",
        "shadowed",
        "sleepers",
        "sleeping",
        "stale",
        "thread",
        "twins",
        "unclaimed",
        "views",
    )

    pushes = False  # whether a node is a tangent: in forward mode

    def __init__(self, entries: list[Entry]) -> None:
        self.entries: list[Entry] | None = entries
        self.all: list[Entry] | None = (
            entries  # the same list until the recording is closed, also in `pause()`
        )
        self.serial = next(_serials)
        self.thread = get_ident()  # the only one whose operations are recorded
        # Of the first run of a checkpointed function, which tells values by the identity of their arrays, and so gives
        # copies where plain arrays are asked for: by the identity of a copy, the copy and what it is one of.
        self.copies: dict[int, tuple[Any, Any]] | None = None
        # Of that run too: by the identity of an array, it, the caller's handle of it, and what the caller has in its place.
        self.given: dict[int, tuple[Any, Any, Any]] | None = None
        # And how many entries each outer tape had before it, by their serial numbers.
        self.outside: dict[int, int] = {}
        self.repeats = False  # while a checkpointed function that raised runs again, as an ordinary one
        self.discarded = False  # of the first run of a checkpointed function: its values mean nothing outside
        self.inner: Tape | None = None  # of the recording that was opened in this one and goes on
        # Blocks of `pause()` in generators and coroutines, which other code may run beside; see `_suspended`.
        self.pauses: tuple[PausedBlock, ...] = ()
        self._constants: dict[int, tuple[Any, Contents]] = {}
        self._read: list[tuple[Any, Contents]] = []
        self._read_traced: list[tuple[Any, Any]] = []
        self._guarded: list[tuple[Any, Contents]] = []
        # Those constants by their memory, looked at in writes; and the ones that it does not know yet.
        self._constants_in_memory: Memory | None = None
        self._constants_to_add: list[Any] = []
        self.recording: Any = None  # a weak reference to it, which knows the names of fields
        self.places: Any = None  # of arrays, once one was written; see `_shadow`
        # For arrays written in place, by the identity of a traced value; see `_shadow`.
        self.leaves: dict[int, Any] = {}
        self.leaf_ids: frozenset[int] = frozenset()
        self.kept: list[Any] = []  # descriptions whose entry value a later recomputation reads
        self.origins: dict[int, tuple[Any, Any]] = {}
        self.lent: dict[int, Any] = {}  # arrays that users' rules were given, and may read in their pullbacks
        self.refusals = 0  # how often a plain number was asked for; see `_capture`
        self.last_row: tuple[Any, ...] | None = None  # of x[i] = x[j]; see `_in_place`
        self.exponential: Any = None  # of the last logistic function; see `_logistic`
        self.locked: dict[int, Any] = {}
        self.mutable: dict[int, Any] = {}
        self.shadowed: dict[
            int, tuple[Any, Any]
        ] = {}  # the handle with the new contents, and whose they will be
        self.before: dict[
            int, Any
        ] = {}  # the contents of those, to see whether somebody else has written them
        self.detached: list[Any] = []  # weak references to handles that inner recordings keep
        # Plain arrays that an inner recording has written for this one, of which the program reads none; see `_readers`.
        self.handed_on: dict[int, Any] | None = None
        self.borrowed: dict[int, Any] = {}  # handles of outer recordings, and what they stood for there
        # Constants in the place of those, whose nodes are entry values if a field turns out to hold the array.
        self.unclaimed: dict[int, tuple[Any, Any]] = {}
        self.returned: dict[
            int, tuple[Any, Any]
        ] = {}  # the handles that were borrowed, and their last nodes here
        self.views: dict[int, list[Any]] = {}
        # Arrays that a rule left in two places: by the identity of a handle, it and all handles of the array, weakly.
        self.twins: dict[int, tuple[Any, list[Any]]] = {}
        self.stale: Any = None  # views that are out of date; see `_views`
        self.asleep = False
        self.owner: Tape | None = None
        self.sleeping: Tape | None = None
        self.sleepers: WeakValueDictionary[int, Any] | None = None

    def for_constants(self) -> Tape:
        """The tape of constant arrays that the program may write: nothing is recorded on it, see `_adopted`."""
        if self.sleeping is None:
            made = self.sleeping = Tape([])
            made.entries = None
            made.asleep = True
            made.thread = self.thread
            made.owner = self
            made.sleepers = WeakValueDictionary()  # handles by the identity of their array
        return self.sleeping

    def close(self) -> None:
        """Record nothing any more."""
        self.entries = self.all = None
        self.pauses = ()
        if self.sleeping is not None:
            self.sleeping.close()
            self.sleeping.owner = None

    def release(self) -> None:
        """Forget the traced values, once everything they left behind has its plain value."""
        self.leaf_ids = frozenset(self.leaves)
        self.kept = []
        self.leaves = {}
        self.locked = {}
        self.mutable = {}
        self.origins = {}
        self._read = []
        self._read_traced = []
        self.shadowed = {}
        self.before = {}
        self.borrowed = {}
        self.handed_on = None
        self.unclaimed = {}
        self.detached = []
        self.views = {}
        self.twins = {}
        self.places = None
        self._constants_in_memory = None
        self.stale = None
        self.sleeping = None
        self.last_row = None
        self.exponential = None

    def constant(self, value: Any) -> Any:
        """A constant operand to be saved on this tape, safe from later changes of the caller's array.

        A small array is copied, and so is one on a device, since comparing it later would have to wait for the device.
        What another large one held at its first use is remembered, and the sweep refuses if it holds something else.
        """
        if not is_plain_array(value):
            return value
        if value.nbytes <= COPIED_BYTES or is_on_device(value):
            return value.copy()
        if id(value) not in self._constants:
            self._constants[id(value)] = (value, contents_of(value))
            self._constants_to_add.append(value)
        return value

    def forget_constants(self, array: Any) -> None:
        """No longer check constants that share memory with `array`; the entries have copies of them now."""
        if not self._constants:
            return
        if self._constants_in_memory is None:
            self._constants_in_memory = Memory()
        for value in self._constants_to_add:
            self._constants_in_memory.add(value, value)
        self._constants_to_add.clear()
        for value in self._constants_in_memory.near(array):
            known = self._constants.get(id(value))
            if known is not None and overlap(value, array) and has_contents(value, known[1]):
                del self._constants[id(value)]

    def note_read(self, array: Any) -> None:
        """Remember the contents of an array of a field or argument, which only the recording may write until it ends.

        Of one on a device only where a wait does no harm: to look at it later is to wait.
        """
        self._read.append((array, contents_of(array)))

    def ids_of_read(self) -> list[int]:
        """The identities of the arrays that are held here because they were read."""
        return [id(array) for array, _ in self._read]

    def note_read_traced(self, handle: Any, node: Any) -> None:
        """Remember the node of an array of a field or argument that an outer recording traces."""
        self._read_traced.append((handle, node))

    def overwritten(self) -> Any:
        """An array that has changed since it was read, by another name of it; None if there is none."""
        for array, before in self._read:
            if not has_contents(array, before):
                return array
        for handle, node in self._read_traced:
            if not is_same_node(handle._node, node):
                return handle
        return None

    def guard(self) -> None:
        """Go on remembering the contents of the arrays that were read, for sweeps that come later than the recording."""
        written = {id(source) for _, source in self.shadowed.values()}
        self._guarded = [
            (array, in_little_memory(array, before))
            for array, before in self._read
            if id(array) not in written
        ]

    def check_constants(self) -> None:
        """Raise if an array that the entries read was changed since the recording used it."""
        for value, before in self._guarded:
            if not has_contents(value, before):
                raise InPlaceError(
                    f"{describe(value)}, which the recording had read from a field or an argument, was overwritten in "
                    "place before its pullback ran, so the gradient would be computed from the wrong numbers. Call the "
                    "pullback first, or assign a new array: `m.w = m.w - step`, not `m.w -= step`."
                )
        for value, before in self._constants.values():
            if not has_contents(value, before):
                raise InPlaceError(
                    f"{describe(value)} was used as a constant by the recording and then overwritten in place, so the "
                    "gradient would be computed from the wrong numbers. Write into a new array, or use a copy: "
                    "`y = x * buffer.copy()`."
                )

    def require_thread(self) -> None:
        """Raise in another thread than the recording's. The hot paths ask themselves."""
        if self.thread != get_ident():
            self.refuse_elsewhere()

    def refuse_elsewhere(self) -> NoReturn:
        """Raise, since a value is used in another thread than the recording's."""
        raise ContextError(
            f"a traced value was used in the thread {current_thread().name}, and its recording was opened in another one. "
            "A recording follows its own thread only: fields that another one reads are constants, and the operations of "
            "two would be mixed up. Compute in the thread of the recording, or let each thread call mutangent.grad "
            "itself, and add the gradients up."
        )

    @property
    def is_open(self) -> bool:
        return self.entries is not None


def is_same_node(a: Any, b: Any) -> bool:
    """Whether two nodes are one; in forward mode they are tangents."""
    return a is b or bool(type(a) is int and type(b) is int and a == b)


def sweep(  # noqa: C901, PLR0912 - the hot path: one loop, without calls for the common rule
    entries: list[Entry],
    cotangents: Cotangents,
    keep: frozenset[int] = frozenset(),
    free: bool = False,
    part: Iterable[int] | None = None,
) -> None:
    """Propagate cotangents backwards, from the last node to the first; afterwards only those of leaves remain.

    Parameters
    ----------
    entries : list of tuple
        The tape.
    cotangents : Cotangents
        Holds the seeds, and afterwards the cotangents of the leaves.
    keep : frozenset of int
        Nodes within the tape whose cotangent is wanted as well.
    free : bool
        Whether to drop entries as they are passed, because there will be no second sweep.
    part : iterable of int, optional
        The nodes to go through; all by default.
    """
    slots = cotangents.slots
    add = cotangents.add
    products = cotangents.products
    for number in range(len(entries) - 1, -1, -1) if part is None else part:
        if products and number in products and pull_pending(entries, cotangents, number, keep, free):
            continue
        g = slots[number]
        if g is None:
            if free:
                entries[number] = _DROPPED
            continue
        rule, parents, saved, _, dtype = entries[number]
        if rule is LEAF:
            continue
        if number not in keep:
            slots[number] = None
        if free:
            entries[number] = _DROPPED
        if type(rule) is Rule:
            if not rule.whole:
                if saved[-1] is PRODUCT and type(g) is np.ndarray:
                    _pull_product(cotangents, parents, saved[1], g)
                else:
                    _pull_function(entries, cotangents, rule, parents, saved, g)
            elif dtype.kind == "c":
                _pull_complex_elementwise(entries, cotangents, rule, parents, saved, g)
            else:
                # Calls cost more than what is done here, so the sum is written out.
                for parent, push in zip(parents, rule.expressions):  # noqa: B905 - as long, by construction
                    if parent >= 0:
                        contribution = push(g, *saved)  # type: ignore[misc]
                        shape = entries[parent][3]
                        if contribution.shape != shape:
                            contribution = unbroadcast(contribution, shape)
                        if slots[parent] is None:
                            slots[parent] = contribution
                        else:
                            add(parent, contribution)
        elif rule is INDEX:
            _pull_index(entries, cotangents, parents, saved, g)
        elif rule is SET_ITEM:
            _pull_set_item(entries, cotangents, number, parents, saved, g)
        elif rule is SCATTER:
            deliver(entries, cotangents, parents, g[saved])
        elif rule is UNPACK:
            outputs = slots[parents]
            if outputs is None:
                outputs = slots[parents] = {}
            outputs[saved] = g
        else:
            for parent, contribution in saved(g):
                cotangents.foreign.add(parent)  # a user's rule may hold on to what it returns
                deliver(entries, cotangents, parent, contribution)


def pull_pending(
    entries: list[Entry], cotangents: Cotangents, number: int, keep: frozenset[int], free: bool
) -> bool:
    """Add what is pending for a node; True if the cotangent takes part only in places, and was pulled so."""
    live = cotangents.settle(number)
    if live is None:
        return False
    g, entry = cotangents.slots[number], entries[number]
    if number not in keep:
        cotangents.slots[number] = None
    if entry[0] is SET_ITEM:
        _pull_set_item(entries, cotangents, number, entry[1], entry[2], g, live)
    elif entry[0] is INDEX:
        shape, dtype = entries[entry[1]][3:]
        scatter_selected(cotangents, entry[1], entry[2], g, Spec(shape, dtype), live)
    elif not pull_partial(entries, cotangents, entry, g, live):
        cotangents.slots[number] = g
        return False
    if free:
        entries[number] = _DROPPED
    return True


_DROPPED: Final[Entry] = (LEAF, -1, None, (), np.dtype(np.float64))


def deliver(entries: list[Entry], cotangents: Cotangents, parent: int, contribution: Any) -> None:
    """Add a contribution to a node after undoing broadcasting and, for a real node, dropping the imaginary part."""
    _, _, _, shape, dtype = entries[parent]
    if contribution.shape != shape:
        contribution = unbroadcast(contribution, shape)
    if contribution.dtype is not dtype and dtype.kind == "f" and contribution.dtype.kind == "c":
        contribution = to_real(contribution)
    cotangents.add(parent, contribution)


def _pull_complex_elementwise(
    entries: list[Entry], cotangents: Cotangents, rule: Rule, parents: Any, saved: Any, g: Any
) -> None:
    g = np.conj(g)
    for parent, push in zip(parents, rule.expressions, strict=True):
        if parent >= 0:
            deliver(entries, cotangents, parent, np.conj(push(g, *saved)))  # type: ignore[misc]


def _pull_function(
    entries: list[Entry], cotangents: Cotangents, rule: Rule, parents: Any, saved: Any, g: Any
) -> None:
    if rule.kind == "elementwise":
        if rule.flat and g.dtype.kind == "f":
            push = expressions_of(entries, rule, parents, saved, g.dtype)[0]
            deliver(entries, cotangents, parents[0], push(g, *saved))
        else:
            pull_selected(entries, cotangents, (rule, parents, saved, g.shape, g.dtype), g, None)
        return
    y, args, kwargs = saved
    if rule.multiple:
        g = [g[k] if k in g else zeros(spec, next(iter(g.values()))) for k, spec in enumerate(y)]
    for parent, pullback in zip(parents, rule.expressions):  # noqa: B905 - as long, by construction
        if type(parent) is tuple:
            contributions = pullback(g, y, *args, **kwargs)  # type: ignore[misc]
            for each, contribution in zip(parent, contributions, strict=True):
                if each >= 0:
                    deliver(entries, cotangents, each, contribution)
        elif parent >= 0:
            if rule.selects:
                pull_structural(entries, cotangents, rule, parents, saved, g, None)
                return
            contribution = pullback(g, y, *args, **kwargs)  # type: ignore[misc]
            if kwargs and kwargs.get("where", True) is not True:
                pull_where(entries, cotangents, parent, contribution, kwargs["where"])
            else:
                deliver(entries, cotangents, parent, contribution)


def _pull_product(cotangents: Cotangents, parents: tuple[int, int], operands: Any, g: Any) -> None:
    """Pull through the product of two real matrices, or of one with a vector, of which sums can wait."""
    left, right = parents
    a, b = operands
    if a.ndim == b.ndim:
        if left >= 0:
            cotangents.add_product(left, g, b.T)
        if right >= 0:
            cotangents.add_product(right, a.T, g)
    elif b.ndim == 1:
        if left >= 0:
            cotangents.add_product(left, g[:, None], b[None])
        if right >= 0:
            cotangents.add(right, a.T.dot(g))
    else:
        if left >= 0:
            cotangents.add(left, b.dot(g))
        if right >= 0:
            cotangents.add_product(right, a[:, None], g[None])


def _pull_index(entries: list[Entry], cotangents: Cotangents, parent: int, index: Any, g: Any) -> None:
    _, _, _, shape, dtype = entries[parent]
    if g.dtype is not dtype and dtype.kind == "f" and g.dtype.kind == "c":
        g = to_real(g)
    if selects_elements(index) and matters(entries, parent):
        scatter_selected(cotangents, parent, index, g, Spec(shape, dtype))
        return
    present = cotangents.slots[parent]
    if type(g) is np.ndarray and (present is None or type(present) is np.ndarray):
        cotangents.scatter(parent, index, g, shape, dtype)
        return
    scatter: Callable[..., Any] | None = getattr(g, "_scatter", None)
    if scatter is not None:  # traced by an outer recording: the sum must be recorded there
        cotangents.add(parent, scatter(index, Spec(shape, dtype)))
    elif hasattr(present, "_scatter"):
        buffer = Cotangents(1)
        buffer.scatter(0, index, g, shape, dtype)
        cotangents.add(parent, buffer.slots[0])
    else:
        cotangents.scatter(parent, index, g, shape, dtype)


def _pull_set_item(
    entries: list[Entry],
    cotangents: Cotangents,
    number: int,
    parents: Any,
    saved: Any,
    g: Any,
    live: Any = None,
) -> None:
    """What was overwritten gets nothing, what was written gets the cotangent at the index.

    A buffer that this node owns is passed on to the array it was before, so T writes of one row each cost O(T).
    """
    index, written_shape, _ = saved
    base, value = parents
    live = rest_of(entries, base, index, live, g)
    if issubclass(type(g), np.generic):
        g = np.array(g)  # of a 0-d array; sums of those are scalars
    if is_plain_array(g):
        buffer = g if cotangents.owned[number] and cotangents.slots[number] is not g else g.copy()
        if written_shape is not None:
            part = buffer[index].copy()  # a NumPy scalar, of one element
            won = winners(index, buffer.shape)
            deliver(entries, cotangents, value, part if won is None else part * won)
        buffer[index] = 0
        if live is not None:
            cotangents.add_partial(base, buffer, live)
        elif cotangents.slots[base] is None:
            cotangents.slots[base] = buffer
            cotangents.owned[base] = True
        else:
            cotangents.add(base, buffer)
        return
    # Traced by an outer recording: the same, written so that it is followed.
    if written_shape is not None:
        won = winners(index, g.shape)
        deliver(entries, cotangents, value, g[index] if won is None else g[index] * won)
    if g.shape == ():
        cotangents.add(base, g * 0.0)  # all of a 0-d array was overwritten
        return
    rest = g.copy()
    rest[index] = 0.0
    if live is None:
        cotangents.add(base, rest)
    else:
        cotangents.add_partial(base, rest, live)


def winners(index: Any, shape: tuple[int, ...]) -> Any:
    """Where an assignment with repeated indices took effect: NumPy lets the last write win. None if all did."""
    if is_basic_index(index) or is_mask(index):
        return None
    library = namespace_of(
        next((part for part in (index if type(index) is tuple else (index,)) if is_plain_array(part)), None)
    )
    places = library.full(shape, -1)
    selected = places[index]
    count = library.arange(selected.size).reshape(selected.shape)
    places[index] = count
    won = places[index] == count
    # On a device the question whether all did would have to wait for the answer.
    return None if library is np and won.all() else won
