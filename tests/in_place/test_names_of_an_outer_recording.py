"""An inner function that holds handles of the outer recording: they show what the inner recording has written.

Every program is compared with itself without the inner recording: value, state and gradient.
"""

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Cell:
    v: object
    w: object = None
    p: float = 0.7


held = Cell(None)  # reached by a global name


def by_grad(inner, o, x):
    return mt.grad(lambda o: inner(o, x), has_aux=True)(o)[1]


def by_vjp(inner, o, x):
    return mt.vjp(lambda o: inner(o, x), o)[0][1]


def by_jvp(inner, o, x):
    return mt.jvp(lambda o: inner(o, x), (o,), (mt.NoTangent(),))[0][1]


def by_context(inner, o, x):
    with mt.Context():
        return inner(o, x)[1]


def three_deep(inner, o, x):
    return by_vjp(lambda o, x: (o.p * 0.0, by_grad(inner, o, x)), o, x)


def both_named(inner, o, x):
    return mt.vjp(inner, o, x)[0][1]


every_way = pytest.mark.parametrize("way", [by_grad, by_vjp, by_jvp, by_context, three_deep, both_named])


# What the outer function holds of the array that the inner one writes: `(handle, how the inner one gets the array)`.


def the_argument(o, x):
    o.v = x
    return x, lambda o: o.v


def a_field(o, x):
    o.v = x * 1.0
    return o.v, lambda o: o.v


def a_view(o, x):
    o.v = x * 1.5
    return o.v[1:], lambda o: o.v


def a_view_of_a_view(o, x):
    o.v = x * 1.5
    return o.v[::-1].reshape(3, 1)[1:].T, lambda o: o.v


def a_view_of_a_written_view(o, x):
    o.v = x * 1.5
    tail = o.v[1:]
    tail[0] = x[2]
    o.v[2] = x[0]
    return tail[::-1], lambda o: o.v


def an_item_of_a_list(o, x):
    o.w = [x * 2, 1.0]
    return o.w[0], lambda o: o.w[0]


def of_a_global_object(o, x):
    held.v = x * 2
    return held.v, lambda o: held.v


def in_two_fields(o, x):
    o.v = o.w = x * 2
    return o.w, lambda o: o.v


def a_part_in_a_field(o, x):
    o.w = (x * 2)[1:]
    return o.w, lambda o: o.w


def a_constant(o, x):
    o.v = np.zeros_like(x)
    return o.v[:2], lambda o: o.v


def from_a_checkpoint(o, x):
    o.v, other = mt.checkpoint(_twice)(x)
    return other, lambda o: o.v


def the_handle_itself(o, x):
    y = x * 2
    return y, lambda o: y


def _twice(x):
    y = x * 2
    return y, y


SETUPS = [
    the_argument,
    a_field,
    a_view,
    a_view_of_a_view,
    a_view_of_a_written_view,
    an_item_of_a_list,
    of_a_global_object,
    in_two_fields,
    a_part_in_a_field,
    a_constant,
    from_a_checkpoint,
    the_handle_itself,
]
every_setup = pytest.mark.parametrize("setup", SETUPS)


def set_an_item(array, p):
    array[0] = p * 2


def set_a_constant(array, p):
    array[0] = 5.0


def set_all(array, p):
    array[...] = array * p


def add_to_all(array, p):
    array += p


def write_by_out(array, p):
    np.multiply(array, p, out=array)


def write_by_a_view(array, p):
    tail = array[::-1]
    tail[0] = p


every_write = pytest.mark.parametrize(
    "write", [set_an_item, set_a_constant, set_all, add_to_all, write_by_out, write_by_a_view]
)


def program(setup, write, way):
    def loss(o, x):
        handle, get = setup(o, x)

        def inner(o, x):
            before = np.sum(handle * x[0])
            write(get(o), o.p)
            seen = np.sum(handle * handle)
            mixed = np.sum(handle * o.p)
            made = handle[:1]
            return before + seen + mixed, (before, seen, mixed, made)

        before, seen, mixed, made = way(inner, o, x)
        return before + 2 * seen + 3 * mixed + np.sum(made) + np.sum(handle**3) + np.sum(get(o)) + np.sum(x)

    return loss


def without(inner, o, x):
    return inner(o, x)[1]


def make():
    held.v = None
    return Cell(None), np.array([0.5, -0.8, 1.1])


