"""Every rule against finite differences: twice differentiated, with all kinds of operands."""

import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

import attrs
import numpy as np
import pytest

import mutangent as mt
from mutangent._rulebook import Rule, rules
from mutangent.testing import check_grads
from tests.rules.function_samples import ASSEMBLING, POLYNOMIALS, SEQUENCES, SETS, STATISTICS
from tests.rules.linalg_samples import FOURIER, LINALG
from tests.rules.samples import CONSTANT, ELEMENTWISE, HOLOMORPHIC, NEVER_TRACED, SAMPLES, Sample

SAMPLES = {**SAMPLES, **STATISTICS, **SETS, **SEQUENCES, **POLYNOMIALS, **ASSEMBLING, **LINALG, **FOURIER}


def numpy_rules() -> list[Rule]:
    """Return the rules of NumPy's functions; the core has some of its own methods, and other tests may add some."""
    of_numpy = {
        id(found) for space in (np, np.linalg, np.fft) for found in vars(space).values() if callable(found)
    }
    return [row for row in rules() if id(row.function) in of_numpy]


def elementwise_samples() -> Iterator[tuple[Any, Sample]]:
    for function, numbers in ELEMENTWISE.items():
        whole = [k for k, operand in enumerate(numbers) if operand.dtype.kind == "i"]
        call = function if not whole else lambda x, f=function, n=numbers: f(x, n[1])
        yield function, Sample(call, tuple(x for k, x in enumerate(numbers) if k not in whole))
    for function, numbers in HOLOMORPHIC.items():
        yield function, Sample(function, numbers)
        if len(numbers) == 2:
            yield function, Sample(function, (numbers[0].real.copy(), numbers[1]))
            yield function, Sample(function, (numbers[0], numbers[1].real.copy()))


def all_samples() -> list[Any]:
    pairs = [*elementwise_samples(), *((f, each) for f, samples in SAMPLES.items() for each in samples)]
    count = Counter[str]()
    found = []
    for function, each in pairs:
        name = function.__name__
        count[name] += 1
        found.append(pytest.param(each, id=f"{name}-{count[name]}"))
    return found


every_sample = pytest.mark.parametrize("sample", all_samples())


def name_of(value: Any) -> str | None:
    return getattr(value, "__name__", None)


def test_every_rule_has_a_sample():
    sampled = {*ELEMENTWISE, *SAMPLES, *CONSTANT, *NEVER_TRACED}
    # NumPy never shows the others a traced value.
    seen = [
        row
        for row in numpy_rules()
        if isinstance(row.function, np.ufunc) or hasattr(row.function, "_implementation")
    ]
    assert len(seen) > 300
    assert [row.name for row in seen if row.function not in sampled] == []


def test_every_sampled_function_has_a_rule():
    ruled = {row.function for row in numpy_rules()}
    sampled = [*ELEMENTWISE, *SAMPLES, *CONSTANT, *NEVER_TRACED]
    assert [function.__name__ for function in sampled if function not in ruled] == []


@every_sample
def test_derivatives_agree_with_finite_differences(sample):
    check_grads(sample.call, sample.operands, sample.order)


def pairs_of_shapes() -> list[Any]:
    return [
        pytest.param(lambda x: x[:, None], lambda y: y, id="column and row"),
        pytest.param(lambda x: x[None, :], lambda y: y[:, None], id="row and column"),
        pytest.param(lambda x: x[0], lambda y: y, id="0-d and row"),
        pytest.param(lambda x: x, lambda y: y[1], id="row and 0-d"),
        pytest.param(lambda x: float(x[1]), lambda y: y, id="float and row"),
        pytest.param(lambda x: x, lambda y: float(y[2]), id="row and float"),
        pytest.param(lambda x: float(x[2]), lambda y: float(y[3]), id="two floats"),
        pytest.param(lambda x: x[:0], lambda y: y[:1], id="empty and one"),
    ]


