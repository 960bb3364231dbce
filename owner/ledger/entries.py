"""Entries of the ledger: nine kinds of fact, each one canonical JSON document.

A document holds its number, the kind, the time, and the SHA-256 of the document before it. No
entry holds a size, path, time or hash of a file with rows: anybody who knows all rows but one could
test guesses against a hash. The hash of a path says nothing of rows, and a charge holds it, so that
rows are known again under another name. The number of rows and the hash of the *noised* vector
leave anyway.
Amounts are exact decimals, written out in full: a binary fraction never comes near them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, NotRequired, Self, TypedDict

from dppca.common.amounts import decimal_text
from dppca.common.documents import DecimalText, DigestText, TimeText
from dppca.common.privacy.accounting import Budget, PrivacyCost
from dppca.common.privacy.mechanisms import Calibration
from dppca.common.privacy.receipts import CostFields, cost_fields
from dppca.common.schema.document import canonical_json
from dppca.owner.ledger.populations import Account, Population

VERSION = 1
SUMMARY = "quality summary"
"""The name of every summary: an entry tells its kind by its name alone."""


class EntryKind(StrEnum):
    """Which step an entry records."""

    RESERVE = "reserve"
    COMMIT = "commit"
    SENT = "sent"
    RECOVERED = "recovered"
    DISOWNED = "disowned"
    OFFER = "offer"
    VOTE = "vote"
    OPEN = "open"
    OPENED = "opened"


class ReleaseKind(StrEnum):
    """What a release is made of."""

    CONTRIBUTION = "contribution"
    """Noised moments, sent to a study's curator."""
    MODEL = "model"
    """A classifier's file, which the steward hands over."""
    SUMMARY = "summary"
    """A quality summary's file, which the steward hands over."""


@dataclass(frozen=True, slots=True)
class ReleaseRequest:
    """A request for one release: its charge, and whom it is charged to.

    Attributes
    ----------
    request_digest
        SHA-256, hexadecimal, of all that is asked for; the release under it is drawn once. The
        digest of the study for a contribution.
    epsilon, delta
        What the release will claim; ``charge`` is what counts.
    name
        What a file is called in messages; empty for a contribution.
    command
        The command, after ``dppca-owner``, that makes the file; empty for a contribution, and in
        entries of earlier versions.
    query_sha256
        Of the query that the rows come from, in hexadecimal; empty for files.
    engine
        The kind of cluster that read the rows, ``dask`` or ``spark``; empty for this machine.
    colluders, honest
        Of a masked contribution: owners that may collude with the curator, and owners on whose
        shares of the noise ``epsilon`` rests, this one among them. None where it adds all of it.
    """

    kind: ReleaseKind
    account: Account
    study: str
    request_digest: str
    mechanism: str
    charge: PrivacyCost
    epsilon: Decimal
    delta: Decimal
    name: str = ""
    command: str = ""
    query_sha256: str = ""
    engine: str = ""
    colluders: int | None = None
    honest: int | None = None

    @classmethod
    def from_calibration(
        cls,
        kind: ReleaseKind,
        noise: Calibration,
        *,
        account: Account,
        study: str,
        request_digest: str,
        name: str = "",
        command: str = "",
        colluders: int | None = None,
    ) -> Self:
        """The request for a release with noise of one law."""
        return cls(
            kind=kind,
            account=account,
            study=study,
            request_digest=request_digest,
            mechanism=noise.mechanism.value,
            charge=noise.charge,
            epsilon=noise.epsilon,
            delta=noise.delta,
            name=name,
            command=command,
            colluders=colluders,
            honest=noise.honest,
        )

    @property
    def data_set(self) -> str:
        """Name of the data set whose rows are asked for."""
        return self.account.data_set

    @property
    def makes_file(self) -> bool:
        """Whether the steward hands the release over as a file; otherwise it is sent."""
        return self.kind is not ReleaseKind.CONTRIBUTION

    @property
    def resume_command(self) -> str:
        """The command that takes the release up where it stands, at no further charge."""
        if self.kind is ReleaseKind.CONTRIBUTION:
            return f"`dppca-owner contribute {self.study}`"
        if self.command:
            return f"`dppca-owner {self.command}`"
        line = _COMMANDS[self.kind].format(study=self.study)
        return f"`dppca-owner {line}` with the options it was begun with"

    def cost_fields(self) -> CostFields:
        """The claim and the charge as documents have them."""
        return cost_fields(self.epsilon, self.delta, self.charge)

    @property
    def title(self) -> str:
        """What the charge is for, in words."""
        return f"{self.name + ' of ' if self.name else ''}study {self.study}"


