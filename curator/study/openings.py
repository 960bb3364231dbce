"""Admission of votes and openings: pure decisions on an opener's messages.

Rules, in the order in which they are applied:

1. The study names the caller. For other parties the study does not exist.
2. It has ``trust: aggregate``, and names the caller as an opener.
3. The very same opening is acknowledged in every state, without effect.
4. The set is sealed, and the study was not aborted.
5. A vote is the caller's, for this set, and signed by its key in the study; a study without spares
   accepts none. A repeated vote has no effect, and neither has one after the openings.
6. An opening is not longer than the largest possible one. It is the caller's, over this set, of
   streams that the caller holds, and signed by its key in the study. Another sum of the same
   streams is refused.
7. ``open_by`` has not passed.
8. Where the study pins people of the opener's site, enough of them have signed the set: once, with
   the vote or the first opening, and under no older roles than this curator has seen
   (`dppca.curator.study.seen_roles`).
9. Its streams are exactly those wanted of the opener. An opening of others is not stored, which is
   no error: another opener was faster. The answer lists the wanted streams instead. So an opener
   has one opening in a study: a sum for each of a thousand streams would fill a disk.

They are applied before the first byte of a sum is received, as far as the header allows, and again
in one transaction with the storing: of two openings of one stream, one is stored.

The curator is trusted only to be available, so no secret depends on these rules: they find mistakes
early, and name the party at fault.
"""

import json
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from dppca.common.kernel.aggregation.pooling import require_opening
from dppca.common.kernel.aggregation.sum_messages import (
    SignedOpening,
    Vote,
    opening_limit,
    require_vote,
)
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.attestation.contributions import require_opening_people
from dppca.common.kernel.consent.signed_people import MAX_CONSENT
from dppca.common.kernel.documents.messages import StudyState
from dppca.common.kernel.errors import ConflictError, LimitError, StudyStateError, UploadError
from dppca.curator.study.lifecycle import Transition, next_state
from dppca.curator.study.sealed_set import (
    open_by_passed,
    require_opener,
    require_sealed,
    wanted_streams,
)
from dppca.curator.study.seen_roles import SeenRoles, require_as_seen
from dppca.curator.study.study_record import (
    StoredConsent,
    StoredOpening,
    StoredVote,
    StudyRecord,
    by_streams,
)


class OpeningDecision(Enum):
    """Outcome for an opening that was not refused."""

    ACCEPT = auto()
    ALREADY_STORED = auto()
    NOT_WANTED = auto()


@dataclass(frozen=True, slots=True)
class OpeningHeader:
    """An opener's announcement before its sum. Digests are raw bytes.

    ``vote`` holds the vote's bytes, empty without one. ``total_bytes`` and ``sha256`` are size and
    digest of the opening that follows; 0 and empty without one. ``consent`` is what people signed,
    empty without.
    """

    study_digest: bytes
    vote: bytes
    total_bytes: int
    sha256: bytes
    consent: bytes = b""


def admit_opening(
    record: StudyRecord,
    opener: str,
    header: OpeningHeader,
    *,
    now: datetime,
    seen: SeenRoles | None = None,
) -> OpeningDecision:
    """Decide on an opening by its header; ``ACCEPT`` means that its bytes are to be received.

    ``seen`` are the opener's roles that this curator has seen. Raise `StudyStateError`,
    `PermissionDeniedError`, `NotReadyError`, `LimitError`, `SignatureError` or `UploadError` for
    the rule that is broken.
    """
    terms = require_opener(record, opener)
    if _find_message(record, opener, header.sha256) is not None:
        return OpeningDecision.ALREADY_STORED
    require_sealed(record)
    if header.total_bytes > opening_limit(terms):
        raise LimitError(
            f"an opening of {header.total_bytes:,} bytes from {opener}; "
            f"{opening_limit(terms):,} are allowed"
        )
    if header.total_bytes <= 8 * terms.n_words:
        raise UploadError(f"an opening of {header.total_bytes:,} bytes from {opener} is incomplete")
    _require_time(record, now)
    _with_consent(record, opener, header.consent, seen)
    if not wanted_streams(record, opener):
        return OpeningDecision.NOT_WANTED
    return OpeningDecision.ACCEPT


