"""Measures of a simulation against slow and independent ones."""

from typing import Any

import numpy as np
import pytest
from sklearn.decomposition import PCA

from dppca.common.analysis.comparison import TableErrors
from dppca.common.analysis.estimators.utility import (
    extract_features,
    judge_svm,
    judge_trees,
    stack_features,
    synthetic_labels,
)
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.schema import Column, Schema, encode
from dppca.common.kernel.schema.columns import INFINITE, NOT_A_NUMBER
from dppca.deploy.simulation.evaluate import (
    captured_variance,
    check_target,
    compare_tables,
    compute_pooled_covariance,
    evaluate,
    variance_by_chance,
)

ROWS = np.arange(2000)


@pytest.fixture(scope="module")
def schema() -> Schema:
    attributes: list[dict[str, Any]] = [
        {"name": "x", "type": "numeric", "lower": -3, "upper": 3},
        {"name": "b", "type": "binary", "values": ["no", "yes"]},
        {"name": "c", "type": "categorical", "categories": ["u", "v", "w"]},
    ]
    return Schema.from_document({"attributes": attributes})


@pytest.fixture(scope="module")
def columns() -> list[Column]:
    rng = np.random.default_rng(5)
    b = rng.integers(0, 2, 2000).astype(np.int32)
    x = rng.normal(2 * b - 1, 0.6)
    c = (b + (rng.random(2000) < 0.2)).astype(np.int32)
    return [x, b, c]


@pytest.fixture(scope="module")
def rows(schema: Schema, columns: list[Column]) -> np.ndarray[Any, np.dtype[np.int32]]:
    return encode(schema, columns)


def test_covariance_is_of_the_coded_rows_and_features_are_all_but_the_target(
    schema: Schema, rows: Any
) -> None:
    expected = np.cov((rows / 1024).T, bias=True)
    # A binary's mean square and an indicator's are exact, the rest is integer sums.
    np.testing.assert_allclose(compute_pooled_covariance(schema, rows), expected, atol=1e-12)
    counted = {**schema.model_dump(mode="json"), "tables": [{"table": ["b", "c"]}]}
    found = compute_pooled_covariance(Schema.from_document(counted), rows)
    np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_array_equal(extract_features(schema, "c", rows), rows[:, :2])
    np.testing.assert_array_equal(extract_features(schema, "b", rows), rows[:, [0, 2, 3, 4]])


def test_the_best_directions_capture_everything(schema: Schema, rows: Any) -> None:
    best = PCA(2).fit(rows / 1024).components_
    covariance = compute_pooled_covariance(schema, rows)
    assert captured_variance(covariance, best) == pytest.approx(1)
    worst = np.linalg.eigh(covariance)[1].T[:2]
    assert captured_variance(covariance, worst) < 0.2


def test_random_directions_capture_what_is_said_of_chance(schema: Schema, rows: Any) -> None:
    covariance = compute_pooled_covariance(schema, rows)
    rng = np.random.default_rng(0)
    planes = (np.linalg.qr(rng.normal(size=(5, 2)))[0].T for _ in range(2000))
    mean = np.mean([captured_variance(covariance, plane) for plane in planes])
    assert variance_by_chance(covariance, 2) == pytest.approx(mean, abs=0.02)  # 6 deviations


def test_coded_rows_are_cut_in_the_middle_and_at_the_largest_or_by_a_released_mean(
    schema: Schema,
) -> None:
    coded = np.array([[0.1, -0.01, 0.2, 0.5, 0.1], [0.1, 0.01, -0.2, -0.5, -0.1]])
    assert synthetic_labels(schema, "b", coded, None).tolist() == [0, 1]
    assert synthetic_labels(schema, "c", coded, None).tolist() == [1, 2]
    coded = np.zeros((100, 5))
    coded[:, 1] = np.linspace(-1, -0.1, 100)
    # The code of a share of 0.3 between -1/2 and 1/2.
    labels = synthetic_labels(schema, "b", coded, np.array([0, -0.2, 0, 0, 0]))
    assert labels.sum() == 30
    assert labels[-30:].all()


