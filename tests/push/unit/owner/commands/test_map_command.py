"""`map` proposes, asks, and writes a file that only its owner can read."""

from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import SettingError
from dppca.owner.cli import cli
from tests.support.commands import answer_of, run_here
from tests.support.workbooks import write_workbook

STUDY = """
version: 1
name: visits
owners: [a, b]
privacy: {mechanism: laplace, epsilon: "1"}
components: {count: 2}
schema:
  max_rows_per_person: 1
  attributes:
    - {name: sex, type: binary, values: [male, female], missing: male}
    - {name: age, type: numeric, lower: 0, upper: 110, missing: indicator}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "study.yaml").write_text(STUDY)
    text = "Sex;Age\r\nmännlich;27,5\r\nweiblich;999\r\n"
    (tmp_path / "old.csv").write_bytes(text.encode("cp1252"))
    sheet: list[list[Any]] = [["Report"], [], ["Sex", "Age"], ["m", 27.5], ["w", 999]]
    write_workbook(tmp_path / "new.xlsx", {"Export": sheet})
    return tmp_path


def map_file(folder: Path, data: str, *options: str, expected: int = 0) -> Any:
    arguments = ("--site", folder, "map", folder / "study.yaml", folder / data, *options)
    code, document = answer_of("dppca-owner", cli, *arguments)
    assert code == expected, document
    return document if expected == 0 else document["error"]


def test_a_file_of_excel_is_mapped_without_a_line_of_code(folder: Path) -> None:
    found = map_file(folder, "old.csv", "--yes", "--missing", "999")
    assert found["format"] == '{delimiter: ";", decimal: ",", encoding: "windows-1252"}'
    assert not found["undecided"]
    assert found["coded_by_rule"]["rows"] == 2
    assert found["coded_by_rule"]["attributes"]["age"]["outcomes"] == {"code": 1}
    path = folder / found["mapping"]
    assert path == folder / "mappings" / "old.yaml"
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert "site-only" in path.read_text().splitlines()[0]


def test_doubtful_labels_wait_and_a_file_that_is_there_needs_again(folder: Path) -> None:
    found = map_file(folder, "new.xlsx", "--yes")
    assert found["format"] == "{header: 3}"
    assert found["undecided"] == ["sex"]
    assert found["coded_by_rule"] is None
    failed = map_file(folder, "new.xlsx", "--yes", expected=SettingError.exit_code)
    assert "is there: --again keeps its rules" in failed["message"]
    found = map_file(folder, "new.xlsx", "--yes", "--again", "--accept", "sex")
    assert not found["undecided"]
    assert found["coded_by_rule"]["attributes"]["sex"]["found"] == {}


def test_a_key_is_counted_and_stands_among_the_lines_for_the_policy(folder: Path) -> None:
    text = "Sex;Age;Number\nmännlich;27,5;7\nweiblich;999;7\n"
    (folder / "keyed.csv").write_bytes(text.encode("cp1252"))
    failed = map_file(folder, "keyed.csv", "--yes", "--key", "number", expected=10)
    assert "--key number is no column of" in failed["message"]
    assert not (folder / "mappings").exists()
    found = map_file(folder, "keyed.csv", "--yes", "--key", "Number")
    assert (found["coded_by_rule"]["key"]["column"], found["coded_by_rule"]["key"]["most"]) == (
        "Number",
        2,
    )
    arguments = ("map", folder / "study.yaml", folder / "keyed.csv", "--key", "Number", "--again")
    _, said, _ = run_here(cli, "--site", folder, *arguments, "--yes")
    assert '      key: "Number"\n      mapping: mappings/keyed.yaml\n' in said


def test_nothing_is_written_without_a_yes(folder: Path) -> None:
    failed = map_file(folder, "old.csv", expected=SettingError.exit_code)
    assert "--json asks no question: add --yes" in failed["message"]
    arguments = ("--site", folder, "map", folder / "study.yaml", folder / "old.csv")
    code, _, said = run_here(cli, *arguments)
    assert code != 0
    assert "männlich is male" in said
    assert not (folder / "mappings").exists()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--name", "Old File"), "cannot name a mapping"),
        (("--accept", "sx"), "the study has no attribute sx"),
    ],
)
def test_what_cannot_be_meant_is_said(folder: Path, options: tuple[str, ...], said: str) -> None:
    assert (
        said
        in map_file(folder, "old.csv", "--yes", *options, expected=SettingError.exit_code)[
            "message"
        ]
    )


@pytest.mark.parametrize("content", ["attributes: [", "- sex", "attributes: 7", "\xff"])
def test_a_file_that_is_no_mapping_is_not_replaced(folder: Path, content: str) -> None:
    path = folder / "mappings" / "old.yaml"
    path.parent.mkdir()
    path.write_text(content, encoding="latin-1")
    failed = map_file(folder, "old.csv", "--yes", "--again", expected=SettingError.exit_code)
    assert "correct it, or remove it" in failed["message"]
    assert path.read_text(encoding="latin-1") == content
