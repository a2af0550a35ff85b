"""How a case says which gradient is right, and the comparison with the gradient that came.

`Fields(x=1.0)` is said of an object, a list, tuple or dict of a container, a number or (nested) list of an
array. `ZERO` means that nothing flows to a place, `...` that it is not compared. Fields that `Fields` does not
name must be without a tangent: a gradient that leaks into a third field is wrong too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mutangent as mt
from tests.cases.graph import Entry, children_of, is_differentiable, is_object, put_field

ZERO = mt.ZeroTangent()
NUMERICAL = "by central finite differences"


class Fields(dict[str, Any]):
    """What is expected of a `Tangent`, by field."""

    def __init__(self, **fields: Any) -> None:
        super().__init__(fields)


class Comparison:
    """Compares tangents with expectations, and remembers which object has had which tangent.

    Parameters
    ----------
    rtol, atol : float
        How exactly the case gives its numbers.
    """

    def __init__(self, rtol: float, atol: float) -> None:
        self.tolerance = {"rtol": rtol, "atol": atol}
        self.seen: dict[int, Any] = {}

    def compare(self, primal: Any, tangent: Any, expected: Any, where: str) -> None:
        """Fail if `tangent` is not the expected one of `primal`, which holds its entry values."""
        if expected is ...:
            return
        if is_object(primal):
            self.compare_object(primal, tangent, expected, where)
        elif isinstance(primal, dict | list | tuple):
            self.compare_container(primal, tangent, expected, where)
        elif isinstance(tangent, mt.ZeroTangent | mt.NoTangent):
            kind = mt.ZeroTangent if is_differentiable(primal) else (mt.ZeroTangent, mt.NoTangent)
            assert isinstance(tangent, kind), f"{where}: {tangent!r} for {primal!r}"
            assert np.all(np.asarray(expected) == 0), f"{where}: nothing arrived, and not {expected!r}"
        else:
            self.compare_number(primal, tangent, expected, where)

    def compare_object(self, primal: Any, tangent: Any, expected: Any, where: str) -> None:
        """One `Tangent` per object, however often the object is reached; field by field."""
        if id(primal) in self.seen:
            assert tangent is self.seen[id(primal)], f"{where}: the object has a second tangent"
            return
        assert isinstance(tangent, mt.Tangent | mt.ZeroTangent), f"{where}: {tangent!r} for {type(primal)}"
        if isinstance(tangent, mt.Tangent):
            assert all(tangent is not other for other in self.seen.values()), (
                f"{where}: another object's tangent"
            )
        self.seen[id(primal)] = tangent
        fields = Fields() if expected is ZERO else expected
        assert isinstance(fields, Fields), f"{where}: {fields!r} is expected of an object"
        held = children_of(primal)
        assert set(fields) <= set(held), f"{where}: there are no fields {set(fields) - set(held)}"
        for name, value in held.items():
            # By item: a field called `dense` is hidden behind the method.
            part = tangent if tangent is ZERO else tangent[name]
            self.compare(value, part, fields.get(name, ZERO), f"{where}.{name}")

    def compare_container(self, primal: Any, tangent: Any, expected: Any, where: str) -> None:
        """A container's tangent is a container of the same kind and length."""
        if isinstance(tangent, mt.ZeroTangent | mt.NoTangent):
            assert expected is ZERO, f"{where}: nothing arrived, and not {expected!r}"
            return
        assert type(tangent) is type(primal), f"{where}: {tangent!r} for a {type(primal).__name__}"
        assert len(tangent) == len(primal), f"{where}: {len(tangent)} tangents for {len(primal)} items"
        for key, value in children_of(primal).items():
            self.compare(
                value, tangent[key], ZERO if expected is ZERO else expected[key], f"{where}[{key!r}]"
            )

    def compare_number(self, primal: Any, tangent: Any, expected: Any, where: str) -> None:
        """An array's tangent is an array like it, a Python float's a float."""
        assert type(tangent) is type(primal), f"{where}: a {type(tangent)} for a {type(primal)}"
        shape = np.shape(primal)
        assert np.shape(tangent) == shape, f"{where}: shape {np.shape(tangent)}, the entry value's is {shape}"
        dtype = getattr(primal, "dtype", None)
        assert dtype is None or tangent.dtype == dtype, (
            f"{where}: dtype {tangent.dtype}, the entry's is {dtype}"
        )
        full = np.zeros(shape) if expected is ZERO else np.asarray(expected)
        assert full.shape == shape, (
            f"{where}: the case expects the shape {full.shape}, the entry's is {shape}"
        )
        np.testing.assert_allclose(tangent, full, err_msg=where, **self.tolerance)


def finite_differences(f: Callable[..., Any], args: tuple[Any, ...], eps: float = 1e-6) -> tuple[Any, ...]:
    """The expectation for `args` by central differences of plain runs, element by element, in float64."""
    differences = FiniteDifferences(f, list(args), eps)
    expected = [differences.visit(place_of(differences.args, k), value) for k, value in enumerate(args)]
    return tuple(None if value is ZERO else value for value in expected)


Put = Callable[[Any], None]


def place_of(holder: Any, key: Any, put: Put | None = None) -> Put:
    """How to put another value into one place of an object or container; `put` replaces the holder itself."""
    if is_object(holder):
        return lambda value: put_field(holder, key, value)
    if isinstance(holder, tuple) and put is not None:
        return lambda value: put((*holder[:key], value, *holder[key + 1 :]))
    return lambda value: holder.__setitem__(key, value)


class FiniteDifferences:
    """The partial derivatives of `f(*args)` with respect to every number in reach, one plain run at a time."""

    def __init__(self, f: Callable[..., Any], args: list[Any], eps: float) -> None:
        self.f = f
        self.args = args
        self.eps = eps
        self.entry = Entry(args)
        self.found: dict[int, Any] = {}

    def run(self, put: Put, value: Any) -> float:
        """The loss with another value in one place, which is put back afterwards."""
        put(value)
        try:
            return float(self.f(*self.args))
        finally:
            self.entry.put_back()

    def partial(self, put: Put, value: Any) -> Any:
        """The derivative with respect to one number or array."""
        result = np.zeros(np.shape(value), np.asarray(value).dtype)
        directions = (1,) if result.dtype.kind == "f" else (1, 1j)
        for index in np.ndindex(result.shape):
            for direction in directions:
                step = np.zeros_like(result)
                step[index] = self.eps * direction
                if not isinstance(value, np.ndarray):
                    step = step.item()
                rise = self.run(put, value + step) - self.run(put, value - step)
                result[index] += rise / (2 * self.eps) * direction
        return result

    def visit(self, put: Put, value: Any) -> Any:
        """The expectation for one value, which `put` replaces."""
        if is_differentiable(value):
            return self.partial(put, value)
        if not is_object(value) and not isinstance(value, dict | list | tuple):
            return ZERO
        if id(value) in self.found:
            return self.found[id(value)]
        expected: dict[Any, Any] = Fields() if is_object(value) else {}
        if not isinstance(value, tuple):
            # A tuple is a value: the same one in two places has a share in each.
            self.found[id(value)] = expected
        for key, item in children_of(value).items():
            expected[key] = self.visit(place_of(value, key, put), item)
        return expected
