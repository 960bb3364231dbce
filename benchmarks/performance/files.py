"""Exact moments of files, beside pyarrow alone reading the same columns into NumPy."""

from functools import partial
from pathlib import Path
from time import perf_counter

import pyarrow.csv

from benchmarks.environments import read_peak_mib
from benchmarks.performance.machine import run_apart
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import numeric_schema, scan_parquet, write_rows
from dppca.owner.records.table import moments_of_table, open_table

TITLE = "Files larger than memory"
ABOUT = """
Reading, coding and multiplying a file's rows, beside pyarrow reading the same columns into NumPy
arrays and doing nothing with them. Numbers have all their digits, which Parquet stores as they are
(nothing to decompress), or three decimals (a list of numbers and places in it: the fastest case
for pyarrow alone). Opening a CSV file counts its rows, which reads it once more: its seconds are
given apart. The second table is the
peak memory of a whole process, interpreter and libraries included, that opens and adds up a file.
"""

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
                *("format", "numbers", "columns", "n", "pyarrow alone", "DPPCA", "ratio"),
                *("by processor time", "opening"),
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
    scan = partial(scan_parquet if kind == "parquet" else _scan_csv, path)
    ours = partial(moments_of_table, table, schema)
    timings = plan.race({"pyarrow": scan, "ours": ours}, work=n * d)
    path.unlink()
    alone, mine = timings.values()
    return kind, numbers, d, n, *mine.rates(alone), opening


def _peak(plan: BenchmarkPlan, kind: str, d: int, n: int) -> tuple[Cell, ...]:
    plan.say(f"memory: {kind}, d = {d}, n = {n}")
    path = plan.scratch / f"rows.{kind}"
    write_rows(path, d, n)
    size = path.stat().st_size / 2**20
    seconds, peak = run_apart(run_peak, str(path), d)
    path.unlink()
    return kind, d, n, size, seconds, peak


def run_peak(path: str, n_columns: int) -> tuple[float, float]:
    """Seconds and peak memory in MiB; for a process of its own."""
    schema = numeric_schema(n_columns)
    begin = perf_counter()
    table = open_table(Path(path), schema)
    moments = moments_of_table(table, schema)
    seconds = perf_counter() - begin
    assert moments.n_rows == table.n_rows
    return seconds, read_peak_mib()


def _scan_csv(path: Path) -> None:
    with pyarrow.csv.open_csv(path) as stream:
        for batch in stream:
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False)
