"""DPPCA and Spark's own ways in one Spark session; started by `spark` in Spark's environment.

``python spark_guest.py FOLDER COLUMNS COMPONENTS`` starts a session and makes a table of the
folder's Parquet files. Every line of its input is an action of `main`, or ``java`` or ``python``:
the processor seconds of the last action there. An action's answer is the seconds it took.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.environments import serve

TICKS = os.sysconf("SC_CLK_TCK")


def main() -> None:
    """Serve until the input ends."""
    os.environ.pop("PYTHONPATH", None)  # Spark's workers are sent what they need
    from benchmarks.performance.tables import numeric_schema
    from dppca.owner.engines.engine import Engine, LocalEngine
    from dppca.owner.engines.selection import open_engine
    from dppca.owner.records.check import FaultCounts
    from dppca.owner.records.file_locations import local_files
    from dppca.owner.records.spark_sessions import open_session
    from dppca.owner.records.spark_tables import SparkLocation
    from dppca.owner.records.table import Table, open_table

    folder, schema, components = Path(sys.argv[1]), numeric_schema(int(sys.argv[2])), sys.argv[3]
    given = {"warehouse": "spark.sql.warehouse.dir", "local": "spark.local.dir"}
    settings = [f"--conf {name}={folder.with_name(each)}" for each, name in given.items()]
    arguments = ["--master", "local[2]", "--driver-memory", "2g", *settings, "pyspark-shell"]
    os.environ["PYSPARK_SUBMIT_ARGS"] = " ".join(arguments)
    feature: Any = import_module("pyspark.ml.feature")
    session = open_session()
    session.sql(f"CREATE TABLE people USING parquet LOCATION '{folder}'")
    names = [attribute.name for attribute in schema.attributes]
    place = SparkLocation("people", ("spark_catalog", "default", "people"))
    files, table = open_table(local_files(folder), schema), open_table(place, schema)
    found: dict[str, bytes] = {}
    spent = {"java": 0.0, "python": 0.0}

    def add_up(engine: Engine, name: str, rows: Table) -> None:
        moments = engine.sum_table(rows, tally=FaultCounts(schema), progress=lambda _: None)
        found[name] = moments.packed.tobytes()

    def own_sums() -> None:
        session.table("people").agg(dict.fromkeys(names, "sum")).collect()

    def count() -> None:
        rows = session.table("people").mapInArrow(_counting(), "n bigint").collect()
        assert sum(row[0] for row in rows) == files.n_rows

    def fit() -> None:
        rows = feature.VectorAssembler(inputCols=names, outputCol="row").transform(
            session.table("people")
        )
        feature.PCA(k=int(components), inputCol="row", outputCol="found").fit(rows)

    def compare() -> None:
        assert len(set(found.values())) == 1, "other integers"
        assert len(found) == 3

    with open_engine("spark", folder) as engine:
        actions: dict[str, Callable[[], None]] = {
            "files": lambda: add_up(engine, "files", files),
            "table": lambda: add_up(engine, "table", table),
            "one process": lambda: add_up(LocalEngine(), "one process", files),
            "own sums": own_sums,
            "count": count,
            "pyspark.ml": fit,
            "compare": compare,
        }

        def answer(asked: str) -> float:
            nonlocal spent
            if asked in spent:
                return spent[asked]
            before, begin = _processes(), perf_counter()
            actions[asked]()
            seconds = perf_counter() - begin
            spent = _processor_seconds(before)
            return seconds

        serve(answer)


def _counting() -> Callable[[Any], Any]:
    """For a worker, sent by value."""

    def count(batches: Any) -> Any:
        import pyarrow as pa

        n_rows = sum(batch.num_rows for batch in batches)
        yield pa.RecordBatch.from_pydict({"n": [n_rows]})

    return count


def _processor_seconds(before: Mapping[int, tuple[str, int]]) -> dict[str, float]:
    """Since then, of Java and of Python.

    By process: what an idle worker has used is in no process any more once Spark has ended it.
    """
    spent = {"java": 0.0, "python": 0.0}
    for pid, (kind, ticks) in _processes().items():
        spent[kind] += (ticks - before.get(pid, (kind, 0))[1]) / TICKS
    return spent


def _processes() -> dict[int, tuple[str, int]]:
    """Which kind this process and all below it are, and the processor ticks that each has used."""
    parents, found = dict[int, int](), dict[int, tuple[str, int]]()
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                name, _, rest = (folder / "stat").read_text().rpartition(") ")
            except OSError:  # it has ended meanwhile
                continue
            fields, pid = rest.split(), int(folder.name)
            parents[pid] = int(fields[1])
            kind = "java" if name.endswith("(java") else "python"
            found[pid] = kind, int(fields[11]) + int(fields[12])
    ours = {os.getpid()}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return {pid: found[pid] for pid in ours}


if __name__ == "__main__":
    main()
