"""Cells of a text file in the usual form."""

from pathlib import Path

import pyarrow as pa
import pytest

from dppca.common.kernel.errors import SettingError
from dppca.common.kernel.schema import Attribute, Schema
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.texts import INFINITE, NOT_A_NUMBER
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import open_table
from dppca.owner.records.text_cells import usual_cells
from dppca.owner.records.text_format import USUAL, TextFormat
from tests.support.studies import categorical_of, numeric_of

NUMBER, LABEL = Schema.from_document(
    {"attributes": [numeric_of("x", 0, 9), categorical_of("c", ["1", "1,5", "2.5", "1000"])]}
).attributes
COMMA = TextFormat(";", ",", ".", missing=("-",))


def values(form: TextFormat, attribute: Attribute, *cells: bytes) -> list[str]:
    """Values of cells, as text, so that NaN is equal to itself."""
    read = usual_cells(form, pa.array(cells, pa.large_binary()), attribute)
    return [str(value) for value in parse_column(attribute, read).tolist()]


@pytest.mark.parametrize(
    ("cell", "value"),
    [
        (b"27,5", 27.5),
        (b" -1.234,5 ", -1234.5),
        (b"1.500", 1500),
        (b"1,5e3", 1500),
        (b"12.34.567", NOT_A_NUMBER),
        (b"1234.567", NOT_A_NUMBER),
        (b"0.123", NOT_A_NUMBER),
        (b"-01.234", NOT_A_NUMBER),
        (b"1.234e3", NOT_A_NUMBER),
        (b"0,123", 0.123),
        (b"1.5", NOT_A_NUMBER),
        ("\u00a01.5\u2003".encode(), NOT_A_NUMBER),
        (b",", NOT_A_NUMBER),
        (b"1,5\xff", NOT_A_NUMBER),
        (b"inf", INFINITE),
        (b" - ", "nan"),
        (b"NA", "nan"),
        (b"", "nan"),
    ],
)
def test_a_number_with_a_decimal_comma_is_that_number_and_no_other(
    cell: bytes, value: object
) -> None:
    expected = value if isinstance(value, str) else str(float(value))
    assert values(COMMA, NUMBER, cell) == [expected]


def test_a_code_for_missing_is_no_number_of_days_and_no_date_of_the_stated_form() -> None:
    codes = ["-99", "19000101", "99999999", "01.01.1900"]
    bounds = {"lower": "1900-01-01", "upper": "2050-01-01"}
    day = {"name": "d", "type": "date", **bounds, "missing_values": codes}
    document = {"attributes": [day, categorical_of("c", ["1", "2", "3"])]}
    attribute = Schema.from_document(document).attributes[0]
    for form in ("days since 1960-01-01", "YYYYMMDD", "DD.MM.YYYY"):
        cells = [code.encode() for code in codes]
        assert values(TextFormat(dates=form), attribute, *cells) == ["nan"] * 4, form
    assert values(TextFormat(dates="YYYYMMDD"), attribute, b"19700102") == ["1.0"]


def test_blanks_and_apostrophes_of_every_kind_group_digits() -> None:
    cells = ["1 234.5", "1\u00a0234.5", "1\u202f234.5"]
    blank, quote = TextFormat(thousands=" "), TextFormat(thousands="'")
    assert values(blank, NUMBER, *map(str.encode, cells)) == ["1234.5"] * 3
    assert values(quote, NUMBER, b"1'234.5", "1\u2019234.5".encode()) == ["1234.5"] * 2


def test_a_listed_label_is_itself_and_another_cell_may_be_the_number_that_a_label_is() -> None:
    cells = [b"1,0", b"1,5", b"2.5", b"2,5", b"1.000", b"1.0", b"-", b"\xff"]
    assert values(COMMA, LABEL, *cells) == ["0", "1", "2", "2", "3", "-1", "-2", "-1"]
    assert values(USUAL, LABEL, b"1.0", b"1.000") == ["0", "0"]


def test_a_word_for_missing_that_is_a_label_is_refused_with_its_attribute(
    tmp_path: Path,
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("ward\nNA\n")
    schema = Schema.from_document({"attributes": [categorical_of("ward", ["NA", "b", "c"])]})
    with pytest.raises(SettingError, match="are labels, too: NA is a label of ward"):
        open_table(local_files(path, TextFormat(missing=("NA",))), schema)
