"""``audit.json``: a site's record, signed by its key, in one canonical form.

It has the entries of the ledger, each with its random bytes and its hash; the site's roles; the
receipts of what was released; and every export so far. An entry lacks what must not leave: the
facts of a statement, and the digest of how cells are read. Then it has no random bytes either, so
that the hash confirms no guess; ``withheld`` names what is not there.

A bundle is read in this order: size, signature, digest, form. What others wrote is never read
before its signature holds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from dppca.common.kernel.attestation.envelopes import (
    Claim,
    SignedFile,
    open_envelope,
    read_envelope,
    read_stated,
    sign_file,
)
from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import Signer
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.errors import ReceiptError, SettingError, SignatureError
from dppca.common.kernel.identity.tls import Role

AUDIT = "audit.json"
MAX_BYTES = 32 << 20  # 5,000 releases that two people have signed take as much
_MOST_MARKS = 3_000_000  # of lists, objects and pairs: each takes 100 bytes once it is read
_MARKS = (b"[", b"{", b",", b":")
MOST_LOOKS = 10_000  # exports of a site: one a day for 27 years
WITHHELD = {
    "proposed": ("facts",),
    "reserve": ("reading_sha256",),
    "recovered": ("reading_sha256",),
}
"""Keys of entries, by kind, that do not leave."""
_EMPTY = "0" * 64

_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
_Amount = Annotated[str, Field(pattern=r"^\d{1,40}(\.\d{1,400})?$")]
_Text = Annotated[str, Field(max_length=4096)]
_Name = Annotated[str, Field(max_length=256)]
_Count = Annotated[int, Field(ge=0)]
_Id = Annotated[str, Field(pattern=r"^([0-9a-f]{2}){0,32}$")]
_CHARGED = (
    "release_id data_set population study study_digest mechanism epsilon delta charged_epsilon "
    "charged_rho budget_epsilon budget_delta"
)
_OPENED = "opener_key study study_digest set_digest"
_KEYS = {
    "reserve": _CHARGED,
    "commit": "release_id n_rows payload_bytes payload_sha256 receipt_sha256",
    "sent": "release_id",
    "recovered": f"{_CHARGED} n_rows payload_sha256",
    "disowned": "release_id study study_digest reason",
    "offer": "opener_key study",
    "vote": _OPENED,
    "open": f"{_OPENED} owners sums_sha256",
    "opened": "opener_key",
    "published": "study study_digest forms n_rows rows_sha256",
    "proposed": "statement",
    "approved": "proposal signature",
    "withdrawn": "proposal",
}
"""Keys that an entry of a kind has; charges may have more (`_MORE`)."""
_MORE = (
    "model command query_sha256 engine relation promise key colluders honest source_sha256 "
    "reading_sha256 replaced_epsilon replaced_rho"
)
_EVERY = "version sequence previous kind time sha256"
_SOME = "salt withheld consent"


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class AuditedEntry(_Form):
    """An entry of a ledger as a bundle has it; its kind determines which keys it has."""

    version: Literal[1]
    sequence: Annotated[int, Field(ge=1)]
    previous: _Digest
    kind: Literal[
        "reserve",
        "commit",
        "sent",
        "recovered",
        "disowned",
        "offer",
        "vote",
        "open",
        "opened",
        "published",
        "proposed",
        "approved",
        "withdrawn",
    ]
    time: Annotated[str, Field(max_length=40)]
    sha256: _Digest
    salt: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    withheld: Annotated[list[_Name], Field(min_length=1, max_length=1)] | None = None
    release_id: _Id = ""
    data_set: _Name = ""
    population: _Name = ""
    source_sha256: _Digest | None = None
    study: _Name = ""
    model: _Text = ""
    command: _Text = ""
    query_sha256: _Digest | None = None
    reading_sha256: _Digest | None = None
    engine: _Name = ""
    study_digest: _Digest = _EMPTY
    mechanism: _Name = ""
    epsilon: _Amount = "0"
    delta: _Amount = "0"
    charged_epsilon: _Amount = "0"
    charged_rho: _Amount = "0"
    budget_epsilon: _Amount = "0"
    budget_delta: _Amount = "0"
    relation: _Name | None = None
    promise: _Name | None = None
    key: _Text = ""
    replaced_epsilon: _Amount | None = None
    replaced_rho: _Amount | None = None
    colluders: _Count | None = None
    honest: _Count | None = None
    n_rows: _Count = 0
    payload_bytes: _Count = 0
    payload_sha256: _Digest | None = None
    receipt_sha256: _Digest | None = None
    reason: _Text = ""
    opener_key: _Digest | None = None
    set_digest: _Digest | None = None
    owners: _Count = 0
    sums_sha256: _Digest | None = None
    forms: _Text = ""
    rows_sha256: _Digest | None = None
    consent: _Digest | None = None
    statement: Annotated[str, Field(max_length=1 << 14)] = ""
    proposal: _Digest | None = None
    signature: Annotated[str, Field(max_length=1 << 12)] = ""


class Look(_Form):
    """An export of a site's record.

    ``previous`` is the SHA-256 of the ``audit.json`` of the export before it, zeros for the first;
    ``account`` is who ran the command, ``caller`` who asked for it as `sudo` says, or empty.
    """

    number: Annotated[int, Field(ge=1, le=MOST_LOOKS)]
    time: Annotated[str, Field(max_length=40)]
    account: _Name
    caller: _Name
    entries: _Count
    head: _Digest
    previous: _Digest


class PastLook(Look):
    """An earlier export, and the SHA-256 of its ``audit.json``."""

    sha256: _Digest


class AuditDocument(_Form):
    """Content of ``audit.json``; ``roles`` and ``receipts`` are JSON of others' forms."""

    version: Literal[1]
    owner: _Name
    software: _Name
    look: Look
    looks: Annotated[list[PastLook], Field(max_length=MOST_LOOKS)]
    entries: list[dict[str, Any]]
    roles: list[dict[str, Any]]
    receipts: list[dict[str, Any]]


