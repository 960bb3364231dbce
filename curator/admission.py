"""Which uploads are taken: pure decisions on what an owner announces.

Rules for a contribution, in the order in which they are applied:

1. The study names the caller. To anybody else there is no such study.
2. The header announces as many entries as the study's schema has.
3. The very same release is acknowledged in every state, without effect: an owner whose
   acknowledgement was lost asks again. Other bytes, or another release, from an owner that has
   contributed are refused; so is a release that was made for another study.
4. The study is open and its deadline has not passed.
5. An owner has at least one row, and all owners together no more than the study's ``max_rows``.
6. The owner's ledger is not shorter than this curator has ever seen it, in any study, and where it
   is as long, it is the same.
7. The receipt is, byte for byte, the one the study implies; noise and charge are computed anew.

The service then compares the signature over the receipt with the key of the call's certificate.

They are applied before the first byte is taken and once more when the last has come, in one
transaction with what is stored: of two uploads at once, one is refused.

Synthetic rows are taken from owners that contributed, once per form, while the study is decomposed
and for its own components only.
"""

from __future__ import annotations

from bisect import bisect
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum, auto
from functools import lru_cache

from common.conversation import Form, Header
from common.errors import (
    ArtefactError,
    ChainError,
    ConflictError,
    SchemaMismatchError,
    StudyStateError,
    UnknownStudyError,
    UploadError,
)
from common.privacy.release import Receipt, calibrate, receipt_for, receipt_from_bytes
from common.study import Study
from curator.protocol import Step, next_state
from curator.record import (
    Chain,
    Contribution,
    OwnerHistory,
    Publication,
    StudyRecord,
    by_owner,
)

MAX_SOFTWARE_LENGTH = 128
MAX_LEDGER_LENGTH = 1 << 53
_ADMITTED_KEPT = 64
"""Headers that were found right and are remembered: more than there are uploads at once."""


class Verdict(Enum):
    """What is done with an upload that was not refused."""

    ACCEPT = auto()
    ALREADY_STORED = auto()


@dataclass(frozen=True, slots=True)
class SyntheticHeader:
    """What an owner says of its synthetic rows before the first byte. Digests are raw bytes."""

    study_digest: bytes
    form: Form
    n_rows: int
    total_bytes: int
    sha256: bytes
    components_sha256: bytes


def admit(
    record: StudyRecord, owner: str, header: Header, history: OwnerHistory, *, now: datetime
) -> Verdict:
    """Decide on a contribution by its header (rules 1 to 7).

    Parameters
    ----------
    owner
        From the certificate.
    header
        Well formed, but not believed.
    history
        Of this owner, over all studies.
    now
        Aware.

    Raises
    ------
    UnknownStudyError, SchemaMismatchError, ConflictError, StudyStateError, UploadError, ChainError
        By the rule that is broken.
    """
    study = record.study
    require_named(record, owner)
    expected = study.table.layout.n_entries
    if header.n_entries != expected:
        message = f"{header.n_entries} entries from {owner}; the study's schema has {expected}"
        raise SchemaMismatchError(message)
    if _is_stored(record, owner, header, history):
        return Verdict.ALREADY_STORED
    next_state(record, Step.CONTRIBUTE)
    if study.deadline_passed(now):
        message = f"the deadline of study {study.name} has passed"
        raise StudyStateError(message)
    room = study.max_rows - record.n_rows
    if not 1 <= header.n_rows <= room:
        message = f"{header.n_rows} rows from {owner}; 1 to {room} can be taken (max_rows)"
        raise UploadError(message)
    _check_chain(owner, Chain(header.ledger_length, header.ledger_head), history.chain)
    _check_receipt(study, header)
    return Verdict.ACCEPT


def contribute(
    record: StudyRecord, owner: str, header: Header, history: OwnerHistory, *, now: datetime
) -> StudyRecord:
    """The study with one more contribution, whose bytes are stored; as `admit` otherwise.

    Raises
    ------
    ConflictError
        The same release has been stored meanwhile.
    """
    if admit(record, owner, header, history, now=now) is Verdict.ALREADY_STORED:
        message = f"the release of {owner} is stored already"
        raise ConflictError(message)
    accepted = Contribution(
        owner=owner,
        release_id=header.release_id,
        n_rows=header.n_rows,
        n_bytes=header.total_bytes,
        sha256=header.sha256,
        chain=Chain(header.ledger_length, header.ledger_head),
        receipt=header.receipt,
        received_s=int(now.timestamp()),
        signature=header.signature,
        certificate=header.certificate,
    )
    state, before = next_state(record, Step.CONTRIBUTE), record.contributions
    place = bisect(before, owner, key=by_owner)
    together = (*before[:place], accepted, *before[place:])
    return replace(record, state=state, contributions=together)


