"""Views: traced arrays that share their memory with another one, as NumPy's views do.

A view is a handle that remembers its base and how it was made. After a write to a root (an array that is no view) its
views are out of date: value and node are taken away from them, and made again from the base when they are next asked
for. So T views that are kept cost nothing in T writes.

Whether NumPy makes a view or a copy can depend on the strides of an array (`ravel` and `reshape`), and the array that a
recording computes with may be a compact copy of the one the plain program would have. So the question is put to NumPy on
the original's memory, see `layout_of`.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Self

import numpy as np

from ._arrays import ARRAYS, is_array
from ._tape import Tape
from ._traced import TracedArray, new_constant, new_traced, primal

_weak: Final = weakref.ref
_new_tuple: Final = tuple.__new__
_get_value: Final = TracedArray.__dict__["_value"].__get__


class Again(tuple[Any, tuple[Any, ...], dict[str, Any], int]):
    """How a function made a view: called with another value of the base, it makes the view of that.

    The number says which of several results it was; it is -1 if there was one.
    """

    __slots__ = ()

    def __new__(cls, function: Any, rest: tuple[Any, ...], kwargs: dict[str, Any], number: int = -1) -> Self:
        return _new_tuple(cls, (function, rest, kwargs, number))

    @property
    def function(self) -> Any:
        return self[0]

    def __call__(self, base: Any) -> Any:
        function, rest, kwargs, number = self
        made = function(base, *rest, **kwargs)
        return made if number < 0 else made[number]


def same_array(base: Any) -> Any:
    """How a second name of an array is made from the first."""
    return base


def register_view(view: TracedArray, base: TracedArray, how: Any) -> None:
    """Remember that `view` was made from `base`; `how` is an index, or a function of the base's value."""
    view._base = base
    view._how = how
    while base._base is not None:
        base = base._base
    view._tape.views.setdefault(id(base), []).append(_weak(view))


def register_parts(
    parts: list[TracedArray], base: TracedArray, function: Any, rest: Any, kwargs: Any
) -> None:
    """Remember that `parts` are the several results of a function, and all of them views of `base`."""
    known = base._tape.views.setdefault(id(root_of(base)), [])
    for number, part in enumerate(parts):
        part._base = base
        part._how = _new_tuple(Again, (function, rest, kwargs, number))
        known.append(_weak(part))


def is_as_computed(x: TracedArray) -> bool:
    """Whether the value that is computed with surely has the strides that `x` has in the plain program."""
    tape = x._tape
    return x._base is None and type(x._value) is np.ndarray and not tape.origins and not tape.shadowed


def base_of(x: TracedArray) -> TracedArray | None:
    """The handle that `x` is a view of, or None."""
    return x._base


def root_of(x: TracedArray) -> TracedArray:
    """The outermost base of a view; `x` itself if it is none."""
    while (base := base_of(x)) is not None:
        x = base
    return x


def derive(base_value: Any, how: Any) -> Any:
    """The value of a view, made from the value of its base."""
    return how(base_value) if callable(how) else base_value[how]


def layout_of(x: Any) -> Any:
    """An array with the strides that `x` has in the plain program. Its contents may be old."""
    while type(x) is TracedArray:
        base = base_of(x)
        if base is None:
            x = source_of(x)
        elif id(x) in x._tape.borrowed:  # its base is a handle of the inner recording that has borrowed it
            return x._tape.borrowed[id(x)].layout
        else:
            return derive(layout_of(base), x._how)
    return x


def source_of(root: TracedArray) -> Any:
    """What a root was made of: the array, or the outer recording's handle, of a field or argument, else its value."""
    tape = root._tape
    shadow = tape.shadowed.get(id(root))
    if shadow is not None:
        return shadow[1]
    origin = tape.origins.get(id(root))
    return root._value if origin is None else origin[1]


def makes_view(y: Any, x: TracedArray, how: Again) -> bool:
    """Whether `y`, computed from the value of `x`, is a view of it in the plain program."""
    if not is_view_of(primal(y), primal(x)):
        return False
    layout = layout_of(x)
    return layout is primal(x) or is_view_of(how(layout), layout)


def is_view_of(y: Any, x: Any) -> bool:
    """Whether NumPy made `y` as a view of the memory of `x`."""
    if type(y) not in ARRAYS or type(x) not in ARRAYS:
        return False
    return y is x or (y.base is not None and (y.base is x or y.base is x.base))


# -- keeping views up to date ------------------------------------------------------------------------------------------


def outdate(root: TracedArray) -> None:
    """Take value and node from the views of a root that was written."""
    tape = root._tape
    references = tape.views.pop(id(root), None)
    if references:
        for view in _alive(references):
            if root_of(view) is root:
                forget_value(view, root)


def _alive(references: Iterable[Any]) -> Iterator[TracedArray]:
    for reference in references:
        view = reference()
        if view is not None:
            yield view


def views_of(root: TracedArray) -> list[TracedArray]:
    """The views of a root, up to date or not."""
    tape = root._tape
    stale = [] if tape.stale is None else tape.stale.of_root(root)
    return [view for view in (*_alive(tape.views.get(id(root), ())), *stale) if root_of(view) is root]


def forget_value(view: TracedArray, root: TracedArray) -> None:
    """Let a view of `root` be made again when it is next asked for."""
    if is_fresh(view):
        del view._value, view._node
    tape = view._tape
    if tape.stale is None:
        tape.stale = Stale()
    tape.stale.add(view, root)


