"""Cases 1–6: attributes of objects, of objects in objects, and of objects in containers."""

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, ZERO, Fields, three_ways


@mt.differentiable
class Mutable:
    x: object


@mt.differentiable(frozen=True)
class Frozen:
    x: object


@mt.differentiable(slots=False)
class MutableDict:
    x: object


@mt.differentiable(slots=False, frozen=True)
class FrozenDict:
    x: object


HOLDERS = [Mutable, Frozen, MutableDict, FrozenDict]

# ---------------------------------------------------------------- case 1


@pytest.mark.parametrize("inner", HOLDERS)
@pytest.mark.parametrize("outer", HOLDERS)
def test_an_attribute_of_an_attribute_has_its_gradient(outer, inner):
    three_ways(lambda: (outer(inner(4.0)),), lambda o: o.x.x**3, (Fields(x=Fields(x=48.0)),))


@pytest.mark.parametrize("inner", HOLDERS)
@pytest.mark.parametrize("outer", HOLDERS)
def test_an_array_two_attributes_down_has_its_gradient(outer, inner, xp):
    three_ways(
        lambda: (outer(inner(xp.asarray([4.0, 1.0]))),),
        lambda o: np.sum(o.x.x**3),
        (Fields(x=Fields(x=[48.0, 3.0])),),
    )


@pytest.mark.parametrize("holder", HOLDERS)
def test_five_attributes_down_is_no_different(holder):
    def nested():
        o = holder(4.0)
        for _ in range(4):
            o = holder(o)
        return (o,)

    expected = Fields(x=48.0)
    for _ in range(4):
        expected = Fields(x=expected)
    three_ways(nested, lambda o: o.x.x.x.x.x**3, (expected,))


@pytest.mark.parametrize("holder", [Mutable, MutableDict])
def test_a_frozen_child_may_be_replaced_in_its_mutable_parent(holder):
    def loss(o):
        o.x = Frozen(o.x.x * 3)
        return o.x.x**2

    three_ways(lambda: (holder(Frozen(2.0)),), loss, (Fields(x=Fields(x=36.0)),))


# ---------------------------------------------------------------- case 2


def test_an_object_in_a_tuple_argument_has_a_tangent_in_a_tuple():
    three_ways(lambda: ((Mutable(3.0),),), lambda t: t[0].x * 1.0, ((Fields(x=1.0),),))
    (tangents,) = mt.grad(lambda t: t[0].x * 1.0, argnums=(0,))((Mutable(3.0),))
    assert type(tangents) is tuple
    assert tangents == (mt.Tangent(Mutable, x=1.0),)


def test_the_field_itself_may_be_the_loss():
    three_ways(lambda: ((Mutable(3.0),),), lambda t: t[0].x, ((Fields(x=1.0),),))


@pytest.mark.parametrize(
    ("argument", "read", "expected"),
    [
        (lambda o: [o], lambda a: a[0].x, [Fields(x=2.0)]),
        (lambda o: {"o": o}, lambda a: a["o"].x, {"o": Fields(x=2.0)}),
        (lambda o: (1, [o, "text"]), lambda a: a[1][0].x, (ZERO, [Fields(x=2.0), ZERO])),
        (lambda o: (o, Mutable(5.0)), lambda a: a[0].x, (Fields(x=2.0), ZERO)),
    ],
)
def test_an_object_in_other_containers_has_a_tangent_in_its_place(argument, read, expected):
    three_ways(lambda: (argument(Mutable(1.0)),), lambda a: read(a) ** 2, (expected,))


# ---------------------------------------------------------------- case 3


def test_a_field_read_twice_counts_twice(xp):
    three_ways(
        lambda: ((Mutable(xp.asarray([3.0])),),),
        lambda t: np.sum(t[0].x + t[0].x) ** 3,
        ((Fields(x=[216.0]),),),
    )


def test_a_field_read_many_times_counts_as_often(xp):
    three_ways(
        lambda: (Mutable(xp.asarray([3.0, 1.0])),),
        lambda o: np.sum(sum(o.x for _ in range(7))),
        (Fields(x=[7.0, 7.0]),),
    )


# ---------------------------------------------------------------- case 4


def norm_and_more(x):
    return abs(x) ** 2 + 7 * x.real


def test_a_complex_field_has_the_direction_of_steepest_ascent():
    three_ways(lambda: (Mutable(1 + 1j),), lambda o: norm_and_more(o.x), (Fields(x=9 + 2j),))


@pytest.mark.parametrize("holder", HOLDERS)
def test_a_complex_field_of_an_object_in_an_object(holder):
    three_ways(
        lambda: (holder(Mutable(1 + 1j)),), lambda o: norm_and_more(o.x.x), (Fields(x=Fields(x=9 + 2j)),)
    )


def test_a_complex_field_of_an_object_in_a_list():
    three_ways(lambda: ([Mutable(1 + 1j)],), lambda a: norm_and_more(a[0].x), ([Fields(x=9 + 2j)],))


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_a_complex_array_in_a_field(xp, dtype):
    three_ways(
        lambda: (Mutable(xp.asarray([1 + 1j, 2 - 1j], dtype)),),
        lambda o: np.sum(np.abs(o.x) ** 2 + 7 * np.real(o.x)),
        (Fields(x=[9 + 2j, 11 - 2j]),),
    )


