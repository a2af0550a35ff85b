"""Adding cotangents up: undoing broadcasting, sums that own their buffer, and the projection onto the entry value.

Everything that is added to a cotangent goes through `Cotangents.add`. So this is the place where memory is reused (and
where products could be deferred), and no rule ever sees it.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from ._arrays import Array, Spec, add_at, is_on_device, is_plain_array, on_host, spec_of, zeros


def unbroadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """Sum `x` over the axes along which a value of `shape` was broadcast.

    Examples
    --------
    >>> unbroadcast(np.ones((4, 3)), (3,))
    array([4., 4., 4.])
    >>> unbroadcast(np.ones((4, 3)), (4, 1)).shape
    (4, 1)
    """
    own = x.shape
    if len(own) == 2 and own[1:] == shape and type(x) is np.ndarray:
        # What a row that was added to a matrix gets. The product is a fraction of the price of the reduction.
        ones = _ones.get((own[0], x.dtype))
        if ones is None:
            ones = _row_of_ones(own[0], x.dtype)
        if ones is not None:
            return ones.dot(x)
    lead = len(own) - len(shape)
    if lead < 0:
        raise _misfit(x, shape)
    # The ufunc's own reduction is half the price of `np.sum`, which a traced value needs.
    total = np.add.reduce if type(x) is np.ndarray else np.sum
    ones = tuple([lead + k for k, length in enumerate(shape) if length == 1 and x.shape[lead + k] != 1])
    if ones:
        x = total(x, axis=ones, keepdims=True)
    if lead:
        x = total(x, axis=tuple(range(lead)) if lead > 1 else 0)
    if x.shape != shape:
        raise _misfit(x, shape)
    return x


# Longer rows of ones are made anew: their price is small beside that of the product, and they would be kept for good.
MOST_KEPT: Final = 1 << 12
_ones: Final[dict[tuple[int, np.dtype[Any]], Array]] = {}


def _row_of_ones(length: int, dtype: np.dtype[Any]) -> Array:
    """Ones to multiply a matrix with from the left; None if that is not faster than adding its rows up."""
    if dtype.char not in "fd":
        return None
    made = np.ones(length, dtype)
    if length <= MOST_KEPT:
        if len(_ones) >= 64:
            _ones.clear()
        _ones[length, dtype] = made
    return made


def _misfit(x: Array, shape: tuple[int, ...]) -> ValueError:
    return ValueError(f"a contribution of shape {x.shape} cannot come from a value of shape {shape}")


def is_basic_index(index: Any) -> bool:
    """Whether NumPy's basic indexing applies, which selects each element at most once."""
    kind = type(index)
    if kind is int or kind is slice:
        return True
    if kind is np.ndarray and index.ndim:
        return False
    for part in index if kind is tuple else (index,):  # noqa: SIM110 - a loop costs a third of `all`
        if not _is_basic(part):
            return False
    return True


def _is_basic(part: Any) -> bool:
    return (
        part is None
        or part is Ellipsis
        or isinstance(part, slice)
        or (hasattr(part, "__index__") and np.ndim(part) == 0 and not isinstance(part, bool | np.bool_))
    )


def is_mask(index: Any) -> bool:
    """Whether the index is one boolean mask, which also selects each element at most once."""
    return getattr(index, "dtype", None) == np.bool_


# Products of more rows than this gain nothing from waiting.
MOST_ROWS: Final = 128
FLUSHED_ROWS: Final = 256
FLUSHED_BYTES: Final = 1 << 22


class _Products:
    """Factors of products that are to be summed."""

    __slots__ = ("lefts", "nbytes", "rights", "rows")

    def __init__(self) -> None:
        self.lefts: list[Array] = []
        self.rights: list[Array] = []
        self.rows = 0
        self.nbytes = 0


