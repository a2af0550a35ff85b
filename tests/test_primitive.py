"""Users' rules: on functions, on methods that mutate, on ufuncs; declining; and functions without a derivative."""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


def close(actual, expected):
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------- functions


def counted_cube():
    calls = {"plain": 0, "rule": 0, "pullback": 0}

    @mt.primitive
    def cube(x):
        calls["plain"] += 1
        return x**3

    @cube.rrule
    def cube(x):
        calls["rule"] += 1

        def cube_pullback(y_bar):
            calls["pullback"] += 1
            return (3 * x**2 * y_bar,)

        return x**3, cube_pullback

    return cube, calls


def test_a_rule_is_used_once_per_call_and_the_function_where_nothing_is_traced(xp):
    cube, calls = counted_cube()
    assert cube(2.0) == 8.0
    assert calls == {"plain": 1, "rule": 0, "pullback": 0}
    for k in range(3):
        close(mt.grad(lambda x: np.sum(cube(x)))(xp.asarray([2.0, 1.0])), [12.0, 3.0])
        assert calls == {"plain": 1, "rule": k + 1, "pullback": k + 1}
    _, pullback = mt.vjp(cube, 2.0)
    assert pullback(1.0) == pullback(1.0) == (12.0,)


def test_a_primitive_keeps_its_name_and_documentation():
    @mt.primitive
    def named(x):
        """What it does."""
        return x

    assert named.__name__ == "named"
    assert named.__doc__ == "What it does."
    assert "named" in repr(named)


def test_a_rule_overrides_the_derivative_of_what_the_function_calls(xp):
    @mt.primitive
    def rounded(x):
        return np.round(x)

    @rounded.rrule
    def rounded(x):
        return np.round(x), lambda y_bar: (y_bar,)

    for _ in range(3):
        close(mt.grad(lambda x: np.sum(rounded(x) * x))(xp.asarray([1.4, 2.6])), [1.4 + 1, 2.6 + 3])


def test_the_second_derivative_of_a_rule_written_with_numpy(xp):
    cube, _ = counted_cube()
    for _ in range(3):
        assert mt.grad(mt.grad(cube))(2.0) == pytest.approx(12.0)
        assert mt.grad(mt.grad(mt.grad(cube)))(2.0) == pytest.approx(6.0)
        close(
            mt.grad(lambda x: np.sum(mt.grad(lambda x: np.sum(cube(x)))(x) ** 2))(xp.asarray([2.0, 1.0])),
            [288.0, 36.0],
        )


def test_several_arguments_and_several_results(xp):
    @mt.primitive
    def polar(r, angle):
        return r * np.cos(angle), r * np.sin(angle)

    @polar.rrule
    def polar(r, angle):
        x, y = r * np.cos(angle), r * np.sin(angle)

        def polar_pullback(bar):
            x_bar, y_bar = bar
            return x_bar * np.cos(angle) + y_bar * np.sin(angle), -x_bar * y + y_bar * x

        return (x, y), polar_pullback

    def unruled(r, angle):
        return r * np.cos(angle), r * np.sin(angle)

    losses = [
        lambda f, r, angle: np.sum(f(r, angle)[0] ** 2 * f(r, angle)[1]),
        lambda f, r, angle: np.sum(f(r, angle)[0] ** 2),
        lambda f, r, angle: np.sum(f(r, angle)[1] ** 3),
    ]
    r, angle = xp.asarray([1.5, 0.5]), xp.asarray([0.3, 1.2])
    for loss in losses:
        ruled, expected = (
            mt.grad(lambda r, angle, f=f, loss=loss: loss(f, r, angle), argnums=(0, 1))(r, angle)
            for f in (polar, unruled)
        )
        close(ruled[0], expected[0])
        close(ruled[1], expected[1])


