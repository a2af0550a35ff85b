"""Full derivative arrays, and products with second derivatives, out of `vjp` and `jvp`."""

from __future__ import annotations

import functools
import operator
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ._arrays import Spec, describe, is_array, is_differentiable, namespace_of, number, spec_of, zeros
from ._context import pause
from ._errors import GradientTypeError
from ._jvp import jvp
from ._traced import TracedArray, primal, require_scalar
from ._transforms import argument_position, grad, vjp


def jacobian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the Jacobian of `f` with respect to one array.

    The rows come from the pullback. If the columns are fewer, they come from the transpose of the pullback, so `f` is
    called once either way.

    Parameters
    ----------
    f : callable
        Returns an array or number. It may read and write captured objects, which are left as one call leaves them.
    argnums : int
        The argument to differentiate with respect to, an array or number.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``out.shape + in.shape`` and the dtype of the result.
        For a complex argument it is the matrix J of ``out_dot = J in_dot``, which exists if `f` is holomorphic.

    Raises
    ------
    GradientTypeError
        When called, if the argument or the result is no float or complex array or number, or if the argument is
        complex and the result is real or not holomorphic at that point.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.jacobian(lambda x: np.array([[1.0, 2.0], [3.0, 4.0]]) @ x)(np.array([5.0, 6.0]))
    array([[1., 2.],
           [3., 4.]])
    """

    @functools.wraps(f, updated=())
    def jacobian_of_f(*args: Any, **kwargs: Any) -> Any:
        of_x, passed = _of_one(f, args, kwargs, argnums)
        x = passed[0]
        args = (of_x, *passed)
        out, pullback = vjp(*args)
        _require_number(out, "the result")
        rows, columns = spec_of(primal(out)), spec_of(primal(x))
        _require_derivative(rows.dtype, columns.dtype)
        if rows.size <= columns.size and rows.dtype.kind == columns.dtype.kind:
            # The pullback multiplies by the conjugate transpose.
            parts = [np.conj(pullback(unit)[0]) for unit in _units(out)]
            joined = np.stack(parts) if parts else namespace_of(primal(out)).zeros(0, rows.dtype)
        else:
            # What is linear is differentiated anywhere. The pullback of the pullback pushes tangents.
            zero = zeros(rows, primal(out))
            _, pushforward = vjp(lambda y_bar: pullback(y_bar)[0], zero if rows.shape else zero[()])
            parts = [pushforward(unit)[0] for unit in _units(x)]
            joined = np.stack(parts, axis=-1) if parts else namespace_of(primal(out)).zeros(0, rows.dtype)
        if columns.dtype.kind == "c":
            matrix = primal(joined).reshape(rows.size, columns.size)
            _require_found(pullback, out, np.conj(matrix).T, _matrix_times)
        return np.reshape(joined, (*rows.shape, *columns.shape)).astype(rows.dtype, copy=False)

    return jacobian_of_f


def hessian(f: Callable[..., Any], argnums: int = 0) -> Callable[..., Any]:
    """A function that returns the Hessian of a scalar function with respect to one array: the Jacobian of its gradient.

    For the product with a direction use `hvp`, which needs less time and memory.

    Parameters
    ----------
    f : callable
        Returns a real scalar. It may read and write captured objects, which are left as one call leaves them.
    argnums : int
        The argument to differentiate with respect to, a real array or number.

    Returns
    -------
    callable
        Takes the arguments of `f` and returns an array of shape ``in.shape + in.shape``.

    Raises
    ------
    GradientTypeError
        When called, if the result is not a real scalar or the argument no real array or number.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.hessian(lambda x: x[0] ** 2 * x[1])(np.array([2.0, 3.0]))
    array([[6., 4.],
           [4., 0.]])
    """

    @functools.wraps(f, updated=())
    def hessian_of_f(*args: Any, **kwargs: Any) -> Any:
        of_x, passed = _of_one(f, args, kwargs, argnums)
        x = passed[0]
        if spec_of(primal(x)).dtype.kind == "c":
            raise GradientTypeError(
                f"a Hessian needs a real argument, and it is {describe(primal(x))}. Write the function in terms of the "
                "real and imaginary parts."
            )
        return jacobian(grad(of_x))(*passed)

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
        require_scalar(out, getattr(f, "__name__", type(f).__name__))
        return pullback(number(1, spec_of(primal(out)).dtype, primal(out)))

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
        Takes the arguments of `f` and returns an array of the argument's shape and the result's dtype. For a complex
        argument it is the complex derivative, which exists if `f` is holomorphic.

    Raises
    ------
    GradientTypeError
        When called, if the argument is no float or complex array or number, if the result has another shape or is not
        elementwise, or if the argument is complex and the result is real or not holomorphic at that point.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.elementwise_grad(np.sin)(np.array([0.0, np.pi]))
    array([ 1., -1.])
    """

    @functools.wraps(f, updated=())
    def elementwise_grad_of_f(*args: Any, **kwargs: Any) -> Any:
        of_x, passed = _of_one(f, args, kwargs, argnums)
        spec = spec_of(primal(passed[0]))
        # By the pullback, which can be asked again whether the function is what it is taken for.
        args = (of_x, *passed)
        out, pullback = vjp(*args)
        _require_elementwise(out, spec)
        ones = _ones(out)
        adjoint = pullback(ones)[0]
        if spec.dtype.kind == "f" and spec_of(primal(out)).dtype.kind == "c":
            adjoint = adjoint - 1j * pullback(ones * 1j)[0]
            _require_found(pullback, out, primal(adjoint), _real_times)
        else:
            _require_found(pullback, out, primal(adjoint), operator.mul)
        if spec_of(primal(out)).dtype.kind == "c":
            adjoint = np.conj(adjoint) + 0.0  # no negative zeros from the conjugate
        return _like(adjoint, out)

    return elementwise_grad_of_f


