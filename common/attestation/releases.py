"""An owner's release as it signed it: the receipt, in an envelope whose subject is the upload.

The envelope travels with an upload, and on in every file that is made of the release. It is made
at each sending: the same receipt signed by the same key gives the same bytes.
"""

from __future__ import annotations

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
    """One owner's part in a study.

    Attributes
    ----------
    envelope
        Signed by the owner; the receipt is in it. Empty in memory alone, where a study is only
        simulated.
    """

    owner: str
    receipt: MomentReceipt = field(hash=False)
    envelope: bytes

    @property
    def share(self) -> Share:
        """The release as results and tables list it."""
        receipt = self.receipt
        return Share(self.owner, receipt.release_id, receipt.n_rows, receipt.claims.payload_sha256)


def sign_release(owner: str, receipt: bytes, signer: Signer) -> bytes:
    """The envelope of a release; the same bytes each time.

    Parameters
    ----------
    receipt
        Canonical JSON.
    """
    document = json.loads(receipt)
    name = f"contribution of {owner}"
    return sign_statement(name, document["payload_sha256"], Claim.RELEASE, document, signer)


def open_release(envelope: bytes, owner: str, parties: KnownParties) -> SignedRelease:
    """An owner's release, once its signature holds; its claims are not compared with a study.

    Raises
    ------
    SignatureError
        It is not signed by this owner, or the certificate does not count.
    ReceiptError
        It holds no receipt, or that of another upload than its subject.
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
    """The receipt in an envelope whose signature is not looked at; `ReceiptError` without one."""
    try:
        return read_moment_receipt(unchecked_predicate(envelope))
    except ArtefactError as error:
        raise ReceiptError(str(error)) from error
