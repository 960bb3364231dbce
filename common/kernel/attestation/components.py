"""Receipt of a study's result, which the curator makes and every holder can check.

A result is a study's components or, if the study continues another, counts of its tables; then the
receipt holds the envelope of the other study's result.

The receipt holds the study's document, every owner's receipt in the envelope that the owner signed,
and the federation's guarantee with its assumptions. The curator signs it together with the SHA-256
of the result file, in the envelope of that file. Files that are made from the components carry this
envelope.

For ``trust: aggregate`` its version is 2, and it holds the signatures on the masked sum
(`dppca.common.kernel.attestation.sums`).
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from dppca.common.kernel.attestation.claims import (
    ProvedGuarantee,
    describe_federation,
    describe_mechanism,
    require_equal,
    require_implied,
    study_in,
)
from dppca.common.kernel.attestation.contributions import (
    SignedRelease,
    open_release,
    require_signatories,
)
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    FileStatement,
    SignedFile,
    embed,
    embedded,
    open_envelope,
    sign_file,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.results import Result, result_to_bytes
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.attestation.sums import (
    SumEvidence,
    describe_sum,
    read_sum,
    read_terms,
    require_evidence,
    require_openers,
)
from dppca.common.kernel.consent.signed_people import SignedByPeople
from dppca.common.kernel.documents.values import canonical_json, to_document
from dppca.common.kernel.errors import ReceiptError, SettingError, SignatureError, StudyError
from dppca.common.kernel.identity.tls import Identity, Role
from dppca.common.kernel.privacy.composition import Round
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.mechanisms import Calibration
from dppca.common.kernel.privacy.receipts import SOFTWARE
from dppca.common.kernel.privacy.release import calibrate
from dppca.common.kernel.study import Study, Trust, require_continues

KIND, KIND_OF_COUNTS = "components", "counts"
_WHAT = "the receipt of the components"
_VERSION, _VERSION_OF_SUMS = 1, 2  # of a receipt's form


@dataclass(frozen=True, slots=True)
class FirstResult:
    """The result that a study continues: what was released, and the result's envelope."""

    round: Round
    envelope: bytes


@dataclass(frozen=True, slots=True)
class VerifiedReceipt:
    """Receipt of components that was verified.

    Attributes
    ----------
    document
        Claims, computed again.
    statement
        Statement that the curator signed.
    releases, evidence
        Parts that the owners and, with ``trust: aggregate``, the openers signed.
    first
        The result that it continues, verified too.
    signatories
        People of owners who have signed their releases, where the study asks for it.
    opening_signatories
        People of openers who have signed the set that was opened, likewise.
    """

    document: Mapping[str, Any]
    statement: FileStatement
    study: Study
    calibration: Calibration
    releases: tuple[SignedRelease, ...]
    evidence: SumEvidence | None
    first: FirstResult | None = None
    signatories: tuple[SignedByPeople, ...] = ()
    opening_signatories: tuple[SignedByPeople, ...] = ()

    @property
    def first_round(self) -> Round | None:
        """The study that it continues, and what each release of that one claims."""
        return None if self.first is None else self.first.round

    @property
    def curator(self) -> Identity:
        """Curator that countersigned the receipt."""
        return self.statement.signed_by

    @property
    def guarantee(self) -> ProvedGuarantee:
        """Guarantee over all owners, computed from the study and the one that it continues."""
        return describe_federation(self.study, self.calibration, self.first_round)


def sign_result(
    result: Result,
    study: Study,
    calibration: Calibration,
    releases: Sequence[SignedRelease],
    signer: Signer,
    evidence: SumEvidence | None = None,
    first: FirstResult | None = None,
) -> SignedFile:
    """Return the result file, and the envelope with its receipt.

    Parameters
    ----------
    calibration
        The study's calibration.
    releases
        Releases of the owners in ``result.header.shares``, in that order.
    signer
        The curator.
    evidence
        Proof of the masked sum, for ``trust: aggregate`` only; `SettingError` otherwise.
    first
        The result that the study continues.
    """
    if (evidence is None) != (study.trust is Trust.OWNER):
        raise SettingError("evidence of a masked sum belongs to trust: aggregate, which needs it")
    document = _document(
        study,
        calibration,
        releases,
        evidence,
        first,
        missing=result.header.missing,
        count=result.header.count,
        software=SOFTWARE,
    )
    return sign_file(
        f"{document['kind']}.npz", result_to_bytes(result), Claim.COMPONENTS, document, signer
    )


