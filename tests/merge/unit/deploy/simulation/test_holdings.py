"""Laws of dividing rows, and reading them as they stand."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from dppca.common.errors import DataError, SettingError
from dppca.deploy.simulation.holdings import (
    count_groups,
    divide,
    hold_rows,
    read_table,
    write_table,
)

ROWS = st.lists(st.sampled_from("abcdefg"), min_size=40, max_size=120)
SEEDS = st.integers(0, 2**32)


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


def test_the_same_seed_divides_alike_and_another_does_not() -> None:
    table = pa.table({"x": list(range(100))})
    one, again, other = (divide(table, owners=3, seed=seed) for seed in (1, 1, 2))
    np.testing.assert_array_equal(one.training, again.training)
    assert not np.array_equal(one.training, other.training)


def test_a_split_by_a_column_with_gaps_takes_them_for_one_value() -> None:
    table = pa.table({"x": ["a", None] * 20})
    division = divide(table, owners=2, seed=0, split="by:x")
    cells = table["x"].is_null().to_numpy()
    assert {bool(cells[part].all()) for part in division.owners} == {True, False}


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
    source.write_text('a,b\n1.50,"x, y"\n,NaN\n007,é\n')
    copy = write_table(read_table(source), tmp_path, stem="copy", like=source)
    assert copy.suffix == ".csv"
    assert read_table(copy).to_pydict() == {"a": ["1.50", "", "007"], "b": ["x, y", "NaN", "é"]}


def test_compressed_csv_and_parquet_are_read_alike(tmp_path: Path) -> None:
    packed, columns = tmp_path / "rows.csv.gz", tmp_path / "rows.parquet"
    packed.write_bytes(gzip.compress(b"a,b\n1,x\n2,y\n"))
    parquet.write_table(pa.table({"a": ["1", "2"], "b": ["x", "y"]}), columns)
    assert read_table(packed).to_pydict() == read_table(columns).to_pydict()
    assert write_table(read_table(columns), tmp_path, stem="c", like=columns).suffix == ".parquet"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("rows.csv", b""),
        ("rows.csv", b"a,b\n"),
        ("rows.csv", b"a,b\n1,2,3\n"),
        ("rows.csv.gz", b"not gzip"),
        ("rows.parquet", b"PAR1 not parquet"),
        ("rows.txt", b"a\n1\n"),
    ],
)
def test_a_file_that_holds_no_table_is_refused_by_name(
    tmp_path: Path, name: str, content: bytes
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=r"rows\."):
        read_table(tmp_path / name)


def test_a_missing_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"rows\.csv"):
        read_table(tmp_path / "rows.csv")


def test_each_owner_keeps_four_fifths_of_its_own_file(tmp_path: Path) -> None:
    files = {}
    for name, n_rows in (("clinic", 10), ("hospital", 50)):
        files[name] = tmp_path / f"{name}.csv"
        lines = [f"{name}-{row},{row}" for row in range(n_rows)]
        files[name].write_text("\n".join(["id,age", *lines, ""]))
    held = hold_rows(files, list(files), columns=["id"], seed=3)
    assert {name: table.num_rows for name, table in held.owners.items()} == {
        "clinic": 8,
        "hospital": 40,
    }
    everywhere = [*held.owners.values(), held.held_out]
    assert all(table.column_names == ["id"] for table in everywhere)
    ids = [value for table in everywhere for value in table["id"].to_pylist()]
    assert len(ids) == len(set(ids)) == 60
    for name, table in held.owners.items():
        assert all(value.startswith(name) for value in table["id"].to_pylist())
    assert held.like == files["clinic"]
    all_rows = hold_rows(files, list(files), columns=["id"], seed=3, hold_out=False)
    assert (all_rows.owners["hospital"].num_rows, all_rows.held_out.num_rows) == (50, 0)


def test_a_file_without_a_column_is_named_with_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "clinic.csv"
    path.write_text("age\n" + "1\n" * 10)
    with pytest.raises(DataError, match="the file of clinic has no column bmi, or more"):
        hold_rows({"clinic": path}, ["clinic"], columns=["age", "bmi"], seed=1)


def test_columns_of_types_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    files = {name: tmp_path / f"{name}.parquet" for name in ("a", "b")}
    parquet.write_table(pa.table({"x": list(range(10))}), files["a"])
    parquet.write_table(pa.table({"x": [f"r{n}" for n in range(10)]}), files["b"])
    with pytest.raises(DataError, match="do not fit together"):
        hold_rows(files, ["a", "b"], columns=["x"], seed=1)


def test_values_of_a_column_are_counted(tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("site\n" + "a\nb\na\nc\n")
    assert count_groups(path, "site") == 3
    with pytest.raises(DataError, match="no column city"):
        count_groups(path, "city")