@every_setup
@every_write
@every_way
def test_a_handle_of_the_outer_recording_shows_what_the_inner_one_has_written(setup, write, way):
    o, x = make()
    expected = program(setup, write, without)(o, x)
    left = [np.array(o.v if o.v is not None else np.zeros(3)), np.array(x)]
    tangent, dx = mt.grad(program(setup, write, without), argnums=(0, 1))(*make())
    loss = program(setup, write, way)
    for outer in ("grad", "vjp"):
        o, x = make()
        if outer == "grad":
            value, (do, got) = mt.value_and_grad(loss, argnums=(0, 1))(o, x)
        else:
            value, pullback = mt.vjp(loss, o, x)
            pullback(2.0)
            do, got = pullback(1.0)
        assert value == pytest.approx(expected)
        np.testing.assert_allclose(got, dx, rtol=1e-10)
        np.testing.assert_allclose(do.p + 0.0, tangent.p + 0.0)
        np.testing.assert_allclose(np.array(o.v if o.v is not None else np.zeros(3)), left[0])
        np.testing.assert_allclose(x, left[1])
    direction = np.array([0.3, 0.2, -0.5])
    value, dot = mt.jvp(loss, make(), (mt.Tangent(Cell, p=0.4), direction))
    assert value == pytest.approx(expected)
    assert dot == pytest.approx(dx @ direction + 0.4 * float(tangent.p + 0.0))


@pytest.mark.parametrize("way", [mt.grad, lambda f: lambda o: mt.vjp(f, o)[1](1.0)[0]], ids=["grad", "vjp"])
def test_the_inner_gradient_follows_the_handle_from_the_write_on(way):
    def slope(o, x):
        handle = o.v

        def inner(o):
            before = np.sum(handle)
            o.v[0] = o.p * 2
            return np.sum(handle * handle) + before

        tangent = way(inner)(o)  # d/dp = 8 p, d/dv = (0, 2 v1, 2 v2)
        return tangent.p + np.sum(tangent.v * x)

    def arguments():
        return Cell(np.array([1.0, 2.0, 3.0]), None, 0.7), np.array([10.0, 100.0, 1000.0])

    value, (tangent, dx) = mt.value_and_grad(slope, argnums=(0, 1))(*arguments())
    assert value == pytest.approx(8 * 0.7 + 4 * 100 + 6 * 1000)
    np.testing.assert_allclose(tangent.p, 8.0)
    np.testing.assert_allclose(tangent.v, [0.0, 200.0, 2000.0])
    np.testing.assert_allclose(dx, [0.0, 4.0, 6.0])


def test_a_field_that_is_read_after_its_array_was_written_by_another_name():
    def slope(o):
        handle = o.v

        def inner(o):
            handle[0] = o.p * 2
            return np.sum(o.v**2)

        return mt.grad(inner)(o)

    made = []
    mt.grad(lambda o: (made.append(slope(o)), made[-1].p + np.sum(made[-1].v))[1])(
        Cell(np.array([1.0, 2.0, 3.0]))
    )
    np.testing.assert_allclose(mt.primal(made[0].p), 8 * 0.7)
    np.testing.assert_allclose(mt.primal(made[0].v), [0.0, 4.0, 6.0])


def test_forward_mode_refuses_a_tangent_of_an_array_that_was_written_by_another_name_first():
    def loss(o):
        handle = o.v

        def inner(o):
            handle[0] = o.p * 2
            return np.sum(o.v**2)

        return mt.jvp(inner, (o,), (mt.Tangent(Cell, v=np.ones(3), p=1.0),))[1]

    with pytest.raises(mt.InPlaceError, match=r"Cell\.v is .* that was written in place by another name"):
        mt.grad(loss)(Cell(np.array([1.0, 2.0, 3.0])))


def test_a_cotangent_for_a_view_of_a_handle_that_the_inner_function_wrote():
    def loss(o):
        handle = o.v * 1.0

        def inner(o):
            handle[0] = o.p * 2
            return handle[:2]

        out, pullback = mt.vjp(inner, o)
        return np.sum(out) + pullback(np.array([3.0, 4.0]))[0].p

    tangent = mt.grad(loss)(Cell(np.array([1.0, 2.0, 3.0])))
    np.testing.assert_allclose(tangent.p, 2.0)
    np.testing.assert_allclose(tangent.v, [0.0, 1.0, 0.0])
    assert mt.value_and_grad(loss)(Cell(np.array([1.0, 2.0, 3.0])))[0] == pytest.approx(1.4 + 2.0 + 6.0)


