"""The first number that is not finite is named: its operation, the fields it comes from, and the line."""

import inspect

import numpy as np
import pytest

import mutangent as mt

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's own, as in the plain program


@mt.differentiable
class Cell:
    w: object
    h: object = None


def line_here(offset=0):
    return f"test_finite.py:{inspect.currentframe().f_back.f_lineno + offset}"


def checked(body):
    """Run a body in a checking context and return the context and what the body returned."""
    with mt.Context(check_finite=True) as ctx:
        out = body()
    return ctx, out


def message_of(body):
    with pytest.raises(mt.NonFiniteError) as caught:
        checked(body)
    assert isinstance(caught.value, FloatingPointError)
    # Whose arrays they are is said; here it is not the question.
    return str(caught.value).replace("cupy.ndarray", "numpy.ndarray")


def test_an_operation_is_named_with_its_field_and_line_and_all_is_undone(xp):
    cell = Cell(xp.asarray([0.0, 1.0, 2.0]), 1.0)
    lines = []

    def body():
        cell.h = 5.0
        lines.append(line_here(1))
        cell.h = np.log(cell.w)

    message = message_of(body)
    assert message.startswith(
        "log gave -inf in 1 of 3 elements, in a numpy.ndarray of shape (3,) and dtype float64, at "
        f"{lines[0]}, from Cell.w (a numpy.ndarray of shape (3,) and dtype float64, values from 0 to 2). Keep"
    )
    assert cell.h == 1.0


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("divide", lambda w: w / (w - w)),
        ("divide", lambda w: 1.0 / (w - w)),
        ("power", lambda w: (w - w) ** -1.0),
        ("log", lambda w: np.log(w - w)),
        ("sqrt", lambda w: np.sqrt(-w)),
        ("matmul", lambda w: (w * 1e200) @ (w * 1e200)),
        ("sum", lambda w: np.sum(w * 8e307)),
        ("prod", lambda w: np.prod(w * 1e200)),
        ("astype", lambda w: (w * 1e60).astype(np.float32)),
    ],
)
def test_the_operation_is_named_whatever_way_it_is_recorded(name, operation):
    cell = Cell(np.array([1.0, 2.0]))
    assert message_of(lambda: operation(cell.w)).startswith(f"{name} gave ")


def test_a_value_that_was_written_is_named_by_its_field():
    cell = Cell(2.0, 0.0)

    def body():
        cell.h = cell.w - 2.0
        return np.divide(cell.w, cell.h)

    message = message_of(body)
    assert "from Cell.w (a float, value 2.0) and Cell.h (a float, value 0.0)" in message


def test_python_floats_divided_by_zero_raise_as_in_python():
    cell = Cell(2.0)
    with pytest.raises(ZeroDivisionError):
        checked(lambda: cell.w / 0.0)


def test_one_of_several_objects_of_a_class_is_told_from_the_others():
    cells = [Cell(np.ones(1)), Cell(np.zeros(1)), Cell(np.ones(1))]

    def body():
        return sum(np.sum(np.log(cell.w)) for cell in cells)

    assert "Cell.w (of number 2 of the 2 Cell objects met, in their order)" in message_of(body)


def test_infinite_constants_may_pass_through():
    cell = Cell(np.array([1.0, 2.0, 3.0]))
    mask = np.array([True, False, True])

    def body():
        scores = np.where(mask, cell.w, -np.inf)
        scores = scores + np.array([0.0, -np.inf, 0.0])
        scores = np.concatenate([scores, np.full(2, -np.inf)])
        scores = np.maximum(scores, -np.inf)
        weights = np.exp(scores - 3.0)
        return np.sum((weights / np.sum(weights)) ** 2)

    ctx, out = checked(body)
    plain = mt.grad(lambda cell: np.sum((np.exp(cell.w[mask]) / np.sum(np.exp(cell.w[mask]))) ** 2))(cell)
    np.testing.assert_allclose(ctx.grad(out, cell).w, plain.w)


def test_a_nan_made_of_an_infinity_is_reported():
    cell = Cell(np.array([1.0, np.inf]))
    message = message_of(lambda: cell.w - cell.w)
    assert message.startswith("subtract gave nan in 1 of 2 elements")
    assert "values from 1 to inf" in message


