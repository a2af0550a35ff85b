"""Derivatives of the Fourier transforms.

A transform is a matrix, symmetric up to its scale: the cotangent goes back through the transform of the other direction
with the other scale. Where `n` cut the operand off or padded it, the cotangent is padded or cut off.
"""
# ruff: noqa: ARG001 - a pullback has the parameters of its function, read or not

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from .._rulebook import composed, function
from .contractions import conjugated
from .indexing import numbers

Axes = Sequence[int] | None
# The scale of the adjoint is that of the other direction.
ADJOINT: Final[dict[str | None, Any]] = {
    None: "forward",
    "backward": "forward",
    "forward": "backward",
    "ortho": "ortho",
}


def fitted(x: Any, length: int, axis: int) -> Any:
    """`x` cut off or padded with zeros to `length` on an axis."""
    present = x.shape[axis]
    if length <= present:
        return x[(slice(None),) * (axis % x.ndim) + (slice(length),)]
    return np.pad(x, [(0, length - present if k == axis % x.ndim else 0) for k in range(x.ndim)])


def weighted(half: Any, n: int, axis: int, weight: float) -> Any:
    """Half of a spectrum of `n` numbers, with those that stand for two of them multiplied by `weight`."""
    axis %= half.ndim
    alone = 2 * numbers((half.shape[axis],), half) % n == 0
    weights = np.where(alone, 1.0, weight).astype(np.real(half).dtype)
    return half * weights.reshape((-1,) + (1,) * (half.ndim - 1 - axis))


# -- one axis ------------------------------------------------------------------------------------------------------


def fft_pullback(
    g: Any, _y: Any, _a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    return fitted(np.fft.ifft(g, axis=axis, norm=ADJOINT[norm]), _a.shape[axis], axis)


def ifft_pullback(
    g: Any, _y: Any, _a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    return fitted(np.fft.fft(g, axis=axis, norm=ADJOINT[norm]), _a.shape[axis], axis)


def rfft_pullback(
    g: Any, _y: Any, _a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    length = _a.shape[axis] if n is None else n
    full = np.fft.irfft(weighted(g, length, axis, 0.5), length, axis, ADJOINT[norm])
    return fitted(full, _a.shape[axis], axis)


def irfft_pullback(
    g: Any, _y: Any, _a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: None = None
) -> Any:
    half = weighted(np.fft.rfft(g, axis=axis, norm=ADJOINT[norm]), g.shape[axis], axis, 2.0)
    return fitted(half, _a.shape[axis], axis)


function(np.fft.fft, fft_pullback, linear=True)
function(np.fft.ifft, ifft_pullback, linear=True)
function(np.fft.rfft, rfft_pullback, linear=True)
function(np.fft.irfft, irfft_pullback, linear=True)
composed(
    np.fft.hfft,
    lambda a, n=None, axis=-1, norm=None, out=None: np.fft.irfft(
        conjugated(a), 2 * (a.shape[axis] - 1) if n is None else n, axis, ADJOINT[norm]
    ),
)
composed(
    np.fft.ihfft,
    lambda a, n=None, axis=-1, norm=None, out=None: np.conj(np.fft.rfft(a, n, axis, ADJOINT[norm])),
)

# -- several axes --------------------------------------------------------------------------------------------------


def lengths_and_axes(a: Any, s: Any, axes: Axes, real_result: bool) -> tuple[list[int], list[int]]:
    """The length of the transform on each axis, and the axes."""
    if axes is None:
        axes = range(-a.ndim if s is None else -len(s), 0)
    if s is None:
        s = [a.shape[k] for k in axes]
        if real_result:
            s[-1] = 2 * (a.shape[axes[-1]] - 1)
    return [a.shape[k] if length == -1 else length for length, k in zip(s, axes, strict=True)], list(axes)


def complex_axes(transform: Callable[..., Any], default: Axes) -> Callable[..., Any]:
    """`transform` on one axis after the other, the last one first, as NumPy does it."""

    def implementation(
        a: Any, s: Any = None, axes: Axes = default, norm: Any = None, out: None = None
    ) -> Any:
        lengths, along = lengths_and_axes(a, s, axes, real_result=False)
        if not along:
            return np.copy(a)
        for n, axis in zip(reversed(lengths), reversed(along), strict=True):
            a = transform(a, n, axis, norm)
        return a

    return implementation


def real_last_axis(default: Axes) -> Callable[..., Any]:
    """`rfftn`: the last axis is transformed first, from real numbers."""

    def implementation(
        a: Any, s: Any = None, axes: Axes = default, norm: Any = None, out: None = None
    ) -> Any:
        lengths, along = lengths_and_axes(a, s, axes, real_result=False)
        a = np.fft.rfft(a, lengths[-1], along[-1], norm)
        for n, axis in zip(reversed(lengths[:-1]), reversed(along[:-1]), strict=True):
            a = np.fft.fft(a, n, axis, norm)
        return a

    return implementation


def real_result_axis(default: Axes) -> Callable[..., Any]:
    """`irfftn`: the last axis is transformed last, into real numbers."""

    def implementation(
        a: Any, s: Any = None, axes: Axes = default, norm: Any = None, out: None = None
    ) -> Any:
        lengths, along = lengths_and_axes(a, s, axes, real_result=True)
        for n, axis in zip(lengths[:-1], along[:-1], strict=True):
            a = np.fft.ifft(a, n, axis, norm)
        return np.fft.irfft(a, lengths[-1], along[-1], norm)

    return implementation


for of_all, of_two, make in (
    (np.fft.fftn, np.fft.fft2, lambda axes: complex_axes(np.fft.fft, axes)),
    (np.fft.ifftn, np.fft.ifft2, lambda axes: complex_axes(np.fft.ifft, axes)),
    (np.fft.rfftn, np.fft.rfft2, real_last_axis),
    (np.fft.irfftn, np.fft.irfft2, real_result_axis),
):
    composed(of_all, make(None))
    composed(of_two, make((-2, -1)))

# -- order ---------------------------------------------------------------------------------------------------------


def shifted(sign: int) -> Callable[..., Any]:
    """`fftshift` and its inverse."""

    def implementation(x: Any, axes: Any = None) -> Any:
        along = range(x.ndim) if axes is None else (axes,) if isinstance(axes, int) else axes
        half = (x.shape[k] // 2 if sign > 0 else -(x.shape[k] // 2) for k in along)
        return np.roll(x, tuple(half), tuple(along))

    return implementation


composed(np.fft.fftshift, shifted(1))
composed(np.fft.ifftshift, shifted(-1))
