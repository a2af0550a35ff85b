"""The suite with another array library: what ``import numpy as np`` gives in the files of tests.

With ``pytest --arrays=cupy-host`` (or ``cupy``) a test file that makes arrays with ``np.array``, ``np.zeros`` … gets
CuPy's, as a user gets them who writes ``cupy.array``. Every other name is NumPy's own, and reaches CuPy by NumPy's
protocols, which is what the library relies on. What compares (``np.testing``, ``np.allclose``) compares on the host.
"""

import builtins
import copy
import functools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

MAKERS = [
    *("arange", "array", "asarray", "ascontiguousarray", "asfortranarray", "bartlett"),
    *("blackman", "diag", "empty", "eye", "frombuffer", "fromfunction"),
    *("fromiter", "full", "geomspace", "hamming", "hanning", "identity"),
    *("indices", "kaiser", "linspace", "logspace", "ones", "tri"),
    *("tril_indices", "triu_indices", "zeros"),
]
# Files that get NumPy itself: they make CuPy's arrays by its own name, or compute with what they have read out of them.
ON_THE_HOST = (
    "tests.arrays",
    "tests.cupy",
    *(f"tests.programs.{name}" for name in ("duals", "pictures", "runs", "test_programs")),
)
COMPARING = ["allclose", "array_equal"]
DRAWING = [
    *("binomial", "choice", "exponential", "gamma", "integers", "normal"),
    *("permutation", "permuted", "poisson", "random", "standard_normal", "uniform"),
]


class Maker:
    """A function of NumPy's that makes arrays from host data, so that they are CuPy's. It is equal to NumPy's own."""

    def __init__(self, function: Callable[..., Any], library: Any) -> None:
        functools.update_wrapper(self, function)
        self._function, self._library = function, library

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if holds(self._library.ndarray, (args, kwargs)):
            name = self._function.__name__
            if name in {"array", "asarray", "ascontiguousarray", "asfortranarray"}:
                return getattr(self._library, name)(*args, **kwargs)
        return to_device(self._library, self._function(*args, **kwargs))

    def __eq__(self, other: object) -> bool:
        return (other._function if isinstance(other, Maker) else other) == self._function

    def __hash__(self) -> int:
        return hash(self._function)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)


def holds(kind: type, value: Any) -> bool:
    """Whether there is an array of a kind in nested containers."""
    if isinstance(value, dict):
        return any(holds(kind, item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(holds(kind, item) for item in value)
    return issubclass(type(value), kind)


def to_device(library: Any, value: Any) -> Any:
    """NumPy arrays in nested containers as CuPy's."""
    if isinstance(value, list | tuple):
        made = [to_device(library, item) for item in value]
        return type(value)._make(made) if hasattr(type(value), "_make") else type(value)(made)
    if type(value) is np.ndarray and value.dtype.kind in "biufc":
        return library.array(value)
    return value


def to_host(library: Any, value: Any) -> Any:
    """CuPy arrays in nested containers as NumPy's."""
    if type(value) in (list, tuple):
        return type(value)([to_host(library, item) for item in value])
    return value.get() if library is not np and issubclass(type(value), library.ndarray) else value


class Generator(np.random.Generator):
    """A generator of NumPy's whose arrays are CuPy's."""

    library: Any

    def __deepcopy__(self, memo: Any) -> Any:
        made = Generator(copy.deepcopy(self.bit_generator, memo))
        made.library = self.library
        return made


def _drawing(name: str) -> Callable[..., Any]:
    def draw(self: Any, *args: Any, **kwargs: Any) -> Any:
        method = getattr(np.random.Generator, name)
        return to_device(self.library, method(self, *to_host(self.library, args), **kwargs))

    return draw


for _name in DRAWING:
    setattr(Generator, _name, _drawing(_name))


class Namespace(types.ModuleType):
    """NumPy's namespace, or a part of it, with some names replaced."""

    def __init__(self, module: Any, names: dict[str, Any]) -> None:
        super().__init__(module.__name__)
        self.__dict__.update(names)
        self._module = module

    def __getattr__(self, name: str) -> Any:
        return getattr(self._module, name)

    def __dir__(self) -> list[str]:
        return dir(self._module)


def namespace(library: Any) -> Namespace:
    """NumPy's namespace with the arrays of `library`."""

    def comparing(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def compare(*args: Any, **kwargs: Any) -> Any:
            return function(*to_host(library, args), **kwargs)

        return compare

    def default_rng(seed: Any = None) -> Any:
        made = Generator(np.random.default_rng(seed).bit_generator)
        made.library = library
        return made

    testing = {
        name: comparing(getattr(np.testing, name))
        for name in np.testing.__all__
        if name.startswith("assert_")
    }
    return Namespace(
        np,
        {
            "ndarray": library.ndarray,
            "testing": Namespace(np.testing, testing),
            "random": Namespace(np.random, {"default_rng": default_rng}),
            **{name: comparing(getattr(np, name)) for name in COMPARING},
            **{name: Maker(getattr(np, name), library) for name in MAKERS},
        },
    )


class _Approx:
    """`pytest.approx` that compares on the host."""

    __array_ufunc__ = None  # CuPy's `array == approx` asks here
    __array_priority__ = 100

    def __init__(self, library: Any, expected: Any) -> None:
        self._library, self._expected = library, expected

    def __eq__(self, actual: object) -> bool:
        return bool(to_host(self._library, actual) == self._expected)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return repr(self._expected)


_given: list[Any] = [np]


def tests_numpy() -> Any:
    """What ``import numpy as np`` gives in files of tests."""
    return _given[-1]


def give_to_tests(library: Any) -> None:
    """Let ``import numpy as np`` in files of tests give the namespace of `library`, from now on."""
    replaced = namespace(library)
    _given.append(replaced)
    original, approx = builtins.__import__, pytest.approx

    @functools.wraps(approx)
    def approx_on_host(expected: Any, *args: Any, **kwargs: Any) -> _Approx:
        return _Approx(library, approx(to_host(library, expected), *args, **kwargs))

    pytest.approx = approx_on_host

    def import_(
        name: str,
        globals: Any = None,  # noqa: A002 - Python's names
        locals: Any = None,  # noqa: A002
        fromlist: Any = (),
        level: int = 0,
    ) -> Any:
        if name == "numpy" and not fromlist:
            importer = (globals or {}).get("__name__", "")
            if importer.startswith("tests.") and not importer.startswith(ON_THE_HOST):
                return replaced
        return original(name, globals, locals, fromlist, level)

    builtins.__import__ = import_
