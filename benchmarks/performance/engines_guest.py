"""Dask-ML's PCA of Parquet files, on workers; started by `engines`, imports nothing of ours.

``python engines_guest.py FOLDER COMPONENTS WORKERS`` fits once for every line ``fit`` and answers
with the seconds it took; to ``cpu`` it answers with the processor seconds of its workers meanwhile.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any


def scan(path: str) -> int:
    """Read a Parquet file into NumPy arrays; returns its rows."""
    parquet: Any = import_module("pyarrow.parquet")
    n_rows = 0
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(use_threads=False):
            n_rows += batch.num_rows
            for column in batch.columns:
                column.to_numpy(zero_copy_only=False)
    return n_rows


def main() -> None:
    """Serve fits until the input ends."""
    folder, components, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    distributed: Any = import_module("distributed")
    frames: Any = import_module("dask.dataframe")
    decomposition: Any = import_module("dask_ml.decomposition")
    used = 0.0
    with (
        distributed.LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        for line in sys.stdin:
            if line.strip() == "cpu":
                print(used, flush=True)
                continue
            before, begin = sum(client.run(time.process_time).values()), time.perf_counter()
            rows = frames.read_parquet(folder).to_dask_array(lengths=True)
            decomposition.PCA(n_components=components).fit(rows)
            seconds = time.perf_counter() - begin
            used = sum(client.run(time.process_time).values()) - before
            print(seconds, flush=True)


if __name__ == "__main__":
    main()
