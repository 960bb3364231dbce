"""Envelopes: signed claims of a party about a file, in a small file beside it.

An envelope is DSSE (Dead Simple Signing Envelope, version 1.0) around a Statement of in-toto,
version 1. The statement's subject has the file's name, for people, and its SHA-256, which
identifies the file. Its predicate holds the claims, and its ``predicateType`` names their kind.
There is one signature; the certificate of its key stands beside it under ``cert``, as in ITE-7 of
in-toto. Others may add theirs: the first that has a ``cert`` counts, and no other is looked at.
`securesystemslib` encodes, signs and checks; other tools for DSSE can do the same.

The order is part of the design: size and form of the envelope, signature, certificate, revocation
and the SHA-256 of the file's bytes come before anything in the file is read.

Envelopes of the same statement may differ (JSON can be written in many ways, and an ECDSA
signature has a second valid form). So no digest is ever taken over an envelope.
"""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from securesystemslib.dsse import Envelope
from securesystemslib.exceptions import Error as SigningError
from securesystemslib.signer import Key, SecretsHandler, Signature, SSlibKey
from securesystemslib.signer import Signer as BaseSigner

from dppca.common.kernel.attestation.parties import KnownParties
from dppca.common.kernel.attestation.signatures import Signer, load_certificate, party_of
from dppca.common.kernel.documents.values import canonical_json
from dppca.common.kernel.durable.files import (
    PRIVATE,
    digest_file,
    open_regular,
    replacing,
    write_file,
)
from dppca.common.kernel.errors import AlteredError, ReceiptError, SettingError, SignatureError
from dppca.common.kernel.identity.tls import Identity

SUFFIX = ".intoto.json"
PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_BYTES = 1 << 27  # of a file's envelope, before it is decoded
_MOST_MARKS = 64  # of lists, objects and pairs in an envelope, before it is read
_FIELDS, _SIGNATURE_FIELDS = {"payload", "payloadType", "signatures"}, {"cert", "keyid", "sig"}
_MARKS = re.compile(rb"[\[{,:]")
"""Marks of JSON's structure. An envelope has a dozen of them: the rest is base64 and PEM."""
_HASHES: dict[str, type[hashes.SHA256 | hashes.SHA384 | hashes.SHA512]] = {
    "secp256r1": hashes.SHA256,
    "secp384r1": hashes.SHA384,
    "secp521r1": hashes.SHA512,
}


class Claim(StrEnum):
    """Kind of claim that a statement makes: its ``predicateType``."""

    COMPONENTS = "urn:dppca:predicate:components:1"
    """A curator's claim about the components of a study."""
    ROWS = "urn:dppca:predicate:synthetic-rows:1"
    """A claim about synthetic rows by the owner that drew or the operator that joined them."""
    MODEL = "urn:dppca:predicate:model:1"
    """An owner's claim about a model that may leave."""
    RELEASE = "urn:dppca:predicate:release:1"
    """An owner's claim about its contribution to a study."""
    ACKNOWLEDGEMENT = "urn:dppca:predicate:acknowledgement:1"
    """A curator's claim that it has stored a contribution."""
    AUDIT = "urn:dppca:predicate:audit:1"
    """A site's claim that an audit bundle is what it has on record."""


@dataclass(frozen=True, slots=True)
class SignedFile:
    """Released file and its envelope, in memory."""

    content: bytes
    envelope: bytes

    @property
    def sha256(self) -> bytes:
        """SHA-256 of the file alone; 32 bytes."""
        return hashlib.sha256(self.content).digest()


