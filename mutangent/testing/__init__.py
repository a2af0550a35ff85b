"""How we know that gradients are right: they are compared with finite differences.

Everything here works on plain runs of the function and on the public verbs `vjp` and `jvp`; it knows no rule and no tape.
"""

from ._check_grads import check_grads
from ._check_rrule import check_rrule

__all__ = ["check_grads", "check_rrule"]
