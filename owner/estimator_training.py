"""Models that stay at their site, by the estimators of `common.methods`.

`site-only`: the machine is trained on raw rows. Noise that such a method draws (AG-SVM on its own
second moment, DPSVD on its rows) would make a part of it private if that part left alone; nothing
leaves, so nothing is charged, and for that reason no part of the file may leave either.

`published-method`: as a paper prints it, from rows that the steward says are public.

Rows whose target is missing or unknown are left out and counted, which is no release. The one
method that stands on the study's components is in `owner.training`.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from common.methods.classifier import has_converged
from common.study import Study
from owner.estimator_models import EstimatorModel, Fit, guarantee_document
from owner.estimators import estimator_for, features_reader
from owner.methods import Asked, Choice
from owner.models import features_of
from owner.records import Table
from owner.training import (
    choose_rows,
    read_rows,
    require_features,
    require_rows,
    require_schema,
    require_two_labels,
)


def train_estimator(
    choice: Choice,
    asked: Asked,
    study: Study,
    table: Table,
    *,
    target: str,
    rng: np.random.Generator,
    progress: Callable[[int], None] | None = None,
) -> EstimatorModel:
    """Train a classifier of ``target`` that stays.

    Parameters
    ----------
    choice
        Of `owner.methods.choose`; its label is not `released`.
    rng
        Draws the rows where ``max_rows`` limits them.

    Raises
    ------
    SettingError
        A setting is out of range; the message says what may be chosen.
    DataError
        All rows that have a label have the same one, or there are fewer rows than columns.
    """
    schema = study.table
    estimator = estimator_for(choice, asked, schema, target)
    require_schema(table, study)
    n_features = len(require_features(features_of(schema, target), target))
    chosen = choose_rows(table.n_rows, choice.kernel, asked.max_rows, rng)
    require_rows(table.n_rows if chosen is None else len(chosen), n_features, "coded columns")
    features, codes = read_rows(
        table, target, features_reader(schema, target), chosen=chosen, progress=progress
    )
    known = codes >= 0
    require_two_labels(target, codes)
    features, codes = features[known], codes[known]
    with warnings.catch_warnings():
        # Said by `converged` instead, which a warning on the terminal is easily lost beside.
        warnings.simplefilter("ignore", ConvergenceWarning)
        estimator.fit(features, codes)
    return EstimatorModel(
        study_digest=study.digest,
        schema=schema,
        target=target,
        method=choice.method.name,
        kernel=choice.kernel,
        estimator=estimator,
        label=estimator.guarantee_.label,
        guarantee=guarantee_document(estimator.guarantee_),
        fit=Fit(
            n_rows=len(codes),
            n_unlabelled=int(np.count_nonzero(~known)),
            training_accuracy=float(np.mean(estimator.predict(features) == codes)),
            converged=has_converged(getattr(estimator, "machine_", None)),
        ),
        receipt=None,
    )
