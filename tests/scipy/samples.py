"""Calls of every function of `mutangent.scipy`, at points where it is smooth."""

from collections.abc import Callable
from typing import Any

import numpy as np

from mutangent.scipy import linalg, signal, special
from mutangent.scipy.stats import norm
from tests.rules.samples import Sample, complex_, real, regular, sample

_a, _c = regular(2), regular(2) + 0.3j * regular(2)
_b, _d = real(2), complex_(2, 2)
_x, _m, _z = real(5), real(3, 4), complex_(2, 3)
_long, _short = real(7), real(4)
_image, _kernel = real(4, 5), real(3, 2)


def definite(a: Any) -> Any:
    return a @ np.conj(a.T) + np.eye(len(a))


def symmetric(a: Any) -> Any:
    return a + a.T


def hermitian(a: Any) -> Any:
    return a + np.conj(a.T)


SAMPLES: dict[Callable[..., Any], list[Sample]] = {
    special.logsumexp: [
        sample(special.logsumexp, _x),
        sample(lambda x: special.logsumexp(x, axis=0), _m),
        sample(lambda x: special.logsumexp(x, axis=(0, 1), keepdims=True), _m),
        sample(lambda x, b: special.logsumexp(x, axis=-1, b=b), _m, 1 + real(4) ** 2),
        sample(lambda b: special.logsumexp(_x, b=b), np.array([1.0, 0.0, 2.0, 0.5, -0.1])),
        sample(special.logsumexp, _z),
    ],
    special.softmax: [sample(special.softmax, _x), sample(lambda x: special.softmax(x, axis=1), _m)],
    special.log_softmax: [
        sample(special.log_softmax, _x),
        sample(lambda x: special.log_softmax(x, axis=1), _m),
    ],
    special.polygamma: [
        sample(lambda x: special.polygamma(0, x), np.array([-0.4, 0.3, 1.7])),
        sample(lambda x: special.polygamma([0, 1, 3], x), np.array([0.4, 0.3, 1.7])),
        sample(lambda x: special.polygamma(2, x), np.array([0.4, 0.3, 1.7])),
    ],
    special.multigammaln: [sample(lambda a: special.multigammaln(a, 3), np.array([1.3, 2.2]))],
    special.lambertw: [
        sample(special.lambertw, np.array([-0.2, 0.0, 1.7])),
        sample(special.lambertw, np.array([-0.2 + 1j, 0.5j])),
        sample(lambda z: special.lambertw(z, -1), np.array([-0.2, -0.1])),
    ],
    linalg.solve: [
        sample(linalg.solve, _a, _b),
        sample(linalg.solve, _c, _d),
        sample(lambda a, b: linalg.solve(a, b, transposed=True), _a, _b),
        sample(lambda a, b: linalg.solve(symmetric(a), b, assume_a="sym"), _a, _b),
        sample(lambda a, b: linalg.solve(symmetric(a), b, assume_a="sym"), _c, _d),
        sample(lambda a, b: linalg.solve(hermitian(a), b, lower=True, assume_a="her"), _c, _d),
        sample(lambda a, b: linalg.solve(definite(a), b, assume_a="pos"), _a, _b),
        sample(lambda a, b: linalg.solve(definite(a), b, lower=True, assume_a="pos"), _c, _d),
    ],
    linalg.inv: [sample(linalg.inv, _a), sample(linalg.inv, _c)],
    linalg.det: [sample(linalg.det, _a), sample(linalg.det, _c)],
    linalg.solve_triangular: [
        sample(linalg.solve_triangular, _a, _b),
        sample(lambda a, b: linalg.solve_triangular(a, b, lower=True), _c, _d),
        sample(lambda a, b: linalg.solve_triangular(a, b, trans="T"), _c, _d),
        sample(lambda a, b: linalg.solve_triangular(a, b, trans=2, lower=True), _c, _d),
        sample(lambda a, b: linalg.solve_triangular(a, b, unit_diagonal=True), _a, _b),
    ],
    linalg.cholesky: [
        sample(lambda a: linalg.cholesky(definite(a)), _a),
        sample(lambda a: linalg.cholesky(definite(a), lower=True), _c),
    ],
    linalg.cho_factor: [sample(lambda a: linalg.cho_factor(definite(a))[0], _a)],
    linalg.cho_solve: [
        sample(lambda c, b: linalg.cho_solve((c, True), b), _a, _b),
        sample(lambda c, b: linalg.cho_solve((c, False), b), _c, _d),
        sample(lambda a, b: linalg.cho_solve(linalg.cho_factor(definite(a)), b), _a, _b),
    ],
    linalg.expm: [
        sample(linalg.expm, _a / 3),
        sample(linalg.expm, _c / 3),
        sample(linalg.expm, real(2, 2, 2)),
    ],
    linalg.logm: [sample(linalg.logm, _a), sample(linalg.logm, _c)],
    linalg.sqrtm: [sample(linalg.sqrtm, _a), sample(linalg.sqrtm, _c)],
    linalg.solve_sylvester: [
        sample(linalg.solve_sylvester, _a, regular(3), real(2, 3)),
        sample(linalg.solve_sylvester, _c, regular(3), complex_(2, 3)),
    ],
    linalg.solve_continuous_lyapunov: [
        sample(linalg.solve_continuous_lyapunov, _a, real(2, 2)),
        sample(linalg.solve_continuous_lyapunov, _c, complex_(2, 2)),
    ],
    linalg.solve_discrete_lyapunov: [
        sample(linalg.solve_discrete_lyapunov, _a / 7, real(2, 2)),
        sample(linalg.solve_discrete_lyapunov, _c / 9, complex_(2, 2)),
        sample(lambda a, q: linalg.solve_discrete_lyapunov(a, q, "bilinear"), _a / 7, real(2, 2)),
    ],
    signal.convolve: [
        *(
            sample(lambda a, b, mode=mode, method=method: signal.convolve(a, b, mode, method), *operands)
            for mode in ("full", "same", "valid")
            for method in ("direct", "fft")
            for operands in ((_long, _short), (_short, _long), (_image, _kernel))
        ),
        sample(signal.convolve, complex_(5), complex_(3)),
        sample(signal.convolve, complex_(5), real(3)),
    ],
    signal.correlate: [
        *(
            sample(lambda a, b, mode=mode: signal.correlate(a, b, mode), *operands)
            for mode in ("full", "same", "valid")
            for operands in ((_long, _short), (_short, _long), (_image, _kernel))
        ),
        sample(signal.correlate, complex_(5), complex_(3)),
    ],
    signal.fftconvolve: [sample(signal.fftconvolve, _image, _kernel)],
    **{
        method: [sample(method, real(4), real(4), np.array([0.4, 1.0, 1.7, 2.2])), sample(method, real(4))]
        for method in (norm.logpdf, norm.pdf, norm.cdf, norm.logcdf, norm.sf, norm.logsf)
    },
    norm.ppf: [sample(norm.ppf, np.array([0.1, 0.5, 0.8]), real(3), np.array([0.4, 1.0, 1.7]))],
}
