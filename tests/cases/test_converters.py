"""Converters that make plain numbers of what they are given: followed as what they are, or refused."""

import functools
import math

import attrs
import numpy as np
import pytest

import mutangent as mt
from mutangent._traced import primal
from tests.cases.harness import NUMERICAL, Fields, three_ways


def unknown(function):
    """The same converter, which nobody knows by its identity."""

    def convert(v):
        return function(v)

    return convert


COPIES = {
    "np.array": np.array,
    "np.array of a dtype": lambda v: np.array(v, dtype=np.float64),
    "asarray and copy": lambda v: np.asarray(v, float).copy(),
    "flatten": lambda v: np.asarray(v).flatten(),
    "optional": attrs.converters.optional(np.array),
    "pipe": attrs.converters.pipe(np.asarray, np.array),
    "ndmin": functools.partial(np.array, ndmin=1),
    "more axes": functools.partial(np.array, ndmin=2),
    "single precision": functools.partial(np.array, dtype=np.float32),
    "single precision by a lambda": lambda v: np.asarray(v, np.float32),
    "half precision by a lambda": lambda v: np.asarray(v, np.float16),
}

ALIASES = {
    "np.asarray": np.asarray,
    "np.asanyarray": np.asanyarray,
    "no copy": functools.partial(np.array, copy=None),
    "asarray by a lambda": unknown(np.asarray),
    "checked": lambda v: np.asarray(v) if np.all(np.isfinite(np.asarray(v))) else None,
    "ascontiguousarray": np.ascontiguousarray,
    "required": lambda v: np.require(v, requirements="W"),
}

VIEWS = {
    "a new view": lambda v: np.asarray(v)[...],
    "view()": lambda v: np.asarray(v).view(),
    "a row": lambda v: np.asarray(v)[None],
    "ravel": lambda v: np.asarray(v).ravel(),
}

EVERY_CLASS = pytest.mark.parametrize("kwargs", [{}, {"slots": False}], ids=["slots", "dict"])


def make_layer(converter, kwargs):
    @mt.differentiable(**kwargs)
    class Layer:
        state0: object = mt.field(converter=converter)
        state: object = mt.field(converter=converter, trainable=False)

    return Layer


def started_from(m, x):
    """The state starts as the field's array, and is written in place."""
    m.state = m.state0
    m.state += x
    return np.sum(m.state * m.state0)


def written_after(m, y, x):
    """An array that is in the field by its converter, or is not, is written by its other name."""
    m.state = y
    y += x
    m.state *= 2
    return np.sum(m.state * y) + np.sum(m.state0 * m.state)


@EVERY_CLASS
@pytest.mark.parametrize("name", [*COPIES, *ALIASES, *VIEWS])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_an_array_is_shared_or_copied_as_in_the_plain_run(name, kwargs, dtype):
    Layer = make_layer({**COPIES, **ALIASES, **VIEWS}[name], kwargs)
    exact = dtype == np.float64 and "precision" not in name
    tolerance = {"rtol": 1e-6} if exact else {"rtol": 2e-3}
    start = np.asarray([1.0, 2.0], dtype)
    plain = Layer(start, start)
    plain.state = plain.state0
    copies = not np.shares_memory(plain.state, plain.state0)
    x = np.asarray([0.5, -0.5], dtype)
    # With a copy: sum((s + x) s), so 2 s + x, and s. Without: sum((s + x)**2), so 2 (s + x) twice.
    after = start + x
    expected = (2 * start + x, start) if copies else (2 * after, 2 * after)

    def loss(m, x):
        return started_from(m, x)

    box = Layer(start.copy(), start.copy())
    shape = box.state0.shape
    if exact:
        three_ways(
            lambda: (box, x),
            loss,
            (Fields(state0=expected[0].reshape(shape).tolist()), expected[1].tolist()),
            **tolerance,
        )
    box = Layer(start.copy(), start.copy())
    tangent, dx = mt.grad(loss, argnums=(0, 1))(box, x)
    np.testing.assert_allclose(tangent.state0, expected[0].reshape(shape), **tolerance)
    np.testing.assert_allclose(dx, expected[1], **tolerance)
    other = Layer(start.copy(), start.copy())
    started_from(other, x)
    for field in ("state0", "state"):
        got, wanted = getattr(box, field), getattr(other, field)
        assert got.dtype == wanted.dtype
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("name", [*COPIES, *ALIASES, *VIEWS])
def test_an_argument_is_shared_or_copied_as_in_the_plain_run(name):
    converter = {**COPIES, **ALIASES, **VIEWS}[name]
    if "precision" in name:
        pytest.skip("finite differences need more digits")
    Layer = make_layer(converter, {})

    def args():
        return Layer(np.array([1.0, 2.0]), np.array([3.0, 5.0])), np.array([7.0, 8.0]), 0.5

    three_ways(args, written_after, NUMERICAL)


