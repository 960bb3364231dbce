"""Canonical JSON of the ledger's entries, which the chain covers: writing and reading.

A document holds the entry's number, its kind, its time, and the SHA-256 of the document before it.
"""

import json
from collections.abc import Mapping
from dataclasses import fields
from decimal import Decimal
from enum import StrEnum
from operator import attrgetter
from typing import Annotated, Any, NotRequired, TypedDict

from dppca.common.kernel.documents.amounts import decimal_text
from dppca.common.kernel.documents.values import DecimalText, DigestText, TimeText, canonical_json
from dppca.common.kernel.privacy.accounting import Budget, Price, PrivacyCost
from dppca.common.kernel.privacy.promises import Promise, kept_promise
from dppca.common.kernel.privacy.sensitivity import Relation
from dppca.owner.ledger.entries import (
    Approval,
    Ballot,
    Commitment,
    Delivery,
    Disowning,
    Entry,
    KeyOffer,
    OpeningDelivery,
    Proposal,
    Recovery,
    ReleaseKind,
    ReleaseRequest,
    Reservation,
    RowsPublication,
    SetOpening,
    Withdrawal,
)
from dppca.owner.ledger.populations import Account, Population

VERSION = 1  # of an entry's form
_LATER: frozenset[str] = frozenset({"reading_sha256", "relation", "promise", "key", "forms"})
"""Keys that software of version 0.2.0 does not know."""
_APPROVED: frozenset[str] = frozenset({"consent", "statement", "proposal"})
"""Keys of sites with roles, which software before roles does not know."""


class EntryKind(StrEnum):
    """Kind of step that an entry records."""

    RESERVE = "reserve"
    COMMIT = "commit"
    SENT = "sent"
    RECOVERED = "recovered"
    DISOWNED = "disowned"
    OFFER = "offer"
    VOTE = "vote"
    OPEN = "open"
    OPENED = "opened"
    PUBLISHED = "published"
    PROPOSED = "proposed"
    APPROVED = "approved"
    WITHDRAWN = "withdrawn"


class EntryDocument(TypedDict):
    """An entry of a ledger; its kind determines which keys it has."""

    version: Annotated[int, "version of the form of entries"]
    sequence: Annotated[int, "number of the entry, from 1"]
    previous: Annotated[DigestText, "SHA-256 of the entry before it"]
    kind: Annotated[EntryKind, "what the entry says"]
    time: Annotated[TimeText, "when it was entered"]
    release_id: NotRequired[Annotated[DigestText, "identifier of the release"]]
    data_set: NotRequired[Annotated[str, "data set whose rows were asked for"]]
    population: NotRequired[Annotated[str, "population that is charged"]]
    source_sha256: NotRequired[
        Annotated[DigestText, "SHA-256 of where the rows lie, never of what they hold"]
    ]
    study: NotRequired[Annotated[str, "name of the study"]]
    model: NotRequired[Annotated[str, "what is released besides moments"]]
    command: NotRequired[Annotated[str, "command that makes the released file"]]
    query_sha256: NotRequired[
        Annotated[DigestText, "SHA-256 of the query's file, or of the table's name"]
    ]
    reading_sha256: NotRequired[
        Annotated[DigestText, "SHA-256 of the site's mapping, one-hot columns and format"]
    ]
    engine: NotRequired[Annotated[str, "cluster that read the rows: `dask` or `spark`"]]
    study_digest: NotRequired[Annotated[DigestText, "digest of the study or of the request"]]
    mechanism: NotRequired[Annotated[str, "noise: name of its law, such as `laplace`"]]
    epsilon: NotRequired[Annotated[DecimalText, "epsilon of the guarantee"]]
    delta: NotRequired[Annotated[DecimalText, "delta of the guarantee"]]
    charged_epsilon: NotRequired[Annotated[DecimalText, "charge in pure epsilon"]]
    charged_rho: NotRequired[Annotated[DecimalText, "charge in rho (zCDP)"]]
    budget_epsilon: NotRequired[Annotated[DecimalText, "lifetime budget at that time"]]
    budget_delta: NotRequired[Annotated[DecimalText, "delta of the budget at that time"]]
    relation: NotRequired[
        Annotated[str, "neighbouring tables of the claim, if they are not `replace-one`"]
    ]
    promise: NotRequired[
        Annotated[str, "promise of the population's budget, if it is not `rows replaced`"]
    ]
    key: NotRequired[
        Annotated[str, "column that tells people apart, if the study or the policy is of people"]
    ]
    replaced_epsilon: NotRequired[
        Annotated[DecimalText, "charge in pure epsilon if people were replaced, not added"]
    ]
    replaced_rho: NotRequired[Annotated[DecimalText, "the same in rho (zCDP)"]]
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
    forms: NotRequired[Annotated[str, "forms of the published synthetic rows"]]
    rows_sha256: NotRequired[Annotated[DigestText, "SHA-256 of the published tables"]]
    consent: NotRequired[
        Annotated[DigestText, "SHA-256 of the statement that people of the site signed"]
    ]
    statement: NotRequired[Annotated[str, "a statement that people may sign, as JSON"]]
    facts: NotRequired[Annotated[str, "what it commits to and never leaves, as JSON"]]
    proposal: NotRequired[Annotated[DigestText, "SHA-256 of the statement"]]
    signature: NotRequired[Annotated[str, "OpenSSH's signature of one key, base64"]]


