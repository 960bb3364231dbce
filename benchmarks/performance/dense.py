"""Coding and exact moments of numeric rows in memory, beside SciPy's dsyrk on the same matrix."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk
from threadpoolctl import threadpool_limits

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import BOUND, normal_rows, numeric_schema
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.gram import GramSum
from dppca.common.kernel.moments.threads import one_blas_thread
from dppca.common.kernel.schema import Schema, encode

TITLE = "Numeric rows in memory"
ABOUT = """
Coding to integers and their exact moments together, beside SciPy's `dsyrk` alone (the float64
product of the same matrix, nothing coded, nothing exact) with the same number of threads. BLAS may
use one core although it may use two, as the last column says; *dsyrk* is then that of two halves of
the rows at once, in two threads (by NumPy, whose product lets another thread run; SciPy's does
not). Rows are standard normal with bounds of -4 and 4, which are coded in fewer steps than rows
with bounds of their own for every column, around a middle that is not 0; or uniform between the
bounds, whose squares are five times as large and leave fewer rows to a block of float32.
"""

SHAPES = ((1_000_000, 20), (400_000, 200), (30_000, 1000))
_TINY = ((3000, 4), (500, 70))


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """The whole pass, then the kernel alone."""
    rows: list[tuple[Cell, ...]] = []
    for n, d in _TINY if plan.quick else SHAPES:
        normal = normal_rows(n, d)
        uniform = np.random.default_rng(21).uniform(-BOUND, BOUND, (n, d))
        schema, coarse = numeric_schema(d), numeric_schema(d, resolution_bits=6)
        for threads in (1, 2):
            plan.say(f"n = {n}, d = {d}, {threads} threads")
            coding = partial(accumulate_moments, workers=threads)
            timings = plan.race(
                {
                    "BLAS": _dsyrk(normal, threads),
                    "parts": _in_parts(normal, threads),
                    "normal": partial(coding, schema, normal),
                    "bounds": partial(coding, _own_bounds(d), normal),
                    "uniform": partial(coding, schema, uniform),
                    "coarse": partial(coding, coarse, normal),
                }
            )
            blas, parts = timings.pop("BLAS"), timings.pop("parts")
            reference = min(blas, parts, key=lambda each: each.median_s)
            ratio, by_cpu = timings["normal"].gains(reference)
            own_bounds, _ = timings["bounds"].gains(reference)
            medians = [each.median_s for each in (reference, *timings.values())]
            alone = blas.median_s, blas.median_cpu_s / blas.median_s
            rows.append((n, d, threads, *medians, ratio, own_bounds, by_cpu, *alone))
    return [
        FigureTable(
            "Seconds for coding and moments; the ratio is dsyrk to normal rows at g = 10.",
            (
                *("n", "d", "threads", "dsyrk", "normal, g = 10", "own bounds, g = 10"),
                *("uniform, g = 10", "normal, g = 6", "ratio", "ratio, own bounds"),
                *("by processor time", "dsyrk by BLAS alone", "cores that it used"),
            ),
            tuple(rows),
        ),
        _kernel(plan),
    ]


def _kernel(plan: BenchmarkPlan) -> FigureTable:
    n, d = (2000, 40) if plan.quick else (400_000, 200)
    rows: list[tuple[Cell, ...]] = []
    for g in (6, 10):
        plan.say(f"products alone, g = {g}")
        schema = numeric_schema(d, resolution_bits=g)
        coded = encode(schema, list(normal_rows(n, d).T))
        narrow, wide = coded.astype(np.float32), coded.astype(np.float64)
        del coded
        ours = partial(_multiply, narrow, largest=1 << (2 * g))
        timings = plan.race({"dsyrk": _dsyrk(wide, 1), "ours": ours})
        medians = [each.median_s for each in timings.values()]
        rows.append((n, d, g, *medians, *timings["ours"].gains(timings["dsyrk"])))
    return FigureTable(
        "Seconds for the products of integer rows alone, on one thread: float64 by dsyrk, float32 "
        "in exact blocks.",
        ("n", "d", "g", "dsyrk", "DPPCA", "ratio", "by processor time"),
        tuple(rows),
    )


def _dsyrk(rows: NDArray[np.float64], threads: int) -> Callable[[], None]:
    def run() -> None:
        with threadpool_limits(threads, user_api="blas"):
            dsyrk(1.0, rows.T)

    return run


def _in_parts(rows: NDArray[np.float64], threads: int) -> Callable[[], None]:
    """As many parts of the rows at once, each with one thread of BLAS (NumPy's own dsyrk)."""
    parts = np.array_split(rows, threads)

    def run() -> None:
        with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
            sum(pool.map(lambda part: part.T @ part, parts))

    return run


def _own_bounds(d: int) -> Schema:
    attributes = [
        {"name": f"x{i}", "type": "numeric", "lower": -BOUND, "upper": BOUND + (i + 1) / (4 * d)}
        for i in range(d)
    ]
    return Schema.from_document({"resolution_bits": 10, "attributes": attributes})


def _multiply(rows: NDArray[np.float32], *, largest: int) -> None:
    sums = GramSum(rows.shape[1], largest=largest)
    with one_blas_thread():
        for start in range(0, len(rows), sums.block_rows):
            sums.add(rows[start : start + sums.block_rows])
        sums.total()