@dataclass(frozen=True, slots=True)
class FileStatement:
    """Content of an envelope whose signature and certificate are valid.

    Attributes
    ----------
    name
        Name of the file when it was signed; for people.
    sha256
        Digest of the file, in hexadecimal.
    signed_by
        Party that the certificate names.
    """

    name: str
    sha256: str
    predicate: Mapping[str, Any]
    signed_by: Identity

    def require_digest(self, sha256: str) -> None:
        """Raise `AlteredError` unless a file with this SHA-256 (hexadecimal) was signed."""
        if sha256 != self.sha256:
            raise AlteredError(
                f"the file is not the one that {self.signed_by.role.value} {self.signed_by.name} "
                "signed: it was changed since, or this is the envelope of another file"
            )


def envelope_path(path: Path) -> Path:
    """Return the path of a file's envelope."""
    return path.with_name(path.name + SUFFIX)


def sign_statement(
    name: str, sha256: str, claim: Claim, predicate: Mapping[str, object], signer: Signer
) -> bytes:
    """Return the envelope of a file; the bytes are the same each time.

    Parameters
    ----------
    name
        Name of the file, without a folder.
    sha256
        Digest of the file, in hexadecimal.
    """
    envelope = Envelope(_statement_bytes(name, sha256, claim, predicate), PAYLOAD_TYPE, {})
    signature = envelope.sign(_PartySigner(signer))
    signature.unrecognized_fields["cert"] = signer.certificate.decode("ascii")
    return canonical_json(envelope.to_dict())


def sign_file(
    name: str, content: bytes, claim: Claim, predicate: Mapping[str, object], signer: Signer
) -> SignedFile:
    """Return a file in memory with its envelope, which `sign_statement` makes."""
    sha256 = hashlib.sha256(content).hexdigest()
    return SignedFile(content, sign_statement(name, sha256, claim, predicate, signer))


