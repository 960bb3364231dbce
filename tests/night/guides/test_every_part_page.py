"""The commands of ``docs/tutorial/every-part-on-one-machine.md``, run as they stand there."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks
from tests.support.ports import reserved_port

PAGE = ROOT / "docs/tutorial/every-part-on-one-machine.md"
FALSE_ALARMS = 0.0  # the noise of a page's commands has a seed


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[PageShell]:
    """A shell in an empty folder; a port that is free stands in for the page's."""
    with reserved_port() as port:
        blocks = {name: text.replace("7443", str(port)) for name, text in read_blocks(PAGE).items()}
        yield PageShell(tmp_path, blocks)
    with suppress(FileNotFoundError, ProcessLookupError):
        os.kill(int((tmp_path / "curator.pid").read_text()), signal.SIGKILL)


def percent(pattern: str, text: str) -> float:
    found = re.search(pattern, text)
    assert found is not None, text
    return float(found[1])


def test_one_person_plays_everybody(shell: PageShell) -> None:
    shell.run("rows")
    shell.run("curator")
    shell.run("sites")
    assert "Study survey works at epsilon 1" in shell.run("study")
    assert "Nothing is broken." in shell.run("contribute")
    said = shell.run("components")
    assert "5 components of 7, from 9000 rows" in said
    assert "VERIFIED" in said
    first = said.partition("component 1:")[2].partition("component 2:")[0]
    assert re.search(r"\+\S+ +exercise=much", first)
    assert re.search(r"-\S+ +ill=yes", first)
    assert "joint.parquet: 9000 synthetic rows." in shell.run("synthesize")
    report = (shell.folder / "hospital/studies/survey/report.html").read_text()
    assert "site-only" in report
    said = shell.run("models")
    rows = (shell.folder / "hospital/rows.csv").read_text().splitlines()[1:]
    commonest = 100 * sum(row.endswith("no") for row in rows) / len(rows)
    assert commonest == pytest.approx(53, abs=0.5)
    assert percent(r"right on ([\d.]+)% of the rows it was trained", said) > commonest + 20
    assert percent(r"3000 rows, right on ([\d.]+)% of those", said) > commonest + 20
    spent = shell.run("budget")
    left = re.findall(r"^patients +survey +3 +0 +(\d) +(\d)", spent, re.MULTILINE)
    assert left == [("2", "1"), ("1", "2")]
    shell.run("stop")