def store_opening(
    record: StudyRecord,
    opener: str,
    header: OpeningHeader,
    signed: SignedOpening,
    *,
    now: datetime,
    seen: SeenRoles | None = None,
) -> tuple[StudyRecord, OpeningDecision]:
    """Decide on an opening whose bytes have come; return the study with it, or unchanged.

    The sum must have the digest ``said.total_sha256``, and all bytes the header's. Raise
    `ConflictError` or `SignatureError` if it differs from the stored one, is for another set, or is
    not signed, and the errors of `admit_opening`.
    """
    terms = require_opener(record, opener)
    if _find_message(record, opener, header.sha256) is not None:
        return record, OpeningDecision.ALREADY_STORED
    sealing = require_sealed(record)
    _require_own("an opening", signed.opener, opener)
    require_opening(terms, sealing.set_digest.hex(), signed)
    if not signed.streams:
        raise UploadError(f"the opening of {opener} names no stream")
    for stored in record.openings:
        if (stored.opener, stored.streams) == (opener, signed.streams):
            if stored.sha256 == signed.total_sha256:
                return record, OpeningDecision.ALREADY_STORED
            raise ConflictError(f"{opener} has opened the same streams with another sum")
    _require_time(record, now)
    record = _with_consent(record, opener, header.consent, seen)
    if signed.streams != wanted_streams(record, opener):
        return record, OpeningDecision.NOT_WANTED
    accepted = StoredOpening(
        opener=opener,
        streams=signed.streams,
        n_bytes=8 * terms.n_words,
        sha256=signed.total_sha256,
        signature=signed.signature,
        message_sha256=header.sha256,
        received_s=int(now.timestamp()),
    )
    state = next_state(record, Transition.OPEN)
    together = tuple(sorted((*record.openings, accepted), key=by_streams))
    return replace(record, state=state, openings=together), OpeningDecision.ACCEPT


def store_vote(
    record: StudyRecord,
    opener: str,
    content: bytes,
    *,
    now: datetime,
    consent: bytes = b"",
    seen: SeenRoles | None = None,
) -> StudyRecord:
    """Decide on a vote; return the study with it, or unchanged.

    Raise `StudyStateError`, `PermissionDeniedError`, `NotReadyError`, `UploadError`, `LimitError`,
    `ConflictError` or `SignatureError` for the rule that is broken.
    """
    terms = require_opener(record, opener)
    sealing = require_sealed(record)
    _require_votes(terms, opener)
    vote = Vote.from_bytes(content, terms)
    _require_own("a vote", vote.opener, opener)
    require_vote(terms, sealing.set_digest.hex(), vote)
    if record.find_vote(opener) is not None or record.state is not StudyState.SEALED:
        return record
    _require_time(record, now)
    record = _with_consent(record, opener, consent, seen)
    accepted = StoredVote(opener, content, int(now.timestamp()))
    together = sorted((*record.votes, accepted), key=lambda each: each.opener)
    return replace(record, state=next_state(record, Transition.OPEN), votes=tuple(together))


def _with_consent(
    record: StudyRecord, opener: str, content: bytes, seen: SeenRoles | None
) -> StudyRecord:
    """Return the study with what people signed; unchanged if that is known, or nobody is pinned.

    Raise `SignatureError` if too little was signed, or less than was seen, and `ReceiptError` if
    nobody is asked.
    """
    if any(each.opener == opener for each in record.consents):
        return record
    digest = require_sealed(record).set_digest.hex()
    consent = _read_consent(opener, content)
    require_opening_people(record.study, opener, digest, consent)
    if consent is not None:
        require_as_seen(opener, consent, seen)
    if not content:
        return record
    together = sorted((*record.consents, StoredConsent(opener, content)), key=_by_opener)
    return replace(record, consents=tuple(together))


def _read_consent(opener: str, content: bytes) -> object:
    if not content:
        return None
    try:
        consent = json.loads(content) if len(content) <= MAX_CONSENT else None
    except (ValueError, RecursionError):
        consent = None
    if consent is None:
        raise UploadError(f"what people signed at {opener} is too long, or no JSON")
    return consent


def _by_opener(stored: StoredConsent) -> str:
    return stored.opener


def _find_message(record: StudyRecord, opener: str, sha256: bytes) -> StoredOpening | None:
    same = (opener, sha256)
    return next((o for o in record.openings if (o.opener, o.message_sha256) == same), None)


def _require_own(what: str, stated_opener: str, opener: str) -> None:
    if stated_opener != opener:
        raise UploadError(f"{what} of {stated_opener} came from {opener}")


def _require_votes(terms: Terms, opener: str) -> None:
    if not terms.votes_needed:
        raise UploadError(f"a vote of {opener}, in a study without spares, which needs no vote")


def _require_time(record: StudyRecord, now: datetime) -> None:
    if record.state is StudyState.SEALED and open_by_passed(record.study, now):
        raise StudyStateError(
            f"the time to open study {record.study.name} has passed by this clock (open_by)"
        )
