"""Sheets of workbooks: each cell by itself, one header row, nothing guessed."""

import datetime as dt
import sys
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import MISSING, UNKNOWN, Schema
from dppca.common.kernel.schema.texts import NOT_A_NUMBER
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.sources import Wanted
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import TextFormat
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of
from tests.support.workbooks import Error, Percent, write_workbook

DAYS = {"name": "day", "type": "date", "lower": "2020-01-01", "upper": "2020-12-31"}
SCHEMA = make_schema(
    [
        numeric_of("x", 0, 100),
        binary_of("ill", [0, 1]),
        categorical_of("town", ["Ulm", "Bern", "Aarau"]),
        DAYS,
    ]
)
NOON = dt.datetime(2020, 1, 31, 12, 30)  # noqa: DTZ001 - a sheet has no zones
HEADER = ["town", "x", "ill", "day"]


def columns(path: Path, form: TextFormat | None = None, schema: Schema = SCHEMA) -> list[list[Any]]:
    table = open_table(local_files(path, form or TextFormat()), schema)
    found = zip(*table.batches(2), strict=True)
    return [np.concatenate(parts).tolist() for parts in found]


def day(text: str) -> float:
    return float(dt.date.fromisoformat(text).toordinal() - dt.date(1970, 1, 1).toordinal())


def test_each_cell_is_read_by_its_own_type(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        HEADER,
        [" Ulm ", 27.5, 1, dt.date(2020, 1, 31)],
        ["Bern", "27.5", "1", "2020-01-31"],
        ["Rome", Percent(0.05), True, NOON],
        [None, Error("#DIV/0!"), Error("#N/A"), None],
        [7, True, 2, 5.5],
    ]
    x, ill, town, days = columns(write_workbook(tmp_path / "rows.xlsx", {"A": rows}))
    assert x[:3] == [27.5, 27.5, 0.05]
    assert np.isnan(x[3])
    assert x[4] == NOT_A_NUMBER
    assert ill == [1, 1, UNKNOWN, MISSING, UNKNOWN]
    assert town == [0, 1, UNKNOWN, MISSING, UNKNOWN]
    assert days[:3] == [day("2020-01-31")] * 3
    assert np.isnan(days[3])
    assert days[4] == NOT_A_NUMBER


def test_texts_are_read_by_the_format_and_numbers_as_they_are(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        HEADER,
        ["Ulm", "27,5", 0, "31.01.2020"],
        ["Ulm", 27.5, "-", dt.date(2020, 1, 31)],
    ]
    path = write_workbook(tmp_path / "rows.xlsx", {"A": rows})
    form = TextFormat(decimal=",", dates="DD.MM.YYYY", missing=("-",))
    x, ill, _, days = columns(path, form)
    assert x == [27.5, 27.5]
    assert ill == [0, MISSING]
    assert days == [day("2020-01-31")] * 2


def test_days_may_be_counts_as_the_format_says(tmp_path: Path) -> None:
    rows: list[list[Any]] = [HEADER, ["Ulm", 1.5, 0, 43861], ["Ulm", "1,5", 0, "43861"]]
    path = write_workbook(tmp_path / "rows.xlsx", {"A": rows})
    x, _, _, days = columns(path, TextFormat(decimal=",", dates="days since 1899-12-30"))
    assert x == [1.5, 1.5]
    assert days == [day("2020-01-31")] * 2


def test_a_key_is_the_text_of_its_cell(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["id"],
        [7],
        ["7"],
        [7.5],
        ["A-1"],
        [dt.date(2020, 1, 31)],
        [123456789012345678],
    ]
    source = local_files(write_workbook(tmp_path / "rows.xlsx", {"A": rows})).open()
    batches = [cells for (cells,) in source.read(Wanted(["id"], 2))]
    texts = [cell.decode() for cell in pa.concat_arrays(batches).to_pylist()]
    assert texts[:5] == ["7", "7", "7.5", "A-1", "2020-01-31"]
    assert float(texts[5]) == float(123456789012345678)


