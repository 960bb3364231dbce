"""Records of a study at the curator: values that are `released`, `masked` or public.

No value is computed from a row without noise, and none changes: a step of
`dppca.curator.study.lifecycle` makes a new one.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Self

from dppca.common.kernel.attestation.contributions import SignedRelease
from dppca.common.kernel.documents.messages import Form, StudyState
from dppca.common.kernel.study import Study
from dppca.curator.study.seen_roles import SeenRoles

MAX_LEDGER_LENGTH = 1 << 24
"""More entries than an honest ledger can have: a site reads it whole before each of its steps."""


@dataclass(frozen=True, slots=True)
class LedgerHead:
    """Length and head (32 bytes) of an owner's ledger, reported by the owner."""

    length: int
    head: bytes


@dataclass(frozen=True, slots=True)
class Header:
    """Announcement of a contribution: a release signed by its owner, and the size of the upload."""

    release: SignedRelease
    n_bytes: int
    chain: LedgerHead

    @property
    def owner(self) -> str:
        """Owner of the release."""
        return self.release.owner

    @property
    def study_digest(self) -> bytes:
        """Digest of the release's study, 32 bytes."""
        return bytes.fromhex(self.release.receipt.study_digest)

    @property
    def release_id(self) -> bytes:
        """Identifier of the release, 16 bytes."""
        return bytes.fromhex(self.release.receipt.release_id)

    @property
    def n_rows(self) -> int:
        """Number of the owner's rows; public."""
        return self.release.receipt.n_rows

    @property
    def sha256(self) -> bytes:
        """Digest of the upload, 32 bytes: its name on disk."""
        return bytes.fromhex(self.release.receipt.claims.payload_sha256)


@dataclass(frozen=True, slots=True)
class Contribution(Header):
    """A release that was accepted; ``received_s`` in seconds since 1970 UTC."""

    received_s: int


by_owner = attrgetter("owner")
"""Sort key of contributions."""


@dataclass(frozen=True, slots=True)
class Publication:
    """Synthetic rows of one owner in one form: an Arrow IPC stream, named by its digest."""

    owner: str
    form: Form
    n_rows: int
    n_bytes: int
    sha256: bytes
    received_s: int


@dataclass(frozen=True, slots=True)
class StoredResult:
    """A stored result file: its size and SHA-256 (32 bytes), and its envelope."""

    n_bytes: int
    sha256: bytes
    envelope: bytes


@dataclass(frozen=True, slots=True)
class Sealing:
    """Sealed set of masked contributions: all that arrived until ``sealed_s`` (since 1970 UTC).

    ``set_digest`` is `dppca.common.kernel.aggregation.sum_messages.set_digest`, 32 bytes.
    """

    set_digest: bytes
    sealed_s: int


@dataclass(frozen=True, slots=True)
class StoredVote:
    """An opener's checked vote for the sealed set; ``content`` holds the bytes that arrived."""

    opener: str
    content: bytes
    received_s: int


@dataclass(frozen=True, slots=True)
class StoredOpening:
    """An opener's sum over the sealed set, checked.

    ``streams`` are places in `Terms.holders`, ascending; no other opening of the study has them.
    ``n_bytes`` and ``sha256`` (32 bytes, its name on disk) describe the sum. ``signature`` is the
    opener's (DER), for `Purpose.OPENING`; ``message_sha256`` (32 bytes) identifies a repeated
    message.
    """

    opener: str
    streams: tuple[int, ...]
    n_bytes: int
    sha256: bytes
    signature: bytes
    message_sha256: bytes
    received_s: int


@dataclass(frozen=True, slots=True)
class StoredConsent:
    """What people of an opener's site signed of the sealed set; ``content`` is canonical JSON."""

    opener: str
    content: bytes


by_streams = attrgetter("opener", "streams")
"""Sort key of openings."""


