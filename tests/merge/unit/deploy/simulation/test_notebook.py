"""A study from Python: the parties' own steps on tables in memory, marked as a simulation."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import yaml
from sklearn.decomposition import PCA

import dppca
from dppca.common.analysis.field import field
from dppca.common.analysis.rows.synthesis import DecodingMethod
from dppca.common.kernel.errors import (
    DataError,
    DppcaError,
    PrivacyError,
    SettingError,
    StudyError,
    TooManyRowsError,
)
from dppca.common.kernel.privacy.noise.entropy import OperatingSystemEntropy
from dppca.common.kernel.study import Trust, study_from_mapping
from dppca.deploy.simulation.aggregation import OPEN_BY
from dppca.deploy.simulation.in_memory import read_study
from dppca.deploy.simulation.notebook import SIMULATED, Simulation
from tests.support.latent_rows import make_rows
from tests.support.masked import make_masked_study
from tests.support.noise import seed_noise
from tests.support.studies import binary_of, make_study, study_document

FALSE_ALARMS = 0.0  # all noise has a seed
STUDY = make_study("latent", epsilon="100000", components={"count": 2})
KINDS: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "arrow": lambda table: table,
    "lists": lambda table: table.to_pydict(),
}
TYPES = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "arrow": pa.Table, "lists": dict}


def two_owners(n_rows: int = 400, kind: str = "arrow") -> dict[str, Any]:
    rows = make_rows(2 * n_rows)
    return {
        "hospital": KINDS[kind](rows.slice(0, n_rows)),
        "clinic": KINDS[kind](rows.slice(n_rows)),
    }


@pytest.fixture(autouse=True)
def _seeded(monkeypatch: pytest.MonkeyPatch) -> None:
    seed_noise(monkeypatch)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_table_comes_back_with_labels(kind: str) -> None:
    found = dppca.simulate(two_owners(kind=kind), STUDY)
    assert isinstance(found, Simulation)
    assert dppca.Simulation is Simulation
    assert isinstance(found.decoded, TYPES[kind])
    assert {str(label) for label in found.decoded["ill"]} == {"no", "yes"}
    assert {str(label) for label in found.decoded["colour"]} == {"red", "green", "blue"}
    assert len(found.decoded["x0"]) == len(found.coded) == 800
    assert found.study.owners == ("hospital", "clinic")


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_one_person_are_counted_where_a_key_is_named(kind: str) -> None:
    rows = make_rows(400)
    for people, most in ((range(400), 1), ([1, *range(399)], 2)):
        keyed = KINDS[kind](rows.append_column("person", pa.array(people)))
        owners = {"hospital": keyed, "clinic": keyed}
        if most == 1:
            assert dppca.simulate(owners, STUDY, key="person").owners[0].n_rows == 400
            continue
        with pytest.raises(PrivacyError, match=r"hospital: .*up to 2 rows have one person"):
            dppca.simulate(owners, STUDY, key="person")
    with pytest.raises(DataError, match=r"the table of hospital: .*no column nobody"):
        dppca.simulate(owners, STUDY, key="nobody")


def _of_people(**schema: object) -> str:
    fields: dict[str, Any] = {"max_rows_per_person": None, "unit": "person", **schema}
    return yaml.safe_dump(study_document(FLAGS, epsilon="5000", **fields))


FLAGS = [binary_of("a", ["n", "y"]), binary_of("b", ["n", "y"])]


@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_rows_of_one_person_weigh_as_one(neighbours: str) -> None:
    text = _of_people(neighbours=neighbours)
    k = [1] * 300 + [7] * 100  # whoever has 7 rows says yes
    rows = {
        "a": np.repeat(["n"] * 300 + ["y"] * 100, k),
        "b": np.repeat(["n", "y"] * 200, k),
        "person": np.repeat(np.arange(400), k),
    }
    found = dppca.simulate({"north": rows}, text, key="person")
    assert found.owners[0].n_rows == 400
    _, yes = dppca.estimates(found.released).proportion("a").estimates
    assert yes.estimate == pytest.approx(0.25, abs=0.01)
    about = "about " * (neighbours == "added")
    assert re.search(rf"1 owner, {about}\d+ people", repr(found))
    with_target = dppca.simulate({"north": rows}, text, "b", key="person")
    assert with_target.owners[0].n_rows == 320, "a fifth of the people is held out"
    with pytest.raises(SettingError, match='such as key="person_id"'):
        dppca.simulate({"north": rows}, text)
    rows["person"] = [None, *rows["person"][1:]]
    with pytest.raises(DataError, match="table of north has no person in 1 row"):
        dppca.simulate({"north": rows}, text, key="person")


def test_with_little_noise_the_components_are_those_of_all_rows_together() -> None:
    study, owners = STUDY, two_owners()
    found = dppca.simulate(owners, study)
    rows = dppca.encode(pa.concat_tables(owners.values()), study.table)
    pca = PCA(2).fit(rows)
    assert np.abs(np.abs(found.components_ @ pca.components_.T) - np.eye(2)).max() < 1e-3
    np.testing.assert_allclose(found.mean_, rows.mean(axis=0), atol=1e-3)
    scale = len(rows) / (len(rows) - 1)
    np.testing.assert_allclose(
        found.explained_variance_ * scale, pca.explained_variance_, rtol=1e-3
    )
    assert found.captured_variance == pytest.approx(1.0, abs=1e-4)
    assert found.feature_names == study.table.column_names


def test_each_owner_is_told_what_its_ledger_would_be_charged() -> None:
    found = dppca.simulate(two_owners(), make_study("latent", epsilon=2, components={"count": 2}))
    assert [(each.name, each.n_rows) for each in found.owners] == [
        ("hospital", 400),
        ("clinic", 400),
    ]
    assert {each.epsilon for each in found.owners} == {"2"}
    assert {each.charge.epsilon <= 2 for each in found.owners} == {True}
    assert found.guarantee.epsilon == "2"
    assert any("No person has rows at two owners" in each for each in found.guarantee.assumptions)


def test_the_noise_is_the_operating_systems(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    real = OperatingSystemEntropy.bytes

    def count(self: OperatingSystemEntropy, n_bytes: int) -> bytes:
        asked.append(n_bytes)
        return real(self, n_bytes)

    monkeypatch.setattr(OperatingSystemEntropy, "bytes", count)
    study = make_study("latent", epsilon="0.5", components={"count": 2})
    first, second = (dppca.simulate(two_owners(), study, seed=3) for _ in range(2))
    assert sum(asked) > 2 * 2 * study.table.layout.n_entries
    assert not np.array_equal(first.explained_variance_, second.explained_variance_)


def test_with_a_target_a_fifth_is_held_out_and_tried() -> None:
    found = dppca.simulate(two_owners(1000), STUDY, target="ill")
    assert [each.n_rows for each in found.owners] == [800, 800]
    assert found.utility is not None
    assert found.utility.trtr_accuracy > 0.9
    assert found.utility.tstr_accuracy_decoded > found.utility.majority + 0.2
    assert "the commonest class" in repr(found)
    assert found.synthesis.rows == 1600
    missed = found.synthesis.decoded_by is DecodingMethod.MISSES
    assert missed or found.synthesis.decoded_by is DecodingMethod.FIELD
    assert missed == bool(found.synthesis.missed)
    assert ("standard deviations of its noise" in found.synthesis.summary) is missed
    for shown in (repr(found), found._repr_html_()):
        assert found.synthesis.summary in shown
    assert found.relations is not None
    assert found.relations.summary in repr(found)
    assert "accuracy" not in repr(dppca.simulate(two_owners(), STUDY))


def test_the_questions_of_the_study_are_answered_before_its_components() -> None:
    asked = STUDY.model_copy(update={"questions": ("share ill=yes",)})
    found = dppca.simulate(two_owners(), asked)
    for shown in (repr(found), found._repr_html_()):
        assert shown.index("shares of ill=yes: ill=yes") < shown.index("components")
    assert "shares of" not in repr(dppca.simulate(two_owners(), STUDY))


def test_a_table_of_ones_own_is_tried_in_the_place_of_held_out_rows() -> None:
    owners, test = two_owners(1000), make_rows(500, 7).to_pandas()
    test["x0"] = "much"
    with pytest.warns(dppca.CodingWarning, match="500 rows of the test table.*x0: 500 not read"):
        found = dppca.simulate(owners, STUDY, target="ill", test=test)
    assert [each.n_rows for each in found.owners] == [1000, 1000]
    assert found.utility is not None
    commonest = pa.concat_tables(owners.values())["ill"].to_pandas().mode()[0]
    assert found.utility.majority == pytest.approx((test["ill"] == commonest).mean())
    assert "accuracy for ill on the rows of the test table †" in repr(found)
    assert "Accuracy for ill on the rows of the test table" in found._repr_html_()
    assert [line for line in found.alarms if line.startswith("test table: NOT READ")]


@pytest.mark.parametrize("target", [None, "ill"])
def test_as_many_synthetic_rows_are_drawn_as_are_asked_for(target: str | None) -> None:
    found = dppca.simulate(two_owners(), STUDY, target, n_rows=37)
    assert (len(found.decoded["x0"]), len(found.coded), found.synthesis.rows) == (37, 37, 37)


@pytest.mark.parametrize("spares", [0, 1])
def test_one_masked_sum_gives_the_same_components(spares: int) -> None:
    n_owners, n_openers = 4, 2 + 2 * spares
    asked = make_masked_study(
        n_owners,
        n_openers,
        spares=spares,
        epsilon="100000",
        mechanism="laplace",
        attributes=STUDY.table.model_dump(mode="json")["attributes"],
        components={"count": 2},
    ).study
    rows = make_rows(800)
    owners = {f"site-{i}": rows.slice(200 * i, 200) for i in range(n_owners)}
    found = dppca.simulate(owners, asked)
    assert found.study.trust is Trust.AGGREGATE
    assert set(found.study.identities or {}) == set(owners)
    assert len(found.study.openers or {}) == n_openers
    pca = PCA(2).fit(dppca.encode(rows, asked.table))
    assert np.abs(np.abs(found.components_ @ pca.components_.T) - np.eye(2)).max() < 1e-3
    assert any("computational" in each for each in found.guarantee.assumptions)


def masked_draft(**fields: object) -> str:
    """Return the file of a study with ``trust: aggregate`` before its owners have keys."""
    document = STUDY.model_dump(mode="json", by_alias=True, exclude_none=True)
    privacy = {**document["privacy"], "trust": "aggregate", "colluders": 1}
    draft = {**document, "privacy": privacy, "owners": [*"abcd"], "open_by": OPEN_BY}
    return yaml.safe_dump({**draft, **fields})


@pytest.mark.parametrize(("spares", "n_openers"), [(0, 2), (1, 4)])
@pytest.mark.parametrize("in_a_file", [True, False])
def test_a_draft_without_keys_is_simulated_with_temporary_ones(
    tmp_path: Path, spares: int, n_openers: int, *, in_a_file: bool
) -> None:
    draft = masked_draft(spares=spares)
    (file := tmp_path / "draft.yaml").write_text(draft)
    rows = make_rows(400)
    owners = {f"site-{i}": rows.slice(100 * i, 100) for i in range(4)}
    found = dppca.simulate(owners, file if in_a_file else draft)
    assert found.study.trust is Trust.AGGREGATE
    assert set(found.study.identities or {}) == set(owners)
    assert list(found.study.openers or {}) == [*owners][:n_openers]
    assert found.components.n_rows == 400


def test_a_study_file_with_its_owners_keys_or_without_masks_is_read_as_it_is() -> None:
    masked = make_masked_study(4, 2).study
    for study in (STUDY, masked):
        text = study.canonical_bytes().decode()
        assert read_study(text, entropy=OperatingSystemEntropy()) == study


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"open_by": None}, "needs open_by"),
        ({"quorum": 2, "deadline": "2099-01-01T00:00:00Z"}, "quorum 2 less colluders 1"),
        ({"spares": 2}, "4 openers; 1 colluders and 2 spares need 6"),
        ({"owners": "a"}, "line [0-9]+, owners"),
        ({"spares": "many"}, "line [0-9]+, spares"),
        ({"identities": {}}, "identities must name every owner"),
        ({"openers": {}}, "identities must name every owner"),
        ({"name": 5}, "line [0-9]+, name"),
    ],
)
def test_a_draft_that_cannot_become_a_study_is_refused(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(StudyError, match=said):
        dppca.simulate(two_owners(), masked_draft(**fields))


def test_a_field_that_did_not_converge_is_said_on_its_face(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(field, "_MOST_MISFIT", 0.0)
    found = dppca.simulate(two_owners(), STUDY)
    assert found.synthesis.decoded_by is DecodingMethod.NOT_CONVERGED
    assert found.synthesis.not_converged == ("clinic",)
    assert "did not converge (misfit" in found.synthesis.summary
    assert found.synthesis.summary in repr(found)
    assert f"<strong>{found.synthesis.summary}</strong>" in found._repr_html_()


def test_it_says_on_its_face_that_it_is_a_simulation_and_names_are_text() -> None:
    name = "<script>alert(1)</script>"
    document = STUDY.model_dump(mode="json", by_alias=True, exclude_none=True)
    document["schema"]["attributes"][0]["name"] = name
    owners = {
        owner: table.rename_columns([name, *table.column_names[1:]])
        for owner, table in two_owners().items()
    }
    found = dppca.simulate(owners, study_from_mapping(document), target="ill")
    page = found._repr_html_()
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    for text in (page, repr(found)):
        assert SIMULATED in text
        assert "†" in text.replace(SIMULATED, "")
    for owner in ("hospital", "clinic"):
        assert f"<td>{owner}</td>" in page
    assert "largest loadings" in page


def test_one_component_makes_no_biplot() -> None:
    study = make_study("latent", epsilon="100000", components={"count": 1})
    with pytest.raises(SettingError, match="two components"):
        dppca.simulate(two_owners(), study).plot_biplot()


def test_what_coding_mends_is_counted_and_the_tables_stay_as_they_are() -> None:
    owners = two_owners(kind="pandas")
    owners["clinic"].loc[:9, "ill"] = "perhaps"
    before = {name: table.copy() for name, table in owners.items()}
    with pytest.warns(dppca.CodingWarning, match="the table of clinic.*ill: 10 unknown"):
        found = dppca.simulate(owners, STUDY)
    assert found.faults.attributes["ill"].by_rule == 10
    for name, table in owners.items():
        pd.testing.assert_frame_equal(table, before[name])


def _wrong() -> Iterator[tuple[Any, dict[str, Any], type[DppcaError], str]]:
    owners, study = two_owners(), STUDY
    yield {}, {}, SettingError, "a table by each name"
    yield owners["clinic"], {}, SettingError, "a table by each name"
    yield owners, {"target": "x0"}, SettingError, "binary or categorical attribute, not x0"
    yield {"clinic": owners["clinic"].drop_columns("ill")}, {}, DataError, "of clinic: .*column ill"
    yield {"clinic": owners["clinic"].slice(0, 0)}, {}, DataError, "of clinic has 0 rows"
    yield {"clinic": owners["clinic"].slice(0, 2)}, {"target": "ill"}, DataError, "needs 3 rows"
    yield {"no name": owners["clinic"]}, {}, StudyError, "a name has 1 to 64"
    yield owners, {"study": make_study("latent", max_rows=700)}, TooManyRowsError, "max_rows"
    test = {"target": "ill", "test": make_rows(9).drop_columns("x1")}
    yield owners, test, DataError, "the test table: .*column x1"
    yield owners, {**test, "test": make_rows(9).slice(0, 0)}, DataError, "test table has no rows"
    yield owners, {"test": make_rows(9)}, SettingError, "name their target"
    yield owners, {"n_rows": 0}, SettingError, "1 or more, not 0"
    yield owners, {"n_rows": 1e3}, SettingError, "a whole number"
    yield owners, {"study": study.table}, SettingError, "study_from_yaml"
    yield owners, {"study": Path("no.yaml")}, StudyError, "no.yaml cannot be read"


@pytest.mark.parametrize("place", range(15))
def test_what_does_not_fit_is_refused_with_a_reason(place: int) -> None:
    owners, options, error, said = list(_wrong())[place]
    with pytest.raises(error, match=said):
        dppca.simulate(owners, **{"study": STUDY, **options})


@pytest.mark.parametrize("trust", Trust)
def test_a_second_study_continues_the_first_in_one_call(trust: Trust) -> None:
    """Its trees find a parity, which no pair of attributes shows; what it costs adds up."""
    flags = [{"name": name, "type": "binary", "values": ["no", "yes"]} for name in ("p", "q", "r")]
    document: dict[str, Any] = {
        "name": "parity",
        "owners": ["north", "south", "west"],
        "privacy": {"mechanism": "laplace", "epsilon": "4"},
        "components": {"count": 1},
        "schema": {"max_rows_per_person": 1, "attributes": flags},
    }
    if trust is Trust.AGGREGATE:
        document["open_by"] = OPEN_BY
        document["privacy"] |= {"trust": "aggregate", "colluders": 1}
    rng = np.random.default_rng(1)
    tables = {}
    for name in document["owners"]:
        p, q, chance = (rng.random(3000) < share for share in (0.5, 0.5, 0.05))
        made = {"p": p, "q": q, "r": p ^ q ^ chance}
        tables[name] = {key: np.where(each, "yes", "no").tolist() for key, each in made.items()}
    study = yaml.safe_dump(document)
    alone = dppca.simulate(tables, study, "r")
    found = dppca.simulate(tables, study, "r", refine="r", refine_epsilon="3.5")
    shares = [
        np.mean([(p != q) == (r == "yes") for p, q, r in zip(*each.decoded.values(), strict=True)])
        for each in (alone, found)
    ]
    assert shares[0] < 0.6
    assert shares[1] > 0.75, "least of 50 runs with other noise: .872"
    assert (alone.refined, alone.guarantee.epsilon) == (None, "4")
    assert found.refined is not None
    assert found.guarantee.epsilon == "7.5"
    assert found.owners[0].charge.epsilon == 7.5
    assert found.refined.trust is trust
    for display in (repr(found), found._repr_html_()):
        assert "parity-second" in display
    assert found.components_.shape == (1, 3)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"refine": "ill"}, "needs both"),
        ({"refine_epsilon": 1}, "needs both"),
        ({"refine": "none", "refine_epsilon": 1}, "is not an attribute"),
        ({"refine": "ill", "refine_epsilon": 0}, "above 0"),
    ],
)
def test_a_second_study_that_cannot_be_is_refused(asked: dict[str, Any], told: str) -> None:
    with pytest.raises(SettingError, match=told):
        dppca.simulate(two_owners(), STUDY, **asked)
