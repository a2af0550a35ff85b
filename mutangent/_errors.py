"""Every error the library raises by name.

Each derives from `MutangentError` and from the builtin exception that a caller would expect without knowing this
library, so that `except TypeError` keeps working in code that never heard of tangents.
"""


class MutangentError(Exception):
    """Base class of all errors raised by mutangent."""


class NoRuleError(MutangentError, NotImplementedError):
    """A traced value reached a function that has no derivative rule."""


class TracedValueError(MutangentError, TypeError):
    """A traced value was about to lose its gradient silently, by a conversion or by a write into a plain array."""


class NotCapturedError(MutangentError, TypeError):
    """A differentiable value sits where capture cannot see it, for example in an undecorated attrs class."""


class ContextError(MutangentError, RuntimeError):
    """A context was entered twice, left out of order, or asked for a value that it did not compute."""


class CheckpointError(MutangentError, RuntimeError):
    """A checkpointed function did something that running it again cannot repeat."""


class CotangentError(MutangentError, ValueError):
    """A cotangent has not the shape, dtype or structure of the value it belongs to."""


class RuleError(MutangentError, TypeError):
    """A user's rule breaks its contract, for example by forgetting the state that the call wrote."""


class GradientTypeError(MutangentError, TypeError):
    """Something has no such derivative: an integer argument, a result that is no real scalar, a sum over two classes."""


class InPlaceError(MutangentError, RuntimeError):
    """An array was written in place in a way whose gradient would be wrong or is not known."""


class NonFiniteError(MutangentError, FloatingPointError):
    """A context with ``check_finite=True`` met the first value or cotangent that is nan or infinite."""
