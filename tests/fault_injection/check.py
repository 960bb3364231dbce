"""Whether what a cell left behind keeps every promise: pure.

The promises: every ledger verifies, charges once, and has the bytes that it had before the fault;
the curator has those very bytes; its result is, bit for bit, what the bytes *stored by the owners
that took part* pool to; and every owner that has the result has the same file. A sealed set never
changes; an opener opens that set, once, with sums that stay the same; and its key is gone once they
are stored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dppca.common.errors import ArtefactError
from dppca.common.messages import StudyState
from dppca.common.results import result_from_bytes
from dppca.common.study import Study
from tests.fault_injection.catalogue import End, Expected
from tests.fault_injection.evidence import HubEvidence, SiteEvidence
from tests.fault_injection.spec import OWNERS, Fault, FaultKind

_ENDED = (StudyState.DECOMPOSED, StudyState.CLOSED)


@dataclass(frozen=True, slots=True)
class Evidence:
    """Everything that a cell left.

    Attributes
    ----------
    begun
        Whether the study could be created.
    state_at_deadline
        For a study that should be stuck: its state after the deadline, before the fault was over.
    sites
        By owner, at the end.
    before
        The owner that the fault was done to, when it was done; None where it has no such moment.
    hub_before
        The curator, likewise.
    again
        The result, without a receipt, computed once more from what the owners have stored.
    """

    begun: bool
    sites: Mapping[str, SiteEvidence]
    hub: HubEvidence
    state_at_deadline: str = ""
    before: SiteEvidence | None = None
    hub_before: HubEvidence | None = None
    said: tuple[str, ...] = ()
    again: bytes = b""


def find_end(study: Study, evidence: Evidence) -> End | None:
    """How a study ended; None where it has not."""
    if not evidence.begun:
        return End.NOT_BEGUN
    if evidence.state_at_deadline == StudyState.OPEN:
        return End.STUCK
    if evidence.hub.state in _ENDED:
        return End.ALL if len(evidence.hub.contributions) == len(study.owners) else End.QUORUM
    return End.ABORTED if evidence.hub.state is StudyState.ABORTED else None


def problems(study: Study, fault: Fault, expected: Expected, evidence: Evidence) -> tuple[str, ...]:
    """Every promise that was not kept, in words; empty where all were."""
    return (
        *_of_end(study, fault, expected, evidence),
        *_of_ledgers(fault, expected, evidence),
        *_of_bytes(fault, evidence),
        *_of_openings(fault, evidence),
        *_of_result(study, fault, expected, evidence),
    )


def _of_end(study: Study, fault: Fault, expected: Expected, evidence: Evidence) -> Iterator[str]:
    end, hub = find_end(study, evidence), evidence.hub
    if hub.fault:
        yield f"the curator's store cannot be read: {hub.fault}"
    if end is not expected.end:
        yield (
            f"the study should end {expected.end.value!r}; it is "
            f"{'without an end' if end is None else repr(end.value)} "
            f"({hub.state}, with {', '.join(sorted(hub.payloads)) or 'nobody'})"
        )
    if end is End.QUORUM and fault.party in hub.payloads:
        yield f"{fault.party} took part and another owner did not"
    if end is End.ABORTED and not hub.reason:
        yield "the study was aborted without a reason"
    if end is End.STUCK and hub.state in (None, StudyState.OPEN):
        yield "the study did not end when the fault was over"
    somebody_asked = fault.kind is not FaultKind.NEVER
    if end not in (End.ALL, None) and somebody_asked and not any(evidence.said):
        yield "nobody was told what was wrong"
    if end in (End.ALL, End.QUORUM) and hub.state is not StudyState.CLOSED:
        yield f"the study could not be closed: it is {hub.state}"


def _of_ledgers(fault: Fault, expected: Expected, evidence: Evidence) -> Iterator[str]:
    has_result = expected.end in (End.ALL, End.QUORUM)
    for owner, site in sorted(evidence.sites.items()):
        if site.fault:
            yield f"{owner}'s ledger does not verify: {site.fault}"
        if site.charges > 1:
            yield f"{owner} was charged {site.charges} times"
        wanted = 1 if has_result or fault.is_of_opener else None
        if owner == fault.host or fault.party == OWNERS or expected.end is End.NOT_BEGUN:
            wanted = expected.charged
        if wanted is not None and site.charges != wanted:
            yield f"{owner} was charged {site.charges} times, not {wanted}"
        if site.sent and owner not in evidence.hub.payloads:
            yield f"{owner}'s ledger says sent, and the curator does not have it"


def _of_bytes(fault: Fault, evidence: Evidence) -> Iterator[str]:
    before = evidence.before
    if before is not None:
        site = evidence.sites[fault.host]
        if before.fault:
            yield f"{fault.host}'s ledger did not verify at the fault: {before.fault}"
        if site.charges < before.charges:
            yield f"{fault.host}'s ledger has lost a charge"
        if before.stored is not None and before.stored != site.stored:
            yield f"{fault.host}'s released bytes are not those from before the fault"
    if evidence.hub_before is not None:
        for owner, payload in evidence.hub_before.payloads.items():
            if evidence.hub.payloads.get(owner) != payload:
                yield f"the curator no longer has what {owner} had sent before the fault"
    for contribution in evidence.hub.contributions:
        owner = contribution.owner
        stored = evidence.sites[owner].stored
        if stored is None:
            yield f"the curator has bytes of {owner} that its ledger does not"
        elif (stored.payload, stored.receipt) != (
            evidence.hub.payloads[owner],
            contribution.receipt,
        ):
            yield f"the curator's bytes of {owner} are not those that {owner} stored"


def _of_openings(fault: Fault, evidence: Evidence) -> Iterator[str]:
    hub = evidence.hub
    for owner, site in sorted(evidence.sites.items()):
        if site.openings > 1:
            yield f"{owner} has opened {site.openings} sets"
        if site.sums is not None and site.sums.set_digest != hub.set_digest:
            yield f"{owner} has opened another set than the curator has sealed"
        if site.keys and not (owner == fault.host and fault.kind is FaultKind.NEVER):
            yield f"{owner} has kept its opener key"
    for opener, sha256 in sorted(hub.openings.items()):
        sums = evidence.sites[opener].sums
        totals = () if sums is None else [total for _, total in sums.totals]
        if sha256 not in (hashlib.sha256(total).digest() for total in totals):
            yield f"the curator's opening of {opener} is not what {opener} stored"
    before, hub_before = evidence.before, evidence.hub_before
    if before is not None and before.sums is not None:
        if before.sums != evidence.sites[fault.host].sums:
            yield f"{fault.host}'s sums are not those from before the fault"
        if before.keys and fault.step != "open":  # at which it is about to be destroyed
            yield f"{fault.host} had stored its sums and kept its opener key"
    if hub_before is not None:
        if hub_before.set_digest not in ("", hub.set_digest):
            yield "the curator's sealed set is not that from before the fault"
        if not hub_before.openings.items() <= hub.openings.items():
            yield "the curator no longer has the openings from before the fault"


def _of_result(study: Study, fault: Fault, expected: Expected, evidence: Evidence) -> Iterator[str]:
    hub = evidence.hub
    for owner, site in sorted(evidence.sites.items()):
        if site.result and site.result != hub.result:
            yield f"{owner} has another result than the curator"
        excused = not expected.has_result and (owner == fault.host or fault.party == OWNERS)
        if hub.result and not site.result and not excused:
            yield f"{owner} does not have the result"
    if not hub.result:
        if hub.state in _ENDED:
            yield "the study has ended and has no result"
        return
    try:
        same = _numbers(evidence.again, study) == _numbers(hub.result, study)
    except ArtefactError as error:
        yield f"the result cannot be compared: {error}"
        return
    if not same:
        yield "the result is not, bit for bit, what the owners' stored bytes pool to"


def _numbers(content: bytes, study: Study) -> tuple[object, ...]:
    """Everything that a result file says, as bits, except the curator's receipt.

    The signature of a receipt is another one each time it is made.
    """
    result = result_from_bytes(content, study)
    arrays = (result.pooled, result.within, result.mean, result.eigenvalues, result.vectors)
    return (
        result.header,
        *(None if a is None else (a.dtype.str, a.shape, a.tobytes()) for a in arrays),
    )
