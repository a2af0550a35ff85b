"""Which local names a function that is under way still reads, and where it reads a parameter as it was given.

Its bytecode says so: a name is read if it is loaded on some way from where the function stands, before something else is
stored in it. What is not known is taken for read.
"""

from __future__ import annotations

import dis
import functools
import re
from collections.abc import Callable, Iterator
from inspect import CO_OPTIMIZED
from types import CodeType
from typing import Final, NamedTuple

_READS_ANY_NAME: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})
_LOCAL: Final = re.compile("(LOAD|STORE|DELETE)_FAST")
_ENDS: Final = ("RETURN_", "RERAISE", "RAISE_VARARGS")
_JUMPS_ALWAYS: Final = ("JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_ABSOLUTE")


@functools.lru_cache(maxsize=1024)
def is_read_later(code: CodeType, stands_at: int, name: str, passed: frozenset[int] = frozenset()) -> bool:
    """Whether a function that waits for the call at the offset `stands_at` may read a local name afterwards.

    The instructions at the offsets `passed` do not count.
    """
    if not code.co_flags & CO_OPTIMIZED or _reads_any_name(code):
        return True
    steps = _steps(code)
    start = [offset for offset in steps if offset > stands_at][:1]

    def is_load(offset: int) -> bool:
        return "LOAD" in steps[offset].uses_of(name)[:1]

    ways = _ways(steps, start, lambda offset: is_load(offset) or not steps[offset].uses_of(name))
    return any(is_load(offset) and offset not in passed for offset in ways)


@functools.lru_cache(maxsize=1024)
def loads_as_given(code: CodeType, name: str) -> frozenset[int]:
    """The offsets at which a function may load a parameter while nothing else has been stored in it."""
    steps = _steps(code)
    if any(step.is_put_back and ("LOAD", name) in step.uses for step in steps.values()):
        return frozenset(steps)  # by a comprehension, after it

    def leads_on(offset: int) -> bool:
        step = steps[offset]
        return step.stores_the_same or not {"STORE", "DELETE"}.intersection(step.uses_of(name))

    ways = _ways(steps, list(steps)[:1], leads_on)
    return frozenset(
        [k for k in ways if "LOAD" in steps[k].uses_of(name)[: 2 if steps[k].stores_the_same else 1]]
    )


def _ways(steps: dict[int, _Step], start: list[int], leads_on: Callable[[int], bool]) -> Iterator[int]:
    """The offsets of the instructions that may run from a start on, or after an error, each once, on ways that lead on."""
    pending = [offset for offset, step in steps.items() if step.handles_error] + start
    seen: set[int] = set()
    while pending:
        offset = pending.pop()
        if offset not in seen:
            seen.add(offset)
            yield offset
            if leads_on(offset):
                pending += steps[offset].followers


class _Step(NamedTuple):
    """An instruction: what it does with local names, in order, and which ones may come next."""

    uses: list[tuple[str, str]]
    followers: list[int]
    handles_error: bool
    is_put_back: bool  # whether the name that it loads is given its value back later
    stores_the_same: bool  # whether it may store what the name stood for, after `x += 1`

    def uses_of(self, name: str) -> list[str]:
        """What it does with one name."""
        return [use for use, of in self.uses if of == name]


def explanations(instructions: list[dis.Instruction]) -> set[int]:
    """The offsets of what runs only for the text of an assertion that fails, and what pytest adds for that in tests."""
    found = set()
    explains = False
    for each in instructions:
        is_over = each.opname == "RAISE_VARARGS" or (
            each.opname.startswith("STORE_") and "@py_assert" in str(each.argval)
        )
        begins = each.argval == "@pytest_ar" or each.opname == "LOAD_ASSERTION_ERROR"
        explains = (explains or begins) and not is_over
        if explains:
            found.add(each.offset)
    return found


def _reads_any_name(code: CodeType) -> bool:
    names = _READS_ANY_NAME.intersection(code.co_names)
    if names and "@py_builtins" in code.co_names:  # pytest asks `locals` in what it puts into the code
        loaded = {each.argval for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"}
        names &= loaded
    return bool(names)


@functools.lru_cache(maxsize=64)
def _steps(code: CodeType) -> dict[int, _Step]:
    instructions = list(dis.get_instructions(code))
    steps = {}
    explaining = explanations(instructions)
    for number, each in enumerate(instructions):
        names = each.argval if type(each.argval) is tuple else (each.argval,)
        followers = []
        is_end = each.opname.startswith((*_ENDS, *_JUMPS_ALWAYS)) and each.opname != "RETURN_GENERATOR"
        if not is_end and number + 1 < len(instructions):
            followers.append(instructions[number + 1].offset)
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            followers.append(each.argval)
        steps[each.offset] = _Step(
            [] if each.offset in explaining else list(zip(_LOCAL.findall(each.opname), names, strict=False)),
            followers,
            each.opname == "PUSH_EXC_INFO",
            each.opname == "LOAD_FAST_AND_CLEAR",
            number > 0 and _is_in_place(instructions[number - 1]),
        )
    return steps


def _is_in_place(instruction: dis.Instruction) -> bool:
    return instruction.opname == "BINARY_OP" and instruction.argrepr.endswith("=")
