"""Random programs of views, reads and in-place writes: recorded run against plain NumPy, gradient against differences.

A program is a list of steps. Each takes an array that the program holds, by number, and an index drawn for its shape.
"""

from __future__ import annotations

import random
from typing import Any

import attrs
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import mutangent as mt
from mutangent._arrays import add_at as plain_add_at
from tests.arrays import namespace


@mt.differentiable
class Box:
    v: object
    w: object
    made: object = None


VIEWS = (
    lambda a, index: a[index],
    lambda a, _: a.T,
    lambda a, _: np.ravel(a),
    lambda a, _: a.reshape(-1),
    lambda a, _: np.flip(a),
    lambda a, _: np.swapaxes(a, 0, -1),
    lambda a, _: np.expand_dims(a, 0),
    lambda a, _: np.split(a, [1])[0],
    lambda a, _: np.real(a),
    lambda a, _: a[::-1],
)
ON_HOST = namespace.tests_numpy().ndarray.__module__ == "numpy"
if ON_HOST:
    VIEWS += (
        lambda a, _: np.moveaxis(a, -1, 0),
        lambda a, _: np.squeeze(a),
        lambda a, _: np.rot90(a) if np.ndim(a) > 1 else a[1:],
        lambda a, _: np.array_split(a, 2, axis=-1)[-1],
        lambda a, _: a[..., None],
        # These may not be written; CuPy's may.
        lambda a, _: np.diagonal(a) if np.ndim(a) == 2 else a[:1],
        lambda a, _: np.broadcast_to(a, (2, *np.shape(a))),
    )


def add(a, index, x):
    a[index] += x


def scale(a, index, x):
    a[index] *= 1 + 0.1 * x


def scale_all(a, _, x):
    a *= 1 + 0.1 * x


def require_writeable(a):
    """NumPy's `ufunc.at` writes through some views that may not be written."""
    if ON_HOST and not mt.primal(a).flags.writeable:
        raise ValueError("output array is read-only")


def add_at(a, index, x):
    # Of plain arrays CuPy takes arrays only as indices by NumPy's name.
    require_writeable(a)
    if type(a) is mt.TracedArray:
        np.add.at(a, index, x)
    else:
        plain_add_at(a, index, x)


def out(a, _, x):
    np.add(a, x, out=a)


def copy_to(a, _, x):
    np.copyto(a, x)


def put(a, _, x):
    np.put(a, [0, -1, 0], np.stack([x, 0.5 * x, 2.0 * x]))


def put_masked(a, _, x):
    np.putmask(a, np.asarray(mt.primal(a)) > 0.9, 0.5 * x)


def place(a, _, x):
    np.place(a, np.asarray(mt.primal(a)) > 0.9, np.stack([x, 0.5 * x]))


def fill(a, _, x):
    a.fill(0.5 * x)


def sort(a, _, x):
    a.sort()


def fill_diagonal(a, _, x):
    np.fill_diagonal(a, 0.5 * x)


def where(a, _, x):
    np.multiply(a, 0.5 + 0.1 * x, out=a, where=np.asarray(mt.primal(a)) > 0.9)


def copy_where(a, _, x):
    np.copyto(a, 0.5 * x, where=np.asarray(mt.primal(a)) > 0.9)


def subtract_at(a, index, x):
    require_writeable(a)
    np.subtract.at(a, index, 0.1 * x)


def rows(a, _, x):
    for k in range(len(a)):
        a[k] = 0.5 * a[k - 1] + 0.1 * x


WRITES = (
    add,
    scale,
    scale_all,
    add_at,
    out,
    copy_to,
    put,
    put_masked,
    place,
    fill,
    sort,
    fill_diagonal,
    rows,
)
if ON_HOST:  # CuPy has no where= in ufuncs, and subtract.at for integers only
    WRITES += (where, copy_where, subtract_at)


@attrs.frozen
class Step:
    """What one step does: its kind, which array it takes, and a seed for its index and values."""

    kind: str
    which: int
    seed: int


@attrs.frozen
class Program:
    """Arrays on entry by their shapes, whether two fields share one, its layout, and the steps."""

    shape: tuple[int, ...]
    other: tuple[int, ...]
    shared: bool
    layout: str
    steps: list[Step]


shapes = st.sampled_from([(3,), (2, 3), (3, 2), (1, 3), (2, 2, 2)])
programs = st.builds(
    Program,
    shapes,
    shapes,
    st.booleans(),
    st.sampled_from("CFS"),
    st.lists(
        st.builds(
            Step,
            st.sampled_from(["view", "view", "set", "set", "write", "write", "field", "make", "copy"]),
            st.integers(0, 7),
            st.integers(0, 10_000),
        ),
        min_size=2,
        max_size=8,
    ),
)


def index_of(rng: random.Random, shape: tuple[int, ...]) -> Any:
    """Draw an index of any kind for an array of this shape."""
    kind = rng.randrange(5)
    if kind == 0:
        return np.array(rng.choices([True, False], k=int(np.prod(shape)))).reshape(shape)
    if kind == 1:
        return np.array([rng.randrange(-shape[0], shape[0]) for _ in range(rng.randint(1, 3))])
    if kind == 2 and len(shape) > 1:
        return np.s_[:, np.array([rng.randrange(shape[1]) for _ in range(2)])]
    return basic_index_of(rng, shape)


