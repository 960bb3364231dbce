"""Sums over a data file, read once: decoding, coding and multiplying overlap."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from functools import reduce
from queue import SimpleQueue

from common.numerics.moments import Moments
from common.numerics.sums import Method, MomentSums, method_for
from common.numerics.threads import one_blas_thread
from common.schema import Schema
from owner.records.table import Cells, Table

_BATCH_ROWS = 1 << 16
_BATCH_VALUES = 1 << 20
_READ_AHEAD = 2
_WIDE = 2048


def moments_of_table(
    table: Table,
    schema: Schema,
    *,
    progress: Callable[[int], None] | None = None,
    batch_rows: int | None = None,
    workers: int | None = None,
) -> Moments:
    """Exact sums over all rows of a table; the same integers for any batches and workers.

    The calling thread reads and decodes; workers convert, code and multiply what it has read, each
    with one BLAS thread (docs/decisions/0046). At most two batches more than there are workers are
    in memory.

    Parameters
    ----------
    progress
        Called in the calling thread after each batch, with the number of rows in it.
    workers
        By default one per core; one, with all of BLAS' threads, where the sums are so wide that
        they should not be held twice.
    """
    wide = schema.layout.n_columns > _WIDE and method_for(schema) is Method.DENSE
    n_workers = workers or (1 if wide else len(os.sched_getaffinity(0)))
    idle: SimpleQueue[MomentSums] = SimpleQueue()
    parts = [MomentSums(schema) for _ in range(n_workers)]
    for part in parts:
        idle.put(part)

    def add(cells: Cells) -> int:
        sums = idle.get()
        try:
            sums.add(cells.columns())
        finally:
            idle.put(sums)
        return cells.n_rows

    def done(n_rows: int) -> None:
        if progress is not None:
            progress(n_rows)

    if batch_rows is None:
        batch_rows = max(1, min(_BATCH_ROWS, _BATCH_VALUES // len(schema.attributes)))
    pending: deque[Future[int]] = deque()
    with nullcontext() if wide else one_blas_thread(), ThreadPoolExecutor(n_workers) as pool:
        for cells in table.cells(batch_rows):
            pending.append(pool.submit(add, cells))
            if len(pending) >= n_workers + _READ_AHEAD:
                done(pending.popleft().result())
        while pending:
            done(pending.popleft().result())
    return reduce(Moments.merge, (part.total() for part in parts))
