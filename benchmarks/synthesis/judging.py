"""What a table of rows is worth beside the real one, whatever a release coded it as.

A split s is ``numpy.random.default_rng(s).permutation(n)``: the first fifth is held out. Rows are
compared with the training rows by total variation, over all attributes and over all pairs of them;
and a machine that is trained on them in the plain coding is tested on the real rows held out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import Found
from benchmarks.studies import coded_rows
from benchmarks.synthesis.subjects import Subject, Target, load_subject
from dppca.common.estimators.utility import svm_accuracy
from dppca.common.schema import Column, Numeric, Schema

HELD_OUT = 0.2
CELLS = 20
"""Equal cells of a numeric, alone and in a pair."""

Tables = list[NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class Reference:
    """The real rows of a split: values of the training part, and the part held out, coded."""

    training: list[Column]
    test: NDArray[np.float64]
    truth: dict[str, NDArray[np.int64]]
    pairs: Tables


@lru_cache(8)
def find_reference(name: str, split: int) -> Reference:
    """What rows of a data set are compared with."""
    subject = load_subject(name)
    training, test = split_rows(subject.n_rows, split)
    unseen = [column[test] for column in subject.columns]
    seen = [column[training] for column in subject.columns]
    truth = {each.name: target_labels(subject.schema, each, unseen) for each in subject.targets}
    return Reference(seen, coded_rows(subject.schema, unseen), truth, pair_tables(subject, seen))


def split_rows(n_rows: int, split: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows of a split."""
    order = np.random.default_rng(split).permutation(n_rows)
    held_out = round(HELD_OUT * n_rows)
    return order[held_out:], order[:held_out]


def judge_rows(name: str, columns: Sequence[Column], split: int) -> Found:
    """Return the accuracy by target, and the mean total variation of the two-way ``pairs``."""
    pairs = pair_tables(load_subject(name), columns)
    return {
        "accuracy": find_accuracies(name, columns, split),
        "pairs": find_variation(pairs, find_reference(name, split).pairs),
    }


def find_accuracies(
    name: str,
    columns: Sequence[Column],
    split: int,
    *,
    accuracy: Callable[..., float] = svm_accuracy,
) -> dict[str, float]:
    """Accuracy of a machine trained on the rows, by target.

    Parameters
    ----------
    accuracy
        Trains and tests a machine, as `dppca.common.estimators.utility.svm_accuracy` does.
    """
    subject, real = load_subject(name), find_reference(name, split)
    coded = coded_rows(subject.schema, columns)
    return {
        target.name: accuracy(
            _features(subject.schema, target, coded),
            target_labels(subject.schema, target, columns),
            test=_features(subject.schema, target, real.test),
            truth=real.truth[target.name],
        )
        for target in subject.targets
    }


def find_variation(made: Tables, real: Tables) -> float:
    """Mean total variation of tables of shares."""
    return float(np.mean([np.abs(a - b).sum() / 2 for a, b in zip(made, real, strict=True)]))


def target_labels(schema: Schema, target: Target, columns: Sequence[Column]) -> NDArray[np.int64]:
    """1 where a row is of the class that is asked for."""
    index = schema.find_index(target.attribute)
    attribute = schema.attributes[index]
    assert not isinstance(attribute, Numeric)
    codes = [code for code, label in enumerate(attribute.labels) if label in target.labels]
    return np.isin(columns[index], codes).astype(np.int64)


def attribute_cells(
    schema: Schema,
    columns: Sequence[Column],
    edges: Mapping[str, NDArray[np.float64]],
    *,
    count: int = CELLS,
) -> tuple[list[NDArray[np.int64]], list[int]]:
    """Each attribute's cells for the tables, shape (n_rows,) each, and how many there are.

    Numerics without ``edges`` have ``count`` equal cells.
    """
    cells, sizes = [], []
    for attribute, column in zip(schema.attributes, columns, strict=True):
        if not isinstance(attribute, Numeric):
            cells.append(np.asarray(column, np.int64))
            sizes.append(len(attribute.labels))
        elif attribute.name in edges:
            inner = edges[attribute.name]
            cells.append(np.digitize(np.clip(column, attribute.lower, attribute.upper), inner))
            sizes.append(len(inner) + 1)
        else:
            cells.append(equal_cells(attribute, column, count))
            sizes.append(count)
    return cells, sizes


def single_tables(subject: Subject, columns: Sequence[Column]) -> Tables:
    """Shares of the rows in the cells of every attribute."""
    cells, sizes = attribute_cells(subject.schema, columns, subject.edges)
    return [
        np.bincount(each, minlength=size) / len(each)
        for each, size in zip(cells, sizes, strict=True)
    ]


def pair_tables(subject: Subject, columns: Sequence[Column]) -> Tables:
    """Shares of the rows in the cells of every pair of attributes."""
    cells, sizes = attribute_cells(subject.schema, columns, subject.edges)
    n_rows = len(cells[0])
    return [
        np.bincount(cells[i] * sizes[j] + cells[j], minlength=sizes[i] * sizes[j]) / n_rows
        for i in range(len(cells))
        for j in range(i + 1, len(cells))
    ]


def equal_cells(attribute: Numeric, column: Column, count: int) -> NDArray[np.int64]:
    """Which of so many equal cells between a numeric's bounds each value is in."""
    lower, upper = attribute.bounds
    scaled = (column - lower) / (upper - lower) * count
    return np.clip(np.floor(scaled), 0, count - 1).astype(np.int64)


def _features(schema: Schema, target: Target, coded: NDArray[np.float64]) -> NDArray[np.float64]:
    """Coded columns that a target is predicted from."""
    groups = [schema.layout.groups[schema.find_index(name)] for name in target.hidden]
    return np.delete(coded, np.concatenate([np.arange(*group) for group in groups]), axis=1)
