"""``dppca-curator owner``: what was seen of an owner's ledger, and setting it aside."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import click

from dppca.common.console import CommandGroup, emit, prints, terminal_width
from dppca.common.documents import DigestText, Document, TimeText
from dppca.common.tables import text_table
from dppca.curator.commands.options import as_operator, connection, time_text

if TYPE_CHECKING:
    from dppca.curator.operator.client import SeenOwner, SettlementLine


class ListedContribution(TypedDict):
    """A contribution, and the ledger that came with it."""

    study: Annotated[str, "name of the study"]
    received_s: Annotated[int, "when it was received, seconds since 1970 UTC"]
    ledger_length: Annotated[int, "entries of the ledger"]
    ledger_head: Annotated[DigestText, "SHA-256 of the ledger's last entry"]
    received: Annotated[TimeText, "when it was received"]


class SettledLedger(TypedDict):
    """A ledger that was set aside."""

    settled_s: Annotated[int, "when, seconds since 1970 UTC"]
    by: Annotated[str, "the operator, or the owner itself"]
    reason: Annotated[str, "why"]
    seen_length: Annotated[int, "entries of the ledger that was set aside"]
    seen_head: Annotated[DigestText, "SHA-256 of its last entry"]
    ledger_length: Annotated[int, "entries of the ledger that follows; 0 if none was named"]
    ledger_head: Annotated[DigestText, "SHA-256 of its last entry; empty if none was named"]
    settled: Annotated[TimeText, "when"]


class OwnerDocument(Document):
    """What a curator has seen of an owner's ledger."""

    owner: Annotated[str, "name of the owner"]
    ledger_length: Annotated[int, "entries of the ledger seen last; 0 if none counts"]
    ledger_head: Annotated[DigestText, "SHA-256 of its last entry; empty if none counts"]
    contributions: Annotated[list[ListedContribution], "contributions of the owner"]
    settlements: Annotated[list[SettledLedger], "ledgers that were set aside"]


class SettlementDocument(Document, SettledLedger):
    """A ledger that was set aside by the command."""

    owner: Annotated[str, "name of the owner"]


@click.group(cls=CommandGroup)
def owner() -> None:
    """Show or settle an owner's ledger as the curator has seen it; needs an operator's certificate.

    \b
    Example:
      dppca-curator owner show hospital
      dppca-curator owner settle hospital --reason "Key stolen on 3 May, revoked."
    """


@owner.command()
@click.argument("name")
@connection
@prints(OwnerDocument)
def show(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show contributions of owner NAME, the ledger that came with each, and what was settled.

    \b
    Example:
      dppca-curator owner show hospital --json
    """
    with as_operator(curator, credentials) as client:
        seen = client.show_owner(name)
    document: OwnerDocument = {
        "command": "owner show",
        "owner": name,
        "ledger_length": seen.ledger_length,
        "ledger_head": seen.ledger_head,
        "contributions": [
            {
                "study": each.study,
                "received_s": each.received_s,
                "ledger_length": each.ledger_length,
                "ledger_head": each.ledger_head,
                "received": time_text(each.received_s),
            }
            for each in seen.contributions
        ],
        "settlements": [_line(each) for each in seen.settlements],
    }
    emit(document, _describe(name, seen, width=terminal_width()), as_json=as_json)


@owner.command()
@click.argument("name")
@click.option("--reason", required=True, help="Kept permanently; at most 200 characters.")
@connection
@prints(SettlementDocument)
def settle(name: str, reason: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Set aside the ledger that was seen of owner NAME, so that its next contribution is taken.

    For a site whose key was stolen: revoke the old certificate first. Contributions stay in their
    studies; abort a study whose contribution is a stranger's. A site that lost its ledger needs no
    operator: its steward runs `dppca-owner ledger recover`.

    \b
    Example:
      dppca-curator owner settle hospital --reason "Key stolen on 3 May, revoked."
    """
    with as_operator(curator, credentials) as client:
        settled = client.settle_ledger(name, reason)
    document: SettlementDocument = {"command": "owner settle", "owner": name, **_line(settled)}
    text = (
        f"Owner {name}: the ledger of {settled.seen_length} entries that was seen is set aside "
        f"({time_text(settled.settled_s)}, by {settled.by})."
    )
    emit(document, text, as_json=as_json)


def _line(settled: SettlementLine) -> SettledLedger:
    return {
        "settled_s": settled.settled_s,
        "by": settled.by,
        "reason": settled.reason,
        "seen_length": settled.seen_length,
        "seen_head": settled.seen_head,
        "ledger_length": settled.ledger_length,
        "ledger_head": settled.ledger_head,
        "settled": time_text(settled.settled_s),
    }


def _describe(name: str, seen: SeenOwner, *, width: int | None) -> str:
    lines = [
        f"Owner {name}: the ledger seen last has {seen.ledger_length} entries."
        if seen.ledger_length
        else f"Owner {name}: no ledger counts as seen."
    ]
    rows = [
        (each.study, time_text(each.received_s), str(each.ledger_length))
        for each in seen.contributions
    ]
    if rows:
        lines += text_table(("study", "received", "ledger's entries"), rows, width=width)
    for settled in seen.settlements:
        follows = f", {settled.ledger_length} follow" if settled.ledger_length else ""
        lines.append(
            f"  settled {time_text(settled.settled_s)} by {settled.by}: {settled.seen_length} "
            f"entries set aside{follows}. {settled.reason}"
        )
    return "\n".join(lines)
