"""Export, comparison and planning from a verified ledger. Pure."""

import csv
import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, NotRequired, cast

from dppca.common.kernel.documents.values import DigestText
from dppca.common.kernel.errors import ChainError, LedgerCorruptError
from dppca.common.kernel.privacy.accounting import Budget, PrivacyCost
from dppca.owner.ledger.chain import History, LedgerRow, damaged
from dppca.owner.ledger.entries import Reservation
from dppca.owner.ledger.entry_documents import EntryDocument
from dppca.owner.ledger.populations import admits_total, remaining, spent

MOST_FITTING = 1_000_000  # releases that `budget plan` counts


class LedgerEntry(EntryDocument):
    """An entry of a ledger, and its hash."""

    salt: NotRequired[Annotated[DigestText, "its 16 random bytes; entries of 0.1.0 have none"]]
    sha256: Annotated[
        DigestText, "SHA-256 of the bytes of `salt` and of the canonical JSON of all other keys"
    ]


COLUMNS = tuple(key for key in LedgerEntry.__annotations__ if key != "version")
"""Columns of an export as CSV: one line per entry, empty if an entry has no such field."""


def exported(rows: Iterable[LedgerRow]) -> list[LedgerEntry]:
    """Entries in order, each with its random bytes and its hash.

    ``sha256`` is the digest of the bytes of ``salt`` and of the canonical JSON of all other fields,
    and equals the next entry's ``previous``: every reader of the export can verify the chain.
    """
    entries: list[LedgerEntry] = []
    for row in rows:
        if not isinstance(row.document, bytes) or not isinstance(row.digest, bytes):
            raise LedgerCorruptError("the ledger's entries were not verified before")
        salt = {"salt": row.salt.hex()} if isinstance(row.salt, bytes) and row.salt else {}
        entry = {**json.loads(row.document), **salt, "sha256": row.digest.hex()}
        entries.append(cast("LedgerEntry", entry))
    return entries


def as_csv(entries: Iterable[LedgerEntry]) -> str:
    """Entries as CSV with a header line."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue()


def require_prefix(history: History, *, length: int, head: bytes) -> None:
    """Raise `ChainError` unless the chain starts with the one that was noted earlier."""
    if history.has_prefix(length, head):
        return
    if length > history.length:
        raise ChainError(
            f"the ledger has {history.length} entries where {length} were noted: it is an old "
            "copy, or another one"
        )
    raise ChainError(
        f"entry {length} of the ledger is not the one that was noted: it is another ledger"
    )


def check_receipt(reservation: Reservation, history: History, receipt: bytes) -> None:
    """Compare a stored receipt with the entries that charge and store it.

    On a difference, raise a `LedgerCorruptError` that names the entry.
    """
    request, committed = reservation.request, history.commitments[reservation.release_id]
    try:
        document = json.loads(receipt)
    except ValueError:
        document = {}
    follows: dict[str, object] = {
        "release_id": reservation.release_id.hex(),
        "n_rows": committed.n_rows,
        "ledger_sequence": reservation.sequence,
        "mechanism": request.mechanism,
        **request.price.fields(),
    }
    if not request.makes_file:
        follows |= {
            "study_digest": request.request_digest,
            "payload_sha256": committed.payload_sha256,
        }
    if request.honest is not None:
        follows |= {"colluders": request.colluders, "honest": request.honest}
    wrong = [key for key, value in follows.items() if document.get(key) != value]
    if wrong:
        raise damaged(committed.sequence, f"its receipt says otherwise in {', '.join(wrong)}")


@dataclass(frozen=True, slots=True)
class PlannedRelease:
    """Effect of one further release on a budget."""

    what: Annotated[str, "the release, in words"]
    charged_epsilon: Annotated[Decimal, "charge in pure epsilon"]
    charged_rho: Annotated[Decimal, "charge in rho (zCDP)"]
    admitted: Annotated[bool, "whether the budget covers it"]
    spent: Annotated[Decimal | None, "epsilon spent afterwards; null if it is not finite"]
    remaining: Annotated[Decimal | None, "epsilon left afterwards; null if it is not finite"]
    fits: Annotated[int, "how often the budget covers it, at most a million"]


def plan(
    budget: Budget,
    total: PrivacyCost,
    request: Iterable[tuple[str, PrivacyCost]],
    *,
    tied: Sequence[Budget] = (),
) -> list[PlannedRelease]:
    """Plan releases one after the other; a refused one charges nothing.

    ``tied`` are budgets of other populations that each release counts for too.
    """
    steps = []
    for what, charge in request:
        fits = min(fitting(each, total, charge) for each in (budget, *tied))
        if fits:
            total = total + charge
        steps.append(
            PlannedRelease(
                what=what,
                **charge.amounts(),
                admitted=fits > 0,
                spent=spent(budget, total),
                remaining=remaining(budget, total),
                fits=fits,
            )
        )
    return steps


def fitting(budget: Budget, total: PrivacyCost, charge: PrivacyCost) -> int:
    """Number of releases at a charge that a budget admits after a total, at most `MOST_FITTING`."""

    def admits(number: int) -> bool:
        return admits_total(budget, total + charge.times(number))

    low, high = 0, 1
    while high <= MOST_FITTING and admits(high):
        low, high = high, 2 * high
    high = min(high, MOST_FITTING + 1)
    while low + 1 < high:
        middle = (low + high) // 2
        if admits(middle):
            low = middle
        else:
            high = middle
    return low
