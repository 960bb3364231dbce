"""PPCA-DP-MH: decoded rows, rules for the number of components, and the kinds of noise."""

import math
from decimal import Decimal
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal

import dppca
from dppca.common.analysis.spectrum.noise_edge import noise_edge
from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laplace_law import LaplaceLaw
from dppca.common.kernel.privacy.noise.entropy import SeededEntropy
from dppca.common.kernel.schema import Schema
from dppca.common.kernel.study import Covariance
from dppca.common.papers import PPCADPMH
from dppca.common.papers.base.party_tables import group_rows
from dppca.common.papers.ppca.party_moments import publish_moments
from tests.support.faults import find_faults
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

SEEDED = partial(SeededEntropy, 11)
SCHEMA = make_schema(
    [
        numeric_of("age", 18, 100),
        numeric_of("dose", -2, 2),
        binary_of("ill", ["no", "yes"]),
        categorical_of("ward", ["n", "s", "w", "e"]),
    ],
    max_rows_per_person=1,
)
BINARY = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(6)], max_rows_per_person=1)


def people(n_rows: int = 3_000) -> NDArray[np.float64]:
    """Older people are ill more often, and in another ward."""
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 100, n_rows)
    ill = rng.random(n_rows) < age / 120
    ward = np.where(ill, rng.integers(0, 2, n_rows), rng.integers(2, 4, n_rows))
    return np.column_stack([age, rng.uniform(-2, 2, n_rows), ill, ward])


def fitted(rows: Any, groups: Any = None, **settings: Any) -> PPCADPMH:
    given: dict[str, Any] = {"epsilon": 2, "schema": SCHEMA, "random_state": 5, **settings}
    if given.get("variant") != "published":
        given.setdefault("entropy", SEEDED)
    return PPCADPMH(**given).fit(rows, groups=groups)


def is_valid(table: NDArray[np.float64]) -> bool:
    columns = [table[:, 0], table[:, 1], *(table[:, i].astype(np.int32) for i in (2, 3))]
    faults = find_faults(SCHEMA, columns)
    return not any((each.missing | each.invalid | each.out).any() for each in faults.values())


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"epsilon": "0.01"},
        {"delta": 1e-6, "n_components": "above-noise", "shrinkage": True},
        {"variant": "published"},
        {"variant": "published", "latents": "drawn", "noise": "independent"},
    ],
    ids=["laplace", "much noise", "gaussian", "published", "independent"],
)
def test_decoded_rows_are_a_table_that_the_schema_allows(settings: dict[str, Any]) -> None:
    rows = people()
    model = fitted(rows, **settings)
    table = model.decoded_
    assert table.shape == rows.shape
    assert is_valid(table)
    assert fitted(table).mean_.shape == model.mean_.shape  # an estimator takes them too


def test_more_rows_can_be_drawn_and_decoded_at_no_cost() -> None:
    model = fitted(people())
    drawn = model.sample(500, random_state=1)
    table = model.decode(drawn, random_state=2)
    assert table.shape == (500, 4)
    assert is_valid(table)
    assert np.array_equal(table, model.decode(drawn, random_state=2))
    for wrong in (drawn[:, 1:], drawn[0], drawn[:0], np.full_like(drawn, np.nan)):
        with pytest.raises(SettingError, match=r"shape \(n_rows, 7\)"):
            model.decode(wrong)


def binaries(n_rows: int = 4_000) -> NDArray[np.float64]:
    rng = np.random.default_rng(9)
    well = rng.random((n_rows, 1)) < 0.5
    return np.where(rng.random((n_rows, 6)) < 0.1, ~well, well).astype(float)


@pytest.mark.parametrize(
    ("noise", "owner_rows"), [("each", [1_000, 3_000]), ("once", [4_000])], ids=["each", "once"]
)
def test_components_above_the_noise_stand_above_its_edge(noise: str, owner_rows: list[int]) -> None:
    rows, groups = binaries(), np.arange(4_000) % 4 == 0
    model = fitted(
        rows, groups, schema=BINARY, n_components="above-noise", noise=noise, epsilon="0.1"
    )
    b = math.ceil(Fraction(model.guarantee_.sensitivity) * 4**10 * 10)
    edge = noise_edge(
        BINARY.layout,
        law=LaplaceLaw(b),
        owner_rows=owner_rows,
        mean=model.mean_,
        covariance=Covariance.POOLED,
        seed=int(BINARY.digest[:16], 16),
    )
    assert model.noise_edge_ == edge
    assert len(model.components_) == np.count_nonzero(model.eigenvalues_ > edge.value) == 1