@pytest.mark.parametrize("name", ["np.array", "asarray and copy", "np.asarray", "a row", "single precision"])
def test_forward_mode_checkpoints_and_second_derivatives_share_and_copy_alike(name):
    Layer = make_layer({**COPIES, **ALIASES, **VIEWS}[name], {})

    def loss(s, x):
        m = Layer(s, 0.0 * s)
        m.state = m.state0
        m.state += x
        return np.sum(m.state * m.state0 * m.state0)

    s, x = np.array([1.0, 2.0]), np.array([0.5, -0.5])
    copies = name in COPIES
    after = s + x
    value = np.sum(after * s * s) if copies else np.sum(after**3)
    ds, dx = (2 * s * after + s * s, s * s) if copies else (3 * after**2, 3 * after**2)
    for f in (loss, mt.checkpoint(loss)):
        # What shares memory with the argument writes into it.
        np.testing.assert_allclose(f(s.copy(), x), value)
        found = mt.grad(f, argnums=(0, 1))(s.copy(), x)
        np.testing.assert_allclose(found[0], ds, rtol=1e-6)
        np.testing.assert_allclose(found[1], dx, rtol=1e-6)
    _, slope = mt.jvp(loss, (s.copy(), x), (np.array([1.0, -1.0]), np.array([2.0, 3.0])))
    np.testing.assert_allclose(slope, ds @ [1.0, -1.0] + dx @ [2.0, 3.0], rtol=1e-6)
    if name == "a row":
        return  # a second field that holds a view of one array is an error when it is written
    second = mt.grad(lambda x: np.sum(mt.grad(loss, argnums=1)(s.copy(), x)))(x)
    np.testing.assert_allclose(second, 0 * s if copies else 6 * after, rtol=1e-6)


@pytest.mark.parametrize("name", [*COPIES, *ALIASES, *VIEWS])
def test_a_field_holds_the_assigned_array_a_view_of_it_or_a_copy(name):
    converter = {**COPIES, **ALIASES, **VIEWS}[name]
    Layer = make_layer(converter, {})
    m, y = Layer(np.ones(2), np.ones(2)), np.array([1.0, 2.0])

    def f(m, y):
        m.state = y
        return np.sum(m.state) * 1.0

    mt.vjp(f, m, y)
    assert (m.state is y) == (name in ALIASES)
    assert np.shares_memory(m.state, y) == (name not in COPIES)


