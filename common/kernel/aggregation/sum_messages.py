"""The messages of a masked sum, and their bytes.

Every class has `to_bytes`, and `from_bytes`, which takes the terms: they limit the size of each
part, and nothing larger is read. A message that was read is well formed, but not yet trusted:
`dppca.common.kernel.aggregation.opening` and `pooling` check its content.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Self

from dppca.common.kernel.aggregation.framing import frame, frame_parts, unframe, unframe_head
from dppca.common.kernel.aggregation.seals import SEAL_OVERHEAD
from dppca.common.kernel.aggregation.streams import SEED_BYTES
from dppca.common.kernel.aggregation.terms import Terms
from dppca.common.kernel.documents.names import is_party_name
from dppca.common.kernel.errors import ConflictError, LimitError, SignatureError, UploadError
from dppca.common.kernel.signing import Purpose, is_signed

_HASH = 32  # bytes of SHA-256
_NAME = 64  # bytes of an owner's name
_SIGNATURE = 72  # DER of two numbers below 2**256
_COUNT = 4  # bytes of a length
_SET_HEAD = (_NAME, _COUNT)


@dataclass(frozen=True, slots=True)
class Statement:
    """Signed part of an owner's upload. Digests are raw.

    ``terms`` is `Terms.digest` as bytes, ``payload_sha256`` the digest of the masked vector;
    ``seals_sha256`` has the digest of the seal to each opener, in the openers' order.
    """

    terms: bytes
    owner: str
    payload_sha256: bytes
    seals_sha256: tuple[bytes, ...]

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return frame(
            "statement",
            self.terms,
            self.owner.encode(),
            self.payload_sha256,
            b"".join(self.seals_sha256),
        )

    @classmethod
    def from_bytes(cls, content: bytes, terms: Terms) -> Self:
        """Read a statement; `UploadError` or `LimitError` if it is none under these terms."""
        sealed = _HASH * len(terms.openers)
        digest, owner, payload, seals = unframe("statement", content, (_HASH, _NAME, _HASH, sealed))
        _require_length("the statement's seals", seals, sealed)
        _require_length("the digest of the masked vector", payload, _HASH)
        return cls(_terms(digest, terms), _name(owner), payload, _cut(seals, _HASH))


@dataclass(frozen=True, slots=True)
class Upload:
    """An owner's message, sent once.

    ``signature`` is the owner's (DER), for `Purpose.UPLOAD`, over the statement. ``seals`` has one
    for each opener, in the openers' order: seeds of the streams that it holds. ``payload`` is the
    masked vector with its guards, ``n_words`` little-endian words.
    """

    statement: Statement
    signature: bytes
    seals: tuple[bytes, ...]
    payload: bytes

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return frame(
            "masked upload",
            self.statement.to_bytes(),
            self.signature,
            b"".join(self.seals),
            self.payload,
        )

    @classmethod
    def from_bytes(cls, content: bytes, terms: Terms) -> Self:
        """Read an upload; `UploadError` or `LimitError` if it is none under these terms."""
        size, payload_size = seal_bytes(terms), 8 * terms.n_words
        sealed = size * len(terms.openers)
        statement, signature, seals, payload = unframe(
            "masked upload",
            content,
            (_statement_bytes(terms), _SIGNATURE, sealed, payload_size),
        )
        _require_length("the seals of an upload", seals, sealed)
        _require_length("the masked vector", payload, payload_size)
        return cls(Statement.from_bytes(statement, terms), signature, _cut(seals, size), payload)

    @classmethod
    def read_head(cls, content: bytes, terms: Terms) -> Self:
        """Read `head_limit` bytes or more, with an empty payload; raise as `from_bytes`."""
        size = seal_bytes(terms)
        sealed = size * len(terms.openers)
        limits = (_statement_bytes(terms), _SIGNATURE, sealed)
        statement, signature, seals = unframe_head("masked upload", content, limits)
        _require_length("the seals of an upload", seals, sealed)
        return cls(Statement.from_bytes(statement, terms), signature, _cut(seals, size), b"")

    def head(self, terms: Terms) -> bytes:
        """Return the bytes of an upload before its payload."""
        parts = (self.statement.to_bytes(), self.signature, b"".join(self.seals))
        return frame("masked upload", *parts) + _number(8 * terms.n_words)


def read_statement(content: bytes, terms: Terms) -> tuple[Statement, bytes, int]:
    """Return an upload's statement, its signature, and the offset of the first seal in its bytes.

    ``content`` has at least the first `statement_limit` bytes of the upload. Raise `UploadError` or
    `LimitError` if it is no upload under these terms.
    """
    limits = (_statement_bytes(terms), _SIGNATURE)
    head, signature = unframe_head("masked upload", content, limits)
    place = len(frame("masked upload", head, signature)) + _COUNT
    return Statement.from_bytes(head, terms), signature, place


def statement_limit(terms: Terms) -> int:
    """Largest number of bytes of an upload before its seals."""
    return _room("masked upload", (_statement_bytes(terms), _SIGNATURE))


def head_limit(terms: Terms) -> int:
    """Largest number of bytes of an upload before its payload."""
    sealed = seal_bytes(terms) * len(terms.openers)
    return _room("masked upload", (_statement_bytes(terms), _SIGNATURE, sealed))


def upload_limit(terms: Terms) -> int:
    """Largest number of bytes of an upload; the payload is the last ``8 * n_words`` of them."""
    return head_limit(terms) + _COUNT + 8 * terms.n_words


def opening_limit(terms: Terms) -> int:
    """Largest number of bytes of an opening."""
    return _room("signed opening", (_opening_bytes(terms), _SIGNATURE, 8 * terms.n_words))


@dataclass(frozen=True, slots=True)
class SignedSeal:
    """Part of an upload for one opener: without the masked vector and the others' seals."""

    statement: Statement
    signature: bytes
    seal: bytes


