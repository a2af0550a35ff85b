"""Functions without a derivative: their results are integers, truth values, texts, or constant between jumps."""

from __future__ import annotations

import numpy as np

from .._rulebook import array, constant

# Steps, and questions about single elements.
constant(np.floor, np.ceil, np.trunc, np.rint, np.fix, np.round, np.around, np.floor_divide)
constant(np.isfinite, np.isnan, np.isinf, np.isposinf, np.isneginf, np.signbit, np.spacing)
constant(np.isreal, np.iscomplex)

# Comparisons and logic.
constant(np.equal, np.not_equal, np.less, np.less_equal, np.greater, np.greater_equal)
constant(np.logical_and, np.logical_or, np.logical_xor, np.logical_not)
constant(np.all, np.any, np.allclose, np.isclose, np.array_equal, np.array_equiv)
constant(np.isin, np.count_nonzero)

# Positions.
constant(np.argmax, np.argmin, np.nanargmax, np.nanargmin, np.argsort, np.argpartition, np.lexsort)
constant(np.argwhere, np.nonzero, np.flatnonzero, np.searchsorted, np.digitize)

# What an array is, whatever its elements.
constant(np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type)
constant(np.min_scalar_type, np.common_type, np.shares_memory, np.may_share_memory)

# Texts.
constant(np.array_repr, np.array_str, np.array2string)

# Bits, whole numbers and dates, of which no floating-point array has any.
constant(
    np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.invert, np.left_shift, np.right_shift, np.bitwise_count
)
constant(np.gcd, np.lcm, np.packbits, np.unpackbits, np.ravel_multi_index, np.unravel_index)
constant(np.isnat, np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string)

# Shapes, types and plans.
constant(np.diag_indices_from, np.tril_indices_from, np.triu_indices_from)
constant(np.can_cast, np.einsum_path, np.linalg.matrix_rank)

# Files.
constant(np.save, np.savez, np.savez_compressed, np.savetxt)

# New arrays; the functions without an operand come here by `like=`.
array(np.zeros_like, np.ones_like, np.empty_like, np.zeros, np.ones, np.empty, np.eye, np.identity)
