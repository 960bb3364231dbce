"""How many rows one person has, by a key in any type and spelling."""

import sqlite3
from collections import Counter
from contextlib import closing
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pyreadstat
import pytest
from deltalake import write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import feather

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema.texts import is_missing
from dppca.owner.records import keys
from dppca.owner.records.check import check_table
from dppca.owner.records.databases import SQLiteLocation
from dppca.owner.records.file_locations import local_files, locate_files
from dppca.owner.records.keys import count_rows_of_keys, key_texts
from dppca.owner.records.lakes import DeltaLocation
from dppca.owner.records.locations import Location
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import open_table
from dppca.owner.records.text_format import TextFormat
from tests.support.examples import examples
from tests.support.latent_rows import make_rows
from tests.support.sites import N_ROWS, OwnerSite, error_of, make_site, make_trained_site
from tests.support.studies import binary_of, make_schema, numeric_of


def _sqlite(folder: Path, rows: pa.Table) -> Location:
    with closing(sqlite3.connect(folder / "rows.db")) as file, file:
        file.execute(f"CREATE TABLE rows ({', '.join(rows.column_names)})")
        for row in rows.to_pylist():
            file.execute("INSERT INTO rows VALUES (?, ?, ?)", tuple(row.values()))
    return SQLiteLocation("rows", database=folder / "rows.db", table="rows")


def _csv(folder: Path, rows: pa.Table) -> Location:
    pa.csv.write_csv(rows, folder / "rows.csv")
    return local_files(folder / "rows.csv")


def _arrow(folder: Path, rows: pa.Table) -> Location:
    feather.write_feather(rows, folder / "rows.arrow", compression="uncompressed")
    return local_files(folder / "rows.arrow")


def _parquet(folder: Path, rows: pa.Table) -> Location:
    listed = rows.set_column(0, "person", rows["person"].dictionary_encode())
    pq.write_table(listed, folder / "rows.parquet")
    return local_files(folder / "rows.parquet")


def _delta(folder: Path, rows: pa.Table) -> Location:
    write_deltalake(folder / "lake", rows)
    return DeltaLocation("lake", str(folder / "lake"))


def _stata(folder: Path, rows: pa.Table) -> Location:
    pyreadstat.write_dta(rows.to_pandas(), folder / "rows.dta")
    return local_files(folder / "rows.dta")


def attributes(n_rows: int) -> dict[str, list[int]]:
    return {"age": [1] * n_rows, "more": [0] * n_rows}


SOURCES = {
    "arrow": _arrow,
    "csv": _csv,
    "delta": _delta,
    "parquet": _parquet,
    "sqlite": _sqlite,
    "stata": _stata,
}
SCHEMA = make_schema([numeric_of("age", 0, 100), numeric_of("more", 0, 1)], max_rows_per_person=2)


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (pa.array([1, 2, 2, None]), (2, 1)),
        (pa.array([1.0, 2.0, 2.0, float("nan")]), (2, 1)),
        (pa.array(["7", "7.0 ", " 7", "7.5", "", "NA", "NaN", "."]), (3, 4)),
        (pa.array([b"\xff", b"\xff ", b"\xfe"]), (2, 0)),
        (pa.array([b"\xff\xc2\xa0", b"\xff"]), (2, 0)),
        (pa.array([Decimal("1.00"), Decimal("1.00"), None]), (2, 1)),
        (pa.array(["7", "+7", "7.", "\u00a07\u2003", "\t7\x1f", "07", "007.0", "7,0"]), (5, 0)),
        (pa.array(["1e3", "1000", "1E3", "1000.0"]), (2, 0)),
        (pa.array(["1.1", "1.10", "A", "a"]), (1, 0)),
        (pa.array([0.0, -0.0]), (2, 0)),
        (pa.array(["0", "-0", "-0.0"]), (3, 0)),
        (pa.array(["-nan", "nan(12)", "NULL", "\\N", "nano", "none"]), (1, 4)),
        (pa.array([b"0123456789abcdef"] * 2, pa.binary(16)), (2, 0)),
        (pa.array([1 << 60] * 2, pa.timestamp("ns", "Nowhere/Else")), (2, 0)),
        (pa.array([True, True, False]), (2, 0)),
        (pa.array(["a", "b", "a", None]).dictionary_encode(), (2, 1)),
        (pa.array(["a", "a"], pa.string_view()), (2, 0)),
        (pa.nulls(3), (0, 3)),
        (pa.array([[1], [1]]), (2, 0)),
    ],
)
def test_keys_of_every_type_are_counted_as_labels_are_read(cells: Any, expected: Any) -> None:
    assert count_rows_of_keys([cells])[:2] == expected


