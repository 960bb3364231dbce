"""Principal components of rows in memory, beside what a user would pick instead."""

from functools import partial
from importlib.metadata import version

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable, Run, open_guests
from benchmarks.performance.tables import BOUND, normal_rows, numeric_schema
from dppca.common.analysis.spectrum.pca import decompose, pooled_covariance
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.moments.moments import unpack
from dppca.common.kernel.moments.threads import count_cores

TITLE = "Principal components beside other libraries"
ABOUT = """
Ten principal components of the same float64 matrix in memory: by DPPCA (coding, exact moments at
g = 10, covariance, eigenvectors; no noise, which is timed below), by scikit-learn and by
diffprivlib, each with its own defaults and both cores. The last runs in an environment of its own,
which the benchmark makes with pip; where that fails the row says so, and where one fit takes over a
minute: diffprivlib draws components by a rejection that takes the longer the more rows there are. A
ratio above 1 means that DPPCA is the faster.
"""

COMPONENTS = 10
SHAPES = ((200_000, 200), (500_000, 20))
PATIENCE_S = 60.0
_ENVIRONMENTS = {
    "diffprivlib PCA": ("diffprivlib", ["diffprivlib", "scikit-learn<1.6"]),
}


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """One table per shape of the matrix."""
    pythons = {name: plan.environment(name, *each) for name, each in _ENVIRONMENTS.items()}
    tables = []
    for n, d in ((1000, 5),) if plan.quick else SHAPES:
        rows = normal_rows(n, d) * np.linspace(1.2, 0.4, d)
        path, upper = plan.scratch / "rows.npz", np.full(d, BOUND)
        np.savez(path, rows=rows, norm=BOUND * d**0.5, lower=-upper, upper=upper)
        subjects: dict[str, Run] = {"DPPCA": partial(_decompose, rows), **_scikit_learn(rows)}
        guests = open_guests(
            *(plan, pythons, str(path), str(COMPONENTS), "1", "0", "0"),
            threads=count_cores(),
            patience_s=PATIENCE_S,
        )
        with guests as (fitted, notes):
            subjects |= {name: partial(ask, "fit") for name, (ask, _) in fitted.items()}
            plan.say(f"n = {n}, d = {d}")
            timings = plan.race(subjects, warm_up=plan.quick)
        mine = timings["DPPCA"].median_s
        table: list[tuple[Cell, ...]] = [
            *((name, each.median_s, each.median_s / mine) for name, each in timings.items()),
            *((note, None, None) for note in notes),
        ]
        caption = f"n = {n:,}, d = {d}: seconds, and as a multiple of DPPCA's."
        tables.append(FigureTable(caption, ("library", "seconds", "ratio"), tuple(table)))
    return tables


def _decompose(rows: NDArray[np.float64]) -> None:
    schema = numeric_schema(rows.shape[1])
    moments = accumulate_moments(schema, rows, workers=count_cores())
    decompose(pooled_covariance(*unpack(moments.packed, moments.n_rows, schema.layout)))


def _scikit_learn(rows: NDArray[np.float64]) -> dict[str, Run]:
    from sklearn.decomposition import PCA

    count = min(COMPONENTS, rows.shape[1] - 1)
    model = PCA(n_components=count, svd_solver="covariance_eigh")

    def fit() -> None:
        with threadpool_limits(count_cores(), user_api="blas"):
            model.fit(rows)

    return {f"scikit-learn {version('scikit-learn')} PCA, covariance_eigh": fit}
