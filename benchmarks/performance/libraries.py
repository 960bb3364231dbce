"""Principal components of rows in memory, beside what a user would pick instead."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from importlib.metadata import version
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import threadpool_limits

from benchmarks.performance.environments import make_environment, open_guest
from benchmarks.performance.racing import BenchmarkSubject, time_subjects
from benchmarks.performance.registry import BenchmarkPlan, Cell, FigureTable
from benchmarks.performance.tables import normal_rows, numeric_schema
from dppca.common.numerics.moments.accumulation import accumulate_moments
from dppca.common.numerics.moments.moments import unpack
from dppca.common.numerics.spectrum.pca import decompose
from dppca.common.numerics.threads import count_cores

TITLE = "Principal components beside other libraries"
ABOUT = """
Ten principal components of the same float64 matrix in memory: by DPPCA (coding, exact moments at
g = 10, covariance, eigenvectors; no noise, which is timed below), by scikit-learn, by Dask-ML and
by diffprivlib, each with its own defaults and both cores. The last two run in environments of
their own, which the benchmark makes with pip; where that fails the row says so, and where one fit
takes over a minute: diffprivlib draws components by a rejection that takes the longer the more
rows there are. A ratio above 1 means that DPPCA is the faster.
"""

COMPONENTS = 10
SHAPES = ((200_000, 200), (500_000, 20))
PATIENCE_S = 60.0
_ENVIRONMENTS = {
    "Dask-ML PCA": ("dask-ml", ["dask-ml"]),
    "diffprivlib PCA": ("diffprivlib", ["diffprivlib", "scikit-learn<1.6"]),
}
_GUEST = Path(__file__).with_name("guest.py")


def measure(plan: BenchmarkPlan) -> list[FigureTable]:
    """One table per shape of the matrix."""
    environments = {} if plan.quick else _install(plan)
    tables = []
    for n, d in ((1000, 5),) if plan.quick else SHAPES:
        rows = normal_rows(n, d) * np.linspace(1.2, 0.4, d)
        path = plan.scratch / "rows.npy"
        np.save(path, rows)
        notes = {name: "not installed" for name in _ENVIRONMENTS if name not in environments}
        with ExitStack() as stack:
            contestants = [BenchmarkSubject("DPPCA", _ours(rows)), *_scikit_learn(rows)]
            for name, python in environments.items():
                plan.say(f"{name} reads {n} rows of {d}")
                given = (name, str(path), str(COMPONENTS))
                ask = stack.enter_context(open_guest(python, _GUEST, *given, threads=count_cores()))
                if ask("fit", PATIENCE_S) is None:
                    notes[name] = f"not done in {PATIENCE_S:.0f} s"
                else:
                    contestants.append(BenchmarkSubject(name, partial(ask, "fit", None)))
            plan.say(f"n = {n}, d = {d}")
            timings = time_subjects(contestants, rounds=plan.rounds, warm_up=plan.quick)
        mine = timings["DPPCA"].median_s
        table: list[tuple[Cell, ...]] = [
            *((name, each.median_s, each.median_s / mine) for name, each in timings.items()),
            *((f"{name} ({note})", None, None) for name, note in notes.items()),
        ]
        caption = f"n = {n:,}, d = {d}: seconds, and as a multiple of DPPCA's."
        tables.append(FigureTable(caption, ("library", "seconds", "ratio"), tuple(table)))
    return tables


def _ours(rows: NDArray[np.float64]) -> Callable[[], None]:
    schema = numeric_schema(rows.shape[1])

    def run() -> None:
        moments = accumulate_moments(schema, rows, workers=count_cores())
        mean, second = unpack(moments.packed, moments.n_rows, schema.layout)
        assert mean is not None
        decompose(second - np.outer(mean, mean))

    return run


def _scikit_learn(rows: NDArray[np.float64]) -> list[BenchmarkSubject]:
    from sklearn.decomposition import PCA, IncrementalPCA

    release = version("scikit-learn")
    count = min(COMPONENTS, rows.shape[1] - 1)

    def whole() -> None:
        with threadpool_limits(count_cores(), user_api="blas"):
            PCA(n_components=count, svd_solver="covariance_eigh").fit(rows)

    def incremental() -> None:
        with threadpool_limits(count_cores(), user_api="blas"):
            IncrementalPCA(n_components=count).fit(rows)

    return [
        BenchmarkSubject(f"scikit-learn {release} PCA, covariance_eigh", whole),
        BenchmarkSubject(f"scikit-learn {release} IncrementalPCA", incremental),
    ]


def _install(plan: BenchmarkPlan) -> dict[str, Path]:
    """Environments that could be made, by contestant: their interpreters."""
    made = {}
    for name, (package, wanted) in _ENVIRONMENTS.items():
        plan.say(f"an environment for {package}")
        python, fault = make_environment(plan.scratch / package, wanted)
        if python is None:
            plan.say(f"{package} cannot be installed here and is left out: {fault}")
        else:
            made[name] = python
    return made
