"""What one can do with a value in Python: each is the same as in the plain run, or an error that says what to write.

The tables are a survey. A row of `SAME` has the value, the gradient (compared with finite differences) and the objects of
the plain run. A row of `REFUSED` raises while the recording is open, and leaves the object as it was.
"""

import array
import bisect
import collections
import contextlib
import copy
import ctypes
import decimal
import fractions
import functools
import gc
import heapq
import inspect
import io
import itertools
import json
import math
import operator
import pickle
import random
import statistics
import struct
import types
import weakref

import attrs
import numpy as np
import pytest

import mutangent as mt
from tests.cases.harness import NUMERICAL, three_ways

X = np.array([2.0, 1.0, 3.0])


@mt.differentiable
class Box:
    v: object
    w: object = 1.0


def vector():
    return (Box(X.copy()),)


def matrix():
    return (Box(np.arange(6.0).reshape(3, 2)),)


def scalar():
    return (Box(2.0),)


# -- the same as in the plain run ----------------------------------------------------------------------------------------


def matched_by_name(o):
    match o:
        case Box(v=v, w=float()):
            return np.sum(v**2)
    raise AssertionError


def matched_by_position(o):
    match o:
        case Box(v, w):
            return np.sum(v**2) * w
    raise AssertionError


def matched_number(o):
    match o.v:
        case float():
            return o.v * 3
    raise AssertionError


def matched_array(o):
    match o.v:  # a sequence to `match` since NumPy 2.5
        case [a, b, c]:
            return a * b * c
        case _:
            return np.sum(o.v**2)


def set_by_operator(o):
    operator.setitem(o.v, 0, o.v[1] * 2)
    return np.sum(o.v**2)


def set_by_dunder(o):
    o.v.__setitem__(0, o.v[2] * 2)
    return np.sum(o.v**2)


def set_flat(o):
    o.v.flat[1] = o.v[0] * 3
    return np.sum(o.v**2)


def set_real(o):
    o.v.real = o.v * 2
    return np.sum(o.v**2)


def heap(o):
    items = list(o.v)
    heapq.heapify(items)
    heapq.heappush(items, o.v[0] * 0.1)
    return heapq.heappop(items) * 2 + heapq.heappop(items) ** 2


def sorted_in_place(o):
    items = [o.v[0], o.v[1], o.v[2]]
    items.sort(reverse=True)
    return items[0] * 2 + items[1] ** 2


def inserted_in_order(o):
    items = [1.0, 3.0]
    bisect.insort(items, o.v)
    return sum(k * item for k, item in enumerate(items))


def unpacked(o):
    first, *rest = o.v
    return first * rest[0] + rest[1]


def as_arguments(o):
    def combine(a, b, c):
        return a * b + c

    return combine(*o.v)


def shuffled_list(o):
    items = list(o.v)
    random.Random(3).shuffle(items)
    return items[0] ** 2 * items[1]


def sliced_into_a_list(o):
    items = [0, 0]
    items[:] = o.v
    items += list(o.v)
    return items[0] * items[-1]


def object_array(o):
    made = np.empty(2, object)
    made[0], made[1] = o.v[0], o.v[1]
    return made[0] * made[1]


def suppressed(o):
    with contextlib.suppress(ZeroDivisionError):
        o.v = o.v * 2
        1 / 0  # noqa: B018 - it raises
    return np.sum(o.v**2)


def managed(o):
    @contextlib.contextmanager
    def doubled():
        o.v = o.v * 2
        yield o.v
        o.v = o.v * 3

    with doubled() as v:
        out = np.sum(v * o.v)
    return out + np.sum(o.v)


def exit_stack(o):
    with contextlib.ExitStack() as stack:
        stack.callback(setattr, o, "v", o.v * 3)
        out = np.sum(o.v)
    return out * np.sum(o.v)


def generated(o):
    def steps():
        while True:
            o.v = o.v * 2
            received = yield o.v
            o.w = o.w * received

    stepper = steps()
    next(stepper)
    stepper.send(3.0)
    stepper.close()
    return np.sum(o.v) * o.w


def delegated(o):
    def inner():
        yield o.v[0]
        return o.v[1]

    def outer():
        last = yield from inner()
        yield last * 2

    return sum(outer())


def asynchronous(o):
    async def double():
        o.v = o.v * 2
        return o.v

    with contextlib.suppress(StopIteration):
        double().send(None)
    return np.sum(o.v**2)


