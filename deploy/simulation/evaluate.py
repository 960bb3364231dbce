"""Quality of private results on real rows, which only a simulation can measure.

None of this is private and none of it exists in a federation: it needs the rows of all owners, or
held-out rows that no owner has. Reports mark it so.

Variance captured
    With S the covariance of all training rows, coded but without noise, and V the k private
    eigenvectors as rows, ``tr(V S V^T)`` over the sum of the k largest eigenvalues of S: 1 if
    the noise cost nothing. Any k orthonormal directions are between 0 and 1 (Ky Fan).
Accuracy
    Share of held-out rows that the linear SVM of `dppca.common.estimators.utility` classifies
    correctly, trained on real rows (train on real, test on real: ``trtr``) and on synthetic ones
    (``tstr``).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.documents.names import nearest_name
from dppca.common.errors import SettingError
from dppca.common.numerics.moments.moments import compute_moments, empty_moments, unpack
from dppca.common.schema import Numeric, Schema

_BATCH_ROWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Utility:
    """Accuracy of a classifier on held-out real rows, in [0, 1]."""

    trtr_accuracy: Annotated[float, "trained on real rows of all owners: without any privacy"]
    tstr_accuracy: Annotated[float, "trained on coded synthetic rows"]
    tstr_accuracy_decoded: Annotated[float, "trained on decoded synthetic rows"]
    majority: Annotated[float, "always the commonest class of the training rows"]


def compute_pooled_covariance(schema: Schema, rows: NDArray[np.int32]) -> NDArray[np.float64]:
    """Covariance of coded rows without noise, about their mean if a release has one.

    ``rows`` have shape (n_rows, p), units of ``2**-g``; the result has shape (p, p), in the units
    of the components' eigenvalues.
    """
    layout = replace(schema.layout, histograms=(), tables=())  # a covariance uses none
    moments = empty_moments(layout)
    for start in range(0, len(rows), _BATCH_ROWS):
        moments = moments.merge(compute_moments(rows[start : start + _BATCH_ROWS], layout))
    mean, second = unpack(moments.packed, moments.n_rows, layout)
    return second if mean is None else second - np.outer(mean, mean)


def captured_variance(covariance: NDArray[np.float64], vectors: NDArray[np.float64]) -> float:
    """Variance along these directions, as a share of the variance along the best k.

    ``covariance`` is noise-free, shape (p, p); ``vectors`` are orthonormal rows, shape (k, p).
    """
    best = np.linalg.eigvalsh(covariance)[::-1][: len(vectors)].sum()
    if best <= 0:
        return 1.0
    return float(np.einsum("ki,ij,kj->", vectors, covariance, vectors) / best)


def variance_by_chance(covariance: NDArray[np.float64], count: int) -> float:
    """Expected variance along random directions, as a share of the variance along the best k.

    ``covariance`` is noise-free, shape (p, p); ``count`` is k, from 1 to p.
    """
    eigenvalues = np.linalg.eigvalsh(covariance)[::-1]
    best = eigenvalues[:count].sum()
    return float(count / len(eigenvalues) * eigenvalues.sum() / best) if best > 0 else 1.0


def check_target(schema: Schema, target: str) -> None:
    """Raise `SettingError` unless the target has classes and another attribute can predict it."""
    names = [a.name for a in schema.attributes if not isinstance(a, Numeric)]
    if target not in names:
        listed = ", ".join(names) or "none: this schema has numbers only"
        near = nearest_name(target, names)
        meant = "" if near is None else f"; did you mean {near}?"
        raise SettingError(
            f"the target must be a binary or categorical attribute, not {target}: {listed}{meant}"
        )
    if len(schema.attributes) < 2:
        raise SettingError("an accuracy needs a second attribute to predict the target from")


def evaluate(
    schema: Schema,
    target: str,
    *,
    training: NDArray[np.int32],
    held_out: NDArray[np.int32],
    coded: NDArray[np.float64],
    decoded: NDArray[np.int32],
    released_mean: NDArray[np.float64] | None,
) -> Utility:
    """Train on real and on synthetic rows, test on held-out real rows.

    ``training`` and ``held_out`` are real rows from `encode`, and ``decoded`` are decoded synthetic
    rows, coded again by `encode`, in units of ``2**-g``. ``coded`` are synthetic rows in coded
    coordinates, real units, shape (n, p). ``released_mean`` has shape (p,), coded units; None if
    the release has no sums.
    """
    from dppca.common.estimators.utility import (  # scikit-learn takes its time to import
        extract_features,
        extract_labels,
        svm_accuracy,
        synthetic_labels,
    )

    unit = float(1 << schema.resolution_bits)
    truth = extract_labels(schema, target, held_out)
    test = extract_features(schema, target, held_out) / unit
    seen = extract_labels(schema, target, training)
    classes, sizes = np.unique(seen, return_counts=True)

    def accuracy(features: NDArray[np.float64], labels: NDArray[np.int64]) -> float:
        return svm_accuracy(features, labels, test=test, truth=truth)

    return Utility(
        trtr_accuracy=accuracy(extract_features(schema, target, training) / unit, seen),
        tstr_accuracy=accuracy(
            extract_features(schema, target, coded),
            synthetic_labels(schema, target, coded, released_mean),
        ),
        tstr_accuracy_decoded=accuracy(
            extract_features(schema, target, decoded) / unit,
            extract_labels(schema, target, decoded),
        ),
        majority=float((truth == classes[sizes.argmax()]).mean()),
    )
