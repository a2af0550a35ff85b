"""Which values a piece of code loads, and what it does with each first. Nothing is run: it is read from the bytecode.

Most uses of a value read what is in it. A few do not: an assignment to an attribute, a comparison with `is`. Where a value
is an argument of a call, it depends on what is called. To see what becomes of a load, the stack of the interpreter is
followed along a straight line of code. Where lines meet, and at instructions that are seldom beside a plain name, it is
given up, and the load is one that reads.
"""

from __future__ import annotations

import dis
import sys
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any, Final

from ._live_names import explanations
from ._loads import (
    BOUND,
    BY_KEY,
    CALLED,
    CELL,
    CLASS,
    COMPARED,
    COMPUTED,
    CONSTANT,
    DICT,
    GIVEN,
    GLOBAL,
    ITEM,
    ITERATED,
    ITERATOR,
    LOCAL,
    READ,
    SEARCHED,
    STORED,
    SUPER,
    TESTED,
    UNKNOWN,
    WRITTEN,
    Handler,
    Load,
    Loads,
)

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
    **dict.fromkeys(
        ["BUILD_TUPLE", "BUILD_LIST", "BUILD_SET", "BUILD_MAP", "BUILD_SLICE", "BUILD_STRING"], 0
    ),
}
# How many it takes, and how many it puts there.
_EFFECTS: Final = {
    **dict.fromkeys(["CACHE", "NOP", "RESUME", "PRECALL", "KW_NAMES", "EXTENDED_ARG"], (0, 0)),
    **dict.fromkeys(["PUSH_NULL", "LOAD_CLOSURE"], (0, 1)),
    **dict.fromkeys(["BINARY_OP", "COMPARE_OP", "CONTAINS_OP", "IS_OP", "SET_FUNCTION_ATTRIBUTE"], (2, 1)),
    **dict.fromkeys(["UNARY_NEGATIVE", "UNARY_INVERT", "UNARY_NOT", "TO_BOOL"], (1, 1)),
    **dict.fromkeys(["POP_TOP", "STORE_GLOBAL"], (1, 0)),
    "STORE_ATTR": (2, 0),
    "STORE_SUBSCR": (3, 0),
}
_ARITHMETIC: Final = frozenset({"BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT"})
# Whether what stands on the stack beside a function that is called lies above it.
_IS_ABOVE: Final = sys.version_info >= (3, 13)
# Keywords whose value may be the result, or that decide on whether a copy is made.
_GIVEN_BACK: Final = frozenset({"out", "default", "start", "initial", "copy"})

# Instructions that put so many values in place of one, each of which may be that or be in it; none if that is not known.
_COPIES: Final[dict[str, Callable[[int], int]]] = {
    "UNPACK_SEQUENCE": lambda arg: arg,
    "UNPACK_EX": lambda arg: (arg & 0xFF) + 1 + (arg >> 8),
    "COPY": lambda arg: 2 if arg == 1 else 0,
}
# Instructions that put a value, or what it holds, into the container below it.
_MERGES: Final = frozenset({"LIST_APPEND", "LIST_EXTEND", "SET_ADD", "SET_UPDATE", "DICT_UPDATE"})
# Instructions that make a text of a value: how many they take beside that.
_TEXTS: Final[dict[str, Callable[[int], int]]] = {
    "FORMAT_VALUE": lambda arg: arg >> 2 & 1,
    "FORMAT_SIMPLE": lambda _: 0,
    "FORMAT_WITH_SPEC": lambda _: 1,
    "CONVERT_VALUE": lambda _: 0,
}
# Functions that give an attribute.
_ASKING: Final = {"type": CLASS, "vars": DICT}
# Instructions that do nothing by themselves.
_NOTHING: Final = frozenset({"CACHE", "NOP", "PRECALL", "EXTENDED_ARG"})
# What an instruction does with the values that it takes, or with the first, the second of them.
_USES: Final[dict[str, tuple[tuple[int | None, str], ...]]] = {
    "STORE_ATTR": ((0, STORED),),
    "STORE_SUBSCR": ((1, WRITTEN),),
    "IS_OP": ((None, COMPARED),),
    "CONTAINS_OP": ((0, COMPUTED), (1, SEARCHED)),
    **dict.fromkeys(["UNARY_NOT", "TO_BOOL"], ((None, TESTED),)),
    **dict.fromkeys(
        ["BINARY_OP", "COMPARE_OP", "UNARY_NEGATIVE", "UNARY_INVERT", "BUILD_STRING", *_TEXTS],
        ((None, COMPUTED),),
    ),
}

