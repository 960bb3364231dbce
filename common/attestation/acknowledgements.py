"""Signed acknowledgement of a contribution, which its owner can show to others.

The curator signs that it has stored one release of one owner for one study. A result lists every
release that it is made of. If it leaves out an acknowledged release, or lists another in its place,
the two documents together prove that.

An acknowledgement holds no time, so the same contribution sent again gets the same document.

Limits: a curator that signs nothing is refused, but it has the release by then. Only the owner's
own ledger shows that, and `dppca-owner components` compares the result with the ledger. A result
does not show the releases that were added up: one may be listed and not used, or used and not
listed.
"""

from dataclasses import asdict, dataclass
from typing import Self

from dppca.common.attestation.documents import Acknowledged, Verification
from dppca.common.attestation.envelopes import (
    Claim,
    open_envelope,
    sign_statement,
    unchecked_predicate,
)
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.releases import SignedRelease
from dppca.common.attestation.signatures import Signer
from dppca.common.errors import ContradictionError, ReceiptError, SettingError, SignatureError
from dppca.common.transport.tls import Identity, Role

MAX_BYTES = 64 << 10
_WHAT = "the acknowledgement"


@dataclass(frozen=True, slots=True)
class AcknowledgedContribution:
    """Contribution that a curator has stored; ``release_id`` and digests in hexadecimal."""

    study_digest: str
    owner: str
    release_id: str
    n_rows: int
    payload_sha256: str

    @classmethod
    def of(cls, release: SignedRelease) -> Self:
        """Return the claims that an acknowledgement of a release makes."""
        return cls(release.receipt.study_digest, **asdict(release.share))


def acknowledge(contribution: AcknowledgedContribution, signer: Signer) -> bytes:
    """Return a curator's signed acknowledgement; the bytes are the same each time."""
    name = f"contribution of {contribution.owner}"
    return sign_statement(
        name, contribution.payload_sha256, Claim.ACKNOWLEDGEMENT, asdict(contribution), signer
    )


def read_acknowledgement(
    content: bytes, parties: KnownParties
) -> tuple[AcknowledgedContribution, Identity]:
    """Return the acknowledged contribution and the curator that signed.

    Raise `ReceiptError` if the content is no acknowledgement and `SignatureError` if no curator of
    the authority signed it.
    """
    if len(content) > MAX_BYTES:
        raise ReceiptError(f"{_WHAT} has more than {MAX_BYTES} bytes")
    statement = open_envelope(content, Claim.ACKNOWLEDGEMENT, parties, what=_WHAT)
    curator, claims = statement.signed_by, statement.predicate
    if curator.role is not Role.CURATOR:
        raise SignatureError(
            f"{_WHAT} was signed by {curator.role.value} {curator.name}, who is not a curator"
        )
    kinds = dict.fromkeys(AcknowledgedContribution.__dataclass_fields__, str) | {"n_rows": int}
    if {name: type(value) for name, value in claims.items()} != kinds:
        raise ReceiptError(f"{_WHAT} does not have the fields of an acknowledgement")
    contribution = AcknowledgedContribution(**claims)
    statement.require_digest(contribution.payload_sha256)
    return contribution, curator


def read_study_digest(content: bytes) -> str | None:
    """Return the digest of the study that an acknowledgement names; nothing is checked."""
    try:
        return str(unchecked_predicate(content)["study_digest"])
    except (SignatureError, ReceiptError, KeyError):
        return None


def require_acknowledged(
    content: bytes, contribution: AcknowledgedContribution, *, ca: bytes
) -> None:
    """Raise `ReceiptError` or `SignatureError` unless the bytes acknowledge this contribution."""
    acknowledgement, _ = read_acknowledgement(content, KnownParties(ca))
    if acknowledgement != contribution:
        raise ReceiptError(f"{_WHAT} that the curator sent is of another contribution")


def compare(content: bytes, report: Verification, parties: KnownParties) -> Acknowledged:
    """Compare an acknowledgement with a verified result, and return it if the result agrees.

    Raise as `read_acknowledgement`, and:

    Raises
    ------
    ContradictionError
        The result leaves the contribution out, or lists another in its place.
    SettingError
        They belong to two studies, or no authority was given to identify the signer.
    """
    if parties.authority() is None:
        raise SettingError(
            "an acknowledgement can be judged only with the authority's certificate: --ca"
        )
    contribution, curator = read_acknowledgement(content, parties)
    if report.study_digest != contribution.study_digest:
        raise SettingError(
            f"{_WHAT} is of study {contribution.study_digest[:16]}, and the file is not"
        )
    listed = next((each for each in report.owners if each.owner == contribution.owner), None)
    release = (
        f"release {contribution.release_id} of {contribution.owner}, {contribution.n_rows} rows"
    )
    if listed is None:
        fault = f"the result leaves {contribution.owner} out"
    elif (listed.release_id, listed.payload_sha256) != (
        contribution.release_id,
        contribution.payload_sha256,
    ):
        fault = f"the result lists release {listed.release_id} in its place"
    else:
        return Acknowledged(contribution.owner, contribution.release_id, curator.name)
    raise ContradictionError(
        f"CONTRADICTION: curator {curator.name} signed that it has stored {release}, for this "
        f"study, and curator {report.countersigned_by} signed a result without it: {fault}. "
        "The two files show this to anybody who has the authority's certificate"
    )