@pytest.mark.parametrize(
    "function", [f for f, numbers in ELEMENTWISE.items() if len(numbers) == 2], ids=name_of
)
@pytest.mark.parametrize(("first", "second"), pairs_of_shapes())
def test_both_operands_broadcast(function, first, second):
    x, y = ELEMENTWISE[function]
    x, y = first(x), second(y)
    if function is np.ldexp:
        check_grads(lambda x: np.ldexp(x, np.int64(y) if type(y) is float else y), (x,), order=1)
    else:
        check_grads(function, (x, y), order=1)


def test_all_operands_of_where_broadcast():
    condition, x, y = ELEMENTWISE[np.where]
    check_grads(lambda x, y: np.where(condition > 0, x, y), (x[:, None], y), order=1)
    check_grads(lambda x, y: np.where(condition[:, None] > 0, x, y), (x[0], y), order=1)
    check_grads(lambda x: np.where(True, x, 2.0), (x,), order=1)


@pytest.mark.parametrize(
    "function", [f for f, numbers in ELEMENTWISE.items() if len(numbers) == 1], ids=name_of
)
@pytest.mark.parametrize("make", [float, np.float64, np.array, np.atleast_2d], ids=name_of)
def test_one_number_is_enough(function, make):
    check_grads(function, (make(ELEMENTWISE[function][0][2]),))


@pytest.mark.parametrize(
    "call",
    [
        *(np.sum, np.mean, np.prod, np.max, np.var, np.std, np.cumsum, np.cumprod, np.ptp, np.ravel, np.copy),
        *(np.absolute, np.real, np.imag, np.conj, np.angle, np.atleast_2d, np.nan_to_num, np.linalg.norm),
        lambda x: np.dot(x, x),
        lambda x: np.inner(x, 2.0),
        lambda x: np.outer(x, x),
        lambda x: np.einsum(",", x, x),
        lambda x: np.stack([x, 2 * x]),
        lambda x: np.repeat(x, 3),
        lambda x: np.broadcast_to(x, (2, 3)),
    ],
)
@pytest.mark.parametrize("x", [1.3, 1.3 + 0.4j])
def test_a_python_number_is_an_array_without_axes(call, x):
    if isinstance(x, complex) and call in (np.max, np.ptp):
        return
    check_grads(lambda x: np.sum(call(x)), (x,), order=1)


def interleaved(x: Any) -> Any:
    holder = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
    holder[..., ::2] = x
    return holder[..., ::2]


def backwards(x: Any) -> Any:
    return x[..., ::-1].copy()[..., ::-1]


def by_columns(x: Any) -> Any:
    return np.asfortranarray(x)


def read_only(x: Any) -> Any:
    x = x.copy()
    x.flags.writeable = False
    return x


def weighted(call: Any) -> Any:
    """Return the call followed by a sum with fixed weights, so that its gradient is one for all results."""

    def total(*operands: Any) -> Any:
        found = call(*operands)
        results = found if isinstance(found, tuple | list) else [found]
        return sum(
            [
                np.sum(np.real((1 + 0.1j) * y) * (1 + np.arange(np.size(y)).reshape(np.shape(y))))
                for y in results
            ],
            0.0,
        )

    return total


def gradients(sample: Sample, operands: tuple[Any, ...]) -> tuple[Any, ...]:
    return mt.grad(weighted(sample.call), argnums=tuple(range(len(operands))))(*operands)


@every_sample
def test_the_layout_of_operands_in_memory_does_not_matter(sample):
    expected = gradients(sample, sample.operands)
    for layout in (interleaved, backwards, by_columns, read_only):
        found = gradients(sample, tuple([layout(x) if np.ndim(x) else x for x in sample.operands]))
        for one, other in zip(found, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12, err_msg=layout.__name__)


@attrs.frozen
class Narrowed:
    """What a sample's call gives for float32 operands: its results, and the cotangents before their projection."""

    results: list[Any]
    cotangents: list[Any]


