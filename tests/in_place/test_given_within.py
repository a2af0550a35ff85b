"""A plain array, made in a recorded function, that a gradient within it writes with what the outer recording traces.

From then on the outer recording follows it, and a name of the array itself would show the old contents. Where the program
still has such a name, that is an error; a temporary, or a name that is not read any more, is followed.
"""

import functools
import gc
import weakref

import numpy as np
import pytest

import mutangent as mt
from mutangent._arrays import describe

X = 1.3


def fill(a, x):
    a[0] = x * 2.0
    a[1] = a[1] * x
    return np.sum(a**2)


@mt.differentiable
def fill_too(a, x):
    return fill(a, x)


def fill_item(items, x):
    return fill(items[0], x)


def made():
    return np.array([1.0, 2.0, 3.0])


# -- the verbs within ---------------------------------------------------------------------------------------------------


def by_grad(a, x):
    return np.sum(mt.grad(fill)(a, x))


def by_value_and_grad(a, x):
    value, gradient = mt.value_and_grad(fill)(a, x)
    return value + np.sum(gradient)


def by_vjp(a, x):
    out, pullback = mt.vjp(fill, a, x)
    return out + np.sum(pullback(1.0)[0])


def by_jvp(a, x):
    return sum(mt.jvp(fill, (a, x), (np.ones(3), 1.0)))


def by_jacobian(a, x):
    return np.sum(mt.jacobian(fill)(a, x))


def by_hessian(a, x):
    return np.sum(mt.hessian(fill)(a, x))


def by_hvp(a, x):
    return np.sum(mt.hvp(fill, (a, x), (np.ones(3), 1.0))[0])


def by_elementwise_grad(a, x):
    def double(a):
        a[:] = a * x
        return a**2

    return np.sum(mt.elementwise_grad(double)(a))


def by_a_decorated_function(a, x):
    return fill_too.vjp(a, x)[1](1.0)[1]


def by_context(a, x):
    with mt.Context() as ctx:
        watched = ctx.watch(a)
        out = fill(watched, x)
    return out + np.sum(ctx.grad(out, watched))


def by_two_levels(a, x):
    def middle(b, y):
        return np.sum(mt.grad(fill)(b, x * y))

    return np.sum(mt.grad(middle)(a, 1.5))


def by_a_level_between_that_passes_it_on(a, x):
    def middle(y, b):
        return np.sum(mt.grad(fill)(b, x)) * y

    return np.sum(mt.grad(middle)(1.5, a))


def in_a_list(a, x):
    return np.sum(mt.grad(fill_item)([a], x)[0])


def in_a_dict(a, x):
    return np.sum(mt.grad(fill_item)({0: a}, x)[0])


every_verb = pytest.mark.parametrize(
    "verb",
    [
        by_grad,
        by_value_and_grad,
        by_vjp,
        by_jvp,
        by_jacobian,
        by_hessian,
        by_hvp,
        by_elementwise_grad,
        by_a_decorated_function,
        by_context,
        by_two_levels,
        by_a_level_between_that_passes_it_on,
        in_a_list,
        in_a_dict,
    ],
)


# -- who has the array --------------------------------------------------------------------------------------------------


def a_temporary(verb, x):
    return verb(made(), x)


def a_name_that_is_not_read_again(verb, x):
    a = made()
    a[2] = 5.0
    return verb(a, x)


def a_new_one_in_each_round(verb, x):
    total = 0.0
    for scale in (1.0, 2.0):
        a = made() * scale
        total = total + verb(a, x)
    return total


def temporaries_of_a_comprehension(verb, x):
    return sum([verb(a, x) for a in (made() for _ in range(2))])


def a_view_of_a_temporary(verb, x):
    return verb(np.arange(6.0).reshape(2, 3)[1], x)


def an_array_that_is_made_like_a_traced_one(verb, x):
    a = np.zeros_like(x * np.ones(3))
    a[:] = made()
    total = verb(a, x)
    return total + np.sum(a)


def a_name_that_is_read(verb, x):
    a = made()
    total = verb(a, x)
    return total + np.sum(a)


def an_operand_that_waits(verb, x):
    a = made()
    return np.sum(a * verb(a, x))


def another_name(verb, x):
    a = b = made()
    total = verb(a, x)
    return total + np.sum(b)


def a_name_of_the_caller(verb, x):
    def helper(a):
        return verb(a, x)

    a = made()
    total = helper(a)
    return total + np.sum(a)


def a_closure(verb, x):
    a = made()

    def look():
        return np.sum(a)

    total = verb(a, x)
    return total + look()


def a_default(verb, x):
    def look(a=made()):  # noqa: B008 - the default is what is tested
        return np.sum(a)

    total = verb(look.__defaults__[0], x)
    return total + look()


def a_list(verb, x):
    items = [made()]
    total = verb(items[0], x)
    return total + np.sum(items[0])


def an_attribute(verb, x):
    def holder():
        """Hold an array as an attribute."""

    holder.a = made()
    total = verb(holder.a, x)
    return total + np.sum(holder.a)


STORE = {}


def a_dict_of_the_module(verb, x):
    STORE["a"] = made()
    total = verb(STORE["a"], x)
    return total + np.sum(STORE.pop("a"))


def a_global(verb, x):
    global given
    given = made()
    total = verb(given, x)
    return total + np.sum(given)


def a_suspended_generator(verb, x):
    def steps():
        a = made()
        yield a
        yield np.sum(a)

    step = steps()
    total = verb(next(step), x)
    return total + next(step)


def a_running_generator(verb, x):
    def steps():
        a = made()
        yield verb(a, x)
        yield np.sum(a)

    return sum(steps())


