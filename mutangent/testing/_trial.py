"""What is being checked and how exactly: settings, tolerances, and the words of a failure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

import numpy as np

from mutangent._arrays import spec_of
from mutangent._layout import Leaf

# By the coarsest dtype among entries and outputs, as in JAX's check_grads.
RTOL: Final = {"float16": 1e-2, "float32": 2e-3}
RTOL_OF_THE_REST: Final = 1e-5
# An output is off by so many roundings, as a rule of thumb.
ROUNDINGS: Final = 20.0


class Trial:
    """One check of one function."""

    def __init__(
        self,
        check: str,
        function: Callable[..., Any],
        *,
        rtol: float | None,
        atol: float | None,
        seed: int,
        eps: float | None,
    ) -> None:
        self.check = check
        self.name = str(getattr(function, "__qualname__", getattr(function, "__name__", function)))
        self.rng = np.random.default_rng(seed)
        self.order = 1
        self.mode = ""
        self._rtol = rtol
        self._atol = atol
        self._seed = seed
        self._eps = eps
        self._coarsest = np.finfo(np.float64)

    def fail(self, text: str) -> NoReturn:
        """Raise the AssertionError."""
        raise AssertionError(
            f"{self.check} of {self.name}, order {self.order}, mode {self.mode!r}, seed {self._seed}: {text}"
        )

    def note_precision(self, leaves: Iterable[Leaf]) -> None:
        """From now on allow for the coarsest dtype among `leaves`."""
        known = [np.finfo(spec_of(leaf.value).dtype) for leaf in leaves]
        self._coarsest = max([self._coarsest, *known], key=lambda info: info.eps)

    @property
    def eps(self) -> float:
        """The precision of the coarsest dtype."""
        return float(self._coarsest.eps)

    @property
    def step(self) -> float:
        """The step of the differences: a third of the digits, where rounding and curvature cost about the same."""
        return self._eps if self._eps is not None else self.eps ** (1 / 3)

    def tolerance(self, derivative: float, output: float) -> float:
        """The allowed difference between derivatives of this size, of outputs of that size."""
        rtol = self._rtol
        if rtol is None:
            rtol = RTOL.get(str(self._coarsest.dtype), RTOL_OF_THE_REST)
        atol = self._atol
        if atol is None:
            atol = ROUNDINGS * self.eps * output / self.step
        return rtol * derivative + atol

    def rounding(self, size: float) -> float:
        """By how much two computations of a derivative of this size may differ."""
        return float(np.sqrt(self.eps)) * size
