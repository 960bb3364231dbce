"""The estimators of `dppca.common.estimators` behind a site's models.

A model on the study's components has an estimator that sees scores (`STUDY_METHODS`); the others
see coded columns (`OWN_METHODS`). The classes are codes of the target's labels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from inspect import signature
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.amounts import decimal_text
from dppca.common.attestation.model_archives import DP_SVM, DPPCA_SVM
from dppca.common.estimators import (
    AGSVM,
    DPPCASVM,
    DPSVD,
    DPSVM,
    DPSVMDVP,
    PCADPSVM,
    SVM,
    MODSuLQSVM,
    PrivateSVM,
)
from dppca.common.estimators.base.classifier import Classifier
from dppca.common.estimators.base.inputs import check_rows
from dppca.common.estimators.base.settings import parse_delta, parse_epsilon
from dppca.common.estimators.dpsvm import append_constant
from dppca.common.schema import Schema
from dppca.owner.models.catalogue import ResolvedMethod, TrainOptions
from dppca.owner.models.features import find_target

_NOT_SETTINGS = frozenset({"entropy", "random_state"})


class ScoreSVM(SVM):
    """DPPCA-SVM's machine on scores in the study's components; predicts as the machine does."""

    def predict(self, X: Any) -> NDArray[Any]:
        """Classes, shape (n_rows,)."""
        predicted: NDArray[Any] = self.classes_[self.machine_.predict(check_rows(self, X))]
        return predicted


class StoredDPSVM(DPSVM):
    """DP-SVM by the weights that a ledger stores: integers on a public grid.

    Attributes
    ----------
    noised_
        Weights in steps of the grid, int64, shape (K, k + 1); the last is the intercept's.
    step_
        One step in real units.
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
    """An estimator, and the fitted values that it predicts from, beside ``classes_``."""

    estimator: type[Classifier]
    state: tuple[str, ...]

    def make(self, settings: dict[str, Any]) -> Classifier:
        """An unfitted estimator by those of the settings that it has."""
        names = signature(self.estimator).parameters
        return self.estimator(**{key: value for key, value in settings.items() if key in names})

    def take_state(self, estimator: Classifier) -> dict[str, Any]:
        """The fitted values that predictions need."""
        return {name: getattr(estimator, name) for name in ("classes_", *self.state)}


STUDY_METHODS = MappingProxyType(
    {DPPCA_SVM: ModelKind(ScoreSVM, ("machine_",)), DP_SVM: ModelKind(StoredDPSVM, ("noised_",))}
)
OWN_METHODS = MappingProxyType(
    {
        "dppca-svm": ModelKind(DPPCASVM, ("components_", "machine_")),
        "ag-svm": ModelKind(AGSVM, ("components_", "machine_")),
        "mod-sulq-svm": ModelKind(MODSuLQSVM, ("components_", "machine_")),
        "pca-dpsvm": ModelKind(PCADPSVM, ("components_", "coef_", "intercept_")),
        "private-svm": ModelKind(PrivateSVM, ("frequencies_", "coef_")),
        "dpsvd": ModelKind(DPSVD, ("components_", "machine_", "only_")),
        "dpsvmdvp": ModelKind(DPSVMDVP, ("support_vectors_", "dual_coef_", "intercept_", "gamma_")),
        "svm": ModelKind(SVM, ("machine_",)),
    }
)
"""Two are made now; files of the others, which earlier versions made, are still opened."""


def find_kind(method: str, *, uses_study: bool) -> ModelKind:
    """The estimator of a method; `KeyError` for one that is not known."""
    return (STUDY_METHODS if uses_study else OWN_METHODS)[method]


def make_estimator(
    resolved: ResolvedMethod, options: TrainOptions, schema: Schema, target: str
) -> Classifier:
    """An unfitted estimator of a model that may leave, with all that is public already set.

    The classes are all labels of the schema, whether they occur or not.
    """
    return OWN_METHODS[resolved.method.name].make(
        {
            "epsilon": _normalise(options.epsilon, parse_epsilon),
            "delta": _normalise(options.delta, parse_delta),
            "n_components": options.n_components,
            "C": resolved.C,
            "row_norm": schema.largest_norm(without=target),
            "max_rows_per_person": schema.max_rows_per_person,
            "classes": tuple(range(len(find_target(schema, target).labels))),
            "allow_constant": True,
            # Draws the public basis: the same when a command that died is run again.
            "random_state": int(schema.digest[:8], 16),
        }
    )


def _normalise(text: str | None, parse: Callable[[object], Decimal]) -> str | None:
    """1.0 and 1 are one number, and must be one request."""
    return None if text is None else decimal_text(parse(text))


def describe_settings(estimator: Classifier) -> dict[str, Any]:
    """Its settings as JSON, without what it draws noise from."""
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in estimator.get_params(deep=False).items()
        if name not in _NOT_SETTINGS
    }
