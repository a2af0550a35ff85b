"""Random chains of rules on arrays of random shapes: both modes against finite differences.

A rule that is right alone may still hand on a cotangent of the wrong shape, dtype or layout, one that it does not own, or
a view that the next rule writes into. What a chain is made of comes from the rulebook's samples, and from the calls below.
"""

from collections.abc import Callable
from typing import Any

import hypothesis
import hypothesis.strategies as st
import numpy as np

from mutangent.testing import check_grads
from tests.rules.samples import ELEMENTWISE

Step = Callable[[Any], Any]

shapes = st.lists(st.integers(0, 4), max_size=3).map(tuple)
# Halving, joining and picking need something to work on; most arrays should have elements.
most_shapes = st.one_of(st.lists(st.integers(1, 4), max_size=3).map(tuple), shapes)

SMOOTH = [
    function for function in ELEMENTWISE if function not in (np.where, np.ldexp, np.nextafter, np.heaviside)
]


def into(numbers: Any, x: Any) -> Any:
    """Numbers between the least and the greatest of a sample, which are where its function is smooth."""
    low, high = numbers.min(), numbers.max()
    middle, half = (low + high) / 2, (high - low) / 2
    return middle + 0.9 * half * np.tanh(x / 2)


@st.composite
def elementwise(draw: Any, _shape: tuple[int, ...]) -> Step:
    function = draw(st.sampled_from(SMOOTH))
    numbers = ELEMENTWISE[function]
    if len(numbers) == 1:
        return lambda x: function(into(numbers[0], x))
    one, other = numbers
    if one.min() < 0 < other.min() or function in (np.divide, np.remainder, np.fmod, np.copysign):
        other = np.abs(other) + 0.5  # no poles
    how = draw(st.sampled_from(["both", "constant", "number", "first of all"]))
    constant = {"constant": other[1], "number": float(other[2])}
    if how in constant:
        return lambda x: function(into(one, x), constant[how])
    if how == "both":
        return lambda x: function(into(one, x), into(other, np.sin(x)))
    return lambda x: function(into(one, np.sum(x) / 7), into(other, x))


@st.composite
def reduction(draw: Any, shape: tuple[int, ...]) -> Step:
    axis = draw(
        st.sampled_from([None, *range(-len(shape), len(shape)), *([(0, -1)] if len(shape) > 1 else [])])
    )
    keepdims = draw(st.booleans())
    settings: dict[str, Any] = {"axis": axis, "keepdims": keepdims}
    names = [
        "sum",
        "mean",
        "prod",
        "var",
        "std",
        "max",
        "min",
        "ptp",
        "median",
        "nansum",
        "nanmean",
        "norm",
        "average",
    ]
    name = draw(st.sampled_from(names if 0 not in shape and np.prod(shape) > 1 else ["sum", "prod"]))
    if name == "norm":
        order = draw(st.sampled_from([None, 1, 2, 3, np.inf]))
        if type(axis) is tuple or axis is None:
            return lambda x: np.linalg.norm(np.ravel(x), order)
        return lambda x: np.linalg.norm(x, order, **settings)
    if name == "std":
        return lambda x: np.sqrt(np.var(x, **settings) + 0.3) + np.std(np.ravel(x) + np.arange(x.size))
    function = getattr(np, name)
    return lambda x: function(x, **settings)


@st.composite
def rearrangement(draw: Any, shape: tuple[int, ...]) -> Step:
    order = draw(st.permutations(range(len(shape))))
    axis = draw(st.integers(-len(shape), len(shape) - 1)) if shape else None
    number = draw(st.integers(-2, 3))
    steps: list[Step] = [
        np.ravel,
        lambda x: np.reshape(x, (-1,), order="F"),
        lambda x: np.transpose(x, order),
        lambda x: np.expand_dims(x, 0),
        lambda x: np.broadcast_to(x, (2, *shape)),
        lambda x: np.stack([x, np.cos(x)], axis=-1),
        lambda x: np.squeeze(x[None]),
        np.atleast_2d,
        lambda x: np.tile(x, 2),
        lambda x: np.concatenate([np.ravel(x), np.ravel(x)[:2]]),
        lambda x: np.array_split(np.ravel(x), 2)[0],
        lambda x: np.meshgrid(np.ravel(x), np.arange(2.0))[0],
    ]
    if axis is not None:
        steps += [
            lambda x: np.flip(x, axis),
            lambda x: np.roll(x, number, axis),
            lambda x: np.moveaxis(x, axis, 0),
            lambda x: np.repeat(x, 2, axis),
            lambda x: np.pad(x, 1),
            lambda x: np.cumsum(x, axis),
            lambda x: np.cumprod(0.5 + into(np.array([0.2, 1.2]), x), axis),
            lambda x: np.sort(x, axis),
            lambda x: np.diff(x, axis=axis, append=0.5) if shape[axis] else x,
            lambda x: np.concatenate([x, 2 * x], axis),
        ]
    return draw(st.sampled_from(steps))