def multiply(left: Array, right: Array) -> Array:
    """The product of two matrices. NumPy takes one of a column and a row out of BLAS; broadcasting is faster then."""
    return left * right if left.shape[1] == 1 else left.dot(right)


class _Partial:
    """A sum of contributions, and the elements that any of them takes part in; see `_selected`."""

    __slots__ = ("live", "total")

    def __init__(self, total: Array, live: Array) -> None:
        self.total = total
        self.live = live


class Cotangents:
    """The cotangents of one sweep, one slot per node.

    A slot starts as the first contribution itself, which may be shared with other slots. From the second contribution
    on it owns a buffer and adds into it.
    """

    __slots__ = ("foreign", "owned", "products", "slots")

    def __init__(self, size: int) -> None:
        self.slots: list[Any] = [None] * size
        self.owned = bytearray(size)
        # By node: sums of products that are not multiplied out yet, and contributions that are absent at some elements.
        self.products: dict[int, _Products | _Partial] = {}
        self.foreign: set[int] = set()  # nodes that got memory which a user's rule may hold as well

    def add(self, node: int, contribution: Array) -> None:
        """Add a contribution of the node's own shape."""
        slots = self.slots
        present = slots[node]
        if present is None:
            slots[node] = contribution
        elif self.owned[node] and contribution.dtype == present.dtype and type(contribution) is type(present):
            present += contribution
        else:
            total = slots[node] = present + contribution
            # A 0-d sum is an immutable scalar, and a traced one belongs to the outer recording.
            self.owned[node] = is_plain_array(total)

    def add_product(self, node: int, left: Array, right: Array) -> None:
        """Add the matrix product `left @ right`.

        A weight that is read T times gets T products of few rows each. From the second on their factors are kept and
        multiplied a few times in all, which costs a fraction of T small products and T sums.
        """
        slots = self.slots
        if slots[node] is None:
            slots[node] = left.dot(right) if left.shape[1] != 1 else left * right
            return
        if left.shape[1] >= MOST_ROWS:
            self.add(node, multiply(left, right))
            return
        products = self.products.get(node)
        if type(products) is not _Products:
            if products is not None:
                self.settle(node)
            products = self.products[node] = _Products()
        products.lefts.append(left)
        products.rights.append(right)
        products.rows += left.shape[1]
        products.nbytes += left.nbytes + right.nbytes
        if products.rows >= FLUSHED_ROWS or products.nbytes >= FLUSHED_BYTES:
            self.settle(node)

    def add_partial(self, node: int, contribution: Array, live: Array) -> None:
        """Add a contribution of the node's own shape that is absent, and not only zero, where not `live`."""
        pending = self.products.get(node)
        if pending is None:
            self.products[node] = _Partial(contribution, live)
        elif type(pending) is _Partial:
            pending.total = pending.total + contribution
            pending.live = np.logical_or(pending.live, live)
        else:
            self.add(node, contribution)

    def settle(self, node: int) -> Array | None:
        """Add what is pending for a node. If that is all there is, return where it takes part."""
        products = self.products.pop(node)
        if isinstance(products, _Partial):
            alone = self.slots[node] is None
            self.add(node, products.total)
            return products.live if alone else None
        lefts, rights = products.lefts, products.rights
        if len(lefts) == 1:
            self.add(node, multiply(lefts[0], rights[0]))
        else:
            self.add(node, np.concatenate(lefts, 1).dot(np.concatenate(rights, 0)))
        return None

    def scatter(
        self, node: int, index: Any, contribution: Array, shape: tuple[int, ...], dtype: np.dtype[Any]
    ) -> None:
        """Add a contribution to the elements at `index` only, so that T reads of one row each cost O(T).

        The node has `shape` and `dtype`.
        """
        present = self.slots[node]
        if contribution.dtype is not dtype or present is not None:
            if dtype.kind != "c" or contribution.dtype.kind == "c":
                dtype = contribution.dtype
            else:
                dtype = np.result_type(contribution.dtype, np.complex64)  # the next one may be complex
            if present is not None and dtype is not present.dtype:
                dtype = np.result_type(dtype, present.dtype)
        if not self.owned[node]:
            is_numpy = type(contribution) is np.ndarray
            buffer = np.zeros(shape, dtype) if is_numpy else zeros(Spec(shape, dtype), contribution)
            if present is not None:
                buffer += present
            self.slots[node] = buffer
            self.owned[node] = True
            if present is None and is_basic_index(index):
                buffer[index] = contribution
                return
            present = buffer
        elif dtype is not present.dtype and dtype != present.dtype:
            present = self.slots[node] = present.astype(dtype)
        if is_basic_index(index) or is_mask(index):
            present[index] += contribution
        else:
            add_at(present, index, contribution)


