"""What a piece of code loads, and what it does with each value first: how that is written down.

A load is a place in the code at which the value of a name comes up, or one that is that of no name: what a call gives, for
example. `_bytecode` finds them.
"""

from __future__ import annotations

from collections import Counter
from types import CodeType
from typing import Any, Final, NamedTuple

GLOBAL: Final = "global"
CELL: Final = "cell"  # a variable of a function around this one, or one that a function within this one has
LOCAL: Final = "local"
CONSTANT: Final = "constant"
UNKNOWN: Final = "unknown"  # a value that is that of no name, but of a call for example

READ: Final = "read"
STORED: Final = "stored"  # into an attribute
WRITTEN: Final = "written"  # an element of it
COMPARED: Final = "compared"  # by `is`
GIVEN: Final = "given"  # as an argument
CALLED: Final = "called"
BOUND: Final = "bound"  # to a local name, by which it is read
COMPUTED: Final = "computed"  # with by an operator
ITERATED: Final = "iterated"  # over by a comprehension
TESTED: Final = "tested"  # whether it is true
SEARCHED: Final = "searched"  # by `in`

# Steps from a value to another that are no attributes.
ITEM: Final = "[]"
ITERATOR: Final = "iter"
# The attribute that ``type(x)`` is.
CLASS: Final = "__class__"
# The dict of attributes: ``x.__dict__["a"]`` is ``x.a``. And the key of an attribute that is taken of `super()`.
DICT: Final = "__dict__"
SUPER: Final = object()
# Methods that give the item with a key.
BY_KEY: Final = frozenset({"get", "setdefault", "pop", "__getitem__"})


class Step(NamedTuple):
    """From a value to another: an attribute of it, or an item, then with the key, if that stands in the code."""

    name: str
    key: Any = None


class Load:
    """One place in the code at which a value comes up."""

    __slots__ = (
        "arguments",
        "callee",
        "has_unknown_parts",
        "is_computed",
        "is_display",
        "is_super",
        "kind",
        "line",
        "made_of",
        "name",
        "offset",
        "result_of",
        "steps",
        "stored_in",
        "use",
        "value",
    )

    def __init__(self, kind: str, name: str, line: int | None, offset: int) -> None:
        self.kind = kind
        self.name = name
        self.line = line
        self.offset = offset
        self.value: Any = None  # of a constant
        # Attributes and items that are taken of the value at once, one of the other.
        self.steps: tuple[Step, ...] = ()
        self.use = READ
        # Of a value that is given: what it is given to, if that is known.
        self.callee: Load | None = None
        # Of one that is assigned: the object, and the attribute of it.
        self.stored_in: tuple[Load, str] | None = None
        # Of one that is called: the arguments, by position or name, if there are no others; None is an unknown value.
        self.arguments: dict[int | str, Load | None] | None = None
        # Of a value that is that of no name: what is in it, or was given to the function, and that function.
        self.made_of: list[Load] = []
        self.has_unknown_parts = False
        self.is_display = False  # ``[x, y]``, or another container that stands in the code
        self.result_of: Load | None = None
        self.is_computed = False  # of these, by an operator
        self.is_super = False  # `super()`, and the value the object

    @property
    def attributes(self) -> tuple[str, ...]:
        """The names of the steps."""
        return tuple(step.name for step in self.steps)

    def take(self, name: str, key: Any = None) -> None:
        """Note that an attribute, or an item, is taken of the value, or of what was taken of it before."""
        if name == ITEM and type(key) is str and self.steps and self.steps[-1].name == DICT:
            self.steps = (*self.steps[:-1], Step(key))
        else:
            self.steps += (Step(name, key if type(key) in (int, str) or key is SUPER else None),)

    def note_key(self, key: Any) -> None:
        """Note the key of the item that the last step gives."""
        if type(key) in (int, str):
            self.steps = (*self.steps[:-1], Step(self.steps[-1].name, key))

    def upto(self, count: int | None = None) -> Load:
        """The same place, with the first of the steps that are taken from the value by now."""
        made = Load(self.kind, self.name, self.line, self.offset)
        made.value, made.steps = self.value, self.steps[:count]
        made.made_of, made.result_of, made.is_super = self.made_of, self.result_of, self.is_super
        made.has_unknown_parts, made.is_display = self.has_unknown_parts, self.is_display
        made.is_computed = self.is_computed
        return made


