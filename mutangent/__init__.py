"""Derivatives of stateful Python as it stands: attrs objects mutated with plain ``setattr``, NumPy or CuPy arrays.

Reading this file is reading the API.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import _operators as _operators  # gives TracedArray its operators
from . import rules as rules  # fills the rulebook
from . import tree
from ._capture import field
from ._checkpoint import checkpoint, checkpoint_sequence
from ._context import Context, pause, primal, stop_gradient
from ._decorator import differentiable
from ._device import array_module, to_device, to_host
from ._errors import (
    CheckpointError,
    ContextError,
    CotangentError,
    GradientTypeError,
    InPlaceError,
    MutangentError,
    NonFiniteError,
    NoRuleError,
    NotCapturedError,
    RuleError,
    TracedValueError,
)
from ._identity import IdentityMap
from ._jacobians import elementwise_grad, hessian, hvp, jacobian
from ._jvp import jvp
from ._primitive import non_differentiable, primitive
from ._ravel import ravel, ravel_tangent, total
from ._rulebook import rrule
from ._tangent import NoTangent, Tangent, ZeroTangent
from ._traced import TracedArray
from ._transforms import grad, value_and_grad, vjp

if TYPE_CHECKING:
    from . import nn, optim, testing

__version__ = "0.1.0"

__all__ = [
    "CheckpointError",
    "Context",
    "ContextError",
    "CotangentError",
    "GradientTypeError",
    "IdentityMap",
    "InPlaceError",
    "MutangentError",
    "NoRuleError",
    "NoTangent",
    "NonFiniteError",
    "NotCapturedError",
    "RuleError",
    "Tangent",
    "TracedArray",
    "TracedValueError",
    "ZeroTangent",
    "array_module",
    "checkpoint",
    "checkpoint_sequence",
    "differentiable",
    "elementwise_grad",
    "field",
    "grad",
    "hessian",
    "hvp",
    "jacobian",
    "jvp",
    "nn",
    "non_differentiable",
    "optim",
    "pause",
    "primal",
    "primitive",
    "ravel",
    "ravel_tangent",
    "rrule",
    "stop_gradient",
    "testing",
    "to_device",
    "to_host",
    "total",
    "tree",
    "value_and_grad",
    "vjp",
]


def __getattr__(name: str) -> _Any:
    # Parts that not every program uses are loaded when they are: a third of the time that an import takes.
    if name in {"nn", "optim", "testing"}:
        return _import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*globals(), "nn", "optim", "testing"]
