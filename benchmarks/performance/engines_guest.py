"""Dask-ML's PCA of Parquet files, on workers; started by `engines`.

``python engines_guest.py FOLDER COMPONENTS WORKERS`` fits once for every line ``fit`` and answers
with the seconds it took; to ``cpu`` it answers with the processor seconds of its workers meanwhile.
"""

from __future__ import annotations

import sys
import time
from importlib import import_module
from typing import Any

from benchmarks.environments import serve


def main() -> None:
    """Serve fits until the input ends."""
    folder, components, workers = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    distributed: Any = import_module("distributed")
    frames: Any = import_module("dask.dataframe")
    decomposition: Any = import_module("dask_ml.decomposition")
    cluster = distributed.LocalCluster(
        n_workers=workers, threads_per_worker=1, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        used = 0.0

        def answer(line: str) -> float | None:
            nonlocal used
            if line == "cpu":
                return used
            before = sum(client.run(time.process_time).values())
            rows = frames.read_parquet(folder).to_dask_array(lengths=True)
            decomposition.PCA(n_components=components).fit(rows)
            used = sum(client.run(time.process_time).values()) - before
            return None

        serve(answer)


if __name__ == "__main__":
    main()
