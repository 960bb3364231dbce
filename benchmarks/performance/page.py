"""Results as JSON, and the page that is made from it.

`docs/reference/performance.json` holds one section per benchmark, each with the machine and the
load it was measured under; `docs/reference/performance.md` is that file in words and a test
compares the two.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.experiment import markdown_table
from benchmarks.performance.registry import BENCHMARKS, Cell

FOLDER = Path(__file__).resolve().parents[2] / "docs/reference"
JSON_FILE = FOLDER / "performance.json"
PAGE = FOLDER / "performance.md"

_HEAD = """# Performance

Made by `make bench` (or `python -m benchmarks.performance NAME --write`) from
[performance.json](performance.json). Every figure is the median of repeated rounds that alternate
between the contestants, so that other work on the machine slows all of them; read the ratios
before the rates. A ratio above 1 means that DPPCA is the faster. *By processor time* is the same
ratio of the time that all threads of the process spent on a core: on a busy machine it says what
was worked, where the clock also says who else was waiting, but it does not see that work was done
on two cores at once. The load is the number of processes running or waiting in the minute before
and after the run, the run itself included in the second.
"""


def keep(sections: dict[str, Any]) -> None:
    """Put sections into the committed file, in place of older ones, and make the page again."""
    known = json.loads(JSON_FILE.read_text()) if JSON_FILE.exists() else {}
    known.update(sections)
    ordered = {name: known[name] for name in BENCHMARKS if name in known}
    JSON_FILE.write_text(json.dumps(ordered, indent=1, ensure_ascii=False) + "\n")
    PAGE.write_text(page(ordered))


def page(sections: dict[str, Any]) -> str:
    """The whole page."""
    return "\n".join([_HEAD, *(_section_text(each) for each in sections.values())])


def table_text(caption: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]]) -> str:
    """A table in Markdown."""
    places = range(len(columns))
    words = [place for place in places if any(isinstance(row[place], str) for row in rows)]
    table = markdown_table(columns, [[_cell(cell) for cell in row] for row in rows], words=words)
    return f"{caption}\n\n{table}"


def _section_text(found: dict[str, Any]) -> str:
    facts = ", ".join(
        value if name in {"processor", "system", "BLAS"} else f"{name} {value}"
        for name, value in found["machine"].items()
    )
    before, after = found["load"]
    made = (
        f"`{found['command']}`: {found['rounds']} rounds; load {before} before, {after} after; "
        f"{facts}."
    )
    tables = [table_text(**table) for table in found["tables"]]
    return "\n".join([f"## {found['title']}\n\n{found['about']}\n", *tables, f"{made}\n"])


def _cell(value: Cell) -> str:
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) else value
