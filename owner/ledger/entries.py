"""Entries of the ledger: thirteen kinds of fact (`entry_documents` writes and reads them).

No entry holds a size, path, time or hash of a file with rows: a reader who knows all rows but one
could test guesses against a hash. A charge holds the hash of the rows' path, so that the same rows
are recognised under another name; the chain's head, which leaves, covers random bytes too. The
number of rows and the hash of the *noised* vector leave the site anyway. Amounts are exact
decimals, written out in full; binary fractions are never used.
"""

import hashlib
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Self

from dppca.common.kernel.documents.values import DigestText, TimeText
from dppca.common.kernel.privacy.accounting import Price, PrivacyCost
from dppca.common.kernel.privacy.promises import Spending, kept_promise
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.owner.ledger.populations import Account

if TYPE_CHECKING:
    from dppca.common.kernel.consent.statement_terms import Also
    from dppca.common.kernel.privacy.mechanisms import Calibration


_OF_PEOPLE = (Relation.REPLACE_PERSON, Relation.ADD_OR_REMOVE_PERSON)


class ReleaseKind(StrEnum):
    """Kind of content that a release has."""

    CONTRIBUTION = "contribution"
    """Noised moments, sent to a study's curator."""
    MODEL = "model"
    """A classifier's file, which the steward hands over."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a site with roles binds a release to, beside the request; no entry of it has this.

    ``rows`` is a keyed digest of the exact sums that were read, empty for rows to which others may
    write; ``n_rows`` their number. ``place`` is a keyed digest of where the rows lie, when names of
    variables and services are followed.
    """

    rows: str
    n_rows: int
    place: str


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A request for one release: its price and the account that is charged.

    Attributes
    ----------
    request_digest
        SHA-256, hexadecimal, of the whole request; the release under it is drawn once. The digest
        of the study for a contribution.
    price
        The guarantee that the release will claim, and its charge.
    name
        Name of a file in messages; empty for a contribution.
    command
        The command, after ``dppca-owner``, that makes the file; empty for a contribution.
    query_sha256
        Digest of the query that the rows come from, in hexadecimal; empty for files.
    reading_sha256
        Digest of how cells are read, in hexadecimal: mapping, one-hot columns, and the format of
        text files; empty if they are read as they are.
    engine
        The kind of cluster that read the rows, ``dask`` or ``spark``; empty for this machine.
    relation
        Neighbouring tables of the release's own claim.
    key
        The column that tells people apart, if the release or some population of the policy is of
        people; else empty.
    replaced
        Its charge where rows or people are replaced, if the claim is of rows or people added.
    evidence
        What else people of a site with roles sign; None before rows were read.
    also
        What they are asked to sign beforehand, with a contribution; None for nothing.
    colluders, honest
        For a masked contribution: owners that may collude with the curator, and owners (this one
        included) on whose shares of the noise ``epsilon`` rests. None if it adds all of the noise.
    """

    kind: ReleaseKind
    account: Account
    study: str
    request_digest: str
    mechanism: str
    price: Price
    name: str = ""
    command: str = ""
    query_sha256: str = ""
    reading_sha256: str = ""
    engine: str = ""
    colluders: int | None = None
    honest: int | None = None
    relation: Relation = Relation.REPLACE_ONE
    key: str = ""
    replaced: PrivacyCost | None = None
    evidence: Evidence | None = field(default=None, compare=False)
    also: "Also | None" = field(default=None, compare=False)

    @classmethod
    def from_calibration(
        cls,
        kind: ReleaseKind,
        noise: "Calibration",
        *,
        account: Account,
        study: str,
        request_digest: str,
        name: str = "",
        command: str = "",
        colluders: int | None = None,
        replaced: PrivacyCost | None = None,
    ) -> Self:
        """Build the request for a release with calibrated noise."""
        relation = noise.sensitivity.relation
        of_people = relation in _OF_PEOPLE or any(p.counts_people for p in account.populations)
        return cls(
            kind=kind,
            account=account,
            study=study,
            request_digest=request_digest,
            mechanism=noise.law.name,
            price=noise.price,
            name=name,
            command=command,
            colluders=colluders,
            honest=noise.n_honest_owners,
            relation=relation,
            key=account.key if of_people else "",
            replaced=replaced,
        )

    @property
    def spending(self) -> Spending:
        """What it costs under each promise."""
        charge = self.price.charge
        kept = kept_promise(self.relation)
        return Spending(charge, charge if self.replaced is None else self.replaced, kept)

    @property
    def stated_relation(self) -> str:
        """The relation as an entry has it; empty for the one of studies by row."""
        return "" if self.relation is Relation.REPLACE_ONE else self.relation.value

    @property
    def data_set(self) -> str:
        """Name of the data set whose rows are asked for."""
        return self.account.data_set

    @property
    def makes_file(self) -> bool:
        """True if the steward hands the release over as a file; False if it is sent."""
        return self.kind is not ReleaseKind.CONTRIBUTION

    @property
    def resume_command(self) -> str:
        """Command that resumes the release at no further charge."""
        if self.kind is ReleaseKind.CONTRIBUTION:
            return f"`dppca-owner contribute {self.study}`"
        if self.command:
            return f"`dppca-owner {self.command}`"
        return f"`dppca-owner train {self.study}` with the options it was begun with"

    @property
    def title(self) -> str:
        """Purpose of the charge, in words."""
        return f"{self.name + ' of ' if self.name else ''}study {self.study}"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that counts, made before any noise was drawn.

    ``release_id``, 16 random bytes, names the one release that this charge is for. ``request``
    includes the population and the budget that the policy gave then. ``consent`` is the SHA-256 of
    the statement that people of the site signed, hexadecimal, as in other entries that have it;
    empty at a site without roles.
    """

    sequence: int
    time: str
    release_id: bytes
    request: ReleaseRequest
    consent: str = ""


