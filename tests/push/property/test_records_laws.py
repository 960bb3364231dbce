"""Laws of reading: the same rows give the same integers, however they are stored and cut."""

import csv
import itertools
import math
import re
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.schema import (
    MISSING,
    UNKNOWN,
    Binary,
    Categorical,
    Numeric,
    encode,
    label_text,
)
from dppca.common.kernel.schema.columns import parse_column
from dppca.common.kernel.schema.texts import MISSING_WORDS
from dppca.owner.records.check import check_table
from dppca.owner.records.table import Table, moments_of_table, open_table
from tests.support.examples import examples
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("x", -1, 3),
        binary_of("b", ["yes", "no"], missing="no"),
        categorical_of("c", ["1", "a b", "é", "true"]),
    ],
    resolution_bits=6,
)
FORMATS = ("csv", "parquet", "arrow", "feather", "csv.gz")

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
number_text = st.one_of(
    st.floats(-5, 5).map(repr),
    st.floats().map(repr),
    st.integers(-(10**30), 10**30).map(str),
    st.sampled_from(
        ["", " ", "NaN", "-inf", "1e999", "1e-999", "0x1", "1_0", "٣", "+2", "2.", ".5"]
    ),
)
label = st.sampled_from(
    ["yes", "no", " no ", "1", "1.0", "a b", "é", "true", "True", "", "\t", "?"]
)
cell = st.one_of(st.none(), number_text, label, text)
weird_rows = st.lists(st.tuples(cell, cell, cell), min_size=1, max_size=12)


def n_malformed(table: Table) -> int:
    return sum(found.count for found in table.source.facts.malformed.values())


def save(rows: Sequence[Sequence[object]], folder: str, kind: str, order: Sequence[int]) -> Path:
    names = [("x", "b", "c", "extra")[i] for i in order]
    columns = [[(*row, "z")[i] for row in rows] for i in order]
    path = Path(folder) / f"rows.{kind}"
    if kind == "csv":
        with path.open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(names)
            writer.writerows(zip(*columns, strict=True))
    elif kind == "csv.gz":
        save(rows, folder, "csv", order)
        with pa.output_stream(str(path), compression="gzip") as out:
            out.write(path.with_suffix("").read_bytes())
    else:
        table = pa.table(dict(zip(names, map(pa.array, columns), strict=True)))
        if kind == "parquet":
            pq.write_table(table, path, row_group_size=5)
        else:
            feather.write_feather(table, str(path), chunksize=3)
    return path


def moments(
    rows: Sequence[Sequence[object]], kind: str, order: Sequence[int], batch: int
) -> list[int]:
    with tempfile.TemporaryDirectory() as folder:
        table = open_table(save(rows, folder, kind, order), SCHEMA)
        found = moments_of_table(table, SCHEMA, batch_rows=batch)
        check = check_table(table, SCHEMA)
    assert found.n_rows == table.n_rows == check.rows == len(rows), "no row is dropped"
    return [int(value) for value in found.packed]


@settings(max_examples=examples(60))
@given(
    rows=weird_rows,
    kind=st.sampled_from(FORMATS),
    order=st.permutations(range(4)),
    batch=st.integers(1, 13),
)
@example(rows=[(None, None, "\r")], kind="csv", order=[0, 1, 2, 3], batch=1)
@example(rows=[(word,) * 3 for word in MISSING_WORDS], kind="csv", order=[0, 1, 2, 3], batch=4)
def test_any_format_column_order_and_batching_gives_the_same_integers(
    rows: list[tuple[str | None, ...]], kind: str, order: list[int], batch: int
) -> None:
    if kind.startswith("csv"):  # where a line is a row, whatever is quoted (decision 99)
        rows = [tuple(each and re.sub(r"[\r\n]", " ", each) for each in row) for row in rows]
    expected = encode(SCHEMA, list(slow_columns(rows)))
    padded = np.column_stack([expected, np.full(len(rows), 1 << 6)]).astype(object)
    gram = padded.T @ padded
    layout = SCHEMA.layout
    i, j = layout.product_index
    oracle = [*gram[-1, :-1], *gram[i, j]]
    assert moments(rows, kind, order, batch) == oracle


