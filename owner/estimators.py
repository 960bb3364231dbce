"""The estimators of `common.methods` on a site's rows.

Rows are coded by the study's schema, without the target's columns, in real units: numerics and
binaries in [-1/2, 1/2], one indicator of 1 per categorical, or rows in the unit ball. No coded row
is longer than the public radius ``R = sqrt(Q/4 + c)`` (1 in the unit ball), which the estimator has
as ``row_norm``; `max_rows_per_person` is the schema's. Coding is total, so an estimator never sees
a value that is missing or out of bounds. The classes are codes of the target's labels.

What such a model leaves out or holds back is `owner.methods`' to say.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from common.methods import (
    AGSVM,
    DPPCASVM,
    DPSVD,
    DPSVMDVP,
    PCADPSVM,
    SVM,
    MODSuLQSVM,
    PrivateSVM,
)
from common.methods.classifier import Classifier
from common.methods.settings import delta_of, epsilon_of
from common.privacy.labels import Label
from common.schema import Column, Schema
from common.study import decimal_text
from owner.methods import SOUND, Asked, Choice
from owner.model_release import largest_norm
from owner.models import coded_features, features_of
from owner.training import target_of

KINDS: MappingProxyType[str, type[Classifier]] = MappingProxyType(
    {
        "dppca-svm": DPPCASVM,
        "ag-svm": AGSVM,
        "mod-sulq-svm": MODSuLQSVM,
        "pca-dpsvm": PCADPSVM,
        "private-svm": PrivateSVM,
        "dpsvd": DPSVD,
        "dpsvmdvp": DPSVMDVP,
        "svm": SVM,
    }
)
_NOT_SETTINGS = frozenset({"entropy", "random_state"})


def estimator_for(choice: Choice, asked: Asked, schema: Schema, target: str) -> Classifier:
    """An unfitted estimator with all that is public already set.

    The classes of one that may leave are all labels of the schema, whether they occur or not; of
    one that stays, those that occur.
    """
    kind = KINDS[choice.method.name]
    names = kind._get_param_names()
    leaves = choice.label is Label.RELEASED
    values: dict[str, Any] = {
        "epsilon": _one_form(asked.epsilon, epsilon_of),
        "delta": _one_form(asked.delta, delta_of),
        "label_epsilon": _one_form(asked.label_epsilon, epsilon_of),
        "variant": choice.variant,
        "n_components": asked.n_components,
        "kernel": choice.kernel,
        "C": choice.C,
        "standardise": choice.variant == SOUND,
        "row_norm": largest_norm(schema, target),
        "max_rows_per_person": schema.max_rows_per_person,
        "classes": tuple(range(len(target_of(schema, target).labels))) if leaves else None,
        "allow_constant": True,
    }
    estimator = kind(**{name: value for name, value in values.items() if name in names})
    if leaves and "random_state" in names:
        # Of the public basis: it must be the same when a command that died is run again.
        estimator.set_params(random_state=int(schema.digest[:8], 16))
    return estimator


def _one_form(text: str | None, parse: Callable[[object], Decimal]) -> str | None:
    """1.0 and 1 are one number, and must be one request."""
    return None if text is None else decimal_text(parse(text))


def settings_of(estimator: Classifier) -> dict[str, Any]:
    """Its settings as JSON, without what it draws noise from."""
    found = estimator.get_params(deep=False)
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in found.items()
        if name not in _NOT_SETTINGS
    }


def features_reader(schema: Schema, target: str) -> Callable[[list[Column]], NDArray[np.float64]]:
    """From a batch of columns to what an estimator sees, shape (n_batch, f). Site-only."""
    features = features_of(schema, target)
    return lambda columns: coded_features(schema, columns, features)
