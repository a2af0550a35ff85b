"""What is not selected takes no part: its derivative is 0, also where the function has none, or an infinite one.

Other libraries multiply the cotangent 0 with such a derivative, and give nan. What only happens to be 0 is still nan here.
"""

import numpy as np
import pytest

import mutangent as mt
from mutangent._rulebook import elementwise

NAN, INF = np.nan, np.inf

# At its entries the functions are finite, infinite, or nan.
X = np.array([NAN, 0.9, 0.5, 0.0, -2.0])

FUNCTIONS = {
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "exp": np.exp,
    "product": lambda x: x * np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
    "log": np.log,
    "root": lambda x: np.sqrt(x - 0.25),
    "reciprocal": lambda x: 1 / x,
    "power": lambda x: x**1.5,
    "arccos": np.arccos,
    "a chain": lambda x: np.exp(1 / x) * np.log(x + 2),
    "two branches": lambda x: np.log(x) * np.cos(x) + 1 / x,
}


def some(y):
    """Where numbers are that can be added up."""
    return np.isfinite(y)


def overwritten(y):
    y = y + 0.0
    y[np.logical_not(some(y))] = 0.0
    return np.sum(y)


def overwritten_twice(y):
    y = y + 0.0
    y[np.isnan(y)] = 0.0
    y[np.isinf(y)] = 0.0
    return np.sum(y)


# Each adds up the finite numbers.
SELECTIONS = {
    "where": lambda y: np.sum(np.where(some(y), y, 0)),
    "where, the other way": lambda y: np.sum(np.where(np.logical_not(some(y)), 0, y)),
    "a mask": lambda y: np.sum(y[some(y)]),
    "positions": lambda y: np.sum(y[np.nonzero(some(y))]),
    "a list of positions": lambda y: np.sum(y[[k for k in range(5) if some(y)[k]]]),
    "where=": lambda y: np.sum(y, where=some(y)),
    "mean where=": lambda y: np.mean(y, where=some(y)) * np.sum(some(y)),
    "an assignment": overwritten,
    "two assignments": overwritten_twice,
    "nan_to_num": lambda y: np.sum(np.nan_to_num(y, nan=0.0, posinf=0.0, neginf=0.0)),
    "nansum": lambda y: np.nansum(np.where(np.isinf(y), 0, y)),
    "compress": lambda y: np.sum(np.compress(some(y), y)),
    "select": lambda y: np.sum(np.select([some(y)], [y], 0.0)),
    "broadcast": lambda y: np.sum(np.where(some(y)[:, None], y[:, None] * np.ones((5, 2)), 0)) / 2,
    "a new shape": lambda y: np.sum(np.where(some(y.reshape(5, 1)), y.reshape(5, 1), 0)),
    "sums of rows": lambda y: np.sum(np.where(some(y), np.sum(np.stack([y, y], 1), axis=1), 0)) / 2,
    "cumulative sums of one": lambda y: np.sum(np.where(some(y), np.cumsum(y[:, None], axis=1)[:, 0], 0)),
}


@pytest.mark.parametrize("selection", SELECTIONS)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_what_is_not_selected_has_the_derivative_0(name, selection):
    f, total = FUNCTIONS[name], SELECTIONS[selection]
    with np.errstate(all="ignore"):
        taking_part = some(f(X))
        alone = X[taking_part]
        weights = np.eye(5)[:, taking_part]
        # The same without the entries that are passed over.
        expected = weights @ mt.grad(
            lambda x: np.sum(f(weights @ x + np.where(taking_part, 0, 0.25))[taking_part])
        )(alone)
        loss = lambda x: total(f(x))
        by_reverse = mt.grad(loss)(X)
        by_forward = np.array([mt.jvp(loss, (X,), (unit,))[1] for unit in np.eye(5)])
        with mt.Context() as ctx:
            x = ctx.watch(X)
            out = loss(x)
        by_context = ctx.grad(out, x)
    for found in (by_reverse, by_forward, by_context):
        np.testing.assert_allclose(found, expected, rtol=1e-12)


