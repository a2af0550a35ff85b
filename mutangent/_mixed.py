"""Which arrays are on the host, for the error that CuPy raises where they meet arrays of a device.

CuPy's own words ("Unsupported type <class 'numpy.ndarray'>") name no field. The error stays CuPy's, as in a plain run, and
gets a note.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from ._arrays import ON_DEVICE, describe, is_on_device
from ._overlay import Record
from ._structure import Description, Group, Leaf
from ._traced import primal

_BEGINNING: Final = "CuPy mixes no arrays of host and device."
_MOST_NAMED: Final = 4


def explain_mixing(
    error: BaseException | None, records: Iterable[Record], roots: Iterable[Description]
) -> None:
    """Add to a `TypeError` of CuPy's about NumPy arrays what a recording had read on the host, and what on a device.

    Parameters
    ----------
    error : BaseException or None
        What ended the recording or the sweep.
    records : iterable of Record
        The objects that were met.
    roots : iterable of Description
        The arguments that are differentiated.
    """
    if not ON_DEVICE or type(error) is not TypeError:
        return
    text = str(error)
    if "numpy.ndarray" not in text or not ("Unsupported type" in text or "cupy" in text):
        return
    if any(note.startswith(_BEGINNING) for note in getattr(error, "__notes__", ())):
        return  # by a recording within
    on_host: list[str] = []
    on_device: list[str] = []
    for name, value in _arrays_of(records, roots):
        if is_on_device(value):
            on_device.append(name)
        elif type(value) is np.ndarray:
            on_host.append(f"{name}, {describe(value)}")
    found = [
        f"{where}: {', '.join(names[:_MOST_NAMED])}{', …' if len(names) > _MOST_NAMED else ''}."
        for where, names in (("Read on the host", on_host), ("Read on the device", on_device))
        if names
    ]
    if not on_host:
        found.append("A constant, or an argument that is not differentiated, is on the host.")
    cure = "Move an object with mutangent.to_device(m), an array with cupy.asarray(x)."
    error.add_note(" ".join([_BEGINNING, *found, cure]))


def _arrays_of(records: Iterable[Record], roots: Iterable[Description]) -> Iterator[tuple[str, Any]]:
    """Names and entry values of the numbers and arrays that were read."""
    pending = [("an argument", root) for root in roots]
    for record in records:
        kind = type(record.obj).__name__
        pending += [(f"{kind}.{name}", entry) for name, entry in record.entries.items()]
    seen: set[int] = set()
    while pending:
        name, description = pending.pop()
        if type(description) is Group and id(description) not in seen:
            seen.add(id(description))
            pending += [(name, item) for item in description.items]
        elif type(description) is Leaf:
            yield name, primal(description.entry)
