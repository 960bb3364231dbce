"""Estimators of a site's models, built on `dppca.common.analysis.estimators`.

They see scores in the study's components. The classes are codes of the target's labels.
"""

from dataclasses import dataclass
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.classifier import Classifier
from dppca.common.analysis.estimators.base.inputs import check_new_rows
from dppca.common.analysis.estimators.dpsvm import DPSVM, append_constant
from dppca.common.analysis.estimators.svm import SVM
from dppca.common.verification.model_archives import DP_SVM, DPPCA_SVM

_NOT_SETTINGS = frozenset({"entropy", "random_state"})


class ScoreSVM(SVM):
    """DPPCA-SVM's machine on scores in the study's components; `predict` asks the machine."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Return classes, shape (n_rows,)."""
        predicted: NDArray[Any] = self.classes_[self.machine_.predict(check_new_rows(self, X))]
        return predicted


class StoredDPSVM(DPSVM):
    """DP-SVM with the weights that a ledger stores: integers on a public grid.

    ``noised_`` are weights in steps of the grid, int64, shape (K, k + 1), the last the intercept's;
    ``step_`` is one step in real units.
    """

    noised_: NDArray[np.int64]
    step_: float

    def _scores(self, rows: NDArray[np.float64]) -> NDArray[np.float64]:
        scores: NDArray[np.float64] = (
            append_constant(rows, self.intercept_scaling) @ (self.noised_ * self.step_).T
        )
        return scores


@dataclass(frozen=True, slots=True)
class ModelKind:
    """Estimator class, and the names of the fitted values for predictions beside ``classes_``."""

    estimator: type[Classifier]
    state: tuple[str, ...]

    def make(self, settings: dict[str, Any]) -> Classifier:
        """Return an unfitted estimator with those settings that it accepts."""
        names = signature(self.estimator).parameters
        return self.estimator(**{key: value for key, value in settings.items() if key in names})

    def take_state(self, estimator: Classifier) -> dict[str, Any]:
        """Return the fitted values that predictions need."""
        return {name: getattr(estimator, name) for name in ("classes_", *self.state)}


KINDS = MappingProxyType(
    {DPPCA_SVM: ModelKind(ScoreSVM, ("machine_",)), DP_SVM: ModelKind(StoredDPSVM, ("noised_",))}
)


def describe_settings(estimator: Classifier) -> dict[str, Any]:
    """Return an estimator's settings as JSON, without its source of noise."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SETTINGS
    }
