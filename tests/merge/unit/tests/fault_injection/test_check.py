"""The check of what a fault left behind: nothing planted goes unseen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest

from dppca.common.aggregation.opening import Sums
from dppca.common.messages import StudyState
from dppca.common.numerics.moments.moments import Moments
from dppca.common.privacy.noise.entropy import SeededEntropy
from dppca.common.privacy.release import calibrate
from dppca.common.results import result_to_bytes
from dppca.curator.study.aggregate import aggregate
from dppca.curator.study.study_record import Contribution, LedgerHead
from dppca.owner.ledger.database import open_ledger
from dppca.owner.release.contribution import request_contribution
from dppca.owner.release.path import ContributionPlan, store_release
from tests.fault_injection.catalogue import End, Expected, expected
from tests.fault_injection.check import Evidence, find_end, problems
from tests.fault_injection.evidence import HubEvidence, SiteEvidence, read_site
from tests.fault_injection.fixture import make_study
from tests.fault_injection.spec import Fault, parse_fault
from tests.support.ledgers import BUDGET, NOW, account_of

STUDY = make_study(NOW)
KILL = parse_fault("owner-2:kill@commit")
NEVER = parse_fault("owner-2:never")
SUMS = Sums("d" * 64, ((0, b"sums"),))


@cache
def site(owner: str) -> SiteEvidence:
    """A site that has released, read as the check reads one."""
    with TemporaryDirectory() as name:
        folder, seed = Path(name), int(owner[-1])
        moments = Moments(60, np.full(STUDY.table.layout.n_entries, seed, dtype=np.int64))
        request = request_contribution(STUDY, account=account_of("rows", BUDGET))
        with open_ledger(folder / "ledger.sqlite", lock=folder / "lock") as ledger:
            stored = store_release(
                ledger,
                request,
                ContributionPlan(STUDY, calibrate(STUDY)),
                moments,
                entropy=SeededEntropy(seed),
                clock=lambda: NOW,
            )
            ledger.mark_sent(stored.reservation.release_id, now=NOW)
        return read_site(folder, STUDY)


def contribution(owner: str) -> Contribution:
    stored = site(owner).stored
    assert stored is not None
    return Contribution(
        owner=owner,
        release_id=stored.reservation.release_id,
        n_rows=60,
        n_bytes=len(stored.payload),
        sha256=bytes.fromhex(stored.commitment.payload_sha256),
        chain=LedgerHead(2, b"h" * 32),
        receipt=stored.receipt,
        received_s=0,
    )


@cache
def left(*owners: str) -> Evidence:
    """What a study leaves in which these owners took part and nothing was broken."""
    contributions = tuple(contribution(owner) for owner in owners)
    payloads = {owner: payload_of(site(owner)) for owner in owners}
    vectors = [np.frombuffer(payload, "<i8").astype(np.int64) for payload in payloads.values()]
    result = result_to_bytes(aggregate(STUDY, calibrate(STUDY), contributions, vectors))
    sites = {
        owner: replace(site(owner), result=result) if owner in owners else SiteEvidence()
        for owner in STUDY.owners
    }
    hub = HubEvidence(
        state=StudyState.CLOSED,
        contributions=contributions,
        payloads=payloads,
        result=result,
    )
    return Evidence(begun=True, sites=sites, hub=hub, again=result)


def payload_of(evidence: SiteEvidence) -> bytes:
    assert evidence.stored is not None
    return evidence.stored.payload


def everybody() -> Evidence:
    evidence = left(*STUDY.owners)
    return replace(evidence, before=site("owner-2"), hub_before=replace(evidence.hub, result=b""))


def with_site(evidence: Evidence, **changes: object) -> Evidence:
    changed = replace(evidence.sites["owner-2"], **changes)  # type: ignore[arg-type]
    return replace(evidence, sites={**evidence.sites, "owner-2": changed})


def with_hub(evidence: Evidence, **changes: object) -> Evidence:
    return replace(evidence, hub=replace(evidence.hub, **changes))  # type: ignore[arg-type]


def opened(evidence: Evidence) -> Evidence:
    """As if owner-2 had opened a sealed set before the fault."""
    hub = {"set_digest": SUMS.set_digest, "openings": {"owner-2": sha256(b"sums").digest()}}
    before, hub_before = evidence.before, evidence.hub_before
    assert before is not None
    assert hub_before is not None
    return replace(
        with_hub(with_site(evidence, openings=1, sums=SUMS), **hub),
        before=replace(before, openings=1, sums=SUMS),
        hub_before=replace(hub_before, **hub),  # type: ignore[arg-type]
    )


def flipped(content: bytes) -> bytes:
    return bytes([content[0] ^ 1]) + content[1:]


def with_stored_byte_flipped(evidence: Evidence) -> Evidence:
    stored = evidence.sites["owner-2"].stored
    assert stored is not None
    return with_site(evidence, stored=replace(stored, payload=flipped(stored.payload)))


PLANTED: dict[str, tuple[Callable[[Evidence], Evidence], str]] = {
    "a second charge": (lambda e: with_site(e, charges=2), "charged 2 times"),
    "no charge": (lambda e: with_site(e, charges=0), "has lost a charge"),
    "a ledger that does not verify": (lambda e: with_site(e, fault="entry 2"), "does not verify"),
    "a stored byte that changed": (with_stored_byte_flipped, "not those from before the fault"),
    "stored bytes that are gone": (lambda e: with_site(e, stored=None), "its ledger does not"),
    "a byte that the curator changed": (
        lambda e: with_hub(
            e,
            payloads={**e.hub.payloads, "owner-3": flipped(e.hub.payloads["owner-3"])},
        ),
        "not those that owner-3 stored",
    ),
    "a contribution that the curator lost": (
        lambda e: with_hub(
            e,
            contributions=e.hub.contributions[:2],
            payloads={o: e.hub.payloads[o] for o in ("owner-1", "owner-2")},
        ),
        "no longer has what owner-3 had sent",
    ),
    "another result at the curator": (
        lambda e: with_hub(e, result=left("owner-1", "owner-3").hub.result),
        "not, bit for bit",
    ),
    "a result that cannot be read": (lambda e: replace(e, again=b""), "cannot be compared"),
    "another result at an owner": (
        lambda e: with_site(e, result=left("owner-1", "owner-2").hub.result),
        "owner-2 has another result",
    ),
    "no result at an owner": (lambda e: with_site(e, result=b""), "does not have the result"),
    "no result at the curator": (lambda e: with_hub(e, result=b""), "has no result"),
    "a study that is still open": (
        lambda e: with_hub(e, state=StudyState.OPEN, result=b""),
        "without an end",
    ),
    "a study that was aborted": (
        lambda e: with_hub(e, state=StudyState.ABORTED, result=b""),
        "should end 'all'",
    ),
    "a study that was not closed": (
        lambda e: with_hub(e, state=StudyState.DECOMPOSED),
        "could not be closed",
    ),
    "a key that outlives its opening": (
        lambda e: with_site(e, keys=("f" * 64,)),
        "owner-2 has kept its opener key",
    ),
    "a second opening": (lambda e: with_site(e, openings=2), "owner-2 has opened 2 sets"),
    "an opening of another set": (
        lambda e: with_site(e, sums=Sums("e" * 64, SUMS.totals)),
        "another set than the curator has sealed",
    ),
    "sums that changed": (
        lambda e: with_site(e, sums=Sums(SUMS.set_digest, ((0, b"other"),))),
        "owner-2's sums are not those from before the fault",
    ),
    "an opening that its opener did not store": (
        lambda e: with_site(e, sums=Sums(SUMS.set_digest, ((0, b"other"),))),
        "the curator's opening of owner-2 is not what owner-2 stored",
    ),
    "an opening that the curator lost": (
        lambda e: with_hub(e, openings={}),
        "no longer has the openings",
    ),
    "a set that changed": (
        lambda e: with_hub(e, set_digest="e" * 64),
        "sealed set is not that from before the fault",
    ),
    "a key that was there when nothing could be opened with it any more": (
        lambda e: replace(e, before=replace(e.sites["owner-2"], keys=("f" * 64,))),
        "had stored its sums and kept its opener key",
    ),
    "a store that cannot be read": (lambda e: with_hub(e, fault="damaged"), "cannot be read"),
}


def found(fault: Fault, evidence: Evidence, wanted: Expected | None = None) -> str:
    return "; ".join(problems(STUDY, fault, wanted or expected(fault), evidence))


def test_a_study_in_which_every_promise_was_kept_has_no_problem() -> None:
    assert find_end(STUDY, everybody()) is End.ALL
    assert found(KILL, everybody()) == ""
    assert found(KILL, opened(everybody())) == ""


@pytest.mark.parametrize("what", sorted(PLANTED))
def test_what_is_planted_is_found(what: str) -> None:
    plant, words = PLANTED[what]
    assert words in found(KILL, plant(opened(everybody())))


def test_a_study_without_a_missing_owner_ends_at_quorum() -> None:
    evidence = left("owner-1", "owner-3")
    assert find_end(STUDY, evidence) is End.QUORUM
    assert found(NEVER, evidence) == ""


def test_an_owner_that_was_never_there_and_is_charged_is_found() -> None:
    assert "charged 1 times, not 0" in found(
        NEVER, with_site(left("owner-1", "owner-3"), charges=1)
    )


def test_the_wrong_owner_missing_is_found() -> None:
    assert "owner-2 took part" in found(NEVER, left("owner-1", "owner-2"))


def test_a_ledger_that_says_sent_without_the_curators_knowing_is_found() -> None:
    late = parse_fault("owner-2:partition@send")
    evidence = replace(left("owner-1", "owner-3"), said=("owner-2: no connection",))
    sites = {**evidence.sites, "owner-2": replace(site("owner-2"), result=evidence.hub.result)}
    assert "the curator does not have it" in found(late, replace(evidence, sites=sites))


def test_nobody_told_anything_is_found() -> None:
    fault = parse_fault("owner-2:clock+2d")
    evidence = with_site(left("owner-1", "owner-3"), result=left("owner-1", "owner-3").hub.result)
    assert found(fault, evidence) == "nobody was told what was wrong"
    told = replace(evidence, said=("owner-2: the deadline has passed",))
    assert found(fault, told) == ""


def test_an_abort_without_a_reason_is_found() -> None:
    fault = parse_fault("owners:never")
    empty = Evidence(
        begun=True,
        sites={owner: SiteEvidence() for owner in STUDY.owners},
        hub=HubEvidence(state=StudyState.ABORTED),
    )
    assert found(fault, empty) == "the study was aborted without a reason"
    assert found(fault, with_hub(empty, reason="too few")) == ""


def test_a_study_that_stays_stuck_is_found() -> None:
    fault = parse_fault("curator:disk-full")
    stuck = Evidence(
        begun=True,
        sites={owner: replace(site(owner), sent=False) for owner in STUDY.owners},
        hub=HubEvidence(state=StudyState.ABORTED, reason="too few"),
        state_at_deadline="open",
        said=("owner-1: the store cannot be used",),
    )
    assert find_end(STUDY, stuck) is End.STUCK
    assert found(fault, stuck) == ""
    assert "did not end when" in found(fault, with_hub(stuck, state=StudyState.OPEN))


def test_a_damaged_ledger_is_evidence_of_its_damage(tmp_path: Path) -> None:
    request = request_contribution(STUDY, account=account_of("rows", BUDGET))
    path = tmp_path / "ledger.sqlite"
    with open_ledger(path, lock=tmp_path / "lock") as ledger:
        ledger.reserve(request, release_id=b"r" * 16, now=NOW)
    content = path.read_bytes()
    assert content.count(b'"data_set":"rows"') == 1
    path.write_bytes(content.replace(b'"data_set":"rows"', b'"data_set":"sowr"'))
    assert "entry 1" in read_site(tmp_path, STUDY).fault
    assert read_site(tmp_path / "nowhere", STUDY) == SiteEvidence()
