"""Evidence that the sum in a result is the sum of signed uploads, and that it was opened once.

With ``trust: aggregate`` the curator never holds an owner's sums, so the components' receipt holds,
beside each owner's receipt: the owner's signed statement of its masked upload, the openers' votes,
and their signed statements of their sums. These and the study are enough to check that

1. each upload belongs to the owner whose key stands in the study, and to its receipt;
2. the votes and openings are for the set of exactly these uploads, signed by openers;
3. every stream of masks was opened, once.

With the uploads and the openers' sums, `require_sum` also checks that they add up to the sum in the
result. For ``trust: owner`` it needs the owners' vectors alone.

Limits: only an opener's ledger shows that it opened no second set. If one honest opener did not
open one, a second set could not be added up.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dppca.common.kernel.aggregation.pooling import require_opening
from dppca.common.kernel.aggregation.sum_messages import (
    SignedOpening,
    Statement,
    Upload,
    Vote,
    require_signed,
    require_vote,
    set_digest,
)
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.attestation.contributions import SignedRelease, require_opening_people
from dppca.common.kernel.attestation.envelopes import signing_certificate
from dppca.common.kernel.attestation.signatures import load_certificate
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.errors import (
    AlteredError,
    ConflictError,
    LimitError,
    PermissionDeniedError,
    ReceiptError,
    SettingError,
    SignatureError,
    StudyError,
    UploadError,
)
from dppca.common.kernel.privacy.release import MaskedClaims
from dppca.common.kernel.signing import Purpose
from dppca.common.kernel.study import Study, Trust

_WHAT = "the receipt of the components"


@dataclass(frozen=True, slots=True)
class SignedStatement:
    """Statement that an owner signed about its upload, and the signature (DER)."""

    statement: Statement
    signature: bytes


@dataclass(frozen=True, slots=True)
class SumEvidence:
    """Signed parts of a masked sum, without its vectors.

    Attributes
    ----------
    statements
        Statements of the owners that were added up, names ascending.
    votes
        Votes for the set; none if the study has no spares.
    openings
        Openings that were added up.
    consents
        What people signed of the set, by opener whom the study pins.
    """

    statements: tuple[SignedStatement, ...]
    votes: tuple[Vote, ...]
    openings: tuple[SignedOpening, ...]
    consents: Mapping[str, Any] = field(default_factory=dict, hash=False)


ListedSum = dict[str, Any]
"""`SumEvidence` in a receipt: statements by owner, votes and openings; digests in hexadecimal."""


def describe_sum(evidence: SumEvidence) -> ListedSum:
    """Return the evidence, which has at least one statement, in the form of a receipt."""
    statements = [each.statement for each in evidence.statements]
    return {
        "terms": statements[0].terms.hex(),
        "set_digest": set_digest(statements),
        "statements": {
            each.statement.owner: {
                "payload_sha256": each.statement.payload_sha256.hex(),
                "seals_sha256": [digest.hex() for digest in each.statement.seals_sha256],
                "signature": each.signature.hex(),
            }
            for each in evidence.statements
        },
        "votes": [
            {"opener": each.opener, "signature": each.signature.hex()}
            for each in sorted(evidence.votes, key=lambda vote: vote.opener)
        ],
        "openings": [
            {
                "opener": each.opener,
                "streams": list(each.streams),
                "total_sha256": each.total_sha256.hex(),
                "signature": each.signature.hex(),
            }
            for each in sorted(evidence.openings, key=lambda opening: opening.streams)
        ],
        **({"consents": dict(evidence.consents)} if evidence.consents else {}),
    }


def read_sum(document: Mapping[str, Any], terms: Terms) -> SumEvidence:
    """Read the evidence from a receipt; its claims are not checked.

    Raises
    ------
    KeyError, TypeError, ValueError, AttributeError
        A field is missing or has a wrong form.
    """
    if not document["statements"]:
        raise ValueError("a sum has statements")
    chosen = str(document["set_digest"])
    return SumEvidence(
        statements=tuple(
            SignedStatement(
                Statement(
                    bytes.fromhex(terms.digest),
                    owner,
                    _digest(each["payload_sha256"]),
                    tuple(_digest(digest) for digest in each["seals_sha256"]),
                ),
                bytes.fromhex(each["signature"]),
            )
            for owner, each in document["statements"].items()
        ),
        votes=tuple(
            Vote(terms.digest, chosen, str(each["opener"]), bytes.fromhex(each["signature"]))
            for each in document["votes"]
        ),
        openings=tuple(
            SignedOpening(
                terms.digest,
                chosen,
                str(each["opener"]),
                tuple(_stream(number, terms) for number in each["streams"]),
                _digest(each["total_sha256"]),
                bytes.fromhex(each["signature"]),
            )
            for each in document["openings"]
        ),
        consents=dict(document.get("consents", {})),
    )


def read_terms(study: Study) -> Terms | None:
    """Return the terms of a masked sum; None for ``trust: owner``.

    Raises
    ------
    AlteredError
        The study's document has no valid keys.
    """
    if study.trust is Trust.OWNER:
        return None
    try:
        return Terms.from_study(study)
    except StudyError as error:
        raise AlteredError(f"the study's document in the receipt: {error}") from error


def require_evidence(
    terms: Terms, evidence: SumEvidence, releases: Sequence[SignedRelease]
) -> None:
    """Check all signed parts of a masked sum: the three points in the module's docstring.

    Parameters
    ----------
    releases
        Releases of the owners that the receipt names; each was checked by itself.

    Raises
    ------
    SignatureError
        A signature is not by the key in the study; the message names the party.
    ReceiptError
        A signed part belongs to another sum.
    """
    statements = {each.statement.owner: each for each in evidence.statements}
    if [release.owner for release in releases] != sorted(statements):
        raise ReceiptError(f"{_WHAT} has statements of other owners than it has receipts of")
    for release in releases:
        _require_statement(terms, statements[release.owner], release)
    chosen = set_digest(statements[release.owner].statement for release in releases)
    try:
        for vote in evidence.votes:
            require_vote(terms, chosen, vote)
        for opening in evidence.openings:
            require_opening(terms, chosen, opening)
    except (PermissionDeniedError, ConflictError, UploadError) as error:
        raise ReceiptError(f"{_WHAT}: {error}") from error
    voters = {vote.opener for vote in evidence.votes}
    if len(voters) != len(evidence.votes) or len(voters) < terms.votes_needed:
        raise ReceiptError(
            f"{_WHAT} has {len(evidence.votes)} votes of {len(voters)} openers; "
            f"{terms.votes_needed} must have voted, each once"
        )
    opened = sorted(stream for opening in evidence.openings for stream in opening.streams)
    if opened != list(range(len(terms.holders))):
        raise ReceiptError(f"{_WHAT} does not have every stream of masks opened once")


def require_openers(study: Study, evidence: SumEvidence) -> tuple[SignedByPeople, ...]:
    """Return the people who signed what each opener says whom the study pins; see `require_people`.

    The evidence was checked (`require_evidence`).
    """
    chosen = set_digest(each.statement for each in evidence.statements)
    openers = {vote.opener for vote in evidence.votes} | {each.opener for each in evidence.openings}
    found = (
        require_opening_people(study, opener, chosen, evidence.consents.get(opener))
        for opener in sorted(openers | evidence.consents.keys())
    )
    return tuple(each for each in found if each is not None)


def require_sum(
    study: Study,
    releases: Sequence[SignedRelease],
    evidence: SumEvidence | None,
    pooled: NDArray[np.int64],
    folder: Path,
) -> None:
    """Add up the uploads and openings, and compare the sum with the result's.

    One vector is in memory at a time.

    Parameters
    ----------
    releases, evidence
        Parts of a receipt that was checked; ``evidence`` is None for ``trust: owner``.
    pooled
        Pooled sums of the result, shape (D,).
    folder
        Folder of files that are named by the SHA-256 of their content, hexadecimal, as in a
        curator's store: each owner's upload (`payload_sha256`), each opener's sum
        (`total_sha256`).

    Raises
    ------
    SettingError
        A file is missing, or cannot be read.
    AlteredError
        A file has another content, or the sum differs from the result's.
    """
    terms = read_terms(study)
    words = np.zeros(len(pooled) if terms is None else terms.n_words, np.uint64)
    for part in _vectors(terms, releases, evidence, folder):
        if len(part) != words.nbytes:
            raise AlteredError(
                f"a vector in {folder} has {len(part):,} bytes, not {words.nbytes:,}"
            )
        words += np.frombuffer(part, "<u8")
    if words[len(pooled) :].any():
        raise AlteredError("the openings do not fit the uploads: the guards do not add up to 0")
    if not np.array_equal(words[: len(pooled)], pooled.view(np.uint64)):
        raise AlteredError("array pooled: it is not the sum of what the owners sent")


def _vectors(
    terms: Terms | None,
    releases: Sequence[SignedRelease],
    evidence: SumEvidence | None,
    folder: Path,
) -> Iterator[bytes]:
    """Yield the vectors that must add up to the result's sum."""
    for release in releases:
        digest = release.receipt.claims.payload_sha256
        content = _named(folder, digest, f"the contribution of {release.owner}")
        yield content if terms is None else _masked(terms, content, release.owner, evidence)
    for opening in () if evidence is None else evidence.openings:
        yield _named(folder, opening.total_sha256.hex(), f"the sum of {opening.opener}")


