"""Calls of the composed functions of statistics, polynomials, sequences and assembly, at points where they are smooth."""

from typing import Any

import numpy as np

from tests.rules.samples import Sample, complex_, distinct, positive, real, sample

_x, _m, _t = distinct(5), distinct(3, 4), distinct(2, 3, 4)
_mask = np.array([[True, False, True, True], [False, True, True, True], [True, True, True, False]])
_METHODS = (
    *("linear", "lower", "higher", "midpoint", "nearest", "inverted_cdf", "averaged_inverted_cdf"),
    *("closest_observation", "interpolated_inverted_cdf", "hazen", "weibull", "median_unbiased"),
    "normal_unbiased",
)


def holed(x: Any) -> Any:
    """Put some nan in."""
    return np.where(_mask, x, np.nan)


STATISTICS: dict[Any, list[Sample]] = {
    np.median: [
        sample(np.median, _m),
        sample(lambda x: np.median(x, axis=0), _m),
        sample(lambda x: np.median(x, axis=(0, -1), keepdims=True), _t),
        sample(lambda x: np.median(np.where(x > 3.5, np.nan, x), axis=-1)[:1], _m),
    ],
    np.quantile: [
        *[sample(lambda x, m=m: np.quantile(x, [0.1, 0.5, 0.77], axis=1, method=m), _m) for m in _METHODS],
        sample(lambda x: np.quantile(x, 0.3), _m),
        sample(lambda x: np.quantile(x, 0.3, weights=_m**2, method="inverted_cdf"), _m),
        sample(
            lambda x, w: np.quantile(
                x, [0.2, 0.7], axis=(2, 0), keepdims=True, weights=w, method="inverted_cdf"
            ),
            *(_t, positive(4, 2)),
        ),
        sample(lambda x: np.quantile(x, np.array([[0.0, 1.0]]), axis=(0, 2), keepdims=True), _t),
        sample(lambda x, q: np.quantile(x, q, axis=0), _m, np.array([0.3, 0.8])),
    ],
    np.nanpercentile: [
        sample(lambda x: np.nanpercentile(holed(x), 40.0, axis=0), _m),
        sample(lambda x: np.nanpercentile(holed(x), [40, 90], 1, weights=_m**2, method="inverted_cdf"), _m),
    ],
    np.percentile: [sample(lambda x: np.percentile(x, [30, 75], axis=-1, method="hazen"), _m)],
    np.nanmedian: [
        sample(lambda x: np.nanmedian(holed(x), axis=0), _m),
        sample(lambda x: np.nanmedian(holed(x), keepdims=True), _m),
        sample(lambda x: np.nanmedian(holed(x)), _m),
    ],
    np.nanquantile: [
        sample(lambda x: np.nanquantile(holed(x), [0.2, 0.9], axis=1), _m),
        sample(lambda x: np.nanquantile(holed(x), 0.3, axis=(0, 1), method="weibull", keepdims=True), _m),
    ],
    np.nanvar: [
        sample(lambda x: np.nanvar(holed(x)), _m),
        sample(lambda x: np.nanvar(holed(x), axis=1, ddof=1, keepdims=True), _m),
        sample(lambda x: np.nanvar(holed(x), axis=0, where=np.array([[True], [True], [False]])), _m),
    ],
    np.nanstd: [
        sample(lambda x: np.nanstd(holed(x)), _m),
        sample(lambda x: np.nanstd(holed(x), axis=1, correction=1), _m),
    ],
    np.nanprod: [
        sample(lambda x: np.nanprod(holed(x), axis=0), _m),
        sample(lambda x: np.nanprod(holed(x), initial=2.0, where=_mask[:, ::-1]), _m),
    ],
    np.nancumsum: [sample(lambda x: np.nancumsum(holed(x), axis=1), _m)],
    np.nancumprod: [sample(lambda x: np.nancumprod(holed(x)), _m)],
    np.average: [
        sample(np.average, _m),
        sample(lambda x, w: np.average(x, weights=w), _m, positive(3, 4)),
        sample(lambda x, w: np.average(x, axis=1, weights=w, keepdims=True), _m, positive(4)),
        sample(lambda x, w: np.average(x, axis=(2, 0), weights=w, returned=True), _t, positive(4, 2)),
        sample(lambda x: np.average(x, axis=0, returned=True), _m),
    ],
    np.cov: [
        sample(np.cov, _m),
        sample(np.cov, _x),
        sample(lambda x, y: np.cov(x, y, rowvar=False, bias=True), _m, real(3, 2)),
        sample(lambda x, w: np.cov(x, aweights=w), _m, positive(4)),
        sample(lambda x, w: np.cov(x, fweights=[1, 2, 3, 1], aweights=w, ddof=0), _m, positive(4)),
        sample(lambda x: np.cov(x, fweights=[1, 2, 3, 1]), _m),
        sample(np.cov, complex_(2, 3)),
        sample(np.cov, real(4), real(4)),
    ],
    np.corrcoef: [
        sample(np.corrcoef, _m),
        sample(np.corrcoef, real(4), real(4)),
        sample(lambda x: np.corrcoef(x, rowvar=False), real(4, 2)),
        sample(np.corrcoef, complex_(2, 4)),
    ],
    np.histogram: [
        sample(lambda w: np.histogram([0.1, 0.4, 0.7, 2.0], bins=3, weights=w)[0], real(4)),
        sample(
            lambda w: np.histogram([0.1, 0.4, 0.7, 2.0], [0.0, 0.5, 0.8], weights=w, density=True)[0],
            positive(4),
        ),
        sample(lambda x: np.histogram(x, 3)[1], _x),
        sample(lambda x: np.histogram(x, 3, density=True), _x),
    ],
    np.histogram_bin_edges: [sample(lambda x: np.histogram_bin_edges(x, 4), _x)],
}