LAYOUTS = {
    "asfortranarray": np.asfortranarray,
    "ascontiguousarray": np.ascontiguousarray,
    "asfortranarray by a lambda": unknown(np.asfortranarray),
    "require C": lambda v: np.require(v, requirements="C"),
    "require F and W": lambda v: np.require(v, requirements=["F", "W"]),
}


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize(
    "of",
    [lambda a: a, lambda a: a.T, lambda a: a[:, ::2], lambda a: a[::-1]],
    ids=["a", "a.T", "a[:, ::2]", "a[::-1]"],
)
def test_whether_a_layout_needs_a_copy_is_what_numpy_says(name, of):
    @mt.differentiable
    class Holder:
        v: object = mt.field(default=0.0, converter=LAYOUTS[name])

    def loss(a, x):
        part = of(a)
        m = Holder(part)
        m.v += x
        return np.sum(part * m.v * m.v)

    rng = np.random.default_rng(0)
    a, x = rng.normal(size=(4, 4)), 0.3
    b = of(a.copy())
    m = Holder(b)
    three_ways(lambda: (a, x), loss, NUMERICAL)
    made = []

    def note(a):
        made.append(Holder(of(a)).v)
        return np.sum(made[0])

    mt.grad(note)(a)
    assert primal(made[0]).flags.c_contiguous == m.v.flags.c_contiguous
    assert primal(made[0]).flags.f_contiguous == m.v.flags.f_contiguous


def test_the_layout_is_that_of_the_argument_in_a_nested_recording():
    @mt.differentiable
    class Holder:
        v: object = mt.field(default=0.0, converter=np.ascontiguousarray)

    def inner(part, x):
        m = Holder(part)
        m.v += x
        return np.sum(part * m.v)

    a = np.arange(1.0, 7.0).reshape(2, 3)
    for part in (a, a.T, a[:, ::2]):
        copies = not part.flags.c_contiguous
        of = (
            (lambda p: p) if part is a else (lambda p: p.T) if part.shape == (3, 2) else (lambda p: p[:, ::2])
        )
        slopes = mt.grad(lambda x, a, of=of: mt.grad(inner, argnums=1)(of(a), x) * x, argnums=(0, 1))(
            1.5, a.copy()
        )
        expected = np.sum(part) if copies else 2 * np.sum(part + 1.5) + 2 * part.size * 1.5
        np.testing.assert_allclose(slopes[0], expected)


# -- numbers that are the same by chance -------------------------------------------------------------------------------

SYMMETRIC = np.array([[1.0, 2.0], [2.0, 3.0]])


def in_place(v):
    a = np.asarray(v)
    a /= np.linalg.norm(a)
    return a


CHANCES = {
    "normalised": (lambda q: np.asarray(q) / np.linalg.norm(np.asarray(q)), np.array([0.6, 0.8])),
    "normalised in place": (in_place, np.array([1.0, 0.0])),
    "scaled zeros": (lambda v: np.asarray(v) * 1000, np.zeros(3)),
    "scaled zero": (lambda v: float(v) * 1000, 0.0),
    "scaled nan": (lambda v: float(v) * 1000, math.nan),
    "scaled infinity": (lambda v: np.asarray(v) * 1000, np.array([math.inf, 0.0])),
    "squared": (lambda v: float(v) ** 2, 1.0),
    "squared NumPy's": (lambda v: float(v) ** 2, np.float64(1.0)),
    "squared single": (lambda v: np.float32(float(v) ** 2), np.float32(1.0)),
    "tanh": (lambda v: 2 * math.tanh(v), 0.0),
    "transposed": (lambda v: np.asarray(v).T, SYMMETRIC),
    "transposed copy": (lambda v: np.asarray(v).T.copy(), SYMMETRIC),
    "reversed": (lambda v: np.asarray(v)[::-1], np.zeros(3)),
    "reversed palindrome": (lambda v: np.asarray(v)[::-1], np.array([1.0, 2.0, 1.0])),
    "symmetrised": (lambda v: (np.asarray(v) + np.asarray(v).T) / 2, SYMMETRIC),
    "centred": (lambda v: np.asarray(v) - np.mean(np.asarray(v)), np.array([-1.0, 1.0])),
    "clipped at the bound": (lambda v: np.clip(np.asarray(v), 0, 1), np.array([1.0, 0.5])),
    "rounded": (lambda v: np.round(np.asarray(v), 3), np.array([0.5, 0.25])),
    "floor": (lambda v: float(math.floor(v)), 2.0),
    "real part": (lambda v: complex(v).real + 0j, 2.0 + 0j),
    "conjugate": (lambda v: np.conj(np.asarray(v)), np.array([2.0 + 0j])),
    "constant": (lambda v: np.ones(len(np.asarray(v))), np.ones(2)),
    "broadcast": (lambda v: np.broadcast_to(np.asarray(v)[:1], 3).copy(), np.ones(3)),
    "half precision and back": (lambda v: np.asarray(v, np.float16).astype(float), np.ones(3)),
    "normalised single": (
        lambda q: np.asarray(q) / np.linalg.norm(np.asarray(q)),
        np.array([1.0, 0.0], np.float32),
    ),
    "piped": (attrs.converters.pipe(float, lambda v: v**2), 1.0),
    "optional": (attrs.converters.optional(lambda v: float(v) ** 2), 1.0),
}


