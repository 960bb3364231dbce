"""A benchmark at tiny size, and checks of its figures."""

import json
import math
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from benchmarks.performance import page
from benchmarks.performance.__main__ import cli


def run_quickly(name: str, folder: Path) -> dict[str, Any]:
    """Run it; return its figures for every table, and its machine."""
    file = folder / "figures.json"
    done = CliRunner().invoke(cli, [name, "--quick", "--repeat", "1", "--json", str(file)])
    assert done.exception is None, done.output
    found = json.loads(file.read_text())
    assert set(found) == {name}
    assert found[name]["machine"]["cores"]
    assert found[name]["tables"]
    for table in found[name]["tables"]:
        assert table["rows"]
        assert all(len(row) == len(table["columns"]) for row in table["rows"])
        cells = [cell for row in table["rows"] for cell in row]
        figures = [cell for cell in cells if isinstance(cell, int | float)]
        assert figures
        assert all(math.isfinite(figure) and figure >= 0 for figure in figures)
        assert page.table_text(**table) in done.output
    measured: dict[str, Any] = found[name]
    return measured
