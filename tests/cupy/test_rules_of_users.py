"""CuPy has no read-only arrays; a user's rule must not harm others all the same."""

import numpy as np
import pytest

import mutangent as mt
from mutangent.testing import check_rrule


def test_a_pullback_that_writes_into_its_cotangent_harms_nobody(cp):
    @mt.primitive
    def twice(x):
        return x * 2.0

    @twice.rrule
    def twice(x):
        def pullback(y_bar):
            y_bar *= 2.0
            return (y_bar,)

        return x * 2.0, pullback

    _, pullback = mt.vjp(lambda x: twice(x * 1.0) + x, cp.ones(3))
    seed = cp.ones(3)
    for _ in range(2):
        (dx,) = pullback(seed)
        np.testing.assert_array_equal(dx.get(), 3.0)
    np.testing.assert_array_equal(seed.get(), 1.0)


def test_a_pullback_that_writes_into_an_argument_is_found_by_the_check(cp):
    @mt.primitive
    def product(x, y):
        return x * y

    @product.rrule
    def product(x, y):
        return x * y, lambda g: (np.multiply(g, y, out=y), x * g)

    with pytest.raises(AssertionError, match=r"the pullback changed args\[1\] in place"):
        check_rrule(product, cp.array([1.0, 2.0]), cp.array([0.5, 3.0]))