_known: Final[dict[int, tuple[Any, Loads]]] = {}


def loads_of(code: CodeType) -> Loads:
    """What a code object loads and stores. Looked at once for each code object."""
    key = id(code)  # two codes may be equal, and comparing them takes long
    known = _known.get(key)
    if known is None:
        loads = Loads(code)
        loads.handlers += _handlers_in(code.co_exceptiontable)
        _Follower(loads).follow(code)
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


def _handlers_in(table: bytes) -> Iterator[Handler]:
    """The handlers of errors of a code object. CPython writes down numbers of six bits, in units of two bytes of code."""
    numbers: list[int] = []
    number = 0
    for byte in table:
        number = number << 6 | byte & 63
        if not byte & 64:  # the last byte of a number
            numbers.append(number)
            number = 0
    for start, length, target, _ in zip(*[iter(numbers)] * 4, strict=True):
        yield Handler(2 * start, 2 * (start + length), 2 * target)


class _Follower:
    """The stack of the interpreter along the code: a load where it is known which value lies there."""

    def __init__(self, found: Loads) -> None:
        self.found = found
        self.stack: list[Load | None] = []
        self._place: tuple[int | None, int] = (None, 0)  # of the instruction: the line and the offset
        self._last = ""  # the name of the last instruction
        self._name: Any = None  # that the instruction has
        self._first: str | None = None  # the name of the first parameter
        self._iterated: list[tuple[Load, str, CodeType | None]] = []
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
        self._first = code.co_varnames[0] if code.co_argcount else None
        skipped = 0
        for number, instruction in enumerate(instructions):
            name = instruction.opname
            if instruction.is_jump_target:
                # At the head of a loop lies the iterator, by whatever way one comes there.
                self.stack = self.stack[-1:] if name == "FOR_ITER" and self._last == "GET_ITER" else []
            known = len(self.found.loads)
            self._name = instruction.argval
            self._place = instruction.positions and instruction.positions.lineno, instruction.offset
            skipped = skipped - 1 if skipped else self._update(instructions[number : number + 3])
            if not skipped and not (self._load(instruction) or self._put(instruction)):
                self._pass(instruction)
            if instruction.offset in explaining:
                del self.found.loads[known:]
            self._note(instruction)
            if name == "KW_NAMES":
                self._keywords = code.co_consts[instruction.arg or 0]
            elif name not in _NOTHING:
                is_names = [each.opname for each in instructions[number + 1 : number + 2]] == ["CALL_KW"]
                self._keywords = instruction.argval if is_names else ()
                self._last = name
        self._look_at_variables()

    def _update(self, instructions: list[dis.Instruction]) -> int:
        """Follow ``d[key] += x`` and ``x.n += 1`` up to the addition; how many instructions that are, or 0."""
        names = tuple((each.opname, each.arg) for each in instructions)
        if names[:2] == (("COPY", 2), ("COPY", 2)) and names[2][0] == "BINARY_SUBSCR" and len(self.stack) > 1:
            self._step(2, ITEM)
            self.stack[-1:-1] = [None, None]
            return 3
        if names[0] == ("COPY", 1) and names[1][0] == "LOAD_ATTR" and self.stack:
            self._step(1, instructions[1].argval)
            self.stack[-1:-1] = [None]
            return 2
        return 0

    def _note(self, instruction: dis.Instruction) -> None:
        """Note what an instruction stores, repeats and holds."""
        name, value = instruction.opname, instruction.argval
        if name in _STORES:
            self.found.stored.add((_STORES[name], value))
        elif name == "STORE_NAME":
            self.found.own.setdefault(value, instruction.offset)
        elif "JUMP_BACKWARD" in name:
            self.found.loops.append((value, instruction.offset))
        if type(value) is CodeType:
            self.found.within.append((instruction.offset, value))

    def _load(self, instruction: dis.Instruction) -> bool:
        """Follow an instruction that loads a name or a constant; False for any other."""
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
        elif name == "LOAD_CONST":
            self._push_constant(value)
        else:
            return False
        return True

    def _put(self, instruction: dis.Instruction) -> bool:
        """Follow an instruction that puts a value somewhere, or a call that asks for an attribute; False for any other."""
        name, arg = instruction.opname, instruction.arg or 0
        if name in ("STORE_FAST", "STORE_DEREF", "STORE_NAME"):
            self._bind(instruction.argval)
        elif name == "STORE_FAST_STORE_FAST":
            for each in instruction.argval:
                self._bind(each)
        elif name == "FOR_ITER":
            self.stack = [None, *self.stack[-1:]]  # an item, in place of the iterator
        elif name in _COPIES:
            count = _COPIES[name](arg)
            parts = self._take(1)
            self.stack = self.stack + [self._made_of(parts) for _ in range(count)] if count else []
        elif name == "SWAP" and arg <= len(self.stack):
            self.stack[-arg], self.stack[-1] = self.stack[-1], self.stack[-arg]
        elif name == "MATCH_CLASS":
            self._match(*self._take(3))
        elif name in ("RETURN_VALUE", "YIELD_VALUE", "GET_YIELD_FROM_ITER"):
            if name == "GET_YIELD_FROM_ITER":
                self._step(1, ITERATOR)
            self.found.returned += [each and each.upto() for each in self._take(1)]
            self.stack.clear()
        else:
            return (name == "CALL" and self._ask(arg)) or (
                name == "LOAD_SUPER_ATTR" and self._take_from_super(arg)
            )
        return True

    def _push(self, kind: str, name: str) -> None:
        made = Load(kind, name, *self._place)
        self.found.loads.append(made)
        self.stack.append(made)

    def _push_constant(self, value: Any) -> None:
        made = Load(CONSTANT, "", *self._place)
        made.value = value
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
            _note(self._take(1), COMPARED if name.endswith("NONE") else TESTED)
        elif name in _EFFECTS:
            takes, gives = _EFFECTS[name]
            taken = self._take(takes)
            _use(name, taken)
            if name == "STORE_ATTR" and taken[0] is not None and taken[1] is not None:
                taken[0].stored_in = taken[1].upto(), instruction.argval
            self.stack += [self._computed(taken) if name in _ARITHMETIC else None for _ in range(gives)]
        elif not self._make(name, arg):
            if name == "LOAD_FAST_AND_CLEAR":  # a comprehension begins
                self._iterate(self.stack[-1:], self._name)
            self.stack.clear()

    def _make(self, name: str, arg: int) -> bool:
        """Follow an instruction that makes a value of others; False for any other."""
        if name == "MAKE_FUNCTION":
            self._take(1 + arg.bit_count())
            self.stack.append(None)
        elif name in _MERGES and arg == 1:
            self.stack.append(self._made_of(self._take(2)))
        elif name in _TEXTS:
            _use(name, self._take(1 + _TEXTS[name](arg)))
            self._push_constant("")
        elif name in _TAKES:
            self._combine(name, arg)
        else:
            return False
        return True

    def _combine(self, name: str, arg: int) -> None:
        """Follow an instruction that makes one value of several."""
        taken = self._take(_TAKES[name] + arg * (2 if name == "BUILD_MAP" else 1))
        if not name.startswith("CALL"):
            _use(name, taken)
            made = self._made_of(taken)
            if made is not None:
                made.is_display = True
                made.has_unknown_parts = made.has_unknown_parts or not taken  # it is filled later
            self.stack.append(made)
            return
        callee = next((value for value in taken[:2] if value is not None), None)
        given = taken[2 : 2 + arg]
        self._iterate(taken[:2], "")
        self._give(callee, given)
        self.stack.append(self._made_of(given, callee))

    def _iterate(self, values: list[Load | None], variable: str) -> None:
        """Note that a comprehension iterates over one of some values, whose variable is in this code, or in one within."""
        for value in values:
            if value is not None and value.steps and value.steps[-1].name == ITERATOR:
                value.use = ITERATED
                self._iterated.append(
                    (value, variable, self.found.within[-1][1] if self.found.within else None)
                )

    def _look_at_variables(self) -> None:
        """Let a comprehension count as one that keeps what it iterates over if it may keep its variable."""
        for value, variable, code in self._iterated:
            found = self.found if variable or code is None else loads_of(code)
            names = {variable} if variable else set(found.bound)
            if any(each.name in names and each.use == READ and not each.steps for each in found.loads):
                value.use = READ

    def _match(self, value: Load | None, _cls: Any, names: Load | None) -> None:
        """Note the attributes for which a pattern asks."""
        for name in names.value if names is not None and type(names.value) is tuple else ():
            made = self._unknown() if value is None else value.upto()
            self.found.unknown.append(made)
            self.found.attributes |= {name}
            made.take(name)
        self.stack.clear()

    def _give(self, callee: Load | None, given: list[Load | None]) -> None:
        """Note to what values are given; the last of them may have keywords."""
        by_position = len(given) - len(self._keywords)
        positions = [*range(by_position), *self._keywords]
        for position, value in zip(positions, given, strict=True):
            if value is not None and position not in _GIVEN_BACK:
                value.use, value.callee = GIVEN, callee
        asked = given[by_position + self._keywords.index("copy")] if "copy" in self._keywords else None
        if "copy" in self._keywords and (asked is None or asked.value is not True):
            _note(given, READ)
        if callee is not None:
            callee.use = CALLED if callee.use == READ else callee.use
            callee.arguments = dict(zip(positions, given, strict=True))
            if callee.steps and callee.steps[-1].name in BY_KEY and given and given[0] is not None:
                callee.note_key(given[0].value)

    def _bind(self, name: str) -> None:
        """Put the value on top of the stack into a local name."""
        (value,) = self._take(1)
        if value is not None and value.use == READ:
            value.use = BOUND
        self.found.bound.setdefault(name, []).append((self._place[1], value and value.upto()))

    def _ask(self, count: int) -> bool:
        """Follow ``getattr(x, "name")``, ``type(x)`` and ``super()``, which are attributes; False for any other call."""
        callee = next((value for value in self.stack[-2 - count : -count or None] if value is not None), None)
        if callee is None or callee.kind != GLOBAL or callee.steps or self._keywords:
            return False
        name = self._attribute_asked_for(callee.name, count)
        if name is None:
            return False
        taken = self._take(2 + count)
        if callee.name == "super":
            self.stack.append(self._own())
        else:
            self.stack.append(taken[2])
            self._step(1, name)
        return True

    def _attribute_asked_for(self, function: str, count: int) -> str | None:
        if function == "getattr" and count in (2, 3):
            key = self.stack[1 - count]
            if key is not None and key.kind == CONSTANT and type(key.value) is str:
                self.found.attributes |= {key.value}
                self.found.mentions.append((self._place[1], key.value))
                return key.value
        if count == 1 and function in _ASKING:
            return _ASKING[function]
        return "" if function == "super" and count in (0, 2) and self._first is not None else None

    def _own(self) -> Load:
        """The object whose method the code is, as `super()`."""
        made = Load(LOCAL, self._first or "", *self._place)
        made.is_super = True
        self.found.unknown.append(made)
        return made

    def _take_from_super(self, arg: int) -> bool:
        self._take(3)
        self.stack.append(self._own())
        self._step(1, self._name)
        if arg & 1:
            self.stack.append(None)
        return True

    def _step(self, count: int, what: str) -> None:
        """Let something of a value take its place, and that of the `count` - 1 values above it."""
        value, *others = self._take(count)
        if value is None and what != ITERATOR:
            value = self._unknown()
        if value is not None:
            if what not in (ITEM, ITERATOR):
                self.found.taken.append((value, value.attributes, what))
            key = others[0] if others else None
            known = key.value if key is not None and key.kind == CONSTANT else None
            value.take(what, SUPER if value.is_super and not value.steps else known)
        self.stack.append(value)

    def _unknown(self) -> Load:
        made = Load(UNKNOWN, "", *self._place)
        made.has_unknown_parts = True
        self.found.unknown.append(made)
        return made

    def _made_of(self, parts: list[Load | None], callee: Load | None = None) -> Load | None:
        """A value in which others are, or the result of a function that they are given to."""
        known = [each.upto() for each in parts if each is not None and each.kind != CONSTANT]
        if callee is not None and callee.steps:
            known.append(callee.upto(-1))  # whose method it is
        made = self._unknown()
        made.made_of, made.result_of = known, callee and callee.upto()
        made.has_unknown_parts = None in parts
        return made

    def _computed(self, operands: list[Load | None]) -> Load | None:
        """The result of an operator."""
        made = self._made_of(operands)
        if made is not None:
            made.is_computed = True
        return made

    def _take(self, count: int) -> list[Load | None]:
        """Take values from the stack; None stands for those that are not known."""
        first = max(0, len(self.stack) - count)
        taken = self.stack[first:]
        del self.stack[first:]
        return [None] * (count - len(taken)) + taken


def _use(name: str, taken: list[Load | None]) -> None:
    """Note what an instruction does with the values that it takes."""
    for place, use in _USES.get(name, ()):
        _note(taken if place is None else taken[place : place + 1], use)


def _note(values: list[Load | None], use: str) -> None:
    for value in values:
        if value is not None:
            value.use = use