@dataclass(frozen=True, slots=True)
class StudyRecord:
    """A study and all its events.

    ``contributions`` are in the order of owners' names, in which they are pooled, ``publications``
    of owners' names and forms, ``votes``, ``consents`` and ``openings`` of openers' names and
    streams, all ascending. ``result`` is set from ``DECOMPOSED`` on, and ``sealing`` with ``trust:
    aggregate`` from ``SEALED`` on; ``reason`` is the reason for an abort, empty otherwise.
    """

    study: Study
    state: StudyState
    created_s: int
    contributions: tuple[Contribution, ...] = ()
    publications: tuple[Publication, ...] = ()
    result: StoredResult | None = None
    reason: str = ""
    sealing: Sealing | None = None
    votes: tuple[StoredVote, ...] = ()
    openings: tuple[StoredOpening, ...] = ()
    consents: tuple[StoredConsent, ...] = ()

    @property
    def digest(self) -> bytes:
        """SHA-256 of the study document, 32 bytes."""
        return bytes.fromhex(self.study.digest)

    @property
    def n_rows(self) -> int:
        """Rows of all contributions together."""
        return sum(contribution.n_rows for contribution in self.contributions)

    @property
    def contributed(self) -> tuple[str, ...]:
        """Names of the owners that have contributed, ascending."""
        return tuple(contribution.owner for contribution in self.contributions)

    @property
    def missing(self) -> tuple[str, ...]:
        """Names of the owners that have not contributed, ascending."""
        return tuple(sorted(set(self.study.owners) - set(self.contributed)))

    @property
    def complete(self) -> bool:
        """Return True if no owner is missing; contributions are of different owners."""
        return len(self.contributions) == len(self.study.owners)

    @property
    def opened(self) -> frozenset[int]:
        """Streams of masks in the stored openings."""
        return frozenset(stream for opening in self.openings for stream in opening.streams)

    def find_contribution(self, owner: str) -> Contribution | None:
        """Return the contribution of ``owner``."""
        place = bisect_left(self.contributions, owner, key=by_owner)
        at_place = self.contributions[place : place + 1]
        return at_place[0] if at_place and at_place[0].owner == owner else None

    def find_vote(self, opener: str) -> StoredVote | None:
        """Return the vote of ``opener``."""
        return next((vote for vote in self.votes if vote.opener == opener), None)

    def find_publication(self, owner: str, form: Form) -> Publication | None:
        """Return the rows that ``owner`` published in ``form``."""
        return next((p for p in self.publications if (p.owner, p.form) == (owner, form)), None)


@dataclass(frozen=True, slots=True)
class Settlement:
    """A recorded chain that was set aside (`dppca.curator.study.settlement`).

    ``settled_s`` counts seconds since 1970 UTC; ``by`` is ``operator:NAME`` or ``owner:NAME``;
    ``seen`` was set aside and ``chain`` replaced it, None for nothing; ``releases`` is the number
    of the owner's releases that were held then.
    """

    settled_s: int
    by: str
    reason: str
    seen: LedgerHead
    chain: LedgerHead | None
    releases: int

    @property
    def kind(self) -> tuple[str, int]:
        """Party and number of releases: an owner has one settlement of each kind, the last."""
        return self.by, self.releases

    @property
    def is_operators(self) -> bool:
        """True if an operator settled, False if the owner did."""
        return self.by.startswith("operator:")


@dataclass(frozen=True, slots=True)
class OwnerHistory:
    """The curator's record of an owner, over all studies.

    ``chain`` is the longest ledger chain since the last settlement; None before the first
    contribution, and while a settlement has set it aside. ``releases`` are identifiers of 16 bytes
    each; ``settlements`` are in order, one of each kind. ``roles`` are the newest under which its
    people signed since an operator's last settlement.
    """

    chain: LedgerHead | None = None
    releases: frozenset[bytes] = frozenset()
    settlements: tuple[Settlement, ...] = ()
    roles: SeenRoles | None = None

    @classmethod
    def replay(
        cls, contributed: Sequence[tuple[bytes, LedgerHead]], settlements: Sequence[Settlement]
    ) -> Self:
        """Build a history from releases with chains and settlements, in order; linear time."""
        chain = None
        waiting = deque(each for each in settlements if each.releases)  # else of people alone
        for count, (_, head) in enumerate(contributed, 1):
            chain = _longer(chain, head)
            while waiting and waiting[0].releases == count:
                chain = waiting.popleft().chain
        return cls(chain, frozenset(each for each, _ in contributed), tuple(settlements))

    def contributed(self, release_id: bytes, chain: LedgerHead) -> OwnerHistory:
        """Return the history with one more release and its chain."""
        return replace(
            self, chain=_longer(self.chain, chain), releases=self.releases | {release_id}
        )

    def settled(self, settlement: Settlement) -> OwnerHistory:
        """Return the history with a settlement, which replaces one of the same kind."""
        others = (each for each in self.settlements if each.kind != settlement.kind)
        # Who has a site's account can settle for the owner, and must not bring back old roles.
        roles = None if settlement.is_operators else self.roles
        return replace(self, chain=settlement.chain, settlements=(*others, settlement), roles=roles)


def _longer(seen: LedgerHead | None, head: LedgerHead) -> LedgerHead:
    return head if seen is None or head.length >= seen.length else seen
