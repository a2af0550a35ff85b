"""`check_grads`: a function's gradients, of any order, against finite differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ._derivative import Derivative, contraction
from ._trial import Trial


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = ("rev",),
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
        The highest derivative to check: 1 for gradients, 2 also for gradients of these.
    modes : sequence of str
        Only ``"rev"``, reverse mode, so far.
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
    NotImplementedError
        For ``"fwd"`` in `modes`.

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
        raise TypeError(f"args must be a tuple of arguments, such as (x,), and it is a {type(args).__name__}")
    if order < 1:
        raise ValueError(f"order must be 1 or more, and it is {order}")
    if "fwd" in modes:
        raise NotImplementedError(
            "forward mode comes later, so there is nothing to check yet; give modes=('rev',)"
        )
    if list(modes) != ["rev"]:
        raise ValueError(f"modes must be ('rev',), reverse mode, and it is {modes!r}")
    trial = Trial("check_grads", f, rtol=rtol, atol=atol, seed=seed, eps=eps)
    for number in range(1, order + 1):
        trial.order = number
        derivative = Derivative(f, args, trial)
        derivative.check()
        f = contraction(derivative)