@dataclass(frozen=True, slots=True)
class SealedSet:
    """The set of owners to add up, for one opener; ``entries`` ascend by owner's name."""

    opener: str
    entries: tuple[SignedSeal, ...]

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return b"".join(set_pieces(self.opener, len(self.entries), self.entries))

    @classmethod
    def from_bytes(cls, content: bytes, terms: Terms) -> Self:
        """Read a set; `UploadError` or `LimitError` if it is none under these terms."""
        limits = (_statement_bytes(terms), _SIGNATURE, seal_bytes(terms))
        _, head = unframe_head("sealed set", content, _SET_HEAD)
        count = _parse_number(head)
        if not 1 <= count <= len(terms.members):
            raise LimitError(f"a set has {count:,} owners; the study has {len(terms.members):,}")
        opener, _, *entries = unframe("sealed set", content, _SET_HEAD + limits * count)
        parts = iter(entries)
        return cls(
            _name(opener),
            tuple(
                SignedSeal(Statement.from_bytes(statement, terms), signature, seal)
                for statement, signature, seal in zip(parts, parts, parts, strict=True)
            ),
        )

    @property
    def digest(self) -> str:
        """SHA-256 of the statements, hexadecimal; the same for every opener."""
        return set_digest(entry.statement for entry in self.entries)


def sealed_set_limit(terms: Terms) -> int:
    """Largest number of bytes of a set for one opener."""
    entry = (_statement_bytes(terms), _SIGNATURE, seal_bytes(terms))
    return _room("sealed set", _SET_HEAD + entry * len(terms.members))


def set_pieces(opener: str, n_owners: int, entries: Iterable[SignedSeal]) -> Iterator[bytes]:
    """Yield the canonical form of a set in pieces, one for each owner after the first."""
    yield frame("sealed set", opener.encode(), _number(n_owners))
    for entry in entries:
        yield frame_parts(entry.statement.to_bytes(), entry.signature, entry.seal)


