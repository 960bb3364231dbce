"""What a table of rows is worth beside the real one: one judge for all who made one.

As in `benchmarks.synthesis.judging`; beside its linear machine stands libsvm's with an RBF kernel
(C = 1, gamma "scale", standardised columns) on the first 5,000 rows, for its time grows with their
square.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import Found
from benchmarks.synthesis.judging import (
    CELLS,
    find_accuracies,
    find_reference,
    find_variation,
    judge_rows,
    single_tables,
)
from benchmarks.synthesis.subjects import Subject, load_subject
from dppca.common.schema import Column, Numeric

RBF_ROWS = 5000


def judge_table(name: str, columns: Sequence[Column], split: int) -> Found:
    """Judge columns of values, as the data set has them.

    ``linear`` and ``rbf`` are accuracies by target; ``singles`` and ``pairs`` the mean total
    variation of the one-way and of the two-way tables.
    """
    subject, real = load_subject(name), find_reference(name, split)
    singles = single_tables(subject, real.training)
    judged = judge_rows(name, columns, split)
    return {
        "linear": judged["accuracy"],
        "rbf": find_accuracies(name, columns, split, accuracy=_rbf_accuracy),
        "singles": find_variation(single_tables(subject, columns), singles),
        "pairs": judged["pairs"],
    }


def draw_values(
    subject: Subject, codes: NDArray[np.float64], rng: np.random.Generator
) -> list[Column]:
    """Columns of values from cells, shape (n_rows, attributes); evenly within a numeric's."""
    columns: list[Column] = []
    for attribute, cell in zip(subject.schema.attributes, codes.T.astype(np.int64), strict=True):
        if not isinstance(attribute, Numeric):
            columns.append(cell.astype(np.int32))
            continue
        edges = _cell_edges(subject, attribute)
        columns.append(edges[cell] + rng.random(len(cell)) * (edges[cell + 1] - edges[cell]))
    return columns


def _cell_edges(subject: Subject, attribute: Numeric) -> NDArray[np.float64]:
    """Edges of a numeric's cells in the tables, both bounds among them, in its own unit."""
    lower, upper = attribute.bounds
    if attribute.name not in subject.edges:
        return np.linspace(lower, upper, CELLS + 1)
    # Public edges may lie outside a study's bounds; nothing is in their cells.
    edges = np.r_[lower, subject.edges[attribute.name], upper].astype(np.float64)
    clipped: NDArray[np.float64] = edges.clip(lower, upper)
    return clipped


def _rbf_accuracy(
    features: NDArray[np.float64],
    labels: NDArray[np.int64],
    *,
    test: NDArray[np.float64],
    truth: NDArray[np.int64],
) -> float:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC

    features, labels = features[:RBF_ROWS], labels[:RBF_ROWS]
    if len(np.unique(labels)) == 1:
        return float((truth == labels[0]).mean())
    machine = make_pipeline(StandardScaler(), SVC(kernel="rbf", C=1.0, gamma="scale"))
    return float((machine.fit(features, labels).predict(test) == truth).mean())
