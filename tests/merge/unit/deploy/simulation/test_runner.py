"""The policy of a simulated site: its budget promises what the study does."""

from pathlib import Path
from typing import Any

import pytest

from dppca.common.kernel.privacy.promises import Promise, kept_promise
from dppca.common.kernel.privacy.release import calibrate
from dppca.deploy.simulation.runner import policy_text
from dppca.owner.site.config import load_site
from dppca.owner.site.enrolment import enrol
from dppca.owner.site.policy import load_policy
from tests.support.studies import make_study

PERSON: dict[str, Any] = {"unit": "person", "max_rows_per_person": None}
ADDED = {"neighbours": "added"}


@pytest.mark.parametrize(
    ("changes", "promise"),
    [
        ({}, Promise.ROWS_REPLACED),
        (PERSON, Promise.PEOPLE_REPLACED),
        (ADDED, Promise.PEOPLE_ADDED),
        (PERSON | ADDED, Promise.PEOPLE_ADDED),
    ],
)
def test_the_budget_of_a_site_promises_what_its_study_does(
    tmp_path: Path, changes: dict[str, Any], promise: Promise
) -> None:
    site = tmp_path / "site"
    enrol(site, name="owner-1", curator="hub.example:7443")
    study = make_study("small", **changes)
    text = policy_text([study], "rows.csv", key="person", colluders=None)
    (site / "policy.yaml").write_text(text)
    policy = load_policy(load_site(site))
    assert policy.data_set("rows").key == "person"
    (people,) = policy.populations
    assert people.promise is promise is kept_promise(calibrate(study).sensitivity.relation)
