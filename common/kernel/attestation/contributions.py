"""Statements signed about a contribution: the owner's release, the curator's acknowledgement.

A release is a receipt in an envelope whose subject is the upload. The envelope travels with the
upload, and then in every file that is made of the release. It is made at each sending: the same
receipt, signed by the same key, gives the same bytes.

With the acknowledgement the curator signs that it has stored one release of one owner for one
study; the owner can show it to others. A result lists every release that it is made of. If it
leaves out an acknowledged release, or lists another in its place, the two documents together prove
that. An acknowledgement holds no time, so the same contribution sent again gets the same document.

Limits: a curator that signs nothing is refused, but it has the release by then. Only the owner's
own ledger shows that, and `dppca-owner components` compares the result with the ledger. A result
does not show the releases that were added up: one may be listed and not used, or used and not
listed.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Self

from dppca.common.kernel.attestation.documents import Acknowledged, Verification
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    open_envelope,
    sign_statement,
    unchecked_predicate,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Share
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.errors import (
    ArtefactError,
    ContradictionError,
    ReceiptError,
    SettingError,
    SignatureError,
)
from dppca.common.kernel.identity.tls import Identity, Role
from dppca.common.kernel.privacy.receipts import Receipt
from dppca.common.kernel.privacy.release import MomentReceipt, read_moment_receipt

if TYPE_CHECKING:
    from dppca.common.kernel.study import Study

MAX_BYTES = 64 << 10  # of an acknowledgement's envelope
_ACKNOWLEDGEMENT, _CONSENT = "the acknowledgement", "consent"
_NOISE = ("mechanism", "epsilon", "delta", "charged_epsilon", "charged_rho")


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """Part of one owner in a study.

    Attributes
    ----------
    envelope
        Envelope that the owner signed, with the receipt. It is empty only in memory, in a simulated
        study.
    consent
        What stands beside the receipt of what people at the owner have signed
        (`require_signatories`); None if nothing does.
    """

    owner: str
    receipt: MomentReceipt = field(hash=False)
    envelope: bytes
    consent: object = field(default=None, hash=False)

    @property
    def share(self) -> Share:
        """Entry of the release in the lists of results and tables."""
        receipt = self.receipt
        return Share(self.owner, receipt.release_id, receipt.n_rows, receipt.claims.payload_sha256)


def sign_release(
    owner: str, receipt: bytes, signer: Signer, consent: Mapping[str, Any] | None = None
) -> bytes:
    """Return the envelope of a release; the bytes are the same each time.

    Parameters
    ----------
    receipt
        Canonical JSON.
    consent
        What people of the owner have signed, where the study asks for it
        (`dppca.common.kernel.consent.pins`).
    """
    document = json.loads(receipt)
    if consent is not None:
        document[_CONSENT] = consent
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
        receipt, consent = _receipt_in(statement.predicate)
    except ArtefactError as error:
        raise ReceiptError(f"{what}: {error}") from error
    if receipt.claims.payload_sha256 != statement.sha256:
        raise ReceiptError(f"{what} is signed for another upload than it names")
    return SignedRelease(owner, receipt, envelope, consent)


def unchecked_receipt(envelope: bytes) -> MomentReceipt:
    """Return the receipt in an envelope without a signature check; `ReceiptError` without one."""
    try:
        return _receipt_in(unchecked_predicate(envelope))[0]
    except ArtefactError as error:
        raise ReceiptError(str(error)) from error


def _receipt_in(predicate: Mapping[str, Any]) -> tuple[MomentReceipt, object]:
    """Return the receipt of a release, and what stands beside it of people's signatures."""
    receipt = {key: value for key, value in predicate.items() if key != _CONSENT}
    if predicate.get(_CONSENT, _CONSENT) is None:
        raise ArtefactError("the receipt has a field of another form than this version can read")
    return read_moment_receipt(receipt), predicate.get(_CONSENT)


def require_signatories(study: "Study", release: SignedRelease) -> SignedByPeople | None:
    """Return the people who have signed a release, as its study asks; None where it asks nobody.

    Raise as `require_people`.
    """
    terms = {
        "study_digest": study.digest,
        "content_digest": study.digest,
        "colluders": study.privacy.colluders,
        "honest": study.n_honest_owners,
    }
    kind, receipt = StatementKind.CONTRIBUTION, release.receipt
    return require_people(study, release.owner, receipt, release.consent, kind=kind, terms=terms)


def require_opening_people(
    study: "Study", opener: str, set_digest: str, consent: object
) -> SignedByPeople | None:
    """Return the people who have signed what an opener says of a set; else as `require_people`.

    They may have signed it beforehand, with its contribution to this study.
    """
    terms = {"study_digest": study.digest, "content_digest": set_digest}
    beforehand = {"kind": StatementKind.CONTRIBUTION, "study": study.name}
    return require_people(
        study,
        opener,
        None,
        consent,
        kind=StatementKind.OPENING,
        terms=terms,
        beforehand={**beforehand, "study_digest": study.digest},
    )


def require_people(
    study: "Study",
    owner: str,
    receipt: Receipt[Any] | None,
    consent: object,
    *,
    kind: StatementKind,
    terms: Mapping[str, object],
    beforehand: Mapping[str, object] | None = None,
) -> SignedByPeople | None:
    """Return the people of an owner who have signed something; None if nobody is pinned.

    ``terms`` are what a statement says of it beside its noise, of which an opening has none;
    ``beforehand`` are those of a contribution that allows it (`require_consent`). Raise
    `SignatureError` if the study asks for more, or `ReceiptError` if it asks for nothing and
    something is there.
    """
    pin = (study.signatories or {}).get(owner)
    if pin is None:
        if consent is not None:
            raise ReceiptError(f"what {owner} sent has signatures of people there")
        return None
    from dppca.common.kernel.consent.pins import require_consent  # few studies pin anybody

    asked = {"kind": kind, "study": study.name, "colluders": None, "honest": None, **terms}
    asked |= {key: None if receipt is None else getattr(receipt.noise, key) for key in _NOISE}
    if receipt is not None:
        asked["release_id"] = receipt.release_id
    return require_consent(
        consent,
        owner=owner,
        roles_sha256=pin.roles,
        needed=pin.needed,
        terms=asked,
        beforehand=beforehand,
    )


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
        raise ReceiptError(f"{_ACKNOWLEDGEMENT} has more than {MAX_BYTES} bytes")
    statement = open_envelope(content, Claim.ACKNOWLEDGEMENT, parties, what=_ACKNOWLEDGEMENT)
    curator, claims = statement.signed_by, statement.predicate
    if curator.role is not Role.CURATOR:
        raise SignatureError(
            f"{_ACKNOWLEDGEMENT} was signed by {curator.role.value} "
            f"{curator.name}, who is not a curator"
        )
    kinds = dict.fromkeys(AcknowledgedContribution.__dataclass_fields__, str) | {"n_rows": int}
    if {name: type(value) for name, value in claims.items()} != kinds:
        raise ReceiptError(f"{_ACKNOWLEDGEMENT} does not have the fields of an acknowledgement")
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
        raise ReceiptError(f"{_ACKNOWLEDGEMENT} that the curator sent is of another contribution")


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
            f"{_ACKNOWLEDGEMENT} is of study {contribution.study_digest[:16]}, and the file is not"
        )
    listed = next((each for each in report.owners if each.owner == contribution.owner), None)
    release = f"release {contribution.release_id} of {contribution.owner}"
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