def shuffled_numbers(o):
    np.random.default_rng(3).shuffle(o.v)
    return np.sum(o.v * np.arange(3.0))


def decorated(o):
    @functools.singledispatch
    def twice(value):
        return value * 2

    return np.sum(twice(o.v))


SAME_VECTOR = {
    "object.__getattribute__": lambda o: np.sum(object.__getattribute__(o, "v") ** 2),
    "the descriptor": lambda o: np.sum(type(o).v.__get__(o) ** 2),
    "the descriptor in the class": lambda o: np.sum(vars(Box)["v"].__get__(o, Box) ** 2),
    "getattr with a default": lambda o: np.sum(getattr(o, "v", None) ** 2),
    "attrs.fields": lambda o: np.sum(getattr(o, attrs.fields(Box).v.name) ** 2),
    "inspect.getmembers": lambda o: np.sum(dict(inspect.getmembers(o))["v"] ** 2),
    "inspect.getattr_static": lambda o: np.sum(inspect.getattr_static(o, "v").__get__(o) ** 2),
    "__getstate__": lambda o: np.sum(o.__getstate__()["v"] ** 2),
    "__reduce_ex__": lambda o: np.sum(o.__reduce_ex__(2)[2]["v"] ** 2),
    "object.__reduce_ex__": lambda o: np.sum(object.__reduce_ex__(o, 2)[2]["v"] ** 2),
    "asdict": lambda o: np.sum(attrs.asdict(o)["v"] ** 2),
    "astuple": lambda o: np.sum(attrs.astuple(o)[0] ** 2),
    "evolve": lambda o: np.sum(attrs.evolve(o, w=2.0).v ** 2),
    "copy": lambda o: np.sum(copy.copy(o).v * copy.deepcopy(o).v),
    "weakref": lambda o: np.sum(weakref.ref(o)().v ** 2),
    "match by name": matched_by_name,
    "match by position": matched_by_position,
    "match of an array": matched_array,
    "view": lambda o: np.sum(o.v.view() ** 2 * o.v.view(np.ndarray)),
    "view of the same dtype": lambda o: np.sum(o.v.view(float) ** 2),
    "flat": lambda o: sum(x**2 for x in o.v.flat) + np.sum(o.v.flat.copy()) + o.v.flat[1],
    "flat item": set_flat,
    "real": set_real,
    "ndindex": lambda o: sum(o.v[i] ** 2 for i in np.ndindex(o.v.shape)),
    "np.ix_": lambda o: np.sum(np.ix_(o.v, o.v)[0] ** 2 * np.ix_(o.v, o.v)[1]),
    "object array": object_array,
    "product with an object array": lambda o: np.sum(np.array([1.0, 2.0, 3.0], object) * o.v),
    "apply_along_axis": lambda o: np.sum(np.apply_along_axis(np.sum, 0, o.v)),
    "an integer array": lambda o: np.sum(np.array([1, 2, 3]) * o.v),
    "attrgetter": lambda o: np.sum(operator.attrgetter("v")(o) ** 2),
    "itemgetter": lambda o: math.prod(operator.itemgetter(1, 2)(o.v)),
    "methodcaller": lambda o: operator.methodcaller("sum")(o.v),
    "operator.setitem": set_by_operator,
    "__setitem__": set_by_dunder,
    "partial": lambda o: functools.partial(np.multiply, o.v[0])(o.v[1]),
    "partial of a class": lambda o: np.sum(functools.partial(Box, o.v)().v ** 2),
    "singledispatch": decorated,
    "reduce": lambda o: functools.reduce(operator.mul, o.v),
    "accumulate": lambda o: list(itertools.accumulate(o.v, operator.mul))[-1],
    "chain": lambda o: sum(itertools.chain(o.v, o.v)),
    "starmap": lambda o: sum(itertools.starmap(operator.mul, zip(o.v, o.v[::-1], strict=True))),
    "groupby": lambda o: sum(key * len(list(group)) for key, group in itertools.groupby(o.v)),
    "pairwise": lambda o: sum(a * b for a, b in itertools.pairwise(o.v)),
    "product": lambda o: sum(a * b for a, b in itertools.product(o.v, o.v)),
    "islice": lambda o: sum(itertools.islice(o.v, 2)),
    "map": lambda o: sum(map(operator.neg, o.v)) * sum(map(operator.mul, o.v, o.v)),
    "filter": lambda o: sum(filter(lambda a: a > 1.5, o.v)) + sum(filter(None, o.v)),
    "sorted": lambda o: sum(k * a for k, a in enumerate(sorted(o.v))),
    "sorted with a key": lambda o: sum(k * a for k, a in enumerate(sorted(o.v, key=lambda a: -a))),
    "cmp_to_key": lambda o: min(o.v, key=functools.cmp_to_key(lambda a, b: -1 if a < b else 1)) * 2,
    "reversed": lambda o: sum(k * a for k, a in enumerate(reversed(o.v))),
    "min and max": lambda o: min(o.v) ** 2 * max(o.v),
    "sum": lambda o: sum(o.v) + sum(list(o.v), 1.0),
    "any and all": lambda o: np.sum(o.v) * any(o.v) * all(o.v),
    "math.prod": lambda o: math.prod(o.v),
    "math.fsum of plain values": lambda o: o.v[0] * math.fsum([1.0, 2.0]),
    "heapq": heap,
    "nlargest": lambda o: sum(heapq.nlargest(2, o.v)),
    "list.sort": sorted_in_place,
    "median": lambda o: statistics.median(list(o.v)) * 2 + statistics.median_low(list(o.v)),
    "tuple, deque": lambda o: tuple(o.v)[1] ** 2 * collections.deque(o.v)[2],
    "ChainMap": lambda o: np.sum(collections.ChainMap({"a": o.v})["a"] ** 2),
    "SimpleNamespace": lambda o: np.sum(types.SimpleNamespace(a=o.v).a ** 2),
    "unpacking": unpacked,
    "star arguments": as_arguments,
    "slices of lists": sliced_into_a_list,
    "generator expression": lambda o: sum(a * a for a in o.v),
    "a generator": generated,
    "yield from": delegated,
    "a coroutine": asynchronous,
    "suppress": suppressed,
    "contextmanager": managed,
    "ExitStack": exit_stack,
    "next": lambda o: next(iter(o.v)) ** 2,
    "random.choice": lambda o: random.Random(3).choice(o.v) ** 2,
    "random.shuffle of a list": shuffled_list,
    "rng.shuffle of numbers": shuffled_numbers,
    "printing": lambda o: (repr(o), str(o.v), f"{o.v}", np.array2string(o.v), np.sum(o.v**2))[-1],
    "saving": lambda o: (np.save(io.BytesIO(), o.v), np.sum(o.v**2))[-1],
}

