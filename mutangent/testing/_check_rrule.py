"""`check_rrule`: one rule against finite differences of the function it belongs to, and against a rule's contract."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from mutangent._arrays import describe, is_array, is_differentiable, spec_of
from mutangent._layout import Leaf
from mutangent._primitive import Primitive
from mutangent._rulebook import no_rule, rule
from mutangent._tangent import NoTangent, ZeroTangent
from mutangent._traced import primal

from ._call import layout_of, refuse_others
from ._derivative import check_at
from ._layout import Layout
from ._point import Point
from ._trial import Trial


def check_rrule(
    f: Callable[..., Any],
    *args: Any,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    eps: float | None = None,
) -> None:
    """Check the rule of a function, in both modes, against finite differences of the function itself.

    Parameters
    ----------
    f : Primitive, ufunc or NumPy function
        A `primitive` with a rule, also as a method, ``layer.__call__`` or ``Layer.__call__``, or a function of NumPy's
        that has one. A primitive's `frule` is checked too.
    *args
        Its arguments. For the method of a class the object comes first.
    rtol, atol, seed, eps
        As in `check_grads`.

    Raises
    ------
    AssertionError
        If the rule's value, or what it writes into objects, is not the function's; if the pullback does not return
        one tangent per argument, of the shape and dtype of that argument; if its tangents, with cotangents of the value
        and of everything written, disagree with finite differences; if it changes its arguments or its cotangent in
        place, gives something else when it is called again, or reads fields of objects only when it is called.
    ValueError
        If the rule declines these arguments. NumPy's own, if it writes into an argument or a cotangent, which it is shown
        as read-only arrays.
    NoRuleError
        If the function has no rule.

    Notes
    -----
    This is about the first derivative. If the rule is written with NumPy functions it has further ones, which
    ``check_grads(f, args, order=2)`` checks.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.primitive
    ... def cube(x):
    ...     return x**3
    >>> @cube.rrule
    ... def cube_rule(x):
    ...     def cube_pullback(y_bar):
    ...         return (3 * x**2 * y_bar,)
    ...
    ...     return x**3, cube_pullback
    >>> mt.testing.check_rrule(cube, 2.0)
    >>> mt.testing.check_rrule(np.hypot, np.array([3.0, 5.0]), np.array([4.0, 12.0]))
    """
    if isinstance(f, functools.partial) and isinstance(f.func, Primitive):  # a bound method
        check_rrule(f.func, *f.args, *args, rtol=rtol, atol=atol, seed=seed, eps=eps)
        return
    trial = Trial("check_rrule", f, rtol=rtol, atol=atol, seed=seed, eps=eps)
    if isinstance(f, Primitive):
        call: Callable[..., Any] = _watched(f, layout_of(args), trial)
    elif isinstance(f, np.ufunc) or hasattr(f, "_implementation"):
        row = rule(f)
        if not row.kind:
            raise no_rule(f)
        if row.user is not None and row.kind == "user":
            _check_user_rule(row.user, args, trial)
        call = f
    else:
        raise TypeError(
            f"check_rrule needs a mutangent.primitive, a ufunc or a NumPy function, and got {f!r}. For any other "
            "function use check_grads."
        )
    refuse_others(call, args)
    check_at(Point(call, args, trial), ("rev", "fwd"))


def _watched(primitive: Primitive, entry: Layout, trial: Trial) -> Primitive:
    """A primitive of the same function, whose rule is the same with a look at all that it returns."""
    user_rule = primitive._rule
    spy = Primitive(primitive._function)
    if primitive._forward_rule is not None:
        spy.frule(primitive._forward_rule)
    if user_rule is None:
        return spy

    def watched_rule(*args: Any) -> Any:
        result = user_rule(*args)
        if result is NotImplemented:
            raise ValueError(
                f"the rule of {trial.name} declines these arguments, so there is nothing to check"
            )
        if not isinstance(result, tuple) or len(result) != 2:
            return result  # whoever records it says what is wrong
        value, pullback = result

        # The signature of the user's pullback tells whether it takes `written`.
        @functools.wraps(pullback)
        def watched_pullback(y_bar: Any, *written: Any) -> Any:
            given = Layout([(y_bar, "of the value"), *_fields_of(*written)])
            before = [copy.copy(primal(leaf.value)) for leaf in given.leaves]
            tangents = pullback(y_bar, *written)
            for leaf, old in zip(given.leaves, before, strict=True):
                if not np.array_equal(primal(leaf.value), old, equal_nan=True):
                    trial.fail(f"the pullback changed the cotangent {leaf.path} in place")
            _check_tangents(tangents, entry, trial)
            return tangents

        return value, watched_pullback

    return spy.rrule(watched_rule)


def _fields_of(written: Any = None) -> list[tuple[Any, str]]:
    """The cotangents in `written`, with names."""
    if written is None:
        return []
    return [
        (tangent[name], f"written[{type(obj).__name__}].{name}")
        for obj, tangent in written.items()
        for name in tangent
    ]


def _check_user_rule(user: Callable[..., Any], args: tuple[Any, ...], trial: Trial) -> None:
    """Check the structure of what a rule for a NumPy function returns. Such a rule takes and gives plain values."""
    value, pullback = user(*copy.deepcopy(args))
    _check_tangents(pullback(np.ones_like(value)), layout_of(args), trial)


def _check_tangents(tangents: Any, entry: Layout, trial: Trial) -> None:
    """Fail unless the tangents that a user's pullback returned are one per argument, and fit."""
    if not isinstance(tangents, tuple) or len(tangents) != len(entry.nodes):
        got = f"{len(tangents)} tangents" if isinstance(tangents, tuple) else describe(tangents)
        trial.fail(
            f"the pullback returned {got} for {len(entry.nodes)} arguments; it must return a tuple with one "
            "per argument"
        )
    for leaf, tangent in zip(entry.leaves, entry.match(tangents, trial.fail), strict=True):
        if not _fits(leaf, tangent):
            trial.fail(
                f"{leaf.path} is {describe(leaf.value)}, but the pullback returned {describe(tangent)} for it"
            )


def _fits(leaf: Leaf, tangent: Any) -> bool:
    """Whether a rule may return this tangent for this leaf.

    Type and dtype of a Python number are free, since it takes those of the numbers that it meets, and a 0-d array may
    get a scalar, since that is what NumPy makes of 0-d arrays.
    """
    tangent = primal(tangent)  # forward mode calls the pullback with a traced cotangent, to transpose it
    if tangent is None or isinstance(tangent, ZeroTangent | NoTangent):
        return True
    weak = not is_array(leaf.value) and not isinstance(leaf.value, np.generic)
    if weak and isinstance(tangent, int | np.integer):
        return True
    if not is_differentiable(tangent):
        return False
    spec, expected = spec_of(tangent), spec_of(leaf.value)
    if weak:
        return spec.shape == () and (spec.dtype.kind == "f" or expected.dtype.kind == "c")
    return spec == expected
