"""Hypothesis strategies for programs: Python text that builds a graph of objects, and text that works on it.

Every statement is valid after any other, so that Hypothesis can leave statements out of a failing program. To that
end fields keep their kinds for good: `x` and `y` are numbers, `v` is an array of three, `n` counts, `child` is a node,
`const` a frozen object, `items` a list of numbers, `nodes` a list of nodes, `pair` a tuple of number, array and node,
`table` a dict of numbers. Lists never run empty, and what is stored is of moderate size.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from types import CodeType
from typing import Any

import attrs
from hypothesis import strategies as st

from tests.programs.worlds import Variant

Draw = Callable[[st.SearchStrategy[Any]], Any]

ARGUMENTS = "a, b, s, w, bag"

# Local names, given to a block so that it neither depends on what stands before it nor touches a field by accident.
PROLOGUE = """\
t, u = 0.6, 0.5 * w
m, k = a, b
"""


@attrs.frozen
class Scope:
    """Where a statement stands, which says what it may contain."""

    depth: int = 0
    bag: bool = True  # the list among the arguments may be used
    here: bool = True  # not within a gradient inside the program, which sees the surrounding lists by their fields only
    in_place: bool = False  # arrays may be written in place
    checkpointed: bool = False  # calls may be checkpointed
    paused: bool = False
    repeated: bool = False


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


# -- numbers, arrays and objects -----------------------------------------------------------------------------------------

literals = st.integers(-9, 9).map(lambda n: f"{0.11 * n + 0.035:.3f}")


def pick(draw: Draw, *choices: Any) -> Any:
    return draw(st.sampled_from(choices))


def one_of(draw: Draw, *texts: Callable[[], str]) -> str:
    """One of several texts, of which only that one is drawn."""
    return pick(draw, *texts)()


def node(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for a node."""
    path = pick(draw, "a", "b", "m", "k", "hub")
    for _ in range(draw(st.integers(0, depth))):
        path += pick(draw, ".child", ".child", ".nodes[0]", ".nodes[-1]", ".pair[2]", ".const.node")
    return path


def const(draw: Draw, scope: Scope) -> str:
    """An expression for a frozen object."""
    return f"{node(draw, scope, 1)}.const"


def stored_number(draw: Draw, scope: Scope) -> str:
    """A number as it lies somewhere, or one that is written out."""
    kind = pick(
        draw, "literal", "x", "x", "y", "items", "pair", "table", "const", "energy", "t", "s", "bag", "get"
    )
    of = "" if kind in {"literal", "t", "s", "bag"} else node(draw, scope, 1)
    match kind:
        case "literal":
            return draw(literals)
        case "x" | "y" | "energy":
            return f"{of}.{kind}"
        case "items":
            return f"{of}.items[{pick(draw, 0, -1)}]"
        case "pair":
            return f"{of}.pair[0]"
        case "table":
            return f'{of}.table["{pick(draw, "a", "b")}"]'
        case "const":
            return f"{of}.const.p"
        case "bag" if scope.bag and scope.here:
            return f"bag[{pick(draw, 0, -1)}]"
        case "get":
            return pick(draw, f'getattr({of}, "x")', f'taken({of}, "x")')
        case "s":
            return "s"
    return "t"


