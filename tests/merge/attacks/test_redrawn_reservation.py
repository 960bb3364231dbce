"""A charge that was made, and whose release was never drawn, is drawn on other people's rows."""

from pathlib import Path

import pytest

from tests.support.curator import Curator
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, make_trained_site

KILLED, REFUSED, EXHAUSTED = -9, 10, 21
PATIENTS = 'patients: {who: Patients, epsilon: "3", delta: "0"}'
STAFF = 'staff: {who: Staff, epsilon: "0.1", delta: "0"}'
BEFORE = ([PATIENTS], ["survey: {population: patients, path: rows.csv}"])
EDITED = (
    [PATIENTS, STAFF],
    ["survey: {population: staff, path: staff.csv}", "old: {population: patients, path: rows.csv}"],
)
EDITS = {
    "the name, to other people": (
        ([PATIENTS, STAFF], ["survey: {population: staff, path: staff.csv}"]),
        REFUSED,
        "draws on population staff and lies at another place now",
    ),
    "the name, to other people, and the rows to another name": (
        EDITED,
        REFUSED,
        "put policy.yaml back",
    ),
    "the people": (
        ([PATIENTS, STAFF], ["survey: {population: staff, path: rows.csv}"]),
        REFUSED,
        "draws on population staff now",
    ),
    "the rows": (
        ([PATIENTS], ["survey: {population: patients, path: staff.csv}"]),
        REFUSED,
        "lies at another place now",
    ),
    "the budget": (
        ([PATIENTS.replace('"3"', '"0.5"')], BEFORE[1]),
        EXHAUSTED,
        "1 is spent, with the charge that was reserved",
    ),
}
SITE_TEST = ("site-test", "--data-set", "survey", "--epsilon", "1")
MODEL = ("train", *SITE_TEST, "--target", "ill", "--method", "dp-svm")


def _attack(site: OwnerSite, *asked: str, step: str) -> None:
    """Die after the reservation, edit the policy in each way, and ask again; then put it back."""
    (site.folder / "staff.csv").write_bytes((site.folder / "rows.csv").read_bytes())
    site.state_policy(*BEFORE)
    assert site.run(*asked, "--yes", die_at=step)[0] == KILLED
    died = site.history
    assert (len(died.reservations), len(died.commitments)) == (1, 0)
    for name, (policy, code, says) in EDITS.items():
        site.state_policy(*policy)
        refused, message = error_of(site.run(*asked, "--yes"))
        assert (refused, says in message) == (code, True), (name, message)
        assert site.history == died, name
    site.state_policy(*BEFORE)
    assert site.run(*asked, "--yes")[0] == 0
    assert len(site.history.reservations) == len(site.history.commitments) == 1


@pytest.mark.parametrize("step", ["reserve", "draw", "store"])
def test_a_contribution(curator: Curator, site: OwnerSite, step: str) -> None:
    study = curator.begin(site.name, "absent", epsilon="1")
    _attack(site, "contribute", study.name, step=step)


@pytest.mark.parametrize("step", ["reserve", "store"])
def test_a_model(tmp_path: Path, step: str) -> None:
    site, _ = make_trained_site(tmp_path / "site")
    _attack(site, *MODEL, step=step)


def test_a_review_says_it_and_the_rows_under_another_name_are_taken(
    curator: Curator, tmp_path: Path
) -> None:
    site = make_enrolled_site(curator, tmp_path)
    (site.folder / "staff.csv").write_bytes((site.folder / "rows.csv").read_bytes())
    site.state_policy(*BEFORE)
    study = curator.begin(site.name, "absent", epsilon="1")
    assert site.contribute(study, die_at="reserve")[0] == KILLED
    site.state_policy(*EDITED)
    code, reviewed = site.run("review", study.name)
    assert (code, "draws on population staff" in reviewed["refused"]) == (REFUSED, True)
    renamed = "crew: {population: staff, path: staff.csv}", EDITED[1][1]
    site.state_policy([PATIENTS, STAFF], [*renamed])
    code, done = site.contribute(study)
    assert (code, done["population"]) == (0, "patients")
    assert (site.history.total("patients").epsilon, site.history.total("staff").epsilon) == (1, 0)
