"""No row of a file changes how another row is read, nor how many there are."""

import csv
import gzip
import io
import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.check import check_table
from dppca.owner.records.lines import blocks_of_lines, split_fields, split_lines
from dppca.owner.records.table import open_table
from tests.support.examples import examples
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema([numeric_of("x", 0, 3), categorical_of("c", ["a", "b", "1", '"'])])
HEADER = b"x,c,note"

sound = st.sampled_from([b"1,a,ok", b'2,"b",""', b'"1.5",1,"a, ""b"""', b'3,"""",x', b"0,b,"])
bytes_of_a_row = st.lists(
    st.sampled_from(
        [b'"', b'""', b",", b"1", b"a", b" ", b"\0", b"\xff", b"\xef\xbb\xbf", b"end\0of\0file"]
    ),
    max_size=8,
).map(b"".join)
any_row = st.one_of(
    sound,
    st.sampled_from([b'1,a,5" pipe', b'1,a,"wide', b'"', b"", b'""x,a', b'1,"a"b"c', b"1,a,x,y"]),
    bytes_of_a_row,
    st.binary(max_size=8).map(lambda row: row.translate(None, b"\r\n")),
)


def coded(content: bytes, *, block: int, folder: str, compressed: bool = False) -> np.ndarray:
    """Columns of a CSV file, shape (2, n)."""
    path = Path(folder) / ("rows.csv.gz" if compressed else "rows.csv")
    path.write_bytes(gzip.compress(content, 0) if compressed else content)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("dppca.owner.records.delimited._BLOCK_BYTES", block)
        table = open_table(path, SCHEMA)
        columns = zip(*table.batches(3), strict=True)
        found = np.array([np.concatenate(each) for each in columns], np.float64)
    assert found.shape == (2, table.n_rows)
    return found