def test_one_noise_for_all_parties_is_that_of_one_party_with_all_rows() -> None:
    rows, groups = binaries(), np.arange(4_000) % 5
    once = fitted(rows, groups, schema=BINARY, noise="once")
    alone = fitted(rows, schema=BINARY)
    for name in ("mean_", "covariance_", "eigenvalues_", "components_", "synthetic_"):
        assert np.array_equal(getattr(once, name), getattr(alone, name))
    assert len(once.parties_) == 5
    assert once.guarantee_.epsilon == Decimal(2)
    assert "a sum that hides them" in once.guarantee_.split
    assert once.set_params(entropy=None).fit(rows).guarantee_.label is Label.RELEASED


def test_each_partys_own_noise_adds_up() -> None:
    rows, groups = binaries(), np.arange(4_000) % 16
    each, once = (fitted(rows, groups, schema=BINARY, noise=noise) for noise in ("each", "once"))
    assert each._moments.entry_noise == pytest.approx(4 * once._moments.entry_noise)


def test_the_p_squared_draws_are_averaged_into_a_symmetric_matrix() -> None:
    """780 pairs of columns, so the two deviations' ratio is within a tenth of the root of 2."""
    rows = np.random.default_rng(1).uniform(size=(400, 40))
    i, j = np.triu_indices(40, 1)
    spread = []
    for both in (False, True):
        drawn = publish_moments(
            rows,
            group_rows(None, 400),
            epsilon=1.0,
            covariance=Covariance.POOLED,
            both_triangles=both,
            rng=np.random.RandomState(0),
        )
        noise = drawn.second - rows.T @ rows / 400
        assert np.array_equal(drawn.second, drawn.second.T)
        assert noise[i, j].std() == pytest.approx(drawn.entry_noise, rel=0.1)
        spread.append(noise[i, j].std())
    assert spread[0] / spread[1] == pytest.approx(math.sqrt(2), rel=0.1)


@pytest.mark.parametrize(
    ("noise", "of_scalars", "of_people"),
    [
        ("mirrored", Fraction(9, 4), Fraction(8, 7)),
        ("independent", Fraction(7, 2), Fraction(89, 56)),
    ],
    ids=["mirrored", "independent"],
)
def test_what_the_printed_noise_costs_depends_on_the_columns(
    noise: str, of_scalars: Fraction, of_people: Fraction
) -> None:
    settings: dict[str, Any] = {"epsilon": 1, "variant": "published", "noise": noise}
    scalars = fitted(binaries(), schema=BINARY, **settings).guarantee_
    assert scalars.epsilon == Decimal(str(float(of_scalars)))
    assert scalars.claimed_epsilon == 1
    assert float(fitted(people(), **settings).guarantee_.epsilon) == pytest.approx(float(of_people))


def test_a_schema_that_says_no_row_limit_takes_the_estimators() -> None:
    silent = make_schema(BINARY.model_dump(mode="json")["attributes"])
    with pytest.raises(SettingError, match="max_rows_per_person is not given and has no default"):
        fitted(binaries(), schema=silent)
    model = fitted(binaries(), schema=silent, max_rows_per_person=3)
    assert model.guarantee_.max_rows_per_person == 3
    assert model.schema_.max_rows_per_person == 3
    assert model.schema_.digest != silent.digest


def test_rows_of_one_person_multiply_what_the_printed_noise_costs() -> None:
    one, three = (
        PPCADPMH(
            epsilon=1,
            variant="published",
            bounds=(0, 1),
            max_rows_per_person=k,
            random_state=0,
        )
        .fit(binaries())
        .guarantee_
        for k in (1, 3)
    )
    assert three.epsilon == 3 * one.epsilon
    assert three.max_rows_per_person == 3


