"""The rulebook: which functions have a derivative, and what it is. It knows neither tapes nor traced values.

A rule is data. Five forms cover NumPy:

`elementwise`
    One expression per operand, ``lambda t, y, *operands``: the tangent `t` of that operand pushed through the
    derivative at `operands`, where `y` is the result. The Jacobian is diagonal, so the same expression serves forward
    and reverse mode; for complex numbers the reverse mode conjugates before and after (``J^H g = conj(J^T conj(g))``).
    Broadcasting is undone by the caller.
`function`
    One pullback per operand, ``lambda g, y, *args, **kwargs``, called with the arguments of the primal call. Functions
    that are linear in each operand say ``linear=True``; forward mode then pushes tangents through the function itself.
`composed`
    The function written with others that have rules; it needs no derivative of its own.
`constant`
    The function is called with plain values and its result is a constant.
`array`
    The function makes a new array, for which its arguments are only a model. The program may write into it.

A parameter whose name begins with an underscore is not read, so its value is not kept alive by the tape. An
elementwise expression gets None for it, unless it is a Python number; a pullback gets a `Spec` (shape and dtype) for an
operand, and None for a result.

Users' own rules (`rrule` of a NumPy function) bring closures; they are kept in `Rule.user`.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from typing import Any, Final, TypeVar

import numpy as np

from ._errors import NoRuleError

F = TypeVar("F", bound=Callable[..., Any])
Expression = Callable[..., Any]


class Rule:
    """What is known about one function. The instance exists from the first mention of the function on.

    Attributes
    ----------
    function : callable
        The NumPy function or ufunc.
    kind : str
        ``""`` (nothing known), ``"elementwise"``, ``"function"``, ``"composed"``, ``"constant"``, ``"array"`` or
        ``"user"``.
    expressions : tuple of callable or None
        One per operand; None where an operand has no tangent space.
    keep : dict
        From a bit mask of the operands that are traced to a tuple of booleans: whether the result, and which
        operands, are read by the expressions of those operands. If one of them has none, the lookup raises `NoRuleError`.
    linear : bool
        Whether the function is linear in each operand.
    simple : bool
        Whether it is a ``"function"`` of one operand, an array, with one result, for whose arguments nothing is refused.
    direct : callable or None
        Computes the same with less overhead, from a NumPy array, or from a sequence of anything.
    sequence : bool
        Whether the first operand is a sequence of arrays.
    multiple : bool
        Whether the function returns a sequence of arrays.
    accepts : tuple of (int, frozenset of str) or None
        How many positional arguments and which keywords the pullbacks of a ``"function"`` understand. A call with
        others has no rule.
    keywords : dict
        From the name of an operand to its position.
    out_at, initial_at : int or None
        The positions of `out`, the array to write into, and of `initial`, what a sum starts from, among the arguments.
    selects : tuple of callable, bool
        True for a function that passes over elements of its operand, and False for one that does not. For an elementwise
        one that does, a callable ``(y, *operands)`` per operand, which returns the mask of the elements that take part,
        or None for an operand of which all do.
    structural : bool
        Whether the zeros of its Jacobian are no accident, as those of functions that are linear or only select and move:
        what the pullback of nonzero numbers leaves 0 takes no part.
    whole : bool
        Whether the sweep may use the expressions as they stand: an elementwise function that selects nothing, and has no
        `flat` expressions.
    forward : tuple of callable or None
        The expressions that forward mode uses, the same or others.
    flat : tuple of callable
        Of a root: the expressions for an operand that is known to be flat where it is 0; see `_flat`. Else empty.
    kink : callable or None
        Takes what an entry saved, and says whether the function may have a kink, or no second derivative, where it is 0; in
        forward mode, see `_kinks`.
    takes_live : bool
        Whether the pullback has a keyword `live`: the mask of those elements of the result that take part, if not all do.
    root : Rule or None
        Of a power: the rule of that whose exponent is a number of at least 1/2 and below 1.
    part_of : callable or None
        Of a function that makes one number of many elements, or of one: takes the mask of the results that take part, and
        the arguments of the call, and returns that of the elements.
    refuse : callable or None
        Takes the arguments of a call and returns what about them has no rule, or None.
    user : callable or None
        The user's rule, or the function that a ``"composed"`` one is written as.
    reason : str
        Why there is no rule, and what to write instead, for a function that is known to have none.
    """

    __slots__ = (
        "accepts",
        "direct",
        "expressions",
        "flat",
        "forward",
        "function",
        "initial_at",
        "keep",
        "keywords",
        "kind",
        "kink",
        "linear",
        "multiple",
        "name",
        "out_at",
        "part_of",
        "reason",
        "refuse",
        "root",
        "selects",
        "sequence",
        "simple",
        "structural",
        "takes_live",
        "user",
        "whole",
    )

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name: str = getattr(function, "__name__", repr(function))
        self.kind = ""
        self.expressions: tuple[Expression | None, ...] = ()
        self.keep: dict[int, tuple[bool, ...]] = {}
        self.linear = False
        self.simple = False
        self.direct: Callable[..., Any] | None = None
        self.sequence = False
        self.multiple = False
        self.accepts: tuple[int, frozenset[str]] | None = None
        self.keywords: dict[str, int] = {}
        self.out_at: int | None = None
        self.initial_at: int | None = None
        self.selects: tuple[Expression | None, ...] | bool = False
        self.structural = False
        self.whole = False
        self.forward: tuple[Expression | None, ...] = ()
        self.flat: tuple[Expression | None, ...] = ()
        self.part_of: Callable[..., Any] | None = None
        self.kink: Callable[[Any], bool] | None = None
        self.takes_live = False
        self.root: Rule | None = None
        self.refuse: Callable[..., str | None] | None = None
        self.user: Callable[..., Any] | None = None
        self.reason = ""

    def __repr__(self) -> str:
        return f"<rule of {self.name}: {self.kind or 'none'}>"


_rules: Final[dict[Any, Rule]] = {}
# By the name of an optional library's module: what reads the rows of its functions.
_awaited: Final[dict[str, Callable[[], None]]] = {}


# The rule of a function that has been mentioned before, or None: the hot path of `rule`.
known: Final = _rules.get


def rule(function: Callable[..., Any]) -> Rule:
    """The one `Rule` object of a function; it may be filled in later."""
    found = _rules.get(function)
    if found is None:
        for module, read in list(_awaited.items()):
            if module in sys.modules:
                read()  # an import: a second thread waits here until the first has read all
        found = _rules.setdefault(function, Rule(function))
    return found


def when_loaded(module: str, read: Callable[[], None]) -> None:
    """Have a file of rows imported by `read` once someone else has loaded `module` and an unknown function is met."""
    _awaited[module] = read


def all_read(module: str) -> None:
    """Say, at the end of such a file, that its rows are in the rulebook."""
    _awaited.pop(module, None)


def rules() -> list[Rule]:
    """All rules that have been filled in."""
    return [row for row in _rules.values() if row.kind]


def _fill(function: Callable[..., Any], kind: str, expressions: tuple[Expression | None, ...]) -> Rule:
    row = rule(function)
    if row.kind:
        raise ValueError(f"{row.name} already has a rule")
    row.kind = kind
    row.expressions = row.forward = expressions
    if None in expressions:
        row.keep = _Refusing(row)
    reads = [_reads(expression, len(expressions)) for expression in expressions]
    for mask in range(1 << len(expressions)):
        traced = [k for k in range(len(expressions)) if mask >> k & 1]
        if any(expressions[k] is None for k in traced):
            continue
        used = [reads[k] for k in traced]
        row.keep[mask] = tuple(any(column) for column in zip(*used, strict=True)) if used else ()
    return row


class _Refusing(dict[int, tuple[bool, ...]]):
    """`Rule.keep` without the masks in which an operand is traced that has no derivative: asking for one raises."""

    def __init__(self, row: Rule) -> None:
        self.row = row

    def __missing__(self, mask: int) -> tuple[bool, ...]:
        expressions = self.row.expressions
        k = next(k for k, expression in enumerate(expressions) if expression is None and mask >> k & 1)
        raise no_rule(self.row.function, f" with respect to {argument_name(self.row, k)}")


def argument_name(row: Rule, position: int) -> str:
    """An argument of a function in the words of an error message: its keyword, if it may be given by one."""
    names = [f"{name}=" for name, place in row.keywords.items() if place == position]
    return names[0] if names else f"argument {position}"


def _reads(expression: Expression | None, operands: int) -> tuple[bool, ...]:
    """Whether an expression reads the result and each operand, told by the names of its parameters."""
    if expression is None:
        return (False,) * (operands + 1)
    names = _parameters(expression)[0]
    if len(names) < operands + 2:
        raise ValueError(
            f"an expression for {operands} operands takes (tangent, result, operands...), not {names}"
        )
    return tuple(not name.startswith("_") for name in names[1 : operands + 2])


def elementwise(
    function: Callable[..., Any],
    *expressions: Expression | None,
    selects: tuple[Expression | None, ...] = (),
    forward: tuple[Expression | None, ...] = (),
    flat: tuple[Expression | None, ...] = (),
    kink: Callable[[Any], bool] | None = None,
) -> None:
    """Declare an elementwise function by one expression ``(t, y, *operands)`` per operand.

    If it passes over elements of an operand, so that they have no influence on the result, `selects` has a function
    ``(y, *operands)`` for that operand: the mask of the elements that take part. It reads what its expression reads.

    Where its derivative is infinite although it is finite itself, `forward` may have expressions that make 0 of a tangent
    0, and `flat` those for an operand that is flat where the result is 0. They read what its expressions read. `kink` is
    that of the `Rule`.
    """
    row = _fill(function, "elementwise", expressions)
    row.selects = selects or False
    row.whole = not (selects or flat)
    row.forward = forward or expressions
    row.flat = flat
    row.kink = kink
    for expression, mask in zip(expressions, selects, strict=bool(selects)):
        if mask is not None and expression is not None:
            read = _reads(expression, len(expressions))
            if any(not name.startswith("_") and not read[k] for k, name in enumerate(_parameters(mask)[0])):
                raise ValueError(f"the mask of {row.name} reads what its expression does not")


def function(
    function: Callable[..., Any],
    *pullbacks: Expression | None,
    linear: bool = False,
    sequence: bool = False,
    multiple: bool = False,
    keywords: dict[str, int] | None = None,
    selects: bool = False,
    structural: bool = False,
    part_of: Callable[..., Any] | None = None,
    takes_live: bool = False,
    kink: Callable[[Any], bool] | None = None,
    refuse: Callable[..., str | None] | None = None,
    direct: Callable[..., Any] | None = None,
) -> None:
    """Declare a function by one pullback ``(g, y, *args, **kwargs)`` per operand.

    Operands may be given by the names that the first pullback uses, and by those in `keywords`. A call for which
    `refuse` returns a text, such as ``"mode='mean'"``, raises `NoRuleError`. `direct` computes
    the same with less overhead, from a NumPy array, or from a sequence of anything. Of a function of one operand, or one
    sequence of them, `selects`, `structural`, `part_of`, `takes_live` and `kink` say what they say of a `Rule`.
    """
    row = _fill(function, "function", pullbacks)
    row.linear, row.sequence, row.multiple, row.refuse = linear, sequence, multiple, refuse
    row.direct = direct
    row.part_of, row.takes_live, row.kink = part_of, takes_live, kink
    row.selects = selects
    row.structural = (linear or selects or structural) and len(pullbacks) == 1 and not multiple
    row.simple = len(pullbacks) == 1 and pullbacks[0] is not None and not (sequence or multiple or refuse)
    signatures = [_parameters(each) for each in pullbacks if each is not None]
    row.out_at = _place("out", signatures[0][0][2:])
    row.initial_at = _place("initial", signatures[0][0][2:])
    names = signatures[0][0][2 : len(pullbacks) + 2]
    row.keywords = {**{name.lstrip("_"): k for k, name in enumerate(names)}, **(keywords or {})}
    row.accepts = (
        min(len(positional) - 2 for positional, _ in signatures),
        frozenset.intersection(*(frozenset(positional[2:] + named) for positional, named in signatures)),
    )


def joint(name: str, pullback: Expression, multiple: bool = False) -> Rule:
    """A rule of no function in the book, for a step that a recorder computes by itself (`_apply.append_joint`).

    The pullback takes the cotangent (of several results a list), None, and what the recorder saved; it returns the
    contributions of all operands together.
    """
    row = Rule(pullback)
    row.name = name
    row.kind = "function"
    row.expressions = (pullback,)
    row.multiple = multiple
    return row


def _parameters(expression: Expression) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a plain function's positional and keyword-only parameters, at a hundredth of inspect's cost."""
    code = expression.__code__
    if code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
        raise TypeError(f"{expression.__name__} must name its parameters: a call with others has no rule")
    positional = code.co_argcount
    return code.co_varnames[:positional], code.co_varnames[positional : positional + code.co_kwonlyargcount]


