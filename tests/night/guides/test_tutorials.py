"""Tutorials run as they are printed: every part on one machine, and files of one's own."""

import json
import os
import re
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from copy import copy
from datetime import date
from pathlib import Path

import pytest
from pyarrow import parquet

from tests.support.checkout import ROOT
from tests.support.page_shell import PageShell, read_blocks
from tests.support.ports import reserved_port
from tests.support.requirements import miss

EVERY_PART = ROOT / "docs/tutorial/every-part-on-one-machine.md"
FALSE_ALARMS = 0.0  # the noise of a page's commands has a seed


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[PageShell]:
    """A shell in an empty folder; a port that is free stands in for the page's."""
    with reserved_port() as port:
        blocks = {
            name: text.replace("7443", str(port)) for name, text in read_blocks(EVERY_PART).items()
        }
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
    assert "components 1 and 2 cannot be told apart" in said
    interval = re.search(r"exercise=much to other rows +\S+ +\S+ +(\S+) +(\S+)", said)
    assert interval is not None, said
    assert 0 < float(interval[1]) < float(interval[2]) < 1
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
    look_from_r(shell)
    shell.run("stop")


FROM_R = ROOT / "docs/how-to/use-from-r.md"


def look_from_r(federation: PageShell) -> None:
    """What the page on R prints of the tutorial's study."""
    if shutil.which("Rscript") is None:
        miss("R", "apt-get install r-base-core r-cran-jsonlite")
    (port,) = set(re.findall(r"127.0.0.1:(\d+)", federation.blocks["curator"]))
    shell = copy(federation)
    shell.blocks = {name: text.replace("7443", port) for name, text in read_blocks(FROM_R).items()}
    library = shell.folder / "library"
    library.mkdir()
    shell.variables["R_LIBS"] = str(library)
    (shell.folder / "clients").symlink_to(ROOT / "clients")
    shell.run("install")
    said = shell.run("estimates")
    assert "pressure ~ age + smoker + exercise" in said
    assert "Share of the variance that is noise" in said
    assert (shell.folder / "forest.svg").read_text().count("<path") > 5
    assert "eigenvalue 1" in said
    said = shell.run("rows")
    assert "\n[1] 9000\n" in said
    assert "exercisenone exercisesome" in said
    less_of_it = [float(number) for number in said.split()[-2:]]
    assert min(less_of_it) > 0  # who exercises less is ill more often


YOUR_OWN_DATA = ROOT / "docs/tutorial/your-own-data.md"
MOST_COMMANDS = 10


def test_commands_of_the_page_are_few() -> None:
    blocks = read_blocks(YOUR_OWN_DATA)
    del blocks["codings"]  # its test counts them
    page = "\n".join(blocks.values())
    commands = re.findall(r"^(?:dppca-|python3|cat >|grep|ls)", page, re.MULTILINE)
    assert 0 < len(commands) <= MOST_COMMANDS


def test_three_files_become_a_report_with_loadings_marginals_and_accuracy(tmp_path: Path) -> None:
    shell = PageShell(tmp_path, read_blocks(YOUR_OWN_DATA))
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
    for plot in ("loadings.svg", "marginals.svg"):
        assert plot in looked
        assert (tmp_path / "trial" / plot).read_bytes().startswith(b"<svg ")
    rows = parquet.read_table(tmp_path / "trial/synthetic-decoded.parquet").to_pylist()
    assert all(row["age"] == round(row["age"]) for row in rows)
    assert all(date(2024, 1, 1) <= row["visit"] <= date(2024, 12, 31) for row in rows)
    assert {row["pain"] for row in rows} == {"none", "mild", "moderate", "severe"}
    assert "## Over 3 repeats" in shell.run("repeat")
    repeats = json.loads((tmp_path / "trials/report.json").read_text())["repeats"]
    assert repeats["seeds"] == [1, 2, 3]
    assert repeats["figures"]["utility.tstr_accuracy_decoded"]["standard_error"] < 0.1
