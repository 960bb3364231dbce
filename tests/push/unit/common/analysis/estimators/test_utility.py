"""Classifiers that judge rows: of a large table a sample is enough, and it is always the same."""

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.estimators import utility
from dppca.common.analysis.estimators.judgement import Judgement
from dppca.common.analysis.estimators.utility import (
    fit_svm,
    judge_svm,
    judge_trees,
    svm_rows,
    tree_rows,
)

N_ROWS, N_TRAINED = 12_000, 8_000
MACHINES = pytest.mark.parametrize("machine", [judge_svm, judge_trees])
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]


@pytest.fixture(scope="module")
def rows() -> tuple[Floats, Labels]:
    """Eight coded numbers and three classes, which two of the numbers tell apart but for noise."""
    rng = np.random.default_rng(4)
    features = np.rint(rng.uniform(-1, 1, (N_ROWS, 8)) * 1024) / 1024
    scores = np.column_stack([features[:, 0], features[:, 1], -features[:, 0]])
    return features, (scores + rng.gumbel(size=scores.shape) * 0.2).argmax(axis=1)


def _judge(machine: Callable[..., Judgement], rows: tuple[Floats, Labels]) -> float:
    features, labels = rows
    judged = machine(
        features[:N_TRAINED],
        labels[:N_TRAINED],
        test=features[N_TRAINED:],
        truth=labels[N_TRAINED:],
    )
    assert judged.auc is not None
    assert judged.auc > 0.9
    return judged.accuracy


@MACHINES
def test_a_sample_of_the_rows_is_always_the_same_and_judges_as_all_of_them_do(
    machine: Callable[..., Judgement], rows: tuple[Floats, Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    of_all = _judge(machine, rows)
    monkeypatch.setattr(utility, "SVM_CELLS", 0)
    monkeypatch.setattr(utility, "TREE_CELLS", 0)
    assert svm_rows(8, 3) == tree_rows(8, 3) == utility.LEAST_ROWS < N_TRAINED
    sampled = _judge(machine, rows)
    assert sampled == _judge(machine, rows)
    # 4,000 rows are tried: one standard deviation of each accuracy is .006.
    assert sampled == pytest.approx(of_all, abs=0.03)
    assert min(sampled, of_all) > 0.8


def test_rows_beyond_the_sample_have_no_effect_and_a_small_table_is_taken_whole(
    rows: tuple[Floats, Labels], monkeypatch: pytest.MonkeyPatch
) -> None:
    features, labels = rows
    given = {"test": features[N_TRAINED:], "truth": labels[N_TRAINED:]}
    whole = float((fit_svm(features[:2000], labels[:2000])(given["test"]) == given["truth"]).mean())
    monkeypatch.setattr(utility, "SVM_CELLS", 0)
    assert judge_svm(features[:2000], labels[:2000], **given).accuracy == whole
    kept = utility.limit_rows(N_TRAINED, utility.LEAST_ROWS)
    assert isinstance(kept, np.ndarray)
    others = np.setdiff1d(np.arange(N_TRAINED), kept)
    changed = labels[:N_TRAINED].copy()
    changed[others] = rows[1][others][::-1]
    assert (changed != labels[:N_TRAINED]).sum() > 1000
    expected = judge_svm(features[:N_TRAINED], labels[:N_TRAINED], **given)
    assert judge_svm(features[:N_TRAINED], changed, **given) == expected


def test_the_sample_depends_on_the_size_of_the_work_alone() -> None:
    assert svm_rows(104, 2) == 48_076
    assert (svm_rows(126, 3), tree_rows(126, 3)) == (13_227, 5_291)
    assert tree_rows(14, 2) == utility.TREE_ROWS == 50_000
    assert svm_rows(100_000, 5) == tree_rows(100_000, 5) == utility.LEAST_ROWS == 2_000
    assert svm_rows(0, 1) == utility.SVM_CELLS