def test_the_header_is_the_stated_row_and_blank_rows_count(tmp_path: Path) -> None:
    rows: list[list[Any]] = [["Report"], [], HEADER, ["Ulm", 1, 0, None], [], ["Bern", 2, 1, None]]
    path = write_workbook(tmp_path / "rows.xlsx", {"A": rows})
    _, _, town, _ = columns(path, TextFormat(header=3))
    assert town == [0, MISSING, 1]
    with pytest.raises(DataError, match=r"row 1 of sheet A .* `header: 3` in `format`"):
        columns(path)
    with pytest.raises(DataError, match="row 2 of sheet A"):
        columns(path, TextFormat(header=2))


def test_a_sheet_is_named_where_several_have_values(tmp_path: Path) -> None:
    rows: list[list[Any]] = [HEADER, ["Ulm", 1, 0, None]]
    sheets: dict[str, list[list[Any]]] = {"Data": rows, "Codes": [["a", "b"]], "Blank": []}
    path = write_workbook(tmp_path / "rows.xlsx", sheets)
    with pytest.raises(DataError, match=r"several sheets \(Data, Codes\): name one as `sheet`"):
        columns(path)
    assert columns(path, TextFormat(sheet="Data"))[2] == [0]
    with pytest.raises(DataError, match="has no sheet data; its sheets: Data, Codes, Blank"):
        columns(path, TextFormat(sheet="data"))
    write_workbook(path, sheets, hidden=["Codes"])
    assert columns(path)[2] == [0]
    write_workbook(path, {"Blank": []})
    with pytest.raises(DataError, match="no sheet with values"):
        columns(path)


def test_a_stray_cell_far_away_is_refused_before_memory_is_set_aside(tmp_path: Path) -> None:
    path = write_workbook(tmp_path / "rows.xlsx", {"A": [HEADER, ["Ulm", 1, 0, None]]})
    with zipfile.ZipFile(path) as archive:
        parts = {each: archive.read(each) for each in archive.namelist()}
    sheet = "xl/worksheets/sheet1.xml"
    far = b'<row r="1048576"><c r="XFD1048576"><v>1</v></c></row></sheetData>'
    parts[sheet] = parts[sheet].replace(b"</sheetData>", far)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    with pytest.raises(DataError, match="reaches to row 1048576 and column 16384"):
        columns(path)


@pytest.mark.parametrize("cut", [0, 2, 500, -30])
def test_damage_is_an_error_in_our_words(tmp_path: Path, cut: int) -> None:
    path = write_workbook(tmp_path / "rows.xlsx", {"A": [HEADER, ["secret", 1, 0, None]]})
    path.write_bytes(path.read_bytes()[:cut])
    with pytest.raises(DataError, match="is damaged or not what its name says") as raised:
        columns(path)
    assert "secret" not in str(raised.value)


def test_a_protected_workbook_is_named(tmp_path: Path) -> None:
    path = tmp_path / "rows.xlsx"
    path.write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    with pytest.raises(DataError, match="protected by a password, or of Excel before 2007"):
        columns(path)


def test_a_machine_without_the_reader_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "python_calamine", None)
    path = write_workbook(tmp_path / "rows.xlsx", {"A": [HEADER]})
    with pytest.raises(SettingError, match="pip install python-calamine"):
        columns(path)


def test_a_workbook_gives_the_sums_of_the_same_table_as_text(tmp_path: Path) -> None:
    rows: list[list[Any]] = [
        ["Ulm", 27.1 + k / 7, k % 2, dt.date(2020, 1, 1 + k)] for k in range(20)
    ]
    book = write_workbook(tmp_path / "rows.xlsx", {"A": [HEADER, *rows]})
    text = tmp_path / "rows.csv"
    text.write_text("\n".join(",".join(map(str, row)) for row in [HEADER, *rows]) + "\n")
    one, other = (moments_of_table(open_table(each, SCHEMA), SCHEMA) for each in (book, text))
    assert (one.packed == other.packed).all()


@pytest.mark.parametrize(
    ("name", "form", "said"),
    [
        ("rows.csv", TextFormat(sheet="A"), "has a sheet in its format"),
        ("rows.xlsx", TextFormat(encoding="windows-1252"), "has an encoding in its format"),
        ("rows.xlsx", TextFormat(delimiter=";"), "has a delimiter in its format"),
        ("rows.parquet", TextFormat(decimal=","), "has a format, which is for"),
    ],
)
def test_a_format_says_nothing_that_no_file_has(
    tmp_path: Path, name: str, form: TextFormat, said: str
) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(DataError, match=said):
        local_files(tmp_path / name, form).open()
