"""Rules of a mapping, applied to a batch: a result depends on the cells of its own row alone."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import csv, parquet

from dppca.common.kernel.errors import DataError
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.locations import Location
from dppca.owner.records.mapping_cells import MappedColumns
from dppca.owner.records.mapping_places import MappingPlace
from dppca.owner.records.mapping_rules import Rule
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support.engines import InProcess
from tests.support.studies import make_study

LABELS = ["north", "south", "east"]
ONE_HOT = {"region": dict(zip(["n", "s", "e"], LABELS, strict=True))}
SCHEMA = make_study(
    [
        {"name": "age", "type": "numeric", "lower": 0, "upper": 100},
        {"name": "region", "type": "categorical", "categories": LABELS},
    ]
).table
SHOWN = [(1, 0, 0), (0, 0, 1), (0, 1, 0), (0, 0, 0), (1, 1, 0), (2, 0, 1)]
CODES = [0, 2, 1, -1, -1, -1]
KINDS = {
    "whole": pa.int8(),
    "float": pa.float64(),
    "text": pa.string(),
    "bytes": pa.binary(),
}


def location(path: Path) -> Location:
    return local_files(path).mapped(MappingPlace(one_hot=ONE_HOT))


def join_labels(columns: list[pa.Array], labels: list[str]) -> list[str | None]:
    """Label of each row by a rule, None for a missing one."""
    names = [f"c{place}" for place in range(len(columns))]
    rule = Rule(one_hot=dict(zip(names, labels, strict=True)))
    schema = make_study([{"name": "region", "type": "categorical", "categories": LABELS}]).table
    arrays = dict(zip(names, columns, strict=True))
    (codes,) = MappedColumns(schema, {"region": rule}).convert(arrays, len(columns[0]))
    return [None if code < 0 else LABELS[int(code)] for code in codes]


def regions(table: Table) -> list[int]:
    codes: Any = np.concatenate([columns[1] for columns in table.batches()])
    return np.where(codes < 0, -1, codes).tolist()


def rows(kind: pa.DataType | None = None) -> pa.Table:
    columns = [pa.array(list(column), pa.int8()) for column in zip(*SHOWN, strict=True)]
    if kind is not None:
        columns = [
            column.cast(pa.string()).cast(kind) if kind == pa.binary() else column.cast(kind)
            for column in columns
        ]
    return pa.table({"n": columns[0], "age": list(range(6)), "s": columns[1], "e": columns[2]})


@pytest.mark.parametrize("kind", KINDS.values(), ids=[*KINDS])
def test_the_one_column_that_is_1_gives_the_label(tmp_path: Path, kind: pa.DataType) -> None:
    parquet.write_table(rows(kind), path := tmp_path / "rows.parquet")
    table = open_table(location(path), SCHEMA)
    assert regions(table) == CODES
    assert table.extra_columns == ()
    assert table.n_rows == 6


def test_a_folder_of_text_and_truths_is_read_alike(tmp_path: Path) -> None:
    csv.write_csv(rows(), tmp_path / "a.csv")
    truths = {name: [False, name == "s"] for name in "nse"}
    parquet.write_table(pa.table({**truths, "age": [1.0, 2.0]}), tmp_path / "b.parquet")
    nested = {name: pa.array([[1]], pa.list_(pa.int8())) for name in "nse"}
    parquet.write_table(pa.table({**nested, "age": [3.0]}), tmp_path / "c.parquet")
    table = open_table(location(tmp_path), SCHEMA)
    assert regions(table) == [*CODES, -1, 1, -1]
    assert len(table.source.parts) == 3


def test_a_mark_is_its_number_in_every_spelling() -> None:
    ones, zeros = ["1.000", "+1", "1E0", " 1 ", "True"], ["-0", "0e5", ".0", " 0", "FALSE"]
    columns = [pa.array([*ones, *zeros, "1"]), pa.array([*zeros, *ones, "01"])]
    expected = [*["north"] * 5, *["south"] * 5, None]
    assert join_labels(columns, LABELS[:2]) == expected
    narrow = [pa.array([1, 0], pa.float32()), pa.array(["0.00", "1.00"]).cast(pa.decimal128(3, 2))]
    assert join_labels(narrow, LABELS[:2]) == ["north", "south"]


@given(
    st.lists(
        st.tuples(
            *[
                st.sampled_from(
                    ["0", "1", "1.0", "true", "", "yes", None, "1e0", "-0", ".0", "TRUE", "01"]
                )
            ]
            * 3
        ),
        min_size=1,
    )
)
def test_a_label_depends_on_its_own_row_alone(cells: list[tuple[str | None, ...]]) -> None:
    def joined(some: list[tuple[str | None, ...]]) -> list[Any]:
        columns = [pa.array(list(each), pa.string()) for each in zip(*some, strict=True)]
        return join_labels(columns, LABELS)

    assert joined(cells) == [label for row in cells for label in joined([row])]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda table: table.drop_columns(["s", "e"]), "lacks the one-hot columns s, e"),
        (lambda table: table.append_column("n", table["n"]), "has more than one .* columns n"),
        (lambda table: table.append_column("region", table["n"]), "what one_hot joins region"),
    ],
)
def test_files_without_their_groups_are_refused(tmp_path: Path, change: Any, said: str) -> None:
    parquet.write_table(change(rows()), path := tmp_path / "rows.parquet")
    with pytest.raises(DataError, match=said):
        open_table(location(path), SCHEMA)


def test_a_cluster_joins_them_as_this_machine_does(tmp_path: Path) -> None:
    parquet.write_table(rows(), path := tmp_path / "rows.parquet", row_group_size=2)
    table = open_table(location(path), SCHEMA)
    found = InProcess().sum_table(table, tally=FaultCounts(SCHEMA), progress=lambda _: None)
    assert (found.packed == moments_of_table(table, SCHEMA).packed).all()
    assert location(path).place == local_files(path).place
