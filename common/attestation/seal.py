"""Seals: a signature inside a file over every other byte of it.

A file carries one *block*: canonical JSON with the certificate of the writer of the file and a
seal of fixed length. The SHA-256 of the file is taken with the seal left blank, signed, and the
signature written into the blank. So no byte can change unnoticed, containers and padding included,
and the file remains an ordinary NumPy, Parquet, Arrow or zip file::

    {"certificate":"-----BEGIN CERTIFICATE-----...","seal":"DPPCA-SEAL-1:3045022100....."}

A container may hold the block twice (Arrow: at its beginning and its end): all seals are left
blank for the digest and must be equal.
"""

from __future__ import annotations

import hashlib
import json
import mmap
import struct
from pathlib import Path

from dppca.common.attestation.parties import KnownParties
from dppca.common.attestation.signatures import Signer, require_signed
from dppca.common.errors import AlteredError, ReceiptError, SettingError, SignatureError
from dppca.common.schema.document import canonical_json
from dppca.common.signing import Purpose
from dppca.common.transport.tls import Identity

KEY = b"dppca-seal"
"""Where a table's metadata holds the block."""
MARK = b"DPPCA-SEAL-1:"
LENGTH = 288  # of a signature in hexadecimal, padded with dots
BLANK = MARK + b"." * LENGTH
_WINDOW = 1 << 24  # bytes of a mapped file that are held at once
_END_OF_ZIP = struct.Struct("<4sHHHHIIH")

Bytes = bytes | bytearray | mmap.mmap


def make_block(certificate: bytes) -> bytes:
    """The block to put into a file, its seal blank."""
    return canonical_json({"certificate": certificate.decode("ascii"), "seal": BLANK.decode()})


def sealed(content: bytes, signer: Signer) -> bytes:
    """A file that holds a blank block, sealed."""
    places = _places(content)
    text = _make_seals(content, places, signer)
    rest = memoryview(content)
    ends = [0, *(place + len(BLANK) for place in places)]
    pieces = [rest[end:place] for end, place in zip(ends, places, strict=False)]
    return text.join([*pieces, rest[ends[-1] :]])


def seal_file(path: Path, signer: Signer) -> None:
    """Seal a file in place; `SettingError` where it cannot be written."""
    try:
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as content:
            places = _places(content)
            text = _make_seals(content, places, signer)
            for place in places:
                content[place : place + len(BLANK)] = text
            content.flush()
    except OSError as error:
        raise SettingError(f"cannot write {path}: {error.strerror}") from error


def digest_unsealed(content: Bytes) -> bytes:
    """SHA-256 of a file, every seal in it left blank; 32 bytes."""
    return _digest(content, _places(content))


def require_sealed(content: Bytes, block: bytes | None) -> tuple[Identity, bytes]:
    """Who sealed a file, and the certificate (PEM).

    Parameters
    ----------
    block
        As the container's reader gives it; None where it has none.

    Raises
    ------
    ReceiptError
        The file is not sealed.
    SignatureError
        The block is damaged.
    AlteredError
        Some byte was changed after the file was sealed.
    """
    if block is None:
        raise ReceiptError("the file carries no seal: it is not a released file")
    certificate, seal = _read(block)
    places = _places(content)
    if not places or any(content[p : p + len(BLANK)] != seal for p in places):
        raise SignatureError("the seal differs from place to place")
    try:
        signature = bytes.fromhex(seal.removeprefix(MARK).rstrip(b".").decode("ascii"))
    except ValueError as error:
        raise SignatureError("the seal is damaged") from error
    if _encode_signature(signature) != seal:
        raise SignatureError("the seal is damaged")
    try:
        who = require_signed(
            Purpose.FILE, digest_unsealed(content), signature, certificate, what="the file"
        )
    except SignatureError as error:
        raise AlteredError(f"the file as a whole: {error}") from error
    return who, certificate


def require_sealed_by_party(
    content: Bytes, block: bytes | None, parties: KnownParties, *, what: str
) -> Identity:
    """Who sealed a file, once the certificate counts; raises as `require_sealed`.

    Parameters
    ----------
    what
        What must have been changed where all else holds, in words.
    """
    try:
        who, certificate = require_sealed(content, block)
    except AlteredError as error:
        raise AlteredError(f"{what}: {error}") from error
    parties.require(certificate, what="the file's seal")
    return who


def with_zip_comment(content: bytes, comment: bytes) -> bytes:
    """A zip archive with a comment; everything before its end is as it was."""
    size = _END_OF_ZIP.size
    fields = _END_OF_ZIP.unpack(content[-size:])
    if fields[0] != b"PK\x05\x06" or fields[-1] != 0:
        raise ReceiptError("the archive has a comment already, or is no zip archive")
    return content[:-size] + _END_OF_ZIP.pack(*fields[:-1], len(comment)) + comment


def _read(block: bytes) -> tuple[bytes, bytes]:
    """Certificate and seal of a block."""
    try:
        document = json.loads(block)
        certificate, seal = document["certificate"].encode("ascii"), document["seal"].encode()
        sound = len(document) == 2 and canonical_json(document) == block
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise SignatureError("the block with the seal is damaged") from error
    if not sound or len(seal) != len(BLANK) or not seal.startswith(MARK):
        raise SignatureError("the block with the seal is damaged")
    return certificate, seal


def _make_seals(content: Bytes, places: list[int], signer: Signer) -> bytes:
    """What to put into the places, which are blank."""
    if not places:
        raise ReceiptError("there is no blank seal in the file")
    return _encode_signature(signer.sign(Purpose.FILE, _digest(content, places)))


def _digest(content: Bytes, places: list[int]) -> bytes:
    digest = hashlib.sha256()
    position = 0
    with memoryview(content) as view:
        for place in [*places, len(content)]:
            for start in range(position, place, _WINDOW):
                stop = min(start + _WINDOW, place)
                digest.update(view[start:stop])
                _forget(content, start, stop)
            if place < len(content):
                digest.update(BLANK)
            position = place + len(BLANK)
    return digest.digest()


def _encode_signature(signature: bytes) -> bytes:
    return MARK + signature.hex().encode().ljust(LENGTH, b".")


def _places(content: Bytes) -> list[int]:
    """Where seals begin."""
    places, start = [], 0
    while start < len(content):
        stop = start + _WINDOW
        place = content.find(MARK, start, stop + len(MARK) - 1)
        if place < 0:
            _forget(content, start, stop)
            start = stop
        elif place + len(BLANK) <= len(content):
            places.append(place)
            start = place + len(BLANK)
        else:
            break
    return places


def _forget(content: Bytes, start: int, stop: int) -> None:
    """Let go of the pages of a mapped file that lie in a range; they are read again if needed."""
    if isinstance(content, mmap.mmap) and hasattr(content, "madvise"):
        first, last = -(-start // mmap.PAGESIZE), min(stop, len(content)) // mmap.PAGESIZE
        if first < last:
            size = (last - first) * mmap.PAGESIZE
            content.madvise(mmap.MADV_DONTNEED, first * mmap.PAGESIZE, size)
