"""Derivatives that are infinite: of roots at 0, and second ones of distances. A right number, or nan; never a wrong one.

Under a root, sums of squares have a kink at 0, whose subgradient of least norm is 0: the tape shows that they are such. Of
everything else the infinite derivative stays, and its product with a cotangent 0 is nan.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import mutangent as mt

INF = np.inf


@pytest.fixture(autouse=True)
def _no_warnings_of_infinities():
    with np.errstate(all="ignore"):
        yield


def total(f):
    return lambda *xs: np.sum(np.real(f(*xs)))


def gradient(f, x):
    return mt.grad(total(f))(x)


def is_open(found):
    """Whether a number is none: infinite or nan."""
    return not np.any(np.isfinite(found))


# -- roots whose derivative is infinite --------------------------------------------------------------------------------

# Smooth functions, or those with a known derivative, that are written with a root, and the point.
STEEP = {
    "sqrt squared": (lambda x: np.sqrt(x) ** 2, 0.0),
    "sqrt times sqrt": (lambda x: np.sqrt(x) * np.sqrt(x), 0.0),
    "cos of sqrt": (lambda x: np.cos(np.sqrt(x)), 0.0),
    "power 1/2": (lambda x: (x**0.5) ** 2, 0.0),
    "power 2/3": (lambda x: (x ** (2 / 3)) ** 1.5, 0.0),
    "power 0.3": (lambda x: (x**0.3) ** (1 / 0.3), 0.0),
    "np.power": (lambda x: np.power(x, 0.5) ** 2, 0.0),
    "float_power": (lambda x: np.float_power(x, 0.5) ** 2, 0.0),
    "an array of exponents": (lambda x: (x ** np.array([0.5])) ** 2, 0.0),
    "cbrt cubed": (lambda x: np.cbrt(x) ** 3, 0.0),
    "cos of arccos": (lambda x: np.cos(np.arccos(x)), 1.0),
    "sin of arcsin": (lambda x: np.cos(np.arcsin(x)) ** 2, 1.0),
    "cosh of arccosh": (lambda x: np.cosh(np.arccosh(x)), 1.0),
    "root of a root": (lambda x: np.sqrt(np.sqrt(x * x)) ** 2, 0.0),
    "root of a square of a root": (lambda x: np.sqrt(np.sqrt(x) ** 2), 0.0),
    "root of a power 3/2": (lambda x: np.sqrt(x**1.5) ** 2, 0.0),
}


@pytest.mark.parametrize("kind", ["array", "0-d", "float32", "number", "context"])
@pytest.mark.parametrize("name", STEEP)
def test_an_infinite_derivative_times_0_is_not_0(name, kind):
    f, at = STEEP[name]
    if kind == "number":
        if name in {"an array of exponents", "float_power"}:
            pytest.skip("makes an array")
        found = mt.grad(f)(at)
        assert type(found) is float
        assert is_open(found)
        return
    x = np.full((3,), 1.5 if "arccosh" in name else 0.5, np.float32 if kind == "float32" else np.float64)
    x[1] = at
    if kind == "0-d":
        x = x[1]
    if kind == "context":
        with mt.Context() as ctx:
            watched = ctx.watch(x)
            out = np.sum(f(watched))
        found = ctx.grad(out, watched)
    else:
        found = gradient(f, x)
    assert found.dtype == x.dtype
    if kind == "0-d":
        assert is_open(found)
    else:
        assert np.isfinite(found).tolist() == [True, False, True]


@pytest.mark.parametrize("name", STEEP)
def test_an_infinite_derivative_is_not_0_in_forward_mode(name):
    f, at = STEEP[name]
    x = np.array([1.5 if "arccosh" in name else 0.5, at])
    assert is_open(mt.jvp(f, (x,), (np.array([0.0, 1.0]),))[1][1])
    # What does not move has a finite derivative, but of a cube root.
    moved = mt.jvp(f, (x,), (np.array([1.0, 0.0]),))[1]
    assert np.isfinite(moved[0])
    assert is_open(moved[1]) or moved[1] == 0


@mt.primitive
def doubled(x):
    return 2 * x


@doubled.rrule
def doubled_rule(x):
    return 2 * x, lambda y_bar: (2 * y_bar,)


def squared_matrix(x):
    matrix = np.stack([np.stack([x, x + 1]), np.stack([x * 0, x * 0])])
    return matrix @ matrix


KINKED = {
    "modulus": np.abs,
    "fabs": np.fabs,
    "multiple": lambda x: 2 * np.abs(x) + 0,
    "power 3/2": lambda x: x**1.5,
    "array of exponents": lambda x: x ** np.full(3, 1.5),
    "float_power": lambda x: np.float_power(x, 1.5),
    "root": lambda x: np.sqrt(x * x),
    "root power": lambda x: (x * x) ** 0.7,
    "hypot": lambda x: np.hypot(x, 2 * x),
    "norm": np.linalg.norm,
    "vector_norm": np.linalg.vector_norm,
    "sum": lambda x: np.sum(np.abs(x)),
    "std": lambda x: np.std(x[0] * np.ones(2)),
    "item": lambda x: np.abs(x)[0],
    "one of several": lambda x: np.stack([x * x, np.abs(x)]),
    "written in place": lambda x: put(np.abs(x)),
    "one of two results": lambda x: np.split(np.abs(x)[:2], 2)[0],
    "result of a user's rule": lambda x: doubled(np.abs(x)),
    "exponential": lambda x: np.exp(np.abs(x)) - 1,
    "difference of squares": lambda x: (1 + np.abs(x)) ** 2 - 1,
    "sum of a square and a number": lambda x: np.square(1 + np.abs(x)) + -1.0,
    "sum over squares": lambda x: np.sum(np.stack([(1 + np.abs(x)) ** 2, -np.ones_like(x)]), axis=0),
    "square of a matrix": lambda x: squared_matrix(np.abs(x)[0])[0, 1],
    "maximum": lambda x: np.maximum(np.abs(x), 0),
}
OPEN_AT_0 = {
    "sqrt": np.sqrt,
    "power": lambda x: x**0.6,
    "arccos": lambda x: np.arccos(1 - x),
    "arcsin": lambda x: np.arcsin(1 - x),
    "arccosh": lambda x: np.arccosh(1 + x),
}


def put(x):
    made = np.zeros_like(x)
    made[...] = x
    return made


@pytest.mark.parametrize("root", OPEN_AT_0)
@pytest.mark.parametrize("name", KINKED)
def test_forward_mode_takes_no_kink_for_a_smooth_curve_under_a_root(name, root):
    f = lambda x: np.sum(OPEN_AT_0[root](KINKED[name](x)))
    x = np.zeros(3)
    assert is_open(mt.jvp(f, (x,), (np.array([1.0, 0.5, 2.0]),))[1])
    assert not np.all(np.isfinite(mt.grad(f)(x)))
    twice = lambda x: mt.jvp(f, (x,), (np.array([1.0, 0.5, 2.0]),))[1]
    assert is_open(mt.jvp(twice, (x,), (np.ones(3),))[1])


SQUARED = {
    "square": np.square,
    "power": lambda r: r**2,
    "larger power": lambda r: r**2.5,
    "product": lambda r: r * r,
    "dot product": lambda r: np.dot(r, r),
    "sum": lambda r: np.sum(r * r) + r[0] ** 2,
    "norm": lambda r: np.linalg.norm(r) ** 2,
}


@pytest.mark.parametrize("name", SQUARED)
def test_a_kink_that_is_squared_is_smooth_in_forward_mode(name):
    f = lambda x: np.sum(np.sqrt(SQUARED[name](np.sqrt(x * x + 0 * x))))
    assert mt.jvp(f, (np.zeros(3),), (np.ones(3),))[1] == 0


def test_forward_mode_steps_through_distances_of_0_again_and_again():
    def f(x):
        for _ in range(3):
            d = x[:, None] - x[None, :]
            x = x + np.sum(d * np.exp(-np.sqrt(np.sum(d**2, axis=-1, keepdims=True))), axis=1)
        return np.sum(x**3)

    x, step = np.array([[0.0, 0.3], [1.0, 0.5], [0.2, 2.0]]), np.array([[1.0, 0.0], [0.5, 1.0], [-1.0, 2.0]])
    np.testing.assert_allclose(mt.jvp(f, (x,), (step,))[1], np.sum(mt.grad(f)(x) * step))


def test_marks_of_kinks_live_as_long_as_their_values():
    marked = []

    def f(x):
        for _ in range(50):
            r = np.abs(x)
            marked.append(len(r._tape.entries._kinks.marked))
        return np.sum(r)

    mt.jvp(f, (np.zeros(3),), (np.ones(3),))
    assert max(marked) <= 2


def test_forward_mode_does_not_take_a_cube_for_a_constant_under_a_cube_root():
    assert is_open(mt.jvp(lambda x: np.cbrt(x**3), (0.0,), (1.0,))[1])
    assert is_open(mt.jvp(lambda x: (x**4) ** 0.25, (0.0,), (1.0,))[1])


def test_the_infinite_derivative_itself_stays():
    for f, x in [
        (np.sqrt, 0.0),
        (np.cbrt, 0.0),
        (np.arccosh, 1.0),
        (np.arcsin, 1.0),
        (lambda x: x**0.7, 0.0),
    ]:
        assert mt.grad(f)(x) == INF
        assert mt.jvp(f, (x,), (1.0,))[1] == INF
    assert mt.grad(np.arccos)(1.0) == -INF


def test_a_root_of_complex_numbers_has_no_derivative_at_0():
    z = np.array([0j, 4.0 + 0j])
    for f in (lambda z: np.sqrt(z) ** 2, lambda z: np.sqrt(z * z), lambda z: (z**0.5) ** 2):
        assert np.isfinite(gradient(f, z)).tolist() == [False, True]
    assert mt.grad(lambda x: np.real((x**0.5) ** 2))(-4.0) == pytest.approx(1.0)


# -- roots of what is flat ---------------------------------------------------------------------------------------------

WEIGHTS = np.array([0.0, 2.0, 3.0])
MASK = np.array([True, False, True])


def written(x):
    y = np.zeros_like(x)
    y[:] = x * x
    return y


def added_in_place(x):
    y = x * x
    y += x**4
    return y


# Functions of a vector that are flat where they are 0, and that are 0 at 0.
FLAT = {
    "square": np.square,
    "** 2": lambda x: x**2,
    "** 4": lambda x: x**4,
    "** 2.0": lambda x: x**2.0,
    "np.power": lambda x: np.power(x, 2),
    "an array of exponents": lambda x: x ** np.array([2.0, 4.0, 2.0]),
    "np.float_power": lambda x: np.float_power(x, 2),
    "product": lambda x: x * x,
    "product of more": lambda x: x * WEIGHTS * x * (x * x),
    "a weight first": lambda x: WEIGHTS * x * x,
    "quotients": lambda x: (x / 3) * (x / 3.0) / 2,
    "a traced divisor": lambda x: (x / np.exp(x)) ** 2 / np.exp(x),
    "a positive factor": lambda x: np.cos(x) * np.sin(x) ** 2,
    "square of a sine": lambda x: np.sin(x) ** 2,
    "sum of squares": lambda x: x * x + x**2,
    "sum with a constant": lambda x: 0.0 + x * x + 0,
    "product of flat ones": lambda x: x**2 * np.square(x),
    "power of a flat one": lambda x: (x * x) ** 1.5,
    "modulus": lambda x: np.abs(x) ** 2,
    "modulus, power 3": lambda x: np.abs(x) ** 3,
    "modulus of flat": lambda x: np.abs(x * x),
    "hypot": lambda x: np.hypot(x, 2 * x) ** 2,
    "norm": lambda x: np.linalg.norm(x) ** 2,
    "np.sum": lambda x: np.sum(x * x),
    "np.sum over an axis": lambda x: np.sum(np.stack([x, x]) ** 2, axis=0),
    "keepdims": lambda x: np.sum(x * x, axis=0, keepdims=True),
    "np.mean": lambda x: np.mean(x**2),
    "a method": lambda x: (x * x).sum(),
    "np.var": np.var,
    "np.cumsum": lambda x: np.cumsum(x * x),
    "np.trace": lambda x: np.trace((x[:, None] * np.ones(3)) ** 2),
    "index": lambda x: (x * x)[1],
    "slice": lambda x: (x * x)[1:],
    "mask": lambda x: (x * x)[MASK],
    "positions": lambda x: (x * x)[[0, 0, 2]],
    "np.take": lambda x: np.take(x * x, [0, 2]),
    "newaxis": lambda x: (x * x)[:, None],
    "reshape": lambda x: np.ravel((x * x).reshape(3, 1).T),
    "broadcast": lambda x: np.broadcast_to(x * x, (2, 3)),
    "squeeze": lambda x: np.squeeze(np.expand_dims(x * x, 0)),
    "diagonal": lambda x: np.diagonal((x[:, None] + 0 * x) ** 2),
    "stack": lambda x: np.stack([x * x, x**4]),
    "stack with a constant": lambda x: np.stack([x * x, np.ones(3)]),
    "concatenate": lambda x: np.concatenate([x * x, x[:1] ** 2]),
    "unpacked": lambda x: np.split(x * x, 3)[1],
    "where": lambda x: np.where(MASK, x * x, x**4),
    "where with a constant": lambda x: np.where(MASK, x * x, 1.0),
    "maximum": lambda x: np.maximum(x * x, 0.0),
    "np.max": lambda x: np.max(x * x),
    "clip": lambda x: np.clip(x * x, 0.0, None),
    "x @ x": lambda x: x @ x,
    "np.dot": lambda x: np.dot(x, x),
    "np.vdot": lambda x: np.vdot(x, x),
    "np.inner": lambda x: np.inner(x, x),
    "np.vecdot": lambda x: np.vecdot(y := x[:, None], y),
    "weights @ squares": lambda x: WEIGHTS @ (x * x),
    "einsum": lambda x: np.einsum("i,i", x, x),
    "einsum with a result": lambda x: np.einsum("ij, ij -> i", y := x[:, None] * np.ones(2), y),
    "written": written,
    "added in place": added_in_place,
    "float32": lambda x: (x * x).astype(np.float32),
    "z conj(z)": lambda x: np.real((z := x * (1 + 1j)) * np.conj(z)),
    "conj(z) z": lambda x: (np.conj(z := x * (1 + 1j)) * z).real,
    "vdot of complex": lambda x: np.vdot(z := x * 1j, z).real,
    "parts": lambda x: (z := x * (1 + 2j)).real ** 2 + z.imag**2,
    "modulus of complex": lambda x: np.abs(x * 1j) ** 2,
    "variance of complex": lambda x: np.var(x * 1j),
}


ROOTS = {
    "sqrt": np.sqrt,
    "power 1/2": lambda u: u**0.5,
    "np.power": lambda u: np.power(u, 0.75),
}


@pytest.mark.parametrize("root", ROOTS)
@pytest.mark.parametrize("name", FLAT)
def test_the_root_of_something_flat_has_a_kink_whose_derivative_is_0(name, root):
    f = lambda x: 2 * ROOTS[root](FLAT[name](x))
    x = np.zeros(3)
    np.testing.assert_array_equal(gradient(f, x), x)
    np.testing.assert_array_equal(mt.jvp(f, (x,), (np.ones(3),))[1], 0 * f(x))
    # And elsewhere the one that finite differences find.
    y = np.array([0.3, -0.7, 1.1])
    if name not in {"float32", "np.max"}:
        mt.testing.check_grads(total(f), (y,), order=1)


NOT_FLAT = {
    "a leaf": lambda x: x,
    "a difference": lambda x: x - x**2,
    "of squares": lambda x: x**2 - x**2,
    "a product": lambda x: x * np.sin(x),
    "a cube": lambda x: x**3,
    "a power 3/2": lambda x: x**1.5,
    "a modulus": np.abs,
    "a negative weight": lambda x: -0.0 - 3 * x**2,
    "a negative constant": lambda x: x**2 + 1 - 1.0,
    "a negative factor": lambda x: (x - 1) * x**2 * 0.0 + x * np.cos(x - np.pi),
    "a sum with a leaf": lambda x: x**2 + x,
    "differences": lambda x: np.diff(x, prepend=0.0),
    "a cumulative sum": np.cumsum,
    "a mean": np.mean,
    "a maximum": lambda x: np.maximum(x, 0.0),
    "a maximum with a square": lambda x: np.maximum(x, x * x),
    "where": lambda x: np.where(MASK, x, x * x),
    "a stack": lambda x: np.stack([x * x, x]),
    "a product of two vectors": lambda x: x @ (x + x**2),
    "expanded": lambda x: x * x - 2 * x * (0.0 + x) + x * x,
    "einsum of two": lambda x: np.einsum("i,i", x, x + 0.0),
    "einsum, transposed": lambda x: np.einsum("ij,ji->i", y := x[:, None] * np.ones(3), y),
    "a matrix squared": lambda x: (y := x[:, None] * np.ones(3)) @ y,
    "an exponential": lambda x: np.exp(x) - 1,
    "1 - cos": lambda x: 1 - np.cos(x),
    "a traced exponent": lambda x: x ** (x + 2),
    "squares far back": lambda x: sum((x * x for _ in range(200)), start=0.0),
}


@pytest.mark.parametrize("name", NOT_FLAT)
def test_what_is_not_known_to_be_flat_has_no_finite_derivative_under_a_root(name):
    f = lambda x: np.sqrt(NOT_FLAT[name](x))
    found = gradient(f, np.zeros(3))
    assert not np.any(found[~np.isnan(found)] == 0) or name in {"where", "differences"}
    assert not np.all(np.isfinite(found))


def test_a_cotangent_that_is_infinite_stays_so():
    assert is_open(mt.grad(lambda x: np.sqrt(np.sqrt(x * x)))(0.0))


def test_the_proof_is_for_the_value_that_the_root_was_taken_of():
    def f(x):
        u = np.zeros_like(x)
        u[:] = x * x
        r = np.sqrt(u)
        u[:] = x
        return r + u

    np.testing.assert_array_equal(gradient(f, np.zeros(2)), np.ones(2))

    def g(x):
        u = x * x
        u[:1] = x[:1]
        return np.sqrt(u)

    assert not np.isfinite(gradient(g, np.zeros(2))[0])


def test_the_root_of_squares_in_fields():
    @mt.differentiable
    class Body:
        position: np.ndarray

        def distance(self, other):
            d = self.position - other.position
            return np.sqrt(d @ d)

    a, b = Body(np.array([1.0, 2.0])), Body(np.array([1.0, 2.0]))
    tangent = mt.grad(lambda a, b: 3 * a.distance(b))(a, b)
    np.testing.assert_array_equal(tangent.position, [0, 0])


# Constants that come into an array of squares: the square of x[0] is 1, and all that is 0 is 0 by what they cancel.
def put_in(x, c):
    z = x * x
    z[1] = c
    return z


def put_into_part(x, c):
    z = x * x
    z[1:2] = np.array([c])
    return z


def at_least(c):
    return np.array([9.0, c, 9.0])


BROUGHT_IN = {
    "append": lambda x, c: np.append(x[::2] ** 2, c),
    "concatenate": lambda x, c: np.concatenate([x[::2] ** 2, [c]]),
    "concatenate, after many": lambda x, c: np.concatenate([x[::2] ** 2, np.zeros(40), [c]]),
    "concatenate, among many": lambda x, c: np.concatenate([x[::2] ** 2, np.append(np.zeros(40), c)]),
    "hstack": lambda x, c: np.hstack([x[::2] ** 2, np.full(1, c)]),
    "block": lambda x, c: np.block([x[::2] ** 2, c]),
    "stack": lambda x, c: np.stack([x[0] ** 2, c, x[2] ** 2]),
    "vstack": lambda x, c: np.vstack([x[:1] ** 2, [c], x[2:] ** 2]),
    "column_stack": lambda x, c: np.column_stack([x[:1] ** 2, [c]]),
    "dstack": lambda x, c: np.dstack([x[:1] ** 2, [c]]),
    "insert": lambda x, c: np.insert(x[::2] ** 2, 1, c),
    "pad": lambda x, c: np.pad(x[:2] ** 2, 1, constant_values=(0, c))[[0, 1, 3]],
    "set item": put_in,
    "set part": put_into_part,
    "where": lambda x, c: np.where(MASK, x * x, c),
    "where with an array": lambda x, c: np.where(MASK, x * x, np.full(3, c)),
    "where with zeros beside": lambda x, c: np.where(MASK, x * x, np.append([0.0, c], np.ones(1))),
    "where, the other": lambda x, c: np.where(~MASK, np.float64(c), x * x),
    "where, many": lambda x, c: np.where(np.arange(40) < 1, x[0] ** 2, np.where(np.arange(40) == 5, c, 0.0)),
    "select": lambda x, c: np.select([MASK], [x * x], c),
    "choose": lambda x, c: np.choose([0, 1, 0], [x * x, np.full(3, c)]),
    "piecewise": lambda x, c: np.piecewise(x, [MASK, ~MASK], [np.square, c]),
    "minimum": lambda x, c: np.minimum(x * x, at_least(c)),
    "fmin": lambda x, c: np.fmin(at_least(c), x * x),
    "clip": lambda x, c: np.clip(x * x, None, at_least(c)),
    "np.min": lambda x, c: np.stack([x[0] ** 2, np.min(x * x, initial=c), x[2] ** 2]),
    "np.max": lambda x, c: np.stack([x[0] ** 2, np.max(x * x, initial=c, where=False), x[2] ** 2]),
    "a shape": lambda x, c: np.tile(np.where(MASK, x * x, c)[:, None], 2)[:, 1:],
    "an array like it": lambda x, c: np.concatenate([x[:1] ** 2, (np.zeros_like(x) + c)[:1]]),
    "a maximum of both": lambda x, c: np.maximum(np.where(MASK, x * x, c), np.where(MASK, x * x, c)),
    "a power": lambda x, c: np.where(MASK, x * x, c) ** 1,
    "a weight": lambda x, c: 0.5 * np.where(MASK, x * x, c) * np.exp(0 * x) * 2,
    "a sum of two": lambda x, c: np.where(MASK, 0.5 * x * x, c) + np.where(MASK, 0.5 * x * x, 0.0),
}
SUMS = {
    "np.sum": np.sum,
    "np.mean": np.mean,
    "np.cumsum": lambda z: np.cumsum(z)[-1],
    "np.trace": lambda z: np.trace(np.diag(np.ravel(z))),
    "dot": lambda z: np.ravel(z) @ np.ones(z.size),
    "with a weight": lambda z: np.sum(2.0 * z / 2.0),
    "axis": lambda z: np.sum(np.reshape(z, (1, -1)), axis=1)[0],
    "sum": lambda z: sum(list(np.ravel(z))),
    "np.add.reduce": lambda z: np.add.reduce(np.ravel(z)),
    "np.dot with itself": lambda z: np.sum(np.ravel(z)) * np.sum(np.ravel(z)) ** 0 + 0.0,
}


@pytest.mark.parametrize("sum_of", SUMS)
@pytest.mark.parametrize("way", BROUGHT_IN)
def test_what_a_negative_constant_cancels_is_not_flat(way, sum_of):
    u = lambda x: SUMS[sum_of](BROUGHT_IN[way](x, -1.0))
    x = np.array([1.0, 0.0, 0.0])
    assert u(x) == 0
    for root in ROOTS.values():
        assert is_open(gradient(lambda x: root(u(x)), x)[0])  # noqa: B023 - called at once


# Of these it is known that the constant is not negative.
KNOWN = BROUGHT_IN.keys() - {
    *("concatenate, after many", "concatenate, among many", "pad", "choose", "piecewise", "where, many"),
}


@pytest.mark.parametrize("way", KNOWN)
def test_constants_that_are_not_negative_leave_a_sum_flat(way):
    f = lambda x: np.sqrt(np.sum(BROUGHT_IN[way](x, 0.0)))
    np.testing.assert_array_equal(gradient(f, np.zeros(3)), np.zeros(3))


# A weight that is traced gets nan from the root of -1.
NEVER = {"pad", "a sum of two", "piecewise", "a weight"}


@pytest.mark.parametrize("way", BROUGHT_IN.keys() - NEVER)
def test_a_negative_constant_does_no_harm_to_its_neighbours(way):
    f = lambda x: np.ravel(np.sqrt(BROUGHT_IN[way](x, -1.0)))[0]
    np.testing.assert_array_equal(gradient(f, np.zeros(3)), np.zeros(3))


# -- second derivatives ------------------------------------------------------------------------------------------------


def gradients(f, mode):
    """The gradient of `f` by reverse or forward mode, as a list of functions of x."""

    def part(k):
        def by_reverse(x):
            return mt.grad(f)(x)[k]

        def by_forward(x):
            unit = np.zeros(x.shape)
            unit[k] = 1
            return mt.jvp(f, (x,), (unit,))[1]

        return by_reverse if mode == "rev" else by_forward

    return part


def second_derivative(f, x, k, modes):
    inner, outer = modes
    g = gradients(f, inner)(k)
    return gradients(g, outer)(k)(x)


SECOND = {
    "norm squared": lambda x: np.linalg.norm(x) ** 2,
    "norm over an axis": lambda x: np.sum(np.linalg.norm(x[None], axis=-1) ** 2),
    "vector_norm": lambda x: np.linalg.vector_norm(x) ** 2,
    "Frobenius norm": lambda x: np.linalg.norm(x[None]) ** 2,
    "norm, 4": lambda x: np.linalg.norm(x, 4) ** 2,
    "norm, 3": lambda x: np.linalg.norm(x, 3) ** 2,
    "hypot squared": lambda x: np.hypot(x[0], x[1]) ** 2,
    "standard deviation": lambda x: np.std(x) ** 2,
    "sample": lambda x: np.std(x, ddof=1) ** 2,
    "root of squares": lambda x: np.sqrt(x[0] * x[0] + x[1] * x[1]) ** 2,
    "root of a sum": lambda x: np.exp(-(np.sqrt(np.sum(x * x)) ** 2)),
    "power 1/2": lambda x: np.sum(x * x) ** 0.5 * np.sum(x * x) ** 0.5,
    "complex modulus": lambda x: np.abs(x[0] + 1j * x[1]) ** 2,
    "complex sign": lambda x: np.real(np.sign(x[0] + 1j * x[1]) * (x[0] - 1j * x[1])) ** 2,
    "angle": lambda x: np.sum(x * x) * np.sin(2 * np.arctan2(x[0], x[1])) / 2 + x[0] ** 2,
    "complex angle": lambda x: np.sum(x * x) * np.sin(np.angle(x[0] + 1j * x[1])) ** 2,
}


@pytest.mark.parametrize("modes", list(itertools.product(("rev", "fwd"), repeat=2)))
@pytest.mark.parametrize("name", SECOND)
def test_the_second_derivative_at_0_of_the_square_of_a_distance_is_not_0(name, modes):
    f = SECOND[name]
    x = np.zeros(2)
    assert is_open(second_derivative(f, x, 0, modes))
    np.testing.assert_array_equal(mt.grad(f)(x), x)
    # Beside the point they are there.
    y = np.array([0.3, -0.8])
    step = np.array([1e-5, 0])
    expected = (mt.grad(f)(y + step)[0] - mt.grad(f)(y - step)[0]) / 2e-5
    assert second_derivative(f, y, 0, modes) == pytest.approx(expected, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("name", SECOND)
def test_hessians_at_0_of_the_square_of_a_distance_are_not_0(name):
    f = SECOND[name]
    assert is_open(np.diagonal(mt.hessian(f)(np.zeros(2))))
    assert is_open(mt.hvp(f, (np.zeros(2),), (np.ones(2),))[0])


@pytest.mark.parametrize("order", [1.5, 2.5, 3, 4, -1])
@pytest.mark.parametrize("kind", [1, 1j])
def test_norms_of_other_orders(order, kind):
    f = lambda x: np.linalg.norm(x * kind, order)
    y = np.array([0.3, -0.8, 1.2])
    mt.testing.check_grads(f, (y,), order=2)
    np.testing.assert_array_equal(mt.grad(f)(np.zeros(3)), np.zeros(3))
    # Where one element is 0.
    found = mt.grad(f)(np.array([0.0, -0.8, 1.2]))
    if order == -1:
        assert np.all((found == 0) | np.isnan(found))  # NumPy divides a complex number by 0
    else:
        assert found[0] == 0
        np.testing.assert_allclose(found[1:], mt.grad(f)(np.array([-0.8, 1.2])), rtol=1e-12)


def test_the_second_derivative_of_a_norm_whose_derivative_is_a_root():
    f = lambda x: np.linalg.norm(x, 1.5)
    assert is_open(mt.hessian(f)(np.array([0.0, 1.0]))[0, 0])
    cubic = mt.hessian(lambda x: np.linalg.norm(x, 3))(np.array([0.0, 1.0]))
    np.testing.assert_allclose(cubic, np.zeros((2, 2)), atol=1e-15)


# -- what is selected away ---------------------------------------------------------------------------------------------

POINTS = np.array([[0.0, 0.0], [1.0, 2.0], [3.0, 1.0]])
FIRST, OTHER = np.triu_indices(3, 1)
POTENTIALS = {
    "Yukawa": lambda r: np.exp(-r) / r,
    "Lennard-Jones": lambda r: r**-12 - r**-6,
    "spring": lambda r: (r - 1) ** 2,
}
DISTANCES = {
    "norm": lambda d: np.linalg.norm(d, axis=-1),
    "norm, kept": lambda d: np.linalg.norm(d, axis=-1, keepdims=True)[..., 0],
    "vector_norm": lambda d: np.linalg.vector_norm(d, axis=-1),
    "root": lambda d: np.sqrt(np.sum(d * d, -1)),
    "einsum": lambda d: np.sqrt(np.einsum("ijk,ijk->ij", d, d)),
    "hypot": lambda d: np.hypot(d[..., 0], d[..., 1]),
    "modulus": lambda d: np.abs(d[..., 0] + 1j * d[..., 1]),
    "power": lambda d: np.sum(d**2, -1) ** 0.5,
    "spread": lambda d: np.std(np.stack([d, -d], -1), axis=(-1, -2)) * 2**0.5,
    "norm, 4": lambda d: np.linalg.norm(d, 4, axis=-1),
}
SAME = np.eye(3, dtype=bool)
MASKS = {
    "where": lambda v, r: np.sum(np.where(SAME, 0, v(r))),
    "where, before": lambda v, r: np.sum(np.where(SAME, 0, v(np.where(SAME, 1.0, r)))),
    "mask": lambda v, r: np.sum(v(r)[~SAME]),
    "mask, before": lambda v, r: np.sum(v(r[~SAME])),
    "positions": lambda v, r: 2 * np.sum(v(r[FIRST, OTHER])),
    "where=": lambda v, r: np.sum(v(r), where=~SAME),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("potential", POTENTIALS)
@pytest.mark.parametrize("distance", DISTANCES)
def test_pairs_of_a_point_with_itself_are_masked_at_second_order_too(distance, potential, mask):
    dist, v = DISTANCES[distance], POTENTIALS[potential]

    def energy(x):
        return MASKS[mask](v, dist(x[:, None] - x[None, :]))

    def of_pairs(x):
        return 2 * np.sum(v(dist((x[FIRST] - x[OTHER])[None])[0]))

    expected = mt.hessian(of_pairs)(POINTS)
    np.testing.assert_allclose(mt.grad(energy)(POINTS), mt.grad(of_pairs)(POINTS), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(mt.hessian(energy)(POINTS), expected, rtol=1e-9, atol=1e-11)
    step = np.cos(np.arange(6.0)).reshape(3, 2)
    for found in (
        mt.hvp(energy, (POINTS,), (step,))[0],
        mt.grad(lambda x: mt.jvp(energy, (x,), (step,))[1])(POINTS),
        mt.grad(lambda x: np.vdot(mt.grad(energy)(x), step))(POINTS),
    ):
        np.testing.assert_allclose(found, np.tensordot(expected, step, 2), rtol=1e-9, atol=1e-11)


def test_a_variance_hands_a_mask_on():
    x = np.array([[0.0, 1.0], [1.0, 4.0]])

    def f(x):
        return np.sum(np.where([False, True], np.var(np.log(x), axis=1) + np.std(np.log(x), axis=1), 0.0))

    found = mt.grad(f)(x)
    np.testing.assert_allclose(
        found[1], mt.grad(lambda x: np.var(np.log(x)) + np.std(np.log(x)))(x[1]), rtol=1e-12
    )
    np.testing.assert_array_equal(found[0], [0, 0])
    chosen = lambda x: np.where(True, np.std(np.log(x), where=np.array([False, True])), 0.0)
    np.testing.assert_array_equal(mt.grad(chosen)(x[0]), [0, 0])


# -- Gaussian processes ------------------------------------------------------------------------------------------------

KERNELS = {
    "RBF": lambda r: np.exp(-(r**2) / 2),
    "exponential": lambda r: np.exp(-r),
    "Matern 3/2": lambda r: (1 + 3**0.5 * r) * np.exp(-(3**0.5) * r),
    "Matern 5/2": lambda r: (1 + 5**0.5 * r + 5 / 3 * r**2) * np.exp(-(5**0.5) * r),
    "rational quadratic": lambda r: 1 / (1 + r**2 / 3),
}


@pytest.mark.parametrize("kernel", KERNELS)
def test_kernels_of_distances_have_finite_derivatives_on_their_diagonal(kernel, rng):
    k = KERNELS[kernel]
    x, y = rng.normal(size=(5, 2)), rng.normal(size=5)

    def likelihood(scales, x, distance):
        d = (x[:, None] - x[None, :]) / scales
        cov = k(distance(d)) + 0.1 * np.eye(5)
        return 0.5 * y @ np.linalg.solve(cov, y) + np.sum(np.log(np.diagonal(np.linalg.cholesky(cov))))

    root = lambda d: np.sqrt(np.sum(d**2, axis=-1))
    safe = lambda d: np.where(np.eye(5, dtype=bool), 0.0, np.sqrt(np.sum(d**2, axis=-1) + np.eye(5)))
    scales = np.array([0.8, 1.3])
    found = mt.grad(likelihood, argnums=(0, 1))(scales, x, root)
    expected = mt.grad(likelihood, argnums=(0, 1))(scales, x, safe)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
    unit = np.array([1.0, 0.0])
    by_forward = mt.jvp(lambda s: likelihood(s, x, root), (scales,), (unit,))[1]
    assert by_forward == pytest.approx(found[0][0], rel=1e-9)
    # Masked, it has second derivatives too.
    mt.testing.check_grads(lambda s: likelihood(s, x, safe), (scales,), order=2)


# -- random expressions ------------------------------------------------------------------------------------------------

numbers = st.sampled_from([0.0, 0.0, 1.0, -2.0, 0.5])


@st.composite
def flat_expressions(draw, depth=2):
    """A function of a vector of three elements, a sum of squares or the like: pairs of (text, function)."""
    kind = draw(st.sampled_from(["square", "sum", "product", "weight", "root**4", "linear**2"]))
    if depth == 0 or kind == "square":
        k = draw(st.integers(0, 2))
        return f"x[{k}]**2", lambda x: x[k] * x[k]
    if kind == "linear**2":
        w = np.array([draw(numbers) for _ in range(3)])
        return f"({w} @ x)**2", lambda x: (w @ x) ** 2
    a_text, a = draw(flat_expressions(depth=depth - 1))
    if kind == "weight":
        w = abs(draw(numbers))
        return f"{w}*{a_text}", lambda x: w * a(x)
    if kind == "root**4":
        return f"sqrt({a_text})**4", lambda x: a(x) ** 2
    b_text, b = draw(flat_expressions(depth=depth - 1))
    if kind == "sum":
        return f"({a_text} + {b_text})", lambda x: a(x) + b(x)
    return f"({a_text} * {b_text})", lambda x: a(x) * b(x)


@given(flat_expressions(), st.lists(numbers, min_size=3, max_size=3))
def test_smooth_functions_of_roots_of_squares_are_those_of_the_squares(expression, point):
    _, u = expression
    x = np.array(point)
    pairs = [
        (lambda x: np.exp(-(np.sqrt(u(x)) ** 2)), lambda x: np.exp(-u(x))),
        (lambda x: np.cos(u(x) ** 0.5), lambda x: 1 - u(x) / 2 + u(x) ** 2 / 24),
        (lambda x: np.sqrt(u(x)) * np.sqrt(u(x)), u),
    ]
    with np.errstate(all="ignore"):
        for k, (with_root, without) in enumerate(pairs):
            expected = mt.grad(without)(x)
            found = mt.grad(with_root)(x)
            if k == 1:  # a series about 0
                found, expected = (found, expected) if u(x) == 0 else (0.0, 0.0)
            np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
        # At second order it is the right number or none.
        second, right = mt.hessian(pairs[2][0])(x), mt.hessian(u)(x)
        known = np.isfinite(second)
        np.testing.assert_allclose(second[known], right[known], rtol=1e-8, atol=1e-9)


squares = st.sampled_from(
    [np.square, lambda x: x * x, lambda x: x**2, lambda x: np.abs(x) ** 3, lambda x: x * x * WEIGHTS]
)
moved = st.sampled_from(
    [
        lambda z: z,
        np.flip,
        lambda z: z[:3],
        lambda z: z * 0.5,
        lambda z: np.maximum(z, -1.0),
        lambda z: np.minimum(z, 2.0),
        lambda z: np.clip(z, -4.0, 4.0),
        lambda z: np.append(z, 0.0),
        lambda z: np.where(np.arange(np.size(z)) < 2, z, -1.0),
        lambda z: np.concatenate([z, [-2.0]]),
        lambda z: np.repeat(z, 2),
        lambda z: np.ravel(np.stack([z, z * z])),
        np.abs,
        lambda z: z**3,
        np.cumsum,
    ]
)


@st.composite
def sums_with_constants(draw, x):
    """A function of a vector that adds up squares and constants; of several constants, the last makes the sum 0 at `x`."""
    parts = []
    for _ in range(draw(st.integers(1, 3))):
        square, way = draw(squares), BROUGHT_IN[draw(st.sampled_from(sorted(BROUGHT_IN)))]
        moves = draw(st.lists(moved, max_size=2))
        parts.append((square, way, moves, draw(numbers)))
    sum_of = SUMS[draw(st.sampled_from(sorted(SUMS)))]

    def part(x, square, way, moves, c):
        z = np.ravel(way(np.abs(x), c)) if square is np.square else np.ravel(way(x, c))
        for move in moves:
            z = move(z)
        return np.append(z, square(x))

    def total_without(x):
        return sum_of(np.concatenate([part(x, *each) for each in parts]))

    rest = draw(st.sampled_from([0.0, -float(total_without(x))]))
    return draw(
        st.sampled_from(
            [
                lambda x: total_without(x) + rest,
                lambda x: np.sum(np.append(total_without(x), rest)),
                lambda x: np.sum(np.where([True, False], total_without(x), rest)),
                lambda x: np.minimum(x[0] ** 2, rest) + total_without(x),
            ]
        )
    )


@given(st.data(), st.lists(numbers, min_size=3, max_size=3))
def test_under_a_root_a_finite_derivative_at_0_is_that_of_something_flat(data, point):
    x = np.array(point)
    with np.errstate(all="ignore"):
        u = data.draw(sums_with_constants(x))
        if u(x) != 0 or not np.all(np.isfinite(mt.grad(lambda x: np.sqrt(u(x)))(x))):
            return
        np.testing.assert_array_equal(mt.grad(u)(x), [0, 0, 0])
        near = np.random.default_rng(1).normal(size=(20, 3)) * 1e-3
        assert all(u(x + step) >= 0 for step in near)


# -- powers with two operands ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("exponent", "mixed"),
    [(1.0, -INF), (1.5, 0), (2.0, 0), (3.0, 0)],
)
def test_the_mixed_derivative_of_a_power_at_the_base_0(exponent, mixed):
    """Of a**b it is a**(b-1) (1 + b log a)."""
    a, b = np.float64(0), np.float64(exponent)
    assert mt.grad(lambda a: mt.grad(np.power, 1)(a, b))(a) == mixed
    assert mt.grad(lambda b: mt.grad(np.power, 0)(a, b))(b) == mixed
    assert mt.jvp(lambda a: mt.grad(np.power, 1)(a, b), (a,), (1.0,))[1] == mixed
    assert mt.grad(lambda a: mt.jvp(lambda b: a**b, (b,), (1.0,))[1])(a) == mixed


def test_the_mixed_derivative_of_a_root_at_0_is_infinite():
    a, b = np.float64(0), np.float64(0.5)
    assert is_open(mt.grad(lambda a: mt.grad(np.power, 1)(a, b))(a))
    assert is_open(mt.grad(lambda b: mt.grad(np.power, 0)(a, b))(b))


# -- equal eigenvalues and singular values -----------------------------------------------------------------------------

W = np.array([[1.0, 2.0, -1.0], [0.5, 3.0, 1.0], [2.0, -2.0, 0.3]])


def of_matrix(f):
    """A function of a symmetric matrix by its eigenvalues."""

    def matrix_function(a):
        values, vectors = np.linalg.eigh(a)
        return np.sum(W * ((vectors * f(values)) @ vectors.T))

    return matrix_function


@pytest.mark.parametrize("f", [np.exp, np.log, np.square, lambda x: x**-0.5])
def test_functions_of_a_matrix_with_equal_eigenvalues_have_no_wrong_derivative(f):
    assert is_open(mt.grad(of_matrix(f))(np.eye(3)))
    mt.testing.check_grads(lambda a: of_matrix(f)((a + a.T) / 2), (np.diag([1.0, 2.0, 3.0]),))


TURN = np.linalg.qr(np.array([[3.0, 1.0, 0.0], [-1.0, 2.0, 1.0], [0.5, 0.0, 1.0]]))[0]


@pytest.mark.parametrize("scale", [1.0, 1e-8, 3e5])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("values", [[1.0, 2.0, 2.0], [-2.0, -2.0, 1.0], [2.0, 2.0, 2.0]])
def test_eigenvalues_that_differ_by_rounding_count_as_equal(values, scale, dtype):
    a = (scale * (TURN * np.array(values)) @ TURN.T).astype(dtype)
    f = of_matrix(lambda x: np.exp(x / scale))
    assert is_open(mt.grad(f)(a))
    assert is_open(mt.jvp(f, (a,), (a + W.astype(dtype),))[1])
    assert is_open(mt.hvp(f, (a,), (a,))[0])


def test_singular_values_that_differ_by_rounding_count_as_equal():
    a = (TURN * np.array([1.0, 2.0, 2.0])) @ TURN[:, [1, 2, 0]].T
    first = lambda a: np.sum(W * (np.linalg.svd(a)[0][:, :1] @ np.linalg.svd(a)[2][:1]))
    assert is_open(mt.grad(first)(a))
    last = lambda a: np.sum(W * (np.linalg.svd(a)[0][:, 2:] @ np.linalg.svd(a)[2][2:]))
    if np.all(np.diff(np.linalg.svd(a)[1])):  # in some versions of NumPy they are exactly equal
        mt.testing.check_grads(last, (a,), order=1)


def test_a_matrix_that_is_not_symmetric_with_nearly_equal_eigenvalues():
    a = np.linalg.inv(W) @ (np.array([[1.0], [2.0], [2.0]]) * W)

    def exponential(a):
        values, vectors = np.linalg.eig(a)
        return np.sum(W * np.real((vectors * np.exp(values)) @ np.linalg.inv(vectors)))

    assert is_open(mt.grad(exponential)(a))


def test_vectors_beside_nearly_equal_eigenvalues_have_derivatives():
    x = np.cos(np.arange(16.0)).reshape(2, 8) + np.eye(2, 8)
    weights = np.sin(np.arange(64.0)).reshape(8, 8)

    def f(x):
        top = np.linalg.eigh(x.T @ x)[1][:, -2:]
        return np.sum(weights * (top @ top.T))

    if np.all(np.diff(np.linalg.eigh(x.T @ x)[0])):
        mt.testing.check_grads(f, (x,), order=1)
    # Of gaps that are larger than rounding errors the derivative is known.
    a = (TURN * np.array([1.0, 2.0, 2.0 + 1e-7])) @ TURN.T
    a = (a + a.T) / 2
    values, vectors = np.linalg.eigh(a)
    e = np.exp(values)
    same = np.eye(3, dtype=bool)
    gaps = np.where(same, 1, values - values[:, None])
    slopes = np.where(same, e, (e - e[:, None]) / gaps)
    right = vectors @ (slopes * (vectors.T @ (W + W.T) @ vectors / 2)) @ vectors.T
    np.testing.assert_allclose(mt.grad(of_matrix(np.exp))(a), right, atol=1e-6)


def test_eigenvalues_alone_have_derivatives_where_they_are_equal():
    of_values = (
        lambda a: np.sum(np.linalg.eigh(a)[0] ** 2),
        lambda a: np.sum(np.linalg.eigvalsh(a) ** 2),
        lambda a: np.sum(np.real(np.linalg.eig(a)[0]) ** 2),
    )
    for f in of_values:
        np.testing.assert_allclose(mt.grad(f)(2 * np.eye(3)), 4 * np.eye(3))
    f = lambda a: np.sum(np.linalg.eigvalsh(a) ** 2)
    assert is_open(mt.hessian(f)(np.eye(2)))
    expected = [[2, 0, 0, 0], [0, 1, 1, 0], [0, 1, 1, 0], [0, 0, 0, 2]]
    np.testing.assert_allclose(mt.hessian(f)(np.diag([1.0, 2.0])).reshape(4, 4), expected, atol=1e-14)


def test_an_eigenvector_beside_equal_eigenvalues_that_is_selected_has_a_derivative():
    def projection(a):
        vector = np.linalg.eigh(a)[1][:, [0]]
        return np.sum(W * (vector @ vector.T))

    near = mt.grad(projection)(np.diag([1.0, 2.0, 2.0 + 1e-9]))
    np.testing.assert_allclose(mt.grad(projection)(np.diag([1.0, 2.0, 2.0])), near, atol=1e-8)
    first = mt.grad(lambda a: np.sum(np.linalg.svd(a)[0][:, [0]] ** 4))
    a = np.array([[2.0, 0.3, 0.1], [0.2, 1.0, 0.0], [0.0, 0.1, 1.0]])
    flat = np.outer([1.0, 2.0, 2.0], [2.0, 1.0, -2.0])
    assert np.all(np.isfinite(first(flat)))
    np.testing.assert_allclose(
        first(a), mt.grad(lambda a: np.sum(np.linalg.svd(a)[0][:, 0] ** 4))(a), atol=1e-12
    )


def test_a_product_of_singular_factors_has_no_wrong_derivative_where_one_is_0():
    def product(a):
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.sum(np.arange(8.0).reshape(4, 2) * ((u * s) @ vh))

    tall = np.array([[1.0, 0.0], [2.0, 0.0], [0.5, 0.0], [-1.0, 0.0]])
    assert is_open(mt.grad(product)(tall))
    found = mt.grad(product)(tall + np.arange(8.0).reshape(4, 2) ** 2)
    np.testing.assert_allclose(found, np.arange(8.0).reshape(4, 2), atol=1e-12)
    singular_values = mt.grad(lambda a: np.sum(np.linalg.svd(a)[1][:1]))(tall)
    np.testing.assert_allclose(singular_values, tall / np.linalg.norm(tall), atol=1e-15)
    assert np.all(np.isfinite(mt.grad(lambda a: np.sum(np.linalg.svd(a)[1]))(np.zeros((2, 2)))))
