"""Counting labels, beside multiplying their indicators in the same code."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import numpy as np
import pyarrow as pa

from benchmarks.performance.machine import peak_mib
from benchmarks.performance.racing import Contestant, race
from benchmarks.performance.registry import Plan, Table
from benchmarks.studies import adult, data_folder
from common.numerics.sums import Method, MomentSums
from common.numerics.threads import one_blas_thread
from common.schema import Column, Schema
from owner.records import column_of

TITLE = "Categorical rows"
ABOUT = """
Adult's schema (6 numerics, 2 binaries, 7 categoricals: 104 coded columns), its rows repeated. The
same code with labels counted as codes (what it chooses by itself), and with indicators multiplied.
The second table is one attribute of 5,000 categories beside two numerics, in a process of its own.
"""

ROWS = 10_000_000


def measure(plan: Plan) -> list[Table]:
    """Rates of both methods, and the memory of a wide attribute."""
    schema, columns = _adult()
    repeats = 1 if plan.quick else -(-ROWS // len(columns[0]))
    n_rows = len(columns[0]) * repeats
    plan.say(f"Adult, {n_rows} rows, one thread")
    timings = race(
        [
            Contestant("counts", _adding(schema, columns, repeats, Method.COUNTS), n_rows),
            Contestant("dense", _adding(schema, columns, repeats, Method.DENSE), n_rows),
        ],
        rounds=min(plan.rounds, 3),
        warm_up=False,
    )
    counts, dense = timings["counts"], timings["dense"]
    rates = counts.rate / 1e6, dense.rate / 1e6
    return [
        Table(
            "Million rows a second, on one thread.",
            ("n", "counted", "indicators", "ratio", "by processor time"),
            ((n_rows, *rates, rates[0] / rates[1], dense.median_cpu_s / counts.median_cpu_s),),
        ),
        _wide(plan),
    ]


def _adult() -> tuple[Schema, list[Column]]:
    data = adult(data_folder())
    schema = Schema.from_document({"attributes": list(data.attributes)})
    return schema, [
        column_of(attribute, pa.array([row[index] for row in data.rows]))
        for index, attribute in enumerate(schema.attributes)
    ]


def _adding(
    schema: Schema, columns: list[Column], repeats: int, method: Method
) -> Callable[[], None]:
    def run() -> None:
        sums = MomentSums(schema, method=method)
        with one_blas_thread():
            for _ in range(repeats):
                sums.add(columns)
            sums.total()

    return run


def _wide(plan: Plan) -> Table:
    n_rows = 20_000 if plan.quick else 2_000_000
    plan.say(f"one attribute of 5,000 categories, {n_rows} rows")
    command = [sys.executable, "-c", f"from {__name__} import run_wide; run_wide({n_rows})"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    seconds, peak, entries = done.stdout.split()
    return Table(
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
