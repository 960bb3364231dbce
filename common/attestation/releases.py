"""Signed release of an owner: its receipt, in an envelope whose subject is the upload.

The envelope travels with an upload, and then in every file that is made of the release. It is made
at each sending: the same receipt, signed by the same key, gives the same bytes.
"""

import json
from dataclasses import dataclass, field

from dppca.common.attestation.envelopes import (
    Claim,
    open_envelope,
    sign_statement,
    unchecked_predicate,
)
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.results import Share
from dppca.common.attestation.signatures import Signer
from dppca.common.errors import ArtefactError, ReceiptError, SignatureError
from dppca.common.privacy.release import MomentReceipt, read_moment_receipt
from dppca.common.transport.tls import Identity, Role

MAX_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """Part of one owner in a study.

    Attributes
    ----------
    envelope
        Envelope that the owner signed, with the receipt. It is empty only in memory, in a simulated
        study.
    """

    owner: str
    receipt: MomentReceipt = field(hash=False)
    envelope: bytes

    @property
    def share(self) -> Share:
        """Entry of the release in the lists of results and tables."""
        receipt = self.receipt
        return Share(self.owner, receipt.release_id, receipt.n_rows, receipt.claims.payload_sha256)


def sign_release(owner: str, receipt: bytes, signer: Signer) -> bytes:
    """Return the envelope of a release; the bytes are the same each time.

    Parameters
    ----------
    receipt
        Canonical JSON.
    """
    document = json.loads(receipt)
    name = f"contribution of {owner}"
    return sign_statement(name, document["payload_sha256"], Claim.RELEASE, document, signer)


def open_release(envelope: bytes, owner: str, parties: KnownParties) -> SignedRelease:
    """Check the signature of an owner's release and return it; its claims are not checked here.

    Raises
    ------
    SignatureError
        The release is not signed by this owner, or the certificate is not accepted.
    ReceiptError
        The envelope holds no receipt, or the receipt of another upload than its subject.
    """
    what = f"the receipt of {owner}"
    statement = open_envelope(envelope, Claim.RELEASE, parties, what=what, as_written=True)
    who = statement.signed_by
    if who != Identity(owner, Role.OWNER):
        raise SignatureError(f"{what} was signed by {who.role.value} {who.name}")
    try:
        receipt = read_moment_receipt(statement.predicate)
    except ArtefactError as error:
        raise ReceiptError(f"{what}: {error}") from error
    if receipt.claims.payload_sha256 != statement.sha256:
        raise ReceiptError(f"{what} is signed for another upload than it names")
    return SignedRelease(owner, receipt, envelope)


def unchecked_receipt(envelope: bytes) -> MomentReceipt:
    """Return the receipt in an envelope without a signature check; `ReceiptError` without one."""
    try:
        return read_moment_receipt(unchecked_predicate(envelope))
    except ArtefactError as error:
        raise ReceiptError(str(error)) from error