def check_components(
    envelope: bytes | None, parties: KnownParties, *, continued: bool = False
) -> VerifiedReceipt:
    """Check the envelope of a result by itself: signatures, digests and all claims.

    ``continued`` refuses the result of a study that continues another.

    Raises
    ------
    ReceiptError
        The envelope is missing, or a claim does not follow from its study.
    SignatureError
        A signature or certificate of the curator or of an owner does not hold.
    AlteredError
        The study's document does not have its digest.
    """
    if envelope is None:
        raise ReceiptError("the receipt of the components is missing: this is not a result")
    what = _WHAT
    statement = open_envelope(envelope, Claim.COMPONENTS, parties, what=what, as_written=continued)
    document, curator = statement.predicate, statement.signed_by
    if curator.role is not Role.CURATOR:
        raise SignatureError(
            f"{what} was signed by {curator.role.value} {curator.name}, who is not a curator"
        )
    study = study_in(
        document.get("study"),
        digest=document.get("study_digest"),
        schema_digest=document.get("schema_digest"),
    )
    first = None
    if study.continues is not None:
        if continued:
            raise ReceiptError(f"{what}: a study that was continued continues another")
        first = _open_first(document.get("first"), study, parties)
    calibration = _calibrate(study)
    terms = read_terms(study)
    try:
        releases = [_open_listed(each, parties) for each in document["releases"]]
        evidence = None if terms is None else read_sum(document["sum"], terms)
        missing = [str(name) for name in document["missing"]]
        taking_part = [release.owner for release in releases]
        _require_owners(study, taking_part, missing)
        rebuilt = _document(
            study,
            calibration,
            releases,
            evidence,
            first,
            missing=missing,
            count=document["count"],
            software=document["software"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ReceiptError(f"{what} lacks a field that every receipt has") from error
    for release in releases:
        require_implied(study, calibration, release.receipt, owner=release.owner)
    found = (require_signatories(study, release) for release in releases)
    signatories = tuple(each for each in found if each is not None)
    opened = tuple[SignedByPeople, ...]()
    if terms is not None and evidence is not None:
        require_evidence(terms, evidence, releases)
        opened = require_openers(study, evidence)
    require_equal(rebuilt, document, what=what)
    return VerifiedReceipt(
        rebuilt,
        statement,
        study,
        calibration,
        tuple(releases),
        evidence,
        first,
        signatories,
        opened,
    )


def check_result(result: Result, checked: VerifiedReceipt) -> None:
    """Raise `ReceiptError` if a result's header differs from its receipt."""
    header, document = asdict(result.header), checked.document
    follows = {
        **asdict(checked.guarantee),
        "shares": [asdict(each.share) for each in checked.releases],
        "missing": document["missing"],
        "count": document["count"],
        "label": document["label"],
    }
    require_equal(follows, {key: header[key] for key in follows}, what="the header of the result")


def _document(
    study: Study,
    calibration: Calibration,
    releases: Sequence[SignedRelease],
    evidence: SumEvidence | None,
    first: FirstResult | None,
    *,
    missing: Sequence[str],
    count: int,
    software: str,
) -> dict[str, Any]:
    """Return the claims that the curator signs."""
    document: dict[str, Any] = {
        "kind": KIND if first is None else KIND_OF_COUNTS,
        "version": _VERSION if evidence is None else _VERSION_OF_SUMS,
        "label": Label.RELEASED.value,
        "study": json.loads(study.canonical_bytes()),
        "study_digest": study.digest,
        "schema_digest": study.table.digest,
        "owners": len(releases),
        "rows": sum(each.receipt.n_rows for each in releases),
        "releases": [{"owner": each.owner, "envelope": embed(each.envelope)} for each in releases],
        "missing": list(missing),
        "guarantee": to_document(
            describe_federation(study, calibration, None if first is None else first.round)
        ),
        "mechanism": to_document(describe_mechanism(study, calibration)),
        "count": count,
        "software": software,
    }
    if evidence is not None:
        document["sum"] = describe_sum(evidence)
    if first is not None:
        document["first"] = embed(first.envelope)
    return document


def _open_first(document: object, study: Study, parties: KnownParties) -> FirstResult:
    """Check the receipt of the result that a study continues, and return that result."""
    envelope = embedded(document, what=_WHAT)
    checked = check_components(envelope, parties, continued=True)
    try:
        require_continues(
            checked.study, study, result_sha256=bytes.fromhex(checked.statement.sha256)
        )
    except StudyError as error:
        raise ReceiptError(f"{_WHAT}: {error}") from error
    return FirstResult(Round(checked.study, checked.calibration), envelope or b"")


def _calibrate(study: Study) -> Calibration:
    try:
        return calibrate(study)
    except StudyError as error:
        raise ReceiptError(f"the study of the components cannot be carried out: {error}") from error


def _require_owners(study: Study, taking_part: Sequence[str], missing: Sequence[str]) -> None:
    """Raise `ReceiptError` unless every owner is named once and enough of them have a release."""
    what = _WHAT
    listed = (list(taking_part), list(missing))
    if listed != (sorted(set(taking_part)), sorted(set(study.owners) - set(taking_part))):
        raise ReceiptError(f"{what} does not name every owner of the study once")
    if len(taking_part) < study.required_contributions:
        raise ReceiptError(
            f"{what} names {len(taking_part)} releases; the study "
            f"needs {study.required_contributions}. Missing: {', '.join(missing)}"
        )


def _open_listed(document: Mapping[str, Any], parties: KnownParties) -> SignedRelease:
    """Return one owner's part, signed by that owner."""
    owner = str(document["owner"])
    return open_release(canonical_json(document["envelope"]), owner, parties)
