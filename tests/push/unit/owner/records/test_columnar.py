"""Parquet as older software writes it; labels as lists and places in them."""

import base64
import struct
from datetime import date, datetime
from pathlib import Path
from string import ascii_lowercase

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.schema.attributes import count_days
from dppca.common.kernel.schema.columns import parse_column
from dppca.owner.records.check import FaultCounts, check_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.sources import Wanted
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.engines import InProcess
from tests.support.studies import categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        {"name": "until", "type": "date", "lower": "1900-01-01", "upper": "2100-01-01"},
        numeric_of("age", 0, 100),
    ]
)
DAYS = [(9999, 12, 31), (2567, 6, 1), (2262, 4, 12), (2020, 2, 29), (1677, 9, 20), (1600, 1, 1)]
TIMES = [datetime(*day, 23, 59, 59, 999_999) for day in DAYS]  # noqa: DTZ001 - INT96 has no zone
JULIAN_1970 = 2_440_588


def _write(path: Path, kind: str) -> Path:
    times = pa.array([*TIMES, None], pa.timestamp("us"))
    if kind == "date":
        times = times.cast(pa.timestamp("us")).cast(pa.date32(), safe=False)
    rows = pa.table({"until": times, "age": [1.0] * len(times)})
    pq.write_table(rows, path, use_deprecated_int96_timestamps=kind == "INT96", row_group_size=3)
    return path


def test_a_day_of_int96_is_that_day_in_any_year(tmp_path: Path) -> None:
    table = open_table(_write(tmp_path / "old.parquet", "INT96"), SCHEMA)
    (days, _), *_ = table.batches()
    assert days[:-1].tolist() == [count_days(date(*day)) for day in DAYS]
    assert np.isnan(days[-1])


@pytest.mark.parametrize("day", [-(10**5), 0, 10**8, 10**9, 2**31 - 1 - JULIAN_1970])
def test_no_day_of_int96_comes_round_again(tmp_path: Path, day: int) -> None:
    path = tmp_path / "old.parquet"
    rows = pa.table({"until": pa.array([datetime(2020, 1, 1)], pa.timestamp("us")), "age": [1]})  # noqa: DTZ001
    pq.write_table(
        rows, path, use_deprecated_int96_timestamps=True, use_dictionary=False, compression=None
    )
    known = struct.pack("<qI", 0, JULIAN_1970 + count_days(date(2020, 1, 1)))
    path.write_bytes(path.read_bytes().replace(known, struct.pack("<qI", 0, JULIAN_1970 + day)))
    (days, _), *_ = open_table(path, SCHEMA).batches()
    in_years = count_days(date.min) <= day <= count_days(date.max)
    assert days.tolist() == [day if in_years else -np.inf]


def test_every_engine_reads_int96_as_this_process_reads_dates(tmp_path: Path) -> None:
    old, new = (_write(tmp_path / f"{kind}.parquet", kind) for kind in ("INT96", "date"))
    expected = open_table(local_files(new), SCHEMA)
    table = open_table(local_files(old), SCHEMA)
    sums = moments_of_table(expected, SCHEMA).packed
    np.testing.assert_array_equal(moments_of_table(table, SCHEMA).packed, sums)
    found = InProcess(threads=2, seed=0).sum_table(
        table, tally=FaultCounts(SCHEMA), progress=lambda _: None
    )
    np.testing.assert_array_equal(found.packed, sums)
    assert check_table(table, SCHEMA) == check_table(expected, SCHEMA)