@pytest.mark.parametrize(
    ("keys", "alike", "together"),
    [
        (["7", "007", "8"], 2, 2),
        (["H-00012", "h-12", "H-00012", "H-120"], 2, 3),
        (["1e3", "1000", "1E3", "1000.0", "1e4"], 3, 4),
        (["1.5", "1.50", "01.5", "1.05", "1.005"], 3, 3),
        (["Jose\u0301", "Jos\u00e9", "JOS\u00c9", "Jose"], 3, 3),
        (["stra\u00dfe", "STRASSE", "\uff17", "7"], 4, 2),
        (["0", "00", "a0b", "ab", "10", "100"], 2, 2),
        (["NA", "na", "", "nan"], 0, 0),
        ([], 0, 0),
    ],
)
def test_keys_that_differ_in_how_they_are_written_are_counted_beside(
    keys: list[str], alike: int, together: int
) -> None:
    found = count_rows_of_keys([pa.array(keys, pa.string())])
    assert (found.alike, found.together) == (alike, together)


@given(st.lists(st.binary(max_size=6) | st.from_regex(rb"[-+0.e1A]{0,8}", fullmatch=True)))
@settings(max_examples=examples(100))
def test_no_bytes_of_a_key_can_raise_and_alike_is_what_is_together(keys: list[bytes]) -> None:
    cells = pa.array(keys, pa.large_binary()).view(pa.large_string())
    found = count_rows_of_keys([cells])
    assert found.alike != 1
    assert (found.alike > 0) == (found.together > 0)
    assert found.together <= len(keys)
    assert found.together == 0 or found.together >= 2


def key_of(value: object) -> str:
    """The key of one cell, as the module's text says it; empty without one."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() else str(value)
    if isinstance(value, Decimal):
        return key_of(format(value.normalize(), "f"))
    text = str(value).strip(" \t\n\v\f\r\x1c\x1d\x1e\x1f\0").strip()
    if is_missing(text):
        return ""
    whole, _, zeros = text.removeprefix("+").partition(".")
    digits = whole.removeprefix("-")
    if digits.isascii() and digits.isdigit() and not zeros.strip("0"):
        return "0" if whole == "-0" else whole
    return text


WRITTEN = st.sampled_from(
    [
        *("7", "7.0", "07", "+7", "-7.00", "-0", "1e3", "1000", "1000.", "7.50", "7.5", " 7"),
        *("7\u00a0", "\u2003A", "a", "é", "NA", "NaN", "-nan", "none", ".", "", "nan()", "7.0x"),
        *("+", "-", "\x1c7", "\0", "\x007", "a\0"),
    ]
)
CELLS = {
    "text": (st.none() | WRITTEN | st.text(max_size=6), pa.large_string()),
    "whole": (st.none() | st.integers(-(2**63), 2**63 - 1), pa.int64()),
    "real": (st.none() | st.floats() | st.integers(-9, 9).map(float), pa.float64()),
    "decimal": (
        st.none() | st.decimals(-(10**6), 10**6, places=3, allow_nan=False),
        pa.decimal128(12, 3),
    ),
}


@pytest.mark.parametrize("kind", sorted(CELLS))
@settings(max_examples=examples(60))
@given(data=st.data())
def test_the_key_of_a_cell_depends_on_that_cell_alone(kind: str, data: st.DataObject) -> None:
    cells, arrow = CELLS[kind]
    found = data.draw(st.lists(cells, max_size=12))
    texts = [key.decode() for key in key_texts(pa.array(found, arrow)).to_pylist()]
    assert ["" if is_missing(text) else text for text in texts] == [key_of(cell) for cell in found]
    assert [key_texts(pa.array([c], arrow))[0].as_py().decode() for c in found] == texts


VECTORS = {
    "whole numbers": (["7", "7.0", " 7 ", "8"], 3),
    "texts like numbers": (["1e3", "1000", "1000.0", "01", "1"], 2),
    "blanks": (["7\u00a0", "7", "\u20037", "7x"], 3),
    "missing": (["NA", "NULL", ".", "nan", "7"], 1),
    "codes": (["1.1", "1.10", "A", "a"], 1),
}
"""Cells, and the most rows of one person, in every source that has texts."""


@pytest.mark.parametrize("name", sorted(VECTORS))
@pytest.mark.parametrize("source", sorted(SOURCES))
def test_the_same_cells_are_the_same_people_in_every_source(
    source: str, name: str, tmp_path: Path
) -> None:
    cells, most = VECTORS[name]
    place = SOURCES[source](tmp_path, pa.table({"person": cells, **attributes(len(cells))}))
    table = open_table(place, SCHEMA)
    assert table.count_keys("person", allowed=2).most == most
    with table.latest("person") as latest:
        counted = check_table(latest, SCHEMA).key
    assert counted is not None
    assert (counted.most, counted.allowed) == (most, 2)


def test_a_number_is_one_person_in_any_type_and_any_part(tmp_path: Path) -> None:
    """No type is guessed: another row changes nobody's key."""
    folder = tmp_path / "rows"
    folder.mkdir()
    columns = [
        pa.array([7]),
        pa.array([7.0]),
        pa.array(["7"]),
        pa.array([Decimal("7.00")]),
        pa.array([7, 7.5, None], pa.float32()),
        pa.array(["7.0", "x"]).dictionary_encode(),
    ]
    for number, column in enumerate(columns):
        rows = pa.table({"person": column, **attributes(len(column))})
        pq.write_table(rows, folder / f"{number}.parquet")
    found = open_table(local_files(folder), SCHEMA).count_keys("person", allowed=2)
    assert (found.most, found.missing) == (6, 1)


