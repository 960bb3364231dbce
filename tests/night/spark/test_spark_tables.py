"""A Spark table as a data set: the integers of its rows, its version, and what is never said."""

import itertools
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.kernel.errors import DataError
from dppca.owner.records.check import check_table
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.spark_sessions import read_setting
from dppca.owner.records.spark_tables import SparkLocation
from dppca.owner.records.table import moments_of_table, open_table
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SCHEMA = make_schema(
    [
        numeric_of("x", -1, 3),
        binary_of("b", ["yes", "no"], missing="no"),
        categorical_of("c", ["1", "a b", "é", "true"]),
    ]
)
TEXTS = ["1", "2.5", "", None, "inf", "x", "1e999", "nan", " 2 ", "-0", "hidden-word"]
LABELS = ["yes", "no", None, "?", " yes ", "1", "1.0", "a b", "é", "true", "True"]
MIXED = pa.table({"x": TEXTS * 30, "b": LABELS * 30, "c": LABELS[::-1] * 30})
KINDS = {
    "text": MIXED,
    "double": pa.table(
        {
            "x": pa.array([1.5, None, float("inf"), float("-inf"), float("nan"), 2.0] * 9),
            "b": pa.array([True, False, None] * 18),
            "c": pa.array([1, 2, None] * 18, pa.int32()),
        }
    ),
    "decimal": pa.table(
        {
            "x": pa.array(["0.1", "2.675", None, "123456.789"] * 5).cast(pa.decimal128(20, 6)),
            "b": pa.array(["yes", "no", None, "?"] * 5),
            "c": pa.array([1.0, 2.5, None, 1.0] * 5, pa.float32()),
        }
    ),
}

LOOPBACK = {"0100007F", "0" * 16 + "FFFF0000" + "0100007F", "0" * 24 + "01000000"}
"""127.0.0.1, the same as an address of IPv6, and ::1, as /proc/net writes them."""


def place(name: str, version: int | None = None) -> SparkLocation:
    return SparkLocation(f"{name} (Spark table)", ("spark_catalog", "default", name), version)


@pytest.fixture
def make_table(spark: Any, tmp_path: Path) -> Callable[..., Path]:
    """Makes a table of Parquet files, so many, and returns their folder."""

    def make(name: str, rows: pa.Table, n_files: int = 3) -> Path:
        folder = tmp_path / name
        folder.mkdir()
        cuts = np.linspace(0, len(rows), n_files + 1).astype(int)
        for number, (start, stop) in enumerate(itertools.pairwise(cuts)):
            part = rows.slice(start, stop - start)
            pq.write_table(part, folder / f"{number:03}.parquet")
        spark.sql(f"DROP TABLE IF EXISTS {name}")
        spark.sql(f"CREATE TABLE {name} USING parquet LOCATION '{folder}'")
        return folder

    return make


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_table_gives_the_integers_and_the_counts_of_its_files(
    kind: str, make_table: Callable[..., Path]
) -> None:
    folder = make_table(f"rows_{kind}", KINDS[kind])
    table, files = (
        open_table(place(f"rows_{kind}"), SCHEMA),
        open_table(local_files(folder), SCHEMA),
    )
    found, expected = moments_of_table(table, SCHEMA), moments_of_table(files, SCHEMA)
    assert found.n_rows == expected.n_rows == len(KINDS[kind])
    np.testing.assert_array_equal(found.packed, expected.packed)
    by_table, by_files = check_table(table, SCHEMA), check_table(files, SCHEMA, limit=0)
    assert by_table.attributes == by_files.attributes


def test_a_table_without_versions_that_grew_is_refused(make_table: Callable[..., Path]) -> None:
    folder = make_table("growing", MIXED)
    table = open_table(place("growing"), SCHEMA)
    pq.write_table(MIXED.slice(0, 2), folder / "more.parquet")
    with pytest.raises(DataError, match="do not write to it meanwhile"):
        moments_of_table(table, SCHEMA)


@pytest.mark.parametrize(
    ("name", "version", "said"), [("nowhere", None, "does not exist"), ("plain", 3, "no versions")]
)
def test_what_is_not_there_is_said(
    name: str, version: int | None, said: str, make_table: Callable[..., Path]
) -> None:
    make_table("plain", MIXED)
    with pytest.raises(DataError, match=said):
        open_table(place(name, version), SCHEMA)


def test_a_view_that_fails_on_a_row_says_nothing_of_the_row(
    spark: Any, make_table: Callable[..., Path], capfd: pytest.CaptureFixture[str]
) -> None:
    make_table("source_rows", MIXED)
    spark.sql("CREATE OR REPLACE VIEW failing AS SELECT cast(x AS int) x, b, c FROM source_rows")
    table = open_table(place("failing"), SCHEMA)
    with pytest.raises(DataError, match="a view fails on a row") as told:
        moments_of_table(table, SCHEMA)
    spark.conf.set("spark.sql.ansi.enabled", "false")  # a view keeps what it was made with
    try:
        with pytest.raises(DataError, match="a view fails on a row"):
            moments_of_table(table, SCHEMA)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    with pytest.raises(Exception, match="cannot be cast"):  # Spark itself would quote it
        spark.sql("SELECT * FROM failing").collect()
    out, err = capfd.readouterr()
    assert "hidden-word" not in str(told.value) + out + err
    assert logging.getLogger("SQLQueryContextLogger").disabled


def test_names_may_hold_what_a_statement_has_to_quote(
    spark: Any, make_table: Callable[..., Path], tmp_path: Path
) -> None:
    spark.sql("CREATE OR REPLACE VIEW `select` AS SELECT 1 AS `a ``b; --`, 'yes' AS b")
    schema = make_schema([numeric_of("a `b; --", 0, 2), binary_of("b", ["yes", "no"])])
    assert moments_of_table(open_table(place("select"), schema), schema).n_rows == 1


def test_the_session_is_authenticated_encrypted_and_without_a_page(spark: Any) -> None:
    for name, value in {
        "spark.authenticate": "true",
        "spark.network.crypto.enabled": "true",
        "spark.ui.enabled": "false",
    }.items():
        assert read_setting(spark, name) == value
    assert read_setting(spark, "spark.master") == "local[2,4]"


def test_a_session_that_was_there_already_does_not_get_more_private_by_being_asked(
    spark: Any,
) -> None:
    spark._jsparkSession.sessionState().conf().setConfString("spark.ssl.rpc.enabled", "true")
    assert spark.conf.get("spark.ssl.rpc.enabled") == "true"
    assert read_setting(spark, "spark.ssl.rpc.enabled") is None


def test_spark_on_this_machine_alone_listens_on_loopback(spark: Any) -> None:
    java = spark.sparkContext._gateway.proc.pid
    sockets = {os.readlink(path) for path in Path(f"/proc/{java}/fd").iterdir()}  # noqa: PTH115
    listening = set()
    for kind in ("tcp", "tcp6"):
        for line in Path(f"/proc/{java}/net/{kind}").read_text().splitlines()[1:]:
            _, local, _, state, *_, inode = line.split()[:10]
            if state == "0A" and f"socket:[{inode}]" in sockets:
                listening.add(local.partition(":")[0])
    assert listening
    assert listening <= LOOPBACK
