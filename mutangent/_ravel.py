"""Parameters as one vector, and back: `ravel`, and `ravel_tangent` and `total` for gradients."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ._arrays import describe, is_array, is_on_device, namespace_of, on_host, spec_of, type_name, zeros
from ._copies import copied
from ._errors import GradientTypeError
from ._identity import IdentityMap
from ._layout import Layout
from ._pairing import refuse_overlaps
from ._parameters import Parameter, parameters
from ._tangent import ZERO
from ._traced import TracedArray, primal


def ravel(m: Any) -> tuple[Any, Unravel]:
    """All parameters of an object in one vector, and the way back. This is what SciPy's optimisers want.

    Parameters
    ----------
    m : object, array, or container of them
        Parameters are the float and complex numbers and arrays in it. An array in several places is one parameter. Fields
        with ``trainable=False``, and what only they reach, are state and no parameters.

    Returns
    -------
    vector : array of one dimension
        The parameters one after the other, in the order of the fields; each in C order. It is a copy. Its dtype is the one
        that all of them can be converted to without loss, a Python float counting as float64.
    unravel : callable
        ``unravel(vector)`` makes a new object with the numbers of a vector in it, of the same classes, with the same
        sharing and cycles, each parameter in its own dtype. State is as `m` had it when `ravel` was called, a new copy
        each time: what a call does to one such object does not reach another, nor `m`.

    Raises
    ------
    GradientTypeError
        If `m` has no tangent space or is a tangent.
    NotCapturedError
        If arrays sit in an object that capture does not follow.
    ValueError
        If two arrays overlap in memory without being one array.

    Notes
    -----
    Both are differentiable, in both modes and with respect to what `m` holds as well as to the vector. Objects of classes
    that are not captured, such as random generators, are not copied: all results of `unravel` have the same one.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    ...     offsets: np.ndarray
    >>> vector, unravel = mt.ravel(Line(2.0, np.array([3.0, 4.0])))
    >>> vector
    array([2., 3., 4.])
    >>> unravel(10 * vector)
    Line(slope=20.0, offsets=array([30., 40.]))
    >>> mt.grad(lambda v: unravel(v).slope ** 2)(vector)
    array([4., 0., 0.])
    """
    layout, found = parameters(m)
    _require_tangent_space(m, layout, "ravel")
    refuse_overlaps(layout.slots)
    vector = _joined([parameter.value for parameter in found], found)
    return vector, Unravel(layout, found, primal(vector).dtype)


def ravel_tangent(m: Any, tangent: Any) -> Any:
    """The gradient of an object as a vector, in the layout of ``ravel(m)``.

    Parameters
    ----------
    m : object, array, or container of them
        The object that the gradient belongs to.
    tangent : Tangent
        Its gradient. The shares of an array in several fields are added; where nothing flowed there are zeros.

    Returns
    -------
    array of one dimension
        Of the length and dtype of the vector.

    Raises
    ------
    CotangentError
        If `tangent` has not the structure, the shapes or the dtypes of what `m` holds now.
    GradientTypeError
        If `m` has no tangent space.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Line:
    ...     slope: float
    ...     offsets: np.ndarray
    >>> line = Line(2.0, np.array([3.0, 4.0]))
    >>> mt.ravel_tangent(line, mt.grad(lambda line: line.slope**2)(line))
    array([4., 0., 0.])
    """
    layout, found = parameters(m, tangent)
    _require_tangent_space(m, layout, "ravel_tangent")
    gradients = [
        _zero(primal(parameter.value)) if parameter.gradient is ZERO else parameter.gradient
        for parameter in found
    ]
    joined = _joined(gradients, found)
    dtype = (
        np.result_type(*[spec_of(parameter.value).dtype for parameter in found]) if found else joined.dtype
    )
    return joined if joined.dtype == dtype else joined.astype(dtype)


def total(m: Any, tangent: Any) -> IdentityMap[Any]:
    """The gradient of each array, the shares of all fields that hold it added.

    Arrays are no objects: an array in two fields has a share of the gradient in each. Who changes the array itself needs
    the sum.

    Parameters
    ----------
    m : object, or container of objects
        The object that the gradient belongs to.
    tangent : Tangent
        Its gradient.

    Returns
    -------
    IdentityMap
        From each array in trainable fields of `m` to its gradient, `ZeroTangent` if nothing flowed to it. Numbers are not
        in it: each has one place, and its gradient there.

    Raises
    ------
    CotangentError
        If `tangent` has not the structure, the shapes or the dtypes of what `m` holds now.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.differentiable
    ... class Pair:
    ...     a: np.ndarray
    ...     b: np.ndarray
    >>> shared = np.array([5.0, 5.0])
    >>> pair = Pair(shared, shared)
    >>> gradient = mt.grad(lambda pair: np.sum(pair.a + 2 * pair.b))(pair)
    >>> gradient
    Tangent[Pair](a=array([1., 1.]), b=array([2., 2.]))
    >>> for array, g in mt.total(pair, gradient).items():
    ...     array -= 0.1 * g
    >>> pair
    Pair(a=array([4.7, 4.7]), b=array([4.7, 4.7]))
    """
    layout, found = parameters(m, tangent)
    _require_tangent_space(m, layout, "total")
    return IdentityMap(
        (parameter.value, parameter.gradient)
        for parameter in found
        if is_array(parameter.value) and parameter.gradient is not ZERO
    )


class Unravel:
    """Makes objects out of vectors; see `ravel`."""

    __slots__ = ("_dtype", "_layout", "_parts", "_size")

    def __init__(self, layout: Layout, found: list[Parameter], dtype: np.dtype[Any]) -> None:
        self._dtype = dtype
        self._size = 0
        # Of each parameter: where it begins, what it is, and the numbers of its leaves.
        self._parts: list[tuple[int, _Form, list[int]]] = []
        values: dict[int, Any] = {}
        for parameter in found:
            form = _form_of(parameter.value)
            numbers = [leaf.number for leaf in parameter.leaves]
            self._parts.append((self._size, form, numbers))
            self._size += math.prod(form.shape)
            values.update(dict.fromkeys(numbers, 0.0))  # the numbers come from the vector
        # A copy of the object as it is now, which nobody else sees, so that nobody moves its state.
        _copy_state(layout, values)
        self._layout = Layout([(copied(layout, values), layout.nodes[0].key)])  # type: ignore[union-attr]

    def __repr__(self) -> str:
        return f"<unravel {self._size} numbers into {type_name(self._layout.roots[0])}>"

    def __call__(self, vector: Any) -> Any:
        """A new object with the numbers of `vector` in it."""
        self._require_vector(vector)
        values: dict[int, Any] = {}
        for start, form, numbers in self._parts:
            values.update(dict.fromkeys(numbers, _piece(vector, start, form)))
        _copy_state(self._layout, values)
        return copied(self._layout, values)

    def _require_vector(self, vector: Any) -> None:
        if not is_array(vector) or vector.shape != (self._size,):
            raise ValueError(
                f"unravel takes a vector of {self._size} numbers, as mutangent.ravel gave it, and got {describe(vector)}."
            )
        kind = vector.dtype.kind
        if kind not in "fciu" or (kind == "c" and self._dtype.kind != "c"):
            raise TypeError(
                f"unravel got a vector of dtype {vector.dtype}, and the numbers of a vector of dtype {self._dtype} cannot "
                "be made of that without loss. Take `np.real(vector)` if that is meant."
            )


class _Form(NamedTuple):
    """What a parameter is. `kind` is the type of a number, and None for an array."""

    kind: type | None
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def _form_of(value: Any) -> _Form:
    spec = spec_of(value)
    return _Form(None if is_array(value) else type(primal(value)), spec.shape, spec.dtype)


def _piece(vector: Any, start: int, form: _Form) -> Any:
    """One parameter out of a vector: a copy, since methods may write into it."""
    if form.kind is None:
        piece = vector[start : start + math.prod(form.shape)]
        if form.dtype.kind == "f" and vector.dtype.kind == "c":
            piece = np.real(piece)
        return np.reshape(piece, form.shape).astype(form.dtype)
    number = vector[start]
    if form.dtype.kind == "f" and vector.dtype.kind == "c":
        number = np.real(number)
    number = number.astype(form.dtype)
    if form.kind in (float, complex):
        return number.item()
    return on_host(number)[()] if is_on_device(number) else number


def _copy_state(layout: Layout, values: dict[int, Any]) -> None:
    """Add copies of all other leaves to `values`; an array in several places has one copy."""
    copies: dict[int, Any] = {}
    for leaf in layout.leaves:
        if leaf.number not in values:
            if leaf.slot not in copies:
                value = _without_closed_recordings(leaf.value)
                copies[leaf.slot] = value.copy() if is_array(value) else value
            values[leaf.number] = copies[leaf.slot]


def _without_closed_recordings(value: Any) -> Any:
    while type(value) is TracedArray and value._tape.all is None:
        value = value._value
    return value


def _joined(values: list[Any], found: list[Parameter]) -> Any:
    """Numbers and arrays as one vector."""
    if not values:
        return np.zeros(0)
    arrays = [primal(parameter.value) for parameter in found if is_array(parameter.value)]
    library = arrays[0] if arrays else None
    if any(is_on_device(each) is not is_on_device(library) for each in arrays):
        raise TypeError(
            "the object holds arrays of NumPy and of CuPy, which make no vector together. Move them with "
            "mutangent.to_device(m) or mutangent.to_host(m) first."
        )
    return np.concatenate(
        [np.reshape(value, -1) if is_array(value) else _as_vector(value, library) for value in values]
    )


def _zero(value: Any) -> Any:
    """Zero of the kind of a value; that of a number is a number, which belongs to no array library."""
    spec = spec_of(value)
    return zeros(spec, value) if is_array(value) else spec.dtype.type(0)


def _as_vector(number: Any, library: Any) -> Any:
    """A number as a vector of one, in the array library of `library`."""
    if library is None or isinstance(library, np.ndarray):
        return np.reshape(number, -1)
    return number * namespace_of(library).ones(1, spec_of(number).dtype)


def _require_tangent_space(m: Any, layout: Layout, verb: str) -> None:
    if layout.nodes[0] is None:
        raise GradientTypeError(
            f"{verb} was given {describe(m)}, which has no tangent space. Give an object of a class with "
            "@mutangent.differentiable, a float or complex array, or a container of them."
        )