def to_real(x: Array) -> Array:
    """The part of a cotangent that a real value feels: the imaginary part of its cotangent has no direction."""
    return np.real(x)


def project(tangent: Array, entry: Any, owned: bool) -> Array:
    """Turn an accumulated cotangent into a tangent of the entry value: its type, shape and dtype, in memory of its own.

    Parameters
    ----------
    tangent : array
        The accumulated cotangent; it has the entry's shape.
    entry : array, float or complex
        The entry value, possibly traced by an outer recording.
    owned : bool
        Whether nobody else holds the memory of `tangent`.
    """
    if type(entry) is np.ndarray and type(tangent) is np.ndarray and tangent.dtype is entry.dtype:
        return tangent if owned else tangent.copy()
    spec = spec_of(entry)
    if spec.dtype.kind == "f" and tangent.dtype.kind == "c":
        tangent = to_real(tangent)
        owned = False
    elif spec.dtype.kind == "c" and tangent.dtype.kind == "f":
        tangent = tangent.astype(spec.dtype)
        owned = True
    if isinstance(entry, float | complex) and not isinstance(entry, np.generic):
        return tangent.item()
    if isinstance(entry, np.ndarray | np.generic) and is_on_device(tangent):
        # Of a number that was taken from what the host has; it waits for the device.
        tangent = on_host(tangent)
        owned = True
    if issubclass(type(tangent), np.generic):  # `type`, since a traced scalar also passes isinstance
        return spec.dtype.type(tangent) if isinstance(entry, np.generic) else np.array(tangent, spec.dtype)
    if tangent.dtype != spec.dtype:
        tangent = tangent.astype(spec.dtype)
    elif not owned:
        tangent = tangent.copy()
    if not isinstance(entry, np.generic):
        return tangent
    # A traced number of Python's has no items.
    return tangent[()] if type(tangent) is np.ndarray else np.reshape(tangent, ())[()]


def broadcast(x: Array, shape: tuple[int, ...]) -> Array:
    """`x` repeated along new or unit axes, as `numpy.broadcast_to` gives it, at a tenth of the cost.

    Parameters
    ----------
    x : array or NumPy scalar
    shape : tuple of int
        A shape that `x` broadcasts to.

    Returns
    -------
    array
        For a plain array a read-only view with zero strides.

    Examples
    --------
    >>> broadcast(np.array([[1.0], [2.0]]), (2, 3))
    array([[1., 1., 1.],
           [2., 2., 2.]])
    """
    kind = type(x)
    if issubclass(kind, np.generic):
        scalar: Array = np.ndarray(shape, x.dtype, x, 0, (0,) * len(shape))
        return scalar
    if kind is not np.ndarray:
        return np.broadcast_to(x, shape)
    if not x.flags.c_contiguous:
        x = x.copy()  # small, or there would be nothing to repeat
    strides = [0] * (len(shape) - x.ndim)
    strides += [0 if length == 1 else stride for length, stride in zip(x.shape, x.strides, strict=True)]
    view: Array = np.ndarray(shape, x.dtype, x, 0, strides)
    view.flags.writeable = False
    return view
