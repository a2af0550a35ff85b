"""Calls of the decompositions, solvers and Fourier transforms, at points where they are smooth."""

from typing import Any

import numpy as np

from tests.rules.samples import Sample, complex_, distinct, real, regular, sample


def hermitian(x: Any) -> Any:
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def definite(x: Any) -> Any:
    return np.matmul(x, np.conj(np.swapaxes(x, -1, -2))) + 0.5 * np.eye(x.shape[-1])


def apart(n: int, *batch: int) -> Any:
    """Matrices with eigenvalues far apart, real ones."""
    return 0.3 * real(*batch, n, n) + np.diag(np.arange(n) * 1.7)


def projectors(v: Any) -> Any:
    """What does not depend on the sign or phase of each vector."""
    return v[..., :, None, :] * np.conj(v[..., None, :, :])


_tall, _wide, _square = distinct(4, 3) + 0.1 * real(4, 3), real(2, 4), regular(3)
_c = complex_(3, 2)

LINALG: dict[Any, list[Sample]] = {
    np.linalg.cholesky: [
        sample(lambda x: np.linalg.cholesky(definite(x)), real(3, 3)),
        sample(lambda x: np.linalg.cholesky(definite(x), upper=True), real(2, 2, 2)),
        sample(lambda x: np.linalg.cholesky(definite(x)), complex_(3, 3)),
    ],
    np.linalg.eigh: [
        sample(lambda x: np.linalg.eigh(hermitian(x)), apart(3)),
        sample(lambda x: np.linalg.eigh(hermitian(x), "U").eigenvectors, apart(3, 2)),
        sample(lambda x: np.linalg.eigh(hermitian(x))[0], complex_(3, 3)),
        sample(lambda x: projectors(np.linalg.eigh(hermitian(x))[1]), complex_(3, 3)),
    ],
    np.linalg.eigvalsh: [
        sample(lambda x: np.linalg.eigvalsh(hermitian(x)), apart(3, 2)),
        sample(lambda x: np.linalg.eigvalsh(hermitian(x), UPLO="U"), complex_(3, 3)),
    ],
    np.linalg.eig: [
        sample(np.linalg.eig, apart(3)),
        sample(lambda x: np.linalg.eig(x).eigenvalues, complex_(3, 3)),
        sample(lambda x: projectors(np.linalg.eig(x)[1]), real(3, 3) - 3 * real(3, 3).T),
    ],
    np.linalg.eigvals: [
        sample(np.linalg.eigvals, apart(3, 2)),
        sample(np.linalg.eigvals, complex_(3, 3)),
        sample(np.linalg.eigvals, np.array([[0.0, -2.0], [1.0, 0.5]])),
    ],
    np.linalg.qr: [
        sample(np.linalg.qr, _tall),
        sample(np.linalg.qr, _square),
        sample(np.linalg.qr, _wide),
        sample(np.linalg.qr, _c),
        sample(lambda x: np.linalg.qr(x, mode="r"), real(2, 4, 3)),
        sample(lambda x: np.linalg.qr(x, "complete").R, _tall),
        sample(lambda x: projectors(np.linalg.qr(x, "complete").Q[:, 3:]), _tall),
    ],
    np.linalg.svd: [
        sample(lambda x: np.linalg.svd(x, full_matrices=False), _tall),
        sample(np.linalg.svd, _square),
        sample(lambda x: np.linalg.svd(x, full_matrices=False).Vh, _wide),
        sample(lambda x: np.linalg.svd(x)[1], real(2, 2, 3)),
        sample(lambda x: np.linalg.svd(x, compute_uv=False), _c),
        sample(lambda x: projectors(np.linalg.svd(x)[0][:, 3:]), _tall),
        sample(lambda x: projectors(np.swapaxes(np.linalg.svd(x)[2], -1, -2)[:, :2]), _wide),
        sample(lambda x: np.linalg.svd(hermitian(x), hermitian=True)[1], apart(3) - 1),
        sample(lambda x: np.linalg.svd(hermitian(x), True, False, True), apart(3) - 1),
        sample(lambda x: projectors(np.linalg.svd(x, full_matrices=False)[0]), _c),
        sample(
            lambda x: np.matmul(*[np.linalg.svd(x, full_matrices=False)[k] for k in (0, 2)]),
            complex_(2, 2, 3),
        ),
    ],
    np.linalg.svdvals: [sample(np.linalg.svdvals, real(2, 3, 2))],
    np.linalg.pinv: [
        sample(np.linalg.pinv, _tall),
        sample(lambda x: np.linalg.pinv(x, rtol=None), real(2, 2, 3)),
        sample(np.linalg.pinv, _c),
        sample(lambda x: np.linalg.pinv(hermitian(x), hermitian=True), _square),
        sample(lambda x, y: np.linalg.pinv(np.outer(x, y), 1e-9), real(3), real(2)),
    ],
    np.linalg.lstsq: [
        sample(np.linalg.lstsq, _tall, real(4)),
        sample(lambda a, b: np.linalg.lstsq(a, b, rcond=None)[:2], _tall, real(4, 2)),
        sample(lambda a, b: np.linalg.lstsq(a, b, rcond=-1), _wide, real(2)),
        sample(np.linalg.lstsq, _c, complex_(3)),
    ],
    np.linalg.cond: [
        *[sample(lambda x, p=p: np.linalg.cond(x, p), _square) for p in (None, 2, -2, 1, -1, np.inf, "fro")],
        sample(np.linalg.cond, real(2, 2, 3)),
    ],
    np.linalg.matrix_power: [
        *[sample(lambda x, n=n: np.linalg.matrix_power(x, n), _square) for n in (1, 2, 3, 5, 6, -2)],
        sample(lambda x: np.linalg.matrix_power(x, 0) * x, real(2, 2, 2)),
    ],
    np.linalg.multi_dot: [
        sample(lambda a, b: np.linalg.multi_dot([a, b]), real(2, 3), real(3, 2)),
        sample(lambda a, b, c: np.linalg.multi_dot([a, b, c]), real(3), real(3, 4), real(4)),
        sample(lambda a, b, c: np.linalg.multi_dot([a, b, c, b]), real(5, 2), real(2, 6), real(6, 2)),
    ],
    np.linalg.cross: [sample(np.linalg.cross, real(2, 3), real(3))],
    np.cross: [
        sample(np.cross, real(2, 3), real(3)),
        sample(lambda a, b: np.cross(a, b, axis=0), real(3, 2), real(3, 2)),
        sample(lambda a, b: np.cross(a, b, axisa=0, axisb=1, axisc=0), real(3, 2), real(2, 3)),
    ],
    np.linalg.tensorinv: [
        sample(np.linalg.tensorinv, regular(4).reshape(2, 2, 2, 2)),
        sample(lambda x: np.linalg.tensorinv(x, ind=1), regular(4).reshape(4, 2, 2)),
    ],
    np.linalg.tensorsolve: [
        sample(np.linalg.tensorsolve, regular(4).reshape(2, 2, 4), real(2, 2)),
        sample(lambda a, b: np.linalg.tensorsolve(a, b, axes=(0,)), regular(4).reshape(2, 4, 2), real(4)),
    ],
}

