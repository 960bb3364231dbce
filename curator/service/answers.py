"""Answers about studies, as messages."""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import islice

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.errors import InputError, UnknownStudyError
from dppca.common.transport.channels import STUDIES_PAGE
from dppca.common.transport.codec import state_to_wire
from dppca.common.transport.greeting import VERSION, read_greeting, version_remark
from dppca.common.wire import federation_pb2 as pb
from dppca.curator.observability.log import log_event
from dppca.curator.service.calls import Caller
from dppca.curator.service.recent_refusals import RecentRefusals, Refusal
from dppca.curator.store import SqliteStore
from dppca.curator.study.auditor_looks import AuditorLook
from dppca.curator.study.study_record import LedgerHead, OwnerHistory, Settlement, StudyRecord

MOST_NAMES = 8
"""Names of a list in a summary: a study may have 10,000 owners, and operators list all studies."""
_MOST_LOOKS = 400  # of auditors in one answer, as many as refusals
PAGE = 1000
"""Entries of an owner's record in one message; each has less than 2 KiB, and a message 8 MiB."""


def is_visible(caller: Caller, record: StudyRecord) -> bool:
    """Return True for an operator, or for an owner whom the study names."""
    return not caller.is_owner or caller.name in record.study.owners


def require_visible(caller: Caller, record: StudyRecord) -> None:
    """Raise `UnknownStudyError` if the caller may not see the study, as if it did not exist.

    Otherwise refusals of the call are recorded under this study's name from now on.
    """
    if not is_visible(caller, record):
        raise UnknownStudyError(f"study {record.study.name} does not name {caller.name}")
    caller.note_study(record.study.name)


def note_version(greeting: pb.Greeting, caller: Caller, refusals: RecentRefusals) -> None:
    """Log a caller of another version than this curator, once; it is served all the same."""
    said, party = read_greeting(greeting).version, f"{caller.identity.role.value}:{caller.name}"
    if refusals.versions.get(party) == said:
        return
    refusals.versions[party] = said
    if remark := version_remark(said, who=party, here="this curator"):
        log_event(
            "another version",
            level=logging.WARNING,
            limit=(caller.identity, "another version"),
            party=party,
            version=said or "none said",
            here=VERSION,
            means=remark,
        )


def heard_by(store: SqliteStore, refusals: RecentRefusals) -> Callable[[str], bool]:
    """Return a function that returns True for an owner that is known to have a certificate.

    The authority issues certificates where it likes and tells the curator nothing: what the curator
    knows is who has called since its start, and whose contributions it holds.
    """
    return lambda owner: owner in refusals.called or bool(store.history(owner).releases)


def study_summary(
    record: StudyRecord, caller: Caller, is_heard: Callable[[str], bool]
) -> pb.StudySummary:
    """Summarize a study.

    An owner is told of itself alone, an operator of all owners; ``is_heard`` is `heard_by`'s.
    """
    summary = pb.StudySummary(
        name=record.study.name,
        digest=record.digest,
        state=state_to_wire(record.state),
        contributed=caller.is_owner and caller.name in record.contributed,
        contributions=len(record.contributions),
        owners=len(record.study.owners),
        created_s=record.created_s,
        release_id=_own_release(record, caller),
    )
    if not caller.is_owner:
        _add_for_operators(summary, record, is_heard)
    return summary


def _add_for_operators(
    summary: pb.StudySummary, record: StudyRecord, is_heard: Callable[[str], bool]
) -> None:
    study, is_open = record.study, record.state is StudyState.OPEN
    epsilon, delta = study.privacy.epsilon, study.privacy.delta
    summary.epsilon = "" if epsilon is None else decimal_text(epsilon)
    summary.delta = "" if delta is None else decimal_text(delta)
    waits_until = {StudyState.OPEN: study.deadline, StudyState.SEALED: study.open_by}
    deadline = waits_until.get(record.state)
    summary.deadline_s = 0 if deadline is None else int(deadline.timestamp())
    summary.title = study.title or ""
    missing = record.missing if is_open else ()
    unheard = [owner for owner in missing if not is_heard(owner)]
    summary.missing.CopyFrom(pb.NameList(first=missing[:MOST_NAMES], total=len(missing)))
    summary.unheard.CopyFrom(pb.NameList(first=unheard[:MOST_NAMES], total=len(unheard)))