def number(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for a number."""
    if depth == 0:
        return stored_number(draw, scope)
    deeper = lambda: number(draw, scope, depth - 1)
    kind = pick(
        draw, "stored", "sum", "product", "tanh", "sin", "ratio", "difference", "array", "call", "inner"
    )
    match kind:
        case "sum":
            return f"({deeper()} + {deeper()})"
        case "product":
            return f"{deeper()} * {deeper()}"
        case "difference":
            return f"({deeper()} - {deeper()})"
        case "ratio":
            return f"{stored_number(draw, scope)} / (2.5 + np.sin({deeper()}))"
        case "tanh" | "sin":
            return f"np.{kind}({deeper()})"
        case "array":
            values = array(draw, scope, depth - 1)
            return f"{pick(draw, 'np.sum', '-np.sum')}({values})" if draw(st.booleans()) else f"({values})[1]"
        case "call":
            method = pick(draw, "step", "relax", "push")
            return f"{node(draw, scope, 1)}.{method}({stored_number(draw, scope)})"
        case "inner" if scope.here and scope.depth < 2:
            return f"np.tanh(mt.grad(lambda z: np.sin(z * {deeper()}) * z)({stored_number(draw, scope)}))"
    return stored_number(draw, scope)


def stored_array(draw: Draw, scope: Scope) -> str:
    """An array as it lies somewhere."""
    place = pick(draw, "u", "w", ".v", ".v", ".pair[1]", ".const.q")
    return f"{node(draw, scope, 1)}{place}" if place[0] == "." else place


def array(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for an array."""
    if depth == 0:
        return stored_array(draw, scope)
    deeper = lambda: array(draw, scope, depth - 1)
    scalar = lambda: number(draw, scope, depth - 1)
    match pick(draw, "stored", "sum", "scaled", "product", "tanh", "ratio", "reversed", "stack", "joined"):
        case "sum":
            return f"({deeper()} {pick(draw, '+', '-')} {deeper()})"
        case "scaled":
            return f"{scalar()} * {deeper()}"
        case "product":
            return f"{deeper()} * {deeper()}"
        case "tanh":
            return f"np.tanh({deeper()})"
        case "ratio":
            return f"{stored_array(draw, scope)} / (2.5 + np.sin({deeper()}))"
        case "reversed":
            return f"({deeper()})[::-1]"
        case "stack":
            return f"np.stack([{scalar()}, {stored_number(draw, scope)}, {stored_number(draw, scope)}])"
        case "joined":
            return f"np.concatenate([({deeper()})[:1], ({deeper()})[1:]])"
    return stored_array(draw, scope)


def bounded(draw: Draw, scope: Scope) -> str:
    """A number to be stored."""
    match pick(draw, "stored", "tanh", "sin", "mean"):
        case "tanh":
            return f"np.tanh({number(draw, scope)})"
        case "sin":
            return f"np.sin({number(draw, scope)})"
        case "mean":
            return f"0.5 * {stored_number(draw, scope)} + 0.5 * {stored_number(draw, scope)}"
    return stored_number(draw, scope)


def bounded_array(draw: Draw, scope: Scope) -> str:
    """An array to be stored."""
    match pick(draw, "stored", "tanh", "sin", "mean"):
        case "tanh":
            return f"np.tanh({array(draw, scope)})"
        case "sin":
            return f"np.sin({array(draw, scope)})"
        case "mean":
            return f"0.5 * {stored_array(draw, scope)} + 0.5 * {stored_array(draw, scope)}"
    return stored_array(draw, scope)


def value_of(draw: Draw, scope: Scope, field: str) -> str:
    """A value for a field of a node."""
    match field:
        case "x" | "y":
            return bounded(draw, scope)
        case "v":
            return bounded_array(draw, scope)
        case "child":
            return pick(draw, node, node, birth)(draw, scope)
        case "const":
            return pick(draw, const, frozen_birth)(draw, scope)
        case "items":
            return f"[{bounded(draw, scope)}, {bounded(draw, scope)}]"
        case "nodes":
            return f"[{node(draw, scope)}, {node(draw, scope)}]"
        case "pair":
            return f"({bounded(draw, scope)}, {bounded_array(draw, scope)}, {node(draw, scope)})"
    return f'{{"a": {bounded(draw, scope)}, "b": {bounded(draw, scope)}}}'


FIELDS = ("x", "x", "y", "v", "v", "child", "child", "const", "items", "nodes", "pair", "table")


def birth(draw: Draw, scope: Scope) -> str:
    """An expression that makes a node."""
    if draw(st.booleans()):
        field = pick(draw, "x", "v")
        changes = f"{field}={value_of_plain_kind(draw, scope, field)}, y={bounded(draw, scope)}"
        return f"born(attrs.evolve({node(draw, scope)}, {changes}))"
    kind = pick(draw, "Node", "SubNode", "PlainNode")
    arguments = (bounded(draw, scope), bounded_array(draw, scope), node(draw, scope), const(draw, scope))
    return f"born({kind}({', '.join(arguments)}))"


def value_of_plain_kind(draw: Draw, scope: Scope, field: str) -> str:
    return bounded_array(draw, scope) if field == "v" else bounded(draw, scope)


def frozen_birth(draw: Draw, scope: Scope) -> str:
    """An expression that makes a frozen object."""
    if draw(st.booleans()):
        return f"born(attrs.evolve({const(draw, scope)}, p={bounded(draw, scope)}))"
    return f"born(Const({bounded(draw, scope)}, {bounded_array(draw, scope)}, {node(draw, scope)}))"


# -- statements ----------------------------------------------------------------------------------------------------------


def assign_local(draw: Draw, scope: Scope) -> str:
    match pick(draw, "t", "u", "node"):
        case "t":
            return f"t = {bounded(draw, scope)}"
        case "u":
            if draw(st.booleans()):
                return f"u = born(np.tanh({array(draw, scope)}))"
            return f"u = {bounded_array(draw, scope)}"
    return f"{pick(draw, 'm', 'k')} = {pick(draw, node, birth)(draw, scope)}"


def write(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS)
    return f"{node(draw, scope, 1)}.{field} = {value_of(draw, scope, field)}"


def write_by_other_means(draw: Draw, scope: Scope) -> str:
    of, field = node(draw, scope, 1), pick(draw, "x", "v")
    value = value_of(draw, scope, field)
    match pick(draw, "setattr", "object", "property", "dict", "augmented"):
        case "setattr":
            return f'setattr({of}, "{field}", {value})'
        case "object":
            return f'object.__setattr__({of}, "{field}", {value})'
        case "property":
            return f"{of}.level = {bounded(draw, scope)}"
        case "dict":
            return f'put({of}, "{field}", {value})'
    return f"{of}.x *= {stored_number(draw, scope)}"


def alias(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS)
    return f"{node(draw, scope, 1)}.{field} = {node(draw, scope, 1)}.{field}"


def swap(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS, "")
    if field:
        one, two = f"{node(draw, scope, 1)}.{field}", f"{node(draw, scope, 1)}.{field}"
    else:
        one, two = pick(draw, ("a", "b"), ("m", "k"))
    return f"{one}, {two} = {two}, {one}"


def reset(draw: Draw, scope: Scope) -> str:
    of = node(draw, scope, 1)
    return one_of(
        draw,
        lambda: f"{of}.x = 0.0",
        lambda: f"{of}.v = np.zeros(3)",
        lambda: f"{of}.x = {of}.const.p",
        lambda: f"{of}.v = {of}.const.q",
        lambda: f"{of}.items = []\n{of}.items.append({of}.y)",
    )


def call(draw: Draw, scope: Scope) -> str:
    method = pick(draw, "step", "relax", "push")
    called = f"{node(draw, scope, 1)}.{method}({stored_number(draw, scope)})"
    return pick(draw, f"t = np.tanh({called})", called)


def duplicate(draw: Draw, scope: Scope) -> str:
    deep = [] if scope.paused or scope.repeated else [lambda: f"k = born(copy.deepcopy({node(draw, scope)}))"]
    return one_of(
        draw,
        lambda: f"m = born(copy.copy({node(draw, scope)}))",
        lambda: f"{node(draw, scope, 1)}.const = copy.copy({const(draw, scope)})",
        lambda: f"{birth(draw, scope)}.x",  # made and dropped
        *deep,
    )


def delete(draw: Draw, scope: Scope) -> str:
    of, field = node(draw, scope, 1), pick(draw, "x", "v")
    value = value_of_plain_kind(draw, scope, field)
    return f'kept, target = {value}, {of}\ndel target.{field}\nassert not hasattr(target, "{field}")\ntarget.{field} = kept'


def change_list(draw: Draw, scope: Scope) -> str:
    items = f"{node(draw, scope, 1)}.items"
    if scope.bag and scope.here:
        items = pick(draw, items, "bag")
    return one_of(
        draw,
        lambda: f"{items}.append({bounded(draw, scope)})",
        lambda: f"{items}[{pick(draw, 0, -1)}] = {bounded(draw, scope)}",
        lambda: f"if len({items}) > 1:\n    t = {items}.pop()",
        lambda: f"{items}.insert(0, {bounded(draw, scope)})",
        lambda: f"{items}.reverse()",
        lambda: f"{items}[:1] = [{bounded(draw, scope)}, {stored_number(draw, scope)}]",
        lambda: f"{items}.extend([{bounded(draw, scope)}])",
    )


def change_nodes(draw: Draw, scope: Scope) -> str:
    nodes = f"{node(draw, scope, 1)}.nodes"
    return one_of(
        draw,
        lambda: f"{nodes}.append({node(draw, scope)})",
        lambda: f"{nodes}[0] = {birth(draw, scope)}",
        lambda: f"if len({nodes}) > 1:\n    m = {nodes}.pop(0)",
        lambda: f"for each in {nodes}[:2]:\n    each.x = np.tanh(each.x * {stored_number(draw, scope)})",
    )


def rebuild_list(draw: Draw, scope: Scope) -> str:
    of = node(draw, scope, 1)
    return f"{of}.items = [np.tanh(each * {stored_number(draw, scope)}) for each in {node(draw, scope, 1)}.items]"


def change_table(draw: Draw, scope: Scope) -> str:
    table, key = f"{node(draw, scope, 1)}.table", pick(draw, "a", "b")
    return one_of(
        draw,
        lambda: f'{table}["{key}"] = {bounded(draw, scope)}',
        lambda: f"{table}.update(a={bounded(draw, scope)}, b={bounded(draw, scope)})",
        lambda: (
            f'table, kept = {table}, {bounded(draw, scope)}\nt = table.pop("{key}")\ntable["{key}"] = kept'
        ),
        lambda: f'{table}["c"] = {bounded(draw, scope)}',
        lambda: f'table, kept = {table}, {bounded(draw, scope)}\ndel table["{key}"]\ntable["{key}"] = kept',
    )


def write_in_place(draw: Draw, scope: Scope) -> str:
    """A write into an array, directly or through a view."""
    place = stored_array(draw, scope) if scope.here else f"{node(draw, scope, 1)}.v"
    if place == "u" or place.endswith(".v"):
        place = pick(draw, place, place, f"{place}[:2]", f"{place}[::-1]")
    through_u = [
        lambda: f"u = {place}[::-1]\nu[0] = np.sin(u[1] + {stored_number(draw, scope)})",
        lambda: f"u = {stored_array(draw, scope)}\nu *= {stored_number(draw, scope)}",
    ]
    return one_of(
        draw,
        lambda: f"{place}[{pick(draw, 0, -1)}] = {bounded(draw, scope)}",
        lambda: f"{place}[:] = {bounded(draw, scope)}",
        lambda: f"{place}[{pick(draw, '0', '1:', '[0, 1]')}] *= {stored_number(draw, scope)}",
        lambda: f"{node(draw, scope, 1)}.v *= {stored_number(draw, scope)}",
        *(through_u if scope.here else ()),
    )


def count(draw: Draw, scope: Scope) -> str:
    of = node(draw, scope, 1)
    return one_of(
        draw,
        lambda: f"{of}.n += 1",
        lambda: f"{of}.x = np.tanh({of}.x * {of}.n)",
        lambda: f"{of}.n = {node(draw, scope, 1)}.n + 2",
    )


def cut(draw: Draw, scope: Scope) -> str:
    of = node(draw, scope, 1)
    return one_of(
        draw,
        lambda: f"t = mt.stop_gradient({bounded(draw, scope)})",
        lambda: f"{of}.v = mt.stop_gradient({bounded_array(draw, scope)})",
        lambda: f"{of}.x = np.sin(mt.primal({number(draw, scope)}) * t)",
    )


def branch(draw: Draw, scope: Scope) -> str:
    condition = one_of(
        draw, lambda: f"{node(draw, scope, 1)}.n % 2", lambda: f"{stored_number(draw, scope)} > 0.0371"
    )
    return f"if {condition}:\n{block(draw, scope)}\nelse:\n{block(draw, scope)}"


def repeat(draw: Draw, scope: Scope) -> str:
    return f"for _ in range({pick(draw, 2, 3)}):\n{block(draw, attrs.evolve(scope, repeated=True))}"


def paused(draw: Draw, scope: Scope) -> str:
    return f"with mt.pause():\n{block(draw, attrs.evolve(scope, paused=True))}"


def survived(draw: Draw, scope: Scope) -> str:
    return f"try:\n{block(draw, scope)}\n    raise Boom\nexcept Boom:\n    {draw(st.sampled_from(['pass', 't = 0.5 * t']))}"


def inner_gradient(draw: Draw, scope: Scope) -> str:
    """A gradient inside the program, of a function that reads and writes objects; or one that raises."""
    inside = block(draw, attrs.evolve(scope, here=False))
    of, factor = node(draw, scope), stored_number(draw, scope)
    head = f"def inner(m, z, a=a, b=b, k=k, t=t, u=u):\n    start = m.x * z\n{inside}\n"
    if draw(st.integers(0, 3)) == 0:
        return (
            f"{head}    raise Boom\ntry:\n    mt.grad(inner)({of}, {factor})\nexcept Boom:\n    t = 0.25 * t"
        )
    head += f"    return start * np.sin(start + {number(draw, attrs.evolve(scope, here=False))})\n"
    return head + one_of(
        draw,
        lambda: f"t = np.tanh(mt.grad(inner)({of}, {factor}).x)",
        lambda: f"t = np.tanh(context_grad(inner, {of}, {factor}).x)",
        lambda: f"t = np.tanh(mt.grad(inner, argnums=1)({of}, {factor}))",
        lambda: f"value, slope = mt.value_and_grad(inner)({of}, {factor})\nt = np.tanh(value * slope.x)",
    )


def inner_array_gradient(draw: Draw, scope: Scope) -> str:
    inner = f"lambda z: np.sum(np.sin(z * {stored_array(draw, scope)})) * {stored_number(draw, scope)}"
    return f"u = np.tanh(mt.grad({inner})({stored_array(draw, scope)}))"


def checkpointed(draw: Draw, scope: Scope) -> str:
    """A checkpointed function that reads and writes objects."""
    inside = block(draw, attrs.evolve(scope, here=False, checkpointed=False))
    result = number(draw, attrs.evolve(scope, here=False))
    arguments = f"{node(draw, scope)}, {stored_number(draw, scope)}, s, w, t, a, b"
    return (
        f"def segment(m, z, s, w, t, a, b):\n    k, u = m.child, 0.5 * w\n    start = m.x * z\n{inside}\n"
        f"    return start * np.sin(start + {result})\n"
        f"t = np.tanh(mt.checkpoint(segment)({arguments}))"
    )


SIMPLE = (
    *(write,) * 3,
    *(call,) * 2,
    *(change_list,) * 2,
    *(write_by_other_means, assign_local, alias, swap, reset, duplicate, delete),
    *(change_nodes, rebuild_list, change_table, count, cut),
)
COMPOUND = (branch, repeat, paused, survived, inner_gradient, inner_gradient, inner_array_gradient)


def statement(draw: Draw, scope: Scope) -> str:
    compound = [
        kind for kind in COMPOUND if not (scope.paused and kind in {inner_gradient, inner_array_gradient})
    ]
    kinds = SIMPLE if scope.depth >= 2 else (*SIMPLE, *compound)
    if scope.checkpointed and scope.here and not scope.paused:
        kinds += (checkpointed,) * 6
    if scope.in_place and not scope.paused:
        kinds += (write_in_place,) * 4
    return pick(draw, *kinds)(draw, scope)


def block(draw: Draw, scope: Scope) -> str:
    """One to three indented statements, one level deeper."""
    deeper = attrs.evolve(scope, depth=scope.depth + 1)
    return textwrap.indent("\n".join(draw(st.lists(statements(deeper), min_size=1, max_size=3))), "    ")


@st.composite
def statements(draw: Draw, scope: Scope) -> str:
    """One statement, of one or several lines."""
    return statement(draw, scope)


@st.composite
def bodies(draw: Draw, scope: Scope, max_size: int) -> str:
    """The statements of a program, without what it returns."""
    return "\n".join(draw(st.lists(statements(scope), max_size=max_size)))


@st.composite
def results(draw: Draw, scope: Scope) -> str:
    """What a program returns; it depends on `s`, so that it is always a traced value."""
    terms = [bounded(draw, scope), f"np.sum({bounded_array(draw, scope)})", "0.5 * t", "np.sum(u)"]
    return " + ".join(["0.25 * s", *terms])


# -- graphs and whole programs -------------------------------------------------------------------------------------------


variants = st.builds(Variant, *[st.booleans()] * 5)


def literal_array(draw: Draw, dtype: str) -> str:
    return f"np.array([{', '.join(draw(literals) for _ in range(3))}]{dtype})"


@st.composite
def graphs(draw: Draw, bag_in_a_field: bool = True, shared_arrays: bool = True) -> Graph:
    """Two to four nodes with random references, shared containers and shared arrays."""
    may_be_shared = ("const", "items", "table", "nodes", *(("pair", "v") if shared_arrays else ()))
    variant = draw(variants)
    float32 = draw(st.integers(0, 3)) == 3
    dtype = ", np.float32" if float32 else ""
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


def make_program(graph: Graph, text: str) -> Program:
    return Program(graph, text, compile(f"{graph.text}\n{text}", "<program>", "exec"))


def function_text(name: str, arguments: str, body: str, result: str) -> str:
    inside = "\n".join(filter(None, [PROLOGUE.strip(), body, f"return {result}"]))
    return f"def {name}({arguments}):\n{textwrap.indent(inside, '    ')}\n"


@st.composite
def programs(
    draw: Draw, max_size: int = 12, middle: str = "", in_place: bool = False, checkpointed: bool = False
) -> Program:
    """A graph and `def program(a, b, s, w, bag)`; `middle` is a statement that stands somewhere in it."""
    scope = Scope(in_place=in_place, checkpointed=checkpointed)
    body = draw(bodies(scope, max_size))
    if middle:
        body = "\n".join(filter(None, [body, middle, draw(bodies(scope, 2))]))
    # An array in two fields has a share of the gradient for each, which the reference cannot tell apart once it is
    # written in place.
    graph = draw(graphs(shared_arrays=not in_place))
    return make_program(graph, function_text("program", ARGUMENTS, body, draw(results(scope))))


@st.composite
def chunked_programs(draw: Draw) -> Program:
    """A program in two parts, `first` and `second`, of which the second takes what the first returns."""
    scope = Scope(bag=False)
    second = f"t, u = t0, u0\n{draw(bodies(scope, 7))}".strip()
    texts = [
        function_text("first", ARGUMENTS, draw(bodies(scope, 7)), "t, u"),
        function_text("second", f"{ARGUMENTS}, t0, u0", second, draw(results(scope))),
        f"def program({ARGUMENTS}):\n    return second({ARGUMENTS}, *first({ARGUMENTS}))\n",
    ]
    return make_program(draw(graphs(bag_in_a_field=False)), "\n".join(texts))
