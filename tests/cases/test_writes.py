"""Cases 7–12 and 16: fields that are written, in every order with reads."""

import copy

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, ZERO, Fields, three_ways


@mt.differentiable
class Box:
    v: object = 0.0


@mt.differentiable
class Pair:
    a: object = 0.0
    b: object = 0.0


@mt.differentiable
class Triple:
    a: object = 0.0
    b: object = 0.0
    c: object = 0.0


@mt.differentiable
class Data:
    data: np.ndarray


# ---------------------------------------------------------------- case 7


def test_an_object_made_in_the_loss_and_written_three_times():
    def loss(x):
        r = Box()
        r.v = 1.0
        for _ in range(3):
            r.v = r.v * x
        return r.v

    three_ways(lambda: (2.0,), loss, (12.0,))


def test_an_object_made_in_the_loss_from_an_array(xp):
    def loss(x):
        r = Box(x * x)
        r.v = r.v * x
        return np.sum(r.v)

    three_ways(lambda: (xp.asarray([2.0, 1.0]),), loss, ([12.0, 3.0],))


def test_an_object_made_in_the_loss_inside_another_made_there():
    def loss(x):
        outer = Box(Box(x))
        outer.v.v = outer.v.v * outer.v.v
        outer.v = Box(outer.v.v * x)
        return outer.v.v

    three_ways(lambda: (2.0,), loss, (12.0,))


def test_an_object_made_in_the_loss_may_be_returned_beside_the_value():
    def loss(x):
        return x**2, Box(3 * x)

    for _ in range(3):
        (value, aux), dx = mt.value_and_grad(loss, has_aux=True)(2.0)
        assert (value, dx) == (4.0, 4.0)
        assert type(aux.v) is float
        assert aux.v == 6.0


# ---------------------------------------------------------------- case 8


def test_three_swaps_of_fields_of_an_object_made_in_the_loss():
    def loss(x):
        o = Pair(x, 2 * x)
        for _ in range(3):
            o.a, o.b = o.b, o.a
        return o.a

    three_ways(lambda: (1.5,), loss, (2.0,))


def test_three_swaps_of_fields_of_a_prepared_object():
    def loss(o, x):
        o.a, o.b = x, 2 * x
        for _ in range(3):
            o.a, o.b = o.b, o.a
        return o.a

    three_ways(lambda: (Pair(8.0, 9.0), 1.5), loss, (ZERO_OBJECT, 2.0))


ZERO_OBJECT = Fields()


def test_three_swaps_of_entry_values_give_the_tangent_to_the_other_field(xp):
    def loss(o):
        for _ in range(3):
            o.a, o.b = o.b, o.a
        return np.sum(o.a * xp.asarray([1.0, 10.0]))

    three_ways(
        lambda: (Pair(xp.asarray([1.0, 2.0]), xp.asarray([3.0, 4.0])),), loss, (Fields(b=[1.0, 10.0]),)
    )


@pytest.mark.parametrize(("turns", "dx"), [(1, 2.0), (2, 3.0), (3, 1.0), (4, 2.0)])
def test_rotation_of_three_fields(turns, dx):
    def loss(o, x):
        o.a, o.b, o.c = x, 2 * x, 3 * x
        for _ in range(turns):
            o.a, o.b, o.c = o.b, o.c, o.a
        return o.a

    three_ways(lambda: (Triple(), 1.5), loss, (Fields(), dx))


def test_a_swap_of_children_swaps_objects_and_not_tangents():
    def loss(o):
        o.a, o.b = o.b, o.a
        o.a.v = o.a.v * 3
        return o.a.v + 5 * o.b.v

    three_ways(lambda: (Pair(Box(1.0), Box(2.0)),), loss, (Fields(a=Fields(v=5.0), b=Fields(v=3.0)),))


