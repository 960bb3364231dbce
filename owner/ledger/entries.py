"""Entries of the ledger: three kinds of fact, each one canonical JSON document.

A document holds its number, the kind, the time, and the SHA-256 of the document before it. No
entry holds a size, path, time or hash of a file with rows: whoever knows all rows but one could
test guesses against a hash. The number of rows and the hash of the *noised* vector leave anyway.
Amounts are exact decimals, written out in full: a binary fraction never comes near them.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from common.privacy.accounting import Budget, Charge
from common.schema.document import canonical_json
from common.study import decimal_text

VERSION = 1


class Kind(StrEnum):
    """Which step an entry records."""

    RESERVE = "reserve"
    COMMIT = "commit"
    SENT = "sent"


@dataclass(frozen=True, slots=True)
class Wanted:
    """A charge that is asked for: of one release for a study, against one data set's budget.

    ``study_digest`` names what is released, once: the study's digest for a contribution, that of
    the request for a model (`owner.model_release`). ``epsilon`` and ``delta`` are what the release
    will claim; ``charge`` is what counts. ``model`` is what a model is called in messages, empty
    for a contribution.
    """

    data_set: str
    study: str
    study_digest: str
    mechanism: str
    charge: Charge
    epsilon: Decimal
    delta: Decimal
    budget: Budget
    model: str = ""

    @property
    def title(self) -> str:
        """What the charge is for, in words."""
        return f"{self.model + ' of ' if self.model else ''}study {self.study}"


@dataclass(frozen=True, slots=True)
class Reservation:
    """A charge that counts, made before any noise was drawn.

    Attributes
    ----------
    sequence, time
        Of the entry.
    release_id
        16 bytes, drawn at random; names the one release this charge is for.
    wanted
        What was asked for, with the budget the policy gave then.
    """

    sequence: int
    time: str
    release_id: bytes
    wanted: Wanted


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
class Sending:
    """The curator has acknowledged a release."""

    sequence: int
    time: str
    release_id: bytes


Entry = Reservation | Commitment | Sending


def to_document(entry: Entry, *, previous: bytes) -> bytes:
    """Canonical JSON of an entry that follows the document whose hash is ``previous``."""
    if isinstance(entry, Reservation):
        kind, content = Kind.RESERVE, _wanted_document(entry.wanted)
    elif isinstance(entry, Commitment):
        kind = Kind.COMMIT
        content = {
            "n_rows": entry.n_rows,
            "payload_bytes": entry.payload_bytes,
            "payload_sha256": entry.payload_sha256,
            "receipt_sha256": entry.receipt_sha256,
        }
    else:
        kind, content = Kind.SENT, {}
    return canonical_json(
        {
            "version": VERSION,
            "sequence": entry.sequence,
            "previous": previous.hex(),
            "kind": kind.value,
            "time": entry.time,
            "release_id": entry.release_id.hex(),
            **content,
        }
    )


def from_document(content: bytes, *, previous: bytes) -> Entry:
    """Read an entry that follows the document whose hash is ``previous``.

    Raises
    ------
    ValueError, TypeError, KeyError, ArithmeticError, DppcaError
        It is no such entry, or not in canonical form.
    """
    document: dict[str, Any] = json.loads(content)
    sequence, time = document["sequence"], document["time"]
    release_id = bytes.fromhex(document["release_id"])
    kind = Kind(document["kind"])
    entry: Entry
    if kind is Kind.RESERVE:
        entry = Reservation(sequence, time, release_id, _wanted(document))
    elif kind is Kind.COMMIT:
        entry = Commitment(
            sequence,
            time,
            release_id,
            n_rows=document["n_rows"],
            payload_bytes=document["payload_bytes"],
            payload_sha256=document["payload_sha256"],
            receipt_sha256=document["receipt_sha256"],
        )
    else:
        entry = Sending(sequence, time, release_id)
    if to_document(entry, previous=previous) != content:
        message = "not the one form that such an entry has at this place"
        raise ValueError(message)
    return entry


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


def _wanted_document(wanted: Wanted) -> dict[str, Any]:
    # A contribution's entry has no such field: ledgers of earlier versions keep their hashes.
    return ({"model": wanted.model} if wanted.model else {}) | {
        "data_set": wanted.data_set,
        "study": wanted.study,
        "study_digest": wanted.study_digest,
        "mechanism": wanted.mechanism,
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "budget_epsilon": decimal_text(wanted.budget.epsilon),
        "budget_delta": decimal_text(wanted.budget.delta),
    }


def _wanted(document: dict[str, Any]) -> Wanted:
    return Wanted(
        data_set=document["data_set"],
        study=document["study"],
        study_digest=document["study_digest"],
        mechanism=document["mechanism"],
        charge=Charge(Decimal(document["charged_epsilon"]), Decimal(document["charged_rho"])),
        epsilon=Decimal(document["epsilon"]),
        delta=Decimal(document["delta"]),
        budget=Budget(Decimal(document["budget_epsilon"]), Decimal(document["budget_delta"])),
        model=document.get("model", ""),
    )