@dataclass(frozen=True, slots=True)
class Commitment:
    """A release whose bytes are stored: from here on these bytes are sent unchanged."""

    sequence: int
    time: str
    release_id: bytes
    n_rows: int
    payload_bytes: int
    payload_sha256: str
    receipt_sha256: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The curator's acknowledgement of a release."""

    sequence: int
    time: str
    release_id: bytes


@dataclass(frozen=True, slots=True)
class Recovery:
    """A contribution of this site that a curator holds and the ledger had lost; charged from here.

    The ledger does not store its bytes. If the ledger had kept the release's reservation, that is
    its charge, and the recovery adds none.
    """

    sequence: int
    time: str
    release_id: bytes
    request: ReleaseRequest
    n_rows: int
    payload_sha256: str
    consent: str = ""


@dataclass(frozen=True, slots=True)
class Disowning:
    """A contribution under this site's name that the site did not make, as its steward states.

    It charges nothing. The study counts as contributed to: a curator takes one release.
    """

    sequence: Annotated[int, "number of the ledger's entry"]
    time: Annotated[TimeText, "when it was disowned"]
    release_id: Annotated[bytes, "identifier of the release"]
    study: Annotated[str, "name of the study"]
    study_digest: Annotated[DigestText, "digest of the study"]
    reason: Annotated[str, "the steward's reason"]
    consent: Annotated[str, "digest of the statement that people of the site signed"] = ""


@dataclass(frozen=True, slots=True)
class KeyOffer:
    """An opener key that was made for a study.

    ``key_id`` is the SHA-256 of the public key, hexadecimal. The study is given by its name: its
    document, which holds the key, is made afterwards.
    """

    sequence: int
    time: str
    key_id: str
    study: str


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote that binds an opener key to one set of uploads; digests are hexadecimal."""

    sequence: int
    time: str
    key_id: str
    study: str
    study_digest: str
    set_digest: str
    consent: str = ""


@dataclass(frozen=True, slots=True)
class SetOpening:
    """The opening of one set with an opener key; the sums of its streams are stored with it.

    ``n_owners`` counts the owners whose uploads the set holds; ``sums_sha256`` is the digest of the
    stored sums (`dppca.owner.ledger.openers.digest_sums`).
    """

    sequence: int
    time: str
    key_id: str
    study: str
    study_digest: str
    set_digest: str
    n_owners: int
    sums_sha256: str
    consent: str = ""


@dataclass(frozen=True, slots=True)
class OpeningDelivery:
    """The curator's acknowledgement that it needs no further part of an opening."""

    sequence: int
    time: str
    key_id: str


@dataclass(frozen=True, slots=True)
class RowsPublication:
    """Tables of synthetic rows that this site hands to the curator; charges nothing.

    ``forms`` names them, in one text; ``rows_sha256`` is the digest of what is sent
    (`dppca.owner.ledger.acts.digest_tables`).
    """

    sequence: int
    time: str
    study: str
    study_digest: str
    forms: str
    n_rows: int
    rows_sha256: str
    consent: str = ""


@dataclass(frozen=True, slots=True)
class Proposal:
    """A statement that people of the site may sign, and its facts, both in canonical form."""

    sequence: int
    time: str
    statement: str
    facts: str


@dataclass(frozen=True, slots=True)
class Approval:
    """A signature of one person's key over a proposed statement; ``signature`` is base64."""

    sequence: int
    time: str
    proposal: str
    signature: str


@dataclass(frozen=True, slots=True)
class Withdrawal:
    """A proposed statement that allows nothing from here on."""

    sequence: int
    time: str
    proposal: str


OpenerEntry = KeyOffer | Ballot | SetOpening | OpeningDelivery
ApprovalEntry = Proposal | Approval | Withdrawal
Entry = (
    Reservation
    | Commitment
    | Delivery
    | Recovery
    | Disowning
    | OpenerEntry
    | RowsPublication
    | ApprovalEntry
)


def commitment(
    *, sequence: int, now: datetime, release_id: bytes, n_rows: int, payload: bytes, receipt: bytes
) -> Commitment:
    """Entry for a release whose bytes are stored."""
    return Commitment(
        sequence=sequence,
        time=time_text(now),
        release_id=release_id,
        n_rows=n_rows,
        payload_bytes=len(payload),
        payload_sha256=hashlib.sha256(payload).hexdigest(),
        receipt_sha256=hashlib.sha256(receipt).hexdigest(),
    )


def time_text(now: datetime) -> str:
    """Text of an aware time, to the second."""
    return now.isoformat(timespec="seconds")
