"""The receipt of a study's components: made by the curator, checked by anybody.

The receipt holds the study's document, every owner's receipt with its signature and certificate,
the federation's guarantee with its assumptions, and the SHA-256 of every array of the result. The
curator signs it. It stands in the result file, and travels on in everything that is made of it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from common.errors import AlteredError, ReceiptError, SignatureError
from common.privacy.labels import Label
from common.privacy.release import SOFTWARE, receipt_from_bytes
from common.proof import seal
from common.proof.claims import (
    federation_of,
    mechanism_of,
    require_equal,
    require_implied,
    study_in,
)
from common.proof.signatures import Purpose, Signer, require_issued, require_signed
from common.results import Result, arrays_of, result_to_bytes
from common.schema.document import canonical_json
from common.study import Study
from common.transport.tls import Identity, Role

KIND = "components"
_VERSION = 1


@dataclass(frozen=True, slots=True)
class SignedRelease:
    """One owner's part: receipt (canonical JSON), signature (DER), certificate (PEM)."""

    owner: str
    receipt: bytes
    signature: bytes
    certificate: bytes


@dataclass(frozen=True, slots=True)
class Checked:
    """A receipt of components that holds.

    Attributes
    ----------
    document
        What was signed.
    curator
        Who countersigned it.
    """

    document: dict[str, Any]
    study: Study
    curator: Identity


def sealed_result(
    result: Result, study: Study, releases: Sequence[SignedRelease], signer: Signer
) -> bytes:
    """The result file with its receipt, countersigned and sealed.

    Parameters
    ----------
    releases
        Of the owners in ``result.header.shares``, in that order.
    signer
        The curator.
    """
    document = _document(
        study,
        releases,
        missing=result.header.missing,
        count=result.header.count,
        parts=digests_of(result),
        software=SOFTWARE,
    )
    signature = signer.sign(Purpose.COMPONENTS, canonical_json(document))
    envelope = canonical_json(
        {
            "receipt": document,
            "signature": signature.hex(),
            "certificate": signer.certificate.decode("ascii"),
        }
    )
    content = result_to_bytes(replace(result, receipt=envelope))
    return seal.sealed(seal.with_zip_comment(content, seal.block_of(signer.certificate)), signer)


def digests_of(result: Result) -> dict[str, str]:
    """SHA-256 of every array of a result, as little-endian bytes, in hexadecimal."""
    return {
        name: hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        for name, array in arrays_of(result).items()
    }


