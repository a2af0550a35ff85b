"""Hypothesis strategies for statements of programs, as Python text.

Every statement is valid after any other, so that Hypothesis can leave statements out of a failing program. Those that
hold no other statements are rows of `rows.py`.
"""

from __future__ import annotations

import textwrap

import attrs
from hypothesis import strategies as st

from tests.programs.expressions import FIELDS, Draw, Scope, fill, near, node, number, pick, value_of
from tests.programs.rows import CONTAINERS, IN_PLACE, OBJECTS


def change_object(draw: Draw, scope: Scope) -> str:
    return fill(draw, scope, pick(draw, *OBJECTS))


def change_container(draw: Draw, scope: Scope) -> str:
    return fill(draw, scope, pick(draw, *CONTAINERS))


def write_in_place(draw: Draw, scope: Scope) -> str:
    return fill(draw, scope, pick(draw, *IN_PLACE))


def write(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS)
    return f"{near(draw, scope)}.{field} = {value_of(draw, scope, field)}"


def alias(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS)
    return f"{near(draw, scope)}.{field} = {near(draw, scope)}.{field}"


def swap(draw: Draw, scope: Scope) -> str:
    field = pick(draw, *FIELDS, "")
    if field:
        one, two = f"{near(draw, scope)}.{field}", f"{near(draw, scope)}.{field}"
    else:
        one, two = pick(draw, ("a", "b"), ("m", "k"))
    return f"{one}, {two} = {two}, {one}"


def deep_copy(draw: Draw, scope: Scope) -> str:
    return f"k = born(copy.deepcopy({node(draw, scope)}))"


def branch(draw: Draw, scope: Scope) -> str:
    condition = fill(draw, scope, pick(draw, "$o.n % 2", "$r > 0.0371"))
    return f"if {condition}:\n{block(draw, scope)}\nelse:\n{block(draw, scope)}"


def repeat(draw: Draw, scope: Scope) -> str:
    return f"for _ in range({pick(draw, 2, 3)}):\n{block(draw, attrs.evolve(scope, repeated=True))}"


def paused(draw: Draw, scope: Scope) -> str:
    return f"with mt.pause():\n{block(draw, attrs.evolve(scope, paused=True))}"


def survived(draw: Draw, scope: Scope) -> str:
    return f"try:\n{block(draw, scope)}\n    raise Boom\nexcept Boom:\n    {draw(st.sampled_from(['pass', 't = 0.5 * t']))}"


TAKEN = (
    "t = np.tanh(mt.grad(inner)($p, $r).x)",
    "t = np.tanh(context_grad(inner, $p, $r).x)",
    "t = np.tanh(mt.grad(inner, argnums=1)($p, $r))",
    "value, slope = mt.value_and_grad(inner)($p, $r)\nt = np.tanh(value * slope.x)",
    "value, back = mt.vjp(inner, $p, $r)\nt = np.tanh(value + back(1.0)[1] - back(t)[0].x)",
    "value, slope = mt.jvp(inner, ($p, $r), (mt.ZeroTangent(), $r))\nt = np.tanh(value * slope)",
)


def inner_gradient(draw: Draw, scope: Scope) -> str:
    """A gradient inside the program, of a function that reads and writes objects; or one that raises."""
    within = attrs.evolve(scope, here=False)
    head = f"def inner(m, z, a=a, b=b, k=k, t=t, u=u):\n    start = m.x * z\n{block(draw, within)}\n"
    if draw(st.integers(0, 3)) == 0:
        raising = "    raise Boom\ntry:\n    mt.grad(inner)($p, $r)\nexcept Boom:\n    t = 0.25 * t"
        return head + fill(draw, scope, raising)
    result = f"    return start * np.sin(start + {number(draw, within)})\n"
    return head + result + fill(draw, scope, pick(draw, *TAKEN))


def inner_array_gradient(draw: Draw, scope: Scope) -> str:
    return fill(draw, scope, "u = np.tanh(mt.grad(lambda z: np.sum(np.sin(z * $s)) * $r)($s))")


CALLED = (
    "t = np.tanh(mt.checkpoint(segment)($p, $r, s, w, t, a, b))",
    "t = np.tanh(mt.checkpoint(segment)($p, $r, s, w, t, a, b))",
    "t = np.tanh(sum(mt.checkpoint_sequence(apart(segment), [($p, $r, s, w, t, a, b)] * 3, $j)))",
)


def checkpointed(draw: Draw, scope: Scope) -> str:
    """A checkpointed function that reads and writes objects, once or over a sequence."""
    within = attrs.evolve(scope, here=False, checkpointed=False)
    return (
        "def segment(m, z, s, w, t, a, b):\n    k, u = m.child, 0.5 * w\n    start = m.x * z\n"
        f"{block(draw, within)}\n    return start * np.sin(start + {number(draw, within)})\n"
        f"{fill(draw, scope, pick(draw, *CALLED))}"
    )


SIMPLE = (*(write,) * 3, *(change_object,) * 9, *(change_container,) * 8, alias, swap)
COMPOUND = (branch, repeat, paused, survived, inner_gradient, inner_gradient, inner_array_gradient)


def statement(draw: Draw, scope: Scope) -> str:
    kinds = SIMPLE
    if scope.depth < 2:
        derivatives = {inner_gradient, inner_array_gradient}
        kinds += tuple(kind for kind in COMPOUND if not (scope.paused and kind in derivatives))
    if not (scope.paused or scope.repeated):
        kinds += (deep_copy,)
    if scope.checkpointed and scope.here and not scope.paused:
        kinds += (checkpointed,) * 8
    if scope.in_place and not scope.paused:
        kinds += (write_in_place,) * 12
    return str(pick(draw, *kinds)(draw, scope))


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
