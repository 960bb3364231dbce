"""What a table of rows is worth beside the real one: one judge for all who made one.

Accuracy is on the real rows held out, coded plainly, of a machine trained on the rows: the linear
one of `dppca.common.estimators.utility`, and libsvm's with an RBF kernel (C = 1, gamma "scale",
standardised columns) on the first 5,000 of them, for its time grows with their square. Total
variation is against the training rows, the mean over all attributes and over all pairs of them,
in the cells of `benchmarks.synthesis`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import fmean

import numpy as np
from numpy.typing import NDArray

from benchmarks.synthesis.subjects import Subject, load_subject
from benchmarks.synthesis.trials import (
    CELLS,
    attribute_cells,
    pair_tables,
    split_rows,
    target_features,
    target_labels,
)
from dppca.common.estimators.utility import svm_accuracy
from dppca.common.schema import Column, Numeric, encode

RBF_ROWS = 5000


@dataclass(frozen=True, slots=True)
class Judgement:
    """Figures of one table.

    Attributes
    ----------
    linear, rbf
        Accuracy by target.
    singles, pairs
        Mean total variation of the one-way and of the two-way tables.
    """

    linear: dict[str, float]
    rbf: dict[str, float]
    singles: float
    pairs: float


@lru_cache(1)
def read_subject(name: str) -> Subject:
    """The data set, read once."""
    return load_subject(name)


def judge_rows(name: str, columns: Sequence[Column], split: int) -> Judgement:
    """Judge columns of values, as the data set has them."""
    subject = read_subject(name)
    schema, unit = subject.schema, float(1 << subject.schema.resolution_bits)
    training, held_out = split_rows(subject.n_rows, split)
    seen = [column[training] for column in subject.columns]
    unseen = [column[held_out] for column in subject.columns]
    coded, test = encode(schema, columns) / unit, encode(schema, unseen) / unit
    linear, rbf = {}, {}
    for target in subject.targets:
        features = target_features(schema, target, coded)
        labels = target_labels(schema, target, columns)
        rows = target_features(schema, target, test)
        truth = target_labels(schema, target, unseen)
        linear[target.name] = svm_accuracy(features, labels, test=rows, truth=truth)
        rbf[target.name] = _rbf_accuracy(features[:RBF_ROWS], labels[:RBF_ROWS], rows, truth)
    return Judgement(
        linear,
        rbf,
        _variation(_single_tables(subject, columns), _single_tables(subject, seen)),
        _variation(pair_tables(subject, columns), pair_tables(subject, seen)),
    )


def draw_values(
    subject: Subject, codes: NDArray[np.float64], rng: np.random.Generator
) -> list[Column]:
    """Columns of values from cells, shape (n_rows, attributes); evenly within a numeric's."""
    columns: list[Column] = []
    for attribute, cell in zip(subject.schema.attributes, codes.T.astype(np.int64), strict=True):
        if not isinstance(attribute, Numeric):
            columns.append(cell.astype(np.int32))
            continue
        edges = cell_edges(subject, attribute)
        columns.append(edges[cell] + rng.random(len(cell)) * (edges[cell + 1] - edges[cell]))
    return columns


def cell_edges(subject: Subject, attribute: Numeric) -> NDArray[np.float64]:
    """Edges of a numeric's cells in the tables, both bounds among them, in its own unit."""
    assert attribute.lower is not None
    assert attribute.upper is not None
    if attribute.name not in subject.edges:
        return np.linspace(attribute.lower, attribute.upper, CELLS + 1)
    inner = subject.edges[attribute.name]
    # Public edges may lie outside a study's bounds; nothing is in their cells.
    edges = np.r_[attribute.lower, inner, attribute.upper].astype(np.float64)
    clipped: NDArray[np.float64] = edges.clip(attribute.lower, attribute.upper)
    return clipped


def _rbf_accuracy(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> float:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    if len(np.unique(labels)) == 1:
        return float((truth == labels[0]).mean())
    machine = make_pipeline(StandardScaler(), SVC(kernel="rbf", C=1.0, gamma="scale"))
    return float((machine.fit(features, labels).predict(test) == truth).mean())


def _single_tables(subject: Subject, columns: Sequence[Column]) -> list[NDArray[np.float64]]:
    cells, sizes = attribute_cells(subject, columns)
    return [
        np.bincount(each, minlength=size) / len(each)
        for each, size in zip(cells, sizes, strict=True)
    ]


def _variation(made: Sequence[NDArray[np.float64]], real: Sequence[NDArray[np.float64]]) -> float:
    return fmean(float(np.abs(a - b).sum() / 2) for a, b in zip(made, real, strict=True))
