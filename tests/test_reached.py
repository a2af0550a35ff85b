"""Which plain names the code of a function reaches, and what it does with their values."""

import contextlib
import functools
import gc
import sys
import types
import weakref

import numpy as np
import pytest

import mutangent as mt
from mutangent._plain_names import UNSET
from mutangent._reached import reached_by


def space(source, **values):
    """The namespace of a program that was run."""
    namespace = {"np": np, "mt": mt, "functools": functools, "contextlib": contextlib, **values}
    exec(compile(source, "<a program>", "exec"), namespace)
    return namespace


def reached(source, function="f", **values):
    """The names that a function of a program reaches, with whether something reads their values."""
    found = reached_by(space(source, **values)[function])
    return {name.name: any(not read.is_put for read in name.reads) for name in found.names}


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x): return x + a", {"a": True}),
        ("def f(x): return [y + a for y in x]", {"a": True}),
        ("def f(x): return (lambda y: y + a)(x)", {"a": True}),
        ("def f(x): return sum(y * a for y in x)", {"a": True}),
        ("def g(x): return x + a\ndef f(x): return g(x)", {"a": True}),
        ("def f(x): return g(x)\ndef g(x): return f(a)", {"a": True}),
        ("def f(x, y=a): return x + y", {"y": True}),
        ("def f(x, *, y=a): return x + y", {"y": True}),
        ("def f(x, y=a): return (lambda: x + y)()", {"y": True}),
        ("def f(x, y=a): return x", {}),
        ("def f(x):\n    a = 1\n    return x + a", {}),
        ("def f(x): return np.sum(x) + len(x)", {}),
        ("def f(x):\n    class C:\n        a = 1\n        b = a\n    return C", {}),
        ("def f(x):\n    class C:\n        b = a\n    return C", {"a": True}),
        ("def f(x):\n    global count\n    count = 1", {"count": False}),
        ("def f(x):\n    global a\n    a = a + 1", {"a": True}),
        ("def f(x):\n    del x.v\n    x.buffer = a", {"a": False}),
        ("def f(x): x.inner.buffer = a", {"a": False}),
        ("def f(x): x.v = x.w = a", {"a": True}),
        ("def f(x): x.v = a.T", {"a": True}),
        ("def f(x): return x if a is None else 2 * x", {"a": False}),
        ("def f(x): return a is x.v", {"a": False}),
        ("def f(x): return isinstance(a, list) and type(a)", {"a": False}),
        ("def f(x): return a[0]", {"a": True}),
        ("def f(x): a[0] += x", {"a": True}),
        ("def f(x): return x.method(a)", {"a": True}),
        ("def f(x): return np.dot(a, x)", {"a": True}),
        ("def f(x): return f'{a}'", {"a": True}),
        ("def f(x):\n    for y in a: x += y\n    return x", {"a": True}),
        ("def f(x): return unknown", {"unknown": True}),
        ("@functools.lru_cache\ndef f(x): return a", {"a": True}),
        ("@contextlib.contextmanager\ndef g(): yield a\ndef f(x):\n    with g() as y: return y", {"a": True}),
        ("@mt.checkpoint\ndef f(x): return a", {"a": True}),
        ("def g(x): return a\nf = mt.grad(g)", {"a": True}),
        ("def g(x): return a\nf = mt.jacobian(g)", {"a": True}),
        ("def g(x, y): return a\nf = functools.partial(g, 1)", {"a": True}),
        ("def g(x): return a\nf = functools.partial(map, g)", {"a": True}),
        ("@mt.primitive\ndef f(x): return 1\n@f.rrule\ndef g(x): return a, None", {"a": True}),
    ],
)
def test_names_that_code_reaches(source, names):
    assert reached(source, a=np.ones(3)) == names


CLASSES = """
class C:
    def __call__(self, x): return self.step(x)
    def step(self, x): return self.size + x
    @property
    def size(self): return a
    @staticmethod
    def other(): return b
    def unused(self): return c
    @functools.cached_property
    def cached(self): return d
    @classmethod
    def make(cls): return e
"""


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("def f(x): return c_object(x)\nc_object = C()", {"c_object": True, "a": True}),
        ("def f(x): return C().step(x)", {"a": True}),
        ("f = C()", {"a": True}),
        ("f = C().step", {"a": True}),
        ("f = C.make", {"e": True, "a": True}),
        ("f = C.other", {"b": True}),
        ("def f(x): return [c(x) for c in many]\nmany = [C()]", {"many": True, "a": True}),
        ("def f(x): return c_object.cached\nc_object = C()", {"c_object": True, "a": True, "d": True}),
        ("class D(C): pass\ndef f(x): return D().other()", {"a": True, "b": True}),
        ("f = functools.partial(C().step, 1)", {"a": True}),
    ],
)
def test_methods_that_code_may_call(source, names):
    values = {name: np.ones(3) for name in "abcde"}
    found = reached(CLASSES + source, **values)
    assert found == names


