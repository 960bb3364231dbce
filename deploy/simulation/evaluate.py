"""Quality of private results on real rows, which only a simulation can measure.

None of this is private and none of it exists in a federation: it needs the rows of all owners, or
held-out rows that no owner has. Reports mark it so.

Variance captured
    With S the covariance of all training rows, coded but without noise, and V the k private
    eigenvectors as rows, ``tr(V S V^T)`` over the sum of the k largest eigenvalues of S: 1 if
    the noise cost nothing. Any k orthonormal directions are between 0 and 1 (Ky Fan).
Accuracy
    Share of held-out rows that the linear SVM and the boosted trees of
    `dppca.common.analysis.estimators.utility` classify correctly, trained on real rows (train on
    real, test on real: ``trtr``) and on synthetic ones (``tstr``). Rows without a known target do
    not count.
Tables
    How far decoded synthetic rows are from the training rows, by
    `dppca.common.analysis.comparison.compare_each`, and how far held-out real rows are: as these
    are fewer, chance alone puts them further away.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dppca.common.analysis.comparison import WORKLOAD_TRIPLES, TableErrors, compare_each
from dppca.common.analysis.estimators.judgement import Judgement, verdict
from dppca.common.analysis.estimators.utility import (
    extract_features,
    extract_labels,
    judge_svm,
    judge_trees,
    stack_features,
    svm_rows,
    synthetic_labels,
    tree_rows,
)
from dppca.common.analysis.values import known_cells
from dppca.common.kernel.documents.names import nearest_name
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.moments.moments import compute_moments, empty_moments, unpack
from dppca.common.kernel.schema import Column, Numeric, Schema, encode

_BATCH_ROWS = 1 << 16  # that are coded at once


@dataclass(frozen=True, slots=True)
class JudgedUtility:
    """The linear machine and the trees on held-out real rows, by the rows of their training."""

    linear_real: Annotated[Judgement, "linear, trained on real rows of all owners"]
    linear_coded: Annotated[Judgement, "linear, trained on coded synthetic rows"]
    linear_decoded: Annotated[Judgement, "linear, trained on decoded synthetic rows"]
    trees_real: Annotated[Judgement, "trees, trained on real rows of all owners"]
    trees_decoded: Annotated[Judgement, "trees, trained on decoded synthetic rows"]


@dataclass(frozen=True, slots=True)
class Utility:
    """Accuracy of classifiers on held-out real rows, in [0, 1]: linear ones, and trees."""

    trtr_accuracy: Annotated[float, "trained on real rows of all owners: without any privacy"]
    tstr_accuracy: Annotated[float, "trained on coded synthetic rows"]
    tstr_accuracy_decoded: Annotated[float, "trained on decoded synthetic rows"]
    majority: Annotated[float, "always the commonest class of the training rows"]
    trtr_trees: Annotated[float, "boosted trees trained on real rows of all owners"]
    tstr_trees: Annotated[float, "boosted trees trained on decoded synthetic rows"]
    sampled: Annotated[str, "on which sample of rows each was trained; empty where on all"] = ""
    judged: Annotated[
        JudgedUtility | None, "the same, where one class may be rare; null in older reports"
    ] = None
    verdict: Annotated[str, "what decoded synthetic rows teach of the target, in words"] = ""

    @property
    def accuracies(self) -> list[tuple[str, float, float | None]]:
        """Training rows, with the accuracy of the linear machine and of the trees."""
        return [
            ("real rows of all owners, no privacy", self.trtr_accuracy, self.trtr_trees),
            ("synthetic rows, coded", self.tstr_accuracy, None),
            ("synthetic rows, decoded", self.tstr_accuracy_decoded, self.tstr_trees),
            ("nothing: the commonest class", self.majority, None),
        ]


@dataclass(frozen=True, slots=True)
class TableUtility:
    """Distances from the training rows."""

    synthetic: Annotated[TableErrors, "of decoded synthetic rows"]
    held_out: Annotated[TableErrors | None, "of held-out real rows; null where none are held out"]
    summary: Annotated[str, "both in words; empty for fewer than three attributes"]


def compare_tables(
    schema: Schema,
    *,
    training: Sequence[Column],
    held_out: Sequence[Column],
    decoded: Sequence[Column],
) -> TableUtility:
    """Compare synthetic and held-out rows with the training rows; all are uncoded columns."""
    tables = [decoded, held_out] if len(held_out[0]) else [decoded]
    made, *others = compare_each(schema, tables, training)
    real = others[0] if others else None
    return TableUtility(made, real, _summarise_tables(made, real))


def _summarise_tables(made: TableErrors, real: TableErrors | None) -> str:
    if made.three_way is None:
        return ""
    beside = ["", ""]
    if real is not None:
        beside = [f"; those of held-out real rows, which are fewer, by {real.three_way:.3f}"]
        beside.append(f"; of held-out real rows {real.workload:.3f}")
    return (
        f"Tables of three attributes are off by {made.three_way:.3f} (total variation between "
        f"decoded synthetic rows and the owners' rows){beside[0]}. Workload error (mean sum of "
        f"differences of shares, over {WORKLOAD_TRIPLES} random triples of attributes and what is "
        f"in them): {made.workload:.3f}{beside[1]}."
    )


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
    training: Sequence[Column],
    held_out: Sequence[Column],
    coded: NDArray[np.float64],
    decoded: Sequence[Column],
    released_mean: NDArray[np.float64] | None,
    real: tuple[Judgement, Judgement] | None = None,
) -> Utility:
    """Train on real and on synthetic rows, test on held-out real rows.

    ``training`` and ``held_out`` are real rows and ``decoded`` are decoded synthetic rows, as
    uncoded columns. ``coded`` are synthetic rows in coded coordinates, real units, shape (n, p).
    ``released_mean`` has shape (p,), coded units; None if the release has no sums. ``real`` is what
    `judge_real_rows` returns for the same rows; None calls it. Raise `DataError` if the target is
    known of no row that is trained or tried on.
    """
    index, unit = schema.find_index(target), float(1 << schema.resolution_bits)
    training, held_out = (_with_target(schema, target, each) for each in (training, held_out))
    test_rows, made_rows = encode(schema, held_out), encode(schema, decoded)
    seen, truth, made = (
        extract_labels(schema, target, rows)
        for rows in (encode(schema, training), test_rows, made_rows)
    )
    test = extract_features(schema, target, test_rows) / unit
    classes, sizes = np.unique(seen, return_counts=True)

    def linear(features: NDArray[np.float64], labels: NDArray[np.int64]) -> Judgement:
        return judge_svm(features, labels, test=test, truth=truth)

    linear_real, trees_real = real or judge_real_rows(
        schema, target, training=training, held_out=held_out
    )
    judged = JudgedUtility(
        linear_real=linear_real,
        linear_coded=linear(
            extract_features(schema, target, coded),
            synthetic_labels(schema, target, coded, released_mean),
        ),
        linear_decoded=linear(extract_features(schema, target, made_rows) / unit, made),
        trees_real=trees_real,
        trees_decoded=_judge_trees(index, decoded, made, held_out, truth),
    )
    return Utility(
        trtr_accuracy=judged.linear_real.accuracy,
        tstr_accuracy=judged.linear_coded.accuracy,
        tstr_accuracy_decoded=judged.linear_decoded.accuracy,
        majority=float((truth == classes[sizes.argmax()]).mean()),
        trtr_trees=judged.trees_real.accuracy,
        tstr_trees=judged.trees_decoded.accuracy,
        sampled=_describe_sample(
            max(map(len, (seen, made, coded))), test.shape[1], len(schema.attributes) - 1, classes
        ),
        judged=judged,
        verdict=verdict(
            target,
            (judged.linear_decoded, judged.trees_decoded),
            (judged.linear_real, judged.trees_real),
        ),
    )


def judge_real_rows(
    schema: Schema, target: str, *, training: Sequence[Column], held_out: Sequence[Column]
) -> tuple[Judgement, Judgement]:
    """Return what the linear machine and the trees reach, trained on real rows; see `evaluate`."""
    index, unit = schema.find_index(target), float(1 << schema.resolution_bits)
    training, held_out = (_with_target(schema, target, each) for each in (training, held_out))
    rows, tried = encode(schema, training), encode(schema, held_out)
    labels, truth = (extract_labels(schema, target, each) for each in (rows, tried))
    features, test = (extract_features(schema, target, each) / unit for each in (rows, tried))
    return (
        judge_svm(features, labels, test=test, truth=truth),
        _judge_trees(index, training, labels, held_out, truth),
    )


def _judge_trees(
    target: int,
    columns: Sequence[Column],
    labels: NDArray[np.int64],
    held_out: Sequence[Column],
    truth: NDArray[np.int64],
) -> Judgement:
    features, tried = (stack_features(each, without=[target]) for each in (columns, held_out))
    return judge_trees(features, labels, test=tried, truth=truth)


def _with_target(schema: Schema, target: str, columns: Sequence[Column]) -> list[Column]:
    index = schema.find_index(target)
    rows = known_cells(schema.attributes[index], columns[index])
    if not rows.any():
        raise DataError(
            f"no row, or no row that classifiers are tried on, has a label of {target}: take "
            "another target"
        )
    return [column[rows] for column in columns]


def _describe_sample(
    n_rows: int, n_columns: int, n_attributes: int, classes: NDArray[np.int64]
) -> str:
    """Return in words what the largest table, of ``n_rows``, was cut to; nothing if it was not."""
    most = {
        "linear machines": svm_rows(n_columns, len(classes)),
        "boosted trees": tree_rows(n_attributes, len(classes)),
    }
    parts = [f"{name} on {n:,} rows" for name, n in most.items() if n < n_rows]
    if not parts:
        return ""
    return f"Trained on a random sample of each table, always the same: {', '.join(parts)}."