@pytest.mark.parametrize(
    ("entry", "place", "count"),
    [
        (
            np.array([1.0, np.nan]),
            "Cell.w, a numpy.ndarray of shape (2,) and dtype float64,",
            "nan in 1 of 2 elements",
        ),
        (np.nan, "Cell.w, a float,", "nan"),
        ({"a": [1.0, np.nan]}, "Cell.w['a'][1], a float,", "nan"),
    ],
)
def test_a_nan_on_entry_is_reported_where_it_is_first_read(entry, place, count):
    cell = Cell(entry)
    assert message_of(lambda: cell.w).startswith(
        f"{place} holds {count} on entry; it was first read at {line_here(-1)}. "
    )


def test_a_watched_nan_is_reported():
    with (
        pytest.raises(mt.NonFiniteError, match=r"a watched array, a \w+\.ndarray"),
        mt.Context(check_finite=True) as ctx,
    ):
        ctx.watch(np.array([np.nan]))


def test_a_nan_that_is_written_into_a_field_is_reported():
    cell = Cell(np.ones(2))

    def assign():
        cell.h = np.full(2, np.nan)

    def write_in_place():
        cell.w[1] = np.nan

    assert message_of(assign).startswith("Cell.h was given nan in 2 of 2 elements")
    assert message_of(write_in_place).startswith("Cell.w was given nan")
    assert cell.h is None
    np.testing.assert_array_equal(cell.w, [1.0, 1.0])


def test_an_array_of_nobodys_may_be_filled_with_nan_first():
    cell = Cell(np.ones(2))

    def body():
        buffer = cell.w * 1.0
        buffer[...] = np.nan
        buffer[...] = cell.w * 2.0
        return np.sum(buffer)

    ctx, out = checked(body)
    np.testing.assert_array_equal(ctx.grad(out, cell).w, [2.0, 2.0])


def test_the_error_comes_back_at_the_end_of_a_block_that_caught_it():
    cell = Cell(np.zeros(2), 1.0)

    def body():
        cell.h = 2.0
        try:
            np.log(cell.w)
        except FloatingPointError:
            cell.h = 3.0

    assert message_of(body).startswith("log gave -inf")
    assert cell.h == 1.0


def test_what_is_computed_in_a_pause_is_not_looked_at():
    cell = Cell(np.zeros(2))

    def body():
        with mt.pause():
            np.log(cell.w)
        return np.sum(cell.w)

    checked(body)


# -- users' rules ------------------------------------------------------------------------------------------------------


@mt.primitive
def inverse(cell, x):
    return x / cell.w


@inverse.rrule
def inverse_rule(cell, x):
    w = cell.w

    def inverse_pullback(y_bar):
        return mt.Tangent(Cell, w=-y_bar * x / w**2), y_bar / w

    return x / w, inverse_pullback


def test_a_users_rule_is_named_with_what_it_read():
    cell = Cell(np.zeros(2))
    message = message_of(lambda: inverse(cell, 2.0))
    assert message.startswith("the rule of inverse gave inf in 2 of 2 elements")
    assert "Cell.w (a numpy.ndarray" in message


def test_a_users_rule_on_an_infinite_constant_may_give_one():
    cell = Cell(np.ones(2))
    checked(lambda: inverse(cell, np.array([np.inf, 1.0])))


def test_a_users_pullback_is_named():
    cell = Cell(np.full(2, 1e-200))
    ctx, y = checked(lambda: inverse(cell, np.full(2, 1e100)))
    with pytest.raises(
        mt.NonFiniteError, match=r"the rule of inverse passes back has -inf.*arrives at Cell\.w"
    ):
        ctx.tangents(y, np.ones(2))


# -- sweeps ------------------------------------------------------------------------------------------------------------


