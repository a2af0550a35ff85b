"""One derivative compared with finite differences: pullback against plain runs, in random directions.

Theory of operation. A call turns *entries*, the numbers in its arguments, into *outputs*, the numbers in its result and
those that it left in the fields of objects. With a random cotangent for each output the call is a scalar function of
its entries, whose derivative along a random direction is, by the pullback, the inner product of the tangents with
the direction, and by differences that of the cotangents with what changed in the outputs. The state that a call leaves
behind is an output like any other, so a rule that forgets it is found out.

The direction is the difference of the entries that were really used, after rounding, so large float32 numbers do not
spoil it. Inner products are real, Re(conj(a) * b): a complex number counts as two real ones.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable, Sequence
from typing import Any, Final, NoReturn

import numpy as np

from mutangent._arrays import describe, is_array, spec_of
from mutangent._capture import current
from mutangent._identity import IdentityMap
from mutangent._tangent import Tangent, ZeroTangent
from mutangent._traced import TracedArray
from mutangent._transforms import vjp

from ._compare import close, difference
from ._layout import Layout, Leaf

Vector = list[Any]  # one number or array per slot or leaf

# By the coarsest dtype among entries and outputs, as in JAX's check_grads.
RTOL: Final = {"float16": 1e-2, "float32": 2e-3}
RTOL_OF_THE_REST: Final = 1e-5
# Differences of outputs that are rounded like these numbers of roundings.
ROUNDINGS: Final = 20.0
# So many elements are compared one by one to find the worst one.
ONE_BY_ONE: Final = 32


class Trial:
    """What is checked and with which settings; it words the failures."""

    def __init__(
        self,
        check: str,
        function: Callable[..., Any],
        *,
        rtol: float | None,
        atol: float | None,
        seed: int,
        eps: float | None,
    ) -> None:
        self.check = check
        self.name = getattr(function, "__qualname__", None) or getattr(function, "__name__", repr(function))
        self.rtol = rtol
        self.atol = atol
        self.seed = seed
        self.eps = eps
        self.order = 1
        self.rng = np.random.default_rng(seed)
        self.coarsest = np.dtype(np.float64)

    def fail(self, text: str) -> NoReturn:
        """Raise the AssertionError."""
        raise AssertionError(f"{self.check} of {self.name}, order {self.order}, mode 'rev', seed {self.seed}: {text}")

    def refine(self, leaves: Sequence[Leaf]) -> None:
        """Note the coarsest dtype among `leaves`."""
        dtypes = [np.finfo(spec_of(leaf.value).dtype).dtype for leaf in leaves]
        self.coarsest = max([self.coarsest, *dtypes], key=lambda dtype: np.finfo(dtype).eps)

    @property
    def unit(self) -> float:
        """The relative rounding error of the coarsest dtype."""
        return float(np.finfo(self.coarsest).eps)

    @property
    def step(self) -> float:
        """The step of the differences: a third of the digits, where rounding and curvature cost about the same."""
        return self.eps if self.eps is not None else self.unit ** (1 / 3)

    def tolerance(self, size: float, noise: float) -> float:
        """The allowed difference for derivatives of this size, whose differences have this noise."""
        rtol = self.rtol if self.rtol is not None else RTOL.get(str(self.coarsest), RTOL_OF_THE_REST)
        return rtol * size + (self.atol if self.atol is not None else noise)


# -- numbers -----------------------------------------------------------------------------------------------------------


def random_like(rng: np.random.Generator, value: Any) -> Any:
    """Random numbers of either sign, none of them near zero, of the shape of `value`, in double precision."""

    def draw() -> Any:
        shape = np.shape(value)
        return rng.uniform(0.5, 1.5, shape) * rng.choice((-1.0, 1.0), shape)

    return draw() + 1j * draw() if spec_of(value).dtype.kind == "c" else draw()


def cast(number: Any, like: Any) -> Any:
    """A new number or array of the type, dtype and memory layout of `like`."""
    if not is_array(like):
        return type(like)(number)
    made = np.empty_like(like)
    made[...] = number
    made.flags.writeable = like.flags.writeable
    return made


def double(value: Any) -> Any:
    """A number or array in double precision."""
    array = np.asarray(value)
    return array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)


def inner(a: Any, b: Any) -> float:
    """The real inner product of plain numbers or arrays."""
    return float(np.sum(np.real(np.conj(double(a)) * double(b))))


def norm(products: list[Any]) -> float:
    """The root of the sum of all squares."""
    return float(np.sqrt(sum(np.sum(np.abs(product) ** 2) for product in products)))


# -- one call ----------------------------------------------------------------------------------------------------------


def layout_of(args: Sequence[Any]) -> Layout:
    """The layout of arguments."""
    return Layout((arg, f"args[{number}]") for number, arg in enumerate(args))


def outputs_of(out: Any, entry: Layout) -> Layout:
    """The layout of what a call returned and left in the objects of its arguments."""
    return Layout([(out, "the result"), *((node.primal, node.path) for node in entry.objects)])


def place_of(leaf: Leaf) -> str:
    """An output in the words of a message."""
    return f"{leaf.path} as the call left it" if leaf.owner else leaf.path


def fresh(args: Sequence[Any], values: Vector) -> tuple[Any, ...]:
    """A deep copy of the arguments with other numbers in it, one per slot."""
    copied = copy.deepcopy(tuple(args))
    layout = layout_of(copied)
    return tuple(layout.refill([values[leaf.slot] for leaf in layout.leaves]))


def same_layout(left: Layout, model: Layout, trial: Trial) -> None:
    """Fail unless a run left numbers in the same places as another one."""
    there, expected = ([(leaf.path, np.shape(leaf.value)) for leaf in layout.leaves] for layout in (left, model))
    if there != expected:
        odd = next((place for place in [*expected, *there] if (place in there) != (place in expected)), "their order")
        trial.fail(
            f"runs at neighbouring points leave numbers in different places or shapes ({odd}), so they cannot be "
            "compared. Check at a point around which the function takes one branch, or with a smaller eps."
        )


class Call:
    """One recorded call on a deep copy of the arguments, and its pullback."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], trial: Trial) -> None:
        self.trial = trial
        self._originals = layout_of(args)
        self.args = fresh(args, [cast(leaf.value, leaf.value) for leaf in self._originals.slots])
        self.entry = layout_of(self.args)
        self.out, self._pullback = vjp(_refusing_others(f, self.entry), *self.args)
        self.left = outputs_of(self.out, self.entry)

    def is_output(self, leaf: Leaf) -> bool:
        """Whether the call made this number: a result, or a field that it wrote."""
        if leaf.owner is None:
            return True
        for before, original in zip(self.entry.leaves, self._originals.leaves, strict=True):
            if before.owner is not None and before.owner.primal is leaf.owner.primal and before.within == leaf.within:
                # An array that was written in place is the same array with other contents.
                return before.value is not leaf.value or not np.array_equal(leaf.value, original.value, equal_nan=True)
        return True

    def pull(self, bars: Vector) -> tuple[Any, ...]:
        """The tangents of the arguments, one per argument; fails if the pullback changes what it is given."""
        out_bar, objects = self.left.cotangents(bars)
        held = [leaf.value for layout in (self.entry, self.left) for leaf in layout.leaves]
        before = [copy.copy(value) for value in held]
        bars_before = [copy.copy(bar) for bar in bars]
        tangents = self._pullback(out_bar, objects)
        places = [*self.entry.paths, *map(place_of, self.left.leaves)]
        for value, old, place in zip(held, before, places, strict=True):
            if not np.array_equal(value, old, equal_nan=True):
                self.trial.fail(f"the pullback changed the array {place} in place")
        for bar, old in zip(bars, bars_before, strict=True):
            if bar is not None and not np.array_equal(bar, old):
                self.trial.fail("the pullback changed the cotangent that it was given in place")
        return tangents

    def overwrite_objects(self) -> None:
        """Put nan into all fields of all objects, as later calls may write there whatever they like."""
        self.left.refill([cast(np.nan, leaf.value) for leaf in self.left.leaves])


