"""A study that continues another: trees of published rows, counts alone, rows of both results."""

import hashlib
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dppca.common.analysis.rows.refinement import ROWS, choose_size, plan_rounds, refine, write_rows
from dppca.common.analysis.rows.synthesis import synthesize
from dppca.common.kernel.attestation.results import (
    Published,
    Result,
    result_from_bytes,
    result_to_bytes,
)
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import AlteredError, ArtefactError, SettingError, StudyError
from dppca.common.kernel.moments.accumulation import accumulate_moments
from dppca.common.kernel.privacy.composition import Round, compose_guarantee
from dppca.common.kernel.privacy.counted_rows import count_deviation
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.schema import Column
from dppca.common.kernel.study import Study, require_continues, study_from_mapping
from dppca.deploy.simulation.in_memory import make_parties, run_study
from dppca.owner.commands.preview import compare_grown
from dppca.owner.render.review import Regrown
from tests.support.noise import SeededEntropy
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

ATTRIBUTES = [
    numeric_of("age", 0, 100, histogram=True, missing="level", integer=True),
    {"name": "seen", "type": "date", "lower": "2020-01-01", "upper": "2029-12-31"},
    categorical_of("kind", ["a", "b", "c"]),
    *(binary_of(name, ["no", "yes"]) for name in ("p", "q", "ill")),
]
NOW = datetime(2026, 1, 1, tzinfo=UTC)
PRIVACY = {"mechanism": "gaussian", "epsilon": "4", "delta": "1e-6"}


def _people(n: int, seed: int) -> list[Column]:
    """``ill`` is a parity of p and q, which no pair of attributes shows."""
    rng = np.random.default_rng(seed)
    p, q, chance = rng.random(n) < 0.5, rng.random(n) < 0.5, rng.random(n) < 0.05
    age = np.where(rng.random(n) < 0.1, np.nan, np.rint(40 + 40 * rng.random(n) * p))
    seen = 18262 + rng.integers(0, 3000, n).astype(float)
    ill = p ^ q ^ chance
    return [age, seen, rng.integers(0, 3, n).astype(np.int32), *map(np.int32, (p, q, ill))]


def _run(study: Study, first: Published | None = None, seed: int = 1) -> Result:
    sums = {
        owner: accumulate_moments(study.table, _people(6000, number))
        for number, owner in enumerate(study.owners)
    }
    entropy = SeededEntropy(seed)
    parties = make_parties(study, None, entropy=entropy)
    return run_study(parties, sums, entropy=entropy, now=NOW, first=first)[0]


