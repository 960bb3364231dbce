"""Owners and openers that die between any two steps, and curators that are not there."""

from decimal import Decimal
from pathlib import Path

import pytest

from dppca.common.kernel.study import Study
from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from tests.support.curator import Curator
from tests.support.federations import MaskedFederation, identity_of, make_masked_federation
from tests.support.sites import OwnerSite, error_of, make_enrolled_site, make_trained_site

STEPS = ["fetch", "read", "reserve", "draw", "store", "commit", "send", "acknowledge"]
KILLED = -9


def _has_come(curator: Curator, study: Study) -> bool:
    return bool(curator.operator().result(study, wait_s=0).contributed)


@pytest.mark.parametrize("step", STEPS)
def test_an_owner_killed_after_a_step_sends_the_same_bytes_for_one_charge(
    curator: Curator, site: OwnerSite, step: str
) -> None:
    study = curator.begin(site.name, "absent")
    code, _ = site.contribute(study, die_at=step)
    assert code == KILLED
    died = site.history
    assert bool(died.reservations) == (step not in ("fetch", "read"))
    assert bool(died.commitments) == (step in ("commit", "send", "acknowledge"))
    assert _has_come(curator, study) == (step == "acknowledge")

    code, done = site.contribute(study)
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
        code, failed = site.run("contribute", "down", "--wait", "0")
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
    assert site.contribute(study)[0] == 0
    ledger = site.folder / "ledger.sqlite"
    content = ledger.read_bytes()
    assert content.count(b'"budget_epsilon":"3"') == 1
    ledger.write_bytes(content.replace(b'"budget_epsilon":"3"', b'"budget_epsilon":"9"'))
    for arguments in (["budget"], ["contribute", "tampered-too", "--yes"]):
        code, failed = site.run(*arguments)
        assert (code, failed["error"]["class"]) == (31, "LedgerCorruptError")
        assert "entry 1" in failed["error"]["message"]


TRAIN = ("train", "site-test", "--target", "ill", "--yes", "--method")
ASK = (*TRAIN, "dp-svm", "--epsilon", "1")
STORED = ("commit", "write")


@pytest.mark.parametrize("step", ["read", "reserve", "draw", "store", "commit", "write"])
def test_a_file_is_charged_once_and_never_drawn_again_once_it_is_stored(
    tmp_path: Path, step: str
) -> None:
    site, _ = make_trained_site(tmp_path / "site", budget='epsilon: "10", delta: "0"')
    before = set(site.folder.rglob("*"))
    assert site.run(*ASK, die_at=step)[0] == KILLED
    died = site.history
    charged = died.total("survey")
    assert bool(charged.epsilon + charged.rho) == (step != "read")
    assert bool(died.commitments) == (step in STORED)
    made_by_now = {path.name.partition(".")[0] for path in {*site.folder.rglob("*")} - before}
    assert made_by_now <= {"ledger"}, "a journal at most"

    code, made = site.run(*ASK)
    assert (code, made["already_stored"]) == (0, step in STORED)
    after = site.history
    assert after.total("survey").epsilon == Decimal(1)
    assert step == "read" or after.total("survey") == charged
    assert len(after.reservations) == len(after.commitments) == 1
    if died.commitments:
        assert after.commitments == died.commitments
    content = Path(made["model"]).read_bytes()

    code, again = site.run(*ASK)
    assert (code, again["already_stored"]) == (0, True)
    assert Path(again["model"]).read_bytes() == content
    assert site.history == after


NOT_READY = 50
OPENER_STEPS = ["fetch", "check", "store", "open", "destroy", "send", "acknowledge"]
OPENED = OPENER_STEPS[OPENER_STEPS.index("open") :]
KEPT = OPENER_STEPS[: OPENER_STEPS.index("destroy")]


def _sums(site: OwnerSite) -> list[object]:
    kept = load_site(site.folder)
    with open_ledger(kept.ledger, lock=kept.lock) as ledger:
        openers = ledger.history().openers.items()
        return [ledger.sums(key_id) for key_id, each in openers if each.opening is not None]


def _openings(site: OwnerSite) -> list[object]:
    return [each.opening for each in site.history.openers.values() if each.opening is not None]


def _finish(federation: MaskedFederation) -> None:
    name = federation.study.name
    for site in federation.openers:
        code, document = site.run("open", name)
        assert code == 0, document
        assert site.opener_keys == ()
        assert len(site.history.charges) == 1
    assert federation.terms.spares or all(_openings(site) for site in federation.openers)
    assert federation.end() == "decomposed"
    assert federation.sites[-1].run("components", name)[0] == 0


@pytest.mark.parametrize("step", OPENER_STEPS)
def test_an_opener_killed_after_a_step_opens_once_and_keeps_no_key(
    federation: MaskedFederation, step: str
) -> None:
    federation.contribute()
    site = federation.openers[0]
    assert site.run("open", federation.study.name, die_at=step)[0] == KILLED
    died = _openings(site)
    assert bool(died) == (step in OPENED)
    assert bool(site.opener_keys) == (step in KEPT)
    sums = _sums(site)
    if step == "open":  # any command of the site destroys the key; reading the sums was one
        assert site.opener_keys == ()
    _finish(federation)
    if died:
        assert _openings(site) == died
        assert _sums(site) == sums


@pytest.mark.parametrize("step", ["check", "store", "vote"])
def test_a_vote_that_was_cut_off_is_made_again_for_the_same_set(
    curator: Curator, tmp_path: Path, step: str
) -> None:
    federation = make_masked_federation(curator, tmp_path, 4, n_openers=4, spares=1)
    federation.contribute()
    name, site = federation.study.name, federation.openers[0]
    assert site.run("open", name, die_at=step)[0] == KILLED
    voted = [each.vote for each in site.history.openers.values()]
    assert (voted != [None]) == (step == "vote")
    for each in federation.openers[:2]:
        assert error_of(each.run("open", name))[0] == NOT_READY
    if step == "vote":
        assert [each.vote for each in site.history.openers.values()] == voted
    assert federation.openers[2].run("open", name)[0] == 0
    _finish(federation)


@pytest.mark.parametrize("step", ["store", "offer"])
def test_an_offer_that_was_cut_off_is_never_told_and_made_anew(step: str, site: OwnerSite) -> None:
    assert site.run("identity", "a-study", "--opener", die_at=step)[0] == KILLED
    assert site.opener_keys == ()
    told = identity_of(site, "a-study", opener=True)["opener"]
    assert told is not None
    assert site.opener_keys == (told["key_id"],)
    assert len(site.history.openers) == (2 if step == "offer" else 1)
