"""Random object graphs: objects, containers and arrays that share parts and have cycles."""

from __future__ import annotations

import collections
from typing import Any, NamedTuple

import hypothesis.strategies as st
import numpy as np

import mutangent as mt


@mt.differentiable
class Pair:
    a: object = None
    b: object = None


@mt.differentiable(slots=False)
class Layer:
    w: object
    state: object = mt.field(trainable=False, default=None)


class Gates(NamedTuple):
    r: object
    z: object


SHAPES = [(), (0,), (1,), (3,), (2, 2)]
DTYPES = [np.float32, np.float64, np.complex64, np.complex128]
MUTABLE = [Pair, Layer, list, dict, collections.deque]


@st.composite
def numbers(draw: st.DrawFn, real: bool = False) -> Any:
    """A number or array of small whole numbers, which every precision holds exactly."""
    dtype = draw(st.sampled_from(DTYPES[:2] if real else DTYPES))
    kind = draw(st.sampled_from(["array", "array", "array", "scalar", "python"]))
    shape = draw(st.sampled_from(SHAPES)) if kind == "array" else ()
    size = int(np.prod(shape))
    parts = [draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size)) for _ in range(2)]
    values = np.array(parts[0], float) + (1j * np.array(parts[1]) if np.dtype(dtype).kind == "c" else 0)
    array = values.astype(dtype).reshape(shape)
    if kind == "array":
        return np.asfortranarray(array) if draw(st.booleans()) else array
    return np.dtype(dtype).type(array.item()) if kind == "scalar" else array.item()


@st.composite
def states(draw: st.DrawFn, values: list[Any]) -> Any:
    """What a field holds that training leaves alone."""
    chosen = draw(st.lists(st.sampled_from([*values, 5, "s"]), max_size=3))
    return draw(st.sampled_from([chosen, tuple(chosen), {"s": chosen}]))


@st.composite
def graphs(draw: st.DrawFn, with_state: bool = True, recordable: bool = False) -> Any:
    """A graph, by its root, an object. State has arrays of its own, so that no array is both weight and state.

    In a graph that can be recorded there is an object in each cycle. Its numbers are real.
    """
    real = recordable
    weights = draw(st.lists(numbers(real), min_size=1, max_size=5))
    state = states(draw(st.lists(numbers(real), min_size=1, max_size=3)))
    kinds = draw(st.lists(st.sampled_from(MUTABLE), min_size=1, max_size=6))
    shells = [Pair(), *[kind(None) if kind is Layer else kind() for kind in kinds]]
    number = 0  # of the shell that is being filled

    def in_reach() -> list[Any]:
        if not recordable or isinstance(shells[number], Pair | Layer):
            return shells
        return [shells[0], *shells[number + 1 :], *[s for s in shells if isinstance(s, Pair | Layer)]]

    def item(depth: int = 0) -> Any:
        choice = draw(st.integers(0, 9))
        if choice < 4:
            return draw(st.sampled_from(weights))
        if choice < 7:
            return draw(st.sampled_from(in_reach()))
        if choice < 9 and depth < 3:
            items = [item(depth + 1) for _ in range(2)]
            return Gates(*items) if choice == 7 else tuple(items)
        return draw(st.sampled_from([None, 3, "text", np.tanh, True]))

    for number, shell in enumerate(shells):  # noqa: B007 - `in_reach` looks at it
        if isinstance(shell, Pair):
            shell.a, shell.b = item(), item()
        elif isinstance(shell, Layer):
            shell.w = item()
            if with_state:
                shell.state = draw(state)
        elif isinstance(shell, dict):
            shell.update({key: item() for key in draw(st.sets(st.sampled_from(["x", "y", 0]), max_size=3))})
        else:
            shell.extend([item() for _ in range(draw(st.integers(0, 3)))])
    return shells[0]


def picture(root: Any) -> list[Any]:
    """Classes, numbers, and who shares what with whom, in the order of a walk; equal graphs have equal pictures."""
    seen: dict[int, int] = {}
    held: list[Any] = []  # so that no id is used twice
    rows: list[Any] = []
    pending = [root]
    while pending:
        value = pending.pop()
        kind = type(value)
        if isinstance(value, tuple):
            rows.append((kind.__name__, len(value)))
            pending += value
            continue
        if isinstance(value, np.ndarray | list | dict | collections.deque | Pair | Layer):
            if id(value) in seen:
                rows.append(("again", seen[id(value)]))
                continue
            seen[id(value)] = len(seen)
            held.append(value)
        if isinstance(value, np.ndarray):
            rows.append(("array", value.dtype.str, value.shape, value.tolist()))
        elif isinstance(value, dict):
            rows.append(("dict", list(value)))
            pending += value.values()
        elif isinstance(value, list | collections.deque):
            rows.append((kind.__name__, len(value)))
            pending += value
        elif isinstance(value, Pair | Layer):
            rows.append((kind.__name__,))
            pending += [value.a, value.b] if isinstance(value, Pair) else [value.w, value.state]
        else:
            rows.append((kind.__name__, value))
    return rows
