"""What a user's converter made of a plain value, made of the traced value that stands for it.

A converter that insists on plain numbers, such as `float`, is given them. What it returns is followed if it is the same
numbers, in another type, dtype, shape or memory. That the numbers are the same *here* does not show it: `v / norm(v)` gives
back a vector of length 1. So it is looked for a reason that holds for other numbers too, cheapest first:

- the converter is one of those that are known (`is_known`);
- it gives back the very object that it was given, which it could not write to (CuPy has no read-only arrays);
- asked again with other numbers near by, it gives those back. It is asked from both sides, and what it writes into fields
  meanwhile is dropped.

Whether the program then holds the same array, a view of it or a new one is what the converter did to an array with the
layout that the plain program would have there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import suppress
from types import CodeType
from typing import Any, Final

import numpy as np

from ._arrays import (
    beside,
    copy_with_strides,
    describe,
    is_array,
    is_differentiable,
    is_on_device,
    namespace_of,
    on_host,
    overlap,
    protected,
    spec_of,
)
from ._contents import same_contents
from ._errors import NotCapturedError
from ._fields import CapturedField, current, enter, leave
from ._kept import Kept
from ._overlay import Overlay, PassingOn
from ._states import held_in_closure
from ._tangent import children
from ._traced import TracedArray, primal
from ._trials import Nothing, Questions
from ._views import layout_of

Convert = Callable[[Any], Any]

_NUMBERS: Final = (float, complex, np.float64, np.float32, np.float16, np.complex64, np.complex128)
_FUNCTIONS: Final = ("asarray", "array", "asanyarray", "ascontiguousarray", "asfortranarray")
_SETTINGS: Final = frozenset({"dtype", "copy", "order", "ndmin", "subok"})

# How far, relative to a number, the others are that a converter is asked for: seen after rounding to single precision,
# and for half precision.
_NEAR: Final = 2.0**-10
_NEAR_IN_HALF_PRECISION: Final = 2.0**-5
_GOLDEN: Final = (5.0**0.5 - 1) / 2  # its multiples modulo 1 are all different


def is_known(converter: Any, like: Any = None) -> bool:
    """Whether a converter is one of NumPy's, or the library's of `like`, that change nothing but type, dtype and memory."""
    while (
        type(converter) is functools.partial and not converter.args and converter.keywords.keys() <= _SETTINGS
    ):
        converter = converter.func
    library = namespace_of(like)
    return any(converter is each for each in (*_NUMBERS, *[getattr(library, name) for name in _FUNCTIONS]))


def follow_known(traced: TracedArray, convert: Convert, what: str) -> Any:
    """The result of a converter that is known."""
    before = primal(traced)
    sample = layout_of(traced) if is_array(before) else before
    made = convert(sample)
    if made is sample or type(made) is type(before) is float:
        return traced
    if not _may_hold_the_same(before, made):
        raise _changed(before, made, what)
    return _follow(traced, sample, made)


def follow_conversion(traced: TracedArray, convert: Convert, what: str, kept: Kept | Nothing) -> Any:
    """The result of a converter of which nothing is known.

    `convert` takes a plain value; `what` names the converter and the field in errors; `kept` is what the converter may
    change, as it was before.

    Raises
    ------
    NotCapturedError
        If the converter changed the numbers, or would change others.
    """
    before = primal(traced)
    shown = _shown(traced, before)
    try:
        made, fields = _noticed(convert, shown, what)
    except ValueError as error:
        if is_array(before) and "is read-only" in str(error):
            raise _wrote(before, what) from error
        raise
    if made is shown and (type(made) is float or type(made) is np.ndarray):
        if type(made) is np.ndarray and before.flags.writeable and _names(convert, {"writeable", "setflags"}):
            _refuse_freezing(traced, before, Questions(convert, kept, fields, what), what)
        return traced
    if not _holds_the_same(before, made):
        raise _changed(before, made, what)
    return _follow(traced, *_asked_again(traced, before, made, Questions(convert, kept, fields, what), what))


def _asked_again(
    traced: TracedArray, before: Any, made: Any, questions: Questions, what: str
) -> tuple[Any, Any]:
    """Other numbers, and what the converter made of them: the same numbers, or there is an error."""
    answers: list[tuple[Any, Any]] = []
    refusal: Exception | None = None
    for numbers in _others(before, made, answers):
        sample = _like(traced, before, numbers)
        try:
            answer = questions.ask(sample)
        except Exception as error:  # noqa: BLE001 - whatever a user's converter raises about numbers that it was not meant for
            refusal = error
            continue
        if is_array(before) and not same_contents(on_host(sample), numbers):
            raise _wrote(before, what)
        if (
            type(answer) is not type(made)
            or spec_of(answer) != spec_of(made)
            or not _holds_the_same(numbers if is_array(before) else sample, answer)
        ):
            raise _changes_others(before, what)
        answers.append((sample, answer))
    questions.end()
    if not answers:
        raise NotCapturedError(
            f"{what} gave back the number that it was given, {describe(before)}, and its derivative is not known: asked "
            f"with numbers near by, it raised {type(refusal).__name__}: {refusal}. {_INSTEAD} Or check the value in a "
            "validator, and convert with `float` or `np.array` itself."
        ) from refusal
    if len({_relation(*each) for each in answers}) > 1:
        raise _changes_others(before, what)
    return answers[0]


def _refuse_freezing(traced: TracedArray, before: Any, questions: Questions, what: str) -> None:
    """Raise if a converter makes the array read-only that it is given; the one that it was shown was so already."""
    sample = copy_with_strides(before, layout_of(traced))
    questions.ask(sample)
    questions.end()
    if not sample.flags.writeable:
        raise NotCapturedError(
            f"{what} makes the array that it is given read-only, {describe(before)}, and a recording does not follow "
            "that. Let it freeze a copy: `v = np.array(v)`, then `v.flags.writeable = False`."
        )


def _names(function: Any, names: set[str]) -> bool:
    """Whether the code of a function, or of one that it leads to by name or closure, has one of these names in it."""
    pending, seen = [function], set()
    while pending:
        each = pending.pop()
        each = getattr(each, "func", getattr(each, "__wrapped__", getattr(each, "__func__", each)))
        code = getattr(each, "__code__", None)
        if type(code) is not CodeType or code in seen:
            continue
        seen.add(code)
        if not names.isdisjoint(code.co_names):
            return True
        pending += [each.__globals__.get(name) for name in code.co_names]
        pending += held_in_closure(each)
    return False


class _Noticing(PassingOn):
    """Refuses numbers that a converter writes into fields, and notes what was in those that it writes."""

    def __init__(self, outer: Overlay, what: str) -> None:
        super().__init__(outer)
        self._what = what
        self.earlier: list[tuple[Any, CapturedField, Any]] = []

    def write(self, obj: Any, field: CapturedField, value: Any) -> None:
        for item in children(value) or [value]:
            if type(item) is not TracedArray and is_differentiable(item):
                raise NotCapturedError(
                    f"{self._what} was given a plain value, since it asks for one, and wrote {describe(item)} into "
                    f"{type(obj).__name__}.{field.name}, which would have no gradient. {_INSTEAD}"
                )
        with suppress(AttributeError):  # of an unset field
            self.earlier.append((obj, field, self.outer.peek(obj, field)))
        super().write(obj, field, value)


def _noticed(convert: Convert, shown: Any, what: str) -> tuple[Any, list[tuple[Any, CapturedField, Any]]]:
    """What a converter makes of a plain value, and the fields that it writes, with what was in them.

    Other numbers that it makes of the value must not get into fields.
    """
    overlay = current()
    if overlay is None:
        return convert(shown), []
    noticing = _Noticing(overlay, what)
    before = enter(noticing)
    try:
        return convert(shown), noticing.earlier
    finally:
        leave(before)


# -- the values that a converter is shown ------------------------------------------------------------------------------


def _shown(traced: TracedArray, before: Any) -> Any:
    """The plain value for a converter: an array that it cannot write to, a number that is no other object."""
    if type(before) is float:
        return before * 1.0
    if not is_array(before):
        return before
    layout = layout_of(traced)
    if is_on_device(before) or layout.strides != before.strides:
        before = copy_with_strides(before, layout)
    return before if is_on_device(before) else protected(before)


def _like(traced: TracedArray, before: Any, numbers: Any) -> Any:
    """`numbers`, an array of the host, in the type of `before` and the layout of the plain program."""
    if not is_array(before):
        number = numbers[()]
        return number if isinstance(before, np.generic) else number.item()
    return copy_with_strides(beside(numbers, before), layout_of(traced))


def _others(before: Any, made: Any, answers: list[Any]) -> Iterator[Any]:
    """Numbers near those of `before`: above, below, and, where there were no `answers`, towards the middle.

    No two differ from the old ones by the same, so that no rearrangement and no function of them gives them back by chance.
    """
    numbers = np.asarray(on_host(before))
    half = np.float16 in (numbers.dtype, spec_of(made).dtype)
    finite = np.where(np.isfinite(numbers), numbers, 1).astype(np.result_type(numbers, np.float64))
    size = np.abs(finite)
    largest = size.max(initial=0.0) or 1.0
    step = 1 + np.arange(1, finite.size + 1).reshape(finite.shape) * _GOLDEN % 1
    step = step * (_NEAR_IN_HALF_PRECISION if half else _NEAR)
    if finite.dtype.kind == "c":
        step = step * np.exp(1j * step / step.max(initial=1.0))
    away = step * np.where(size > 0, size, largest)
    for others in (finite + away, finite - away):
        yield others.astype(numbers.dtype)
    if not answers and finite.dtype.kind == "f" and finite.size:
        low, high = finite.min(), finite.max()
        if low < high:
            yield (finite + step * (low + _GOLDEN * (high - low) - finite)).astype(numbers.dtype)


# -- what a converter did ----------------------------------------------------------------------------------------------


def _may_hold_the_same(before: Any, made: Any) -> bool:
    """Whether what a converter made is of a kind that a traced value can stand for, with as many numbers as before."""
    if type(made) is TracedArray or not is_differentiable(made) or np.size(made) != np.size(before):
        return False
    if is_array(made) and is_on_device(made) is not is_on_device(before):
        return False
    return spec_of(made).dtype.kind == "c" or spec_of(before).dtype.kind == "f"


def _holds_the_same(before: Any, made: Any) -> bool:
    """Whether a converter made the numbers that it was given, rounded to a dtype, in the same memory space.

    To see it waits for a device, as a converter to a Python number did before.
    """
    if type(before) is np.ndarray and is_on_device(made):
        before = beside(before, made)
    if not _may_hold_the_same(before, made):
        return False
    rounded = np.asarray(on_host(before)).astype(spec_of(made).dtype)
    return bool(np.array_equal(np.ravel(rounded), np.ravel(on_host(made)), equal_nan=True))


def _relation(sample: Any, made: Any) -> str:
    if made is sample:
        return "same"
    return "view" if is_array(made) and is_array(sample) and overlap(made, sample) else "own"


def _follow(traced: TracedArray, sample: Any, made: Any) -> Any:
    """What a converter made of `sample`, made of `traced`."""
    relation = _relation(sample, made)
    if relation == "same":
        return traced
    value: Any = traced
    before, dtype = primal(traced), spec_of(made).dtype
    if not is_array(made):
        if is_array(before):
            value = np.reshape(value, ())[()]
        if value.dtype != dtype:
            value = value.astype(dtype)
        if type(made) is float or type(made) is complex:
            return value if type(primal(value)) is type(made) else value.item()
        return value if isinstance(primal(value), np.generic) else np.positive(value)
    if relation == "view":
        view = value[...] if value.shape == made.shape else np.reshape(value, made.shape)
        if type(made) is np.ndarray and sample.flags.writeable and not made.flags.writeable:
            return np.broadcast_to(view, view.shape)  # a view that cannot be written
        return view
    if value.shape != made.shape:
        value = np.reshape(value, made.shape)
    order = "C" if made.flags.c_contiguous else "F" if made.flags.f_contiguous else "K"
    own = np.copy(value if value.dtype == dtype else value.astype(dtype), order)  # type: ignore[call-overload]
    if type(made) is np.ndarray and not made.flags.writeable:
        primal(own).flags.writeable = False
    return own


# -- errors ------------------------------------------------------------------------------------------------------------

_INSTEAD: Final = "Write it with NumPy functions and operators, without float() or np.asarray()."


def _changed(before: Any, made: Any, what: str) -> NotCapturedError:
    return NotCapturedError(
        f"{what} turned {describe(before)} into {describe(made)} by a conversion that loses the gradient. {_INSTEAD}"
    )


def _changes_others(before: Any, what: str) -> NotCapturedError:
    return NotCapturedError(
        f"{what} gave back the number that it was given, {describe(before)}, but not numbers near by, so it computes, by a "
        f"conversion that loses the gradient. {_INSTEAD}"
    )


def _wrote(before: Any, what: str) -> NotCapturedError:
    return NotCapturedError(
        f"{what} writes into the array that it is given, {describe(before)}, which would lose the gradient of what is "
        "written. Let it return a new array, computed with NumPy functions and operators, without np.asarray()."
    )
