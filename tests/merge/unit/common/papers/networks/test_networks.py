"""DP-SUBN3 and PrivBayes: what they learn, promise, spend and refuse."""

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from dppca.common.kernel.errors import DataError, SettingError
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy, SeededEntropy
from dppca.common.kernel.schema import Schema
from dppca.common.papers import DPSUBN3, PrivBayes
from dppca.common.papers.networks import dp_subn3, privbayes
from dppca.common.papers.networks.dependence import dependence_sensitivity
from dppca.common.papers.networks.network import Family, Network, fit_tables
from tests.support.faults import find_faults
from tests.support.studies import binary_of, categorical_of, make_schema, numeric_of

FALSE_ALARMS = 0.0  # draws that are judged have seeds
SEEDED = partial(SeededEntropy, 11)
SCHEMA = make_schema(
    [
        numeric_of("age", 18, 100),
        numeric_of("visits", 0, 30, integer=True, spikes=[0, 7], histogram=True),
        binary_of("ill", ["no", "yes"]),
        categorical_of("ward", ["n", "s", "w", "e"]),
    ],
    max_rows_per_person=1,
    targets=["ill"],
)
BINARY = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(6)], max_rows_per_person=1)
# Each of the six copies the one at its place of this list, with errors: a tree.
COPIED = (None, 0, 1, 0, 3, 3)
TREE = frozenset(frozenset((child, of)) for child, of in enumerate(COPIED) if of is not None)
Rows = NDArray[np.float64]


KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "arrow": lambda table: table,
}


def people(n_rows: int = 3_000) -> Rows:
    rng = np.random.default_rng(3)
    age = rng.uniform(18, 100, n_rows)
    ill = rng.random(n_rows) < age / 120
    ward = np.where(ill, rng.integers(0, 2, n_rows), rng.integers(2, 4, n_rows))
    visits = np.where(ill, rng.integers(1, 31, n_rows), 0)
    return np.column_stack([age, visits, ill, ward])


def tree(n_rows: int = 6_000) -> Rows:
    rng = np.random.default_rng(9)
    rows = rng.integers(0, 2, (n_rows, 6)).astype(float)
    for child, of in enumerate(COPIED):
        if of is not None:
            rows[:, child] = np.where(rng.random(n_rows) < 0.1, 1 - rows[:, of], rows[:, of])
    return rows


def subn(rows: Rows, *, m: int = 3, **settings: Any) -> DPSUBN3:
    given: dict[str, Any] = {"epsilon": 2, "schema": SCHEMA, "entropy": SEEDED, "random_state": 5}
    return DPSUBN3(**{**given, **settings}).fit([rows[party::m] for party in range(m)])


def bayes(rows: Rows, **settings: Any) -> PrivBayes:
    given: dict[str, Any] = {"epsilon": 2, "schema": SCHEMA, "entropy": SEEDED, "random_state": 5}
    return PrivBayes(**{**given, **settings}).fit(rows)


BOTH = pytest.mark.parametrize("fit", [subn, bayes], ids=["DP-SUBN3", "PrivBayes"])
Fit = Callable[..., Any]


@BOTH
@pytest.mark.parametrize("epsilon", ["1e-6", "2", "1000"])
def test_drawn_rows_are_a_table_that_the_schema_allows(fit: Fit, epsilon: str) -> None:
    table = fit(people(), epsilon=epsilon).sample(500)
    assert table.shape == (500, 4)
    columns = [table[:, 0], table[:, 1], *(table[:, i].astype(np.int32) for i in (2, 3))]
    faults = find_faults(SCHEMA, columns)
    assert not any((each.missing | each.invalid | each.out).any() for each in faults.values())
    assert np.array_equal(table[:, 1], np.rint(table[:, 1]))
    assert fit(table).sample(5).shape == (5, 4)  # an estimator takes them, too


@pytest.mark.parametrize(("fit", "theta"), [(subn, 4e7), (bayes, 6e7)])
def test_much_epsilon_recovers_a_tree_and_its_relations(fit: Fit, theta: float) -> None:
    rows = tree()
    model = fit(rows, schema=BINARY, epsilon=1e6, theta=theta)  # tables of four cells
    assert model.network_.edges == TREE
    drawn = model.sample(20_000)
    assert np.corrcoef(drawn.T) == pytest.approx(np.corrcoef(rows.T), abs=0.05)
    assert drawn.mean(axis=0) == pytest.approx(rows.mean(axis=0), abs=0.02)


@BOTH
def test_the_whole_may_leave_and_is_charged_as_a_whole(fit: Fit) -> None:
    for entropy in (None, OperatingSystemEntropy):
        first, again = (fit(people(400), epsilon="0.3", entropy=entropy) for _ in range(2))
        guarantee = first.guarantee_
        assert guarantee.label is Label.RELEASED
        assert guarantee.not_private == ""
        assert guarantee.epsilon == guarantee.charge.epsilon == Decimal("0.3")
        assert guarantee.charge.rho == guarantee.delta == 0
        assert not all(
            one.shape == two.shape and np.array_equal(one, two)
            for one, two in zip(first.model_.tables, again.model_.tables, strict=True)
        )


