"""The pages tell the truth: their code runs, their outputs are right, and the reference names all that is public."""

import doctest
import re
from pathlib import Path

import numpy as np
import pytest

import mutangent as mt

ROOT = Path(__file__).resolve().parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

FENCED = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SAME_BUT_FOR = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def blocks_of(page: Path) -> list[tuple[int, str, str]]:
    """Return (line, language, text) of each fenced block of a page."""
    text = page.read_text(encoding="utf-8")
    return [(text.count("\n", 0, m.start()) + 1, m[1], m[2]) for m in FENCED.finditer(text)]


def pages_with_code() -> list[Path]:
    return [
        page for page in PAGES if any(language in {"python", "pycon"} for _, language, _ in blocks_of(page))
    ]


@pytest.mark.parametrize("page", pages_with_code(), ids=lambda page: str(page.relative_to(ROOT)))
def test_the_code_of_a_page_runs_from_top_to_bottom(page):
    names = {"__name__": "page", "np": np, "mt": mt}
    for line, language, text in blocks_of(page):
        if language == "python":
            # Leading newlines make the lines of a traceback those of the page.
            exec(compile("\n" * line + text, str(page), "exec"), names)
        elif language == "pycon":
            session = doctest.DocTestParser().get_doctest(text, names, page.name, str(page), line)
            report: list[str] = []
            runner = doctest.DocTestRunner(verbose=False, optionflags=SAME_BUT_FOR)
            runner.run(session, out=report.append, clear_globs=False)
            names.update(session.globs)  # a session runs on a copy
            assert not report, "".join(report)


def test_the_reference_has_every_public_name():
    pages = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "reference").glob("*.md"))
    described = set(re.findall(r"^\.\. auto\w+:: (\w+)$", pages, re.MULTILINE))
    modules = set(re.findall(r"(?:automodule|currentmodule):: mutangent\.(\w+)$", pages, re.MULTILINE))
    assert set(mt.__all__) - described - modules - {"__version__"} == set()


def test_the_readme_marks_its_two_commands():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert re.findall(r"^<!-- command: (\w+) -->\n```bash\n.+\n```$", readme, re.MULTILINE) == [
        "job",
        "tests",
    ]
