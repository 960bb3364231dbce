"""The same values, written in any format, are the same integers."""

import csv
import tempfile
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import Schema
from dppca.owner.engines.kernel import Work, sum_part, take_fingerprint
from dppca.owner.engines.parts import Part, make_manifest
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import USUAL, TextFormat
from tests.support.examples import examples
from tests.support.studies import categorical_of, numeric_of

SCHEMA = Schema.from_document(
    {
        "attributes": [
            numeric_of("amount", -5000, 5000),
            {"name": "day", "type": "date", "lower": "1900-01-01", "upper": "2100-01-01"},
            categorical_of("level", ["0.5", "1", "1500", "other; one"]),
        ]
    }
)
DATES = {
    "YYYY-MM-DD": "%Y-%m-%d",
    "DD.MM.YYYY": "%d.%m.%Y",
    "MM/DD/YYYY": "%m/%d/%Y",
    "YYYYMMDD": "%Y%m%d",
    "DDMONYYYY": "%d%b%Y",
}

Row = tuple[float | None, date | None, str | None]
rows = st.tuples(
    st.none() | st.integers(-4_000_000, 4_000_000).map(lambda n: n / 1000),
    st.none() | st.dates(date(1900, 1, 1), date(2099, 12, 31)),
    st.none() | st.sampled_from(["0.5", "1", "1500", "other; one"]),
)


@st.composite
def formats(draw: st.DrawFn) -> TextFormat:
    said = {
        "delimiter": draw(st.sampled_from(",;\t|")),
        "decimal": draw(st.sampled_from(".,")),
        "thousands": draw(st.sampled_from(["", ".", ",", "'", " "])),
        "dates": draw(st.sampled_from([*DATES])),
        "missing": draw(st.sampled_from([(), ("-",), ("k.A.", "-")])),
    }
    assume(said["decimal"] != said["thousands"])
    return TextFormat(**said)


def write(path: Path, form: TextFormat, table: Sequence[Row]) -> None:
    """Write rows as a spreadsheet would that is set to a format."""
    gone = form.missing[0] if form.missing else ""

    def number(value: float) -> str:
        marks = {",": form.thousands, ".": form.decimal}
        return "".join(marks.get(character, character) for character in f"{value:,.3f}")

    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=form.delimiter)
        writer.writerow(["amount", "day", "level"])
        for amount, day, level in table:
            named = level is None or level.startswith("other")
            writer.writerow(
                [
                    gone if amount is None else number(amount),
                    gone if day is None else day.strftime(DATES[form.dates]),
                    (gone if level is None else level) if named else number(float(level)),
                ]
            )


@settings(max_examples=examples(150))
@given(form=formats(), table=st.lists(rows, min_size=1, max_size=8))
def test_rows_have_the_same_sums_in_every_format(form: TextFormat, table: list[Row]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        usual, written = Path(folder) / "usual.csv", Path(folder) / "written.tsv"
        write(usual, USUAL, table)
        write(written, form, table)
        place = local_files(written, form)
        found = [
            moments_of_table(open_table(each, SCHEMA), SCHEMA, workers=1).packed
            for each in (local_files(usual), place)
        ]
        assert (found[0] == found[1]).all()
        assert place.place == local_files(written).place, "a format moves no rows"


def test_a_worker_of_a_cluster_reads_a_part_in_the_format_of_the_policy(tmp_path: Path) -> None:
    form = TextFormat(";", ",", ".", "DD.MM.YYYY", ("-",))
    path = tmp_path / "rows.csv"
    write(path, form, [(1234.5, date(2020, 1, 31), "0.5"), (None, None, None)])
    table = open_table(local_files(path, form), SCHEMA)
    (part,) = make_manifest(table, slots=1)
    work = Work(SCHEMA.canonical_bytes().decode(), take_fingerprint())
    answer = sum_part(Part.from_json(part.to_json()), work)
    assert answer.packed == moments_of_table(table, SCHEMA).packed.tobytes()


def test_a_format_is_for_all_texts_of_a_folder_and_for_no_other_file(tmp_path: Path) -> None:
    form = TextFormat(";", ",", dates="DD.MM.YYYY")
    row = (2.5, date(2020, 1, 31), "0.5")
    for name in ("a.csv", "b.tsv"):
        write(tmp_path / name, form, [row])
    cells = {"amount": [row[0]], "day": [row[1]], "level": [row[2]]}
    pa.parquet.write_table(pa.table(cells), tmp_path / "c.parquet")
    table = open_table(local_files(tmp_path, form), SCHEMA)
    (batch,) = table.batches()
    assert [column.tolist() for column in batch] == [[2.5] * 3, [18292] * 3, [0] * 3]


def test_a_format_for_files_that_are_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(
        DataError, match=r"which is for files such as .* and holds none: leave it out"
    ):
        local_files(path, TextFormat(";")).open()