def test_the_methods_of_a_class_that_is_named_as_met():
    namespace = space(CLASSES + "def f(x): return x.step(1)", **dict.fromkeys("abcde", 1.0))
    assert [name.name for name in reached_by(namespace["f"]).names] == []
    assert [name.name for name in reached_by(namespace["f"], classes=[namespace["C"]]).names] == ["a"]
    assert [name.name for name in reached_by(namespace["f"]).names] == ["a"]


def test_what_is_given_to_a_captured_class_is_not_read():
    assert reached("@mt.differentiable\nclass C:\n    v: object\ndef f(x): return C(a)", a=1.0) == {
        "a": False
    }
    assert reached("@mt.differentiable\nclass C:\n    v: object\ndef f(x): return C(v=a)", a=1.0) == {
        "a": False
    }
    assert reached("class C:\n    def __init__(self, v): pass\ndef f(x): return C(a)", a=1.0) == {"a": True}


@pytest.mark.parametrize("code", ["len(a)", "a.shape[0]", "np.zeros_like(a)", "np.shape(a)"])
def test_a_use_of_the_shape_is_told_from_others(code):
    (name,) = reached_by(space(f"def f(x): return {code}", a=np.ones(3))["f"]).names
    assert [read.looks_into(np.ones(3), []) for read in name.reads] == [False]
    (name,) = reached_by(space("def f(x): return np.sum(a)", a=np.ones(3))["f"]).names
    assert [read.looks_into(np.ones(3), []) for read in name.reads] == [True]
    assert str(name.reads[0]) == "f, line 1"


def test_names_of_modules():
    config, inner = types.ModuleType("config"), types.ModuleType("config.inner")
    config.a, config.inner, inner.b = np.ones(3), inner, 2.0
    exec("def g(): return inner.b", config.__dict__)
    found = reached_by(space("def f(x): return x * config.a + config.g() + np.pi", config=config)["f"])
    assert {name.name for name in found.names} == {"a", "b"}
    by_name = {name.name: name for name in found.names}
    by_name["a"].bind(5.0)
    assert config.a == 5.0
    by_name["a"].bind(UNSET)
    assert by_name["a"].value() is UNSET
    assert not hasattr(config, "a")


def test_a_name_is_bound_to_another_value():
    c = 3.0
    if not c:
        d = 4.0  # so that it never has a value

    def f(x, e=5.0, *, g=6.0):
        return x + c + d + e + g + h_of_this_module

    names = {name.name: name for name in reached_by(f).names}
    values = {name: each.value() for name, each in names.items()}
    assert values == {"c": 3.0, "d": UNSET, "e": 5.0, "g": 6.0, "h_of_this_module": 1.0}
    for name in names.values():
        name.bind(7.0)
    try:
        assert f(0.0) == 35.0
        names["c"].bind(UNSET)
        with pytest.raises(NameError):
            f(0.0)
    finally:
        names["h_of_this_module"].bind(1.0)
    names["c"].bind(3.0)
    assert c == 3.0
    assert {name: each.is_stored for name, each in names.items()} == dict.fromkeys(names, False)


h_of_this_module = 1.0


def test_a_name_that_is_assigned_is_told():
    def outer():
        count = 0

        def f():
            nonlocal count
            global assigned_here
            count = 1
            assigned_here = 2

        return f, lambda: count

    names = {name.name: name for name in reached_by(outer()[0]).names}
    assert {name: (each.is_stored, bool(each.reads)) for name, each in names.items()} == {
        "count": (True, False),
        "assigned_here": (True, False),
    }


def test_a_name_that_stands_for_another_function_by_now():
    namespace = space("def f(x): return g(x)\ndef g(x): return a\ndef h(x): return b", a=1, b=2)
    f = namespace["f"]
    first = reached_by(f)
    assert reached_by(f) is first
    assert [name.name for name in first.names] == ["a"]
    namespace["a"] = 3
    assert reached_by(f) is first
    assert first.names[0].value() == 3
    namespace["g"] = namespace["h"]
    assert [name.name for name in reached_by(f).names] == ["b"]
    namespace["b"] = namespace["h"]
    assert [name.name for name in reached_by(f).names] == []
    del namespace["g"]
    assert [name.name for name in reached_by(f).names] == ["g"]


