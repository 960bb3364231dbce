"""Openers that die between any two steps: one opening, the same bytes, no key that outlives it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dppca.owner.ledger.database import open_ledger
from dppca.owner.site.config import load_site
from dppca.owner.site.opener_keys import list_opener_keys
from tests.support.curator import Curator
from tests.support.federations import MaskedFederation, identity_of, make_masked_federation
from tests.support.sites import OwnerSite, error_of

KILLED, NOT_READY = -9, 50
STEPS = ["fetch", "check", "store", "open", "destroy", "send", "acknowledge"]
OPENED = STEPS[STEPS.index("open") :]
KEPT = STEPS[: STEPS.index("destroy")]


def _keys(site: OwnerSite) -> tuple[str, ...]:
    return list_opener_keys(site.folder / "openers")


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
        assert _keys(site) == ()
        assert len(site.history.charges) == 1
    assert federation.terms.spares or all(_openings(site) for site in federation.openers)
    assert federation.end() == "decomposed"
    assert federation.sites[-1].run("components", name)[0] == 0


@pytest.mark.parametrize("step", STEPS)
def test_an_opener_killed_after_a_step_opens_once_and_keeps_no_key(
    federation: MaskedFederation, step: str
) -> None:
    federation.contribute()
    site = federation.openers[0]
    assert site.run("open", federation.study.name, die_at=step)[0] == KILLED
    died = _openings(site)
    assert bool(died) == (step in OPENED)
    assert bool(_keys(site)) == (step in KEPT)
    sums = _sums(site)
    if step == "open":  # any command of the site destroys the key; reading the sums was one
        assert _keys(site) == ()
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
    assert _keys(site) == ()
    told = identity_of(site, "a-study", opener=True)["opener"]
    assert told is not None
    assert _keys(site) == (told["key_id"],)
    assert len(site.history.openers) == (2 if step == "offer" else 1)
