"""Warnings come before noise is drawn, once, by public numbers, where epsilon is spent."""

import pickle
import warnings
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

import dppca
from dppca import DPPCASVM, DPSVM, PPCADPMH, SVM, NoiseWarning, SpendingWarning, UnitBall
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy
from tests.support.estimators import ALL

RNG = np.random.default_rng(0)
ROWS = UnitBall(scale=4.0).fit_transform(RNG.normal(size=(400, 3)))
LABELS = (ROWS[:, 0] > 0).astype(int)


def a_machine(**changes: Any) -> DPSVM:
    return DPSVM(**{"epsilon": 10, "max_rows_per_person": 1, **changes})


@pytest.mark.parametrize("n_jobs", [None, 1])
def test_a_grid_search_says_once_that_every_fit_spends(n_jobs: int | None) -> None:
    search = GridSearchCV(a_machine(), {"epsilon": [5, 10]}, cv=3, n_jobs=n_jobs)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        search.fit(ROWS, LABELS)
    assert [each.category for each in found] == [SpendingWarning]
    assert "each fit draws its own noise and spends its own epsilon" in str(found[0].message)


def test_a_copy_knows_its_number_in_another_process() -> None:
    estimator = a_machine()
    copies = [clone(estimator) for _ in range(3)]
    sent = [pickle.loads(pickle.dumps(copy)) for copy in copies]  # noqa: S301 - our own bytes
    sent[0].fit(ROWS, LABELS)
    with pytest.warns(SpendingWarning):
        sent[1].fit(ROWS, LABELS)
    sent[2].fit(ROWS, LABELS)


def test_one_copy_in_a_pipeline_is_no_search() -> None:
    pipeline = make_pipeline(UnitBall(scale=4.0), a_machine())
    pipeline.fit(RNG.normal(size=(400, 3)), LABELS)
    clone(a_machine()).fit(ROWS, LABELS)


def test_turned_into_an_error_nothing_was_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    estimator = a_machine()
    _, copy = clone(estimator), clone(estimator)
    monkeypatch.setattr(OperatingSystemEntropy, "bytes", _drawn)
    with pytest.raises(SpendingWarning):
        copy.fit(ROWS, LABELS)
    with pytest.raises(NoiseWarning):
        a_machine(epsilon=0.01).fit(ROWS, LABELS)
    with pytest.raises(NoiseWarning):
        PPCADPMH(epsilon=0.001, max_rows_per_person=1, bounds=(-1, 1)).fit(ROWS)


def _drawn(self: object, count: int) -> bytes:
    raise AssertionError(f"{count} bytes were drawn")


@pytest.mark.parametrize(
    "estimator",
    [
        a_machine(entropy=partial(SeededEntropy, 7)),
        SVM(),
        DPPCASVM(epsilon=10, max_rows_per_person=1, variant="published", random_state=0),
    ],
    ids=["repeatable noise", "no noise", "published form"],
)
def test_what_spends_nothing_warns_of_nothing(estimator: Any) -> None:
    cross_val_score(estimator, ROWS, LABELS, cv=3)


def test_methods_without_classes_count_their_copies_too() -> None:
    columns = [{"name": name, "type": "numeric", "lower": -1, "upper": 1} for name in "abc"]
    schema = dppca.Schema.from_document({"attributes": columns, "max_rows_per_person": 1})
    for estimator in (
        PPCADPMH(epsilon=10, schema=schema),
        dppca.PrivBayes(epsilon=10, schema=schema),
    ):
        copies = [clone(estimator) for _ in range(2)]
        copies[0].fit(ROWS)
        with pytest.warns(SpendingWarning):
            copies[1].fit(ROWS)


@pytest.mark.parametrize(
    ("name", "epsilon", "hidden"),
    [
        ("DPSVM", 0.01, "weights"),
        ("PrivateSVM", 0.01, "weights"),
        ("PCADPSVM", 0.01, "weights"),
        ("DPPCASVM", 0.001, "components"),
        ("PPCADPMH", 0.001, "components"),
    ],
)
def test_hopeless_noise_is_warned_of_and_larger_epsilon_is_not(
    name: str, epsilon: float, hidden: str
) -> None:
    with pytest.warns(NoiseWarning, match=f"hide the {hidden}"):
        ALL[name](epsilon=epsilon).fit(ROWS, LABELS)
    ALL[name](epsilon=50).fit(ROWS, LABELS)


def test_the_warning_does_not_depend_on_what_the_rows_hold() -> None:
    said = []
    for rows in (ROWS, np.roll(ROWS, 1, axis=1) * 0.1):
        with pytest.warns(NoiseWarning) as found:
            a_machine(epsilon=0.01).fit(rows, LABELS)
        said.append([str(each.message) for each in found])
    assert said[0] == said[1]