typed_rows = st.lists(
    st.tuples(
        st.one_of(st.none(), st.floats(-4, 4)),
        st.one_of(st.none(), st.sampled_from(["yes", "no", "?"])),
        st.one_of(st.none(), st.integers(0, 2)),
    ),
    min_size=1,
    max_size=12,
)


@settings(max_examples=examples(40))
@given(rows=typed_rows, kinds=st.permutations(FORMATS), batch=st.integers(1, 13))
def test_typed_columns_mean_what_their_text_means(
    rows: list[tuple[object, ...]], kinds: list[str], batch: int
) -> None:
    found = [moments(rows, kind, range(4), batch) for kind in kinds[:3]]
    assert found[0] == found[1] == found[2]


@given(cells=st.lists(st.one_of(st.none(), number_text, text), max_size=10))
@example(["1", "x"])
@example(["nan(1)", "\x1f5", "1e999", "-0"])
@example([*MISSING_WORDS, " NaT ", "nat", "N/A", "NULL!", "٣", "1_0"])
def test_a_number_does_not_depend_on_its_neighbours(cells: list[str | None]) -> None:
    attribute = SCHEMA.attributes[0]
    together = parse_column(attribute, pa.array(cells, pa.string()))
    alone = [parse_column(attribute, pa.array([value], pa.string()))[0] for value in cells]
    slow = [slow_number(value) for value in cells]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(together, slow)


@given(cells=st.lists(st.one_of(st.none(), number_text, label, text), max_size=10))
@example([*MISSING_WORDS, " NaT ", "nat", "nan(1)", "N/A", "1.00", "TRUE"])
def test_a_label_does_not_depend_on_its_neighbours(cells: list[str | None]) -> None:
    for attribute in SCHEMA.attributes[1:]:
        assert not isinstance(attribute, Numeric)
        together = parse_column(attribute, pa.array(cells, pa.string())).tolist()
        alone = [parse_column(attribute, pa.array([value], pa.string()))[0] for value in cells]
        assert together == alone == [slow_code(attribute, value) for value in cells]


@given(
    values=st.lists(
        st.one_of(st.none(), st.floats(), st.floats(-3, 3, width=16)),
        max_size=10,
    )
)
def test_float_labels_go_by_canonical_text(values: list[float | None]) -> None:
    attribute = Categorical(name="c", type="categorical", categories=("0", "1", "-2.5", "inf"))
    known = {name: code for code, name in enumerate(attribute.labels)}
    expected = [
        MISSING if v is None or math.isnan(v) else known.get(label_text(v), UNKNOWN) for v in values
    ]
    assert parse_column(attribute, pa.array(values, pa.float64())).tolist() == expected


@settings(max_examples=examples(40))
@given(
    lines=st.lists(
        st.lists(st.text("ab1,\t é", max_size=3), min_size=0, max_size=6), min_size=1, max_size=8
    ),
    batch=st.integers(1, 9),
)
def test_rows_of_any_number_of_fields_are_kept(lines: list[list[str]], batch: int) -> None:
    schema = make_schema([a.model_dump() for a in SCHEMA.attributes[:2]])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.csv"
        with path.open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, lineterminator="\n").writerows([["x", "b"], *lines])
        table = open_table(path, schema)
        columns = list(zip(*table.batches(batch), strict=True))
    padded = [(*line, "", "")[:2] for line in lines]
    assert table.n_rows == len(lines)
    assert n_malformed(table) == sum(len(line) != 2 for line in lines)
    for index, attribute in enumerate(schema.attributes):
        expected = parse_column(attribute, pa.array([row[index] for row in padded]))
        np.testing.assert_array_equal(np.concatenate(columns[index]), expected)


