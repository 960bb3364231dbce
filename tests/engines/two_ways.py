"""Sum a folder of Parquet files by Spark, as files and as a table, and beside it by this process.

``two_ways.py FOLDER``, in the session that the environment names.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dppca.common.errors import DataError
from dppca.owner.engines import engine as module
from dppca.owner.engines.engine import LocalEngine, open_engine
from dppca.owner.records import FaultCounts, open_table
from dppca.owner.records.locations import SparkLocation, local_files
from dppca.owner.records.spark_sessions import open_session
from tests.support.engines import MIXED


def main(folder: Path) -> None:
    """Print ``the same integers``, or raise."""
    module.make_manifest.__kwdefaults__["least_bytes"] = 1
    session = open_session()
    marked = pa.table({name: ["hidden-word"] * 3 for name in ("x", "y", "b", "c")})
    pq.write_table(marked, folder.parent / "marked.parquet")
    # Views of a session, so that no catalogue is needed; Spark itself would quote the cell.
    session.sql(f"CREATE TABLE marked USING parquet LOCATION '{folder.parent / 'marked.parquet'}'")
    session.sql("CREATE VIEW failing AS SELECT cast(x AS int) x, y, b, c FROM marked")
    session.sql(f"CREATE TABLE rows_of_files USING parquet LOCATION '{folder}'")
    files = open_table(local_files(folder), MIXED)
    ours = LocalEngine().sum_table(files, tally=FaultCounts(MIXED), progress=lambda _: None)
    with open_engine("spark", folder) as engine:
        for table in (files, open_table(_place("rows_of_files"), MIXED)):
            found = engine.sum_table(table, tally=FaultCounts(MIXED), progress=lambda _: None)
            np.testing.assert_array_equal(found.packed, ours.packed)
            assert found.n_rows == ours.n_rows
        sound = open_table(_place("marked"), MIXED)
        engine.sum_table(sound, tally=FaultCounts(MIXED), progress=lambda _: None)
        try:
            failing = open_table(_place("failing"), MIXED)
            engine.sum_table(failing, tally=FaultCounts(MIXED), progress=lambda _: None)
        except DataError as error:
            sys.stdout.write(f"{error}\n")
        else:
            raise AssertionError
    session.stop()
    sys.stdout.write("the same integers\n")


def _place(name: str) -> SparkLocation:
    return SparkLocation(("spark_catalog", "default", name), None, f"{name} (Spark table)")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