def test_arguments_without_a_tangent_space_get_no_tangent(xp):
    @mt.primitive
    def power(x, n, name):
        return x**n

    @power.rrule
    def power(x, n, name):
        return x**n, lambda y_bar: (n * x ** (n - 1) * y_bar, mt.NoTangent(), mt.NoTangent())

    for _ in range(3):
        close(mt.grad(lambda x: np.sum(power(x, 3, "name")))(xp.asarray([2.0, 1.0])), [12.0, 3.0])
        close(mt.grad(lambda x: np.sum(power(x, name="name", n=3)))(xp.asarray([2.0, 1.0])), [12.0, 3.0])


def test_a_zero_tangent_for_an_argument_adds_nothing(xp):
    @mt.primitive
    def first(x, y):
        return x + 0 * y

    @first.rrule
    def first(x, y):
        return x + 0 * y, lambda y_bar: (y_bar, mt.ZeroTangent())

    dx, dy = mt.grad(lambda x, y: np.sum(first(x, y)), argnums=(0, 1))(xp.asarray([2.0]), xp.asarray([3.0]))
    close(dx, [1.0])
    close(dy, [0.0])


def test_objects_and_containers_as_arguments_of_a_rule(xp):
    @mt.primitive
    def weigh(box, pair, options):
        return box.v * pair[0] + box.w * options["x"]

    @weigh.rrule
    def weigh(box, pair, options):
        v, w = box.v, box.w

        def weigh_pullback(y_bar):
            return (
                mt.Tangent(Box, v=y_bar * pair[0], w=np.sum(y_bar * options["x"])),
                (y_bar * v, mt.NoTangent()),
                {"x": y_bar * w},
            )

        return v * pair[0] + w * options["x"], weigh_pullback

    def loss(box, a, b):
        return np.sum(weigh(box, (a, "text"), {"x": b}) ** 2)

    def unruled(box, a, b):
        return np.sum((box.v * a + box.w * b) ** 2)

    arguments = Box(xp.asarray([2.0, 1.0]), 3.0), xp.asarray([0.5, 0.3]), xp.asarray([0.2, -1.0])
    for _ in range(3):
        ruled = mt.grad(loss, argnums=(0, 1, 2))(*arguments)
        expected = mt.grad(unruled, argnums=(0, 1, 2))(*arguments)
        close(ruled[0].v, expected[0].v)
        close(ruled[0].w, expected[0].w)
        close(ruled[1], expected[1])
        close(ruled[2], expected[2])


def test_a_rule_that_declines_leaves_the_arguments_to_the_function(xp):
    calls = []

    @mt.primitive
    def square(x):
        return x * x

    @square.rrule
    def square(x):
        calls.append(np.ndim(x))
        if np.ndim(x) == 0:
            return NotImplemented
        return x * x, lambda y_bar: (100 * x * y_bar,)

    for _ in range(3):
        assert mt.grad(square)(3.0) == 6.0
        close(mt.grad(lambda x: np.sum(square(x)))(xp.asarray([3.0])), [300.0])
    assert calls == [0, 1] * 3


def test_a_rule_that_declines_after_a_write_undoes_the_write():
    @mt.differentiable
    class Counter:
        n: float

        @mt.primitive
        def step(self, x):
            self.n = self.n + x
            return self.n

        @step.rrule
        def step(self, x):
            self.n = self.n + 1000.0
            return NotImplemented

    for _ in range(3):
        c = Counter(1.0)
        tangent, dx = mt.grad(lambda c, x: c.step(x) * c.step(x), argnums=(0, 1))(c, 2.0)
        # (n + x)(n + 2x)
        assert tangent.n == 3.0 + 5.0
        assert dx == 5.0 + 2 * 3.0
        assert c.n == 5.0


def test_a_primitive_without_a_rule_is_loud_only_where_it_is_differentiated(xp):
    @mt.primitive
    def unknown(x):
        return x * 2

    assert unknown(2.0) == 4.0
    assert mt.grad(lambda x: x * unknown(3.0))(1.0) == 6.0
    for _ in range(3):
        with pytest.raises(mt.NoRuleError, match=r"unknown(.|\n)*rrule"):
            mt.grad(lambda x: np.sum(unknown(x)))(xp.asarray([1.0]))


# ---------------------------------------------------------------- ufuncs and NumPy functions


