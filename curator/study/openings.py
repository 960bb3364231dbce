"""Which votes and openings are taken: pure decisions on what an opener sends.

Rules, in the order in which they are applied:

1. The study names the caller. To anybody else there is no such study.
2. It has ``trust: aggregate``, and names the caller as an opener.
3. The very same opening is acknowledged in every state, without effect.
4. The set is sealed, and the study was not aborted.
5. A vote is the caller's, for this set, and signed by its key in the study; a study without spares
   takes none. The same again has no effect, and so has one that comes after the openings.
6. An opening is no longer than one can be. It is the caller's, over this set, of streams that the
   caller holds, and signed by its key in the study. Another sum of the same streams is refused.
7. ``open_by`` has not passed.
8. Its streams are all that are wanted of the opener. An opening of others is not stored, and that
   is no error: another opener was faster. The answer says what is wanted instead. So an opener has
   one opening in a study: a sum for each of a thousand streams would fill a disk.

They are applied before the first byte of a sum is taken, as far as the header tells, and once more
in one transaction with what is stored: of two openings of one stream, one is stored.

The curator is not trusted with more than to be there, so nothing secret hangs on these rules: they
find mistakes early, and say whose they are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from dppca.common.aggregation.pooling import require_opening
from dppca.common.aggregation.sum_messages import SignedOpening, Vote, opening_limit, require_vote
from dppca.common.aggregation.terms import Terms
from dppca.common.documents.messages import StudyState
from dppca.common.errors import ConflictError, LimitError, StudyStateError, UploadError
from dppca.curator.study.lifecycle import Transition, next_state
from dppca.curator.study.sealed_set import (
    open_by_passed,
    require_opener,
    require_sealed,
    wanted_streams,
)
from dppca.curator.study.study_record import (
    StoredOpening,
    StoredVote,
    StudyRecord,
    by_streams,
)


class OpeningDecision(Enum):
    """What is done with an opening that was not refused."""

    ACCEPT = auto()
    ALREADY_STORED = auto()
    NOT_WANTED = auto()


@dataclass(frozen=True, slots=True)
class OpeningHeader:
    """What an opener says before the first byte of its sum. Digests are raw bytes.

    Attributes
    ----------
    vote
        Its bytes; empty where none comes.
    total_bytes, sha256
        Size and digest of the opening that follows; 0 and empty where none does.
    """

    study_digest: bytes
    vote: bytes
    total_bytes: int
    sha256: bytes


def admit_opening(
    record: StudyRecord, opener: str, header: OpeningHeader, *, now: datetime
) -> OpeningDecision:
    """Decide on an opening by its header; ``ACCEPT`` where its bytes are to be taken.

    Raises
    ------
    StudyStateError, PermissionDeniedError, NotReadyError, LimitError, UploadError
        By the rule that is broken.
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
        raise UploadError(f"an opening of {header.total_bytes:,} bytes from {opener} is cut short")
    _require_time(record, now)
    if not wanted_streams(record, opener):
        return OpeningDecision.NOT_WANTED
    return OpeningDecision.ACCEPT


def store_opening(
    record: StudyRecord,
    opener: str,
    header: OpeningHeader,
    said: SignedOpening,
    *,
    now: datetime,
) -> tuple[StudyRecord, OpeningDecision]:
    """Decide on an opening whose bytes have come; the study with it, or as it was.

    The sum has the digest ``said.total_sha256``, and all bytes the one of the header.

    Raises
    ------
    ConflictError, SignatureError
        It is another one than is stored, for another set, or not signed; else as `admit_opening`.
    """
    terms = require_opener(record, opener)
    if _find_message(record, opener, header.sha256) is not None:
        return record, OpeningDecision.ALREADY_STORED
    sealing = require_sealed(record)
    _require_own("an opening", said.opener, opener)
    require_opening(terms, sealing.set_digest.hex(), said)
    if not said.streams:
        raise UploadError(f"the opening of {opener} names no stream")
    for stored in record.openings:
        if (stored.opener, stored.streams) == (opener, said.streams):
            if stored.sha256 == said.total_sha256:
                return record, OpeningDecision.ALREADY_STORED
            raise ConflictError(f"{opener} has opened the same streams with another sum")
    _require_time(record, now)
    if said.streams != wanted_streams(record, opener):
        return record, OpeningDecision.NOT_WANTED
    accepted = StoredOpening(
        opener=opener,
        streams=said.streams,
        n_bytes=8 * terms.n_words,
        sha256=said.total_sha256,
        signature=said.signature,
        message_sha256=header.sha256,
        received_s=int(now.timestamp()),
    )
    state = next_state(record, Transition.OPEN)
    together = tuple(sorted((*record.openings, accepted), key=by_streams))
    return replace(record, state=state, openings=together), OpeningDecision.ACCEPT


def store_vote(record: StudyRecord, opener: str, content: bytes, *, now: datetime) -> StudyRecord:
    """Decide on a vote; the study with it, or as it was.

    Raises
    ------
    StudyStateError, PermissionDeniedError, NotReadyError, UploadError, LimitError, ConflictError,
    SignatureError
        By the rule that is broken.
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
    accepted = StoredVote(opener, content, int(now.timestamp()))
    together = sorted((*record.votes, accepted), key=lambda each: each.opener)
    return replace(record, state=next_state(record, Transition.OPEN), votes=tuple(together))


def _find_message(record: StudyRecord, opener: str, sha256: bytes) -> StoredOpening | None:
    same = (opener, sha256)
    return next((o for o in record.openings if (o.opener, o.message_sha256) == same), None)


def _require_own(what: str, said: str, opener: str) -> None:
    if said != opener:
        raise UploadError(f"{what} of {said} came from {opener}")


def _require_votes(terms: Terms, opener: str) -> None:
    if not terms.votes_needed:
        raise UploadError(f"a vote of {opener}, in a study without spares, which needs none")


def _require_time(record: StudyRecord, now: datetime) -> None:
    if record.state is StudyState.SEALED and open_by_passed(record.study, now):
        raise StudyStateError(f"the time to open study {record.study.name} has passed (open_by)")