_DAY = datetime(2020, 1, 1)  # noqa: DTZ001 - a column's type says which zone it has


@pytest.mark.parametrize(
    "columns",
    [
        [pa.array([_DAY], pa.timestamp(unit)) for unit in ("us", "ms")],
        [pa.array([_DAY], pa.timestamp("us")), pa.array([_DAY.date()])],
        [pa.array([5], pa.time32("ms")), pa.array([5000], pa.time64("us"))],
        [pa.array([True]), pa.array(["True"])],
        [pa.array([True]).dictionary_encode(), pa.array([1])],
        [pa.array([bytes(16)], pa.binary(16)), pa.array([str(UUID(int=0))])],
    ],
)
def test_parts_whose_types_make_two_keys_of_one_person_are_refused(
    tmp_path: Path, columns: list[Any]
) -> None:
    folder = tmp_path / "rows"
    folder.mkdir()
    for number, column in enumerate([pa.nulls(1), *columns]):
        rows = pa.table({"person": column, **attributes(1)})
        pq.write_table(rows, folder / f"{number}.parquet")
    table = open_table(local_files(folder), SCHEMA)
    with pytest.raises(DataError, match="one person could have two keys"):
        table.count_keys("person", allowed=2)


@pytest.mark.parametrize("is_attribute", [False, True])
def test_keys_with_decimal_commas_are_the_numbers_that_they_are(
    tmp_path: Path, is_attribute: bool
) -> None:
    (tmp_path / "rows.csv").write_text("person;age;more\n7;1;0\n7,0;1;0\n7.0;2;0\n1.007;3;0\n")
    form = TextFormat(";", ",", ".")
    more = [numeric_of("person", 0, 9)] if is_attribute else []
    schema = make_schema([numeric_of("age", 0, 9), *more, numeric_of("more", 0, 1)])
    table = open_table(local_files(tmp_path / "rows.csv", form), schema)
    assert table.count_keys("person", allowed=2).most == 3
    with table.latest("person") as latest:
        keys = [k for batch in latest.cells(9) for k in key_texts(batch.keys).to_pylist()]
    assert keys == [b"7", b"7", b"7", b"1007"]


@settings(max_examples=examples(40))
@given(st.lists(st.integers(0, 6), max_size=40), st.integers(1, 7), st.integers(1, 9))
def test_batches_and_types_change_no_count(found: list[int], size: int, least: int) -> None:
    """By an oracle that counts in a dictionary; each second batch is of texts."""
    batches: list[Any] = []
    for start in range(0, len(found), size):
        batch = pa.array(found[start : start + size], pa.int64())
        batches.append(batch.cast(pa.string()) if len(batches) % 2 else batch)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(keys, "_LEAST", least)
        assert count_rows_of_keys(batches).most == max(Counter(found).values(), default=0)


def test_files_of_a_folder_are_counted_together_and_each_needs_the_column(tmp_path: Path) -> None:
    rows = tmp_path / "rows"
    rows.mkdir()
    pq.write_table(pa.table({"age": [1, 2], "more": [0, 0], "person": [7, 8]}), rows / "1.parquet")
    pq.write_table(
        pa.table({"age": [3, 4], "more": [0, 0], "person": ["7", "7"]}), rows / "2.parquet"
    )
    place = locate_files("rows", folder=tmp_path, data_set="survey")
    found = open_table(place, SCHEMA).count_keys("person", allowed=2)
    assert (found.most, found.missing, found.is_kept) == (3, 0, False)
    pq.write_table(pa.table({"age": [5], "more": [0]}), rows / "3.parquet")
    with pytest.raises(DataError, match="has no column person"):
        open_table(place, SCHEMA).count_keys("person", allowed=2)


