"""Which names a piece of code loads, and what it does with each value first. Nothing is run: it is read from the bytecode.

Most uses of a value read what is in it. A few do not: an assignment to an attribute, a comparison with `is`. Where a value
is an argument of a call, it depends on what is called. To see what becomes of a load, the stack of the interpreter is
followed along a straight line of code. Where lines meet, and at instructions that are seldom beside a plain name, it is
given up, and the load is one that reads.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any, Final, NamedTuple

from ._live_names import explanations

GLOBAL: Final = "global"
CELL: Final = "cell"  # a variable of a function around this one, or one that a function within this one has
LOCAL: Final = "local"
UNKNOWN: Final = "unknown"  # a value that is that of no name, but of a call for example

READ: Final = "read"
STORED: Final = "stored"  # into an attribute
WRITTEN: Final = "written"  # an element of it
COMPARED: Final = "compared"  # by `is`
GIVEN: Final = "given"  # as an argument
COMPUTED: Final = "computed"  # with by an operator
ITERATED: Final = "iterated"  # over by a comprehension

# Steps from a value to another that are no attributes.
ITEM: Final = "[]"
ITERATOR: Final = "iter"
# The attribute that ``type(x)`` is.
CLASS: Final = "__class__"

_LOADS: Final = {
    "LOAD_NAME": GLOBAL,
    "LOAD_FROM_DICT_OR_GLOBALS": GLOBAL,
    "LOAD_DEREF": CELL,
    "LOAD_CLASSDEREF": CELL,
    "LOAD_FROM_DICT_OR_DEREF": CELL,
    "LOAD_FAST": LOCAL,
    "LOAD_FAST_CHECK": LOCAL,
}
_STORES: Final = {
    "STORE_GLOBAL": GLOBAL,
    "DELETE_GLOBAL": GLOBAL,
    "STORE_DEREF": CELL,
    "DELETE_DEREF": CELL,
}
# How many values an instruction takes from the stack, beside one for each unit of its argument, to put one there.
_TAKES: Final = {
    "CALL": 2,
    "CALL_KW": 3,
    "BUILD_CONST_KEY_MAP": 1,
    **dict.fromkeys(["BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_SLICE"], 0),
}
# How many it takes, and how many it puts there.
_EFFECTS: Final = {
    **dict.fromkeys(["CACHE", "NOP", "RESUME", "PRECALL", "KW_NAMES", "EXTENDED_ARG"], (0, 0)),
    **dict.fromkeys(["PUSH_NULL", "LOAD_CONST"], (0, 1)),
    **dict.fromkeys(["BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP"], (2, 1)),
    **dict.fromkeys(["UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT", "TO_BOOL"], (1, 1)),
    **dict.fromkeys(["POP_TOP", "STORE_GLOBAL", "STORE_NAME"], (1, 0)),
    "STORE_ATTR": (2, 0),
    "STORE_SUBSCR": (3, 0),
}


# Whether what stands on the stack beside a function that is called lies above it.
_IS_ABOVE: Final = sys.version_info >= (3, 13)
# Keywords whose value may be the result.
_GIVEN_BACK: Final = frozenset({"out", "default", "start", "initial"})

# Instructions that put so many values in place of one, each of which may be that or be in it; none if that is not known.
_COPIES: Final[dict[str, Callable[[int], int]]] = {
    "UNPACK_SEQUENCE": lambda arg: arg,
    "UNPACK_EX": lambda arg: (arg & 0xFF) + 1 + (arg >> 8),
    "COPY": lambda arg: 2 if arg == 1 else 0,
}
# Instructions that put a value, or what it holds, into the container below it.
_MERGES: Final = frozenset({"LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE"})
# Instructions that do nothing by themselves.
_NOTHING: Final = frozenset({"CACHE", "NOP", "PRECALL", "EXTENDED_ARG"})

_OPERATORS: Final = (
    "BINARY_OP",
    "COMPARE_OP",
    "CONTAINS_OP",
    "UNARY_NEGATIVE",
    "UNARY_INVERT",
    "UNARY_NOT",
    "TO_BOOL",
)


class Load:
    """One place in the code at which a name is loaded."""

    __slots__ = (
        "attributes",
        "callee",
        "key",
        "kind",
        "line",
        "made_of",
        "name",
        "offset",
        "result_of",
        "use",
    )

    def __init__(self, kind: str, name: str, line: int | None, offset: int) -> None:
        self.kind = kind
        self.name = name
        self.line = line
        self.offset = offset
        # Attributes and items that are taken of the value at once, one of the other.
        self.attributes: tuple[str, ...] = ()
        self.key: Any = None  # of the first item among these, if it is a text or a whole number in the code
        self.use = READ
        self.callee: Load | None = None  # of a value that is given, what it is given to, if that is a name
        # Of a value that is that of no name: what is in it, or was given to the function, and that function.
        self.made_of: list[Load] = []
        self.result_of: Load | None = None

    def upto(self, count: int | None = None) -> Load:
        """The same place, with the first of the attributes that are taken of the value by now."""
        made = Load(self.kind, self.name, self.line, self.offset)
        made.attributes, made.key = self.attributes[:count], self.key
        made.made_of, made.result_of = self.made_of, self.result_of
        return made


class Loads:
    """What a code object loads and stores, without the code objects within it."""

    __slots__ = (
        "_blocks",
        "attributes",
        "bound",
        "calls",
        "loads",
        "loops",
        "mentions",
        "own",
        "returned",
        "stored",
        "taken",
        "unknown",
        "whole",
        "within",
    )

    def __init__(self, code: CodeType) -> None:
        self.loads: list[Load] = []
        self.unknown: list[Load] = []  # places at which values come about that are those of no name
        self.returned: list[Load] = []  # what it returns or yields
        self.stored: set[tuple[str, str]] = set()  # kinds and names
        # By a local name what is put into it: a load, with the attributes that are taken of that; None is anything else.
        self.bound: dict[str, list[Load | None]] = {}
        self.loops: list[tuple[int, int]] = []  # offsets of the first and the last instruction
        self.own: set[str] = set()  # names of a class body, or of a module
        # Instructions that call, with their places in the text.
        self.calls: list[tuple[int, Any]] = []
        self._blocks: dict[int, tuple[int, Part]] = {}
        self.attributes = frozenset(code.co_names)  # among others
        self.mentions: list[tuple[int, str]] = []  # the names that instructions have, with the offset of each
        self.taken: list[tuple[Load, tuple[str, ...], str]] = []
        self.within: list[tuple[int, CodeType]] = []  # with the offset at which each is loaded
        _Follower(self).follow(code)
        self.whole = self.part(-1, len(code.co_code))

    def block(self, start: int, left: int) -> Part:
        """The part of the code that is a `with` block, which is entered at `start` and left at `left`.

        A `return` or `break` leaves it before its end. Instructions that leave it have the place in the text that the one
        which enters it has.
        """
        known = self._blocks.get(start)
        if known is None or known[0] < left:
            place = next((place for offset, place in self.calls if offset == start), None)
            end = max([left, *(offset for offset, its in self.calls if offset >= start and its == place)])
            known = self._blocks[start] = (end, self.part(start, end))
        return known[1]

    def part(self, start: int, end: int) -> Part:
        """What lies between two instructions."""
        return Part(
            [load for load in self.loads if start < load.offset < end],
            [load for load in self.unknown if start < load.offset < end],
            [each for each in self.taken if start < each[0].offset < end],
            Counter(name for offset, name in self.mentions if start < offset < end),
            [code for offset, code in self.within if start < offset < end],
        )

    def is_repeated(self, offset: int, since: int) -> bool:
        """Whether an instruction lies in a loop that begins after another instruction."""
        return any(since <= first <= offset <= last for first, last in self.loops)


class Part(NamedTuple):
    """A part of a code object."""

    loads: list[Load]
    unknown: list[Load]
    # Loads of which an attribute is taken, with the attributes before it, and its name.
    taken: list[tuple[Load, tuple[str, ...], str]]
    mentions: Counter[str]  # how many instructions have a name
    within: list[CodeType]


_known: Final[dict[int, tuple[Any, Loads]]] = {}


def loads_of(code: CodeType) -> Loads:
    """What a code object loads and stores. Looked at once for each code object."""
    key = id(code)  # two codes may be equal, and comparing them takes long
    known = _known.get(key)
    if known is None:
        loads = Loads(code)
        known = _known[key] = (weakref.ref(code, lambda _: _known.pop(key, None)), loads)
    return known[1]


def with_inner(code: CodeType) -> list[CodeType]:
    """A code object, and those within it: of lambdas, comprehensions, functions and classes."""
    return [code, *(each for _, inner in loads_of(code).within for each in with_inner(inner))]


def codes_around(whole: CodeType, code: CodeType) -> list[CodeType]:
    """A code object, and those around it from which it has names, up to `whole`; none if it does not lie in that."""
    if whole is code:
        return [whole]
    for _, inner in loads_of(whole).within:
        found = codes_around(inner, code)
        if found:
            return [*found, whole]
    return []


class _Follower:
    """The stack of the interpreter along the code: a load where it is known that a value is that of a name."""

    def __init__(self, found: Loads) -> None:
        self.found = found
        self.stack: list[Load | None] = []
        self._constant: Any = None  # that the last instruction loads
        self._place: tuple[int | None, int] = (None, 0)  # of the instruction: the line and the offset
        self._last = ""  # the name of the last instruction
        self._keywords: Any = ()  # of the call that comes next

    def follow(self, code: CodeType) -> None:
        """Note what a code object loads and stores."""
        instructions = list(dis.get_instructions(code))
        explaining = explanations(instructions)
        self.found.mentions = [
            (each.offset, each.argval)
            for each in instructions
            if type(each.argval) is str and each.opname != "LOAD_CONST"
        ]
        for instruction in instructions:
            name, value = instruction.opname, instruction.argval
            if instruction.is_jump_target:
                # At the head of a loop lies the iterator, by whatever way one comes there.
                self.stack = self.stack[-1:] if name == "FOR_ITER" and self._last == "GET_ITER" else []
            known = len(self.found.loads)
            self._place = instruction.positions and instruction.positions.lineno, instruction.offset
            if not (self._load(instruction) or self._put(instruction)):
                self._pass(instruction)
            if instruction.offset in explaining:
                del self.found.loads[known:]
            self._note(instruction)
            if name not in _NOTHING:
                self._constant = value if name == "LOAD_CONST" and type(value) in (int, str) else None
                self._last = name
            if name == "KW_NAMES":
                self._keywords = code.co_consts[instruction.arg or 0]
            elif name not in _NOTHING:
                self._keywords = value if name == "LOAD_CONST" and type(value) is tuple else ()

    def _note(self, instruction: dis.Instruction) -> None:
        """Note what an instruction stores, calls, repeats and holds."""
        name, value = instruction.opname, instruction.argval
        if name in _STORES:
            self.found.stored.add((_STORES[name], value))
        elif name == "STORE_NAME":
            self.found.own.add(value)
        elif name in ("CALL", "BEFORE_WITH"):
            self.found.calls.append((instruction.offset, instruction.positions))
        elif "JUMP_BACKWARD" in name:
            self.found.loops.append((value, instruction.offset))
        if type(value) is CodeType:
            self.found.within.append((instruction.offset, value))

    def _load(self, instruction: dis.Instruction) -> bool:
        """Follow an instruction that loads a name; False for any other."""
        name, value = instruction.opname, instruction.argval
        if name == "LOAD_GLOBAL":
            is_called = bool((instruction.arg or 0) & 1)
            if is_called and not _IS_ABOVE:
                self.stack.append(None)
            self._push(GLOBAL, value)
            if is_called and _IS_ABOVE:
                self.stack.append(None)
        elif name in _LOADS:
            self._push(_LOADS[name], value)
        elif name == "LOAD_FAST_LOAD_FAST":
            for each in value:
                self._push(LOCAL, each)
        elif name == "STORE_FAST_LOAD_FAST":
            self._bind(value[0])
            self._push(LOCAL, value[1])
        else:
            return False
        return True

    def _put(self, instruction: dis.Instruction) -> bool:
        """Follow an instruction that puts a value into a local name, or asks of one; False for any other."""
        name = instruction.opname
        if name in ("STORE_FAST", "STORE_DEREF"):
            self._bind(instruction.argval)
        elif name == "STORE_FAST_STORE_FAST":
            for each in instruction.argval:
                self._bind(each)
        elif name == "FOR_ITER":
            self.stack = [None, *self.stack[-1:]]  # an item, in place of the iterator
        elif name in _COPIES:
            count = _COPIES[name](instruction.arg or 0)
            parts = self._take(1)
            self.stack = self.stack + [self._made_of(parts) for _ in range(count)] if count else []
        elif name in ("RETURN_VALUE", "YIELD_VALUE", "GET_YIELD_FROM_ITER"):
            self.found.returned += [each.upto() for each in self._take(1) if each is not None]
            self.stack.clear()
        else:
            return name == "CALL" and instruction.arg in (1, 2) and self._ask(instruction.arg)
        return True

    def _push(self, kind: str, name: str) -> None:
        made = Load(kind, name, *self._place)
        self.found.loads.append(made)
        self.stack.append(made)

    def _pass(self, instruction: dis.Instruction) -> None:
        """Follow an instruction that takes values from the stack."""
        name, arg = instruction.opname, instruction.arg or 0
        if name in ("LOAD_ATTR", "LOAD_METHOD"):
            self._step(1, instruction.argval)
            if name == "LOAD_METHOD" or (arg & 1 and sys.version_info >= (3, 12)):
                self.stack.append(None)
        elif name == "BINARY_SUBSCR":
            self._step(2, ITEM)
        elif name == "GET_ITER":
            self._step(1, ITERATOR)
        elif name.startswith("POP_JUMP"):
            (value,) = self._take(1)
            if value is not None and name.endswith("NONE"):
                value.use = COMPARED
        elif name in _EFFECTS:
            takes, gives = _EFFECTS[name]
            _use(name, arg, self._take(takes))
            self.stack += [None] * gives
        elif name in _MERGES and arg == 1:
            self.stack.append(self._made_of(self._take(2)))
        elif name in _TAKES:
            taken = self._take(_TAKES[name] + arg * (2 if name == "BUILD_MAP" else 1))
            _use(name, arg, taken, self._keywords)
            self.stack.append(
                self._made_of(taken[2:], _callee(taken)) if "CALL" in name else self._made_of(taken)
            )
        else:
            if name == "LOAD_FAST_AND_CLEAR":  # a comprehension begins
                _use(name, arg, self.stack[-1:])
            self.stack.clear()

    def _bind(self, name: str) -> None:
        """Put the value on top of the stack into a local name."""
        (value,) = self._take(1)
        self.found.bound.setdefault(name, []).append(value and value.upto())

    def _ask(self, count: int) -> bool:
        """Follow ``getattr(x, "name")`` and ``type(x)``, which are attributes; False for any other call."""
        callee = next((value for value in self.stack[-2 - count : -count] if value is not None), None)
        if callee is None or callee.kind != GLOBAL or callee.attributes or self._keywords:
            return False
        if callee.name == "getattr" and count == 2 and type(self._constant) is str:
            name = self._constant
            self.found.attributes |= {name}
            self.found.mentions.append((callee.offset, name))
        elif callee.name == "type" and count == 1:
            name = CLASS
        else:
            return False
        self.stack.append(self._take(2 + count)[2])
        self._step(1, name)
        return True

    def _step(self, count: int, what: str) -> None:
        """Let something of a value take its place, and that of the `count` - 1 values above it."""
        value = self._take(count)[0]
        if value is None and count == 1 and what != ITERATOR:
            value = self._unknown()
        if value is not None:
            if count == 1 and what != ITERATOR:
                self.found.taken.append((value, value.attributes, what))
            if what == ITEM and ITEM not in value.attributes:
                value.key = self._constant
            value.attributes += (what,)
        self.stack.append(value)

    def _unknown(self) -> Load:
        made = Load(UNKNOWN, "", *self._place)
        self.found.unknown.append(made)
        return made

    def _made_of(self, parts: list[Load | None], callee: Load | None = None) -> Load | None:
        """A value in which others are, or the result of a function that they are given to."""
        known = [each.upto() for each in parts if each is not None]
        if callee is not None and callee.attributes:
            known.append(callee.upto(-1))  # whose method it is
        if not known and callee is None:
            return None
        made = self._unknown()
        made.made_of, made.result_of = known, callee
        return made

    def _take(self, count: int) -> list[Load | None]:
        """Take values from the stack; None stands for those that are not known."""
        first = max(0, len(self.stack) - count)
        taken = self.stack[first:]
        del self.stack[first:]
        return [None] * (count - len(taken)) + taken


def _callee(taken: list[Load | None]) -> Load | None:
    """What is called, where it is known, of the values that a call takes."""
    return next((value for value in taken[:2] if value is not None), None)


def _use(name: str, arg: int, taken: list[Load | None], keywords: tuple[Any, ...] = ()) -> None:
    """Note what an instruction does with the values that it takes; the last of them may have keywords."""
    if name == "STORE_ATTR":
        _note(taken[:1], STORED)
    elif name == "STORE_SUBSCR":
        _note(taken[1:2], WRITTEN)
    elif name == "IS_OP":
        _note(taken, COMPARED)
    elif name in _OPERATORS:
        _note(taken, COMPUTED)
    elif name in ("CALL", "CALL_KW", "LOAD_FAST_AND_CLEAR"):
        callee = _callee(taken)
        if callee is not None and callee.attributes[-1:] == (ITERATOR,):
            callee.use = ITERATED
        by_position = arg - len(keywords)
        for k, value in enumerate(taken[2 : 2 + arg]):
            is_given_back = k >= by_position >= 0 and keywords[k - by_position] in _GIVEN_BACK
            if value is not None and not is_given_back:
                value.use, value.callee = GIVEN, callee


def _note(values: list[Load | None], use: str) -> None:
    for value in values:
        if value is not None:
            value.use = use
