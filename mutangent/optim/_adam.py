"""Adam, gradient descent with a step size per element."""

from __future__ import annotations

from typing import Any, NamedTuple

import attrs
import numpy as np

from mutangent._identity import IdentityMap

from ._settings import at_least_zero, pair_below_one
from ._walk import rebind


class _Moments(NamedTuple):
    """What Adam keeps of one parameter's gradients."""

    first: Any
    second: Any
    steps: int


@attrs.define(eq=False)
class Adam:
    """Adam (Kingma and Ba, 2015), algorithm 1.

    Parameters
    ----------
    lr : float, default 0.001
        The learning rate, about the size of a step. May be changed between updates.
    betas : tuple of two floats, default (0.9, 0.999)
        How much of the running means of the gradient and of its square stays from update to update.
    eps : float, default 1e-8
        Added to the root of the mean square, so that a gradient of zeros makes no step.

    Raises
    ------
    ValueError
        For a setting with which no step is possible, also when it is changed later.

    Notes
    -----
    A parameter whose tangent is `ZeroTangent` is left out of the update, moments and step count included. An array of
    zeros is a gradient like any other, and the moments decay. Moments belong to the place, the object and its field, and
    not to the array in it. Those of float16 parameters are kept in float32.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    >>> line = Line(slope=3.0)
    >>> Adam(lr=0.5).update(line, mt.Tangent(Line, slope=20.0))
    >>> round(line.slope, 6)
    2.5
    """

    lr: float = attrs.field(default=1e-3, validator=at_least_zero)
    betas: tuple[float, float] = attrs.field(default=(0.9, 0.999), validator=pair_below_one)
    eps: float = attrs.field(default=1e-8, validator=at_least_zero)
    _moments: IdentityMap[dict[Any, Any]] = attrs.field(factory=IdentityMap, init=False, repr=False)

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
        rebind(m, tangent, self._moments, self._step)

    def _step(self, value: Any, gradient: Any, moments: _Moments | None) -> tuple[Any, _Moments]:
        decay_first, decay_second = self.betas
        if getattr(gradient, "dtype", None) == np.float16:
            gradient = gradient.astype(np.float32)  # squares, and eps, vanish in half precision
        first, second, steps = moments or (0.0, 0.0, 0)
        first = decay_first * first + (1 - decay_first) * gradient
        second = decay_second * second + (1 - decay_second) * abs(gradient) ** 2  # real for complex g
        steps += 1
        # The means start from zero; these factors undo that.
        mean = first / (1 - decay_first**steps)
        root = np.sqrt(second / (1 - decay_second**steps))
        return value - self.lr * mean / (root + self.eps), _Moments(first, second, steps)
