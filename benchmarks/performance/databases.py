"""Exact moments of a table in PostgreSQL, beside its driver alone reading the same rows."""

from contextlib import closing
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from benchmarks.local_postgres import find_programs, server_address, start_server
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import BOUND
from benchmarks.releases import numeric_attributes
from dppca.common.kernel.schema import Schema
from dppca.owner.records.databases import PostgreSQLLocation
from dppca.owner.records.locations import Secret
from dppca.owner.records.table import moments_of_table, open_table

TITLE = "Rows in PostgreSQL"
ABOUT = """
Counting, reading, coding and multiplying the rows of a table in a PostgreSQL server on this
machine, in one transaction that only reads, beside the same ADBC driver reading the same columns
into Arrow batches and doing nothing with them. Ten columns: six numbers with all their digits, two
integers, a label of eight and a truth value; or their numbers as exact decimals (NUMERIC), which
the server sends as text. The server's own work is in both.
"""

_ADBC: Any = import_module("adbc_driver_postgresql.dbapi")
_LABELS = [f"ward {number}" for number in range(8)]
_CHUNK_ROWS = 100_000


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Rates beside the driver's; a line of dashes where no server is installed."""
    caption = "Million rows a second; the ratio is DPPCA to the driver alone."
    columns = ("numbers", "n", "driver alone", "DPPCA", "ratio", "by processor time")
    programs = find_programs()
    if programs is None:
        missing = ("no PostgreSQL server is installed", None, None, None, None, None)
        return [FigureTable(caption, columns, (missing,))]
    n = 2000 if plan.quick else 2_000_000
    with start_server(programs, buffers="256MB") as folder:
        rows = tuple(_race(plan, folder, kind, n) for kind in ("float8", "numeric"))
    return [FigureTable(caption, columns, rows)]


def _race(plan: BenchmarkPlan, folder: Path, kind: str, n: int) -> tuple[Cell, ...]:
    plan.say(f"{kind}, n = {n}")
    address, name = server_address(folder), f"rows_{kind}"
    names = [*(f"x{i}" for i in range(6)), "i0", "i1", "label", "truth"]
    _fill(address, name, kind, n)
    kept = plan.scratch / "dsn"
    kept.write_text(address)
    kept.chmod(0o600)
    place = PostgreSQLLocation(name, secret=Secret(path=kept), table=name, query=None)
    schema = _schema()

    def ours() -> None:
        moments = moments_of_table(open_table(place, schema), schema)
        assert moments.n_rows == n

    driver = partial(_read, address, f"SELECT {', '.join(names)} FROM {name}")  # noqa: S608 - ours
    alone, mine = plan.race({"driver": driver, "ours": ours}, work=n).values()
    return kind, n, *mine.rates(alone)


def _read(address: str, query: str) -> None:
    with closing(_ADBC.connect(address)) as connection, closing(connection.cursor()) as cursor:
        cursor.execute(query)
        with closing(cursor.fetch_record_batch()) as batches:
            for _ in batches:
                pass


def _fill(address: str, table: str, kind: str, n: int) -> None:
    """A table of made-up rows, always the same."""
    numbers = ", ".join(f"x{i} {kind}" for i in range(6))
    columns = f"{numbers}, i0 int4, i1 int4, label text, truth boolean"
    draw = np.random.default_rng(23)
    chunk = pa.table(
        {
            **{f"x{i}": draw.standard_normal(min(n, _CHUNK_ROWS)) for i in range(6)},
            **{f"i{i}": draw.integers(0, 100, min(n, _CHUNK_ROWS), np.int32) for i in range(2)},
            "label": [_LABELS[code] for code in draw.integers(0, 8, min(n, _CHUNK_ROWS))],
            "truth": draw.random(min(n, _CHUNK_ROWS)) < 0.5,
        }
    )
    with (
        closing(_ADBC.connect(address, autocommit=True)) as connection,
        closing(connection.cursor()) as cursor,
    ):
        cursor.execute("CREATE TABLE filled (" + columns.replace(kind, "float8") + ")")
        for start in range(0, n, chunk.num_rows):
            part = chunk.slice(0, min(chunk.num_rows, n - start))
            cursor.adbc_ingest("filled", part, mode="append")
        cursor.execute(f"CREATE TABLE {table} ({columns})")
        cursor.execute(f"INSERT INTO {table} SELECT * FROM filled")  # noqa: S608 - names of ours
        cursor.execute("DROP TABLE filled")


def _schema() -> Schema:
    numerics = numeric_attributes(6, -BOUND, BOUND) + numeric_attributes(2, 0, 100, stem="i")
    labels = {"name": "label", "type": "categorical", "categories": _LABELS}
    truth = {"name": "truth", "type": "binary", "values": ["false", "true"]}
    return Schema.from_document({"attributes": [*numerics, labels, truth]})