@EVERY_CLASS
@pytest.mark.parametrize("name", CHANCES)
def test_numbers_that_are_the_same_by_chance_are_refused(name, kwargs):
    converter, value = CHANCES[name]

    @mt.differentiable(**kwargs)
    class Chance:
        v: object = mt.field(converter=converter)

    def total(x):
        m = Chance(x)
        return np.real(np.sum(m.v))

    def written(m, x):
        m.v = x
        return np.real(np.sum(m.v))

    m = Chance(value)
    before = np.copy(value)

    def in_context():
        with mt.Context() as ctx:
            m.v = ctx.watch(np.atleast_1d(value))[...] if np.ndim(value) else ctx.watch(np.array([value]))[0]
            ctx.grad(np.real(np.sum(m.v)), m)

    ways = [
        in_context,
        lambda: mt.grad(total)(value),
        lambda: mt.vjp(total, value),
        lambda: mt.grad(written, argnums=1)(m, value),
        lambda: mt.jvp(total, (value,), (value,)),
        lambda: mt.grad(mt.checkpoint(total))(value),
        lambda: mt.jvp(mt.grad(total), (value,), (value,)),
    ]
    for way in ways:
        with pytest.raises(mt.NotCapturedError, match=r"the converter .* of Chance\.v"):
            way()
        np.testing.assert_array_equal(value, before)


@mt.differentiable
class Gain:
    scale: float
    v: object = mt.field(converter=attrs.Converter(lambda v, o: float(v) * o.scale, takes_self=True))


def test_a_converter_that_multiplies_by_a_traced_field_is_refused():
    def loss(m, x):
        m.v = x
        return m.v * 2

    with pytest.raises(mt.NotCapturedError, match=r"of Gain\.v"):
        mt.grad(loss, argnums=(0, 1))(Gain(1.0, 2.0), 3.0)


def probability(v):
    v = np.asarray(v, dtype=np.float64)
    if not math.isclose(v.sum(), 1):
        raise ValueError("no probabilities")
    return v


def copied_probability(v):
    return probability(v).copy()


def in_range(v):
    v = float(v)
    if not 0 <= v <= 1:
        raise ValueError("out of range")
    return v


def array_in_range(v):
    v = np.array(v)
    if v.min() < 0 or v.max() > 1:
        raise ValueError("out of range")
    return v


@pytest.mark.parametrize(
    ("converter", "value"),
    [
        (probability, np.array([0.25, 0.75])),
        (in_range, 1.0),
        (in_range, 0.0),
        (in_range, np.float64(1.0)),
        (in_range, np.float64(0.0)),
        (array_in_range, np.zeros(3)),
        (array_in_range, np.ones(3)),
        (array_in_range, np.array([0.0, 0.5, 1.0])),
    ],
)
def test_a_converter_that_checks_its_value_is_followed(converter, value):
    @mt.differentiable
    class Checked:
        v: object = mt.field(converter=converter)

    slope = mt.grad(lambda x: np.sum(Checked(x).v * 3))(value)
    np.testing.assert_allclose(slope, 3 * np.ones_like(value))


