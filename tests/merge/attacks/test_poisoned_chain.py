"""A thief of an owner's key says once that its ledger has more entries than it will ever have.

The curator then takes no contribution of the owner any more, with any key.
"""

from typing import Any
from unittest import mock

import pytest

from dppca.common.kernel.errors import SignatureError, UploadError
from dppca.common.kernel.study import Study
from dppca.curator.study.study_record import MAX_LEDGER_LENGTH
from tests.support.callers import refused
from tests.support.census import make_release
from tests.support.curator import Curator
from tests.support.party import Party
from tests.support.sites import OwnerSite

CHAIN = 48
WHY = "Key stolen on 3 May, certificate revoked."


@pytest.fixture
def thief(curator: Curator, site: OwnerSite) -> Party:
    """Has a certificate of the owner."""
    return curator.party(site.name)


def _poison(thief: Party, study: Study, length: int = MAX_LEDGER_LENGTH) -> None:
    assert thief.contribute(make_release(study), ledger_length=length).state


def _disown(site: OwnerSite, study: Study) -> tuple[int, Any]:
    ask = ("ledger", "recover", "--disown", study.name, "--reason", WHY, "--yes")
    return site.run(*ask)


@pytest.mark.parametrize("length", [(1 << 64) - 1, MAX_LEDGER_LENGTH + 1])
def test_a_ledger_longer_than_any_can_be_is_refused(
    curator: Curator, site: OwnerSite, thief: Party, length: int
) -> None:
    study = curator.begin(site.name, "absent")
    call = lambda: _poison(thief, study, length)  # noqa: E731
    assert refused(call) == ("INVALID_ARGUMENT", UploadError.__name__)
    assert site.contribute(study)[0] == 0


def test_after_settlement_at_both_ends_the_owner_contributes_again(
    curator: Curator, site: OwnerSite, thief: Party
) -> None:
    stolen, own = curator.begin(site.name, "absent"), curator.begin(site.name, "absent")
    _poison(thief, stolen)
    code, failed = site.contribute(own)
    assert code == CHAIN
    for words in (stolen.name, "this site's key", "revoke", "owner settle", "--disown"):
        assert words in failed["error"]["message"]
    settled = curator.operate("owner", "settle", site.name, "--reason", WHY)[1]
    assert (settled["by"], settled["reason"]) == ("operator:alice", WHY)
    assert settled["seen_length"] == MAX_LEDGER_LENGTH
    assert site.contribute(own)[0] == CHAIN, "the steward has not said that it was not the site's"
    assert _disown(site, stolen)[0] == 0
    assert site.contribute(own)[0] == 0
    assert [r.request.study for r in site.history.reservations] == [own.name]


def test_a_steward_who_disowns_needs_no_operator(
    curator: Curator, site: OwnerSite, thief: Party
) -> None:
    stolen, own = curator.begin(site.name, "absent"), curator.begin(site.name, "absent")
    _poison(thief, stolen)
    assert _disown(site, stolen)[0] == 0
    assert site.history.total("survey").epsilon == 0
    assert site.contribute(own)[0] == 0
    assert site.contribute(stolen)[0] == 44, "the study has a release in this owner's name"
    (settlement,) = curator.operate("owner", "show", site.name)[1]["settlements"]
    assert settlement["by"] == f"owner:{site.name}"
    assert settlement["seen_length"] == MAX_LEDGER_LENGTH
    budget = site.run("budget")[1]
    assert [each["reason"] for each in budget["disowned"]] == [WHY]


def test_a_chain_that_is_only_a_little_longer_is_found_before_anything_is_charged(
    curator: Curator, site: OwnerSite, thief: Party
) -> None:
    first, stolen, own = (curator.begin(site.name, "absent") for _ in range(3))
    assert site.contribute(first)[0] == 0
    before = site.history
    _poison(thief, stolen, before.length + 1)
    assert site.contribute(own)[0] == CHAIN
    assert site.contribute(first)[0] == CHAIN, "nothing at all is sent while it is locked"
    assert site.history == before
    assert _disown(site, stolen)[0] == 0
    assert site.contribute(own)[0] == 0
    assert site.contribute(first)[0] == 0


def test_what_no_signature_of_the_sites_authority_proves_is_charged_study_by_study(
    curator: Curator, site: OwnerSite, thief: Party
) -> None:
    study = curator.begin(site.name, "absent")
    _poison(thief, study)
    with mock.patch(
        "dppca.owner.client.recovery.open_release", side_effect=SignatureError("of another")
    ):
        assert site.run("ledger", "recover", "--data-set", "survey", "--yes")[0] == 10
        named = ("--data-set", f"{study.name}=survey")
        code, done = site.run("ledger", "recover", *named, "--yes")
    assert (code, done["recovered"][0]["unproved"]) == (0, "of another")
    assert site.history.total("survey").epsilon == 1
