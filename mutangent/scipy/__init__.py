"""SciPy's functions that do not dispatch on their arguments, with derivatives.

SciPy's ufuncs (`scipy.special.erf` and the like) reach traced values by themselves, and mutangent knows their derivatives:
call them as ever. Functions written in Python do not: given a traced value they raise. The modules of this package have
functions of the same names and arguments which on plain values are SciPy's, and on traced ones have a rule:

- `mutangent.scipy.special`: `logsumexp`, `softmax`, `log_softmax`, `polygamma`, `multigammaln`, `lambertw`
- `mutangent.scipy.linalg`: `solve`, `inv`, `det`, `solve_triangular`, `cholesky`, `cho_factor`, `cho_solve`, `expm`,
  `logm`, `sqrtm`, `solve_sylvester`, `solve_continuous_lyapunov`, `solve_discrete_lyapunov`
- `mutangent.scipy.signal`: `convolve`, `correlate`, `fftconvolve`
- `mutangent.scipy.stats`: `norm`

Import the module you need: ``from mutangent.scipy import linalg``. Arguments that only permit SciPy to overwrite its
operands (``overwrite_a``) are taken and not used.
"""

try:
    import scipy as scipy
except ImportError as error:
    raise ImportError(
        "mutangent.scipy needs SciPy. Install it with `pip install mutangent[scipy]`.", name="scipy"
    ) from error