def test_a_copy_that_no_other_numbers_are_taken_for_is_refused_with_what_to_write():
    @mt.differentiable
    class Checked:
        v: object = mt.field(converter=copied_probability)

    with pytest.raises(
        mt.NotCapturedError,
        match=r"converter copied_probability of Checked\.v gave back .* raised ValueError: no probabilities.*validator",
    ):
        mt.grad(lambda x: np.sum(Checked(x).v * 3))(np.array([0.25, 0.75]))


def test_a_converter_that_writes_into_its_argument_is_refused():
    @mt.differentiable
    class Written:
        v: object = mt.field(converter=in_place)

    x = np.array([3.0, 4.0])
    with pytest.raises(
        mt.NotCapturedError, match=r"in_place of Written\.v writes into the array that it is given"
    ):
        mt.grad(lambda x: np.sum(Written(x).v))(x)
    assert x.tolist() == [3.0, 4.0]


def frozen(v):
    v = np.asarray(v)
    v.flags.writeable = False
    return v


def frozen_view(v):
    v = np.asarray(v)[...]
    v.flags.writeable = False
    return v


def frozen_copy(v):
    v = np.array(v)
    v.flags.writeable = False
    return v


def test_a_converter_that_makes_its_argument_read_only_is_refused_with_what_to_write():
    @mt.differentiable
    class Frozen:
        v: object = mt.field(converter=frozen)

    x = np.array([3.0, 4.0])
    with pytest.raises(
        mt.NotCapturedError,
        match=r"the converter frozen of Frozen\.v makes the array that it is given read-only, .+ Let it freeze a copy: "
        r"`v = np\.array\(v\)`, then `v\.flags\.writeable = False`\.",
    ):
        mt.grad(lambda x: np.sum(Frozen(x).v))(x)
    assert x.flags.writeable
    x.flags.writeable = False
    assert mt.grad(lambda x: np.sum(Frozen(x).v))(x).tolist() == [1.0, 1.0]


@pytest.mark.parametrize("converter", [frozen_view, frozen_copy])
def test_a_converter_that_gives_back_a_read_only_view_or_copy_is_followed(converter):
    @mt.differentiable
    class Frozen:
        v: object = mt.field(converter=converter)

    def loss(x, write):
        y = x * 2.0
        o = Frozen(y)
        y[1] = 5.0
        if write:
            o.v[0] = 1.0
        return np.sum(o.v**2)

    x = np.array([3.0, 4.0])
    assert mt.grad(loss)(x, write=False).tolist() == [24.0, 0.0 if converter is frozen_view else 32.0]
    with pytest.raises(ValueError, match="read-only"):
        loss(x, write=True)
    with pytest.raises(ValueError, match="read-only"):
        mt.grad(loss)(x, write=True)


def test_a_converter_notes_in_fields_once_what_is_no_number():
    def noted(v, o):
        made = np.array(v)
        o.shapes = [*o.shapes, made.shape]
        o.seen.append(made.shape)
        return made

    @mt.differentiable
    class Noting:
        shapes: list = attrs.Factory(list)
        seen: list = attrs.Factory(list)
        v: object = mt.field(default=0.0, converter=attrs.Converter(noted, takes_self=True))

    def loss(m, x):
        m.v = x * 2
        return np.sum(m.v * m.v)

    m = Noting()
    np.testing.assert_allclose(mt.grad(loss, argnums=1)(m, np.array([1.0, 2.0])), [8.0, 16.0])
    assert m.shapes == [(), (2,)]
    assert m.seen == [(), (2,)]


@pytest.mark.parametrize("note", ["text", "number", "numbers"])
def test_a_number_that_a_converter_makes_and_puts_into_a_field_is_refused(note):
    def noted(v, o):
        plain = np.asarray(v)
        o.note = {"text": str(plain), "number": float(np.sum(plain)), "numbers": [*plain.flat]}[note]
        return np.array(v)

    @mt.differentiable
    class Noting:
        note: object = None
        v: object = mt.field(default=0.0, converter=attrs.Converter(noted, takes_self=True))

    def loss(m, x):
        m.v = x * 2
        return np.sum(m.v) * (1.0 if note == "text" else np.sum(m.note))

    m, x = Noting(), np.array([1.0, 2.0])
    if note == "text":
        np.testing.assert_array_equal(mt.grad(loss, argnums=1)(m, x), [2.0, 2.0])
        assert m.note == "[2. 4.]"
    else:
        with pytest.raises(
            mt.NotCapturedError, match=r"the converter noted of Noting\.v .* into Noting\.note"
        ):
            mt.grad(loss, argnums=1)(m, x)


