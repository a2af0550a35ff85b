"""Gradient descent, with or without momentum."""

from __future__ import annotations

from typing import Any

import attrs

from mutangent._identity import IdentityMap

from ._settings import at_least_zero, below_one
from ._walk import rebind


@attrs.define(eq=False)
class SGD:
    """Gradient descent: ``p = p - lr * gradient``.

    With momentum, a velocity takes the place of the gradient: ``v = momentum * v + gradient``, starting from zero.

    Parameters
    ----------
    lr : float
        The learning rate. May be changed between updates.
    momentum : float, default 0
        How much of the velocity stays from update to update. Velocities belong to the place, the object and its field, and
        not to the array in it.

    Raises
    ------
    ValueError
        For a setting with which no step is possible, also when it is changed later.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    >>> line = Line(slope=3.0)
    >>> SGD(lr=0.5).update(line, mt.Tangent(Line, slope=2.0))
    >>> line
    Line(slope=2.0)
    """

    lr: float = attrs.field(validator=at_least_zero)
    momentum: float = attrs.field(default=0.0, validator=below_one)
    _velocities: IdentityMap[dict[Any, Any]] = attrs.field(factory=IdentityMap, init=False, repr=False)

    def update(self, m: Any, tangent: Any) -> None:
        """Move every parameter in reach of `m` one step against its gradient.

        Parameters
        ----------
        m : object
            A differentiable object, or a tuple, list or dict of some. Fields get new arrays; no array is written into.
            Fields with ``trainable=False``, and those whose tangent is `ZeroTangent`, stay as they are.
        tangent : Tangent
            The gradient with respect to `m`.

        Raises
        ------
        CotangentError
            If `tangent` has not the structure, the shapes or the dtypes of what `m` holds now. Nothing has changed
            then.
        ValueError
            If two arrays, such as ``w`` and ``w.T``, overlap in memory without being one array, or if a parameter has
            another shape than at the last update.
        """
        rebind(m, tangent, self._velocities, self._step)

    def _step(self, value: Any, gradient: Any, velocity: Any) -> tuple[Any, Any]:
        if not self.momentum:
            return value - self.lr * gradient, None
        velocity = self.momentum * (0.0 if velocity is None else velocity) + gradient
        return value - self.lr * velocity, velocity
