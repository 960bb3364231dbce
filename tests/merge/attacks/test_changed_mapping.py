"""A mapping that changes after consent, and words of a mapping on their way out."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dppca.owner.ledger.file import LATER, VERSION
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, policy_text

MAPPING = """\
missing: [-1]
attributes:
  age: Alter
  sex: {column: Geschlecht, recode: {Maennlein: Male, Weiblein: Female}, otherwise: Female}
"""
KILLED = -9


@pytest.fixture
def site(curator: Curator, tmp_path: Path) -> OwnerSite:
    site = make_enrolled_site(curator, tmp_path)
    rows = (site.folder / "rows.csv").read_text()
    changed = rows.replace("age", "Alter", 1).replace("sex", "Geschlecht", 1)
    changed = changed.replace("Female", "Weiblein").replace("Male", "Maennlein")
    (site.folder / "rows.csv").write_text(changed)
    (site.folder / "mapping.yaml").write_text(MAPPING)
    policy = policy_text({"survey": "path: rows.csv, mapping: mapping.yaml"})
    (site.folder / "policy.yaml").write_text(policy)
    return site


def version_of(site: OwnerSite) -> int:
    with closing(sqlite3.connect(site.folder / "ledger.sqlite")) as direct:
        return int(direct.execute("PRAGMA user_version").fetchone()[0])


def test_a_mapping_that_changed_after_its_reservation_is_refused(
    curator: Curator, site: OwnerSite
) -> None:
    study = curator.begin(site.name)
    assert version_of(site) == VERSION
    assert site.contribute(study, die_at="reserve")[0] == KILLED
    assert version_of(site) == LATER
    (reserved,) = site.history.reservations
    assert len(reserved.request.reading_sha256) == 64
    for changed in (
        MAPPING.replace("Weiblein: Female", "Weiblein: Male"),
        MAPPING.replace("-1", "30"),
        "attributes: {age: Alter, sex: Geschlecht}\n",
    ):
        (site.folder / "mapping.yaml").write_text(changed)
        code, message = error_of(site.contribute(study))
        assert (code, len(site.history.commitments)) == (10, 0), message
        assert "has changed since" in message
    (site.folder / "mapping.yaml").write_text("# as it was\n" + MAPPING)
    code, document = site.contribute(study)
    assert code == 0
    assert "Maennlein" not in json.dumps(document)
    consent = json.loads((site.folder / "studies" / study.name / "consent.json").read_text())
    assert consent["reading_sha256"] == reserved.request.reading_sha256
    assert "Maennlein is Male" in json.dumps(consent["facts"])
    kept = (path for path in curator.state.rglob("*") if path.is_file())
    words = (b"Maennlein", b"Geschlecht", reserved.request.reading_sha256.encode())
    for path in kept:
        assert not any(word in path.read_bytes() for word in words), path


def test_review_says_where_attributes_come_from_and_what_differs_from_the_last_release(
    curator: Curator, site: OwnerSite
) -> None:
    first, second = curator.begin(site.name), curator.begin(site.name)
    assert site.contribute(first)[0] == 0
    code, document = site.run("review", second.name)
    assert (code, document["read_otherwise"]) == (0, None)
    assert document["coded_by_rule"]["mapping"][0] == "age is column Alter, as it is"
    swapped = MAPPING.replace("Maennlein: Male", "Maennlein: Female")
    (site.folder / "mapping.yaml").write_text(swapped)
    assert site.run("review", second.name)[1]["read_otherwise"] == first.name