class Stale:
    """Views that are out of date, by the identity of their root.

    The references are plain weak ones; a dictionary of weak values takes five times as long to add one.
    """

    __slots__ = ("_added", "_most", "_views")

    def __init__(self) -> None:
        self._views: dict[int, dict[int, Any]] = {}
        self._added = 0
        self._most = 64

    def add(self, view: TracedArray, root: TracedArray) -> None:
        """Add a view of a root."""
        self._added += 1
        if self._added > self._most:
            self._drop_dead()
        of_root = self._views.get(id(root))
        if of_root is None:
            of_root = self._views[id(root)] = {}
        of_root[id(view)] = _weak(view)

    def remove(self, view: TracedArray, root: TracedArray) -> None:
        """Remove a view of a root, if it is here."""
        of_root = self._views.get(id(root))
        if of_root is not None:
            of_root.pop(id(view), None)

    def of_root(self, root: TracedArray) -> list[TracedArray]:
        """The views of a root."""
        return list(_alive(self._views.get(id(root), {}).values()))

    def take(self, root: TracedArray) -> list[TracedArray]:
        """The views of a root, which are here no more."""
        return list(_alive(self._views.pop(id(root), {}).values()))

    def all(self) -> list[TracedArray]:
        """All views."""
        return [view for of_root in self._views.values() for view in _alive(of_root.values())]

    def _drop_dead(self) -> None:
        for root, of_root in list(self._views.items()):
            alive = {key: reference for key, reference in of_root.items() if reference() is not None}
            if alive:
                self._views[root] = alive
            else:
                del self._views[root]
        self._added = sum(map(len, self._views.values()))
        self._most = 64 + 2 * self._added


def is_fresh(view: TracedArray) -> bool:
    """Whether the value of a view is up to date; one that is not is made again when it is asked for."""
    try:
        _get_value(view)
    except AttributeError:
        return False
    return True


def refresh(view: TracedArray) -> None:
    """Make a view that is out of date again, and before it the bases that are."""
    chain = []
    stale: TracedArray | None = view
    while stale is not None and not is_fresh(stale):
        chain.append(stale)
        stale = base_of(stale)
    if stale is None:
        raise AttributeError("a traced value without a value")
    for each in reversed(chain):
        base: Any = base_of(each)
        tape = each._tape
        if tape.all is None:
            each._value, each._node = derive(base._value, each._how), -1
            continue
        # What is a view stays one in `pause()`, traced as before.
        with unpaused(base):
            made = derive(base, each._how)
        each._value, each._node = made._value, made._node
        root = root_of(each)
        if tape.stale is not None:
            tape.stale.remove(each, root)
        tape.views.setdefault(id(root), []).append(weakref.ref(each))


def refresh_all(tape: Tape) -> None:
    """Bring all views up to date, before the tape is closed."""
    for view in [] if tape.stale is None else tape.stale.all():
        if not is_fresh(view):
            refresh(view)


def join(handle: TracedArray, root: TracedArray, how: Any = same_array) -> None:
    """Make `handle` a second name of `root`, because both stand for the same array; its views become views of that."""
    tape = root._tape
    views = _take_views(handle, handle._tape)
    handle._base = root
    handle._how = how
    root = root_of(root)  # an inner recording may have borrowed it
    for view in (*views, handle):
        view._tape = tape
        forget_value(view, root)


def move_views(root: TracedArray, before: Tape) -> None:
    """Let the views of a root that has come from another tape follow it."""
    for view in _take_views(root, before):
        view._tape = root._tape
        forget_value(view, root)


def _take_views(root: TracedArray, tape: Tape) -> list[TracedArray]:
    """The views of a root, which its tape forgets."""
    stale = [] if tape.stale is None else tape.stale.take(root)
    return [*_alive(tape.views.pop(id(root), ())), *stale]


@contextmanager
def unpaused(x: Any) -> Iterator[None]:
    """Record on all tapes that traced `x`, even in `pause()`."""
    paused = []
    while type(x) is TracedArray:
        tape = x._tape
        if tape.entries is None and tape.all is not None and not tape.asleep:
            paused.append(tape)
            tape.entries = tape.all
        x = x._value
    del x  # a reference would make the next write copy the array
    try:
        yield
    finally:
        for tape in paused:
            tape.entries = None


def quiet_view(value: Any, base: TracedArray, how: Any) -> TracedArray:
    """A view that is a constant: of an array that sleeps, or made in `pause()`. Writing through it is seen in the base."""
    tape = base._tape
    view = new_traced(tape, -1, value) if tape.asleep else new_constant(tape, value)
    register_view(view, base, how)
    return view


def is_item_view(value: Any, index: Any) -> bool:
    """Whether `value`, taken by a basic index, is a view, not a number."""
    parts = index if type(index) is tuple else (index,)
    return is_array(value) and not any(type(part) in ARRAYS for part in parts)


def shown(y: Any, x: TracedArray) -> Any:
    """A value made from one of a closed recording, read-only if it shares memory that a pullback may still read."""
    if is_view_of(y, primal(x)) and id(root_of(x)) not in x._tape.leaf_ids:
        if type(y) is not np.ndarray:
            return y.copy()  # CuPy has no read-only arrays
        y = y.view()
        y.flags.writeable = False
    return y
