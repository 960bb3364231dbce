"""Admission of uploads: pure decisions on an owner's announcement.

Rules for a contribution, in the order in which they are applied:

1. The study names the caller. For other parties the study does not exist.
2. The receipt names as many entries as the study's schema has, and the header announces 8 bytes
   for each; with ``trust: aggregate`` as many bytes as a masked upload may have.
3. The very same release is acknowledged in every state, without effect: an owner whose
   acknowledgement was lost asks again. Other bytes, or another release, from an owner that has
   contributed are refused; so is a release that was made for another study.
4. The study is open and its deadline has not passed.
5. An owner has at least one row, and at most its part of the study's ``max_rows``. So the study
   alone sets each owner's limit, and no owner can take another's room.
6. The owner's ledger is not shorter than this curator has ever seen it, in any study, and if it has
   the same length, it is the same; a settlement makes an exception
   (`dppca.curator.study.settlement`). A longer chain may still be another one: the curator has no
   entries to compare. So the owner asks for the recorded chain, and compares it with its own
   entries before it charges or sends anything.
7. The receipt is the one that the study implies; noise and charge are computed again.
8. If the study pins the people of this owner, enough of them have signed this release, under no
   older roles than this curator has seen (`dppca.curator.study.seen_roles`). If it has seen any,
   the study pins them. An operator's settlement makes an exception.

Before these rules, the service has opened the envelope around the receipt, which the key of the
call's certificate signed. With ``trust: aggregate`` this key is the one that the study names for
the caller; and once all bytes have come, `require_masked` compares them with the caller's statement
and the receipt.

The rules are applied before the first byte is received and again when the last has come, in one
transaction with the storing: of two uploads at once, one is refused.

Synthetic rows are accepted from owners that contributed, once per form, while the study is
decomposed and for its own components only.
"""

from bisect import bisect
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto

from dppca.common.kernel.aggregation.contribution import statement_sha256
from dppca.common.kernel.aggregation.pooling import require_upload
from dppca.common.kernel.aggregation.sum_messages import Upload, upload_limit
from dppca.common.kernel.attestation.claims import require_implied
from dppca.common.kernel.attestation.contributions import require_signatories
from dppca.common.kernel.documents.messages import Form
from dppca.common.kernel.errors import (
    ChainError,
    ConflictError,
    LimitError,
    ReceiptError,
    SchemaMismatchError,
    StudyStateError,
    UnknownStudyError,
    UploadError,
)
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.release import MaskedClaims
from dppca.common.kernel.study import Study, Trust
from dppca.curator.study.lifecycle import Transition, next_state
from dppca.curator.study.sealed_set import make_terms
from dppca.curator.study.seen_roles import SeenRoles, require_as_seen
from dppca.curator.study.study_record import (
    MAX_LEDGER_LENGTH,
    Contribution,
    Header,
    LedgerHead,
    OwnerHistory,
    Publication,
    StudyRecord,
    by_owner,
)


class UploadDecision(Enum):
    """Outcome for an upload that was not refused."""

    ACCEPT = auto()
    ALREADY_STORED = auto()


@dataclass(frozen=True, slots=True)
class SyntheticHeader:
    """An owner's announcement of its synthetic rows. Digests are raw bytes."""

    study_digest: bytes
    form: Form
    n_rows: int
    total_bytes: int
    sha256: bytes
    components_sha256: bytes


def admit(
    record: StudyRecord,
    header: Header,
    history: OwnerHistory,
    *,
    calibration: Calibration,
    now: datetime,
) -> UploadDecision:
    """Decide on a contribution by its header (rules 1 to 8).

    ``header`` is signed by its owner, but not trusted; ``history`` is this owner's, over all
    studies. Raise `UnknownStudyError`, `SchemaMismatchError`, `ConflictError`, `StudyStateError`,
    `UploadError`, `LimitError`, `ChainError`, `TooManyRowsError` or `SignatureError` for the rule
    that is broken.
    """
    study, owner = record.study, header.owner
    require_named(record, owner)
    expected = study.table.layout.n_entries
    n_entries = header.release.receipt.claims.n_entries
    if n_entries != expected:
        raise SchemaMismatchError(
            f"{n_entries} entries from {owner}; the study's schema has {expected}"
        )
    _check_size(study, header)
    if _is_stored(record, header, history):
        return UploadDecision.ALREADY_STORED
    next_state(record, Transition.CONTRIBUTE)
    if study.deadline_passed(now):
        raise StudyStateError(f"the deadline of study {study.name} has passed by this clock")
    if header.n_rows < 1 and not study.has_secret_rows:
        raise UploadError(f"{header.n_rows} rows from {owner}; it must have at least 1")
    study.require_room(owner, header.n_rows)
    _check_chain(owner, header.chain, history.chain)
    _check_receipt(study, calibration, header, history.roles)
    return UploadDecision.ACCEPT


def contribute(
    record: StudyRecord,
    header: Header,
    history: OwnerHistory,
    *,
    calibration: Calibration,
    now: datetime,
) -> tuple[StudyRecord, UploadDecision]:
    """Decide like `admit`, once all bytes have come; return the study with the contribution."""
    verdict = admit(record, header, history, calibration=calibration, now=now)
    if verdict is UploadDecision.ALREADY_STORED:
        return record, verdict
    accepted = Contribution(header.release, header.n_bytes, header.chain, int(now.timestamp()))
    state, before = next_state(record, Transition.CONTRIBUTE), record.contributions
    place = bisect(before, header.owner, key=by_owner)
    together = (*before[:place], accepted, *before[place:])
    return replace(record, state=state, contributions=together), verdict