LETTERS = [*ascii_lowercase]  # enough to be counted, in two groups
LABELLED = make_schema(
    [numeric_of("age", 0, 100), categorical_of("ward", LETTERS), categorical_of("unit", LETTERS)]
)
texts = st.sampled_from(["a", "b", "f", " m", "?", "", None])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(st.integers(0, 100), texts, texts), min_size=1, max_size=12),
    group_rows=st.integers(1, 5),
    batch_rows=st.integers(1, 7),
    listed=st.booleans(),
)
def test_labels_have_the_same_sums_with_one_thread_and_with_two(
    tmp_path: Path,
    rows: list[tuple[int, str | None, str | None]],
    group_rows: int,
    batch_rows: int,
    listed: bool,
) -> None:
    path = tmp_path / "rows.parquet"
    columns = zip(*rows, strict=True)
    kinds = pa.schema([("age", pa.int64()), ("ward", pa.string()), ("unit", pa.string())])
    written = pa.table(dict(zip(kinds.names, columns, strict=True)), schema=kinds)
    pq.write_table(written, path, use_dictionary=listed, row_group_size=group_rows)
    cells = [written.column(a.name).combine_chunks() for a in LABELLED.attributes]
    parsed = [parse_column(a, c) for a, c in zip(LABELLED.attributes, cells, strict=True)]
    expected = accumulate_moments(LABELLED, parsed)
    table = open_table(path, LABELLED)
    for workers in (1, 2):
        found = moments_of_table(table, LABELLED, batch_rows=batch_rows, workers=workers)
        assert found.n_rows == len(rows)
        np.testing.assert_array_equal(found.packed, expected.packed)


@pytest.mark.parametrize(("code", "width"), [(-1, pa.int8()), (-100, pa.int8()), (200, pa.uint8())])
def test_a_place_outside_its_list_of_labels_is_refused(
    tmp_path: Path, code: int, width: pa.DataType
) -> None:
    path = tmp_path / "rows.arrow"
    places = pa.array([0, code], width)
    wards = pa.DictionaryArray.from_arrays(places, [f"w{i}" for i in range(200)], safe=False)
    rows = pa.table({"age": [1, 2], "ward": wards, "unit": ["f", "m"]})
    with pa.ipc.new_file(path, rows.schema) as writer:
        writer.write_table(rows)
    with pytest.raises(DataError, match="damaged"):
        moments_of_table(open_table(path, LABELLED), LABELLED)


def test_a_list_that_holds_a_text_twice_gives_the_labels_of_the_rows(tmp_path: Path) -> None:
    """DuckDB lists an empty text for each value of an ENUM that does not occur."""
    path = tmp_path / "enum.parquet"
    schema = make_schema([categorical_of("stage", ["bb", "cc", "dd"]), numeric_of("x", 0, 1)])
    stages = ["aa", "bb", "cc", "dd"] * 3
    table = pa.table({"stage": stages, "x": [0.5] * 12})
    pq.write_table(table, path, compression="none", store_schema=False, write_statistics=False)
    content = path.read_bytes()
    assert content.count(struct.pack("<I", 2) + b"aa") == 1
    doubled = content.replace(struct.pack("<I", 2) + b"aa", struct.pack("<I", 2) + b"bb")
    path.write_bytes(doubled.replace(b"parquet-cpp-arrow", b"DuckDB version v2"))
    report = check_table(open_table(path, schema), schema)
    assert report.faultless
    assert report.rows == 12
    ((codes, _),) = open_table(path, schema).batches()
    assert codes.tolist() == [0, 0, 1, 2] * 3


class _Keys(pe.KmsClient):  # type: ignore[misc]
    """Keys that are kept nowhere: wrapped ones are written as they are."""

    def wrap_key(self, key_bytes: bytes, master_key_identifier: str) -> bytes:
        del master_key_identifier
        return base64.b64encode(key_bytes)


@pytest.mark.parametrize("plaintext_footer", [False, True])
def test_encrypted_parquet_is_named_as_what_it_is(tmp_path: Path, plaintext_footer: bool) -> None:
    path = tmp_path / "rows.parquet"
    how = pe.EncryptionConfiguration(
        footer_key="f", column_keys={"c": ["age"]}, plaintext_footer=plaintext_footer
    )
    factory = pe.CryptoFactory(lambda _: _Keys())
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), how)
    rows = pa.table({"age": [1.0, 2.0], "until": ["2020-01-31"] * 2})
    pq.write_table(rows, path, encryption_properties=properties)

    def read() -> list[object]:
        return list(local_files(path).open().read(Wanted(["age", "until"], 9)))

    with pytest.raises(DataError, match=r"is an encrypted Parquet file.*without encryption"):
        read()
    if plaintext_footer:  # a column without a key of its own is read
        assert len(list(local_files(path).open().read(Wanted(["until"], 9)))) == 1
        path.write_bytes(path.read_bytes()[:-40] + path.read_bytes()[-36:])
        with pytest.raises(DataError, match="damaged"):
            read()
