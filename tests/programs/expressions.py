"""Hypothesis strategies for expressions of programs: numbers, arrays and objects, as tables of Python text.

A row is Python text with slots, `$r` for example, each of which is drawn by the function that `SLOTS` has for it.

Fields keep their kinds for good, so that every expression is valid anywhere: `x` and `y` are numbers, `v` is an array of
three, `W` a matrix of 3×3, `grid` one of 2×3, `z` three complex numbers, `n` counts, `child` is a node, `const` a frozen
object, `items` a list of numbers, `window` a deque of them, `nodes` a list of nodes, `pair` a tuple of number, array and
node, `point` a named tuple of the same, `table` and `tally` are dicts of numbers, `nest` is a dict of containers. What is
stored is of moderate size.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import attrs
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]


@attrs.frozen
class Scope:
    """Where a statement stands, which says what it may contain."""

    depth: int = 0
    bag: bool = True  # the list among the arguments may be used
    here: bool = True  # not within a gradient inside the program, which sees the surrounding lists by their fields only
    in_place: bool = False  # arrays may be written in place
    checkpointed: bool = False  # calls may be checkpointed
    random: bool = False  # random generators may draw
    paused: bool = False
    repeated: bool = False


literals = st.integers(-9, 9).map(lambda n: f"{0.11 * n + 0.035:.3f}")


sampled_from = functools.cache(st.sampled_from)  # to make a strategy takes as long as to draw from it


def pick(draw: Draw, *choices: Any) -> Any:
    return draw(sampled_from(choices))


def fill(draw: Draw, scope: Scope, row: str, depth: int = 2) -> str:
    """A row with its slots drawn. Expressions in it go no deeper than `depth`."""
    return re.sub(r"\$(\w+)", lambda slot: SLOTS[slot[1]](draw, scope, depth), row)


def rows(text: str) -> tuple[str, ...]:
    """The rows of a table, each of which begins with a line that is not indented."""
    parts = re.split(r"\n(?=\S)", text.strip())
    return tuple("\n".join(line[2 * (k > 0) :] for k, line in enumerate(part.split("\n"))) for part in parts)


# -- objects -------------------------------------------------------------------------------------------------------------


STEPS = (".child", ".child", ".nodes[0]", ".nodes[-1]", ".pair[2]", ".const.node", ".point.r")


def node(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for a node."""
    path = pick(draw, "a", "b", "m", "k", "hub")
    return str(path + "".join(pick(draw, *STEPS) for _ in range(pick(draw, *range(depth + 1)))))


def near(draw: Draw, scope: Scope) -> str:
    """An expression for a node that is not far away."""
    return node(draw, scope, 1)


BIRTHS = rows("""
born(attrs.evolve($p, x=$n, y=$n))
born(attrs.evolve($p, v=$a))
born(attrs.evolve($p, grid=$g, z=$c))
born(Node($n, $a, $p, $q))
born(SubNode($n, $a, $p, $q))
born(PlainNode($n, $a, $p, $q))
""")
FROZEN_BIRTHS = rows("""
born(attrs.evolve($q, p=$n))
born(Const($n, $a, $p))
""")


def birth(draw: Draw, scope: Scope) -> str:
    """An expression that makes a node."""
    return fill(draw, scope, pick(draw, *BIRTHS))


# -- numbers -------------------------------------------------------------------------------------------------------------

# Numbers as they lie somewhere. An element of an array is multiplied, since to take it is a view and no operation.
STORED_NUMBERS = rows("""
$o.x
$o.x
$o.x
$o.y
$o.energy
$o.items[0]
$o.items[-1]
$o.window[0]
$o.window[-1]
$o.pair[0]
$o.point.p
$o.table[$k]
$o.table[$k]
$o.tally[$k]
$o.nest["deep"][0]["k"]
$o.nest["deep"][1]
$o.const.p
getattr($o, "x")
taken($o, "x")
(1.0 * $o.W[1, 2])
(1.0 * $o.grid[0, -1])
np.real($o.z[0])
np.imag($o.z[2])
t
t
s
$f
""")

NUMBERS = rows("""
$r
($number + $number)
($number * $number)
($number - $number)
($r / (2.5 + np.sin($number)))
np.tanh($number)
np.sin($number)
(1 / (1 + np.exp(-$number)))
np.where($r > 0.0371, $number, $r)[()]
np.sum($array)
(-np.sum($array))
$array[1]
np.sum($grid)
np.sum(np.real($complexes))
np.sum(np.imag($complexes))
np.sum(np.abs($complexes))
$o.step($r)
$o.relax($r)
$o.push($r)
$o.mix($r)
""")

