"""The commands of the pages on drafts and plans of studies, which need no curator."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks

DRAFT, PLAN = (ROOT / "docs/how-to" / name for name in ("draft-a-study.md", "plan-a-study.md"))


def test_the_dictionary_of_the_page_makes_a_whole_study(tmp_path: Path) -> None:
    page = DRAFT.read_text()
    (dictionary,) = re.findall(r"^```csv\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    (tmp_path / "dictionary.csv").write_text(dictionary)
    printed = PageShell(tmp_path, read_blocks(DRAFT)).run("draft")
    assert "attributes: 6" in printed
    assert "study.yaml is a valid study: heart, 2 owners, 6 attributes" in printed


def test_the_template_is_planned_as_the_page_says(tmp_path: Path) -> None:
    printed = PageShell(tmp_path, read_blocks(PLAN)).run("plan")
    totals = re.findall(r"3 owners, ([\d,]+) rows together", printed)
    assert totals == ["21000", "14900", "21000", "21000"]
    assert (tmp_path / "plan.png").read_bytes().startswith(b"\x89PNG")
