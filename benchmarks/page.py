"""The page of the docs that shows the stored run."""

from pathlib import Path

from benchmarks.records import Report
from benchmarks.reporting import docs_tables, draw

DOCS = Path(__file__).parents[1] / "docs"
PAGE = DOCS / "explanation" / "speed.md"
PICTURE = DOCS / "images" / "speed.png"
_BEGIN, _END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def write(report: Report, on_gpu: Report) -> None:
    """Write tables and picture of the stored runs into the docs."""
    text = PAGE.read_text(encoding="utf-8")
    PAGE.write_text(with_tables(text, report, on_gpu), encoding="utf-8")
    draw(PICTURE, report)


def with_tables(text: str, report: Report, on_gpu: Report) -> str:
    """Put the tables between the page's two marks; what stands there is replaced."""
    before, rest = text.split(_BEGIN)
    _, after = rest.split(_END)
    return f"{before}{_BEGIN}\n{docs_tables(report, on_gpu)}\n\n{_END}{after}"
