"""Quality summaries that may leave: their noise computed again, and the seal of their file.

The file is JSON; what its owner's ledger stores is the file without the last key, ``dppca-seal``,
which is added when it is written out.

Limits: of the study the file holds two digests and the number of attributes; that this is the
study's, and the row limit of a person, is the owner's word. Shares and accuracies follow from the
noised counts and the synthetic rows, which are not here: the seal covers them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from dppca.common.attestation import seal
from dppca.common.attestation.claims import require_equal
from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer
from dppca.common.errors import (
    AlteredError,
    ArtefactError,
    DppcaError,
    ReceiptError,
    SignatureError,
)
from dppca.common.estimators.base.settings import parse_delta, parse_epsilon
from dppca.common.privacy.labels import Label
from dppca.common.privacy.mechanisms import Calibration, calibrate_noise
from dppca.common.privacy.receipts import Claims, NoiseSection, Receipt, read_receipt
from dppca.common.privacy.sensitivity import Relation, Sensitivity
from dppca.common.schema.document import canonical_json
from dppca.common.transport.tls import Identity, Role

KIND = "quality-summary"
_BEFORE, _AFTER = b',\n "dppca-seal": ', b"\n}"


@dataclass(frozen=True, slots=True)
class SummaryClaims(Claims):
    """What the receipt of a quality summary says besides its noise."""

    leaves_out: ClassVar[frozenset[str]] = frozenset({"resolution_bits"})  # counts have none

    synthetic_sha256: str
    n_attributes: int
    targets: tuple[str, ...]
    counts_sha256: str
    kind: str = KIND


SummaryReceipt = Receipt[SummaryClaims]


def calibrate_summary(
    *,
    n_attributes: int,
    n_targets: int,
    epsilon: Decimal,
    delta: Decimal | None,
    max_rows_per_person: int,
) -> Calibration:
    """The noise of a summary's counts: a row is in a cell of each attribute, and right or not."""
    change = 2 * n_attributes + n_targets
    sens = Sensitivity(
        l1=change, l2_squared=change, resolution_bits=0, relation=Relation.REPLACE_ONE
    )
    return calibrate_noise(
        sens, epsilon=epsilon, delta=delta, max_rows_per_person=max_rows_per_person
    )


def counts_digest(noised: Sequence[int] | NDArray[np.int64]) -> str:
    """SHA-256 of noised counts as little-endian int64."""
    return hashlib.sha256(np.asarray(noised, np.int64).astype("<i8").tobytes()).hexdigest()


def sealed_summary(payload: bytes, signer: Signer) -> bytes:
    """A summary's file: the JSON that the ledger stores, with the seal as its last key."""
    block = seal.make_block(signer.certificate)
    return seal.sealed(payload.removesuffix(_AFTER) + _BEFORE + block + _AFTER, signer)


def verify_summary(content: bytes, parties: KnownParties) -> tuple[SummaryReceipt, Identity]:
    """Check a quality summary; its receipt, and who sealed it.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        Names what does not hold.
    """
    document = _document(content)
    try:
        receipt = _check(document["receipt"], document["noised_counts"])
    except (AlteredError, ReceiptError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DppcaError) as error:
        raise ReceiptError(
            "the receipt of the summary lacks a field that every receipt has"
        ) from error
    block = None
    if "dppca-seal" in document:
        block = canonical_json(document["dppca-seal"])
        if not content.endswith(_BEFORE + block + _AFTER):
            raise SignatureError(
                "the block with the seal is damaged: it is not at the end of the file"
            )
    who = seal.require_sealed_by_party(
        content,
        block,
        parties,
        what="the container or what the summary says besides its claims",
    )
    if who.role is not Role.OWNER:
        raise SignatureError(f"the file was sealed by {who.role.value} {who.name}, who is no owner")
    return receipt, who


def _check(document: Mapping[str, Any], counts: list[int]) -> SummaryReceipt:
    stated = read_receipt(document, SummaryClaims)
    claims, noise = stated.claims, stated.noise
    if counts_digest(counts) != claims.counts_sha256:
        raise AlteredError("array noised_counts: they are not those that the receipt names")
    calibration = calibrate_summary(
        n_attributes=claims.n_attributes,
        n_targets=len(claims.targets),
        epsilon=parse_epsilon(noise.epsilon),
        delta=None if noise.delta == "0" else parse_delta(noise.delta),
        max_rows_per_person=noise.max_rows_per_person,
    )
    receipt = replace(
        stated,
        claims=replace(claims, kind=KIND),
        noise=NoiseSection.from_calibrations(calibration),
        label=Label.RELEASED.value,
    )
    require_equal(receipt.document(), document, what="the receipt of the summary")
    return receipt


def _document(content: bytes) -> Mapping[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ArtefactError("the container: not JSON, or damaged") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise ArtefactError("the container: the file is no quality summary of this software")
    return document