@cache
def _first() -> tuple[Published, bytes]:
    study = make_study(ATTRIBUTES, owners=["one", "two"], privacy=PRIVACY)
    result = _run(study)
    return Published(study, result), hashlib.sha256(result_to_bytes(result)).digest()


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The file that trees are grown on."""
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    first, sha256 = _first()
    write_rows(path, first.result, first.study, sha256=sha256, mode=0o600)
    return path


def _second(rows: Path, trees: int = 4, **changes: Any) -> Study:
    first, sha256 = _first()
    document = refine(
        first.study,
        sha256=sha256,
        rows=rows,
        target="ill",
        size=(trees, 16),
        epsilon=Decimal(4),
        delta=Decimal("1e-6"),
        changes={"name": "second", **changes},
    )
    return study_from_mapping(document)


def _share_of_parity(columns: list[Any]) -> float:
    p, q, ill = (np.asarray(column) for column in columns[-3:])
    return float(((p ^ q) == ill).mean())


def _drawn(result: Result, study: Study) -> list[Any]:
    made = synthesize(
        result, study, Form.DECODED, n_rows=8000, rng=np.random.default_rng(3)
    ).batches()
    table = pa.Table.from_batches(made)
    return [table[name].combine_chunks().indices for name in ("p", "q", "ill")]


def test_rows_of_both_results_keep_what_no_pair_shows(rows: Path) -> None:
    first, _ = _first()
    # The trees' seed is a digest of floats, which processors round differently: with four trees the
    # share was .58 to .94 over eight results, with sixteen .737 to .937 over 38.
    study = _second(rows, trees=16)
    result = _run(study, first)
    before, after = _drawn(first.result, first.study), _drawn(result, study)
    assert _share_of_parity(before) < 0.6
    assert _share_of_parity(after) > 0.65
    made = synthesize(result, study, Form.DECODED, n_rows=10, rng=np.random.default_rng(3))
    assert made.tables is not None
    guarantee: Any = made.claims["guarantee"]
    assert 4 < float(guarantee["epsilon"]) < 8, "rho of both adds up"
    assert guarantee["delta"] == "0.000001"


def test_the_result_of_a_further_study_has_counts_alone(rows: Path) -> None:
    first, _ = _first()
    study = _second(rows)
    result = _run(study, first)
    assert len(result.pooled) == sum(study.table.layout.tables)
    again = result_from_bytes(result_to_bytes(result), study)
    assert (again.header.count, len(again.eigenvalues), again.mean) == (0, 0, None)
    assert again.header == result.header
    with pytest.raises(ArtefactError, match="should be absent"):
        result_from_bytes(
            result_to_bytes(
                replace(
                    result,
                    header=replace(result.header, count=1),
                    eigenvalues=np.ones(8),
                    vectors=np.ones((1, 8)),
                )
            ),
            study,
        )
    with pytest.raises(SettingError, match="has no components"):
        synthesize(result, study, Form.CODED, n_rows=10, rng=np.random.default_rng(3))
    with pytest.raises(SettingError, match="its result is needed too"):
        _drawn(again, study)


def test_anybody_can_grow_the_trees_again(rows: Path, tmp_path: Path) -> None:
    study = _second(rows)
    assert compare_grown(study, rows) is Regrown.SAME
    assert compare_grown(study, None) is Regrown.UNCHECKED
    assert compare_grown(_first()[0].study, rows) is None
    other = tmp_path / "other.parquet"
    table = pq.read_table(rows)
    pq.write_table(table.take(np.arange(ROWS)[::-1]), other)
    assert compare_grown(study, other) is Regrown.DIFFERENT, "another digest"
    document = study.model_dump(mode="json", by_alias=True)
    document["continues"]["grown"]["seed"] += 1
    assert compare_grown(study_from_mapping(document), rows) is Regrown.DIFFERENT


def test_a_file_that_is_no_table_of_these_rows_grows_nothing(rows: Path, tmp_path: Path) -> None:
    table = pq.read_table(rows)
    short, strange, torn = (tmp_path / f"{name}.parquet" for name in ("short", "strange", "torn"))
    pq.write_table(table.slice(0, 100), short)
    pq.write_table(table.drop_columns(["age"]), strange)
    torn.write_bytes(rows.read_bytes()[:2000])
    for path, error in ((short, AlteredError), (strange, AlteredError), (torn, ArtefactError)):
        with pytest.raises(error):
            _second(path)


@pytest.mark.parametrize(
    ("epsilon", "n_rows", "size"),
    [("0.05", 12_000, (5, 32)), ("1", 36_000, (20, 128)), ("8", 36_000, (40, 256))],
)
def test_one_rule_decides_the_size_of_the_trees(
    epsilon: str, n_rows: int, size: tuple[int, int]
) -> None:
    first = make_study(ATTRIBUTES, owners=["one"], privacy=PRIVACY)
    found = choose_size(first, epsilon=Decimal(epsilon), delta=Decimal("1e-9"), n_rows=n_rows)
    assert (found.trees, found.leaves) == size
    assert found.is_clear == (epsilon != "0.05")
    assert found.rows_per_leaf == n_rows / found.leaves


@pytest.mark.parametrize("privacy", [PRIVACY, {"mechanism": "laplace", "epsilon": "4"}])
def test_a_budget_in_two_parts_is_the_whole_again(privacy: dict[str, str]) -> None:
    study = make_study(ATTRIBUTES, owners=["one", "two"], privacy=privacy)
    planned = plan_rounds(study, calibrate(study), n_rows=12_000)
    assert planned is not None
    half = study.model_dump(mode="json", by_alias=True)
    half["privacy"]["epsilon"] = str(planned.epsilon)
    part = study_from_mapping(half)
    whole = compose_guarantee(part, calibrate(part), first=Round(part, calibrate(part)))
    assert float(whole.epsilon) == pytest.approx(4, abs=1e-9)
    assert Decimal(whole.delta) == (study.privacy.delta or 0)


@pytest.mark.parametrize(
    "people",
    [
        {"neighbours": "added", "max_rows_per_person": 2},
        {"unit": "person", "max_rows_per_person": None, "neighbours": "added"},
        {"unit": "person", "max_rows_per_person": None, "rows_counted": 3},
    ],
    ids=["rows", "people", "people of up to three rows"],
)
def test_a_study_with_a_secret_number_is_continued_at_the_noise_that_was_planned(
    people: dict[str, Any], rows: Path
) -> None:
    """What a plan says of the second study's noise is the noise that it has."""
    first = make_study(ATTRIBUTES, owners=["one", "two"], privacy=PRIVACY, count_weight=2, **people)
    planned = plan_rounds(first, calibrate(first), n_rows=12_000)
    assert planned is not None
    size = (planned.size.trees, planned.size.leaves)
    asked: dict[str, Any] = {"target": "ill", "size": size, "delta": Decimal("1e-6")}
    asked["epsilon"] = planned.epsilon
    document = refine(first, sha256=bytes(32), rows=rows, changes={"name": "second"}, **asked)
    second = study_from_mapping(document)
    require_continues(first, second, result_sha256=bytes(32))
    noise = calibrate(second)
    assert len(second.table.layout.tables) == size[0]
    deviation = noise.law.deviation * 2**0.5 / 4**first.table.resolution_bits
    assert deviation == pytest.approx(planned.size.noise, rel=0.01)
    assert count_deviation(second.table.layout, noise, n_owners=2) < deviation * size[1] ** 0.5
    # Neither a stronger promise nor a weaker one: each is another price of both studies.
    others = {"added", "replaced"} - {first.table.neighbours.value}
    other = {**document, "schema": {**document["schema"], "neighbours": others.pop()}}
    with pytest.raises(StudyError, match="differs in: neighbours"):
        require_continues(first, study_from_mapping(other), result_sha256=bytes(32))


