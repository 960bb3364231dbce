"""Two sheets, as Opal and Rmonize have them, are read; what is written is read back the same."""

import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dppca.common.analysis.study_file import study_from_yaml
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.shell.dictionaries.data_schemas import read_workbook, write_workbook
from dppca.common.shell.dictionaries.dictionary import EntryType
from dppca.common.shell.dictionaries.other_forms import NO_DICTIONARY
from dppca.common.shell.dictionaries.recognition import read_dictionary
from dppca.common.shell.sheets import MOST_TEXT_CELLS, read_sheets, write_sheets
from dppca.curator.planning.study_draft import Choices, draft_study
from tests.support.examples import examples
from tests.support.studies import make_schema
from tests.support.workbooks import write_workbook as write_by_hand

VARIABLES: list[list[Any]] = [
    ["table", "name", "valueType", "unit", "repeatable", "index", "label:fr", "label:en", "LOINC"],
    ["visits", "sbp", "decimal", "mmHg", 0, 1, "Tension", "Blood pressure", "8480-6"],
    ["visits", "smoker", "integer", None, 0, 2, "Fumeur", None, None],
    ["visits", "ill", "boolean", None, 0, 3, None, "Ill", None],
    ["visits", "seen", "date", None, 0, 4, None, "Day", "LOINC:1-8"],
    ["visits", "note", "text", None, 0, 5, None, "Note", None],
    ["visits", "drugs", "text", None, 1, 6, None, "Drugs", None],
    ["visits", "place", "point", None, 0, 7, None, "Place", None],
]
CATEGORIES: list[list[Any]] = [
    ["table", "variable", "name", "missing", "label:en"],
    ["visits", "smoker", 0, 0, "No"],
    ["visits", "smoker", 1, 0, "Yes"],
    ["visits", "smoker", 9, 1, "Not asked"],
    ["visits", "sbp", -99, True, "Refused"],
    ["visits", "gone", 1, 0, "One"],
]
CHOICES = Choices("trial", ("a", "b"), "1.0", None, 1)


def written(folder: Path, **sheets: list[list[Any]]) -> bytes:
    return write_by_hand(folder / "book.xlsx", sheets).read_bytes()


def test_the_two_sheets_of_opal_are_a_dictionary(tmp_path: Path) -> None:
    content = written(tmp_path, Variables=VARIABLES, Categories=CATEGORIES)
    found = read_workbook(content)
    sbp, smoker, ill, seen = found.entries
    assert (sbp.kind, sbp.unit, sbp.concept) == (EntryType.NUMBER, "mmHg", "LOINC:8480-6")
    assert (sbp.note, sbp.missing) == ("Blood pressure", (("-99", "Refused"),))
    assert (smoker.labels, smoker.meanings) == (("0", "1"), (("0", "No"), ("1", "Yes")))
    assert (smoker.note, smoker.missing) == ("Fumeur. 0 = No; 1 = Yes", (("9", "Not asked"),))
    assert ill.labels == ("false", "true")
    assert (seen.kind, seen.concept) == (EntryType.DATE, "LOINC:1-8")
    assert [each.name for each in found.omitted] == ["note", "drugs", "place"]
    assert found.notes == ("gone: it has categories, and is no variable",)
    (tmp_path / "codebook.XLSX").write_bytes(content)
    assert read_dictionary(tmp_path / "codebook.XLSX") == found