def narrowed(sample: Sample) -> Narrowed:
    from mutangent._accumulate import Cotangents
    from mutangent._tape import Tape, sweep
    from mutangent._traced import TracedArray, new_leaf

    entries: list[Any] = []
    tape = Tape(entries)
    leaves = []
    for x in sample.operands:
        narrow = np.asarray(x, np.complex64 if np.iscomplexobj(x) else np.float32)
        leaves.append(new_leaf(entries, tape, narrow if narrow.ndim else narrow[()]))
    found = sample.call(*leaves)
    results = [y for y in (found if isinstance(found, tuple | list) else [found]) if type(y) is TracedArray]
    cotangents = Cotangents(len(entries))
    for y in results:
        cotangents.slots[y._node] = np.ones(y.shape, y.dtype)[()]
    sweep(entries, cotangents)
    tape.entries = None
    return Narrowed(results, [c for c in (cotangents.slots[leaf._node] for leaf in leaves) if c is not None])


@every_sample
def test_float32_stays_float32_on_the_way_back(sample):
    run = narrowed(sample)
    if any(y.dtype not in (np.float32, np.complex64) for y in run.results):
        return  # NumPy itself widens: float_power, or a constant float64 array in the sample
    assert {c.dtype for c in run.cotangents} <= {np.dtype(np.float32), np.dtype(np.complex64)}


@pytest.mark.parametrize(
    "function", [f for f, numbers in ELEMENTWISE.items() if len(numbers) == 2], ids=name_of
)
def test_a_python_number_does_not_widen_float32(function):
    if function in (np.float_power, np.ldexp):
        return
    x, y = ELEMENTWISE[function]
    for call, operand in ((lambda x: function(x, 2.0), x), (lambda y: function(2.0, y), y)):
        run = narrowed(Sample(call, (operand,)))
        assert {c.dtype for c in run.results + run.cotangents} == {np.dtype(np.float32)}


@pytest.mark.parametrize("function", list(CONSTANT), ids=name_of)
def test_a_function_without_derivative_gives_a_plain_constant(function):
    x = np.array([0.7, -0.4, 1.6])
    found = []

    def loss(x: Any) -> Any:
        found.append(CONSTANT[function](x))
        return np.sum(x)

    np.testing.assert_array_equal(mt.grad(loss)(x), np.ones(3))
    expected = CONSTANT[function](x)
    assert type(found[0]) is type(expected)
    np.testing.assert_array_equal(found[0], expected)


def parameters_of(function: Any) -> list[inspect.Parameter]:
    return list(inspect.signature(function).parameters.values())


@pytest.mark.skipif(
    np.lib.NumpyVersion(np.__version__) < "2.4.0", reason="older functions have fewer parameters"
)
def test_rules_have_the_parameters_of_their_functions():
    wrong = []
    for row in numpy_rules():
        if (
            isinstance(row.function, np.ufunc)
            or row.kind not in ("function", "composed")
            or row.function in (np.einsum, np.bincount)  # NumPy's signature says nothing of their operands
        ):
            continue
        theirs = parameters_of(row.function)
        names = [p.name for p in theirs]
        for mine in [row.user] if row.kind == "composed" else [each for each in row.expressions if each]:
            if isinstance(mine, np.ufunc) or hasattr(mine, "_implementation"):
                continue  # composed of one other NumPy function
            found = parameters_of(mine)[0 if row.kind == "composed" else 2 :]
            for k, parameter in enumerate(found):
                name = parameter.name.lstrip("_")
                unnamed = k == 0 and theirs[0].kind is parameter.POSITIONAL_ONLY
                if unnamed or parameter.kind is parameter.VAR_POSITIONAL:
                    continue
                if parameter.kind is parameter.POSITIONAL_OR_KEYWORD and names[k] != name:
                    wrong.append(f"{row.name}: position {k} is {names[k]}, not {name}")
                elif name not in names and not any(p.kind is p.VAR_KEYWORD for p in theirs):
                    wrong.append(f"{row.name}: {name} is no parameter")
    assert wrong == []
