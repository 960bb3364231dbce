"""What the estimators refuse, by name and with advice; nothing is mended and nothing ignored."""

from itertools import product
from math import inf, nan
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.papers import SVM, UnitBall
from tests.support.estimators import ALL, each, names_with
from tests.support.studies import binary_of, categorical_of, make_schema

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables are small
N_ROWS, N_COLUMNS = 60, 4
PURE = ("DPPCASVM", "DPPCASVM published", "PCADPSVM published", "PrivateSVM published")
PURE += ("DPSVMDVP", "PPCADPMH published")
GAUSSIAN = ("AGSVM", "AGSVM published", "MODSuLQSVM", "MODSuLQSVM published", "DPSVD")
NO_EPSILON = (-1, nan, inf, "much", True)
NO_COUNT = (0, -1, 1.5, "many", True)
NO_PROBABILITY = (0, 1, -0.1, nan)
EACH_CLASS = [name for name in ALL if " " not in name]


def table() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(1)
    X = rng.uniform(-0.45, 0.45, size=(N_ROWS, N_COLUMNS))
    return X, (X[:, 0] > 0).astype(np.int64)


@pytest.mark.parametrize(
    ("name", "epsilon"), [*product(ALL, [None]), *product(["DPPCASVM"], [0, *NO_EPSILON])]
)
def test_an_epsilon_that_is_missing_or_not_above_zero_is_refused(name: str, epsilon: Any) -> None:
    with pytest.raises(SettingError, match="epsilon"):
        ALL[name](epsilon=epsilon).fit(*table())


@pytest.mark.parametrize(
    ("name", "setting", "value", "says"),
    [
        *product(names_with("max_rows_per_person"), ["max_rows_per_person"], [None], [""]),
        *product(["DPPCASVM"], ["max_rows_per_person"], NO_COUNT, [""]),
        *product(PURE, ["delta"], [1e-6], [" is 1e-06, but Laplace noise needs none"]),
        *product(GAUSSIAN, ["delta"], [None], [""]),
        *product(["AGSVM"], ["delta"], NO_PROBABILITY, [""]),
        *product(names_with("n_components"), ["n_components"], [N_COLUMNS], [" is"]),
        *product(["DPPCASVM", "DPSVD"], ["n_components"], [0, N_COLUMNS + 1, 1.5], [" is"]),
    ],
)
def test_a_setting_that_privacy_or_the_table_forbids_is_named(
    name: str, setting: str, value: Any, says: str
) -> None:
    with pytest.raises(SettingError, match=setting + says):
        ALL[name](**{setting: value}).fit(*table())


@each(names_with("row_norm"))
def test_a_row_longer_than_declared_is_refused_and_not_clipped(make: Any) -> None:
    X, y = table()
    X[7] *= 3
    X[7, 0] = 1.01
    with pytest.raises(DataError, match=r"row_norm=1\.0.*UnitBall"):
        make().fit(X, y)
    assert make(row_norm=3.0).fit(X, y).guarantee_.label


@each(["PPCADPMH", "PPCADPMH published"])
def test_a_value_outside_its_bounds_is_refused_and_not_clipped(make: Any) -> None:
    X, y = table()
    X[7, 2] = 1.01
    with pytest.raises(DataError, match=r"column 2 .* leaves its bounds, -1\.0 to 1\.0") as refusal:
        make().fit(X, y)
    assert "1.01" not in str(refusal.value)


@each(name for name in EACH_CLASS if not name.startswith("PPCA"))
def test_a_target_of_a_single_class_is_refused(make: Any) -> None:
    X, _ = table()
    with pytest.raises(DataError, match="1 class"):
        make().fit(X, np.ones(N_ROWS))


@each(EACH_CLASS)
def test_a_constant_column_is_refused_unless_it_is_meant(make: Any) -> None:
    X, y = table()
    X[:, 1] = 0.25
    with pytest.raises(DataError, match="column 1 of X is constant"):
        make().fit(X, y)
    assert make(allow_constant=True).fit(X, y).guarantee_.label


@each(EACH_CLASS)
@pytest.mark.parametrize(
    ("value", "n_rows", "says"),
    [
        (nan, N_ROWS, "NaN"),
        (inf, N_ROWS, "infinity"),
        ("Anna Berg", N_ROWS, "must hold numbers"),
        (0.1, 3, "n_samples=3 is below n_features=4"),
    ],
)
def test_a_table_that_no_method_takes_is_refused_without_a_word_of_it(
    make: Any, value: object, n_rows: int, says: str
) -> None:
    X, y = table()
    odd = X.astype(object if isinstance(value, str) else float)
    odd[2, 1] = value
    with pytest.raises(DataError, match=says) as refusal:
        make().fit(odd[:n_rows], y[:n_rows])
    assert "Anna" not in str(refusal.value)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("DPPCASVM", {"variant": "unsound"}),
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
        ALL[name](**changes).fit(*table())


def test_declared_classes_need_not_all_occur_and_no_other_may() -> None:
    with pytest.raises(DataError, match="does not name"):
        ALL["DPSVM"](classes=[1, 2]).fit(*table())
    X, _ = table()
    model = ALL["DPSVM"](classes=["a", "b", "c"]).fit(X, ["b"] * N_ROWS)
    assert list(model.classes_) == ["a", "b", "c"]


def test_a_schema_and_groups_must_agree_with_their_table() -> None:
    schema = make_schema([binary_of("a", [0, 1]), categorical_of("b", ["x", "y", "z"])])
    X, y = table()
    with pytest.raises(DataError, match="groups"):
        ALL["PPCADPMH"]().fit(X, y, groups=["a"])
    with pytest.raises(SettingError, match="4 columns, the schema 2"):
        ALL["PPCADPMH"](bounds=None, schema=schema).fit(X, y)
    with pytest.raises(SettingError, match="not both"):
        ALL["PPCADPMH"](schema=schema).fit(X, y)
    with pytest.raises(DataError, match=r"column 1 \(b\) holds something else than the codes"):
        ALL["PPCADPMH"](bounds=None, schema=schema).fit([[0, 1], [1, 3], [0, 2]], None)


def test_the_unit_ball_and_the_machine_without_privacy_check_what_they_are_given() -> None:
    X, _ = table()
    for wrong in ({"scale": 0}, {"centre": np.nan}, {"scale": [1, 2]}):
        with pytest.raises(SettingError):
            UnitBall(**wrong).fit(X)
    with pytest.raises(DataError, match="1 class"):
        SVM().fit(X, np.ones(N_ROWS))