def _masked(terms: Terms, content: bytes, owner: str, evidence: SumEvidence | None) -> bytes:
    """Return an upload's masked vector, compared with its owner's signed statement."""
    try:
        upload = Upload.from_bytes(content, terms)
    except (UploadError, LimitError) as error:
        raise AlteredError(f"the contribution of {owner}: {error}") from error
    signed = () if evidence is None else (each.statement for each in evidence.statements)
    if upload.statement.owner != owner or upload.statement not in signed:
        raise AlteredError(f"the contribution of {owner} is not what the receipt says of it")
    if hashlib.sha256(upload.payload).digest() != upload.statement.payload_sha256:
        raise AlteredError(f"the masked vector of {owner} is not the one that it signed")
    return upload.payload


def _named(folder: Path, digest: str, what: str) -> bytes:
    try:
        content = (folder / digest).read_bytes()
    except OSError as error:
        raise SettingError(
            f"cannot read {folder / digest}, {what}: {error.strerror}. --uploads takes a folder "
            "that has them all, each named by its SHA-256"
        ) from error
    if hashlib.sha256(content).hexdigest() != digest:
        raise AlteredError(f"{folder / digest}, {what}: its content is not of this name")
    return content


def _require_statement(terms: Terms, signed: SignedStatement, release: SignedRelease) -> None:
    """Require this owner's statement, signed by its key in the study and named by its receipt."""
    owner, content = release.owner, signed.statement.to_bytes()
    what = f"the statement of {owner}"
    try:
        require_signed(terms, owner, Purpose.UPLOAD, content, signed.signature)
        Statement.from_bytes(content, terms)
        key = terms.public_key(owner)
    except (PermissionDeniedError, UploadError, LimitError) as error:
        raise ReceiptError(f"{what}: {error}") from error
    certificate = signing_certificate(release.envelope)
    if load_certificate(certificate, what=what).public_key() != key:
        raise SignatureError(
            f"the receipt of {owner} was signed by another key than the study names for it"
        )
    claims = release.receipt.claims
    stated = claims.statement_sha256 if isinstance(claims, MaskedClaims) else None
    if stated != hashlib.sha256(content).hexdigest():
        raise ReceiptError(f"{what} is not the one that its receipt names")


def _digest(text: str) -> bytes:
    return bytes.fromhex(text)


def _stream(number: object, terms: Terms) -> int:
    if not isinstance(number, int) or not 0 <= number < len(terms.holders):
        raise ValueError(f"{number!r} is no stream")
    return int(number)