def test_a_perfect_copy_is_as_useful_as_the_rows(
    schema: Schema, columns: list[Column], rows: Any
) -> None:
    training, held_out = ([each[part] for each in columns] for part in np.split(ROWS, [1500]))
    labels = held_out[1].copy()
    labels[:100] = -1  # nobody knows them
    utility = evaluate(
        schema,
        "b",
        training=training,
        held_out=[held_out[0], labels, held_out[2]],
        coded=rows[:1500] / 1024,
        decoded=training,
        released_mean=None,
    )
    assert utility.tstr_accuracy == utility.tstr_accuracy_decoded == utility.trtr_accuracy
    assert utility.tstr_trees == utility.trtr_trees
    assert not utility.sampled
    assert min(utility.trtr_accuracy, utility.trtr_trees) > 0.9
    assert utility.verdict.startswith("Synthetic rows teach 100% of what real rows teach of b (AUC")
    assert utility.majority == pytest.approx(0.5, abs=0.1)
    tables = compare_tables(schema, training=training, held_out=held_out, decoded=training)
    assert tables.synthetic == TableErrors(0, 0, 0, 0)
    assert tables.held_out is not None
    assert "are off by 0.000 (total variation" in tables.summary
    assert f"real rows, which are fewer, by {tables.held_out.three_way:.3f}." in tables.summary
    nobody = [each[:0] for each in columns]
    alone = compare_tables(schema, training=training, held_out=nobody, decoded=training)
    assert alone.held_out is None
    assert alone.summary.endswith("0.000.")
    with pytest.raises(DataError, match="has a label of b"):
        evaluate(
            schema,
            "b",
            training=training,
            held_out=nobody,
            coded=rows / 1024,
            decoded=training,
            released_mean=None,
        )


def test_words_in_a_column_of_numbers_are_gaps_to_trees_and_warn_nobody() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(0, 2, 400)
    numbers = labels + rng.normal(0, 0.1, 400)
    numbers[:120] = [INFINITE, NOT_A_NUMBER, np.nan] * 40
    features = stack_features([numbers, labels], without=[1])
    assert np.isnan(features[:120]).all()
    assert np.array_equal(features[120:, 0], numbers[120:])
    # Warnings are errors here: NumPy's would be one.
    judged = judge_trees(features, labels, test=features[120:], truth=labels[120:])
    assert min(judged.accuracy, judged.auc or 0) > 0.95


def test_synthetic_rows_of_one_class_answer_that_class() -> None:
    zeros, ones = np.zeros((10, 2)), np.ones(10, np.int64)
    truth = np.array([1, 0, 1])
    for judge in (judge_svm, judge_trees):
        judged = judge(zeros, ones, test=zeros[:3], truth=truth)
        assert (judged.accuracy, judged.balanced, judged.auc) == (pytest.approx(2 / 3), 0.5, 0.5)


@pytest.mark.parametrize("target", ["x", "nothing"])
def test_a_target_without_classes_is_refused(schema: Schema, target: str) -> None:
    with pytest.raises(SettingError, match="b, c"):
        check_target(schema, target)


def test_a_sample_that_was_trained_on_is_named(
    schema: Schema, columns: list[Column], rows: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("dppca.common.analysis.estimators.utility.LEAST_ROWS", 500)
    monkeypatch.setattr("dppca.common.analysis.estimators.utility.TREE_CELLS", 2000)
    utility = evaluate(
        schema,
        "b",
        training=columns,
        held_out=columns,
        coded=rows / 1024,
        decoded=columns,
        released_mean=None,
    )
    said = "Trained on a random sample of each table, always the same: boosted trees on 1,000 rows."
    assert utility.sampled == said