@settings(max_examples=examples(150))
@given(
    rows=st.lists(st.lists(st.text("a1 é,", max_size=5), min_size=2, max_size=2), max_size=9),
    first=st.sampled_from(["", "\ufeff"]),
    end=st.sampled_from(["\n", "\r\n", "\r"]),
    blank=st.sets(st.integers(0, 9)),
    finished=st.booleans(),
    one_column=st.booleans(),
    quoted=st.booleans(),
    block=st.integers(8, 70),
)
@example([["", ""]], "", "\r\n", {0, 1}, True, True, False, 9)
def test_lines_are_rows_wherever_blocks_end(
    rows: list[list[str]],
    first: str,
    end: str,
    blank: set[int],
    finished: bool,
    one_column: bool,
    quoted: bool,
    block: int,
) -> None:
    width = 1 if one_column else 2
    rows = [[cell if quoted else cell.replace(",", "") for cell in row[:width]] for row in rows]
    rows = [["x", "b"][:width], *rows]
    text = [",".join(f'"{cell}"' if quoted else cell for cell in row) for row in rows]
    for place in blank:
        text.insert(1 + place, "")
    document = first + end.join(text) + (end if finished else "")
    # The slow version, of Python's csv: a blank line is a row without any field.
    lines = list(csv.reader(document.removeprefix(first).splitlines(keepends=True)))[1:]
    kept = [(*line, "", "")[:width] for line in lines]
    schema = make_schema([{**SCHEMA.attributes[2].model_dump(), "name": n} for n in "xb"[:width]])
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr("dppca.owner.records.delimited._BLOCK_BYTES", block)
        path = Path(folder) / "rows.csv"
        path.write_bytes(document.encode())
        if not kept:
            with pytest.raises(DataError, match="no rows"):
                open_table(path, schema)
            return
        table = open_table(path, schema)
        columns = [np.concatenate(each) for each in zip(*table.batches(3), strict=True)]
    assert table.n_rows == len(kept)
    assert n_malformed(table) == sum(not line for line in lines if not one_column)
    for attribute, *cells in zip(schema.attributes, columns, zip(*kept, strict=True), strict=True):
        column, words = cells
        assert column.tolist() == [slow_code(attribute, word) for word in words]


def slow_columns(rows: Sequence[Sequence[str | None]]) -> list[np.ndarray]:
    """The obvious version: cell by cell, with Python's own conversions."""
    columns = []
    for attribute, cells in zip(SCHEMA.attributes, zip(*rows, strict=True), strict=True):
        if isinstance(attribute, Numeric):
            columns.append(np.array([slow_number(value) for value in cells]))
        else:
            columns.append(np.array([slow_code(attribute, value) for value in cells], np.int32))
    return columns


def slow_number(value: str | None) -> float:
    word = (value or "").strip()
    if re.fullmatch(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?", word, re.IGNORECASE):
        return abs(float(word)) if math.isinf(float(word)) else float(word)
    if re.fullmatch(r"[+-]?inf(inity)?", word, re.IGNORECASE | re.ASCII):
        return math.inf
    return math.nan if slow_missing(word) else -math.inf


def slow_missing(word: str) -> bool:
    nan = re.fullmatch(r"[+-]?nan(\(\w*\))?", word, re.IGNORECASE | re.ASCII)
    return not word or word in MISSING_WORDS or nan is not None


def slow_code(attribute: Binary | Categorical, value: str | None) -> int:
    word = label_text(value or "")
    other = MISSING if slow_missing(word) else UNKNOWN
    candidates = itertools.chain(
        [word],
        [re.sub(r"\.?0*$", "", word)] if re.fullmatch(r"[+-]?[0-9]+\.[0-9]*", word) else [],
        [word.lower()] if word.lower() in ("true", "false") else [],
    )
    return next(
        (attribute.labels.index(each) for each in candidates if each in attribute.labels), other
    )
