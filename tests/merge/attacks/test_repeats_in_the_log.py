"""One owner repeats what is acknowledged: each call wrote a line of the curator's log.

A repeat has no effect, takes no byte, and was not limited: hundreds of lines a second, gigabytes a
day. Of one party and event there are 60 lines a minute now, and the next one says how many were
left out.
"""

import hashlib
import json
from collections.abc import Callable
from typing import Any

from dppca.common.kernel.documents.messages import Form, accounts_for
from dppca.common.wire import federation_pb2 as pb
from tests.support.census import arrow, decoded_rows, header_of, make_release
from tests.support.curator import Curator
from tests.support.federations import MaskedHub
from tests.support.party import Party, upload
from tests.support.patience import WAIT_S

CALLS = 200
MOST = 2 * 60
"""Lines of two minutes: the clock may pass from one to the next while a test runs."""


def lines(curator: Curator, event: str, party: str) -> list[dict[str, Any]]:
    """What the log has of an event and an owner; a call is logged before it is answered."""
    found = map(json.loads, curator.log.read_text().splitlines())
    return [
        each
        for each in found
        if each["event"] == event and party in (each.get("owner"), each.get("opener"))
    ]


def require_few(curator: Curator, event: str, party: str, repeat: Callable[[], object]) -> None:
    """Raise unless the first call is logged, and few of many."""
    assert len(lines(curator, event, party)) == 1
    for _ in range(CALLS):
        repeat()
    left = lines(curator, event, party)
    assert 1 < len(left) <= 1 + MOST
    assert sum(each.get("unlogged", 0) for each in left) <= CALLS - len(left) + 1


def finished(curator: Curator, owner: str) -> tuple[Party, Any]:
    """An owner, and a study of it alone that has a result; the contribution is logged."""
    study, party = curator.begin(owner), curator.party(owner)
    assert not party.contribute(make_release(study)).already_stored
    party.end(study)
    return party, study


def test_a_contribution_that_is_stored_announced_again(curator: Curator) -> None:
    party, study = finished(curator, "repeats-a-release")
    header = header_of(make_release(study))
    require_few(
        curator, "contribution", "repeats-a-release", lambda: party.send(upload(header, b""))
    )
    finished(curator, "another")
    assert len(lines(curator, "contribution", "another")) == 1, "others' lines are all there"


def test_synthetic_rows_that_are_stored_announced_again(curator: Curator) -> None:
    party, study = finished(curator, "repeats-rows")
    rows, components = arrow(decoded_rows()), party.result(study).sha256

    def publish() -> bool:
        ask = {"n_rows": 3, "components": components}
        return party.publish(study, Form.DECODED, rows, **ask).already_stored

    assert not publish()
    require_few(curator, "synthetic rows", "repeats-rows", publish)


def test_the_same_vote_again(hub: MaskedHub) -> None:
    sites = hub.join(4, 4, spares=1)
    sites.contribute()
    sites.until_sealed()
    opener = sites.openers[0]
    opener.vote()
    vote = opener.make_vote().to_bytes()
    require_few(
        hub.curator, "opening", opener.name, lambda: opener.party.open(sites.study, vote=vote)
    )


def test_a_ledger_that_goes_on_with_other_chains_in_turn(curator: Curator) -> None:
    owner = "recovers-again"
    party, study = finished(curator, owner)
    known = accounts_for([make_release(study).release_id])
    made = iter(range(2 * CALLS))

    def go_on() -> None:
        head = hashlib.sha256(b"%d" % next(made)).digest()
        request = pb.ContinueLedgerRequest(ledger_length=5, ledger_head=head, accounts_for=known)
        party.federation.ContinueLedger(request, timeout=WAIT_S)

    go_on()
    require_few(curator, "ledger recovered", owner, go_on)
