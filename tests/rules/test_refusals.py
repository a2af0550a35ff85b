"""What a rule does not cover is refused where it is called, not in the sweep."""

import numpy as np
import pytest

import mutangent as mt

_x = np.array([[0.3, 1.2], [0.7, -0.4]])


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda x: np.var(x, mean=np.mean(x)), r"numpy.var with respect to mean="),
        (
            lambda x: np.quantile(x, x[0, 0], method="inverted_cdf", weights=_x),
            r"numpy.quantile with respect to q and weights=",
        ),
        (
            lambda x: np.quantile(x, x[0, 0], method="hazen"),
            r"numpy.quantile with respect to q and method='hazen'",
        ),
        (lambda x: np.linalg.qr(x, "raw"), r"numpy.linalg.qr with mode='raw'"),
        (lambda x: np.histogram2d(x[0], x[1]), r"numpy.histogram2d has no derivative rule.*Use np.histogram"),
        (lambda x: np.reshape(x, 4, order="A"), r"numpy.reshape with order='A'"),
        (lambda x: np.ravel(x, "K"), r"numpy.ravel with order='K'"),
        (lambda x: np.pad(x, 1, mode=lambda *_args: None), r"numpy.pad with a function for mode="),
        (
            lambda x: np.pad(x, 2, "reflect", reflect_type="odd"),
            r"numpy.pad with reflect_type='odd' and pads longer than axis 0",
        ),
        (lambda x: np.interp(x, [0.0, 1.0], [1.0, 2.0], left=x), r"numpy.interp with respect to left="),
        (lambda x: np.matmul(x, x, axes=[(0, 1), (0, 1), (0, 1)]), r"numpy.matmul with axes="),
        (lambda x: np.nan_to_num(x, copy=False), r"numpy.nan_to_num with copy="),
        (lambda x: np.einsum("ij->i", x, dtype=np.float32), None),
        (lambda x: np.ldexp(1.0, x), None),
        (np.power.reduce, r"numpy.power.reduce"),
        (lambda x: np.multiply(x, x, where=x > 0), r"numpy.multiply with where="),
    ],
)
def test_a_call_without_a_rule_is_refused_at_the_call(call, text):
    def loss(x):
        error = mt.NoRuleError if text else TypeError
        with pytest.raises(error, match=text):
            call(x)
        return np.sum(x)

    mt.grad(loss)(_x)


def test_a_list_of_traced_values_is_no_array():
    def loss(x):
        with pytest.raises(mt.TracedValueError, match=r"np\.stack"):
            np.dot([x[0, 0], x[0, 1]], x)
        return np.sum(np.stack([x[0, 0], x[0, 1]]))

    np.testing.assert_array_equal(mt.grad(loss)(_x), [[1, 1], [0, 0]])
