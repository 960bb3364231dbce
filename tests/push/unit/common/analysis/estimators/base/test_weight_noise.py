"""Estimators that may leave, fitted in two steps: the price first, the noise last."""

from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.analysis.estimators.base.inputs import make_signs
from dppca.common.analysis.estimators.base.weight_noise import (
    plan_weights,
    require_certifiable,
    weights_on_grid,
)
from dppca.common.kernel.errors import DataError, RangeError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import EntropySource, SeededEntropy
from dppca.common.papers import DPSVD, PCADPSVM, PrivateSVM

N_ROWS, N_COLUMNS = 80, 4
COMMON: dict[str, Any] = {
    "epsilon": "1.5",
    "max_rows_per_person": 1,
    "classes": (0, 1, 2),
    "allow_constant": True,
}
MAKERS: dict[str, Any] = {
    "pca-dpsvm": partial(PCADPSVM, **COMMON),
    "pca-dpsvm, gaussian": partial(PCADPSVM, **COMMON, delta="1e-6"),
    "private-svm": partial(PrivateSVM, **COMMON, n_pairs=5, random_state=3),
    "dpsvd": partial(DPSVD, **COMMON, delta="1e-6", label_epsilon="0.5", kernel="linear"),
}
NAMES = sorted(MAKERS)


def table(n_rows: int = N_ROWS) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(5)
    X = rng.uniform(-0.45, 0.45, size=(n_rows, N_COLUMNS))
    return X, np.digitize(X[:, 0], [-0.15, 0.15])


class Unread(EntropySource):
    """Entropy that must not be touched."""

    def bytes(self, count: int) -> bytes:
        raise AssertionError(count)


@pytest.mark.parametrize("name", NAMES)
def test_two_steps_are_one_fit(name: str) -> None:
    made = [MAKERS[name](entropy=partial(SeededEntropy, 7)) for _ in range(2)]
    at_once = made[0].fit(*table())
    in_two = made[1].release(made[1].prepare(*table()))
    assert at_once.guarantee_ == in_two.guarantee_
    X, _ = table()
    np.testing.assert_array_equal(at_once.decision_function(X), in_two.decision_function(X))


@pytest.mark.parametrize("name", NAMES)
def test_the_planned_charge_is_the_one_that_is_made(name: str) -> None:
    planned = MAKERS[name]().planned_charge(n_rows=N_ROWS, n_features=N_COLUMNS)
    fitted = MAKERS[name]().fit(*table())
    assert fitted.guarantee_.charge == planned
    assert fitted.guarantee_.label is Label.RELEASED
    assert fitted.guarantee_.noise


@pytest.mark.parametrize("name", NAMES)
def test_nothing_is_drawn_before_the_second_step(name: str) -> None:
    model = MAKERS[name](entropy=Unread)
    prepared = model.prepare(*table())
    with pytest.raises(AssertionError):
        model.release(prepared)
    assert not hasattr(model, "guarantee_")


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_one_declared_class_make_a_model_all_the_same(name: str) -> None:
    X, _ = table()
    fitted = MAKERS[name]().fit(X, np.ones(N_ROWS, int))
    assert set(fitted.predict(X)) <= {0, 1, 2}


@pytest.mark.parametrize(("classes", "only"), [((0, 1), 1), ((0, 1), 0), ((0, 1, 2), 2)])
def test_noised_labels_that_are_all_one_are_the_answer(classes: tuple[int, ...], only: int) -> None:
    X, _ = table()
    model = DPSVD(
        epsilon=1,
        max_rows_per_person=1,
        delta=1e-6,
        label_epsilon=90,
        classes=classes,
        entropy=partial(SeededEntropy, 1),
    ).fit(X, np.full(N_ROWS, only))
    assert model.machine_ is None
    assert set(model.predict(X)) == {only}
    assert model.decision_function(X).shape == ((N_ROWS,) if len(classes) == 2 else (N_ROWS, 3))


@pytest.mark.parametrize(
    ("name", "changes", "error", "says"),
    [
        ("pca-dpsvm", {"n_components": N_COLUMNS}, SettingError, "it must be at most 3"),
        ("pca-dpsvm", {"C": 1e-13}, SettingError, "may be unable to certify"),
        ("dpsvd", {"n_components": N_COLUMNS}, SettingError, "it must be at most 3"),
        ("dpsvd", {"kernel": "poly"}, SettingError, "kernel is 'poly'"),
        ("private-svm", {"gamma": "scale"}, SettingError, "gamma is 'scale'"),
        ("private-svm", {"epsilon": 0}, SettingError, "epsilon is 0"),
        ("private-svm", {"epsilon": "1e-30"}, RangeError, "larger epsilon"),
        ("private-svm", {"classes": None}, SettingError, "classes is not given"),
        ("private-svm", {"variant": "published"}, SettingError, "variant is 'published'"),
        *((name, {}, DataError, "n_samples=3 is below n_features=4") for name in NAMES),
    ],
)
def test_what_public_numbers_forbid_is_refused_when_planned(
    name: str, changes: dict[str, Any], error: type[Exception], says: str
) -> None:
    n_rows = 3 if error is DataError else N_ROWS
    with pytest.raises(error, match=says):
        MAKERS[name]().set_params(**changes).planned_charge(n_rows=n_rows, n_features=N_COLUMNS)


@pytest.mark.parametrize("C", [0.01, 0.3])
@pytest.mark.parametrize("n_rows", [10, 1000])
def test_what_is_said_to_be_certifiable_is_certified(C: float, n_rows: int) -> None:
    plan = plan_weights(
        N_COLUMNS,
        n_machines=3,
        n_rows=n_rows,
        C=C,
        radius=1.0,
        epsilon=Decimal(1),
        delta=None,
        max_rows_per_person=1,
        solver_tolerance=0.01,
    )
    require_certifiable(plan, n_rows=n_rows)
    X, y = table(n_rows)
    assert weights_on_grid(X, make_signs(y, 3), plan).shape == (3 * N_COLUMNS,)
