"""`jvp`: forward mode through recorded functions, mutated objects included."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._arrays import is_differentiable
from ._capture import CapturedField, is_captured
from ._errors import CotangentError
from ._forward import Pusher
from ._identity import IdentityMap
from ._recording import Recording, check_array, zero_like
from ._structure import Child, Description, Group, Leaf, Lifter
from ._tangent import NONE, ZERO, NoTangent, Tangent, ZeroTangent, children, combine, map_container
from ._tape import Tape
from ._traced import TracedArray, new_traced, primal


class Forward(Recording):
    """A recording that keeps no entries: each traced value carries its tangent."""

    def __init__(self) -> None:
        super().__init__()
        pusher: Any = Pusher()
        self.tape = tape = Tape(pusher)
        self.given: IdentityMap[Tangent] = IdentityMap()

        def leaf(value: Any) -> tuple[TracedArray, Leaf]:
            node: Any = None
            traced = new_traced(tape, node, value)
            described = Leaf(-1, value)
            made: Any = traced
            described.node = made  # where `attach` will put the tangent
            if described.spec.shape:
                tape.leaves[id(traced)] = traced
            return traced, described

        self.lifter = Lifter(leaf, is_captured, self.containers)

    def first_read(self, obj: Any, field: CapturedField) -> Any:
        """Read a field, and give its value the tangent that was passed for the object."""
        lifted = super().first_read(obj, field)
        tangent = self.given.get(obj)
        if tangent is not None and not self.closed:
            entry = self.records[id(obj)].entries[field.name]
            self.attach(entry, tangent[field.name], f"{type(obj).__name__}.{field.name}")
        return lifted

    def attach(self, description: Description, tangent: Any, where: str) -> None:
        """Give the leaves of an entry value their tangents; those of objects are kept until their fields are read."""
        if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
            return
        if type(description) is Leaf:
            leaf: Any = description.node
            leaf._node = check_array(description.entry, tangent, where, "tangent")
        elif type(description) is Child and isinstance(tangent, Tangent):
            obj = description.primal
            if not isinstance(obj, tangent._cls):
                raise CotangentError(
                    f"the tangent of {where} is a Tangent of {tangent._cls.__name__}, but the value is a "
                    f"{type(obj).__name__}."
                )
            if self.given.setdefault(obj, tangent) is not tangent:
                raise CotangentError(
                    f"{where} is a {type(obj).__name__} that is reached by two ways, with two different tangents. An "
                    "object has one tangent: put the same Tangent in both places."
                )
        elif type(description) is Group and len(children(tangent) or ()) == len(description.items):
            for number, (item, part) in enumerate(
                zip(description.items, children(tangent) or [], strict=True)
            ):
                self.attach(item, part, f"{where}[{number}]")
        else:
            raise CotangentError(
                f"the tangent of {where} does not have the structure of its value. Give a Tangent for an object, a "
                "tuple, list or dict of tangents for a container, NoTangent() for what has no tangent space."
            )

    def tangent_of(self, value: Any) -> Any:
        """The tangent of a result: zeros where nothing depends on the inputs."""
        if type(value) is TracedArray:
            layer: Any = value
            while type(layer) is TracedArray and layer._tape is not self.tape and layer._tape.all is None:
                layer = layer._value
            if type(layer) is TracedArray and layer._tape is self.tape and layer._node is not None:
                tangent: Any = layer._node
                plain = primal(value)
                return tangent.item() if type(plain) is float or type(plain) is complex else tangent
        if type(value) is TracedArray or is_differentiable(value):
            return zero_like(Leaf(-1, primal(value)))
        if isinstance(value, Tangent):
            return combine(self.tangent_of, value)
        if value is ZERO:
            return ZERO
        return map_container(self.tangent_of, value) if children(value) is not None else NONE


def jvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, Any]:
    """Call a function and push tangents through it (forward mode).

    The cost is a few times that of the call, and memory does not grow with the number of operations.

    Parameters
    ----------
    f : callable
        Any function of the primals. It may read and write captured objects.
    primals : sequence
        The arguments.
    tangents : sequence
        One tangent per argument, of the same structure: an array for an array, a `Tangent` for an object, a container
        for a container. `ZeroTangent()` and `NoTangent()` stand for nothing anywhere.

    Returns
    -------
    out
        The result of ``f(*primals)``; objects are left as the plain call leaves them.
    out_dot
        Its tangent, of the same structure.

    Raises
    ------
    CotangentError
        If a tangent has not the shape, dtype or structure of its primal.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.jvp(lambda x, y: x * y, (3.0, 4.0), (1.0, 0.5))
    (12.0, 5.5)
    """
    if (
        not isinstance(primals, tuple | list)
        or not isinstance(tangents, tuple | list)
        or len(primals) != len(tangents)
    ):
        raise TypeError(
            "jvp takes the arguments and their tangents as two sequences of the same length: jvp(f, (x,), (x_dot,))"
        )
    recording = Forward()
    with recording:
        lifted = []
        for number, (primal_value, tangent) in enumerate(zip(primals, tangents, strict=True)):
            value, description = recording.lift(primal_value, f"argument {number}")
            recording.attach(description, tangent, f"argument {number}")
            lifted.append(value)
        result = f(*lifted)
        out_dot = recording.tangent_of(result)
    return recording.lower(result), out_dot
