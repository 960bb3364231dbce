"""``dppca-curator owner``: show or set aside the ledger that the curator has seen of an owner."""

from pathlib import Path

import click

from dppca.common.kernel.documents.counts import many
from dppca.common.kernel.documents.tables import text_table
from dppca.common.shell.console import CommandGroup, emit, prints, terminal_width
from dppca.curator.commands.options import as_operator, connection
from dppca.curator.operator.responses import SeenOwner, SettledLedger


@click.group(cls=CommandGroup)
def owner() -> None:
    """Show or settle an owner's ledger as the curator has seen it.

    Needs an operator's certificate.

    \b
    Example:
      dppca-curator owner show hospital
      dppca-curator owner settle hospital --reason "Key stolen on 3 May, revoked."
    """


@owner.command()
@click.argument("name")
@connection
@prints(SeenOwner)
def show(name: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Show contributions of owner NAME, each with the ledger it came with.

    What was settled is shown, too.

    \b
    Example:
      dppca-curator owner show hospital --json
    """
    with as_operator(curator, credentials) as client:
        seen = client.show_owner(name)
    emit(seen, _describe(name, seen, width=terminal_width()), as_json=as_json)


@owner.command()
@click.argument("name")
@click.option("--reason", required=True, help="Kept permanently; at most 200 characters.")
@connection
@prints(SettledLedger)
def settle(name: str, reason: str, curator: str, credentials: Path, *, as_json: bool) -> None:
    """Set aside the ledger of owner NAME, and take its next contribution.

    For a site whose key was stolen: revoke the old certificate first. Contributions stay in their
    studies; abort a study whose contribution is a stranger's. A site that lost its ledger needs no
    operator: its steward runs `dppca-owner ledger recover`.

    \b
    Example:
      dppca-curator owner settle hospital --reason "Key stolen on 3 May, revoked."
    """
    with as_operator(curator, credentials) as client:
        settled = client.settle_ledger(name, reason)
    text = (
        f"Owner {name}: the ledger of {many(settled.seen_length, 'entries')} that was seen is "
        f"set aside ({settled.settled.isoformat()}, by {settled.by})."
    )
    emit(settled, text, as_json=as_json)


def _describe(name: str, seen: SeenOwner, *, width: int | None) -> str:
    lines = [
        f"Owner {name}: the ledger seen last has {many(seen.ledger_length, 'entries')}."
        if seen.ledger_length
        else f"Owner {name}: no ledger counts as seen."
    ]
    if not (seen.ledger_length or seen.contributions or seen.settlements):
        lines[0] += (
            " It has sent nothing, or has another name: `dppca-curator study show` lists them."
        )
    rows = [
        (each.study, each.received.isoformat(), str(each.ledger_length))
        for each in seen.contributions
    ]
    if rows:
        lines += text_table(("study", "received", "ledger's entries"), rows, width=width)
    for settled in seen.settlements:
        follows = f", {settled.ledger_length} follow" if settled.ledger_length else ""
        lines.append(
            f"  settled {settled.settled.isoformat()} by {settled.by}: {settled.seen_length} "
            f"entries set aside{follows}. {settled.reason}"
        )
    return "\n".join(lines)
