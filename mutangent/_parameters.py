"""Parameters: what training moves, and what its gradient is.

A parameter is an array, or a number in its one place. An array that several fields hold is one parameter, and its gradient
is the sum of their shares. Fields with ``trainable=False``, and what only they reach, are no parameters. This is the one
place that says so: optimisers, `ravel` and `total` all ask here.
"""

from __future__ import annotations

import functools
from typing import Any

import attrs
import numpy as np

from ._arrays import is_array, type_name
from ._capture import TRAINABLE
from ._errors import CotangentError, GradientTypeError
from ._fields import is_captured
from ._layout import Group, Layout, Leaf, Object, Place
from ._pairing import Pairing, moves, refuse_overlaps
from ._tangent import ZERO, Tangent, rebuild
from ._traced import TracedArray


class Parameter:
    """One array, or one number in its place, that training moves.

    Its ``value`` is what it is now, its ``gradient`` the sum of the tangents of all places that hold it, a `ZeroTangent` if
    nothing flowed to them.
    """

    __slots__ = ("gradient", "leaves", "value")

    def __init__(self, leaf: Leaf) -> None:
        self.value = leaf.value
        self.gradient: Any = ZERO
        self.leaves = [leaf]

    def __repr__(self) -> str:
        shape = getattr(self.value, "shape", ())
        return f"Parameter({' = '.join(self.paths)}, shape={shape})"

    @property
    def paths(self) -> list[str]:
        """The places, as one writes them after the model: ``.cell.Wi``."""
        return [leaf.way for leaf in self.leaves]

    @property
    def place(self) -> tuple[Any, tuple[Any, ...]] | None:
        """The object that has its first place, and the way from there; without an object, the outermost list or dict.

        It stays the same when the value is replaced. None if there are only tuples above, in which nothing can be replaced.
        """
        node: Leaf | Object | Group = self.leaves[0]
        way: list[Any] = []
        found: tuple[Any, int] | None = None
        while node.parent is not None:
            way.append(node.key)
            node = node.parent
            if not isinstance(node.primal, tuple):
                found = node.primal, len(way)
            if type(node) is Object:
                break
        return None if found is None else (found[0], tuple(reversed(way[: found[1]])))

    def put(self, value: Any) -> None:
        """Give all its places another value: all of them or, if anything fails, none.

        Parameters
        ----------
        value : array or number
            It is put there as it is, past `frozen`, but not past converters and validators.
        """
        done = 0
        try:
            for leaf in self.leaves:
                _put(leaf, value)
                done += 1
        except BaseException:  # a validator of the user's, or Ctrl-C
            for leaf in self.leaves[:done]:
                _put(leaf, self.value)
            raise


def parameters(m: Any, tangent: Any = ZERO) -> tuple[Layout, list[Parameter]]:
    """The layout of `m` and its parameters in order, with their gradients.

    Raises
    ------
    CotangentError
        If `tangent` has not the structure, the shapes or the dtypes of what `m` holds now.
    GradientTypeError
        If `m` is, or holds, a tangent.
    ValueError
        If two arrays overlap without being one array.
    """
    layout = Layout([(m, type(m).__name__)])
    for node in layout.objects:
        if type(node.primal) is Tangent:
            raise GradientTypeError(
                f"a Tangent of {node.cls.__name__} was given where its object is needed: a tangent alone does not know "
                "which arrays are one, nor how large what it leaves out is. For a vector of it write "
                "mutangent.ravel_tangent(m, tangent)."
            )
    shares: dict[int, Any] = {}
    if tangent is not ZERO:
        shares = Pairing(layout, _fits, _misfit, _contradiction, is_trainable).pair(tangent)
    found: list[Parameter] = []
    of_slot: dict[int, Parameter] = {}
    leaves = _trainable_leaves(layout)
    refuse_overlaps(leaves)
    for leaf in leaves:
        parameter = of_slot.get(leaf.slot)
        if parameter is None:
            parameter = of_slot[leaf.slot] = Parameter(leaf)
            found.append(parameter)
        else:
            parameter.leaves.append(leaf)
        share = shares.get(leaf.number, ZERO)
        if share is not ZERO:
            parameter.gradient = parameter.gradient + share
    return layout, found


