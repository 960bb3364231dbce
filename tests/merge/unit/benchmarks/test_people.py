"""The benchmark of people: its vectors are the product's, and its caps keep what they say."""

import json

import numpy as np
import pytest

from benchmarks import people
from benchmarks.experiment import fill_tables
from benchmarks.people import (
    JSON_FILE,
    KINDS,
    PAGE,
    QUESTIONS,
    PeopleTrial,
    cap_cells,
    cover,
    coverage_cells,
    make_people_study,
    make_world,
    person_vectors,
    tables_of,
)
from dppca.common.analysis.estimates.release import expected_moments
from dppca.common.kernel.moments.people import PeopleSums
from dppca.common.kernel.privacy.release import calibrate


@pytest.mark.parametrize("kind", KINDS)
def test_what_a_person_adds_is_what_the_product_adds_to_within_a_unit(kind: str) -> None:
    study, world = make_people_study("1", **KINDS[kind][1]), make_world("half", 200, seed=1)
    sums = PeopleSums(study.table)
    sums.add(world.columns, np.repeat(world.k, world.k))
    ks, counts = np.unique(world.k, return_counts=True)
    exact = sums.total(dict(zip(ks.tolist(), counts.tolist(), strict=True)))
    found = person_vectors(study, world).sum(axis=0)
    np.testing.assert_allclose(found, exact.packed, atol=2 + 1e-6 * 4**10 * len(world.k))
    assert exact.n_rows == np.minimum(world.k, study.table.rows_counted).sum()


def test_caps_of_the_committed_record_come_out_again_and_stand_on_the_page() -> None:
    document = json.loads(JSON_FILE.read_text())
    kept = [each for each in document["cells"] if each["part"] == "caps"]
    fresh = {(each["name"], each["unit"]): each for each in cap_cells()}
    assert len(kept) == len(fresh)
    for each in kept:
        own = fresh[each["name"], each["unit"]]
        assert {name: each[name] for name in own} == own
    assert fill_tables(PAGE, tables_of(document)) == PAGE.read_text()


def test_people_who_weigh_as_one_row_have_the_noise_of_a_table_of_one_row_a_person() -> None:
    study = make_people_study("1", unit="row", max_rows_per_person=1)
    noise = expected_moments(study, calibrate(study), [10_000]).noise.entry.deviation
    alike = [each["noise"] for each in cap_cells() if each["unit"] == "c = 1"]
    assert alike == pytest.approx([noise] * 2, rel=0.005)


def test_intervals_of_the_committed_record_cover_as_often_as_they_should() -> None:
    cells = [e for e in json.loads(JSON_FILE.read_text())["cells"] if e["part"] == "coverage"]
    assert {each["name"] for each in cells} >= {"one-row", "half"}
    for each in cells:
        assert each["releases"] == people.RELEASES
        assert each["pooled"] >= 0.935
        own = [each[name] for name in each if name.startswith(("OLS", "correlation"))]
        assert min(value for value in own if value is not None) >= 0.93


def test_a_part_counts_intervals_of_every_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(people, "PART", 2)
    monkeypatch.setattr(people, "POPULATION", 3000)
    (cell,) = coverage_cells([cover(PeopleTrial("one-row", "c = 1, epsilon 50", 0))])
    assert cell["releases"] == 2
    assert all(0.5 <= cell[name] <= 1 for name in QUESTIONS)