@dataclass(frozen=True, slots=True)
class Vote:
    """An opener's promise to open this set and no other.

    Digests are hexadecimal; ``signature`` is the opener's (DER), for `Purpose.VOTE`.
    """

    terms: str
    set_digest: str
    opener: str
    signature: bytes

    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        return frame(
            "vote", bytes.fromhex(self.terms), bytes.fromhex(self.set_digest), self.opener.encode()
        )

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return frame("signed vote", self.signed(), self.signature)

    @classmethod
    def from_bytes(cls, content: bytes, terms: Terms) -> Self:
        """Read a vote; `UploadError` or `LimitError` if it is none under these terms."""
        limits = (_HASH, _HASH, _NAME)
        body, signature = unframe("signed vote", content, (_room("vote", limits), _SIGNATURE))
        digest, chosen, opener = unframe("vote", body, limits)
        _require_length("the digest of the set", chosen, _HASH)
        return cls(_terms(digest, terms).hex(), chosen.hex(), _name(opener), signature)


@dataclass(frozen=True, slots=True)
class SignedOpening:
    """An opening with the SHA-256 of `Opening.total`, 32 bytes, in place of the total."""

    terms: str
    set_digest: str
    opener: str
    streams: tuple[int, ...]
    total_sha256: bytes
    signature: bytes

    def signed(self) -> bytes:
        """Return the bytes that the signature covers."""
        return frame(
            "opening",
            bytes.fromhex(self.terms),
            bytes.fromhex(self.set_digest),
            self.opener.encode(),
            b"".join(_number(stream) for stream in self.streams),
            self.total_sha256,
        )

    @staticmethod
    def read_head(content: bytes, terms: Terms) -> SignedOpening:
        """Read the part before the sum in an opening's bytes; raise as `Opening.from_bytes`."""
        limits = (_opening_bytes(terms), _SIGNATURE)
        body, signature = unframe_head("signed opening", content, limits)
        if content != frame("signed opening", body, signature) + _number(8 * terms.n_words):
            raise UploadError("an opening is not as long as it says")
        return _read_opening(body, signature, terms)


@dataclass(frozen=True, slots=True)
class Opening:
    """An opener's sum of some of its streams over a set.

    ``streams`` are indices in `Terms.holders`, ascending; ``total`` is the sum of their masks over
    the set, ``n_words`` little-endian words; ``signature`` is the opener's (DER), for
    `Purpose.OPENING`.
    """

    terms: str
    set_digest: str
    opener: str
    streams: tuple[int, ...]
    total: bytes = b""
    signature: bytes = b""

    def without_total(self) -> SignedOpening:
        """Return the part that a receipt keeps."""
        total_sha256 = hashlib.sha256(self.total).digest()
        return SignedOpening(
            self.terms, self.set_digest, self.opener, self.streams, total_sha256, self.signature
        )

    def signed(self) -> bytes:
        """Return the bytes that the signature covers, with the total's digest for the total."""
        return self.without_total().signed()

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        return frame("signed opening", self.signed(), self.signature, self.total)

    @classmethod
    def from_bytes(cls, content: bytes, terms: Terms) -> Self:
        """Read an opening; `UploadError` or `LimitError` if it is none under these terms."""
        size = 8 * terms.n_words
        body, signature, total = unframe(
            "signed opening", content, (_opening_bytes(terms), _SIGNATURE, size)
        )
        signed = _read_opening(body, signature, terms)
        _require_length("the sum of an opening", total, size)
        if hashlib.sha256(total).digest() != signed.total_sha256:
            raise UploadError("an opening is not what it says of itself")
        return cls(signed.terms, signed.set_digest, signed.opener, signed.streams, total, signature)