_TYPES: dict[EntryKind, type[Entry]] = {
    EntryKind.RESERVE: Reservation,
    EntryKind.COMMIT: Commitment,
    EntryKind.SENT: Delivery,
    EntryKind.RECOVERED: Recovery,
    EntryKind.DISOWNED: Disowning,
    EntryKind.OFFER: KeyOffer,
    EntryKind.VOTE: Ballot,
    EntryKind.OPEN: SetOpening,
    EntryKind.OPENED: OpeningDelivery,
    EntryKind.PUBLISHED: RowsPublication,
    EntryKind.PROPOSED: Proposal,
    EntryKind.APPROVED: Approval,
    EntryKind.WITHDRAWN: Withdrawal,
}
_KINDS = {kind: name for name, kind in _TYPES.items()}
_KEYS = {"key_id": "opener_key", "n_owners": "owners"}
"""Fields of entries whose key in a document differs from their name."""
_REQUEST = {
    "model": "name",
    "command": "command",
    "query_sha256": "query_sha256",
    "reading_sha256": "reading_sha256",
    "engine": "engine",
    "relation": "stated_relation",
    "promise": "account.population.stated_promise",
    "key": "key",
    "colluders": "colluders",
    "honest": "honest",
    "source_sha256": "account.source",
    "data_set": "account.data_set",
    "population": "account.population.name",
    "study": "study",
    "study_digest": "request_digest",
    "mechanism": "mechanism",
    "budget_epsilon": "account.population.budget.epsilon",
    "budget_delta": "account.population.budget.delta",
}
"""Keys of a request besides its price, and the attributes with their values.

An empty value or None is left out.
"""


def to_document(entry: Entry, *, previous: bytes) -> bytes:
    """Canonical JSON of an entry that follows the document with the hash ``previous``."""
    document: dict[str, object] = {
        "version": VERSION,
        "previous": previous.hex(),
        "kind": _KINDS[type(entry)],
    }
    for each in fields(entry):
        value = getattr(entry, each.name)
        if isinstance(value, ReleaseRequest):
            document |= _request_document(value)
        elif each.name != "consent" or value:  # sites without roles have the entries of before
            key = _KEYS.get(each.name, each.name)
            document[key] = value.hex() if isinstance(value, bytes) else value
    return canonical_json(document)


def has_later_form(document: bytes) -> bool:
    """Return True for an entry that version 0.2.0 would take for a damaged one."""
    return not _LATER.isdisjoint(json.loads(document))


def has_approvals(document: bytes) -> bool:
    """Return True for an entry that software before roles would take for a damaged one."""
    return not _APPROVED.isdisjoint(json.loads(document))


def from_document(content: bytes, *, previous: bytes) -> Entry:
    """Read an entry that follows the document with the hash ``previous``.

    Raise `ValueError`, `TypeError`, `KeyError`, `ArithmeticError` or `DppcaError` if it is no such
    entry, or not in canonical form.
    """
    document = json.loads(content)
    kind = _TYPES[EntryKind(document["kind"])]
    values = {each.name: _read_field(document, each.name) for each in fields(kind)}
    entry = kind(**values)
    if to_document(entry, previous=previous) != content:
        raise ValueError("not the one form that such an entry has at this place")
    return entry


def _read_field(document: Mapping[str, Any], name: str) -> Any:
    if name == "request":
        return _read_request(document)
    if name == "consent":
        return document.get(name, "")
    value = document[_KEYS.get(name, name)]
    if name == "release_id":
        return bytes.fromhex(value)
    return bytes.fromhex(value).hex() if name == "key_id" else value


def _request_document(request: ReleaseRequest) -> dict[str, object]:
    values = {key: attrgetter(place)(request) for key, place in _REQUEST.items()}
    stated = {
        key: decimal_text(value) if isinstance(value, Decimal) else value
        for key, value in values.items()
        if value not in ("", None)
    }
    if (cost := request.replaced) is not None:
        stated["replaced_epsilon"] = decimal_text(cost.epsilon)
        stated["replaced_rho"] = decimal_text(cost.rho)
    return {**stated, **request.price.fields()}


def _read_request(document: Mapping[str, Any]) -> ReleaseRequest:
    name = document.get("model", "")
    budget = Budget(Decimal(document["budget_epsilon"]), Decimal(document["budget_delta"]))
    promise = Promise(document.get("promise", Promise.ROWS_REPLACED))
    relation = Relation(document.get("relation", Relation.REPLACE_ONE))
    replaced = None
    if kept_promise(relation) is Promise.PEOPLE_ADDED:
        costs = (Decimal(document[f"replaced_{name}"]) for name in ("epsilon", "rho"))
        replaced = PrivacyCost(*costs)
    return ReleaseRequest(
        kind=ReleaseKind.MODEL if name else ReleaseKind.CONTRIBUTION,
        account=Account(
            document["data_set"],
            Population(document["population"], budget, promise=promise),
            document.get("source_sha256", ""),
        ),
        study=document["study"],
        request_digest=document["study_digest"],
        mechanism=document["mechanism"],
        price=Price.read(document),
        name=name,
        command=document.get("command", ""),
        query_sha256=document.get("query_sha256", ""),
        reading_sha256=document.get("reading_sha256", ""),
        engine=document.get("engine", ""),
        colluders=document.get("colluders"),
        honest=document.get("honest"),
        relation=relation,
        key=document.get("key", ""),
        replaced=replaced,
    )
