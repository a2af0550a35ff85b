"""`vjp`, `value_and_grad`, `grad`, the decorator on functions, and `Context`, as they are called."""

import copy
import functools
import gc
import weakref

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


def product(x, y=2.0, *, scale=1.0):
    """What it does."""
    return x * y * scale


def test_grad_with_one_and_several_argnums():
    assert mt.grad(product)(3.0, 5.0) == 5.0
    assert mt.grad(product, argnums=1)(3.0, 5.0) == 3.0
    assert mt.grad(product, 1)(3.0, 5.0) == 3.0
    assert mt.grad(product, argnums=-1)(3.0, 5.0) == 3.0
    assert mt.grad(product, argnums=(0,))(3.0, 5.0) == (5.0,)
    assert mt.grad(product, argnums=(1, 0))(3.0, 5.0) == (3.0, 5.0)
    assert mt.grad(product, argnums=[0, 1])(3.0, 5.0) == (5.0, 3.0)


def test_keyword_and_default_arguments_are_passed_on():
    assert mt.grad(product)(3.0) == 2.0
    assert mt.grad(product)(3.0, scale=10.0) == 20.0
    assert mt.grad(product)(3.0, y=5.0) == 5.0


def test_value_and_grad_and_has_aux():
    assert mt.value_and_grad(product)(3.0) == (6.0, 2.0)

    def with_aux(x):
        return x**2, {"doubled": [x * 2, "text"]}

    (value, aux), gradient = mt.value_and_grad(with_aux, has_aux=True)(3.0)
    assert (value, gradient) == (9.0, 6.0)
    assert aux == {"doubled": [6.0, "text"]}
    assert type(aux["doubled"][0]) is float
    assert mt.grad(with_aux, has_aux=True)(3.0) == (6.0, aux)


def test_the_result_keeps_name_and_documentation():
    assert mt.grad(product).__name__ == "product"
    assert mt.value_and_grad(product).__doc__ == "What it does."


def test_callables_of_every_kind_are_differentiated():
    class Callable:
        def __call__(self, x):
            return x**2

        def method(self, x):
            return x**3

        @staticmethod
        def static(x):
            return x**4

    box = Box(5.0)
    assert mt.grad(Callable())(3.0) == 6.0
    assert mt.grad(Callable().method)(3.0) == 27.0
    assert mt.grad(Callable.static)(3.0) == 108.0
    assert mt.grad(functools.partial(product, y=7.0))(3.0) == 7.0
    assert mt.grad(np.sin)(0.0) == 1.0
    assert mt.grad(lambda *args: args[0] * args[1])(3.0, 5.0) == 5.0
    assert mt.grad(lambda o: o.v)(box).v == 1.0


def test_a_decorated_function_is_the_same_function_with_derivatives():
    def plain(m, x):
        """What it does."""
        return m.v * x**2

    decorated = mt.differentiable(plain)
    assert decorated is plain
    box = Box(5.0)
    for _ in range(3):
        assert decorated(box, 3.0) == 45.0
        assert decorated.grad(box, 3.0) == mt.Tangent(Box, v=9.0)
        assert decorated.value_and_grad(box, 3.0) == (45.0, mt.Tangent(Box, v=9.0))
        out, pullback = decorated.vjp(box, 3.0)
        assert out == 45.0
        assert pullback(2.0) == (mt.Tangent(Box, v=18.0), 60.0)


def test_vjp_of_several_results_and_arguments(xp):
    x, y = xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0])
    (a, b), pullback = mt.vjp(lambda x, y: (x * y, {"sum": np.sum(x)}), x, y)
    np.testing.assert_array_equal(a, [3.0, 8.0])
    assert b == {"sum": 3.0}
    for _ in range(2):
        dx, dy = pullback((np.array([1.0, 10.0]), {"sum": 100.0}))
        np.testing.assert_array_equal(dx, [103.0, 140.0])
        np.testing.assert_array_equal(dy, [1.0, 20.0])


def test_vjp_takes_arguments_without_a_tangent_space():
    _, pullback = mt.vjp(lambda x, n, name: x**n, 2.0, 3, "name")
    assert pullback(1.0) == (12.0, mt.NoTangent(), mt.NoTangent())


def test_tangents_of_two_sweeps_do_not_share_memory(xp):
    x = xp.asarray([1.0, 2.0])
    _, pullback = mt.vjp(lambda x, y: x + y, x, x)
    cotangent = np.array([1.0, 1.0])
    (first, other), (second, _) = pullback(cotangent), pullback(cotangent)
    first[0] = 99.0
    np.testing.assert_array_equal(second, [1.0, 1.0])
    np.testing.assert_array_equal(other, [1.0, 1.0])
    np.testing.assert_array_equal(cotangent, [1.0, 1.0])