def test_a_draft_of_them_is_a_study_once_its_bounds_are_written(tmp_path: Path) -> None:
    content = written(tmp_path, Variables=VARIABLES, Categories=CATEGORIES)
    draft = draft_study(read_workbook(content), CHOICES, source="book.xlsx")
    lower, upper = ("0", "2000-01-01"), ("300", "2030-01-01")
    lines, place = [], 0
    for line in draft.splitlines():
        if "lower:" in line or "upper:" in line:
            bound = (lower if "lower" in line else upper)[place // 2]
            lines.append(f"{line.partition('#')[0].rstrip()} {bound}")
            place += 1
        else:
            lines.append(line)
    study = study_from_yaml("\n".join(lines))
    assert [each.concept for each in study.table.attributes] == [
        "LOINC:8480-6",
        None,
        None,
        "LOINC:1-8",
    ]


@pytest.mark.parametrize(
    ("sheets", "said"),
    [
        ({"Sheet1": [["id", "sex"], [1, "m"]]}, NO_DICTIONARY),
        ({"Variables": [["id", "sex"], [1, "m"]]}, NO_DICTIONARY),
        ({"Variables": [["name", "valueType"]]}, NO_DICTIONARY),
        ({"Variables": [VARIABLES[0], ["other", *VARIABLES[1][1:]], VARIABLES[2]]}, "several tab"),
        ({"Variables": [["name", "valueType"], [None, "text"]]}, "has no name"),
    ],
)
def test_what_is_no_dictionary_is_refused_without_a_cell_of_it(
    sheets: dict[str, list[list[Any]]], said: str, tmp_path: Path
) -> None:
    path = write_by_hand(tmp_path / "book.xlsx", sheets)
    with pytest.raises(SettingError) as caught:
        read_dictionary(path)
    assert said in str(caught.value)
    assert "m," not in str(caught.value).replace("them,", "")


def test_a_workbook_that_is_damaged_protected_or_vast_is_refused(tmp_path: Path) -> None:
    for content in (b"PK", b"", b"\xd0\xcf\x11\xe0", write_sheets({"a": [["b"]]})[:-40]):
        with pytest.raises(DataError, match=r"save it as \.xlsx"):
            read_sheets("the workbook", content)
    book = write_by_hand(tmp_path / "book.xlsx", {"Variables": VARIABLES})
    vast = BytesIO()
    with zipfile.ZipFile(book) as old, zipfile.ZipFile(vast, "w") as new:
        for name in old.namelist():
            far = old.read(name).replace(b'r="A2"', b'r="ZZ999999"')
            new.writestr(name, far)
    with pytest.raises(DataError, match=f"more than {MOST_TEXT_CELLS} cells"):
        read_sheets("the workbook", vast.getvalue())


def test_a_schema_that_is_written_is_read_back() -> None:
    attributes: list[dict[str, Any]] = [
        {
            "name": "bmi",
            "type": "numeric",
            "lower": 10,
            "upper": 60,
            "unit": "kg/m²",
            "description": "=1+1 & <b>",
            "concept": "LOINC:39156-5",
            "missing_values": [-9],
        },
        {"name": "visit", "type": "date", "lower": "2020-01-01", "upper": "2024-12-31"},
        {"name": "age", "type": "numeric", "lower": 0, "upper": 110, "integer": True},
        {"name": "sex", "type": "binary", "values": ["female", "male"]},
        {"name": "pain", "type": "ordinal", "levels": ["no", "some", "much"]},
        {"name": "area", "type": "categorical", "categories": ["n", "s"], "unknown": "not said"},
    ]
    schema = make_schema(attributes, missing_values={"97": "refused"})
    content = write_workbook(schema)
    assert content == write_workbook(schema)
    found = {each.name: each for each in read_workbook(content).entries}
    assert [*found] == [each["name"] for each in attributes]
    assert [each.kind for each in found.values()] == [
        *(EntryType.NUMBER, EntryType.DATE, EntryType.INTEGER),
        *(EntryType.LABEL, EntryType.LABEL, EntryType.LABEL),
    ]
    bmi = found["bmi"]
    assert (bmi.note, bmi.unit, bmi.concept) == ("=1+1 & <b>", "kg/m²", "LOINC:39156-5")
    assert bmi.missing == (("-9", "-9"),)
    assert found["sex"].labels == ("female", "male")
    assert found["area"].labels == ("n", "s")
    assert found["area"].missing == (("not said", "not said"), ("97", "refused"))


TEXTS = st.text(st.characters(exclude_categories=("Cc", "Cs", "Cn")), max_size=9).map(str.strip)


@settings(max_examples=examples(40))
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=9),
        st.lists(st.lists(TEXTS | st.integers(0, 10**9), min_size=1, max_size=3), max_size=4),
        min_size=1,
        max_size=3,
    )
)
def test_any_sheets_are_read_as_they_were_written(sheets: dict[str, Any]) -> None:
    found = read_sheets("the workbook", write_sheets(sheets))
    assert [*found] == [*sheets]
    for name, rows in sheets.items():
        plain = [[text for each in row if (text := str(each))] for row in rows]
        told = [[text for text in row if text] for row in found[name]]
        assert [row for row in told if row] == [row for row in plain if row]