def test_neither_rows_of_the_ball_nor_a_further_study_are_planned_in_two(rows: Path) -> None:
    ball = [{"name": name, "type": "numeric", "centre": 0, "scale": 1} for name in "xy"]
    for study in (make_study(ball, row_norm={}), _second(rows)):
        assert plan_rounds(study, calibrate(study), n_rows=100) is None


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({"target": "none"}, "is not an attribute"),
        ({"delta": None}, "give a delta"),
        ({"sha256": bytes(32)}, None),
    ],
)
def test_only_what_fits_the_first_study_is_drafted(
    rows: Path, asked: dict[str, Any], told: str | None
) -> None:
    first, sha256 = _first()
    fields = {
        "sha256": sha256,
        "target": "ill",
        "size": (1, 4),
        "epsilon": Decimal(1),
        "delta": Decimal("1e-6"),
        "changes": {"name": "second"},
    }
    if told is None:
        made = study_from_mapping(refine(first.study, rows=rows, **{**fields, **asked}))
        with pytest.raises(SettingError, match="continues another itself"):
            refine(made, rows=rows, **fields)
        return
    with pytest.raises(SettingError, match=told):
        refine(first.study, rows=rows, **{**fields, **asked})


def test_a_study_continues_one_of_the_same_people_and_question(rows: Path) -> None:
    first, sha256 = _first()
    second = _second(rows)
    require_continues(first.study, second, result_sha256=sha256)
    with pytest.raises(StudyError, match="another result"):
        require_continues(first.study, second, result_sha256=bytes(32))
    with pytest.raises(StudyError, match="does not continue"):
        require_continues(make_study("small"), second, result_sha256=sha256)
    grown = second.model_dump(mode="json", by_alias=True)
    for field, changed in (
        ("owners", {"owners": ["one", "three"]}),
        ("overlap", {"overlap": True}),
        ("attributes", {"schema": {**grown["schema"], "attributes": ATTRIBUTES[:1]}}),
        ("max_rows_per_person", {"schema": {**grown["schema"], "max_rows_per_person": 2}}),
    ):
        document = {**grown, **changed}
        if field == "attributes":
            other = [{**each, "name": each["name"]} for each in grown["schema"]["attributes"]]
            other[2]["categories"] = ["a", "b", "c", "d"]
            document["schema"] = {**grown["schema"], "attributes": other}
        with pytest.raises(StudyError, match=f"differs in: {field}"):
            require_continues(first.study, study_from_mapping(document), result_sha256=sha256)


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"components": {"count": 1}}, "no components"),
        ({"covariance": "within"}, "no components and no covariance"),
        ({"continues": None, "components": {"count": 1}}, "continues another"),
        ({"continues": None}, "components is null"),
        ({"continues": {"study": "f" * 63, "result": "0" * 64}}, "continues.study"),
        ({"continues": {"study": "F" * 64, "result": "0" * 64}}, "continues.study"),
    ],
)
def test_a_document_that_continues_and_decomposes_is_refused(
    rows: Path, changes: dict[str, Any], told: str
) -> None:
    document = _second(rows).model_dump(mode="json", by_alias=True)
    with pytest.raises(StudyError, match=told):
        study_from_mapping({**document, **changes})


@pytest.mark.parametrize(
    ("changes", "told"),
    [({"tables": []}, "needs tables"), ({"targets": ["ill"]}, "no targets")],
)
def test_a_schema_of_tables_alone_has_tables_and_nothing_to_weigh(
    rows: Path, changes: dict[str, Any], told: str
) -> None:
    document = _second(rows).model_dump(mode="json", by_alias=True)
    with pytest.raises(StudyError, match=told):
        study_from_mapping({**document, "schema": {**document["schema"], **changes}})


def test_a_further_study_says_of_its_attributes_only_what_it_counts(rows: Path) -> None:
    """Histograms and products of bins are the first study's."""
    document = _second(rows).model_dump(mode="json", by_alias=True)
    document["schema"]["attributes"][0] |= {"histogram": False, "bins": 8, "products": "bins"}
    document["schema"]["tables"] = [{"table": ["age", "ill"]}]
    table = study_from_mapping(document).table
    assert (table.histograms, table.products_of_bins) == ((), ())
    assert table.counted == ("age and ill together (18 cells)",)
