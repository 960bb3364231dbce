"""Intervals of a library in an environment of its own.

``python estimates_guest.py NAME TABLES.npz EPSILON DELTA SEED FOLDER`` answers ``fit`` with the
processor seconds that all releases took; ``save FILE.npy`` writes estimates and both ends of their
intervals, shape (releases, questions, 3), nan where the library gives none. ``tables`` has shape
(releases, rows, columns) and public bounds of the columns, ``lower`` and ``upper``; columns and
questions are those of `benchmarks.rivals.estimates`. FOLDER has dp-statsmodels. It imports nothing
of ours but what answers lines.
"""

import sys
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

from benchmarks.environments import serve_rows


def main() -> None:
    """Serve until the input ends."""
    import numpy as np

    warnings.simplefilter("ignore")
    name, path, epsilon, delta, seed, folder = sys.argv[1:]
    sys.path.append(folder)
    with np.load(path) as given:
        tables, lower, upper = given["tables"], given["lower"], given["upper"]
    makers: dict[str, Callable[..., list[Any]]] = {
        "OpenDP": _opendp,
        "diffprivlib": _diffprivlib,
        "dp-statsmodels": _dp_statsmodels,
    }
    make = makers[name.split(",")[0]]
    rng = np.random.default_rng(int(seed))

    def fit() -> Any:
        return [
            make(rows, lower, upper, float(epsilon), float(delta), int(rng.integers(2**31)))
            for rows in tables
        ]

    serve_rows({"fit": fit})


_NOTHING = [float("nan")] * 3


def _opendp(
    rows: Any, lower: Any, upper: Any, epsilon: float, _delta: float, _seed: int
) -> list[Any]:
    """A mean; two contributions are one row replaced, where the number of rows is public."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(rows))
    context = dp.Context.compositor(
        data=rows[:, 3].tolist(),
        privacy_unit=dp.unit_of(contributions=2),
        privacy_loss=dp.loss_of(epsilon=epsilon),
        split_evenly_over=1,
        domain=domain,
    )
    bounds = (float(lower[3]), float(upper[3]))
    query: Any = context.query().clamp(bounds).mean().laplace()
    half = dp.laplacian_scale_to_accuracy(query.param(), alpha=0.05)
    mean = query.release()
    return [[mean, mean - half, mean + half], _NOTHING, _NOTHING, _NOTHING]


def _diffprivlib(
    rows: Any, lower: Any, upper: Any, epsilon: float, _delta: float, seed: int
) -> list[Any]:
    """Two regressions: their coefficients, without intervals."""
    models: Any = import_module("diffprivlib.models")

    def slopes(columns: list[int]) -> list[float]:
        model = models.LinearRegression(
            epsilon=epsilon,
            bounds_X=(lower[columns], upper[columns]),
            bounds_y=(lower[3], upper[3]),
            random_state=seed,
        )
        fitted: list[float] = model.fit(rows[:, columns], rows[:, 3]).coef_.tolist()
        return fitted

    found = [*slopes([2]), *slopes([0, 1, 2])[:2]]
    return [_NOTHING, *([each, *_NOTHING[:2]] for each in found)]


def _dp_statsmodels(
    rows: Any, lower: Any, upper: Any, epsilon: float, delta: float, seed: int
) -> list[Any]:
    """Two regressions of columns that public bounds bring into [-1, 1], as it has one for all."""
    models: Any = import_module("dp_statsmodels.models.ols")
    half = (upper - lower) / 2
    scaled = (rows - lower) / half - 1

    def slopes(columns: list[int]) -> list[list[float]]:
        model = models.DPOLS(
            epsilon=epsilon, delta=delta, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed
        )
        fitted = model.fit(scaled[:, 3], scaled[:, columns])
        ends = fitted.conf_int()
        return [
            [float(each) * half[3] / half[column] for each in (fitted.params[place], *ends[place])]
            for place, column in enumerate(columns, start=1)
        ]

    return [_NOTHING, *slopes([2]), *slopes([0, 1, 2])[:2]]


if __name__ == "__main__":
    main()