def open_envelope(
    content: bytes, claim: Claim, parties: KnownParties, *, what: str, as_written: bool = False
) -> FileStatement:
    """Check an envelope's signature and certificate, and return its content.

    Parameters
    ----------
    what
        Name of the envelope in messages, such as "the envelope of the table".
    as_written
        Refuse other bytes than this software writes: further signatures and fields, also in the
        statement, and other JSON. Set it for an envelope inside another one's claims.

    Raises
    ------
    SignatureError
        The content is no envelope with a signature, the signature is wrong, or the certificate is
        not accepted.
    ReceiptError
        The envelope belongs to another kind of file.
    """
    damaged = SignatureError(f"{what} is damaged, or is not an envelope of this software")
    document = _load_envelope(content)
    try:
        entry = _signature(document)
        certificate, keyid = str(entry["cert"]).encode("ascii"), str(entry.get("keyid", ""))
        envelope = _envelope(document, entry)
        if as_written and (
            (document.keys(), entry.keys()) != (_FIELDS, _SIGNATURE_FIELDS)
            or canonical_json(envelope.to_dict()) != canonical_json(document)
        ):
            raise damaged
    except (SigningError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise damaged from error
    key = load_certificate(certificate, what=what).public_key()
    if not isinstance(key, ec.EllipticCurvePublicKey):
        raise SignatureError(f"the certificate of {what} holds no key on an elliptic curve")
    try:
        known = SSlibKey.from_crypto(key)
        if as_written and keyid != known.keyid:
            raise damaged
        known.keyid = keyid
        envelope.verify([known], threshold=1)
    except (SigningError, ValueError, TypeError, LookupError, AttributeError) as error:
        raise SignatureError(
            f"{what} was changed, or not signed by the key of its certificate"
        ) from error
    parties.require(certificate, what=what)
    statement = _read_statement(envelope, claim, party_of(certificate, what=what), what=what)
    if as_written and envelope.payload != _written_again(statement, claim):
        raise ReceiptError(f"{what} has another form than this software writes")
    return statement


def unchecked_predicate(content: bytes) -> dict[str, Any]:
    """Return the claims in an envelope without a check of its signature.

    Raises
    ------
    SignatureError, ReceiptError
        The content is no envelope, or has no claims.
    """
    document = _load_envelope(content)
    try:
        predicate = json.loads(_envelope(document, _signature(document)).payload)["predicate"]
    except (
        SigningError,
        ValueError,
        TypeError,
        LookupError,
        AttributeError,
        RecursionError,
    ) as error:
        raise ReceiptError("an envelope without a statement of in-toto") from error
    if not isinstance(predicate, dict):
        raise ReceiptError("an envelope without claims")
    return predicate


def signing_certificate(envelope: bytes) -> bytes:
    """Return the certificate (PEM) in an envelope that was verified before."""
    return str(_signature(json.loads(envelope))["cert"]).encode("ascii")


def signed_digest(envelope: bytes) -> str:
    """Return the SHA-256 (hexadecimal) of the file of an envelope that was verified before."""
    document = json.loads(envelope)
    payload = json.loads(_envelope(document, _signature(document)).payload)
    return str(payload["subject"][0]["digest"]["sha256"])


def embed(envelope: bytes | None) -> object:
    """Return an envelope as decoded JSON, for another envelope's claims; None for none."""
    return None if envelope is None else json.loads(envelope)


def embedded(envelope: object, *, what: str) -> bytes | None:
    """Return the bytes of an envelope that `embed` decoded; None for null."""
    if envelope is None:
        return None
    try:
        return canonical_json(envelope)
    except (TypeError, ValueError, RecursionError) as error:
        raise SignatureError(f"{what} is damaged") from error


def read_envelope(path: Path) -> bytes:
    """Read the envelope beside a file.

    Raises
    ------
    ReceiptError
        There is no envelope.
    SignatureError
        It is larger than any envelope.
    OSError
        The envelope cannot be read, or is no regular file.
    """
    beside = envelope_path(path)
    try:
        with open_regular(beside) as (file, size):
            if size > MAX_BYTES:
                raise SignatureError(f"{beside.name} has {size} bytes; no envelope is so large")
            return file.read(size + 1)
    except FileNotFoundError as error:
        raise ReceiptError(
            f"{path.name} has no envelope: {beside.name} must lie beside it"
        ) from error


def read_signed(path: Path) -> SignedFile:
    """Read a file's envelope, then the file; `OSError` for no regular file, or as `read_envelope`.

    For a file that this software has written here; of others, see `read_stated`.
    """
    path.stat()  # a file that is missing is said first
    envelope = read_envelope(path)
    with open_regular(path) as (file, _):
        return SignedFile(file.read(), envelope)


def read_stated(path: Path, statement: FileStatement, *, most: int) -> bytes:
    """Read a file that was signed, at most ``most`` bytes of it.

    Raise `AlteredError` if it is larger, which nothing of it is read to find, or is not the one
    that was signed, and `OSError` if it cannot be read or is no regular file.
    """
    with open_regular(path) as (file, size):
        if size > most:
            raise AlteredError(
                f"the file has {size} bytes; one of this study has at most {most}: it is not one "
                "of this software, or was changed"
            )
        content = file.read(size + 1)
    statement.require_digest(hashlib.sha256(content).hexdigest())
    return content


def write_signed(path: Path, file: SignedFile | bytes, *, mode: int = PRIVATE) -> None:
    """Write a file, its envelope first if it has one; `OSError` if that is not possible."""
    if isinstance(file, SignedFile):
        write_file(envelope_path(path), file.envelope, mode=mode)
        file = file.content
    write_file(path, file, mode=mode)


@contextmanager
def signing(
    path: Path, claim: Claim, predicate: Mapping[str, object], signer: Signer, *, mode: int
) -> Iterator[Path]:
    """Yield the path of a draft; if the block succeeds, sign the draft and give it its name.

    The envelope is written before the file has its name. A process that is killed between the two
    leaves an envelope that does not fit the file, and every verification refuses it; the same
    command repairs it.

    Parameters
    ----------
    mode
        Permissions of the envelope, before the process's mask.

    Raises
    ------
    OSError
        A file cannot be written.
    """
    with replacing(path, durable=False) as draft:
        yield draft
        envelope = sign_statement(path.name, digest_file(draft), claim, predicate, signer)
        write_file(envelope_path(path), envelope, mode=mode, durable=False)


def _statement_bytes(
    name: str, sha256: str, claim: Claim, predicate: Mapping[str, object]
) -> bytes:
    """Return the canonical JSON of a statement, as it is signed."""
    return canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": name, "digest": {"sha256": sha256}}],
            "predicateType": claim.value,
            "predicate": predicate,
        }
    )


