"""Sums over a data file, read once: decoding, coding and multiplying overlap.

Workers take turns at the file: one decodes a batch while the others code and multiply theirs. A
batch stays with the worker that has decoded it, in the cache of its core, no more threads work than
there are cores, and no batch waits for a worker.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from functools import reduce
from queue import SimpleQueue
from threading import Event, Lock

from dppca.common.numerics.moments.accumulation import MomentSums, ProductMethod, choose_method
from dppca.common.numerics.moments.moments import Moments
from dppca.common.numerics.threads import count_cores, one_blas_thread
from dppca.common.schema import Schema
from dppca.owner.records.check import FaultCounts
from dppca.owner.records.table import Table

_BATCH_ROWS = 1 << 15
_BATCH_VALUES = 1 << 20
_WIDE = 2048


def moments_of_table(
    table: Table,
    schema: Schema,
    *,
    tally: FaultCounts | None = None,
    progress: Callable[[int], None] | None = None,
    batch_rows: int | None = None,
    workers: int | None = None,
) -> Moments:
    """Exact sums over all rows of a table; the same integers for any batches and workers.

    Workers read in turns, and convert, code and multiply their batches, each with one BLAS thread
    (`dppca.common.numerics.threads`). One batch per worker is in memory. ``tally`` counts the
    values that coding replaces, in the same pass, without effect on the sums; ``progress`` is
    called in the calling thread after each batch, with the number of rows in it. ``workers`` is by
    default one per core; one, with all of BLAS' threads, if the sums are too wide to be held twice.
    """
    wide = schema.layout.n_columns > _WIDE and choose_method(schema) is ProductMethod.DENSE
    n_workers = workers or (1 if wide else count_cores())
    if batch_rows is None:
        batch_rows = rows_at_once(schema)
    turn, stopped = Lock(), Event()
    added: SimpleQueue[int | None] = SimpleQueue()

    def work() -> Moments:
        sums = MomentSums(schema)
        try:
            while not stopped.is_set():
                with turn:
                    cells = next(batches, None)
                if cells is None:
                    break
                columns = cells.columns(distinguish_missing=tally is not None)
                sums.add(columns)
                if tally is not None:
                    tally.add(columns)
                added.put(cells.n_rows)
            return sums.total()
        except BaseException:
            stopped.set()
            raise
        finally:
            added.put(None)

    with (
        nullcontext() if wide else one_blas_thread(),
        closing(table.cells(batch_rows)) as batches,
        ThreadPoolExecutor(n_workers) as pool,
    ):
        parts = [pool.submit(work) for _ in range(n_workers)]
        try:
            for _ in parts:
                while (n_rows := added.get()) is not None:
                    if progress is not None:
                        progress(n_rows)
        finally:
            stopped.set()
        return reduce(Moments.merge, (part.result() for part in parts))


def rows_at_once(schema: Schema) -> int:
    """Rows in a batch: few enough for a core's cache, and many enough for an efficient product."""
    return max(1, min(_BATCH_ROWS, _BATCH_VALUES // len(schema.attributes)))