@every_way
@pytest.mark.parametrize(
    "part", [lambda x: x[::-1], lambda x: x, lambda x: x[1:2]], ids=["reversed", "whole", "part"]
)
def test_the_array_is_written_with_what_another_name_of_it_holds(part, way):
    def make_loss(way):
        def loss(o, x):
            o.v = x * 1.0
            handle = o.v
            shown = part(handle)

            def inner(o, x):
                o.v[...] = shown
                return np.sum(o.v * x) * o.p, (np.sum(handle * x) * o.p,)

            return way(inner, o, x)[0] + np.sum(handle**2)

        return loss

    expected = mt.value_and_grad(make_loss(without), argnums=(0, 1))(*make())
    value, (do, dx) = mt.value_and_grad(make_loss(way), argnums=(0, 1))(*make())
    assert value == pytest.approx(expected[0])
    np.testing.assert_allclose(do.p, expected[1][0].p)
    np.testing.assert_allclose(dx, expected[1][1])


def test_disjoint_parts_of_one_array_in_two_fields():
    def make_loss(way):
        def loss(o, x):
            flat = x * 2
            o.v, o.w = flat[:1], flat[1:]

            def inner(o, x):
                o.v *= o.p
                return np.sum(o.v) + np.sum(o.w**2), (np.sum(o.v) + np.sum(o.w**2),)

            return way(inner, o, x)[0] + np.sum(flat**2)

        return loss

    for way in (by_grad, by_vjp, by_jvp, by_context, three_deep):
        expected = mt.value_and_grad(make_loss(without), argnums=(0, 1))(*make())
        value, (do, dx) = mt.value_and_grad(make_loss(way), argnums=(0, 1))(*make())
        assert value == pytest.approx(expected[0])
        np.testing.assert_allclose(do.p, expected[1][0].p)
        np.testing.assert_allclose(dx, expected[1][1])


@pytest.mark.parametrize("way", [by_grad, by_vjp, by_jvp, by_context, three_deep])
def test_the_whole_of_an_array_is_refused_where_a_field_holds_a_part_that_was_written(way):
    def loss(o, x):
        whole = x * 2
        o.v = whole[1:]

        def inner(o, x):
            o.v[0] = o.p
            return o.p * 0.0, np.sum(whole)

        return way(inner, o, x)

    o, x = make()
    with pytest.raises(mt.InPlaceError, match="Let the field hold the whole array"):
        mt.grad(loss, argnums=(0, 1))(o, x)
    assert o.v is None


def test_a_cotangent_for_the_whole_of_an_array_of_which_a_part_was_written_is_refused():
    def loss(o, x):
        whole = x * 2
        o.v = whole[1:]

        def inner(o):
            o.v[0] = o.p
            return whole

        out, pullback = mt.vjp(inner, o)
        return np.sum(out) + pullback(np.ones(3))[0].p

    with pytest.raises(mt.InPlaceError, match="Let the field hold the whole array"):
        mt.grad(loss, argnums=(0, 1))(*make())


def test_a_raise_in_the_inner_function_leaves_the_handles_as_they_were():
    def loss(o, x):
        y = x * 2
        o.v = y
        kept = y[1:]

        def inner(o):
            o.v[0] = o.p
            o.v[1] = 5.0
            assert mt.primal(kept)[0] == 5.0
            raise KeyError

        with pytest.raises(KeyError):
            mt.grad(inner)(o)
        assert o.v is y
        y[2] = x[0]
        return np.sum(y**2) + np.sum(kept)

    _, dx = mt.grad(loss, argnums=(0, 1))(*make())
    np.testing.assert_allclose(dx, [8 * 0.5 + 2 * 0.5 + 1, 8 * -0.8 + 2, 0.0])


