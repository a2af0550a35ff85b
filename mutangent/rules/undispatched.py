"""NumPy's functions that never see a traced value, because NumPy asks none of their arguments how to call them.

Most have no argument with a derivative. Those that convert their argument into an array raise `TracedValueError`.
"""

from __future__ import annotations

import numpy as np

from .._rulebook import constant, unsupported

CONSTANT = """
    arange fromfunction indices tri bartlett blackman hamming hanning kaiser
    broadcast_shapes diag_indices tril_indices triu_indices mask_indices nested_iters
    isdtype isfortran isscalar issubdtype iterable mintypecode promote_types typename datetime_data
    base_repr binary_repr format_float_positional format_float_scientific
    from_dlpack frombuffer fromfile fromregex fromstring genfromtxt load loadtxt
    frompyfunc get_include get_printoptions getbufsize geterr geterrcall info printoptions set_printoptions setbufsize
    seterr seterrcall show_config show_runtime test
"""

# Some exist from a later version of NumPy on, or are about to go.
constant(*[getattr(np, name) for name in CONSTANT.split() if hasattr(np, name)])
constant(np.fft.fftfreq, np.fft.rfftfreq)
constant(*[space.test for space in (np.fft, np.linalg) if hasattr(space, "test")])

unsupported(
    "NumPy makes a plain array of its argument. Use x itself, np.copy(x), or np.stack([x, y]) for a list of traced values",
    *(np.array, np.asarray, np.asanyarray, np.asarray_chkfinite, np.ascontiguousarray, np.asfortranarray),
    *(np.require, np.fromiter),
)
unsupported("its matrices are no arrays. Use np.block or np.reshape", np.asmatrix, np.bmat)
unsupported(
    "NumPy makes a plain number of the value. Use np.broadcast_to(x, shape) or np.full_like(x, y)", np.full
)
