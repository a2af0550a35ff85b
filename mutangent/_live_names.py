"""Which local names a function that is under way still reads.

Its bytecode says so: a name is read if it is loaded on some way from where the function stands, before something else is
stored in it. What is not known is taken for read.
"""

from __future__ import annotations

import dis
import functools
import re
from inspect import CO_OPTIMIZED
from types import CodeType
from typing import Final, NamedTuple

_READS_ANY_NAME: Final = frozenset({"locals", "vars", "dir", "eval", "exec"})
_LOCAL: Final = re.compile("(LOAD|STORE|DELETE)_FAST")
_ENDS: Final = ("RETURN_", "RERAISE", "RAISE_VARARGS")
_JUMPS_ALWAYS: Final = ("JUMP_BACKWARD", "JUMP_FORWARD", "JUMP_ABSOLUTE")


@functools.lru_cache(maxsize=1024)
def is_read_later(code: CodeType, stands_at: int, name: str) -> bool:
    """Whether a function that waits for the call at the offset `stands_at` may read a local name afterwards."""
    if not code.co_flags & CO_OPTIMIZED or not _READS_ANY_NAME.isdisjoint(code.co_names):
        return True
    steps = _steps(code)
    pending = [offset for offset, step in steps.items() if step.handles_error]
    pending += [offset for offset in steps if offset > stands_at][:1]
    seen: set[int] = set()
    while pending:
        offset = pending.pop()
        if offset in seen:
            continue
        seen.add(offset)
        step = steps[offset]
        uses = [use for use, of in step.uses if of == name]
        if "LOAD" in uses[:1]:
            return True
        if not uses:
            pending += step.followers
    return False


class _Step(NamedTuple):
    """An instruction: what it does with local names, in order, and which ones may come next."""

    uses: list[tuple[str, str]]
    followers: list[int]
    handles_error: bool


@functools.lru_cache(maxsize=64)
def _steps(code: CodeType) -> dict[int, _Step]:
    instructions = list(dis.get_instructions(code))
    steps = {}
    for number, each in enumerate(instructions):
        names = each.argval if type(each.argval) is tuple else (each.argval,)
        followers = []
        if not each.opname.startswith((*_ENDS, *_JUMPS_ALWAYS)) and number + 1 < len(instructions):
            followers.append(instructions[number + 1].offset)
        if each.opcode in dis.hasjrel or each.opcode in dis.hasjabs:
            followers.append(each.argval)
        steps[each.offset] = _Step(
            list(zip(_LOCAL.findall(each.opname), names, strict=False)),
            followers,
            each.opname == "PUSH_EXC_INFO",
        )
    return steps
