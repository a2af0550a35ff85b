"""Walk objects, containers and tangents: every number in them, each shared object once.

A *tree* is a captured object, a tangent, a number or array, or a tuple, list, dict or deque of such, nested. In spite of
its name it may share parts and have cycles. Its *leaves* are the float and complex numbers and arrays. What else is in it,
integers and strings and functions, belongs to its structure.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ._arrays import is_array, spec_of
from ._copies import copied
from ._layout import Group, Layout, Leaf
from ._pairing import Pairing, moves, place_name, refuse_overlaps
from ._parameters import Parameter, in_words, is_trainable
from ._parameters import parameters as _parameters
from ._tangent import ZERO
from ._traced import primal

__all__ = ["Parameter", "leaves", "map", "norm", "parameters", "paths", "size"]


def map(f: Callable[..., Any], tree: Any, *rest: Any) -> Any:  # noqa: A001 - as in jax.tree
    """A new tree with `f` of each leaf in its place.

    Of an object it makes a new object of the same class, of a `Tangent` a new `Tangent`. Sharing and cycles carry over: an
    object in two places becomes one new object in two places, and so does an array of objects and containers.

    Parameters
    ----------
    f : callable
        Takes a leaf of `tree`, and one of each of `rest`.
    tree : object, Tangent, array or container
        It decides about the kind and the structure of the result.
    *rest
        Trees of the same structure: tangents, or objects of the same classes. Where one of them has nothing, `f` is given
        `ZeroTangent()`, and likewise where a tangent that comes first has nothing and another tree has a number.

    Returns
    -------
    The new tree. What is no leaf is carried over: the same functions and strings, in new containers. Results take the
    places of leaves past converters and validators.

    Raises
    ------
    ValueError
        If a tree of `rest` has another structure, or several values for an array that `tree` has in several fields: the
        result could not be one array. If arrays of `tree` overlap without being one array.
    NotCapturedError
        If arrays sit in an object that capture does not follow.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    ...     offset: float
    >>> line = Line(3.0, 1.0)
    >>> mt.tree.map(lambda value: 10 * value, line)
    Line(slope=30.0, offset=10.0)
    >>> gradient = mt.Tangent(Line, slope=2.0)
    >>> mt.tree.map(lambda value, g: value - 0.5 * g, line, gradient)
    Line(slope=2.0, offset=1.0)
    >>> mt.tree.map(lambda g, value: g + 0.1 * value, gradient, line)  # weight decay
    Tangent[Line](slope=2.3, offset=0.1)
    """
    layout = _layout(tree)
    refuse_overlaps(layout.slots)
    others = [Pairing(layout, _may_meet, _misfit, _contradiction).pair(other) for other in rest]
    values: dict[int, Any] = {}
    done: dict[int, list[tuple[Leaf, list[Any], Any]]] = {}  # by slot
    for leaf in layout.leaves:
        partners = [other.get(leaf.number, ZERO) for other in others]
        before = done.setdefault(leaf.slot, [])
        for other_leaf, others_partners, result in before:
            if _are_same(partners, others_partners):
                values[leaf.number] = result
                break
            if _is_state(leaf) == _is_state(other_leaf):
                raise ValueError(
                    f"{place_name(leaf.parent, leaf.key)} and {place_name(other_leaf.parent, other_leaf.key)} are one "
                    "array, and another tree has two values for it, so that two arrays would come out. To move a shared "
                    "array by the sum of its tangents, use mutangent.optim, mutangent.ravel or mutangent.total."
                )
        else:
            values[leaf.number] = f(leaf.value, *partners)
            before.append((leaf, partners, values[leaf.number]))
    return copied(layout, values)


def leaves(tree: Any) -> list[Any]:
    """The numbers and arrays of a tree, in the order of the fields and items.

    Each object, list and dict is visited once. An array in two fields is listed twice, as it has two tangents.

    Parameters
    ----------
    tree : object, Tangent, array or container

    Returns
    -------
    list
        A `ZeroTangent` is no leaf.

    Raises
    ------
    NotCapturedError
        If arrays sit in an object that capture does not follow.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.tree.leaves({"w": 2.0, "name": "first", "more": [3.0, (4.0,)]})
    [2.0, 3.0, 4.0]
    """
    return [leaf.value for leaf in _layout(tree).leaves]


def paths(tree: Any) -> list[str]:
    """Where the leaves are, one path per leaf, in the same order.

    Parameters
    ----------
    tree : object, Tangent, array or container

    Returns
    -------
    list of str
        What one writes after the tree to get the leaf: ``"['w']"``, ``".cell.Wi"``. An object in several places is named by
        the first.

    Raises
    ------
    NotCapturedError
        If arrays sit in an object that capture does not follow.

    Examples
    --------
    >>> import mutangent as mt
    >>> net = mt.nn.Chain(mt.nn.Dense(2, 3, rng=np.random.default_rng(0)))
    >>> mt.tree.paths(net)
    ['.layers[0].W', '.layers[0].b']
    """
    return [leaf.way for leaf in _layout(tree).leaves]


def norm(tree: Any) -> Any:
    """The Euclidean norm of all numbers of a tree together. It is differentiable; at zero its gradient is zero.

    Parameters
    ----------
    tree : object, Tangent, array or container
        An array in several fields of objects counts once. In a tangent every share counts, those of fields with
        ``trainable=False`` too; ``np.linalg.norm(mutangent.ravel_tangent(m, tangent))`` is the norm of what an optimiser
        applies.

    Returns
    -------
    real number
        Of the leaves' precision; 0.0 without leaves.

    Raises
    ------
    NotCapturedError
        If arrays sit in an object that capture does not follow.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.tree.norm([np.array([2.0, 1.0]), np.array([2.0])])
    np.float64(3.0)
    """
    norms = [
        np.linalg.norm(leaf.value) if is_array(leaf.value) else abs(leaf.value)
        for leaf in _layout(tree).slots
    ]
    # Not the root of a sum of squares, which has no derivative at zero and overflows early.
    return functools.reduce(np.hypot, norms) if norms else 0.0


def size(tree: Any) -> int:
    """How many numbers a tree has. An array in several fields of objects counts once.

    Parameters
    ----------
    tree : object, Tangent, array or container

    Returns
    -------
    int

    Raises
    ------
    NotCapturedError
        If arrays sit in an object that capture does not follow.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.tree.size(mt.nn.Dense(2, 3, rng=np.random.default_rng(0)))
    9
    """
    return sum([spec_of(leaf.value).size for leaf in _layout(tree).slots])


def parameters(m: Any, tangent: Any = ZERO) -> list[Parameter]:
    """What training moves: the arrays and numbers in trainable fields, each array once. Optimisers are written with it.

    Parameters
    ----------
    m : object, or container of objects
        Fields with ``trainable=False``, and what only they reach, are left out.
    tangent : Tangent, optional
        The gradient with respect to `m`. An array in several fields gets the sum of its shares.

    Returns
    -------
    list of Parameter
        In the order of `ravel`.

    Raises
    ------
    CotangentError
        If `tangent` has not the structure, the shapes or the dtypes of what `m` holds now.
    NotCapturedError
        If arrays sit in an object that capture does not follow.
    ValueError
        If two arrays overlap in memory without being one array: after an update they would be separate.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    ...     offset: float
    >>> line = Line(3.0, 1.0)
    >>> for parameter in mt.tree.parameters(line, mt.Tangent(Line, slope=2.0)):
    ...     parameter.put(parameter.value - 0.5 * parameter.gradient)
    >>> line
    Line(slope=2.0, offset=1.0)
    """
    return _parameters(m, tangent)[1]


def _layout(tree: Any) -> Layout:
    return Layout([(tree, type(tree).__name__)])


def _are_same(partners: list[Any], others: list[Any]) -> bool:
    # A recording has one traced value per field; the plain array below it is the one that is shared.
    return all(primal(a) is primal(b) for a, b in zip(partners, others, strict=True))


def _is_state(leaf: Leaf) -> bool:
    """Whether a leaf is in a field with ``trainable=False``: a first state is often the array that it starts from."""
    node: Leaf | Group = leaf
    while type(node.parent) is Group:
        node = node.parent
    return node.parent is not None and not is_trainable(node.parent.cls, node.key)


def _may_meet(value: Any, partner: Any) -> bool:  # noqa: ARG001
    """Whether `f` may be given this partner of a number: an integer will do for a float."""
    return moves(partner) or isinstance(partner, int | np.integer) or is_array(partner)


def _misfit(where: str, value: Any, partner: Any) -> ValueError:
    return ValueError(
        f"mutangent.tree.map: {where} is {in_words(value)} in the first tree and {in_words(partner)} in another one. The "
        "trees must be of the same structure; only ZeroTangent() and NoTangent() may stand for anything."
    )


def _contradiction(where: str) -> ValueError:
    return ValueError(
        f"mutangent.tree.map: {where} is reached by two ways, and another tree has different values for it there. An "
        "object, a list or a dict is mapped once."
    )