def test_a_complex_state_is_rotated_and_read():
    def loss(o, angle):
        for _ in range(3):
            o.x = o.x * np.exp(1j * angle)
        return o.x.real**2 + 3 * o.x.imag

    three_ways(lambda: (Mutable(1 + 2j), 0.3), loss, NUMERICAL)


def test_a_real_number_in_a_complex_formula_has_a_real_gradient():
    three_ways(lambda: (Mutable(0.5),), lambda o: np.abs(o.x * (3 + 4j)) ** 2, (Fields(x=25.0),))


# ---------------------------------------------------------------- case 5


@mt.differentiable
class Particle:
    q: np.ndarray
    p: np.ndarray
    m: float


def kinetic(particle):
    return np.sum(particle.p**2) / (2 * particle.m)


def energy(a, b):
    separation = a.q - b.q
    return -100 * a.m * b.m / np.sqrt(np.sum(separation**2)) + kinetic(a) + kinetic(b)


def particles(xp):
    return (
        Particle(xp.asarray([0.0, 0.0, 0.0]), xp.asarray([1.0, 1.0, 1.0]), 1.0),
        Particle(xp.asarray([0.1, 0.1, 0.1]), xp.asarray([1.0, 1.0, 1.0]), 1.0),
    )


def test_two_particles_have_forces_velocities_and_mass_terms(xp):
    force = 1924.500897
    three_ways(
        lambda: particles(xp),
        energy,
        (
            Fields(q=[-force] * 3, p=[1.0] * 3, m=-578.8502692),
            Fields(q=[force] * 3, p=[1.0] * 3, m=-578.8502692),
        ),
    )


def test_two_particles_in_a_list_have_the_same(xp):
    force = 1924.500897
    three_ways(
        lambda: (list(particles(xp)),),
        lambda pair: energy(*pair),
        (
            [
                Fields(q=[-force] * 3, p=[1.0] * 3, m=-578.8502692),
                Fields(q=[force] * 3, p=[1.0] * 3, m=-578.8502692),
            ],
        ),
    )


def test_one_particle_twice_in_a_list_has_one_tangent_with_both_shares(xp):
    def twice():
        p, _ = particles(xp)
        return ([p, p],)

    shares = Fields(p=[2.0] * 3, m=-3.0)
    three_ways(twice, lambda pair: kinetic(pair[0]) + kinetic(pair[1]), ([shares, shares],))


def test_particles_that_move_are_differentiated_through_the_motion(xp):
    def loss(a, b):
        for _ in range(3):
            pull = (b.q - a.q) / np.sum((b.q - a.q) ** 2) ** 1.5
            a.p = a.p + 0.01 * b.m * pull
            b.p = b.p - 0.01 * a.m * pull
            a.q = a.q + 0.01 * a.p / a.m
            b.q = b.q + 0.01 * b.p / b.m
        return np.sum(a.q * b.p) + kinetic(a)

    def apart():
        a, b = particles(xp)
        b.q = xp.asarray([1.0, 0.5, -0.3])
        return a, b

    three_ways(apart, loss, NUMERICAL)


# ---------------------------------------------------------------- case 6


@mt.differentiable
class Signal:
    u: np.ndarray


def test_elements_that_are_read_have_a_share_and_the_others_none(xp):
    three_ways(
        lambda: (Signal(xp.asarray([5.0, 6.0, 7.0])),),
        lambda o: sum(o.u[i] for i in (0, 1)),
        (Fields(u=[1, 1, 0]),),
    )


def test_an_element_read_twice_counts_twice(xp):
    three_ways(
        lambda: (Signal(xp.asarray([5.0, 6.0, 7.0])),),
        lambda o: o.u[-1] * o.u[2] + np.sum(o.u[[0, 0]]),
        (Fields(u=[2, 0, 14]),),
    )


def test_iteration_over_a_field_reaches_every_element(xp):
    three_ways(
        lambda: (Signal(xp.asarray([5.0, 6.0, 7.0])),),
        lambda o: sum(k * u for k, u in enumerate(o.u)),
        (Fields(u=[0, 1, 2]),),
    )


def test_rows_and_slices_and_masks_of_a_field(xp):
    def loss(o):
        return np.sum(o.u[0] * o.u[:, 1]) + np.sum(o.u[o.u > 2.5])

    three_ways(lambda: (Signal(xp.asarray([[1.0, 2.0], [3.0, 4.0]])),), loss, NUMERICAL)


def test_a_float32_field_has_a_float32_tangent(xp):
    three_ways(
        lambda: (Signal(xp.asarray([5.0, 6.0, 7.0], np.float32)),),
        lambda o: np.sum(o.u.astype(np.float64) ** 2) if o.u.dtype == np.float64 else np.sum(o.u**2 * 1.0),
        (Fields(u=[10, 12, 14]),),
    )


def test_fields_without_a_tangent_space_read_as_no_tangent():
    @mt.differentiable
    class Mixed:
        x: float
        name: str = "a"
        count: int = 3
        flag: bool = True
        nothing: object = None
        call: object = np.tanh

    tangent = mt.grad(lambda o: o.call(o.x) * o.count)(Mixed(0.0))
    assert tangent.x == 3.0
    for name in attrs.fields_dict(Mixed):
        if name != "x":
            assert isinstance(getattr(tangent, name), mt.NoTangent | mt.ZeroTangent), name
