"""The floors of the package: a module imports from its own floor and from those below it.

Read from the sources, nothing is imported. An import inside a function counts like one at the top (it is how
circles are hidden); one under `if TYPE_CHECKING:` does not (it never runs).

Adding a module: put it into FLOORS, on the lowest floor from which it sees all that it needs.
"""

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

PACKAGE = "mutangent"
ROOT = Path(__file__).resolve().parents[1] / PACKAGE

# Lowest first. A name that ends in `.*` is a subpackage with all of its modules. Modules of one set see each
# other as long as they make no circle; sets with the same floor number do not: no rule sees a tape, no tape
# a rule.
FLOORS: list[tuple[int, set[str]]] = [
    (
        0,
        {
            "_errors",
            "_identity",
            "_arrays",
            "_blocks",
            "_collector",
            "_contents",
            "_global_generators",
            "_live_names",
            "_bytecode",
            "_loads",
            "_plain_names",
            "_reached",
            "_readers",
            "_local_readers",
            "_references",
        },
    ),
    (1, {"_tangent", "_accumulate"}),
    (2, {"_rulebook"}),
    (3, {"rules.*"}),
    (
        3,
        {
            "_flat",
            "_selected",
            "_memory",
            "_suspended",
            "_tape",
            "_traced",
            "_null_space",
            "_views",
            "_shadow",
            "_adopted",
            "_in_place",
            "_written_back",
            "_apply",
            "_binary",
            "_items",
            "_logistic",
            "_operands",
            "_operators",
            "_forward",
            "_kinks",
            "array_api.*",
        },
    ),
    (
        4,
        {
            "_attributes",
            "_attribute_reads",
            "_structure",
            "_elsewhere",
            "_fields",
            "_instance_dict",
            "_overlay",
            "_instance_state",
            "_bindings",
            "_positions",
            "_states",
            "_kept",
            "_trials",
            "_conversions",
            "_capture",
            "_members",
            "_mixed",
            "_read_past",
            "_recorded_code",
            "_value_flow",
            "_recording",
        },
    ),
    (
        5,
        {
            "_call",
            "_remembered",
            "_compared",
            "_first_run",
            "_raised",
            "_second_run",
            "_work_done",
            "_checkpoint",
            "_primitive",
            "_transforms",
            "_decorator",
            "_history",
            "_finite",
            "_diagnose",
            "_context",
            "_jvp",
            "_jacobians",
            "_layout",
            "_device",
            "_pairing",
            "_parameters",
            "_copies",
            "_ravel",
            "tree",
        },
    ),
    (6, {"testing.*"}),
    (6, {"nn._fused"}),
    (7, {"nn.*", "optim.*"}),
    (7, {"scipy.*"}),
    (8, {"__main__"}),
]

# These stand on the public API alone: from the floors below they import only what `mutangent/__init__.py`
# re-exports.
ON_THE_PUBLIC_API = {"nn.*", "optim.*"}
# But for this: entries of the tape that stand for a whole step of a layer, which only the core can append.
MADE_FOR_THEM = {"nn._fused"}

RUNTIME_DEPENDENCIES = {"numpy", "attrs", "attr"}
# Libraries that one part alone may import: it is itself imported only by those who have them.
OPTIONAL_DEPENDENCIES = {
    "rules.special": {"scipy"},
    "rules.scipy_linalg": {"scipy"},
    "rules.scipy_signal": {"scipy"},
    "scipy.*": {"scipy"},
    "_device": {"cupy"},
}


@attrs.frozen
class Imported:
    """One name that a module imports: `from module import name`, or `import module` with no name."""

    module: str
    name: str | None
    line: int