def admit_publication(record: StudyRecord, owner: str, header: SyntheticHeader) -> UploadDecision:
    """Decide on synthetic rows by their header.

    Raise `UnknownStudyError`, `StudyStateError`, `ConflictError` or `UploadError`.
    """
    require_named(record, owner)
    stored = record.find_publication(owner, header.form)
    if stored is not None:
        if (stored.sha256, stored.n_rows) == (header.sha256, header.n_rows):
            return UploadDecision.ALREADY_STORED
        raise ConflictError(f"{owner} has published other {header.form.value} rows already")
    next_state(record, Transition.PUBLISH)
    if record.find_contribution(owner) is None:
        raise StudyStateError(f"{owner} did not take part in study {record.study.name}")
    if record.result is None or header.components_sha256 != record.result.sha256:
        raise UploadError(f"the rows of {owner} were drawn from other components than this study's")
    if header.n_rows < 1:
        raise UploadError(f"{owner} announces no synthetic row")
    if header.form is Form.CODED and record.study.continues is not None:
        raise UploadError(f"study {record.study.name} has no coded rows: it continues another")
    return UploadDecision.ACCEPT


def publish(
    record: StudyRecord, owner: str, header: SyntheticHeader, *, now: datetime
) -> tuple[StudyRecord, UploadDecision]:
    """Decide like `admit_publication`; return the study with the rows, or unchanged."""
    verdict = admit_publication(record, owner, header)
    if verdict is UploadDecision.ALREADY_STORED:
        return record, verdict
    accepted = Publication(
        owner=owner,
        form=header.form,
        n_rows=header.n_rows,
        n_bytes=header.total_bytes,
        sha256=header.sha256,
        received_s=int(now.timestamp()),
    )
    together = sorted((*record.publications, accepted), key=lambda p: (p.owner, p.form.value))
    state = next_state(record, Transition.PUBLISH)
    return replace(record, state=state, publications=tuple(together)), verdict


def require_named(record: StudyRecord, owner: str) -> None:
    """Raise `UnknownStudyError` for a party that the study does not name."""
    if owner not in record.study.owners:
        raise UnknownStudyError(f"study {record.study.name} does not name {owner}")


def largest_contribution(study: Study) -> int:
    """Most bytes of one owner's contribution to a study."""
    if study.trust is Trust.AGGREGATE:
        return upload_limit(make_terms(study))
    return 8 * study.table.layout.n_entries


def require_masked(study: Study, header: Header, upload: Upload, payload_sha256: bytes) -> None:
    """Raise unless a masked upload matches its owner's signature and its receipt.

    The payload of ``upload`` may be left out; ``payload_sha256`` is the digest of the masked
    vector, 32 bytes. `UploadError` means that it is another owner's, or does not match its
    statement or its receipt; `SignatureError` that the owner's key in the study did not sign the
    statement.
    """
    owner = header.owner
    if upload.statement.owner != owner:
        raise UploadError(f"an upload of {upload.statement.owner} came from {owner}")
    require_upload(make_terms(study), upload, payload_sha256)
    claims = header.release.receipt.claims
    digest = claims.statement_sha256 if isinstance(claims, MaskedClaims) else None
    if digest != statement_sha256(upload):
        raise UploadError(f"the receipt of {owner} names another statement than its upload has")


def _check_size(study: Study, header: Header) -> None:
    """Check the size in bytes (the end of rule 2)."""
    owner, n_entries = header.owner, study.table.layout.n_entries
    least, most = 8 * n_entries, largest_contribution(study)
    if study.trust is Trust.AGGREGATE:
        least = 8 * make_terms(study).n_words
        if header.n_bytes > most:
            raise LimitError(f"{header.n_bytes:,} bytes from {owner}; {most:,} are allowed")
    if not least <= header.n_bytes <= most:
        raise UploadError(f"{header.n_bytes} bytes from {owner} for {n_entries} entries")


def _is_stored(record: StudyRecord, header: Header, history: OwnerHistory) -> bool:
    owner = header.owner
    stored = record.find_contribution(owner)
    if stored is not None:
        if stored.release.receipt == header.release.receipt:
            return True
        raise ConflictError(f"{owner} has contributed another release to study {record.study.name}")
    if header.release_id in history.releases:
        raise ConflictError(f"{owner} has used this release for another study")
    return False


def _check_chain(owner: str, head: LedgerHead, seen: LedgerHead | None) -> None:
    if not 1 <= head.length <= MAX_LEDGER_LENGTH:
        raise UploadError(
            f"a ledger of {head.length} entries; {owner} must have at least its charge in it"
        )
    if seen is None or head.length > seen.length or head == seen:
        return
    if head.length < seen.length:
        message = f"the ledger of {owner} has {head.length} entries; it had {seen.length} before"
    else:
        message = f"the ledger of {owner} has another end than before, at {head.length} entries"
    raise ChainError(message)


def _check_receipt(
    study: Study, calibration: Calibration, header: Header, seen: SeenRoles | None
) -> None:
    """Check the receipt (rules 7 and 8)."""
    receipt = header.release.receipt
    if receipt.ledger_sequence > header.chain.length:
        raise UploadError("the receipt's ledger_sequence does not lie in the ledger")
    try:
        require_implied(study, calibration, receipt, owner=header.owner)
        require_signatories(study, header.release)
    except ReceiptError as error:
        raise SchemaMismatchError(str(error)) from error
    require_as_seen(header.owner, header.release.consent, seen)
