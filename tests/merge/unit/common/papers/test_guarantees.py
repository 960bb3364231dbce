"""What the estimators promise, and what they learn."""

from decimal import Decimal
from functools import partial
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import PCA

from dppca.common.kernel.privacy.accounting import epsilon_from_rho
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy
from dppca.common.papers import DPSVD, DPSVM, PCADPSVM, PPCADPMH, SVM, MODSuLQSVM, UnitBall, Variant
from tests.support.estimators import ALL, MAY_LEAVE, PUBLISHED, SITE_ONLY, Maker, each
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

pytestmark = pytest.mark.filterwarnings("ignore::dppca.NoiseWarning")  # tables are small
SEEDED = partial(SeededEntropy, 3)
Rows = NDArray[np.float64]


def table(n_rows: int = 4_000) -> tuple[Rows, NDArray[Any]]:
    """Rows in the unit ball whose class is told by one direction, of three classes if asked."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, 5)) * [0.5, 0.2, 0.1, 0.05, 0.05]
    rows = UnitBall().fit_transform(rows)
    return rows, np.where(rows[:, 0] > 0, "yes", "no")


@each(MAY_LEAVE)
def test_what_is_private_as_a_whole_may_leave_and_says_what_to_charge(
    make: Maker,
) -> None:
    guarantee = make().fit(*table(400)).guarantee_
    assert guarantee.label is Label.RELEASED
    assert guarantee.variant is Variant.SOUND
    assert guarantee.not_private == ""
    assert guarantee.charge is not None
    spent = guarantee.charge.epsilon
    if guarantee.charge.rho:
        spent += epsilon_from_rho(guarantee.charge.rho, Decimal("1e-6"))
    assert 0 < spent <= guarantee.epsilon
    assert guarantee.source
    assert guarantee.sensitivity > 0


@each([*MAY_LEAVE, *SITE_ONLY])
def test_noise_that_can_be_drawn_again_is_never_released(make: Maker) -> None:
    X, y = table(400)
    first, again = (make(entropy=SEEDED).fit(X, y) for _ in range(2))
    assert first.guarantee_.label is Label.SITE_ONLY
    assert "protects nothing" in first.guarantee_.not_private
    for name in ("coef_", "components_", "noised_rows_", "mean_"):
        if hasattr(first, name):
            assert np.array_equal(getattr(first, name), getattr(again, name))


@each(MAY_LEAVE)
def test_the_operating_systems_noise_is_never_the_same_twice(make: Maker) -> None:
    X, y = table(400)
    for settings in ({}, {"entropy": OperatingSystemEntropy}):
        first, again = (make(**settings).fit(X, y) for _ in range(2))
        assert first.guarantee_.label is Label.RELEASED
        name = next(n for n in ("coef_", "noised_rows_", "mean_") if hasattr(first, n))
        assert not np.array_equal(getattr(first, name), getattr(again, name))


@each(SITE_ONLY)
def test_a_classifier_of_raw_rows_stays_at_its_site(make: Maker) -> None:
    guarantee = make().fit(*table(400)).guarantee_
    assert guarantee.label is Label.SITE_ONLY
    assert "components_" in guarantee.private
    assert "machine_" in guarantee.not_private


@each(PUBLISHED)
def test_published_forms_are_for_benchmarks_and_repeat_themselves(
    make: Maker,
) -> None:
    X, y = table(400)
    first, again = (make(random_state=1).fit(X, y) for _ in range(2))
    guarantee = first.guarantee_
    assert guarantee.label is Label.PUBLISHED_METHOD
    assert guarantee.claimed_epsilon == 1
    assert guarantee.charge is None
    if hasattr(first, "predict"):
        assert np.array_equal(first.decision_function(X), again.decision_function(X))
    else:
        assert np.array_equal(first.synthetic_, again.synthetic_)


def test_a_published_form_without_a_norm_promises_nothing() -> None:
    X, y = table(400)
    for make in (PUBLISHED["DPPCASVM published"], PUBLISHED["DPSVD published"]):
        guarantee = make(row_norm=None).fit(30 * X, y).guarantee_
        assert guarantee.epsilon is None
        assert "not held to the norm" in guarantee.not_private


@pytest.mark.parametrize(
    ("name", "settings"),
    [
        ("DPPCASVM", {}),
        ("AGSVM", {}),
        ("MODSuLQSVM", {}),
        ("DPSVM gaussian", {}),
        ("PCADPSVM gaussian", {"epsilon": 2, "n_components": 2}),
        ("PrivateSVM", {"delta": 1e-6, "n_pairs": 20, "gamma": 0.5}),
    ],
)
def test_a_sound_method_learns_what_is_easy(name: str, settings: dict[str, Any]) -> None:
    X, y = table()
    model = ALL[name](entropy=SEEDED, **settings).fit(X[:3_000], y[:3_000])
    assert model.score(X[3_000:], y[3_000:]) > 0.9
    assert SVM().fit(X[:3_000], y[:3_000]).score(X[3_000:], y[3_000:]) > 0.9


def test_several_classes_split_epsilon_and_say_so() -> None:
    X, _ = table()
    y = np.digitize(X[:, 0], [-0.3, 0.3])
    two = DPSVM(epsilon=1, max_rows_per_person=1, C=0.01, entropy=SEEDED).fit(X, y > 0).guarantee_
    model = DPSVM(epsilon=60, max_rows_per_person=1, C=0.01, entropy=SEEDED).fit(X, y)
    assert model.coef_.shape == (3, 5)
    assert model.guarantee_.split == "one class against the rest: 1/3 for each of 3 machines"
    assert model.guarantee_.epsilon == 60
    assert model.guarantee_.sensitivity == pytest.approx(two.sensitivity * 3**0.5, rel=1e-5)
    assert set(model.predict(X)) <= {0, 1, 2}


@each(["PCADPSVM published", "PrivateSVM published", "DPSVMDVP"])
def test_published_forms_of_several_classes_split_epsilon_too(make: Maker) -> None:
    X, _ = table(400)
    model = make(random_state=0).fit(X, np.digitize(X[:, 0], [-0.3, 0.3]))
    assert "3 machines" in model.guarantee_.split
    assert model.decision_function(X).shape == (400, 3)


def test_a_class_that_randomised_response_leaves_out_can_still_be_scored() -> None:
    X, _ = table(400)
    y = np.digitize(X[:, 0], [0.0, 0.99])
    y[:1] = 2
    model = DPSVD(
        epsilon=50, max_rows_per_person=1, delta=1e-6, label_epsilon=60, entropy=SEEDED
    ).fit(X, y)
    assert model.decision_function(X[:7]).shape == (7, 3)


def test_the_two_parts_of_pca_dpsvm_add_up_to_epsilon() -> None:
    for share in (0.1, 0.5, 0.37):
        guarantee = (
            PCADPSVM(epsilon="0.3", max_rows_per_person=1, components_share=share)
            .fit(*table(400))
            .guarantee_
        )
        assert guarantee.epsilon == Decimal("0.3")
        assert guarantee.charge.epsilon == Decimal("0.3")


def test_mod_sulq_is_charged_what_its_noise_costs() -> None:
    guarantee = MODSuLQSVM(epsilon=1, max_rows_per_person=1, delta=1e-6).fit(*table(400)).guarantee_
    assert guarantee.epsilon < Decimal("0.3")
    assert guarantee.charge.rho > 0


def test_without_much_noise_the_federation_in_one_process_is_principal_components() -> None:
    rng = np.random.default_rng(4)
    X = rng.uniform(-1, 1, size=(900, 4)) @ np.diag([1.0, 0.5, 0.25, 0.125])
    groups = np.repeat(["c", "a", "b"], 300)
    model = PPCADPMH(
        epsilon=1e8,
        max_rows_per_person=1,
        bounds=(-1, 1),
        n_components=2,
        entropy=SEEDED,
        random_state=0,
    ).fit(X, groups=groups)
    oracle = PCA(2).fit(X / 2)
    assert list(model.parties_) == ["a", "b", "c"]
    assert np.abs(model.components_ @ oracle.components_.T) == pytest.approx(np.eye(2), abs=0.02)
    assert model.eigenvalues_[:2] == pytest.approx(oracle.explained_variance_, rel=0.02)
    assert model.synthetic_.shape == (900, 4)
    assert model.sample(20_000, random_state=1).mean(axis=0) == pytest.approx(
        X.mean(axis=0) / 2, abs=0.02
    )
    assert model.transform(X).shape == (900, 2)


@pytest.mark.parametrize("latents", ["whitened", "literal", "drawn"])
def test_published_latents_keep_the_means_of_whitened_rows(latents: str) -> None:
    rng = np.random.default_rng(8)
    schema = make_schema(
        [
            numeric_of("age", 0, 100),
            binary_of("ill", [0, 1]),
            categorical_of("home", ["own", "rent", "none"]),
        ]
    )
    X = np.column_stack(
        [rng.uniform(20, 90, 3_000), rng.integers(0, 2, 3_000), rng.integers(0, 3, 3_000)]
    )
    model = PPCADPMH(
        epsilon=10,
        max_rows_per_person=1,
        variant="published",
        schema=schema,
        latents=latents,
        random_state=0,
    ).fit(X)
    assert model.synthetic_.shape == (3_000, 5)
    assert ("synthetic_" in model.guarantee_.private) == (latents == "drawn")
    if latents != "literal":  # whose scores are not centred
        assert model.synthetic_.mean(axis=0) == pytest.approx(model.mean_, abs=0.05)
