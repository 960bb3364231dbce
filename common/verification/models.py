"""Models that may leave: their receipt computed again, and the seal of their file.

The file is a zip archive of skops; what the ledger of its owner stores is that archive, and a
comment at its end, the seal, is added when it is written out. So ``the file without its comment``
has the digest that stands in the owner's ledger.

Limits: that the basis in the model follows from the components is not computed here; their receipt
and the digest of their file are compared with what the model says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from decimal import Decimal
from typing import Any

import numpy as np

from dppca.common.attestation import seal
from dppca.common.attestation.claims import require_equal
from dppca.common.attestation.components import Checked, check_envelope
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer
from dppca.common.documents.amounts import parse_decimal
from dppca.common.errors import (
    AlteredError,
    DppcaError,
    ReceiptError,
    SignatureError,
)
from dppca.common.estimators.base.weight_noise import count_machines
from dppca.common.privacy.labels import Label
from dppca.common.privacy.receipts import NoiseSection, read_receipt
from dppca.common.schema import Schema
from dppca.common.transport.tls import Identity, Role
from dppca.common.verification.model_archives import (
    ARCHIVE_ERRORS,
    ModelArchive,
    open_archive,
    read_comment,
)
from dppca.common.verification.weights import (
    METHOD,
    WeightClaims,
    WeightReceipt,
    WeightTerms,
    claim_weights,
    describe_target,
    plan_study_weights,
    weights_digest,
)


def sealed_archive(payload: bytes, signer: Signer) -> bytes:
    """A model's file: the archive that the ledger stores, sealed by its owner."""
    block = seal.make_block(signer.certificate)
    return seal.sealed(seal.with_zip_comment(payload, block), signer)


def verify_model(content: bytes, parties: KnownParties) -> tuple[Checked, WeightReceipt, Identity]:
    """Check a model that may leave.

    Returns
    -------
    tuple
        The components' receipt, the model's own, who sealed the file.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        Names what does not hold.
    """
    block = read_comment(content)
    archive = open_archive(content)
    metadata = archive.metadata
    if metadata.get("label") != Label.RELEASED.value:
        raise ReceiptError(
            f"the model is {metadata.get('label')}: it was not released and has no receipt"
        )
    document = metadata.get("receipt")
    if not isinstance(document, dict):
        raise ReceiptError("the model carries no receipt")
    try:
        checked = check_envelope(metadata.get("components_receipt"), parties)
        receipt = _check_weights(archive, document, checked)
    except (AlteredError, ReceiptError, SignatureError):
        raise
    except (*ARCHIVE_ERRORS, ArithmeticError, DppcaError) as error:
        raise ReceiptError(
            "the receipt of the model lacks a field that every receipt has"
        ) from error
    return checked, receipt, _sealed_by_owner(content, block, checked, parties)


def _sealed_by_owner(
    content: bytes, block: bytes | None, checked: Checked, parties: KnownParties
) -> Identity:
    """Anybody who sealed a model whose receipt holds."""
    who = seal.require_sealed_by_party(
        content,
        block,
        parties,
        what="the container, the basis or what the receipt does not claim (what was noised and all "
        "claims are as they should be)",
    )
    if who.role is not Role.OWNER or who.name not in checked.study.owners:
        raise SignatureError(
            f"the model was sealed by {who.role.value} {who.name}, who is no owner of it"
        )
    return who


def _check_weights(
    archive: ModelArchive, document: Mapping[str, Any], checked: Checked
) -> WeightReceipt:
    study, schema = checked.study, checked.study.table
    if Schema.from_document(archive.metadata["schema"], stored=True).digest != schema.digest:
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
    terms = WeightTerms(
        target=claims.target,
        epsilon=_read_amount(stated.noise.epsilon),
        delta=_read_amount(stated.noise.delta) or None,
        C=claims.C,
        intercept_scaling=claims.intercept_scaling,
        solver_tolerance=claims.solver_tolerance,
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
            components_sha256=claims.components_sha256,
            components_epsilon=guarantee["epsilon"],
            components_delta=guarantee["delta"],
            assumptions=tuple(guarantee["assumptions"]),
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
