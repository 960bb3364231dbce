"""Sum a folder of Parquet files by Spark, as files and as a table, and beside it by this process.

``two_ways.py FOLDER [kill]``, in the session that the environment names. With ``kill`` an executor
of another process is killed in the middle of each pass.
"""

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.moments.moments import Moments
from dppca.owner.engines import cluster as module
from dppca.owner.engines.engine import Engine, LocalEngine
from dppca.owner.engines.selection import open_engine
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.spark_sessions import is_by_connect, open_session
from dppca.owner.records.spark_tables import SparkLocation
from dppca.owner.records.table import Table, open_table
from tests.support.engines import MIXED

SLOWLY = "length(coalesce(java_method('java.lang.Thread', 'sleep', 2L), '')) < 100"
"""Two milliseconds for each row."""


def main(folder: Path, *, kill: bool) -> None:
    """Print ``the same integers``, or raise."""
    module.make_manifest.__kwdefaults__["least_bytes"] = 1
    session = open_session()
    if not is_by_connect(session):
        sys.stdout.write(f"{session.sparkContext.applicationId}\n")
    marked = pa.table({name: ["hidden-word"] * 3 for name in ("x", "y", "b", "c")})
    pq.write_table(marked, folder.parent / "marked.parquet")
    # Spark itself would quote the cell.
    session.sql(f"CREATE TABLE marked USING parquet LOCATION '{folder.parent / 'marked.parquet'}'")
    session.sql("CREATE VIEW failing AS SELECT cast(x AS int) x, y, b, c FROM marked")
    session.sql(f"CREATE TABLE rows_of_files USING parquet LOCATION '{folder}'")
    session.sql(f"CREATE VIEW slow_rows AS SELECT * FROM rows_of_files WHERE {SLOWLY}")
    session.conf.set("spark.sql.files.openCostInBytes", str(1 << 30))  # a partition for each file
    files, slow = open_table(local_files(folder), MIXED), open_table(_place("slow_rows"), MIXED)
    ours, _ = add_up(LocalEngine(), files)
    with open_engine("spark", folder) as engine:
        for table in (files, slow):
            found, said = add_up(engine, table, killing_once() if kill else None)
            np.testing.assert_array_equal(found.packed, ours.packed)
            assert found.n_rows == ours.n_rows == sum(said)
            assert len(said) > 1, "it was said how far the pass was"
        add_up(engine, open_table(_place("marked"), MIXED))
        try:
            add_up(engine, open_table(_place("failing"), MIXED))
        except DataError as error:
            sys.stdout.write(f"{error}\n")
        else:
            raise AssertionError
    session.stop()
    sys.stdout.write("the same integers\n")


def add_up(
    engine: Engine, table: Table, act: Callable[[], Any] | None = None
) -> tuple[Moments, list[int]]:
    """Its moments, and the rows that were said to be done each time."""
    said = list[int]()

    def progress(n_rows: int) -> None:
        said.append(n_rows)
        if act is not None and sum(said) < table.n_rows:
            act()

    return engine.sum_table(table, tally=FaultCounts(MIXED), progress=progress), said


def killing_once() -> Callable[[], None]:
    """What kills an executor when it is first called; it fails where there is none."""
    killed = set[int]()

    def kill() -> None:
        if not killed:
            killed.add(executors().pop())
            os.kill(min(killed), signal.SIGKILL)
            sys.stdout.write("an executor was killed\n")

    return kill


def executors() -> set[int]:
    """Processes of Spark's executors, children of our Java."""
    found, parents = set[int](), dict[int, int]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                line = (folder / "cmdline").read_bytes()
                parent = (folder / "stat").read_text().rpartition(") ")[2].split()[1]
            except OSError:  # it has ended meanwhile
                continue
            parents[int(folder.name)] = int(parent)
            if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in line:
                found.add(int(folder.name))
    return {pid for pid in found if parents.get(parents[pid]) == os.getpid()}


def _place(name: str) -> SparkLocation:
    return SparkLocation(f"{name} (Spark table)", ("spark_catalog", "default", name))


if __name__ == "__main__":
    main(Path(sys.argv[1]), kill="kill" in sys.argv[2:])
