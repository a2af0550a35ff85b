"""Write reference/coverage.md: what NumPy offers, and whether it has a derivative here.

    python docs/coverage.py

A test fails if the page is not what this script would write, or if NumPy has a function that nobody has answered for.
"""
# ruff: noqa: INP001, T201 - a script, in no package

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import attrs
import numpy as np

import mutangent as mt
from mutangent._rulebook import rule
from mutangent._traced import TracedArray

PAGE = Path(__file__).with_name("reference") / "coverage.md"

NAMESPACES = {"numpy": np, "numpy.linalg": np.linalg, "numpy.fft": np.fft}
UFUNC_METHODS = ("reduce", "accumulate", "reduceat", "outer", "at")
# An old name of numpy.vstack, which warns and calls it.
PASSING = {"numpy.row_stack"}

RULE, CONSTANT, UNSUPPORTED = "rule", "not differentiable", "not supported yet"
ANSWERS = {"elementwise": RULE, "function": RULE, "composed": RULE, "constant": CONSTANT, "array": CONSTANT}

LEAVES = "it takes the numbers out of the recording. Write `mutangent.primal(x)` for the plain array"
MEMORY = "it speaks of the memory of the array, not of its numbers"
METHOD_REASONS = {
    **dict.fromkeys(("dump", "dumps", "tobytes", "tofile", "tolist", "to_device"), LEAVES),
    **dict.fromkeys(("byteswap", "getfield", "resize", "setfield", "setflags"), MEMORY),
    **{name: f"write `np.{name}(...)`" for name in ("argpartition", "choose", "partition")},
}


@attrs.frozen
class Answer:
    """What is known about one function: its state, how the rule is written, and why there is none."""

    name: str
    state: str
    form: str = ""
    reason: str = ""


def answer(name: str, function: Callable[..., Any]) -> Answer:
    """Look a function up in the rulebook. Without a rule and without a reason its state is empty."""
    row = rule(function)
    state = ANSWERS.get(row.kind, UNSUPPORTED if row.reason else "")
    form = "linear" if row.kind == "function" and row.linear else row.kind
    return Answer(name, state, form, row.reason)


def functions() -> Iterator[Answer]:
    """Yield the answer for every public function of NumPy; classes are not functions."""
    for space, module in NAMESPACES.items():
        for name in sorted(dir(module)):
            found = getattr(module, name)
            full = f"{space}.{name}"
            if name.startswith("_") or isinstance(found, type) or not callable(found) or full in PASSING:
                continue
            yield answer(full, found)


def ufuncs() -> list[np.ufunc]:
    """Return NumPy's ufuncs of two operands, the ones that have methods, each once."""
    found = {id(each): each for each in vars(np).values() if isinstance(each, np.ufunc)}
    binary = [each for each in found.values() if each.nin == 2 and each.nout == 1 and each.signature is None]
    return sorted(binary, key=lambda each: each.__name__)


def ufunc_methods() -> Iterator[Answer]:
    """Yield the answer for every method of these ufuncs."""
    for ufunc in ufuncs():
        for method in UFUNC_METHODS:
            name = f"numpy.{ufunc.__name__}.{method}"
            if method != "at":
                yield answer(name, getattr(ufunc, method))
            elif ufunc in (np.add, np.subtract):
                yield Answer(name, RULE, "in place")
            elif rule(ufunc).kind == "constant":
                yield Answer(name, CONSTANT)
            else:
                yield answer(name, ufunc.at)


def array_methods() -> Iterator[Answer]:
    """Yield the answer for every method of arrays, by what a traced value does when it is called."""
    for name in sorted(dir(np.ndarray)):
        if name.startswith("_") or not callable(getattr(np.ndarray, name)):
            continue
        member = vars(TracedArray).get(name)
        refuses = "_refuse_method" in getattr(member, "__qualname__", "")
        if member is None or refuses or METHOD_REASONS.get(name) == LEAVES:
            state = UNSUPPORTED if name in METHOD_REASONS else ""
            yield Answer(f"ndarray.{name}", state, reason=METHOD_REASONS.get(name, ""))
        else:
            kind = rule(getattr(np, name)).kind if hasattr(np, name) else "composed"
            yield Answer(f"ndarray.{name}", ANSWERS.get(kind, RULE))


def row_of(each: Answer) -> str:
    """One line of a table."""
    return f"| `{each.name}` | {each.state} | {each.reason or each.form.replace('constant', '')} |"


def table(answers: list[Answer]) -> list[str]:
    """The lines of a table."""
    return ["| function | state | form of the rule, or reason |", "|---|---|---|", *map(row_of, answers), ""]


def counts(answers: list[Answer]) -> str:
    """How many there are in each state."""
    return ", ".join(
        f"{sum(each.state == state for each in answers)} {state}" for state in (RULE, CONSTANT, UNSUPPORTED)
    )


def page() -> str:
    """The page as Markdown."""
    everything = list(functions())
    methods = list(array_methods())
    lines = [
        "# Coverage of NumPy",
        "",
        "<!-- Written by docs/coverage.py; do not edit. -->",
        "",
        "Every public function of NumPy is in one of three states.",
        "",
        "- **rule**: it has derivatives, of any order, in reverse and in forward mode. An *elementwise* rule is one",
        "  expression per operand; a *function* has a pullback per operand; a *linear* one is its own pushforward; a",
        "  *composed* one is written with the others.",
        "- **not differentiable**: its result is a whole number, a truth value, a text, a file, or constant between jumps.",
        "  It is computed from the plain numbers and is a constant.",
        "- **not supported yet**: a traced value is refused by `NoRuleError` or `TracedValueError`, for the reason given.",
        "",
        f"The table is that of NumPy {np.__version__}. Functions: {counts(everything)}.",
        f"Methods of arrays: {counts(methods)}.",
        "",
        "What a rule does with ties, kinks and matrices of which only one triangle is read, is said at the head of its",
        "file in `mutangent/rules`. The operand of a function that passes over nan has the derivative 0 there; under a",
        "further function it may be 0 · nan, so put `np.where(np.isnan(x), 0, x)` under anything but a square.",
        "",
    ]
    for space in NAMESPACES:
        own = [each for each in everything if each.name.rpartition(".")[0] == space]
        lines += [f"## {space}", "", *table(own)]
    lines += [
        "## Methods of ufuncs",
        "",
        "| ufunc | " + " | ".join(UFUNC_METHODS) + " |",
        "|---" * (len(UFUNC_METHODS) + 1) + "|",
    ]
    found = {each.name: each for each in ufunc_methods()}
    for ufunc in ufuncs():
        states = [found[f"numpy.{ufunc.__name__}.{method}"].state for method in UFUNC_METHODS]
        lines.append(f"| `numpy.{ufunc.__name__}` | " + " | ".join(states) + " |")
    refused: dict[str, list[str]] = {}
    for each in found.values():
        if each.state == UNSUPPORTED:
            refused.setdefault(each.reason, []).append(f"`{each.name}`")
    lines += ["", *[f"- {', '.join(names)}: {reason}." for reason, names in refused.items()]]
    lines += ["", "## Methods of arrays", "", *table(methods)]
    return "\n".join(lines)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.name}: {counts(list(functions()))} (mutangent {mt.__version__})")