def _refusing_others(f: Callable[..., Any], entry: Layout) -> Callable[..., Any]:
    """`f`, which raises if it writes to an object outside of its arguments: that would not be on the copy."""

    def call(*args: Any) -> Any:
        out = f(*args)
        known = {id(node.primal) for node in entry.objects}
        for record, name in current().written():
            if not record.born and id(record.obj) not in known:
                cls = type(record.obj).__name__
                raise ValueError(
                    f"the function wrote {cls}.{name} of an object that is not in args, so its runs would not start "
                    f"alike. Pass that {cls} in args, itself or within tuples, lists, dicts or captured objects."
                )
        return out

    return call


# -- the comparison ----------------------------------------------------------------------------------------------------


class Derivative:
    """The derivative of one function at one point, in one direction of its outputs."""

    def __init__(self, f: Callable[..., Any], args: Sequence[Any], trial: Trial) -> None:
        self.f = f
        self.args = args
        self.trial = trial
        self.entry = layout_of(args)
        if not self.entry.leaves:
            raise ValueError("args hold no float or complex numbers, so there is no derivative to check")
        call = Call(f, args, trial)
        self._compare_with_plain_run(call)
        self.left = call.left
        self.outputs = [leaf for leaf in call.left.leaves if call.is_output(leaf)]
        if not self.outputs:
            raise ValueError(f"{trial.name} gives no float or complex numbers and leaves none in objects")
        trial.refine([*self.entry.leaves, *self.outputs])
        self.bars: Vector = [None] * len(call.left.leaves)
        for leaf in self.outputs:
            self.bars[leaf.number] = cast(random_like(trial.rng, leaf.value), np.array(leaf.value) if is_array(leaf.value) else leaf.value)
        self.tangents = self._pull_repeatedly(call)

    def _compare_with_plain_run(self, call: Call) -> None:
        args = fresh(self.args, [cast(leaf.value, leaf.value) for leaf in self.entry.slots])
        out = self.f(*args)
        complaint = difference(out, call.out, "the result") or difference(args, call.args, "args")
        if complaint is not None:
            self.trial.fail(complaint)

    def _pull_repeatedly(self, call: Call) -> Vector:
        """The tangent of each leaf, after checks that the pullback always gives the same and what it should."""
        tangents = self.entry.match(call.pull(self.bars), self.trial.fail)
        for leaf, tangent in zip(self.entry.leaves, tangents, strict=True):
            complaint = _misfit(leaf, tangent)
            if complaint is not None:
                self.trial.fail(complaint)
        again = self.entry.match(call.pull(self.bars), self.trial.fail)
        self._expect_same(tangents, again, "called a second time the pullback gives another tangent of {place}")
        call.overwrite_objects()
        later = self.entry.match(call.pull(self.bars), self.trial.fail)
        self._expect_same(
            tangents,
            later,
            "the pullback gives another tangent of {place} after the objects' fields were overwritten: it reads a field "
            "when it is called. Read the value in the rule and keep it.",
        )
        return tangents

    def _expect_same(self, tangents: Vector, others: Vector, text: str) -> None:
        for leaf, a, b in zip(self.entry.leaves, tangents, others, strict=True):
            same = type(a) is type(b) and (isinstance(a, ZeroTangent) or close(a, b))
            if not same:
                self.trial.fail(text.format(place=leaf.path))

    def check(self) -> None:
        """Compare in a random direction of all entries; fail with the element that disagrees the most."""
        direction = self._random_direction()
        products, by_outputs, noise = self._along(direction, self.tangents)
        by_pullback = sum(float(np.sum(product)) for product in products)
        by_differences = sum(by_outputs)
        if not np.isfinite(by_differences):
            self.trial.fail(
                f"the finite difference is {by_differences}: a step of {self.trial.step:.1e} leaves the domain of the "
                "function. Check at another point or with a smaller eps."
            )
        # Directions in which the contributions cancel must not ask for more than differences can tell.
        size = max(abs(by_pullback), abs(by_differences), norm(products))
        allowed = self.trial.tolerance(size, noise)
        if not abs(by_pullback - by_differences) <= allowed:
            self.trial.fail(
                f"along a random direction the derivative is {by_pullback:.10g} by the pullback and "
                f"{by_differences:.10g} by finite differences with eps={self.trial.step:.2e}; the difference may be "
                f"{allowed:.1e}. {self._worst_element(direction)}"
            )

    def _random_direction(self) -> Vector:
        direction = []
        for leaf in self.entry.slots:
            value = double(leaf.value)
            size = np.where(np.isfinite(value), np.maximum(1.0, np.abs(value)), 0.0)
            direction.append(random_like(self.trial.rng, leaf.value) * size)
        return direction

    def _along(self, direction: Vector, tangents: Vector) -> tuple[Vector, list[float], float]:
        """The derivative in one direction.

        Returns the products of tangents with the direction per leaf, the finite difference per output, and the noise of
        the sum of these.
        """
        step = self.trial.step
        ends = []
        moved = []
        for sign in (1.0, -1.0):
            # A number that does not move must not even be rounded: adding 0 to nan or inf would be a warning.
            values = [
                cast(double(leaf.value) + sign * step * v, leaf.value) for leaf, v in zip(self.entry.slots, direction, strict=True)
            ]
            moved.append([double(value) for value in values])
            args = fresh(self.args, values)
            before = layout_of(args)
            left = outputs_of(self.f(*args), before)
            same_layout(left, self.left, self.trial)
            ends.append([double(leaf.value) for leaf in left.leaves])
        with np.errstate(invalid="ignore"):  # inf - inf in a number that does not move
            way = [np.where(v == 0, 0, (b - a) / (2 * step)) for a, b, v in zip(moved[1], moved[0], direction, strict=True)]
        products = [
            np.real(np.conj(double(tangent)) * way[leaf.slot])
            for leaf, tangent in zip(self.entry.leaves, tangents, strict=True)
            if not isinstance(tangent, ZeroTangent)
        ]
        numbers = [leaf.number for leaf in self.outputs]
        by_outputs = [inner(self.bars[n], ends[0][n] - ends[1][n]) / (2 * step) for n in numbers]
        size = norm([double(self.bars[n]) * ends[0][n] for n in numbers])
        return products, by_outputs, ROUNDINGS * self.trial.unit * size / step

    # -- blame ---------------------------------------------------------------------------------------------------------

    def _worst_element(self, direction: Vector) -> str:
        """In words, the element of the entries whose derivative disagrees the most, and the output it comes from."""

        def off(coordinates: list[tuple[int, int, str]]) -> float:
            products, by_outputs, _ = self._along(_restricted(direction, coordinates), self.tangents)
            distance = abs(sum(float(np.sum(product)) for product in products) - sum(by_outputs))
            return float("inf") if np.isnan(distance) else distance

        coordinates = [
            (slot, index, part)
            for slot, leaf in enumerate(self.entry.slots)
            for index in range(np.size(leaf.value))
            for part in ("real", "imag")[: 2 if spec_of(leaf.value).dtype.kind == "c" else 1]
        ]
        while len(coordinates) > ONE_BY_ONE:
            half = len(coordinates) // 2
            coordinates = max(coordinates[:half], coordinates[half:], key=off)
        slot, index, part = worst = max(coordinates, key=lambda coordinate: off([coordinate]))
        single = _restricted(direction, [worst])
        length = float(np.max(np.abs(single[slot])))
        call = Call(self.f, self.args, self.trial)
        blame = []
        for position, leaf in enumerate(self.outputs):
            bars: Vector = [None] * len(self.bars)
            bars[leaf.number] = self.bars[leaf.number]
            tangents = self.entry.match(call.pull(bars), self.trial.fail)
            products, by_outputs, _ = self._along(single, tangents)
            a = sum(float(np.sum(product)) for product in products) / length
            n = by_outputs[position] / length
            blame.append((np.nan_to_num(abs(a - n), nan=np.inf), a, n, leaf))
        _, a, n, output = max(blame, key=lambda each: each[0])
        shape = np.shape(self.entry.slots[slot].value)
        where = " = ".join(leaf.path for leaf in self.entry.leaves if leaf.slot == slot)
        if shape:
            where += f"[{', '.join(map(str, np.unravel_index(index, shape)))}]"
        if part == "imag":
            where = f"the imaginary part of {where}"
        return (
            f"The worst disagreement is at {where}, in the derivative of {place_of(output)}: {a:.10g} by the pullback, "
            f"{n:.10g} by finite differences."
        )