def basic_index_of(rng: random.Random, shape: tuple[int, ...]) -> Any:
    parts = [rng.choice([rng.randrange(-n, n), np.s_[:], np.s_[1:], np.s_[::2], np.s_[::-1]]) for n in shape]
    parts = parts[: rng.randint(1, len(parts))]
    return parts[0] if len(parts) == 1 else tuple(parts)


def run(program: Program, box: Box, x: Any) -> Any:
    """Run a program on a box, plain or in a recording; errors of NumPy end a step, as `try` in a program would."""
    held = [box.v, box.w, x, x * 1.5]
    total: Any = 0.0
    for step in program.steps:
        rng = random.Random(step.seed)
        a = held[step.which % len(held)]
        index = index_of(rng, np.shape(a))
        number = np.sum(held[rng.randrange(len(held))]) * 0.1
        try:
            take(step.kind, rng, box, held, a, index, number)
        except (ValueError, IndexError) as error:
            if "setting an array element" in str(error):
                raise  # not NumPy's: a traced value that would be lost
        total = total + np.sum(held[-1]) * 0.3 + np.sum(a) ** 2 * 0.01
    return total + sum(np.sum(np.sin(a)) for a in held)


def take(kind: str, rng: random.Random, box: Box, held: list[Any], a: Any, index: Any, number: Any) -> None:
    if kind == "view":
        view = rng.choice(VIEWS)(a, basic_index_of(rng, np.shape(a)))
        if np.ndim(view) and np.size(view):
            held.append(view)
    elif kind == "set":
        shape = np.shape(mt.primal(a)[index])
        source = held[rng.randrange(len(held))]
        values = np.reshape(np.resize(np.ravel(source) * 0.7, (int(np.prod(shape)),)), shape)
        a[index] = rng.choice([values, number, 0.5])
    elif kind == "write":
        rng.choice(WRITES)(a, index, number)
    elif kind == "field":
        box.w = a
        held.append(box.w)
    elif kind == "make":
        box.made = np.full((2, 3), 0.25)
        held.append(box.made)
    else:
        held.append(a.copy())


def entry(program: Program, step: float = 0.0) -> tuple[Box, Any]:
    """The arguments of a run, moved by `step` along a random direction."""
    rng = np.random.default_rng(7)

    def array(shape: tuple[int, ...], layout: str = "C") -> Any:
        values = rng.uniform(0.5, 1.5, shape) + step * direction(shape)
        if layout == "S":
            gaps = np.zeros([2 * n for n in shape])
            gaps[tuple(np.s_[::2] for _ in shape)] = values
            return gaps[tuple(np.s_[::2] for _ in shape)]
        return np.asarray(values, order=layout)

    v = array(program.shape, program.layout)
    return Box(v, v if program.shared else array(program.other)), array(program.other)


def direction(shape: tuple[int, ...]) -> Any:
    return np.cos(np.arange(1.0, 1 + np.prod(shape))).reshape(shape)


def along(tangent: Any) -> Any:
    """The derivative along the direction of one array's tangent."""
    return 0.0 if isinstance(tangent, mt.ZeroTangent) else np.sum(tangent * direction(np.shape(tangent)))


@pytest.mark.parametrize("way", ["value_and_grad", "vjp", "Context"])
@settings(max_examples=80)
@given(program=programs)
def test_contents_and_gradients_are_those_of_the_plain_run(way, program):
    plain_box, plain_x = entry(program)
    arrays = plain_box.v, plain_box.w, plain_x
    with np.errstate(all="ignore"):
        expected = run(program, plain_box, plain_x)
    assume(np.isfinite(expected) and abs(expected) < 1e4)

    box, x = entry(program)
    mine = box.v, box.w, x
    if way == "value_and_grad":
        value, tangents = mt.value_and_grad(lambda b, x: run(program, b, x), argnums=(0, 1))(box, x)
    elif way == "vjp":
        value, pullback = mt.vjp(lambda b, x: run(program, b, x), box, x)
        pullback(1.0)
        tangents = pullback(1.0)
    else:
        with mt.Context() as ctx:
            watched = ctx.watch(x)
            traced = run(program, box, watched)
        value, tangents = mt.primal(traced), ctx.grad(traced, box, watched)

    np.testing.assert_allclose(value, expected, rtol=1e-9)
    for mine_now, plain_now in zip(
        (*mine, box.v, box.w, box.made), (*arrays, plain_box.v, plain_box.w, plain_box.made), strict=True
    ):
        assert type(mine_now) is type(plain_now)
        if mine_now is not None:
            np.testing.assert_allclose(mine_now, plain_now, rtol=1e-9, atol=1e-12)
    if ON_HOST:  # CuPy gives out the array itself for some views of all of it, NumPy a new one
        assert [box.w is a for a in mine] == [plain_box.w is a for a in arrays]
    assert [np.shares_memory(box.w, a) for a in mine] == [np.shares_memory(plain_box.w, a) for a in arrays]

    h = 1e-6
    with np.errstate(all="ignore"):
        slope = (run(program, *entry(program, h)) - run(program, *entry(program, -h))) / (2 * h)
    got = along(tangents[0].v) + along(tangents[0].w) + along(tangents[1])
    np.testing.assert_allclose(got, slope, rtol=1e-4, atol=1e-4 * max(1.0, abs(float(expected))))