@pytest.mark.parametrize(
    ("header", "says"),
    [
        ("Person", r"rows.csv has no column person \(capital letters count; the file has Person\)"),
        ("whose", r"rows.csv has no column person: correct its header"),
        ("person,person", "rows.csv has more than one column called person: correct its header"),
    ],
)
def test_a_key_that_is_not_there_once_is_told_by_the_names_that_are(
    header: str, says: str, tmp_path: Path
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text(f"age,more,{header}\n1,0,{','.join('7' for _ in header.split(','))}\n")
    with pytest.raises(DataError, match=says), open_table(path, SCHEMA).latest("person"):
        pass


def test_one_hot_columns_beside_a_key_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("p,a,b\n1,1,0\n1,0,1\n2,1,0\n")
    files = locate_files("rows.csv", folder=tmp_path, data_set="survey")
    place = files.mapped(MappingPlace(one_hot={"sex": {"a": "f", "b": "m"}}))
    schema = make_schema(
        [binary_of("sex", ["f", "m"]), numeric_of("p", 0, 9)], max_rows_per_person=1
    )
    assert open_table(place, schema).count_keys("p", allowed=1).most == 2


@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("n_each", [1, 3])
def test_check_counts_the_rows_of_each_person_of_a_file(
    tmp_path: Path, form: str, n_each: int
) -> None:
    site = make_site(tmp_path / "site")
    rows = pa.table({"age": np.arange(12), "person": np.arange(12) // n_each})
    path = tmp_path / f"rows.{form}"
    if form == "csv":
        pa.csv.write_csv(rows, path)
    else:
        pq.write_table(rows, path)
    study = _study_file(tmp_path)
    code, found = site.run(
        "check", "--data", str(path), "--key", "person", "--study-file", str(study)
    )
    assert found["coded_by_rule"]["key"] == {
        "column": "person",
        "allowed": 1,
        "most": n_each,
        "missing": 0,
        "alike": 0,
        "together": 0,
        "people": None,
        "is_kept": n_each == 1,
    }
    assert code == (0 if n_each == 1 else 14)
    policy = (site.folder / "policy.yaml").read_text()
    policy = policy.replace("path: rows.csv", f"path: {path}, key: nobody")
    (site.folder / "policy.yaml").write_text(policy)
    code, message = error_of(site.run("check", "--study-file", str(study)))
    assert (code, "has no column nobody" in message) == (13, True)
    assert error_of(_with_a_key(site, study))[0] == 10


def _with_a_key(site: OwnerSite, study: Path) -> tuple[int, Any]:
    return site.run("check", "--key", "person", "--study-file", str(study))


def _study_file(folder: Path) -> Path:
    path = folder / "study.yaml"
    path.write_text(
        'name: s\nowners: [a, b]\nprivacy: {mechanism: laplace, epsilon: "1.0"}\n'
        "components: {count: 1}\nschema:\n  max_rows_per_person: 1\n  attributes:\n"
        "    - {name: age, type: numeric, lower: 0, upper: 100}\n"
        "    - {name: person, type: numeric, lower: 0, upper: 100}\n"
    )
    return path


def test_a_model_that_may_leave_is_not_made_of_more_rows_of_a_person(tmp_path: Path) -> None:
    rows = make_rows(N_ROWS)
    people = pa.array([1, *range(1, N_ROWS)])
    site, study = make_trained_site(tmp_path, rows=rows.append_column("person", people))
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path:", "key: person, path:"))
    asked = ("train", study.name, "--target", "ill", "--method", "dp-svm", "--epsilon", "1")
    code, message = error_of(site.run(*asked, "--yes"))
    assert (code, "up to 2 rows have one person" in message) == (19, True)
    assert not site.history.reservations
    policy.write_text(policy.read_text().replace("key: person, ", ""))
    assert site.run(*asked, "--yes")[0] == 0


def test_a_file_that_another_command_wrote_meanwhile_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = make_site(tmp_path / "site")
    rows, output = tmp_path / "rows.csv", tmp_path / "keys.csv"
    rows.write_text("age,person\n1,7\n")

    def late(*arguments: Any, **options: Any) -> Any:
        output.write_text("of another command")
        return check_table(*arguments, **options)

    monkeypatch.setattr("dppca.owner.records.check.check_table", late)
    line = ("check", "--data", str(rows), "--key", "person", "--keys", str(output))
    code, message = error_of(site.run(*line, "--study-file", str(_study_file(tmp_path))))
    assert (code, "another command has written it meanwhile" in message) == (10, True)
    assert output.read_text() == "of another command"
