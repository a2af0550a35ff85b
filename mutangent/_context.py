"""`Context`: record a block of code, then ask for tangents of any object it reached. And `pause`, its opposite."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Final, Self

from ._arrays import describe, is_array, is_differentiable, is_plain_array, number, spec_of, type_name
from ._blocks import Block
from ._diagnose import DiagnosedRecording
from ._errors import ContextError, GradientTypeError
from ._fields import current, is_captured
from ._history import Version
from ._identity import IdentityMap
from ._readers import Given
from ._recording import Gradients, Recording, match, zero_like
from ._structure import Leaf
from ._suspended import suspendable_block
from ._tangent import ZERO, Tangent, children, map_container
from ._tape import Tape
from ._traced import TracedArray, given_out, require_scalar
from ._traced import primal as plain

_USE_WATCHED: Final = (
    " Use the array that watch returned, `x = ctx.watch(x)`: compute with it, and give it as the source."
)


class Context:
    """Record a block of code; afterwards the gradient with respect to any object it read is a question away.

    Inside the ``with`` block captured objects are read and written as usual. When the block ends normally they keep
    their new values, as plain arrays; when it raises they are as before. The tape is kept for as long as the context
    is, so gradients can be asked for repeatedly. A context records one block.

    Parameters
    ----------
    history : bool, default: False
        Keep every value that fields had in the block, for `history`.
    check_finite : bool, default: False
        Raise at the first operation that makes a nan or an infinity of operands that explain none, and in a sweep at the
        first such cotangent. The message names the operation, the fields, and the line.

    Raises
    ------
    ContextError
        When it is entered a second time.
    NonFiniteError
        With `check_finite`. The block is undone, as by any error that is raised in it.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Counter:
    ...     total: float = 0.0
    >>> c = Counter(1.0)
    >>> with mt.Context() as ctx:
    ...     c.total = c.total * 3.0
    ...     out = c.total**2
    >>> ctx.grad(out, c), c.total
    (Tangent[Counter](total=18.0), 3.0)
    """

    def __init__(self, *, history: bool = False, check_finite: bool = False) -> None:
        self._history = history
        self._check_finite = check_finite
        self._recording: Recording | None = None
        self._failed = False
        # A watched array may be written in place; its gradient is the one at the value it had when it was watched.
        self._watched: IdentityMap[int] = IdentityMap()

    def __enter__(self) -> Self:
        if self._recording is not None:
            raise ContextError(
                "this context was entered before, and a context records one block. Make a new mutangent.Context() for "
                "each block."
            )
        if self._history or self._check_finite:
            self._recording = DiagnosedRecording(self._history, self._check_finite)
        else:
            self._recording = Recording(swept_later=True)
        self._recording.function = Block(sys._getframe(1), self)
        self._recording.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._recording is not None
        self._failed = True
        self._recording.__exit__(kind, error, trace)
        self._failed = kind is not None
        self._recording.release()

    def _require(self) -> Recording:
        if self._recording is None:
            raise ContextError(
                "nothing was recorded: enter the context first, `with mutangent.Context() as ctx:`."
            )
        if self._failed:
            raise ContextError("the block of this context raised, so it was undone and has no gradients.")
        return self._recording

    def watch(self, array: Any) -> Any:
        """A traced stand-in for a plain array or number, to compute with and to name as a source in `grad`.

        Parameters
        ----------
        array : array, float or complex
            A value that is held by no captured object.

        Returns
        -------
        TracedArray
            Use it in place of `array` inside the block.

        Examples
        --------
        >>> import mutangent as mt
        >>> with mt.Context() as ctx:
        ...     x = ctx.watch(np.array([1.0, 2.0]))
        ...     out = np.sum(x**2)
        >>> ctx.grad(out, x)
        array([2., 4.])
        """
        recording = self._require()
        if recording.tape.entries is None:
            raise ContextError("watch was called after the block of this context had ended; call it inside.")
        if type(array) is not TracedArray and not is_differentiable(array):
            raise GradientTypeError(
                f"watch needs a float or complex array or number, and got {describe(array)}. Objects need no watching; "
                "convert an integer array with `.astype(float)`."
            )
        if recording.outer is not None:
            args = (array,)
            recording.arguments = Given(args)
            recording.readers[id(array)] = recording.reader_of(array)
        traced, leaf = recording.lift(array, "a watched array")
        self._watched[traced] = leaf.node
        return traced

    def grad(self, out: Any, *sources: Any) -> Any:
        """The gradient of a real scalar that was computed in the block.

        Parameters
        ----------
        out : traced scalar
            A value computed inside the block.
        *sources : objects, watched arrays, or containers of them
            What to differentiate with respect to. An object's gradient is taken at the values its fields had on entry.

        Returns
        -------
        tangent or tuple of tangents
            For one source its tangent, for several a tuple.

        Raises
        ------
        ContextError
            If `out` or a source does not belong to this context.
        GradientTypeError
            If `out` is not a real scalar.
        """
        recording = self._require()
        if not sources:
            raise TypeError(
                "grad needs at least one source: ctx.grad(out, obj). For all objects use ctx.tangents(out)."
            )
        node = self._node_of(recording, out)
        require_scalar(out, "the target of grad")
        watched = frozenset(node for source in sources for node in self._nodes(recording, source))
        gradients = recording.gradients(
            [(node, number(1, spec_of(plain(out)).dtype, plain(out)))], keep=watched
        )
        tangents = tuple(self._tangent_of(recording, gradients, source) for source in sources)
        return tangents[0] if len(sources) == 1 else tangents

    def tangents(self, out: Any, cotangent: Any = None) -> IdentityMap[Tangent]:
        """One tangent for every object that was read in the block.

        Parameters
        ----------
        out : traced value or container of them
            What was computed inside the block.
        cotangent : array or container, optional
            The cotangent of `out`; 1 by default, for a scalar.

        Returns
        -------
        IdentityMap
            From each object to its tangent.

        Raises
        ------
        ContextError
            If no number in `out` was traced by this context, or if `out` is or has a list that a field holds: such a
            list has plain numbers after the block.

        Examples
        --------
        >>> import mutangent as mt
        >>> @mt.differentiable
        ... class Weight:
        ...     value: float
        >>> a, b = Weight(2.0), Weight(5.0)
        >>> with mt.Context() as ctx:
        ...     out = a.value * b.value
        >>> ctx.tangents(out)[b]
        Tangent[Weight](value=2.0)
        """
        recording = self._require()
        if cotangent is None:
            node = self._node_of(recording, out)
            require_scalar(out, "the target of tangents without a cotangent")
            seeds = [(node, number(1, spec_of(plain(out)).dtype, plain(out)))]
        else:
            self._require_traced(recording, out)
            seeds = match(recording, out, cotangent, "the target")
        records = [record for record in recording.log.values() if not record.born]
        gradients = recording.gradients(seeds)
        return IdentityMap((record.obj, gradients.of_object(record.obj)) for record in records)

    def history(self, obj: Any, name: str) -> list[Version]:
        """Every value that a field had in the block, in order: the one on entry, and each that was written.

        Needs ``mutangent.Context(history=True)``, and may be asked inside the block too, and after one that raised. An
        array that is written in place counts as written. What is done to the items of a list or dict is not seen until the
        field is assigned again.

        Parameters
        ----------
        obj : object
            A captured object.
        name : str
            The name of the field.

        Returns
        -------
        list of Version
            Each with `value`, a plain copy; `cotangent`, from the latest sweep of this context, None before the first,
            `ZeroTangent` if nothing flowed to it, and `NoTangent` for a constant; and `line`, where it was written,
            None for the value on entry.

        Raises
        ------
        ContextError
            If the context was made without ``history=True``.

        Examples
        --------
        >>> import mutangent as mt
        >>> @mt.differentiable
        ... class Cell:
        ...     state: float
        >>> cell = Cell(1.0)
        >>> with mt.Context(history=True) as ctx:
        ...     for _ in range(2):
        ...         cell.state = cell.state * 0.5
        ...     out = cell.state * 4.0
        >>> d_cell = ctx.grad(out, cell)
        >>> [(version.value, version.cotangent) for version in ctx.history(cell, "state")]
        [(1.0, 1.0), (0.5, 2.0), (0.25, 4.0)]
        """
        if not self._history:
            raise ContextError(
                "this context keeps no history. Ask for it when it is made: `mutangent.Context(history=True)`."
            )
        recording = self._recording
        if not isinstance(recording, DiagnosedRecording):
            raise ContextError(
                "nothing was recorded: enter the context first, `with mutangent.Context(history=True) as ctx:`."
            )
        return recording.versions(obj, name)

    def _node_of(self, recording: Recording, out: Any) -> int:
        node = recording.node_of(out)
        if node is None:
            if type(out) is TracedArray:
                where = "was traced by another context"
            elif children(out) is not None or is_captured(out):
                where = "is no number"
            else:
                where = "was not computed from anything that this context traced"
            raise ContextError(
                f"the target, {describe(plain(out))}, {where}. Compute it inside `with mutangent.Context() as ctx:` "
                f"from fields of captured objects or from `ctx.watch(array)`.{_USE_WATCHED if self._watched else ''}"
            )
        return node

    def _require_traced(self, recording: Recording, out: Any) -> None:
        """Raise if nothing in `out` was traced by this context, or if a list in it has become plain."""
        found: list[Any] = []
        own = False
        seen: dict[int, Any] = {}
        pending = [out]
        while pending:
            value = pending.pop()
            items = children(value)
            if items is None:
                own = (
                    own
                    or is_captured(value)
                    or isinstance(value, Tangent)
                    or recording.node_of(value) is not None
                )
                if type(value) is TracedArray or is_differentiable(value):
                    found.append(value)
            elif id(value) not in seen:
                seen[id(value)] = value
                if recording.containers.made_plain(value):
                    raise ContextError(
                        f"the target, or part of it, is {type_name(value)} that a field holds, in which this "
                        "context leaves plain numbers. Give the object that has the field, with its Tangent as the "
                        "cotangent, or make a tuple of the numbers inside the block."
                    )
                pending += children(recording.containers.with_traced(value)) or ()
        if found and not own:
            self._node_of(recording, found[-1])

    def _nodes(self, recording: Recording, source: Any) -> Iterator[int]:
        if type(source) is TracedArray:
            node = self._watched.get(source, recording.node_of(source))
            if node is None:
                raise ContextError(f"the source, {describe(plain(source))}, was traced by another context.")
            yield node
        elif is_captured(source):
            return
        elif is_array(source) or is_differentiable(source):
            watched = any(plain(traced) is source for traced in self._watched)
            raise ContextError(
                f"the source, {describe(source)}, is the plain one that watch was given.{_USE_WATCHED}"
                if watched
                else f"the source, {describe(source)}, was not watched. Write `x = ctx.watch(x)` inside the block, compute "
                "with that x, and give it here; for a field give the object that has it."
            )
        elif children(source) is None:
            raise GradientTypeError(
                f"the source, {describe(source)}, has no gradient. Give a captured object or a watched array"
                + (
                    f"; put @mutangent.differentiable on class {type(source).__name__}."
                    if hasattr(type(source), "__attrs_attrs__")
                    or hasattr(type(source), "__dataclass_fields__")
                    else "."
                )
            )
        else:
            for item in children(source) or []:
                yield from self._nodes(recording, item)

    def _tangent_of(self, recording: Recording, gradients: Gradients, source: Any) -> Any:
        if type(source) is TracedArray:
            node = self._watched.get(source, recording.node_of(source))
            assert node is not None
            layer: Any = source
            while layer._tape is not recording.tape:
                layer = layer._value
            leaf = Leaf(node, layer._value)
            tangent = gradients.of_node(node, leaf.entry)
            return zero_like(leaf) if tangent is ZERO else tangent
        if is_captured(source):
            return gradients.of_object(source)
        return map_container(lambda item: self._tangent_of(recording, gradients, item), source)


@contextmanager
def pause() -> Iterator[None]:
    """Compute without recording.

    Inside the block every operation gives a constant; objects are still read and written inside the recording, so a
    raise undoes what is written here as well. Conversions such as ``float(x)`` are allowed.

    Raises
    ------
    ContextError
        From an operation elsewhere, while a generator or coroutine is suspended inside the block. A generator that
        `contextlib.contextmanager` has made a context manager pauses the block of its user instead.

    Examples
    --------
    >>> import mutangent as mt
    >>> def loss(x):
    ...     with mt.pause():
    ...         scale = x * 10.0
    ...     return x * scale
    >>> mt.grad(loss)(2.0)
    20.0
    """
    tapes: list[tuple[Tape, Any]] = []
    overlay = current()
    while overlay is not None:
        tape = getattr(overlay, "tape", None)
        if tape is not None:
            tapes.append((tape, tape.entries))
        overlay = overlay.outer
    block = suspendable_block() if tapes else None
    for tape, _ in tapes:
        tape.entries = None
        if block is not None:
            tape.pauses = (*tape.pauses, block)
    if block is not None:
        block.enter()
    try:
        yield
    finally:
        if block is not None:
            block.leave()
        for tape, entries in tapes:
            tape.entries = entries
            if block is not None:
                tape.pauses = tuple([each for each in tape.pauses if each is not block])


def primal(x: Any) -> Any:
    """The plain value of a traced one; anything else is returned as it is.

    Parameters
    ----------
    x : object
        A traced value, or anything.

    Returns
    -------
    object
        The value without tracing; derivatives do not flow through it. An array must not be written while its
        recording is open; afterwards it is a copy, since a pullback may read the original.

    Examples
    --------
    >>> import mutangent as mt
    >>> def loss(x):
    ...     print("x is", mt.primal(x))
    ...     return x**2
    >>> mt.grad(loss)(3.0)
    x is 3.0
    6.0
    """
    value = plain(x)
    if type(x) is not TracedArray or not is_plain_array(value):
        return value
    return given_out(x, value)


def stop_gradient(x: Any) -> Any:
    """A constant copy: no derivative, of any order, flows through it.

    Parameters
    ----------
    x : number, array, or tuple, list or dict of them

    Returns
    -------
    The same structure with plain copies.

    Raises
    ------
    GradientTypeError
        For an object: its fields would have to be replaced. Stop the gradient of the fields, or use `pause`.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.grad(lambda x: x * mt.stop_gradient(x))(3.0)
    3.0
    """
    x = plain(x)
    if is_captured(x):
        raise GradientTypeError(
            f"stop_gradient was given {type_name(x)}. Use it on the values of its fields, or compute under "
            "`with mutangent.pause():`."
        )
    if is_array(x):
        return x.copy()
    return map_container(stop_gradient, x)