def admit_publication(record: StudyRecord, owner: str, header: SyntheticHeader) -> Verdict:
    """Decide on synthetic rows by their header.

    Raises
    ------
    UnknownStudyError, StudyStateError, ConflictError, UploadError
    """
    require_named(record, owner)
    stored = record.publication_of(owner, header.form)
    if stored is not None:
        if (stored.sha256, stored.n_rows) == (header.sha256, header.n_rows):
            return Verdict.ALREADY_STORED
        message = f"{owner} has published other {header.form.value} rows already"
        raise ConflictError(message)
    next_state(record, Step.PUBLISH)
    if record.contribution_of(owner) is None:
        message = f"{owner} took no part in study {record.study.name}"
        raise StudyStateError(message)
    if record.result is None or header.components_sha256 != record.result.sha256:
        message = f"the rows of {owner} were drawn from other components than this study's"
        raise UploadError(message)
    if header.n_rows < 1:
        message = f"{owner} announces no synthetic row"
        raise UploadError(message)
    return Verdict.ACCEPT


def publish(
    record: StudyRecord, owner: str, header: SyntheticHeader, *, now: datetime
) -> StudyRecord:
    """The study with synthetic rows, whose bytes are stored; as `admit_publication` otherwise."""
    if admit_publication(record, owner, header) is Verdict.ALREADY_STORED:
        message = f"the {header.form.value} rows of {owner} are stored already"
        raise ConflictError(message)
    accepted = Publication(
        owner=owner,
        form=header.form,
        n_rows=header.n_rows,
        n_bytes=header.total_bytes,
        sha256=header.sha256,
        received_s=int(now.timestamp()),
    )
    together = sorted((*record.publications, accepted), key=lambda p: (p.owner, p.form.value))
    return replace(record, state=next_state(record, Step.PUBLISH), publications=tuple(together))


def require_named(record: StudyRecord, owner: str) -> None:
    """Refuse whoever the study does not name, as if there were no such study."""
    if owner not in record.study.owners:
        message = f"study {record.study.name} does not name {owner}"
        raise UnknownStudyError(message)


def _is_stored(record: StudyRecord, owner: str, header: Header, history: OwnerHistory) -> bool:
    stored = record.contribution_of(owner)
    if stored is not None:
        same = (stored.release_id, stored.sha256, stored.n_rows, stored.receipt)
        if same == (header.release_id, header.sha256, header.n_rows, header.receipt):
            return True
        message = f"{owner} has contributed another release to study {record.study.name}"
        raise ConflictError(message)
    if header.release_id in history.releases:
        message = f"{owner} has used this release for another study"
        raise ConflictError(message)
    return False


def _check_chain(owner: str, said: Chain, seen: Chain | None) -> None:
    if not 1 <= said.length <= MAX_LEDGER_LENGTH:
        message = f"a ledger of {said.length} entries; {owner} must have at least its charge in it"
        raise UploadError(message)
    if seen is None or said.length > seen.length or said == seen:
        return
    if said.length < seen.length:
        message = f"the ledger of {owner} has {said.length} entries; it had {seen.length} before"
    else:
        message = f"the ledger of {owner} ends otherwise than it did with {said.length} entries"
    raise ChainError(message)


@lru_cache(maxsize=_ADMITTED_KEPT)
def _check_receipt(study: Study, header: Header) -> None:
    """Rule 7. A field the study decides: the parties' documents differ; another: a bad upload.

    Nothing but the arguments decides, so what was found right before the first byte is not compared
    again after the last.
    """
    try:
        receipt = receipt_from_bytes(header.receipt)
    except ArtefactError as error:
        raise UploadError(str(error)) from error
    _check_free_fields(receipt, header)
    expected = receipt_for(
        study,
        calibrate(study),
        release_id=header.release_id,
        n_rows=header.n_rows,
        payload_sha256=header.sha256.hex(),
        ledger_sequence=receipt.ledger_sequence,
        software=receipt.software,
    )
    if expected.canonical_bytes() == header.receipt:
        return
    found = asdict(receipt)
    # Compared as text: 1, 1.0 and true are equal numbers but not one receipt.
    wrong = [name for name, value in asdict(expected).items() if repr(found[name]) != repr(value)]
    message = f"the receipt differs from what the study implies in: {', '.join(wrong)}"
    if set(wrong) <= {"release_id", "n_rows", "payload_sha256"}:
        raise UploadError(message)
    raise SchemaMismatchError(message)


def _check_free_fields(receipt: Receipt, header: Header) -> None:
    sequence, software = receipt.ledger_sequence, receipt.software
    if type(sequence) is not int or not 0 <= sequence <= header.ledger_length:
        message = "the receipt's ledger_sequence does not lie in the ledger"
        raise UploadError(message)
    if type(software) is not str or not len(software) <= MAX_SOFTWARE_LENGTH:
        message = "the receipt's software is not a short text"
        raise UploadError(message)
