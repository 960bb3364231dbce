"""One budget for the people, whatever a steward calls them: against a real curator."""

from __future__ import annotations

from pathlib import Path

from tests.support.curator import Curator
from tests.support.sites import OwnerSite, error_of, make_enrolled_site

PATIENTS = 'patients: {who: Secret people of ward 7, epsilon: "3", delta: "0"}'


def _state(site: OwnerSite, populations: list[str], data_sets: list[str]) -> None:
    lines = ["populations:", *(f"  {each}" for each in populations)]
    lines += ["data_sets:", *(f"  {each}" for each in data_sets)]
    (site.folder / "policy.yaml").write_text("\n".join([*lines, ""]))


def test_a_spent_budget_stays_spent_under_every_new_name(curator: Curator, site: OwnerSite) -> None:
    _state(site, [PATIENTS], ["survey: {population: patients, path: rows.csv}"])
    first, second = curator.begin(site.name, epsilon="2"), curator.begin(site.name, epsilon="2")
    code, reviewed = site.run("review", first.name)
    assert (code, reviewed["budget"]["population"]) == (0, "patients")
    code, done = site.run("contribute", first.name, "--yes")
    assert (code, done["population"], done["remaining"]) == (0, "patients", "1")
    for populations, data_set in (
        ([PATIENTS], "visits: {population: patients, path: ./rows.csv}"),
        ([PATIENTS.replace("patients", "people")], "visits: {population: people, path: rows.csv}"),
        ([PATIENTS.replace("patients", "people")], "survey: {population: people, path: moved.csv}"),
        ([PATIENTS], 'own: {path: rows.csv, epsilon: "3", delta: "0"}'),
    ):
        (site.folder / "moved.csv").write_bytes((site.folder / "rows.csv").read_bytes())
        _state(site, populations, [data_set])
        code, message = error_of(site.run("contribute", second.name, "--yes"))
        assert (code, "2 is spent; with this release it would be 4" in message) == (21, True)
    assert site.history.total("survey").epsilon == 2


def test_what_the_policy_says_of_people_stays_at_the_site(tmp_path: Path) -> None:
    curator = Curator(tmp_path).start()
    try:
        site = make_enrolled_site(curator, tmp_path)
        _state(site, [PATIENTS], ["hidden-survey: {population: patients, path: rows.csv}"])
        study = curator.begin(site.name, epsilon="1")
        assert site.run("contribute", study.name, "--yes")[0] == 0
    finally:
        curator.stop()  # so that its files are not moved while they are read
    ledger = (site.folder / "ledger.sqlite").read_bytes()
    assert b"Secret people" not in ledger
    assert b"rows.csv" not in ledger
    kept = [path for path in curator.state.rglob("*") if path.is_file()]
    assert kept
    for path in kept:
        content = path.read_bytes()
        assert not any(
            word in content for word in (b"Secret people", b"hidden-survey", b"patients")
        )