def test_a_loop_of_inner_recordings_that_write_one_array():
    def make_loss(way):
        def loss(o, x):
            state = np.zeros_like(x)
            o.v = state
            rows = [state[k : k + 1] for k in range(3)]
            total = 0.0
            for k in range(6):

                def inner(o, x, k=k):
                    o.v[k % 3] = o.p * x[k % 3] + np.sum(state)
                    return np.sum(o.v) * o.p, (np.sum(rows[k % 3]) * np.sum(state),)

                total = total + way(inner, o, x)[0]
                state[0] = state[0] * x[1]
            return total + np.sum(rows[0] * rows[2])

        return loss

    expected = mt.value_and_grad(make_loss(without), argnums=(0, 1))(*make())
    for way in (by_grad, by_vjp, by_jvp, by_context, three_deep):
        value, (do, dx) = mt.value_and_grad(make_loss(way), argnums=(0, 1))(*make())
        assert value == pytest.approx(expected[0])
        np.testing.assert_allclose(do.p, expected[1][0].p)
        np.testing.assert_allclose(dx, expected[1][1])


def test_a_constant_array_that_an_inner_recording_has_read_is_not_overwritten_by_another_name():
    def loss(o):
        buffer = np.zeros_like(o.v)
        o.w = buffer

        def inner(o):
            y = np.sum(o.w * o.p)
            buffer[0] = 100.0
            return y

        return mt.grad(inner)(o).p

    with pytest.raises(mt.InPlaceError, match="was written past it, by another name"):
        mt.grad(loss)(Cell(np.ones(3)))


@every_way
def test_an_array_that_the_outer_function_made_is_the_very_array_afterwards(way):
    def loss(o, x):
        buffer = np.zeros(3)
        made.append(buffer)
        o.v = buffer
        handle = o.v

        def inner(o, x):
            o.v[0] = o.p
            o.v[1] = 2.0
            return np.sum(handle) * o.p, (np.sum(o.v),)

        return way(inner, o, x)[0] + np.sum(o.v * x)

    for _ in range(3):
        made = []
        o, x = make()
        mt.grad(loss, argnums=(0, 1))(o, x)
        assert o.v is made[0]
        np.testing.assert_array_equal(o.v, [0.7, 2.0, 0.0])


def test_a_pullback_of_an_inner_recording_reads_a_constant_array_as_it_was():
    def loss(x):
        buffer = np.zeros_like(x)
        buffer[1:] = 3.0
        o.w = buffer
        pullbacks.append(mt.vjp(lambda o: np.sum(o.w * o.p), o)[1])
        o.w[0] = x[0] * 100
        return np.sum(o.w)

    o, x = make()
    pullbacks = []
    mt.grad(loss)(x)
    assert pullbacks[0](1.0)[0].p == 6.0


def test_a_checkpointed_function_that_has_written_an_array_refuses_its_other_names():
    def loss(o, x):
        o.v = x
        step = mt.checkpoint(lambda o: (o.v.fill(2.0), np.sum(x))[1])
        return mt.grad(lambda o: (o.p * 0.0, step(o)), has_aux=True)(o)[1]

    with pytest.raises(mt.CheckpointError, match="reads it by another name"):
        mt.grad(loss, argnums=1)(*make())


def test_a_checkpoint_in_a_recording_within_one_reads_what_an_outer_one_traces_in_a_pause():
    def scaled(o):
        with mt.pause():
            factor = o.p * 2.0
        return o.p * factor

    def loss(o):
        return mt.grad(lambda o: (0.0, mt.checkpoint(scaled)(o)), has_aux=True)(o)[1]

    assert mt.grad(loss)(Cell(None)).p == pytest.approx(1.4)


def test_a_checkpoint_in_a_recording_within_one_makes_views_of_what_has_their_strides():
    def write(x, p):
        x.reshape(-1)[0] = p  # a copy, since x is transposed
        return np.sum(x)

    def loss(x, p):
        x *= 2.0
        return mt.grad(lambda p: (p * 0.0, mt.checkpoint(write)(x, p)), has_aux=True)(p)[1]

    x = np.arange(6.0).reshape(2, 3).T
    value, (dx, dp) = mt.value_and_grad(loss, argnums=(0, 1))(x, 0.5)
    assert value == 30.0
    assert dp == 0.0
    np.testing.assert_array_equal(dx, 2 * np.ones((3, 2)))


