"""What a study's document implies: the claims of a receipt, computed and never believed."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from decimal import Decimal
from typing import Any

from common.errors import AlteredError, ArtefactError, ReceiptError, StudyError
from common.privacy.federation import guarantee_of
from common.privacy.release import (
    SOURCES,
    Receipt,
    calibrate,
    receipt_for,
    receipt_from_bytes,
    shape_of,
)
from common.privacy.sensitivity import BallShape
from common.schema import Schema
from common.schema.document import canonical_json
from common.study import Study, study_from_canonical


def formula_inputs(schema: Schema) -> dict[str, Any]:
    """The counts that the sensitivity's formula takes (`common.privacy.sensitivity`)."""
    shape = shape_of(schema)
    if isinstance(shape, BallShape):
        return {
            "coding": "row_norm",
            "n_columns": shape.n_columns,
            "with_sums": shape.with_sums,
            "sum_weight": str(shape.sum_weight),
        }
    return {
        "coding": "box",
        "n_scalars": shape.n_scalars,
        "n_numeric": shape.n_numeric,
        "n_categoricals": shape.n_categoricals,
        "sum_weight": str(shape.sum_weight),
    }


def mechanism_of(study: Study) -> dict[str, Any]:
    """The noise of every owner's release, and where its law is from."""
    calibration = calibrate(study)
    return {
        "name": calibration.mechanism.value,
        "source": SOURCES[calibration.mechanism],
        "l1": calibration.sensitivity.l1,
        "l2_squared": calibration.sensitivity.l2_squared,
        "scale": calibration.scale,
        "sigma_squared": calibration.sigma_squared,
        "resolution_bits": study.table.resolution_bits,
        "formula": formula_inputs(study.table),
    }


def federation_of(study: Study, receipts: dict[str, Receipt]) -> dict[str, Any]:
    """The guarantee to one person over the owners that took part."""
    calibration = calibrate(study)
    guarantee = guarantee_of(
        study, {owner: (Decimal(r.epsilon), Decimal(r.delta)) for owner, r in receipts.items()}
    )
    return {
        "epsilon": guarantee.epsilon,
        "delta": guarantee.delta,
        "relation": calibration.sensitivity.relation.value,
        "max_rows_per_person": calibration.max_rows_per_person,
        "assumptions": list(guarantee.assumptions),
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
        message = f"the study's document in the receipt: {error}"
        raise AlteredError(message) from error
    if (study.digest, study.table.digest) != (digest, schema_digest):
        message = "the study's document in the receipt does not have the digests that stand there"
        raise AlteredError(message)
    return study


def require_implied(study: Study, content: bytes, *, owner: str) -> Receipt:
    """An owner's receipt, once sensitivity, scale and charge were computed anew.

    Raises
    ------
    ReceiptError
        It is not the receipt that a release of this study has; names the fields at fault.
    """
    try:
        receipt = receipt_from_bytes(content)
        expected = receipt_for(
            study,
            calibrate(study),
            release_id=bytes.fromhex(receipt.release_id),
            n_rows=receipt.n_rows,
            payload_sha256=receipt.payload_sha256,
            ledger_sequence=receipt.ledger_sequence,
            software=receipt.software,
        )
    except (ArtefactError, ValueError, TypeError) as error:
        message = f"the receipt of {owner}: {error}"
        raise ReceiptError(message) from error
    require_equal(asdict(expected), asdict(receipt), what=f"the receipt of {owner}")
    return receipt


def require_equal(expected: dict[str, Any], found: dict[str, Any], *, what: str) -> None:
    """Raise `ReceiptError`, naming the fields, unless a document says what follows."""
    wrong = list(_differences(expected, found))
    if wrong:
        message = f"{what} claims what does not follow from the study, in: {', '.join(wrong)}"
        raise ReceiptError(message)


def _differences(expected: dict[str, Any], found: dict[str, Any]) -> Iterable[str]:
    for key in sorted({*expected, *found}):
        mine, theirs = expected.get(key), found.get(key)
        if isinstance(mine, dict) and isinstance(theirs, dict):
            yield from (f"{key}.{place}" for place in _differences(mine, theirs))
        # As text: 1, 1.0 and true are equal numbers, but not one document.
        elif json.dumps(mine, sort_keys=True) != json.dumps(theirs, sort_keys=True):
            yield key