def test_a_swap_between_two_objects(xp):
    def loss(p, q):
        p.v, q.v = q.v, p.v
        p.v, q.v = p.v * q.v, p.v
        return np.sum(p.v * p.v * q.v)

    three_ways(lambda: (Box(xp.asarray([1.5])), Box(xp.asarray([0.5]))), loss, NUMERICAL)


# ---------------------------------------------------------------- case 9


def test_a_field_squared_in_place_three_times():
    def loss(o):
        for _ in range(3):
            o.v = o.v * o.v
        return o.v

    three_ways(lambda: (Box(1.1),), loss, (Fields(v=15.58974),))


def test_a_field_squared_by_an_augmented_assignment():
    def loss(o):
        for _ in range(3):
            o.v *= o.v
        return o.v

    three_ways(lambda: (Box(1.1),), loss, (Fields(v=15.58974),))


# ---------------------------------------------------------------- case 10

GLOBAL = Box(7.0)


def test_a_global_object_that_is_written():
    def loss(y):
        GLOBAL.v = y
        return GLOBAL.v

    three_ways(lambda: (3.0,), loss, (1.0,), reaches=(GLOBAL,), expected_reached=(Fields(),))


def test_a_global_object_that_is_read_and_written():
    def loss(y):
        GLOBAL.v = y * GLOBAL.v
        return GLOBAL.v**2

    three_ways(lambda: (3.0,), loss, (294.0,), reaches=(GLOBAL,), expected_reached=(Fields(v=126.0),))


def test_a_captured_buffer_that_is_written_and_read_back():
    buf = Box(0.0)

    def loss(x):
        buf.v = 2 * x
        return buf.v**2

    three_ways(lambda: (3.0,), loss, (24.0,), reaches=(buf,), expected_reached=(Fields(),))


def test_a_captured_buffer_that_accumulates(xp):
    buf = Box(xp.asarray([1.0, 2.0]))

    def loss(x):
        buf.v = buf.v + x
        buf.v = buf.v * x
        return np.sum(buf.v)

    three_ways(
        lambda: (xp.asarray([3.0, 4.0]),),
        loss,
        ([7.0, 10.0],),
        reaches=(buf,),
        expected_reached=(Fields(v=[3.0, 4.0]),),
    )


def test_a_buffer_in_a_default_argument_and_in_a_bound_method():
    @mt.differentiable
    class Memory:
        v: float

        def keep(self, x):
            self.v = self.v * x
            return self.v

    memory = Memory(5.0)
    three_ways(lambda: (3.0,), memory.keep, (5.0,), reaches=(memory,), expected_reached=(Fields(v=3.0),))
    three_ways(
        lambda: (3.0,),
        lambda x, m=memory: m.keep(m.keep(x)),
        (150.0,),
        reaches=(memory,),
        expected_reached=(Fields(v=90.0),),
    )


# ---------------------------------------------------------------- case 11


@pytest.mark.parametrize(
    "fresh",
    [
        lambda a: Data(np.copy(a.data)),
        lambda a: Data(a.data.copy()),
        copy.copy,
        copy.deepcopy,
        attrs.evolve,
        lambda a: Data(copy.copy(a.data)),
        lambda a: Data(copy.deepcopy(a.data)),
    ],
)
def test_a_fresh_object_in_each_iteration(fresh, xp):
    def loss(a):
        return sum(np.sum(c * fresh(a).data) for c in (1, 2, 3, 4))

    three_ways(lambda: (Data(xp.asarray([1.0, 2.0, 3.0])),), loss, (Fields(data=[10.0, 10.0, 10.0]),))


def test_a_fresh_object_that_is_written_leaves_the_old_one_alone(xp):
    def loss(a):
        total = 0.0
        for c in (1, 2, 3, 4):
            b = copy.copy(a)
            b.data = b.data * c
            total = total + np.sum(b.data * a.data)
        return total

    three_ways(lambda: (Data(xp.asarray([1.0, 2.0, 3.0])),), loss, (Fields(data=[20.0, 40.0, 60.0]),))


# ---------------------------------------------------------------- case 12


