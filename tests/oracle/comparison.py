"""Runs one entry of PyTorch's OpInfo database through PyTorch and through mutangent, and says where they differ.

The value is compared, and what random cotangents of it, the same for both, give for every differentiable operand. Both
have the same convention for complex numbers: the cotangent of the operand is Jᴴ times that of the result.
"""

import functools
import random
import warnings
import zlib
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import attrs
import numpy as np

import mutangent as mt

from .calls import CALLS, INVARIANT, NotInNumPy

# How far two numbers of a precision may lie apart, relative to the largest of their array.
TOLERANCE = {
    np.dtype(np.float16): 2e-2,
    np.dtype(np.float32): 1e-3,
    np.dtype(np.complex64): 1e-3,
    np.dtype(np.float64): 1e-8,
    np.dtype(np.complex128): 1e-8,
}
# Each with whether the operands are laid out with gaps, which PyTorch does to its samples for tests of strided tensors.
VARIANTS = (("float64", False), ("complex128", False), ("float64", True), ("float32", False))
# A few entries have hundreds, which differ in little. A random choice of them has all combinations of settings.
MOST_SAMPLES = 150


@attrs.frozen
class Outcome:
    """What came of one sample: `problem` is None if PyTorch and mutangent agree."""

    sample: str
    problem: str | None

    @property
    def refused(self) -> bool:
        """Whether mutangent said that it has no rule."""
        return self.problem is not None and self.problem.startswith(mt.NoRuleError.__name__)


class Disagreement(AssertionError):
    """A value, a dtype or a gradient that differs."""


@functools.cache
def load() -> tuple[ModuleType, dict[str, Any]]:
    """PyTorch, and its database by name. Takes some seconds, so nothing asks for it before the first comparison."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        from torch.testing._internal.common_methods_invocations import op_db
    torch.set_num_threads(1)
    return torch, {op.name + (f".{op.variant_test_name}" if op.variant_test_name else ""): op for op in op_db}


@functools.cache
def compare(name: str) -> tuple[Outcome, ...]:
    """Compare all samples of an entry."""
    return tuple(outcomes(name))


def outcomes(name: str) -> Iterator[Outcome]:
    torch, database = load()
    op = database[name]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    for dtype_name, strided in VARIANTS:
        dtype = getattr(torch, dtype_name)
        if dtype not in op.supported_backward_dtypes("cpu"):
            continue
        for k, sample in enumerate(samples(torch, op, dtype)):
            arguments = describe(torch, (sample.input, sample.args, sample.kwargs))
            label = f"{dtype_name}{', strided' if strided else ''}, {k}: {arguments}"
            yield Outcome(
                label, problem_of(torch, op, name, sample.noncontiguous() if strided else sample, rng)
            )


def samples(torch: Any, op: Any, dtype: Any) -> list[Any]:
    """The database's own inputs, the same in every run."""
    state = random.getstate()
    try:
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.manual_seed(20221130)
            random.seed(20221130)
            found = list(op.sample_inputs("cpu", dtype, requires_grad=True))
            chosen = sorted(random.sample(range(len(found)), min(len(found), MOST_SAMPLES)))
            return [found[k] for k in chosen]
    finally:
        random.setstate(state)


def describe(torch: Any, value: Any) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')}{list(value.shape)}"
    if isinstance(value, list | tuple):
        return f"({', '.join([describe(torch, item) for item in value])})"
    if isinstance(value, dict):
        return ", ".join([f"{name}={describe(torch, item)}" for name, item in value.items()])
    return repr(value)


def problem_of(torch: Any, op: Any, name: str, sample: Any, rng: np.random.Generator) -> str | None:
    """Why PyTorch and mutangent disagree on a sample, or None."""
    with np.errstate(all="ignore"), warnings.catch_warnings():
        # Samples visit points where NumPy warns of its result. Other warnings stay errors.
        warnings.simplefilter("ignore", RuntimeWarning)
        try:
            compare_sample(torch, op, name, sample, rng)
        except NotInNumPy as error:
            return f"not in NumPy: {error}"
        except Disagreement as error:
            return str(error)
        except Exception as error:  # noqa: BLE001 - whatever a rule raises is the finding
            return f"{type(error).__name__}: {error}"
    return None