@BOTH
def test_noise_that_can_be_drawn_again_is_never_released(fit: Fit) -> None:
    first, again = (fit(people(400)) for _ in range(2))
    assert first.guarantee_.label is Label.SITE_ONLY
    assert "protects nothing" in str(first.guarantee_)
    assert first.network_ == again.network_
    assert np.array_equal(first.sample(50), again.sample(50))
    assert not np.array_equal(first.sample(50), first.sample(50, random_state=6))


def chosen_scales(module: ModuleType, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The scale of each choice that the module makes from now on."""
    chosen: list[int] = []
    choose = module.choose

    def watched(scores: Any, *, scale: int, entropy: Any) -> int:
        chosen.append(scale)
        picked: int = choose(scores, scale=scale, entropy=entropy)
        return picked

    monkeypatch.setattr(module, "choose", watched)
    return chosen


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("k", [1, 4])
def test_the_parts_of_epsilon_that_are_spent_add_up_to_it(
    m: int, k: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each party draws noise on counts by its scale, choices by theirs; never more than epsilon."""
    chosen, rows = chosen_scales(dp_subn3, monkeypatch), tree()
    schema = Schema.from_document({**BINARY.model_dump(mode="json"), "max_rows_per_person": k})
    model = subn(rows, m=m, schema=schema, epsilon="0.7", theta=16)
    assert chosen
    assert len(chosen) % m == 0
    sensitivity = dependence_sensitivity(len(rows) // m, child_sizes=[2])
    spent = sum(Fraction(2 * k * sensitivity, scale) for scale in chosen) / m
    for noise in model.guarantee_.noise:
        spent += Fraction(k * noise.sensitivity.l1, noise.law.parameters()["scale"])
    assert Fraction("0.63") < spent <= Fraction("0.7")
    assert model.guarantee_.max_rows_per_person == k


def test_the_parts_of_privbayes_add_up_to_its_epsilon(monkeypatch: pytest.MonkeyPatch) -> None:
    chosen, rows = chosen_scales(privbayes, monkeypatch), tree()
    model = bayes(rows, schema=BINARY, epsilon="0.7")
    assert len(chosen) == 5
    sensitivity = dependence_sensitivity(len(rows), child_sizes=[2])
    (noise,) = model.guarantee_.noise
    spent = sum(Fraction(2 * sensitivity, scale) for scale in chosen)
    spent += Fraction(noise.sensitivity.l1, noise.law.parameters()["scale"])
    assert Fraction("0.63") < spent <= Fraction("0.7")


def test_every_party_updates_the_network_of_the_one_before() -> None:
    model = subn(tree(), schema=BINARY, epsilon=50, m=4, theta=1.0)
    assert len(model.updates_) == 1 + 4
    assert model.network_ == model.updates_[-1]
    for network in model.updates_:
        order = [family.child for family in network.families]
        assert order == [family.child for family in model.network_.families]
        for family, candidates in zip(network.families, model.frontier_, strict=True):
            assert family.parents in candidates or network is model.updates_[0]


OF_BOTH: list[tuple[dict[str, Any], str]] = [
    ({"epsilon": None}, "epsilon is not given"),
    ({"epsilon": 0}, "must be above 0"),
    ({"schema": None}, "give a schema"),
    ({"theta": 0}, "theta"),
    ({"n_bins": 1}, "n_bins is 1"),
    ({"schema": BINARY}, "4 columns, the schema 6"),
    ({"max_rows_per_person": 2}, "but the schema says 1"),
]


@pytest.mark.parametrize(
    ("fit", "settings", "says"),
    [
        *((fit, *case) for fit in (subn, bayes) for case in OF_BOTH),
        (subn, {"correlation_share": 0.9, "update_share": 0.1}, "update_share"),
        (subn, {"update_share": 0}, "update_share"),
        (subn, {"reach": 0}, "reach"),
        (bayes, {"structure_share": 1.5}, "structure_share"),
        (bayes, {"most_parents": 0}, "most_parents"),
    ],
)
def test_settings_that_cannot_be_kept_are_refused(
    fit: Fit, settings: dict[str, Any], says: str
) -> None:
    with pytest.raises(SettingError, match=says):
        fit(people(50), **settings)


@BOTH
def test_rows_outside_the_schema_are_refused(fit: Fit) -> None:
    for place, wrong, says in (
        ((4, 0), 120.0, "leaves its bounds"),
        ((4, 3), 7.0, "codes 0 to 3"),
        ((0, 0), np.nan, "NaN"),
    ):
        bad = people(50)
        bad[place] = wrong
        with pytest.raises(ValueError if says == "NaN" else DataError, match=says):
            fit(bad)


def test_no_party_one_attribute_and_unit_balls_are_refused() -> None:
    with pytest.raises(DataError, match="no parties"):
        DPSUBN3(epsilon=1, schema=SCHEMA).fit([])
    with pytest.raises(SettingError, match=r"fit\(\[rows\]\)"):
        DPSUBN3(epsilon=1, schema=SCHEMA).fit(np.zeros((5, 4)))
    ball = {"max_rows_per_person": 1, "row_norm": {}}
    columns = [{"name": f"x{i}", "type": "numeric", "centre": 0, "scale": 1} for i in range(2)]
    with pytest.raises(SettingError, match="unit ball"):
        bayes(np.zeros((4, 2)), schema=Schema.from_document({**ball, "attributes": columns}))


@BOTH
def test_few_rows_equal_rows_and_two_attributes_are_fitted(fit: Fit) -> None:
    """Degenerate tables: what is drawn stays valid, whatever the noise."""
    same = np.repeat(people(1), 9, axis=0)
    assert fit(same).sample(20).shape == (20, 4)
    two = make_schema([binary_of(f"b{i}", [0, 1]) for i in range(2)], max_rows_per_person=1)
    assert fit(tree(30)[:, :2], schema=two, epsilon=10).sample(10).shape == (10, 2)


def test_counts_below_zero_and_empty_cells_have_a_distribution() -> None:
    network = Network((Family(1, ()), Family(0, (1,))))
    counts = {(1,): np.array([-5, -2]), (0, 1): np.array([[8, -9], [2, -1]])}
    model = fit_tables(network, (2, 2), counts.__getitem__)
    assert model.tables[0].tolist() == [[0.5, 0.5]]
    assert model.tables[1].tolist() == [[0.8, 0.2], [0.8, 0.2]]


def test_a_family_out_of_order_is_refused() -> None:
    for families in ((Family(0, (1,)), Family(1, ())), (Family(0, ()), Family(0, ()))):
        with pytest.raises(SettingError, match="out of order"):
            Network(families)


@pytest.mark.parametrize("kind", KINDS)
def test_frames_are_read_by_names_and_labels_and_rows_come_back_so(kind: str) -> None:
    rows = people()
    labels = [SCHEMA.attributes[place].labels for place in (2, 3)]  # type: ignore[union-attr]
    columns = {
        "ward": [labels[1][int(code)] for code in rows[:, 3]],
        "ill": [labels[0][int(code)] for code in rows[:, 2]],
        "person": range(len(rows)),
        "visits": rows[:, 1],
        "age": rows[:, 0],
    }
    frame = KINDS[kind](pa.table(columns))
    made = [
        make(epsilon="1", schema=SCHEMA, entropy=SEEDED, random_state=1)
        for make in (PrivBayes, DPSUBN3)
        for _ in range(2)
    ]
    for ours, theirs, given in ((made[0], made[1], False), (made[2], made[3], True)):
        ours.fit([frame] if given else frame)
        theirs.fit([rows] if given else rows)
        drawn, codes = ours.sample(200), theirs.sample(200)
        assert type(drawn) is type(frame)
        table = pa.table(drawn)
        assert table.column_names == [attribute.name for attribute in SCHEMA.attributes]
        assert np.array_equal(table["age"].to_numpy(), codes[:, 0])
        assert table["ward"].to_pylist() == [labels[1][int(code)] for code in codes[:, 3]]
        assert list(ours.feature_names_in_) == table.column_names


def test_missing_numbers_that_are_a_level_are_counted_and_drawn_as_one() -> None:
    """False alarms: the share is drawn from counts with noise of a thousandth, seeded."""
    lab = numeric_of("lab", 0, 10)
    level = {**lab, "missing": "level", "histogram": True}
    ill = binary_of("ill", ["no", "yes"])
    schema = make_schema([level, ill], max_rows_per_person=1)
    rng, n_rows = np.random.default_rng(4), 3_000
    gone = rng.random(n_rows) < 0.3
    rows = {"lab": np.where(gone, np.nan, rng.normal(6, 1, n_rows).clip(0, 10))}
    frame = pd.DataFrame(rows | {"ill": np.where(gone, "yes", "no")})
    fitted = PrivBayes(epsilon="20", schema=schema, entropy=SEEDED, random_state=1).fit(frame)
    drawn = fitted.sample(20_000)
    missing = drawn["lab"].isna()
    assert abs(missing.mean() - gone.mean()) < 0.02
    assert ((drawn["ill"] == "yes") == missing).mean() > 0.95
    without = make_schema([lab, ill], max_rows_per_person=1)
    with pytest.raises(DataError, match="does not say what they count as"):
        PrivBayes(epsilon="20", schema=without).fit(frame)
