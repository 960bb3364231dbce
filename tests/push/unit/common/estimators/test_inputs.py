"""What the estimators refuse, by name and with advice; nothing is mended and nothing ignored."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.errors import DataError, SettingError
from dppca.common.estimators import (
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
from tests.support.studies import binary_of, categorical_of, make_schema

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables are small
N_ROWS, N_COLUMNS = 60, 4
BOX: dict[str, Any] = {"bounds": (-1, 1)}

# Each private estimator with good settings, by name.
GOOD: dict[str, tuple[type, dict[str, Any]]] = {
    "DPPCASVM": (DPPCASVM, {"epsilon": 1, "max_rows_per_person": 1}),
    "DPPCASVM published": (
        DPPCASVM,
        {"epsilon": 1, "max_rows_per_person": 1, "variant": "published"},
    ),
    "AGSVM": (AGSVM, {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6}),
    "AGSVM published": (
        AGSVM,
        {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6, "variant": "published"},
    ),
    "MODSuLQSVM": (MODSuLQSVM, {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6}),
    "MODSuLQSVM published": (
        MODSuLQSVM,
        {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6, "variant": "published"},
    ),
    "PCADPSVM": (PCADPSVM, {"epsilon": 1, "max_rows_per_person": 1}),
    "PCADPSVM published": (
        PCADPSVM,
        {"epsilon": 1, "max_rows_per_person": 1, "variant": "published"},
    ),
    "DPSVM": (DPSVM, {"epsilon": 1, "max_rows_per_person": 1}),
    "PrivateSVM": (PrivateSVM, {"epsilon": 1, "max_rows_per_person": 1, "n_pairs": 10}),
    "PrivateSVM published": (
        PrivateSVM,
        {"epsilon": 1, "max_rows_per_person": 1, "n_pairs": 10, "variant": "published"},
    ),
    "DPSVD": (DPSVD, {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6, "label_epsilon": 1}),
    "DPSVD published": (
        DPSVD,
        {"epsilon": 1, "max_rows_per_person": 1, "delta": 1e-6, "variant": "published"},
    ),
    "DPSVMDVP": (DPSVMDVP, {"epsilon": 1}),
    "PPCADPMH": (PPCADPMH, {"epsilon": 1, "max_rows_per_person": 1, **BOX}),
    "PPCADPMH published": (
        PPCADPMH,
        {"epsilon": 1, "max_rows_per_person": 1, "variant": "published", **BOX},
    ),
}
NORMED = [
    name
    for name, (kind, _) in GOOD.items()
    if "row_norm" in kind()._get_param_names()  # type: ignore[attr-defined]
]
COMPONENTS = [
    name
    for name, (kind, _) in GOOD.items()
    if "n_components" in kind()._get_param_names()  # type: ignore[attr-defined]
]
PURE = ["DPPCASVM", "DPPCASVM published", "PCADPSVM published", "PrivateSVM published", "DPSVMDVP"]
PURE += ["PPCADPMH published"]
GAUSSIAN = ["AGSVM", "AGSVM published", "MODSuLQSVM", "MODSuLQSVM published", "DPSVD"]


def make(name: str, **changes: Any) -> Any:
    kind, settings = GOOD[name]
    return kind(**{**settings, **changes})


def table() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.45, 0.45, size=(N_ROWS, N_COLUMNS))
    return X, (X[:, 0] > 0).astype(np.int64)


@pytest.mark.parametrize("name", GOOD)
def test_good_settings_fit_good_rows(name: str) -> None:
    assert make(name).fit(*table()).guarantee_.method


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("epsilon", [None, 0, -1, float("nan"), float("inf"), "much", True])
def test_an_epsilon_that_is_missing_or_not_above_zero_is_refused(name: str, epsilon: Any) -> None:
    with pytest.raises(SettingError, match="epsilon"):
        make(name, epsilon=epsilon).fit(*table())


@pytest.mark.parametrize("name", [name for name in GOOD if name != "DPSVMDVP"])
@pytest.mark.parametrize("k", [None, 0, -1, 1.5, "many", True])
def test_a_row_limit_that_is_missing_or_no_count_is_refused(name: str, k: Any) -> None:
    with pytest.raises(SettingError, match="max_rows_per_person"):
        make(name, max_rows_per_person=k).fit(*table())


@pytest.mark.parametrize("name", PURE)
def test_a_delta_where_none_is_meant_is_refused(name: str) -> None:
    with pytest.raises(SettingError, match="delta is 1e-06, but Laplace noise needs none"):
        make(name, delta=1e-6).fit(*table())


@pytest.mark.parametrize("name", GAUSSIAN)
@pytest.mark.parametrize("delta", [None, 0, 1, -0.1, float("nan")])
def test_a_delta_that_is_missing_or_no_probability_is_refused(name: str, delta: Any) -> None:
    with pytest.raises(SettingError, match="delta"):
        make(name, delta=delta).fit(*table())


@pytest.mark.parametrize("name", NORMED)
def test_a_row_longer_than_declared_is_refused_and_not_clipped(name: str) -> None:
    X, y = table()
    X[7] *= 3
    X[7, 0] = 1.01
    with pytest.raises(DataError, match=r"row_norm=1\.0.*UnitBall"):
        make(name).fit(X, y)
    assert make(name, row_norm=3.0).fit(X, y).guarantee_.label


@pytest.mark.parametrize("name", ["PPCADPMH", "PPCADPMH published"])
def test_a_value_outside_its_bounds_is_refused_and_not_clipped(name: str) -> None:
    X, y = table()
    X[7, 2] = 1.01
    with pytest.raises(DataError, match=r"column 2 .* leaves its bounds, -1\.0 to 1\.0") as refusal:
        make(name).fit(X, y)
    assert "1.01" not in str(refusal.value)


@pytest.mark.parametrize("name", [name for name in GOOD if not name.startswith("PPCA")])
def test_a_target_of_a_single_class_is_refused(name: str) -> None:
    X, _ = table()
    with pytest.raises(DataError, match="1 class"):
        make(name).fit(X, np.ones(N_ROWS))


@pytest.mark.parametrize("name", GOOD)
def test_fewer_rows_than_columns_are_refused(name: str) -> None:
    X, _ = table()
    with pytest.raises(DataError, match="n_samples=3 is below n_features=4"):
        make(name).fit(X[:3], [0, 1, 0])


@pytest.mark.parametrize("name", COMPONENTS)
@pytest.mark.parametrize("k", [0, N_COLUMNS, N_COLUMNS + 1, 1.5])
def test_more_components_than_columns_allow_are_refused(name: str, k: Any) -> None:
    with pytest.raises(SettingError, match="n_components is"):
        make(name, n_components=k).fit(*table())


@pytest.mark.parametrize("name", GOOD)
def test_a_constant_column_is_refused_unless_it_is_meant(name: str) -> None:
    X, y = table()
    X[:, 1] = 0.25
    with pytest.raises(DataError, match="column 1 of X is constant"):
        make(name).fit(X, y)
    assert make(name, allow_constant=True).fit(X, y).guarantee_.label


@pytest.mark.parametrize("name", GOOD)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_missing_and_infinite_values_are_refused(name: str, value: float) -> None:
    X, y = table()
    X[3, 1] = value
    with pytest.raises(DataError, match=r"NaN|infinity"):
        make(name).fit(X, y)


@pytest.mark.parametrize("name", GOOD)
def test_text_is_refused_without_being_repeated(name: str) -> None:
    X, y = table()
    words = X.astype(object)
    words[0, 0] = "Anna Berg"
    with pytest.raises(DataError, match="must hold numbers") as refusal:
        make(name).fit(words, y)
    assert "Anna" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("DPPCASVM", {"variant": "unsound"}),
        ("DPSVMDVP", {"variant": "sound"}),
        ("DPSVMDVP", {"support": "some"}),
        ("DPSVD published", {"label_epsilon": 1}),
        ("DPPCASVM", {"row_norm": None}),
        ("DPSVM", {"row_norm": 0}),
        ("DPSVM", {"C": -1}),
        ("DPSVM", {"C": "best"}),
        ("PCADPSVM", {"C": 0}),
        ("PrivateSVM", {"C": "1"}),
        ("DPSVM", {"solver_tolerance": 0}),
        ("DPSVM", {"solver_tolerance": 1e-12}),
        ("DPSVM", {"max_rows_per_person": 0}),
        ("DPSVM", {"classes": ["one"]}),
        ("DPSVM", {"entropy": object()}),
        ("DPPCASVM", {"kernel": "cubic"}),
        ("DPPCASVM", {"kernel": "rbf", "gamma": "scale"}),
        ("DPPCASVM", {"contribution_rate": 1}),
        ("DPPCASVM", {"n_components": "above-noise"}),
        ("DPPCASVM", {"resolution_bits": 15}),
        ("PCADPSVM", {"components_share": 1}),
        ("PrivateSVM", {"gamma": 0}),
        ("PrivateSVM", {"n_pairs": 0}),
        ("PPCADPMH", {"latents": "whitened"}),
        ("PPCADPMH", {"covariance": "between"}),
        ("PPCADPMH", {"noise": "mirrored"}),
        ("PPCADPMH", {"noise": "once", "covariance": "within"}),
        ("PPCADPMH", {"n_components": "above"}),
        ("PPCADPMH published", {"noise": "each"}),
        ("PPCADPMH published", {"n_components": "above-noise"}),
        ("PPCADPMH published", {"shrinkage": True}),
        ("PPCADPMH", {"bounds": None}),
        ("PPCADPMH", {"bounds": (1, -1)}),
        ("PPCADPMH", {"bounds": 3}),
    ],
)
def test_a_setting_out_of_range_is_refused(name: str, changes: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        make(name, **changes).fit(*table())


def test_a_class_that_was_not_declared_is_refused() -> None:
    with pytest.raises(DataError, match="does not name"):
        make("DPSVM", classes=[1, 2]).fit(*table())


def test_declared_classes_need_not_all_occur() -> None:
    X, _ = table()
    model = make("DPSVM", classes=["a", "b", "c"]).fit(X, ["b"] * N_ROWS)
    assert list(model.classes_) == ["a", "b", "c"]


def test_groups_must_name_a_party_for_every_row() -> None:
    X, y = table()
    with pytest.raises(DataError, match="groups"):
        make("PPCADPMH").fit(X, y, groups=["a"])


def test_a_schema_and_its_table_must_agree() -> None:
    schema = make_schema([binary_of("a", [0, 1]), categorical_of("b", ["x", "y", "z"])])
    X, y = table()
    with pytest.raises(SettingError, match="4 columns, the schema 2"):
        make("PPCADPMH", bounds=None, schema=schema).fit(X, y)
    with pytest.raises(SettingError, match="not both"):
        make("PPCADPMH", schema=schema).fit(X, y)
    with pytest.raises(DataError, match=r"column 1 \(b\) holds something else than the codes"):
        make("PPCADPMH", bounds=None, schema=schema).fit([[0, 1], [1, 3], [0, 2]], None)


def test_public_numbers_of_the_unit_ball_are_checked() -> None:
    X, _ = table()
    for wrong in ({"scale": 0}, {"centre": np.nan}, {"scale": [1, 2]}):
        with pytest.raises(SettingError):
            UnitBall(**wrong).fit(X)


def test_the_machine_without_privacy_checks_its_table_too() -> None:
    X, _ = table()
    with pytest.raises(DataError, match="1 class"):
        SVM().fit(X, np.ones(N_ROWS))