class Handler(NamedTuple):
    """Where the code goes on if an error is raised by one of some instructions."""

    start: int
    stop: int
    target: int


class Part(NamedTuple):
    """A part of a code object."""

    loads: list[Load]
    unknown: list[Load]  # places at which values come about that are those of no name
    # Loads of which an attribute is taken, with the attributes before it, and its name.
    taken: list[tuple[Load, tuple[str, ...], str]]
    mentions: Counter[str]  # how many instructions have a name
    within: list[CodeType]
    offsets: list[range]


class Loads:
    """What a code object loads and stores, without the code objects within it."""

    __slots__ = (
        "_asked",
        "_parts",
        "_starts",
        "attributes",
        "bound",
        "handlers",
        "loads",
        "loops",
        "mentions",
        "own",
        "returned",
        "stored",
        "taken",
        "unknown",
        "within",
    )

    def __init__(self, code: CodeType) -> None:
        self.loads: list[Load] = []
        self.unknown: list[Load] = []
        self.returned: list[Load | None] = []  # what it returns or yields; None is anything else
        self.stored: set[tuple[str, str]] = set()  # kinds and names
        # By a name what is put into it, with the steps that are taken from that by then, or None; and at what offset.
        self.bound: dict[str, list[tuple[int, Load | None]]] = {}
        self.loops: list[tuple[int, int]] = []  # offsets of the first and the last instruction
        self.own: dict[
            str, int
        ] = {}  # names of a class body, or of a module, with the offset at which each is first put
        self.handlers: list[Handler] = []
        self._parts: dict[int, Part] = {}
        self._starts: dict[str, frozenset[str]] = {}
        self._asked: frozenset[str] | None = None
        self.attributes = frozenset(code.co_names)  # among others
        self.mentions: list[tuple[int, str]] = []  # the names that instructions have, with the offset of each
        self.taken: list[tuple[Load, tuple[str, ...], str]] = []
        self.within: list[tuple[int, CodeType]] = []  # with the offset at which each is loaded

    @property
    def asked(self) -> frozenset[str]:
        """The names of the attributes that are taken of something."""
        if self._asked is None:
            loads = (*self.loads, *self.unknown)
            self._asked = frozenset(step.name for load in loads for step in load.steps)
        return self._asked

    def starts_of(self, attribute: str) -> frozenset[str]:
        """The names of which an attribute is taken at once; among them "" if it is taken of what something else gives."""
        known = self._starts.get(attribute)
        if known is None:
            known = self._starts[attribute] = frozenset(
                load.name if number == 0 else ""
                for load in (*self.loads, *self.unknown)
                for number, step in enumerate(load.steps)
                if step.name == attribute
            )
        return known

    @property
    def whole(self) -> Part:
        """All of it."""
        return self._part(-1, [range(1 << 40)])

    def block(self, start: int) -> Part:
        """The part of the code that is a `with` block, which is entered by the instruction at an offset.

        It is what has the block's end for its handler of errors, and what has a handler that has.
        """
        after = next((each for each in self.handlers if start < each.stop and each.start <= start + 2), None)
        its: list[range] = []
        found = [] if after is None else [each for each in self.handlers if each.target == after.target]
        while found:
            its += [range(each.start, each.stop) for each in found]
            found = [
                each
                for each in self.handlers
                if range(each.start, each.stop) not in its and any(each.target in part for part in its)
            ]
        return self._part(start, its)

    def _part(self, start: int, within: list[range]) -> Part:
        known = self._parts.get(start)
        if known is None:

            def has(offset: int) -> bool:
                return any(offset in each for each in within)

            known = self._parts[start] = Part(
                [load for load in self.loads if has(load.offset)],
                [load for load in self.unknown if has(load.offset)],
                [each for each in self.taken if has(each[0].offset)],
                Counter(name for offset, name in self.mentions if has(offset)),
                [code for offset, code in self.within if has(offset)],
                within,
            )
        return known

    def is_own(self, load: Load) -> bool:
        """Whether a load is that of a name of the class body, or of the module, itself."""
        return load.offset > self.own.get(load.name, 1 << 40)

    def is_repeated(self, offset: int, since: int) -> bool:
        """Whether an instruction lies in a loop that begins after another instruction."""
        return any(since <= first <= offset <= last for first, last in self.loops)
