"""Arrays on a device that are overwritten by another name: noticed where the recording waits for the device anyway."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Cell:
    w: object


def overwritten_inside(w, **settings):
    cell = Cell(w)
    with mt.Context(**settings) as ctx:
        y = np.sum(cell.w**2)
        w[0] = 7.0
    return ctx.grad(y, cell)


def test_a_context_that_checks_for_nan_notices_it_at_its_end(cp):
    with pytest.raises(
        mt.InPlaceError, match=r"cupy\.ndarray of shape \(2,\).*read from Cell\.w.*written past it"
    ):
        overwritten_inside(cp.array([1.0, 2.0]), check_finite=True)


def test_a_context_that_checks_for_nan_notices_it_before_a_sweep(cp):
    w = cp.array([1.0, 2.0])
    cell = Cell(w)
    with mt.Context(check_finite=True) as ctx:
        y = np.sum(cell.w**2)
    np.testing.assert_array_equal(ctx.grad(y, cell).w.get(), [2.0, 4.0])
    w *= 3.0
    with pytest.raises(mt.InPlaceError, match="overwritten in place before its pullback ran"):
        ctx.grad(y, cell)


def test_what_the_recording_writes_itself_is_no_error(cp):
    cell = Cell(cp.array([1.0, np.nan]))
    cell.w[1] = 2.0
    with mt.Context(check_finite=True) as ctx:
        cell.w[0] = cell.w[1] * 3.0
        y = np.sum(cell.w**2)
    np.testing.assert_array_equal(ctx.grad(y, cell).w.get(), [0.0, 2 * 2.0 + 2 * 6.0 * 3.0])
    np.testing.assert_array_equal(cell.w.get(), [6.0, 2.0])


def test_elsewhere_it_is_not_noticed_since_to_look_would_be_to_wait(cp):
    """A known limitation; if this fails, the docs can say less."""
    assert overwritten_inside(cp.array([1.0, 2.0])).w.shape == (2,)