@attrs.frozen
class Sources:
    """The texts of a package's modules by their names in it (`""`: its top), and which are packages."""

    texts: dict[str, str]
    packages: set[str]

    def imports(self, module: str) -> Iterator[Imported]:
        """Yield what a module imports, with relative names made absolute."""
        full = f"{PACKAGE}.{module}" if module else PACKAGE
        package = full if module in self.packages else full.rpartition(".")[0]
        pending: list[ast.AST] = [ast.parse(self.texts[module])]
        while pending:
            node = pending.pop()
            if isinstance(node, ast.Import):
                for alias in node.names:
                    yield Imported(alias.name, None, node.lineno)
            elif isinstance(node, ast.ImportFrom):
                above = package.split(".")
                above = above[: len(above) - node.level + 1] if node.level else []
                base = ".".join([*above, node.module] if node.module else above)
                for alias in node.names:
                    yield Imported(base, alias.name, node.lineno)
            pending += node.orelse if is_type_checking(node) else ast.iter_child_nodes(node)

    def target(self, imported: Imported) -> str:
        """Name the module of the package that an import reaches (`""`: its top)."""
        module = imported.module.removeprefix(PACKAGE).lstrip(".")
        submodule = f"{module}.{imported.name}".lstrip(".")
        return submodule if submodule in self.texts else module  # `from . import _errors`

    def public_names(self) -> set[tuple[str, str | None]]:
        """Return (module, name) of all that the top of the package re-exports."""
        if "" not in self.texts:
            return set()
        return {(self.target(imported), imported.name) for imported in self.imports("")}


def is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).rpartition(".")[2] == "TYPE_CHECKING"


def covers(pattern: str, module: str) -> bool:
    subpackage = pattern.removesuffix(".*")
    return module == pattern or (subpackage != pattern and f"{module}.".startswith(f"{subpackage}."))


def room_of(module: str) -> int | None:
    """Return the index in FLOORS of the set that holds this module."""
    for room, (_, patterns) in enumerate(FLOORS):
        if any(covers(pattern, module) for pattern in patterns):
            return room
    return None


def outside_complaint(imported: Imported, module: str) -> str | None:
    """Say what is wrong with an import of something else than the package's own modules, if anything is."""
    top = imported.module.partition(".")[0]
    if top == PACKAGE:
        return f"says `import {imported.module}`: write `from {imported.module} import …`"
    optional = {
        name for part, names in OPTIONAL_DEPENDENCIES.items() if covers(part, module) for name in names
    }
    if top not in sys.stdlib_module_names | RUNTIME_DEPENDENCIES | optional:
        return f"imports {top}, which is no runtime dependency"
    return None


def inside_complaint(imported: Imported, room: int, sources: Sources) -> str | None:
    """Say what is wrong with an import from the package, seen from a set of FLOORS, if anything is."""
    target = sources.target(imported)
    if not target:
        return f"imports {imported.name} from the top of the package, which is above it"
    if target not in sources.texts:
        return f"imports {target}, which does not exist"
    target_room = room_of(target)
    if target_room is None or target_room == room:
        return None
    if FLOORS[target_room][0] == FLOORS[room][0]:
        return f"imports {target}: the two sides of floor {FLOORS[room][0]} never see each other"
    if target_room > room:
        return f"imports {target}, which is above it"
    public_only = not FLOORS[room][1].isdisjoint(ON_THE_PUBLIC_API)
    if public_only and target not in MADE_FOR_THEM and (target, imported.name) not in sources.public_names():
        return f"imports {imported.name} from {target}, which {PACKAGE}/__init__.py does not re-export"
    return None


def complaints(sources: Sources) -> list[str]:
    """Say all that is wrong with the imports of a package."""
    found = []
    below: dict[str, set[str]] = {}
    for module in sources.texts:
        if not module:
            continue  # the top re-exports whatever it likes
        room = room_of(module)
        if room is None:
            found.append(f"{module} stands on no floor: put it into FLOORS")
            continue
        below[module] = set()
        for imported in sources.imports(module):
            if imported.name is None or imported.module.partition(".")[0] != PACKAGE:
                complaint = outside_complaint(imported, module)
            else:
                complaint = inside_complaint(imported, room, sources)
                below[module].add(sources.target(imported))
            if complaint is not None:
                found.append(f"{module}:{imported.line} {complaint}")
    return found + [f"circle: {' → '.join(circle)}" for circle in circles(below)]