@settings(max_examples=examples(300))
@given(
    rows=st.lists(any_row, min_size=1, max_size=12),
    place=st.integers(0, 11),
    other=any_row,
    end=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    block=st.sampled_from([1, 2, 7, 19, 64, 1 << 20]),
    compressed=st.booleans(),
)
@example([b'1,a,5" pipe', b"1,a,ok", b"1,a,wide", b"1,a,ok"], 2, b'1,a,"wide', b"\n", 64, False)
@example([b"1,a,ok", b"1,a,ok"], 1, b'"', b"\n", 64, False)
@example([b'1,a,"x', b'y"'], 0, b"1,a,x", b"\r\n", 64, True)
@example([b"1,a,ok", b"\xef\xbb\xbf1,a,ok"], 0, b"1", b"\n", 7, False)
def test_replacing_one_line_of_a_csv_file_changes_that_row_alone(
    rows: list[bytes], place: int, other: bytes, end: bytes, block: int, compressed: bool
) -> None:
    place %= len(rows)
    replaced = [*rows[:place], other, *rows[place + 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        before, after = (
            coded(
                b"".join(line + end for line in [HEADER, *each]),
                block=block,
                folder=folder,
                compressed=compressed,
            )
            for each in (rows, replaced)
        )
        alone = coded(HEADER + end + other + end, block=1 << 20, folder=folder)
    assert before.shape == after.shape == (2, len(rows)), "each line is a row"
    kept = np.arange(len(rows)) != place
    np.testing.assert_array_equal(before[:, kept], after[:, kept])
    np.testing.assert_array_equal(after[:, [place]], alone)


@settings(max_examples=examples(150))
@given(
    rows=st.lists(any_row, min_size=1, max_size=12),
    block=st.sampled_from([7, 64, 1 << 20]),
    finished=st.booleans(),
)
@example([b'1,0,"a,""b""c"', b"2,1,d"], 64, True)  # commas and quotes in a cell
@example([b'1,0,"a', b'b"', b"2,1,d"], 64, True)  # a line break inside quotes
@example([b"1,0", b"", b"2,1,b,9,9", b'3,0,"a"'], 64, True)  # wrong numbers of fields
@example([b"1,\xfc,a", b"2,b,a,\xfc"], 64, True)  # not UTF-8, in a sound row and another
@example([b'1,0,"a', b'2,"1,b', b"3,1,a"], 64, True)  # quotes that are not closed
@example([b'1,a,b"', b"2,b,c"], 64, True)  # a quote inside a cell
@example([b"1,a,ok", b'"end\0of\0file'], 64, False)  # no line is taken for the end of the file
@example([b"1,a,ok", b'""'], 64, False)
def test_both_parsers_give_the_fields_of_each_line_by_itself(
    rows: list[bytes], block: int, finished: bool
) -> None:
    content = b"\n".join([HEADER, *rows]) + (b"\n" if finished else b"")
    expected = [slow_fields(row) for row in (rows if finished or rows[-1] else rows[:-1])]
    if not expected:
        return
    with tempfile.TemporaryDirectory() as folder:
        found = coded(content, block=block, folder=folder)
        path = Path(folder) / "rows.csv"
        report = check_table(open_table(path, SCHEMA), SCHEMA)
    cells = [(*fields, "", "")[:2] for fields, _ in expected]
    for index, attribute in enumerate(SCHEMA.attributes):
        words = [row[index].encode("latin-1") for row in cells]
        slow = [parse_column(attribute, pa.array([word], pa.binary()))[0] for word in words]
        np.testing.assert_array_equal(found[index], slow)
    bad = [
        len(fields) != 3 or not closed or row != row.decode("utf-8", "ignore").encode()
        for row, (fields, closed) in zip(rows, expected, strict=False)
    ]
    named = sorted(row for found in report.malformed_rows.values() for row in found.rows)
    assert named == (np.flatnonzero(bad) + 1).tolist(), "check names them"
    assert report.rows == len(expected)


def slow_fields(line: bytes) -> tuple[list[str], bool]:
    """The definition, character by character."""
    fields, quoted, closing = [""], False, False
    fresh = True
    for mark in line.decode("latin-1"):
        if quoted and mark == '"':
            quoted, closing = False, True
        elif quoted:
            fields[-1] += mark
        elif mark == ",":
            fields, fresh, closing = [*fields, ""], True, False
            continue
        elif mark == '"' and fresh:
            quoted = True
        elif mark == '"' and closing:
            fields[-1] += mark
            quoted, closing = True, False
        else:
            fields[-1] += mark
            closing = False
        fresh = False
    return fields, not quoted


@given(line=any_row, wanted=st.integers(1, 5))
def test_fields_are_those_of_the_definition(line: bytes, wanted: int) -> None:
    expected, closed = slow_fields(line)
    fields, is_closed = split_fields(line, wanted)
    assert is_closed == closed
    assert [field.decode("latin-1") for field in fields][:wanted] == expected[:wanted] or (
        b'"' not in line
    )
    assert (len(fields) > wanted) == (len(expected) > wanted)


@given(
    content=st.lists(
        st.sampled_from([b"\n", b"\r", b"\r\n", b'"', b",", b"ab", b'"a"', b'""']), max_size=20
    ).map(b"".join),
    block=st.integers(1, 9),
)
def test_blocks_are_whole_lines_however_the_file_is_cut(content: bytes, block: int) -> None:
    blocks = list(blocks_of_lines(io.BytesIO(content), block))
    assert [line for each in blocks for line in each.splitlines()] == content.splitlines()
    for each in blocks:
        lines, found = each.splitlines(), split_lines(each)
        assert found.count == len(lines)
        assert found.any_blank == (b"" in lines)
        if found.strictly_quoted:
            assert all(slow_fields(line)[1] for line in lines)
            together = list(csv.reader(line.decode("latin-1") for line in lines))
            assert [row or [""] for row in together] == [slow_fields(line)[0] for line in lines]


texts = st.one_of(
    st.sampled_from([b"a", b"1.0", b"", b"\xff", b"nan", b"\xc3"]), st.binary(max_size=4)
)
TYPES: dict[pa.DataType, tuple[pa.DataType, st.SearchStrategy[object]]] = {
    pa.string(): (pa.binary(), texts),
    pa.large_string(): (pa.large_binary(), texts),
    pa.string_view(): (pa.binary_view(), texts),
    pa.date32(): (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    pa.date64(): (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    pa.time32("s"): (pa.int32(), st.integers(-(2**31), 2**31 - 1)),
    pa.time64("ns"): (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    pa.timestamp("ns", "UTC"): (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    pa.decimal32(3, 1): (pa.binary(4), st.binary(min_size=4, max_size=4)),
    pa.decimal128(5, 2): (pa.binary(16), st.binary(min_size=16, max_size=16)),
    pa.decimal256(5, 2): (pa.binary(32), st.binary(min_size=32, max_size=32)),
    pa.float64(): (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
}


def column(values: Sequence[object], kind: pa.DataType, wrapped: str) -> pa.Array:
    stored, _ = TYPES[kind]
    array = pa.array(values, stored).view(kind)
    if wrapped == "dictionary":
        present = [value for value in values if value is not None]
        places = itertools.count()
        codes = [None if value is None else next(places) for value in values]
        return pa.DictionaryArray.from_arrays(
            pa.array(codes, pa.int32()), pa.array(present, stored).view(kind)
        )
    if wrapped == "runs":
        ends = pa.array(range(1, len(values) + 1), pa.int32())
        runs = pa.RunEndEncodedArray.from_arrays(ends, array.view(stored))
        return runs.view(pa.run_end_encoded(pa.int32(), kind))
    if wrapped == "list":
        return pa.ListArray.from_arrays(pa.array(range(len(values) + 1), pa.int32()), array)
    return pa.StructArray.from_arrays([array], ["inner"]) if wrapped == "struct" else array


@settings(max_examples=examples(200))
@given(
    kind=st.sampled_from(list(TYPES)),
    wrapped=st.sampled_from(["", "dictionary", "runs", "list", "struct"]),
    suffix=st.sampled_from(["arrow", "parquet"]),
    name=st.sampled_from(["x", "c"]),
    data=st.data(),
)
def test_replacing_one_cell_of_an_arrow_or_parquet_file_changes_that_row_alone(
    kind: pa.DataType, wrapped: str, suffix: str, name: str, data: st.DataObject
) -> None:
    # What pyarrow writes to no Parquet file.
    assume(suffix == "arrow" or not (wrapped == "runs" or (wrapped and kind == pa.string_view())))
    cell = st.one_of(st.none(), TYPES[kind][1])
    cells = data.draw(st.lists(cell, min_size=1, max_size=8))
    place = data.draw(st.integers(0, len(cells) - 1))
    replaced = [*cells[:place], data.draw(cell), *cells[place + 1 :]]
    with tempfile.TemporaryDirectory() as folder:
        found = []
        for values in (cells, replaced, [replaced[place]]):
            rows = {"x": [1.0] * len(values), "c": ["a"] * len(values)}
            table = pa.table({**rows, name: column(values, kind, wrapped)})
            path = Path(folder) / f"rows.{suffix}"
            if suffix == "arrow":
                with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, table.schema) as out:
                    out.write_table(table, max_chunksize=3)
            else:
                pq.write_table(table, path, row_group_size=3)
            opened = open_table(path, SCHEMA)
            assert opened.n_rows == len(values)
            parts = zip(*opened.batches(2), strict=True)
            found.append(np.array([np.concatenate(part) for part in parts]))
    before, after, alone = found
    kept = np.arange(len(cells)) != place
    np.testing.assert_array_equal(before[:, kept], after[:, kept])
    np.testing.assert_array_equal(after[:, [place]], alone)