# Derivatives that are taken on the way, of functions that change nothing by themselves.
INNER_NUMBERS = rows("""
np.tanh(mt.grad(lambda z: np.sin(z * $number) * z)($r))
np.tanh(mt.grad(mt.grad(lambda z: np.sin(z * $number) * z))($r))
np.tanh(mt.jvp(lambda z: np.sin(z * $number) * z, ($r,), ($r,))[1])
np.tanh(mt.vjp(lambda z: np.sin(z * $number) * z, $r)[1]($r)[0])
np.tanh(mt.hvp(lambda z: np.sin(z * $number) * z, ($r,), ($r,))[0])
""")

BOUNDED_NUMBERS = ("$r", "np.tanh($number)", "np.sin($number)", "0.5 * $r + 0.5 * $r")


def stored_number(draw: Draw, scope: Scope) -> str:
    """A number as it lies somewhere, or one that is written out."""
    bag = ("bag[0]", "bag[-1]") if scope.bag and scope.here else ()
    return fill(draw, scope, pick(draw, *STORED_NUMBERS, *bag))


def number(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for a number."""
    if depth == 0:
        return stored_number(draw, scope)
    more = ("$r * $o.rng.uniform(0.5, 1.5)",) * 2 * scope.random
    if scope.here and scope.depth < 2 and pick(draw, *range(10)) == 9:
        more += INNER_NUMBERS * 4
    return fill(draw, scope, pick(draw, *NUMBERS, *more), depth - 1)


def bounded(draw: Draw, scope: Scope) -> str:
    """A number to be stored."""
    return fill(draw, scope, pick(draw, *BOUNDED_NUMBERS))


# -- arrays of three -----------------------------------------------------------------------------------------------------

STORED_ARRAYS = (
    "u",
    "w",
    "$o.v",
    "$o.v",
    "$o.v",
    "$o.pair[1]",
    "$o.const.q",
    "$o.point.q",
    '$o.nest["rows"][0]',
)

ARRAYS = rows("""
$s
$s
($array + $array)
($array - $array)
($number * $array)
($array * $array)
np.tanh($array)
($s / (2.5 + np.sin($array)))
$array[::-1]
np.stack([$number, $r, $r])
np.concatenate([$array[:1], $array[1:]])
np.concatenate(np.split($array, [$j])[::-1])
(1.0 / (1.0 + np.exp(-$array)))
np.where($s > 0.0371, $array, $number)
np.maximum($array, 0.0371 * $s)
$grid[$j - 1]
np.sum($grid, axis=0)
($array @ $matrix)
($matrix @ $array)
np.diagonal($matrix)
np.real($complexes)
np.imag($complexes)
np.abs($complexes)
""")

BOUNDED_ARRAYS = ("$s", "np.tanh($array)", "np.sin($array)", "0.5 * $s + 0.5 * $s")


def stored_array(draw: Draw, scope: Scope) -> str:
    """An array as it lies somewhere."""
    return fill(draw, scope, pick(draw, *STORED_ARRAYS))


def array(draw: Draw, scope: Scope, depth: int = 2) -> str:
    """An expression for an array."""
    if depth == 0:
        return stored_array(draw, scope)
    return fill(draw, scope, pick(draw, *ARRAYS), depth - 1)


def bounded_array(draw: Draw, scope: Scope) -> str:
    """An array to be stored."""
    return fill(draw, scope, pick(draw, *BOUNDED_ARRAYS))


# -- matrices and complex numbers ----------------------------------------------------------------------------------------

GRIDS = rows("""
$o.grid
($grid @ $matrix)
($grid + $s)
($grid * $r)
(1 / (1 + np.exp(-$grid)))
np.stack([$s, $s])
np.where($grid > 0.0371, $grid, $r)
""")

MATRICES = rows("""
$o.W
$o.W.T
($matrix @ $matrix)
($s[:, None] * $s)
($o.grid.T @ $grid)
($matrix * $s)
""")

COMPLEXES = rows("""
$o.z
(1j * $s + $o.z)
np.conj($o.z)
($o.z * $o.z)
($o.W @ $o.z)
np.exp(1j * $s)
""")

BOUNDED_COMPLEXES = rows("""
np.exp(1j * $s)
0.5 * $o.z + 0.5 * np.conj($o.z)
$o.z / (1.5 + np.abs($o.z))
$a - 0.5j * $s
""")


def grid(draw: Draw, scope: Scope, depth: int = 1) -> str:
    """An expression for a matrix of 2×3."""
    return fill(draw, scope, pick(draw, *GRIDS) if depth else "$o.grid", min(depth, 2) - 1)


def matrix(draw: Draw, scope: Scope, depth: int = 1) -> str:
    """An expression for a matrix of 3×3."""
    return fill(draw, scope, pick(draw, *MATRICES) if depth else "$o.W", min(depth, 2) - 1)


# -- slots ---------------------------------------------------------------------------------------------------------------

# Arrays of three that may be written, and views that are such.
PLACES = (
    *(
        "$o.v",
        "$o.v",
        "$o.v",
        "$o.v",
        "$o.v[::-1]",
        "$o.v[None][0]",
        "$o.pair[1]",
        "$o.const.q",
        "$o.point.q",
    ),
    *('$o.nest["rows"][0]', "$o.W[1]", "$o.W[:, -1]", "$o.W.T[0]", "$o.W.reshape(-1)[3:6]", "$o.grid[0]"),
    *("np.ravel($o.grid)[::2]", "np.swapaxes($o.grid, 0, 1)[:, 0]", "np.split($o.grid, 2)[1][0]"),
    *("np.squeeze($o.grid[:1])", "np.expand_dims($o.v, 1)[:, 0]", "np.moveaxis($o.grid, 0, 1)[..., 1]"),
    *("np.flip($o.v)", "np.atleast_2d($o.v)[0]", "np.transpose($o.W)[2]", "$o.grid.reshape(3, 2)[:, 1]"),
    "$o.grid.T[:, 1]",
)
LOCAL_PLACES = ("u", "u", "u[::-1]")


def place(draw: Draw, scope: Scope) -> str:
    """An array of three that may be written."""
    # Between two parts of a program the contents of an argument's array have no cotangent; nor has the list.
    argument = ("w",) * (scope.here and scope.bag)
    return fill(draw, scope, pick(draw, *PLACES, *(LOCAL_PLACES * scope.here), *argument))


def _row_of(*rows: str) -> Callable[[Draw, Scope, int], str]:
    return lambda draw, scope, depth: fill(draw, scope, pick(draw, *rows))


def _any_depth(strategy: Callable[[Draw, Scope], str]) -> Callable[[Draw, Scope, int], str]:
    return lambda draw, scope, depth: strategy(draw, scope)


SLOTS: dict[str, Callable[[Draw, Scope, int], str]] = {
    "o": _any_depth(near),  # a node
    "p": _any_depth(node),  # a node that may be further away
    "q": _row_of("$o.const"),
    "items": lambda draw, scope, depth: fill(
        draw, scope, pick(draw, "$o.items", "$o.items", *(("bag",) * (scope.bag and scope.here)))
    ),
    "new": _row_of(*BIRTHS),
    "r": _any_depth(stored_number),
    "n": _any_depth(bounded),
    "s": _any_depth(stored_array),
    "a": _any_depth(bounded_array),
    "g": _row_of("np.tanh($grid)", "np.sin($grid)"),
    "m": _row_of("np.tanh($matrix)", "np.sin($matrix)"),
    "c": _row_of(*BOUNDED_COMPLEXES),
    "A": _any_depth(place),
    "W": _row_of("$o.W"),
    "G": _row_of("$o.grid"),
    "Z": _row_of("$o.z"),
    "i": _row_of("0", "1", "-1"),
    "j": _row_of("1", "2"),
    "k": _row_of('"a"', '"b"'),
    "f": lambda draw, scope, depth: str(draw(literals)),
    # Expressions within expressions.
    "number": number,
    "array": array,
    "grid": grid,
    "matrix": matrix,
    "complexes": _row_of(*COMPLEXES),
}

# -- values for fields ---------------------------------------------------------------------------------------------------

VALUES = {
    "x": ("$n",),
    "y": ("$n",),
    "v": ("$a",),
    "W": ("$m",),
    "grid": ("$g",),
    "z": ("$c",),
    "child": ("$p", "$p", "$new"),
    "const": ("$q", *FROZEN_BIRTHS),
    "items": ("[$n, $n]",),
    "window": ("deque([$n, $n], maxlen=$j + 1)", "deque([$n, $n])"),
    "nodes": ("[$p, $p]",),
    "pair": ("($n, $a, $p)",),
    "point": ("Point($n, $a, $p)",),
    "table": ('{"a": $n, "b": $n}',),
    "tally": ("defaultdict(float, a=$n, b=$n)",),
    "nest": ('{"rows": [$a, $a], "deep": ({"k": $n}, $n)}',),
}
FIELDS = ("x", "v", "child", *VALUES)


def value_of(draw: Draw, scope: Scope, field: str) -> str:
    """A value for a field of a node."""
    return fill(draw, scope, pick(draw, *VALUES[field]))
