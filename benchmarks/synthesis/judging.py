"""What a table of rows is worth beside the real one, whatever a release coded it as.

A split s is ``numpy.random.default_rng(s).permutation(n)``: the first fifth is held out. Rows are
compared with the training rows by tables of one, two and three attributes and by workload error
(`dppca.common.analysis.comparison`); and machines that are trained on them, linear ones in the
plain coding and boosted trees (`dppca.common.analysis.estimators.utility`), are tested on the real
rows held out.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.experiment import Found
from benchmarks.studies import coded_rows
from benchmarks.synthesis.subjects import Target, load_subject
from dppca.common.analysis.comparison import compare_cells
from dppca.common.analysis.estimators.utility import judge_svm, judge_trees, stack_features
from dppca.common.kernel.schema import Column, Numeric, Schema

HELD_OUT = 0.2
Judged = TypeVar("Judged")
CELLS = 20
"""Equal cells of a numeric for which a data set says none."""


@dataclass(frozen=True, slots=True)
class Reference:
    """The real rows of a split: values of both parts, and cells of the training part."""

    training: list[Column]
    test: list[Column]
    truth: dict[str, NDArray[np.int64]]
    cells: NDArray[np.int64]
    sizes: list[int]

    def compared(self, columns: Sequence[Column]) -> Sequence[Column]:
        """The rows whose tables are compared: those held out in place of the training rows."""
        return self.test if all(map(np.array_equal, columns, self.training)) else columns


@lru_cache(8)
def find_reference(name: str, split: int) -> Reference:
    """What rows of a data set are compared with."""
    subject = load_subject(name)
    training, test = split_rows(subject.n_rows, split)
    unseen = [column[test] for column in subject.columns]
    seen = [column[training] for column in subject.columns]
    truth = {each.name: target_labels(subject.schema, each, unseen) for each in subject.targets}
    cells, sizes = attribute_cells(subject.schema, seen, subject.edges)
    return Reference(seen, unseen, truth, np.column_stack(cells), sizes)


def split_rows(n_rows: int, split: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Training and test rows of a split."""
    order = np.random.default_rng(split).permutation(n_rows)
    held_out = round(HELD_OUT * n_rows)
    return order[held_out:], order[:held_out]


def judge_rows(name: str, columns: Sequence[Column], split: int) -> Found:
    """Accuracies and AUC by target of linear machines and of trees, and distances of tables.

    ``singles``, ``pairs`` and ``triples`` are mean total variations, ``workload`` is FLAIM's error.
    Of the training rows themselves the distances are those of the rows held out, so that a table
    says what real rows would give.
    """
    subject, real = load_subject(name), find_reference(name, split)
    cells, _ = attribute_cells(subject.schema, real.compared(columns), subject.edges)
    tables = compare_cells(np.column_stack(cells), real.cells, real.sizes)
    linear = judge_machines(name, columns, split, judge_svm)
    trees = judge_machines(name, columns, split, judge_trees, coded=False)
    return {
        "accuracy": {target: each.accuracy for target, each in linear.items()},
        "trees": {target: each.accuracy for target, each in trees.items()},
        "auc": {target: each.auc for target, each in linear.items() if each.auc is not None},
        "trees_auc": {target: each.auc for target, each in trees.items() if each.auc is not None},
        "singles": tables.one_way,
        "pairs": tables.two_way,
        "triples": tables.three_way,
        "workload": tables.workload,
    }


def judge_machines(
    name: str,
    columns: Sequence[Column],
    split: int,
    machine: Callable[..., Judged],
    *,
    coded: bool = True,
) -> dict[str, Judged]:
    """What a machine trained on the rows reaches, by target.

    Parameters
    ----------
    machine
        Trains and tests a machine, as `dppca.common.analysis.estimators.utility.judge_svm` does.
    coded
        Whether it is given coded rows, or values and codes of labels.
    """
    subject, real = load_subject(name), find_reference(name, split)
    schema, tables, found = subject.schema, (columns, real.test), {}
    for target in subject.targets:
        hidden = [schema.find_index(each) for each in target.hidden]
        places = np.concatenate([np.arange(*schema.layout.groups[each]) for each in hidden])
        features, test = (
            np.delete(coded_rows(schema, each), places, axis=1)
            if coded
            else stack_features(each, without=hidden)
            for each in tables
        )
        labels = target_labels(schema, target, columns)
        found[target.name] = machine(features, labels, test=test, truth=real.truth[target.name])
    return found


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


def equal_cells(attribute: Numeric, column: Column, count: int) -> NDArray[np.int64]:
    """Number of the equal cell between a numeric's bounds that each value is in."""
    lower, upper = attribute.bounds
    scaled = (column - lower) / (upper - lower) * count
    return np.clip(np.floor(scaled), 0, count - 1).astype(np.int64)
