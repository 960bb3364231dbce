"""A library in an environment of its own: components, or synthetic rows.

``python guest.py NAME TABLE.npz COUNT EPSILON DELTA SEED`` answers ``fit`` and ``rows`` with the
seconds they took, ``peak`` with the most memory it has held, in MiB; ``save FILE.npy`` writes what
was made last. Makers of components have COUNT of them, or if NAME ends with ``covariance`` what
they make a covariance of, by ``fit`` and the clock, of a table with ``rows``, their bound ``norm``
and bounds of the columns, ``lower`` and ``upper``. Makers of rows have COUNT of these, by processor
seconds, as they are in the table: codes, or values where the library takes these. It imports
nothing of ours but what answers lines.
"""

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from time import perf_counter, process_time
from typing import Any

from benchmarks.environments import serve_rows

Components = Callable[[], Any]


def main() -> None:
    """Serve until the input ends."""
    import numpy as np

    warnings.simplefilter("ignore")
    name, path, count, epsilon, delta, seed = sys.argv[1:]
    with np.load(path) as table:
        given = dict(table)
    components: dict[str, Callable[..., Components]] = {
        "diffprivlib": _diffprivlib,
        "OpenDP": _opendp,
    }
    for start, make in components.items():
        if name.startswith(start):
            fit = make(name, given, int(count), float(epsilon), int(seed))
            serve_rows({"fit": fit}, clock=perf_counter)
            return
    make_rows = _sdv if name.startswith("SDV") else _pgm
    calls = make_rows(name, given, int(count), float(epsilon), float(delta), int(seed))
    serve_rows(calls, clock=process_time)


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
    return lambda: _answer(models.PCA(**settings).fit(table["rows"]), name)


def _opendp(
    name: str, table: Mapping[str, Any], count: int, epsilon: float, _seed: float
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
    return lambda: _answer(pca(**settings).fit(rows), name)


def _answer(fitted: Any, name: str) -> Any:
    return fitted.get_covariance() if name.endswith("covariance") else fitted.components_


def _sdv(
    _name: str, table: Mapping[str, Any], n_rows: int, _epsilon: float, _delta: float, seed: int
) -> dict[str, Callable[[], object]]:
    import numpy as np
    import pandas as pd

    metadata: Any = import_module("sdv.metadata")
    synthesizers: Any = import_module("sdv.single_table")
    columns = {
        f"x{index}": column if numeric else column.astype(int).astype(str)
        for index, (column, numeric) in enumerate(
            zip(table["values"].T, table["numeric"], strict=True)
        )
    }
    kinds = {
        name: {"sdtype": "numerical" if numeric else "categorical"}
        for name, numeric in zip(columns, table["numeric"], strict=True)
    }
    known = metadata.Metadata.load_from_dict({"tables": {"rows": {"columns": kinds}}})
    rows = {"rows": pd.DataFrame(columns)}
    made: list[Any] = []

    def fit() -> None:
        np.random.seed(seed)  # noqa: NPY002 - what SDV draws from
        made[:] = [synthesizers.GaussianCopulaSynthesizer(known)]
        made[0].fit(rows)

    def draw() -> Any:
        drawn = made[0].sample(n_rows)
        return (drawn["rows"] if isinstance(drawn, dict) else drawn)[list(columns)]

    return {"fit": fit, "rows": draw}


def _pgm(
    name: str, table: Mapping[str, Any], n_rows: int, epsilon: float, delta: float, seed: int
) -> dict[str, Callable[[], object]]:
    import pandas as pd

    kinds = {"AIM": ("aim", "AIMGM"), "PrivBayes": ("priv_bayes", "PrivBayesGM")}
    module, kind = kinds.get(name.split()[0].rstrip(","), ("mst", "MSTGM"))
    model = getattr(import_module(f"dpmm.models.{module}"), kind)
    pipelines: Any = import_module("dpmm.pipelines.base")
    names = [f"x{index}" for index in range(len(table["sizes"]))]
    rows = pd.DataFrame(table["codes"], columns=names)
    domain = {name: int(size) for name, size in zip(names, table["sizes"], strict=True)}
    made: list[Any] = []
    # Its paper's workload, with models and steps that take minutes where its own take hours.
    settings = {"degree": 3, "max_model_size": 4, "n_iters": 250} if "4 MB" in name else {}

    def fit() -> None:
        generator = model(epsilon=epsilon, delta=delta, n_jobs=1, **settings)
        made[:] = [pipelines.GenerativePipeline(gen=generator)]
        made[0].fit(rows, domain=domain, random_state=seed)

    return {"fit": fit, "rows": lambda: made[0].generate(n_rows, random_state=seed)[names]}


if __name__ == "__main__":
    main()
