"""Derivatives of stateful Python as it stands: attrs objects mutated with plain ``setattr``, NumPy or CuPy arrays.

Reading this file is reading the API.
"""

from . import _operators as _operators  # gives TracedArray its operators
from . import nn, optim, testing, tree
from . import rules as rules  # fills the rulebook
from ._capture import field
from ._checkpoint import checkpoint, checkpoint_sequence
from ._context import Context, pause, primal, stop_gradient
from ._decorator import differentiable
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
    "total",
    "tree",
    "value_and_grad",
    "vjp",
]
