"""Hypothesis strategies for programs: Python text that builds a graph of objects, and text that works on it.

`expressions.py` says what a program may compute, `rows.py` and `statements.py` what it may do, and `worlds.py` has the
classes.
"""

from __future__ import annotations

import re
import textwrap
from types import CodeType
from typing import Any

import attrs
from hypothesis import assume
from hypothesis import strategies as st

from tests.programs.expressions import Draw, Scope, fill, literals, pick
from tests.programs.statements import bodies
from tests.programs.worlds import Variant

ARGUMENTS = "a, b, s, w, bag"

# Local names, given to a block so that it neither depends on what stands before it nor touches a field by accident.
PROLOGUE = """\
t, u = 0.6, 0.5 * w
m, k = a, b
"""


@attrs.frozen
class Graph:
    """Text that makes the objects, `def build()`."""

    variant: Variant
    text: str
    float32: bool


@attrs.frozen(repr=False)
class Program:
    """A graph and a function over it. Its repr is what somebody who debugs it wants to read."""

    graph: Graph
    text: str
    code: CodeType

    def __repr__(self) -> str:
        return f"\n{self.graph.variant.source}\n{self.graph.text}\n\n{self.text}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))  # Hypothesis would write attrs classes in its own way


# -- graphs and whole programs -------------------------------------------------------------------------------------------


variants = st.builds(Variant, *[st.booleans()] * 7)


def literal_row(draw: Draw) -> str:
    return f"[{', '.join(draw(literals) for _ in range(3))}]"


def literal_array(draw: Draw, dtype: str) -> str:
    return f"np.array({literal_row(draw)}{dtype})"


@st.composite
def graphs(
    draw: Draw, bag_in_a_field: bool = True, shared_arrays: bool = True, copied: bool = False
) -> Graph:
    """Two to four nodes with random references, shared containers and shared arrays.

    A deep copy has one array for all places in which an array lies, and which of them has its gradient is not said; and
    it has a tuple for each place in which one lies. So neither is shared in a graph that is `copied`.
    """
    may_be_shared = ("const", "items", "table", "nodes", "window", "tally", "rng")
    if shared_arrays and not copied:
        may_be_shared += ("pair", "v", "W", "z", "point", "nest")
    variant = draw(variants)
    float32 = draw(st.integers(0, 3)) == 3
    dtype, complex_dtype = (", np.float32", ", np.complex64") if float32 else ("", "")
    names = [f"o{k}" for k in range(draw(st.integers(2, 4)))]
    any_node = lambda: pick(draw, *names)
    lines = []
    for name in names:
        kind = pick(draw, "Node", "SubNode", "PlainNode")
        lines.append(
            f"{name} = {kind}({draw(literals)}, {literal_array(draw, dtype)}, None, None, y={draw(literals)})"
        )
    for position, name in enumerate(names):
        earlier = names[:position] or [name]
        numbers = f"[{', '.join(draw(literals) for _ in range(draw(st.integers(1, 3))))}]"
        fields = {
            "child": any_node(),
            "const": f"Const({draw(literals)}, {literal_array(draw, dtype)}, {any_node()})",
            "nodes": f"[{any_node()}, {any_node()}]",
            "items": numbers,
            "table": f'{{"a": {draw(literals)}, "b": {draw(literals)}}}',
            "pair": f"({draw(literals)}, {literal_array(draw, dtype)}, {any_node()})",
            "W": f"np.array([{', '.join(literal_row(draw) for _ in range(3))}]{dtype}){pick(draw, '', '', '.T')}",
            "grid": f"np.array([{literal_row(draw)}, {literal_row(draw)}]{dtype})",
            "z": f"np.array([{', '.join(f'{draw(literals)} + {draw(literals)}j' for _ in range(3))}]{complex_dtype})",
            "window": f"deque([{draw(literals)}, {draw(literals)}], maxlen={pick(draw, 2, 4, None)})",
            "tally": f"defaultdict(float, a={draw(literals)}, b={draw(literals)})",
            "point": f"Point({draw(literals)}, {literal_array(draw, dtype)}, {any_node()})",
            "nest": f'{{"rows": [{literal_array(draw, dtype)}, {literal_array(draw, dtype)}], '
            f'"deep": ({{"k": {draw(literals)}}}, {draw(literals)})}}',
            "rng": f"np.random.default_rng({draw(st.integers(0, 9))})",
            "v": None,
        }
        for field in may_be_shared:
            if position and draw(st.integers(0, 3)) == 3:
                fields[field] = f"{pick(draw, *earlier)}.{field}"  # the same one in two places
        lines += [f"{name}.{field} = {value}" for field, value in fields.items() if value]
        lines.append(f"{name}.n = {draw(st.integers(0, 3))}")
    bag = (
        f"{any_node()}.items"
        if bag_in_a_field and draw(st.booleans())
        else f"[{draw(literals)}, {draw(literals)}]"
    )
    lines.append(
        f"return {any_node()}, {any_node()}, {draw(literals)}, {literal_array(draw, dtype)}, {bag}, {any_node()}"
    )
    return Graph(
        variant, f"def build():  # {ARGUMENTS}, hub\n" + textwrap.indent("\n".join(lines), "    "), float32
    )


