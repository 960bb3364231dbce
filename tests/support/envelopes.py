"""Envelopes of a dishonest signer: any claims, for any file."""

from pathlib import Path
from typing import Any

from dppca.common.kernel.attestation.contributions import SignedRelease, unchecked_receipt
from dppca.common.kernel.attestation.envelopes import (
    Claim,
    SignedFile,
    read_envelope,
    sign_file,
    unchecked_predicate,
    write_signed,
)
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.documents.values import canonical_json


def claim(
    document: dict[str, Any],
    signer: Signer,
    content: bytes = b"",
    *,
    kind: Claim = Claim.COMPONENTS,
    name: str = "file",
) -> bytes:
    return sign_file(name, content, kind, document, signer).envelope


def sign_again(
    path: Path, signer: Signer, content: bytes, kind: Claim, document: dict[str, Any] | None = None
) -> None:
    """Replace a file and sign it, with its old claims or others."""
    claims = unchecked_predicate(read_envelope(path)) if document is None else document
    write_signed(path, SignedFile(content, claim(claims, signer, content, kind=kind)))


def releases_in(document: dict[str, Any]) -> list[SignedRelease]:
    listed = [(each["owner"], canonical_json(each["envelope"])) for each in document["releases"]]
    return [SignedRelease(name, unchecked_receipt(said), said) for name, said in listed]
