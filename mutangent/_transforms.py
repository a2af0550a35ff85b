"""The verbs: `vjp`, and `value_and_grad` and `grad` on top of it. Each records a call and asks for tangents."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ._arrays import describe, is_array, is_differentiable, number, spec_of, type_name, with_article
from ._errors import CotangentError, GradientTypeError
from ._fields import is_captured
from ._identity import IdentityMap
from ._readers import Given
from ._recording import Recording, match
from ._structure import Description
from ._tangent import NoTangent, Tangent, ZeroTangent, children
from ._traced import TracedArray, primal, require_scalar


def vjp(f: Callable[..., Any], *args: Any) -> tuple[Any, Callable[..., tuple[Any, ...]]]:
    """Call a function and get its pullback.

    Parameters
    ----------
    f : callable
        Any function of the arguments. It may read and write captured objects, among its arguments or not.
    *args
        Numbers, arrays, captured objects, and tuples, lists and dicts of them.

    Returns
    -------
    out
        The result of ``f(*args)``; objects are left as the plain call leaves them.
    pullback : callable
        ``pullback(out_bar, objects=None)`` takes a cotangent of the same structure as `out` and returns one tangent
        per argument. `objects`, an `IdentityMap` from objects to tangents, holds cotangents of the values that the
        call left in their fields, so that calls can be chained. The pullback can be called repeatedly.

    Raises
    ------
    CotangentError
        From the pullback, when a cotangent has not the shape, dtype or structure of the value, or when `objects` is no map
        from objects to tangents.

    Examples
    --------
    >>> import mutangent as mt
    >>> out, pullback = mt.vjp(np.multiply, np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    >>> pullback(np.array([1.0, 10.0]))
    (array([ 3., 40.]), array([ 1., 20.]))
    """
    recording, descriptions, traced_out, out = _record(f, args, range(len(args)), _snapshot, swept_later=True)

    def pullback(out_bar: Any, objects: IdentityMap[Tangent] | None = None) -> tuple[Any, ...]:
        seen: set[tuple[int, int]] = set()
        seeds = match(recording, traced_out, out_bar, "the result", seen)
        if objects is not None:
            _check_objects(objects)
            for obj, tangent in objects.items():
                seeds += match(recording, obj, tangent, type_name(obj), seen)
        gradients = recording.gradients(seeds)
        return tuple([gradients.of(description, dense=True) for description in descriptions])

    return out, pullback


def _check_objects(objects: Any) -> None:
    """Raise unless `objects` maps captured objects to their cotangents."""
    write = "Write `objects=mutangent.IdentityMap([(obj, mutangent.Tangent(type(obj), field=...))])`."
    if not isinstance(objects, Mapping):
        raise CotangentError(
            f"the objects of a pullback are {describe(objects)}, and they must be a map from objects that the call changed "
            f"to the cotangents of what it left in them. {write}"
        )
    for obj, tangent in objects.items():
        if isinstance(tangent, ZeroTangent | NoTangent):
            continue
        if is_captured(obj):
            if not isinstance(tangent, Tangent) or not isinstance(obj, tangent._cls):
                cls = type(obj).__name__
                got = (
                    f"a Tangent of {tangent._cls.__name__}"
                    if isinstance(tangent, Tangent)
                    else describe(tangent)
                )
                raise CotangentError(
                    f"the objects of a pullback map {with_article(cls)} to {got}, and its cotangent is a Tangent of "
                    f"{cls}. {write}"
                )
        else:
            raise CotangentError(
                f"a key of the objects of a pullback is {describe(obj)}, and what a call left is known by captured objects "
                "and their fields only, so its cotangent would be lost. Name the object that holds it. "
                f"{write}"
            )


def value_and_grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., tuple[Any, Any]]:
    """A function that returns the value of `f` and its gradient.

    Parameters
    ----------
    f : callable
        Returns a real scalar, or with `has_aux` a pair of that and anything else.
    argnums : int or sequence of int
        The arguments to differentiate with respect to.
    has_aux : bool
        Whether `f` returns a pair.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns ``(value, gradient)``, or ``((value, aux), gradient)``. With several
        `argnums` the gradient is a tuple.

    Raises
    ------
    GradientTypeError
        When called, if the result is not a real scalar or an argument is an integer or has no tangent space.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.value_and_grad(lambda w, x: np.sum(w * x), argnums=(0, 1))(np.array([2.0]), np.array([5.0]))
    (np.float64(10.0), (array([5.]), array([2.])))
    """
    both = _differentiated(f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def value_and_grad_of_f(*args: Any, **kwargs: Any) -> tuple[Any, Any]:
        return both(args, kwargs)

    return value_and_grad_of_f


def grad(
    f: Callable[..., Any], argnums: int | Sequence[int] = 0, has_aux: bool = False
) -> Callable[..., Any]:
    """A function that returns the gradient of `f`.

    Parameters
    ----------
    f : callable
        Returns a real scalar, or with `has_aux` a pair of that and anything else.
    argnums : int or sequence of int
        The arguments to differentiate with respect to.
    has_aux : bool
        Whether `f` returns a pair.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns the gradient, or with `has_aux` a pair ``(gradient, aux)``. An array's
        gradient is an array like it, a Python float's a float, an object's a `Tangent`, a container's the same kind of
        container. For a complex argument it is the direction of steepest ascent: the gradient of ``abs(z)**2`` is
        ``2 * z``.

    Raises
    ------
    GradientTypeError
        When called, if the result is not a real scalar or an argument is an integer or has no tangent space.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.grad(np.sin)(0.0)
    1.0
    >>> mt.grad(mt.grad(lambda x: x**3))(2.0)
    12.0
    """
    both = _differentiated(f, argnums, has_aux)

    @functools.wraps(f, updated=())
    def grad_of_f(*args: Any, **kwargs: Any) -> Any:
        value, tangent = both(args, kwargs)
        return (tangent, value[1]) if has_aux else tangent

    return grad_of_f


def _differentiated(
    f: Callable[..., Any], argnums: int | Sequence[int], has_aux: bool
) -> Callable[[tuple[Any, ...], dict[str, Any]], tuple[Any, Any]]:
    """A function of the arguments of `f`, not unpacked, that returns the value and the gradient."""
    single = isinstance(argnums, int)
    positions: tuple[int, ...] = (argnums,) if isinstance(argnums, int) else tuple(argnums)

    def target(result: Any) -> Any:
        if has_aux:
            if not isinstance(result, tuple) or len(result) != 2:
                raise GradientTypeError(
                    f"has_aux=True needs {_name(f)} to return a pair (value, aux), and it returned "
                    f"{describe(primal(result))}."
                )
            result = result[0]
        require_scalar(result, _name(f))
        return result

    def value_and_gradient(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, Any]:
        chosen = [argument_position(f, args, position) for position in positions]
        recording, descriptions, traced, out = _record(f, args, chosen, target, kwargs=kwargs)
        node = recording.node_of(traced)
        seeds = [] if node is None else [(node, number(1, spec_of(primal(traced)).dtype, primal(traced)))]
        gradients = recording.gradients(seeds, free=True)
        tangents = tuple([gradients.of(description, dense=True) for description in descriptions])
        return out, tangents[0] if single else tangents

    return value_and_gradient


def _record(
    f: Callable[..., Any],
    args: tuple[Any, ...],
    chosen: Sequence[int],
    target: Callable[[Any], Any],
    swept_later: bool = False,
    kwargs: dict[str, Any] | None = None,
) -> tuple[Recording, list[Description], Any, Any]:
    """Call `f` in a recording of its own.

    Returns the recording, the descriptions of the chosen arguments, `target` of the result with its tracing, and the
    result without. If `target` raises, the call is undone.
    """
    recording = Recording(swept_later)
    if recording.outer is not None:
        recording.arguments = Given(args, kwargs)
    recording.function = f
    lifted: Any = list(args)
    with recording:
        described: dict[int, Description] = {}  # an argument may be named twice
        for position in chosen:
            if position not in described:
                lifted[position], described[position] = recording.lift(args[position], f"argument {position}")
        descriptions = [described[position] for position in chosen]
        for position in range(len(args)):
            if position not in chosen:
                lifted[position] = recording.lift_container(args[position], f"argument {position}")
        recording.roots = descriptions
        named = kwargs and {
            name: recording.lift_container(value, f"argument {name}") for name, value in kwargs.items()
        }
        # A tuple: what is called with the items of a list, Python holds in a tuple that no name tells of.
        lifted = tuple(lifted)
        recording.called_with = (lifted, named or {})
        result = f(*lifted, **named) if named else f(*lifted)
        traced = target(result)
    return recording, descriptions, traced, recording.lower(result)


def _snapshot(value: Any) -> Any:
    """The structure of a result before its traced values are taken out of the lists in it."""
    items = children(value)
    if items is None:
        return value
    if isinstance(value, dict):
        return {key: _snapshot(item) for key, item in value.items()}
    return (
        tuple([_snapshot(item) for item in items])
        if isinstance(value, tuple)
        else [_snapshot(i) for i in items]
    )


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", None) or type(f).__name__


def argument_position(f: Callable[..., Any], args: tuple[Any, ...], position: int) -> int:
    """A checked argument number; raises if that argument has no gradient."""
    if not isinstance(position, int | np.integer):
        raise TypeError(
            f"argnums={position!r} for {_name(f)}: the number of a positional argument is expected, such as argnums=0"
        )
    actual = position + len(args) if position < 0 else position
    if not 0 <= actual < len(args):
        raise TypeError(
            f"{_name(f)} was called with {len(args)} positional arguments, so argnums={position} names none"
        )
    value = args[actual]
    if (
        type(value) is TracedArray
        or (type(value) is np.ndarray and value.dtype.kind in "fc")
        or is_captured(value)
        or children(value) is not None
        or is_differentiable(value)
    ):
        return actual
    try:
        name = f" ({list(inspect.signature(f).parameters)[actual]})"
    except (TypeError, ValueError, IndexError):
        name = ""
    what = f"argument {actual}{name} of {_name(f)} is {describe(value)}"
    if is_array(value) or hasattr(value, "__index__"):
        raise GradientTypeError(
            f"{what}, and integers and booleans have no gradient. Give a float, for example x.astype(float) or 2.0, or "
            "choose other argnums."
        )
    advice = "Choose other argnums"
    if hasattr(type(value), "__attrs_attrs__") or hasattr(type(value), "__dataclass_fields__"):
        advice = f"Put @mutangent.differentiable on class {type(value).__name__}"
    raise GradientTypeError(f"{what}, which has no tangent space. {advice}.")