def test_a_cotangent_is_named_with_the_field_where_it_arrives_and_its_line(xp):
    cell = Cell(xp.asarray([0.0, 4.0]))
    lines = []

    def body():
        lines.append(line_here(1))
        return np.sum(np.sqrt(cell.w))

    ctx, out = checked(body)
    for _ in range(2):  # the tape is unharmed
        with pytest.raises(mt.NonFiniteError) as caught:
            ctx.grad(out, cell)
        assert str(caught.value).startswith(
            "the cotangent that sqrt passes back has inf in 1 of 2 elements, where it arrives at Cell.w, of shape (2,) "
            f"and dtype float64. The operation was recorded at {lines[0]}."
        )


def test_a_cotangent_that_arrives_at_no_field_tells_where_it_was_going():
    cell = Cell(np.array([0.0, 4.0]), np.array([1.0, 1.0]))
    ctx, out = checked(lambda: np.sum(np.sqrt(cell.w * 2.0 * cell.h)))
    with pytest.raises(mt.NonFiniteError, match=r"on its way to Cell\.h and Cell\.w"):
        ctx.grad(out, cell)


def test_a_cotangent_that_arrives_at_a_version_of_a_field_names_it():
    cell = Cell(np.array([1.0, 4.0]))

    def body():
        cell.h = cell.w - 1.0
        return np.sum(cell.h ** np.array([0.5, 1.0]))

    ctx, out = checked(body)
    with pytest.raises(mt.NonFiniteError, match=r"power passes back.*arrives at Cell\.h"):
        ctx.grad(out, cell)


def test_a_cotangent_that_is_given_is_checked():
    cell = Cell(np.ones(2))
    ctx, y = checked(lambda: cell.w * 2.0)
    with pytest.raises(mt.NonFiniteError, match=r"the cotangent that the sweep was given.*nan in 1 of 2"):
        ctx.tangents(y, np.array([1.0, np.nan]))


def test_a_sweep_that_finds_nothing_gives_the_same_gradient():
    def make():
        generator = np.random.default_rng(1)
        return Cell(generator.normal(size=(3, 2)) + 1j * generator.normal(size=(3, 2)), np.ones(4))

    def body(cell):
        cell.h[1] = np.sum(np.abs(cell.w) ** 2)
        cell.h[[0, 0]] = cell.h[[1, 2]]
        first, second = np.split(cell.h, 2)
        return np.sum(np.real(cell.w[0] * np.conj(cell.w[1]))) + inverse(Cell(2.0), first @ second)

    cell = make()
    ctx, out = checked(lambda: body(cell))
    found, plain = ctx.grad(out, cell), mt.grad(body)(make())
    np.testing.assert_allclose(found.w, plain.w)
    np.testing.assert_allclose(found.h, plain.h)


def test_a_gradient_inside_the_block_is_checked_too():
    cell = Cell(np.array([0.0, 1.0]))
    with pytest.raises(mt.NonFiniteError, match="divide gave inf"):
        checked(lambda: mt.grad(lambda cell: np.sum(np.sqrt(cell.w)))(cell))


def test_the_inside_of_a_checkpointed_function_is_checked():
    cell = Cell(np.zeros(2))
    lines = []

    @mt.checkpoint
    def logarithm():
        lines.append(line_here(1))
        return np.log(cell.w)

    message = message_of(logarithm)
    assert message.startswith("log gave -inf")
    assert lines[0] in message


def test_history_and_check_go_together():
    cell = Cell(np.array([3.0]), np.array([2.0]))
    ctx = mt.Context(history=True, check_finite=True)

    def overflow():
        with ctx:
            while True:
                cell.h = cell.h * cell.h * cell.w

    with pytest.raises(mt.NonFiniteError, match=r"multiply gave inf in 1 of 1 elements.*Cell\.h"):
        overflow()
    values = [float(version.value[0]) for version in ctx.history(cell, "h")]
    assert values[:3] == [2.0, 12.0, 432.0]
    assert np.all(np.isfinite(values))
    assert cell.h[0] == 2.0


def test_a_recording_that_looks_is_freed_without_the_collector():
    import gc
    import weakref

    cell = Cell(np.ones(2))
    ctx, out = checked(lambda: np.sum(cell.w * 2.0))
    ctx.grad(out, cell)
    recording = weakref.ref(ctx._recording)
    gc.disable()
    try:
        del ctx
        assert recording() is None
    finally:
        gc.enable()
