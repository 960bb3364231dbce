"""A library's synthetic rows in an environment of its own; started by `synthesis`.

``python synthesis_guest.py NAME TABLE.npz ROWS`` answers every line on its standard input, ``fit``
or ``rows``, with the processor seconds it took. It imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Mapping
from time import process_time
from typing import Any


def main() -> None:
    """Serve fits and rows until the input ends."""
    import numpy as np

    warnings.simplefilter("ignore")
    name, path, n_rows = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with np.load(path) as table:
        calls = (_sdv if name.startswith("SDV") else _pgm)(dict(table), n_rows)
    for line in sys.stdin:
        begin = process_time()
        with contextlib.redirect_stdout(io.StringIO()):
            calls[line.strip()]()
        print(process_time() - begin, flush=True)


def _sdv(table: Mapping[str, Any], n_rows: int) -> dict[str, Callable[[], object]]:
    import pandas as pd
    from sdv.metadata import Metadata  # type: ignore[import-not-found]
    from sdv.single_table import GaussianCopulaSynthesizer  # type: ignore[import-not-found]

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
    metadata = Metadata.load_from_dict({"tables": {"rows": {"columns": kinds}}})
    rows = {"rows": pd.DataFrame(columns)}
    made: list[Any] = []

    def fit() -> None:
        made[:] = [GaussianCopulaSynthesizer(metadata)]
        made[0].fit(rows)

    return {"fit": fit, "rows": lambda: made[0].sample(n_rows)}


def _pgm(table: Mapping[str, Any], n_rows: int) -> dict[str, Callable[[], object]]:
    import pandas as pd
    from dpmm.models.mst import MSTGM  # type: ignore[import-not-found]
    from dpmm.pipelines.base import GenerativePipeline  # type: ignore[import-not-found]

    names = [f"x{index}" for index in range(len(table["sizes"]))]
    rows = pd.DataFrame(table["codes"], columns=names)
    domain = {name: int(size) for name, size in zip(names, table["sizes"], strict=True)}
    made: list[Any] = []

    def fit() -> None:
        made[:] = [GenerativePipeline(gen=MSTGM(epsilon=1.0, delta=1e-9, n_jobs=1))]
        made[0].fit(rows, domain=domain, random_state=0)

    return {"fit": fit, "rows": lambda: made[0].generate(n_rows, random_state=0)}


if __name__ == "__main__":
    main()
