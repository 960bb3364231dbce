"""What is proposed of how files are written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from dppca.common.kernel.schema import Schema
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.recognition import propose_formats
from dppca.owner.records.table import open_table
from dppca.owner.records.text_format import USUAL, TextFormat
from tests.support.studies import binary_of, numeric_of

SCHEMA = Schema.from_document(
    {
        "attributes": [
            numeric_of("age", 0, 99),
            {"name": "born", "type": "date", "lower": "1970-01-01", "upper": "2030-01-01"},
            binary_of("sex", ["1", "2"]),
        ]
    }
)


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("age,born,sex\n27.5,1990-01-31,1\n", []),
        ("age,born,sex\n27.5,1990-01-31,female\n", []),
        ("age,born,sex\n27.5,whenever,1\n", []),
        ("age\tborn\tsex\n27.5\t1990-01-31\t1\n", ["{delimiter: tab}"]),
        ("age|born|sex|more\n27.5|1990-01-31|1|0\n", ['{delimiter: "|"}']),
        ('"age";"born";"sex"\n27,5;1990-01-31;1,0\n', ['{delimiter: ";", decimal: ","}']),
        (
            "age;born;sex\n1.027,5;31.01.1990;1\n-;01.02.1990;2\n",
            ['{delimiter: ";", decimal: ",", thousands: ".", dates: DD.MM.YYYY, missing: ["-"]}'],
        ),
        (
            "age,born,sex\n27,01/02/1990,1\n",
            ["{dates: DD/MM/YYYY}", "{dates: MM/DD/YYYY}"],
        ),
        ("age,born,sex\n27,01/02/1990,1\n28,01/31/1990,1\n", ["{dates: MM/DD/YYYY}"]),
        ("age,born,sex\n27,12853036800,1\n", ["{dates: seconds since 1582-10-14}"]),
        ('age,born,sex\n"27,5",1990-01-31,"1,0"\n', ['{decimal: ","}']),
        ('age,born,sex\n"1,234",1990-01-31,1\n', ['{thousands: ","}', '{decimal: ","}']),
        ("age\tborn\tsex\n27,5\t1990-01-31\t1,0\n", ['{delimiter: tab, decimal: ","}']),
        ("age|born|sex\n27,5|1990-01-31|1\n", ['{delimiter: "|", decimal: ","}']),
        ("age|born|sex\n1'027|1990-01-31|1\n", ['{delimiter: "|", thousands: apostrophe}']),
        ("age\tborn\tsex\n1.234\t1990-01-31\t1\n", [
            "{delimiter: tab}", '{delimiter: tab, decimal: ",", thousands: "."}'
        ]),
        ("age;born;sex\n1,234;1990-01-31;1\n", [
            '{delimiter: ";", thousands: ","}', '{delimiter: ";", decimal: ","}'
        ]),
    ],
)  # fmt: skip
def test_forms_are_proposed_that_read_the_most_cells(
    tmp_path: Path, text: str, proposed: list[str]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    found = propose_formats(local_files(path), SCHEMA)
    assert [each.to_yaml() for each in found] == proposed
    for each in found:
        assert propose_formats(local_files(path, each), SCHEMA) == (), "it reads all that can be"


def test_an_encoding_of_excel_is_proposed_if_lines_are_not_utf_8(tmp_path: Path) -> None:
    schema = Schema.from_document(
        {"attributes": [binary_of("sex", ["männlich", "weiblich"]), numeric_of("age", 0, 99)]}
    )
    path = tmp_path / "rows.csv"
    path.write_bytes("sex,age\r\nmännlich,1\r\nweiblich,2\r\n".encode("windows-1252"))
    assert [each.to_yaml() for each in propose_formats(local_files(path), schema)] == [
        '{encoding: "windows-1252"}'
    ]
    path.write_text("sex,age\nmännlich,1\nweiblich,2\n", encoding="utf-8")
    assert propose_formats(local_files(path), schema) == ()


def test_what_the_policy_says_already_stays_in_the_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age;born;sex\n27,5;31.01.1990;1\n")
    (found,) = propose_formats(local_files(path, TextFormat(";", missing=("?",))), SCHEMA)
    assert found == TextFormat(";", ",", dates="DD.MM.YYYY", missing=("?",))


@pytest.mark.parametrize("mark", ["\t", "|", ";"])
def test_a_stated_decimal_comma_stays_where_commas_separate(tmp_path: Path, mark: str) -> None:
    path = tmp_path / "rows.csv"
    path.write_text('age,born,sex\n"27,5",1990-01-31,1\n')
    (found,) = propose_formats(local_files(path, TextFormat(mark, ",", missing=("?",))), SCHEMA)
    assert found == TextFormat(",", ",", missing=("?",))


def test_rows_without_text_have_no_format(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pa.parquet.write_table(pa.table({"age": ["27,5"], "born": ["1"], "sex": ["1"]}), path)
    assert propose_formats(local_files(path), SCHEMA) == ()


def test_one_hot_columns_keep_the_format_of_their_files(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("age;born;s1;s2\n27,5;1990-01-31;1,0;0,0\n")
    place = local_files(path).mapped(MappingPlace(one_hot={"sex": {"s1": "1", "s2": "2"}}))
    assert place.text_format == USUAL
    written = place.written(TextFormat(";", ","))
    (batch,) = open_table(written, SCHEMA).batches()
    assert [column.tolist() for column in batch] == [[27.5], [7335], [0]]


@pytest.mark.parametrize(
    ("text", "proposed"),
    [
        ("Report\n\nAge;Born;Sex\n27,5;1990-01-31;1\n", '{delimiter: ";", header: 3}'),
        ("Report of 2024\nage,born,sex\n27.5,1990-01-31,1\n", "{header: 2}"),
        ("Alter;Geboren;Geschlecht\n27;31.01.1990;1\n", '{delimiter: ";"}'),
    ],
)
def test_titles_and_names_of_a_site_hide_no_header(
    tmp_path: Path, text: str, proposed: str
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(text)
    assert [each.to_yaml() for each in propose_formats(local_files(path), SCHEMA)] == [proposed]