@st.composite
def selection(draw: Any, shape: tuple[int, ...]) -> Step:
    seed = draw(st.integers(0, 99))
    mask = np.random.default_rng(seed).random(shape) < 0.6
    steps: list[Step] = [
        lambda x: np.where(mask, x, -0.5),
        lambda x: x[mask],
        lambda x: np.sum(x, where=mask),
        lambda x: x[..., None],
        lambda x: np.where(
            mask, np.exp(into(np.array([-1.0, 1.0]), x)), np.log(np.where(mask, 1, 2 + x * x))
        ),
    ]
    if shape and shape[0]:
        last = shape[0] - 1
        steps += [
            lambda x: x[0],
            lambda x: x[-1:],
            lambda x: x[::-2],
            lambda x: x[[last, 0, last]],
            lambda x: np.take(x, [0, 0, last], axis=0),
            lambda x: written(x, 0, 0.25),
            lambda x: written(x, mask, 0.5),
            lambda x: written(x, slice(1, None), np.sin(x)[1:]),
            lambda x: added(x, [0, 0]),
        ]
    return draw(st.sampled_from(steps))


def written(x: Any, index: Any, value: Any) -> Any:
    y = x * 1.5
    y[index] = value
    return y


def added(x: Any, index: Any) -> Any:
    y = np.copy(x)
    np.add.at(y, index, np.cos(y[0]))
    return y * x


@st.composite
def product(draw: Any, shape: tuple[int, ...]) -> Step:
    steps: list[Step] = [
        lambda x: np.outer(x, np.arange(2.0)),
        lambda x: np.einsum("...,...->...", x, np.sin(x)),
        lambda x: np.dot(np.ravel(x), np.ravel(np.cos(x))),
        lambda x: np.kron(x, np.array([0.5, 2.0])),
        lambda x: np.tensordot(x, x, 0) if x.size < 5 else x,
    ]
    if shape:
        fixed = np.cos(np.arange(shape[-1] * 3.0)).reshape(shape[-1], 3)
        steps += [
            lambda x: x @ fixed,
            lambda x: fixed.T @ x if len(shape) == 1 else x @ np.swapaxes(x, -1, -2),
            lambda x: np.einsum("...i,ij->...j", x, fixed),
            lambda x: np.inner(x, np.sin(x)),
            lambda x: np.vecdot(x, np.exp(-x * x)),
        ]
    if shape and 0 not in shape:
        steps += [
            lambda x: np.real(np.fft.ifft(np.fft.fft(x) * np.exp(1j * np.arange(shape[-1])))),
            lambda x: np.fft.irfft(np.fft.rfft(x) ** 2, shape[-1]),
            lambda x: np.linalg.solve(np.eye(shape[-1]) * 4 + np.ones((shape[-1], shape[-1])), x[..., None])[
                ..., 0
            ],
            lambda x: np.linalg.slogdet(x[..., :, None] * np.sin(x)[..., None, :] + 40 * np.eye(shape[-1]))[
                1
            ],
        ]
    return draw(st.sampled_from(steps))


@st.composite
def chains(draw: Any) -> tuple[Step, Any]:
    """Two to four steps, and an array to start from."""
    shape = draw(most_shapes)
    x = np.random.default_rng(draw(st.integers(0, 10_000))).normal(size=shape)
    start: Any = x if shape else draw(st.sampled_from([np.asarray(x), np.float64(x)]))
    steps: list[Step] = []
    y = np.asarray(x)
    for _ in range(draw(st.integers(2, 4))):
        kind = draw(st.sampled_from([elementwise, elementwise, reduction, rearrangement, selection, product]))
        step = draw(kind(y.shape))
        with np.errstate(all="ignore"):
            made = np.asarray(step(y))
        # A chain that leaves what differences can tell, or grows, ends here.
        if made.size > 200 or not np.isfinite(made).all() or (made.size and np.abs(made).max() > 1e3):
            break
        steps.append(step)
        y = made

    def chain(x: Any) -> Any:
        for step in steps:
            x = step(x)
        return x

    return chain, start


@hypothesis.settings(max_examples=200, derandomize=True, suppress_health_check=list(hypothesis.HealthCheck))
@hypothesis.given(chains())
def test_a_chain_of_rules_has_the_derivatives_of_its_differences(chain):
    call, x = chain
    check_grads(call, (x,), order=1, rtol=1e-4)