def _restricted(direction: Vector, coordinates: list[tuple[int, int, str]]) -> Vector:
    """A direction with all but some elements, or parts of complex elements, set to zero."""
    chosen = [np.zeros_like(v) for v in direction]
    for slot, index, part in coordinates:
        element = np.asarray(direction[slot]).flat[index]
        # `reshape(-1)` of a new contiguous array is a view of it.
        np.asarray(chosen[slot]).reshape(-1)[index] += element.real if part == "real" else 1j * element.imag
    return chosen


def _misfit(leaf: Leaf, tangent: Any) -> str | None:
    """What is wrong with type, shape or dtype of a tangent."""
    value = leaf.value
    if isinstance(tangent, ZeroTangent):
        return None
    if type(tangent) is not type(value) and not (is_array(value) and type(tangent) is np.ndarray):
        return f"{leaf.path} is {describe(value)}, but its tangent is {describe(tangent)}"
    if spec_of(tangent) != spec_of(value):
        return f"{leaf.path} is {describe(value)}, but its tangent is {describe(tangent)}"
    return None


def contraction(derivative: Derivative) -> Callable[..., Any]:
    """The inner product of a function's tangents with a fixed direction, as a function of the same arguments.

    The cotangents stay the same, so the derivative of this function is a second derivative of the other.
    """
    f, entry, trial = derivative.f, derivative.entry, derivative.trial
    direction = [random_like(trial.rng, leaf.value) for leaf in entry.slots]

    @functools.wraps(f, updated=())
    def call(*args: Any) -> Any:
        before = layout_of(args)
        out, pullback = vjp(f, *args)
        left = outputs_of(out, before)
        same_layout(left, derivative.left, trial)
        out_bar, objects = left.cotangents(derivative.bars)
        total: Any = 0.0
        for leaf, tangent in zip(entry.leaves, entry.match(pullback(out_bar, objects), trial.fail), strict=True):
            if not isinstance(tangent, ZeroTangent):
                total = total + _traced_inner(tangent, direction[leaf.slot])
        return total

    return call


def _traced_inner(tangent: Any, direction: Any) -> Any:
    """The real inner product in double precision, of a tangent that an outer recording may trace."""
    spec = spec_of(tangent)
    wide = np.dtype(np.complex128 if spec.dtype.kind == "c" else np.float64)
    if spec.dtype != wide:
        tangent = tangent.astype(wide)
    product = np.real(tangent * np.conj(direction)) if wide.kind == "c" else tangent * direction
    return np.sum(product) if spec.shape else product
