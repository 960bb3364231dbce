"""Counting labels, beside multiplying their indicators in the same code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.performance.machine import peak_mib
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, FigureTable
from benchmarks.studies import adult, data_folder
from dppca.common.numerics.moments.accumulation import MomentSums, ProductMethod
from dppca.common.numerics.threads import one_blas_thread
from dppca.common.schema import Attribute, Column, Numeric, Schema
from dppca.owner.records import moments_of_table, open_table, parse_column

TITLE = "Categorical rows"
ABOUT = """
Adult's schema (6 numerics, 2 binaries, 7 categoricals: 104 coded columns), its rows repeated. The
same code with labels counted as codes (what it chooses by itself), and with indicators multiplied.
The second table is the same rows from a Parquet file, beside pyarrow alone reading them into NumPy:
numbers as they are, texts as codes of the file's own list of them. The last is one attribute of
5,000 categories beside two numerics, in a process of its own.
"""

ROWS = 10_000_000


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Rates of both methods, and the memory of a wide attribute."""
    schema, columns = _adult()
    repeats = 1 if plan.quick else -(-ROWS // len(columns[0]))
    n_rows = len(columns[0]) * repeats
    plan.say(f"Adult, {n_rows} rows")
    timings = time_subjects(
        [
            BenchmarkSubject(
                "counts", _adding(schema, columns, repeats, ProductMethod.COUNTS), n_rows
            ),
            BenchmarkSubject("two threads", _adding_twice(schema, columns, repeats), n_rows),
            BenchmarkSubject(
                "dense", _adding(schema, columns, repeats, ProductMethod.DENSE), n_rows
            ),
        ],
        rounds=min(plan.rounds, 3),
        warm_up=False,
    )
    counts, dense = timings["counts"], timings["dense"]
    rates = counts.rate / 1e6, dense.rate / 1e6
    by_cpu = dense.median_cpu_s / counts.median_cpu_s
    both = timings["two threads"].rate / 1e6
    return [
        FigureTable(
            "Million rows a second, on one thread; and counted on two.",
            ("n", "counted", "indicators", "ratio", "by processor time", "counted on two"),
            ((n_rows, *rates, rates[0] / rates[1], by_cpu, both),),
        ),
        _from_file(plan, schema, columns),
        _wide(plan),
    ]


def _adult() -> tuple[Schema, list[Column]]:
    data = adult(data_folder())
    schema = Schema.from_document({"attributes": list(data.attributes)})
    return schema, [
        parse_column(attribute, pa.array([row[index] for row in data.rows]))
        for index, attribute in enumerate(schema.attributes)
    ]


def _adding(
    schema: Schema, columns: list[Column], repeats: int, method: ProductMethod
) -> Callable[[], None]:
    def run() -> None:
        sums = MomentSums(schema, method=method)
        with one_blas_thread():
            for _ in range(repeats):
                sums.add(columns)
            sums.total()

    return run


def _adding_twice(schema: Schema, columns: list[Column], repeats: int) -> Callable[[], None]:
    half = _adding(schema, columns, max(1, repeats // 2), ProductMethod.COUNTS)

    def run() -> None:
        with ThreadPoolExecutor(2) as pool:
            for done in [pool.submit(half) for _ in range(2)]:
                done.result()

    return run


def _from_file(plan: BenchmarkPlan, schema: Schema, columns: list[Column]) -> FigureTable:
    path = plan.scratch / "rows.parquet"
    rows = pa.table({a.name: _cells(a, c) for a, c in zip(schema.attributes, columns, strict=True)})
    repeats = 1 if plan.quick else 40
    with pq.ParquetWriter(path, rows.schema) as writer:
        for _ in range(repeats):
            writer.write_table(rows)
    n_rows = rows.num_rows * repeats
    plan.say(f"Adult from Parquet, {n_rows} rows")
    table = open_table(path, schema)

    def ours() -> None:
        moments_of_table(table, schema)

    timings = time_subjects(
        [BenchmarkSubject("pyarrow", _scan(path), n_rows), BenchmarkSubject("ours", ours, n_rows)],
        rounds=plan.rounds,
    )
    path.unlink()
    alone, mine = timings["pyarrow"].rate / 1e6, timings["ours"].rate / 1e6
    by_cpu = timings["pyarrow"].median_cpu_s / timings["ours"].median_cpu_s
    return FigureTable(
        "Million rows a second from Parquet.",
        ("n", "pyarrow alone", "DPPCA", "ratio", "by processor time"),
        ((n_rows, alone, mine, mine / alone, by_cpu),),
    )


def _cells(attribute: Attribute, column: Column) -> pa.Array:
    if isinstance(attribute, Numeric):
        return pa.array(column)
    # A label that is none of the schema's is as good as any other to a reader.
    return pa.array(np.array([*attribute.labels, "?"])[np.maximum(column, -1)])


def _scan(path: Path) -> Callable[[], None]:
    texts = [field.name for field in pq.read_schema(path) if pa.types.is_string(field.type)]

    def run() -> None:
        with pq.ParquetFile(path, read_dictionary=texts) as file:
            for batch in file.iter_batches():
                for column in batch.columns:
                    numbers = column.indices if pa.types.is_dictionary(column.type) else column
                    numbers.to_numpy(zero_copy_only=False)

    return run


def _wide(plan: BenchmarkPlan) -> FigureTable:
    n_rows = 20_000 if plan.quick else 2_000_000
    plan.say(f"one attribute of 5,000 categories, {n_rows} rows")
    command = [sys.executable, "-c", f"from {__name__} import run_wide; run_wide({n_rows})"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak, entries = done.stdout.split()
    return FigureTable(
        "One attribute of 5,000 categories: seconds for its rows, and the process's peak memory.",
        ("n", "coded columns", "entries", "seconds", "peak MiB"),
        ((n_rows, 5002, int(entries), float(seconds), float(peak)),),
    )


def run_wide(n_rows: int) -> None:
    """Print seconds, peak memory in MiB and entries; in a process of its own."""
    from time import perf_counter

    numerics = [{"name": n, "type": "numeric", "lower": 0, "upper": 1} for n in ("x", "y")]
    labels = [f"c{i}" for i in range(5000)]
    wide = {"name": "c", "type": "categorical", "categories": labels}
    schema = Schema.from_document({"attributes": [*numerics, wide]})
    rng = np.random.default_rng(3)
    numbers = rng.random((2, 20_000))
    codes = rng.integers(0, 5000, 20_000).astype(np.int32)
    begin = perf_counter()
    sums = MomentSums(schema)
    for _ in range(n_rows // 20_000):
        sums.add([*numbers, codes])
    entries = len(sums.total().packed)
    seconds = perf_counter() - begin
    print(f"{seconds:.4f} {peak_mib():.1f} {entries}")
