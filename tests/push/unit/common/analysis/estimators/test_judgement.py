"""What a classifier is worth where one class is rare: figures of scikit-learn, and words."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import balanced_accuracy_score, roc_auc_score

from dppca.common.analysis.estimators.judgement import Judgement, judge, mean_judgement, verdict
from tests.support.examples import examples


@given(st.integers(2, 4), st.integers(0, 2**32 - 1))
@settings(max_examples=examples(60))
def test_figures_are_those_of_scikit_learn(n_classes: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    classes = np.arange(n_classes) * 3
    truth = classes[np.concatenate([np.arange(n_classes), rng.integers(0, n_classes, 60)])]
    scores = rng.normal(size=(len(truth), n_classes))
    predicted = classes[scores.argmax(axis=1)]
    shown = scores
    if n_classes == 2:
        shown = scores[:, 1] - scores[:, 0]
        expected = roc_auc_score(truth, shown)
    else:
        areas = [roc_auc_score(truth == each, scores[:, k]) for k, each in enumerate(classes)]
        expected = np.mean(areas)
    found = judge(truth, predicted, shown, classes)
    assert found.accuracy == pytest.approx((truth == predicted).mean())
    assert found.balanced == pytest.approx(balanced_accuracy_score(truth, predicted))
    assert found.auc == pytest.approx(expected)


def test_always_answering_the_commonest_class_is_worth_nothing_however_right_it_is() -> None:
    truth = np.repeat([0, 1], [850, 150])
    found = judge(truth, np.zeros(1000, np.int64), np.zeros(1000), np.array([0, 1]))
    assert found == Judgement(0.85, 0.5, 0.5)


def test_a_class_that_a_machine_does_not_know_is_worth_chance() -> None:
    truth = np.array([0, 0, 1, 2])
    scores = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [1.0, 0.0]])
    found = judge(truth, np.array([0, 0, 1, 0]), scores, np.array([0, 1]))
    # of class 0 one of two others scores lower and one as high; class 1 is perfect; 2 is unknown
    assert found.auc == pytest.approx(((0.5 + 0.25) + 1 + 0.5) / 3)
    assert found.balanced == pytest.approx(2 / 3)


def test_rows_of_one_class_have_no_curve() -> None:
    found = judge(np.zeros(5, np.int64), np.zeros(5, np.int64), np.arange(5.0), np.array([0, 1]))
    assert (found.accuracy, found.auc) == (1.0, None)
    other = Judgement(0.5, 0.5, 0.7)
    assert mean_judgement([(5, found), (15, other)]) == Judgement(0.625, 0.625, 0.7)
    assert "nothing can be said" in verdict("leak", [found], [other])


@pytest.mark.parametrize(
    ("made", "real", "said"),
    [
        (0.51, 0.72, "teach nothing of leak: no better than always giving one answer (AUC 0.51"),
        (0.52, 0.54, "Even real rows teach hardly anything of leak"),
        (0.70, 0.90, "teach 50% of what real rows teach of leak (AUC 0.70; trained on real rows"),
        (0.91, 0.90, "teach 100% of"),
    ],
)
def test_the_verdict_is_by_the_better_machine(made: float, real: float, said: str) -> None:
    weak = Judgement(0.99, 0.5, 0.5)
    machines = [[weak, Judgement(0.85, 0.5, each)] for each in (made, real)]
    assert said in verdict("leak", *machines)