def check_envelope(envelope: object, *, ca: bytes | None) -> Checked:
    """Check a receipt of components by itself: signatures, digests and all claims.

    Parameters
    ----------
    envelope
        The decoded JSON document.
    ca
        PEM of the authority; None to take the certificates as they are.

    Raises
    ------
    ReceiptError
        There is none, or it claims what does not follow from its study.
    SignatureError
        The curator's or an owner's signature or certificate.
    AlteredError
        The study's document does not have its digest.
    """
    if envelope is None:
        message = "there is no receipt of the components: they are of an earlier version"
        raise ReceiptError(message)
    document, signature, certificate = _opened(envelope)
    what = "the receipt of the components"
    curator = require_signed(
        Purpose.COMPONENTS, canonical_json(document), signature, certificate, what=what
    )
    if curator.role is not Role.CURATOR:
        message = f"{what} was signed by {curator.role.value} {curator.name}, who is no curator"
        raise SignatureError(message)
    if ca is not None:
        require_issued(certificate, ca, what=what)
    study = study_in(
        document.get("study"),
        digest=document.get("study_digest"),
        schema_digest=document.get("schema_digest"),
    )
    try:
        releases = [_release(each) for each in document["releases"]]
        missing = [str(name) for name in document["missing"]]
        rebuilt = _document(
            study,
            releases,
            missing=missing,
            count=document["count"],
            parts=document["parts"],
            software=document["software"],
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        message = f"{what} lacks what a receipt has"
        raise ReceiptError(message) from error
    for release in releases:
        _check_release(study, release, ca=ca)
    taking_part = [release.owner for release in releases]
    if taking_part != sorted(set(taking_part)) or missing != sorted(
        set(study.owners) - set(taking_part)
    ):
        message = f"{what} does not name every owner of the study once"
        raise ReceiptError(message)
    require_equal(rebuilt, document, what=what)
    return Checked(document, study, curator)


def check_result(result: Result, checked: Checked) -> None:
    """Compare a result with its receipt.

    Raises
    ------
    AlteredError
        Names the arrays that were changed.
    ReceiptError
        The header says something else than the receipt.
    """
    found, named = digests_of(result), checked.document["parts"]
    wrong = [name for name in sorted({*found, *named}) if found.get(name) != named.get(name)]
    if wrong:
        message = f"{', '.join(f'array {name}' for name in wrong)}: changed since it was signed"
        raise AlteredError(message)
    header, document = result.header, checked.document
    said = {
        "guarantee": {
            "epsilon": header.epsilon,
            "delta": header.delta,
            "relation": header.relation,
            "max_rows_per_person": header.max_rows_per_person,
            "assumptions": list(header.assumptions),
        },
        "releases": [(s.owner, s.n_rows, s.payload_sha256) for s in header.shares],
        "missing": list(header.missing),
        "count": header.count,
        "label": header.label,
    }
    follows = {
        "guarantee": document["guarantee"],
        "releases": [
            (r["owner"], r["receipt"]["n_rows"], r["receipt"]["payload_sha256"])
            for r in document["releases"]
        ],
        "missing": document["missing"],
        "count": document["count"],
        "label": document["label"],
    }
    require_equal(follows, said, what="the header of the result")


def shares_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Owner, number of rows and digest of each release, as results and tables list them."""
    return [
        {
            "owner": each["owner"],
            "n_rows": each["receipt"]["n_rows"],
            "payload_sha256": each["receipt"]["payload_sha256"],
        }
        for each in document["releases"]
    ]


def _document(
    study: Study,
    releases: Sequence[SignedRelease],
    *,
    missing: Sequence[str],
    count: int,
    parts: dict[str, str],
    software: str,
) -> dict[str, Any]:
    """What the curator signs."""
    receipts = {each.owner: receipt_from_bytes(each.receipt) for each in releases}
    return {
        "kind": KIND,
        "version": _VERSION,
        "label": Label.RELEASED.value,
        "study": json.loads(study.canonical_bytes()),
        "study_digest": study.digest,
        "schema_digest": study.table.digest,
        "owners": len(releases),
        "rows": sum(receipt.n_rows for receipt in receipts.values()),
        "releases": [
            {
                "owner": each.owner,
                "receipt": json.loads(each.receipt),
                "signature": each.signature.hex(),
                "certificate": each.certificate.decode("ascii"),
            }
            for each in releases
        ],
        "missing": list(missing),
        "guarantee": federation_of(study, receipts),
        "mechanism": mechanism_of(study),
        "count": count,
        "parts": parts,
        "software": software,
    }


def _opened(envelope: object) -> tuple[dict[str, Any], bytes, bytes]:
    damaged = SignatureError("the receipt of the components is damaged")
    if not isinstance(envelope, dict) or set(envelope) != {"receipt", "signature", "certificate"}:
        raise damaged
    document, said = envelope["receipt"], envelope["signature"]
    try:
        signature = bytes.fromhex(said)
        certificate = envelope["certificate"].encode("ascii")
    except (TypeError, ValueError, AttributeError) as error:
        raise damaged from error
    if not isinstance(document, dict) or signature.hex() != said:
        raise damaged
    return document, signature, certificate


def _release(document: dict[str, Any]) -> SignedRelease:
    return SignedRelease(
        owner=str(document["owner"]),
        receipt=canonical_json(document["receipt"]),
        signature=bytes.fromhex(document["signature"]),
        certificate=document["certificate"].encode("ascii"),
    )


def _check_release(study: Study, release: SignedRelease, *, ca: bytes | None) -> None:
    what = f"the receipt of {release.owner}"
    owner = require_signed(
        Purpose.RELEASE, release.receipt, release.signature, release.certificate, what=what
    )
    if owner != Identity(release.owner, Role.OWNER):
        message = f"{what} was signed by {owner.role.value} {owner.name}"
        raise SignatureError(message)
    if ca is not None:
        require_issued(release.certificate, ca, what=what)
    require_implied(study, release.receipt, owner=release.owner)
