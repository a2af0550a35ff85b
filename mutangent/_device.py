"""Between the host's memory and a device: `to_device`, `to_host`, `array_module`.

What counts is the object, here as everywhere: moving a model gives its fields other arrays and leaves every object, list
and dict the one it was, so that whoever holds a part of it, such as an optimiser, goes on holding it. PyTorch's modules
move in the same way; only arrays and tuples, which have no identity worth keeping, are returned anew.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import attrs

from ._arrays import is_plain_array, namespace_of, on_host
from ._errors import ContextError
from ._fields import current, schema_of
from ._identity import IdentityMap
from ._tangent import rebuild


def array_module(*values: Any) -> Any:
    """The module whose arrays these are: `cupy` if one of them is CuPy's, else `numpy`.

    Parameters
    ----------
    *values : object
        Arrays, which may be traced, and anything else, which counts as NumPy's.

    Returns
    -------
    module
        For code that makes arrays, ``mt.array_module(x).zeros(3)``, and runs on both. What takes arrays needs it not:
        ``np.tanh(x)`` reaches CuPy by itself.

    Examples
    --------
    >>> import mutangent as mt
    >>> mt.array_module(np.ones(3)).__name__
    'numpy'
    """
    modules = (namespace_of(value) for value in values)
    return next((module for module in modules if module.__name__ != "numpy"), namespace_of(None))


def to_device(value: Any) -> Any:
    """Move the arrays in reach of an object to the current CUDA device, as CuPy's.

    Objects, lists, dicts and deques stay the ones they are and get other arrays; an array that several fields share is
    one array afterwards as well. Python and NumPy numbers stay on the host.

    Parameters
    ----------
    value : object
        An instance of an attrs class (a model, an optimiser), a container, or an array.

    Returns
    -------
    object
        `value` itself; for an array or a tuple a new one.

    Raises
    ------
    ImportError
        If CuPy is not installed or cannot be imported.
    RuntimeError
        If there is no CUDA device.
    ContextError
        If a recording is open.

    Notes
    -----
    Fields are set past ``on_setattr`` hooks, converters and ``frozen``. A view becomes an array of its own. Objects of
    classes that are no attrs classes are not looked into.
    """
    return _moved(value, cupy_with_device("to_device").asarray)


def to_host(value: Any) -> Any:
    """Move the arrays in reach of an object to the host's memory, as NumPy's; the reverse of `to_device`.

    Parameters
    ----------
    value : object
        An instance of an attrs class (a model, an optimiser), a container, or an array.

    Returns
    -------
    object
        `value` itself; for an array or a tuple a new one.

    Raises
    ------
    ContextError
        If a recording is open.

    Examples
    --------
    >>> import mutangent as mt
    >>> net = mt.nn.RNN(2, 3, rng=np.random.default_rng(0))
    >>> mt.to_host(net) is net
    True
    """
    return _moved(value, on_host)


def cupy_with_device(what: str) -> Any:
    """The module `cupy`, or an error that says what `what` misses."""
    try:
        import cupy  # noqa: PLC0415 - optional, and slow to import
    except Exception as error:
        raise ImportError(
            f"{what} needs CuPy, and importing it failed: {error}. Install it for your CUDA version, for example with "
            'pip install "cupy-cuda13x[ctk]" or pip install "mutangent[cuda13]".'
        ) from error
    if not cupy.is_available():
        raise RuntimeError(
            f"{what} needs a CUDA device, and CuPy {cupy.__version__} finds none: {why_no_device(cupy)}. Use NumPy arrays, "
            "or see what `python -m mutangent` says."
        )
    return cupy


def why_no_device(cupy: Any) -> str:
    """What CUDA says about a machine without a device."""
    try:
        count = cupy.cuda.runtime.getDeviceCount()
    except Exception as error:  # noqa: BLE001 - of CUDA, whatever it is
        return str(error)
    return f"there are {count} devices"


def _moved(value: Any, move: Callable[[Any], Any]) -> Any:
    if current() is not None:
        raise ContextError(
            "arrays cannot be moved between host and device inside a recording: the move has no derivative. Move them "
            "before it, or after."
        )
    walk = _Walk(move)
    result = walk.visit(value)
    writes = [(holder, key, new) for holder in walk for key, new in walk.changes(holder)]
    for holder, key, new in writes:  # all arrays have been made, so nothing is moved in part
        _put(holder, key, new)
    return result


class _Walk:
    """Every holder in reach, each once, without recursion."""

    def __init__(self, move: Callable[[Any], Any]) -> None:
        self._move = move
        self._arrays: IdentityMap[Any] = IdentityMap()
        self._seen: IdentityMap[None] = IdentityMap()
        self._pending: list[Any] = []

    def __iter__(self) -> Iterator[Any]:
        while self._pending:
            yield self._pending.pop()

    def visit(self, value: Any) -> Any:
        """What takes the place of a value; holders are put on the list."""
        if is_plain_array(value):
            if value.dtype.kind not in "biufc":
                return value
            if value not in self._arrays:
                self._arrays[value] = self._move(value)
            return self._arrays[value]
        if isinstance(value, tuple):
            items = [self.visit(item) for item in value]
            same = all(new is old for new, old in zip(items, value, strict=True))
            return value if same else rebuild(value, items)
        is_holder = isinstance(value, list | dict | deque | IdentityMap) or attrs.has(type(value))
        if is_holder and value not in self._seen:
            self._seen[value] = None
            self._pending.append(value)
        return value

    def changes(self, holder: Any) -> Iterator[tuple[Any, Any]]:
        """The keys or fields of a holder that get another value."""
        for key, held in _items(holder):
            new = self.visit(held)
            if new is not held:
                yield key, new


def _items(holder: Any) -> list[tuple[Any, Any]]:
    if isinstance(holder, dict | IdentityMap):
        return list(holder.items())
    if isinstance(holder, list | deque):
        return list(enumerate(holder))
    names = [field.name for field in attrs.fields(type(holder))]
    return [(name, getattr(holder, name)) for name in names if hasattr(holder, name)]


def _put(holder: Any, key: Any, new: Any) -> None:
    if isinstance(holder, dict | list | deque | IdentityMap):
        holder[key] = new
        return
    schema = schema_of(type(holder))
    if schema is not None and key in schema.fields:
        schema.fields[key].raw_set(holder, new)
    else:
        object.__setattr__(holder, key, new)
