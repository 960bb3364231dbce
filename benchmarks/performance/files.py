"""Exact moments of files, beside pyarrow alone reading the same columns into NumPy."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from benchmarks.performance.machine import peak_mib
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import numeric_schema
from dppca.owner.records import moments_of_table, open_table

TITLE = "Files larger than memory"
ABOUT = """
Reading, coding and multiplying a file's rows, beside pyarrow reading the same columns into NumPy
arrays and doing nothing with them. Numbers have all their digits, which Parquet stores as they are
(nothing to decompress), or three decimals (a list of numbers and places in it: the fastest case
for pyarrow alone). Opening a CSV file counts its rows, which reads it once more: its seconds are
given apart. The second table is the
peak memory of a whole process, interpreter and libraries included, that opens and adds up a file.
"""

_GROUP_ROWS = 100_000
_RATES = (
    ("parquet", "all digits", 20, 2_000_000),
    ("parquet", "three decimals", 20, 2_000_000),
    ("parquet", "all digits", 200, 200_000),
    ("csv", "all digits", 20, 300_000),
)
_PEAKS = (
    ("parquet", 20, 1_000_000),
    ("parquet", 20, 4_000_000),
    ("parquet", 20, 16_000_000),
    ("parquet", 200, 400_000),
    ("parquet", 200, 1_600_000),
    ("csv", 20, 250_000),
    ("csv", 20, 1_000_000),
    ("csv", 20, 4_000_000),
    ("csv", 200, 100_000),
)
_TINY_RATES = (("parquet", "three decimals", 4, 3000), ("csv", "all digits", 3, 2000))
_TINY_PEAKS = (("parquet", 4, 3000), ("csv", 4, 2000))


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Rates beside pyarrow's, then peaks."""
    rates = _TINY_RATES if plan.quick else _RATES
    peaks = _TINY_PEAKS if plan.quick else _PEAKS
    return [
        FigureTable(
            "Million cells a second, and seconds of opening; the ratio is DPPCA to pyarrow alone.",
            (
                "format",
                "numbers",
                "columns",
                "n",
                "pyarrow alone",
                "DPPCA",
                "ratio",
                "by processor time",
                "opening",
            ),
            tuple(_rate(plan, *each) for each in rates),
        ),
        FigureTable(
            "Peak memory of a process, opening included.",
            ("format", "columns", "n", "file MiB", "seconds", "peak MiB"),
            tuple(_peak(plan, *each) for each in peaks),
        ),
    ]


def _rate(plan: BenchmarkPlan, kind: str, numbers: str, d: int, n: int) -> tuple[Cell, ...]:
    plan.say(f"{kind}, {numbers}, d = {d}, n = {n}")
    path = plan.scratch / f"rows.{kind}"
    write_rows(path, d, n, decimals=3 if numbers == "three decimals" else None)
    schema = numeric_schema(d)
    begin = perf_counter()
    table = open_table(path, schema)
    opening = perf_counter() - begin

    def ours() -> None:
        moments_of_table(table, schema)

    timings = time_subjects(
        [
            BenchmarkSubject("pyarrow", _scan(path, kind), n * d),
            BenchmarkSubject("ours", ours, n * d),
        ],
        rounds=plan.rounds,
    )
    path.unlink()
    alone, mine = timings["pyarrow"].rate, timings["ours"].rate
    by_cpu = timings["pyarrow"].median_cpu_s / timings["ours"].median_cpu_s
    return kind, numbers, d, n, alone / 1e6, mine / 1e6, mine / alone, by_cpu, opening


def _peak(plan: BenchmarkPlan, kind: str, d: int, n: int) -> tuple[Cell, ...]:
    plan.say(f"memory: {kind}, d = {d}, n = {n}")
    path = plan.scratch / f"rows.{kind}"
    write_rows(path, d, n, decimals=None)
    size = path.stat().st_size / 2**20
    call = f"from {__name__} import run_peak; run_peak({str(path)!r}, {d})"
    done = subprocess.run([sys.executable, "-c", call], check=True, capture_output=True, text=True)
    path.unlink()
    seconds, peak = done.stdout.split()
    return kind, d, n, size, float(seconds), float(peak)


def run_peak(path: str, n_columns: int) -> None:
    """Print seconds and peak memory in MiB; in a process of its own."""
    schema = numeric_schema(n_columns)
    begin = perf_counter()
    table = open_table(Path(path), schema)
    moments = moments_of_table(table, schema)
    seconds = perf_counter() - begin
    assert moments.n_rows == table.n_rows
    print(f"{seconds:.4f} {peak_mib():.1f}")


def write_rows(path: Path, d: int, n: int, *, decimals: int | None) -> None:
    """One group of rows again and again, with Parquet's own defaults, or CSV as pyarrow has it."""
    numbers = np.random.default_rng(22).standard_normal((d, min(n, _GROUP_ROWS)))
    if decimals is not None:
        numbers = numbers.round(decimals)
    group = pa.table({f"x{i}": numbers[i] for i in range(d)})
    writer = (
        pq.ParquetWriter(path, group.schema)
        if path.suffix == ".parquet"
        else pa.csv.CSVWriter(path, group.schema)
    )
    with writer:
        for start in range(0, n, group.num_rows):
            writer.write_table(group.slice(0, min(group.num_rows, n - start)))


def _scan(path: Path, kind: str) -> Callable[[], None]:
    def parquet() -> None:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches():
                for column in batch.columns:
                    column.to_numpy(zero_copy_only=False)

    def csv() -> None:
        with pa.csv.open_csv(path) as stream:
            for batch in stream:
                for column in batch.columns:
                    column.to_numpy(zero_copy_only=False)

    return parquet if kind == "parquet" else csv
