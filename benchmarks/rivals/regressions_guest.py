"""Slopes of a library in an environment of its own.

``python regressions_guest.py NAME TABLES.npz EPSILON DELTA SEED FOLDER`` answers as
`estimates_guest.py` does; what it saves are slopes and both ends of their intervals, shape
(releases, models, slopes, 3), nan where the library gives none. ``tables`` has shape (releases,
rows, columns), every column in [-1, 1]; ``outcomes``, ``regressors`` and ``logistic`` say which
columns a model is of. Each fit has its share of epsilon and delta. It imports nothing of ours but
what answers lines.
"""

import sys
import warnings
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
        tables, *models = (given[each] for each in ("tables", "outcomes", "regressors", "logistic"))
    fit_one = _diffprivlib if name.startswith("diffprivlib") else _dp_statsmodels
    rng = np.random.default_rng(int(seed))
    share = float(epsilon) / len(models[0]), float(delta) / len(models[0])

    def fit() -> Any:
        return [
            [
                fit_one(rows[:, x], rows[:, y], *share, int(rng.integers(2**31)), bool(logistic))
                for y, x, logistic in zip(*models, strict=True)
            ]
            for rows in tables
        ]

    serve_rows({"fit": fit})


def _diffprivlib(
    X: Any, y: Any, epsilon: float, _delta: float, seed: int, logistic: bool
) -> list[list[float]]:
    """Slopes, without intervals."""
    models: Any = import_module("diffprivlib.models")
    count = X.shape[1]
    if logistic:
        model = models.LogisticRegression(
            epsilon=epsilon, data_norm=count**0.5, random_state=seed
        ).fit(X, y > 0)
    else:
        model = models.LinearRegression(
            epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed
        ).fit(X, y)
    return [[float(each), *[float("nan")] * 2] for each in model.coef_.reshape(count)]


def _dp_statsmodels(
    X: Any, y: Any, epsilon: float, delta: float, seed: int, logistic: bool
) -> list[list[float]]:
    """Slopes and intervals."""
    import numpy as np

    models: Any = import_module("dp_statsmodels.models")
    if logistic:  # it draws from numpy's own generator
        np.random.seed(seed)  # noqa: NPY002
        fitted = models.DPLogit(epsilon=epsilon, delta=delta, bounds_X=(-1, 1)).fit(y > 0, X)
    else:
        fitted = models.DPOLS(
            epsilon=epsilon, delta=delta, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=seed
        ).fit(y, X)
    found: list[list[float]] = np.column_stack([fitted.params, fitted.conf_int()])[1:].tolist()
    return found


if __name__ == "__main__":
    main()
