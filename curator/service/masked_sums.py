"""Files of masked contributions and openings: check, show to openers, add up.

Whole vectors are read one at a time, and none is read to show or seal a set. While a set is shown,
only the part of one owner is in memory.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

from dppca.common.kernel.aggregation.sum_messages import (
    Opening,
    SignedOpening,
    SignedSeal,
    Upload,
    Vote,
    head_limit,
    read_statement,
    seal_bytes,
    set_digest,
    set_pieces,
    statement_limit,
)
from dppca.common.kernel.attestation.signatures import load_certificate
from dppca.common.kernel.attestation.sums import SignedStatement, SumEvidence
from dppca.common.kernel.errors import LimitError, SignatureError, StoreError, UploadError
from dppca.common.kernel.study import Study
from dppca.curator.store import Spool, SqliteStore
from dppca.curator.study.admission import require_masked
from dppca.curator.study.sealed_set import make_terms, require_sealed
from dppca.curator.study.study_record import Contribution, Header, StudyRecord


class OpeningSpool:
    """Spool for an opening: the sum goes to a file, the ``head_bytes`` before it stay in memory."""

    def __init__(self, spool: Spool, head_bytes: int) -> None:
        self.spool = spool
        self.head = b""
        self._head_bytes = head_bytes
        self._hash = hashlib.sha256()

    @property
    def sha256(self) -> bytes:
        """Digest of all bytes written, 32 bytes."""
        return self._hash.digest()

    def write(self, content: bytes) -> None:
        """Append bytes; raise `StoreError` if the disk is full."""
        self._hash.update(content)
        n_head = self._head_bytes - len(self.head)
        self.head += content[:n_head]
        if len(content) > n_head:
            self.spool.write(content[n_head:])

    def sync(self) -> None:
        """Make the sum durable."""
        self.spool.sync()

    def read(self, study: Study) -> SignedOpening:
        """Return the complete opening; raise `UploadError` or `LimitError` if it does not fit."""
        signed = SignedOpening.read_head(self.head, make_terms(study))
        if signed.total_sha256 != self.spool.sha256:
            raise UploadError(f"the sum of {signed.opener} is not the one that it signed")
        return signed


def require_identity(study: Study, owner: str, certificate: bytes) -> None:
    """Raise `SignatureError` unless a certificate (PEM) has the key that the study names."""
    key = load_certificate(certificate, what=f"the receipt of {owner}").public_key()
    if key != make_terms(study).public_key(owner):
        raise SignatureError(
            f"the certificate of {owner} has another key than study {study.name} names for it"
        )


def check_upload(path: Path, study: Study, header: Header) -> None:
    """Check a masked contribution in a file, in pieces; for the errors, see `require_masked`."""
    terms = make_terms(study)
    try:
        with path.open("rb") as file:
            upload = Upload.read_head(file.read(head_limit(terms)), terms)
            head = upload.head(terms)
            file.seek(0)
            whole = len(head) + 8 * terms.n_words == header.n_bytes
            if not whole or file.read(len(head)) != head:
                raise UploadError(f"the masked upload of {header.owner} is not as long as it says")
            payload_sha256 = hashlib.file_digest(file, "sha256").digest()
    except OSError as error:
        raise StoreError(f"cannot read an upload: {error.strerror}") from error
    require_masked(study, header, upload, payload_sha256)


def digest_set(store: SqliteStore, record: StudyRecord) -> bytes:
    """SHA-256 that names the set of a study's contributions, 32 bytes."""
    first = make_terms(record.study).openers[0]
    return bytes.fromhex(set_digest(each.statement for each in read_seals(store, record, first)))


def set_for(store: SqliteStore, record: StudyRecord, opener: str) -> Iterator[bytes]:
    """Yield one opener's view of the sealed set, in pieces."""
    seals = read_seals(store, record, opener)
    return set_pieces(opener, len(record.contributions), seals)


def read_seals(store: SqliteStore, record: StudyRecord, opener: str) -> Iterator[SignedSeal]:
    """Yield one opener's part of each contribution, by owner; raise `StoreError` for damage."""
    terms = make_terms(record.study)
    place, size = terms.openers.index(opener), seal_bytes(terms)
    for contribution in record.contributions:
        path = store.blobs.path(contribution.sha256)
        try:
            with path.open("rb") as file:
                content = file.read(statement_limit(terms))
                statement, signature, seals_at = read_statement(content, terms)
                file.seek(seals_at + place * size)
                seal = file.read(size)
        except OSError as error:
            raise StoreError(f"cannot read {path}: {error.strerror}") from error
        except (UploadError, LimitError) as error:
            raise _damaged(contribution) from error
        if hashlib.sha256(seal).digest() != statement.seals_sha256[place]:
            raise _damaged(contribution)
        yield SignedSeal(statement, signature, seal)


def read_uploads(store: SqliteStore, record: StudyRecord) -> Iterator[Upload]:
    """Yield the contributions of a study one by one."""
    terms = make_terms(record.study)
    for contribution in record.contributions:
        try:
            yield Upload.from_bytes(store.blobs.read(contribution.sha256), terms)
        except (UploadError, LimitError) as error:
            raise _damaged(contribution) from error


def read_openings(store: SqliteStore, record: StudyRecord) -> Iterator[Opening]:
    """Yield the openings of a study one by one."""
    chosen = require_sealed(record).set_digest.hex()
    digest = make_terms(record.study).digest
    for each in record.openings:
        total = store.blobs.read(each.sha256)
        yield Opening(digest, chosen, each.opener, each.streams, total, each.signature)


def read_evidence(store: SqliteStore, record: StudyRecord) -> SumEvidence:
    """Signed statements of owners and openers on a study's sum, for the components' receipt."""
    terms, chosen = make_terms(record.study), require_sealed(record).set_digest.hex()
    return SumEvidence(
        statements=tuple(
            SignedStatement(each.statement, each.signature)
            for each in read_seals(store, record, terms.openers[0])
        ),
        votes=tuple(Vote.from_bytes(vote.content, terms) for vote in record.votes),
        openings=tuple(
            SignedOpening(terms.digest, chosen, o.opener, o.streams, o.sha256, o.signature)
            for o in record.openings
        ),
        consents={each.opener: json.loads(each.content) for each in record.consents},
    )


def _damaged(contribution: Contribution) -> StoreError:
    name = contribution.sha256.hex()
    return StoreError(f"blob {name} is not a masked upload: restore the state folder from a copy")
