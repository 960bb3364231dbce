"""Laws of dividing rows, and reading them as they stand."""

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Schema
from dppca.deploy.simulation.holdings import FileReading, divide, hold_rows, read_cells, write_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.table import moments_of_table, open_table
from dppca.owner.records.text_format import TextFormat
from tests.support.studies import binary_of, make_schema, numeric_of

ROWS = st.lists(st.sampled_from("abcdefg"), min_size=40, max_size=120)
SEEDS = st.integers(0, 2**32)


def _schema(number: str, label: str) -> Schema:
    return make_schema([numeric_of(number, 0, 10), binary_of(label, ["x", "y"])])


@given(values=ROWS, owners=st.integers(1, 10), seed=SEEDS)
def test_every_row_goes_to_one_owner_or_is_held_out(
    values: list[str], owners: int, seed: int
) -> None:
    division = divide(pa.table({"x": values}), owners=owners, seed=seed)
    everywhere = np.sort(np.concatenate([division.training, division.held_out]))
    np.testing.assert_array_equal(everywhere, np.arange(len(values)))
    assert len(division.held_out) == round(0.2 * len(values))
    sizes = [len(part) for part in division.owners]
    assert max(sizes) - min(sizes) <= 1


@given(
    ks=st.lists(st.integers(1, 9), min_size=40, max_size=80),
    owners=st.integers(1, 5),
    split=st.sampled_from(["iid", "by:person"]),
    seed=SEEDS,
)
def test_no_persons_rows_are_divided_where_a_column_tells_people_apart(
    ks: list[int], owners: int, split: str, seed: int
) -> None:
    people = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(ks)), ks))
    table = pa.table({"person": [f" {each}.0" if each % 2 else f"{each}" for each in people]})
    division = divide(table, owners=owners, seed=seed, split=split, key="person")
    parts = [*division.owners, division.held_out]
    assert sorted(np.concatenate(parts)) == [*range(len(people))]
    found = [set(people[part]) for part in parts]
    assert sum(map(len, found)) == len(ks)
    assert len(found[-1]) == round(0.2 * len(ks))
    sizes = [len(each) for each in found[:-1]]
    assert split != "iid" or max(sizes) - min(sizes) <= 1


def test_people_at_several_owners_are_told(tmp_path: Path) -> None:
    data, schema = tmp_path / "rows.csv", _schema("a", "b")
    people = [f"{row % 3},x,{row // 2},{row % 2}" for row in range(40)]
    data.write_text("\n".join(["a,b,person,region", *people]))
    for split, told in (("by:region", "rows of 20 people at several owners"), ("iid", "")):
        held = hold_rows(
            data,
            ["p", "q"],
            schema=schema,
            seed=1,
            split=split,
            hold_out=False,
            keys={"": "person"},
        )
        assert [told in alarm for alarm in held.alarms if "people" in alarm] == [True] * bool(told)
        assert {*held.owners["p"].column_names} == {"a", "b", "person"}
        assert held.held_out.column_names == ["a", "b"]


@pytest.mark.parametrize(
    ("key", "error", "said"),
    [
        ("", SettingError, "unit: person: name the column"),
        ("nobody", DataError, "no column nobody"),
        ("person", DataError, "no person in 1 row: "),
    ],
)
def test_people_whom_a_site_could_not_tell_apart_are_refused(
    tmp_path: Path, key: str, error: type[Exception], said: str
) -> None:
    data = tmp_path / "rows.csv"
    data.write_text("a,b,person\n" + "1,x,7\n" * 9 + "1,x,\n")
    schema = Schema.from_document({**_schema("a", "b").model_dump(), "unit": "person"})
    for given_data in (data, {"p": data}):
        with pytest.raises(error, match=said):
            hold_rows(given_data, ["p"], schema=schema, seed=0, keys={"": key} if key else {})


@given(values=ROWS, seed=SEEDS)
def test_a_split_by_a_column_keeps_each_value_at_one_owner(values: list[str], seed: int) -> None:
    # Two labels that every draw holds many times, so that two owners can always be served.
    table = pa.table({"x": values + ["y", "z"] * 30})
    division = divide(table, owners=2, seed=seed, split="by:x")
    cells = np.array(table["x"].to_pylist())
    first, second = (set(cells[part]) for part in division.owners)
    assert not first & second
    assert len(division.training) + len(division.held_out) == table.num_rows
    assert all(len(part) for part in division.owners)


