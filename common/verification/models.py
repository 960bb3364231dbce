"""Models that may leave: their receipt, recomputed.

The file is the zip archive of skops in its owner's ledger, with the digest recorded there. Its
envelope holds the model's receipt, which the archive also holds, and the envelope of the
components.

Limits: this check does not compute the model's basis from the components; it compares the SHA-256
of their file with the one in the model. A model of 0.1.0 does not say which owner made it, so any
owner of the study can sign that; who makes a new file of another's numbers can put in its own name.
"""

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np

from dppca.common.analysis.estimators.base.weight_noise import count_machines
from dppca.common.kernel.attestation.claims import require_equal
from dppca.common.kernel.attestation.components import VerifiedReceipt, check_components
from dppca.common.kernel.attestation.contributions import require_people
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    FileStatement,
    SignedFile,
    embed,
    embedded,
    read_stated,
    sign_file,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.consent.statement_kinds import StatementKind
from dppca.common.kernel.documents.amounts import parse_decimal
from dppca.common.kernel.errors import AlteredError, DppcaError, ReceiptError, SignatureError
from dppca.common.kernel.identity.tls import Role
from dppca.common.kernel.privacy.labels import Label
from dppca.common.kernel.privacy.laws import LAWS
from dppca.common.kernel.privacy.receipts import NoiseSection, read_receipt
from dppca.common.kernel.schema import Schema
from dppca.common.verification.model_archives import (
    ARCHIVE_ERRORS,
    KIND,
    VERSION,
    ModelArchive,
    open_archive,
)
from dppca.common.verification.weights import (
    METHOD,
    WeightClaims,
    WeightReceipt,
    WeightTerms,
    claim_weights,
    describe_target,
    largest_model,
    plan_study_weights,
    weights_digest,
)


def sign_model(
    name: str,
    archive: bytes,
    receipt: Mapping[str, Any],
    components: bytes | None,
    signer: Signer,
    consent: Mapping[str, Any] | None = None,
) -> SignedFile:
    """Return a model's file and its envelope.

    ``name`` is the file's, without a folder; ``archive`` are the bytes in the ledger; ``receipt``
    is the model's; ``components`` is the envelope of the components that the model is trained on;
    ``consent`` is what people of the site have signed, where the study pins them.
    """
    claims = _claims(receipt, embed(components), consent)
    return sign_file(name, archive, Claim.MODEL, claims, signer)


def _claims(receipt: object, components: object, consent: object) -> dict[str, object]:
    """Return the only possible claims of a model's envelope; ``consent`` is None in most."""
    return {
        **({} if consent is None else {"consent": consent}),
        "kind": KIND,
        "version": VERSION,
        "label": Label.RELEASED.value,
        "receipt": receipt,
        "components_envelope": components,
    }


def verify_model(
    path: Path, statement: FileStatement, parties: KnownParties
) -> tuple[VerifiedReceipt, WeightReceipt]:
    """Check a model that may leave, whose envelope's signature was checked.

    Return the components' receipt and the model's own. The file is read last, and no more of it
    than a model of the study can have.

    Raise `ArtefactError`, `ReceiptError`, `SignatureError` or `AlteredError`, which names the
    failed check, and `OSError` if the file cannot be read.
    """
    claims, who = statement.predicate, statement.signed_by
    what = "the receipt of the components"
    checked = check_components(embedded(claims.get("components_envelope"), what=what), parties)
    if who.role is not Role.OWNER or who.name not in checked.study.owners:
        raise SignatureError(
            f"the model was signed by {who.role.value} {who.name}, who is not an owner of it"
        )
    most = largest_model(checked.study)
    archive = open_archive(read_stated(path, statement, most=most))
    if archive.metadata.get("label") != Label.RELEASED.value:
        raise ReceiptError(f"the model says inside that it is {archive.metadata.get('label')}")
    document = archive.metadata.get("receipt")
    if not isinstance(document, dict) or document != claims.get("receipt"):
        raise ReceiptError("the model holds another receipt than its envelope")
    consent = claims.get("consent")
    expected = _claims(document, claims.get("components_envelope"), consent)
    require_equal(expected, claims, what="the envelope of the model")
    maker = archive.metadata.get("owner", who.name)  # 0.1.0 wrote none
    if maker != who.name:
        raise SignatureError(f"owner {who.name} signed the model, which owner {maker} made")
    try:
        receipt = _check_weights(archive, document, checked)
        require_people(
            checked.study,
            who.name,
            receipt,
            consent,
            kind=StatementKind.MODEL,
            terms={},
        )
        return checked, receipt
    except (AlteredError, ReceiptError, SignatureError):
        raise
    except (*ARCHIVE_ERRORS, ArithmeticError, DppcaError) as error:
        raise ReceiptError(
            "the receipt of the model lacks a field that every receipt has"
        ) from error


def _check_weights(
    archive: ModelArchive, document: Mapping[str, Any], checked: VerifiedReceipt
) -> WeightReceipt:
    study, schema = checked.study, checked.study.table
    if Schema.from_document(archive.metadata["schema"]).digest != schema.digest:
        raise AlteredError("the schema in the model is not the study's")
    noised, space = archive.state["noised_"], archive.space
    if weights_digest(noised) != document["weights_sha256"]:
        raise AlteredError("array noised: the weights are not those that the receipt names")
    if document.get("method") != METHOD:
        raise ReceiptError(
            f"this version cannot compute the noise of method {document.get('method')} again"
        )
    stated = read_receipt(document, WeightClaims)
    claims = stated.claims
    n_labels, n_features = describe_target(schema, claims.target)
    k = len(space["components"])
    shapes = [space["components"].shape, space["mean"].shape, noised.shape]
    expected = [(k, n_features), (n_features,), (count_machines(n_labels), k + 1)]
    if shapes != expected or noised.dtype != np.int64:
        raise AlteredError(
            "arrays components, mean and noised do not have the shapes of such a model"
        )
    if archive.state["classes_"].tolist() != list(range(n_labels)):
        raise AlteredError("array classes_: the classes are not the labels of the target in order")
    if stated.noise.mechanism not in LAWS:
        raise ReceiptError(f"the receipt names noise {stated.noise.mechanism!r}, which no law is")
    terms = WeightTerms(
        target=claims.target,
        epsilon=_read_amount(stated.noise.epsilon),
        delta=_read_amount(stated.noise.delta) or None,
        C=claims.C,
        intercept_scaling=claims.intercept_scaling,
        solver_tolerance=claims.solver_tolerance,
        mechanism=stated.noise.mechanism,
    )
    guarantee = checked.guarantee
    plan = plan_study_weights(study, terms, n_rows=stated.n_rows, n_components=k)
    receipt = replace(
        stated,
        study_digest=study.digest,
        schema_digest=schema.digest,
        claims=claim_weights(
            study,
            terms,
            plan,
            components_sha256=checked.statement.sha256,
            components_epsilon=guarantee.epsilon,
            components_delta=guarantee.delta,
            assumptions=guarantee.assumptions,
            weights_sha256=claims.weights_sha256,
        ),
        noise=NoiseSection.from_calibration(plan.calibration),
        label=Label.RELEASED.value,
    )
    require_equal(receipt.document(), document, what="the receipt of the model")
    return receipt


def _read_amount(text: object) -> Decimal:
    try:
        return parse_decimal(text)
    except ValueError as error:
        raise ReceiptError(f"the receipt's amount {text!r} is no decimal") from error
