"""The canonical JSON of the ledger's entries: to bytes, which the chain covers, and back.

A document holds the entry's number, the kind, the time, and the SHA-256 of the document before it.
"""

from __future__ import annotations

import json
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, NotRequired, TypedDict

from dppca.common.amounts import decimal_text
from dppca.common.documents import DecimalText, DigestText, TimeText
from dppca.common.privacy.accounting import Budget, PrivacyCost
from dppca.common.schema.document import canonical_json
from dppca.owner.ledger.entries import (
    Ballot,
    Commitment,
    Delivery,
    Disowning,
    Entry,
    Offer,
    OpenerEntry,
    OpeningDelivery,
    Recovery,
    ReleaseKind,
    ReleaseRequest,
    Reservation,
    SetOpening,
)
from dppca.owner.ledger.populations import Account, Population

VERSION = 1


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
    data_set = document["data_set"]
    budget = Budget(Decimal(document["budget_epsilon"]), Decimal(document["budget_delta"]))
    return ReleaseRequest(
        kind=ReleaseKind.MODEL if name else ReleaseKind.CONTRIBUTION,
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
