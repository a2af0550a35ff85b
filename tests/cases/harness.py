"""Differentiate one case in every way a user may ask for it, three times in a row on the same objects.

`three_ways` is what the cases call::

    three_ways(lambda: (Box(2.0),), lambda box: box.v**3, (Fields(v=12.0),))

Each run starts from the same objects with their entry values put back. After each run the objects must look
exactly as a plain run leaves them, nothing in their reach may be a traced value, and the tangents must be the
expected ones (`tests/cases/expectations.py`). A pullback and a context are swept twice and must say the same
twice.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import mutangent as mt
from tests.cases.expectations import NUMERICAL, ZERO, Comparison, Fields, finite_differences
from tests.cases.graph import (
    Entry,
    assert_nothing_traced,
    assert_same_picture,
    children_of,
    is_differentiable,
    is_object,
    picture,
)

__all__ = ["NUMERICAL", "ZERO", "Fields", "three_ways"]

RUNS = 3

Args = tuple[Any, ...]


def three_ways(
    make_args: Callable[[], Args],
    f: Callable[..., Any],
    expected: Any,
    *,
    reaches: Args = (),
    expected_reached: Args = (),
    never: tuple[Args, ...] = (),
    rtol: float = 1e-6,
    atol: float = 1e-9,
) -> None:
    """Differentiate `f(*make_args())` by `grad`, `value_and_grad`, `vjp` and `Context`, three times each.

    Parameters
    ----------
    make_args : callable
        Gives the arguments, once: all runs use these same objects.
    f : callable
        The loss; its value is a real scalar.
    expected : tuple or NUMERICAL
        One expectation per argument; None for an argument that is not differentiated. `NUMERICAL` compares
        with finite differences of plain runs, which know nothing of the library.
    reaches : tuple of objects
        What the loss uses without its being an argument. Only a context gives its tangents.
    expected_reached : tuple
        One expectation for each of these.
    never : tuple of tuples
        Wrong answers seen elsewhere, each in the form of `expected`. That none comes follows from the right
        answer; written here they say what the case is about.
    rtol, atol : float
        How exactly the case gives its numbers.
    """
    args = tuple(make_args())
    entry = Entry([args, reaches])
    if expected == NUMERICAL:
        expected = finite_differences(f, args)
        rtol, atol = 1e-5, 1e-7
    after_plain_run = plain_run(f, args, reaches, entry)

    def check(way: str, tangents: Args, reached: Args) -> None:
        assert_nothing_traced([args, reaches])
        assert_same_picture(picture([args, reaches]), after_plain_run)
        entry.put_back()
        comparison = Comparison(rtol, atol)
        for position, (value, tangent, e) in enumerate(zip(args, tangents, expected, strict=True)):
            if e is not None:
                comparison.compare(value, tangent, e, f"{way}, argument {position}")
        for value, tangent, e in zip(reaches, reached, expected_reached, strict=False):
            comparison.compare(value, tangent, e, f"{way}, a {type(value).__name__} in reach")
        for wrong in never:
            assert any_differs(args, tangents, wrong, rtol, atol), (
                f"{way} gives {wrong}, wrong as seen elsewhere"
            )

    ways: dict[str, Callable[[], tuple[Args, Args]]] = {
        "grad": lambda: (by_grad(f, args, expected), ()),
        "value_and_grad": lambda: (by_value_and_grad(f, args, expected), ()),
        "vjp": lambda: (by_vjp(f, args), ()),
        "Context": lambda: by_context(f, args, reaches),
    }
    if all(e is None for e in expected):
        del ways["grad"], ways["value_and_grad"]
    for name, way in ways.items():
        for _ in range(RUNS):
            check(name, *way())


def any_differs(args: Args, tangents: Args, wrong: Args, rtol: float, atol: float) -> bool:
    """Whether at least one tangent is not what the wrong answer has in its place."""
    comparison = Comparison(rtol, atol)
    for value, tangent, w in zip(args, tangents, wrong, strict=True):
        try:
            if w is not None:
                comparison.compare(value, tangent, w, "")
        except AssertionError:
            return True
    return False


def plain_run(f: Callable[..., Any], args: Args, reaches: Args, entry: Entry) -> Any:
    """The picture an unrecorded run leaves, on a deep copy if the function reaches nothing but arguments."""
    if not reaches:
        args = copy.deepcopy(args)
    f(*args)
    left = picture([args, reaches])
    entry.put_back()
    return left


# ---------------------------------------------------------------- the ways


def by_grad(f: Callable[..., Any], args: Args, expected: Args) -> Args:
    """Tangents by `grad` with a tuple of argnums; None where none is expected."""
    argnums = tuple(position for position, e in enumerate(expected) if e is not None)
    gradients = mt.grad(f, argnums=argnums)(*args)
    return like_the_arguments(args, gradients, argnums)


def by_value_and_grad(f: Callable[..., Any], args: Args, expected: Args) -> Args:
    """Tangents by `value_and_grad`."""
    argnums = tuple(position for position, e in enumerate(expected) if e is not None)
    value, gradients = mt.value_and_grad(f, argnums=argnums)(*args)
    assert type(value).__name__ != "TracedArray", "the value of a closed recording is a plain one"
    return like_the_arguments(args, gradients, argnums)


def like_the_arguments(args: Args, gradients: Any, argnums: tuple[int, ...]) -> Args:
    """Gradients in the places of their arguments; an array's is an array even if nothing flowed."""
    assert type(gradients) is tuple, "several argnums give a tuple"
    assert len(gradients) == len(argnums), "one gradient per argnum"
    by_position = dict(zip(argnums, gradients, strict=True))
    for position, gradient in by_position.items():
        if is_differentiable(args[position]):
            assert not isinstance(gradient, mt.ZeroTangent), f"{gradient!r} for argument {position}, an array"
    return tuple(by_position.get(position) for position in range(len(args)))


