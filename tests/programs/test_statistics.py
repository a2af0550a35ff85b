"""The programs meet what they are for: every way in which the library saves time."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings

import mutangent as mt
from mutangent import _accumulate, _collector, _in_place, _logistic, _operators, _recording
from mutangent._rulebook import rule
from mutangent._tape import CALL, INDEX, SET_ITEM
from tests.programs.programs import Program, programs
from tests.programs.runs import Run


def drawn(count: int) -> settings:
    """So many programs, the same in every run, and never made small."""
    checks = list(HealthCheck)
    return settings(
        max_examples=count,
        derandomize=True,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=checks,
    )


class Watch:
    """Counts what functions of the library do while it is used."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.counts: Counter[str] = Counter()
        self.monkeypatch = monkeypatch
        self.names: list[str] = []

    def after(self, owner: Any, attribute: str, name: str, is_so: Callable[..., Any]) -> None:
        """Count the calls after which `is_so(result, *arguments)`."""
        function = getattr(owner, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            result = function(*args, **kwargs)
            self.counts[name] += bool(is_so(result, *args))
            return result

        self.names.append(name)
        self.monkeypatch.setattr(owner, attribute, call)

    def before(self, owner: Any, attribute: str, name: str, is_so: Callable[..., Any]) -> None:
        """Count the calls before which `is_so(*arguments)`."""
        function = getattr(owner, attribute)

        def call(*args: Any, **kwargs: Any) -> Any:
            self.counts[name] += bool(is_so(*args))
            return function(*args, **kwargs)

        self.names.append(name)
        self.monkeypatch.setattr(owner, attribute, call)


ENTRIES = {
    "a logistic function": _logistic.LOGISTIC,
    "an index": INDEX,
    "a write in place": SET_ITEM,
    "a call of a rule or a checkpoint": CALL,
}


def test_the_programs_meet_every_way_in_which_time_is_saved(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Watch(monkeypatch)
    sums = _accumulate.Cotangents
    always = lambda *args: True
    watch.after(sums, "add_product", "a product waits", lambda _, self, node, *args: node in self.products)
    watch.before(
        sums,
        "settle",
        "several products at once",
        lambda self, node: len(getattr(self.products[node], "lefts", ())) > 1,
    )
    watch.before(sums, "add", "a sum in its own buffer", lambda self, node, _: self.owned[node])
    watch.after(sums, "scatter", "an element into a buffer", always)
    watch.after(sums, "add_partial", "what is not selected takes no part", always)
    watch.after(
        _in_place, "_own_buffer", "a buffer without a copy", lambda buffer, root: buffer is root._value
    )
    watch.after(_operators, "take_over", "a sum taken over", lambda taken, *args: taken)
    watch.after(_logistic.Exponential, "forget", "an exponential forgotten", always)
    for function in (np.sum, np.stack, np.split):
        watch.after(rule(function), "direct", f"{function.__name__}, directly", always)

    def look_at(entries: Any, *args: Any) -> bool:
        kinds = {id(entry[0]) for entry in entries}
        watch.counts.update(name for name, kind in ENTRIES.items() if id(kind) in kinds)
        return True

    watch.before(_recording, "sweep", "a sweep", look_at)

    def collect() -> None:
        gc.collect(0)
        watch.counts["the collector waits"] += gc.get_threshold()[0] == _collector.OBJECTS

    threshold = gc.get_threshold()

    @drawn(300)
    @given(program=programs(in_place=True, checkpointed=True))
    def run(program: Program) -> None:
        recorded = Run(program)
        recorded.names["collect"] = collect
        try:
            mt.vjp(recorded.f, *recorded.args)[1](1.0)
        except mt.InPlaceError:
            return
        assert gc.get_threshold() == threshold

    run()
    expected = [*watch.names, *ENTRIES, "the collector waits"]
    if not getattr(sys, "_is_gil_enabled", lambda: True)():
        expected.remove("a buffer without a copy")  # a count of references proves nothing there
    assert [name for name in expected if not watch.counts[name]] == []
