"""Iterators, files and buffers of closures, attributes and globals: put back, or an error if the call took from them."""

import io
import itertools
import random
import sys
import types
import weakref
from collections import deque
from unittest import mock

import numpy as np
import pytest

import mutangent as mt
from mutangent._positions import UNKNOWN, position_of


@mt.differentiable
class P:
    x: object = 0.0
    s: object = None


def loops():
    for _ in (0, 0, 0, 0, 0, 0):
        yield 0  # nothing shows where it stands but the loop


def delegates():
    yield from loops()


def steps():
    items = iter([0] * 6)
    while True:
        next(items)
        yield 0


class Old:
    """Iterated by the protocol of old."""

    def __getitem__(self, i):
        return [0, 0, 0, 0, 0, 0][i]

    def __len__(self):
        return 6


ZEROS = [0] * 6
NUMBERS = dict.fromkeys(range(6))
ITERATORS = {
    "list": lambda: iter(ZEROS),
    "tuple": lambda: iter((0,) * 6),
    "text": lambda: iter("aaaaaa"),
    "other text": lambda: iter("\xe9" * 6),
    "bytes": lambda: iter(b"aaaaaa"),
    "bytearray": lambda: iter(bytearray(b"aaaaaa")),
    "range": lambda: iter(range(6)),
    "large range": lambda: iter(range(1 << 70, (1 << 70) + 6)),
    "dict": lambda: iter(NUMBERS),
    "values": lambda: iter(NUMBERS.values()),
    "items": lambda: iter(NUMBERS.items()),
    "set": lambda: iter(set(range(6))),
    "deque": lambda: iter(deque(ZEROS)),
    "old": lambda: iter(Old()),
    "reversed list": lambda: reversed(ZEROS),
    "reversed tuple": lambda: reversed((0,) * 6),
    "reversed range": lambda: reversed(range(6)),
    "reversed dict": lambda: reversed(NUMBERS),
    "reversed items": lambda: reversed(NUMBERS.items()),
    "reversed deque": lambda: reversed(deque(ZEROS)),
    "enumerate": lambda: enumerate(ZEROS),
    "zip": lambda: zip(ZEROS, ZEROS, strict=True),
    "map": lambda: map(int, ZEROS),
    "filter": lambda: filter(lambda _: True, ZEROS),
    "a loop": loops,
    "a loop in another": delegates,
    "steps": steps,
    "generator expression": lambda: (0 for _ in ZEROS),
    "zip of generators": lambda: zip(loops(), loops(), strict=True),
    "count": itertools.count,
    "count of floats": lambda: itertools.count(0.5, 2),
    "large count": lambda: itertools.count(1 << 70),
    "cycle": lambda: itertools.cycle(ZEROS),
    "repeat": lambda: itertools.repeat(0, 6),
    "chain": lambda: itertools.chain([0], [0], [0], [0], [0], [0]),
    "chain from iterable": lambda: itertools.chain.from_iterable([[0]] * 6),
    "islice": lambda: itertools.islice(ZEROS, 6),
    "accumulate": lambda: itertools.accumulate(ZEROS),
    "takewhile": lambda: itertools.takewhile(lambda _: True, ZEROS),
    "dropwhile": lambda: itertools.dropwhile(lambda _: False, ZEROS),
    "filterfalse": lambda: itertools.filterfalse(lambda _: False, ZEROS),
    "starmap": lambda: itertools.starmap(max, [(0, 0)] * 6),
    "compress": lambda: itertools.compress(ZEROS, [1] * 6),
    "pairwise": lambda: itertools.pairwise(ZEROS),
    "groupby": lambda: itertools.groupby([0, 1, 0, 1, 0, 1]),
    "product": lambda: itertools.product([0], ZEROS),
    "permutations": lambda: itertools.permutations([0, 0, 0]),
    "combinations": lambda: itertools.combinations([0] * 4, 2),
    "zip_longest": lambda: itertools.zip_longest(ZEROS, ZEROS),
    "flatiter": lambda: np.zeros(6).flat,
    "broadcast": lambda: np.broadcast(np.zeros(6), 1.0),
}
if sys.version_info >= (3, 12):
    ITERATORS["batched"] = lambda: itertools.batched(ZEROS, 1)


def in_a_closure(value):
    return lambda: value


