"""Three sites with three codings: from their files as they are to the first answer."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet

from dppca.common.analysis.study_file import study_from_yaml
from dppca.deploy.simulation.holdings import FileReading, hold_rows, write_table
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import TextFormat
from tests.support.checkout import ROOT
from tests.support.messy_visits import DICTIONARY, Visit, write_visits
from tests.support.page_shell import PageShell, read_blocks

PAGE = ROOT / "docs/tutorial/your-own-data.md"
FALSE_ALARMS = 0.0  # the noise of a page's commands has a seed
MOST_COMMANDS = 12
FORMATS = {
    "hospital": TextFormat(delimiter=";", decimal=",", dates="DD.MM.YYYY", encoding="windows-1252"),
    "clinic": TextFormat(header=3),
    "agency": TextFormat(),
}
FILES = {"hospital": "hospital.csv", "clinic": "clinic.xlsx", "agency": "agency.sav"}


@pytest.fixture
def shell(tmp_path: Path) -> PageShell:
    (tmp_path / "dictionary.csv").write_text(DICTIONARY, encoding="utf-8")
    return PageShell(tmp_path, read_blocks(PAGE))


def by_hand(rows: list[Visit], path: Path) -> Path:
    """The rows as a person would have converted them."""
    names = [name for name in rows[0] if name != "patient_id"]
    parquet.write_table(pa.table({name: [row[name] for row in rows] for name in names}), path)
    return path


def test_three_files_as_they_are_come_to_an_answer_in_a_dozen_commands(shell: PageShell) -> None:
    folder = shell.folder
    rows = write_visits(folder, seed=64, n_rows=900)
    assert len(re.findall(r"^dppca-", shell.blocks["codings"], re.MULTILINE)) <= MOST_COMMANDS
    said = shell.run("codings")
    assert "mean of age" in said
    assert "nobody vouches" not in said

    study = study_from_yaml(folder / "visits.yaml")
    readings = {
        name: FileReading(form, MappingPlace(folder / "mappings" / f"{name}.yaml"))
        for name, form in FORMATS.items()
    }
    paths = {name: folder / file for name, file in FILES.items()}
    held = hold_rows(paths, [*paths], schema=study.table, seed=1, hold_out=False, readings=readings)
    for name, table in held.owners.items():
        kept = write_table(table, folder, stem=f"kept-{name}", like=held.like)
        hand = open_table(by_hand(rows[name], folder / f"{name}-hand.parquet"), study.table)
        wanted = moments_of_table(hand, study.table).packed
        found = moments_of_table(open_table(kept, study.table), study.table).packed
        assert (found == wanted).all(), name

    report: dict[str, Any] = json.loads((folder / "first/report.json").read_text())
    assert report["rows"] == {"training": 2700, "held_out": 0}
    assert all(command.startswith("dppca-owner estimate first/") for command in report["answers"])
    assert len(report["answers"]) == 3
