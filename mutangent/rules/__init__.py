"""The derivatives of NumPy's functions. Importing this package fills the rulebook.

A rule is written with NumPy functions and operators only, so it runs unchanged on other array libraries and on
values that an outer recording traces, which gives higher derivatives. Therefore no rule writes in place, converts
with `numpy.asarray` or `float`, or makes an array from nothing (`zeros_like(g, shape=…)` stays in the library of `g`).

Constants are Python numbers: they are weak, and leave float32 as it is.
"""

from .._rulebook import when_loaded
from . import (
    assembling,
    bessel,
    constant,
    contractions,
    decompositions,
    elementwise,
    fourier,
    in_place,
    indexing,
    linalg,
    nan_reductions,
    order_statistics,
    orthogonal,
    padding,
    polynomials,
    products,
    reductions,
    sequences,
    sets,
    shapes,
    statistics,
    systems,
    ufunc_methods,
    undispatched,
    unsupported,
)

__all__ = [
    "assembling",
    "bessel",
    "constant",
    "contractions",
    "decompositions",
    "elementwise",
    "fourier",
    "in_place",
    "indexing",
    "linalg",
    "nan_reductions",
    "order_statistics",
    "orthogonal",
    "padding",
    "polynomials",
    "products",
    "reductions",
    "sequences",
    "sets",
    "shapes",
    "statistics",
    "systems",
    "ufunc_methods",
    "undispatched",
    "unsupported",
]


def _read_special() -> None:
    from . import special as special  # noqa: PLC0415 - it imports SciPy


when_loaded("scipy.special", _read_special)