def _place(name: str, names: tuple[str, ...]) -> int | None:
    return names.index(name) if name in names else None


def composed(function: Callable[..., Any], implementation: Callable[..., Any]) -> None:
    """Declare a function that is written with others: `implementation` takes its arguments."""
    row = _fill(function, "composed", ())
    row.user = implementation
    code = getattr(implementation, "__code__", None)
    row.out_at = None if code is None else _place("out", code.co_varnames[: code.co_argcount])


def array(*functions: Callable[..., Any]) -> None:
    """Declare functions that make a new array like another one."""
    for function in functions:
        _fill(function, "array", ())


def constant(*functions: Callable[..., Any]) -> None:
    """Declare functions whose result has no derivative: it is computed from plain values."""
    for function in functions:
        _fill(function, "constant", ())


def unsupported(reason: str, *functions: Callable[..., Any]) -> None:
    """Say why functions have no rule yet and what to write instead; `no_rule` repeats it."""
    for function in functions:
        rule(function).reason = reason


def rrule(function: Callable[..., Any]) -> Callable[[F], F]:
    """Give a NumPy function or a ufunc a rule.

    Parameters
    ----------
    function : numpy.ufunc or NumPy function
        A function that reaches traced values by NumPy's dispatch protocols and has no rule yet. For any other
        function use `primitive`.

    Returns
    -------
    decorator
        Takes the rule: a function of the same arguments that returns ``(value, pullback)``, where ``pullback`` takes
        the cotangent of the value and returns one tangent per argument.

    Raises
    ------
    TypeError
        If NumPy does not dispatch `function`.
    ValueError
        If it has a rule already.

    Examples
    --------
    >>> cosine_of_square = np.frompyfunc(lambda x: np.cos(x * x), 1, 1)
    >>> @rrule(cosine_of_square)
    ... def cosine_of_square_rule(x):
    ...     def pullback(y_bar):
    ...         return (-2 * x * np.sin(x * x) * y_bar,)
    ...
    ...     return np.cos(x * x), pullback
    """
    if not (isinstance(function, np.ufunc) or hasattr(function, "_implementation")):
        name = getattr(function, "__name__", repr(function))
        raise TypeError(
            f"{name} is neither a ufunc nor a NumPy function that dispatches on its arguments, so a rule for it would "
            f"never be called. Write `{name} = mutangent.primitive({name})` and give that `.rrule`."
        )
    if rule(function).kind:
        raise ValueError(
            f"{rule(function).name} already has a rule. For another derivative wrap the call in a function of your own "
            "and make that a `mutangent.primitive`."
        )

    def register(user: F) -> F:
        row = rule(function)
        row.kind = "user"
        row.user = user
        return user

    return register


def no_rule(function: Callable[..., Any], detail: str = "") -> NoRuleError:
    """The error for a function without a rule."""
    name = getattr(function, "__name__", repr(function))
    module = getattr(function, "__module__", None)
    # ufuncs carry no module; NumPy's and SciPy's own are found by their name.
    if isinstance(function, np.ufunc):
        homes = ("numpy", "scipy.special")
        module = next((h for h in homes if getattr(sys.modules.get(h), name, None) is function), None)
    full = f"{module}.{name}" if module else name
    row = known(function)
    if row is not None and row.reason:
        return NoRuleError(
            f"{full}{detail} has no derivative rule, and a traced value was passed to it: {row.reason}. If no gradient "
            "is to flow, pass `mutangent.stop_gradient(x)`."
        )
    return NoRuleError(
        f"{full}{detail} has no derivative rule, and a traced value was passed to it. Write it with functions that have "
        f"one, register a rule with `mutangent.rrule`, or, if no gradient is to flow, pass "
        "`mutangent.stop_gradient(x)`."
    )