def in_a_default(value):
    return lambda held=value: held


def in_an_attribute(value):
    holder = types.SimpleNamespace(inner=types.SimpleNamespace(held=value))
    return lambda: holder.inner.held


def in_a_class(value):
    cls = type("Holder", (), {"held": value})
    return lambda: cls.held


def in_a_list(value):
    held = [(value,)]
    return lambda: held[0][0]


PLACES = [in_a_closure, in_a_default, in_an_attribute, in_a_class, in_a_list]


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_that_the_call_takes_from_is_an_error_at_any_of_its_items(kind, place):
    for taken in range(5):
        iterator = ITERATORS[kind]()
        for _ in range(taken):
            next(iterator)
        get = place(iterator)

        def f(p, get=get):
            next(get())
            return p.x * 2.0

        with pytest.raises(
            mt.CheckpointError, match=r"took items from an iterator, .*, to which its closure"
        ):
            mt.grad(mt.checkpoint(f))(P())


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", ITERATORS)
def test_an_iterator_that_the_call_leaves_alone_is_none(kind, place):
    for taken in range(5):
        iterator = ITERATORS[kind]()
        for _ in range(taken):
            next(iterator)
        get = place(iterator)
        assert mt.grad(mt.checkpoint(lambda p, get=get: p.x * (2.0 + (get() is None))))(P()).x == 2.0


def test_an_iterator_that_others_take_from_between_the_runs_is_no_error():
    items = iter([1, 2, 3])
    _, pullback = mt.vjp(mt.checkpoint(lambda p: p.x * (2.0 if items else 1.0)), P())
    assert next(items) == 1
    assert pullback(1.0)[0].x == 2.0
    assert next(items) == 2


def test_a_generator_whose_next_item_is_made_as_before_is_none():
    rng = np.random.default_rng(1)

    def draws():
        while True:
            yield rng.normal()

    numbers = draws()
    next(numbers)
    f = lambda p: p.x * next(numbers)
    expected = np.random.default_rng(1).normal(size=3)
    assert mt.grad(mt.checkpoint(f))(P()).x == expected[1]
    assert next(numbers) == expected[2]


class Countdown:
    """An iterator in Python is an object like another one."""

    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return self

    def __next__(self):
        self.n -= 1
        return self.n


def test_an_iterator_of_a_users_class_is_put_back():
    numbers = Countdown(10)
    assert mt.grad(mt.checkpoint(lambda p: p.x * next(numbers)))(P()).x == 9.0
    assert next(numbers) == 8


def in_its_second_round():
    numbers = itertools.cycle([1, 2])
    for _ in range(3):
        next(numbers)
    return numbers


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (in_its_second_round, r"itertools\.cycle"),
        (lambda: itertools.tee([1, 2])[0], r"itertools\._tee"),
        (lambda: iter(memoryview(b"12")), "memory_iterator"),
        (lambda: np.nditer(np.zeros(6)), r"numpy\.nditer"),
        (lambda: iter(type("NoLength", (), {"__getitem__": lambda _, i: i})()), "iterator"),
    ],
)
def test_an_iterator_that_does_not_tell_whether_it_was_advanced_is_an_error(make, name):
    assert position_of(make()) is UNKNOWN
    iterator = make()
    with pytest.raises(mt.CheckpointError, match=f"has an iterator, {name}, to which .* cannot be told"):
        mt.grad(mt.checkpoint(lambda p: p.x * (2.0 if iterator else 1.0)))(P())


def test_a_weak_reference_is_no_iterator():
    held = Countdown(3)
    proxy = weakref.proxy(held)
    assert mt.grad(mt.checkpoint(lambda p: p.x * (p.s.n + proxy.n)))(P(0.0, proxy)).x == 6.0


def test_a_mock_is_no_iterator():
    log = mock.MagicMock()

    def loss(p):
        log.info("called")
        return p.x * p.x

    assert mt.grad(mt.checkpoint(loss))(P(3.0)).x == 6.0
    assert mt.grad(mt.checkpoint(loss))(P(3.0, log)).x == 6.0


def test_a_generator_without_a_state_in_a_closure_is_refused():
    numbers = random.SystemRandom()
    with pytest.raises(
        mt.CheckpointError, match=r"has a random generator, random\.SystemRandom, to which its"
    ):
        mt.grad(mt.checkpoint(lambda p: p.x * numbers.random()))(P())


