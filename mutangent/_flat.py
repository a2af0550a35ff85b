"""Which values are flat where they are 0: sums of squares, and what is made of them.

The root's derivative at 0 is infinite. In that of a distance, ``np.sqrt(dx * dx + dy * dy)``, it meets the derivative of
squares, which is 0 there, and the derivative of the whole is that of a norm: it has a kink, and its subgradient of least
norm is 0. In another root, that of x in ``np.sqrt(x) ** 2``, the infinite derivative meets a cotangent 0, and the product
may be anything. The cotangent alone does not tell the two from each other; the tape does.

A value is *flat* if an element that is 0 has the derivative 0 and is not negative near by. A root asks no more, and so -1
in the place of one element does no harm to the others: it is no 0. In a sum it does, as it may cancel what is positive
there. So what is added up or multiplied has to be flat and *nowhere negative*, and so have the constants in it. The numbers
of constants that no pullback reads are kept for this if they are few; of others it is not known.

The proof is by the operations that made the value. It is asked for only where a root is 0, and "no" is always a safe
answer: the derivative is infinite or nan then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from ._arrays import Spec, is_on_device
from ._rulebook import Rule

# So many operations are looked at.
LOOKED_AT: Final = 64
# So many numbers of a constant are kept.
FEW: Final = 16

# Of flat elements these make flat elements: of one array, and of a sequence of them.
MOVING: Final = frozenset(
    {
        *(np.reshape, np.ravel, np.squeeze, np.expand_dims, np.transpose, np.matrix_transpose, np.swapaxes),
        *(np.moveaxis, np.flip, np.fliplr, np.flipud, np.rot90, np.roll, np.broadcast_to, np.tile, np.repeat),
        *(np.diagonal, np.diag, np.triu, np.tril, np.copy, np.positive, np.take_along_axis, np.resize),
    }
)
JOINING: Final = frozenset({np.stack, np.concatenate, np.vstack, np.hstack, np.column_stack, np.dstack})
SPLITTING: Final = frozenset(
    {np.split, np.array_split, np.hsplit, np.vsplit, np.dsplit, getattr(np, "unstack", np.split)}
)
# A sum of squared moduli as a complex number, whose imaginary part is 0.
MODULI: Final = frozenset({np.vdot, np.vecdot})


def is_flat(entries: list[Any], node: int) -> bool:
    """Whether the operations that made a node show that it is flat where it is 0."""
    return _Proof(entries).of(node, False)


class _Proof:
    """One look at the tape, of so many operations. `least`: whether a node has to be nowhere negative, too."""

    __slots__ = ("entries", "known", "left")

    def __init__(self, entries: list[Any]) -> None:
        self.entries = entries
        self.known: dict[tuple[int, bool], bool] = {}
        self.left = LOOKED_AT

    def of(self, node: int, least: bool) -> bool:
        """Whether a node is flat."""
        found = self.known.get((node, least))
        if found is None:
            self.left -= 1
            self.known[node, least] = False
            found = self.known[node, least] = self.left >= 0 and self._look(node, least)
        return found

    def _look(self, node: int, least: bool) -> bool:
        row, parents, saved, _, dtype = self.entries[node]
        if type(row) is not Rule:
            return self._is_flat_part(row.name, parents, saved, least)
        if dtype.kind != "f" or row.kind not in ("elementwise", "function"):
            return False
        if row.function in MOVING:
            return self.of(parents[0], least)
        if row.function in JOINING:
            return self._are(parents[0], saved[1][0], least)
        if row.function in (np.multiply, np.divide):
            is_square = row.function is np.multiply and parents[0] == parents[1]
            return is_square or self._is_product(node, least)
        proof = _PROOFS.get(row.function) or _PROOFS_BY_NAME.get(row.name)
        return proof is not None and proof(self, parents, saved, least)

    def _is_flat_part(self, name: str, parents: Any, saved: Any, least: bool) -> bool:
        """Part of an array, one of several results, or an array into which something was written."""
        if name == "index":
            return self.of(parents, least)
        if name == "scatter":  # what has the same place is added up
            return self.of(parents, True)
        if name == "unpack":
            row, parents, _, _, _ = self.entries[parents]
            return type(row) is Rule and row.function in SPLITTING and self.of(parents[0], least)
        if name != "set item":
            return False
        # What the array was before does not count if all of it was overwritten.
        index, _, value = saved
        is_whole = index is Ellipsis or (type(index) is slice and index == slice(None))
        skipped = int(is_whole)
        return self._are(parents[skipped:], (None, value)[skipped:], least)

    def _are(self, parents: Any, values: Any, least: bool) -> bool:
        """Whether those of the operands are flat that are not constant, and the others nowhere negative, if need be."""
        for parent, value in zip(parents, values, strict=True):
            if not (self.of(parent, least) if parent >= 0 else not least or is_least(value, 0)):
                return False
        return True

    def _is_chosen(self, parents: Any, saved: Any, least: bool) -> bool:
        """The elements of two arrays, or of one where a condition holds, and else of the other."""
        return self._are(parents[-2:], saved[-2:], least)

    def _is_larger(self, parents: Any, saved: Any, least: bool) -> bool:
        """The larger one is nowhere negative if one of them is so."""
        if not all(parent < 0 or self.of(parent, False) for parent in parents):
            return False
        return not least or any(
            self.of(parent, True) if parent >= 0 else is_least(value, 0)
            for parent, value in zip(parents, saved[1:], strict=True)
        )

    def _is_extreme(self, parents: Any, saved: Any, least: bool) -> bool:
        """The largest or smallest of the elements and of `initial`, which is a keyword."""
        _, args, kwargs = saved
        initial = kwargs.get("initial", np._NoValue)
        return (
            len(args) <= 4
            and self.of(parents[0], least)
            and (not least or initial is np._NoValue or is_least(initial, 0))
        )

    def _is_sum_of_two(self, parents: Any, saved: Any, _least: bool) -> bool:
        return self._are(parents, saved[1:], True)

    def _is_sum(self, parents: Any, saved: Any, _least: bool) -> bool:
        """A sum, sums or a mean without settings but axes and a dtype."""
        _, args, kwargs = saved
        return len(args) <= 3 and kwargs.keys() <= {"axis", "dtype", "keepdims"} and self.of(parents[0], True)

    def _is_modulus(self, parents: Any, _saved: Any, _least: bool) -> bool:
        return self._is_real(parents[0]) and self.of(parents[0], False)

    def _key(self, node: int, depth: int = 4) -> Any:
        """The same for two nodes that have the same value by construction: x[0] and x[0], a - b and a - b."""
        row, parents, saved, _, _ = self.entries[node]
        if depth == 0:
            return node
        if type(row) is Rule:
            if row.kind == "elementwise" and min(parents) >= 0:
                return (row, *[self._key(parent, depth - 1) for parent in parents])
        elif row.name == "index" and (index := index_key(saved)) is not None:
            return (index, self._key(parents, depth - 1))
        return node

    def _is_real(self, node: int) -> bool:
        return bool(self.entries[node][4].kind == "f")

    def _is_power(self, parents: Any, saved: Any, least: bool) -> bool:
        """An even power of anything real, one of 2 or more of a modulus, and one of 1 or more of what is flat."""
        base, exponent = parents[0], known(saved[2])
        if parents[1] >= 0 or not is_least(exponent, 1):
            return False
        least_2 = is_least(exponent, 2)
        if least_2 and (exponent % 2 == 0 if type(exponent) is int else bool(np.all(exponent % 2 == 0))):
            return True
        row = self.entries[base][0]
        if least_2 and type(row) is Rule and row.function in (np.absolute, np.fabs):
            return True
        return self.of(base, least)

    def _is_real_part(self, parents: Any, _saved: Any, least: bool) -> bool:
        """The real part of what is flat, or of ``z * conj(z)`` or ``vdot(z, z)``."""
        (node,) = parents
        row, parents, _, _, dtype = self.entries[node]
        if dtype.kind == "f":
            return self.of(node, least)
        if type(row) is not Rule or len(parents) != 2:
            return False
        first, second = parents
        if row.function is np.multiply:
            return self._is_conjugate(first, second) or self._is_conjugate(second, first)
        return row.function in MODULI and self._are_same(first, second)

    def _are_same(self, first: int, second: int) -> bool:
        return first == second or (first >= 0 and second >= 0 and bool(self._key(first) == self._key(second)))

    def _is_conjugate(self, node: int, of: int) -> bool:
        if node < 0 or of < 0:
            return False
        row, parents, _, _, _ = self.entries[node]
        return type(row) is Rule and row.function is np.conjugate and self._are_same(parents[0], of)

    def _is_product(self, node: int, least: bool) -> bool:
        """A product and quotient of factors: pairs of the same one, what is flat, and positive numbers."""
        has_pairs = False
        single: dict[Any, int] = {}  # those without another one of the same key
        positive: dict[int, bool] = {}
        pending = [node]
        while pending:
            node = pending.pop()
            row, parents, saved, _, dtype = self.entries[node]
            is_row = type(row) is Rule and dtype.kind == "f" and self.left > 0
            if is_row and row.function is np.multiply:
                self.left -= 1
                for parent, value in zip(parents, saved[1:], strict=True):
                    if parent >= 0:
                        positive[parent] = positive.get(parent, False) or is_more(value)
                        pending.append(parent)
                    elif not is_least(value, 0):
                        return False
            elif is_row and row.function is np.divide and parents[0] >= 0:
                self.left -= 1
                if not is_more(saved[2]):
                    return False
                pending.append(parents[0])
            elif single.pop(key := self._key(node), None) is None:
                single[key] = node
            else:
                has_pairs = True
        rest = [each for each in single.values() if not positive.get(each)]
        if len(rest) == 1 and not has_pairs:
            return self.of(rest[0], least)
        return all(self.of(each, True) for each in rest)

    def _is_dot_product(self, parents: Any, saved: Any, _least: bool, of_vectors: bool = False) -> bool:
        """A vector with itself, and what is flat with constants that are not negative."""
        operands = saved[1]
        first, second = parents
        if self._are_same(first, second):
            is_vector = of_vectors or len(self.entries[first][3]) == 1
            return (is_vector and self._is_real(first)) or self.of(first, True)
        if first >= 0 and second >= 0:
            return self.of(first, True) and self.of(second, True)
        constant, node = (operands[0], second) if first < 0 else (operands[1], first)
        return is_least(constant, 0) and self.of(node, True)

    def _is_einsum_of_squares(self, parents: Any, saved: Any, _least: bool) -> bool:
        """One real operand twice, with the same letters: ``"ij,ij->i"``."""
        subscripts = saved[1][0]
        nodes = [parent for parent in parents if parent >= 0]
        if len(nodes) != 2 or not self._are_same(*nodes) or not self._is_real(nodes[0]):
            return False
        terms = subscripts.replace(" ", "").split("->")[0].split(",")
        return len(terms) == 2 and terms[0] == terms[1]


def index_key(index: Any) -> Any:
    """Something to compare an index by, which is hashable; None for one with arrays."""
    kind = type(index)
    if kind is slice:
        parts = (index.start, index.stop, index.step)
        return parts if all(part is None or type(part) is int for part in parts) else None
    if kind is tuple:
        found = tuple([index_key(part) for part in index])
        return None if None in found else found
    return (kind, index) if kind is int or index is Ellipsis or index is None else None


def plain(value: Any) -> Any:
    """What an operand is outside of all recordings."""
    while hasattr(value, "_scatter"):
        value = value._value
    return value


def few(value: Any) -> Any:
    """A constant that no pullback reads, if its numbers are few enough to be kept; else None."""
    kind = type(value)
    if kind is np.ndarray:
        return value.copy() if value.size <= FEW else None
    return value if kind is float or kind is int or kind is np.float64 else None


def known(value: Any) -> Any:
    """The numbers of a saved operand; nan where they are not known. A device is not asked: that would be to wait for it."""
    value = plain(value)
    return np.nan if value is None or type(value) is Spec or is_on_device(value) else value


def is_least(value: Any, bound: float) -> bool:
    """Whether a saved operand is known, real, and nowhere below a bound."""
    if type(value) is int or type(value) is float:
        return value >= bound
    value = known(value)
    return bool(np.all(np.isreal(value) & (np.real(value) >= bound)))


def is_more(value: Any) -> bool:
    """Whether a saved operand is known, real, and positive and finite everywhere."""
    if type(value) is int or type(value) is float:
        return 0 < value < np.inf
    value = known(value)
    return bool(np.all(np.isreal(value) & (np.real(value) > 0) & np.isfinite(value)))


def _always(_proof: _Proof, _parents: Any, _saved: Any, _least: bool) -> bool:
    return True


def _is_dot_product_of_vectors(proof: _Proof, parents: Any, saved: Any, least: bool) -> bool:
    return proof._is_dot_product(parents, saved, least, of_vectors=True)


def _is_converted(proof: _Proof, parents: Any, _saved: Any, least: bool) -> bool:
    return proof.of(parents[0], least)


# Each takes a proof, the nodes of the operands, what the entry saved, and `least`.
_PROOFS: Final[dict[Any, Callable[[_Proof, Any, Any, bool], bool]]] = {
    np.square: _always,
    np.var: _always,
    np.add: _Proof._is_sum_of_two,
    np.power: _Proof._is_power,
    np.float_power: _Proof._is_power,
    np.sum: _Proof._is_sum,
    np.mean: _Proof._is_sum,
    np.cumsum: _Proof._is_sum,
    np.where: _Proof._is_chosen,
    np.minimum: _Proof._is_chosen,
    np.fmin: _Proof._is_chosen,
    np.maximum: _Proof._is_larger,
    np.fmax: _Proof._is_larger,
    np.max: _Proof._is_extreme,
    np.min: _Proof._is_extreme,
    np.real: _Proof._is_real_part,
    np.absolute: _Proof._is_modulus,
    np.fabs: _Proof._is_modulus,
    np.dot: _Proof._is_dot_product,
    np.matmul: _Proof._is_dot_product,
    np.inner: _Proof._is_dot_product,
    np.vdot: _is_dot_product_of_vectors,
    np.vecdot: _is_dot_product_of_vectors,
    np.astype: _is_converted,
}
# Operations of the package's own.
_PROOFS_BY_NAME: Final[dict[str, Callable[[_Proof, Any, Any, bool], bool]]] = {
    "einsum": _Proof._is_einsum_of_squares,
    "_astype": _is_converted,
}
