"""What can be done with a verified ledger: write it out, compare it, and plan from it. Pure."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from decimal import Context, Decimal
from typing import Any

from common.errors import ArtefactError, ChainError, LedgerCorruptError, ReceiptError
from common.privacy.accounting import Budget, Charge
from common.proof.claims import require_implied
from common.study import Study, decimal_text
from owner.ledger.chain import History, Row, damaged
from owner.ledger.entries import Reservation

COLUMNS = (
    "sequence",
    "time",
    "kind",
    "release_id",
    "data_set",
    "study",
    "model",
    "study_digest",
    "mechanism",
    "epsilon",
    "delta",
    "charged_epsilon",
    "charged_rho",
    "budget_epsilon",
    "budget_delta",
    "n_rows",
    "payload_bytes",
    "payload_sha256",
    "receipt_sha256",
    "previous",
    "sha256",
)
"""Of an export as CSV: one line per entry, empty where an entry has no such field."""
MOST_FITTING = 1_000_000
_EXACT = Context(prec=120)


def exported(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Entries in order: their fields, and the SHA-256 of the document that holds them.

    ``sha256`` is that of the canonical JSON of all other fields, and the next entry's
    ``previous``: whoever has the export can verify the chain.
    """
    found = []
    for row in rows:
        if not isinstance(row.document, bytes) or not isinstance(row.digest, bytes):
            message = "the ledger's entries were not verified before"
            raise LedgerCorruptError(message)
        found.append({**json.loads(row.document), "sha256": row.digest.hex()})
    return found


def as_csv(entries: Iterable[Mapping[str, Any]]) -> str:
    """Entries as CSV with a head."""
    text = io.StringIO()
    writer = csv.DictWriter(text, COLUMNS, restval="", extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(entries)
    return text.getvalue()


def require_extends(rows: Iterable[Row], *, length: int, head: bytes) -> None:
    """Raise `ChainError` unless the chain goes on from one that was noted earlier."""
    found = list(rows)
    if length > len(found):
        message = (
            f"the ledger has {len(found)} entries and had {length}: an old copy is in use. Restore "
            "the newest ledger.sqlite"
        )
        raise ChainError(message)
    if length and found[length - 1].digest != head:
        message = f"entry {length} of the ledger is not the noted one: this is another chain"
        raise ChainError(message)


def check_receipt(reservation: Reservation, history: History, receipt: bytes) -> None:
    """Compare a stored receipt with the entries that charge and store it.

    Raises
    ------
    LedgerCorruptError
        Names the entry whose receipt says something else.
    """
    wanted, committed = reservation.wanted, history.commitments[reservation.release_id]
    try:
        said = json.loads(receipt)
    except ValueError:
        said = {}
    follows: dict[str, Any] = {
        "release_id": reservation.release_id.hex(),
        "n_rows": committed.n_rows,
        "ledger_sequence": reservation.sequence,
        "mechanism": wanted.mechanism,
        "epsilon": decimal_text(wanted.epsilon),
        "delta": decimal_text(wanted.delta),
        "charged_epsilon": decimal_text(wanted.charge.epsilon),
        "charged_rho": decimal_text(wanted.charge.rho),
    }
    if not wanted.model:
        follows |= {
            "study_digest": wanted.study_digest,
            "payload_sha256": committed.payload_sha256,
        }
    wrong = [key for key, value in follows.items() if said.get(key) != value]
    if wrong:
        raise damaged(committed.sequence, f"its receipt says otherwise in {', '.join(wrong)}")


def check_implied(study: Study, reservation: Reservation, receipt: bytes) -> None:
    """Compute a contribution's sensitivity and noise anew; `LedgerCorruptError` if they differ."""
    try:
        require_implied(study, receipt, owner="this site")
    except (ReceiptError, ArtefactError) as error:
        raise damaged(reservation.sequence, str(error)) from error


@dataclass(frozen=True, slots=True)
class Planned:
    """What one further release would leave; None where no finite epsilon describes it.

    Attributes
    ----------
    fits
        How often it could be made from where it stands, at most `MOST_FITTING`.
    """

    what: str
    charged_epsilon: str
    charged_rho: str
    admitted: bool
    spent: str | None
    remaining: str | None
    fits: int

    def to_document(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)


def plan(budget: Budget, total: Charge, wanted: Iterable[tuple[str, Charge]]) -> list[Planned]:
    """One release after the other; one that is refused charges nothing."""
    found = []
    for what, charge in wanted:
        fits = fitting(budget, total, charge)
        if fits:
            total = total + charge
        finite = not _has_no_epsilon(budget, total)
        found.append(
            Planned(
                what=what,
                charged_epsilon=decimal_text(charge.epsilon),
                charged_rho=decimal_text(charge.rho),
                admitted=fits > 0,
                spent=decimal_text(budget.spent(total)) if finite else None,
                remaining=decimal_text(budget.remaining(total)) if finite else None,
                fits=fits,
            )
        )
    return found


def fitting(budget: Budget, total: Charge, charge: Charge) -> int:
    """How many releases at a charge a budget admits after a total, at most `MOST_FITTING`."""

    def admits(number: int) -> bool:
        amount = Decimal(number)
        many = Charge(
            epsilon=_EXACT.multiply(charge.epsilon, amount),
            rho=_EXACT.multiply(charge.rho, amount),
        )
        whole = total + many
        return not _has_no_epsilon(budget, whole) and budget.admits(whole)

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


def _has_no_epsilon(budget: Budget, total: Charge) -> bool:
    return total.rho > 0 and budget.delta == 0
