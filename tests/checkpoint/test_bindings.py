"""Names that a checkpointed function binds again: variables of closures, attributes of functions and of classes.

The factor `p.x` is 0, where nothing but the derivative shows what the second run met.
"""

import functools

import numpy as np
import pytest

import mutangent as mt
from tests.checkpoint.test_remembered import WAYS


@mt.differentiable
class P:
    x: object = 0.0


def counted_in_the_closure():
    n = 0

    def f(p, _):
        nonlocal n
        n += 1
        return p.x * n

    return f, lambda: n


def counted_in_the_closure_of_another():
    n = 0

    def count():
        nonlocal n
        n += 1
        return n

    return (lambda p, _: p.x * count()), lambda: n


def bound_in_the_closure_for_the_first_time():
    def f(p, _):
        nonlocal last
        try:
            last = last + 1
        except NameError:
            last = 10
        return p.x * last

    last = 0
    del last
    return f, lambda: last  # noqa: F821 - bound by the call


def unbound_in_the_closure():
    last = 5

    def f(p, _):
        nonlocal last
        try:
            factor = last
            del last
        except NameError:
            factor = 7
            last = 9  # noqa: F841 - the next call reads it
        return p.x * factor

    return f, lambda: f(P(1.0), None)


def counted_on_the_function():
    def f(p, _):
        f.calls += 1
        return p.x * f.calls

    f.calls = 0
    return f, lambda: f.calls


def put_on_the_function():
    def f(p, _):
        f.calls = getattr(f, "calls", 3) * 2
        return p.x * f.calls

    return f, lambda: f.calls


def counted_on_a_wrapped_function():
    def counting(f):
        @functools.wraps(f)
        def wrapped(*args):
            wrapped.calls += 1
            return wrapped.calls * f(*args)

        wrapped.calls = 0
        return wrapped

    f = counting(lambda p, _: p.x * 1.0)
    return f, lambda: f.calls


def listed_on_a_function():
    def helper():
        helper.seen.append(len(helper.seen))
        return len(helper.seen)

    helper.seen = []
    return (lambda p, _: p.x * helper()), lambda: helper.seen


def class_of(decorate):
    @decorate
    class Base:
        count = 0
        log: object = None

        def step(self, x):
            type(self).count += 1
            return x * type(self).count

    return Base


def counted_on_the_class_of(decorate):
    def counted():
        cls = class_of(decorate)
        obj = cls()
        return (lambda p, _: obj.step(p.x)), lambda: cls.count

    return counted


def counted_on_a_base_class():
    base = class_of(lambda cls: cls)

    class Derived(base):
        def step(self, x):
            base.count += 1
            return x * base.count

    obj = Derived()
    return (lambda p, _: obj.step(p.x)), lambda: (base.count, "count" in vars(Derived))


def counted_on_a_derived_class():
    base = class_of(lambda cls: cls)
    derived = type("Derived", (base,), {})
    obj = derived()  # the first time makes an attribute of the derived class
    return (lambda p, _: obj.step(p.x)), lambda: (base.count, derived.count)


def counted_on_a_class():
    cls = class_of(lambda cls: cls)

    def f(p, _):
        cls.count += 1
        return p.x * cls.count

    return f, lambda: cls.count


def counted_on_the_class_of_the_method():
    cls = class_of(lambda cls: cls)
    obj = cls()
    step = obj.step
    return (lambda p, _: step(p.x)), lambda: cls.count


def listed_on_a_class():
    cls = class_of(lambda cls: cls)
    cls.log = []

    def f(p, _):
        cls.log.append(1)
        return p.x * len(cls.log)

    return f, lambda: cls.log


def cached_on_a_class():
    cls = class_of(lambda cls: cls)

    def f(p, _):
        if not hasattr(cls, "cache"):
            cls.cache = 3
            return p.x * 2
        cls.cache += 1
        return p.x * cls.cache

    return f, lambda: cls.cache


BINDINGS = [
    counted_in_the_closure,
    counted_in_the_closure_of_another,
    bound_in_the_closure_for_the_first_time,
    unbound_in_the_closure,
    counted_on_the_function,
    put_on_the_function,
    counted_on_a_wrapped_function,
    listed_on_a_function,
    counted_on_the_class_of(lambda cls: cls),
    counted_on_the_class_of(mt.differentiable),
    counted_on_the_class_of(mt.differentiable(slots=False)),
    counted_on_a_base_class,
    counted_on_a_derived_class,
    counted_on_a_class,
    counted_on_the_class_of_the_method,
    listed_on_a_class,
    cached_on_a_class,
]


def slopes(f, left):
    _, pullback = mt.vjp(lambda p: f(p, None), P())
    return float(pullback(1.0)[0].x), float(pullback(1.0)[0].x), left()


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("binding", BINDINGS)
def test_names_are_bound_as_in_the_first_run_and_afterwards_as_after_one(binding, way):
    f, left = binding()
    plain, _ = way(f)
    expected = slopes(plain, left)
    f, left = binding()
    _, checkpointed = way(f)
    found = slopes(checkpointed, left)
    np.testing.assert_allclose(found[:2], expected[:2])
    assert found[2] == expected[2]


def test_a_variable_that_the_caller_binds_again_is_as_the_first_run_met_it():
    @mt.checkpoint
    def step(x):
        return x * i

    def loss(x):
        nonlocal i
        total = 0.0
        for i in range(1, 5):
            total = total + step(x) * i
        return total

    i = 0
    assert mt.grad(loss)(0.0) == 1 + 4 + 9 + 16
    assert i == 4
    assert mt.grad(mt.grad(lambda x: loss(x) ** 2))(0.5) == 2 * 30**2


def test_a_method_of_an_undecorated_class_is_counted_once_where_the_call_raises():
    cls = class_of(lambda cls: cls)
    obj = cls()

    @mt.checkpoint
    def fails(p, x):
        p.x = obj.step(x)
        raise ValueError

    def loss(x):
        p = P()
        for _ in range(3):
            try:
                fails(p, x)
            except ValueError:
                x = x + p.x
        return x

    # x (1 + 1) (1 + 2) (1 + 3)
    assert mt.grad(loss)(0.0) == 24.0
    assert cls.count == 3