def test_a_rule_that_reads_a_field_in_a_pause_has_second_derivatives():
    @mt.differentiable
    class Scale:
        p: float

        @mt.primitive
        def square(self, x):
            return x * self.p**2

        @square.rrule
        def square(self, x):
            with mt.pause():
                p = self.p
            return x * p**2, lambda g: (mt.Tangent(Scale, p=2 * g * x * p), g * p**2)

    def slope(s, x):
        return mt.grad(lambda s: s.square(x))(s).p * s.p  # 2 x p²

    tangent, dx = mt.grad(slope, argnums=(0, 1))(Scale(0.7), 1.5)
    assert tangent.p == pytest.approx(4 * 1.5 * 0.7)
    assert dx == pytest.approx(2 * 0.49)


# -- three recordings, of which each knows the array by a name of its own ---------------------------------------------


def value_of(f, x):
    return mt.value_and_grad(f)(x)[0]


def slope_of(f, x):
    return mt.jvp(f, (x,), (np.ones_like(x),))[0]


def in_a_context(f, x):
    with mt.Context() as context:
        return f(context.watch(x))


def plainly(f, x):
    return f(x)


def the_middle_one_reads_what_the_innermost_wrote(run, x):
    a = x * 1.0

    def middle(p):
        def innermost(q):
            q[:] = p * 2
            return np.sum(p) * 100 + np.sum(q)

        return run(innermost, a) + np.sum(p) * 10

    return run(middle, a) + np.sum(a * x)


def a_value_of_the_middle_one(run, x):
    y, z = x * 1.0, x * 2.0

    def middle(q):
        a = y * 1.0

        def innermost(p):
            a[:] = 2 * q
            return np.sum(p * x)

        return run(innermost, a) + np.sum(a)

    return run(middle, z)


def a_value_of_the_outermost_one(run, x):
    b = x * 1.0

    def inner(q):
        b[:] = 2 * x
        return np.sum(q * x) + np.sum(b)

    return run(inner, b) + np.sum(b)


def a_constant_number(run, x):
    b = x * 1.0
    tail = b[1:]

    def middle(p):
        def innermost(q):
            tail[:] = 3.0
            return np.sum(q * x) + 10 * np.sum(p * p)

        return run(innermost, b) + np.sum(tail)

    return run(middle, b) + np.sum(b)


def in_place_by_the_outermost_name(run, x):
    b = x * 1.0

    def middle(p):
        def innermost(q):
            nonlocal b
            b *= x
            return np.sum(q) + 10 * np.sum(p * p)

        return run(innermost, p) + np.sum(p)

    return run(middle, b) + np.sum(b)


def the_middle_one_has_written_it(run, x):
    a = x * 1.0

    def middle(p):
        p *= 2.0
        return run(lambda r: np.sum(r * r), a)

    return run(middle, a)


def the_middle_one_writes_it_in_the_innermost(run, x):
    v = x * 1.0

    def middle(p):
        def innermost(r):
            p[...] *= 0.5
            return np.sum(r * r)

        return run(innermost, v) + np.sum(p)

    return run(middle, v) + np.sum(v)


def a_part_is_written(run, x):
    a = x * 1.0

    def middle(p):
        def innermost(q):
            q[0] = x[2] * 3
            return np.sum(q)

        return run(innermost, a[1:]) + np.sum(p * p)

    return run(middle, a) + np.sum(a)


def a_view_of_an_argument_that_was_written_before(run, x):
    v = x * 1.0

    def middle(b):
        def first(c):
            b[:] = c * 2
            return np.sum(c)

        def second(d):
            e = d.view()
            d[0] = 5.0
            return np.sum(e * e)

        return run(first, v) + run(second, b)

    return run(middle, v) + np.sum(v)


@pytest.mark.parametrize(
    "program",
    [
        the_middle_one_reads_what_the_innermost_wrote,
        a_value_of_the_middle_one,
        a_value_of_the_outermost_one,
        a_constant_number,
        in_place_by_the_outermost_name,
        the_middle_one_has_written_it,
        the_middle_one_writes_it_in_the_innermost,
        a_part_is_written,
        a_view_of_an_argument_that_was_written_before,
    ],
)
@pytest.mark.parametrize("run", [value_of, slope_of, in_a_context])
def test_every_recording_that_knows_an_array_sees_what_is_written(program, run):
    x = np.array([0.5, -0.8, 1.1])
    value, slope = mt.value_and_grad(lambda x: program(run, x))(x)
    np.testing.assert_allclose(value, program(plainly, x))
    np.testing.assert_allclose(slope, mt.grad(lambda x: program(plainly, x))(x))