SETS: dict[Any, list[Sample]] = {
    np.partition: [
        sample(lambda x: np.partition(x, 2), _m),
        sample(lambda x: np.partition(x, (0, -1), axis=0), _m),
        sample(lambda x: np.partition(x, 3, axis=None), _m),
    ],
    np.sort_complex: [sample(np.sort_complex, _x), sample(np.sort_complex, complex_(4))],
    np.trim_zeros: [
        sample(lambda x: np.trim_zeros(np.where(x < 0, 0, x)), np.array([-1.0, 2.0, -1.0, 3.0, -0.5])),
        sample(lambda x: np.trim_zeros(np.where(x < 0, 0, x), "b"), np.array([-1.0, 2.0, -1.0, 3.0, -0.5])),
    ],
    np.unique: [
        sample(np.unique, _m),
        sample(lambda x: np.unique(x[[0, 1, 0]], True, True, True)[0], _m),
        sample(lambda x: np.unique(x, axis=0), _m),
    ],
    np.unique_values: [sample(np.unique_values, _m)],
    np.unique_counts: [sample(lambda x: np.unique_counts(x).values, _m)],
    np.unique_inverse: [sample(lambda x: np.unique_inverse(x)[0], _m)],
    np.unique_all: [sample(lambda x: np.unique_all(x).values, _m)],
    np.intersect1d: [
        sample(lambda x: np.intersect1d(x, x[1:3]), _x),
        sample(lambda x: np.intersect1d(x[2:], x, True, return_indices=True)[0], _x),
    ],
    np.union1d: [sample(np.union1d, _x, real(3))],
    np.setdiff1d: [sample(lambda x: np.setdiff1d(x, x[1:3]), _x)],
    np.setxor1d: [sample(lambda x, y: np.setxor1d(x, np.concatenate([x[1:3], y])), _x, real(2))],
}

SEQUENCES: dict[Any, list[Sample]] = {
    np.linspace: [
        sample(lambda a, b: np.linspace(a, b, 4), np.float64(0.3), np.float64(1.7)),
        sample(lambda a, b: np.linspace(a, b, num=3, endpoint=False, axis=-1), real(2), real(3, 1)),
        sample(lambda a: np.linspace(a, 2.0, 5, retstep=True), np.float64(0.3)),
        sample(lambda a: np.linspace(a, 2.0, 1), real(2)),
        sample(lambda a, b: np.linspace(a, b, 4), complex_(2), complex_(2)),
    ],
    np.logspace: [
        sample(lambda a, b: np.logspace(a, b, 4), np.float64(0.3), np.float64(1.7)),
        sample(lambda a, b: np.logspace(a, 1.0, 3, base=b, axis=1), real(2), positive(2)),
    ],
    np.geomspace: [
        sample(lambda a, b: np.geomspace(a, b, 4), np.float64(0.3), np.float64(1.7)),
        sample(lambda a, b: np.geomspace(-a, -b, 3, endpoint=False, axis=1), positive(2), positive(2)),
        sample(lambda a, b: np.geomspace(a, b, 4), complex_(2), complex_(2)),
    ],
    np.ediff1d: [
        sample(np.ediff1d, _m),
        sample(lambda x, y: np.ediff1d(x, to_begin=y, to_end=[1.0, 2.0]), _x, real(2)),
    ],
    np.gradient: [
        sample(np.gradient, _x),
        sample(np.gradient, _m),
        sample(lambda f: np.gradient(f, 0.5, edge_order=2), _m),
        sample(lambda f, dx: np.gradient(f, dx, axis=1), _m, np.float64(0.4)),
        sample(lambda f, x: np.gradient(f, x, 2.0), _m, np.array([0.0, 0.3, 1.1])),
        sample(lambda f, x: np.gradient(f, x, axis=-1, edge_order=2), _m, np.array([0.0, 0.3, 1.1, 1.5])),
        sample(lambda f: np.gradient(f, axis=(1, 0)), complex_(3, 3)),
    ],
    np.unwrap: [
        sample(np.unwrap, 3 * _x),
        sample(lambda x: np.unwrap(x, axis=0, period=2.0), 3 * _m),
    ],
}

