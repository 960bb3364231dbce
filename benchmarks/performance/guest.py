"""A library's PCA in an environment of its own; started by `libraries`, imports nothing of ours.

``python guest.py NAME ROWS.npy COMPONENTS`` fits once for every line on its standard input and
answers with the seconds it took.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from time import perf_counter
from typing import Any


def main() -> None:
    """Serve fits until the input ends."""
    name, path, components = sys.argv[1], sys.argv[2], int(sys.argv[3])
    import numpy as np

    fit = {"Dask-ML PCA": _dask, "diffprivlib PCA": _diffprivlib}[name]
    once = fit(np.load(path), components)
    for _ in sys.stdin:
        begin = perf_counter()
        once()
        print(perf_counter() - begin, flush=True)


def _dask(rows: Any, components: int) -> Callable[[], object]:
    da: Any = import_module("dask.array")
    from dask_ml.decomposition import PCA  # type: ignore[import-not-found]

    chunk = max(1000, (8 << 20) // rows.shape[1])
    lazy = da.from_array(rows, chunks=(chunk, rows.shape[1]))
    return lambda: PCA(n_components=components).fit(lazy)


def _diffprivlib(rows: Any, components: int) -> Callable[[], object]:
    from diffprivlib.models import PCA  # type: ignore[import-not-found]

    warnings.simplefilter("ignore")
    norm = 4.0 * rows.shape[1] ** 0.5
    # One seed: every fit rejects as often as the one before.
    return lambda: PCA(
        n_components=components,
        epsilon=1.0,
        data_norm=norm,
        bounds=(-4.0, 4.0),
        random_state=0,
    ).fit(rows)


if __name__ == "__main__":
    main()
