"""What holds for every graph: of walks, of vectors and back, and of their derivatives."""

import numpy as np
from hypothesis import given

import mutangent as mt
from tests.tree.graphs import graphs, picture


@mt.differentiable
class Still:
    x: float = 1.0


STILL = Still()


@given(graphs())
def test_unravel_of_the_vector_is_the_graph_again_and_nothing_of_it(m):
    before = picture(m)
    vector, unravel = mt.ravel(m)
    new = unravel(vector)
    assert picture(new) == before
    old = {id(leaf) for leaf in mt.tree.leaves(m) if isinstance(leaf, np.ndarray)}
    assert not any(id(leaf) in old for leaf in mt.tree.leaves(new))
    assert picture(m) == before


@given(graphs())
def test_ravel_of_an_unravelled_vector_is_the_vector(m):
    vector, unravel = mt.ravel(m)
    moved = (vector + mt.array_module(vector).arange(len(vector))).astype(vector.dtype)
    again, _ = mt.ravel(unravel(moved))
    np.testing.assert_array_equal(again, moved, strict=True)
    np.testing.assert_array_equal(mt.ravel(m)[0], vector)


@given(graphs())
def test_mapping_the_identity_makes_an_equal_graph(m):
    before = picture(m)
    for new in (mt.tree.map(lambda x: x, m), mt.tree.map(np.copy, m), mt.tree.map(lambda x, y: y, m, m)):
        assert len(mt.tree.leaves(new)) == len(mt.tree.leaves(m))
        assert mt.tree.paths(new) == mt.tree.paths(m)
    assert picture(mt.tree.map(lambda x: x, m)) == before
    assert picture(m) == before


@given(graphs(with_state=False))
def test_the_norm_and_the_size_are_those_of_the_vector(m):
    vector, _ = mt.ravel(m)
    np.testing.assert_allclose(mt.tree.norm(m), np.linalg.norm(vector), rtol=1e-6)
    assert mt.tree.size(m) == len(vector) == sum(np.size(p.value) for p in mt.tree.parameters(m))


def weighted_sum(m):
    """Every leaf has its own weight, and so each place of a shared array."""
    terms = [(k + 1) * np.sum(np.real(leaf)) for k, leaf in enumerate(mt.tree.leaves(m))]
    return sum(terms, 0.0) + 0.0 * STILL.x


@given(graphs(recordable=True))
def test_the_gradient_of_a_graph_as_a_vector_is_the_gradient_by_the_vector(m):
    vector, unravel = mt.ravel(m)
    dm = mt.grad(weighted_sum)(m)
    direct = mt.ravel_tangent(m, dm)
    through = mt.grad(lambda v: weighted_sum(unravel(v)))(vector)
    np.testing.assert_array_equal(direct, through)
    sums = mt.total(m, dm)
    for parameter in mt.tree.parameters(m, dm):
        if isinstance(parameter.value, np.ndarray):
            np.testing.assert_array_equal(sums.get(parameter.value, 0.0), parameter.gradient)


@given(graphs(recordable=True))
def test_the_forward_derivative_along_a_vector_is_the_inner_product(m):
    vector, unravel = mt.ravel(m)
    direction = mt.array_module(vector).arange(1.0, len(vector) + 1).astype(vector.dtype)
    value, dot = mt.jvp(lambda v: weighted_sum(unravel(v)), (vector,), (direction,))
    assert dot == np.dot(mt.grad(lambda v: weighted_sum(unravel(v)))(vector), direction)
    assert value == weighted_sum(m)


@given(graphs(recordable=True))
def test_an_sgd_step_moves_the_vector_against_the_gradient_and_keeps_the_graph(m):
    vector, _ = mt.ravel(m)
    dm = mt.grad(weighted_sum)(m)
    gradient = mt.ravel_tangent(m, dm)
    mt.optim.SGD(1.0).update(m, dm)
    np.testing.assert_array_equal(mt.ravel(m)[0], vector - gradient)