def _written_again(statement: FileStatement, claim: Claim) -> bytes | None:
    """Return the bytes that this software writes of a statement; None if it writes none."""
    try:
        return _statement_bytes(statement.name, statement.sha256, claim, statement.predicate)
    except (ValueError, RecursionError):  # such as NaN
        return None


def _signature(document: Any) -> Any:
    """Return the entry of an envelope's signature that counts; raise `LookupError` without one."""
    certified = [each for each in document["signatures"] if "cert" in each]
    return certified[0]


def _envelope(document: Any, entry: Any) -> Envelope:
    """Return the envelope with one signature alone, whose ``keyid`` is empty if it has none."""
    keyid = str(entry.get("keyid", ""))
    return Envelope.from_dict({**document, "signatures": [{**entry, "keyid": keyid}]})


def _load_envelope(content: bytes) -> Any:
    """Return the decoded JSON of an envelope; `SignatureError` if its form is wrong."""
    marks = _MARKS.finditer(content)
    if len(content) > MAX_BYTES or any(number >= _MOST_MARKS for number, _ in enumerate(marks)):
        raise SignatureError("the envelope has another form")
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise SignatureError("the envelope is not JSON") from error
    return document


def _read_statement(envelope: Envelope, claim: Claim, who: Identity, *, what: str) -> FileStatement:
    """Return the statement in an envelope; the payload is read only after it was verified."""
    try:
        statement = json.loads(envelope.payload)
        kind, stated = statement["_type"], statement["predicateType"]
        (subject,) = statement["subject"]
        name, sha256, predicate = (
            subject["name"],
            subject["digest"]["sha256"],
            statement["predicate"],
        )
        sound = (
            (envelope.payload_type, kind) == (PAYLOAD_TYPE, STATEMENT_TYPE)
            and isinstance(name, str)
            and isinstance(predicate, dict)
            and re.fullmatch("[0-9a-f]{64}", sha256) is not None
        )
    except (ValueError, TypeError, LookupError, RecursionError) as error:
        raise ReceiptError(f"{what} holds no statement of in-toto") from error
    if not sound:
        raise ReceiptError(f"{what} holds no statement of in-toto")
    if stated != claim.value:
        raise ReceiptError(f"{what} is of another kind of file, or of another version")
    return FileStatement(name, sha256, predicate, who)


class _PartySigner(BaseSigner):
    """Key of a party for `securesystemslib`. RFC 6979: the same bytes give the same signature."""

    def __init__(self, signer: Signer) -> None:
        self._key = signer.key
        try:
            self._public = SSlibKey.from_crypto(signer.key.public_key())
        except (SigningError, ValueError) as error:
            raise SettingError(
                "key.pem is on a curve that no envelope can be signed with"
            ) from error

    @property
    def public_key(self) -> Key:
        return self._public

    @classmethod
    def from_priv_key_uri(
        cls, priv_key_uri: str, public_key: Key, secrets_handler: SecretsHandler | None = None
    ) -> BaseSigner:
        raise NotImplementedError("a party's key comes from its own folder")

    def sign(self, payload: bytes) -> Signature:
        algorithm = _HASHES[self._key.curve.name]()
        signature = self._key.sign(payload, ec.ECDSA(algorithm, deterministic_signing=True))
        return Signature(self._public.keyid, signature.hex())
