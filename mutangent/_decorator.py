"""`differentiable`, the one decorator: it captures the fields of a class, and gives a function its derivatives."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, dataclass_transform, overload

import attrs

from ._capture import capture_class, field
from ._jvp import jvp
from ._transforms import grad, value_and_grad, vjp

T = TypeVar("T", bound=Callable[..., Any])


@overload
@dataclass_transform(field_specifiers=(attrs.field, field))
def differentiable(target: T, /) -> T: ...
@overload
@dataclass_transform(field_specifiers=(attrs.field, field))
def differentiable(**define_kwargs: Any) -> Callable[[T], T]: ...
def differentiable(target: Any = None, /, **define_kwargs: Any) -> Any:
    """Make a class or a function differentiable.

    Parameters
    ----------
    target : class or function
        A class becomes an attrs class (`attrs.define`), unless it is one already, and its fields are captured: inside a
        recording, reads and writes of them are followed. A function stays what it is and gets the attributes
        ``.grad(*args)``, ``.value_and_grad(*args)``, ``.vjp(*args)`` and ``.jvp(primals, tangents)``. The first two are
        with respect to its first argument.
    **define_kwargs
        For a class, the arguments of `attrs.define`.

    Returns
    -------
    class or function

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Spring:
    ...     stiffness: float
    >>> @mt.differentiable
    ... def energy(spring, x):
    ...     return 0.5 * spring.stiffness * x**2
    >>> energy(Spring(2.0), 3.0)
    9.0
    >>> energy.value_and_grad(Spring(2.0), 3.0)
    (9.0, Tangent[Spring](stiffness=4.5))
    """
    if target is None:
        return functools.partial(_differentiable, define_kwargs=define_kwargs)
    return _differentiable(target, define_kwargs)


def _differentiable(target: Any, define_kwargs: dict[str, Any]) -> Any:
    if isinstance(target, type):
        return capture_class(target, **define_kwargs)
    if not callable(target) or define_kwargs:
        raise TypeError(
            "differentiable decorates a class, with the arguments of attrs.define, or a function, without arguments; "
            f"it was given {target!r}"
        )
    target.grad = grad(target)
    target.value_and_grad = value_and_grad(target)
    target.vjp = _of(vjp, target)
    target.jvp = _of(jvp, target)
    return target


def _of(verb: Callable[..., Any], target: Any) -> Callable[..., Any]:
    """A verb of one function. No `functools.partial`, which would hold the arguments where no name tells of it."""

    def verb_of_target(*args: Any, **kwargs: Any) -> Any:
        args = (target, *args)
        return verb(*args, **kwargs)

    return verb_of_target
