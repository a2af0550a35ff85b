"""Calls of every function with a rule, at points where it is smooth. A rule without a sample fails the suite.

Elementwise functions need only numbers from their domain: the tests make operands of all shapes from them.
"""

import io
from collections.abc import Callable
from typing import Any

import attrs
import numpy as np

_rng = np.random.default_rng(20221130)


def real(*shape: int) -> Any:
    return _rng.normal(size=shape)


def positive(*shape: int) -> Any:
    return _rng.uniform(0.5, 2.0, size=shape)


def distinct(*shape: int) -> Any:
    """Numbers with gaps that no numerical derivative jumps over; neither 0 nor alike in size."""
    size = int(np.prod(shape))
    return (_rng.permutation(size) * 0.37 - 0.31 * size / 2 + 0.05).reshape(shape)


def complex_(*shape: int) -> Any:
    return real(*shape) + 1j * real(*shape)


def regular(n: int, *batch: int) -> Any:
    """Matrices far from singular."""
    return real(*batch, n, n) + 3 * np.eye(n)


@attrs.frozen
class Sample:
    """A call, and the operands with respect to which it is differentiated."""

    call: Callable[..., Any]
    operands: tuple[Any, ...]
    order: int = 2


def changed(x: Any, write: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Return a copy of `x` after a function has written into it."""
    y = x + 0.0 * np.sum(args[-1])  # traced, whichever of the two is
    write(y, *args, **kwargs)
    return y


def sample(call: Callable[..., Any], *operands: Any, order: int = 2) -> Sample:
    return Sample(call, operands, order)


_INNER = np.array([-0.83, -0.4, 0.21, 0.6])
_ANY = np.array([-1.7, -0.6, 0.35, 2.2])
_OTHER = np.array([0.9, -1.3, 1.6, 0.7])
_POSITIVE = np.array([0.3, 0.8, 1.7, 2.5])
_OVER_ONE = np.array([1.2, 1.7, 2.5, 4.0])
_SIGNED = np.array([-2.3, 1.9, -3.1, 2.7])

# By function: the numbers for each operand.
ELEMENTWISE: dict[Any, tuple[Any, ...]] = {
    np.add: (_ANY, _OTHER),
    np.subtract: (_ANY, _OTHER),
    np.multiply: (_ANY, _OTHER),
    np.divide: (_ANY, _OTHER),
    np.negative: (_ANY,),
    np.positive: (_ANY,),
    np.square: (_ANY,),
    np.reciprocal: (_OTHER,),
    np.remainder: (7.3 * _ANY, _SIGNED),
    np.fmod: (7.3 * _ANY, _SIGNED),
    np.power: (_POSITIVE, _ANY),
    np.float_power: (_POSITIVE, _ANY),
    np.sqrt: (_POSITIVE,),
    np.cbrt: (_ANY,),
    np.exp: (_ANY,),
    np.exp2: (_ANY,),
    np.expm1: (_ANY,),
    np.log: (_POSITIVE,),
    np.log2: (_POSITIVE,),
    np.log10: (_POSITIVE,),
    np.log1p: (_INNER,),
    np.logaddexp: (_ANY, _OTHER),
    np.logaddexp2: (_ANY, _OTHER),
    np.sin: (_ANY,),
    np.cos: (_ANY,),
    np.tan: (_INNER,),
    np.arcsin: (_INNER,),
    np.arccos: (_INNER,),
    np.arctan: (_ANY,),
    np.sinh: (_ANY,),
    np.cosh: (_ANY,),
    np.tanh: (_ANY,),
    np.arcsinh: (_ANY,),
    np.arccosh: (_OVER_ONE,),
    np.arctanh: (_INNER,),
    np.arctan2: (_ANY, _OTHER),
    np.hypot: (_ANY, _OTHER),
    np.degrees: (_ANY,),
    np.rad2deg: (_ANY,),
    np.radians: (_ANY,),
    np.deg2rad: (_ANY,),
    np.sinc: (np.array([-1.3, -0.02, 0.12, 0.7]),),
    np.maximum: (_ANY, _OTHER),
    np.minimum: (_ANY, _OTHER),
    np.fmax: (_ANY, _OTHER),
    np.fmin: (_ANY, _OTHER),
    np.where: (_ANY, _OTHER, _SIGNED),
    np.heaviside: (_ANY, _OTHER),
    np.copysign: (_ANY, _SIGNED),
    np.nextafter: (_ANY, _OTHER),
    np.ldexp: (_ANY, np.array([-1, 0, 3, 2])),
    np.fabs: (_ANY,),
}

# Numbers off the real axis for the functions that NumPy defines there.
HOLOMORPHIC: dict[Any, tuple[Any, ...]] = {
    function: tuple([numbers + 1j * np.array([0.3, -0.7, 0.45, -0.2]) for numbers in ELEMENTWISE[function]])
    for function in (
        *(np.add, np.subtract, np.multiply, np.divide, np.negative, np.positive, np.square, np.reciprocal),
        *(np.power, np.float_power, np.sqrt, np.exp, np.exp2, np.expm1, np.log, np.log2, np.log10, np.log1p),
        *(np.sin, np.cos, np.tan, np.arcsin, np.arccos, np.arctan, np.sinh, np.cosh, np.tanh),
        *(np.arcsinh, np.arccosh, np.arctanh, np.sinc),
    )
}

_x, _m, _t = distinct(5), distinct(3, 4), distinct(2, 3, 4)
_z = complex_(2, 3)
_some = np.array([[True, False, True, True], [False, True, True, True], [True, True, True, False]])

SAMPLES: dict[Any, list[Sample]] = {
    # elementwise, with settings or not holomorphic
    np.absolute: [sample(np.absolute, _m), sample(np.absolute, _z)],
    np.sign: [sample(np.sign, _m), sample(np.sign, _z)],
    np.conjugate: [sample(np.conjugate, _m), sample(np.conjugate, _z), sample(lambda z: z.conj(), _z)],
    np.real: [sample(np.real, _m), sample(np.real, _z), sample(lambda z: z.real, _z)],
    np.imag: [sample(np.imag, _m), sample(np.imag, _z), sample(lambda z: z.imag, _z)],
    np.angle: [
        sample(np.angle, _m),
        sample(np.angle, _z),
        sample(lambda z: np.angle(z, deg=True), _z),
    ],
    np.nan_to_num: [
        sample(lambda x: np.nan_to_num(np.where(x > 0.5, np.nan, x), nan=2.0, posinf=9.0), _m),
        sample(np.nan_to_num, _z),
        sample(lambda x: np.nan_to_num(x, True, 1.0), _m),
    ],
    np.modf: [sample(lambda x: np.modf(x)[0], _m), sample(np.modf, _m)],
    np.divmod: [
        sample(lambda x, y: np.divmod(x, y)[1], 7.3 * _ANY, _SIGNED),
        sample(np.divmod, 7.3 * _ANY, _SIGNED),
    ],
    np.clip: [
        sample(np.clip, _m, np.array([-0.6]), np.array([[0.5], [0.6], [0.7]])),
        sample(lambda x: np.clip(x, -0.5, 0.5), _m),
        sample(lambda x, low: np.clip(x, low, None), _m, distinct(4)),
        sample(lambda x, high: np.clip(x, None, high), _m, distinct(4)),
        sample(lambda x: x.clip(-0.5, 0.5), _m),
    ],
    np.astype: [
        sample(lambda x: np.astype(x, np.complex128), _m),
        sample(lambda z: np.astype(z, np.complex128), _z),
    ],
    # reductions
    np.sum: [
        sample(np.sum, _t),
        sample(np.sum, np.float64(2.5)),
        sample(lambda x: np.sum(x, axis=-2), _t),
        sample(lambda x: np.sum(x, (0, -1), keepdims=True), _t),
        sample(lambda x: np.sum(x, axis=1, dtype=np.float64), _t),
        sample(lambda x: x.sum(0), _z),
        sample(lambda x: np.sum(x, axis=()), _m),
        sample(lambda x: np.sum(x, where=np.array([True, False, True, True])), _m),
        sample(lambda x: np.sum(x, axis=1, initial=2.0, where=_m > 0), _m),
        sample(np.add.reduce, _t),
        sample(lambda x: np.add.reduce(x, axis=(0, 2), keepdims=True), _t),
    ],
    np.mean: [
        sample(np.mean, _t),
        sample(lambda x: np.mean(x, axis=(-1, 0)), _t),
        sample(lambda x: x.mean(axis=1, keepdims=True), _t),
        sample(lambda x: np.mean(x, axis=0), _z),
        sample(lambda x: np.mean(x, axis=0, where=np.array([[True], [False], [True]])), _m),
    ],
    np.nansum: [
        sample(lambda x: np.nansum(np.where(x > 0.5, np.nan, x), axis=1), _m),
        sample(lambda x: np.nansum(np.where(x > 0.5, np.nan, x), axis=1, initial=2.0, where=_some), _m),
    ],
    np.nanmean: [
        sample(lambda x: np.nanmean(np.where(x > 0.5, np.nan, x), axis=0, keepdims=True), _m),
        sample(lambda x: np.nanmean(np.where(x > 0.5, np.nan, x)), _m),
    ],
    np.var: [
        sample(np.var, _t),
        sample(lambda x: np.var(x, axis=-1, ddof=1), _t),
        sample(lambda x: np.var(x, axis=(0, 2), keepdims=True), _t),
        sample(lambda x: np.var(x, axis=0, correction=1), _m),
        sample(lambda x: np.var(x, axis=1), _z),
        sample(lambda x: x.var(1, None, None, 1), _m),
        sample(lambda x: np.var(x, axis=1, where=_some), _m),
        sample(lambda x: np.var(x, axis=0, where=_some, ddof=0.5), complex_(3, 4)),
        sample(lambda x: np.var(x, axis=1, mean=np.zeros((3, 1))), _m),
    ],
    np.std: [
        sample(np.std, _t),
        sample(lambda x: np.std(x, axis=-1, ddof=1), _t),
        sample(lambda x: np.std(x, axis=(0, 2), keepdims=True), _t),
        sample(lambda x: np.std(x, axis=0, correction=1), _m),
        sample(lambda x: np.std(x, where=_some, keepdims=True), _m),
        sample(lambda x: np.std(x, axis=1), _z),
    ],
    np.max: [
        sample(np.max, _t),
        sample(lambda x: np.max(x, axis=-1), _t),
        sample(lambda x: x.max(axis=(0, 1), keepdims=True), _t),
        sample(np.maximum.reduce, _m),
        sample(lambda x: np.max(x, axis=1, initial=0.3), _m),
        sample(lambda x: np.max(x, axis=1, initial=-9.0, where=_some), _m),
    ],
    np.min: [sample(np.min, _t), sample(lambda x: np.min(x, axis=(0, -1), keepdims=True), _t)],
    np.amax: [sample(lambda x: np.amax(x, axis=1), _m)],
    np.amin: [sample(lambda x: np.amin(x, axis=1), _m)],
    np.nanmax: [sample(lambda x: np.nanmax(np.where(x > 0.5, np.nan, x), axis=1), _m)],
    np.nanmin: [sample(lambda x: np.nanmin(np.where(x > 0.5, np.nan, x), axis=1), _m)],
    np.ptp: [sample(np.ptp, _m), sample(lambda x: np.ptp(x, axis=-1, keepdims=True), _m)],
    np.prod: [
        sample(np.prod, _m),
        sample(lambda x: np.prod(x, axis=-1), _t),
        sample(lambda x: np.prod(x, axis=(2, 0), keepdims=True), _t),
        sample(lambda x: np.prod(x, axis=0), _z),
        sample(np.prod, np.array([[0.0, 2.0], [3.0, 1.0]])),
        sample(lambda x: np.multiply.reduce(x, axis=1), _m),
        sample(lambda x: np.prod(x, axis=1, initial=2.0, where=_some), _m),
    ],
    np.cumsum: [
        sample(np.cumsum, _m),
        sample(lambda x: np.cumsum(x, axis=-2), _t),
        sample(lambda x: x.cumsum(axis=1), _z),
    ],
    np.cumprod: [
        sample(np.cumprod, _m),
        sample(lambda x: np.cumprod(x, axis=-2), _t),
        sample(lambda x: np.cumprod(x, axis=1), _z),
        sample(np.cumprod, np.array([2.0, 0.0, 3.0, 0.0])),
    ],
    # shapes
    np.reshape: [
        sample(lambda x: np.reshape(x, (4, -1)), _t),
        sample(lambda x: np.reshape(x, (4, 6), order="F"), _t),
        sample(lambda x: x.reshape(6, 4), _t),
    ],
    np.ravel: [
        sample(np.ravel, _t),
        sample(lambda x: np.ravel(x, order="F"), _t),
        sample(lambda x: x.flatten(), _t),
    ],
    np.squeeze: [sample(np.squeeze, real(1, 3, 1)), sample(lambda x: np.squeeze(x, axis=-1), real(1, 3, 1))],
    np.expand_dims: [
        sample(lambda x: np.expand_dims(x, (0, -1)), _m),
        sample(lambda x: np.expand_dims(x, axis=1), _m),
    ],
    np.atleast_1d: [
        sample(np.atleast_1d, np.float64(1.5)),
        sample(np.atleast_1d, _m),
        sample(np.atleast_1d, np.float64(1.5), _x),
    ],
    np.atleast_2d: [
        sample(np.atleast_2d, np.float64(1.5)),
        sample(np.atleast_2d, _x),
        sample(np.atleast_2d, _x, _t),
    ],
    np.atleast_3d: [
        sample(np.atleast_3d, np.float64(1.5)),
        sample(np.atleast_3d, _x),
        sample(np.atleast_3d, _m),
        sample(np.atleast_3d, _t),
    ],
    np.copy: [sample(np.copy, _m), sample(lambda x: x.copy(), _m)],
    np.transpose: [
        sample(np.transpose, _t),
        sample(lambda x: np.transpose(x, (1, -1, 0)), _t),
        sample(lambda x: x.transpose(2, 0, 1), _t),
        sample(lambda x: x.T, _m),
    ],
    np.matrix_transpose: [sample(np.matrix_transpose, _t), sample(lambda x: x.mT, _t)],
    np.swapaxes: [sample(lambda x: np.swapaxes(x, 0, -1), _t), sample(lambda x: x.swapaxes(1, 0), _t)],
    np.moveaxis: [
        sample(lambda x: np.moveaxis(x, 0, -1), _t),
        sample(lambda x: np.moveaxis(x, source=(0, 2), destination=(1, 0)), _t),
    ],
    np.flip: [sample(np.flip, _m), sample(lambda x: np.flip(x, axis=(0, -1)), _t)],
    np.fliplr: [sample(np.fliplr, _m)],
    np.flipud: [sample(np.flipud, _m)],
    np.rot90: [sample(np.rot90, _m), sample(lambda x: np.rot90(x, k=3, axes=(2, 0)), _t)],
    np.roll: [
        sample(lambda x: np.roll(x, 2), _m),
        sample(lambda x: np.roll(x, shift=-1, axis=-1), _m),
        sample(lambda x: np.roll(x, (1, 2), axis=(0, 1)), _m),
    ],
    np.broadcast_to: [
        sample(lambda x: np.broadcast_to(x, (2, 3, 4)), real(3, 1)),
        sample(lambda x: np.broadcast_to(x, shape=(3,)), np.float64(1.5)),
    ],
    np.broadcast_arrays: [sample(np.broadcast_arrays, real(3, 1), real(4), np.float64(0.5))],
    np.meshgrid: [
        sample(np.meshgrid, real(3), real(2)),
        sample(lambda x, y, z: np.meshgrid(x, y, z, indexing="ij"), real(3), real(2), real(4)),
        sample(lambda x, y: np.meshgrid(x, y, sparse=True, copy=False), real(3), real(2)),
    ],
    np.tile: [
        sample(lambda x: np.tile(x, 2), _m),
        sample(lambda x: np.tile(x, (2, 1, 3)), _m),
        sample(lambda x: np.tile(x, reps=(2,)), _t),
    ],
    np.copyto: [
        sample(lambda x, y: changed(x, np.copyto, y), real(2, 3), real(3)),
        sample(
            lambda x, y: changed(x, np.copyto, y, where=np.array([True, False, True])), real(2, 3), real(2, 1)
        ),
    ],
    np.put: [
        sample(lambda x, y: changed(x, np.put, [0, 4, -1, 0], y), real(2, 3), real(2)),
        sample(lambda x, y: changed(x, np.put, [7, 4, -9], y, mode="wrap"), real(2, 3), real(3)),
        sample(lambda x, y: changed(x, np.put, [7, -4], y, mode="clip"), real(2, 3), real(2, 2)),
    ],
    np.place: [sample(lambda x, y: changed(x, np.place, np.eye(3, dtype=bool)[:2], y), real(2, 3), real(3))],
    np.putmask: [
        sample(lambda x, y: changed(x, np.putmask, np.eye(3, dtype=bool)[:2], y), real(2, 3), real(4))
    ],
    np.fill_diagonal: [
        sample(lambda x, y: changed(x, np.fill_diagonal, y), real(3, 3), real(2)),
        sample(lambda x, y: changed(x, np.fill_diagonal, y, wrap=True), real(7, 2), real(3)),
        sample(lambda x, y: changed(x, np.fill_diagonal, y), real(7, 2), real(3)),
        sample(lambda x, y: changed(x, np.fill_diagonal, y), real(2, 2, 2), np.float64(0.4)),
    ],
    np.put_along_axis: [
        sample(
            lambda x, y: changed(x, np.put_along_axis, np.array([[0, 2], [1, 1]]), y, axis=1),
            real(2, 3),
            real(2, 2),
        ),
        sample(
            lambda x, y: changed(x, np.put_along_axis, np.array([[1, 0, 1]]), y, axis=-2),
            real(2, 3),
            real(1, 3),
        ),
        sample(
            lambda x, y: changed(x, np.put_along_axis, np.array([5, 0]), y, axis=None), real(2, 3), real(2)
        ),
    ],
    np.full_like: [
        sample(np.full_like, real(2, 3), np.float64(1.5)),
        sample(lambda x, value: np.full_like(x, fill_value=value), real(3, 2), real(3, 1)),
        sample(lambda x: np.full_like(x, 2.0, shape=(2,)), _m),
    ],
    np.concatenate: [
        sample(lambda x: np.concatenate(x, axis=1), _t),
        sample(lambda x, y: np.concatenate([x, y]), real(2, 3), real(1, 3)),
        sample(lambda x, y: np.concatenate((x, np.ones((2, 1)), y), axis=-1), real(2, 3), real(2, 2)),
        sample(lambda x, y: np.concatenate([x, y], axis=None), real(2, 3), real(2)),
    ],
    np.stack: [
        sample(np.stack, _m),
        sample(lambda x, y: np.stack([x, y]), real(2, 3), real(2, 3)),
        sample(lambda x, y: np.stack([x, y], axis=-1), real(2, 3), real(2, 3)),
        sample(lambda x, y: np.stack([x, 1.0, y]), np.float64(0.4), np.float64(0.3)),
    ],
    np.vstack: [sample(np.vstack, _t), sample(lambda x, y: np.vstack([x, y]), real(3), real(2, 3))],
    np.hstack: [
        sample(np.hstack, _m),
        sample(lambda x, y: np.hstack([x, y]), real(3), real(2)),
        sample(lambda x, y: np.hstack([x, y]), real(2, 3), real(2, 1)),
        sample(lambda x, y: np.hstack([x, y]), np.float64(0.3), real(2)),
    ],
    np.column_stack: [
        sample(np.column_stack, _m),
        sample(lambda x, y: np.column_stack([x, y]), real(3), real(3, 2)),
    ],
    np.dstack: [
        sample(np.dstack, _m),
        sample(lambda x, y: np.dstack([x, y]), real(3, 2), real(3, 2, 2)),
        sample(lambda x, y: np.dstack([x, y]), real(3), real(3)),
    ],
    np.append: [
        sample(np.append, real(2, 3), real(2)),
        sample(lambda x, y: np.append(x, y, axis=-1), real(2, 3), real(2, 1)),
        sample(lambda x: np.append(x, 1.0), real(2)),
    ],
    np.split: [
        sample(lambda x: np.split(x, 2), real(4, 3)),
        sample(lambda x: np.split(x, [1, 3], axis=-1), real(2, 5)),
        sample(lambda x: np.split(x, [1, 3])[1], real(5)),
    ],
    np.array_split: [sample(lambda x: np.array_split(x, 3), real(5))],
    np.hsplit: [sample(lambda x: np.hsplit(x, 2), real(2, 4)), sample(lambda x: np.hsplit(x, 2), real(4))],
    np.vsplit: [sample(lambda x: np.vsplit(x, 2), real(4, 2))],
    np.dsplit: [sample(lambda x: np.dsplit(x, [1]), real(2, 2, 3))],
    np.triu: [sample(np.triu, _m), sample(lambda x: np.triu(x, k=-1), _t), sample(np.triu, real(3))],
    np.tril: [sample(np.tril, _m), sample(lambda x: np.tril(x, 1), _t)],
    # selection
    np.bincount: [sample(lambda w: np.bincount([0, 2, 2, 1], w, minlength=5), real(4))],
    np.take: [
        sample(lambda x: np.take(x, [0, 2, 2]), _m),
        sample(lambda x: np.take(x, np.array([[1, -1], [1, 0]]), axis=-1), _t),
        sample(lambda x: np.take(x, 1, axis=0), _t),
        sample(lambda x: x.take([5, -7], axis=1, mode="wrap"), _m),
        sample(lambda x: np.take(x, indices=[9, -7], axis=1, mode="clip"), _m),
    ],
    np.take_along_axis: [
        sample(lambda x: np.take_along_axis(x, np.array([[0, 0], [1, 2], [3, 3]]), axis=1), _m),
        sample(lambda x: np.take_along_axis(x, np.array([3, 3, 0]), axis=None), _m),
    ],
    np.compress: [
        sample(lambda x: np.compress([True, False, True], x, axis=0), _m),
        sample(lambda x: x.compress([True, False, True]), _m),
    ],
    np.extract: [sample(lambda x: np.extract(x > 0, x), _m)],
    np.select: [sample(lambda x, y: np.select([x > 0.5, x > 0], [x, x * y], default=y), _x, real(5))],
    np.delete: [
        sample(lambda x: np.delete(x, 1), _m),
        sample(lambda x: np.delete(x, slice(1, 3), axis=-1), _m),
    ],
    np.repeat: [
        sample(lambda x: np.repeat(x, 3), _m),
        sample(lambda x: np.repeat(x, 2, axis=-2), _t),
        sample(lambda x: np.repeat(x, repeats=[0, 2, 1], axis=0), _m),
        sample(lambda x: x.repeat(2), np.float64(1.5)),
    ],
    np.resize: [sample(lambda x: np.resize(x, (3, 4)), real(5)), sample(lambda x: np.resize(x, 3), real(5))],
    np.diag: [
        sample(np.diag, real(3)),
        sample(lambda x: np.diag(x, k=-1), real(3)),
        sample(np.diag, _m),
        sample(lambda x: np.diag(x, 2), _m),
    ],
    np.diagonal: [
        sample(np.diagonal, _m),
        sample(lambda x: np.diagonal(x, offset=1, axis1=-1, axis2=0), _t),
        sample(lambda x: x.diagonal(-1), _m),
    ],
    np.trace: [
        sample(np.trace, _m),
        sample(lambda x: np.trace(x, 1, axis1=2, axis2=1), _t),
        sample(np.trace, _z),
    ],
    np.sort: [
        sample(np.sort, _m),
        sample(lambda x: np.sort(x, axis=0), _m),
        sample(lambda x: np.sort(x, axis=None, kind="stable"), _m),
    ],
    np.pad: [
        sample(lambda x: np.pad(x, 2), _m),
        sample(lambda x: np.pad(x, {-1: (2, 1), 0: 1}, mode="symmetric"), _m),
        *[
            sample(lambda x, m=m: np.pad(x, ((1, 2), (3, 0)), m), _m)
            for m in ("maximum", "minimum", "mean", "median")
        ],
        sample(lambda x: np.pad(x, 2, "mean", stat_length=((1, 2), (3, 9))), _z),
        sample(lambda x: np.pad(x, (0, 3), "maximum", stat_length=2), _t),
        sample(
            lambda x: np.pad(x, ((2, 0), (1, 4)), "linear_ramp", end_values=((0.5, 1.0), (2.0, -1.0))), _m
        ),
        sample(lambda x: np.pad(x, 2, "linear_ramp"), _z),
        sample(lambda x: np.pad(x, ((2, 1), (3, 2)), "reflect", reflect_type="odd"), _m),
        sample(lambda x: np.pad(x, ((3, 1), (0, 2)), mode="symmetric", reflect_type="odd"), _m),
        sample(lambda x: np.pad(x, 1, "empty")[1:-1, 1:-1], _m),
        sample(lambda x: np.pad(x, ((0, 1), (2, 0)), constant_values=5.0), _m),
        sample(lambda x: np.pad(x, (1, 2), mode="edge"), _m),
        sample(lambda x: np.pad(x, 2, mode="reflect"), _m),
        sample(lambda x: np.pad(x, [(1, 1), (0, 2)], "wrap"), _m),
    ],
    np.diff: [
        sample(np.diff, _m),
        sample(lambda x: np.diff(x, n=2, axis=0), _m),
        sample(lambda x, y: np.diff(x, prepend=y, append=0.0), _m, real(3, 2)),
    ],
    np.trapezoid: [
        sample(lambda y: np.trapezoid(y, dx=0.5), _m),
        sample(lambda y, x: np.trapezoid(y, x, axis=0), _m, np.array([0.0, 0.4, 1.0])),
        sample(np.trapezoid, _m, real(3, 4)),
    ],
    np.interp: [
        sample(
            lambda x, xp, f: np.interp(x, xp, f, period=360.0),
            *(np.array([-180.0, 371.0, 5.0, 720.5]), np.array([350.0, 10.0, 100.0, 200.0]), complex_(4)),
        ),
        sample(np.interp, np.array([-1.0, 0.3, 1.7, 2.6, 9.0]), np.array([0.0, 1.0, 2.0, 4.0]), real(4)),
        sample(lambda x: np.interp(x, [0.0, 1.0, 2.0], [0.0, 2.0, 3.0]), np.float64(0.3)),
        sample(lambda f: np.interp([0.3, 1.2], [0.0, 1.0, 2.0], f), complex_(3)),
        sample(
            lambda x, xp, f: np.interp(x, xp, f, left=5.0, right=-1.0),
            *(np.array([-1.0, 0.3, 9.0]), np.array([0.0, 1.0, 2.0]), real(3)),
        ),
    ],
    # products
    np.matmul: [
        sample(np.matmul, real(3), real(3)),
        sample(np.matmul, real(2, 3), real(3)),
        sample(np.matmul, real(3), real(3, 2)),
        sample(np.matmul, real(2, 3), real(3, 4)),
        sample(np.matmul, real(3, 1), real(1, 4)),
        sample(np.matmul, real(1, 3), real(3, 4)),
        sample(np.matmul, real(2, 3), real(3, 1)),
        sample(np.matmul, real(5, 2, 3), real(3, 4)),
        sample(np.matmul, real(2, 3), real(5, 3, 4)),
        sample(np.matmul, real(2, 1, 2, 3), real(5, 3, 4)),
        sample(np.matmul, real(5, 2, 3), real(3)),
        sample(np.matmul, real(3), real(5, 3, 2)),
        sample(np.matmul, complex_(2, 3), complex_(3, 4)),
        sample(np.matmul, real(2, 3), complex_(3)),
        sample(np.matmul, complex_(3), real(3)),
        sample(lambda a, b: a @ b, real(2, 3), complex_(5, 3, 2)),
        sample(lambda a: a @ np.arange(3), real(2, 3)),
        sample(lambda a: [[1.0, 2.0]] @ a, real(2, 3)),
    ],
    np.dot: [
        sample(np.dot, real(3), real(3)),
        sample(np.dot, real(2, 3), real(3, 4)),
        sample(np.dot, real(2, 3), real(3)),
        sample(np.dot, real(3), real(3, 2)),
        sample(np.dot, real(4, 2, 3), real(3)),
        sample(np.dot, real(3), real(4, 3, 2)),
        sample(np.dot, real(4, 2, 3), real(3, 2)),
        sample(np.dot, real(2, 3), real(4, 3, 2)),
        sample(np.dot, real(1, 2, 3), real(4, 3, 2)),
        sample(np.dot, np.float64(1.5), real(3, 2)),
        sample(np.dot, real(3, 2), np.float64(1.5)),
        sample(np.dot, complex_(2, 3), complex_(3)),
        sample(lambda a: a.dot([1.0, 2.0]), real(3, 2)),
        sample(lambda a: np.dot(a, 2.0), real(3)),
    ],
    np.vdot: [sample(np.vdot, real(2, 3), real(3, 2)), sample(np.vdot, complex_(3), complex_(3))],
    np.vecdot: [
        sample(np.vecdot, real(2, 3), real(3)),
        sample(np.vecdot, complex_(2, 3), complex_(4, 1, 3)),
        sample(lambda a, b: np.vecdot(a, b, axis=0), real(3, 2), real(3, 2)),
        sample(lambda a, b: np.vecdot(a, b, axis=-2), real(3, 2), complex_(4, 3, 1)),
    ],
    np.outer: [sample(np.outer, real(2), real(3)), sample(np.outer, complex_(2, 2), complex_(3))],
    np.inner: [
        sample(np.inner, real(3), real(3)),
        sample(np.inner, real(2, 3), real(4, 5, 3)),
        sample(np.inner, complex_(2, 3), complex_(3)),
        sample(np.inner, real(2, 3), np.float64(0.5)),
    ],
    np.tensordot: [
        sample(np.tensordot, real(2, 3, 4), real(3, 4, 2)),
        sample(lambda a, b: np.tensordot(a, b, axes=1), real(2, 3), real(3, 2)),
        sample(lambda a, b: np.tensordot(a, b, 0), real(2), real(3)),
        sample(lambda a, b: np.tensordot(a, b, axes=(1, -1)), real(2, 3), real(4, 3)),
        sample(lambda a, b: np.tensordot(a, b, ([2, 0], [1, 3])), real(2, 3, 4), real(5, 4, 1, 2)),
        sample(lambda a, b: np.tensordot(a, b, ([0, 1], [1, 0])), complex_(2, 3, 2), complex_(3, 2)),
    ],
    np.kron: [
        sample(np.kron, real(2), real(3)),
        sample(np.kron, real(2, 3), real(3, 2)),
        sample(np.kron, real(2), real(3, 2)),
        sample(np.kron, complex_(2, 2, 2), complex_(2)),
    ],
    np.einsum: [
        sample(lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), real(2, 3), real(3, 4)),
        sample(lambda a, b: np.einsum(a, [7, ..., 3], b, [3, 5]), complex_(2, 1, 3), real(3, 4)),
        sample(lambda a: np.einsum(a, [0, 0]), real(3, 3)),
        sample(lambda *xs: np.einsum("ij,jk,kl,lm,mi", *xs), *[real(2, 2) for _ in range(5)]),
        sample(
            lambda *xs: np.einsum("...j,jk,ki,...i,ab,i->...a", *xs, optimize=True),
            *(real(2, 3), real(3, 4), real(4, 2), real(2, 2), real(1, 2), real(2)),
        ),
        sample(lambda a, b: np.einsum("ij,j", a, b, dtype=np.complex128), real(2, 3), real(3)),
        sample(lambda a, b: np.einsum("ij,jk->ik", a, b), real(2, 3), real(3, 4)),
        sample(lambda a, b: np.einsum("ij , jk", a, b, optimize=True), complex_(2, 3), complex_(3, 4)),
        sample(lambda a, b, c: np.einsum("i,ij,j->", a, b, c), real(2), real(2, 3), real(3)),
        sample(lambda a, b, c, d: np.einsum("ab,bc,cd,de", a, b, c, d), *[real(2, 2) for _ in range(4)]),
        sample(lambda a: np.einsum("ii", a), real(3, 3)),
        sample(lambda a: np.einsum("ii->i", a), complex_(3, 3)),
        sample(lambda a: np.einsum("iij->j", a), real(3, 3, 2)),
        sample(lambda a, b: np.einsum("ii,ij", a, b), real(1, 1), real(3, 2)),
        sample(lambda a: np.einsum("ij->j", a), real(2, 3)),
        sample(lambda a: np.einsum("ij->ji", a), real(2, 3)),
        sample(lambda a, b: np.einsum("ij,k->k", a, b), real(2, 3), real(4)),
        sample(lambda a, b: np.einsum("i,i", a, b), real(3), real(1)),
        sample(lambda a, b: np.einsum("...ij,...jk->...ik", a, b), real(5, 2, 3), real(3, 4)),
        sample(lambda a, b: np.einsum("...i,i...", a, b), real(4, 2, 3), real(3, 2)),
        sample(lambda a, b: np.einsum("i...->...", a) * np.einsum("...->...", b), real(2, 3), real(3)),
        sample(lambda b: np.einsum("ij,jk", np.ones((2, 3)), b), real(3, 4)),
    ],
    # linear algebra
    np.linalg.norm: [
        sample(np.linalg.norm, real(3)),
        sample(np.linalg.norm, real(2, 3, 2)),
        sample(np.linalg.norm, complex_(2, 3)),
        *[
            sample(lambda x, p=p: np.linalg.norm(x, p), operand)
            for p in (1, 2, 3, 2.5, 0.5, np.inf, -np.inf)
            for operand in (distinct(5), complex_(4))
        ],
        sample(lambda x: np.linalg.norm(x, ord=3, axis=-1, keepdims=True), _t),
        sample(lambda x: np.linalg.norm(x, axis=(0, 2)), _t),
        *[
            sample(lambda x, p=p: np.linalg.norm(x, p), operand)
            for p in ("fro", 1, -1, np.inf, -np.inf)
            for operand in (_m, complex_(2, 3))
        ],
        *[
            sample(lambda x, p=p: np.linalg.norm(x, p), operand, order=1)
            for p in (2, -2, "nuc")
            for operand in (_m, complex_(2, 3))
        ],
        sample(lambda x: np.linalg.norm(x, 1, axis=(2, 0), keepdims=True), _t),
        sample(lambda x: np.linalg.norm(x, "nuc", axis=(2, 0)), _t, order=1),
    ],
    np.linalg.vector_norm: [
        sample(np.linalg.vector_norm, _t),
        sample(lambda x: np.linalg.vector_norm(x, axis=(0, -1), keepdims=True, ord=3), _t),
        sample(lambda x: np.linalg.vector_norm(x, axis=1, ord=np.inf), _t),
    ],
    np.linalg.matrix_norm: [
        sample(np.linalg.matrix_norm, _t),
        sample(lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True), _t),
    ],
    np.linalg.inv: [
        sample(np.linalg.inv, regular(3)),
        sample(np.linalg.inv, regular(2, 4) + 0.5j * real(2, 2)),
    ],
    np.linalg.solve: [
        sample(np.linalg.solve, regular(3), real(3)),
        sample(np.linalg.solve, regular(3), real(3, 2)),
        sample(np.linalg.solve, regular(2, 4), real(2)),
        sample(np.linalg.solve, regular(2, 4), real(2, 3)),
        sample(np.linalg.solve, regular(2) + 0.5j * real(2, 2), complex_(3, 2, 1)),
    ],
    np.linalg.det: [
        sample(np.linalg.det, regular(3)),
        sample(np.linalg.det, regular(2, 4) + 0.5j * real(2, 2)),
    ],
    np.linalg.slogdet: [
        sample(lambda a: np.linalg.slogdet(a).logabsdet, regular(3, 2)),
        sample(np.linalg.slogdet, regular(3)),
        sample(np.linalg.slogdet, regular(2) + 0.5j * real(2, 2)),
    ],
    np.linalg.matmul: [sample(np.linalg.matmul, real(2, 3), real(3, 2))],
    np.linalg.tensordot: [sample(lambda a, b: np.linalg.tensordot(a, b, axes=1), real(2, 3), real(3, 2))],
    np.linalg.vecdot: [sample(np.linalg.vecdot, real(2, 3), real(3))],
    np.linalg.outer: [sample(np.linalg.outer, real(2), real(3))],
    np.linalg.matrix_transpose: [sample(np.linalg.matrix_transpose, real(2, 3))],
    np.linalg.diagonal: [sample(lambda x: np.linalg.diagonal(x, offset=1), _t)],
    np.linalg.trace: [sample(lambda x: np.linalg.trace(x, offset=-1), _t)],
}

if hasattr(np, "unstack"):  # NumPy 2.1
    SAMPLES |= {
        np.cumulative_sum: [
            sample(lambda x: np.cumulative_sum(x, axis=1), _m),
            sample(lambda x: np.cumulative_sum(x, include_initial=True), _x),
        ],
        np.cumulative_prod: [
            sample(lambda x: np.cumulative_prod(x, axis=0), _m),
            sample(lambda x: np.cumulative_prod(x, axis=-1, include_initial=True), _m),
        ],
        np.unstack: [sample(np.unstack, real(2, 3)), sample(lambda x: np.unstack(x, axis=-1), real(2, 3))],
    }
    SAMPLES[np.clip] += [
        sample(lambda x, low, high: np.clip(x, min=low, max=high), _m, -0.4 * np.ones(4), 0.4 * np.ones(4)),
        sample(lambda x, high: np.clip(x, max=high), _m, 0.4 * np.ones(4)),
        sample(lambda low: np.clip(np.array([0.1, 0.7]), min=low), np.array([0.4, 0.5])),
    ]
    SAMPLES[np.reshape] += [
        sample(lambda x: np.reshape(x, shape=-1, copy=True), _t),
    ]
if hasattr(np, "matvec"):  # NumPy 2.2
    SAMPLES |= {
        np.matvec: [
            sample(np.matvec, real(4, 2, 3), real(3)),
            sample(np.matvec, complex_(2, 3), complex_(4, 3)),
        ],
        np.vecmat: [
            sample(np.vecmat, real(2), real(4, 2, 3)),
            sample(np.vecmat, complex_(4, 2), complex_(2, 3)),
        ],
    }

# Functions whose result is a constant.
CONSTANT: dict[Any, Callable[[Any], Any]] = {
    **{
        function: function
        for function in (
            *(np.floor, np.ceil, np.trunc, np.rint, np.fix, np.round, np.around),
            *(np.isfinite, np.isnan, np.isinf, np.isposinf, np.isneginf, np.signbit, np.spacing),
            *(np.isreal, np.iscomplex, np.logical_not, np.all, np.any, np.count_nonzero),
            *(
                np.argmax,
                np.argmin,
                np.nanargmax,
                np.nanargmin,
                np.argsort,
                np.argwhere,
                np.nonzero,
                np.flatnonzero,
            ),
            *(np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type, np.min_scalar_type),
            *(np.common_type, np.array_repr, np.array_str, np.array2string),
        )
    },
    **{
        function: lambda x, function=function: function(x, np.array([0.5, -0.2, 0.1]))
        for function in (
            *(np.floor_divide, np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal),
            *(
                np.logical_and,
                np.logical_or,
                np.logical_xor,
                np.allclose,
                np.isclose,
                np.array_equal,
                np.array_equiv,
            ),
            *(np.isin, np.shares_memory, np.may_share_memory),
        )
    },
    np.argpartition: lambda x: np.argpartition(x, 1),
    np.lexsort: lambda x: np.lexsort((x, x)),
    np.searchsorted: lambda x: np.searchsorted(x, 0.3),
    np.digitize: lambda x: np.digitize(x, [0.0, 0.5]),
    # An array, which the program may write: tests/in_place.
    **{
        function: lambda x, function=function: function(x).shape for function in (np.zeros_like, np.ones_like)
    },
    np.empty_like: lambda x: np.empty_like(x).shape,
    np.can_cast: lambda x: np.can_cast(x, np.float32),
    np.einsum_path: lambda x: np.einsum_path("i,i", x, x)[1],
    np.diag_indices_from: lambda x: np.diag_indices_from(np.outer(x, x)),
    np.tril_indices_from: lambda x: np.tril_indices_from(np.outer(x, x)),
    np.triu_indices_from: lambda x: np.triu_indices_from(np.outer(x, x)),
    np.linalg.matrix_rank: lambda x: np.linalg.matrix_rank(np.outer(x, x)),
    np.save: lambda x: written(np.save, x),
    np.savez: lambda x: written(np.savez, x),
    np.savez_compressed: lambda x: written(np.savez_compressed, x),
    np.savetxt: lambda x: written(np.savetxt, x),
}


def written(save: Callable[..., Any], x: Any) -> Any:
    """Return what a function writes into a file."""
    file = io.BytesIO()
    save(file, x)
    return file.getvalue()[-24:]  # an archive begins with the time


# Functions of whole numbers and dates: NumPy itself refuses a float.
NEVER_TRACED = {
    *(
        np.bitwise_and,
        np.bitwise_or,
        np.bitwise_xor,
        np.invert,
        np.left_shift,
        np.right_shift,
        np.bitwise_count,
    ),
    *(np.gcd, np.lcm, np.packbits, np.unpackbits, np.ravel_multi_index, np.unravel_index, np.ix_),
    *(np.isnat, np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string),
}