def by_vjp(f: Callable[..., Any], args: Args) -> Args:
    """Tangents by `vjp`, whose pullback is called twice."""
    out, pullback = mt.vjp(f, *args)
    assert type(out).__name__ != "TracedArray", "the value of a closed recording is a plain one"
    tangents: Args = pullback(1.0)
    assert type(tangents) is tuple, "a pullback gives a tuple"
    assert len(tangents) == len(args), "a pullback gives one tangent per argument"
    assert_same_numbers(tangents, pullback(1.0), "the second sweep of one pullback")
    return tangents


def by_context(f: Callable[..., Any], args: Args, reaches: Args) -> tuple[Args, Args]:
    """Tangents by `Context`: numbers are watched, objects need no watching; swept twice."""
    with mt.Context() as ctx:
        watched = tuple(watch(ctx, value) for value in args)
        out = f(*watched)
    sources = [*sources_in(watched), *sources_in(reaches)]

    def sweep() -> Args:
        if not sources:
            return ()
        tangents = ctx.grad(out, *sources)
        return tangents if len(sources) > 1 else (tangents,)

    tangents = sweep()
    assert_same_numbers(tangents, sweep(), "the second sweep of one context")
    remaining = iter(tangents)
    return put_into(args, remaining), put_into(reaches, remaining)


def is_source(value: Any) -> bool:
    return is_object(value) or is_differentiable(value)


def watch(ctx: Any, value: Any) -> Any:
    """The same value with its arrays and numbers watched."""
    if isinstance(value, dict):
        return {key: watch(ctx, item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([watch(ctx, item) for item in value])
    return ctx.watch(value) if is_differentiable(value) else value


def sources_in(value: Any) -> list[Any]:
    """The objects, arrays and numbers in nested containers, in order."""
    if isinstance(value, dict | list | tuple):
        return [source for item in children_of(value).values() for source in sources_in(item)]
    return [value] if is_source(value) else []


def put_into(value: Any, tangents: Iterator[Any]) -> Any:
    """The containers of `value` again, with tangents in the places of the sources."""
    if isinstance(value, dict):
        return {key: put_into(item, tangents) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)([put_into(item, tangents) for item in value])
    return next(tangents) if is_source(value) else mt.NoTangent()


def assert_same_numbers(first: Any, second: Any, what: str) -> None:
    """Two sweeps give the same numbers, to the bit, in the same structure."""
    pending = [(first, second)]
    seen: set[tuple[int, int]] = set()
    while pending:
        a, b = pending.pop()
        if isinstance(a, mt.Tangent):
            assert isinstance(b, mt.Tangent), f"{what} gives another structure"
            if (id(a), id(b)) not in seen:
                seen.add((id(a), id(b)))
                pending += [(a[name], b[name]) for name in sorted({*a, *b})]
        elif isinstance(a, dict | list | tuple):
            assert len(a) == len(b), f"{what} gives another structure"
            pending += zip(children_of(a).values(), children_of(b).values(), strict=True)
        elif isinstance(a, mt.ZeroTangent | mt.NoTangent):
            assert type(a) is type(b), f"{what} gives another structure"
        else:
            assert np.array_equal(a, b, equal_nan=True), f"{what} gives other numbers: {a!r} and {b!r}"
