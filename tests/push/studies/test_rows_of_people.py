"""A study of people: how many rows somebody has shows nowhere but in the noised numbers."""

import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pytest

from dppca.common.kernel.errors import DataError, SettingError, TooManyRowsError
from dppca.common.kernel.study import Study
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from dppca.owner.site.consents import kept_consent
from tests.support.census import census_rows
from tests.support.curator import Curator
from tests.support.noise import seed_noise
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

N_PEOPLE = 40
_RANDOM = re.compile(r"[0-9a-f]{16,}|study-[0-9a-f]{8}|owner-[0-9a-f]{12}")
_TIMES = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?|\d+\.\d+(e-\d+)?")

_LATENCY = re.compile(r"\b(seconds|ms|duration\w*|elapsed\w*)=\S+")


def rows_of_people(most: int) -> pa.Table:
    """The rows of one person are ``most``, equal; the others have one each."""
    rows = census_rows(N_PEOPLE)
    people = pa.array([f"P{n}" for n in range(N_PEOPLE)])
    once = rows.append_column("person", people)
    return pa.concat_tables([once, *[once.slice(0, 1)] * (most - 1)])


def site_of_people(curator: Curator, folder: Path, most: int) -> OwnerSite:
    folder.mkdir()
    budget = 'epsilon: "1000", delta: "0"'
    site = make_enrolled_site(curator, folder, rows=rows_of_people(most), budget=budget)
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace("path: rows.csv", "path: rows.csv, key: person"))
    return site


def begin(curator: Curator, site: OwnerSite, **changes: Any) -> Study:
    return curator.begin(site.name, "absent", unit="person", max_rows_per_person=None, **changes)


def plain(value: object) -> str:
    """A document without what is drawn, and without times."""
    text = json.dumps(value, sort_keys=True, default=str)
    return _TIMES.sub("TIME", _RANDOM.sub("RANDOM", text))


def test_receipt_store_and_answers_are_those_of_another_number_of_rows(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, payloads = [], []
    for most in (1, 2, 1560):
        site = site_of_people(curator, tmp_path / f"{most}", most)
        study = begin(curator, site)
        seed_noise(monkeypatch, seed=5)
        code, sent = site.contribute(study)
        assert (code, sent["rows"], sent["counts"]) == (0, N_PEOPLE, "people")
        with open_ledger(site.folder / "ledger.sqlite", lock=site.folder / "site.lock") as ledger:
            stored = ledger.stored(study.digest)
        payloads.append(stored.payload)
        receipt = json.loads(stored.receipt)
        status = curator.operate("study", "status", study.name)
        kept = json.loads(Path(sent["acknowledgement"]).read_bytes())
        del sent["coded_by_rule"], sent["acknowledgement"]  # the site's own: counts of its rows
        log = curator.log.read_text().splitlines()
        own = [_LATENCY.sub("", line) for line in log if study.name in line or site.name in line]
        seen.append(plain([receipt, status, sorted(kept), sent, own]))
        assert '"relation": "replace-person"' in seen[-1]
    assert len(set(seen)) == 1
    assert payloads[0] == payloads[1] == payloads[2], "equal rows of a person weigh as one of them"


@pytest.mark.parametrize("neighbours", ["replaced", "added"])
def test_people_who_weigh_as_several_rows_leave_no_number_of_rows_or_people(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, neighbours: str
) -> None:
    seed_noise(monkeypatch, seed=1)
    site = site_of_people(curator, tmp_path / "site", 60)
    capped = {"rows_counted": 3, "neighbours": neighbours, "epsilon": "500"}
    study = curator.begin(site.name, unit="person", max_rows_per_person=None, **capped)
    code, reviewed = site.run("review", study.name)
    assert (code, reviewed["counts"]) == (0, "weighted rows")
    assert (reviewed["rows"], reviewed["secret_rows"]) == (None, N_PEOPLE + 2)
    assert "noised numbers on a secret number of weighted rows, " in reviewed["question"]
    code, sent = site.contribute(study)
    assert (code, sent["rows"]) == (0, 0)
    kept = kept_consent(load_site(site.folder), study.name, study.digest)
    assert kept is not None
    facts = dict(kept.facts)
    assert facts["From"].startswith("a secret number of weighted rows of data set")
    assert not re.search(rf"\b{N_PEOPLE + 2}\b", json.dumps(facts))
    code, found = site.run("components", study.name, "--wait", "60")
    assert code == 0
    assert abs(found["rows"] - (N_PEOPLE + 2)) <= 2


def test_a_study_of_people_comes_to_a_result_that_verifies_and_answers(
    curator: Curator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seed_noise(monkeypatch, seed=1)
    site = site_of_people(curator, tmp_path / "site", 60)
    study = curator.begin(
        site.name, unit="person", max_rows_per_person=None, epsilon="500", covariance="pooled"
    )
    assert site.contribute(study)[0] == 0
    code, found = site.run("components", study.name, "--wait", "60")
    assert (code, found["rows"]) == (0, N_PEOPLE)
    made = site.folder / "studies" / study.name
    result = str(next(made.glob("components*.npz")))
    code, verified = site.run("verify", result)
    guarantee = verified["guarantee"]
    assert (code, guarantee["relation"]) == (0, "replace-person")
    assert guarantee["max_rows_per_person"] is None
    code, answers = site.run("estimate", result, "mean", "age")
    assert code == 0
    assert "a random row of a random person" in json.dumps(answers)


def test_a_site_with_room_for_its_people_takes_part_however_many_rows_they_have(
    curator: Curator, tmp_path: Path
) -> None:
    site = site_of_people(curator, tmp_path / "site", 60)
    full = begin(curator, site, max_rows=2 * N_PEOPLE - 1)  # of two owners
    reviewed, contributed = site.run("review", full.name)[0], error_of(site.contribute(full))
    assert reviewed == contributed[0] == TooManyRowsError.exit_code
    assert f"this site has {N_PEOPLE} people" in contributed[1]
    assert not site.history.charges
    assert site.contribute(begin(curator, site, max_rows=2 * N_PEOPLE))[0] == 0


@pytest.mark.parametrize(
    ("lines", "error", "says"),
    [
        ("", SettingError, "name the column of"),
        ("key: nobody", DataError, "has no column nobody"),
        ("key: work", None, ""),
    ],
)
def test_people_without_a_key_are_refused_before_a_charge(
    curator: Curator, tmp_path: Path, lines: str, error: Any, says: str
) -> None:
    site = site_of_people(curator, tmp_path / "site", 3)
    policy = site.folder / "policy.yaml"
    policy.write_text(policy.read_text().replace(", key: person", f", {lines}" if lines else ""))
    study = begin(curator, site)
    checked, contributed = site.run("check", study.name), site.contribute(study)
    if error is None:
        assert checked[1]["coded_by_rule"]["key"]["people"] == contributed[1]["rows"] == 3
        return
    for answer in (checked, contributed):
        code, message = error_of(answer)
        assert code == error.exit_code
        assert says in message
    assert not site.history.charges


def test_a_row_without_a_key_stops_before_a_charge_and_check_says_so(
    curator: Curator, tmp_path: Path
) -> None:
    site = site_of_people(curator, tmp_path / "site", 3)
    rows = site.folder / "rows.csv"
    rows.write_text(rows.read_text().replace('"P7"', '""'))
    study = begin(curator, site)
    for answer in (site.run("check", study.name), site.contribute(study)):
        code, message = error_of(answer)
        assert code == DataError.exit_code
        assert "nobody knows whose they are" in message
    assert not site.history.charges