@pytest.mark.parametrize(
    ("owners", "split", "error", "said"),
    [
        (9, "iid", SettingError, "10 rows cannot be divided among 9 owners"),
        (0, "iid", SettingError, "among 0 owners"),
        (3, "by:x", SettingError, "2 values cannot be divided among 3 owners"),
        (2, "by:colour", DataError, "no column colour"),
        (2, "random", SettingError, '"iid" or "by:COLUMN", not "random"'),
    ],
)
def test_a_division_that_cannot_be_says_why(
    owners: int, split: str, error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        divide(pa.table({"x": ["a", "b"] * 5}), owners=owners, seed=0, split=split)


def test_fields_of_a_csv_reach_an_owner_as_they_stand(tmp_path: Path) -> None:
    source = tmp_path / "rows.csv"
    source.write_text('b,a,c\n"x, y",1.50,\nNaN,,1\né,"0""7",2\n')
    rows, alarms = read_cells(source, _schema("a", "b"))
    copy = write_table(rows, tmp_path, stem="copy", like=source)
    assert copy.suffix == ".csv"
    cells = {"a": [b"1.50", b"", b'0"7'], "b": [b"x, y", b"NaN", "é".encode()]}
    assert read_cells(copy, _schema("a", "b"))[0].to_pydict() == rows.to_pydict() == cells
    assert [alarm.partition(";")[0] for alarm in alarms] == [
        "NOT READ: 1 of 3 (33.33%) values of a are not a number",
        "NOT READ: no value of b is one of its labels",
    ]


def test_compressed_csv_and_parquet_are_read_alike(tmp_path: Path) -> None:
    packed, columns, schema = tmp_path / "rows.csv.gz", tmp_path / "rows.parquet", _schema("a", "b")
    packed.write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
    labels = pa.array(["x", "y"]).dictionary_encode()
    parquet.write_table(pa.table({"a": [1, 2], "b": labels}), columns)
    for path in (packed, columns):
        copy = write_table(read_cells(path, schema)[0], tmp_path, stem="copy", like=path)
        assert copy.suffix == path.suffixes[0]
        (batch,) = open_table(copy, schema).batches()
        assert [column.tolist() for column in batch] == [[1, 2], [0, 1]]


def test_rows_of_a_simulation_are_kept_in_the_usual_form(tmp_path: Path) -> None:
    path, schema = tmp_path / "rows.tsv", _schema("a", "b")
    path.write_text("a;b\n" + "2,5;x\n-;y\n2.5;x\n" * 10)
    form = TextFormat(";", ",", missing=("-",))
    held = hold_rows(path, ["one"], schema=schema, seed=1, hold_out=False, text_format=form)
    copy = write_table(held.owners["one"], tmp_path, stem="copy", like=held.like)
    (batch,) = open_table(copy, schema).batches()
    numbers = sorted(str(value) for value in batch[0].tolist())
    assert numbers == ["-inf"] * 10 + ["2.5"] * 10 + ["nan"] * 10


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("rows.csv", b"", "is empty: export it again, with a header line"),
        (
            "rows.csv",
            b"a;b\n1;2\n",
            "is separated by semicolons, and it is read as separated by commas",
        ),
        ("rows.parquet", b"PAR1 not parquet", "is damaged or not what its name says"),
        ("rows.sav", b"$FL2" + bytes(200), "is damaged or not what its name says"),
        ("rows.csv", None, "does not exist: correct its path"),
    ],
)
def test_a_simulation_says_of_a_file_what_its_owner_would_be_told(
    tmp_path: Path, name: str, content: bytes | None, said: str
) -> None:
    path, schema = tmp_path / name, _schema("a", "b")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=said) as here:
        hold_rows(path, ["one"], schema=schema, seed=1)
    with pytest.raises(DataError) as there:
        open_table(path, schema)
    assert str(here.value) == str(there.value)