@pytest.mark.parametrize(
    ("numeric", "settings"),
    [
        ({"histogram": True}, {}),
        ({"bins": 4, "products": "bins"}, {}),
        ({}, {"targets": ["b"], "sum_weight": 1}),
        ({}, {"tables": [{"table": ["x", "b"]}]}),
    ],
)
def test_schemas_that_release_more_than_values_sums_and_products_are_refused(
    numeric: dict[str, Any], settings: dict[str, Any]
) -> None:
    attributes = [numeric_of("x", 0, 1, **numeric), binary_of("b", [0, 1])]
    document = {"max_rows_per_person": 1, "attributes": attributes, **settings}
    rows = np.column_stack([np.linspace(0, 1, 50), np.arange(50) % 2])
    with pytest.raises(
        SettingError,
        match="histogram, products, tables, targets, square_weight and halved_products out",
    ):
        fitted(rows, schema=Schema.from_document(document))


def test_a_schema_that_keeps_the_number_of_rows_secret_is_refused() -> None:
    attributes = [numeric_of("x", 0, 1), binary_of("b", [0, 1])]
    document = {"max_rows_per_person": 1, "attributes": attributes, "neighbours": "added"}
    rows = np.column_stack([np.linspace(0, 1, 50), np.arange(50) % 2])
    with pytest.raises(SettingError, match="take neighbours out of the schema"):
        fitted(rows, schema=Schema.from_document(document))


def as_frame(rows: NDArray[np.float64]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "ward": np.array(["n", "s", "w", "e"])[rows[:, 3].astype(int)],
            "age": rows[:, 0],
            "dose": rows[:, 1],
            "ill": np.where(rows[:, 2], "yes", "no"),
        }
    )


def test_a_frame_with_labels_gives_what_an_array_of_codes_gives_and_labels_back() -> None:
    rows = people(400)
    plain, named = fitted(rows), fitted(as_frame(rows))
    assert np.array_equal(plain.synthetic_, named.synthetic_)
    assert list(named.feature_names_in_) == ["age", "dose", "ill", "ward"]
    decoded = named.decoded_
    assert isinstance(decoded, pd.DataFrame)
    pd.testing.assert_frame_equal(decoded, as_frame(plain.decoded_)[decoded.columns])
    assert isinstance(named.decode(named.sample(50)), pd.DataFrame)
    assert np.array_equal(named.transform(as_frame(rows)), plain.transform(rows))


def test_rows_come_back_from_as_many_scores_as_there_are_columns_less_one() -> None:
    rows = people(400)
    model = fitted(rows, n_components=6)
    again = model.inverse_transform(model.transform(rows))
    assert is_valid(again)
    assert np.array_equal(again[:, 2:], rows[:, 2:])
    assert np.abs(again[:, :2] - rows[:, :2]).max() < 0.5
    named = fitted(as_frame(rows), n_components=6)
    assert set(named.inverse_transform(named.transform(as_frame(rows)))["ward"]) == set("nswe")
    with pytest.raises(DataError, match="there are 6 components"):
        model.inverse_transform(np.zeros((2, 5)))


def test_explained_variance_is_a_share_of_what_the_rule_adds_up() -> None:
    rows = people()
    for variant in ("sound", "published"):
        model = fitted(rows, contribution_rate=0.6, variant=variant)
        ratio = model.explained_variance_ratio_
        assert ratio.sum() >= 0.6 > ratio[:-1].sum()
        assert np.array_equal(model.explained_variance_, model.eigenvalues_[: len(ratio)])


def test_the_score_is_the_likelihood_of_the_released_model() -> None:
    rows = people(500)
    model = fitted(rows, n_components=3)
    coded = dppca.encode(as_frame(rows), SCHEMA)
    law = multivariate_normal(model.model_.mean, model.model_.covariance())
    np.testing.assert_allclose(model.score_samples(rows), law.logpdf(coded))
    assert model.score(rows) == pytest.approx(law.logpdf(coded).mean())
    assert model.score(rows) > model.score(rows[::-1, [0, 1, 2, 3]] * [0, 0, 1, 1] + [100, 2, 0, 0])