def test_a_generator_of_cupys_in_an_attribute_is_refused():
    holder = types.SimpleNamespace(rng=type("RandomState", (), {"__module__": "cupy.random._generator"})())
    with pytest.raises(
        mt.CheckpointError, match=r"has a random generator, cupy\.random\._generator\.RandomState"
    ):
        mt.grad(mt.checkpoint(lambda p: p.x * (holder is None)))(P())


def test_an_iterator_that_was_consumed_before_a_raise_is_an_error():
    numbers = iter([1.0, 2.0, 3.0])

    @mt.checkpoint
    def f(p):
        p.s = p.x * next(numbers)
        raise ValueError

    def loss(p):
        try:
            f(p)
        except ValueError:
            return p.s

    with pytest.raises(mt.CheckpointError, match="took items from an iterator"):
        mt.grad(loss)(P())


# -- files -------------------------------------------------------------------------------------------------------------


@pytest.fixture
def path(tmp_path):
    (tmp_path / "numbers").write_text("".join(f"{n}\n" for n in range(5000)))
    return tmp_path / "numbers"


@pytest.mark.parametrize("mode", ["r", "rb"])
@pytest.mark.parametrize("place", ["closure", "field", "attribute"])
def test_a_file_that_is_read_is_put_back_and_stands_where_the_plain_run_leaves_it(path, mode, place):
    def run(decorate):
        with path.open(mode) as file:
            holder = types.SimpleNamespace(file=file)
            get = {"closure": lambda _: file, "field": lambda p: p.s, "attribute": lambda _: holder.file}[
                place
            ]
            f = decorate(lambda p: p.x * float(get(p).readline()))
            _, pullback = mt.vjp(lambda p: f(p) + 10 * f(p), P(0.0, file))
            file.readline()
            return pullback(1.0)[0].x, pullback(1.0)[0].x, file.readline()

    assert run(mt.checkpoint) == run(lambda f: f)


def test_a_file_that_is_read_to_its_end_is_read_again(path):
    with path.open() as file:
        f = mt.checkpoint(lambda p: p.x * sum(float(line) for line in file))
        assert mt.grad(f)(P()).x == sum(range(5000))
        assert file.readline() == ""


def test_a_file_in_a_loop_over_its_lines_is_an_error(path):
    with path.open() as file:
        f = mt.checkpoint(lambda p: p.x * (file is not None))
        next(file)
        with pytest.raises(
            mt.CheckpointError, match=r"has a file in a loop over its lines, _io\.TextIOWrapper"
        ):
            mt.grad(f)(P())


def test_a_file_that_is_written_is_no_error_and_written_twice(path):
    with path.open("w") as file:
        f = mt.checkpoint(lambda p: p.x * file.write("a"))
        assert mt.grad(f)(P()).x == 1.0
    assert path.read_text() == "aa"


def test_a_file_that_was_closed_in_between_is_the_error_of_the_read(path):
    with path.open() as file:
        _, pullback = mt.vjp(mt.checkpoint(lambda p: p.x * float(file.readline())), P())
    with pytest.raises(ValueError, match="closed file"):
        pullback(1.0)


@pytest.mark.parametrize("make", [lambda: io.StringIO("1\n2\n3\n"), lambda: io.BytesIO(b"1\n2\n3\n")])
@pytest.mark.parametrize("place", PLACES)
def test_a_buffer_is_read_and_written_once(make, place):
    def run(decorate):
        buffer = make()
        get = place(buffer)

        def f(p):
            number = float(get().readline())
            where = get().tell()
            get().seek(0, io.SEEK_END)
            get().write(b"4\n" if isinstance(get(), io.BytesIO) else "4\n")
            get().seek(where)
            return p.x * (number + len(get().getvalue()))

        f = decorate(f)
        slope = mt.grad(lambda p: f(p) + 100 * f(p))(P()).x
        return slope, buffer.tell(), buffer.getvalue()

    assert run(mt.checkpoint) == run(lambda f: f)


def test_a_buffer_as_a_log_is_written_once():
    log = io.StringIO()
    with_print = mt.checkpoint(lambda p: p.x * (1.0 + (print("step", file=log) is None)))
    assert mt.grad(with_print)(P()).x == 2.0
    assert log.getvalue() == "step\n"