def compare_sample(torch: Any, op: Any, name: str, sample: Any, rng: np.random.Generator) -> None:
    leaves: list[Any] = []
    template = planned(torch, (sample.input, sample.args, sample.kwargs), leaves)
    arrays = [as_array(leaf) for leaf in leaves]
    # PyTorch computes in the precision of each operand, NumPy sometimes in that of the result.
    coarsest = max([TOLERANCE[x.dtype] for x in arrays], default=0.0)
    invariant = INVARIANT.get(name, lambda out: out)

    def call(*operands: Any) -> Any:
        first, args, settings = filled(template, operands)
        return invariant(CALLS[name](first, *args, **settings))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        result = invariant(op.gradcheck_wrapper(op.op, sample.input, *sample.args, **sample.kwargs))
    wanted = [out for out in (result if isinstance(result, tuple | list) else [result]) if out.requires_grad]
    out, pullback = mt.vjp(call, *arrays)
    outs = list(out) if isinstance(out, tuple) else [out]
    if len(outs) != len(wanted):
        raise Disagreement(f"{len(outs)} results, wanted {len(wanted)}")
    cotangents = []
    for k, (y, y_wanted, y_plain) in enumerate(zip(outs, wanted, plain_results(call, arrays), strict=True)):
        if np.asarray(y).dtype != np.asarray(y_plain).dtype:
            raise Disagreement(
                f"result {k}: {np.asarray(y).dtype} when recorded, NumPy gives {y_plain.dtype}"
            )
        agree(f"result {k}, beside NumPy's,", np.asarray(y), np.asarray(y_plain))
        agree(f"result {k}", np.asarray(y), as_array(y_wanted), coarsest)
        cotangents.append(random_like(rng, y_wanted))
    wanted_bars = torch.autograd.grad(
        wanted,
        leaves,
        [torch.from_numpy(c).to(y.dtype) for c, y in zip(cotangents, wanted, strict=True)],
        allow_unused=True,
    )
    bars = [cast(cotangent, np.asarray(y)) for cotangent, y in zip(cotangents, outs, strict=True)]
    found_bars = pullback(tuple(bars) if isinstance(out, tuple) else bars[0])
    for k, (x, found, wanted_bar) in enumerate(zip(arrays, found_bars, wanted_bars, strict=True)):
        found_array = np.asarray(found)
        if found_array.dtype != x.dtype:
            raise Disagreement(f"gradient {k}: {found_array.dtype} for an operand of {x.dtype}")
        wanted_array = np.zeros_like(x) if wanted_bar is None else as_array(wanted_bar)
        agree(f"gradient {k}", found_array, wanted_array, coarsest)


def plain_results(call: Callable[..., Any], arrays: list[Any]) -> list[Any]:
    out = call(*arrays)
    return list(out) if isinstance(out, tuple) else [out]


def planned(torch: Any, value: Any, leaves: list[Any]) -> Any:
    """A copy of a sample's arguments with arrays for tensors and a `Slot` for each operand to differentiate."""
    if isinstance(value, torch.Tensor):
        if value.requires_grad:
            leaves.append(value)
            return Slot(len(leaves) - 1)
        return as_array(value)
    if isinstance(value, torch.dtype):
        return np.dtype(str(value).removeprefix("torch."))
    if isinstance(value, dict):
        return {name: planned(torch, item, leaves) for name, item in value.items()}
    if isinstance(value, list):
        return [planned(torch, item, leaves) for item in value]
    if isinstance(value, tuple):
        return tuple([planned(torch, item, leaves) for item in value])
    return value


@attrs.frozen
class Slot:
    index: int


def filled(template: Any, operands: Any) -> Any:
    if isinstance(template, Slot):
        return operands[template.index]
    if isinstance(template, dict):
        return {name: filled(item, operands) for name, item in template.items()}
    if isinstance(template, list | tuple):
        return type(template)([filled(item, operands) for item in template])
    return template


def as_array(tensor: Any) -> Any:
    return tensor.detach().resolve_conj().resolve_neg().numpy(force=True)


def random_like(rng: np.random.Generator, tensor: Any) -> Any:
    shape = tuple(tensor.shape)
    cotangent = rng.normal(size=shape)
    if tensor.dtype.is_complex:
        cotangent = cotangent + 1j * rng.normal(size=shape)
    return np.asarray(cotangent)


def cast(cotangent: Any, y: Any) -> Any:
    """The cotangent in the precision of the result, an array or a number as the result is."""
    return cotangent.astype(y.dtype)


def agree(what: str, found: Any, wanted: Any, tolerance: float = 0.0) -> None:
    if found.shape != wanted.shape:
        raise Disagreement(f"{what}: shape {found.shape}, wanted {wanted.shape}")
    if found.size == 0:
        return
    tolerance = max(tolerance, TOLERANCE.get(found.dtype, 0.0), TOLERANCE.get(wanted.dtype, 0.0))
    size = max(1.0, float(np.max(np.absolute(wanted), where=np.isfinite(wanted), initial=0)))
    close = np.isclose(found, wanted, rtol=tolerance, atol=tolerance * size, equal_nan=True)
    if not np.all(close):
        at = tuple([int(k) for k in np.argwhere(~close)[0]])
        raise Disagreement(
            f"{what} at {at}: {found[at]!r}, wanted {wanted[at]!r} ({int(np.sum(~close))} differ)"
        )