def test_the_gradient_of_a_watched_array_that_the_middle_recording_writes_by_its_own_name():
    def loss(run, x):
        a = x * 1.0

        def middle(p):
            with mt.Context() as context:
                q = context.watch(a)
                p[0] += q[0]
                y = np.sum(q * q)
            return np.sum(context.grad(y, q)) + y

        return run(middle, a)

    x = np.array([1.0, 2.0])
    value, slope = mt.value_and_grad(lambda x: loss(value_of, x))(x)
    assert value == pytest.approx(16.0)
    np.testing.assert_allclose(slope, [12.0, 6.0])
    np.testing.assert_allclose(slope, mt.grad(lambda x: loss(plainly, x))(x))


def twice_by_an_index(a):
    a[...] *= 2.0


def twice_by_the_operator(a):
    a *= 2.0


def twice_by_out(a):
    np.multiply(a, 2.0, out=a)


def twice_by_a_view(a):
    tail = a[1:]
    tail *= 2.0


@pytest.mark.parametrize("write", [twice_by_an_index, twice_by_the_operator, twice_by_out, twice_by_a_view])
@pytest.mark.parametrize("make_array", [lambda x: x * 1.0, np.ones_like, lambda x: Cell(x).v, lambda x: x])
@pytest.mark.parametrize("deep", [False, True])
def test_a_checkpointed_function_that_writes_an_array_of_an_outer_recording_is_refused(
    write, make_array, deep
):
    def loss(x):
        a = make_array(x)

        def step(q):
            write(a)
            return np.sum(q)

        within = (lambda q: value_of(step, q)) if deep else step
        return value_of(mt.checkpoint(within), x * 1.0) + np.sum(a * x)

    with pytest.raises(
        mt.CheckpointError, match="neither an argument nor in a captured field but in a closure"
    ):
        mt.grad(loss)(np.array([0.5, -0.8, 1.1]))


def test_a_checkpointed_function_writes_what_it_has_computed_from_an_outer_recording():
    def loss(checkpoint, x):
        def step(q):
            sine = np.sin(x)
            sine *= 2.0
            sine[0] = 3.0
            start = np.zeros_like(x)
            start[0] = 2.0
            start *= 2.0

            def within(q):
                made = np.zeros_like(x)
                made[1:] = np.exp(x[1:])
                return np.sum(made * q)

            return np.sum(q * q * sine) + np.sum(start * q) + mt.jvp(within, (q,), (q,))[1]

        return np.sum(mt.grad(checkpoint(step))(x * 1.0) * x)

    x = np.array([0.5, -0.8, 1.1])
    expected = loss(lambda f: f, x)
    value, slope = mt.value_and_grad(lambda x: loss(mt.checkpoint, x))(x)
    np.testing.assert_allclose(value, expected)
    np.testing.assert_allclose(slope, mt.grad(lambda x: loss(lambda f: f, x))(x))


def fills_zeros(q):
    made = np.zeros_like(q)
    made[1:] = q[:2] ** 2
    made *= 3.0
    return made * q, made


def fills_an_array_of_an_object(q):
    cell = Cell(np.zeros(3))
    cell.v[1:] = q[:2] ** 2
    return cell.v * q, q


def returns_a_view_of_what_it_filled(q):
    made = np.zeros_like(q)
    made[1:] = q[:2] ** 2
    return made, made[::-1]


@pytest.mark.parametrize("step", [fills_zeros, fills_an_array_of_an_object, returns_a_view_of_what_it_filled])
@pytest.mark.parametrize("outer", [value_of, slope_of])
def test_second_derivatives_of_a_checkpointed_function_that_fills_an_array_it_has_made(step, outer):
    def loss(checkpoint, x):
        def inner(p):
            made, other = checkpoint(step)(p)
            made[1] = p[2] ** 2
            return np.sum(np.sin(made * other))

        return np.sum(np.cos(mt.grad(inner)(x * 1.0)))

    x = np.array([0.5, -0.8, 1.1])
    np.testing.assert_allclose(
        outer(lambda x: loss(mt.checkpoint, x), x), outer(lambda x: loss(plain_call, x), x)
    )
    np.testing.assert_allclose(
        mt.grad(lambda x: loss(mt.checkpoint, x))(x), mt.grad(lambda x: loss(plain_call, x))(x)
    )


def plain_call(function):
    return function
