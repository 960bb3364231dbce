"""What the noise of a study allows for its numbers, and for trees."""

import pytest

from dppca.common.analysis.rows.refinement import plan_rounds
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study
from dppca.curator.planning.proposals import (
    BENDS,
    SIZES,
    Course,
    NumbersProposal,
    advise_course,
    propose_numbers,
    with_bins,
)
from tests.support.studies import binary_of, categorical_of, make_study, numeric_of

WIDE = [
    *(numeric_of(name, 0, 10) for name in "abc"),
    numeric_of("hours", 1, 99, integer=True),
    numeric_of("visits", 0, 6, integer=True),
    numeric_of("money", 0, 1000, integer=True, score="log", spikes=[0], histogram=True),
    {"name": "pain", "type": "ordinal", "levels": ["none", "some", "much"]},
    categorical_of("place", ["x", "y", "z"]),
    binary_of("ill", ["no", "yes"]),
]


def _study(epsilon: str, attributes: list[dict[str, object]] = WIDE) -> Study:
    privacy = {"mechanism": "gaussian", "epsilon": epsilon, "delta": "1e-9"}
    return make_study(attributes, owners=["one", "two"], privacy=privacy, sum_weight=0.5)


def _proposal(epsilon: str, rows: int) -> NumbersProposal:
    study = _study(epsilon)
    found = propose_numbers(study.table, calibrate(study), owner_rows=[rows, rows])
    assert found is not None
    return found


@pytest.mark.parametrize("rows", [300, 3_000, 30_000, 300_000])
def test_bins_are_the_most_that_the_noise_allows(rows: int) -> None:
    found = _proposal("1", rows)
    size = found.bins.get("a", 0)
    assert size in (0, *SIZES)
    assert size**3 * found.noise <= BENDS * found.rows
    finer = next((each for each in SIZES if each > size), None)
    if finer is not None and size:
        assert finer**3 * found.noise > BENDS * found.rows


def test_more_rows_or_a_larger_epsilon_never_mean_fewer_bins() -> None:
    sizes = [_proposal(epsilon, 12_000).bins.get("a", 0) for epsilon in ("0.1", "1", "3", "20")]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) > 2
    assert sizes[0] == 0
    assert _proposal("1", 10**6).bins["a"] == SIZES[-1]


def test_whole_numbers_have_a_bin_each_or_a_histogram_and_labels_are_left_alone() -> None:
    little, much = _proposal("1", 12_000), _proposal("8", 60_000)
    assert little.bins["visits"] == much.bins["visits"] == 7
    assert "hours" in little.histograms
    assert much.bins["hours"] == 99
    assert much.bins["money"] == much.bins["a"]  # it has a spike for its heap
    assert "pain" in much.histograms
    assert not {"place", "ill"} & {*much.bins, *much.histograms}


def test_a_study_that_follows_the_proposal_is_told_so() -> None:
    study, found = _study("1"), _proposal("1", 12_000)
    assert not found.as_written
    followed = with_bins(study.table, found.bins)
    again = propose_numbers(followed, calibrate(study), owner_rows=[12_000, 12_000])
    assert again is not None
    assert again.as_written
    assert again.bins == found.bins


def test_edges_and_bounds_that_a_study_gives_are_kept() -> None:
    study = _study("20", [numeric_of("a", 0, 10, bins=[1, 4]), binary_of("ill", ["no", "yes"])])
    found = propose_numbers(study.table, calibrate(study), owner_rows=[10**6, 10**6])
    assert found is not None
    assert found.bins == {"a": 3}
    kept = with_bins(study.table, found.bins).attributes[0].model_dump()
    assert (kept["bins"], kept["lower"], kept["upper"]) == ((1, 4), 0, 10)


def test_nothing_is_proposed_without_numbers() -> None:
    study = _study("1", [binary_of(name, ["no", "yes"]) for name in ("p", "q")])
    assert propose_numbers(study.table, calibrate(study), owner_rows=[9, 9]) is None


def test_there_is_room_for_trees_as_the_noise_falls() -> None:
    courses = []
    for epsilon in ("0.1", "1", "8"):
        study = _study(epsilon)
        requested = calibrate(study)
        rounds = plan_rounds(study, requested, n_rows=12_000)
        courses.append(advise_course(study.table, requested, rounds, owner_rows=[6_000, 6_000]))
    assert courses == [Course.ONE, Course.ROUNDS, Course.BOTH]
