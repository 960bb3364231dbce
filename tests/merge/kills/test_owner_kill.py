"""Owners that die between any two steps of a release, and curators that are not there."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from dppca.common.study import Study
from tests.support.curator import Curator
from tests.support.sites import OwnerSite, make_enrolled_site

STEPS = ["fetch", "read", "reserve", "draw", "store", "commit", "send", "acknowledge"]
KILLED = -9


def _has_come(curator: Curator, study: Study) -> bool:
    return bool(curator.operator().result(study, wait_s=0).contributed)


@pytest.mark.parametrize("step", STEPS)
def test_an_owner_killed_after_a_step_sends_the_same_bytes_for_one_charge(
    curator: Curator, site: OwnerSite, step: str
) -> None:
    study = curator.begin(site.name, "absent")
    code, _ = site.run("contribute", study.name, "--yes", die_at=step)
    assert code == KILLED
    died = site.history
    assert bool(died.reservations) == (step not in ("fetch", "read"))
    assert bool(died.commitments) == (step in ("commit", "send", "acknowledge"))
    assert _has_come(curator, study) == (step == "acknowledge")

    code, done = site.run("contribute", study.name, "--yes")
    assert code == 0
    assert done["already_stored"] == (step == "acknowledge")
    after = site.history
    assert after.total("survey").epsilon == Decimal("1.0")
    assert len(after.deliveries) == len(after.commitments) == 1
    kept = after.commitment_for(study.digest)
    assert kept is not None
    if died.commitments:
        assert died.commitment_for(study.digest) == kept

    code, again = site.run("contribute", study.name)
    assert (code, again["already_stored"]) == (0, True)
    assert again["release_id"] == done["release_id"]
    assert site.history == after
    assert _has_come(curator, study)


def test_a_curator_that_is_down_costs_one_charge_and_the_same_bytes_later(tmp_path: Path) -> None:
    curator = Curator(tmp_path / "hub").start()
    try:
        site = make_enrolled_site(curator, tmp_path, name="owner-1")
        study = curator.begin(site.name, "absent", name="down")
        assert site.run("contribute", "down", "--yes", die_at="commit")[0] == KILLED
        kept = site.history.commitment_for(study.digest)
        curator.kill()
        code, failed = site.run("contribute", "down")
        assert (code, failed["error"]["class"]) == (40, "UnreachableError")
        curator.start()
        settings = site.folder / "site.yaml"
        settings.write_text(f'name: owner-1\ncurator: "{curator.address}"\n')
        assert site.run("contribute", "down")[0] == 0
        history = site.history
        assert history.commitment_for(study.digest) == kept
        assert history.total("survey").epsilon == Decimal("1.0")
    finally:
        curator.stop()


def test_entries_that_are_changed_stop_every_further_release(
    curator: Curator, site: OwnerSite
) -> None:
    study = curator.begin(site.name, "absent")
    curator.begin(site.name, "absent", name="tampered-too")
    assert site.run("contribute", study.name, "--yes")[0] == 0
    ledger = site.folder / "ledger.sqlite"
    content = ledger.read_bytes()
    assert content.count(b'"budget_epsilon":"3"') == 1
    ledger.write_bytes(content.replace(b'"budget_epsilon":"3"', b'"budget_epsilon":"9"'))
    for arguments in (["budget"], ["contribute", "tampered-too", "--yes"]):
        code, failed = site.run(*arguments)
        assert (code, failed["error"]["class"]) == (31, "LedgerCorruptError")
        assert "entry 1" in failed["error"]["message"]
