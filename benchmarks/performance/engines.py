"""The pass over all rows on Dask workers, beside one process and a bare scan."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import distributed

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable, Run
from benchmarks.performance.tables import numeric_schema, scan_parquet, write_folder
from dppca.owner.engines.engine import Engine, LocalEngine
from dppca.owner.engines.selection import open_engine
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.file_locations import local_files
from dppca.owner.records.table import open_table

TITLE = "A pass on a Dask cluster"
ABOUT = """
Exact moments of Parquet files on a Dask cluster of two worker processes of one thread each, all on
this machine, beside the same pass in one process with two threads, and beside workers of the same
cluster that read the same files by pyarrow into NumPy arrays and do nothing with them. The
cluster's start and its check are not counted, and given apart. Processor seconds are those of all
processes that read rows: on a busy machine they say what was worked. Ratios are DPPCA's on Dask:
above 1 it is the faster, and by processor time it has less to do.

The last table is **computed, not measured**: what a billion rows of 200 columns take on w threads
of a cluster, from the processor time of the rows above it, if every thread is as fast as one here
and disks and network deliver what the last column says. Parquet of 8 bytes a number, uncompressed.
"""

WORKERS = 2
FILES = 16
IDLE_S = 3.0
"""How long it is measured what workers take that do nothing."""
BILLION = 1_000_000_000
_SHAPES = ((8_000_000, 20), (400_000, 200))
_TINY = ((4000, 20), (1000, 200))
_SLOTS = (1, 8, 32, 128, 512)
_OURS, _BARE = "DPPCA on Dask", "pyarrow alone, on the same workers"


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """A table for each shape, and what follows for a large one."""
    tables, wide = [], 0.0
    for n, d in _TINY if plan.quick else _SHAPES:
        folder = plan.scratch / f"rows-{d}"
        write_folder(folder, d, n, files=FILES)
        table, per_row = _race(plan, folder, d)
        tables.append(table)
        wide = per_row if d == 200 else wide
    return [*tables, _sizing(wide)]


def _race(plan: BenchmarkPlan, folder: Path, d: int) -> tuple[FigureTable, float]:
    schema = numeric_schema(d)
    table = open_table(local_files(folder), schema)
    begin = time.perf_counter()
    with (
        _cluster(plan.scratch) as (address, client),
        open_engine(address, folder) as engine,
    ):
        start = time.perf_counter() - begin
        files = sorted(map(str, folder.glob("*.parquet")))

        def workers_cpu() -> float:
            return float(sum(client.run(time.process_time).values()))

        def one_pass(on: Engine) -> Run:
            return lambda: on.sum_table(table, tally=FaultCounts(schema), progress=lambda _: None)

        bare = partial(scan_parquet, use_threads=False)
        subjects: dict[str, Run] = {
            _OURS: one_pass(engine),
            "DPPCA, one process": one_pass(LocalEngine()),
            _BARE: lambda: client.gather(client.map(bare, files, pure=False)),
        }
        subjects[_OURS]()
        peak = max(each.ru_maxrss for each in client.run(getrusage, RUSAGE_SELF).values()) / 1024
        plan.say(f"d = {d}")
        timings = plan.race(subjects, cpu=dict.fromkeys((_OURS, _BARE), workers_cpu))
        before, begin = workers_cpu(), time.perf_counter()
        time.sleep(IDLE_S)
        idle = (workers_cpu() - before) / (time.perf_counter() - begin)
    mine, mine_cpu = timings[_OURS].median_s, timings[_OURS].median_cpu_s
    rows: list[tuple[Cell, ...]] = []
    for name, timing in timings.items():
        took, worked = timing.median_s, timing.median_cpu_s
        rows.append((name, len(timing.seconds), took, worked, took / mine, worked / mine_cpu))
    caption = (
        f"n = {table.n_rows:,}, d = {d}, {FILES} files; cluster and check took {start:.1f} s; "
        f"largest peak of a worker {peak:.0f} MiB; workers that wait take {idle:.2g} processor "
        "seconds a second."
    )
    columns = ("contestant", "rounds", "seconds", "processor s", "ratio", "by processor time")
    return FigureTable(caption, columns, tuple(rows)), mine_cpu / table.n_rows


def _sizing(seconds_per_row: float) -> FigureTable:
    """Computed, see `ABOUT`."""
    total = seconds_per_row * BILLION
    rows = tuple(
        (slots, total / slots, total / slots / 3600, slots * 200 * 8 / seconds_per_row / 1e6)
        for slots in _SLOTS
    )
    return FigureTable(
        "Computed: a billion rows of 200 columns (1.6 TB).",
        ("threads", "seconds", "hours", "MB/s to be read"),
        rows,
    )


@contextmanager
def _cluster(folder: Path) -> Iterator[tuple[str, Any]]:
    """Workers, each a process, and a client beside the engine's own."""
    workers: dict[str, Any] = {"n_workers": WORKERS, "threads_per_worker": 1}
    with (
        distributed.LocalCluster(
            **workers, host="127.0.0.1", dashboard_address=None, local_directory=str(folder)
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield cluster.scheduler_address.replace("tcp://", "dask://"), client
