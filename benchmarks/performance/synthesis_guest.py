"""A library's synthetic rows in an environment of its own; started by `synthesis` and `rivals`.

``python synthesis_guest.py NAME TABLE.npz ROWS [EPSILON DELTA SEED]`` answers every line on its
standard input with a number: ``fit`` and ``rows`` with the processor seconds they took, ``peak``
with the most memory it has held, in MiB, and ``save FILE.npy`` once the rows are there, as they are
in the table: codes, or values where the library takes these. It imports nothing of ours.
"""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from time import process_time
from typing import Any


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
    rows: Any = None
    for line in sys.stdin:
        word, _, target = line.strip().partition(" ")
        begin = process_time()
        if word == "peak":
            print(_peak_mib(), flush=True)
            continue
        if word == "save":
            np.save(target, np.asarray(rows, np.float64))
        else:
            with contextlib.redirect_stdout(io.StringIO()):
                rows = calls[word]()
        print(process_time() - begin, flush=True)


def _peak_mib() -> float:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError("this system does not say how much memory a process has held")


def _sdv(table: Mapping[str, Any], n_rows: int, seed: int) -> dict[str, Callable[[], object]]:
    import numpy as np
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
        np.random.seed(seed)  # noqa: NPY002 - what SDV draws from
        made[:] = [GaussianCopulaSynthesizer(metadata)]
        made[0].fit(rows)

    def draw() -> Any:
        drawn = made[0].sample(n_rows)
        return (drawn["rows"] if isinstance(drawn, dict) else drawn)[list(columns)]

    return {"fit": fit, "rows": draw}


def _pgm(
    name: str, table: Mapping[str, Any], n_rows: int, epsilon: float, delta: float, seed: int
) -> dict[str, Callable[[], object]]:
    import pandas as pd
    from dpmm.models.aim import AIMGM  # type: ignore[import-not-found]
    from dpmm.models.mst import MSTGM  # type: ignore[import-not-found]
    from dpmm.models.priv_bayes import PrivBayesGM  # type: ignore[import-not-found]
    from dpmm.pipelines.base import GenerativePipeline  # type: ignore[import-not-found]

    model = {"AIM": AIMGM, "PrivBayes": PrivBayesGM}.get(name.split()[0], MSTGM)
    names = [f"x{index}" for index in range(len(table["sizes"]))]
    rows = pd.DataFrame(table["codes"], columns=names)
    domain = {name: int(size) for name, size in zip(names, table["sizes"], strict=True)}
    made: list[Any] = []

    def fit() -> None:
        made[:] = [GenerativePipeline(gen=model(epsilon=epsilon, delta=delta, n_jobs=1))]
        made[0].fit(rows, domain=domain, random_state=seed)

    return {"fit": fit, "rows": lambda: made[0].generate(n_rows, random_state=seed)[names]}


if __name__ == "__main__":
    main()
