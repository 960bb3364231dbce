"""Counting labels, beside multiplying their indicators in the same code."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.environments import read_peak_mib
from benchmarks.performance.machine import run_apart
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import scan_parquet
from benchmarks.releases import numeric_attributes
from benchmarks.studies import adult, data_folder, parse_rows
from dppca.common.kernel.moments.accumulation import MomentSums, ProductMethod
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import Attribute, Column, Numeric, Schema
from dppca.owner.records.table import moments_of_table, open_table

TITLE = "Categorical rows"
ABOUT = """
Adult's schema (6 numerics, 2 binaries, 7 categoricals: 104 coded columns), its rows repeated. The
same code with labels counted as codes (what it chooses by itself), and with indicators multiplied.
The second table is the same rows from a Parquet file, on both cores, beside pyarrow alone reading
them into NumPy: numbers as they are, texts as codes of a list of them, which the file has, or which
pyarrow makes. The last is one attribute of 5,000 categories beside two numerics, in a process of
its own.
"""

ROWS = 10_000_000


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Rates of both methods, and the memory of a wide attribute."""
    data = adult(data_folder())
    schema = data.schema()
    columns = parse_rows(schema, data.rows)
    repeats = 1 if plan.quick else -(-ROWS // len(columns[0]))
    n_rows = len(columns[0]) * repeats
    plan.say(f"Adult, {n_rows} rows")
    add = partial(_add, schema, columns)
    subjects = {
        "counts": partial(add, repeats, ProductMethod.COUNTS),
        "two threads": partial(_in_two_threads, partial(add, max(1, repeats // 2))),
        "dense": partial(add, repeats, ProductMethod.DENSE),
    }
    timings = plan.race(subjects, work=n_rows, most=3, warm_up=False)
    counts, both, dense = timings.values()
    rates = counts.rate / 1e6, dense.rate / 1e6
    return [
        FigureTable(
            "Million rows a second, on one thread; and counted on two.",
            ("n", "counted", "indicators", "ratio", "by processor time", "counted on two"),
            ((n_rows, *rates, *counts.gains(dense), both.rate / 1e6),),
        ),
        _from_file(plan, schema, columns),
        _wide(plan),
    ]


def _add(
    schema: Schema,
    columns: list[Column],
    repeats: int,
    method: ProductMethod = ProductMethod.COUNTS,
) -> None:
    sums = MomentSums(schema, method=method)
    with one_blas_thread():
        for _ in range(repeats):
            sums.add(columns)
        sums.total()


def _in_two_threads(half: partial[None]) -> None:
    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(half) for _ in range(2)]:
            done.result()


def _from_file(plan: BenchmarkPlan, schema: Schema, columns: list[Column]) -> FigureTable:
    rows = pa.table({a.name: _cells(a, c) for a, c in zip(schema.attributes, columns, strict=True)})
    lines = [_race_reading(plan, schema, rows, listed=listed) for listed in (True, False)]
    return FigureTable(
        "Million rows a second from Parquet.",
        ("texts", "n", "pyarrow alone", "DPPCA", "ratio", "by processor time"),
        tuple(lines),
    )


def _race_reading(
    plan: BenchmarkPlan, schema: Schema, rows: pa.Table, *, listed: bool
) -> tuple[Cell, ...]:
    path, repeats = plan.scratch / "rows.parquet", 1 if plan.quick else 40
    texts = [field.name for field in rows.schema if pa.types.is_string(field.type)]
    lists = [name for name in rows.column_names if listed or name not in texts]
    with pq.ParquetWriter(path, rows.schema, use_dictionary=lists) as writer:
        for _ in range(repeats):
            writer.write_table(rows)
    n_rows, kind = rows.num_rows * repeats, "listed" if listed else "plain"
    plan.say(f"Adult from Parquet, {n_rows} rows, texts {kind}")
    scan = partial(scan_parquet, path, texts=texts)
    ours = partial(moments_of_table, open_table(path, schema), schema)
    alone, mine = plan.race({"pyarrow": scan, "ours": ours}, work=n_rows).values()
    path.unlink()
    return kind, n_rows, *mine.rates(alone)


def _cells(attribute: Attribute, column: Column) -> pa.Array:
    if isinstance(attribute, Numeric):
        return pa.array(column)
    # A label that is none of the schema's is as good as any other to a reader.
    return pa.array(np.array([*attribute.labels, "?"])[np.maximum(column, -1)])


def _wide(plan: BenchmarkPlan) -> FigureTable:
    n_rows = 20_000 if plan.quick else 2_000_000
    plan.say(f"one attribute of 5,000 categories, {n_rows} rows")
    seconds, peak, entries = run_apart(run_wide, n_rows)
    return FigureTable(
        "One attribute of 5,000 categories: seconds for its rows, and the process's peak memory.",
        ("n", "coded columns", "entries", "seconds", "peak MiB"),
        ((n_rows, 5002, entries, seconds, peak),),
    )


def run_wide(n_rows: int) -> tuple[float, float, int]:
    """Seconds, peak memory in MiB and entries; for a process of its own."""
    labels = [f"c{i}" for i in range(5000)]
    wide = {"name": "c", "type": "categorical", "categories": labels}
    schema = Schema.from_document({"attributes": [*numeric_attributes(2, 0, 1), wide]})
    rng = np.random.default_rng(3)
    numbers = rng.random((2, 20_000))
    codes = rng.integers(0, 5000, 20_000).astype(np.int32)
    begin = perf_counter()
    sums = MomentSums(schema)
    for _ in range(n_rows // 20_000):
        sums.add([*numbers, codes])
    entries = len(sums.total().packed)
    return perf_counter() - begin, read_peak_mib(), entries
