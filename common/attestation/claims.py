"""What a study's document implies: the claims of a receipt, computed and never believed."""

from __future__ import annotations

from collections.abc import Mapping

from dppca.common.attestation.documents import (
    ProvedCollusion,
    ProvedGuarantee,
    ProvedMechanism,
)
from dppca.common.documents.amounts import decimal_text
from dppca.common.documents.values import differing_keys, to_document
from dppca.common.errors import AlteredError, ReceiptError, StudyError
from dppca.common.privacy.collusion import describe_collusion, foresee_collusion
from dppca.common.privacy.composition import compose_guarantee
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.release import (
    MaskedClaims,
    MomentReceipt,
    receipt_for,
    sensitivity_shape,
)
from dppca.common.schema.document import canonical_json
from dppca.common.study import Study, study_from_canonical


def describe_mechanism(study: Study, calibration: Calibration) -> ProvedMechanism:
    """The noise of every owner's release or of their sum, and where its law is from."""
    mechanism: ProvedMechanism = {
        "name": calibration.law.name,
        "source": calibration.law.source,
        "l1": calibration.sensitivity.l1,
        "l2_squared": calibration.sensitivity.l2_squared,
        "parameters": calibration.law.parameters(),
        "resolution_bits": study.table.resolution_bits,
        "formula": to_document(sensitivity_shape(study.table)),
    }
    if study.privacy.colluders is not None and study.n_honest_owners is not None:
        mechanism["trust"] = study.trust.value
        mechanism["colluders"] = study.privacy.colluders
        mechanism["quorum"] = study.required_contributions
        mechanism["honest"] = study.n_honest_owners
        mechanism["share_variance"] = calibration.share_variance
    return mechanism


def describe_federation(study: Study, calibration: Calibration) -> ProvedGuarantee:
    """The guarantee to one person, over all owners of the study."""
    guarantee = compose_guarantee(study, calibration)
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": calibration.sensitivity.relation.value,
        "max_rows_per_person": calibration.max_rows_per_person,
        "assumptions": list(guarantee.assumptions),
    }


def collusion_claims(study: Study, calibration: Calibration) -> ProvedCollusion | None:
    """What is left to a person at one owner if more collude; None for ``trust: owner``."""
    against = foresee_collusion(study, calibration)
    if against is None:
        return None
    return {
        "one_more": None if against.one_more is None else decimal_text(against.one_more),
        "all_others": None if against.all_others is None else decimal_text(against.all_others),
        "words": describe_collusion(against),
    }


def study_in(document: object, *, digest: object, schema_digest: object) -> Study:
    """The study that a receipt holds.

    Raises
    ------
    AlteredError
        It is no study, or does not have its digests.
    """
    try:
        study = study_from_canonical(canonical_json(document))
    except (StudyError, ValueError, TypeError, RecursionError) as error:
        raise AlteredError(f"the study's document in the receipt: {error}") from error
    if (study.digest, study.table.digest) != (digest, schema_digest):
        raise AlteredError(
            "the study's document in the receipt does not have the digests that stand there"
        )
    return study


def require_implied(
    study: Study, calibration: Calibration, receipt: MomentReceipt, *, owner: str
) -> None:
    """Compute sensitivity, scale and charge of an owner's receipt again, and compare.

    Raises
    ------
    ReceiptError
        It is not the receipt that a release of this study has; names the fields at fault.
    """
    claims = receipt.claims
    expected = receipt_for(
        study,
        calibration,
        release_id=bytes.fromhex(receipt.release_id),
        n_rows=receipt.n_rows,
        payload_sha256=claims.payload_sha256,
        ledger_sequence=receipt.ledger_sequence,
        software=receipt.software,
        statement_sha256=claims.statement_sha256 if isinstance(claims, MaskedClaims) else None,
    )
    require_equal(expected.document(), receipt.document(), what=f"the receipt of {owner}")


def require_equal(
    expected: Mapping[str, object], stated: Mapping[str, object], *, what: str
) -> None:
    """Raise `ReceiptError`, naming the fields, unless a document says what follows."""
    wrong = list(differing_keys(expected, stated))
    if wrong:
        raise ReceiptError(
            f"{what} claims what does not follow from the study, in: {', '.join(wrong)}"
        )