def circles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Return one circle, if there is any.

    Modules that import nothing any more are peeled off. Each that stays leads to another that stays, and so at last
    back to one already passed.
    """
    left = {module: targets - {module} for module, targets in graph.items()}
    while free := {module for module, targets in left.items() if not targets & left.keys()}:
        for module in free:
            del left[module]
    if not left:
        return []
    walk = [min(left)]
    while (following := min(left[walk[-1]] & left.keys())) not in walk:
        walk.append(following)
    return [[*walk[walk.index(following) :], following]]


def read_package() -> Sources:
    texts, packages = {}, set()
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__init__":
            parts = parts[:-1]
            packages.add(".".join(parts))
        texts[".".join(parts)] = path.read_text(encoding="utf-8")
    return Sources(texts, packages)


def test_every_import_of_the_package_looks_down():
    assert complaints(read_package()) == []


def test_every_name_in_the_floor_plan_exists():
    planned = [pattern for _, patterns in FLOORS for pattern in patterns]
    texts = read_package().texts
    assert [pattern for pattern in planned if not any(covers(pattern, module) for module in texts)] == []


@pytest.mark.parametrize(
    ("texts", "complaint"),
    [
        ({"_errors": "from ._tape import T", "_tape": ""}, "_errors:1 imports _tape, which is above it"),
        (
            {"_errors": "from mutangent._tape import T", "_tape": ""},
            "_errors:1 imports _tape, which is above it",
        ),
        ({"_errors": "from . import _tape", "_tape": ""}, "_errors:1 imports _tape, which is above it"),
        (
            {"_errors": "def f():\n    from ._tape import T", "_tape": ""},
            "_errors:2 imports _tape, which is above",
        ),
        (
            {"rules.special": "from .._tape import T", "_tape": ""},
            "rules.special:1 imports _tape: the two sides",
        ),
        (
            {"_tape": "from .rules.special import f", "rules.special": ""},
            "_tape:1 imports rules.special: the two",
        ),
        ({"_tape": "import mutangent"}, "_tape:1 says `import mutangent`"),
        ({"_tape": "from mutangent import grad"}, "_tape:1 imports grad from the top of the package"),
        ({"_tape": "from . import grad"}, "_tape:1 imports grad from the top of the package"),
        ({"_tape": "import scipy.special"}, "_tape:1 imports scipy, which is no runtime dependency"),
        ({"_tape": "from ._nowhere import x"}, "_tape:1 imports _nowhere, which does not exist"),
        ({"_helpers": ""}, "_helpers stands on no floor"),
        (
            {"_tape": "from ._traced import x", "_traced": "from ._tape import y"},
            "circle: _tape → _traced → _tape",
        ),
        (
            {"": "from ._tape import Tape", "_tape": "", "nn.cells": "from .._tape import Tape, Node"},
            "nn.cells:1 imports Node from _tape, which mutangent/__init__.py does not re-export",
        ),
    ],
)
def test_a_wrong_import_is_found(texts, complaint):
    (found,) = complaints(Sources(texts, {"", "rules", "nn"}))
    assert found.startswith(complaint)


@pytest.mark.parametrize(
    "texts",
    [
        {"_tape": "from ._errors import NoRuleError\nimport numpy as np\nimport sys", "_errors": ""},
        {
            "_tape": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from .testing import x",
            "testing": "",
        },
        {"_tape": "from ._traced import x", "_traced": ""},
        {"nn": "from .cells import Recur", "nn.cells": "from ._weights import x", "nn._weights": ""},
        {"": "from ._tape import Tape", "_tape": "", "nn.cells": "from mutangent._tape import Tape"},
        {"": "from . import testing", "testing": "", "nn.cells": "from .. import testing"},
    ],
)
def test_a_right_import_is_let_through(texts):
    assert complaints(Sources(texts, {"", "rules", "nn"})) == []
