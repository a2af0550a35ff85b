"""`to_device`, `to_host` and `array_module`."""

import sys

import attrs
import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Pair:
    w: np.ndarray
    tied: object = None
    rest: object = None


@mt.differentiable(frozen=True)
class Fixed:
    w: np.ndarray


def test_a_graph_of_objects_stays_itself_and_sharing_stays_sharing(cp):
    shared = np.array([1.0, 2.0])
    child = Pair(shared)
    mask = np.array([True, False])
    m = Pair(shared, child, [{"again": child, "mask": mask}, (shared, 3, "name"), Fixed(np.ones(2))])
    m.rest.append(m)  # a cycle
    containers = m.rest, m.rest[0], m.rest[2]

    assert mt.to_device(m) is m
    assert type(m.w) is cp.ndarray
    assert m.tied is child
    assert child.w is m.w
    assert (m.rest, m.rest[0], m.rest[2]) == containers
    assert m.rest[0]["again"] is child
    assert m.rest[1][0] is m.w
    assert m.rest[1][1:] == (3, "name")
    assert type(m.rest[0]["mask"]) is cp.ndarray
    assert type(m.rest[2].w) is cp.ndarray
    assert mt.to_device(m).w is m.w, "what is there already stays"

    assert mt.to_host(m) is m
    assert type(m.w) is np.ndarray
    assert child.w is m.w
    assert m.rest[1][0] is m.w
    np.testing.assert_array_equal(m.w, [1.0, 2.0])
    np.testing.assert_array_equal(m.rest[0]["mask"], mask)


def test_arrays_and_tuples_are_returned_anew(cp):
    x = np.ones(3)
    a, (b, name) = mt.to_device((x, (x, "name")))
    assert a is b
    assert type(a) is cp.ndarray
    assert name == "name"
    assert type(mt.to_host(a)) is np.ndarray


def test_an_optimiser_moves_with_its_memory(cp):
    m, adam = Pair(np.array([1.0, 2.0])), mt.optim.Adam(0.1)
    gradient = mt.grad(lambda m: np.sum(m.w**2))
    adam.update(m, gradient(m))
    twin, twin_adam = Pair(np.array([1.0, 2.0])), mt.optim.Adam(0.1)
    for _ in range(3):
        twin_adam.update(twin, gradient(twin))
    mt.to_device([m, adam])
    adam.update(m, gradient(m))
    adam.update(m, gradient(m))
    assert type(m.w) is cp.ndarray
    np.testing.assert_allclose(mt.to_host(m).w, twin.w)


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_a_layer_that_was_moved_has_the_gradients_of_the_one_on_the_host(cp, kind):
    rng = np.random.default_rng(1)
    net, x = getattr(mt.nn, kind)(2, 3, rng=rng, dtype=np.float64), rng.normal(size=(2, 5))
    expected = mt.grad(lambda net: np.sum(net(x) ** 2))(net)
    mt.nn.reset(net)
    mt.to_device(net)
    x = cp.asarray(x)
    found = mt.to_host(mt.grad(lambda net: np.sum(net(x) ** 2))(net))
    np.testing.assert_allclose(found.cell.Wi.get(), expected.cell.Wi)
    np.testing.assert_allclose(found.cell.Wh.get(), expected.cell.Wh)


def test_nothing_is_moved_inside_a_recording(cp):
    m = Pair(np.ones(2))
    with pytest.raises(mt.ContextError, match="cannot be moved between host and device inside a recording"):
        mt.grad(lambda m: np.sum(mt.to_device(m).w))(m)
    assert type(m.w) is np.ndarray


def test_plain_attrs_classes_are_looked_into(cp):
    @attrs.define
    class Settings:
        scale: np.ndarray

    settings = mt.to_device(Settings(np.ones(2)))
    assert type(settings.scale) is cp.ndarray


def test_array_module_knows_traced_arrays(cp):
    found = []
    mt.grad(lambda x: np.sum(found.append(mt.array_module(x)) or x))(cp.ones(2))
    mt.grad(lambda x: np.sum(found.append(mt.array_module(x)) or x))(np.ones(2))
    assert found == [cp, np]
    assert mt.array_module(1.0, np.ones(2), cp.ones(2)) is cp
    assert mt.array_module("nothing") is np
    assert mt.array_module() is np


def test_without_cupy_the_error_says_how_to_get_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", None)
    with pytest.raises(
        ImportError, match=r'pip install "cupy-cuda13x\[ctk\]" or pip install "mutangent\[cuda13\]"'
    ):
        mt.to_device(np.ones(2))
    assert mt.array_module(np.ones(2)) is np


def test_without_a_device_the_error_says_what_is_missing(monkeypatch):
    cupy = pytest.importorskip("cupy", reason="CuPy is not installed: pip install cupy-cuda13x")
    monkeypatch.setattr(cupy, "is_available", lambda: False)
    with pytest.raises(
        RuntimeError, match=f"to_device needs a CUDA device, and CuPy {cupy.__version__} finds none: "
    ):
        mt.to_device(np.ones(2))
