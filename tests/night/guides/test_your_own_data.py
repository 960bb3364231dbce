"""``docs/tutorial/your-own-data.md``: three CSV files of one's own, to a report, as printed."""

from __future__ import annotations

import json
import re
from datetime import date
from pathlib import Path

from pyarrow import parquet

from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks

PAGE = ROOT / "docs/tutorial/your-own-data.md"
FALSE_ALARMS = 0.0  # the noise of a page's commands has a seed
MOST_COMMANDS = 10


def test_commands_of_the_page_are_few() -> None:
    commands = re.findall(r"^(?:dppca-|python3|cat >|grep|ls)", PAGE.read_text(), re.MULTILINE)
    assert len(commands) <= MOST_COMMANDS


def test_three_files_become_a_report_with_loadings_marginals_and_accuracy(tmp_path: Path) -> None:
    shell = PageShell(tmp_path, read_blocks(PAGE))
    shell.run("rows")
    shell.run("dictionary")
    assert "is a valid study: pain, 3 owners" in shell.run("study")
    assert "Study pain works at epsilon 1" in shell.run("plan")
    printed = shell.run("run")
    assert "| hospital | 3,200 |" in printed
    report = json.loads((tmp_path / "trial/report.json").read_text())
    assert any(each["attribute"] == "pain" for each in report["components"]["kept"][0]["loadings"])
    utility = report["utility"]
    assert utility["tstr_accuracy_decoded"] > utility["majority"] + 0.05
    looked = shell.run("look")
    assert "nothing: the commonest class" in looked
    for plot in ("loadings.png", "marginals.png"):
        assert plot in looked
        assert (tmp_path / "trial" / plot).read_bytes().startswith(b"\x89PNG")
    rows = parquet.read_table(tmp_path / "trial/synthetic-decoded.parquet").to_pylist()
    assert all(row["age"] == round(row["age"]) for row in rows)
    assert all(date(2024, 1, 1) <= row["visit"] <= date(2024, 12, 31) for row in rows)
    assert {row["pain"] for row in rows} == {"none", "mild", "moderate", "severe"}
    assert "## Over 3 repeats" in shell.run("repeat")
    repeats = json.loads((tmp_path / "trials/report.json").read_text())["repeats"]
    assert repeats["seeds"] == [1, 2, 3]
    assert repeats["figures"]["utility.tstr_accuracy_decoded"]["standard_error"] < 0.1
