"""A library's PCA in an environment of its own; started by `libraries` and `rivals.pca`.

``python guest.py NAME TABLE.npz COMPONENTS EPSILON SEED`` answers every line ``fit`` with the
seconds it took; ``save FILE.npy``, then, writes the components as rows. Tables hold ``rows``, their
bound ``norm`` and bounds of the columns, ``lower`` and ``upper``. It imports nothing of ours but
what answers lines.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from time import perf_counter
from typing import Any

from benchmarks.environments import serve_rows

Components = Callable[[], Any]


def main() -> None:
    """Serve fits and what they found."""
    import numpy as np

    warnings.simplefilter("ignore")
    name, path, components, epsilon, seed = sys.argv[1:]
    with np.load(path) as table:
        given = dict(table)
    makers: dict[str, Callable[..., Components]] = {
        "Dask-ML": _dask,
        "diffprivlib": _diffprivlib,
        "OpenDP": _opendp,
    }
    make = next(each for start, each in makers.items() if name.startswith(start))
    fit = make(name, given, int(components), float(epsilon), int(seed))
    serve_rows({"fit": fit}, clock=perf_counter)


def _dask(_name: str, table: Mapping[str, Any], count: int, *_others: float) -> Components:
    da: Any = import_module("dask.array")
    decomposition: Any = import_module("dask_ml.decomposition")
    rows = table["rows"]
    chunk = max(1000, (8 << 20) // rows.shape[1])
    lazy = da.from_array(rows, chunks=(chunk, rows.shape[1]))
    return lambda: decomposition.PCA(n_components=count).fit(lazy).components_


def _diffprivlib(
    name: str, table: Mapping[str, Any], count: int, epsilon: float, seed: float
) -> Components:
    models: Any = import_module("diffprivlib.models")
    # One seed: every fit rejects as often as the one before.
    settings = {
        "n_components": count,
        "epsilon": epsilon,
        "data_norm": float(table["norm"]),
        "bounds": (table["lower"], table["upper"]),
        "centered": "centred" in name,
        "random_state": int(seed),
    }
    return lambda: models.PCA(**settings).fit(table["rows"]).components_


def _opendp(
    _name: str, table: Mapping[str, Any], count: int, epsilon: float, _seed: float
) -> Components:
    import numpy as np
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "honest-but-curious", "idealized-numerics")
    n_rows, n_columns = table["rows"].shape
    settings = {
        "epsilon": epsilon,
        "row_norm": float(table["norm"]),
        "n_samples": n_rows,
        "n_features": n_columns,
        "n_components": count,
    }
    pca: Any = dp.sklearn.decomposition.PCA  # type: ignore[attr-defined]
    rows = np.ascontiguousarray(table["rows"], np.float64)
    return lambda: pca(**settings).fit(rows).components_


if __name__ == "__main__":
    main()
