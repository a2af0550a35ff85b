"""Which local names a function still reads, told from its bytecode at the point where it stands."""

import sys

import pytest

from mutangent._live_names import is_read_later


def reads(name):
    """Whether the caller reads one of its names after this call."""
    frame = sys._getframe(1)
    return is_read_later(frame.f_code, frame.f_lasti, name)


def never(a):
    return reads("a")


def in_the_next_line(a):
    seen = reads("a")
    return seen, a


def in_the_same_expression(a):
    return reads("a"), a


def before_only(a):
    b = a
    return reads("a") and b


def only_in_one_branch(a, b=True):
    seen = reads("a")
    if b:
        return seen
    return seen, a


def after_another_value_was_stored(a):
    seen = reads("a")
    a = 2
    return seen and a


def after_it_was_deleted(a):
    seen = reads("a")
    del a
    return seen


def in_the_next_round_of_a_loop(a):
    seen = False
    for _ in range(2):
        b = a
        seen = reads("a")
    return seen, b


def in_the_next_round_with_a_new_value(a):
    seen = True
    for _ in range(2):
        a = 3
        b = a
        seen = reads("a")
    return seen and b


def when_an_error_is_handled(a):
    try:
        seen = reads("a")
    except ValueError:
        return a
    return seen


def in_the_end(a):
    try:
        seen = reads("a")
    finally:
        repr(a)
    return seen


def in_a_while_loop(a):
    seen = None
    while seen is None or a is None:
        seen = reads("a")
    return seen


def by_asking_for_all_names(a):
    seen = reads("a")
    return seen, locals()


def in_a_comprehension(a):
    seen = reads("a")
    return seen, [each for each in a]  # noqa: C416 - the comprehension is what is tested


def to_add_to_it(a):
    seen = reads("a")
    a += (1,)
    return seen


def where_an_assertion_that_fails_is_explained(a):
    seen = reads("a")
    b = (seen, 1)
    assert len(a) + len(b) == 3
    return seen


def in_an_assertion_that_pytest_explains(a):
    seen = reads("a")
    assert seen in (True, False), f"{a}"
    return seen


@pytest.mark.parametrize(
    "function",
    [
        never,
        in_an_assertion_that_pytest_explains,
        before_only,
        after_another_value_was_stored,
        after_it_was_deleted,
        in_the_next_round_with_a_new_value,
    ],
)
def test_it_is_read_no_more(function):
    assert function((1,)) is False


@pytest.mark.parametrize(
    "function",
    [
        where_an_assertion_that_fails_is_explained,
        in_the_next_line,
        in_the_same_expression,
        only_in_one_branch,
        in_the_next_round_of_a_loop,
        when_an_error_is_handled,
        in_the_end,
        in_a_while_loop,
        by_asking_for_all_names,
        in_a_comprehension,
        to_add_to_it,
    ],
)
def test_it_may_be_read(function):
    seen = function((1,))
    assert (seen[0] if isinstance(seen, tuple) else seen) is True


def test_a_generator_that_goes_on_reads_it():
    def items(a):
        yield reads("a")
        yield a

    def others(a):
        yield reads("a")

    assert (next(items(1)), next(others(1))) == (True, False)


def test_the_names_of_a_module_may_all_be_read():
    names = {"reads": reads, "__name__": "some module"}
    exec("a = 1\nseen = reads('a')", names)
    assert names["seen"] is True
