"""What synthetic rows are good for: train on them, test on real rows.

One linear SVM (standardised columns, squared hinge loss, C = 0.1, solved in the primal). Features
are the coded columns of all attributes but the target. The target of coded synthetic rows is a
coordinate, or one for each category: `synthetic_labels` makes classes of them with what was
released, and nothing else.

An accuracy on real rows is computed from rows: it is for a simulation, or for the site alone.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from common.numerics.decode import coded_labels
from common.schema import Categorical, Schema

_ITERATIONS = 20_000


def labels_of(schema: Schema, target: str, rows: NDArray[np.int32]) -> NDArray[np.int64]:
    """Classes of rows that `encode` made, shape (n_rows,)."""
    index = schema.index_of(target)
    start, stop = schema.layout.groups[index]
    if isinstance(schema.attributes[index], Categorical):
        return np.asarray(rows[:, start:stop].argmax(axis=1), np.int64)
    return np.asarray(rows[:, start] > 0, np.int64)


def synthetic_labels(
    schema: Schema,
    target: str,
    coded: NDArray[np.float64],
    released_mean: NDArray[np.float64] | None,
) -> NDArray[np.int64]:
    """Classes of synthetic rows in coded coordinates, shape (n_rows,).

    A binary is cut where its released mean is kept, or in the middle of its two codes where no
    mean was released; of a categorical's indicators the largest decides.
    """
    index = schema.index_of(target)
    start, stop = schema.layout.groups[index]
    if isinstance(schema.attributes[index], Categorical):
        return np.asarray(coded[:, start:stop].argmax(axis=1), np.int64)
    if released_mean is None:
        return np.asarray(coded[:, start] > 0, np.int64)
    return coded_labels(coded[:, start], float(released_mean[start])).astype(np.int64)


def features_of(
    schema: Schema, target: str, coded: NDArray[np.float64] | NDArray[np.int32]
) -> NDArray[np.float64]:
    """Coded columns of every attribute but the target, shape (n_rows, p - width of target)."""
    start, stop = schema.layout.groups[schema.index_of(target)]
    return np.delete(np.asarray(coded, np.float64), np.s_[start:stop], axis=1)


def fitted_svm(
    features: NDArray[np.float64], labels: NDArray[np.int64]
) -> Callable[[NDArray[np.float64]], NDArray[np.int64]]:
    """Train the linear SVM of the module; a function from features (n, d) to labels (n,).

    Where the training rows have one class only, that class is the answer to everything.
    """
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import LinearSVC

    present = np.unique(labels)
    if len(present) == 1:
        return lambda rows: np.full(len(rows), present[0])
    model = make_pipeline(StandardScaler(), LinearSVC(C=0.1, dual=False, max_iter=_ITERATIONS))
    model.fit(features, labels)
    return lambda rows: np.asarray(model.predict(rows), np.int64)


def svm_accuracy(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> float:
    """Accuracy on ``test`` of `fitted_svm`."""
    return float((fitted_svm(features, labels)(test) == truth).mean())