def test_each_owner_keeps_four_fifths_of_its_own_file(tmp_path: Path) -> None:
    files = {}
    for name, n_rows in (("clinic", 10), ("hospital", 50)):
        files[name] = tmp_path / f"{name}.csv"
        lines = [f"{name}-{row},{row}" for row in range(n_rows)]
        files[name].write_text("\n".join(["id,age", *lines, ""]))
    schema = _schema("age", "id")
    held = hold_rows(files, list(files), schema=schema, seed=3)
    assert {name: table.num_rows for name, table in held.owners.items()} == {
        "clinic": 8,
        "hospital": 40,
    }
    everywhere = [*held.owners.values(), held.held_out]
    assert all(table.column_names == ["age", "id"] for table in everywhere)
    ids = [value for table in everywhere for value in table["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == 60
    for name, table in held.owners.items():
        assert all(value.decode().startswith(name) for value in table["id"].to_pylist())
    assert held.like == files["clinic"]
    all_rows = hold_rows(files, list(files), schema=schema, seed=3, hold_out=False)
    assert (all_rows.owners["hospital"].num_rows, all_rows.held_out.num_rows) == (50, 0)


def test_a_test_table_leaves_all_rows_with_the_owners_and_alarms_like_one_of_theirs(
    tmp_path: Path,
) -> None:
    rows, test = tmp_path / "rows.csv", tmp_path / "test.parquet"
    rows.write_text("id,age\n" + "".join(f"a{row},{row}\n" for row in range(10)))
    parquet.write_table(pa.table({"id": ["t"] * 3, "age": ["old"] * 3, "other": [1] * 3}), test)
    held = hold_rows(rows, ["one", "two"], schema=_schema("age", "id"), seed=3, test=test)
    assert [table.num_rows for table in held.owners.values()] == [5, 5]
    assert held.held_out.to_pydict() == {"age": ["old"] * 3, "id": ["t"] * 3}
    assert held.like == rows
    assert [line.partition(";")[0] for line in held.alarms] == [
        "NOT READ: no value of id is one of its labels",
        "test table: NOT READ: no value of age is a number",
        "test table: NOT READ: no value of id is one of its labels",
    ]


def test_columns_of_types_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.parquet" for name in ("a", "b")}
    parquet.write_table(pa.table({"x": list(range(10)), "y": ["x"] * 10}), files["a"])
    parquet.write_table(pa.table({"x": ["r"] * 10, "y": ["x"] * 10}), files["b"])
    with pytest.raises(DataError, match="do not fit together"):
        hold_rows(files, ["a", "b"], schema=_schema("x", "y"), seed=1)


def test_dates_of_another_form_and_other_bytes_are_told_first_of_their_owner(
    tmp_path: Path,
) -> None:
    schema = make_schema(
        [
            {"name": "day", "type": "date", "lower": "2023-01-01", "upper": "2023-12-31"},
            binary_of("town", ["Köln", "Ulm"]),
        ]
    )
    lines = {"a": "2023-02-17,Ulm", "b": "17/02/2023,Ulm", "c": "2023-02-17,Köln", "d": ",Ulm"}
    files = {name: tmp_path / f"{name}.csv" for name in lines}
    for name, line in lines.items():
        files[name].write_text(f"day,town\n{line}\n" + f"{line}\n" * 9, encoding="latin-1")
    held = hold_rows(files, list(files), schema=schema, seed=1)
    assert [line.partition(";")[0].partition(", and")[0] for line in held.alarms] == [
        "b: NOT READ: no value of day is a date as YYYY-MM-DD",
        "c: NOT UTF-8: 10 of 10 (100.00%) rows hold bytes that are not UTF-8",
        "c: NOT READ: no value of town is one of its labels",
    ]


KINDS = make_schema(
    [
        {"name": "day", "type": "date", "lower": "2023-01-01", "upper": "2023-12-31"},
        binary_of("town", ["?", "Ulm"]),
        {"name": "level", "type": "ordinal", "levels": ["low", "mid", "high"]},
        {**numeric_of("x", 0, 10), "missing": "indicator"},
    ]
)
CELLS = "day;town;level;x\n2023-02-17;Ulm;mid;1,5\nlater;Bern;odd;much\n;;;\n2024-01-01;?;high;99\n"


def test_a_mapped_file_keeps_the_sums_of_every_cell_whatever_is_wrong_with_it(
    tmp_path: Path,
) -> None:
    path, mapping = tmp_path / "rows.csv", tmp_path / "mapping.yaml"
    path.write_text(CELLS + "2023-03-01;Ulm;low;2\n" * 8)
    mapping.write_text("version: 1\nattributes:\n  x: {column: x, times: 2}\n")
    form = TextFormat(delimiter=";", decimal=",")
    readings = {"one": FileReading(form, MappingPlace(mapping))}
    held = hold_rows(
        {"one": path}, ["one"], schema=KINDS, seed=1, hold_out=False, readings=readings
    )
    copy = write_table(held.owners["one"], tmp_path, stem="copy", like=held.like)
    place = local_files(path, form).mapped(MappingPlace(mapping))
    wanted = moments_of_table(open_table(place, KINDS), KINDS)
    assert copy.suffix == ".parquet"
    assert (moments_of_table(open_table(copy, KINDS), KINDS).packed == wanted.packed).all()
    assert "??" in held.owners["one"]["town"].to_pylist(), "a word that is no label"


def test_files_of_several_kinds_are_held_together(tmp_path: Path) -> None:
    text, table = tmp_path / "a.csv", tmp_path / "b.parquet"
    text.write_text("x;y\n" + "1,5;x\n" * 10)
    parquet.write_table(pa.table({"x": [1.5] * 10, "y": ["y"] * 10}), table)
    form = TextFormat(delimiter=";", decimal=",")
    held = hold_rows(
        {"a": text, "b": table},
        ["a", "b"],
        schema=_schema("x", "y"),
        seed=1,
        readings={"a": FileReading(form)},
    )
    assert {name: each.num_rows for name, each in held.owners.items()} == {"a": 8, "b": 8}
    assert held.held_out["x"].to_pylist() == [1.5] * 4