def test_a_gradient_does_not_share_memory_with_the_model_or_the_input(xp):
    x = np.array([1.0, 2.0])
    gradient = mt.grad(lambda a, b: np.sum(a * b))(x, np.array([3.0, 4.0]))
    gradient[:] = 0.0
    np.testing.assert_array_equal(x, [1.0, 2.0])
    box = Box(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    tangent = mt.grad(lambda o: np.sum(o.v * o.w))(box)
    tangent.v[:] = 0.0
    np.testing.assert_array_equal(box.w, [3.0, 4.0])


def test_the_cotangent_of_a_state_that_is_left_behind_is_given_by_objects():
    box = Box(2.0, 3.0)

    def step(o):
        o.v = o.v * o.w
        return o.v * 1.0

    _, pullback = mt.vjp(step, box)
    for _ in range(2):
        (tangent,) = pullback(0.0, objects=mt.IdentityMap([(box, mt.Tangent(Box, v=10.0))]))
        assert (tangent.v, tangent.w) == (30.0, 20.0)
        (tangent,) = pullback(1.0, objects=mt.IdentityMap([(box, mt.Tangent(Box, v=10.0))]))
        assert (tangent.v, tangent.w) == (33.0, 22.0)
        (tangent,) = pullback(1.0)
        assert (tangent.v, tangent.w) == (3.0, 2.0)


def test_a_context_gives_tangents_of_every_object_it_read(xp):
    a, b, never_read = Box(xp.asarray([2.0])), Box(xp.asarray([5.0])), Box(xp.asarray([1.0]))
    with mt.Context() as ctx:
        y = a.v * b.v
        out = np.sum(y)
    tangents = ctx.tangents(out)
    assert isinstance(tangents, mt.IdentityMap)
    np.testing.assert_array_equal(tangents[a].v, [5.0])
    np.testing.assert_array_equal(tangents[b].v, [2.0])
    assert never_read not in tangents
    np.testing.assert_array_equal(ctx.tangents(y, np.array([10.0]))[a].v, [50.0])
    np.testing.assert_array_equal(ctx.tangents((y, out), (np.array([10.0]), 1.0))[a].v, [55.0])


def test_a_context_gives_one_source_its_tangent_and_several_a_tuple(xp):
    a, b = Box(2.0), Box(5.0)
    with mt.Context() as ctx:
        x = ctx.watch(xp.asarray([1.0, 2.0]))
        out = np.sum(a.v * b.v * x)
    assert ctx.grad(out, a).v == 15.0
    da, db, dx, again = ctx.grad(out, a, b, x, a)
    assert (da.v, db.v) == (15.0, 6.0)
    assert again is da
    np.testing.assert_array_equal(dx, [10.0, 10.0])
    da, (db, dx) = ctx.grad(out, a, (b, x))
    assert db.v == 6.0
    assert ctx.grad(out, {"a": a})["a"].v == 15.0


def test_a_gradient_may_be_taken_inside_the_block():
    a = Box(2.0)
    with mt.Context() as ctx:
        y = a.v**2
        assert ctx.grad(y, a).v == 4.0
        a.v = a.v * 3
        out = a.v**2
    assert ctx.grad(out, a).v == 36.0
    assert ctx.grad(y, a).v == 4.0
    assert a.v == 6.0


def test_an_intermediate_value_is_a_source(xp):
    with mt.Context() as ctx:
        x = ctx.watch(xp.asarray([1.0, 2.0]))
        y = x * 3
        out = np.sum(y**2)
    dy, dx = ctx.grad(out, y, x)
    np.testing.assert_array_equal(dy, [6.0, 12.0])
    np.testing.assert_array_equal(dx, [18.0, 36.0])


def test_objects_read_but_without_influence_have_zero_tangents(xp):
    a, b = Box(xp.asarray([2.0])), Box(xp.asarray([5.0]))
    with mt.Context() as ctx:
        unused = b.v * 3
        out = np.sum(a.v)
    tangent = ctx.grad(out, b)
    assert tangent.v == mt.ZeroTangent()
    assert isinstance(tangent, mt.Tangent)
    del unused


@pytest.mark.parametrize("verb", [mt.grad, mt.value_and_grad])
def test_an_array_has_an_array_even_if_nothing_flowed(verb, xp):
    result = verb(lambda x, y: np.sum(y), argnums=(0, 1))(
        xp.asarray([1.0, 2.0], np.float32), xp.asarray([3.0])
    )
    dx = result[0] if verb is mt.grad else result[1][0]
    assert dx.dtype == np.float32
    np.testing.assert_array_equal(dx, [0.0, 0.0])


# -- one array in several places -----------------------------------------------------------------------------------------


@mt.differentiable
class Pair:
    a: object
    b: object = None
    items: object = None


def stored_and_returned(o):
    made = np.tanh(o.a)
    o.b = made
    o.items = [made, {"k": made}]
    return made, [made, (made[:2], o)]


@pytest.mark.parametrize(
    "run",
    [
        stored_and_returned,
        lambda o: mt.vjp(stored_and_returned, o)[0],
        lambda o: mt.jvp(stored_and_returned, (o,), (mt.ZeroTangent(),))[0],
        lambda o: mt.value_and_grad(lambda o: (np.sum(o.a), stored_and_returned(o)), has_aux=True)(o)[0][1],
    ],
    ids=["plain", "vjp", "jvp", "grad"],
)
def test_an_array_that_is_returned_and_stored_is_one_array_afterwards(run):
    o = Pair(np.array([1.0, 2.0, 3.0]))
    entry = o.a
    made, (again, (view, same)) = run(o)
    assert type(made) is np.ndarray
    assert o.b is made
    assert again is made
    assert o.items[0] is made
    assert o.items[1]["k"] is made
    assert same is o
    assert view.base is made
    assert o.a is entry
    view[0] = 9.0
    assert o.b[0] == 9.0


def test_what_is_done_to_it_does_not_reach_the_pullback():
    o = Pair(np.array([1.0, 2.0, 3.0]))
    (made, _), pullback = mt.vjp(stored_and_returned, o)
    before = 1 - made**2
    o.b[:] = 0.0
    (tangent,) = pullback((np.ones(3), mt.ZeroTangent()))
    np.testing.assert_allclose(tangent.a, before)


def test_an_array_in_two_fields_is_one_array_after_a_context():
    o = Pair(np.array([1.0, 2.0, 3.0]))
    with mt.Context():
        stored_and_returned(o)
    assert o.items[0] is o.b


@pytest.mark.parametrize("run", [mt.vjp, lambda f, o: (f(o), None)])
def test_a_deep_copy_keeps_one_array_one(run):
    x = np.array([1.0, 2.0])
    o = Pair(x, x)

    def copied(o):
        o.items = [copy.deepcopy(o)]

    run(copied, o)
    assert o.items[0].a is o.items[0].b
    assert o.items[0].a is not x


@pytest.mark.parametrize("first", ["a", "b"])
def test_a_constant_that_pause_took_from_a_computed_array_is_that_array_afterwards(first):
    def share(o):
        computed = np.tanh(o.a)
        with mt.pause():
            constant = np.asarray(computed)
        o.a, o.b = (computed, constant) if first == "a" else (constant, computed)
        return np.sum(computed**2)

    o = Pair(np.array([1.0, 2.0]))
    x = o.a
    _, pullback = mt.vjp(share, o)
    before = pullback(1.0)[0].a
    assert o.a is o.b
    o.a[:] = 0.0  # nothing that the pullback reads
    np.testing.assert_array_equal(pullback(1.0)[0].a, before)
    np.testing.assert_allclose(before, 2 * np.tanh(x) * (1 - np.tanh(x) ** 2))


def test_gradients_of_values_on_the_way_share_no_memory():
    with mt.Context() as ctx:
        x = ctx.watch(np.ones(3))
        y = x + 0.0
        out = np.sum(y * 2.0) + np.sum(y * y)
    for sources in [(x, y), (y, x), (y, y)]:
        first, second = ctx.grad(out, *sources)
        first[:] = 9.0
        np.testing.assert_array_equal(second, 4.0)


@pytest.mark.parametrize("verb", [mt.grad, lambda f: functools.partial(mt.vjp, f), mt.hessian])
def test_a_function_that_raises_leaves_no_garbage_behind(verb):
    made = []

    def f(x):
        y = np.zeros_like(x)
        y[0] = x[0] * 2.0
        made.append(weakref.ref(mt.primal(y)))
        raise KeyError

    gc.collect()
    gc.disable()
    try:
        with pytest.raises(KeyError):
            verb(f)(np.ones(3))
        assert made
        assert made[0]() is None
    finally:
        gc.enable()


def test_an_argument_may_be_named_twice():
    assert mt.grad(lambda a, b: a * b * b, argnums=(1, 1))(2.0, 3.0) == (12.0, 12.0)
    assert mt.grad(lambda a, b: a * b * b, argnums=(1, -1, 0))(2.0, 3.0) == (12.0, 12.0, 9.0)
    first, second = mt.grad(lambda x: np.sum(x**2), argnums=(0, -1))(np.ones(2))
    assert first is not second
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("verb", [mt.grad, mt.hessian, mt.jacobian, mt.elementwise_grad])
def test_argnums_of_another_kind_are_refused(verb):
    with pytest.raises(TypeError, match=r"argnums='a' for <lambda>: the number of a positional argument"):
        verb(lambda a: a * a, argnums="a")(1.0)