@pytest.mark.parametrize(
    ("reduction", "plain"),
    [
        (np.nansum, np.sum),
        (np.nanmean, np.mean),
        (np.nanvar, np.var),
        (np.nanstd, np.std),
        (np.nanmax, np.max),
        (np.nanmin, np.min),
        (np.nanmedian, np.median),
        (np.nanprod, np.prod),
        (
            lambda y: np.sum(np.nancumsum(y) * np.arange(5)[-len(y) :]),
            lambda y: np.sum(np.cumsum(y) * np.arange(1, 5)),
        ),
        (lambda y: np.nanquantile(y, 0.3), lambda y: np.quantile(y, 0.3)),
        (lambda y: np.nanpercentile(y, 80), lambda y: np.percentile(y, 80)),
    ],
)
@pytest.mark.parametrize("name", ["square", "cube", "exp", "log", "reciprocal", "two branches"])
def test_reductions_that_pass_over_nan_pass_over_the_derivative_there(name, reduction, plain):
    f = FUNCTIONS[name]
    x = np.array([NAN, 1.0, 0.5, 2.0, 3.0])
    expected = [0, *mt.grad(lambda x: plain(f(x)))(x[1:])]
    np.testing.assert_allclose(mt.grad(lambda x: reduction(f(x)))(x), expected, rtol=1e-12)
    by_forward = [mt.jvp(lambda x: reduction(f(x)), (x,), (unit,))[1] for unit in np.eye(5)]
    np.testing.assert_allclose(by_forward, expected, rtol=1e-12)


def test_missing_observations_take_no_part_in_a_fit(rng):
    inputs, observed = rng.normal(size=(6, 2)), np.array([1.0, NAN, 2.0, NAN, 0.3, -1.0])
    kept = np.isfinite(observed)
    loss = lambda w: np.nanmean((inputs @ w - observed) ** 2 / 0.5)
    same = lambda w: np.mean((inputs[kept] @ w - observed[kept]) ** 2 / 0.5)
    w = np.array([0.4, -0.7])
    np.testing.assert_allclose(mt.grad(loss)(w), mt.grad(same)(w), rtol=1e-12)
    np.testing.assert_allclose(mt.hessian(loss)(w), mt.hessian(same)(w), rtol=1e-12)
    np.testing.assert_allclose(mt.hvp(loss, (w,), (w,))[0], mt.hvp(same, (w,), (w,))[0], rtol=1e-12)


def test_a_smooth_bump_has_all_derivatives_at_its_ends():
    bump = lambda x: np.where(np.abs(x) < 1, np.exp(-1 / (1 - x**2)), 0.0)
    x = np.array([-3.0, -1.0, 0.0, 1.0])
    f = lambda x: np.sum(bump(x))
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(mt.grad(f)(x), np.zeros(4))
        second = mt.hessian(f)(x)
        np.testing.assert_allclose(second, np.diag([0, 0, -2 / np.e, 0]), rtol=1e-12)
        third = mt.grad(lambda x: np.sum(mt.grad(lambda x: np.sum(mt.grad(f)(x)))(x)))(x)
    np.testing.assert_allclose(third, np.zeros(4), atol=1e-12)


def test_a_quotient_may_be_masked_where_it_divides_by_0():
    ratio = lambda a, b: np.sum(np.where(b != 0, a / b, 0.0))
    with np.errstate(all="ignore"):
        a_bar, b_bar = mt.grad(ratio, (0, 1))(np.array([1.0, 2.0, 0.0]), np.array([0.0, 2.0, 0.0]))
    np.testing.assert_array_equal(a_bar, [0, 0.5, 0])
    np.testing.assert_array_equal(b_bar, [0, -0.5, 0])