@pytest.mark.parametrize(
    "source",
    [
        "def f(x): return a + f(x)",
        "def g():\n    a = 1\n    def f(x): return f(x) + a\n    return f\nf = g()",
        "class C:\n    def __call__(self, x): return f(x) + C()\nf = C()",
        "class C:\n    def step(self, x): return f(x) + C()\nf = C().step",
    ],
)
def test_nothing_is_kept_alive(source):
    namespace = space(source, a=np.ones(3))
    alive = weakref.ref(namespace["f"] if "step" not in source else namespace["C"])
    found = reached_by(namespace["f"])
    names = list(found.names)
    del namespace, found
    gc.collect()
    assert alive() is None
    assert all(name.value() is UNSET for name in names)


def test_what_a_function_that_is_made_anew_leads_to_is_not_looked_up_again():
    lines = [f"def g{k}(x): return x * a{k} + h(x)" for k in range(15)]
    lines.append("def h(x): return x * b")
    lines.append("def f(x): return " + " + ".join(f"g{k}(x)" for k in range(15)))
    namespace = space("\n".join(lines), b=1.0, **{f"a{k}": np.ones(3) for k in range(15)})
    f = namespace["f"]

    def looks():
        found = reached_by(lambda x: f(x) * 2.0)
        return {name.name for name in found.names}, found

    names, first = looks()
    assert names == {f"a{k}" for k in range(15)} | {"b"}
    again = looks()[1]
    assert first is not again
    assert first._rest is again._rest
    namespace["h"] = namespace["g0"]
    assert "b" not in looks()[0]


def test_a_function_that_calls_itself_is_told():
    namespace = space("def f(x): return g(x)\ndef g(x): return f(x) + h(x)\ndef h(x): return x")
    assert [reached_by(namespace[name]).is_recursive for name in "fgh"] == [True, True, False]


def test_a_package_that_a_block_calls_is_not_looked_at(tmp_path):
    namespace = {}
    source = "def theirs(x): return their_data\ntheir_data = 1.0"
    exec(compile(source, str(tmp_path / "site-packages" / "theirs" / "code.py"), "exec"), namespace)
    found = reached_by(space("def f(x): return theirs(x)", theirs=namespace["theirs"])["f"])
    assert found.names == ()


def test_libraries_are_not_looked_at():
    layer = mt.nn.Dense(2, 2, rng=np.random.default_rng(0))
    assert [name.name for name in reached_by(layer).names] == []
    assert [name.name for name in reached_by(np.sum).names] == []
    found = reached_by(space("import json, attrs\ndef f(x): return json.dumps(attrs.asdict(a))", a=1)["f"])
    assert [name.name for name in found.names] == ["a"]


def test_an_installed_package_is_looked_at_by_who_is_in_it(tmp_path):
    namespace = {}
    folder = tmp_path / "site-packages"
    for package in ("mine", "theirs"):
        source = f"def {package}(x): return {package}_data\n{package}_data = 1.0"
        exec(compile(source, str(folder / package / "code.py"), "exec"), namespace)
    exec(compile("def f(x): return mine(x) + theirs(x)", str(folder / "mine" / "f.py"), "exec"), namespace)
    exec(compile("def g(x): return mine(x) + theirs(x)", str(tmp_path / "g.py"), "exec"), namespace)
    assert [name.name for name in reached_by(namespace["f"]).names] == ["mine_data"]
    assert [name.name for name in reached_by(namespace["g"]).names] == []
    assert [name.name for name in reached_by(namespace["mine"]).names] == ["mine_data"]


def test_many_functions_are_looked_at_up_to_a_bound():
    lines = [f"def f{k}(x): return f{k + 1}(x) + a{k}" for k in range(3000)]
    names = reached_by(space("\n".join(lines))["f0"]).names
    assert 900 < len(names) < 1100


def test_a_second_look_is_quick():
    lines = [f"def g{k}(x): return x * a{k} + np.sum(x)" for k in range(15)]
    lines.append("def f(x): return " + " + ".join(f"g{k}(x)" for k in range(15)))
    namespace = space("\n".join(lines), **{f"a{k}": np.ones(3) for k in range(15)})
    first = reached_by(namespace["f"])
    assert len(first.names) == 15
    calls = 0

    def count(frame, event, arg):
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        again = reached_by(namespace["f"])
    finally:
        sys.setprofile(None)
    assert again is first
    assert calls < 150