POLYNOMIALS: dict[Any, list[Sample]] = {
    **{
        f: [
            sample(f, real(5), real(3)),
            *[
                sample(lambda a, v, f=f, mode=mode: f(a, v, mode), real(n), complex_(m))
                for mode in ("full", "same", "valid")
                for n, m in ((5, 3), (4, 2), (2, 5), (3, 4))
            ],
        ]
        for f in (np.convolve, np.correlate)
    },
    np.polyadd: [sample(np.polyadd, real(3), real(2))],
    np.polysub: [
        sample(np.polysub, real(2), real(3)),
        sample(lambda p: np.polysub([1.0, 2.0, 3.0], p), real(2)),
    ],
    np.polymul: [sample(np.polymul, real(3), real(2))],
    np.polydiv: [sample(np.polydiv, real(5), real(3)), sample(np.polydiv, real(2), real(3))],
    np.polyder: [sample(np.polyder, real(4)), sample(lambda p: np.polyder(p, 2), real(4))],
    np.polyint: [sample(np.polyint, real(3)), sample(lambda p: np.polyint(p, 2, [1.0, 2.0]), real(3))],
    np.polyval: [
        sample(np.polyval, real(3), real(2, 2)),
        sample(lambda x: np.polyval([1.0, -2.0, 0.5], x), _x),
        sample(lambda p: np.polyval(p, 0.7), real(4)),
    ],
    np.poly: [sample(np.poly, real(3)), sample(np.poly, real(2, 2) + np.diag([3.0, 0.0]))],
    np.roots: [
        sample(np.roots, np.array([1.0, -2.0, -1.3, 0.7])),
        sample(np.roots, np.array([1.0, 0.2, 3.0])),
        sample(lambda p: np.roots(np.concatenate([p, np.zeros(1)])), np.array([1.0, -3.0, 1.0])),
    ],
    np.vander: [
        sample(np.vander, _x),
        sample(lambda x: np.vander(x, 3, increasing=True), _x),
        sample(lambda x: np.vander(x, 4), np.array([0.0, 1.5])),
    ],
    np.polyfit: [
        sample(lambda x, y: np.polyfit(x, y, 2), _x, real(5)),
        sample(lambda x, y, w: np.polyfit(x, y, 1, w=w), _x, real(5, 2), positive(5)),
        sample(lambda x, y: np.polyfit(x, y, 1, cov=True), _x, real(5)),
        sample(lambda x, y: np.polyfit(x, y, 1, full=True)[:2], _x, real(5)),
    ],
}

ASSEMBLING: dict[Any, list[Sample]] = {
    np.frexp: [sample(lambda x: np.frexp(x)[0], _m)],
    np.i0: [sample(np.i0, np.array([0.0, 0.3, -2.0, 7.5, 20.0])), sample(np.i0, 0.5 * _m)],
    np.block: [
        sample(lambda a, b, c: np.block([[a, b], [c, np.ones((1, 1))]]), real(2, 2), real(2, 1), real(1, 2)),
        sample(lambda a, b: np.block([a, b]), real(2), np.float64(0.4)),
        sample(np.block, real(2)),
    ],
    np.choose: [
        sample(lambda a, b: np.choose([0, 1, 1], [a, b]), real(3), np.float64(0.3)),
        sample(lambda a, b: np.choose(np.array([[5], [-1]]), (a, b), mode="wrap"), real(3), real(3)),
        sample(lambda a: np.choose([0, 3], a, mode="clip"), real(3, 2)),
    ],
    np.piecewise: [
        sample(lambda x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v**2, np.sqrt]), _x),
        sample(lambda x: np.piecewise(x, [x < -0.4, x > 0.4], [np.exp, 2.0, lambda v: v * 3]), _m),
        sample(lambda x: np.piecewise(x, x > 0, [np.exp, np.sin]), np.float64(0.4)),
    ],
    np.insert: [
        sample(lambda x, v: np.insert(x, 1, v), _x, np.float64(0.4)),
        sample(lambda x, v: np.insert(x, [0, 2], v, axis=1), _m, real(3, 2)),
        sample(lambda x: np.insert(x, 2, [1.0, 2.0, 3.0, 4.0], axis=0), _m),
        sample(lambda v: np.insert(np.ones(3), slice(0, 2), v), real(2)),
    ],
    np.apply_along_axis: [
        sample(lambda x: np.apply_along_axis(np.cumprod, 0, x), _m),
        sample(lambda x: np.apply_along_axis(lambda v, k: np.outer(v, v) * k, 1, x, 2.0), _t),
        sample(lambda x: np.apply_along_axis(np.sum, -1, x), _m),
    ],
    np.apply_over_axes: [sample(lambda x: np.apply_over_axes(np.mean, x, (0, 2)), _t)],
    np.rollaxis: [
        sample(lambda x: np.rollaxis(x, 2), _t),
        sample(lambda x: np.rollaxis(x, -1, 1), _t),
        sample(lambda x: np.rollaxis(x, 0, 3), _t),
    ],
    np.diagflat: [sample(np.diagflat, real(2, 2)), sample(lambda x: np.diagflat(x, -1), real(2))],
    np.real_if_close: [
        sample(np.real_if_close, _m),
        sample(np.real_if_close, complex_(3)),
        sample(lambda x: np.real_if_close(x + 0j), _m),
    ],
}
