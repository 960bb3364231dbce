"""Agreement of all parties of a masked sum: owners, openers, and the number of colluders.

Limits: stewards must know that the owners are different institutions, and that a key belongs to its
owner; a holder of several owners' keys counts as that many colluders.
"""

import hashlib
import math
import re
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, pairwise
from typing import Self

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_der_public_key

from dppca.common.kernel.aggregation.framing import frame
from dppca.common.kernel.aggregation.seals import load_public_key
from dppca.common.kernel.documents.names import is_party_name
from dppca.common.kernel.errors import PermissionDeniedError, StudyError
from dppca.common.kernel.signing import Purpose, is_signed
from dppca.common.kernel.study import MAX_OWNERS, Study

MAX_ENTRIES = 1 << 26
"""Largest number of entries: 512 MiB; twice the widest schema's without histograms."""
MAX_STREAMS = 1024  # of masks in one upload
GUARDS = 2
"""Number of words at the end of each vector that are zero before masking."""
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class OfferedKey:
    """An opener's key for one study.

    ``public`` has 1216 bytes (`dppca.common.kernel.aggregation.seals`); ``signature`` over it is
    the opener's own (DER), for `Purpose.OPENER`.
    """

    public: bytes
    signature: bytes


@dataclass(frozen=True, slots=True)
class Member:
    """An owner; an opener if it offers a key.

    ``key`` is its certificate's public key on P-256: SubjectPublicKeyInfo in DER, 91 bytes.
    """

    name: str
    key: bytes
    offered: OfferedKey | None = None


@dataclass(frozen=True)
class Terms:
    """The agreement; its digest is in every key, seal and signature.

    `StudyError` is raised if a number or key is invalid; the message says which.

    Attributes
    ----------
    study
        SHA-256 of the study's document, hexadecimal.
    n_entries
        Length of an owner's vector, without guards.
    quorum
        Least number of owners in the sum.
    colluders
        ``t``: most owners, openers among them, that collude with the curator.
    spares
        ``s``: openers that may be lost permanently.
    members
        All owners, names ascending.
    """

    study: str
    n_entries: int
    quorum: int
    colluders: int
    spares: int
    members: tuple[Member, ...]

    def __post_init__(self) -> None:
        _check_numbers(self)
        _check_keys(self.members)

    @classmethod
    def from_study(cls, study: Study) -> Self:
        """Return the terms of a study; `StudyError` unless it has ``trust: aggregate``."""
        colluders, identities, openers = study.privacy.colluders, study.identities, study.openers
        if colluders is None or identities is None or openers is None:
            raise StudyError(f"study {study.name} does not have trust: aggregate")
        offered = {name: OfferedKey(each.key, each.signature) for name, each in openers.items()}
        return cls(
            study=study.digest,
            n_entries=study.table.layout.n_entries,
            quorum=study.required_contributions,
            colluders=colluders,
            spares=study.spares,
            members=tuple(
                Member(name, identities[name], offered.get(name)) for name in sorted(study.owners)
            ),
        )

    @property
    def honest(self) -> int:
        """Number ``h`` of owners in every sum whose noise counts."""
        return self.quorum - self.colluders

    @property
    def n_words(self) -> int:
        """Number of words of a masked vector: entries and guards."""
        return self.n_entries + GUARDS

    @cached_property
    def openers(self) -> tuple[str, ...]:
        """Names of the openers, ascending."""
        return tuple(member.name for member in self.members if member.offered)

    @property
    def tolerated(self) -> int:
        """Number of openers that may collude, ``t`` or more: one stream stays unknown to them."""
        return len(self.openers) - 2 * self.spares - 1

    @property
    def votes_needed(self) -> int:
        """Votes for one set before an opener opens it; 0 if each stream has one holder."""
        return len(self.openers) - self.spares if self.spares else 0

    @cached_property
    def holders(self) -> tuple[tuple[str, ...], ...]:
        """Openers that hold each stream; a stream's name is its index here."""
        return tuple(combinations(self.openers, 2 * self.spares + 1))

    def held(self, opener: str) -> tuple[int, ...]:
        """Return the streams that an opener holds, ascending."""
        return tuple(k for k, holders in enumerate(self.holders) if opener in holders)

    def public_key(self, name: str) -> ec.EllipticCurvePublicKey:
        """Return a member's key; `PermissionDeniedError` if the terms do not name it."""
        return _load_key(self._member(name).key, name)

    def opener_key(self, name: str) -> bytes:
        """Return the key that an opener offers; `PermissionDeniedError` if it is no opener."""
        offered = self._member(name).offered
        if offered is None:
            raise PermissionDeniedError(f"{name} is not an opener of this study")
        return offered.public

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the canonical form, hexadecimal."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def to_bytes(self) -> bytes:
        """Return the canonical form."""
        numbers = (self.n_entries, self.quorum, self.colluders, self.spares)
        parts = [bytes.fromhex(self.study), *(str(number).encode() for number in numbers)]
        for member in self.members:
            offered = member.offered or OfferedKey(b"", b"")
            parts += [member.name.encode(), member.key, offered.public, offered.signature]
        return frame("aggregation terms", *parts)

    def _member(self, name: str) -> Member:
        if name not in self._by_name:
            raise PermissionDeniedError(f"{name!r} is not an owner of this study")
        return self._by_name[name]

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        return {member.name: member for member in self.members}