def test_a_rule_for_a_ufunc_without_one(xp):
    softsign = np.frompyfunc(lambda a: a / (1 + abs(a)), 1, 1)

    def floats(x):
        return np.asarray(softsign(x)).astype(float)

    @mt.rrule(softsign)
    def softsign_rrule(x):
        return floats(x), lambda y_bar: (y_bar / (1 + np.abs(x)) ** 2,)

    x = xp.asarray([1.0, -3.0])
    for _ in range(3):
        close(mt.grad(lambda x: np.sum(softsign(x)))(x), [0.25, 1 / 16])
        close(mt.grad(lambda o: np.sum(softsign(o.v) * o.v))(Box(x)).v, [0.5 + 0.25, -0.75 - 3 / 16])
    assert softsign(1.0) == 0.5


def test_a_rule_for_a_ufunc_of_two_operands_gets_constants_too(xp):
    join = np.frompyfunc(lambda a, b: a * b + a, 2, 1)

    @mt.rrule(join)
    def join_rrule(a, b):
        return a * b + a, lambda y_bar: (y_bar * (b + 1), y_bar * a)

    x = xp.asarray([1.0, -3.0])
    for _ in range(3):
        close(mt.grad(lambda x: np.sum(join(x, 2.0)))(x), [3.0, 3.0])
        close(mt.grad(lambda x: np.sum(join(xp.asarray([2.0, 5.0]), x)))(x), [2.0, 5.0])
        close(mt.grad(lambda x: np.sum(join(x, x)))(x), [3.0, -5.0])


# ---------------------------------------------------------------- functions without a derivative


def test_a_non_differentiable_function_gives_constants(xp):
    @mt.non_differentiable
    def count(x, threshold):
        return float(np.sum(np.asarray(x) > threshold))

    def loss(x):
        return np.sum(x) * count(x, threshold=1.5)

    assert count(np.array([1.0, 2.0]), 0.0) == 2.0
    assert count.__name__ == "count"
    for _ in range(3):
        close(mt.grad(loss)(xp.asarray([1.0, 2.0, 3.0])), [2.0, 2.0, 2.0])


def test_a_non_differentiable_function_stops_every_order():
    @mt.non_differentiable
    def square(x):
        return x * x

    for _ in range(3):
        assert mt.grad(lambda x: x * square(x))(3.0) == 9.0
        assert mt.grad(mt.grad(lambda x: x * x * square(x)))(3.0) == 18.0


# ---------------------------------------------------------------- methods that mutate


@mt.differentiable
class Filter:
    """A leaky integrator with a rule that reads, writes, and hands back one step's tangents."""

    a: object
    s: object
    count: int = 0

    @mt.primitive
    def step(self, x):
        self.count += 1
        self.s = self.a * self.s + x
        return self.s * self.s

    @step.rrule
    def step(self, x):
        a, s = self.a, self.s
        self.count += 1
        new = self.s = a * s + x

        def step_pullback(y_bar, written):
            new_bar = written[self].s + 2 * new * y_bar
            return mt.Tangent(Filter, a=new_bar * s, s=new_bar * a), new_bar

        return new * new, step_pullback

    def unruled(self, x):
        self.count += 1
        self.s = self.a * self.s + x
        return self.s * self.s