def sign_audit(document: AuditDocument, signer: Signer) -> SignedFile:
    """Return a bundle in its canonical form, with its envelope.

    Raise `SettingError` if it is larger than any that is read.
    """
    content = canonical_json(document.model_dump())
    if len(content) > MAX_BYTES:
        raise SettingError(
            f"the bundle would have {len(content)} bytes; an auditor reads at most {MAX_BYTES}: "
            "hand over `budget export` and the receipts"
        )
    claims = {"owner": document.owner, "number": document.look.number, "head": document.look.head}
    return sign_file(AUDIT, content, Claim.AUDIT, claims, signer)


def read_audit(path: Path, parties: KnownParties) -> tuple[AuditDocument, str]:
    """Read a bundle whose signature holds; return it with its SHA-256, hexadecimal.

    Raise `SignatureError` if no owner of that name signed it, `AlteredError` if it was changed
    since, `ReceiptError` if it is in another form, and `SettingError` if it cannot be read.
    """
    try:
        statement = open_envelope(read_envelope(path), Claim.AUDIT, parties, what="the bundle")
        content = read_stated(path, statement, most=MAX_BYTES)
    except OSError as error:
        raise SettingError(f"{path} cannot be read: {error.strerror or error}") from error
    document = parse_audit(content)
    who = statement.signed_by
    if who.role is not Role.OWNER or who.name != document.owner:
        raise SignatureError(
            f"the bundle says that it is of site {document.owner}, and {who.role.value} {who.name} "
            "signed it"
        )
    return document, statement.sha256


def parse_audit(content: bytes) -> AuditDocument:
    """Read a bundle in its one form; raise `ReceiptError` for any other."""
    wrong = "the bundle is not in the one form that a site writes"
    if len(content) > MAX_BYTES or sum(map(content.count, _MARKS)) > _MOST_MARKS:
        raise ReceiptError(wrong)
    try:
        document = json.loads(content)
        # A key that stands twice, another order and blanks end here.
        if canonical_json(document) != content:
            raise ReceiptError(wrong)
        return AuditDocument.model_validate(document)
    except ValidationError as error:
        place = ".".join(str(each) for each in error.errors()[0]["loc"][:4])
        raise ReceiptError(f"{wrong}: {place}") from error
    except (ValueError, RecursionError) as error:
        raise ReceiptError(wrong) from error


def without_withheld(document: dict[str, Any]) -> dict[str, Any]:
    """Return an exported entry without what must not leave."""
    names = [key for key in WITHHELD.get(document["kind"], ()) if key in document]
    if not names:
        return document
    kept = {key: value for key, value in document.items() if key not in (*names, "salt")}
    return {**kept, "withheld": names}


def read_entry(document: dict[str, Any], number: int) -> AuditedEntry:
    """Read an entry; raise `ReceiptError` with its number unless its kind has exactly its keys."""
    try:
        entry = AuditedEntry.model_validate(document)
    except ValidationError as error:
        raise faulty_entry(number, "it is no entry of a ledger") from error
    needed = {*_KEYS[entry.kind].split(), *_EVERY.split()}
    more = _MORE if entry.kind in ("reserve", "recovered") else ""
    allowed = {*needed, *more.split(), *_SOME.split()}
    if not needed <= document.keys() <= allowed or None in document.values():
        raise faulty_entry(number, "it has other keys than an entry of its kind")
    withheld = entry.withheld
    if withheld is not None and (
        tuple(withheld) != WITHHELD.get(entry.kind)
        or entry.salt is not None
        or withheld[0] in document
    ):
        raise faulty_entry(number, "it withholds something else than it may")
    return entry


def faulty_entry(number: int, reason: str) -> ReceiptError:
    """The error for a bundle in which an entry of the ledger is the first one at fault."""
    return ReceiptError(f"the ledger in the bundle does not hold at entry {number}: {reason}")
