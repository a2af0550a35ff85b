"""`check_grads`: a function's derivatives, of any order and in both modes, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mutangent._arrays import type_name

from ._call import refuse_others
from ._derivative import check_at
from ._modes import MODES
from ._point import Point
from ._trial import Trial


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("rev", "fwd"),
    *,
    rtol: float | None = None,
    atol: float | None = None,
    seed: int = 0,
    eps: float | None = None,
) -> None:
    """Check the gradients of a function against finite differences in random directions.

    Parameters
    ----------
    f : callable
        A function of `args`. It may return numbers, arrays, and containers of them, and change the objects it is given.
        Each run of it gets a deep copy of `args`, so the caller's objects stay as they are.
    args : tuple
        Float or complex numbers and arrays, captured objects, and tuples, lists and dicts of them. All numbers in it
        are checked, those in the fields of objects too.
    order : int
        The highest derivative to check: 1 for first derivatives, 2 also for derivatives of these.
    modes : sequence of str
        ``"rev"`` for reverse mode (`mutangent.vjp`), ``"fwd"`` for forward mode (`mutangent.jvp`). With both, they are
        also compared with each other, and derivatives of higher order are computed by every mode over every other.
    rtol : float, optional
        The allowed difference, relative to the derivative. By default it follows from the coarsest dtype: 1e-5 for
        float64, 2e-3 for float32, 1e-2 for float16.
    atol : float, optional
        The allowed absolute difference. By default it is what rounding of the function's values makes of a difference.
    seed : int
        Of the random directions.
    eps : float, optional
        The step of the differences. By default the cube root of the dtype's precision: 6e-6 for float64, 5e-3 for
        float32.

    Raises
    ------
    AssertionError
        If a gradient disagrees with the differences, and if anything else breaks the contract: the recorded run must
        return the same and leave objects in the same state as the plain run; a pullback must give the same when it is
        called again, and later; tangents must have the type, shape and dtype of their values. The text names the
        worst element, the numbers, the order, the mode and the seed.

    Notes
    -----
    What the function leaves in the fields of objects is checked like its result: each gets a random cotangent.
    Objects that the function reaches in other ways than through `args` are constants here; writing to one is an error.

    All numbers move at once, so a part whose derivative is a hundred thousand times smaller than the rest hides behind
    it. Check such a part alone, by a function of its own.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Filter:
    ...     gain: float
    ...     state: float = 0.0
    >>> def step(filter, x):
    ...     filter.state = filter.state + filter.gain * (x - filter.state)
    ...     return filter.state**2
    >>> mt.testing.check_grads(step, (Filter(0.5), 2.0))
    """
    if not isinstance(args, tuple | list):
        raise TypeError(f"args must be a tuple of arguments, such as (x,), and it is {type_name(args)}")
    if order < 1:
        raise ValueError(f"order must be 1 or more, and it is {order}")
    if not modes or isinstance(modes, str) or any(mode not in MODES for mode in modes):
        raise ValueError(
            f"modes must be one or both of 'rev' (reverse) and 'fwd' (forward), and it is {modes!r}"
        )
    modes = list(dict.fromkeys(modes))
    trial = Trial("check_grads", f, rtol=rtol, atol=atol, seed=seed, eps=eps)
    refuse_others(f, args)
    functions = [(f, "")]
    for number in range(1, order + 1):
        trial.order = number
        checked, functions = functions, []
        for function, trial.mode in checked:
            for mode in check_at(Point(function, args, trial), modes):
                over = f"{mode.name} over {trial.mode}" if trial.mode else mode.name
                functions.append((mode.contraction(), over))
