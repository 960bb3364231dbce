"""scikit-learn's own checks of an estimator, on every estimator and variant.

The checks fit tables that were not made for private methods, so each estimator is given a wide
bound on rows, a huge epsilon and entropy that repeats itself; none of these settings is private.
"""

import subprocess
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from dppca.common.kernel.errors import DataError
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.papers import (
    AGSVM,
    DPPCASVM,
    DPSVD,
    DPSVM,
    DPSVMDVP,
    PCADPSVM,
    PPCADPMH,
    SVM,
    MODSuLQSVM,
    PrivateSVM,
    UnitBall,
)

REPEATABLE = partial(SeededEntropy, 7)
HUGE: dict[str, Any] = {"epsilon": 1e7, "max_rows_per_person": 1, "allow_constant": True}
WIDE: dict[str, Any] = {**HUGE, "row_norm": 1e3, "resolution_bits": 14}
KEPT: dict[str, Any] = {"n_components": None, "contribution_rate": 0.999}

ESTIMATORS = [
    DPPCASVM(**WIDE, **KEPT, entropy=REPEATABLE),
    DPPCASVM(**WIDE, **KEPT, kernel="rbf", entropy=REPEATABLE),
    DPPCASVM(**WIDE, **KEPT, variant="published", random_state=0),
    AGSVM(**WIDE, **KEPT, delta=1e-6, entropy=REPEATABLE),
    MODSuLQSVM(**WIDE, **KEPT, delta=1e-6, entropy=REPEATABLE),
    PCADPSVM(**WIDE, **KEPT, C=1.0, entropy=REPEATABLE),
    PCADPSVM(**WIDE, **KEPT, variant="published", random_state=0),
    DPSVM(**HUGE, row_norm=1e3, C=1.0, entropy=REPEATABLE),
    DPSVM(**HUGE, row_norm=1e3, C=1.0, delta=1e-6, entropy=REPEATABLE),
    PrivateSVM(**HUGE, C=1.0, entropy=REPEATABLE, random_state=0),
    PrivateSVM(**HUGE, C=1.0, variant="published", random_state=0),
    DPSVD(**HUGE, **KEPT, row_norm=1e3, delta=1e-6, label_epsilon=60, entropy=REPEATABLE),
    DPSVD(**HUGE, **KEPT, row_norm=1e3, delta=1e-6, variant="published", random_state=0),
    DPSVMDVP(epsilon=1e7, allow_constant=True, random_state=0),
    SVM(allow_constant=True),
    UnitBall(scale=1e3),
    PPCADPMH(**HUGE, bounds=(-1e3, 1e3), entropy=REPEATABLE, random_state=0),
    PPCADPMH(
        **HUGE,
        bounds=(-1e3, 1e3),
        noise="once",
        shrinkage=True,
        entropy=REPEATABLE,
        random_state=0,
    ),
    PPCADPMH(**HUGE, bounds=(-1e3, 1e3), variant="published", random_state=0),
]


def expected_failures(estimator: Any) -> dict[str, str]:
    """Checks that fail, each with its reason."""
    if not hasattr(estimator, "contribution_rate") or isinstance(estimator, PPCADPMH):
        return {}
    return {
        "check_classifiers_train": "its table has two columns, of which a method of components "
        "keeps one at most; one does not tell its three classes apart"
    }


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failures)
def test_scikit_learn_takes_it_for_an_estimator(estimator: Any, check: Any) -> None:
    check(estimator)


def test_the_public_face_hands_on_every_estimator_without_importing_scikit_learn() -> None:
    script = (
        "import sys, dppca; assert 'sklearn' not in sys.modules; from dppca import PPCADPMH, SVM; "
        "assert all(hasattr(dppca, name) for name in dppca.__all__)"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
    with pytest.raises(ImportError):
        from dppca import NoSuchMethod  # noqa: F401


@pytest.mark.parametrize(
    "estimator",
    [each for each in ESTIMATORS if hasattr(each, "transform")],
    ids=lambda estimator: repr(estimator)[:60],
)
def test_what_transforms_names_its_columns_and_makes_frames(estimator: Any) -> None:
    rows = np.random.default_rng(2).normal(size=(60, 4))
    labels = (rows[:, 0] > 0).astype(int)
    fitted = clone(estimator).fit(rows, labels)
    plain = fitted.transform(rows)
    names = fitted.get_feature_names_out()
    assert len(set(names)) == len(names) == plain.shape[1]
    frame = fitted.set_output(transform="pandas").transform(rows)
    assert list(frame.columns) == list(names)
    assert np.array_equal(frame.to_numpy(), plain)


def test_scores_on_all_but_one_component_are_turned_back_into_rows() -> None:
    rows = UnitBall(scale=4.0).fit_transform(np.random.default_rng(2).normal(size=(300, 4)))
    rows[:, 3] *= 1e-4
    labels = (rows[:, 0] > 0).astype(int)
    model = DPPCASVM(epsilon=1e6, max_rows_per_person=1, n_components=3, entropy=REPEATABLE)
    scores = model.fit(rows, labels).transform(rows)
    assert np.abs(model.inverse_transform(scores) - rows).max() < 1e-3
    with pytest.raises(DataError, match="there are 3 components"):
        model.inverse_transform(rows)