SAME_SCALAR = {
    "match of a number": matched_number,
    "max": lambda o: max(o.v, 1.0) ** 2,
    "abs, divmod, pow": lambda o: abs(o.v) * divmod(o.v, 1.5)[1] + pow(o.v, 2) + pow(2, o.v),
    "floor division": lambda o: (o.v // 0.7) * o.v,
    "bisect": lambda o: o.v * bisect.bisect([1.0, 3.0], o.v),
    "insort": inserted_in_order,
    "truth": lambda o: o.v * 2 if operator.truth(o.v) else o.v,
    "comparison in a tuple": lambda o: o.v * ((o.v, 1) < (3.0, 0)),
    "Counter": lambda o: sum(collections.Counter(a=o.v).values()),
    "np.divmod": lambda o: np.divmod(o.v, 1.5)[1] * 2,
    "complex": lambda o: np.abs(o.v * 1j + 1),
    "isinstance": lambda o: o.v * isinstance(o.v, float),
}


@pytest.mark.parametrize("name", SAME_VECTOR)
@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_with_an_array_it_is_the_same_as_in_the_plain_run(name):
    three_ways(vector, SAME_VECTOR[name], NUMERICAL)


@pytest.mark.parametrize("name", SAME_SCALAR)
def test_with_a_number_it_is_the_same_as_in_the_plain_run(name):
    three_ways(scalar, SAME_SCALAR[name], NUMERICAL)


# -- refused -------------------------------------------------------------------------------------------------------------

PRIMAL = r"mutangent\.primal"
READ_OUT = [
    ("pickle", lambda o: pickle.dumps(o.v), mt.TracedValueError, PRIMAL),
    ("pickle of the object", pickle.dumps, mt.TracedValueError, PRIMAL),
    ("bytes", lambda o: bytes(o.v), mt.TracedValueError, PRIMAL),
    ("tobytes", lambda o: o.v.tobytes(), mt.TracedValueError, PRIMAL),
    ("tofile", lambda o: o.v.tofile("never"), mt.NoRuleError, PRIMAL),
    ("dumps", lambda o: o.v.dumps(), mt.NoRuleError, PRIMAL),
    ("data", lambda o: o.v.data, mt.NoRuleError, PRIMAL),
    ("ctypes of an array", lambda o: o.v.ctypes, mt.NoRuleError, PRIMAL),
    ("strides", lambda o: o.v.strides, mt.NoRuleError, PRIMAL),
    ("flags", lambda o: o.v.flags, mt.NoRuleError, PRIMAL),
    ("base", lambda o: o.v.base, mt.NoRuleError, PRIMAL),
    ("__array_interface__", lambda o: o.v.__array_interface__, AttributeError, PRIMAL),
    ("__array_struct__", lambda o: o.v.__array_struct__, AttributeError, PRIMAL),
    ("from_dlpack", lambda o: np.from_dlpack(o.v), AttributeError, PRIMAL),
    ("view of another dtype", lambda o: o.v.view(np.int64), mt.NoRuleError, r"astype(.|\n)*primal"),
    ("getfield", lambda o: o.v.getfield(np.float32), mt.NoRuleError, PRIMAL),
    ("as_strided", lambda o: np.lib.stride_tricks.as_strided(o.v, (2,), (8,)), mt.TracedValueError, PRIMAL),
    ("sliding windows", lambda o: np.lib.stride_tricks.sliding_window_view(o.v, 2), mt.NoRuleError, "rule"),
    ("np.require", lambda o: np.require(o.v), mt.TracedValueError, PRIMAL),
    ("vectorize", lambda o: np.vectorize(lambda a: a * a)(o.v), mt.TracedValueError, PRIMAL),
    ("frompyfunc", lambda o: np.frompyfunc(lambda a: a * a, 1, 1)(o.v), mt.NoRuleError, "rule"),
    ("ndenumerate", lambda o: list(np.ndenumerate(o.v)), mt.TracedValueError, PRIMAL),
    ("np.r_", lambda o: np.r_[o.v, o.v], mt.TracedValueError, PRIMAL),
    ("np.c_", lambda o: np.c_[o.v, o.v], mt.TracedValueError, PRIMAL),
    ("np.asmatrix", lambda o: np.asmatrix(o.v), mt.MutangentError, PRIMAL),
    ("masked array", lambda o: np.ma.array(o.v), mt.TracedValueError, PRIMAL),
    ("record array", lambda o: np.rec.fromarrays([o.v]), mt.TracedValueError, PRIMAL),
    ("array.array", lambda o: array.array("d", o.v), mt.TracedValueError, PRIMAL),
    ("permutation", lambda o: np.random.default_rng(0).permutation(o.v), mt.TracedValueError, PRIMAL),
    ("permuted", lambda o: np.random.default_rng(0).permuted(o.v), mt.TracedValueError, PRIMAL),
    ("probabilities", lambda o: np.random.default_rng(0).choice(3, p=o.v), mt.TracedValueError, PRIMAL),
    ("math.fsum", lambda o: math.fsum(o.v), mt.TracedValueError, PRIMAL),
    ("math.hypot", lambda o: math.hypot(*o.v), mt.TracedValueError, PRIMAL),
    ("math.dist", lambda o: math.dist(list(o.v), [0.0, 0.0, 0.0]), mt.TracedValueError, PRIMAL),
    ("statistics.mean", lambda o: statistics.mean(list(o.v)), mt.NoRuleError, PRIMAL),
    ("statistics.fmean", lambda o: statistics.fmean(list(o.v)), mt.TracedValueError, PRIMAL),
    ("statistics.stdev", lambda o: statistics.stdev(list(o.v)), mt.NoRuleError, PRIMAL),
    ("statistics.mode", lambda o: statistics.mode(list(o.v)), mt.TracedValueError, PRIMAL),
    ("a key", lambda o: {o.v[0]: 1}, mt.TracedValueError, PRIMAL),
    ("a set", lambda o: {o.v[0]}, mt.TracedValueError, PRIMAL),
    ("lru_cache", lambda o: functools.lru_cache(lambda a: a)(o.v[0]), mt.TracedValueError, PRIMAL),
    ("a seed", lambda o: random.Random(o.v[0]), mt.TracedValueError, PRIMAL),
    ("math.trunc", lambda o: math.trunc(o.v[0]), mt.TracedValueError, PRIMAL),
    ("round", lambda o: round(o.v[0], 2), mt.TracedValueError, PRIMAL),
    ("Fraction", lambda o: fractions.Fraction(o.v[0]), mt.NoRuleError, PRIMAL),
    ("times a Fraction", lambda o: o.v[0] * fractions.Fraction(1, 2), mt.TracedValueError, PRIMAL),
    ("%f", lambda o: "%f" % o.v[0], mt.TracedValueError, PRIMAL),  # noqa: UP031 - what is tested
    ("c_double", lambda o: ctypes.c_double(o.v[0]), mt.TracedValueError, PRIMAL),
    ("is_integer", lambda o: o.v[0].is_integer(), mt.NoRuleError, PRIMAL),
    ("as_integer_ratio", lambda o: o.v[0].as_integer_ratio(), mt.NoRuleError, PRIMAL),
    ("an index", lambda o: [1.0, 2.0, 3.0][o.v[0]], TypeError, PRIMAL),
    ("range", lambda o: range(o.v[0]), TypeError, PRIMAL),
]
MATH = (
    math.sin, math.exp, math.sqrt, math.floor, math.ceil, math.fabs, math.log, math.isnan, math.isfinite, math.degrees,
    math.frexp, math.modf, math.gamma, math.erf, math.cbrt, math.exp2, math.ulp,
)  # fmt: skip
READ_OUT += [
    (f"math.{each.__name__}", lambda o, each=each: each(o.v[0]), mt.TracedValueError, PRIMAL) for each in MATH
]

CHANGES = [
    ("shape", lambda o: setattr(o.v, "shape", (3, 1)), mt.InPlaceError, r"x\.reshape"),
    ("dtype", lambda o: setattr(o.v, "dtype", np.int64), mt.InPlaceError, r"x\.astype"),
    ("strides", lambda o: setattr(o.v, "strides", (0,)), mt.InPlaceError, "new array"),
    ("resize", lambda o: o.v.resize((4,)), mt.InPlaceError, "new array"),
    ("setflags", lambda o: o.v.setflags(write=False), mt.InPlaceError, "new array"),
    ("byteswap", lambda o: o.v.byteswap(True), mt.NoRuleError, PRIMAL),
    ("setfield", lambda o: o.v.setfield(1.0, np.float64), mt.NoRuleError, PRIMAL),
    ("del", lambda o: operator.delitem(o.v, 0), TypeError, "delete"),
    ("ndarray.__iadd__", lambda o: np.ndarray.__iadd__(np.ones(3), o.v), mt.TracedValueError, "plain"),
    (
        "permuted in place",
        lambda o: np.random.default_rng(0).permuted(o.v, out=o.v),
        mt.TracedValueError,
        PRIMAL,
    ),
    (
        "structured array",
        lambda o: np.zeros(3, [("a", float)]).__setitem__("a", o.v),
        mt.TracedValueError,
        PRIMAL,
    ),
]

# In C code that asks for exactly its own type, or that replaces the error of `__float__`; loud, in Python's words.
FOREIGN = [
    ("ndarray.__getitem__", lambda o: np.ndarray.__getitem__(o.v, 0), TypeError, "descriptor"),
    ("ndarray.__setitem__", lambda o: np.ndarray.__setitem__(o.v, 0, 1.0), TypeError, "descriptor"),
    ("ndarray.sum", lambda o: np.ndarray.sum(o.v), TypeError, "descriptor"),
    ("float.__mul__", lambda o: float.__mul__(o.v[0], 2.0), TypeError, "descriptor"),
    ("nditer", lambda o: np.nditer(o.v), TypeError, "Iterator operand"),
    ("nditer for writing", lambda o: np.nditer(o.v, op_flags=["readwrite"]), TypeError, "Iterator operand"),
    ("Decimal", lambda o: decimal.Decimal(o.v[0]), TypeError, "Decimal"),
    ("memoryview", lambda o: memoryview(o.v), TypeError, "bytes-like"),
    ("frombuffer", lambda o: np.frombuffer(o.v), TypeError, "bytes-like"),
    ("bytearray", lambda o: bytearray(o.v), TypeError, "index"),
    ("json", lambda o: json.dumps([o.v[0]]), TypeError, "JSON"),
    ("struct", lambda o: struct.pack("d", o.v[0]), struct.error, "float"),
    ("%d", lambda o: "%d" % o.v[0], TypeError, "number"),  # noqa: UP031 - what is tested
]


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
@pytest.mark.parametrize(
    ("use", "error", "match"),
    [pytest.param(*row[1:], id=row[0]) for row in (*READ_OUT, *CHANGES, *FOREIGN)],
)
def test_what_would_lose_a_gradient_or_write_past_the_recording_is_refused(use, error, match):
    o = Box(X.copy())
    v = o.v

    def loss(o):
        o.v = o.v * 2
        use(o)
        return np.sum(o.v)

    def recorded():
        with mt.Context():
            loss(o)

    forward = lambda: mt.jvp(loss, (o,), (mt.Tangent(Box, v=np.ones(3)),))
    for way in (lambda: mt.grad(loss)(o), lambda: mt.vjp(loss, o), recorded, forward):
        with pytest.raises(error, match=match):
            way()
        assert o.v is v
        np.testing.assert_array_equal(v, X)


@pytest.mark.parametrize(
    "shuffle",
    [
        lambda x: np.random.default_rng(3).shuffle(x),
        lambda x: np.random.RandomState(3).shuffle(x),
        lambda x: random.Random(3).shuffle(x),
    ],
)
@pytest.mark.parametrize(
    "array_of",
    [lambda o: o.v, lambda o: o.v * 2, lambda o: np.zeros_like(o.v), lambda o: o.v[:3]],
    ids=["field", "computed", "constant", "view"],
)
@pytest.mark.filterwarnings("ignore:you are shuffling")
def test_shuffling_rows_is_refused_with_the_cure(shuffle, array_of):
    (o,) = matrix()
    before = o.v.copy()

    def loss(o):
        x = array_of(o)
        shuffle(x)
        return np.sum(x * o.v)

    for _ in range(3):
        with pytest.raises(mt.InPlaceError, match=r"x\[:\] = x\[rng\.permutation\(len\(x\)\)\]"):
            mt.grad(loss)(o)
        np.testing.assert_array_equal(o.v, before)


def swapped(i, j):
    def swap(x):
        x[i], x[j] = x[j], x[i]

    return swap


@pytest.mark.parametrize("swap", [swapped(0, 2), swapped(np.int64(0), np.int64(2)), swapped(np.intp(-1), 0)])
@pytest.mark.parametrize(
    "array_of",
    [lambda o: o.v, lambda o: o.v * 2, lambda o: np.zeros_like(o.v), lambda o: o.v[:3]],
    ids=["field", "computed", "constant", "view"],
)
def test_rows_exchanged_as_views_are_refused_whatever_integers_name_them(swap, array_of):
    (o,) = matrix()

    def loss(o):
        x = array_of(o)
        swap(x)
        return np.sum(x * o.v)

    with pytest.raises(mt.InPlaceError, match=r"were exchanged as views, and both are row -?\d now"):
        mt.grad(loss)(o)


def test_the_cures_of_shuffling_and_swapping_work():
    def loss(o):
        o.v[:] = o.v[np.random.default_rng(3).permutation(len(o.v))]
        o.v[[0, 2]] = o.v[[2, 0]]
        return np.sum(o.v * np.arange(6.0).reshape(3, 2))

    three_ways(matrix, loss, NUMERICAL)


def test_copying_rows_about_is_no_swap():
    def loss(o):
        o.v[0] = o.v[1]
        o.v[1] = o.v[0]
        kept = o.v[2].copy()
        o.v[2] = o.v[1]
        o.v[1] = kept
        row = o.v[0]
        o.v[0] = o.v[2]
        o.v[1] = row  # by now what is in row 0
        return np.sum(o.v * np.arange(6.0).reshape(3, 2))

    three_ways(matrix, loss, NUMERICAL)


def test_a_value_of_a_closed_recording_may_be_a_key():
    kept = []
    mt.grad(lambda x: (kept.append(x * 2), x)[1])(3.0)
    assert {kept[0]: "a"}[6.0] == "a"


def test_a_generator_goes_on_in_the_next_recording():
    box = Box(2.0)

    def steps():
        while True:
            box.v = box.v * 3
            yield box.v

    stepper = steps()
    for k in range(3):
        assert mt.grad(lambda o: next(stepper) * 1.0)(box).v == 3.0
        assert box.v == 2.0 * 3.0 ** (k + 1)
        assert type(box.v) is float


def test_garbage_collection_in_a_recording_changes_nothing():
    def loss(o):
        made = [attrs.evolve(o) for _ in range(3)]
        del made
        gc.collect()
        return np.sum(o.v**2)

    three_ways(vector, loss, NUMERICAL)