def _own_release(record: StudyRecord, caller: Caller) -> bytes:
    own = record.find_contribution(caller.name) if caller.is_owner else None
    return b"" if own is None else own.release_id


def study_page(
    records: list[StudyRecord], *, most: int, after: bytes
) -> tuple[list[StudyRecord], bool]:
    """Return the studies that follow digest ``after``, and True if more come after them.

    ``most`` is the caller's wish; 0 for all, as earlier versions ask. Raise `InputError` if no
    study of ``records`` has the digest.
    """
    begin = 0
    if after:
        places = (place for place, each in enumerate(records, 1) if each.digest == after)
        begin = next(places, 0)
        if not begin:
            raise InputError("no study in the caller's list has the digest `after`")
    end = begin + min(most, STUDIES_PAGE) if most else len(records)
    return records[begin:end], end < len(records)


def chain_to_wire(chain: LedgerHead | None) -> tuple[int, bytes]:
    """Length and head of a chain; 0 and empty for none."""
    return (0, b"") if chain is None else (chain.length, chain.head)


def seen_owner(
    owner: str, history: OwnerHistory, records: Iterable[StudyRecord]
) -> Iterator[pb.ShowOwnerResponse]:
    """Yield the record of an owner in pages, contributions in order of arrival."""
    length, head = chain_to_wire(history.chain)
    yield pb.ShowOwnerResponse(ledger_length=length, ledger_head=head)
    own_contributions = [
        (r.study.name, c) for r in records if (c := r.find_contribution(owner)) is not None
    ]
    contributions = [
        pb.SeenContribution(
            study=name,
            received_s=c.received_s,
            ledger_length=c.chain.length,
            ledger_head=c.chain.head,
        )
        for name, c in sorted(own_contributions, key=lambda pair: pair[1].received_s)
    ]
    settlements = [settlement_to_wire(each) for each in history.settlements]
    for at in range(0, max(len(contributions), len(settlements)), PAGE):
        yield pb.ShowOwnerResponse(
            contributions=contributions[at : at + PAGE], settlements=settlements[at : at + PAGE]
        )


def settlement_to_wire(settlement: Settlement) -> pb.Settlement:
    """Encode a settlement."""
    length, head = chain_to_wire(settlement.chain)
    return pb.Settlement(
        settled_s=settlement.settled_s,
        by=settlement.by,
        reason=settlement.reason,
        seen_length=settlement.seen.length,
        seen_head=settlement.seen.head,
        ledger_length=length,
        ledger_head=head,
    )


def owner_status(record: StudyRecord, owner: str) -> pb.OwnerStatus:
    """State of one owner in a study."""
    status = pb.OwnerStatus(name=owner)
    contribution = record.find_contribution(owner)
    if contribution is not None:
        status.contributed = True
        status.n_rows = contribution.n_rows
        status.bytes = contribution.n_bytes
        status.received_s = contribution.received_s
    coded = record.find_publication(owner, Form.CODED)
    decoded = record.find_publication(owner, Form.DECODED)
    status.synthetic_coded_rows = 0 if coded is None else coded.n_rows
    status.synthetic_decoded_rows = 0 if decoded is None else decoded.n_rows
    vote = record.find_vote(owner)
    status.opener = owner in (record.study.openers or {})
    status.voted_s = 0 if vote is None else vote.received_s
    status.opened_s = max((o.received_s for o in record.openings if o.opener == owner), default=0)
    return status


def newest_looks(looks: Sequence[AuditorLook], study: str) -> Iterator[pb.AuditorLook]:
    """Yield the newest looks, at one study or at all, in the form of the wire."""
    found = (each for each in reversed(looks) if study in ("", each.study))
    for each in islice(found, _MOST_LOOKS):
        yield pb.AuditorLook(
            number=each.number,
            time_s=each.time_s,
            auditor=each.auditor,
            method=each.method,
            study=each.study,
        )


def refusal_to_wire(refusal: Refusal) -> pb.Refusal:
    """Encode a refusal, whose fields have the names of the message's."""
    return pb.Refusal(**asdict(refusal))