PROGRAMS = {
    "sum": lambda step, f, xs: sum(step(x) for x in xs),
    "last": lambda step, f, xs: [step(x) for x in xs][-1],
    "state": lambda step, f, xs: ([step(x) for x in xs], f.s)[1],
    "first and state": lambda step, f, xs: (step(xs[0]), step(xs[1]))[0] * f.s,
    "fed back": lambda step, f, xs: step(step(step(xs[0]))),
    "written between": lambda step, f, xs: (step(xs[0]), setattr(f, "s", f.s * xs[1]), step(xs[2]))[2],
    "parameter changed": lambda step, f, xs: (step(xs[0]), setattr(f, "a", f.a * xs[1]), step(xs[2]))[2],
    "unused call": lambda step, f, xs: (step(xs[0]), setattr(f, "s", xs[1]), step(xs[2]))[2],
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("scalar", [True, False])
def test_a_ruled_step_agrees_with_the_unruled_one(program, scalar, xp):
    def make():
        if scalar:
            return Filter(0.7, 0.4), [0.3, -0.2, 0.5]
        return Filter(xp.asarray([0.7, -0.5]), xp.asarray([0.4, 1.0])), [
            xp.asarray(x) for x in ([0.3, 0.1], [-0.2, 0.6], [0.5, 0.4])
        ]

    def ruled(f, xs):
        return np.sum(program(f.step, f, xs))

    def unruled(f, xs):
        return np.sum(program(f.unruled, f, xs))

    f, xs = make()
    g, _ = make()
    for _ in range(3):
        tangent, dxs = mt.grad(ruled, argnums=(0, 1))(f, xs)
        expected, expected_dxs = mt.grad(unruled, argnums=(0, 1))(g, xs)
        close(tangent.a, expected.a)
        close(np.asarray(tangent.s), np.asarray(expected.s))
        for dx, expected_dx in zip(dxs, expected_dxs, strict=True):
            close(np.asarray(dx), np.asarray(expected_dx))
        close(f.s, g.s)
        assert f.count == g.count
        assert type(f.s) is type(g.s)
        assert type(f.count) is int


def test_a_ruled_step_in_a_context_and_by_vjp():
    f = Filter(0.7, 0.4)
    with mt.Context() as ctx:
        out = f.step(0.3) + f.step(-0.2)
    g = Filter(0.7, 0.4)
    expected = mt.grad(lambda g: g.unruled(0.3) + g.unruled(-0.2))(g)
    for _ in range(2):
        close(ctx.grad(out, f).a, expected.a)
        close(ctx.grad(out, f).s, expected.s)
    f.s = 0.4
    _, pullback = mt.vjp(lambda f: f.step(0.3) + f.step(-0.2), f)
    for _ in range(2):
        close(pullback(1.0)[0].a, expected.a)


def test_a_ruled_step_outside_a_recording_is_the_plain_method():
    f, g = Filter(0.7, 0.4), Filter(0.7, 0.4)
    assert f.step(0.3) == g.unruled(0.3)
    assert (f.s, f.count) == (g.s, 1)


def test_the_second_derivative_through_a_ruled_step():
    def slope(name):
        def loss(a, s):
            f = Filter(a, s)
            step = getattr(f, name)
            return step(0.3) * step(-0.2) + f.s

        return [mt.grad(mt.grad(loss, argnums=i), argnums=j)(0.7, 0.4) for i in (0, 1) for j in (0, 1)]

    for _ in range(3):
        close(slope("step"), slope("unruled"))


def test_an_exception_after_a_ruled_step_rolls_its_writes_back():
    def fails(f):
        f.step(0.3)
        raise KeyError

    f = Filter(0.7, 0.4)
    for _ in range(3):
        with pytest.raises(KeyError):
            mt.grad(fails)(f)
        assert (f.s, f.count) == (0.4, 0)


def test_a_ruled_step_that_writes_a_child_and_an_argument():
    @mt.differentiable
    class Parent:
        child: Box

        @mt.primitive
        def push(self, other, x):
            self.child.v = self.child.v * x
            other.v = other.v + x
            return self.child.v

        @push.rrule
        def push(self, other, x):
            v = self.child.v
            self.child.v = new = v * x
            other.v = other.v + x

            def push_pullback(y_bar, written):
                new_bar = y_bar + written[self.child].v
                other_bar = written[other].v
                return (
                    mt.Tangent(Parent, child=mt.Tangent(Box, v=new_bar * x)),
                    mt.Tangent(Box, v=other_bar),
                    new_bar * v + other_bar,
                )

            return new, push_pullback

    def loss(p, o, x):
        y = p.push(o, x)
        p.push(o, x * 2)
        return y * p.child.v * o.v

    # child: v x, then 2 v x²; other: o + 3 x; so v x · 2 v x² · (o + 3x)
    for _ in range(3):
        p, o = Parent(Box(1.5)), Box(0.5)
        dp, do, dx = mt.grad(loss, argnums=(0, 1, 2))(p, o, 2.0)
        close(dp.child.v, 4 * 1.5 * 8 * 6.5)
        close(do.v, 2 * 1.5**2 * 8)
        close(dx, 6 * 1.5**2 * 4 * 6.5 + 2 * 1.5**2 * 8 * 3)
        assert (p.child.v, o.v) == (12.0, 6.5)


def test_a_ruled_method_of_a_subclass_that_calls_super():
    @mt.differentiable
    class Louder(Filter):
        gain: float = 2.0

        def step(self, x):
            return super().step(x) * self.gain

    def loss(f):
        return f.step(0.3) + f.step(-0.2)

    for _ in range(3):
        tangent = mt.grad(loss)(Louder(0.7, 0.4))
        expected = mt.grad(lambda g: 2.0 * (g.unruled(0.3) + g.unruled(-0.2)))(Filter(0.7, 0.4))
        close(tangent.a, expected.a)
        close(tangent.s, expected.s)
        g = Filter(0.7, 0.4)
        close(tangent.gain, g.unruled(0.3) + g.unruled(-0.2))


def test_a_pullback_whose_call_wrote_only_a_counter_needs_no_written():
    @mt.differentiable
    class Counted:
        w: float
        n: int = 0

        @mt.primitive
        def scale(self, x):
            self.n += 1
            return self.w * x

        @scale.rrule
        def scale(self, x):
            self.n += 1
            w = self.w
            return w * x, lambda y_bar: (mt.Tangent(Counted, w=y_bar * x), y_bar * w)

    for _ in range(3):
        c = Counted(3.0)
        tangent, dx = mt.grad(lambda c, x: c.scale(x) * c.scale(x), argnums=(0, 1))(c, 2.0)
        assert (tangent.w, dx) == (24.0, 36.0)
        assert c.n == 2


@pytest.mark.parametrize("ruled", ["primitive", "ufunc"])
def test_a_pullback_cannot_write_into_a_cotangent_that_others_share(ruled):
    def rule(x):
        def pullback(y_bar):
            y_bar *= 2.0
            return (y_bar,)

        return x * 2.0, pullback

    if ruled == "primitive":
        twice = mt.primitive(lambda x: x * 2.0)
        twice.rrule(rule)
    else:
        twice = np.frompyfunc(lambda x: x * 2.0, 1, 1)
        mt.rrule(twice)(rule)

    _, pullback = mt.vjp(lambda x: twice(x * 1.0) + x, np.ones(3))
    seed = np.ones(3)
    with pytest.raises(ValueError, match="read-only"):
        pullback(seed)
    np.testing.assert_array_equal(seed, 1.0)


# ---------------------------------------------------------------- one array in two places


@mt.differentiable
class Doubling:
    v: object
    w: object = None
    u: object = None

    @mt.primitive
    def double(self):
        self.w = self.u = new = 2.0 * self.v
        return new

    @double.rrule
    def double(self):
        self.w = self.u = new = 2.0 * self.v

        def double_pullback(y_bar, written):
            return (mt.Tangent(Doubling, v=2.0 * (y_bar + written[self].w + written[self].u)),)

        return new, double_pullback

    @mt.primitive
    def parts(self):
        new = 2.0 * self.v
        self.w, self.u = new[1:], new[:2]

    @parts.rrule
    def parts(self):
        new = 2.0 * self.v
        self.w, self.u = new[1:], new[:2]

        def parts_pullback(y_bar, written):
            v_bar = np.zeros(3)
            v_bar[1:] += 2.0 * written[self].w
            v_bar[:2] += 2.0 * written[self].u
            return (mt.Tangent(Doubling, v=v_bar),)

        return None, parts_pullback

    @mt.primitive
    def pass_on(self):
        self.w = self.v

    @pass_on.rrule
    def pass_on(self):
        self.w = self.v
        return None, lambda _, written: (mt.Tangent(Doubling, v=written[self].w),)


@pytest.mark.parametrize("wrapped", [lambda f: f, mt.checkpoint])
def test_an_array_that_a_rule_puts_into_two_places_is_one(wrapped):
    def loss(obj):
        out = obj.double()
        before = np.sum(out * obj.w * obj.u)
        obj.w[0] = 7.0
        return before + np.sum(out**2) + np.sum(obj.w**2) + np.sum(obj.u**2)

    for _ in range(3):
        plain = Doubling(np.array([1.0, 2.0]))
        expected = loss(plain)
        obj = Doubling(np.array([1.0, 2.0]))
        value, tangent = mt.value_and_grad(wrapped(loss))(obj)
        assert value == expected
        # Σ(2v)³, and three times (2v₁)² after the write
        close(tangent.v, [3 * 8 * 1.0, 3 * 8 * 4.0 + 3 * 8 * 2.0])
        assert obj.w is obj.u
        out, pullback = mt.vjp(Doubling.double, obj)
        assert out is obj.w
        assert obj.w is obj.u
        close(pullback(np.array([1.0, 0.0]))[0].v, [2.0, 0.0])
        objects = mt.IdentityMap([(obj, mt.Tangent(Doubling, w=np.ones(2), u=np.array([0.0, 5.0])))])
        close(pullback(np.array([1.0, 0.0]), objects=objects)[0].v, [4.0, 12.0])
        assert mt.jvp(loss, (Doubling(np.array([1.0, 2.0])),), (mt.ZeroTangent(),))[0] == expected


def test_views_of_one_array_that_a_rule_leaves_are_not_written_in_place():
    def loss(obj, write):
        obj.parts()
        if write:
            obj.w[0] = 7.0
        return np.sum(obj.w**2) + np.sum(obj.u**2)

    obj = Doubling(np.array([1.0, 2.0, 3.0]))
    close(mt.grad(lambda obj: loss(obj, write=False))(obj).v, [8.0, 32.0, 24.0])
    with pytest.raises(mt.InPlaceError, match=r"user's rule.*x = x\.copy"):
        mt.grad(lambda obj: loss(obj, write=True))(obj)


def test_an_array_that_a_rule_passes_on_is_the_same_one_afterwards():
    def moved(obj):
        obj.pass_on()
        return np.sum(obj.w**2)

    obj = Doubling(np.array([1.0, 2.0]))
    held = obj.v
    close(mt.grad(moved)(obj).v, [2.0, 4.0])
    assert obj.w is held
    obj.w = None
    _, pullback = mt.vjp(moved, obj)
    assert obj.w is held
    close(pullback(1.0)[0].v, [2.0, 4.0])
    obj.w[:] = 5.0
    with pytest.raises(mt.InPlaceError, match="overwritten in place before its pullback ran"):
        pullback(1.0)


def test_a_pullback_may_make_objects_of_its_own():
    @mt.differentiable
    class Pair:
        a: object
        b: object = 1.0

    @mt.primitive
    def times(o, x):
        return x * o.a

    @times.rrule
    def times(o, x):
        a = o.a

        def pullback(y_bar):
            own = Pair(y_bar)
            own.b = own.a * x
            return mt.Tangent(Pair, a=own.b), own.a * a

        return x * a, pullback

    o = Pair(2.0)
    do, dx = mt.grad(times, argnums=(0, 1))(o, 3.0)
    assert (do.a, dx) == (3.0, 2.0)
    second = mt.grad(mt.grad(lambda x: times(o, x) ** 2))
    assert second(3.0) == 8.0


def test_a_pullback_may_not_write_an_object_of_somebody_else():
    @mt.differentiable
    class Single:
        a: object

    other = Single(1.0)

    @mt.primitive
    def same(x):
        return x * 1.0

    @same.rrule
    def same(x):
        def pullback(y_bar):
            other.a = y_bar
            return (y_bar,)

        return x * 1.0, pullback

    with pytest.raises(mt.RuleError, match=r"the pullback of .*same wrote Single\.a"):
        mt.grad(same)(3.0)
    assert other.a == 1.0