def squared_if_a_number(v):
    try:
        return float(v) ** 2
    except TypeError:
        return v


def float_if_a_number(v):
    try:
        return float(v)
    except (TypeError, ValueError):
        return v


@pytest.mark.parametrize("as_hook", [False, True], ids=["converter", "hook"])
def test_a_converter_that_catches_our_error_takes_the_way_of_the_plain_run(as_hook):
    def made(function):
        hook = {"on_setattr": lambda i, a, v: function(v)} if as_hook else {"converter": function}

        @mt.differentiable
        class Trying:
            v: object = mt.field(default=0.0, **hook)

        return Trying()

    def loss(m, x):
        m.v = x
        return np.sum(m.v * m.v)

    for value in (1.0, 3.0, np.float64(3.0)):
        with pytest.raises(mt.NotCapturedError, match=r"of Trying\.v (turned|gave back)"):
            mt.grad(loss, argnums=1)(made(squared_if_a_number), value)
        m = made(float_if_a_number)
        assert mt.grad(loss, argnums=1)(m, value) == 2 * value
        assert type(m.v) is float
    m = made(float_if_a_number)
    x = np.array([1.0, 2.0])
    np.testing.assert_array_equal(mt.grad(loss, argnums=1)(m, x), 2 * x)
    assert m.v is x


# -- arrays without axes and scalars -----------------------------------------------------------------------------------


@EVERY_CLASS
@pytest.mark.parametrize(
    "converter",
    [np.asarray, np.array, np.asanyarray, unknown(np.asarray), lambda v: np.array(v, dtype=float)],
    ids=["asarray", "array", "asanyarray", "lambda", "array by a lambda"],
)
@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_a_number_becomes_an_array_that_can_be_written(converter, kwargs, kind):
    @mt.differentiable(**kwargs)
    class C:
        x: object = mt.field(converter=converter)

    def f(o, v):
        o.x = o.x * 3
        a = o.x
        a += v
        return np.sum(o.x * v)

    three_ways(lambda: (C(2.0), 1.5), f, (Fields(x=4.5), 9.0))

    def g(o, v):
        o.x = o.x * 3
        o.x[...] = v * v
        return o.x * v

    three_ways(lambda: (C(2.0), 1.5), lambda o, v: np.sum(g(o, v)), (Fields(x=0.0), 6.75))
    o = C(kind(2.0))
    with mt.Context() as ctx:
        o.x = o.x * kind(3)
        assert type(primal(o.x)) is np.ndarray
        assert primal(o.x).dtype == C(kind(2) * kind(3)).x.dtype
        out = np.sum(o.x * 2)
    assert float(ctx.grad(out, o).x) == 6.0
    assert type(o.x) is np.ndarray
    assert o.x.shape == ()
    assert mt.grad(lambda x: np.sum(C(x).x ** 2))(kind(3.0)) == 6.0
    assert mt.grad(mt.grad(lambda x: np.sum(C(x).x ** 3)))(kind(3.0)) == 18.0
    assert mt.jvp(lambda x: np.sum(C(x).x ** 2), (kind(3.0),), (kind(1.0),))[1] == 6.0
    assert mt.grad(mt.checkpoint(lambda x: np.sum(C(x).x ** 2)))(kind(3.0)) == 6.0


