"""Quality summaries that may leave: their noise computed anew, and the seal of their file.

The file is JSON; what its owner's ledger stores is the file without the last key, ``dppca-seal``,
which is added when it is written out.

Limits: of the study the file holds two digests and the number of attributes; that this is the
study's, and the row limit of a person, is the owner's word. Shares and accuracies follow from the
noised counts and the synthetic rows, which are not here: the seal covers them.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np

from common.errors import AlteredError, ArtefactError, DppcaError, ReceiptError, SignatureError
from common.methods.settings import delta_of, epsilon_of
from common.privacy.labels import Label
from common.privacy.mechanisms import calibrate_gaussian, calibrate_laplace
from common.privacy.release import SOURCES
from common.privacy.sensitivity import Relation, Sensitivity
from common.proof import seal
from common.proof.claims import require_equal
from common.proof.signatures import Signer, require_issued
from common.schema.document import canonical_json
from common.study import decimal_text
from common.transport.tls import Identity, Role

KIND = "quality-summary"
_BEFORE, _AFTER = b',\n "dppca-seal": ', b"\n}"


def sealed_summary(payload: bytes, signer: Signer) -> bytes:
    """A summary's file: the JSON that the ledger stores, with the seal as its last key."""
    block = seal.block_of(signer.certificate)
    return seal.sealed(payload.removesuffix(_AFTER) + _BEFORE + block + _AFTER, signer)


def verify_summary(content: bytes, *, ca: bytes | None) -> tuple[dict[str, Any], Identity]:
    """Check a quality summary; its receipt, and who sealed it.

    Raises
    ------
    ArtefactError, ReceiptError, SignatureError, AlteredError
        Names what does not hold.
    """
    document = _document(content)
    try:
        receipt: dict[str, Any] = document["receipt"]
        _check(receipt, document["noised_counts"])
    except (AlteredError, ReceiptError):
        raise
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError, DppcaError) as error:
        message = "the receipt of the summary lacks what a receipt has"
        raise ReceiptError(message) from error
    block = None
    if "dppca-seal" in document:
        block = canonical_json(document["dppca-seal"])
        if not content.endswith(_BEFORE + block + _AFTER):
            message = "the block with the seal is damaged: it is not at the end of the file"
            raise SignatureError(message)
    try:
        who, certificate = seal.require_sealed(content, block)
    except AlteredError as error:
        message = f"the container or what the summary says besides its claims: {error}"
        raise AlteredError(message) from error
    if ca is not None:
        require_issued(certificate, ca, what="the file's seal")
    if who.role is not Role.OWNER:
        message = f"the file was sealed by {who.role.value} {who.name}, who is no owner"
        raise SignatureError(message)
    return receipt, who


def _check(receipt: dict[str, Any], counts: list[int]) -> None:
    found = hashlib.sha256(np.array(counts, np.int64).astype("<i8").tobytes()).hexdigest()
    if found != receipt["counts_sha256"]:
        message = "array noised_counts: they are not those that the receipt names"
        raise AlteredError(message)
    change = 2 * receipt["n_attributes"] + len(receipt["targets"])
    sens = Sensitivity(
        l1=change, l2_squared=change, resolution_bits=0, relation=Relation.REPLACE_ONE
    )
    k, epsilon = receipt["max_rows_per_person"], epsilon_of(receipt["epsilon"])
    if receipt["delta"] == "0":
        noise = calibrate_laplace(sens, epsilon=epsilon, max_rows_per_person=k)
    else:
        delta = delta_of(receipt["delta"])
        noise = calibrate_gaussian(sens, epsilon=epsilon, delta=delta, max_rows_per_person=k)
    follows = {
        "mechanism": noise.mechanism.value,
        "source": SOURCES[noise.mechanism],
        "relation": noise.sensitivity.relation.value,
        "l1": change,
        "l2_squared": change,
        "scale": noise.scale,
        "sigma_squared": noise.sigma_squared,
        "epsilon": decimal_text(noise.epsilon),
        "delta": decimal_text(noise.delta),
        "charged_epsilon": decimal_text(noise.charge.epsilon),
        "charged_rho": decimal_text(noise.charge.rho),
        "label": Label.RELEASED.value,
        "kind": KIND,
    }
    said = {key: receipt.get(key) for key in follows}
    require_equal(follows, said, what="the receipt of the summary")


def _document(content: bytes) -> dict[str, Any]:
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        message = "the container: not JSON, or damaged"
        raise ArtefactError(message) from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        message = "the container: the file is no quality summary of this software"
        raise ArtefactError(message)
    return document
