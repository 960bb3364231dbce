"""A library's synthetic rows in an environment of its own; started by `synthesis` and `rivals`.

``python synthesis_guest.py NAME TABLE.npz ROWS [EPSILON DELTA SEED]`` answers ``fit`` and ``rows``
with the processor seconds they took, ``peak`` with the most memory it has held, in MiB, and ``save
FILE.npy`` writes the rows as they are in the table: codes, or values where the library takes these.
It imports nothing of ours but what answers lines.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

from benchmarks.environments import serve_rows


def main() -> None:
    """Serve fits and rows until the input ends."""
    import numpy as np

    warnings.simplefilter("ignore")
    name, path, n_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    epsilon, delta, seed = (sys.argv[4:] or ("1", "1e-9", "0"))[:3]
    with np.load(path) as table:
        if name.startswith("SDV"):
            calls = _sdv(dict(table), n_rows, int(seed))
        else:
            calls = _pgm(name, dict(table), n_rows, float(epsilon), float(delta), int(seed))
    serve_rows(calls)


def _sdv(table: Mapping[str, Any], n_rows: int, seed: int) -> dict[str, Callable[[], object]]:
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
    module, kind = kinds.get(name.split()[0], ("mst", "MSTGM"))
    model = getattr(import_module(f"dpmm.models.{module}"), kind)
    pipelines: Any = import_module("dpmm.pipelines.base")
    names = [f"x{index}" for index in range(len(table["sizes"]))]
    rows = pd.DataFrame(table["codes"], columns=names)
    domain = {name: int(size) for name, size in zip(names, table["sizes"], strict=True)}
    made: list[Any] = []

    def fit() -> None:
        generator = model(epsilon=epsilon, delta=delta, n_jobs=1)
        made[:] = [pipelines.GenerativePipeline(gen=generator)]
        made[0].fit(rows, domain=domain, random_state=seed)

    return {"fit": fit, "rows": lambda: made[0].generate(n_rows, random_state=seed)[names]}


if __name__ == "__main__":
    main()
