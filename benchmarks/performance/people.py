"""Rows of people who have several, beside rows of whom the most of one person are counted."""

from collections.abc import Iterator
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.environments import read_peak_mib
from benchmarks.performance.machine import run_apart
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.releases import label_attribute, numeric_attribute
from dppca.common.kernel.schema import Schema
from dppca.owner.records.table import moments_of_table, open_table

TITLE = "People with several rows"
ABOUT = """
Two passes over a file of a key and 19 columns, 13 numbers of two decimals and 6 labels, with ten
rows a person on average: `unit: person` counts each person's rows and adds them up with their
weights; `unit: row` counts the most rows of one key and adds up rows, as 0.2.0 did with a `key`.
Opening is left out. Polars groups the same file by its key, with the number of rows and the mean of
each number. Each runs in a process of its own, with its peak memory, interpreter and libraries
included. The ratio is of processor time.
"""
KEY, _PEOPLE_ROWS, _GROUP_ROWS = "person", 10, 100_000
_NUMBERS = [f"x{place}" for place in range(13)]
_LABELS = ("no", "yes", "maybe", "other", "refused")
_CASES = (("parquet", "sorted"), ("csv", "sorted"), ("csv", "unsorted"))
_ROWS, _TINY = 50_000_000, 20_000


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """Two passes over people, and over rows; polars."""
    n = _TINY if plan.quick else _ROWS
    return [
        FigureTable(
            "Processor seconds and peak MiB; seconds are by the clock.",
            (
                *("format", "keys", "n", "people", "row", "person", "ratio", "seconds of person"),
                *("peak of row", "peak of person", "polars", "peak of polars"),
            ),
            tuple(_compare(plan, kind, order, n) for kind, order in _CASES),
        )
    ]


def _compare(plan: BenchmarkPlan, kind: str, order: str, n: int) -> tuple[Cell, ...]:
    path = plan.scratch / f"rows.{kind}"
    plan.say(f"{kind}, {order}: {n:,} rows are written")
    n_people = run_apart(write_people, str(path), order, n)
    found = {}
    for unit in ("row", "person"):
        plan.say(f"unit: {unit}")
        found[unit] = run_apart(add_up, str(path), unit)
    plan.say("polars")
    grouped = run_apart(group_by_polars, str(path))
    path.unlink()
    (cpu_row, _, peak_row), (cpu, seconds, peak) = found.values()
    figures = cpu_row, cpu, cpu / cpu_row, seconds, peak_row, peak
    return kind, order, n, n_people, *figures, grouped[0], grouped[2]


def write_people(path: str, order: str, n: int) -> int:
    """Write rows, always the same; return the number of people, of whom each has 1 to 19 rows."""
    keys = _keys(n)
    n_people = int(keys[-1]) + 1
    if order == "unsorted":
        np.random.default_rng(24).shuffle(keys)
    batches = _batches(keys)
    first = next(batches)
    kind = pq.ParquetWriter if path.endswith("parquet") else pyarrow.csv.CSVWriter
    with kind(path, first.schema) as writer:
        writer.write_table(first)
        for batch in batches:
            writer.write_table(batch)
    return n_people


def _keys(n: int) -> NDArray[np.int32]:
    rows = np.random.default_rng(23).integers(1, 2 * _PEOPLE_ROWS, n // _PEOPLE_ROWS * 2)
    return np.repeat(np.arange(len(rows), dtype=np.int32), rows)[:n]


def _batches(keys: NDArray[np.int32]) -> Iterator[Any]:
    """One group of rows again and again, each with keys of its own."""
    rng, n = np.random.default_rng(25), min(len(keys), _GROUP_ROWS)
    numbers = rng.uniform(0, 100, (len(_NUMBERS), n)).round(2)
    columns = dict(zip(_NUMBERS, map(pa.array, numbers), strict=True))
    for name, places in zip("abcdef", rng.integers(0, len(_LABELS), (6, n)), strict=True):
        columns[name] = pa.array(np.array(_LABELS)[places])
    for start in range(0, len(keys), n):
        part = pa.array(keys[start : start + n])
        yield pa.table({KEY: part} | {k: each[: len(part)] for k, each in columns.items()})


def add_up(path: str, unit: str) -> tuple[float, float, float]:
    """Count keys and add up; return processor seconds, seconds and peak MiB, as each of these."""
    schema = Schema.from_document(
        {
            "unit": unit,
            "attributes": [
                *(numeric_attribute(name, 0, 100) for name in _NUMBERS),
                *(label_attribute(name, [*_LABELS]) for name in "abcdef"),
            ],
        }
    )
    opened = open_table(Path(path), schema)
    begin, begin_cpu = perf_counter(), process_time()
    if unit == "row":
        assert opened.count_keys(KEY, allowed=2 * _PEOPLE_ROWS).most < 2 * _PEOPLE_ROWS
        moments_of_table(opened, schema)
    else:
        with opened.latest(KEY) as table:
            moments_of_table(table, schema)
    return process_time() - begin_cpu, perf_counter() - begin, read_peak_mib()


def group_by_polars(path: str) -> tuple[float, float, float]:
    """Group rows by their key in batches, as polars does where they need not fit into memory."""
    import polars as pl

    begin, begin_cpu = perf_counter(), process_time()
    scan = pl.scan_parquet(path) if path.endswith("parquet") else pl.scan_csv(path)
    means = [pl.col(name).mean() for name in _NUMBERS]
    scan.group_by(KEY).agg(pl.len(), *means).collect(engine="streaming")
    return process_time() - begin_cpu, perf_counter() - begin, read_peak_mib()
