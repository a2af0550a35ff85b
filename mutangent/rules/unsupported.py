"""What has no rule yet, and why. `NoRuleError` repeats the reason."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._rulebook import rule, rules, unsupported

unsupported(
    "its counts are constant, but its edges and weights are not. Use np.histogram for one axis, or np.bincount of the "
    "flat number of the bin, with weights",
    np.histogram2d,
    np.histogramdd,
)

# `at` writes into its first operand. Additions are followed; for the rest there is only the loop.
for row in rules():
    ufunc: Any = row.function
    if isinstance(ufunc, np.ufunc) and ufunc not in (np.add, np.subtract) and row.kind == "elementwise":
        unsupported(
            "only np.add.at and np.subtract.at are followed. Write x[i] = f(x[i], y), element by element",
            ufunc.at,
        )

# Functions that write into their first operand, as long as no other file of rules has them.
for function in (np.copyto, np.fill_diagonal, np.place, np.put, np.put_along_axis, np.putmask):
    if not rule(function).kind:
        unsupported("it writes into its first operand. Write x[index] = values", function)
