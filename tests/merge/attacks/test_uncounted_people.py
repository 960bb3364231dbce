"""Many rows of one person under a budget of people, which a study by row would not count."""

from pathlib import Path

import pyarrow.csv
import pytest

from dppca.owner.ledger.file import LATER
from tests.merge.attacks.test_changed_mapping import KILLED, version_of
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, policy_text

BUDGET = 'epsilon: "9", delta: "0", unit: person, neighbours: added'


@pytest.fixture
def site(curator: Curator, tmp_path: Path) -> OwnerSite:
    """A site whose rows have a person each, by ``visit``; by ``person`` all are of one."""
    site = make_enrolled_site(curator, tmp_path)
    rows = pyarrow.csv.read_csv(site.folder / "rows.csv")
    rows = rows.append_column("visit", pyarrow.array(range(len(rows))))
    rows = rows.append_column("person", pyarrow.array([7] * len(rows)))
    pyarrow.csv.write_csv(rows, site.folder / "rows.csv")
    return site


def state_key(site: OwnerSite, key: str) -> None:
    fields = "path: rows.csv" + (f", key: {key}" if key else "")
    (site.folder / "policy.yaml").write_text(policy_text({"survey": fields}, budget=BUDGET))


def test_rows_of_a_person_are_counted_by_one_column_before_any_charge(
    curator: Curator, site: OwnerSite
) -> None:
    study = curator.begin(site.name, neighbours="added")
    state_key(site, "")
    code, review = site.run("review", study.name)
    assert (code, "nobody counts how many rows" in str(review)) == (10, True)
    code, message = error_of(site.contribute(study))
    assert "data set survey has no key, so nobody counts how many rows" in message
    assert code == 10
    state_key(site, "person")
    assert "TOO MANY ROWS OF ONE PERSON" in error_of(site.contribute(study))[1]
    rows = (site.folder / "rows.csv").read_text()
    (site.folder / "rows.csv").write_text(rows.replace(",7\n", ",\n").replace(",\n", ",7\n", 1))
    assert "no person in 199 rows: nobody knows" in error_of(site.contribute(study))[1]
    assert "no person in 199 rows: nobody knows" in str(site.run("review", study.name))
    (site.folder / "rows.csv").write_text(rows)
    assert not site.entries
    state_key(site, "visit")
    assert site.contribute(study, die_at="reserve")[0] == KILLED
    assert version_of(site) == LATER
    assert [each.request.key for each in site.history.reservations] == ["visit"]
    state_key(site, "sex")
    assert "the key of data set survey was visit when" in error_of(site.contribute(study))[1]
    assert site.entries == ["reserve"]
    state_key(site, "visit")
    assert site.contribute(study)[0] == 0
    people = curator.begin(site.name, neighbours="added", unit="person", max_rows_per_person=None)
    state_key(site, "person")
    assert "was counted by visit: one person could count" in error_of(site.contribute(people))[1]
    assert len(site.history.reservations) == 1
    state_key(site, "visit")
    assert site.contribute(people)[0] == 0