def key_bytes(key: ec.EllipticCurvePublicKey) -> bytes:
    """Return a public key in the form of `Member.key`."""
    return key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _check_numbers(terms: Terms) -> None:
    openers, owners = len(terms.openers), len(terms.members)
    if not _DIGEST.fullmatch(terms.study):
        raise StudyError("the study is named by its SHA-256, 64 hexadecimal digits")
    if not 1 <= terms.n_entries <= MAX_ENTRIES:
        raise StudyError(f"n_entries is {terms.n_entries}; it must be in 1..{MAX_ENTRIES}")
    if owners > MAX_OWNERS:
        raise StudyError(f"{owners} owners are named; {MAX_OWNERS} are allowed")
    if terms.colluders < 1:
        raise StudyError(f"colluders is {terms.colluders}; it must be at least 1")
    if terms.spares < 0:
        raise StudyError(f"spares is {terms.spares}; it must be at least 0")
    if not terms.colluders + 2 <= terms.quorum <= owners:
        raise StudyError(
            f"quorum is {terms.quorum}; with {owners} owners and {terms.colluders} colluders it "
            f"must be in {terms.colluders + 2}..{owners}"
        )
    if terms.tolerated < terms.colluders:
        raise StudyError(
            f"{openers} openers are named; {terms.colluders} colluders and {terms.spares} spares "
            f"need {terms.colluders + 1 + 2 * terms.spares}"
        )
    streams = math.comb(openers, 2 * terms.spares + 1)
    if streams > MAX_STREAMS:
        raise StudyError(
            f"{openers} openers with {terms.spares} spares make {streams:,} streams; "
            f"{MAX_STREAMS} are allowed: name fewer openers"
        )


def _check_keys(members: tuple[Member, ...]) -> None:
    if any(before.name >= after.name for before, after in pairwise(members)):
        raise StudyError("names of owners must be in ascending order, each once")
    if len({member.key for member in members}) < len(members):
        raise StudyError("two owners have the same key")
    offered = [member.offered.public for member in members if member.offered]
    if len(set(offered)) < len(offered):
        raise StudyError("two openers offer the same key")
    for member in members:
        if not is_party_name(member.name):
            raise StudyError(f"{member.name!r} is not the name of an owner")
        key = _load_key(member.key, member.name)
        if member.offered is None:
            continue
        load_public_key(member.offered.public, what=f"the opener key of {member.name}")
        if not is_signed(key, Purpose.OPENER, member.offered.public, member.offered.signature):
            raise StudyError(f"the opener key of {member.name} is not signed by its own key")


def _load_key(content: bytes, name: str) -> ec.EllipticCurvePublicKey:
    try:
        key = load_der_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise StudyError(f"the key of {name} cannot be read") from error
    if (
        not isinstance(key, ec.EllipticCurvePublicKey)
        or not isinstance(key.curve, ec.SECP256R1)
        or key_bytes(key) != content
    ):
        raise StudyError(f"the key of {name} is not an uncompressed key on P-256, in DER")
    return key
