"""`map` proposes, asks, and writes a file that only its owner can read."""

import gzip
from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.shell.dictionaries.recognition import read_dictionary
from dppca.common.shell.sheets import read_sheets
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


@pytest.mark.parametrize(
    ("begins", "told"),
    [
        (gzip.compress(b"Sex;Age\nm;1\n" * 400, mtime=0), "packed by gzip: name it .csv.gz"),
        (b"PK\x03\x04\n\nSex,Age\nm,1\n", "name it .xlsx, or unpack it"),
        (b"PAR1\x15\x04\nSex,Age\nm,1\n", "is Parquet: name it .parquet"),
        (b"$FL2@(#)\nSex,Age\nm,1\n", "is a file of SPSS: name it .sav"),
    ],
)
def test_no_line_of_another_kind_of_file_is_taken_for_a_header(
    folder: Path, begins: bytes, told: str
) -> None:
    (folder / "odd.csv").write_bytes(begins)
    failed = map_file(folder, "odd.csv", "--yes", expected=DataError.exit_code)
    assert told in failed["message"]
    assert not (folder / "mappings").exists()


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


def test_words_of_a_column_that_is_like_a_label_too_are_no_labels_of_a_number(folder: Path) -> None:
    study = STUDY.replace("name: sex", "name: ages")
    (folder / "study.yaml").write_text(study)
    (folder / "ages.csv").write_text("ages,age\nmale,27\nfemale,31\n")
    assert not map_file(folder, "ages.csv", "--yes")["undecided"]


def codebook(folder: Path) -> Path:
    """Write a dictionary of two sheets for a file whose names and codes say nothing."""
    (folder / "coded.csv").write_text("V1,V2\n1,27.5\n2,999\n")
    variables = [
        ["name", "valueType", "label", "concept"],
        ["V1", "integer", "Sex of the person", "SNOMED: 263495000"],
        ["V2", "decimal", "Age of the person", None],
    ]
    categories = [
        ["variable", "name", "missing", "label"],
        *(["V1", 1, 0, "männlich"], ["V1", 2, 0, "weiblich"], ["V2", 999, 1, "not said"]),
    ]
    study = STUDY.replace("sex, type", "sex, concept: 'snomed:263495000', type").replace(
        "age, type", "age, description: Age of the person in years, type"
    )
    (folder / "study.yaml").write_text(study)
    return write_workbook(
        folder / "codebook.xlsx", {"Variables": variables, "Categories": categories}
    )


def test_a_dictionary_says_what_codes_mean_and_which_are_missing(folder: Path) -> None:
    book = codebook(folder)
    assert map_file(folder, "coded.csv", "--yes")["undecided"] == ["sex", "age"]
    options = ("--yes", "--again", "--dictionary", str(book))
    found = map_file(folder, "coded.csv", *options)
    sex, age = found["lines"]
    assert (sex["sureness"], sex["why"]) == ("sure", "the same concept")
    assert sex["labels"] == {"1": "male", "2": "female"}
    assert (sex["asked"], sex["held"][:17]) == ("snomed:263495000", "Sex of the person")
    assert (age["sureness"], age["why"]) == ("doubtful", "by description")
    assert found["undecided"] == ["age"]
    found = map_file(folder, "coded.csv", *options, "--accept", "age")
    assert not found["undecided"]
    assert found["coded_by_rule"]["attributes"]["age"]["outcomes"] == {"code": 1}
    assert found["coded_by_rule"]["attributes"]["sex"]["found"] == {}
    code, text, _ = run_here(
        cli,
        *("--site", folder, "map", folder / "study.yaml", folder / "coded.csv", "--again"),
        *("--dictionary", book, "--yes"),
    )
    assert code == 0
    assert "age: “Age of the person in years”" in text
    assert "V2: “Age of the person”" in text


def test_an_export_has_the_two_sheets_and_the_rules_and_waits_for_every_decision(
    folder: Path,
) -> None:
    book, export = codebook(folder), folder / "export.xlsx"
    options = ("--yes", "--dictionary", str(book), "--export", str(export))
    failed = map_file(folder, "coded.csv", *options, expected=SettingError.exit_code)
    assert "--export is for a mapping without DECIDE: age" in failed["message"]
    assert not export.exists()
    assert not (folder / "mappings").exists()
    map_file(folder, "coded.csv", *options, "--accept", "age")
    assert export.stat().st_mode & 0o777 == 0o600
    sheets = read_sheets("the export", export.read_bytes())
    assert [*sheets] == ["Variables", "Categories", "Harmonisation"]
    assert sheets["Harmonisation"] == [
        ["variable", "rule"],
        ["sex", "column V1: 1 is male, 2 is female; else unknown"],
        ["age", "column V2, as it is (missing: 999)"],
    ]
    assert [each.name for each in read_dictionary(export).entries] == ["sex", "age"]