def _require_elementwise(out: Any, spec: Spec) -> None:
    _require_number(out, "the result")
    rows = spec_of(primal(out))
    _require_derivative(rows.dtype, spec.dtype)
    if rows.shape != spec.shape:
        raise GradientTypeError(
            f"the result has shape {rows.shape}, and the argument has shape {spec.shape}, so the function is not "
            "elementwise. Use mutangent.grad for a scalar result, mutangent.jacobian for all derivatives."
        )


def _ones(x: Any) -> Any:
    spec = spec_of(primal(x))
    return zeros(spec, primal(x)) + spec.dtype.type(1)


def _like(derivative: Any, out: Any) -> Any:
    """A derivative as the kind of number or array that the result is."""
    dtype = spec_of(primal(out)).dtype
    if type(primal(out)) is float or type(primal(out)) is complex:
        return derivative.item() if hasattr(derivative, "item") else derivative
    if type(derivative) is float or type(derivative) is complex:
        return number(derivative, dtype, primal(out))
    return derivative.astype(dtype, copy=False)


def _of_one(
    f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], argnums: int
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """`f` as a function of one of its arguments and those others in which it may leave something, such as lists."""
    position = argument_position(f, args, argnums)
    _require_number(args[position], f"argument {position}")
    given: dict[Any, Any] = {**dict(enumerate(args)), **kwargs}
    passed = [position, *(key for key, arg in given.items() if _is_container(arg))]
    count, named = len(args), list(kwargs)

    @functools.wraps(f, updated=())
    def of_some(*some: Any) -> Any:
        all_of_them = {**given, **dict(zip(passed, some, strict=True))}
        return f(*[all_of_them[k] for k in range(count)], **{name: all_of_them[name] for name in named})

    # What is passed is held by `of_some` no more.
    handed_on = tuple([given.pop(key) for key in passed])
    # The rest the function is given all the same; see `_blocks`.
    vars(of_some)["__mutangent_given__"] = (
        [given.get(k) for k in range(count)],
        {name: given.get(name) for name in named},
    )
    return of_some, handed_on


def _is_container(arg: Any) -> bool:
    return isinstance(arg, list | dict | deque) or (is_array(arg) and arg.dtype.kind in "biu")


def _units(x: Any) -> Iterator[Any]:
    """The unit vectors of the space of `x`."""
    spec, like = spec_of(primal(x)), primal(x)
    if not spec.shape:
        yield number(1, spec.dtype, like)
        return
    for place in np.ndindex(*spec.shape):
        unit = zeros(spec, like)
        unit[place] = 1
        yield unit


