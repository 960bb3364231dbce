"""A library's private PCA in a process of its own; started by `pca`, imports nothing of ours.

``python pca_guest.py NAME TABLE.npz COMPONENTS EPSILON SEED`` answers every line on its standard
input with a number: ``fit`` with the processor seconds it took, ``save FILE.npy``, then, writes the
components as rows. Tables hold ``rows``, their bound ``norm`` and bounds of the columns, ``lower``
and ``upper``.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping
from time import process_time
from typing import Any

import numpy as np


def main() -> None:
    """Serve one fit and what it found."""
    warnings.simplefilter("ignore")
    name, path, components, epsilon, seed = sys.argv[1:]
    fit = _opendp if name.startswith("OpenDP") else _diffprivlib
    with np.load(path) as table:
        given = dict(table)
    fitted: Any = None
    for line in sys.stdin:
        word, _, target = line.strip().partition(" ")
        begin = process_time()
        if word == "save":
            np.save(target, np.asarray(fitted, np.float64))
        else:
            fitted = fit(name, given, int(components), float(epsilon), int(seed))
        print(process_time() - begin, flush=True)


def _diffprivlib(
    name: str, table: Mapping[str, Any], components: int, epsilon: float, seed: int
) -> Any:
    from diffprivlib.models import PCA  # type: ignore[import-not-found]

    bounds = (table["lower"], table["upper"])
    model = PCA(
        n_components=components,
        epsilon=epsilon,
        data_norm=float(table["norm"]),
        bounds=bounds,
        centered="centred" in name,
        random_state=seed,
    )
    return model.fit(table["rows"]).components_


def _opendp(
    name: str,  # noqa: ARG001 - as `_diffprivlib`
    table: Mapping[str, Any],
    components: int,
    epsilon: float,
    seed: int,  # noqa: ARG001 - OpenDP's noise has no seed
) -> Any:
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "honest-but-curious", "idealized-numerics")
    n_rows, n_columns = table["rows"].shape
    model = dp.sklearn.decomposition.PCA(  # type: ignore[attr-defined]
        epsilon=epsilon,
        row_norm=float(table["norm"]),
        n_samples=n_rows,
        n_features=n_columns,
        n_components=components,
    )
    model.fit(np.ascontiguousarray(table["rows"], np.float64))
    return model.components_


if __name__ == "__main__":
    main()
