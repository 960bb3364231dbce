"""One run of a classifier: split, fit, score; and the control.

The control is the same machine on ``X Q`` with Q a random orthonormal ``d x k`` matrix, drawn
without looking at a row, and k what the private method kept. Where it does as well as the private
components, these have contributed nothing, and the printed accuracy says nothing about them.
"""

from dataclasses import dataclass, replace
from decimal import Decimal
from inspect import signature
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from benchmarks.papers.rows import PaperTable
from benchmarks.papers.trials import Scored, Trial, TrialOutcome
from dppca.common.analysis.estimators.base.projection import project
from dppca.common.analysis.estimators.svm import SVM
from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.errors import DataError

TEST_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class Split:
    """Training and test rows of a run; the same ones when it is scored on training rows."""

    rows: NDArray[np.float64]
    labels: NDArray[Any]
    test: NDArray[np.float64]
    truth: NDArray[Any]


def split_rows(table: PaperTable, cell: Trial, *, test_share: float = TEST_SHARE) -> Split:
    """Rows of a cell: all of them, or a stratified split that depends on the seed alone."""
    rows = table.rows[:, : cell.columns or None]
    if cell.scored is Scored.TRAINING:
        chosen = np.arange(len(rows))
        if cell.rows and cell.rows < len(rows):
            chosen, _ = _divided(table, test=len(rows) - cell.rows, seed=cell.seed)
        return Split(rows[chosen], table.labels[chosen], rows[chosen], table.labels[chosen])
    training, test = _divided(table, test=test_share, seed=cell.seed)
    training = training[: cell.rows or None]
    return Split(rows[training], table.labels[training], rows[test], table.labels[test])


def _divided(
    table: PaperTable, *, test: float, seed: int
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Two parts with the classes in proportion; ``test`` is a share or a number of rows."""
    try:
        training, rest = train_test_split(
            np.arange(len(table.rows)), test_size=test, stratify=table.labels, random_state=seed
        )
    except ValueError as error:
        raise DataError(
            f"{table.name} cannot be divided with every class on both sides: {error}"
        ) from error
    return training, rest


def make_machine(kind: type[Any], cell: Trial, **settings: Any) -> Any:
    """An estimator with its own settings and all that a cell says, as far as the kind takes it."""
    given = {
        "epsilon": cell.epsilon,
        "max_rows_per_person": 1,
        "variant": cell.variant,
        "allow_constant": True,
        "entropy": cell.entropy,
        "random_state": cell.noise_seed,
        **settings,
    }
    names = signature(kind).parameters
    return kind(**{name: value for name, value in given.items() if name in names})


def delta_for(cell: Trial, n_rows: int) -> str:
    """The delta of a cell as a decimal: given, or 1/n^2."""
    return f"{Decimal(1) / Decimal(n_rows) ** 2:.6e}" if cell.delta == "1/n^2" else cell.delta


def score(estimator: Any, split: Split, *, delta: str = "") -> TrialOutcome:
    """Fit an estimator of `dppca.common.papers` and score it."""
    started = perf_counter()
    estimator.fit(split.rows, split.labels)
    fitted = perf_counter()
    accuracy = float(np.mean(estimator.predict(split.test) == split.truth))
    ended = perf_counter()
    return TrialOutcome(
        n=len(split.rows),
        d=split.rows.shape[1],
        k=len(getattr(estimator, "components_", ())),
        accuracy=accuracy,
        seconds=fitted - started,
        predict_seconds=ended - fitted,
        delta=delta,
        true_epsilon=compute_true_epsilon(estimator),
        support_vectors=_support_vectors(estimator),
    )


def score_control(imitated: Any, split: Split, *, seed: int, kernel: str) -> TrialOutcome:
    """Score the control with as many columns as an estimator keeps; gamma is one over d, too.

    Only the number of the estimator's components is wanted: a linear one is quicker.
    """
    k = len(imitated.fit(split.rows, split.labels).components_)
    d = split.rows.shape[1]
    basis, _ = np.linalg.qr(np.random.default_rng(seed).normal(size=(d, k)))
    machine = SVM(kernel=kernel, C=1.0, gamma=1.0 / d, allow_constant=True)
    inside = Split(split.rows @ basis, split.labels, split.test @ basis, split.truth)
    return replace(score(machine, inside), d=d, k=k, true_epsilon="")


class Hinged:
    """An estimator's components, or all columns, and libsvm's linear machine on them.

    Its loss is the hinge, where `SVM` and the estimators have liblinear's square of it.
    """

    def __init__(self, estimator: Any) -> None:
        self.estimator = estimator

    def fit(self, X: NDArray[np.float64], y: NDArray[Any]) -> None:
        """Fit the estimator, then the machine; shapes (n, d) and (n,)."""
        self.estimator.fit(X, y)
        self.guarantee_ = self.estimator.guarantee_
        self.components_ = getattr(self.estimator, "components_", ())
        self.machine_ = SVC(kernel="linear", C=1.0).fit(self._inside(X), y)

    def predict(self, X: NDArray[np.float64]) -> NDArray[Any]:
        """Classes of rows, shape (n,)."""
        found: NDArray[Any] = self.machine_.predict(self._inside(X))
        return found

    def _inside(self, X: NDArray[np.float64]) -> NDArray[np.float64]:
        return project(X, np.asarray(self.components_)) if len(self.components_) else X


def compute_true_epsilon(estimator: Any) -> str:
    """What the noise costs for whatever it protects, as a decimal; empty where nothing is."""
    epsilon = estimator.guarantee_.epsilon
    return "" if epsilon is None else decimal_text(epsilon)


def _support_vectors(estimator: Any) -> int | None:
    if hasattr(estimator, "support_vectors_"):  # one array per machine
        return sum(len(vectors) for vectors in estimator.support_vectors_)
    counts = getattr(getattr(estimator, "machine_", None), "n_support_", None)
    return None if counts is None else int(counts.sum())