SHARES_A_TUPLE = re.compile(r"\.(pair|point|nest) = \S+\.(pair|point|nest)$", re.MULTILINE)


def make_program(graph: Graph, text: str) -> Program:
    return Program(graph, text, compile(f"{graph.text}\n{text}", "<program>", "exec"))


def function_text(name: str, arguments: str, body: str, result: str) -> str:
    inside = "\n".join(filter(None, [PROLOGUE.strip(), body, f"return {result}"]))
    return f"def {name}({arguments}):\n{textwrap.indent(inside, '    ')}\n"


@st.composite
def results(draw: Draw, scope: Scope) -> str:
    """What a program returns; it depends on `s`, so that it is always a traced value."""
    return fill(draw, scope, "0.25 * s + $n + np.sum($a) + np.sum($g) + 0.5 * t + np.sum(u)")


@st.composite
def programs(
    draw: Draw,
    max_size: int = 12,
    middle: str = "",
    in_place: bool = False,
    checkpointed: bool = False,
    random: bool = True,
) -> Program:
    """A graph and `def program(a, b, s, w, bag)`; `middle` is a statement, or a row, that stands somewhere in it."""
    scope = Scope(in_place=in_place, checkpointed=checkpointed, random=random)
    body = draw(bodies(scope, max_size))
    if middle:
        body = "\n".join(filter(None, [body, fill(draw, scope, middle), draw(bodies(scope, 2))]))
    if (
        checkpointed and "deepcopy" in body
    ):  # a copy in a checkpointed call has a tuple for each place, as on entry
        assume(not SHARES_A_TUPLE.search(body))
    # An array in two fields has a share of the gradient for each, which the reference cannot tell apart once it is
    # written in place.
    graph = draw(graphs(shared_arrays=not in_place, copied="deepcopy" in body))
    return make_program(graph, function_text("program", ARGUMENTS, body, draw(results(scope))))


@st.composite
def chunked_programs(draw: Draw, in_place: bool = False) -> Program:
    """A program in two parts, `first` and `second`, of which the second takes what the first returns."""
    scope = Scope(bag=False, in_place=in_place, random=True)
    second = f"t, u = t0, u0\n{draw(bodies(scope, 7))}".strip()
    texts = [
        function_text("first", ARGUMENTS, draw(bodies(scope, 7)), "t, u"),
        function_text("second", f"{ARGUMENTS}, t0, u0", second, draw(results(scope))),
        f"def program({ARGUMENTS}):\n    return second({ARGUMENTS}, *first({ARGUMENTS}))\n",
    ]
    text = "\n".join(texts)
    graph = draw(graphs(bag_in_a_field=False, shared_arrays=not in_place, copied="deepcopy" in text))
    return make_program(graph, text)
