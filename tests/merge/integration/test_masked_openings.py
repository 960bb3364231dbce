"""Openings by the steward's command, with a real curator."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import pytest

from dppca.common.aggregation.sum_messages import SealedSet
from dppca.common.errors import ConsentError
from dppca.common.wire import federation_pb2 as pb
from dppca.owner.commands.opening import open_sum
from dppca.owner.site.config import load_site
from dppca.owner.site.opener_keys import list_opener_keys
from tests.support.curator import Curator, far_moment
from tests.support.federations import MaskedFederation, identity_of, make_masked_federation
from tests.support.sites import OwnerSite, error_of

SETTING, MISMATCH, REFUSED, PERMISSION, STATE, NOT_READY = 10, 12, 26, 42, 44, 50


def _open(
    site: OwnerSite, federation: MaskedFederation, *options: str
) -> tuple[int, dict[str, object]]:
    return site.run("open", federation.study.name, *options)


def _keys(site: OwnerSite) -> tuple[str, ...]:
    return list_opener_keys(site.folder / "openers")


def _kinds(site: OwnerSite) -> list[str]:
    direct = sqlite3.connect(site.folder / "ledger.sqlite")
    rows = direct.execute("SELECT document FROM entries ORDER BY sequence").fetchall()
    direct.close()
    return [json.loads(document)["kind"] for (document,) in rows]


def _opened(federation: MaskedFederation) -> None:
    federation.contribute()
    for site in federation.openers:
        code, document = _open(site, federation)
        assert code == 0, document


def _require_stoppable(site: OwnerSite, federation: MaskedFederation) -> None:
    """Nothing is destroyed or sent where that is not agreed to."""
    asked: list[SealedSet | None] = []

    def refuse(shown: SealedSet | None) -> None:
        asked.append(shown)
        raise ConsentError("stopped")

    before, state, name = _kinds(site), federation.state(), federation.study.name
    with pytest.raises(ConsentError, match="stopped"):
        open_sum(load_site(site.folder), name, digest=None, wait_s=0.0, agree_to=refuse)
    assert asked == [None]
    assert (_kinds(site), federation.state()) == (before, state)


def test_a_sum_is_not_sent_again_after_a_stop(federation: MaskedFederation) -> None:
    federation.contribute()
    site, other = federation.openers
    assert _open(other, federation)[0] == 0
    site.run("open", federation.study.name, die_at="open")
    _require_stoppable(site, federation)
    assert federation.state() == "sealed"


def test_an_aborted_study_takes_the_key_with_it_but_not_after_a_stop(
    curator: Curator, federation: MaskedFederation
) -> None:
    site = federation.openers[0]
    federation.contribute(site)
    aborted = pb.AbortStudyRequest(name=federation.study.name, reason="a test")
    curator.operator().admin.AbortStudy(aborted)
    _require_stoppable(site, federation)
    assert len(_keys(site)) == 1
    code, message = error_of(_open(site, federation))
    assert (code, "destroyed" in message) == (STATE, True)
    assert _keys(site) == ()


def test_two_openers_finish_a_study_and_their_keys_are_gone(federation: MaskedFederation) -> None:
    *others, last = federation.sites
    federation.contribute(*others)
    first, second = federation.openers
    code, message = error_of(_open(first, federation, "--wait", "1"))
    assert (code, last.name in message, len(_keys(first))) == (NOT_READY, True, 1)
    federation.contribute(last)
    assert federation.state() == "sealed"
    assert error_of(_open(first, federation, "--digest", "0" * 64))[0] == MISMATCH
    code, document = _open(first, federation, "--digest", federation.study.digest)
    assert (code, document["owners"], document["state"]) == (0, 3, "sealed")
    assert error_of(_open(federation.sites[-1], federation))[0] == PERMISSION
    opened = first.history
    code, again = _open(first, federation)
    assert (code, again["already_stored"], again["streams"]) == (0, True, [])
    code, message = error_of(federation.sites[-1].run("components", federation.study.name))
    assert code == NOT_READY
    assert f"still waits for its openers ({second.name}):" in message
    assert len(document["streams"]) == 1  # type: ignore[arg-type]
    code, document = _open(second, federation)
    assert (code, document["owners"]) == (0, 3)
    assert federation.end() == "decomposed"
    for site in federation.openers:
        assert _keys(site) == ()
        assert _kinds(site) == ["offer", "reserve", "commit", "sent", "open", "opened"]
        assert len(site.history.charges) == 1
    code, again = _open(first, federation)
    assert (code, again["state"], again["owners"]) == (0, "decomposed", 3)
    assert first.history == opened
    code, found = federation.sites[-1].run("components", federation.study.name)
    assert (code, found["contributed"]) == (0, sorted(each.name for each in federation.sites))


def test_an_opener_whose_ledger_was_lost_opens_nothing(federation: MaskedFederation) -> None:
    federation.contribute(*federation.sites[1:])
    site = federation.openers[0]
    for name in ("ledger.sqlite", "ledger.mark"):
        (site.folder / name).unlink(missing_ok=True)
    federation.contribute(site)
    code, message = error_of(_open(site, federation))
    assert code == REFUSED
    assert "ledger does not know the opener key" in message
    assert federation.state() == "sealed"


def test_an_opener_that_took_no_part_opens_once_it_has_verified_the_keys(
    movable: Curator, tmp_path: Path
) -> None:
    federation = make_masked_federation(movable, tmp_path, 4, quorum=3, deadline=far_moment())
    first, second = federation.openers
    federation.contribute(second, *federation.sites[2:])
    assert error_of(_open(first, federation))[0] == SETTING
    movable.move_clock()
    code, document = _open(first, federation, "--digest", federation.study.digest, "--wait", "300")
    assert (code, document["owners"]) == (0, 3)
    assert first.history.charges == ()
    assert _open(second, federation)[0] == 0
    assert federation.end() == "decomposed"


def test_identity_gives_the_same_key_until_it_was_used(federation: MaskedFederation) -> None:
    site, name = federation.openers[0], federation.study.name
    first = identity_of(site, name, opener=True)
    assert first["opener"]["key_id"] == next(iter(site.history.openers))
    assert identity_of(site, name, opener=True) == first
    assert (
        identity_of(site, "another-study", opener=True)["opener"]["key"] != first["opener"]["key"]
    )
    _opened(federation)
    again = identity_of(site, name, opener=True)
    assert again["opener"]["key"] != first["opener"]["key"]
    assert _keys(site) == tuple(
        sorted(key_id for key_id, record in site.history.openers.items() if record.opening is None)
    )


@pytest.mark.parametrize("gone", [0, 3])
def test_with_a_spare_any_one_opener_may_be_gone(
    curator: Curator, tmp_path: Path, gone: int
) -> None:
    federation = make_masked_federation(curator, tmp_path, 4, n_openers=4, spares=1)
    federation.contribute()
    there = [site for place, site in enumerate(federation.openers) if place != gone]
    for site in there[:2]:
        code, message = error_of(_open(site, federation))
        assert code == NOT_READY
        assert federation.openers[gone].name in message
        assert len(_keys(site)) == 1
    for site in (there[2], *there[:2]):
        code, document = _open(site, federation)
        assert code == 0, document
        assert _keys(site) == ()
    assert federation.end() == "decomposed"
    late = federation.openers[gone]
    code, document = _open(late, federation)
    assert (code, document["owners"], document["state"]) == (0, None, "decomposed")
    assert _keys(late) == ()


def _findings(site: OwnerSite, area: str) -> list[tuple[str, str]]:
    _, document = site.run("doctor")
    assert document is not None
    return [
        (each["state"], each["message"]) for each in document["findings"] if each["area"] == area
    ]


def test_doctor_says_what_waits_for_an_opener_and_when_it_cannot_open(
    federation: MaskedFederation,
) -> None:
    first, second = federation.openers
    assert _findings(first, "opener") == []
    assert [state for state, _ in _findings(first, "ledger")] == ["ok"], "none is charged yet"
    federation.contribute()
    ((state, message),) = _findings(first, "opener")
    assert (state, f"dppca-owner open {federation.study.name}" in message) == ("warning", True)
    (key_id,) = _keys(second)
    (second.folder / "openers" / f"{key_id}.key").unlink()
    ((state, message),) = _findings(second, "opener")
    assert (state, "not here any more" in message) == ("broken", True)
    code, message = error_of(_open(second, federation))
    assert (code, "Tell the operator" in message) == (REFUSED, True)
    assert _open(first, federation)[0] == 0
    assert _findings(first, "opener") == []
    (first.folder / "peers.yaml").write_text("peers: {owner-1: no-key}")
    ((state, _),) = _findings(first, "peers")
    assert state == "broken"
