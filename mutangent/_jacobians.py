"""Full derivative arrays, and products with second derivatives, out of `vjp` and `jvp`."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ._arrays import describe, is_differentiable, spec_of, zeros
from ._errors import GradientTypeError
from ._jvp import jvp
from ._traced import TracedArray, primal
from ._transforms import vjp


def jacobian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f` with respect to one array.

    Rows are computed by `vjp`, columns by `jvp`, whichever are fewer.

    Parameters
    ----------
    f : callable
        Returns an array or number. It may read and write captured objects; each row or column starts from the state
        before the call, and afterwards the objects are as one call leaves them.
    argnums : int
        The argument to differentiate with respect to, an array or number.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``out.shape + in.shape``. For complex values it is the
        matrix J of ``out_dot = J in_dot`` if `f` is holomorphic.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.jacobian(lambda x: np.array([[1.0, 2.0], [3.0, 4.0]]) @ x)(np.array([5.0, 6.0]))
    array([[1., 2.],
           [3., 4.]])
    """

    @functools.wraps(f, updated=())
    def jacobian_of_f(*args: Any, **kwargs: Any) -> Any:
        x = args[argnums]
        _require_number(x, f"argument {argnums}")

        def of_x(value: Any) -> Any:
            return (
                f(*args[:argnums], value, *args[argnums + 1 :], **kwargs)
                if argnums >= 0
                else f(*args[:argnums], value, *args[len(args) + argnums + 1 :], **kwargs)
            )

        out, pullback = vjp(of_x, x)
        _require_number(out, "the result")
        rows, columns = spec_of(primal(out)), spec_of(primal(x))
        if rows.size <= columns.size:
            parts = [_conjugate(pullback(unit)[0]) for unit in _units(out)]
            stacked = np.stack(parts) if parts else np.zeros((0, *columns.shape), rows.dtype)
            return np.reshape(stacked, (*rows.shape, *columns.shape))
        forward = _pushforward(of_x, x)
        parts = [forward(unit) for unit in _units(x)]
        stacked = np.stack(parts, axis=-1) if parts else np.zeros((*rows.shape, 0), rows.dtype)
        return np.reshape(stacked, (*rows.shape, *columns.shape))

    return jacobian_of_f


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of a scalar function with respect to one array: forward over reverse.

    Parameters
    ----------
    f : callable
        Returns a real scalar.
    argnums : int
        The argument to differentiate with respect to, an array or number.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``in.shape + in.shape``.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """

    @functools.wraps(f, updated=())
    def hessian_of_f(*args: Any, **kwargs: Any) -> Any:
        x = args[argnums]
        _require_number(x, f"argument {argnums}")
        position = argnums % len(args)

        def gradient(value: Any) -> Any:
            out, pullback = vjp(lambda v: f(*args[:position], v, *args[position + 1 :], **kwargs), value)
            return pullback(spec_of(primal(out)).dtype.type(1))[0]

        spec = spec_of(primal(x))
        forward = _pushforward(gradient, x)
        parts = [forward(unit) for unit in _units(x)]
        stacked = np.stack(parts, axis=-1) if parts else np.zeros((*spec.shape, 0), spec.dtype)
        return np.reshape(stacked, (*spec.shape, *spec.shape))

    return hessian_of_f


def hvp(f: Callable[..., Any], primals: Sequence[Any], tangents: Sequence[Any]) -> tuple[Any, ...]:
    """The product of the Hessian of a scalar function with a direction, without forming the Hessian.

    Parameters
    ----------
    f : callable
        Returns a real scalar.
    primals : sequence
        The arguments: numbers, arrays, captured objects, containers of them.
    tangents : sequence
        The direction: one tangent per argument.

    Returns
    -------
    tuple
        One tangent per argument.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.hvp(lambda x: np.sum(x**3), (np.array([1.0, 2.0]),), (np.array([1.0, 1.0]),))
    (array([ 6., 12.]),)
    """

    def gradient(*args: Any) -> tuple[Any, ...]:
        out, pullback = vjp(f, *args)
        return pullback(spec_of(primal(out)).dtype.type(1))

    product: tuple[Any, ...] = jvp(gradient, primals, tangents)[1]
    return product


def elementwise_grad(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the derivative of an elementwise function at each element.

    Parameters
    ----------
    f : callable
        Each element of its result depends on the element of the argument at the same place only.
    argnums : int
        The argument to differentiate with respect to.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array like the argument.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """

    @functools.wraps(f, updated=())
    def elementwise_grad_of_f(*args: Any, **kwargs: Any) -> Any:
        position = argnums % len(args)
        out, pullback = vjp(lambda v: f(*args[:position], v, *args[position + 1 :], **kwargs), args[position])
        spec = spec_of(primal(out))
        return pullback(np.ones(spec.shape, spec.dtype) if spec.shape else spec.dtype.type(1))[0]

    return elementwise_grad_of_f


def _pushforward(f: Callable[[Any], Any], x: Any) -> Callable[[Any], Any]:
    return lambda x_dot: jvp(f, (x,), (x_dot,))[1]


def _units(x: Any) -> list[Any]:
    """The unit vectors of the space of `x`."""
    spec, like = spec_of(primal(x)), primal(x)
    if not spec.shape:
        return [spec.dtype.type(1)]
    units = []
    for place in np.ndindex(*spec.shape):
        unit = zeros(spec, like)
        unit[place] = 1
        units.append(unit)
    return units


def _conjugate(x: Any) -> Any:
    # The pullback multiplies by the conjugate transpose.
    return np.conj(x) if spec_of(primal(x)).dtype.kind == "c" else x


def _require_number(value: Any, what: str) -> None:
    if not (type(value) is TracedArray or is_differentiable(value)):
        raise GradientTypeError(
            f"{what} is {describe(value)}, and a Jacobian needs a float or complex array or number. For objects use "
            "mutangent.vjp, mutangent.jvp or mutangent.hvp."
        )
