"""Signatures that people make with OpenSSH: ECDSA on P-256, with a key file or a FIDO token.

Source: OpenSSH's PROTOCOL.sshsig, PROTOCOL.u2f and RFC 5656 (sections 3.1 and 3.1.2).

A *person* is told by the point of a key: 64 bytes of coordinates. A signature of ECDSA has a
second valid form, one key can be written as a plain and as a token's key, and comments are free:
neither signatures nor lines nor names are counted. Each form below is read in one way only.

Not read: Ed25519 (a key of small order fits signatures that anybody can write), RSA, other curves,
certificates, options before a key. A token's signature without the flag of touch is refused;
``ssh-keygen -Y verify`` takes it.

Limits: nothing shows that a token's key lies in a token, or that two keys are of two people.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dppca.common.kernel.errors import SettingError, SignatureError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric import ec

_PLAIN, _TOKEN = b"ecdsa-sha2-nistp256", b"sk-ecdsa-sha2-nistp256@openssh.com"
_CURVE, _MAGIC = b"nistp256", b"SSHSIG"
_HASHES = {b"sha256": hashlib.sha256, b"sha512": hashlib.sha512}
_SCALAR = 33  # bytes of a number below the curve's order, with a zero before its sign
_TOUCHED = 0x01  # flag of a token: somebody was there
MAX_KEY = 1 << 10  # characters of a line; a token's has some 200 and its application
MAX_SIGNATURE = 1 << 11  # bytes; the largest that was made has 400
_MOST_APPLICATION = 256  # bytes of a token's application; ours has a dozen


@dataclass(frozen=True, slots=True)
class PersonKey:
    """A public key of a person: its ``point`` (64 bytes), and the token's application if any."""

    point: bytes
    application: bytes | None = None

    @property
    def blob(self) -> bytes:
        """The key in OpenSSH's form."""
        kind = _PLAIN if self.application is None else _TOKEN
        parts = [kind, _CURVE, b"\x04" + self.point]
        return b"".join(map(_field, parts + ([self.application] if self.application else [])))

    @property
    def line(self) -> str:
        """The one line that this key has in roles: kind and base64, without a comment."""
        kind = _PLAIN if self.application is None else _TOKEN
        return f"{kind.decode()} {base64.b64encode(self.blob).decode()}"

    @property
    def fingerprint(self) -> str:
        """OpenSSH's fingerprint of the key, which two people compare by telephone."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest()).decode().rstrip("=")
        return f"SHA256:{digest}"


def read_line(line: str) -> PersonKey:
    """Read the line of a public key, whose comment is passed over.

    Raise `SettingError` for another kind of key, options before it, or a point off the curve.
    """
    words = line.strip().split(" ", 2) if len(line) <= MAX_KEY else []
    if len(words) < 2 or words[0].encode() not in (_PLAIN, _TOKEN) or "\n" in line.strip():
        raise SettingError(
            "a person's key is one line that begins with ecdsa-sha2-nistp256 or "
            "sk-ecdsa-sha2-nistp256@openssh.com (ssh-keygen -t ecdsa, or -t ecdsa-sk)"
        )
    try:
        key = _read_key(base64.b64decode(words[1], validate=True))
    except (ValueError, binascii.Error) as error:
        raise SettingError("a person's key is damaged, or no point of P-256") from error
    if key.line != f"{words[0]} {words[1]}":
        raise SettingError("a person's key is not in the one form that OpenSSH writes")
    return key


def find_signing_key(
    signature: bytes, message: bytes, *, namespace: str, most: int = MAX_SIGNATURE
) -> PersonKey:
    """Return the key that signed a message for a namespace.

    Raise `SignatureError` for anything but one signature in OpenSSH's form, over this message, for
    this namespace, by a key of the two kinds, and with touch if the key is a token's.
    """
    if len(signature) > most:
        raise SignatureError("a signature of OpenSSH has at most 2048 bytes")
    try:
        return _verify(signature, message, namespace.encode())
    except ValueError as error:
        raise SignatureError(
            "this is no signature of a person's key over this statement, made with "
            f"ssh-keygen -Y sign -n {namespace}"
        ) from error


def _verify(content: bytes, message: bytes, namespace: bytes) -> PersonKey:
    # Here, because every command reads ledgers, and few ledgers have signatures.
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

    if content[:6] != _MAGIC or content[6:10] != b"\0\0\0\1":
        raise ValueError("no signature of OpenSSH")
    blob, stated, reserved, name, inner = _fields(content[10:], 5)
    if stated != namespace or reserved or name not in _HASHES:
        raise ValueError("another namespace or hash")
    key = _read_key(blob)
    digest = _HASHES[name](message).digest()
    signed = _MAGIC + b"".join(map(_field, (namespace, b"", name, digest)))
    if key.application is None:
        kind, numbers = _fields(inner, 2)
        expected = _PLAIN
    else:
        (kind, numbers), rest = _split(inner, 2)
        expected = _TOKEN
        if len(rest) != 5 or not rest[0] & _TOUCHED:
            raise ValueError("a token that nobody touched")
        signed = b"".join(
            (hashlib.sha256(key.application).digest(), rest, hashlib.sha256(signed).digest())
        )
    if kind != expected:
        raise ValueError("the signature's kind is not its key's")
    r, s = map(_number, _fields(numbers, 2))
    try:
        _public(key.point).verify(encode_dss_signature(r, s), signed, ec.ECDSA(hashes.SHA256()))
    except InvalidSignature as error:
        raise ValueError("the key has not signed it") from error
    return key


def _read_key(blob: bytes) -> PersonKey:
    token = blob[4 : 4 + len(_TOKEN)] == _TOKEN
    kind, curve, point, *application = _fields(blob, 4 if token else 3)
    if kind != (_TOKEN if token else _PLAIN) or curve != _CURVE:
        raise ValueError("another kind of key")
    if len(point) != 65 or point[0] != 4:  # compressed, hybrid and infinite points are refused
        raise ValueError("the point is not written in full")
    if token and not 0 < len(application[0]) <= _MOST_APPLICATION:
        raise ValueError("no application, or a long one")
    key = PersonKey(point[1:], application[0] if token else None)
    _public(key.point)  # on the curve
    return key


def _public(point: bytes) -> ec.EllipticCurvePublicKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), b"\x04" + point)


def _number(content: bytes) -> int:
    """Read a positive number in the one form that RFC 4251 gives it."""
    value = int.from_bytes(content, "big")
    shortest = value.to_bytes(value.bit_length() // 8 + 1, "big")
    if not 0 < len(content) <= _SCALAR or content != shortest or value == 0:
        raise ValueError("a number in another form")
    return value


def _field(content: bytes) -> bytes:
    return len(content).to_bytes(4, "big") + content


def _fields(content: bytes, count: int) -> list[bytes]:
    fields, rest = _split(content, count)
    if rest:
        raise ValueError("bytes after the last field")
    return fields


def _split(content: bytes, count: int) -> tuple[list[bytes], bytes]:
    """Return the first fields, each after its length in 4 bytes, and what follows them."""
    fields: list[bytes] = []
    for _ in range(count):
        end = 4 + int.from_bytes(content[:4], "big")
        if len(content) < max(4, end):
            raise ValueError("it ends early")
        fields.append(content[4:end])
        content = content[end:]
    return fields, content
