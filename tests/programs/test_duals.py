"""The reference itself: dual numbers against formulas and finite differences, with plain Python classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

from tests.programs import duals

npd = duals.numpy_of_duals
ref = duals.Reference


@pytest.fixture(autouse=True)
def _levels_are_closed() -> Iterator[None]:
    yield
    assert not duals.LEVELS.open
    assert duals.LEVELS.paused_up_to == 0


@attrs.define
class Box:
    x: Any
    v: Any


def messy(x: Any) -> Any:
    return npd.tanh(x * x - 0.3) / (2.5 + npd.sin(3.0 * x)) - (1.0 - x) * npd.sin(-x) + 1.0 / (x + 4.0)


@pytest.mark.parametrize("x", [-0.9, -0.2, 0.0, 0.7, 1.3])
def test_the_derivative_of_a_formula_equals_finite_differences(x: float) -> None:
    step = 1e-5
    assert ref.grad(messy)(x) == pytest.approx((messy(x + step) - messy(x - step)) / (2 * step), abs=1e-9)


def test_derivatives_of_derivatives() -> None:
    x = 0.4
    assert ref.grad(ref.grad(npd.sin))(x) == pytest.approx(-np.sin(x))
    assert ref.grad(ref.grad(ref.grad(npd.sin)))(x) == pytest.approx(-np.cos(x))
    # Perturbations of different levels are not confused.
    assert ref.grad(lambda y: y * ref.grad(lambda z: y * z * z)(y))(3.0) == pytest.approx(3 * 2 * 3.0**2)


def test_arrays_are_differentiated_element_by_element() -> None:
    x = np.array([0.1, -0.4, 2.0])
    np.testing.assert_allclose(
        ref.grad(lambda v: npd.sum(npd.tanh(v) * v))(x), np.tanh(x) + x / np.cosh(x) ** 2
    )
    np.testing.assert_allclose(ref.grad(lambda v: npd.sum((v[::-1] * 2.0)[:1]))(x), [0, 0, 2])
    np.testing.assert_allclose(
        ref.grad(lambda v: npd.sum(npd.stack([v[0], 1.0, v[0] * v[2]])))(x), [3, 0, 0.1]
    )


def test_the_gradient_of_a_field_is_taken_at_its_entry_value() -> None:
    box = Box(0.5, None)

    def twice(box: Box) -> Any:
        box.x = npd.sin(box.x)
        box.x = box.x * box.x
        return box.x

    assert ref.grad(twice)(box).x == pytest.approx(2 * np.sin(0.5) * np.cos(0.5))
    assert duals.plain(box.x) == pytest.approx(np.sin(0.5) ** 2)


def test_constants_are_cut_off() -> None:
    def paused(x: Any) -> Any:
        with ref.pause():
            scale = 10.0 * x
        return scale * x

    assert ref.grad(paused)(2.0) == pytest.approx(20.0)
    assert ref.grad(lambda x: x * ref.stop_gradient(x * x))(2.0) == pytest.approx(4.0)
    assert ref.grad(lambda x: x * ref.grad(lambda y: ref.stop_gradient(x) * y)(x))(2.0) == pytest.approx(2.0)


def test_a_gradient_that_raises_puts_everything_back() -> None:
    box = Box(0.5, np.array([1.0, 2.0], object))
    items = [box, 3.0]
    table = {"a": 1.0}

    def failing(x: Any) -> None:
        items.append(x)
        table["b"] = x
        box.x = x
        box.v[0] = x
        raise ZeroDivisionError

    duals.REACHES[:] = [items, table]
    try:
        with pytest.raises(ZeroDivisionError):
            ref.grad(failing)(2.0)
    finally:
        duals.REACHES.clear()
    assert len(items) == 2
    assert items[1] == 3.0
    assert table == {"a": 1.0}
    assert (box.x, box.v[0]) == (0.5, 1.0)
