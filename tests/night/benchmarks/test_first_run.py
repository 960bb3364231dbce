"""Every part of the first run at tiny size, where nothing is installed: that it gives figures."""

import math
import sys
from pathlib import Path

import pytest

from benchmarks.environments import ROOT
from benchmarks.first_run.__main__ import measure
from benchmarks.first_run.measuring import Taken
from benchmarks.first_run.page import ROWS
from benchmarks.first_run.sides import Installation, Side
from benchmarks.first_run.subjects import SUBJECTS, Sizes

INSTALLING = {"first-demo", "set-up", "demo"}
TINY = Sizes(rows=200, wide_rows=300, wide_columns=6, starts=1, label_rounds=1)


@pytest.mark.parametrize("name", sorted(SUBJECTS.keys() - INSTALLING))
def test_a_part_gives_figures(name: str, tmp_path: Path, data_folder: Path) -> None:
    side = Side("HEAD", tmp_path)
    here = Installation(ROOT, Path(sys.prefix) / "bin", Taken(0, 0, 0))
    side.keep("install", here)
    rows = measure({"ours": side}, [name], 1, TINY)
    assert set(rows) == {row for row, each in ROWS.items() if each.subject == name}
    for row in rows.values():
        assert row["ours"]["error"] == ""
        figures = [*row["ours"]["values"], *row["ours"]["peaks"]]
        assert figures
        assert all(math.isfinite(figure) and figure > 0 for figure in figures)