@pytest.mark.parametrize("kind", [float, np.float64, np.float32, np.float16])
@pytest.mark.parametrize(
    "converter",
    [
        float,
        complex,
        np.float64,
        np.float32,
        np.complex64,
        unknown(float),
        unknown(np.float32),
        unknown(complex),
    ],
    ids=[
        "float",
        "complex",
        "float64",
        "float32",
        "complex64",
        "lambda float",
        "lambda float32",
        "lambda complex",
    ],
)
def test_a_number_becomes_one_of_the_type_that_the_converter_gives(kind, converter):
    @mt.differentiable
    class C:
        x: object = mt.field(converter=converter)

    for value in (kind(1.5), np.array(1.5, kind)):
        m, seen = C(value), []

        def f(m, x, seen=seen):
            m.x = x
            seen.append(m.x)
            return np.real(np.sum(m.x)) * 2

        slope = mt.grad(f, argnums=1)(m, value)
        assert type(primal(seen[0])) is type(C(value).x)
        assert type(m.x) is type(C(value).x)
        assert slope == 2


def test_an_array_of_one_number_becomes_a_number():
    @mt.differentiable
    class C:
        x: object = mt.field(converter=lambda v: np.asarray(v).item())

    np.testing.assert_array_equal(mt.grad(lambda x: C(x).x ** 2)(np.array([[3.0]])), [[6.0]])


def test_a_read_only_copy_stays_read_only():
    def frozen(v):
        v = np.array(v)
        v.flags.writeable = False
        return v

    @mt.differentiable
    class C:
        x: object = mt.field(converter=frozen)

    def f(x):
        m = C(x * 2)
        m.x += 1
        return np.sum(m.x)

    with pytest.raises(ValueError, match="read-only"):
        mt.grad(f)(np.ones(2))
    np.testing.assert_array_equal(mt.grad(lambda x: np.sum(C(x).x ** 2))(np.ones(2)), [2.0, 2.0])


def as_given(v):
    return np.asarray(v)


@pytest.mark.parametrize("converter", [None, np.asarray, as_given, array_in_range])
@pytest.mark.parametrize("as_hook", [False, True])
def test_an_array_that_was_written_is_the_same_array_in_a_pause(converter, as_hook):
    @mt.differentiable
    class Holder:
        v: object = (
            mt.field(on_setattr=lambda _o, _a, v: v if converter is None else converter(v))
            if as_hook
            else mt.field(converter=converter)
        )

    def run(o, other, w):
        o.v[:] = w
        with mt.pause():
            other.v = o.v
        o.v[0] = 0.25
        return np.sum(o.v**2)

    places = []
    for differentiated in (True, False):
        o, other = Holder(np.ones(3)), Holder(np.zeros(1))
        array = o.v
        args = (o, other, np.array([0.5, 0.5, 1.0]))
        if differentiated:
            assert mt.grad(run, argnums=2)(*args).tolist() == [0.0, 1.0, 2.0]
        else:
            run(*args)
        places.append((o.v is array, other.v is array, other.v.tolist()))
    assert places[0] == places[1]


@pytest.mark.parametrize("converter", [None, np.asarray, as_given])
def test_an_array_that_is_written_after_the_pause_is_written_by_all_its_names(converter):
    @mt.differentiable
    class Holder:
        v: object = mt.field(converter=converter)

    def run(o, x):
        y = x * 1.0
        with mt.pause():
            o.v = y
        y[1] = 7.0
        return np.sum(o.v) * np.sum(x)

    x = np.array([1.0, 2.0])
    plain, recorded = Holder(np.ones(2)), Holder(np.ones(2))
    assert mt.value_and_grad(run, argnums=1)(recorded, x)[0] == run(plain, x) == 24.0
    assert recorded.v.tolist() == plain.v.tolist() == [1.0, 7.0]