def _matrix_times(matrix: Any, direction: Any) -> Any:
    return matrix @ np.reshape(direction, -1)


def _real_times(diagonal: Any, direction: Any) -> Any:
    """The part that a real argument feels."""
    return np.real(diagonal * direction)


def _require_found(
    pullback: Callable[..., tuple[Any, ...]], out: Any, adjoint: Any, product: Callable[[Any, Any], Any]
) -> None:
    """Raise unless the derivative of a function is the one that was found: complex linear, or one number per element.

    Parameters
    ----------
    pullback : callable
        ȳ ↦ Aᴴ ȳ + Bᵀ conj(ȳ), where the function moves by A ẋ + B conj(ẋ). It is holomorphic if B is 0.
    out : array or number
        The result of the function.
    adjoint : array
        What was found for Aᴴ: a matrix, or the diagonal for an elementwise function. If B is not 0, it is not Aᴴ.
    product : callable
        How `adjoint` is applied to a direction.
    """
    if not np.size(adjoint):
        return
    with pause(), np.errstate(all="ignore"):
        first, second = _directions(out)
        found = primal(pullback(first + second)[0])
        expected = product(adjoint, first + second)
        scale = product(abs(adjoint), abs(first + second))
        difference = abs(np.reshape(found, expected.shape) - expected)
        known = np.isfinite(difference) & np.isfinite(scale)
        difference, scale = np.where(known, difference, 0.0), np.where(known, scale, 0.0)
        eps = max(float(np.finfo(spec_of(each).dtype).eps) for each in (found, adjoint, primal(out)))
        if not (difference > eps**0.5 * scale + 1000 * eps * scale.max()).any():
            return
        # Rounding may have done it, in an ill-conditioned function. It breaks the sum of two directions as well.
        parts = primal(pullback(first)[0]) + primal(pullback(second)[0])
        noise = np.where(known, np.reshape(abs(parts - found), known.shape), 0.0)
        if difference.max() <= 1000 * noise.max():
            return
    if product is _real_times or spec_of(primal(out)).dtype.kind == "f":
        raise GradientTypeError(
            f"the function is not elementwise: an element of its result, {describe(primal(out))}, depends on more than the "
            "element of the argument at the same place. Use mutangent.jacobian for all derivatives, or mutangent.jvp with "
            "ones for the sums of its rows."
        )
    raise GradientTypeError(
        f"the function makes {describe(primal(out))} of a complex argument and is not holomorphic there"
        + (
            ", or not elementwise: no complex number per element says how the result moves. "
            if product is operator.mul
            else ": its derivative is not complex linear, so no complex matrix says how the result moves. "
        )
        + "np.conj, np.real, np.imag, np.abs and np.angle are not holomorphic. Use mutangent.vjp or mutangent.jvp with a "
        "direction, or write the function in terms of the real and imaginary parts."
    )


def _directions(out: Any) -> list[Any]:
    """Two random directions in the space of `out`, always the same: of a complex one a real and an imaginary one."""
    spec, like = spec_of(primal(out)), primal(out)
    rng = np.random.default_rng(0)
    made = [rng.normal(size=spec.shape) * unit for unit in (1, 1j if spec.dtype.kind == "c" else 1)]
    if not spec.shape:
        return [number(value, spec.dtype, like) for value in made]
    return [namespace_of(like).asarray(value.astype(spec.dtype)) for value in made]


def _require_number(value: Any, what: str) -> None:
    if not (type(value) is TracedArray or is_differentiable(value)):
        raise GradientTypeError(
            f"{what} is {describe(value)}, and a Jacobian needs a float or complex array or number. For objects use "
            "mutangent.vjp, mutangent.jvp or mutangent.hvp."
        )


def _require_derivative(result: np.dtype[Any], argument: np.dtype[Any]) -> None:
    if argument.kind == "c" and result.kind != "c":
        raise GradientTypeError(
            f"the argument is complex ({argument}) and the result real ({result}). Such a function is not holomorphic, and "
            "no complex matrix says how its result moves. Use mutangent.grad for the direction of steepest ascent."
        )
