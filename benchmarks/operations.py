"""Nanoseconds per operation, by kind: what capture and recording add to Python's and NumPy's own cost.

Arrays are 3×3 in single precision, so that nearly all is overhead. Each statement runs many times in a row, and the
processor's time is taken, which busy neighbours hardly change:

* plain: over NumPy arrays and an object of an undecorated attrs class;
* closed: the object's class is differentiable, nothing is being recorded (so the arrays are plain);
* open: in a recording, over traced arrays;
* backward: one sweep over the recorded operations, divided by their number, without what any output costs.
"""

import timeit
from collections.abc import Callable
from time import process_time
from typing import Any

import attrs
import numpy as np

import mutangent as mt

REPEATS = 25
COUNT = 1000  # operations in a row, and in one recording

FIELD_OPERATIONS = {"field read": "m.w", "field write": "m.w = a"}
ARRAY_OPERATIONS = {
    "add": "a + b",
    "multiply": "a * b",
    "multiply by a number": "a * 2.0",
    "add a row": "a + row",
    "matmul": "a @ b",
    "np.tanh": "np.tanh(a)",
    "np.sum": "np.sum(a)",
    "np.dot": "np.dot(a, b)",
    "np.where": "np.where(a > 0, a, b)",
    "index": "a[0]",
}
# Statements; `c` is an array that the recording made.
IN_PLACE = {
    "write a row in place": "c[0] = row",
    "add to a row in place": "c[0] += row",
    "add in place": "np.add(c, b, out=c)",  # an assignment would make it a local name of timeit's loop
}
# The same without and with mutangent.
WHOLE_RECORDINGS = {
    "empty recording": ("pass", "with mt.Context(): pass"),
    "gradient by an array": ("np.sum(a)", "array_gradient(a)"),
    "gradient by an object": ("np.sum(m.w)", "object_gradient(m)"),
}

Costs = dict[str, dict[str, float]]  # by kind, then by setting


@attrs.define
class Plain:
    w: Any


@mt.differentiable
class Captured:
    w: Any


def operation_costs() -> Costs:
    """Give the nanoseconds of every kind of operation in every setting that it has."""
    array = np.full((3, 3), 0.5, np.float32)
    row = np.full(3, 0.5, np.float32)
    plain = {"np": np, "m": Plain(array), "a": array, "b": array.copy(), "c": array.copy(), "row": row}
    captured = plain | {
        "mt": mt,
        "m": Captured(array),
        "array_gradient": mt.value_and_grad(np.sum),
        "object_gradient": mt.value_and_grad(lambda m: np.sum(m.w)),
    }
    empty_loop = _fastest(_timed, "pass", plain)
    empty_sweep = _fastest(_swept, "a", captured)

    def cost(measure: Callable[..., float], statement: str, names: dict[str, Any]) -> float:
        return max(0.0, _fastest(measure, statement, names) - empty_loop)

    costs: Costs = {}
    for kind, statement in FIELD_OPERATIONS.items():
        costs[kind] = {
            "plain": cost(_timed, statement, plain),
            "closed": cost(_timed, statement, captured),
            "open": cost(_recorded, statement, captured),
        }
    for kind, statement in ARRAY_OPERATIONS.items():
        costs[kind] = {
            "plain": cost(_timed, statement, plain),
            "open": cost(_recorded, statement, captured),
            "backward": max(0.0, _fastest(_swept, statement, captured) - empty_sweep),
        }
    for kind, statement in IN_PLACE.items():
        costs[kind] = {
            "plain": cost(_timed, statement, plain),
            "open": cost(_recorded, statement, captured),
            "backward": max(0.0, _fastest(_swept_in_place, statement, captured)),
        }
    for kind, (plainly, differentiated) in WHOLE_RECORDINGS.items():
        costs[kind] = {
            "plain": cost(_timed, plainly, plain),
            "open": cost(_timed, differentiated, captured),
        }
    return costs


def _fastest(measure: Callable[..., float], *arguments: Any) -> float:
    return min(measure(*arguments) for _ in range(REPEATS))


def _timed(statement: str, names: dict[str, Any]) -> float:
    # timeit pastes the statement into its loop, so that no call is counted, and stops garbage collection.
    return timeit.timeit(statement, globals=names, number=COUNT, timer=process_time) / COUNT * 1e9


def _recorded(statement: str, names: dict[str, Any]) -> float:
    with mt.Context() as context:
        traced = {name: context.watch(names[name]) for name in ("a", "b", "row")}
        return _timed(statement, names | traced | {"c": traced["a"] * 1})


def _swept(statement: str, names: dict[str, Any]) -> float:
    def many(a: Any, b: Any, row: Any) -> tuple[Any, ...]:
        outputs: list[Any] = []
        traced = names | {"a": a, "b": b, "row": row, "keep": outputs.append}
        timeit.timeit(f"keep({statement})", globals=traced, number=COUNT, timer=process_time)
        return tuple(outputs)

    outputs, pullback = mt.vjp(many, names["a"], names["b"], names["row"])
    cotangents = tuple(np.ones_like(output) for output in outputs)
    return timeit.timeit(lambda: pullback(cotangents), number=1, timer=process_time) / COUNT * 1e9


def _swept_in_place(statement: str, names: dict[str, Any]) -> float:
    def many(a: Any, b: Any, row: Any) -> Any:
        c = a * 1
        timeit.timeit(
            statement, globals=names | {"b": b, "c": c, "row": row}, number=COUNT, timer=process_time
        )
        return c

    output, pullback = mt.vjp(many, names["a"], names["b"], names["row"])
    cotangent = np.ones_like(output)
    return timeit.timeit(lambda: pullback(cotangent), number=1, timer=process_time) / COUNT * 1e9