def test_a_value_read_before_an_overwrite_keeps_its_origin():
    def loss(o, p, q):
        o.v = p
        old = o.v
        o.v = q
        return old * o.v

    three_ways(lambda: (Box(9.0), 2.0, 3.0), loss, (Fields(), 3.0, 2.0))


def test_an_overwritten_value_that_nobody_read_has_no_gradient():
    def loss(o, p, q):
        o.v = p
        o.v = 5.0
        return o.v * q

    three_ways(lambda: (Box(9.0), 2.0, 3.0), loss, (Fields(), 0.0, 5.0))


def test_two_fields_written_from_each_other():
    def loss(o, x, w):
        o.a = x
        o.b = o.a * w
        o.a = o.b + o.a
        return o.a * o.b

    three_ways(lambda: (Pair(), 2.0, 3.0), loss, (Fields(), 48.0, 28.0))


def test_an_entry_value_that_is_read_and_then_overwritten():
    def loss(o, q):
        old = o.v
        o.v = q * old
        return o.v * old

    three_ways(lambda: (Box(2.0), 3.0), loss, (Fields(v=12.0), 4.0))


def test_a_field_overwritten_before_any_read_has_a_zero_tangent(xp):
    def loss(o, x):
        o.v = x
        return np.sum(o.v**2)

    three_ways(lambda: (Box(xp.asarray([1.0, 2.0])), xp.asarray([3.0])), loss, (Fields(v=ZERO), [6.0]))
    tangent = mt.grad(loss)(Box(np.ones(2)), np.ones(1))
    assert tangent.v == mt.ZeroTangent()


def test_a_write_of_what_was_read_changes_nothing(xp):
    def loss(o):
        o.v = o.v
        return np.sum(o.v * o.v)

    three_ways(lambda: (Box(xp.asarray([1.0, 2.0])),), loss, (Fields(v=[2.0, 4.0]),))


def test_a_field_may_change_type_and_shape_on_its_way(xp):
    def loss(o, x):
        o.a = np.sum(x) * o.a
        o.b = "seen"
        o.a = np.stack([o.a, o.a**2])
        o.b = o.a[1]
        return o.b * 1.0

    three_ways(lambda: (Pair(3.0, None), xp.asarray([1.0, 1.0])), loss, (Fields(a=24.0), [36.0, 36.0]))


# ---------------------------------------------------------------- case 16


@mt.differentiable
class Accumulator:
    acc: float = 0.0


def accumulate(o, xs):
    for x in xs:
        o.acc = x + o.acc + x * o.acc
    return o.acc**2


def test_an_accumulator_over_a_list_of_numbers():
    o = Accumulator()
    three_ways(
        lambda: (o, [0.1, 0.2, 0.3]),
        accumulate,
        (Fields(acc=2.457312), [2.23392, 2.04776, 1.89024]),
    )
    mt.grad(accumulate)(o, [0.1, 0.2, 0.3])
    assert type(o.acc) is float
    assert o.acc == pytest.approx(0.716)


def test_an_accumulator_over_an_array(xp):
    three_ways(
        lambda: (Accumulator(), xp.asarray([0.1, 0.2, 0.3])),
        accumulate,
        (Fields(acc=2.457312), [2.23392, 2.04776, 1.89024]),
    )


def test_an_accumulator_that_is_kept_continues_from_where_it_is():
    o, plain = Accumulator(), Accumulator()
    for _ in range(3):
        xs = [0.1, 0.2, 0.3]
        here = plain.acc
        (dxs,) = mt.grad(accumulate, argnums=(1,))(o, xs)
        accumulate(plain, xs)
        final = (1 + here) * 1.1 * 1.2 * 1.3 - 1
        np.testing.assert_allclose(dxs, [2 * final * (final + 1) / (1 + x) for x in xs], rtol=1e-12)
        assert type(o.acc) is float
        assert o.acc == pytest.approx(plain.acc, rel=1e-14)
