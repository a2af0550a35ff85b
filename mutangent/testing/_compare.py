"""Whether two runs left the same behind: the same values of the same types in the same structure.

The one difference that is allowed is rounding. A rule may compute its value in another order than the function.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from mutangent._arrays import is_array, is_differentiable, on_host, spec_of, type_name
from mutangent._fields import is_captured, schema_of
from mutangent._tangent import children

ROUNDING_EXPONENT: Final = 0.75  # eps**0.75, relative: 2e-12 for float64, 6e-6 for float32
_COMPARABLE: Final = (bool, int, str, bytes, type(None), np.generic)


def close(a: Any, b: Any, eps: float = 0.0) -> bool:
    """Whether two numbers or arrays of one shape are equal up to rounding; nan equals nan.

    Rounding is that of their dtype, or `eps`, of a coarser one that they were computed in.
    """
    a, b = np.asarray(on_host(a)), np.asarray(on_host(b))
    if a.size == 0 or a.dtype.kind not in "fc":
        return bool(np.array_equal(a, b))
    finite = np.isfinite(a) & np.isfinite(b)
    if not np.array_equal(np.where(finite, 0, a), np.where(finite, 0, b), equal_nan=True):
        return False
    a, b = np.where(finite, a, 0), np.where(finite, b, 0)
    eps = max(eps, float(np.finfo(a.dtype).eps))
    return bool(np.max(np.abs(a - b)) <= eps**ROUNDING_EXPONENT * np.max(np.abs(a)))


def difference(plain: Any, recorded: Any, path: str, eps: float = 0.0) -> str | None:
    """What differs between what a plain run and a recorded run left, in words; None if nothing does."""
    partner: dict[int, int] = {}
    taken: set[int] = set()
    pending: list[tuple[Any, Any, str]] = [(plain, recorded, path)]
    while pending:
        a, b, path = pending.pop()
        if type(a) is not type(b):
            return f"{path} is {type_name(a)} after the plain run and {type_name(b)} after the recorded one"
        if is_array(a) or is_differentiable(a) or isinstance(a, _COMPARABLE):
            complaint = _compare_values(a, b, path, eps)
            if complaint is not None:
                return complaint
            continue
        parts, other_parts = _parts(a), _parts(b)
        if parts is None or other_parts is None:
            continue  # a callable, a generator: nothing is known of it
        if not isinstance(a, tuple):
            if id(a) in partner or id(b) in taken:
                if partner.get(id(a)) != id(b):
                    return (
                        f"{path} is also found elsewhere after one of the two runs, plain and recorded, only"
                    )
                continue
            partner[id(a)] = id(b)
            taken.add(id(b))
        if list(parts) != list(other_parts):
            return (
                f"{path} has {list(parts)} after the plain run and {list(other_parts)} after the recorded one"
            )
        pending += [(parts[key], other_parts[key], f"{path}{key}") for key in reversed(parts)]
    return None


def _compare_values(a: Any, b: Any, path: str, eps: float) -> str | None:
    if is_array(a) or is_differentiable(a):
        if spec_of(a) != spec_of(b):
            return f"{path} has {_spec(a)} after the plain run and {_spec(b)} after the recorded one"
        if not close(a, b, eps):
            return f"{path} is {_short(a)} after the plain run and {_short(b)} after the recorded one"
    elif a != b:
        return f"{path} is {a!r} after the plain run and {b!r} after the recorded one"
    return None


def _parts(value: Any) -> dict[str, Any] | None:
    """The fields of an object or the items of a container, by the words that lead to them."""
    if is_captured(value):
        schema = schema_of(type(value))
        fields = {} if schema is None else schema.fields
        found = {}
        for name, field in fields.items():
            try:
                found[f".{name}"] = field.raw_get(value)
            except AttributeError:
                continue
        return found
    items = children(value)
    if items is None:
        return None
    keys = list(value) if isinstance(value, dict) else list(range(len(items)))
    return {f"[{key!r}]": item for key, item in zip(keys, items, strict=True)}


def _spec(value: Any) -> str:
    spec = spec_of(value)
    return f"shape {spec.shape} and dtype {spec.dtype}"


def _short(value: Any) -> str:
    return np.array2string(np.asarray(on_host(value)), threshold=20, edgeitems=2, separator=", ").replace(
        "\n", ""
    )