def is_trainable(cls: type, name: str) -> bool:
    """Whether training moves a field."""
    return name not in _fixed_fields(cls)


@functools.cache
def _fixed_fields(cls: type) -> frozenset[str]:
    return frozenset(
        attribute.name for attribute in attrs.fields(cls) if not attribute.metadata.get(TRAINABLE, True)
    )


def _trainable_leaves(layout: Layout) -> list[Leaf]:
    """The leaves that are reached through trainable fields, each once, in order."""
    found: list[Leaf] = []
    seen: set[int] = set()
    pending: list[Place] = [layout.nodes[0]]
    while pending:
        node = pending.pop()
        if type(node) is Leaf:
            found.append(node)
        elif node is not None and id(node) not in seen:
            seen.add(id(node))
            fixed = _fixed_fields(node.cls) if type(node) is Object else ()
            pending += [part for key, part in reversed(layout.below(node).items()) if key not in fixed]
    return found


def _put(leaf: Leaf, value: Any) -> None:
    """Put a value into a place. Of a tuple the place is put anew."""
    node: Leaf | Group = leaf
    holder = node.parent
    while type(holder) is Group and isinstance(holder.primal, tuple):
        items = list(_present(holder))
        items[node.key] = value
        value = rebuild(holder.primal, items)
        node, holder = holder, holder.parent
    assert holder is not None, "asked of a parameter that has no place"
    if type(holder) is Group:
        holder.primal[node.key] = value
        return
    obj = holder.primal
    try:
        setattr(obj, node.key, value)
    except attrs.exceptions.FrozenError:
        object.__setattr__(obj, node.key, value)


def _present(node: Group) -> Any:
    """What is in the place of a container now; a tuple may have been put anew."""
    holder = node.parent
    if type(holder) is Object:
        return getattr(holder.primal, node.key)
    if type(holder) is Group and isinstance(holder.primal, tuple):
        return _present(holder)[node.key]
    return node.primal if holder is None else holder.primal[node.key]


def _fits(value: Any, tangent: Any) -> bool:
    """Whether a number may have this tangent: of the same shape, and complex only if the value is."""
    return (
        moves(tangent)
        and getattr(tangent, "shape", ()) == getattr(value, "shape", ())
        and (_is_complex(value) or not _is_complex(tangent))
    )


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c"


def _misfit(where: str, value: Any, partner: Any) -> CotangentError:
    is_root = where == type(value).__name__
    what = f"{in_words(value)} was given" if is_root else f"{where} holds {in_words(value)}"
    if attrs.has(type(value)) and not is_captured(value):
        cls = type(value).__name__
        advice = f"{cls} is no captured class, so nothing in it moves. Put @mutangent.differentiable on class {cls}."
    elif is_root or (is_captured(value) and isinstance(partner, Tangent)):
        advice = (
            "That is no gradient of this object. Give the one with respect to it, `mutangent.grad(loss)(m)` or "
            "`ctx.grad(out, m)`, a Tangent of the same class."
        )
    else:
        advice = (
            "A gradient is taken at the value on entry: if the call itself changes this field, it is state and no weight, "
            "so declare it with mutangent.field(trainable=False)."
        )
    return CotangentError(f"{what}, and its tangent is {in_words(partner)}. Nothing was changed. {advice}")


def _contradiction(where: str) -> CotangentError:
    return CotangentError(
        f"{where} is reached by two ways, with different tangents: an object, a list or a dict has one tangent."
    )


def in_words(value: Any) -> str:
    """A part of a tree in the words of an error message."""
    if isinstance(value, Tangent):
        return f"a Tangent of {value._cls.__name__}"
    if isinstance(value, dict):
        return f"a dict with keys {list(value)}"
    if isinstance(value, list | tuple):
        return f"{type_name(value)} of length {len(value)}"
    if is_array(value) or isinstance(value, np.generic | TracedArray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiouAEIOU' else 'a'} {name}"
