"""What random programs have found, made small."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mutangent as mt


@mt.differentiable
class Node:
    x: float = 1.0
    v: np.ndarray = mt.field(factory=lambda: np.array([1.0, 2.0]))
    items: list[float] = mt.field(factory=lambda: [0.5, 2.0])
    child: Any = None
    other: Any = None

    def scaled(self, s: float) -> float:
        self.x = self.x * s * self.other.x
        return self.x

    @mt.primitive
    def scale(self, s: float) -> float:
        return self.scaled(s)

    @scale.rrule
    def scale(self, s: float) -> Any:
        out, back = mt.vjp(Node.scaled, self, s)

        def scale_pullback(out_bar: float, written: mt.IdentityMap[mt.Tangent]) -> Any:
            return back(out_bar, written)

        return out, scale_pullback


def numbers(tangents: list[Any]) -> list[float]:
    """Tangents of numbers, with zero for what nothing flowed to."""
    return [float(each) for each in tangents]


# -- lists and dicts are one by identity ---------------------------------------------------------------------------------


def test_a_list_in_two_fields_has_one_tangent_also_in_the_field_that_is_not_read() -> None:
    a = Node()
    b = Node(items=a.items, child=a)
    g = mt.grad(lambda b: b.child.items[0] ** 2)(b)
    assert numbers(g.items) == numbers(g.child.items) == [1.0, 0.0]
    assert g.items is g.child.items


def test_a_list_that_grows_has_a_tangent_for_its_items_on_entry_in_all_places() -> None:
    a = Node()
    b = Node(items=a.items, child=a)

    def grow(b: Node, items: list[float]) -> float:
        b.child.items.append(b.x)
        return b.child.items[0] ** 2

    of_b, of_items = mt.grad(grow, argnums=(0, 1))(b, a.items)
    assert numbers(of_b.items) == numbers(of_b.child.items) == of_items == [1.0, 0.0]
    assert all(type(each) is float for each in of_items), (
        "an argument's gradient has numbers, also where nothing flowed"
    )


def test_a_tuple_that_is_not_read_does_not_lend_its_tangent_to_another_container() -> None:
    node = Node(child=({"a": 1.0}, (2.0, 3.0)), other=((1.0, 2.0), [3.0], {"b": (4.0,)}))
    g = mt.grad(lambda n: n.x * 2.0)(node)
    assert [type(part) for part in g.child] == [dict, tuple]
    assert [type(part) for part in g.other] == [tuple, list, dict]


@pytest.mark.parametrize(
    "hold", [lambda items: {"items": items}, lambda items: [items], lambda items: (0.5, items)]
)
@pytest.mark.parametrize("read", ["child", "other"])
def test_a_list_within_containers_of_two_fields_has_one_tangent_also_where_it_is_not_read(
    hold: Callable[[Any], Any], read: str
) -> None:
    items = [0.5, 2.0]
    node = Node(child=hold(items), other=hold(items))
    inside = lambda held: held["items"] if isinstance(held, dict) else held[-1]

    def loss(node: Node) -> float:
        return inside(getattr(node, read))[0] ** 2

    with mt.Context() as ctx:
        out = loss(node)
    for tangent in (mt.grad(loss)(node), mt.vjp(loss, node)[1](1.0)[0], ctx.grad(out, node)):
        assert inside(tangent.child) is inside(tangent.other)
        assert numbers(inside(tangent.child)) == [1.0, 0.0]


# -- cotangents of objects -----------------------------------------------------------------------------------------------


def chained(first: Callable[..., Any], second: Callable[..., Any], *args: Node) -> tuple[Any, ...]:
    """The gradient of `second` after `first`, which return numbers, through the objects alone."""
    _, first_back = mt.vjp(first, *args)
    _, second_back = mt.vjp(second, *args)
    return first_back(0.0, mt.IdentityMap(zip(args, second_back(1.0), strict=True)))


def test_the_cotangent_of_a_shared_child_counts_once() -> None:
    c = Node(3.0)
    a, b = Node(child=c), Node(child=c)
    of_a, of_b = chained(lambda a, b: a.child.x * 0.0, lambda a, b: a.child.x * b.child.x, a, b)
    assert of_a.child is of_b.child
    assert of_a.child.x == 6.0


def test_the_tangents_of_a_context_are_cotangents_for_an_earlier_call() -> None:
    a = Node(child=Node(3.0))
    _, back = mt.vjp(lambda a: a.child.x * 0.0, a)
    with mt.Context() as ctx:
        out = a.child.x**2
    assert back(0.0, ctx.tangents(out))[0].child.x == 6.0


def test_a_child_that_a_later_call_replaces_keeps_its_cotangent() -> None:
    a, b = Node(), Node(child=Node(3.0))

    def replace(a: Node, b: Node) -> float:
        out = b.child.x**2
        b.child = a
        return out

    of_a, of_b = chained(lambda a, b: a.x * 1.0, replace, a, b)
    assert of_b.child.x == 6.0
    assert float(of_a.x) == 0.0


def test_a_list_of_an_untouched_object_may_grow_before_the_sweep() -> None:
    a, b = Node(), Node()

    def grow(a: Node, b: Node) -> float:
        out = b.items[0] * 2.0
        b.items.append(b.x)
        return out

    assert numbers(chained(lambda a, b: a.x * 1.0, grow, a, b)[1].items) == [2.0, 0.0]


def test_a_list_that_grew_lies_in_a_field_that_was_not_read() -> None:
    a = Node()
    b = Node(items=a.items)

    def grow(a: Node, b: Node) -> float:
        a.items.append(a.x * 1.0)
        return a.x * 0.0

    of_a, of_b = chained(grow, lambda a, b: b.items[0] * 2.0 + b.items[-1] * 3.0, a, b)
    assert of_a.x == 3.0
    assert numbers(of_b.items) == [2.0, 0.0]


def test_a_list_that_one_of_two_objects_gave_up_has_its_cotangent_in_both() -> None:
    a = Node()
    b = Node(items=a.items)

    def give_up(a: Node, b: Node) -> float:
        b.items = [0.0, 0.0]
        return a.x * 0.0

    of_a, of_b = chained(give_up, lambda a, b: a.items[0] * 2.0, a, b)
    assert numbers(of_a.items) == numbers(of_b.items) == [2.0, 0.0]


def test_a_list_made_in_the_call_and_put_into_two_fields_counts_once() -> None:
    def share(a: Node, b: Node) -> float:
        a.items = b.items = [a.x * 1.0]
        return a.x * 0.0

    assert chained(share, lambda a, b: b.items[0] * 2.0, Node(), Node())[0].x == 2.0


def test_a_list_in_two_fields_and_in_an_object_that_the_call_made_counts_once() -> None:
    a = Node()
    b = Node(items=a.items)
    first = lambda a, b: copy.copy(a).x * 0.0
    of_a, of_b = chained(first, lambda a, b: b.items[0] * 2.0, a, b)
    assert numbers(of_a.items) == numbers(of_b.items) == [2.0, 0.0]


def test_a_gradient_taken_after_a_child_was_replaced_is_that_of_the_child_on_entry() -> None:
    a = Node(child=Node(5.0))
    old = a.child
    with mt.Context() as ctx:
        out = a.x * old.x
    a.child = Node(7.0)
    assert ctx.grad(out, a).child.x == 1.0


# -- rules that use vjp --------------------------------------------------------------------------------------------------


def test_a_rule_need_not_read_a_field_whose_object_it_reached_otherwise() -> None:
    other = Node()
    g = mt.grad(lambda n: n.scale(3.0))(Node(2.0, child=other, other=other))
    assert g.child is g.other
    assert (g.x, g.other.x) == (3.0, 6.0)


@pytest.mark.parametrize("between", [lambda n: Node(child=n), lambda n: Node(child=[n, {"a": 1.0}])])
def test_nor_one_that_leads_there_through_an_object_it_did_not_touch(between: Callable[[Node], Node]) -> None:
    other = Node()
    g = mt.grad(lambda n: n.scale(3.0))(Node(2.0, child=between(other), other=other))
    assert g.other.x == 6.0


def test_nor_one_that_holds_the_object_itself() -> None:
    node = Node(2.0, other=Node())
    node.child = node
    g = mt.grad(lambda n: n.scale(3.0))(node)
    assert g.child is g
    assert g.x == 3.0


def test_what_happens_after_a_call_does_not_matter_to_its_pullback() -> None:
    other = Node()
    untouched = Node(child=other)

    def change(node: Node) -> float:
        out = node.scale(3.0)
        node.items.append(out)
        untouched.other.append(node)
        untouched.child = node
        return out

    untouched.other = [other]
    g = mt.grad(change)(Node(2.0, child=untouched, other=other))
    assert (g.x, g.other.x) == (3.0, 6.0)


def test_a_traced_tangent_of_a_rule_adds_up_like_a_plain_one() -> None:
    @mt.primitive
    def first(v: np.ndarray, s: float) -> Any:
        return v[0] * s

    @first.rrule
    def first(v: np.ndarray, s: float) -> Any:
        return v[0] * s, lambda bar: (
            np.stack([bar * s, bar * 0.0]).astype(v.dtype),
            float(mt.primal(bar * v[0])) * (s / s),
        )

    v = np.array([0.3, 0.7], np.float32)
    inner = lambda s: np.sum(v * s) + first(v, s) * 1.1
    nested: list[float] = []
    mt.grad(lambda s: nested.append(mt.primal(mt.grad(inner)(s))) or s * 1.0)(0.7)
    assert nested == [mt.grad(inner)(0.7)]


# -- arrays, pause, writes in place ------------------------------------------------------------------------------------


def test_an_array_in_two_fields_is_one_in_a_deep_copy_as_well() -> None:
    node = Node()
    node.child = node.v

    def keep_a_copy(node: Node) -> float:
        node.other = copy.deepcopy(node)
        return node.other.x

    mt.grad(keep_a_copy)(node)
    assert node.other.child is node.other.v


def test_a_first_read_under_pause_in_a_nested_recording_keeps_the_outer_derivative() -> None:
    def outer(node: Node) -> float:
        def inner(z: float) -> float:
            with mt.pause():
                _ = node.x
            return z * node.x

        return mt.grad(inner)(2.0)

    assert mt.grad(outer)(Node()).x == 1.0


def test_a_converter_keeps_the_array_under_pause() -> None:
    @mt.differentiable
    class Holder:
        v: np.ndarray = mt.field(converter=np.asarray)

    a, b = Holder(np.ones(2)), Holder(np.ones(2))

    def alias(a: Holder, b: Holder) -> float:
        with mt.pause():
            a.v = b.v
        return np.sum(a.v)

    mt.grad(alias)(a, b)
    assert a.v is b.v


def test_a_watched_array_that_is_written_has_its_gradient_at_the_value_that_was_watched() -> None:
    with mt.Context() as ctx:
        w = ctx.watch(np.array([2.0, 3.0]))
        watched = w
        w *= 5.0
        out = np.sum(w)
    np.testing.assert_array_equal(ctx.grad(out, watched), [5.0, 5.0])


def test_a_traced_number_is_not_written_into_an_element_of_a_plain_array() -> None:
    def loss(node: Node) -> float:
        plain = np.zeros(3)
        plain[0] = node.x
        return np.sum(plain)

    # NumPy replaces the error of `float(t)`, and keeps it as the cause.
    with pytest.raises(ValueError, match="array element") as caught:
        mt.grad(loss)(Node())
    assert isinstance(caught.value.__cause__, mt.TracedValueError)


def test_an_array_is_not_written_through_a_view_under_pause_past_the_recording() -> None:
    node = Node()

    def loss(node: Node) -> float:
        with mt.pause():
            view = node.v[::-1]
            with contextlib.suppress(ValueError):  # refused, or undone
                view[0] = 5.0
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        mt.grad(loss)(node)
    assert node.v.tolist() == [1.0, 2.0]