@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("converter", [np.asarray, as_given, float])
def test_what_is_converted_in_a_pause_is_a_constant(converter, written):
    @mt.differentiable
    class Holder:
        v: object = mt.field(converter=converter)

    def loss(o, other):
        if written and converter is not float:
            o.v[:] = o.v * 2.0
        with mt.pause():
            other.v = o.v
        return np.sum(other.v * o.v)

    value = 3.0 if converter is float else np.array([1.0, 3.0])
    o, other = Holder(np.copy(value)[()]), Holder(np.zeros(1) if converter is not float else 0.0)
    factor = 4.0 if written and converter is not float else 1.0
    np.testing.assert_array_equal(mt.grad(loss)(o, other).v, factor * np.asarray(value))


def test_a_copy_in_a_pause_is_a_copy():
    @mt.differentiable
    class C:
        x: object = mt.field(converter=np.array)

    def f(v):
        m = C(np.zeros(2))
        y = v * 2
        with mt.pause():
            m.x = y
            m.x += 5
        return np.sum(y * y)

    np.testing.assert_array_equal(mt.grad(f)(np.ones(2)), [8.0, 8.0])


# -- hooks -------------------------------------------------------------------------------------------------------------

HOOKS = {
    "asarray": lambda i, a, v: np.asarray(v),
    "array": lambda i, a, v: np.array(v),
    "single precision": lambda i, a, v: np.asarray(v, np.float32),
    "piped": [attrs.setters.convert, lambda i, a, v: np.array(v)],
    "in a pipe of pipes": attrs.setters.pipe(
        attrs.setters.validate, attrs.setters.pipe(lambda i, a, v: np.array(v))
    ),
}


@EVERY_CLASS
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("whole", [False, True], ids=["field", "class"])
def test_a_hook_that_converts_is_followed(name, whole, kwargs):
    kwargs = {**kwargs, "on_setattr": HOOKS[name]} if whole else kwargs

    @mt.differentiable(**kwargs)
    class Hooked:
        v: object = mt.field() if whole else mt.field(on_setattr=HOOKS[name])

    def loss(m, y):
        m.v = y
        y += m.v
        return np.sum(m.v * y)

    y = np.array([1.0, 2.0])
    if name == "asarray":
        three_ways(lambda: (Hooked(np.zeros(2)), y), loss, (Fields(v=[0.0, 0.0]), (8 * y).tolist()))
    else:
        three_ways(
            lambda: (Hooked(np.zeros(2)), y), loss, (Fields(v=[0.0, 0.0]), (4 * y).tolist()), rtol=1e-5
        )

    @mt.differentiable(**kwargs)
    class Below(Hooked):
        w: object = 1.0

    assert mt.grad(lambda m, y: loss(m, y * 1.0))(Below(np.zeros(2)), y).w == mt.ZeroTangent()


def test_a_subclass_that_is_no_captured_class_of_its_own_has_the_hook():
    @mt.differentiable
    class Hooked:
        v: object = mt.field(on_setattr=lambda i, a, v: np.array(v))

    @attrs.define
    class Below(Hooked):
        pass

    def loss(m, y):
        m.v = y
        return np.sum(m.v * y)

    np.testing.assert_array_equal(mt.grad(loss, argnums=1)(Below(0.0), np.ones(2)), [2.0, 2.0])


def test_a_hook_that_computes_plain_numbers_is_refused_by_name():
    def squared(instance, attribute, value):
        return float(value) ** 2

    @mt.differentiable
    class Hooked:
        v: float = mt.field(on_setattr=squared)

    def loss(m, y):
        m.v = y
        return m.v * 2

    for value in (1.0, 3.0):
        with pytest.raises(
            mt.NotCapturedError,
            match=r"the on_setattr hook squared of Hooked\.v .* Write it with NumPy functions",
        ):
            mt.grad(loss, argnums=1)(Hooked(0.0), value)


def test_a_hook_that_logs_a_plain_number_changes_nothing():
    seen = []

    def log(instance, attribute, value):
        seen.append(float(value))
        return value

    @mt.differentiable
    class Hooked:
        v: float = mt.field(on_setattr=log)

    def loss(m, y):
        m.v = y * 2
        return m.v * 2

    assert mt.grad(loss, argnums=1)(Hooked(0.0), 3.0) == 4.0
    assert seen == [6.0]