def set_digest(statements: Iterable[Statement]) -> str:
    """Return the SHA-256 of owners' statements in their order, hexadecimal.

    Signatures are left out, because anyone can change one into another valid one.
    """
    digest = hashlib.sha256(frame("set"))
    for each in statements:
        digest.update(frame_parts(each.to_bytes()))
    return digest.hexdigest()


def seal_bytes(terms: Terms) -> int:
    """Length of a seal: every opener holds equally many streams."""
    return SEED_BYTES * len(terms.held(terms.openers[0])) + SEAL_OVERHEAD


def require_signed(
    terms: Terms, who: str, purpose: Purpose, content: bytes, signature: bytes
) -> None:
    """Raise unless a member signed a content.

    `PermissionDeniedError`: the terms do not name it. `SignatureError`: its key did not sign this.
    """
    if not is_signed(terms.public_key(who), purpose, content, signature):
        raise SignatureError(f"a {purpose.value} of {who} was changed, or not signed by its key")


def require_vote(terms: Terms, chosen: str, vote: Vote) -> None:
    """Raise unless an opener voted for the set with this digest.

    Raise `PermissionDeniedError` if the sender is no opener, `SignatureError` if the opener's key
    did not sign it, and `ConflictError` if it is for another set or study.
    """
    terms.opener_key(vote.opener)
    require_same_set(terms, chosen, vote)
    require_signed(terms, vote.opener, Purpose.VOTE, vote.signed(), vote.signature)


def require_same_set(terms: Terms, chosen: str, message: Vote | Opening | SignedOpening) -> None:
    """Raise `ConflictError` unless a vote or opening is for this set under these terms."""
    if (message.terms, message.set_digest) != (terms.digest, chosen):
        raise ConflictError(f"what {message.opener} sent is for another set or study")


def _statement_bytes(terms: Terms) -> int:
    return _room("statement", (_HASH, _NAME, _HASH, _HASH * len(terms.openers)))


def _read_opening(body: bytes, signature: bytes, terms: Terms) -> SignedOpening:
    digest, chosen, opener, streams, total_sha256 = unframe("opening", body, _opening_limits(terms))
    _require_length("the digest of the set", chosen, _HASH)
    _require_length("the digest of the sum", total_sha256, _HASH)
    if len(streams) % _COUNT:
        raise UploadError("an opening is not what it says of itself")
    return SignedOpening(
        _terms(digest, terms).hex(),
        chosen.hex(),
        _name(opener),
        tuple(_parse_number(each) for each in _cut(streams, _COUNT)),
        total_sha256,
        signature,
    )


def _opening_limits(terms: Terms) -> tuple[int, ...]:
    return (_HASH, _HASH, _NAME, _COUNT * len(terms.holders), _HASH)


def _opening_bytes(terms: Terms) -> int:
    return _room("opening", _opening_limits(terms))


def _room(kind: str, limits: tuple[int, ...]) -> int:
    return len(frame(kind)) + sum(limits) + 4 * len(limits)


def _terms(digest: bytes, terms: Terms) -> bytes:
    if digest.hex() != terms.digest:
        raise UploadError("a message is of another study, or of one whose document was changed")
    return digest


def _name(content: bytes) -> str:
    try:
        name = content.decode("ascii")
    except UnicodeDecodeError as error:
        raise UploadError("a name in a message is not ASCII") from error
    if not is_party_name(name):
        raise UploadError(f"{name!r} in a message is not a name of a party")
    return name


def _require_length(what: str, content: bytes, length: int) -> None:
    if len(content) != length:
        raise UploadError(f"{what}: {len(content):,} bytes, not {length:,}")


def _cut(content: bytes, size: int) -> tuple[bytes, ...]:
    return tuple(content[at : at + size] for at in range(0, len(content), size))


def _number(value: int) -> bytes:
    return value.to_bytes(_COUNT, "big")


def _parse_number(content: bytes) -> int:
    _require_length("a number", content, _COUNT)
    return int.from_bytes(content, "big")