def the_base_of_a_view(verb, x):
    a = np.arange(6.0)
    total = verb(a[:3], x)
    return total + np.sum(a)


def a_view(verb, x):
    a = made()
    tail = a[1:]
    total = verb(a, x)
    return total + np.sum(tail)


def the_next_call(verb, x):
    a = made()
    return verb(a, x) + verb(a, x)


def a_handler(verb, x):
    a = made()
    try:
        return [][round(verb(a, x) * 0.0)]
    except IndexError:
        return np.sum(a) * x


followed = [
    a_temporary,
    a_name_that_is_not_read_again,
    a_new_one_in_each_round,
    temporaries_of_a_comprehension,
    a_view_of_a_temporary,
    an_array_that_is_made_like_a_traced_one,
]
refused = [
    a_name_that_is_read,
    an_operand_that_waits,
    another_name,
    a_name_of_the_caller,
    a_closure,
    a_default,
    a_list,
    an_attribute,
    a_dict_of_the_module,
    a_global,
    a_suspended_generator,
    a_running_generator,
    the_base_of_a_view,
    a_view,
    the_next_call,
    a_handler,
]


# -- the recordings around ----------------------------------------------------------------------------------------------


def by_context_around(function):
    with mt.Context() as ctx:
        x = ctx.watch(X)
        out = function(x)
    return ctx.grad(out, x)


around = pytest.mark.parametrize(
    "derivative",
    [
        lambda f: mt.grad(f)(X),
        lambda f: mt.jvp(f, (X,), (1.0,))[1],
        by_context_around,
        lambda f: mt.grad(mt.checkpoint(f))(X),
    ],
    ids=["grad", "jvp", "Context", "checkpoint"],
)


def numerically(f, step=1e-5):
    return (f(X + step) - f(X - step)) / (2 * step)


@around
@pytest.mark.parametrize("program", followed)
@every_verb
def test_what_nobody_can_read_is_followed(verb, program, derivative):
    def function(x):
        return program(verb, x)

    assert derivative(function) == pytest.approx(numerically(function), rel=1e-6)


@around
@pytest.mark.parametrize("program", refused)
@every_verb
def test_what_can_be_read_is_refused(verb, program, derivative):
    with pytest.raises(mt.InPlaceError, match="goes on to show the old contents"):
        derivative(functools.partial(program, verb))


@pytest.mark.parametrize(
    ("program", "reader"),
    [
        (a_name_that_is_read, "the name 'a' in a_name_that_is_read"),
        (a_name_of_the_caller, "the name 'a' in a_name_of_the_caller"),
        (a_closure, "the name 'a' in a_closure"),
        (a_global, "the global name 'given'"),
        (a_list, "something else that holds it, such as a list, an attribute or a closure,"),
        (the_base_of_a_view, "another array that shares its memory"),
    ],
)
def test_the_error_says_by_what_it_can_be_read_and_what_to_write(program, reader):
    with pytest.raises(mt.InPlaceError) as error:
        mt.grad(functools.partial(program, by_grad))(X)
    assert str(error.value) == (
        f"{describe(made())}, which a function in a recording gave to another one, was written in place there with values "
        f"that the first one traces, and {reader} goes on to show the old contents, which have no gradient. Make the "
        "array with np.zeros_like(x) or np.zeros(shape, like=x) of a traced x, or hold it in a field; or give a copy, "
        "`a.copy()`, if nobody needs what is written."
    )


def test_a_list_that_is_read_is_named():
    def outer(x):
        items = [made()]
        total = np.sum(mt.grad(fill_item)(items, x)[0])
        return total + np.sum(items[0])

    with pytest.raises(mt.InPlaceError, match="the name 'items' in outer"):
        mt.grad(outer)(X)


def test_numbers_in_a_list_are_seen_by_its_name():
    def outer(x):
        items = [1.0]

        def inner(items):
            items[0] = x * items[0] * 2.0
            return items[0] ** 2

        return mt.grad(inner)(items)[0] + items[0]

    assert mt.grad(outer)(X) == pytest.approx(numerically(outer))


def test_who_called_the_outermost_recording_may_read_it():
    a = made()

    def outer(a, x):
        return np.sum(mt.grad(fill)(a, x))

    expected = numerically(lambda x: outer(made(), x))
    assert mt.grad(outer, argnums=1)(a, X) == pytest.approx(expected)
    np.testing.assert_allclose(a, [X * 2.0, 2.0 * X, 3.0])


def test_what_the_inner_one_writes_without_the_outer_ones_values_is_seen_by_every_name():
    def outer(x):
        a = made()

        def inner(a):
            a[0] = a[1] * 3.0
            return np.sum(a**2)

        return x * np.sum(mt.grad(inner)(a)) + x * np.sum(a)

    assert mt.grad(outer)(X) == pytest.approx(numerically(outer))


def test_after_the_error_everything_is_as_before():
    seen = []

    def outer(x):
        a = made()
        try:
            mt.grad(fill)(a, x)
        except mt.InPlaceError:
            seen.append(a.tolist())
        return x * np.sum(a)

    assert mt.grad(outer)(X) == pytest.approx(6.0)
    assert seen == [[1.0, 2.0, 3.0]]


def test_to_look_at_the_names_of_a_function_keeps_nothing_alive():
    def outer(x):
        large = np.ones(1000)
        alive = weakref.ref(large)
        total = np.sum(mt.grad(fill)(made(), x))
        del large
        gc.disable()
        try:
            assert alive() is None
        finally:
            gc.enable()
        return total

    assert mt.grad(outer)(X) == pytest.approx(numerically(outer))