_COMMANDS = {ReleaseKind.MODEL: "train {study}", ReleaseKind.SUMMARY: "report {study} --release"}


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that counts, made before any noise was drawn.

    Attributes
    ----------
    sequence, time
        Of the entry.
    release_id
        16 bytes, drawn at random; names the one release this charge is for.
    request
        What was asked for, with the population and the budget that the policy gave then.
    """

    sequence: int
    time: str
    release_id: bytes
    request: ReleaseRequest


@dataclass(frozen=True, slots=True)
class Commitment:
    """A release whose bytes are stored: from here on it is sent, and sent as it is."""

    sequence: int
    time: str
    release_id: bytes
    n_rows: int
    payload_bytes: int
    payload_sha256: str
    receipt_sha256: str


@dataclass(frozen=True, slots=True)
class Delivery:
    """The curator has acknowledged a release."""

    sequence: int
    time: str
    release_id: bytes


@dataclass(frozen=True, slots=True)
class Recovery:
    """A contribution of this site that a curator holds and the ledger had lost; charged from here.

    Its bytes are not here. Where the ledger had kept the release's reservation, that is its charge,
    and this adds none.
    """

    sequence: int
    time: str
    release_id: bytes
    request: ReleaseRequest
    n_rows: int
    payload_sha256: str


@dataclass(frozen=True, slots=True)
class Disowning:
    """A contribution under this site's name that its steward says the site did not make.

    It charges nothing. The study counts as contributed to: a curator takes one release.
    """

    sequence: int
    time: str
    release_id: bytes
    study: str
    study_digest: str
    reason: str


@dataclass(frozen=True, slots=True)
class Offer:
    """An opener key was made for a study.

    Attributes
    ----------
    key_id
        SHA-256 of the public key, hexadecimal.
    study
        Name of the study: its document, which holds the key, is made afterwards.
    """

    sequence: int
    time: str
    key_id: str
    study: str


@dataclass(frozen=True, slots=True)
class Ballot:
    """An opener key is bound to one set of uploads, by a vote; digests are hexadecimal."""

    sequence: int
    time: str
    key_id: str
    study: str
    study_digest: str
    set_digest: str


@dataclass(frozen=True, slots=True)
class SetOpening:
    """An opener key has opened one set, and the sums of its streams are stored.

    Attributes
    ----------
    n_owners
        Whose uploads the set holds.
    sums_sha256
        Of the stored sums, see `dppca.owner.ledger.openers.digest_sums`.
    """

    sequence: int
    time: str
    key_id: str
    study: str
    study_digest: str
    set_digest: str
    n_owners: int
    sums_sha256: str


@dataclass(frozen=True, slots=True)
class OpeningDelivery:
    """The curator needs nothing more of an opening."""

    sequence: int
    time: str
    key_id: str


class EntryDocument(TypedDict):
    """An entry of a ledger; which keys it has follows from its kind."""

    version: Annotated[int, "version of the form of entries"]
    sequence: Annotated[int, "number of the entry, from 1"]
    previous: Annotated[DigestText, "SHA-256 of the entry before it"]
    kind: Annotated[EntryKind, "what the entry says"]
    time: Annotated[TimeText, "when it was entered"]
    release_id: NotRequired[Annotated[DigestText, "identifier of the release"]]
    data_set: NotRequired[Annotated[str, "data set whose rows were asked for"]]
    population: NotRequired[
        Annotated[str, "population that is charged; absent where it has the data set's name"]
    ]
    source_sha256: NotRequired[
        Annotated[DigestText, "SHA-256 of where the rows lie, never of what they hold"]
    ]
    study: NotRequired[Annotated[str, "name of the study"]]
    model: NotRequired[Annotated[str, "what is released besides moments"]]
    command: NotRequired[Annotated[str, "command that makes the released file"]]
    query_sha256: NotRequired[
        Annotated[DigestText, "SHA-256 of the query's file, or of the table's name"]
    ]
    engine: NotRequired[Annotated[str, "cluster that read the rows: `dask` or `spark`"]]
    study_digest: NotRequired[Annotated[DigestText, "digest of the study or of the request"]]
    mechanism: NotRequired[Annotated[str, "noise: `laplace` or `gaussian`"]]
    epsilon: NotRequired[Annotated[DecimalText, "epsilon of the guarantee"]]
    delta: NotRequired[Annotated[DecimalText, "delta of the guarantee"]]
    charged_epsilon: NotRequired[Annotated[DecimalText, "charge in pure epsilon"]]
    charged_rho: NotRequired[Annotated[DecimalText, "charge in rho (zCDP)"]]
    budget_epsilon: NotRequired[Annotated[DecimalText, "lifetime budget at that time"]]
    budget_delta: NotRequired[Annotated[DecimalText, "delta of the budget at that time"]]
    colluders: NotRequired[Annotated[int, "owners that may collude with the curator"]]
    honest: NotRequired[Annotated[int, "owners on whose noise the guarantee rests"]]
    n_rows: NotRequired[Annotated[int, "rows that the release was computed from"]]
    payload_bytes: NotRequired[Annotated[int, "size of the release"]]
    payload_sha256: NotRequired[Annotated[DigestText, "SHA-256 of the release"]]
    receipt_sha256: NotRequired[Annotated[DigestText, "SHA-256 of its receipt"]]
    reason: NotRequired[Annotated[str, "the steward's reason for a disowned contribution"]]
    opener_key: NotRequired[Annotated[DigestText, "SHA-256 of this site's public opener key"]]
    set_digest: NotRequired[Annotated[DigestText, "digest of the set of uploads"]]
    owners: NotRequired[Annotated[int, "owners in that set"]]
    sums_sha256: NotRequired[Annotated[DigestText, "SHA-256 of the stored sums of masks"]]


OpenerEntry = Offer | Ballot | SetOpening | OpeningDelivery
Entry = Reservation | Commitment | Delivery | Recovery | Disowning | OpenerEntry
_KINDS: dict[type[Entry], EntryKind] = {
    Reservation: EntryKind.RESERVE,
    Commitment: EntryKind.COMMIT,
    Delivery: EntryKind.SENT,
    Recovery: EntryKind.RECOVERED,
    Disowning: EntryKind.DISOWNED,
    Offer: EntryKind.OFFER,
    Ballot: EntryKind.VOTE,
    SetOpening: EntryKind.OPEN,
    OpeningDelivery: EntryKind.OPENED,
}


def to_document(entry: Entry, *, previous: bytes) -> bytes:
    """Canonical JSON of an entry that follows the document whose hash is ``previous``."""
    document: EntryDocument = {
        "version": VERSION,
        "sequence": entry.sequence,
        "previous": previous.hex(),
        "kind": _KINDS[type(entry)],
        "time": entry.time,
    }
    if isinstance(entry, OpenerEntry):
        _add_opener(document, entry)
        return canonical_json(document)
    document["release_id"] = entry.release_id.hex()
    if isinstance(entry, Reservation | Recovery):
        _add_request(document, entry.request)
    if isinstance(entry, Commitment | Recovery):
        document["n_rows"] = entry.n_rows
        document["payload_sha256"] = entry.payload_sha256
    if isinstance(entry, Commitment):
        document["payload_bytes"] = entry.payload_bytes
        document["receipt_sha256"] = entry.receipt_sha256
    if isinstance(entry, Disowning):
        document["study"] = entry.study
        document["study_digest"] = entry.study_digest
        document["reason"] = entry.reason
    return canonical_json(document)


def from_document(content: bytes, *, previous: bytes) -> Entry:
    """Read an entry that follows the document whose hash is ``previous``.

    Raises
    ------
    ValueError, TypeError, KeyError, ArithmeticError, DppcaError
        It is no such entry, or not in canonical form.
    """
    document: EntryDocument = json.loads(content)
    entry = _read_opener(document) or _read_release(document)
    if to_document(entry, previous=previous) != content:
        raise ValueError("not the one form that such an entry has at this place")
    return entry


def _read_release(document: EntryDocument) -> Entry:
    sequence, time = document["sequence"], document["time"]
    release_id = bytes.fromhex(document["release_id"])
    kind = EntryKind(document["kind"])
    entry: Entry
    if kind is EntryKind.RESERVE:
        entry = Reservation(sequence, time, release_id, _read_request(document))
    elif kind is EntryKind.COMMIT:
        entry = Commitment(
            sequence,
            time,
            release_id,
            n_rows=document["n_rows"],
            payload_bytes=document["payload_bytes"],
            payload_sha256=document["payload_sha256"],
            receipt_sha256=document["receipt_sha256"],
        )
    elif kind is EntryKind.RECOVERED:
        entry = Recovery(
            sequence,
            time,
            release_id,
            _read_request(document),
            n_rows=document["n_rows"],
            payload_sha256=document["payload_sha256"],
        )
    elif kind is EntryKind.DISOWNED:
        entry = Disowning(
            sequence,
            time,
            release_id,
            study=document["study"],
            study_digest=document["study_digest"],
            reason=document["reason"],
        )
    else:
        entry = Delivery(sequence, time, release_id)
    return entry


def _read_opener(document: EntryDocument) -> OpenerEntry | None:
    """An entry of an opener key; None where it is of a release."""
    kind = EntryKind(document["kind"])
    if kind not in (EntryKind.OFFER, EntryKind.VOTE, EntryKind.OPEN, EntryKind.OPENED):
        return None
    key_id = bytes.fromhex(document["opener_key"]).hex()
    begin = (document["sequence"], document["time"], key_id)
    if kind is EntryKind.OPENED:
        return OpeningDelivery(*begin)
    if kind is EntryKind.OFFER:
        return Offer(*begin, document["study"])
    chosen = (*begin, document["study"], document["study_digest"], document["set_digest"])
    if kind is EntryKind.VOTE:
        return Ballot(*chosen)
    return SetOpening(*chosen, document["owners"], document["sums_sha256"])


def commitment(
    *, sequence: int, now: datetime, release_id: bytes, n_rows: int, payload: bytes, receipt: bytes
) -> Commitment:
    """The entry that says these bytes are stored."""
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
    """An aware time, to the second."""
    return now.isoformat(timespec="seconds")


def _add_opener(document: EntryDocument, entry: OpenerEntry) -> None:
    document["opener_key"] = entry.key_id
    if not isinstance(entry, OpeningDelivery):
        document["study"] = entry.study
    if isinstance(entry, Ballot | SetOpening):
        document["study_digest"] = entry.study_digest
        document["set_digest"] = entry.set_digest
    if isinstance(entry, SetOpening):
        document["owners"] = entry.n_owners
        document["sums_sha256"] = entry.sums_sha256


def _add_request(document: EntryDocument, request: ReleaseRequest) -> None:
    # What is empty is left out: ledgers of earlier versions keep their hashes.
    if request.name:
        document["model"] = request.name
    if request.command:
        document["command"] = request.command
    if request.query_sha256:
        document["query_sha256"] = request.query_sha256
    if request.engine:
        document["engine"] = request.engine
    if request.colluders is not None:
        document["colluders"] = request.colluders
    if request.honest is not None:
        document["honest"] = request.honest
    account, budget = request.account, request.account.population.budget
    if account.population.name != account.data_set:
        document["population"] = account.population.name
    if account.source:
        document["source_sha256"] = account.source
    document |= {
        "data_set": account.data_set,
        "study": request.study,
        "study_digest": request.request_digest,
        "mechanism": request.mechanism,
        "epsilon": decimal_text(request.epsilon),
        "delta": decimal_text(request.delta),
        "charged_epsilon": decimal_text(request.charge.epsilon),
        "charged_rho": decimal_text(request.charge.rho),
        "budget_epsilon": decimal_text(budget.epsilon),
        "budget_delta": decimal_text(budget.delta),
    }


def _read_request(document: EntryDocument) -> ReleaseRequest:
    name = document.get("model", "")
    other = ReleaseKind.MODEL if name else ReleaseKind.CONTRIBUTION
    data_set = document["data_set"]
    budget = Budget(Decimal(document["budget_epsilon"]), Decimal(document["budget_delta"]))
    return ReleaseRequest(
        kind=ReleaseKind.SUMMARY if name == SUMMARY else other,
        account=Account(
            data_set,
            Population(document.get("population", data_set), budget),
            document.get("source_sha256", ""),
        ),
        study=document["study"],
        request_digest=document["study_digest"],
        mechanism=document["mechanism"],
        charge=PrivacyCost(Decimal(document["charged_epsilon"]), Decimal(document["charged_rho"])),
        epsilon=Decimal(document["epsilon"]),
        delta=Decimal(document["delta"]),
        name=name,
        command=document.get("command", ""),
        query_sha256=document.get("query_sha256", ""),
        engine=document.get("engine", ""),
        colluders=document.get("colluders"),
        honest=document.get("honest"),
    )