_x, _m, _z = real(5), real(3, 4), complex_(3, 4)
_t = complex_(2, 3, 4)

FOURIER: dict[Any, list[Sample]] = {
    **{
        f: [
            sample(f, _x),
            sample(f, _z),
            sample(lambda x, f=f: f(x, n=6, axis=0, norm="ortho"), _z),
            sample(lambda x, f=f: f(x, 3, norm="forward"), _m),
        ]
        for f in (np.fft.fft, np.fft.ifft, np.fft.irfft, np.fft.hfft)
    },
    **{
        f: [
            sample(f, _x),
            sample(f, _m),
            sample(lambda x, f=f: f(x, n=6, axis=0, norm="ortho"), _m),
            sample(lambda x, f=f: f(x, 3, norm="forward"), _m),
        ]
        for f in (np.fft.rfft, np.fft.ihfft)
    },
    **{
        f: [
            sample(f, _t.real.copy() if f in (np.fft.rfftn, np.fft.rfft2) else _t),
            sample(lambda x, f=f: f(x, s=(3, 5), axes=(0, 1), norm="ortho"), _m),
            sample(lambda x, f=f: f(x, axes=(-1, 0)), _m),
        ]
        for f in (
            *(np.fft.fft2, np.fft.ifft2, np.fft.rfft2, np.fft.irfft2),
            *(np.fft.fftn, np.fft.ifftn, np.fft.rfftn, np.fft.irfftn),
        )
    },
    np.fft.fftshift: [sample(np.fft.fftshift, _m), sample(lambda x: np.fft.fftshift(x, axes=-1), _t)],
    np.fft.ifftshift: [sample(np.fft.ifftshift, _x), sample(lambda x: np.fft.ifftshift(x, (0, 2)), _t)],
}