@pytest.mark.parametrize(
    ("f", "expected"),
    [
        (lambda x: np.maximum(np.log(x), -9.0), 0),
        (lambda x: np.minimum(9.0, 1 / x), 0),
        (lambda x: np.clip(np.log(x), -9.0, 9.0), 0),
        (lambda x: np.fmax(np.log(x - 1), -9.0), 0),
        (lambda x: np.fmin(9.0, 1 / x), 0),
        (lambda x: np.max(np.stack([np.log(x), x - 4])), 1),
        (lambda x: np.min(np.stack([1 / x, 3 * x])), 3),
        (lambda x: np.max(np.stack([x, np.log(x)]), initial=-9.0, where=[True, False]), 1),
        (lambda x: np.median(np.stack([np.log(x), x, 7.0 + x])), 1),
        (lambda x: np.sort(np.stack([np.log(x), 2 * x]))[[1]][0], 2),
    ],
)
def test_the_smaller_one_of_two_has_no_part_in_the_larger(f, expected):
    x = np.float64(0.0)
    with np.errstate(all="ignore"):
        assert mt.grad(f)(x) == expected


@pytest.mark.parametrize(
    "f",
    [
        lambda x: 1 / (1 / x),  # 1, by another way than ours
        lambda x: np.exp(np.log(x)),
        lambda x: np.sum(np.where(np.isfinite(np.stack([x, x])), np.exp(np.log(x)), 0)),
        lambda x: 0 * np.log(x) + np.where(x > 0, np.log(x), 0),
        lambda x: np.where(x >= 0, np.exp(np.log(x)), 0),
    ],
)
def test_a_cotangent_that_happens_to_be_0_does_not_hide_an_infinite_derivative(f):
    with np.errstate(all="ignore"):
        assert np.isnan(mt.grad(f)(np.float64(0.0)))


def test_an_operand_that_is_used_elsewhere_takes_part_there():
    def loss(x):
        y = np.log(x)
        return np.sum(np.where(x > 0, y, 0)) + np.sum(np.exp(y))

    with np.errstate(all="ignore"):
        assert np.isnan(mt.grad(loss)(np.array([0.0, 1.0]))).tolist() == [True, False]


def test_finite_numbers_have_the_same_derivatives_as_without_selection(rng):
    x = rng.normal(size=(3, 4))
    mask = x > 0
    by_product = mt.grad(lambda x: np.sum(np.exp(x) * mask + np.cos(x) * ~mask))
    by_where = mt.grad(lambda x: np.sum(np.where(mask, np.exp(x), np.cos(x))))
    np.testing.assert_allclose(by_where(x), by_product(x), rtol=1e-14)
    by_both = mt.grad(lambda x: np.sum(np.exp(x)[mask]) + np.sum(np.cos(x), where=~mask))
    np.testing.assert_allclose(by_both(x), by_product(x), rtol=1e-14)


def test_complex_numbers_that_are_not_selected_take_no_part():
    z = np.array([0j, 1 + 1j])
    with np.errstate(all="ignore"):
        found = mt.grad(lambda z: np.sum(np.real(np.where(z != 0, 1j / z, 0))))(z)
    expected = mt.grad(lambda z: np.real(1j / z))(z[1])
    np.testing.assert_allclose(found, [0, expected], rtol=1e-14)


def test_state_that_is_reset_under_a_mask_takes_no_part():
    @mt.differentiable
    class Log:
        state: np.ndarray

        def step(self, reset):
            self.state = np.where(reset, 0.0, np.log(self.state))

    def loss(log):
        log.step(np.array([True, False]))
        return np.sum(log.state)

    with np.errstate(all="ignore"):
        tangent = mt.grad(loss)(Log(np.array([0.0, 2.0])))
    np.testing.assert_array_equal(tangent.state, [0, 0.5])


def test_a_check_for_finite_cotangents_passes_over_what_is_not_selected():
    with np.errstate(all="ignore"), mt.Context(check_finite=True) as ctx:
        x = ctx.watch(np.array([0.0, 4.0]))
        out = np.sum(np.where(x > 0, np.sqrt(x) ** 3, 0.0))
    np.testing.assert_array_equal(ctx.grad(out, x), [0, 3.0])


def test_a_mask_reads_what_its_expression_reads():
    def own(x, y):
        return x + y

    with pytest.raises(ValueError, match="the mask of own reads what its expression does not"):
        elementwise(own, lambda t, _y, _a, _b: t, None, selects=(lambda _y, a, _b: a > 0, None))
    from mutangent import _rulebook

    del _rulebook._rules[own]
