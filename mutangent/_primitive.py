"""Users' rules for their own functions and methods, those that mutate objects included. What a call does is in `_call`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from ._arrays import describe, is_differentiable, is_plain_array, type_name
from ._call import Call, Frame, open_tape
from ._context import pause
from ._errors import NoRuleError, RuleError
from ._fields import current, enter, is_captured, leave
from ._recording import check_array
from ._shadow import check_shadow
from ._tangent import NONE, ZERO, NoTangent, ZeroTangent, children, map_container, rebuild
from ._tape import Tape
from ._traced import TracedArray, collect, level_of, lower, new_traced, primal


class Primitive:
    """A function with a rule of its own. Made by `primitive`."""

    def __init__(self, function: Callable[..., Any]) -> None:
        functools.update_wrapper(self, function)
        self._function = function
        self._defaults = len(getattr(function, "__defaults__", None) or ())
        self._rule: Callable[..., Any] | None = None
        self._forward_rule: Callable[..., Any] | None = None

    def __repr__(self) -> str:
        return f"<primitive {self._name}>"

    def __get__(self, obj: Any, cls: type | None = None) -> Any:
        return self if obj is None else functools.partial(self, obj)

    @property
    def __closure__(self) -> tuple[Any, ...]:
        # Where attrs looks for the cells of `super()` when it makes the slotted copy of a class.
        functions = (self._function, self._rule)
        return tuple(cell for each in functions for cell in getattr(each, "__closure__", None) or ())

    @property
    def _name(self) -> str:
        return getattr(self._function, "__qualname__", repr(self._function))

    def rrule(self, rule: Callable[..., Any]) -> Primitive:
        """Set the rule for reverse mode; a decorator.

        Parameters
        ----------
        rule : callable
            Takes the arguments and returns ``(value, pullback)``, or `NotImplemented` to decline them, in which case
            the call runs as ordinary code. ``pullback(y_bar)`` takes the cotangent of the value and returns a tuple with
            one tangent per argument, a `Tangent` for an object. If the call writes captured fields the pullback is
            ``pullback(y_bar, written)``, where ``written[obj].field`` is the cotangent of the value that the call left
            in that field.

        Returns
        -------
        Primitive
            The primitive itself, so that in a class body the name keeps its meaning.
        """
        self._rule = rule
        return self

    def frule(self, rule: Callable[..., Any]) -> Primitive:
        """Set a rule for forward mode; a decorator. It is seldom needed: forward mode also works by `rrule`.

        Parameters
        ----------
        rule : callable
            ``rule(primals, tangents)`` takes two tuples, one item per argument, and returns ``(value, tangent)``. The
            tangent of an argument to which none was given is `ZeroTangent()`. A call with objects among its arguments
            goes by `rrule`, which knows about their fields.

        Returns
        -------
        Primitive
            The primitive itself.

        Examples
        --------
        >>> import mutangent as mt
        >>> @mt.primitive
        ... def square(x):
        ...     return x * x
        >>> @square.frule
        ... def square_frule(primals, tangents):
        ...     (x,), (x_dot,) = primals, tangents
        ...     return x * x, 2 * x * x_dot
        >>> mt.jvp(square, (3.0,), (1.0,))
        (9.0, 6.0)
        """
        self._forward_rule = rule
        return self

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tape = _tape_for((*args, *kwargs.values()))
        if tape is None:
            return self._function(*args, **kwargs)
        is_forward = type(tape.entries) is not list
        if is_forward and self._forward_rule is not None and not _reach((args, kwargs), []):
            return self._push(tape, _positional(self._function, args, kwargs), self._forward_rule)
        if self._rule is None:
            raise NoRuleError(
                f"{self._name} is a primitive without a rule, and it was called with values that are differentiated. "
                f"Give it one with `@{getattr(self._function, '__name__', 'f')}.rrule`."
            )
        positional = _positional(self._function, args, kwargs) if kwargs or self._defaults else args
        frame = Frame(current(), tape)
        lifted, descriptions = [], []
        for number, arg in enumerate(positional):
            if is_plain_array(arg):
                check_shadow(tape, arg)
            value, description = frame.lifter.lift(arg, f"argument {number} of {self._name}")
            lifted.append(value)
            descriptions.append(description)
        before = enter(frame)
        try:
            result = self._rule(*lifted)
        except BaseException:
            frame.restore_attributes()
            raise
        finally:
            leave(before)
        frame.close()
        if result is NotImplemented:
            frame.restore_attributes()
            return self._function(*args, **kwargs)
        if not (isinstance(result, tuple) and len(result) == 2 and callable(result[1])):
            raise RuleError(
                f"the rule of {self._name} returned {describe(result)}. Return a pair (value, pullback), or "
                "NotImplemented to decline the arguments."
            )
        return Call(self._name, frame, tape, descriptions, result[1]).record(result[0])

    def _push(self, tape: Tape, args: tuple[Any, ...], rule: Callable[..., Any]) -> Any:
        """Apply the rule for forward mode."""
        tangents = tuple([_tangent_in(arg, tape) for arg in args])
        result = rule(tuple([lower(arg, tape) for arg in args]), tangents)
        if not (isinstance(result, tuple) and len(result) == 2):
            raise RuleError(
                f"the frule of {self._name} returned {describe(result)}. Return a pair (value, tangent)."
            )
        return self._traced(tape, *result)

    def _traced(self, tape: Tape, value: Any, tangent: Any) -> Any:
        items, parts = children(value), children(tangent)
        if items is not None:
            if parts is None or len(parts) != len(items):
                raise RuleError(
                    f"the frule of {self._name} returned {type_name(value)} of {len(items)} values, and "
                    f"{describe(tangent)} for their tangents. Return one tangent per value."
                )
            return rebuild(
                value, [self._traced(tape, item, part) for item, part in zip(items, parts, strict=True)]
            )
        if type(value) is not TracedArray and not is_differentiable(value):
            return value
        nothing = tangent is None or isinstance(tangent, ZeroTangent | NoTangent)
        node: Any = None if nothing else check_array(value, tangent, f"the value of {self._name}", "tangent")
        return new_traced(tape, node, value)


def _tangent_in(value: Any, tape: Tape) -> Any:
    """The tangents that the traced numbers in an argument carry."""
    items = children(value)
    if items is not None:
        return rebuild(value, [_tangent_in(item, tape) for item in items])
    layer = level_of(value, tape) if type(value) is TracedArray else None
    if layer is None:
        return NONE if type(value) is not TracedArray and not is_differentiable(value) else ZERO
    node: Any = layer._node
    return ZERO if node is None else node


def _positional(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        name = getattr(function, "__qualname__", repr(function))
        raise RuleError(
            f"{name} was called with the keyword-only arguments {', '.join(bound.kwargs)}, and a rule gives one tangent "
            "per positional argument. Make them positional."
        )
    return bound.args


def _tape_for(args: tuple[Any, ...]) -> Tape | None:
    """The tape that a call belongs to: the innermost recording if it reaches objects, else that of its arguments."""
    found: list[TracedArray] = []
    if _reach(args, found):
        tape = open_tape()
        if tape is not None:
            return tape
    return max((traced._tape for traced in found), key=lambda tape: tape.serial, default=None)


def _reach(args: Any, found: list[TracedArray]) -> bool:
    """Collect traced values; return whether there are captured objects."""
    objects = False
    for arg in args:
        items = children(arg)
        if items is not None:
            objects |= _reach(items, found)
        elif is_captured(arg):
            objects = True
        else:
            collect(arg, found)
    return objects


def primitive(function: Callable[..., Any]) -> Primitive:
    """Make a function or method one step of a recording, with a rule of its own.

    Parameters
    ----------
    function : callable
        A function of positional arguments. It is called as it is when nothing is differentiated.

    Returns
    -------
    Primitive
        A callable with `.rrule`, which sets the rule.

    Examples
    --------
    >>> import mutangent as mt
    >>> @mt.primitive
    ... def clipped(x):
    ...     return min(max(x, 0.0), 1.0)
    >>> @clipped.rrule
    ... def clipped_rule(x):
    ...     return min(max(x, 0.0), 1.0), lambda y_bar: (y_bar,)  # let the gradient pass
    >>> mt.grad(lambda x: clipped(x) * 3.0)(7.0)
    3.0
    """
    return Primitive(function)


def non_differentiable(function: Callable[..., Any]) -> Callable[..., Any]:
    """Declare that a function's results are constants; it is called with plain values and nothing in it is recorded.

    Parameters
    ----------
    function : callable

    Returns
    -------
    callable

    Examples
    --------
    >>> import mutangent as mt
    >>> import math
    >>> floor = mt.non_differentiable(math.floor)
    >>> mt.grad(lambda x: x * floor(x))(2.5)
    2.0
    """

    @functools.wraps(function)
    def constant(*args: Any, **kwargs: Any) -> Any:
        with pause():
            result = function(
                *[_plain(a) for a in args], **{name: _plain(value) for name, value in kwargs.items()}
            )
        return _plain(result)

    return constant


def _plain(value: Any) -> Any:
    if type(value) is TracedArray:
        return primal(value)
    items = children(value)
    if items is None or all(plain is item for plain, item in zip(map(_plain, items), items, strict=True)):
        return value
    return map_container(_plain, value)
